"""The history of a table with its branches and tags, as values and as a picture in text (``history_versions`` reads it)."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from lancecy.changes.log import LogEntry
from lancecy.errors import printable
from lancecy.inspection.lanes import Lanes
from lancecy.records import dataclass
from lancecy.table.refs import MAIN

__all__ = ["GraphVersion", "HistoryGraph"]

_MOST_LABELS = 6
_MOST_PROBLEMS = 20


@dataclass(frozen=True, slots=True)
class GraphVersion:
    """One version in the history of a table.

    Attributes
    ----------
    branch : str
        "main" for the table without a branch.
    version : int
    tags : tuple of str
        Those that name it.
    is_newest, is_oldest : bool
        Whether it is the newest or the oldest version of its branch.
    start : (str, int) or None
        Of the oldest version of a branch: the branch and the version that it was made from.
    is_joined : bool
        Whether the version in ``start`` is part of the history too.
    entry : LogEntry or None
        What made it; None if its manifest cannot be read.
    damage : str or None
        Why it cannot be read.
    """

    branch: str
    version: int
    tags: tuple[str, ...]
    is_newest: bool
    is_oldest: bool
    start: tuple[str, int] | None = None
    is_joined: bool = False
    entry: LogEntry | None = None
    damage: str | None = None


@dataclass(frozen=True, repr=False)
class HistoryGraph:
    """The history of a table with its branches and tags, made by :meth:`lancecy.Dataset.history_graph`.

    Its text is a picture: a row for each version, and a column for each branch.

    Attributes
    ----------
    uri : str
        Of the main table.
    versions : tuple of GraphVersion
        Newest first; each is before the versions that it was made from.
    is_complete : bool
        False if there are older versions, beyond the limit.
    problems : tuple of str
        Tags and branches that are damaged, or not shown.
    """

    uri: str
    versions: tuple[GraphVersion, ...]
    is_complete: bool = True
    problems: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    def drawn(self) -> Iterator[tuple[str, GraphVersion | None]]:
        """Rows of the picture: the columns of branches, and the version beside them; None where branches part."""
        lanes = Lanes(MAIN)
        ending: dict[tuple[str, int], list[str]] = {}
        for version in self.versions:
            ended = ending.pop((version.branch, version.version), [])
            if ended:
                yield lanes.joined(version.branch, ended), None
            yield lanes.row(version.branch, "●" if version.entry else "×"), version
            if version.start is not None and version.is_joined:
                ending.setdefault(version.start, []).append(version.branch)
            elif version.is_oldest:
                lanes.end(version.branch)

    def __str__(self) -> str:
        rows = [(graph, () if version is None else _cells(version)) for graph, version in self.drawn()]
        graph_width = max((len(graph) for graph, _ in rows), default=0)
        columns = zip(*(cells for _, cells in rows if cells), strict=True)
        # What comes last is not aligned.
        widths = [max(map(len, column)) for column in columns][:-1]
        lines = [f"{graph:<{graph_width}}  {_aligned(cells, widths)}".rstrip() for graph, cells in rows]
        if not self.is_complete:
            lines.append(f"… older versions are not shown: the limit is {len(self.versions):,}")
        lines += [f"! {problem}" for problem in self.problems[:_MOST_PROBLEMS]]
        if len(self.problems) > _MOST_PROBLEMS:
            lines.append(f"! … and {len(self.problems) - _MOST_PROBLEMS:,} more")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


_IS_RIGHT = (True, False, False, True, False)
"""Whether a cell is aligned to the right: version, time, operation, rows, change."""


def _cells(version: GraphVersion) -> tuple[str, ...]:
    entry = version.entry
    told = [_labels(version), _started(version)]
    if entry is None:
        return (str(version.version), "", "", "", "", _joined([*told, f"cannot be read: {version.damage}"]))
    change = ""
    # The rows of a branch's first version are its parent's.
    if version.start is None:
        told.append(entry.details)
        counts = (("+", entry.rows_added), ("-", entry.rows_removed))
        change = " ".join(f"{sign}{count:,}" for sign, count in counts if count)
    return (
        str(version.version),
        "" if entry.timestamp is None else f"{entry.timestamp:%Y-%m-%d %H:%M:%S}",
        printable(entry.operation or "unknown"),
        "" if entry.rows is None else f"{entry.rows:,} rows",
        change,
        _joined([*told, "" if entry.message is None else repr(printable(entry.message))]),
    )


def _labels(version: GraphVersion) -> str:
    tags = [f"tag: {name}" for name in version.tags[:_MOST_LABELS]]
    if len(version.tags) > _MOST_LABELS:
        tags.append(f"{len(version.tags) - _MOST_LABELS:,} more tags")
    names = [version.branch, *tags] if version.is_newest else tags
    return f"({', '.join(names)})" if names else ""


def _started(version: GraphVersion) -> str:
    if version.start is None:
        return ""
    parent, number = version.start
    return f"from version {number} of {parent}" + ("" if version.is_joined else ", which is not shown")


def _joined(texts: Iterable[str]) -> str:
    return "  ".join(printable(text) for text in texts if text)


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    if not cells:
        return ""
    parts = [
        f"{text:>{width}}" if is_right else f"{text:<{width}}"
        for text, width, is_right in zip(cells[:-1], widths, _IS_RIGHT, strict=True)
    ]
    return "  ".join([*parts, cells[-1]])
