"""Leaves of one column compared, piece by piece."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lancecy.encodings.arrow.agreement import Disagreement, first_disagreement
from lancecy.encodings.model.block import Block, FixedList, FixedWidth, Listed, Pieces, Structured
from lancecy.schema import Field

TOP = Field("s", 0, logical_type="struct")
MIDDLE = Field("m", 1, logical_type="struct")
A, B, C = (Field(name, number) for name, number in (("a", 2), ("b", 3), ("c", 4)))


def bits(valid: list[bool]) -> tuple[Any, int]:
    """Bitmap, with what is after its end set, and number of nulls."""
    padded = np.array([*valid, *[True] * (-len(valid) % 8)], np.bool_)
    nulls = valid.count(False)
    return np.packbits(padded, bitorder="little") if nulls else None, nulls


def values(length: int) -> Block:
    return FixedWidth(length, 8, bytes(length))


def structs(valid: list[bool], child: Block | None = None) -> Structured:
    return Structured(len(valid), {9: child or values(len(valid))}, *bits(valid))


def lists(lengths: list[int], child: Block | None = None, width: int = 4) -> Listed:
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(f"<i{width}")
    return Listed(len(lengths), width, offsets, child or values(sum(lengths)))


def pieces(*blocks: Block) -> Pieces:
    return Pieces(sum(block.length for block in blocks), blocks)


def compared(one: Block, other: Block, *above: Field) -> Disagreement | None:
    return first_disagreement([(*above, A), (*above, B)], [one, other])


VALID = [True, False] * 700 + [True, True, False]


@pytest.mark.parametrize("cuts", [(1403,), (10, 1393), (8, 0, 1395), (1, 1, 1, 1400)])
def test_equal_nulls_in_other_pieces(cuts: tuple[int, ...]) -> None:
    ends = np.cumsum(cuts)
    parts = [structs(VALID[end - size : end]) for size, end in zip(cuts, ends, strict=True)]
    assert compared(structs(VALID), pieces(*parts), TOP) is None
    assert compared(pieces(pieces(*parts)), structs(VALID), TOP) is None


@pytest.mark.parametrize("row", [0, 7, 8, 1402])
def test_the_first_row_that_differs(row: int) -> None:
    changed = [*VALID]
    changed[row] = not changed[row]
    for other in (structs(changed), pieces(structs(changed[:5]), structs(changed[5:]))):
        assert compared(structs(VALID), other, TOP) == Disagreement(1, 0, "nulls", row)
        assert compared(other, structs(VALID), TOP) == Disagreement(1, 0, "nulls", row)


def test_as_many_nulls_in_other_rows() -> None:
    found = compared(structs([True, True, False]), structs([True, False, True]), TOP)
    assert found == Disagreement(1, 0, "nulls", 1)


def test_all_null_or_none() -> None:
    assert compared(structs([False] * 3), structs([False] * 3), TOP) is None
    assert compared(structs([True] * 3), structs([False] * 3), TOP) == Disagreement(1, 0, "nulls", 0)


@pytest.mark.parametrize("width", [4, 8])
def test_lengths_of_lists(width: int) -> None:
    whole = lists([2, 0, 3, 1], width=width)
    cut = pieces(lists([2, 0], width=width), lists([3, 1], width=width))
    assert compared(whole, cut, TOP) is None and compared(cut, cut, TOP) is None
    assert compared(cut, lists([2, 0, 2, 2], width=width), TOP) == Disagreement(1, 0, "lengths", 2)
    assert compared(whole, lists([2, 0, 3, 2], width=width), TOP) == Disagreement(1, 0, "lengths", 3)


def test_rows_of_values_within_lists() -> None:
    one = lists([2, 0, 3, 1], structs([True] * 6))
    other = pieces(lists([2, 0, 3], structs([True, True, True, True, False])), lists([1], structs([True])))
    assert compared(one, other, TOP, MIDDLE) == Disagreement(1, 1, "nulls", 2)
    vectors = FixedList(3, 2, structs([True] * 6)), FixedList(3, 2, structs([True] * 5 + [False]))
    assert compared(*vectors, TOP, MIDDLE) == Disagreement(1, 1, "nulls", 2)


def test_only_nodes_around_both_are_compared() -> None:
    chains = [(TOP, MIDDLE, A), (TOP, MIDDLE, B), (TOP, C)]
    inner = structs([True, False])
    blocks = [structs([True, True], inner), structs([True, True], inner), structs([True, True])]
    assert first_disagreement(chains, blocks) is None
    blocks[1] = structs([True, True], structs([False, True]))
    assert first_disagreement(chains, blocks) == Disagreement(1, 1, "nulls", 0)
    assert first_disagreement(chains[:1], blocks[:1]) is None


@pytest.mark.parametrize("cut", [False, True])
def test_nulls_below_nulls_tell_nothing(cut: bool) -> None:
    def vectors(valid: list[bool], inner: list[bool]) -> FixedList:
        return FixedList(len(valid), 2, structs(inner), *bits(valid))

    def nested(*inner: list[bool]) -> list[Block]:
        tops = [True, False, True]
        one: list[Block] = [structs(tops, structs(valid)) for valid in inner]
        other: list[Block] = [vectors(tops, [v for v in valid for _ in range(2)]) for valid in inner]
        if cut:
            one = [
                pieces(structs(tops[:1], structs(v[:1])), structs(tops[1:], structs(v[1:]))) for v in inner
            ]
        return [*one, *other]

    found = nested([True, True, False], [True, False, False], [False, True, False])
    assert compared(found[0], found[1], TOP, MIDDLE) is None
    assert compared(found[0], found[2], TOP, MIDDLE) == Disagreement(1, 1, "nulls", 0)
    assert compared(found[3], found[4], TOP, MIDDLE) is None
    assert compared(found[3], found[5], TOP, MIDDLE) == Disagreement(1, 1, "nulls", 0)
