"""DynamoDB behind a proxy that breaks requests: opening, scans, commits, lost answers, time-outs, credentials."""

from __future__ import annotations

import errno
import pickle
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import CommitUnknownError, StoreError
from lancecy.store.key_values import opening
from lancecy.store.key_values.dynamodb import DynamoKeyValue
from tests.contracts.key_values import final, staged
from tests.helpers.dynamodb import DynamoTable
from tests.helpers.proxy import FaultProxy, WireFault
from tests.helpers.rotating_keys import RotatingKeys
from tests.helpers.s3 import SECRET, S3Server

pytestmark = pytest.mark.s3

THROTTLED = WireFault("status", 400, "ProvisionedThroughputExceededException")
LOST = WireFault("cut", applied=True)
FAULTS = {
    "throughput": THROTTLED,
    "throttling": WireFault("status", 400, "ThrottlingException"),
    "too many requests": WireFault("status", 400, "RequestLimitExceeded"),
    "internal error": WireFault("status", 500, "InternalServerError"),
    "bad gateway": WireFault("status", 502, ""),
    "no answer": WireFault("stall"),
    "cut before the answer": WireFault("cut"),
    "cut in the body": WireFault("cut_body"),
    "half of the body": WireFault("short_body"),
    "error after the request was carried out": WireFault("status", 500, "InternalServerError", applied=True),
    "answer lost": LOST,
    "no answer to a request that was carried out": WireFault("stall", applied=True),
}


@pytest.fixture
def dynamo(s3_server: S3Server, s3_proxy: FaultProxy) -> DynamoTable:
    return DynamoTable(s3_server, f"faulty-{uuid.uuid4().hex}")


@pytest.fixture
def uri(dynamo: DynamoTable, s3_server: S3Server) -> str:
    """A table with rows 0 and 1."""
    s3_server.make_bucket("faulty-items")
    uri = dynamo.uri(f"faulty-items/{uuid.uuid4().hex}")
    lancecy.write_dataset(rows(0, 2), uri, storage_options=dynamo.options)
    return uri


@pytest.fixture
def options(dynamo: DynamoTable, s3_proxy: FaultProxy) -> dict[str, Any]:
    """Storage options with which DynamoDB, and not S3, is behind the proxy."""
    return {**dynamo.options, "dynamodb_endpoint": s3_proxy.endpoint, "request_timeout": "500ms"}


def rows(start: int, stop: int) -> pa.Table:
    return pa.table({"id": np.arange(start, stop)})


def fresh() -> lancecy.Session:
    """A session of a process that has not asked DynamoDB yet."""
    opening._forget()
    return lancecy.Session(threads=2)


def scanned(uri: str, options: Mapping[str, Any]) -> list[int]:
    found = lancecy.dataset(uri, storage_options=options, session=fresh()).to_table()["id"]
    return sorted(found.to_pylist())


def append(uri: str, start: int, options: Mapping[str, Any]) -> None:
    data = rows(start, start + 1)
    lancecy.write_dataset(data, uri, mode="append", storage_options=options, session=fresh())


def counted(proxy: FaultProxy, work: Callable[[], object]) -> list[str]:
    """The requests that the work makes."""
    proxy.reset()
    work()
    return proxy.kinds()


