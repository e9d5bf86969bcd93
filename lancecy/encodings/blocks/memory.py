"""Memory for decoded values, reused once nothing refers to it.

The system clears a fresh large block page by page at its first use, which takes as long as decoding into it.
Unused blocks therefore stay in a pool, up to a bound, for the next read. ``allocate`` returns a lease: the
Arrow buffer and every array over it hold the lease, and the block returns to the pool with the last of them.

Validity bitmaps are made in it and read here.
"""

from __future__ import annotations

import threading
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.errors import FormatError
from lancecy.store.base import Memory

__all__ = ["POOL", "BufferPool", "allocate", "mask_of", "memory_of", "slot_validity", "uninitialized"]

Number = TypeVar("Number", bound=np.generic)

_SMALLEST = 256 << 10
"""Smaller blocks come from Arrow, whose allocator reuses them."""


class BufferPool:
    """Free blocks, by size.

    No method waits for the lock: if it is held, ``take`` allocates a new block and ``give`` frees the returned one.
    A block may therefore be returned during a garbage collection, and a process may be forked while another thread
    holds the lock (the child then has no pool).

    Parameters
    ----------
    room : int, bytes
        Most bytes to keep; blocks of the sizes unused for longest are freed first.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._waiting: dict[int, list[pa.Buffer]] = {}
        self._nbytes = 0
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        """Bytes of all free blocks."""
        return self._nbytes

    def take(self, nbytes: int) -> pa.Buffer:
        """Take a block of at least ``nbytes`` and at most an eighth more, with undefined content."""
        step = 1 << max(0, nbytes.bit_length() - 4)
        size = -(-nbytes // step) * step
        if self._lock.acquire(blocking=False):
            try:
                blocks = self._waiting.get(size)
                if blocks:
                    self._nbytes -= size
                    return blocks.pop()
            finally:
                self._lock.release()
        return pa.allocate_buffer(size)

    def give(self, block: pa.Buffer) -> None:
        """Return a block from ``take``; it is kept if there is room."""
        if block.size > self._room or not self._lock.acquire(blocking=False):
            return
        try:
            blocks = self._waiting.pop(block.size, [])
            blocks.append(block)
            self._waiting[block.size] = blocks
            self._nbytes += block.size
            while self._nbytes > self._room:
                self._drop_oldest()
        finally:
            self._lock.release()

    def _drop_oldest(self) -> None:
        size, blocks = next(iter(self._waiting.items()))
        if blocks:
            blocks.pop(0)
            self._nbytes -= size
        if not blocks:
            del self._waiting[size]


POOL = BufferPool(256 << 20)
"""The pool that decoders use."""


class _Lease:
    """A block in use; NumPy and Arrow refer to this object, not to the block."""

    __slots__ = ("__array_interface__", "_block", "_pool")

    def __init__(self, block: pa.Buffer, nbytes: int, pool: BufferPool) -> None:
        self._block, self._pool = block, pool
        self.__array_interface__: dict[str, Any] = {
            "data": (block.address, False),
            "shape": (nbytes,),
            "typestr": "|u1",
            "version": 3,
        }

    def __del__(self) -> None:
        self._pool.give(self._block)


def allocate(nbytes: int) -> tuple[pa.Buffer, NDArray[np.uint8]]:
    r"""Allocate memory for a kernel, as an Arrow buffer and as an array over the same bytes.

    Parameters
    ----------
    nbytes : int, bytes
        At least 0; bounded by the caller. The content is undefined.

    Returns
    -------
    buffer : pa.Buffer
    view : (nbytes,) uint8, writable

    Examples
    --------
    >>> buffer, view = allocate(4)
    >>> view[:] = 7
    >>> buffer.to_pybytes()
    b'\x07\x07\x07\x07'
    """
    if nbytes < _SMALLEST:
        buffer = pa.allocate_buffer(nbytes)
        return buffer, np.frombuffer(buffer, np.uint8)
    block = POOL.take(nbytes)
    lease = _Lease(block, nbytes, POOL)
    return pa.foreign_buffer(block.address, nbytes, lease), np.asarray(lease)


def uninitialized(count: int, dtype: type[Number]) -> NDArray[Number]:
    """An array with undefined content, from the same memory as that of ``allocate``.

    Parameters
    ----------
    count : int
    dtype : NumPy number type

    Returns
    -------
    (count,) dtype, writable

    Examples
    --------
    >>> from lancecy.encodings.blocks.memory import uninitialized
    >>> uninitialized(3, np.int64).shape
    (3,)
    """
    nbytes = count * np.dtype(dtype).itemsize
    return np.empty(count, dtype) if nbytes < _SMALLEST else allocate(nbytes)[1].view(dtype)


def memory_of(buffer: object) -> Memory:
    """The bytes of anything with the buffer protocol."""
    if isinstance(buffer, np.ndarray):
        if buffer.ndim == 1 and buffer.dtype == np.uint8:
            return buffer
        return buffer.reshape(-1).view(np.uint8)
    return np.frombuffer(buffer, np.uint8)  # type: ignore[call-overload,no-any-return]


Mask = NDArray[np.bool_]

Levels = NDArray[np.uint16]


# -- validity ---------------------------------------------------------------------------------


def mask_of(bits: object, length: int) -> Mask:
    r"""Convert a bitmap to one truth value per bit.

    Examples
    --------
    >>> mask_of(b"\x05", 3).tolist()
    [True, False, True]
    """
    memory = np.frombuffer(bits, np.uint8)  # type: ignore[call-overload]
    mask: Mask = np.unpackbits(memory, count=length, bitorder="little").view(np.bool_)
    return mask


def slot_validity(
    definition: Levels, valid_max: int, visible_max: int, num_slots: int
) -> tuple[NDArray[np.uint8] | None, int]:
    """Bitmap of the slots whose level is at most ``valid_max``, and the number of others; no bitmap if there are none.

    Raises
    ------
    FormatError
        The number of slots differs.
    """
    _, bits = allocate((definition.size + 7) >> 3)
    slots, null_count = kernels.level_validity(definition, valid_max, visible_max, bits)
    if slots != num_slots:
        raise FormatError(f"definition levels are for {slots} values, where {num_slots} are stored")
    return (bits[: (slots + 7) >> 3] if null_count else None), null_count
