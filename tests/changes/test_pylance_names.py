"""The names that pylance's tables, fragments and builders have: each is there, or its absence is explained."""

from __future__ import annotations

import importlib
import inspect
import os
import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancecy
from lancecy.api.delta import DatasetDelta
from lancecy.api.pylance_names import DATASET_NAMES, FRAGMENT_NAMES, OTHER_NAMES
from lancecy.changes.merge_insert import MergeInsertBuilder
from lancecy.errors import (
    ColumnNotFoundError,
    ConflictError,
    DatasetNotFoundError,
    FormatError,
    UnsupportedError,
)
from lancecy.optimize import DatasetOptimizer
from tests.helpers.folded import folded

lance = pytest.importorskip("lance")
# The function ``lance.dataset`` has the name of this module.
theirs_module = importlib.import_module("lance.dataset")
pytestmark = pytest.mark.interop

# Methods of the compiled base class, under the public ones.
INTERNAL = {"analyze_plan_batches", "execute_batches", "execute_uncommitted_batches"}
# Methods of pyarrow's Scanner that pylance inherits and does not implement.
OF_ARROW = {"from_batches", "from_dataset", "from_fragment", "scan_batches", "take"}
COMPACTIONS = ("Compaction", "CompactionPlan", "CompactionTask", "RewriteResult", "CompactionMetrics")
CLASSES: list[tuple[Any, Any, set[str]]] = [
    (lance.LanceDataset, lancecy.Dataset, set(DATASET_NAMES) - {"_take_rows"}),
    (lance.LanceFragment, lancecy.LanceFragment, set(FRAGMENT_NAMES)),
    (theirs_module.MergeInsertBuilder, MergeInsertBuilder, INTERNAL),
    (theirs_module.DatasetOptimizer, DatasetOptimizer, set()),
    (theirs_module.LanceScanner, lancecy.LanceScanner, OF_ARROW),
    (lance.LanceOperation, lancecy.LanceOperation, set()),
    (theirs_module.Transaction, lancecy.Transaction, set()),
    (theirs_module.DatasetDelta, DatasetDelta, set()),
    *(
        (getattr(importlib.import_module("lance.optimize"), name), getattr(lancecy.optimize, name), set())
        for name in COMPACTIONS
    ),
    # Row ids and versions have other names here, and create is LanceFragment.create_from_file.
    (lance.fragment.DataFile, lancecy.DataFile, {"create", "field_ids"}),
    (
        lance.FragmentMetadata,
        lancecy.FragmentMetadata,
        {"created_at_version_meta", "data_files", "last_updated_at_version_meta", "row_id_meta"},
    ),
]


@folded(("theirs", "mine", "missing"), CLASSES)
def test_every_public_name_is_there_or_listed(theirs: Any, mine: Any, missing: set[str]) -> None:
    names = {name for name in dir(theirs) if not name.startswith("_")}
    assert {name for name in names if not hasattr(mine, name)} == missing


def test_what_is_a_method_of_pylances_tables_can_be_called(ds: lancecy.Dataset) -> None:
    theirs = lance.dataset(ds.uri)
    fragments = theirs.get_fragments()[0], ds.get_fragments()[0]
    for one, other, missing in ((theirs, ds, DATASET_NAMES), (*fragments, FRAGMENT_NAMES)):
        names = [name for name in dir(one) if not name.startswith("_") and name not in missing]
        methods = {name for name in names if callable(getattr(one, name))}
        assert methods >= {"scanner", "take"}
        assert {name for name in methods if not callable(getattr(other, name))} == set()


def test_schemas_of_the_format_become_arrows_under_pylances_name(ds: lancecy.Dataset) -> None:
    assert ds.lance_schema.to_pyarrow() == lance.dataset(ds.uri).lance_schema.to_pyarrow()
    _, schema = ds.get_fragments()[0].merge_columns({"one_more": "1"})
    assert schema.to_pyarrow().names == [*ds.schema.names, "one_more"]


