"""Objects are copied between any two stores, whole or not at all."""

from __future__ import annotations

import itertools
import os
import tracemalloc
from pathlib import Path

import pytest

from lancecy.errors import DatasetNotFoundError, StoreError, TruncatedError
from lancecy.store.base import Store
from lancecy.store.copying import CopiesFrom, copy_object, same_bytes
from lancecy.store.fsspec import FsspecStore
from lancecy.store.local import LocalStore
from lancecy.store.memory import MemoryStore
from lancecy.store.wrap import WrappedStore
from tests.helpers.faults import Fault, FaultyStore
from tests.helpers.s3 import S3Server

_numbers = itertools.count()
_LARGE = (17 << 20) + 3


@pytest.fixture
def stores(tmp_path: Path, s3_server: S3Server) -> dict[str, Store]:
    number = next(_numbers)
    buckets = [s3_server.make_bucket(f"copying-{which}") for which in ("one", "two")]
    options = s3_server.storage_options
    return {
        "disk": LocalStore(str(tmp_path / "disk")),
        "other disk": LocalStore(str(tmp_path / "other"), mapped=False),
        "memory": MemoryStore(),
        "fsspec": FsspecStore(f"memory://copying-{number}"),
        "bucket": FsspecStore(f"{buckets[0]}/{number}", options),
        "other bucket": FsspecStore(f"{buckets[1]}/{number}", options),
    }


@pytest.mark.slow
def test_every_store_copies_from_every_other(stores: dict[str, Store]) -> None:
    for size in (0, 5, _LARGE):
        data = os.urandom(size)
        for store in stores.values():
            store.put("data/a", data)
        for (source, one), (target, other) in itertools.product(stores.items(), stores.items()):
            copy_object(one, "data/a", other, "copies/b", size)
            assert bytes(other.get("copies/b")) == data, (source, target, size)
            assert same_bytes(one, "data/a", other, "copies/b"), (source, target, size)


def test_disks_and_buckets_copy_without_the_bytes_passing_through(stores: dict[str, Store]) -> None:
    for source, target in (("disk", "other disk"), ("bucket", "other bucket"), ("bucket", "bucket")):
        stores[source].put("a", b"12345")
        store = stores[target]
        assert isinstance(store, CopiesFrom)
        assert store.copy_from(stores[source], "a", "b"), (source, target)
        assert bytes(store.get("b")) == b"12345"


def test_a_bucket_of_another_login_is_not_asked_to_copy(
    stores: dict[str, Store], s3_server: S3Server
) -> None:
    stores["bucket"].put("a", b"12345")
    other = FsspecStore("s3://copying-two/x", {**s3_server.storage_options, "key": "another"})
    assert not other.copy_from(stores["bucket"], "a", "b")
    assert not other.copy_from(stores["memory"], "a", "b")


def test_a_missing_object_is_named_with_its_store(stores: dict[str, Store]) -> None:
    for name, target in itertools.product(stores, ("disk", "memory", "bucket")):
        with pytest.raises(DatasetNotFoundError, match="'nowhere/x' in") as caught:
            copy_object(stores[name], "nowhere/x", stores[target], "b", 5)
        assert stores[name].uri in str(caught.value)
        assert [meta.path for meta in stores[target].list("")] == []


def test_a_shorter_object_leaves_no_copy(stores: dict[str, Store]) -> None:
    source = stores["memory"]
    source.put("a", bytes(_LARGE))
    with pytest.raises(TruncatedError):
        copy_object(source, "a", stores["disk"], "b", _LARGE + 1)
    assert list(stores["disk"].list("")) == []


def test_a_store_that_fails_leaves_no_copy(stores: dict[str, Store]) -> None:
    source = FaultyStore(MemoryStore(), [Fault("get", 2, error=StoreError("the cable is out"))])
    source.put("a", bytes(_LARGE))
    with pytest.raises(StoreError, match="cable"):
        copy_object(source, "a", stores["disk"], "b", _LARGE)
    assert list(stores["disk"].list("")) == []


@pytest.mark.slow
def test_one_different_byte_is_found(stores: dict[str, Store]) -> None:
    data = bytearray(os.urandom(_LARGE))
    stores["disk"].put("a", bytes(data))
    data[-1] ^= 1
    for store in stores.values():
        store.put("b", bytes(data))
        assert not same_bytes(stores["disk"], "a", store, "b")
        store.put("b", bytes(data[:-1]))
        assert not same_bytes(stores["disk"], "a", store, "b")


def test_equal_checksums_of_a_service_need_no_reading(stores: dict[str, Store]) -> None:
    stores["bucket"].put("a", b"12345")
    copy_object(stores["bucket"], "a", stores["other bucket"], "b", 5)
    broken = FaultyStore(stores["bucket"], [Fault("get", 1, sticky=True, error=StoreError("no reading"))])
    assert same_bytes(broken, "a", stores["other bucket"], "b")


def test_a_large_object_passes_through_in_pieces(tmp_path: Path) -> None:
    size = 96 << 20
    source = LocalStore(str(tmp_path / "a"), mapped=False)
    with source.put_stream("a") as upload:
        for _ in range(12):
            upload.write(os.urandom(8 << 20))
    target = WrappedStore(LocalStore(str(tmp_path / "b")))
    tracemalloc.start()
    try:
        copy_object(source, "a", target, "b", size)
        assert tracemalloc.get_traced_memory()[1] < size // 4
    finally:
        tracemalloc.stop()
    assert same_bytes(source, "a", target, "b")
