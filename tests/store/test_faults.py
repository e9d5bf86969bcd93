"""A real S3 server behind a proxy that breaks requests: scans and commits, time-outs, uploads, credentials, secrets."""

from __future__ import annotations

import gc
import io
import logging
import pickle
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import CommitUnknownError, ExistsError, StoreError, UnsupportedError
from lancecy.store.base import PutMode
from lancecy.store.fsspec import FsspecStore
from lancecy.store.retries import RetryPolicy, split_policy, wait_asked
from tests.helpers.proxy import FaultProxy, WireFault
from tests.helpers.rotating_keys import RotatingKeys
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
    """A client in pylance's words that loses patience after half a second."""
    return {
        "aws_access_key_id": "test",
        "aws_secret_access_key": SECRET,
        "aws_endpoint": s3_proxy.s3.endpoint,
        "region": "us-east-1",
        "request_timeout": "500ms",
        "client_retry_timeout": 60,
    }


def without_time_out(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options under which small requests are made past s3fs."""
    return {name: value for name, value in options.items() if name != "request_timeout"}


# A client without the time-out waits for the answers of these for half a minute.
AT_ONCE = [name for name, fault in FAULTS.items() if fault.what != "stall"]


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


def clients(faults: Iterable[str]) -> list[tuple[str, str]]:
    """Each fault with each of the two clients that can meet it."""
    return [
        (client, name)
        for name in faults
        for client in ("s3fs", "obstore")
        if client == "s3fs" or name in AT_ONCE
    ]


def of_client(client: str, options: Mapping[str, Any], uri: str) -> Mapping[str, Any]:
    """Options under which this client makes the small requests."""
    found = options if client == "s3fs" else without_time_out(options)
    assert (FsspecStore(uri, found)._open().direct is not None) == (client == "obstore")
    return found


@pytest.mark.parametrize(("client", "name"), clients(OF_SCANS))
def test_a_scan_survives_a_fault_of_any_request(
    client: str, name: str, s3_proxy: FaultProxy, table: str, options: dict[str, Any]
) -> None:
    mine = of_client(client, options, table)
    requests = counted(s3_proxy, lambda: scanned(table, mine))
    for nth in (1, requests // 2, requests):
        s3_proxy.reset()
        plan = s3_proxy.fail(FAULTS[name], nth)
        assert scanned(table, mine) == list(range(ROWS))
        assert plan.met == 1


@pytest.mark.parametrize(("client", "name"), clients(name for name in FAULTS if name != "half of the body"))
def test_a_commit_survives_a_fault_of_any_request_and_is_made_once(
    client: str, name: str, s3_proxy: FaultProxy, table: str, options: dict[str, Any]
) -> None:
    mine = of_client(client, options, table)
    append(table, ROWS, mine)  # tests once whether this client's server has conditional puts
    requests = counted(s3_proxy, lambda: append(table, ROWS + 5, mine))
    for count, nth in enumerate((1, requests // 2, requests - 2, requests), 2):
        s3_proxy.reset()
        plan = s3_proxy.fail(FAULTS[name], nth)
        append(table, ROWS + 5 * count, mine)
        assert plan.met == 1
        s3_proxy.reset()
        assert scanned(table, mine) == list(range(ROWS + 5 * count + 5))
        assert lancecy.dataset(table, storage_options=mine).version == 2 + count


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
    options["request_timeout"] = "200ms"
    process = psutil.Process()
    port = s3_proxy.server_port
    counts = [_open_here(process, port)]
    for _ in range(4):
        for fault in (SLOW_DOWN, STALL, WireFault("cut_body")):
            s3_proxy.reset()
            s3_proxy.fail(fault, 3, times=None)
            with pytest.raises(StoreError):
                scanned(table, options)
        s3_proxy.reset()
        counts.append(_open_here(process, port))
    # A client keeps up to ten connections for its next requests; those of earlier tests are being closed.
    assert counts[-1][0] <= counts[0][0] + 10
    assert counts[-1][1] <= counts[1][1]


def _open_here(process: psutil.Process, port: int) -> tuple[int, int]:
    """Connections to the proxy and threads of this process, without the proxy's own."""
    gc.collect()  # threads end with their session
    time.sleep(0.1)
    connections = [each for each in process.net_connections() if each.raddr and each.raddr.port == port]
    threads = [each for each in threading.enumerate() if "process_request" not in each.name]
    return len(connections), len(threads)


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
    s3_proxy.fail(WireFault("status", 503, "SlowDown", retry_after="7200"), times=None)
    with pytest.raises(StoreError, match="cannot list"):
        scanned(table, options)
    assert s3_proxy.kinds() == ["list"]


def test_no_try_begins_after_the_retry_time(
    s3_proxy: FaultProxy, table: str, options: dict[str, Any]
) -> None:
    options["client_retry_timeout"] = "500ms"
    s3_proxy.fail(SLOW_DOWN, times=None)
    with pytest.raises(StoreError) as caught:
        scanned(table, options)
    # Pauses of at least 0.05, 0.1, 0.2 and 0.4 s.
    assert 1 < caught.value.tries <= 4


def test_access_that_is_denied_is_asked_for_once(
    s3_proxy: FaultProxy, table: str, options: dict[str, Any]
) -> None:
    s3_proxy.fail(WireFault("status", 403, "AccessDenied"), times=None)
    with pytest.raises(StoreError, match="cannot list '_versions' in s3://faulty"):
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


@pytest.mark.parametrize("what", ["status", "cut"])
def test_a_create_past_s3fs_whose_answer_was_lost_is_recognised(
    what: Any, s3_proxy: FaultProxy, root: str, options: dict[str, Any]
) -> None:
    store = FsspecStore(root, without_time_out(options))
    store.put("warm", b"the connection was used before")
    s3_proxy.reset()
    s3_proxy.fail(WireFault(what, 500, "InternalError", applied=True), kind="put")
    store.put("a", b"mine", PutMode.CREATE)
    assert s3_proxy.kinds() == ["put", "put", "head"]
    with pytest.raises(ExistsError):
        store.put("a", b"mine", PutMode.CREATE)


# -- multi-part uploads ------------------------------------------------------------------------


def upload(store: FsspecStore) -> bytes:
    """Upload an object in three parts of at least 5 MiB, the smallest that S3 takes."""
    data = np.random.default_rng(5).integers(0, 256, 11 << 20, dtype=np.uint8).tobytes()
    store._write("big", lambda fs, full: fs.pipe_file(full, data, chunksize=5 << 20))
    return data


def unfinished(store: FsspecStore) -> list[Any]:
    """Uploads of the store's bucket that were neither completed nor aborted."""
    bucket = store.uri.removeprefix("s3://").partition("/")[0]
    return list(store._open().fs.list_multipart_uploads(bucket))


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        ("start_upload", SLOW_DOWN),
        ("part", SLOW_DOWN),
        ("part", STALL),
        ("part", WireFault("deaf")),
        ("part", WireFault("cut", applied=True)),
        ("finish_upload", SLOW_DOWN),
        ("finish_upload", WireFault("status", 500, "InternalError", applied=True)),
        ("finish_upload", WireFault("stall", applied=True)),
    ],
    ids=lambda value: value if isinstance(value, str) else value.what,
)
def test_an_upload_in_parts_goes_on_after_a_fault(
    kind: str, fault: WireFault, s3_proxy: FaultProxy, store: FsspecStore
) -> None:
    s3_proxy.reset()
    plan = s3_proxy.fail(fault, kind=kind)
    data = upload(store)
    assert plan.met == 1
    # Only what failed is sent again.
    assert s3_proxy.kinds().count("part") <= 4
    assert store.get("big").tobytes() == data
    assert unfinished(store) == []


