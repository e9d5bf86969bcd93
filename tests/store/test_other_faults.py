"""Google Cloud Storage and Azure Blob behind a proxy that breaks requests: scans, commits, time-outs, options."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import CommitUnknownError, StoreError
from lancecy.store.fsspec import FsspecStore
from lancecy.store.retries import RetryPolicy
from tests.helpers.object_stores import ACCOUNT, ACCOUNT_KEY, AzureServer, GcsServer
from tests.helpers.proxy import FaultProxy, WireFault, start_proxy

pytestmark = pytest.mark.s3

FAULTS = {
    "too many requests": WireFault("status", 429, "TooManyRequests"),
    "server busy": WireFault("status", 503, "ServerBusy"),
    "internal error": WireFault("status", 500, "InternalError"),
    "no answer": WireFault("stall"),
    "cut before the answer": WireFault("cut"),
    "cut in the body": WireFault("cut_body"),
    "error after the request was carried out": WireFault("status", 500, "InternalError", applied=True),
    "answer lost": WireFault("cut", applied=True),
}
OF_SCANS = list(FAULTS)[:6]
ROWS = 400


class Broken:
    """A service behind a proxy, and a table of 4 fragments there."""

    def __init__(self, proxy: FaultProxy, server: GcsServer | AzureServer) -> None:
        self.proxy = proxy
        self.uri = f"{server.make_bucket('faulty')}/{uuid.uuid4().hex}"
        self.options: dict[str, Any] = server.storage_options
        self.write(0, ROWS, max_rows_per_file=ROWS // 4)

    def prepare(self, name: str) -> None:
        """A client that meets silence loses patience after half a second."""
        if FAULTS[name].what == "stall":
            self.options["request_timeout"] = "500ms"

    def write(self, start: int, stop: int, **more: Any) -> None:
        more = {"storage_options": self.options, "session": lancecy.Session(threads=2), **more}
        lancecy.write_dataset(pa.table({"id": np.arange(start, stop)}), self.uri, **more)

    def append(self, number: int) -> None:
        self.write(number, number + 1, mode="append")

    def open(self) -> lancecy.Dataset:
        return lancecy.dataset(self.uri, storage_options=self.options, session=lancecy.Session(threads=2))

    def scanned(self) -> list[int]:
        found: list[int] = self.open().to_table()["id"].to_pylist()
        return sorted(found)

    def counted(self, work: Callable[[], object]) -> int:
        self.proxy.reset()
        work()
        return len(self.proxy.seen)


@pytest.fixture(scope="module")
def gcs_proxy(gcs_server: GcsServer) -> Iterator[FaultProxy]:
    with start_proxy(gcs_server.endpoint) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def azure_proxy(azure_server: AzureServer) -> Iterator[FaultProxy]:
    with start_proxy(azure_server.endpoint) as proxy:
        yield proxy


@pytest.fixture(params=["gs", "az"])
def broken(request: pytest.FixtureRequest) -> Iterator[Broken]:
    if request.param == "gs":
        proxy: FaultProxy = request.getfixturevalue("gcs_proxy")
        yield Broken(proxy, GcsServer(proxy.endpoint))
    else:
        proxy = request.getfixturevalue("azure_proxy")
        yield Broken(proxy, AzureServer(proxy.endpoint))
    proxy.reset()


@pytest.mark.parametrize("name", OF_SCANS)
def test_a_scan_survives_a_fault_of_any_request(name: str, broken: Broken) -> None:
    requests = broken.counted(broken.scanned)
    broken.prepare(name)
    for nth in (1, requests // 2, requests):
        broken.proxy.reset()
        plan = broken.proxy.fail(FAULTS[name], nth)
        assert broken.scanned() == list(range(ROWS))
        assert plan.met == 1


@pytest.mark.parametrize("name", FAULTS)
def test_a_commit_survives_a_fault_of_any_request_and_is_made_once(name: str, broken: Broken) -> None:
    requests = broken.counted(lambda: broken.append(ROWS))
    broken.prepare(name)
    # The last places are the create of the manifest and what is around it.
    for count, nth in enumerate((1, requests // 2, requests - 1, requests), 1):
        broken.proxy.reset()
        plan = broken.proxy.fail(FAULTS[name], nth)
        broken.append(ROWS + count)
        assert plan.met == 1
    broken.proxy.reset()
    plan = broken.proxy.fail(FAULTS[name], kind="create")
    broken.append(ROWS + 5)
    assert plan.met == 1
    broken.proxy.reset()
    assert broken.scanned() == list(range(ROWS + 6))
    assert broken.open().version == 7


@pytest.mark.parametrize("name", ["server busy", "no answer", "cut before the answer"])
def test_a_fault_that_lasts_is_an_error_with_store_path_and_tries(name: str, broken: Broken) -> None:
    broken.options["client_max_retries"] = 1
    broken.scanned()  # the first requests of a client are more
    requests = broken.counted(broken.scanned)
    broken.prepare(name)
    for nth in (1, requests // 2, requests):
        broken.proxy.reset()
        broken.proxy.fail(FAULTS[name], nth, times=None)
        with pytest.raises(StoreError, match=r"\(2 tries\)") as caught:
            broken.scanned()
        assert caught.value.store == broken.uri
        assert caught.value.path.startswith(("_versions", "data/"))
        assert len(broken.proxy.seen) <= 4 * requests
    broken.proxy.reset()
    broken.proxy.fail(FAULTS[name], kind="create", times=None)
    with pytest.raises((StoreError, CommitUnknownError)):
        broken.append(10_000)
    broken.proxy.reset()
    assert broken.scanned() == list(range(ROWS))


def test_retries_end_after_the_retry_time(broken: Broken) -> None:
    broken.options["client_retry_timeout"] = "500ms"
    broken.proxy.fail(FAULTS["server busy"], times=None)
    with pytest.raises(StoreError) as caught:
        broken.scanned()
    # Pauses of at least 0.05, 0.1, 0.2 and 0.4 s.
    assert 1 < caught.value.tries <= 4


def test_tables_of_one_account_keep_their_own_policies() -> None:
    place = {"account_name": ACCOUNT, "account_key": ACCOUNT_KEY, "endpoint": "http://127.0.0.1:1/a"}
    for retries in (1, 10, 1, 3):
        options = place if retries == 10 else {**place, "client_max_retries": retries}
        found = FsspecStore("az://bucket/t", options)._open().fs.service_client._config.retry_policy
        assert found.total_retries == retries
        sent = SimpleNamespace(body=None, method="GET", url="http://h/a")
        request = SimpleNamespace(http_request=sent, context=SimpleNamespace(options={}))
        settings = found.configure_retries(request)
        tries = [found.increment(settings, sent, error=OSError()) for _ in range(retries + 1)]
        assert tries == [True] * retries + [False]


def test_options_are_those_of_s3() -> None:
    for url in ("gs://bucket/t", "az://bucket/t"):
        store = FsspecStore(
            url, {"client_max_retries": 2, "client_retry_timeout": "1m", "connect_timeout": "2s"}
        )
        assert store._policy == RetryPolicy(2, 60.0)
        with pytest.raises(ValueError, match="request_timeout"):
            FsspecStore(url, {"request_timeout": "soon"})
