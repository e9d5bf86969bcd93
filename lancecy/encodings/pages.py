"""Pages of a physical column of a 2.x file, as arrays.

What ``file.v2_wire`` makes of a column's metadata and what the decoders of 2.x start
from. Pages with the same encoding share one ``PageSpec`` object, so that ``is`` tells
groups of equal pages apart.

Imports ``layouts`` and NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lancecy.encodings.layouts import PageSpec

__all__ = ["Column", "Page"]

Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Page:
    """One page.

    Attributes
    ----------
    number : int
        Index among the pages of its column.
    num_rows : int
        As the metadata says: rows, or in 2.0 elements for a column below a list. Under a fixed-size list of
        structs (2.2) rows times the sizes of those lists.
    spec : PageSpec
    positions, sizes : (num_buffers,) int64, bytes
        Buffers in the file, checked to lie in it.
    """

    number: int
    num_rows: int
    spec: PageSpec
    positions: Int64
    sizes: Int64


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A physical column.

    Attributes
    ----------
    index : int
        Number of the column in the file.
    is_blob : bool
        The column encoding says that values are descriptors of blobs (2.0).
    row_starts : (num_pages + 1,) int64
        Running sum of ``lengths``, first is 0.
    specs : tuple of PageSpec, one per page
    first_buffer : (num_pages + 1,) int64
        Page p has buffers ``first_buffer[p]`` to ``first_buffer[p + 1]``.
    positions, sizes : (num_buffers,) int64, bytes
        Buffers of all pages, checked to lie in the file.
    """

    index: int
    is_blob: bool
    row_starts: Int64
    specs: tuple[PageSpec, ...]
    first_buffer: Int64
    positions: Int64
    sizes: Int64

    @property
    def num_pages(self) -> int:
        """Pages, empty ones included."""
        return len(self.specs)

    @property
    def num_rows(self) -> int:
        """Values of all pages."""
        return int(self.row_starts[-1])

    def page(self, number: int) -> Page:
        """One page; its arrays are views."""
        first, last = int(self.first_buffer[number]), int(self.first_buffer[number + 1])
        rows = int(self.row_starts[number + 1] - self.row_starts[number])
        return Page(number, rows, self.specs[number], self.positions[first:last], self.sizes[first:last])
