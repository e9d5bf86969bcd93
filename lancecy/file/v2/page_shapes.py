"""Layouts of pages that differ in their number of items alone: such encodings are parsed once.

Releases write the number of items at the end of an encoding, so that the pages of small files differ in these bytes alone. Whether
the bytes are that number is tried once: another number in their place must give the same layout of so many items.
"""

from __future__ import annotations

from collections.abc import Callable

from lancecy.encodings.model.layouts import MiniBlock, PageSpec
from lancecy.errors import LanceError
from lancecy.records import dataclass

__all__ = ["WithoutItems", "shape_of", "without_items"]

_MOST_BYTES = 1024
"""Longer encodings have tables of symbols, which no other page shares."""
_MOST_ITEMS = 1 << 48
_ITEMS_TAG = 0x48
_LARGE_CHUNKS = b"\x50\x01"


@dataclass(frozen=True, slots=True)
class WithoutItems:
    """The bytes of an encoding around what may be the number of items, and how many bytes that has."""

    before: bytes
    after: bytes
    size: int

    def with_items(self, num_items: int) -> bytes:
        """The encoding of a page of so many items."""
        number = [(num_items >> 7 * place & 0x7F) | 0x80 for place in range(self.size)]
        number[-1] &= 0x7F
        return self.before + bytes(number) + self.after


def without_items(encoding: bytes) -> tuple[WithoutItems, int] | None:
    r"""The bytes around the number at the end of an encoding, and the number; None if there is none.

    Examples
    --------
    >>> without_items(bytes([10, 3, 0x48, 0x88, 0x07]))
    (WithoutItems(before=b'\n\x03H', after=b'', size=2), 904)
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
    return WithoutItems(encoding[:at], encoding[end:], end - at), num_items


def shape_of(around: WithoutItems, num_items: int, parse: Callable[[bytes], PageSpec]) -> MiniBlock | None:
    """The layout that encodings with these bytes have, without its number of items; None if the number is another one.

    Parameters
    ----------
    around : WithoutItems
    num_items : int
        Of one such encoding.
    parse : function of bytes
        Parses an encoding.
    """
    try:
        found = [parse(around.with_items(number)) for number in (num_items, num_items ^ 1)]
    except LanceError:
        return None
    first, second = found
    if not isinstance(first, MiniBlock) or first.num_items != num_items:
        return None
    shape = first.shape
    return shape if second == shape.of_items(num_items ^ 1) else None
