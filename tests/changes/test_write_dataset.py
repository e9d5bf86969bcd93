"""Tables written by ``write_dataset``: rows of every kind, modes, bases, limits, and failures that leave no trace."""

from __future__ import annotations

import errno
import json
import os
import pickle
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy import DatasetBasePath
from lancecy.changes import commit as committing
from lancecy.errors import (
    CommitUnknownError,
    ConflictError,
    ExistsError,
    NotFoundError,
    PathPolicyError,
    SchemaError,
    StoreError,
    UnsupportedError,
)
from lancecy.store import local_files
from lancecy.store.local import LocalStore
from lancecy.table.paths import Naming
from lancecy.write import fragments
from lancecy.write.schemas import schema_of
from tests.changes.rows import data_files, numbers, rows_of, sorted_rows
from tests.helpers.folded import folded
from tests.helpers.s3 import S3Server

VERSIONS = ("2.0", "2.1", "2.2")


def plain(count: int = 20, start: int = 0) -> pa.Table:
    return pa.table({"n": pa.array(range(start, start + count), pa.int64())})


def without_null_structs(table: pa.Table) -> pa.Table:
    """What files of version 2.0 can hold."""
    return table.drop_columns(["point"])


@pytest.mark.parametrize("version", VERSIONS)
def test_rows_come_back_when_created_appended_and_overwritten(tmp_path: Path, version: str) -> None:
    first, second, third = (numbers(*args) for args in ((0, 100), (100, 50), (500, 10)))
    if version == "2.0":
        first, second, third = map(without_null_structs, (first, second, third))
    uri = tmp_path / "t"
    ds = lancecy.write_dataset(first, uri, data_storage_version=version)
    assert (ds.version, ds.data_storage_version) == (1, version)
    assert ds.to_table().equals(first)
    ds = lancecy.write_dataset(second, uri, mode="append")
    assert sorted_rows(ds) == sorted_rows(pa.concat_tables([first, second]))
    ds = lancecy.write_dataset(third, uri, mode="overwrite")
    assert sorted_rows(ds) == sorted_rows(third)
    assert ds.data_storage_version == version
    assert {(f.major, f.minor) for part in ds.get_fragments() for f in part.data_files()} == {
        tuple(map(int, version.split(".")))
    }
    assert [part.fragment_id for part in ds.get_fragments()] == [2]


def kinds() -> dict[str, Any]:
    import pandas as pd
    import polars as pl

    table = plain()
    return {
        "table": table,
        "batch": table.to_batches()[0],
        "reader": table.to_reader(max_chunksize=3),
        "pandas": pd.DataFrame({"n": range(20)}),
        "polars": pl.DataFrame({"n": range(20)}),
        "batches": iter(table.to_batches(max_chunksize=7)),
        "mapping": {"n": list(range(20))},
    }


@pytest.mark.parametrize("kind", ["table", "batch", "reader", "pandas", "polars", "batches", "mapping"])
def test_rows_of_any_kind_are_written(tmp_path: Path, kind: str) -> None:
    assert rows_of(lancecy.write_dataset(kinds()[kind], tmp_path / "t")) == list(range(20))


def test_dataset_is_written_to_another_table(tmp_path: Path) -> None:
    source = lancecy.write_dataset(numbers(0, 30), tmp_path / "a")
    assert sorted_rows(lancecy.write_dataset(source, tmp_path / "b")) == sorted_rows(source)


def test_modes_that_need_a_table_make_one(tmp_path: Path) -> None:
    assert lancecy.write_dataset(plain(), tmp_path / "a", mode="append").version == 1
    assert lancecy.write_dataset(plain(), tmp_path / "b", mode="overwrite").version == 1


def test_table_without_rows_is_created_and_appended_to(tmp_path: Path) -> None:
    ds = lancecy.write_dataset(plain(0), tmp_path / "t")
    assert (ds.count_rows(), ds.get_fragments()) == (0, [])
    ds.append(plain(0))
    ds.append(plain(3))
    assert (ds.version, rows_of(ds)) == (3, [0, 1, 2])


def test_create_refuses_a_table_that_is_there(tmp_path: Path) -> None:
    lancecy.write_dataset(plain(), tmp_path / "t")
    before = data_files(tmp_path)
    with pytest.raises(ExistsError, match="mode='append'"):
        lancecy.write_dataset(plain(), tmp_path / "t")
    assert data_files(tmp_path) == before


def test_files_are_cut_at_rows_across_batches(tmp_path: Path) -> None:
    ds = lancecy.write_dataset(plain(95).to_reader(max_chunksize=7), tmp_path / "t", max_rows_per_file=30)
    assert [part.physical_rows for part in ds.get_fragments()] == [30, 30, 30, 5]
    assert rows_of(ds) == list(range(95))


