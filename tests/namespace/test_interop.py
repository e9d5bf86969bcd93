"""Catalogs made by one library, listed, opened, changed and dropped by the other, in each mode."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import lance_namespace as ln
import pyarrow as pa
import pytest

import lancecy
from tests.helpers.namespaces import (
    MODES,
    create,
    declare,
    deregister,
    describe,
    drop,
    exists,
    make,
    namespaces,
    ours,
    register,
    remove,
    rename,
    tables,
    theirs,
)

pytestmark = pytest.mark.interop

MAKERS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "lancecy first": (ours, theirs),
    "pylance first": (theirs, ours),
}
V2 = ["default", "migrating", "manifest only"]


def rows_at(found: Any) -> int:
    count = lancecy.dataset(found.location).count_rows()
    assert lance.dataset(found.location).count_rows() == count
    return int(count)


@pytest.mark.parametrize("mode", V2)
@pytest.mark.parametrize("order", MAKERS)
def test_catalog_of_one_is_used_by_the_other(tmp_path: Path, order: str, mode: str) -> None:
    maker, user = (connect(tmp_path, **MODES[mode]) for connect in MAKERS[order])
    make(maker, "a", properties={"k": "v"})
    make(maker, "a.b")
    create(maker, "a.t", properties={"p": "q"})
    create(maker, "root")
    declare(maker, "a.b.later")
    assert (tables(user), namespaces(user)) == (["root"], ["a"])
    assert (tables(user, "a"), namespaces(user, "a"), tables(user, "a.b")) == (["t"], ["b"], ["later"])
    assert user.describe_namespace(ln.DescribeNamespaceRequest(id=["a"])).properties == {"k": "v"}
    assert describe(user, "a.t").properties == {"p": "q"}
    assert describe(user, "a.b.later", check_declared=True).is_only_declared
    assert [rows_at(describe(user, name)) for name in ("a.t", "root")] == [3, 3]
    with pytest.raises(ln.LanceNamespaceError):
        create(user, "a.t")
    with pytest.raises(ln.NamespaceAlreadyExistsError):
        make(user, "a")

    make(user, "c")
    create(user, "c.u")
    create(user, "second")
    assert (tables(maker), tables(maker, "c"), namespaces(maker)) == (["root", "second"], ["u"], ["a", "c"])
    assert [rows_at(describe(maker, name)) for name in ("c.u", "second")] == [3, 3]
    drop(user, "a.t")
    drop(user, "root")
    deregister(maker, "c.u")
    remove(user, "c")
    assert (exists(maker, "a.t"), tables(maker), tables(user), namespaces(maker)) == (
        False,
        ["second"],
        ["second"],
        ["a"],
    )
    drop(maker, "second")
    drop(maker, "a.b.later")
    remove(user, "a.b")
    remove(maker, "a")
    assert (tables(maker), tables(user), namespaces(maker), namespaces(user)) == ([], [], [], [])


@pytest.mark.parametrize("order", MAKERS)
def test_directories_of_one_are_tables_of_the_other(tmp_path: Path, order: str) -> None:
    maker, user = (connect(tmp_path, manifest_enabled="false") for connect in MAKERS[order])
    create(maker, "t")
    create(maker, "gone")
    declare(maker, "later")
    deregister(maker, "gone")
    assert tables(user) == tables(maker) == ["later", "t"]
    assert [exists(user, name) for name in ("t", "later", "gone")] == [True, True, False]
    assert tables(user, include_declared=False) == tables(maker, include_declared=False) == ["t"]
    create(user, "later")
    drop(user, "t")
    drop(user, "gone")
    assert tables(maker) == ["later"]
    assert not describe(maker, "later", check_declared=True).is_only_declared


def test_pylance_lists_names_that_are_no_tables(tmp_path: Path) -> None:
    (tmp_path / "empty.lance").mkdir()
    (tmp_path / "file.lance").write_text("x")
    for mode in ("default", "directory only"):
        other, ns = theirs(tmp_path, **MODES[mode]), ours(tmp_path, **MODES[mode])
        assert (tables(other), tables(ns)) == (["empty", "file"], [])
        assert not any(exists(found, name) for found in (other, ns) for name in ("empty", "file"))


def test_changes_of_lancecy_keep_what_pylance_reads(tmp_path: Path) -> None:
    """Deletion files and several fragments in __manifest, which pylance itself does not write."""
    ns, other = ours(tmp_path), theirs(tmp_path, dir_listing_to_manifest_migration_enabled="true")
    for number in range(5):
        make(ns, f"n{number}")
    remove(ns, "n1")
    create(ns, "t", properties={"k": "v"})
    rename(ns, "t", "u")
    assert (namespaces(other), tables(other)) == (["n0", "n2", "n3", "n4"], ["u"])
    assert describe(other, "u").properties == {"k": "v"}
    make(other, "n5")
    assert namespaces(ns) == ["n0", "n2", "n3", "n4", "n5"]
    assert tables(theirs(tmp_path, dir_listing_enabled="false")) == ["u"]


def test_renamed_table_has_no_old_name_for_pylance(tmp_path: Path) -> None:
    ns = ours(tmp_path)
    create(ns, "old")
    rename(ns, "old", "new")
    for mode in MODES:
        other = theirs(tmp_path, **MODES[mode])
        assert not exists(other, "old"), mode
        # The document says that a renamed table follows V2, which pylance's default does not look at.
        assert exists(other, "new") is (mode in ("migrating", "manifest only")), mode


def test_deregistered_table_is_hidden_from_pylance_too(tmp_path: Path) -> None:
    ns = ours(tmp_path)
    create(ns, "t")
    deregister(ns, "t")
    assert [tables(theirs(tmp_path, **MODES[mode])) for mode in MODES] == [[], [], [], []]
    register(ns, "t", "t.lance")
    assert [tables(theirs(tmp_path, **MODES[mode])) for mode in MODES] == [["t"], ["t"], ["t"], ["t"]]


def test_migrated_catalog_is_that_of_pylance(tmp_path: Path) -> None:
    for name in ("a", "b"):
        lance.write_dataset(pa.table({"x": [1]}), tmp_path / f"{name}.lance")
    ours(tmp_path).migrate()
    other = theirs(tmp_path, dir_listing_enabled="false")
    assert tables(other) == ["a", "b"]
    assert rows_at(describe(other, "a")) == 1


def test_indices_of_pylance_are_harmless(tmp_path: Path) -> None:
    other = theirs(tmp_path, inline_optimization_enabled="true")
    make(other, "a")
    create(other, "a.t")
    ns = ours(tmp_path)
    make(ns, "b")
    create(ns, "b.t")
    remove(ns, "a", behavior="Cascade")
    rename(ns, "b.t", "u")
    assert (namespaces(ns), tables(ns, "b")) == (["b"], ["u"])
    for properties in ({}, {"inline_optimization_enabled": "true"}):
        other = theirs(tmp_path, **properties)
        assert (namespaces(other), tables(other, "b"), exists(other, "a.t")) == (["b"], ["u"], False)
        assert exists(other, "b.u")
    make(other, "c")
    assert namespaces(ns) == ["b", "c"]


def test_pylance_opens_and_writes_through_our_namespace(tmp_path: Path) -> None:
    ns = ours(tmp_path)
    make(ns, "n")
    lance.write_dataset(pa.table({"a": [1, 2]}), namespace_client=ns, table_id=["n", "t"])
    lance.write_dataset(pa.table({"a": [3]}), namespace_client=ns, table_id=["n", "t"], mode="append")
    assert lance.dataset(namespace_client=ns, table_id=["n", "t"]).count_rows() == 3
    assert rows_at(describe(ns, "n.t")) == 3
    assert [name for name in os.listdir(tmp_path) if name.endswith("_n$t")] != []


@pytest.mark.parametrize("connect", [ours, theirs])
def test_requests_as_mappings_and_counts_of_calls(tmp_path: Path, connect: Callable[..., Any]) -> None:
    """What pylance's namespace has beside the operations of the specification."""
    ns = connect(tmp_path, ops_metrics_enabled="true")
    create(ns, "t")
    answer = ns.query_table({"id": ["t"], "k": 5, "vector": {}})
    assert pa.ipc.open_file(pa.BufferReader(answer.data)).read_all().num_rows == 3
    answer = ns.describe_table_version({"id": ["t"], "version": 1})
    assert answer["version"]["version"] == 1
    assert None not in (*answer.values(), *answer["version"].values())  # as in pylance
    with pytest.raises(ln.TableNotFoundError):
        ns.query_table({"id": ["u"], "k": 5, "vector": {}})
    assert ns.retrieve_ops_metrics() == {"create_table": 1, "query_table": 2, "describe_table_version": 1}
    ns.reset_ops_metrics()
    describe(ns, "t")
    assert ns.retrieve_ops_metrics()["describe_table"] == 1
    assert connect(tmp_path).retrieve_ops_metrics() == {}
    assert ns.namespace_id() == f'DirectoryNamespace {{ root: "{tmp_path}" }}'


