"""The container of a 2.x file during writing: aligned buffers, and the end of the file.

::

    buffers of pages, each at a multiple of 64 | FileDescriptor | column metadata | tables | footer

Source: file sheet 2.0, section 2; file sheet 2.1, sections 1.1 to 1.4.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.model.layouts import PageSpec
from lancecy.encodings.model.pages import EncodedPage
from lancecy.file.sink import Sink
from lancecy.file.tail import MAGIC
from lancecy.file.v2.stored_pages import StoredPage
from lancecy.file.v2.wire import encode_column_page, encode_column_start, encode_descriptor, encode_spec
from lancecy.schema import Schema
from lancecy.store.base import Memory

__all__ = ["V2Output"]

Int64 = NDArray[np.int64]

_ALIGNMENT = 64
_RUN = 4 << 20
_MOST_ENCODINGS = 256
_PADDING = b"H" * _ALIGNMENT


class V2Output:
    """Writes pages of columns as they arrive.

    Parameters
    ----------
    sink : Sink
    version : (major, minor)
        (2, 0), (2, 1) or (2, 2).
    num_columns : int
    blobs : frozenset of int
        Columns marked as blobs in their own metadata, as in 2.0.
    """

    def __init__(
        self, sink: Sink, version: tuple[int, int], num_columns: int, blobs: frozenset[int] = frozenset()
    ) -> None:
        self._sink = sink
        self._version = version
        # Messages of pages: objects of all pages of a wide table would cost the interpreter's collector a pass.
        self._columns = [bytearray(encode_column_start(number in blobs)) for number in range(num_columns)]
        self._buffers: list[tuple[int, int]] = []
        self._encodings: dict[int, tuple[PageSpec, bytes]] = {}

    @property
    def position(self) -> int:
        """Bytes taken so far."""
        return self._sink.position

    def add(self, column: int, page: EncodedPage, first_row: int) -> None:
        """Write the buffers of the next page of a column.

        Raises
        ------
        StoreError
            Bytes could not be written.
        """
        self._add(column, self._encoding(page.spec), page.buffers, page.length, first_row)

    def _encoding(self, spec: PageSpec) -> bytes:
        """The encoded specification; pages of one form share the object, which is found faster than an equal one."""
        known = self._encodings.get(id(spec))
        if known is None:
            if len(self._encodings) >= _MOST_ENCODINGS:
                self._encodings.clear()
            known = self._encodings[id(spec)] = spec, encode_spec(spec, self._version)
        return known[1]

    def add_stored(self, column: int, page: StoredPage, first_row: int) -> None:
        """Write the buffers of a page of another file as the next page of a column.

        Raises
        ------
        StoreError
            Bytes could not be written.
        """
        self._add(column, page.encoding, page.buffers, page.length, first_row)

    def _add(
        self, column: int, encoding: bytes, buffers: Sequence[Memory], length: int, first_row: int
    ) -> None:
        positions = self._sink.write_aligned(buffers, _PADDING)
        sizes = [buffer.size for buffer in buffers]
        row = first_row if self._version > (2, 0) else 0
        self._columns[column] += encode_column_page(encoding, positions, sizes, length, row)

    def place(self, memory: Memory, starts: Int64, lengths: Int64) -> Int64:
        """Write values outside of pages, each at a multiple of 64.

        Parameters
        ----------
        memory : (nbytes,) uint8
        starts, lengths : (num_values,) int64
            Spans of the values in the memory; none of them empty.

        Returns
        -------
        (num_values,) int64
            Positions in the file.

        Raises
        ------
        StoreError
            Bytes could not be written.
        """
        self._aligned()
        room = -(-lengths // _ALIGNMENT) * _ALIGNMENT
        offsets = np.cumsum(room) - room
        positions: Int64 = offsets + self.position
        # Small values are gathered into runs and written together; a value too large for a run is written alone.
        edges = np.flatnonzero(np.diff(offsets // _RUN, prepend=-1))
        for first, last in pairwise([*edges.tolist(), lengths.size]):
            self._write_run(memory, starts[first:last], lengths[first:last], offsets[first:last])
        return positions

    def _write_run(self, memory: Memory, starts: Int64, lengths: Int64, offsets: Int64) -> None:
        if starts.size == 1:
            self._sink.write(memory[starts[0] : starts[0] + lengths[0]])
        else:
            run = np.zeros(int(offsets[-1] - offsets[0] + lengths[-1]), np.uint8)
            kernels.place_spans(memory, starts, lengths, run, offsets - offsets[0])
            self._sink.write(run)
        self._aligned()

    def add_buffer(self, data: bytes) -> int:
        """Write a global buffer and return its number; number 0 is the FileDescriptor.

        Raises
        ------
        StoreError
            Bytes could not be written.
        """
        position = self._aligned()
        self._sink.write(np.frombuffer(data, np.uint8))
        self._buffers.append((position, len(data)))
        return len(self._buffers)

    def end(self, schema: Schema, num_rows: int) -> None:
        """Write everything after the pages.

        Raises
        ------
        StoreError
            Bytes could not be written.
        """
        self._aligned()
        descriptor = self._place(encode_descriptor(schema, num_rows))
        positions = list(map(self._sink.place, self._columns))
        first = positions[0] if positions else self.position
        columns = np.array((positions, list(map(len, self._columns))), "<u8")
        column_table, _ = self._place(columns.T.tobytes())
        buffers = [descriptor, *self._buffers]
        buffer_table, _ = self._place(np.array(buffers, "<u8").tobytes())
        # The manifest's 2.0 is 0.3 in the file.
        major, minor = self._version if self._version > (2, 0) else (0, 3)
        counts = (len(buffers), len(positions), major, minor, MAGIC)
        self._place(struct.pack("<QQQIIHH4s", first, column_table, buffer_table, *counts))
        self._sink.finish()

    def _place(self, data: bytes | bytearray) -> tuple[int, int]:
        return self._sink.place(data), len(data)

    def _aligned(self) -> int:
        """The next aligned position for a buffer."""
        self._sink.place(_PADDING[: -self._sink.position % _ALIGNMENT])
        return self._sink.position
