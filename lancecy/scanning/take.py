"""Random access: rows by their number or by their id, in the requested order.

Row numbers count live rows in table order, as in pylance's ``take``; row ids name rows wherever they are. Rows are
grouped by fragment, each fragment's columns are read for its rows alone, and the result is put back into the
caller's order.

A table with stable row ids resolves them by its index; in any other table a row id is the row's address. Deleted
rows are not found: each fragment's deletions are checked last.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from lancecy.encodings.arrow.columns import taken
from lancecy.errors import FormatError, RowNotFoundError
from lancecy.kernels.sorting import sorted_order
from lancecy.keyword_options import whole_number
from lancecy.records import dataclass
from lancecy.rows import RowSelection
from lancecy.scanning.batches import table_of
from lancecy.scanning.context import ScanContext
from lancecy.scanning.engine import Pieces, rows_of
from lancecy.scanning.fragment import FragmentFiles
from lancecy.scanning.project import Projection
from lancecy.scanning.units import FilteredUnit, Grouped, Together, whole_bytes_of

__all__ = [
    "FoundRows",
    "Indices",
    "as_row_ids",
    "as_row_numbers",
    "find_addresses",
    "find_rows",
    "take_addresses",
    "take_row_ids",
    "take_rows",
]


Int64: TypeAlias = NDArray[np.int64]
UInt64: TypeAlias = NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class FoundRows:
    """Living rows of one fragment among the requested ones.

    Attributes
    ----------
    files : FragmentFiles
    offsets : (n,) int64, ascending
        Physical row offsets; repeated if an id was requested twice.
    asked : (n,) int64
        Position of each row's id among the requested ids.
    """

    files: FragmentFiles
    offsets: Int64
    asked: Int64


def as_row_ids(row_ids: object) -> UInt64:
    """Row ids as uint64.

    Parameters
    ----------
    row_ids : (n,) integers
        A list, an array, or an Arrow array without nulls.

    Raises
    ------
    TypeError
        Not integers.
    RowNotFoundError
        A number is negative or beyond 64 bits: no row can have it.
    """
    if isinstance(row_ids, pa.Array | pa.ChunkedArray) and row_ids.null_count:
        raise TypeError("row ids must not be null")
    if isinstance(row_ids, list | tuple | range):
        return _from_list(row_ids)
    found = np.asarray(row_ids)
    if found.ndim == 1 and found.dtype == np.dtype(object):
        return _from_list(found.tolist())
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise TypeError(f"row ids must be a list of integers, not {found.dtype} of {found.ndim} dimensions")
    if found.size and found.dtype.kind == "i" and int(found.min()) < 0:
        raise RowNotFoundError(f"row ids are not negative, as {int(found.min())} is")
    return np.ascontiguousarray(found, dtype=np.uint64)


def _from_list(row_ids: Sequence[object]) -> UInt64:
    wrong = next((n for n in row_ids if isinstance(n, bool) or not isinstance(n, int | np.integer)), None)
    if isinstance(wrong, pa.Scalar):
        row_ids = [whole_number("a row id", number) for number in row_ids]
    elif wrong is not None:
        raise TypeError(f"row ids must be integers, not {type(wrong).__name__}")
    try:
        return np.array(row_ids, np.uint64)
    except OverflowError:
        raise RowNotFoundError("row ids are numbers from 0 to 2^64 - 1") from None


def find_rows(context: ScanContext, ids: UInt64) -> list[FoundRows]:
    """Find the living rows with some row ids, by fragment.

    Parameters
    ----------
    context : ScanContext
    ids : (n,) uint64
        In any order, duplicates allowed.

    Returns
    -------
    list of FoundRows
        In table order. Deleted rows are left out, and in a table with stable row ids also unused ids.

    Raises
    ------
    RowNotFoundError
        The table has no stable row ids, and such an address has no fragment or row offset.
    FormatError
        The table's row ids are damaged.
    """
    if not context.snapshot.manifest.has_stable_row_ids:
        return find_addresses(context, ids)
    addresses, found = context.row_index().find(ids)
    try:
        return list(_living(context, addresses[found], np.flatnonzero(found)))
    except RowNotFoundError as error:
        # An address from the index must have a row.
        raise FormatError(f"row ids of more rows than there are: {error}") from error


def find_addresses(context: ScanContext, addresses: UInt64) -> list[FoundRows]:
    """Find the living rows at some addresses; as :func:`find_rows` of a table without stable row ids."""
    return list(_living(context, addresses, np.arange(addresses.size, dtype=np.int64)))


def _living(context: ScanContext, addresses: UInt64, asked: Int64) -> Iterator[FoundRows]:
    # Files are read front to back: faster for many rows, and fewer requests in object stores.
    if not np.all(addresses[1:] >= addresses[:-1]):
        order = sorted_order(addresses)
        addresses, asked = addresses[order], asked[order]
    fragments = (addresses >> np.uint64(32)).astype(np.int64)
    firsts = np.flatnonzero(np.diff(fragments, prepend=-1))
    wanted = fragments[firsts].tolist()
    _check_fragments(context, wanted)
    edges = [*firsts.tolist(), addresses.size]
    for files, start, stop in zip(context.several_files(wanted), edges[:-1], edges[1:], strict=True):
        offsets = (addresses[start:stop] & np.uint64(0xFFFFFFFF)).astype(np.int64)
        _check_offsets(files, int(offsets[-1]))
        alive = _alive(files, offsets)
        if alive is None:
            yield FoundRows(files, offsets, asked[start:stop])
        elif alive.any():
            yield FoundRows(files, offsets[alive], asked[start:stop][alive])


def _alive(files: FragmentFiles, offsets: Int64) -> NDArray[np.bool_] | None:
    """Which of the rows are not deleted; None if nothing is deleted."""
    return None if files.deleted is None or not len(files.deleted) else ~files.deleted.holds(offsets)


def _check_fragments(context: ScanContext, wanted: Sequence[int]) -> None:
    for fragment in wanted:
        if context.table.find(fragment) is None:
            raise RowNotFoundError(f"row address in fragment {fragment}, which does not exist")


def _check_offsets(files: FragmentFiles, largest: int) -> None:
    if largest >= files.num_rows:
        fragment = files.fragment.id
        raise RowNotFoundError(
            f"row {largest} of fragment {fragment} does not exist: it has {files.num_rows} rows"
        )


class SupportsArray(Protocol):
    """An array of NumPy, pandas or Arrow."""

    def __array__(self) -> Any:
        """The values as NumPy has them."""


Indices: TypeAlias = "Sequence[int] | SupportsArray"
"""Numbers of rows."""

# Passing a few hundred rows to another thread costs more than reading them.
_FEW_VALUES = 200_000
# Elsewhere each file's rows are a request, and large ones are decoded while others are on their way.
_FEW_BYTES = 64 << 20


def as_row_numbers(indices: object, num_rows: int) -> Int64:
    """Row numbers as int64, each checked to be in ``0 .. num_rows - 1``.

    Raises
    ------
    RowNotFoundError
        A row number is negative or beyond the table.
    TypeError
        Not integers.
    """
    if isinstance(indices, pa.Array | pa.ChunkedArray) and indices.null_count:
        raise TypeError("row numbers must not be null")
    rows = _as_array(indices)
    if rows.size == 0:
        return np.empty(0, np.int64)
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise TypeError(f"row numbers must be a list of integers, not {rows.dtype} of {rows.ndim} dimensions")
    low, high = int(rows.min()), int(rows.max())
    if low < 0 or high >= num_rows:
        bad = low if low < 0 else high
        raise RowNotFoundError(f"row {bad} does not exist: the table has {num_rows} rows")
    return np.ascontiguousarray(rows, dtype=np.int64)


def _as_array(indices: object) -> NDArray[Any]:
    if isinstance(indices, list) and indices and type(indices[0]) is int:
        # Faster than NumPy, which looks for the type of the numbers first.
        with suppress(TypeError, OverflowError):
            return np.frombuffer(array("q", indices), np.int64)
    found = np.asarray(indices)
    is_list = isinstance(indices, list | tuple)
    # Objects of a column of pandas, scalars of Arrow, or signed and unsigned ones, of which NumPy makes floats.
    if found.ndim == 1 and (found.dtype == np.dtype(object) or (is_list and found.dtype.kind == "f")):
        return np.array([whole_number("a row number", n) for n in cast(Iterable[Any], indices)])
    return found


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
    order = None if ascending else sorted_order(rows)
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
        See :func:`lancecy.scanning.take.find_rows`.
    TypeError
        See :func:`lancecy.scanning.take.as_row_ids`.
    """
    return _table_of_found(context, projection, find_rows(context, as_row_ids(row_ids)))


