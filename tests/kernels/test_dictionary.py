"""check_codes, compiled and in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from lancecy.errors import FormatError
from tests.helpers.folded import folded
from tests.kernels.both import Kernels

SIGNED = ["i1", "i2", "i4", "i8"]
UNSIGNED = ["u1", "u2", "u4", "u8"]


@folded("dtype", SIGNED + UNSIGNED)
def test_codes_below_the_number_of_values_pass(kernels: Kernels, dtype: str) -> None:
    codes = np.array([0, 4, 2, 4, 1] * 30, dtype)
    codes.flags.writeable = False
    assert kernels.check_codes(codes, 5) == 0


@folded("dtype", SIGNED + UNSIGNED)
@folded("row", [0, 63, 149])
def test_the_first_code_beyond_the_values_is_refused(kernels: Kernels, dtype: str, row: int) -> None:
    codes = np.zeros(150, dtype)
    codes[row:] = 7
    with pytest.raises(FormatError, match=f"row {row} ") as caught:
        kernels.check_codes(codes, 7)
    assert caught.value.position == row


@folded("dtype", SIGNED)
@folded("num_values", [1, 200, 40_000, 3_000_000_000, 2**63 - 1])
def test_negative_codes_are_refused_however_many_values_there_are(
    kernels: Kernels, dtype: str, num_values: int
) -> None:
    for code in (-1, np.iinfo(dtype).min):
        with pytest.raises(FormatError) as caught:
            kernels.check_codes(np.array([0, code], dtype), num_values)
        assert caught.value.position == 1


@folded("dtype", SIGNED + UNSIGNED)
def test_the_largest_code_of_a_type_passes_if_there_are_enough_values(kernels: Kernels, dtype: str) -> None:
    largest = int(np.iinfo(dtype).max)
    codes = np.array([0, min(largest, 2**63 - 2)], dtype)
    assert kernels.check_codes(codes, min(largest + 1, 2**63 - 1)) == 0
    with pytest.raises(FormatError):
        kernels.check_codes(codes, int(codes[1]))


def test_no_codes_need_no_values(kernels: Kernels) -> None:
    assert kernels.check_codes(np.empty(0, np.int32), 0) == 0
    assert kernels.check_codes(np.empty(0, np.int32), 0, np.empty(0, np.uint8)) == 0


def test_any_code_is_refused_if_there_are_no_values(kernels: Kernels) -> None:
    with pytest.raises(FormatError):
        kernels.check_codes(np.zeros(1, np.uint8), 0)


@folded("dtype", SIGNED + UNSIGNED)
@folded("rows", [1, 8, 63, 64, 65, 200])
def test_codes_outside_become_null_when_validity_is_asked_for(
    kernels: Kernels, dtype: str, rows: int
) -> None:
    outside = np.random.default_rng(rows).integers(0, 3, rows) == 0
    codes = np.where(outside, np.iinfo(dtype).max, 6).astype(dtype)
    validity = np.full((rows + 7) // 8, 0xFF, np.uint8)
    assert kernels.check_codes(codes, 7, validity) == int(outside.sum())
    bits = np.unpackbits(validity, bitorder="little")
    np.testing.assert_array_equal(bits[:rows], ~outside)
    assert not bits[rows:].any()


def test_the_minus_one_that_pandas_leaves_under_a_null_becomes_null(kernels: Kernels) -> None:
    validity = np.empty(1, np.uint8)
    assert kernels.check_codes(np.array([0, -1, 1, -1], np.int8), 250, validity) == 2
    assert validity[0] == 0b0101


@pytest.mark.parametrize("size", [0, 2])
def test_validity_needs_one_bit_per_row(kernels: Kernels, size: int) -> None:
    with pytest.raises(ValueError, match="one bit per row"):
        kernels.check_codes(np.zeros(8, np.int8), 1, np.empty(size, np.uint8))


def test_a_negative_number_of_values_is_the_callers_mistake(kernels: Kernels) -> None:
    with pytest.raises(ValueError, match="num_values") as caught:
        kernels.check_codes(np.zeros(8, np.int8), -1)
    assert not isinstance(caught.value, FormatError)


def test_codes_that_are_no_integers_are_refused(kernels: Kernels) -> None:
    with pytest.raises(TypeError):
        kernels.check_codes(np.zeros(8, np.float32), 1)
