"""Writes batches to data files, one fragment each.

A file begins with its first rows and ends when it is full; files go to the bases in turn. No version names
them before the commit, so any error removes them. Memory holds one batch and the buffers of two files
(``file.create``): one file is finished while the next begins. Remote files are complete in a temporary file then and
only wait to be sent, so a few of them are sent to each base at once: a write is as fast as all of its bases together.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

import pyarrow as pa

from lancecy.errors import LanceError, SchemaError, UnsupportedError
from lancecy.file.base import FileSummary, FileWriteOptions, FileWriter
from lancecy.file.create import create_file
from lancecy.file.dictionaries import Dictionaries
from lancecy.file.v0.stored_pages import CopiedBatches
from lancecy.file.v0.writer import V0Writer
from lancecy.file.v2.stored_pages import CopiedRows
from lancecy.file.v2.writer import V2Writer
from lancecy.records import dataclass
from lancecy.schema import Schema
from lancecy.store.base import Store
from lancecy.store.local import LocalStore
from lancecy.store.pools import submit
from lancecy.table.manifest import DataFile
from lancecy.table.paths import data_file_name
from lancecy.write.metadata import FragmentMetadata
from lancecy.write.progress import WriteProgress
from lancecy.write.schemas import arranged, check_nulls, strict_paths, with_all_members

__all__ = ["DEFAULT_MAX_BYTES_PER_FILE", "FileLimits", "Folder", "NewFiles", "OutsideBlobs"]

_ANEW = (
    "; as files of no other version can stand beside those that a table of 0.1 has already, that means to write all of "
    "it anew, with mode='overwrite' and data_storage_version='2.1'"
)
_LEAST_PAGE = 64 << 10
# Limit of buffered bytes in all columns of a file together, as far as the smallest pages allow.
_WAITING = 512 << 20
# Maximum size of the pieces that rows are written in; the file's size is checked after each piece.
_PIECE_BYTES = 64 << 20
# Files that are sent to one remote base at once: one is sent while the other's request begins or ends.
_SENT_AT_ONCE = 2
_MOST_SENT = 16

Folder = Callable[["int | None"], "tuple[Store, str]"]
"""Maps a base, None for the table's own folder, to its store and the prefix of data file names there."""


class OutsideBlobs(Protocol):
    """What becomes of blobs that are given by URI."""

    def place(self, uri: str) -> tuple[int, str]:
        """The place in the descriptor of a blob; see ``OutsidePlace``."""

    def brought(self, batch: pa.RecordBatch, schema: Schema) -> Iterable[pa.RecordBatch]:
        """The rows of a batch, with the bytes of blobs that become part of the table."""


DEFAULT_MAX_BYTES_PER_FILE = 90 << 30
"""Bytes of a data file after which the next one begins, as in pylance."""


