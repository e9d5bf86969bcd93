"""Operations on the indices, rows, columns and transactions of tables, with the answers that pylance gives."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance_namespace as ln
import lance_namespace_urllib3_client.models as models
import pyarrow as pa
import pytest

import lancecy
from lancecy.namespace import DirectoryNamespace
from tests.helpers.namespaces import create, describe, ours, theirs

T: dict[str, Any] = {"id": ["t"]}
LIBRARIES: dict[str, Callable[..., Any]] = {"lancecy": ours, "pylance": theirs}
UNSUPPORTED = {
    # Several tables cannot be committed together in a directory.
    "batch_commit_tables",
    "batch_create_table_versions",
    # A transaction that made a version is not changed any more.
    "alter_transaction",
    # Jobs, views, and an alias that the specification took back.
    "alter_table_backfill_columns",
    "create_empty_table",
    "create_materialized_view",
    "refresh_materialized_view",
}


def vector(*values: Any) -> Any:
    kind = models.QueryTableRequestVector
    return (
        kind(multi_vector=list(values))
        if values and isinstance(values[0], list)
        else kind(single_vector=list(values))
    )


def test_every_operation_is_there_or_unsupported(tmp_path: Path) -> None:
    ns = ours(tmp_path)
    create(ns, "t")
    operations = dict(inspect.getmembers(ln.LanceNamespace, inspect.isfunction))
    own = {
        name
        for name in operations
        if not name.startswith("_")
        and getattr(DirectoryNamespace, name) is not getattr(ln.LanceNamespace, name)
    }
    assert {name for name in operations if not name.startswith("_")} - own == UNSUPPORTED
    for name in sorted(UNSUPPORTED):
        with warnings.catch_warnings(action="ignore"), pytest.raises(ln.UnsupportedOperationError) as caught:
            getattr(ns, name)(None)
        assert caught.value.code == ln.ErrorCode.UNSUPPORTED


@pytest.mark.interop
@pytest.mark.parametrize("library", LIBRARIES)
def test_indices_of_tables(tmp_path: Path, library: str) -> None:
    ns = LIBRARIES[library](tmp_path)
    create(ns, "t", {"a": [1, 2, 3], "l": [["p"], ["q"], []]})
    for column, kind, name in (("a", "btree", None), ("a", "BITMAP", "b"), ("l", "LABEL_LIST", "c")):
        request = ln.CreateTableIndexRequest(column=column, index_type=kind, name=name, **T)
        assert ns.create_table_index(request).transaction_id
    assert ns.create_table_scalar_index(
        ln.CreateTableIndexRequest(column="a", index_type="SCALAR", name="d", **T)
    ).transaction_id
    ns.insert_into_table(ln.InsertIntoTableRequest(**T), stream_of({"a": [4], "l": [["p"]]}))
    found = ns.list_table_indices(ln.ListTableIndicesRequest(**T)).indexes
    assert [(one.index_name, one.index_type, one.columns, one.status) for one in found] == [
        ("a_idx", "BTree", ["a"], "SUCCEEDED"),
        ("b", "Bitmap", ["a"], "SUCCEEDED"),
        ("c", "LabelList", ["l"], "SUCCEEDED"),
        ("d", "BTree", ["a"], "SUCCEEDED"),
    ]
    assert [(one.num_indexed_rows, one.num_unindexed_rows, one.num_segments) for one in found] == [
        (3, 1, 1)
    ] * 4
    assert found[0].type_url == "/lance.table.BTreeIndexDetails"
    page = ns.list_table_indices(ln.ListTableIndicesRequest(limit=1, page_token="a_idx", **T))
    assert ([one.index_name for one in page.indexes], page.page_token) == (["b"], "b")
    stats = ns.describe_table_index_stats(ln.DescribeTableIndexStatsRequest(index_name="b", **T))
    assert (stats.index_type, stats.num_indexed_rows, stats.num_unindexed_rows, stats.num_indices) == (
        "Bitmap",
        3,
        1,
        1,
    )
    refused: list[tuple[type[Exception], Callable[[], Any]]] = [
        (ln.TableIndexAlreadyExistsError, lambda: index(ns, "a", "BTREE")),
        (ln.TableColumnNotFoundError, lambda: index(ns, "none", "BTREE")),
        (ln.InvalidInputError, lambda: index(ns, "a", "nonsense")),
        (
            ln.TableIndexNotFoundError,
            lambda: ns.describe_table_index_stats(ln.DescribeTableIndexStatsRequest(index_name="x", **T)),
        ),
        (
            ln.TableIndexNotFoundError,
            lambda: ns.drop_table_index(ln.DropTableIndexRequest(index_name="x", **T)),
        ),
    ]
    for error, call in refused:
        with pytest.raises(error):
            call()
    ns.drop_table_index(ln.DropTableIndexRequest(index_name="b", **T))
    assert len(ns.list_table_indices(ln.ListTableIndicesRequest(**T)).indexes) == 3


def index(ns: Any, column: str, kind: str) -> Any:
    return ns.create_table_index(ln.CreateTableIndexRequest(column=column, index_type=kind, **T))


def stream_of(rows: Any) -> bytes:
    from tests.helpers.namespaces import stream

    return stream(rows)


def test_indices_that_are_not_made_are_named(tmp_path: Path) -> None:
    ns = ours(tmp_path)
    create(ns, "t", {"a": [1]})
    with pytest.raises(ln.UnsupportedOperationError, match="RTREE are not made"):
        index(ns, "a", "RTREE")
    with pytest.raises(ln.InvalidInputError, match="index_name"):
        ns.drop_table_index(ln.DropTableIndexRequest(**T))


@pytest.mark.interop
@pytest.mark.parametrize("library", LIBRARIES)
def test_transactions_and_branches(tmp_path: Path, library: str) -> None:
    ns = LIBRARIES[library](tmp_path)
    create(ns, "t")
    found = ns.describe_transaction(ln.DescribeTransactionRequest(id=["t", "1"]))
    properties = found.properties
    assert (found.status, properties["version"], properties["read_version"]) == ("SUCCEEDED", "1", "0")
    by_id = ns.describe_transaction(ln.DescribeTransactionRequest(id=["t", properties["uuid"]]))
    assert by_id.properties == properties
    for missing in ("99", "0", "abc", "0f8fad5b-d9cb-469f-a165-70867728950e"):
        with pytest.raises(ln.TransactionNotFoundError):
            ns.describe_transaction(ln.DescribeTransactionRequest(id=["t", missing]))
    with pytest.raises(ln.InvalidInputError):
        ns.describe_transaction(ln.DescribeTransactionRequest(id=["t"]))
    assert ns.list_table_branches(ln.ListTableBranchesRequest(**T)).branches == {}
    for name in ("b", "c"):
        ns.create_table_branch(ln.CreateTableBranchRequest(name=name, **T))
    branches = ns.list_table_branches(ln.ListTableBranchesRequest(**T)).branches
    assert {name: branch.parent_version for name, branch in branches.items()} == {"b": 1, "c": 1}
    if library == "lancecy":  # pylance passes over the limit
        page = ns.list_table_branches(ln.ListTableBranchesRequest(limit=1, **T))
        assert (list(page.branches), page.page_token) == (["b"], "b")
    ns.delete_table_branch(ln.DeleteTableBranchRequest(name="b", **T))
    assert list(ns.list_table_branches(ln.ListTableBranchesRequest(**T)).branches) == ["c"]


@pytest.mark.interop
@pytest.mark.parametrize("library", LIBRARIES)
def test_searches(tmp_path: Path, library: str) -> None:
    ns = LIBRARIES[library](tmp_path)
    vectors = pa.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], pa.list_(pa.float32(), 2))
    create(ns, "t", pa.table({"id": [1, 2, 3], "v": vectors}))

    def ask(*values: Any, **fields: Any) -> dict[str, list[Any]]:
        request = ln.QueryTableRequest(k=2, vector=vector(*values), vector_column="v", **T, **fields)
        answer = ns.query_table(request)
        found: pa.Table = pa.ipc.open_file(getattr(answer, "data", answer)).read_all()
        return dict(found.to_pydict())

    only = {"column_names": ["id", "_distance"]}
    assert ask(1.0, 2.0, columns=only) == {"id": [1, 2], "_distance": [0.0, 8.0]}
    assert ask(1.0, 2.0, columns=only, filter="id > 1", prefilter=True)["id"] == [2, 3]
    assert ask(1.0, 2.0, columns=only, filter="id > 1")["id"] == [2]
    assert ask(1.0, 2.0, columns=only, upper_bound=5.0)["id"] == [1]
    assert ask(1.0, 2.0, columns=only, distance_type="dot")["id"] == [3, 2]
    assert ask(columns={"column_names": ["id"]}, filter="id > 1") == {"id": [2, 3]}
    # The plans are texts of their own.
    query = ln.QueryTableRequest(k=2, vector=vector(1.0, 2.0), vector_column="v", filter="id > 1", **T)
    assert ns.explain_table_query_plan(ln.ExplainTableQueryPlanRequest(query=query, **T))
    analyze = ln.AnalyzeTableQueryPlanRequest(k=2, vector=vector(), filter="id > 1", **T)
    assert "rows" in ns.analyze_table_query_plan(analyze)


def test_searches_without_a_column_or_with_many_vectors(tmp_path: Path) -> None:
    ns = ours(tmp_path)
    vectors = pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32(), 2))
    create(ns, "t", pa.table({"id": [1, 2], "v": vectors}))
    request = ln.QueryTableRequest(k=1, offset=1, vector=vector([1.0, 2.0], [3.0, 4.0]), **T)
    with pytest.raises(ln.LanceNamespaceError):
        ns.query_table(ln.QueryTableRequest(k=1, vector=vector(1.0), **T))
    request = ln.QueryTableRequest(k=1, vector=vector([1.0, 2.0], [3.0, 4.0]), **T)
    found = pa.ipc.open_file(ns.query_table(request).data).read_all()
    assert (found["query_index"].to_pylist(), found["id"].to_pylist()) == ([0, 1], [1, 2])
    create(ns, "plain")
    with pytest.raises(ln.InvalidInputError, match="0 columns of vectors"):
        ns.query_table(ln.QueryTableRequest(id=["plain"], k=1, vector=vector(1.0)))
    text = models.QueryTableRequestFullTextQuery(string_query=models.StringFtsQuery(query="x"))
    with pytest.raises(ln.UnsupportedOperationError, match="full-text"):
        ns.query_table(ln.QueryTableRequest(k=1, vector=vector(), full_text_query=text, **T))


def test_columns_are_cast_and_described(tmp_path: Path) -> None:
    ns = ours(tmp_path)
    rows = pa.table({"a": pa.array([1, 2], pa.int32()), "s": [{"x": 1}, {"x": 2}]})
    create(ns, "t", rows)
    for kind, name in (
        ({"type": "int64"}, "int64"),
        ({"type": "float64"}, "double"),
        ({"type": "utf8"}, "string"),
    ):
        altered = ln.AlterTableAlterColumnsRequest(alterations=[{"path": "a", "data_type": kind}], **T)
        assert ns.alter_table_alter_columns(altered).version > 1
        assert str(lancecy.dataset(describe(ns, "t").location).schema.field("a").type) == name
    wrong = ln.AlterTableAlterColumnsRequest(alterations=[{"path": "a", "data_type": {"type": "no"}}], **T)
    with pytest.raises(ln.InvalidInputError, match="not known"):
        ns.alter_table_alter_columns(wrong)
    updates = [
        models.UpdateFieldMetadataEntry(path="a", metadata={"unit": "m"}),
        models.UpdateFieldMetadataEntry(path="s.x", metadata={"k": "v"}),
    ]
    found = ns.update_field_metadata(ln.UpdateFieldMetadataRequest(updates=updates, **T))
    assert found.fields == {"a": {"unit": "m"}, "s.x": {"k": "v"}}
    updates = [models.UpdateFieldMetadataEntry(path="a", metadata={"unit": None})]
    assert ns.update_field_metadata(ln.UpdateFieldMetadataRequest(updates=updates, **T)).fields == {"a": {}}
    updates = [models.UpdateFieldMetadataEntry(path="none", metadata={"k": "v"})]
    with pytest.raises(ln.TableColumnNotFoundError):
        ns.update_field_metadata(ln.UpdateFieldMetadataRequest(updates=updates, **T))


def test_schemas_come_back_from_their_models() -> None:
    from lancecy.namespace.schemas import arrow_type, json_schema

    schema = pa.schema(
        {
            "a": pa.int8(),
            "b": pa.large_string(),
            "c": pa.list_(pa.field("item", pa.float32())),
            "d": pa.list_(pa.float16(), 3),
            "e": pa.struct({"x": pa.date32(), "y": pa.large_list(pa.bool_())}),
            "f": pa.decimal128(10, 2),
            "g": pa.binary(4),
        }
    )
    made = json_schema(schema)
    assert [arrow_type(field.type.model_dump(by_alias=True)) for field in made.fields] == schema.types
    for wrong in ({}, {"type": "list"}, {"type": "fixed_size_list", "fields": []}, {"type": "decimal128"}):
        with pytest.raises(ValueError, match="not known"):
            arrow_type(wrong)
