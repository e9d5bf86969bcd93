"""Packed structs with fields of varying size: each row's fields one after the other.

A field of one width is there as it is; one that varies has its length before it, in 4 or
8 bytes. All rows are gone through at once, field by field: a cursor per row, which moves
on by what the field took. Source: file sheet 2.1, section 3.7.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.codecs.zipped_values import Cells, Spans, cell_bits, decode_cells, decode_spans
from lancecy.encodings.model.block import Block, Structured
from lancecy.encodings.model.spec import PackedFields, Spec
from lancecy.errors import FormatError, printable
from lancecy.limits import Limits
from lancecy.schema import Field
from lancecy.store.base import Memory

__all__ = ["decode_rows"]

Int64 = NDArray[np.int64]


def decode_rows(spec: PackedFields, rows: Spans, field: Field, limits: Limits) -> Structured:
    """Take packed rows apart.

    Parameters
    ----------
    spec : PackedFields
    rows : Spans
        One span per row; a row without bytes is null, and its fields become zero or empty.
    field : Field
        The struct; its children are the fields, in order.
    limits : Limits

    Returns
    -------
    Structured
        By ids of the children, without a validity.

    Raises
    ------
    FormatError
        Fields and children do not agree, or a row is shorter or longer than its fields; ``position`` is the
        row.
    LimitError, UnsupportedError
        See ``decode_spans``.
    """
    if len(spec.fields) != len(field.children):
        raise FormatError(
            f"packed rows of {len(spec.fields)} fields, where struct {printable(field.name)!r} "
            f"has {len(field.children)}"
        )
    walk = _Walk(rows)
    children: dict[int, Block] = {}
    for (node, bits, varies), child in zip(spec.fields, field.children, strict=True):
        if varies:
            children[child.id] = decode_spans(node, walk.take_spans(bits >> 3), limits)
        else:
            children[child.id] = decode_cells(node, walk.take_cells(_width(node, bits)), child)
    walk.finish()
    return Structured(rows.starts.size, children)


def _width(node: Spec, bits: int) -> int:
    if bits & 7 or cell_bits(node) != bits:
        raise FormatError(f"a packed field of {bits} bits, whose encoding has {cell_bits(node)}")
    return bits >> 3


class _Walk:
    """All rows that are not null, and how far each is read."""

    def __init__(self, rows: Spans) -> None:
        self._memory: Memory = rows.memory
        self._num_rows = rows.starts.size
        filled = np.flatnonzero(rows.lengths)
        self._filled = None if filled.size == self._num_rows else filled
        self._cursor = rows.starts[filled]
        self._stops = self._cursor + rows.lengths[filled]

    def _row(self, bad: NDArray[np.bool_]) -> int:
        number = int(np.argmax(bad))
        return number if self._filled is None else int(self._filled[number])

    def _take(self, width: int) -> NDArray[np.uint8]:
        """The next ``width`` bytes of every row that is not null, back to back."""
        short = self._stops - self._cursor < width
        if bool(short.any()):
            row = self._row(short)
            raise FormatError(f"packed row {row} ends within a field", position=row)
        out = np.empty(self._cursor.size * width, np.uint8)
        if width:
            kernels.gather_fixed(self._memory, self._cursor, width, out)
        self._cursor = self._cursor + width
        return out

    def take_cells(self, width: int) -> Cells:
        """A field of one width; zeros for null rows."""
        values = self._take(width)
        if self._filled is not None:
            table = np.zeros((self._num_rows, width), np.uint8)
            table[self._filled] = values.reshape(self._filled.size, width)
            values = table.reshape(-1)
        return Cells.packed(values, width, self._num_rows)

    def take_spans(self, length_width: int) -> Spans:
        """A field of varying size; nothing for null rows."""
        stated = self._take(length_width).view(f"<u{length_width}")
        left = self._stops - self._cursor
        over = stated > left.astype(np.uint64)
        if bool(over.any()):
            row = self._row(over)
            raise FormatError(f"a field of packed row {row} passes the end of the row", position=row)
        starts, lengths = self._cursor, stated.astype(np.int64)
        self._cursor = starts + lengths
        if self._filled is None:
            return Spans(self._memory, starts, lengths)
        spread: Int64 = np.zeros((2, self._num_rows), np.int64)
        spread[:, self._filled] = starts, lengths
        return Spans(self._memory, *spread)

    def finish(self) -> None:
        """Every row has been read to its end."""
        left = self._cursor != self._stops
        if bool(left.any()):
            row = self._row(left)
            raise FormatError(f"packed row {row} goes on after its last field", position=row)