@dataclass(frozen=True, slots=True)
class FileLimits:
    """Limits of the size of a data file.

    Attributes
    ----------
    max_rows : int
    max_bytes : int
        Checked after every few megabytes, so a file may exceed it by as much.
    max_rows_per_group : int
        Rows of a batch in a 0.1 file.

    Raises
    ------
    ValueError
        A limit is not positive.
    """

    max_rows: int = 1 << 20
    max_bytes: int = DEFAULT_MAX_BYTES_PER_FILE
    max_rows_per_group: int = 1024

    def __post_init__(self) -> None:
        if self.max_rows < 1 or self.max_bytes < 1 or self.max_rows_per_group < 1:
            raise ValueError(
                "max_rows_per_file, max_bytes_per_file and max_rows_per_group must be at least 1"
            )

    def piece_rows(self, batch: pa.RecordBatch) -> int:
        """Rows of a batch that are written at once."""
        most = min(_PIECE_BYTES, self.max_bytes // 8)
        # The bytes of all buffers are known at once, those of the rows column by column.
        if batch.get_total_buffer_size() <= most:
            return self.max_rows
        per_row: int = max(1, batch.nbytes // max(1, batch.num_rows))
        return max(1, min(self.max_rows, most // per_row))

    def options(self, schema: Schema, dictionaries: Dictionaries | None = None) -> FileWriteOptions:
        """Write options whose pages are small enough to bound the buffered bytes of a file."""
        usual = FileWriteOptions(self.max_rows_per_group, dictionaries=dictionaries)
        pages = sum(-(-top.num_leaves // 8) for top in schema.fields)
        share = min(self.max_bytes // 4, _WAITING) // max(1, pages)
        return replace(usual, page_bytes=min(usual.page_bytes, max(_LEAST_PAGE, share)))


class NewFiles:
    """The data files of one write.

    Parameters
    ----------
    schema : Schema
        Schema of the written columns.
    version : str
        Version of the data files, such as "2.1".
    bases : tuple of int or None
        Bases that files go to in turn, beginning with the first.
    folder : function
        See ``Folder``.
    limits : FileLimits
    dictionaries : Dictionaries, optional
        Dictionaries of a 0.1 table, shared by all of its files.
    tag : str
        Hexadecimal digits at the end of all file names.
    outside : OutsideBlobs, optional
        What becomes of blobs that are given by URI; without it they are refused.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from lancecy.store.memory import MemoryStore
    >>> from lancecy.write.schemas import schema_of
    >>> store, rows = MemoryStore("doc-files"), pa.record_batch({"a": [1, 2, 3]})
    >>> files = NewFiles(schema_of(rows.schema), "2.1", (None,), lambda base: (store, ""), FileLimits(2))
    >>> [made.physical_rows for made in files.write([rows])]
    [2, 1]
    """

    def __init__(
        self,
        schema: Schema,
        version: str,
        bases: tuple[int | None, ...],
        folder: Folder,
        limits: FileLimits,
        dictionaries: Dictionaries | None = None,
        tag: str = "",
        outside: OutsideBlobs | None = None,
    ) -> None:
        self._version, self._bases, self._tag = version, bases, tag
        self._schema, self._outside = with_all_members(schema), outside
        self._folder, self._limits = folder, limits
        self._has_sidecars = any(node.is_struct for node in schema.blobs)
        self._strict = strict_paths(schema)
        place = None if outside is None else outside.place
        self._options = replace(limits.options(schema, dictionaries), outside=place)
        self._made: list[FragmentMetadata] = []
        self._progress = WriteProgress(None)
        self._begun: list[tuple[Store, str]] = []
        self._folders: list[tuple[LocalStore, tuple[str, ...]]] = []
        self._open: _Open | None = None
        self._ending: deque[Future[FragmentMetadata]] = deque()
        self._threads: ThreadPoolExecutor | None = None
        self._process = os.getpid()

    def write(
        self,
        batches: Iterable[pa.RecordBatch | CopiedRows | CopiedBatches],
        progress: WriteProgress | None = None,
    ) -> tuple[FragmentMetadata, ...]:
        """Write all rows.

        Parameters
        ----------
        batches : iterable of pyarrow.RecordBatch, CopiedRows or CopiedBatches
            Batches with the columns of the schema, in any order; or rows of another file of this version, whose
            pages are copied. A file is not cut within these.
        progress : WriteProgress, optional

        Returns
        -------
        tuple of FragmentMetadata
            In the order of the rows; empty without rows.

        Raises
        ------
        SchemaError
            Nulls in a column that is not nullable, or columns of another type.
        UnsupportedError
            Files of the version cannot hold the values.
        StoreError
            The storage failed to write.

        Any exception, also of the batches and of the callback, removes the files.
        """
        self._progress = progress or self._progress
        try:
            row = 0
            for batch in batches:
                if isinstance(batch, CopiedRows | CopiedBatches):
                    self._copy(batch)
                    continue
                check_nulls(batch, self._strict, row)
                row += batch.num_rows
                if batch.num_rows and not self._schema.fields:
                    raise SchemaError("the rows have no columns: give at least one", difference="no columns")
                for part in self._brought(arranged(batch, self._schema)):
                    for piece in self._pieces(part):
                        self._add(piece)
            last = [] if self._open is None else [_finished(self._open)]
            self._open = None
            self._settle()
            for made in last:
                self._progress.completed(made)
            self._progress.finished()
        except BaseException as error:
            left = self.remove()
            if isinstance(error, UnsupportedError) and self._version == "0.1":
                error.what += _ANEW
            if isinstance(error, LanceError):
                error.within(left)
            raise
        finally:
            if self._threads is not None:
                self._threads.shutdown()
        return (*self._made, *last)

    def remove(self) -> str:
        """Remove every file of this write; no version names them. Returns the outcome as a breadcrumb for an error."""
        left: list[str] = []
        if os.getpid() != self._process:
            # This is a child process forked during the write; the files belong to its parent.
            return "a write that another process is at"
        if self._open is not None:
            with suppress(LanceError, OSError):
                self._open.writer.abort()
        if self._threads is not None:
            # Wait for the files in progress even if they fail: a file that appears later would stay.
            self._threads.shutdown(cancel_futures=True)
        for store, path in self._begun:
            try:
                store.delete([path, *self._beside(store, path)])
            except LanceError:
                left.append(f"{store.uri}/{path}")
        for local, folders in reversed(self._folders):
            # This write created the folder, and it is empty again.
            local.remove_folders(folders)
        self._open, self._begun, self._made, self._folders = None, [], [], []
        self._ending.clear()
        if not left:
            return "a write that left no data files behind"
        return f"a write that may have left {len(left)} data files to a cleanup, {left[0]} the first"

    def _beside(self, store: Store, path: str) -> list[str]:
        """Paths of the blob objects of a data file."""
        if not self._has_sidecars:
            return []
        return [meta.path for meta in store.list(f"{path.removesuffix('.lance')}/")]

    def _brought(self, batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        return [batch] if self._outside is None else self._outside.brought(batch, self._schema)

    def _pieces(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows of a batch, split where a file reaches its maximum number of rows."""
        most, start = self._limits.piece_rows(batch), 0
        while start < batch.num_rows:
            there = 0 if self._open is None else self._open.num_rows
            length = min(most, self._limits.max_rows - there, batch.num_rows - start)
            yield batch.slice(start, length)
            start += length

    def _copy(self, rows: CopiedRows | CopiedBatches) -> None:
        if self._open is None:
            self._open = self._begin()
        if not _copy_pages(self._open.writer, rows):
            raise UnsupportedError(
                "pages of 0.1 and of 2.x are not copied to files of the other kind", feature="copy of pages"
            )
        self._added(self._open, rows.num_rows)

    def _add(self, piece: pa.RecordBatch) -> None:
        if self._open is None:
            self._open = self._begin()
        self._open.writer.write(piece)
        self._added(self._open, piece.num_rows)

    def _added(self, file: _Open, num_rows: int) -> None:
        """Count rows, and finish the file if it is full."""
        file.num_rows += num_rows
        self._progress.written(num_rows)
        is_full = file.num_rows >= self._limits.max_rows
        if is_full or file.writer.nbytes >= self._limits.max_bytes:
            self._finish_meanwhile(file)
            self._open = None

    def _begin(self) -> _Open:
        base = self._bases[len(self._begun) % len(self._bases)]
        file = DataFile(data_file_name(tag=self._tag), (), base_id=base)
        store, folder = self._folder(base)
        path = folder + file.path
        self._begun.append((store, path))
        self._progress.begun(FragmentMetadata(0, ()))
        if isinstance(store, LocalStore):
            deepest = f"{path.removesuffix('.lance')}/blob" if self._has_sidecars else path
            missing = store.missing_folders(deepest)
            if missing:
                self._folders.append((store, missing))
        writer = create_file(store, path, self._schema, self._version, self._options)
        return _Open(file, writer, isinstance(store, LocalStore))

    def _finish_meanwhile(self, full: _Open) -> None:
        """Finish a full file in a thread while the next one begins; two files keep two processors busy."""
        self._settle(most=self._at_once(full) - 1)
        if self._options.dictionaries is not None:
            # All files share the dictionaries, and two files must not add to them at once.
            self._made.append(_finished(full))
            self._progress.completed(self._made[-1])
            return
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_MOST_SENT, thread_name_prefix="lancecy-finish")
        self._ending.append(submit(self._threads, _finished, full))

    def _at_once(self, file: _Open) -> int:
        """How many full files may be finished at once, beside the one that is written."""
        # A local file's buffers are in memory until it is finished, and a disk is as fast with one writer.
        if file.is_local or self._options.dictionaries is not None:
            return 1
        return min(_MOST_SENT, _SENT_AT_ONCE * len(set(self._bases)))

    def _settle(self, most: int = 0) -> None:
        """Wait until at most this many files are being finished; the first ones are waited for."""
        while len(self._ending) > most:
            self._made.append(self._ending.popleft().result())
            self._progress.completed(self._made[-1])


@dataclass(slots=True)
class _Open:
    """The open data file."""

    file: DataFile
    writer: FileWriter
    is_local: bool = False
    num_rows: int = 0


def _copy_pages(writer: FileWriter, rows: CopiedRows | CopiedBatches) -> bool:
    """Copy rows to a file; False if it is of another kind."""
    if isinstance(rows, CopiedRows):
        if isinstance(writer, V2Writer):
            writer.copy(rows)
            return True
        return False
    if isinstance(writer, V0Writer):
        writer.copy(rows)
        return True
    return False


def _finished(full: _Open) -> FragmentMetadata:
    return _fragment(full.file, full.writer.finish())


def _fragment(file: DataFile, summary: FileSummary) -> FragmentMetadata:
    described = replace(
        file,
        fields=summary.fields,
        column_indices=summary.column_indices,
        file_major_version=summary.major,
        file_minor_version=summary.minor,
        file_size_bytes=summary.size,
    )
    return FragmentMetadata(0, (described,), physical_rows=summary.num_rows)
