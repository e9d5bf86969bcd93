"""Kernel calls as bytes and back.

A fuzzer changes bytes and a kernel takes arrays, so the arguments of a call are written one after the other in
the order of its parameters: a tag, then an integer, or the kind and length of an array and its content. An output array
(a parameter whose name starts with ``out``) has no content: it begins as zeros. Any bytes are some call.

    tag 0 None | 1 integer (8 bytes) | 2 False | 3 True | 4 array: u8 kind, u8 dimensions, u16 lengths, content
        | 5 bytes: u16 length, content | 6 list: u8 length, then that many arguments
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = ["MAX_ITEMS", "parameters", "read_call", "write_call"]

KINDS = [np.dtype(name) for name in ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8", "?")]
MAX_ITEMS = 1 << 15
NONE, INTEGER, FALSE, TRUE, ARRAY, TEXT, LIST = range(7)


def parameters(kernel: Callable[..., Any]) -> list[str]:
    """Names of the parameters of a kernel's twin, in order."""
    return list(inspect.signature(kernel).parameters)


def write_call(names: Sequence[str], arguments: Sequence[Any]) -> bytes | None:
    """A call as bytes; None if something in it is too long or of no kind that is known."""
    parts: list[bytes] = []
    for name, value in zip(names, arguments, strict=True):
        written = _write(value, name.startswith("out"))
        if written is None:
            return None
        parts.append(written)
    return b"".join(parts)


def _write(value: Any, is_output: bool) -> bytes | None:
    if value is None:
        return bytes([NONE])
    if isinstance(value, bool | np.bool_):
        return bytes([TRUE if value else FALSE])
    if isinstance(value, int | np.integer):
        return bytes([INTEGER]) + (int(value) & (2**64 - 1)).to_bytes(8, "little")
    if isinstance(value, bytes):
        return bytes([TEXT]) + len(value).to_bytes(2, "little") + value if len(value) < 1 << 16 else None
    if isinstance(value, list | tuple):
        parts = [_write(part, is_output) for part in value]
        known = [part for part in parts if part is not None]
        return bytes([LIST, len(parts)]) + b"".join(known) if len(known) == len(parts) < 256 else None
    if not isinstance(value, np.ndarray) or value.dtype not in KINDS or value.size > MAX_ITEMS:
        return None
    head = bytes([ARRAY, KINDS.index(value.dtype), value.ndim])
    lengths = b"".join(length.to_bytes(2, "little") for length in value.shape)
    return head + lengths + (b"" if is_output else value.tobytes())


class _Feed:
    """Bytes taken from the front; zeros once there are none left."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def take(self, count: int) -> bytes:
        found = self.data[self.position : self.position + count]
        self.position += count
        return found + bytes(count - len(found))

    def number(self, count: int) -> int:
        return int.from_bytes(self.take(count), "little")


def read_call(names: Sequence[str], data: bytes) -> list[Any]:
    """The arguments that some bytes stand for; every array in memory of exactly its size."""
    feed = _Feed(data)
    return [_read(feed, name.startswith("out"), 2) for name in names]


def _read(feed: _Feed, is_output: bool, depth: int) -> Any:
    tag = feed.number(1) % (LIST + 1 if depth else LIST)
    if tag == INTEGER:
        number = feed.number(8)
        return number - (1 << 64) if number >> 63 else number
    if tag == ARRAY:
        kind = KINDS[feed.number(1) % len(KINDS)]
        shape = [feed.number(2) for _ in range(1 + (feed.number(1) - 1) % 2)]
        while int(np.prod(shape)) > MAX_ITEMS:
            shape = [length // 2 for length in shape]
        # NumPy would round up; the sanitizer sees one byte too many only behind memory of the exact size.
        made = np.zeros(shape, kind)
        if not is_output:
            content = np.frombuffer(feed.take(made.nbytes), np.uint8)
            made.view(np.uint8).reshape(-1)[:] = content & 1 if kind == np.bool_ else content
        return made
    if tag == TEXT:
        return feed.take(feed.number(2))
    if tag == LIST:
        return [_read(feed, is_output, depth - 1) for _ in range(feed.number(1) % 8)]
    return {NONE: None, FALSE: False, TRUE: True}[tag]
