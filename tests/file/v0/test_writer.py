"""0.1 files that are written here and read again: types, batches, dictionaries, statistics, refusals."""

from __future__ import annotations

import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lancecy.encodings.arrow.from_arrow import block_of
from lancecy.encodings.arrow.to_arrow import to_arrow
from lancecy.encodings.v0.stats import joined_bounds, page_bounds
from lancecy.errors import LimitError, SchemaError, UnsupportedError
from lancecy.file.base import FileWriteOptions
from lancecy.file.create import check_writable, create_file
from lancecy.file.v0 import writer as v0_writer
from lancecy.schema import Field, Schema
from lancecy.store.local import LocalStore
from lancecy.store.memory import MemoryStore
from tests.helpers.compare import assert_arrays_equal
from tests.helpers.folded import folded
from tests.helpers.nested import random_nested_table
from tests.helpers.tables import all_types_table, stored_form
from tests.helpers.written import assert_same, legacy_metadata, read_mine, schema_of, write

POINT = pa.struct([("x", pa.int64()), ("word", pa.string())])


def storable(table: pa.Table) -> pa.Table:
    """The table as 0.1 can store it, without dictionaries of value types that 0.1 cannot hold."""
    kept = [f.name for f in table.schema if "dictionary<values=double" not in str(f.type)]
    return stored_form(table.select(kept))


@pytest.mark.slow
@folded("rows", [1, 1023, 1024, 1025, 3000])
def test_every_type_comes_back(rows: int, tmp_path: Path) -> None:
    table = storable(all_types_table(rows, nulls=0.3))
    assert_same(write(table, "0.1", tmp_path / f"{rows}"), table)
    assert [*np.diff(batches(tmp_path / f"{rows}" / "x.lance"))] == [1024] * (rows // 1024) + [
        rows % 1024
    ] * (rows % 1024 > 0)


def batches(path: Path) -> list[int]:
    """First row of each batch of a file, and the number of rows."""
    return list(legacy_metadata(path.read_bytes()).batch_offsets)


def test_a_file_may_be_empty(tmp_path: Path) -> None:
    table = storable(all_types_table(1)).slice(0, 0)
    plain = table.select([f.name for f in table.schema if "dictionary" not in str(f.type)])
    written = write([pa.RecordBatch.from_pylist([], plain.schema)], "0.1", tmp_path)
    assert (written.summary.num_rows, read_mine(written).num_rows) == (0, 0)
    assert not legacy_metadata(written.path.read_bytes()).HasField("statistics")