def test_files_are_cut_at_bytes(tmp_path: Path) -> None:
    # Random bytes: others take less room in the file than in memory.
    data = np.random.default_rng(1).bytes(2_000_000)
    table = pa.table({"n": range(4000), "data": [data[500 * i : 500 * i + 500] for i in range(4000)]})
    ds = lancecy.write_dataset(table, tmp_path / "t", max_bytes_per_file=400_000)
    sizes = [file.size or 0 for part in ds.get_fragments() for file in part.data_files()]
    assert len(sizes) >= 3
    assert max(sizes) < 1_000_000
    assert rows_of(ds) == list(range(4000))


@pytest.mark.parametrize(
    "limits", [{"max_rows_per_file": 0}, {"max_bytes_per_file": -1}, {"max_rows_per_group": 0}]
)
def test_limits_that_allow_nothing_are_refused(tmp_path: Path, limits: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        lancecy.write_dataset(plain(), tmp_path / "t", **limits)


@folded(
    ("options", "message"),
    [
        ({"max_rows_per_file": 2.5}, "max_rows_per_file is a whole number"),
        ({"max_bytes_per_file": None}, "max_bytes_per_file is a whole number"),
        ({"commit_message": 5}, "commit_message is text"),
        ({"transaction_properties": {"a": 1}}, "are texts"),
        ({"initial_bases": ["/elsewhere"]}, "a base is a DatasetBasePath, not '/elsewhere'"),
    ],
)
def test_arguments_of_another_type_are_refused_before_anything_is_written(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        lancecy.write_dataset(plain(), tmp_path / "t", **options)
    assert list(tmp_path.iterdir()) == []


def test_names_of_manifests_are_kept(tmp_path: Path) -> None:
    ds = lancecy.write_dataset(plain(), tmp_path / "t", enable_v2_manifest_paths=False)
    ds.append(plain())
    assert ds._snapshot.manifest_file.naming is Naming.V1
    assert {"1.manifest", "2.manifest"} <= data_files(tmp_path / "t" / "_versions")


def test_append_with_another_version_of_files_keeps_that_of_the_table(tmp_path: Path) -> None:
    lancecy.write_dataset(plain(5), tmp_path / "t", data_storage_version="2.1")
    ds = lancecy.write_dataset(plain(5, 5), tmp_path / "t", mode="append", data_storage_version="2.2")
    assert (ds.data_storage_version, rows_of(ds)) == ("2.1", list(range(10)))


def test_stable_row_ids_go_on_over_appends_and_overwrites(tmp_path: Path) -> None:
    ds = lancecy.write_dataset(plain(5), tmp_path / "t", enable_stable_row_ids=True)
    ds.append(plain(3))
    ds.insert(plain(2), mode="overwrite")
    assert ds.has_stable_row_ids
    assert ds.to_table(["n"], with_row_id=True)["_rowid"].to_pylist() == [8, 9]


def test_stable_row_ids_cannot_be_had_later(tmp_path: Path) -> None:
    ds = lancecy.write_dataset(plain(5), tmp_path / "t")
    with pytest.raises(ValueError, match="when a table is created"):
        ds.append(plain(3), enable_stable_row_ids=True)


def test_message_is_kept_with_the_version(tmp_path: Path) -> None:
    ds = lancecy.write_dataset(
        plain(), tmp_path / "t", commit_message="first", transaction_properties={"k": "v"}
    )
    (transaction,) = (tmp_path / "t" / "_transactions").iterdir()
    assert all(text in transaction.read_bytes() for text in (b"__lance_commit_message", b"first", b"k"))
    assert ds.version == 1


def test_views_maps_and_nulls_within_structs_are_written(tmp_path: Path) -> None:
    columns = {
        "view": pa.array(["a", None, "a text longer than a view has room for"], pa.string_view()),
        "bytes": pa.array([b"a", None, b"c"], pa.binary_view()),
        "coded": pa.DictionaryArray.from_arrays([1, None, 0], pa.array(["a", None], pa.string_view())),
        "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int32())),
        "deep": pa.array(
            [{"a": {"b": None}}, {"a": None}, None], pa.struct({"a": pa.struct({"b": pa.int8()})})
        ),
    }
    ds = lancecy.write_dataset(columns, tmp_path / "t", data_storage_version="2.2", max_rows_per_file=2)
    ds.append(pa.table(columns).select(["deep", "view"]))
    rows = pa.table(columns).to_pylist()
    assert ds.to_table().to_pylist() == [
        *rows,
        *({**row, "bytes": None, "coded": None, "map": None} for row in rows),
    ]


def test_extension_types_come_back(tmp_path: Path) -> None:
    tensor = pa.fixed_shape_tensor(pa.float32(), [1, 2])
    vectors = pa.array([[1, 2], [3, 4]], pa.list_(pa.float32(), 2))
    columns = {
        "n": [1, 2],
        "id": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16, None], pa.binary(16))),
        "t": pa.ExtensionArray.from_storage(tensor, vectors),
    }
    ds = lancecy.write_dataset(columns, tmp_path / "t")
    ds.append(columns)
    assert ds.schema.field("t").type == tensor
    assert ds.to_table().equals(pa.concat_tables([pa.table(columns)] * 2))


