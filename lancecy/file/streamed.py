"""What writers of all versions do with the stream of their file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from lancecy.file.sink import Sink

__all__ = ["StreamedWriter"]


class StreamedWriter:
    """The half of a ``FileWriter`` that knows no format: a file is taken to its end once, or given up.

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
