"""Filters answered with indices give the rows of plain scans and of a model, whatever happened to the table.

Both libraries make indices and change the table. Where lancecy made all indices, pylance's answers with them are those of
its own scans.

Each table follows from its seed. ``make hunt-indices`` asks many more: LANCECY_INDEX_QUERIES queries, LANCECY_INDEX_EACH of
each table, from the seed LANCECY_INDEX_SEED on.
"""

from __future__ import annotations

import os
import random
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.compare import assert_tables_equal
from tests.index.conditions import Test, random_test

pytestmark = pytest.mark.interop
pytest.importorskip("lance")

QUERIES = int(os.environ.get("LANCECY_INDEX_QUERIES", "1000"))
EACH = int(os.environ.get("LANCECY_INDEX_EACH", "50"))
FIRST = int(os.environ.get("LANCECY_INDEX_SEED", "0"))
SEEDS = range(FIRST, FIRST + -(-QUERIES // EACH))


@pytest.mark.parametrize("seed", SEEDS)
def test_answers_are_those_of_plain_scans_and_of_a_model(tmp_path: Path, seed: int) -> None:
    from tests.index.histories import History

    history, chance = History(tmp_path, seed), random.Random(f"queries {seed}")
    ds, theirs = history.mine, history.theirs
    rows: list[dict[str, Any]] = ds.to_table(with_row_id=True).to_pylist()
    for number in range(EACH):
        test = random_test(chance, 2, history.columns())
        where = f"table {seed}, query {number}: {test.text}; {history.told}"
        try:
            _check(ds, rows, test, chance)
            # It takes no decimal constants.
            if history.is_ours and number % 3 == 0 and "m " not in test.text:
                _check_pylance(theirs, test)
        except Exception as error:
            raise AssertionError(where) from error


def _check(ds: Any, rows: list[dict[str, Any]], test: Test, chance: random.Random) -> None:
    expected = [row["_rowid"] for row in rows if test.holds(row)]
    plain = ds.to_table(filter=test.text, with_row_id=True, use_scalar_index=False)
    assert plain["_rowid"].to_pylist() == expected
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_tables_equal(ds.to_table(filter=test.text, with_row_id=True, use_scalar_index=True), plain)
        assert ds.count_rows(test.text) == plain.num_rows
        start, most = chance.randrange(4), chance.choice((1, 3, 1000))
        found = ds.to_table(["_rowid"], filter=test.text, offset=start, limit=most)
    assert found["_rowid"].to_pylist() == expected[start : start + most]


def _check_pylance(theirs: Any, test: Test) -> None:
    """It finds what it finds without indices; NaN is a number to it."""
    answers = [
        sorted(
            theirs.scanner(columns=["id"], filter=test.text, with_row_id=True, use_scalar_index=use)
            .to_table()["_rowid"]
            .to_pylist()
        )
        for use in (True, False)
    ]
    assert answers[0] == answers[1], answers
