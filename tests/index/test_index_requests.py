"""Requests of look-ups through indices with nothing in the caches: on a store without maps, if nothing else is said."""

from __future__ import annotations

import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy.store.base import Store, StoreTraits
from lancecy.store.memory import MemoryStore
from lancecy.store.uri import register_store
from lancecy.store.wrap import CountingStore

ROWS = 120_000
MOST = 3
"""Requests before those for the rows."""

INDICES = {
    "id": "BTREE",
    "word": "BTREE",
    "g": "BITMAP",
    "tags": "LABEL_LIST",
    "t": "ZONEMAP",
    "u": "BLOOMFILTER",
}
LOOK_UPS = (
    ("id = 77", 1),
    ("id IN (5, 6, 119999)", 3),
    ("id BETWEEN 40000 AND 40009", 10),
    ("id >= 40000 AND id < 40010 AND id != 40003", 9),
    ("word = 'w00077'", 1),
    ("g = 5", None),
    ("g IS NULL", 1),
    ("array_has(tags, 7)", None),
    ("t = 70000", 1),
    ("u = 60000", 1),
)


@pytest.fixture(scope="module")
def counted() -> CountingStore:
    """A table of three fragments with an index of each type, on a store that counts requests."""
    scheme = f"counting{uuid.uuid4().hex[:8]}"
    inner = MemoryStore(traits=StoreTraits(create_is_atomic=True, concurrency=16))
    store = CountingStore(inner, uri=f"{scheme}://here/t")

    def opened(uri: str, options: object, **_: object) -> Store:
        return store

    register_store(scheme, opened)
    random = np.random.default_rng(5)
    ids, groups = random.permutation(ROWS), random.integers(0, 500, ROWS)
    table = pa.table(
        {
            "id": ids,
            "word": pa.array([f"w{n:05d}" for n in ids.tolist()]),
            "g": pa.array(groups, mask=np.arange(ROWS) == 9),
            "tags": pa.array(groups[:, None].tolist()),
            "t": np.arange(ROWS),
            "u": random.permutation(ROWS),
        }
    )
    ds = lancecy.write_dataset(table, store.uri, max_rows_per_file=ROWS // 3)
    for column, kind in INDICES.items():
        ds.create_scalar_index(column, kind)
    return store


@pytest.mark.parametrize(("where", "rows"), LOOK_UPS)
def test_a_look_up_makes_few_requests_before_those_for_rows(
    counted: CountingStore, where: str, rows: int | None
) -> None:
    ds = lancecy.dataset(counted.uri, session=lancecy.Session())
    counted.clear()
    found = ds.to_table(columns=["id"], filter=where)
    of_indices = [request for request in counted.requests if request.path.startswith("_indices/")]
    assert 0 < len(of_indices) <= MOST
    assert found.num_rows == rows or rows is None
    assert found.num_rows == ds.count_rows(where) > 0
    # What was read stays in the session.
    counted.clear()
    assert ds.to_table(columns=["id"], filter=where).equals(found)
    assert not [request for request in counted.requests if request.path.startswith("_indices/")]


@pytest.mark.slow
def test_exact_counts_open_no_data_file(counted: CountingStore) -> None:
    other = lancecy.dataset(counted.uri, session=lancecy.Session())
    filters = (
        "id < 1000 AND NOT id IN (7, 8)",
        "id < 1000 OR g = 5",
        "g = 5 AND id < 20000",
        "id < 9 AND id > 9",
    )
    rows = [other.to_table(["id"], filter=where, use_scalar_index=False).num_rows for where in filters]
    ds = lancecy.dataset(counted.uri, session=lancecy.Session())
    counted.clear()
    assert [ds.count_rows(where) for where in filters] == rows
    assert not [request for request in counted.requests if request.path.startswith("data/")]


def test_exact_counts_need_no_data_file(tmp_path: Path) -> None:
    rows = pa.table({"id": np.arange(3000) * 7 % 3000, "g": np.arange(3000) % 50})
    ds = lancecy.write_dataset(rows, tmp_path / "t", max_rows_per_file=1000)
    ds.create_scalar_index("id", "BTREE")
    ds.create_scalar_index("g", "BITMAP")
    for file in (tmp_path / "t" / "data").iterdir():
        file.unlink()
    ds = lancecy.dataset(tmp_path / "t", session=lancecy.Session())
    for where, found in (("g = 7", 60), ("id < 1200", 1200), ("g IN (1, 2) AND id >= 0", 120), ("g = 50", 0)):
        assert ds.count_rows(where) == found
        assert ds.scanner(["id", "g"], filter=where, with_row_id=True).count_rows() == found
    assert ds.scanner(filter="g = 7", offset=10, limit=20).count_rows() == 20
