"""The golden tables once more, held against pylance 14; and those that it cannot read."""

from __future__ import annotations

import pytest

import lancecy
from tests.helpers.compare import assert_tables_equal
from tests.helpers.golden import GoldenVersion, all_versions
from tests.interop import live

pytestmark = pytest.mark.interop

# The page table of columns merged in before 0.8.0 starts at field 0, and C++ lists and timestamps are too old.
UNREADABLE = {
    "0.4.21_merged-v2", "0.4.21_merged-v3", "0.7.5_merged-v2", "0.7.5_merged-v3", "0.2.9_appended-v1",
    "0.2.9_appended-v2", "0.2.9_appended-v3", "0.2.9_cpp_types-v1", "0.2.9_merged-v2",
}  # fmt: skip
# Null codes of dictionaries; and the 2.1 of the releases that knew another one.
UNREADABLE |= {"0.16.1_v20_types-v1", "0.17.0_v20_types-v1"}
UNREADABLE |= {str(case) for case in all_versions() if case.golden.what.startswith("v21_early")}

READABLE = [case for case in all_versions() if str(case) not in UNREADABLE]


@pytest.mark.parametrize("case", READABLE, ids=str)
def test_both_read_a_golden_table_alike(case: GoldenVersion) -> None:
    theirs = live.peer(case.golden.path, case.version)
    mine = lancecy.dataset(case.golden.path, version=case.version)

    assert_tables_equal(mine.to_table(), theirs.to_table())
    rows = mine.to_table(columns=["id"], with_row_id=True, with_row_address=True)
    assert_tables_equal(rows, theirs.to_table(columns=["id"], with_row_id=True, with_row_address=True))


@pytest.mark.parametrize("case", [c for c in all_versions() if str(c) in UNREADABLE], ids=str)
def test_pylance_cannot_read_what_lancecy_reads(case: GoldenVersion) -> None:
    dataset = lancecy.dataset(case.golden.path, version=case.version)
    assert_tables_equal(dataset.to_table(), case.expected, nullability=case.golden.nullability_stored)

    # A panic of its Rust core is not an Exception.
    with pytest.raises(
        BaseException,
        match="out of range|Unsupported timestamp|column types must match|bytes for bitmap|Option::unwrap|Non-leaf|capability",
    ):
        live.peer(case.golden.path, case.version).to_table()
