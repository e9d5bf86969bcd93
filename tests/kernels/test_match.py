"""match_bytes, compiled and in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancecy.errors import FormatError
from tests.helpers.folded import folded
from tests.kernels.both import Kernels, assert_same, memory_of

DTYPES = [np.int32, np.int64]
WORD = b"0123456789abcdefghijklmnopqrstuvwxyz"


def match(
    kernels: Kernels, values: list[bytes], value: bytes, dtype: Any = np.int32, before: bytes = b""
) -> list[int]:
    """Indices of the marked values; spare bits are included."""
    offsets = np.cumsum([len(before), *(len(each) for each in values)]).astype(dtype)
    out = np.full((len(values) + 7) // 8, 0xFF, np.uint8)
    count = kernels.match_bytes(offsets, memory_of(before, *values), value, out)
    found = np.flatnonzero(np.unpackbits(out, bitorder="little")).tolist()
    assert count == len(found)
    return found


@folded("dtype", DTYPES)
@folded("size", [0, 1, 3, 7, 8, 9, 15, 16, 17, 36])
@folded("count", [1, 63, 64, 65, 200])
def test_equal_values_are_marked(kernels: Kernels, count: int, size: int, dtype: Any) -> None:
    """Among values that differ in one byte, in their length, or not at all; the last one is equal."""
    value = WORD[:size]
    rng = np.random.default_rng(count + size)
    values = []
    for kind in rng.integers(0, 4, count - 1).tolist():
        other = bytearray(value)
        if kind == 1 and size:
            other[rng.integers(0, size)] ^= 1 << int(rng.integers(0, 8))
        values.append(bytes(other[:-1]) if kind == 2 else bytes(other) + b"!" * (kind == 3))
    values.append(value)
    expected = [index for index, each in enumerate(values) if each == value]
    assert match(kernels, values, value, dtype) == expected
    assert match(kernels, [*values, b"text" * 30], value, dtype, before=b"before") == expected


def test_zeros_after_a_short_value_are_no_part_of_it(kernels: Kernels) -> None:
    values = [b"a", b"a\0", b"a\0\0", b"", b"\0"] * 40
    for value in (b"a", b"a\0", b"", b"\0"):
        assert match(kernels, values, value) == [i for i, each in enumerate(values) if each == value]


def test_no_values_have_no_bits(kernels: Kernels) -> None:
    assert match(kernels, [], b"a") == []


@folded("dtype", DTYPES)
@folded("row", [0, 1, 63, 64, 99])
@folded("bad", [-1, 3, 2**31 - 1])
def test_offsets_that_descend_or_leave_the_bytes_are_refused(
    kernels: Kernels, bad: int, row: int, dtype: Any
) -> None:
    offsets = np.arange(5, 106, dtype=dtype)
    offsets[row + 1] = bad
    with pytest.raises(FormatError, match=f"offsets of string {row} ") as caught:
        kernels.match_bytes(offsets, memory_of(bytes(105)), b"a", np.empty(13, np.uint8))
    assert caught.value.position == row


def test_a_first_offset_below_0_is_refused(kernels: Kernels) -> None:
    with pytest.raises(FormatError, match="offsets of string 0 "):
        kernels.match_bytes(np.array([-1, 2]), memory_of(bytes(8)), b"a", np.empty(1, np.uint8))


@folded(("offsets", "out"), [(0, 0), (1, 1), (2, 0), (10, 1), (9, 2)])
def test_arrays_of_other_sizes_are_the_callers_mistake(kernels: Kernels, offsets: int, out: int) -> None:
    with pytest.raises(ValueError, match="offsets is empty|out does not") as caught:
        kernels.match_bytes(np.zeros(offsets, np.int32), memory_of(b""), b"a", np.empty(out, np.uint8))
    assert not isinstance(caught.value, FormatError)


@pytest.mark.parametrize("value", [None, "a", bytearray(b"a")])
def test_the_value_is_bytes(kernels: Kernels, value: Any) -> None:
    with pytest.raises(TypeError):
        kernels.match_bytes(np.zeros(2, np.int32), memory_of(b""), value, np.empty(1, np.uint8))


@given(
    st.lists(
        st.sampled_from([b"", b"a", b"b", WORD[:8], WORD[:9], WORD[:20], WORD[:19] + b"!"]), max_size=150
    ),
    st.sampled_from([b"", b"a", WORD[:8], WORD[:9], WORD[:20]]),
    st.sampled_from(DTYPES),
    st.one_of(st.none(), st.tuples(st.integers(0, 150), st.integers(-2, 300))),
)
def test_match_bytes_does_what_its_twin_does(
    values: list[bytes], value: bytes, dtype: Any, poke: tuple[int, int] | None
) -> None:
    offsets = np.cumsum([0, *(len(each) for each in values)]).astype(dtype)
    if poke is not None and poke[0] < offsets.size:
        offsets[poke[0]] = poke[1]
    inputs = {"offsets": offsets, "values": memory_of(*values), "value": value}
    assert_same("match_bytes", inputs, {"out": ((len(values) + 7) // 8, np.uint8)})
