"""BITMAP: every distinct value with the set of its rows.

Source: sheet of indices, section B4.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.encodings.arrow.conversions import array_of, values_of
from lancecy.index.bitmap import SETS_FILE
from lancecy.index.write.base import IndexOutput, IndexPart
from lancecy.index.write.order import changes
from lancecy.index.write.parts import pairs_of
from lancecy.index.write.row_sets import GrowingSet, encoded_sets
from lancecy.index.write.sorted_pairs import Pairs, SortedBuilder, SortedPairs

__all__ = ["BitmapBuilder", "write_bitmaps"]

UInt64: TypeAlias = NDArray[np.uint64]

_BLOCK_ROWS = 1 << 18
"""Rows whose sets are made at once."""
_FILE_PAGE_BYTES = 32 << 20
"""Size of the pages of the file: so large that the places of all sets lie at its end, where opening reads them."""


class BitmapBuilder(SortedBuilder):
    """Builder of a BITMAP index."""

    def add_part(self, part: IndexPart) -> None:
        """See ``IndexBuilder.add_part``."""
        for keys, ids in pairs_of(part, self._kind):
            self._pairs.add(keys, ids)

    def write(self, output: IndexOutput) -> None:
        """See ``IndexBuilder.write``."""
        write_bitmaps(output, self._kind, self._pairs)


def write_bitmaps(
    output: IndexOutput, kind: pa.DataType, pairs: SortedPairs, nulls: bytes | None = None
) -> None:
    """Write the distinct values of some pairs, each with the set of its ids.

    Parameters
    ----------
    output : IndexOutput
    kind : pyarrow.DataType
        Type of the values.
    pairs : SortedPairs
    nulls : bytes, optional
        The serialized set of rows that are null lists.

    Raises
    ------
    StoreError
        The file could not be written.
    """
    schema = pa.schema({"keys": kind, "bitmaps": pa.binary()})
    file, count = output.create(SETS_FILE, schema, _FILE_PAGE_BYTES), 0
    for keys, bitmaps in _keys(_cut(pairs.blocks())):
        file.write(pa.record_batch([keys, bitmaps], schema=schema))
        count += len(keys)
    if nulls is not None:
        file.add_schema_metadata("lance:label_list_nulls", str(file.add_global_buffer(nulls)))
    file.add_schema_metadata("lance:index_stats", json.dumps({"num_bitmaps": count}, separators=(",", ":")))
    file.finish()


def _cut(blocks: Iterator[Pairs]) -> Iterator[Pairs]:
    """The pairs in blocks of bounded size."""
    for block in blocks:
        for start in range(0, block.ids.size, _BLOCK_ROWS):
            yield Pairs(block.values.slice(start, _BLOCK_ROWS), block.ids[start : start + _BLOCK_ROWS])


def _keys(blocks: Iterator[Pairs]) -> Iterator[tuple[pa.Array, pa.Array]]:
    """Distinct values and the serialized sets of their ids. The last value of a block may go on in the next."""
    last: pa.Array | None = None
    waiting: list[UInt64] = []
    large: GrowingSet | None = None
    for block in blocks:
        starts = np.flatnonzero(changes(block.values))
        goes_on = last is not None and not bool(
            changes(pa.concat_arrays([last, block.values.slice(0, 1)]))[1]
        )
        if goes_on and starts.size == 1:
            # Ids of a value that fills whole blocks are kept as bitmaps.
            large = large or GrowingSet()
            large.add(block.ids)
            continue
        first = int(starts[1]) if goes_on else 0
        if last is not None:
            yield last, _one_set([*waiting, block.ids[:first]], large)
        cut = int(starts[-1])
        yield from _sets(block.values.slice(first, cut - first), block.ids[first:cut])
        last, waiting, large = block.values.slice(cut, 1), [block.ids[cut:]], None
    if last is not None:
        yield last, _one_set(waiting, large)


def _one_set(pieces: list[UInt64], large: GrowingSet | None) -> pa.Array:
    found = large or GrowingSet()
    for ids in pieces:
        found.add(ids)
    return values_of([found.encode()], pa.binary())


def _sets(values: pa.Array, ids: UInt64) -> Iterator[tuple[pa.Array, pa.Array]]:
    """The distinct values of sorted ones, with their sets."""
    if not len(values):
        return
    is_first = changes(values)
    starts = np.flatnonzero(is_first)
    offsets, data = encoded_sets(np.cumsum(is_first) - 1, ids, starts.size)
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    yield values.take(array_of(starts)), pa.Array.from_buffers(pa.binary(), starts.size, buffers)