# -- what an append may bring ---------------------------------------------------------------------


def test_append_takes_columns_in_any_order_and_misses_nullable_ones(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"n": [1], "s": pa.array([{"a": 1, "b": "x"}]), "t": ["y"]}, tmp_path / "t")
    ds.append(pa.table({"s": pa.array([{"b": "z", "a": 2}, None]), "n": [2, 3]}))
    ds.append(pa.table({"s": pa.array([{"b": "q"}])}))
    assert ds.to_table().to_pylist() == [
        {"n": 1, "s": {"a": 1, "b": "x"}, "t": "y"},
        {"n": 2, "s": {"a": 2, "b": "z"}, "t": None},
        {"n": 3, "s": None, "t": None},
        {"n": None, "s": {"a": None, "b": "q"}, "t": None},
    ]


def required() -> pa.Schema:
    return pa.schema([pa.field("n", pa.int64(), False), pa.field("x", pa.int32())])


def _typed(text: pa.DataType, data: pa.DataType, lists: Any) -> pa.Schema:
    return pa.schema(
        {
            "t": text,
            "b": data,
            "l": lists(text),
            "s": pa.struct({"x": text, "y": lists(pa.int32())}),
            "n": lists(pa.struct({"q": lists(text)})),
        }
    )


WIDTHS = {
    "small": _typed(pa.string(), pa.binary(), pa.list_),
    "large": _typed(pa.large_string(), pa.large_binary(), pa.large_list),
    "views": _typed(pa.string_view(), pa.binary_view(), pa.list_),
}


@pytest.mark.parametrize(
    ("version", "columns"), [("0.1", ["t"]), ("2.1", list("tblsn")), ("2.2", list("tblsn"))]
)
def test_append_takes_text_and_lists_of_any_width(tmp_path: Path, version: str, columns: list[str]) -> None:
    rows: list[dict[str, Any]] = [
        {
            "t": "a",
            "b": b"1",
            "l": ["x", None],
            "s": {"x": "u", "y": [1, 2]},
            "n": [{"q": ["w"]}, {"q": None}],
        },
        {"t": None, "b": None, "l": None, "s": {"x": None, "y": None}, "n": []},
        {"t": "ö", "b": b"", "l": [], "s": {"x": "", "y": []}, "n": None},
    ]
    rows = [{name: row[name] for name in columns} for row in rows]
    for name, stored in WIDTHS.items():
        path = tmp_path / name
        for given in (stored, *WIDTHS.values()):
            schema = pa.schema([given.field(column) for column in columns])
            table = pa.Table.from_pylist([*rows[:1], *rows], schema).slice(1)
            ds = lancecy.write_dataset(table, path, mode="append", data_storage_version=version)
        first = ds.checkout_version(1)
        assert (ds.schema, ds.to_table().to_pylist()) == (first.schema, rows * 4)
        assert ds.verify().is_ok


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (pa.table({"x": pa.array([1], pa.int32())}), "'n' is missing"),
        (pa.table({"n": [1], "y": [1]}), "no column 'y'"),
        (pa.table({"n": ["1"]}), "'n' is string, where the table has int64"),
        (pa.table({"n": [1, None]}), "'n' may not be null, and row 1 has no value"),
    ],
)
def test_append_that_does_not_fit_leaves_no_trace(tmp_path: Path, rows: pa.Table, message: str) -> None:
    ds = lancecy.write_dataset(pa.table({"n": [1], "x": [2]}), tmp_path / "t", required())
    before = data_files(tmp_path / "t" / "data"), data_files(tmp_path / "t" / "_versions")
    with pytest.raises(SchemaError, match=message):
        ds.append(rows)
    assert (data_files(tmp_path / "t" / "data"), data_files(tmp_path / "t" / "_versions")) == before
    assert (ds.version, ds.latest_version) == (1, 1)


def test_rows_that_may_be_null_by_their_type_but_are_not_are_appended(tmp_path: Path) -> None:
    ds = lancecy.write_dataset(pa.table({"n": [1], "x": [2]}), tmp_path / "t", required())
    ds.append(pa.table({"n": [2, 3]}))
    assert rows_of(ds) == [1, 2, 3]


