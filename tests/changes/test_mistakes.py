"""Wrong arguments and places are named, with the remedy."""

from __future__ import annotations

import os
import pickle
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import lancecy
from lancecy import errors
from tests.helpers.folded import folded


def test_a_version_of_data_files_is_text(tmp_path: Path) -> None:
    version: Any = 2.1
    with pytest.raises(TypeError, match=r"data_storage_version is text, such as '2.1', not 2.1"):
        lancecy.write_dataset({"a": [1]}, tmp_path / "t", data_storage_version=version)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("age", [7, 0.5, "7d"])
def test_the_age_of_old_versions_is_a_timedelta(tmp_path: Path, age: Any) -> None:
    ds = lancecy.write_dataset({"a": [1]}, tmp_path / "t")
    with pytest.raises(TypeError, match=r"such as datetime.timedelta\(days=7\)"):
        ds.cleanup_old_versions(age)


@pytest.fixture
def ds(tmp_path: Path) -> lancecy.Dataset:
    table = lancecy.write_dataset({"a": [1, 2, 3], "v": np.ones((3, 2))}, tmp_path / "table")
    table.append({"a": [4], "v": np.ones((1, 2))})
    return table


WRONG_TYPES = {
    'ds.to_table(limit="3")': "limit is a whole number, not '3'",
    "ds.to_table(None, None, 1.5)": r"limit is a whole number, not 1\.5",
    "ds.to_table(limit=True)": "limit is a whole number, not True",
    'ds.to_table(offset="3")': "offset is a whole number, not '3'",
    'ds.scanner(batch_size="3")': "batch_size is a whole number, not '3'",
    'ds.scanner(batch_size_bytes="3")': "batch_size_bytes is a whole number",
    'ds.scanner(memory_bytes="3")': "memory_bytes is a whole number",
    'ds.to_table(use_stats="no")': "use_stats is True or False, not 'no'",
    'ds.to_batches(scan_in_order="no")': "scan_in_order is True or False",
    "ds.to_pandas(with_row_id=1)": "with_row_id is True or False, not 1",
    "ds.to_table(fragments=5)": "fragments is a list, not 5",
    'ds.to_table(fragments=["0"])': "a fragment is a whole number, not '0'",
    "ds.to_table(columns=5)": "columns must be a list of names or a mapping, not 5",
    'ds.get_fragments()[0].to_table(limit="3")': "limit is a whole number",
    'ds.head("3")': "num_rows is a whole number, not '3'",
    'ds.scanner().head("3")': "num_rows is a whole number, not '3'",
    "ds.sample(1.5)": "num_rows is a whole number",
    'ds.get_fragment("0")': "fragment_id is a whole number",
    'ds.delete("a = 9", conflict_retries="x")': "conflict_retries is a whole number",
    'ds.delete("a = 9", retry_timeout=3)': r"retry_timeout is a timedelta such as datetime\.timedelta",
    "ds.cleanup_old_versions(retain_versions=1.5)": r"retain_versions is a whole number, not 1\.5",
    'ds.cleanup_old_versions(dry_run="no")': "dry_run is True or False",
    'ds.cleanup_old_versions(versions=["1"])': "versions is a whole number, not '1'",
    'ds.cleanup_old_versions(used_by="/x")': "used_by must be a list of roots",
    "lancecy.dataset(ds.uri, limits={})": r"limits is a lancecy\.Limits, not \{\}",
    "lancecy.dataset(ds.uri, session=5)": r"session is a lancecy\.Session, not 5",
    "lancecy.dataset(ds.uri, storage_options=5)": "storage_options is a mapping, not 5",
    'lancecy.dataset(ds.uri, untrusted="no")': "untrusted is True or False, not 'no'",
    'lancecy.dataset(ds.uri, default_scan_options={"limit": "3"})': "limit is a whole number, not '3'",
    "lancecy.dataset(ds.uri, default_scan_options=5)": "default_scan_options is a mapping",
    "lancecy.dataset(ds.uri, asof=5)": "asof is a datetime, a date or text, not 5",
    'lancecy.scan(ds.uri, untrusted="no")': "untrusted is True or False",
    'ds.append({"a": [1]}, enable_stable_row_ids="no")': "enable_stable_row_ids is True or False",
    'ds.append({"a": [1]}, cast="no")': "cast is True or False",
    'ds.append({"a": [1]}, schema={"a": "int8"})': r"schema is a pyarrow\.Schema",
    'ds.append({"a": [1]}, commit_message=5)': "commit_message is text, such as '5', not 5",
    'ds.append({"a": [1]}, transaction_properties=5)': "transaction_properties is a mapping, not 5",
    'ds.append({"a": [1]}, target_bases=5)': "target_bases is a list, not 5",
    'lancecy.commit(ds, lancecy.LanceOperation.Append([]), read_version="1")': "read_version is a whole number",
    "lancecy.commit(ds, lancecy.LanceOperation.Append([]), max_retries=1.5)": "max_retries is a whole number",
    'lancecy.write_fragments({"a": [1]}, ds, writer_number="x")': "writer_number is a whole number",
    'lancecy.Limits(rows_per_file="1")': r"Limits\.rows_per_file is a whole number",
    'lancecy.Session(threads="x")': "threads is a whole number",
    "ds.add_bases(None)": "new_bases is a list, not None",
    'ds.append({"a": [1]}, zonemaps=1)': "zonemaps is True or a list of columns, not 1",
    'ds.update_field_metadata({0: {"unit": "m"}})': "by the paths of columns, .*; 0 is to become {'unit': 'm'}",
    'ds.update_field_metadata({"a": "m"})': "by the paths of columns, .*; 'a' is to become 'm'",
    'ds.update_field_metadata("a")': "field_updates is a mapping, not 'a'",
    "ds.update_config(None)": "values is a mapping, not None",
    "ds.update_schema_metadata(3)": "values is a mapping, not 3",
}
WRONG_VALUES = {
    "ds.scanner(memory_bytes=-1)": "memory_bytes must be positive, got -1",
    "ds.scanner(memory_bytes=0)": "memory_bytes must be positive, got 0",
    "ds.to_table(limit=-1)": "limit must not be negative",
    "ds.sample(-1)": "num_rows must not be negative",
    "lancecy.Limits(rows_per_file=-1)": "must not be negative",
    'ds.merge_insert("a").conflict_retries(-1)': "max_retries must not be negative, got -1",
    'ds.delete("a = 9", conflict_retries=-1)': "conflict_retries must not be negative, got -1",
    'ds.add_columns({"b": "a"}, conflict_retries=-1)': "conflict_retries must not be negative, got -1",
    'lancecy.commit(ds, lancecy.Transaction(2, lancecy.LanceOperation.Append([]), uuid="0123"))': (
        r"the uuid of a transaction is a UUID, such as str\(uuid.uuid4\(\)\), not '0123'"
    ),
    'ds.create_scalar_index("a", "BTREE", index_uuid="0123")': "index_uuid is a UUID, .*, not '0123'",
}
UNSUPPORTED = {
    'ds.to_table(full_text_query="word")': "no full-text search",
    'lancecy.scan(ds.uri, full_text_query="word")': "no full-text search",
    "ds.count_rows(prefilter=True)": "leave it out",
    "lancecy.Session(index_cache_size_bytes=3)": r"^Session\(index_cache_size_bytes=…\) is not supported: cache_bytes=",
    'ds.create_scalar_index("a", "ZONEMAP", rows_per_zone=9)': r"IndexConfig\(",
    'ds.create_scalar_index("a", "INVERTED", with_position=True)': "no full-text indices",
    'ds.append({"a": [1]}, commit_lock=print)': "or to lancecy.dataset",
    'ds.append({"a": [1]}, data_cache_bytes=3)': "bounded memory",
    'lancecy.write_dataset({"a": [1]}, ds, mode="append", use_legacy_format=True)': "data_storage_version='legacy'",
}


