"""Write-behind: a thread writes bytes while the caller makes the next ones.

Most of the time of a write is the system's copying; encoding can use another processor meanwhile.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import BinaryIO, TypeAlias

from lancecy.store.base import Memory

__all__ = ["WriteBehind"]

Bytes: TypeAlias = "Memory | bytearray"

# Bytes that may wait to be written. Below the second number the caller writes: starting a thread would cost more.
_WAITING_BYTES = 32 << 20
_WORTH_BYTES = 1 << 20


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
        self._waiting: deque[tuple[Future[object], int]] = deque()
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
        self._waiting.append((self._thread.submit(self._stream.write, view), view.nbytes))
        self._waiting_bytes += view.nbytes
        while self._waiting and (self._waiting_bytes > _WAITING_BYTES or self._waiting[0][0].done()):
            self._wait()

    def drain(self) -> None:
        """Wait until everything is written.

        Raises
        ------
        StoreError
            Something could not be written.
        """
        while self._waiting:
            self._wait()
        self.stop()

    def stop(self) -> None:
        """Write nothing more, and wait for the write in progress."""
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
