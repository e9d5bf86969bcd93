"""Making the row-id index out of the sequences of all fragments.

An id may be stored twice, rows that move leaving a deleted one behind: where the ids of fragments
overlap, deleted rows are left out, so that the living row is found. Elsewhere they stay in, no deletion
file being read for them; whoever reads the rows checks (``scanning.locate``).

Facts: table sheet, section 3. Imports ``errors``, ``kernels``, ``table.rowids``, ``table.rowindex`` and NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lancecy.errors import FormatError, LimitError
from lancecy.kernels import rowindex_jit
from lancecy.table.deletion import DeletionVector
from lancecy.table.manifest import Fragment
from lancecy.table.rowids import ArraySegment, HolesSegment, RangeSegment, RowIdSequence, Segment
from lancecy.table.rowindex import NO_PLACE, Directory, Keys, RowIndex, Runs, Slots

__all__ = ["build_index", "index_rows"]

Int64: TypeAlias = NDArray[np.int64]
UInt32: TypeAlias = NDArray[np.uint32]
UInt64: TypeAlias = NDArray[np.uint64]
Bool: TypeAlias = NDArray[np.bool_]

# What a run and a single key take in the index, their share of the directory included.
_RUN_BYTES = 28
_KEY_BYTES = 14
# Places of keys are numbers of 32 bits, and one of them says that there is none.
_MOST = NO_PLACE
# Slots per id, of 4 bytes each, that are not more than a key takes; they are found much faster.
_SLOTS = 3


class HasRowIds(Protocol):
    """What :func:`index_rows` needs of a snapshot."""

    @property
    def fragments(self) -> tuple[Fragment, ...]: ...

    def row_ids(self, fragment: Fragment) -> RowIdSequence | None:
        """The fragment's sequence, None without one."""

    def deletions(self, fragment: Fragment) -> DeletionVector | None:
        """The fragment's deleted rows, None without any."""


def index_rows(snapshot: HasRowIds) -> RowIndex:
    """The index of a snapshot with stable row ids.

    Reads deletion files only of fragments whose ids lie among those of another fragment.

    Parameters
    ----------
    snapshot : Snapshot

    Raises
    ------
    FormatError
        A fragment has no row ids, or damaged ones; two rows that are not deleted have the same id.
    LimitError
        More ids without order than 2^32.

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
    except _SameIdError:
        # Once more without any deleted row: a fragment may have an id twice by itself.
        return build_index(list(parts(everywhere=True)))


class _SameIdError(FormatError):
    """Two rows have the same id."""


def _sequence(snapshot: HasRowIds, fragment: Fragment) -> RowIdSequence:
    found = snapshot.row_ids(fragment)
    if found is None:
        raise FormatError(f"fragment {fragment.id} of a table with stable row ids has no row ids")
    return found


def _span(sequence: RowIdSequence) -> tuple[int, int] | None:
    """Smallest and largest id, or numbers beyond them; None of no ids."""
    lows, highs = sequence.spans
    held = lows <= highs
    return (int(lows[held].min()), int(highs[held].max())) if held.any() else None


def _overlapping(spans: Sequence[tuple[int, int] | None]) -> list[bool]:
    """Which of the spans share a number with another one."""
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
        The offsets, (num_deleted,) int64 ascending, are of rows to leave out.

    Raises
    ------
    FormatError
        Two rows have the same id.
    LimitError
        More ids without order than 2^32.
    """
    builder = _Builder()
    for fragment, sequence, deleted in parts:
        is_whole = deleted is None or not deleted.size
        if is_whole:
            builder.add_ranges(fragment << 32, sequence)
        for start, segment in zip(sequence.starts.tolist(), sequence.segments, strict=False):
            if segment.count and not (is_whole and isinstance(segment, RangeSegment)):
                builder.add((fragment << 32) + start, segment, _within(deleted, start, segment.count))
    return builder.finish()


def _within(deleted: Int64 | None, start: int, count: int) -> Int64:
    """Deleted rows of a segment, counted from its start."""
    if deleted is None:
        return np.empty(0, np.int64)
    first, last = np.searchsorted(deleted, [start, start + count])
    rows: Int64 = deleted[first:last] - start
    return rows


