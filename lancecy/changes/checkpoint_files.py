"""Files that keep the results of functions beyond the end of a process.

A checkpoint file is an SQLite database with one table of entries, each with a digest of it and of the state of what it
was computed from: an entry of another state is like a damaged one. Values are Arrow streams and JSON, nothing is
unpickled. While a file is open no other process and no other thread can open it; the system ends this when the process
ends, however it ends.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, Self

import pyarrow as pa

from lancecy.errors import FormatError, LanceError, StoreError

__all__ = ["BatchUDFCheckpoint", "CheckpointFile", "arrow_stream", "batch_of"]

_FORM = b"lancecy 3"
_TABLE = (
    "CREATE TABLE entries (kind TEXT, fragment INT, place INT, value BLOB, digest BLOB, "
    "PRIMARY KEY (kind, fragment, place))"
)
_DAMAGED = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)
_TOLD = {
    sqlite3.SQLITE_BUSY: "is in use: wait for the other process or thread, or name another one",
    sqlite3.SQLITE_READONLY_DBMOVED: "was removed while it was open, as by another process that is done: try again",
    sqlite3.SQLITE_TOOBIG: "holds no result of a gigabyte or more: give a smaller batch_size",
}
_SECONDS = 1.0
"""How long to wait for another process that has the file open."""


class CheckpointFile:
    """An open checkpoint file; made by :meth:`opened`. Used by one thread.

    Parameters
    ----------
    path : Path
    connection : sqlite3.Connection
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path, self._connection = path, connection

    @classmethod
    @contextmanager
    def opened(cls, path: Path) -> Iterator[Self]:
        """The checkpoint file at a path, made if there is none; it is closed at the end of the block.

        Parameters
        ----------
        path : Path

        Raises
        ------
        FormatError
            It is no checkpoint file; it stays as it is.
        StoreError
            It is in use, or cannot be read or made.
        """
        try:
            connection = sqlite3.connect(path, timeout=_SECONDS, isolation_level=None)
        except sqlite3.Error as error:
            raise _explained(path, error) from error
        with closing(connection):
            made = cls(path, connection)
            made._begin()
            yield made

    def _begin(self) -> None:
        # The lock of the first transaction stays until the file is closed.
        self._run("PRAGMA locking_mode = EXCLUSIVE")
        self._run("BEGIN EXCLUSIVE")
        tables = self._run("SELECT name FROM sqlite_master WHERE type = 'table'")
        if not tables:
            self._run(_TABLE)
            self.put("form", _FORM)
        elif tables != [("entries",)] or self.about("form") != _FORM:
            raise self.error("is none of this release of lancecy: name another one, or remove it")
        self._run("COMMIT")

    def error(self, what: str) -> FormatError:
        """The error of a file that cannot be used.

        Parameters
        ----------
        what : str
            What is wrong, after "the checkpoint file".
        """
        return FormatError(f"the checkpoint file {what}", path=os.fspath(self._path))

    def about(self, kind: str) -> bytes | None:
        """What the file states about itself, None if nothing.

        Parameters
        ----------
        kind : str

        Raises
        ------
        FormatError
            The entry is damaged.
        """
        found = self.find(kind)
        if found is None and self._run("SELECT 1 FROM entries WHERE kind = ?", kind):
            raise self.error("is damaged: remove it, or name another one")
        return found

    def find(self, kind: str, fragment: int = 0, place: int = 0, state: str = "") -> bytes | None:
        """The value of an entry, None if there is none, it has another state or is damaged.

        Parameters
        ----------
        kind : str
        fragment : int
        place : int
        state : str
        """
        query = "SELECT value, digest FROM entries WHERE kind = ? AND fragment = ? AND place = ?"
        for value, digest in self._run(query, kind, fragment, place):
            if _is_whole(kind, fragment, place, state, value, digest):
                return bytes(value)
        return None

    def all(self, kind: str) -> list[tuple[int, int, bytes]]:
        """Fragment, place and value of the entries of a kind that have no state and are not damaged.

        Parameters
        ----------
        kind : str
        """
        query = "SELECT fragment, place, value, digest FROM entries WHERE kind = ? ORDER BY fragment"
        return [
            (fragment, place, value)
            for fragment, place, value, digest in self._run(query, kind)
            if _is_whole(kind, fragment, place, "", value, digest)
        ]

    def put(self, kind: str, value: bytes, fragment: int = 0, place: int = 0, state: str = "") -> None:
        """Set the value of an entry.

        Parameters
        ----------
        kind : str
        value : bytes
        fragment : int
        place : int
        state : str
        """
        digest = _digest(kind, fragment, place, state, value)
        query = "INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?)"
        self._run(query, kind, fragment, place, value, digest)

    def clear(self, kind: str, fragment: int) -> None:
        """Remove the entries of a fragment.

        Parameters
        ----------
        kind : str
        fragment : int
        """
        self._run("DELETE FROM entries WHERE kind = ? AND fragment = ?", kind, fragment)

    @contextmanager
    def together(self) -> Iterator[None]:
        """All changes of the block are kept, or none."""
        self._run("BEGIN")
        try:
            yield
            self._run("COMMIT")
        except BaseException:
            if self._connection.in_transaction:  # SQLite may have ended it, as on a full disk.
                self._run("ROLLBACK")
            raise

    def _run(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise _explained(self._path, error) from error


def _explained(path: Path, error: sqlite3.Error) -> LanceError:
    code = getattr(error, "sqlite_errorcode", 0)
    told = _TOLD.get(code) or _TOLD.get(code & 0xFF)
    if told:
        return StoreError(f"the checkpoint file {told}", path=os.fspath(path))
    what = f"the checkpoint file cannot be used: {error}"
    if code & 0xFF in _DAMAGED:
        return FormatError(f"{what}. Remove it, or name another one", path=os.fspath(path))
    return StoreError(what, path=os.fspath(path))


def _digest(kind: str, fragment: int, place: int, state: str, value: bytes) -> bytes:
    found = sha256(repr((kind, fragment, place, state)).encode())
    found.update(value)
    return found.digest()


def _is_whole(kind: str, fragment: int, place: int, state: str, value: object, digest: object) -> bool:
    return isinstance(value, bytes) and digest == _digest(kind, fragment, place, state, value)


def arrow_stream(batch: pa.RecordBatch) -> bytes:
    """A batch as an Arrow stream.

    Parameters
    ----------
    batch : pyarrow.RecordBatch

    Examples
    --------
    >>> batch_of(arrow_stream(pa.record_batch({"a": [1, 2]}))).num_rows
    2
    """
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def batch_of(stream: bytes) -> pa.RecordBatch | None:
    """The batch of an Arrow stream, None if it holds no valid one.

    Parameters
    ----------
    stream : bytes
    """
    try:
        batch = pa.ipc.open_stream(pa.py_buffer(stream)).read_next_batch()
        batch.validate(full=True)
    except (pa.ArrowException, StopIteration):
        return None
    return batch


class BatchUDFCheckpoint:
    """The checkpoint file of a :func:`lancecy.batch_udf`, or a file for results of a loop of one's own.

    :meth:`lancecy.Dataset.add_columns` keeps what it computes in entries of its own, which know the rows that they were
    computed from. The methods of this class do not see these, and ``add_columns`` does not see what is inserted here.

    Parameters
    ----------
    path : str or path
        A local file, which is made when it is first used.

    Attributes
    ----------
    path : Path

    Examples
    --------
    >>> import pyarrow as pa, tempfile
    >>> from lancecy.udf import BatchUDFCheckpoint
    >>> kept = BatchUDFCheckpoint(f"{tempfile.mkdtemp()}/results")
    >>> info = BatchUDFCheckpoint.BatchInfo(fragment_id=0, batch_index=3)
    >>> kept.insert_batch(info, pa.record_batch({"a": [1, 2]}))
    >>> kept.get_batch(info).to_pydict()
    {'a': [1, 2]}
    >>> kept.cleanup()
    """

    class BatchInfo(NamedTuple):
        """Which batch a result is of."""

        fragment_id: int
        batch_index: int

    def __init__(self, path: str | os.PathLike[str]) -> None:
        # A file, also if SQLite takes the name for memory; and not a link to it, which would be removed in its place.
        self.path = Path(os.path.realpath(path))

    def get_batch(self, info: BatchInfo) -> pa.RecordBatch | None:
        """The result of a batch, None if it was not inserted.

        Parameters
        ----------
        info : BatchUDFCheckpoint.BatchInfo
        """
        with CheckpointFile.opened(self.path) as file:
            found = file.find("own batch", *info)
        return None if found is None else batch_of(found)

    def insert_batch(self, info: BatchInfo, batch: pa.RecordBatch) -> None:
        """Keep the result of a batch.

        Parameters
        ----------
        info : BatchUDFCheckpoint.BatchInfo
        batch : pyarrow.RecordBatch
        """
        with CheckpointFile.opened(self.path) as file:
            file.put("own batch", arrow_stream(batch), *info)

    def get_fragment(self, fragment_id: int) -> str | None:
        """The text that was inserted for a fragment, None if there is none.

        Parameters
        ----------
        fragment_id : int
        """
        with CheckpointFile.opened(self.path) as file:
            found = file.find("own fragment", fragment_id)
        return None if found is None else found.decode()

    def insert_fragment(self, fragment_id: int, fragment: str) -> None:
        """Keep the text of a fragment that is complete, in place of the results of its batches.

        Parameters
        ----------
        fragment_id : int
        fragment : str
        """
        with CheckpointFile.opened(self.path) as file, file.together():
            file.put("own fragment", fragment.encode(), fragment_id)
            file.clear("own batch", fragment_id)

    def cleanup(self) -> None:
        """Remove the file."""
        self.path.unlink(missing_ok=True)
