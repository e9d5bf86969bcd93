"""Blobs as files; bytes are fetched when they are read."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from lancecy.errors import DatasetNotFoundError, FormatError, printable
from lancecy.session import Session
from lancecy.store.base import Memory, Store
from lancecy.store.reads import Ranges, SourceFile

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = [
    "BUFFER_SIZE",
    "BlobFile",
    "Explain",
    "StoredObject",
    "checked_range",
    "read_together",
    "read_whole",
]

Locate: TypeAlias = Callable[[], tuple[Store, str]]
Explain: TypeAlias = Callable[[DatasetNotFoundError], DatasetNotFoundError]

BUFFER_SIZE = 512 << 10
"""Bytes fetched ahead of a sequential reader."""


class StoredObject:
    """A stored object, shared by the blobs in it; its size is looked up on first use.

    Parameters
    ----------
    locate : function
        Returns the store of the object and its path there.
    source : SourceFile, optional
        The object, if its size is known.
    explain : function, optional
        Makes the error for a missing object from that of the store.
    """

    def __init__(
        self, locate: Locate, source: SourceFile | None = None, explain: Explain | None = None
    ) -> None:
        self._locate = locate
        self._source = source
        self._explain = explain

    @property
    def source(self) -> SourceFile:
        """The object with its size."""
        if self._source is None:
            store, path = self._locate()
            try:
                meta = store.head(path)
            except DatasetNotFoundError as error:
                raise self.explained(error)
            self._source = SourceFile(store, path, meta.size, meta.identity)
        return self._source

    def explained(self, error: DatasetNotFoundError) -> DatasetNotFoundError:
        """The error for the missing object, to be raised."""
        return error if self._explain is None else self._explain(error)

    def fetch(self, session: Session, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Ranges of ``(position, length)`` of the object, fetched together."""
        starts, lengths = np.array(ranges, np.int64).reshape(-1, 2).T.copy()
        try:
            (span,) = session.fetch([Ranges(self.source, starts, lengths)])
        except DatasetNotFoundError as error:
            raise self.explained(error)
        spans = zip(span.positions.tolist(), lengths.tolist(), strict=True)
        return [_exactly(span.memory, start, length) for start, length in spans]


