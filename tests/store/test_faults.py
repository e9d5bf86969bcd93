"""A real S3 server behind a proxy that breaks requests: scans and commits, time-outs, uploads, credentials, secrets."""

from __future__ import annotations

import pickle
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import CommitUnknownError, ExistsError, StoreError
from lancecy.store.base import PutMode
from lancecy.store.fsspec import FsspecStore
from lancecy.store.retries import RetryPolicy, split_policy, wait_asked
from tests.helpers.proxy import FaultProxy, WireFault
from tests.helpers.s3 import SECRET

pytestmark = pytest.mark.s3

SLOW_DOWN = WireFault("status", 503, "SlowDown")
STALL = WireFault("stall")
FAULTS = {
    "SlowDown": SLOW_DOWN,
    "InternalError": WireFault("status", 500, "InternalError"),
    "TooManyRequests": WireFault("status", 429, "TooManyRequests"),
    "bad gateway": WireFault("status", 502, ""),
    "no answer": STALL,
    "cut before the answer": WireFault("cut"),
    "cut in the body": WireFault("cut_body"),
    "half of the body": WireFault("short_body"),
    "error after the request was carried out": WireFault("status", 500, "InternalError", applied=True),
    "answer lost": WireFault("cut", applied=True),
    "no answer to a request that was carried out": WireFault("stall", applied=True),
}
# Answers to a commit have next to no body.
OF_SCANS = list(FAULTS)[:8]
ROWS = 400


def rows(start: int, count: int) -> pa.Table:
    return pa.table({"id": np.arange(start, start + count)})


@pytest.fixture
def options(s3_proxy: FaultProxy) -> dict[str, Any]:
    """A client in pylance's words that loses patience after 0.4 s."""
    return {
        "aws_access_key_id": "test",
        "aws_secret_access_key": SECRET,
        "aws_endpoint": s3_proxy.s3.endpoint,
        "region": "us-east-1",
        "request_timeout": "400ms",
        "client_retry_timeout": 20,
    }


@pytest.fixture
def root(s3_proxy: FaultProxy) -> str:
    """The URI of no table yet."""
    return f"{s3_proxy.s3.make_bucket('faulty')}/{uuid.uuid4().hex}"


