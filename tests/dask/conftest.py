"""Schedulers for the Dask tests, started once."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import dask
import pytest
from distributed import Client, LocalCluster

from lancecy.dask import reader
from lancecy.scanning import run_task as tasks


def _client(processes: bool) -> Iterator[Client]:
    # P2P announces every shuffle as a warning; failures reach the tests as exceptions.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    host = "127.0.0.1" if processes else None
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", "host": host}
    # On a busy machine workers take longer than Dask waits for them, to start and to end.
    with dask.config.set({"distributed.comm.timeouts.connect": "120s"}):
        cluster = LocalCluster(processes=processes, silence_logs=logging.CRITICAL, **options)
        client = Client(cluster, set_as_default=False, timeout="120s")
    yield client
    with suppress(TimeoutError):
        client.close(timeout="120s")
    with suppress(TimeoutError):
        cluster.close(timeout=120)


@pytest.fixture(scope="session")
def process_client() -> Iterator[Client]:
    """A cluster whose workers are other processes."""
    yield from _client(processes=True)


@pytest.fixture(scope="session")
def thread_client() -> Iterator[Client]:
    """A cluster whose workers are threads of this process."""
    yield from _client(processes=False)


@pytest.fixture(params=["threads", pytest.param("processes", marks=pytest.mark.slow)])
def client(request: pytest.FixtureRequest) -> Client:
    """Either cluster."""
    name = "process_client" if request.param == "processes" else "thread_client"
    found: Client = request.getfixturevalue(name)
    return found


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, tuple[str, ...]]]:
    """(number of rows, columns) that every read of a partition in this process gave."""
    seen: list[tuple[int, tuple[str, ...]]] = []
    real = tasks.read_rows

    def read_rows(spec: Any, units: Any, columns: Any, limit: Any = None) -> Any:
        table, picked = real(spec, units, columns, limit)
        seen.append((table.num_rows, tuple(columns)))
        return table, picked

    monkeypatch.setattr(reader, "read_rows", read_rows)
    return seen
