"""Modules that code for pylance imports names from, and the schema with its methods."""

from __future__ import annotations

import dataclasses
import importlib
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import ColumnNotFoundError, CommitError
from tests.helpers.folded import folded

lance = pytest.importorskip("lance")
pytestmark = pytest.mark.interop

IMPORTS = {
    "blob": "Blob BlobArray BlobFile BlobType blob_array blob_field",
    "commit": "CommitConflictError CommitLock",
    "dataset": (
        "AlterColumn Branch Branches BulkCommitResult CleanupExplanation CleanupStats ColumnOrdering DataStatistics "
        "DatasetDelta DatasetOptimizer DatasetStats FieldStatistics Index IndexFile LANCE_COMMIT_MESSAGE_KEY LanceDataset LanceOperation "
        "LanceScanner MergeInsertBuilder SqlQuery SqlQueryBuilder Tag Tags Transaction write_dataset"
    ),
    "file": (
        "LanceBufferDescriptor LanceColumnMetadata LanceFileMetadata LanceFileReader LanceFileStatistics "
        "LanceFileWriter LancePageMetadata ReaderResults"
    ),
    "fragment": "DataFile DeletionFile FragmentMetadata FragmentSession LanceFragment write_fragments",
    "indices": "IndexConfig",
    "progress": "FragmentWriteProgress",
    "schema": "LanceSchema json_to_schema schema_to_json",
}


@folded("module", IMPORTS)
def test_names_are_imported_from_the_modules_that_pylance_has(module: str) -> None:
    theirs, mine = (importlib.import_module(f"{package}.{module}") for package in ("lance", "lancecy"))
    names = IMPORTS[module].split()
    assert [name for name in names if not hasattr(theirs, name)] == []
    assert [name for name in names if not hasattr(mine, name)] == []
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        mine.Nothing  # noqa: B018


