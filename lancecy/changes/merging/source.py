"""The rows to merge: read once, as every attempt of a merge needs them, and as no stream can be read twice.

Rows that are in memory stay there. Rows of a stream are kept up to a budget; above it all of them go to a temporary
Arrow file, of which only the asked columns of one batch are read at a time.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from lancecy.expr.kinds import schema_without_views
from lancecy.interop.streams import lasting, record_batches

__all__ = ["Source"]

# Smaller batches are joined, larger ones are cut.
_LEAST_BYTES = 4 << 20
_MOST_BYTES = 32 << 20


class Source:
    """The rows to merge, in batches.

    Parameters
    ----------
    data : object
        See ``interop.streams.record_batches``.
    schema : pyarrow.Schema or None
        Requested columns.
    budget : int, bytes
        Above this, rows of a stream go to a temporary file.
    is_whole : bool
        Whether these are all rows, so that their numbers mean something to the user.

    Attributes
    ----------
    schema : pyarrow.Schema
        Views are plain strings and bytes: Arrow (26.0) takes no rows of views.
    num_rows : int
    nbytes : int
        Decoded bytes.
    is_spilled : bool
        Whether the rows are in a temporary file.

    Raises
    ------
    TypeError, SchemaError, ValueError
        See ``record_batches``.

    Examples
    --------
    >>> import pyarrow as pa
    >>> with Source(pa.table({"a": [1, 2], "b": [3, 4]}), None, 1 << 20) as source:
    ...     [batch["b"].to_pylist() for batch in source.batches(["b"])]
    [[3, 4]]
    """

    def __init__(self, data: Any, schema: pa.Schema | None, budget: int, *, is_whole: bool = True) -> None:
        self.is_whole = is_whole
        reader = record_batches(data, schema)
        self.schema: pa.Schema = schema_without_views(reader.schema)
        self.num_rows = self.nbytes = 0
        self._budget = budget if _is_stream(data) else None
        self._held: list[pa.RecordBatch] = []
        self._path: str | None = None
        self._file: pa.NativeFile | None = None
        self._writer: pa.RecordBatchWriter | None = None
        try:
            for batch in _joined(lasting(reader, data), reader.schema):
                self._add(batch if reader.schema == self.schema else batch.cast(self.schema))
            self._finish()
        except BaseException:
            self.close()
            raise

    @property
    def is_spilled(self) -> bool:
        """Whether the rows are in a temporary file."""
        return self._path is not None

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows, of these columns or of all, in batches whose number and sizes do not depend on the columns.

        Parameters
        ----------
        columns : sequence of str, optional
        """
        if self._path is None:
            for batch in self._held:
                yield batch if columns is None else batch.select(columns)
            return
        wanted = None if columns is None else [self.schema.get_field_index(name) for name in columns]
        options = pa.ipc.IpcReadOptions(included_fields=wanted)
        with pa.OSFile(self._path) as file, pa.ipc.open_file(file, options=options) as reader:
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number)
                yield batch if columns is None else batch.select(columns)

    def close(self) -> None:
        """Remove the temporary file."""
        self._held = []
        self._finish()
        if self._path is not None:
            with suppress(FileNotFoundError):
                Path(self._path).unlink()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _add(self, batch: pa.RecordBatch) -> None:
        self.num_rows += batch.num_rows
        self.nbytes += batch.nbytes
        if self._budget is not None and self.nbytes > self._budget and self._writer is None:
            self._spill()
        if self._writer is not None:
            self._writer.write_batch(batch)
        else:
            self._held.append(batch)

    def _finish(self) -> None:
        for opened in (self._writer, self._file):
            if opened is not None:
                opened.close()
        self._writer = self._file = None

    def _spill(self) -> None:
        handle, self._path = tempfile.mkstemp(prefix="lancecy-merge-", suffix=".arrow")
        os.close(handle)
        self._file = pa.OSFile(self._path, "wb")
        self._writer = pa.ipc.new_file(self._file, self.schema)
        for batch in self._held:
            self._writer.write_batch(batch)
        self._held = []


def _is_stream(data: object) -> bool:
    """Whether the rows are not in memory already."""
    return not (isinstance(data, pa.RecordBatch | pa.Table | list | dict) or hasattr(data, "columns"))


def _joined(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows in batches that are neither small nor large."""
    waiting: list[pa.RecordBatch] = []
    nbytes = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        if waiting and nbytes + batch.nbytes > _LEAST_BYTES:
            yield _one(waiting, schema)
            waiting, nbytes = [], 0
        if batch.nbytes > _LEAST_BYTES:
            yield from _cut(batch)
        else:
            waiting.append(batch)
            nbytes += batch.nbytes
    if waiting:
        yield _one(waiting, schema)


def _one(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches, schema).unify_dictionaries().combine_chunks()
    found: pa.RecordBatch = table.to_batches()[0]
    return found


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    rows = max(1, _MOST_BYTES * batch.num_rows // max(1, batch.nbytes))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)
