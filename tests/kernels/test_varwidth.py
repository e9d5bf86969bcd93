"""varwidth_offsets and list_offsets, compiled and in NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lancecy.errors import FormatError, TruncatedError
from tests.helpers.folded import folded
from tests.kernels.both import Kernels, i64, lay_out, memory_of, pages

FAR = 2**63 - 1
DTYPES = [np.int32, np.int64]


@dataclass
class Strings:
    total: int
    null_count: int
    offsets: list[int]
    valid: list[int]
    spare: int
    starts: list[int]
    lengths: list[int]


def strings(
    kernels: Kernels,
    memory: NDArray[np.uint8],
    positions: NDArray[np.int64],
    counts: list[int],
    *,
    file_size: int = 10_000,
    nullable: bool = True,
    dtype: Any = np.int32,
) -> Strings:
    rows = sum(counts)
    offsets, validity = np.full(rows + 1, 77, dtype), np.full((rows + 7) // 8, 0x5A, np.uint8)
    starts, lengths = np.full(len(counts), 77, np.int64), np.full(len(counts), 77, np.int64)
    total, null_count = kernels.varwidth_offsets(
        memory, positions, i64(*counts), file_size, nullable, offsets, validity, starts, lengths
    )
    bits = np.unpackbits(validity, bitorder="little")
    return Strings(
        total,
        null_count,
        offsets.tolist(),
        bits[:rows].tolist(),
        int(bits[rows:].sum()),
        starts.tolist(),
        lengths.tolist(),
    )


def lists(
    kernels: Kernels,
    memory: NDArray[np.uint8],
    positions: NDArray[np.int64],
    counts: list[int],
    child_lengths: list[int],
    *,
    width: int = 4,
    dtype: Any = np.int32,
) -> tuple[int, list[int], list[int], list[int]]:
    offsets = np.full(sum(counts) + 1, 77, dtype)
    starts, lengths = np.full(len(counts), 77, np.int64), np.full(len(counts), 77, np.int64)
    total = kernels.list_offsets(
        memory, positions, i64(*counts), width, i64(*child_lengths), offsets, starts, lengths
    )
    return total, offsets.tolist(), starts.tolist(), lengths.tolist()


@folded("dtype", DTYPES)
@folded("gap", [b"", b"x", b"seven.."])
def test_varwidth_rebases_pages_from_anywhere_in_the_file(kernels: Kernels, dtype: Any, gap: bytes) -> None:
    offsets = [np.array([500, 503, 503, 509], "<i8"), np.array([20, 25], "<i8")]
    memory, positions = lay_out(offsets, gap=gap)
    assert strings(kernels, memory, positions, [3, 1], dtype=dtype) == Strings(
        total=14,
        null_count=1,
        offsets=[0, 3, 3, 9, 14],
        valid=[1, 0, 1, 1],
        spare=0,
        starts=[500, 20],
        lengths=[9, 5],
    )


def test_varwidth_takes_part_of_a_page(kernels: Kernels) -> None:
    memory, positions = lay_out(pages([[4, 0, 2, 8]], first=100))
    result = strings(kernels, memory, positions + 8, [2])
    assert (result.offsets, result.starts, result.lengths) == ([0, 0, 2], [104], [2])


@pytest.mark.parametrize("dtype", DTYPES)
def test_varwidth_has_no_nulls_in_a_column_that_is_not_nullable(kernels: Kernels, dtype: Any) -> None:
    memory, positions = lay_out(pages([[0, 0, 0, 4, 0] * 3]))
    result = strings(kernels, memory, positions, [15], nullable=False, dtype=dtype)
    assert (result.null_count, result.valid, result.spare) == (0, [1] * 15, 0)


@folded("dtype", DTYPES)
@folded("counts", [[64], [63, 1], [1, 64, 65], [100, 28], [5, 0, 130, 2, 0]])
def test_varwidth_finds_nulls_across_pages_of_any_size(
    kernels: Kernels, counts: list[int], dtype: Any
) -> None:
    rng = np.random.default_rng(sum(counts))
    lengths = [(rng.integers(0, 9, count) * rng.integers(0, 2, count)).tolist() for count in counts]
    memory, positions = lay_out(pages(lengths))
    result = strings(kernels, memory, positions, counts, dtype=dtype)
    flat = [length for page in lengths for length in page]
    assert result.valid == [int(length > 0) for length in flat]
    assert (result.null_count, result.spare) == (flat.count(0), 0)
    assert result.offsets == [0, *np.cumsum(flat).tolist()]


def test_varwidth_of_no_rows_gives_one_offset(kernels: Kernels) -> None:
    assert strings(kernels, memory_of(), i64(), []) == Strings(0, 0, [0], [], 0, [], [])


@folded("position", [-1, 0, 999, FAR, -(2**63)])
def test_varwidth_reads_nothing_for_a_run_without_rows(kernels: Kernels, position: int) -> None:
    assert strings(kernels, memory_of(), i64(position), [0]) == Strings(0, 0, [0], [], 0, [0], [0])


@folded("nullable", [True, False])
@folded("dtype", DTYPES)
@folded(
    ("values", "row"),
    [
        ([0, 4, 3, 9], 1),
        ([-1, 4, 5, 9], 0),
        ([0, 4, 5, 51], 2),
        ([0, 60, 5, 9], 0),
        ([0, 4, -5, 9], 1),
        ([0, 4, 5, -(2**63)], 2),
        ([1, -(2**63), 5, 9], 0),
        ([FAR, -(2**63), FAR, FAR], 0),
        ([-(2**63), 0, 0, 0], 0),
        ([51, 51, 51, 51], 0),
        ([0, 0, 0, FAR], 2),
    ],
)
def test_varwidth_refuses_offsets_that_descend_or_leave_the_file(
    kernels: Kernels, values: list[int], row: int, dtype: Any, nullable: bool
) -> None:
    memory, positions = lay_out([np.array([10, 20, 20], "<i8"), np.array(values, "<i8")])
    with pytest.raises(FormatError, match="offsets") as caught:
        strings(kernels, memory, positions, [2, 3], file_size=50, nullable=nullable, dtype=dtype)
    assert caught.value.position == 2 + row


def test_varwidth_lets_values_end_where_the_file_ends(kernels: Kernels) -> None:
    memory, positions = lay_out([np.array([0, FAR], "<i8")])
    assert strings(kernels, memory, positions, [1], file_size=FAR, dtype=np.int64).total == FAR


def test_varwidth_refuses_more_than_32_bit_offsets_can_hold(kernels: Kernels) -> None:
    memory, positions = lay_out([np.array([0, 2**31 - 8], "<i8"), np.array([5, 12, 14], "<i8")])
    assert strings(kernels, memory, positions, [1, 1], file_size=2**40).total == 2**31 - 1
    with pytest.raises(FormatError, match=r"more than 2\^31-1 bytes") as caught:
        strings(kernels, memory, positions, [1, 2], file_size=2**40)
    assert caught.value.position == 1
    assert strings(kernels, memory, positions, [1, 2], file_size=2**40, dtype=np.int64).total == 2**31 + 1


def test_varwidth_refuses_a_total_beyond_64_bits(kernels: Kernels) -> None:
    memory, positions = lay_out([np.array([0, FAR], "<i8")] * 2)
    with pytest.raises(FormatError, match="more than") as caught:
        strings(kernels, memory, positions, [1, 1], file_size=FAR, dtype=np.int64)
    assert caught.value.position == 1


@folded("position", [1, 9, 32, FAR, FAR - 7, 2**62])
def test_varwidth_refuses_a_run_beyond_the_end(kernels: Kernels, position: int) -> None:
    memory, _ = lay_out([np.array([0, 4, 4, 9], "<i8")])
    with pytest.raises(TruncatedError, match="run 1") as caught:
        strings(kernels, memory, i64(0, position), [3, 3])
    assert caught.value.position == 1


def test_varwidth_counts_the_offset_after_the_last_row(kernels: Kernels) -> None:
    memory, positions = lay_out([np.array([0, 4, 4, 9], "<i8")])
    with pytest.raises(TruncatedError):
        strings(kernels, memory[:-1], positions, [3])


@pytest.mark.parametrize(("position", "counts"), [(-8, [2, 1]), (-(2**63), [2, 1])])
def test_varwidth_refuses_a_negative_position(kernels: Kernels, position: int, counts: list[int]) -> None:
    memory, _ = lay_out(pages([[4, 4, 9]]))
    with pytest.raises(FormatError, match="run 1 has a negative"):
        strings(kernels, memory, i64(0, position), counts)


@pytest.mark.parametrize("count", [-1, -(2**63)])
def test_varwidth_refuses_a_negative_count(kernels: Kernels, count: int) -> None:
    memory, _ = lay_out(pages([[4, 4, 9]]))
    outs = [np.empty(3, np.int32), np.empty(1, np.uint8), np.empty(2, np.int64), np.empty(2, np.int64)]
    with pytest.raises(FormatError, match="run 1 has a negative"):
        kernels.varwidth_offsets(memory, i64(0, 0), i64(1, count), 90, True, *outs)


@folded("sizes", [(3, 1, 1, 1), (5, 1, 1, 1), (0, 0, 1, 1), (4, 2, 1, 1), (4, 1, 2, 1), (4, 1, 1, 0)])
def test_varwidth_needs_outputs_of_the_exact_size(kernels: Kernels, sizes: tuple[int, int, int, int]) -> None:
    memory, positions = lay_out(pages([[4, 4, 9]]))
    dtypes = (np.int32, np.uint8, np.int64, np.int64)
    outs = [np.empty(size, dtype) for size, dtype in zip(sizes, dtypes, strict=True)]
    with pytest.raises(ValueError, match="out") as caught:
        kernels.varwidth_offsets(memory, positions, i64(3), 100, True, *outs)
    assert not isinstance(caught.value, FormatError)


def test_varwidth_refuses_huge_counts_without_overflow(kernels: Kernels) -> None:
    memory, _ = lay_out(pages([[4, 4, 9]]))
    outs = [np.empty(4, np.int32), np.empty(1, np.uint8), np.empty(2, np.int64), np.empty(2, np.int64)]
    with pytest.raises(ValueError, match="out"):
        kernels.varwidth_offsets(memory, i64(0, 0), i64(FAR, FAR), 100, True, *outs)


def test_varwidth_refuses_a_negative_file_size(kernels: Kernels) -> None:
    with pytest.raises(ValueError, match="file_size"):
        strings(kernels, memory_of(), i64(), [], file_size=-1)


@folded("dtype", DTYPES)
@folded("width", [4, 8])
def test_lists_rebase_pages_that_start_anywhere(kernels: Kernels, width: int, dtype: Any) -> None:
    stored = f"<i{width}"
    memory, positions = lay_out([np.array([2, 3, 3, 5], stored), np.array([0, 7], stored)], gap=b"odd")
    result = lists(kernels, memory, positions, [3, 1], [5, 8], width=width, dtype=dtype)
    assert result == (10, [0, 1, 1, 3, 10], [2, 0], [3, 7])


@folded("dtype", DTYPES)
@folded(
    ("width", "values", "row"),
    [
        (4, [0, 4, 3], 1),
        (4, [-1, 4, 5], 0),
        (4, [0, 4, 10], 1),
        (4, [0, 4, -(2**31)], 1),
        (4, [1, -(2**31), 4], 0),
        (4, [2**31 - 1, -(2**31), 4], 0),
        (8, [0, 4, 3], 1),
        (8, [0, 2**32, 2**32], 0),
        (8, [1, -(2**63), 3], 0),
        (8, [-(2**63), -(2**63), -(2**63)], 0),
    ],
)
def test_lists_refuse_offsets_outside_their_child_page(
    kernels: Kernels, width: int, values: list[int], row: int, dtype: Any
) -> None:
    stored = f"<i{width}"
    memory, positions = lay_out([np.array([0, 9], stored), np.array(values, stored)])
    with pytest.raises(FormatError, match="list offsets") as caught:
        lists(kernels, memory, positions, [1, 2], [20, 9], width=width, dtype=dtype)
    assert caught.value.position == 1 + row


@pytest.mark.parametrize("bound", [-1, -(2**63)])
def test_lists_refuse_a_negative_child_length(kernels: Kernels, bound: int) -> None:
    memory, positions = lay_out([np.array([0, 0], "<i4")])
    with pytest.raises(FormatError) as caught:
        lists(kernels, memory, positions, [1], [bound])
    assert caught.value.position == 0


def test_lists_refuse_more_than_32_bit_offsets_can_hold(kernels: Kernels) -> None:
    memory, positions = lay_out([np.array([0, 2**31 - 1], "<i4"), np.array([4, 5], "<i4")])
    with pytest.raises(FormatError, match=r"more than 2\^31-1 list items") as caught:
        lists(kernels, memory, positions, [1, 1], [2**31, 9])
    assert caught.value.position == 1
    assert lists(kernels, memory, positions, [1, 1], [2**31, 9], dtype=np.int64)[0] == 2**31


def test_lists_of_no_rows_read_nothing(kernels: Kernels) -> None:
    assert lists(kernels, memory_of(), i64(), [], []) == (0, [0], [], [])
    assert lists(kernels, memory_of(), i64(-5, FAR), [0, 0], [-1, 7], width=8) == (0, [0], [0, 0], [0, 0])


@pytest.mark.parametrize("width", [4, 8])
def test_lists_refuse_a_run_beyond_the_end(kernels: Kernels, width: int) -> None:
    memory, positions = lay_out([np.array([0, 4, 4], f"<i{width}")])
    with pytest.raises(TruncatedError):
        lists(kernels, memory[:-1], positions, [2], [9], width=width)
    with pytest.raises(TruncatedError):
        lists(kernels, memory, positions + 1, [2], [9], width=width)


@folded("width", [0, 1, 5, 16, -4])
def test_lists_refuse_an_unknown_width(kernels: Kernels, width: int) -> None:
    with pytest.raises(ValueError, match="width must be 4 or 8"):
        lists(kernels, memory_of(), i64(), [], [], width=width)


@folded(("bounds", "sizes"), [([9, 9], (3, 1, 1)), ([9], (4, 1, 1)), ([9], (0, 1, 1)), ([9], (3, 1, 2))])
def test_lists_need_arrays_of_the_exact_size(
    kernels: Kernels, bounds: list[int], sizes: tuple[int, int, int]
) -> None:
    memory, positions = lay_out([np.array([0, 4, 4], "<i4")])
    dtypes = (np.int32, np.int64, np.int64)
    outs = [np.empty(size, dtype) for size, dtype in zip(sizes, dtypes, strict=True)]
    with pytest.raises(ValueError, match="out|differ") as caught:
        kernels.list_offsets(memory, positions, i64(2), 4, i64(*bounds), *outs)
    assert not isinstance(caught.value, FormatError)
