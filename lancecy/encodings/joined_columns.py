"""Decode a few rows of many columns of one file as rows of one column.

A take of ten rows of a hundred columns has little to decode in each of them, but as many Python steps in each as a
scan of all rows. Here the pages of columns of one encoding follow each other in one column, in which each of them has
the same rows, and the result is split (``blocks.select``).

The caller must be able to read each column alone: invalid pages raise a ``FormatError`` that names no column.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from lancecy.encodings.blocks.select import split
from lancecy.encodings.model.block import Block
from lancecy.encodings.model.chunks import row_ranges, starts_of
from lancecy.encodings.model.layouts import MiniBlock, PageSpec, max_repetition
from lancecy.encodings.model.pages import Column, PageMemory
from lancecy.encodings.v20 import read as v20
from lancecy.encodings.v21.joined_pages import JoinedPages, family_of, is_sound, read_joined
from lancecy.encodings.v21.leaf import joined_block
from lancecy.encodings.v21.miniblock import keeps_codes
from lancecy.errors import FormatError
from lancecy.limits import Limits
from lancecy.records import dataclass
from lancecy.rows import RowSelection
from lancecy.schema import Field
from lancecy.store.reads import Read, SourceFile

__all__ = ["MOST_PAGES", "ColumnPage", "JoinKeys", "page_with", "read_columns"]

Int64 = NDArray[np.int64]

MOST_PAGES = 64
"""Most pages of one kernel call."""


@dataclass(frozen=True, slots=True, eq=False)
class ColumnPage:
    """A page of the only column of a top-level field.

    Attributes
    ----------
    field : Field
    column : Column
    number : int
        Of the page in its column.
    start, num_rows : int
        Its first row, and how many it has.
    """

    field: Field
    column: Column
    number: int
    start: int
    num_rows: int

    @property
    def spec(self) -> PageSpec:
        """The encoding of the page."""
        return self.column.specs[self.number]

    def buffers(self) -> tuple[Int64, Int64]:
        """(num_buffers,) int64 each, bytes: positions and sizes."""
        column = self.column
        if column.num_pages == 1:
            return column.positions, column.sizes
        first, last = column.first_buffer[self.number : self.number + 2].tolist()
        return column.positions[first:last], column.sizes[first:last]


def page_with(field: Field, column: Column, rows: RowSelection) -> ColumnPage | None:
    """The page of a column that has all these rows of its file, of which there is at least one; None without such a page."""
    if column.num_pages == 1:
        return ColumnPage(field, column, 0, 0, column.num_rows)
    first, stop = rows.ends
    number = int(np.searchsorted(column.row_starts, first, side="right")) - 1
    begin, end = column.row_starts[number : number + 2].tolist()
    return ColumnPage(field, column, number, begin, end - begin) if stop <= end else None


class JoinKeys:
    """Keys of pages of one file that can be read together, in different columns."""

    def __init__(self) -> None:
        # Most columns have one of a few encodings, so that each is looked at once.
        self._known: dict[tuple[int, str, bool, int], int | None] = {}
        self._numbers: dict[Hashable, int] = {}

    def of(self, page: ColumnPage) -> int | None:
        """Equal for pages that can be read together; None for a page that must be read alone."""
        field, spec, num_buffers = page.field, page.spec, page.buffers()[0].size
        if page.column.is_blob:
            return None
        if isinstance(spec, MiniBlock):
            if not is_sound(spec, page.num_rows, num_buffers):
                return None
            spec = spec.shared_shape or spec
        about = id(spec), field.logical_type, field.in_codes, num_buffers
        if about not in self._known:
            key = _key(field, spec, num_buffers)
            self._known[about] = None if key is None else self._numbers.setdefault(key, len(self._numbers))
        return self._known[about]


def _key(field: Field, spec: PageSpec, num_buffers: int) -> Hashable | None:
    if field.children or field.is_struct:
        return None
    if not isinstance(spec, MiniBlock):
        return v20.batch_key(field, spec, num_buffers)
    if max_repetition(spec.layers) or (spec.dictionary is not None and keeps_codes(field)):
        return None
    family = family_of(spec)
    return None if family is None else (family, field.logical_type)


def read_columns(
    pages: Sequence[ColumnPage], rows: RowSelection, file: SourceFile, limits: Limits
) -> Read[list[Block]]:
    """Decode rows of several columns.

    Parameters
    ----------
    pages : sequence of ColumnPage
        At least one, at most ``MOST_PAGES``; of one of :class:`JoinKeys` and as many rows.
    rows : RowSelection
        Over the rows of each page, ascending, without duplicates; at least one.
    file : SourceFile
    limits : Limits

    Returns
    -------
    Read of list of Block
        The rows of each field.

    Raises
    ------
    FormatError, LimitError, UnsupportedError
        A page is damaged, or the pages together exceed ``limits``, or pages of this kind cannot be split.
    """
    column, everywhere = _joined(pages), _repeated(rows, len(pages))
    field = pages[0].field
    if isinstance(column.specs[0], MiniBlock):
        joined = JoinedPages(column, 0, len(pages))
        block = joined_block((yield from read_joined(joined, (field,), everywhere, file, limits)), (field,))
    else:
        block = yield from v20.read_leaf(field, column, file, everywhere, limits)
    blocks = split(block, [len(rows)] * len(pages))
    if not isinstance(column.specs[0], MiniBlock):
        for one, block in zip(pages, blocks, strict=True):
            v20.check_nulls(one.field, block)
    return blocks


def _joined(pages: Sequence[ColumnPage]) -> Column:
    """The pages as those of one column."""
    column = pages[0].column
    name = ("joined", *((one.column.index, one.number) for one in pages))
    known: Column | None = None if column.memory is None else column.memory.find(0, name)
    if known is None:
        known = _made(pages, name)
        if column.memory is not None:
            column.memory.keep(0, name, known, 1000 * len(pages))
    return known


def _made(pages: Sequence[ColumnPage], name: Hashable) -> Column:
    first, memory = pages[0].column, pages[0].column.memory
    if memory is not None:
        memory = PageMemory(memory.cache, (*memory.key, name))
    positions, sizes = zip(*(page.buffers() for page in pages), strict=True)
    return Column(
        first.index,
        False,
        starts_of(np.array([page.num_rows for page in pages], np.int64)),
        tuple(page.spec for page in pages),
        starts_of(np.array([mine.size for mine in sizes], np.int64)),
        np.concatenate(positions),
        np.concatenate(sizes),
        sum(page.column.nbytes for page in pages),
        memory,
    )


def _repeated(rows: RowSelection, times: int) -> RowSelection:
    """The same rows of several pages of as many rows."""
    if rows.is_all:
        return RowSelection.all(rows.num_rows * times)
    first = np.arange(times)[:, None] * rows.num_rows
    if rows.indices is not None:
        return RowSelection(rows.num_rows * times, indices=(first + rows.indices).ravel())
    starts, stops = row_ranges(rows)
    return RowSelection(rows.num_rows * times, (first + starts).ravel(), (first + stops).ravel())