class _Builder:
    """Takes segments one by one and makes the index of them."""

    def __init__(self) -> None:
        self._runs: list[tuple[UInt64, UInt64, UInt64]] = []
        self._keys: list[tuple[UInt64, UInt32]] = []
        self._pieces: list[tuple[int, int, int]] = []
        self._rows = 0

    def add_ranges(self, address: int, sequence: RowIdSequence) -> None:
        """Add all ranges of a sequence without deleted rows; ``address`` is that of its first row."""
        which = [
            i for i, part in enumerate(sequence.segments) if isinstance(part, RangeSegment) and part.count
        ]
        rows = sequence.starts[:-1][which]
        self._add_runs(sequence.spans[0][which], sequence.starts[1:][which] - rows, rows, address)

    def add(self, address: int, segment: Segment, deleted: Int64) -> None:
        """Add the ids of a segment but those of its deleted rows; ``address`` is that of its first row."""
        if isinstance(segment, ArraySegment):
            self._add_array(address, segment, deleted)
            return
        starts, stops = _live_runs(segment, deleted)
        if _RUN_BYTES * starts.size <= _KEY_BYTES * int((stops - starts).sum()):
            self._add_runs(segment.take(starts), stops - starts, starts, address)
            return
        alive = np.delete(np.arange(segment.count, dtype=np.int64), deleted)
        self._add_keys(segment.take(alive), alive, segment.count, address)

    def _add_array(self, address: int, segment: ArraySegment, deleted: Int64) -> None:
        alive = None
        values = segment.offsets.astype(np.uint64)
        values += np.uint64(segment.base)
        if deleted.size:
            alive = np.delete(np.arange(segment.count, dtype=np.int64), deleted)
            values = values[alive]
        kernels = rowindex_jit.implementation(values.size)
        # Rows that are not neighbours are no run, even if their ids are: such a table keeps its keys.
        count = kernels.count_runs(values) if alive is None else values.size
        if _RUN_BYTES * count > _KEY_BYTES * values.size or not values.size:
            self._add_keys(values, alive, segment.count, address)
            return
        starts = np.empty(count, np.int64)
        kernels.run_starts(values, starts)
        self._add_runs(values[starts], np.diff(starts, append=values.size), starts, address)

    def _add_runs(self, ids: UInt64, counts: Int64, rows: Int64, address: int) -> None:
        self._runs.append((ids, counts.astype(np.uint64), rows.astype(np.uint64) + np.uint64(address)))

    def _add_keys(self, ids: UInt64, rows: Int64 | None, count: int, address: int) -> None:
        """Ids of the given rows (all if None) of a piece of ``count`` rows."""
        if self._rows + count > _MOST:
            raise LimitError(
                f"more than {_MOST} row ids in no order", limit="rows_per_file", claimed=self._rows + count
            )
        if rows is None:
            places = np.arange(self._rows, self._rows + count, dtype=np.uint32)
        else:
            places = (rows + self._rows).astype(np.uint32)
        self._keys.append((ids, places))
        self._pieces.append((self._rows, count, address))
        self._rows += count

    def finish(self) -> RowIndex:
        """The index of all that was added.

        Raises
        ------
        FormatError
            Two rows have the same id.
        """
        runs = Runs.of(*_columns(self._runs))
        ends = runs.starts[:-1] + runs.counts[:-1]
        _refuse(runs.starts[1:], runs.starts[1:] < ends)
        table = np.array(self._pieces, np.uint64).reshape(-1, 3)
        pieces = Runs.of(*(np.ascontiguousarray(table[:, i]) for i in range(3)))
        if runs.starts.size:
            for ids, _ in self._keys:
                _refuse(ids, runs.find(ids)[1])
        slots = self._slots(pieces)
        return RowIndex(runs, self._sorted_keys(pieces) if slots is None else slots)

    def _slots(self, pieces: Runs) -> Slots | None:
        """The single ids as slots; None if they lie too far apart, or one is there twice."""
        some = [ids for ids, _ in self._keys if ids.size]
        if not some:
            return None
        num_ids = sum(ids.size for ids in some)
        low, high = min(int(ids.min()) for ids in some), max(int(ids.max()) for ids in some)
        if high - low >= _SLOTS * num_ids:
            return None
        slots = np.full(high - low + 1, NO_PLACE, np.uint32)
        for ids, places in self._keys:
            slots[ids - np.uint64(low)] = places
        num_taken = np.count_nonzero(slots != NO_PLACE)
        return Slots(low, slots, pieces, num_ids) if num_taken == num_ids else None

    def _sorted_keys(self, pieces: Runs) -> Keys:
        ids, places = np.empty(0, np.uint64), np.empty(0, np.uint32)
        if self._keys:
            ids = np.concatenate([part[0] for part in self._keys])
            places = np.concatenate([part[1] for part in self._keys])
            spare = np.empty_like(ids), np.empty_like(places)
            rowindex_jit.implementation(ids.size).sort_pairs(ids, places, *spare)
            _refuse(ids[1:], ids[1:] == ids[:-1])
        return Keys(ids, places, pieces, Directory.of(ids, 0.5))


def _columns(parts: list[tuple[UInt64, UInt64, UInt64]]) -> tuple[UInt64, UInt64, UInt64]:
    nothing = [np.empty(0, np.uint64)]
    first, second, third = (np.concatenate([part[i] for part in parts] or nothing) for i in range(3))
    return first, second, third


def _live_runs(segment: Segment, deleted: Int64) -> tuple[Int64, Int64]:
    """(starts, stops) of rows of a range that follow each other and have ids that do: (num_runs,) int64 each."""
    # A run begins at the first row, after a deleted row and after a hole, and ends before the next such row.
    # As numbers that also say how the run before it ends: with a row that is deleted (1) or not (0).
    heads = np.concatenate((np.zeros(1, np.int64), deleted * 2 + 3))
    if isinstance(segment, HolesSegment):
        heads = np.sort(np.concatenate((heads, segment.ranks * 2)))
    rows = heads >> 1
    last = np.append(rows[1:] > rows[:-1], True)
    starts, after = rows[last], heads[last] & 1
    inside = np.searchsorted(starts, segment.count)
    starts = starts[:inside]
    stops = np.append(starts[1:], segment.count)
    # Whatever follows the last row of the segment is not among the heads.
    ends = np.append(after[1:inside], bool(deleted.size) and int(deleted[-1]) == segment.count - 1)
    stops -= ends
    some = stops > starts
    return starts[some], stops[some]


def _refuse(ids: UInt64, again: Bool) -> None:
    if again.any():
        raise _SameIdError(f"two rows have the row id {int(ids[int(np.argmax(again))])}")
