"""Columns of a 2.0 file during decoding: their pages, and the selected rows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from lancecy.encodings.model.block import Block
from lancecy.encodings.model.chunks import touched
from lancecy.encodings.model.layouts import PageSpec
from lancecy.encodings.model.pages import Column
from lancecy.encodings.model.spec import DictionaryOf, Spec, VarBinary
from lancecy.encodings.v20.pages import Decoder, Pages, bare, forms, joined
from lancecy.errors import FormatError, printable
from lancecy.limits import Limits
from lancecy.rows import PageRuns
from lancecy.schema import Field
from lancecy.store.reads import Ranges, Read, SourceFile, Span, gather

__all__ = ["FieldReader", "FieldSource", "Rows", "groups_of", "node_of", "read_pages"]

Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Selected rows of a column.

    Attributes
    ----------
    starts, stops : (num_ranges,) int64
        Ascending disjoint non-empty ranges.
    """

    starts: Int64
    stops: Int64

    @property
    def count(self) -> int:
        """Rows of all ranges."""
        return int((self.stops - self.starts).sum())

    def is_all(self, num_rows: int) -> bool:
        """Whether these are rows 0 to ``num_rows``."""
        return self.starts.size == 1 and int(self.starts[0]) == 0 and int(self.stops[0]) == num_rows


@dataclass(frozen=True, slots=True, eq=False)
class FieldSource:
    """The columns of one file and how they are read.

    Attributes
    ----------
    columns : mapping of field id to Column
    column_after : function of a Column
        The one whose index is next, None if there is none.
    file : SourceFile
    limits : Limits
    decoders : mapping of node type to Decoder
    read : function of a field, this source, rows and whether pieces are allowed
        Decodes a field with all that is below it.
    """

    columns: Mapping[int, Column]
    column_after: Callable[[Column], Column | None]
    file: SourceFile
    limits: Limits
    decoders: Mapping[type[object], Decoder]
    read: FieldReader

    def column(self, field: Field) -> Column:
        """The column of a field.

        Raises
        ------
        FormatError
            There is none.
        """
        column = self.columns.get(field.id)
        if column is None:
            raise FormatError(f"the file has no column for field {field.id} {printable(field.name)!r}")
        return column

    def below(self, field: Field, rows: Rows) -> Read[Block]:
        """Decode a child of another field."""
        return self.read(field, self, rows, False)


FieldReader: TypeAlias = Callable[[Field, FieldSource, Rows, bool], Read[Block]]


def node_of(spec: PageSpec) -> Spec:
    """The page's node without wrappers that have no effect; pages of 2.0 have no layouts."""
    return bare(cast(Spec, spec))


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """Neighbouring pages of one form, and the selected runs.

    Attributes
    ----------
    pages : Pages
    runs : PageRuns
    buffers : (num_buffers,) int64
        All buffers of these pages, as numbers into those of the column.
    """

    pages: Pages
    runs: PageRuns
    buffers: Int64

    @property
    def is_whole(self) -> bool:
        """Whether every row of every page is selected."""
        runs = self.runs
        return not runs.starts.any() and bool((runs.counts == self.pages.counts[runs.pages]).all())


def groups_of(column: Column, source: FieldSource, runs: PageRuns) -> list[_Group]:
    """The pages that some runs touch, in groups of one form."""
    numbers, local = touched(runs)
    specs = cast(list[Spec], [column.specs[number] for number in numbers.tolist()])
    counts = np.diff(column.row_starts)[numbers]
    first, last = column.first_buffer[numbers], column.first_buffer[numbers + 1]
    bounds = forms(specs)
    edges = np.searchsorted(local.pages, bounds).tolist()
    groups = []
    for i, (a, b) in enumerate(itertools.pairwise(bounds)):
        low, high = edges[i], edges[i + 1]
        own = specs[a : a + 1] if all(spec is specs[a] for spec in specs[a:b]) else specs[a:b]
        pages = Pages(
            tuple(own),
            counts[a:b],
            first[a:b],
            column.positions,
            column.sizes,
            source.file,
            source.limits,
            source.decoders,
        )
        part = PageRuns(local.pages[low:high] - a, local.starts[low:high], local.counts[low:high])
        groups.append(_Group(pages, part, _numbers(first[a:b], last[a:b])))
    return groups


def _numbers(starts: Int64, stops: Int64) -> Int64:
    """All integers of some ranges."""
    lengths = stops - starts
    return np.repeat(stops - np.cumsum(lengths), lengths) + np.arange(int(lengths.sum()))


def read_pages(
    column: Column, shape: Spec, source: FieldSource, runs: PageRuns, in_pieces: bool
) -> Read[Block]:
    """Decode runs of a column's pages."""
    reads = [_read_group(group, shape, in_pieces) for group in groups_of(column, source, runs)]
    return joined((yield from gather(reads)))


def _read_group(group: _Group, shape: Spec, in_pieces: bool) -> Read[Block]:
    read = group.pages.read(shape, group.runs, in_pieces)
    if not isinstance(shape, (VarBinary, DictionaryOf)) or not group.is_whole:
        return read
    # The decoder may need a second round for these bytes, but whole pages are certain to be read.
    pages, buffers = group.pages, group.buffers
    return _prefetched(read, Ranges(pages.file, pages.positions[buffers], pages.sizes[buffers]))


def _prefetched(read: Read[Block], ranges: Ranges) -> Read[Block]:
    """A Read whose requests are served from ranges that are requested before it starts."""
    order = np.argsort(ranges.positions, kind="stable")
    ranges = Ranges(ranges.file, ranges.positions[order], ranges.lengths[order])
    (span,) = yield [ranges]
    is_whole_file = np.array_equal(span.positions, ranges.positions)
    try:
        wanted = next(read)
        while True:
            spans: list[Span] | None = [Span(span.memory, request.positions) for request in wanted]
            if not is_whole_file:
                spans = _found(wanted, ranges, span)
            wanted = read.send((yield wanted) if spans is None else spans)
    except StopIteration as stop:
        block: Block = stop.value
        return block


def _found(wanted: list[Ranges], held: Ranges, span: Span) -> list[Span] | None:
    """Find the requested ranges in memory; None if one of them is missing or not contiguous there."""
    shifts = span.positions - held.positions
    spans = []
    for request in wanted:
        first = np.searchsorted(held.positions, request.positions, side="right") - 1
        stops = request.positions + request.lengths
        last = np.searchsorted(held.positions, np.maximum(stops - 1, request.positions), side="right") - 1
        # A request may pass from one buffer to the next where these touch, in the file and in memory.
        inside = (first >= 0) & (stops <= held.positions[last] + held.lengths[last])
        if not bool((inside & (shifts[first] == shifts[last])).all()):
            return None
        spans.append(Span(span.memory, request.positions + shifts[first]))
    return spans
