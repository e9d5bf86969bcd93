"""Single data files, written without a table: the writer of pylance's ``lance.file``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from lancecy.api.files import refuse_namespaces
from lancecy.errors import SchemaError, UnsupportedError, printable
from lancecy.file.base import FileWriteOptions
from lancecy.file.v2.writer import V2Writer
from lancecy.file.writable import check_writable
from lancecy.interop.streams import record_batches
from lancecy.schema import Schema
from lancecy.session import Session, default
from lancecy.store.local import LocalStore
from lancecy.write.schemas import arranged, check_metadata, fitted, schema_of

__all__ = ["LanceFileWriter"]

_DEFAULT_VERSION = "2.1"
_PAGE_BYTES = 8 << 20


class LanceFileWriter:
    """Writes a single data file of version 2.0, 2.1 or 2.2; the file appears when it is closed.

    As a context manager it closes the file at the end, and writes nothing if the block is left by an exception.

    Parameters
    ----------
    path : str or path
        A local path or any URL that fsspec knows; an existing file is replaced.
    schema : pyarrow.Schema, optional
        By default that of the first batch.
    data_cache_bytes : int, optional
        Bytes of all columns together that are kept until they become pages; by default 8 MiB per column.
    version : str, optional
        Version of the file; 2.1 if not given.
    storage_options : mapping, optional
        As for :func:`lancecy.dataset`.
    namespace_client, table_id : optional
        Arguments of pylance that are refused.
    max_page_bytes : int, optional
        Approximate maximum bytes of a page.
    session : Session, optional
        By default the session of the process.

    Attributes
    ----------
    closed : bool
        Whether the file is finished, or was given up.
    size_bytes : int or None
        Size of the file, once it is finished.

    Raises
    ------
    UnsupportedError
        The version is not written, or cannot hold the schema; no file is created.
    ValueError
        A size is not positive.

    Examples
    --------
    >>> import os, tempfile, lancecy, pyarrow as pa
    >>> path = os.path.join(tempfile.mkdtemp(), "a.lance")
    >>> with lancecy.LanceFileWriter(path) as writer:
    ...     writer.write_batch(pa.table({"a": [1, 2, 3]}))
    >>> lancecy.LanceFileReader(path).num_rows()
    3
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        schema: pa.Schema | None = None,
        *,
        data_cache_bytes: int | None = None,
        version: str | None = None,
        storage_options: Mapping[str, Any] | None = None,
        namespace_client: object = None,
        table_id: object = None,
        max_page_bytes: int | None = None,
        session: Session | None = None,
    ) -> None:
        refuse_namespaces(namespace_client, table_id)
        self.closed = False
        self.size_bytes: int | None = None
        self._version = _version(version)
        self._cache_bytes = _positive("data_cache_bytes", data_cache_bytes)
        self._page_bytes = _positive("max_page_bytes", max_page_bytes)
        self._store, self._name = (session or default()).file_store(path, storage_options)
        self._metadata: dict[str, str] = {}
        self._buffers: list[bytes] = []
        self._num_buffers = 0
        self._folders: tuple[str, ...] = ()
        self._is_given_up = False
        self._schema: Schema | None = None
        self._writer: V2Writer | None = None
        if schema is not None:
            self._begun(schema)

    def write_batch(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Append rows.

        Parameters
        ----------
        batch : pyarrow.RecordBatch or Table
            Or any other Arrow data; columns in any order.

        Raises
        ------
        SchemaError
            A column is missing, unknown or of another type.
        UnsupportedError, StoreError
            The version cannot hold a value, or a blob is given by URI, which means nothing without a table, or bytes could not be written; the file is given up.
        ValueError
            The file is finished, or was given up.
        """
        self._require_open()
        reader = record_batches(batch)
        writer, schema = self._begun(reader.schema)
        _check_columns(schema, reader.schema)
        try:
            for rows in reader:
                writer.write(arranged(rows, schema))
        except BaseException:
            self._give_up()
            raise

    def add_schema_metadata(self, key: str, value: str) -> None:
        """Add an entry to the metadata of the schema.

        Parameters
        ----------
        key, value : str

        Raises
        ------
        ValueError
            The file is finished, or was given up.
        """
        self._require_open()
        self._metadata[key] = value

    def add_global_buffer(self, data: bytes) -> int:
        """Add bytes of any meaning, which :meth:`LanceFileReader.read_global_buffer` reads.

        Parameters
        ----------
        data : bytes

        Returns
        -------
        int
            The number of the buffer, from 1.

        Raises
        ------
        ValueError
            The file is finished, or was given up.
        StoreError
            Bytes could not be written; the file is given up.
        """
        self._require_open()
        self._buffers.append(bytes(data))
        self._num_buffers += 1
        self._write_buffers()
        return self._num_buffers

    def close(self) -> int | None:
        """Finish the file and return its number of rows; None if it is finished already.

        Raises
        ------
        ValueError
            There is neither a schema nor a batch, or the file was given up.
        SchemaError, UnsupportedError, StoreError
            The last rows could not be written; the file is given up.
        """
        if self.closed and not self._is_given_up:
            return None
        self._require_open()
        if self._writer is None:
            self._give_up()
            raise ValueError("without a schema and without rows no file can be written: give a schema")
        try:
            for key, value in self._metadata.items():
                self._writer.add_schema_metadata(key, value)
            summary = self._writer.finish()
        except BaseException:
            self._give_up()
            raise
        self.closed = True
        self.size_bytes = summary.size
        return summary.num_rows

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._give_up()
        elif not self._is_given_up:
            self.close()

    def _begun(self, given: pa.Schema) -> tuple[V2Writer, Schema]:
        """The file and its schema; the first call creates the file with the given one."""
        if self._writer is not None and self._schema is not None:
            return self._writer, self._schema
        schema = check_metadata(schema_of(given))
        if isinstance(self._store, LocalStore):
            self._folders = self._store.missing_folders(f"{self._name.removesuffix('.lance')}/blob")
        options = FileWriteOptions(page_bytes=self._bytes_of_a_page(len(given)))
        try:
            writer = V2Writer(self._store, self._name, schema, self._version, options)
        except BaseException:
            self._give_up()
            raise
        self._writer, self._schema = writer, schema
        self._write_buffers()
        return writer, schema

    def _bytes_of_a_page(self, num_columns: int) -> int:
        share = _PAGE_BYTES if self._cache_bytes is None else max(1, self._cache_bytes // max(1, num_columns))
        return share if self._page_bytes is None else min(share, self._page_bytes)

    def _write_buffers(self) -> None:
        """Write the global buffers that wait for the file to begin."""
        if self._writer is None:
            return
        waiting, self._buffers = self._buffers, []
        try:
            for data in waiting:
                self._writer.add_global_buffer(data)
        except BaseException:
            self._give_up()
            raise

    def _require_open(self) -> None:
        if self._is_given_up:
            raise ValueError("the file was given up after an error, and nothing of it is written")
        if self.closed:
            raise ValueError("the file is finished")

    def _give_up(self) -> None:
        """Discard what was written, and folders made for it."""
        if self.closed:
            return
        self.closed = self._is_given_up = True
        if self._writer is not None:
            self._writer.abort()
        if isinstance(self._store, LocalStore):
            self._store.remove_folders(self._folders)


def _version(version: str | None) -> str:
    if version in ("0.1", "legacy"):
        raise UnsupportedError(
            "files of version 0.1 stand in tables only: use lancecy.write_dataset(data_storage_version='0.1'), or "
            "version 2.0 or later",
            feature="files of 0.1 without their table",
        )
    named = _DEFAULT_VERSION if version in (None, "stable") else str(version)
    check_writable(Schema(), named)
    return named


def _positive(name: str, value: int | None) -> int | None:
    if value is not None and value < 1:
        raise ValueError(f"{name} must be positive, got {value}")
    return value


def _check_columns(schema: Schema, given: pa.Schema) -> None:
    missing = [name for name in schema.names if name not in given.names]
    if missing:
        raise SchemaError(f"a batch has no column {printable(missing[0])!r}", difference=missing[0])
    fitted(schema, given)
