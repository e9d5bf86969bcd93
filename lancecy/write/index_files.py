"""The files of one index, in a folder of their own that no version names before the commit."""

from __future__ import annotations

import os
import uuid
from dataclasses import replace

import pyarrow as pa

from lancecy.errors import LanceError
from lancecy.file.base import FileSummary
from lancecy.file.v2.writer import V2Writer
from lancecy.store.base import Store
from lancecy.store.local import LocalStore
from lancecy.table.paths import INDICES
from lancecy.write.fragments import FileLimits
from lancecy.write.schemas import arranged, schema_of

__all__ = ["IndexFiles"]


class IndexFiles:
    """Writes the files of an index.

    Parameters
    ----------
    store : Store
    identity : uuid.UUID
        Of the index, which its folder is named after.
    version : "2.0", "2.1" or "2.2"
        Version of the files.

    Examples
    --------
    >>> import uuid
    >>> from lancecy.store.memory import MemoryStore
    >>> files = IndexFiles(MemoryStore("doc-index-files"), uuid.uuid4(), "2.1")
    >>> file = files.create("zonemap.lance", pa.schema({"min": pa.int64()}))
    >>> file.write(pa.record_batch({"min": [1, 2]}))
    >>> file.finish()
    >>> [name for name, _ in files.written]
    ['zonemap.lance']
    """

    def __init__(self, store: Store, identity: uuid.UUID, version: str) -> None:
        self.identity = identity
        self._store, self._folder, self._version = store, f"{INDICES}/{identity}/", version
        self._process = os.getpid()
        self._begun: list[OpenIndexFile] = []
        self._made = store.missing_folders(f"{self._folder}file") if isinstance(store, LocalStore) else ()

    @property
    def written(self) -> tuple[tuple[str, int], ...]:
        """Name and bytes of each finished file."""
        finished = ((file.name, file.summary) for file in self._begun)
        return tuple((name, summary.size) for name, summary in finished if summary is not None)

    def create(self, name: str, schema: pa.Schema, page_bytes: int | None = None) -> OpenIndexFile:
        """Begin a file.

        Parameters
        ----------
        name : str
        schema : pyarrow.Schema
        page_bytes : int, optional
            Size of a page of a column before it is encoded.

        Raises
        ------
        UnsupportedError
            Files of the version cannot hold the schema.
        StoreError
            The file could not be created.
        """
        file = OpenIndexFile(self._store, self._folder + name, name, schema, self._version, page_bytes)
        self._begun.append(file)
        return file

    def remove(self) -> None:
        """Remove all files; those that cannot be removed are left to a cleanup."""
        if os.getpid() != self._process:
            return  # This is a child process forked during the write; the files belong to its parent.
        for file in self._begun:
            file.discard()
        try:
            self._store.delete([self._folder + name for name, _ in self.written])
            if isinstance(self._store, LocalStore):
                self._store.remove_folders(self._made)
        except LanceError:
            return


class OpenIndexFile:
    """One file of an index that is being written.

    Parameters
    ----------
    store : Store
    path : str
        Path in the store.
    name : str
    schema : pyarrow.Schema
    version : "2.0", "2.1" or "2.2"
    page_bytes : int, optional
        Size of a page of a column before it is encoded.
    """

    def __init__(
        self,
        store: Store,
        path: str,
        name: str,
        schema: pa.Schema,
        version: str,
        page_bytes: int | None = None,
    ) -> None:
        self.name = name
        self.summary: FileSummary | None = None
        self._schema = schema_of(schema)
        options = FileLimits().options(self._schema)
        options = options if page_bytes is None else replace(options, page_bytes=page_bytes)
        self._writer = V2Writer(store, path, self._schema, version, options)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows.

        Parameters
        ----------
        batch : pyarrow.RecordBatch

        Raises
        ------
        StoreError
            The storage failed to write.
        """
        self._writer.write(arranged(batch, self._schema))

    def add_global_buffer(self, data: bytes) -> int:
        """Add bytes that belong to no column, and return their number.

        Parameters
        ----------
        data : bytes
        """
        return self._writer.add_global_buffer(data)

    def add_schema_metadata(self, key: str, value: str) -> None:
        """Add an entry to the metadata of the schema.

        Parameters
        ----------
        key, value : str
        """
        self._writer.add_schema_metadata(key, value)

    def finish(self) -> None:
        """Publish the file.

        Raises
        ------
        StoreError
            The storage failed to write.
        """
        self.summary = self._writer.finish()

    def discard(self) -> None:
        """Publish nothing, unless the file is finished."""
        if self.summary is None:
            self._writer.abort()
