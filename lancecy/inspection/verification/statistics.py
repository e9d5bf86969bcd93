"""Checks page statistics against the values they describe.

A bound need not be tight: the only faults are a value outside its page's bounds, a null in a page stated to
have none, and a value in a page stated to be all null. The bounds are those that a scan prunes with
(:class:`StatsTable`); statistics that a scan does not use are not checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lancecy.stats import ByteBounds, ColumnStats, NumericBounds

__all__ = ["contradictions"]

Bools = NDArray[np.bool_]


def contradictions(
    values: pa.Array | pa.ChunkedArray, starts: NDArray[np.int64], stats: ColumnStats
) -> Iterator[tuple[int, str]]:
    """Pages whose statistics are wrong.

    Parameters
    ----------
    values : (num_rows,) Arrow column
        Values of the whole file.
    starts : (num_pages + 1,) int64
        First row of each page, and the number of rows.
    stats : ColumnStats
        Statistics of these pages.

    Yields
    ------
    (page, problem)
        The first page of each kind of fault.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> known = np.array([True, True])
    >>> bounds = NumericBounds(np.array([0, 10]), np.array([9, 19]), known)
    >>> pages = np.array([0, 2, 4])
    >>> list(contradictions(pa.array([0, 9, 10, 30]), pages, ColumnStats(bounds, ~known, ~known)))
    [(1, 'a value is above the maximum its page states')]
    """
    column = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks)
    page_of = np.repeat(np.arange(starts.size - 1), np.diff(starts))
    is_null = column.is_null().to_numpy(zero_copy_only=False)
    found = [
        (is_null & stats.no_nulls[page_of], "a value is null although its page states that none is"),
        (
            ~is_null & stats.all_null[page_of],
            "a value is not null although its page states that all are null",
        ),
    ]
    if isinstance(stats.bounds, NumericBounds):
        found += _outside_numbers(column, page_of, is_null, stats.bounds)
    elif isinstance(stats.bounds, ByteBounds):
        found += _outside_bytes(column, page_of, stats.bounds)
    for wrong, problem in found:
        if wrong.any():
            yield int(page_of[np.argmax(wrong)]), problem


_BELOW = "a value is below the minimum its page states"
_ABOVE = "a value is above the maximum its page states"


def _outside_numbers(
    column: pa.Array, page_of: NDArray[np.int64], is_null: Bools, bounds: NumericBounds
) -> list[tuple[Bools, str]]:
    numbers = _numbers(column)
    usable = bounds.known[page_of] & ~is_null
    lows: NDArray[Any] = bounds.lows[page_of]
    highs: NDArray[Any] = bounds.highs[page_of]
    below, above = usable & (numbers < lows), usable & (numbers > highs)
    return [(below.astype(np.bool_), _BELOW), (above.astype(np.bool_), _ABOVE)]


def _numbers(column: pa.Array) -> NDArray[Any]:
    """Values in the unit of the bounds; arbitrary for nulls."""
    kind = column.type
    if pa.types.is_decimal(kind):
        with localcontext(prec=80):  # decimal256 has 76 digits
            return np.array(
                [0 if v is None else int(v.scaleb(kind.scale)) for v in column.to_pylist()], object
            )
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif pa.types.is_date32(kind) or pa.types.is_time32(kind):
        column = column.cast(pa.int32())
    elif pa.types.is_temporal(kind):
        column = column.cast(pa.int64())
    filled = column.fill_null(0) if column.null_count else column
    numbers: NDArray[Any] = filled.to_numpy(zero_copy_only=False)
    return numbers


def _outside_bytes(
    column: pa.Array, page_of: NDArray[np.int64], bounds: ByteBounds
) -> list[tuple[Bools, str]]:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    raw = column.cast(pa.large_binary())
    pages = pa.array(page_of)
    low = _texts(bounds.low_offsets, bounds.low_bytes, bounds.has_low).take(pages)
    high = _texts(bounds.high_offsets, bounds.high_bytes, bounds.has_high).take(pages)
    return [(_true(pc.less(raw, low)), _BELOW), (_true(pc.greater(raw, high)), _ABOVE)]


def _texts(offsets: NDArray[np.int64], data: NDArray[np.uint8], present: Bools) -> pa.Array:
    bits = pa.py_buffer(np.packbits(present, bitorder="little"))
    buffers = [bits, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.large_binary(), present.size, buffers)


def _true(mask: pa.Array) -> Bools:
    found: Bools = mask.fill_null(False).to_numpy(zero_copy_only=False)
    return found