@pytest.mark.parametrize(
    ("schema", "error", "message"),
    [
        (pa.schema({"a.b": pa.int8()}), SchemaError, "dot"),
        (pa.schema({"_rowid": pa.int8()}), SchemaError, "_rowid"),
        (pa.schema([("a", pa.int8()), ("a", pa.int8())]), SchemaError, "two columns"),
        (pa.schema({"a": pa.month_day_nano_interval()}), UnsupportedError, "column 'a'"),
        (
            pa.schema({"a": pa.map_(pa.string(), pa.int8())}),
            UnsupportedError,
            'write version 2.2, as data_storage_version="2.2"',
        ),
        (pa.schema({"a": pa.list_(pa.struct([]))}), UnsupportedError, "without members"),
        (pa.schema({"a": pa.list_(pa.string(), 2)}), UnsupportedError, "column 'a'"),
        (
            pa.schema({"a": pa.dictionary(pa.int8(), pa.struct({"b": pa.int8()}))}),
            UnsupportedError,
            "column 'a'",
        ),
        (pa.schema({"a": pa.binary(0)}), UnsupportedError, "no bytes"),
        (pa.schema({"a": pa.list_(pa.list_(pa.int8(), 0), 2)}), UnsupportedError, "no bytes"),
        (pa.schema({"a": pa.list_(pa.struct({"b": pa.int8()}), 0)}), UnsupportedError, "size 0"),
        (pa.schema({"a`b": pa.int8()}), SchemaError, "filters cannot refer"),
        (pa.schema({"": pa.int8()}), SchemaError, "filters cannot refer"),
        (pa.schema({"a": pa.struct({"b\0": pa.int8()})}), SchemaError, "zero character"),
    ],
)
def test_schema_that_cannot_be_written_is_refused_before_anything_is(
    tmp_path: Path, schema: pa.Schema, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        lancecy.write_dataset(pa.RecordBatchReader.from_batches(schema, []), tmp_path / "t")
    assert not (tmp_path / "t").exists()


def test_table_without_columns_has_no_rows(tmp_path: Path) -> None:
    for version in ("0.1", "2.0", "2.1", "2.2"):
        ds = lancecy.write_dataset(pa.table({}), tmp_path / version, data_storage_version=version)
        assert (ds.count_rows(), ds.schema, ds.to_table().num_rows) == (0, pa.schema([]), 0)
        rows = pa.RecordBatch.from_struct_array(pa.array([{}, {}], pa.struct([])))
        with pytest.raises(SchemaError, match="rows have no columns"):
            ds.append([rows])
        ds.insert({"n": [1]}, mode="overwrite")
        if version > "0.1":
            ds.append(pa.table({}))
        assert (rows_of(ds.checkout_latest()), ds.data_storage_version) == ([1], version)


# -- bases ----------------------------------------------------------------------------------------


def bases(tmp_path: Path) -> list[DatasetBasePath]:
    return [
        DatasetBasePath(tmp_path / "b1", name="one"),
        DatasetBasePath(str(tmp_path / "b2"), name="two", is_dataset_root=True),
    ]


def base_ids(ds: lancecy.Dataset) -> list[int | None]:
    return [file.base_id for part in ds.get_fragments() for file in part.data_files()]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ({"target_bases": ["one", "two"]}, [1, 2, 1, 2]),
        ({"target_bases": ["two"]}, [2, 2, 2, 2]),
        ({"target_bases": []}, [None] * 4),
        ({}, [None] * 4),
        ({"target_all_bases": True}, [None, 1, 2, None]),
        ({"target_all_bases": False}, [1, 2, 1, 2]),
    ],
)
def test_files_go_over_the_bases_in_turn(
    tmp_path: Path, target: dict[str, Any], expected: list[int | None]
) -> None:
    options = {"max_rows_per_file": 5, **target}
    ds = lancecy.write_dataset(plain(20), tmp_path / "t", initial_bases=bases(tmp_path), **options)
    filled: dict[int | None, int] = dict.fromkeys(expected, 0)
    for file in (file for part in ds.get_fragments() for file in part.data_files()):
        filled[file.base_id] += file.size or 0
    following = min(filled, key=lambda base: filled[base])
    ds.append(plain(5, 20), **options)
    assert base_ids(ds) == [*expected, following]
    assert rows_of(lancecy.dataset(tmp_path / "t")) == list(range(25))
    own, one, two = (tmp_path / place for place in ("t/data", "b1", "b2/data"))
    found = [len(data_files(folder)) for folder in (own, one, two)]
    assert found == [(*expected, following).count(number) for number in (None, 1, 2)]


def test_base_is_named_by_its_path(tmp_path: Path) -> None:
    ds = lancecy.write_dataset(plain(), tmp_path / "t", initial_bases=bases(tmp_path))
    ds.append(plain(), target_bases=[f"{tmp_path}/b2/"])
    assert base_ids(ds) == [None, 2]


