"""Writers whose ``close`` publishes an object whole, or not at all.

Leaving a ``with`` block by an exception, ``abort`` and being forgotten publish
nothing, and neither does ``close`` once a write has failed.
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
        """Remove what was written; must not fail when there is nothing."""

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        """Bytes written so far."""
        return self._position

    def write(self, data: ReadableBuffer, /) -> int:
        """Append the bytes; all of them or an error."""
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
            A write failed before, or publishing does; nothing is published then.
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
        """Publish nothing."""
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
        # The base class would close, and so publish half an object. In a forked child the upload
        # still belongs to the parent.
        if not self.closed and os.getpid() == self._process:
            self.abort()
