"""Files written by pylance 14, read through the file layer alone and compared with pylance's own result."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lancecy.rows import RowSelection
from lancecy.schema import Field
from lancecy.stats import ByteBounds, ColumnStats, NumericBounds
from lancecy.store.reads import run
from tests.file.tables import arrow_columns, load_table, open_data_file
from tests.helpers.compare import assert_arrays_equal, assert_tables_equal
from tests.helpers.tables import all_types, all_types_table, stored_form
from tests.interop import live

pytestmark = pytest.mark.interop

TYPES = all_types()


@pytest.mark.parametrize("nulls", [0.0, 0.4])
@pytest.mark.parametrize("name", TYPES)
def test_type_is_read_as_pylance_reads_it(name: str, nulls: float, tmp_path: Path) -> None:
    source = all_types_table(53, types={"key": pa.int8(), name: TYPES[name]}, nulls=nulls, seed=len(name))
    path = tmp_path / "t"
    dataset = live.write(source, path, max_rows_per_group=17, max_rows_per_file=34)
    found = load_table(path).table()
    assert_tables_equal(found, dataset.to_table(), nullability=False)
    assert_tables_equal(found, stored_form(source))
    assert_tables_equal(load_table(path, is_mapped=False).table(), found)


@pytest.mark.parametrize("group", [1, 9, 64, 1024])
def test_any_selection_of_all_types_at_once(group: int, tmp_path: Path) -> None:
    source = all_types_table(300, nulls=0.2, seed=group)
    live.write(source, tmp_path / "t", max_rows_per_group=group)
    table = load_table(tmp_path / "t", is_mapped=group % 2 == 0)
    (file,) = table.data_files
    reader, files, fields = open_data_file(table, file)
    everything = arrow_columns(reader, files, fields)
    rng = np.random.default_rng(group)
    for chosen in (
        RowSelection.range(300, 63, 201),
        RowSelection.from_mask(rng.random(300) < 0.2),
        RowSelection.from_mask(rng.random(300) < 0.9),
        RowSelection.take(300, rng.integers(0, 300, 500)),
    ):
        rows = pa.array(chosen.to_indices())
        for field, column in arrow_columns(reader, files, fields, chosen).items():
            assert_arrays_equal(column, everything[field].take(rows), path=field.name)


EXTENSIONS: dict[str, pa.Array] = {
    "uuid": pa.array([bytes([i] * 16) for i in range(5)], pa.uuid()),
    "bool8": pa.ExtensionArray.from_storage(pa.bool8(), pa.array([0, 1, 1], pa.int8())),
    "tensor": pa.ExtensionArray.from_storage(
        pa.fixed_shape_tensor(pa.float32(), [2, 2]),
        pa.array([[1, 2, 3, 4], [5, 6, 7, 8]], pa.list_(pa.float32(), 4)),
    ),
}


@pytest.mark.parametrize("name", EXTENSIONS)
def test_extension_types_that_arrow_knows_are_restored(name: str, tmp_path: Path) -> None:
    values = EXTENSIONS[name]
    live.write(pa.table({"e": values}), tmp_path / "t")
    found = load_table(tmp_path / "t").table()["e"]
    assert found.type == values.type
    assert found.combine_chunks().storage.to_pylist() == values.storage.to_pylist()


@pytest.mark.parametrize("kind", [pa.string_view(), pa.binary_view()])
def test_views_are_read_as_plain_strings(kind: pa.DataType, tmp_path: Path) -> None:
    values = ["a", None, "long enough not to be inlined"]
    live.write(pa.table({"v": pa.array(values, pa.string()).cast(kind)}), tmp_path / "t")
    found = load_table(tmp_path / "t").table()["v"].to_pylist()
    assert [v.decode() if isinstance(v, bytes) else v for v in found] == values


def test_batches_larger_than_a_view(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    vectors = rng.standard_normal((3000, 100), dtype=np.float32)
    source = pa.table(
        {
            "odd": pa.array([f"{i}" for i in range(3000)]),
            "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 100),
        }
    )
    live.write(source, tmp_path / "t", max_rows_per_group=1024)
    assert_tables_equal(load_table(tmp_path / "t").table(), source, nullability=False)


# -- statistics hold for the values read ----------------------------------------------------


def hidden_bytes() -> pa.Array:
    """Strings of which two are null with bytes under them."""
    offsets = np.array([0, 1, 4, 5, 9], np.int32)
    buffers = [pa.py_buffer(b"\x05"), pa.py_buffer(offsets), pa.py_buffer(b"bzzzcAAAA")]
    return pa.Array.from_buffers(pa.string(), 4, buffers)


def hidden_numbers() -> pa.Array:
    """Integers of which two are null with values under them."""
    values = np.array([5, 900, 6, -900], np.int64)
    return pa.Array.from_buffers(pa.int64(), 4, [pa.py_buffer(b"\x05"), pa.py_buffer(values)])


AWKWARD: dict[str, pa.Array] = {
    "hidden strings": hidden_bytes(),
    "hidden numbers": hidden_numbers(),
    "empty strings": pa.array(["", "b", "", "c"]),
    "only empty": pa.array(["", "", "", ""]),
    "only null": pa.array([None] * 4, pa.string()),
    "one value and null": pa.array(["b", None, "b", "b"]),
    "nan": pa.array([1.0, math.nan, 2.0, -math.nan]),
    "only nan": pa.array([math.nan] * 4, pa.float32()),
    "zeros": pa.array([0.0, -0.0, 0.0, -0.0]),
    "infinite": pa.array([math.inf, -math.inf, 1.0, 2.0]),
    "cut at a character": pa.array(["x" * 63 + "é" * 40, "x" * 64, "x" * 62 + "漢" * 9, "x" * 63]),
    "cut before an emoji": pa.array(["x" * 61 + "😀", "x" * 64, "x" * 61 + "😀" * 9, "x" * 60 + "y" * 9]),
    "long": pa.array(["x" * 63 + "é" * 40, "x" * 64, "x" * 65, "\x7f" * 70]),
    "long binary": pa.array([b"\xff" * 70, b"\xff" * 64, b"\x00" * 80, b"a"]),
    "last character": pa.array([chr(0x10FFFF) * 20, "a", "b", "c"]),
    "flags": pa.array([True, None, True, True]),
    "null flags": pa.array([None] * 4, pa.bool_()),
    "null numbers": pa.array([None] * 4, pa.int32()),
    "dates": pa.array([-5, 7, 0, 3], pa.int32()).cast(pa.date32()),
    "decimals": pa.array([1, -1, 10, -10], pa.int64()).cast(pa.decimal128(22, 2)),
    "null decimals": pa.array([None] * 4, pa.decimal128(22, 2)),
}


def plain_value(value: Any, field: Field) -> Any:
    """The value in the unit that bounds are in."""
    if isinstance(value, str):
        return value.encode()
    if field.logical_type.startswith("decimal"):
        return int(value.scaleb(2))
    return value.toordinal() - 719163 if field.logical_type == "date32:day" else value


def assert_holds(stats: ColumnStats, unit: int, values: Sequence[Any], field: Field) -> None:
    present = [plain_value(v, field) for v in values if v is not None]
    present = [v for v in present if not (isinstance(v, float) and math.isnan(v))]
    assert not (stats.no_nulls[unit] and None in values)
    assert not (stats.all_null[unit] and any(v is not None for v in values))
    if isinstance(stats.bounds, NumericBounds) and stats.bounds.known[unit]:
        low, high = stats.bounds.lows.tolist()[unit], stats.bounds.highs.tolist()[unit]
        assert all(low <= v <= high for v in present)
    if isinstance(stats.bounds, ByteBounds):
        bounds = stats.bounds
        low_bytes = bounds.low_bytes[slice(*bounds.low_offsets[unit : unit + 2])].tobytes()
        high_bytes = bounds.high_bytes[slice(*bounds.high_offsets[unit : unit + 2])].tobytes()
        assert not bounds.has_low[unit] or all(low_bytes <= v for v in present)
        assert not bounds.has_high[unit] or all(v <= high_bytes for v in present)


@pytest.mark.parametrize("nullable", [True, False])
@pytest.mark.parametrize("name", AWKWARD)
def test_bounds_hold_for_awkward_values(name: str, nullable: bool, tmp_path: Path) -> None:
    values = AWKWARD[name]
    if not nullable and values.null_count:
        values = values.drop_null()
    if not len(values):
        values = pa.array([""] * 4)
    schema = pa.schema([pa.field("c", values.type, nullable)])
    live.write(pa.table([values], schema=schema), tmp_path / "t", max_rows_per_group=2)
    table = load_table(tmp_path / "t")
    reader, files, (field,) = open_data_file(table, table.data_files[0])
    found = arrow_columns(reader, files, [field])[field].to_pylist()
    stats = run(reader.stats({("c",): (field,)}), files.fetch).columns[("c",)]
    for unit, (start, stop) in enumerate(itertools.pairwise(reader.page_starts(field).tolist())):
        assert_holds(stats, unit, found[start:stop], field)


@pytest.mark.parametrize("seed", range(4))
def test_bounds_hold_for_every_type(seed: int, tmp_path: Path) -> None:
    live.write(all_types_table(60, nulls=0.15 * seed, seed=seed), tmp_path / "t", max_rows_per_group=7)
    table = load_table(tmp_path / "t")
    reader, files, fields = open_data_file(table, table.data_files[0])
    believed = 0
    for field in fields:
        stats = run(reader.stats({(field.name,): (field,)}), files.fetch).columns.get((field.name,))
        if stats is None or stats.bounds is None or field.logical_type.startswith(("decimal", "date64")):
            continue
        values = arrow_columns(reader, files, [field])[field].to_pylist()
        for unit, (start, stop) in enumerate(itertools.pairwise(reader.page_starts(field).tolist())):
            assert_holds(stats, unit, values[start:stop], field)
            believed += isinstance(stats.bounds, ByteBounds) or bool(stats.bounds.known[unit])
    assert believed > 20


def test_statistics_of_sorted_values_are_tight(tmp_path: Path) -> None:
    table = pa.table({"n": np.arange(100, dtype=np.int64), "s": [f"{i:03}" for i in range(100)]})
    live.write(table, tmp_path / "t", max_rows_per_group=10)
    loaded = load_table(tmp_path / "t")
    reader, files, (n, s) = open_data_file(loaded, loaded.data_files[0])
    found = run(reader.stats({("n",): (n,), ("s",): (s,)}), files.fetch).columns
    numbers, words = found[("n",)].bounds, found[("s",)].bounds
    assert isinstance(numbers, NumericBounds)
    assert numbers.lows.tolist() == list(range(0, 100, 10))
    assert numbers.highs.tolist() == list(range(9, 100, 10))
    assert isinstance(words, ByteBounds)
    assert words.high_bytes.tobytes() == b"".join(b"%03d" % i for i in range(9, 100, 10))
    assert words.has_low.all()
    assert found[("s",)].no_nulls.all()
