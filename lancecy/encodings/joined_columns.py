"""Decode a few rows of many columns of one file as rows of one column.

A take of ten rows of a hundred columns has little to decode in each of them, but as many Python steps in each as a
scan of all rows. Here the pages of columns of one encoding follow each other in one column, in which each of them has
the same rows, and the result is split (``blocks.select``).

The caller must be able to read each column alone: invalid pages raise a ``FormatError`` that names no column.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from lancecy.encodings.blocks.select import split
from lancecy.encodings.model.block import Block
from lancecy.encodings.model.chunks import row_ranges, starts_of
from lancecy.encodings.model.layouts import MiniBlock, PageSpec, max_repetition
from lancecy.encodings.model.pages import Column, PageMemory
from lancecy.encodings.v20 import read as v20
from lancecy.encodings.v21.joined_pages import JoinedPages, family_of, is_sound, read_joined
from lancecy.encodings.v21.leaf import finished
from lancecy.encodings.v21.repdef import rows_per_value
from lancecy.errors import LanceError
from lancecy.limits import Limits
from lancecy.records import dataclass
from lancecy.rows import RowSelection
from lancecy.schema import Field
from lancecy.store.reads import Read, SourceFile

__all__ = ["MOST_PAGES", "ColumnPages", "JoinKeys", "pages_with", "read_columns"]

Int64 = NDArray[np.int64]

MOST_PAGES = 64
"""Most pages of one kernel call; of one column at most half, as there is another with it."""


@dataclass(frozen=True, slots=True, eq=False)
class ColumnPages:
    """Pages of the column of a leaf that follow each other.

    Attributes
    ----------
    chain : tuple of Field
        From the top-level field down to the leaf; in 2.0 only the leaf, as structs have columns of their own.
    column : Column
    first, last : int
        Numbers of the first page and of the page after the last one.
    start, num_rows : int
        The first row of these pages, and how many they have.
    """

    chain: tuple[Field, ...]
    column: Column
    first: int
    last: int
    start: int
    num_rows: int

    @property
    def specs(self) -> tuple[PageSpec, ...]:
        """The encoding of each page."""
        return self.column.specs[self.first : self.last]

    @property
    def edges(self) -> Int64:
        """(num_pages + 1,) int64: the first row of each page in its column, and the end."""
        return self.column.row_starts[self.first : self.last + 1]

    def buffers(self) -> tuple[Int64, Int64, Int64]:
        """(num_pages,) int64: how many buffers each page has; (num_buffers,) int64 each, bytes: positions and sizes."""
        column = self.column
        edges = column.first_buffer[self.first : self.last + 1]
        mine = slice(int(edges[0]), int(edges[-1]))
        return edges[1:] - edges[:-1], column.positions[mine], column.sizes[mine]


def pages_with(chain: tuple[Field, ...], column: Column, rows: RowSelection) -> ColumnPages | None:
    """The pages of a column from the first to the last of these rows of its file; None if these are many, or few have any.

    Parameters
    ----------
    chain : tuple of Field
        As in :class:`ColumnPages`.
    column : Column
    rows : RowSelection
        Ascending; at least one.
    """
    if column.num_pages == 1:
        return ColumnPages(chain, column, 0, 1, 0, column.num_rows)
    start, stop = rows.ends
    first, last = np.searchsorted(column.row_starts, (start, stop - 1), side="right").tolist()
    first -= 1
    if last - first > min(len(rows), MOST_PAGES // 2):
        return None
    begin, end = column.row_starts[[first, last]].tolist()
    return ColumnPages(chain, column, first, last, begin, end - begin)


class JoinKeys:
    """Keys of pages of one file that can be read together, in different columns."""

    def __init__(self) -> None:
        # Most columns have one of a few encodings, so that each is looked at once. It is kept, as others may have its id later.
        self._known: dict[tuple[object, ...], tuple[PageSpec, object | None]] = {}
        # Objects, not numbers in turn: two threads would give one number to different keys.
        self._tokens: dict[Hashable, object] = {}

    def of(self, pages: ColumnPages) -> object | None:
        """Equal for pages that can be read together; None for pages that must be read alone, damaged ones among them."""
        if pages.column.is_blob:
            return None
        kinds = tuple([field.logical_type for field in pages.chain])
        if pages.last - pages.first == 1:
            num_buffers = pages.buffers()[1].size
            return self._of(pages.specs[0], pages.num_rows, num_buffers, pages.chain, kinds)
        rows = np.diff(pages.edges).tolist()
        found = {
            self._of(*page, pages.chain, kinds)
            for page in zip(pages.specs, rows, pages.buffers()[0].tolist(), strict=True)
        }
        if any(isinstance(spec, MiniBlock) and spec.dictionary is not None for spec in pages.specs):
            return None  # Codes of several dictionaries may be in one column.
        return found.pop() if len(found) == 1 else None

    def _of(
        self,
        spec: PageSpec,
        num_rows: int,
        num_buffers: int,
        chain: tuple[Field, ...],
        kinds: tuple[str, ...],
    ) -> object | None:
        if isinstance(spec, MiniBlock):
            if not is_sound(spec, num_rows, num_buffers):
                return None
            spec = spec.shared_shape or spec
        about = id(spec), kinds, chain[-1].in_codes, num_buffers
        known = self._known.get(about)
        if known is None:
            key = None
            with suppress(LanceError):  # The read of the column alone says what is wrong.
                key = _key(chain, kinds, spec, num_buffers)
            token = None if key is None else self._tokens.setdefault(key, object())
            known = self._known[about] = spec, token
        return known[1]


def _key(
    chain: tuple[Field, ...], kinds: tuple[str, ...], spec: PageSpec, num_buffers: int
) -> Hashable | None:
    leaf = chain[-1]
    if leaf.children or leaf.is_struct:
        return None
    if not isinstance(spec, MiniBlock):
        return v20.batch_key(leaf, spec, num_buffers) if len(chain) == 1 else None
    if rows_per_value(chain) != 1 or (spec.dictionary is not None and max_repetition(spec.layers)):
        return None
    family = family_of(spec)
    return None if family is None else (family, kinds, leaf.in_codes)


def read_columns(
    pages: Sequence[ColumnPages], rows: RowSelection, file: SourceFile, limits: Limits
) -> Read[list[Block]]:
    """Decode rows of several columns.

    Parameters
    ----------
    pages : sequence of ColumnPages
        Of at least one column, at most ``MOST_PAGES``; of one of :class:`JoinKeys`.
    rows : RowSelection
        Over the rows of the file, all of them in the pages of each column; ascending, without duplicates; at least one.
    file : SourceFile
    limits : Limits

    Returns
    -------
    Read of list of Block
        The rows of each leaf: in 2.0 of its field, later of the top-level field with this leaf only.

    Raises
    ------
    FormatError, LimitError, UnsupportedError
        A page is damaged, or the pages together exceed ``limits``, or pages of this kind cannot be split.
    """
    column, everywhere = _joined(pages), _repeated(rows, pages)
    chain, size = pages[0].chain, len(rows)
    if not isinstance(column.specs[0], MiniBlock):
        found = split(
            (yield from v20.read_leaf(chain[0], column, file, everywhere, limits)), [size] * len(pages)
        )
        for page, block in zip(pages, found, strict=True):
            v20.check_nulls(page.chain[0], block)
        return found
    leaves = yield from read_joined(JoinedPages(column, 0, column.num_pages), chain, everywhere, file, limits)
    below = [[field.id for field in page.chain[1:]] for page in pages]
    blocks: list[Block] = []
    for leaf in leaves:  # codes of one dictionary each
        mine = below[len(blocks) : len(blocks) + leaf.num_rows // size]
        blocks += split(finished(leaf, chain), [size] * len(mine), mine)
    return blocks


def _joined(pages: Sequence[ColumnPages]) -> Column:
    """The pages as those of one column."""
    column = pages[0].column
    name = ("joined", *((one.column.index, one.first, one.last) for one in pages))
    known: Column | None = None if column.memory is None else column.memory.find(0, name)
    if known is None:
        known = _made(pages, name)
        if column.memory is not None:
            column.memory.keep(0, name, known, 1000 * len(pages))
    return known


def _made(pages: Sequence[ColumnPages], name: Hashable) -> Column:
    first, memory = pages[0].column, pages[0].column.memory
    if memory is not None:
        memory = PageMemory(memory.cache, (*memory.key, name))
    counts, positions, sizes = zip(*(mine.buffers() for mine in pages), strict=True)
    rows = [mine.edges[1:] - mine.edges[:-1] for mine in pages]
    return Column(
        first.index,
        False,
        starts_of(np.concatenate(rows)),
        tuple(spec for mine in pages for spec in mine.specs),
        starts_of(np.concatenate(counts)),
        np.concatenate(positions),
        np.concatenate(sizes),
        sum(mine.column.nbytes for mine in pages),
        memory,
    )


def _repeated(rows: RowSelection, pages: Sequence[ColumnPages]) -> RowSelection:
    """The same rows of several columns, over the rows of their pages."""
    sizes = [mine.num_rows for mine in pages]
    if all(size == len(rows) for size in sizes):
        return RowSelection.all(sum(sizes))
    starts = np.array([mine.start for mine in pages], np.int64)
    moves = (starts_of(np.array(sizes, np.int64))[:-1] - starts)[:, None]
    if rows.indices is not None:
        return RowSelection(sum(sizes), indices=(moves + rows.indices).ravel())
    first, last = row_ranges(rows)
    return RowSelection(sum(sizes), (moves + first).ravel(), (moves + last).ravel())
