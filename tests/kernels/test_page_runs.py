"""chunk_table, cut_ranges, cut_rows and distinct_pages, compiled and in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancecy.errors import FormatError
from tests.kernels.both import Kernels, assert_same, i64, memory_of

FAR = 2**63 - 1


def table(kernels: Kernels, *words: int, width: int = 2) -> list[list[int]]:
    memory = memory_of(np.array(words, f"<u{width}"))
    out = np.full((2, len(words) + 1), 77)
    kernels.chunk_table(memory, width, *out)
    return out.tolist()


@pytest.mark.parametrize("width", [2, 4])
def test_words_tell_bytes_and_values_of_chunks(kernels: Kernels, width: int) -> None:
    assert table(kernels, 0x0A, 0x113, 0x2F, width=width) == [[0, 8, 152, 176], [0, 1024, 1032, 33800]]
    assert table(kernels, width=width) == [[0], [0]]


def test_sizes_of_wide_words(kernels: Kernels) -> None:
    assert table(kernels, 2**32 - 1, 2**32 - 1, width=4) == [[0, 2**31, 2**32], [0, 2**15, 2**16]]


@pytest.mark.parametrize(("nbytes", "width", "size"), [(3, 2, 2), (6, 4, 2), (4, 3, 2), (4, 2, 2), (4, 2, 4)])
def test_a_table_needs_whole_words_and_room(kernels: Kernels, nbytes: int, width: int, size: int) -> None:
    out = np.zeros((2, size), np.int64)
    with pytest.raises(ValueError, match="words") as caught:
        kernels.chunk_table(memory_of(bytes(nbytes)), width, *out)
    assert not isinstance(caught.value, FormatError)


def ranges(
    kernels: Kernels, bounds: list[int], *pairs: tuple[int, int], room: int = 20
) -> list[tuple[int, ...]]:
    out = np.full((3, room), 77)
    starts, stops = i64(*(a for a, _ in pairs)), i64(*(b for _, b in pairs))
    count = kernels.cut_ranges(i64(*bounds), starts, stops, *out)
    assert (out[:, count:] == 77).all()
    return list(zip(*out[:, :count].tolist(), strict=True))


def test_ranges_are_cut_where_pages_end(kernels: Kernels) -> None:
    bounds = [0, 4, 4, 9, 9, 12]
    assert ranges(kernels, bounds, (0, 12)) == [(0, 0, 4), (2, 0, 5), (4, 0, 3)]
    assert ranges(kernels, bounds, (1, 2), (3, 5), (8, 8), (8, 10)) == [
        (0, 1, 1),
        (0, 3, 1),
        (2, 0, 1),
        (2, 4, 1),
        (4, 0, 1),
    ]
    assert ranges(kernels, bounds, (10, 11), (0, 1)) == [(4, 1, 1), (0, 0, 1)]
    assert ranges(kernels, bounds) == []
    assert ranges(kernels, [0], (0, 0), (5, 5)) == []


@pytest.mark.parametrize("pair", [(-1, 2), (0, 13), (12, 13), (FAR - 1, FAR), (-(2**63), FAR)])
def test_ranges_outside_the_pages_are_refused(kernels: Kernels, pair: tuple[int, int]) -> None:
    with pytest.raises(FormatError, match="request") as caught:
        ranges(kernels, [0, 4, 12], (1, 2), pair)
    assert caught.value.position == 1
    with pytest.raises(FormatError):
        ranges(kernels, [0], pair)


@pytest.mark.parametrize("bounds", [[1, 4], [-1, 4], [0, 4, 3]])
def test_bounds_that_descend_are_refused(kernels: Kernels, bounds: list[int]) -> None:
    with pytest.raises(FormatError, match="pages"):
        ranges(kernels, bounds, (0, 1))
    with pytest.raises(FormatError, match="pages"):
        rows(kernels, bounds, 0)


def test_ranges_need_room_for_their_runs(kernels: Kernels) -> None:
    with pytest.raises(ValueError, match="room") as caught:
        ranges(kernels, [0, 4, 8, 12], (1, 12), room=2)
    assert not isinstance(caught.value, FormatError)
    with pytest.raises(ValueError, match="empty"):
        ranges(kernels, [], (0, 1))


def rows(kernels: Kernels, bounds: list[int], *wanted: int) -> list[tuple[int, ...]]:
    out = np.full((3, len(wanted)), 77)
    count = kernels.cut_rows(i64(*bounds), i64(*wanted), *out)
    assert (out[:, count:] == 77).all()
    return list(zip(*out[:, :count].tolist(), strict=True))


def test_rows_that_follow_each_other_in_a_page_are_one_run(kernels: Kernels) -> None:
    bounds = [0, 4, 4, 9]
    assert rows(kernels, bounds, 1, 3, 4, 5, 8) == [(0, 1, 1), (0, 3, 1), (2, 0, 2), (2, 4, 1)]
    assert rows(kernels, bounds, 8, 7, 7, 0, 1, 2) == [(2, 4, 1), (2, 3, 1), (2, 3, 1), (0, 0, 3)]
    assert rows(kernels, bounds) == []


@pytest.mark.parametrize("row", [-1, 9, FAR, -(2**63)])
def test_rows_outside_the_pages_are_refused(kernels: Kernels, row: int) -> None:
    with pytest.raises(FormatError, match="row number 1") as caught:
        rows(kernels, [0, 4, 9], 3, row)
    assert caught.value.position == 1
    with pytest.raises(FormatError):
        rows(kernels, [0], row)


def test_runs_need_arrays_of_one_length(kernels: Kernels) -> None:
    out = [i64(1, 2), i64(1, 2), i64(1)]
    for name, wanted in (("cut_rows", (i64(0, 1),)), ("cut_ranges", (i64(0), i64(1)))):
        with pytest.raises(ValueError, match="length"):
            getattr(kernels, name)(i64(0, 4), *wanted, *out)
    with pytest.raises(ValueError, match="length"):
        kernels.cut_ranges(i64(0, 4), i64(0), i64(1, 2), *np.zeros((3, 5), np.int64))
    with pytest.raises(ValueError, match="length"):
        kernels.distinct_pages(i64(0, 4), i64(0), i64(1, 2))


def test_distinct_pages_and_where_runs_are_among_them(kernels: Kernels) -> None:
    out = np.full((2, 6), 77)
    assert kernels.distinct_pages(i64(3, 3, 7, 9, 9, 3), *out) == 4
    assert out.tolist() == [[3, 7, 9, 3, 77, 77], [0, 0, 1, 2, 2, 3]]
    assert kernels.distinct_pages(i64(), i64(), i64()) == 0


BOUNDS = st.lists(st.integers(0, 6), max_size=6).map(lambda sizes: [0, *np.cumsum(sizes).tolist()])


@given(
    BOUNDS,
    st.lists(st.integers(-2, 40), max_size=12),
    st.lists(st.integers(-3, 9), max_size=12),
    st.integers(0, 20),
)
def test_cuts_agree_with_their_twins(
    bounds: list[int], wanted: list[int], more: list[int], room: int
) -> None:
    runs = {f"out_{name}": (len(wanted), np.int64) for name in ("pages", "starts", "counts")}
    assert_same("cut_rows", {"page_starts": i64(*bounds), "rows": i64(*wanted)}, runs)
    starts = i64(*wanted[: len(more)])
    stops = starts + i64(*more[: len(wanted)])
    runs = {name: (room, kind) for name, (_, kind) in runs.items()}
    assert_same("cut_ranges", {"page_starts": i64(*bounds), "starts": starts, "stops": stops}, runs)


@given(st.binary(max_size=40), st.sampled_from([2, 4]))
def test_tables_agree_with_their_twin(words: bytes, width: int) -> None:
    size = len(words) // width + 1
    outs = {"out_offsets": (size, np.int64), "out_starts": (size, np.int64)}
    assert_same("chunk_table", {"words": memory_of(words), "width": width}, outs)
