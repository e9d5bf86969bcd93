"""How often rows are requested, and how many bytes of a file its columns have taken."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancecy.encodings.model.ledger import ByteLedger
from lancecy.encodings.v0.read import RequestedRows
from lancecy.errors import FormatError
from lancecy.rows import PageRuns

RUNS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 12), st.integers(1, 6)), max_size=12)


def runs_of(runs: list[tuple[int, int, int]]) -> PageRuns:
    table = np.array(runs, np.int64).reshape(-1, 3)
    return PageRuns(*(np.ascontiguousarray(table[:, i]) for i in range(3)))


@given(RUNS)
def test_times_is_how_often_the_most_wanted_row_is_wanted(runs: list[tuple[int, int, int]]) -> None:
    wanted = [(page, row) for page, start, count in runs for row in range(start, start + count)]
    assert RequestedRows(runs_of(runs)).times == max([1, *(wanted.count(row) for row in set(wanted))])


def test_rows_at_the_end_of_a_page_are_not_those_of_the_next() -> None:
    last = 2**32 - 1
    assert RequestedRows(runs_of([(1, 0, 1), (0, last, 1), (2, 0, 5)])).times == 1
    assert RequestedRows(runs_of([(2**28 - 1, last, 1)] * 3)).times == 3


def test_ledger_counts_the_most_that_each_part_took() -> None:
    ledger = ByteLedger()
    for nbytes in (30, 50, 10):
        ledger.charge(0, "pages", nbytes, 100)
    ledger.charge(0, "values", 25, 100)
    with pytest.raises(FormatError, match="values of column 1 take 26 bytes, where 25 of 100 are left"):
        ledger.charge(1, "values", 26, 100)
    # Refused bytes were not counted.
    ledger.charge(1, "values", 25, 100)
    ledger.charge(0, "pages", 50, 100)
    with pytest.raises(FormatError):
        ledger.charge(0, "pages", 51, 100)


def test_ledger_has_counted_bytes() -> None:
    ledger = ByteLedger()
    assert ledger.has(3, "values", 0)
    assert not ledger.has(3, "values", 1)
    ledger.charge(3, "values", 7, 100)
    assert ledger.has(3, "values", 7)
    assert not ledger.has(3, "values", 8)
    assert not ledger.has(3, "pages", 7)


def test_more_than_a_file_holds_is_refused_at_once() -> None:
    with pytest.raises(FormatError, match="take 101 bytes, where 100 of 100"):
        ByteLedger().charge(0, "pages", 101, 100)
    ByteLedger().charge(0, "pages", 100, 100)


def test_threads_together_take_no_more_than_there_is() -> None:
    ledger = ByteLedger()

    def take(column: int) -> int:
        try:
            ledger.charge(column, "pages", 3, 1000)
        except FormatError:
            return 0
        return 3

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(take, range(2000))) == 999
