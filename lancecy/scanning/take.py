"""Random access: rows by their number or by their id, in the requested order.

Row numbers count live rows in table order, as in pylance's ``take``; row ids name rows wherever they are. Rows are
grouped by fragment, each fragment's columns are read for its rows alone, and the result is put back into the
caller's order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from lancecy.encodings.arrow.columns import taken
from lancecy.errors import RowNotFoundError
from lancecy.rows import RowSelection
from lancecy.scanning.batches import table_of
from lancecy.scanning.context import ScanContext
from lancecy.scanning.engine import Pieces, rows_of
from lancecy.scanning.locate import as_row_ids, find_rows
from lancecy.scanning.project import Projection
from lancecy.scanning.units import Apart, FilteredUnit, Together

__all__ = ["Indices", "as_row_numbers", "take_row_ids", "take_rows"]

Int64 = NDArray[np.int64]


class SupportsArray(Protocol):
    """An array of NumPy, pandas or Arrow."""

    def __array__(self) -> Any:
        """The values as NumPy has them."""


Indices: TypeAlias = "Sequence[int] | SupportsArray"
"""Numbers of rows."""

# Passing a few hundred rows to another thread costs more than reading them.
_FEW_VALUES = 200_000


def as_row_numbers(indices: object, num_rows: int) -> Int64:
    """Row numbers as int64, each checked to be in ``0 .. num_rows - 1``.

    Raises
    ------
    RowNotFoundError
        A row number is negative or beyond the table.
    TypeError
        Not integers.
    """
    if isinstance(indices, pa.Array | pa.ChunkedArray):
        if indices.null_count:
            raise TypeError("row numbers must not be null")
        indices = (
            indices.to_numpy()
            if isinstance(indices, pa.ChunkedArray)
            else indices.to_numpy(zero_copy_only=False)
        )
    rows = np.asarray(indices)
    if rows.size == 0:
        return np.empty(0, np.int64)
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise TypeError(f"row numbers must be a list of integers, not {rows.dtype} of {rows.ndim} dimensions")
    low, high = int(rows.min()), int(rows.max())
    if low < 0 or high >= num_rows:
        bad = low if low < 0 else high
        raise RowNotFoundError(f"row {bad} does not exist: the table has {num_rows} rows")
    return np.ascontiguousarray(rows, dtype=np.int64)


def take_rows(context: ScanContext, projection: Projection, indices: ArrayLike | pa.Array) -> pa.Table:
    """Read the rows with these numbers.

    Parameters
    ----------
    indices : (n,) integers
        In any order, duplicates allowed.

    Raises
    ------
    RowNotFoundError, TypeError
        See :func:`as_row_numbers`.
    """
    starts = context.row_starts()
    rows = as_row_numbers(indices, int(starts[-1]))
    # Files are read front to back: faster for many rows, and fewer requests in object stores.
    ascending = bool(np.all(rows[1:] >= rows[:-1]))
    order = None if ascending else np.argsort(rows, kind="stable")
    chosen = _by_fragment(context, starts, rows if order is None else rows[order])
    table = table_of(projection.schema, _read(context, projection, chosen), rows.size)
    return table if order is None else _in_order(table, order)


def take_row_ids(context: ScanContext, projection: Projection, row_ids: ArrayLike | pa.Array) -> pa.Table:
    """Read the living rows with these ids.

    Parameters
    ----------
    row_ids : (n,) integers
        In any order, duplicates allowed.

    Raises
    ------
    RowNotFoundError, FormatError
        See :func:`lancecy.scanning.locate.find_rows`.
    TypeError
        See :func:`lancecy.scanning.locate.as_row_ids`.
    """
    found = find_rows(context, as_row_ids(row_ids))
    asked = np.concatenate([rows.asked for rows in found] or [np.empty(0, np.int64)])
    chosen = []
    for rows in found:
        selection = RowSelection.take(rows.files.num_rows, rows.offsets)
        chosen.append(FilteredUnit(rows.files, selection, selection))
    table = table_of(projection.schema, _read(context, projection, chosen), asked.size)
    return _in_order(table, asked)


def _in_order(table: pa.Table, asked: Int64) -> pa.Table:
    """Rows in the requested order; ``asked`` is the position of each in the request."""
    if not table.num_columns or bool(np.all(asked[1:] > asked[:-1])):
        return table
    order = np.argsort(asked)
    return pa.Table.from_arrays([taken(c, order) for c in table.columns], schema=table.schema)


def _by_fragment(context: ScanContext, starts: Int64, rows: Int64) -> list[FilteredUnit]:
    """One selection per fragment that has any of the (ascending) rows."""
    edges = np.searchsorted(rows, starts)
    used = np.flatnonzero(np.diff(edges)).tolist()
    chosen = []
    for index, files in zip(
        used, context.several_files([context.fragments[i].id for i in used]), strict=True
    ):
        local = files.physical(rows[edges[index] : edges[index + 1]] - starts[index])
        selection = RowSelection.take(files.num_rows, local)
        chosen.append(FilteredUnit(files, selection, selection))
    return chosen


def _read(context: ScanContext, projection: Projection, chosen: Sequence[FilteredUnit]) -> Pieces:
    few = sum(len(c.picked) for c in chosen) * len(projection.fields) < _FEW_VALUES
    together = few and all(c.files.mapped for c in chosen)
    schedule = Together() if together else Apart(context)
    found = schedule.over(lambda units: rows_of(context, units, projection, together), chosen)
    return [piece for unit in found for piece in unit.pieces]
