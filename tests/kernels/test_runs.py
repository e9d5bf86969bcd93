"""expand_runs, compiled and in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lancecy.errors import FormatError, TruncatedError
from tests.helpers.folded import folded
from tests.kernels.both import Kernels, assert_same, i64, memory_of
from tests.kernels.chunks import Run, all_runs, perhaps_spoiled, run_arrays, wanted

WIDTHS = [1, 2, 3, 4, 5, 8, 12, 16, 17, 32]


def encoded(
    values: list[NDArray[np.uint8]], lengths: list[list[int]], length_width: int, counts: list[int]
) -> dict[str, Any]:
    """Memory and arrays of chunks with these run values, one row of bytes each, and run lengths."""
    spans: list[tuple[int, int]] = []
    parts: list[bytes] = [b"!"]
    at = 1
    for rows, repeats in zip(values, lengths, strict=True):
        for part in (rows.tobytes(), np.array(repeats, f"<u{length_width}").tobytes()):
            spans.append((at, len(part)))
            parts.append(part)
            at += len(part)
    return {
        "memory": memory_of(*parts),
        "value_positions": i64(*(at for at, _ in spans[::2])),
        "value_lengths": i64(*(size for _, size in spans[::2])),
        "length_positions": i64(*(at for at, _ in spans[1::2])),
        "length_lengths": i64(*(size for _, size in spans[1::2])),
        "counts": i64(*counts),
        "length_width": length_width,
    }


def expand(kernels: Kernels, call: dict[str, Any], width: int, runs: list[Run]) -> NDArray[np.uint8]:
    out = np.full(sum(run.count for run in runs) * width, 0x77, np.uint8)
    kernels.expand_runs(**call, width=width, **run_arrays(runs), out=out)
    return out.reshape(-1, width)


def rows(width: int, count: int) -> NDArray[np.uint8]:
    return np.random.default_rng(width * 1000 + count).integers(0, 256, (count, width)).astype(np.uint8)


@folded("length_width", [1, 2, 4, 8])
@folded("width", WIDTHS)
def test_values_are_repeated(kernels: Kernels, width: int, length_width: int) -> None:
    lengths = [[3, 0, 1, 40, 2, 1, 1, 90, 7], [255]]
    values = [rows(width, len(chunk)) for chunk in lengths]
    whole = [np.repeat(part, chunk, axis=0) for part, chunk in zip(values, lengths, strict=True)]
    counts = [145, 255]
    call = encoded(values, lengths, length_width, counts)
    runs = [*all_runs(counts), Run(0, 3, 1), Run(0, 5, 60), Run(0, 64, 81), Run(0, 10, 2), Run(1, 254, 1)]
    np.testing.assert_array_equal(expand(kernels, call, width, runs), wanted(whole, runs))


@folded("width", WIDTHS)
def test_what_is_beyond_the_last_value_is_not_looked_at(kernels: Kernels, width: int) -> None:
    values = rows(width, 3)
    call = encoded([values], [[4, 9, 200]], 1, [6])
    result = expand(kernels, call, width, [Run(0, 2, 4)])
    np.testing.assert_array_equal(result, values[[0, 0, 1, 1]])


@pytest.mark.slow
def test_single_values_all_over_a_chunk_are_found(kernels: Kernels) -> None:
    lengths = np.random.default_rng(0).integers(0, 9, 500).tolist()
    whole = np.repeat(np.arange(500), lengths).astype("<u2").view(np.uint8).reshape(-1, 2)
    call = encoded([np.arange(500).astype("<u2").view(np.uint8)], [lengths], 1, [len(whole)])
    runs = [Run(0, start, 1) for start in range(0, len(whole), 3)]
    np.testing.assert_array_equal(expand(kernels, call, 2, runs), wanted([whole], runs))
    runs.reverse()
    np.testing.assert_array_equal(expand(kernels, call, 2, runs), wanted([whole], runs))


@folded("length", [2**32, 2**63 - 1, 2**63, 2**64 - 1])
def test_a_run_length_beyond_all_memory_is_cut(kernels: Kernels, length: int) -> None:
    call = encoded([rows(4, 3)], [[2, length, 2**64 - 1]], 8, [2**62])
    assert (expand(kernels, call, 4, [Run(0, 1, 9)]) == rows(4, 3)[[0, *[1] * 8]]).all()


@pytest.mark.parametrize("run", [Run(0, 0, 7), Run(0, 5, 3), Run(0, 6, 1)])
def test_run_lengths_that_end_too_early_are_refused(kernels: Kernels, run: Run) -> None:
    call = encoded([rows(4, 2), rows(4, 2)], [[2, 4], [2, 4]], 1, [9, 9])
    with pytest.raises(FormatError, match="run lengths of chunk 0") as caught:
        expand(kernels, call, 4, [Run(1, 0, 6), run])
    assert caught.value.position == 0


def test_chunks_with_more_values_than_run_lengths_are_refused(kernels: Kernels) -> None:
    call = encoded([rows(4, 3)], [[2, 4]], 1, [6])
    with pytest.raises(FormatError, match="run lengths of chunk 0"):
        expand(kernels, call, 4, [Run(0, 0, 1)])


@folded(
    ("key", "number", "kind"),
    [
        ("value_positions", -1, FormatError),
        ("value_lengths", -8, FormatError),
        ("value_positions", 2**63 - 1, TruncatedError),
        ("value_lengths", 2**62, TruncatedError),
        ("length_positions", -1, FormatError),
        ("length_lengths", -2, FormatError),
        ("length_positions", 12, TruncatedError),
        ("length_lengths", 2**63 - 1, TruncatedError),
    ],
)
def test_buffers_that_are_not_there_are_refused(
    kernels: Kernels, key: str, number: int, kind: type[FormatError]
) -> None:
    call = encoded([rows(4, 2)], [[2, 4]], 1, [6])
    call[key] = i64(number)
    with pytest.raises(kind, match="chunk 0") as caught:
        expand(kernels, call, 4, [Run(0, 0, 6)])
    assert type(caught.value) is kind
    assert expand(kernels, call, 4, []).size == 0


@folded(("width", "length_width"), [(0, 1), (-1, 1), (4, 0), (4, 3), (4, 16), (4, -1)])
def test_widths_that_do_not_exist_are_the_callers_mistake(
    kernels: Kernels, width: int, length_width: int
) -> None:
    call = {**encoded([rows(4, 2)], [[2, 4]], 1, [6]), "length_width": length_width}
    with pytest.raises(ValueError, match="width") as caught:
        kernels.expand_runs(**call, width=width, **run_arrays([]), out=np.empty(0, np.uint8))
    assert not isinstance(caught.value, FormatError)


@folded("size", [0, 7, 9, 12])
def test_the_output_has_to_fit(kernels: Kernels, size: int) -> None:
    call = {**encoded([rows(4, 2)], [[2, 4]], 1, [6]), **run_arrays([Run(0, 0, 2)])}
    with pytest.raises(ValueError, match="out does not") as caught:
        kernels.expand_runs(**call, width=4, out=np.empty(size, np.uint8))
    assert not isinstance(caught.value, FormatError)


@folded("key", ["length_positions", "length_lengths", "value_lengths", "counts"])
def test_arrays_of_different_lengths_are_the_callers_mistake(kernels: Kernels, key: str) -> None:
    call = {**encoded([rows(4, 2)], [[2, 4]], 1, [6]), **run_arrays([])}
    call[key] = np.append(call[key], call[key])
    with pytest.raises(ValueError, match="differ in length"):
        kernels.expand_runs(**call, width=4, out=np.empty(0, np.uint8))


@st.composite
def calls(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    width = draw(st.sampled_from(WIDTHS))
    lengths = draw(st.lists(st.lists(st.integers(0, 30), max_size=8), max_size=3))
    counts = [max(0, sum(chunk) + draw(st.sampled_from([0, 0, 0, -1, 2]))) for chunk in lengths]
    call = encoded(
        [rows(width, len(chunk)) for chunk in lengths], lengths, draw(st.sampled_from([1, 2, 4, 8])), counts
    )
    return perhaps_spoiled(draw, {**call, "width": width}, counts, width)


@pytest.mark.slow
@given(calls())
def test_expand_runs_does_what_its_twin_does(call: tuple[dict[str, Any], dict[str, Any]]) -> None:
    assert_same("expand_runs", *call)
