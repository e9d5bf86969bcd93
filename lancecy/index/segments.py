"""Entries of the index section to segments: which of them are used, and how they name rows.

A type or a version that this release does not know is ignored with a warning, and so is an entry without the fragments
it covers. Fragments of a compaction of pylance that deferred the remapping are scanned (``DeferredMoves``).

Source: sheet of indices, sections B1.2 and B1.4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import pyarrow as pa

from lancecy.errors import DatasetNotFoundError, UnsupportedError, printable
from lancecy.expr.kinds import family
from lancecy.index.bitmap import SETS_FILE, Bitmap
from lancecy.index.bloom_filter import BloomFilter
from lancecy.index.bounds import is_bounded
from lancecy.index.btree import LOOKUP_FILE, BTree
from lancecy.index.condition import Condition
from lancecy.index.found import FoundRows, RowPlaces
from lancecy.index.label_list import LabelList
from lancecy.index.ngram import NGram
from lancecy.index.segment import Segment
from lancecy.index.zones import ZoneMap
from lancecy.records import dataclass
from lancecy.schema import Field
from lancecy.table.manifest import IndexEntry
from lancecy.table.operations.index_section import DeferredMoves
from lancecy.table.rows import roaring
from lancecy.table.snapshot import Snapshot
from lancecy.table.wire.indices import describe_index

__all__ = ["OpenedSegment", "kind_of", "open_segment", "path_of", "segment_of"]


class OpenedSegment(Protocol):
    """A segment with its files open, for every version of its table. Immutable, and safe to share between threads."""

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""

    def find(self, condition: Condition, segment: Segment) -> FoundRows | None:
        """The rows for which a condition on its column is true, or may be.

        Parameters
        ----------
        condition : Condition
        segment : Segment
            This segment as of the snapshot that is read.

        Returns
        -------
        FoundRows or None
            None: the segment says nothing, or less cheaply than the column itself.

        Raises
        ------
        LanceError
            Its files are damaged or missing.
        """


@dataclass(frozen=True, slots=True)
class _Kind:
    """A type of index.

    Attributes
    ----------
    name : str
    most : int
        Highest version whose meaning is known.
    open : function of a Segment
    for_lists : bool
        Whether it indexes the elements of lists.
    addresses_from : int or None
        Lowest version that names rows by address in a table with stable row ids; None: none does.
    """

    name: str
    most: int
    open: Callable[[Segment], OpenedSegment]
    for_lists: bool = False
    addresses_from: int | None = None


# By the last part of the name of their details, in the order in which they are asked: exact ones first.
_KINDS = {
    "BitmapIndexDetails": _Kind("BITMAP", 0, Bitmap.open),
    "BTreeIndexDetails": _Kind("BTREE", 1, BTree.open, addresses_from=1),
    "LabelListIndexDetails": _Kind("LABEL_LIST", 1, LabelList.open, for_lists=True),
    "NGramIndexDetails": _Kind("NGRAM", 0, NGram.open),
    "ZoneMapIndexDetails": _Kind("ZONEMAP", 0, ZoneMap.open, addresses_from=0),
    "BloomFilterIndexDetails": _Kind("BLOOMFILTER", 0, BloomFilter.open, addresses_from=0),
}
# Known types that answer no filter here.
_NO_FILTER = frozenset(
    (
        "InvertedIndexDetails",
        "VectorIndexDetails",
        "FragmentReuseIndexDetails",
        "MemWalIndexDetails",
        "RTreeIndexDetails",
        "JsonIndexDetails",
    )
)
ORDER = [kind.name for kind in _KINDS.values()]
_KINDS_BY_NAME = {kind.name: kind for kind in _KINDS.values()}
# Files of the types that old releases had before entries stated the type.
_FILES = {"BTREE": LOOKUP_FILE, "BITMAP": SETS_FILE, "LABEL_LIST": SETS_FILE}


def path_of(snapshot: Snapshot, entry: IndexEntry) -> tuple[str, ...] | None:
    """Path of the column that an entry indexes; None if it is not one column, or no struct leads to it."""
    if len(entry.fields) != 1:
        return None
    pending: list[tuple[tuple[str, ...], Field]] = [((top.name,), top) for top in snapshot.schema.fields]
    while pending:
        path, field = pending.pop()
        if field.id == entry.fields[0]:
            return path
        if field.is_struct:
            pending += [((*path, child.name), child) for child in field.children]
    return None


def kind_of(snapshot: Snapshot, entry: IndexEntry, data_type: pa.DataType) -> str:
    """Name of the type of an index, such as "BTREE"; its files tell it if the entry, of an old release, does not.

    Parameters
    ----------
    snapshot : Snapshot
    entry : IndexEntry
    data_type : pyarrow.DataType
        Type of its column.

    Returns
    -------
    str
        Empty for a type that this release does not know or asks no filters.

    Raises
    ------
    StoreError
        The store did not answer.
    """
    if entry.details_type:
        kind = _KINDS.get(entry.details_type.rpartition(".")[2])
        return "" if kind is None else kind.name
    for name, file in _FILES.items():
        # Those of vectors, say, cost no request.
        fits = _has_labels if _KINDS_BY_NAME[name].for_lists else is_bounded
        if not fits(data_type):
            continue
        store, path = snapshot.bases.index(entry.base_id, entry.uuid, file)
        try:
            store.head(path)
        except DatasetNotFoundError:
            continue
        return name
    return ""


def segment_of(
    snapshot: Snapshot,
    entry: IndexEntry,
    data_type: pa.DataType,
    moves: DeferredMoves | None = None,
) -> Segment | None:
    """The segment of an entry; None if it covers no fragment, or answers no filter.

    Parameters
    ----------
    snapshot : Snapshot
    entry : IndexEntry
    data_type : pyarrow.DataType
        Type of its column.
    moves : DeferredMoves, optional
        Of the table.

    Raises
    ------
    UnsupportedError
        Its type or its version is unknown.
    FormatError, LimitError
        Its bitmap is damaged.
    """
    details = entry.details_type.rpartition(".")[2]
    if details in _NO_FILTER or entry.name.startswith("__lance_"):
        return None
    told = describe_index(entry)
    kind = _KINDS.get(details)
    if kind is None and details:
        raise _unknown(entry, f"it is of type {printable(details)}, which this release does not know")
    if kind is not None and told.version > kind.most:
        raise _unknown(entry, f"it has version {told.version} of {kind.name}, newer than this release knows")
    if told.covering_fields:
        raise _unknown(entry, "it holds further columns")
    if kind is None:
        fits = _has_labels(data_type) or is_bounded(data_type)
    else:
        fits = family(data_type) == "list" if kind.for_lists else is_bounded(data_type)
    covered = _covered(snapshot, entry)
    if moves is not None:
        covered = moves.named(entry, covered)
    if not fits or not covered:
        return None
    stable = snapshot.manifest.has_stable_row_ids
    if stable and kind is not None and kind.addresses_from is not None:
        stable = told.version < kind.addresses_from
    places = RowPlaces.of(snapshot, stable, covered)
    sizes = {name.rpartition("/")[2]: size for name, size in told.files}
    return Segment(snapshot, entry, "" if kind is None else kind.name, data_type, places, sizes)


def open_segment(segment: Segment) -> OpenedSegment:
    """Open the files of a segment.

    Raises
    ------
    LanceError
        They are damaged or missing.
    """
    name = segment.kind or kind_of(segment.snapshot, segment.entry, segment.data_type)
    kind = _KINDS_BY_NAME.get(name)
    if kind is None:
        raise _unknown(segment.entry, "it does not state its type, and its files are not known")
    return kind.open(segment)


def _has_labels(data_type: pa.DataType) -> bool:
    """Whether an index of the elements of lists is made of a column."""
    return bool(pa.types.is_list(data_type) or pa.types.is_large_list(data_type))


def _covered(snapshot: Snapshot, entry: IndexEntry) -> frozenset[int]:
    """The fragments of the bitmap that exist now."""
    if entry.fragment_bitmap is None:
        raise _unknown(entry, "it does not state the fragments it covers")
    bitmap = np.frombuffer(entry.fragment_bitmap, np.uint8)
    stated, present = roaring.fragment_ids(bitmap), snapshot.manifest.fragment_table.ids
    places = np.searchsorted(stated, present)
    is_covered = np.append(stated, -1)[places] == present
    return frozenset(present[is_covered].tolist())


def _unknown(entry: IndexEntry, why: str) -> UnsupportedError:
    return UnsupportedError(f"index {printable(entry.name)!r} is not used: {why}", feature="indices")