def test_an_overwrite_with_files_of_the_table_names_the_operation_for_them(ds: lancecy.Dataset) -> None:
    fragments, schemas = zip(*(f.merge_columns({"one_more": "1"}) for f in ds.get_fragments()), strict=True)
    with pytest.raises(ConflictError, match="LanceOperation.Merge commits"):
        lancecy.commit(ds, lancecy.LanceOperation.Overwrite(schemas[0].to_pyarrow(), fragments))
    lancecy.commit(ds, lancecy.LanceOperation.Merge(fragments, schemas[0]))
    assert "one_more" in ds.checkout_latest().schema.names


def test_configuration_and_bases_are_dictionaries_and_pylances_calls(ds: lancecy.Dataset) -> None:
    ds.update_config({"owner": "me"})
    assert ds.config["owner"] == ds.config()["owner"] == "me"
    assert ds.base_paths == ds.base_paths() == {}
    assert ds.config() == lance.dataset(ds.uri).config()


def test_bytes_of_columns_are_those_of_pylance_by_id_too(tmp_path: Path) -> None:
    table = pa.table(
        {"a": range(1000), "b": [str(i) for i in range(1000)], "s": [{"x": i, "y": [i]} for i in range(1000)]}
    )
    lance.write_dataset(table, tmp_path / "t", data_storage_version="2.1").drop_columns(["a"])
    wanted = {
        field.id: field.bytes_on_disk for field in lance.dataset(tmp_path / "t").stats.data_stats().fields
    }
    found = lancecy.dataset(tmp_path / "t").stats.data_stats()
    whole = sum(size for number, size in wanted.items() if number > 1)
    assert [(field.id, field.bytes_on_disk) for field in found.fields] == [(1, wanted[1]), (2, whole)]
    assert found == {"b": wanted[1], "s": whole}


@folded(("start", "end"), [(0, 3), (5, 5), (7, 1000), (2000, 2001), (0, 10)])
def test_a_slice_is_pylances(ds: lancecy.Dataset, start: int, end: int) -> None:
    theirs = lance.dataset(ds.uri)
    assert ds.slice(start, end) == theirs.slice(start, end)
    column = ds.schema.names[0]
    assert ds.slice(start, end, [column]) == theirs.slice(start, end, columns=[column])


@folded(("start", "end"), [(-1, 2), (3, 2)])
def test_a_slice_that_is_none_is_refused(ds: lancecy.Dataset, start: int, end: int) -> None:
    with pytest.raises(ValueError, match="must"):
        ds.slice(start, end)


CHANGES = (
    "add_columns alter_columns cleanup_old_versions commit commit_batch delete drop_columns insert merge "
    "merge_insert restore update delta read_transaction get_transactions get_fragments explain_cleanup_old_versions"
)
# pylance's own arguments of storage, and of names of manifests in a table that exists.
REFUSED = {"base_store_params", "enable_v2_manifest_paths"}


@folded("name", CHANGES.split())
def test_methods_that_change_tables_take_pylances_arguments(name: str) -> None:
    theirs, mine = (
        set(inspect.signature(getattr(each, name)).parameters)
        for each in (lance.LanceDataset, lancecy.Dataset)
    )
    named = {"namespace_client", "table_id", "namespace_client_managed_versioning", "kwargs"}
    assert theirs - mine - named - (REFUSED if name.startswith("commit") else set()) == set()


@pytest.fixture
def ds(tmp_path: Path) -> lancecy.Dataset:
    return lancecy.write_dataset({"a": range(9)}, tmp_path / "t", max_rows_per_file=3, zonemaps=True)


def test_what_is_missing_says_what_to_do(ds: lancecy.Dataset) -> None:
    for name, advice in DATASET_NAMES.items():
        with pytest.raises(AttributeError) as raised:
            getattr(ds, name)
        assert f"has no attribute '{name}', which pylance has: {advice}" in str(raised.value)
    with pytest.raises(AttributeError, match="'LanceFragment' object has no attribute 'physical_schema', wh"):
        ds.get_fragments()[0].physical_schema  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match="'Dataset' object has no attribute 'verson'$"):
        ds.verson  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(
        AttributeError, match="'Dataset' has no attribute 'drop', which pylance has: remove the"
    ):
        lancecy.LanceDataset.drop(ds.uri)  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="'Dataset' has no attribute 'verson'$"):
        lancecy.Dataset.verson  # type: ignore[attr-defined]  # noqa: B018
    assert not hasattr(ds, "create_index") and not hasattr(lancecy.Dataset, "create_index")


