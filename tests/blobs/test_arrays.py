"""Arrow arrays and fields of blobs, which need no pylance, and go with it whichever is imported first."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancecy
from lancecy import Blob
from lancecy.errors import SchemaError, UnsupportedError

VALUES = [b"x", None, b"", Blob.empty(), bytearray(b"q"), memoryview(b"zz"), Blob.from_bytes(b"w" * 70_000)]
BYTES = [b"x", None, b"", b"", b"q", b"zz", b"w" * 70_000]


def read(ds: Any) -> list[bytes | None]:
    return [data for _, data in ds.read_blobs("b", indices=range(ds.count_rows()))]


def test_an_array_of_blobs_is_a_blob_column(tmp_path: Path) -> None:
    table = pa.table({"b": lancecy.blob_array(VALUES)})
    ds = lancecy.write_dataset(table, tmp_path / "t")
    assert ds.data_storage_version == "2.2"  # the first that holds it
    ds.append(pickle.loads(pickle.dumps(table)))
    ds.append(pa.table({"b": lancecy.blob_array([])}))
    assert read(ds) == BYTES * 2


def test_bytes_and_arrays_of_blobs_are_appended_to_each_other(tmp_path: Path) -> None:
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    plain = pa.table([pa.array([b"1", None], pa.large_binary())], schema=pa.schema([field]))
    made = pa.table({"b": lancecy.blob_array([b"2"])})
    for number, (first, second) in enumerate([(plain, made), (made, plain)]):
        ds = lancecy.write_dataset(first, tmp_path / str(number), data_storage_version="2.2")
        ds.append(second)
        assert read(ds) == ([b"1", None, b"2"] if first is plain else [b"2", b"1", None])


def test_files_that_hold_no_such_column_are_refused(tmp_path: Path) -> None:
    table = pa.table({"b": lancecy.blob_array(VALUES)})
    for version in ("0.1", "2.0", "2.1"):
        with pytest.raises(UnsupportedError, match="write version 2"):
            lancecy.write_dataset(table, tmp_path / "t", data_storage_version=version)
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    old = pa.table([pa.array([b"1"], pa.large_binary())], schema=pa.schema([field]))
    ds = lancecy.write_dataset(old, tmp_path / "old", data_storage_version="2.1")
    with pytest.raises(SchemaError, match="give the bytes as large_binary"):
        ds.append(table)


def test_sizes_of_a_field_become_its_metadata(tmp_path: Path) -> None:
    field = lancecy.blob_field("b", nullable=False, inline_size_threshold=0, dedicated_size_threshold=10)
    table = pa.table([lancecy.blob_array([b"abc", b"d" * 11])], schema=pa.schema([field]))
    ds = lancecy.write_dataset(table, tmp_path / "t")
    assert [row["kind"] for row in ds.to_table()["b"].to_pylist()] == [1, 2]
    assert not ds.lance_schema.field("b").nullable
    largest = lancecy.blob_field("b", pack_file_size_threshold=2**64 - 1)
    table = pa.table([lancecy.blob_array([b"abc"])], schema=pa.schema([largest]))
    assert read(lancecy.write_dataset(table, tmp_path / "largest")) == [b"abc"]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: lancecy.blob_array([b"", 3]), TypeError, "value 1 of a blob array"),
        (lambda: lancecy.blob_array([""]), ValueError, "empty"),
        (Blob, ValueError, "a null blob is None"),
        (lambda: Blob(b"", "file:///a"), ValueError, "either data or a uri"),
        (lambda: Blob("a"), TypeError, "data of a Blob is bytes"),  # type: ignore[arg-type]
        (lambda: Blob(b"a", None, 0, 1), ValueError, "for a Blob with a uri"),
        (lambda: Blob.from_uri("file:///a", 1), ValueError, "both a position and a size"),
        (lambda: Blob.from_uri("file:///a", -1, 1), ValueError, "0 or more"),
        (lambda: Blob.from_uri("file:///a", 1, 0), ValueError, "1 or more"),
        (lambda: Blob.from_uri("file:///a", 1, True), TypeError, "numbers of bytes"),
        (lambda: lancecy.blob_field("b", inline_size_threshold=-1), ValueError, "0 or more"),
        (lambda: lancecy.blob_field("b", dedicated_size_threshold=0), ValueError, "1 or more"),
        (lambda: lancecy.blob_field("b", pack_file_size_threshold=2**64), OverflowError, "64 bits"),
        (lambda: lancecy.blob_field("b", inline_size_threshold=1.5), TypeError, "number of bytes"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_blob_is_refused(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_storage_of_other_writers_is_taken() -> None:
    """Members may have metadata, and positions and sizes need not be nullable."""
    members = [
        pa.field("data", pa.large_binary(), metadata={"a": "b"}),
        pa.field("uri", pa.string()),
        pa.field("position", pa.uint64(), nullable=False),
        pa.field("size", pa.uint64(), nullable=False),
    ]
    for count in (2, 4):
        kind = lancecy.BlobType.__arrow_ext_deserialize__(pa.struct(members[:count]), b"")
        assert kind.storage_type.field(0).metadata == {b"a": b"b"}
    required = [member.with_nullable(False) for member in members]
    for wrong in (pa.int32(), pa.struct(members[:3]), pa.struct(required), pa.struct(members[::-1])):
        with pytest.raises(TypeError, match="blobs are stored as"):
            lancecy.BlobType.__arrow_ext_deserialize__(wrong, b"")


def test_data_of_a_blob_is_any_bytes() -> None:
    for data in (bytearray(b"x"), memoryview(b"x")):
        assert Blob(data) == Blob(b"x")  # type: ignore[arg-type]
        assert hash(Blob(data)) == hash(Blob(b"x"))  # type: ignore[arg-type]


ORDERS = {
    "pylance first": "import lance, lancecy; made = lancecy.blob_array([b'x', None])",
    "lancecy first": "import lancecy; made = lancecy.blob_array([b'x', None]); import lance",
}


@pytest.mark.interop
@pytest.mark.parametrize("order", ORDERS)
def test_either_library_may_be_imported_first(tmp_path: Path, order: str) -> None:
    program = f"""
{ORDERS[order]}
import pyarrow as pa
for name, field, array in (
    ("mine", lancecy.blob_field("b", inline_size_threshold=1), lancecy.blob_array([b"x", None])),
    ("theirs", lance.blob_field("b", inline_size_threshold=1), lance.blob_array([b"x", None])),
    ("both", lance.blob_field("b"), lancecy.blob_array([b"x", lance.Blob.empty()])),
    ("before", None, made),
):
    table = pa.table({{"b": array}}, schema=None if field is None else pa.schema([field]))
    for library, other in ((lance, lancecy), (lancecy, lance)):
        uri = {str(tmp_path)!r} + "/" + name + library.__name__
        library.write_dataset(table, uri)
        other.write_dataset(table, uri, mode="append")
        for reader in (lance, lancecy):
            found = [data for _, data in reader.dataset(uri).read_blobs("b", indices=range(4))]
            assert found == [b"x", None if name != "both" else b""] * 2, (name, found)
