"""``range()`` and ``generate_series()``: lists of evenly spaced integers, dates or times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancecy.encodings.arrow.conversions import scalar_of
from lancecy.errors import ExpressionError
from lancecy.expr.evaluation import growth
from lancecy.expr.evaluation.lists import by_rows, integers_of, with_nulls
from lancecy.expr.evaluation.values import Data
from lancecy.expr.periods import DAY_NS
from lancecy.limits import INT32_MAX

__all__ = ["series"]


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
        one = scalar_of(1)
        return by_rows(
            lambda rows, *ends: _lists(name, kind, closed, rows, *ends),
            first,
            last,
            one if step is None else step,
        )

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
