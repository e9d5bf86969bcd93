"""Every type of file sheet 0.1, section 2.2, written by pylance 14 and read by both."""

from __future__ import annotations

import decimal
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from tests.helpers.compare import assert_tables_equal
from tests.helpers.tables import all_types, all_types_table, random_array, random_table, stored_form
from tests.interop import live

pytestmark = pytest.mark.interop

TYPES = all_types()
FILTERABLE = {
    "bool": ["{0}", "NOT {0}", "{0} IS NULL"],
    "int8": ["{0} > 3", "{0} IN (1, -5, 127)"],
    "uint64": ["{0} >= 9223372036854775808"],
    "int64": ["{0} BETWEEN -100 AND 9000000000000000000"],
    "string": ["{0} >= 'n'", "{0} IS NULL", "{0} LIKE '%a%'", "{0} <> 'abc'"],
    "large_string": ["{0} = 'abc'", "{0} IS NOT NULL"],
    "binary": ["{0} IS NULL"],
    "date32": ["{0} < DATE '2001-02-03'"],
    "timestamp_us": ["{0} >= TIMESTAMP '1999-12-31 23:59:59'"],
}


def one_column(name: str, rows: int, *, nulls: float = 0.0, nullable: bool = True) -> pa.Table:
    types = {"key": pa.int32(), name: TYPES[name]}
    return all_types_table(rows, types=types, nulls=nulls, nullable=nullable, seed=len(name))


