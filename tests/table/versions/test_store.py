"""All version stores keep the contract: conditional put, local link, and a key-value table of the tests' own."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from lancecy.store.base import StoreTraits
from lancecy.store.local import LocalStore
from lancecy.store.memory import MemoryStore
from lancecy.table.versions import ConditionalPut, LocalLink, version_store
from tests.contracts.versions import Published, VersionStoreContract
from tests.helpers.external_versions import ExternalVersions

Make = Callable[[], Published]


class _Contract(VersionStoreContract):
    @pytest.fixture
    def table(self, make_table: Make) -> Published:
        return make_table()


class TestConditionalPut(_Contract):
    @pytest.fixture(params=[False, True], ids=["unordered", "in order"])
    def make_table(self, request: pytest.FixtureRequest) -> Make:
        traits = StoreTraits(lists_in_order=request.param, create_is_atomic=True)
        return lambda: Published(MemoryStore(traits=traits), ConditionalPut(request.param))


class TestLocalLink(_Contract):
    @pytest.fixture
    def make_table(self, tmp_path: Path) -> Make:
        numbers = itertools.count()
        return lambda: Published(LocalStore(str(tmp_path / f"{next(numbers)}")), LocalLink())


class TestExternal(_Contract):
    @pytest.fixture
    def make_table(self) -> Make:
        return lambda: Published(MemoryStore(), ExternalVersions())


class TestExternalOnDisk(_Contract):
    @pytest.fixture
    def make_table(self, tmp_path: Path) -> Make:
        numbers = itertools.count()
        return lambda: Published(LocalStore(str(tmp_path / f"{next(numbers)}")), ExternalVersions())


def test_version_store_follows_from_the_store(tmp_path: Path) -> None:
    assert version_store(LocalStore(str(tmp_path))) == LocalLink(False)
    traits = StoreTraits(lists_in_order=True, create_is_atomic=True)
    assert version_store(MemoryStore(traits=traits)) == ConditionalPut(True)


def test_reader_without_the_external_store_sees_the_last_finished_version() -> None:
    store, external = MemoryStore(), ExternalVersions()
    table = Published(store, external)
    table.publish(1, b"one")
    external.table.put_if_absent(2, "_versions/18446744073709551613.manifest-7b1c")
    store.put("_versions/18446744073709551613.manifest-7b1c", b"two")
    assert Published(store, ConditionalPut()).latest() == 1
    assert table.latest() == 2
    assert Published(store, ConditionalPut()).latest() == 2
