"""Rows by the numbers of their sequences, against the numbers written out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancecy.table.rows.id_search import OPERATORS, Ranges, bounds, rows_among, rows_where
from lancecy.table.rows.row_ids import RangeSegment, RowIdSequence, VersionSequence
from lancecy.table.wire.row_ids import decode_row_ids, decode_versions
from tests.helpers.builders import row_id_sequence, segment, version_sequence

TOP = 2**64 - 1
KINDS = ("range", "range_with_holes", "range_with_bitmap", "sorted_array", "array")


@st.composite
def sequences(draw: st.DrawFn) -> tuple[RowIdSequence | VersionSequence, list[int]]:
    """A sequence of any kinds of segments, and its numbers."""
    if draw(st.booleans()):
        runs = draw(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 9)), max_size=6))
        return decode_versions(version_sequence(runs), None), [v for count, v in runs for _ in range(count)]
    parts, numbers = [], []
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(KINDS))
        base = draw(st.sampled_from([0, 5, 2**32 - 4, 2**63 - 3, TOP - 40]))
        values = [base + v for v in draw(st.lists(st.integers(0, 30), min_size=1, max_size=12, unique=True))]
        if kind == "range":
            values = list(range(min(values), max(values) + 1))
        elif kind != "array":
            values.sort()
        parts.append(segment(kind, values, draw(st.sampled_from([16, 32, 64]))))
        numbers.extend(values)
    return decode_row_ids(row_id_sequence(*parts), None), numbers


def rows_of(ranges: Ranges) -> list[int]:
    starts, stops = (side.tolist() for side in ranges)
    assert all(start < stop for start, stop in zip(starts, stops))
    assert all(stop <= start for stop, start in zip(stops, starts[1:]))
    return [row for start, stop in zip(starts, stops) for row in range(start, stop)]


@given(sequences(), st.sampled_from(sorted(OPERATORS)), st.integers(-1, 12), st.data())
def test_comparisons(
    case: tuple[RowIdSequence | VersionSequence, list[int]], op: str, step: int, data: st.DataObject
) -> None:
    sequence, numbers = case
    near = [n + step for n in numbers] + [step, TOP, TOP + step, 2**70, -(2**70)]
    value = data.draw(st.sampled_from(near))
    expected = [row for row, n in enumerate(numbers) if OPERATORS[op](n, value)]
    assert rows_of(rows_where(sequence, op, value)) == expected


@given(sequences(), st.sets(st.integers(0, 20)), st.data())
def test_membership(
    case: tuple[RowIdSequence | VersionSequence, list[int]], others: set[int], data: st.DataObject
) -> None:
    sequence, numbers = case
    held = data.draw(st.lists(st.sampled_from(numbers), max_size=9)) if numbers else []
    values = {*others, *held, *(n + 1 for n in held if n < TOP), TOP}
    found = rows_among(sequence, np.array(sorted(values), np.uint64))
    assert rows_of(found) == [row for row, n in enumerate(numbers) if n in values]
    assert rows_of(rows_among(sequence, np.empty(0, np.uint64))) == []


@given(sequences(), st.data())
def test_bounds_hold_and_are_tight(
    case: tuple[RowIdSequence | VersionSequence, list[int]], data: st.DataObject
) -> None:
    sequence, numbers = case
    inner = data.draw(st.lists(st.integers(0, len(numbers)), max_size=6))
    edges = np.array(sorted([0, *inner, len(numbers)]), np.int64)
    lows, highs = (side.tolist() for side in bounds(sequence, edges))
    for start, stop, low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), lows, highs, strict=True):
        if stop > start:
            assert (low, high) == (min(numbers[start:stop]), max(numbers[start:stop]))


@pytest.mark.parametrize("op", sorted(OPERATORS))
def test_claimed_ranges_cost_nothing(op: str) -> None:
    rows = 2**32
    sequence = RowIdSequence((RangeSegment(2**63, 2**63 + rows),), np.array([0, rows]))
    starts, stops = rows_where(sequence, op, 2**63 + 7)
    assert starts.size == stops.size <= 2
    assert bounds(sequence, np.array([0, 5, rows]))[1].tolist() == [2**63 + 4, 2**63 + rows - 1]
