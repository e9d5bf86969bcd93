"""Datasets and loaders: what they yield, and that processes and workers share the rows."""

from __future__ import annotations

import functools
import multiprocessing
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
import lancecy.torch
from lancecy.errors import ColumnNotFoundError, UnsupportedError, WorkerError
from lancecy.sampler import FullScanSampler, ShardedBatchSampler, ShardedFixedBatchSampler

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

# PyTorch takes a second to import, and its loggers slow every test after it: functions import it.
ROWS = 1003

# torch.multiprocessing forks a process that has threads.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three fragments; neither batches nor workers divide the rows."""
    ids = np.arange(ROWS)
    vectors = np.repeat(ids, 8).astype(np.float32)
    rows = pa.table(
        {
            "id": ids,
            "vec": pa.FixedSizeListArray.from_arrays(pa.array(vectors), 8),
            "s": [f"row {n}" for n in range(ROWS)],
        }
    )
    place = str(tmp_path_factory.mktemp("torch") / "t.lance")
    lancecy.write_dataset(rows, place, max_rows_per_file=400)
    return place


def ids_of(loader: Any) -> list[int]:
    return [n for batch in loader for n in (batch["id"] if isinstance(batch, dict) else batch).tolist()]


def forked(dataset: lancecy.torch.LanceDataset, **options: Any) -> DataLoader[Any]:
    from torch.utils.data import DataLoader

    return DataLoader(dataset, batch_size=None, num_workers=2, multiprocessing_context="fork", **options)


# -- batches -----------------------------------------------------------------------------------------------


def test_batches_are_tensors_by_column(place: str) -> None:
    import torch

    batches = list(lancecy.torch.LanceDataset(place, 300))
    assert [len(batch["id"]) for batch in batches] == [300, 300, 300, 103]
    second = batches[1]
    assert second["vec"].shape == (300, 8)
    assert torch.equal(second["vec"][:, 0].long(), second["id"])
    assert second["s"][:2] == ["row 300", "row 301"]


def test_one_column_is_a_tensor(place: str) -> None:
    (batch,) = lancecy.torch.LanceDataset(lancecy.dataset(place), 10, columns=["vec"], filter="id IN (3, 5)")
    assert batch[:, 0].tolist() == [3, 5]


def test_options_of_the_scan_and_of_the_table(place: str) -> None:
    from lancecy.torch.data import LanceDataset as SameLanceDataset

    ds = lancecy.torch.LanceDataset(
        place, 10, dataset_options={"version": 1}, columns={"y": "id + 1"}, with_row_id=True
    )
    assert ds.schema.names == ["y", "_rowid"]
    assert next(iter(ds))["y"].tolist() == list(range(1, 11))
    assert repr(ds) == f"LanceDataset(uri={ds.dataset.uri!r}, version=1, batch_size=10)"
    assert SameLanceDataset is lancecy.torch.LanceDataset


def test_batches_made_by_a_function_of_ones_own(place: str) -> None:
    assert next(iter(lancecy.torch.LanceDataset(place, 10, to_tensor_fn=lambda batch: batch.num_rows))) == 10
    assert isinstance(next(iter(lancecy.torch.LanceDataset(place, 10, to_tensor_fn=None))), pa.RecordBatch)


@pytest.mark.interop
@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable:UserWarning")
def test_batches_are_those_of_pylance(place: str) -> None:
    import torch
    from lance.torch.data import LanceDataset as Other

    options: dict[str, Any] = {"columns": ["id", "vec"], "filter": "id % 2 = 0"}
    for ours, theirs in zip(
        lancecy.torch.LanceDataset(place, 10_000, **options), Other(place, 10_000, **options), strict=True
    ):
        for name, values in theirs.items():
            assert torch.equal(ours[name], values)
            assert ours[name].dtype == values.dtype


def test_wrong_arguments_are_refused(place: str) -> None:
    sampler = FullScanSampler()
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"rank": 0}, ValueError, "rank and world_size go together"),
        ({"rank": 2, "world_size": 2}, ValueError, "rank 2"),
        ({"shard_granularity": "row"}, ValueError, "shard_granularity is 'row'"),
        ({"samples": -1}, ValueError, "samples"),
        ({"sampler": sampler, "samples": 3}, ValueError, "without samples"),
        ({"sampler": sampler, "rank": 0, "world_size": 1}, ValueError, "without rank"),
        ({"sampler": print}, TypeError, "builtin_function_or_method"),
        ({"columns": ["idd"]}, ColumnNotFoundError, "did you mean 'id'"),
    ]
    for options, kind, message in wrong:
        with pytest.raises(kind, match=message):
            lancecy.torch.LanceDataset(place, 10, **options)
    with pytest.raises(ValueError, match="batch_size"):
        lancecy.torch.LanceDataset(place, 0)
    with pytest.raises(ValueError, match="negative"):
        lancecy.torch.LanceDataset(place, 10).set_epoch(-1)


