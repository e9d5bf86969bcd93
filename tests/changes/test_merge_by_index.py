"""Merges find rows by an index of the key, and change what they change without one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy.store.base import Store, StoreTraits
from lancecy.store.memory import MemoryStore
from lancecy.store.uri import register_store
from lancecy.store.wrap import CountingStore

ROWS = 20_000


def rows(ids: Any, value: int) -> pa.Table:
    """Keys as numbers and as text, the last of them null, and a value."""
    keys = [*np.asarray(ids).tolist(), None]
    words = [None if n is None else f"k{n}" for n in keys]
    return pa.table(
        {"id": pa.array(keys, pa.int64()), "word": pa.array(words, pa.string()), "v": [value] * len(keys)}
    )


def changed(uri: Path, kind: str | None, on: str, use: bool = True) -> tuple[pa.Table, dict[str, int]]:
    """A table after an upsert: indices cover some fragments, and name rows that were deleted."""
    random = np.random.default_rng(8)
    ds = lancecy.write_dataset(
        rows(random.permutation(ROWS), 0), uri, max_rows_per_file=6000, durability="none"
    )
    if kind is not None:
        ds.create_scalar_index(on, kind, durability="none")
    ds.delete("id % 100 = 7", durability="none")
    ds.append(rows(np.arange(ROWS, ROWS + 500), 1), durability="none")
    source = rows([*range(0, 1500, 3), *range(ROWS + 100, ROWS + 110), *range(ROWS + 490, ROWS + 520)], 2)
    merge = ds.merge_insert(on).when_matched_update_all().when_not_matched_insert_all().use_index(use)
    stats = merge.durability("none").execute(source)
    return ds.to_table().sort_by([("id", "ascending"), ("v", "ascending")]), stats


@pytest.mark.slow
@pytest.mark.parametrize("on", ["id", "word"])
@pytest.mark.parametrize("kind", ["BTREE", "BITMAP", "BLOOMFILTER"])
def test_an_upsert_is_the_same_with_an_index(tmp_path: Path, kind: str, on: str) -> None:
    plain = changed(tmp_path / "plain", None, on)
    assert changed(tmp_path / "used", kind, on) == plain
    assert changed(tmp_path / "unused", kind, on, use=False) == plain


@pytest.mark.parametrize("kind", [pa.int64(), pa.large_string(), pa.binary(19), pa.uuid()], ids=str)
def test_an_index_spares_reading_the_keys(kind: pa.DataType) -> None:
    inner = MemoryStore(traits=StoreTraits(create_is_atomic=True, concurrency=16))
    store = CountingStore(inner, uri=f"merged://key-{kind.id}/t")

    def opened(uri: str, options: object, **_: object) -> Store:
        return store

    register_store("merged", opened)
    numbers = np.random.default_rng(8).integers(0, 2**60, 100_000)
    ids: pa.Array = pa.array(numbers)
    if kind == pa.uuid():
        ids = pa.array([n.to_bytes(16, "big") for n in numbers.tolist()], pa.binary(16)).cast(kind)
    elif kind != ids.type:
        ids = pa.array([f"{n:019d}" for n in numbers.tolist()], pa.string()).cast(pa.binary()).cast(kind)
    table = pa.table({"id": ids, "v": numbers})
    lancecy.write_dataset(table, store.uri, max_rows_per_file=20_000).create_scalar_index("id", "BTREE")
    source = pa.table({"id": ids[500:505], "v": [1] * 5})

    def read(use: bool) -> int:
        ds = lancecy.dataset(store.uri, session=lancecy.Session())
        store.clear()
        stats = ds.merge_insert("id").when_matched_update_all().use_index(use).execute(source)
        assert stats["num_updated_rows"] == 5
        return len(
            {r.path for r in store.requests if r.path.startswith("data/") and r.method.startswith("get")}
        )

    assert read(True) == 1
    assert read(False) >= 5
