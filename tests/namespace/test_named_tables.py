"""Tables by name: opened, written and scanned through namespaces of lancecy, of pylance and of others."""

from __future__ import annotations

import pickle
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lance
import lance_namespace as ln
import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import ExistsError, UnsupportedError
from lancecy.namespace import creation
from tests.helpers.namespaces import create, declare, describe, make, ours, stream, theirs

CONNECT = {"lancecy": ours, "pylance": theirs}


@pytest.mark.parametrize("library", CONNECT)
@pytest.mark.parametrize("managed", ["false", "true"])
def test_table_is_written_opened_and_scanned_by_name(tmp_path: Path, library: str, managed: str) -> None:
    ns = CONNECT[library](tmp_path, table_version_tracking_enabled=managed)
    make(ns, "n")
    name = {"namespace": ns, "table_id": ["n", "t"]}
    ds = lancecy.write_dataset({"a": [1, 2]}, **name)
    lancecy.write_dataset({"a": [3]}, mode="append", **name)
    assert (lancecy.dataset(**name).count_rows(), lancecy.dataset(version=1, **name).count_rows()) == (3, 2)
    assert lance.dataset(namespace_client=ns, table_id=["n", "t"]).count_rows() == 3
    assert lancecy.scan(**name).a.sum().compute() == 6
    lancecy.write_dask(lancecy.scan(**name), namespace=ns, table_id=["n", "copy"])
    as_in_pylance: dict[str, Any] = {"namespace_client": ns, "table_id": ["n", "copy"]}
    assert lancecy.dataset(**as_in_pylance).count_rows() == 3
    with pytest.raises(ExistsError):
        lancecy.write_dataset({"a": [1]}, **name)
    ds = lancecy.dataset(**name)
    ds.delete("a = 1")
    ds.cleanup_old_versions(retain_versions=1)
    assert [version["version"] for version in lancecy.dataset(**name).versions()] == [3]
    lancecy.write_dataset({"b": [1]}, mode="overwrite", **name)
    assert lancecy.dataset(**name).schema.names == ["b"]


@pytest.mark.parametrize("library", CONNECT)
def test_fragments_of_several_writers_make_a_new_table(tmp_path: Path, library: str) -> None:
    """As the error says that refuses names: the writers get the table, which goes through pickles."""
    ns = CONNECT[library](tmp_path, table_version_tracking_enabled="true")
    name = {"namespace": ns, "table_id": ["t"]}
    with pytest.raises(UnsupportedError, match=r"for a new table write_dataset\(schema.empty_table\(\)"):
        lancecy.write_fragments({"a": [1]}, tmp_path / "t", namespace_client=ns, table_id=["t"])  # type: ignore[call-overload]
    ds = lancecy.write_dataset(pa.schema({"a": pa.int64()}).empty_table(), **name)
    sent = pickle.dumps(ds)
    parts = [lancecy.write_fragments({"a": [n]}, pickle.loads(sent))[0] for n in (1, 2)]
    assert lancecy.commit(ds, lancecy.LanceOperation.Append(parts)).version == 2
    assert lance.dataset(namespace_client=ns, table_id=["t"]).to_table()["a"].to_pylist() == [1, 2]


def test_pylance_commits_through_our_namespace(tmp_path: Path) -> None:
    ns = ours(tmp_path, table_version_tracking_enabled="true")
    rows = lancecy.write_dataset({"a": [1]}, tmp_path / "rows").to_table()
    lance.write_dataset(rows, namespace_client=ns, table_id=["t"])
    lance.write_dataset(rows, namespace_client=ns, table_id=["t"], mode="append")
    listed = ns.list_table_versions(ln.ListTableVersionsRequest(id=["t"], descending=True, limit=1))
    assert ([one.version for one in listed.versions], listed.page_token) == ([2], "2")
    assert lancecy.dataset(namespace=ns, table_id=["t"]).count_rows() == 2


