"""Twins of ``rowindex_jit``: sorted arrays and ``np.searchsorted``.

Also what is used for little work, where loading Numba would take longer than the work itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels.reference.checks import require, same_length

__all__ = [
    "check_directory",
    "check_find_keys",
    "check_find_runs",
    "check_sort",
    "check_starts",
    "count_runs",
    "fill_directory",
    "find_keys",
    "find_runs",
    "run_starts",
    "sort_pairs",
]

Bytes = NDArray[np.uint8]
Int64 = NDArray[np.int64]
UInt32 = NDArray[np.uint32]
UInt64 = NDArray[np.uint64]


# -- checks of arguments, for both implementations ------------------------------------


def check_sort(keys: UInt64, values: UInt32, spare_keys: UInt64, spare_values: UInt32) -> None:
    """Refuse arguments of :func:`sort_pairs` that it cannot work on; raises TypeError or ValueError."""
    for array in (keys, spare_keys):
        require(array, np.uint64, writable=True)
    for places in (values, spare_values):
        require(places, np.uint32, writable=True)
    same_length(
        "keys, values and their spare arrays differ in length", keys, values, spare_keys, spare_values
    )


def check_starts(values: UInt64, out: Int64) -> None:
    """Refuse arguments of :func:`run_starts`; raises TypeError or ValueError."""
    require(values, np.uint64)
    require(out, np.int64, writable=True)


def check_directory(keys: UInt64, low: int, shift: int, directory: UInt32) -> None:
    """Refuse a directory that has no room for the buckets of its keys; raises TypeError or ValueError."""
    require(keys, np.uint64)
    require(directory, np.uint32)
    if keys.size >= 1 << 32 or not 0 <= shift < 64 or not 0 <= low < 1 << 64:
        raise ValueError(
            "a directory is of fewer than 2^32 keys, and shifts 64-bit numbers by less than 64 bits"
        )
    if keys.size and not low <= int(keys[0]) <= int(keys[-1]):
        raise ValueError("keys must ascend from low")
    buckets = ((int(keys[-1]) - low) >> shift) + 1 if keys.size else 0
    if directory.size != buckets + 1:
        raise ValueError(f"a directory of {directory.size} entries for {buckets} buckets")


def check_find_runs(
    ids: UInt64,
    starts: UInt64,
    counts: UInt64,
    addresses: UInt64,
    directory: UInt32,
    low: int,
    shift: int,
    out_addresses: UInt64,
    out_found: Bytes,
) -> None:
    """Refuse arguments of :func:`find_runs`; raises TypeError or ValueError."""
    for array in (ids, counts, addresses):
        require(array, np.uint64)
    check_directory(starts, low, shift, directory)
    same_length("the arrays of the runs differ in length", starts, counts, addresses)
    _check_out(ids, out_addresses, out_found)


def check_find_keys(
    ids: UInt64,
    keys: UInt64,
    places: UInt32,
    directory: UInt32,
    low: int,
    shift: int,
    out_places: UInt64,
    out_found: Bytes,
) -> None:
    """Refuse arguments of :func:`find_keys`; raises TypeError or ValueError."""
    require(ids, np.uint64)
    require(places, np.uint32)
    check_directory(keys, low, shift, directory)
    if keys.size != places.size:
        raise ValueError("keys and places differ in length")
    _check_out(ids, out_places, out_found)


def _check_out(ids: UInt64, out_addresses: UInt64, out_found: Bytes) -> None:
    require(out_addresses, np.uint64, writable=True)
    require(out_found, np.uint8, writable=True)
    same_length("ids and outputs differ in length", ids, out_addresses, out_found)


# -- the kernels ----------------------------------------------------------------------


def sort_pairs(keys: UInt64, values: UInt32, spare_keys: UInt64, spare_values: UInt32) -> None:
    """Sort keys ascending, in place, and bring the values into the same order.

    Parameters
    ----------
    keys : (n,) uint64
    values : (n,) uint32
        Those of equal keys keep their order.
    spare_keys, spare_values : (n,) uint64 and uint32
        Room to work in; their contents are lost.

    Raises
    ------
    ValueError, TypeError
        Arrays of other types, or of different lengths.
    """
    check_sort(keys, values, spare_keys, spare_values)
    order = np.argsort(keys, kind="stable")
    np.take(keys, order, out=spare_keys)
    np.take(values, order, out=spare_values)
    keys[:], values[:] = spare_keys, spare_values


def _breaks(values: UInt64) -> NDArray[np.bool_]:
    """Where a value is not its predecessor plus one."""
    steps: NDArray[np.bool_] = (values[1:] <= values[:-1]) | (values[1:] - values[:-1] != 1)
    return steps


def count_runs(values: UInt64) -> int:
    """How many runs of consecutive numbers an array is made of.

    Parameters
    ----------
    values : (n,) uint64

    Raises
    ------
    ValueError
        Not such an array.
    """
    require(values, np.uint64)
    return int(np.count_nonzero(_breaks(values))) + 1 if values.size else 0


def run_starts(values: UInt64, out: Int64) -> None:
    """Where the runs of consecutive numbers start.

    Parameters
    ----------
    values : (n,) uint64
    out : (count_runs(values),) int64
        Position of the first number of each run.

    Raises
    ------
    ValueError
        ``out`` is not of that length.
    """
    check_starts(values, out)
    starts = np.flatnonzero(_breaks(values)) + 1
    if out.size != (starts.size + 1 if values.size else 0):
        raise ValueError("out does not have one entry per run")
    out[:1] = 0
    out[1:] = starts


def fill_directory(keys: UInt64, low: int, shift: int, directory: UInt32) -> None:
    """Where each bucket of sorted keys starts; key ``k`` is in bucket ``(k - low) >> shift``.

    Parameters
    ----------
    keys : (n,) uint64, ascending, none below ``low``
        Fewer than 2^32.
    low : int
    shift : int, 0 .. 63
    directory : (num_buckets + 1,) uint32
        Filled with the position of the first key of each bucket, then ``n``.

    Raises
    ------
    ValueError
        ``directory`` has another length than the buckets of the first to the last key need.
    """
    check_directory(keys, low, shift, directory)
    require(directory, np.uint32, writable=True)
    buckets = (keys - np.uint64(low)) >> np.uint64(shift)
    directory[:] = np.searchsorted(buckets, np.arange(directory.size, dtype=np.uint64))


def find_runs(
    ids: UInt64,
    starts: UInt64,
    counts: UInt64,
    addresses: UInt64,
    directory: UInt32,
    low: int,
    shift: int,
    out_addresses: UInt64,
    out_found: Bytes,
) -> None:
    """Addresses of ids that are in runs.

    Parameters
    ----------
    ids : (n,) uint64
    starts, counts, addresses : (num_runs,) uint64
        First id of each run (ascending), how many ids, and the address of the first.
    directory, low, shift
        As made by :func:`fill_directory` from ``starts``.
    out_addresses : (n,) uint64
        0 where an id is in no run.
    out_found : (n,) uint8
        1 where an id is in a run, else 0.

    Raises
    ------
    ValueError, TypeError
        Arrays of other types, or of lengths that do not fit together.
    """
    check_find_runs(ids, starts, counts, addresses, directory, low, shift, out_addresses, out_found)
    out_addresses[:], out_found[:] = 0, 0
    if not starts.size:
        return
    run = np.maximum(np.searchsorted(starts, ids, side="right") - 1, 0)
    into = ids - np.minimum(starts[run], ids)
    found = (ids >= starts[run]) & (into < counts[run])
    out_addresses[found] = (addresses[run] + into)[found]
    out_found[found] = 1


def find_keys(
    ids: UInt64,
    keys: UInt64,
    places: UInt32,
    directory: UInt32,
    low: int,
    shift: int,
    out_places: UInt64,
    out_found: Bytes,
) -> None:
    """Places of ids that are among sorted keys.

    Parameters
    ----------
    ids : (n,) uint64
    keys : (num_keys,) uint64, ascending
    places : (num_keys,) uint32
        What belongs to each key.
    directory, low, shift
        As made by :func:`fill_directory` from ``keys``.
    out_places : (n,) uint64
        Any number where an id is no key.
    out_found : (n,) uint8
        1 where an id is a key, else 0.

    Raises
    ------
    ValueError, TypeError
        Arrays of other types, or of lengths that do not fit together.
    """
    check_find_keys(ids, keys, places, directory, low, shift, out_places, out_found)
    out_places[:], out_found[:] = 0, 0
    if not keys.size:
        return
    at = np.minimum(np.searchsorted(keys, ids), keys.size - 1)
    out_places[:] = places[at]
    out_found[:] = keys[at] == ids
