"""place_spans: every byte is written to its position, none outside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancecy.errors import FormatError, TruncatedError
from tests.kernels.both import Kernels, assert_same, i64, memory_of
from tests.kernels.test_twins import column, hostile, memories, small


@st.composite
def calls(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    numbers = draw(st.sampled_from([st.integers(0, 20), hostile]))
    count = draw(st.integers(0, 6))
    columns = {name: column(draw, numbers, count) for name in ("starts", "lengths", "positions")}
    return {"memory": draw(memories), **columns}, {"out": (draw(small), np.uint8)}


@given(calls())
def test_both_place_the_same(call: tuple[dict[str, Any], dict[str, Any]]) -> None:
    assert_same("place_spans", *call)


def test_spans_may_come_in_any_order_and_leave_gaps(kernels: Kernels) -> None:
    out = np.full(8, 7, np.uint8)
    kernels.place_spans(memory_of(b"abcdef"), i64(4, 0, 99), i64(2, 3, 0), out, i64(0, 5, -5))
    assert bytes(out) == b"ef\x07\x07\x07abc"


@pytest.mark.parametrize(
    ("start", "length", "position", "error"),
    [
        (-1, 1, 0, FormatError),
        (0, -1, 0, FormatError),
        (2, 2, 0, TruncatedError),
        (2**63 - 1, 1, 0, TruncatedError),
        (0, 2, 2, ValueError),
        (0, 1, -1, ValueError),
        (0, 1, 2**63 - 1, ValueError),
    ],
)
def test_a_span_outside_is_refused(
    kernels: Kernels, start: int, length: int, position: int, error: type[Exception]
) -> None:
    with pytest.raises(error):
        kernels.place_spans(
            memory_of(b"abc"), i64(0, start), i64(1, length), np.zeros(3, np.uint8), i64(0, position)
        )


def test_arrays_of_different_lengths_are_refused(kernels: Kernels) -> None:
    with pytest.raises(ValueError, match="differ in length"):
        kernels.place_spans(memory_of(b"abc"), i64(0), i64(1, 1), np.zeros(3, np.uint8), i64(0))
