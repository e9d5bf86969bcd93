"""How many bytes of a file its columns have taken."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from lancecy.encodings.model.ledger import ByteLedger
from lancecy.errors import FormatError


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
