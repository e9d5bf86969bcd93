"""Twins of ``_stats``, ``_match`` and ``_search``: comparisons as array expressions, and byte strings as Python ``bytes``."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels._codes import EQ, GE, GT, LE, LT, NE, Fault, fail
from lancecy.kernels.reference.checks import checked, require, same_length

__all__ = ["compare_bounds", "compare_bytes_bounds", "match_bytes", "search_bytes"]


Bounds = NDArray[np.int64] | NDArray[np.uint64] | NDArray[np.float64]


def _scalar(value: object, dtype: np.dtype[Any]) -> Any:
    """The value in the type of the bounds.

    Raises
    ------
    TypeError
        It is not a number, or a fraction where integers are needed.
    ValueError
        It does not fit.
    """
    try:
        if dtype.kind == "f":
            if not hasattr(value, "__float__") and not hasattr(value, "__index__"):
                raise TypeError("value is not a number")
            return np.float64(float(value))  # type: ignore[arg-type]
        if not hasattr(value, "__index__"):
            raise TypeError("value is not an integer")
        return dtype.type(int(value))
    except OverflowError:
        raise ValueError("value is outside the type of the bounds") from None


@checked
def compare_bounds(
    op: int,
    lows: Bounds,
    highs: Bounds,
    value: float,
    out_empty: NDArray[np.uint8],
) -> None:
    """As :func:`lancecy.kernels.compare_bounds`."""
    require(highs, lows.dtype.type)
    if op not in range(6):
        raise ValueError("op is not one of 0..5")
    same_length("lows, highs and out_empty differ in length", lows, highs, out_empty)
    needle = _scalar(value, lows.dtype)
    empty = {
        EQ: (needle < lows) | (needle > highs),
        NE: (lows == needle) & (highs == needle),
        LT: lows >= needle,
        LE: lows > needle,
        GT: highs <= needle,
        GE: highs < needle,
    }[op]
    out_empty[:] = empty & (lows <= highs)


def _byte_strings(
    offsets: NDArray[np.int64], data: NDArray[np.uint8], present: NDArray[Any], count: int
) -> list[bytes | None]:
    """The bounds of one side, None where there is no bound."""
    starts, stops = offsets[:-1], offsets[1:]
    bad = np.flatnonzero((starts < 0) | (stops < starts) | (stops > data.size))
    if bad.size:
        fail(Fault.BOUND_OFFSETS, int(bad[0]))
    return [data[starts[i] : stops[i]].tobytes() if present[i] else None for i in range(count)]


def _is_empty(op: int, low: bytes | None, high: bytes | None, value: bytes) -> bool:
    if low is not None and high is not None and low > high:
        return False
    match op:
        case 0:
            return (low is not None and low > value) or (high is not None and high < value)
        case 2:
            return low is not None and low >= value
        case 3:
            return low is not None and low > value
        case 4:
            return high is not None and high <= value
        case 5:
            return high is not None and high < value
        case _:
            return False


@checked
def compare_bytes_bounds(
    op: int,
    low_offsets: NDArray[np.int64],
    low_bytes: NDArray[np.uint8],
    high_offsets: NDArray[np.int64],
    high_bytes: NDArray[np.uint8],
    has_low: NDArray[np.bool_] | NDArray[np.uint8],
    has_high: NDArray[np.bool_] | NDArray[np.uint8],
    value: bytes,
    out_empty: NDArray[np.uint8],
) -> None:
    """As :func:`lancecy.kernels.compare_bytes_bounds`."""
    count = out_empty.size
    for offsets, present in ((low_offsets, has_low), (high_offsets, has_high)):
        if offsets.size != count + 1 or present.size != count:
            raise ValueError("offsets need one entry more than out_empty, and has_low and has_high as many")
    if not isinstance(value, bytes):
        raise TypeError("value must be bytes")
    if op not in range(6):
        raise ValueError("op is not one of 0..5")
    lows = _byte_strings(low_offsets, low_bytes, has_low, count)
    highs = _byte_strings(high_offsets, high_bytes, has_high, count)
    for i, (low, high) in enumerate(zip(lows, highs, strict=True)):
        out_empty[i] = _is_empty(op, low, high, value)


@checked
def match_bytes(
    offsets: NDArray[np.int32] | NDArray[np.int64],
    values: NDArray[np.uint8],
    value: bytes,
    out: NDArray[np.uint8],
) -> int:
    """As :func:`lancecy.kernels.match_bytes`."""
    return _marked(offsets, values, value, out, lambda text: text == value)


@checked
def search_bytes(
    offsets: NDArray[np.int32] | NDArray[np.int64],
    values: NDArray[np.uint8],
    value: bytes,
    out: NDArray[np.uint8],
) -> int:
    """As :func:`lancecy.kernels.search_bytes`."""
    if isinstance(value, bytes) and not value:
        raise ValueError("value is empty")
    return _marked(offsets, values, value, out, lambda text: value in text)


def _marked(
    offsets: NDArray[np.int32] | NDArray[np.int64],
    values: NDArray[np.uint8],
    value: bytes,
    out: NDArray[np.uint8],
    test: Callable[[bytes], bool],
) -> int:
    """Mark the strings that pass a test."""
    if not isinstance(value, bytes):
        raise TypeError("value is not bytes")
    if offsets.size == 0:
        raise ValueError("offsets is empty")
    if out.size != (offsets.size + 6) >> 3:
        fail(Fault.OUT_SIZE, 0)
    text = values.tobytes()
    passes = np.zeros(offsets.size - 1, np.bool_)
    for index, (start, stop) in enumerate(pairwise(offsets.tolist())):
        if not 0 <= start <= stop <= len(text):
            fail(Fault.TEXT_OFFSETS, index)
        passes[index] = test(text[start:stop])
    out[:] = np.packbits(passes, bitorder="little")
    return int(np.count_nonzero(passes))
