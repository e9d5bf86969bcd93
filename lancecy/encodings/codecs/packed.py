"""Packed structs: the fields of each row back to back, read and written.

Rows of one width are ordinary values. From 2.2 on fields may vary in size, each after its length in 4 or 8
bytes. All rows are read at once, field by field: a cursor per row advances by the size of the field. A written
field cannot be null, except below a null struct, for which nothing or zeros are stored.

Source: file sheet 2.0, section 4.9; file sheet 2.1, section 3.7.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.blocks.memory import mask_of, memory_of
from lancecy.encodings.blocks.select import offsets_of
from lancecy.encodings.codecs.flat import flattened
from lancecy.encodings.codecs.zipped_values import (
    ZippedSpans,
    ZippedValues,
    decode_spans,
    decode_zipped,
    zipped_bits,
)
from lancecy.encodings.model.block import Block, FixedList, FixedWidth, Structured, VariableWidth
from lancecy.encodings.model.spec import PackedFields, Spec, Variable
from lancecy.errors import FormatError, UnsupportedError, printable
from lancecy.limits import Limits
from lancecy.schema import Field
from lancecy.store.base import Memory

__all__ = ["check_members", "decode_rows", "fixed_members", "packed_fields", "packed_rows"]

Int64 = NDArray[np.int64]
Mask = NDArray[np.bool_]


def decode_rows(spec: PackedFields, rows: ZippedSpans, field: Field, limits: Limits) -> Structured:
    """Decode packed rows into their fields.

    Parameters
    ----------
    spec : PackedFields
    rows : ZippedSpans
        One span per row; a row without bytes is null, and its fields become zero or empty.
    field : Field
        The struct; its children are the fields, in order.
    limits : Limits

    Returns
    -------
    Structured
        Children by field id; no validity.

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
    walk = _RowCursors(rows)
    children: dict[int, Block] = {}
    for (node, bits, varies), child in zip(spec.fields, field.children, strict=True):
        if varies:
            children[child.id] = decode_spans(node, walk.take_spans(bits >> 3), limits)
        else:
            children[child.id] = decode_zipped(node, walk.take_values(_width(node, bits)), child)
    walk.finish()
    return Structured(rows.starts.size, children)


def _width(node: Spec, bits: int) -> int:
    if bits & 7 or zipped_bits(node) != bits:
        raise FormatError(f"a packed field of {bits} bits, whose encoding has {zipped_bits(node)}")
    return bits >> 3


class _RowCursors:
    """Cursors into all rows that are not null, which advance field by field."""

    def __init__(self, rows: ZippedSpans) -> None:
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

    def take_values(self, width: int) -> ZippedValues:
        """A field of one width; zeros for null rows."""
        values = self._take(width)
        if self._filled is not None:
            table = np.zeros((self._num_rows, width), np.uint8)
            table[self._filled] = values.reshape(self._filled.size, width)
            values = table.reshape(-1)
        return ZippedValues.packed(values, width, self._num_rows)

    def take_spans(self, length_width: int) -> ZippedSpans:
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
            return ZippedSpans(self._memory, starts, lengths)
        spread: Int64 = np.zeros((2, self._num_rows), np.int64)
        spread[:, self._filled] = starts, lengths
        return ZippedSpans(self._memory, *spread)

    def finish(self) -> None:
        """Raise FormatError if a row has bytes left."""
        left = self._cursor != self._stops
        if bool(left.any()):
            row = self._row(left)
            raise FormatError(f"packed row {row} goes on after its last field", position=row)


# -- writing ----------------------------------------------------------------------------


def check_members(field: Field, rows: Structured, valid: Mask | None) -> None:
    """Refuse nulls, which packed rows cannot store.

    Parameters
    ----------
    field : Field
        The struct.
    rows : Structured
    valid : (rows.length,) bool or None
        Rows that are not null themselves; None: all.

    Raises
    ------
    UnsupportedError
    """
    for child in field.children:
        block: Block = rows.children[child.id]
        validity = getattr(block, "validity", None)
        if validity is not None:
            gone = ~mask_of(validity, rows.length)
            if bool((gone if valid is None else gone & valid).any()):
                raise _null_in(field, child)
        while isinstance(block, FixedList):
            block = block.child
            if getattr(block, "null_count", 0):
                raise _null_in(field, child)


