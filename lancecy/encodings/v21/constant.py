"""Constant pages: one value, or none, for every slot.

Buffers: nothing, or repetition and definition levels (either may be empty); before them
the value if it is not in the message::

    u32 number of parts | u32 size of each | the parts        Arrow's buffers of an array of one value

Levels are raw 16-bit numbers unless the page names codecs for them. A page is small, so every read requests all of
it. Source: file sheet 2.1, section 3.9.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.blocks.memory import allocate, slot_validity
from lancecy.encodings.blocks.null_only import has_no_values
from lancecy.encodings.codecs import flat
from lancecy.encodings.codecs.dictionaries import taken
from lancecy.encodings.codecs.values import decode_levels
from lancecy.encodings.model.block import AllNull, Block, FixedWidth, Structured, VariableWidth
from lancecy.encodings.model.chunks import Buffers, places_of, row_ranges, whole_runs
from lancecy.encodings.model.fields import spec_of
from lancecy.encodings.model.layouts import ConstantPage, all_visible_max, max_repetition
from lancecy.encodings.model.pages import Page
from lancecy.encodings.model.spec import FixedListOf, PackedBlocks, Plain, Spec, VarBinary, flat_bits
from lancecy.encodings.v21.repdef import LeafPage
from lancecy.errors import FormatError
from lancecy.limits import Limits
from lancecy.rows import RowSelection
from lancecy.schema import Field
from lancecy.store.base import Memory
from lancecy.store.reads import Ranges, Read, SourceFile

__all__ = ["read"]

Levels = NDArray[np.uint16]

_MAX_PARTS = 8


def read(
    spec: ConstantPage,
    page: Page,
    chain: tuple[Field, ...],
    rows: RowSelection,
    file: SourceFile,
    limits: Limits,
) -> Read[LeafPage]:
    """Make rows of a constant page; parameters and errors as ``miniblock.read``, in one round."""
    parts: list[Memory] = []
    if page.sizes.size:
        (span,) = yield [Ranges(file, page.positions, page.sizes)]
        ends = span.positions + page.sizes
        parts = [span.memory[a:b] for a, b in zip(span.positions.tolist(), ends.tolist(), strict=True)]
    stored = spec.value
    if stored is None and len(parts) % 2:
        stored = _value_in(parts.pop(0), chain[-1])
    rep, definition = (None, None)
    if parts:
        rep = _levels(spec.rep, parts[0], spec.num_rep, page.num_rows, limits)
        definition = _levels(spec.definition, parts[1], spec.num_definition, page.num_rows, limits)
    rep, definition, num_slots = _chosen(spec, page, rows, rep, definition)
    values = _values(stored, chain[-1], spec, definition, num_slots, limits)
    return LeafPage(spec.layers, rep, definition, values, len(rows))


# -- levels -----------------------------------------------------------------------------


def _levels(codec: Spec | None, memory: Memory, count: int, num_rows: int, limits: Limits) -> Levels | None:
    """The levels in a buffer; None if there are none."""
    if codec is None:
        if memory.size % 2:
            raise FormatError(f"{memory.size} bytes of 16-bit levels")
        return np.require(np.frombuffer(memory, "<u2"), requirements="A") if memory.size else None
    if isinstance(codec, PackedBlocks) and codec.packed_bits == 0 and count > num_rows:
        raise FormatError(f"{count} levels in no bytes, for {num_rows} rows")
    limits.check("page_bytes", count * 2, "bytes of the levels of a page")
    source = Buffers(memory, np.zeros(1, np.int64), np.array([memory.size], np.int64))
    counts = np.array([count], np.int64)
    return decode_levels(codec, source, counts, whole_runs(counts), limits)


def _chosen(
    spec: ConstantPage, page: Page, rows: RowSelection, rep: Levels | None, definition: Levels | None
) -> tuple[Levels | None, Levels | None, int]:
    """Levels and the number of slots of the selected rows."""
    depth = max_repetition(spec.layers)
    if depth == 0:
        if rep is not None:
            raise FormatError("a page without lists has repetition levels")
        if definition is None:
            return None, None, len(rows)
        if definition.size != page.num_rows:
            raise FormatError(f"{definition.size} definition levels in a page of {page.num_rows} rows")
        if not rows.is_all:
            definition = definition[rows.to_indices()]
        return None, definition, definition.size
    if rep is None or (definition is not None and definition.size != rep.size):
        raise FormatError("a page of lists has no repetition levels, or not one per definition level")
    if not rows.is_all:
        rep, definition = _rows_of(rep, definition, depth, all_visible_max(spec.layers), rows)
    if definition is None:
        return rep, None, rep.size
    return rep, definition, int(np.count_nonzero(definition <= all_visible_max(spec.layers)))


def _rows_of(
    rep: Levels, definition: Levels | None, depth: int, visible_max: int, rows: RowSelection
) -> tuple[Levels, Levels | None]:
    starts, stops = row_ranges(rows)
    found = np.empty((4, starts.size), np.int64)
    one_group = np.zeros(starts.size, np.int64)
    kernels.select_rows(
        rep, definition, depth, visible_max, np.array([rep.size]), one_group, starts, stops, *found
    )
    places = places_of(found[0], found[1] - found[0])
    return rep[places], None if definition is None else definition[places]


# -- the value --------------------------------------------------------------------------


def _value_in(memory: Memory, field: Field) -> bytes:
    """The bytes of a value stored in a buffer of the page."""
    count = int.from_bytes(memory[:4].tobytes(), "little")
    start = 4 + 4 * count
    if not 1 <= count <= _MAX_PARTS or start > memory.size:
        raise FormatError(f"a constant value of {count} parts in {memory.size} bytes")
    sizes = np.frombuffer(memory, "<u4", count, 4).astype(np.int64)
    if int(sizes.sum()) > memory.size - start:
        raise FormatError(f"a constant value of {int(sizes.sum())} bytes in a buffer of {memory.size}")
    data = memory[start:]
    column = spec_of(field)
    if not isinstance(column, VarBinary):
        return data[: int(sizes[0])].tobytes()
    width = column.offset_width
    if count != 2 or int(sizes[0]) < 2 * width:
        raise FormatError("a constant string has no offsets")
    first, last = (int.from_bytes(data[i : i + width].tobytes(), "little") for i in (0, width))
    if not first <= last <= int(sizes[1]):
        raise FormatError("offsets of a constant string leave its bytes")
    begin = int(sizes[0])
    return data[begin + first : begin + last].tobytes()


def _values(
    stored: bytes | None,
    field: Field,
    spec: ConstantPage,
    definition: Levels | None,
    num_slots: int,
    limits: Limits,
) -> Block:
    if has_no_values(field):
        # Structs without fields are stored as if they were null.
        return Structured(num_slots, {})
    if stored is None:
        return AllNull(num_slots)
    column = spec_of(field)
    if isinstance(column, VarBinary):
        return _strings(stored, column, spec, definition, num_slots, limits)
    if not isinstance(column, Plain | FixedListOf):
        raise FormatError(f"a constant value in a column of type {field.logical_type}")
    return _fixed(stored, column, num_slots, limits)


def _fixed(stored: bytes, column: Plain | FixedListOf, num_slots: int, limits: Limits) -> Block:
    bits = flat_bits(column)
    if len(stored) * 8 != bits and not (bits == 1 and len(stored) == 1):
        raise FormatError(f"a constant value of {len(stored)} bytes in a column of {bits} bits")
    nbytes = limits.check("page_bytes", (num_slots * bits + 7) >> 3, "bytes of the values of a page")
    buffer, out = allocate(nbytes)
    if bits == 1:
        out[:] = 255 * (stored[0] & 1)
    elif len(stored) in (1, 2, 4, 8):
        kind = f"<u{len(stored)}"
        out.view(kind)[:] = np.frombuffer(stored, kind)
    elif stored:
        out.reshape(num_slots, len(stored))[:] = np.frombuffer(stored, np.uint8)
    return flat.nested(column, FixedWidth(num_slots, bits, buffer))


def _strings(
    stored: bytes,
    column: VarBinary,
    spec: ConstantPage,
    definition: Levels | None,
    num_slots: int,
    limits: Limits,
) -> Block:
    """One string as a dictionary of one item, so that null slots take no bytes."""
    mask = None
    if definition is not None:
        mask, _ = slot_validity(definition, 0, all_visible_max(spec.layers), num_slots)
    offsets = np.array([0, len(stored)], f"<i{column.offset_width}")
    items = VariableWidth(1, column.offset_width, offsets, stored)
    return taken(np.zeros(num_slots, np.uint8), items, mask, limits)