def test_names_of_other_libraries_say_what_to_do(ds: lancecy.Dataset) -> None:
    for name, advice in OTHER_NAMES.items():
        with pytest.raises(AttributeError) as raised:
            getattr(ds, name)
        assert str(raised.value) == f"'Dataset' object has no attribute '{name}': {advice}"
        assert not hasattr(lance.LanceDataset, name), "pylance has it too"
        called = re.match(r"(\w+)(\.compact_files)?\(|schema ", advice)
        if called is not None and called[1]:
            assert hasattr(ds, called[1]) or hasattr(lancecy, called[1]), advice


def test_commit_is_a_method_too(ds: lancecy.Dataset) -> None:
    append = lancecy.LanceOperation.Append(lancecy.write_fragments({"a": [9]}, ds))
    nothing: dict[str, Any] = dict.fromkeys(("enable_v2_manifest_paths", "enable_stable_row_ids", "table_id"))
    made = lancecy.LanceDataset.commit(
        ds.uri, append, 1, commit_message="one more", detached=None, max_retries=3, **nothing
    )
    assert isinstance(made, lancecy.Dataset) and (made.version, made.count_rows(), ds.version) == (3, 10, 2)
    found = made.read_transaction(3)
    assert found is not None and "one more" in found.transaction_properties.values()
    with pytest.raises(ValueError, match="read_version is needed"):
        lancecy.LanceDataset.commit(ds.uri, append)
    with pytest.raises(DatasetNotFoundError):
        lancecy.LanceDataset.commit(f"{ds.uri}-none", append, read_version=1)
    with pytest.raises(UnsupportedError, match=r"base_store_params.*storage_options"):
        ds.commit(ds, append, base_store_params={})  # type: ignore[call-arg]


def test_versions_and_ids_are_those_of_pylance(ds: lancecy.Dataset) -> None:
    ds.add_columns({"b": "a + 1"})
    ds.drop_columns(["a"])
    ds.delete("b < 4")
    theirs = lance.dataset(ds.uri)
    assert ds.version_refs() == theirs.version_refs()
    assert ds.fragment_ids() == list(theirs.fragment_ids()) == [1, 2]
    assert ds.max_field_id == theirs.max_field_id == 1
    mine, other = ds.get_version(), theirs.get_version()
    assert (mine["version"], mine["metadata"]) == (other["version"], other["metadata"])
    assert mine["timestamp"].timestamp() == pytest.approx(other["timestamp"].astimezone().timestamp(), abs=1)
    assert mine == ds.versions()[-1]


def test_fragments_are_chosen_without_reading_them(ds: lancecy.Dataset) -> None:
    def chosen(condition: str) -> list[int]:
        return [part.fragment_id for part in ds.get_fragments(condition)]

    assert chosen("a > 4") == [1, 2]
    assert chosen("a = 100") == []
    assert chosen("_rowaddr < 4294967296") == [0]
    assert chosen("a % 3 = 0") == [0, 1, 2], "zone maps know nothing of this"
    with pytest.raises(ColumnNotFoundError, match="missing"):
        ds.get_fragments("missing = 1")


def test_validate_names_what_is_damaged_and_reads_no_page(ds: lancecy.Dataset) -> None:
    ds.validate()
    (file,) = ds.get_fragments()[1].data_files()
    path = Path(ds.uri, "data", file.path)
    sound = path.read_bytes()
    path.write_bytes(b"\0" * 8 + sound[8:])
    lancecy.dataset(ds.uri).validate()
    os.truncate(path, 20)
    with pytest.raises(FormatError, match="fragment 1"):
        lancecy.dataset(ds.uri).validate()
    path.unlink()
    with pytest.raises(FormatError, match=f"fragment 1.*{file.path}"):
        lancecy.dataset(ds.uri).validate()


