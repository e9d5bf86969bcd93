"""Conversion of JSON between text and the binary form of the format.

All numbers are big-endian. A value is a container::

    u32  array 0x8… | object 0x4… | scalar 0x2…, in the low bits how many elements (keys)
    u32  per element (objects: keys, then values): its type, and its number of bytes
    the bytes of the elements, one after the other

Text has the form that pylance writes: no spaces, keys as stored (sorted), floats in their shortest form,
``null`` for invalid numbers, infinities and values without bytes. Binary values equal pylance's: members sorted by
name, integers in the fewest bytes, and as float64 integers beyond 64 bits and all numbers with a dot or an
exponent. They are made one by one in Python. Text with a repeated member, invalid JSON and values nested deeper
than readers accept are refused.

Parts of binary values are selected by a path, and numbers and elements of arrays compared, without their text.

Source: file sheet 2.0, section 8, and what pylance 14 writes.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.arrow.columns import validity_of
from lancecy.errors import SchemaError
from lancecy.limits import check_offsets
from lancecy.records import dataclass

__all__ = [
    "ALL_PARTS",
    "FIRST_PART",
    "ONE_VALUE",
    "PathSteps",
    "Scalars",
    "array_has",
    "found_by",
    "scalars",
    "select",
    "to_stored",
    "to_texts",
]


Int64 = NDArray[np.int64]
Bytes = NDArray[np.uint8]

_SAMPLE = 512
"""Number of values measured to estimate the size of all texts."""


def to_texts(stored: pa.LargeBinaryArray, plain: bool = False) -> pa.StringArray:
    r"""Convert stored values to JSON texts.

    Parameters
    ----------
    stored : pa.LargeBinaryArray
        Of any offset; nulls stay null.
    plain : bool
        Leave text itself without quotes and escapes.

    Raises
    ------
    FormatError
        The bytes are not a stored JSON value, have text that is not UTF-8 or are nested more than 128 deep;
        ``position`` is the row.
    LimitError
        The texts have more bytes than 32-bit offsets can count.

    Examples
    --------
    >>> value = bytes.fromhex("40000001 10000001 20000002 61 5001")
    >>> to_texts(pa.array([value, None], pa.large_binary())).to_pylist()
    ['{"a":1}', None]
    """
    count = len(stored)
    if count == 0:
        return pa.array([], pa.string())
    offsets, values, present = _kernel_arrays(stored)
    ends = np.empty(count + 1, np.int64)
    size = _likely_size(offsets, values, ends, present, plain)
    while True:
        text = pa.allocate_buffer(size, resizable=True)
        total = kernels.json_texts(offsets, values, ends, np.frombuffer(text, np.uint8), present, plain)
        check_offsets(total, "bytes of JSON text", f"read the column in batches of {max(1, count // 2)} rows")
        if total <= size:
            break
        size = total
    text.resize(total, shrink_to_fit=total * 2 < size)
    validity = None if present is None else pa.py_buffer(present)
    buffers = [validity, pa.py_buffer(ends.astype(np.int32)), text]
    return pa.Array.from_buffers(pa.string(), count, buffers, stored.null_count)


def _likely_size(offsets: Int64, values: Bytes, ends: Int64, present: Bytes | None, plain: bool) -> int:
    """Estimated bytes of all texts, from the first values; on the high side."""
    count = min(offsets.size - 1, _SAMPLE)
    some = None if present is None else present[: (count + 7) >> 3]
    nothing = np.empty(0, np.uint8)
    found = kernels.json_texts(offsets[: count + 1], values, ends[: count + 1], nothing, some, plain)
    if count == offsets.size - 1:
        return found
    share, whole = (int(offsets[end] - offsets[0]) for end in (count, -1))
    # Unusual first values must not inflate it: text is seldom twice as long as its stored form.
    return min(found + int(whole / max(share, 1) * found * 1.1), 2 * whole + 4 * offsets.size)


# -- writing ----------------------------------------------------------------------------

_ARRAY, _OBJECT, _SCALAR = 0x80000000, 0x40000000, 0x20000000
_NULL, _STRING, _NUMBER, _FALSE, _TRUE, _CONTAINER = (kind << 28 for kind in range(6))
_MOST_BYTES = (1 << 28) - 1
_DEPTH = 128


def to_stored(texts: pa.Array) -> pa.LargeBinaryArray:
    r"""Convert JSON values to their stored form.

    Parameters
    ----------
    texts : pyarrow.Array
        Strings; or large binary, which is checked and stored unchanged.

    Raises
    ------
    SchemaError
        A value is not JSON, or cannot be stored; the message names its row.
    FormatError
        Binary values are not stored JSON.

    Examples
    --------
    >>> to_stored(pa.array(['{"a": 1}', None])).to_pylist()
    [b'@\x00\x00\x01\x10\x00\x00\x01 \x00\x00\x02aP\x01', None]
    """
    if pa.types.is_large_binary(texts.type):
        to_texts(texts)
        return texts
    values = (None if text is None else _stored(text, row) for row, text in enumerate(texts.to_pylist()))
    return pa.array(values, pa.large_binary())


def _stored(text: str, row: int) -> bytes:
    try:
        value = json.loads(
            text, object_pairs_hook=_members, parse_constant=_refused, parse_int=_parse_integer
        )
        return _document(value)
    except (ValueError, RecursionError) as error:
        why = "is nested too deep" if isinstance(error, RecursionError) else str(error)
        raise SchemaError(f"row {row} is not JSON that can be stored: {why}", difference="JSON") from error


def _members(pairs: list[tuple[str, Any]]) -> dict[bytes, Any]:
    found = {name.encode(): value for name, value in pairs}
    if len(found) < len(pairs):
        raise ValueError("an object has the same member twice")
    return found


def _refused(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _parse_integer(text: str) -> int | float:
    # Python refuses to read thousands of digits as a whole number, and they would be a float anyway.
    return int(text) if len(text) <= 20 and -(1 << 63) <= int(text) < 1 << 64 else float(text)


def _document(value: Any) -> bytes:
    if isinstance(value, dict | list):
        return _container(value, 0)
    return _packed(_SCALAR, [_element(value, 0)])


def _container(value: Any, depth: int) -> bytes:
    if depth > _DEPTH:
        raise ValueError(f"nested more than {_DEPTH} deep")
    if isinstance(value, list):
        return _packed(_ARRAY | _checked_length(value), [_element(item, depth) for item in value])
    names = sorted(value)
    elements = [*((_STRING, name) for name in names), *(_element(value[name], depth) for name in names)]
    return _packed(_OBJECT | _checked_length(value), elements)


def _checked_length(value: Any) -> int:
    if len(value) > _MOST_BYTES:
        raise ValueError("more elements than can be counted")
    return len(value)


def _packed(header: int, elements: list[tuple[int, bytes]]) -> bytes:
    if any(len(data) > _MOST_BYTES for _, data in elements):
        raise ValueError("an element of more than 256 MiB")
    words = [header, *(kind | len(data) for kind, data in elements)]
    return struct.pack(f">{len(words)}I", *words) + b"".join(data for _, data in elements)


def _element(value: Any, depth: int) -> tuple[int, bytes]:
    make = _ELEMENTS.get(type(value))
    return make(value) if make is not None else (_CONTAINER, _container(value, depth + 1))


def _integer(value: int) -> bytes:
    """A tag and the fewest bytes; zero is a tag alone."""
    if value == 0:
        return b"\x00"
    for size in (1, 2, 4, 8):
        if -(1 << (8 * size - 1)) <= value < 0:
            return b"\x40" + value.to_bytes(size, "big", signed=True)
        if 0 < value < 1 << 8 * size:
            return b"\x50" + value.to_bytes(size, "big")
    raise ValueError("a whole number of more than 64 bits")


def _float(value: float) -> bytes:
    if math.isinf(value):
        return b"\x20" if value > 0 else b"\x30"
    return b"\x60" + struct.pack(">d", value)


_ELEMENTS: dict[type, Callable[[Any], tuple[int, bytes]]] = {
    type(None): lambda _: (_NULL, b""),
    bool: lambda value: (_TRUE if value else _FALSE, b""),
    str: lambda value: (_STRING, value.encode()),
    int: lambda value: (_NUMBER, _integer(value)),
    float: lambda value: (_NUMBER, _float(value)),
}

ONE_VALUE, FIRST_PART, ALL_PARTS = range(3)
"""What :func:`select` returns: the part, or an array of several; the first part; an array of all parts."""


@dataclass(frozen=True, slots=True, eq=False)
class PathSteps:
    """A path in the form of the kernel ``json_select``.

    Attributes
    ----------
    steps : (4 * num_steps,) int64
    names : (nbytes,) uint8
    """

    steps: NDArray[np.int64]
    names: Bytes

    @classmethod
    def of(cls, steps: Sequence[tuple[int, int, int, int]], names: bytes) -> PathSteps:
        """The path of steps given as kind, first, last and flags."""
        return cls(np.array(steps, np.int64).reshape(-1), np.frombuffer(names, np.uint8))


@dataclass(frozen=True, slots=True, eq=False)
class Scalars:
    """Kinds and numbers of values; see the kernel ``json_scalars``.

    Attributes
    ----------
    kinds : (num_values,) uint8
    integers : (num_values,) int64
    floats : (num_values,) float64
    """

    kinds: Bytes
    integers: NDArray[np.int64]
    floats: NDArray[np.float64]


def _kernel_arrays(stored: pa.LargeBinaryArray) -> tuple[NDArray[np.int64], Bytes, Bytes | None]:
    """Offsets, bytes and validity bitmap of stored values, as kernels take them."""
    _, offsets, data = stored.buffers()
    validity = validity_of(stored)
    return (
        np.frombuffer(offsets, np.int64, len(stored) + 1, stored.offset * 8)
        if len(stored)
        else np.zeros(1, np.int64),
        np.frombuffer(data or b"", np.uint8),
        None if validity is None else np.frombuffer(validity, np.uint8, (len(stored) + 7) >> 3),
    )


def select(
    stored: pa.LargeBinaryArray, path: PathSteps, mode: int, allow: Callable[[int], None] | None = None
) -> pa.LargeBinaryArray:
    r"""Select parts of stored values.

    Parameters
    ----------
    stored : pa.LargeBinaryArray
    path : PathSteps
    mode : int
        ``ONE_VALUE``, ``FIRST_PART`` or ``ALL_PARTS``.
    allow : callable, optional
        Called with the number of bytes before they are allocated; may raise.

    Returns
    -------
    pa.LargeBinaryArray
        Stored values; null where the path leads to nothing.

    Raises
    ------
    FormatError
        The bytes are no stored values; ``position`` is the row.

    Examples
    --------
    >>> value = bytes.fromhex("40000001 10000001 20000002 61 5001")
    >>> select(pa.array([value, None], pa.large_binary()), PathSteps.of([(0, 0, 1, 0)], b"a"), ONE_VALUE).to_pylist()
    [b' \x00\x00\x00 \x00\x00\x02P\x01', None]
    """
    count = len(stored)
    offsets, values, validity = _kernel_arrays(stored)
    ends, found = np.empty(count + 1, np.int64), np.empty(count, np.uint8)
    # A part is hardly ever larger than the value it is from.
    size = int(offsets[-1] - offsets[0]) if count else 0
    while True:
        room = pa.allocate_buffer(size, resizable=True)
        out = np.frombuffer(room, np.uint8)
        total = kernels.json_select(offsets, values, path.steps, path.names, mode, ends, out, found, validity)
        if allow is not None:
            allow(total)
            allow = None
        if total <= size:
            break
        size = total
    room.resize(total, shrink_to_fit=total * 2 < size)
    bits = None
    if not found.all():
        bits = pa.py_buffer(np.packbits(found, bitorder="little"))
    return pa.Array.from_buffers(pa.large_binary(), count, [bits, pa.py_buffer(ends), room])


def found_by(stored: pa.LargeBinaryArray, path: PathSteps) -> NDArray[np.bool_]:
    """Where the path leads to something."""
    offsets, values, validity = _kernel_arrays(stored)
    ends, found = np.empty(len(stored) + 1, np.int64), np.empty(len(stored), np.uint8)
    nothing = np.empty(0, np.uint8)
    kernels.json_select(offsets, values, path.steps, path.names, FIRST_PART, ends, nothing, found, validity)
    return found.view(np.bool_)


def scalars(stored: pa.LargeBinaryArray) -> Scalars:
    """Kinds and numbers of stored values.

    Raises
    ------
    FormatError
        The bytes are no stored values; ``position`` is the row.
    """
    offsets, values, validity = _kernel_arrays(stored)
    count = len(stored)
    found = Scalars(np.empty(count, np.uint8), np.empty(count, np.int64), np.empty(count, np.float64))
    kernels.json_scalars(offsets, values, found.kinds, found.integers, found.floats, validity)
    return found


def array_has(stored: pa.LargeBinaryArray, text: str) -> NDArray[np.bool_]:
    """Where a stored array has an element with this JSON text; quotes may be left out.

    Raises
    ------
    FormatError
        The bytes are no stored values; ``position`` is the row.
    """
    offsets, values, validity = _kernel_arrays(stored)
    hits = np.empty(len(stored), np.uint8)
    kernels.json_array_has(offsets, values, np.frombuffer(text.encode(), np.uint8), hits, validity)
    return hits.view(np.bool_)
