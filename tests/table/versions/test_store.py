"""All version stores keep the contract: conditional put, local link, and external ones."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from lancecy.store.base import StoreTraits
from lancecy.store.key_values import KeyedTable, ManifestItem, MemoryKeyValue, commit_through
from lancecy.store.local import LocalStore
from lancecy.store.memory import MemoryStore
from lancecy.table.versions import ConditionalPut, ExternalVersions, LocalLink, version_store
from tests.contracts.versions import Published, VersionStoreContract
from tests.helpers.external_versions import external_versions

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
        return lambda: Published(MemoryStore(), external_versions())


class TestExternalOnDisk(_Contract):
    @pytest.fixture
    def make_table(self, tmp_path: Path) -> Make:
        numbers = itertools.count()
        return lambda: Published(LocalStore(str(tmp_path / f"{next(numbers)}")), external_versions())


def test_version_store_follows_from_the_store(tmp_path: Path) -> None:
    assert version_store(LocalStore(str(tmp_path))) == LocalLink(False)
    traits = StoreTraits(lists_in_order=True, create_is_atomic=True)
    store = MemoryStore(traits=traits)
    assert version_store(store) == ConditionalPut(True)
    keyed = KeyedTable(MemoryKeyValue(), "t")
    commit_through(store, keyed)
    assert version_store(store) == ExternalVersions(keyed, True)


def test_reader_without_the_external_store_sees_the_last_finished_version() -> None:
    store, external = MemoryStore(), external_versions()
    table = Published(store, external)
    table.publish(1, b"one")
    item = ManifestItem("_versions/18446744073709551613.manifest-7b1c", 3)
    external.keyed.key_values.put_if_absent(external.keyed.table, 2, item)
    store.put("_versions/18446744073709551613.manifest-7b1c", b"two")
    assert Published(store, ConditionalPut()).latest() == 1
    assert table.latest() == 2
    assert Published(store, ConditionalPut()).latest() == 2
