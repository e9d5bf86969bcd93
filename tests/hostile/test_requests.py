"""What a stranger's table makes this process send, and to whom: seen by a server that keeps every request."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lancecy
from lancecy.errors import LanceError, PathPolicyError
from lancecy.proto import table_pb2
from lancecy.session import Session
from lancecy.store.base import Store
from lancecy.store.memory import MemoryStore
from lancecy.store.uri import open_store
from lancecy.table.bases import Bases
from lancecy.table.location import TableLocation
from lancecy.table.manifest import BasePaths
from lancecy.table.paths import DATA
from tests.helpers.builders import make_base
from tests.helpers.datasets import write_table
from tests.helpers.mutate import tail_message, with_tail
from tests.helpers.recorder import Recorder, heard_of, running
from tests.helpers.s3 import S3Server

OURS = {"key": "KEY-of-the-root", "secret": "SECRET-of-the-root", "base_7.secret": "SECRET-of-base-7"}
AMBIENT = {"AWS_ACCESS_KEY_ID": "KEY-from-around", "AWS_SECRET_ACCESS_KEY": "SECRET-from-around"}
SIGNED = {"key": "KEY-of-the-root", "secret": "SECRET-of-the-root", "token": "TOKEN-of-the-root"}
ROOT = ("KEY-of-the-root", "TOKEN-of-the-root")


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    """The server that everybody who asks for no other one would turn to, with credentials lying about."""
    with running(Recorder()) as server:
        metadata = {"AWS_EC2_METADATA_SERVICE_ENDPOINT": server.url, "AWS_EC2_METADATA_DISABLED": "false"}
        for name, value in {**AMBIENT, **metadata, "AWS_ENDPOINT_URL": server.url}.items():
            monkeypatch.setenv(name, value)
        yield server


def with_base(manifest: bytes, place: str) -> bytes:
    """The manifest of a table whose data is in ``place``."""
    position, message = tail_message(manifest, table_pb2.Manifest)
    message.base_paths.add(id=1, path=place, is_dataset_root=True)
    message.reader_feature_flags |= 16
    message.writer_feature_flags |= 16
    for fragment in message.fragments:
        for file in fragment.files:
            file.base_id = 1
    return with_tail(manifest, position, message)


def table_over(root: Path, place: str) -> str:
    """A table whose manifest says that its data is in ``place``."""
    write_table(str(root), fragments=1, rows=8, data_version="2.1")
    [path] = root.glob("_versions/*.manifest")
    path.write_bytes(with_base(path.read_bytes(), place))
    return str(root)


@pytest.mark.s3
@pytest.mark.parametrize("untrusted", [False, True])
@pytest.mark.parametrize("place", ["s3://attacker/x", "http", "http://169.254.169.254/latest/meta-data"])
def test_nobody_hears_of_a_base_that_was_not_granted(
    place: str, untrusted: bool, recorder: Recorder, tmp_path: Path
) -> None:
    root = table_over(tmp_path / "t.lance", f"{recorder.url}/x" if place == "http" else place)
    check_nothing_is_said(root, recorder, storage_options=OURS, untrusted=untrusted)


@pytest.mark.s3
def test_no_instance_is_asked_for_credentials_because_of_a_base(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in AMBIENT:
        monkeypatch.delenv(name)
    root = table_over(tmp_path / "t.lance", "s3://attacker/x")
    check_nothing_is_said(root, recorder)


def check_nothing_is_said(root: str, recorder: Recorder, **how: Any) -> None:
    """Every way of reading is refused, and the server never hears of it."""
    ds = lancecy.dataset(root, **how)
    for read in (
        ds.to_table,
        lambda: ds.take([0]),
        lambda: ds.count_rows("id > 3"),
        lambda: list(ds.to_batches()),
    ):
        with pytest.raises(PathPolicyError):
            read()
    assert not ds.verify()
    assert recorder.requests == []


@pytest.mark.s3
@pytest.mark.parametrize("untrusted", [False, True])
def test_a_granted_base_gets_its_own_credentials_and_no_others(
    untrusted: bool, recorder: Recorder, tmp_path: Path
) -> None:
    root = table_over(tmp_path / "t.lance", "s3://attacker/x")
    where = {"base_1.client_kwargs": {"endpoint_url": recorder.url}}
    options = {**OURS, **where, "base_1.key": "KEY-of-base-1", "base_1.secret": "SECRET-of-base-1"}
    ds = lancecy.dataset(root, storage_options=options, untrusted=untrusted, allowed_bases=["s3://attacker"])
    with pytest.raises(LanceError):
        ds.to_table()
    assert recorder.requests
    for said in recorder.requests:
        assert "/attacker" in said.partition("\n")[0]
        assert "Credential=KEY-of-base-1" in said
        assert "of-the-root" not in said and "from-around" not in said and "base-7" not in said
        assert "SECRET" not in said


# -- tables in a bucket, over two servers: one that holds it, and one that others would like to be asked ----------


@pytest.fixture
def holder(s3_server: S3Server) -> Iterator[Recorder]:
    """The S3 server that holds the tables, with a record of who asked it for what."""
    for name in ("requests-root", "requests-data"):
        s3_server.make_bucket(name)
    with running(Recorder(s3_server.endpoint)) as server:
        yield server


def options_of(server: Recorder, **login: Any) -> dict[str, Any]:
    """How to reach the tables of a server: with the login of the root unless another one is given."""
    return {**(login or SIGNED), "client_kwargs": {"endpoint_url": server.url, "region_name": "us-east-1"}}


def bucket_over(server: Recorder, place: str) -> str:
    """A table in a bucket whose data is in ``place``, or stays where it is if nothing can be written there."""
    uri, options = f"s3://requests-root/{uuid.uuid4().hex}", options_of(server)
    write_table(uri, fragments=1, rows=8, data_version="2.1", opener=lambda root: open_store(root, options))
    store = open_store(uri, options)
    [found] = store.list("_versions")
    store.put(found.path, with_base(bytes(store.get(found.path)), place))
    if place.startswith("s3://requests-"):
        target = open_store(place, options)
        for data in list(store.list("data")):
            target.put(data.path, bytes(store.get(data.path)))
    server.requests.clear()
    return uri


def data_place() -> str:
    """A new place in a bucket other than that of the root."""
    return f"s3://requests-data/{uuid.uuid4().hex}"


@pytest.mark.s3
def test_another_bucket_is_asked_with_the_login_of_the_root_at_the_same_endpoint(
    holder: Recorder, recorder: Recorder
) -> None:
    uri = bucket_over(holder, data_place())
    assert lancecy.dataset(uri, storage_options=options_of(holder)).count_rows("id >= 0") == 8
    assert heard_of(holder.requests) == {"requests-root": {ROOT}, "requests-data": {ROOT}}
    assert not any("SECRET" in said for said in holder.requests)
    assert recorder.requests == []


@pytest.mark.s3
def test_a_root_without_a_login_stays_without_one_in_another_bucket(
    holder: Recorder, recorder: Recorder
) -> None:
    uri = bucket_over(holder, data_place())
    ds = lancecy.dataset(uri, storage_options=options_of(holder, anon=True))
    assert ds.count_rows("id >= 0") == 8
    assert heard_of(holder.requests) == {"requests-root": {("", "")}, "requests-data": {("", "")}}
    assert recorder.requests == []


@pytest.mark.s3
def test_a_base_with_a_login_of_its_own_is_not_asked_with_that_of_the_root(
    holder: Recorder, recorder: Recorder
) -> None:
    uri = bucket_over(holder, data_place())
    own = {"base_1.key": "KEY-of-base-1", "base_1.secret": "SECRET-of-base-1"}
    for login, root in ((SIGNED, ROOT), ({"anon": True}, ("", ""))):
        holder.requests.clear()
        ds = lancecy.dataset(uri, storage_options={**options_of(holder, **login), **own})
        assert ds.count_rows("id >= 0") == 8
        assert heard_of(holder.requests) == {
            "requests-root": {root},
            "requests-data": {("KEY-of-base-1", "")},
        }
    assert recorder.requests == []


@pytest.mark.s3
@pytest.mark.parametrize("untrusted", [False, True])
@pytest.mark.parametrize("place", ["http", "s3://arn:aws:s3:us-east-1:12:accesspoint/ap/x"])
def test_another_endpoint_hears_nothing_of_a_table_in_a_bucket(
    place: str, untrusted: bool, holder: Recorder, recorder: Recorder
) -> None:
    uri = bucket_over(holder, f"{recorder.url}/x" if place == "http" else place)
    check_nothing_is_said(uri, recorder, storage_options=options_of(holder), untrusted=untrusted)
    assert set(heard_of(holder.requests)) == {"requests-root"}


@pytest.mark.s3
def test_untrusted_table_asks_for_nothing_in_another_bucket(holder: Recorder, recorder: Recorder) -> None:
    uri = bucket_over(holder, data_place())
    check_nothing_is_said(uri, recorder, storage_options=options_of(holder), untrusted=True)
    assert set(heard_of(holder.requests)) == {"requests-root"}


@pytest.mark.s3
def test_another_endpoint_that_is_granted_hears_of_its_own_base_only(
    holder: Recorder, recorder: Recorder
) -> None:
    uri = bucket_over(holder, data_place())
    own = {
        "base_1.key": "KEY-of-base-1",
        "base_1.secret": "SECRET-of-base-1",
        "base_1.client_kwargs": {"endpoint_url": recorder.url, "region_name": "us-east-1"},
    }
    ds = lancecy.dataset(uri, storage_options={**options_of(holder), **own})
    with pytest.raises(LanceError):
        ds.to_table()
    assert heard_of(recorder.requests) == {"requests-data": {("KEY-of-base-1", "")}}
    assert heard_of(holder.requests) == {"requests-root": {ROOT}}


@pytest.mark.s3
def test_a_redirect_of_the_service_itself_takes_no_signature_elsewhere(
    holder: Recorder, recorder: Recorder
) -> None:
    uri = bucket_over(holder, data_place())
    holder.moved.append(("/requests-data", recorder.url))
    with pytest.raises(LanceError):
        lancecy.dataset(uri, storage_options=options_of(holder)).to_table()
    assert heard_of(holder.requests)["requests-data"] == {ROOT}
    # aiohttp follows it: what arrives there is unsigned, and without the secret a session token opens nothing.
    assert not any("Credential=" in said or "Signature=" in said for said in recorder.requests)


def test_headers_for_a_web_server_go_to_its_host_and_port_only(recorder: Recorder) -> None:
    headers = {"client_kwargs": {"headers": {"Authorization": "Bearer TOKEN-of-the-root"}}}
    with running(Recorder()) as host:

        def place_in(server: str) -> tuple[Store, str]:
            bases = BasePaths({1: make_base(1, f"{server}/x")})
            location = TableLocation.of(f"{host.url}/t", headers)
            return Bases(MemoryStore(location.uri), location, bases, Session()).folder(1, DATA)

        for other in (recorder.url, host.url.replace("127.0.0.1", "localhost")):
            with pytest.raises(PathPolicyError, match="allowed_bases"):
                place_in(other)
        store, _ = place_in(host.url)
        with pytest.raises(LanceError):
            store.get("a")
        assert len(host.requests) > 0
        assert all("Authorization: Bearer TOKEN-of-the-root" in said for said in host.requests)
    assert recorder.requests == []
