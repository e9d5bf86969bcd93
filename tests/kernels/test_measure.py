"""measure_numbers and measure_texts, compiled and in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancecy.errors import FormatError
from tests.kernels.both import Kernels, assert_same, memory_of


def levels(*numbers: int) -> Any:
    return np.array(numbers, np.uint16)


def test_nulls_do_not_count_as_values(kernels: Kernels) -> None:
    values = memory_of(np.array([9, 5, 7, 5], np.int64))
    assert kernels.measure_numbers(values, 8, None, 0, 1)[0] == -1
    assert kernels.measure_numbers(values, 8, levels(1, 0, 2, 3, 0), 2, 1)[0] == 1
    assert kernels.measure_numbers(values, 8, levels(1, 1, 1, 1), 1, 1)[0] == -1


def test_bits_and_runs_are_those_of_the_blocks_looked_at(kernels: Kernels) -> None:
    values = np.concatenate((np.full(1024, 3), np.arange(1024), np.full(10, 1 << 20))).astype(np.uint32)
    assert kernels.measure_numbers(memory_of(values), 4, None, 0, 1)[1:] == (
        2058,
        5 + 1028 + 1,
        12 + 128 * 33,
    )
    assert kernels.measure_numbers(memory_of(values), 4, None, 0, 2)[1:] == (1034, 6, 8 + 128 * 23)


@pytest.mark.parametrize("step", [3, 4, 1 << 53, 1 << 58, (1 << 63) - 1])
def test_a_step_beyond_the_values_ends_with_the_first_block(kernels: Kernels, step: int) -> None:
    values = memory_of(np.arange(3000, dtype=np.uint16))
    assert kernels.measure_numbers(values, 2, None, 0, step)[1] == 1024


def test_wide_values_are_only_compared(kernels: Kernels) -> None:
    assert kernels.measure_numbers(memory_of(b"abcabc"), 3, None, 0, 1) == (0, 0, 0, 0)


def test_lengths_and_equal_texts(kernels: Kernels) -> None:
    offsets = memory_of(np.array([0, 2, 4, 4], np.int32))
    assert kernels.measure_texts(memory_of(b"abab"), offsets, 4, None, 0) == (-1, 2)
    assert kernels.measure_texts(memory_of(b"abab"), offsets, 4, levels(0, 0, 1), 1) == (0, 2)
    with pytest.raises(FormatError):
        kernels.measure_texts(memory_of(b"abc"), offsets, 4, None, 0)


@st.composite
def numbers(draw: st.DrawFn) -> dict[str, Any]:
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    width, count = draw(st.sampled_from([0, 1, 2, 3, 4, 8, 16])), draw(st.sampled_from([0, 1, 7, 1024, 2500]))
    values = rng.integers(0, draw(st.sampled_from([1, 2, 256])), count * max(width, 1)).astype(np.uint8)
    definition = draw(st.sampled_from([None, rng.integers(0, 3, count).astype(np.uint16)]))
    visible_max, step = draw(st.integers(-1, 3)), draw(st.integers(0, 3))
    return {
        "values": values,
        "width": width,
        "definition": definition,
        "visible_max": visible_max,
        "step": step,
    }


@given(numbers())
def test_both_measure_the_same_numbers(call: dict[str, Any]) -> None:
    assert_same("measure_numbers", call, {})


@st.composite
def texts(draw: st.DrawFn) -> dict[str, Any]:
    width = draw(st.sampled_from([4, 8, 4, 8, 2]))
    edges = draw(st.lists(st.sampled_from([0, 0, 1, 2, 4, 4, -1, 1 << 31]), max_size=6))
    edges = draw(st.sampled_from([edges, sorted(edges)]))
    stored = np.array(edges, np.int64).astype(f"<i{width}").view(np.uint8)
    definition = draw(st.sampled_from([None, np.zeros(max(0, len(edges) - 1), np.uint16), levels(0, 1, 0)]))
    values = np.frombuffer(draw(st.sampled_from([b"abab", b"aaaa", b""])), np.uint8)
    return {"values": values, "offsets": stored, "width": width, "definition": definition, "visible_max": 1}


@given(texts())
def test_both_measure_the_same_texts(call: dict[str, Any]) -> None:
    assert_same("measure_texts", call, {})
