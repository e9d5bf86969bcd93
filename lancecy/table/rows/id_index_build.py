"""Builds the row-id index from the sequences of all fragments.

An id may be stored twice, because a moved row leaves a deleted one behind. Where the ids of fragments
overlap, deleted rows are left out, so that the live row is found. Elsewhere they stay in, to read no deletion
file; the reader of the rows checks them (``scanning.take``).

Facts: table sheet, section 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lancecy.errors import FormatError, LimitError
from lancecy.kernels import rowindex_jit
from lancecy.records import dataclass
from lancecy.table.manifest import Fragment
from lancecy.table.rows.deletion import DeletionVector
from lancecy.table.rows.id_index import NO_PLACE, Directory, Keys, Places, RowIndex, Runs, Slots
from lancecy.table.rows.row_ids import ArraySegment, HolesSegment, RangeSegment, RowIdSequence, Segment

__all__ = ["SameIdError", "build_index", "index_rows"]

Int64: TypeAlias = NDArray[np.int64]
UInt64: TypeAlias = NDArray[np.uint64]
Offsets: TypeAlias = NDArray[np.uint32] | NDArray[np.uint64]

_NONE = np.empty(0, np.int64)
# Bytes of a run and of a single key in the index, including their share of the directory.
_RUN_BYTES = 28
_KEY_BYTES = 14
# Places of keys have 32 bits, and one value means that there is none.
_MOST = NO_PLACE
# Slots per id, of 4 bytes each, up to the size of a key; slots are found much faster.
_SLOTS = 3


class HasRowIds(Protocol):
    """The part of a snapshot that :func:`index_rows` uses."""

    @property
    def fragments(self) -> tuple[Fragment, ...]: ...

    def row_ids(self, fragment: Fragment) -> RowIdSequence | None:
        """The fragment's sequence, None without one."""

    def deletions(self, fragment: Fragment) -> DeletionVector | None:
        """The fragment's deleted rows, None without any."""


def index_rows(snapshot: HasRowIds) -> RowIndex:
    """The index of a snapshot with stable row ids.

    Reads deletion files only of fragments whose ids overlap those of another fragment.

    Parameters
    ----------
    snapshot : Snapshot

    Raises
    ------
    FormatError
        A fragment has no row ids, or damaged ones; two live rows have the same id.
    LimitError
        More than 2^32 unordered ids.

    Source: table sheet, sections 3.1 and 3.2.
    """
    fragments = snapshot.fragments
    sequences = [_sequence(snapshot, fragment) for fragment in fragments]
    mixed = _overlapping([_span(sequence) for sequence in sequences])

    def parts(everywhere: bool) -> Iterator[tuple[int, RowIdSequence, Int64 | None]]:
        for fragment, sequence, is_mixed in zip(fragments, sequences, mixed, strict=True):
            gone = snapshot.deletions(fragment) if is_mixed or everywhere else None
            yield fragment.id, sequence, None if gone is None else gone.offsets

    try:
        return build_index(list(parts(everywhere=False)))
    except SameIdError:
        # Retry without any deleted row: a single fragment may have an id twice.
        return build_index(list(parts(everywhere=True)))


class SameIdError(FormatError):
    """Two rows have the same id."""


def _sequence(snapshot: HasRowIds, fragment: Fragment) -> RowIdSequence:
    found = snapshot.row_ids(fragment)
    if found is None:
        raise FormatError(f"fragment {fragment.id} of a table with stable row ids has no row ids")
    return found


def _span(sequence: RowIdSequence) -> tuple[int, int] | None:
    """Bounds of the ids; None without ids."""
    lows, highs = sequence.spans
    held = lows <= highs
    return (int(lows[held].min()), int(highs[held].max())) if held.any() else None


