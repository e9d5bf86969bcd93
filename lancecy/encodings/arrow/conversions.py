"""Arrow values from Python and NumPy, and back, without pandas.

``pa.scalar``, ``pa.array`` and ``to_numpy`` import pandas, which takes longer than opening a table and reading a few rows.
Here are the forms that such reads need; other values go to pyarrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["array_of", "filled", "numbers_of", "scalar_of", "values_of"]

_NAMES = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string()}


def scalar_of(value: Any, data_type: pa.DataType | None = None) -> pa.Scalar:
    """``pa.scalar(value, data_type)``.

    Parameters
    ----------
    value : object
        Of Python.
    data_type : pa.DataType or None
        None chooses it by the value.

    Raises
    ------
    OverflowError, TypeError, ValueError
        As ``pa.scalar``.

    Examples
    --------
    >>> scalar_of(3), scalar_of("a"), scalar_of(None, pa.int8())
    (<pyarrow.Int64Scalar: 3>, <pyarrow.StringScalar: 'a'>, <pyarrow.Int8Scalar: None>)
    """
    data_type = _NAMES.get(type(value)) if data_type is None else data_type
    if data_type is None:
        return pa.scalar(value)
    if value is None and not isinstance(data_type, pa.BaseExtensionType):
        return pa.nulls(1, data_type)[0]
    made = _made([value], data_type)
    return pa.scalar(value, data_type) if made is None else made[0]


def values_of(values: Sequence[Any], data_type: pa.DataType | None = None) -> pa.Array:
    """``pa.array(values, data_type)``.

    Parameters
    ----------
    values : sequence of object
        Of Python.
    data_type : pa.DataType or None
        None chooses it by the values.

    Raises
    ------
    OverflowError, TypeError, ValueError
        As ``pa.array``.

    Examples
    --------
    >>> values_of([3, 4], pa.int8()).to_pylist(), values_of(["a", "b"], pa.string()).to_pylist()
    ([3, 4], ['a', 'b'])
    """
    made = None if data_type is None else _made(values, data_type)
    return pa.array(values, data_type) if made is None else made


def _made(values: Sequence[Any], data_type: pa.DataType) -> pa.Array | None:
    """The array of values that are all of one type of Python; None for other values and types."""
    if not len(values):
        return pa.nulls(0, data_type)
    kinds = set(map(type, values))
    if kinds == {int} and pa.types.is_integer(data_type):
        dtype = np.dtype(data_type.to_pandas_dtype())
        limits = np.iinfo(dtype)
        if limits.min <= min(values) and max(values) <= limits.max:
            return array_of(np.array(values, dtype))
    if kinds == {float} and pa.types.is_float64(data_type):
        return array_of(np.array(values, np.float64))
    if kinds == {bool} and pa.types.is_boolean(data_type):
        return array_of(np.array(values, np.bool_))
    if kinds == {str} and data_type in (pa.string(), pa.large_string()):
        return _long_values([value.encode() for value in values], data_type)
    if kinds == {bytes} and data_type in (pa.binary(), pa.large_binary()):
        return _long_values(values, data_type)
    return None


def _long_values(values: Sequence[bytes], data_type: pa.DataType) -> pa.Array | None:
    """The array of texts or bytes; None if it would have to be of several chunks."""
    ends = np.cumsum([0, *map(len, values)], dtype=np.int64)
    is_large = data_type in (pa.large_string(), pa.large_binary())
    if not is_large and ends[-1] >> 31:
        return None
    places = ends if is_large else ends.astype(np.int32)
    return pa.Array.from_buffers(
        data_type, len(values), [None, pa.py_buffer(places), pa.py_buffer(b"".join(values))]
    )


def array_of(numbers: NDArray[Any], missing: NDArray[np.bool_] | None = None) -> pa.Array:
    """``pa.array(numbers, mask=missing)`` for integers, floating-point numbers and Booleans.

    Parameters
    ----------
    numbers : (n,) array
    missing : (n,) bool or None
        Which ones are null.

    Examples
    --------
    >>> array_of(np.array([1, 2]), np.array([False, True])).to_pylist()
    [1, None]
    """
    is_bool = numbers.dtype == np.bool_
    values = np.packbits(numbers, bitorder="little") if is_bool else np.ascontiguousarray(numbers)
    validity = None if missing is None else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    return pa.Array.from_buffers(
        pa.from_numpy_dtype(numbers.dtype), numbers.size, [validity, pa.py_buffer(values)]
    )


def numbers_of(array: pa.Array) -> NDArray[Any]:
    """``array.to_numpy(zero_copy_only=False)``.

    Parameters
    ----------
    array : pa.Array
        Integers, floating-point numbers or Booleans without nulls; pyarrow converts others.

    Returns
    -------
    (n,) array
        A view, which cannot be written to, of numbers; a copy of Booleans.

    Examples
    --------
    >>> numbers_of(pa.array([3, 4])[1:]), numbers_of(pa.array([True, False]))
    (array([4]), array([ True, False]))
    """
    is_number = pa.types.is_integer(array.type) or pa.types.is_floating(array.type)
    if array.null_count or not (is_number or pa.types.is_boolean(array.type)):
        return array.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
    if not len(array):
        return np.empty(0, array.type.to_pandas_dtype())
    memory, first = array.buffers()[1], array.offset
    if not is_number:
        start = first >> 3
        bits = np.frombuffer(memory, np.uint8, ((first + len(array) + 7) >> 3) - start, start)
        found = np.unpackbits(bits, bitorder="little")[first - 8 * start :][: len(array)]
        return found.view(np.bool_)
    dtype = np.dtype(array.type.to_pandas_dtype())
    numbers = np.frombuffer(memory, dtype, len(array), first * dtype.itemsize)
    numbers.flags.writeable = False
    return numbers


def filled(array: pa.Array, value: Any) -> pa.Array:
    """``array.fill_null(value)``.

    Parameters
    ----------
    array : pa.Array
    value : object
        Of Python.

    Examples
    --------
    >>> filled(pa.array([3, None]), 0).to_pylist()
    [3, 0]
    """
    return array.fill_null(scalar_of(value, array.type)) if array.null_count else array
