"""Fuzzed: the files of one index of a table, used to answer filters.

The table has eight rows. Of a BTREE: u32 length of page_lookup.lance | page_lookup.lance | page_data.lance; of other
indices their one file.
"""

from __future__ import annotations

import contextlib
import struct
import tempfile
import uuid
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

import lancecy
from lancecy import LanceOperation
from lancecy.limits import Limits
from lancecy.store.memory import MemoryStore
from tests.fuzz.tables import OneTable

__all__ = ["INDEX_KINDS", "index_seeds", "read_index"]

_ROWS = pa.table(
    {
        "n": pa.array([3, 1, None, 7, -2, 1, 5, 9]),
        "word": ["abc", "b", None, "", "abcde", "b", "zz", "xabc"],
        "tags": [["a"], ["a", "b"], [], None, [None], ["b", "b"], ["a", None], ["c"]],
    }
)
_FOLDER = uuid.UUID(int=7)
INDEX_KINDS = {
    "BTREE": ("n", ("page_lookup.lance", "page_data.lance"), "lance.table.BTreeIndexDetails", 0),
    "BITMAP": ("word", ("bitmap_page_lookup.lance",), "lance.table.BitmapIndexDetails", 0),
    "LABEL_LIST": ("tags", ("bitmap_page_lookup.lance",), "lance.table.LabelListIndexDetails", 1),
    "ZONEMAP": ("n", ("zonemap.lance",), "lance.table.ZoneMapIndexDetails", 0),
    "BLOOMFILTER": ("n", ("bloomfilter.lance",), "lance.index.pb.BloomFilterIndexDetails", 0),
    "NGRAM": ("word", ("ngram_postings.lance",), "lance.table.NGramIndexDetails", 0),
}
"""Column, files, type of details and version of each type."""
_FILTERS = {
    "n": ("n = 1", "n > 3", "n IS NULL", "n != 7"),
    "word": ("word = 'b'", "word LIKE '%abc%'", "word IS NULL"),
    "tags": ("array_has(tags, 'a')", "NOT array_has_any(tags, ['a', 'b'])"),
}


def read_index(kind: str, data: bytes, limits: Limits) -> None:
    """Answer filters with an index of these files, and without one where they are damaged."""
    column, names, _, _ = INDEX_KINDS[kind]
    store = MemoryStore("/t")
    for path, held in _table(kind).items():
        store.put(path, held)
    for name, held in zip(names, _pieces(len(names), data), strict=True):
        store.put(f"_indices/{_FOLDER}/{name}", held)
    with contextlib.closing(OneTable(store, limits)) as session, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        ds = lancecy.dataset("/t", session=session, untrusted=True)
        for text in _FILTERS[column]:
            found = ds.to_table(filter=text).num_rows
            if found != ds.count_rows(text) or found > len(_ROWS):
                raise AssertionError(f"{found} rows for {text}, and another count")
            if told and found != ds.to_table(filter=text, use_scalar_index=False).num_rows:
                raise AssertionError(f"an index of which is told that it is not used answered {text}")
    for warning in told:
        if "filters are answered without it" not in str(warning.message):
            raise AssertionError(str(warning.message))


def _pieces(count: int, data: bytes) -> list[bytes]:
    if count == 1:
        return [data]
    size = int.from_bytes(data[:4], "little")
    return [data[4 : 4 + size], data[4 + size :]]


@cache
def _table(kind: str) -> dict[str, bytes]:
    """The files of a table that has an index of this type, without those of the index."""
    column, _, details, version = INDEX_KINDS[kind]
    with tempfile.TemporaryDirectory() as folder:
        ds = lancecy.write_dataset(_ROWS, folder, durability="none", enable_v2_manifest_paths=False)
        field = ds.lance_schema.field(column).id
        index = lancecy.Index(str(_FOLDER), "i", [field], 1, [0], version, index_details=(f"/{details}", b""))
        lancecy.commit(ds, LanceOperation.CreateIndex([index], []))
        return _read(Path(folder))


def _read(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def index_seeds(kind: str) -> list[bytes]:
    """Files of indices of the table, as inputs of the target; those of NGRAM are pylance's."""
    column, names, _, _ = INDEX_KINDS[kind]
    seeds = []
    # A Bloom filter has 32 KiB.
    for version in ("2.1",) if kind == "BLOOMFILTER" else ("2.0", "2.1", "2.2"):
        with tempfile.TemporaryDirectory() as folder:
            ds: Any = lancecy.write_dataset(_ROWS, folder, durability="none", data_storage_version=version)
            if kind == "NGRAM":
                import lance

                ds = lance.dataset(folder)
            ds.create_scalar_index(column, kind)
            (made,) = Path(folder, "_indices").iterdir()
            held = [(made / name).read_bytes() for name in names]
            seeds.append(struct.pack("<I", len(held[0])) + b"".join(held) if len(held) > 1 else held[0])
    return seeds
