"""Small parts of a 2.0 column in several files, decoded as one column.

The decoders take the pages of one file as arrays. Here the pages of several files follow each other in the same arrays,
with the number of the file in the upper bits of each position; what the decoders request is copied from the files into
one memory. So a few rows of many files cost the steps of one file. Nothing larger is worth the copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.model.block import Block
from lancecy.encodings.model.chunks import row_ranges, starts_of
from lancecy.encodings.model.pages import Column
from lancecy.encodings.model.spec import StructHeader
from lancecy.encodings.v20.lists import element_starts, is_old_string
from lancecy.encodings.v20.pages import SeveralFiles
from lancecy.encodings.v20.read import is_packed, read_field
from lancecy.errors import FormatError
from lancecy.limits import Limits
from lancecy.rows import RowSelection
from lancecy.schema import Field
from lancecy.store.base import Store
from lancecy.store.reads import Ranges, Read, SourceFile, Span

__all__ = ["JoinedColumns", "joined_columns", "read_joined"]

Int64 = NDArray[np.int64]
T = TypeVar("T")

_FILE_BITS = 42
"""Bits of a position within its file."""
_WITHIN = (1 << _FILE_BITS) - 1


@dataclass(frozen=True, slots=True, eq=False)
class JoinedColumns:
    """The columns of a field, each with the pages of several files.

    Attributes
    ----------
    field : Field
    columns : mapping of field id to Column
    num_rows : int
        Of all files.
    """

    field: Field
    columns: Mapping[int, Column]
    num_rows: int


def joined_columns(
    field: Field, several: Sequence[Mapping[int, Column]], files: Sequence[SourceFile]
) -> JoinedColumns | None:
    """Join the columns of a field in several files.

    Parameters
    ----------
    field : Field
    several : sequence of mapping of field id to Column
        One for each file.
    files : sequence of SourceFile

    Returns
    -------
    JoinedColumns or None
        None: the field is read file by file. It has blobs or old strings, or columns of more rows than the field.
    """
    if max(file.size for file in files) > _WITHIN or any(_is_apart(field, columns) for columns in several):
        return None
    joined = {number: _joined([columns[number] for columns in several]) for number in several[0]}
    columns = {number: column for number, column in joined.items() if column is not None}
    if len(columns) < len(joined):
        return None
    return JoinedColumns(field, columns, columns[field.id].num_rows)


def _is_apart(field: Field, columns: Mapping[int, Column]) -> bool:
    column = columns.get(field.id)
    return column is None or _has_other_rows(field, columns, column.num_rows)


def _has_other_rows(field: Field, columns: Mapping[int, Column], num_rows: int) -> bool:
    """Whether a column is of another kind, or has other rows than the field above it says."""
    column = columns.get(field.id)
    if column is None or column.num_rows != num_rows or column.num_pages == 0 or column.is_blob:
        return True
    if field.is_list:
        elements = int(element_starts(column)[-1])
        return any(_has_other_rows(child, columns, elements) for child in field.children)
    if field.is_struct:
        below = () if is_packed(column) else field.children
        return any(_has_other_rows(child, columns, num_rows) for child in below)
    return is_old_string(column, field)


def _joined(columns: Sequence[Column]) -> Column | None:
    first = columns[0]
    num_rows = sum(column.num_rows for column in columns)
    none = np.empty(0, np.int64)
    headers = [isinstance(spec, StructHeader) for column in columns for spec in column.specs]
    if any(headers):
        # A struct has one page, without bytes.
        if not all(headers) or len(headers) != len(columns):
            return None
        edges = np.array([0, num_rows]), first.specs, np.zeros(2, np.int64)
        return Column(first.index, False, *edges, none, none)
    positions = [column.positions + (number << _FILE_BITS) for number, column in enumerate(columns)]
    rows = starts_of(np.concatenate([np.diff(column.row_starts) for column in columns]))
    buffers = starts_of(np.concatenate([np.diff(column.first_buffer) for column in columns]))
    specs = tuple(spec for column in columns for spec in column.specs)
    sizes = np.concatenate([column.sizes for column in columns])
    return Column(first.index, False, rows, specs, buffers, np.concatenate(positions), sizes)


def read_joined(
    joined: JoinedColumns,
    files: Sequence[SourceFile],
    selections: Sequence[RowSelection],
    limits: Limits,
) -> Read[Block]:
    """Decode rows of a field in several files.

    Parameters
    ----------
    joined : JoinedColumns
    files : sequence of SourceFile
        Those of the columns.
    selections : sequence of RowSelection
        Rows of each file, ascending, without duplicates; at least one row of each.
    limits : Limits

    Raises
    ------
    FormatError, LimitError, UnsupportedError
        As for ``read_field``; the message names no file. Also where files have different dictionaries.
    """
    file = SourceFile(cast(Store, SeveralFiles()), "several files", sum(file.size for file in files))
    rows = _rows_of_all(selections, joined.num_rows)
    return _copied(read_field(joined.field, joined.columns, _none_after, file, rows, limits), files)


def _none_after(_: Column) -> None:
    """Old strings, which have two columns, are read file by file."""


def _rows_of_all(selections: Sequence[RowSelection], num_rows: int) -> RowSelection:
    """One selection over the rows of all files."""
    firsts = starts_of(np.array([rows.num_rows for rows in selections], np.int64))
    if firsts[-1] != num_rows:
        raise FormatError(f"columns of {num_rows} rows in files of {int(firsts[-1])}")
    pairs = list(zip(selections, firsts.tolist(), strict=False))
    if all(rows.indices is not None for rows in selections):
        found = [rows.indices + first for rows, first in pairs if rows.indices is not None]
        return RowSelection(num_rows, indices=np.concatenate(found))
    bounds = [[edges + first for edges in row_ranges(rows)] for rows, first in pairs]
    starts, stops = (np.concatenate(edges) for edges in zip(*bounds, strict=True))
    return RowSelection(num_rows, starts, stops)


def _copied(read: Read[T], files: Sequence[SourceFile]) -> Read[T]:
    """A Read whose requests, with positions in several files, are copied into one memory each round."""
    try:
        wanted = next(read)
        while True:
            wanted = read.send((yield from _round(wanted, files)))
    except StopIteration as stop:
        value: T = stop.value
        return value


def _round(wanted: Sequence[Ranges], files: Sequence[SourceFile]) -> Read[list[Span]]:
    positions = np.concatenate([request.positions for request in wanted])
    lengths = np.concatenate([request.lengths for request in wanted])
    numbers = positions >> _FILE_BITS
    if lengths.size and (
        int(lengths.min()) < 0 or int(numbers.min()) < 0 or int(numbers.max()) >= len(files)
    ):
        raise FormatError("ranges are in none of the files")
    # Aligned to words, as buffers in files are.
    ends = np.cumsum((lengths + 7) & ~7)
    places = np.zeros_like(ends)
    places[1:] = ends[:-1]
    chosen = [np.flatnonzero(numbers == number) for number in range(len(files))]
    used = [(file, mine) for file, mine in zip(files, chosen, strict=True) if mine.size]
    requests = [Ranges(file, positions[mine] & _WITHIN, lengths[mine]) for file, mine in used]
    spans = yield requests
    memory = np.empty(int(ends[-1]) if ends.size else 0, np.uint8)
    for span, request, (_, mine) in zip(spans, requests, used, strict=True):
        kernels.place_spans(span.memory, span.positions, request.lengths, memory, places[mine])
    found, at = [], 0
    for request in wanted:
        found.append(Span(memory, places[at : at + request.positions.size]))
        at += request.positions.size
    return found