@pytest.mark.slow
@folded("seed", range(40))
def test_random_nested_columns_come_back_however_they_are_cut(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng([seed, 1])
    rows = int(rng.choice([1, 5, 300, 2000]))
    table = stored_nested(random_nested_table(rng, "2.0", 4, rows))
    step = int(rng.integers(max(1, rows // 20), rows + 1))
    group = int(rng.choice([1, 3, 8, 100, 1024]))
    options: dict[str, Any] = {
        "page_bytes": int(rng.choice([100, 5000, 8 << 20])),
        "max_rows_per_group": group,
    }
    written = write(table, "0.1", tmp_path / f"{seed}", rows=step, **options)
    assert_same(written, table)
    assert batches(written.path) == [*range(0, rows, group), rows]


def stored_nested(table: pa.Table) -> pa.Table:
    """The columns that 0.1 can hold, as it stores them."""
    kept = []
    for field in table.schema:
        try:
            check_writable(schema_of(pa.schema([field])), "0.1")
        except UnsupportedError:
            continue
        kept.append(field.name)
    return without_dictionary_nulls(stored_form(table.select(kept)))


def without_dictionary_nulls(table: pa.Table) -> pa.Table:
    """The table without dictionary columns, whose nulls may have codes outside the dictionary."""
    return table.select([f.name for f in table.schema if "dictionary" not in str(f.type)])


def test_bytes_lie_where_the_format_says(tmp_path: Path) -> None:
    table = pa.table({"a": pa.array([1, 2], pa.int32()), "s": ["x", None]})
    data = write(table, "0.1", tmp_path).path.read_bytes()
    assert data[:9] == struct.pack("<ii", 1, 2) + b"x"
    assert struct.unpack("<3q", data[9:33]) == (8, 9, 9)
    metadata = legacy_metadata(data)
    assert (list(metadata.batch_offsets), metadata.page_table_position) == ([0, 2], 33)
    assert struct.unpack("<4q", data[33:65]) == (0, 2, 9, 2)
    # Null count, minimum, maximum; with a null, the maximum of text is above it.
    assert struct.unpack("<qii", data[65:81]) == (0, 1, 2)
    assert struct.unpack("<q", data[81:89]) == (1,)
    assert data[89:90] + data[106:108] == b"xx\0"
    assert list(metadata.statistics.fields) == list(range(8))
    assert [f.name for f in metadata.statistics.schema if f.parent_id == -1] == ["0", "1"]
    assert data[-8:] == b"\0\0\x02\0LANC"


def test_ids_with_holes_and_in_another_order_have_their_rows(tmp_path: Path) -> None:
    fields = (Field("b", 9, logical_type="int64"), Field("a", 4, logical_type="string", nullable=False))
    batch = pa.record_batch({"b": [1, 2], "a": ["x", ""]})
    written = write([batch], "0.1", tmp_path, schema=Schema(fields))
    data = written.path.read_bytes()
    table = legacy_metadata(data).page_table_position
    cells = struct.unpack("<12q", data[table : table + 96])
    assert (cells[1], cells[2:10], cells[11]) == (2, (0,) * 8, 2)
    assert written.summary.fields == (4, 9)
    assert read_mine(written).to_pydict() == {"b": [1, 2], "a": ["x", ""]}
    assert [f.name for f in legacy_metadata(data).statistics.schema if f.parent_id == -1] == ["4", "9"]


def test_the_summary_describes_the_file(tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2], "s": pa.array([{"x": 1, "word": "a"}] * 2, POINT), "l": [[1], []]})
    summary = write(table, "0.1", tmp_path).summary
    assert (summary.num_rows, summary.size) == (2, (tmp_path / "x.lance").stat().st_size)
    assert (summary.fields, summary.column_indices) == ((0, 1, 2, 3, 4, 5), ())
    assert (summary.major, summary.minor) == (0, 2)


def test_slices_are_written_as_they_look(tmp_path: Path) -> None:
    rows = 50
    table = pa.table(
        {
            "n": pa.array(range(rows), pa.int16()),
            "b": [i % 3 == 0 for i in range(rows)],
            "w": [None if i % 4 == 0 else "w" * i for i in range(rows)],
            "l": [["a" * (k + 1) for k in range(i % 4)] for i in range(rows)],
            "v": pa.array([[i, 1, 0] for i in range(rows)], pa.list_(pa.int8(), 3)),
            "f": pa.array([[i % 2 == 0, i % 3 == 0, False] for i in range(rows)], pa.list_(pa.bool_(), 3)),
            "s": pa.array([{"x": i, "word": str(i)} for i in range(rows)], POINT),
            "d": pa.array([None if i % 5 == 0 else "abc"[i % 3] for i in range(rows)]).dictionary_encode(),
        }
    )
    for start, length in ((0, 50), (3, 20), (9, 41), (17, 1)):
        part = table.slice(start, length)
        assert_same(write(part, "0.1", tmp_path / f"{start}", max_rows_per_group=7), part)


def test_what_lies_under_nulls_is_not_written(tmp_path: Path) -> None:
    words = pa.array(["kept", "secret", "kept too"])
    masked = pa.Array.from_buffers(pa.string(), 3, [pa.py_buffer(b"\x05"), *words.buffers()[1:]])
    written = write(pa.table({"w": masked}), "0.1", tmp_path)
    assert read_mine(written)["w"].to_pylist() == ["kept", None, "kept too"]
    assert b"secret" not in written.path.read_bytes()


def test_bytes_grow_while_batches_come(tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.float64())])
    options = FileWriteOptions(100, page_bytes=8000)
    writer = create_file(LocalStore(str(tmp_path)), "x.lance", schema_of(schema), "0.1", options)
    sizes = []
    for _ in range(4):
        writer.write(pa.record_batch([pa.array(np.random.default_rng(1).random(1050))], schema=schema))
        sizes.append(writer.nbytes)
    assert sizes == [8000, 16800, 24800, 33600]
    assert writer.finish().num_rows == 4200


def test_very_small_batches_are_put_together_while_they_wait(tmp_path: Path) -> None:
    table = pa.table({"n": np.arange(5000), "w": [f"{i}" for i in range(5000)]})
    written = write(table, "0.1", tmp_path, rows=1, max_rows_per_group=2000)
    assert_same(written, table)
    assert batches(written.path) == [0, 2000, 4000, 5000]


