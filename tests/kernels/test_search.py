"""search_bytes, compiled and in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancecy.errors import FormatError
from tests.helpers.folded import folded
from tests.kernels.both import Kernels, assert_same, memory_of

WORD = b"a lake in the mountains of the north"
DTYPES = [np.int32, np.int64]


def search(
    kernels: Kernels, values: list[bytes], value: bytes, dtype: Any = np.int32, before: bytes = b""
) -> list[int]:
    """Indices of the marked values; spare bits are included."""
    offsets = np.cumsum([len(before), *(len(each) for each in values)]).astype(dtype)
    out = np.full((len(values) + 7) // 8, 0xFF, np.uint8)
    count = kernels.search_bytes(offsets, memory_of(before, *values), value, out)
    found = np.flatnonzero(np.unpackbits(out, bitorder="little")).tolist()
    assert count == len(found)
    return found


@folded("dtype", DTYPES)
@folded("size", [1, 2, 3, 8, 17])
@folded("count", [1, 2, 63, 65, 200])
def test_values_that_contain_it_are_marked(kernels: Kernels, count: int, size: int, dtype: Any) -> None:
    """Among values that have it at the start, inside, at the end, twice, cut off, across their ends, or not at all."""
    value = WORD[:size]
    kinds = [
        value,
        b"x" + value + b"y",
        b"xyz" + value,
        value * 2,
        value[:-1],
        value[1:],
        b"",
        WORD,
        b"a" * 70,
    ]
    values = [kinds[n] for n in np.random.default_rng(count + size).integers(0, len(kinds), count)]
    expected = [index for index, each in enumerate(values) if value in each]
    assert search(kernels, values, value, dtype) == expected
    assert search(kernels, [*values, b"text" * 30], value, dtype, before=value + b"b") == expected + (
        [len(values)] if value in b"text" * 30 else []
    )


def test_what_reaches_into_the_next_value_is_not_found(kernels: Kernels) -> None:
    assert search(kernels, [b"ab", b"cd", b"abcd", b"", b"a", b"b"] * 30, b"bc") == list(range(2, 180, 6))
    assert search(kernels, [b"aa", b"a"] * 50, b"aa") == list(range(0, 100, 2))


def test_no_values_and_no_bytes_have_no_bits(kernels: Kernels) -> None:
    assert search(kernels, [], b"a") == []
    assert search(kernels, [b""] * 9, b"a") == []


@folded("dtype", DTYPES)
@folded("row", [0, 1, 63, 64, 99])
@folded("bad", [-1, 3, 2**31 - 1])
def test_offsets_that_descend_or_leave_the_bytes_are_refused(
    kernels: Kernels, bad: int, row: int, dtype: Any
) -> None:
    offsets = np.arange(5, 106, dtype=dtype)
    offsets[row + 1] = bad
    with pytest.raises(FormatError, match=f"offsets of string {row} ") as caught:
        kernels.search_bytes(offsets, memory_of(bytes(105)), b"a", np.empty(13, np.uint8))
    assert caught.value.position == row


@folded(("offsets", "out", "value"), [(0, 0, b"a"), (1, 1, b"a"), (10, 1, b"a"), (9, 1, b"")])
def test_other_sizes_are_the_callers_mistake(kernels: Kernels, offsets: int, out: int, value: bytes) -> None:
    with pytest.raises(ValueError, match="is empty|out does not|size") as caught:
        kernels.search_bytes(np.zeros(offsets, np.int32), memory_of(b""), value, np.empty(out, np.uint8))
    assert not isinstance(caught.value, FormatError)


@pytest.mark.parametrize("value", [None, "a", bytearray(b"a")])
def test_the_value_is_bytes(kernels: Kernels, value: Any) -> None:
    with pytest.raises(TypeError):
        kernels.search_bytes(np.zeros(2, np.int32), memory_of(b""), value, np.empty(1, np.uint8))


@given(
    st.lists(st.binary(max_size=5) | st.sampled_from([b"ab" * 40, b"ba", b"a", b"b", b""]), max_size=150),
    st.sampled_from([b"a", b"ab", b"ba", b"aba", b"abab", b"b" * 9, b"\0"]),
    st.sampled_from(DTYPES),
    st.one_of(st.none(), st.tuples(st.integers(0, 150), st.integers(-2, 300))),
)
def test_search_bytes_does_what_its_twin_does(
    values: list[bytes], value: bytes, dtype: Any, poke: tuple[int, int] | None
) -> None:
    offsets = np.cumsum([0, *(len(each) for each in values)]).astype(dtype)
    if poke is not None and poke[0] < offsets.size:
        offsets[poke[0]] = poke[1]
    inputs = {"offsets": offsets, "values": memory_of(*values), "value": value}
    assert_same("search_bytes", inputs, {"out": ((len(values) + 7) // 8, np.uint8)})
