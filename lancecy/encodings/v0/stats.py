"""Minimum and maximum of every page of a column, for the statistics of 0.1 files.

The reference writes them for numbers, booleans, dates, text and bytes. lancecy also writes them for times,
timestamps, durations and half floats, and for the used values of dictionary columns: pylance (0.8.21 to 14.0.2)
reads these files and prunes by the bounds of times too.

Bounds may differ from the reference's, but must not make the reference drop rows. It treats a page with equal
bounds as constant, even with nulls or NaN, and a bound without bytes as missing. So:

- text longer than 64 bytes is cut at a whole character; a maximum that was cut gets the last character of Unicode
appended, so that it is above every text with this prefix;
- if the page has nulls, a zero byte is appended to the maximum;
- NaN makes the maximum infinite; zeros are -0.0 as a minimum and 0.0 as a maximum.

Text is compared eight bytes at a time, as numbers; only texts that are equal so far are compared further.

Source: file sheet 0.1, sections 6.2, 6.5 and 6.7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.arrow.columns import byte_order
from lancecy.encodings.blocks.memory import mask_of
from lancecy.encodings.blocks.select import offsets_of
from lancecy.encodings.model.block import Block, Coded, FixedWidth, Structured, VariableWidth
from lancecy.encodings.model.chunks import starts_of
from lancecy.records import dataclass
from lancecy.schema import Field
from lancecy.store.base import Memory

__all__ = [
    "BYTE_KINDS",
    "TEXT_KINDS",
    "PageBounds",
    "bounded_leaves",
    "bounds_kind",
    "joined_bounds",
    "number_dtype",
    "page_bounds",
]

Int64 = NDArray[np.int64]
UInt64 = NDArray[np.uint64]

_DTYPES = {
    **{f"int{8 * size}": f"<i{size}" for size in (1, 2, 4, 8)},
    **{f"uint{8 * size}": f"<u{size}" for size in (1, 2, 4, 8)},
    "halffloat": "<f2",
    "float": "<f4",
    "double": "<f8",
    "date32": "<i4",
    "date64": "<i8",
    "time32": "<i4",
    "time64": "<i8",
    "timestamp": "<i8",
    "duration": "<i8",
}
_FLOATS = ("halffloat", "float", "double")
TEXT_KINDS = ("string", "large_string")
BYTE_KINDS = (*TEXT_KINDS, "binary", "large_binary")
_MOST_BYTES = 64
_ROUNDS = 9
"""Comparisons of eight bytes each: enough for all bytes that decide a bound and those after a cut."""
_LAST_TEXT = np.frombuffer("\U0010ffff".encode(), np.uint8)
_LAST_BYTES = np.full(8, 0xFF, np.uint8)
# Which of eight bytes, the first being the highest, there are.
_BYTE_MASKS = np.array([0, *((1 << 64) - (1 << (64 - 8 * n)) for n in range(1, 9))], np.uint64)


@dataclass(frozen=True, slots=True, eq=False)
class PageBounds:
    """Bounds of some pages of a column.

    Attributes
    ----------
    null_counts : (num_pages,) int64
    low, high : FixedWidth or VariableWidth
        One value per page, of the column's type; an empty text means no bound. Booleans take a byte each until
        ``joined_bounds`` packs them.
    """

    null_counts: Int64
    low: FixedWidth | VariableWidth
    high: FixedWidth | VariableWidth


def bounded_leaves(field: Field) -> Iterator[Field]:
    """The fields at and below one, structs but no lists between, that have statistics.

    Examples
    --------
    >>> [leaf.name for leaf in bounded_leaves(Field("t", 0, logical_type="timestamp:us:-"))]
    ['t']
    >>> list(bounded_leaves(Field("l", 0, logical_type="list")))
    []
    """
    if field.is_struct:
        for child in field.children:
            yield from bounded_leaves(child)
    elif bounds_kind(field.logical_type) is not None:
        yield field


def bounds_kind(logical_type: str) -> str | None:
    """The logical type of a column's bounds: that of the column, or of the values of a dictionary.

    Returns
    -------
    str or None
        None for types whose pages have no statistics.

    Examples
    --------
    >>> bounds_kind("dict:string:int8:false"), bounds_kind("time32:s"), bounds_kind("fixed_size_binary:3")
    ('string', 'time32:s', None)
    """
    kind = logical_type.split(":")[1] if logical_type.startswith("dict:") else logical_type
    is_bounded = kind in BYTE_KINDS or kind == "bool" or kind.startswith("decimal:128:")
    return kind if is_bounded or kind.partition(":")[0] in _DTYPES else None


def number_dtype(kind: str) -> np.dtype[Any]:
    """How numbers and times of a type from :func:`bounds_kind` are stored."""
    return np.dtype(_DTYPES[kind.partition(":")[0]])


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
        return
    kind = bounds_kind(field.logical_type)
    if kind is None:
        return
    if isinstance(block, Coded):
        yield field.id, _coded_bounds(block, starts, kind)
    elif isinstance(block, VariableWidth):
        yield field.id, _text_bounds(block, starts, kind in TEXT_KINDS)
    elif isinstance(block, FixedWidth):
        low, high = _fixed_bounds(block, starts, kind)
        none = np.zeros(starts.size - 1, np.int64)
        yield field.id, PageBounds(none, low, high)


def joined_bounds(parts: list[PageBounds]) -> PageBounds:
    """Concatenate the bounds of the pages of several parts."""
    null_counts = np.concatenate([part.null_counts for part in parts])
    return PageBounds(null_counts, _joined([p.low for p in parts]), _joined([p.high for p in parts]))


def _joined(parts: list[Any]) -> FixedWidth | VariableWidth:
    if len(parts) == 1 and isinstance(parts[0], VariableWidth):
        return parts[0]
    length = sum(part.length for part in parts)
    values = np.concatenate([part.values for part in parts])
    if isinstance(parts[0], FixedWidth):
        # Booleans are collected as bytes and packed here.
        packed = np.packbits(values, bitorder="little") if parts[0].bits == 1 else values
        return FixedWidth(length, parts[0].bits, packed)
    lengths = np.concatenate([np.diff(part.offsets) for part in parts])
    return VariableWidth(length, 8, starts_of(lengths), values)


# -- values of one width --------------------------------------------------------------------------


def _fixed_bounds(block: FixedWidth, starts: Int64, kind: str) -> tuple[FixedWidth, FixedWidth]:
    raw: Memory = np.frombuffer(block.values, np.uint8)  # type: ignore[call-overload]
    if kind == "bool":
        values: NDArray[Any] = mask_of(raw, block.length).view(np.uint8)
    elif kind.startswith("decimal"):
        return _decimal_bounds(block, raw, starts)
    else:
        values = raw[: block.length * block.bits // 8].view(number_dtype(kind))
    first = starts[:-1]
    low, high = np.minimum.reduceat(values, first), np.maximum.reduceat(values, first)
    if kind in _FLOATS:
        low, high = _without_nan(values, first, low, high)
    return tuple(FixedWidth(first.size, block.bits, bound.view(np.uint8)) for bound in (low, high))  # type: ignore[return-value]


def _without_nan(
    values: NDArray[Any], first: Int64, low: NDArray[Any], high: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    nan = np.isnan(low)
    if nan.any():
        # The least number, or -inf if none is below infinity: equal bounds would make the page seem constant.
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
        rows[_extreme_rows(lambda at, step: keys[step][at], 2, every, counts, extreme)[0]].reshape(-1)
        for extreme in (np.minimum, np.maximum)
    )
    return FixedWidth(counts.size, 128, low), FixedWidth(counts.size, 128, high)


def _extreme_rows(
    key: Callable[[Int64, int], UInt64], rounds: int, rows: Int64, counts: Int64, extreme: np.ufunc
) -> tuple[Int64, Int64]:
    """The first extreme row of each page, and the number of rows with equal keys.

    Parameters
    ----------
    key : function of rows and the number of a round
        Compares rows that are equal so far.
    rounds : int
    rows : (n,) int64
        Page by page.
    counts : (num_pages,) int64, at least 1
        Rows of each page.
    extreme : np.minimum or np.maximum

    Returns
    -------
    (num_pages,) int64
        The first extreme row of each page, exact if the rounds tell all rows apart.
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
    return words.bounds(low, high, some, nulls, is_text)


