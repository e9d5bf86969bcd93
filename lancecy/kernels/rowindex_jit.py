"""Kernels that build and probe the row-id index, compiled by Numba, and the choice between them and NumPy.

The loops are in :mod:`lancecy.kernels.rowindex_loops`; their twins in :mod:`lancecy.kernels.reference.rowindex`
document each loop and check the arguments for both. :mod:`lancecy.kernels.machine_code` keeps the machine code on
disk, so a process imports Numba only if it finds none.
"""

from __future__ import annotations

import ctypes
import os
import threading
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels import machine_code
from lancecy.kernels.machine_code import Loop
from lancecy.kernels.reference import rowindex as twin
from lancecy.kernels.rowindex_loops import HELPERS, INNER_BITS, LOOPS, OUTER_BITS
from lancecy.records import dataclass

__all__ = ["COMPILED", "TWINS", "RowIndexKernels", "compile_all", "implementation"]

Kernel: TypeAlias = Callable[..., int]

# Loading llvmlite and the kernels takes as long as the twins take for about this many ids: 50 ms on an idle
# machine. FirstUse in bench/benchmarks/rowindex.py measures it.
_LITTLE = 1 << 20
# Extra cost of calling a twin instead of a kernel, in ids.
_CALL = 200
# If no folder can keep machine code, every process compiles it, which takes seconds.
_UNKEPT = 64
# Loops of which every index needs one.
_PROBES = ("find_runs", "find_slots", "find_keys")


@dataclass(frozen=True, slots=True)
class RowIndexKernels:
    """The kernels, documented in :mod:`lancecy.kernels.reference.rowindex`."""

    live_runs: Kernel
    expand_holes: Kernel
    array_runs: Kernel
    fill_slots: Kernel
    copy_keys: Kernel
    sort_pairs: Kernel
    check_runs: Kernel
    first_repeat: Kernel
    slots_in_runs: Kernel
    keys_in_runs: Kernel
    fill_directory: Kernel
    find_runs: Kernel
    find_slots: Kernel
    find_keys: Kernel


# -- which implementation -------------------------------------------------------------


class _State:
    lock = threading.RLock()
    native: ClassVar[dict[str, Kernel]] = {}
    work = 0
    enough = _LITTLE
    is_chosen = False
    is_missing = False
    has_warned = False


def implementation(num_ids: int) -> RowIndexKernels:
    """The kernels for work on ``num_ids`` ids.

    Numba's kernels, for the rest of the process, once the process has had enough work to be worth loading them.
    Before that the NumPy twins; also if ``LANCECY_KERNELS=reference`` selects them, and, with a warning, if Numba
    is missing or fails.

    Parameters
    ----------
    num_ids : int
        Number of ids, runs, holes and deleted rows to process.

    Returns
    -------
    RowIndexKernels
    """
    if _State.is_chosen:
        return TWINS if _State.is_missing else COMPILED
    if os.environ.get("LANCECY_KERNELS") == "reference":
        return TWINS
    # Without the lock the sum may be slightly too low.
    _State.work += num_ids + _CALL
    if _State.work < _State.enough:
        return TWINS
    if _State.enough == _LITTLE and not _is_cheap():
        _State.enough *= _UNKEPT
        return implementation(0)
    _State.is_chosen = True
    return COMPILED


def _is_cheap() -> bool:
    """Whether loading is cheap: the machine code exists, or can be kept for later processes."""
    try:
        return machine_code.can_keep() or any(machine_code.kept(_loop(name, "Q")) for name in _PROBES)
    except Exception:  # noqa: BLE001 - _native warns about it
        return True


def compile_all() -> None:
    """Compile every kernel that is not on disk yet.

    For images and installations that users cannot write to: run this once when making them.

    Raises
    ------
    ImportError
        Numba cannot be imported.
    OSError
        No folder is writable; ``NUMBA_CACHE_DIR`` can name one.

    Examples
    --------
    >>> from lancecy.kernels import rowindex_jit
    >>> rowindex_jit.compile_all()
    """
    for name, (_, codes) in LOOPS.items():
        for width in "QI" if "A" in codes else "Q":
            loop = _loop(name, width)
            if machine_code.kept(loop) is None:
                machine_code.keep(loop, machine_code.compile_loop(loop))


