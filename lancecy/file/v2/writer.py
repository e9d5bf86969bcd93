"""Writer of files of version 2.0, 2.1 and 2.2; the version decides how a column is shredded.

Each top-level column is kept until it has about ``page_bytes``, and then becomes a page of every physical column
below it. Columns of a large batch are cut into pages in place.
"""

from __future__ import annotations

import operator
import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import chain
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.encodings.arrow.columns import as_array
from lancecy.encodings.arrow.from_arrow import block_of, narrowed, size_of
from lancecy.encodings.arrow.map_nested import map_nested
from lancecy.encodings.codecs.blobs import BlobPlaces, described_blobs, placed_blobs
from lancecy.encodings.model.pages import EncodedPage
from lancecy.encodings.v20.write import header_page, v20_pages
from lancecy.encodings.v21.write.select_encoding import encode_page
from lancecy.encodings.v21.write.shred import shred
from lancecy.errors import LanceError, LimitError, SchemaError, UnsupportedError, printable
from lancecy.file.base import FileSummary, FileWriteOptions
from lancecy.file.dictionaries import Distinct, has_dictionaries
from lancecy.file.sink import StreamedWriter
from lancecy.file.v2.fields import fields_with_column
from lancecy.file.v2.output import V2Output
from lancecy.file.v2.sidecars import Sidecars
from lancecy.file.v2.stored_pages import CopiedRows
from lancecy.file.writable import check_writable
from lancecy.schema import Field, Schema
from lancecy.store.base import Store
from lancecy.store.pools import submit

__all__ = ["V2Writer"]

Int64 = NDArray[np.int64]

_MANY = 1024
_LEAST_PER_LEAF = 8
"""A page of a column with many leaves may be larger: each leaf gets at least an eighth of a page."""


