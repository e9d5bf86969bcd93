"""Rows by id: row ids resolved to fragments and physical offsets of living rows.

A table with stable row ids resolves them by its index; in any other table a row id is the row's address. Deleted
rows are not found: each fragment's deletions are checked last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.errors import FormatError, RowNotFoundError
from lancecy.scanning.context import ScanContext
from lancecy.scanning.fragment import FragmentFiles

__all__ = ["FoundRows", "as_row_ids", "find_addresses", "find_rows"]

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
    if isinstance(row_ids, pa.Array | pa.ChunkedArray):
        if row_ids.null_count:
            raise TypeError("row ids must not be null")
        row_ids = (
            row_ids.to_numpy()
            if isinstance(row_ids, pa.ChunkedArray)
            else row_ids.to_numpy(zero_copy_only=False)
        )
    if isinstance(row_ids, list | tuple | range):
        return _from_list(row_ids)
    found = np.asarray(row_ids)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise TypeError(f"row ids must be a list of integers, not {found.dtype} of {found.ndim} dimensions")
    if found.size and found.dtype.kind == "i" and int(found.min()) < 0:
        raise RowNotFoundError(f"row ids are not negative, as {int(found.min())} is")
    return np.ascontiguousarray(found, dtype=np.uint64)


def _from_list(row_ids: Sequence[object]) -> UInt64:
    wrong = next((n for n in row_ids if isinstance(n, bool) or not isinstance(n, int | np.integer)), None)
    if wrong is not None:
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
        order = np.argsort(addresses, kind="stable")
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
    if files.deleted is None or not len(files.deleted):
        return None
    gone = files.deleted.offsets
    at = np.minimum(np.searchsorted(gone, offsets), gone.size - 1)
    alive: NDArray[np.bool_] = gone[at] != offsets
    return alive


def _check_fragments(context: ScanContext, wanted: Sequence[int]) -> None:
    known = {fragment.id for fragment in context.fragments}
    for fragment in wanted:
        if fragment not in known:
            raise RowNotFoundError(f"row address in fragment {fragment}, which does not exist")


def _check_offsets(files: FragmentFiles, largest: int) -> None:
    if largest >= files.num_rows:
        fragment = files.fragment.id
        raise RowNotFoundError(
            f"row {largest} of fragment {fragment} does not exist: it has {files.num_rows} rows"
        )
