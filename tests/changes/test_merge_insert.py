"""Merges of rows by keys: clauses, keys of every kind, sources of every kind, refusals."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy import col
from lancecy.changes.merge_insert import MergeInsertBuilder
from lancecy.errors import (
    ColumnNotFoundError,
    ExistsError,
    ExpressionError,
    LanceError,
    SchemaError,
    UnsupportedError,
)
from lancecy.progress import Step
from tests.changes.rows import data_files
from tests.helpers.folded import folded

VERSIONS = ("0.1", "2.0", "2.1", "2.2")
TABLE = {"id": [1, 2, 3], "v": ["a", "b", "c"], "w": [1.0, 2.0, 3.0]}
Merge = Callable[[MergeInsertBuilder], MergeInsertBuilder]


@pytest.fixture
def ds(tmp_path: Path) -> lancecy.Dataset:
    return lancecy.write_dataset(TABLE, tmp_path / "t")


def upsert(ds: lancecy.Dataset, on: Any = "id") -> Any:
    return ds.merge_insert(on).when_matched_update_all().when_not_matched_insert_all()


def counts(inserted: int, updated: int, deleted: int) -> dict[str, int]:
    return {"num_inserted_rows": inserted, "num_updated_rows": updated, "num_deleted_rows": deleted}


def values(ds: lancecy.Dataset) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = ds.to_table().to_pydict()
    return found


# -- clauses ------------------------------------------------------------------------------------------


@folded("version", VERSIONS)
@folded("stable", [False, True])
def test_matching_rows_are_updated_and_others_inserted(stable: bool, version: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ds = lancecy.write_dataset(
            TABLE, f"{folder}/t", data_storage_version=version, enable_stable_row_ids=stable
        )
        done = upsert(ds).execute({"id": [5, 2], "v": ["e", "B"], "w": [5.0, 20.0]})
        assert done == counts(1, 1, 0) and ds.version == 2
        assert values(ds) == {"id": [1, 3, 2, 5], "v": ["a", "c", "B", "e"], "w": [1.0, 3.0, 20.0, 5.0]}
        ids = ds.to_table(columns=["_rowid"])["_rowid"].to_pylist()
        if stable:
            assert ids == [0, 2, 1, 3], "the updated row keeps its id"
        assert ds.take_rows([ids[2]])["v"].to_pylist() == ["B"]


CLAUSES: dict[str, tuple[Merge, dict[str, int], list[int], list[str]]] = {
    "insert": (
        lambda m: m.when_not_matched_insert_all(),
        counts(1, 0, 0),
        [1, 2, 3, 9],
        ["a", "b", "c", "y"],
    ),
    "update": (lambda m: m.when_matched_update_all(), counts(0, 1, 0), [1, 3, 2], ["a", "c", "x"]),
    "delete": (lambda m: m.when_matched_delete(), counts(0, 0, 1), [1, 3], ["a", "c"]),
    "replace": (
        lambda m: m.when_matched_delete().when_not_matched_insert_all(),
        counts(1, 0, 1),
        [1, 3, 9],
        ["a", "c", "y"],
    ),
    "last clause of matched rows counts": (
        lambda m: m.when_matched_update_all().when_matched_delete(),
        counts(0, 0, 1),
        [1, 3],
        ["a", "c"],
    ),
    "synchronise": (
        lambda m: (
            m.when_matched_update_all().when_not_matched_insert_all().when_not_matched_by_source_delete()
        ),
        counts(1, 1, 2),
        [2, 9],
        ["x", "y"],
    ),
    "delete others": (lambda m: m.when_not_matched_by_source_delete(), counts(0, 0, 2), [2], ["b"]),
    "delete some others": (
        lambda m: m.when_not_matched_by_source_delete("id > 1 AND w < 9"),
        counts(0, 0, 1),
        [1, 2],
        ["a", "b"],
    ),
    "delete some others by an expression": (
        lambda m: m.when_not_matched_by_source_delete(col("v") == "a"),
        counts(0, 0, 1),
        [2, 3],
        ["b", "c"],
    ),
}


@folded("name", list(CLAUSES))
def test_clauses_say_what_happens(name: str) -> None:
    clauses, done, ids, texts = CLAUSES[name]
    with tempfile.TemporaryDirectory() as folder:
        ds = lancecy.write_dataset(TABLE, f"{folder}/t")
        assert (
            clauses(ds.merge_insert("id")).execute({"id": [2, 9], "v": ["x", "y"], "w": [0.0, 0.0]}) == done
        )
        assert (values(ds)["id"], values(ds)["v"]) == (ids, texts)


@folded(
    "condition, updated",
    [
        ("source.w > target.w", [2]),
        ("target.v = 'a'", [1]),
        ("source.w IS NULL", [3]),
        ("true", [1, 2, 3]),
        ("source.id = 9", []),
        (col("source.w") < col("target.w"), [1]),
    ],
)
def test_condition_chooses_among_matching_rows(condition: Any, updated: list[int]) -> None:
    """Rows that match and do not pass are no new rows."""
    with tempfile.TemporaryDirectory() as folder:
        ds = lancecy.write_dataset(TABLE, f"{folder}/t")
        merge = ds.merge_insert("id").when_matched_update_all(condition).when_not_matched_insert_all()
        source = {"id": [1, 2, 3, 9], "v": ["x", "x", "x", "x"], "w": [0.5, 20.0, None, 9.0]}
        assert merge.execute(source) == counts(1, len(updated), 0)
        found = dict(zip(values(ds)["id"], values(ds)["v"], strict=True))
        assert [key for key, value in found.items() if value == "x"] == [*updated, 9]


@pytest.mark.parametrize("worth", [0.0, 1e12], ids=["threads", "one-thread"])
def test_fragments_are_searched_by_threads_or_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, worth: float
) -> None:
    monkeypatch.setattr("lancecy.scanning.outputs._WORTH_NANOSECONDS", worth)
    table = {"id": np.arange(8000), "v": np.zeros(8000, np.int64)}
    ds = lancecy.write_dataset(table, tmp_path / "t", max_rows_per_file=1000)
    rows = {"id": np.arange(0, 16_000, 50), "v": np.ones(320, np.int64)}
    assert upsert(ds).execute(rows) == counts(160, 160, 0)
    assert ds.update({"v": "2"}, "id % 1000 = 7") == {"num_rows_updated": 8}
    assert ds.delete("id % 1000 = 8") == {"num_deleted_rows": 8}
    found = {row["id"]: row["v"] for row in ds.to_table().to_pylist()}
    wanted = {n: 2 if n % 1000 == 7 else int(n % 50 == 0) for n in range(8000) if n % 1000 != 8}
    assert found == {**wanted, **dict.fromkeys(range(8000, 16_000, 50), 1)} and ds.count_rows() == 8152


def test_rows_that_must_not_match_are_named(ds: lancecy.Dataset) -> None:
    merge = ds.merge_insert("id").when_matched_fail().when_not_matched_insert_all()
    with pytest.raises(ExistsError, match="id = 2"):
        merge.execute({"id": [9, 2], "v": ["x", "y"]})
    assert ds.version == 1
    assert merge.execute({"id": [9], "v": ["x"]}) == counts(1, 0, 0)


def test_merge_without_effect_makes_no_version(ds: lancecy.Dataset) -> None:
    empty = pa.table({"id": pa.array([], pa.int64()), "v": pa.array([], pa.string())})
    assert upsert(ds).execute(empty) == counts(0, 0, 0)
    assert ds.merge_insert("id").when_matched_update_all().execute({"id": [9], "v": ["x"]}) == counts(0, 0, 0)
    assert ds.version == 1


def test_every_row_can_go(ds: lancecy.Dataset) -> None:
    assert ds.merge_insert("id").when_matched_delete().execute({"id": [1, 2, 3]}) == counts(0, 0, 3)
    assert ds.count_rows() == 0 and ds.get_fragments() == []
    assert upsert(ds).execute(TABLE) == counts(3, 0, 0)


def test_rows_of_the_table_with_one_key_are_all_updated(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"id": [1, 2, 1], "v": ["a", "b", "c"]}, tmp_path / "t")
    assert upsert(ds).execute({"id": [3, 1], "v": ["x", "y"]}) == counts(1, 2, 0)
    assert values(ds) == {"id": [2, 1, 1, 3], "v": ["b", "y", "y", "x"]}


def test_merge_of_deleted_rows_inserts_them(ds: lancecy.Dataset) -> None:
    ds.delete("id = 2")
    assert upsert(ds).execute({"id": [2, 3], "v": ["x", "y"], "w": [0.0, 0.0]}) == counts(1, 1, 0)
    assert values(ds)["id"] == [1, 3, 2]


# -- keys ---------------------------------------------------------------------------------------------

DAY, NOON = dt.date(2020, 1, 1), dt.datetime(2020, 1, 1, 12)
KEYS: dict[str, tuple[pa.DataType, list[Any], Any]] = {
    "int8": (pa.int8(), [-1, 0, 1], 7),
    "uint64": (pa.uint64(), [0, 2**64 - 1, 3], 2**63),
    "bool": (pa.bool_(), [True], False),
    "halffloat": (pa.float16(), [np.float16(1), np.float16(2)], np.float16(3)),
    "float": (pa.float32(), [0.5, -1.0], 2.5),
    "double": (pa.float64(), [float("inf"), -1.0], 1e300),
    "date": (pa.date32(), [DAY, DAY + dt.timedelta(1)], DAY - dt.timedelta(9)),
    "timestamp": (pa.timestamp("us", "UTC"), [NOON, NOON + dt.timedelta(1)], NOON + dt.timedelta(9)),
    "duration": (pa.duration("ms"), [dt.timedelta(1), dt.timedelta(2)], dt.timedelta(3)),
    "time": (pa.time64("us"), [dt.time(1), dt.time(2)], dt.time(3)),
    "decimal": (pa.decimal128(20, 2), [Decimal("1.25"), Decimal("-3.5")], Decimal("9.99")),
    "string": (pa.string(), ["", "a", "a longer text than thirty-two bytes, for the hash"], "b"),
    "large_string": (pa.large_string(), ["x", "y"], "z"),
    "binary": (pa.binary(), [b"", b"\0", b"\0\0"], b"\0\0\0"),
    "fixed": (pa.binary(3), [b"abc", b"abd"], b"abe"),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), ["p", "q"], "r"),
    "struct": (
        pa.struct({"a": pa.int64(), "b": pa.string()}),
        [{"a": 1, "b": "x"}, {"a": 1, "b": "y"}, {"a": None, "b": "x"}],
        {"a": 2, "b": "x"},
    ),
}  # fmt: skip


@folded("name", list(KEYS))
def test_keys_have_any_type_but_lists(name: str) -> None:
    kind, there, new = KEYS[name]
    with tempfile.TemporaryDirectory() as folder:
        made = pa.table({"k": pa.array(there, kind), "n": np.arange(len(there))})
        ds = lancecy.write_dataset(made, f"{folder}/t")
        source = pa.table({"k": pa.array([new, there[-1]], kind), "n": [100, 101]})
        assert upsert(ds, "k").execute(source) == counts(1, 1, 0)
        found = ds.to_table()
        assert found["n"].to_pylist() == [*range(len(there) - 1), 101, 100]
        assert found["k"].to_pylist()[-2:] == source["k"].to_pylist()[::-1]


def test_several_columns_are_one_key(tmp_path: Path) -> None:
    table = {"a": [1, 1, 2], "b": ["x", "y", "x"], "v": [1, 2, 3]}
    ds = lancecy.write_dataset(table, tmp_path / "t")
    source = {"a": [1, 2, 2], "b": ["y", "x", "y"], "v": [20, 30, 40]}
    assert upsert(ds, ["a", "b"]).execute(source) == counts(1, 2, 0)
    assert values(ds)["v"] == [1, 20, 30, 40]
    assert upsert(ds, ("b", "a")).execute(source) == counts(0, 3, 0)


def test_null_keys_match_nothing(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"a": [1, 1, None], "b": ["x", None, "x"], "v": [1, 2, 3]}, tmp_path / "t")
    source = {"a": [1, 1, None, None], "b": ["x", None, "x", "x"], "v": [10, 20, 30, 31]}
    assert upsert(ds, ["a", "b"]).execute(source) == counts(3, 1, 0)
    assert values(ds)["v"] == [2, 3, 10, 20, 30, 31]
    rest = ds.merge_insert(["a", "b"]).when_not_matched_by_source_delete()
    assert rest.execute({"a": [1], "b": ["x"]}) == counts(0, 0, 5), (
        "a null is matched by no row of the source"
    )


def test_floats_match_by_their_bits(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"k": [float("nan"), 0.0, 1.0], "v": [1, 2, 3]}, tmp_path / "t")
    assert upsert(ds, "k").execute({"k": [-float("nan"), -0.0], "v": [10, 20]}) == counts(1, 1, 0)
    assert values(ds)["v"] == [2, 3, 10, 20]


def test_primary_key_is_the_default(tmp_path: Path) -> None:
    def key(name: str, position: int) -> pa.Field:
        metadata = {
            "lance-schema:unenforced-primary-key": "true",
            "lance-schema:unenforced-primary-key:position": str(position),
        }
        return pa.field(name, pa.int64(), False, metadata)

    schema = pa.schema([key("a", 2), pa.field("v", pa.int64()), key("b", 1)])
    ds = lancecy.write_dataset(pa.table([[1], [0], [2]], schema=schema), tmp_path / "t")
    source = pa.table([[1, 2], [5, 6], [2, 2]], schema=schema)
    assert upsert(ds, None).execute(source) == counts(1, 1, 0)
    assert ds.merge_insert()._on == ("b", "a")


@pytest.mark.parametrize("on", ["USER-ID", "`user-id`", ["User-Id", "user-id"]])
def test_keys_are_named_as_in_filters(tmp_path: Path, on: Any) -> None:
    ds = lancecy.write_dataset({"user-id": [1, 2], "V": [1, 2]}, tmp_path / "t")
    assert upsert(ds, on).execute({"user-id": [2, 3], "V": [5, 6]}) == counts(1, 1, 0)
    assert sorted(ds.to_table()["V"].to_pylist()) == [1, 5, 6]


@pytest.mark.parametrize("on", ["ID", "s.x", "none"])
def test_names_of_no_column_or_of_two_are_no_keys(tmp_path: Path, on: str) -> None:
    ds = lancecy.write_dataset({"id": [1], "Id": [2], "s": [{"x": 1}]}, tmp_path / "t")
    with pytest.raises(ColumnNotFoundError, match=on):
        ds.merge_insert(on)
    assert ds.merge_insert("Id")._on == ("Id",)


SORTED: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "int": (pa.int32(), lambda n: n - 4000),
    "uint": (pa.uint64(), lambda n: 2**63 + n),
    "text": (pa.string(), lambda n: f"{n:08}"),
    "date": (pa.date32(), lambda n: DAY + dt.timedelta(n)),
    "time": (pa.timestamp("ns", "Europe/Oslo"), lambda n: 10**18 + n),
    "duration": (pa.duration("s"), lambda n: n),
}


@folded("kind", list(SORTED))
@folded("count", [1, 40, 900])
def test_pages_are_left_out_by_their_statistics_and_no_row_is(kind: str, count: int) -> None:
    """Files of 0.1 have bounds of pages; few keys are looked for one by one, many by their range."""
    data_type, made = SORTED[kind]
    with tempfile.TemporaryDirectory() as folder:
        keys = pa.array([made(n) for n in range(0, 12_000, 2)], data_type)
        ds = lancecy.write_dataset(
            {"k": keys, "v": np.arange(6000)},
            f"{folder}/t",
            data_storage_version="0.1",
            max_rows_per_file=3000,
        )
        wanted = np.random.default_rng(count).permutation(np.arange(3000, 6000))[:count]
        source = pa.table({"k": pa.array([made(int(n)) for n in wanted], data_type), "v": [-1] * count})
        merge = upsert(ds, "k")
        found = merge.explain(source)
        assert found.num_rows_read < 6000 or kind == "duration"
        matching = int(np.count_nonzero(wanted % 2 == 0))
        assert merge.execute(source) == counts(count - matching, matching, 0)
        assert ds.count_rows("v = -1") == count
        assert len(ds.to_table(columns=["k"])["k"].unique()) == ds.count_rows() == 6000 + count - matching


# -- sources ------------------------------------------------------------------------------------------


def batches(rows: int, size: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, rows, size):
        ids = np.arange(start, min(rows, start + size))
        yield pa.record_batch({"id": ids, "v": pa.array(ids).cast(pa.string()), "w": ids / 2})


def as_frames(table: pa.Table) -> dict[str, Any]:
    import polars

    return {
        "table": table,
        "batch": table.to_batches()[0],
        "reader": table.to_reader(),
        "generator": iter(table.to_batches()),
        "pandas": table.to_pandas(),
        "polars": polars.from_arrow(table),
        "rows": table.to_pylist(),
        "columns": table.to_pydict(),
        "dataset": lancecy.write_dataset(table, tempfile.mkdtemp() + "/source"),
    }


@folded("kind", ["table", "batch", "reader", "generator", "pandas", "polars", "rows", "columns", "dataset"])
def test_sources_are_what_writers_take(kind: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ds = lancecy.write_dataset(TABLE, f"{folder}/t")
        source = pa.table({"id": [2, 5], "v": ["B", "e"], "w": [0.0, 0.5]})
        assert upsert(ds).execute(as_frames(source)[kind]) == counts(1, 1, 0)
        assert values(ds)["v"] == ["a", "c", "B", "e"]


@folded("cache, is_spilled", [(256 << 20, False), (1 << 20, True)])
def test_streams_are_read_once_and_kept_in_bounded_memory(cache: int, is_spilled: bool) -> None:
    """With a small budget they go to a temporary file, and are looked up in parts."""
    with tempfile.TemporaryDirectory() as folder:
        lancecy.write_dataset(batches(150_000, 50_000), f"{folder}/t", max_rows_per_file=40_000)
        ds = lancecy.dataset(f"{folder}/t", session=lancecy.Session(cache_bytes=cache))
        asked: list[int] = []

        def stream() -> Iterator[pa.RecordBatch]:
            for batch in batches(200_000, 1000):
                asked.append(batch.num_rows)
                ids = batch.column("id").to_numpy()[::-1] * 2
                yield pa.record_batch({"id": ids, "v": ["new"] * ids.size, "w": ids / 1})

        merge = upsert(ds).when_not_matched_by_source_delete("id < 100000")
        assert merge.execute(stream()) == counts(125_000, 75_000, 50_000)
        assert sum(asked) == 200_000
        assert ds.count_rows() == 225_000 and ds.count_rows("v = 'new'") == 200_000
        assert ds.count_rows("id % 2 = 0 AND w != id") == 0
        assert ds.to_table(columns=["id"])["id"].combine_chunks().unique().__len__() == 225_000
        found = [path.name for path in Path(tempfile.gettempdir()).glob("lancecy-merge-*")]
        assert found == [], "the temporary file is removed"


def test_twice_in_parts_is_found_too(tmp_path: Path) -> None:
    ds = lancecy.write_dataset(TABLE, tmp_path / "t")
    ds = lancecy.dataset(ds.uri, session=lancecy.Session(cache_bytes=1 << 20))
    rows = pa.concat_tables([pa.Table.from_batches(batches(100_000, 50_000))] * 2)
    with pytest.raises(SchemaError, match="id = "):
        upsert(ds).execute(rows)


def test_missing_columns_keep_their_values(ds: lancecy.Dataset) -> None:
    assert upsert(ds).execute({"w": [30.0, 20.0, 90.0], "id": [3, 2, 9]}) == counts(1, 2, 0)
    expected = {"id": [1, 3, 2, 9], "v": ["a", "c", "b", None], "w": [1.0, 30.0, 20.0, 90.0]}
    assert values(ds) == expected
    assert upsert(ds).execute({"id": [3, 8]}) == counts(1, 1, 0)
    assert values(ds)["v"] == ["a", "b", None, "c", None]


def test_missing_columns_of_inserted_rows_are_in_no_file(ds: lancecy.Dataset) -> None:
    assert ds.merge_insert("id").when_not_matched_insert_all().execute({"id": [3, 9]}) == counts(1, 0, 0)
    assert values(ds)["v"] == ["a", "b", "c", None]
    assert ds.get_fragments()[-1].metadata.files[0].fields == (0,)


def test_members_of_structs_and_json_are_kept(tmp_path: Path) -> None:
    table = pa.table(
        {
            "id": [1, 2],
            "s": [{"x": 1}, None],
            "l": [[1], [2, 3]],
            "j": pa.array(['{"a":1}', None], pa.json_()),
            "d": pa.array(["p", "q"]).dictionary_encode(),
            "n": [1, 2],
        }
    )
    ds = lancecy.write_dataset(table, tmp_path / "t")
    assert upsert(ds).execute({"id": [2, 1], "n": [20, 10]}) == counts(0, 2, 0)
    assert values(ds) == {**table.take([1, 0]).to_pydict(), "n": [20, 10]}


def test_missing_members_of_structs_keep_their_values(tmp_path: Path) -> None:
    """At any depth; a null struct of the source is null, and members of new rows are null."""
    table = [{"a": n, "in": {"x": n, "y": f"y{n}"}, "z": f"z{n}"} for n in (1, 2, 3)]
    ds = lancecy.write_dataset({"id": [1, 2, 3, 4], "s": [*table, None]}, tmp_path / "t")
    kind = pa.struct({"in": pa.struct({"x": pa.int64()}), "a": pa.int64()})
    given = pa.array(
        [{"a": 90, "in": {"x": 9}}, {"a": 20, "in": None}, None, {"a": 40, "in": {"x": 4}}], kind
    )
    source = pa.table({"id": [9, 2, 3, 4], "s": given})
    assert upsert(ds).execute(source) == counts(1, 3, 0)
    found = dict(zip(values(ds)["id"], values(ds)["s"], strict=True))
    assert found == {
        1: table[0],
        2: {"a": 20, "in": None, "z": "z2"},
        3: None,
        4: {"a": 40, "in": {"x": 4, "y": None}, "z": None},
        9: {"a": 90, "in": {"x": 9, "y": None}, "z": None},
    }


def test_new_rows_need_members_that_may_not_be_null(tmp_path: Path) -> None:
    kind = pa.struct([pa.field("a", pa.int64()), pa.field("b", pa.int64(), False)])
    ds = lancecy.write_dataset(pa.table({"id": [1], "s": pa.array([{"a": 1, "b": 2}], kind)}), tmp_path / "t")
    with pytest.raises(SchemaError, match=r"'s\.b' is missing"):
        upsert(ds).execute({"id": [1], "s": [{"a": 5}]})
    assert ds.merge_insert("id").when_matched_update_all().execute({"id": [1], "s": [{"a": 5}]})
    assert values(ds)["s"] == [{"a": 5, "b": 2}]


def test_blobs_are_merged_but_not_copied(tmp_path: Path) -> None:
    schema = pa.schema(
        [("id", pa.int64()), pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})]
    )
    ds = lancecy.write_dataset(pa.table([[1, 2], [b"one", b"two"]], schema=schema), tmp_path / "t")
    assert upsert(ds).execute(pa.table([[2, 3], [b"TWO", b"three"]], schema=schema)) == counts(1, 1, 0)
    found = [blob and blob.read() for blob in ds.take_blobs("b", indices=[0, 1, 2])]
    assert found == [b"one", b"TWO", b"three"]
    with pytest.raises(UnsupportedError, match="blob column 'b'"):
        upsert(ds).execute({"id": [1]})


@pytest.mark.slow
def test_memory_of_a_large_stream_is_bounded(tmp_path: Path) -> None:
    """A stream ten times the session's budget takes the budget and 200 MB."""
    code = """
        import sys, numpy as np, pyarrow as pa, lancecy
        from pathlib import Path
        uri, rows, budget = sys.argv[1], 1_600_000, 32 << 20
        def stream(first):
            for start in range(0, rows, 20_000):
                ids = (np.arange(start, start + 20_000) * 7919) % rows + first
                text = pa.array([b"x" * 192]).take(pa.array(np.zeros(20_000, np.int64)))
                yield pa.record_batch({"id": ids, "text": text})
        def peak():
            lines = Path("/proc/self/status").read_text().splitlines()
            return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) << 10
        lancecy.write_dataset(stream(0), uri, max_rows_per_file=rows // 4)
        ds = lancecy.dataset(uri, session=lancecy.Session(cache_bytes=budget))
        ds.count_rows("id = 5")
        Path("/proc/self/clear_refs").write_text("5")
        before = peak()
        merge = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        done = merge.durability("none").execute(stream(rows // 2))
        assert list(done.values()) == [rows // 2, rows // 2, 0], done
        print((peak() - before) / (budget + 200e6))
    """
    found = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "t")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert float(found.stdout) < 1


