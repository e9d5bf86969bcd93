"""Pages of a 0.1 file as they are stored, with their statistics, to be copied to another file without decoding.

A page holds no position, except those of texts: they are the places of the values in the file, and move with them.

Source: file sheet 0.1, sections 3, 4 and 6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.blocks.memory import allocate, mask_of
from lancecy.encodings.model.block import FixedWidth, VariableWidth
from lancecy.encodings.model.spec import DictionaryOf, ListOf, Spec, StructOf, VarBinary
from lancecy.encodings.v0.read import ColumnPages
from lancecy.encodings.v0.stats import BYTE_KINDS, PageBounds, bounds_kind, number_dtype
from lancecy.errors import FormatError, UnsupportedError, printable
from lancecy.file.v0.meta import page_bits
from lancecy.file.v0.stats import StoredStats
from lancecy.records import dataclass
from lancecy.schema import Field
from lancecy.store.base import Memory
from lancecy.store.reads import Fetch, Ranges, Read, SourceFile, named, run

__all__ = ["CopiedBatches", "PlacedBatches", "StoredBatches", "StoredNode", "check_nodes", "placed_batches"]

Int64 = NDArray[np.int64]

_OFFSET_BYTES = 8


@dataclass(frozen=True, slots=True, eq=False)
class StoredNode:
    """The pages of one field, without those below it.

    Attributes
    ----------
    field_id : int
    spec : Spec
    pages : ColumnPages
        Checked to lie in the file.
    """

    field_id: int
    spec: Spec
    pages: ColumnPages

    @property
    def stored_lengths(self) -> Int64:
        """(num_pages,) int64: lengths as page tables state them."""
        if isinstance(self.spec, StructOf):
            return np.zeros_like(self.pages.lengths)
        return self.pages.lengths + int(isinstance(self.spec, ListOf))

    @property
    def nbytes(self) -> Int64:
        """(num_pages,) int64, bytes: of each page, without the bytes of texts."""
        bits, extra = page_bits(self.spec)
        return ((self.pages.lengths + extra) * bits + 7) >> 3


@dataclass(slots=True, eq=False)
class PlacedBatches:
    """Pages of batches, made for one position in another file.

    Attributes
    ----------
    row_starts : (num_batches + 1,) int64
    buffer : (nbytes,) uint8
        All pages.
    cells : dict of field id to (positions, lengths)
        For the page table of the other file.
    bounds : list of (field id, PageBounds)
    """

    row_starts: Int64
    buffer: Memory
    cells: dict[int, tuple[Int64, Int64]] = field(default_factory=dict)
    bounds: list[tuple[int, PageBounds]] = field(default_factory=list)


def check_nodes(top: Field, nodes: Sequence[StoredNode]) -> None:
    """Check that pages of a top-level column can be copied.

    Parameters
    ----------
    top : Field
    nodes : sequence of StoredNode
        Its own and all below it.

    Raises
    ------
    UnsupportedError
        They cannot.
    """
    for node in nodes:
        if isinstance(node.spec, DictionaryOf):
            raise _refusal(top, "its codes stand for values of its own table")
        if isinstance(node.spec, VarBinary) and not node.pages.lengths.all():
            raise _refusal(top, "a page is empty")


@dataclass(frozen=True, slots=True, eq=False)
class StoredBatches:
    """All rows of a file, whose pages can be copied.

    Attributes
    ----------
    source : SourceFile
    nodes : tuple of StoredNode
    leaves : tuple of Field
        Fields with statistics.
    stats : StoredStats or None
        Of the file; None if it has none.
    row_starts : (num_batches + 1,) int64
    """

    source: SourceFile
    nodes: tuple[StoredNode, ...]
    leaves: tuple[Field, ...]
    stats: StoredStats | None
    row_starts: Int64

    @property
    def num_rows(self) -> int:
        """Rows of the file."""
        return int(self.row_starts[-1])

    @property
    def num_batches(self) -> int:
        """Batches of the file."""
        return int(self.row_starts.size) - 1


@dataclass(frozen=True, slots=True, eq=False)
class CopiedBatches:
    """Rows of a 0.1 file that a writer copies.

    Attributes
    ----------
    stored : StoredBatches
    fetcher : function
        Returns the ``fetch`` for one read of several rounds.
    """

    stored: StoredBatches
    fetcher: Callable[[], Fetch]

    @property
    def num_rows(self) -> int:
        """Rows of the file."""
        return self.stored.num_rows

    @property
    def field_ids(self) -> frozenset[int]:
        """Ids of all fields with pages."""
        return frozenset(node.field_id for node in self.stored.nodes)

    def placed(self, position: int) -> PlacedBatches:
        """The pages for a position of another file.

        Raises
        ------
        FormatError, StoreError
            Pages are damaged or cannot be read.
        """
        return run(named(placed_batches(self.stored, position), self.stored.source.path), self.fetcher())


def placed_batches(stored: StoredBatches, position: int) -> Read[PlacedBatches]:
    """Read all pages of a file, as they are to stand at a position of another one.

    Parameters
    ----------
    stored : StoredBatches
    position : int, bytes

    Returns
    -------
    Read of PlacedBatches
        Two rounds of requests.

    Raises
    ------
    FormatError
        Positions of texts do not ascend or lie outside the file, or statistics are damaged.
    """
    source, nodes, row_starts = stored.source, stored.nodes, stored.row_starts
    texts = [node for node in nodes if isinstance(node.spec, VarBinary)]
    others = [node for node in nodes if not isinstance(node.spec, VarBinary)]
    kept = _KeptBounds.of(stored.leaves, stored.stats, stored.num_batches)
    flat = _Spans.of([node.pages.positions for node in others], [node.nbytes for node in others])
    tables = _Spans.of([node.pages.positions for node in texts], [node.nbytes for node in texts])
    parts = (flat, tables, kept.fixed, kept.tables)
    (span,) = yield [Ranges(source, *_Spans.joined(parts))]
    starts = _split(span.positions, [part.starts.size for part in parts])
    values = _Values.of(span.memory, starts[1], tables.lengths, source.size)
    bounds = _Values.of(span.memory, starts[3], kept.tables.lengths, source.size)
    wanted = (values.spans, bounds.spans)
    (read,) = yield [Ranges(source, *_Spans.joined(wanted))]
    at_values, at_bounds = _split(read.positions, [part.starts.size for part in wanted])
    sizes = np.concatenate((flat.lengths, values.spans.lengths, tables.lengths))
    at = np.cumsum(sizes) - sizes
    at_flat, at_texts, at_tables = _split(at, [part.lengths.size for part in (flat, values.spans, tables)])
    _, buffer = allocate(int(sizes.sum()))
    kernels.place_spans(span.memory, starts[0], flat.lengths, buffer, at_flat)
    kernels.place_spans(read.memory, at_values, values.spans.lengths, buffer, at_texts)
    moved = values.moved(at_texts + position)
    kernels.place_spans(
        moved.view(np.uint8), tables.lengths.cumsum() - tables.lengths, tables.lengths, buffer, at_tables
    )
    made = PlacedBatches(row_starts, buffer)
    for group, places in ((others, at_flat), (texts, at_tables)):
        pages = row_starts.size - 1
        for number, node in enumerate(group):
            mine = places[number * pages : (number + 1) * pages] + position
            if isinstance(node.spec, StructOf):
                mine = np.zeros_like(mine)
            made.cells[node.field_id] = (mine, node.stored_lengths)
    made.bounds.extend(kept.bounds(span.memory, starts[2], bounds, read.memory, at_bounds))
    return made


def _split(array: Int64, sizes: Sequence[int]) -> list[Int64]:
    """The array in parts of these sizes; faster than ``np.split``."""
    ends = [*accumulate(sizes)]
    return [array[end - size : end] for size, end in zip(sizes, ends, strict=True)]


@dataclass(frozen=True, slots=True, eq=False)
class _Spans:
    """Byte ranges of a file."""

    starts: Int64
    lengths: Int64

    @classmethod
    def of(cls, starts: Sequence[Int64], lengths: Sequence[Int64]) -> _Spans:
        none = np.empty(0, np.int64)
        made = np.concatenate([none, *lengths])
        # Empty pages have any position.
        return cls(np.where(made > 0, np.concatenate([none, *starts]), 0), made)

    @staticmethod
    def joined(parts: Sequence[_Spans]) -> tuple[Int64, Int64]:
        return (
            np.concatenate([part.starts for part in parts]),
            np.concatenate([part.lengths for part in parts]),
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Values:
    """Texts by their positions in the file, page by page."""

    positions: Int64
    counts: Int64
    """Positions in each page, one more than values."""
    spans: _Spans

    @classmethod
    def of(cls, memory: Memory, starts: Int64, lengths: Int64, file_size: int) -> _Values:
        raw = np.empty(int(lengths.sum()), np.uint8)
        kernels.place_spans(memory, starts, lengths, raw, lengths.cumsum() - lengths)
        positions = raw.view("<i8").astype(np.int64, copy=False)
        counts = lengths // _OFFSET_BYTES
        ends = counts.cumsum()
        first, last = positions[ends - counts], positions[ends - 1]
        ascends = positions[1:] >= positions[:-1]
        ascends[ends[:-1] - 1] = True
        if not ascends.all() or (first < 0).any() or (last > file_size).any():
            raise FormatError("positions of texts do not ascend, or lie outside the file")
        return cls(positions, counts, _Spans(first, last - first))

    def moved(self, places: Int64) -> Int64:
        """The positions after the values of each page are moved to these places."""
        return self.positions + np.repeat(places - self.spans.starts, self.counts)


@dataclass(frozen=True, slots=True, eq=False)
class _KeptBounds:
    """Places of the statistics of those leaves that have any: null counts and numbers, and texts apart."""

    leaves: tuple[tuple[int, str], ...]
    num_pages: int
    fixed: _Spans
    tables: _Spans

    @classmethod
    def of(cls, leaves: Sequence[Field], stats: StoredStats | None, num_pages: int) -> _KeptBounds:
        fixed: list[tuple[int, int]] = []
        tables: list[tuple[int, int]] = []
        found = []
        positions: list[int] = [] if stats is None else stats.table.positions[:, 0].tolist()
        lengths: list[int] = [] if stats is None else stats.table.lengths[:, 0].tolist()
        for leaf in leaves:
            kind = bounds_kind(leaf.logical_type) or ""
            parts = None if stats is None else stats.fields.get(leaf.id)
            if stats is None or parts is None or {part.logical_type for part in parts[1:]} != {kind}:
                continue
            # The table has a row for every id, from 0 on.
            if any(lengths[part.id] != num_pages for part in parts):
                continue
            nulls, low, high = (positions[part.id] for part in parts)
            fixed.append((nulls, 8 * num_pages))
            if kind in BYTE_KINDS:
                tables += [(at, _OFFSET_BYTES * (num_pages + 1)) for at in (low, high)]
            else:
                fixed += [(at, _bound_bytes(kind, num_pages)) for at in (low, high)]
            found.append((leaf.id, kind))
        size = stats.file.size if stats is not None else 0
        for at, nbytes in (*fixed, *tables):
            if at < 0 or at > size - nbytes:
                raise FormatError("statistics lie outside the file", position=at)
        return cls(tuple(found), num_pages, _pairs(fixed), _pairs(tables))

    def bounds(
        self, memory: Memory, starts: Int64, texts: _Values, values: Memory, at: Int64
    ) -> Iterator[tuple[int, PageBounds]]:
        """The bounds of each leaf.

        ``memory`` and ``starts`` are the fixed parts, ``values`` and ``at`` those of the texts.
        """
        fixed = iter(zip(starts.tolist(), self.fixed.lengths.tolist(), strict=True))
        number = 0
        offsets = texts.moved(np.zeros_like(at)).reshape(-1, self.num_pages + 1)
        for field_id, kind in self.leaves:
            begin, nbytes = next(fixed)
            nulls = np.frombuffer(memory[begin : begin + nbytes].tobytes(), "<i8").astype(np.int64)
            if kind in BYTE_KINDS:
                ends = at + texts.spans.lengths
                low, high = (
                    VariableWidth(self.num_pages, 8, offsets[one], values[at[one] : ends[one]].copy())
                    for one in (number, number + 1)
                )
                number += 2
                yield field_id, PageBounds(nulls, low, high)
                continue
            pair = [memory[begin : begin + nbytes].copy() for begin, nbytes in (next(fixed), next(fixed))]
            if kind == "bool":
                pair = [mask_of(raw, self.num_pages).view(np.uint8) for raw in pair]
            bits = 1 if kind == "bool" else 8 * (pair[0].size // max(1, self.num_pages))
            yield field_id, PageBounds(nulls, *(FixedWidth(self.num_pages, bits, raw) for raw in pair))


def _bound_bytes(kind: str, num_pages: int) -> int:
    if kind == "bool":
        return (num_pages + 7) // 8
    return num_pages * (16 if kind.startswith("decimal") else number_dtype(kind).itemsize)


def _pairs(found: Sequence[tuple[int, int]]) -> _Spans:
    array = np.array(found, np.int64).reshape(-1, 2)
    return _Spans(array[:, 0].copy(), array[:, 1].copy())


def _refusal(top: Field, reason: str) -> UnsupportedError:
    return UnsupportedError(
        f"pages of column {printable(top.name)!r} cannot be copied: {reason}", feature="copy of pages"
    )