@pytest.mark.parametrize("spell", [str, "{}/".format, "file://{}".format, Path])
def test_the_tables_own_folder_is_named_by_its_path_as_in_pylance(
    tmp_path: Path, spell: Callable[[str], str | Path]
) -> None:
    own = spell(str(tmp_path / "t"))
    options: dict[str, Any] = {"target_bases": [own, "two"], "max_rows_per_file": 5}
    ds = lancecy.write_dataset(plain(10), tmp_path / "t", initial_bases=bases(tmp_path), **options)
    assert base_ids(ds) == [None, 2]
    ds.create_branch("dev").append(plain(5), target_bases=[f"{tmp_path}/t/tree/dev"])
    assert base_ids(lancecy.dataset(tmp_path / "t/tree/dev"))[2:] == [None]
    ds.optimize.compact_files(target_bases=[f"{tmp_path}/t"])
    assert base_ids(ds) == [None]


def test_base_that_the_table_lacks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="'tow', only one, two"):
        lancecy.write_dataset(plain(), tmp_path / "t", initial_bases=bases(tmp_path), target_bases=["tow"])
    assert data_files(tmp_path) == set()


def test_nothing_does_not_name_a_base_without_a_name(tmp_path: Path) -> None:
    ds = lancecy.write_dataset(plain(), tmp_path / "t", initial_bases=[DatasetBasePath(tmp_path / "b")])
    with pytest.raises(TypeError, match="not NoneType"):
        ds.insert(plain(), target_bases=[None])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="not NoneType"):
        ds.relocate_base(None, tmp_path / "c")  # type: ignore[arg-type]
    ds.relocate_base(tmp_path / "b", tmp_path / "c")
    assert ds.version == 2


@pytest.mark.parametrize(
    ("twice", "message"),
    [
        ({"path": "/elsewhere", "name": "one"}, "called 'one'"),
        ({"path": "b1", "name": "other"}, "already"),
    ],
)
def test_bases_that_look_alike_are_refused(tmp_path: Path, twice: dict[str, str], message: str) -> None:
    path = twice["path"] if twice["path"].startswith("/") else str(tmp_path / twice["path"])
    with pytest.raises(ConflictError, match=message):
        lancecy.write_dataset(
            plain(), tmp_path / "t", initial_bases=[*bases(tmp_path), DatasetBasePath(path, twice["name"])]
        )


@pytest.mark.parametrize("below", ["", "data", "data/more"])
def test_bases_in_the_table_itself_are_refused(tmp_path: Path, below: str) -> None:
    inside = DatasetBasePath(tmp_path / "t" / below)
    with pytest.raises(PathPolicyError, match="own folder"):
        lancecy.write_dataset(plain(), tmp_path / "t", initial_bases=[inside], target_all_bases=True)
    ds = lancecy.write_dataset(plain(), tmp_path / "t", initial_bases=bases(tmp_path))
    with pytest.raises(PathPolicyError, match="own folder"):
        ds.add_bases([inside])
    with pytest.raises(PathPolicyError, match="own folder"):
        ds.relocate_base("one", inside.path)
    assert lancecy.dataset(ds.uri).version == 1
    assert len(data_files(tmp_path / "t" / "data")) == 1


def test_bases_are_initial_only_once(tmp_path: Path) -> None:
    lancecy.write_dataset(plain(), tmp_path / "t")
    with pytest.raises(ValueError, match="add_bases"):
        lancecy.write_dataset(plain(), tmp_path / "t", mode="append", initial_bases=bases(tmp_path))


@pytest.mark.parametrize(("durability", "waits"), [("fsync", True), ("none", False)])
def test_disk_is_waited_for_if_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: Any, waits: bool
) -> None:
    places = [DatasetBasePath(tmp_path / "b1", "b1")]
    lancecy.write_dataset(plain(), tmp_path / "t", initial_bases=places, target_bases=["b1"])
    calls: list[int] = []
    monkeypatch.setattr(os, "fsync", calls.append)
    ds = lancecy.write_dataset(
        plain(5, 20),
        tmp_path / "t",
        mode="append",
        target_bases=["b1"],
        durability=durability,
    )
    assert rows_of(ds) == list(range(25))
    # The data file, the transaction and the manifest, and the folder of each.
    assert len(calls) >= 6 if waits else calls == []


def test_other_durability_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'fsync' or 'none'"):
        lancecy.write_dataset(plain(), tmp_path / "t", durability="perhaps")  # type: ignore[arg-type]


# -- failures -------------------------------------------------------------------------------------


def failing(rows: int, error: Exception) -> Iterator[pa.RecordBatch]:
    yield from plain(rows).to_batches(max_chunksize=3)
    raise error


def test_rows_that_end_in_an_error_leave_no_file(tmp_path: Path) -> None:
    ds = lancecy.write_dataset(plain(), tmp_path / "t", initial_bases=bases(tmp_path))
    before = data_files(tmp_path)
    with pytest.raises(RuntimeError, match="no more"):
        ds.append(failing(30, RuntimeError("no more")), max_rows_per_file=7, target_all_bases=True)
    assert data_files(tmp_path) == before


