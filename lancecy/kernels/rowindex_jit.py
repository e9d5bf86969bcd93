"""Numba kernels that build and probe the row-id index, compiled on first use.

Each function checks its arguments as its twin in :mod:`lancecy.kernels.reference.rowindex` does, where
it is described, and hands them to a compiled loop; every array access of a loop is within bounds by
construction or clamped, because Numba checks none. Compiled code is kept in Numba's cache folder
(``NUMBA_CACHE_DIR``); where no such folder can be written, each process compiles its own, with a warning.

:func:`implementation` says which of the two to use. Imports Numba, inside a function, and its twin.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any, ClassVar, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels.reference import rowindex as twin
from lancecy.kernels.reference.checks import require

__all__ = [
    "RowIndexKernels",
    "count_runs",
    "fill_directory",
    "find_keys",
    "find_runs",
    "implementation",
    "run_starts",
    "sort_pairs",
]

Bytes = NDArray[np.uint8]
Int64 = NDArray[np.int64]
UInt32 = NDArray[np.uint32]
UInt64 = NDArray[np.uint64]

# Importing Numba and loading the kernels takes about a second, in which the twins do some hundred thousand ids.
_LITTLE = 1 << 18
# Bits of a digit of the radix sort, where one array is written to in as many places as there are digits, and where
# two are: measured.
_PACKED_BITS, _PAIR_BITS = 11, 8
# So many keys are in a cache line, and looked at one after the other.
_FEW = 8


class RowIndexKernels(Protocol):
    """What this module and its twin have in common."""

    def sort_pairs(
        self, keys: UInt64, values: UInt32, spare_keys: UInt64, spare_values: UInt32, /
    ) -> None: ...

    def count_runs(self, values: UInt64, /) -> int: ...

    def run_starts(self, values: UInt64, out: Int64, /) -> None: ...

    def fill_directory(self, keys: UInt64, low: int, shift: int, directory: UInt32, /) -> None: ...

    def find_runs(
        self,
        ids: UInt64,
        starts: UInt64,
        counts: UInt64,
        addresses: UInt64,
        directory: UInt32,
        low: int,
        shift: int,
        out_addresses: UInt64,
        out_found: Bytes,
        /,
    ) -> None: ...

    def find_keys(
        self,
        ids: UInt64,
        keys: UInt64,
        places: UInt32,
        directory: UInt32,
        low: int,
        shift: int,
        out_places: UInt64,
        out_found: Bytes,
        /,
    ) -> None: ...


# -- which implementation -------------------------------------------------------------


class _State:
    lock = threading.Lock()
    compiled: ClassVar[dict[str, Callable[..., Any]]] = {}
    is_cached = True
    missing = False


def implementation(num_ids: int) -> RowIndexKernels:
    """The kernels for work on so many ids.

    The NumPy twins where there is little to do, where ``LANCECY_KERNELS=reference`` asks for them, and, with one
    warning, where Numba cannot be imported.

    Parameters
    ----------
    num_ids : int

    Returns
    -------
    module
        This one or its twin.
    """
    if os.environ.get("LANCECY_KERNELS") == "reference" or _State.missing:
        return twin
    if not _State.compiled and num_ids < _LITTLE:
        return twin
    try:
        _load("count_runs")
    except ImportError as error:
        _State.missing = True
        warnings.warn(
            f"Numba cannot be imported ({error}): the row-id index falls back on its slow NumPy kernels; "
            "install numba, or set LANCECY_KERNELS=reference to use them on purpose",
            RuntimeWarning,
            stacklevel=2,
        )
        return twin
    return cast(RowIndexKernels, sys.modules[__name__])


def _load(name: str) -> Callable[..., Any]:
    found = _State.compiled.get(name)
    if found is None:
        with _State.lock:
            found = _State.compiled.get(name) or _compile(name)
            _State.compiled[name] = found
    return found


def _compile(name: str) -> Callable[..., Any]:
    """The loop of a kernel as Numba's dispatcher; the machine code is made, or loaded, when it is called."""
    import numba

    dispatcher: Callable[..., Any]
    try:
        dispatcher = numba.njit(cache=_State.is_cached, nogil=True)(_LOOPS[name])
    except RuntimeError as error:
        # Numba found no folder to keep machine code in.
        _warn_uncached(error)
        dispatcher = numba.njit(nogil=True)(_LOOPS[name])
    return dispatcher