def _overlapping(spans: Sequence[tuple[int, int] | None]) -> list[bool]:
    """For each span, whether it shares a number with another one."""
    order = sorted((i for i, span in enumerate(spans) if span), key=lambda i: spans[i] or (0, 0))
    found = [False] * len(spans)
    reach = -1
    for place, index in enumerate(order):
        low, high = spans[index] or (0, 0)
        following = spans[order[place + 1]] if place + 1 < len(order) else None
        found[index] = low <= reach or (following is not None and following[0] <= high)
        reach = max(reach, high)
    return found


def build_index(parts: Sequence[tuple[int, RowIdSequence, Int64 | None]]) -> RowIndex:
    """The index of some fragments.

    Parameters
    ----------
    parts : sequence of (fragment id, RowIdSequence, deleted offsets or None)
        The offsets, (num_deleted,) int64 ascending, name rows to leave out.

    Raises
    ------
    FormatError
        Two rows have the same id.
    LimitError
        More than 2^32 unordered ids.
    """
    builder = _Builder()
    for fragment, sequence, deleted in parts:
        gone = _NONE if deleted is None else deleted
        starts = sequence.starts.tolist()
        for segment, start, stop in zip(sequence.segments, starts, starts[1:], strict=False):
            if stop > start:
                builder.add((fragment << 32) + start, segment, start, _between(gone, start, stop))
    return builder.finish()


def _between(rows: Int64, start: int, stop: int) -> Int64:
    """The part of ascending rows within a range."""
    if not rows.size:
        return rows
    first, last = np.searchsorted(rows, (start, stop))
    return rows[first:last]


def _offsets(segment: ArraySegment) -> Offsets:
    """The offsets of an array, in one of the kernels' two types."""
    if segment.offsets.dtype.itemsize == 8:
        return np.ascontiguousarray(segment.offsets, np.uint64)
    return np.ascontiguousarray(segment.offsets, np.uint32)


@dataclass(frozen=True, slots=True)
class _Array:
    """Ids of ``offsets.size`` consecutive rows, which form no runs.

    ``deleted`` counts from the row ``first_row`` rows before the first. ``low`` and ``high`` are the smallest and the
    largest id that is not deleted.
    """

    base: int
    offsets: Offsets
    deleted: Int64
    first_row: int
    address: int
    low: int
    high: int

    @property
    def num_ids(self) -> int:
        return self.offsets.size - self.deleted.size


