"""Aggregates that executors begin: partial results are exact, with no Spark session needed to see it."""

from __future__ import annotations

import math
import random
import struct
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancecy
from lancecy.spark.aggregates import Aggregate, AggregateReader, _addends
from lancecy.spark.convert import Converter
from lancecy.spark.tasks import TaskReader, batch_limits, divide

INT64_MAX, INT64_MIN = (1 << 63) - 1, -(1 << 63)


def _fed(aggregate: Aggregate, *pieces: pa.Array) -> list[list[Any]]:
    """Results of an aggregate over the values of these arrays."""
    state = aggregate.state()
    for piece in pieces:
        state.add(piece, len(piece))
    return [[v.as_py() if isinstance(v, pa.Scalar) else v for v in values] for values in state.results()]


def _wrapped(value: int) -> int:
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64()], ids=str)
def test_sums_of_integers_are_exact(kind: pa.DataType) -> None:
    bits, dice = kind.bit_width, random.Random(3)
    least, most = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    for _ in range(200):
        values = [dice.choice([None, least, most, 0, -1, dice.randint(least, most)]) for _ in range(9)]
        total = sum(v for v in values if v is not None)
        found = _fed(Aggregate("sum", "a"), pa.array(values[:4], kind), pa.array(values[4:], kind))[0]
        if all(v is None for v in values):
            assert found == [None]
        elif INT64_MIN <= total <= INT64_MAX:
            assert found == [total]
        else:
            assert _wrapped(sum(found)) == _wrapped(total)
            assert not INT64_MIN <= found[0] + found[1] <= INT64_MAX


@pytest.mark.parametrize("total", [0, 5, INT64_MAX, INT64_MIN, -1])
def test_totals_that_fit_are_one_value(total: int) -> None:
    assert _addends(total) == [total]


@pytest.mark.parametrize(
    "total", [INT64_MAX + 1, INT64_MIN - 1, 1 << 64, -(1 << 64), 12345 << 70, -(99 << 69) - 7]
)
def test_totals_that_do_not_fit_overflow_at_once_and_wrap_right(total: int) -> None:
    found = _addends(total)
    assert all(INT64_MIN <= v <= INT64_MAX for v in found)
    assert not INT64_MIN <= found[0] + found[1] <= INT64_MAX
    assert _wrapped(sum(found)) == _wrapped(total)


def test_sum_and_mean_of_floats_take_nulls_out_and_nan_in() -> None:
    pieces = [pa.array([1.5, None, 2.5]), pa.array([], pa.float64()), pa.array([None], pa.float64())]
    assert _fed(Aggregate("sum", "a"), *pieces) == [[4.0]]
    assert _fed(Aggregate("avg", "a"), *pieces) == [[4.0], [2]]
    assert _fed(Aggregate("sum", "a"), *pieces[1:]) == [[None]]
    assert _fed(Aggregate("avg", "a"), *pieces[1:]) == [[None], [0]]
    assert math.isnan(_fed(Aggregate("sum", "a"), pa.array([1.0, math.nan], pa.float32()))[0][0])
    assert _fed(Aggregate("sum", "a"), pa.array([math.inf, 1.0])) == [[math.inf]]
    assert math.isnan(_fed(Aggregate("sum", "a"), pa.array([math.inf]), pa.array([-math.inf]))[0][0])


def test_mean_of_large_integers_does_not_overflow() -> None:
    assert _fed(Aggregate("avg", "a"), pa.array([INT64_MAX] * 4)) == [[float(4 * INT64_MAX)], [4]]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
def test_nan_is_above_all_numbers(kind: pa.DataType) -> None:
    def made(*values: float | None) -> pa.Array:
        return pa.array(values, kind)

    some, none, nans = made(1.0, math.nan, None, -2.0), made(None), made(math.nan, None)
    assert math.isnan(_fed(Aggregate("max", "a"), some, none)[0][0])
    assert math.isnan(_fed(Aggregate("max", "a"), made(5.0), nans)[0][0])
    assert math.isnan(_fed(Aggregate("max", "a"), nans, made(math.inf))[0][0])
    assert _fed(Aggregate("min", "a"), some, none) == [[-2.0]]
    assert _fed(Aggregate("min", "a"), nans, made(math.inf)) == [[math.inf]]
    assert math.isnan(_fed(Aggregate("min", "a"), nans, none)[0][0])
    assert _fed(Aggregate("min", "a"), none) == [[None]]
    assert _fed(Aggregate("max", "a")) == [[None]]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.string(), ["b", "\U0001f600", "￿", "", None, "Z", "é"]),
        (pa.binary(), [b"\x7f", b"\x80", b"\xff\x00", b"", None, b"\xff"]),
        (pa.bool_(), [True, None, False]),
        (pa.date32(), [date(9999, 12, 31), date(1, 1, 1), None]),
        (pa.decimal128(38, 3), [Decimal("-99999999999999999999999999999999999.999"), Decimal("0.001"), None]),
        (pa.duration("us"), [timedelta(microseconds=-1), timedelta(days=400), None]),
    ],
    ids=lambda v: str(v) if isinstance(v, pa.DataType) else "",
)
def test_extremes_are_in_the_order_of_bytes_and_numbers(kind: pa.DataType, values: list[Any]) -> None:
    present = [v for v in values if v is not None]
    by = (lambda text: text.encode()) if pa.types.is_string(kind) else None
    pieces = [pa.array(values[:2], kind), pa.array(values[2:], kind)]
    assert _fed(Aggregate("min", "a"), *pieces) == [[min(present, key=by)]]
    assert _fed(Aggregate("max", "a"), *pieces) == [[max(present, key=by)]]


