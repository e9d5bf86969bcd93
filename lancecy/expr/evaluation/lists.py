"""Functions of list columns, on the flattened values: no loops over rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lancecy.expr.evaluation.values import by_chunk

__all__ = ["any_element", "element", "length"]


def any_element(lists: Any, test: Callable[[pa.Array], Any]) -> Any:
    """Where any element of a list passes ``test``: boolean, null where the list is null."""

    def run(chunk: pa.Array) -> pa.Array:
        hits = pc.fill_null(test(pc.list_flatten(chunk)), False).to_numpy(zero_copy_only=False)
        found = np.zeros(len(chunk), dtype=bool)
        found[np.repeat(np.arange(len(chunk)), _sizes(chunk))[hits]] = True
        return with_nulls_of(chunk, found)

    return by_chunk(run, lists)


def _sizes(chunk: pa.Array) -> NDArray[np.int64]:
    """Number of elements of each list that list_flatten keeps: it drops elements under null lists."""
    return np.asarray(pc.fill_null(pc.list_value_length(chunk), 0), dtype=np.int64)


def with_nulls_of(chunk: pa.Array, found: NDArray[np.bool_]) -> pa.Array:
    """Array of ``found``, null where ``chunk`` is null."""
    if chunk.null_count == 0:
        return pa.array(found)
    return pa.array(found, mask=pc.is_null(chunk).to_numpy(zero_copy_only=False))


def length(lists: Any) -> Any:
    """Number of elements: int64, null where the list is null."""
    return pc.cast(pc.list_value_length(lists), pa.int64())


def element(lists: Any, positions: Any) -> Any:
    """The element at a position: 1 is the first, -1 the last; null where the list has none there.

    Parameters
    ----------
    lists : pa.Array or pa.ChunkedArray
    positions : pa.Array or pa.ChunkedArray of int64, as many; or pa.Scalar
        Nulls and 0 are no position.
    """
    if isinstance(positions, pa.Scalar):
        places = np.broadcast_to(np.int64(positions.as_py() or 0), len(lists))
    else:
        places = np.asarray(pc.fill_null(positions, 0), dtype=np.int64)
    if not isinstance(lists, pa.ChunkedArray):
        return _elements(lists, places)
    starts = np.cumsum([0, *map(len, lists.chunks)])
    found = [
        _elements(chunk, places[first : first + len(chunk)])
        for chunk, first in zip(lists.chunks, starts[:-1], strict=True)
    ]
    return pa.chunked_array(found, lists.type.value_type)


def _elements(chunk: pa.Array, places: NDArray[np.int64]) -> pa.Array:
    sizes = _sizes(chunk)
    starts = np.cumsum(sizes) - sizes
    index = starts + np.where(places > 0, places - 1, sizes + places)
    missing = (places == 0) | (places > sizes) | (places < -sizes)
    return pc.list_flatten(chunk).take(pa.array(np.where(missing, 0, index), mask=missing))
