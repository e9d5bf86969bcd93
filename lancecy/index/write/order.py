"""The order of values in an index: nulls first, then ascending, floats by their total order.

In the total order -0.0 is below 0.0 and NaN is above all numbers (with its sign bit set: below all).

Source: sheet of indices, section B3.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lancecy.encodings.arrow.conversions import filled, numbers_of
from lancecy.kernels.sorting import sorted_order

__all__ = ["ascending", "changes", "extremes", "order_keys"]

Int64: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

_SAMPLE_ROWS = 1 << 12
"""Values that show whether most are distinct."""


def order_keys(values: pa.Array) -> NDArray[Any] | None:
    """Integers in the order of the values; None if the type has no such integers of 64 bits.

    Parameters
    ----------
    values : pyarrow.Array
        Nulls get any integer.

    Returns
    -------
    (n,) integers of the width of the type, or None

    Examples
    --------
    >>> order_keys(pa.array([0.0, -0.0], pa.float32())).tolist()
    [0, -1]
    """
    kind = values.type
    if pa.types.is_boolean(kind):
        values = values.cast(pa.uint8())
        kind = values.type
    if not pa.types.is_primitive(kind) or kind.bit_width > 64 or pa.types.is_decimal(kind):
        return None
    sign = "u" if pa.types.is_unsigned_integer(kind) else "i"
    dtype = np.dtype(f"{sign}{kind.bit_width // 8}")
    if not len(values):
        return np.empty(0, dtype)
    stored = np.frombuffer(values.buffers()[1], dtype, len(values), values.offset * dtype.itemsize)
    if not pa.types.is_floating(kind):
        return stored
    # The bits of negative floats descend, as integers of two's complement.
    keys: NDArray[Any] = stored ^ ((stored >> (kind.bit_width - 1)) & np.iinfo(dtype).max)
    return keys


def ascending(values: pa.Array) -> Int64:
    """Positions of the values in their order; those of equal values in any order.

    Parameters
    ----------
    values : pyarrow.Array

    Returns
    -------
    (n,) int64

    Examples
    --------
    >>> ascending(pa.array([3.0, None, float("nan"), -1.0])).tolist()
    [1, 3, 0, 2]
    """
    keys = order_keys(values)
    if keys is None:
        keys = _ranks(values)
    if keys is None:
        # The function sorts nulls behind the values.
        found: Int64 = numbers_of(pc.array_sort_indices(values)).astype(np.int64)
        return np.roll(found, values.null_count)
    if not values.null_count:
        return sorted_order(keys)
    is_null = numbers_of(values.is_null())
    valid = np.flatnonzero(~is_null)
    return np.concatenate((np.flatnonzero(is_null), valid[sorted_order(keys[valid])]))


def _ranks(values: pa.Array) -> NDArray[Any] | None:
    """The rank of each value among the distinct ones; None if most values are distinct, so that this saves nothing."""
    sample = values.slice(0, _SAMPLE_ROWS)
    if len(values) > _SAMPLE_ROWS and 2 * len(sample.unique()) > len(sample):
        return None
    coded = values.dictionary_encode()
    order = numbers_of(pc.array_sort_indices(coded.dictionary))
    ranks = np.empty(order.size + 1, np.int64)
    ranks[order] = np.arange(order.size)
    found: NDArray[Any] = ranks[numbers_of(filled(coded.indices, order.size))]
    return found


def changes(values: pa.Array) -> Bools:
    """Which of some sorted values differ from the one before; the first does.

    Parameters
    ----------
    values : pyarrow.Array
        In the order of :func:`ascending`; nulls are equal to each other.

    Returns
    -------
    (n,) bool

    Examples
    --------
    >>> changes(pa.array([None, None, 1, 1, 2])).tolist()
    [True, False, True, False, True]
    """
    out = np.ones(len(values), np.bool_)
    nulls = values.null_count
    out[1:nulls] = False
    valid = values.slice(nulls)
    keys = order_keys(valid)
    if keys is not None:
        out[nulls + 1 :] = keys[1:] != keys[:-1]
    elif len(valid) > 1:
        differ = pc.not_equal(valid.slice(1), valid.slice(0, len(valid) - 1))
        out[nulls + 1 :] = numbers_of(differ)
    return out


def extremes(values: pa.Array) -> tuple[int, int]:
    """Positions of the smallest and the largest value; there is a value that is not null.

    Parameters
    ----------
    values : pyarrow.Array

    Examples
    --------
    >>> extremes(pa.array([None, 3, 1]))
    (2, 1)
    """
    keys = order_keys(values)
    if keys is None:
        order = ascending(values)
        return int(order[values.null_count]), int(order[-1])
    if not values.null_count:
        return int(keys.argmin()), int(keys.argmax())
    valid = np.flatnonzero(numbers_of(values.is_valid()))
    return int(valid[keys[valid].argmin()]), int(valid[keys[valid].argmax()])
