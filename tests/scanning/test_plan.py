"""Plans of tables that claim more than they hold."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import lancecy
from lancecy.errors import FormatError
from lancecy.scanning.plan import _cuts, _unit_bytes
from lancecy.scanning.task import ScanUnit
from lancecy.schema import Field, Schema
from lancecy.store.uri import open_store
from lancecy.table.manifest import DataFile, Fragment
from tests.helpers.builders import make_manifest, write_manifest
from tests.helpers.datasets import write_table
from tests.helpers.pages import build_file, plain


def boasting(root: str, fragments: int, claimed: int) -> lancecy.Dataset:
    """Fragments that all name one file of ten rows."""
    store = open_store(root)
    store.put("data/f.lance", build_file({0: [plain(range(10), "<i8")]}, [10]).data)
    files = (DataFile("f.lance", (0,), (), 0, 2),)
    manifest = make_manifest(
        schema=Schema((Field("a", 0, logical_type="int64"),)),
        fragments=tuple(Fragment(i, files, claimed) for i in range(fragments)),
        max_fragment_id=fragments,
    )
    write_manifest(store, manifest)
    return lancecy.dataset(root)


@pytest.mark.parametrize(
    "plan",
    [
        lambda ds: ds.scanner().plan(blocksize=1),
        lambda ds: ds.scanner().plan(),
        lambda ds: ds.scanner().to_table(),
        lambda ds: next(ds.to_batches(memory_bytes=1)),
        lambda ds: ds.scanner(filter="a > 1").count_rows(),
    ],
    ids=["blocks", "plain", "table", "batches", "count"],
)
def test_rows_that_only_the_manifest_claims_are_not_planned(
    tmp_path: Path, plan: Callable[[lancecy.Dataset], object]
) -> None:
    ds = boasting(str(tmp_path / "t"), fragments=300, claimed=(1 << 32) - 1)
    tracemalloc.start()
    start = time.process_time()
    with pytest.raises(FormatError, match="the manifest says 4294967295 rows, the data files hold 10"):
        plan(ds)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 << 20 and time.process_time() - start < 10


def test_small_blocks_split_a_real_table_without_opening_it(tmp_path: Path) -> None:
    ds = lancecy.dataset(write_table(str(tmp_path / "t"), fragments=2, rows=20_000, rows_per_page=1000))
    plan = ds.scanner(["id"]).plan(blocksize=1 << 16)
    assert sum(u.rows for u in plan.units) == 40_000 and len(plan.units) == 6
    assert not ds.context._opened


@pytest.mark.parametrize(("total", "blocksize"), [(1e15, 1), (1e15, 1 << 20), (1e18, None), (1e15, 1 << 40)])
def test_units_grow_with_the_table_so_that_there_are_never_too_many(
    total: float, blocksize: int | None
) -> None:
    assert total / _unit_bytes(total, blocksize, 1, 4 << 20) <= 1 << 18


@pytest.mark.parametrize(
    ("edges", "cuts"),
    [
        (None, [0, 40_000, 80_000, 100_000]),
        ([0, 100_000], [0, 40_000, 80_000, 100_000]),
        ([0, 50_000, 100_000], [0, 50_000, 100_000]),
        ([0, 45_000, 90_000, 100_000], [0, 45_000, 90_000, 100_000]),
        ([0, 10_000, 100_000], [0, 40_000, 100_000]),
        (list(range(0, 100_001, 1000)), [0, 40_000, 80_000, 100_000]),
    ],
)
def test_units_are_cut_where_large_pages_end(edges: list[int] | None, cuts: list[int]) -> None:
    unit = ScanUnit(3, 0, 100_000, 100_000, 0)
    assert _cuts(unit, 40_000, None if edges is None else np.array(edges)) == cuts


def test_units_of_an_open_fragment_end_with_its_pages(tmp_path: Path) -> None:
    root = write_table(
        str(tmp_path / "t"), fragments=1, rows=100_000, rows_per_page=30_000, data_version="2.1"
    )
    ds = lancecy.dataset(root)
    closed = ds.scanner(["id"]).plan(blocksize=240_000)
    assert ds.to_table(["id"])["id"].to_pylist() == list(range(100_000))
    opened = ds.scanner(["id"]).plan(blocksize=240_000)
    assert [u.stop for u in closed.units] != [u.stop for u in opened.units]
    assert {u.stop for u in opened.units} <= {30_000, 60_000, 90_000, 100_000}
    assert sum(u.rows for u in opened.units) == 100_000
