"""Output of a data file to the store, and the common part of all writers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from lancecy.store.base import Memory
from lancecy.store.upload import Upload
from lancecy.store.write_behind import WriteBehind

__all__ = ["Sink", "StreamedWriter"]

_FEW = 1 << 16


class Sink:
    """Buffers small writes to a stream and passes large ones to a thread.

    Parameters
    ----------
    stream : BinaryIO
        Its ``close`` publishes the file.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._behind = WriteBehind(stream)
        self._small = bytearray()
        self.position = 0
        """Bytes appended so far."""

    def write(self, data: Memory) -> None:
        """Append bytes to the file.

        Raises
        ------
        StoreError
            Bytes could not be written.
        """
        if data.size < _FEW:
            self.place(data.data)
            return
        self._flush()
        self._behind.write(data)
        self.position += data.size

    def place(self, data: bytes | memoryview) -> int:
        """Copy the bytes, and return their position in the file.

        Raises
        ------
        StoreError
            Bytes could not be written.
        """
        position = self.position
        self._small += data
        self.position += len(data)
        if len(self._small) >= _FEW:
            self._flush()
        return position

    def finish(self) -> None:
        """Write all buffered bytes, and wait until they are written.

        Raises
        ------
        StoreError
            Bytes could not be written.
        """
        self._flush()
        self._behind.drain()

    def close(self) -> None:
        """Publish the finished file.

        Raises
        ------
        StoreError
            The file could not be published.
        """
        self._stream.close()

    def abort(self) -> None:
        """Stop writing and discard the file."""
        self._behind.stop()
        if isinstance(self._stream, Upload):
            self._stream.abort()

    def _flush(self) -> None:
        small, self._small = self._small, bytearray()
        if small:
            self._behind.write(small)


class StreamedWriter:
    """Base of ``FileWriter``s: a file is finished once, or aborted.

    Parameters
    ----------
    stream : BinaryIO
        Its ``close`` publishes the file.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._sink = Sink(stream)
        self._is_done = False

    @property
    def nbytes(self) -> int:
        """Bytes written so far."""
        return self._sink.position

    def abort(self) -> None:
        """Publish nothing; see ``FileWriter.abort``."""
        self._is_done = True
        self._sink.abort()

    def _publish(self) -> None:
        self._is_done = True
        self._sink.close()

    def _require_open(self) -> None:
        if self._is_done:
            raise ValueError("the file is finished, or was given up")

    @contextmanager
    def _given_up_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.abort()
            raise
