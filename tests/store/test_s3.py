"""A real S3 server: requests counted on the wire, secrets, forks, missing buckets."""

from __future__ import annotations

import logging
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from lancecy.errors import DatasetNotFoundError, ExistsError, StoreError, TruncatedError
from lancecy.session import Session
from lancecy.store.base import PutMode
from lancecy.store.fsspec import FsspecStore
from lancecy.store.reads import Ranges, SourceFile
from lancecy.store.uri import open_store
from lancecy.store.wrap import CountingStore
from tests.helpers.s3 import SECRET, S3Server

pytestmark = pytest.mark.s3

DATA = np.random.default_rng(3).integers(0, 256, 3 << 20, dtype=np.uint8).tobytes()


@pytest.fixture
def store(s3_server: S3Server, request: pytest.FixtureRequest) -> FsspecStore:
    bucket = s3_server.make_bucket("particular")
    name = request.node.name.replace("_", "-")[:60]
    return FsspecStore(f"{bucket}/{name}", s3_server.storage_options)


def test_fetch_merges_and_batches(store: FsspecStore) -> None:
    store.put("a", DATA)
    counted = CountingStore(store, traits=replace(store.traits, merge_gap=1000, merge_cap=200_000))
    file = SourceFile(counted, "a", len(DATA))
    positions = np.arange(0, 3_000_000, 10_000)
    lengths = np.full(positions.size, 9_500)
    (span,) = Session(threads=2).fetch([Ranges(file, positions, lengths)])
    for position, place in zip(positions.tolist(), span.positions.tolist(), strict=True):
        assert span.memory[place : place + 9_500].tobytes() == DATA[position : position + 9_500]
    # Two ranges, of 3 MB together, in parts of at most 200 kB.
    assert counted.count("get_many") == 16


def test_whole_object_is_one_request(store: FsspecStore, caplog: pytest.LogCaptureFixture) -> None:
    store.put("a", b"manifest")
    with caplog.at_level(logging.DEBUG, "s3fs"):
        assert store.get("a").tobytes() == b"manifest"
    calls = [record.getMessage() for record in caplog.records if "CALL" in record.getMessage()]
    assert [("get_object" in call) for call in calls] == [True]


def test_options_may_have_the_names_that_pylance_knows(s3_server: S3Server) -> None:
    options = {
        "aws_access_key_id": "test",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "aws_endpoint": s3_server.endpoint,
        "region": "us-east-1",
        "allow_http": "true",
    }
    store = open_store(f"{s3_server.make_bucket('particular')}/names", options)
    store.put("a", b"x")
    assert bytes(store.get("a")) == b"x"
    assert SECRET not in f"{store!r}{pickle.dumps(store)!r}"


def test_missing_bucket_is_not_an_empty_folder(s3_server: S3Server) -> None:
    store = FsspecStore("s3://no-such-bucket/t", s3_server.storage_options)
    with pytest.raises(DatasetNotFoundError):
        list(store.list(""))
    with pytest.raises(DatasetNotFoundError):
        store.get("a")


def test_unreachable_server_is_a_store_error_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    options = {
        "key": "test",
        "secret": SECRET,
        "client_kwargs": {"endpoint_url": "http://127.0.0.1:9", "region_name": "us-east-1"},
        "config_kwargs": {"retries": {"max_attempts": 0}, "connect_timeout": 1},
    }
    store = open_store("s3://bucket/t", options)
    with pytest.raises(StoreError, match="s3://bucket/t") as caught:
        store.get("a")
    assert SECRET not in str(caught.value) + caplog.text
    assert SECRET.encode() not in pickle.dumps(store) + pickle.dumps(caught.value)


def test_new_objects_are_listed_at_once(store: FsspecStore, s3_server: S3Server) -> None:
    other = FsspecStore(store.uri, s3_server.storage_options)
    for index in range(3):
        store.put(f"v/{index}", b"x")
        assert len(list(other.list("v"))) == index + 1
        assert other.head(f"v/{index}").size == 1


def test_identity_is_the_same_in_head_and_list(store: FsspecStore) -> None:
    store.put("a", b"x")
    (listed,) = store.list("")
    assert listed.identity == store.head("a").identity != ""


def test_race_of_creates_between_stores(store: FsspecStore, s3_server: S3Server) -> None:
    def attempt(index: int) -> bool:
        own = FsspecStore(
            store.uri, {**s3_server.storage_options, "config_kwargs": {"user_agent": f"w{index}"}}
        )
        try:
            own.put("_versions/1", f"{index}".encode(), PutMode.CREATE)
        except ExistsError:
            return False
        return True

    with ThreadPoolExecutor(4) as threads:
        outcomes = list(threads.map(attempt, range(4)))
    assert outcomes.count(True) == 1
    assert store.get("_versions/1").tobytes() == f"{outcomes.index(True)}".encode()


def test_large_stream_is_uploaded_whole(store: FsspecStore) -> None:
    with store.put_stream("big") as writer:
        for start in range(0, len(DATA), 1 << 20):
            writer.write(DATA[start : start + (1 << 20)])
    assert store.head("big").size == len(DATA)
    assert store.get("big", 1_000_000, 1_000_100).tobytes() == DATA[1_000_000:1_000_100]


def test_range_past_the_end_in_a_batch(store: FsspecStore) -> None:
    store.put("a", DATA[:1000])
    with pytest.raises(TruncatedError):
        store.get_many("a", [0, 990, 5000], [10, 1010, 5010])


def test_many_objects_are_removed_together(store: FsspecStore) -> None:
    names = [f"d/{index}" for index in range(30)] + ["d/star*"]
    for name in names:
        store.put(name, b"x")
    store.delete([*names[:20], "d/star*", "d/never-there"])
    assert [meta.path for meta in store.list("d")] == sorted(names[20:30])


def test_login_in_the_uri(s3_server: S3Server) -> None:
    s3_server.make_bucket("with-login")
    options = {"client_kwargs": s3_server.storage_options["client_kwargs"]}
    session = Session()
    store = session.store(f"s3://test:{SECRET}@with-login/t", options)
    store.put("a", b"x")
    assert store.get("a").tobytes() == b"x"
    assert store.uri == "s3://with-login/t"
    assert SECRET not in repr(store)