def test_a_batch_of_huge_rows_has_fewer_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(v0_writer, "_MOST_BYTES", 100_000)
    table = pa.table({"w": ["x" * 20_000 + str(i) for i in range(50)]})
    for rows in (1, 50):
        written = write(table, "0.1", tmp_path / f"{rows}", rows=rows, page_bytes=1000)
        assert_same(written, table)
        assert max(np.diff(batches(written.path))) <= 5


def test_more_rows_than_a_file_counts_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(v0_writer, "_MOST_ROWS", 10)
    with pytest.raises(LimitError, match="lower max_rows_per_file"):
        write(pa.table({"n": np.arange(11)}), "0.1", tmp_path)
    assert not list(tmp_path.iterdir())


# -- dictionaries ---------------------------------------------------------------------------------


def coded(words: list[Any], kind: pa.DataType | None = None) -> pa.Array:
    found = pa.array(words).dictionary_encode()
    return found if kind is None else found.cast(pa.dictionary(kind, found.type.value_type))


def test_batches_with_dictionaries_of_their_own_share_one(tmp_path: Path) -> None:
    parts: list[list[Any]] = [["a", "b", None], ["c", "a", "a"], ["b", None, "d"]]
    lists = [pa.ListArray.from_arrays([0, 1, 1, 3], coded(words[::-1])) for words in parts]
    made = [
        pa.record_batch([coded(words), found], ["d", "l"]) for words, found in zip(parts, lists, strict=True)
    ]
    for page_bytes in (1, 8 << 20):
        written = write(made, "0.1", tmp_path / f"{page_bytes}", max_rows_per_group=2, page_bytes=page_bytes)
        found = read_mine(written)
        assert found["d"].to_pylist() == [word for part in parts for word in part]
        assert found["l"].to_pylist() == [row for part in lists for row in part.to_pylist()]


@folded(
    ("words", "message"),
    [
        (["a", "", "b"], "column 'd' has empty values in a dictionary.*write version 2.0"),
        ([1, None, 2], "column 'd' has nulls.*write version 2.0"),
    ],
)
def test_dictionaries_that_cannot_be_stored_are_refused(
    words: list[Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UnsupportedError, match=message):
        write(pa.table({"d": coded(words)}), "0.1", tmp_path)
    assert not list(tmp_path.iterdir())


def test_values_that_no_row_has_need_no_code(tmp_path: Path) -> None:
    values = pa.array([str(i) for i in range(120)] + ["", None])
    parts = [
        pa.DictionaryArray.from_arrays(pa.array([first, first + 5], pa.int8()), value)
        for first, value in ((3, values), (7, pa.array([f"new {i}" for i in range(120)])))
    ]
    batches_ = [pa.record_batch([part], ["d"]) for part in parts]
    written = write(batches_, "0.1", tmp_path, page_bytes=1)
    assert read_mine(written)["d"].to_pylist() == ["3", "8", "new 7", "new 12"]


def test_more_values_than_codes_are_refused(tmp_path: Path) -> None:
    codes = pa.array(range(100), pa.int8())
    made = [
        pa.record_batch(
            [pa.DictionaryArray.from_arrays(codes, pa.array([f"{p}{i}" for i in range(100)]))], ["d"]
        )
        for p in "ab"
    ]
    for page_bytes in (1, 8 << 20):
        with pytest.raises(UnsupportedError, match="d'.*|.*column 'd'"):
            write(made, "0.1", tmp_path, page_bytes=page_bytes)
        assert not list(tmp_path.iterdir())


# -- statistics -----------------------------------------------------------------------------------

WORDS = (
    *("a", "b", "z", "\x7f", "é", "\U0010ffff", "x" * 64, "x" * 65, "x" * 63, "x" * 63 + "é", "a\0", "a\0\0"),
    *("é" * 40, "\U0010ffff" * 20, "x" * 64 + "\U0010ffff", "€" * 30, "abcdefgh", "abcdefgh\0", "abcdefghi"),
)


def bounds_of(array: pa.Array, starts: list[int]) -> tuple[list[Any], ...]:
    """Null counts, least and greatest of each page, as values."""
    (field,) = schema_of(pa.schema([("c", array.type)])).fields
    ((_, found),) = page_bounds(field, block_of(array, field), np.array(starts))
    joined = joined_bounds([found])
    kind = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}.get(array.type, array.type)
    low, high = (to_arrow(block, kind).to_pylist() for block in (joined.low, joined.high))
    return joined.null_counts.tolist(), low, high


