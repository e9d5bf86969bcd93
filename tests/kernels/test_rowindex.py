"""The kernels of the row-id index, in Numba, in NumPy and with JIT disabled, compared with plain Python."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lancecy.kernels import rowindex_jit, rowindex_loops
from tests.helpers.folded import folded

TOP = 2**64 - 1
FREE = 2**32 - 1

both = pytest.mark.parametrize("kernels", [rowindex_jit.COMPILED, rowindex_jit.TWINS], ids=["numba", "numpy"])


def u64(values: Any) -> NDArray[np.uint64]:
    return np.array(values, np.uint64)


def rows(values: Any) -> NDArray[np.int64]:
    return np.array(values, np.int64)


def flat(runs: list[tuple[int, int, int]]) -> NDArray[np.uint64]:
    return u64([number for run in runs for number in run])


def triples(runs: NDArray[np.uint64]) -> list[tuple[int, ...]]:
    return [tuple(run) for run in runs.reshape(-1, 3).tolist()]


def directory_of(
    kernels: Any, keys: NDArray[np.uint64], shift: int, stride: int = 1
) -> tuple[NDArray[np.uint32], int, int]:
    low = int(keys[0]) if keys.size else 0
    buckets = ((int(keys[-stride]) - low) >> shift) + 1 if keys.size else 0
    directory = np.empty(buckets + 1, np.uint32)
    kernels.fill_directory(keys, stride, low, shift, directory)
    return directory, low, shift


def shift_for(keys: NDArray[np.uint64], wanted: int, stride: int = 1) -> int:
    """The requested shift, or the smallest that needs at most a few thousand buckets."""
    span = int(keys[-stride]) - int(keys[0]) if keys.size else 0
    return min(63, max(wanted, span.bit_length() - 12))


# Clusters of close numbers, and the smallest and largest of the type.
clusters = st.sampled_from([0, 1000, 2**32 - 3, 2**32, 2**53, 2**63 - 5, 2**63, TOP - 9])
ids = st.builds(lambda base, step: base + step, clusters, st.integers(0, 9))
few_rows = st.sets(st.integers(0, 30), max_size=12)


def joined(found: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Rows in order as runs of one id: (id, 1, address)."""
    runs: list[tuple[int, int, int]] = []
    for number, _, address in found:
        if runs and runs[-1][0] + runs[-1][1] == number and runs[-1][2] + runs[-1][1] == address:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1, runs[-1][2])
        else:
            runs.append((number, 1, address))
    return runs


# -- ranges with gaps ---------------------------------------------------------


@both
@given(
    ids.filter(lambda n: n < TOP - 50), st.integers(0, 31), few_rows, few_rows, st.sampled_from([0, 7, 2**40])
)
def test_runs_of_a_range_leave_out_holes_and_deleted_rows(
    kernels: Any, start: int, count: int, holes: set[int], gone: set[int], first_row: int
) -> None:
    ranks = [hole - at for at, hole in enumerate(sorted(holes))]
    numbers = [start + n for n in range(count + len(holes)) if n not in holes][:count]
    deleted = rows(sorted(row + first_row for row in gone))
    address = 5 << 32
    expected = joined([(n, 1, address + row) for row, n in enumerate(numbers) if row not in gone])
    arguments = (start, count, rows(ranks), deleted, first_row, address)

    for room in (len(expected) + 2, len(expected), max(0, len(expected) - 1)):
        runs = np.full(3 * room, 9, np.uint64)
        assert kernels.live_runs(*arguments, runs) == len(expected)
        assert triples(runs)[: len(expected)] == expected[:room]
    expanded = np.empty(count, np.uint64)
    kernels.expand_holes(start, rows(ranks), expanded)
    assert expanded.tolist() == numbers


@both
def test_a_range_of_any_length_costs_what_its_gaps_cost(kernels: Any) -> None:
    runs = np.empty(9, np.uint64)
    count = kernels.live_runs(0, 2**62, rows([2**40]), rows([2**41]), 0, 0, runs)
    assert count == 3
    assert triples(runs) == [
        (0, 2**40, 0),
        (2**40 + 1, 2**40, 2**40),
        (2**41 + 2, 2**62 - 2**41 - 1, 2**41 + 1),
    ]


# -- arrays -------------------------------------------------------------------

