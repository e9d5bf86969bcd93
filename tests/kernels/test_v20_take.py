"""pick_ended, compiled and in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancecy.errors import FormatError, TruncatedError
from tests.kernels.both import Kernels, assert_same, i64, memory_of

FAR = 2**63 - 1
# Two pages: "ab", null with the bytes "c", "", "def" and "x"; the texts follow the ends.
ENDS = np.array([2, 100 + 3, 3, 6, 1], "<u8")
MEMORY = memory_of(ENDS, b"abcdef", b"x")
PAGES: dict[str, Any] = {
    "end_positions": i64(0, 32),
    "value_positions": i64(40, 46),
    "value_sizes": i64(6, 1),
    "adjustments": i64(100, 5),
    "counts": i64(4, 1),
}


def pick(
    kernels: Kernels,
    *runs: tuple[int, int, int],
    rows: int | None = None,
    dtype: Any = np.int32,
    changes: dict[str, Any] | None = None,
) -> tuple[Any, list[int], list[int], list[tuple[int, int]]]:
    rows = sum(count for _, _, count in runs) if rows is None else rows
    numbers = [i64(*column) for column in zip(*runs, strict=True)] or [i64(), i64(), i64()]
    outs = np.full(rows + 1, 77, dtype), np.full((rows + 7) // 8, 77, np.uint8), *np.full((2, len(runs)), 77)
    call = {"memory": MEMORY, **PAGES, **(changes or {})}
    found = kernels.pick_ended(*call.values(), *numbers, *outs)
    spans = list(zip(outs[2].tolist(), outs[3].tolist(), strict=True))
    return found, outs[0].tolist(), np.unpackbits(outs[1], bitorder="little")[:rows].tolist(), spans


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_strings_are_found_in_their_pages(kernels: Kernels, dtype: Any) -> None:
    everything = pick(kernels, (0, 0, 4), (1, 0, 1), dtype=dtype)
    assert everything == ((7, 1), [0, 2, 3, 3, 6, 7], [1, 0, 1, 1, 1], [(40, 6), (46, 1)])
    some = pick(kernels, (0, 1, 1), (0, 3, 1), (1, 0, 1), dtype=dtype)
    assert some == ((5, 1), [0, 1, 4, 5], [0, 1, 1], [(42, 1), (43, 3), (46, 1)])


def test_runs_of_no_rows_have_nothing(kernels: Kernels) -> None:
    assert pick(kernels, (0, 4, 0), (1, 0, 1), (0, 0, 0)) == ((1, 0), [0, 1], [1], [(0, 0), (46, 1), (0, 0)])
    assert pick(kernels) == ((0, 0), [0], [], [])


@pytest.mark.parametrize(
    "run", [(2, 0, 1), (-1, 0, 1), (0, 3, 2), (0, -1, 1), (0, 0, -1), (0, FAR, FAR), (0, 5, 0)]
)
def test_runs_outside_their_pages_are_refused(kernels: Kernels, run: tuple[int, int, int]) -> None:
    with pytest.raises(FormatError, match="run 1") as caught:
        pick(kernels, (0, 0, 1), run, rows=2)
    assert caught.value.position == 1


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("end_positions", 23, TruncatedError),
        ("end_positions", FAR, TruncatedError),
        ("end_positions", -1, FormatError),
        ("value_positions", 47, TruncatedError),
        ("value_sizes", FAR, TruncatedError),
        ("value_sizes", -1, FormatError),
    ],
)
def test_pages_outside_memory_are_refused(
    kernels: Kernels, name: str, value: int, error: type[Exception]
) -> None:
    changed = i64(value, int(PAGES[name][1]))
    with pytest.raises(error, match="chunk 0"):
        pick(kernels, (1, 0, 1), (0, 0, 4), changes={name: changed})


def test_ends_that_descend_or_pass_the_text_are_refused(kernels: Kernels) -> None:
    for ends, row in (([2, 1, 3, 6], 1), ([2, 3, 4, 7], 3), ([9, 9, 9, 9], 0)):
        memory = memory_of(np.array([*ends, 1], "<u8"), b"abcdefx")
        with pytest.raises(FormatError, match=f"row {row}"):
            pick(kernels, (0, 0, 4), changes={"memory": memory})


def test_runs_of_a_page_that_share_text_are_refused(kernels: Kernels) -> None:
    memory = memory_of(np.array([5, 2, 3, 6, 1], "<u8"), b"abcdefx")
    with pytest.raises(FormatError, match="row 1") as caught:
        pick(kernels, (0, 0, 1), (0, 2, 1), changes={"memory": memory})
    assert caught.value.position == 1


def test_outputs_have_the_rows_of_all_runs(kernels: Kernels) -> None:
    for rows in (0, 1, 3):
        with pytest.raises(ValueError, match="out") as caught:
            pick(kernels, (0, 0, 2), rows=rows)
        assert not isinstance(caught.value, FormatError)
    with pytest.raises(ValueError, match="pages differ"):
        pick(kernels, (0, 0, 1), changes={"counts": i64(4)})


def test_text_beyond_narrow_offsets_is_refused(kernels: Kernels) -> None:
    """Two pages that claim the same large text, which is never read."""
    memory = np.zeros(2**31, np.uint8)
    memory[:8] = np.array([2**31 - 16], "<u8").view(np.uint8)
    pages = {
        "end_positions": i64(0, 0),
        "value_positions": i64(8, 8),
        "value_sizes": i64(2**31 - 16, 2**31 - 16),
        "adjustments": i64(-1, -1),
        "counts": i64(1, 1),
    }
    with pytest.raises(FormatError, match="2\\^31-1 bytes") as caught:
        pick(kernels, (0, 0, 1), (1, 0, 1), changes={"memory": memory, **pages})
    assert caught.value.position == 1
    (total, _), *_ = pick(kernels, (0, 0, 1), (1, 0, 1), changes={"memory": memory, **pages}, dtype=np.int64)
    assert total == 2**32 - 32


@given(
    st.lists(st.integers(0, 12) | st.sampled_from([101, 104, 2**63, 2**64 - 1]), max_size=8),
    st.lists(
        st.tuples(st.integers(-2, 50), st.integers(-2, 20), st.integers(-2, 20)), min_size=1, max_size=3
    ),
    st.lists(st.tuples(st.integers(-1, 3), st.integers(-1, 6), st.integers(-1, 5)), max_size=4),
    st.integers(-1, 3),
)
def test_picks_agree_with_the_twin(
    ends: list[int], pages: list[tuple[int, int, int]], runs: list[tuple[int, int, int]], more: int
) -> None:
    rows = max(0, sum(max(0, count) for _, _, count in runs) + max(0, more))
    at, values, sizes = (i64(*column) for column in zip(*pages, strict=True))
    inputs = {
        "memory": memory_of(np.array(ends, "<u8")),
        "end_positions": at,
        "value_positions": values,
        "value_sizes": sizes,
        "adjustments": np.full(len(pages), 100),
        "counts": np.full(len(pages), 5),
        **{
            f"run_{name}": i64(*(run[i] for run in runs))
            for i, name in enumerate(("pages", "starts", "counts"))
        },
    }
    outs = {
        "out_offsets": (rows + 1, np.int32),
        "out_validity": ((rows + 7) // 8, np.uint8),
        "out_positions": (len(runs), np.int64),
        "out_lengths": (len(runs), np.int64),
    }
    assert_same("pick_ended", inputs, outs)
