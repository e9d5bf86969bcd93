"""Objects beside a data file that hold its larger blobs, written as they arrive.

Source: file sheet 2.1, section 3.11.
"""

from __future__ import annotations

from contextlib import suppress
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.errors import LanceError
from lancecy.store.base import Memory, Store
from lancecy.store.upload import Upload

__all__ = ["Sidecars", "sidecar_path"]

Int64 = NDArray[np.int64]

_RUN = 16 << 20


def sidecar_path(path: str, number: int) -> str:
    """Path of an object beside a data file.

    Examples
    --------
    >>> sidecar_path("data/f.lance", 2)
    'data/f/01000000000000000000000000000000.blob'
    """
    return f"{path.removesuffix('.lance')}/{f'{number:032b}'[::-1]}.blob"


class Sidecars:
    """The objects of one data file, numbered from 1.

    Parameters
    ----------
    store : Store
    path : str
        Path of the data file.
    """

    def __init__(self, store: Store, path: str) -> None:
        self._store, self._path = store, path
        self._paths: list[str] = []
        self._shared: BinaryIO | None = None
        # State of the shared object during writing.
        self._number, self._size = 0, 0

    def share(self, memory: Memory, starts: Int64, lengths: Int64, most: int) -> tuple[Int64, Int64]:
        """Write values back to back; see ``BlobPlaces``."""
        numbers, positions = np.empty_like(lengths), np.empty_like(lengths)
        ends, first = np.cumsum(lengths), 0
        while first < lengths.size:
            begin = int(ends[first] - lengths[first])
            if self._shared is None or (self._size and self._size + lengths[first] > most):
                self.finish()
                self._shared = self._open()
                self._number = len(self._paths)
            room = min(max(0, most - self._size), _RUN)
            last = max(first + 1, int(np.searchsorted(ends, begin + room, "right")))
            numbers[first:last] = self._number
            offsets = ends[first:last] - lengths[first:last] - begin
            positions[first:last] = self._size + offsets
            run = np.empty(int(ends[last - 1]) - begin, np.uint8)
            kernels.place_spans(memory, starts[first:last], lengths[first:last], run, offsets)
            self._shared.write(run.data)
            self._size += run.size
            first = last
        return numbers, positions

    def part(self, memory: Memory, starts: Int64, lengths: Int64) -> Int64:
        """Write each value to its own object; see ``BlobPlaces``."""
        first = len(self._paths) + 1
        for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
            with self._open() as stream:
                stream.write(memory[start : start + length].data)
        return np.arange(first, first + lengths.size)

    def _open(self) -> BinaryIO:
        self._paths.append(sidecar_path(self._path, len(self._paths) + 1))
        return self._store.put_stream(self._paths[-1])

    def finish(self) -> None:
        """Publish the objects that are not published yet.

        Raises
        ------
        StoreError
            Bytes could not be written.
        """
        stream, self._shared, self._size = self._shared, None, 0
        if stream is not None:
            stream.close()

    def abort(self) -> None:
        """Remove all objects, as far as the store allows."""
        stream, self._shared = self._shared, None
        if isinstance(stream, Upload):
            stream.abort()
        paths, self._paths = self._paths, []
        with suppress(LanceError):
            self._store.delete(paths)
