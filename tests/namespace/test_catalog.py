"""V2 and the compatibility mode: namespaces and tables in ``__manifest``."""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance_namespace as ln
import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import LanceError
from lancecy.namespace import DirectoryNamespace
from lancecy.namespace.entries import COLUMNS
from tests.helpers.namespaces import (
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
    stream,
    tables,
)


def directories(root: Path) -> list[str]:
    return sorted(name for name in os.listdir(root) if name != "__manifest")


def rows(root: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = lancecy.dataset(root / "__manifest").to_table().to_pylist()
    return sorted(found, key=lambda row: row["object_id"])


def test_manifest_has_the_columns_of_the_document(tmp_path: Path) -> None:
    ns = ours(tmp_path)
    assert tables(ns) == []
    assert not (tmp_path / "__manifest").exists()
    make(ns, "ns1", properties={"owner": "me"})
    create(ns, "ns1.t")
    ds = lancecy.dataset(tmp_path / "__manifest")
    assert ds.schema.equals(COLUMNS, check_metadata=True)
    assert ds.data_storage_version == "2.1"
    namespace, table = rows(tmp_path)
    location = table.pop("location")
    assert namespace == {
        "object_id": "ns1",
        "object_type": "namespace",
        "location": None,
        "metadata": '{"owner":"me"}',
        "base_objects": None,
    }
    assert table == {"object_id": "ns1$t", "object_type": "table", "metadata": None, "base_objects": None}
    assert re.fullmatch(r"[0-9a-f]{8}_ns1\$t", location)
    assert lancecy.dataset(tmp_path / location).count_rows() == 3


def test_namespaces_are_nested(tmp_path: Path) -> None:
    ns = ours(tmp_path)
    make(ns, "a", properties={"k": "1"})
    make(ns, "a.b")
    make(ns, "ab")
    assert (namespaces(ns), namespaces(ns, "a"), namespaces(ns, "a.b")) == (["a", "ab"], ["b"], [])
    found = ns.describe_namespace(ln.DescribeNamespaceRequest(id=["a"]))
    assert found.properties == {"k": "1"}
    assert ns.describe_namespace(ln.DescribeNamespaceRequest(id=[])).properties == {}
    with pytest.raises(ln.NamespaceNotFoundError):
        make(ns, "missing.child")
    with pytest.raises(ln.NamespaceNotFoundError):
        namespaces(ns, "missing")
    with pytest.raises(ln.NamespaceAlreadyExistsError):
        make(ns, "a")
    assert make(ns, "a", mode="exist_ok", properties={"k": "2"}).properties == {"k": "1"}
    assert make(ns, "a", mode="Overwrite", properties={"k": "2"}).properties == {"k": "2"}
    with pytest.raises(ln.InvalidInputError, match="Create or ExistOk or Overwrite"):
        make(ns, "a", mode="replace")


def test_namespace_is_dropped_when_empty_or_with_all_in_it(tmp_path: Path) -> None:
    ns = ours(tmp_path)
    for name in ("a", "a.b"):
        make(ns, name)
    create(ns, "a.b.t")
    create(ns, "a.t")
    create(ns, "kept")
    with pytest.raises(ln.NamespaceNotEmptyError, match="3 objects"):
        remove(ns, "a")
    remove(ns, "a", behavior="Cascade")
    assert (namespaces(ns), tables(ns), directories(tmp_path)) == ([], ["kept"], ["kept.lance"])
    with pytest.raises(ln.NamespaceNotFoundError):
        remove(ns, "a")
    remove(ns, "a", mode="Skip")
    with pytest.raises(ln.InvalidInputError):
        ns.drop_namespace(ln.DropNamespaceRequest(id=[]))


def test_cascade_keeps_files_that_other_tables_use(tmp_path: Path) -> None:
    ns = ours(tmp_path)
    make(ns, "a")
    create(ns, "a.t")
    register(ns, "alias", rows(tmp_path)[1]["location"])
    with pytest.raises(ln.InvalidInputError, match="deregister"):
        drop(ns, "a.t")
    remove(ns, "a", behavior="Cascade")
    assert lancecy.dataset(describe(ns, "alias").location).count_rows() == 3


def test_modes_of_create_table(tmp_path: Path) -> None:
    ns = ours(tmp_path)
    create(ns, "t", {"a": [1]}, properties={"k": "1"})
    with pytest.raises(ln.TableAlreadyExistsError):
        create(ns, "t")
    answer = create(ns, "t", {"a": [2]}, mode="ExistOk", properties={"k": "2"})
    assert (answer.version, describe(ns, "t").properties) == (None, {"k": "1"})
    answer = create(ns, "t", {"b": [1, 2]}, mode="overwrite", properties={"k": "2"})
    assert (answer.version, describe(ns, "t").properties) == (2, {"k": "2"})
    assert lancecy.dataset(answer.location).schema.names == ["b"]
    with pytest.raises(ln.InvalidInputError, match="empty"):
        ns.create_table(ln.CreateTableRequest(id=["u"]), b"")
    with pytest.raises(ln.InvalidInputError, match="no Arrow IPC stream"):
        ns.create_table(ln.CreateTableRequest(id=["u"]), b"nonsense")
    make(ns, "n")
    with pytest.raises(ln.TableAlreadyExistsError, match="namespace"):
        create(ns, "n")
    with pytest.raises(ln.NamespaceAlreadyExistsError, match="table"):
        make(ns, "t")
    assert directories(tmp_path) == ["t.lance"]


def test_declared_table_gets_its_data_where_it_was_declared(tmp_path: Path) -> None:
    ns = ours(tmp_path)
    make(ns, "n")
    place = declare(ns, "n.t", properties={"k": "v"}).location
    assert Path(place, ".lance-reserved").exists()
    assert describe(ns, "n.t", check_declared=True).is_only_declared
    with pytest.raises(ln.TableAlreadyExistsError):
        declare(ns, "n.t")
    with pytest.raises(ln.TableNotFoundError, match="no data"):
        ns._opened(ns._table(("n", "t")), None)
    assert create(ns, "n.t", properties={"k": "w"}).location == place
    found = describe(ns, "n.t", load_detailed_metadata=True)
    assert (found.version, found.properties, found.is_only_declared) == (1, {"k": "w"}, False)
    assert found.metadata["total_rows"] == "3"
    assert [field.name for field in found.var_schema.fields] == ["a"]
    with pytest.raises(ln.InvalidInputError, match="leave out the location"):
        declare(ns, "n.u", location=str(tmp_path / "elsewhere"))
    declare(ns, "root", location=str(tmp_path / "root.lance") + "/")


def test_described_version_tag_and_branch(tmp_path: Path) -> None:
    ns = ours(tmp_path)
    place = create(ns, "t").location
    ds = lancecy.dataset(place)
    ds.tags.create("first")
    ds.append({"a": [4]})
    for fields, count in (({}, "4"), ({"version": 1}, "3"), ({"tag": "first"}, "3")):
        found = describe(ns, "t", load_detailed_metadata=True, **fields)
        assert found.metadata["total_rows"] == count
    with pytest.raises(ln.TableVersionNotFoundError):
        describe(ns, "t", load_detailed_metadata=True, version=9)
    with pytest.raises(ln.LanceNamespaceError):
        describe(ns, "t", load_detailed_metadata=True, tag="none")


def test_root_tables_of_the_compatibility_mode(tmp_path: Path) -> None:
    lancecy.write_dataset({"a": [1]}, tmp_path / "old.lance")
    ns = ours(tmp_path)
    assert exists(ns, "old")
    create(ns, "new")
    make(ns, "n")
    create(ns, "n.new")
    register(ns, "alias", "old.lance")
    assert tables(ns) == ["alias", "new"]  # old is at the location of alias
    assert not exists(ns, "old")
    assert tables(ns, "n") == ["new"]
    deregister(ns, "alias")
    assert tables(ns) == ["new"]
    register(ns, "old", "old.lance")
    assert tables(ns) == ["new", "old"]
    assert tables(ours(tmp_path, dir_listing_enabled="false")) == ["new", "old"]
    assert tables(ours(tmp_path, manifest_enabled="false")) == ["new", "old"]
    assert ns.list_all_tables(ln.ListTablesRequest()).tables == ["n$new", "new", "old"]


def test_a_name_of_both_versions_is_that_of_the_manifest(tmp_path: Path) -> None:
    lancecy.write_dataset({"a": [1]}, tmp_path / "t.lance")
    lancecy.write_dataset({"a": [1, 2]}, tmp_path / "0123abcd_t")
    ns = with_rows(tmp_path, {"object_id": "t", "object_type": "table", "location": "0123abcd_t"})
    assert tables(ns) == ["t"]
    assert lancecy.dataset(describe(ns, "t").location).count_rows() == 2
    deregister(ns, "t")
    assert lancecy.dataset(describe(ns, "t").location).count_rows() == 1


def test_manifest_only_mode_hashes_directories_of_root_tables(tmp_path: Path) -> None:
    ns = ours(tmp_path, dir_listing_enabled="false")
    lancecy.write_dataset({"a": [1]}, tmp_path / "old.lance")
    place = create(ns, "t").location
    assert re.fullmatch(r"[0-9a-f]{8}_t", Path(place).name)
    assert (tables(ns), exists(ns, "old")) == (["t"], False)


def test_table_that_is_created_again_gets_another_directory(tmp_path: Path) -> None:
    ns = ours(tmp_path, dir_listing_enabled="false")
    first = create(ns, "t").location
    drop(ns, "t")
    assert create(ns, "t").location != first
    assert len(directories(tmp_path)) == 1


def test_renamed_root_table_follows_v2(tmp_path: Path) -> None:
    ns = ours(tmp_path)
    create(ns, "old", properties={"k": "v"})
    make(ns, "n")
    rename(ns, "old", "new")
    assert (tables(ns), tables(ours(tmp_path, manifest_enabled="false"))) == (["new"], [])
    assert describe(ns, "new").properties == {"k": "v"}
    assert not exists(ns, "old")
    other = create(ns, "old", {"a": [9]}).location
    assert re.fullmatch(r"[0-9a-f]{8}_old", Path(other).name)
    rename(ns, "new", "moved", ["n"])
    assert (tables(ns), tables(ns, "n")) == (["old"], ["moved"])
    drop(ns, "old")
    rename(ns, "n.moved", "old", [])
    assert tables(ours(tmp_path, manifest_enabled="false")) == ["old"]
    assert lancecy.dataset(describe(ns, "old").location).count_rows() == 3


def test_renaming_checks_both_names(tmp_path: Path) -> None:
    ns = ours(tmp_path)
    create(ns, "a")
    lancecy.write_dataset({"a": [1]}, tmp_path / "shown.lance")
    make(ns, "n")
    for new, space, kind in (
        ("shown", None, ln.TableAlreadyExistsError),
        ("n", None, ln.TableAlreadyExistsError),
        ("a", ["missing"], ln.NamespaceNotFoundError),
        ("x/y", None, ln.InvalidInputError),
    ):
        with pytest.raises(kind):
            rename(ns, "a", new, space)
    with pytest.raises(ln.TableNotFoundError):
        rename(ns, "missing", "b")
    rename(ns, "shown", "b")  # a table of V1 gets its first row
    assert tables(ns) == ["a", "b"]
    with pytest.raises(ln.UnsupportedOperationError):
        rename(ours(tmp_path, manifest_enabled="false"), "a", "c")


def test_register_and_deregister(tmp_path: Path) -> None:
    ns = ours(tmp_path)
    lancecy.write_dataset({"a": [1]}, tmp_path / "deep" / "one")
    lancecy.write_dataset({"a": [1, 2]}, tmp_path / "two")
    register(ns, "t", "deep/one/", properties={"k": "v"})
    assert lancecy.dataset(describe(ns, "t").location).count_rows() == 1
    with pytest.raises(ln.TableAlreadyExistsError):
        register(ns, "t", "two")
    register(ns, "t", "two", mode="Overwrite")
    assert (lancecy.dataset(describe(ns, "t").location).count_rows(), describe(ns, "t").properties) == (
        2,
        None,
    )
    deregister(ns, "t")
    assert (exists(ns, "t"), directories(tmp_path)) == (False, ["deep", "two"])
    for location in (
        "",
        ".",
        "..",
        "../x",
        "/etc",
        "s3://b/t",
        "a/../b",
        "__manifest",
        "__manifest/data",
        "a\\b",
        "%2e%2e/x",
    ):
        with pytest.raises(ln.InvalidInputError, match="below the root"):
            register(ns, "u", location)


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "a$b",
        "a/b",
        "a\\b",
        "../x",
        "a\x00b",
        "a\nb",
        "a\x1b[31m",
        "x" * 1000,
        "%2e%2e",
        "a%2fb",
    ],
)
def test_bad_names_are_refused(tmp_path: Path, name: str) -> None:
    ns = ours(tmp_path)
    calls: list[Callable[[], Any]] = [
        lambda: ns.create_namespace(ln.CreateNamespaceRequest(id=[name])),
        lambda: ns.create_table(ln.CreateTableRequest(id=[name]), b"x"),
        lambda: ns.declare_table(ln.DeclareTableRequest(id=[name])),
        lambda: ns.register_table(ln.RegisterTableRequest(id=[name], location="x")),
    ]
    for call in calls:
        with pytest.raises(ln.InvalidInputError, match="name "):
            call()
    with pytest.raises(ln.TableNotFoundError):
        ns.table_exists(ln.TableExistsRequest(id=[name]))
    assert directories(tmp_path) == []