def test_a_file_that_was_written_by_itself_replaces_a_column(ds: lancecy.Dataset) -> None:
    with lancecy.LanceFileWriter(f"{ds.uri}/data/new.lance", pa.schema({"a": pa.int64()})) as writer:
        writer.write_batch(pa.record_batch({"a": pa.array([10, 11, 12], pa.int64())}))
    file = lancecy.LanceFragment.create_from_file("new.lance", ds, 0).files[0]
    theirs = lance.fragment.DataFile.create(lance.dataset(ds.uri), "new.lance")
    names = ("path", "file_major_version", "file_minor_version", "file_size_bytes", "base_id")
    assert [getattr(file, name) for name in names] == [getattr(theirs, name) for name in names]
    assert (list(file.fields), list(file.column_indices)) == (theirs.fields, theirs.column_indices)
    change = lancecy.LanceOperation.DataReplacement([lancecy.LanceOperation.DataReplacementGroup(1, file)])
    made = lancecy.LanceDataset.commit(ds, change)
    assert made.to_table()["a"].to_pylist() == [0, 1, 2, 10, 11, 12, 6, 7, 8]
    assert lance.dataset(ds.uri).to_table().equals(made.to_table())


def test_fragments_are_written_under_pylances_name_of_the_table(ds: lancecy.Dataset) -> None:
    (part,) = lancecy.write_fragments({"a": [9]}, dataset_uri=ds.uri)  # type: ignore[call-overload]
    assert part.num_rows == 1
    with pytest.raises(UnsupportedError, match="give it to the commit"):
        lancecy.write_fragments({"a": [9]}, ds, enable_stable_row_ids=True)  # type: ignore[call-overload]


def _conflicting(module: Any, uri: str) -> Any:
    """Two overlapping changes of the configuration."""
    first, second = module.dataset(uri), module.dataset(uri)
    first.update_config({"owner": "me"})
    return second.update_config({"owner": "you"})


ERRORS: dict[str, Callable[[Any, Any], Any]] = {
    "columns of a scan": lambda _, ds: ds.to_table(columns=["nope"]),
    "a computed column": lambda _, ds: ds.to_table(columns={"x": "nope + 1"}),
    "a filter": lambda _, ds: ds.to_table(filter="nope = 1"),
    "an order": lambda _, ds: ds.to_table(order_by=["nope"]),
    "columns of a fragment": lambda _, ds: ds.get_fragments()[0].to_table(columns=["nope"]),
    "a dropped column": lambda _, ds: ds.drop_columns(["nope"]),
    "an updated column": lambda _, ds: ds.update({"nope": "1"}),
    "the key of a merge": lambda _, ds: ds.merge_insert("nope").when_matched_update_all().execute({"a": [1]}),
    "an index": lambda _, ds: ds.create_scalar_index("nope", "BTREE"),
    "a version": lambda module, ds: module.dataset(ds.uri, version=77),
    "a version to check out": lambda _, ds: ds.checkout_version(77),
    "a version for a tag": lambda _, ds: ds.tags.create("t", 77),
    "the transaction of a version": lambda _, ds: ds.read_transaction(77),
    "a version to restore": lambda module, ds: module.LanceDataset.commit(
        ds.uri, module.LanceOperation.Restore(77), read_version=1
    ),
    "a conflict": lambda module, ds: _conflicting(module, ds.uri),
    "a table": lambda module, ds: module.dataset(f"{ds.uri}_missing"),
    "a column of appended rows": lambda module, ds: module.write_dataset({"b": [1]}, ds, mode="append"),
    "the type of appended rows": lambda module, ds: module.write_dataset({"a": ["b"]}, ds, mode="append"),
    "the type of merged rows": lambda _, ds: (
        ds.merge_insert("a").when_matched_update_all().execute({"a": ["b"]})
    ),
    "a key that repeats": lambda _, ds: ds.merge_insert("a").when_matched_update_all().execute({"a": [1, 1]}),
    "a column there is already": lambda _, ds: ds.add_columns({"a": "1"}),
    "a column of an expression": lambda _, ds: ds.add_columns({"b": "nope + 1"}),
    "too few values": lambda _, ds: ds.add_columns(pa.table({"b": [1]})),
    "a column to alter": lambda _, ds: ds.alter_columns({"path": "nope", "name": "b"}),
    "a value that a type has not": lambda _, ds: (
        ds.update({"a": "1024"}),
        ds.alter_columns({"path": "a", "data_type": pa.int8()}),
    ),
    "a key to join by": lambda _, ds: ds.merge(pa.table({"a": [1], "b": [1]}), "nope"),
    "a column of deleted rows": lambda _, ds: ds.delete("nope = 1"),
    "a condition of deleted rows": lambda _, ds: ds.delete("a >"),
    "a column of counted rows": lambda _, ds: ds.count_rows("nope = 1"),
    "a condition of scanned rows": lambda _, ds: ds.to_table(filter="a >"),
    "a row": lambda _, ds: ds.take([99]),
    "a row of a fragment": lambda _, ds: ds.get_fragments()[0].take([99]),
    "a field to describe": lambda _, ds: ds.update_field_metadata({"nope": {"k": "v"}}),
}


