"""Write full-zip pages: every value after its levels, and an index where sizes vary.

The inverse of ``v21.fullzip``. Vectors without nulls share the memory of the input. Values of varying size have
their length before them; a null or empty entry is its control word alone, but a null of one width keeps the space
of a value.

Source: file sheet 2.1, section 3.8.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.blocks.memory import mask_of, memory_of
from lancecy.encodings.blocks.select import offsets_of
from lancecy.encodings.codecs.flat import flattened
from lancecy.encodings.model.block import Block, FixedWidth, VariableWidth
from lancecy.encodings.model.layouts import FullZip, max_definition, max_repetition
from lancecy.encodings.model.pages import EncodedPage
from lancecy.encodings.model.spec import Plain, Spec, Variable
from lancecy.encodings.v21.write.shred import ShreddedLeaf
from lancecy.errors import UnsupportedError, printable
from lancecy.store.base import Memory

__all__ = ["write_full_zip", "write_zipped_rows"]

Int64 = NDArray[np.int64]


def write_full_zip(leaf: ShreddedLeaf) -> EncodedPage:
    """A page of values with their levels.

    Raises
    ------
    UnsupportedError
        Single bits in fixed-size lists that do not fill whole bytes.
    """
    if isinstance(leaf.values, VariableWidth):
        return write_zipped_rows(leaf, leaf.values, Variable(leaf.values.offset_width))
    return _fixed(leaf)


def _page(leaf: ShreddedLeaf, values: Spec, buffers: list[Memory], **widths: int) -> EncodedPage:
    layout = FullZip(
        layers=leaf.layers,
        rep_bits=max_repetition(leaf.layers).bit_length(),
        definition_bits=max_definition(leaf.layers).bit_length(),
        value_bits=widths.get("value_bits"),
        length_bits=widths.get("length_bits"),
        num_entries=leaf.num_entries,
        num_visible=leaf.values.length,
        values=values,
    )
    return EncodedPage(layout, tuple(buffers), leaf.num_rows)


def _control(leaf: ShreddedLeaf) -> NDArray[np.uint8]:
    """(num_entries, 0, 1, 2 or 4) uint8: the control words."""
    def_bits = max_definition(leaf.layers).bit_length()
    bits = max_repetition(leaf.layers).bit_length() + def_bits
    words = np.zeros(leaf.num_entries, "<u4")
    if leaf.rep is not None:
        words |= leaf.rep.astype(np.uint32) << def_bits
    if leaf.definition is not None:
        words |= leaf.definition
    width = 0 if bits == 0 else 1 if bits <= 8 else 2 if bits <= 16 else 4
    return words.view(np.uint8).reshape(-1, 4)[:, :width]


def _index(leaf: ShreddedLeaf, positions: Int64, total: int) -> Memory:
    """Start of each row, and end of the last one."""
    if leaf.rep is not None:
        positions = positions[leaf.rep == max_repetition(leaf.layers)]
    width = next(width for width in (1, 2, 4, 8) if total < 1 << 8 * width)
    return np.append(positions, total).astype(f"<u{width}").view(np.uint8)


# -- one width --------------------------------------------------------------------------


def _fixed(leaf: ShreddedLeaf) -> EncodedPage:
    spec, rows = _rows(leaf.values, leaf.field.name)
    control = _control(leaf)
    width = control.shape[1] + rows.shape[1]
    if leaf.rep is None:
        zipped = rows if not control.shape[1] else np.concatenate((control, rows), axis=1)
        return _page(leaf, spec, [np.ascontiguousarray(zipped).reshape(-1)], value_bits=rows.shape[1] * 8)
    sizes = np.full(leaf.num_entries, width, np.int64)
    places = sizes[:0]
    if leaf.visible is not None:
        sizes[~leaf.visible] = control.shape[1]
    positions = np.cumsum(sizes) - sizes
    places = positions if leaf.visible is None else positions[leaf.visible]
    out = np.empty(int(sizes.sum()), np.uint8)
    _put(out, positions, control)
    starts = np.arange(rows.shape[0]) * rows.shape[1]
    lengths = np.full(rows.shape[0], rows.shape[1], np.int64)
    kernels.place_spans(
        np.ascontiguousarray(rows).reshape(-1), starts, lengths, out, places + control.shape[1]
    )
    return _page(leaf, spec, [out, _index(leaf, positions, out.size)], value_bits=rows.shape[1] * 8)


def _put(out: Memory, positions: Int64, columns: NDArray[np.uint8]) -> None:
    for byte in range(columns.shape[1]):
        out[positions + byte] = columns[:, byte]


def _rows(block: Block, name: str) -> tuple[Spec, NDArray[np.uint8]]:
    """(num_slots, value bytes) uint8: every value with the bitmaps of its elements before it."""
    if isinstance(block, FixedWidth) and block.bits == 1:
        return Plain(8), mask_of(block.values, block.length).view(np.uint8).reshape(-1, 1)
    spec, buffers = flattened(block)
    parts = [
        _bits_by_row(memory, block.length, bits)
        if number < len(buffers) - 1
        else _by_row(memory, block.length, bits, name)
        for number, (memory, bits) in enumerate(buffers)
    ]
    return spec, parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


def _by_row(memory: Memory, num_rows: int, bits: int, name: str) -> NDArray[np.uint8]:
    if bits % 8:
        raise UnsupportedError(
            f"column {printable(name)!r}: fixed-size lists of {bits} booleans cannot be written: use a multiple of 8, or a list",
            feature="wide lists of booleans",
        )
    return memory[: num_rows * bits // 8].reshape(num_rows, bits // 8)


def _bits_by_row(memory: Memory, num_rows: int, bits: int) -> NDArray[np.uint8]:
    flags = mask_of(memory, num_rows * bits).reshape(num_rows, bits)
    return np.packbits(flags, axis=1, bitorder="little")


# -- values that vary -------------------------------------------------------------------


def write_zipped_rows(leaf: ShreddedLeaf, block: VariableWidth, spec: Spec) -> EncodedPage:
    """A page of byte strings in the encoding ``spec``; one for every slot of the leaf."""
    width = block.offset_width
    offsets = offsets_of(block)
    control = _control(leaf)
    starts, lengths = offsets[:-1], np.diff(offsets)
    sizes = np.full(leaf.num_entries, control.shape[1], np.int64)
    if leaf.definition is None:
        sizes += width + lengths
        stored = slice(None)
    else:
        stored = leaf.definition == 0
        kept = stored if leaf.visible is None else stored[leaf.visible]
        starts, lengths = starts[kept], lengths[kept]
        sizes[stored] += width + lengths
    positions = np.cumsum(sizes) - sizes
    out = np.empty(int(sizes.sum()), np.uint8)
    _put(out, positions, control)
    at = positions[stored] + control.shape[1]
    _put(out, at, lengths.astype("<i8").view(np.uint8).reshape(-1, 8)[:, :width])
    kernels.place_spans(memory_of(block.values), starts, lengths, out, at + width)
    buffers = [out, _index(leaf, positions, out.size)]
    return _page(leaf, spec, buffers, length_bits=width * 8)