@pytest.fixture
def table(s3_proxy: FaultProxy, root: str, options: dict[str, Any]) -> str:
    """A table of 4 fragments."""
    lancecy.write_dataset(rows(0, ROWS), root, max_rows_per_file=ROWS // 4, storage_options=options)
    s3_proxy.reset()
    return root


def scanned(uri: str, options: Mapping[str, Any]) -> list[int]:
    """The rows as a fresh session reads them."""
    session = lancecy.Session(threads=2)
    found: list[int] = (
        lancecy.dataset(uri, storage_options=options, session=session).to_table()["id"].to_pylist()
    )
    return sorted(found)


def append(uri: str, start: int, options: Mapping[str, Any]) -> None:
    session = lancecy.Session(threads=2)
    lancecy.write_dataset(rows(start, 5), uri, mode="append", storage_options=options, session=session)


def counted(proxy: FaultProxy, work: Callable[[], object]) -> int:
    """How many requests the work makes."""
    proxy.reset()
    work()
    return len(proxy.seen)


# -- one fault: the right answer --------------------------------------------------------------


@pytest.mark.parametrize("name", OF_SCANS)
def test_a_scan_survives_a_fault_of_any_request(
    name: str, s3_proxy: FaultProxy, table: str, options: dict[str, Any]
) -> None:
    requests = counted(s3_proxy, lambda: scanned(table, options))
    for nth in (1, requests // 2, requests):
        s3_proxy.reset()
        plan = s3_proxy.fail(FAULTS[name], nth)
        assert scanned(table, options) == list(range(ROWS))
        assert plan.met == 1


@pytest.mark.parametrize("name", [name for name in FAULTS if name != "half of the body"])
def test_a_commit_survives_a_fault_of_any_request_and_is_made_once(
    name: str, s3_proxy: FaultProxy, table: str, options: dict[str, Any]
) -> None:
    requests = counted(s3_proxy, lambda: append(table, ROWS, options))
    for count, nth in enumerate((1, requests // 2, requests - 2, requests), 1):
        s3_proxy.reset()
        plan = s3_proxy.fail(FAULTS[name], nth)
        append(table, ROWS + 5 * count, options)
        assert plan.met == 1
        s3_proxy.reset()
        assert scanned(table, options) == list(range(ROWS + 5 * count + 5))
        assert lancecy.dataset(table, storage_options=options).version == 2 + count


# -- faults that last: an error within bounded time, and no half commit ------------------------


@pytest.mark.parametrize("name", ["SlowDown", "no answer", "cut before the answer", "cut in the body"])
def test_a_scan_that_cannot_go_on_raises_an_error_with_store_path_and_tries(
    name: str, s3_proxy: FaultProxy, table: str, options: dict[str, Any]
) -> None:
    options["client_max_retries"] = 1
    requests = counted(s3_proxy, lambda: scanned(table, options))
    for nth in (1, requests // 2, requests):
        s3_proxy.reset()
        s3_proxy.fail(FAULTS[name], nth, times=None)
        with pytest.raises(StoreError, match=r"\(2 tries\)") as caught:
            scanned(table, options)
        assert caught.value.store == table
        assert caught.value.path.startswith(("_versions", "data/"))
        assert caught.value.tries == 2
        # Two tries for each of the requests that are under way together, of which aiohttp repeats some itself.
        assert len(s3_proxy.seen) <= 4 * requests


@pytest.mark.parametrize("name", ["SlowDown", "error after the request was carried out"])
def test_a_commit_that_cannot_go_on_is_made_whole_or_not_at_all(
    name: str, s3_proxy: FaultProxy, table: str, options: dict[str, Any]
) -> None:
    options["client_max_retries"] = 1
    requests = counted(s3_proxy, lambda: append(table, ROWS, options))
    for nth in (1, requests // 2, requests - 2, requests):
        s3_proxy.reset()
        before, version = scanned(table, options), lancecy.dataset(table, storage_options=options).version
        s3_proxy.reset()
        s3_proxy.fail(FAULTS[name], nth, times=None)
        with pytest.raises((StoreError, CommitUnknownError)) as caught:
            append(table, 10_000, options)
        assert "s3://faulty" in str(caught.value) or "_versions/" in str(caught.value)
        s3_proxy.reset()
        after, newest = scanned(table, options), lancecy.dataset(table, storage_options=options).version
        appended = sorted([*before, *range(10_000, 10_005)])
        assert (after, newest) in ((before, version), (appended, version + 1))
        # An error that says "not" is true.
        assert after == before or nth > requests - 3


def test_threads_and_sockets_do_not_pile_up(
    s3_proxy: FaultProxy, table: str, options: dict[str, Any]
) -> None:
    options["client_max_retries"] = 1
    options["request_timeout"] = "100ms"
    process = psutil.Process()
    counts = []
    for _ in range(4):
        for fault in (SLOW_DOWN, STALL, WireFault("cut_body")):
            s3_proxy.reset()
            s3_proxy.fail(fault, 3, times=None)
            with pytest.raises(StoreError):
                scanned(table, options)
        s3_proxy.reset()
        port = s3_proxy.server_port
        clients = [each for each in process.net_connections() if each.raddr and each.raddr.port == port]
        threads = [each for each in threading.enumerate() if "process_request" not in each.name]
        counts.append((len(clients), len(threads)))
    # A client keeps some connections for its next requests.
    assert counts[-1][0] <= 10
    assert counts[-1][1] <= counts[0][1]


# -- pauses ------------------------------------------------------------------------------------


def test_the_pause_that_a_server_asks_for_is_kept(
    s3_proxy: FaultProxy, table: str, options: dict[str, Any]
) -> None:
    s3_proxy.fail(WireFault("status", 503, "SlowDown", retry_after="1"))
    began = time.monotonic()
    assert scanned(table, options) == list(range(ROWS))
    assert time.monotonic() - began >= 1
    s3_proxy.reset()
    # Longer than the client may wait: it says so at once.
    s3_proxy.fail(WireFault("status", 503, "SlowDown", retry_after="3600"), times=None)
    with pytest.raises(StoreError, match="cannot list"):
        scanned(table, options)
    assert s3_proxy.kinds() == ["list"]


def test_pauses_double_and_are_random() -> None:
    policy = RetryPolicy(retries=10, limit_s=60)
    pauses = [policy.pause(tries, 0.0) for tries in range(1, 11)]
    for tries, pause in enumerate(pauses):
        longest = min(5.0, 0.1 * 2**tries)
        assert pause is not None and longest / 2 <= pause <= longest
    assert len({policy.pause(5, 0.0) for _ in range(20)}) > 1
    assert policy.pause(11, 0.0) is None
    assert policy.pause(1, 60.0) is None
    assert policy.pause(1, 0.0, asked_s=61.0) is None
    assert (policy.pause(1, 0.0, asked_s=7.0) or 0) >= 7
    assert (
        3590 < wait_asked(time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 3600))) <= 3600
    )


def test_options_of_either_library_set_tries_and_time_outs() -> None:
    pylance = {
        "client_max_retries": "3",
        "client_retry_timeout": "60",
        "download_retry_count": 3,
        "timeout": "2s",
    }
    policy, rest = split_policy(pylance)
    assert (policy, rest) == (RetryPolicy(3, 60.0), {"timeout": "2s"})
    assert split_policy({"config_kwargs": {"retries": {"max_attempts": 4}}})[0].retries == 4
    assert (
        split_policy({"config_kwargs": {"retries": {"total_max_attempts": 4}}, "client_max_retries": 9})[
            0
        ].retries
        == 3
    )
    store = FsspecStore("s3://bucket/t", {**pylance, "connect_timeout": 1})
    assert store._options == {"config_kwargs": {"read_timeout": 2.0, "connect_timeout": 1.0}}
    both = FsspecStore("s3://bucket/t", {"request_timeout": "9s", "config_kwargs": {"read_timeout": 5}})
    assert both._options == {"config_kwargs": {"read_timeout": 5}}
    assert pickle.loads(pickle.dumps(store))._policy == policy


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("client_max_retries", "many"),
        ("client_max_retries", -1),
        ("client_retry_timeout", "1 week"),
        ("timeout", "-1s"),
    ],
)
def test_wrong_numbers_are_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=name):
        FsspecStore("s3://bucket/t", {name: value})


# -- lost answers and uploads ------------------------------------------------------------------


@pytest.fixture
def store(root: str, options: dict[str, Any]) -> FsspecStore:
    return FsspecStore(root, options)


@pytest.mark.parametrize("what", ["status", "stall", "cut"])
def test_a_create_whose_answer_was_lost_is_recognised(
    what: Any, s3_proxy: FaultProxy, store: FsspecStore
) -> None:
    store.put("warm", b"the connection was used before")
    s3_proxy.reset()
    s3_proxy.fail(WireFault(what, 500, "InternalError", applied=True), kind="put")
    store.put("a", b"mine", PutMode.CREATE)
    assert s3_proxy.kinds() == ["put", "put", "head"]
    # The same bytes from another writer are still too late.
    with pytest.raises(ExistsError):
        store.put("a", b"mine", PutMode.CREATE)