# -- refusals -----------------------------------------------------------------------------------------

STRICT = pa.schema(
    [pa.field("id", pa.int64(), False), pa.field("v", pa.string(), False), ("w", pa.float64())]
)
REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "unknown column": ({"id": [1], "v": ["x"], "z": [1]}, SchemaError, "no column 'z'"),
    "one name twice": (pa.table([[1], [2]], names=["id", "id"]), SchemaError, "called 'id'"),
    "no key": ({"v": ["x"], "w": [1.0]}, SchemaError, "no key column 'id'"),
    "key in other letters": ({"ID": [1], "v": ["x"]}, SchemaError, "no key column 'id'; rename their column 'ID'"),
    "type of the key": ({"id": ["1"], "v": ["x"]}, SchemaError, "column 'id' is string"),
    "type": ({"id": [1], "v": [1]}, SchemaError, "column 'v' is int64"),
    "two rows for one": ({"id": [7, 2, 2], "v": list("abc")}, SchemaError, "rows 1 and 2 .* id = 2"),
    "one new key twice": ({"id": [7, 2, 7], "v": list("abc")}, SchemaError, "rows 0 and 2 .* id = 7"),
    "null": ({"id": [7, 1], "v": ["a", None]}, SchemaError, "column 'v' of row 1 .* null"),
    "null in a new row": ({"id": [1, 7], "v": ["a", None]}, SchemaError, "column 'v' of row 1 .* null"),
    "missing": ({"id": [1, 7]}, SchemaError, "column 'v' is missing"),
    "no rows": (7, TypeError, "rows cannot be read"),
}  # fmt: skip


