"""Dask collections become tables: what arrives, and that it arrives once whatever happens to tasks and workers."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from distributed import Client, LocalCluster

import lancecy
from lancecy import DatasetBasePath
from lancecy.changes.options import requests_of
from lancecy.changes.shared import share
from lancecy.errors import DatasetNotFoundError, ExistsError, SchemaError, UnsupportedError
from lancecy.table.location import TableLocation
from lancecy.table.requests import Steps
from lancecy.table.versions import LocalLink
from tests.changes.rows import data_files
from tests.helpers.compare import assert_tables_equal
from tests.helpers.golden import golden

TYPES = golden("14.0.2_v22_types").path


@pytest.fixture(autouse=True)
def _in_this_thread() -> Any:
    """Without a cluster, tasks run here, one after the other."""
    with dask.config.set(scheduler="sync"):
        yield


def frame(rows: int = 20) -> pd.DataFrame:
    """Columns as pandas makes them, nulls and categories among them."""
    texts = [None if i % 3 == 0 else f"t{i}" for i in range(rows)]
    return pd.DataFrame(
        {
            "n": np.arange(rows),
            "text": pd.Series(texts, dtype=object),
            "late": pd.Series([None] * (rows - 1) + ["x"] if rows else [], dtype=object),
            "label": pd.Categorical([f"l{i % 3}" for i in range(rows)]),
            "time": pd.date_range("2024", periods=rows, tz="Europe/Paris"),
            "maybe": pd.array([None if i % 4 == 0 else i for i in range(rows)], dtype="Int32"),
            "share": [np.nan if i % 5 == 0 else i / 2 for i in range(rows)],
        }
    )


def as_dask(data: pd.DataFrame, parts: int = 4) -> dd.DataFrame:
    """With its object columns left alone."""
    with dask.config.set({"dataframe.convert-string": False}):
        found: dd.DataFrame = dd.from_pandas(data, npartitions=parts)
    return found


def numbers(ds: lancecy.Dataset) -> list[int]:
    """The column ``n`` in table order."""
    found: list[int] = ds.to_table(["n"])["n"].to_pylist()
    return found


# -- what arrives ---------------------------------------------------------------------------------------------


def test_frames_of_pandas_arrive(tmp_path: Path) -> None:
    data = frame()
    ds = lancecy.write_dask(as_dask(data), tmp_path / "t")
    kinds = {f.name: str(f.type) for f in ds.schema}
    assert kinds == {
        "n": "int64",
        "text": "string",
        "late": "string",
        "label": "dictionary<values=string, indices=int32, ordered=0>",
        "time": "timestamp[us, tz=Europe/Paris]",
        "maybe": "int32",
        "share": "double",
    }
    wanted = pa.Table.from_pandas(data, schema=ds.schema, preserve_index=False)
    assert ds.to_table().to_pylist() == wanted.to_pylist()
    assert (ds.version, len(ds.get_fragments()), ds.verify().is_ok) == (1, 4, True)


@pytest.mark.parametrize(
    "cluster", ["sync", "thread_client", pytest.param("process_client", marks=pytest.mark.slow)]
)
def test_every_type_of_a_scan_arrives(cluster: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    table = lancecy.dataset(TYPES).to_table()
    options: dict[str, Any] = {}
    if cluster != "sync":
        options["scheduler"] = request.getfixturevalue(cluster)
    ddf = lancecy.scan(TYPES, blocksize=None)
    # Without a schema, what frames do not tell apart is the simpler one: large text is text, a UUID is its bytes.
    ds = lancecy.write_dask(
        ddf, tmp_path / "t", table.schema, data_storage_version="2.2", compute_kwargs=options
    )
    assert_tables_equal(ds.to_table(), table)
    lancecy.write_dask(ddf, ds, mode="append", compute_kwargs=options)
    assert lancecy.dataset(tmp_path / "t").count_rows() == 2 * table.num_rows


def test_rows_are_added_in_the_types_of_the_table(tmp_path: Path) -> None:
    schema = pa.schema(
        {
            "n": pa.int64(),
            "text": pa.large_string(),
            "vec": pa.list_(pa.float32(), 2),
            "label": pa.dictionary(pa.int8(), pa.string()),
        }
    )
    ds = lancecy.write_dataset(pa.table({f.name: pa.nulls(0, f.type) for f in schema}), tmp_path / "t")
    data = frame()[["n", "text", "label"]].assign(vec=[np.array([i, 1], np.float32) for i in range(20)])
    ds = lancecy.write_dataset(as_dask(data), ds, mode="append")
    assert ds.schema == schema
    assert ds.to_table()["vec"].to_pylist() == [[float(i), 1.0] for i in range(20)]
    given = lancecy.write_dask(as_dask(data), tmp_path / "u", schema)
    assert given.to_table().to_pylist() == ds.to_table().to_pylist()


def test_partitions_without_rows_and_frames_without_any(tmp_path: Path) -> None:
    ddf = as_dask(frame())
    few = lancecy.write_dask(ddf[ddf.n >= 15], tmp_path / "few")
    assert (numbers(few), len(few.get_fragments())) == ([15, 16, 17, 18, 19], 1)
    none = lancecy.write_dask(as_dask(frame(0), 1), tmp_path / "none")
    assert (none.count_rows(), none.schema.names) == (0, few.schema.names)
    ds = lancecy.write_dask(ddf[ddf.n < 0], few, mode="append")
    assert (ds.count_rows(), ds.schema) == (5, few.schema)
    assert numbers(lancecy.write_dask(ddf[ddf.n > 18], few, mode="overwrite")) == [19]


@pytest.mark.parametrize(
    ("label", "index", "names"),
    [
        (None, None, ["n"]),
        ("key", None, ["key", "n"]),
        ("key", False, ["n"]),
        (None, True, ["index", "n"]),
        ("_rowid", None, ["n"]),
    ],
)
def test_index_is_a_column_if_it_has_a_name(
    label: str | None, index: bool | None, names: list[str], tmp_path: Path
) -> None:
    data = pd.DataFrame({"n": range(6)}, index=pd.Index(range(10, 16), name=label))
    ds = lancecy.write_dask(as_dask(data, 2), tmp_path / "t", index=index)
    assert ds.schema.names == names
    if len(names) > 1:
        assert ds.to_table()[names[0]].to_pylist() == list(range(10, 16))


def test_levels_of_an_index_are_columns(tmp_path: Path) -> None:
    data = pd.DataFrame({"a": [1, 1, 2, 2], "b": ["x", "y"] * 2, "v": [1, 2, 3, 4]})
    sums = as_dask(data, 2).groupby(["a", "b"]).v.sum().to_frame()
    ds = lancecy.write_dask(sums, tmp_path / "t")
    assert ds.schema.names == ["a", "b", "v"]
    assert ds.to_table().to_pandas().sort_values("v").to_numpy().tolist() == data.to_numpy().tolist()
    ds = lancecy.write_dask(sums, ds, mode="append")
    done = lancecy.dask.merge_insert(
        sums[sums.v > 3], lancecy.write_dask(sums, tmp_path / "u"), on=["a", "b"]
    )
    assert (ds.count_rows("a IS NULL OR b IS NULL"), done["num_updated_rows"]) == (0, 1)
    # Levels without a name are columns only if asked for.
    bare = sums.map_partitions(lambda part: part.rename_axis([None, "b"]))
    assert lancecy.write_dask(bare, tmp_path / "v").schema.names == ["b", "v"]
    assert lancecy.write_dask(bare, tmp_path / "w", index=True).schema.names == ["level_0", "b", "v"]
    assert lancecy.write_dask(sums, tmp_path / "x", index=False).schema.names == ["v"]


@pytest.mark.parametrize(
    "values", [[1, 1, 2, 2], [0.5, 2.0, 2.0, 2.0], [True, False] * 2, list(pd.date_range("2024", periods=4))]
)
def test_categories_that_are_no_text_do_not_become_text(values: list[Any], tmp_path: Path) -> None:
    ddf = as_dask(pd.DataFrame({"a": values}), 2).astype({"a": "category"})
    with pytest.raises(
        SchemaError, match=r"column 'a' has .*schema= says what they are: or call ddf.categorize\(\)"
    ):
        lancecy.write_dask(ddf, tmp_path / "t")
    texts = pa.schema({"a": pa.dictionary(pa.int32(), pa.string())})
    ds = lancecy.write_dataset(texts.empty_table(), tmp_path / "t")
    with pytest.raises(SchemaError, match="the values are"):
        lancecy.write_dask(ddf, ds, mode="append")
    kind = pa.array(values[:1]).type
    # The format has no dictionaries of times.
    if not pa.types.is_temporal(kind):
        with pytest.raises(SchemaError, match="where the table has dictionary<values=string"):
            lancecy.write_dask(
                ddf.categorize().map_partitions(_boom, meta=ddf.categorize()._meta), ds, mode="append"
            )
        schema = pa.schema({"a": pa.dictionary(pa.int32(), kind)})
        for made in (
            lancecy.write_dask(ddf, tmp_path / "u", schema),
            lancecy.write_dask(ddf.categorize(), tmp_path / "v"),
        ):
            assert (made.schema, made.to_table()["a"].to_pylist()) == (schema, values)
        assert lancecy.write_dask(ddf, tmp_path / "u", mode="append").count_rows() == 8


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.float64(), [True, False]),
        (pa.string(), [b"a", b"b"]),
        (pa.binary(), ["a", "b"]),
        (pa.date32(), [1, 2]),
        (pa.timestamp("us"), [1.0, 2.0]),
    ],
)
def test_objects_of_another_sort_than_the_table_are_refused(
    kind: pa.DataType, values: list[Any], tmp_path: Path
) -> None:
    ds = lancecy.write_dataset(pa.schema({"a": kind}).empty_table(), tmp_path / "t")
    data = pd.DataFrame({"a": pd.Series(values, dtype=object)})
    with pytest.raises(SchemaError, match="column 'a' is"):
        lancecy.write_dataset(data, ds, mode="append")
    with pytest.raises(SchemaError, match="column 'a' has a value that is not of type .*: the values are"):
        lancecy.write_dask(as_dask(data, 1), ds, mode="append")


def test_arrays_become_vectors(tmp_path: Path) -> None:
    values = np.arange(240, dtype=np.float32).reshape(20, 4, 3)
    array = da.from_array(values, chunks=(7, 2, 3))
    ds = lancecy.write_dask(array, tmp_path / "t", column="m")
    assert len(ds.get_fragments()) == 3
    assert np.array_equal(lancecy.to_dask_array(ds, "m").compute(), values)
    flat = lancecy.write_dask(array[:, 0, 0], tmp_path / "u", column="x")
    assert flat.to_table()["x"].to_pylist() == values[:, 0, 0].tolist()
    with pytest.raises(TypeError, match="give column="):
        lancecy.write_dask(array, tmp_path / "v")


def test_arrays_of_objects_are_written_as_columns_of_frames_are(tmp_path: Path) -> None:
    texts = da.from_array(np.array(["a", None, "b"], object), chunks=2)
    ds = lancecy.write_dask(texts, tmp_path / "t", column="x")
    assert ds.to_table().to_pydict() == {"x": ["a", None, "b"]}
    numbers = da.from_array(np.array([1, None, 3], object), chunks=2)
    with pytest.raises(SchemaError, match="'x' has a value that is not of type string.*unless schema= says"):
        lancecy.write_dask(numbers, tmp_path / "t", column="x", mode="append")
    ds = lancecy.write_dask(numbers, tmp_path / "u", pa.schema({"x": pa.int32()}), column="x")
    assert lancecy.write_dask(numbers, ds, column="x", mode="append").count_rows("x = 3") == 2


@pytest.mark.parametrize("values", [np.zeros((3, 2), object), np.zeros(3, complex), np.zeros(3, "M8[Y]")])
def test_arrays_that_arrow_has_no_type_for_are_named(tmp_path: Path, values: Any) -> None:
    with pytest.raises(UnsupportedError, match="column 'x' is "):
        lancecy.write_dask(da.from_array(values, chunks=2), tmp_path / "t", column="x")


def test_files_go_over_bases_evenly(tmp_path: Path) -> None:
    bases = [DatasetBasePath(tmp_path / name, name=name) for name in "xyz"]
    ds = lancecy.write_dask(
        as_dask(frame(36), 6),
        tmp_path / "t",
        initial_bases=bases,
        target_bases=["x", "y", "z"],
        max_rows_per_file=3,
    )
    counts = Counter(part.data_files()[0].base_id for part in ds.get_fragments())
    assert (numbers(ds), sorted(counts.values())) == (list(range(36)), [4, 4, 4])
    assert lancecy.dataset(tmp_path / "t").count_rows() == 36


# -- what is refused ------------------------------------------------------------------------------------------


def _boom(part: Any, partition_info: Any = None) -> Any:
    raise AssertionError("computed")


def test_what_can_be_known_is_refused_before_anything_is_computed(tmp_path: Path) -> None:
    ddf = as_dask(frame())
    ds = lancecy.write_dask(ddf, tmp_path / "t")
    before = data_files(tmp_path)
    never = ddf.map_partitions(_boom, meta=ddf._meta)
    with pytest.raises(ExistsError, match="mode='append'"):
        lancecy.write_dask(never, ds)
    with pytest.raises(SchemaError, match="column 'n' is double, where the table has int64"):
        lancecy.write_dask(never.assign(n=never.share), ds, mode="append")
    with pytest.raises(SchemaError, match="no column 'other'"):
        lancecy.write_dask(never.assign(other=1), ds, mode="append")
    with pytest.raises(SchemaError, match="the frame has the columns"):
        lancecy.write_dask(never, tmp_path / "u", pa.schema({"n": pa.int64()}))
    with pytest.raises(SchemaError, match="column names must be texts"):
        lancecy.write_dask(never.rename(columns={"n": 7}), tmp_path / "u")
    with pytest.raises(UnsupportedError, match="complex128"):
        lancecy.write_dask(never.assign(n=1j), tmp_path / "u")
    with pytest.raises(SchemaError, match="the rows have no columns: give at least one"):
        lancecy.write_dask(never[[]], tmp_path / "u")
    with pytest.raises(ValueError, match="the index and a column are called 'index': rename one"):
        lancecy.write_dask(never.rename(columns={"n": "index"}), tmp_path / "u", index=True)
    with pytest.raises(TypeError, match="write a DataFrame or an Array"):
        lancecy.write_dask(ddf.n, tmp_path / "u")
    with pytest.raises(TypeError, match="write_dataset takes a DataFrame"):
        lancecy.write_dask(frame(), tmp_path / "u")
    assert data_files(tmp_path) == before


def _strange(part: Any, column: str, value: Any, partition_info: Any = None) -> Any:
    strange = [value] * len(part)
    return part.assign(**{column: strange}) if partition_info and partition_info["number"] == 2 else part


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("text", b"\xff", "column 'text'"),
        ("text", 7, "Python objects are taken for text unless schema= says what they are"),
        ("n", 0.5, "column 'n' has a value that is not of type int64"),
        ("extra", 1, "a partition has the columns"),
    ],
)
def test_partition_that_does_not_fit_is_named_and_nothing_is_left(
    column: str, value: Any, said: str, tmp_path: Path
) -> None:
    ds = lancecy.write_dask(as_dask(frame()), tmp_path / "t")
    before = data_files(tmp_path)
    odd = as_dask(frame()).map_partitions(_strange, column, value, meta=frame(0), enforce_metadata=False)
    with pytest.raises(SchemaError, match=said) as raised:
        lancecy.write_dask(odd, ds, mode="append")
    assert "partition 2)" in str(raised.value)
    # A worker of a cluster would follow a circle of causes for ever.
    assert raised.value.__cause__ is not raised.value
    place, removed = raised.value.__notes__
    assert re.search(r"[1-3] data files of other parts were removed", removed)
    assert place == "The error is from partition 2 of 4, rows labelled 10 to 14."
    assert data_files(tmp_path) == before
    assert lancecy.dataset(tmp_path / "t").version == 1


def _fails_when_others_are_there(part: pd.DataFrame, place: str, others: int) -> pd.DataFrame:
    """The last partition raises an error as soon as the files of others are there."""
    if part.n.min() < 15:
        return part
    _until(lambda: len(list(Path(place).rglob("[01]*.lance"))) >= others)
    raise RuntimeError("the user's own")


def _until(is_so: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 60
    while not is_so() and time.monotonic() < give_up:
        time.sleep(0.01)


FAILURES = {
    "user's function": _fails_when_others_are_there,
    "columns": lambda part, place, others: part.assign(extra=1) if part.n.min() >= 15 else part,
    "type": lambda part, place, others: part.assign(n="no number") if part.n.min() >= 15 else part,
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_failed_create_leaves_nothing(client: Client, tmp_path: Path, failure: Any) -> None:
    place = tmp_path / "new" / "t.lance"
    disk = DatasetBasePath(tmp_path / "disk", name="disk")
    spread: dict[str, Any] = {"initial_bases": [disk], "target_bases": ["disk"]}
    for options in ({}, spread):
        failing = as_dask(frame()).map_partitions(
            failure, str(tmp_path), 1, meta=frame(0), enforce_metadata=False
        )
        with client.as_current(), pytest.raises((RuntimeError, SchemaError)) as raised:
            lancecy.write_dask(failing, place, compute_kwargs={"scheduler": client}, **options)
        _all_tasks_end(client)
        assert list(tmp_path.iterdir()) == []
        where, told = raised.value.__notes__
        assert where == "The error is from partition 3 of 4, rows labelled 15 to 19."
        assert f"there is no table at {place}" in told
        assert "cleanup_old_versions" not in told


def _slow(part: pd.DataFrame, place: str) -> pd.DataFrame:
    """The first partition takes until the test says so, and the last one fails when it is begun."""
    if part.n.min() == 0:
        (Path(place) / "begun").touch()
        _until((Path(place) / "go").exists)
    if part.n.min() >= 10:
        _until((Path(place) / "begun").exists)
        raise RuntimeError("the user's own")
    return part


def _all_tasks_end(client: Client) -> None:
    """Each worker has one thread, so its next task starts when the last one has ended."""
    workers = client.scheduler_info(n_workers=-1)["workers"]
    client.gather([client.submit(int, 1, workers=[worker], pure=False) for worker in workers])


def test_part_that_is_finished_after_the_failure_is_removed_too(client: Client, tmp_path: Path) -> None:
    for place, before in ((tmp_path / "new" / "t.lance", 0), (tmp_path / "old", 1)):
        signals = tmp_path / f"signals {before}"
        signals.mkdir()
        if before:
            lancecy.write_dataset({"n": [1]}, place)
        known = sorted(path for path in tmp_path.rglob("*") if path.is_file())
        rows = frame().loc[:, ["n"]]
        failing = as_dask(rows, 2).map_partitions(_slow, str(signals), meta=rows.iloc[:0])
        with client.as_current(), pytest.raises(RuntimeError, match="the user's own"):
            lancecy.write_dask(failing, place, mode="append", compute_kwargs={"scheduler": client})
        (signals / "go").touch()
        _all_tasks_end(client)
        shutil.rmtree(signals)
        assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == known
        assert place.exists() is place.parent.joinpath("old").exists()


def test_write_that_is_only_planned_leaves_nothing(tmp_path: Path) -> None:
    later = lancecy.write_dask(as_dask(frame()), tmp_path / "new" / "t.lance", compute=False)
    assert list(tmp_path.iterdir()) == []
    assert later.compute() == 1
    assert lancecy.dataset(tmp_path / "new" / "t.lance").count_rows() == 20


def _picky(part: Any) -> Any:
    if part.n.max() >= 15:
        raise KeyError("the user's own")
    return part


def _picky_block(block: Any) -> Any:
    if block.size and block.max() >= 10:
        raise ValueError("the user's own")
    return block


@pytest.mark.parametrize(
    "cluster", ["sync", "thread_client", pytest.param("process_client", marks=pytest.mark.slow)]
)
def test_error_of_a_users_function_names_partition_and_rows(
    cluster: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    lancecy.write_dataset({"n": range(20)}, tmp_path / "t", max_rows_per_file=5)
    ddf = lancecy.scan(tmp_path / "t", blocksize=None)
    scheduler = cluster if cluster == "sync" else request.getfixturevalue(cluster)
    options: dict[str, Any] = {"compute_kwargs": {"scheduler": scheduler}}
    broken = ddf.map_partitions(_picky, meta=ddf._meta)
    added = broken.assign(m=broken.n + 1)
    failing = {
        "partition 3 of 4, rows labelled 15 to 19": broken,
        # Later steps and filters are in the same task.
        "partition 3 of 4, rows labelled 15 to 19 ": added[added.n > 2],
        "partition 0 of 1, rows labelled 0 to 19": ddf.repartition(npartitions=1).map_partitions(_picky),
        "partition 3 of 4": lancecy.scan(tmp_path / "t", blocksize=None, index=None).map_partitions(_picky),
    }
    for place, data in failing.items():
        with pytest.raises(KeyError, match="the user's own") as raised:
            lancecy.write_dask(data, tmp_path / "u", **options)
        assert raised.value.__notes__[0] == f"The error is from {place.strip()}."
    array = da.arange(12, chunks=5).map_blocks(_picky_block, meta=np.empty(0, np.int64))
    for data in (array, (array * 2)[:, None]):
        with pytest.raises(ValueError, match="the user's own") as failed:
            lancecy.write_dask(data, tmp_path / "u", column="a", **options)
        assert failed.value.__notes__[0] == "The error is from partition 2 of 3, rows 10 to 11."
    with pytest.raises(DatasetNotFoundError):
        lancecy.dataset(tmp_path / "u")


def test_error_before_a_shuffle_is_of_no_partition(tmp_path: Path) -> None:
    lancecy.write_dataset({"n": range(20)}, tmp_path / "t", max_rows_per_file=5)
    ddf = lancecy.scan(tmp_path / "t", blocksize=None)
    early = ddf.map_partitions(_picky, meta=ddf._meta).shuffle("n", shuffle_method="tasks")
    with pytest.raises(KeyError, match="the user's own") as raised:
        lancecy.write_dask(early, tmp_path / "u")
    assert [note for note in raised.value.__notes__ if "partition" in note] == []
    late = ddf.shuffle("n", shuffle_method="tasks").map_partitions(_picky, meta=ddf._meta)
    with pytest.raises(KeyError, match="the user's own") as raised:
        lancecy.write_dask(late, tmp_path / "u")
    assert re.match(r"The error is from partition \d of 4\.", raised.value.__notes__[0])


def test_tasks_are_called_by_what_they_do(tmp_path: Path) -> None:
    from dask.callbacks import Callback

    lancecy.write_dataset({"n": range(20), "v": [[1.0, 2.0]] * 20}, tmp_path / "t", max_rows_per_file=5)
    ddf = lancecy.scan(tmp_path / "t", blocksize=None)
    names: list[str] = []
    with Callback(pretask=lambda key, *_: names.append(dask.utils.key_split(key))):
        lancecy.write_dask(ddf, tmp_path / "u")
        # Dask joins the results of partitions.
        assert set(names) == {"lancecy-write", "repartitiontofewer"}
        names.clear()
        ddf.compute()
        assert set(names) == {"lancecy-scan", "repartitiontofewer"}
        names.clear()
        for table in lancecy.dataset(tmp_path / "t").to_delayed():
            table.compute()
        assert set(names) == {"lancecy-scan"}
    array = lancecy.to_dask_array(tmp_path / "t", "n")
    later = lancecy.write_dask(ddf, tmp_path / "w", compute=False)
    assert array.name.startswith("lancecy-scan-")
    assert {"lancecy-write", "lancecy-scan", "lancecy-commit"} <= {
        dask.utils.key_split(k) for k in later.dask
    }
    with dask.config.set({"lancecy.dask-expr": False}):
        assert lancecy.scan(tmp_path / "t").expr._name.startswith("lancecy-scan-")


def test_conflict_leaves_no_file(tmp_path: Path) -> None:
    ds = lancecy.write_dask(as_dask(frame()), tmp_path / "t")

    def overtake(part: Any) -> Any:
        lancecy.write_dataset({"other": [1]}, tmp_path / "t", mode="overwrite")
        return part

    slow = as_dask(frame(), 1).map_partitions(overtake, meta=frame(0))
    with pytest.raises(lancecy.errors.CommitError):
        lancecy.write_dask(slow, ds, mode="append")
    assert len(data_files(tmp_path / "t" / "data")) == 5
    assert lancecy.dataset(tmp_path / "t").schema.names == ["other"]


# -- once -----------------------------------------------------------------------------------------------------


def test_delayed_write_happens_once_however_often_it_is_computed(tmp_path: Path) -> None:
    lancecy.write_dask(as_dask(frame()), tmp_path / "t")
    later = lancecy.write_dask(as_dask(frame()), tmp_path / "t", mode="append", compute=False)
    assert lancecy.dataset(tmp_path / "t").version == 1
    with ThreadPoolExecutor(3) as pool:
        versions = list(pool.map(lambda _: later.compute(scheduler="sync"), range(3)))
    assert [*versions, later.compute()] == [2, 2, 2, 2]
    assert sorted(numbers(lancecy.dataset(tmp_path / "t"))) == sorted([*range(20), *range(20)])


def test_write_with_a_token_happens_once(tmp_path: Path) -> None:
    for _ in range(2):
        ds = lancecy.write_dask(as_dask(frame()), tmp_path / "t", mode="append", token="job 5")
    assert (ds.version, ds.count_rows()) == (1, 20)
    named = {file.path for fragment in ds.get_fragments() for file in fragment.data_files()}
    assert {file.name for file in (tmp_path / "t" / "data").iterdir()} == named


def test_only_results_that_arrive_are_committed(tmp_path: Path) -> None:
    """Both attempts of a task run to their end, as when a scheduler gives up a worker that is still alive."""
    options, commit_options = requests_of("append", {})
    location = TableLocation.of(str(tmp_path / "t"))
    columns = pa.schema({"n": pa.int64()})
    shared = share(columns, location, lancecy.Session(), None, options, commit_options)
    first, second = (shared.write(iter([pa.record_batch({"n": [1, 2]})]), 0) for _ in range(2))
    assert first != second
    there = pickle.loads(pickle.dumps(shared))
    assert not there.may_be_committed
    assert [there.commit(second).version, shared.commit(second).version, shared.commit(first).version] == [
        1,
        1,
        1,
    ]
    assert there.may_be_committed
    assert numbers(lancecy.dataset(tmp_path / "t")) == [1, 2]


def test_the_loser_of_a_race_of_one_token_leaves_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both writes found no version of the token when they began to commit."""
    options, commit_options = requests_of("append", {})
    commit_options = replace(commit_options, token="job 5")
    location, columns = TableLocation.of(str(tmp_path / "t")), pa.schema({"n": pa.int64()})
    lancecy.write_dataset({"n": [1]}, tmp_path / "t")
    origin = lancecy.dataset(tmp_path / "t")._snapshot
    both = [share(columns, location, lancecy.Session(), origin, options, commit_options) for _ in range(2)]
    first, second = [(each, each.write(iter([pa.record_batch({"n": [2]})]), 0)) for each in both]
    real, turns = LocalLink.publish, iter([first])

    def overtaken(self: LocalLink, *arguments: Any) -> Steps[Any]:
        for winner, made in turns:
            assert winner.commit(made).version == 2
        return (yield from real(self, *arguments))

    monkeypatch.setattr(LocalLink, "publish", overtaken)
    for write, made in (second, first):
        assert write.commit(made).version == 2
    ds = lancecy.dataset(tmp_path / "t")
    assert numbers(ds) == [1, 2]
    named = {file.path for fragment in ds.get_fragments() for file in fragment.data_files()}
    assert data_files(tmp_path / "t" / "data") == named


