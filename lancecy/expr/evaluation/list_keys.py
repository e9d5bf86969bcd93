"""Numbers that stand for values: equal where the values are the same, and in their order.

Two values are the same if they have the same bits, so that NaN is itself and the two zeros are two values; a null is
the same as another null. Lists, structs and maps are compared by what they hold.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lancecy.errors import ExpressionError
from lancecy.expr.evaluation.lists import Integers, lists_of, ranges
from lancecy.expr.kinds import family

__all__ = ["keys", "keys_of_all"]

_INTEGERS = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}


def keys(values: pa.Array, ordered: bool = False, nulls_last: bool = False) -> Integers:
    """Numbers above 0 that stand for the values, 0 for nulls.

    Parameters
    ----------
    values : pa.Array
    ordered : bool
        Whether the numbers must be in the order of the values: NaN above all numbers, -0.0 before 0.0, false before
        true, texts by their bytes, a list before those that continue it.
    nulls_last : bool
        Whether nulls in lists and structs are above all values, and not below.

    Raises
    ------
    ExpressionError
        Values of the type cannot be told apart.

    Examples
    --------
    >>> keys(pa.array([[2, 1], [1], [2, 1]]), ordered=True).tolist()
    [2, 1, 2]
    """
    kind = values.type
    if pa.types.is_null(kind):
        return np.zeros(len(values), np.int64)
    if pa.types.is_struct(kind):
        members = [_members(member, ordered, nulls_last) for member in values.flatten()]
        rows = np.stack(members, axis=1) if members else np.zeros((len(values), 1), np.int64)
        starts = np.arange(len(values) + 1, dtype=np.int64) * rows.shape[1]
        return _coded(_bytes(rows.ravel(), starts), ordered, values)
    if family(kind) == "list" or pa.types.is_map(kind):
        lists = lists_of(values, len(values))
        inner = _members(lists.values, ordered, nulls_last)[ranges(lists.starts, lists.sizes)]
        return _coded(_bytes(inner, np.concatenate([[0], np.cumsum(lists.sizes)])), ordered, values)
    if pa.types.is_floating(kind):
        return _coded(_sortable(values), ordered, values)
    if pa.types.is_fixed_size_binary(kind):
        # Arrow's kernels read the wrong rows of a slice.
        return _coded(pc.cast(values, pa.binary()), ordered, values)
    try:
        return _coded(values, ordered, values)
    except pa.ArrowNotImplementedError as error:
        raise ExpressionError(f"elements of type {kind} cannot be compared") from error


def _members(values: pa.Array, ordered: bool, nulls_last: bool) -> Integers:
    found = keys(values, ordered, nulls_last)
    return np.where(found == 0, found.max(initial=0) + 1, found) if nulls_last else found


def keys_of_all(*parts: pa.Array, ordered: bool = False) -> list[Integers]:
    """:func:`keys` of several arrays of one type, with the same numbers for the same values."""
    found = keys(pa.concat_arrays(parts), ordered)
    return list(np.split(found, np.cumsum([len(part) for part in parts])[:-1]))


def _sortable(values: pa.Array) -> pa.Array:
    """Floating-point numbers as integers in the same order."""
    bits: NDArray[Any] = np.asarray(pc.fill_null(values.view(_INTEGERS[values.type.bit_width]), 0))
    return pa.array(bits ^ ((bits >> (bits.dtype.itemsize * 8 - 1)) & np.iinfo(bits.dtype).max))


def _bytes(numbers: Integers, starts: Integers) -> pa.Array:
    """Stretches of numbers as byte strings in the same order."""
    data = pa.py_buffer(np.ascontiguousarray(numbers, dtype=">u4"))
    offsets = pa.py_buffer(np.ascontiguousarray(starts * 4, dtype=np.int64))
    return pa.Array.from_buffers(pa.large_binary(), len(starts) - 1, [None, offsets, data])


def _coded(values: pa.Array, ordered: bool, nulls_of: pa.Array) -> Integers:
    coded = values.dictionary_encode()
    found = np.asarray(pc.fill_null(coded.indices, -1), dtype=np.int64) + 1
    if ordered:
        order = np.asarray(pc.array_sort_indices(coded.dictionary))
        ranks = np.zeros(len(order) + 1, np.int64)
        ranks[order + 1] = np.arange(1, len(order) + 1)
        found = ranks[found]
    if nulls_of.null_count:
        found = np.where(nulls_of.is_valid().to_numpy(zero_copy_only=False), found, 0)
    return found
