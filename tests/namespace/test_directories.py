"""V1: a table is a directory ``<name>.lance`` of the root."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance_namespace as ln
import pytest

import lancecy
from lancecy.errors import StoreError
from lancecy.namespace import DirectoryNamespace
from tests.helpers.namespaces import (
    MODES,
    create,
    declare,
    deregister,
    describe,
    drop,
    exists,
    make,
    ours,
    tables,
    theirs,
)


def v1(root: Path | str, **properties: str) -> DirectoryNamespace:
    found: DirectoryNamespace = ours(root, manifest_enabled="false", **properties)
    return found


def test_tables_are_directories_with_an_entry(tmp_path: Path) -> None:
    lancecy.write_dataset({"a": [1]}, tmp_path / "one.lance")
    (tmp_path / "empty.lance").mkdir()
    (tmp_path / "file.lance").write_text("x")
    (tmp_path / "other").mkdir()
    ns = v1(tmp_path)
    assert tables(ns) == tables(ours(tmp_path)) == ["one"]
    assert [exists(ns, name) for name in ("one", "empty", "file", "other")] == [True, False, False, False]
    assert describe(ns, "one").location == str(tmp_path / "one.lance")
    assert not (tmp_path / "__manifest").exists()


@pytest.mark.parametrize("mode", MODES)
def test_directory_that_a_process_died_in_before_its_first_file_is_no_table(
    tmp_path: Path, mode: str
) -> None:
    (tmp_path / "t.lance").mkdir()
    (tmp_path / "t.lance" / ".tmp_0123456789abcdef").write_bytes(b"")
    ns = ours(tmp_path, **MODES[mode])
    assert (tables(ns), exists(ns, "t")) == ([], False)
    create(ns, "t")
    assert (tables(ns), exists(ns, "t")) == (["t"], True)
    drop(ns, "t")
    assert tables(ns) == []


def test_root_is_a_uri_or_an_absolute_or_relative_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lancecy.write_dataset({"a": [1]}, tmp_path / "dir" / "t.lance")
    monkeypatch.chdir(tmp_path)
    for root in (
        "dir",
        "./dir/",
        str(tmp_path / "dir"),
        (tmp_path / "dir").as_uri(),
        "file://" + str(tmp_path / "dir"),
    ):
        ns = v1(root)
        monkeypatch.chdir("/")  # a relative root is that of the moment it was given
        assert (tables(ns), ns.root) == (["t"], str(tmp_path / "dir"))
        monkeypatch.chdir(tmp_path)


def test_missing_root_has_no_tables_and_nothing_is_made(tmp_path: Path) -> None:
    ns = v1(tmp_path / "none")
    assert tables(ns) == []
    assert not exists(ns, "t")
    assert not (tmp_path / "none").exists()


def test_tables_are_created_declared_deregistered_and_dropped(tmp_path: Path) -> None:
    ns = v1(tmp_path)
    answer = create(ns, "t", {"a": [1, 2]})
    assert (answer.version, answer.location) == (1, str(tmp_path / "t.lance"))
    with pytest.raises(ln.TableAlreadyExistsError):
        create(ns, "t")
    declare(ns, "later")
    assert (tmp_path / "later.lance" / ".lance-reserved").read_bytes() == b"reserved"
    with pytest.raises(ln.TableAlreadyExistsError):
        declare(ns, "later")
    assert describe(ns, "later", check_declared=True).is_only_declared
    assert tables(ns, include_declared=False) == ["t"]
    lancecy.write_dataset({"a": [1]}, tmp_path / "later.lance")
    assert not describe(ns, "later", check_declared=True).is_only_declared
    deregister(ns, "t")
    assert tables(ns) == ["later"]
    assert not exists(ns, "t")
    with pytest.raises(ln.TableNotFoundError):
        deregister(ns, "t")
    with pytest.raises(ln.TableAlreadyExistsError, match="deregistered"):
        create(ns, "t")
    assert lancecy.dataset(tmp_path / "t.lance").count_rows() == 2
    drop(ns, "t")
    drop(ns, "later")
    assert os.listdir(tmp_path) == []
    with pytest.raises(ln.TableNotFoundError):
        drop(ns, "t")


def test_v1_has_no_namespaces(tmp_path: Path) -> None:
    ns = v1(tmp_path)
    for call in (
        lambda: make(ns, "a"),
        lambda: create(ns, "a.t"),
        lambda: create(ns, "t", properties={"k": "v"}),
        lambda: exists(ns, "a.t"),
    ):
        with pytest.raises(ln.UnsupportedOperationError, match="manifest_enabled"):
            call()


def test_listing_goes_on_after_a_page(tmp_path: Path) -> None:
    for name in "abcde":
        lancecy.write_dataset({"a": [1]}, tmp_path / f"{name}.lance")
    ns, token, pages = v1(tmp_path), None, []
    while True:
        answer = ns.list_tables(ln.ListTablesRequest(id=[], limit=2, page_token=token))
        pages.append(answer.tables)
        token = answer.page_token
        if token is None:
            break
    assert pages == [["a", "b"], ["c", "d"], ["e"]]
    assert tables(ns, limit=0) == []
    assert tables(ns, limit=-1) == list("abcde")
    assert tables(ns, page_token="bb") == ["c", "d", "e"]


def test_storage_options_have_no_prefix_and_are_shown_only_when_asked(tmp_path: Path) -> None:
    plain = ours(tmp_path, **{"storage.region": "us-west-2"})
    assert plain.storage_options == {"region": "us-west-2"}


def test_memory_root(monkeypatch: pytest.MonkeyPatch) -> None:
    ns = ours("memory://namespace-test/root", vend_input_storage_options="true")
    create(ns, "t", {"a": [1, 2]})
    make(ns, "n")
    create(ns, "n.t")
    assert (tables(ns), tables(ns, "n")) == (["t"], ["t"])
    assert lancecy.dataset(describe(ns, "t").location).count_rows() == 2
    drop(ns, "t")
    drop(ns, "n.t")
    assert (tables(ns), tables(ns, "n")) == ([], [])


@pytest.mark.parametrize("mode", ["default", "directory only"])
def test_wildcards_in_names_remove_no_other_table(mode: str) -> None:
    ns = ours(f"memory://wildcards/{mode}", **MODES[mode])
    names = ["*", "?", "[ab]", "a", "b"]
    for name in names:
        create(ns, name)
    for name in names[:3]:
        drop(ns, name)
        assert not exists(ns, name)
    assert tables(ns) == ["a", "b"]
    assert [lancecy.dataset(describe(ns, name).location).count_rows() for name in "ab"] == [3, 3]


def test_root_that_is_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    ns = v1(tmp_path / "file")
    with pytest.raises(ln.LanceNamespaceError, match="is a file") as caught:
        tables(ns)
    assert isinstance(caught.value.__cause__, StoreError)
    assert (tmp_path / "file").read_text() == "kept"


@pytest.fixture
def unreadable(tmp_path: Path) -> Iterator[Path]:
    """A catalog that this process may not look into."""
    root, user = tmp_path / "root", os.geteuid()
    create(ours(root), "t")
    root.chmod(0)
    if user == 0:
        os.seteuid(65534)  # root may look into everything
    yield root
    os.seteuid(user)
    root.chmod(0o700)


@pytest.mark.parametrize("mode", MODES)
def test_root_that_cannot_be_read_is_an_error(unreadable: Path, mode: str) -> None:
    ns = ours(unreadable, **MODES[mode])
    calls: list[Callable[[], Any]] = [
        lambda: tables(ns),
        lambda: exists(ns, "t"),
        lambda: create(ns, "u"),
        lambda: declare(ns, "u"),
        lambda: drop(ns, "t"),
        lambda: deregister(ns, "t"),
    ]
    for call in calls:
        with pytest.raises(ln.PermissionDeniedError) as caught:
            call()
        assert isinstance(caught.value.__cause__, StoreError)


@pytest.mark.interop
def test_without_both_switches_nothing_is_listed(tmp_path: Path) -> None:
    create(ours(tmp_path), "t")
    for connect in (ours, theirs):
        ns = connect(tmp_path, manifest_enabled="false", dir_listing_enabled="false")
        assert (tables(ns), exists(ns, "t")) == ([], False)
    assert tables(ours(tmp_path)) == ["t"]


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({}, "needs the property root"),
        ({"root": "/x", "manifest_enable": "true"}, "did you mean 'manifest_enabled'"),
        ({"root": "/x", "manifest_enabled": "maybe"}, "is true or false"),
        ({"root": "/x", "commit_retries": "-1"}, "whole number"),
        ({"root": "file://host/x"}, "is no directory"),
        ({"root": "/x", "credential_vendor.enabled": "true"}, "not supported"),
    ],
)
def test_properties_are_checked(properties: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ln.connect("lancecy", properties)
    with pytest.raises(ln.InvalidInputError, match=message):
        DirectoryNamespace(None, **properties)