@folded("seed", range(60))
def test_bounds_of_text_hold(seed: int) -> None:
    rng = np.random.default_rng(seed)
    is_text = bool(rng.random() < 0.7)
    pages = int(rng.integers(1, 6))
    rows: list[Any] = []
    starts = [0]
    for _ in range(pages):
        pool = [WORDS[i] for i in rng.integers(0, len(WORDS), 4)]
        share = rng.choice([0.0, 0.5, 1.0], p=[0.5, 0.3, 0.2])
        more = [None if rng.random() < share else pool[i] for i in rng.integers(0, 4, rng.integers(1, 30))]
        rows += more
        starts.append(len(rows))
    values = [v if v is None else v.encode() for v in rows]
    array = pa.array(rows, pa.string()) if is_text else pa.array(values, pa.binary())
    counts, low, high = bounds_of(array, starts)
    for page in range(pages):
        part = values[starts[page] : starts[page + 1]]
        there = [v for v in part if v is not None]
        assert counts[page] == len(part) - len(there)
        least, most = (b.encode() if isinstance(b, str) else b for b in (low[page], high[page]))
        if not there:
            assert (least, most) == (b"", b"")
            continue
        assert least <= min(there)
        assert min(there).startswith(least) and len(least) > min(60, len(min(there)) - 1)
        if most or not is_text or "\U0010ffff" not in max(there).decode():
            assert most >= max(there)
            assert most.startswith(max(there)[:61])
        if counts[page] > 0:
            assert least != most  # else the reference treats the page as constant


@folded("kind", ["bool", "int8", "uint64", "int64", "float", "double", "date32", "decimal"])
def test_bounds_of_numbers_hold(kind: str) -> None:
    rng = np.random.default_rng(5)
    pools: dict[str, list[Any]] = {
        "bool": [True, False],
        "int8": [-128, 127, 0, 5],
        "uint64": [0, 2**64 - 1, 2**63],
        "int64": [-(2**63), 2**63 - 1, 0],
        "float": [0.0, -0.0, 1.5, np.nan, np.inf, -np.inf],
        "double": [0.0, -0.0, 1.5, np.nan, np.inf, -np.inf],
        "date32": [-5, 0, 20_000],
        "decimal": [
            Decimal(text) for text in ("0", "-1", "2", "-" + "9" * 37, "9" * 37, "18446744073709551616")
        ],
    }
    arrow = pa.decimal128(38) if kind == "decimal" else pa.type_for_alias(kind)
    rows: list[Any] = []
    starts = [0]
    for _ in range(40):
        some = [pools[kind][i] for i in rng.integers(0, len(pools[kind]), 2)]
        rows += [some[i] for i in rng.integers(0, 2, rng.integers(1, 12))]
        starts.append(len(rows))
    array = pa.array(rows, pa.int32()).cast(arrow) if kind == "date32" else pa.array(rows, arrow)
    values = array.to_pylist()
    counts, low, high = bounds_of(array, starts)
    assert not any(counts)
    for page in range(40):
        there = values[starts[page] : starts[page + 1]]
        numbers = [v for v in there if v == v]
        if len(numbers) < len(there):
            assert high[page] == np.inf > low[page]
            assert all(low[page] <= v for v in numbers)
        else:
            assert (low[page], high[page]) == (min(there), max(there))
        if kind in ("float", "double") and 0.0 in (low[page], high[page]):
            assert [np.signbit(v) for v in (low[page], high[page]) if v == 0] in (
                [True],
                [False],
                [True, False],
            )


def test_types_without_statistics_have_none(tmp_path: Path) -> None:
    table = pa.table(
        {
            "x": pa.array([b"ab", b"cd"], pa.binary(2)),
            "l": [["a"], []],
            "v": pa.array([[1], [2]], pa.list_(pa.int8(), 1)),
        }
    )
    assert not legacy_metadata(write(table, "0.1", tmp_path).path.read_bytes()).HasField("statistics")
    nested = pa.table({"s": pa.array([{"x": 1, "word": "a"}], POINT)})
    described = legacy_metadata(write(nested, "0.1", tmp_path / "s").path.read_bytes()).statistics.schema
    assert [field.name for field in described if field.parent_id == -1] == ["1", "2"]


