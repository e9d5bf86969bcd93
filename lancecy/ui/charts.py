"""Numbers as shapes: widths of bars and points of lines. The templates draw them as SVG, with attributes and classes only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from lancecy.records import dataclass

__all__ = [
    "LINE_HEIGHT",
    "LINE_WIDTH",
    "Bar",
    "GraphRow",
    "Strip",
    "bars",
    "graph_row",
    "line_points",
    "strips",
]

LINE_WIDTH, LINE_HEIGHT = 120, 24
_MOST_POINTS = 96
_FEWEST_STRIPS, _MOST_STRIPS = 16, 240


@dataclass(frozen=True)
class Bar:
    """A bar of a list of bars.

    Attributes
    ----------
    name, text : str
        What it is, and its value for people.
    share : float
        Its length as a percentage of the longest one.
    tone : int
        Number of its colour.
    """

    name: str
    text: str
    share: float
    tone: int = 0


@dataclass(frozen=True)
class Strip:
    """A column of a chart of many values side by side.

    Attributes
    ----------
    x, width : float
        In percent.
    height, lost : float
        The value, and the part of it that is marked, in percent of the greatest value.
    tone : int
        Number of its colour.
    text : str
    """

    x: float
    width: float
    height: float
    lost: float
    tone: int
    text: str


def line_points(values: NDArray[np.float64]) -> str:
    """The points of a line through some values, as SVG has them; "" if none is finite.

    Parameters
    ----------
    values : (n,) float64
        Means of neighbours are drawn where there are more than the line has points.

    Examples
    --------
    >>> line_points(np.array([0.0, 1.0, 0.0]))
    '0.0,22.0 60.0,2.0 120.0,22.0'
    """
    finite = np.isfinite(values)
    if not finite.any():
        return ""
    # Infinities of either kind leave the line, and do not flatten it.
    clean = np.where(finite, values, np.nan)
    parts = np.array_split(clean, min(_MOST_POINTS, len(clean)))
    means = [float(np.nanmean(part)) if np.isfinite(part).any() else 0.0 for part in parts]
    low, high = min(means), max(means)
    span = high - low
    if not np.isfinite(span) or span <= 0:
        scaled = [0.5] * len(means)
    else:
        scaled = [(mean - low) / span for mean in means]
    step = LINE_WIDTH / max(1, len(scaled) - 1)
    usable = LINE_HEIGHT - 4
    return " ".join(
        f"{number * step:.1f},{2 + usable * (1 - value):.1f}" for number, value in enumerate(scaled)
    )


def bars(rows: Sequence[tuple[str, float, str]], tones: Sequence[int] = ()) -> list[Bar]:
    """Bars for names, values and texts.

    Parameters
    ----------
    rows : sequence of (str, float, str)
    tones : sequence of int
        Colours; the first one for all if there are none.

    Examples
    --------
    >>> [bar.share for bar in bars([("a", 1, "1"), ("b", 4, "4")])]
    [25.0, 100.0]
    """
    most = max((value for _, value, _ in rows), default=0) or 1
    return [
        Bar(name, text, round(100 * value / most, 2), tones[number] if tones else 0)
        for number, (name, value, text) in enumerate(rows)
    ]


def strips(
    values: Sequence[float], lost: Sequence[float], tones: Sequence[int], texts: Sequence[str]
) -> list[Strip]:
    """Columns for many values; of neighbours that have no room the greatest is shown.

    Parameters
    ----------
    values, lost : sequences of float
    tones : sequence of int
    texts : sequence of str

    Examples
    --------
    >>> [(strip.x, strip.height) for strip in strips([1, 2], [0, 1], [0, 0], ["", ""])]
    [(0.0, 50.0), (6.25, 100.0)]
    """
    most = max(values, default=0) or 1
    return [
        Strip(
            round(100 * slot / count, 3),
            round(100 / count, 3),
            round(100 * values[one] / most, 2),
            round(100 * lost[one] / most, 2),
            tones[one],
            texts[one],
        )
        for slot, one, count in _chosen(values)
    ]


def _chosen(values: Sequence[float]) -> Iterator[tuple[int, int, int]]:
    """Slot, position of the value that is shown there, and number of slots."""
    count = min(len(values), _MOST_STRIPS)
    # Few values are no wider than many.
    slots = max(count, _FEWEST_STRIPS)
    for slot in range(count):
        start, stop = slot * len(values) // count, (slot + 1) * len(values) // count
        yield slot, max(range(start, stop), key=values.__getitem__), slots


# -- the picture of a history -------------------------------------------------------------------------

_SIDES = {
    "│": "ud",
    "├": "udr",
    "┤": "udl",
    "┼": "udlr",
    "╯": "ul",
    "╰": "ur",
    "┴": "ulr",
    "╭": "dr",
    "╮": "dl",
    "┬": "dlr",
    "─": "lr",
}
_CELL, _NODES = 9, "●×"


@dataclass(frozen=True)
class GraphRow:
    """A row of the picture of a history.

    Attributes
    ----------
    width, height : int
    path : str
        Its lines, as SVG has them.
    node : int or None
        Where the version is; None if branches part here.
    tone : int
        Number of the version's colour.
    """

    width: int
    height: int
    path: str
    node: int | None
    tone: int


def graph_row(drawing: str, height: int, is_first: bool = False, is_last: bool = False) -> GraphRow:
    """A row of a picture that is drawn with characters, as lines.

    Parameters
    ----------
    drawing : str
        As :meth:`lancecy.changes.history_graph.HistoryGraph.drawn` gives it.
    height : int
    is_first, is_last : bool
        Whether the line of the version begins, or ends, at it.

    Examples
    --------
    >>> graph_row("│ ●", 20).node, graph_row("├─╯", 20).path
    (27, 'M9 0V20M9 10H13.5M13.5 10H22.5M27 0Q27 10 22.5 10')
    """
    middle, parts, node, tone = height // 2, [], None, 0
    for number, character in enumerate(drawing):
        x = _CELL * (number + 1)
        if character in _NODES:
            node, tone = x, number // 2 % 8
            if not (is_first and is_last):
                parts.append(f"M{x} {middle if is_first else 0}V{middle if is_last else height}")
        elif character in _SIDES:
            parts.append(_lines(_SIDES[character], x, middle, height))
    return GraphRow(_CELL * (len(drawing) + 1), height, "".join(parts), node, tone)


def _lines(sides: str, x: int, middle: int, height: int) -> str:
    left, right = f"{x - _CELL / 2:g}", f"{x + _CELL / 2:g}"
    if len(sides) == 2 and sides not in ("ud", "lr"):
        # A bend: from above or below to one side.
        return f"M{x} {0 if 'u' in sides else height}Q{x} {middle} {left if 'l' in sides else right} {middle}"
    upright = f"M{x} {0 if 'u' in sides else middle}V{height if 'd' in sides else middle}"
    parts = [upright] if "u" in sides or "d" in sides else []
    if "l" in sides:
        parts.append(f"M{left} {middle}H{right if 'r' in sides else x}")
    elif "r" in sides:
        parts.append(f"M{x} {middle}H{right}")
    return "".join(parts)
