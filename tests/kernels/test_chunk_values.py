"""find_chunks and read_chunks, compiled and in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lancecy.errors import FormatError, TruncatedError
from tests.kernels.both import CYTHON, REFERENCE, Kernels, i64, memory_of
from tests.kernels.chunks import EXTREMES, hostile
from tests.kernels.test_bitpack import blocks, inline_chunk, numbers
from tests.kernels.test_structural import chunk

PLAIN, INLINE, BLOCKS, TEXT = 1, 2, 3, 4


def table(*columns: tuple[int, ...]) -> NDArray[np.int64]:
    """Three rows, one column per chunk or run."""
    return np.ascontiguousarray(np.array(columns, np.int64).reshape(-1, 3).T)


# -- find_chunks --------------------------------------------------------------------------


def found(
    kernels: Kernels, starts: list[int], rows: list[int], stops: list[int] | None = None, room: int = 9
) -> tuple[list[list[int]], list[list[int]]]:
    chunks, runs = np.full((2, 3, room), 77)
    offsets = i64(*(64 * number for number in range(len(starts))))
    ends = None if stops is None else i64(*stops)
    num_chunks, num_runs = kernels.find_chunks(i64(*starts), offsets, i64(*rows), ends, chunks, runs)
    return chunks[:, :num_chunks].T.tolist(), runs[:, :num_runs].T.tolist()


def test_rows_are_found_as_runs_in_their_chunks(kernels: Kernels) -> None:
    chunks, runs = found(kernels, [0, 4, 4, 9, 12], [1, 2, 8, 9, 11])
    assert chunks == [[0, 64, 4], [128, 64, 5], [192, 64, 3]]
    assert runs == [[0, 1, 2], [1, 4, 1], [2, 0, 1], [2, 2, 1]]


def test_ranges_are_cut_at_the_ends_of_chunks(kernels: Kernels) -> None:
    chunks, runs = found(kernels, [0, 4, 9, 12], [2, 8], [6, 12])
    assert chunks == [[0, 64, 4], [64, 64, 5], [128, 64, 3]]
    assert runs == [[0, 2, 2], [1, 0, 2], [1, 4, 1], [2, 0, 3]]


def test_no_rows_have_no_chunks(kernels: Kernels) -> None:
    assert found(kernels, [0, 4], []) == ([], [])


@pytest.mark.parametrize(("rows", "stops"), [([0, 4], None), ([-1], None), ([0, 2], [1, 2]), ([2], [5])])
def test_rows_beyond_the_chunks_are_refused(
    kernels: Kernels, rows: list[int], stops: list[int] | None
) -> None:
    with pytest.raises(FormatError, match="beyond") as caught:
        found(kernels, [0, 4], rows, stops)
    assert caught.value.position == len(rows) - 1


def test_chunks_that_descend_are_refused(kernels: Kernels) -> None:
    with pytest.raises(FormatError, match="descend") as caught:
        found(kernels, [0, 4, 3], [1])
    assert caught.value.position == 2


def test_finding_needs_room(kernels: Kernels) -> None:
    for room in (0, 1):
        with pytest.raises(ValueError, match="no room"):
            found(kernels, [0, 4, 9], [1, 5], room=room)


@given(
    st.lists(st.integers(0, 5), max_size=5),
    st.lists(st.one_of(st.integers(0, 12), st.sampled_from(EXTREMES)), max_size=5),
    st.booleans(),
    st.integers(0, 8),
)
def test_finding_agrees_with_the_twin(counts: list[int], edges: list[int], ranged: bool, room: int) -> None:
    starts = [0, *np.cumsum(counts, dtype=np.int64).tolist()]
    rows, stops = (sorted(edges)[::2], sorted(edges)[1::2]) if ranged else (edges, None)

    def call(kernels: Kernels) -> object:
        try:
            return found(kernels, starts, rows[: len(stops)] if stops is not None else rows, stops, room)
        except ValueError as error:
            return type(error), getattr(error, "position", None), str(error)

    assert call(CYTHON) == call(REFERENCE)


# -- read_chunks ----------------------------------------------------------------------------


def read(
    kernels: Kernels,
    stored: list[bytes],
    counts: list[int],
    runs: list[tuple[int, int, int]],
    levels: tuple[int, ...],
    values: tuple[int, ...],
    *,
    num_buffers: int = 1,
    buffer: int = 0,
    size_width: int = 2,
) -> tuple[Any, Any, Any]:
    """Levels, values as bytes, and spans of the runs."""
    lengths = [len(each) for each in stored]
    positions = [sum(lengths[:number]) for number in range(len(stored))]
    chunks = table(*zip(positions, lengths, counts, strict=True))
    program = i64(size_width, 0, levels[0] > 0, num_buffers, buffer, *levels, *values)
    size = sum(count for _, _, count in runs)
    out_levels = np.full(size, 77, np.uint16) if levels[0] else None
    is_text = values[0] == TEXT
    out = np.full((size + is_text) * values[1] // 8, 77, np.uint8)
    spans = np.full((2, len(runs)), 77) if is_text else None
    tables = (chunks, len(stored), table(*runs), len(runs))
    kernels.read_chunks(memory_of(*stored), *tables, program[None], None, out_levels, out, spans)
    return (
        None if out_levels is None else out_levels.tolist(),
        out.tobytes(),
        None if spans is None else spans.tolist(),
    )


NONE, U16 = (0, 0, 0, 0), (PLAIN, 16, 0, 0)


def u16(*levels: int) -> bytes:
    return np.array(levels, "<u2").tobytes()


def test_nullable_numbers_of_several_chunks(kernels: Kernels) -> None:
    values = numbers(64, 7, 1000)
    stored = [
        chunk(u16(*[1, 0] * 500), inline_chunk(values, 7), levels=1000, num_rep_def=1),
        chunk(u16(0, 1, 1), inline_chunk(values[:3], 7), levels=3, num_rep_def=1),
    ]
    levels, out, _ = read(
        kernels, stored, [1000, 3], [(0, 1, 1), (0, 7, 9), (1, 1, 2)], U16, (INLINE, 64, 0, 0)
    )
    assert levels == [0, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 1]
    assert out == np.concatenate((values[1:2], values[7:16], values[1:3])).tobytes()


@pytest.mark.parametrize("bits", [8, 64])
def test_many_single_rows_with_empty_runs_between(kernels: Kernels, bits: int) -> None:
    """Rows are fetched ahead; the chunk and the start of an empty run mean nothing, and are not looked at."""
    values = numbers(bits, 7, 1024)
    stored = [chunk(inline_chunk(values[at : at + 512], 7), levels=0, num_rep_def=0) for at in (0, 512)]
    nothing = [(-(2**62), 2**62, 0), (2**62, -1, 0), (1, 2**62, 0)]
    rows = [(number // 512, number % 512, 1) for number in range(0, 1024, 9)]
    runs = [run for number, row in enumerate(rows) for run in (row, *nothing[: number % 4])]
    _, out, _ = read(kernels, stored, [512, 512], runs, NONE, (INLINE, bits, 0, 0))
    assert out == values[::9].tobytes()
    packed = [chunk(blocks(values, 7), levels=0, num_rep_def=0)]
    _, out, _ = read(
        kernels, packed, [1024], [(0, n, 1) for n in range(0, 1024, 9)], NONE, (BLOCKS, bits, 7, 0)
    )
    assert out == values[::9].tobytes()


@pytest.mark.parametrize("size_width", [2, 4])
def test_values_of_one_buffer_of_several(kernels: Kernels, size_width: int) -> None:
    stored = chunk(
        b"other", np.arange(9, dtype="<u4").tobytes(), levels=0, num_rep_def=0, size_width=size_width
    )
    _, out, _ = read(
        kernels,
        [stored],
        [9],
        [(0, 4, 3)],
        NONE,
        (PLAIN, 32, 0, 0),
        num_buffers=2,
        buffer=1,
        size_width=size_width,
    )
    assert out == np.arange(4, 7, dtype="<u4").tobytes()


def test_levels_and_values_in_blocks_of_a_known_width(kernels: Kernels) -> None:
    levels, values = numbers(16, 1, 1500), numbers(32, 9, 1500, 1)
    stored = chunk(blocks(levels, 1, raw_tail=True), blocks(values, 9), levels=1500, num_rep_def=1)
    found_levels, out, _ = read(
        kernels, [stored], [1500], [(0, 1000, 100)], (BLOCKS, 16, 1, 1), (BLOCKS, 32, 9, 0)
    )
    assert found_levels == levels[1000:1100].tolist()
    assert out == values[1000:1100].tobytes()


@pytest.mark.parametrize("width", [4, 8])
def test_strings_are_offsets_and_spans(kernels: Kernels, width: int) -> None:
    start = 4 * width
    offsets = np.array([start, start + 1, start + 1, start + 4], f"<i{width}").tobytes()
    stored = chunk(offsets + b"abbb", levels=0, num_rep_def=0)
    runs = [(0, 0, 1), (0, 0, 0), (0, 1, 2), (1, 2, 1)]
    _, out, spans = read(kernels, [stored, stored], [3, 3], runs, NONE, (TEXT, width * 8, 0, 0))
    assert np.frombuffer(out, f"<i{width}").tolist() == [0, 1, 1, 4, 7]
    first = 8 + start
    assert spans == [[first, 0, first + 1, len(stored) + first + 1], [1, 0, 3, 3]]


def test_chunks_of_several_programs(kernels: Kernels) -> None:
    values = numbers(32, 7, 1000)
    stored = [
        chunk(u16(1, 0), values[:2].tobytes(), levels=2, num_rep_def=1),
        chunk(inline_chunk(values, 7), levels=0, num_rep_def=0),
        chunk(b"other", values[:3].tobytes(), levels=0, num_rep_def=0, size_width=4),
    ]
    lengths = [len(each) for each in stored]
    chunks = table((0, lengths[0], 2), (lengths[0], lengths[1], 1000), (sum(lengths[:2]), lengths[2], 3))
    programs = np.stack(
        [
            i64(2, 0, 0, 1, 0, *NONE, INLINE, 32, 0, 0),
            i64(2, 0, 1, 1, 0, *U16, PLAIN, 32, 0, 0),
            i64(4, 0, 0, 2, 1, *NONE, PLAIN, 32, 0, 0),
        ]
    )
    runs = table((0, 0, 2), (1, 500, 2), (2, 1, 2), (0, 1, 1))
    levels, out = np.full(7, 77, np.uint16), np.empty(28, np.uint8)
    tables = (memory_of(*stored), chunks, 3, runs, 4)
    kernels.read_chunks(*tables, programs, i64(1, 0, 2), levels, out, None)
    assert levels.tolist() == [1, 0, 0, 0, 0, 0, 0]
    assert out.view("<u4").tolist() == values[[0, 1, 500, 501, 1, 2, 1]].tolist()


@pytest.mark.parametrize(
    ("programs", "which", "error"),
    [
        ([], i64(0), "one program"),
        ([(2, 0, 0, 1, 0, *NONE, *U16)] * 65, i64(0), "at most 64"),
        ([(2, 0, 0, 1, 0, *NONE, *U16), (2, 0, 0, 1, 0, *NONE, PLAIN, 32, 0, 0)], i64(0), "width"),
        ([(2, 0, 0, 1, 0, *NONE, PLAIN, 32, 0, 0), (2, 0, 0, 1, 0, *NONE, TEXT, 32, 0, 0)], i64(0), "width"),
        ([(2, 0, 0, 1, 0, *NONE, *U16)], i64(1), "not there"),
        ([(2, 0, 0, 1, 0, *NONE, *U16)], i64(-1), "not there"),
        ([(2, 0, 0, 1, 0, *NONE, *U16)], i64(), "fewer"),
    ],
)
def test_programs_that_do_not_fit_together_are_refused(
    kernels: Kernels, programs: list[tuple[int, ...]], which: NDArray[np.int64], error: str
) -> None:
    numbers_ = np.array(programs, np.int64).reshape(-1, 13)
    tables = (memory_of(bytes(64)), table((0, 64, 1)), 1, table((0, 0, 1)), 1)
    with pytest.raises(ValueError, match=error):
        kernels.read_chunks(*tables, numbers_, which, None, np.empty(2, np.uint8), None)


@pytest.mark.parametrize(
    ("stored", "levels", "values", "error"),
    [
        (
            chunk(u16(0), b"12345678", levels=2, num_rep_def=1),
            U16,
            (PLAIN, 64, 0, 0),
            "levels than of values",
        ),
        (chunk(u16(0), b"1234567", levels=1, num_rep_def=1), U16, (PLAIN, 64, 0, 0), "too short"),
        (chunk(b"1", b"12345678", levels=1, num_rep_def=1), U16, (PLAIN, 64, 0, 0), "too short"),
        (b"\1\0", U16, (PLAIN, 64, 0, 0), "pass its end"),
        (chunk(b"\x41" + bytes(7), levels=1, num_rep_def=0), NONE, (INLINE, 64, 0, 0), "bit width"),
        (
            chunk(b"\x05\0\0\0\x05\0\0\0", levels=1, num_rep_def=0),
            NONE,
            (TEXT, 32, 0, 0),
            "leave their chunk",
        ),
        (
            chunk(b"\x08\0\0\0\x09\0\0\0", levels=1, num_rep_def=0),
            NONE,
            (TEXT, 32, 0, 0),
            "leave their chunk",
        ),
        (chunk(b"\x08\0\0\0", levels=1, num_rep_def=0), NONE, (TEXT, 32, 0, 0), "too short"),
    ],
)
def test_damaged_chunks_are_refused(
    kernels: Kernels, stored: bytes, levels: tuple[int, ...], values: tuple[int, ...], error: str
) -> None:
    good = bytes(64)
    with pytest.raises((FormatError, TruncatedError), match=error):
        read(kernels, [good, stored], [0, 1], [(1, 0, 1)], levels, values)


@pytest.mark.parametrize(
    "program",
    [
        (3, 0, 0, 1, 0, *NONE, *U16),
        (2, 0, 0, 0, 0, *NONE, *U16),
        (2, 0, 0, 70_000, 0, *NONE, *U16),
        (2, 0, 0, 1, 1, *NONE, *U16),
        (2, 0, 0, 1, 0, *NONE, *NONE),
        (2, 0, 0, 1, 0, *NONE, 5, 16, 0, 0),
        (2, 0, 1, 1, 0, TEXT, 16, 0, 0, *U16),
        (2, 0, 1, 1, 0, PLAIN, 8, 0, 0, *U16),
        (2, 0, 0, 1, 0, *U16, *U16),
        (2, 0, 0, 1, 0, *NONE, PLAIN, 12, 0, 0),
        (2, 0, 0, 1, 0, *NONE, PLAIN, 1 << 40, 0, 0),
        (2, 0, 0, 1, 0, *NONE, INLINE, 24, 0, 0),
        (2, 0, 0, 1, 0, *NONE, BLOCKS, 16, 17, 0),
        (2, 0, 0, 1, 0, *NONE, TEXT, 16, 0, 0),
        (2, 0, 0, 1, 0, *NONE, PLAIN, 16),
    ],
)
def test_impossible_programs_are_refused(kernels: Kernels, program: tuple[int, ...]) -> None:
    out = np.empty(2, np.uint8)
    with pytest.raises(ValueError, match="program|buffer|bits|size_width") as caught:
        kernels.read_chunks(
            memory_of(bytes(64)),
            table((0, 64, 1)),
            1,
            table((0, 0, 1)),
            1,
            i64(*program)[None],
            None,
            None,
            out,
            None,
        )
    assert not isinstance(caught.value, FormatError)


KINDS = [(PLAIN, 16, 0, 0), (INLINE, 16, 0, 0), (BLOCKS, 16, 1, 1), (TEXT, 32, 0, 0), (PLAIN, 24, 0, 0)]


@given(st.data())
def test_reading_agrees_with_the_twin(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(KINDS))
    levels = data.draw(st.sampled_from([NONE, U16, (BLOCKS, 16, 1, 1), (INLINE, 16, 0, 0)]))
    count = data.draw(st.integers(0, 5))
    bodies = {
        PLAIN: bytes(range(kind[1] // 8 * count)),
        INLINE: inline_chunk(numbers(16, 3, count), 3),
        BLOCKS: blocks(numbers(16, 1, count), 1, raw_tail=True),
        TEXT: np.array([4 * (count + 1), *range(4 * (count + 1), 5 * count + 4)], "<u4").tobytes()
        + b"x" * count,
    }
    of_levels = {0: b"", PLAIN: u16(*[1] * count), BLOCKS: u16(*[1] * count), INLINE: bodies[INLINE]}[
        levels[0]
    ]
    parts = (of_levels, bodies[kind[0]]) if levels[0] else (bodies[kind[0]],)
    stored = bytearray(chunk(*parts, levels=count, num_rep_def=levels[0] > 0))
    for place in data.draw(st.lists(st.integers(0, max(0, len(stored) - 1)), max_size=2)):
        stored[place] = data.draw(st.sampled_from([0, 1, 4, 5, 255]))
    numbers_ = st.one_of(st.integers(0, 5), hostile)
    chunks = [
        (0, len(stored), count),
        (data.draw(numbers_), data.draw(st.integers(0, 40)), data.draw(numbers_)),
    ]
    runs = data.draw(
        st.lists(
            st.tuples(st.integers(0, 2), st.integers(0, 3), st.one_of(st.integers(0, 2), hostile)), max_size=4
        )
    )
    size = sum(run[2] for run in runs if 0 <= run[2] < 1000) + data.draw(st.sampled_from([0, 0, 0, 1]))
    first = (2, 0, levels[0] > 0, 1, 0, *levels, *kind)
    other = data.draw(
        st.sampled_from([one for one in KINDS if one[1] == kind[1] and (one[0] == TEXT) == (kind[0] == TEXT)])
    )
    more = [(data.draw(st.sampled_from([2, 4])), 0, 0, 1, 0, *NONE, *other)]
    programs = np.array([first, *data.draw(st.sampled_from([[], more]))], np.int64)
    which = data.draw(
        st.none() | st.tuples(st.integers(0, 2), st.integers(-1, 1)).map(lambda pair: i64(*pair))
    )

    def call(kernels: Kernels) -> object:
        out_levels = np.zeros(size, np.uint16) if levels[0] else None
        out = np.zeros((size + (kind[0] == TEXT)) * kind[1] // 8, np.uint8)
        spans = np.zeros((2, len(runs)), np.int64) if kind[0] == TEXT else None
        try:
            kernels.read_chunks(
                memory_of(bytes(stored)),
                table(*chunks),
                2,
                table(*runs),
                len(runs),
                programs,
                which,
                out_levels,
                out,
                spans,
            )
        except (ValueError, TypeError) as error:
            return type(error), getattr(error, "position", None), str(error)
        return (
            None if out_levels is None else out_levels.tolist(),
            out.tobytes(),
            spans is None or spans.tolist(),
        )

    assert call(CYTHON) == call(REFERENCE)
