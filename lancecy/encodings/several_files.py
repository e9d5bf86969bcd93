"""A column in several files, decoded as one column.

The decoders take the pages of one file as arrays. Here the pages of several files follow each other in the same arrays,
with the number of the file in the upper bits of each position, and what is requested is copied from the files into one
memory. So rows of many files cost the steps of one file. Small columns are copied whole, once, and kept
(:func:`kept_columns`); of large ones only what the decoders request, each time (:func:`copied`). Nothing larger is worth
the copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, islice, pairwise
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.blocks.memory import uninitialized
from lancecy.encodings.model.chunks import row_ranges, starts_of
from lancecy.encodings.model.layouts import BlobPage, PageSpec, is_structural
from lancecy.encodings.model.pages import Column, PageMemory
from lancecy.encodings.model.spec import StructHeader
from lancecy.encodings.v20.lists import element_starts, is_old_string
from lancecy.encodings.v20.pages import KeptFiles, SeveralFiles
from lancecy.encodings.v20.read import is_packed
from lancecy.errors import FormatError
from lancecy.records import dataclass
from lancecy.rows import RowSelection
from lancecy.schema import Field
from lancecy.store.base import Memory, Store
from lancecy.store.cache import ByteCache
from lancecy.store.reads import Ranges, Read, SourceFile, Span

__all__ = [
    "KeptColumns",
    "begins_of",
    "copied",
    "is_apart",
    "joined_column",
    "kept_columns",
    "may_be_joined",
    "rows_of_all",
    "stand_in",
]

Int64 = NDArray[np.int64]
T = TypeVar("T")

_FILE_BITS = 42
"""Bits of a position within its file."""
_WITHIN = (1 << _FILE_BITS) - 1


def is_apart(field: Field, columns: Mapping[int, Column]) -> bool:
    """Whether a field is read file by file: it has blobs or old strings, or in 2.0 columns of more rows than the field.

    Parameters
    ----------
    field : Field
        In the form for decoders.
    columns : mapping of field id to Column
        Those of one file.
    """
    if any(column.is_blob or column.num_pages == 0 for column in columns.values()):
        return True
    kinds = {type(spec): spec for column in columns.values() for spec in column.specs}
    if all(is_structural(spec) for spec in kinds.values()):
        return BlobPage in kinds
    column = columns.get(field.id)
    return column is None or _has_other_rows(field, columns, column.num_rows)


def _has_other_rows(field: Field, columns: Mapping[int, Column], num_rows: int) -> bool:
    """Whether a column is of another kind, or has other rows than the field above it says."""
    column = columns.get(field.id)
    if column is None or column.num_rows != num_rows:
        return True
    if field.is_list:
        elements = int(element_starts(column)[-1])
        return any(_has_other_rows(child, columns, elements) for child in field.children)
    if field.is_struct:
        below = () if is_packed(column) else field.children
        return any(_has_other_rows(child, columns, num_rows) for child in below)
    return is_old_string(column, field)


def joined_column(
    index: int,
    lengths: Int64,
    specs: tuple[PageSpec, ...],
    num_buffers: Int64,
    places: Int64,
    sizes: Int64,
    files: Int64,
) -> Column | None:
    """A column of several files as one column, one file after the other.

    Parameters
    ----------
    index : int
        Number of the column in the first file.
    lengths : (num_pages,) int64
        Values of each page.
    specs : tuple of PageSpec, one per page
    num_buffers : (num_pages,) int64
        Buffers of each page.
    places, sizes : (num_buffers,) int64, bytes
        Position of each buffer in its file, and size.
    files : (num_buffers,) int64
        Number of the file of each buffer.

    Returns
    -------
    Column or None
        None: some pages are headers of structs, others are not.
    """
    rows = starts_of(lengths)
    headers = {isinstance(spec, StructHeader) for spec in {type(spec): spec for spec in specs}.values()}
    if True in headers:
        # A struct has one page, without bytes.
        if len(headers) > 1 or places.size:
            return None
        return Column(index, False, rows[[0, -1]], specs[:1], np.zeros(2, np.int64), places, sizes, 0)
    positions = places + (files << _FILE_BITS)
    return Column(index, False, rows, specs, starts_of(num_buffers), positions, sizes, int(sizes.sum()))


def begins_of(num_files: int) -> list[int]:
    """Where each of several files begins among the positions of joined columns."""
    return [number << _FILE_BITS for number in range(num_files)]


def may_be_joined(files: Sequence[SourceFile]) -> bool:
    """Whether positions in these files can be told apart."""
    return max(file.size for file in files) <= _WITHIN


@dataclass(frozen=True, slots=True, eq=False)
class KeptColumns:
    """Columns of several files with all their bytes.

    Attributes
    ----------
    columns : mapping of field id to Column
        Their positions are in ``memory``.
    memory : (nbytes,) uint8, read-only
    maps : dict of int to (nbytes,) uint8
        The maps from which bytes were copied, by the number of the file.
    """

    columns: Mapping[int, Column]
    memory: Memory
    maps: dict[int, Memory]


def kept_columns(
    fields: Sequence[Mapping[int, Column]], files: Sequence[SourceFile], cache: ByteCache
) -> Read[list[KeptColumns]]:
    """Read all bytes of joined columns, in one round.

    Parameters
    ----------
    fields : sequence of mapping of field id to Column
        From :func:`joined_column`; not many bytes. Each has a memory of its own.
    files : sequence of SourceFile
    cache : ByteCache
        For decoded parts of their pages.
    """
    file, owner = stand_in(files), object()
    parts = [(number, column, _by_buffer(column)) for columns in fields for number, column in columns.items()]
    wanted = [Ranges(file, column.positions[order], column.sizes[order]) for _, column, order in parts]
    maps: dict[int, Memory] = {}
    spans = iter((yield from _round(wanted, files, maps)))
    kept, start, remaining = [], 0, iter(parts)
    for columns in fields:
        found, stop = {}, start + sum(int(_padded(column.sizes).sum()) for column in columns.values())
        for number, column, order in islice(remaining, len(columns)):
            span = next(spans)
            positions = np.empty_like(span.positions)
            positions[order] = span.positions - start
            memory = PageMemory(cache, ("page", owner, number))
            found[number] = replace(column, positions=positions, memory=memory)
        own = span.memory
        if len(fields) > 1:
            # A copy, so that a field keeps no bytes of others.
            own = uninitialized(stop - start, np.uint8)
            own[:] = span.memory[start:stop]
        own.flags.writeable = False
        kept.append(KeptColumns(found, own, maps))
        start = stop
    return kept


def _by_buffer(column: Column) -> Int64:
    """Buffers in the order of their number in the page, then of the page: values of pages then touch."""
    first = column.first_buffer
    numbers = np.arange(column.sizes.size) - np.repeat(first[:-1], np.diff(first))
    return np.argsort(numbers, kind="stable")


def stand_in(files: Sequence[SourceFile], memory: Memory | None = None) -> SourceFile:
    """The file of joined columns, which stands for several; or for the memory with their bytes."""
    store = SeveralFiles() if memory is None else KeptFiles()
    size = sum(file.size for file in files) if memory is None else memory.size
    return SourceFile(cast(Store, store), "several files", size)


def rows_of_all(selections: Sequence[RowSelection]) -> RowSelection:
    """One selection over the rows of all files; each is ascending, without duplicates."""
    num_rows = sum(rows.num_rows for rows in selections)
    if all(rows.is_all for rows in selections):
        return RowSelection.all(num_rows)
    pairs = list(zip(selections, accumulate((rows.num_rows for rows in selections), initial=0), strict=False))
    if all(rows.indices is not None for rows in selections):
        found = [rows.indices + first for rows, first in pairs if rows.indices is not None]
        return RowSelection(num_rows, indices=np.concatenate(found))
    bounds = [[edges + first for edges in row_ranges(rows)] for rows, first in pairs]
    starts, stops = (np.concatenate(edges) for edges in zip(*bounds, strict=True))
    return RowSelection(num_rows, starts, stops)


def copied(read: Read[T], files: Sequence[SourceFile]) -> Read[T]:
    """A Read whose requests, with positions in several files, are copied into one memory each round."""
    try:
        wanted = next(read)
        while True:
            wanted = read.send((yield from _round(wanted, files)))
    except StopIteration as stop:
        value: T = stop.value
        return value


def _padded(lengths: Int64) -> Int64:
    """Lengths of buffers with the bytes up to the next one."""
    return (lengths + 7) & ~7


def _round(
    wanted: Sequence[Ranges], files: Sequence[SourceFile], maps: dict[int, Memory] | None = None
) -> Read[list[Span]]:
    """Copy ranges of several files into one memory; those files that are mapped are added to ``maps``."""
    positions = np.concatenate([request.positions for request in wanted])
    lengths = np.concatenate([request.lengths for request in wanted])
    numbers = positions >> _FILE_BITS
    if lengths.size and (
        int(lengths.min()) < 0 or int(numbers.min()) < 0 or int(numbers.max()) >= len(files)
    ):
        raise FormatError("ranges are in none of the files")
    # Aligned to words, as buffers in files are.
    ends = np.cumsum(_padded(lengths))
    places = np.zeros_like(ends)
    places[1:] = ends[:-1]
    order = np.argsort(numbers, kind="stable")
    edges = np.searchsorted(numbers, np.arange(len(files) + 1), sorter=order).tolist()
    by_file = [column[order] for column in (positions & _WITHIN, lengths, places)]
    used, requests, targets = [], [], []
    for number, (start, stop) in enumerate(pairwise(edges)):
        if start < stop:
            at_source, sizes, at_target = (column[start:stop] for column in by_file)
            used.append(number)
            requests.append(Ranges(files[number], at_source, sizes))
            targets.append(at_target)
    spans = yield requests
    memory = uninitialized(int(ends[-1]) if ends.size else 0, np.uint8)
    for span, request, target in zip(spans, requests, targets, strict=True):
        kernels.place_spans(span.memory, span.positions, request.lengths, memory, target)
    if maps is not None:
        pairs = zip(used, spans, strict=True)
        maps.update({n: span.memory for n, span in pairs if files[n].store.traits.is_mapped})
    found, at = [], 0
    for request in wanted:
        found.append(Span(memory, places[at : at + request.positions.size]))
        at += request.positions.size
    return found