def _null_in(field: Field, child: Field) -> UnsupportedError:
    return UnsupportedError(
        f"member {printable(child.name)!r} of the packed struct {printable(field.name)!r} has nulls, which packed "
        "structs cannot hold: leave the metadata lance-encoding:packed out",
        feature="nulls in packed structs",
    )


def fixed_members(rows: Structured) -> list[tuple[Spec, int, Memory]] | None:
    """Codec, bits per row and bytes of every member; None if some members vary in size."""
    if any(isinstance(member, VariableWidth) for member in rows.children.values()):
        return None
    return [_fixed_member(member) for member in rows.children.values()]


def _fixed_member(block: Block) -> tuple[Spec, int, Memory]:
    spec, buffers = flattened(_without_bitmaps(block))
    memory, bits = buffers[-1]
    return spec, bits, memory[: block.length * bits // 8]


def _without_bitmaps(block: Block) -> Block:
    """Fixed-size lists without the bitmaps of their elements, none of which is null."""
    if isinstance(block, FixedList):
        return FixedList(block.length, block.size, _without_bitmaps(block.child))
    if isinstance(block, FixedWidth):
        return FixedWidth(block.length, block.bits, block.values)
    raise TypeError(f"a {type(block).__name__} block has no values of one width")


def packed_rows(rows: Structured) -> tuple[tuple[int, ...], FixedWidth] | None:
    r"""Bits of each member, and the rows; None if members vary in size.

    Examples
    --------
    >>> members = {1: FixedWidth(2, 8, b"ab"), 2: FixedWidth(2, 16, b"xxyy")}
    >>> bits, packed = packed_rows(Structured(2, members))
    >>> bits, bytes(packed.values)
    ((8, 16), b'axxbyy')
    """
    members = fixed_members(rows)
    if members is None:
        return None
    tables = [memory.reshape(rows.length, bits // 8) for _, bits, memory in members]
    out = np.ascontiguousarray(np.concatenate(tables, axis=1)).reshape(-1)
    widths = tuple(bits for _, bits, _ in members)
    return widths, FixedWidth(rows.length, sum(widths), out)


def packed_fields(rows: Structured, valid: Mask | None) -> tuple[PackedFields, VariableWidth]:
    """Encode rows of members that may vary in size, with their spec; null rows have no bytes.

    Parameters
    ----------
    rows : Structured
    valid : (rows.length,) bool or None
        Rows that are not null; None: all.
    """
    members = [_Member.of(block) for block in rows.children.values()]
    sizes = np.zeros(rows.length, np.int64)
    for member in members:
        sizes += member.head + member.lengths
    if valid is not None:
        sizes[~valid] = 0
    ends = np.concatenate(([0], np.cumsum(sizes)))
    out = np.empty(int(ends[-1]), np.uint8)
    stored = slice(None) if valid is None else valid
    at = ends[:-1][stored]
    for member in members:
        lengths = member.lengths[stored]
        head = lengths.astype("<i8").view(np.uint8).reshape(-1, 8)
        for byte in range(member.head):
            out[at + byte] = head[:, byte]
        kernels.place_spans(member.memory, member.starts[stored], lengths, out, at + member.head)
        at = at + member.head + lengths
    spec = PackedFields(tuple((m.spec, m.bits, m.head > 0) for m in members))
    width = 4 if int(ends[-1]) < 1 << 31 else 8
    return spec, VariableWidth(rows.length, width, ends.astype(f"<i{width}"), out)


class _Member:
    """The values of a member as spans, and the bytes of the length before each."""

    def __init__(self, spec: Spec, bits: int, head: int, memory: Memory, ends: Int64) -> None:
        self.spec, self.bits, self.head, self.memory = spec, bits, head, memory
        self.starts, self.lengths = np.ascontiguousarray(ends[:-1]), np.diff(ends)

    @classmethod
    def of(cls, block: Block) -> _Member:
        if isinstance(block, VariableWidth):
            width = block.offset_width
            return cls(Variable(width), width * 8, width, memory_of(block.values), offsets_of(block))
        spec, bits, memory = _fixed_member(block)
        return cls(spec, bits, 0, memory, np.arange(block.length + 1) * (bits // 8))
