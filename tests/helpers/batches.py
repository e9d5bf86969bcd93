"""Many dangerous calls in few processes: one forked child works through a batch until something goes wrong.

What brings a child down is an observation; the next child goes on with the case after it.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import resource
import signal
import struct
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

__all__ = ["BATCH", "Batch", "Trouble", "jailed_batch", "jailed_batches", "narrow_threads"]

BATCH = 50
"""Cases that one child works through if all goes well."""

_M_ARENA_MAX = -8
STATE = struct.Struct("<qqq")
WAITING = 120
"""Seconds by the clock that a case may take: what it waits for is there or will never be."""


@dataclass(frozen=True)
class Trouble:
    """A case that ended neither in a value nor in a LanceError.

    Attributes
    ----------
    case : int
    kind : "escaped", "signal" or "hang"
    detail : str
        The traceback's end, or the signal.
    """

    case: int
    kind: str
    detail: str


@dataclass(frozen=True)
class Jail:
    """Bounds of a child.

    Attributes
    ----------
    memory_bytes : int
        Beyond what the parent takes.
    seconds : int
        That a case may work.
    waiting : int, seconds
        That it may take by the clock.
    """

    memory_bytes: int
    seconds: int
    waiting: int


@dataclass
class Batch:
    """How a batch ended.

    Attributes
    ----------
    values, errors : int
        Cases that ended in a value, and in a LanceError.
    troubles : list of Trouble
    peak_bytes : int
        Largest resident size of a child.
    """

    values: int = 0
    errors: int = 0
    troubles: list[Trouble] = field(default_factory=list)
    peak_bytes: int = 0


def _from(case: Callable[[int], object], first: int, index: int) -> object:
    return case(first + index)


def narrow_threads() -> None:
    """For a case that starts threads: the jail counts addresses, and each thread sets 64 MiB and more of them aside."""
    ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
    threading.stack_size(1 << 20)


def jailed_batches(case: Callable[[int], object], count: int, memory_bytes: int = 512 << 20) -> Batch:
    """``jailed_batch`` over and over, ``BATCH`` cases at a time."""
    total = Batch()
    for start in range(0, count, BATCH):
        found = jailed_batch(functools.partial(_from, case, start), min(BATCH, count - start), memory_bytes)
        total.values, total.errors = total.values + found.values, total.errors + found.errors
        total.troubles += [Trouble(start + t.case, t.kind, t.detail) for t in found.troubles]
        total.peak_bytes = max(total.peak_bytes, found.peak_bytes)
    return total


def jailed_batch(
    case: Callable[[int], object],
    count: int,
    memory_bytes: int = 512 << 20,
    seconds: int = 10,
    waiting: int = WAITING,
) -> Batch:
    """Run ``case(0)`` to ``case(count - 1)``, each within ``seconds`` of work, all within ``memory_bytes`` more than now."""
    import pandas  # noqa: F401  # pyarrow does when it first meets certain values, which would be in each child anew

    batch, start = Batch(), 0
    with mmap.mmap(-1, STATE.size) as state:
        while start < count:
            state[:] = STATE.pack(start, 0, 0)
            trouble, peak = _one_child(case, range(start, count), Jail(memory_bytes, seconds, waiting), state)
            at, values, errors = STATE.unpack(state[:])
            batch.values, batch.errors = batch.values + values, batch.errors + errors
            batch.peak_bytes = max(batch.peak_bytes, peak)
            if trouble is not None:
                batch.troubles.append(Trouble(at, *trouble))
            start = at + 1 if trouble is not None else count
    return batch


def _one_child(
    case: Callable[[int], object], cases: range, jail: Jail, state: mmap.mmap
) -> tuple[tuple[str, str] | None, int]:
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        _work(case, cases, jail, state, write_end)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as stream:
        detail = stream.read().decode("utf-8", "replace")
    _, status, usage = os.wait4(child, 0)
    peak = usage.ru_maxrss * 1024
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        kind = "hang" if number in (signal.SIGALRM, signal.SIGPROF) else "signal"
        return (kind, signal.Signals(number).name), peak
    return (None if os.WEXITSTATUS(status) == 0 else ("escaped", detail)), peak


def _work(case: Callable[[int], object], cases: range, jail: Jail, state: mmap.mmap, pipe: int) -> None:
    from lancecy.errors import LanceError

    # The alarm must end the child whatever its threads wait for; pytest-timeout's handler, inherited, would
    # raise in the main thread instead, which then waits for those threads without end.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    # glibc's allocator makes itself usable after a fork; Arrow's own may have been forked while a thread of the
    # parent that was just ending held one of its locks.
    pa.set_memory_pool(pa.system_memory_pool())
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + jail.memory_bytes, used + jail.memory_bytes))
    values = errors = 0
    try:
        for index in cases:
            state[:] = STATE.pack(index, values, errors)
            # Time of the processor, which a busy machine does not shorten; and of the clock, for what only waits.
            signal.setitimer(signal.ITIMER_PROF, jail.seconds)
            signal.alarm(jail.waiting)
            try:
                case(index)
                values += 1
            except LanceError as error:
                str(error)
                errors += 1
        state[:] = STATE.pack(cases.stop - 1, values, errors)
    except BaseException:
        os.write(pipe, traceback.format_exc()[-6000:].encode("utf-8", "replace"))
        os._exit(1)
    os._exit(0)
