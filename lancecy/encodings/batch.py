"""Decode small pages of many columns and of many files at once.

A table of 1,500 columns and 1,000 rows has 1,500 pages of one chunk, one of 600 fragments of five rows has 600
pages per column, and nearly all of them have the same encoding. Reading them one by one takes hundreds of times as
many Python steps as reading one. Here they are decoded together, as chunks of one page (2.1 and later) or as pages
of one column (2.0), and the result is split (``blocks.split``). Bytes of several files are first copied into one
buffer.

The caller must be able to read each page alone: invalid pages raise a ``FormatError`` that names no page.
Source: file sheet 2.1, section 3.1.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.blocks.select import split
from lancecy.encodings.codecs.dictionaries import look_up
from lancecy.encodings.codecs.values import decode
from lancecy.encodings.model.block import Block
from lancecy.encodings.model.chunks import Chunks, repeated, runs_of, starts_of
from lancecy.encodings.model.layouts import MiniBlock, max_repetition
from lancecy.encodings.model.pages import Column, Page
from lancecy.encodings.v20 import read as v20
from lancecy.encodings.v21.chunk_tables import LARGEST_CHUNK, word_bytes
from lancecy.encodings.v21.leaf import finished
from lancecy.encodings.v21.miniblock import dictionary_of, flat_levels, headers
from lancecy.encodings.v21.repdef import LeafPage, rows_per_value
from lancecy.errors import FormatError
from lancecy.limits import Limits
from lancecy.records import dataclass
from lancecy.rows import PageRuns, RowSelection
from lancecy.schema import Field
from lancecy.store.base import Memory
from lancecy.store.reads import Ranges, Read, SourceFile

__all__ = ["MOST_BYTES", "SmallPage", "batch_key", "read_small"]

Int64 = NDArray[np.int64]

MOST_BYTES = 256 << 10
"""Most stored bytes of pages decoded together: each column is a slice of one buffer and keeps all of it alive."""

_SMALL_PAGE = 64 << 10


@dataclass(frozen=True, slots=True, eq=False)
class SmallPage:
    """The only page of a column, and the selected rows.

    Attributes
    ----------
    chain : tuple of Field
        From the top level to the column's field.
    page : Page
    file : SourceFile
    rows : RowSelection
        Ascending, without duplicates; at least one.
    """

    chain: tuple[Field, ...]
    page: Page
    file: SourceFile
    rows: RowSelection


def batch_key(chain: tuple[Field, ...], column: Column) -> Hashable | None:
    """Key of columns that can be read together; None for a column that must be read alone.

    Such columns are one small page of one value per row. From 2.1 on it has one chunk; numbers of items may differ.
    """
    if column.num_pages != 1 or column.nbytes > _SMALL_PAGE or column.num_rows == 0:
        return None
    spec, sizes = column.specs[0], column.sizes.tolist()
    if not isinstance(spec, MiniBlock):
        is_alone = len(chain) > 1 or column.is_blob
        return None if is_alone else v20.batch_key(chain[-1], spec, column.sizes.size)
    is_one_chunk = len(sizes) >= 2 and sizes[0] == word_bytes(spec) and spec.num_items <= LARGEST_CHUNK
    if not is_one_chunk or spec.num_items != column.num_rows:
        return None
    if max_repetition(spec.layers) or rows_per_value(chain) != 1:
        return None
    return replace(spec, num_items=0, num_dictionary_items=0)


def read_small(pages: Sequence[SmallPage], limits: Limits) -> Read[list[Block]]:
    """Decode rows of pages of several columns.

    Parameters
    ----------
    pages : sequence of SmallPage
        At least one; of columns of one :func:`batch_key`.
    limits : Limits

    Returns
    -------
    Read of list of Block
        Rows of each top-level field; one round.

    Raises
    ------
    FormatError, LimitError, UnsupportedError
        A page is damaged, or the pages together exceed ``limits``, or pages of this kind cannot be split.
    """
    memory, positions, sizes = yield from _fetched(pages)
    counts = np.array([small.page.num_rows for small in pages])
    runs = _runs(pages, counts)
    lengths = [len(small.rows) for small in pages]
    if isinstance(pages[0].page.spec, MiniBlock):
        at, nbytes = (np.ascontiguousarray(a.reshape(len(pages), -1).T) for a in (positions, sizes))
        return _read_chunks(pages, memory, at, nbytes, counts, runs, lengths, limits)
    specs = [small.page.spec for small in pages]
    fields = [small.chain[-1] for small in pages]
    block = v20.decode_small(specs, fields[0], counts, memory, positions, sizes, runs, pages[0].file, limits)
    blocks = split(block, lengths)
    for field, block in zip(fields, blocks, strict=True):
        v20.check_nulls(field, block)
    return blocks


def _fetched(pages: Sequence[SmallPage]) -> Read[tuple[Memory, Int64, Int64]]:
    """All buffers of all pages in one memory, with their positions and sizes."""
    sizes = np.concatenate([small.page.sizes for small in pages])
    requests = []
    for file, group in groupby(pages, key=lambda small: small.file):
        mine = [small.page for small in group]
        at = mine[0].positions if len(mine) == 1 else np.concatenate([page.positions for page in mine])
        lengths = mine[0].sizes if len(mine) == 1 else np.concatenate([page.sizes for page in mine])
        requests.append(Ranges(file, at, lengths))
    spans = yield requests
    if len(spans) == 1:
        return spans[0].memory, spans[0].positions, sizes
    parts = [
        span.memory[start : start + size]
        for span, request in zip(spans, requests, strict=True)
        for start, size in zip(span.positions.tolist(), request.lengths.tolist(), strict=True)
    ]
    return np.concatenate(parts), starts_of(sizes)[:-1], sizes


def _runs(pages: Sequence[SmallPage], counts: Int64) -> PageRuns:
    """The selected rows, as runs in the pages."""
    first = pages[0]
    if all(small.rows.is_all for small in pages):
        return PageRuns(np.arange(counts.size), np.zeros(counts.size, np.int64), counts)
    if all(small.rows is first.rows for small in pages):
        return repeated(runs_of(np.array([0, first.page.num_rows]), first.rows), counts.size)
    found = [runs_of(np.array([0, small.page.num_rows]), small.rows) for small in pages]
    numbers = np.repeat(np.arange(counts.size), [runs.pages.size for runs in found])
    starts, sizes = (np.concatenate([getattr(runs, name) for runs in found]) for name in ("starts", "counts"))
    return PageRuns(numbers, starts, sizes)


def _read_chunks(
    pages: Sequence[SmallPage],
    memory: Memory,
    at: Int64,
    sizes: Int64,
    counts: Int64,
    runs: PageRuns,
    lengths: Sequence[int],
    limits: Limits,
) -> list[Block]:
    """Pages of one chunk each; ``at`` and ``sizes`` are (num_buffers, num_pages)."""
    spec = pages[0].page.spec
    if not isinstance(spec, MiniBlock):
        raise TypeError(f"pages of {type(spec).__name__} have no chunks")
    _check_words(spec, memory, at[0], sizes[1])
    heads = headers(spec, memory, at[1], sizes[1])
    definition = flat_levels(spec, heads, counts, runs, limits)
    values = split(decode(spec.values, Chunks(heads.values, counts, runs), limits), lengths)
    blocks = []
    start = 0
    for number, (small, block, length) in enumerate(zip(pages, values, lengths, strict=True)):
        mine, validity = small.page.spec, None
        levels = None if definition is None else definition[start : start + length]
        items = None
        if isinstance(mine, MiniBlock) and mine.dictionary is not None:
            first = int(at[2, number])
            stored = memory[first : first + int(sizes[2, number])]
            items = dictionary_of(mine, small.page, stored, limits)
        if items is not None:
            block, validity = look_up(block, items, small.chain[-1], spec.layers, levels, limits)
        leaf = LeafPage(spec.layers, None, levels, block, length, validity)
        blocks.append(finished(leaf, small.chain))
        start += length
    return blocks


def _check_words(spec: MiniBlock, memory: Memory, positions: Int64, sizes: Int64) -> None:
    words = np.empty(positions.size, f"<u{word_bytes(spec)}")
    kernels.gather_fixed(memory, positions, word_bytes(spec), words.view(np.uint8))
    if not np.array_equal(((words.astype(np.int64) >> 4) + 1) << 3, sizes):
        raise FormatError("chunks are not as long as their words say")