class _Builder:
    """Takes segments one by one and builds their index."""

    def __init__(self) -> None:
        self._ranges: list[int] = []
        self._runs: list[UInt64] = []
        self._arrays: list[_Array] = []
        self._rows = 0

    def add(self, address: int, segment: Segment, first_row: int, deleted: Int64) -> None:
        """Add the ids of a non-empty segment, without those of its deleted rows.

        ``address`` is that of its first row; ``first_row`` is subtracted from the deleted offsets to count from
        there.
        """
        if isinstance(segment, ArraySegment):
            self._add_array(segment.base, _offsets(segment), deleted, first_row, address)
        elif isinstance(segment, HolesSegment) or deleted.size:
            self._add_gappy(segment, deleted, first_row, address)
        else:
            self._ranges += (segment.start, segment.count, address)

    def _add_gappy(
        self, segment: RangeSegment | HolesSegment, deleted: Int64, first_row: int, address: int
    ) -> None:
        """Add a range with holes or deleted rows as runs, or, if these are short, as single ids."""
        ranks = segment.ranks if isinstance(segment, HolesSegment) else _NONE
        kernels = rowindex_jit.implementation(ranks.size + deleted.size)
        range_ = (segment.start, segment.count, ranks, deleted, first_row, address)
        runs = np.empty(3 * (ranks.size + deleted.size + 1), np.uint64)
        count = kernels.live_runs(*range_, runs)
        if _RUN_BYTES * count <= _KEY_BYTES * (segment.count - deleted.size):
            self._runs.append(runs[: 3 * count])
            return
        ids = np.empty(segment.count, np.uint64)
        rowindex_jit.implementation(ids.size).expand_holes(segment.start, ranks, ids)
        self._add_array(0, ids, deleted, first_row, address)

    def _add_array(self, base: int, offsets: Offsets, deleted: Int64, first_row: int, address: int) -> None:
        """Add ids of an array as runs if these are long, else as single ids."""
        kernels = rowindex_jit.implementation(offsets.size)
        array, span = (base, offsets, deleted, first_row, address), np.empty(2, np.uint64)
        count = kernels.array_runs(*array, np.empty(0, np.uint64), span)
        if _RUN_BYTES * count <= _KEY_BYTES * (offsets.size - deleted.size):
            runs = np.empty(3 * count, np.uint64)
            kernels.array_runs(*array, runs, span)
            self._runs.append(runs)
        elif count:
            self._rows += offsets.size
            if self._rows > _MOST:
                raise LimitError(
                    f"more than {_MOST} row ids in no order", limit="rows_per_file", claimed=self._rows
                )
            self._arrays.append(_Array(*array, *span.tolist()))

    def finish(self) -> RowIndex:
        """The index of all added segments.

        Raises
        ------
        FormatError
            Two rows have the same id.
        """
        runs = Runs.of(_ordered(np.concatenate([np.array(self._ranges, np.uint64), *self._runs])))
        if not self._arrays:
            return RowIndex(runs, None)
        places = Places.of([a.offsets.size for a in self._arrays], [a.address for a in self._arrays])
        low, high = min(array.low for array in self._arrays), max(array.high for array in self._arrays)
        num_ids = sum(array.num_ids for array in self._arrays)
        if high - low < _SLOTS * num_ids:
            return RowIndex(runs, self._slots(runs, places, low, high - low + 1, num_ids))
        return RowIndex(runs, self._keys(runs, places, num_ids))

    def _slots(self, runs: Runs, places: Places, low: int, size: int, num_ids: int) -> Slots:
        kernels = rowindex_jit.implementation(num_ids)
        slots = np.full(size, NO_PLACE, np.uint32)
        for array, place in zip(self._arrays, places.firsts, strict=True):
            row = kernels.fill_slots(
                array.base, array.offsets, array.deleted, array.first_row, place, low, slots
            )
            if row >= 0:
                raise _same_id(array.base + int(array.offsets[row]))
        slot = kernels.slots_in_runs(slots, low, runs.numbers)
        if slot >= 0:
            raise _same_id(low + slot)
        return Slots(low, slots, places, num_ids)

    def _keys(self, runs: Runs, places: Places, num_ids: int) -> Keys:
        kernels = rowindex_jit.implementation(num_ids)
        keys, numbers = np.empty(num_ids, np.uint64), np.empty(num_ids, np.uint32)
        done = 0
        for array, place in zip(self._arrays, places.firsts, strict=True):
            some = slice(done, done + array.num_ids)
            kernels.copy_keys(
                array.base, array.offsets, array.deleted, array.first_row, place, keys[some], numbers[some]
            )
            done += array.num_ids
        kernels.sort_pairs(keys, numbers, np.empty_like(keys), np.empty_like(numbers))
        for at in (kernels.first_repeat(keys), kernels.keys_in_runs(keys, runs.numbers)):
            if at >= 0:
                raise _same_id(int(keys[at]))
        return Keys(keys, numbers, places, Directory.of(keys, 1, 0.5))


def _ordered(runs: UInt64) -> UInt64:
    """Runs by their first id.

    Raises
    ------
    FormatError
        Two runs have the same id.
    """
    kernels = rowindex_jit.implementation(runs.size // 3)
    if kernels.check_runs(runs) < 0:
        return runs
    starts, order = runs[0::3].copy(), np.arange(runs.size // 3, dtype=np.uint32)
    kernels.sort_pairs(starts, order, np.empty_like(starts), np.empty_like(order))
    runs = runs.reshape(-1, 3)[order].reshape(-1)
    at = kernels.check_runs(runs)
    if at >= 0:
        raise _same_id(int(runs[3 * at]))
    return runs


def _same_id(number: int) -> FormatError:
    return SameIdError(f"two rows have the row id {number}")