# -- refusals -------------------------------------------------------------------------------------


@folded(
    ("kind", "rows", "better"),
    [
        (pa.int64(), [1, None], "2.0"),
        (pa.bool_(), [True, None], "2.0"),
        (pa.list_(pa.int8()), [[1], None], "2.0"),
        (pa.list_(pa.int8()), [[1], [None]], "2.0"),
        (pa.list_(pa.int8(), 1), [[1], None], "2.0"),
        (pa.list_(pa.int8(), 1), [[1], [None]], "2.0"),
        (POINT, [{"x": 1, "word": "a"}, None], "2.1"),
        (POINT, [{"x": 1, "word": "a"}, {"x": None, "word": "a"}], "2.0"),
    ],
)
def test_nulls_are_refused_with_the_version_that_has_them(kind: Any, rows: list[Any], better: str) -> None:
    store = MemoryStore()
    schema = schema_of(pa.schema([("id", pa.int64()), ("c", kind)]))
    writer = create_file(store, "x.lance", schema, "0.1", FileWriteOptions(2, page_bytes=16))
    clean = pa.array([rows[0]] * 6, kind)
    writer.write(pa.record_batch([pa.array(range(6)), clean], ["id", "c"]))
    with pytest.raises(
        UnsupportedError, match=rf"column 'c[.a-z]*' has .*null.*write version {better}.*rows from"
    ):
        writer.write(pa.record_batch([pa.array(range(2)), pa.array(rows, kind)], ["id", "c"]))
    assert list(store.list("")) == []
    with pytest.raises(ValueError, match="discarded"):
        writer.finish()


def test_empty_values_that_would_become_nulls_are_refused(tmp_path: Path) -> None:
    for kind in (pa.string(), pa.large_binary()):
        column = pa.array(["a", ""], pa.string()).cast(kind)
        for array in (column, pa.ListArray.from_arrays([0, 2], column)):
            with pytest.raises(UnsupportedError, match="column 'c(.item)?'.*read back as nulls"):
                write(pa.table({"c": array}), "0.1", tmp_path)
        required = pa.table([column], schema=pa.schema([pa.field("c", kind, False)]))
        assert_same(write(required, "0.1", tmp_path / f"{kind}"), required)


def test_nulls_where_none_are_allowed_are_refused(tmp_path: Path) -> None:
    for rows in ([1, None], ["a", None]):
        batch = pa.record_batch({"c": rows})
        schema = schema_of(pa.schema([pa.field("c", batch.column(0).type, False)]))
        with pytest.raises(SchemaError, match="column 'c' has nulls"):
            write([batch], "0.1", tmp_path, schema=schema)


@folded(
    ("kind", "better"),
    [
        (pa.map_(pa.string(), pa.int64()), "2.2"),
        (pa.list_(POINT, 3), "2.2"),
        (pa.list_(pa.field("element", pa.int8())), "2.0"),
        (pa.list_(pa.field("item", pa.int8(), False)), "2.0"),
        (pa.struct([("l", pa.large_list(pa.field("item", pa.int8(), True, {"a": "b"})))]), "2.0"),
        (pa.dictionary(pa.int8(), pa.float64()), "2.0"),
    ],
)
def test_a_type_is_refused_with_the_version_that_has_it(kind: Any, better: str) -> None:
    schema = schema_of(pa.schema([("id", pa.int64()), ("c", kind)]))
    store = MemoryStore()
    with pytest.raises(UnsupportedError, match=f"column 'c.*write version {better}"):
        create_file(store, "x.lance", schema, "0.1")
    assert list(store.list("")) == []
    check_writable(schema, better)


def test_batches_that_do_not_fit_the_schema_are_refused(tmp_path: Path) -> None:
    schema = schema_of(pa.schema([("n", pa.int64())]))
    for columns in ({"n": ["a"]}, {"n": [1], "m": [2]}):
        with pytest.raises(SchemaError):
            write([pa.record_batch(columns)], "0.1", tmp_path, schema=schema)


def test_rows_are_found_by_number(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    table = stored_nested(random_nested_table(rng, "2.0", 3, 2000))
    rows = np.sort(rng.choice(2000, 60, replace=False))
    found = read_mine(write(table, "0.1", tmp_path, max_rows_per_group=100), rows.tolist())
    for name in ("id",):
        assert_arrays_equal(found[name], table[name].take(pa.array(rows)), path=name)