class V2Writer(StreamedWriter):
    """A ``FileWriter`` of 2.x files.

    Parameters
    ----------
    store : Store
    path : str
    schema : Schema
    version : "2.0", "2.1" or "2.2"
    options : WriteOptions

    Raises
    ------
    UnsupportedError
        The version cannot hold the schema; no file is created.
    StoreError
        The file could not be created.
    """

    def __init__(
        self, store: Store, path: str, schema: Schema, version: str, options: FileWriteOptions
    ) -> None:
        check_writable(schema, version)
        major, minor = (int(part) for part in version.split("."))
        self._version = (major, minor)
        self._path, self._schema = path, schema
        self._metadata = dict(schema.metadata)
        has_codes = any(kind.startswith("dict:") for kind in schema.logical_types)
        self._pending = [
            _Pending(
                field,
                field.scanned if schema.blobs else field,
                has_codes and has_dictionaries((field,)),
                options.page_bytes,
            )
            for field in schema.fields
        ]
        self._nodes = [
            node
            for field in schema.fields
            for node in (fields_with_column(field, self._version) if field.children else (field,))
        ]
        self._numbers = {node.id: number for number, node in enumerate(self._nodes)}
        has_all = self._version == (2, 0)
        structs = (node for node in self._nodes if node.is_struct and not node.is_whole) if has_all else ()
        self._headers = {node.id: 0 for node in structs}
        self._distinct = Distinct()
        self._encoding: deque[tuple[int, Future[list[_Encoded]]]] = deque()
        self._threads: ThreadPoolExecutor | None = None
        self._num_rows = 0
        self._sidecars, self._outside = Sidecars(store, path), options.outside
        super().__init__(store.put_stream(path))
        blobs = (number for number, node in enumerate(self._nodes) if has_all and node.is_blob)
        self._output = V2Output(self._sink, self._version, len(self._nodes), frozenset(blobs))

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows; see ``FileWriter.write``."""
        self._require_open()
        if batch.num_columns != len(self._pending):
            raise SchemaError(
                f"a batch has {batch.num_columns} columns, where the schema has {len(self._pending)}"
            )
        arrays = list(map(narrowed, batch.columns, self._schema.fields))
        if not batch.num_rows:
            return
        has_blobs = bool(self._schema.blobs)
        for pending, array in zip(self._pending, arrays, strict=True):
            if has_blobs:
                array = map_nested(array, pending.field, _is_blob, self._placed)
            for written in pending.add(array):
                self._flush(pending, *written)
        self._num_rows += batch.num_rows

    def copy(self, rows: CopiedRows) -> None:
        """Append rows whose pages are copied as they are; see ``stored_pages``.

        Parameters
        ----------
        rows : CopiedRows
            Of a file of this version, with every column of the schema.

        Raises
        ------
        SchemaError
            A column is missing.
        StoreError
            Bytes could not be read or written.
        """
        self._require_open()
        missing = self._numbers.keys() - {column.field_id for column in rows.columns}
        if missing:
            raise SchemaError(f"pages of field {min(missing)} are missing", difference=str(min(missing)))
        for pending in self._pending:
            for written in pending.rest():
                self._flush(pending, *written)
        self._settle()
        for page in rows.pages():
            if page.field_id not in self._headers:
                self._output.add_stored(self._numbers[page.field_id], page, page.first_row + self._num_rows)
        for pending in self._pending:
            pending.first_row += rows.num_rows
        self._add_header_rows(rows)
        self._num_rows += rows.num_rows

    def _add_header_rows(self, rows: CopiedRows) -> None:
        """Count the rows of the structs of 2.0, whose pages are written last."""
        for column in rows.columns:
            if column.field_id in self._headers:
                self._headers[column.field_id] += int(column.message.lengths.sum())

    def add_global_buffer(self, data: bytes) -> int:
        """Write bytes that belong to no column, and return their number among the global buffers, from 1.

        Raises
        ------
        StoreError
            Bytes could not be written.
        """
        self._require_open()
        return self._output.add_buffer(data)

    def add_schema_metadata(self, key: str, value: str) -> None:
        """Add an entry to the metadata of the schema, which is written by :meth:`finish`."""
        self._require_open()
        self._metadata[key] = value.encode()

    def finish(self) -> FileSummary:
        """Write the remaining rows and publish the file; see ``FileWriter.finish``."""
        self._require_open()
        with self._given_up_on_error():
            for pending in self._pending:
                for written in pending.rest():
                    self._flush(pending, *written)
            self._settle()
            for field_id, num_rows in self._headers.items():
                self._output.add(self._numbers[field_id], header_page(num_rows), 0)
            self._sidecars.finish()
            fields = self._schema.fields
            if self._schema.blobs:
                fields = tuple(map(_as_stored, fields))
            self._output.end(Schema(fields, self._metadata), self._num_rows)
        self._publish()
        return FileSummary(
            path=self._path,
            size=self._output.position,
            num_rows=self._num_rows,
            fields=tuple(node.id for node in self._nodes),
            column_indices=tuple(range(len(self._nodes))),
            major=self._version[0],
            minor=self._version[1],
        )

    def abort(self) -> None:
        """Publish nothing; see ``FileWriter.abort``."""
        self._encoding.clear()
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
        super().abort()
        self._sidecars.abort()

    def _placed(self, array: pa.Array, field: Field) -> pa.Array:
        if field.is_struct:
            places = BlobPlaces(self._output.place, self._sidecars.share, self._sidecars.part)
            return described_blobs(array, field, places, self._outside)
        return placed_blobs(array, field, self._output.place)

    def _flush(self, pending: _Pending, array: pa.Array, nbytes: int) -> None:
        """Write a page of every physical column of a top-level column; threads encode large ones meanwhile."""
        if pending.is_coded:
            self._distinct.note(array, pending.stored)
        first_row = pending.first_row
        pending.first_row += len(array)
        if _PROCESSORS == 1 or nbytes < _WORTH_A_THREAD:
            if self._encoding:
                self._settle()
            self._add(first_row, _encoded(pending.stored, array, self._version, first_row))
            return
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_PROCESSORS, thread_name_prefix="lancecy-encode")
        work = submit(self._threads, _encoded, pending.stored, array, self._version, first_row)
        self._encoding.append((first_row, work))
        self._settle(most=_PROCESSORS)

    def _settle(self, most: int = 0) -> None:
        """Write the oldest pages that are encoded in threads, until at most ``most`` are left."""
        while len(self._encoding) > most:
            first_row, work = self._encoding.popleft()
            self._add(first_row, work.result())
        if not most and self._threads is not None:
            self._threads.shutdown()
            self._threads = None

    def _add(self, first_row: int, pages: list[_Encoded]) -> None:
        has_headers = self._version == (2, 0)
        for node, page in pages:
            if isinstance(page, int):
                self._headers[node.id] += page
            elif page.length or not has_headers:
                self._output.add(self._numbers[node.id], page, 0 if has_headers else first_row)


_PROCESSORS = min(4, len(os.sched_getaffinity(0)))
_WORTH_A_THREAD = 1 << 20
"""Fewest bytes of a page that are worth handing over to a thread."""

_Encoded: TypeAlias = "tuple[Field, EncodedPage | int]"
"""A node and its page; in 2.0 an int for a struct, which is its rows."""


def _encoded(field: Field, array: pa.Array, version: tuple[int, int], first_row: int) -> list[_Encoded]:
    """The pages of a top-level column; rows are counted in errors."""
    try:
        block = block_of(array, field)
        if version == (2, 0):
            return list(v20_pages(field, block))
        return [(leaf.field, encode_page(leaf, version)) for leaf in shred(field, block)]
    except LanceError as error:
        place = f"column {printable(field.name)!r}, rows from {first_row} on"
        raise error.within(place) from error.__cause__


def _as_stored(field: Field) -> Field:
    """The field in the form of the file's own schema, in which blobs of 2.2 are descriptors without ids."""
    if field.is_blob_v2:
        scanned = field.scanned
        return replace(scanned, children=tuple(replace(c, id=-1, parent_id=-1) for c in scanned.children))
    children = tuple(_as_stored(child) for child in field.children)
    is_same = all(map(operator.is_, children, field.children))
    return field if is_same else replace(field, children=children)


