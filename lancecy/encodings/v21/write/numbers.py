"""Choose how values of one width are coded: plain, packed, in runs, with a dictionary, or as one constant.

One kernel call looks at the values; of a long page it looks at the runs and bits of a part.

Source: file sheet 2.1, sections 3.4 and 4.5.
"""

from __future__ import annotations

from lancecy import kernels
from lancecy.encodings.blocks.memory import memory_of
from lancecy.encodings.model.block import Coded, FixedWidth
from lancecy.encodings.model.layouts import level_limits
from lancecy.encodings.model.pages import EncodedPage
from lancecy.encodings.v21.write.chunk_parts import ChunkedValues, packed_values, plain_values, run_values
from lancecy.encodings.v21.write.few_values import (
    FEWEST_BYTES,
    Distinct,
    constant_bit,
    distinct_values,
    few_distinct,
    stored_dictionary,
    write_constant,
)
from lancecy.encodings.v21.write.fullzip import write_full_zip
from lancecy.encodings.v21.write.miniblock import write_mini_block
from lancecy.encodings.v21.write.shred import ShreddedLeaf

__all__ = ["WIDE", "write_codes", "write_numbers"]

WIDE = 256
"""Fewest bytes of a value that is too large for chunks."""
_WORTH = 0.95
"""Largest share of the bytes of a simpler encoding that another one may take."""
_CODE_IN_RUN = 5
"""Bytes of a code and its run length."""
_EXAMINED = 1 << 18
"""Values whose runs and bits are looked at, in a page that has more."""


def write_numbers(leaf: ShreddedLeaf, block: FixedWidth, version: tuple[int, int]) -> EncodedPage | None:
    """A page of values of one width; None if chunks cannot hold its levels."""
    is_large = version >= (2, 2)
    if block.bits == 1:
        value = constant_bit(leaf) if is_large else None
        return _chunked(leaf, plain_values(block), is_large) if value is None else write_constant(leaf, value)
    width = block.bits // 8
    memory = memory_of(block.values)[: block.length * width]
    step = _step(block.length)
    same, *found = kernels.measure_numbers(memory, width, leaf.definition, level_limits(leaf.layers)[2], step)
    if same >= 0 and is_large:
        return write_constant(leaf, memory[same * width : (same + 1) * width].tobytes())
    if width >= WIDE:
        return write_full_zip(leaf)
    values, best = _cheapest(block, found)
    # Releases read dictionaries of 64-bit numbers from 2.2 on, and of wider values in both versions.
    if (block.bits == 128 or (block.bits == 64 and is_large)) and best >= FEWEST_BYTES:
        runs, items = _for_dictionary(block, found)
        distinct = distinct_values(block)
        # There are no more distinct values than runs.
        coded = few_distinct(
            block,
            leaf.field,
            Distinct(min(runs, distinct.likely), distinct.coded),
            lambda count: (
                min(block.length * count.bit_length() >> 3, runs * _CODE_IN_RUN) + int(count * items)
            ),
            best,
        )
        if coded is not None:
            return write_codes(leaf, coded, version)
    return _chunked(leaf, values, is_large)


def _for_dictionary(block: FixedWidth, found: list[int]) -> tuple[int, float]:
    """About how many runs there are, and the bytes of an item of a dictionary."""
    examined, runs, packed = found
    if not examined:
        return block.length, block.bits / 8
    return block.length * runs // examined, min(block.bits / 8, packed / examined)


def _step(num_values: int) -> int:
    return num_values // _EXAMINED or 1


def _chunked(leaf: ShreddedLeaf, values: ChunkedValues | None, is_large: bool) -> EncodedPage | None:
    return None if values is None else write_mini_block(leaf, values, is_large)


def _cheapest(block: FixedWidth, found: list[int]) -> tuple[ChunkedValues | None, int]:
    """The values in the encoding that takes the fewest bytes, and about how many these are."""
    plain, (examined, runs, packed) = block.length * block.bits // 8, found
    if not examined:
        return plain_values(block), plain
    in_runs = block.length * runs * (block.bits // 8 + 1) // examined
    packed = block.length * packed // examined
    if in_runs < _WORTH * min(packed, plain):
        return run_values(block), in_runs
    return (packed_values(block), packed) if packed < _WORTH * plain else (plain_values(block), plain)


def write_codes(leaf: ShreddedLeaf, coded: Coded, version: tuple[int, int]) -> EncodedPage | None:
    """A page of codes and their dictionary."""
    codes, is_large = coded.codes, version >= (2, 2)
    width = codes.bits // 8
    memory = memory_of(codes.values)[: codes.length * width]
    _, *found = kernels.measure_numbers(memory, width, None, 0, _step(codes.length))
    values, _ = _cheapest(codes, found)
    if values is None:
        return None
    return write_mini_block(leaf, values, is_large, stored_dictionary(coded.dictionary, is_large))