@pytest.mark.parametrize(
    "name", ["it's", "Ünï", "表", "a b", "a.b", "-x", ".hidden", "__manifest", "100%", "😀", "a_b"]
)
def test_names_of_other_scripts(tmp_path: Path, name: str) -> None:
    ns = ours(tmp_path)
    ns.create_namespace(ln.CreateNamespaceRequest(id=[name]))
    ns.create_table(ln.CreateTableRequest(id=[name, name]), _stream())
    ns.create_table(ln.CreateTableRequest(id=[name + "t"]), _stream())
    assert (tables(ns), namespaces(ns)) == ([name + "t"], [name])
    assert ns.list_tables(ln.ListTablesRequest(id=[name])).tables == [name]
    place = ns.describe_table(ln.DescribeTableRequest(id=[name, name])).location
    assert lancecy.dataset(place).count_rows() == 3
    ns.drop_namespace(ln.DropNamespaceRequest(id=[name], behavior="Cascade"))
    ns.drop_table(ln.DropTableRequest(id=[name + "t"]))
    assert directories(tmp_path) == []


def _stream() -> bytes:
    return stream()


def test_names_too_long_together_are_refused(tmp_path: Path) -> None:
    ns = ours(tmp_path)
    names = ["x" * 200, "y" * 200]
    ns.create_namespace(ln.CreateNamespaceRequest(id=names[:1]))
    with pytest.raises(ln.InvalidInputError, match="more than 246 bytes together"):
        ns.create_table(ln.CreateTableRequest(id=names), _stream())


