"""Row selections against plain Python sets and lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lancecy.kernels.sorting import sorted_order, sorted_unique
from lancecy.rows import RowSelection

SIZE = 40


@st.composite
def selections(draw: st.DrawFn) -> RowSelection:
    if draw(st.booleans()):
        return RowSelection.take(SIZE, draw(st.lists(st.integers(0, SIZE - 1), max_size=30)))
    return RowSelection.from_mask(np.array(draw(st.lists(st.booleans(), min_size=SIZE, max_size=SIZE))))


def ranges(*pairs: tuple[int, int]) -> RowSelection:
    return RowSelection(
        SIZE, np.array([p[0] for p in pairs], np.int64), np.array([p[1] for p in pairs], np.int64)
    )


@given(selections())
def test_indices_and_mask_agree(rows: RowSelection) -> None:
    indices = rows.to_indices().tolist()
    assert len(indices) == len(rows)
    assert set(np.flatnonzero(rows.to_mask()).tolist()) == set(indices)


@given(selections(), st.integers(0, 50), st.integers(0, 50))
def test_slice_is_a_slice_of_the_indices(rows: RowSelection, offset: int, length: int) -> None:
    expected = rows.to_indices().tolist()[offset : offset + length]
    assert rows.slice(offset, length).to_indices().tolist() == expected


@given(selections(), selections())
def test_intersect_keeps_the_order_of_the_first(one: RowSelection, two: RowSelection) -> None:
    allowed = set(two.to_indices().tolist())
    expected = [i for i in one.to_indices().tolist() if i in allowed]
    assert one.intersect(two).to_indices().tolist() == expected


@given(selections(), st.sets(st.integers(-3, SIZE + 3)))
def test_minus_removes_and_ignores_what_is_outside(rows: RowSelection, deleted: set[int]) -> None:
    expected = [i for i in rows.to_indices().tolist() if i not in deleted]
    assert rows.minus(np.array(sorted(deleted), np.int64)).to_indices().tolist() == expected


def test_minus_of_few_rows_stays_ranges() -> None:
    rows = RowSelection.all(1_000).minus(np.array([0, 500, 999], np.int64))
    assert rows.indices is None
    assert rows.starts is not None and rows.starts.tolist() == [1, 501]
    assert rows.stops is not None and rows.stops.tolist() == [500, 999]


@given(selections(), st.data())
def test_pick_takes_positions_of_the_selection(rows: RowSelection, data: st.DataObject) -> None:
    if not len(rows):
        return
    positions = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=20))
    expected = [rows.to_indices().tolist()[p] for p in positions]
    assert rows.pick(np.array(positions, np.int64)).to_indices().tolist() == expected


@given(selections(), st.integers(1, 17))
def test_split_pieces_join_to_the_whole(rows: RowSelection, size: int) -> None:
    pieces = list(rows.split(size))
    assert all(0 < len(p) <= size for p in pieces)
    assert [i for p in pieces for i in p.to_indices().tolist()] == rows.to_indices().tolist()


@given(selections(), st.integers(0, SIZE))
def test_joined_slices_are_the_whole(rows: RowSelection, length: int) -> None:
    joined = RowSelection.joined(rows.slice(0, length), rows.slice(length, SIZE))
    assert joined.to_indices().tolist() == rows.to_indices().tolist()
    if rows.indices is None and rows.starts is not None:
        assert joined.starts is not None and joined.starts.tolist() == rows.starts.tolist()


def test_take_refuses_rows_that_do_not_exist() -> None:
    with pytest.raises(IndexError, match="0 .. 39"):
        RowSelection.take(SIZE, [3, 40])
    with pytest.raises(IndexError):
        RowSelection.take(SIZE, [-1])


def test_range_is_cut_to_what_exists() -> None:
    assert RowSelection.range(SIZE, -5, 3).to_indices().tolist() == [0, 1, 2]
    assert RowSelection.range(SIZE, 38, 99).to_indices().tolist() == [38, 39]
    assert len(RowSelection.range(SIZE, 7, 7)) == 0


def test_is_all_only_for_every_row_in_order() -> None:
    assert RowSelection.all(5).is_all
    assert ranges((0, 10), (10, 40)).is_all
    assert not RowSelection.take(3, [0, 1, 2]).is_all
    assert not ranges((1, 40)).is_all


@pytest.mark.parametrize("size", [0, 1, 300, 5000])
def test_whole_numbers_are_sorted_as_numpy_sorts_them(size: int) -> None:
    wide = np.random.default_rng(7).integers(-(2**63), 2**63 - 1, size)
    cases: list[NDArray[Any]] = [
        wide,
        wide >> 8,
        wide >> 52,
        np.repeat(wide[: size // 90], 90),
        wide[::-2],
        wide.view(np.uint64),
        wide.view(np.uint64) >> np.uint64(30),
        np.sort(wide),
        np.zeros(size, np.int64),
    ]
    for numbers in cases:
        order, distinct = sorted_order(numbers), sorted_unique(numbers)
        assert (order == np.argsort(numbers, kind="stable")).all()
        assert (distinct == np.unique(numbers)).all() and distinct.dtype == numbers.dtype
