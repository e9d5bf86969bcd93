"""Comparisons of two types, against Python's fractions; and that filters use them."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lancecy.errors import ExpressionError
from lancecy.expr import bind, evaluate
from lancecy.expr.evaluation.exact import can_compare, compare, share_type
from tests.expr.test_answers import parsed
from tests.helpers.folded import folded

NAN, INF = float("nan"), float("inf")
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
NUMBERS = [
    pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
    pa.float16(), pa.float32(), pa.float64(), pa.decimal128(5, 2), pa.decimal128(38, 0), pa.decimal128(38, 38),
    pa.decimal128(20, -5), pa.decimal256(76, 0), pa.decimal256(76, 76), pa.decimal256(50, 20),
]  # fmt: skip
INSTANTS = [pa.date32(), pa.date64(), *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns"))]
SPANS = [pa.duration(unit) for unit in ("s", "ms", "us", "ns")]
TIMES = [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")]
FLOATS = [
    0.0, -0.0, 1.5, -1.0, 0.1, 1.1, NAN, INF, -INF, 5e-324, 1e308, 2.0**24, 2.0**53, -(2.0**53), 2.0**53 + 2,
    2.0**63, -(2.0**63), 2.0**64, 1e22, 1e23, 123456.789,
]  # fmt: skip
POWERS = [sign * (2**k + e) for sign in (1, -1) for k in (0, 7, 24, 53, 63, 64) for e in (-1, 0, 1)]


def values_of(kind: pa.DataType) -> pa.Array:
    """Extremes of a type, neighbours of powers of two, what is near the floats above, and a null."""
    if pa.types.is_floating(kind):
        make: Any = {16: np.float16, 32: np.float32, 64: np.float64}[kind.bit_width]
        with np.errstate(over="ignore"):
            return pa.array([*map(make, FLOATS), None], kind)
    if pa.types.is_decimal(kind):
        near = [
            int(Fraction(f) * Fraction(10) ** kind.scale) + e for f in FLOATS if f - f == 0 for e in (0, 1)
        ]
        stored = [*near, 10**kind.precision - 1, 1 - 10**kind.precision, *POWERS[:9]]
        digits = [(int(v < 0), tuple(map(int, str(abs(v)))), -kind.scale) for v in stored]
        held = [Decimal(d) for v, d in zip(stored, digits) if abs(v) < 10**kind.precision]
        return pa.array([*held, None], kind)
    return pa.array(
        [v for v in POWERS if limits(kind)[0] <= v <= limits(kind)[1]] + [None], stored_type(kind)
    ).view(kind)


def limits(kind: pa.DataType) -> tuple[int, int]:
    bits = kind.bit_width
    if pa.types.is_time(kind):
        return 0, 86_400 * 10 ** UNITS[kind.unit] - 1
    return (
        (0, 2**bits - 1) if pa.types.is_unsigned_integer(kind) else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    )


def stored_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_integer(kind):
        return kind
    return pa.int32() if kind.bit_width == 32 else pa.int64()


UNITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def meaning(kind: pa.DataType, values: pa.Array) -> list[Any]:
    """The values as fractions, times in seconds; floats that are none as they are."""
    if pa.types.is_temporal(kind):
        unit = (
            Fraction(86_400) if kind == pa.date32() else Fraction(1, 10 ** UNITS[getattr(kind, "unit", "ms")])
        )
        return [None if v is None else v * unit for v in values.view(stored_type(kind)).to_pylist()]
    found = [float(v) if isinstance(v, np.floating) else v for v in values.to_pylist()]
    return [v if v is None or (isinstance(v, float) and v - v != 0) else Fraction(v) for v in found]


@pytest.mark.slow
@folded("left", NUMBERS + INSTANTS + SPANS + TIMES, ids=str)
def test_any_two_values_are_compared_as_what_they_are(left: pa.DataType) -> None:
    for right in [kind for kind in NUMBERS + INSTANTS + SPANS + TIMES if can_compare(left, kind)]:
        sides = values_of(left), values_of(right)
        indices = np.indices([len(side) for side in sides]).reshape(2, -1)
        one, two = (side.take(pa.array(index)) for side, index in zip(sides, indices))
        exact = list(itertools.product(meaning(left, sides[0]), meaning(right, sides[1])))
        for op, judge in OPERATORS.items():
            expected = [None if a is None or b is None else bool(judge(a, b)) for a, b in exact]
            found = compare(op, one, two)
            found.validate(full=True)
            assert found.to_pylist() == expected, (left, op, right)


@folded(
    "kinds", list(itertools.product(NUMBERS, NUMBERS)) + list(itertools.product(INSTANTS, INSTANTS)), ids=str
)
def test_filters_compare_columns_exactly(kinds: tuple[pa.DataType, pa.DataType]) -> None:
    values = [values_of(kind) for kind in kinds]
    rows = max(map(len, values))
    columns = [pa.concat_arrays([one] * (rows // len(one) + 1)).slice(0, rows) for one in values]
    table = pa.table(columns, names=["a", "b"])
    exact = list(zip(*(meaning(kind, column) for kind, column in zip(kinds, columns))))
    for text, judge in (("a = b", operator.eq), ("NOT (a < b)", operator.ge), ("b >= a", operator.le)):
        expected = [None if None in pair else bool(judge(*pair)) for pair in exact]
        if text.startswith("NOT"):
            expected = [None if None in pair else not pair[0] < pair[1] for pair in exact]
        assert evaluate(bind(parsed(text), table.schema), table).to_pylist() == expected, text


@folded(
    ("text", "rows"),
    [
        ("i = f", [0, 3]), ("i != f", [1, 2, 4]), ("i > f", [1]), ("i >= f", [0, 1, 3]), ("i < f", [2]),
        ("f < i", [1]), ("i IS NOT DISTINCT FROM f", [0, 3, 5]), ("i IS DISTINCT FROM f", [1, 2, 4]),
        ("i BETWEEN f AND f", [0, 3]), ("i IN (f)", [0, 3]), ("nullif(i, f) IS NULL", [0, 3, 5]),
        ("CASE i WHEN f THEN TRUE ELSE FALSE END", [0, 3]), ("i + 0 = f", [0, 3]), ("i = f * 1", [0, 3]),
        ("u = f", [0, 3]), ("u > f", [1]), ("d = f", [0, 3]), ("d > f", [1]), ("abs(i) = f", [0, 3]),
        ("i = 9007199254740992.0", [0]), ("d = i AND u = i", [0, 1, 2, 3, 4]), ("i = CAST(f AS double)", [0, 3]),
        ("CAST(i AS double) = f", [0, 1, 2, 3]),
    ],
)  # fmt: skip
def test_no_operator_rounds_an_integer_to_meet_a_float(text: str, rows: list[int]) -> None:
    exact = [2**53, 2**53 + 1, 2**60 - 1, 7, 5, None]
    table = pa.table(
        {
            "i": pa.array(exact, pa.int64()),
            "u": pa.array(exact, pa.uint64()),
            "d": pa.array(exact, pa.decimal128(38, 0)),
            "f": pa.array([2.0**53, 2.0**53, 2.0**60, 7.0, NAN, None]),
        }
    )
    found = table.append_column("row", pa.array(range(6))).filter(
        evaluate(bind(parsed(text), table.schema), table)
    )
    assert found["row"].to_pylist() == rows


def test_decimals_meet_floats_and_wider_decimals_as_what_they_are() -> None:
    table = pa.table(
        {
            "d": pa.array([Decimal("0.1"), Decimal("0.5"), Decimal("1.1")], pa.decimal128(10, 2)),
            "f": pa.array([0.1, 0.5, 1.1]),
            "wide": pa.array([Decimal("0.1"), Decimal("0.5"), Decimal("1.1")], pa.decimal256(76, 75)),
            "whole": pa.array([1, 10**75, -(10**75)], pa.decimal256(76, 0)),
        }
    )
    answers = {
        "d = f": [False, True, False], "d < f": [True, False, True], "d = wide": [True] * 3,
        "wide < whole": [True, True, False],
    }  # fmt: skip
    for text, expected in answers.items():
        assert evaluate(bind(parsed(text), table.schema), table).to_pylist() == expected, text


def test_dates_beyond_the_nanoseconds_are_still_later() -> None:
    days = pa.array([2**31 - 1, -(2**31), 0], pa.int32()).view(pa.date32())
    table = pa.table({"d": days, "n": pa.array([0, 0, 1]).view(pa.timestamp("ns"))})
    assert evaluate(bind(parsed("d < n"), table.schema), table).to_pylist() == [False, True, True]


def test_chunks_slices_and_scalars_are_compared_alike() -> None:
    rng = np.random.default_rng(7)
    integers = pa.array(rng.integers(2**53 - 2, 2**53 + 3, 40_000), mask=rng.random(40_000) < 0.1)
    floats = pa.array(rng.integers(2**53 - 2, 2**53 + 3, 40_000).astype(np.float64))
    whole = compare("<=", integers, floats)
    pieces = pa.chunked_array([integers.slice(0, 7), integers.slice(7, 0), integers.slice(7)])
    others = pa.chunked_array([floats.slice(0, 20_000), floats.slice(20_000)])
    assert compare("<=", pieces, others).combine_chunks() == whole
    assert compare("<=", pieces, floats).combine_chunks() == whole
    assert compare("<=", integers.slice(5, 30_000), floats.slice(5, 30_000)) == whole.slice(5, 30_000)
    scalar = pa.scalar(float(2**53))
    expected = [None if v is None else v <= 2**53 for v in integers.to_pylist()]
    assert compare("<=", integers, scalar).to_pylist() == expected
    assert compare(">=", scalar, integers).to_pylist() == expected
    assert compare("=", pa.scalar(2**53 + 1), scalar).as_py() is False
    assert compare("=", pa.scalar(None, pa.int64()), scalar).as_py() is None
    assert compare("=", integers.slice(0, 0), floats.slice(0, 0)).to_pylist() == []
    empty = pa.chunked_array([], pa.int64())
    assert compare("<", empty, pa.chunked_array([], pa.decimal128(9, 2))).type == pa.bool_()


@folded(
    ("left", "right"),
    [
        (pa.int64(), pa.string()), (pa.bool_(), pa.int8()), (pa.timestamp("us"), pa.timestamp("us", "UTC")),
        (pa.date32(), pa.int32()), (pa.duration("s"), pa.time32("s")), (pa.decimal128(38, 101), pa.float64()),
    ],
    ids=str,
)  # fmt: skip
def test_what_has_no_order_is_refused(left: pa.DataType, right: pa.DataType) -> None:
    with pytest.raises(ExpressionError, match="compared"):
        compare("<", pa.nulls(1, left), pa.nulls(1, right))


def test_types_that_share_one_are_those_whose_values_it_holds() -> None:
    shared = [(a, b) for a, b in itertools.combinations(NUMBERS, 2) if share_type(a, b)]
    assert (pa.uint32(), pa.int64()) not in shared and (pa.int64(), pa.uint32()) in shared
    assert (pa.int64(), pa.uint64()) not in shared
    assert not any(pa.types.is_decimal(kind) for pair in shared for kind in pair)


def test_a_minus_sign_keeps_all_digits_and_the_sign_of_zero() -> None:
    digits = "12345678901234567890123456789012.345678"
    table = pa.table({"d": pa.array([Decimal(f"-{digits}")], pa.decimal128(38, 6)), "x": [1.0]})
    for text in (f"d = -{digits}", f"d IN (-{digits})", f"-d = {digits}", "x / -0.0 < 0", "x / - (0e0) < 0"):
        assert evaluate(bind(parsed(text), table.schema), table).to_pylist() == [True], text
    assert evaluate(bind(parsed("x / 0.0 < 0"), table.schema), table).to_pylist() == [False]


def test_what_was_bound_before_is_not_taken_for_another_constant() -> None:
    table = pa.table({"x": [1.0], "d": pa.array([Decimal("1.5")], pa.decimal128(4, 1))})
    for _ in range(2):
        for text, expected in (("x / 0.0", np.inf), ("x / -0.0", -np.inf)):
            assert evaluate(bind(parsed(text), table.schema), table).to_pylist() == [expected]
        for text, scale in (("d * 1.0", 2), ("d * 1.00", 3)):
            assert evaluate(bind(parsed(text), table.schema), table).type.scale == scale
