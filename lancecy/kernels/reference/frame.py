"""Twin of ``_frame``: the numbers one by one."""

from __future__ import annotations

import re
import struct

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels.reference.checks import require, require_table

__all__ = ["file_frame"]

Int64 = NDArray[np.int64]

_FOOTER_BYTES = 40
_ENTRY_BYTES = 16
_COUNTS = 10
_LAST_ROWS = re.compile(rb"\x10([\x80-\xff]{0,8}[\x00-\x7f])\Z")


def file_frame(
    memory: NDArray[np.uint8], start: int, most_columns: int, out_ranges: Int64, out_counts: Int64
) -> bool:
    """As :func:`lancecy.kernels.file_frame`."""
    require(memory, np.uint8)
    require_table(out_ranges, writable=True)
    require(out_counts, np.int64, writable=True)
    if out_ranges.shape[0] != 2 or out_counts.size != _COUNTS:
        raise ValueError("out_ranges needs 2 rows and out_counts 10 numbers")
    data = memory.tobytes()
    if len(data) < _FOOTER_BYTES or not 0 <= start <= 2**63 - 1 - len(data):
        return False
    end = start + len(data) - _FOOTER_BYTES
    column_table, buffer_table, num_buffers, num_columns, major, minor, magic = struct.unpack(
        "<8xQQIIHH4s", data[-_FOOTER_BYTES:]
    )
    is_v2 = magic == b"LANC" and (major >= 2 or (major, minor) == (0, 3))
    if not is_v2 or num_buffers == 0 or num_columns > most_columns:
        return False
    for table, count in ((buffer_table, num_buffers), (column_table, num_columns)):
        if not start <= table <= end - count * _ENTRY_BYTES:
            return False
    at, nbytes = struct.unpack_from("<QQ", data, buffer_table - start)
    if not start <= at <= end - nbytes:
        return False
    first, last, total = end, 0, 0
    for column in range(num_columns):
        position, length = struct.unpack_from("<QQ", data, column_table - start + column * _ENTRY_BYTES)
        first, last, total = min(first, position), max(last, position + length), total + length
        if last > end or total > end + _FOOTER_BYTES:
            return False
        if column < out_ranges.shape[1]:
            out_ranges[:, column] = position, length
    rows = _last_rows(data[at - start : at - start + nbytes])
    out_counts[:] = major, minor, num_columns, at, nbytes, first, last, total, *rows
    return True


def _last_rows(descriptor: bytes) -> tuple[int, int]:
    """The number with which a descriptor ends, and the bytes before it."""
    found = _LAST_ROWS.search(descriptor)
    if found is None:
        return -1, 0
    return sum((byte & 0x7F) << 7 * place for place, byte in enumerate(found[1])), found.start()
