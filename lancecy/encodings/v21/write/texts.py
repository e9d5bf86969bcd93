"""Choose how byte strings are coded: plain, with symbols, with a dictionary, zipped, compressed, or as one constant.

A sample says whether symbols or a dictionary save bytes. Strings of many kilobytes are compressed one by one, so that each
can be read alone.

Source: file sheet 2.1, sections 3.5, 3.6, 3.8 and 4.5.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from lancecy import kernels
from lancecy.encodings.blocks.memory import memory_of
from lancecy.encodings.blocks.select import stored_offsets
from lancecy.encodings.codecs.fsst import TABLE_BYTES
from lancecy.encodings.codecs.general import compress
from lancecy.encodings.model.block import VariableWidth
from lancecy.encodings.model.layouts import level_limits
from lancecy.encodings.model.pages import EncodedPage
from lancecy.encodings.model.spec import Compressed, Spec, SymbolCoded, Variable
from lancecy.encodings.v21.write.chunk_parts import text_values
from lancecy.encodings.v21.write.few_values import Distinct, distinct_values, few_distinct, write_constant
from lancecy.encodings.v21.write.fullzip import write_zipped_rows
from lancecy.encodings.v21.write.miniblock import write_mini_block
from lancecy.encodings.v21.write.numbers import WIDE, write_codes
from lancecy.encodings.v21.write.shred import ShreddedLeaf
from lancecy.records import dataclass
from lancecy.store.base import Memory

__all__ = ["write_texts"]

_FEW_BYTES = 32 << 10
"""Fewest bytes of strings that are worth a table of symbols, which takes 2,312 bytes."""
_SHORT = 5
_WORTH = 0.94
"""Largest share of the bytes of strings that their codes, or they compressed, may take."""
_CLEARLY = 0.3
"""Share of the plain bytes at which a dictionary is taken without a look at symbols."""
_LONG = 32 << 10
_LONG_AVERAGE = 8 << 10
_TRIED = 4


def write_texts(leaf: ShreddedLeaf, block: VariableWidth, version: tuple[int, int]) -> EncodedPage | None:
    """A page of byte strings; None if chunks cannot hold them or their levels."""
    is_large = version >= (2, 2)
    offsets, memory = stored_offsets(block), memory_of(block.values)
    same, longest = kernels.measure_texts(
        memory, offsets.view(np.uint8), block.offset_width, leaf.definition, level_limits(leaf.layers)[2]
    )
    if same >= 0 and is_large:
        return write_constant(leaf, memory[offsets[same] : offsets[same + 1]].tobytes())
    if longest > _LONG and memory.size >= _LONG_AVERAGE * block.length:
        packed = _compressed(block)
        if packed is not None:
            return write_zipped_rows(leaf, packed, Compressed("zstd", Variable(block.offset_width)))
    plain = memory.size + offsets.nbytes
    coded = symbols = None
    distinct = distinct_values(block) if longest < WIDE else Distinct(block.length)
    item = block.offset_width + memory.size // block.length

    def cost(count: int) -> int:
        return (block.length * count.bit_length() >> 3) + count * item

    if longest < WIDE:
        coded = few_distinct(block, leaf.field, distinct, cost, int(_CLEARLY * plain))
    if coded is None and longest >= _SHORT:
        symbols = _symbols_of(block)
    if coded is None and longest < WIDE:
        best = plain if symbols is None else int(symbols.share * memory.size) + offsets.nbytes
        coded = few_distinct(block, leaf.field, distinct, cost, best)
    if coded is not None:
        return write_codes(leaf, coded, version)
    found = None if symbols is None else symbols.coded(block)
    stored, spec = (block, Variable(block.offset_width)) if found is None else found
    if longest >= WIDE:
        return write_zipped_rows(leaf, stored, spec)
    values = text_values(stored)
    if values is not None and found is not None:
        values = replace(values, spec=spec)
    return None if values is None else write_mini_block(leaf, values, is_large)


# -- symbols ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _SymbolTable:
    """Symbols for some strings.

    Attributes
    ----------
    table : (2312,) uint8
    share : float
        Bytes of the codes of a sample, divided by those of its strings.
    """

    table: Memory
    share: float

    def coded(self, block: VariableWidth) -> tuple[VariableWidth, Spec] | None:
        """The strings as codes, and their encoding; None if they take more bytes, which the sample did not tell."""
        offsets, memory = stored_offsets(block), memory_of(block.values)
        ends, out = np.empty_like(offsets), np.empty(2 * memory.size, np.uint8)
        size = kernels.fsst_encode(
            self.table, memory, offsets.view(np.uint8), block.offset_width, out, ends.view(np.uint8)
        )
        if size > memory.size:
            return None
        stored = VariableWidth(block.length, block.offset_width, ends, out[:size])
        return stored, SymbolCoded(self.table.tobytes(), Variable(block.offset_width))


def _symbols_of(block: VariableWidth) -> _SymbolTable | None:
    """Symbols for the strings; None if they are few or the codes of a sample take hardly fewer bytes."""
    memory = memory_of(block.values)
    if memory.size < _FEW_BYTES:
        return None
    table = np.empty(TABLE_BYTES, np.uint8)
    offsets = stored_offsets(block).view(np.uint8)
    sampled, coded = kernels.fsst_train(memory, offsets, block.offset_width, table)
    return _SymbolTable(table, coded / sampled) if coded < _WORTH * sampled else None


# -- long strings -----------------------------------------------------------------------------


def _compressed(block: VariableWidth) -> VariableWidth | None:
    """Each string compressed, its length before it; None if the first ones take hardly fewer bytes."""
    memory, bounds = memory_of(block.values), stored_offsets(block).tolist()
    parts, lengths, given = [], [0], 0
    for start, stop in pairwise(bounds):
        # An empty value stays empty.
        part = compress("zstd", memory[start:stop]) if stop > start else b""
        parts.append(part)
        lengths.append(lengths[-1] + len(part))
        given += stop - start
        if len(parts) == _TRIED and lengths[-1] > _WORTH * given:
            return None
    if lengths[-1] > _WORTH * given:
        return None
    values = np.frombuffer(b"".join(parts), np.uint8)
    return VariableWidth(
        block.length, block.offset_width, np.array(lengths, f"<i{block.offset_width}"), values
    )
