"""Functions that make lists of the elements of others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from lancecy.encodings.arrow.conversions import scalar_of
from lancecy.errors import ExpressionError
from lancecy.expr.evaluation import growth
from lancecy.expr.evaluation.list_keys import keys
from lancecy.expr.evaluation.lists import (
    by_rows,
    elements_of,
    flat_of,
    from_index,
    integers_of,
    list_of,
    lists_of,
    made,
    ranges,
    taken,
    with_nulls,
)
from lancecy.expr.evaluation.values import Data
from lancecy.expr.kinds import family
from lancecy.limits import INT32_MAX

__all__ = [
    "append",
    "compact",
    "concat",
    "flatten",
    "make",
    "pop",
    "prepend",
    "repeat",
    "resize",
    "reverse",
    "sliced",
    "sort",
    "zipped",
]


def make(*elements: Data) -> Data:
    """``make_array(x, …)``: a list of one value of each argument."""
    if not elements:
        return pa.scalar([], pa.list_(pa.null()))

    def run(rows: int, *values: Any) -> pa.Array:
        pairs = [elements_of(value, rows) for value in values]
        parts = [part for part, _ in pairs]
        bases = np.cumsum([0, *map(len, parts)])
        starts = np.stack([base + index for base, (_, index) in zip(bases, pairs, strict=False)], axis=1)
        return made("make_array()", pa.list_(parts[0].type), parts, starts, np.ones_like(starts))

    return by_rows(run, *elements)


def append(lists: Data, added: Data) -> Data:
    """The lists with one more element at the end; a null list has none."""
    return by_rows(lambda rows, one, two: _joined(rows, one, two, at_end=True), lists, added)


def prepend(added: Data, lists: Data) -> Data:
    """The lists with one more element at the start; a null list has none."""
    return by_rows(lambda rows, one, two: _joined(rows, one, two, at_end=False), lists, added)


def _joined(rows: int, lists: Any, added: Any, at_end: bool) -> pa.Array:
    of = lists_of(lists, rows)
    values, index = elements_of(added, rows)
    sides = [(of.starts, of.sizes), (len(of.values) + index, np.ones(rows, np.int64))]
    starts, sizes = (np.stack(pair, axis=1) for pair in zip(*(sides if at_end else sides[::-1]), strict=True))
    name = "array_append()" if at_end else "array_prepend()"
    return made(name, list_of(values.type, lists.type), [of.values, values], starts, sizes)


def concat(*lists: Data) -> Data:
    """The lists one behind the other, without those that are null; null where all are."""

    def run(rows: int, *values: Any) -> pa.Array:
        each = [lists_of(value, rows) for value in values]
        bases = np.cumsum([0, *(len(one.values) for one in each)])
        starts = np.stack([base + one.starts for base, one in zip(bases, each, strict=False)], axis=1)
        sizes = np.stack([one.sizes for one in each], axis=1)
        valid = np.logical_or.reduce([one.valid for one in each])
        parts = [one.values for one in each]
        kind = list_of(parts[0].type, *(value.type for value in values))
        return made("array_concat()", kind, parts, starts, sizes, valid)

    return by_rows(run, *lists)


def flatten(lists: Data) -> Data:
    """Lists of the elements of the lists in each list, which lists of other values are already."""
    inner = lists.type.value_type

    def run(rows: int, values: Any) -> pa.Array:
        of = lists_of(values, rows)
        if family(inner) != "list":
            return made("flatten()", list_of(inner, values.type), [of.values], of.starts, of.sizes, of.valid)
        within = lists_of(of.values, len(of.values))
        ends = np.concatenate([[0], np.cumsum(within.sizes)])
        index = ranges(of.starts, of.sizes)
        counts = ends[of.starts + of.sizes] - ends[of.starts] if len(ends) > 1 else np.zeros(rows, np.int64)
        _charge("flatten()", counts, len(within.values))
        places = ranges(within.starts[index], within.sizes[index])
        kind = list_of(inner.value_type, values.type, inner)
        return from_index("flatten()", kind, [within.values], places, counts, of.valid)

    return by_rows(run, lists)


def pop(at_end: bool) -> Callable[[Data], Data]:
    """The lists without their last element, or without the first."""

    def run(rows: int, values: Any) -> pa.Array:
        of = lists_of(values, rows)
        starts = of.starts if at_end else of.starts + 1
        kind = list_of(of.values.type, values.type)
        return made("array_pop()", kind, [of.values], starts, np.maximum(of.sizes - 1, 0), of.valid)

    return lambda lists: by_rows(run, lists)


def reverse(lists: Data) -> Data:
    """The elements from last to first."""

    def run(rows: int, values: Any) -> pa.Array:
        flat = flat_of(values, rows)
        index = (flat.starts + flat.sizes - 1)[flat.rows] - flat.places
        kind = list_of(flat.values.type, values.type)
        return with_nulls(kind, flat.sizes, flat.values.take(pa.array(index)), flat.valid)

    return by_rows(run, lists)


def compact(lists: Data) -> Data:
    """The elements that are not null."""

    def run(rows: int, values: Any) -> pa.Array:
        flat = flat_of(values, rows)
        kept = flat.values.is_valid().to_numpy(zero_copy_only=False)
        return taken(list_of(flat.values.type, values.type), flat, kept)

    return by_rows(run, lists)


def repeat(value: Data, count: Data) -> Data:
    """Lists of ``count`` times a value; none for a negative count."""

    def run(rows: int, values: Any, counts: Any) -> pa.Array:
        elements, index = elements_of(values, rows)
        numbers, valid = integers_of(counts, rows)
        sizes = np.maximum(numbers, 0)
        _charge("array_repeat()", sizes, len(elements))
        kind = list_of(elements.type, elements.type)
        return from_index("array_repeat()", kind, [elements], np.repeat(index, sizes), sizes, valid)

    return by_rows(run, value, count)


def _charge(name: str, sizes: Any, given: int) -> None:
    # The sum of large sizes would overflow.
    growth.charge(name, 8 * max(0, int(sizes.sum(dtype=np.float64)) - given), "lists")


def resize(lists: Data, size: Data, fill: Data = None) -> Data:
    """The lists cut, or continued with ``fill``, to a size; empty if that is null.

    Raises
    ------
    ExpressionError
        A size is negative, or the lists would exceed the allowance.
    """

    def run(rows: int, values: Any, wanted: Any, filler: Any) -> pa.Array:
        of = lists_of(values, rows)
        sizes, _ = integers_of(wanted, rows)
        sizes = np.where(of.valid, sizes, 0)
        if (sizes < 0).any():
            raise ExpressionError(f"array_resize() cannot make a list of {sizes.min()} elements")
        _charge("array_resize()", sizes, len(of.values))
        added, index = elements_of(filler, rows)
        kept = np.minimum(of.sizes, sizes)
        old = ranges(of.starts, kept)
        new = len(of.values) + np.repeat(index, sizes - kept)
        places = np.empty(int(sizes.sum()), np.int64)
        is_old = np.zeros(len(places), np.bool_)
        is_old[ranges(np.cumsum(sizes) - sizes, kept)] = True
        places[is_old], places[~is_old] = old, new
        kind = list_of(of.values.type, values.type)
        return from_index("array_resize()", kind, [of.values, added], places, sizes, of.valid)

    empty = pa.scalar(None, lists.type.value_type)
    return by_rows(run, lists, size, empty if fill is None else fill)


def sliced(lists: Data, first: Data, last: Data, step: Data = None) -> Data:
    """The elements from position ``first`` to ``last``, both included; negative ones count from the end.

    Raises
    ------
    ExpressionError
        A step is 0.
    """

    def run(rows: int, values: Any, *positions: Any) -> pa.Array:
        of = lists_of(values, rows)
        (start, one), (stop, two), (stride, three) = (integers_of(position, rows) for position in positions)
        valid = of.valid & one & two & three
        if (stride[valid] == 0).any():
            raise ExpressionError("the step of array_slice() cannot be 0; 1 takes every element")
        stride = np.clip(np.where(stride == 0, 1, stride), -INT32_MAX, INT32_MAX)
        begin = np.where(start < 0, np.maximum(start + of.sizes, 0), np.maximum(start - 1, 0))
        end = np.where(stop < 0, stop + of.sizes, np.minimum(stop - 1, of.sizes - 1))
        within = valid & (begin < of.sizes) & (end >= 0) & (end < of.sizes)
        ahead = np.where(stride > 0, end - begin, begin - end)
        reach = np.where(within & (ahead >= 0), ahead // np.abs(stride) + 1, 0)
        index = ranges(np.zeros(rows, np.int64), reach)
        owner = np.repeat(np.arange(rows), reach)
        places = (of.starts + begin)[owner] + index * stride[owner]
        kind = list_of(of.values.type, values.type)
        return from_index("array_slice()", kind, [of.values], places, reach, valid)

    return by_rows(run, lists, first, last, scalar_of(1) if step is None else step)


def sort(lists: Data, order: str | None = "ASC", nulls: str | None = "NULLS FIRST") -> Data:
    """The elements in order, by default upwards with nulls first; NaN is above all numbers.

    Raises
    ------
    ExpressionError
        There is no such order.
    """
    down, last = str(order).upper(), str(nulls).upper()
    if order is not None and down not in ("ASC", "DESC"):
        raise ExpressionError(f"the order of array_sort() is 'ASC' or 'DESC', not {order!r}")
    if nulls is not None and last not in ("NULLS FIRST", "NULLS LAST"):
        raise ExpressionError(f"nulls of array_sort() are 'NULLS FIRST' or 'NULLS LAST', not {nulls!r}")

    def run(rows: int, values: Any) -> pa.Array:
        flat = flat_of(values, rows)
        kind = list_of(flat.values.type, values.type)
        if order is None or nulls is None:
            return pa.nulls(rows, kind)
        # Nulls inside of elements are first or last as well.
        ranks = keys(flat.values, ordered=True, nulls_last=(last == "NULLS LAST") != (down == "DESC"))
        rank = np.where(ranks == 0, len(ranks) + 1 if last == "NULLS LAST" else -len(ranks) - 1, ranks)
        if down == "DESC":
            rank = np.where(ranks == 0, rank, -ranks)
        index = np.lexsort((rank, flat.rows))
        return with_nulls(kind, flat.sizes, flat.values.take(pa.array(index)), flat.valid)

    return by_rows(run, lists)


def zipped(*lists: Data) -> Data:
    """Lists of structs ``1``, ``2``, … of the elements at the same position, null beyond the shorter lists."""

    def run(rows: int, *values: Any) -> pa.Array:
        each = [lists_of(value, rows) for value in values]
        sizes = np.maximum.reduce([one.sizes for one in each])
        valid = np.logical_or.reduce([one.valid for one in each])
        growth.charge("arrays_zip()", 8 * int(sizes.sum()) * (len(each) - 1), "lists")
        owner = np.repeat(np.arange(rows), sizes)
        place = np.arange(len(owner)) - (np.cumsum(sizes) - sizes)[owner]
        members = []
        for one in each:
            beyond = place >= one.sizes[owner]
            index = np.where(beyond, 0, one.starts[owner] + place)
            members.append(one.values.take(pa.array(index, mask=beyond)))
        names = [str(number + 1) for number in range(len(each))]
        structs = pa.StructArray.from_arrays(members, names)
        return with_nulls(pa.list_(structs.type), sizes, structs, valid)

    return by_rows(run, *lists)
