"""2.x files that are written here and read again: types, nesting, pages, ends of files, refusals."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import SchemaError, UnsupportedError
from lancecy.file.base import FileWriteOptions
from lancecy.file.create import check_writable, create_file
from lancecy.schema import Field, Schema
from lancecy.store.local import LocalStore
from lancecy.store.memory import MemoryStore
from tests.helpers.compare import assert_arrays_equal
from tests.helpers.nested import random_nested_table
from tests.helpers.tables import all_types_table
from tests.helpers.written import VERSIONS, Written, assert_same, read_mine, schema_of, write

POINT = pa.struct([("x", pa.int64()), ("word", pa.string())])


def without_struct_nulls(table: pa.Table, version: str) -> pa.Table:
    """The table without columns that 2.0 cannot hold."""
    kept = [f.name for f in table.schema if version != "2.0" or "struct" not in str(f.type)]
    return table.select(kept)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("nulls", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("rows", [1, pytest.param(3000, marks=pytest.mark.slow)])
def test_every_type_comes_back(version: str, nulls: float, rows: int, tmp_path: Path) -> None:
    table = all_types_table(rows, nulls=nulls)
    table = table if nulls == 0 else without_struct_nulls(table, version)
    assert_same(write(table, version, tmp_path), table)


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
def test_random_nested_columns_come_back(version: str, seed: int, tmp_path: Path) -> None:
    for number in range(5):
        rng = np.random.default_rng([seed, number])
        rows = int(rng.choice([1, 5, 300, 2000]))
        table = random_nested_table(rng, version, 4, rows)
        step = int(rng.integers(max(1, rows // 5), rows + 1))
        page_bytes = int(rng.choice([100, 5000, 8 << 20]))
        assert_same(write(table, version, tmp_path / str(number), rows=step, page_bytes=page_bytes), table)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_file_may_be_empty(version: str, tmp_path: Path) -> None:
    table = all_types_table(0)
    written = write(table.to_batches() or [pa.RecordBatch.from_pylist([], table.schema)], version, tmp_path)
    assert written.summary.num_rows == read_mine(written).num_rows == 0
    nothing = create_file(LocalStore(str(tmp_path)), "none.lance", schema_of(table.schema), version).finish()
    assert (nothing.num_rows, nothing.size) == (0, (tmp_path / "none.lance").stat().st_size)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_column_of_more_than_a_page_becomes_pages(version: str, tmp_path: Path) -> None:
    table = pa.table({"n": np.arange(10_000), "w": [f"word {i}" for i in range(10_000)]})
    one = write(table, version, tmp_path / "one", rows=700)
    many = write(table, version, tmp_path / "many", rows=700, page_bytes=16_000)
    cut = write(table, version, tmp_path / "cut", page_bytes=16_000)
    for written in (one, many, cut):
        assert_same(written, table)
    assert pages_of(one) == [1, 1]
    assert pages_of(many) == pytest.approx([5, 9], abs=2)
    assert pages_of(cut) == pytest.approx([5, 9], abs=3)


def pages_of(written: Written) -> list[int]:
    """Number of pages of each column."""
    from lancecy.proto import file2_pb2

    data = written.path.read_bytes()
    _, table, _, _, count = struct.unpack("<QQQII", data[-40:-8])
    spans = struct.unpack(f"<{2 * count}Q", data[table : table + 16 * count])
    places = zip(spans[::2], spans[1::2], strict=True)
    return [len(file2_pb2.ColumnMetadata.FromString(data[at : at + size]).pages) for at, size in places]


@pytest.mark.parametrize("version", VERSIONS)
def test_slices_are_written_as_they_look(version: str, tmp_path: Path) -> None:
    rows = 50
    table = pa.table(
        {
            "n": pa.array([None if i % 3 == 0 else i for i in range(rows)], pa.int16()),
            "b": pa.array([None if i % 5 == 0 else i % 2 == 0 for i in range(rows)]),
            "w": pa.array([None if i % 4 == 0 else "w" * i for i in range(rows)]),
            "l": pa.array([None if i % 7 == 0 else ["a" * k for k in range(i % 4)] for i in range(rows)]),
            "v": pa.array([None if i % 6 == 0 else [i, None] for i in range(rows)], pa.list_(pa.int8(), 2)),
            "s": pa.array([{"x": i, "word": str(i)} for i in range(rows)], POINT),
            "d": pa.array([None if i % 5 == 0 else "abc"[i % 3] for i in range(rows)]).dictionary_encode(),
        }
    )
    for start, length in ((0, 50), (3, 20), (9, 41), (17, 1)):
        part = table.slice(start, length)
        assert_same(write(part, version, tmp_path / f"{start}"), part)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_lies_under_nulls_is_not_written(version: str, tmp_path: Path) -> None:
    gone = pa.py_buffer(b"\x05")
    words = pa.array(["kept", "secret", "kept too"])
    masked = pa.Array.from_buffers(pa.string(), 3, [gone, *words.buffers()[1:]])
    lists = pa.array([["kept"], ["hidden"], []])
    hidden = pa.Array.from_buffers(lists.type, 3, [gone, lists.buffers()[1]], children=[lists.values])
    table = pa.table({"w": masked, "l": hidden})
    written = write(table, version, tmp_path)
    assert_same(written, table)
    data = written.path.read_bytes()
    assert b"kept too" in data
    assert b"secret" not in data
    assert b"hidden" not in data


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_values_below_null_structs_are_nobodys(version: str, tmp_path: Path) -> None:
    kind = pa.struct([("w", pa.string()), ("n", pa.int32()), ("l", pa.list_(pa.string()))])
    words = pa.array(["aa", "bb", "bb", "bb"])
    lists = pa.array([["aa"], ["bb"], [], ["bb"]])
    children = [words, pa.array([1, 2, 2, 2], pa.int32()), lists]
    table = pa.table({"s": pa.Array.from_buffers(kind, 4, [pa.py_buffer(b"\x0e")], children=children)})
    assert_same(write(table, version, tmp_path), table)


def test_every_layer_below_null_structs_can_be_null() -> None:
    from lancecy.encodings.arrow.from_arrow import block_of
    from lancecy.encodings.model.layouts import Layer
    from lancecy.encodings.v21.write.shred import shred

    item, listed = Layer.NULLABLE_ITEM, Layer.NULLABLE_LIST
    number = pa.field("x", pa.int64(), nullable=False)
    inner = pa.struct([number, pa.field("l", pa.list_(number), nullable=False)])
    array = pa.array([None, {"in": {"x": 1, "l": [2]}}], pa.struct([pa.field("in", inner)]))
    (field,) = schema_of(pa.schema([("s", array.type)])).fields
    one, other = shred(field, block_of(array, field))
    assert one.layers == (item, item, item)
    # Items are in lists that are not null.
    assert other.layers == (Layer.ALL_VALID_ITEM, listed, item, item)
    assert one.definition is not None and one.definition.tolist() == [3, 0]
    assert other.definition is not None and other.definition.tolist() == [3, 0]


@pytest.mark.parametrize("version", VERSIONS)
def test_batches_with_dictionaries_of_their_own(version: str, tmp_path: Path) -> None:
    parts = [
        pa.array(words).dictionary_encode() for words in (["a", "b", None], ["c", "a"], ["b", None, "d"])
    ]
    batches = [pa.record_batch([part], ["d"]) for part in parts]
    found = read_mine(write(batches, version, tmp_path))["d"].to_pylist()
    assert found == ["a", "b", None, "c", "a", "b", None, "d"]


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("kind", ["int64", "string", "bool"])
def test_values_far_apart_among_empty_lists(version: str, kind: str, tmp_path: Path) -> None:
    values: dict[str, Sequence[Any]] = {"int64": (7, 9), "string": ("a", "bb"), "bool": (True, False)}
    first, last = values[kind]
    rows: list[Any] = [[[first]], [[]] * 70_000, [[], [last], None]]
    table = pa.table({"l": pa.array(rows, pa.list_(pa.list_(pa.type_for_alias(kind))))})
    assert_same(write(table, version, tmp_path), table)


@pytest.mark.parametrize("version", VERSIONS)
def test_wide_values_with_nulls_in_lists(version: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(rng.random(100 * 40, np.float32)), 100)
    lists = pa.ListArray.from_arrays(pa.array([0, 3, 3, None, 10, 40], pa.int32()), vectors)
    texts = pa.array([None if i % 4 == 0 else "long " * (60 + i) for i in range(5)])
    assert_same(
        write(pa.table({"l": lists, "t": texts}), version, tmp_path), pa.table({"l": lists, "t": texts})
    )


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_long_values_among_short_ones_do_not_take_twice_their_bytes(version: str, tmp_path: Path) -> None:
    data, sizes = np.random.default_rng(0).bytes(1 << 20), np.random.default_rng(1).integers(0, 30, 20_000)
    sizes[[5000, 15_000]] = 1 << 20
    table = pa.table({"b": pa.array([data[:size] for size in sizes.tolist()], pa.binary())})
    written = write(table, version, tmp_path)
    assert written.path.stat().st_size < 1.2 * table.nbytes
    assert_same(written, table)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("rows", [1023, 1024, 1025, 4096, 4097, 8191])
def test_borders_of_chunks(version: str, rows: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(rows)
    gone = rng.random(rows) < 0.1
    columns = {
        f"i{bits}": pa.array(rng.integers(0, 5, rows), f"int{bits}", mask=gone) for bits in (8, 16, 32, 64)
    }
    table = pa.table({**columns, "f": rng.random(rows), "b": pa.array(gone, mask=gone[::-1])})
    assert_same(write(table, version, tmp_path), table)


def test_the_summary_describes_the_file(tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2], "s": pa.array([{"x": 1, "word": "a"}] * 2, POINT), "v": vectors(2)})
    expected = {
        "2.0": ((0, 1, 2, 3, 4), (2, 0)),
        "2.1": ((0, 2, 3, 4), (2, 1)),
        "2.2": ((0, 2, 3, 4), (2, 2)),
    }
    for version, (fields, numbers) in expected.items():
        written = write(table, version, tmp_path / version)
        summary = written.summary
        assert (summary.num_rows, summary.size) == (2, written.path.stat().st_size)
        assert (summary.fields, (summary.major, summary.minor)) == (fields, numbers)
        assert summary.column_indices == tuple(range(len(fields)))
        footer = struct.unpack("<HH4s", written.path.read_bytes()[-8:])
        assert footer == (*((0, 3) if version == "2.0" else numbers), b"LANC")


def vectors(rows: int) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(np.arange(rows * 5, dtype=np.float32)), 5)


def test_bytes_grow_while_batches_come(tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.float64())])
    writer = create_file(
        LocalStore(str(tmp_path)), "x.lance", schema_of(schema), "2.1", FileWriteOptions(page_bytes=8000)
    )
    sizes = []
    for _ in range(4):
        writer.write(pa.record_batch([pa.array(np.random.default_rng(1).random(1000))], schema=schema))
        sizes.append(writer.nbytes)
    assert sizes[0] > 8000
    assert all(later - earlier > 8000 for earlier, later in itertools.pairwise(sizes))


def test_a_file_given_up_leaves_nothing(tmp_path: Path) -> None:
    for store in (LocalStore(str(tmp_path)), MemoryStore()):
        writer = create_file(store, "x.lance", schema_of(pa.schema([("n", pa.int64())])))
        writer.write(pa.record_batch({"n": np.arange(5)}))
        writer.abort()
        assert list(store.list("")) == []
        assert list(tmp_path.rglob("*")) == []
        with pytest.raises(ValueError, match="finished or was discarded"):
            writer.write(pa.record_batch({"n": np.arange(5)}))


@pytest.mark.parametrize(
    ("kind", "version", "better"),
    [
        (pa.map_(pa.string(), pa.int64()), "2.0", "2.2"),
        (pa.map_(pa.string(), pa.int64()), "2.1", "2.2"),
        (pa.list_(POINT, 3), "2.1", "2.2"),
        (pa.struct([("inner", pa.list_(POINT, 3))]), "2.0", "2.2"),
    ],
)
def test_a_type_is_refused_with_the_version_that_has_it(kind: Any, version: str, better: str) -> None:
    schema = schema_of(pa.schema([("id", pa.int64()), ("c", kind)]))
    store = MemoryStore()
    with pytest.raises(UnsupportedError, match=f"column 'c.*write version {better}"):
        create_file(store, "x.lance", schema, version)
    assert list(store.list("")) == []
    check_writable(schema, better)


def test_dictionaries_that_no_file_holds_are_refused() -> None:
    field = Field("c", 0, logical_type="dict:date32:day:int8:false")
    with pytest.raises(UnsupportedError, match="column 'c'"):
        check_writable(Schema((field,)), "2.2")


def test_lists_around_fixed_size_lists_of_structs_are_refused() -> None:
    around = schema_of(pa.schema([("c", pa.list_(pa.list_(POINT, 2)))]))
    within = schema_of(pa.schema([("c", pa.list_(pa.struct([("l", pa.list_(pa.int8()))]), 2))]))
    for schema in (around, within):
        with pytest.raises(UnsupportedError, match=r"column 'c(\.item)?'"):
            check_writable(schema, "2.2")


@pytest.mark.parametrize("version", ["0.3", "2.3", "3.0", "stable"])
def test_other_versions_are_refused(version: str) -> None:
    with pytest.raises(UnsupportedError, match="choose 0.1, 2.0, 2.1, 2.2"):
        check_writable(schema_of(pa.schema([("n", pa.int64())])), version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        (pa.int64(), [1, None]),
        (pa.string(), ["a", None]),
        (pa.list_(pa.int8()), [[1], None]),
        (pa.list_(pa.int8(), 1), [[1], None]),
    ],
)
def test_nulls_where_none_are_allowed_are_refused(
    version: str, kind: Any, rows: list[Any], tmp_path: Path
) -> None:
    schema = Schema(tuple(schema_of(pa.schema([pa.field("c", kind, False)])).fields))
    batch = pa.record_batch([pa.array(rows, kind)], ["c"])
    with pytest.raises(SchemaError, match="column 'c' has nulls"):
        write([batch], version, tmp_path, schema=schema)
    assert not (tmp_path / "x.lance").exists()


def test_null_structs_are_refused_in_2_0_with_the_version_that_has_them(tmp_path: Path) -> None:
    table = pa.table({"s": pa.array([{"x": 1, "word": "a"}, None], POINT)})
    with pytest.raises(UnsupportedError, match="column 's'.*write version 2.1"):
        write(table, "2.0", tmp_path)
    assert_same(write(table, "2.1", tmp_path), table)


def test_dictionaries_whose_codes_have_no_room_for_a_null_are_refused_in_2_0(tmp_path: Path) -> None:
    codes = pa.array([*range(127), None, 127], pa.int8())
    coded = pa.DictionaryArray.from_arrays(codes, pa.array([str(i) for i in range(128)]))
    table = pa.table({"d": coded})
    with pytest.raises(UnsupportedError, match="column 'd'.*write version 2.1"):
        write(table, "2.0", tmp_path)
    assert_same(write(table, "2.1", tmp_path), table)


def test_batches_that_do_not_fit_the_schema_are_refused(tmp_path: Path) -> None:
    schema = schema_of(pa.schema([("n", pa.int64())]))
    for columns in ({"n": ["a"]}, {"n": [1], "m": [2]}):
        with pytest.raises(SchemaError):
            write([pa.record_batch(columns)], "2.1", tmp_path, schema=schema)


@pytest.mark.parametrize("version", VERSIONS)
def test_views_become_what_they_are_views_of(version: str, tmp_path: Path) -> None:
    words = ["a", None, "a word that is longer than twelve bytes"]
    columns = [
        pa.array(words, pa.string_view()),
        pa.array([w and w.encode() for w in words], pa.binary_view()),
    ]
    written = write(pa.table(columns, ["s", "b"]), version, tmp_path)
    found = read_mine(written)
    assert found.schema.types == [pa.string(), pa.binary()]
    assert found["s"].to_pylist() == words


@pytest.mark.parametrize("version", VERSIONS)
def test_rows_are_found_by_number(version: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    table = random_nested_table(rng, version, 3, 2000)
    table = table.append_column("v", pa.array(rng.random((2000, 100)).tolist(), pa.list_(pa.float32(), 100)))
    written = write(table, version, tmp_path, page_bytes=30_000)
    rows = np.sort(rng.choice(2000, 60, replace=False))
    found = read_mine(written, rows.tolist())
    for name in ("id", "v"):
        assert_arrays_equal(found[name], table[name].take(pa.array(rows)), path=name)


def test_all_vectors_share_their_memory_with_the_page() -> None:
    from lancecy.encodings.arrow.from_arrow import block_of
    from lancecy.encodings.v21.write.select_encoding import encode_page
    from lancecy.encodings.v21.write.shred import shred

    numbers = np.arange(100 * 64, dtype=np.float32)
    array = pa.FixedSizeListArray.from_arrays(pa.array(numbers), 64)
    (field,) = schema_of(pa.schema([("v", array.type)])).fields
    (leaf,) = shred(field, block_of(array, field))
    page = encode_page(leaf, (2, 1))
    assert np.shares_memory(page.buffers[0], np.frombuffer(array.values.buffers()[1], np.uint8))


@pytest.mark.parametrize("version", VERSIONS)
def test_dictionaries_of_a_file_fit_their_index_type_together(version: str, tmp_path: Path) -> None:
    def batch(number: int, count: int) -> pa.RecordBatch:
        words = pa.array([f"{number}-{i}" for i in range(count)] + [None])
        codes = pa.array(np.arange(count + 1), pa.int8())
        nested = pa.StructArray.from_arrays([pa.DictionaryArray.from_arrays(codes, words)], ["d"])
        return pa.record_batch([nested], ["s"])

    path = tmp_path / "fits"
    fitting = [batch(0, 64), batch(1, 63), batch(0, 64)]
    written = lancecy.write_dataset(fitting, path, data_storage_version=version).to_table()
    assert written["s"].to_pylist() == [row for part in fitting for row in part["s"].to_pylist()]
    with pytest.raises(
        UnsupportedError, match=r"'s\.d' has more than 128 different values.*wider index type"
    ):
        lancecy.write_dataset([batch(0, 64), batch(1, 65)], tmp_path / "more", data_storage_version=version)
    assert not [*tmp_path.glob("more/**/*.lance")]


def test_rows_that_come_one_by_one_are_put_together(tmp_path: Path) -> None:
    writer = create_file(LocalStore(str(tmp_path)), "x.lance", schema_of(pa.schema([("n", pa.int64())])))
    for number in range(5000):
        writer.write(pa.record_batch({"n": [number]}))
        assert len(writer._pending[0]._arrays) <= 1025  # type: ignore[attr-defined]
    assert writer.finish().num_rows == 5000
    assert lancecy.inspect(tmp_path / "x.lance").num_rows == 5000
