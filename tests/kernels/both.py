"""Calls of both implementations of the kernels, with a comparison of their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels import (
    _bitpack,
    _bits,
    _bitstream,
    _bloom,
    _bytesplit,
    _chunk_lists,
    _chunk_runs,
    _chunk_values,
    _chunk_writer,
    _dictionary,
    _distances,
    _filter,
    _frame,
    _fsst,
    _fsst_writer,
    _fullzip,
    _join,
    _json_path,
    _json_values,
    _jsonb,
    _levels,
    _lookup,
    _lz4,
    _match,
    _measure,
    _metadata,
    _offsets,
    _pack,
    _page_runs,
    _peel,
    _roaring,
    _rows,
    _runs,
    _scatter,
    _search,
    _sort,
    _spans,
    _stats,
    _structural,
    _v20_offsets,
    _v20_take,
    _varwidth,
)
from lancecy.kernels.reference import (
    bits,
    bloom,
    chunk_lists,
    chunks,
    comparison,
    compression,
    dictionary,
    distances,
    frame,
    fullzip,
    join,
    json_path,
    json_values,
    levels,
    metadata,
    offsets,
    roaring,
    sorting,
    spans,
    structural,
    symbols,
    writing,
)

GUARD = 0xA5
GUARD_BYTES = 64

Kernels = SimpleNamespace


def _collect(*modules: ModuleType) -> Kernels:
    return SimpleNamespace(**{name: getattr(module, name) for module in modules for name in module.__all__})


CYTHON = _collect(
    _bitpack,
    _bits,
    _bitstream,
    _bloom,
    _bytesplit,
    _chunk_lists,
    _chunk_runs,
    _chunk_values,
    _chunk_writer,
    _page_runs,
    _peel,
    _dictionary,
    _distances,
    _filter,
    _frame,
    _v20_offsets,
    _fsst,
    _fsst_writer,
    _fullzip,
    _join,
    _json_path,
    _json_values,
    _jsonb,
    _levels,
    _lookup,
    _lz4,
    _match,
    _measure,
    _metadata,
    _offsets,
    _pack,
    _v20_take,
    _scatter,
    _search,
    _sort,
    _roaring,
    _rows,
    _runs,
    _spans,
    _stats,
    _structural,
    _varwidth,
)
REFERENCE = _collect(
    bits,
    bloom,
    chunk_lists,
    chunks,
    comparison,
    compression,
    dictionary,
    distances,
    frame,
    fullzip,
    join,
    json_path,
    json_values,
    levels,
    metadata,
    offsets,
    roaring,
    sorting,
    spans,
    structural,
    symbols,
    writing,
)
IMPLEMENTATIONS: Mapping[str, Kernels] = {"cython": CYTHON, "reference": REFERENCE}


def i64(*values: int) -> NDArray[np.int64]:
    """Positions, lengths or counts."""
    return np.array(values, np.int64)


def memory_of(*parts: bytes | NDArray[Any]) -> NDArray[np.uint8]:
    """Bytes of all parts, read-only like a memory map.

    A block of its own with nothing after it, so that the sanitizer build sees a read one byte too far.
    """
    joined = b"".join(part if isinstance(part, bytes) else part.tobytes() for part in parts)
    memory = np.array(np.frombuffer(joined, np.uint8))
    memory.flags.writeable = False
    return memory


@dataclass(frozen=True)
class Outcome:
    """Result of a call: the error, or the value and the bytes of every output array."""

    error: type[BaseException] | None
    position: int | None
    text: str
    value: object
    outs: tuple[bytes, ...]


class _Guarded:
    """An output array between two strips of known bytes, which a kernel must not change."""

    def __init__(self, size: int, dtype: Any) -> None:
        nbytes = size * np.dtype(dtype).itemsize
        self.whole = np.full(nbytes + 2 * GUARD_BYTES, GUARD, np.uint8)
        self.array = self.whole[GUARD_BYTES : GUARD_BYTES + nbytes].view(dtype)

    def intact(self) -> bool:
        strips = (self.whole[:GUARD_BYTES], self.whole[GUARD_BYTES + self.array.nbytes :])
        return all(bool((strip == GUARD).all()) for strip in strips)


def run(
    kernels: Kernels, name: str, inputs: Mapping[str, Any], outs: Mapping[str, tuple[int, Any]]
) -> Outcome:
    """Call one kernel with fresh, guarded outputs of the given sizes and dtypes."""
    guarded = {key: _Guarded(size, dtype) for key, (size, dtype) in outs.items()}
    arrays = {key: out.array for key, out in guarded.items()}
    try:
        value = getattr(kernels, name)(**inputs, **arrays)
    except (ValueError, TypeError) as error:
        outcome = Outcome(type(error), getattr(error, "position", None), str(error), None, ())
    else:
        outcome = Outcome(None, None, "", value, tuple(array.tobytes() for array in arrays.values()))
    for key, out in guarded.items():
        if not out.intact():
            raise AssertionError(f"{name} wrote outside {key}")
    return outcome


def assert_same(name: str, inputs: Mapping[str, Any], outs: Mapping[str, tuple[int, Any]]) -> Outcome:
    """Assert that the compiled kernel and its twin give the same result, including the text of errors."""
    compiled = run(CYTHON, name, inputs, outs)
    twin = run(REFERENCE, name, inputs, outs)
    assert compiled == twin
    return compiled


def pages(lengths: Sequence[Sequence[int]], *, first: int = 0, dtype: str = "<i8") -> list[NDArray[Any]]:
    """Offset arrays of pages whose values lie one after the other from ``first``."""
    result = []
    for page in lengths:
        offsets = first + np.concatenate(([0], np.cumsum(page, dtype=np.int64)))
        result.append(offsets.astype(dtype))
        first = int(offsets[-1])
    return result


def lay_out(
    arrays: Sequence[NDArray[Any]], *, gap: bytes = b""
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Memory with the arrays in order, ``gap`` bytes before each, and their positions."""
    sizes = [len(gap) + array.nbytes for array in arrays]
    positions = np.concatenate(([0], np.cumsum(sizes)))[:-1] + len(gap) if arrays else i64()
    return memory_of(*(part for array in arrays for part in (gap, array))), positions.astype(np.int64)
