"""Random nested tables of every type of leaf: what one library writes, both read; also after deletions and compaction.

``make hunt-nested`` runs many more of them: LANCECY_NESTED_TABLES tables, of another seed by ``ARGS="--seed 7"``.
"""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from tests.helpers.compare import assert_tables_equal
from tests.interop.exchange import exchange, random_case

pytestmark = pytest.mark.interop

TABLES = int(os.environ.get("LANCECY_NESTED_TABLES", "32"))
PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_both_read_random_nested_tables_that_one_of_them_writes(part: int, tmp_path: Path) -> None:
    for number in range(part, TABLES, PARTS):
        exchange(0, number, tmp_path / str(number))


def test_a_table_follows_from_its_seed_and_number() -> None:
    for number in range(8):
        (is_mine, one), (was_mine, other) = random_case(3, number), random_case(3, number)
        assert (is_mine, one.version) == (was_mine, other.version)
        assert_tables_equal(one.expected, other.expected, metadata=True)
    assert random_case(3, 0)[1].expected.schema != random_case(4, 0)[1].expected.schema


def test_tables_of_some_numbers_have_every_kind_of_type() -> None:
    found: set[str] = set()
    for number in range(150):
        _, case = random_case(2, number)
        found.add(case.version)
        for field in case.batches[0].schema:
            found.update(kinds(field.type))
            found.update({"required"} if not field.nullable else ())
    expected = {
        "struct",
        "list",
        "large_list",
        "map",
        "fixed_size_list",
        "dictionary",
        "extension",
        "required",
    }
    expected |= {"string_view", "binary_view", "halffloat", "decimal256", "time64", "duration", "null"}
    assert expected | {"0.1", "2.0", "2.1", "2.2", "2.3"} <= found


def kinds(kind: pa.DataType) -> set[str]:
    """Names of a type and of all in it."""
    found = {str(kind).partition("<")[0].partition("[")[0].partition("(")[0]}
    for i in range(kind.num_fields):
        found |= kinds(kind.field(i).type)
    return found