def test_requests_without_id_are_refused(tmp_path: Path) -> None:
    ns = ours(tmp_path)
    with pytest.raises(ln.InvalidInputError, match="none is given"):
        ns.list_tables(ln.ListTablesRequest())
    with pytest.raises(ln.InvalidInputError, match="at least one name"):
        ns.describe_table(ln.DescribeTableRequest(id=[]))


def test_unsupported_operations_say_so(tmp_path: Path) -> None:
    with pytest.raises(ln.UnsupportedOperationError):
        ours(tmp_path).refresh_materialized_view(ln.RefreshMaterializedViewRequest(id=["t"]))


# -- a __manifest that is damaged or hostile --------------------------------------------------------


def with_rows(root: Path, *made: dict[str, Any]) -> Any:
    ns = ours(root)
    make(ns, "seed")
    lancecy.dataset(root / "__manifest").append(pa.Table.from_pylist(list(made), schema=COLUMNS))
    return ns


@pytest.mark.parametrize(
    "location",
    [
        None,
        "",
        "/",
        ".",
        "./",
        "..",
        "../victim",
        "a/../../victim",
        "/etc",
        "file:///etc",
        "s3://b/t",
        "__manifest",
        "__manifest/",
        "seed//x",
        "%2e%2e/victim",
        "C:/x",
        "x\x00y",
    ],
)
def test_location_never_means_the_root_or_a_place_outside(tmp_path: Path, location: str | None) -> None:
    root = tmp_path / "root"
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "kept").write_text("kept")
    ns = with_rows(root, {"object_id": "bad", "object_type": "table", "location": location})
    create(ns, "good")
    calls: list[tuple[Any, ...]] = [(describe,), (exists,), (drop,), (deregister,), (rename, "new")]
    for call, *names in calls:
        with pytest.raises(ln.InvalidTableStateError, match="nothing is read or removed") as caught:
            call(ns, "bad", *names)
        assert isinstance(caught.value.__cause__, LanceError)
    with pytest.raises(ln.InvalidTableStateError):
        create(ns, "bad")
    assert (tmp_path / "victim" / "kept").exists()
    assert exists(ns, "good")
    assert tables(ns) == ["bad", "good"]


