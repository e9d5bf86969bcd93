"""Splitting blocks into which several columns were decoded together."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lancecy.encodings.arrow.to_arrow import to_arrow
from lancecy.encodings.blocks.select import split
from lancecy.encodings.model.block import AllNull, Block, FixedList, FixedWidth, Structured, VariableWidth
from lancecy.errors import FormatError


def block_of(array: pa.Array) -> Block:
    """An Arrow array as a block."""
    kind, buffers = array.type, array.buffers()
    nulls = (buffers[0], array.null_count)
    if pa.types.is_fixed_size_list(kind):
        return FixedList(len(array), kind.list_size, block_of(array.values), *nulls)
    if len(buffers) == 3:
        width = 8 if pa.types.is_large_string(kind) else 4
        return VariableWidth(len(array), width, buffers[1], buffers[2] or b"", *nulls)
    return FixedWidth(len(array), kind.bit_width, buffers[1], *nulls)


WORDS = ["", "a", None, "déjà", "zzzz", None, "b", "", "cc", "d", "e"]
ARRAYS = {
    "numbers": pa.array(range(11), pa.int16()),
    "numbers with nulls": pa.array([None if n % 3 else n for n in range(11)], pa.int64()),
    "bits": pa.array([n % 3 == 0 for n in range(11)]),
    "bits with nulls": pa.array([None if n in (0, 9) else n % 2 == 0 for n in range(11)]),
    "text": pa.array(WORDS),
    "large text": pa.array(WORDS, pa.large_string()),
    "vectors": pa.array([None if n == 4 else [n, None, n] for n in range(11)], pa.list_(pa.int8(), 3)),
    "flags": pa.array([[n % 2 == 0] * 3 for n in range(11)], pa.list_(pa.bool_(), 3)),
}


@pytest.mark.parametrize("lengths", [[11], [3, 8], [0, 1, 9, 0, 1], [4, 4, 3]])
def test_parts_equal_slices(lengths: list[int]) -> None:
    for name, array in ARRAYS.items():
        start = 0
        for part, length in zip(split(block_of(array), lengths), lengths, strict=True):
            found = to_arrow(part, array.type)
            found.validate(full=True)
            assert found.equals(array.slice(start, length)), (name, lengths)
            assert found.null_count == array.slice(start, length).null_count
            start += length


def test_whole_bytes_are_shared() -> None:
    values = np.arange(6, dtype=np.int32)
    first, second = split(FixedWidth(6, 32, values), [2, 4])
    values[2] = 77
    assert to_arrow(second, pa.int32()).to_pylist() == [77, 3, 4, 5]
    assert first.length == 2


def test_nulls_alone_are_cut() -> None:
    assert [part.length for part in split(AllNull(5), [2, 3])] == [2, 3]


def test_blocks_that_cannot_be_split_are_refused() -> None:
    with pytest.raises(FormatError, match="together"):
        split(AllNull(5), [2, 2])
    with pytest.raises(FormatError, match="Structured"):
        split(Structured(2, {}), [1, 1])
