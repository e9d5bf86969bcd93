"""Data files with some columns of fragments that exist already; one file per fragment.

No version names the files before the commit, so they can be removed until then.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lancecy.encodings.codecs.outside_blobs import OutsidePlace
from lancecy.errors import LanceError
from lancecy.file.base import FileWriteOptions
from lancecy.file.create import create_file
from lancecy.file.dictionaries import Dictionaries
from lancecy.schema import Schema
from lancecy.store.base import Store
from lancecy.store.local import LocalStore
from lancecy.table.manifest import DataFile
from lancecy.table.paths import data_file_name
from lancecy.write.fragments import FileLimits

__all__ = ["ColumnFiles", "without_fields"]


class ColumnFiles:
    """The data files of one change; threads may write several at once.

    Parameters
    ----------
    store : Store
    folder : str
        Prefix of the names of data files in the store, "" or ending in a slash.
    version : str
        Version of the data files.
    tag : str
        Hexadecimal digits that all file names end in.
    outside : function, optional
        The place of a blob that is given by URI; without it they are refused.

    Examples
    --------
    >>> from lancecy.store.memory import MemoryStore
    >>> from lancecy.write.schemas import schema_of
    >>> store, rows = MemoryStore("doc-columns"), pa.record_batch({"a": [1, 2, 3]})
    >>> files = ColumnFiles(store, "data/", "2.1")
    >>> files.write(schema_of(rows.schema, 7), [rows]).fields
    (7,)
    """

    def __init__(
        self, store: Store, folder: str, version: str, tag: str = "", outside: OutsidePlace | None = None
    ) -> None:
        self._store, self._folder, self._version, self._tag = store, folder, version, tag
        self._outside = outside
        self._lock = threading.Lock()
        self._begun: set[str] = set()
        self._made: tuple[str, ...] = ()
        self._process = os.getpid()
        self._has_sidecars = False
        if isinstance(store, LocalStore):
            self._made = store.missing_folders(f"{folder}file")

    @property
    def version(self) -> str:
        """Version of the data files."""
        return self._version

    def write(
        self,
        schema: Schema,
        batches: Iterable[pa.RecordBatch],
        dictionaries: Dictionaries | None = None,
        row_starts: Sequence[int] | None = None,
    ) -> DataFile:
        """Write one file.

        Parameters
        ----------
        schema : Schema
            Columns of the file; they have their ids in the table.
        batches : iterable of pyarrow.RecordBatch
            With all rows of a fragment.
        dictionaries : Dictionaries, optional
            Dictionaries of a 0.1 table; then one thread at a time.
        row_starts : sequence of int, optional
            First row of each batch in the other 0.1 files of the fragment, then the number of rows.

        Returns
        -------
        DataFile

        Raises
        ------
        SchemaError
            Nulls in a column that is not nullable, or columns of another type.
        UnsupportedError
            Files of the version cannot hold the values.
        StoreError
            The storage failed to write.

        Any exception, also of the batches, discards the file.
        """
        file = DataFile(data_file_name(tag=self._tag), ())
        path = self._folder + file.path
        blobs = (node for top in schema.fields for node in top.walk() if node.is_blob)
        with self._lock:
            self._begun.add(file.path)
            self._has_sidecars |= any(node.is_struct for node in blobs)
        usual = replace(FileLimits().options(schema, dictionaries), outside=self._outside)
        options = _options(usual, row_starts)
        writer = create_file(self._store, path, schema, self._version, options)
        try:
            for batch in batches:
                writer.write(batch)
            summary = writer.finish()
        except BaseException:
            writer.abort()
            raise
        return replace(
            file,
            fields=summary.fields,
            column_indices=summary.column_indices,
            file_major_version=summary.major,
            file_minor_version=summary.minor,
            file_size_bytes=summary.size,
        )

    def adopt(self, file: DataFile) -> None:
        """Remove a file of a worker like those of this change.

        Parameters
        ----------
        file : DataFile
        """
        self._has_sidecars = True
        self._begun.add(file.path)

    def remove(self, kept: Iterable[str] = ()) -> str:
        """Remove all files, and return the outcome as a breadcrumb for an error, "" without files.

        Parameters
        ----------
        kept : iterable of str
            Names of files that stay.
        """
        if os.getpid() != self._process:
            # This is a child process forked during the write; the files belong to its parent.
            return "a change that another process is at"
        if not self._begun:
            return ""
        gone = sorted(self._begun - set(kept))
        left = 0
        for name in gone:
            path = self._folder + name
            try:
                self._store.delete([path, *self._beside(path)])
            except LanceError:
                left += 1
        if isinstance(self._store, LocalStore) and not kept:
            self._store.remove_folders(self._made)
        self._begun.intersection_update(kept)
        if not left:
            return "a change that left no data files behind"
        return f"a change that may have left {left} data files to a cleanup"

    def _beside(self, path: str) -> list[str]:
        """Paths of the blob objects of a data file."""
        if not self._has_sidecars:
            return []
        return [meta.path for meta in self._store.list(f"{path.removesuffix('.lance')}/")]


def _options(usual: FileWriteOptions, row_starts: Sequence[int] | None) -> FileWriteOptions:
    """Options for a file with given batches: a fixed number of rows where that describes them."""
    if row_starts is None or len(row_starts) < 2:
        return usual
    counts = np.diff(np.array(row_starts, np.int64))
    if bool((counts[:-1] == counts[0]).all()) and counts[-1] <= counts[0]:
        return replace(usual, max_rows_per_group=int(counts[0]))
    return replace(usual, row_starts=tuple(row_starts))


def without_fields(files: Iterable[DataFile], ids: Iterable[int]) -> tuple[DataFile, ...]:
    """The files with tombstones for fields that have moved to another file; those without any other field are left out.

    Parameters
    ----------
    files : iterable of DataFile
    ids : iterable of int

    Examples
    --------
    >>> [file.fields for file in without_fields([DataFile("a", (0, 1)), DataFile("b", (2,))], [1, 2])]
    [(0, -2)]
    """
    moved = frozenset(ids)
    found = []
    for file in files:
        fields = tuple(_TOMBSTONE if number in moved else number for number in file.fields)
        if fields == file.fields or any(number != _TOMBSTONE for number in fields):
            found.append(replace(file, fields=fields))
    return tuple(found)


_TOMBSTONE = -2
