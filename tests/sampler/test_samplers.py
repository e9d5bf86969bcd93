"""Samplers: every row once among all processes, in a repeatable order, and no more read than needed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy.sampler import (
    FragmentSampler,
    FullScanSampler,
    Sampler,
    ShardedBatchSampler,
    ShardedFixedBatchSampler,
    ShardedFragmentSampler,
    maybe_sample,
    reservoir_sampling,
)
from lancecy.store.base import StoreTraits
from lancecy.store.memory import MemoryStore
from lancecy.store.uri import register_store
from lancecy.store.wrap import CountingStore

ROWS = 1003
DELETED = {17, 500, 501, 1002}
# The ends of four data files, and the manifest.
_METADATA = 5 * 65_536
ALIVE = [n for n in range(ROWS) if n not in DELETED]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> lancecy.Dataset:
    """Seven fragments with deleted rows; 999 rows are left, which neither batches nor processes divide."""
    ids = np.arange(ROWS)
    vectors = np.repeat(ids, 8).astype(np.float32)
    rows = pa.table({"id": ids, "vec": pa.FixedSizeListArray.from_arrays(pa.array(vectors), 8)})
    place = tmp_path_factory.mktemp("sampled") / "t.lance"
    ds = lancecy.write_dataset(rows, str(place), max_rows_per_file=150)
    ds.delete(f"id IN ({', '.join(map(str, DELETED))})")
    assert len(ds.get_fragments()) == 7
    return ds


def ids_of(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [n for batch in batches for n in batch["id"].to_pylist()]


# -- sharding ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("world_size", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("randomize", [False, True])
@pytest.mark.parametrize("filter", [None, "id % 3 != 0"])
@pytest.mark.parametrize("kind", [ShardedBatchSampler, ShardedFragmentSampler])
def test_processes_and_workers_share_the_rows(
    table: lancecy.Dataset, kind: Any, filter: str | None, randomize: bool, world_size: int
) -> None:
    found: list[int] = []
    for rank in range(world_size):
        sampler = kind(rank, world_size, randomize=randomize)
        for worker in range(2):
            batches = sampler.divided(worker, 2)(table, batch_size=64, columns=["id"], filter=filter)
            found += ids_of(batches)
    assert sorted(found) == [n for n in ALIVE if filter is None or n % 3]


def test_batches_of_a_process_are_every_nth(table: lancecy.Dataset) -> None:
    batches = list(ShardedBatchSampler(1, 3)(table, batch_size=100, columns=["id"]))
    assert [batch.num_rows for batch in batches] == [100, 100, 100]
    assert ids_of(iter(batches)) == [*ALIVE[100:200], *ALIVE[400:500], *ALIVE[700:800]]


def test_fragment_samplers_fill_batches_across_fragments(table: lancecy.Dataset) -> None:
    sizes = [batch.num_rows for batch in FullScanSampler()(table, batch_size=64)]
    assert sizes == [64] * 15 + [39]


def test_row_ids_and_computed_columns_are_read(table: lancecy.Dataset) -> None:
    for sampler in (ShardedBatchSampler(0, 1), FullScanSampler()):
        (batch,) = sampler(
            table, batch_size=1000, columns={"twice": "id * 2"}, filter="id = 20", with_row_id=True
        )
        assert batch.to_pydict() == {"twice": [40], "_rowid": [20]}


def test_a_sampler_of_ones_own_is_divided(table: lancecy.Dataset) -> None:
    class Backwards(FragmentSampler):
        def iter_fragments(self, dataset: lancecy.Dataset, *args: Any, **kwargs: Any) -> Any:
            return reversed(dataset.get_fragments())

    class Pairs(Sampler):
        def __call__(self, dataset: lancecy.Dataset, *args: Any, **options: Any) -> Any:
            for start in (0, 2, 4):
                yield dataset.take([start, start + 1], columns=options["columns"]).to_batches()[0]

    assert ids_of(Backwards()(table, columns=["id"]))[:2] == [900, 901]
    halves = [ids_of(Backwards().divided(worker, 2)(table, columns=["id"])) for worker in range(2)]
    assert sorted(halves[0] + halves[1]) == ALIVE
    assert [ids_of(Pairs().divided(worker, 2)(table, columns=["id"])) for worker in range(2)] == [
        [0, 1, 4, 5],
        [2, 3],
    ]


def test_a_default_limit_is_that_of_the_whole_table(table: lancecy.Dataset) -> None:
    limited = lancecy.dataset(table.uri, default_scan_options={"offset": 100, "limit": 200})
    assert ids_of(FullScanSampler()(limited, columns=["id"])) == ALIVE[100:300]
    assert ids_of(ShardedBatchSampler(0, 1)(limited, columns=["id"])) == ALIVE[100:300]
    for sampler in (ShardedFragmentSampler(0, 2), FullScanSampler().divided(0, 2)):
        with pytest.raises(
            ValueError, match="do not see each other's rows, so limit and offset .*share batches"
        ):
            list(sampler(limited))


@pytest.mark.parametrize("rank", [-1, 2])
def test_a_rank_outside_of_the_world_is_refused(rank: int) -> None:
    with pytest.raises(ValueError, match=f"rank {rank} is not one of world_size=2"):
        ShardedBatchSampler(rank, 2)
    with pytest.raises(ValueError, match="rank"):
        FullScanSampler().divided(rank, 2)


@pytest.mark.parametrize("kind", [ShardedBatchSampler, ShardedFragmentSampler])
def test_negative_seeds_and_epochs_are_refused_before_a_batch_is_read(kind: Any) -> None:
    with pytest.raises(ValueError, match="seed must not be negative, got -1"):
        kind(0, 1, randomize=True, seed=-1)
    with pytest.raises(ValueError, match="epoch must not be negative, got -2"):
        kind(0, 1, randomize=True).set_epoch(-2)


def test_batch_size_must_be_positive(table: lancecy.Dataset) -> None:
    for sampler in (ShardedBatchSampler(0, 1), FullScanSampler()):
        with pytest.raises(ValueError, match="batch_size"):
            list(sampler(table, batch_size=0))


# -- random order ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [ShardedBatchSampler, ShardedFragmentSampler])
def test_order_depends_on_seed_and_epoch_alone(table: lancecy.Dataset, kind: Any) -> None:
    def order(seed: int, epoch: int) -> list[int]:
        sampler = kind(0, 1, randomize=True, seed=seed)
        sampler.set_epoch(epoch)
        return ids_of(sampler(table, batch_size=50, columns=["id"]))

    assert order(1, 0) == order(1, 0)
    orders = [order(1, 0), order(1, 1), order(2, 0)]
    assert all(sorted(found) == ALIVE for found in orders)
    assert len({tuple(found) for found in [*orders, ALIVE]}) == 4


# -- what is read ------------------------------------------------------------------------------------------


@pytest.fixture
def counted(tmp_path: Path) -> CountingStore:
    """A store with a table: 4 fragments, 16,000 rows of 512 bytes and a number."""
    inner = MemoryStore(traits=StoreTraits(create_is_atomic=True, concurrency=16))
    store = CountingStore(inner, uri=f"sampled://here/{tmp_path.name}")
    register_store("sampled", lambda uri, options, **_: store)
    numbers = np.random.default_rng(0).random(16_000 * 128).astype(np.float32)
    rows = pa.table(
        {"vec": pa.FixedSizeListArray.from_arrays(pa.array(numbers), 128), "id": np.arange(16_000)}
    )
    lancecy.write_dataset(rows, store.uri, max_rows_per_file=4000)
    store.clear()
    return store


@pytest.mark.parametrize(
    "sampler",
    [ShardedFragmentSampler(1, 4), ShardedBatchSampler(1, 4), ShardedBatchSampler(1, 4, randomize=True)],
)
def test_a_process_reads_its_own_rows_only(counted: CountingStore, sampler: Sampler) -> None:
    ds = lancecy.dataset(counted.uri, session=lancecy.Session(threads=2))
    batches = list(sampler(ds, batch_size=500, columns=["vec"]))
    assert sum(batch.num_rows for batch in batches) == 4000
    assert counted.nbytes < 4000 * 512 + _METADATA
    assert len({r.path for r in counted.requests if r.path.startswith("data/")}) <= 4


def test_a_filtered_process_reads_other_columns_for_its_own_rows_only(counted: CountingStore) -> None:
    ds = lancecy.dataset(counted.uri, session=lancecy.Session(threads=2))
    batches = ShardedBatchSampler(3, 4)(ds, batch_size=500, columns=["vec"], filter="id < 8000")
    assert sum(batch.num_rows for batch in batches) == 2000
    assert counted.nbytes < 2000 * 512 + 16_000 * 8 + _METADATA


# -- samples -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_takes", [1, 7, 2048])
@pytest.mark.parametrize("filter", [None, "id % 3 = 0"])
@pytest.mark.parametrize("n", [0, 1, 10, 332, 999, 5000])
def test_a_sample_has_distinct_rows(
    table: lancecy.Dataset, n: int, filter: str | None, max_takes: int
) -> None:
    possible = [m for m in ALIVE if filter is None or m % 3 == 0]
    batches = list(maybe_sample(table, n, "id", batch_size=64, max_takes=max_takes, filt=filter))
    found = ids_of(iter(batches))
    assert len(found) == min(n, len(possible))
    assert found == sorted(set(found))
    assert set(found) <= set(possible)
    assert all(batch.num_rows == 64 for batch in batches[:-1])


def test_a_sample_is_repeatable_and_from_everywhere(table: lancecy.Dataset) -> None:
    def sample(seed: int, **options: Any) -> list[int]:
        return ids_of(maybe_sample(table.uri, 60, ["id"], seed=seed, **options))

    assert sample(1) == sample(1) != sample(2)
    runs = sample(1, max_takes=6)
    assert sum(np.diff(runs) > 2) == 5
    assert [n * 6 // ROWS for n in runs[::10]] == [0, 1, 2, 3, 4, 5]


def test_wrong_samples_are_refused(table: lancecy.Dataset) -> None:
    with pytest.raises(ValueError, match="n=-1"):
        maybe_sample(table, -1, ["id"])
    with pytest.raises(ValueError, match="max_takes=0"):
        maybe_sample(table, 1, ["id"], max_takes=0)


def test_a_reservoir_keeps_each_item_with_the_same_probability() -> None:
    counts = np.zeros(20)
    for seed in range(2000):
        chosen = reservoir_sampling(iter(range(20)), 5, seed=seed)
        assert len(set(chosen)) == 5
        counts[chosen] += 1
    assert abs(counts - 500).max() < 100
    assert reservoir_sampling([1, 2], 5) == [1, 2]
    with pytest.raises(ValueError, match="negative"):
        reservoir_sampling([1], -1)


# -- row numbers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "world_size"), [(0, 2), (5, 4), (10, 3), (1000, 4)])
def test_fixed_batches_cover_all_rows(rows: int, world_size: int) -> None:
    samplers = [
        ShardedFixedBatchSampler(rank, world_size, randomize=True, batch_size=3, total_num_rows=rows)
        for rank in range(world_size)
    ]
    found = [list(sampler) for sampler in samplers]
    assert [len(batches) for batches in found] == [len(sampler) for sampler in samplers]
    assert sorted(n for batches in found for batch in batches for n in batch) == list(range(rows))
    with pytest.raises(ValueError, match="batch_size=0"):
        ShardedFixedBatchSampler(0, 1)


@pytest.mark.slow
def test_samplers_do_not_need_pytorch(table: lancecy.Dataset, tmp_path: Path) -> None:
    script = f"""
import sys
sys.modules["torch"] = None
import lancecy.sampler
print(sum(b.num_rows for b in lancecy.sampler.FullScanSampler()(lancecy.dataset({table.uri!r}))))
try:
    lancecy.sampler.ShardedBatchSampler.from_torch()
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["999", "from_torch needs PyTorch: pip install 'lancecy[torch]'"]