# -- calling --------------------------------------------------------------------------


def _run(name: str, *arguments: Any) -> int:
    twin.check(name, *arguments)
    native = _native(name, arguments)
    if native is None:
        result: int = getattr(twin, name)(*arguments)
        return result
    return native(*_flat(name, arguments, _address))


def _python(name: str, *arguments: Any) -> int:
    """Run a loop in Python, for debugging with ``NUMBA_DISABLE_JIT=1``."""
    twin.check(name, *arguments)
    return int(LOOPS[name][0](*_flat(name, arguments, lambda array: array)))


def _flat(name: str, arguments: tuple[Any, ...], elements: Callable[[NDArray[Any]], Any]) -> list[Any]:
    """Arguments of a loop: each array becomes its elements and their number."""
    flat: list[Any] = []
    for code, argument in zip(LOOPS[name][1].split(), arguments, strict=True):
        if code == "n":
            flat.append(argument)
        elif code == "u":
            flat.append(argument if elements is _address else np.uint64(argument))
        else:
            flat += (elements(argument), argument.size)
    return flat


def _address(array: NDArray[Any]) -> int:
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(cast(Any, array)))
    except (TypeError, ValueError):
        # A read-only or empty array.
        return array.ctypes.data


def _native(name: str, arguments: tuple[Any, ...]) -> Kernel | None:
    """The machine code for these arguments; None, with a warning, if Numba is missing or fails."""
    codes = LOOPS[name][1]
    is_narrow = "A" in codes and arguments[codes.split().index("A")].itemsize == 4
    width = "I" if is_narrow else "Q"
    found = _State.native.get(name + width)
    if found is None and not _State.is_missing:
        with _State.lock:
            try:
                found = _State.native.get(name + width) or _loaded(_loop(name, width))
                _State.native[name + width] = found
            except Warning:
                raise  # a warning that the user turned into an error
            except Exception as error:  # noqa: BLE001 - Numba may raise anything with a NumPy it does not know
                _State.is_missing = True
                warnings.warn(
                    f"Numba cannot be used ({type(error).__name__}: {error}): the row-id index falls back on its slow "
                    "NumPy kernels; install a numba that works, or set LANCECY_KERNELS=reference to use them on purpose",
                    RuntimeWarning,
                    stacklevel=2,
                )
    return found


def _loop(name: str, width: str) -> Loop:
    function, codes = LOOPS[name]
    helpers = HELPERS if name == "sort_pairs" else ()
    return Loop(name, function, helpers, tuple(codes.replace("A", width).replace("!", "").split()))


def _loaded(loop: Loop) -> Kernel:
    code = machine_code.kept(loop)
    if code is None:
        code = machine_code.compile_loop(loop)
        try:
            machine_code.keep(loop, code)
        except OSError as error:
            _warn_unkept(error)
    return machine_code.load(loop, code)


def _warn_unkept(error: OSError) -> None:
    if not _State.has_warned:
        _State.has_warned = True
        warnings.warn(
            f"the compiled kernels of the row-id index cannot be kept ({error}): every process compiles them again, "
            "which takes seconds; let NUMBA_CACHE_DIR name a folder that only you can write to",
            RuntimeWarning,
            stacklevel=2,
        )


def _after_fork() -> None:
    # Another thread may have held the lock.
    _State.lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _sort_pairs(
    run: Callable[..., int],
    keys: NDArray[np.uint64],
    values: NDArray[np.uint32],
    spare_keys: NDArray[np.uint64],
    spare_values: NDArray[np.uint32],
) -> int:
    """Call the loop with work space for its counts."""
    ends = np.empty((1 << OUTER_BITS) + (1 << INNER_BITS), np.int64)
    return run("sort_pairs", keys, values, spare_keys, spare_values, ends)


def _kernels(run: Callable[..., int]) -> RowIndexKernels:
    made: dict[str, Kernel] = {name: partial(run, name) for name in LOOPS}
    made["sort_pairs"] = partial(_sort_pairs, run)
    return RowIndexKernels(**made)


TWINS = RowIndexKernels(**{name: getattr(twin, name) for name in LOOPS})
"""The NumPy twins."""

COMPILED = _kernels(_python if os.environ.get("NUMBA_DISABLE_JIT", "") not in {"", "0"} else _run)
"""Numba's kernels."""
