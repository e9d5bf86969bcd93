"""chunk_headers, level_validity, peel_lists and select_rows, compiled and in NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lancecy.errors import FormatError, TruncatedError
from tests.kernels.both import CYTHON, REFERENCE, Kernels, assert_same, i64, memory_of

FAR = 2**63 - 1


def u16(*levels: int) -> NDArray[np.uint16]:
    return np.array(levels, np.uint16)


# -- chunk_headers ----------------------------------------------------------------------


def chunk(*parts: bytes, levels: int, num_rep_def: int, size_width: int = 2) -> bytes:
    """A chunk as a writer lays it out; the first ``num_rep_def`` parts are levels."""
    sizes = [len(part).to_bytes(2, "little") for part in parts[:num_rep_def]]
    sizes += [len(part).to_bytes(size_width, "little") for part in parts[num_rep_def:]]
    result = levels.to_bytes(2, "little") + b"".join(sizes)
    for part in parts:
        result += b"\xfe" * (-len(result) % 8) + part
    return result + b"\xfe" * (-len(result) % 8)


def headers(
    kernels: Kernels,
    chunks: list[bytes],
    *,
    has_rep: bool = False,
    has_def: bool = False,
    num_buffers: int = 1,
    size_width: int = 2,
    gap: bytes = b"",
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    memory = memory_of(*(part for each in chunks for part in (gap, each)))
    lengths = i64(*(len(each) for each in chunks))
    positions = np.cumsum(lengths + len(gap)) - lengths
    out = np.full((5 + 2 * num_buffers, len(chunks)), 77)
    kernels.chunk_headers(memory, positions, lengths, has_rep, has_def, num_buffers, size_width, out)
    return out[:5], np.stack((out[5::2], out[6::2]))


def test_the_header_of_a_nullable_column(kernels: Kernels) -> None:
    stored = bytes.fromhex("0300 0600 1800 fefe 000001000000 fefe") + bytes(24)
    outs, buffers = headers(kernels, [stored], has_def=True)
    assert outs.ravel().tolist() == [3, 0, 0, 8, 6]
    assert buffers.ravel().tolist() == [16, 24]


def test_the_header_of_a_nullable_column_with_wide_sizes(kernels: Kernels) -> None:
    stored = bytes.fromhex("0300 0600 18000000 000001000000 fefe") + bytes(24)
    outs, buffers = headers(kernels, [stored], has_def=True, size_width=4)
    assert (outs.ravel().tolist(), buffers.ravel().tolist()) == ([3, 0, 0, 8, 6], [16, 24])


@pytest.mark.parametrize("size_width", [2, 4])
@pytest.mark.parametrize("gap", [b"", b"odd"])
def test_headers_of_lists_with_several_buffers(kernels: Kernels, size_width: int, gap: bytes) -> None:
    parts = (b"r" * 10, b"d" * 9, b"v" * 3, b"", b"w" * 17)
    stored = chunk(*parts, levels=5, num_rep_def=2, size_width=size_width)
    outs, buffers = headers(
        kernels, [stored, stored], has_rep=True, has_def=True, num_buffers=3, size_width=size_width, gap=gap
    )
    memory = b"".join([gap + stored] * 2)
    for i in range(2):
        assert outs[0, i] == 5
        spans = [outs[1:3, i], outs[3:5, i], *buffers[:, :, i].T]
        assert [memory[start : start + size] for start, size in spans] == list(parts)


def test_no_chunks_have_no_headers(kernels: Kernels) -> None:
    outs, buffers = headers(kernels, [], has_rep=True, num_buffers=2)
    assert (outs.shape, buffers.shape) == ((5, 0), (2, 2, 0))


@pytest.mark.parametrize(
    "stored",
    [b"", b"\0", b"\0\0\0", bytes.fromhex("0000 0100"), bytes.fromhex("0000 ffff") + bytes(60_000)],
)
def test_parts_that_pass_the_end_of_their_chunk_are_refused(kernels: Kernels, stored: bytes) -> None:
    good = chunk(b"v", levels=0, num_rep_def=0)
    with pytest.raises(FormatError, match="chunk 1") as caught:
        headers(kernels, [good, stored, good])
    assert caught.value.position == 1


@pytest.mark.parametrize(
    ("position", "length", "error"),
    [(-1, 8, FormatError), (0, -1, FormatError), (9, 8, TruncatedError), (FAR, FAR, TruncatedError)],
)
def test_chunks_outside_memory_are_refused(
    kernels: Kernels, position: int, length: int, error: type[Exception]
) -> None:
    out = np.empty((5, 1), np.int64)
    with pytest.raises(error):
        kernels.chunk_headers(memory_of(bytes(16)), i64(position), i64(length), False, False, 0, 2, out)


@pytest.mark.parametrize(
    ("num_buffers", "size_width", "shape"),
    [(1, 3, (7, 1)), (-1, 2, (3, 1)), (70_000, 2, (9, 1)), (2, 2, (7, 1)), (1, 2, (9, 1)), (1, 2, (7, 2))],
)
def test_headers_need_arrays_of_the_exact_size(
    kernels: Kernels, num_buffers: int, size_width: int, shape: tuple[int, int]
) -> None:
    out = np.empty(shape, np.int64)
    with pytest.raises(ValueError, match="size_width|num_buffers|out needs") as caught:
        kernels.chunk_headers(
            memory_of(bytes(16)), i64(0), i64(8), False, False, num_buffers, size_width, out
        )
    assert not isinstance(caught.value, FormatError)


@given(
    st.lists(st.binary(max_size=24), max_size=4),
    st.booleans(),
    st.booleans(),
    st.integers(0, 3),
    st.sampled_from([2, 4]),
    st.lists(st.tuples(st.integers(-1, 40), st.integers(-1, 40)), max_size=3),
)
def test_headers_agree_with_the_twin(
    parts: list[bytes],
    has_rep: bool,
    has_def: bool,
    num_buffers: int,
    size_width: int,
    more: list[tuple[int, int]],
) -> None:
    stored = chunk(*parts, levels=7, num_rep_def=has_rep + has_def, size_width=size_width)
    positions, lengths = i64(0, *(p for p, _ in more)), i64(len(stored), *(n for _, n in more))

    def call(kernels: Kernels) -> object:
        out = np.zeros((5 + 2 * num_buffers, positions.size), np.int64)
        arguments = (memory_of(stored), positions, lengths, has_rep, has_def, num_buffers, size_width)
        try:
            kernels.chunk_headers(*arguments, out)
        except FormatError as error:
            return type(error), error.position, str(error)
        return out.tolist()

    assert call(CYTHON) == call(REFERENCE)


# -- level_validity ---------------------------------------------------------------------


def validity(
    kernels: Kernels, levels: NDArray[np.uint16], valid_max: int, visible_max: int
) -> tuple[int, int, list[int]]:
    bits = np.full((levels.size + 7) // 8, 0x5A, np.uint8)
    slots, nulls = kernels.level_validity(levels, valid_max, visible_max, bits)
    unpacked = np.unpackbits(bits, bitorder="little")
    assert not unpacked[slots:].any()
    return slots, nulls, unpacked[:slots].tolist()


def test_a_level_above_the_layer_is_a_null(kernels: Kernels) -> None:
    assert validity(kernels, u16(0, 1, 0), 0, 1) == (3, 1, [1, 0, 1])


def test_levels_of_lists_without_items_have_no_slot(kernels: Kernels) -> None:
    assert validity(kernels, u16(0, 3, 1, 2, 0), 0, 1) == (3, 1, [1, 0, 1])
    assert validity(kernels, u16(3, 2), 0, 1) == (0, 0, [])


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 127, 128, 129, 1000])
@pytest.mark.parametrize("highest", [1, 5])
def test_validity_of_any_number_of_levels(kernels: Kernels, size: int, highest: int) -> None:
    levels = np.random.default_rng(size).integers(0, highest + 1, size).astype(np.uint16)
    expected = [int(level <= 1) for level in levels.tolist() if level <= 3]
    assert validity(kernels, levels, 1, 3) == (len(expected), expected.count(0), expected)


def test_the_highest_level_is_a_level(kernels: Kernels) -> None:
    levels = np.full(70, 0xFFFF, np.uint16)
    assert validity(kernels, levels, 0xFFFF, 0xFFFF) == (70, 0, [1] * 70)
    assert validity(kernels, levels, 0, 0xFFFE) == (0, 0, [])


@pytest.mark.parametrize(("valid", "visible", "size"), [(-1, 0, 1), (0, 65536, 1), (0, 0, 0), (0, 0, 2)])
def test_validity_needs_levels_and_a_bit_for_each(
    kernels: Kernels, valid: int, visible: int, size: int
) -> None:
    with pytest.raises(ValueError, match="level"):
        kernels.level_validity(u16(0), valid, visible, np.empty(size, np.uint8))


@given(
    st.lists(st.sampled_from([0, 0, 0, 0, 1, 2, 3, 0xFFFF]), max_size=200),
    st.sampled_from([0, 1, 2, 0xFFFF]),
    st.sampled_from([0, 1, 3, 0xFFFF]),
)
def test_validity_agrees_with_the_twin(levels: list[int], valid: int, visible: int) -> None:
    inputs = {"levels": u16(*levels), "valid_max": valid, "visible_max": visible}
    assert_same("level_validity", inputs, {"out_validity": ((len(levels) + 7) // 8, np.uint8)})


# -- peel_lists -------------------------------------------------------------------------


@dataclass
class Peeled:
    offsets: list[int]
    valid: list[int]
    null_count: int
    rep: list[int]
    definition: list[int] | None


def peel(
    kernels: Kernels,
    rep: NDArray[np.uint16],
    definition: NDArray[np.uint16] | None,
    null: int,
    empty: int,
    upper: int,
    visible: int,
    *,
    dtype: Any = np.int32,
) -> Peeled:
    size = rep.size
    offsets, bits = np.full(size + 1, 77, dtype), np.full((size + 7) // 8, 0x5A, np.uint8)
    left_rep, left_def = np.empty(size, np.uint16), None if definition is None else np.empty(size, np.uint16)
    lists, children, null_count, left = kernels.peel_lists(
        rep, definition, null, empty, upper, visible, offsets, bits, left_rep, left_def
    )
    unpacked = np.unpackbits(bits, bitorder="little")
    assert not unpacked[lists:].any()
    assert offsets[lists] == children
    return Peeled(
        offsets[: lists + 1].tolist(),
        unpacked[:lists].tolist(),
        null_count,
        left_rep[:left].tolist(),
        None if left_def is None else left_def[:left].tolist(),
    )


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_null_and_empty_lists(kernels: Kernels, dtype: Any) -> None:
    """[[1, 2], [], null, [3]]"""
    rep, levels = u16(1, 0, 1, 1, 1), u16(0, 0, 2, 1, 0)
    result = peel(kernels, rep, levels, 1, 2, 2, 2, dtype=dtype)
    assert result == Peeled([0, 2, 2, 2, 3], [1, 1, 0, 1], 1, [0, 0, 0, 0], [0, 2, 1, 0])


def test_lists_of_lists(kernels: Kernels) -> None:
    """[[[1], []], [], null, [null, [2, 3]]] with null and empty lists in both layers."""
    rep, levels = u16(2, 1, 2, 2, 2, 1, 0), u16(0, 2, 4, 3, 1, 0, 0)
    inner = peel(kernels, rep, levels, 1, 2, 2, 2)
    assert inner == Peeled([0, 1, 1, 1, 3], [1, 1, 0, 1], 1, [1, 0, 1, 1, 1, 0], [0, 2, 4, 3, 1, 0])
    assert inner.definition is not None
    outer = peel(kernels, u16(*inner.rep), u16(*inner.definition), 3, 4, 4, 4)
    assert (outer.offsets, outer.valid) == ([0, 2, 2, 2, 4], [1, 1, 0, 1])


def test_a_null_struct_around_a_list_makes_it_null(kernels: Kernels) -> None:
    result = peel(kernels, u16(1, 1), u16(1, 0), -1, -1, 0, 1)
    assert (result.offsets, result.valid) == ([0, 0, 1], [0, 1])


@pytest.mark.parametrize("size", [1, 63, 64, 65, 200])
def test_lists_without_levels(kernels: Kernels, size: int) -> None:
    rep = (np.arange(size) % 3 == 0).astype(np.uint16)
    result = peel(kernels, rep, None, -1, -1, 0, 0)
    starts = np.flatnonzero(rep).tolist()
    assert result == Peeled([*starts, size], [1] * len(starts), 0, [0] * len(starts), None)


def test_no_levels_are_no_lists(kernels: Kernels) -> None:
    assert peel(kernels, u16(), u16(), 1, 2, 2, 2) == Peeled([0], [], 0, [], [])


@pytest.mark.parametrize(
    ("rep", "levels", "entry"),
    [([0, 1], [0, 0], 0), ([1, 0], [0, 1], 1), ([1, 1, 0], [0, 0, 2], 2), ([1, 0, 0], [0, 0, 9], 2)],
)
def test_entries_that_continue_nothing_are_refused(
    kernels: Kernels, rep: list[int], levels: list[int], entry: int
) -> None:
    with pytest.raises(FormatError, match="continues") as caught:
        peel(kernels, u16(*rep), u16(*levels), 1, 2, 2, 2)
    assert caught.value.position == entry


def test_a_first_entry_must_start_a_list_without_levels_too(kernels: Kernels) -> None:
    with pytest.raises(FormatError) as caught:
        peel(kernels, u16(0, 1), None, -1, -1, 0, 0)
    assert caught.value.position == 0


@pytest.mark.parametrize(
    "levels", [(0, 2, 2, 2), (-2, 2, 2, 2), (1, 65536, 2, 2), (1, 2, -1, 2), (1, 2, 2, 65536)]
)
def test_peeling_needs_levels(kernels: Kernels, levels: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="is not a level"):
        peel(kernels, u16(1), u16(0), *levels)


@pytest.mark.parametrize(
    ("sizes", "with_def"),
    [((1, 1, 1, 1), True), ((2, 0, 1, 1), True), ((2, 1, 2, 1), True), ((2, 1, 1, 2), True)],
)
def test_peeling_needs_outputs_of_the_exact_size(
    kernels: Kernels, sizes: tuple[int, int, int, int], with_def: bool
) -> None:
    dtypes = (np.int32, np.uint8, np.uint16, np.uint16)
    outs = [np.empty(size, dtype) for size, dtype in zip(sizes, dtypes, strict=True)]
    with pytest.raises(ValueError, match="out_|one entry"):
        kernels.peel_lists(u16(1), u16(0), 1, 2, 2, 2, *outs)


def test_levels_left_need_a_place_if_and_only_if_there_are_some(kernels: Kernels) -> None:
    outs = np.empty(2, np.int32), np.empty(1, np.uint8), np.empty(1, np.uint16)
    with pytest.raises(ValueError, match="out_def"):
        kernels.peel_lists(u16(1), u16(0), 1, 2, 2, 2, *outs, None)
    with pytest.raises(ValueError, match="out_def"):
        kernels.peel_lists(u16(1), None, 1, 2, 2, 2, *outs, np.empty(1, np.uint16))


def outcome_of_peel(kernels: Kernels, *arguments: Any) -> object:
    try:
        return peel(kernels, *arguments)
    except FormatError as error:
        return type(error), error.position, str(error)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0, 0, 0, 1, 2, 3, 4, 9])), max_size=150),
    st.sampled_from([(1, 2, 2, 2), (-1, 1, 1, 3), (1, -1, 1, 1), (-1, -1, 0, 0), (2, 3, 3, 0xFFFF)]),
    st.booleans(),
    st.booleans(),
)
def test_peeling_agrees_with_the_twin(
    entries: list[tuple[int, int]], layer: tuple[int, int, int, int], sane: bool, has_levels: bool
) -> None:
    rep, levels = u16(*(r for r, _ in entries)), u16(*(d for _, d in entries))
    if sane:
        rep[levels > 0] |= 1
        rep[:1] |= 1
    arguments = (rep, levels if has_levels else None, *layer)
    assert outcome_of_peel(CYTHON, *arguments) == outcome_of_peel(REFERENCE, *arguments)


# -- select_rows ------------------------------------------------------------------------


def rows(
    kernels: Kernels,
    rep: NDArray[np.uint16],
    definition: NDArray[np.uint16] | None,
    groups: list[int],
    ranges: list[tuple[int, int, int]],
    *,
    max_rep: int = 1,
    visible: int = 0,
) -> list[tuple[int, ...]]:
    outs = np.full((4, len(ranges)), 77)
    columns = (i64(*column) for column in zip(*ranges, strict=True)) if ranges else (i64(), i64(), i64())
    kernels.select_rows(rep, definition, max_rep, visible, i64(*groups), *columns, *outs)
    return [tuple(column) for column in outs.T.tolist()]


def test_rows_of_one_group(kernels: Kernels) -> None:
    """[[1, 2], [], null, [3]]"""
    rep, levels = u16(1, 0, 1, 1, 1), u16(0, 0, 2, 1, 0)
    ranges = [(0, 0, 1), (0, 2, 4)]
    assert rows(kernels, rep, levels, [5], ranges) == [(0, 2, 0, 2), (3, 5, 2, 3)]
    assert rows(kernels, rep, None, [5], ranges) == [(0, 2, 0, 2), (3, 5, 3, 5)]


def test_levels_before_the_first_row_of_a_group_belong_to_none(kernels: Kernels) -> None:
    rep = u16(0, 1, 0, 0, 0, 1, 1)
    assert rows(kernels, rep, None, [3, 7], [(0, 0, 1), (1, 0, 1)]) == [(1, 3, 1, 3), (5, 6, 5, 6)]


def test_rows_begin_only_at_the_outermost_level(kernels: Kernels) -> None:
    rep = u16(2, 1, 0, 2, 1)
    assert rows(kernels, rep, None, [5], [(0, 1, 2)], max_rep=2) == [(3, 5, 3, 5)]


def test_rows_far_into_long_groups(kernels: Kernels) -> None:
    rep = np.zeros(10_000, np.uint16)
    rep[::3] = 1
    levels = (np.arange(10_000) % 3 == 1).astype(np.uint16)
    expected = [(30, 33, 20, 22), (9000, 9003, 6000, 6002), (9999, 10_000, 6666, 6667)]
    ranges = [(0, 10, 11), (0, 3000, 3001), (0, 3333, 3334)]
    assert rows(kernels, rep, levels, [10_000], ranges) == expected


@pytest.mark.parametrize(
    "ranges", [[(0, 2, 3)], [(0, 0, 3)], [(0, 0, 1), (0, 1, 3)], [(1, 0, 1)], [(0, 9, FAR)]]
)
def test_rows_that_a_group_does_not_have_are_refused(
    kernels: Kernels, ranges: list[tuple[int, int, int]]
) -> None:
    with pytest.raises(FormatError, match="rows") as caught:
        rows(kernels, u16(1, 0, 1, 0, 1), None, [3, 4, 5], ranges)
    assert caught.value.position == len(ranges) - 1


def test_levels_above_the_number_of_lists_are_refused(kernels: Kernels) -> None:
    with pytest.raises(FormatError, match="level 2") as caught:
        rows(kernels, u16(1, 0, 2, 3), None, [4], [(0, 0, 1)])
    assert caught.value.position == 2


@pytest.mark.parametrize(
    ("groups", "ranges"),
    [
        ([1], []),
        ([2, 1, 2], []),
        ([-1, 2], []),
        ([], []),
        ([2], [(1, 0, 1)]),
        ([2], [(-1, 0, 1)]),
        ([2], [(0, 1, 1)]),
        ([2], [(0, -1, 1)]),
        ([2], [(0, 0, 2), (0, 1, 2)]),
        ([1, 2], [(1, 0, 1), (0, 0, 1)]),
    ],
)
def test_groups_and_ranges_must_be_in_order(
    kernels: Kernels, groups: list[int], ranges: list[tuple[int, int, int]]
) -> None:
    with pytest.raises(ValueError, match="ascend") as caught:
        rows(kernels, u16(1, 1), None, groups, ranges)
    assert not isinstance(caught.value, FormatError)


@pytest.mark.parametrize(("max_rep", "visible"), [(-1, 0), (65536, 0), (1, -1), (1, 65536)])
def test_selecting_needs_levels(kernels: Kernels, max_rep: int, visible: int) -> None:
    with pytest.raises(ValueError, match="must be levels"):
        rows(kernels, u16(1), None, [1], [], max_rep=max_rep, visible=visible)


def test_selecting_needs_as_many_definition_levels(kernels: Kernels) -> None:
    with pytest.raises(ValueError, match="rep and definition"):
        rows(kernels, u16(1), u16(), [1], [])


@given(st.data())
def test_selecting_agrees_with_the_twin(data: st.DataObject) -> None:
    levels = data.draw(st.lists(st.sampled_from([0, 0, 0, 1, 1, 2]), max_size=300))
    max_rep = data.draw(st.sampled_from([1, 2]))
    rep = u16(*levels)
    definition = data.draw(st.sampled_from([None, u16(*reversed(levels))]))
    cuts = sorted(data.draw(st.lists(st.integers(0, rep.size), max_size=3)))
    groups = [*cuts, rep.size]
    ranges = []
    for group in range(len(groups)):
        edges = sorted(set(data.draw(st.lists(st.integers(0, 40), max_size=6))))
        ranges += [(group, a, b) for a, b in zip(edges[::2], edges[1::2], strict=False)]

    def call(kernels: Kernels) -> object:
        try:
            return rows(kernels, rep, definition, groups, ranges, max_rep=max_rep, visible=1)
        except FormatError as error:
            return type(error), error.position, str(error)

    assert call(CYTHON) == call(REFERENCE)