def _after_fork() -> None:
    # Another thread may have held it.
    _State.lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def _warn_uncached(error: Exception) -> None:
    _State.is_cached = False
    warnings.warn(
        f"the compiled kernels of the row-id index cannot be kept ({error}): every process compiles them anew, "
        "which takes seconds; let NUMBA_CACHE_DIR name a folder that can be written",
        RuntimeWarning,
        stacklevel=2,
    )


def _run(name: str, *args: object) -> Any:
    try:
        return _load(name)(*args)
    except OSError as error:
        # The folder of the cache was there and could not be written to, or is full.
        with _State.lock:
            if _State.is_cached:
                _warn_uncached(error)
                _State.compiled.clear()
        return _load(name)(*args)


# -- the loops, in the part of Python that Numba compiles -----------------------------


def _sort_pairs(keys, values, spare_keys, spare_values):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Radix sort from the lowest digit, of keys and values or, if the keys span no more than 32 bits, of both as one.

    Returns whether the result is in the spare arrays.
    """
    n = keys.size
    low, high, ordered = keys[0], keys[0], True
    for i in range(1, n):
        ordered = ordered and keys[i] >= keys[i - 1]
        low, high = min(low, keys[i]), max(high, keys[i])
    if ordered:
        return False
    bits = 0
    while bits < 64 and (high - low) >> np.uint64(bits) != np.uint64(0):
        bits += 1
    packed, first_bit = bits <= 32, 0
    if packed:
        first_bit = 32
        for i in range(n):
            keys[i] = ((keys[i] - low) << np.uint64(32)) | np.uint64(values[i])
    most = _PACKED_BITS if packed else _PAIR_BITS
    passes = (bits + most - 1) // most
    digit = (bits + passes - 1) // passes
    mask, base = np.uint64((1 << digit) - 1), np.uint64(0) if packed else low
    places = np.zeros((passes, (1 << digit) + 1), np.int64)
    for i in range(n):
        for turn in range(passes):
            places[turn, np.int64(((keys[i] - base) >> np.uint64(first_bit + turn * digit)) & mask) + 1] += 1
    from_keys, from_values, to_keys, to_values = keys, values, spare_keys, spare_values
    for turn in range(passes):
        shift = np.uint64(first_bit + turn * digit)
        for b in range(1 << digit):
            places[turn, b + 1] += places[turn, b]
        for i in range(n):
            bucket = np.int64(((from_keys[i] - base) >> shift) & mask)
            place = places[turn, bucket]
            places[turn, bucket] = place + 1
            to_keys[place] = from_keys[i]
            if not packed:
                to_values[place] = from_values[i]
        from_keys, from_values, to_keys, to_values = to_keys, to_values, from_keys, from_values
    if packed:
        for i in range(n):
            pair = from_keys[i]
            keys[i], values[i] = (pair >> np.uint64(32)) + low, pair & np.uint64(0xFFFFFFFF)
    return not packed and passes % 2 == 1


def _count_runs(values):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    runs = min(values.size, 1)
    for i in range(1, values.size):
        if values[i] <= values[i - 1] or values[i] - values[i - 1] != np.uint64(1):
            runs += 1
    return runs


def _run_starts(values, out):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """How many runs there are, as many as fit being written."""
    runs = 0
    for i in range(values.size):
        if i == 0 or values[i] <= values[i - 1] or values[i] - values[i - 1] != np.uint64(1):
            if runs < out.size:
                out[runs] = i
            runs += 1
    return runs


def _fill_directory(keys, low, shift, directory):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    filled = 0
    for i in range(keys.size):
        bucket = np.int64((keys[i] - min(low, keys[i])) >> shift)
        while filled <= bucket and filled < directory.size:
            directory[filled] = i
            filled += 1
    while filled < directory.size:
        directory[filled] = keys.size
        filled += 1


def _find_runs(ids, starts, counts, addresses, directory, low, shift, out_addresses, out_found):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    last = np.uint64(directory.size - 2)
    for i in range(ids.size):
        wanted = ids[i]
        bucket = np.int64(min((max(wanted, low) - low) >> shift, last))
        first = min(np.int64(directory[bucket]), starts.size)
        stop = min(np.int64(directory[bucket + 1]), starts.size)
        # The first run of the bucket that starts after the id; the one before it may be of an earlier bucket.
        while first < stop:
            middle = (first + stop) >> 1
            if starts[middle] <= wanted:
                first = middle + 1
            else:
                stop = middle
        run = max(first - 1, 0)
        into = wanted - min(starts[run], wanted)
        found = wanted >= starts[run] and into < counts[run]
        out_addresses[i] = addresses[run] + into if found else np.uint64(0)
        out_found[i] = found


def _find_keys(ids, keys, places, directory, low, shift, out_places, out_found):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    last, top = np.uint64(directory.size - 2), keys.size - 1
    for i in range(ids.size):
        wanted = ids[i]
        bucket = np.int64(min((max(wanted, low) - low) >> shift, last))
        first = min(np.int64(directory[bucket]), top)
        stop = min(np.int64(directory[bucket + 1]), top)
        while stop - first > _FEW:
            middle = (first + stop) >> 1
            if keys[middle] < wanted:
                first = middle + 1
            else:
                stop = middle
        while first < stop and keys[first] < wanted:
            first += 1
        out_places[i] = places[first]
        out_found[i] = keys[first] == wanted


_LOOPS: dict[str, Callable[..., Any]] = {
    "sort_pairs": _sort_pairs,
    "count_runs": _count_runs,
    "run_starts": _run_starts,
    "fill_directory": _fill_directory,
    "find_runs": _find_runs,
    "find_keys": _find_keys,
}


# -- the kernels ----------------------------------------------------------------------


def sort_pairs(keys: UInt64, values: UInt32, spare_keys: UInt64, spare_values: UInt32) -> None:
    """As :func:`lancecy.kernels.reference.rowindex.sort_pairs`; linear in the number of keys."""
    twin.check_sort(keys, values, spare_keys, spare_values)
    if keys.size and _run("sort_pairs", keys, values, spare_keys, spare_values):
        keys[:], values[:] = spare_keys, spare_values


def count_runs(values: UInt64) -> int:
    """As :func:`lancecy.kernels.reference.rowindex.count_runs`."""
    require(values, np.uint64)
    return int(_run("count_runs", _writable(values)))


def run_starts(values: UInt64, out: Int64) -> None:
    """As :func:`lancecy.kernels.reference.rowindex.run_starts`."""
    twin.check_starts(values, out)
    if _run("run_starts", _writable(values), out) != out.size:
        raise ValueError("out does not have one entry per run")


def fill_directory(keys: UInt64, low: int, shift: int, directory: UInt32) -> None:
    """As :func:`lancecy.kernels.reference.rowindex.fill_directory`."""
    twin.check_directory(keys, low, shift, directory)
    require(directory, np.uint32, writable=True)
    _run("fill_directory", _writable(keys), np.uint64(low), np.uint64(shift), directory)


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
    """As :func:`lancecy.kernels.reference.rowindex.find_runs`."""
    twin.check_find_runs(ids, starts, counts, addresses, directory, low, shift, out_addresses, out_found)
    if not starts.size:
        out_addresses[:], out_found[:] = 0, 0
        return
    arrays = [_writable(array) for array in (ids, starts, counts, addresses, directory)]
    _run("find_runs", *arrays, np.uint64(low), np.uint64(shift), out_addresses, out_found)


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
    """As :func:`lancecy.kernels.reference.rowindex.find_keys`."""
    twin.check_find_keys(ids, keys, places, directory, low, shift, out_places, out_found)
    if not keys.size:
        out_places[:], out_found[:] = 0, 0
        return
    arrays = [_writable(array) for array in (ids, keys, places, directory)]
    _run("find_keys", *arrays, np.uint64(low), np.uint64(shift), out_places, out_found)


def _writable(array: NDArray[Any]) -> NDArray[Any]:
    """The array, or a copy that may be written to: Numba compiles a loop anew for read-only ones."""
    return array if array.flags.writeable else array.copy()
