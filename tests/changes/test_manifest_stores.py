"""Tables that are committed through SQL databases, as a user writes, reads and sends them."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any

import dask
import lance
import pytest

import lancecy
from lancecy.errors import StoreError, UnsupportedError
from lancecy.store.credentials import redact
from tests.helpers.postgres import PASSWORD, PostgresServer


@pytest.fixture(params=["sqlite", "postgresql"])
def options(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """Storage options that name a database."""
    if request.param == "sqlite":
        return {"manifest_store": f"sqlite:///{tmp_path}/manifests.db"}
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return {"manifest_store": server.url()}


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "t.lance")


def rows_of(options: dict[str, Any], uri: str) -> list[int]:
    """The versions that the database knows of a table."""
    return [version for version, _ in lancecy.SqlManifestStore(options["manifest_store"]).above(uri)]


def test_every_kind_of_change_is_committed_through_the_database(options: dict[str, Any], uri: str) -> None:
    ds = lancecy.write_dataset({"a": [1, 2, 3]}, uri, storage_options=options)
    ds.append({"a": [4]})
    ds.delete("a = 1")
    ds.update({"a": "a * 10"}, where="a = 4")
    assert rows_of(options, uri) == [1, 2, 3, 4]
    ds.tags.create("kept")
    branch = ds.create_branch("side")
    branch.append({"a": [5]})
    assert rows_of(options, f"{uri}/tree/side") == [branch.version - 1, branch.version]
    ds.append({"a": [6]})
    ds.cleanup_old_versions(retain_versions=1, error_if_tagged_old_versions=False)
    assert rows_of(options, uri) == [4, 5]
    assert sorted(lance.dataset(uri).to_table()["a"].to_pylist()) == [2, 3, 6, 40]
    assert sorted(
        lancecy.dataset(uri, ("side", None), storage_options=options).to_table()["a"].to_pylist()
    ) == [2, 3, 5, 40]


@pytest.mark.slow
def test_table_goes_from_hand_to_hand(options: dict[str, Any], uri: str) -> None:
    """It gets a manifest store later, and is read by its folder alone after it was copied."""
    ds = lancecy.write_dataset({"a": [1]}, uri)
    ds.append({"a": [2]})
    ds = lancecy.dataset(uri, storage_options=options)
    ds.append({"a": [3]})
    assert [entry["version"] for entry in ds.versions()] == [1, 2, 3]
    assert rows_of(options, uri) == [3]
    shutil.copytree(uri, f"{uri}.copy")
    for library in (lance, lancecy):
        assert library.dataset(f"{uri}.copy").count_rows() == 3
    assert lancecy.dataset(f"{uri}.copy", storage_options=options).append({"a": [4]}) is None
    assert (rows_of(options, uri), rows_of(options, f"{uri}.copy")) == ([3], [4])


def test_paths_of_one_folder_are_one_table(tmp_path: Path, uri: str) -> None:
    options = {"manifest_store": f"sqlite:///{tmp_path}/m.db"}
    lancecy.write_dataset({"a": [1]}, uri, storage_options=options)
    (tmp_path / "link").symlink_to(tmp_path)
    lancecy.dataset(f"{tmp_path}/link/t.lance", storage_options=options).append({"a": [2]})
    assert rows_of(options, uri) == [1, 2]


@pytest.mark.slow
def test_dask_and_pickles_carry_the_store_without_its_password(
    options: dict[str, Any], uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    ds = lancecy.write_dataset({"a": list(range(10))}, uri, max_rows_per_file=5, storage_options=options)
    object_options = {"manifest_store": lancecy.SqlManifestStore(options["manifest_store"])}
    for given in (options, object_options):
        frame = lancecy.scan(uri, storage_options=given)
        sent = pickle.dumps([lancecy.dataset(uri, storage_options=given), frame.dask])
        assert PASSWORD.encode() not in sent
        with dask.config.set(scheduler="processes", num_workers=1):
            assert frame.a.sum().compute() == 45
    copy = pickle.loads(pickle.dumps(ds))
    copy.append({"a": [10]})
    lancecy.write_dask(lancecy.scan(uri, storage_options=options), f"{uri}2", storage_options=options)
    assert rows_of(options, uri) == [1, 2]
    assert rows_of(options, f"{uri}2") == [1]


def test_password_alone_is_taken_out_of_a_url() -> None:
    assert redact({"manifest_store": "postgresql://me:pw@host/d"}) == {
        "manifest_store": "postgresql://me@host/d"
    }
    assert redact({"manifest_store": "postgresql://host/d?password=x"}) == {}
    assert redact({"manifest_store": object()}) == {}


def test_wrong_manifest_store_is_refused_before_anything_is_written(uri: str) -> None:
    wrong: list[tuple[object, type[Exception], str]] = [
        (5, TypeError, "'manifest_store' is a URL or an object with the methods of"),
        (
            "redis://host/1",
            UnsupportedError,
            "for redis:// is known; there are dynamodb://, postgresql://, sqlite://$",
        ),
        ("postgres://host/d", UnsupportedError, "did you mean postgresql://"),
        ("sqlite://", ValueError, "a file that all processes"),
        (
            "postgresql://me:s3cret-word@127.0.0.1:1/d",
            StoreError,
            r"127.0.0.1:1/d'. failed \(2 tries\): connection failed",
        ),
    ]
    for given, kind, said in wrong:
        options = {"manifest_store": given, "client_max_retries": 1}
        with pytest.raises(kind, match=said) as caught:
            lancecy.write_dataset({"a": [1]}, uri, storage_options=options)
        assert "s3cret-word" not in str(caught.value)
        assert not Path(uri, "data").exists()
