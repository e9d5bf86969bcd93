"""Merging of ranges, against the definition written as loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lancecy.store.ranges import MergedRanges, check_range, joined, merge, split, worthwhile_holes

RANGES = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 60)), max_size=40)


def merged(ranges: list[tuple[int, int]], gap: int = 0, cap: int = 1 << 40) -> MergedRanges:
    positions = np.array([position for position, _ in ranges], np.int64)
    lengths = np.array([length for _, length in ranges], np.int64)
    return merge(positions, lengths, gap, cap)


def by_the_definition(ranges: list[tuple[int, int]], gap: int) -> list[tuple[int, int]]:
    """Runs of bytes that are wanted, or lie in a hole of at most ``gap`` between wanted ones."""
    runs: list[tuple[int, int]] = []
    for start, stop in sorted((position, position + length) for position, length in ranges if length):
        if runs and start - runs[-1][1] <= gap:
            runs[-1] = (runs[-1][0], max(runs[-1][1], stop))
        else:
            runs.append((start, stop))
    return runs


@given(RANGES, st.integers(0, 50))
@example([(5, 0), (5, 0)], 3)
@example([(0, 10), (2, 3), (20, 1)], 10)
def test_merge_without_a_cap_is_the_definition(ranges: list[tuple[int, int]], gap: int) -> None:
    result = merged(ranges, gap)
    assert list(zip(result.starts.tolist(), result.stops.tolist(), strict=True)) == by_the_definition(
        ranges, gap
    )


@given(RANGES, st.integers(0, 50), st.integers(1, 200))
def test_every_range_lies_contiguously_in_the_arena(
    ranges: list[tuple[int, int]], gap: int, cap: int
) -> None:
    result = merged(ranges, gap, cap)
    file = np.arange(500)
    pieces = [file[a:b] for a, b in zip(result.starts.tolist(), result.stops.tolist(), strict=True)]
    arena = np.concatenate(pieces) if pieces else np.zeros(0, np.int64)
    assert arena.size == result.nbytes
    for (position, length), place in zip(ranges, result.arena_positions.tolist(), strict=True):
        assert 0 <= place <= arena.size
        assert arena[place : place + length].tolist() == list(range(position, position + length))


@given(RANGES, st.integers(0, 50), st.integers(1, 200))
def test_merged_ranges_are_disjoint_and_bounded(ranges: list[tuple[int, int]], gap: int, cap: int) -> None:
    result = merged(ranges, gap, cap)
    assert (result.stops > result.starts).all()
    assert (result.starts[1:] >= result.stops[:-1]).all()
    wanted = by_the_definition(ranges, 0)
    covered = {byte for a, b in zip(result.starts, result.stops, strict=True) for byte in range(a, b)}
    assert covered >= {byte for a, b in wanted for byte in range(a, b)}
    holes = sum(b - a for a, b in by_the_definition(ranges, gap)) - sum(b - a for a, b in wanted)
    assert len(covered) <= sum(b - a for a, b in wanted) + holes


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=60), st.integers(1, 40), st.integers(1, 500))
def test_cap_bounds_merged_ranges_that_do_not_overlap(starts: list[int], width: int, cap: int) -> None:
    ranges = [(start * 40, width) for start in sorted(set(starts))]
    result = merged(ranges, gap=1000, cap=cap)
    assert (result.stops - result.starts < cap + width).all()


def test_duplicates_are_fetched_once() -> None:
    result = merged([(100, 50)] * 5 + [(120, 10)])
    assert (result.starts.tolist(), result.stops.tolist()) == ([100], [150])
    assert result.arena_positions.tolist() == [0, 0, 0, 0, 0, 20]


def test_empty_ranges_ask_for_nothing() -> None:
    result = merged([(7, 0), (500, 0), (100, 4), (3, 0)], gap=1000)
    assert (result.starts.tolist(), result.stops.tolist()) == ([100], [104])
    assert result.nbytes == 4
    assert merged([]).nbytes == 0


def test_positions_near_the_end_of_the_address_space() -> None:
    top = (1 << 63) - 1
    result = merged([(top - 10, 10), (top - 30, 5)], gap=20, cap=1 << 62)
    assert (result.starts.tolist(), result.stops.tolist()) == ([top - 30], [top])


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 90)), max_size=10), st.integers(1, 40))
def test_split_covers_the_same_bytes(gaps: list[tuple[int, int]], cap: int) -> None:
    edges = np.cumsum(np.array([value for pair in gaps for value in pair], np.int64)).reshape(-1, 2)
    starts, stops = split(edges[:, 0], edges[:, 1], cap)
    assert (stops > starts).all()
    assert (stops - starts <= cap).all()
    before = [byte for a, b in edges.tolist() for byte in range(a, b)]
    assert [byte for a, b in zip(starts, stops, strict=True) for byte in range(a, b)] == before


@pytest.mark.parametrize(("start", "stop"), [(-1, None), (-1, 4), (5, 4)])
def test_range_that_is_none_is_refused(start: int, stop: int | None) -> None:
    with pytest.raises(ValueError, match="invalid range"):
        check_range(start, stop)


def test_requests_that_queue_do_not_bring_all_of_a_file() -> None:
    """A hundred rows of 57 MB, evenly spread or not, and of a file in which they are near each other."""
    starts = np.arange(0, 57 << 20, 570_000)
    for places in (starts, starts + np.linspace(0, 90_000, starts.size).astype(np.int64)):
        holes = worthwhile_holes(places, places + 4096, gap=1 << 20, lanes=16)
        merged = joined(merge(places, np.full(places.size, 4096), 0, 1 << 62), holes)
        assert merged.nbytes < (8 << 20) + 100 * 4096 * 2
        assert 80 < merged.starts.size < 100
    near = np.arange(0, 8 << 20, 80_000)
    assert worthwhile_holes(near, near + 4096, gap=1 << 20, lanes=16).sum() == near.size - 16


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)), min_size=1, max_size=12),
    st.lists(st.booleans(), min_size=12, max_size=12),
)
def test_joined_ranges_hold_what_the_merged_ones_held(
    ranges: list[tuple[int, int]], flags: list[bool]
) -> None:
    starts, sizes = (np.array(column) for column in zip(*ranges, strict=True))
    merged = merge(starts, sizes, 1, 1 << 20)
    if merged.starts.size == 0:
        return
    is_closed = np.array(flags[: merged.starts.size - 1], np.bool_)
    wider = joined(merged, is_closed)
    data = np.random.default_rng(0).integers(0, 255, 100)
    arena = np.concatenate([data[a:b] for a, b in zip(wider.starts, wider.stops, strict=True)])
    assert wider.starts.size == merged.starts.size - is_closed.sum()
    for start, size, place in zip(starts, sizes, wider.arena_positions, strict=True):
        if size:
            assert arena[place : place + size].tolist() == data[start : start + size].tolist()
