"""Columns of 0.1 files: the Reads that decode their pages.

A page holds only values; their layout follows from the field's type::

    plain         v0 v1 v2 ...                  little-endian, booleans packed, fixed-size lists flattened
    var-binary    bytes of all values | p0 p1 ... pn        the page starts at p0; absolute int64 positions
    list          o0 o1 ... on                  relative to the child's page of the same batch
    dictionary    codes, as plain               the values are elsewhere
    struct, null  nothing

Pages of a column, or the selected parts of them, are arrays with an entry per run, and one kernel call per buffer
decodes them. Source: file sheet 0.1, sections 3 and 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.blocks.memory import allocate
from lancecy.encodings.codecs import flat
from lancecy.encodings.model.block import AllNull, Block, Coded, FixedWidth, Listed, Structured, VariableWidth
from lancecy.encodings.model.ledger import ByteLedger
from lancecy.encodings.model.spec import (
    DictionaryOf,
    FixedListOf,
    ListOf,
    Plain,
    Spec,
    StructOf,
    VarBinary,
    flat_bits,
)
from lancecy.errors import FormatError
from lancecy.limits import check_offsets
from lancecy.records import dataclass
from lancecy.rows import PageRuns
from lancecy.store.base import Memory
from lancecy.store.reads import Ranges, Read, SourceFile, Span, gather, value_read

__all__ = ["ColumnPages", "ColumnSource", "RequestedRows", "read_column"]

Int64 = NDArray[np.int64]

_MOST_AHEAD = 4 << 20
"""Most bytes of offsets within lists that are read before it is known which of them are needed."""


# -- sources of a column ------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class ColumnPages:
    """The pages of one column, checked to lie within the file.

    Attributes
    ----------
    positions : (num_pages,) int64, bytes
    lengths : (num_pages,) int64
        Values that may be read of each page: rows, or child elements below a list. (For lists this is the
        number of lists, one less than the number of offsets that is stored.)
    """

    positions: Int64
    lengths: Int64


@dataclass(frozen=True, slots=True, eq=False)
class ColumnSource:
    """Pages and bytes of the columns of one file.

    Attributes
    ----------
    file : SourceFile
    pages : mapping of column id to ColumnPages
        Structs below a list have an entry too: their length is their children's.
    dictionary : function of a column id, giving a Read of the dictionary's values
    ledger : ByteLedger
        Shared by all sources of one file, so that its columns cannot claim the same bytes.
    """

    file: SourceFile
    pages: Mapping[int, ColumnPages]
    dictionary: Callable[[int], Read[Block]]
    ledger: ByteLedger = field(default_factory=ByteLedger)


# -- reading ------------------------------------------------------------------------


def read_column(
    spec: Spec, column_id: int, source: ColumnSource, runs: PageRuns, *, in_pieces: bool = False
) -> Read[Block]:
    """Decode the selected runs of one column and everything below it.

    Parameters
    ----------
    spec : Spec
        From ``spec_of``.
    column_id : int
        Key into ``source.pages``.
    source : ColumnSource
    runs : PageRuns
        Runs within the pages' lengths, none of them empty, ascending and disjoint.
    in_pieces : bool
        Large plain pages of a memory map may come back as views, as a ``Pieces`` block.

    Returns
    -------
    Read of Block
        One round of ranges for plain columns, two for strings and lists: offsets within lists are read with those of
        the outermost one. If they take more than ``_MOST_AHEAD``, one more per level of nesting.

    Raises
    ------
    FormatError
        Offsets or codes are out of bounds, or values overlap; TruncatedError if bytes are missing.
    LimitError
        More bytes or elements than 32-bit offsets can count.
    """
    return _read(spec, column_id, source, runs, RequestedRows(runs), in_pieces=in_pieces)


def _read(
    spec: Spec,
    column_id: int,
    source: ColumnSource,
    runs: PageRuns,
    asked: RequestedRows,
    *,
    in_pieces: bool = False,
) -> Read[Block]:
    if runs.counts.size == 0:
        return _empty(spec, column_id, source)
    if isinstance(spec, (Plain, FixedListOf)):
        return flat.read_flat(spec, source.file, source.pages[column_id].positions, runs, in_pieces)
    if isinstance(spec, VarBinary):
        return _read_var_binary(spec, column_id, source, runs, asked)
    if isinstance(spec, ListOf):
        return _read_list(spec, column_id, source, runs, asked)
    if isinstance(spec, StructOf):
        return _read_struct(spec, source, runs, asked)
    if isinstance(spec, DictionaryOf):
        return _read_dictionary(spec, column_id, source, runs)
    return value_read(AllNull(runs.num_rows))


def _read_var_binary(
    spec: VarBinary, column_id: int, source: ColumnSource, runs: PageRuns, asked: RequestedRows
) -> Read[Block]:
    num_rows, file = runs.num_rows, source.file
    span = yield from _read_offsets(column_id, 8, source, runs, asked)
    offsets_buffer, offsets = allocate((num_rows + 1) * spec.offset_width)
    validity_buffer, validity = allocate((num_rows + 7) // 8)
    value_starts, value_lengths = np.empty((2, runs.counts.size), np.int64)
    arguments = (span.memory, span.positions, runs.counts, file.size, spec.nullable)
    outputs = (validity, value_starts, value_lengths)
    try:
        total, null_count = kernels.varwidth_offsets(
            *arguments, offsets.view(f"<i{spec.offset_width}"), *outputs
        )
    except FormatError:
        if spec.offset_width == 4:
            _refuse_large(kernels.varwidth_offsets, arguments, outputs, num_rows, "bytes of strings")
        raise
    source.ledger.charge(column_id, "values", total, file.size)
    values: object = b""
    if total:
        (span,) = yield [Ranges(file, value_starts, value_lengths)]
        values = flat.copy_or_view(span, file, value_lengths, total)
    nulls = validity_buffer if null_count else None
    return VariableWidth(num_rows, spec.offset_width, offsets_buffer, values, nulls, null_count)


def _refuse_large(
    kernel: Callable[..., tuple[int, int] | int],
    arguments: tuple[Any, ...],
    outputs: tuple[Any, ...],
    num_rows: int,
    what: str,
) -> None:
    """Raise LimitError where 32-bit offsets failed but 64-bit ones would have sufficed."""
    counted = kernel(*arguments, np.empty(num_rows + 1, np.int64), *outputs)
    check_offsets(counted[0] if isinstance(counted, tuple) else counted, what)


def _read_list(
    spec: ListOf, column_id: int, source: ColumnSource, runs: PageRuns, asked: RequestedRows
) -> Read[Block]:
    num_rows, width = runs.num_rows, spec.offset_width
    if column_id in asked.ahead:
        span = yield from _read_offsets(column_id, width, source, runs, asked)
    else:
        span = yield from _read_outermost(spec, column_id, source, runs, asked)
    offsets_buffer, offsets = allocate((num_rows + 1) * width)
    child_starts, child_counts = np.empty((2, runs.counts.size), np.int64)
    child_lengths = source.pages[spec.child_id].lengths[runs.pages]
    arguments = (span.memory, span.positions, runs.counts, width, child_lengths)
    outputs = (child_starts, child_counts)
    try:
        total = kernels.list_offsets(*arguments, offsets.view(f"<i{width}"), *outputs)
    except FormatError:
        if width == 4:
            _refuse_large(kernels.list_offsets, arguments, outputs, num_rows, "list elements")
        raise
    _check_elements(total, child_lengths, runs)
    keep = np.flatnonzero(child_counts)
    child_runs = PageRuns(runs.pages[keep], child_starts[keep], child_counts[keep])
    child = yield from _read(spec.child, spec.child_id, source, child_runs, asked)
    # Equal offsets are an empty list in this version, never a null (file sheet 0.1, 4.5).
    return Listed(num_rows, width, offsets_buffer, child)


def _read_offsets(
    column_id: int, width: int, source: ColumnSource, runs: PageRuns, asked: RequestedRows
) -> Read[Span]:
    """The offsets of some runs, one more than the run has values."""
    held = asked.ahead.get(column_id)
    if held is not None:
        return Span(
            held.memory, held.positions[np.searchsorted(asked.pages, runs.pages)] + runs.starts * width
        )
    starts = source.pages[column_id].positions[runs.pages] + runs.starts * width
    (span,) = yield [Ranges(source.file, starts, (runs.counts + 1) * width)]
    return span


def _read_outermost(
    spec: ListOf, column_id: int, source: ColumnSource, runs: PageRuns, asked: RequestedRows
) -> Read[Span]:
    """The offsets of the outermost lists, and of all that is within the same pages."""
    inner, ranges = list(_offset_columns(spec.child, spec.child_id)), []
    asked.ahead.update((number, None) for number, _ in inner)
    for number, width in () if source.file.store.traits.is_mapped else inner:
        pages = source.pages[number]
        lengths = (pages.lengths[asked.pages] + 1) * width
        ranges.append(Ranges(source.file, pages.positions[asked.pages], lengths))
    if not ranges or sum(int(part.lengths.sum()) for part in ranges) > _MOST_AHEAD:
        return (yield from _read_offsets(column_id, spec.offset_width, source, runs, asked))
    starts = source.pages[column_id].positions[runs.pages] + runs.starts * spec.offset_width
    own = Ranges(source.file, starts, (runs.counts + 1) * spec.offset_width)
    span, *spans = yield [own, *ranges]
    asked.ahead.update((number, held) for (number, _), held in zip(inner, spans, strict=True))
    return span


def _offset_columns(spec: Spec, column_id: int) -> Iterator[tuple[int, int]]:
    """The columns at and below a node that have offsets, and the bytes of an offset."""
    if isinstance(spec, VarBinary):
        yield column_id, 8
    elif isinstance(spec, ListOf):
        yield column_id, spec.offset_width
        yield from _offset_columns(spec.child, spec.child_id)
    elif isinstance(spec, StructOf):
        for number, child in spec.children.items():
            yield from _offset_columns(child, number)


def _read_struct(spec: StructOf, source: ColumnSource, runs: PageRuns, asked: RequestedRows) -> Read[Block]:
    reads = [_read(child, column_id, source, runs, asked) for column_id, child in spec.children.items()]
    blocks = yield from gather(reads)
    return Structured(runs.num_rows, dict(zip(spec.children, blocks, strict=True)))


def _read_dictionary(spec: DictionaryOf, column_id: int, source: ColumnSource, runs: PageRuns) -> Read[Block]:
    positions = source.pages[column_id].positions
    codes, values = yield from gather(
        [flat.read_flat(spec.codes, source.file, positions, runs, False), source.dictionary(column_id)]
    )
    return _coded(spec, codes, values)


def _coded(spec: DictionaryOf, codes: Block, values: Block) -> Coded:
    if not isinstance(codes, FixedWidth) or not isinstance(values, (FixedWidth, VariableWidth)):
        raise TypeError("dictionary codes and values are flat blocks")
    kind = f"<{'i' if spec.codes.signed else 'u'}{spec.codes.bits // 8}"
    numbers = np.frombuffer(codes.values, kind)  # type: ignore[call-overload]
    try:
        kernels.check_codes(numbers, values.length)
    except FormatError:
        # pandas has code -1 for nulls of a categorical. pylance stores it unchanged but cannot read it. Any other
        # code without a value is damage.
        outside = numbers[(numbers < 0) | (numbers >= values.length)]
        if not (spec.nullable and spec.codes.signed and (outside == -1).all()):
            raise
        codes = _with_nulls(codes, numbers, values.length)
    return Coded(codes.length, codes, values)


def _with_nulls(codes: FixedWidth, numbers: NDArray[Any], num_values: int) -> FixedWidth:
    """The codes, with a null for each code without a value."""
    buffer, validity = allocate(-(-codes.length // 8))
    null_count = kernels.check_codes(numbers, num_values, validity)
    return replace(codes, validity=buffer, null_count=null_count)


def _empty(spec: Spec, column_id: int, source: ColumnSource) -> Read[Block]:
    """A block of no rows; requests no bytes."""
    if isinstance(spec, VarBinary):
        return VariableWidth(0, spec.offset_width, _zero_offset(spec.offset_width), b"")
    if isinstance(spec, ListOf):
        child = yield from _empty(spec.child, spec.child_id, source)
        return Listed(0, spec.offset_width, _zero_offset(spec.offset_width), child)
    if isinstance(spec, StructOf):
        blocks = yield from gather([_empty(child, key, source) for key, child in spec.children.items()])
        return Structured(0, dict(zip(spec.children, blocks, strict=True)))
    if isinstance(spec, DictionaryOf):
        values = yield from source.dictionary(column_id)
        return Coded(0, FixedWidth(0, spec.codes.bits, b""), values)
    if isinstance(spec, (Plain, FixedListOf)):
        return flat.nested(spec, FixedWidth(0, flat_bits(spec), b""))
    return AllNull(0)


def _zero_offset(width: int) -> Memory:
    return np.zeros(width, np.uint8)


# -- lists that overlap ---------------------------------------------------------------


@dataclass(eq=False)
class RequestedRows:
    """The requested rows of the outermost list, or of a column outside of lists.

    Attributes
    ----------
    runs : PageRuns
    ahead : dict of column id to Span or None
        Columns within lists, and their offsets in all of ``pages`` if they were read with those of the outermost list.
    """

    runs: PageRuns
    ahead: dict[int, Span | None] = field(default_factory=dict)

    @cached_property
    def pages(self) -> Int64:
        """(num_pages,) int64: the pages of the runs, ascending."""
        return np.unique(self.runs.pages)


def _check_elements(total: int, child_lengths: Int64, runs: PageRuns) -> None:
    """Raise FormatError if lists have more elements than their pages, because then lists share elements.

    Parameters
    ----------
    total : int
        Elements of all selected lists.
    child_lengths : (num_runs,) int64
        Elements of the child page that each run points into.
    runs : PageRuns
        The selected lists.

    Raises
    ------
    FormatError
        More elements than the distinct pages hold.
    """
    if total <= int(child_lengths.min(initial=0)):
        return
    _, first = np.unique(runs.pages, return_index=True)
    stored = int(child_lengths[first].sum())
    if total > stored:
        raise FormatError(f"lists of {total} elements in pages of {stored}: lists overlap")
