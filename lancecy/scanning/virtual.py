"""Virtual columns: row id, row address, row offset, and the versions that created and last updated a row.

No file holds them. A scan computes their values from the position of rows. Metadata answers filters on them:
comparisons with constants, IN, AND, OR and NOT become ranges of rows, exactly and before a data file is opened.
Conditions that also involve stored columns prune page by page, with the bounds of the virtual values. Row offsets
depend on the deletions of all fragments before: conditions on them are tested row by row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lancecy.errors import FormatError
from lancecy.expr.nodes import Call, Column, Expr, Literal
from lancecy.rows import RowSelection
from lancecy.scanning.request import ROW_OFFSET
from lancecy.stats import ColumnStats, NumericBounds
from lancecy.table.manifest import Fragment
from lancecy.table.rows.id_search import OPERATORS, bounds, rows_among, rows_where
from lancecy.table.rows.row_ids import RangeSegment, RowIdSequence, VersionSequence, row_ids
from lancecy.table.snapshot import Snapshot

__all__ = ["is_selectable", "selected_rows", "virtual_stats", "virtual_values"]

Int64: TypeAlias = NDArray[np.int64]
UInt64: TypeAlias = NDArray[np.uint64]
Path: TypeAlias = tuple[str, ...]


# -- values ---------------------------------------------------------------------------


def virtual_values(
    snapshot: Snapshot, fragment: Fragment, num_rows: int, name: str, offsets: Int64
) -> UInt64:
    """Values of a virtual column for some rows of a fragment.

    Parameters
    ----------
    snapshot : Snapshot
    fragment : Fragment
    num_rows : int
        Its physical rows.
    name : str
        One of ``VIRTUAL_COLUMNS`` but ``ROW_OFFSET``, which ``ScanContext.row_offsets`` makes.
    offsets : (n,) int64
        Physical row offsets, in any order.

    Returns
    -------
    (n,) uint64

    Raises
    ------
    FormatError
        The table has another number of ids or versions than the fragment has rows.
    """
    if name not in {"_rowid", "_rowaddr"}:
        return _sequence(snapshot, fragment, num_rows, name).take(offsets)
    addresses = offsets.astype(np.uint64) + (np.uint64(fragment.stored_id) << np.uint64(32))
    return addresses if name == "_rowaddr" else row_ids(snapshot, fragment, offsets, addresses)


def _sequence(
    snapshot: Snapshot, fragment: Fragment, num_rows: int, name: str
) -> RowIdSequence | VersionSequence:
    """All values of a virtual column of a fragment, compact."""
    found: RowIdSequence | VersionSequence | None
    if name == "_rowid" and snapshot.manifest.has_stable_row_ids:
        found = snapshot.row_ids(fragment)
        if found is None:
            raise FormatError(f"fragment {fragment.id} of a table with stable row ids has no row ids")
    elif name in {"_rowid", "_rowaddr"}:
        first = fragment.stored_id << 32
        found = RowIdSequence((RangeSegment(first, first + num_rows),), np.array([0, num_rows], np.int64))
    elif name == "_row_created_at_version":
        found = snapshot.created_versions(fragment)
    else:
        found = snapshot.updated_versions(fragment)
    if found is None:
        return VersionSequence.constant(1, num_rows)
    if len(found) != num_rows:
        raise FormatError(f"{len(found)} values of {name} for the {num_rows} rows of fragment {fragment.id}")
    return found


# -- filters --------------------------------------------------------------------------


def is_selectable(expr: Expr, names: frozenset[str]) -> bool:
    """Whether :func:`selected_rows` can answer a bound condition.

    Parameters
    ----------
    expr : Expr
    names : frozenset of str
        ``VIRTUAL_COLUMNS`` that no stored column hides, without ``ROW_OFFSET``.
    """
    if not isinstance(expr, Call):
        return False
    if expr.op in {"and", "or", "not"}:
        return all(is_selectable(arg, names) for arg in expr.args)
    if expr.op != "in" and expr.op not in OPERATORS:
        return False
    tested, constant = expr.args
    if not isinstance(tested, Column) or tested.path[0] not in names or not isinstance(constant, Literal):
        return False
    values = constant.value if isinstance(constant.value, tuple) else (constant.value,)
    return all(isinstance(value, int) and not isinstance(value, bool) for value in values)


def selected_rows(
    snapshot: Snapshot, fragment: Fragment, num_rows: int, where: Iterable[Expr]
) -> RowSelection:
    """Rows of a fragment for which some conditions are true, deleted rows included.

    Parameters
    ----------
    snapshot : Snapshot
    fragment : Fragment
    num_rows : int
        Its physical rows.
    where : iterable of Expr
        Each :func:`is_selectable`.

    Raises
    ------
    FormatError
        The table has another number of ids or versions than the fragment has rows.
    """
    sequences: dict[str, RowIdSequence | VersionSequence] = {}

    def rows(expr: Expr) -> RowSelection:
        if not isinstance(expr, Call):
            raise TypeError(f"{expr!r} is not a condition on virtual columns")
        if expr.op == "not":
            return _complement(rows(expr.args[0]))
        if expr.op == "and":
            return _all_of(num_rows, (rows(arg) for arg in expr.args))
        if expr.op == "or":
            return _complement(_all_of(num_rows, (_complement(rows(arg)) for arg in expr.args)))
        name = expr.args[0].path[0]  # type: ignore[attr-defined]
        if name not in sequences:
            sequences[name] = _sequence(snapshot, fragment, num_rows, name)
        return RowSelection(num_rows, *_matches(sequences[name], expr))

    return _all_of(num_rows, (rows(expr) for expr in where))


def _matches(sequence: RowIdSequence | VersionSequence, call: Call) -> tuple[Int64, Int64]:
    value = call.args[1].value  # type: ignore[attr-defined]
    if call.op == "in":
        return rows_among(sequence, np.unique(np.array(value, np.uint64)))
    return rows_where(sequence, call.op, value)


def _all_of(num_rows: int, selections: Iterable[RowSelection]) -> RowSelection:
    found: RowSelection | None = None
    for selection in selections:
        found = selection if found is None else found.intersect(selection)
    return RowSelection.all(num_rows) if found is None else found


def _complement(rows: RowSelection) -> RowSelection:
    """The other rows; both are ranges."""
    nothing = np.empty(0, np.int64)
    first, last = (nothing if side is None else side for side in (rows.starts, rows.stops))
    starts, stops = np.append(np.zeros(1, np.int64), last), np.append(first, rows.num_rows)
    some = stops > starts
    return RowSelection(rows.num_rows, starts[some], stops[some])


# -- statistics -----------------------------------------------------------------------


def virtual_stats(
    snapshot: Snapshot, fragment: Fragment, num_rows: int, names: Sequence[str], edges: Int64
) -> dict[Path, ColumnStats]:
    """Bounds of virtual columns in consecutive groups of rows, as for ``StatsTable``.

    Parameters
    ----------
    snapshot : Snapshot
    fragment : Fragment
    num_rows : int
        Its physical rows.
    names : sequence of str
        Among ``VIRTUAL_COLUMNS``; nothing is known about ``ROW_OFFSET``.
    edges : (num_groups + 1,) int64, ascending
        First row of each group, and the end of the last.

    Raises
    ------
    FormatError
        The table has another number of ids or versions than the fragment has rows.
    """
    filled = edges[:-1] < edges[1:]
    never = np.zeros(filled.size, np.bool_)
    found: dict[Path, ColumnStats] = {}
    for name in names:
        if name == ROW_OFFSET:
            continue
        lows, highs = bounds(_sequence(snapshot, fragment, num_rows, name), edges)
        found[name,] = ColumnStats(NumericBounds(lows, highs, filled), ~never, never)
    return found