def test_extremes_keep_values_that_python_has_none_for() -> None:
    """Dates far away, and every bit of a timestamp."""
    state = Aggregate("max", "a").state()
    far = pa.array([3_000_000, -5_000_000], pa.int32()).cast(pa.date32())
    state.add(far, 2)
    assert state.results() == [[far[0]]]


@pytest.mark.parametrize(
    ("function", "kind", "supported"),
    [
        ("count", pa.list_(pa.int8()), True),
        ("count", None, True),
        ("sum", pa.int32(), True),
        ("sum", pa.decimal128(10, 2), False),
        ("sum", pa.string(), False),
        ("sum", pa.duration("us"), False),
        ("avg", pa.float32(), True),
        ("avg", pa.bool_(), False),
        ("max", pa.string(), True),
        ("max", pa.decimal128(10, 2), True),
        ("max", pa.struct({"a": pa.int8()}), False),
        ("min", pa.list_(pa.int8()), False),
        ("min", pa.null(), False),
        ("min", None, False),
    ],
)
def test_what_executors_begin(function: Any, kind: pa.DataType | None, supported: bool) -> None:
    assert Aggregate(function, "a").is_supported(kind) is supported


@pytest.mark.parametrize("version", ["legacy", "2.0", "2.1", "2.2"])
@pytest.mark.parametrize("condition", [None, "id % 3 = 1", "id < 0"])
def test_reader_gives_one_row_for_all_its_parts(tmp_path: Path, version: str, condition: str | None) -> None:
    """Rows deleted are in no aggregate; parts of no row give nulls and zeros."""
    rows = 3000
    table = pa.table(
        {
            "id": pa.array(range(rows)),
            "x": pa.array([float(n % 17) for n in range(rows)], pa.float32()),
            "word": pa.array([f"w{n:05}" for n in range(rows)]),
        }
    )
    options: dict[str, Any] = {"data_storage_version": version, "max_rows_per_file": 1100}
    ds = lancecy.write_dataset(table, tmp_path / "t.lance", **options)
    ds.delete("id >= 1000 AND id < 1200")
    ds = lancecy.dataset(tmp_path / "t.lance")
    plan, parts = divide(
        ds.scanner(["id", "x", "word"], condition, **batch_limits(None)), ds.context, 2, 4096
    )
    assert len(parts) > 1
    spec = plan.tasks[0].spec
    aggregates = (
        Aggregate("sum", "id"),
        Aggregate("avg", "x"),
        Aggregate("max", "word"),
        Aggregate("count", "x"),
        Aggregate("count"),
    )
    target = pa.schema(
        [
            f
            for i, a in enumerate(aggregates)
            for f in a.fields(f"p{i}", None if a.column is None else plan.schema.field(a.column).type)
        ]
    )
    reader = AggregateReader(TaskReader(spec, tuple(parts), Converter(plan.schema)), aggregates)
    numbers = [pa.record_batch({"id": [n]}) for n in range(len(parts))]
    (found,) = list(reader(iter(numbers)))
    assert found.schema == target
    kept = [n for n in range(rows) if not 1000 <= n < 1200]
    if condition is not None:
        kept = [n for n in kept if n % 3 == 1] if "%" in condition else []
    assert found.to_pylist() == [
        {
            "p0": sum(kept) if kept else None,
            "p1": float(sum(n % 17 for n in kept)) if kept else None,
            "p1_n": len(kept),
            "p2": f"w{max(kept):05}" if kept else None,
            "p3": len(kept),
            "p4": len(kept),
        }
    ]


def test_rows_alone_are_counted_without_a_column(tmp_path: Path) -> None:
    ds = lancecy.write_dataset(pa.table({"id": range(100)}), tmp_path / "t.lance")
    plan, parts = divide(ds.scanner(["id"], "id % 2 = 0", **batch_limits(None)), ds.context, 1, None)
    spec = plan.tasks[0].spec.narrowed([])
    reader = TaskReader(spec, tuple(parts), Converter(pa.schema([])))
    target = pa.schema([pa.field("p0", pa.int64(), nullable=False)])
    (found,) = AggregateReader(reader, (Aggregate("count"),))(iter([pa.record_batch({"id": [0]})]))
    assert found.schema == target
    assert found.to_pylist() == [{"p0": 50}]


def test_floats_of_many_bits_are_not_cut() -> None:
    value = struct.unpack("<d", struct.pack("<Q", 0x3FF123456789ABCD))[0]
    assert _fed(Aggregate("max", "a"), pa.array([value, 0.5])) == [[value]]