@folded(("call", "said"), WRONG_TYPES.items())
def test_arguments_of_another_type_are_named(ds: lancecy.Dataset, call: str, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        eval(call, {"lancecy": lancecy, "ds": ds})
    assert ds.latest_version == 2


BYTES = pa.schema([pa.field("b", pa.int64(), metadata={"k": b"\xff"})])
INNER = pa.schema([pa.field("s", pa.struct(list(BYTES)))])


@folded(
    ("call", "place"),
    {
        "lancecy.write_dataset(pa.table({'b': [1]}, schema=BYTES), uri)": "column 'b'",
        "lancecy.write_dataset(pa.table({'s': [{'b': 1}]}, schema=INNER), uri)": "column 'b'",
        "lancecy.write_dataset(pa.table({'b': [1]}).replace_schema_metadata({'k': b'\\xff'}), uri)": "the schema",
        "lancecy.write_dataset(pa.table({'b': [1]}, schema=BYTES), ds, mode='overwrite')": "column 'b'",
        "ds.add_columns(BYTES)": "column 'b'",
        "lancecy.write_fragments(pa.table({'b': [1]}, schema=BYTES), uri)": "column 'b'",
        "lancecy.LanceFileWriter(uri).write_batch(pa.table({'b': [1]}, schema=BYTES))": "column 'b'",
        "lancecy.commit(uri, lancecy.LanceOperation.Overwrite(BYTES, []))": "column 'b'",
    }.items(),
)
def test_metadata_that_pylance_would_change_is_refused(
    tmp_path: Path, ds: lancecy.Dataset, call: str, place: str
) -> None:
    names = {"lancecy": lancecy, "pa": pa, "ds": ds, "uri": tmp_path / "new", "BYTES": BYTES, "INNER": INNER}
    with pytest.raises(errors.SchemaError, match=f"metadata 'k' of {place} is not UTF-8, .* base64"):
        eval(call, names)
    assert ds.latest_version == 2 and not (tmp_path / "new").exists()


def test_metadata_of_appended_rows_is_not_taken_and_may_be_any_bytes(ds: lancecy.Dataset) -> None:
    ds.append(
        pa.table({"a": [5], "v": np.ones((1, 2)).tolist()})
        .select(["a"])
        .replace_schema_metadata({"k": b"\xff"})
    )
    assert ds.count_rows() == 5


@folded(("call", "said"), WRONG_VALUES.items())
def test_numbers_out_of_range_are_named(ds: lancecy.Dataset, call: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        eval(call, {"lancecy": lancecy, "ds": ds})


@folded(("call", "said"), UNSUPPORTED.items())
def test_names_of_pylance_that_are_not_supported_say_what_to_do(
    ds: lancecy.Dataset, call: str, said: str
) -> None:
    with pytest.raises(errors.UnsupportedError, match=said):
        eval(call, {"lancecy": lancecy, "ds": ds})


def test_numbers_of_numpy_and_none_are_accepted(ds: lancecy.Dataset) -> None:
    options: dict[str, Any] = {"limit": np.int64(2), "batch_size": np.uint8(1), "with_row_id": np.bool_(True)}
    found = ds.to_table(offset=None, **options)
    assert found["a"].to_pylist() == [1, 2]
    assert lancecy.dataset(ds.uri, base_store_params=None).version == 2  # type: ignore[call-arg]
    versions: Any = np.int32(2)
    ds.cleanup_old_versions(pd.Timedelta(days=7), retain_versions=versions)


def test_hints_of_pylance_about_requests_and_caches_have_no_effect(ds: lancecy.Dataset) -> None:
    hints: dict[str, Any] = {
        "block_size": 4096,
        "index_cache_size": 3,
        "read_params": {"cache_repetition_index": True},
    }
    sizes: dict[str, Any] = {"index_cache_size_bytes": 1 << 20, "metadata_cache_size_bytes": 1 << 20}
    wrong: dict[str, Any] = {"sesion": None}
    assert lancecy.dataset(ds.uri, version=1, **hints, **sizes).version == 1
    with pytest.raises(TypeError, match="did you mean"):
        lancecy.dataset(ds.uri, **hints, **wrong)


def test_other_arguments_get_a_suggestion(ds: lancecy.Dataset) -> None:
    with pytest.raises(TypeError, match=r"dataset\(\) takes no argument 'verson'; did you mean 'version'\?"):
        lancecy.dataset(ds.uri, verson=1)  # type: ignore[call-arg]


def test_unlike_schemes_are_not_suggested(tmp_path: Path) -> None:
    with pytest.raises(errors.UnsupportedError, match=r"no store for foo:// is known$"):
        lancecy.dataset("foo://bucket/table")
    with pytest.raises(errors.UnsupportedError, match=r"did you mean gcs://"):
        lancecy.dataset("gcss://bucket/table")


def test_a_target_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no table")
    for target in (tmp_path / "file", tmp_path / "file" / "table"):
        with pytest.raises(errors.StoreError, match="a part of this path is a file, and a table is a folder"):
            lancecy.write_dataset({"a": [1]}, target)
    assert (tmp_path / "file").read_text() == "no table"


def test_the_time_of_a_version_may_be_a_date_or_a_timestamp_of_pandas(ds: lancecy.Dataset) -> None:
    made = ds.versions()[0]["timestamp"].astimezone()
    later = made + timedelta(days=2)
    for time in (
        pd.Timestamp(later.replace(tzinfo=None)),
        pd.Timestamp(later),
        pd.Timestamp("2200-01-01 00:00:00.000000001"),
        later.date(),
        later.replace(tzinfo=None),
    ):
        assert lancecy.dataset(ds.uri, asof=time).version == 2
    with pytest.raises(errors.NotFoundError, match="no version as old"):
        lancecy.dataset(ds.uri, asof=date(2000, 1, 1))
    with pytest.raises(TypeError, match="asof is a datetime, a date or text, not NaT"):
        lancecy.dataset(ds.uri, asof=pd.NaT)


@pytest.mark.parametrize("data_version", ["0.1", "2.0", "2.1"])
@pytest.mark.parametrize("kept", [0, 10, 5000])
def test_a_file_that_was_cut_off_tells_how_much_is_missing(
    tmp_path: Path, data_version: str, kept: int
) -> None:
    rows = {"a": np.random.default_rng(0).integers(0, 1 << 60, 2000)}
    ds = lancecy.write_dataset(rows, tmp_path / "t", data_storage_version=data_version)
    (file,) = (tmp_path / "t" / "data").iterdir()
    size = file.stat().st_size
    os.truncate(file, kept)
    said = f"{kept} of the {size} bytes that the manifest records: the last {size - kept} are missing"
    for untrusted in (False, True):
        with pytest.raises(errors.FormatError, match=said) as caught:
            lancecy.dataset(ds.uri, untrusted=untrusted).to_table()
        assert f"data/{file.name} of fragment 0" in str(caught.value)


def test_a_table_is_opened_by_the_name_of_a_tag(ds: lancecy.Dataset) -> None:
    theirs = lance.dataset(ds.uri)
    theirs.tags.create("first", 1)
    theirs.tags.create("v2.0-rc_1", 2)
    assert lancecy.dataset(ds.uri, version="first").to_table()["a"].to_pylist() == [1, 2, 3]
    assert ds.checkout_version("v2.0-rc_1").version == 2
    assert lancecy.scan(ds.uri, version="first").a.compute().tolist() == [1, 2, 3]
    assert pickle.loads(pickle.dumps(ds.checkout_version("first"))).version == 1


def test_a_tag_of_a_branch_opens_the_branch(ds: lancecy.Dataset) -> None:
    branch = lance.dataset(ds.uri).create_branch("team/test")
    branch = lance.write_dataset(
        pa.table({"a": [9], "v": pa.array([[1.0, 1.0]], pa.list_(pa.float64(), 2))}), branch, mode="append"
    )
    lance.dataset(ds.uri).tags.create("tried", ("team/test", branch.version))
    found = lancecy.dataset(ds.uri, version="tried")
    assert found.to_table()["a"].to_pylist() == [1, 2, 3, 4, 9]
    assert found.uri.endswith("/tree/team/test")


def test_a_tag_that_names_nothing_says_so(ds: lancecy.Dataset) -> None:
    with pytest.raises(errors.NotFoundError, match="has no tag 'first'; it has no tags"):
        lancecy.dataset(ds.uri, version="first")
    for table in (ds, lance.dataset(ds.uri)):
        with pytest.raises(OSError, match="first"):
            table.checkout_version("first")
        with pytest.raises(ValueError, match="first"):
            table.tags.delete("first")
    lance.dataset(ds.uri).tags.create("first", 1)
    for name in ("frist", "../tags/first", "first/", "first\0", ""):
        with pytest.raises(errors.NotFoundError, match="has no tag .*; it has first"):
            ds.checkout_version(name)
    with pytest.raises(TypeError, match=r"version is a number, or the name of a tag, not '1'"):
        ds.checkout_version("1")


def test_a_tag_whose_version_was_removed_says_so(ds: lancecy.Dataset) -> None:
    lance.dataset(ds.uri).tags.create("first", 1)
    # The names of manifests count down.
    max((Path(ds.uri) / "_versions").glob("*.manifest")).unlink()
    with pytest.raises(
        errors.NotFoundError,
        match="tag 'first' of .* names a version that was removed: .*no version 1; it has 2",
    ):
        lancecy.dataset(ds.uri, version="first")


@pytest.mark.parametrize("text", ["{}", "no JSON", '{"branch": "../../x", "version": 1}', '{"version": "1"}'])
def test_a_damaged_tag_is_a_format_error(ds: lancecy.Dataset, text: str) -> None:
    folder = Path(ds.uri) / "_refs" / "tags"
    folder.mkdir(parents=True)
    (folder / "bad.json").write_text(text)
    with pytest.raises(errors.FormatError, match=r"_refs/tags/bad\.json"):
        lancecy.dataset(ds.uri, version="bad")
