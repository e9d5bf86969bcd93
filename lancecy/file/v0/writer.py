"""Writer of 0.1 files: regroups rows into batches of the file, many batches at once.

Rows are kept until they have some megabytes. Then each column of the complete batches is written as one run of
pages, so the pages of a column are adjacent and Python loops over columns, not pages. Rows of an incomplete batch
are kept.

Source: file sheet 0.1, sections 4, 5 and 7.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.encodings.arrow.columns import as_array
from lancecy.encodings.arrow.from_arrow import block_of, narrowed, size_of
from lancecy.encodings.model.chunks import chunk_bounds
from lancecy.encodings.v0.stats import page_bounds
from lancecy.encodings.v0.write import check_storable, legacy_pages
from lancecy.errors import LanceError, LimitError, SchemaError
from lancecy.file.base import FileSummary, FileWriteOptions
from lancecy.file.dictionaries import Dictionaries
from lancecy.file.sink import StreamedWriter
from lancecy.file.v0.output import V0Output
from lancecy.file.v0.stored_pages import CopiedBatches
from lancecy.file.writable import check_writable
from lancecy.schema import Field, Schema
from lancecy.store.base import Store

__all__ = ["V0Writer"]

_MOST_ROWS = (1 << 31) - 1
"""Most rows of a file; batch offsets have 32 bits."""
_MOST_BYTES = 256 << 20
"""Most bytes of a batch of the file; a batch of large rows has fewer rows."""

_MOST_BATCHES = 1024
"""Most pending arrays; more are concatenated."""

Columns = Sequence[pa.Array]


class V0Writer(StreamedWriter):
    """A ``FileWriter`` of 0.1 files.

    Parameters
    ----------
    store : Store
    path : str
    schema : Schema
    options : WriteOptions

    Raises
    ------
    UnsupportedError
        0.1 cannot hold the schema; no file is created.
    StoreError
        The file could not be created.
    """

    def __init__(self, store: Store, path: str, schema: Schema, options: FileWriteOptions) -> None:
        check_writable(schema, "0.1")
        self._path, self._schema = path, schema
        self._ids = frozenset(node.id for top in schema.fields for node in top.walk())
        self._group, self._most = options.max_rows_per_group, options.page_bytes
        self._given = None if options.row_starts is None else np.array(options.row_starts, np.int64)
        self._book = Dictionaries() if options.dictionaries is None else options.dictionaries
        self._waiting = _PendingRows()
        self._row_starts = [0]
        super().__init__(store.put_stream(path))
        self._output = V0Output(self._sink)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows; see ``FileWriter.write``. An error aborts the file."""
        self._require_open()
        fields = self._schema.fields
        if batch.num_columns != len(fields):
            raise SchemaError(f"a batch has {batch.num_columns} columns, where the schema has {len(fields)}")
        columns = [narrowed(array, field) for array, field in zip(batch.columns, fields, strict=True)]
        with self._given_up_on_error():
            self._add(columns, batch.num_rows)

    def copy(self, rows: CopiedBatches) -> None:
        """Append the rows of another file, whose pages are copied as they are; see ``stored_pages``.

        Parameters
        ----------
        rows : CopiedBatches
            With every column of the schema.

        Raises
        ------
        SchemaError
            A column is missing.
        FormatError, StoreError
            Pages are damaged, or could not be read or written.
        """
        self._require_open()
        missing = self._ids - rows.field_ids
        if missing:
            raise SchemaError(f"pages of field {min(missing)} are missing", difference=str(min(missing)))
        with self._given_up_on_error():
            self._flush(is_last=True)
            first = self._row_starts[-1]
            if first + rows.num_rows > _MOST_ROWS:
                raise _too_many_rows()
            placed = rows.placed(self._output.position)
            self._output.add_placed(placed)
            self._row_starts.extend((placed.row_starts[1:] + first).tolist())

    def finish(self) -> FileSummary:
        """Write the remaining rows and publish the file; see ``FileWriter.finish``."""
        self._require_open()
        with self._given_up_on_error():
            self._flush(is_last=True)
            self._output.end(self._schema, self._row_starts, self._book)
        self._publish()
        ids = sorted(node.id for field in self._schema.fields for node in field.walk())
        return FileSummary(
            path=self._path,
            size=self._output.position,
            num_rows=self._row_starts[-1],
            fields=tuple(ids),
            column_indices=(),
            major=0,
            minor=2,
        )

    # -- pending rows

    def _add(self, columns: Columns, num_rows: int) -> None:
        if not num_rows:
            return
        if self._row_starts[-1] + self._waiting.num_rows + num_rows > _MOST_ROWS:
            raise _too_many_rows()
        nbytes = sum(map(size_of, columns))
        if nbytes < self._most or self._given is not None:
            self._waiting.add(columns, num_rows, nbytes)
            if self._waiting.nbytes >= self._most or self._waiting.num_batches >= _MOST_BATCHES:
                self._flush()
            return
        # A large batch is not copied: only the rows that complete a pending batch of the file are joined with it.
        head = min(num_rows, -self._waiting.num_rows % self._group)
        if head:
            self._waiting.add(_sliced(columns, 0, head), head, nbytes * head // num_rows)
        self._flush()
        rest = num_rows - head
        whole = rest - rest % self._group
        self._write_rows(_sliced(columns, head, whole), whole)
        if rest > whole:
            tail = _sliced(columns, head + whole, rest - whole)
            self._waiting.add(tail, rest - whole, sum(map(size_of, tail)))
            if self._waiting.nbytes >= _MOST_BYTES:
                self._flush()

    def _flush(self, is_last: bool = False) -> None:
        """Write pending rows except an incomplete batch; all of them if they are the last or large."""
        waiting = self._waiting
        whole = self._complete(waiting.num_rows)
        if is_last or (not whole and waiting.nbytes >= _MOST_BYTES and self._given is None):
            whole = waiting.num_rows
        if not waiting.num_rows:
            return
        pairs = zip(waiting.parts(), self._schema.fields, strict=True)
        columns = [_as_one(parts, field) for parts, field in pairs]
        rest = waiting.num_rows - whole
        self._waiting = _PendingRows()
        self._write_rows(_sliced(columns, 0, whole), whole)
        if rest:
            left = _sliced(columns, whole, rest)
            self._waiting.add(left, rest, sum(map(size_of, left)))

    def _complete(self, num_rows: int) -> int:
        """The pending rows in complete batches of the file."""
        if self._given is None:
            return num_rows - num_rows % self._group
        first = self._row_starts[-1]
        ended = int(np.searchsorted(self._given, first + num_rows, side="right"))
        return max(0, int(self._given[ended - 1]) - first)

    # -- batches of the file

    def _write_rows(self, columns: Columns, num_rows: int) -> None:
        """Write rows as batches of the file, some megabytes at a time."""
        if not num_rows:
            return
        if self._given is not None:
            first = self._row_starts[-1]
            inside = self._given[(self._given > first) & (self._given < first + num_rows)]
            self._write_batches(columns, np.concatenate(([first], inside, [first + num_rows])) - first)
            return
        nbytes = sum(map(size_of, columns))
        step = max(1, self._most * num_rows // max(1, nbytes) // self._group) * self._group
        group = self._group
        if nbytes // num_rows * self._group > _MOST_BYTES:
            step = group = max(1, _MOST_BYTES * num_rows // nbytes)
        for start in range(0, num_rows, step):
            length = min(step, num_rows - start)
            self._write_batches(_sliced(columns, start, length), chunk_bounds(length, group))

    def _write_batches(self, columns: Columns, starts: NDArray[np.int64]) -> None:
        first = self._row_starts[-1]
        for field, array in zip(self._schema.fields, columns, strict=True):
            try:
                block = block_of(array, field)
                check_storable(field, block)
                self._output.add(legacy_pages(field, block, starts, self._output.position, self._book.codes))
                self._output.note(page_bounds(field, block, starts))
            except LanceError as error:
                raise error.within(f"rows from {first} on") from error.__cause__
        self._row_starts.extend((starts[1:] + first).tolist())


def _too_many_rows() -> LimitError:
    return LimitError(
        f"a file of version 0.1 has no more than {_MOST_ROWS} rows: lower max_rows_per_file",
        limit="",
        claimed=_MOST_ROWS + 1,
    )


class _PendingRows:
    """Pending rows."""

    def __init__(self) -> None:
        self._batches: list[Columns] = []
        self.num_rows = self.nbytes = 0

    def add(self, columns: Columns, num_rows: int, nbytes: int) -> None:
        self._batches.append(columns)
        self.num_rows += num_rows
        self.nbytes += nbytes

    @property
    def num_batches(self) -> int:
        return len(self._batches)

    def parts(self) -> Iterator[list[pa.Array]]:
        """The arrays of each column."""
        return (list(arrays) for arrays in zip(*self._batches, strict=True))


def _sliced(columns: Columns, start: int, length: int) -> Columns:
    return [array.slice(start, length) for array in columns]


def _as_one(parts: list[pa.Array], field: Field) -> pa.Array:
    """Concatenate the pieces of a column."""
    try:
        return as_array(pa.chunked_array(parts))
    except LanceError as error:
        raise error.within(f"column {field.name!r}") from error.__cause__
