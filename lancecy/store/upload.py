"""Writers whose ``close`` publishes an object whole or not at all.

Nothing is published when a ``with`` block is left by an exception, after ``abort``,
when the writer is garbage-collected, or by ``close`` once a write has failed.
"""

from __future__ import annotations

import io
import os
from types import TracebackType
from typing import TYPE_CHECKING

from lancecy.errors import StoreError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["Upload"]


class Upload(io.BufferedIOBase):
    """Base of the stores' writers; subclasses define ``_append``, ``_publish`` and ``_discard``.

    Parameters
    ----------
    path, store : str
        For messages.
    """

    def __init__(self, path: str, store: str) -> None:
        super().__init__()
        self._path = path
        self._store = store
        self._position = 0
        self._failed = False
        self._process = os.getpid()

    def _append(self, data: memoryview) -> None:
        raise io.UnsupportedOperation("write")

    def _publish(self) -> None:
        raise io.UnsupportedOperation("close")

    def _discard(self) -> None:
        """Remove what was written; must not fail if nothing was."""

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        """Bytes written so far."""
        return self._position

    def write(self, data: ReadableBuffer, /) -> int:
        """Append all of the bytes, or raise."""
        if self.closed:
            raise ValueError("write to a closed writer")
        view = memoryview(data).cast("B")
        try:
            self._append(view)
        except BaseException:
            self._failed = True
            raise
        self._position += view.nbytes
        return view.nbytes

    def close(self) -> None:
        """Publish the object.

        Raises
        ------
        StoreError
            An earlier write or the publishing failed; nothing is published.
        """
        if self.closed:
            return
        if self._failed:
            self.abort()
            raise StoreError(
                f"a write to {self._path!r} failed, nothing is published", path=self._path, store=self._store
            )
        try:
            self._publish()
        except BaseException:
            self._discard()
            raise
        finally:
            super().close()

    def abort(self) -> None:
        """Discard what was written."""
        if self.closed:
            return
        try:
            self._discard()
        finally:
            super().close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def __del__(self) -> None:
        # The base class would close the file, and so publish half an object. In a forked child the upload
        # still belongs to the parent.
        if not self.closed and os.getpid() == self._process:
            self.abort()
