"""find_lists and read_lists, compiled and in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lancecy.errors import FormatError, TruncatedError
from tests.kernels.both import CYTHON, REFERENCE, Kernels, i64, memory_of
from tests.kernels.test_bitpack import blocks, inline_chunk
from tests.kernels.test_chunk_values import BLOCKS, INLINE, NONE, PLAIN, U16, table, u16

# -- find_lists -----------------------------------------------------------------------------


def found(
    kernels: Kernels, begins: list[int], ends: list[int], rows: list[int], stops: list[int] | None = None
) -> tuple[list[int], list[int], list[list[int]]]:
    """Chunks, where groups begin, and ranges."""
    outs = np.full(len(ends), 77), np.full(len(rows) + 1, 77), np.full((3, len(rows)), 77)
    last = None if stops is None else i64(*stops)
    sizes = kernels.find_lists(i64(*begins), i64(*ends), i64(*rows), last, *outs)
    return (
        outs[0][: sizes[0]].tolist(),
        outs[1][: sizes[1] + 1].tolist(),
        outs[2][:, : sizes[2]].T.tolist(),
    )


def test_a_row_that_goes_on_needs_the_chunks_that_it_reaches(kernels: Kernels) -> None:
    begins, ends = [0, 3, 3, 6, 9], [2, 2, 6, 9]
    assert found(kernels, begins, ends, [2]) == ([0, 1, 2], [0, 3], [[0, 2, 3]])
    assert found(kernels, begins, ends, [0, 1, 7]) == ([0, 3], [0, 1, 2], [[0, 0, 2], [1, 1, 2]])


def test_chunks_that_follow_each_other_are_one_group(kernels: Kernels) -> None:
    begins, ends = [0, 3, 6, 9], [3, 6, 9]
    assert found(kernels, begins, ends, [0, 4, 8]) == ([0, 1, 2], [0, 3], [[0, 0, 1], [0, 4, 5], [0, 8, 9]])
    assert found(kernels, begins, ends, [1, 8], [2, 9])[1:] == ([0, 1, 2], [[0, 1, 2], [1, 2, 3]])


def test_without_an_index_every_chunk_is_needed(kernels: Kernels) -> None:
    assert found(kernels, [0, 9, 9], [0, 9], [5, 6]) == ([0, 1], [0, 2], [[0, 5, 7]])


@pytest.mark.parametrize(("rows", "stops"), [([9], None), ([-1], None), ([3], [3]), ([3], [10])])
def test_rows_beyond_the_lists_are_refused(
    kernels: Kernels, rows: list[int], stops: list[int] | None
) -> None:
    with pytest.raises(FormatError, match="beyond"):
        found(kernels, [0, 9], [9], rows, stops)


def test_finding_lists_needs_arrays_of_the_exact_size(kernels: Kernels) -> None:
    one, ranges = i64(0), np.zeros((3, 1), np.int64)
    with pytest.raises(ValueError, match="chunks differ"):
        kernels.find_lists(one, one, one, None, one.copy(), i64(0, 0), ranges)
    with pytest.raises(ValueError, match="ranges differ"):
        kernels.find_lists(i64(0, 1), one, one, i64(1, 2), one.copy(), i64(0, 0), ranges)
    with pytest.raises(ValueError, match="one entry per row"):
        kernels.find_lists(i64(0, 1), one, one, None, one.copy(), i64(0), ranges)


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=5),
    st.lists(st.booleans(), min_size=5, max_size=5),
    st.lists(st.integers(-1, 20), max_size=6, unique=True),
    st.booleans(),
)
def test_finding_lists_agrees_with_the_twin(
    counts: list[int], goes_on: list[bool], edges: list[int], ranged: bool
) -> None:
    ends = np.cumsum(counts)
    begins = [0, *(ends + goes_on[: ends.size]).tolist()]
    begins[-1] = int(ends[-1])
    edges = sorted(edges)
    pairs = list(zip(edges[::2], edges[1::2], strict=False))
    rows, stops = ([a for a, _ in pairs], [b for _, b in pairs]) if ranged else (edges, None)

    def call(kernels: Kernels) -> object:
        try:
            return found(kernels, begins, ends.tolist(), rows, stops)
        except FormatError as error:
            return type(error), error.position, str(error)

    assert call(CYTHON) == call(REFERENCE)


# -- read_lists -----------------------------------------------------------------------------


def read(
    kernels: Kernels,
    stored: list[tuple[bytes, bytes, int, int]],
    groups: list[int],
    ranges: Sequence[tuple[int, ...]],
    codecs: tuple[tuple[int, ...], tuple[int, ...]],
    max_rep: int = 1,
    visible: int = 0,
    begun: list[int] | None = None,
) -> tuple[Any, Any, Any]:
    """Levels and runs; of each chunk repetition and definition levels, their number and the number of slots."""
    parts = [part for rep, definition, _, _ in stored for part in (rep, definition)]
    edges = np.cumsum([0, *map(len, parts)])
    headers = np.zeros((5, len(stored)), np.int64)
    headers[0] = [count for _, _, count, _ in stored]
    headers[1:] = np.stack((edges[:-1], np.diff(edges))).T.reshape(-1, 4).T
    size = int(headers[0].sum())
    rep = np.full(size, 77, np.uint16)
    definition = np.full(size, 77, np.uint16) if codecs[1][0] else None
    runs = np.full((3, len(ranges) + len(stored)), 77)
    program = i64(*codecs[0], *codecs[1], max_rep, visible)
    counts = i64(*(slots for *_, slots in stored))
    wanted = (None if begun is None else i64(*begun), i64(*groups), table(*ranges))
    num_levels, num_runs = kernels.read_lists(
        memory_of(*parts), headers, counts, *wanted, program, rep, definition, runs
    )
    assert not rep[num_levels:].any()
    assert definition is None or not definition[num_levels:].any()
    return (
        rep[:num_levels].tolist(),
        None if definition is None else definition[:num_levels].tolist(),
        runs[:, :num_runs].T.tolist(),
    )


BOTH = (U16, U16)
# [[1, 2], [], null, [3]], of which the second half is in a second chunk.
TWO = [(u16(1, 0, 1), u16(0, 0, 2), 3, 2), (u16(1, 1), u16(1, 0), 2, 1)]


def test_rows_of_lists_in_two_chunks(kernels: Kernels) -> None:
    assert read(kernels, TWO, [0, 2], [(0, 0, 1), (0, 2, 4)], BOTH) == (
        [1, 0, 1, 1],
        [0, 0, 1, 0],
        [[0, 0, 2], [1, 0, 1]],
    )
    assert read(kernels, TWO, [0, 1, 2], [(0, 1, 2), (1, 1, 2)], BOTH) == ([1, 1], [2, 0], [[1, 0, 1]])


def test_a_list_that_goes_on_in_the_next_chunk_is_two_runs(kernels: Kernels) -> None:
    stored = [(u16(0, 1, 0), b"", 3, 3), (u16(0, 0, 1, 0), b"", 4, 4)]
    assert read(kernels, stored, [0, 2], [(0, 0, 1)], (U16, NONE)) == (
        [1, 0, 0, 0],
        None,
        [[0, 1, 2], [1, 0, 2]],
    )
    assert read(kernels, stored, [0, 2], [(0, 0, 2)], (U16, NONE))[2] == [[0, 1, 2], [1, 0, 4]]


@pytest.mark.parametrize(
    ("codec", "stored"), [((BLOCKS, 16, 1, 1), blocks), ((INLINE, 16, 0, 0), inline_chunk)]
)
def test_levels_may_be_packed(kernels: Kernels, codec: tuple[int, ...], stored: Any) -> None:
    rep = (np.arange(1000) % 3 == 0).astype("<u2")
    levels = (np.arange(1000) % 7 == 3).astype("<u2")
    levels[rep == 0] = 0
    chunk = (stored(rep, 1), stored(levels, 1), 1000, int((levels == 0).sum()))
    ranges = [(0, first, first + 2) for first in range(3, 333, 9)]
    wanted = np.concatenate([np.arange(3 * first, 3 * stop) for _, first, stop in ranges])
    out_rep, out_def, runs = read(kernels, [chunk], [0, 1], ranges, (codec, codec))
    assert out_rep == rep[wanted].tolist()
    assert out_def == levels[wanted].tolist()
    assert sum(count for *_, count in runs) == int((levels[wanted] == 0).sum())


@pytest.mark.parametrize(
    ("stored", "ranges", "error"),
    [
        ([(u16(1, 0), u16(0, 0), 2, 1)], [(0, 0, 1)], "levels than of values"),
        ([(u16(1, 2), u16(0, 0), 2, 2)], [(0, 0, 1)], "above what the layers"),
        ([(u16(1), u16(0, 0), 2, 2)], [(0, 0, 1)], "too short"),
        ([(b"", u16(0, 0), 2, 2)], [(0, 0, 1)], "too short"),
        ([(u16(1, 0), u16(0, 0), 2, 2)], [(0, 0, 2)], "does not have|do not have"),
        ([(u16(1, 0), u16(0, 0), 2, 2)], [(0, 1, 2)], "does not have|do not have"),
        ([(u16(1, 1), u16(0, 0), 2, 2)], [(0, 1, 2), (0, 0, 1)], "does not have|do not have"),
        ([(u16(1, 1), u16(0, 0), 2, 2)], [(1, 0, 1)], "does not have|do not have"),
    ],
)
def test_damaged_lists_are_refused(
    kernels: Kernels,
    stored: list[tuple[bytes, bytes, int, int]],
    ranges: Sequence[tuple[int, ...]],
    error: str,
) -> None:
    with pytest.raises((FormatError, TruncatedError), match=error):
        read(kernels, stored, [0, 1], ranges, BOTH)


def test_rows_that_begin_where_the_index_does_not_say_so_are_refused(kernels: Kernels) -> None:
    assert read(kernels, TWO, [0, 2], [(0, 0, 1)], BOTH, begun=[2, 2])[0] == [1, 0]
    with pytest.raises(FormatError, match="chunk 1 other rows begin"):
        read(kernels, TWO, [0, 2], [(0, 0, 1)], BOTH, begun=[2, 1])


@pytest.mark.parametrize(
    ("groups", "ranges", "codecs", "levels"),
    [
        ([1], [], BOTH, (1, 0)),
        ([0, 2], [], BOTH, (1, 0)),
        ([0, 1], [(0, 1, 1)], BOTH, (1, 0)),
        ([0, 1], [(0, -1, 1)], BOTH, (1, 0)),
        ([0, 1], [], (NONE, U16), (1, 0)),
        ([0, 1], [], ((4, 16, 0, 0), U16), (1, 0)),
        ([0, 1], [], ((PLAIN, 8, 0, 0), U16), (1, 0)),
        ([0, 1], [], ((BLOCKS, 16, 17, 0), U16), (1, 0)),
        ([0, 1], [], BOTH, (65_536, 0)),
        ([0, 1], [], BOTH, (1, -1)),
    ],
)
def test_impossible_requests_are_refused(
    kernels: Kernels,
    groups: list[int],
    ranges: Sequence[tuple[int, ...]],
    codecs: Any,
    levels: tuple[int, int],
) -> None:
    with pytest.raises(ValueError, match="groups|ranges|program|levels") as caught:
        read(kernels, [(u16(1), u16(0), 1, 1)], groups, ranges, codecs, *levels)
    assert not isinstance(caught.value, FormatError)


def test_reading_lists_needs_arrays_of_the_exact_size(kernels: Kernels) -> None:
    program, levels = i64(*U16, *NONE, 1, 0), memory_of(u16(1))
    found_, runs = np.array([[1], [0], [2], [0], [0]]), np.empty((3, 2), np.int64)
    good: list[Any] = [
        levels,
        found_,
        i64(1),
        i64(1),
        i64(0, 1),
        table((0, 0, 1)),
        program,
        np.empty(1, np.uint16),
        None,
        runs,
    ]
    kernels.read_lists(*good)
    spoiled: list[tuple[int, NDArray[Any]]] = [
        (1, found_[:4].copy()),
        (2, i64(1, 1)),
        (3, i64(1, 1)),
        (4, i64()),
        (5, np.zeros((2, 1), np.int64)),
        (6, program[:9].copy()),
        (7, np.empty(2, np.uint16)),
        (8, np.empty(1, np.uint16)),
        (9, np.empty((3, 1), np.int64)),
        (1, np.array([[-1], [0], [2], [0], [0]])),
    ]
    for number, array in spoiled:
        call = [*good]
        call[number] = array
        with pytest.raises(ValueError, match="size|groups|program|level|runs"):
            kernels.read_lists(*call)


@given(st.data())
def test_reading_lists_agrees_with_the_twin(data: st.DataObject) -> None:
    max_rep = data.draw(st.sampled_from([1, 2]))
    has_levels = data.draw(st.booleans())
    stored = []
    for _ in range(data.draw(st.integers(0, 3))):
        rep = data.draw(st.lists(st.sampled_from([0, 1, max_rep]), max_size=40))
        levels = [data.draw(st.sampled_from([0, 0, 1])) if has_levels else 0 for _ in rep]
        size = len(rep) + data.draw(st.sampled_from([0, 0, 0, 0, 1]))
        stored.append((u16(*rep), u16(*levels) if has_levels else b"", size, levels.count(0)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stored)), max_size=2)))
    groups = [0, *cuts, len(stored)]
    ranges = []
    for group in range(len(groups) - 1):
        edges = sorted(set(data.draw(st.lists(st.integers(0, 12), max_size=6))))
        ranges += [(group, *pair) for pair in list(pairwise(edges))[::2]]
    codecs = (U16, U16 if has_levels else NONE)
    begun = None
    if data.draw(st.booleans()):
        begun = [int((np.frombuffer(rep, "<u2") == max_rep).sum()) for rep, *_ in stored]
        begun = [count + data.draw(st.sampled_from([0] * 9 + [1])) for count in begun]

    def call(kernels: Kernels) -> object:
        try:
            return read(kernels, stored, groups, ranges, codecs, max_rep, begun=begun)
        except FormatError as error:
            return type(error), error.position, str(error)

    assert call(CYTHON) == call(REFERENCE)