def take_addresses(context: ScanContext, projection: Projection, addresses: UInt64) -> pa.Table:
    """Read the rows at these addresses, which must be living rows.

    Parameters
    ----------
    context : ScanContext
    projection : Projection
    addresses : (n,) uint64
        ``fragment << 32 | offset``, in any order, duplicates allowed.

    Raises
    ------
    RowNotFoundError
        There is no such fragment, or no such row.
    """
    return _table_of_found(context, projection, find_addresses(context, addresses))


def _table_of_found(context: ScanContext, projection: Projection, found: Sequence[FoundRows]) -> pa.Table:
    """Rows that were found, in the order in which they were asked for."""
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
    order = sorted_order(asked)
    return pa.Table.from_arrays([taken(c, order) for c in table.columns], schema=table.schema)


def _by_fragment(context: ScanContext, starts: Int64, rows: Int64) -> list[FilteredUnit]:
    """One selection per fragment that has any of the (ascending) rows."""
    edges = np.searchsorted(rows, starts)
    used = np.flatnonzero(np.diff(edges)).tolist()
    chosen = []
    for index, files in zip(used, context.several_files(context.table.ids[used].tolist()), strict=True):
        local = files.physical(rows[edges[index] : edges[index + 1]] - starts[index])
        selection = RowSelection.take(files.num_rows, local)
        chosen.append(FilteredUnit(files, selection, selection))
    return chosen


def _read(context: ScanContext, projection: Projection, chosen: Sequence[FilteredUnit]) -> Pieces:
    few = sum(len(c.picked) for c in chosen) * len(projection.fields) < _FEW_VALUES
    together = few and (all(c.files.mapped for c in chosen) or sum(map(whole_bytes_of, chosen)) < _FEW_BYTES)
    schedule = Together() if together else Grouped(context)
    found = schedule.over(lambda units: rows_of(context, units, projection, together), chosen)
    return [piece for unit in found for piece in unit.pieces]
