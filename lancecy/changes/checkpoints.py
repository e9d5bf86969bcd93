"""Checkpoint files: results of an expensive function that survive a crash.

An SQLite file holds the results of the current fragment and the names of the data files written so far. Each entry
has the state of the rows that it was computed from, so entries of rows that have changed since are not used.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Self

import pyarrow as pa

from lancecy.changes.new_columns import FilledColumns, data_folder, stored_columns
from lancecy.errors import FormatError, LanceError
from lancecy.schema import Schema
from lancecy.table.manifest import DataFile, Fragment
from lancecy.table.snapshot import Snapshot
from lancecy.write.metadata import FragmentMetadata
from lancecy.write.schema_edits import renumbered
from lancecy.write.schemas import schema_of

__all__ = ["Checkpoint"]

_FORM = "lancecy 1"
_TABLES = """
CREATE TABLE IF NOT EXISTS about (key TEXT PRIMARY KEY, value BLOB);
CREATE TABLE IF NOT EXISTS batches (fragment INT, start INT, state TEXT, result BLOB, PRIMARY KEY (fragment, start));
CREATE TABLE IF NOT EXISTS files (fragment INT PRIMARY KEY, first_id INT, source TEXT, file TEXT);
"""


class Checkpoint:
    """The checkpoint file of one change; made by :meth:`opened`. Used by one thread.

    Parameters
    ----------
    path : Path
    connection : sqlite3.Connection
    snapshot : Snapshot
        A version of the table that gets the columns.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, snapshot: Snapshot) -> None:
        self._path, self._connection, self._snapshot = path, connection, snapshot
        self._reads: frozenset[int] = frozenset()

    @classmethod
    @contextmanager
    def opened(cls, path: Path, snapshot: Snapshot) -> Iterator[Self]:
        """The checkpoint file at a path, made if there is none; it is closed at the end of the block.

        Parameters
        ----------
        path : Path
        snapshot : Snapshot

        Raises
        ------
        FormatError
            It is no checkpoint file, or one for another table.
        OSError
            It cannot be read or made.
        """
        try:
            with closing(sqlite3.connect(path)) as connection:
                connection.executescript(_TABLES)
                made = cls(path, connection, snapshot)
                made._check()
                yield made
        except sqlite3.DatabaseError as error:
            raise FormatError(
                f"the checkpoint file cannot be used: {error}. Remove it, or name another one",
                path=os.fspath(path),
            ) from error

    def _check(self) -> None:
        stated = self._about("form"), self._about("table")
        mine = _FORM.encode(), self._snapshot.uri.encode()
        if stated == (None, None):
            with self._connection:
                self._put("form", mine[0])
                self._put("table", mine[1])
        elif stated != mine:
            raise FormatError(
                f"the checkpoint file is one of another table or library, {(stated[1] or b'?').decode()!r}: name another "
                "one, or remove it",
                path=os.fspath(self._path),
            )

    @property
    def columns(self) -> pa.Schema | None:
        """Columns of the results, None if nothing is stored yet."""
        stored = self._about("columns")
        return None if stored is None else pa.ipc.read_schema(pa.py_buffer(stored))

    def filled(self) -> FilledColumns:
        """The data files that were written and are still there."""
        columns, done = self.columns, FilledColumns()
        if columns is None:
            return done
        columns = stored_columns(self._snapshot, columns)
        done.reads = frozenset(json.loads(self._about("reads") or b"[]"))
        rows = self._connection.execute("SELECT first_id, source, file FROM files").fetchall()
        done.first_id = max((row[0] for row in rows), default=-1)
        done.written = schema_of(columns, done.first_id) if rows else None
        store, folder = data_folder(self._snapshot)
        for first_id, source, text in rows:
            fragment = FragmentMetadata.from_json(source)
            (file,) = FragmentMetadata.from_json(text).files
            ids = renumbered(schema_of(columns, first_id).fields, (done.written or Schema()).fields)
            with suppress(LanceError):
                if store.head(folder + file.path).size == file.size and (
                    first_id == done.first_id or not file.is_legacy
                ):
                    fields = tuple(ids[number] for number in file.fields)
                    done.files[fragment.id] = fragment, replace(file, fields=fields)
        return done

    def remove(self) -> None:
        """Remove the file."""
        self._path.unlink(missing_ok=True)

    # -- what a function computed (see ``batch_functions.BatchStore``)

    def begin(self, columns: pa.Schema, reads: frozenset[int]) -> None:
        """See ``BatchStore``.

        Raises
        ------
        FormatError
            The file has results with other columns.
        """
        stored = self.columns
        if stored is not None and not stored.equals(columns):
            raise FormatError(
                f"the checkpoint file has results with other columns, {', '.join(stored.names)}: name another one, or "
                "remove it",
                path=os.fspath(self._path),
            )
        self._reads = reads
        with self._connection:
            self._put("columns", columns.serialize().to_pybytes())
            self._put("reads", json.dumps(sorted(reads)).encode())

    def find(self, fragment: Fragment, start: int, num_rows: int) -> pa.RecordBatch | None:
        """See ``BatchStore``."""
        query = "SELECT result FROM batches WHERE fragment = ? AND start = ? AND state = ?"
        row = self._connection.execute(query, (fragment.id, start, self._state(fragment))).fetchone()
        if row is None:
            return None
        found = pa.ipc.open_stream(pa.py_buffer(row[0])).read_next_batch()
        return found if found.num_rows == num_rows else None

    def store(self, fragment: Fragment, start: int, result: pa.RecordBatch) -> None:
        """See ``BatchStore``."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, result.schema) as writer:
            writer.write_batch(result)
        with self._connection:
            self._connection.execute(
                "INSERT OR REPLACE INTO batches VALUES (?, ?, ?, ?)",
                (fragment.id, start, self._state(fragment), sink.getvalue().to_pybytes()),
            )

    # -- what was written (see ``new_columns.Keeper``)

    def keep(self, fragment: Fragment, written: Schema, file: DataFile) -> None:
        """See ``Keeper``."""
        with self._connection:
            self._connection.execute(
                "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?)",
                (fragment.id, written.fields[0].id, _text(fragment), _text(Fragment(fragment.id, (file,)))),
            )
            self._connection.execute("DELETE FROM batches WHERE fragment = ?", (fragment.id,))

    def _state(self, fragment: Fragment) -> str:
        """A digest of the rows that a function gets, deletions included."""
        inputs = sorted(
            (number, file.path) for file in fragment.files for number in file.fields if number in self._reads
        )
        text = repr((inputs, fragment.physical_rows, fragment.deletion_file))
        return sha256(text.encode()).hexdigest()

    def _about(self, key: str) -> bytes | None:
        row = self._connection.execute("SELECT value FROM about WHERE key = ?", (key,)).fetchone()
        return None if row is None else row[0]

    def _put(self, key: str, value: bytes) -> None:
        self._connection.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (key, value))


def _text(fragment: Fragment) -> str:
    """A fragment as JSON, without its row ids, which may be long."""
    plain = replace(fragment, row_ids=None, created_at_versions=None, last_updated_versions=None)
    return json.dumps(FragmentMetadata.of(plain).to_json())