def test_functions_with_the_names_of_modules_stay_functions() -> None:
    code = """
from lancecy.commit import CommitConflictError
from lancecy.dataset import LanceDataset
import importlib, lancecy.commit, lancecy.dataset
importlib.reload(lancecy)
ds = lancecy.write_dataset({"a": [1]}, "memory://functions")
made = lancecy.commit(ds, lancecy.LanceOperation.Append([]), read_version=1)
print(lancecy.dataset(ds.uri).version, isinstance(made, LanceDataset))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=200
    )
    assert done.stdout.split() == ["2", "True"]


def test_conflicts_are_caught_and_raised_under_pylances_name() -> None:
    error = lancecy.errors.CommitConflictError
    assert error is importlib.import_module("lancecy.commit").CommitConflictError is CommitError
    assert "committed first" in str(error()) and str(error("busy")) == "busy"
    ds = lancecy.write_dataset({"a": [1]}, "memory://caught-conflicts")
    lancecy.dataset(ds.uri).update_config({"owner": "me"})
    with pytest.raises(error) as raised:
        ds.update_config({"owner": "you"})
    assert raised.value.retryable is False


def test_a_base_class_of_progress_is_told_of_files(tmp_path: Path) -> None:
    told: list[str] = []

    class Told(importlib.import_module("lancecy.progress").FragmentWriteProgress):  # type: ignore[misc]
        def begin(self, fragment: Any, **kwargs: Any) -> None:
            told.append("begin")

        def complete(self, fragment: Any, **kwargs: Any) -> None:
            told.append("complete")

    assert isinstance(Told(), importlib.import_module("lancecy.progress").FragmentWriteProgress)
    lancecy.write_fragments({"a": [1]}, tmp_path / "t", progress=Told())
    assert told == ["begin", "complete"]


PRIMARY, CLUSTERING = (f"lance-schema:unenforced-{kind}-key" for kind in ("primary", "clustering"))
SCHEMA = pa.schema(
    [
        pa.field("Key", pa.int64(), False, {PRIMARY: "true"}),
        pa.field("s", pa.struct([pa.field("x", pa.list_(pa.int8())), pa.field("y.z", pa.string())])),
        pa.field("d", pa.int64(), False, {f"{CLUSTERING}:position": "1", f"{PRIMARY}:position": "2"}),
        pa.field("e", pa.int64(), False, {f"{PRIMARY}:position": "1"}),
    ]
)


def _told(field: Any) -> Any:
    if field is None:
        return None
    keys = field.is_unenforced_primary_key(), field.unenforced_primary_key_position()
    clustering = field.is_unenforced_clustering_key(), field.unenforced_clustering_key_position()
    return (
        field.name(),
        field.id(),
        [_told(one) for one in field.children()],
        keys,
        clustering,
        field.to_arrow(),
    )


def _all_told(schema: Any) -> list[Any]:
    return [
        [_told(field) for field in schema.fields()],
        [_told(schema.field(name)) for name in ("Key", "s", "s.x", "s.`y.z`")],
        [_told(schema.field_case_insensitive(name)) for name in ("key", "S.X", "nothing")],
        [_told(field) for field in schema.unenforced_primary_key()],
        [_told(field) for field in schema.unenforced_clustering_key()],
        schema.to_pyarrow(),
    ]


def test_the_schema_has_pylances_methods(tmp_path: Path) -> None:
    ds = lancecy.write_dataset(SCHEMA.empty_table(), tmp_path / "t")
    theirs = lance.dataset(ds.uri).lance_schema
    assert _all_told(ds.lance_schema) == _all_told(theirs)
    made = importlib.import_module("lancecy.schema").LanceSchema.from_pyarrow(SCHEMA)
    assert _all_told(made) == _all_told(type(theirs).from_pyarrow(SCHEMA))


def test_positions_in_keys_that_are_no_numbers_are_none(tmp_path: Path) -> None:
    texts = ("x", "", "-1", " 2", "+3", "07", "0", str(2**32 - 1), str(2**32), "9" * 5000)
    fields = [
        pa.field(f"c{n}", pa.int64(), False, {f"{CLUSTERING}:position": text}) for n, text in enumerate(texts)
    ]
    lance.write_dataset(pa.schema(fields).empty_table(), tmp_path / "t")
    mine, theirs = (library.dataset(tmp_path / "t").lance_schema for library in (lancecy, lance))
    assert [_told(field) for field in mine.fields()] == [_told(field) for field in theirs.fields()]
    keys = ([f.name() for f in schema.unenforced_clustering_key()] for schema in (mine, theirs))
    assert next(keys) == next(keys) == ["c4", "c5", "c7"]


def test_the_schema_with_methods_equals_the_plain_one(tmp_path: Path) -> None:
    ds = lancecy.write_dataset(SCHEMA.empty_table(), tmp_path / "t")
    schema, plain = ds.lance_schema, ds._snapshot.schema
    assert schema == plain and plain == schema and hash(schema) == hash(plain)
    assert plain.fields == schema.fields and schema.fields[1].children[0].name == "x"
    assert schema != plain.select(["d"]) and plain.fields[0] != schema.fields[1]
    again = pickle.loads(pickle.dumps(schema))
    assert again == schema and again.fields()[1].children()[1].name() == "y.z"
    moved = dataclasses.replace(schema, fields=[dataclasses.replace(plain.fields[1], id=7)])
    assert moved.fields()[0].id() == dataclasses.replace(schema.fields[1], id=7).id() == 7
    with pytest.raises(ColumnNotFoundError, match=r"s\.w"):
        schema.field("s.w")


def test_operations_take_the_schema_with_methods(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"a": [1], "b": ["x"]}, tmp_path / "t")
    schema = dataclasses.replace(ds.lance_schema, fields=tuple(ds.lance_schema.fields()[1:]))
    made = lancecy.commit(ds, lancecy.LanceOperation.Project(schema), read_version=1)
    assert lance.dataset(ds.uri).to_table() == made.to_table() == pa.table({"b": ["x"]})
