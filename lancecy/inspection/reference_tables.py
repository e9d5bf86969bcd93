"""Tags and branches as tables in text and HTML, for terminals and notebooks."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from lancecy.errors import LanceError, printable
from lancecy.records import dataclass
from lancecy.table.refs import MAIN
from lancecy.table.refs.readable import ReadableRefs

__all__ = ["ReferenceTable", "branch_table", "tag_table", "unlisted"]

_MOST_ROWS = 50
_LONGEST = 80


@dataclass(frozen=True, slots=True)
class ReferenceTable:
    """A table of tags or branches.

    Attributes
    ----------
    title : str
    header : tuple of str
    rows : tuple of tuples of str
        Fit for a terminal.
    notes : tuple of str
        What cannot be shown.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()

    def to_text(self) -> str:
        """The table with aligned columns."""
        shown = (self.header, *self.rows[:_MOST_ROWS]) if self.rows else ()
        widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
        lines = ["  ".join(f"{t:<{w}}" for t, w in zip(row, widths, strict=True)) for row in shown]
        return "\n".join([self.title, *(f"  {text.rstrip()}" for text in (*lines, *self._notes()))])

    def to_html(self) -> str:
        """The table for notebooks."""
        cell = "<{0} style='text-align:left'>{1}</{0}>"
        rows = [
            "".join(cell.format(kind, html.escape(text)) for text in row)
            for kind, row in [("th", self.header), *(("td", row) for row in self.rows[:_MOST_ROWS])]
        ]
        table = "".join(f"<tr>{row}</tr>" for row in rows) if self.rows else ""
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self._notes())
        return f"<div><strong>{html.escape(self.title)}</strong><table>{table}</table><ul>{notes}</ul></div>"

    def _notes(self) -> list[str]:
        more = len(self.rows) - _MOST_ROWS
        return [*([f"… and {more:,} more"] if more > 0 else []), *self.notes[:_MOST_ROWS]]


def tag_table(uri: str, refs: ReadableRefs) -> ReferenceTable:
    """The tags of a table.

    Parameters
    ----------
    uri : str
    refs : ReadableRefs
    """
    rows = [
        (name, str(tag.version), tag.branch or MAIN, _time(tag.updated_ns), _texts(tag.metadata))
        for name, tag in refs.tags.items()
    ]
    return _table(uri, "tag", ("version", "branch", "updated (UTC)", "metadata"), rows, refs)


def branch_table(uri: str, refs: ReadableRefs) -> ReferenceTable:
    """The branches of a table; parameters as of :func:`tag_table`."""
    rows = [
        (
            name,
            f"version {branch.parent_version} of {branch.parent or MAIN}",
            _time(branch.created_s * 1_000_000_000),
            _texts(branch.metadata),
        )
        for name, branch in refs.branches.items()
    ]
    return _table(uri, "branch", ("from", "created (UTC)", "metadata"), rows, refs)


def unlisted(kind: str, uri: str, error: LanceError) -> ReferenceTable:
    """A table that says why there are no rows.

    Parameters
    ----------
    kind : str
        "tags" or "branches".
    uri : str
    error : LanceError
    """
    return ReferenceTable(f"{kind} of {printable(uri)}", (), notes=(f"cannot be listed: {error}",))


def _table(
    uri: str, kind: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]], refs: ReadableRefs
) -> ReferenceTable:
    plural = kind + ("es" if kind.endswith("h") else "s")
    title = f"{len(rows):,} {kind if len(rows) == 1 else plural} of {printable(uri)}"
    shown = tuple(tuple(map(_short, row)) for row in rows)
    return ReferenceTable(title, (kind, *header), shown, tuple(refs.damaged.values()))


def _short(text: str) -> str:
    shown = printable(text)
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"


def _texts(values: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in values.items())


def _time(time_ns: int | None) -> str:
    if time_ns is None:
        return "unknown"
    try:
        return f"{datetime.fromtimestamp(time_ns // 1_000_000_000, UTC):%Y-%m-%d %H:%M:%S}"
    except (OverflowError, OSError, ValueError):
        return "unknown"