@pytest.mark.parametrize("kind", ["part", "finish_upload"])
def test_an_upload_that_fails_is_aborted(
    kind: str, s3_proxy: FaultProxy, root: str, options: dict[str, Any]
) -> None:
    store = FsspecStore(root, {**options, "client_max_retries": 1})
    s3_proxy.reset()
    s3_proxy.fail(SLOW_DOWN, nth=2, times=None, kind=kind) if kind == "part" else s3_proxy.fail(
        SLOW_DOWN, times=None, kind=kind
    )
    with pytest.raises(StoreError, match=r"cannot write 'big' in s3://faulty/.*2 tries"):
        upload(store)
    kinds = s3_proxy.kinds()
    assert "abort_upload" in kinds
    # No part is sent after the upload is aborted: it would be kept, and paid for.
    assert "part" not in kinds[kinds.index("abort_upload") :]
    assert unfinished(store) == []
    with pytest.raises(LookupError):
        store.head("big")


# -- credentials -------------------------------------------------------------------------------


@pytest.fixture
def keys(s3_proxy: FaultProxy) -> RotatingKeys:
    return RotatingKeys(s3_proxy)


def without_keys(options: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if "key" not in name} | more


def test_credentials_that_expire_during_a_job_are_fetched_from_the_users_function(
    s3_proxy: FaultProxy, table: str, options: dict[str, Any], keys: RotatingKeys
) -> None:
    mine = without_keys(options, credentials_provider=keys.provide)
    ds = lancecy.dataset(table, storage_options=mine)
    assert keys.given == 1
    for _ in range(3):
        keys.newest += 1
        assert ds.to_table(["id"]).num_rows == ROWS
        keys.newest += 1
        ds = lancecy.write_dataset(rows(ROWS, 0), table, mode="append", storage_options=mine)
    assert keys.given >= 7
    assert ds.version == 4


