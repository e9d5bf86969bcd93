"""A Dask DataFrame is merged into a table by the workers, in one version, also if tasks fail or run twice."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from distributed import Client

import lancecy
from lancecy.changes.merging import in_dask
from lancecy.changes.merging.distributed import SharedMerge
from lancecy.errors import ColumnNotFoundError, ExistsError, RetryableConflictError, SchemaError

pytestmark = pytest.mark.slow


def table(place: Path, **options: Any) -> lancecy.Dataset:
    """Ten rows in four fragments; the words begin with "old"."""
    rows = {
        "id": pa.array(range(10)),
        "word": [f"old {n}" for n in range(10)],
        "vec": pa.array([[n, n + 1] for n in range(10)], pa.list_(pa.float32(), 2)),
    }
    return lancecy.write_dataset(pa.table(rows), place, max_rows_per_file=3, **options)


def source(ids: list[Any], parts: int = 3, **columns: Any) -> dd.DataFrame:
    rows = pd.DataFrame({"id": ids, "word": [f"new {n}" for n in ids], **columns})
    made: dd.DataFrame = dd.from_pandas(rows, npartitions=parts, sort=False)
    return made


def words(ds: lancecy.Dataset) -> dict[Any, Any]:
    found = lancecy.dataset(ds.uri).to_table(columns=["id", "word"]).to_pylist()
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: row["word"] for row in found}


def files(place: Path) -> list[str]:
    return sorted(str(path) for path in place.rglob("*") if path.is_file())


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1", "2.2"])
def test_rows_are_updated_and_inserted_and_other_columns_kept(
    tmp_path: Path, thread_client: Client, version: str
) -> None:
    ds = table(tmp_path / "t", enable_stable_row_ids=True, data_storage_version=version)
    if version == "0.1":
        # Its files hold nulls of text only, and new rows have no value there.
        ds.drop_columns(["vec"])
        ds.add_columns({"vec": "CAST(id AS string)"})
    before = ds.to_table(columns=["id"], with_row_id=True).to_pydict()
    done = lancecy.dask.merge_insert(
        source([3, 7, 8, 12, 11]), ds, on="id", compute_kwargs={"scheduler": thread_client}
    )
    assert done == {"num_inserted_rows": 2, "num_updated_rows": 3, "num_deleted_rows": 0}
    assert ds.version == (4 if version == "0.1" else 2)
    assert not [name for name in files(tmp_path) if "_write_" in name], "a marker would keep old versions"
    expected = {n: f"new {n}" if n in (3, 7, 8) else f"old {n}" for n in range(10)}
    assert words(ds) == {**expected, 11: "new 11", 12: "new 12"}
    after = {row["id"]: row for row in ds.to_table(columns=["id", "vec"], with_row_id=True).to_pylist()}
    ids = dict(zip(before["id"], before["_rowid"], strict=True))
    assert {n: after[n]["_rowid"] for n in range(10)} == ids
    assert after[7]["vec"] == ("7" if version == "0.1" else [7.0, 8.0])
    assert after[12]["vec"] is None
    assert len({row["_rowid"] for row in after.values()}) == 12


def test_workers_in_other_processes_merge_vectors_and_structs(tmp_path: Path, process_client: Client) -> None:
    kind = pa.list_(pa.float32(), 2)
    rows = pa.table(
        {"k": [{"a": n, "b": str(n)} for n in range(6)], "vec": pa.array([[n, n] for n in range(6)], kind)}
    )
    ds = lancecy.write_dataset(rows, tmp_path / "t", max_rows_per_file=2)
    other = rows.slice(4).set_column(1, "vec", pa.array([[-1, -1], [-2, -2]], kind))
    more = pa.table({"k": [{"a": 9, "b": None}], "vec": pa.array([[9, 9]], kind)}, schema=rows.schema)
    ddf = dd.from_pandas(lancecy.dask.to_frame(pa.concat_tables([other, more])), npartitions=2)
    with process_client.as_current():
        done = ds.merge_insert("k").when_matched_update_all().when_not_matched_insert_all().execute(ddf)
    assert done == {"num_inserted_rows": 1, "num_updated_rows": 2, "num_deleted_rows": 0}
    found = {row["k"]["a"]: row["vec"] for row in ds.to_table().to_pylist()}
    assert found == {0: [0, 0], 1: [1, 1], 2: [2, 2], 3: [3, 3], 4: [-1, -1], 5: [-2, -2], 9: [9, 9]}


CLAUSES: list[Mapping[str, Any]] = [
    {},
    {"condition": "source.rank > target.rank"},
    {"when_matched": None},
    {"when_matched": "delete"},
    {"when_not_matched": None},
    {"when_not_matched_by_source": "delete"},
    {"when_not_matched_by_source": "delete", "delete_condition": "rank < 4", "when_matched": None},
]


@pytest.mark.parametrize("clauses", CLAUSES, ids=str)
def test_every_clause_does_what_the_merge_in_one_process_does(
    tmp_path: Path, clauses: Mapping[str, Any]
) -> None:
    chance = random.Random(7)
    keys = [*range(40), None, None]
    rows = {"id": pa.array(keys, pa.int64()), "rank": [chance.randrange(8) for _ in keys]}
    new = pd.DataFrame({"id": [None, *range(30, 50)], "rank": [chance.randrange(8) for _ in range(21)]})
    new["id"] = new["id"].astype("Int64")
    near = lancecy.write_dataset(rows, tmp_path / "near", max_rows_per_file=11)
    far = lancecy.write_dataset(rows, tmp_path / "far", max_rows_per_file=11)
    ddf = dd.from_pandas(new, npartitions=4, sort=False)
    done = lancecy.dask.merge_insert(ddf, far, "id", **clauses)
    builder = lancecy.changes.merge_insert.MergeInsertBuilder.of(near, "id", {**clauses})
    assert done == builder.execute(new)
    assert sorted(far.to_table().to_pylist(), key=str) == sorted(near.to_table().to_pylist(), key=str)


def test_key_given_twice_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    ds = table(tmp_path / "t")
    before = files(tmp_path)
    for ids, key in (([1, 5, 6, 5], "id = 5"), ([1, 30, 31, 30], "id = 30")):
        with pytest.raises(SchemaError, match=f"two rows of the source have the key {key}"):
            lancecy.dask.merge_insert(source(ids, 4), ds, "id")
    with pytest.raises(ExistsError, match="id = 5"):
        lancecy.dask.merge_insert(source([5]), ds, "id", when_matched="fail")
    with pytest.raises(SchemaError, match="no key column"):
        ds.merge_insert("id").when_matched_update_all().execute(source([1]).rename(columns={"id": "n"}))
    assert files(tmp_path) == before
    assert lancecy.dataset(tmp_path / "t").version == 1


def test_objects_that_dask_made_text_of_are_refused_with_the_remedy(tmp_path: Path) -> None:
    ds = lancecy.write_dataset(
        pa.table({"id": [1], "v": pa.array([[1, 2]], pa.list_(pa.float32(), 2))}), tmp_path / "t"
    )
    frame = pd.DataFrame({"id": [1, 2], "v": [np.ones(2, np.float32)] * 2})
    told = "column 'v' is text, where fixed_size_list<item: float>\\[2\\] is needed: .*convert-string': False"
    with pytest.raises(SchemaError, match=told):
        lancecy.dask.merge_insert(dd.from_pandas(frame, npartitions=2), ds, "id")
    with pytest.raises(SchemaError, match=told):
        lancecy.write_dask(dd.from_pandas(frame), tmp_path / "u", ds.schema)
    with dask.config.set({"dataframe.convert-string": False}):
        kept = dd.from_pandas(frame, npartitions=2)
    assert lancecy.dask.merge_insert(kept, ds, "id")["num_inserted_rows"] == 1
    assert lancecy.dataset(ds.uri).to_table()["v"].to_pylist() == [[1, 1]] * 2


def test_members_of_structs_are_no_keys(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"s": [{"a": 1}]}, tmp_path / "t")
    with pytest.raises(
        ColumnNotFoundError, match=r"no column 's\.a' in the top-level columns, which alone can be keys"
    ):
        lancecy.dask.merge_insert(source([1]), ds, "s.a")


def test_arguments_that_mean_nothing_are_refused(tmp_path: Path) -> None:
    ds = table(tmp_path / "t")
    with pytest.raises(ValueError, match="'update_all', 'fail', 'delete', None"):
        lancecy.dask.merge_insert(source([1]), ds, "id", when_matched="update")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="delete_condition needs when_not_matched_by_source='delete'"):
        lancecy.dask.merge_insert(source([1]), ds, "id", delete_condition="id < 3")
    with pytest.raises(ValueError, match="would change nothing"):
        lancecy.dask.merge_insert(source([1]), ds, "id", when_matched=None, when_not_matched=None)
    with pytest.raises(ValueError, match="progress is called by the process that writes"):
        ds.merge_insert("id").when_matched_update_all().execute(source([1]), progress=print)
    with pytest.raises(TypeError, match="a Dask DataFrame"):
        lancecy.dask.merge_insert({"id": [1]}, ds, "id")  # type: ignore[arg-type]


def test_failing_partition_leaves_nothing(tmp_path: Path, thread_client: Client) -> None:
    ds = table(tmp_path / "t")
    before = files(tmp_path)

    def fails(part: pd.DataFrame) -> pd.DataFrame:
        if (part["id"] == 12).any():
            raise RuntimeError("the user's own")
        return part

    ddf = source([3, 7, 11, 12]).map_partitions(fails, meta=source([1])._meta)
    with pytest.raises(RuntimeError, match="the user's own") as raised:
        lancecy.dask.merge_insert(ddf, ds, "id", compute_kwargs={"scheduler": thread_client})
    assert "nothing was committed" in str(raised.value.__notes__)
    assert files(tmp_path) == before


def test_task_that_runs_twice_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ds = table(tmp_path / "t", enable_stable_row_ids=True)
    real = SharedMerge.merge
    ran: list[str] = []

    def twice(merge: SharedMerge, pieces: Any, number: int, session: Any = None) -> str:
        listed = list(pieces)
        ran.append(real(merge, listed, number, session))
        return real(merge, listed, number, session)

    monkeypatch.setattr(SharedMerge, "merge", twice)
    done = lancecy.dask.merge_insert(source([3, 7, 11, 12]), ds, "id")
    assert done == {"num_inserted_rows": 2, "num_updated_rows": 2, "num_deleted_rows": 0}
    assert any(ran)
    assert words(ds) == {
        **{n: f"old {n}" for n in range(10)}, 3: "new 3", 7: "new 7", 11: "new 11", 12: "new 12"
    }  # fmt: skip
    assert len(files(tmp_path / "t" / "data")) > sum(
        len(fragment.data_files()) for fragment in ds.get_fragments()
    )


def test_merge_begins_again_after_another_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ds = table(tmp_path / "t")
    real = in_dask.DaskEngine.run
    runs: list[int] = []

    def overtaken(engine: in_dask.DaskEngine, merge: SharedMerge, tasks: Any) -> list[str]:
        results = real(engine, merge, tasks)
        runs.append(merge.spec.version)
        if len(runs) < 3:
            rows = {"id": [11], "word": [f"other {len(runs)}"]}
            other = lancecy.dataset(tmp_path / "t").merge_insert("id")
            other.when_matched_update_all().when_not_matched_insert_all().execute(rows)
        return results

    monkeypatch.setattr(in_dask.DaskEngine, "run", overtaken)
    done = lancecy.dask.merge_insert(source([3, 11]), ds, "id")
    assert done == {"num_inserted_rows": 0, "num_updated_rows": 2, "num_deleted_rows": 0}
    assert (runs, ds.version) == ([1, 2, 3], 4)
    assert (words(ds)[3], words(ds)[11]) == ("new 3", "new 11")
    referenced = {file.path for fragment in ds.get_fragments() for file in fragment.data_files()}
    kept = {Path(name).name for name in files(tmp_path / "t" / "data")}
    # Besides those of the version, the files of earlier versions only.
    assert len(kept - referenced) <= 6
    runs.clear()
    with pytest.raises(RetryableConflictError):
        lancecy.dask.merge_insert(source([11]), ds, "id", conflict_retries=0)
    assert {Path(name).name for name in files(tmp_path / "t" / "data")} >= kept


def test_merge_passes_appends_of_other_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ds = table(tmp_path / "t")
    real = in_dask.DaskEngine.run
    appended, runs = [12, 13, 11], list[int]()

    def overtaken(engine: in_dask.DaskEngine, merge: SharedMerge, tasks: Any) -> list[str]:
        results = real(engine, merge, tasks)
        runs.append(merge.spec.version)
        lancecy.dataset(tmp_path / "t").append({"id": [appended[len(runs) - 1]], "word": ["appended"]})
        return results

    monkeypatch.setattr(in_dask.DaskEngine, "run", overtaken)
    assert lancecy.dask.merge_insert(source([3, 10]), ds, "id")["num_inserted_rows"] == 1
    assert (runs, ds.version) == ([1], 3)
    assert lancecy.dask.merge_insert(source([3, 14]), ds, "id")["num_inserted_rows"] == 1
    assert (runs, ds.version) == ([1, 3], 5)
    with pytest.raises(RetryableConflictError):
        lancecy.dask.merge_insert(source([3, 11]), ds, "id", conflict_retries=0)
    assert words(ds)[11] == "appended"


@pytest.mark.interop
@pytest.mark.parametrize("stable", [False, True])
def test_pylance_reads_what_workers_merged_and_computed(tmp_path: Path, stable: bool) -> None:
    import lance

    ds = table(tmp_path / "t", enable_stable_row_ids=stable)
    lancecy.dask.merge_insert(source([3, 7, 11, 12]), ds, "id")
    lancecy.dask.add_columns(ds, lambda batch: {"next": [n + 1 for n in batch["id"].to_pylist()]}, ["id"])
    theirs = lance.dataset(str(tmp_path / "t"))
    theirs.validate()
    assert theirs.to_table(with_row_id=True).equals(ds.to_table(with_row_id=True))
    theirs.merge_insert("id").when_matched_update_all().execute(theirs.to_table(filter="id >= 7"))
    found = lancecy.dataset(tmp_path / "t").to_table(columns=["id", "next"]).to_pylist()
    assert sorted(row["next"] - row["id"] for row in found) == [1] * 12
    assert words(ds)[12] == "new 12"
