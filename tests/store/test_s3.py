"""A real S3 server: requests counted on the wire, secrets, forks, missing buckets."""

from __future__ import annotations

import os
import pickle
import re
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from lancecy.errors import DatasetNotFoundError, ExistsError, PathPolicyError, StoreError, TruncatedError
from lancecy.session import Session
from lancecy.store import direct, s3_upload
from lancecy.store.base import PutMode
from lancecy.store.fsspec import FsspecStore
from lancecy.store.reads import Ranges, SourceFile
from lancecy.store.uri import open_store
from lancecy.store.wrap import CountingStore
from tests.helpers.counting_proxy import start_proxy
from tests.helpers.s3 import SECRET, S3Server

pytestmark = pytest.mark.s3

# An option that only s3fs knows.
LEFT_TO_S3FS = {"config_kwargs": {"user_agent": "s3fs"}}
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


@pytest.mark.parametrize("more", [{}, LEFT_TO_S3FS], ids=["direct", "s3fs"])
def test_whole_object_is_one_request(s3_server: S3Server, more: dict[str, object]) -> None:
    with start_proxy(s3_server.endpoint) as proxy:
        options = {**replace(s3_server, endpoint=proxy.endpoint).storage_options, **more}
        store = FsspecStore(f"{s3_server.make_bucket('particular')}/whole", options)
        store.put("a", b"manifest")
        assert store.get("a").tobytes() == b"manifest"
        assert list(store.list("empty")) == []
        lines = proxy.traffic().lines
    assert [line.partition("&")[0] for line in lines] == [
        "PUT /particular/whole/a",
        "GET /particular/whole/a",
        "GET /particular?list-type=2",
    ]


def test_what_the_direct_requests_cannot_tell_is_left_to_s3fs(s3_server: S3Server) -> None:
    uri = f"{s3_server.make_bucket('particular')}/left"
    direct, left = (FsspecStore(uri, {**s3_server.storage_options, **more}) for more in ({}, LEFT_TO_S3FS))
    direct.put("a", b"0123456789")
    for store in (direct, left):
        assert [bytes(part) for part in store.get_many("a", [0, 8, 2], [1, 10, 4])] == [b"0", b"89", b"23"]
        with pytest.raises(TruncatedError, match="'a'"):
            store.get("a", 5, 11)
        with pytest.raises(DatasetNotFoundError):
            store.get("b", 5, 11)
        with pytest.raises(ExistsError):
            store.put("a", b"other", PutMode.CREATE)
        assert bytes(store.get("a")) == b"0123456789"


def test_one_call_reads_several_objects(s3_server: S3Server) -> None:
    uri = f"{s3_server.make_bucket('particular')}/each"
    direct, left = (FsspecStore(uri, {**s3_server.storage_options, **more}) for more in ({}, LEFT_TO_S3FS))
    for name in "abc":
        direct.put(f"data/{name}", name.encode() * 10)
    wanted = [("data/c", 0, 10), ("data/a", 2, 5), ("data/gone", 0, 1), ("data/b", 8, 11)]
    found = [None if memory is None else bytes(memory) for memory in direct.get_each(wanted)]
    # One is missing, and another is shorter.
    assert found == [b"c" * 10, b"aaa", None, None]
    assert left.get_each(wanted) == [None] * 4
    with pytest.raises(PathPolicyError):
        direct.get_each([("data/a", 0, 1), ("../a", 0, 1)])


def test_many_failures_leave_the_rest_to_s3fs(s3_server: S3Server) -> None:
    with start_proxy(s3_server.endpoint) as proxy:
        options = replace(s3_server, endpoint=proxy.endpoint).storage_options
        store = FsspecStore(f"{s3_server.make_bucket('particular')}/failures", options)
        store.put("a", b"x")
        counts = []
        for _ in range(8):
            proxy.traffic()
            with pytest.raises(TruncatedError):
                store.get("a", 5, 11)
            counts.append(proxy.traffic().requests)
        direct = store._open().direct
        assert direct is not None
        failures = direct._failures
        assert bytes(store.get("a", 0, 1)) == b"x"
        assert direct._failures == failures
        direct._rests_until = 0.0  # a while later
        assert bytes(store.get("a", 0, 1)) == b"x"
        assert direct._failures == 0
    assert counts[0] > counts[-1]


def test_forked_child_uses_what_survives(store: FsspecStore) -> None:
    store.put("a", b"before")
    child = os.fork()
    if not child:
        status = 1
        with suppress(BaseException):
            store.put("a", b"child")
            status = 0 if bytes(store.get("a")) == b"child" else 2
        os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert bytes(store.get("a")) == b"child"


def test_login_of_the_environment(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    store = FsspecStore(
        f"{s3_server.make_bucket('particular')}/environment",
        {"client_kwargs": {"endpoint_url": s3_server.endpoint, "region_name": "us-east-1"}},
    )
    store.put("a", b"x")
    assert bytes(store.get("a")) == b"x"
    assert store._open().direct is not None


def test_pages_of_a_listing(store: FsspecStore, s3_server: S3Server) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda index: store.put(f"v/{index:04}", b"x"), range(1005)))
    names = [f"v/{index:04}" for index in range(1005)]
    assert [meta.path for meta in store.list("v")] == names
    assert [meta.path for meta in store.list("v", start_after="v/0997")] == names[998:]
    with start_proxy(s3_server.endpoint) as proxy:
        options = replace(s3_server, endpoint=proxy.endpoint).storage_options
        assert next(iter(FsspecStore(store.uri, options).list("v"))).path == "v/0000"
        assert proxy.traffic().requests == 1


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


