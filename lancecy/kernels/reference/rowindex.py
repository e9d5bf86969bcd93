"""Twins of ``rowindex_jit`` in NumPy, and the checks of arguments for both.

Also used for small work, for which loading the compiled kernels would take longer than the work itself.

All functions use two kinds of arrays. *Runs* are (3 * num_runs,) uint64, three numbers each: first id, number of
ids, and the address of the first id; a kernel writes as many runs as fit and returns the number of all runs.
*Deleted* are (num_deleted,) int64, ascending: rows to leave out, counted from the row that is ``first_row`` rows
before the first of the segment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels.reference.checks import require, same_length
from lancecy.kernels.rowindex_loops import INNER_BITS, LOOPS, OUTER_BITS

__all__ = [
    "array_runs",
    "check",
    "check_runs",
    "copy_keys",
    "expand_holes",
    "fill_directory",
    "fill_slots",
    "find_keys",
    "find_runs",
    "find_slots",
    "first_repeat",
    "keys_in_runs",
    "live_runs",
    "slots_in_runs",
    "sort_pairs",
]

Bool = NDArray[np.bool_]
Bytes = NDArray[np.uint8]
Int64 = NDArray[np.int64]
UInt32 = NDArray[np.uint32]
UInt64 = NDArray[np.uint64]
Offsets = NDArray[np.uint32] | NDArray[np.uint64]

NO_PLACE = (1 << 32) - 1
"""Content of a slot without an id."""

_DTYPES: dict[str, tuple[type[np.generic], ...]] = {
    "Q": (np.uint64,),
    "I": (np.uint32,),
    "q": (np.int64,),
    "B": (np.uint8,),
    "A": (np.uint32, np.uint64),
}


# -- checks of arguments, for both implementations ------------------------------------


def check(name: str, *arguments: Any) -> None:
    """Refuse invalid arguments of the kernel of this name.

    Raises
    ------
    TypeError
        Not an array, or none of several possible dtypes.
    ValueError
        Wrong dtype, shape or length, or a number out of range.
    """
    for code, argument in zip(LOOPS[name][1].split(), arguments, strict=False):
        if code == "n":
            if not 0 <= argument < 1 << 63:
                raise ValueError(f"{argument} is not a count")
        elif code == "u":
            if not 0 <= argument < 1 << 64:
                raise ValueError(f"{argument} is not a number of 64 bits")
        else:
            require(argument, *_DTYPES[code[0]], writable=code.endswith("!"))
    if name in _RELATIONS:
        _RELATIONS[name](*arguments)


def _check_runs(runs: UInt64) -> None:
    if runs.size % 3:
        raise ValueError("runs are of three numbers each")


def _check_any(what: str, array: NDArray[Any]) -> None:
    if not array.size:
        raise ValueError(f"there are no {what}")


def _check_array_runs(*arguments: Any) -> None:
    if arguments[-1].size != 2:
        raise ValueError("the span of an array is of two numbers")


def _check_places(first: int, count: int) -> None:
    if first + count > NO_PLACE:
        raise ValueError("places are numbers of 32 bits")


def _check_fill(
    base: int, offsets: Offsets, deleted: Int64, first_row: int, place: int, low: int, slots: UInt32
) -> None:
    _check_places(place, offsets.size)


def _check_copy(
    base: int,
    offsets: Offsets,
    deleted: Int64,
    first_row: int,
    place: int,
    keys: UInt64,
    places: UInt32,
) -> None:
    _check_places(place, offsets.size)
    same_length("keys and places differ in length", keys, places)


def _check_sort(keys: UInt64, *others: NDArray[Any]) -> None:
    same_length("keys, values and their spare arrays differ in length", keys, *others[:3])
    if len(others) > 3 and others[3].size < (1 << OUTER_BITS) + (1 << INNER_BITS):
        raise ValueError("there is no room for the ends of the buckets")


def _check_slots_in_runs(slots: UInt32, low: int, runs: UInt64) -> None:
    _check_runs(runs)
    _check_any("slots", slots)
    if low + slots.size > 1 << 64:
        raise ValueError("slots are of numbers of 64 bits")


def _check_directory(keys: UInt64, stride: int, low: int, shift: int, directory: UInt32) -> None:
    if stride not in {1, 3} or keys.size % stride:
        raise ValueError(f"{keys.size} numbers are not keys of {stride} numbers each")
    count = keys.size // stride
    if count >= 1 << 32 or shift >= 64:
        raise ValueError(
            "a directory is of fewer than 2^32 keys, and shifts 64-bit numbers by less than 64 bits"
        )
    last = int(keys[keys.size - stride]) if count else 0
    if count and not max(low, int(keys[0])) <= last:
        raise ValueError("keys must ascend, and reach low")
    most = ((last - low) >> shift) + 1 if count else 0
    if not min(1, most) <= directory.size - 1 <= most:
        raise ValueError(f"a directory of {directory.size} entries for keys of {most} buckets")


def _check_find_runs(
    ids: UInt64,
    runs: UInt64,
    directory: UInt32,
    low: int,
    shift: int,
    addresses: UInt64,
    found: Bytes,
) -> None:
    _check_any("runs", runs)
    _check_directory(runs, 3, low, shift, directory)
    same_length("ids and outputs differ in length", ids, addresses, found)


def _check_bases(place_shift: int, bases: UInt64) -> None:
    if place_shift > 32 or not bases.size:
        raise ValueError("places of 32 bits lead to one base at least")


def _check_find_slots(
    ids: UInt64,
    low: int,
    slots: UInt32,
    place_shift: int,
    bases: UInt64,
    addresses: UInt64,
    found: Bytes,
) -> None:
    _check_any("slots", slots)
    _check_bases(place_shift, bases)
    same_length("ids and outputs differ in length", ids, addresses, found)


def _check_find_keys(
    ids: UInt64,
    keys: UInt64,
    places: UInt32,
    directory: UInt32,
    low: int,
    shift: int,
    place_shift: int,
    bases: UInt64,
    addresses: UInt64,
    found: Bytes,
) -> None:
    _check_any("keys", keys)
    _check_directory(keys, 1, low, shift, directory)
    _check_bases(place_shift, bases)
    same_length("keys and places differ in length", keys, places)
    same_length("ids and outputs differ in length", ids, addresses, found)


_RELATIONS: dict[str, Callable[..., None]] = {
    "array_runs": _check_array_runs,
    "fill_slots": _check_fill,
    "copy_keys": _check_copy,
    "sort_pairs": _check_sort,
    "check_runs": _check_runs,
    "slots_in_runs": _check_slots_in_runs,
    "keys_in_runs": lambda keys, runs: _check_runs(runs),
    "fill_directory": _check_directory,
    "find_runs": _check_find_runs,
    "find_slots": _check_find_slots,
    "find_keys": _check_find_keys,
}


# -- build ----------------------------------------------------------------------------


def live_runs(
    start: int, count: int, ranks: Int64, deleted: Int64, first_row: int, address: int, runs: UInt64
) -> int:
    """Runs of a range with holes, without its deleted rows.

    Parameters
    ----------
    start : int
        First id of the range.
    count : int
        Number of rows, including deleted ones.
    ranks : (num_holes,) int64, ascending
        Number of ids of the range before each hole.
    deleted, first_row
        See the module docstring.
    address : int
        Address of the first row.
    runs : (3 * num_runs,) uint64
        Filled; see the module docstring.

    Returns
    -------
    int
        Number of runs.
    """
    check("live_runs", start, count, ranks, deleted, first_row, address, runs)
    # A run begins at the first row, after a deleted row or after a hole, and ends before the next such row.
    # The lowest bit tells whether the run before ends with a deleted row (1) or not (0).
    gone = deleted - first_row
    gone = gone[(gone >= 0) & (gone < count)]
    heads = np.sort(np.concatenate((np.zeros(1, np.int64), gone * 2 + 3, ranks * 2)))
    rows = heads >> 1
    last = np.append(rows[1:] > rows[:-1], True)
    starts, after = rows[last], heads[last] & 1
    inside = int(np.searchsorted(starts, count))
    starts = starts[:inside]
    stops = np.append(starts[1:], count)
    # Rows after the last row of the segment are not heads.
    stops -= np.append(after[1:inside], bool(gone.size) and int(gone[-1]) == count - 1)
    some = stops > starts
    starts, stops = starts[some], stops[some]
    first = _after_holes(start, ranks, starts)
    return _write_runs(first, stops - starts, starts, address, runs)


def expand_holes(start: int, ranks: Int64, out: UInt64) -> int:
    """Ids of the first rows of a range with holes.

    Parameters
    ----------
    start, ranks
        As :func:`live_runs`.
    out : (n,) uint64
        Filled with the ids of rows 0 .. n - 1.
    """
    check("expand_holes", start, ranks, out)
    out[:] = _after_holes(start, ranks, np.arange(out.size))
    return 0


def array_runs(
    base: int,
    offsets: Offsets,
    deleted: Int64,
    first_row: int,
    address: int,
    runs: UInt64,
    span: UInt64,
) -> int:
    """Runs of an array without its deleted rows: consecutive rows with consecutive ids.

    Parameters
    ----------
    base : int
    offsets : (count,) uint32 or uint64
        The ids are ``base`` plus these.
    deleted, first_row, address, runs
        As :func:`live_runs`.
    span : (2,) uint64
        Filled with the smallest and the largest id; without ids, the first is the larger one.

    Returns
    -------
    int
        Number of runs.
    """
    check("array_runs", base, offsets, deleted, first_row, address, runs, span)
    alive = _live_rows(offsets.size, deleted, first_row)
    ids = _ids(base, offsets, alive)
    if not ids.size:
        span[:] = (1 << 64) - 1, 0
        return 0
    span[:] = ids.min(), ids.max()
    joined = (ids[1:] - ids[:-1] == 1) & (ids[1:] != 0)
    if deleted.size:
        joined &= np.diff(alive) == 1
    if not runs.size:
        return int(ids.size - np.count_nonzero(joined))
    starts = np.append(0, np.flatnonzero(~joined) + 1)
    return _write_runs(ids[starts], np.diff(starts, append=ids.size), alive[starts], address, runs)


def fill_slots(
    base: int, offsets: Offsets, deleted: Int64, first_row: int, place: int, low: int, slots: UInt32
) -> int:
    """Put the places of an array's rows into the slots of their ids, except for deleted rows.

    Parameters
    ----------
    base, offsets, deleted, first_row
        As :func:`array_runs`.
    place : int
        Place of the first row; the others follow.
    low : int
        Id of the first slot.
    slots : (num_slots,) uint32
        ``NO_PLACE`` where free.

    Returns
    -------
    int
        -1, or a row whose id has no slot or a taken one; the slots are then undefined.
    """
    check("fill_slots", base, offsets, deleted, first_row, place, low, slots)
    alive = _live_rows(offsets.size, deleted, first_row)
    at = _ids(base, offsets, alive) - np.uint64(low)
    wrong = at >= slots.size
    if not wrong.any():
        # NumPy indexes with signed numbers.
        at = at.view(np.int64)
        wrong = slots[at] != NO_PLACE
    if not wrong.any():
        # Of two rows with one id, the later one's place is kept.
        places = (alive + place).astype(np.uint32)
        slots[at] = places
        wrong = slots[at] != places
    if wrong.any():
        return int(alive[int(np.argmax(wrong))])
    return -1


def copy_keys(
    base: int,
    offsets: Offsets,
    deleted: Int64,
    first_row: int,
    place: int,
    keys: UInt64,
    places: UInt32,
) -> int:
    """Write the ids of an array and their places, except for deleted rows.

    Parameters
    ----------
    base, offsets, deleted, first_row, place
        As :func:`fill_slots`.
    keys, places : (num_keys,) uint64 and uint32
        As many as fit are written.

    Returns
    -------
    int
        Number of ids.
    """
    check("copy_keys", base, offsets, deleted, first_row, place, keys, places)
    alive = _live_rows(offsets.size, deleted, first_row)
    fit = alive[: keys.size]
    keys[: fit.size] = _ids(base, offsets, fit)
    places[: fit.size] = fit + place
    return int(alive.size)


def sort_pairs(
    keys: UInt64, values: UInt32, spare_keys: UInt64, spare_values: UInt32, ends: Int64 | None = None
) -> int:
    """Sort keys ascending, in place, and reorder the values with them.

    Parameters
    ----------
    keys : (n,) uint64
    values : (n,) uint32
        Values of equal keys are in any order.
    spare_keys, spare_values : (n,) uint64 and uint32
        Work space, overwritten.
    ends : optional
        Not used here.
    """
    check("sort_pairs", keys, values, spare_keys, spare_values)
    order = np.argsort(keys, kind="stable")
    np.take(keys, order, out=spare_keys)
    np.take(values, order, out=spare_values)
    keys[:], values[:] = spare_keys, spare_values
    return 0


def check_runs(runs: UInt64) -> int:
    """Index of the first run that starts before the end of the previous run; -1 if none does."""
    check("check_runs", runs)
    starts, counts = runs[0::3], runs[1::3]
    return _first((starts[1:] < starts[:-1]) | (starts[1:] - starts[:-1] < counts[:-1]))


def first_repeat(keys: UInt64) -> int:
    """Index of the first of sorted keys that equals the previous one; -1 if none does."""
    check("first_repeat", keys)
    return _first(keys[1:] == keys[:-1])


def slots_in_runs(slots: UInt32, low: int, runs: UInt64) -> int:
    """A taken slot whose id is also in a run; -1 if there is none.

    Parameters
    ----------
    slots, low
        As :func:`fill_slots`.
    runs : (3 * num_runs,) uint64
        Disjoint and ascending.
    """
    check("slots_in_runs", slots, low, runs)
    if not runs.size:
        return -1
    taken = np.flatnonzero(slots != NO_PLACE)
    at = keys_in_runs(taken.astype(np.uint64) + np.uint64(low), runs)
    return -1 if at < 0 else int(taken[at])


def keys_in_runs(keys: UInt64, runs: UInt64) -> int:
    """Index of the first of sorted keys that is in one of disjoint, ascending runs; -1 if none is."""
    check("keys_in_runs", keys, runs)
    if not runs.size or not keys.size:
        return -1
    run, into = _run_of(keys, runs)
    found = (keys >= runs[0::3][run]) & (into < runs[1::3][run])
    return int(np.argmax(found)) if found.any() else -1


def fill_directory(keys: UInt64, stride: int, low: int, shift: int, directory: UInt32) -> int:
    """Where each bucket of sorted keys starts.

    Key ``k`` is in bucket ``(k - low) >> shift``; keys below ``low`` are in the first bucket, keys beyond the last
    bucket in the last.

    Parameters
    ----------
    keys : (stride * n,) uint64
        Every ``stride``-th number is a key; they ascend. Fewer than 2^32.
    stride : int
        1, or 3 for runs.
    low : int
    shift : int, 0 .. 63
    directory : (num_buckets + 1,) uint32
        Filled with the position of the first key of each bucket, then ``n``. At most as many buckets as the ids
        from ``low`` to the last key need.
    """
    check("fill_directory", keys, stride, low, shift, directory)
    buckets = (np.maximum(keys[::stride], np.uint64(low)) - np.uint64(low)) >> np.uint64(shift)
    buckets = np.minimum(buckets, np.uint64(max(directory.size - 2, 0)))
    directory[:] = np.searchsorted(buckets, np.arange(directory.size, dtype=np.uint64))
    return 0


# -- probe ----------------------------------------------------------------------------


def find_runs(
    ids: UInt64,
    runs: UInt64,
    directory: UInt32,
    low: int,
    shift: int,
    addresses: UInt64,
    found: Bytes,
) -> int:
    """Find the addresses of ids that are in runs.

    Parameters
    ----------
    ids : (n,) uint64
    runs : (3 * num_runs,) uint64
        Disjoint and ascending; at least one.
    directory, low, shift
        Made by :func:`fill_directory` from the runs.
    addresses : (n,) uint64
        Filled; 0 where an id is in no run.
    found : (n,) uint8
        Filled; 1 where an id is in a run, else 0.
    """
    check("find_runs", ids, runs, directory, low, shift, addresses, found)
    run, into = _run_of(ids, runs)
    hit = (ids >= runs[0::3][run]) & (into < runs[1::3][run])
    addresses[:] = np.where(hit, runs[2::3][run] + into, np.uint64(0))
    found[:] = hit
    return 0


def find_slots(
    ids: UInt64,
    low: int,
    slots: UInt32,
    place_shift: int,
    bases: UInt64,
    addresses: UInt64,
    found: Bytes,
) -> int:
    """Find the addresses of ids that have slots, unless already found.

    Parameters
    ----------
    ids : (n,) uint64
    low, slots
        As filled by :func:`fill_slots`; at least one slot.
    place_shift : int, 0 .. 32
    bases : (num_bases,) uint64
        The address of place ``p`` is ``bases[p >> place_shift] + p``, modulo 2^64.
    addresses, found : (n,) uint64 and uint8
        Written for each id that is newly found.
    """
    check("find_slots", ids, low, slots, place_shift, bases, addresses, found)
    slot = ids - np.uint64(low)
    rest = (ids >= low) & (slot < slots.size) & (found == 0)
    slot[~rest] = 0
    _resolve(slots[slot], rest & (slots[slot] != NO_PLACE), place_shift, bases, addresses, found)
    return 0


def find_keys(
    ids: UInt64,
    keys: UInt64,
    places: UInt32,
    directory: UInt32,
    low: int,
    shift: int,
    place_shift: int,
    bases: UInt64,
    addresses: UInt64,
    found: Bytes,
) -> int:
    """Find the addresses of ids that are among sorted keys, unless already found.

    Parameters
    ----------
    ids : (n,) uint64
    keys : (num_keys,) uint64, ascending
        At least one.
    places : (num_keys,) uint32
        Place of each key.
    directory, low, shift
        Made by :func:`fill_directory` from the keys.
    place_shift, bases, addresses, found
        As :func:`find_slots`.
    """
    check("find_keys", ids, keys, places, directory, low, shift, place_shift, bases, addresses, found)
    at = np.minimum(np.searchsorted(keys, ids), keys.size - 1)
    _resolve(places[at], (keys[at] == ids) & (found == 0), place_shift, bases, addresses, found)
    return 0


def _resolve(
    places: UInt32, hit: Bool, place_shift: int, bases: UInt64, addresses: UInt64, found: Bytes
) -> None:
    number = places[hit].astype(np.uint64)
    base = np.minimum(number >> np.uint64(place_shift), np.uint64(bases.size - 1))
    addresses[hit] = bases[base] + number
    found[hit] = 1


# -- shared parts ------------------------------------------------------------------


def _first(mask: Bool) -> int:
    """One more than the first true position; -1 if there is none."""
    return int(np.argmax(mask)) + 1 if mask.any() else -1


def _after_holes(start: int, ranks: Int64, rows: Int64) -> UInt64:
    """Ids of some rows of a range with holes."""
    return (rows + np.searchsorted(ranks, rows, side="right")).astype(np.uint64) + np.uint64(start)


def _live_rows(count: int, deleted: Int64, first_row: int) -> Int64:
    """Rows that are not deleted, ascending."""
    alive = np.arange(count)
    gone = deleted - first_row
    return np.delete(alive, gone[(gone >= 0) & (gone < count)]) if gone.size else alive


def _ids(base: int, offsets: Offsets, rows: Int64) -> UInt64:
    some = offsets if rows.size == offsets.size else offsets[rows]
    return some.astype(np.uint64) + np.uint64(base)


def _write_runs(ids: UInt64, counts: Int64, rows: Int64, address: int, runs: UInt64) -> int:
    fit = runs.size // 3
    runs[0 : 3 * fit : 3][: ids.size] = ids[:fit]
    runs[1 : 3 * fit : 3][: ids.size] = counts[:fit]
    runs[2 : 3 * fit : 3][: ids.size] = rows[:fit].astype(np.uint64) + np.uint64(address)
    return int(ids.size)


def _run_of(ids: UInt64, runs: UInt64) -> tuple[Int64, UInt64]:
    """The run that each id would be in, and its position within the run."""
    starts = runs[0::3]
    run = np.maximum(np.searchsorted(starts, ids, side="right") - 1, 0)
    return run, ids - np.minimum(starts[run], ids)
