"""What a reviewer broke, kept from breaking again."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import NotFoundError
from lancecy.limits import Limits
from lancecy.scanning.run_task import read
from tests.helpers.datasets import write_table


def test_allowed_bases_as_one_text_are_refused(tmp_path: Path) -> None:
    root = write_table(str(tmp_path / "t"), bases=[str(tmp_path / "other")])
    with pytest.raises(TypeError, match="allowed_bases is a list"):
        lancecy.dataset(root, untrusted=True, allowed_bases="/nowhere")


def test_rows_of_a_table_without_columns_are_counted(tmp_path: Path, data_version: str) -> None:
    ds = lancecy.dataset(write_table(str(tmp_path / "t"), data_version=data_version))
    assert ds.to_table([], filter="id < 3", limit=100).num_rows == 3
    assert ds.to_table([], filter="id < 3", offset=50).num_rows == 0
    assert sum(b.num_rows for b in ds.to_batches([], filter="id < 3", limit=100)) == 3
    assert ds.take([5, 1], columns=[]).num_rows == 2
    assert ds.sample(3, columns=[]).num_rows == 3
    assert ds.to_table([]).schema.metadata == ds.scanner([]).schema.metadata


def test_tasks_of_a_table_that_was_made_anew_are_refused(tmp_path: Path) -> None:
    root = str(tmp_path / "t")
    tasks = []
    for deleted in (None, {0: [0, 1, 2]}):
        shutil.rmtree(root, ignore_errors=True)
        write_table(root, fragments=1, rows=10, deleted=deleted)
        tasks.append(lancecy.dataset(root).scanner(["id"]).plan().tasks[0])
        found = read(tasks[-1])["id"].to_pylist()
        assert found == [n for n in range(10) if deleted is None or n not in deleted[0]]
    fresh = lancecy.Session(threads=1)
    with pytest.raises(NotFoundError, match="created again"):
        read(tasks[0], session=fresh)


def test_limits_travel_with_tasks_and_pickles(tmp_path: Path) -> None:
    root = write_table(str(tmp_path / "t"))
    ds = lancecy.dataset(root, limits=Limits(nesting=63))
    assert ds.scanner().plan().tasks[0].spec.location.limits.nesting == 63
    assert pickle.loads(pickle.dumps(ds)).context.session.limits.nesting == 63


def test_scans_that_cannot_be_split_have_no_tasks(tmp_path: Path, data_version: str) -> None:
    ds = lancecy.dataset(write_table(str(tmp_path / "t"), data_version=data_version))
    for options in (
        {"filter": "id > 3", "limit": 5},
        {"filter": "id > 3", "offset": 5},
        {"order_by": ["id"]},
    ):
        with pytest.raises(ValueError, match="cannot be split into tasks"):
            ds.scanner(**options).plan()
    assert sum(u.rows for u in ds.scanner(limit=60, offset=7).plan().units) == 60


def test_filter_with_limit_reads_no_more_than_it_returns(tmp_path: Path, data_version: str) -> None:
    ds = lancecy.dataset(write_table(str(tmp_path / "t"), data_version=data_version))
    assert ds.to_table(["id", "s"], filter="id >= 40", limit=20)["id"].to_pylist() == list(range(40, 60))
    assert ds.to_table(["s"], filter="id >= 40", limit=20, offset=15).num_rows == 20


@pytest.mark.interop
def test_extension_types_inside_structs_survive_units_without_a_match(tmp_path: Path) -> None:
    import lance

    uuids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16, b"1" * 16], pa.binary(16)))
    inside = pa.StructArray.from_arrays([uuids, pa.array([1, 2])], names=["u", "k"])
    table = pa.table({"id": [1, 2], "x": inside})
    path = str(tmp_path / "t")
    lance.write_dataset(table, path, data_storage_version="legacy")
    lance.write_dataset(
        table.set_column(0, "id", pa.array([8, 9])), path, mode="append", data_storage_version="legacy"
    )
    ds = lancecy.dataset(path)
    assert ds.to_table(filter="id > 100").num_rows == 0
    assert ds.to_table(filter="id > 5")["id"].to_pylist() == [8, 9]


@pytest.mark.interop
def test_stream_of_wide_values_stays_in_small_pieces(tmp_path: Path) -> None:
    import lance

    wide = pa.array([np.random.default_rng(n).bytes(200_000) for n in range(120)], pa.binary())
    table = pa.table({"id": np.arange(120), "b": wide})
    lance.write_dataset(table, str(tmp_path / "t"), data_storage_version="legacy", max_rows_per_group=10)
    ds = lancecy.dataset(str(tmp_path / "t"))
    planned = ds.scanner()._plan(1 << 20, exact=True)
    assert max(u.rows for u in planned.units) <= 8
    assert [n for b in ds.scanner(memory_bytes=3 << 20).to_batches() for n in b["id"].to_pylist()] == list(
        range(120)
    )
    assert len(ds.scanner().plan(blocksize=4 << 20).tasks) >= 5
