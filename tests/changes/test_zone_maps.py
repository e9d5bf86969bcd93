"""Zone maps of many columns in one pass, and those that a writer makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import ColumnNotFoundError, UnsupportedError
from lancecy.store.base import Store, StoreTraits
from lancecy.store.memory import MemoryStore
from lancecy.store.uri import register_store
from lancecy.store.wrap import CountingStore

ROWS = 30_000
FILTERS = (
    "id = 12345",
    "t > 20000 AND t <= 20010",
    "word < 'w00100'",
    "x > 29990",
    "place.x = 15000",
    "word IS NULL",
    "t IS NULL AND id > 100",
)
ALL = ("id", "t", "word", "x", "flag", "place.x", "place.name")


def table(first: int = 0, rows: int = ROWS) -> pa.Table:
    """Columns in about the order of the rows, nulls and NaN among them, and some without an order."""
    numbers = np.arange(first, first + rows)
    x = numbers.astype(np.float64)
    x[numbers % 1000 == 7] = np.nan
    names = pa.array([f"w{n:05d}" for n in numbers.tolist()], pa.string())
    place = pa.StructArray.from_arrays(
        [pa.array(numbers), names], names=["x", "name"], mask=pa.array(numbers % 500 == 3)
    )
    return pa.table(
        {
            "id": numbers,
            "t": pa.array(numbers, mask=numbers % 100 == 5),
            "word": pa.array(
                [None if n % 7000 == 11 else f"w{n:05d}" for n in numbers.tolist()], pa.string()
            ),
            "x": x,
            "flag": numbers % 2 == 0,
            "place": place,
            "vec": pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(2 * rows)), 2),
            "tags": pa.array([[1]] * rows, pa.list_(pa.int64())),
        }
    )


def facts(ds: Any) -> list[tuple[Any, ...]]:
    """What the files of the zone maps hold, by name."""
    found = []
    for index in sorted(ds.list_indices(), key=lambda index: (index["name"], sorted(index["fragment_ids"]))):
        folder = Path(ds.uri) / "_indices" / str(index["uuid"])
        file = lancecy.LanceFileReader(str(folder / "zonemap.lance"))
        nulls = file.read_global_buffer(1)
        # As text, in which NaN is equal to NaN.
        rows = str(file.read_all().to_table().to_pydict())
        found.append((index["name"], sorted(index["fragment_ids"]), rows, bytes(nulls)))
    return found


def check_answers(ds: Any, *filters: str) -> None:
    for where in filters or FILTERS:
        plain = ds.to_table(["id"], filter=where, use_scalar_index=False)
        assert ds.to_table(["id"], filter=where).equals(plain), where
        assert plain.num_rows, where


@pytest.mark.parametrize("stable", [False, True])
def test_one_pass_makes_what_single_indices_are(tmp_path: Path, stable: bool) -> None:
    data = table()
    ds = lancecy.write_dataset(
        data, tmp_path / "t", max_rows_per_file=13_000, enable_stable_row_ids=stable, durability="none"
    )
    ds.delete("id BETWEEN 14000 AND 14100")
    steps: list[Any] = []
    names = ds.create_zonemaps(durability="none", progress=steps.append)
    assert names == tuple(f"{column}_zonemap_idx" for column in ALL)
    assert ds.version == 3
    assert (steps[-1].done, steps[-1].total) == (ROWS - 101, ROWS - 101)
    together = facts(ds)
    for column, name in zip(ALL, names, strict=True):
        ds.create_scalar_index(column, "ZONEMAP", name=name, durability="none")
    assert facts(ds) == together
    check_answers(ds)
    assert ds.create_zonemaps(["id"], durability="none") == ("id_zonemap_idx",)
    assert len(ds.list_indices()) == len(ALL)


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1", "2.2"])
def test_a_writer_makes_the_zone_maps_of_its_rows(tmp_path: Path, version: str) -> None:
    columns = ["id", "t", "word", "x"]
    data = table().select(columns)
    if version == "0.1":
        data = data.set_column(1, "t", data["t"].fill_null(-1))
    options: dict[str, Any] = {
        "data_storage_version": version,
        "max_rows_per_file": 11_000,
        "durability": "none",
    }
    batches = data.to_batches(max_chunksize=7000)
    ds = lancecy.write_dataset(iter(batches), tmp_path / "t", data.schema, zonemaps=True, **options)
    ds.append(data.slice(0, 9000), zonemaps=["id", "t"], max_rows_per_file=5000, durability="none")
    made = facts(ds)
    plain = lancecy.write_dataset(data, tmp_path / "plain", **options)
    plain.create_zonemaps(durability="none")
    first = [fact for fact in made if 0 in fact[1]]
    assert first == facts(plain)
    assert [fact[:2] for fact in made if 0 not in fact[1]] == [
        ("id_zonemap_idx", [3, 4]),
        ("t_zonemap_idx", [3, 4]),
    ]
    check_answers(ds, "x > 29990")
    for where in ("id = 12345", "t > 20000 AND t <= 20010", "word < 'w00100'", "t = 8999", "id = 17"):
        check_answers(ds, where)
        assert ds.scanner(filter=where).explain().kept_rows < ROWS
    assert ds.optimize.optimize_indices(durability="none") is None
    assert ds.index_statistics("word_zonemap_idx")["num_unindexed_rows"] == 0


def test_a_writer_reads_nothing_again() -> None:
    inner = MemoryStore(traits=StoreTraits(create_is_atomic=True, concurrency=16))
    store = CountingStore(inner, uri="zoned://here/t")

    def opened(uri: str, options: object, **_: object) -> Store:
        return store

    register_store("zoned", opened)
    ds = lancecy.write_dataset(table(), store.uri, zonemaps=True)
    assert {index["type"] for index in ds.list_indices()} == {"ZoneMap"}
    # Nothing was read: writing is counted by other methods.
    assert not [r for r in store.requests if r.path.startswith("data/") and r.method.startswith("get")]
    # Pages of 2.1 have no statistics, so a look-up reads few rows by its zone map.
    store.clear()
    assert ds.scanner(filter="id = 77").explain().kept_rows == 8192
    assert ds.to_table(["id"], filter="id = 77").num_rows == 1


def test_wrong_columns_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    data = table(rows=10)
    with pytest.raises(ColumnNotFoundError):
        lancecy.write_dataset(data, tmp_path / "t", zonemaps=["nothing"])
    with pytest.raises(TypeError, match="ZONEMAP"):
        lancecy.write_dataset(data, tmp_path / "t", zonemaps=["vec"])
    with pytest.raises(TypeError, match="zonemaps"):
        lancecy.write_dataset(data, tmp_path / "t", zonemaps="id")
    assert not list((tmp_path / "t").rglob("*.lance"))
    ds = lancecy.write_dataset(data, tmp_path / "t")
    with pytest.raises(TypeError, match="ZONEMAP"):
        ds.create_zonemaps(["id", "tags"])
    with pytest.raises(ColumnNotFoundError):
        ds.create_zonemaps(["nothing"])
    assert ds.list_indices() == []
    frame = lancecy.scan(ds)
    with pytest.raises(UnsupportedError, match="create_zonemaps"):
        lancecy.write_dask(frame, tmp_path / "u", zonemaps=True, compute=False)
    with pytest.raises(ColumnNotFoundError):
        lancecy.write_dask(frame, tmp_path / "u", zonemaps=["nothing"])
    assert not (tmp_path / "u").exists()


def test_workers_of_dask_make_the_zone_maps_of_what_they_write(tmp_path: Path) -> None:
    data = table().select(["id", "t", "word", "x"])
    options: dict[str, Any] = {"max_rows_per_file": 4000, "durability": "none"}
    plain = lancecy.write_dataset(data, tmp_path / "plain", **options)
    frame = lancecy.scan(plain, blocksize=250_000)
    assert frame.npartitions > 2
    once = {"mode": "append", "token": "once", **options}
    ds = lancecy.write_dask(frame, tmp_path / "t", zonemaps=["word", "x"], **once)
    plain.create_zonemaps(["word", "x"], durability="none")
    assert facts(ds) == facts(plain)
    assert ds.version == 2
    check_answers(ds, "x > 29990", "word < 'w00100'", "word IS NULL")
    assert ds.scanner(filter="word > 'w29990'").explain().kept_rows < 5000
    again = lancecy.write_dask(frame, tmp_path / "t", zonemaps=["word", "x"], **once)
    assert lancecy.dataset(tmp_path / "t").version == 2
    assert again.count_rows() == ROWS
    more = lancecy.write_dataset(frame, ds, mode="append", zonemaps=True, **options)
    assert {index.num_rows_indexed for index in more.describe_indices()} == {ROWS, 2 * ROWS}
    check_answers(more, "x > 29990", "id = 12345", "t > 20000 AND t <= 20010")


def test_an_empty_table_has_empty_zone_maps(tmp_path: Path) -> None:
    ds = lancecy.write_dataset(table(rows=0), tmp_path / "t", zonemaps=True)
    assert ds.list_indices() == []
    ds.create_zonemaps(["id"])
    ds.append(table(rows=5))
    assert ds.to_table(filter="id = 3").num_rows == 1


@pytest.mark.interop
def test_pylance_uses_the_zone_maps_of_a_writer(tmp_path: Path) -> None:
    lance = pytest.importorskip("lance")
    lancecy.write_dataset(table(), tmp_path / "t", max_rows_per_file=11_000, zonemaps=True, durability="none")
    theirs, plain = lance.dataset(str(tmp_path / "t")), lancecy.dataset(tmp_path / "t")
    for where in FILTERS:
        # Both libraries have their own rule for NaN, with indices and without.
        expected = theirs.to_table(["id"], filter=where, use_scalar_index=False)
        assert theirs.to_table(["id"], filter=where).equals(expected), where
        assert "x" in where or plain.to_table(["id"], filter=where).equals(expected), where
    assert "ScalarIndexQuery" in theirs.scanner(filter="id = 12345").explain_plan()
    theirs.optimize.optimize_indices()
    assert theirs.count_rows("id = 12345") == 1


@pytest.mark.interop
@pytest.mark.parametrize("column", ["a", "b"])
def test_rows_are_written_where_another_index_has_the_name_of_their_zone_map(
    tmp_path: Path, column: str
) -> None:
    """An error would ask for the rows again; and pylance answers no filter with an index of two types."""
    ds = lancecy.write_dataset({"a": [1, 2], "b": [3, 4]}, tmp_path / "t")
    ds.create_scalar_index(column, "BTREE", name="a_zonemap_idx")
    with pytest.warns(RuntimeWarning, match="the rows are written, but not their zone maps"):
        ds.append({"a": [5], "b": [6]}, zonemaps=["a"])
    assert [index.index_type for index in ds.describe_indices()] == ["BTree"]
    theirs = pytest.importorskip("lance").dataset(ds.uri)
    assert theirs.count_rows("a >= 2 and b >= 4") == ds.count_rows("a >= 2 and b >= 4") == 2


@pytest.mark.parametrize(("column", "kind"), [("a", "BTREE"), ("b", "BTREE"), ("b", "ZONEMAP")])
def test_an_index_that_is_no_zone_map_of_the_column_is_not_replaced(
    tmp_path: Path, column: str, kind: str
) -> None:
    ds = lancecy.write_dataset({"a": [1, 2], "b": [3, 4]}, tmp_path / "t")
    ds.create_scalar_index(column, kind, name="a_zonemap_idx")
    before = ds.describe_indices()
    with pytest.raises(
        ValueError, match=r"'a_zonemap_idx', which is no zone map of column 'a': drop it, or .* name=…"
    ):
        ds.create_zonemaps()
    assert ds.describe_indices() == before and ds.version == ds.latest_version == 2
    assert ds.create_zonemaps(["b"]) == ds.create_zonemaps(["b"]) == ("b_zonemap_idx",)
