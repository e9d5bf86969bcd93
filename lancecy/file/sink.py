"""Output of a data file to the store, and the common part of all writers.

Most of the time of a write is the system's copying; a thread does it while the caller encodes the next bytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import BinaryIO, TypeAlias

from lancecy.store.base import Memory
from lancecy.store.pools import submit
from lancecy.store.upload import Upload

__all__ = ["Sink", "StreamedWriter", "WriteBehind"]


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

    def write_aligned(self, buffers: Iterable[Memory], padding: bytes) -> list[int]:
        """Append each buffer at the next multiple of the length of ``padding``, and return their positions.

        Raises
        ------
        StoreError
            Bytes could not be written.
        """
        alignment, positions = len(padding), []
        for data in buffers:
            missing = -self.position % alignment
            if missing:
                self._small += padding[:missing]
                self.position += missing
            positions.append(self.position)
            size = data.size
            if size < _FEW:
                self._small += data.data
                self.position += size
                if len(self._small) >= _FEW:
                    self._flush()
            else:
                self.write(data)
        return positions

    def place(self, data: bytes | bytearray | memoryview) -> int:
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
            raise ValueError("this writer is closed: its file is finished or was discarded")

    @contextmanager
    def _given_up_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.abort()
            raise


Bytes: TypeAlias = "Memory | bytearray"

# Bytes that may wait to be written. Below the second number the caller writes: starting a thread would cost more.
_WAITING_BYTES = 32 << 20
_WORTH_BYTES = 4 << 20


class WriteBehind:
    """The writer of a stream that writes in a thread.

    Parameters
    ----------
    stream : BinaryIO
        Used by one thread at a time; not closed.

    Notes
    -----
    Bytes are written in the order given; the caller must not change them afterwards. An error is
    raised by a later call, at the latest by :meth:`drain`, and nothing is written after it.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._given = 0
        self._next: list[memoryview] = []
        self._next_bytes = 0
        self._waiting: deque[tuple[Future[None], int]] = deque()
        self._waiting_bytes = 0
        self._thread: ThreadPoolExecutor | None = None

    def write(self, data: Bytes) -> None:
        """Write the bytes, now or soon.

        Parameters
        ----------
        data : (nbytes,) uint8 or bytearray

        Raises
        ------
        StoreError
            These bytes, or earlier ones, could not be written.
        """
        view = memoryview(data if isinstance(data, bytearray) else data.data)
        self._given += view.nbytes
        if self._thread is None and self._given < _WORTH_BYTES:
            self._stream.write(view)
            return
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="lancecy-write")
        # Threads take turns in Python: each hand-over of a small piece would cost more than its write.
        self._next.append(view)
        self._next_bytes += view.nbytes
        if self._next_bytes >= _WORTH_BYTES:
            self._submit()

    def _submit(self) -> None:
        """Let the thread write what was given."""
        views, nbytes = self._next, self._next_bytes
        self._next, self._next_bytes = [], 0
        if self._thread is None or not views:
            return
        previous = self._waiting[-1][0] if self._waiting else None
        self._waiting.append((submit(self._thread, self._write_all, views, previous), nbytes))
        self._waiting_bytes += nbytes
        while self._waiting and (self._waiting_bytes > _WAITING_BYTES or self._waiting[0][0].done()):
            self._wait()

    def _write_all(self, views: list[memoryview], previous: Future[None] | None) -> None:
        # The caller writes if there is no thread any more, and the thread may still be at the previous bytes.
        if previous is not None:
            previous.result()
        for view in views:
            self._stream.write(view)

    def drain(self) -> None:
        """Wait until everything is written.

        Raises
        ------
        StoreError
            Something could not be written.
        """
        self._submit()
        while self._waiting:
            self._wait()
        self.stop()

    def stop(self) -> None:
        """Write nothing more, and wait for the write in progress."""
        self._next, self._next_bytes = [], 0
        self._waiting.clear()
        if self._thread is not None:
            self._thread.shutdown(wait=True, cancel_futures=True)

    def _wait(self) -> None:
        written, nbytes = self._waiting.popleft()
        try:
            written.result()
        except BaseException:
            self.stop()
            raise
        self._waiting_bytes -= nbytes
