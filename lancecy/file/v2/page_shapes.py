"""Layouts of pages that differ in their number of items alone: such encodings are parsed twice, however many there are.

Releases write the number of items at the end of an encoding, so that the pages of small files differ in these bytes alone. Two
encodings prove that the bytes are that number: if both are parsed, and the layouts differ in their numbers of items as the
bytes do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from lancecy.encodings.model.layouts import MiniBlock, PageSpec

__all__ = ["AlikeSpecs", "without_items"]

_MOST_BYTES = 1024
"""Longer encodings have tables of symbols, which no other page shares."""
_MOST_ITEMS = 1 << 48
_ITEMS_TAG = 0x48
_LARGE_CHUNKS = b"\x50\x01"

Around: TypeAlias = tuple[bytes, bytes, int]
"""The bytes of an encoding before and after what may be the number of items, and how many bytes that has."""


def without_items(encoding: bytes) -> tuple[Around, int] | None:
    r"""The bytes around the number at the end of an encoding, and the number; None if there is none.

    Examples
    --------
    >>> without_items(bytes([10, 3, 0x48, 0x88, 0x07]))
    ((b'\n\x03H', b'', 2), 904)
    """
    end = len(encoding)
    if end > _MOST_BYTES:
        return None
    if encoding.endswith(_LARGE_CHUNKS):
        end -= len(_LARGE_CHUNKS)
    at = end - 1
    if at < 1 or encoding[at] & 0x80:
        return None
    num_items = encoding[at]
    while at > 1 and (more := encoding[at - 1]) & 0x80:
        at -= 1
        num_items = num_items << 7 | (more & 0x7F)
    if encoding[at - 1] != _ITEMS_TAG or num_items > _MOST_ITEMS:
        return None
    return (encoding[:at], encoding[end:], end - at), num_items


class AlikeSpecs:
    """The layouts of encodings that differ in the number at their end alone."""

    def __init__(self) -> None:
        self._first: tuple[PageSpec, int] | None = None
        self._shape: MiniBlock | None = None

    def find(self, num_items: int, parse: Callable[[], PageSpec]) -> PageSpec:
        """The layout of the encoding with this number, which ``parse`` reads; its errors are raised."""
        shape, first = self._shape, self._first
        if shape is not None:
            return shape.of_items(num_items)
        if first is not None and first[1] == num_items:
            return first[0]
        spec = parse()
        if first is None:
            self._first = spec, num_items
        elif isinstance(spec, MiniBlock) and replace(spec, num_items=first[1]) == first[0]:
            # The other number of items is that of the first encoding, and this one is its own.
            self._shape = spec.shape if spec.num_items == num_items else None
        return spec
