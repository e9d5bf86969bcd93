"""join_bytes, compiled and in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lancecy.errors import FormatError, TruncatedError
from tests.helpers.folded import folded
from tests.kernels.both import Kernels, assert_same
from tests.kernels.chunks import Run, all_runs, chunk_arrays, perhaps_spoiled, run_arrays, wanted


def values_of(width: int, count: int) -> NDArray[np.uint8]:
    """Random values, one row of bytes each."""
    return np.random.default_rng(width * 1000 + count).integers(0, 256, (count, width)).astype(np.uint8)


def join(kernels: Kernels, call: dict[str, Any], width: int, runs: list[Run]) -> NDArray[np.uint8]:
    out = np.full(sum(run.count for run in runs) * width, 0x77, np.uint8)
    kernels.join_bytes(**call, width=width, **run_arrays(runs), out=out)
    return out.reshape(-1, width)


@folded("width", [1, 2, 3, 4, 5, 8, 12, 16, 32])
def test_values_are_put_together(kernels: Kernels, width: int) -> None:
    counts = [1024, 1, 37]
    values = [values_of(width, count) for count in counts]
    call = chunk_arrays([part.T.tobytes() for part in values], counts, gap=b"odd")
    runs = [*all_runs(counts), Run(0, 1000, 24), Run(2, 36, 1), Run(0, 0, 0), Run(0, 17, 100)]
    np.testing.assert_array_equal(join(kernels, call, width, runs), wanted(values, runs))


def test_bytes_after_the_streams_are_not_looked_at(kernels: Kernels) -> None:
    values = values_of(4, 9)
    call = chunk_arrays([values.T.tobytes() + b"pad"], [9])
    np.testing.assert_array_equal(join(kernels, call, 4, all_runs([9])), values)


@pytest.mark.parametrize("count", [10, 2**61, 2**63 - 1])
def test_a_chunk_too_short_for_its_values_is_refused(kernels: Kernels, count: int) -> None:
    call = chunk_arrays([bytes(8), bytes(79)], [1, count])
    with pytest.raises(TruncatedError, match="chunk 1 is too short") as caught:
        join(kernels, call, 8, [Run(0, 0, 1), Run(1, 0, 2)])
    assert caught.value.position == 1


def test_a_run_outside_its_chunk_is_refused(kernels: Kernels) -> None:
    with pytest.raises(FormatError, match="run 0 is not within"):
        join(kernels, chunk_arrays([bytes(80)], [10]), 8, [Run(0, 4, 7)])


@pytest.mark.parametrize("width", [0, -1, -(2**63)])
def test_a_width_below_one_is_the_callers_mistake(kernels: Kernels, width: int) -> None:
    call = {**chunk_arrays([bytes(8)], [1]), **run_arrays([]), "out": np.empty(0, np.uint8)}
    with pytest.raises(ValueError, match="width") as caught:
        kernels.join_bytes(**call, width=width)
    assert not isinstance(caught.value, FormatError)


@folded("size", [0, 7, 9, 16])
def test_the_output_has_to_fit(kernels: Kernels, size: int) -> None:
    call = {**chunk_arrays([bytes(80)], [10]), **run_arrays([Run(0, 4, 1)])}
    with pytest.raises(ValueError, match="out does not") as caught:
        kernels.join_bytes(**call, width=8, out=np.empty(size, np.uint8))
    assert not isinstance(caught.value, FormatError)


@st.composite
def calls(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    width = draw(st.sampled_from([1, 2, 3, 4, 8, 16]))
    counts = draw(st.lists(st.integers(0, 90), max_size=4))
    call = chunk_arrays([values_of(width, count).tobytes() for count in counts], counts, gap=b"?")
    return perhaps_spoiled(draw, {**call, "width": width}, counts, width)


@given(calls())
def test_join_bytes_does_what_its_twin_does(call: tuple[dict[str, Any], dict[str, Any]]) -> None:
    assert_same("join_bytes", *call)