@folded("name", list(REFUSED))
def test_refused_merge_leaves_the_table_as_it_was(name: str) -> None:
    source, error, message = REFUSED[name]
    with tempfile.TemporaryDirectory() as folder:
        ds = lancecy.write_dataset(pa.table(list(TABLE.values()), schema=STRICT), f"{folder}/t")
        before = data_files(Path(folder) / "t" / "data")
        with pytest.raises(error, match=message):
            upsert(ds).execute(source)
        assert data_files(Path(folder) / "t" / "data") == before
        assert lancecy.dataset(ds.uri).version == 1


def test_keys_that_repeat_without_effect_are_no_fault(ds: lancecy.Dataset) -> None:
    twice = {"id": [2, 2, 9, 9], "v": list("abcd")}
    assert ds.merge_insert("id").when_matched_delete().execute(twice) == counts(0, 0, 1)
    assert ds.merge_insert("id").when_matched_update_all().execute({"id": [9, 9]}) == counts(0, 0, 0)
    only = ds.merge_insert("id").when_not_matched_insert_all()
    assert only.execute({"id": [1, 1], "v": ["x", "y"]}) == counts(0, 0, 0)


def test_condition_may_choose_one_of_two_rows_with_a_key(ds: lancecy.Dataset) -> None:
    merge = ds.merge_insert("id").when_matched_update_all("source.w > 5")
    assert merge.execute({"id": [2, 2, 3, 3], "w": [1.0, 9.0, 8.0, 0.0]}) == counts(0, 2, 0)
    assert values(ds)["w"] == [1.0, 9.0, 8.0]
    with pytest.raises(SchemaError, match="id = 2"):
        merge.execute({"id": [2, 2], "w": [7.0, 9.0]})


