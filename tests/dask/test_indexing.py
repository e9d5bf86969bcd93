"""Indices on Dask workers: parts made apart, one index, one commit, whatever schedulers do."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

import lancecy
import lancecy.dask
from lancecy.changes.shared_index import SharedIndex
from lancecy.errors import CommitError, FormatError
from tests.helpers.waiting import wait_until_it_stays

KINDS = {"n": "BTREE", "word": "BITMAP", "tags": "LABEL_LIST", "f": "ZONEMAP", "key": "BLOOMFILTER"}
FILTERS = ("n = 317", "word = 'w3'", "word IS NULL", "array_has(tags, 't1')", "f < 12", "key = 'k42'")


def table(path: Path, parts: int = 6, stable: bool = False) -> lancecy.Dataset:
    rows = range(parts * 100)
    data = pa.table(
        {
            "n": rows,
            "word": [None if n % 9 == 0 else f"w{n % 7}" for n in rows],
            "tags": [[f"t{n % 3}"] * (n % 4) for n in rows],
            "f": [n / 2 for n in rows],
            "key": [f"k{n}" for n in rows],
        }
    )
    ds = lancecy.write_dataset(
        data, path, max_rows_per_file=100, durability="none", enable_stable_row_ids=stable
    )
    ds.delete("n % 50 = 3")
    return ds


def check(ds: lancecy.Dataset) -> None:
    for text in FILTERS:
        plain = ds.to_table(filter=text, use_scalar_index=False)
        assert ds.to_table(filter=text, use_scalar_index=True).equals(plain), text


def folders(path: Path) -> set[str]:
    return set(os.listdir(path / "_indices")) if (path / "_indices").exists() else set()


@pytest.mark.parametrize("scheduler", ["threads", pytest.param("processes", marks=pytest.mark.slow)])
def test_workers_make_parts_and_one_version_is_made(tmp_path: Path, scheduler: str) -> None:
    ds = table(tmp_path, stable=scheduler == "threads")
    for count, (column, kind) in enumerate(KINDS.items(), 1):
        lancecy.dask.create_scalar_index(
            ds,
            column,
            kind,
            durability="none",
            num_parts=count,
            commit_message="weekly",
            compute_kwargs={"scheduler": scheduler},
        )
        assert ds.version == lancecy.dataset(tmp_path).version == 2 + count
        assert len(folders(tmp_path)) == count  # those of the parts are gone
    for index in ds.describe_indices():
        assert (len(index.segments), index.num_rows_indexed) == (1, ds.count_rows())
    assert not list((tmp_path / "_versions").glob(".tmp*"))
    check(ds)


def test_an_index_is_replaced(tmp_path: Path) -> None:
    ds = table(tmp_path)
    ds.create_scalar_index("n")
    with pytest.raises(ValueError, match="replace=True"):
        lancecy.dask.create_scalar_index(tmp_path, "n", replace=False)
    lancecy.dask.create_scalar_index(tmp_path, "n")
    assert len(lancecy.dataset(tmp_path).list_indices()) == 1
    with pytest.raises(ValueError, match="num_parts"):
        lancecy.dask.create_scalar_index(tmp_path, "n", num_parts=0)
    empty = lancecy.write_dataset(pa.table({"n": pa.array([], pa.int64())}), tmp_path / "empty")
    lancecy.dask.create_scalar_index(empty, "n")
    assert empty.index_statistics("n_idx")["num_indexed_rows"] == 0


def test_repeated_tasks_count_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ds = table(tmp_path)
    run = SharedIndex.run

    def twice(self: SharedIndex, number: int) -> str:
        run(self, number)
        return run(self, number)

    monkeypatch.setattr(SharedIndex, "run", twice)
    lancecy.dask.create_scalar_index(ds, "n", durability="none")
    assert len(folders(tmp_path)) == 1
    assert ds.index_statistics("n_idx")["num_indexed_rows"] == ds.count_rows()
    check(ds)


@pytest.mark.parametrize("scheduler", ["threads", pytest.param("processes", marks=pytest.mark.slow)])
def test_a_failed_task_leaves_no_file(tmp_path: Path, scheduler: str) -> None:
    ds = table(tmp_path)
    broken = tmp_path / "data" / ds.get_fragments()[4].metadata.files[0].path
    broken.write_bytes(broken.read_bytes()[:-20] + b"\xff" * 20)
    ds = lancecy.dataset(tmp_path, session=lancecy.Session())
    with pytest.raises(FormatError) as caught:
        lancecy.dask.create_scalar_index(ds, "n", durability="none", compute_kwargs={"scheduler": scheduler})
    assert "Nothing was committed" in "".join(caught.value.__notes__)
    # A task of another thread may still be at work: it removes its own files once it is done.
    wait_until_it_stays(lambda: not folders(tmp_path))
    assert folders(tmp_path) == set()
    assert lancecy.dataset(tmp_path).version == 2
    assert not lancecy.dataset(tmp_path).list_indices()


def test_a_late_task_removes_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scheduler may run a task again when the index is committed already."""
    ds = table(tmp_path)
    known: list[SharedIndex] = []
    run = SharedIndex.run

    def noted(self: SharedIndex, number: int) -> str:
        known.append(self)
        return run(self, number)

    monkeypatch.setattr(SharedIndex, "run", noted)
    lancecy.dask.create_scalar_index(ds, "n", durability="none")
    before = folders(tmp_path)
    with pytest.raises(CommitError, match="given up"):
        run(known[0], 2)
    assert folders(tmp_path) == before
    check(ds)


def test_values_that_change_while_workers_read_are_not_covered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds = table(tmp_path)
    run = SharedIndex.run

    def disturbed(self: SharedIndex, number: int) -> str:
        result = run(self, number)
        if number == 1:
            source = pa.table({"n": [7, 8], "word": ["changed", "changed"]})
            lancecy.dataset(tmp_path).merge_insert("n").when_matched_update_all().execute(source)
        return result

    monkeypatch.setattr(SharedIndex, "run", disturbed)
    lancecy.dask.create_scalar_index(ds, "word", "BITMAP", durability="none")
    assert sorted(ds.to_table(["n"], filter="word = 'changed'")["n"].to_pylist()) == [7, 8]
    check(ds)
