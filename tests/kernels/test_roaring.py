"""measure_bitmap and read_bitmap, compiled and in NumPy."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from pyroaring import BitMap

from lancecy.errors import FormatError
from tests.helpers.folded import folded
from tests.kernels.both import CYTHON, REFERENCE, Kernels, assert_same, memory_of

NUMBERS = st.sets(st.integers(0, 2**32 - 1) | st.integers(0, 300) | st.integers(65_500, 65_600), max_size=300)
SHAPES = {
    "nothing": [],
    "list and map": [*range(0, 8194, 2), 70_000, 2**32 - 1],
    "runs": [*range(10, 9000), *range(65_530, 70_000), *range(2**31, 2**31 + 9)],
    "few containers of runs": [*range(100), *range(65_536, 65_600)],
    "a whole container": list(range(65_536)),
}


def serialized(numbers: list[int], runs: bool) -> bytes:
    made = BitMap(numbers)
    if runs:
        made.run_optimize()
    data: bytes = made.serialize()
    return data


@given(NUMBERS, st.booleans(), st.binary(max_size=3))
def test_both_read_any_bitmap(numbers: set[int], runs: bool, rest: bytes) -> None:
    data = serialized(sorted(numbers), runs)
    memory = memory_of(data + rest)
    assert_same("measure_bitmap", {"memory": memory}, {})
    assert CYTHON.measure_bitmap(memory) == (len(numbers), len(data))
    assert_same("read_bitmap", {"memory": memory}, {"out": (len(numbers), np.int64)})


@folded("runs", [False, True])
@folded("shape", SHAPES)
def test_numbers_are_those_written(kernels: Kernels, shape: str, runs: bool) -> None:
    memory = memory_of(serialized(SHAPES[shape], runs))
    total, size = kernels.measure_bitmap(memory)
    assert (total, size) == (len(SHAPES[shape]), memory.size)
    out = np.zeros(total, np.int64)
    kernels.read_bitmap(memory, out)
    assert out.tolist() == SHAPES[shape]


def outcome(kernels: Kernels, memory: NDArray[np.uint8]) -> tuple[object, ...]:
    try:
        total, size = kernels.measure_bitmap(memory)
        if total < 0:
            return total, size
        out = np.zeros(total, np.int64)
        kernels.read_bitmap(memory, out)
        return total, size, out.tolist()
    except FormatError as error:
        return type(error), error.position


def test_both_find_the_same_faults_in_mutated_bitmaps() -> None:
    chance = random.Random(3)
    originals = [serialized(SHAPES[s][:6000], runs) for s in SHAPES for runs in (False, True)]
    faults = set[object]()
    for _ in range(300):
        data = bytearray(chance.choice(originals))
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(min(len(data), 60))] = chance.randrange(256)
        memory = memory_of(
            bytes(data[: chance.choice((len(data), len(data), chance.randrange(len(data) + 1)))])
        )
        found = outcome(CYTHON, memory)
        assert found == outcome(REFERENCE, memory)
        faults.add(found[0] if isinstance(found[0], type) else len(found))
    assert len(faults) == 4


def test_out_has_the_numbers_of_the_bitmap(kernels: Kernels) -> None:
    memory = memory_of(serialized([1, 5], False))
    for size in (0, 1, 3):
        with pytest.raises(ValueError, match="out"):
            kernels.read_bitmap(memory, np.zeros(size, np.int64))
    with pytest.raises(ValueError, match="out"):
        kernels.read_bitmap(memory_of(struct.pack("<I", 5)), np.zeros(0, np.int64))