@pytest.mark.parametrize("version", ["0.1", "2.1"])
def test_rows_are_as_they_were_given_when_their_maker_uses_its_memory_again(
    tmp_path: Path, version: str
) -> None:
    size = 2000 if version == "0.1" else 200_000  # held until there is a page, or written by a thread
    schema = pa.schema({"n": pa.int64(), "v": pa.list_(pa.int64(), 2)})

    def rows() -> Iterator[pa.RecordBatch]:
        memory = np.empty(2 * size, np.int64)
        for number in range(4):
            memory[:] = number
            column = pa.array(memory)
            pairs = pa.FixedSizeListArray.from_arrays(column, 2)
            yield pa.record_batch([column[:size], pairs], schema=schema)

    wanted = np.repeat(np.arange(4), size)
    for name, data in (("a", rows()), ("b", pa.RecordBatchReader.from_batches(schema, rows()))):
        ds = lancecy.write_dataset(data, tmp_path / name, data_storage_version=version)
        found = ds.to_table()
        assert np.array_equal(found["n"].to_numpy(), wanted)
        pairs = found["v"].combine_chunks().flatten().to_numpy()
        assert np.array_equal(pairs, np.repeat(wanted, 2))


def test_file_that_a_thread_cannot_finish_leaves_none_and_hides_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = fragments._finished

    def fails(full: Any) -> Any:
        finish(full)
        raise MemoryError("in a thread")

    monkeypatch.setattr(fragments, "_finished", fails)
    for given, told in ((8, RuntimeError), (30, MemoryError)):
        with pytest.raises(told):
            lancecy.write_dataset(failing(given, RuntimeError("rows")), tmp_path / "t", max_rows_per_file=7)
        assert data_files(tmp_path) == set()


def test_interrupt_while_a_thread_finishes_a_file_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish, settle, main = fragments._finished, fragments.NewFiles._settle, threading.get_ident()
    waits = threading.Event()

    def settled(files: fragments.NewFiles, most: int = 0) -> None:
        if files._ending:
            waits.set()
        settle(files, most)

    def interrupts(full: Any) -> Any:
        waits.wait(60)
        time.sleep(0.05)
        signal.pthread_kill(main, signal.SIGINT)
        time.sleep(0.05)
        return finish(full)

    monkeypatch.setattr(fragments, "_finished", interrupts)
    monkeypatch.setattr(fragments.NewFiles, "_settle", settled)
    rows = plain(14).to_batches(max_chunksize=7)
    # Workers of pytest do not listen to Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            lancecy.write_dataset(rows, tmp_path / "t", max_rows_per_file=7)
    finally:
        signal.signal(signal.SIGINT, before)
    assert data_files(tmp_path) == set()
    assert not [
        thread
        for thread in threading.enumerate()
        if thread.name.startswith(("lancecy-finish", "lancecy-write"))
    ]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_child_that_ends_in_the_middle_of_a_write_leaves_it_alone(tmp_path: Path) -> None:
    def rows() -> Iterator[pa.RecordBatch]:
        yield from plain(20).to_batches(max_chunksize=7)
        child = os.fork()
        if not child:
            files.remove()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        yield from plain(20).to_batches(max_chunksize=7)

    store = LocalStore(str(tmp_path))
    schema = schema_of(plain(1).schema)
    files = fragments.NewFiles(schema, "2.1", (None,), lambda base: (store, ""), fragments.FileLimits(5))
    made = files.write(rows())
    assert sum(part.physical_rows or 0 for part in made) == 40
    assert all((tmp_path / part.files[0].path).exists() for part in made)


def test_failed_create_leaves_no_folder_behind(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    bases = [DatasetBasePath(tmp_path / "a" / "b", "far")]
    for name in ("new", "deep/er", "there"):
        choices: list[dict[str, Any]] = [{}, {"initial_bases": bases, "target_bases": ["far"]}]
        for more in choices:
            with pytest.raises(RuntimeError):
                lancecy.write_dataset(
                    failing(30, RuntimeError()), tmp_path / name, max_rows_per_file=4, **more
                )
    assert list(tmp_path.rglob("*")) == [tmp_path / "there"]


def test_failed_create_leaves_what_others_put_there(tmp_path: Path) -> None:
    def rows() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"n": [1]})
        (tmp_path / "t" / "data" / "other").touch()
        raise RuntimeError

    with pytest.raises(RuntimeError):
        lancecy.write_dataset(
            rows(), tmp_path / "t", schema=pa.schema({"n": pa.int64()}), max_rows_per_file=1
        )
    assert data_files(tmp_path / "t") == {"other"}


