"""``Dataset.to_delayed``: a scan as Dask tasks that give Arrow tables."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import dask.bag as db
import pyarrow as pa
import pytest
from dask.delayed import Delayed
from distributed import Client

import lancecy
from tests.helpers.compare import assert_tables_equal
from tests.interop.live import mixed_table, peer, write

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Four fragments, some rows deleted."""
    place = str(tmp_path_factory.mktemp("delayed") / "t.lance")
    write(
        mixed_table(400).select(["id", "x", "k", "vector"]),
        place,
        max_rows_per_file=100,
        data_storage_version="2.1",
    )
    peer(place).delete("id >= 110 AND id < 130")
    return place


def _tables(tasks: list[Delayed]) -> list[pa.Table]:
    return [task.compute(scheduler="sync") for task in tasks]


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"columns": ["vector", "id"]},
        {"filter": "k < 10"},
        {"columns": {"y": "x * 2"}, "filter": "k < 10"},
    ],
    ids=str,
)
def test_tables_together_are_the_scan(path: str, request_: dict[str, Any]) -> None:
    ds = lancecy.dataset(path)
    tables = _tables(ds.to_delayed(**request_, blocksize=None))
    assert len(tables) == 4
    assert_tables_equal(pa.concat_tables(tables), ds.to_table(**request_))
    assert tables[0].schema == ds.scanner(**request_).schema


def test_small_fragments_are_grouped(path: str) -> None:
    ds = lancecy.dataset(path)
    assert len(ds.to_delayed()) == 1
    assert len(ds.to_delayed(columns=["id"], blocksize=1700)) == 2
    with pytest.raises(ValueError, match="positive"):
        ds.to_delayed(blocksize=0)


def test_table_without_rows_has_no_task(path: str, tmp_path: Path) -> None:
    write(mixed_table(3).select(["id"]), tmp_path / "t.lance")
    peer(tmp_path / "t.lance").delete("id >= 0")
    assert lancecy.dataset(tmp_path / "t.lance").to_delayed() == []


def test_bags_start_there(path: str) -> None:
    rows = db.from_delayed([t.to_pylist() for t in lancecy.dataset(path).to_delayed(["id"], blocksize=None)])
    assert rows.pluck("id").sum().compute(scheduler="sync") == sum(peer(path).to_table()["id"].to_pylist())


def test_keys_tell_scans_apart_and_secrets_stay(path: str) -> None:
    secret = {"secret": "hunter2-hunter2"}
    ds = lancecy.dataset(path, storage_options=secret)
    one, other = ds.to_delayed(filter="k < 3")[0], ds.to_delayed(filter="k < 4")[0]
    assert one.key != other.key
    assert one.key == ds.to_delayed(filter="k < 3")[0].key
    assert b"hunter2" not in pickle.dumps(one)
    assert b"hunter2" in pickle.dumps(ds.to_delayed(embed_credentials=True)[0])


@pytest.mark.slow
def test_other_processes_read_the_same(path: str, process_client: Client) -> None:
    futures = process_client.compute(lancecy.dataset(path).to_delayed(["id", "vector"], blocksize=None))
    found = pa.concat_tables(process_client.gather(futures))
    assert_tables_equal(found, lancecy.dataset(path).to_table(["id", "vector"]))
