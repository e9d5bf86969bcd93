"""Values in the types that Spark takes: equal to what they were, or an error that names the column."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from lancecy.errors import FormatError, UnsupportedError
from lancecy.spark.convert import Converter
from tests.helpers.folded import folded
from tests.spark.values import SPARK_TYPES, as_seen, every_type

ROWS = 60


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return every_type(ROWS)


def _pieces(table: pa.Table, shape: str) -> pa.Table:
    if shape == "sliced":
        return table.slice(7, 31)
    if shape == "chunked":
        return pa.concat_tables([table.slice(3, 9), table.slice(0, 0), table.slice(20, 40)])
    return table.slice(0, 0) if shape == "empty" else table


def _converted(table: pa.Table, max_rows: int = 1000, *, truncate: bool = True) -> pa.Table:
    converter = Converter(table.schema, truncate)
    found = pa.Table.from_batches(converter.batches(table, max_rows), converter.target)
    found.validate(full=True)
    return found


@pytest.mark.parametrize("shape", ["whole", "sliced", "chunked", "empty"])
@folded("name", SPARK_TYPES)
def test_values_stay_equal(table: pa.Table, name: str, shape: str) -> None:
    given = _pieces(table.select([name]), shape)
    found = _converted(given, 13)
    assert [as_seen(v) for v in found[name].to_pylist()] == [as_seen(v) for v in given[name].to_pylist()]


def test_batches_hold_at_most_so_many_rows(table: pa.Table) -> None:
    sizes = [b.num_rows for b in Converter(table.schema, True).batches(table, 25)]
    assert sizes == [25, 25, 10]


def test_types_spark_takes_are_not_copied() -> None:
    numbers = pa.array(range(1000))
    batch = next(Converter(pa.schema({"n": pa.int64()})).batches(pa.table({"n": numbers}), 1000))
    assert batch.column(0).buffers()[1].address == numbers.buffers()[1].address


@pytest.mark.parametrize(
    "kind", [pa.timestamp("ns"), pa.timestamp("ns", "UTC"), pa.time64("ns"), pa.duration("ns")], ids=str
)
@pytest.mark.parametrize("nested", [False, True])
def test_nanoseconds_are_refused_unless_they_fit(kind: pa.DataType, nested: bool) -> None:
    fits, lost = pa.array([5000, None], kind), pa.array([5000, 5001], kind)
    if nested:
        fits, lost = (pa.ListArray.from_arrays([0, 2], a) for a in (fits, lost))
    assert _converted(pa.table({"t": fits}), truncate=False).num_rows == len(fits)
    with pytest.raises(UnsupportedError, match=r"'t'.*truncate_nanoseconds=True"):
        _converted(pa.table({"t": lost}), truncate=False)
    assert _converted(pa.table({"t": lost})).num_rows == len(lost)


def test_nanoseconds_are_rounded_towards_the_past() -> None:
    instants = pa.array([-1, 1, 999, 1000], pa.timestamp("ns"))
    spans = pa.array([-1, 1, 999, 1000], pa.duration("ns"))
    found = _converted(pa.table({"i": instants, "s": spans}))
    assert found["i"].cast(pa.int64()).to_pylist() == [-1, 0, 0, 1]
    assert found["s"].cast(pa.int64()).to_pylist() == [-1, 0, 0, 1]


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([0, 2**64 - 1], pa.uint64()), [Decimal(0), Decimal(2**64 - 1)]),
        (pa.array([123, -5], pa.decimal128(5, 0)).cast(pa.decimal128(9, -0)), [Decimal(123), Decimal(-5)]),
        (pa.array([86_400_000, None], pa.date64()), [dt.date(1970, 1, 2), None]),
        (pa.array([0], pa.timestamp("s", "+05:30")), [dt.datetime(1970, 1, 1, tzinfo=dt.UTC)]),
    ],
    ids=["uint64", "decimal", "date64", "zone"],
)
def test_edges_arrive_exactly(array: pa.Array, expected: list[object]) -> None:
    assert _converted(pa.table({"x": array}))["x"].to_pylist() == expected


@pytest.mark.parametrize(
    "array",
    [pa.array([1], pa.date64()), pa.array([2**62], pa.timestamp("s")), pa.array([2**62], pa.duration("ms"))],
    ids=["date64 with a time", "far timestamp", "long duration"],
)
def test_value_no_spark_value_equals_is_refused(array: pa.Array) -> None:
    with pytest.raises(UnsupportedError, match=r"'x'"):
        _converted(pa.table({"x": array}))


def _no_null(kind: pa.DataType) -> pa.Field:
    return pa.field("v", kind, False)


@pytest.mark.parametrize(
    ("array", "field", "place"),
    [
        (pa.array([1, None]), pa.field("x", pa.int64(), False), "x"),
        (pa.array([None, 3], pa.uint8()), pa.field("x", pa.uint8(), False), "x"),
        (
            pa.StructArray.from_arrays([pa.array([1, None])], fields=[_no_null(pa.int64())]),
            pa.field("x", pa.struct([_no_null(pa.int64())])),
            r"x\.v",
        ),
        (
            pa.ListArray.from_arrays([0, 1, 2], pa.array([1, None]), type=pa.list_(_no_null(pa.int64()))),
            pa.field("x", pa.list_(_no_null(pa.int64()))),
            r"x\[\]",
        ),
    ],
    ids=["column", "converted column", "struct", "list"],
)
def test_null_where_none_is_promised_is_an_error(array: pa.Array, field: pa.Field, place: str) -> None:
    table = pa.Table.from_arrays([array], schema=pa.schema([field]))
    with pytest.raises(FormatError, match=f"'{place}' holds nulls"):
        _converted(table)


def test_nulls_hidden_by_null_parents_are_none_of_anybodys_business() -> None:
    child = pa.array([1, None, 3])
    hidden = pa.StructArray.from_arrays(
        [child], fields=[_no_null(pa.int64())], mask=pa.array([False, True, False])
    )
    assert _converted(pa.table({"x": hidden}))["x"].to_pylist() == [{"v": 1}, None, {"v": 3}]
