"""Decode a few rows of many columns, of one file or of several, as rows of one column.

A take of ten rows of a hundred columns has little to decode in each of them, but as many Python steps in each as a
scan of all rows; and so has each file that one of the rows is in. Here the pages of one encoding follow each other in
one column, and the result is split (``blocks.select``).

The caller must be able to read each column alone: invalid pages raise a ``FormatError`` that names no column.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import TypeAlias

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
from lancecy.encodings.v21.miniblock import keeps_codes
from lancecy.encodings.v21.repdef import rows_per_value
from lancecy.errors import LanceError
from lancecy.limits import Limits
from lancecy.records import dataclass
from lancecy.rows import RowSelection
from lancecy.schema import Field
from lancecy.store.reads import Read, SourceFile

__all__ = ["MOST_PAGES", "ColumnPages", "JoinKeys", "LeafPages", "pages_with", "read_columns"]

Int64 = NDArray[np.int64]

MOST_PAGES = 64
"""Most pages of several leaves that are read together: what is kept of them is kept for these leaves."""
Token: TypeAlias = Callable[[Hashable | None], object | None]


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
    lengths, num_buffers : (num_pages,) int64
        Rows and buffers of each page.
    positions, sizes : (num_buffers,) int64, bytes
        Buffers of all these pages in the file.
    keep_codes : bool
        Whether values stay codes of dictionaries, of which each page has its own.
    """

    chain: tuple[Field, ...]
    column: Column
    first: int
    last: int
    start: int
    num_rows: int
    lengths: Int64
    num_buffers: Int64
    positions: Int64
    sizes: Int64
    keep_codes: bool

    @classmethod
    def of(cls, chain: tuple[Field, ...], column: Column, first: int, last: int) -> ColumnPages:
        """Pages ``first`` to ``last`` of a column."""
        rows, buffers = column.row_starts[first : last + 1], column.first_buffer[first : last + 1]
        start, stop = int(rows[0]), int(rows[-1])
        mine = slice(int(buffers[0]), int(buffers[-1]))
        lengths, num_buffers = rows[1:] - rows[:-1], buffers[1:] - buffers[:-1]
        places = column.positions[mine], column.sizes[mine]
        are_coded = keeps_codes(chain[-1]) and any(
            isinstance(spec, MiniBlock) and spec.dictionary is not None for spec in column.specs[first:last]
        )
        counts = lengths, num_buffers
        return cls(chain, column, first, last, start, stop - start, *counts, *places, are_coded)

    @property
    def specs(self) -> tuple[PageSpec, ...]:
        """The encoding of each page."""
        return self.column.specs[self.first : self.last]


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
        return ColumnPages.of(chain, column, 0, 1)
    start, stop = rows.ends
    first, last = np.searchsorted(column.row_starts, (start, stop - 1), side="right").tolist()
    if last - first >= min(len(rows), MOST_PAGES // 2) or last > column.num_pages:
        return None
    return ColumnPages.of(chain, column, first - 1, last)


class JoinKeys:
    """Keys of pages of one file that can be read together with others."""

    def __init__(self) -> None:
        # Most columns have one of a few encodings, so that each is looked at once. It is kept, as others may have its id later.
        self._known: dict[tuple[object, ...], tuple[PageSpec, object | None]] = {}

    def of(self, pages: ColumnPages, token: Token) -> object | None:
        """One object for pages that can be read together; None for pages that must be read alone.

        Parameters
        ----------
        pages : ColumnPages
        token : function of a hashable or None
            One object for equal keys, None for None.
        """
        if pages.column.is_blob:
            return None
        kinds = tuple([field.logical_type for field in pages.chain])
        numbers = zip(pages.specs, pages.lengths.tolist(), pages.num_buffers.tolist(), strict=True)
        found = {self._of(*page, pages.chain, kinds, token) for page in numbers}
        may_join = len(found) == 1 and (pages.lengths.size == 1 or not pages.keep_codes)
        return found.pop() if may_join else None

    def _of(
        self,
        spec: PageSpec,
        num_rows: int,
        num_buffers: int,
        chain: tuple[Field, ...],
        kinds: tuple[str, ...],
        token: Token,
    ) -> object | None:
        if not num_rows:
            return None
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
            known = self._known[about] = spec, token(None if key is None else ("joined", key))
        return known[1]


def _key(
    chain: tuple[Field, ...], kinds: tuple[str, ...], spec: PageSpec, num_buffers: int
) -> Hashable | None:
    leaf = chain[-1]
    if leaf.children or leaf.is_struct:
        return None
    if not isinstance(spec, MiniBlock):
        return v20.join_key(leaf, spec, num_buffers) if len(chain) == 1 else None
    if rows_per_value(chain) != 1 or (spec.dictionary is not None and max_repetition(spec.layers)):
        return None
    family = family_of(spec)
    return None if family is None else (family, kinds, leaf.in_codes)


@dataclass(frozen=True, slots=True, eq=False)
class LeafPages:
    """Rows of a leaf, in one file or in several.

    Attributes
    ----------
    pages : sequence of ColumnPages
        Of each file.
    rows : sequence of RowSelection
        Over the rows of each file, all of them in these pages; ascending, without duplicates, at least one.
    begins : sequence of int, bytes
        Where each file begins among the positions that are read.
    """

    pages: Sequence[ColumnPages]
    rows: Sequence[RowSelection]
    begins: Sequence[int] = (0,)

    @property
    def num_rows(self) -> int:
        """Rows of all files."""
        return sum(map(len, self.rows))

    @property
    def children(self) -> list[int]:
        """Ids of the fields below the top-level field, down to the leaf."""
        return [field.id for field in self.pages[0].chain[1:]]

    def by_file(self, block: Block) -> list[Block]:
        """The rows of each file, of the block of all."""
        return split(block, [len(rows) for rows in self.rows], [self.children] * len(self.rows))


def read_columns(leaves: Sequence[LeafPages], file: SourceFile, limits: Limits) -> Read[list[Block]]:
    """Decode rows of several leaves.

    Parameters
    ----------
    leaves : sequence of LeafPages
        At least one; all pages are of one of :class:`JoinKeys`.
    file : SourceFile
        The file, or what stands for several.
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
    pages = [pages for leaf in leaves for pages in leaf.pages]
    begins = [begin for leaf in leaves for begin in leaf.begins]
    column = _made(pages, None, begins) if any(begins) else _joined(pages)
    everywhere, sizes = _selected(leaves, pages), [leaf.num_rows for leaf in leaves]
    chains = [leaf.pages[0].chain for leaf in leaves]
    if not isinstance(column.specs[0], MiniBlock):
        found = split((yield from v20.read_leaf(chains[0][0], column, file, everywhere, limits)), sizes)
        for chain, block in zip(chains, found, strict=True):
            v20.check_nulls(chain[0], block)
        return found
    joined = JoinedPages(column, 0, column.num_pages, pages[0].column.memory)
    found = []
    for page in (yield from read_joined(joined, chains[0], everywhere, file, limits)):
        # Those whose values are codes of one dictionary.
        first, stop, left = len(found), len(found), page.num_rows
        while left > 0 and stop < len(sizes):
            left -= sizes[stop]
            stop += 1
        below = [leaf.children for leaf in leaves[first:stop]]
        found += split(finished(page, chains[0]), sizes[first:stop], below)
    return found


def _joined(pages: Sequence[ColumnPages]) -> Column:
    """The pages of one file as those of one column."""
    column = pages[0].column
    name = ("joined", *((one.column.index, one.first, one.last) for one in pages))
    known: Column | None = None if column.memory is None else column.memory.find(0, name)
    if known is None:
        memory = column.memory
        own = None if memory is None else PageMemory(memory.cache, (*memory.key, name))
        known = _made(pages, own, [0] * len(pages))
        if memory is not None:
            memory.keep(0, name, known, 1000 * len(pages))
    return known


def _made(pages: Sequence[ColumnPages], memory: PageMemory | None, begins: Sequence[int]) -> Column:
    """The pages as those of one column; ``begins`` are the positions of their files."""
    positions = [
        mine.positions + begin if begin else mine.positions for mine, begin in zip(pages, begins, strict=True)
    ]
    return Column(
        pages[0].column.index,
        False,
        starts_of(np.concatenate([mine.lengths for mine in pages])),
        tuple(spec for mine in pages for spec in mine.specs),
        starts_of(np.concatenate([mine.num_buffers for mine in pages])),
        np.concatenate(positions),
        np.concatenate([mine.sizes for mine in pages]),
        sum(mine.column.nbytes for mine in pages),
        memory,
    )


def _selected(leaves: Sequence[LeafPages], pages: Sequence[ColumnPages]) -> RowSelection:
    """The rows of all leaves, over the rows of all their pages."""
    sizes = [mine.num_rows for mine in pages]
    total = sum(sizes)
    if all(leaf.num_rows == sum(mine.num_rows for mine in leaf.pages) for leaf in leaves):
        return RowSelection.all(total)
    # How much higher the rows of each file are here than there, for each leaf.
    moves = starts_of(np.array(sizes, np.int64))[:-1] - np.array([mine.start for mine in pages], np.int64)
    first = leaves[0]
    if any(leaf.rows is not first.rows for leaf in leaves):
        edges = np.cumsum([0, *(len(leaf.pages) for leaf in leaves)]).tolist()
        each = zip(leaves, pairwise(edges), strict=True)
        found = [_indices(leaf.rows, moves[None, a:b]) for leaf, (a, b) in each]
        return RowSelection(total, indices=np.concatenate(found))
    moves = moves.reshape(len(leaves), len(first.rows))
    if len(first.rows) == 1 and first.rows[0].indices is None:
        starts, stops = row_ranges(first.rows[0])
        return RowSelection(total, (moves + starts).ravel(), (moves + stops).ravel())
    return RowSelection(total, indices=_indices(first.rows, moves))


def _indices(rows: Sequence[RowSelection], moves: Int64) -> Int64:
    """Rows of each file, moved, for each leaf; ``moves`` is (num_leaves, num_files)."""
    indices = np.concatenate([mine.to_indices() for mine in rows])
    files = np.repeat(np.arange(len(rows)), [len(mine) for mine in rows])
    found: Int64 = (moves[:, files] + indices).ravel()
    return found