@folded(
    "merge, error, message",
    [
        (lambda ds: ds.merge_insert("zz"), ColumnNotFoundError, "zz"),
        (lambda ds: ds.merge_insert(), ValueError, "name them"),
        (lambda ds: ds.merge_insert([]), ValueError, "name them"),
        (lambda ds: ds.merge_insert([3]), TypeError, "3"),
        (lambda ds: ds.merge_insert("id").execute(TABLE), ValueError, "would change nothing"),
        (lambda ds: upsert(ds).when_matched_update_all("q > 1").execute(TABLE), ColumnNotFoundError, "'q'"),
        (
            lambda ds: upsert(ds).when_matched_update_all("source.id").execute(TABLE),
            ExpressionError,
            "condition",
        ),
        (
            lambda ds: upsert(ds).when_matched_update_all("source IS NULL").execute(TABLE),
            ExpressionError,
            "source.a",
        ),
        (
            lambda ds: upsert(ds).when_not_matched_by_source_delete("nope = 1").execute(TABLE),
            ColumnNotFoundError,
            "nope",
        ),
        (lambda ds: upsert(ds).write_mode("columns"), ValueError, "'rewrite_columns'"),
        (lambda ds: upsert(ds).write_mode("fast"), ValueError, "fast"),
        (lambda ds: upsert(ds).mark_sstables_as_compacted([]), UnsupportedError, "log"),
        (lambda ds: upsert(ds).conflict_retries("3"), TypeError, "whole number"),
        (lambda ds: upsert(ds).retry_timeout(3), TypeError, "timedelta"),
        (lambda ds: upsert(ds).target_bases("b"), TypeError, "list of names"),
        (lambda ds: upsert(ds).data_storage_version("9.9").execute(TABLE), LanceError, "9.9"),
        (lambda ds: upsert(ds, "l").execute({"l": [[1]]}), UnsupportedError, "'l' of type"),
    ],
    ids=lambda case: getattr(case, "__name__", str(case)),
)
def test_wrong_calls_are_refused(merge: Callable[[lancecy.Dataset], Any], error: Any, message: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ds = lancecy.write_dataset({**TABLE, "l": [[1], [2], [3]]}, f"{folder}/t")
        with pytest.raises(error, match=message):
            merge(ds)
        assert lancecy.dataset(ds.uri).version == 1


def test_failure_during_the_source_removes_its_temporary_file(ds: lancecy.Dataset) -> None:
    def stream() -> Iterator[pa.RecordBatch]:
        yield from batches(100_000, 10_000)
        raise OSError("the connection is gone")

    small = lancecy.dataset(ds.uri, session=lancecy.Session(cache_bytes=1 << 18))
    with pytest.raises(OSError, match="the connection is gone"):
        upsert(small).execute(stream())
    assert not list(Path(tempfile.gettempdir()).glob("lancecy-merge-*"))


# -- options and explanations -------------------------------------------------------------------------


def test_builder_takes_the_options_of_pylance(ds: lancecy.Dataset) -> None:
    merge = (
        upsert(ds)
        .conflict_retries(3)
        .retry_timeout(dt.timedelta(seconds=5))
        .use_index(False)
        .write_mode("rewrite_rows")
        .data_storage_version("2.2")
        .durability("none")
    )
    assert merge.execute(TABLE) == counts(0, 3, 0)
    assert {file.minor for part in ds.get_fragments() for file in part.metadata.files} == {2}


def test_new_files_go_to_the_bases(tmp_path: Path) -> None:
    bases = [lancecy.DatasetBasePath(str(tmp_path / "b"), name="b")]
    ds = lancecy.write_dataset(TABLE, tmp_path / "t", initial_bases=bases)
    upsert(ds).target_bases(["b"]).execute({"id": [9], "v": ["x"]})
    assert ds.get_fragments()[-1].metadata.files[0].base_id == 1
    upsert(ds).target_all_bases().execute({"id": [8], "v": ["x"]})
    assert ds.count_rows() == 5


# -- columns in place ---------------------------------------------------------------------------------


def patch(ds: lancecy.Dataset, on: Any = "id") -> MergeInsertBuilder:
    return ds.merge_insert(on).write_mode("rewrite_columns").when_matched_update_all()


@folded("version", VERSIONS)
@folded("stable", [False, True])
def test_columns_are_rewritten_in_place(stable: bool, version: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ds = lancecy.write_dataset(
            {"id": range(8), "v": list("abcdefgh"), "w": np.arange(8.0)},
            f"{folder}/t",
            max_rows_per_file=3,
            data_storage_version=version,
            enable_stable_row_ids=stable,
        )
        ds.delete("id = 0")
        rows = {"id": [7, 1, 99, 2], "w": [70.0, 10.0, 0.0, 20.0]}
        assert patch(ds).execute(rows) == counts(0, 3, 0)
        assert values(ds) == {
            "id": [1, 2, 3, 4, 5, 6, 7],
            "v": list("bcdefgh"),
            "w": [10.0, 20.0, 3.0, 4.0, 5.0, 6.0, 70.0],
        }
        assert [len(part.data_files()) for part in ds.get_fragments()] == [2, 1, 2]
        assert ds.get_fragments()[0].data_files()[0].fields == (0, 1, -2)
        if stable:
            dated = ds.to_table(columns=["_rowid", "_row_last_updated_at_version"]).to_pydict()
            assert dated["_rowid"] == list(range(1, 8))
            assert dated["_row_last_updated_at_version"] == [3, 3, 1, 1, 1, 1, 3]


def test_columns_in_place_of_a_stream_in_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds = lancecy.write_dataset(
        {"id": np.arange(40_000), "v": np.zeros(40_000), "w": np.zeros(40_000)},
        tmp_path / "t",
        max_rows_per_file=5000,
    )
    small = lancecy.dataset(tmp_path / "t", session=lancecy.Session(cache_bytes=1 << 17))
    batches = (
        pa.record_batch({"id": np.arange(n, 40_000, 40), "v": np.full(1000, float(n))}) for n in range(40)
    )
    stream = pa.RecordBatchReader.from_batches(pa.schema([("id", pa.int64()), ("v", pa.float64())]), batches)
    assert patch(small).execute(stream) == counts(0, 40_000, 0)
    assert small.to_table()["v"].to_pylist() == (np.arange(40_000) % 40).tolist()
    assert ds.checkout_latest().count_rows("w = 0") == 40_000


@folded(
    "merge, message",
    [
        (lambda ds: patch(ds).when_not_matched_insert_all(), "insert rows"),
        (lambda ds: patch(ds).when_not_matched_by_source_delete(), "delete rows"),
        (lambda ds: patch(ds).when_matched_delete(), "needs when_matched_update_all"),
        (lambda ds: patch(ds).data_storage_version("2.1"), "data_storage_version"),
    ],
)
def test_columns_in_place_are_for_updates_only(
    merge: Callable[[lancecy.Dataset], MergeInsertBuilder], message: str
) -> None:
    ds = lancecy.write_dataset(TABLE, f"memory://columns-in-place-{message}")
    with pytest.raises(ValueError, match=message):
        merge(ds).execute({"id": [1], "v": ["z"]})
    assert ds.checkout_latest().version == 1


def test_columns_in_place_are_some_of_the_table(ds: lancecy.Dataset, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has all columns"):
        patch(ds).execute(TABLE)
    with pytest.raises(ValueError, match="no column beside the key"):
        patch(ds).execute({"id": [1]})
    for rows in ({"id": [1], "z": [1]}, {"id": [1], "v": ["x"], "z": [1]}):
        with pytest.raises(SchemaError, match="the table has no column 'z'"):
            patch(ds).execute(rows)
    strict = pa.schema(
        [pa.field("id", pa.int64()), pa.field("v", pa.int64(), nullable=False), pa.field("w", pa.int64())]
    )
    full = lancecy.write_dataset(
        pa.table({"id": [1, 2], "v": [1, 2], "w": [1, 2]}, schema=strict), tmp_path / "s"
    )
    files = data_files(tmp_path / "s")
    with pytest.raises(SchemaError, match="'v' of row 1 of the source is null"):
        patch(full).execute({"id": [1, 2], "v": [1, None]})
    with pytest.raises(SchemaError, match="id = 2"):
        patch(full).execute({"id": [2, 2], "v": [1, 3]})
    assert patch(full).execute({"id": [9], "v": [1]}) == counts(0, 0, 0)
    assert (full.checkout_latest().version, data_files(tmp_path / "s")) == (1, files)


def test_plan_of_columns_in_place(ds: lancecy.Dataset) -> None:
    found = patch(ds).explain({"id": [2], "w": [9.0]})
    assert found.num_updated_rows == 1 and 3 * 8 <= found.bytes_to_write < 6 * 8, "all rows of one column"
    assert ds.version == 1
    text = patch(ds).explain_plan(pa.schema([("id", pa.int64()), ("w", pa.float64())]))
    assert "write in place         w of fragments with matching rows" in text


def test_columns_in_place_lose_to_a_change_of_the_same_fragment(ds: lancecy.Dataset, tmp_path: Path) -> None:
    """The merge begins again, and finds the other's values."""
    other = lancecy.dataset(tmp_path / "t")
    other.update({"w": "w + 100"}, "id = 2")
    assert patch(ds).execute({"id": [2], "v": ["B"]}) == counts(0, 1, 0)
    assert values(ds.checkout_latest()) == {"id": [1, 3, 2], "v": ["a", "c", "B"], "w": [1.0, 3.0, 102.0]}
    kept = {file.path for part in ds.checkout_latest().get_fragments() for file in part.data_files()}
    found = {name for name in data_files(tmp_path / "t") if name.endswith(".lance")}
    assert found == kept, "no file of the lost attempt is left"


def test_progress_counts_the_written_rows(ds: lancecy.Dataset) -> None:
    steps: list[Step] = []
    upsert(ds).execute({"id": [2, 9], "v": ["x", "y"]}, progress=steps.append)
    assert steps[0].what == "match" and steps[-1] == Step("write", 2, 2, "rows")


def test_uncommitted_merge_is_committed_later(ds: lancecy.Dataset) -> None:
    transaction, done = upsert(ds).execute_uncommitted({"id": [2, 9], "v": ["x", "y"], "w": [0.0, 0.0]})
    assert done == counts(1, 1, 0) and lancecy.dataset(ds.uri).version == 1
    after = lancecy.commit(ds.uri, transaction.operation, transaction.read_version)
    assert values(after)["v"] == ["a", "c", "x", "y"]


def test_explanation_says_what_would_happen(ds: lancecy.Dataset) -> None:
    found = upsert(ds).when_not_matched_by_source_delete("id = 1").explain({"id": [2, 9], "v": ["x", "y"]})
    assert (found.num_inserted_rows, found.num_updated_rows, found.num_deleted_rows) == (1, 1, 1)
    assert (found.fragments, found.num_fragments, found.num_rows_read) == ((0,), 1, 3)
    assert 0 < found.bytes_to_read < 200 and 0 < found.bytes_to_write < 200
    assert "touch   1 of 1 fragments" in str(found)
    assert ds.version == 1 and len(data_files(Path(ds.uri) / "data")) == 1
    assert upsert(ds).analyze_plan(TABLE).startswith("merge of 3 rows on id")


def test_plan_names_what_is_read_and_written(ds: lancecy.Dataset) -> None:
    merge = (
        upsert(ds).when_matched_update_all("source.w > target.w").when_not_matched_by_source_delete("v = 'a'")
    )
    text = merge.explain_plan(pa.schema({"id": pa.int64(), "w": pa.float64()}), verbose=True)
    assert "matched                update if source.w > target.w" in text
    assert "read                   id, w, v of 3 rows" in text
    assert "copy of updated rows   v" in text and "fragment 0: 3 rows" in text
    with pytest.raises(SchemaError, match="'z'"):
        merge.explain_plan(pa.schema({"id": pa.int64(), "w": pa.float64(), "z": pa.int8()}))


@pytest.mark.parametrize("member", [{"y": "q"}, {"x": {"z": 1}}])
def test_members_that_the_table_does_not_have_are_refused(tmp_path: Path, member: dict[str, Any]) -> None:
    ds = lancecy.write_dataset({"id": [0], "u": [{"x": {"a": 1}, "w": 2}]}, tmp_path / "t")
    builder = ds.merge_insert("id").when_matched_update_all()
    with pytest.raises(SchemaError, match=r"the table has no column 'u\.(y|x\.z)'"):
        builder.execute(pa.table({"id": [0], "u": [member]}))
    assert ds.checkout_latest().version == 1
    removed = ds.merge_insert("id").when_matched_delete().execute(pa.table({"id": [0], "u": [member]}))
    assert removed["num_deleted_rows"] == 1


def test_a_builder_shows_its_table_its_keys_and_what_was_asked() -> None:
    ds = lancecy.write_dataset({"id": [1], "v": [2]}, "memory://shown merges")
    merge = ds.merge_insert("id")
    assert repr(merge) == f"MergeInsertBuilder({ds.uri!r}, on=['id'])"
    merge.when_matched_update_all(
        "source.v > 1"
    ).when_not_matched_insert_all().when_not_matched_by_source_delete()
    assert repr(merge).endswith(
        """, on=['id']).when_matched_update_all('source.v > 1').when_not_matched_insert_all()"""
        ".when_not_matched_by_source_delete()"
    )
    assert repr(ds.merge_insert("id").when_matched_delete()).endswith(".when_matched_delete()")
