"""Record batches of the first epoch, kept on disk for the next ones."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

__all__ = ["BatchCache"]


class BatchCache:
    """Batches in unnamed temporary files, which end with the process that wrote them.

    Parameters
    ----------
    folder : str, path or True
        Where the files are made; True for the folder of temporary files of the system.
    """

    def __init__(self, folder: str | os.PathLike[str] | bool) -> None:
        self._folder = None if folder is True else Path(os.fspath(folder))  # type: ignore[arg-type]
        self._files: dict[Hashable, IO[bytes]] = {}

    def batches(
        self, key: Hashable, read: Callable[[], Iterator[pa.RecordBatch]]
    ) -> Iterator[pa.RecordBatch]:
        """The batches of a stream, from the file if it was read to its end before.

        Parameters
        ----------
        key : hashable
            Which stream it is.
        read : function
            Makes the stream.
        """
        # A forked worker reads a file of its parent as well: both streams are the same.
        kept = self._files.get(key)
        return self._written(key, read()) if kept is None else _read(kept)

    def _written(self, key: Hashable, stream: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        file = tempfile.TemporaryFile(prefix="lancecy-", dir=self._folder)  # noqa: SIM115 - kept open
        writer: Any = None
        for batch in stream:
            if writer is None:
                writer = pa.ipc.new_stream(file, batch.schema)
            writer.write_batch(batch)
            yield batch
        if writer is not None:
            writer.close()
        file.flush()
        self._files[key] = file

    def __reduce__(self) -> tuple[Any, ...]:
        return BatchCache, (True if self._folder is None else self._folder,)


def _read(file: IO[bytes]) -> Iterator[pa.RecordBatch]:
    if not os.fstat(file.fileno()).st_size:
        return
    # A map, not the file: two iterations at once do not share its position.
    with pa.ipc.open_stream(pa.py_buffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))) as reader:
        yield from reader
