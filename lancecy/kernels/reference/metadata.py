"""Twin of ``_metadata``: the fields of messages one by one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels._codes import Fault, fail
from lancecy.kernels.reference.checks import require, require_table

__all__ = ["column_pages"]

Int64 = NDArray[np.int64]

_MOST = 2**63 - 1
_ABSENT, _ELSEWHERE = -1, -2
_FIXED = {1: 8, 5: 4}


class _BadMessageError(Exception):
    """The bytes are no message."""


_COUNTS = 7


def column_pages(
    memory: NDArray[np.uint8],
    starts: Int64,
    sizes: Int64,
    out_edges: Int64,
    out_pages: Int64,
    out_buffers: Int64,
    out_counts: Int64,
) -> None:
    """As :func:`lancecy.kernels.column_pages`."""
    require(memory, np.uint8)
    require(starts, np.int64)
    require(sizes, np.int64)
    for table in (out_edges, out_pages, out_buffers, out_counts):
        require_table(table, writable=True)
    if starts.size != sizes.size:
        raise ValueError("starts and sizes need the same length")
    if out_edges.shape[0] != 2 or out_pages.shape[0] != 4 or out_buffers.shape[0] != 2:
        raise ValueError("out_edges needs 2 rows, out_pages 4 and out_buffers 2")
    if out_edges.shape[1] != out_pages.shape[1] + starts.size:
        raise ValueError("out_edges needs one entry for each column more than out_pages")
    if out_counts.shape != (starts.size, _COUNTS):
        raise ValueError("out_counts needs 7 numbers for each column")
    data = memory.tobytes()
    for number, (start, size) in enumerate(zip(starts.tolist(), sizes.tolist(), strict=True)):
        if start < 0 or size < 0 or start > len(data) - size:
            fail(Fault.TRUNCATED, number)
        edges, pages, buffers, counts = _column(data, start, start + size)
        has_room = buffers.shape[1] <= out_buffers.shape[1]
        stored = _store(out_pages, pages)
        _store(out_edges, edges[:, : stored + 1])
        out_counts[number] = *counts[:-1], counts[-1] if has_room else -1
        out_edges, out_pages = out_edges[:, stored + 1 :], out_pages[:, stored:]
        out_buffers = out_buffers[:, _store(out_buffers, buffers) :]


def _column(data: bytes, start: int, stop: int) -> tuple[Int64, Int64, Int64, list[int]]:
    """Edges, pages, buffers and counts of one column."""
    pages: list[tuple[int, int, int, int, int]] = []
    buffers: tuple[list[int], list[int]] = ([], [])
    encoding, has_own = (0, _ABSENT), False
    try:
        for tag, value, at in _fields(data, start, stop):
            if tag == 18:
                pages.append(_page(data, at, at + value, buffers))
            elif tag == 10:
                encoding = _encoding(data, at, at + value, encoding)
            elif tag == 24 or (tag == 26 and value):
                has_own = True
            if len(buffers[0]) != len(buffers[1]):
                fail(Fault.BUFFERS, len(pages) - 1)
    except _BadMessageError:
        fail(Fault.MESSAGE, len(pages))
    lengths = accumulate((page[0] for page in pages), _sum, initial=0)
    edges = np.array([list(lengths), [0, *(page[4] for page in pages)]], np.int64)
    nbytes, end = reduce(_sum, buffers[1], 0), max(map(_sum, *buffers), default=0)
    counts = [len(pages), len(buffers[0]), *encoding, int(has_own), nbytes, end]
    return edges, np.array(pages, np.int64).reshape(-1, 5).T[:4], np.array(buffers, np.int64), counts


def _sum(one: int, other: int) -> int:
    return min(one + other, _MOST)


def _store(out: Int64, found: Int64) -> int:
    """Store the first entries of each row, as many as there is room for."""
    size: int = min(out.shape[1], found.shape[1])
    out[:, :size] = found[:, :size]
    return size


def _number(data: bytes, at: int, end: int) -> tuple[int, int]:
    """A number of at most ten bytes, and where it ends."""
    found = 0
    for place in range(at, min(end, at + 10)):
        found |= (data[place] & 0x7F) << (7 * (place - at))
        if data[place] < 0x80:
            return found & (2**64 - 1), place + 1
    raise _BadMessageError


def _fields(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Tag, number or number of bytes, and start of the bytes of each field."""
    while at < end:
        tag, at = _number(data, at, end)
        kind, start, value = tag & 7, at, 0
        if tag < 8 or tag >> 32:
            raise _BadMessageError
        if kind == 0:
            value, at = _number(data, at, end)
        elif kind == 2:
            value, start = _number(data, at, end)
            at = start + value
        elif kind in _FIXED:
            at += _FIXED[kind]
        else:
            raise _BadMessageError
        if at > end:
            raise _BadMessageError
        yield tag, value, start


def _page(
    data: bytes, start: int, stop: int, buffers: tuple[list[int], list[int]]
) -> tuple[int, int, int, int, int]:
    numbers = {24: 0, 40: 0}
    encoding = (0, _ABSENT)
    for tag, value, at in _fields(data, start, stop):
        if tag in (10, 18):
            place = at
            while place < at + value:
                number, place = _number(data, place, at + value)
                buffers[tag == 18].append(min(number, _MOST))
        elif tag in (8, 16):
            buffers[tag == 16].append(min(value, _MOST))
        elif tag in numbers:
            numbers[tag] = min(value, _MOST)
        elif tag == 34:
            encoding = _encoding(data, at, at + value, encoding)
    return numbers[24], numbers[40], *encoding, len(buffers[0])


def _encoding(data: bytes, start: int, stop: int, found: tuple[int, int]) -> tuple[int, int]:
    for tag, value, at in _fields(data, start, stop):
        if tag == 10:
            found = found[0], _ELSEWHERE
        elif tag == 26:
            found = found[0], _ABSENT
        elif tag == 18:
            found = 0, 0
            for inner, size, place in _fields(data, at, at + value):
                if inner == 10:
                    found = place, size
    return found
