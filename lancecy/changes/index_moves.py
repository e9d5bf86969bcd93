"""NGRAM indices after a compaction: the files are written again, with the new addresses of rows that moved.

Such an index is not made from its column here, as other indices are: its texts are cut as pylance cuts them.

Facts: sheet of indices, sections B2, B8 and B10.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.changes.index_training import TrainedIndex, new_index_files
from lancecy.index.bitmap import KeyedSets
from lancecy.index.files import open_index_file
from lancecy.index.ngram import NGRAM_COLUMNS, NGRAM_FILE
from lancecy.index.row_sets import decode_row_map, ids_of_halves
from lancecy.index.write.row_sets import encoded_map
from lancecy.records import dataclass
from lancecy.scanning.context import ScanContext
from lancecy.table.manifest import Fragment, IndexEntry
from lancecy.table.operations.index_section import DeferredMoves, covered
from lancecy.table.rows import roaring
from lancecy.table.snapshot import Snapshot
from lancecy.table.wire.indices import describe_index, encode_index
from lancecy.write.index_files import IndexFiles

__all__ = ["RowMoves", "moved_ngrams"]

Int64: TypeAlias = NDArray[np.int64]
UInt64: TypeAlias = NDArray[np.uint64]

_DETAILS, _NEWEST = "lance.table.NGramIndexDetails", 0
_BITS = np.uint64(32)
_LOW = np.uint64(0xFFFF_FFFF)
_BATCH_SETS = 1024


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """Fragments whose live rows moved together, in order.

    Attributes
    ----------
    first : dict of int to int
        Number of the first live row of each fragment that went.
    deleted : dict of int to (n,) int64
        Deleted rows of each.
    starts : (num_new,) int64
        Number of the first row of each fragment that came.
    came : (num_new,) uint64
        Their ids.
    """

    first: dict[int, int]
    deleted: dict[int, Int64]
    starts: Int64
    came: UInt64


class RowMoves:
    """Addresses of rows after a compaction, by those before it.

    Parameters
    ----------
    snapshot : Snapshot
        A version after the compaction.
    moved : iterable of (sequence of Fragment, sequence of int)
        Fragments that went, as they were when their rows were read, and those that have these rows now, in order.

    Raises
    ------
    LanceError
        A deletion file is damaged or missing.
    """

    def __init__(self, snapshot: Snapshot, moved: Iterable[tuple[Sequence[Fragment], Sequence[int]]]) -> None:
        rows = {fragment.id: fragment.physical_rows or 0 for fragment in snapshot.fragments}
        self._live = frozenset(rows)
        self._groups: dict[int, _Group] = {}
        self.groups: list[tuple[frozenset[int], frozenset[int]]] = []
        for old, came in moved:
            first, deleted, before = dict[int, int](), dict[int, Int64](), 0
            for fragment in old:
                gone = snapshot.deletions(fragment)
                offsets = np.empty(0, np.int64) if gone is None else gone.offsets.astype(np.int64)
                first[fragment.id], deleted[fragment.id] = before, offsets
                before += (fragment.physical_rows or 0) - offsets.size
            if before != sum(rows.get(number, 0) for number in came):
                continue  # not all of these rows are there any more
            starts = np.cumsum([0, *(rows[number] for number in came)])[:-1]
            group = _Group(first, deleted, starts, np.array(came, np.uint64))
            self._groups.update(dict.fromkeys(first, group))
            self.groups.append((frozenset(first), frozenset(came)))

    def applied(self, ids: UInt64, known: frozenset[int]) -> tuple[UInt64, NDArray[np.bool_]]:
        """Addresses after the compaction, and which rows are still there.

        Parameters
        ----------
        ids : (n,) uint64
            Addresses before.
        known : frozenset of int
            Fragments whose rows are looked for, before and after.
        """
        fragments, found, kept = ids >> _BITS, ids.copy(), np.zeros(ids.size, np.bool_)
        for number in np.unique(fragments).tolist():
            if number not in known:
                continue
            mine = np.flatnonzero(fragments == number)
            group = self._groups.get(number)
            if group is None:
                kept[mine] = number in self._live
                continue
            offsets = (ids[mine] & _LOW).astype(np.int64)
            deleted = group.deleted[number]
            before = np.searchsorted(deleted, offsets)
            is_gone = np.append(deleted, -1)[before] == offsets
            rows = group.first[number] + offsets - before
            owner = np.searchsorted(group.starts, rows, side="right") - 1
            found[mine] = group.came[owner] << _BITS | (rows - group.starts[owner]).astype(np.uint64)
            kept[mine] = ~is_gone
        return found, kept


def moved_ngrams(
    context: ScanContext, moved: Sequence[tuple[Sequence[Fragment], Sequence[int]]], durable: bool
) -> list[tuple[TrainedIndex, IndexEntry]]:
    """NGRAM indices with the new addresses of rows that moved, each with the entry that it replaces.

    Indices that name rows by stable ids need none.

    Parameters
    ----------
    context : ScanContext
        At a version after the compaction.
    moved : sequence of (sequence of Fragment, sequence of int)
        As for :class:`RowMoves`.
    durable : bool
        Whether the files are synced to disk.

    Raises
    ------
    LanceError
        A file is damaged, or cannot be written; no file is left behind.
    """
    snapshot = context.snapshot
    made: list[tuple[TrainedIndex, IndexEntry]] = []
    entries = [entry for entry in snapshot.indices() if entry.details_type == _DETAILS]
    if not entries or snapshot.manifest.has_stable_row_ids:
        return made
    moves, deferred = RowMoves(snapshot, moved), DeferredMoves.of(snapshot.indices())
    try:
        for entry in entries:
            known = covered(entry) or frozenset()
            if deferred is not None:
                known = deferred.named(entry, known)
            came = frozenset[int]().union(*(new for old, new in moves.groups if old <= known))
            if came - known and describe_index(entry).version <= _NEWEST:
                after = known.intersection(fragment.id for fragment in snapshot.fragments) | came
                files = _written(context, entry, moves, known, durable)
                made.append((_index(snapshot, entry, after, files), entry))
    except BaseException:
        for index, _ in made:
            index.files.remove()
        raise
    return made


def _index(snapshot: Snapshot, entry: IndexEntry, after: frozenset[int], files: IndexFiles) -> TrainedIndex:
    bitmap = roaring.encode(np.array(sorted(after), np.int64))
    told = replace(describe_index(entry), created_at=datetime.now(UTC), files=files.written)
    moved = replace(
        entry, uuid=files.identity, fragment_bitmap=bitmap, dataset_version=snapshot.version, base_id=None
    )
    return TrainedIndex(encode_index(moved, told), files)


def _written(
    context: ScanContext, entry: IndexEntry, moves: RowMoves, known: frozenset[int], durable: bool
) -> IndexFiles:
    """The file of an index, written again with other addresses."""
    snapshot = context.snapshot
    store, path = snapshot.bases.index(entry.base_id, entry.uuid, NGRAM_FILE)
    old = open_index_file(store, path, None, snapshot.session, snapshot.limits)
    (tokens,) = old.read(NGRAM_COLUMNS[:1])
    sets = KeyedSets(old, tokens, NGRAM_COLUMNS[1])
    schema = pa.schema([(name, old.type_of(name)) for name in NGRAM_COLUMNS])
    files = new_index_files(context, uuid.uuid4(), durable)
    try:
        file = files.create(NGRAM_FILE, schema)
        for start in range(0, len(tokens), _BATCH_SETS):
            some = tokens.slice(start, _BATCH_SETS)
            read = sets.sets(np.arange(start, start + len(some)))
            ids = [ids_of_halves(decode_row_map(memory, snapshot.limits)) for memory in read]
            after, kept = moves.applied(np.concatenate(ids), known)
            cuts = np.cumsum([each.size for each in ids])[:-1]
            maps = [
                encoded_map(mine[there])
                for mine, there in zip(np.split(after, cuts), np.split(kept, cuts), strict=True)
            ]
            file.write(pa.record_batch([some, pa.array(maps, schema.types[1])], schema=schema))
        for name, value in old.metadata.items():
            file.add_schema_metadata(name, value)
        file.finish()
    except BaseException:
        files.remove()
        raise
    return files