def test_cascade_over_a_damaged_location_removes_nothing(tmp_path: Path) -> None:
    ns = with_rows(tmp_path, {"object_id": "seed$bad", "object_type": "table", "location": None})
    create(ns, "seed.good")
    with pytest.raises(ln.InvalidTableStateError):
        remove(ns, "seed", behavior="Cascade")
    assert exists(ns, "seed.good")


def test_symbolic_links_are_not_passed(tmp_path: Path) -> None:
    root, victim = tmp_path / "root", tmp_path / "victim"
    lancecy.write_dataset({"a": [1]}, victim / "t")
    ns = ours(root)
    make(ns, "n")
    (root / "link").symlink_to(victim)
    (root / "shown.lance").symlink_to(victim / "t")
    register(ns, "n.t", "link/t")
    register(ns, "n.u", "link")
    row: dict[str, Any] = {"id": ["n", "t"]}
    calls: list[Callable[[], Any]] = [
        lambda: describe(ns, "n.t"),
        lambda: exists(ns, "n.u"),
        lambda: drop(ns, "n.t"),
        lambda: drop(ns, "n.u"),
        lambda: create(ns, "n.t", mode="Overwrite"),
        lambda: ns.count_table_rows(ln.CountTableRowsRequest(**row)),
        lambda: ns.insert_into_table(ln.InsertIntoTableRequest(**row), stream()),
        lambda: ns.list_table_versions(ln.ListTableVersionsRequest(**row)),
        lambda: lancecy.dataset(namespace=ns, table_id=["n", "t"]),
        lambda: remove(ns, "n", behavior="Cascade"),
    ]
    for call in calls:
        with pytest.raises(ln.LanceNamespaceError, match="symbolic link"):
            call()
    # A link in the root is no table of V1.
    for mode in ({}, {"manifest_enabled": "false"}):
        linked = ours(root, **mode)
        assert (tables(linked), exists(linked, "shown")) == ([], False)
        for change in (drop, deregister):
            with pytest.raises(ln.TableNotFoundError):
                change(linked, "shown")
        with pytest.raises(ln.LanceNamespaceError):
            create(linked, "shown")
    assert lancecy.dataset(victim / "t").version == 1
    assert sorted(os.listdir(victim / "t")) == ["_transactions", "_versions", "data"]
    assert lancecy.dataset(victim / "t").count_rows() == 1


