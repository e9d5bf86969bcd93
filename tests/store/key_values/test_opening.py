"""A storage option names the key-value store through which a table is committed."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pytest
from fsspec.implementations.local import LocalFileSystem

import lancecy
from lancecy.errors import StoreError, UnsupportedError
from lancecy.store.key_values import (
    ManifestItem,
    ManifestKeyValue,
    MemoryKeyValue,
    opening,
    register_key_values,
)
from lancecy.store.uri import open_store
from lancecy.table.versions import ExternalVersions, version_store


class PlainFiles(LocalFileSystem):  # type: ignore[misc]
    """Files by a URL, without a way to create one only if it is absent."""

    protocol = "plain"


fsspec.register_implementation("plain", PlainFiles, clobber=True)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return f"plain://{tmp_path}/t"


def _rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64())})


def _values(ds: lancecy.Dataset) -> list[int]:
    values: list[int] = ds.to_table()["a"].to_pylist()
    return values


class Unsendable(MemoryKeyValue):
    """A user's own store, which holds what no other process can have."""

    def __init__(self) -> None:
        super().__init__()
        self.connection = threading.Lock()

    def __getstate__(self) -> Any:
        raise TypeError("no pickle")


def test_store_without_conditional_create_is_written_through_a_key_value_store(uri: str) -> None:
    with pytest.raises(UnsupportedError):
        lancecy.write_dataset(_rows(1), uri)
    options = {"manifest_store": MemoryKeyValue()}
    ds = lancecy.write_dataset(_rows(1), uri, storage_options=options)
    lancecy.write_dataset(_rows(2), ds, mode="append")
    ds = lancecy.write_dataset(_rows(3), uri, mode="append", storage_options=options)
    ds.delete("a = 1")
    assert _values(lancecy.dataset(uri, storage_options=options)) == [2, 3]
    assert lancecy.dataset(uri, storage_options=options).version == 4
    # A copy of the folder needs no key-value store.
    assert _values(lancecy.dataset(uri.removeprefix("plain://"))) == [2, 3]


def test_what_needs_a_conditional_create_itself_is_refused_by_name(uri: str) -> None:
    ds = lancecy.write_dataset(_rows(1), uri, storage_options={"manifest_store": MemoryKeyValue()})
    for refused in (lambda: ds.tags.create("one", 1), lambda: ds.create_branch("try")):
        with pytest.raises(UnsupportedError, match="only if it is absent.*tag or branch"):
            refused()
    assert _values(ds) == [1]


@pytest.mark.slow
def test_many_threads_lose_nothing_on_a_store_without_conditional_create(uri: str) -> None:
    options = {"manifest_store": MemoryKeyValue()}
    lancecy.write_dataset(_rows(0), uri, storage_options=options)

    def append(first: int) -> None:
        for value in range(first, first + 5):
            lancecy.write_dataset(_rows(value), uri, mode="append", storage_options=options)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(append, range(100, 500, 100)))
    ds = lancecy.dataset(uri, storage_options=options)
    assert (ds.version, ds.count_rows(), len(set(_values(ds)))) == (21, 21, 21)


def test_local_disk_takes_one_too(tmp_path: Path) -> None:
    items = MemoryKeyValue()
    ds = lancecy.write_dataset(_rows(1), tmp_path / "t", storage_options={"manifest_store": items})
    assert [version for version, _ in items.above(str(tmp_path / "t"))] == [1]
    branch = lancecy.write_dataset(_rows(2), ds.create_branch("try"), mode="append")
    assert _values(branch) == [1, 2]
    assert [version for version, _ in items.above(str(tmp_path / "t/tree/try"))] == [1, 2]
    ds.branches.delete("try")
    assert items.latest(str(tmp_path / "t/tree/try")) is None


def test_scheme_of_an_own_store_can_be_registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Messages of other tests list the schemes that are known.
    monkeypatch.setattr(opening, "_FACTORIES", dict(opening._FACTORIES))
    items = MemoryKeyValue()

    def opened(url: str, options: Any) -> ManifestKeyValue:
        assert (url, dict(options)) == ("own+tls://host/name", {})
        return items

    register_key_values("own", opened)
    lancecy.write_dataset(_rows(1), tmp_path / "t", storage_options={"manifest_store": "own+tls://host/name"})
    assert items.latest(str(tmp_path / "t")) is not None


@pytest.mark.parametrize("given", ["nowhere://x", "x"])
def test_unknown_stores_are_refused(tmp_path: Path, given: str) -> None:
    with pytest.raises(UnsupportedError, match=r"there are .*://"):
        lancecy.dataset(tmp_path, storage_options={"manifest_store": given})


def test_object_without_the_methods_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="not dict"):
        lancecy.dataset(tmp_path, storage_options={"manifest_store": {}})


@pytest.mark.slow
def test_table_of_another_process_is_read_there_and_not_committed_past_its_store(
    uri: str, tmp_path: Path
) -> None:
    ds = lancecy.write_dataset(_rows(1), uri, storage_options={"manifest_store": Unsendable()})
    (tmp_path / "ds").write_bytes(pickle.dumps(ds))
    script = f"""
import fsspec, pickle, pyarrow as pa
from fsspec.implementations.local import LocalFileSystem
fsspec.register_implementation("plain", type("Plain", (LocalFileSystem,), {{"protocol": "plain"}}))
import lancecy
ds = pickle.load(open({str(tmp_path / "ds")!r}, "rb"))
print(ds.to_table()["a"].to_pylist())
try:
    lancecy.write_dataset(pa.table({{"a": [2]}}), ds, mode="append")
except lancecy.errors.StoreError as error:
    print(error)
"""
    place = str(Path(lancecy.__file__).parents[1])
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False, cwd=place
    )
    assert found.stdout.startswith("[1]\n"), found.stderr
    assert "an object of class Unsendable" in found.stdout
    assert _values(lancecy.write_dataset(_rows(3), ds, mode="append")) == [1, 3]


def test_opened_store_pickles_with_the_key_value_store_or_a_stand_in(tmp_path: Path) -> None:
    items = MemoryKeyValue()
    items.put_if_absent(str(tmp_path), 1, ManifestItem("_versions/1.manifest"))
    for given, has in ((items, True), (Unsendable(), False)):
        store = pickle.loads(pickle.dumps(open_store(tmp_path, {"manifest_store": given})))
        versions = version_store(store)
        assert isinstance(versions, ExternalVersions)
        if has:
            assert versions.keyed.key_values.latest(str(tmp_path)) is not None
        else:
            assert versions.keyed.key_values.latest(str(tmp_path)) is None
            with pytest.raises(StoreError, match="Unsendable"):
                versions.keyed.key_values.put_if_absent(
                    str(tmp_path), 2, ManifestItem("_versions/2.manifest")
                )
