"""copy_bits, find_bits, filter_fixed and filter_lists, compiled and in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from lancecy.errors import FormatError, TruncatedError
from tests.helpers.folded import folded
from tests.kernels.both import Kernels, assert_same, i64, memory_of

FAR = 2**63 - 1
BITS = np.random.default_rng(5).integers(0, 2, 4096, np.uint8)
BYTES = memory_of(np.packbits(BITS, bitorder="little"))


def copy(kernels: Kernels, runs: list[tuple[int, int, int]]) -> tuple[int, np.ndarray, int]:
    """Number of set bits, the bits, and the value of the spare bits."""
    total = sum(count for _, _, count in runs)
    out = np.full((total + 7) // 8, 0xFF, np.uint8)
    ones = kernels.copy_bits(BYTES, *(i64(*numbers) for numbers in zip(*runs, strict=True)), out)
    bits = np.unpackbits(out, bitorder="little")
    return ones, bits[:total], int(bits[total:].sum())


@folded("skip", [0, 1, 5, 7, 8, 11, 64, 99])
@folded("count", [1, 7, 8, 9, 63, 64, 65, 128, 200, 1600])
@folded("before", [0, 1, 7, 8, 13])
def test_copy_bits_at_every_alignment_of_source_and_output(
    kernels: Kernels, skip: int, count: int, before: int
) -> None:
    runs = [(1, 3, before), (10, skip, count), (2, 1, 3)]
    expected = np.concatenate([BITS[8 * p + o : 8 * p + o + c] for p, o, c in runs])
    ones, bits, spare = copy(kernels, runs)
    np.testing.assert_array_equal(bits, expected)
    assert (ones, spare) == (int(expected.sum()), 0)


def test_copy_bits_of_many_short_runs(kernels: Kernels) -> None:
    runs = [(i, (3 * i) % 20, i % 4) for i in range(90)]
    expected = np.concatenate([BITS[8 * p + o : 8 * p + o + c] for p, o, c in runs])
    np.testing.assert_array_equal(copy(kernels, runs)[1], expected)


def test_copy_bits_of_all_memory_to_its_last_bit(kernels: Kernels) -> None:
    assert copy(kernels, [(0, 0, 4096)])[0] == int(BITS.sum())
    assert copy(kernels, [(0, 4095, 1)])[1].tolist() == [BITS[4095]]
    assert copy(kernels, [(511, 3, 5), (510, 11, 5)])[1].tolist() == [*BITS[-5:], *BITS[-5:]]


@folded(
    ("position", "bit_offset", "count"),
    [
        (512, 0, 1),
        (511, 3, 6),
        (511, 8, 1),
        (0, 4096, 1),
        (0, 4000, 97),
        (FAR, 7, 1),
        (5, FAR, 1),
        (FAR, FAR, 1),
    ],
)
def test_copy_bits_refuses_bits_beyond_the_end(
    kernels: Kernels, position: int, bit_offset: int, count: int
) -> None:
    with pytest.raises(TruncatedError, match="run 1") as caught:
        copy(kernels, [(4, 4, 2), (position, bit_offset, count)])
    assert caught.value.position == 1


@folded("bad", [(-1, 0, 1), (0, -1, 1), (5, -8, 1), (-(2**63), 0, 1), (0, -(2**63), 1)])
def test_copy_bits_refuses_negative_positions_and_offsets(
    kernels: Kernels, bad: tuple[int, int, int]
) -> None:
    with pytest.raises(FormatError, match="negative") as caught:
        copy(kernels, [(4, 4, 2), bad])
    assert caught.value.position == 1


@pytest.mark.parametrize("count", [-1, -9, -(2**63)])
def test_copy_bits_refuses_a_negative_count(kernels: Kernels, count: int) -> None:
    with pytest.raises(FormatError, match="negative"):
        kernels.copy_bits(BYTES, i64(0, 0), i64(0, 0), i64(10, count), np.empty(2, np.uint8))


@pytest.mark.parametrize("size", [0, 1, 3])
def test_copy_bits_needs_an_output_of_the_exact_size(kernels: Kernels, size: int) -> None:
    with pytest.raises(ValueError, match="out") as caught:
        kernels.copy_bits(BYTES, i64(0, 0), i64(0, 0), i64(7, 8), np.empty(size, np.uint8))
    assert not isinstance(caught.value, FormatError)


def test_copy_bits_does_not_overflow_on_huge_counts(kernels: Kernels) -> None:
    with pytest.raises(ValueError, match="out"):
        kernels.copy_bits(BYTES, i64(0, 0), i64(0, 0), i64(FAR, FAR), np.empty(2, np.uint8))


def test_copy_bits_of_nothing_asks_for_nothing(kernels: Kernels) -> None:
    nothing = np.empty(0, np.uint8)
    assert kernels.copy_bits(memory_of(), i64(), i64(), i64(), nothing) == 0
    assert kernels.copy_bits(memory_of(), i64(-1, FAR), i64(FAR, -7), i64(0, 0), nothing) == 0


def test_copy_bits_needs_arrays_of_one_length(kernels: Kernels) -> None:
    with pytest.raises(ValueError, match="differ in length"):
        kernels.copy_bits(BYTES, i64(0, 0), i64(0), i64(4, 4), np.empty(1, np.uint8))
    with pytest.raises(ValueError, match="differ in length"):
        kernels.copy_bits(BYTES, i64(0), i64(0), i64(4, 4), np.empty(1, np.uint8))


@folded("skip", range(8))
@folded("before", [0, 3])
def test_copy_bits_stays_inside_runs_that_end_with_memory(skip: int, before: int) -> None:
    """Every length up to two words and a half; outputs are guarded, inputs are blocks of their own."""
    for count in range(1, 160):
        memory = memory_of(BYTES[: (skip + count + 7) // 8])
        inputs = {"positions": i64(0, 0), "bit_offsets": i64(0, skip), "counts": i64(before, count)}
        outcome = assert_same(
            "copy_bits", {"memory": memory, **inputs}, {"out": ((before + count + 7) // 8, np.uint8)}
        )
        assert outcome.value == int(BITS[:before].sum() + BITS[skip : skip + count].sum())


@folded("first", [0, 1, 7, 8, 11, 64, 99])
@folded("count", [0, 1, 7, 8, 9, 63, 64, 65, 128, 200, 1600])
def test_find_bits_at_every_alignment(kernels: Kernels, first: int, count: int) -> None:
    expected = np.flatnonzero(BITS[first : first + count])
    out = np.full(expected.size + 2, -1, np.int64)
    assert kernels.find_bits(BYTES, first, count, out) == expected.size
    np.testing.assert_array_equal(out[: expected.size], expected)
    assert out[expected.size :].tolist() == [-1, -1]


@folded("part", [0.0, 0.001, 0.9, 1.0])
def test_find_bits_where_few_or_nearly_all_are_set(kernels: Kernels, part: float) -> None:
    bits = np.random.default_rng(1).random(5000) < part
    out = np.empty(int(bits.sum()), np.int64)
    assert kernels.find_bits(np.packbits(bits, bitorder="little"), 0, 5000, out) == out.size
    np.testing.assert_array_equal(out, np.flatnonzero(bits))


@folded(("first", "count"), [(0, 4097), (4096, 1), (1, 4096), (FAR, 1), (1, FAR), (FAR, FAR)])
def test_find_bits_refuses_bits_beyond_the_end(kernels: Kernels, first: int, count: int) -> None:
    with pytest.raises(TruncatedError):
        kernels.find_bits(BYTES, first, count, np.empty(5000, np.int64))


@folded(("first", "count"), [(-1, 2), (2, -1), (-FAR, FAR)])
def test_find_bits_refuses_negative_numbers(kernels: Kernels, first: int, count: int) -> None:
    with pytest.raises(FormatError):
        kernels.find_bits(BYTES, first, count, np.empty(9, np.int64))


@folded("room", [0, 1, 63])
def test_find_bits_refuses_more_bits_than_there_is_room_for(kernels: Kernels, room: int) -> None:
    with pytest.raises(ValueError, match="size"):
        kernels.find_bits(memory_of(b"\xff" * 8), 0, 64, np.empty(room, np.int64))


@folded("skip", [0, 5])
def test_find_bits_stays_inside_memory(skip: int) -> None:
    for nbytes in (1, 7, 8, 9, 17):
        memory = memory_of(b"\xff" * nbytes)
        inputs = {"bits": memory, "first": skip, "count": 8 * nbytes - skip}
        assert_same("find_bits", inputs, {"out": (8 * nbytes, np.int64)})


# -- filter_fixed -----------------------------------------------------------------------


@folded("width", [1, 2, 3, 4, 8, 16])
@folded("first", [0, 5, 64])
@folded("part", [0.0, 0.02, 0.5, 0.98, 1.0])
def test_filter_fixed_keeps_the_values_of_set_bits(
    kernels: Kernels, width: int, first: int, part: float
) -> None:
    random = np.random.default_rng(width)
    for count in (0, 1, 63, 64, 65, 200, 1000):
        bits = random.random(first + count) < part
        values = random.integers(0, 256, (count, width)).astype(np.uint8)
        expected = values[bits[first:]].reshape(-1)
        out = np.full(expected.size + 3, 77, np.uint8)
        packed = np.packbits(bits, bitorder="little")
        found = kernels.filter_fixed(values.reshape(-1), width, packed, first, count, out)
        assert found == int(bits[first:].sum())
        np.testing.assert_array_equal(out[: expected.size], expected)
        assert out[expected.size :].tolist() == [77, 77, 77]


@folded(("first", "count"), [(0, 9), (8, 1), (1, 8), (FAR, 1), (1, FAR)])
def test_filter_fixed_refuses_bits_beyond_the_end(kernels: Kernels, first: int, count: int) -> None:
    with pytest.raises(TruncatedError):
        kernels.filter_fixed(memory_of(bytes(9)), 1, memory_of(b"a"), first, count, np.empty(9, np.uint8))


@folded(("first", "count"), [(-1, 2), (2, -1), (-FAR, FAR)])
def test_filter_fixed_refuses_negative_numbers(kernels: Kernels, first: int, count: int) -> None:
    with pytest.raises(FormatError):
        kernels.filter_fixed(memory_of(bytes(2)), 1, memory_of(b"abc"), first, count, np.empty(9, np.uint8))


@folded(("width", "size"), [(0, 0), (-1, 8), (2, 15), (2, 17), (FAR, 8), (1, 9)])
def test_filter_fixed_refuses_values_of_another_size(kernels: Kernels, width: int, size: int) -> None:
    with pytest.raises(ValueError, match="values"):
        kernels.filter_fixed(memory_of(bytes(size)), width, memory_of(b"a"), 0, 8, np.empty(99, np.uint8))


@folded("room", [0, 1, 127])
def test_filter_fixed_refuses_more_values_than_there_is_room_for(kernels: Kernels, room: int) -> None:
    with pytest.raises(ValueError, match="size"):
        kernels.filter_fixed(
            memory_of(bytes(128)), 2, memory_of(b"\xff" * 8), 0, 64, np.empty(room, np.uint8)
        )


@folded("skip", [0, 5])
@folded("width", [1, 2, 3, 4, 8])
def test_filter_fixed_stays_inside_memory(skip: int, width: int) -> None:
    for nbytes in (1, 7, 8, 9, 17):
        count = 8 * nbytes - skip
        inputs = {
            "values": memory_of(bytes(range(256)) * 5)[: count * width].copy(),
            "width": width,
            "bits": memory_of(b"\xf7" * nbytes),
            "first": skip,
            "count": count,
        }
        assert_same("filter_fixed", inputs, {"out": (count * width, np.uint8)})


# -- filter_lists -----------------------------------------------------------------------


@folded("dtype", ["<i4", "<i8"])
@folded("first", [0, 5, 64])
@folded("part", [0.0, 0.02, 0.5, 0.98, 1.0])
def test_filter_lists_keeps_the_elements_of_set_bits(
    kernels: Kernels, dtype: str, first: int, part: float
) -> None:
    random = np.random.default_rng(first)
    for count in (0, 1, 63, 64, 65, 200, 1000):
        bits = random.random(first + count) < part
        lengths = random.integers(0, 40, count) * (random.random(count) < 0.7)
        offsets = (9 + np.concatenate(([0], np.cumsum(lengths)))).astype(dtype)
        kept = bits[first:]
        out = np.full(int(kept.sum()) + 3, 77, dtype)
        marks = np.zeros((int(lengths.sum()) + 7) // 8, np.uint8)
        found = kernels.filter_lists(offsets, np.packbits(bits, bitorder="little"), first, out, marks)
        assert found == int(kept.sum())
        assert out.tolist() == [0, *np.cumsum(lengths[kept]).tolist(), 77, 77]
        expected = np.repeat(kept, lengths)
        np.testing.assert_array_equal(marks, np.packbits(expected, bitorder="little"))


@folded("dtype", ["<i4", "<i8"])
def test_filter_lists_refuses_offsets_that_descend_or_leave_their_elements(
    kernels: Kernels, dtype: str
) -> None:
    for offsets, row in (([0, 5, 3, 9], 1), ([0, 2, 4, 17], 2), ([0, -1, 4, 5], 0), ([5, 4, 6, 7], 0)):
        found = np.array(offsets, dtype)
        with pytest.raises(FormatError) as caught:
            kernels.filter_lists(found, memory_of(b"\x07"), 0, np.empty(4, dtype), np.zeros(2, np.uint8))
        assert caught.value.position == row
    # A list that is not kept may be anything.
    wild, out = np.array([0, 5, -9, 5, 9], dtype), np.empty(3, dtype)
    assert kernels.filter_lists(wild, memory_of(b"\x09"), 0, out, np.zeros(2, np.uint8)) == 2
    assert out.tolist() == [0, 5, 9]


@folded(("size", "first"), [(0, 0), (1, -1), (9, 1), (2, FAR)])
def test_filter_lists_refuses_numbers_that_do_not_fit(kernels: Kernels, size: int, first: int) -> None:
    offsets, out = np.zeros(size, np.int64), np.empty(9, np.int64)
    with pytest.raises((FormatError, TruncatedError, ValueError)):
        kernels.filter_lists(offsets, memory_of(b"a"), first, out, np.zeros(1, np.uint8))


@folded("room", [0, 1, 8])
def test_filter_lists_refuses_more_lists_than_there_is_room_for(kernels: Kernels, room: int) -> None:
    offsets, marks = np.zeros(9, np.int64), np.zeros(1, np.uint8)
    with pytest.raises(ValueError, match="entry|size"):
        kernels.filter_lists(offsets, memory_of(b"\xff"), 0, np.empty(room, np.int64), marks)


@folded("skip", [0, 5])
def test_filter_lists_stays_inside_memory(skip: int) -> None:
    for nbytes in (1, 7, 8, 9, 17):
        count = 8 * nbytes - skip
        offsets = np.arange(0, 3 * count + 1, 3, dtype=np.int32)
        inputs = {"offsets": offsets, "bits": memory_of(b"\xf7" * nbytes), "first": skip}
        outs = {"out_offsets": (count + 1, np.int32), "out_bits": ((3 * count + 7) // 8, np.uint8)}
        assert_same("filter_lists", inputs, outs)