def _kill_once(marker: str) -> None:
    """From now on the worker dies when it has finished a file, unless one has died already."""
    from lancecy.write import fragments

    real = fragments._finished

    def finished(full: Any) -> Any:
        made = real(full)
        try:
            Path(marker).mkdir()
        except FileExistsError:
            return made
        return os.kill(os.getpid(), signal.SIGKILL)

    fragments._finished = finished


@pytest.mark.slow
def test_rows_arrive_once_although_a_worker_is_killed(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "n_workers": 2,
        "threads_per_worker": 1,
        "dashboard_address": ":0",
        "host": "127.0.0.1",
    }
    with LocalCluster(processes=True, silence_logs=50, **options) as cluster, Client(cluster) as client:
        client.run(_kill_once, str(tmp_path / "killed"))
        ds = lancecy.write_dask(
            as_dask(frame(80), 8), tmp_path / "t", compute_kwargs={"scheduler": client, "retries": 2}
        )
    assert (tmp_path / "killed").exists()
    assert (numbers(ds), ds.version, len(ds.get_fragments())) == (list(range(80)), 1, 8)
    assert len(data_files(tmp_path / "t" / "data")) > 8


def test_graph_holds_no_secret_and_is_small(tmp_path: Path) -> None:
    options = {"key": "AK", "secret": "very secret"}
    for embed in (False, True):
        later = lancecy.write_dask(
            lancecy.scan(TYPES), tmp_path / "t", data_storage_version="2.2", compute=False, storage_options=options,
            embed_credentials=embed,
        )  # fmt: skip
        graph = pickle.dumps(dict(later.dask))
        assert (b"very secret" in graph) is embed
        assert len(graph) < 200_000