def test_catalog_behind_a_link_is_refused(tmp_path: Path) -> None:
    make(ours(tmp_path / "other"), "theirs")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "__manifest").symlink_to(tmp_path / "other" / "__manifest")
    ns = ours(tmp_path / "root")
    for call in (lambda: namespaces(ns), lambda: make(ns, "mine"), lambda: create(ns, "t")):
        with pytest.raises(ln.InvalidTableStateError, match="symbolic link"):
            call()
    (tmp_path / "alias").symlink_to(tmp_path / "other")  # a root may be a link itself
    assert namespaces(ours(tmp_path / "alias")) == ["theirs"]


def test_duplicate_rows_are_an_error(tmp_path: Path) -> None:
    row = {"object_id": "t", "object_type": "table", "location": "t.lance"}
    ns = with_rows(tmp_path, row, row)
    for call in (describe, drop, deregister):
        with pytest.raises(ln.InvalidTableStateError, match="2 rows"):
            call(ns, "t")


def test_other_kinds_of_objects_are_skipped(tmp_path: Path) -> None:
    ns = with_rows(tmp_path, {"object_id": "v", "object_type": "view", "location": None})
    create(ns, "t")
    assert (tables(ns), namespaces(ns), exists(ns, "v")) == (["t"], ["seed"], False)
    with pytest.raises(ln.TableAlreadyExistsError):
        create(ns, "v")


