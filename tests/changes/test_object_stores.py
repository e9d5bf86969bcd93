"""Tables on each kind of object store: their life, writers at once, and stores that cannot create conditionally."""

from __future__ import annotations

import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import DatasetNotFoundError, ExistsError, LanceError, UnsupportedError
from lancecy.store.fsspec import FsspecStore
from lancecy.store.uri import open_store
from tests.helpers.object_stores import ACCOUNT, ACCOUNT_KEY, RCLONE, AzureServer, GcsServer
from tests.helpers.recorder import Recorder, running
from tests.helpers.s3 import SECRET, S3Server
from tests.helpers.servers import serving

pytestmark = pytest.mark.s3

SERVERS = {"S3": "s3_server", "another S3": "second_s3", "Google": "gcs_server", "Azure": "azure_server"}


@dataclass(frozen=True)
class Place:
    """An empty folder of a store, with the options to open it."""

    uri: str
    options: dict[str, Any] = field(default_factory=dict)

    def write(self, table: pa.Table, **options: Any) -> Any:
        return lancecy.write_dataset(table, self.uri, storage_options=self.options, **options)

    def open(self, **options: Any) -> Any:
        return lancecy.dataset(self.uri, storage_options=self.options, **options)


@pytest.fixture(params=[*SERVERS, "memory", "local"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    name = f"{uuid.uuid4().hex}.lance"
    if request.param == "local":
        return Place(str(tmp_path / name))
    if request.param == "memory":
        return Place(f"memory://tables/{name}")
    server = request.getfixturevalue(SERVERS[request.param])
    return Place(f"{server.make_bucket('tables')}/{name}", server.storage_options)


def rows(start: int, stop: int) -> pa.Table:
    return pa.table(
        {"id": np.arange(start, stop), "text": [f"row {number}" for number in range(start, stop)]}
    )


def ids(dataset: Any) -> list[int]:
    return sorted(dataset.to_table(columns=["id"])["id"].to_pylist())


def test_life_of_a_table(place: Place) -> None:
    place.write(rows(0, 100), max_rows_per_file=40)
    with pytest.raises(ExistsError):
        place.write(rows(0, 1))
    place.write(rows(100, 150), mode="append")
    dataset = place.open()
    dataset.delete("id < 10")
    dataset.update({"text": "'new'"}, where="id = 20")
    assert ids(dataset) == list(range(10, 150))
    assert dataset.to_table(filter="id = 20")["text"].to_pylist() == ["new"]
    assert dataset.take([0, 139])["id"].to_pylist()[0] == 10
    assert place.open(version=1).count_rows() == 100
    dataset.optimize.compact_files()
    before = {meta.path for meta in open_store(place.uri, place.options).list("")}
    time.sleep(1.1)  # clocks of stores may count whole seconds
    stats = place.open().cleanup_old_versions(timedelta(0))
    after = {meta.path for meta in open_store(place.uri, place.options).list("")}
    assert stats.old_versions >= 4
    assert after < before
    assert ids(place.open()) == list(range(10, 150))
    assert len([path for path in after if path.startswith("_versions/")]) == 1


def test_writers_at_once_lose_no_row(place: Place) -> None:
    place.write(rows(0, 1))

    def append(writer: int) -> None:
        for number in range(4):
            start = 1 + writer * 4 + number
            place.write(rows(start, start + 1), mode="append")

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(append, range(4)))
    dataset = place.open()
    assert ids(dataset) == list(range(17))
    assert [entry["version"] for entry in dataset.versions()] == list(range(1, 18))


def test_of_writers_that_create_one_table_one_wins(place: Place) -> None:
    def create(writer: int) -> int | None:
        try:
            place.write(rows(writer, writer + 1))
        except ExistsError:
            return None
        return writer

    with ThreadPoolExecutor(4) as threads:
        (winner,) = [writer for writer in threads.map(create, range(4)) if writer is not None]
    assert ids(place.open()) == [winner]


def test_store_without_conditional_create_is_read_and_not_written(
    plain_s3: S3Server, s3_server: S3Server
) -> None:
    # Trust in a bucket of one server is no trust in one of the same name elsewhere.
    for server in (s3_server, plain_s3):
        server.make_bucket("of-two-servers")
    good = Place("s3://of-two-servers/t.lance", s3_server.storage_options)
    # rclone answers a range with the checksum of the whole object.
    config = {"config_kwargs": {"response_checksum_validation": "when_required"}}
    plain = Place(good.uri, {**plain_s3.storage_options, **config})
    good.write(rows(0, 10), mode="overwrite")
    with pytest.raises(UnsupportedError, match=r"s3://of-two-servers.*external manifest store.*commit_lock"):
        plain.write(rows(0, 10))
    source, target = (open_store(each.uri, each.options) for each in (good, plain))
    assert list(target.list("")) == []
    for meta in source.list(""):
        target.put(meta.path, source.get(meta.path).tobytes())
    assert ids(plain.open()) == list(range(10))
    with pytest.raises(UnsupportedError, match="external manifest store"):
        plain.open().delete("id = 1")
    assert ids(plain.open()) == list(range(10))


@pytest.mark.parametrize("server", SERVERS.values(), ids=SERVERS)
def test_missing_bucket_is_named(server: str, request: pytest.FixtureRequest) -> None:
    running = request.getfixturevalue(server)
    scheme = running.make_bucket("tables").partition(":")[0]
    missing = Place(f"{scheme}://no-such-bucket/t.lance", running.storage_options)
    with pytest.raises(DatasetNotFoundError, match="no-such-bucket"):
        missing.open()
    with pytest.raises(DatasetNotFoundError):
        list(open_store(missing.uri, missing.options).list(""))
    with pytest.raises(LanceError, match="no-such-bucket"):
        missing.write(rows(0, 1))


def test_anonymous_reads_sign_nothing(s3_server: S3Server, gcs_server: GcsServer) -> None:
    for server, names in (
        (s3_server, ({"anon": True}, {"aws_skip_signature": "true"})),
        (gcs_server, ({"token": "anon"}, {"google_skip_signature": "true"})),
    ):
        uri = f"{server.make_bucket('public')}/{uuid.uuid4().hex}.lance"
        Place(uri, server.storage_options).write(rows(0, 5))
        for options in names:
            with running(Recorder(server.endpoint)) as recorder:
                public = Place(uri, {"endpoint_url": recorder.url, **options})
                assert ids(public.open()) == list(range(5))
            assert recorder.requests
            assert not [text for text in recorder.requests if "authorization:" in text.lower()]


@pytest.mark.parametrize("name", ["anon", "azure_skip_signature"])
def test_anonymous_reads_of_a_public_container(azure_server: AzureServer, name: str) -> None:
    from azure.storage.blob import BlobServiceClient

    private = Place(f"{azure_server.make_bucket('private')}/t.lance", azure_server.storage_options)
    private.write(rows(0, 5), mode="overwrite")
    login = {"account_name": ACCOUNT, "endpoint": f"{azure_server.endpoint}/{ACCOUNT}", name: "true"}
    with pytest.raises(LanceError):
        Place(private.uri, login).open()
    azure_server.make_bucket("public")
    with BlobServiceClient.from_connection_string(azure_server.connection) as client:
        client.get_container_client("public").set_container_access_policy({}, public_access="container")
    Place("az://public/t.lance", azure_server.storage_options).write(rows(0, 5), mode="overwrite")
    assert ids(Place("az://public/t.lance", login).open()) == list(range(5))
    with pytest.raises(LanceError):
        Place("az://public/t.lance", login).write(rows(5, 6), mode="append")


def pylance_options(server: Any) -> dict[str, str]:
    """Options by pylance's names."""
    if isinstance(server, AzureServer):
        login = {"azure_storage_account_name": ACCOUNT, "azure_storage_account_key": ACCOUNT_KEY}
        return {**login, "azure_storage_endpoint": f"{server.endpoint}/{ACCOUNT}", "allow_http": "true"}
    login = {"aws_access_key_id": "test", "aws_secret_access_key": SECRET, "aws_region": "us-east-1"}
    return {**login, "aws_endpoint": server.endpoint, "allow_http": "true"}


# pylance lists Google's buckets with the XML interface, which no emulator on a registry has.
@pytest.mark.interop
@pytest.mark.parametrize("server", ["s3_server", "second_s3", "azure_server"])
def test_both_libraries_write_one_table_with_the_same_options(
    server: str, request: pytest.FixtureRequest
) -> None:
    import lance

    running_server = request.getfixturevalue(server)
    options = pylance_options(running_server)
    place = Place(f"{running_server.make_bucket('shared')}/{uuid.uuid4().hex}.lance", options)
    lance.write_dataset(rows(0, 10), place.uri, storage_options=options)
    place.write(rows(10, 20), mode="append")

    def append(writer: int) -> None:
        for number in range(3):
            start = 20 + writer * 3 + number
            if writer % 2:
                lance.write_dataset(rows(start, start + 1), place.uri, mode="append", storage_options=options)
            else:
                place.write(rows(start, start + 1), mode="append")

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(append, range(4)))
    theirs = lance.dataset(place.uri, storage_options=options)
    assert ids(theirs) == ids(place.open()) == list(range(32))
    assert place.open().version == theirs.version == 14