def test_credentials_near_their_end_are_fetched_before_a_request_fails(
    s3_proxy: FaultProxy, root: str, options: dict[str, Any], keys: RotatingKeys
) -> None:
    def short_lived() -> dict[str, Any]:
        keys.newest += 1
        return {**keys.provide(), "expires_at_millis": int((time.time() + 1) * 1000)}

    store = FsspecStore(root, without_keys(options, credentials_provider=short_lived))
    store.put("a", b"x")
    store.put("b", b"x")
    assert keys.given >= 2
    assert s3_proxy.kinds().count("put") == 3  # the bucket and two objects: none was refused


@pytest.mark.parametrize("is_direct", [False, True], ids=["s3fs", "direct"])
def test_credentials_of_the_environment_are_read_again(
    is_direct: bool,
    s3_proxy: FaultProxy,
    root: str,
    options: dict[str, Any],
    keys: RotatingKeys,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if is_direct:
        options = without_time_out(options)

    def rotate() -> None:
        keys.newest += 1
        for name, value in (
            ("ACCESS_KEY_ID", "test"),
            ("SECRET_ACCESS_KEY", SECRET),
            ("SESSION_TOKEN", keys.token),
        ):
            monkeypatch.setenv(f"AWS_{name}", value)

    rotate()
    store = FsspecStore(root, without_keys(options, client_retry_timeout=21))
    assert (store._open().direct is not None) == is_direct
    store.put("a", b"x")
    rotate()
    assert bytes(store.get("a")) == b"x"
    assert pickle.loads(pickle.dumps(store)).head("a").size == 1


def test_expired_credentials_of_the_options_say_what_helps_and_nothing_secret(
    s3_proxy: FaultProxy,
    root: str,
    options: dict[str, Any],
    keys: RotatingKeys,
    caplog: pytest.LogCaptureFixture,
) -> None:
    old = "t0ken-that-must-not-leak-0"
    sources = [
        {**options, "aws_session_token": old},
        without_keys(options, credentials_provider=lambda: {"key": "test", "secret": SECRET, "token": old}),
    ]
    for given in sources:
        for fault in (None, WireFault("cut"), WireFault("stall"), WireFault("cut_body")):
            s3_proxy.plans.clear()
            if fault is not None:
                s3_proxy.fail(fault, times=None)
            store = FsspecStore(root, {**given, "client_max_retries": 0})
            with caplog.at_level(logging.DEBUG, "lancecy"), pytest.raises(StoreError) as caught:
                store.get("a", 0, 10)
            assert fault is not None or "credentials_provider" in str(caught.value)
            shown = io.StringIO()
            traceback.print_exception(caught.value, file=shown)
            chain: list[str] = []
            error: BaseException | None = caught.value
            while error is not None:
                chain += [repr(error), repr(vars(error)), repr(getattr(error, "response", ""))]
                chain.append(repr(vars(getattr(error, "request", None) or caught.value)))
                error = error.__cause__ or error.__context__
            text = f"{shown.getvalue()}{caplog.text}{store!r}{chain}".encode()
            for said in (
                text,
                pickle.dumps(store),
                pickle.dumps(caught.value),
                pickle.dumps(caught.value.__cause__),
            ):
                assert b"must-not-leak" not in said


def test_a_function_for_credentials_is_for_s3_and_must_give_them(root: str, options: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedError, match="s3://"):
        FsspecStore("gs://bucket/t", {"credentials_provider": dict})
    with pytest.raises(StoreError, match="credentials_provider did not return a key"):
        FsspecStore(root, without_keys(options, credentials_provider=dict)).get("a")


# -- other file systems ------------------------------------------------------------------------


def test_web_servers_are_asked_again_too(
    s3_proxy: FaultProxy, store: FsspecStore, options: dict[str, Any]
) -> None:
    data = bytes(range(200))
    store.put("a", data)
    web = FsspecStore(f"{s3_proxy.s3.endpoint}/{store.uri.removeprefix('s3://')}", {"client_max_retries": 2})
    for fault in (SLOW_DOWN, WireFault("cut_body"), WireFault("cut"), WireFault("short_body")):
        s3_proxy.reset()
        s3_proxy.fail(fault)
        assert [part.tobytes() for part in web.get_many("a", [0, 50], [20, 90])] == [data[:20], data[50:90]]
    s3_proxy.fail(SLOW_DOWN, times=None)
    with pytest.raises(StoreError, match="3 tries"):
        web.get("a")
