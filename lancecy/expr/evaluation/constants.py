"""Columns compared with constants.

Arrow compares strings with a call per value, and numbers at a third of the speed of NumPy. For columns that are large
enough to matter, kernels compare the first bytes of all strings and search them, and NumPy compares numbers. Whether an integer is in a
list is looked up by its value, unless those of the list are too far apart.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.arrow.columns import validity_of
from lancecy.encodings.arrow.conversions import numbers_of

__all__ = ["COMPARISONS", "contains", "is_ascii", "is_in", "looked_up"]

Data: TypeAlias = Any
"""pa.Array, pa.ChunkedArray or, for constants, pa.Scalar."""
Bits: TypeAlias = NDArray[np.uint8]

_OFFSETS = {
    pa.string(): np.int32,
    pa.binary(): np.int32,
    pa.large_string(): np.int64,
    pa.large_binary(): np.int64,
}
# A multiple of eight, whose answers stay in a processor's cache.
_CACHED_VALUES = 1 << 16
# With fewer values Arrow is done before another function is called.
_MIN_ROWS = 1024
# Most answers of a list of integers: bytes that stay in a processor's cache, and of which most are used.
_MOST_ANSWERS = 1 << 21


def _compare(op: str, values: Data, other: Data) -> Data:
    arrow, numpy = _FUNCTIONS[op]
    if not isinstance(other, pa.Scalar) or not other.is_valid or values.type != other.type:
        return arrow(values, other)
    if isinstance(values, pa.Scalar) or len(values) < _MIN_ROWS:
        return arrow(values, other)
    stored = _stored_type(values.type)
    if stored is not None:
        constant = other.value if hasattr(other, "value") else other.as_py()
        return _per_chunk(values, partial(_number_bits, numpy, stored, constant))
    if op == "=" and values.type in _OFFSETS:
        return _per_chunk(values, partial(_text_bits, kernels.match_bytes, other.as_buffer().to_pybytes()))
    return pc.invert(_compare("=", values, other)) if op == "!=" else arrow(values, other)


def _per_chunk(values: Data, bits_of: Callable[[pa.Array], Bits]) -> Data:
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array([_per_chunk(chunk, bits_of) for chunk in values.chunks], pa.bool_())
    buffers = [validity_of(values), pa.py_buffer(bits_of(values))]
    return pa.Array.from_buffers(pa.bool_(), len(values), buffers, values.null_count)


@lru_cache(maxsize=256)
def _stored_type(kind: pa.DataType) -> str | None:
    """Type of the values as NumPy has them; None for values that are no plain numbers."""
    if pa.types.is_unsigned_integer(kind):
        return f"<u{kind.bit_width // 8}"
    if pa.types.is_signed_integer(kind) or (pa.types.is_temporal(kind) and not pa.types.is_interval(kind)):
        return f"<i{kind.bit_width // 8}"
    return f"<f{kind.bit_width // 8}" if kind in (pa.float32(), pa.float64()) else None


def _number_bits(function: Callable[..., Any], stored: str, constant: Any, values: pa.Array) -> Bits:
    if not len(values):
        return np.empty(0, np.uint8)
    numbers = np.frombuffer(values.buffers()[1], stored)[values.offset :][: len(values)]
    bits = np.empty((numbers.size + 7) >> 3, np.uint8)
    with np.errstate(invalid="ignore"):  # what is stored for a null may be anything
        # In pieces, as the system clears a new large array page by page.
        for start in range(0, numbers.size, _CACHED_VALUES):
            passed = function(numbers[start : start + _CACHED_VALUES], constant)
            bits[start >> 3 : (start + passed.size + 7) >> 3] = np.packbits(passed, bitorder="little")
    return bits


def looked_up(answers: pa.Array, codes: pa.Array) -> pa.Array:
    """``answers.take(codes)``, faster for many codes and conditions without nulls.

    Parameters
    ----------
    answers : pa.Array
        Of each value of a dictionary.
    codes : pa.Array
        Integers; null codes give null.

    Examples
    --------
    >>> looked_up(pa.array([False, True]), pa.array([1, None, 0], pa.int8())).to_pylist()
    [True, None, False]
    """
    if not pa.types.is_boolean(answers.type) or answers.null_count or len(codes) < _MIN_ROWS:
        return answers.take(codes)
    return _per_chunk(codes, partial(_code_bits, numbers_of(answers)))


def _code_bits(answers: NDArray[np.bool_], codes: pa.Array) -> Bits:
    stored = np.frombuffer(codes.buffers()[1], _stored_type(codes.type))[codes.offset :][: len(codes)]
    chosen = np.flatnonzero(answers)
    if chosen.size == 0:  # the dictionary of only nulls has no values to look up
        return np.zeros((stored.size + 7) >> 3, np.uint8)
    if chosen.size == 1:
        return np.packbits(stored == chosen[0], bitorder="little")
    # Codes of nulls may be anything.
    return np.packbits(answers.take(stored, mode="clip"), bitorder="little")


def is_in(values: Data, members: pa.Array) -> Data:
    """``pyarrow.compute.is_in``, faster for many integers; a null may give null instead of false.

    Parameters
    ----------
    values : pa.Array, pa.ChunkedArray or pa.Scalar
    members : pa.Array

    Examples
    --------
    >>> is_in(pa.array([1, 2, 3]), pa.array([3, 1])).to_pylist()
    [True, False, True]
    """
    is_large = not isinstance(values, pa.Scalar) and len(values) >= _MIN_ROWS
    stored = _stored_type(values.type) if is_large and values.type == members.type else None
    if stored is None or "f" in stored or not len(members) - members.null_count > 0:
        return pc.is_in(values, value_set=members)
    listed = members.drop_null()
    numbers = np.frombuffer(listed.buffers()[1], stored)[listed.offset :][: len(listed)]
    low, size = int(numbers.min()), int(numbers.max()) - int(numbers.min()) + 1
    if size > min(_MOST_ANSWERS, 8 * len(values)):
        return pc.is_in(values, value_set=members)
    unsigned = np.dtype(stored.replace("i", "u"))
    first = np.array(low, stored).view(unsigned)
    answers = np.zeros(size + 1, np.bool_)  # the last one is that of all other numbers
    answers[(numbers.view(unsigned) - first).astype(np.int64)] = True
    return _per_chunk(values, partial(_member_bits, first, answers))


def _member_bits(first: NDArray[Any], answers: NDArray[np.bool_], values: pa.Array) -> Bits:
    bits = np.empty((len(values) + 7) >> 3, np.uint8)
    if len(values):
        numbers = np.frombuffer(values.buffers()[1], first.dtype)[values.offset :][: len(values)]
        # Smaller numbers wrap around to large ones.
        last = min(answers.size - 1, np.iinfo(first.dtype).max)
        for start in range(0, numbers.size, _CACHED_VALUES):
            places = np.minimum(numbers[start : start + _CACHED_VALUES] - first, first.dtype.type(last))
            passed = answers.take(places.astype(np.intp, copy=False), mode="clip")
            bits[start >> 3 : (start + passed.size + 7) >> 3] = np.packbits(passed, bitorder="little")
    return bits


def contains(values: Data, text: str) -> Data:
    """``pyarrow.compute.match_substring``, faster for many texts.

    Parameters
    ----------
    values : pa.Array, pa.ChunkedArray or pa.Scalar
    text : str

    Examples
    --------
    >>> contains(pa.array(["lake", None, "sea"]), "ak").to_pylist()
    [True, None, False]
    """
    is_large = not isinstance(values, pa.Scalar) and len(values) >= _MIN_ROWS
    if not text or not is_large or values.type not in _OFFSETS:
        return pc.match_substring(values, pattern=text)
    return _per_chunk(values, partial(_text_bits, kernels.search_bytes, text.encode()))


def is_ascii(values: Data) -> bool:
    """Whether texts are known to have no characters beyond ASCII, so that a function of their bytes does.

    Parameters
    ----------
    values : pa.Array, pa.ChunkedArray or pa.Scalar

    Examples
    --------
    >>> is_ascii(pa.array(["lake", None])), is_ascii(pa.array(["Zürich"]))
    (True, False)
    """
    if values.type not in _OFFSETS or isinstance(values, pa.Scalar):
        return False
    if isinstance(values, pa.ChunkedArray):
        return all(map(is_ascii, values.chunks))
    _, offsets, text = values.buffers()
    if text is None or not len(values):
        return True
    places = np.frombuffer(offsets, _OFFSETS[values.type])[values.offset :]
    return int(np.frombuffer(text, np.uint8)[places[0] : places[len(values)]].max(initial=0)) < 0x80


def _text_bits(kernel: Callable[..., int], wanted: bytes, values: pa.Array) -> Bits:
    _, offsets, text = values.buffers()
    bits = np.empty((len(values) + 7) >> 3, np.uint8)
    if len(values):
        places = np.frombuffer(offsets, _OFFSETS[values.type])[values.offset :][: len(values) + 1]
        held = np.empty(0, np.uint8) if text is None else np.frombuffer(text, np.uint8)
        kernel(places, held, wanted, bits)
    return bits


_FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "=": (pc.equal, np.equal),
    "!=": (pc.not_equal, np.not_equal),
    "<": (pc.less, np.less),
    "<=": (pc.less_equal, np.less_equal),
    ">": (pc.greater, np.greater),
    ">=": (pc.greater_equal, np.greater_equal),
}

COMPARISONS: dict[str, Callable[[Data, Data], Data]] = {op: partial(_compare, op) for op in _FUNCTIONS}
"""The functions of ``pyarrow.compute`` by the operator, faster for a large column and a constant."""
