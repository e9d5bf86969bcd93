"""Bytes of a data file on their way to the store, with the position that they will have.

Imports ``store.base`` and NumPy.
"""

from __future__ import annotations

from typing import BinaryIO

import numpy as np

from lancecy.store.base import Memory

__all__ = ["Sink"]

_FEW = 1 << 16


class Sink:
    """A stream to which few bytes are written with others: a write is a call of the system.

    Parameters
    ----------
    stream : BinaryIO
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._small = bytearray()
        self.position = 0
        """Bytes taken so far."""

    def write(self, data: Memory) -> None:
        """Take the bytes.

        Raises
        ------
        StoreError
            Bytes could not be written.
        """
        if data.size < _FEW:
            self._small += data.data
        if data.size >= _FEW or len(self._small) >= _FEW:
            self.flush()
        if data.size >= _FEW:
            self._stream.write(data.data)
        self.position += data.size

    def place(self, data: bytes) -> int:
        """Take the bytes; where they are.

        Raises
        ------
        StoreError
            Bytes could not be written.
        """
        position = self.position
        self.write(np.frombuffer(data, np.uint8))
        return position

    def flush(self) -> None:
        """Write what was taken and is not written yet.

        Raises
        ------
        StoreError
            Bytes could not be written.
        """
        small, self._small = self._small, bytearray()
        if small:
            self._stream.write(small)