@pytest.mark.parametrize("metadata", ["[]", "{", '{"a":1}', "null", "[" * 100_000])
def test_metadata_that_is_no_object_of_texts(tmp_path: Path, metadata: str) -> None:
    ns = with_rows(tmp_path, {"object_id": "bad", "object_type": "namespace", "metadata": metadata})
    with pytest.raises(ln.InvalidTableStateError, match="no JSON object of texts"):
        ns.describe_namespace(ln.DescribeNamespaceRequest(id=["bad"]))
    assert namespaces(ns) == ["bad", "seed"]


@pytest.mark.parametrize(
    "columns",
    [
        {"object_id": ["t"]},
        {"object_id": [1], "object_type": ["table"], "location": ["t"], "metadata": ["{}"]},
        {"a": [1]},
    ],
)
def test_wrong_columns_are_an_error(tmp_path: Path, columns: dict[str, list[Any]]) -> None:
    lancecy.write_dataset(columns, tmp_path / "__manifest")
    ns = ours(tmp_path)
    for call in (lambda: tables(ns), lambda: make(ns, "n"), lambda: create(ns, "t")):
        with pytest.raises(ln.InvalidTableStateError, match="__manifest"):
            call()
    assert lancecy.dataset(tmp_path / "__manifest").version == 1


@pytest.mark.parametrize(("kind", "reads"), [("reader", False), ("writer", True)])
def test_unknown_feature_flags_are_refused(tmp_path: Path, kind: str, reads: bool) -> None:
    ns = ours(tmp_path)
    make(ns, "n")
    ds = lancecy.dataset(tmp_path / "__manifest")
    ds.update_metadata({f"lance.namespace.manifest.{kind}_feature_flags": "4"})
    with pytest.raises(ln.UnsupportedOperationError, match=f"features of a {kind}"):
        make(ns, "m")
    if reads:
        assert namespaces(ns) == ["n"]
    else:
        with pytest.raises(ln.UnsupportedOperationError):
            namespaces(ns)


def test_more_columns_are_kept(tmp_path: Path) -> None:
    ns = ours(tmp_path)
    create(ns, "t")
    ds = lancecy.dataset(tmp_path / "__manifest")
    ds.add_columns({"extra": "'x'"})
    create(ns, "u")
    rename(ns, "t", "v")
    found = {row["object_id"]: row["extra"] for row in rows(tmp_path)}
    assert found == {"u": None, "v": "x"}


@pytest.mark.slow
def test_many_changes_leave_few_fragments(tmp_path: Path) -> None:
    ns = ours(tmp_path)
    for number in range(70):
        make(ns, f"n{number}")
    ds = lancecy.dataset(tmp_path / "__manifest")
    assert len(ds.get_fragments()) < 20
    assert len(namespaces(ns)) == 70
    versions = [version["version"] for version in ds.versions()]
    assert versions == list(range(1, ds.version + 1))