def _is_blob(field: Field) -> bool:
    return field.is_blob


_Page: TypeAlias = tuple[pa.Array, int]
"""The rows of a page, and about how many bytes they have."""


class _Pending:
    """A top-level column whose next page is not full yet."""

    __slots__ = ("_arrays", "_most", "_nbytes", "_patience", "field", "first_row", "is_coded", "stored")

    def __init__(self, field: Field, stored: Field, is_coded: bool, page_bytes: int) -> None:
        self.field = field
        self.stored = stored
        """The field as it is in pages, in which blobs are descriptors."""
        self.first_row = 0
        """First row of the next page."""
        self.is_coded = is_coded
        self._most = max(1, page_bytes, page_bytes // _LEAST_PER_LEAF * field.num_leaves)
        self._arrays: list[pa.Array] = []
        self._nbytes = 0
        self._patience = _MANY

    def add(self, array: pa.Array) -> Iterable[_Page]:
        """Add an array; return the pages that are full."""
        nbytes = size_of(array)
        if nbytes >= self._most:
            return chain(self.rest(), _cut(array, nbytes, self._most))
        self._arrays.append(array)
        self._nbytes += nbytes
        if self._nbytes >= self._most:
            return self.rest()
        if len(self._arrays) >= self._patience:
            # An array object of one row takes a thousand times the bytes of the row.
            self._arrays = self._joined()
            self._patience = len(self._arrays) + _MANY
        return ()

    def rest(self) -> list[_Page]:
        """The pending arrays as one page; one by one where they cannot be concatenated."""
        pages, nbytes = self._joined(), self._nbytes
        self._arrays, self._nbytes, self._patience = [], 0, _MANY
        return [(pages[0], nbytes)] if len(pages) == 1 else [(page, size_of(page)) for page in pages]

    def _joined(self) -> list[pa.Array]:
        if len(self._arrays) < 2:
            return self._arrays
        try:
            return [as_array(pa.chunked_array(self._arrays))]
        except (UnsupportedError, LimitError):
            return self._arrays


def _cut(array: pa.Array, nbytes: int, most: int) -> Iterator[_Page]:
    """Yield slices of about equal numbers of rows, none much larger than a page unless it is one row."""
    count = min(len(array), -(-nbytes // most))
    if count <= 1:
        yield array, nbytes
        return
    for number in range(count):
        start, stop = len(array) * number // count, len(array) * (number + 1) // count
        piece = array.slice(start, stop - start)
        size = size_of(piece)
        yield from _cut(piece, size, most) if size > 2 * most else ((piece, size),)
