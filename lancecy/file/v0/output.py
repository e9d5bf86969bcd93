"""The container of a 0.1 file during writing: pages in order of arrival, and the end of the file.

::

    pages | page table | statistics and their table | dictionary values | manifest | Metadata | footer

Source: file sheet 0.1, sections 1, 3 and 6.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from lancecy.encodings.model.block import Block, FixedWidth
from lancecy.encodings.v0.stats import BYTE_KINDS, PageBounds, bounded_leaves, bounds_kind, joined_bounds
from lancecy.encodings.v0.write import LegacyPages, legacy_pages
from lancecy.file.dictionaries import Dictionaries, no_codes, placed
from lancecy.file.sink import Sink
from lancecy.file.tail import MAGIC
from lancecy.file.v0.stored_pages import PlacedBatches
from lancecy.file.v0.wire import encode_embedded_manifest, encode_metadata
from lancecy.schema import Field, Schema

__all__ = ["V0Output"]

Int64 = NDArray[np.int64]

_PLAIN, _VARIABLE = 1, 2
_MINOR = 2
"""Version in the footer: 0.2 since release 0.10.6."""


class V0Output:
    """Writes pages as they arrive, and keeps their positions and bounds.

    Parameters
    ----------
    sink : Sink
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._cells: dict[int, list[tuple[Int64, Int64]]] = defaultdict(list)
        self._bounds: dict[int, list[PageBounds]] = defaultdict(list)

    @property
    def position(self) -> int:
        """Bytes taken so far."""
        return self._sink.position

    def add(self, pages: Iterable[LegacyPages]) -> None:
        """Write pages made for the current position.

        Raises
        ------
        StoreError
            Bytes could not be written.
        """
        for part in pages:
            self._sink.write(part.buffer)
            self._cells[part.field.id].append((part.positions, part.lengths))

    def add_placed(self, batches: PlacedBatches) -> None:
        """Write pages of another file that were made for the current position.

        Raises
        ------
        StoreError
            Bytes could not be written.
        """
        self._sink.write(batches.buffer)
        for field_id, cells in batches.cells.items():
            self._cells[field_id].append(cells)
        self.note(batches.bounds)

    def note(self, bounds: Iterable[tuple[int, PageBounds]]) -> None:
        """Remember the bounds of pages for the statistics."""
        for number, found in bounds:
            self._bounds[number].append(found)

    def end(self, schema: Schema, row_starts: list[int], book: Dictionaries) -> None:
        """Write everything after the pages.

        Raises
        ------
        StoreError
            Bytes could not be written.
        """
        ids = [node.id for field in schema.fields for node in field.walk()]
        table = self._table(self._cells, range(min(ids), max(ids) + 1), len(row_starts) - 1)
        statistics, statistics_table = self._statistics(schema, len(row_starts) - 1)
        values, refs = book.pages(self.position)
        self._sink.place(values)
        manifest = encode_embedded_manifest(placed(schema.fields, refs), schema.metadata)
        at = self._sink.place(struct.pack("<I", len(manifest)) + manifest)
        metadata = encode_metadata(row_starts, table, at, statistics, statistics_table)
        end = self._sink.place(struct.pack("<I", len(metadata)) + metadata)
        self._sink.place(struct.pack("<qhh4s", end, 0, _MINOR, MAGIC))
        self._sink.finish()

    def _table(self, cells: dict[int, list[tuple[Int64, Int64]]], ids: range, num_batches: int) -> int:
        """Write a page table with one row per id; ids without pages have zeros."""
        table = np.zeros((len(ids), num_batches, 2), np.int64)
        rows = [row for row, number in enumerate(ids) if number in cells]
        parts = [part for row in rows for part in cells[ids[row]]]
        for place in range(2 if rows else 0):
            column = np.concatenate([part[place] for part in parts])
            table[rows, :, place] = column.reshape(len(rows), num_batches)
        position = self.position
        self._sink.write(table.reshape(-1).view(np.uint8))
        return position

    def _statistics(self, schema: Schema, num_batches: int) -> tuple[list[Field], int]:
        """Write the pages of the statistics and their page table; return their fields and the table's position.

        A column with copied pages whose file had no statistics of it has none here either.
        """
        leaves = {leaf.id: leaf for field in schema.fields for leaf in bounded_leaves(field)}
        fields: list[Field] = []
        cells: dict[int, list[tuple[Int64, Int64]]] = {}
        for leaf_id in sorted(self._bounds):
            bounds = joined_bounds(self._bounds[leaf_id])
            if bounds.null_counts.size < num_batches:
                continue
            top = _described(leaves[leaf_id], 4 * len(fields))
            fields.append(top)
            for part, block in zip(top.children, _columns(bounds), strict=True):
                starts = np.array([0, block.length], np.int64)
                for pages in legacy_pages(part, block, starts, self.position, no_codes):
                    self._sink.write(pages.buffer)
                    cells[part.id] = [(pages.positions, pages.lengths)]
        return fields, self._table(cells, range(4 * len(fields)), 1) if fields else 0


def _columns(bounds: PageBounds) -> Iterator[FixedWidth | Block]:
    counts = bounds.null_counts
    yield FixedWidth(counts.size, 64, counts.view(np.uint8))
    yield bounds.low
    yield bounds.high


def _described(leaf: Field, first: int) -> Field:
    """The field of a column's statistics: a struct named by the column's id."""
    kind = bounds_kind(leaf.logical_type) or leaf.logical_type
    encoding = _VARIABLE if kind in BYTE_KINDS else _PLAIN
    return Field(
        str(leaf.id),
        first,
        logical_type="struct",
        nullable=False,
        children=(
            Field("null_count", first + 1, first, "int64", nullable=False, encoding=_PLAIN),
            Field("min_value", first + 2, first, kind, encoding=encoding),
            Field("max_value", first + 3, first, kind, encoding=encoding),
        ),
    )