def test_every_operation_takes_a_mapping(tmp_path: Path) -> None:
    ns = ours(tmp_path)
    create(ns, "t")
    ns.create_table_scalar_index({"id": ["t"], "column": "a", "index_type": "BTREE"})
    assert [index.index_name for index in ns.list_table_indices(request={"id": ["t"]}).indexes] == ["a_idx"]
    assert ns.list_all_tables({}).tables == ["t"]
    for name, operation in inspect.getmembers(type(ns), inspect.isfunction):
        if hasattr(operation, "__wrapped__") and [*inspect.signature(operation).parameters] == [
            "self",
            "request",
        ]:
            with pytest.raises(ln.LanceNamespaceError):
                getattr(ns, name)({"id": "no list"})


@pytest.mark.parametrize("connect", [ours, theirs])
def test_answers_have_the_transaction_and_the_details_of_indices(
    tmp_path: Path, connect: Callable[..., Any]
) -> None:
    ns = connect(tmp_path)
    create(ns, "t")
    ns.create_table_index(ln.CreateTableIndexRequest(id=["t"], column="a", index_type="BTREE", name="i"))
    (index,) = ns.list_table_indices(ln.ListTableIndicesRequest(id=["t"])).indexes
    assert index.index_details == "{}"
    for made in (
        ns.update_table_schema_metadata(
            ln.UpdateTableSchemaMetadataRequest(id=["t"], metadata={"owner": "me"})
        ),
        ns.restore_table(ln.RestoreTableRequest(id=["t"], version=1)),
    ):
        request = ln.DescribeTransactionRequest(id=["t", made.transaction_id])
        assert ns.describe_transaction(request).status == "SUCCEEDED"


def test_names_of_the_module_of_namespaces() -> None:
    assert lancecy.namespace.LanceNamespace is ln.LanceNamespace
    with pytest.raises(AttributeError, match="no client of REST namespaces"):
        lancecy.namespace.RestNamespace  # noqa: B018
