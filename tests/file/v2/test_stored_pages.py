"""Pages of one file copied to another without decoding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import SchemaError, UnsupportedError
from lancecy.file.v2.reader import V2Reader
from lancecy.file.v2.stored_pages import CopiedRows, check_copyable
from lancecy.schema import Schema
from lancecy.store.local import LocalStore
from lancecy.store.reads import run
from lancecy.write.fragments import FileLimits, NewFiles
from tests.helpers.folded import folded

VERSIONS = ("2.0", "2.1", "2.2")


def rows(count: int) -> pa.Table:
    numbers = range(count)
    return pa.table(
        {
            "number": pa.array([None if i % 11 == 0 else i * 7919 for i in numbers], pa.int64()),
            "word": [None if i % 7 == 0 else f"word {i % 50}" for i in numbers],
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(range(4 * count), pa.float32()), 4),
            "list": [None if i % 5 == 0 else list(range(i % 4)) for i in numbers],
            "struct": [{"x": i, "y": ["a"] * (i % 3)} for i in numbers],
            "flag": [i % 3 == 0 for i in numbers],
            "nothing": pa.nulls(count, pa.int32()),
        }
    )


def stored(path: Path, data: pa.Table, version: str, read_bytes: int = 1 << 20) -> tuple[Schema, CopiedRows]:
    ds = lancecy.write_dataset(data, path, data_storage_version=version, durability="none")
    (part,) = ds.context.files(0).parts
    assert isinstance(part.reader, V2Reader)
    schema, fetch = ds.context.snapshot.schema, ds.context.session.fetch
    check_copyable(schema.fields)
    columns = tuple(run(part.reader.stored(schema.fields), fetch))
    return schema, CopiedRows(data.num_rows, columns, fetch, read_bytes)


def written(path: Path, schema: Schema, version: str, items: list[Any]) -> lancecy.Dataset:
    """A table of one file with these batches and pages."""
    store = LocalStore(str(path / "data"))
    files = NewFiles(schema, version, (None,), lambda base: (store, ""), FileLimits())
    operation = lancecy.LanceOperation.Overwrite(schema.arrow, files.write(items))
    return lancecy.commit(path, operation, durability="none")


@folded("version", VERSIONS)
def test_copied_pages_and_new_ones_stand_in_one_file(version: str, tmp_path: Path) -> None:
    tmp_path = tmp_path / version
    first, second, own = rows(1000), rows(3), rows(20)
    schema, one = stored(tmp_path / "one", first, version)
    _, two = stored(tmp_path / "two", second, version, read_bytes=1)
    ds = written(tmp_path / "all", schema, version, [one, own.to_batches()[0], two])
    expected = pa.concat_tables([first, own, second])
    assert ds.to_table().combine_chunks().equals(expected.combine_chunks())
    assert ds.take([0, 999, 1000, 1019, 1020, 1022]).equals(expected.take([0, 999, 1000, 1019, 1020, 1022]))


@pytest.mark.interop
@folded("version", VERSIONS)
def test_pylance_reads_copied_pages(version: str, tmp_path: Path) -> None:
    lance = pytest.importorskip("lance")
    tmp_path = tmp_path / version
    lance.write_dataset(rows(500), tmp_path / "theirs", data_storage_version=version)
    theirs = lancecy.dataset(tmp_path / "theirs")
    (part,) = theirs.context.files(0).parts
    schema, fetch = theirs.context.snapshot.schema, theirs.context.session.fetch
    columns = tuple(run(part.reader.stored(schema.fields), fetch))  # type: ignore[attr-defined]
    written(tmp_path / "all", schema, version, [CopiedRows(500, columns, fetch, 1)] * 2)
    found, expected = lance.dataset(tmp_path / "all"), pa.concat_tables([rows(500)] * 2)
    found.validate()
    assert found.to_table().combine_chunks().equals(expected.combine_chunks())
    assert found.take([1, 499, 500, 777]).equals(expected.take([1, 499, 500, 777]))
    assert found.to_table(filter="list is null", columns=["number"]).num_rows == 200


@folded(
    ("field", "reason"),
    [
        (pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"}), "blobs"),
        (pa.field("d", pa.dictionary(pa.int8(), pa.string())), "dictionaries"),
        (pa.field("p", pa.struct({"x": pa.int64()}), metadata={"packed": "true"}), "row by row"),
    ],
)
def test_pages_that_depend_on_their_file_are_refused(field: pa.Field, reason: str, tmp_path: Path) -> None:
    path = tmp_path / field.name
    data = pa.Table.from_arrays([pa.nulls(0, field.type)], schema=pa.schema([field]))
    values = {"b": [b"x"], "d": ["a"], "p": [{"x": 1}]}[field.name]
    data = pa.table({field.name: pa.array(values, field.type)}, schema=data.schema)
    with pytest.raises(UnsupportedError, match=reason):
        stored(path, data, "2.1")


def test_a_column_without_pages_is_refused(tmp_path: Path) -> None:
    schema, copied = stored(tmp_path / "one", rows(5), "2.1")
    part = CopiedRows(5, copied.columns[1:], copied.fetch, 1)
    with pytest.raises(SchemaError, match="pages of field 0 are missing"):
        written(tmp_path / "all", schema, "2.1", [part])
    assert not list((tmp_path / "all").rglob("*.lance"))


def test_pages_are_not_copied_to_files_of_another_kind(tmp_path: Path) -> None:
    schema, copied = stored(tmp_path / "one", pa.table({"n": [1, 2]}), "2.1")
    with pytest.raises(UnsupportedError, match="files of the other kind"):
        written(tmp_path / "all", schema, "0.1", [copied])