def test_blobs_are_files_for_a_function_of_ones_own(tmp_path: Path) -> None:
    field = pa.field("image", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    rows = pa.table([[1, 2], [b"abc", None]], schema=pa.schema([pa.field("id", pa.int64()), field]))
    place = str(tmp_path / "t.lance")
    lancecy.write_dataset(rows, place)
    with pytest.raises(UnsupportedError, match="column 'image' holds blobs"):
        lancecy.torch.LanceDataset(place, 10)

    def read(batch: Any) -> Any:
        return batch["id"].to_pylist(), [file and file.read() for file in batch["image"]]

    assert list(lancecy.torch.LanceDataset(place, 10, to_tensor_fn=read)) == [([1, 2], [b"abc", None])]
    assert ids_of(lancecy.torch.LanceDataset(place, 10, columns=["id"])) == [1, 2]


@pytest.mark.parametrize("shared", [{}, {"shard_granularity": "batch"}])
def test_blobs_among_the_default_columns_of_a_table(tmp_path: Path, shared: Any) -> None:
    field = pa.field("image", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    rows = pa.table([[1, 2], [b"abc", None]], schema=pa.schema([pa.field("id", pa.int64()), field]))
    place = lancecy.write_dataset(rows, tmp_path / "t.lance").uri
    image = [b"abc", None]
    cases: list[tuple[Any, dict[str, Any]]] = [
        (["id"], {"id": [1, 2]}),
        ({"twice": "id * 2"}, {"twice": [2, 4]}),
        ({"twice": "id * 2", "image": "image"}, {"twice": [2, 4], "image": image}),
        (["image"], {"image": image}),
    ]

    def read(batch: Any) -> dict[str, Any]:
        names = batch if isinstance(batch, dict) else batch.schema.names
        files = {"image": [file and file.read() for file in batch["image"]]} if "image" in names else {}
        return {
            **{name: batch[name].to_pylist() for name in names if name not in ("image", "_rowid")},
            **files,
        }

    for columns, wanted in cases:
        defaults = {"columns": columns, "blob_handling": "all_binary"}
        source = lancecy.dataset(place, default_scan_options=defaults)
        assert list(lancecy.torch.LanceDataset(source, 10, to_tensor_fn=read, **shared)) == [wanted]
        if "image" not in columns:
            assert len(list(lancecy.torch.LanceDataset(source, 10, **shared))) == 1


# -- sharing -----------------------------------------------------------------------------------------------

SHARED: dict[str, dict[str, Any]] = {
    "plain": {},
    "fragments": {"shard_granularity": "fragment"},
    "batches": {"shard_granularity": "batch"},
    "filter": {"filter": "id % 3 = 0"},
    "filtered batches": {"filter": "id % 3 = 0", "shard_granularity": "batch"},
    "cache": {"cache": True},
    "sampler": {"sampler": ShardedBatchSampler(0, 1, randomize=True)},
    "scan": {"sampler": FullScanSampler()},
}


@pytest.mark.parametrize(
    "name",
    [
        "filtered batches",
        *(pytest.param(n, marks=pytest.mark.slow) for n in SHARED if n != "filtered batches"),
    ],
)
def test_forked_workers_share_the_rows(place: str, name: str) -> None:
    options = SHARED[name]
    found = ids_of(forked(lancecy.torch.LanceDataset(place, 64, columns=["id", "vec"], **options)))
    assert sorted(found) == list(range(0, ROWS, 3 if "filter" in options else 1))


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_a_default_limit_is_that_of_all_readers(place: str, world_size: int) -> None:
    source = lancecy.dataset(place, default_scan_options={"offset": 390, "limit": 15})
    options: dict[str, Any] = {"columns": ["id"], "world_size": world_size}
    readers = [lancecy.torch.LanceDataset(source, 4, rank=rank, **options) for rank in range(world_size)]
    assert sorted(n for reader in readers for n in ids_of(reader)) == [*range(390, 405)]
    if world_size > 1:
        by_fragment = lancecy.torch.LanceDataset(source, 4, rank=0, shard_granularity="fragment", **options)
        with pytest.raises(ValueError, match="share batches"):
            ids_of(by_fragment)


@pytest.mark.slow
def test_processes_with_workers_share_the_rows(place: str) -> None:
    # More readers than fragments: batches are shared.
    parts = [
        ids_of(forked(lancecy.torch.LanceDataset(place, 64, columns=["id"], rank=r, world_size=2)))
        for r in range(2)
    ]
    assert sorted(parts[0] + parts[1]) == list(range(ROWS))
    assert min(map(len, parts)) > 400


def test_workers_share_a_sample(place: str) -> None:
    found = ids_of(forked(lancecy.torch.LanceDataset(place, 64, columns=["id"], samples=333)))
    assert len(found) == len(set(found)) == 333
    assert len(ids_of(lancecy.torch.LanceDataset(place, 64, columns=["id"], samples=5000))) == ROWS


@pytest.mark.slow
def test_workers_share_nothing_if_told_so(place: str) -> None:
    found = ids_of(forked(lancecy.torch.LanceDataset(place, 64, columns=["id"], auto_detect_rank=False)))
    assert sorted(found) == sorted([*range(ROWS), *range(ROWS)])


def _part(place: str, meeting: str, rank: int) -> tuple[tuple[int, int], list[int], list[int]]:
    """What one process of ``torch.distributed`` reads, in table order and shuffled."""
    import torch

    from lancecy.torch import dist

    torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    sampler = ShardedBatchSampler.from_torch(randomize=True, seed=3)
    plain = ids_of(lancecy.torch.LanceDataset(place, 100, columns=["id"]))
    shuffled = ids_of(lancecy.torch.LanceDataset(place, 100, columns=["id"], sampler=sampler))
    return (dist.get_global_rank(), dist.get_global_world_size()), plain, shuffled


@pytest.mark.slow
def test_processes_of_torch_distributed_share_the_rows(place: str, tmp_path: Path) -> None:
    with ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as pool:
        parts = [pool.submit(_part, place, str(tmp_path / "meeting"), rank) for rank in range(2)]
        ranks, plain, shuffled = zip(*(part.result(timeout=200) for part in parts), strict=True)
    assert ranks == ((0, 2), (1, 2))
    assert sorted(plain[0] + plain[1]) == list(range(ROWS))
    assert sorted(shuffled[0] + shuffled[1]) == list(range(ROWS))
    assert shuffled[0] != sorted(shuffled[0])


def _spawned_part(place: str, meeting: str, rank: int) -> list[list[int]]:
    """What the spawned workers of one process of ``torch.distributed`` read, without and with a filter."""
    import torch

    torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    found = []
    for condition in (None, "id % 3 = 0"):
        ds = lancecy.torch.LanceDataset(place, 100, columns=["id"], filter=condition)
        found.append(ids_of(lancecy.torch.get_safe_loader(ds, batch_size=None, num_workers=2)))
    return found


@pytest.mark.slow
def test_spawned_workers_share_the_rows_of_their_process_in_torch_distributed(
    place: str, tmp_path: Path
) -> None:
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        parts = [pool.submit(_spawned_part, place, str(tmp_path / "meeting"), rank) for rank in range(2)]
        first, second = (part.result(timeout=200) for part in parts)
    assert sorted(first[0] + second[0]) == list(range(ROWS))
    assert sorted(first[1] + second[1]) == list(range(0, ROWS, 3))


def test_alone_it_is_the_only_process() -> None:
    from lancecy.torch import dist

    assert (dist.get_global_rank(), dist.get_global_world_size()) == (0, 1)


@pytest.mark.slow
def test_spawned_workers_share_the_rows_and_live_for_all_epochs(place: str) -> None:
    sampler = ShardedBatchSampler(0, 1, randomize=True, seed=1)
    ds = lancecy.torch.LanceDataset(place, 64, columns=["id"], sampler=sampler)
    loader = lancecy.torch.get_safe_loader(ds, batch_size=None, num_workers=2)
    epochs = []
    for epoch in (0, 1, 0):
        ds.set_epoch(epoch)
        epochs.append(ids_of(loader))
    assert all(sorted(found) == list(range(ROWS)) for found in epochs)
    assert epochs[0] == epochs[2] != epochs[1]


@pytest.mark.slow
def test_forked_workers_are_not_stopped_by_threads_of_their_parent(place: str) -> None:
    ds = lancecy.torch.LanceDataset(place, 16, columns=["id", "s"])
    done = threading.Event()

    def scan() -> None:
        while not done.is_set():
            ds.dataset.to_table()

    scanning = threading.Thread(target=scan)
    scanning.start()
    try:
        for _ in range(3):
            assert sorted(ids_of(forked(ds))) == list(range(ROWS))
    finally:
        done.set()
        scanning.join()


@pytest.mark.slow
def test_workers_read_the_version_that_was_opened(place: str, tmp_path: Path) -> None:
    moving = str(tmp_path / "t.lance")
    table = lancecy.write_dataset({"id": [1, 2]}, moving)
    ds = lancecy.torch.LanceDataset(moving, 10)
    table.append({"id": [3]})
    assert ids_of(forked(ds)) == [1, 2]
    assert ids_of(pickle.loads(pickle.dumps(ds))) == [1, 2]


@pytest.mark.slow
def test_errors_of_workers_name_the_column(tmp_path: Path) -> None:
    place = str(tmp_path / "t.lance")
    lancecy.write_dataset({"n": [1, None]}, place)
    with pytest.raises(WorkerError, match=r"SchemaError: column 'n' has nulls.*coalesce\(n, 0\)") as caught:
        list(forked(lancecy.torch.LanceDataset(place, 10)))
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


# -- cache -------------------------------------------------------------------------------------------------


def test_later_epochs_are_read_from_the_cache(tmp_path: Path) -> None:
    place = tmp_path / "t.lance"
    lancecy.write_dataset({"id": list(range(100))}, str(place))
    ds = lancecy.torch.LanceDataset(str(place), 30, cache=tmp_path)
    assert len(next(iter(ds))) == 30  # an epoch that is not finished is not kept
    assert ids_of(ds) == list(range(100))
    place.rename(tmp_path / "gone")
    first = iter(ds)
    next(first)
    assert ids_of(ds) == list(range(100))
    assert len(ids_of(first)) == 70
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gone"]


def test_an_empty_epoch_is_kept_too(place: str) -> None:
    ds = lancecy.torch.LanceDataset(place, 30, columns=["id"], filter="id < 0", cache=True)
    assert [ids_of(ds), ids_of(ds)] == [[], []]


# -- credentials -------------------------------------------------------------------------------------------


def test_secrets_stay_here_unless_told_otherwise(place: str) -> None:
    options: dict[str, Any] = {"dataset_options": {"storage_options": {"secret": "hunter2-hunter2"}}}
    for make in (
        functools.partial(lancecy.torch.LanceDataset, place, 10),
        functools.partial(lancecy.torch.SafeLanceDataset, place),
    ):
        assert b"hunter2" not in pickle.dumps(make(**options))
        assert b"hunter2" in pickle.dumps(make(**options, embed_credentials=True))


# -- rows by number ----------------------------------------------------------------------------------------


def test_rows_by_number(place: str) -> None:
    rows = lancecy.torch.SafeLanceDataset(place)
    assert len(rows) == ROWS
    assert rows[5] == {"id": 5, "vec": [5.0] * 8, "s": "row 5"}
    assert [row["id"] for row in rows.__getitems__([7, 1, 7])] == [7, 1, 7]
    assert lancecy.torch.SafeLanceDataset(lancecy.dataset(place), columns=["id"])[5] == {"id": 5}
    with pytest.raises(IndexError):
        rows[ROWS]
    with pytest.raises(ColumnNotFoundError, match="idd"):
        lancecy.torch.SafeLanceDataset(place, columns=["idd"])


@pytest.mark.slow
def test_rows_by_number_in_a_loader(place: str) -> None:
    from torch.utils.data import DataLoader

    rows = lancecy.torch.SafeLanceDataset(place)
    loader = lancecy.torch.get_safe_loader(
        rows, batch_size=100, num_workers=2, shuffle=True, multiprocessing_context="fork"
    )
    assert loader.persistent_workers
    assert sorted(ids_of(loader)) == list(range(ROWS))
    batches = ShardedFixedBatchSampler(1, 2, batch_size=200, total_num_rows=ROWS)
    here = DataLoader(rows, batch_sampler=batches)
    assert ids_of(here) == list(range(502, ROWS))
    assert ids_of(lancecy.torch.get_safe_loader(rows, num_workers=0)) == list(range(ROWS))


@pytest.mark.slow
def test_without_pytorch_the_error_says_what_to_install() -> None:
    script = """
import sys
sys.modules["torch"] = None
import lancecy
try:
    lancecy.torch.LanceDataset
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("lancecy.torch needs PyTorch")
    assert done.stdout.strip().endswith("pip install 'lancecy[torch]'")
