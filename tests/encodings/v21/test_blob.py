"""Pages of blobs in 2.1: positions, nulls, empty blobs, and damage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lancecy.errors import FormatError, UnsupportedError
from lancecy.schema import Field
from tests.helpers.pages21 import (
    BuiltPage,
    chunk,
    constant_page,
    flat,
    full_zip,
    leaf_field,
    message,
    mini_block,
    packed,
    rows_of,
    words,
)

DESCRIPTORS = [(0, 20), (1 << 16, 0), (0, 0), (64, 300), (1 << 40, 5)]
VALUES: list[Any] = [
    {"position": 0, "size": 20},
    None,
    {"position": 0, "size": 0},
    {"position": 64, "size": 300},
    {"position": 1 << 40, "size": 5},
]


def blob(**changes: Any) -> Field:
    return leaf_field("large_binary", "b", 3, metadata={"lance-encoding:blob": b"true"}, **changes).scanned


def layout(inner: bytes, layers: tuple[int, ...] = (3,)) -> bytes:
    return message(4, message(1, inner) + message(2, bytes(layers)))


def page(rows: list[tuple[int, int]], layers: tuple[int, ...] = (3,), **changes: Any) -> BuiltPage:
    body = chunk([np.array(rows, "<u8").tobytes()])
    inner = mini_block(packed([64, 64], flat(128)), len(rows), **changes)
    return BuiltPage(layout(inner, layers), [words([body]), body], len(rows))


@pytest.mark.parametrize("rows", [None, [0], [1, 2], [4]])
def test_positions_and_sizes(rows: list[int] | None) -> None:
    found = rows_of(page(DESCRIPTORS), blob(), rows=rows)
    assert found == (VALUES if rows is None else [VALUES[row] for row in rows])


def test_blobs_that_are_never_null() -> None:
    assert rows_of(page([(5, 1), (0, 0)], (1,)), blob()) == [
        {"position": 5, "size": 1},
        {"position": 0, "size": 0},
    ]


def test_the_level_of_a_null_tells_whether_the_struct_around_it_is_null() -> None:
    child = blob()
    outer = leaf_field("struct", "s", 2, children=(child,))
    built = page([(9, 1), (1 << 16, 0), (2 << 16, 0)], (3, 3))
    assert rows_of(built, outer, child) == [{"b": {"position": 9, "size": 1}}, {"b": None}, None]


def test_descriptors_in_a_full_zip_page() -> None:
    inner = full_zip(packed([64, 64], flat(128)), 2, bits=128)
    built = BuiltPage(layout(inner), [np.array(DESCRIPTORS[:2], "<u8").tobytes()], 2)
    assert rows_of(built, blob()) == VALUES[:2]


@pytest.mark.parametrize(
    "rows", [[(2 << 16, 0)], [(1, 0)], [((1 << 16) | 1, 0)], [(2**63, 0)], [(1 << 32, 0)]]
)
def test_levels_that_a_column_does_not_have_are_refused(rows: list[tuple[int, int]]) -> None:
    with pytest.raises(FormatError, match="level"):
        rows_of(page(rows), blob())


def test_a_null_in_a_column_without_is_refused() -> None:
    with pytest.raises(FormatError, match="level"):
        rows_of(page([(1 << 16, 0)], (1,)), blob())


def test_blobs_in_lists_are_not_read() -> None:
    child = blob()
    outer = leaf_field("list", "l", 2, children=(child,))
    with pytest.raises(UnsupportedError, match="blobs in lists"):
        rows_of(page(DESCRIPTORS, (3, 2)), outer, child)


def test_descriptors_with_levels_of_their_own_are_refused() -> None:
    inner = constant_page((3,))
    with pytest.raises(FormatError):
        rows_of(BuiltPage(layout(inner), [], 2), blob())


def test_values_that_are_no_descriptors_are_refused() -> None:
    body = chunk([bytes(8)])
    built = BuiltPage(layout(mini_block(flat(64), 1)), [words([body]), body], 1)
    with pytest.raises(FormatError, match="positions and sizes"):
        rows_of(built, blob())


def test_a_blob_page_in_another_column_is_refused() -> None:
    with pytest.raises(FormatError, match="not a blob column"):
        rows_of(page(DESCRIPTORS), leaf_field("large_binary", "b", 3))
