"""Sets of row ids as bytes."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pyroaring
import pytest
from numpy.typing import NDArray

from lancecy.index.write import bitmap
from lancecy.index.write.row_sets import GrowingSet, encoded_sets
from lancecy.index.write.sorted_pairs import SortedPairs

RNG = np.random.default_rng(3)


def read_set(data: bytes) -> list[int]:
    """The ids of a serialized set, by another implementation of the format."""
    (count,) = struct.unpack_from("<I", data)
    position, found = 4, []
    for _ in range(count):
        upper, size = struct.unpack_from("<II", data, position)
        bits = pyroaring.BitMap.deserialize(data[position + 8 : position + 8 + size])
        assert bits.serialize() == data[position + 8 : position + 8 + size]
        found += [upper << 32 | lower for lower in bits]
        position += 8 + size
    assert position == len(data)
    return found


def ids_of(kind: str) -> NDArray[np.uint64]:
    ids = {
        "few": [3, 70_000, 1 << 32, 5 << 32 | 9],
        "dense": range(100_000),
        "4096": range(4096),
        "4097": range(4097),
        "last": [(1 << 64) - 1, (1 << 32) - 1, 65535],
        "mixed": np.concatenate((RNG.integers(0, 1 << 34, 5000), np.arange(200_000, 300_000))),
    }[kind]
    return np.array(ids, np.uint64)


@pytest.mark.parametrize("kind", ["few", "dense", "4096", "4097", "last", "mixed"])
def test_a_set_is_read_again(kind: str) -> None:
    ids = RNG.permutation(np.repeat(ids_of(kind), 2))
    offsets, data = encoded_sets(np.zeros(ids.size, np.int64), ids, 1)
    expected = sorted(set(ids.tolist()))
    assert offsets.tolist() == [0, data.size]
    assert read_set(data.tobytes()) == expected
    grown = GrowingSet()
    for piece in np.array_split(ids, 3):
        grown.add(piece)
    assert read_set(grown.encode()) == expected


def test_many_sets_are_read_again() -> None:
    groups = np.sort(RNG.integers(0, 50, 20_000))
    ids = RNG.integers(0, 3 << 32, groups.size).astype(np.uint64)
    offsets, data = encoded_sets(groups, ids, 52)
    for group in range(52):
        found = read_set(data[offsets[group] : offsets[group + 1]].tobytes())
        assert found == sorted(set(ids[groups == group].tolist()))


@pytest.mark.parametrize("block_rows", [7, 1000, 1 << 20])
def test_values_go_on_in_the_next_block(block_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bitmap, "_BLOCK_ROWS", block_rows)
    numbers = np.repeat([4, 1, 2, 9], [3, 2500, 1, 40])
    values = pa.array(numbers, mask=RNG.random(numbers.size) < 0.3)
    ids = np.arange(numbers.size, dtype=np.uint64)
    with SortedPairs(values.type) as pairs:
        pairs.add(values, ids)
        found = {
            key: read_set(data)
            for keys, sets in bitmap._keys(bitmap._cut(pairs.blocks()))
            for key, data in zip(keys.to_pylist(), sets.to_pylist(), strict=True)
        }
    listed = values.to_pylist()
    assert found == {
        key: [i for i, value in enumerate(listed) if value == key] for key in dict.fromkeys(listed)
    }
