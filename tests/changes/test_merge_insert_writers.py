"""Merges of several writers at once: no key twice, and no lost update."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import RetryableConflictError
from tests.helpers.folded import folded
from tests.helpers.processes import fresh_processes

WRITERS = 4


def upsert(uri: str, rows: dict[str, list[Any]], version: int | None = None) -> dict[str, int]:
    merge = lancecy.dataset(uri, version).merge_insert("id").when_matched_update_all()
    merge = merge.when_not_matched_insert_all().conflict_retries(200).retry_timeout(timedelta(minutes=5))
    return merge.durability("none").execute(rows)


def at_once(work: Sequence[Callable[[], Any]]) -> list[Any]:
    """Results of functions that begin at the same time."""
    gate = threading.Barrier(len(work))

    def run(step: Callable[[], Any]) -> Any:
        gate.wait()
        return step()

    with ThreadPoolExecutor(len(work)) as pool:
        return list(pool.map(run, work))


@folded("stable", [False, True])
@folded("count", [1, 2000])
def test_new_keys_of_four_writers_are_inserted_once(count: int, stable: bool, tmp_path: Path) -> None:
    """Few keys are listed in the transaction, many are a Bloom filter."""
    uri = str(tmp_path / f"{count}-{stable}")
    lancecy.write_dataset({"id": [-1], "by": [-1]}, uri, enable_stable_row_ids=stable)
    rows = [{"id": list(range(count)), "by": [writer] * count} for writer in range(WRITERS)]
    done = at_once([partial(upsert, uri, mine, version=1) for mine in rows])
    assert sorted(each["num_inserted_rows"] for each in done) == [0, 0, 0, count]
    assert sorted(each["num_updated_rows"] for each in done) == [0, count, count, count]
    table = lancecy.dataset(uri).to_table()
    assert sorted(table["id"].to_pylist()) == list(range(-1, count))
    assert len(set(table["by"].to_pylist())) == 2, "the last writer's rows, and the first row"


def test_merges_of_other_keys_do_not_wait_for_each_other(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"id": [0], "by": [0]}, tmp_path / "t")
    first, second = (lancecy.dataset(ds.uri).merge_insert("id").conflict_retries(0) for _ in range(2))
    for number, merge in enumerate((first, second), 1):
        merge.when_not_matched_insert_all().execute({"id": [number], "by": [number]})
    assert lancecy.dataset(ds.uri).count_rows() == 3


def test_insert_meets_rows_that_were_appended_meanwhile(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"id": [0], "by": [0]}, tmp_path / "t")
    old = lancecy.dataset(ds.uri)
    ds.append({"id": [1], "by": [1]})
    strict = (
        old.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().conflict_retries(0)
    )
    with pytest.raises(RetryableConflictError):
        strict.execute({"id": [1], "by": [2]})
    assert upsert(ds.uri, {"id": [1], "by": [2]}, version=1)["num_updated_rows"] == 1
    assert lancecy.dataset(ds.uri).to_table()["by"].to_pylist() == [0, 2]


def test_update_of_old_rows_passes_appends(tmp_path: Path) -> None:
    """A merge that inserts nothing need not know which keys were appended."""
    ds = lancecy.write_dataset({"id": [0], "by": [0]}, tmp_path / "t")
    old = lancecy.dataset(ds.uri)
    ds.append({"id": [1], "by": [1]})
    merge = old.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().conflict_retries(0)
    assert merge.execute({"id": [0], "by": [5]})["num_updated_rows"] == 1


def test_rows_deleted_meanwhile_are_inserted_again(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"id": [0, 1], "by": [0, 0]}, tmp_path / "t")
    ds.delete("id = 1")
    assert upsert(ds.uri, {"id": [1], "by": [3]}, version=1)["num_inserted_rows"] == 1
    assert sorted(lancecy.dataset(ds.uri).to_table()["id"].to_pylist()) == [0, 1]


def test_a_stream_is_read_once_for_all_attempts(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"id": [0], "by": [0]}, tmp_path / "t")
    old = lancecy.dataset(ds.uri)
    ds.append({"id": [1], "by": [1]})
    asked = []

    def stream() -> Any:
        asked.append(1)
        yield pa.record_batch({"id": [1, 2], "by": [7, 7]})

    merge = old.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    done = merge.execute(stream())
    assert (done["num_inserted_rows"], done["num_updated_rows"], len(asked)) == (1, 1, 1)


def merge_often(uri: str, writer: int, rounds: int) -> int:
    """One process: it upserts all keys it shares with the next writer, and counts its rounds in each."""
    for number in range(rounds):
        keys = [writer, (writer + 1) % WRITERS, 100 + writer * rounds + number]
        upsert(uri, {"id": keys, "by": [writer] * 3, "round": [number] * 3})
    return rounds


@pytest.mark.slow
def test_processes_that_upsert_overlapping_keys_leave_each_once(tmp_path: Path) -> None:
    uri, rounds = str(tmp_path / "t"), 8
    empty = {name: pa.array([], pa.int64()) for name in ("id", "by", "round")}
    lancecy.write_dataset(pa.table(empty), uri, enable_stable_row_ids=True)
    fresh = fresh_processes()
    with fresh.Pool(WRITERS) as pool:
        done = pool.starmap(merge_often, [(uri, writer, rounds) for writer in range(WRITERS)])
    assert done == [rounds] * WRITERS
    table = lancecy.dataset(uri).to_table()
    ids = table["id"].to_pylist()
    assert sorted(ids) == [*range(WRITERS), *range(100, 100 + WRITERS * rounds)], (
        "each key once, and none lost"
    )
    last = dict(zip(ids, table["round"].to_pylist(), strict=True))
    shared = {key: last[key] for key in range(WRITERS)}
    assert max(shared.values()) == rounds - 1, (
        "the last version of a shared key comes from the last round of a writer"
    )
    row_ids = lancecy.dataset(uri).to_table(columns=["_rowid"])["_rowid"].to_pylist()
    assert len(set(row_ids)) == len(ids)