@pytest.mark.slow
@pytest.mark.parametrize("server", SERVERS.values(), ids=SERVERS)
def test_large_objects_are_uploaded_in_parts_and_copied_whole(
    server: str, request: pytest.FixtureRequest
) -> None:
    running_server = request.getfixturevalue(server)
    data = np.random.default_rng(1).integers(0, 256, 70 << 20, dtype=np.uint8)
    folders = [f"{running_server.make_bucket(name)}/{uuid.uuid4().hex}" for name in ("large", "copies")]
    store, other = (open_store(folder, running_server.storage_options) for folder in folders)
    with store.put_stream("big") as writer:
        for start in range(0, data.size, 16 << 20):
            writer.write(data[start : start + (16 << 20)].tobytes())
    assert isinstance(other, FsspecStore)
    assert other.copy_from(store, "big", "copy")
    other.rename("copy", "renamed")
    assert [meta.path for meta in other.list("")] == ["renamed"]
    assert other.head("renamed").size == data.size
    for start in (0, (50 << 20) - 7, data.size - 20):
        assert (other.get("renamed", start, start + 20) == data[start : start + 20]).all()
    for each, name in ((store, "big"), (other, "renamed")):
        each.delete([name])


@pytest.mark.parametrize("protocol", ["http", "ftp"])
def test_table_is_read_by_any_url_of_fsspec(protocol: str, tmp_path: Path) -> None:
    table = lancecy.write_dataset(rows(0, 20), tmp_path / "served" / "t.lance", max_rows_per_file=10)
    table.append(rows(20, 30))
    (tmp_path / "served" / "empty").mkdir()
    writable = {"http": [], "ftp": ["--user", "me", "--pass", SECRET]}[protocol]

    def command(port: int, _: Path) -> list[str]:
        return [RCLONE, "serve", protocol, "--addr", f"127.0.0.1:{port}", *writable, str(tmp_path / "served")]

    with serving(command) as address:
        host = address.removeprefix("http://")
        options = {"username": "me", "password": SECRET} if protocol == "ftp" else {}
        place = Place(f"{protocol}://{host}/t.lance", options)
        assert ids(place.open()) == list(range(30))
        assert ids(place.open(version=1)) == list(range(20))
        assert place.open().to_table(filter="id = 13")["text"].to_pylist() == ["row 13"]
        with pytest.raises(UnsupportedError, match=rf"{protocol}://.*external manifest store"):
            place.open().delete("id = 1")
        with pytest.raises(UnsupportedError, match="external manifest store") as caught:
            Place(f"{protocol}://{host}/empty/new.lance", options).write(rows(0, 1))
        assert SECRET not in str(caught.value)
    assert list((tmp_path / "served" / "empty").iterdir()) == []
    assert lancecy.dataset(tmp_path / "served" / "t.lance").version == 2


def test_store_without_conditional_create_is_written_through_a_manifest_store(
    plain_s3: S3Server, tmp_path: Path
) -> None:
    bucket = plain_s3.make_bucket("with-versions-elsewhere")
    config = {"config_kwargs": {"response_checksum_validation": "when_required"}}
    options = {**plain_s3.storage_options, **config}
    place = Place(
        f"{bucket}/{uuid.uuid4().hex}.lance",
        {**options, "manifest_store": f"sqlite:///{tmp_path}/versions.db"},
    )
    place.write(rows(0, 1))

    def append(writer: int) -> None:
        for number in range(3):
            start = 1 + writer * 3 + number
            place.write(rows(start, start + 1), mode="append")

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(append, range(4)))
    assert ids(place.open()) == list(range(13))
    assert place.open().version == 13
    assert ids(Place(place.uri, options).open()) == list(range(13))
