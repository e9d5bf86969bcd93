"""chunk_offsets, ended_offsets and zipped_offsets, compiled and in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lancecy.errors import FormatError, TruncatedError
from tests.helpers.folded import folded
from tests.kernels.both import Kernels, assert_same, i64, lay_out, memory_of

FAR = 2**63 - 1
DTYPES = [np.int32, np.int64]
THREE = bytes.fromhex("10000000 11000000 13000000 16000000") + b"abbcccHH"
"""["a", "bb", "ccc"] with padding."""


# -- chunk_offsets ----------------------------------------------------------------------


def strings(
    kernels: Kernels,
    chunks: list[bytes],
    counts: list[int],
    runs: list[tuple[int, int, int]],
    *,
    width: int = 4,
    dtype: Any = np.int32,
    gap: bytes = b"",
) -> tuple[list[int], list[bytes]]:
    """Offsets, and the bytes of each run."""
    memory, positions = lay_out([np.frombuffer(chunk, np.uint8) for chunk in chunks], gap=gap)
    lengths = i64(*(len(chunk) for chunk in chunks))
    columns = [i64(*column) for column in zip(*runs)] if runs else [i64(), i64(), i64()]
    offsets = np.full(sum(run[2] for run in runs) + 1, 77, dtype)
    starts, sizes = np.full((2, len(runs)), 77)
    total = kernels.chunk_offsets(
        memory, positions, lengths, i64(*counts), width, *columns, offsets, starts, sizes
    )
    assert total == sizes.sum() == offsets[-1]
    data = memory.tobytes()
    return offsets.tolist(), [data[a : a + n] for a, n in zip(starts.tolist(), sizes.tolist())]


def var_chunk(values: list[bytes], width: int = 4) -> bytes:
    ends = (len(values) + 1) * width + np.concatenate(([0], np.cumsum([len(v) for v in values]))).astype(int)
    return bytes(ends.astype(f"<u{width}").tobytes() + b"".join(values))


@folded("dtype", DTYPES)
@folded("gap", [b"", b"odd"])
def test_offsets_of_whole_chunks(kernels: Kernels, dtype: Any, gap: bytes) -> None:
    result = strings(kernels, [THREE] * 2, [3, 3], [(0, 0, 3), (1, 0, 3)], dtype=dtype, gap=gap)
    assert result == ([0, 1, 3, 6, 7, 9, 12], [b"abbccc"] * 2)


@pytest.mark.parametrize("width", [4, 8])
def test_offsets_of_parts_of_chunks(kernels: Kernels, width: int) -> None:
    values = [b"%d" % (i * 37) for i in range(200)]
    chunks = [var_chunk(values[i : i + 50], width) for i in range(0, 200, 50)]
    runs = [(0, 3, 1), (0, 10, 40), (2, 0, 0), (3, 49, 1)]
    offsets, data = strings(kernels, chunks, [50] * 4, runs, width=width)
    wanted = [values[3], *values[10:50], values[199]]
    assert offsets == [0, *np.cumsum([len(value) for value in wanted]).tolist()]
    assert data == [values[3], b"".join(values[10:50]), b"", values[199]]


def test_chunks_that_no_run_names_are_not_looked_at(kernels: Kernels) -> None:
    assert strings(kernels, [b"", THREE], [-5, 3], [(1, 1, 1)]) == ([0, 2], [b"bb"])
    assert strings(kernels, [], [], []) == ([0], [])


@folded("dtype", DTYPES)
@folded(
    ("offsets", "row"),
    [
        ([16, 15, 19, 22], 0),
        ([16, 19, 18, 22], 1),
        ([16, 17, 19, 25], 2),
        ([15, 17, 19, 22], 0),
        ([0, 17, 19, 22], 0),
        ([16, 17, 2**31, 2**31], 1),
        ([16, 2**32 - 1, 19, 22], 0),
        ([2**31, 2**31, 2**31, 2**31], 0),
    ],
)
def test_offsets_that_descend_or_leave_their_chunk_are_refused(
    kernels: Kernels, offsets: list[int], row: int, dtype: Any
) -> None:
    bad = np.array(offsets, "<u4").tobytes() + bytes(8)
    with pytest.raises(FormatError, match="leave their chunk") as caught:
        strings(kernels, [THREE, bad], [3, 3], [(0, 0, 3), (1, 0, 3)], dtype=dtype)
    assert caught.value.position == 3 + row


def test_bad_offsets_outside_of_a_run_do_not_matter(kernels: Kernels) -> None:
    bad = np.array([16, 15, 19, 22], "<u4").tobytes() + bytes(8)
    assert strings(kernels, [bad], [3], [(0, 2, 1)])[0] == [0, 3]


@folded("run", [(2, 0, 1), (-1, 0, 1), (0, -1, 1), (0, 0, 4), (0, 3, 1), (0, FAR, 1)])
def test_runs_outside_their_chunk_are_refused(kernels: Kernels, run: tuple[int, int, int]) -> None:
    with pytest.raises(FormatError, match="run 1") as caught:
        strings(kernels, [THREE], [3], [(0, 0, 1), run])
    assert caught.value.position == 1


@folded("count", [6, 7, 2**60, FAR])
def test_chunks_too_short_for_their_offsets_are_refused(kernels: Kernels, count: int) -> None:
    with pytest.raises(TruncatedError, match="chunk 0"):
        strings(kernels, [THREE], [count], [(0, 0, 1)])


@folded(
    ("position", "length", "error"),
    [
        (-1, 24, FormatError),
        (0, -1, FormatError),
        (1, 24, TruncatedError),
        (FAR, 24, TruncatedError),
        (0, FAR, TruncatedError),
    ],
)
def test_chunks_outside_memory_are_refused(
    kernels: Kernels, position: int, length: int, error: type[Exception]
) -> None:
    outs = np.empty(2, np.int32), i64(0), i64(0)
    with pytest.raises(error, match="chunk 0"):
        kernels.chunk_offsets(
            memory_of(THREE), i64(position), i64(length), i64(3), 4, i64(0), i64(0), i64(1), *outs
        )


@folded(("sizes", "width"), [((3, 1, 1), 4), ((0, 1, 1), 4), ((2, 2, 1), 4), ((2, 1, 0), 4), ((2, 1, 1), 2)])
def test_chunk_offsets_need_arrays_of_the_exact_size(
    kernels: Kernels, sizes: tuple[int, int, int], width: int
) -> None:
    outs = [np.empty(size, dtype) for size, dtype in zip(sizes, (np.int32, np.int64, np.int64))]
    with pytest.raises(ValueError, match="out|width") as caught:
        kernels.chunk_offsets(memory_of(THREE), i64(0), i64(24), i64(3), width, i64(0), i64(0), i64(1), *outs)
    assert not isinstance(caught.value, FormatError)


def test_more_bytes_than_32_bit_offsets_can_hold_are_refused(kernels: Kernels) -> None:
    """Two runs over the same large chunk, whose bytes are never read."""
    memory = np.zeros(2**30 + 24, np.uint8)
    memory[:16].view("<u8")[:] = 16, 2**30 + 16
    runs = (i64(0, 0), i64(0, 0), i64(1, 1))
    arguments = (memory, i64(0), i64(memory.size), i64(1), 8, *runs)
    with pytest.raises(FormatError, match=r"more than 2\^31-1") as caught:
        kernels.chunk_offsets(*arguments, np.empty(3, np.int32), i64(0, 0), i64(0, 0))
    assert caught.value.position == 1
    assert kernels.chunk_offsets(*arguments, np.empty(3, np.int64), i64(0, 0), i64(0, 0)) == 2**31


@st.composite
def chunk_calls(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    width = draw(st.sampled_from([4, 8]))
    values = draw(st.lists(st.lists(st.binary(max_size=4), max_size=70), min_size=1, max_size=4))
    memory, positions = lay_out([np.frombuffer(var_chunk(chunk, width), np.uint8) for chunk in values])
    counts = i64(*(len(chunk) for chunk in values))
    lengths = i64(*(len(var_chunk(chunk, width)) for chunk in values))
    if draw(st.booleans()):
        memory = memory.copy()
        memory[draw(st.integers(0, memory.size - 1))] ^= draw(st.integers(0, 255))
    if draw(st.integers(0, 4)) == 0:
        array = draw(st.sampled_from([positions, counts, lengths]))
        array[draw(st.integers(0, array.size - 1))] = draw(st.sampled_from([-1, 0, 3, 2**31, 2**61, FAR]))
    runs = []
    for chunk in draw(st.lists(st.integers(0, len(values) - 1), max_size=4)):
        start = draw(st.integers(0, len(values[chunk])))
        runs.append((chunk, start, draw(st.integers(0, len(values[chunk]) - start))))
    columns = [i64(*column) for column in zip(*runs)] if runs else [i64(), i64(), i64()]
    inputs = {"memory": memory, "positions": positions, "lengths": lengths, "counts": counts, "width": width}
    inputs |= dict(zip(("run_chunks", "run_starts", "run_counts"), columns))
    rows = int(columns[2].sum()) + 1 + draw(st.sampled_from([0, 0, 0, 1]))
    spans = (len(runs), np.int64)
    outs = {"out_offsets": (rows, draw(st.sampled_from(DTYPES))), "out_starts": spans, "out_lengths": spans}
    return inputs, outs


@given(chunk_calls())
def test_chunk_offsets_agree_with_the_twin(call: tuple[dict[str, Any], dict[str, Any]]) -> None:
    assert_same("chunk_offsets", *call)


# -- ended_offsets ----------------------------------------------------------------------


def ends(
    kernels: Kernels,
    entries: list[int],
    *,
    adjustment: int,
    size: int,
    start: int = 0,
    stop: int | None = None,
    dtype: Any = np.int32,
) -> tuple[int, int, list[int], list[int], int, int]:
    stop = len(entries) if stop is None else stop
    rows = stop - start
    offsets, bits = np.full(rows + 1, 77, dtype), np.full((rows + 7) // 8, 0x5A, np.uint8)
    first, length = i64(77), i64(77)
    total, nulls = kernels.ended_offsets(
        memory_of(np.array(entries, "<u8")),
        i64(8 * start),
        i64(rows),
        i64(8 * (start - 1) if start else -1),
        np.array([adjustment], np.uint64).view(np.int64),
        i64(size),
        offsets,
        bits,
        first,
        length,
    )
    unpacked = np.unpackbits(bits, bitorder="little")
    assert not unpacked[rows:].any()
    return total, nulls, offsets.tolist(), unpacked[:rows].tolist(), int(first[0]), int(length[0])


@pytest.mark.parametrize("dtype", DTYPES)
def test_lists_with_a_null(kernels: Kernels, dtype: Any) -> None:
    """[[1, 2], null, [], [3, 4, 5]]"""
    result = ends(kernels, [2, 8, 2, 5], adjustment=6, size=5, dtype=dtype)
    assert result == (5, 1, [0, 2, 2, 2, 5], [1, 0, 1, 1], 0, 5)


def test_a_null_may_own_values(kernels: Kernels) -> None:
    """["aa", null with three bytes of its own, "b"]"""
    result = ends(kernels, [2, 12, 6], adjustment=7, size=6)
    assert result == (6, 1, [0, 2, 5, 6], [1, 0, 1], 0, 6)


def test_the_entry_before_a_run_may_be_null(kernels: Kernels) -> None:
    assert ends(kernels, [2, 12, 6], adjustment=7, size=6, start=2) == (1, 0, [0, 1], [1], 5, 1)
    assert ends(kernels, [4, 3, 7, 3], adjustment=4, size=3, start=1, stop=3)[2:5] == ([0, 3, 3], [1, 0], 0)


def test_an_adjustment_of_nothing_makes_everything_null(kernels: Kernels) -> None:
    assert ends(kernels, [1, 2, 2], adjustment=0, size=2)[:4] == (2, 3, [0, 1, 2, 2], [0, 0, 0])


@pytest.mark.parametrize("adjustment", [2**40, 2**63, 2**64 - 1])
def test_any_large_adjustment_will_do(kernels: Kernels, adjustment: int) -> None:
    entries = [3, 3 + adjustment, 5] if adjustment < 2**64 - 8 else [3, 3, 5]
    result = ends(kernels, entries, adjustment=adjustment, size=5)
    assert result[2] == [0, 3, 3, 5]


@folded("count", [63, 64, 65, 128, 200])
def test_ends_of_any_number_of_rows(kernels: Kernels, count: int) -> None:
    rng = np.random.default_rng(count)
    lengths, is_null = rng.integers(0, 4, count), rng.integers(0, 3, count) == 0
    running = np.cumsum(lengths)
    total = int(running[-1])
    entries = (running + is_null * (total + 1)).tolist()
    result = ends(kernels, entries, adjustment=total + 1, size=total, start=7)
    assert result[2] == [0, *(running[7:] - running[6]).tolist()]
    assert result[3] == (~is_null[7:]).astype(int).tolist()


def test_several_runs_are_put_together(kernels: Kernels) -> None:
    memory = memory_of(np.array([2, 5, 7, 1, 1 + 9, 3], "<u8"))
    offsets, bits, spans = np.empty(5, np.int32), np.empty(1, np.uint8), np.empty((2, 3), np.int64)
    arrays = (i64(8, 0, 24), i64(2, 0, 2), i64(0, 99, -1), i64(100, 1, 9), i64(7, 0, 3))
    assert kernels.ended_offsets(memory, *arrays, offsets, bits, *spans) == (6, 1)
    assert (offsets.tolist(), bits[0], spans.tolist()) == ([0, 3, 5, 6, 6], 0b0111, [[2, 0, 0], [5, 0, 1]])


@folded("dtype", DTYPES)
@folded(
    ("entries", "size", "row"),
    [
        ([2, 1, 5], 5, 1),
        ([2, 3, 6], 5, 2),
        ([2, 7 + 1, 5], 5, 1),
        ([2, 2**64 - 1, 5], 5, 1),
        ([2**63, 2, 3], 5, 0),
        ([0, 0, 0], -1, 0),
    ],
)
def test_ends_that_descend_or_pass_the_values_are_refused(
    kernels: Kernels, entries: list[int], size: int, row: int, dtype: Any
) -> None:
    with pytest.raises(FormatError, match="end of row") as caught:
        ends(kernels, entries, adjustment=7, size=size, dtype=dtype)
    assert caught.value.position == row


def test_ends_far_into_a_run_are_checked(kernels: Kernels) -> None:
    entries = [*range(300), 200, *range(301, 400)]
    with pytest.raises(FormatError) as caught:
        ends(kernels, entries, adjustment=10_000, size=1000)
    assert caught.value.position == 300


def test_more_values_than_32_bit_offsets_can_hold_are_refused(kernels: Kernels) -> None:
    assert ends(kernels, [2**31 - 1], adjustment=2**40, size=2**40)[0] == 2**31 - 1
    with pytest.raises(FormatError, match=r"more than 2\^31-1"):
        ends(kernels, [2**31], adjustment=2**40, size=2**40)
    assert ends(kernels, [2**31], adjustment=2**40, size=2**40, dtype=np.int64)[0] == 2**31


@folded(
    ("position", "count", "previous", "error"),
    [
        (-8, 1, -1, FormatError),
        (0, 1, -2, FormatError),
        (0, 1, 9, TruncatedError),
        (9, 1, -1, TruncatedError),
        (0, 1, FAR, TruncatedError),
    ],
)
def test_runs_of_ends_outside_memory_are_refused(
    kernels: Kernels, position: int, count: int, previous: int, error: type[Exception]
) -> None:
    outs = np.empty(2, np.int32), np.empty(1, np.uint8), i64(0), i64(0)
    with pytest.raises(error, match="run 0"):
        kernels.ended_offsets(
            memory_of(bytes(16)), i64(position), i64(count), i64(previous), i64(9), i64(9), *outs
        )


@folded("sizes", [(3, 1, 1, 1), (2, 2, 1, 1), (0, 0, 1, 1), (2, 1, 2, 1), (2, 1, 1, 0)])
def test_ends_need_outputs_of_the_exact_size(kernels: Kernels, sizes: tuple[int, int, int, int]) -> None:
    dtypes = (np.int32, np.uint8, np.int64, np.int64)
    outs = [np.empty(size, dtype) for size, dtype in zip(sizes, dtypes)]
    with pytest.raises(ValueError, match="out|differ") as caught:
        kernels.ended_offsets(memory_of(bytes(8)), i64(0), i64(1), i64(-1), i64(9), i64(9), *outs)
    assert not isinstance(caught.value, FormatError)


@st.composite
def end_calls(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    numbers: list[NDArray[np.uint64]] = []
    runs: list[tuple[int, int, int, int, int]] = []
    at = 0
    for _ in range(draw(st.integers(0, 3))):
        rows = draw(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=140))
        running = np.cumsum([length for length, _ in rows]).astype(np.uint64)
        adjustment = draw(st.sampled_from([0, int(running[-1]) + 1, 2**40, 2**64 - 1]))
        null = np.array([null for _, null in rows]) & (adjustment < 2**63)
        numbers.append(running + null.astype(np.uint64) * np.uint64(adjustment))
        start = draw(st.integers(0, len(rows) - 1))
        stop = draw(st.integers(start, len(rows)))
        previous = 8 * (at + start - 1) if start else -1
        signed = int(np.array([adjustment], np.uint64).view(np.int64)[0])
        runs.append((8 * (at + start), stop - start, previous, signed, int(running[-1])))
        at += len(rows)
    memory = memory_of(*numbers)
    if memory.size and draw(st.booleans()):
        memory = memory.copy()
        memory[draw(st.integers(0, memory.size - 1))] ^= draw(st.integers(0, 255))
    names = ("positions", "counts", "previous", "adjustments", "value_sizes")
    columns = [i64(*column) for column in zip(*runs)] if runs else [i64()] * 5
    if runs and draw(st.integers(0, 4)) == 0:
        array = columns[draw(st.integers(0, 4))]
        array[draw(st.integers(0, len(runs) - 1))] = draw(
            st.sampled_from([-(2**63), -2, -1, 0, 7, 2**61, FAR])
        )
    counts = columns[1]
    rows_asked = int(counts[(counts >= 0) & (counts < 1000)].sum())
    outs = {
        "out_offsets": (rows_asked + 1, draw(st.sampled_from(DTYPES))),
        "out_validity": ((rows_asked + 7) // 8, np.uint8),
        "out_starts": (len(runs), np.int64),
        "out_lengths": (len(runs), np.int64),
    }
    return {"memory": memory, **dict(zip(names, columns))}, outs


@given(end_calls())
def test_ended_offsets_agree_with_the_twin(call: tuple[dict[str, Any], dict[str, Any]]) -> None:
    assert_same("ended_offsets", *call)


# -- zipped_offsets ---------------------------------------------------------------------


def test_lengths_become_offsets(kernels: Kernels) -> None:
    offsets = np.empty(4, np.int64)
    assert kernels.zipped_offsets(i64(3, 0, 2**40), offsets) == 2**40 + 3
    assert offsets.tolist() == [0, 3, 3, 2**40 + 3]


def test_no_lengths_become_one_offset(kernels: Kernels) -> None:
    offsets = np.empty(1, np.int32)
    assert kernels.zipped_offsets(i64(), offsets) == offsets[0] == 0


@folded(
    ("lengths", "dtype", "value"),
    [
        ((1, -1), np.int32, 1),
        ((-(2**63),), np.int64, 0),
        ((2**31 - 1, 1), np.int32, 1),
        ((5, FAR), np.int64, 1),
    ],
)
def test_lengths_that_are_negative_or_too_many_are_refused(
    kernels: Kernels, lengths: tuple[int, ...], dtype: Any, value: int
) -> None:
    with pytest.raises(FormatError) as caught:
        kernels.zipped_offsets(i64(*lengths), np.empty(len(lengths) + 1, dtype))
    assert caught.value.position == value


def test_offsets_need_one_entry_more(kernels: Kernels) -> None:
    with pytest.raises(ValueError, match="one entry more"):
        kernels.zipped_offsets(i64(1), np.empty(1, np.int32))


@given(
    st.lists(st.one_of(st.integers(0, 100), st.sampled_from([-1, 2**31 - 1, 2**62])), max_size=40),
    st.sampled_from(DTYPES),
)
def test_zipped_offsets_agree_with_the_twin(lengths: list[int], dtype: Any) -> None:
    assert_same("zipped_offsets", {"lengths": i64(*lengths)}, {"out_offsets": (len(lengths) + 1, dtype)})
