"""BTREE: all values in order with the addresses of their rows, in pages, and the bounds of each page.

Source: sheet of indices, section B3.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.encodings.arrow.conversions import array_of, numbers_of
from lancecy.index.btree import DATA_FILE, LOOKUP_FILE
from lancecy.index.write.base import IndexOutput, IndexPart
from lancecy.index.write.parts import held
from lancecy.index.write.sorted_pairs import Pairs, SortedBuilder
from lancecy.rows import RowSelection

__all__ = ["BTreeBuilder"]

UInt64: TypeAlias = NDArray[np.uint64]

_PAGE_ROWS = 4096
_BLOCK_PAGES = 64
"""Pages that are written at once."""
_FILE_PAGE_BYTES = 512 << 10
"""Size of the pages of the file: so small that values and their ids lie close together, and one request reads both."""


class BTreeBuilder(SortedBuilder):
    """Builder of a BTREE index."""

    def add_part(self, part: IndexPart) -> None:
        """See ``IndexBuilder.add_part``."""
        data = part.file(DATA_FILE)
        for start in range(0, data.num_rows, _BLOCK_PAGES * _PAGE_ROWS):
            rows = RowSelection.range(
                data.num_rows, start, min(data.num_rows, start + _BLOCK_PAGES * _PAGE_ROWS)
            )
            values, ids = data.read(["values", "ids"], rows)
            self._pairs.add(*held(part, values, numbers_of(ids)))

    def write(self, output: IndexOutput) -> None:
        """See ``IndexBuilder.write``."""
        kind = self._kind
        data = output.create(
            DATA_FILE,
            pa.schema([pa.field("values", kind), pa.field("ids", pa.uint64(), nullable=False)]),
            _FILE_PAGE_BYTES,
        )
        bounds = _Bounds(kind)
        for block in _in_whole_pages(self._pairs.blocks()):
            data.write(pa.record_batch({"values": block.values, "ids": array_of(block.ids)}))
            bounds.add(block.values)
        data.finish()
        lookup = output.create(LOOKUP_FILE, _Bounds.schema(kind))
        batch = bounds.batch()
        if batch.num_rows:
            lookup.write(batch)
        lookup.add_schema_metadata("batch_size", str(_PAGE_ROWS))
        lookup.add_schema_metadata("range_partitioned", "false")
        lookup.finish()


def _in_whole_pages(blocks: Iterator[Pairs]) -> Iterator[Pairs]:
    """The pairs of some blocks in blocks of whole pages; the last page may be shorter."""
    rest: Pairs | None = None
    for block in blocks:
        if rest is not None:
            values = pa.concat_arrays([rest.values, block.values])
            block = Pairs(values, np.concatenate([rest.ids, block.ids]))
        whole = block.ids.size // _PAGE_ROWS * _PAGE_ROWS
        for start in range(0, whole, _BLOCK_PAGES * _PAGE_ROWS):
            stop = min(whole, start + _BLOCK_PAGES * _PAGE_ROWS)
            yield Pairs(block.values.slice(start, stop - start), block.ids[start:stop])
        rest = Pairs(block.values.slice(whole), block.ids[whole:]) if whole < block.ids.size else None
    if rest is not None:
        yield rest


class _Bounds:
    """First and last value of each page.

    Parameters
    ----------
    kind : pyarrow.DataType
    """

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._firsts: list[pa.Array] = []
        self._lasts: list[pa.Array] = []
        self._nulls: list[NDArray[np.uint32]] = []

    @staticmethod
    def schema(kind: pa.DataType) -> pa.Schema:
        """The columns of the file of bounds."""
        return pa.schema(
            [
                pa.field("min", kind),
                pa.field("max", kind),
                pa.field("null_count", pa.uint32(), nullable=False),
                pa.field("page_idx", pa.uint32(), nullable=False),
            ]
        )

    def add(self, values: pa.Array) -> None:
        """Add the pages of a block, whose nulls come first."""
        starts = np.arange(0, len(values), _PAGE_ROWS)
        stops = np.minimum(starts + _PAGE_ROWS, len(values))
        self._firsts.append(values.take(array_of(starts)))
        self._lasts.append(values.take(array_of(stops - 1)))
        self._nulls.append(np.clip(values.null_count - starts, 0, stops - starts).astype(np.uint32))

    def batch(self) -> pa.RecordBatch:
        """One row per page."""
        nulls = np.concatenate([np.empty(0, np.uint32), *self._nulls])
        return pa.record_batch(
            [
                pa.concat_arrays([pa.nulls(0, self._kind), *self._firsts]),
                pa.concat_arrays([pa.nulls(0, self._kind), *self._lasts]),
                array_of(nulls),
                array_of(np.arange(nulls.size, dtype=np.uint32)),
            ],
            schema=self.schema(self._kind),
        )
