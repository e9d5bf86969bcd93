"""The least and the greatest value of every page of a column, for the statistics of 0.1 files.

Bounds need not be the reference's, but have to be such that the reference drops no row. It takes a page whose
bounds are equal for a constant, also where there are nulls or NaN, and a bound of no bytes for none. So:

- text longer than 64 bytes is cut at a whole character; a maximum that was cut gets the last character
  of Unicode behind it, which nothing that begins like it is above;
- with nulls in the page, the maximum gets a zero byte more;
- NaN makes the maximum infinite; zeros are -0.0 as a minimum and 0.0 as a maximum.

Text is compared eight bytes at a time, as numbers, and only what is still equal is looked at further on.

Source: file sheet 0.1, sections 6.2, 6.5 and 6.7. Imports ``block``, ``keeping``, ``kernels``,
``schema`` and ``store.base``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.block import Block, FixedWidth, Structured, VariableWidth
from lancecy.encodings.keeping import mask_of, offsets_of
from lancecy.schema import Field
from lancecy.store.base import Memory

__all__ = ["PageBounds", "bounded_leaves", "joined_bounds", "page_bounds"]

Int64 = NDArray[np.int64]
UInt64 = NDArray[np.uint64]
Mask = NDArray[np.bool_]

_DTYPES = {
    **{f"int{8 * size}": f"<i{size}" for size in (1, 2, 4, 8)},
    **{f"uint{8 * size}": f"<u{size}" for size in (1, 2, 4, 8)},
    "float": "<f4",
    "double": "<f8",
    "date32:day": "<i4",
    "date64:ms": "<i8",
}
_TEXT = ("string", "large_string")
_BYTES = (*_TEXT, "binary", "large_binary")
_MOST_BYTES = 64
_ROUNDS = 9
"""Of eight bytes: what decides and what stands behind a cut is within them."""
_LAST_TEXT = np.frombuffer("\U0010ffff".encode(), np.uint8)
_LAST_BYTES = np.full(8, 0xFF, np.uint8)
# Which of eight bytes, the first being the highest, there are.
_THERE = np.array([0, *((1 << 64) - (1 << (64 - 8 * n)) for n in range(1, 9))], np.uint64)


@dataclass(frozen=True, slots=True, eq=False)
class PageBounds:
    """What the statistics say of some pages of a column.

    Attributes
    ----------
    null_counts : (num_pages,) int64
    low, high : FixedWidth or VariableWidth
        One value per page, of the column's type; of text, one of no bytes is no bound. Booleans take a byte each
        until ``joined_bounds`` packs them.
    """

    null_counts: Int64
    low: FixedWidth | VariableWidth
    high: FixedWidth | VariableWidth


def bounded_leaves(field: Field) -> Iterator[Field]:
    """The fields at and below one, structs but no lists between, that have statistics.

    Examples
    --------
    >>> [leaf.name for leaf in bounded_leaves(Field("t", 0, logical_type="timestamp:us:-"))]
    []
    """
    kind = field.logical_type
    if field.is_struct:
        for child in field.children:
            yield from bounded_leaves(child)
    elif kind in _DTYPES or kind in _BYTES or kind == "bool" or kind.startswith("decimal:128:"):
        yield field


def page_bounds(field: Field, block: Block, starts: Int64) -> Iterator[tuple[int, PageBounds]]:
    """Bounds of the pages of a column, or of each leaf in a struct.

    Parameters
    ----------
    field : Field
    block : Block
        See ``legacy_pages``.
    starts : (num_pages + 1,) int64
        Each page has a row.

    Yields
    ------
    (int, PageBounds)
        With the id of each of ``bounded_leaves``.

    Examples
    --------
    >>> numbers = FixedWidth(3, 8, np.array([5, 3, 4], np.uint8))
    >>> (_, bounds), = page_bounds(Field("n", 7, logical_type="uint8"), numbers, np.array([0, 2, 3]))
    >>> bounds.low.values.tolist(), bounds.high.values.tolist()
    ([3, 4], [5, 4])
    """
    if isinstance(block, Structured):
        for child in field.children:
            yield from page_bounds(child, block.children[child.id], starts)
    elif not any(bounded_leaves(field)):
        return
    elif isinstance(block, VariableWidth):
        yield field.id, _text_bounds(block, starts, field.logical_type in _TEXT)
    elif isinstance(block, FixedWidth):
        low, high = _fixed_bounds(block, starts, field.logical_type)
        none = np.zeros(starts.size - 1, np.int64)
        yield field.id, PageBounds(none, low, high)


def joined_bounds(parts: list[PageBounds]) -> PageBounds:
    """Those of the first part's pages, then those of the second's, and so on."""
    null_counts = np.concatenate([part.null_counts for part in parts])
    return PageBounds(null_counts, _joined([p.low for p in parts]), _joined([p.high for p in parts]))


def _joined(parts: list[Any]) -> FixedWidth | VariableWidth:
    if len(parts) == 1 and isinstance(parts[0], VariableWidth):
        return parts[0]
    length = sum(part.length for part in parts)
    values = np.concatenate([part.values for part in parts])
    if isinstance(parts[0], FixedWidth):
        # Booleans wait as bytes; here they are packed.
        packed = np.packbits(values, bitorder="little") if parts[0].bits == 1 else values
        return FixedWidth(length, parts[0].bits, packed)
    lengths = np.concatenate([np.diff(part.offsets) for part in parts])
    return VariableWidth(length, 8, _offsets(lengths), values)


def _offsets(lengths: Int64) -> Int64:
    offsets = np.zeros(lengths.size + 1, np.int64)
    lengths.cumsum(out=offsets[1:])
    return offsets


# -- values of one width --------------------------------------------------------------------------


def _fixed_bounds(block: FixedWidth, starts: Int64, kind: str) -> tuple[FixedWidth, FixedWidth]:
    raw: Memory = np.frombuffer(block.values, np.uint8)  # type: ignore[call-overload]
    if kind == "bool":
        values: NDArray[Any] = mask_of(raw, block.length).view(np.uint8)
    elif kind.startswith("decimal"):
        return _decimal_bounds(block, raw, starts)
    else:
        values = raw[: block.length * block.bits // 8].view(_DTYPES[kind])
    first = starts[:-1]
    low, high = np.minimum.reduceat(values, first), np.maximum.reduceat(values, first)
    if kind in ("float", "double"):
        low, high = _without_nan(values, first, low, high)
    return tuple(FixedWidth(first.size, block.bits, bound.view(np.uint8)) for bound in (low, high))  # type: ignore[return-value]


def _without_nan(
    values: NDArray[Any], first: Int64, low: NDArray[Any], high: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    nan = np.isnan(low)
    if nan.any():
        # The least number, if there is one below infinity: else the page would seem constant.
        least = np.fmin.reduceat(values, first)
        low = np.where(nan, np.where(least < np.inf, least, -np.inf), low).astype(low.dtype)
        high = np.where(nan, np.inf, high).astype(high.dtype)
    low[low == 0], high[high == 0] = -0.0, 0.0
    return low, high


def _decimal_bounds(block: FixedWidth, raw: Memory, starts: Int64) -> tuple[FixedWidth, FixedWidth]:
    rows = raw[: block.length * 16].reshape(-1, 16)
    halves = rows.view("<u8")
    sign = np.uint64(1 << 63)
    keys = (halves[:, 1] ^ sign, halves[:, 0])
    every, counts = np.arange(block.length), np.diff(starts)
    low, high = (
        rows[_chosen(lambda at, step: keys[step][at], 2, every, counts, extreme)[0]].reshape(-1)
        for extreme in (np.minimum, np.maximum)
    )
    return FixedWidth(counts.size, 128, low), FixedWidth(counts.size, 128, high)


def _chosen(
    key: Callable[[Int64, int], UInt64], rounds: int, rows: Int64, counts: Int64, extreme: np.ufunc
) -> tuple[Int64, Int64]:
    """The rows of each page that are its extreme as far as the keys tell; how many these are.

    Parameters
    ----------
    key : function of rows and the number of a round
        Rows that are equal so far are compared by it.
    rounds : int
    rows : (n,) int64
        Page by page.
    counts : (num_pages,) int64, at least 1
        Rows of each page.
    extreme : np.minimum or np.maximum

    Returns
    -------
    (num_pages,) int64
        The first of them in each page, if there were rounds enough to tell them apart.
    (num_pages,) int64
    """
    for step in range(rounds):
        if rows.size == counts.size:
            break
        keys = key(rows, step)
        best = extreme.reduceat(keys, np.cumsum(counts) - counts)
        kept = keys == np.repeat(best, counts)
        counts = np.add.reduceat(kept, np.cumsum(counts) - counts, dtype=np.int64)
        rows = rows[kept]
    return rows[np.cumsum(counts) - counts], counts


# -- text -----------------------------------------------------------------------------------------


def _text_bounds(block: VariableWidth, starts: Int64, is_text: bool) -> PageBounds:
    counts, offsets = np.diff(starts), offsets_of(block)
    values: Memory = np.frombuffer(block.values, np.uint8)  # type: ignore[call-overload]
    rows, nulls = np.arange(block.length), np.zeros_like(counts)
    if block.null_count:
        is_valid = mask_of(block.validity, block.length)
        nulls = counts - np.add.reduceat(is_valid, starts[:-1], dtype=np.int64)
        rows = np.flatnonzero(is_valid)
    some = np.flatnonzero(nulls < counts)
    words = _Words(offsets, values)
    low, high = (words.extreme(rows, (counts - nulls)[some], extreme) for extreme in (np.minimum, np.maximum))
    last = _LAST_TEXT if is_text else _LAST_BYTES
    return PageBounds(
        nulls,
        words.below(low, some, counts.size, is_text),
        words.above(high, some, counts.size, is_text, last, nulls),
    )


class _Words:
    """Strings that are compared byte by byte."""

    def __init__(self, offsets: Int64, values: Memory) -> None:
        self._starts, self._lengths = offsets[:-1], np.diff(offsets)
        # So that eight bytes can be read wherever a value begins.
        self._values = np.concatenate((values, np.zeros(8 * _ROUNDS, np.uint8)))
        self._first: UInt64 | None = None

    def _keys(self, rows: Int64, step: int) -> UInt64:
        """Eight bytes of each, as numbers that compare like them; zeros stand behind the end."""
        starts, lengths = self._starts, self._lengths
        if rows.size < lengths.size:
            starts, lengths = starts[rows], lengths[rows]
        elif step == 0 and self._first is not None:
            return self._first
        left = np.clip(lengths - 8 * step, 0, 8)
        out = np.empty(8 * rows.size, np.uint8)
        kernels.gather_fixed(self._values, np.where(left, starts + 8 * step, 0), 8, out)
        keys: UInt64 = out.view(">u8").astype(np.uint64) & _THERE[left]
        if step == 0 and rows.size == self._lengths.size:
            self._first = keys
        return keys

    def extreme(self, rows: Int64, counts: Int64, which: np.ufunc) -> Int64:
        """A least or greatest string of each page, as far as its first bytes tell."""
        if not rows.size:
            return rows
        longest = int(self._lengths[rows].max())
        rounds = min(_ROUNDS, -(-longest // 8))

        def key(at: Int64, step: int) -> UInt64:
            # After the bytes, the length: zeros at the end of a string look like none.
            return self._lengths[at].astype(np.uint64) if step == rounds else self._keys(at, step)

        return _chosen(key, rounds + 1, rows, counts, which)[0]

    def _cut(self, rows: Int64, is_text: bool) -> Int64:
        """How many bytes of each string are kept: whole characters, if it is text."""
        lengths = self._lengths[rows]
        kept = np.minimum(lengths, _MOST_BYTES)
        cut = np.flatnonzero(kept < lengths)
        for _ in range(3 if is_text and cut.size else 0):
            kept[cut] -= self._values[self._starts[rows[cut]] + kept[cut]] & 0xC0 == 0x80
        return kept

    def below(self, rows: Int64, pages: Int64, num_pages: int, is_text: bool) -> VariableWidth:
        """A bound below each page's least string."""
        lengths = np.zeros(num_pages, np.int64)
        lengths[pages] = kept = self._cut(rows, is_text)
        offsets = _offsets(lengths)
        out = np.empty(int(offsets[-1]), np.uint8)
        kernels.place_spans(self._values, self._starts[rows], kept, out, offsets[pages])
        return VariableWidth(num_pages, 8, offsets, out)

    def above(
        self, rows: Int64, pages: Int64, num_pages: int, is_text: bool, last: Memory, nulls: Int64
    ) -> VariableWidth:
        """A bound above each page's greatest string; none where even the last character does not help."""
        kept, starts = self._cut(rows, is_text), self._starts[rows]
        marked = (nulls[pages] > 0) & (kept > 0)
        more = np.zeros_like(kept)
        cut = np.flatnonzero(kept < self._lengths[rows])
        if cut.size:
            behind = self._values[(starts + kept)[cut, None] + np.arange(last.size)]
            is_last = (behind == last).all(axis=1)
            kept[cut[is_last]], more[cut[~is_last]], marked[cut] = 0, last.size, False
        lengths = np.zeros(num_pages, np.int64)
        lengths[pages] = kept + more + marked
        offsets = _offsets(lengths)
        out = np.zeros(int(offsets[-1]), np.uint8)
        kernels.place_spans(self._values, starts, kept, out, offsets[pages])
        kernels.place_spans(last, np.zeros_like(more), more, out, offsets[pages] + kept)
        return VariableWidth(num_pages, 8, offsets, out)