@folded("what", list(ERRORS))
def test_errors_are_caught_by_what_catches_those_of_pylance(tmp_path: Path, what: str) -> None:
    caught: list[Exception] = []
    for module in (lance, lancecy):
        module.write_dataset(pa.table({"a": range(9)}), tmp_path / "t", mode="overwrite")
        with pytest.raises(Exception) as error:  # noqa: PT011  the class is compared below
            ERRORS[what](module, module.dataset(str(tmp_path / "t")))
        caught.append(error.value)
    builtin = next(kind for kind in type(caught[0]).__mro__ if kind.__module__ == "builtins")
    assert isinstance(caught[1], builtin)
    assert isinstance(caught[1], lancecy.LanceError)


# What imports of these modules take from pylance, and lancecy has not.
MODULES = {
    "fragment": {
        *("BatchUDF", "Bitmap", "FragmentWriteProgress", "NoopFragmentWriteProgress"),
        *("RowDatasetVersionMeta", "RowIdMeta", "RowIdSequence", "normalize_transform"),
    },
    "udf": {"normalize_transform"},
    "optimize": set(),
}


@folded(("name", "absent"), MODULES.items())
def test_imports_of_modules_need_another_first_name_only(name: str, absent: set[str]) -> None:
    theirs = vars(importlib.import_module(f"lance.{name}"))
    public = {
        key
        for key, value in theirs.items()
        if not key.startswith("_") and (getattr(value, "__module__", None) or "").startswith("lance")
    }
    ours = importlib.import_module(f"lancecy.{name}")
    assert public - set(ours.__all__) == absent
    assert getattr(lancecy, name) is ours


@pytest.mark.parametrize("rows", [3, 100_000])
def test_deletion_files_tell_their_paths_and_attributes(tmp_path: Path, rows: int) -> None:
    ds = lancecy.write_dataset({"a": range(rows)}, tmp_path / "t")
    ds.delete("a % 2 = 1")
    mine = ds.get_fragments()[0].metadata.deletion_file
    theirs = lance.dataset(ds.uri).get_fragments()[0].metadata.deletion_file
    assert mine is not None and mine.asdict() == theirs.asdict()
    assert (tmp_path / "t" / mine.path(0)).exists()
    for place in ((0,), (0, "b"), (7, "x/y/")):
        assert mine.path(*place) == theirs.path(*place)