def test_namespace_travels_in_a_pickle(tmp_path: Path) -> None:
    ns = ours(tmp_path)
    create(ns, "t")
    sent = pickle.loads(pickle.dumps(ns))
    assert (tables(sent), sent.namespace_id()) == (["t"], ns.namespace_id())


@pytest.mark.parametrize("root", ["s3://sent/tables", "s3://me:p4ssw0rd@login/tables"])
def test_pickle_of_a_namespace_has_no_secrets(root: str) -> None:
    session = lancecy.Session()
    properties: dict[str, Any] = {
        "storage.secret": "p4ssw0rd",
        "storage.anon": False,
        "manifest_enabled": False,
    }
    ns = DirectoryNamespace(session=session, root=root, **properties)
    data = pickle.dumps(ns)
    assert b"p4ssw0rd" not in data
    elsewhere = pickle.loads(data)
    assert elsewhere.root == ns.root and "p4ssw0rd" not in ns.root
    assert elsewhere.storage_options == {"anon": False}
    here = DirectoryNamespace(root=root, **properties)
    assert pickle.loads(pickle.dumps(here)).storage_options == here.storage_options


# -- migration ---------------------------------------------------------------------------------------


def test_migration_and_back(tmp_path: Path) -> None:
    for name in ("a", "b"):
        lancecy.write_dataset({"x": [1]}, tmp_path / f"{name}.lance")
    (tmp_path / "empty.lance" / "_versions").mkdir(parents=True)
    ns, steps = ours(tmp_path), list[int]()
    planned = ns.migrate(dry_run=True)
    assert (planned.tables, planned.skipped, planned.is_dry_run) == (
        ["a", "b"],
        {"empty": "it has no data"},
        True,
    )
    assert not (tmp_path / "__manifest").exists()
    assert ns.migrate(progress=lambda step: steps.append(step.done)).tables == ["a", "b"]
    assert steps == [1, 2, 3]
    assert ns.migrate().tables == []
    only = ours(tmp_path, dir_listing_enabled="false")
    assert tables(only) == ["a", "b"]
    create(ns, "kept", properties={"k": "v"})
    make(ns, "n")
    create(ns, "n.t")
    back = ns.migrate_back()
    assert back.tables == ["a", "b"]
    assert set(back.skipped) == {"kept", "n$t"}
    assert tables(only) == ["kept"]
    assert tables(ns) == ["a", "b", "empty", "kept"]
    with pytest.raises(ln.UnsupportedOperationError):
        only.migrate()


def test_declared_table_is_migrated_and_keeps_its_place(tmp_path: Path) -> None:
    declare(ours(tmp_path, manifest_enabled="false"), "later")
    ns = ours(tmp_path)
    assert ns.migrate().tables == ["later"]
    only = ours(tmp_path, dir_listing_enabled="false")
    with pytest.raises(ln.TableAlreadyExistsError):
        declare(only, "later")
    create(only, "later")
    assert lancecy.dataset(tmp_path / "later.lance").version == 1
    assert ns.migrate_back().tables == ["later"]
    assert tables(ns) == ["later"]


def test_unused_directories_are_found(tmp_path: Path) -> None:
    from datetime import timedelta

    ns = ours(tmp_path)
    make(ns, "n")
    create(ns, "n.t")
    create(ns, "t")
    lancecy.write_dataset({"x": [1]}, tmp_path / "0123abcd_left")
    lancecy.write_dataset({"x": [1]}, tmp_path / "other")
    assert ns.remove_unused() == []
    assert ns.remove_unused(older_than=timedelta(0), dry_run=True) == ["0123abcd_left"]
    assert ns.remove_unused(older_than=timedelta(0)) == ["0123abcd_left"]
    assert "0123abcd_left" not in directories(tmp_path)
    assert (exists(ns, "n.t"), len(directories(tmp_path))) == (True, 3)