class _Words:
    """Strings that are compared byte by byte."""

    def __init__(self, offsets: Int64, values: Memory) -> None:
        self._starts, self._lengths = offsets[:-1], np.diff(offsets)
        # So that eight bytes can be read wherever a value begins.
        self._values = np.concatenate((values, np.zeros(8 * _ROUNDS, np.uint8)))
        self._first: UInt64 | None = None

    def _keys(self, rows: Int64, step: int) -> UInt64:
        """Eight bytes of each string, as numbers that compare like them; zeros follow the end."""
        starts, lengths = self._starts, self._lengths
        if rows.size < lengths.size:
            starts, lengths = starts[rows], lengths[rows]
        elif step == 0 and self._first is not None:
            return self._first
        left = np.clip(lengths - 8 * step, 0, 8)
        out = np.empty(8 * rows.size, np.uint8)
        kernels.gather_fixed(self._values, np.where(left, starts + 8 * step, 0), 8, out)
        keys: UInt64 = out.view(">u8").astype(np.uint64) & _BYTE_MASKS[left]
        if step == 0 and rows.size == self._lengths.size:
            self._first = keys
        return keys

    def extreme(self, rows: Int64, counts: Int64, which: np.ufunc) -> Int64:
        """A least or greatest string of each page, judged by its first bytes."""
        if not rows.size:
            return rows
        longest = int(self._lengths[rows].max())
        rounds = min(_ROUNDS, -(-longest // 8))

        def key(at: Int64, step: int) -> UInt64:
            # The length decides last: keys cannot tell trailing zeros from the end of a string.
            return self._lengths[at].astype(np.uint64) if step == rounds else self._keys(at, step)

        return _extreme_rows(key, rounds + 1, rows, counts, which)[0]

    def bounds(self, low: Int64, high: Int64, pages: Int64, nulls: Int64, is_text: bool) -> PageBounds:
        """Bounds of all pages, from the least and the greatest string of pages that have any.

        Parameters
        ----------
        low, high : (num_some,) int64
            Numbers of these strings.
        pages : (num_some,) int64
            The pages they are of.
        nulls : (num_pages,) int64
            Nulls of every page.
        is_text : bool
        """
        last = _LAST_TEXT if is_text else _LAST_BYTES
        below = self.below(low, pages, nulls.size, is_text)
        return PageBounds(nulls, below, self.above(high, pages, nulls.size, is_text, last, nulls))

    def _cut(self, rows: Int64, is_text: bool) -> Int64:
        """Number of bytes of each string to keep: whole characters, if it is text."""
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
        offsets = starts_of(lengths)
        out = np.empty(int(offsets[-1]), np.uint8)
        kernels.place_spans(self._values, self._starts[rows], kept, out, offsets[pages])
        return VariableWidth(num_pages, 8, offsets, out)

    def above(
        self, rows: Int64, pages: Int64, num_pages: int, is_text: bool, last: Memory, nulls: Int64
    ) -> VariableWidth:
        """A bound above each page's greatest string; none if appending the last character does not give one."""
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
        offsets = starts_of(lengths)
        out = np.zeros(int(offsets[-1]), np.uint8)
        kernels.place_spans(self._values, starts, kept, out, offsets[pages])
        kernels.place_spans(last, np.zeros_like(more), more, out, offsets[pages] + kept)
        return VariableWidth(num_pages, 8, offsets, out)


# -- dictionaries ---------------------------------------------------------------------------------


def _coded_bounds(block: Coded, starts: Int64, kind: str) -> PageBounds:
    """Bounds of the values that the codes of each page name."""
    raw: Memory = np.frombuffer(block.codes.values, np.uint8)  # type: ignore[call-overload]
    codes = raw.view(f"<u{block.codes.bits // 8}")[: block.length]
    ranks, order = _ranks(block.dictionary, kind)
    if block.codes.null_count:
        # Rows that are null may have codes of no value.
        is_valid = mask_of(block.codes.validity, block.length)
        places = np.full(block.length, -1)
        places[is_valid] = ranks[codes[is_valid]]
    else:
        places = ranks[codes]
    first, counts, nulls = starts[:-1], np.diff(starts), np.zeros(starts.size - 1, np.int64)
    most = np.maximum.reduceat(places, first)
    if block.codes.null_count or (ranks < 0).any():
        nulls = np.add.reduceat(places < 0, first, dtype=np.int64)
        places[places < 0] = order.size
    some = np.flatnonzero(nulls < counts)
    least, most = np.minimum.reduceat(places, first)[some], most[some]
    return _bounds_of_values(block.dictionary, kind, order[least], order[most], some, nulls)


def _ranks(dictionary: Block, kind: str) -> tuple[Int64, Int64]:
    """Rank of each value in the sorted values, -1 for values that read as null; and the sort order."""
    if isinstance(dictionary, VariableWidth):
        offsets = offsets_of(dictionary)
        order = byte_order(offsets, np.frombuffer(dictionary.values, np.uint8))  # type: ignore[call-overload]
        is_null = np.diff(offsets) == 0
    elif isinstance(dictionary, FixedWidth):
        order = np.argsort(_numbers_of(dictionary, kind), kind="stable")
        is_null = np.zeros(dictionary.length, np.bool_)
    else:
        raise TypeError(f"a dictionary is not a {type(dictionary).__name__} block")
    if dictionary.null_count:
        is_null |= ~mask_of(dictionary.validity, dictionary.length)
    ranks = np.empty(order.size, np.int64)
    ranks[order] = np.arange(order.size)
    ranks[is_null] = -1
    return ranks, order


def _numbers_of(block: FixedWidth, kind: str) -> NDArray[Any]:
    raw: Memory = np.frombuffer(block.values, np.uint8)  # type: ignore[call-overload]
    return raw[: block.length * block.bits // 8].view(number_dtype(kind))


def _bounds_of_values(
    dictionary: Block, kind: str, low: Int64, high: Int64, some: Int64, nulls: Int64
) -> PageBounds:
    """Bounds of all pages, from dictionary values that are the extremes of pages with values."""
    if isinstance(dictionary, VariableWidth):
        values: Memory = np.frombuffer(dictionary.values, np.uint8)  # type: ignore[call-overload]
        return _Words(offsets_of(dictionary), values).bounds(low, high, some, nulls, kind in TEXT_KINDS)
    if not isinstance(dictionary, FixedWidth):
        raise TypeError(f"a dictionary is not a {type(dictionary).__name__} block")
    numbers = _numbers_of(dictionary, kind)
    ends = np.iinfo(numbers.dtype)
    bounds = []
    for rows, widest in ((low, ends.min), (high, ends.max)):
        bound = np.full(nulls.size, widest, numbers.dtype)
        bound[some] = numbers[rows]
        bounds.append(FixedWidth(nulls.size, dictionary.bits, bound.view(np.uint8)))
    return PageBounds(nulls, bounds[0], bounds[1])
