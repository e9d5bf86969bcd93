"""Functions that look for elements of lists: tests, positions, the largest, and lists without some or with others.

``array_has`` and its kin compare as ``=`` does: the two zeros are equal and NaN equals nothing. All others compare the
bits (``list_keys``). A null element is found by a null where a list may hold what is looked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancecy.encodings.arrow.conversions import filled, numbers_of, scalar_of
from lancecy.expr.evaluation.list_keys import keys, keys_of_all
from lancecy.expr.evaluation.lists import (
    Flags,
    Flat,
    Integers,
    any_element,
    by_rows,
    elements_of,
    flat_of,
    from_index,
    integers_of,
    list_of,
    lists_of,
    made,
    taken,
    with_nulls,
)
from lancecy.expr.evaluation.values import Data
from lancecy.expr.kinds import family

__all__ = [
    "any_value",
    "distinct",
    "extreme",
    "has",
    "has_all",
    "has_any",
    "intersect",
    "position",
    "positions",
    "remove",
    "replace",
    "union",
    "without",
]

_ALL = 1 << 62


def has(lists: Data, wanted: Data) -> Data:
    """Whether a list has an element equal to a value; null if either is null."""
    if isinstance(wanted, pa.Scalar) and not pa.types.is_nested(wanted.type):
        return any_element(lists, lambda flat: pc.equal(flat, wanted))

    def run(rows: int, values: Any, sought: Any) -> pa.Array:
        flat = flat_of(values, rows)
        elements, index = elements_of(sought, rows)
        known = numbers_of(elements.is_valid())[index]
        (own, other), other_nan = _comparable(flat.values, elements)
        hits = (own == other[index][flat.rows]) & ~other_nan[index][flat.rows] & (own != 0)
        return pa.array(_rows_with(flat, hits), mask=~(flat.valid & known))

    return by_rows(run, lists, wanted)


def has_any(lists: Data, wanted: Data) -> Data:
    """Whether a list has one of the elements of another, null for null; null if either list is null.

    Parameters
    ----------
    lists : pa.Array, pa.ChunkedArray or pa.Scalar
    wanted : pa.Array of elements, the same for all lists; or as ``lists``
    """
    if isinstance(wanted, pa.Array) and family(wanted.type) != "list":
        return any_element(lists, lambda flat: pc.is_in(flat, value_set=wanted))

    def run(rows: int, values: Any, sought: Any) -> pa.Array:
        one, two, hits = _found_in(sought, values, rows)
        return pa.array(_rows_with(two, hits), mask=~(one.valid & two.valid))

    return by_rows(run, lists, wanted)


def has_all(lists: Data, wanted: Data) -> Data:
    """Whether a list has all elements of another, null for null; null if either list is null."""

    def run(rows: int, values: Any, sought: Any) -> pa.Array:
        two, one, hits = _found_in(values, sought, rows)
        return pa.array(~_rows_with(one, ~hits), mask=~(one.valid & two.valid))

    return by_rows(run, lists, wanted)


def _found_in(lists: Any, sought: Any, rows: int) -> tuple[Flat, Flat, Flags]:
    """The elements of both, and which of the second are in the list of their row."""
    one, two = flat_of(lists, rows), flat_of(sought, rows)
    (own, other), nan = _comparable(one.values, two.values)
    hits = np.isin(_in_rows(two, other, own), _in_rows(one, own, other)) & ~nan
    return one, two, hits


def _comparable(one: pa.Array, two: pa.Array) -> tuple[list[Integers], Flags]:
    """Keys of two arrays that are equal where ``=`` is, and where the second is NaN."""
    nan = np.zeros(len(two), np.bool_)
    if pa.types.is_floating(one.type):
        nan = numbers_of(filled(pc.is_nan(pc.cast(two, pa.float64())), False))
        # Adding 0.0 makes the negative zero the other one.
        one, two = (pc.add(pc.cast(side, pa.float64()), 0.0) for side in (one, two))
    return keys_of_all(one, two), nan


def _in_rows(flat: Flat, own: Integers, other: Integers) -> Integers:
    """Keys that are equal only in the same row."""
    most = int(max(own.max(initial=0), other.max(initial=0))) + 1
    return flat.rows * most + own


def _rows_with(flat: Flat, hits: Flags) -> Flags:
    found = np.zeros(len(flat.sizes), np.bool_)
    found[flat.rows[hits]] = True
    return found


def _matches(flat: Flat, sought: Any) -> Flags:
    """Which elements are the value of their row."""
    elements, index = elements_of(sought, len(flat.sizes))
    own, other = keys_of_all(flat.values, elements)
    found: Flags = own == other[index][flat.rows]
    return found


def position(lists: Data, sought: Data, start: Data = None) -> Data:
    """The position of the first element that is a value, from position ``start`` on: 1 is the first."""

    def run(rows: int, values: Any, wanted: Any, least: Any) -> pa.Array:
        flat = flat_of(values, rows)
        first, _ = integers_of(least, rows)
        hits = np.flatnonzero(_matches(flat, wanted) & (flat.places + 1 >= first[flat.rows]))
        owners, order = np.unique(flat.rows[hits], return_index=True)
        found = np.zeros(rows, np.int64)
        found[owners] = flat.places[hits[order]] + 1
        return pa.array(found, mask=found == 0)

    return by_rows(run, lists, sought, scalar_of(1) if start is None else start)


def positions(lists: Data, sought: Data) -> Data:
    """The positions of all elements that are a value."""

    def run(rows: int, values: Any, wanted: Any) -> pa.Array:
        flat = flat_of(values, rows)
        places = pa.array((flat.places + 1).astype(np.uint64))
        return taken(pa.list_(pa.uint64()), flat, _matches(flat, wanted), places)

    return by_rows(run, lists, sought)


def remove(many: int | None) -> Callable[..., Data]:
    """The lists without the first ``many`` elements that are a value (None: all); null if the value is."""

    def run(rows: int, values: Any, sought: Any, count: Any) -> pa.Array:
        flat = flat_of(values, rows)
        elements, index = elements_of(sought, rows)
        kept = ~_first(flat, _matches(flat, sought), count)
        known = numbers_of(elements.is_valid())[index]
        part = Flat(flat.values, flat.rows, flat.sizes, flat.valid & known)
        return taken(list_of(flat.values.type, values.type), part, kept & known[flat.rows])

    default = scalar_of(_ALL if many is None else many)
    return lambda lists, sought, count=default: by_rows(run, lists, sought, count)


def _first(flat: Flat, hits: Flags, count: Any) -> Flags:
    """The first ``count`` hits of each row."""
    most, _ = integers_of(count, len(flat.sizes))
    before: Integers = np.cumsum(hits) - hits
    base = np.concatenate([before, [0]])[np.minimum(flat.starts, len(before))]
    found: Flags = hits & (before - base[flat.rows] < most[flat.rows])
    return found


def replace(many: int | None) -> Callable[..., Data]:
    """The lists with another value in place of the first ``many`` elements that are a value (None: all)."""

    def run(rows: int, values: Any, sought: Any, other: Any, count: Any) -> pa.Array:
        flat = flat_of(values, rows)
        hits = _first(flat, _matches(flat, sought), count)
        elements, index = elements_of(other, rows)
        places = np.where(hits, len(flat.values) + index[flat.rows], np.arange(len(flat.values)))
        kind = list_of(flat.values.type, values.type)
        return from_index("array_replace()", kind, [flat.values, elements], places, flat.sizes, flat.valid)

    default = scalar_of(_ALL if many is None else many)
    return lambda lists, sought, other, count=default: by_rows(run, lists, sought, other, count)


# -- as sets ----------------------------------------------------------------------------------


def distinct(lists: Data) -> Data:
    """The elements without repetitions, each where it comes first."""

    def run(rows: int, values: Any) -> pa.Array:
        flat = flat_of(values, rows)
        own = keys(flat.values)
        kept = _firsts(_in_rows(flat, own, own))
        return taken(list_of(flat.values.type, values.type), flat, kept)

    return by_rows(run, lists)


def _firsts(numbers: Integers) -> Flags:
    """Where a number comes first."""
    _, index = np.unique(numbers, return_index=True)
    found = np.zeros(len(numbers), np.bool_)
    found[index] = True
    return found


def union(lists: Data, others: Data) -> Data:
    """The elements of both lists without repetitions; null if either list is."""
    return distinct(by_rows(_behind, lists, others))


def _behind(rows: int, lists: Any, others: Any) -> pa.Array:
    one, two = lists_of(lists, rows), lists_of(others, rows)
    starts = np.stack([one.starts, len(one.values) + two.starts], axis=1)
    sizes = np.stack([one.sizes, two.sizes], axis=1)
    kind = list_of(one.values.type, lists.type, others.type)
    return made("array_union()", kind, [one.values, two.values], starts, sizes, one.valid & two.valid)


def without(lists: Data, others: Data) -> Data:
    """The elements that another list does not have, without repetitions; null if either list is."""

    def run(rows: int, values: Any, excluded: Any) -> pa.Array:
        one, two = flat_of(values, rows), flat_of(excluded, rows)
        own, other = keys_of_all(one.values, two.values)
        mine = _in_rows(one, own, other)
        kept = _firsts(mine) & ~np.isin(mine, _in_rows(two, other, own))
        valid = one.valid & two.valid
        part = Flat(one.values, one.rows, one.sizes, valid)
        return taken(list_of(one.values.type, values.type, excluded.type), part, kept & valid[one.rows])

    return by_rows(run, lists, others)


def intersect(lists: Data, others: Data) -> Data:
    """The elements that both lists have, without repetitions and in the order of the longer one; null if either is."""

    def run(rows: int, values: Any, also: Any) -> pa.Array:
        one, two = flat_of(values, rows), flat_of(also, rows)
        own, other = keys_of_all(one.values, two.values)
        mine, theirs = _in_rows(one, own, other), _in_rows(two, other, own)
        valid = one.valid & two.valid
        first = valid & (one.sizes >= two.sizes)
        kept_one = _firsts(mine) & np.isin(mine, theirs) & first[one.rows]
        kept_two = _firsts(theirs) & np.isin(theirs, mine) & (valid & ~first)[two.rows]
        chosen = pa.concat_arrays(
            [one.values.filter(pa.array(kept_one)), two.values.filter(pa.array(kept_two))]
        )
        owners = np.concatenate([one.rows[kept_one], two.rows[kept_two]])
        order = np.argsort(owners, kind="stable")
        kind = list_of(chosen.type, values.type, also.type)
        return with_nulls(kind, np.bincount(owners, minlength=rows), chosen.take(pa.array(order)), valid)

    return by_rows(run, lists, others)


# -- one element ------------------------------------------------------------------------------


def any_value(lists: Data) -> Data:
    """The first element that is not null."""

    def run(rows: int, values: Any) -> pa.Array:
        flat = flat_of(values, rows)
        index = np.flatnonzero(flat.values.is_valid().to_numpy(zero_copy_only=False))
        owners, first = np.unique(flat.rows[index], return_index=True)
        places = np.zeros(rows, np.int64)
        missing = np.ones(rows, np.bool_)
        places[owners], missing[owners] = index[first], False
        return flat.values.take(pa.array(places, mask=missing))

    return by_rows(run, lists)


def extreme(largest: bool) -> Callable[[Data], Data]:
    """The largest or the smallest element that is not null; NaN is above all numbers."""

    def run(rows: int, values: Any) -> pa.Array:
        flat = flat_of(values, rows)
        ranks = keys(flat.values, ordered=True, nulls_last=True)
        index = np.flatnonzero(ranks)
        owner, rank = flat.rows[index], ranks[index]
        order = np.lexsort((-rank if largest else rank, owner))
        owners, first = np.unique(owner[order], return_index=True)
        places = np.zeros(rows, np.int64)
        missing = np.ones(rows, np.bool_)
        places[owners], missing[owners] = index[order[first]], False
        return flat.values.take(pa.array(places, mask=missing))

    return lambda lists: by_rows(run, lists)
