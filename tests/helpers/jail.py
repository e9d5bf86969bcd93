"""Running a function in a process of its own, with a cap on time and memory.

A forked child does the work, so that a crash, a hang or a runaway allocation of the
code under test is an observation and not the end of the test run.
"""

from __future__ import annotations

import os
import resource
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

VALUE, LANCE_ERROR, OTHER_ERROR = 0, 10, 11


@dataclass(frozen=True)
class Outcome:
    """How a jailed call ended.

    Attributes
    ----------
    kind : "value", "error", "escaped", "signal" or "hang"
        ``error`` is a LanceError; ``escaped`` any other exception.
    detail : str
    seconds : float
    peak_bytes : int
        Largest resident size of the child.
    """

    kind: str
    detail: str
    seconds: float
    peak_bytes: int


def _child(work: Callable[[], object], memory_bytes: int, seconds: int, pipe: int) -> None:
    from lancecy.errors import LanceError

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + memory_bytes, used + memory_bytes))
    signal.alarm(seconds)
    try:
        work()
    except LanceError as error:
        str(error)
        os.write(pipe, f"{type(error).__name__}: {error}"[:2000].encode("utf-8", "replace"))
        os._exit(LANCE_ERROR)
    except BaseException:
        os.write(pipe, traceback.format_exc()[-4000:].encode("utf-8", "replace"))
        os._exit(OTHER_ERROR)
    os._exit(VALUE)


def jailed(work: Callable[[], object], memory_bytes: int = 512 << 20, seconds: int = 10) -> Outcome:
    """Run ``work`` in a forked child that may use ``memory_bytes`` more than this process does."""
    read_end, write_end = os.pipe()
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        _child(work, memory_bytes, seconds, write_end)
    os.close(write_end)
    _, status, usage = os.wait4(child, 0)
    elapsed = time.monotonic() - started
    with os.fdopen(read_end, "rb") as stream:
        detail = stream.read().decode("utf-8", "replace")
    peak = usage.ru_maxrss * 1024
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return Outcome(
            "hang" if number == signal.SIGALRM else "signal", signal.Signals(number).name, elapsed, peak
        )
    kinds = {VALUE: "value", LANCE_ERROR: "error", OTHER_ERROR: "escaped"}
    return Outcome(kinds.get(os.WEXITSTATUS(status), "escaped"), detail, elapsed, peak)