arrays = st.tuples(st.sampled_from([0, 70, 2**63]), st.sampled_from([np.uint32, np.uint64])).flatmap(
    lambda kind: st.tuples(
        st.just(kind[0]),
        st.lists(st.integers(0, 12) | st.integers(2**31, 2**31 + 5), max_size=30).map(
            lambda offsets: np.array(offsets, kind[1])
        ),
    )
)


@both
@given(arrays, few_rows, st.sampled_from([0, 7]))
def test_runs_of_an_array_are_of_rows_that_are_neighbours(
    kernels: Any, array: tuple[int, NDArray[Any]], gone: set[int], first_row: int
) -> None:
    base, offsets = array
    alive = [row for row in range(offsets.size) if row not in gone]
    expected = joined([(base + int(offsets[row]), 1, 100 + row) for row in alive])
    deleted = rows(sorted(row + first_row for row in gone if row < offsets.size))
    span = np.empty(2, np.uint64)

    for room in (len(expected) + 1, len(expected), len(expected) // 2, 0):
        runs = np.empty(3 * room, np.uint64)
        assert kernels.array_runs(base, offsets, deleted, first_row, 100, runs, span) == len(expected)
        fit = min(room, len(expected))
        assert (
            triples(runs)[: max(0, fit - (fit < len(expected)))]
            == expected[: max(0, fit - (fit < len(expected)))]
        )
    numbers = [base + int(offsets[row]) for row in alive]
    assert span.tolist() == ([min(numbers), max(numbers)] if numbers else [TOP, 0])


@both
def test_no_run_goes_round_the_end_of_the_type(kernels: Any) -> None:
    numbers, span = u64([TOP - 1, TOP, 0, 1]), np.empty(2, np.uint64)
    assert kernels.array_runs(0, numbers, rows([]), 0, 0, np.empty(0, np.uint64), span) == 2


@both
@given(arrays, few_rows, st.sampled_from([0, 7]))
def test_ids_of_an_array_are_put_into_slots_and_among_keys(
    kernels: Any, array: tuple[int, NDArray[Any]], gone: set[int], first_row: int
) -> None:
    base, offsets = array
    low = base + (int(offsets.min()) if offsets.size else 0)
    offsets = offsets[offsets < 100]
    alive = [row for row in range(offsets.size) if row not in gone]
    deleted = rows(sorted(row + first_row for row in gone if row < offsets.size))
    numbers = [base + int(offsets[row]) for row in alive]
    arguments = (base, offsets, deleted, first_row, 40)

    keys, places = np.empty(len(alive), np.uint64), np.empty(len(alive), np.uint32)
    assert kernels.copy_keys(*arguments, keys, places) == len(alive)
    assert keys.tolist() == numbers
    assert places.tolist() == [40 + row for row in alive]

    slots = np.full(13, FREE, np.uint32)
    row = kernels.fill_slots(*arguments, low, slots)
    if len(set(numbers)) == len(numbers):
        assert row == -1
        assert {low + at: int(p) for at, p in enumerate(slots) if p != FREE} == dict(
            zip(numbers, places.tolist())
        )
    else:
        assert numbers.count(base + int(offsets[row])) > 1


@both
@folded("number", [69, 75, 0, TOP])
def test_an_id_outside_of_the_slots_is_refused(kernels: Any, number: int) -> None:
    slots = np.full(5, FREE, np.uint32)
    assert kernels.fill_slots(0, u64([71, number]), rows([]), 0, 0, 70, slots) == 1


# -- sorting ------------------------------------------------------------------


@both
@folded(
    "keys",
    [
        [],
        [7],
        [3, 3, 1, 1, 2, 2],
        [1, 2, 2, 9],
        [5, TOP, 0, TOP, 5, 0],
        [2**32 + 4, 2**32, 2**33 + 3],
        [10, 10 + 2**32, 10 + 2**32 - 1],
        list(range(2**63 + 5000, 2**63, -7)),
    ],
    ids=str,
)
def test_keys_are_sorted_and_take_their_values_along(kernels: Any, keys: list[int]) -> None:
    sorted_keys, values = u64(keys), np.arange(len(keys), dtype=np.uint32)
    kernels.sort_pairs(sorted_keys, values, np.empty_like(sorted_keys), np.empty_like(values))

    assert sorted_keys.tolist() == sorted(keys)
    assert sorted(zip(sorted_keys.tolist(), values.tolist())) == sorted((k, i) for i, k in enumerate(keys))


@both
@settings(max_examples=settings().max_examples * 2 // 3)
@given(bits=st.integers(0, 64), low=ids, size=st.integers(0, 5000), seed=st.integers(0, 99))
def test_any_span_of_keys_is_sorted(kernels: Any, bits: int, low: int, size: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    keys = random.integers(0, min(2**bits, TOP - low), size, np.uint64, endpoint=True) + np.uint64(low)
    values = random.integers(0, 2**32, size, np.uint32)
    keys[: size // 3] //= np.uint64(2**20)
    expected = sorted(zip(keys.tolist(), values.tolist()))
    kernels.sort_pairs(keys, values, np.empty_like(keys), np.empty_like(values))

    assert keys.tolist() == [key for key, _ in expected]
    assert sorted(zip(keys.tolist(), values.tolist())) == expected


@both
@folded("outliers", [[], [2**63], [2**63, 2**52, 2**41], [TOP, 2**50, 2**50 + 2**39, 2**50 + 2**28]])
def test_keys_that_share_their_highest_digits_are_sorted(kernels: Any, outliers: list[int]) -> None:
    """Two digits distinguish few of these keys, so that the rest is sorted by heap sort."""
    keys = u64([*range(3000, 0, -1), *(2**50 + n * 3 for n in range(500, 0, -1)), *outliers])
    values = np.arange(keys.size, dtype=np.uint32)
    expected = sorted(zip(keys.tolist(), values.tolist()))
    kernels.sort_pairs(keys, values, np.empty_like(keys), np.empty_like(values))
    assert list(zip(keys.tolist(), values.tolist())) == expected


# -- duplicates ---------------------------------------------------------------


@st.composite
def disjoint_runs(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    """Runs (start, count, address) in order, some of them huge."""
    points = sorted(draw(st.sets(ids, max_size=30)))
    found = []
    for start, following in zip(points, [*points[1:], TOP]):
        count = draw(st.sampled_from([1, following - start, min(3, following - start)]))
        found.append((start, count, draw(st.integers(0, 2**62))))
    return [run for run in found if run[1]]


@both
@given(disjoint_runs(), st.data())
def test_runs_in_order_are_disjoint(
    kernels: Any, runs: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    assert kernels.check_runs(flat(runs)) == -1
    if len(runs) < 2:
        return
    at = data.draw(st.integers(1, len(runs) - 1))
    shared = runs[at - 1][0] + data.draw(st.integers(0, runs[at - 1][1] - 1))
    assert kernels.check_runs(flat([*runs[:at], (shared, 1, 0), *runs[at + 1 :]])) == at
    assert kernels.check_runs(flat([runs[at], runs[at - 1]])) == 1


@both
@given(disjoint_runs(), st.sets(ids, max_size=40))
def test_keys_in_runs_are_reported(kernels: Any, runs: list[tuple[int, int, int]], numbers: set[int]) -> None:
    keys = sorted(numbers)
    expected = [i for i, k in enumerate(keys) if any(a <= k < a + n for a, n, _ in runs)]
    assert kernels.keys_in_runs(u64(keys), flat(runs)) == (expected or [-1])[0]
    assert kernels.first_repeat(u64(keys)) == -1
    if keys:
        assert kernels.first_repeat(u64([*keys, keys[-1]])) == len(keys)


@both
@given(disjoint_runs(), clusters.filter(lambda n: n <= TOP - 9), st.sets(st.integers(0, 9), max_size=4))
def test_slots_in_runs_are_reported(
    kernels: Any, runs: list[tuple[int, int, int]], low: int, taken: set[int]
) -> None:
    slots = np.full(10, FREE, np.uint32)
    slots[list(taken)] = 1
    expected = [s for s in sorted(taken) if any(a <= low + s < a + n for a, n, _ in runs)]
    assert kernels.slots_in_runs(slots, low, flat(runs)) == (expected or [-1])[0]


# -- finding ------------------------------------------------------------------

# Places 0 to 255 at address 1000, the next 256 from 9000 on.
BASES = u64([1000, 9000 - 256])


def address_of(place: int) -> int:
    return place + (1000 if place < 256 else 9000 - 256)


def outputs(size: int) -> tuple[NDArray[np.uint64], NDArray[np.uint8]]:
    return np.zeros(size, np.uint64), np.zeros(size, np.uint8)


@both
@given(st.sets(ids, max_size=60), st.lists(ids, max_size=40), st.integers(0, 63))
def test_keys_are_found_by_any_directory(kernels: Any, held: set[int], asked: list[int], shift: int) -> None:
    keys = u64(sorted({*held, 5}))
    numbers = np.arange(keys.size, dtype=np.uint32)[::-1] * 6
    where = directory_of(kernels, keys, shift_for(keys, shift))
    wanted = u64([*asked, *held, 0, TOP])
    addresses, found = outputs(wanted.size)
    kernels.find_keys(wanted, keys, numbers, *where, 8, BASES, addresses, found)

    model = {key: address_of(place) for key, place in zip(keys.tolist(), numbers.tolist())}
    assert found.tolist() == [int(n in model) for n in wanted.tolist()]
    assert addresses.tolist() == [model.get(n, 0) for n in wanted.tolist()]


@both
@given(disjoint_runs(), st.lists(ids, max_size=30), st.integers(0, 63))
def test_ids_are_found_in_runs(
    kernels: Any, runs: list[tuple[int, int, int]], asked: list[int], shift: int
) -> None:
    runs = runs or [(4, 4, 4)]
    numbers = flat(runs)
    where = directory_of(kernels, numbers, shift_for(numbers, shift, 3), 3)
    ends = [min(TOP, max(0, start + step)) for start, count, _ in runs for step in (-1, 0, count - 1, count)]
    wanted = u64([*asked, *ends, 0, TOP])
    addresses, found = outputs(wanted.size)
    addresses[:], found[:] = 7, 7
    kernels.find_runs(wanted, numbers, *where, addresses, found)

    for number, address, hit in zip(wanted.tolist(), addresses.tolist(), found.tolist()):
        expected = [
            (at + number - start) % 2**64 for start, count, at in runs if start <= number < start + count
        ]
        assert [address] * hit == expected, number
        assert hit or address == 0


@both
@given(clusters, st.dictionaries(st.integers(0, 9), st.integers(0, 500), min_size=1), st.lists(ids))
def test_ids_are_found_in_slots(kernels: Any, low: int, held: dict[int, int], asked: list[int]) -> None:
    slots = np.full(10, FREE, np.uint32)
    for slot, place in held.items():
        slots[slot] = place
    wanted = u64([*asked, *(low + slot for slot in range(10)), 0, TOP, max(low, 1) - 1])
    addresses, found = outputs(wanted.size)
    kernels.find_slots(wanted, low, slots, 8, BASES, addresses, found)

    model = {low + slot: address_of(place) for slot, place in held.items()}
    assert found.tolist() == [int(n in model) for n in wanted.tolist()]
    assert addresses.tolist() == [model.get(n, 0) for n in wanted.tolist()]


@both
def test_what_is_found_already_is_left_alone(kernels: Any) -> None:
    keys, numbers, wanted = u64([5, 6, 7]), np.array([1, 2, 3], np.uint32), u64([5, 6, 8])
    for find in ("find_slots", "find_keys"):
        addresses, found = u64([0, 77, 0]), np.array([0, 1, 0], np.uint8)
        if find == "find_slots":
            kernels.find_slots(wanted, 5, numbers, 8, BASES, addresses, found)
        else:
            where = directory_of(kernels, keys, 0)
            kernels.find_keys(wanted, keys, numbers, *where, 8, BASES, addresses, found)
        assert (addresses.tolist(), found.tolist()) == ([1001, 77, 0], [1, 1, 0])


@both
def test_many_keys_in_one_bucket(kernels: Any) -> None:
    """One id far from all others puts these into a single bucket."""
    keys = u64([*range(0, 3000, 3), 2**63])
    where = directory_of(kernels, keys, 63)
    wanted = np.arange(0, 3003, dtype=np.uint64)
    addresses, found = outputs(wanted.size)
    places = np.arange(keys.size, dtype=np.uint32)
    kernels.find_keys(wanted, keys, places, *where, 32, u64([0]), addresses, found)
    assert np.flatnonzero(found).tolist() == list(range(0, 3000, 3))
    assert addresses[found.astype(bool)].tolist() == list(range(1000))

    runs = flat([(int(key), 2, 10 * int(key) % 2**63) for key in keys])
    where = directory_of(kernels, runs, 63, 3)
    kernels.find_runs(wanted, runs, *where, addresses, found)
    assert np.flatnonzero(found).tolist() == [n for n in range(3000) if n % 3 < 2]
    assert addresses[:6].tolist() == [0, 1, 0, 30, 31, 0]


@both
def test_keys_before_and_beyond_the_buckets_are_in_the_first_and_last(kernels: Any) -> None:
    keys = u64([0, 5, 100, 101, 103, 107, 2**40, TOP])
    directory = np.empty(9, np.uint32)
    kernels.fill_directory(keys, 1, 100, 0, directory)
    assert directory.tolist() == [0, 3, 4, 4, 5, 5, 5, 5, 8]
    wanted = u64([0, 1, 5, 99, 100, 102, 103, 107, 108, 2**40, TOP - 1, TOP])
    addresses, found = outputs(wanted.size)
    kernels.find_keys(
        wanted, keys, np.arange(8, dtype=np.uint32), directory, 100, 0, 32, u64([0]), addresses, found
    )
    assert found.tolist() == [1, 0, 1, 0, 1, 0, 1, 1, 0, 1, 0, 1]
    assert addresses.tolist() == [0, 0, 1, 0, 2, 0, 4, 5, 0, 6, 0, 7]
    runs = flat([(int(key), 1, at) for at, key in enumerate(keys)])
    kernels.fill_directory(runs, 3, 100, 0, directory)
    kernels.find_runs(wanted, runs, directory, 100, 0, addresses, found)
    assert found.tolist() == [1, 0, 1, 0, 1, 0, 1, 1, 0, 1, 0, 1]
    assert addresses.tolist() == [0, 0, 1, 0, 2, 0, 4, 5, 0, 6, 0, 7]


@both
def test_a_directory_that_lies_finds_nothing_but_reads_no_foreign_memory(kernels: Any) -> None:
    keys = u64([10, 20, 30, 40])
    lying = np.array([9, 2**32 - 1], np.uint32)
    wanted = u64([5, 20, 50])
    places = np.array([1, 2, 3, FREE], np.uint32)
    addresses, found = outputs(3)
    kernels.find_keys(wanted, keys, places, lying, 10, 63, 8, BASES, addresses, found)
    assert found[[0, 2]].tolist() == [0, 0]
    runs = flat([(n, 1, 0) for n in (10, 20, 30, 40)])
    kernels.find_runs(wanted, runs, lying, 10, 63, addresses, found)
    assert found[[0, 2]].tolist() == [0, 0]


@both
def test_read_only_arrays_are_read(kernels: Any) -> None:
    keys, places = u64([4, 6]), np.array([1, 0], np.uint32)
    where = directory_of(kernels, keys, 0)
    wanted = u64([6, 5])
    for array in (keys, places, where[0], wanted):
        array.flags.writeable = False
    addresses, found = outputs(2)
    kernels.find_keys(wanted, keys, places, *where, 8, BASES, addresses, found)
    assert (found.tolist(), addresses.tolist()) == ([1, 0], [1000, 0])


# -- arguments ----------------------------------------------------------------

U64, U32, I64, U8 = (np.zeros(3, kind) for kind in (np.uint64, np.uint32, np.int64, np.uint8))
FROZEN = U64.copy()
FROZEN.flags.writeable = False
NONE = np.empty(0, np.uint64)
ONE_BUCKET = np.zeros(2, np.uint32)

WRONG: list[tuple[str, tuple[Any, ...]]] = [
    ("live_runs", (-1, 1, I64, I64, 0, 0, U64)),
    ("live_runs", (2**64, 1, I64, I64, 0, 0, U64)),
    ("live_runs", (0, 2**63, I64, I64, 0, 0, U64)),
    ("live_runs", (0, 1, U64, I64, 0, 0, U64)),
    ("live_runs", (0, 1, I64, I64, 0, 0, FROZEN)),
    ("expand_holes", (0, I64, U32)),
    ("array_runs", (0, U8, I64, 0, 0, U64, U64[:2])),
    ("array_runs", (0, U32, I64, 0, 0, U64, U64)),
    ("fill_slots", (0, U32, I64, 0, 2**32 - 3, 0, U32)),
    ("fill_slots", (0, I64, I64, 0, 0, 0, U32)),
    ("copy_keys", (0, U32, I64, 0, 2**32 - 3, U64, U32)),
    ("copy_keys", (0, U32, I64, 0, 0, U64, U32[:1])),
    ("sort_pairs", (I64, U32, U64, U32)),
    ("sort_pairs", (U64, U64, U64, U32)),
    ("sort_pairs", (FROZEN, U32, U64, U32)),
    ("sort_pairs", (U64, U32, U64[:1], U32)),
    ("sort_pairs", (np.zeros(6, np.uint64)[::2], U32, U64, U32)),
    ("check_runs", (U64[:2],)),
    ("check_runs", ([1, 2],)),
    ("check_runs", (np.zeros((3, 3), np.uint64),)),
    ("first_repeat", (I64,)),
    ("slots_in_runs", (U32, 0, U64[:2])),
    ("slots_in_runs", (U32, 2**64 - 2, U64)),
    ("slots_in_runs", (U32[:0], 0, U64)),
    ("keys_in_runs", (U64, U64[:2])),
    ("fill_directory", (U64, 1, 0, 64, ONE_BUCKET)),
    ("fill_directory", (U64, 1, 0, -1, ONE_BUCKET)),
    ("fill_directory", (U64, 2, 0, 0, ONE_BUCKET)),
    ("fill_directory", (U64[:2], 3, 0, 0, ONE_BUCKET)),
    ("fill_directory", (U64, 1, 1, 0, ONE_BUCKET)),
    ("fill_directory", (U64, 1, 0, 0, U32)),
    ("fill_directory", (U64, 1, 0, 0, np.zeros(2, np.int32))),
    ("fill_directory", (np.array([5, 3], np.uint64), 1, 0, 0, ONE_BUCKET)),
    ("find_keys", (U64, U64, U32[:1], ONE_BUCKET, 0, 0, 8, BASES, U64, U8)),
    ("find_keys", (U64, U64, U32, ONE_BUCKET[:1], 0, 0, 8, BASES, U64, U8)),
    ("find_keys", (U64, U64, U32, ONE_BUCKET, 0, 0, 8, BASES, U64[:1], U8)),
    ("find_keys", (U64, U64, U32, ONE_BUCKET, 0, 0, 8, BASES, U64, U64)),
    ("find_keys", (U64, U64, U32, ONE_BUCKET, 0, 0, 8, BASES, FROZEN, U8)),
    ("find_keys", (U64, U64, U32, ONE_BUCKET, 0, 0, 33, BASES, U64, U8)),
    ("find_keys", (U64, U64, U32, ONE_BUCKET, 0, 0, 8, NONE, U64, U8)),
    ("find_keys", (U64, NONE, U32[:0], ONE_BUCKET[:1], 0, 0, 8, BASES, U64, U8)),
    ("find_runs", (I64, U64, ONE_BUCKET, 0, 0, U64, U8)),
    ("find_runs", (U64, U64[:2], ONE_BUCKET, 0, 0, U64, U8)),
    ("find_runs", (U64, NONE, ONE_BUCKET[:1], 0, 0, U64, U8)),
    ("find_runs", (U64, U64, ONE_BUCKET, 0, 0, U64, U8[:1])),
    ("find_slots", (U64, 0, U32[:0], 8, BASES, U64, U8)),
    ("find_slots", (U64, 0, U32, 8, NONE, U64, U8)),
    ("find_slots", (U64, 0, U32, 8, BASES, U64, U8[:1])),
]


@folded(("name", "arguments"), WRONG, ids=lambda value: value if isinstance(value, str) else "")
def test_wrong_arguments_are_refused_alike(name: str, arguments: tuple[Any, ...]) -> None:
    outcomes = []
    for kernels in (rowindex_jit.COMPILED, rowindex_jit.TWINS):
        with pytest.raises((TypeError, ValueError)) as caught:
            getattr(kernels, name)(*arguments)
        outcomes.append((caught.type, str(caught.value)))
    assert outcomes[0] == outcomes[1]


@both
def test_nothing_to_do(kernels: Any) -> None:
    none, places, span = NONE, U32[:0], np.empty(2, np.uint64)
    kernels.sort_pairs(none.copy(), places.copy(), none.copy(), places.copy())
    assert kernels.live_runs(0, 0, I64[:0], I64[:0], 0, 0, none.copy()) == 0
    assert kernels.array_runs(0, none, I64[:0], 0, 0, none.copy(), span) == 0
    assert kernels.check_runs(none) == kernels.first_repeat(none) == kernels.keys_in_runs(none, none) == -1
    kernels.find_runs(none, flat([(1, 1, 1)]), ONE_BUCKET, 1, 0, none.copy(), U8[:0].copy())


# -- which implementation -----------------------------------------------------

USED = """
import os, sys, warnings
import numpy as np
from lancecy.kernels import rowindex_jit, rowindex_loops
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    for work in {work}:
        kernels = rowindex_jit.implementation(work)
    for _ in range(2):
        keys = np.array([3, 1, 2], np.uint64)
        kernels.sort_pairs(keys, np.zeros(3, np.uint32), keys.copy(), np.zeros(3, np.uint32))
        assert keys.tolist() == [1, 2, 3] and kernels.check_runs(keys) == -1
        kernels = rowindex_jit.implementation(1)
print("numba" if kernels is rowindex_jit.COMPILED else "twins", "llvmlite" in sys.modules, len(seen),
      *{{str(w.message)[:60] for w in seen}}, sep="|")
"""
UNKEPT = "the compiled kernels of the row-id index cannot be kept"
MISSING = "Numba cannot be used"
NO_NUMBA = "import sys; sys.modules['numba'] = None\n"
# A release of Numba that does not support this NumPy: its import fails with an arbitrary error.
BROKEN_NUMBA = """
import sys
class Broken:
    def find_spec(self, name, path=None, target=None):
        if name == "numba":
            raise SystemError("initialization of _internal failed")
sys.meta_path.insert(0, Broken())
"""
# Only files of up to a kilobyte can be written, as on a full disk.
FULL_DISK = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"


def used(before: str, work: str, environment: dict[str, str]) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", before + USED.format(work=work)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=200,
    )
    return done.stdout.strip().split("|")


@pytest.fixture(scope="module")
def kept() -> None:
    """Compile the requested kernels."""
    used("", "[10**7]", {})


@pytest.mark.slow
@pytest.mark.usefixtures("kept")
@folded(
    ("before", "work", "environment", "expected"),
    [
        ("", "[100]", {}, ["twins", "False", "0"]),
        ("", "[100] * 20", {}, ["twins", "False", "0"]),
        ("", "[10**7]", {}, ["numba", "True", "0"]),
        ("", "[1000] * 2000", {}, ["numba", "True", "0"]),
        ("", "[10**7]", {"LANCECY_KERNELS": "reference"}, ["twins", "False", "0"]),
        ("", "[10**7]", {"NUMBA_DISABLE_JIT": "1"}, ["numba", "False", "0"]),
        (NO_NUMBA, "[10**7]", {"NUMBA_CACHE_DIR": "/dev/null/none"}, ["twins", "True", "0"]),
        (NO_NUMBA, "[10**12]", {"NUMBA_CACHE_DIR": "/dev/null/none"}, ["twins", "True", "1", MISSING]),
        (BROKEN_NUMBA, "[10**12]", {"NUMBA_CACHE_DIR": "/dev/null/none"}, ["twins", "True", "1", MISSING]),
    ],
)
def test_implementation_fits_the_work_and_the_machine(
    before: str, work: str, environment: dict[str, str], expected: list[str]
) -> None:
    """If machine code cannot be kept (a folder below a device), Numba is used only for much more work."""
    said = used(before, work, environment)
    assert said[:3] == expected[:3]
    assert all(text.startswith(wanted) for text, wanted in zip(said[3:], expected[3:], strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("before", ["", FULL_DISK], ids=["no folder", "full disk"])
def test_kernels_that_cannot_be_kept_are_compiled_with_a_warning(before: str, tmp_path: Path) -> None:
    folder = str(tmp_path) if before else "/dev/null/none"
    said = used(before, "[10**12]", {"NUMBA_CACHE_DIR": folder})
    assert said[:3] == ["numba", "True", "1"]
    assert said[3].startswith(UNKEPT)
    assert list(tmp_path.glob("*/*")) == []


def test_every_kernel_has_a_loop_and_a_twin() -> None:
    names = {field.name for field in fields(rowindex_jit.RowIndexKernels)}
    assert names == set(rowindex_loops.LOOPS)


@pytest.mark.slow
def test_kernels_are_right_without_being_compiled() -> None:
    """Run these tests in a process where Numba does not compile the loops, so that Python checks their indexing."""
    if os.environ.get("NUMBA_DISABLE_JIT") == "1":
        return
    # Compiled sums of unsigned integers wrap, as C's do; NumPy's scalars do too, and warn.
    wrapping = ["-W", "ignore:overflow encountered:RuntimeWarning"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:randomly", *wrapping, "-k", "numba", __file__],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTEST_XDIST_WORKER": ""},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
