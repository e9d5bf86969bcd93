"""Rows are picked where that is cheaper than reading all candidates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
import pytest

from lancecy.rows import RowSelection
from lancecy.scanning.fragment import FragmentFiles
from lancecy.scanning.outputs import all_rows_ns, pick_is_cheaper
from lancecy.schema import Field

ROWS = 100_000
INT = Field("i", 0, logical_type="int64")
TEXT = Field("t", 0, logical_type="string")
JSON = Field("j", 0, logical_type="json")
LIST = Field("l", 0, logical_type="list", children=(Field("item", 1, logical_type="int64"),))
PAIR = Field("s", 0, logical_type="struct", children=(Field("a", 1, logical_type="int64"), TEXT))
VECTOR = Field("v", 0, logical_type="fixed_size_list:float:256")
WIDTHS = {INT: 8, TEXT: 20, JSON: 50, LIST: 24, PAIR: 28, VECTOR: 1024}


@dataclass
class Files:
    """As much of a fragment's files as costs are told from."""

    version: tuple[int, int]
    num_rows: int = ROWS

    @property
    def in_chunks(self) -> bool:
        return self.version >= (2, 1)

    def estimated_bytes(self, fields: list[Field]) -> int:
        return sum(WIDTHS[field] for field in fields) * self.num_rows


def picks(version: tuple[int, int], wanted: Field, indices: object, num_rows: int = ROWS) -> bool:
    picked = RowSelection.take(ROWS, np.asarray(indices))
    rows = RowSelection.range(ROWS, 0, num_rows)
    return pick_is_cheaper(cast(FragmentFiles, Files(version)), wanted, rows, picked)


every_version = pytest.mark.parametrize("version", [(0, 1), (2, 0), (2, 1), (2, 2), (2, 3)])
every_type = pytest.mark.parametrize("wanted", WIDTHS, ids=lambda field: field.name)


@every_version
@every_type
def test_few_rows_are_picked_and_most_are_not(version: tuple[int, int], wanted: Field) -> None:
    assert picks(version, wanted, [5])
    assert picks(version, wanted, np.arange(0, ROWS, 1000))
    assert not picks(version, wanted, np.arange(ROWS))
    assert not picks(version, wanted, np.delete(np.arange(ROWS), np.arange(0, ROWS, 50)))


@every_version
@every_type
def test_rows_that_follow_each_other_are_one_run(version: tuple[int, int], wanted: Field) -> None:
    assert picks(version, wanted, np.arange(ROWS // 4, ROWS // 2))


@every_version
def test_what_costs_more_to_decode_is_picked_longer(version: tuple[int, int]) -> None:
    def closest(wanted: Field) -> int:
        """The least distance at which rows are still picked one by one."""
        return min(step for step in range(2, 1000) if picks(version, wanted, np.arange(0, ROWS, step)))

    assert closest(JSON) < closest(INT)
    assert closest(VECTOR) < closest(INT)
    assert closest(JSON) <= closest(TEXT)


@every_version
@pytest.mark.parametrize("nbytes", [1 << 28, 1 << 29, (1 << 29) + 8])
def test_rows_of_half_a_gigabyte_are_not_few_values(version: tuple[int, int], nbytes: int) -> None:
    wide = Field("w", 0, logical_type=f"fixed_size_binary:{nbytes}")
    files = cast(FragmentFiles, Files(version))
    assert all_rows_ns(files, [wide], 1) > 1e6 > all_rows_ns(files, [INT], 1000)
