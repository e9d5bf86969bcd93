"""Pages of a physical column of a 2.x file, as arrays.

``file.v2`` makes them from a column's metadata; the decoders of 2.x read them. Pages with the same encoding
share one ``PageSpec`` object, so that ``is`` tells groups of equal pages apart.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lancecy.encodings.model.layouts import PageSpec
from lancecy.records import dataclass
from lancecy.store.base import Memory
from lancecy.store.cache import ByteCache

__all__ = ["Column", "EncodedPage", "Page", "PageMemory"]

Int64 = NDArray[np.int64]

_FEW_PAGES = 16


@dataclass(frozen=True, slots=True, eq=False)
class PageMemory:
    """Cache, bounded in bytes, for decoded parts of a column's pages.

    Attributes
    ----------
    cache : ByteCache
    key : tuple
        Identifies the column, its file and the limits of the read.
    """

    cache: ByteCache
    key: tuple[Hashable, ...]

    def find(self, page: int, what: Hashable) -> Any:
        """The value cached for a page under the name ``what``, or None."""
        return self.cache.find((*self.key, page, what))

    def keep(self, page: int, what: Hashable, value: object, nbytes: int) -> None:
        """Cache a value for a page; the caller must not change it afterwards."""
        self.cache.keep((*self.key, page, what), value, nbytes)


@dataclass(frozen=True, slots=True, eq=False)
class Page:
    """One page.

    Attributes
    ----------
    number : int
        Index among the pages of its column.
    num_rows : int
        As in the metadata: rows, or in 2.0 elements for a column below a list. Under a fixed-size list of
        structs (2.2) rows times the sizes of those lists.
    spec : PageSpec
    positions, sizes : (num_buffers,) int64, bytes
        Buffers in the file, checked to lie in it.
    memory : PageMemory or None
        That of its column.
    """

    number: int
    num_rows: int
    spec: PageSpec
    positions: Int64
    sizes: Int64
    memory: PageMemory | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A physical column.

    Attributes
    ----------
    index : int
        Number of the column in the file.
    is_blob : bool
        The column encoding marks values as descriptors of blobs (2.0).
    row_starts : (num_pages + 1,) int64
        Running sum of ``lengths``, first is 0.
    specs : tuple of PageSpec, one per page
    first_buffer : (num_pages + 1,) int64
        Page p has buffers ``first_buffer[p]`` to ``first_buffer[p + 1]``.
    positions, sizes : (num_buffers,) int64, bytes
        Buffers of all pages, checked to lie in the file.
    nbytes : int, bytes
        Size of all buffers.
    memory : PageMemory or None
        Cache for decoded parts of its pages.
    compiled : dict
        What decoders need to know of its pages for every read, worked out once; a changed column has none of it.
    """

    index: int
    is_blob: bool
    row_starts: Int64
    specs: tuple[PageSpec, ...]
    first_buffer: Int64
    positions: Int64
    sizes: Int64
    nbytes: int
    memory: PageMemory | None = None
    compiled: dict[object, Any] = field(default_factory=dict, init=False, repr=False)
    _pages: dict[int, Page] = field(default_factory=dict, init=False, repr=False)

    @property
    def num_pages(self) -> int:
        """Pages, empty ones included."""
        return len(self.specs)

    @property
    def num_rows(self) -> int:
        """Values of all pages."""
        return int(self.row_starts[-1])

    def page(self, number: int) -> Page:
        """One page; its arrays are views. Those of columns of few pages are kept."""
        known = self._pages.get(number)
        if known is not None:
            return known
        first, last = self.first_buffer[number : number + 2].tolist()
        start, stop = self.row_starts[number : number + 2].tolist()
        buffers = self.positions[first:last], self.sizes[first:last]
        page = Page(number, stop - start, self.specs[number], *buffers, self.memory)
        if len(self.specs) <= _FEW_PAGES:
            self._pages[number] = page
        return page


@dataclass(frozen=True, slots=True, eq=False)
class EncodedPage:
    """A page that is to be written.

    Attributes
    ----------
    spec : PageSpec
    buffers : tuple of (nbytes,) uint8
        May share the memory of the values.
    length : int
        Rows, as the page metadata counts them: elements below lists of 2.0, and rows times the sizes of
        fixed-size lists of structs around the leaf.
    """

    spec: PageSpec
    buffers: tuple[Memory, ...]
    length: int
