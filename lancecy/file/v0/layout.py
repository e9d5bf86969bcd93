"""How many bytes the pages of a 0.1 file take, told from the page table alone.

Plain pages follow from their lengths. The bytes of strings are not counted anywhere,
but writers put them right before the page's offsets, so the gap between a page and the
end of whatever lies before it in the file is what they can take at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from lancecy.encodings.model.spec import ListOf, Spec, StructOf
from lancecy.file.v0.meta import PageTable, page_bits

__all__ = ["all_nodes", "gaps_before", "page_nbytes"]

Int64 = NDArray[np.int64]


def all_nodes(columns: Iterable[tuple[int, Spec]]) -> Iterator[tuple[int, Spec]]:
    """These columns and all below them, with their ids."""
    for column_id, spec in columns:
        yield column_id, spec
        if isinstance(spec, StructOf):
            yield from all_nodes(spec.children.items())
        elif isinstance(spec, ListOf):
            yield from all_nodes([(spec.child_id, spec.child)])


def page_nbytes(lengths: Int64, spec: Spec) -> Int64:
    """Bytes of pages with these stored lengths; values of strings not included."""
    bits, extra = page_bits(spec)
    # Lists store the length with the extra offset counted, strings without it.
    count = lengths if isinstance(spec, ListOf) else lengths + extra
    exact: Int64 = (np.maximum(count, 0) * bits + 7) >> 3
    return exact


def gaps_before(table: PageTable, specs: Mapping[int, Spec], file_size: int) -> Int64:
    """Bytes between each page and the end of the page before it in the file.

    Parameters
    ----------
    table : PageTable
        Cells are not trusted: those outside the file count as nothing.
    specs : mapping of column id to Spec
        Columns that are known; the pages of others are taken to have no length, so gaps after them are
        too large rather than too small.
    file_size : int, bytes

    Returns
    -------
    (num_ids, num_batches) int64, bytes
        0 where there is no page.
    """
    starts, ends = table.positions, table.positions.copy()
    for column_id, spec in specs.items():
        row = column_id - table.origin
        if 0 <= row < len(ends):
            ends[row] += page_nbytes(np.clip(table.lengths[row], 0, file_size), spec)
    there = (table.lengths > 0) & (starts >= 0) & (starts <= file_size)
    ends = np.where((ends >= starts) & (ends <= file_size), ends, starts)
    # Batch by batch the pages lie in file order, nearly, which a merge sort is quick with.
    index = np.flatnonzero(there.T)
    begin = starts.T.reshape(-1)[index]
    order = np.argsort(begin, kind="stable")
    begin = begin[order]
    reach = np.maximum.accumulate(ends.T.reshape(-1)[index][order])
    gaps = begin - np.concatenate(([0], reach))[:-1]
    flat = np.zeros(starts.size, np.int64)
    flat[index[order]] = np.maximum(gaps, 0)
    return np.ascontiguousarray(flat.reshape(starts.T.shape).T)
