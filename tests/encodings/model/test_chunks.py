"""Rows of a file as runs within pages."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancecy.encodings.model.chunks import runs_of
from lancecy.rows import PageRuns, RowSelection

pages_of = st.lists(st.integers(0, 5), min_size=0, max_size=12)


def starts_of(lengths: list[int]) -> np.ndarray:
    return np.cumsum([0, *lengths], dtype=np.int64)


def rows_of(page_starts: np.ndarray, runs: PageRuns) -> list[int]:
    """What the runs mean, the slow way; fails if a run leaves its page."""
    rows: list[int] = []
    for page, start, count in zip(runs.pages, runs.starts, runs.counts, strict=True):
        assert count > 0
        assert 0 <= start <= page_starts[page + 1] - page_starts[page] - count
        rows += range(int(page_starts[page] + start), int(page_starts[page] + start + count))
    return rows


@given(pages_of, st.data())
def test_ranges_become_runs(lengths: list[int], data: st.DataObject) -> None:
    starts = starts_of(lengths)
    num_rows = int(starts[-1])
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=num_rows, max_size=num_rows)), bool)
    edges = np.flatnonzero(np.diff(mask.astype(np.int8), prepend=0, append=0))
    selection = RowSelection(mask.size, edges[0::2].astype(np.int64), edges[1::2].astype(np.int64))
    assert rows_of(starts, runs_of(starts, selection)) == np.flatnonzero(mask).tolist()


@given(pages_of.filter(any), st.data())
def test_indices_become_runs(lengths: list[int], data: st.DataObject) -> None:
    starts = starts_of(lengths)
    indices = sorted(data.draw(st.sets(st.integers(0, int(starts[-1]) - 1), max_size=30)))
    runs = runs_of(starts, RowSelection.take(int(starts[-1]), indices))
    assert rows_of(starts, runs) == indices


@pytest.mark.parametrize("lengths", [[], [0], [0, 0]])
def test_no_rows(lengths: list[int]) -> None:
    starts = starts_of(lengths)
    for selection in (RowSelection.all(0), RowSelection.take(0, [])):
        assert runs_of(starts, selection).pages.size == 0
