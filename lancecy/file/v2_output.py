"""The container of a 2.x file while it is written: buffers where they belong, and the end of the file.

::

    buffers of pages, each at a multiple of 64 | FileDescriptor | column metadata | tables | footer

Source: file sheet 2.0, section 2; file sheet 2.1, sections 1.1 to 1.4. Imports ``footer``, ``sink``, ``v2_encode_wire``,
``encodings.pages`` and ``schema``.
"""

from __future__ import annotations

import struct

import numpy as np

from lancecy.encodings.pages import EncodedPage
from lancecy.file.footer import MAGIC
from lancecy.file.sink import Sink
from lancecy.file.v2_encode_wire import PlacedPage, encode_column, encode_descriptor, encode_spec
from lancecy.schema import Schema

__all__ = ["Output"]

_ALIGNMENT = 64
_PADDING = b"H" * _ALIGNMENT


class Output:
    """Pages of columns, written as they come.

    Parameters
    ----------
    sink : Sink
    version : (major, minor)
        (2, 0), (2, 1) or (2, 2).
    num_columns : int
    """

    def __init__(self, sink: Sink, version: tuple[int, int], num_columns: int) -> None:
        self._sink = sink
        self._version = version
        self._columns: list[list[PlacedPage]] = [[] for _ in range(num_columns)]

    @property
    def position(self) -> int:
        """Bytes taken so far."""
        return self._sink.position

    def add(self, column: int, page: EncodedPage, first_row: int) -> None:
        """Write the buffers of a page, which is the next one of its column.

        Raises
        ------
        StoreError
            Bytes could not be written.
        """
        positions = []
        for buffer in page.buffers:
            positions.append(self._aligned())
            self._sink.write(buffer)
        placed = PlacedPage(
            encoding=encode_spec(page.spec, self._version),
            positions=tuple(positions),
            sizes=tuple(buffer.size for buffer in page.buffers),
            length=page.length,
            first_row=first_row if self._version > (2, 0) else 0,
        )
        self._columns[column].append(placed)

    def end(self, schema: Schema, num_rows: int) -> None:
        """Write everything that stands behind the pages.

        Raises
        ------
        StoreError
            Bytes could not be written.
        """
        self._aligned()
        descriptor = self._place(encode_descriptor(schema, num_rows))
        columns = [self._place(encode_column(pages)) for pages in self._columns]
        first = columns[0][0] if columns else self.position
        column_table, _ = self._place(np.array(columns, "<u8").tobytes())
        buffer_table, _ = self._place(struct.pack("<QQ", *descriptor))
        # What the manifest calls 2.0 is 0.3 in the file.
        major, minor = self._version if self._version > (2, 0) else (0, 3)
        counts = (1, len(columns), major, minor, MAGIC)
        self._place(struct.pack("<QQQIIHH4s", first, column_table, buffer_table, *counts))
        self._sink.finish()

    def _place(self, data: bytes) -> tuple[int, int]:
        return self._sink.place(data), len(data)

    def _aligned(self) -> int:
        """The next position where a buffer may be."""
        self._sink.place(_PADDING[: -self._sink.position % _ALIGNMENT])
        return self._sink.position
