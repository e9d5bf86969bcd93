"""Decoders of 2.0 pages with a dictionary and codes into it.

In a page of plain strings the dictionary saves space: code 0 is null, code k is item k - 1, and strings are
returned unless the caller takes codes. In a page of an Arrow dictionary field codes count from 0 and are returned as codes; a row is null if its
item is null. Small pages are decoded together, with their dictionaries one after the other. Source: file sheet 2.0,
section 4.7.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.blocks.memory import allocate, mask_of
from lancecy.encodings.blocks.select import stored_offsets
from lancecy.encodings.codecs.flat import VIEW_BYTES
from lancecy.encodings.model.block import AllNull, Block, Coded, FixedWidth, VariableWidth, nbytes_of
from lancecy.encodings.model.chunks import touched
from lancecy.encodings.model.spec import DictionaryOf, PageDictionary, Plain, Spec, VarBinary
from lancecy.encodings.v20.fixed import with_validity
from lancecy.encodings.v20.pages import Pages, SeveralFiles, array_of, check_unbacked, joined, misfit
from lancecy.errors import FormatError, UnsupportedError
from lancecy.limits import check_offsets
from lancecy.records import dataclass
from lancecy.rows import PageRuns
from lancecy.store.reads import Ranges, Read, gather, prefetched

__all__ = ["read_page_dictionary"]

Int64 = NDArray[np.int64]

_STRING_CODE = Plain(8, signed=False)
_MOST_ITEMS = 1 << 31
_LARGE_PAGE = 1 << 16
"""Fewest selected rows of a page that is decoded alone, with its own dictionary."""
_MOST_PAGES = 32


def read_page_dictionary(pages: Pages, shape: Spec, runs: PageRuns, in_pieces: bool) -> Read[Block]:
    """Decode strings, or codes and items, by the type of the field."""
    if not isinstance(pages.spec, PageDictionary):
        misfit(pages.spec, shape)
    numbers, local = touched(runs)
    if numbers.size < pages.counts.size:
        pages = pages.some(numbers)
    if isinstance(shape, VarBinary) and in_pieces:
        bounds = list(range(numbers.size + 1)) if shape.in_codes else _groups(pages, _MOST_ITEMS, local)
    elif isinstance(shape, VarBinary):
        bounds = [0, numbers.size]
    elif isinstance(shape, DictionaryOf):
        bounds = _groups(pages, 1 << (shape.codes.bits - shape.codes.signed), local)
    else:
        misfit(pages.spec, shape)
    reads = []
    for first, last in itertools.pairwise(bounds):
        a, b = np.searchsorted(local.pages, (first, last)).tolist()
        part = PageRuns(local.pages[a:b] - first, local.starts[a:b], local.counts[a:b])
        own = pages if last - first == numbers.size else pages.some(np.arange(first, last))
        reads.append(_read_group(own, shape, part))
    return joined((yield from gather(reads)))


def _groups(pages: Pages, most_items: int, runs: PageRuns) -> list[int]:
    """Bounds of groups of pages decoded together: consecutive pages with few rows and few items."""
    num_pages = pages.counts.size
    wanted = np.bincount(runs.pages, runs.counts, num_pages).tolist()
    bounds, items, rows = [0], 0, 0
    for page, (more, own) in enumerate(zip(pages.numbers("num_items").tolist(), wanted, strict=True)):
        # Writers make pages of some 10 MB of strings, so this many do not exceed 32-bit offsets.
        is_full = rows >= _LARGE_PAGE and page - bounds[-1] >= _MOST_PAGES
        if page > bounds[-1] and (own >= _LARGE_PAGE or is_full or items + more > most_items):
            bounds.append(page)
            items = rows = 0
        items, rows = items + more, rows + own
        if own >= _LARGE_PAGE:
            items = most_items
    return [*bounds, num_pages]


def _read_group(pages: Pages, shape: VarBinary | DictionaryOf, runs: PageRuns) -> Read[Block]:
    return (
        _read_strings(pages, shape, runs) if isinstance(shape, VarBinary) else _read_codes(pages, shape, runs)
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Items:
    """The dictionaries of some pages.

    Attributes
    ----------
    block : Block
        All items, page after page.
    counts : (num_pages,) int64
        Items of each page.
    is_valid : (num_items,) bool or None
        Which items are not null; None if all are not.
    common : Block or None
        The items of the first page, if all other pages have the same ones.
    """

    block: Block
    counts: Int64
    is_valid: NDArray[np.bool_] | None
    common: Block | None

    def of_runs(self, runs: PageRuns) -> tuple[Int64, Int64]:
        """For each run: where the items of its page start, and how many it has."""
        starts = np.cumsum(self.counts) - self.counts
        return starts[runs.pages], self.counts[runs.pages]


def _read_parts(pages: Pages, codes: Plain, values: Spec, runs: PageRuns) -> Read[tuple[Block, _Items]]:
    """Codes of the runs, and the dictionaries of all pages."""
    key = ("items", *pages.first_buffer.tolist())
    known: _Items | None = None if pages.memory is None else pages.memory.find(key[1], key)
    reads = [pages.below("codes").read(codes, runs)]
    if known is None:
        reads.append(_read_items(pages, values))
    block, *others = yield from gather(reads)
    if known is None:
        known = _items(others[0], pages.numbers("num_items"))
        nbytes = 500 + nbytes_of(others[0])
        # Larger ones of a memory map are views of it.
        if pages.memory is not None and (nbytes < VIEW_BYTES or not pages.file.store.traits.is_mapped):
            pages.memory.keep(key[1], key, known, nbytes)
    return block, known


def _read_items(pages: Pages, values: Spec) -> Read[Block]:
    """All items of all pages, in one round."""
    counts = pages.numbers("num_items")
    stored = np.flatnonzero(counts)
    if not stored.size:
        return AllNull(0)
    inner = pages.below("items")
    read = inner.holding(counts).read(values, PageRuns(stored, np.zeros_like(stored), counts[stored]))
    buffers = [] if pages.file.store.traits.is_mapped else [inner.buffer(n) for n in _buffers(inner.spec)]
    if buffers:
        positions, sizes = (
            np.concatenate([part[stored] for part in parts]) for parts in zip(*buffers, strict=True)
        )
        read = prefetched(read, Ranges(pages.file, positions, sizes))
    block = yield from read
    if isinstance(block, AllNull):
        check_unbacked(block.length, pages.file, pages.limits, "dictionary values")
    return block


def _buffers(spec: object) -> Iterator[int]:
    """Numbers of the buffers of a node and of the nodes below it."""
    for attribute in fields(spec):  # type: ignore[arg-type]
        value = getattr(spec, attribute.name)
        if attribute.name == "buffer":
            yield value
        elif is_dataclass(value):
            yield from _buffers(value)


def _items(block: Block, counts: Int64) -> _Items:
    is_valid = _item_validity(block)
    return _Items(block, counts, is_valid, _common_items(block, counts, is_valid))


def _item_validity(items: Block) -> NDArray[np.bool_] | None:
    """Which items are not null; None if all are not."""
    if isinstance(items, AllNull):
        return np.zeros(items.length, np.bool_)
    if not isinstance(items, (FixedWidth, VariableWidth)):
        raise TypeError(f"a dictionary cannot be a {type(items).__name__} block")
    return None if items.validity is None else mask_of(items.validity, items.length)


# -- strings --------------------------------------------------------------------------


def _read_strings(pages: Pages, shape: VarBinary, runs: PageRuns) -> Read[Block]:
    block, items = yield from _read_parts(pages, _STRING_CODE, shape, runs)
    if not isinstance(block, FixedWidth) or block.validity is not None:
        misfit(pages.below("codes").spec, _STRING_CODE)
    stored: NDArray[np.uint8] = array_of(block.values)[: block.length]
    bases, num_items = items.of_runs(runs)
    if int(stored.max()) > int(num_items.min()):
        _check_each(stored, np.repeat(num_items, runs.counts) + 1)
    codes: NDArray[Any] = stored - np.uint8(1)  # codes of nulls wrap around and are never used
    if pages.counts.size > 1:
        codes = codes.astype(np.int64) + np.repeat(bases, runs.counts)
    valid = stored != 0 if int(stored.min()) == 0 else None
    if items.is_valid is not None and items.is_valid.size:
        named = items.is_valid[codes if valid is None else np.where(valid, codes, 0)]
        valid = named if valid is None else valid & named
    null_count = 0 if valid is None else block.length - int(np.count_nonzero(valid))
    if null_count == block.length or not isinstance(items.block, VariableWidth):
        return AllNull(block.length)
    validity = np.packbits(valid, bitorder="little") if valid is not None and null_count else None
    if shape.in_codes and items.common is None:
        _refuse_joined(pages)
    if shape.in_codes and items.is_valid is None and items.common is not None:
        own = stored - np.uint8(1) if valid is None else np.where(valid, stored - np.uint8(1), np.uint8(0))
        return Coded(block.length, FixedWidth(block.length, 8, own, validity, null_count), items.common)
    return _strings_of_codes(codes, items.block, validity, null_count)


def _check_each(codes: NDArray[Any], stops: Int64) -> None:
    bad = (codes < 0) | (codes.astype(np.uint64) >= stops.astype(np.uint64))
    if bool(bad.any()):
        row = int(np.argmax(bad))
        raise FormatError(f"code of row {row} is not in the dictionary", position=row)


def _strings_of_codes(
    codes: NDArray[Any], items: VariableWidth, validity: NDArray[np.uint8] | None, null_count: int
) -> Block:
    """The strings that codes name."""
    width = items.offset_width
    item_offsets = array_of(items.offsets, f"<i{width}")
    buffer, out = allocate((codes.size + 1) * width)
    offsets = out.view(f"<i{width}")
    try:
        total = kernels.take_offsets(codes, item_offsets, offsets, validity)
    except FormatError:
        total = kernels.take_offsets(codes, item_offsets, np.empty(codes.size + 1, np.int64), validity)
    # Only a few codes back these bytes, so wide offsets are bounded like narrow ones.
    check_offsets(total, "bytes of strings")
    data, values = allocate(total)
    kernels.take_values(codes, item_offsets, array_of(items.values), offsets, values, validity)
    return VariableWidth(codes.size, width, buffer, data, validity, null_count)


# -- Arrow dictionaries ---------------------------------------------------------------


def _read_codes(pages: Pages, shape: DictionaryOf, runs: PageRuns) -> Read[Block]:
    block, items = yield from _read_parts(pages, shape.codes, shape.values, runs)
    if isinstance(block, AllNull) or isinstance(items.block, AllNull):
        return AllNull(block.length)
    if not isinstance(block, FixedWidth):
        misfit(pages.below("codes").spec, shape.codes)
    kind = f"<{'i' if shape.codes.signed else 'u'}{shape.codes.bits >> 3}"
    codes: NDArray[Any] = array_of(block.values, kind)[: block.length]
    if block.validity is None:
        return _coded(pages, codes, items, runs)
    # Releases 0.16 and 0.17 wrote nulls of the codes themselves: codes under them have no item.
    valid = mask_of(block.validity, block.length)
    if not valid.any():
        return AllNull(block.length)
    coded = _coded(pages, codes, items, runs, valid)
    return with_validity(coded, array_of(block.validity), block.null_count)


def _coded(
    pages: Pages, codes: NDArray[Any], items: _Items, runs: PageRuns, valid: NDArray[np.bool_] | None = None
) -> Block:
    """Checked codes into the dictionaries of all pages; codes whose ``valid`` is false are ignored."""
    values, is_valid = items.block, items.is_valid
    if items.common is not None:
        size = int(items.counts[0])
        values, is_valid = items.common, None if is_valid is None else is_valid[:size]
        kernels.check_codes(codes if valid is None else codes[valid], size)
    else:
        _refuse_joined(pages)
        bases, counts = items.of_runs(runs)
        stops = np.repeat(counts, runs.counts)
        _check_each(*((codes, stops) if valid is None else (codes[valid], stops[valid])))
        codes = codes + np.repeat(bases.astype(codes.dtype), runs.counts)
    if valid is not None:
        codes = np.where(valid, codes, codes.dtype.type(0))
    block = FixedWidth(codes.size, codes.dtype.itemsize * 8, codes)
    if is_valid is None:
        return Coded(block.length, block, values)
    return _with_null_codes(block, codes, values, is_valid)


def _refuse_joined(pages: Pages) -> None:
    """Refuse different dictionaries of several files: values that are listed twice make no categories."""
    if isinstance(pages.file.store, SeveralFiles):
        raise UnsupportedError("files with different dictionaries", feature="joined dictionaries")


def _common_items(items: Block, counts: Int64, valid: NDArray[np.bool_] | None) -> Block | None:
    """The items of the first page, if all pages have the same; ``items`` are those of all pages."""
    size, number = int(counts[0]), counts.size
    if number == 1:
        return items
    if size == 0 or (counts != size).any():
        return None
    if valid is not None and not _is_repeated(valid, number):
        return None
    bits = None if valid is None else np.packbits(valid[:size], bitorder="little")
    nulls = 0 if valid is None else size - int(np.count_nonzero(valid[:size]))
    if isinstance(items, FixedWidth) and items.bits & 7 == 0:
        values = array_of(items.values)[: number * size * (items.bits >> 3)]
        return FixedWidth(size, items.bits, values, bits, nulls) if _is_repeated(values, number) else None
    if not isinstance(items, VariableWidth):
        return None
    offsets = stored_offsets(items)
    texts = array_of(items.values)[: int(offsets[-1])]
    if not _is_repeated(np.diff(offsets), number) or not _is_repeated(texts, number):
        return None
    return VariableWidth(size, items.offset_width, offsets[: size + 1], texts, bits, nulls)


def _is_repeated(values: NDArray[Any], times: int) -> bool:
    """Whether the values are the same ones, so many times."""
    rows = values.reshape(times, -1)
    return bool((rows[1:] == rows[0]).all())


def _with_null_codes(
    block: FixedWidth, codes: NDArray[Any], items: Block, item_validity: NDArray[np.bool_]
) -> Block:
    """Make rows with null items null: Arrow cannot concatenate dictionaries that have null items."""
    valid = item_validity[codes]
    kept = np.flatnonzero(item_validity)
    if kept.size == 0:
        return AllNull(block.length)
    if int(kept[-1]) != kept.size - 1:  # else the null items are the last ones, and codes stay as they are
        renamed = np.cumsum(item_validity) - 1
        block = FixedWidth(block.length, block.bits, np.maximum(renamed, 0).astype(codes.dtype)[codes])
    coded = Coded(block.length, block, _selected_items(items, kept))
    return with_validity(coded, np.packbits(valid, bitorder="little"), int(np.count_nonzero(~valid)))


def _selected_items(items: Block, kept: Int64) -> Block:
    """Select only these items, none of which is null."""
    if isinstance(items, VariableWidth):
        return _strings_of_codes(kept, items, None, 0)
    if not isinstance(items, FixedWidth):
        raise TypeError(f"a dictionary cannot be a {type(items).__name__} block")
    values = array_of(items.values)
    if items.bits == 1:
        bits = np.unpackbits(values, bitorder="little")[kept]
        return FixedWidth(kept.size, 1, np.packbits(bits, bitorder="little"))
    width = items.bits >> 3
    buffer, out = allocate(kept.size * width)
    if width:
        kernels.take_fixed(kept, values[: items.length * width], width, out)
    return FixedWidth(kept.size, items.bits, buffer)
