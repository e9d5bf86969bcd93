"""JSON in the binary form that the format stores, as text.

All numbers are big-endian. A value is a container::

    u32  array 0x8… | object 0x4… | scalar 0x2…, in the low bits how many elements (keys)
    u32  per element (objects: keys, then values): what it is, and how many bytes it takes
    the bytes of the elements, one after the other

Text comes out as pylance writes it: no spaces, keys as they are stored (sorted), floats in
their shortest form, ``null`` for what is no number, for infinities and for a value of no
bytes. Source: file sheet 2.0, section 8, and what pylance 14 writes.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.arrow.columns import validity_of
from lancecy.limits import check_offsets

__all__ = ["to_texts"]

Int64 = NDArray[np.int64]
Bytes = NDArray[np.uint8]

_SAMPLE = 512
"""Values that are measured to guess the size of all texts."""


def to_texts(stored: pa.LargeBinaryArray) -> pa.StringArray:
    r"""The JSON texts of stored values.

    Parameters
    ----------
    stored : pa.LargeBinaryArray
        Of any offset; nulls stay null.

    Raises
    ------
    FormatError
        The bytes are no such value, have text that is not UTF-8 or are nested more than 128 deep;
        ``position`` is the row.
    LimitError
        More text than 32-bit offsets count.

    Examples
    --------
    >>> value = bytes.fromhex("40000001 10000001 20000002 61 5001")
    >>> to_texts(pa.array([value, None], pa.large_binary())).to_pylist()
    ['{"a":1}', None]
    """
    count = len(stored)
    if count == 0:
        return pa.array([], pa.string())
    _, offsets_buffer, data = stored.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64, count + 1, stored.offset * 8)
    values = np.frombuffer(data or b"", np.uint8)
    validity = validity_of(stored)
    present = None if validity is None else np.frombuffer(validity, np.uint8, (count + 7) >> 3)
    ends = np.empty(count + 1, np.int64)
    size = _likely_size(offsets, values, ends, present)
    while True:
        text = pa.allocate_buffer(size, resizable=True)
        total = kernels.json_texts(offsets, values, ends, np.frombuffer(text, np.uint8), present)
        check_offsets(total, "bytes of JSON text", f"read the column in batches of {max(1, count // 2)} rows")
        if total <= size:
            break
        size = total
    text.resize(total, shrink_to_fit=total * 2 < size)
    buffers = [validity, pa.py_buffer(ends.astype(np.int32)), text]
    return pa.Array.from_buffers(pa.string(), count, buffers, stored.null_count)


def _likely_size(offsets: Int64, values: Bytes, ends: Int64, present: Bytes | None) -> int:
    """About how many bytes the texts take, rather too many, going by the first values; all of them if they are few."""
    count = min(offsets.size - 1, _SAMPLE)
    some = None if present is None else present[: (count + 7) >> 3]
    found = kernels.json_texts(offsets[: count + 1], values, ends[: count + 1], np.empty(0, np.uint8), some)
    if count == offsets.size - 1:
        return found
    share, whole = (int(offsets[end] - offsets[0]) for end in (count, -1))
    # Values that begin unlike the rest must not blow it up: text is seldom twice as long as what is stored.
    return min(found + int(whole / max(share, 1) * found * 1.1), 2 * whole + 4 * offsets.size)
