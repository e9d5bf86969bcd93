"""Pages as a file stores them, to be copied to another file of the same version without decoding.

A page is its buffers and the bytes that describe their encoding. Neither names a place in the file, so a copy only
changes the positions of the buffers and the first row. Exceptions are refused: pages of blobs name positions in
their file, buffers of a whole column belong to no page, and in packed structs the members are those of their file.
Dictionaries of pages differ, and a writer bounds their values together.

Source: file sheet 2.0, sections 2 and 3; file sheet 2.1, section 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from lancecy.encodings.model.layouts import BlobPage, PageSpec
from lancecy.encodings.model.spec import EndedList, StructHeader
from lancecy.errors import FormatError, UnsupportedError, printable
from lancecy.file.v2.fields import fields_with_column
from lancecy.file.v2.wire import ColumnMessage
from lancecy.records import dataclass
from lancecy.schema import Field
from lancecy.store.base import Memory
from lancecy.store.reads import Fetch, Ranges, SourceFile

__all__ = ["CopiedRows", "StoredColumn", "StoredPage", "check_copyable", "check_stored"]


@dataclass(frozen=True, slots=True, eq=False)
class StoredColumn:
    """The pages of one column of a file.

    Attributes
    ----------
    field_id : int
        The field whose column it is.
    source : SourceFile
    message : ColumnMessage
        Checked: its buffers lie in the file, and its encodings are known.
    has_dictionaries : bool
        Whether pages have dictionaries, each its own.
    """

    field_id: int
    source: SourceFile
    message: ColumnMessage
    has_dictionaries: bool = False

    @property
    def num_pages(self) -> int:
        """Number of pages."""
        return int(self.message.lengths.size)

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers."""
        return self.message.nbytes


@dataclass(frozen=True, slots=True, eq=False)
class StoredPage:
    """One page, read.

    Attributes
    ----------
    field_id : int
    encoding : bytes
        As stored.
    buffers : list of (nbytes,) uint8
    length : int
        Values.
    first_row : int
        Row of its file.
    """

    field_id: int
    encoding: bytes
    buffers: list[Memory]
    length: int
    first_row: int


@dataclass(frozen=True, slots=True, eq=False)
class CopiedRows:
    """Rows whose pages can be copied to another file.

    Attributes
    ----------
    num_rows : int
    columns : tuple of StoredColumn
        Every column of the schema, of one file or several.
    fetch : Fetch
    read_bytes : int, bytes
        Pages are read until they have so many bytes, or one page more.
    """

    num_rows: int
    columns: tuple[StoredColumn, ...]
    fetch: Fetch
    read_bytes: int

    @property
    def nbytes(self) -> int:
        """Bytes of all pages."""
        return sum(column.nbytes for column in self.columns)

    @property
    def num_pages(self) -> int:
        """Pages of the column with the most of them."""
        return max((column.num_pages for column in self.columns), default=0)

    def pages(self) -> Iterator[StoredPage]:
        """Yield all pages, column by column, in the order of their rows.

        Raises
        ------
        StoreError
            The storage failed.
        """
        waiting: list[tuple[StoredColumn, int, int]] = []
        nbytes = 0
        for column in self.columns:
            edges = column.message.first_buffer.tolist()
            for page, (first, stop) in enumerate(pairwise(edges)):
                waiting.append((column, page, first))
                nbytes += int(column.message.sizes[first:stop].sum())
                if nbytes >= self.read_bytes:
                    yield from self._read(waiting)
                    waiting, nbytes = [], 0
        yield from self._read(waiting)

    def _read(self, wanted: Sequence[tuple[StoredColumn, int, int]]) -> Iterator[StoredPage]:
        """Read the buffers of some pages in one round, one request list per file."""
        files = {id(column.source): column.source for column, _, _ in wanted}
        places: dict[int, tuple[list[int], list[int]]] = {key: ([], []) for key in files}
        for column, page, first in wanted:
            positions, sizes = places[id(column.source)]
            stop = int(column.message.first_buffer[page + 1])
            positions.extend(column.message.positions[first:stop].tolist())
            sizes.extend(column.message.sizes[first:stop].tolist())
        ranges = [
            Ranges(files[key], np.array(positions, np.int64), np.array(sizes, np.int64))
            for key, (positions, sizes) in places.items()
        ]
        spans = dict(zip(files, self.fetch(ranges) if ranges else [], strict=True))
        taken = dict.fromkeys(files, 0)
        for column, page, first in wanted:
            key, message = id(column.source), column.message
            count, at = int(message.first_buffer[page + 1]) - first, taken[key]
            starts = spans[key].positions[at : at + count].tolist()
            taken[key] = at + count
            sizes = message.sizes[first : first + count].tolist()
            memory = spans[key].memory
            yield StoredPage(
                column.field_id,
                message.encodings[page],
                [memory[start : start + size] for start, size in zip(starts, sizes, strict=True)],
                int(message.lengths[page]),
                int(message.first_rows[page]),
            )


