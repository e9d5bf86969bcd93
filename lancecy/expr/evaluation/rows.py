"""Kernels whose arguments are columns where most calls have constants.

A kernel for constants is one pass of Arrow or NumPy over the column. Where an argument is a column too, :func:`by_row`
calls a Python function for every row, and :func:`by_group` calls the kernel once for every combination of arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa

from lancecy.encodings.arrow.conversions import array_of
from lancecy.expr.evaluation.values import Data

__all__ = ["by_group", "by_row", "either", "is_data", "rows_of"]

# Rows whose Python objects are held at once.
_ROWS = 1 << 16


def is_data(value: Any) -> bool:
    """Whether an argument is of Arrow, and not the Python value of a constant."""
    return isinstance(value, (pa.Scalar, pa.Array, pa.ChunkedArray))


def rows_of(*arguments: Any) -> int | None:
    """Number of rows of the columns among the arguments; None if all are constants."""
    return next((len(a) for a in arguments if isinstance(a, (pa.Array, pa.ChunkedArray))), None)


def by_row(run: Callable[..., Any], target: pa.DataType, *arguments: Any) -> Data:
    """Apply ``run`` to the values of every row; null where any of them is null.

    Parameters
    ----------
    run : callable
        Takes and returns Python values.
    target : pa.DataType
        Type of the result.
    *arguments : pa.Array, pa.ChunkedArray, pa.Scalar or a Python value

    Examples
    --------
    >>> by_row(str.startswith, pa.bool_(), pa.array(["ab", "cd", None]), pa.array(["a", "a", "a"])).to_pylist()
    [True, False, None]
    """

    def of_rows(rows: Iterator[tuple[Any, ...]]) -> pa.Array:
        return _array([None if None in row else run(*row) for row in rows], target)

    return _in_pieces(of_rows, target, arguments)


def by_group(run: Callable[..., Data], target: pa.DataType, values: Data, *others: Any) -> Data:
    """Apply ``run`` to the values and constants of each combination of the other arguments, null if one is null.

    Parameters
    ----------
    run : callable
        Takes an array and Python values, and returns an array.
    target : pa.DataType
        Type of the result.
    values : pa.Array, pa.ChunkedArray or pa.Scalar
    *others : pa.Array, pa.ChunkedArray, pa.Scalar or a Python value

    Examples
    --------
    >>> import pyarrow.compute as pc
    >>> patterns = pa.array(["^a", "d$", None])
    >>> by_group(pc.match_substring_regex, pa.bool_(), pa.array(["ab", "cd", "ef"]), patterns).to_pylist()
    [True, True, None]
    """

    def of_rows(rows: Iterator[tuple[Any, ...]]) -> pa.Array:
        groups: dict[tuple[Any, ...], list[int]] = {}
        texts = []
        for place, (value, *constants) in enumerate(rows):
            texts.append(value)
            groups.setdefault(tuple(constants), []).append(place)
        held, parts, places = pa.array(texts, values.type), [pa.array([], target)], []
        for constants_of, members in groups.items():
            absent = None in constants_of
            part = (
                pa.nulls(len(members), target)
                if absent
                else run(held.take(pa.array(members)), *constants_of).cast(target)
            )
            parts.append(part)
            places += members
        return pa.concat_arrays(parts).take(array_of(np.argsort(places)))

    return _in_pieces(of_rows, target, (values, *others))


def either(
    constant: Callable[..., Data],
    varying: Callable[..., Any],
    target: pa.DataType | None = None,
    apply: Callable[..., Data] = by_row,
) -> Callable[..., Data]:
    """The kernel ``constant`` where all arguments but the first are Python values, else ``varying`` row by row.

    Parameters
    ----------
    constant : callable
        Takes Arrow data and Python values.
    varying : callable
        As ``apply`` takes it.
    target : pa.DataType, optional
        Type of the result; by default the type of the first argument.
    apply : callable
        :func:`by_row` or :func:`by_group`.
    """

    def run(values: Data, *others: Any) -> Data:
        if any(map(is_data, others)):
            return apply(varying, target or values.type, values, *others)
        return constant(values, *others)

    return run


def _in_pieces(
    run: Callable[[Iterator[tuple[Any, ...]]], pa.Array], target: pa.DataType, arguments: tuple[Any, ...]
) -> Data:
    count = rows_of(*arguments)
    made: list[pa.Array] = []
    for start in range(0, 1 if count is None else count, _ROWS):
        size = min(_ROWS, (1 if count is None else count) - start)
        columns = [
            repeat(a.as_py() if isinstance(a, pa.Scalar) else a, size)
            if isinstance(a, pa.Scalar) or not is_data(a)
            else a.slice(start, size).to_pylist()
            for a in arguments
        ]
        made.append(run(zip(*columns, strict=True)))
    return made[0][0] if count is None else pa.chunked_array(made, target)


def _array(values: list[Any], target: pa.DataType) -> pa.Array:
    found = pa.array(values, target)
    return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found