def test_null_in_the_middle_of_a_0_1_table_leaves_no_file_and_says_so(tmp_path: Path) -> None:
    ds = lancecy.write_dataset(
        {"n": [1]}, tmp_path / "t", data_storage_version="legacy", max_rows_per_group=2
    )
    before = data_files(tmp_path)
    rows = pa.table({"n": [*range(40), None, 3]}).to_batches(max_chunksize=3)
    for write in (ds.append, lambda data, **more: lancecy.write_fragments(data, ds, **more)):
        with pytest.raises(
            UnsupportedError,
            match=r"'n' has nulls.*mode='overwrite' and data_.*that left no data files behind",
        ):
            write(rows, max_rows_per_file=7, max_rows_per_group=2)
        assert data_files(tmp_path) == before
    assert (ds.data_storage_version, rows_of(ds.checkout_latest())) == ("0.1", [1])


def test_table_of_0_1_refuses_files_of_other_versions_before_any_is_written(tmp_path: Path) -> None:
    old = lancecy.write_dataset({"n": [1]}, tmp_path / "old", data_storage_version="0.1")
    new = lancecy.write_dataset({"n": [1]}, tmp_path / "new")
    for ds, version in ((old, "2.0"), (new, "legacy")):
        with pytest.raises(SchemaError, match="cannot also have files"):
            ds.append(failing(3, RuntimeError("rows were asked for")), data_storage_version=version)
        ds.insert({"n": [2]}, mode="overwrite", data_storage_version=version)
        assert rows_of(ds) == [2]


def test_full_disk_leaves_the_table_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ds = lancecy.write_dataset(plain(), tmp_path / "t")
    before = data_files(tmp_path)
    left, real = [2], local_files.publish

    def full(*args: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(*args)

    with monkeypatch.context() as patched:
        patched.setattr(local_files, "publish", full)
        with pytest.raises(StoreError, match="No space left"):
            ds.append(plain(30), max_rows_per_file=7)
    assert data_files(tmp_path) == before
    assert rows_of(lancecy.dataset(tmp_path / "t")) == list(range(20))
    ds.append(plain(1, 20))
    assert ds.count_rows() == 21


@pytest.mark.parametrize(("error", "kept"), [(ConflictError("no"), 0), (CommitUnknownError("who knows"), 1)])
def test_files_stay_only_if_they_may_be_part_of_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, kept: int
) -> None:
    ds = lancecy.write_dataset(plain(), tmp_path / "t")

    def refused(*args: Any, **options: Any) -> None:
        raise error

    monkeypatch.setattr(committing, "commit_to", refused)
    with pytest.raises(type(error)):
        ds.append(plain())
    assert len(data_files(tmp_path / "t" / "data")) == 1 + kept


# -- many writers, one commit ---------------------------------------------------------------------


