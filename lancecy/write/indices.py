"""Entries of indices, as users see and give them, with pylance's names.

Facts: table sheet, section 10.1.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import field
from datetime import datetime

import numpy as np

from lancecy.records import dataclass
from lancecy.table.manifest import IndexEntry
from lancecy.table.rows import roaring
from lancecy.table.wire.indices import IndexDescription, describe_index, encode_index

__all__ = ["Index", "IndexFile", "index_entry", "index_view"]


@dataclass(frozen=True)
class IndexFile:
    """A file of an index.

    Attributes
    ----------
    path : str
        Below the folder of the index.
    size_bytes : int
    """

    path: str
    size_bytes: int


@dataclass(frozen=True)
class Index:
    """An index of a table, as its metadata describes it.

    Attributes
    ----------
    uuid, name : str
    fields : list of int
        Ids of the indexed fields.
    dataset_version : int
        Version it was made from.
    fragment_ids : frozenset of int
        Fragments it covers; empty if unknown. Any collection of numbers, to commit it.
    index_version : int
    created_at : datetime or None
    base_id : int or None
    files : list of IndexFile or None
    index_details : (str, bytes) or None
        Type and value.
    covering_fields : list of int
    """

    uuid: str
    name: str
    fields: list[int]
    dataset_version: int
    fragment_ids: Collection[int]
    index_version: int
    created_at: datetime | None = None
    base_id: int | None = None
    files: list[IndexFile] | None = None
    index_details: tuple[str, bytes] | None = None
    covering_fields: list[int] = field(default_factory=list)


def index_view(entry: IndexEntry) -> Index:
    """An entry as users see it.

    Parameters
    ----------
    entry : IndexEntry

    Raises
    ------
    FormatError
        Its fragments cannot be read.
    """
    told = describe_index(entry)
    bitmap = np.frombuffer(entry.fragment_bitmap or b"", np.uint8)
    return Index(
        str(entry.uuid),
        entry.name,
        list(entry.fields),
        entry.dataset_version,
        frozenset(roaring.fragment_ids(bitmap).tolist()) if bitmap.size else frozenset(),
        told.version,
        told.created_at,
        entry.base_id,
        [IndexFile(path, size) for path, size in told.files] or None,
        told.details,
        list(told.covering_fields),
    )


def index_entry(index: Index) -> IndexEntry:
    """What a user gives, as an entry.

    Parameters
    ----------
    index : Index
        Of pylance too.

    Raises
    ------
    ValueError
        Its uuid is none, or a number does not fit.
    """
    fragments = np.array(sorted({int(number) for number in index.fragment_ids}), np.int64)
    if fragments.size and not 0 <= fragments[0] <= fragments[-1] < 1 << 32:
        raise ValueError(f"index {index.name!r} covers fragment {fragments[0]}: ids are from 0 to 4294967295")
    entry = IndexEntry(
        uuid.UUID(index.uuid),
        index.name,
        tuple(index.fields),
        index.dataset_version,
        roaring.encode(fragments),
        "",
        index.base_id,
        b"",
    )
    told = IndexDescription(
        index.index_version,
        index.created_at,
        tuple((file.path, file.size_bytes) for file in index.files or ()),
        index.index_details,
        tuple(index.covering_fields),
    )
    return encode_index(entry, told)