def check_copyable(fields: Sequence[Field]) -> None:
    """Check that pages of these columns mean the same in another file.

    Parameters
    ----------
    fields : sequence of Field
        Top level of the table's schema.

    Raises
    ------
    UnsupportedError
        A column's pages do not.

    Examples
    --------
    >>> check_copyable([Field("a", 0, logical_type="int64")])
    """
    for top in fields:
        for node in top.walk():
            what = _kept_in_its_file(node)
            if what:
                raise _refusal(top, what)


def _kept_in_its_file(node: Field) -> str:
    if node.is_blob:
        return "it has blobs, whose pages name positions in their file"
    if node.is_packed or node.is_fixed_list:
        return "its structs are stored row by row, with the members of their file"
    if node.logical_type.startswith("dict:"):
        return "pages of dictionaries have different values"
    return ""


def check_stored(
    field: Field,
    columns: Sequence[StoredColumn],
    specs: Sequence[Sequence[PageSpec]],
    version: tuple[int, int],
    num_rows: int,
) -> None:
    """Check the columns of one top-level field: their encodings, and their rows.

    Parameters
    ----------
    field : Field
    columns : sequence of StoredColumn
        Of its nodes, in the order of ``fields_with_column``.
    specs : sequence of sequence of PageSpec
        Of the pages of each column.
    version : (major, minor)
    num_rows : int
        Rows of the file.

    Raises
    ------
    UnsupportedError
        The pages cannot be copied.
    FormatError
        The columns contradict each other.
    """
    nodes = list(fields_with_column(field, version))
    for node, column, found in zip(nodes, columns, specs, strict=True):
        if column.message.is_blob or any(isinstance(spec, BlobPage) for spec in found):
            raise _refusal(field, "it has blobs, whose pages name positions in their file")
        if column.message.has_own_buffers:
            raise _refusal(field, "it has buffers outside of its pages")
        if not node.children and any(isinstance(spec, EndedList) for spec in found):
            raise _refusal(field, "its texts are in two columns, as the first releases wrote them")
        if node.is_struct and not all(isinstance(spec, StructHeader) for spec in found):
            raise _refusal(field, "a struct has pages of its own")
    counts = {
        node.id: sum(column.message.lengths.tolist()) for node, column in zip(nodes, columns, strict=True)
    }
    if version > (2, 0):
        if any(count != num_rows for count in counts.values()):
            raise _refusal(field, "its pages do not count rows")
        return
    items = {
        node.id: sum(spec.num_items for spec in found if isinstance(spec, EndedList))
        for node, found in zip(nodes, specs, strict=True)
    }
    _check_counts(field, num_rows, counts, items)


def _check_counts(node: Field, expected: int, counts: dict[int, int], items: dict[int, int]) -> None:
    """Check the values of a node of 2.0 and of all below it, where lists have elements and structs members."""
    if counts[node.id] != expected:
        raise FormatError(
            f"field {printable(node.name)!r} has {counts[node.id]} values, where {expected} are expected"
        )
    inside = expected if node.is_struct else items[node.id]
    for child in node.children:
        _check_counts(child, inside, counts, items)


def _refusal(field: Field, reason: str) -> UnsupportedError:
    return UnsupportedError(
        f"pages of column {printable(field.name)!r} cannot be copied: {reason}", feature="copy of pages"
    )