def test_fragments_travel_as_json_and_pickles(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    parts = [lancecy.write_fragments(plain(5, start), uri) for start in (0, 5)]
    sent = [lancecy.FragmentMetadata.from_json(json.dumps(part.to_json())) for part in parts[0]]
    sent += pickle.loads(pickle.dumps(parts[1]))
    assert [part.num_rows for part in sent] == [5, 5]
    ds = lancecy.commit(uri, lancecy.LanceOperation.Overwrite(plain().schema, sent))
    assert rows_of(ds) == list(range(10))


def test_change_with_a_token_happens_once(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    lancecy.write_dataset(plain(5), uri)
    change = lancecy.LanceOperation.Append(lancecy.write_fragments(plain(5, 5), uri))
    made = [lancecy.commit(uri, change, 1, token="job 7") for _ in range(2)]
    assert [ds.version for ds in made] == [2, 2]
    assert rows_of(lancecy.dataset(uri)) == list(range(10))


def test_fragment_given_twice_in_one_change_is_refused_as_that(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    lancecy.write_dataset(plain(5), uri)
    new = lancecy.write_fragments(plain(5, 5), uri)
    with pytest.raises(ConflictError, match="in this change twice"):
        lancecy.commit(uri, lancecy.LanceOperation.Append([*new, *new]), 1)
    ds = lancecy.commit(uri, lancecy.LanceOperation.Append(new), 1, max_retries=0)
    assert (ds.version, ds.count_rows()) == (2, 10)
    with pytest.raises(ValueError, match="negative"):
        lancecy.commit(uri, lancecy.LanceOperation.Append(new), 2, max_retries=-1)
    with pytest.raises(ValueError, match="commit_timeout is 0:00:00"):
        lancecy.commit(uri, lancecy.LanceOperation.Append(new), 2, commit_timeout=timedelta(0))


def test_table_made_with_a_token_is_made_once(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    change = lancecy.LanceOperation.Overwrite(plain().schema, lancecy.write_fragments(plain(5), uri))
    made = [lancecy.commit(uri, change, token="create") for _ in range(2)]
    assert [(ds.version, ds.latest_version) for ds in made] == [(1, 1)] * 2


def test_append_without_the_version_it_was_made_from_is_refused(tmp_path: Path) -> None:
    ds = lancecy.write_dataset(plain(5), tmp_path / "t")
    change = lancecy.LanceOperation.Append(lancecy.write_fragments(plain(5, 5), ds))
    with pytest.raises(ValueError, match="read_version"):
        lancecy.commit(tmp_path / "t", change)
    assert lancecy.commit(ds, change).count_rows() == 10


@pytest.mark.parametrize("data", ["{}", "[]", '{"id": 0, "files": [{}], "physical_rows": 1}'])
def test_json_of_something_else_is_refused(data: str) -> None:
    with pytest.raises(ValueError, match="not fragment metadata"):
        lancecy.FragmentMetadata.from_json(data)


# -- other storage --------------------------------------------------------------------------------


def test_tables_in_memory_have_bases_too() -> None:
    uri = f"memory://write-{uuid.uuid4()}"
    ds = lancecy.write_dataset(
        plain(20),
        f"{uri}/t",
        initial_bases=[DatasetBasePath(f"{uri}/b1", "b1")],
        target_all_bases=True,
        max_rows_per_file=5,
    )
    ds.delete("n % 2 = 0")
    ds.append(plain(2, 20), target_bases=["b1"])
    assert base_ids(ds) == [None, 1, None, 1, 1]
    assert rows_of(lancecy.dataset(f"{uri}/t")) == [*range(1, 20, 2), 20, 21]


@pytest.mark.s3
def test_bucket_and_a_base_in_another_one(s3_server: S3Server) -> None:
    options, folder = s3_server.storage_options, uuid.uuid4().hex
    root, far = (f"{s3_server.make_bucket(name)}/{folder}" for name in ("writes", "writes-far"))
    ds = lancecy.write_dataset(
        plain(20),
        root,
        initial_bases=[DatasetBasePath(far, "far")],
        target_all_bases=True,
        max_rows_per_file=8,
        storage_options=options,
    )
    assert rows_of(ds) == list(range(20))
    ds.delete("n < 3")
    ds.append(plain(2, 20), target_bases=["far"])
    again = lancecy.dataset(root, storage_options=options)
    assert rows_of(again) == list(range(3, 22))
    assert base_ids(again) == [None, 1, None, 1]


def test_stream_larger_than_memory_may_be_is_written(tmp_path: Path) -> None:
    peak, before, rows = [0], pa.total_allocated_bytes(), 1 << 18

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(40):
            peak.append(pa.total_allocated_bytes() - before)
            yield pa.record_batch({"n": np.arange(number * rows, (number + 1) * rows)})

    ds = lancecy.write_dataset(batches(), tmp_path / "t", durability="none")
    assert ds.count_rows() == 40 * rows
    assert len(ds.get_fragments()) == 10
    # 80 MiB in all; a page waits for 8, and is copied once when it is full.
    assert max(peak) < 32 << 20


@pytest.mark.slow
def test_an_append_takes_time_in_proportion_to_the_columns(tmp_path: Path) -> None:
    def seconds(count: int) -> float:
        table = pa.table({f"c{number}": [number] for number in range(count)})
        ds = lancecy.write_dataset(table, tmp_path / str(count), durability="none")
        started = time.process_time()
        ds.append(table, durability="none")
        return time.process_time() - started

    # Eight times as many columns; when each looked at the names of all, it was thirty-five times as long. The best of
    # three each, as other processes take what a core has in its caches.
    many, few = (min(seconds(count - less) for less in range(3)) for count in (3200, 400))
    assert many < 20 * few


class Amount(pa.ExtensionType):  # type: ignore[misc]
    """Equal to Arrow whatever its currency, as types are that define no ``__eq__``."""

    def __init__(self, currency: str) -> None:
        self.currency = currency
        super().__init__(pa.int64(), "tests.amount")

    def __arrow_ext_serialize__(self) -> bytes:
        return self.currency.encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> Amount:
        return cls(serialized.decode())


def test_parameters_of_extension_types_are_those_of_each_table(tmp_path: Path) -> None:
    pa.register_extension_type(Amount(""))
    try:
        for currency in ("EUR", "USD"):
            amounts = pa.ExtensionArray.from_storage(Amount(currency), pa.array([1]))
            nested = pa.StructArray.from_arrays([amounts], ["a"])
            ds = lancecy.write_dataset(pa.table({"a": amounts, "s": nested}), tmp_path / currency)
            assert ds.schema.field("a").type.currency == currency
            assert ds.schema.field("s").type.field("a").type.currency == currency
    finally:
        pa.unregister_extension_type("tests.amount")