class BlobFile(io.BufferedIOBase):
    """One blob as a read-only file.

    Nothing is fetched before the first read. A sequential reader of an object that is not memory-mapped
    gets ``buffer_size`` bytes ahead in one request; ``read_range`` and ``read_ranges`` fetch exactly the
    requested bytes. Not thread-safe. ``Dataset.take_blobs`` makes them.

    Parameters
    ----------
    session : Session
    place : StoredObject
        The object that holds the bytes; looked up at the first use.
    position : int, bytes
        Start of the blob in the object.
    size : int or None, bytes
        None means to the end of the object.
    buffer_size : int, bytes
        Bytes fetched ahead of a sequential reader.

    Raises
    ------
    FormatError
        On the first use: the descriptor exceeds the object. TruncatedError if the object has shrunk since.
    DatasetNotFoundError
        On the first use: the object is missing (``MissingFileError`` for a blob of a table).

    Examples
    --------
    >>> from lancecy.store.memory import MemoryStore
    >>> store = MemoryStore()
    >>> _ = store.put("a.bin", b"one blob, another")
    >>> blob = BlobFile(Session(), StoredObject(lambda: (store, "a.bin")), 10, 7, BUFFER_SIZE)
    >>> blob.read(2), blob.read(), blob.size()
    (b'an', b'other', 7)
    """

    def __init__(
        self, session: Session, place: StoredObject, position: int, size: int | None, buffer_size: int
    ) -> None:
        super().__init__()
        self._session = session
        self._place = place
        self._position = position
        self._size = size
        self._buffer_size = buffer_size
        self._cursor = 0
        self._ahead = b""
        self._ahead_start = 0

    def __repr__(self) -> str:
        size = "whole object" if self._size is None else f"size={self._size}"
        return f"<BlobFile {size}>"

    # -- as a file

    def readable(self) -> bool:
        """Always true."""
        return True

    def seekable(self) -> bool:
        """Always true."""
        return True

    def tell(self) -> int:
        """Position of the next read."""
        self._check_open()
        return self._cursor

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set the position and return it; reading beyond the end returns nothing.

        Parameters
        ----------
        offset : int, bytes
        whence : int
            Origin of ``offset``: ``io.SEEK_SET`` (the start), ``SEEK_CUR`` (the current position) or ``SEEK_END``.

        Raises
        ------
        ValueError
            The position is before the start, or ``whence`` is invalid.
        """
        self._check_open()
        if whence not in (io.SEEK_SET, io.SEEK_CUR, io.SEEK_END):
            raise ValueError(f"invalid whence: {whence}")
        start = (0, self._cursor, self.size() if whence == io.SEEK_END else 0)[whence]
        if start + offset < 0:
            raise ValueError(f"negative seek value {start + offset}")
        self._cursor = start + offset
        return self._cursor

    def size(self) -> int:
        """Size of the blob in bytes."""
        if self._size is None:
            source = self._place.source
            if self._position > source.size:
                raise FormatError(
                    f"a blob starts at byte {self._position} of an object of {source.size} bytes"
                )
            self._size = source.size - self._position
        return self._size

    def read(self, size: int | None = -1, /) -> bytes:
        """Up to ``size`` bytes from the current position; all bytes if it is negative or None."""
        self._check_open()
        rest = max(0, self.size() - self._cursor)
        count = rest if size is None or size < 0 else min(size, rest)
        data = self._sequential(count) if count else b""
        self._cursor += count
        return data

    def read1(self, size: int | None = -1, /) -> bytes:
        """The same as :meth:`read`, which makes one request at most; ``size`` as there."""
        return self.read(size)

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Fill a buffer with the bytes left and return their number."""
        self._check_open()
        view = memoryview(buffer).cast("B")
        count = min(view.nbytes, max(0, self.size() - self._cursor))
        if count:
            view[:count] = self._sequential(count)
            self._cursor += count
        return count

    def readall(self) -> bytes:
        """All bytes from the current position, in one request."""
        return self.read()

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on a closed blob")

    def _sequential(self, count: int) -> bytes:
        """``count`` bytes from the current position; more are fetched ahead."""
        within = self._cursor - self._ahead_start
        if 0 <= within <= len(self._ahead) - count:
            return self._ahead[within : within + count]
        wanted = min(max(count, self._buffer_size), self.size() - self._cursor)
        if wanted == count or self._place.source.store.traits.is_mapped:
            return self._fetch([(self._cursor, count)])[0]
        (self._ahead,) = self._fetch([(self._cursor, wanted)])
        self._ahead_start = self._cursor
        return self._ahead[:count]

    # -- by range

    def read_range(self, offset: int, length: int) -> bytes:
        """``length`` bytes from ``offset``; the position does not change.

        Raises
        ------
        ValueError
            The range is negative or passes the end of the blob.
        """
        return self.read_ranges([(offset, length)])[0]

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Several ranges of ``(offset, length)``, fetched together; the position does not change.

        Raises
        ------
        ValueError
            A range is negative or passes the end of the blob.
        """
        self._check_open()
        return self._fetch([checked_range(self, *each) for each in ranges])

    def _fetch(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        if not any(length for _, length in ranges):
            return [b""] * len(ranges)
        return self._place.fetch(self._session, self._placed(ranges))

    def _placed(self, ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """The ranges within the object, which must have all of the blob."""
        source, size = self._place.source, self.size()
        if self._position > source.size or size > source.size - self._position:
            raise FormatError(
                f"a blob claims {size} bytes at {self._position} of {printable(source.path)!r}, which has "
                f"{source.size}"
            )
        return [(self._position + offset, length) for offset, length in ranges]


def checked_range(blob: BlobFile, offset: int, length: int) -> tuple[int, int]:
    """The range itself, which is within the blob.

    Raises
    ------
    ValueError
        The range is negative or passes the end of the blob.
    """
    size = blob.size()
    if offset < 0 or length < 0 or offset > size or length > size - offset:
        raise ValueError(f"cannot read bytes {offset} to {offset + length} of a blob of {size} bytes")
    return offset, length


def read_together(
    session: Session, requests: Sequence[tuple[BlobFile, tuple[int, int] | None]]
) -> list[bytes]:
    """Bytes of several blobs: those in one object are fetched together, and objects side by side.

    Parameters
    ----------
    session : Session
    requests : sequence of (BlobFile, (offset, length) or None)
        None asks for the whole blob.

    Raises
    ------
    ValueError
        A range passes the end of its blob.

    Examples
    --------
    >>> from lancecy.store.memory import MemoryStore
    >>> store, session = MemoryStore(), Session()
    >>> _ = store.put("a.bin", b"one blob, another")
    >>> place = StoredObject(lambda: (store, "a.bin"))
    >>> one, other = (BlobFile(session, place, *where, 0) for where in ((0, 8), (10, 7)))
    >>> read_together(session, [(other, None), (one, (4, 2))])
    [b'another', b'bl']
    """
    places: dict[StoredObject, list[int]] = {}
    for number, (blob, _) in enumerate(requests):
        places.setdefault(blob._place, []).append(number)

    def read(numbers: Sequence[int]) -> list[bytes]:
        ranges: list[tuple[int, int]] = []
        for blob, part in (requests[number] for number in numbers):
            whole = (0, blob.size())
            ranges += blob._placed([whole if part is None else checked_range(blob, *part)])
        return (
            blob._place.fetch(session, ranges) if any(length for _, length in ranges) else [b""] * len(ranges)
        )

    groups = list(places.values())
    found = dict(zip(chain(*groups), chain(*session.map_requests(read, groups)), strict=True))
    return [found[number] for number in range(len(requests))]


def read_whole(session: Session, blobs: Sequence[BlobFile | None]) -> list[bytes | None]:
    """The bytes of several blobs, fetched as by :func:`read_together`; None stays None."""
    found = iter(read_together(session, [(blob, None) for blob in blobs if blob is not None]))
    return [None if blob is None else next(found) for blob in blobs]


def _exactly(memory: Memory, start: int, length: int) -> bytes:
    data = memory[start : start + length].tobytes()
    if len(data) != length:
        raise FormatError(f"the store returned {len(data)} of {length} bytes of a blob")
    return data
