"""Columns of a 2.0 file during decoding: their pages, and the selected rows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from lancecy.encodings.model.block import Block
from lancecy.encodings.model.chunks import places_of, runs_within, whole_runs
from lancecy.encodings.model.layouts import PageSpec
from lancecy.encodings.model.pages import Column
from lancecy.encodings.model.spec import DictionaryOf, Spec, VarBinary
from lancecy.encodings.v20.pages import Decoder, Pages, bare, forms, joined
from lancecy.errors import FormatError, printable
from lancecy.limits import Limits
from lancecy.records import dataclass
from lancecy.rows import PageRuns
from lancecy.schema import Field
from lancecy.store.reads import Ranges, Read, SourceFile, gather, prefetched

__all__ = [
    "FieldReader",
    "FieldSource",
    "Rows",
    "all_pages",
    "groups_of",
    "node_of",
    "read_pages",
    "runs_of_rows",
]

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
class _Form:
    """Consecutive pages of one form; pages without rows are left out everywhere.

    Attributes
    ----------
    first, stop : int
        Number of the first page, and of the one after the last.
    pages : Pages
    """

    first: int
    stop: int
    pages: Pages


@dataclass(frozen=True, slots=True, eq=False)
class _Compiled:
    """The pages of a column in groups of one form.

    Attributes
    ----------
    key : tuple
        File, limits and decoders of the pages.
    forms : tuple of _Form
    last_buffer : (num_pages,) int64
        End of the buffers of each page.
    ranks : (num_pages of the column,) int64 or None
        Number of each page among those with rows; None if all have rows.
    """

    key: tuple[object, ...]
    forms: tuple[_Form, ...]
    last_buffer: Int64
    ranks: Int64 | None


def _compiled(column: Column, source: FieldSource) -> _Compiled:
    """What all reads of a column share; kept with the column."""
    key = source.file, source.limits, source.decoders
    known: _Compiled | None = column.compiled.get(id(source.decoders))
    if known is not None and all(a is b for a, b in zip(known.key, key, strict=True)):
        return known
    counts, ranks = np.diff(column.row_starts), None
    first, last, specs = column.first_buffer[:-1], column.first_buffer[1:], list(map(node_of, column.specs))
    if not counts.all():
        numbers = np.flatnonzero(counts)
        ranks = np.cumsum(counts > 0) - 1
        counts, first, last = counts[numbers], first[numbers], last[numbers]
        specs = [specs[number] for number in numbers.tolist()]
    found = []
    for a, b in itertools.pairwise(forms(specs)):
        own = specs[a : a + 1] if all(spec is specs[a] for spec in specs[a:b]) else specs[a:b]
        buffers = first[a:b], column.positions, column.sizes
        found.append(_Form(a, b, Pages(tuple(own), counts[a:b], *buffers, *key, column.memory)))
    known = column.compiled[id(source.decoders)] = _Compiled(key, tuple(found), last, ranks)
    return known


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """Pages of one form, and the selected runs.

    Attributes
    ----------
    pages : Pages
    runs : PageRuns
    last_buffer : (num_pages,) int64
        End of the buffers of each page.
    """

    pages: Pages
    runs: PageRuns
    last_buffer: Int64

    @property
    def is_whole(self) -> bool:
        """Whether every row is selected of every page with selected rows."""
        runs = self.runs
        return not runs.starts.any() and bool((runs.counts == self.pages.counts[runs.pages]).all())

    @property
    def buffers(self) -> Int64:
        """(num_buffers,) int64: all buffers of the pages with selected rows, each with one run."""
        numbers = self.runs.pages
        first, last = self.pages.first_buffer[numbers], self.last_buffer[numbers]
        return places_of(first, last - first)


def all_pages(column: Column, source: FieldSource) -> Iterator[Pages]:
    """All pages of a column that have rows, in groups of one form."""
    return (form.pages for form in _compiled(column, source).forms)


def groups_of(column: Column, source: FieldSource, runs: PageRuns) -> list[_Group]:
    """The pages that some runs touch, in groups of one form."""
    known = _compiled(column, source)
    numbers = runs.pages if known.ranks is None else known.ranks[runs.pages]
    if len(known.forms) == 1:
        return [_Group(known.forms[0].pages, PageRuns(numbers, runs.starts, runs.counts), known.last_buffer)]
    groups = []
    for form in known.forms:
        low, high = np.searchsorted(numbers, (form.first, form.stop)).tolist()
        if low < high:
            part = PageRuns(numbers[low:high] - form.first, runs.starts[low:high], runs.counts[low:high])
            groups.append(_Group(form.pages, part, known.last_buffer[form.first : form.stop]))
    return groups


def runs_of_rows(column: Column, rows: Rows) -> PageRuns:
    """The rows as runs in the column's pages; must not be written to."""
    if not rows.is_all(column.num_rows):
        return runs_within(column.row_starts, rows.starts, rows.stops)
    known: PageRuns | None = column.compiled.get("all rows")
    if known is None:
        known = column.compiled["all rows"] = whole_runs(np.diff(column.row_starts))
    return known


def read_pages(
    column: Column, shape: Spec, source: FieldSource, runs: PageRuns, in_pieces: bool
) -> Read[Block]:
    """Decode runs of a column's pages."""
    reads = [_read_group(group, shape, in_pieces) for group in groups_of(column, source, runs)]
    return reads[0] if len(reads) == 1 else _joined(reads)


def _joined(reads: Sequence[Read[Block]]) -> Read[Block]:
    return joined((yield from gather(reads)))


def _read_group(group: _Group, shape: Spec, in_pieces: bool) -> Read[Block]:
    read = group.pages.read(shape, group.runs, in_pieces)
    if not isinstance(shape, (VarBinary, DictionaryOf)) or not group.is_whole:
        return read
    # The decoder may need a second round for these bytes, but whole pages are certain to be read.
    pages, buffers = group.pages, group.buffers
    return prefetched(read, Ranges(pages.file, pages.positions[buffers], pages.sizes[buffers]))
