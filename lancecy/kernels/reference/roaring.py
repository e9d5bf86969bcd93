"""Twins of ``_roaring``: containers one by one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels._codes import Fault, fail
from lancecy.kernels.reference.checks import checked

__all__ = ["measure_bitmap", "read_bitmap"]

_NO_RUNS, _WITH_RUNS = 12346, 12347
_MOST_LISTED, _MAP_BYTES, _MOST_CONTAINERS = 4096, 8192, 65536
_FEW = 4

_Container = tuple[int, int, bool, bytes]
"""Key, number of values, whether they are in runs, and its bytes."""


@checked
def measure_bitmap(memory: NDArray[np.uint8]) -> tuple[int, int]:
    """As :func:`lancecy.kernels.measure_bitmap`."""
    found, start = _containers(memory.tobytes())
    if found is None:
        return -1, start
    return sum(count for _, count, _, _ in found), start + sum(len(content) for *_, content in found)


@checked
def read_bitmap(memory: NDArray[np.uint8], out: NDArray[np.int64]) -> None:
    """As :func:`lancecy.kernels.read_bitmap`."""
    found, _ = _containers(memory.tobytes())
    if found is None or sum(count for _, count, _, _ in found) != out.size:
        fail(Fault.OUT_SIZE, 0)
    done = 0
    for number, (key, count, in_runs, content) in enumerate(found):
        values = list(_values(count, in_runs, content))
        descends = any(after <= before for before, after in pairwise(values))
        if len(values) != count or descends or values[-1] > _MOST_CONTAINERS - 1:
            fail(Fault.CHUNK_PARTS, number)
        out[done : done + count] = [key << 16 | value for value in values]
        done += count


def _containers(data: bytes) -> tuple[list[_Container] | None, int]:
    """The containers, and where the first begins; None and the number of one if it is no bitmap."""
    header = _header(data)
    if header is None:
        return None, 0
    flags, pairs, start = header
    found: list[_Container] = []
    at = start
    for number, is_run in enumerate(flags):
        key, stated = (_word(data, pairs + 4 * number + more) for more in (0, 2))
        if found and key <= found[-1][0]:
            return None, number
        size = 2 * (stated + 1) if stated < _MOST_LISTED else _MAP_BYTES
        if is_run:
            size = 2 + 4 * _word(data, at) if at + 2 <= len(data) else len(data) + 1
        if at + size > len(data):
            fail(Fault.CHUNK_TRUNCATED, number)
        found.append((key, stated + 1, is_run, data[at : at + size]))
        at += size
    return found, start


def _header(data: bytes) -> tuple[list[bool], int, int] | None:
    """Which containers are runs, and where keys and containers begin; None if it is no bitmap."""
    if len(data) < 4:
        fail(Fault.CHUNK_TRUNCATED, 0)
    cookie = int.from_bytes(data[:4], "little")
    if cookie & 0xFFFF == _WITH_RUNS:
        count = (cookie >> 16) + 1
        pairs = 4 + (count + 7) // 8
        flags = [bool(data[4 + n // 8] >> n % 8 & 1) if pairs <= len(data) else False for n in range(count)]
    elif cookie == _NO_RUNS:
        if len(data) < 8:
            fail(Fault.CHUNK_TRUNCATED, 0)
        count, pairs = int.from_bytes(data[4:8], "little"), 8
        if count > _MOST_CONTAINERS:
            return None
        flags = [False] * count
    else:
        return None
    start = pairs + (4 if cookie != _NO_RUNS and count < _FEW else 8) * count
    if start > len(data):
        fail(Fault.CHUNK_TRUNCATED, 0)
    return flags, pairs, start


def _word(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 2], "little")


def _values(count: int, in_runs: bool, content: bytes) -> Iterator[int]:
    """The values of a container; a run that touches the one before it repeats a value."""
    if not in_runs:
        if count <= _MOST_LISTED:
            yield from np.frombuffer(content, "<u2").tolist()
        else:
            bits = np.unpackbits(np.frombuffer(content, np.uint8), bitorder="little")
            yield from np.flatnonzero(bits).tolist()
        return
    stop = -1
    for at in range(2, len(content), 4):
        start, length = _word(content, at), _word(content, at + 2) + 1
        if start <= stop or count < 0:
            yield -1
            return
        count -= length
        stop = start + length
        yield from range(start, stop)