@pytest.mark.parametrize("name", FAULTS)
def test_opening_a_scan_and_a_commit_survive_a_fault_of_any_request(
    name: str, s3_proxy: FaultProxy, dynamo: DynamoTable, uri: str, options: dict[str, Any]
) -> None:
    requests = counted(s3_proxy, lambda: scanned(uri, options))
    assert requests == ["DescribeTable", "Query"]
    for nth in range(1, len(requests) + 1):
        s3_proxy.reset()
        plan = s3_proxy.fail(FAULTS[name], nth)
        assert scanned(uri, options) == [0, 1]
        assert plan.met == 1
    requests = counted(s3_proxy, lambda: append(uri, 2, options))
    assert requests[-2:] == ["PutItem", "PutItem"]
    for count, nth in enumerate((1, len(requests) // 2, len(requests) - 1, len(requests)), 3):
        s3_proxy.reset()
        plan = s3_proxy.fail(FAULTS[name], nth)
        append(uri, count, options)
        assert plan.met == 1
    ds = lancecy.dataset(uri, storage_options=dynamo.options)
    assert sorted(ds.to_table()["id"].to_pylist()) == list(range(7))
    assert ds.version == 6


@pytest.mark.parametrize("name", ["throughput", "no answer", "cut before the answer", "half of the body"])
def test_a_fault_that_lasts_is_an_error_with_store_path_and_tries(
    name: str, s3_proxy: FaultProxy, dynamo: DynamoTable, uri: str, options: dict[str, Any]
) -> None:
    options["client_max_retries"] = 1
    for nth in (1, 2):
        s3_proxy.reset()
        s3_proxy.fail(FAULTS[name], nth, times=None)
        with pytest.raises(StoreError, match=rf"DynamoDB table '{dynamo.name}' \(2 tries\)") as caught:
            scanned(uri, options)
        assert caught.value.tries == 2
        assert uri.partition("?")[0].endswith(caught.value.path)
        assert len(s3_proxy.seen) == nth + 1
        assert SECRET not in f"{caught.value} {pickle.dumps(caught.value)!r}"


def test_a_commit_that_is_throttled_to_the_end_did_not_happen(
    s3_proxy: FaultProxy, uri: str, options: dict[str, Any]
) -> None:
    options["client_max_retries"] = 1
    s3_proxy.fail(THROTTLED, kind="PutItem", times=None)
    with pytest.raises(StoreError, match="ProvisionedThroughputExceeded") as caught:
        append(uri, 2, options)
    assert not isinstance(caught.value, CommitUnknownError)
    assert caught.value.errno == errno.EAGAIN
    s3_proxy.reset()
    assert scanned(uri, options) == [0, 1]
    append(uri, 2, options)
    assert scanned(uri, options) == [0, 1, 2]


def test_a_commit_without_an_answer_to_the_end_says_that_it_may_have_happened(
    s3_proxy: FaultProxy, uri: str, options: dict[str, Any]
) -> None:
    options["client_max_retries"] = 1
    s3_proxy.fail(LOST, kind="PutItem", times=None)
    with pytest.raises(CommitUnknownError, match="version 2"):
        append(uri, 2, options)
    assert s3_proxy.kinds().count("PutItem") == 2
    s3_proxy.reset()
    assert scanned(uri, options) == [0, 1, 2]


# -- lost answers of single changes ----------------------------------------------------------------


@pytest.mark.parametrize("name", ["answer lost", "error after the request was carried out"])
def test_a_change_whose_answer_was_lost_is_recognised(
    name: str, s3_proxy: FaultProxy, dynamo: DynamoTable, options: dict[str, Any]
) -> None:
    items = DynamoKeyValue(dynamo.name, options)
    items.latest("t")
    s3_proxy.reset()
    s3_proxy.fail(FAULTS[name], kind="PutItem")
    assert items.put_if_absent("t", 1, staged(1))
    assert s3_proxy.kinds() == ["PutItem", "PutItem", "GetItem"]
    s3_proxy.fail(FAULTS[name], kind="PutItem")
    assert items.put_if("t", 1, final(1), staged(1))
    s3_proxy.fail(FAULTS[name], kind="BatchWriteItem")
    items.delete("t", [1])
    assert dynamo.items("t") == {}


def test_a_race_that_was_lost_after_a_fault_is_lost(
    s3_proxy: FaultProxy, dynamo: DynamoTable, options: dict[str, Any]
) -> None:
    items = DynamoKeyValue(dynamo.name, options)
    items.put_if_absent("t", 1, staged(1))
    s3_proxy.reset()
    s3_proxy.fail(THROTTLED, kind="PutItem")
    assert not items.put_if_absent("t", 1, staged(1, 2))
    # A throttled request was not carried out, so there is nothing to look for.
    assert s3_proxy.kinds() == ["PutItem", "PutItem"]
    s3_proxy.fail(WireFault("cut"), kind="PutItem")
    with pytest.raises(StoreError, match="may or may not have been written"):
        items.put_if_absent("t", 1, staged(1, 2))
    assert not items.put_if_absent("t", 1, staged(1, 2))


def test_a_commit_that_a_reader_finished_while_its_answer_was_lost_is_made_once(
    s3_proxy: FaultProxy, dynamo: DynamoTable, uri: str, options: dict[str, Any]
) -> None:
    """The item that the second try finds has the final name of the manifest, and no name of the writer."""
    puts: list[str] = []

    def read_between(headers: Mapping[str, str]) -> None:
        if headers.get("x-amz-target", "").endswith("PutItem"):
            puts.append("put")
            if len(puts) == 2:
                assert scanned(uri, dynamo.options) == [0, 1, 2]

    s3_proxy.guard = read_between
    s3_proxy.fail(LOST, kind="PutItem")
    append(uri, 2, options)
    s3_proxy.reset()
    assert scanned(uri, options) == [0, 1, 2]
    assert lancecy.dataset(uri, storage_options=dynamo.options).version == 2


# -- credentials -----------------------------------------------------------------------------------


@pytest.fixture
def keys(s3_proxy: FaultProxy, uri: str) -> RotatingKeys:
    return RotatingKeys(s3_proxy)


def without_keys(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if "key" not in name}


@pytest.mark.parametrize("is_async", [False, True], ids=["function", "coroutine"])
def test_credentials_that_expire_during_a_job_are_fetched_from_the_users_function(
    is_async: bool, s3_proxy: FaultProxy, uri: str, options: dict[str, Any], keys: RotatingKeys
) -> None:
    async def provide() -> dict[str, Any]:
        return keys.provide()

    mine = {**without_keys(options), "credentials_provider": provide if is_async else keys.provide}
    mine["endpoint"] = s3_proxy.endpoint  # S3 refuses old keys too
    ds = lancecy.dataset(uri, storage_options=mine)
    for number in range(2, 5):
        keys.newest += 1
        ds = lancecy.write_dataset(rows(number, number + 1), ds, mode="append")
    assert ds.count_rows() == 5
    assert ds.version == 4
    assert keys.given >= 8  # each of the two services, at first and three times more


def test_credentials_of_the_environment_are_read_again(
    dynamo: DynamoTable, options: dict[str, Any], keys: RotatingKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = DynamoKeyValue(dynamo.name, without_keys(options))
    for _ in range(3):
        keys.newest += 1
        for name, value in (
            ("ACCESS_KEY_ID", "test"),
            ("SECRET_ACCESS_KEY", SECRET),
            ("SESSION_TOKEN", keys.token),
        ):
            monkeypatch.setenv(f"AWS_{name}", value)
        assert items.get("t", 1) is None
    assert pickle.loads(pickle.dumps(items)).get("t", 1) is None


def test_expired_credentials_of_the_options_say_what_helps_and_nothing_secret(
    dynamo: DynamoTable, options: dict[str, Any], keys: RotatingKeys
) -> None:
    old = "t0ken-that-must-not-leak-0"
    login = {"key": "test", "secret": SECRET, "token": old}
    for given in (
        {**options, "session_token": old},
        {**without_keys(options), "credentials_provider": lambda: login},
    ):
        items = DynamoKeyValue(dynamo.name, given)
        with pytest.raises(StoreError, match=r"ExpiredToken.*credentials_provider") as caught:
            items.put_if_absent("t", 1, staged(1))
        assert caught.value.errno == errno.EACCES
        said = f"{caught.value!r} {caught.value.__cause__!r} {items!r} {pickle.dumps(items)!r}"
        assert "must-not-leak" not in f"{said} {pickle.dumps(caught.value)!r}"


def test_options_of_s3_set_tries_and_time_outs_of_dynamodb(
    dynamo: DynamoTable, options: dict[str, Any]
) -> None:
    given = {**options, "connect_timeout": "2s", "client_max_retries": "3", "client_retry_timeout": "1m"}
    items = DynamoKeyValue(dynamo.name, given)
    config = items._client().meta.config
    assert (config.connect_timeout, config.read_timeout) == (2.0, 0.5)
    assert (items._policy.retries, items._policy.limit_s) == (3, 60.0)
    assert pickle.loads(pickle.dumps(items))._policy == items._policy
