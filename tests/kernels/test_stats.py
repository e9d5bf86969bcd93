"""compare_bounds and compare_bytes_bounds, compiled and in NumPy."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from lancecy.errors import FormatError
from lancecy.kernels import EQ, GE, GT, LE, LT, NE
from tests.helpers.folded import folded
from tests.kernels.both import Kernels, i64, memory_of

OPERATORS = {
    EQ: operator.eq,
    NE: operator.ne,
    LT: operator.lt,
    LE: operator.le,
    GT: operator.gt,
    GE: operator.ge,
}
DTYPES = [np.int64, np.uint64, np.float64]
NAN, INF = float("nan"), float("inf")


def empties(kernels: Kernels, op: int, bounds: list[tuple[Any, Any]], value: Any, dtype: Any) -> list[int]:
    lows, highs = (np.array(side, dtype) for side in zip(*bounds, strict=True))
    out = np.full(len(bounds), 9, np.uint8)
    assert kernels.compare_bounds(op, lows, highs, value, out) is None
    return out.tolist()


@folded("dtype", DTYPES)
@folded("op", OPERATORS)
@folded("value", range(8))
def test_a_unit_is_empty_exactly_if_no_whole_number_in_its_bounds_satisfies(
    kernels: Kernels, dtype: Any, op: int, value: int
) -> None:
    bounds = [(low, high) for low in range(8) for high in range(low, 8)]
    expected = [int(not any(OPERATORS[op](x, value) for x in range(low, high + 1))) for low, high in bounds]
    assert empties(kernels, op, bounds, value, dtype) == expected


@folded("dtype", DTYPES)
@folded("op", OPERATORS)
def test_bounds_the_wrong_way_round_prove_nothing(kernels: Kernels, dtype: Any, op: int) -> None:
    for value in range(7):
        assert empties(kernels, op, [(5, 2)], value, dtype) == [0]


@folded("op", OPERATORS)
def test_nan_proves_nothing(kernels: Kernels, op: int) -> None:
    assert empties(kernels, op, [(NAN, 1.0), (0.0, NAN), (NAN, NAN)], 5.0, np.float64) == [0, 0, 0]
    assert empties(kernels, op, [(0.0, 1.0), (NAN, NAN), (-INF, INF)], NAN, np.float64) == [0, 0, 0]


def test_zeros_of_both_signs_are_equal(kernels: Kernels) -> None:
    bounds = [(-0.0, 0.0), (0.0, -0.0)]
    assert empties(kernels, EQ, bounds, -0.0, np.float64) == [0, 0]
    assert empties(kernels, NE, bounds, -0.0, np.float64) == [1, 1]
    assert empties(kernels, LT, bounds, 0.0, np.float64) == [1, 1]


def test_infinite_bounds_are_open(kernels: Kernels) -> None:
    bounds = [(-INF, INF)]
    for op in OPERATORS:
        assert empties(kernels, op, bounds, 1e300, np.float64) == [0]
    assert empties(kernels, GT, bounds, INF, np.float64) == [1]


@pytest.mark.parametrize(
    ("dtype", "low", "high"), [(np.int64, -(2**63), 2**63 - 1), (np.uint64, 0, 2**64 - 1)]
)
def test_extreme_integers_are_compared_exactly(kernels: Kernels, dtype: Any, low: int, high: int) -> None:
    assert empties(kernels, EQ, [(low, high - 1), (low, high)], high, dtype) == [1, 0]
    assert empties(kernels, GE, [(low, high - 1), (low, high)], high, dtype) == [1, 0]
    assert empties(kernels, LE, [(low + 1, high), (low, high)], low, dtype) == [1, 0]


def test_numpy_and_bool_values_are_numbers(kernels: Kernels) -> None:
    assert empties(kernels, GT, [(0, 0), (0, 1)], False, np.int64) == [1, 0]
    assert empties(kernels, GT, [(0, 7), (0, 8)], np.int32(7), np.uint64) == [1, 0]
    assert empties(kernels, GT, [(0, 7), (0, 8)], np.float32(7), np.float64) == [1, 0]


@folded(
    ("dtype", "value", "error"),
    [
        (np.int64, 2**63, ValueError),
        (np.uint64, -1, ValueError),
        (np.float64, 10**400, ValueError),
        (np.int64, 1.5, TypeError),
        (np.float64, "1", TypeError),
        (np.int64, None, TypeError),
    ],
)
def test_a_value_of_another_type_is_the_callers_mistake(
    kernels: Kernels, dtype: Any, value: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        empties(kernels, EQ, [(0, 1)], value, dtype)


@pytest.mark.parametrize("op", [-1, 6, 2**40])
def test_an_unknown_operator_is_the_callers_mistake(kernels: Kernels, op: int) -> None:
    with pytest.raises(ValueError, match="op"):
        empties(kernels, op, [(0, 1)], 0, np.int64)
    with pytest.raises(ValueError, match="op"):
        byte_empties(kernels, op, [(b"a", b"b")], b"a")


def test_compare_bounds_needs_arrays_of_one_length(kernels: Kernels) -> None:
    for sizes in [(2, 1, 2), (2, 2, 1), (0, 1, 1)]:
        lows, highs = np.zeros(sizes[0]), np.zeros(sizes[1])
        with pytest.raises(ValueError, match="differ in length"):
            kernels.compare_bounds(EQ, lows, highs, 1.0, np.empty(sizes[2], np.uint8))


def test_no_units_are_fine(kernels: Kernels) -> None:
    assert kernels.compare_bounds(EQ, i64(), i64(), 1, np.empty(0, np.uint8)) is None
    assert byte_empties(kernels, EQ, [], b"x") == []


def byte_empties(
    kernels: Kernels, op: int, bounds: Sequence[tuple[bytes | None, bytes | None]], value: bytes
) -> list[int]:
    out = np.full(len(bounds), 9, np.uint8)
    sides = []
    for side in range(2):
        values = [bound[side] for bound in bounds]
        # Missing bounds have bytes, which must be ignored.
        stored = [b"junk" if v is None else v for v in values]
        offsets = np.concatenate(([0], np.cumsum([len(v) for v in stored]))).astype(np.int64)
        sides.append((offsets, memory_of(*stored), np.array([v is not None for v in values], bool)))
    (low_offsets, low_bytes, has_low), (high_offsets, high_bytes, has_high) = sides
    assert (
        kernels.compare_bytes_bounds(
            op, low_offsets, low_bytes, high_offsets, high_bytes, has_low, has_high, value, out
        )
        is None
    )
    return out.tolist()


WORDS = [b"", b"\x00", b"a", b"a\x00", b"ab", b"b", b"\x7f", b"\x80", b"\xff", b"\xff\xff"]


@folded("op", [EQ, LT, LE, GT, GE])
@folded("value", WORDS)
def test_byte_bounds_follow_the_order_of_bytes(kernels: Kernels, op: int, value: bytes) -> None:
    bounds = [(low, high) for i, low in enumerate(WORDS) for high in WORDS[i:]]
    proofs: dict[int, Callable[[bytes, bytes], bool]] = {
        EQ: lambda low, high: value < low or value > high,
        LT: lambda low, high: low >= value,
        LE: lambda low, high: low > value,
        GT: lambda low, high: high <= value,
        GE: lambda low, high: high < value,
    }
    expected = [int(proofs[op](low, high)) for low, high in bounds]
    assert byte_empties(kernels, op, bounds, value) == expected


@folded("value", WORDS)
def test_not_equal_is_never_proved_for_bytes_because_bounds_may_be_cut(
    kernels: Kernels, value: bytes
) -> None:
    bounds: list[tuple[bytes | None, bytes | None]] = [(value, value), (b"a", b"b"), (None, None)]
    assert byte_empties(kernels, NE, bounds, value) == [0, 0, 0]


@folded("op", OPERATORS)
@folded("value", WORDS)
def test_missing_byte_bounds_are_open_and_reversed_ones_prove_nothing(
    kernels: Kernels, op: int, value: bytes
) -> None:
    assert byte_empties(kernels, op, [(None, None), (b"b", b"a"), (b"ab", b"a")], value) == [0, 0, 0]


@folded(
    ("op", "expected"), [(EQ, [1, 1]), (NE, [0, 0]), (LT, [1, 0]), (LE, [1, 0]), (GT, [0, 1]), (GE, [0, 1])]
)
def test_one_bound_is_enough_on_its_own_side(kernels: Kernels, op: int, expected: list[int]) -> None:
    assert byte_empties(kernels, op, [(b"n", None), (None, b"k")], b"m") == expected


@folded("offsets", [(0, 5, 4), (-1, 2, 4), (0, 2, 5), (0, 9, 4), (0, 2, 2**63 - 1)])
@folded("side", ["low", "high"])
def test_byte_bounds_outside_their_bytes_are_refused(
    kernels: Kernels, side: str, offsets: tuple[int, ...]
) -> None:
    good, yes = i64(0, 2, 4), np.ones(2, bool)
    pair = {"low": good, "high": good, side: i64(*offsets)}
    data = memory_of(b"abcd")
    with pytest.raises(FormatError, match="bounds of unit") as caught:
        kernels.compare_bytes_bounds(
            EQ, pair["low"], data, pair["high"], data, yes, yes, b"a", np.empty(2, np.uint8)
        )
    first_good = 0 <= offsets[0] <= offsets[1] <= 4
    assert caught.value.position == int(first_good)


@folded("wrong", range(4))
def test_byte_bounds_need_arrays_of_matching_lengths(kernels: Kernels, wrong: int) -> None:
    arrays = [i64(0, 0, 0), i64(0, 0, 0), np.ones(2, bool), np.ones(2, bool)]
    arrays[wrong] = arrays[wrong][:-1]
    low_offsets, high_offsets, has_low, has_high = arrays
    with pytest.raises(ValueError, match="one entry more") as caught:
        kernels.compare_bytes_bounds(
            EQ,
            low_offsets,
            memory_of(),
            high_offsets,
            memory_of(),
            has_low,
            has_high,
            b"",
            np.empty(2, np.uint8),
        )
    assert not isinstance(caught.value, FormatError)
