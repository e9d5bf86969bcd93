"""Twins of ``_fsst``: one value after the other, one code after the other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels._codes import (
    FAULT_CODED_OFFSETS,
    FAULT_OUT_SIZE,
    FAULT_SYMBOL,
    FAULT_TOO_MANY_BYTES,
    fail,
)
from lancecy.kernels.reference.checks import require

__all__ = ["fsst_decode", "fsst_offsets"]

Offsets = NDArray[np.int32] | NDArray[np.int64]

_ESCAPE = 255


def _check_arguments(
    symbol_lengths: NDArray[np.uint8], offsets: Offsets, values: NDArray[np.uint8], out_offsets: Offsets
) -> None:
    require(symbol_lengths, np.uint8)
    require(offsets, np.int32, np.int64)
    require(values, np.uint8)
    if symbol_lengths.size != 256:
        raise ValueError("symbol_lengths needs 256 entries")
    if symbol_lengths.max() > 8:
        raise ValueError("a symbol has at most 8 bytes")
    if symbol_lengths[_ESCAPE] != 0:
        raise ValueError("code 255 is the escape and has no symbol")
    if offsets.size < 1 or out_offsets.size != offsets.size:
        raise ValueError("offsets and out_offsets need one entry more than values, both the same number")


def _decoded(codes: list[int], symbols: list[bytes]) -> tuple[bytes, int]:
    """The text of some codes, and how many of them it takes; fewer than all if the next one has no symbol."""
    text = bytearray()
    at = 0
    while at < len(codes):
        code = codes[at]
        if code == _ESCAPE and at + 1 < len(codes):
            text.append(codes[at + 1])
            at += 2
        elif symbols[code]:
            text += symbols[code]
            at += 1
        else:
            break
    return bytes(text), at


def _spans(offsets: Offsets, num_bytes: int) -> Iterator[tuple[int, int]]:
    for i, (start, stop) in enumerate(pairwise(offsets.tolist())):
        if not 0 <= start <= stop <= num_bytes:
            fail(FAULT_CODED_OFFSETS, i)
        yield start, stop


def fsst_offsets(
    symbol_lengths: NDArray[np.uint8], offsets: Offsets, values: NDArray[np.uint8], out_offsets: Offsets
) -> int:
    """As :func:`lancecy.kernels.fsst_offsets`."""
    require(out_offsets, np.int32, np.int64, writable=True)
    _check_arguments(symbol_lengths, offsets, values, out_offsets)
    most = int(np.iinfo(out_offsets.dtype).max)
    symbols = [bytes(length) for length in symbol_lengths.tolist()]
    total = 0
    out_offsets[0] = 0
    for i, (start, stop) in enumerate(list(_spans(offsets, values.size))):  # all offsets are looked at first
        text, used = _decoded(values[start:stop].tolist(), symbols)
        if used < stop - start:
            fail(FAULT_SYMBOL, i)
        total += len(text)
        if total > most:
            fail(FAULT_TOO_MANY_BYTES, i)
        out_offsets[i + 1] = total
    return total


def fsst_decode(
    symbols: NDArray[np.uint64],
    symbol_lengths: NDArray[np.uint8],
    offsets: Offsets,
    values: NDArray[np.uint8],
    out_offsets: Offsets,
    out: NDArray[np.uint8],
) -> None:
    """As :func:`lancecy.kernels.fsst_decode`."""
    require(symbols, np.uint64)
    require(out_offsets, np.int32, np.int64)
    require(out, np.uint8, writable=True)
    _check_arguments(symbol_lengths, offsets, values, out_offsets)
    if symbols.size != 256:
        raise ValueError("symbols needs 256 entries")
    lengths: list[Any] = symbol_lengths.tolist()
    table = [symbol.tobytes()[:length] for symbol, length in zip(symbols, lengths, strict=True)]
    if out_offsets[0] != 0 or out_offsets[-1] != out.size:
        fail(FAULT_OUT_SIZE, 0)
    spans = list(_spans(offsets, values.size))
    start, stop = (spans[0][0], spans[-1][1]) if spans else (0, 0)
    text, used = _decoded(values[start:stop].tolist(), table)
    if used < stop - start:
        fail(FAULT_SYMBOL, next(i for i, span in enumerate(spans) if start + used in range(*span)))
    if len(text) != out.size:
        fail(FAULT_OUT_SIZE, 0)
    out[:] = np.frombuffer(text, np.uint8)
