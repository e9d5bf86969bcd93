"""What an expensive function computed survives a crash.

A checkpoint file holds the results of the current fragment and the names of the data files written so far. Each entry
has the state of the rows that it was computed from, so entries of rows that have changed since are not used.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any, Self

import pyarrow as pa

from lancecy.changes.checkpoint_files import CheckpointFile, arrow_stream, batch_of
from lancecy.changes.new_columns import FilledColumns, data_folder, stored_columns
from lancecy.errors import LanceError, printable
from lancecy.schema import Schema
from lancecy.table.manifest import DataFile, Fragment
from lancecy.table.snapshot import Snapshot
from lancecy.write.metadata import FragmentMetadata
from lancecy.write.schema_edits import renumbered
from lancecy.write.schemas import schema_of

__all__ = ["Checkpoint"]


class Checkpoint:
    """The results of one change; made by :meth:`opened`. Used by one thread.

    Parameters
    ----------
    file : CheckpointFile
    snapshot : Snapshot
        A version of the table that gets the columns.
    """

    def __init__(self, file: CheckpointFile, snapshot: Snapshot) -> None:
        self._file, self._snapshot = file, snapshot
        self._columns: pa.Schema | None = None
        self._reads: frozenset[int] = frozenset()

    @classmethod
    @contextmanager
    def opened(cls, path: Path, snapshot: Snapshot, function: Callable[..., Any]) -> Iterator[Self]:
        """The checkpoint file at a path, made if there is none; it is closed at the end of the block.

        Parameters
        ----------
        path : Path
        snapshot : Snapshot
        function : function

        Raises
        ------
        FormatError
            It is no checkpoint file, or one for another table or function.
        StoreError
            It is in use, or cannot be read or made.
        """
        with CheckpointFile.opened(path) as file:
            made = cls(file, snapshot)
            made._check("table", snapshot.uri)
            made._check("function", _name(function))
            yield made

    def _check(self, kind: str, mine: str) -> None:
        stated = self._file.about(kind)
        if stated is None:
            self._file.put(kind, mine.encode())
        elif stated != mine.encode():
            raise self._file.error(
                f"has results for another {kind}, {printable(stated.decode(errors='replace'))!r}, and not for "
                f"{printable(mine)!r}: name another one, or remove it"
            )

    @property
    def columns(self) -> pa.Schema | None:
        """Columns of the results, None if nothing is stored yet."""
        stored = self._file.about("columns")
        return None if stored is None else pa.ipc.read_schema(pa.py_buffer(stored))

    def filled(self) -> FilledColumns:
        """The data files that were written and are still there."""
        columns, done = self.columns, FilledColumns()
        if columns is None:
            return done
        columns = stored_columns(self._snapshot, columns)
        done.reads = frozenset(json.loads(self._file.about("reads") or b"[]"))
        entries = self._file.all("file")
        done.first_id = max((first_id for _, first_id, _ in entries), default=-1)
        done.written = schema_of(columns, done.first_id) if entries else None
        now = {held.path for fragment in self._snapshot.fragments for held in fragment.files}
        for number, first_id, text in entries:
            ids = renumbered(schema_of(columns, first_id).fields, (done.written or Schema()).fields)
            try:
                source, file = self._stored(text, now)
            except (LanceError, ValueError, TypeError, LookupError):
                continue  # The file is gone, or the entry is not one of ours.
            if first_id == done.first_id or not file.is_legacy:
                fields = tuple(ids[number] for number in file.fields)
                done.files[number] = source, replace(file, fields=fields)
        return done

    def _stored(self, text: bytes, now: Collection[str]) -> tuple[Fragment, DataFile]:
        """A data file that is still there, and the fragment that it was written for; ``now`` are the table's files."""
        source, added = map(FragmentMetadata.from_json, json.loads(text))
        (file,) = added.files
        if PurePosixPath(file.path).name != file.path:
            raise ValueError(f"{printable(file.path)!r} is no name of a data file")
        if file.path in now or not any(held.path in now for held in source.files):
            raise LookupError(f"fragment {source.id} has the columns already, or was replaced")
        store, folder = data_folder(self._snapshot)
        if store.head(folder + file.path).size != file.size:
            raise ValueError(f"{printable(file.path)!r} has another size")
        return source, file

    # -- what a function computed (see ``batch_functions.BatchStore``)

    def begin(self, columns: pa.Schema, reads: frozenset[int]) -> None:
        """See ``BatchStore``.

        Raises
        ------
        FormatError
            The file has results with other columns.
        """
        stored = self.columns
        if stored is not None and not stored.equals(columns, check_metadata=True):
            raise self._file.error(
                f"has results with other columns, {printable(', '.join(stored.names))}: name another one, or remove it"
            )
        self._columns, self._reads = columns, reads
        with self._file.together():
            self._file.put("columns", columns.serialize().to_pybytes())
            self._file.put("reads", json.dumps(sorted(reads)).encode())

    def find(self, fragment: Fragment, start: int, num_rows: int) -> pa.RecordBatch | None:
        """See ``BatchStore``."""
        stored = self._file.find("batch", fragment.id, start, self._state(fragment))
        found = None if stored is None else batch_of(stored)
        is_right = found is not None and found.num_rows == num_rows and found.schema.equals(self._columns)
        return found if is_right else None

    def store(self, fragment: Fragment, start: int, result: pa.RecordBatch) -> None:
        """See ``BatchStore``."""
        self._file.put("batch", arrow_stream(result), fragment.id, start, self._state(fragment))

    # -- what was written (see ``new_columns.Keeper``)

    def keep(self, fragment: Fragment, written: Schema, file: DataFile) -> None:
        """See ``Keeper``."""
        text = json.dumps([_as_json(fragment), _as_json(Fragment(fragment.id, (file,)))])
        with self._file.together():
            self._file.put("file", text.encode(), fragment.id, written.fields[0].id)
            self._file.clear("batch", fragment.id)

    def _state(self, fragment: Fragment) -> str:
        """A digest of the rows that a function gets, deletions included."""
        inputs = sorted(
            (number, file.path)
            for file in fragment.files
            for number in file.fields
            # A function of row ids alone reads no file, and yet its rows are those of the fragment.
            if number in self._reads or not self._reads
        )
        text = repr((inputs, fragment.physical_rows, fragment.deletion_file))
        return sha256(text.encode()).hexdigest()


def _name(function: Callable[..., Any]) -> str:
    """The name of a function, or of the class of an object that is called."""
    while isinstance(function, partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))


def _as_json(fragment: Fragment) -> dict[str, Any]:
    """A fragment without its row ids, which may be long."""
    plain = replace(fragment, row_ids=None, created_at_versions=None, last_updated_versions=None)
    return FragmentMetadata.of(plain).to_json()
