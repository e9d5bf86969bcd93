"""Functions of the number of elements of lists, and of lists as points in space.

The dimensions of a list of lists are those of its first element, of the first element of that, and so on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from lancecy.errors import ExpressionError
from lancecy.expr.evaluation.lists import (
    Flags,
    Integers,
    by_rows,
    flat_of,
    integers_of,
    length,
    lists_of,
    with_nulls,
)
from lancecy.expr.evaluation.values import Data
from lancecy.expr.kinds import family

__all__ = ["cardinality", "dimensions", "distance", "extent", "number_of_dimensions"]


def _depth(kind: pa.DataType) -> int:
    depth = 0
    while family(kind) == "list":
        depth, kind = depth + 1, kind.value_type
    return depth


def _extents(lists: Any, rows: int) -> Iterator[tuple[Integers, Flags]]:
    """The size in each dimension, and whether there is a list at all: a null or missing one has size 0."""
    of = lists_of(lists, rows)
    yield of.sizes, of.valid
    index, present = of.starts, of.sizes > 0
    for _ in range(_depth(lists.type) - 1):
        within = lists_of(of.values, len(of.values))
        sizes, starts = (np.zeros(rows, np.int64) for _ in range(2))
        sizes[present], starts[present] = within.sizes[index[present]], within.starts[index[present]]
        yield sizes, present
        of, index, present = within, starts, sizes > 0


def dimensions(lists: Data) -> Data:
    """The sizes of a list in all dimensions; null if it is empty."""

    def run(rows: int, values: Any) -> pa.Array:
        sizes = [size for size, _ in _extents(values, rows)]
        valid = sizes[0] > 0
        flat = np.stack(sizes, axis=1)[valid].ravel().astype(np.uint64)
        return with_nulls(pa.list_(pa.uint64()), np.where(valid, len(sizes), 0), pa.array(flat), valid)

    return by_rows(run, lists)


def number_of_dimensions(lists: Data) -> Data:
    """How deep lists are nested."""
    depth = _depth(lists.type)
    return by_rows(
        lambda rows, values: pa.array(np.full(rows, depth), mask=~lists_of(values, rows).valid), lists
    )


def extent(lists: Data, dimension: Data = None) -> Data:
    """The number of elements, or the size in another dimension; null where there is none."""
    if dimension is None:
        return length(lists)

    def run(rows: int, values: Any, numbers: Any) -> pa.Array:
        wanted, known = integers_of(numbers, rows)
        found, missing = np.zeros(rows, np.int64), np.ones(rows, np.bool_)
        for number, (sizes, valid) in enumerate(_extents(values, rows), 1):
            here = known & valid & (wanted == number)
            found[here], missing[here] = sizes[here], False
        return pa.array(found, mask=missing)

    return by_rows(run, lists, dimension)


def cardinality(values: Data) -> Data:
    """The number of entries of a map; of a list the product of its sizes in all dimensions."""
    if pa.types.is_map(values.type):
        return by_rows(_entries, values)

    def run(rows: int, lists: Any) -> pa.Array:
        each = list(_extents(lists, rows))
        return pa.array(np.multiply.reduce([sizes for sizes, _ in each]), mask=~each[0][1])

    return by_rows(run, values)


def _entries(rows: int, maps: Any) -> pa.Array:
    of = lists_of(maps, rows)
    return pa.array(of.sizes, mask=~of.valid)


def distance(lists: Data, others: Data) -> Data:
    """The Euclidean distance of points given by their coordinates; null if one of these is.

    Raises
    ------
    ExpressionError
        Two points have different numbers of coordinates.
    """

    def run(rows: int, values: Any, ends: Any) -> pa.Array:
        one, two = flat_of(values, rows), flat_of(ends, rows)
        valid = one.valid & two.valid
        for side in (one, two):
            valid[side.rows[np.asarray(side.values.is_null())]] = False
        uneven = valid & (one.sizes != two.sizes)
        if uneven.any():
            row = int(np.argmax(uneven))
            raise ExpressionError(
                f"array_distance() needs lists of one length, not of {one.sizes[row]} and {two.sizes[row]} elements"
            )
        here = [valid[side.rows] for side in (one, two)]
        left, right = (
            side.values.filter(pa.array(part)) for side, part in zip((one, two), here, strict=True)
        )
        with np.errstate(over="ignore", invalid="ignore"):
            squares = (np.asarray(left) - np.asarray(right)) ** 2
            squares = np.bincount(one.rows[here[0]], weights=squares, minlength=rows)
        return pa.array(np.sqrt(squares), mask=~valid)

    return by_rows(run, lists, others)
