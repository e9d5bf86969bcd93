"""``range()`` and ``generate_series()``: lists of evenly spaced integers, dates or times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancecy.encodings.arrow.conversions import numbers_of, scalar_of
from lancecy.errors import ExpressionError
from lancecy.expr.evaluation import calendar, growth
from lancecy.expr.evaluation.lists import by_rows, elements_of, integers_of, with_nulls
from lancecy.expr.evaluation.values import Data
from lancecy.expr.periods import DAY_NS, PERIOD_TYPE
from lancecy.limits import INT32_MAX

__all__ = ["series"]

# Each step of months is a pass over all rows whose list is not at its end.
_MOST_STEPS = 10_000
_LONGEST_MONTH = 31


def series(name: str, closed: bool) -> Callable[..., Data]:
    """A function of start, stop and step, or of stop alone.

    Parameters
    ----------
    name : str
        For errors.
    closed : bool
        Whether the stop may be one of the values.
    """

    def call(first: Data, last: Data = None, step: Data = None) -> Data:
        if last is None:
            first, last = scalar_of(0), first
        kind = pa.int64() if pa.types.is_integer(first.type) else first.type
        step = scalar_of(1) if step is None else step
        make = _by_months if step.type == PERIOD_TYPE else _lists
        return by_rows(lambda rows, *ends: make(name, kind, closed, rows, *ends), first, last, step)

    return call


def _lists(name: str, kind: pa.DataType, closed: bool, rows: int, *ends: Any) -> pa.Array:
    (first, one), (last, two), (step, three) = (
        (_stored(name, kind, end, rows) if index == 2 else integers_of(end, rows))
        for index, end in enumerate(ends)
    )
    valid = one & two & three
    if (step[valid] == 0).any():
        raise ExpressionError(f"the step of {name}() cannot be 0")
    down = step < 0
    # Differences of bigints fit into 64 bits without a sign.
    low, high, width = (
        np.where(down, one, two).astype(np.uint64)
        for one, two in ((last, first), (first, last), (np.negative(step), step))
    )
    some = valid & (np.where(down, last, first) <= np.where(down, first, last))
    if not closed:
        some &= first != last
    ahead = np.where(some, high - low - np.uint64(0 if closed else 1), np.uint64(0))
    counts = np.where(some, ahead // np.where(some, width, np.uint64(1)), np.uint64(0))
    total = float(counts.sum(dtype=np.float64)) + int(some.sum())
    growth.charge(f"{name}()", 8 * int(total), "lists")
    if total > INT32_MAX:
        raise ExpressionError(f"{name}() would make {int(total):,} elements; read fewer rows at a time")
    sizes = np.where(some, counts.astype(np.int64) + 1, 0)
    owner = np.repeat(np.arange(rows), sizes)
    place = np.arange(len(owner)) - (np.cumsum(sizes) - sizes)[owner]
    values = pa.array(first[owner] + place * step[owner])
    if pa.types.is_date32(kind):
        values = pc.cast(values, pa.int32())
    return with_nulls(pa.list_(kind), sizes, values.cast(kind), valid)


def _by_months(name: str, kind: pa.DataType, closed: bool, rows: int, *ends: Any) -> pa.Array:
    """Lists whose values are each a step of the calendar after the one before: January 31, February 29, March 29."""
    step = ends[2]
    now, last = (
        pc.take(values, pa.array(index)) for values, index in (elements_of(end, rows) for end in ends[:2])
    )
    valid = numbers_of(pc.and_(now.is_valid(), last.is_valid()))
    months = step.as_py().months
    days = pc.max(pc.abs(pc.days_between(now, last))).as_py() or 0
    is_long = days > _MOST_STEPS * _LONGEST_MONTH * abs(months)
    down = months < 0
    before = (pc.greater_equal if down else pc.less_equal) if closed else (pc.greater if down else pc.less)
    places, owners, parts = np.arange(rows), [np.empty(0, np.int64)], [pa.array([], kind)]
    while True:
        kept = before(now, last).fill_null(False)
        now, last, places = now.filter(kept), last.filter(kept), places[numbers_of(kept)]
        if not len(now):
            break
        growth.charge(f"{name}()", 8 * len(now), "lists")
        if is_long or len(owners) > _MOST_STEPS:
            raise ExpressionError(f"{name}() takes at most {_MOST_STEPS:,} steps of months")
        owners.append(places)
        parts.append(now)
        following = calendar.plus(now, step)
        if not pc.all((pc.less if down else pc.greater)(following, now)).as_py():
            raise ExpressionError(f"the step of {name}() leads back; its days exceed its months")
        now = following
    of_rows = np.concatenate(owners)
    order = np.argsort(of_rows, kind="stable")
    values = pc.take(pa.concat_arrays(parts), pa.array(order))
    return with_nulls(pa.list_(kind), np.bincount(of_rows, minlength=rows), values, valid)


def _stored(name: str, kind: pa.DataType, step: Any, rows: int) -> tuple[Any, Any]:
    """Steps in the unit of the values."""
    if pa.types.is_integer(kind):
        return integers_of(step, rows)
    nanos, valid = integers_of(pc.cast(step, pa.duration("ns")), rows)
    if not pa.types.is_date(kind):
        return nanos, valid
    if (nanos[valid] % DAY_NS).any():
        raise ExpressionError(f"{name}() of dates needs steps of whole days; CAST the dates to timestamp")
    return nanos // DAY_NS, valid
