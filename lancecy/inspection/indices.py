"""The indices of a version: what their entries say, and statistics of their files.

Names and keys are those of pylance. Indices of every type are described; statistics of files are told of the scalar
ones.

Facts: sheet of indices, sections B1 to B7.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import field
from datetime import datetime
from typing import Any

import pyarrow as pa

from lancecy.encodings.arrow.columns import as_array
from lancecy.encodings.arrow.to_arrow import to_arrow
from lancecy.errors import IndexNotFoundError, LanceError, nearest
from lancecy.file.standalone import StandaloneFile, open_standalone
from lancecy.index.segments import kind_of
from lancecy.index.write.index_types import INDEX_TYPES, title_of
from lancecy.records import dataclass
from lancecy.rows import RowSelection
from lancecy.scanning.context import ScanContext
from lancecy.schema import Schema
from lancecy.store.reads import SourceFile, run
from lancecy.table.manifest import IndexEntry
from lancecy.table.operations.index_section import covered
from lancecy.table.paths import INDICES
from lancecy.table.snapshot import Snapshot
from lancecy.table.wire.indices import describe_index

__all__ = [
    "DescribedIndex",
    "DescribedSegment",
    "described_indices",
    "index_statistics",
    "listed_indices",
    "named_entries",
]


@dataclass(frozen=True, slots=True)
class DescribedSegment:
    """One part of an index, with files of its own.

    Attributes
    ----------
    uuid : str
    fragment_ids : frozenset of int
        Fragments that it covers; those that were removed since may be among them.
    dataset_version_at_last_update : int
        Version that it was made from.
    index_version : int
        Version of its layout.
    created_at : datetime or None, UTC
    size_bytes : int or None
        None if the entry does not state it.
    base_id : int or None
    """

    uuid: str
    fragment_ids: frozenset[int]
    dataset_version_at_last_update: int
    index_version: int
    created_at: datetime | None
    size_bytes: int | None
    base_id: int | None


@dataclass(frozen=True, slots=True)
class DescribedIndex:
    """An index.

    Attributes
    ----------
    name : str
    index_type : str
        Such as ``"BTree"``.
    type_url : str
    fields : list of int
        Ids of the indexed fields.
    field_names : list of str
    num_rows_indexed : int
        Live rows of the fragments that it covers.
    segments : tuple of DescribedSegment
    total_size_bytes : int or None
        None if an entry does not state it.
    details : dict of str to object
        Empty: no type that lancecy makes has any in pylance.
    """

    name: str
    index_type: str
    type_url: str
    fields: list[int]
    field_names: list[str]
    num_rows_indexed: int
    segments: tuple[DescribedSegment, ...]
    total_size_bytes: int | None
    details: dict[str, Any] = field(default_factory=dict)


def named_entries(snapshot: Snapshot, name: str) -> list[IndexEntry]:
    """The segments of an index.

    Parameters
    ----------
    snapshot : Snapshot
    name : str

    Raises
    ------
    IndexNotFoundError
        There is no such index.
    """
    entries = _users(snapshot.indices())
    found = [entry for entry in entries if entry.name == name]
    if not found:
        known = sorted({entry.name for entry in entries})
        hint = f"the table has {', '.join(map(repr, known))}" if known else "the table has none"
        raise IndexNotFoundError(
            f"there is no index {name!r}: {hint}", kind="index", name=name, known=nearest(name, known)
        )
    return found


def listed_indices(snapshot: Snapshot) -> list[dict[str, Any]]:
    """One mapping per segment, by name: ``name``, ``type``, ``uuid``, ``fields``, ``version``, ``fragment_ids``, ``base_id``.

    Parameters
    ----------
    snapshot : Snapshot
    """
    return [
        {
            "name": entry.name,
            "type": _title(entry),
            "uuid": str(entry.uuid),
            "fields": _field_names(snapshot.schema, entry),
            "version": entry.dataset_version,
            "fragment_ids": set(covered(entry) or ()),
            "base_id": entry.base_id,
        }
        for entry in sorted(_users(snapshot.indices()), key=lambda entry: entry.name)
    ]


def described_indices(context: ScanContext) -> list[DescribedIndex]:
    """The indices of a version, by name.

    Parameters
    ----------
    context : ScanContext
    """
    entries: dict[str, list[IndexEntry]] = {}
    for entry in _users(context.snapshot.indices()):
        entries.setdefault(entry.name, []).append(entry)
    return [_described(context, entries[name]) for name in sorted(entries)]


def index_statistics(context: ScanContext, name: str) -> dict[str, Any]:
    """Statistics of an index: what its files hold, and how many fragments and rows it covers.

    Parameters
    ----------
    context : ScanContext
    name : str

    Raises
    ------
    IndexNotFoundError
        There is no such index.
    LanceError
        A file of it cannot be read.
    """
    entries = named_entries(context.snapshot, name)
    live = {fragment.id: context.live_rows(fragment) for fragment in context.fragments}
    rows = [sum(live[number] for number in (covered(entry) or ()) if number in live) for entry in entries]
    indexed = {number for entry in entries for number in covered(entry) or ()} & live.keys()
    types = [entry.details_type or _type_of_files(context.snapshot, entry) for entry in entries]
    segments = [
        _statistics(context.snapshot, entry, kind) for entry, kind in zip(entries, types, strict=True)
    ]
    times = [told.created_at for told in map(describe_index, entries) if told.created_at is not None]
    return {
        "index_type": title_of(types[0]) if types[0] else _title(entries[0]),
        "name": name,
        "num_indices": len(entries),
        "num_segments": len(entries),
        "indices": segments,
        "segments": segments,
        "num_indexed_fragments": len(indexed),
        "num_indexed_rows": sum(rows),
        "num_unindexed_fragments": len(live) - len(indexed),
        "num_unindexed_rows": sum(live.values()) - sum(live[number] for number in indexed),
        "num_indexed_rows_per_delta": rows,
        "updated_at_timestamp_ms": int(max(times).timestamp() * 1000) if times else None,
    }


def _users(entries: Iterable[IndexEntry]) -> list[IndexEntry]:
    """The entries that are indices; others are parts of the table."""
    return [entry for entry in entries if not entry.name.startswith("__lance_")]


def _title(entry: IndexEntry) -> str:
    """The name of its type. Vector indices of old writers state none: their file tells."""
    is_old_vector = not entry.details_type and any(
        path == "index.idx" for path, _ in describe_index(entry).files
    )
    return "Vector" if is_old_vector else title_of(entry.details_type)


def _described(context: ScanContext, entries: list[IndexEntry]) -> DescribedIndex:
    first = entries[0]
    told = describe_index(first).details
    segments = tuple(map(_segment, entries))
    sizes = [segment.size_bytes for segment in segments if segment.size_bytes is not None]
    numbers = {number for entry in entries for number in covered(entry) or ()}
    live = (fragment for fragment in context.fragments if fragment.id in numbers)
    return DescribedIndex(
        first.name,
        _title(first),
        "" if told is None else told[0],
        list(first.fields),
        _field_names(context.snapshot.schema, first),
        sum(map(context.live_rows, live)),
        segments,
        sum(sizes) if len(sizes) == len(segments) else None,
    )


def _segment(entry: IndexEntry) -> DescribedSegment:
    told = describe_index(entry)
    return DescribedSegment(
        str(entry.uuid),
        covered(entry) or frozenset(),
        entry.dataset_version,
        told.version,
        told.created_at,
        sum(size for _, size in told.files) if told.files else None,
        entry.base_id,
    )


def _field_names(schema: Schema, entry: IndexEntry) -> list[str]:
    """The columns of an index; their numbers where the table lacks them."""
    found = []
    for number in entry.fields:
        names: list[str] = []
        field = schema.by_id.get(number)
        while field is not None:
            names.insert(0, field.name)
            field = schema.by_id.get(field.parent_id)
        found.append(".".join(names) or str(number))
    return found


# -- files --------------------------------------------------------------------------------------------


def _type_of_files(snapshot: Snapshot, entry: IndexEntry) -> str:
    """The details that an entry would have, which states none; empty if its files are not those of a scalar index."""
    column = snapshot.schema.by_id.get(entry.fields[0]) if entry.fields else None
    name = kind_of(snapshot, entry, column.arrow_type) if column is not None else ""
    return INDEX_TYPES[name].details_type if name else ""


def _statistics(snapshot: Snapshot, entry: IndexEntry, details_type: str) -> dict[str, Any]:
    """What the files of a segment hold; empty for types whose files are not read."""
    read = _STATISTICS.get(details_type.rpartition(".")[2])
    return {} if read is None else read(snapshot, entry)


def _btree(snapshot: Snapshot, entry: IndexEntry) -> dict[str, Any]:
    source, file = _opened(snapshot, entry, "page_lookup.lance")
    count = file.reader.num_rows
    if not count:
        return {"min": "NULL", "max": "NULL", "num_pages": 0}
    least = _value(snapshot, source, file, "min", 0)
    return {"min": least, "max": _value(snapshot, source, file, "max", count - 1), "num_pages": count}


def _bitmap(snapshot: Snapshot, entry: IndexEntry) -> dict[str, Any]:
    _, file = _opened(snapshot, entry, "bitmap_page_lookup.lance")
    return {"num_bitmaps": file.reader.num_rows}


def _zonemap(snapshot: Snapshot, entry: IndexEntry) -> dict[str, Any]:
    _, file = _opened(snapshot, entry, "zonemap.lance")
    return {"num_zones": file.reader.num_rows, "rows_per_zone": _metadata(file, "rows_per_zone")}


def _bloom_filter(snapshot: Snapshot, entry: IndexEntry) -> dict[str, Any]:
    _, file = _opened(snapshot, entry, "bloomfilter.lance")
    return {
        "type": "BloomFilter",
        "num_blocks": file.reader.num_rows,
        "number_of_items": _metadata(file, "bloomfilter_item"),
        "probability": _metadata(file, "bloomfilter_probability"),
    }


_STATISTICS: dict[str, Callable[[Snapshot, IndexEntry], dict[str, Any]]] = {
    "BTreeIndexDetails": _btree,
    "BitmapIndexDetails": _bitmap,
    "LabelListIndexDetails": _bitmap,
    "ZoneMapIndexDetails": _zonemap,
    "BloomFilterIndexDetails": _bloom_filter,
}


def _opened(snapshot: Snapshot, entry: IndexEntry, name: str) -> tuple[SourceFile, StandaloneFile]:
    store, folder = snapshot.bases.folder(entry.base_id, INDICES)
    path = f"{folder}{entry.uuid}/{name}"
    meta = store.head(path)
    source = SourceFile(store, path, meta.size, meta.identity)
    fetch = snapshot.session.fetcher()
    return source, run(open_standalone(source, snapshot.limits, snapshot.session.cache), fetch)


def _value(snapshot: Snapshot, source: SourceFile, file: StandaloneFile, name: str, row: int) -> str:
    """One value of a column, as text."""
    field = file.schema.field(name)
    rows = RowSelection.range(file.reader.num_rows, row, row + 1)
    try:
        block = run(file.reader.read([field], rows), snapshot.session.fetcher())[field.id]
        found: pa.Scalar = as_array(to_arrow(block, field))[0]
    except LanceError as error:
        raise error.within(source.path)
    if not found.is_valid:
        return "NULL"
    value = found.as_py()
    return "NaN" if isinstance(value, float) and math.isnan(value) else str(value)


def _metadata(file: StandaloneFile, name: str) -> Any:
    """A number in the metadata of a file; None if it has none."""
    stated = file.schema.metadata.get(name)
    text = stated.decode(errors="replace") if isinstance(stated, bytes) else stated
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return None
