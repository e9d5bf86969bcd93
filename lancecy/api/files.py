"""Single data files, read without a table: pylance's ``lance.file``.

A :class:`LanceFileReader` reads rows of one file by the schema in the file. Statistics and descriptions come from
its metadata alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.blobs.whole import has_plain_blobs, with_bytes
from lancecy.encodings.arrow.assemble import pruned
from lancecy.encodings.arrow.columns import ArrowArray, chunks_of
from lancecy.encodings.arrow.to_arrow import to_arrow
from lancecy.encodings.model.notation import notation
from lancecy.encodings.model.pages import Column
from lancecy.errors import FormatError, RowNotFoundError, UnsupportedError
from lancecy.file.describe import describe_file
from lancecy.file.standalone import open_standalone
from lancecy.file.tail import Tail, read_parts
from lancecy.file.v2.meta import GlobalBuffers, read_global_buffers
from lancecy.limits import Limits
from lancecy.records import dataclass
from lancecy.rows import RowSelection
from lancecy.scanning.batches import cut
from lancecy.scanning.request import ScanRequest
from lancecy.schema import Field, Schema
from lancecy.session import Session, default
from lancecy.store.reads import SourceFile, named, run
from lancecy.table.location import TableLocation

__all__ = [
    "LanceBufferDescriptor",
    "LanceColumnMetadata",
    "LanceColumnStatistics",
    "LanceFileMetadata",
    "LanceFileReader",
    "LanceFileStatistics",
    "LancePageMetadata",
    "ReaderResults",
    "refuse_namespaces",
]

_BATCH_ROWS = 1024
_WINDOW_BYTES, _WINDOW_ROWS = 32 << 20, 1 << 20
"""Encoded bytes and rows that are read together; batches are cut from them."""


@dataclass(frozen=True, slots=True)
class LanceBufferDescriptor:
    """A buffer of a file.

    Attributes
    ----------
    position, size : int, bytes
    """

    position: int
    size: int


@dataclass(frozen=True, slots=True)
class LancePageMetadata:
    """A page of a column.

    Attributes
    ----------
    buffers : list of LanceBufferDescriptor
    encoding : str
        In the notation of :func:`lancecy.inspect`.
    """

    buffers: list[LanceBufferDescriptor]
    encoding: str


@dataclass(frozen=True, slots=True)
class LanceColumnMetadata:
    """A physical column of a file.

    Attributes
    ----------
    column_buffers : list of LanceBufferDescriptor
        Always empty: no writer makes any.
    pages : list of LancePageMetadata
    """

    column_buffers: list[LanceBufferDescriptor]
    pages: list[LancePageMetadata]


@dataclass(frozen=True, slots=True)
class LanceFileMetadata:
    """The contents of a file.

    Attributes
    ----------
    schema : pyarrow.Schema
    num_rows : int
    num_data_bytes, num_column_metadata_bytes, num_global_buffer_bytes : int
    global_buffers : list of LanceBufferDescriptor
        The first one is the description of the schema.
    columns : list of LanceColumnMetadata
        Physical columns in file order.
    major_version, minor_version : int
        As in the footer, where version 2.0 is 0.3.
    """

    schema: pa.Schema
    num_rows: int
    num_data_bytes: int
    num_column_metadata_bytes: int
    num_global_buffer_bytes: int
    global_buffers: list[LanceBufferDescriptor]
    columns: list[LanceColumnMetadata]
    major_version: int
    minor_version: int


@dataclass(frozen=True, slots=True)
class LanceColumnStatistics:
    """Size of a physical column.

    Attributes
    ----------
    num_pages : int
    size_bytes : int
        Encoded bytes of its pages.
    """

    num_pages: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class LanceFileStatistics:
    """Sizes of the physical columns of a file.

    Attributes
    ----------
    columns : list of LanceColumnStatistics
        In file order.
    """

    columns: list[LanceColumnStatistics]


class ReaderResults:
    """Rows of a file that are not read yet; made by the methods of :class:`LanceFileReader`.

    Parameters
    ----------
    schema : pyarrow.Schema
    windows : iterator of pyarrow.Table
    batch_size : int
    """

    def __init__(self, schema: pa.Schema, windows: Iterator[pa.Table], batch_size: int) -> None:
        self._schema = schema
        self._windows = windows
        self._batch_size = batch_size

    def to_batches(self) -> pa.RecordBatchReader:
        """The rows as a stream of batches; they can be read once."""
        request = ScanRequest(batch_size=self._batch_size)
        batches = (batch for window in self._windows for batch in cut(window, request))
        return pa.RecordBatchReader.from_batches(self._schema, batches)

    def to_table(self) -> pa.Table:
        """The rows as one table; they can be read once."""
        windows = [window for window in self._windows if window.num_rows]
        return pa.concat_tables(windows or [self._schema.empty_table()])


class LanceFileReader:
    """A single data file of version 2.0 to 2.3, read by the schema in itself.

    Parameters
    ----------
    path : str or path
        A ``.lance`` file: a local path or any URL that fsspec knows.
    storage_options : mapping, optional
        As for :func:`lancecy.dataset`.
    columns : sequence of str, optional
        Columns to read, nested ones with dots; all of them if not given.
    namespace_client, table_id : optional
        Arguments of pylance that are refused.
    limits : Limits, optional
        Upper bounds for what the file may claim.
    session : Session, optional
        By default the session of the process.

    Raises
    ------
    DatasetNotFoundError
        There is no such file.
    FormatError
        It is damaged, or not a Lance data file.
    UnsupportedError
        It is of version 0.1, which only its table explains.
    ColumnNotFoundError
        The file has no such column.
    ValueError
        No column is asked for.

    Notes
    -----
    Blobs of 2.0 and 2.1 are read as bytes, those of 2.2 as descriptors; JSON as text.

    A pickle has the path, the columns and the limits, and the storage options without secrets: workers take credentials
    from their own environment. There the file is opened again, with the session of that process.

    Examples
    --------
    >>> import os, tempfile, lancecy, pyarrow as pa
    >>> path = os.path.join(tempfile.mkdtemp(), "a.lance")
    >>> with lancecy.LanceFileWriter(path) as writer:
    ...     writer.write_batch(pa.table({"id": range(10), "s": ["x"] * 10}))
    >>> reader = lancecy.LanceFileReader(path, columns=["id"])
    >>> reader.read_range(2, 3).to_table()["id"].to_pylist()
    [2, 3, 4]
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        storage_options: Mapping[str, Any] | None = None,
        columns: Sequence[str] | None = None,
        *,
        namespace_client: object = None,
        table_id: object = None,
        limits: Limits | None = None,
        session: Session | None = None,
    ) -> None:
        refuse_namespaces(namespace_client, table_id)
        active = session or default()
        self._session = active if limits is None else active.with_limits(limits)
        store, name = self._session.file_store(path, storage_options)
        meta = store.head(name)
        self._source = SourceFile(store, name, meta.size, meta.identity)
        opened = run(
            open_standalone(self._source, self._session.limits, self._session.cache), self._session.fetch
        )
        self._reader = opened.reader
        self._whole = opened.schema
        self._metadata_start = opened.metadata_start
        asked = _projected(opened.schema, columns)
        self._fields = tuple(field.scanned for field in asked)
        self._schema = Schema(asked, opened.schema.metadata).arrow
        self._place = TableLocation.of(path, storage_options, limits=self._session.limits)
        self._asked = None if columns is None else tuple(columns)

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (self._place, self._asked)

    def __repr__(self) -> str:
        return f"<LanceFileReader {self._source.path!r}, {self.num_rows()} rows>"

    def num_rows(self) -> int:
        """Rows of the file."""
        return self._reader.num_rows

    def read_all(self, *, batch_size: int = _BATCH_ROWS, batch_readahead: int = 16) -> ReaderResults:
        """All rows.

        Parameters
        ----------
        batch_size : int
            Maximum rows of a batch.
        batch_readahead : int
            Accepted as in pylance, and ignored.
        """
        return self._results(RowSelection.all(self.num_rows()), batch_size)

    def read_range(
        self, start: int, num_rows: int, *, batch_size: int = _BATCH_ROWS, batch_readahead: int = 16
    ) -> ReaderResults:
        """Some consecutive rows.

        Parameters
        ----------
        start : int
            Number of the first row.
        num_rows : int
        batch_size, batch_readahead : int
            As for :meth:`read_all`.

        Raises
        ------
        RowNotFoundError
            The file has fewer rows (an ``IndexError``, and a ``ValueError`` as in pylance).
        """
        if start < 0 or num_rows < 0 or start + num_rows > self.num_rows():
            raise RowNotFoundError(
                f"rows {start} to {start + num_rows} do not exist: the file has {self.num_rows()} rows"
            )
        return self._results(RowSelection.range(self.num_rows(), start, start + num_rows), batch_size)

    def take_rows(
        self, indices: Any, *, batch_size: int = _BATCH_ROWS, batch_readahead: int = 16
    ) -> ReaderResults:
        """Rows by number.

        Parameters
        ----------
        indices : (n,) integers
            Ascending, each only once.
        batch_size, batch_readahead : int
            As for :meth:`read_all`.

        Raises
        ------
        ValueError
            The numbers do not ascend.
        RowNotFoundError
            There is no such row (an ``IndexError``, and a ``ValueError`` as in pylance).
        """
        rows = np.asarray(indices, np.int64)
        if not np.all(rows[1:] > rows[:-1]):
            raise ValueError("numbers of rows must ascend, and each may be there only once: sort them")
        if rows.size and (rows[0] < 0 or rows[-1] >= self.num_rows()):
            bad = int(rows[0] if rows[0] < 0 else rows[-1])
            raise RowNotFoundError(f"row {bad} does not exist: the file has {self.num_rows()} rows")
        return self._results(RowSelection.take(self.num_rows(), rows), batch_size)

    def read_global_buffer(self, index: int) -> bytes:
        """The bytes of a global buffer.

        Parameters
        ----------
        index : int
            0 is the description of the schema; those of :meth:`LanceFileWriter.add_global_buffer` begin with 1.

        Raises
        ------
        IndexError
            There is no such buffer (a ``ValueError`` as well, as in pylance).
        """
        buffers = self._buffers()
        if not 0 <= index < buffers.positions.size:
            raise _NoBufferError(
                f"there is no global buffer {index}: the file has {buffers.positions.size} of them"
            )
        part = (int(buffers.positions[index]), int(buffers.lengths[index]))
        read = read_parts(self._source, Tail(self._source.size), [part])
        (data,) = run(named(read, self._source.path), self._session.fetch)
        return data.tobytes()

    def metadata(self) -> LanceFileMetadata:
        """Description of the contents."""
        buffers, columns = self._buffers(), self._columns()
        described = int(buffers.lengths.sum())
        start = min(self._metadata_start, buffers.table)
        major, minor = self._reader.version
        return LanceFileMetadata(
            schema=self._whole.arrow,
            num_rows=self.num_rows(),
            num_data_bytes=start - described,
            num_column_metadata_bytes=buffers.table - start,
            num_global_buffer_bytes=described,
            global_buffers=_descriptors(buffers.positions, buffers.lengths),
            columns=[LanceColumnMetadata([], _pages(column)) for column in columns],
            major_version=major if (major, minor) > (2, 0) else 0,
            minor_version=minor if (major, minor) > (2, 0) else 3,
        )

    def file_statistics(self) -> LanceFileStatistics:
        """Pages and bytes of each physical column."""
        return LanceFileStatistics(
            [LanceColumnStatistics(column.num_pages, column.nbytes) for column in self._columns()]
        )

    def _buffers(self) -> GlobalBuffers:
        read = read_global_buffers(self._source, self._session.limits)
        return run(named(read, self._source.path), self._session.fetch)

    def _columns(self) -> list[Column]:
        found = run(describe_file(self._source, self._session.limits), self._session.fetch)
        for column in found.columns:
            if column.pages is None:
                raise FormatError(column.problem).within(f"column {column.name!r} of {self._source.path}")
        return [column.pages for column in found.columns if column.pages is not None]

    def _results(self, rows: RowSelection, batch_size: int) -> ReaderResults:
        if batch_size < 1:
            raise ValueError(f"batch_size must be positive, got {batch_size}")
        return ReaderResults(self._schema, self._windows(rows, batch_size), batch_size)

    def _windows(self, rows: RowSelection, batch_size: int) -> Iterator[pa.Table]:
        """Read the rows in pieces of bounded size, whole batches each."""
        run(self._reader.prepare(self._fields), self._session.fetch)
        yield from map(self._read, rows.split(self._window_rows(batch_size)))

    def _window_rows(self, batch_size: int) -> int:
        if any(map(has_plain_blobs, self._fields)):
            return (
                batch_size  # pages of blobs have positions and sizes, which say nothing of the bytes to read
            )
        nbytes = sum(self._reader.column_bytes(field) for field in self._fields)
        fitting = min(_WINDOW_ROWS, _WINDOW_BYTES * max(1, self.num_rows()) // max(1, nbytes))
        return max(batch_size, fitting // batch_size * batch_size)

    def _read(self, rows: RowSelection) -> pa.Table:
        blocks = run(self._reader.read(self._fields, rows), self._session.fetch)
        columns = [self._column(field, to_arrow(blocks[field.id], field)) for field in self._fields]
        return pa.Table.from_arrays(columns, schema=self._schema)

    def _column(self, field: Field, column: ArrowArray) -> ArrowArray:
        """The column with bytes in place of descriptors of blobs."""
        if not has_plain_blobs(field):
            return column
        chunks = [with_bytes(chunk, field, self._source, self._session) for chunk in chunks_of(column)]
        return pa.chunked_array(chunks, chunks[0].type).cast(self._schema.field(field.name).type)


def _reopened(place: TableLocation, columns: tuple[str, ...] | None) -> LanceFileReader:
    place = place.known_to(default())
    return LanceFileReader(place.uri, place.storage_options, columns, limits=place.limits)


class _NoBufferError(IndexError, ValueError):
    """A file has fewer global buffers."""


def refuse_namespaces(namespace_client: object, table_id: object) -> None:
    """Refuse the arguments of pylance for namespaces.

    Parameters
    ----------
    namespace_client, table_id : object
        None if not given.

    Raises
    ------
    UnsupportedError
    """
    if namespace_client is not None or table_id is not None:
        raise UnsupportedError(
            "namespace_client and table_id are not supported: give the path of the file and its storage_options",
            feature="namespaces",
        )


def _projected(schema: Schema, columns: Sequence[str] | None) -> tuple[Field, ...]:
    """The top-level fields in the order they are first named, each with what is asked of it."""
    if columns is None:
        return schema.fields
    if isinstance(columns, str):
        raise TypeError(f"columns must be a list of names, not the text {columns!r}")
    wanted: dict[str, set[int]] = {}
    for name in columns:
        chain = schema.path(schema.resolve(name))
        wanted.setdefault(chain[0].name, set()).update(node.id for node in chain[-1].walk())
    if not wanted:
        raise ValueError("no column is asked for: leave columns out to read all of them")
    found = [pruned(schema.field(name), frozenset(ids)) for name, ids in wanted.items()]
    return tuple(field for field in found if field is not None)


def _pages(column: Column) -> list[LancePageMetadata]:
    pages = [column.page(number) for number in range(column.num_pages)]
    return [
        LancePageMetadata(_descriptors(page.positions, page.sizes), notation(page.spec)) for page in pages
    ]


def _descriptors(positions: NDArray[np.int64], sizes: NDArray[np.int64]) -> list[LanceBufferDescriptor]:
    pairs = zip(positions.tolist(), sizes.tolist(), strict=True)
    return [LanceBufferDescriptor(position, size) for position, size in pairs]
