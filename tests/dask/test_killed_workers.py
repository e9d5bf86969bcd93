"""Workers of Dask that are killed in the middle of a change: it ends right, or fails and leaves the table as it was."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import pandas as pd
import pyarrow as pa
import pytest
from distributed import Client, KilledWorker, LocalCluster, WorkerPlugin

import lancecy
import lancecy.dask
from tests.helpers.folded import folded
from tests.helpers.waiting import wait_until_it_stays

pytestmark = pytest.mark.slow

Change = Callable[[lancecy.Dataset, dict[str, Any]], object]
CHANGED = pd.DataFrame({"a": range(16, 48), "s": [f"new{n}" for n in range(32)]})
CHANGES: dict[str, Change] = {
    "merge": lambda ds, how: lancecy.dask.merge_insert(
        dd.from_pandas(CHANGED, npartitions=2), ds, "a", **how
    ),
    "columns": lambda ds, how: lancecy.dask.add_columns(ds, _doubled, ["a"], **how),
    "compact": lambda ds, how: lancecy.dask.compact(ds, target_rows_per_fragment=16, **how),
    "index": lambda ds, how: lancecy.dask.create_scalar_index(ds, "a", "BTREE", num_parts=4, **how),
    "copy": lambda ds, how: lancecy.dask.copy_files(ds, base="fast", **how),
}
"""Kinds of tasks; those of an update write as appends do. A merge writes its files in tasks of Dask's own graph."""


def _doubled(batch: pa.RecordBatch) -> dict[str, Any]:
    return {"b": pa.compute.multiply(batch.column("a"), 2)}


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    options = {"n_workers": 3, "threads_per_worker": 1, "dashboard_address": ":0", "host": "127.0.0.1"}
    with (
        LocalCluster(processes=True, silence_logs=logging.CRITICAL, **options) as cluster,
        Client(cluster, set_as_default=False, timeout="120s") as client,
    ):
        yield client


def table(place: Path) -> lancecy.Dataset:
    base = place.with_name(f"{place.name}-fast")
    base.mkdir()
    rows = {"a": list(range(32)), "s": [f"s{n}" for n in range(32)]}
    bases = [lancecy.DatasetBasePath(str(base), name="fast")]
    return lancecy.write_dataset(rows, place, max_rows_per_file=4, initial_bases=bases)


def rows_of(ds: lancecy.Dataset) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = lancecy.dataset(ds.uri).to_table().sort_by("a").to_pylist()
    return found


def files(place: Path) -> list[str]:
    return sorted(str(path) for path in place.rglob("*") if path.is_file())


class Killing(WorkerPlugin):
    """From now on a worker dies when it has done a task or written the file of a merge, unless one has died already."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def setup(self, worker: object) -> None:
        from lancecy.dask import tasks
        from lancecy.write import fragments

        for module, name in ((tasks, "_run"), (fragments, "_finished")):
            setattr(module, name, self.dying(getattr(module, name)))

    def dying(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            made = real(*arguments)
            try:
                self.marker.mkdir()
            except (FileExistsError, FileNotFoundError):
                return made  # one has died, or the test is over and its folder gone
            return os.kill(os.getpid(), signal.SIGKILL)

        return run


@folded("kind", list(CHANGES))
def test_change_is_made_once_although_a_worker_is_killed(kind: str, tmp_path: Path, client: Client) -> None:
    alone, shared = table(tmp_path / f"{kind}-alone"), table(tmp_path / kind)
    how = {"compute_kwargs": {"scheduler": client, "retries": 2}}
    CHANGES[kind](alone, {"compute_kwargs": {"scheduler": "sync"}})
    killed = tmp_path / f"{kind}-killed"
    client.register_plugin(Killing(killed), name=kind)
    CHANGES[kind](shared, how)
    assert killed.exists()
    assert lancecy.dataset(shared.uri).version == alone.version == 2
    assert rows_of(shared) == rows_of(alone)
    assert lancecy.dataset(shared.uri).count_rows("a >= 10 AND a < 20") == 10
    assert not [name for name in files(tmp_path / kind) if "_write_" in name], "no marker is left"


@folded("kind", ["compact", "index"])
def test_change_that_kills_its_workers_leaves_the_table_as_it_was(
    kind: str, tmp_path: Path, client: Client
) -> None:
    ds = table(tmp_path / kind)
    before, rows = files(tmp_path / kind), rows_of(ds)
    cluster: Any = client.cluster
    scheduler = cluster.scheduler
    allowed, scheduler.allowed_failures = scheduler.allowed_failures, 0
    try:
        client.register_plugin(Killing(tmp_path / f"{kind}-killed"), name=kind)
        with pytest.raises(KilledWorker) as raised:
            CHANGES[kind](ds, {"compute_kwargs": {"scheduler": client}})
    finally:
        scheduler.allowed_failures = allowed
    assert "othing was committed" in str(raised.value.__notes__)
    # The other workers find that the change was given up, and remove what they made.
    wait_until_it_stays(lambda: files(tmp_path / kind) == before)
    assert files(tmp_path / kind) == before
    assert (lancecy.dataset(ds.uri).version, rows_of(ds)) == (1, rows)