sink = pa.BufferOutputStream()
with pa.ipc.new_stream(sink, table.schema) as writer:
    writer.write_table(table)
kind = pa.ipc.open_stream(sink.getvalue()).read_all().schema.field("b").type
assert isinstance(kind, type(lance.blob_field("b").type)), kind
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


@pytest.mark.interop
def test_names_and_parameters_are_those_of_pylance() -> None:
    import lance

    for name in ("blob_array", "blob_field", "Blob"):
        mine, theirs = (inspect.signature(getattr(library, name)).parameters for library in (lancecy, lance))
        assert list(mine) == list(theirs)
        assert [each.kind for each in mine.values()] == [each.kind for each in theirs.values()]
    sizes: dict[str, Any] = dict(
        zip(list(inspect.signature(lance.blob_field).parameters)[2:], (1, 2, 3), strict=True)
    )
    assert lancecy.blob_field("b", **sizes).equals(lance.blob_field("b", **sizes), check_metadata=True)


@pytest.mark.parametrize(
    ("made", "given", "what"),
    [
        ({"inline_size_threshold": 100}, {"inline_size_threshold": 200}, "200, the table has 100"),
        ({}, {"inline_size_threshold": 100}, "100, the table has 65536"),
        ({"inline_size_threshold": 100}, {"dedicated_size_threshold": 5000}, "5000, the table has 4194304"),
        ({"inline_size_threshold": 100}, {}, None),
        ({"inline_size_threshold": 100}, {"inline_size_threshold": 100}, None),
    ],
)
def test_appended_blobs_have_the_sizes_of_the_table(
    made: dict[str, Any], given: dict[str, Any], what: str | None, tmp_path: Path
) -> None:
    def rows(sizes: dict[str, Any]) -> pa.Table:
        return pa.table([lancecy.blob_array([b"x" * 10])], pa.schema([lancecy.blob_field("b", **sizes)]))

    ds = lancecy.write_dataset(rows(made), tmp_path / "t", data_storage_version="2.2")
    if what is None:
        assert lancecy.write_dataset(rows(given), ds, mode="append").count_rows() == 2
        return
    with pytest.raises(SchemaError, match=what):
        lancecy.write_dataset(rows(given), ds, mode="append")
    assert lancecy.dataset(tmp_path / "t").count_rows() == 1
