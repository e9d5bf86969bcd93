"""Partitions of many small fragments on several bases: read from all at once, rows and labels as ever."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import dask
import dask.base
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from distributed import Client

import lancecy
from lancecy.session import default
from tests.helpers.busy import BusyStores, busy_stores
from tests.helpers.compare import assert_tables_equal
from tests.helpers.datasets import expected

ALIVE = [n for n in range(240) if n not in (33, 34, 200)]
DELETED = {3: [3, 4], 20: [0]}


compute: Any = dask.base.compute  # Dask does not annotate it


@pytest.fixture(params=[pytest.param("0.1", marks=pytest.mark.slow), "mixed"])
def stores(request: pytest.FixtureRequest) -> BusyStores:
    """A table of 24 fragments of 10 rows, a third in each base, three rows deleted."""
    found = busy_stores()
    found.write(deleted=DELETED, data_version=request.param)
    return found


@pytest.mark.parametrize("scheduler", ["threads", "synchronous"])
@pytest.mark.parametrize(
    "how",
    [{}, {"filter": "id >= 0"}, {"index": None}, {"index": "rowid"}, {"filter": "id >= 0", "index": None}],
    ids=str,
)
def test_one_partition_reads_from_all_bases_at_once(
    stores: BusyStores, how: dict[str, Any], scheduler: str
) -> None:
    ddf = stores.scan(**how)
    assert ddf.npartitions == 1
    assert sorted(ddf.compute(scheduler=scheduler)["id"]) == ALIVE
    assert stores.most_bases == 3 and stores.most_requests > 3


@pytest.mark.parametrize(
    "work",
    [
        lambda ddf: len(ddf[ddf.id >= 0]) == len(ALIVE),
        lambda ddf: len(ddf[ddf.id >= 0][[]].compute()) == len(ALIVE),
        lambda ddf: ddf.id.sum().compute() == sum(ALIVE),
        lambda ddf: ddf[ddf.id >= 100].x.mean().compute() == np.mean([n / 2 for n in ALIVE if n >= 100]),
        lambda ddf: len(ddf.map_partitions(lambda part: part).compute()) == len(ALIVE),
    ],
    ids=["length", "no columns", "sum", "mean behind a filter", "map_partitions"],
)
def test_what_is_asked_of_a_frame_is_read_from_all_bases_at_once(
    stores: BusyStores, work: Callable[[Any], bool]
) -> None:
    assert work(stores.scan())
    assert stores.most_bases == 3


def test_without_the_optimiser_all_bases_work_at_once(stores: BusyStores) -> None:
    with dask.config.set({"lancecy.dask-expr": False}):
        assert stores.scan(filter="id >= 0").compute()["id"].tolist() != ALIVE
    assert stores.most_bases == 3


def test_workers_of_a_cluster_read_from_all_bases_at_once(stores: BusyStores, thread_client: Client) -> None:
    ddf = stores.scan(filter="id >= 0", blocksize=3000)
    assert 1 < ddf.npartitions < 24
    assert sorted(thread_client.compute(ddf).result()["id"]) == ALIVE
    assert stores.most_bases == 3


def test_array_is_read_from_all_bases_at_once(stores: BusyStores) -> None:
    array = lancecy.to_dask_array(stores.root, "v", allowed_bases=stores.bases)
    assert array.numblocks == (1, 1)
    assert array[:, 0].compute().tolist() == ALIVE
    assert stores.most_bases == 3


@pytest.mark.parametrize("how", [{}, {"filter": "id % 7 > 2"}, {"index": "rowid"}, {"columns": []}], ids=str)
def test_large_partitions_have_the_rows_and_labels_of_small_ones(
    stores: BusyStores, how: dict[str, Any]
) -> None:
    small = stores.scan(blocksize=None, interleave=False, **how)
    large = stores.scan(interleave=False, **how)
    assert (small.npartitions, large.npartitions) == (24, 1)
    pd.testing.assert_frame_equal(large.compute(scheduler="sync"), small.compute(scheduler="sync"))


def test_rows_without_labels_are_numbered_by_rank_in_their_partition(stores: BusyStores) -> None:
    (part,) = stores.scan(filter="id % 7 > 2", index=None, interleave=False).partitions
    frame = part.compute()
    assert frame["id"].tolist() == [n for n in ALIVE if n % 7 > 2]
    assert frame.index.tolist() == list(range(len(frame)))


def test_head_opens_the_fragments_of_its_rows(stores: BusyStores) -> None:
    ddf = stores.scan()
    assert ddf.head(25)["id"].tolist() == ALIVE[:25]
    assert set(stores.served) == {"a"}
    assert ddf[ddf.id > 20].head(3)["id"].tolist() == [21, 22, 23]


def _starts(parts: list[Any], stores: BusyStores) -> list[str]:
    """The base that each part reads from, one after the other."""
    found = []
    for part in parts:
        stores.clear()
        part.compute(scheduler="sync")
        (base,) = set(stores.served)
        found.append(base)
    return found


@pytest.mark.slow
def test_delayed_tables_are_in_table_order_and_started_on_all_bases(stores: BusyStores) -> None:
    tables = stores.dataset().to_delayed(filter="id >= 0", blocksize=None)
    assert _starts(tables, stores) == ["a"] * 8 + ["b"] * 8 + ["c"] * 8
    stores.clear()
    default().cache.clear()  # it keeps small files
    assert_tables_equal(pa.concat_tables(compute(*tables, scheduler="sync")), expected(ALIVE))
    turns = [base for base, _ in itertools.groupby(stores.served)]
    assert turns == turns[:3] * 8 and set(turns) == set("abc")
    stores.clear()
    default().cache.clear()
    compute(*tables, scheduler="threads", num_workers=3)
    assert stores.most_bases == 3


def test_delayed_tables_of_small_fragments_read_from_all_bases_at_once(stores: BusyStores) -> None:
    (table,) = stores.dataset().to_delayed(filter="id >= 0")
    assert table.compute(scheduler="sync")["id"].to_pylist() == ALIVE
    assert stores.most_bases == 3


def test_delayed_tables_without_order_are_listed_by_base_in_turn(stores: BusyStores) -> None:
    tables = stores.dataset().to_delayed(["id"], blocksize=None, scan_in_order=False)
    assert _starts(tables, stores) == ["a", "b", "c"] * 8
    found = pa.concat_tables(compute(*tables))["id"].to_pylist()
    assert sorted(found) == ALIVE


def test_partitions_larger_than_a_fragment_hold_several_bases(stores: BusyStores) -> None:
    ddf = stores.scan(filter="id >= 0", blocksize=3000)
    assert 1 < ddf.npartitions < 12
    for part in ddf.partitions:
        stores.clear()
        part.compute(scheduler="sync")
        assert set(stores.served) == set("abc")
