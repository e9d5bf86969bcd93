"""Roaring bitmaps: the same numbers as pyroaring, and an error for everything else."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from lancecy.errors import FormatError, LimitError, TruncatedError
from lancecy.limits import Limits
from lancecy.table.rows import roaring
from tests.helpers.builders import memory_of
from tests.helpers.folded import folded


def numbers(data: bytes) -> list[int]:
    return list(map(int, roaring.decode(memory_of(data))))


def bitmap(values: Iterable[int], runs: bool = False) -> bytes:
    made = BitMap(values)
    if runs:
        made.run_optimize()
    data: bytes = made.serialize()
    return data


CASES: dict[str, list[int]] = {
    "empty": [],
    "one": [7],
    "ends": [0, 65535, 65536, 2**32 - 1],
    "array limit": list(range(0, 8192, 2)),
    "bitmap": list(range(0, 8194, 2)),
    "all of a container": list(range(65536)),
    "many containers": list(range(5, 40 * 65536, 4099)),
    "runs": [*range(10, 9000), *range(20_000, 20_003), *range(65_530, 70_000), *range(2**31, 2**31 + 9)],
    "few run containers": [*range(100), *range(65536, 65600), *range(131072, 131080)],
    "four run containers": [r + 65536 * k for k in range(4) for r in range(100)],
}


@folded("runs", [False, True])
@folded("name", CASES)
def test_numbers_are_those_written(name: str, runs: bool) -> None:
    assert numbers(bitmap(CASES[name], runs)) == CASES[name]


@folded("name", CASES)
def test_bitmaps_written_are_as_small_as_they_can_be_and_read_back(name: str) -> None:
    data = roaring.encode(np.array(CASES[name], np.int64))
    assert len(data) == min(len(bitmap(CASES[name], runs)) for runs in (False, True))
    assert numbers(data) == CASES[name]
    assert list(BitMap.deserialize(data)) == CASES[name]


@given(st.sets(st.integers(0, 2**32 - 1) | st.integers(0, 300), max_size=400), st.booleans())
def test_any_set_reads_back(values: set[int], runs: bool) -> None:
    assert numbers(bitmap(values, runs)) == sorted(values)


@pytest.mark.parametrize("name", ["ends", "bitmap", "runs", "few run containers"])
def test_every_truncation_and_any_tail_is_refused(name: str) -> None:
    data = bitmap(CASES[name], runs=True)
    lengths = range(len(data)) if len(data) < 500 else random.Random(1).sample(range(len(data)), 300)
    for length in lengths:
        with pytest.raises(TruncatedError):
            numbers(data[:length])
    with pytest.raises(FormatError, match="1 bytes follow"):
        numbers(data + b"\0")


def test_sixty_four_bit_bitmap_is_refused() -> None:
    from pyroaring import BitMap64

    with pytest.raises(FormatError):
        numbers(BitMap64([1, 2, 3]).serialize())


def header(*containers: tuple[int, int]) -> bytes:
    head = struct.pack("<II", 12346, len(containers))
    head += b"".join(struct.pack("<HH", key, count - 1) for key, count in containers)
    return head + bytes(4 * len(containers))


def run_header(*containers: tuple[int, int]) -> bytes:
    head = struct.pack("<I", 12347 | (len(containers) - 1) << 16)
    head += bytes([(1 << len(containers)) - 1])
    return head + b"".join(struct.pack("<HH", key, count - 1) for key, count in containers)


@folded(
    "data",
    [
        struct.pack("<I", 5),
        struct.pack("<II", 12346, 65537) + bytes(600_000),
        struct.pack("<II", 12346, 2**32 - 1),
        header((1, 1), (1, 1)) + bytes(4),  # a key twice
        header((2, 1), (1, 1)) + bytes(4),  # keys descend
        header((0, 2)) + struct.pack("<HH", 5, 5),  # a number twice
        header((0, 2)) + struct.pack("<HH", 5, 4),  # numbers descend
        header((0, 5000)) + bytes(8192),  # count without bits
        header((0, 5000)) + b"\xff" * 8192,  # more bits than counted
        run_header((0, 5)) + struct.pack("<HHH", 1, 65534, 4),  # a run leaves the container
        run_header((0, 6)) + struct.pack("<HHHHH", 2, 5, 2, 7, 2),  # runs overlap
        run_header((0, 6)) + struct.pack("<HHHHH", 2, 9, 2, 5, 2),  # runs descend
        run_header((0, 6)) + struct.pack("<HHHHH", 2, 5, 2, 8, 2),  # runs touch, which no writer leaves
        run_header((0, 9)) + struct.pack("<HHH", 1, 5, 2),  # another count
        run_header((0, 1)) + struct.pack("<H", 0),  # no run at all
    ],
)
def test_contradictions_are_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        numbers(data)


def test_union_is_that_of_sets() -> None:
    one, other = set(CASES["runs"]), set(CASES["bitmap"])
    both = roaring.union(np.array(sorted(one)), np.array(sorted(other)))
    assert both.dtype == np.int64
    assert both.tolist() == sorted(one | other)
    assert roaring.union(np.empty(0, np.int64), np.array([2**32 - 1])).tolist() == [2**32 - 1]


def test_few_bytes_do_not_become_many_numbers() -> None:
    data = run_header(*[(key, 65536) for key in range(8)]) + bytes(32) + struct.pack("<HHH", 1, 0, 65535) * 8
    assert len(numbers(data)) == 8 * 65536
    with pytest.raises(LimitError, match="metadata_bytes"):
        roaring.decode(memory_of(data), Limits(metadata_bytes=1 << 20))


def test_mutated_bitmaps_give_ascending_numbers_or_an_error() -> None:
    rng = random.Random(3)
    originals = [bitmap(CASES[n], runs) for n in ("ends", "runs", "bitmap") for runs in (False, True)]
    for _ in range(1500):
        data = bytearray(rng.choice(originals))
        for _ in range(rng.randrange(1, 5)):
            data[rng.randrange(min(len(data), 80))] = rng.randrange(256)
        try:
            found = roaring.decode(memory_of(bytes(data)))
        except FormatError:
            continue
        assert bool((np.diff(found) > 0).all())
        assert found.size == 0 or (found[0] >= 0 and found[-1] < 2**32)
