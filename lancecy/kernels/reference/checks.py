"""Checks of arguments and runs, shared by all twins.

In compiled kernels typed memoryviews check the arguments: a wrong dtype, a second dimension, gaps
between elements or a read-only output is refused before any work. A twin is :func:`checked` by its
annotations. Numbers of runs are Python integers, so hostile ones cannot overflow.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, TypeVar, cast, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels._codes import Fault, fail

__all__ = [
    "check_chunk_runs",
    "check_runs",
    "checked",
    "require",
    "require_level",
    "require_table",
    "same_length",
]

_Kernel = TypeVar("_Kernel", bound=Callable[..., Any])


def require(array: NDArray[Any], *dtypes: type[np.generic], writable: bool = False) -> None:
    """Refuse anything but a one-dimensional contiguous array of one of the dtypes.

    Raises
    ------
    TypeError
        Not an array, or none of several possible dtypes.
    ValueError
        Wrong shape or layout, wrong dtype where only one is possible, or read-only.
    """
    if not isinstance(array, np.ndarray):
        raise TypeError("expected a NumPy array")
    if array.dtype.type not in dtypes or not array.dtype.isnative:
        kind = ValueError if len(dtypes) == 1 else TypeError
        raise kind(f"unexpected dtype {array.dtype}")
    if array.ndim != 1 or not array.flags.c_contiguous:
        raise ValueError("expected a contiguous one-dimensional array")
    if writable and not array.flags.writeable:
        raise ValueError("output array is read-only")


def require_table(array: NDArray[np.int64], writable: bool = False) -> None:
    """Refuse anything but a two-dimensional contiguous array of int64.

    Raises
    ------
    TypeError
        Not an array.
    ValueError
        Wrong shape, layout or dtype, or read-only.
    """
    if not isinstance(array, np.ndarray):
        raise TypeError("expected a NumPy array")
    if array.dtype.type is not np.int64 or array.ndim != 2 or not array.flags.c_contiguous:
        raise ValueError("expected a contiguous two-dimensional array of int64")
    if writable and not array.flags.writeable:
        raise ValueError("output array is read-only")


def checked(kernel: _Kernel) -> _Kernel:
    """A function that checks its arrays by their annotations; outputs, named ``out…``, must be writable.

    Raises
    ------
    TypeError, ValueError
        A call raises them as :func:`require` does.
    """
    hints = get_type_hints(kernel)
    names = [*signature(kernel).parameters]
    known = {name: found for name in names if (found := _dtypes(hints[name]))}

    @wraps(kernel)
    def call(*args: Any, **kwargs: Any) -> Any:
        for name, value in {**dict(zip(names, args, strict=False)), **kwargs}.items():
            if name in known and not (value is None and type(None) in get_args(hints[name])):
                require(value, *known[name], writable=name.startswith("out"))
        return kernel(*args, **kwargs)

    return cast(_Kernel, call)


def _dtypes(hint: Any) -> list[type[np.generic]]:
    """The dtypes of ``NDArray[…]`` or a union of these; none if it is no array."""
    arrays = [kind for kind in (hint, *get_args(hint)) if getattr(kind, "__origin__", None) is np.ndarray]
    return [get_args(get_args(array)[1])[0] for array in arrays]


def require_level(level: int, lowest: int = 0) -> None:
    """Refuse a number that is not a repetition or definition level.

    Raises
    ------
    ValueError
        Below ``lowest`` or beyond 16 bits.
    """
    if not lowest <= level <= 0xFFFF:
        raise ValueError(f"{level} is not a level")


def same_length(what: str, *arrays: NDArray[Any]) -> None:
    """Refuse arrays of different lengths.

    Raises
    ------
    ValueError
        They differ; the message is ``what``.
    """
    if len({array.size for array in arrays}) > 1:
        raise ValueError(what)


def check_runs(
    positions: NDArray[np.int64],
    counts: NDArray[np.int64],
    memory_size: int,
    *,
    extra: int,
    width: int,
    capacity: int,
) -> list[tuple[int, int]]:
    """Position and count of every run, after checking that all are in memory.

    Parameters
    ----------
    positions, counts : (num_runs,) int64
    memory_size : int, bytes
    extra : int
        Items that a run has beyond its count.
    width : int, bytes
        Width of one item.
    capacity : int
        Number of items of all runs that the output has room for.

    Returns
    -------
    list of (position, count)
        As Python integers.

    Raises
    ------
    FormatError, TruncatedError
        A number is negative, or a run that is not empty passes the end; ``position`` is the run.
    ValueError
        The counts do not add up to ``capacity``.
    """
    runs = list(zip(positions.tolist(), counts.tolist(), strict=True))
    for i, (position, count) in enumerate(runs):
        if count < 0:
            fail(Fault.NEGATIVE, i)
        if count > capacity:
            fail(Fault.OUT_SIZE, i)
        capacity -= count
        if count and position < 0:
            fail(Fault.NEGATIVE, i)
        if count and position + (count + extra) * width > memory_size:
            fail(Fault.TRUNCATED, i)
    if capacity:
        fail(Fault.OUT_SIZE, len(runs))
    return runs


def check_chunk_runs(
    memory: NDArray[np.uint8],
    chunks: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
    runs: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
    capacity: int,
) -> list[tuple[int, int, int]]:
    """Chunk, start and count of every non-empty run, after checking that all are in their chunks.

    Parameters
    ----------
    memory : (nbytes,) uint8
    chunks : three (num_chunks,) int64
        Position and length in bytes and number of values of every chunk; only those that runs name are
        checked.
    runs : three (num_runs,) int64
        Chunk, first value and number of values.
    capacity : int
        Number of values of all runs that the output has room for.

    Returns
    -------
    list of (chunk, start, count)
        As Python integers.

    Raises
    ------
    FormatError, TruncatedError
        A run is not within its chunk, or a chunk not in memory.
    ValueError
        Arrays differ in length, or the counts do not add up to ``capacity``.
    """
    same_length("the arrays of the chunks differ in length", *chunks)
    same_length("the arrays of the runs differ in length", *runs)
    positions, lengths, counts = (numbers.tolist() for numbers in chunks)
    result = []
    for i, (chunk, start, count) in enumerate(zip(*(numbers.tolist() for numbers in runs), strict=True)):
        if count < 0:
            fail(Fault.RUN, i)
        if count > capacity:
            fail(Fault.OUT_SIZE, i)
        capacity -= count
        if count == 0:
            continue
        if not 0 <= chunk < len(counts) or start < 0 or start + count > counts[chunk]:
            fail(Fault.RUN, i)
        if positions[chunk] < 0 or lengths[chunk] < 0:
            fail(Fault.CHUNK_NEGATIVE, chunk)
        if positions[chunk] + lengths[chunk] > memory.size:
            fail(Fault.CHUNK_TRUNCATED, chunk)
        result.append((chunk, start, count))
    if capacity:
        fail(Fault.OUT_SIZE, len(runs[0]))
    return result