@pytest.mark.parametrize("module", [lance, lancecy])
def test_fragments_are_described_with_the_arguments_of_pylance(tmp_path: Path, module: Any) -> None:
    uri, made = str(tmp_path / "t"), module.fragment
    ds = module.write_dataset(pa.table({"a": range(4)}), uri, data_storage_version="2.1")
    (part,) = made.write_fragments(pa.table({"a": range(4, 9)}), uri, data_storage_version="2.1")
    (file,) = part.files
    values: dict[str, Any] = {
        "path": file.path,
        "fields": [0],
        "column_indices": [0],
        "file_major_version": 2,
        "file_minor_version": 1,
        "file_size_bytes": file.file_size_bytes,
        "base_id": None,
    }
    again = made.DataFile(**values)
    assert again == file == made.DataFile(*values.values()) == made.DataFile(**part.to_json()["files"][0])
    assert {key.strip("_"): value for key, value in asdict(again).items()} == {
        **values,
        **({} if module is lance else {"fields": (0,), "column_indices": (0,)}),
    }
    assert repr(again).startswith(f"DataFile(path='{file.path}', fields=")
    assert f"file_major_version=2, file_minor_version=1, file_size_bytes={file.file_size_bytes}" in repr(
        again
    )
    bare = made.DataFile("a.lance", [0], None)
    assert (list(bare.column_indices), bare.file_major_version, bare.file_size_bytes) == ([], 0, None)
    append = module.LanceOperation.Append([made.FragmentMetadata(0, [again], 5)])
    ds = module.LanceDataset.commit(uri, append, read_version=1)
    assert lance.dataset(uri).to_table()["a"].to_pylist() == list(range(9))
    ds.delete("a = 5")
    (deleted,) = (part.metadata for part in ds.get_fragments() if part.metadata.deletion_file)
    kept = made.FragmentMetadata(
        deleted.id,
        files=list(deleted.files),
        physical_rows=deleted.physical_rows,
        deletion_file=made.DeletionFile(**deleted.deletion_file.asdict()),
    )
    change = module.LanceOperation.Delete([kept], [0], "a < 4")
    ds = module.LanceDataset.commit(uri, change, read_version=ds.version)
    assert lance.dataset(uri).to_table()["a"].to_pylist() == [4, 6, 7, 8]
    assert lancecy.dataset(uri).verify().is_ok


def test_deletion_files_are_made_and_sent_as_those_of_pylance(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"a": range(3)}, tmp_path / "t")
    ds.delete("a = 1")
    mine = ds.get_fragments()[0].metadata.deletion_file
    theirs = lance.dataset(ds.uri).get_fragments()[0].metadata.deletion_file
    assert mine is not None and mine.file_type == theirs.file_type == "array"
    for text in (mine.json(), theirs.json()):
        assert lancecy.fragment.DeletionFile.from_json(text) == mine
        assert lance.fragment.DeletionFile.from_json(text).asdict() == theirs.asdict()
    for module in (lance, lancecy):
        kept = module.fragment.DeletionFile(1, 2, "bitmap", 3, None)
        assert (kept.file_type, kept.path(7)) == ("bitmap", "_deletions/7-1-2.bin")
    for text in ('{"id": 1, "other": 2}', "{", '{"read_version": 1, "id": 2, "file_type": "list"}'):
        with pytest.raises(ValueError, match=r"deletion file|Expecting|list"):
            lancecy.fragment.DeletionFile.from_json(text)


def test_fragments_are_opened_by_their_ids(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"a": range(6)}, tmp_path / "t", max_rows_per_file=3)
    for module in (lance, lancecy):
        assert module.fragment.LanceFragment(module.dataset(ds.uri), fragment_id=1).fragment_id == 1
        found = module.fragment.LanceFragment(module.dataset(ds.uri), 1)
        assert found.to_table()["a"].to_pylist() == [3, 4, 5]
    with pytest.raises(ValueError, match="no fragment 9"):
        lancecy.fragment.LanceFragment(ds, 9)
    assert lancecy.fragment.DEFAULT_MAX_BYTES_PER_FILE == lance.fragment.DEFAULT_MAX_BYTES_PER_FILE


def test_figures_of_an_index_are_asked_for_by_pylances_argument(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"a": [1, 2]}, tmp_path / "t")
    ds.create_scalar_index("a", "BTREE")
    mine, others = ds.stats, lance.dataset(ds.uri).stats
    assert mine.index_stats(index_name="a_idx")["num_indexed_rows"] == 2
    assert others.index_stats(index_name="a_idx")["num_indexed_rows"] == 2


def test_a_table_that_is_opened_by_its_class_names_the_function(tmp_path: Path) -> None:
    for place in (tmp_path / "t", str(tmp_path / "t")):
        given: Any = place
        with pytest.raises(TypeError, match=r"lancecy\.dataset\(uri\) opens a table"):
            lancecy.LanceDataset(given)
