"""Every store keeps the contract: local, in memory, behind fsspec, on a real S3 server, and wrapped."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import fsspec
import pytest

from lancecy.store.base import Store
from lancecy.store.fsspec import FsspecStore
from lancecy.store.local import NETWORK, LocalStore
from lancecy.store.memory import MemoryStore
from lancecy.store.wrap import CountingStore, LatencyStore, WrappedStore
from tests.contracts.store import StoreContract
from tests.helpers.faults import FaultyStore
from tests.helpers.object_stores import ACCOUNT_KEY, AzureServer, GcsServer
from tests.helpers.s3 import SECRET, S3Server

_numbers = itertools.count()


class TestLocalMapped(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return LocalStore(str(tmp_path / "root"))


class TestLocalPread(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return LocalStore(str(tmp_path / "root"), mapped=False)


class TestLocalUntrusted(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return LocalStore(str(tmp_path / "root"), mapped=False, follow_symlinks=False)


class TestLocalMappedWithoutLinks(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return LocalStore(str(tmp_path / "root"), follow_symlinks=False)


class TestLocalAsNetworkMount(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return LocalStore(str(tmp_path / "root"), mapped=False, traits=NETWORK)


class TestMemory(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return MemoryStore()


class TestFsspecMemory(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return FsspecStore(f"memory://contract/{next(_numbers)}")


class TestFsspecLocal(StoreContract):
    creates = False
    renames_without_replacing = False
    publishes_at_once = False

    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return FsspecStore(str(tmp_path / "root"), fs=fsspec.filesystem("file"))


class TestFsspecNested(StoreContract):
    """A folder of a file system, as a file system of its own."""

    creates = False
    renames_without_replacing = False
    publishes_at_once = False

    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        inner = fsspec.filesystem("file")
        return FsspecStore("root", fs=fsspec.filesystem("dir", path=str(tmp_path), fs=inner))


@pytest.fixture
def ambient_login(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pickled store has lost its secrets and finds these in the environment instead."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


@pytest.mark.s3
@pytest.mark.usefixtures("ambient_login")
class TestS3(StoreContract):
    renames_without_replacing = False

    @pytest.fixture
    def store(self, s3_server: S3Server) -> Store:
        bucket = s3_server.make_bucket("contract")
        return FsspecStore(f"{bucket}/table-{next(_numbers)}", s3_server.storage_options)


@pytest.mark.s3
@pytest.mark.usefixtures("ambient_login")
class TestS3AtTheRootOfABucket(StoreContract):
    renames_without_replacing = False

    @pytest.fixture
    def store(self, s3_server: S3Server) -> Store:
        return FsspecStore(s3_server.make_bucket(f"root-{next(_numbers)}"), s3_server.storage_options)


@pytest.mark.s3
@pytest.mark.usefixtures("ambient_login")
class TestSecondS3(StoreContract):
    renames_without_replacing = False

    @pytest.fixture
    def store(self, second_s3: S3Server) -> Store:
        bucket = second_s3.make_bucket("contract")
        return FsspecStore(f"{bucket}/table-{next(_numbers)}", second_s3.storage_options)


@pytest.mark.s3
class TestGoogle(StoreContract):
    renames_without_replacing = False

    @pytest.fixture
    def store(self, gcs_server: GcsServer) -> Store:
        bucket = gcs_server.make_bucket("contract")
        return FsspecStore(f"{bucket}/table-{next(_numbers)}", gcs_server.storage_options)


@pytest.mark.s3
class TestAzure(StoreContract):
    renames_without_replacing = False

    @pytest.fixture
    def store(self, azure_server: AzureServer, monkeypatch: pytest.MonkeyPatch) -> Store:
        # A pickled store has lost its login and finds this one.
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", ACCOUNT_KEY)
        container = azure_server.make_bucket("contract")
        return FsspecStore(f"{container}/table-{next(_numbers)}", azure_server.storage_options)


@pytest.mark.parametrize("kind", ["wrapped", "counting", "latency", "faulty"])
class TestWrappers(StoreContract):
    @pytest.fixture
    def store(self, kind: str, tmp_path: Path) -> Store:
        inner = LocalStore(str(tmp_path / "root"))
        remote = replace(inner.traits, is_mapped=False, concurrency=4)
        wrapped: dict[str, WrappedStore] = {
            "wrapped": WrappedStore(inner),
            "counting": CountingStore(inner, traits=remote),
            "latency": LatencyStore(inner, 0.0005),
            "faulty": FaultyStore(inner, []),
        }
        return wrapped[kind]