@pytest.mark.parametrize("nulls", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("name", TYPES)
def test_type_in_groups_of_odd_size(name: str, nulls: float, tmp_path: Path) -> None:
    table = one_column(name, 67, nulls=nulls)
    live.write(table, tmp_path / "t", max_rows_per_file=39)

    dataset = live.assert_same(
        tmp_path / "t",
        filters=[f.format(name) for f in FILTERABLE.get(name, ())],
        takes=name != "vector_bool",
    )
    assert_tables_equal(dataset.to_table(), stored_form(table))


@pytest.mark.parametrize("name", [n for n, t in TYPES.items() if not pa.types.is_null(t)])
def test_type_not_nullable(name: str, tmp_path: Path) -> None:
    table = one_column(name, 40, nullable=False)
    live.write(table, tmp_path / "t")

    live.assert_same(tmp_path / "t", takes=name != "vector_bool")


@pytest.mark.parametrize("group", [1, 7, 8, 9, 64, 97, 1024])
def test_all_types_in_one_table(group: int, tmp_path: Path) -> None:
    """Booleans make the pages behind them start at odd places; group sizes move those about."""
    table = all_types_table(150 if group > 1 else 20, seed=group)
    live.write(
        live.cut(table, 1, 11, 3), tmp_path / "t", max_rows_per_group=group, max_rows_per_file=2 * group
    )

    dataset = lancecy.dataset(tmp_path / "t")
    assert_tables_equal(dataset.to_table(), live.peer(tmp_path / "t").to_table())
    assert_tables_equal(dataset.to_table(), stored_form(table))
    picked = np.random.default_rng(group).permutation(table.num_rows)[:40]
    assert_tables_equal(dataset.take(picked), dataset.to_table().take(pa.array(picked)))


@pytest.mark.parametrize("kind", [pa.string_view(), pa.binary_view()])
def test_views_come_back_as_what_they_are_stored_as(kind: pa.DataType, tmp_path: Path) -> None:
    plain = pa.string() if kind == pa.string_view() else pa.binary()
    values = random_array(plain, 30, np.random.default_rng(1))
    live.write(pa.table({"v": values.cast(kind)}), tmp_path / "t")

    dataset = live.assert_same(tmp_path / "t")
    assert dataset.schema.field("v").type == plain


def bfloat16(values: list[float]) -> pa.Array:
    from lance.arrow import bfloat16_array

    return bfloat16_array(values)


def extension_columns() -> dict[str, pa.Array]:
    rng = np.random.default_rng(3)
    tensor = pa.fixed_shape_tensor(pa.float32(), (2, 2))
    numbers = [float(v) for v in rng.integers(-8, 8, 27)]
    return {
        "uuid": pa.ExtensionArray.from_storage(pa.uuid(), random_array(pa.binary(16), 27, rng)),
        "tensor": pa.ExtensionArray.from_storage(tensor, random_array(pa.list_(pa.float32(), 4), 27, rng)),
        "bool8": pa.ExtensionArray.from_storage(pa.bool8(), pa.array(rng.integers(0, 2, 27), pa.int8())),
        "bfloat16": bfloat16(numbers),
    }


@pytest.mark.parametrize("name", ["uuid", "tensor", "bool8", "bfloat16"])
def test_extension_type_is_restored_where_it_is_registered(name: str, tmp_path: Path) -> None:
    column = extension_columns()[name]
    live.write(pa.table({"id": range(27), name: column}), tmp_path / "t")

    dataset = lancecy.dataset(tmp_path / "t")
    assert dataset.schema.field(name).type == column.type
    assert_tables_equal(dataset.to_table(), live.peer(tmp_path / "t").to_table())


def test_extension_type_is_read_as_its_storage_where_nobody_knows_it(tmp_path: Path) -> None:
    """A process that has not registered a type sees its storage and the name."""
    metadata = {"ARROW:extension:name": "example.colour", "ARROW:extension:metadata": "rgb"}
    schema = pa.schema([pa.field("c", pa.binary(3), metadata=metadata)])
    live.write(pa.table({"c": pa.array([b"abc", b"def"], pa.binary(3))}, schema=schema), tmp_path / "t")
    table = lancecy.dataset(tmp_path / "t").to_table()
    assert table.schema.equals(schema, check_metadata=True)
    assert table["c"].to_pylist() == [b"abc", b"def"]


def test_json_is_text(tmp_path: Path) -> None:
    """It is stored in a binary form, and comes out as text on both sides."""
    texts = ['{"a": 1}', "[]", '"word"', '{"a": {"b": [1, 2, null]}}']
    column = pa.ExtensionArray.from_storage(pa.json_(pa.utf8()), pa.array(texts))
    live.write(pa.table({"id": range(4), "j": column, "s": texts}), tmp_path / "t")

    dataset = lancecy.dataset(tmp_path / "t")
    assert dataset.schema.field("j").type == live.peer(tmp_path / "t").schema.field("j").type
    table = dataset.to_table()
    assert table["j"].type == pa.json_()
    assert table["j"].to_pylist() == live.peer(tmp_path / "t").to_table()["j"].to_pylist()
    assert [json.loads(text) for text in table["j"].to_pylist()] == [json.loads(text) for text in texts]


def test_nulls_over_garbage_come_back_as_the_garbage(tmp_path: Path) -> None:
    """The format keeps no validity: what lies under a null is written, and both readers return it."""
    numbers = pa.Array.from_buffers(
        pa.int32(), 8, [pa.py_buffer(b"\x55"), pa.py_buffer(np.arange(8, dtype=np.int32) * 11)]
    )
    live.write(pa.table({"n": numbers}), tmp_path / "t")

    dataset = live.assert_same(tmp_path / "t")
    assert dataset.to_table()["n"].to_pylist() == [0, 11, 22, 33, 44, 55, 66, 77]


def test_empty_string_of_a_nullable_column_is_null_and_of_a_required_one_is_not(tmp_path: Path) -> None:
    words = ["", "a", "", "b"]
    schema = pa.schema([pa.field("maybe", pa.string()), pa.field("always", pa.string(), False)])
    live.write(pa.table([words, words], schema=schema), tmp_path / "t")

    dataset = live.assert_same(
        tmp_path / "t", filters=["maybe IS NULL", "always = ''", "always IS NULL", "maybe = ''"]
    )
    assert dataset.to_table()["maybe"].to_pylist() == [None, "a", None, "b"]
    assert dataset.to_table()["always"].to_pylist() == words


def test_wide_values_and_wide_tables(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    columns = {f"c{i:03d}": rng.integers(0, 9, 30).astype(np.int16) for i in range(300)}
    columns["vector"] = pa.FixedSizeListArray.from_arrays(
        pa.array(rng.standard_normal(30 * 1536, np.float32)), 1536
    )
    columns["text"] = pa.array(["long" * int(n) for n in rng.integers(1, 5000, 30)])
    live.write(pa.table(columns), tmp_path / "t", max_rows_per_file=13)

    mine, theirs = lancecy.dataset(tmp_path / "t"), live.peer(tmp_path / "t")
    assert_tables_equal(mine.to_table(), theirs.to_table())
    some = ["c250", "vector", "c003", "text"]
    assert_tables_equal(mine.take([29, 3, 14], columns=some), theirs.take([29, 3, 14], columns=some))


def test_decimal_filter_is_exact(tmp_path: Path) -> None:
    values = [decimal.Decimal(v) for v in ("0.001", "-0.002", "99999.999", "0.000", "12.340")]
    live.write(pa.table({"d": pa.array(values, pa.decimal128(12, 3))}), tmp_path / "t")

    dataset = lancecy.dataset(tmp_path / "t")
    assert dataset.to_table(filter="d > 0.0005")["d"].to_pylist() == [values[0], values[2], values[4]]
    assert dataset.count_rows(filter="d = 12.34") == 1


@pytest.mark.parametrize("seed", range(6))
def test_random_schema(seed: int, tmp_path: Path) -> None:
    """Types inside types, drawn at random, of those that the format can hold."""
    rng = np.random.default_rng(seed)
    schema = pa.schema([pa.field(f"f{i}", random_type(rng, 3)) for i in range(8)])
    table = random_table(schema, 90, seed=seed, nulls=0.2)
    live.write(table, tmp_path / "t", max_rows_per_file=50)

    dataset = live.assert_same(tmp_path / "t", seed=seed, takes=False)
    assert_tables_equal(dataset.to_table(), stored_form(table))


def random_type(rng: np.random.Generator, depth: int) -> pa.DataType:
    leaves = [
        TYPES[n]
        for n in ("bool", "int8", "int64", "float32", "string", "large_binary", "timestamp_utc", "decimal")
    ]
    leaves += [
        TYPES[n] for n in ("vector_float32", "vector_bool", "matrix", "dictionary_int8", "fixed_binary_3")
    ]
    kind = rng.integers(0, 6) if depth else 0
    if kind == 3:
        return pa.list_(random_type(rng, depth - 1))
    if kind == 4:
        return pa.large_list(random_type(rng, depth - 1))
    if kind == 5:
        return pa.struct(
            [pa.field(name, random_type(rng, depth - 1)) for name in "abc"[: rng.integers(1, 4)]]
        )
    return leaves[rng.integers(0, len(leaves))]