def test_objects_are_encrypted_as_pylance_options_say(s3_server: S3Server) -> None:
    bucket = s3_server.make_bucket("encrypted")
    options = {
        **s3_server.storage_options,
        "aws_server_side_encryption": "aws:kms",
        "aws_sse_kms_key_id": "alias/tables",
        "aws_sse_bucket_key_enabled": "true",
    }
    store = open_store(f"{bucket}/kms", options)
    store.put("small", b"x")
    store.put("created", b"x", PutMode.CREATE)
    with store.put_stream("large") as stream:
        stream.write(bytes(12 << 20))
    import s3fs

    fs = s3fs.S3FileSystem(**s3_server.storage_options)
    for name in ("small", "created", "large"):
        found = fs.call_s3("head_object", Bucket="encrypted", Key=f"kms/{name}")
        assert (found["ServerSideEncryption"], found["SSEKMSKeyId"]) == ("aws:kms", "alias/tables")
    assert bytes(store.get("small")) == b"x"


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


LARGE = DATA * 8


def _parts(server: S3Server, bucket: str) -> list[str]:
    """Keys of the uploads that are neither completed nor aborted."""
    with urllib.request.urlopen(f"{server.endpoint}/{bucket}?uploads", timeout=30) as answer:
        return re.findall("<Key>(.*?)</Key>", answer.read().decode())


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts as small as S3 allows."""
    monkeypatch.setattr(s3_upload, "_PART_BYTES", 5 << 20)


@pytest.mark.usefixtures("small_parts")
def test_parts_are_sent_while_the_writer_is_open(s3_server: S3Server) -> None:
    with start_proxy(s3_server.endpoint) as proxy:
        options = replace(s3_server, endpoint=proxy.endpoint).storage_options
        store = FsspecStore(f"{s3_server.make_bucket('in-parts')}/t", options)
        with store.put_stream("big") as writer:
            for start in range(0, len(LARGE), 1 << 20):
                writer.write(LARGE[start : start + (1 << 20)])
            assert any("uploads" in line for line in proxy.traffic().lines)
        assert bytes(store.get("big")) == LARGE
    assert _parts(s3_server, "in-parts") == []


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("size", [5 << 20, (5 << 20) + 1, 10 << 20, (10 << 20) + 1])
def test_sizes_around_those_of_parts(store: FsspecStore, size: int) -> None:
    with store.put_stream("edge") as writer:
        writer.write(LARGE[:size])
    assert store.head("edge").size == size
    assert bytes(store.get("edge", size - 9)) == LARGE[size - 9 : size]


@pytest.mark.usefixtures("small_parts")
def test_an_upload_that_fails_leaves_no_parts(s3_server: S3Server) -> None:
    store = FsspecStore(f"{s3_server.make_bucket('no-parts')}/t", s3_server.storage_options)

    def write() -> None:
        with store.put_stream("big") as writer:
            writer.write(LARGE)
            assert _parts(s3_server, "no-parts") == ["t/big"]
            raise ValueError("stopped")

    with pytest.raises(ValueError, match="stopped"):
        write()
    assert _parts(s3_server, "no-parts") == []
    with pytest.raises(DatasetNotFoundError):
        store.head("big")


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


@pytest.mark.parametrize("more", [{}, LEFT_TO_S3FS], ids=["direct", "s3fs"])
def test_ranges_that_touch_overlap_or_descend(s3_server: S3Server, more: dict[str, object]) -> None:
    with start_proxy(s3_server.endpoint) as proxy:
        options = {**replace(s3_server, endpoint=proxy.endpoint).storage_options, **more}
        store = FsspecStore(f"{s3_server.make_bucket('particular')}/touching", options)
        store.put("a", DATA)
        for edges in ([0, 10, 20, 30], [500, 10, 490, 20], [0, 0, 0, 7]):
            starts, stops = edges, [edge + 10 for edge in edges]
            found = store.get_many("a", starts, stops)
            assert [bytes(part) for part in found] == [DATA[start : start + 10] for start in starts]
        proxy.traffic()
        # Parts of one large range are requested side by side, and not as one again.
        store.get_many("a", [0, 1 << 20, 2 << 20], [1 << 20, 2 << 20, 3 << 20])
        assert proxy.traffic().requests == 3


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("secret_acess_key", "did you mean 'secret_access_key'"),
        ("KEY", "did you mean 'key'"),
        ("xyzzy", "'xyzzy' is known for s3://$"),
    ],
)
def test_unknown_storage_option_is_named(name: str, hint: str) -> None:
    store = open_store("s3://bucket/t", {"endpoint": "http://127.0.0.1:1", name: "a value of its own"})
    with pytest.raises(StoreError, match=hint) as caught:
        store.head("a")
    assert "a value of its own" not in str(caught.value)


def test_large_objects_may_take_longer(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "_TIMEOUT", timedelta(seconds=0.3))
    with start_proxy(s3_server.endpoint) as proxy:
        options = replace(s3_server, endpoint=proxy.endpoint).storage_options
        store = FsspecStore(f"{s3_server.make_bucket('particular')}/slow", options)
        store.put("a", DATA)
        proxy.delay(1.0)
        proxy.traffic()
        assert store.get("a", 0, 2 << 20).tobytes() == DATA[: 2 << 20]
        assert proxy.traffic().requests == 1
        # A small one is asked for once more, by s3fs.
        assert store.get("a", 0, 100).tobytes() == DATA[:100]
        assert proxy.traffic().requests > 1
