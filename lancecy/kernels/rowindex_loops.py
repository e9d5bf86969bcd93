"""Loops of the row-id index, in the subset of Python that Numba compiles (see :mod:`lancecy.kernels.rowindex_jit`).

Each array is passed as its elements and their number. In compiled loops the elements are a bare pointer and Numba
checks no index: the caller has checked the arguments, and every access is within bounds by that or is clamped.
Uncompiled (``NUMBA_DISABLE_JIT=1``), they are the arrays themselves. The twins document what each loop does.

Signed and unsigned numbers are not mixed: Numba would convert both to float.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

__all__ = ["HELPERS", "INNER_BITS", "LOOPS", "OUTER_BITS"]

Elements: TypeAlias = Any
Number: TypeAlias = Any

_NO_PLACE = 0xFFFFFFFF
_LAST = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE, _ZERO = np.uint64(1), np.uint64(0)
# Keys of a bucket that are searched linearly: they fill one or two cache lines.
_FEW = 8
# Ids searched together, so that their cache misses in the directory overlap.
_BLOCK = 256
# Bits of the sort's two digits; the first scatters over memory, the second within a cache.
OUTER_BITS, INNER_BITS = 11, 13
# Parts up to this size are sorted by insertion.
_SMALL = 24


# -- build ----------------------------------------------------------------------------


def live_runs(
    start: Number, count: Number, ranks: Elements, num_ranks: int, deleted: Elements, num_deleted: int,
    first_row: int, address: Number, runs: Elements, num_slots: int,
) -> int:  # fmt: skip
    row, hole, gone, found = 0, 0, 0, 0
    while row < count:
        while hole < num_ranks and ranks[hole] <= row:
            hole += 1
        if gone < num_deleted and deleted[gone] - first_row <= row:
            row += deleted[gone] - first_row == row
            gone += 1
            continue
        stop = count
        if hole < num_ranks:
            stop = min(stop, ranks[hole])
        if gone < num_deleted:
            stop = min(stop, deleted[gone] - first_row)
        if 3 * found + 3 <= num_slots:
            runs[3 * found] = start + np.uint64(row + hole)
            runs[3 * found + 1] = np.uint64(stop - row)
            runs[3 * found + 2] = address + np.uint64(row)
        found += 1
        row = stop
    return found


def expand_holes(start: Number, ranks: Elements, num_ranks: int, out: Elements, num_out: int) -> int:
    hole = 0
    for row in range(num_out):
        while hole < num_ranks and ranks[hole] <= row:
            hole += 1
        out[row] = start + np.uint64(row + hole)
    return 0


def array_runs(
    base: Number, offsets: Elements, count: int, deleted: Elements, num_deleted: int, first_row: int,
    address: Number, runs: Elements, num_slots: int, span: Elements, num_span: int,
) -> int:  # fmt: skip
    low, high, previous = _LAST, _ZERO, _ZERO
    gone, found, begin = 0, 0, -1
    for row in range(count):
        if gone < num_deleted and deleted[gone] - first_row == row:
            gone += 1
            if begin >= 0 and 3 * found <= num_slots:
                runs[3 * found - 2] = np.uint64(row - begin)
            begin = -1
            continue
        value = base + np.uint64(offsets[row])
        low, high = min(low, value), max(high, value)
        if begin < 0 or value <= previous or value - previous != _ONE:
            if begin >= 0 and 3 * found <= num_slots:
                runs[3 * found - 2] = np.uint64(row - begin)
            if 3 * found + 3 <= num_slots:
                runs[3 * found] = value
                runs[3 * found + 2] = address + np.uint64(row)
            found += 1
            begin = row
        previous = value
    if begin >= 0 and 3 * found <= num_slots:
        runs[3 * found - 2] = np.uint64(count - begin)
    span[0], span[num_span - 1] = low, high
    return found


def fill_slots(
    base: Number, offsets: Elements, count: int, deleted: Elements, num_deleted: int, first_row: int,
    place: int, low: Number, slots: Elements, num_slots: int,
) -> int:  # fmt: skip
    gone = 0
    for row in range(count):
        if gone < num_deleted and deleted[gone] - first_row == row:
            gone += 1
            continue
        slot = base + np.uint64(offsets[row]) - low
        if slot >= np.uint64(num_slots) or slots[slot] != _NO_PLACE:
            return row
        slots[slot] = np.uint32(place + row)
    return -1


def copy_keys(
    base: Number, offsets: Elements, count: int, deleted: Elements, num_deleted: int, first_row: int,
    place: int, keys: Elements, num_keys: int, places: Elements, num_places: int,
) -> int:  # fmt: skip
    gone, done = 0, 0
    for row in range(count):
        if gone < num_deleted and deleted[gone] - first_row == row:
            gone += 1
            continue
        if done < min(num_keys, num_places):
            keys[done] = base + np.uint64(offsets[row])
            places[done] = np.uint32(place + row)
        done += 1
    return done


def sort_pairs(
    keys: Elements, num_keys: int, values: Elements, num_values: int, spare_keys: Elements, num_spare: int,
    spare_values: Elements, num_spare_values: int, ends: Elements, num_ends: int,
) -> int:  # fmt: skip
    row = 1
    while row < num_keys and keys[row - 1] <= keys[row]:
        row += 1
    if row >= num_keys:
        return 0
    # By the highest digit into the spare arrays; then each part, which now fits a cache, back by its own highest
    # digit; the rest by insertion, or by heap sort if keys are very unevenly distributed.
    shift, parts = _spread(keys, values, 0, num_keys, spare_keys, spare_values, ends, 0, OUTER_BITS)
    first = 0
    for part in range(parts):
        stop = ends[part]
        if stop - first <= _SMALL or shift == 0:
            for i in range(first, stop):
                keys[i], values[i] = spare_keys[i], spare_values[i]
            if shift > 0:
                _insertion_sort(keys, values, first, stop)
        else:
            inner, buckets = _spread(
                spare_keys, spare_values, first, stop, keys, values, ends, 1 << OUTER_BITS, INNER_BITS
            )
            begin = first
            for bucket in range(buckets):
                end = ends[(1 << OUTER_BITS) + bucket]
                if inner > 0 and end - begin > _SMALL:
                    _heap_sort(keys, values, begin, end)
                elif inner > 0 and end - begin > 1:
                    _insertion_sort(keys, values, begin, end)
                begin = end
        first = stop
    return 0


def _spread(
    keys: Elements, values: Elements, first: int, stop: int, to_keys: Elements, to_values: Elements,
    ends: Elements, at: int, most_bits: int,
) -> tuple[int, int]:  # fmt: skip
    """Move pairs to buckets by the highest digit of their keys.

    ``ends[at + b]`` is the end of bucket ``b``. Returns the bits below the digit and the number of buckets.
    """
    low, high = keys[first], keys[first]
    for i in range(first + 1, stop):
        low, high = min(low, keys[i]), max(high, keys[i])
    buckets: Number
    bucket: Number
    bits, digit = 0, 0
    while bits < 64 and (high - low) >> np.uint64(bits) != _ZERO:
        bits += 1
    while digit < most_bits and (stop - first) >> (digit + 1) != 0:
        digit += 1
    shift = max(0, bits - digit)
    places = np.uint64(shift)
    buckets = np.int64((high - low) >> places) + 1
    for bucket in range(buckets):
        ends[at + bucket] = 0
    for i in range(first, stop):
        ends[at + np.int64((keys[i] - low) >> places)] += 1
    total = first
    for bucket in range(buckets):
        count = ends[at + bucket]
        ends[at + bucket] = total
        total += count
    # Each start advances as its bucket fills, and becomes the bucket's end.
    for i in range(first, stop):
        bucket = at + np.int64((keys[i] - low) >> places)
        place = ends[bucket]
        ends[bucket] = place + 1
        to_keys[place], to_values[place] = keys[i], values[i]
    return shift, buckets


def _insertion_sort(keys: Elements, values: Elements, first: int, stop: int) -> None:
    for i in range(first + 1, stop):
        key, value, j = keys[i], values[i], i
        while j > first and keys[j - 1] > key:
            keys[j], values[j] = keys[j - 1], values[j - 1]
            j -= 1
        keys[j], values[j] = key, value


def _heap_sort(keys: Elements, values: Elements, first: int, stop: int) -> None:
    count = stop - first
    for top in range(count // 2 - 1, -1, -1):
        _sift(keys, values, first, top, count)
    for end in range(count - 1, 0, -1):
        a, b = first, first + end
        keys[a], keys[b] = keys[b], keys[a]
        values[a], values[b] = values[b], values[a]
        _sift(keys, values, first, 0, end)


def _sift(keys: Elements, values: Elements, first: int, top: int, count: int) -> None:
    key, value, child = keys[first + top], values[first + top], 2 * top + 1
    while child < count:
        child += child + 1 < count and keys[first + child] < keys[first + child + 1]
        if keys[first + child] <= key:
            break
        keys[first + top], values[first + top] = keys[first + child], values[first + child]
        top, child = child, 2 * child + 1
    keys[first + top], values[first + top] = key, value


def check_runs(runs: Elements, num_numbers: int) -> int:
    for i in range(1, num_numbers // 3):
        before, start = runs[3 * i - 3], runs[3 * i]
        if start < before or start - before < runs[3 * i - 2]:
            return i
    return -1


def first_repeat(keys: Elements, num_keys: int) -> int:
    for i in range(1, num_keys):
        if keys[i] == keys[i - 1]:
            return i
    return -1


def slots_in_runs(slots: Elements, num_slots: int, low: Number, runs: Elements, num_numbers: int) -> int:
    top = low + np.uint64(num_slots - 1)
    for run in range(num_numbers // 3):
        start, count = runs[3 * run], runs[3 * run + 1]
        if count == _ZERO or start > top or start + (count - _ONE) < low:
            continue
        first, last = max(start, low) - low, min(start + (count - _ONE), top) - low
        for slot in range(np.int64(first), np.int64(last) + 1):
            if slots[slot] != _NO_PLACE:
                return slot
    return -1


def keys_in_runs(keys: Elements, num_keys: int, runs: Elements, num_numbers: int) -> int:
    run, num_runs = 0, num_numbers // 3
    for i in range(num_keys):
        while run + 1 < num_runs and runs[3 * run + 3] <= keys[i]:
            run += 1
        if num_runs and keys[i] >= runs[3 * run] and keys[i] - runs[3 * run] < runs[3 * run + 1]:
            return i
    return -1


def fill_directory(
    keys: Elements, num_numbers: int, stride: int, low: Number, shift: Number, directory: Elements, size: int
) -> int:
    filled, last = 0, np.uint64(size - 2)
    for i in range(num_numbers // stride):
        key = keys[stride * i]
        bucket = np.int64(min((key - min(low, key)) >> shift, last))
        while filled <= bucket and filled < size:
            directory[filled] = np.uint32(i)
            filled += 1
    while filled < size:
        directory[filled] = np.uint32(num_numbers // stride)
        filled += 1
    return 0


# -- probe ----------------------------------------------------------------------------


def find_runs(
    ids: Elements, num_ids: int, runs: Elements, num_numbers: int, directory: Elements, size: int,
    low: Number, shift: Number, addresses: Elements, num_addresses: int, found: Elements, num_found: int,
) -> int:  # fmt: skip
    last, num_runs = np.uint64(size - 2), num_numbers // 3
    run: Number
    stop: Number
    for block in range(0, num_ids, _BLOCK):
        end = min(num_ids, block + _BLOCK)
        for i in range(block, end):
            bucket = np.int64(min((max(ids[i], low) - low) >> shift, last))
            addresses[i] = np.uint64(directory[bucket])
        for i in range(block, end):
            wanted = ids[i]
            run = min(np.int64(addresses[i]), num_runs)
            # Runs of the bucket that start no later than the id. The previous one may be in an earlier bucket.
            stop, looked = num_runs, 0
            while run < stop and runs[3 * run] <= wanted:
                run += 1
                looked += 1
                if looked == _FEW:
                    bucket = np.int64(min((max(wanted, low) - low) >> shift, last))
                    stop = min(np.int64(directory[bucket + 1]), num_runs)
                    while run < stop:
                        middle = (run + stop) >> 1
                        if runs[3 * middle] <= wanted:
                            run = middle + 1
                        else:
                            stop = middle
            run = max(run - 1, 0)
            into = wanted - min(runs[3 * run], wanted)
            hit = wanted >= runs[3 * run] and into < runs[3 * run + 1]
            addresses[i] = runs[3 * run + 2] + into if hit else _ZERO
            found[i] = np.uint8(hit)
    return 0


def find_slots(
    ids: Elements, num_ids: int, low: Number, slots: Elements, num_slots: int, shift: int, bases: Elements,
    num_bases: int, addresses: Elements, num_addresses: int, found: Elements, num_found: int,
) -> int:  # fmt: skip
    size, last = np.uint64(num_slots), num_bases - 1
    for i in range(num_ids):
        slot = ids[i] - min(low, ids[i])
        inside = slot < size and ids[i] >= low and found[i] == 0
        place = slots[slot if inside else _ZERO]
        if inside and place != _NO_PLACE:
            addresses[i] = bases[min(np.int64(place) >> shift, last)] + np.uint64(place)
            found[i] = np.uint8(1)
    return 0


def find_keys(
    ids: Elements, num_ids: int, keys: Elements, num_keys: int, places: Elements, num_places: int,
    directory: Elements, size: int, low: Number, shift: Number, place_shift: int, bases: Elements, num_bases: int,
    addresses: Elements, num_addresses: int, found: Elements, num_found: int,
) -> int:  # fmt: skip
    last, top, last_base = np.uint64(size - 2), num_keys - 1, num_bases - 1
    at: Number
    stop: Number
    for block in range(0, num_ids, _BLOCK):
        end = min(num_ids, block + _BLOCK)
        for i in range(block, end):
            if found[i] == 0:
                bucket = np.int64(min((max(ids[i], low) - low) >> shift, last))
                addresses[i] = np.uint64(directory[bucket])
        for i in range(block, end):
            if found[i] == 1:
                continue
            wanted = ids[i]
            at = min(np.int64(addresses[i]), top)
            stop, looked = top, 0
            while at < stop and keys[at] < wanted:
                at += 1
                looked += 1
                if looked == _FEW:
                    bucket = np.int64(min((max(wanted, low) - low) >> shift, last))
                    stop = min(np.int64(directory[bucket + 1]), top)
                    while at < stop:
                        middle = (at + stop) >> 1
                        if keys[middle] < wanted:
                            at = middle + 1
                        else:
                            stop = middle
            addresses[i] = _ZERO
            if keys[at] == wanted:
                place = np.int64(places[at])
                addresses[i] = bases[min(place >> place_shift, last_base)] + np.uint64(place)
                found[i] = np.uint8(1)
    return 0


HELPERS = (_spread, _insertion_sort, _heap_sort, _sift)
"""Functions that the loops call, innermost last."""

LOOPS: dict[str, tuple[Any, str]] = {
    "live_runs": (live_runs, "u n q q n u Q!"),
    "expand_holes": (expand_holes, "u q Q!"),
    "array_runs": (array_runs, "u A q n u Q! Q!"),
    "fill_slots": (fill_slots, "u A q n n u I!"),
    "copy_keys": (copy_keys, "u A q n n Q! I!"),
    "sort_pairs": (sort_pairs, "Q! I! Q! I! q!"),
    "check_runs": (check_runs, "Q"),
    "first_repeat": (first_repeat, "Q"),
    "slots_in_runs": (slots_in_runs, "I u Q"),
    "keys_in_runs": (keys_in_runs, "Q Q"),
    "fill_directory": (fill_directory, "Q n u u I!"),
    "find_runs": (find_runs, "Q Q I u u Q! B!"),
    "find_slots": (find_slots, "Q u I n Q Q! B!"),
    "find_keys": (find_keys, "Q Q I I u u n Q Q! B!"),
}
"""Each loop and its parameters.

An array is the character of its dtype, with ``!`` if it is written to; ``A`` has 32 or 64 unsigned bits. ``n``
is a signed 64-bit number, ``u`` an unsigned one.
"""