class Other(ln.LanceNamespace):
    """A namespace of somebody else: three methods over a dictionary."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.tables: dict[str, str] = {}

    def namespace_id(self) -> str:
        return "other"

    def describe_table(self, request: Any) -> Any:
        name = "/".join(request.id)
        if name not in self.tables:
            raise ln.TableNotFoundError(name)
        return ln.DescribeTableResponse(location=self.tables[name])

    def declare_table(self, request: Any) -> Any:
        name = "/".join(request.id)
        self.tables[name] = str(self.root / f"{len(self.tables)}.lance")
        return ln.DeclareTableResponse(location=self.tables[name])


def test_namespaces_of_others(tmp_path: Path) -> None:
    ns = Other(tmp_path)
    lancecy.write_dataset({"a": [1]}, namespace=ns, table_id=["x", "t"], mode="append")
    lancecy.write_dataset({"a": [2]}, namespace=ns, table_id=["x", "t"], mode="append")
    assert lancecy.dataset(namespace=ns, table_id=["x", "t"]).count_rows() == 2
    with pytest.raises(ln.TableNotFoundError):
        lancecy.dataset(namespace=ns, table_id=["y"])


def test_arguments_are_checked(tmp_path: Path) -> None:
    ns = ours(tmp_path)
    with pytest.raises(TypeError, match="by its uri, or by namespace"):
        lancecy.dataset()
    with pytest.raises(TypeError, match="no uri"):
        lancecy.dataset("t.lance", namespace=ns, table_id=["t"])
    with pytest.raises(TypeError, match="no uri"):
        lancecy.dataset(namespace=ns)
    for wrong in ("t", [1]):
        with pytest.raises(TypeError, match="list of names"):
            lancecy.dataset(namespace=ns, table_id=wrong)  # type: ignore[arg-type]


def test_name_of_a_namespace_is_refused_for_what_it_is(tmp_path: Path) -> None:
    ns = ours(tmp_path)
    make(ns, "n")
    with pytest.raises(ln.TableAlreadyExistsError, match="there is a namespace 'n' already"):
        lancecy.write_dataset({"a": [1]}, namespace=ns, table_id=["n"])


def test_storage_options_of_the_namespace_are_used() -> None:
    ns = ours("memory://named/root")
    lancecy.write_dataset({"a": [1]}, namespace=ns, table_id=["t"], mode="append")
    assert lancecy.dataset("memory://named/root/t.lance").count_rows() == 1


def test_rows_and_columns_are_changed_by_requests(tmp_path: Path) -> None:
    import pyarrow as pa

    from tests.helpers.namespaces import stream

    ns = ours(tmp_path)
    create(ns, "t", {"a": [1, 2, 3], "s": ["x", "y", "z"]})
    t: dict[str, Any] = {"id": ["t"]}
    found = ns.insert_into_table(ln.InsertIntoTableRequest(**t), stream({"a": [4], "s": ["w"]}))
    assert ns.count_table_rows(ln.CountTableRowsRequest(**t)).count == 4
    assert ns.count_table_rows(ln.CountTableRowsRequest(predicate="a > 2", **t)).count == 2
    ns.update_table(ln.UpdateTableRequest(predicate="a = 4", updates=[["s", "'new'"]], **t))
    ns.delete_from_table(ln.DeleteFromTableRequest(predicate="a = 1", **t))
    merge = ln.MergeInsertIntoTableRequest(
        on=["a"], when_matched_update_all=True, when_not_matched_insert_all=True, **t
    )
    found = ns.merge_insert_into_table(merge, stream({"a": [2, 9], "s": ["two", "nine"]}))
    assert (found.num_updated_rows, found.num_inserted_rows) == (1, 1)
    vector = ln.QueryTableRequest.model_fields["vector"].annotation(single_vector=[])
    query = ln.QueryTableRequest(k=10, vector=vector, filter="a > 2", **t)
    rows = pa.ipc.open_file(ns.query_table(query).data).read_all()
    assert sorted(rows["s"].to_pylist()) == ["new", "nine", "z"]
    ns.alter_table_add_columns(
        ln.AlterTableAddColumnsRequest(new_columns=[{"name": "b", "expression": "a * 2"}], **t)
    )
    ns.alter_table_alter_columns(
        ln.AlterTableAlterColumnsRequest(alterations=[{"path": "b", "rename": "c"}], **t)
    )
    ns.alter_table_drop_columns(ln.AlterTableDropColumnsRequest(columns=["s"], **t))
    assert sorted(lancecy.dataset(describe(ns, "t").location).to_table()["c"].to_pylist()) == [4, 6, 8, 18]
    stats = ns.get_table_stats(ln.GetTableStatsRequest(**t))
    assert (stats.num_rows, stats.num_indices) == (4, 0)
    ns.create_table_tag(ln.CreateTableTagRequest(tag="v", version=1, **t))
    assert ns.get_table_tag_version(ln.GetTableTagVersionRequest(tag="v", **t)).version == 1
    assert list(ns.list_table_tags(ln.ListTableTagsRequest(**t)).tags) == ["v"]
    with pytest.raises(ln.TableTagAlreadyExistsError):
        ns.create_table_tag(ln.CreateTableTagRequest(tag="v", version=1, **t))
    ns.delete_table_tag(ln.DeleteTableTagRequest(tag="v", **t))
    with pytest.raises(ln.TableTagNotFoundError):
        ns.get_table_tag_version(ln.GetTableTagVersionRequest(tag="v", **t))
    ns.restore_table(ln.RestoreTableRequest(version=1, **t))
    assert ns.count_table_rows(ln.CountTableRowsRequest(**t)).count == 3


def test_versions_are_committed_once(tmp_path: Path) -> None:
    ns = ours(tmp_path)
    place = Path(create(ns, "t").location)
    name = "18446744073709551613.manifest-0f8fad5b-d9cb-469f-a165-70867728950e"
    request = {
        "id": ["t"],
        "version": 2,
        "manifest_path": f"{str(place).lstrip('/')}/_versions/{name}",
        "naming_scheme": "V2",
    }
    with pytest.raises(ln.InvalidInputError, match="no manifest"):
        ns.create_table_version(request)
    first = next((place / "_versions").glob("*.manifest"))
    (place / "_versions" / name).write_bytes(first.read_bytes())
    assert ns.create_table_version(request)["version"]["version"] == 2
    (place / "_versions" / name).write_bytes(first.read_bytes())
    assert ns.create_table_version(request)["version"]["version"] == 2  # the answer to the first was lost
    (place / "_versions" / name).write_bytes(b"another")
    with pytest.raises(ln.ConcurrentModificationError):
        ns.create_table_version(request)
    for path in (f"etc/_versions/{name}", f"{place!s}/../x/_versions/{name}", "etc/passwd"):
        with pytest.raises(ln.InvalidInputError, match="no staged manifest"):
            ns.create_table_version({**request, "manifest_path": path})
    with pytest.raises(ln.InvalidInputError, match="newest"):
        ns.batch_delete_table_versions({"id": ["t"], "ranges": [{"start_version": 1, "end_version": 3}]})
    gone = ns.batch_delete_table_versions({"id": ["t"], "ranges": [{"start_version": 1, "end_version": 2}]})
    assert gone["deleted_count"] == 1
    with pytest.raises(ln.TableVersionNotFoundError):
        ns.describe_table_version({"id": ["t"], "version": 1})


def test_declared_table_is_written_by_name(tmp_path: Path) -> None:
    ns = ours(tmp_path)
    declare(ns, "t")
    lancecy.write_dataset({"a": [1]}, namespace=ns, table_id=["t"])
    assert not describe(ns, "t", check_declared=True).is_only_declared


@pytest.mark.interop
@pytest.mark.parametrize("mode", ["Append", "Overwrite"])
@pytest.mark.parametrize("connect", [ours, theirs], ids=["lancecy", "pylance"])
def test_first_rows_of_a_declared_table_are_inserted(tmp_path: Path, connect: Any, mode: str) -> None:
    ns = connect(tmp_path)
    declare(ns, "t")
    request = ln.InsertIntoTableRequest(id=["t"], mode=mode)
    found = ns.insert_into_table(request, stream({"a": [1, 2]}))
    assert (found.num_inserted_rows, found.version) == (2, 1)
    assert not describe(ns, "t", check_declared=True).is_only_declared
    ns.insert_into_table(request, stream({"a": [3]}))
    rows = lancecy.dataset(describe(ns, "t").location).to_table()["a"].to_pylist()
    assert rows == ([1, 2, 3] if mode == "Append" else [3])


@pytest.mark.parametrize("mode", ["Append", "Overwrite"])
def test_other_first_rows_come_between(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    ns = ours(tmp_path)
    declare(ns, "t")
    write = lancecy.write_dataset

    def second(rows: Any, uri: str, **options: Any) -> Any:
        write({"a": [1]}, uri)
        return write(rows, uri, **options)

    monkeypatch.setattr(creation, "write_dataset", second)
    found = ns.insert_into_table(ln.InsertIntoTableRequest(id=["t"], mode=mode), stream({"a": [2]}))
    assert found.version == 2
    rows = lancecy.dataset(describe(ns, "t").location).to_table()["a"].to_pylist()
    assert rows == ([1, 2] if mode == "Append" else [2])


def test_first_rows_of_several_threads_are_inserted(tmp_path: Path) -> None:
    declare(ours(tmp_path), "t")
    begin = threading.Barrier(6)

    def insert(number: int) -> None:
        ns = ours(tmp_path)
        begin.wait()
        ns.insert_into_table(ln.InsertIntoTableRequest(id=["t"]), stream({"a": [number]}))

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(insert, range(6)))
    rows = lancecy.dataset(describe(ours(tmp_path), "t").location).to_table()["a"].to_pylist()
    assert sorted(rows) == list(range(6))


def test_rows_are_inserted_while_another_process_writes_the_first_version(tmp_path: Path) -> None:
    ns = ours(tmp_path)
    declare(ns, "t")
    versions = Path(describe(ns, "t").location) / "_versions"
    versions.mkdir()
    (versions / f"18446744073709551614.manifest-{uuid.uuid4()}").write_bytes(b"not finished")
    assert describe(ns, "t", check_declared=True).is_only_declared
    ns.insert_into_table(ln.InsertIntoTableRequest(id=["t"]), stream({"a": [7]}))
    assert lancecy.dataset(versions.parent).to_table()["a"].to_pylist() == [7]


def test_rows_for_a_table_that_lost_its_data_are_refused(tmp_path: Path) -> None:
    ns = ours(tmp_path)
    place = Path(create(ns, "t").location)
    for manifest in (place / "_versions").iterdir():
        manifest.unlink()
    with pytest.raises(ln.TableNotFoundError, match="no data"):
        ns.insert_into_table(ln.InsertIntoTableRequest(id=["t"]), stream())


@pytest.mark.interop
@pytest.mark.parametrize("connect", [ours, theirs], ids=["lancecy", "pylance"])
def test_versions_of_the_main_branch_by_name(tmp_path: Path, connect: Any) -> None:
    ns = connect(tmp_path)
    create(ns, "t")
    listed = ns.list_table_versions(ln.ListTableVersionsRequest(id=["t"], branch="main", page_token=""))
    assert [version.version for version in listed.versions] == [1]
    ns.describe_table_version({"id": ["t"], "branch": "main", "version": 1})
    # pylance names the table.
    missing = (ln.TableBranchNotFoundError, ln.TableNotFoundError)
    with pytest.raises(missing, match="branch 'none'"):
        ns.list_table_versions(ln.ListTableVersionsRequest(id=["t"], branch="none"))
    with pytest.raises(missing, match="branch 'none'"):
        ns.describe_table_version({"id": ["t"], "branch": "none"})


def test_versions_that_are_no_numbers_or_do_not_exist(tmp_path: Path) -> None:
    ns = ours(tmp_path)
    create(ns, "t")
    with pytest.raises(ln.InvalidInputError, match="page token 'x'"):
        ns.list_table_versions(ln.ListTableVersionsRequest(id=["t"], page_token="x"))
    ns.table_exists(ln.TableExistsRequest(id=["t"], version=1))
    with pytest.raises(ln.TableVersionNotFoundError):
        ns.table_exists(ln.TableExistsRequest(id=["t"], version=2))
    with pytest.raises(ln.InvalidInputError, match="newest"):
        ns.batch_delete_table_versions({"id": ["t"], "ranges": [{"start_version": 0, "end_version": -1}]})
