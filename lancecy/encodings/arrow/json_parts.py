"""Parts of stored JSON values: selection by a path, numbers, and elements of arrays, without their text.

Source: file sheet 2.0, section 8.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.arrow.columns import validity_of

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
]

Bytes = NDArray[np.uint8]

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


def _stored(stored: pa.LargeBinaryArray) -> tuple[NDArray[np.int64], Bytes, Bytes | None]:
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
    offsets, values, validity = _stored(stored)
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
    offsets, values, validity = _stored(stored)
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
    offsets, values, validity = _stored(stored)
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
    offsets, values, validity = _stored(stored)
    hits = np.empty(len(stored), np.uint8)
    kernels.json_array_has(offsets, values, np.frombuffer(text.encode(), np.uint8), hits, validity)
    return hits.view(np.bool_)
