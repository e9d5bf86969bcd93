"""Index files: Lance files of 2.x with their own schema, opened once per session.

Values of the schema's metadata may name further buffers of the file by their number; buffer 0 is the schema itself.

Source: sheet of indices, section B1.3.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from lancecy.encodings.arrow.columns import ArrowArray, as_array
from lancecy.encodings.arrow.to_arrow import to_arrow
from lancecy.encodings.model.block import Block as ColumnBlock
from lancecy.errors import FormatError, LanceError
from lancecy.file.standalone import StandaloneFile, open_standalone
from lancecy.file.tail import read_parts, read_tail
from lancecy.file.v2.meta import GlobalBuffers, read_global_buffers
from lancecy.limits import Limits
from lancecy.records import dataclass
from lancecy.rows import RowSelection
from lancecy.schema import Field
from lancecy.session import Session
from lancecy.store.base import Memory, Store
from lancecy.store.fetch import Block, FileKey, RetainingFetch, file_key
from lancecy.store.reads import Ranges, Read, SourceFile, named, run

__all__ = ["IndexFile", "load_index_file", "open_index_file"]

_PART_OF_CACHE = 2

_AT_ONCE = 2 << 20
"""Pages within so many bytes are fetched whole, in one request."""


@dataclass(frozen=True, eq=False)
class IndexFile:
    """An opened index file.

    Attributes
    ----------
    source : SourceFile
    session : Session
    limits : Limits
    """

    source: SourceFile
    session: Session
    limits: Limits
    _file: StandaloneFile = field(repr=False)
    _held: Block | None = field(repr=False)

    @property
    def num_rows(self) -> int:
        """Rows of the file."""
        return self._file.reader.num_rows

    @property
    def metadata(self) -> Mapping[str, str]:
        """Metadata of the schema."""
        found = self._file.schema.metadata
        return {_text(name): _text(value) for name, value in found.items()}

    def type_of(self, name: str) -> pa.DataType:
        """Arrow type of a column.

        Raises
        ------
        FormatError
            The file has no such column.
        """
        return self._field(name).arrow_type

    def read(self, names: Sequence[str], rows: RowSelection | None = None) -> list[pa.Array]:
        """Columns of the file, read together.

        Parameters
        ----------
        names : sequence of str
        rows : RowSelection or None
            Rows of the file; None means all.

        Raises
        ------
        FormatError, LimitError
            The file is damaged, or has no such column.
        """
        fields = [self._field(name) for name in names]
        selection = RowSelection.all(self.num_rows) if rows is None else rows
        if not len(selection):
            return [pa.nulls(0, wanted.arrow_type) for wanted in fields]
        blocks = run(self._read(fields, selection), self._fetch())
        try:
            columns: list[ArrowArray] = [to_arrow(blocks[wanted.id], wanted) for wanted in fields]
        except LanceError as error:
            raise error.within(self.source.path)
        return [as_array(column) for column in columns]

    def buffer(self, name: str) -> Memory | None:
        """The further buffer that a value of the metadata names; None without such a value.

        Parameters
        ----------
        name : str
            Key in the metadata.

        Raises
        ------
        FormatError, LimitError
            The file has no buffer of that number.
        """
        stated = self.metadata.get(name)
        if stated is None:
            return None
        buffers = self._buffers
        if not stated.isdecimal() or len(stated) > 9 or not 0 < int(stated) < buffers.positions.size:
            raise FormatError(
                f"{name} is {stated!r}, but the file has {buffers.positions.size} buffers"
            ).within(self.source.path)
        number = int(stated)
        part = (int(buffers.positions[number]), int(buffers.lengths[number]))
        self.limits.check("metadata_bytes", part[1], f"buffer {number} of {self.source.path}")
        return run(named(self._part(part), self.source.path), self._fetch())

    @cached_property
    def _buffers(self) -> GlobalBuffers:
        """The further buffers, whose table lies in the bytes that opening the file has read."""
        return run(named(read_global_buffers(self.source, self.limits), self.source.path), self._fetch())

    def _read(self, fields: Sequence[Field], rows: RowSelection) -> Read[dict[int, ColumnBlock]]:
        """Columns as blocks; pages that lie together are fetched in one request, as each request takes long."""
        reader = self._file.reader
        extent = None if self.source.store.traits.is_mapped else reader.extent_of(fields, *rows.ends)
        if extent is not None and extent[1] - extent[0] <= _AT_ONCE:
            first, length = np.array([extent[0]], np.int64), np.array([extent[1] - extent[0]], np.int64)
            yield [Ranges(self.source, first, length)]
        return (yield from reader.read(fields, rows))

    def _part(self, part: tuple[int, int]) -> Read[Memory]:
        tail = yield from read_tail(self.source)
        (found,) = yield from read_parts(self.source, tail, [part])
        return found

    def _field(self, name: str) -> Field:
        for top in self._file.schema.fields:
            if top.name == name:
                return top
        known = ", ".join(self._file.schema.names)
        raise FormatError(f"the index file has the columns {known}, not {name}").within(self.source.path)

    def _fetch(self) -> RetainingFetch:
        known: dict[FileKey, Block] = {}
        if self._held is not None:
            known[file_key(self.source)] = self._held
        return self.session.fetcher(known=known)


def open_index_file(store: Store, path: str, size: int | None, session: Session, limits: Limits) -> IndexFile:
    """Open an index file; the session keeps it.

    Parameters
    ----------
    store : Store
    path : str
        Contains a UUID: no other file ever gets the name.
    size : int or None, bytes
        As the manifest states it, which saves a request where files are not mapped.
    session : Session
    limits : Limits

    Raises
    ------
    FormatError, LimitError, UnsupportedError
        The file is damaged, or no data file of 2.x.
    DatasetNotFoundError
        It is missing.
    """
    if size and not store.traits.is_mapped:
        try:
            return _kept(SourceFile(store, path, size, "as stated"), session, limits)
        except FormatError:
            pass  # the stated size is wrong: the store decides
    meta = store.head(path)
    return _kept(SourceFile(store, path, meta.size, meta.identity), session, limits)


def load_index_file(file: IndexFile) -> None:
    """Fetch all bytes of a file, and leave them to the session, if they take at most half of its cache.

    Parameters
    ----------
    file : IndexFile
        Those opened later have the bytes. Files that are mapped need none of this.

    Raises
    ------
    StoreError
        The file could not be read.
    """
    source, session = file.source, file.session
    is_held = file._held is not None and file._held.arena.size == source.size
    if is_held or source.store.traits.is_mapped or source.size > session.cache.limit // _PART_OF_CACHE:
        return
    fetch = session.fetcher(limit=source.size)
    fetch([Ranges(source, np.zeros(1, np.int64), np.array([source.size], np.int64))])
    loaded = replace(file, _held=fetch.held(source))
    session.cache.keep(_key(source), loaded, _nbytes(loaded))


def _key(source: SourceFile) -> tuple[Hashable, ...]:
    return "index file", source.key


def _kept(source: SourceFile, session: Session, limits: Limits) -> IndexFile:
    return session.cache.get(_key(source), lambda: _opened(source, session, limits), _nbytes)


def _opened(source: SourceFile, session: Session, limits: Limits) -> IndexFile:
    fetch = session.fetcher()
    file = run(open_standalone(source, limits, session.cache), fetch)
    return IndexFile(source, session, limits, file, fetch.held(source))


def _nbytes(file: IndexFile) -> int:
    held = 0 if file._held is None else file._held.arena.nbytes
    return file._file.reader.nbytes + held + 1000


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
