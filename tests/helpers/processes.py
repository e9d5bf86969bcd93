"""Processes with nothing of this one's state, which need not import everything anew."""

from __future__ import annotations

import multiprocessing
from multiprocessing.context import ForkServerContext

__all__ = ["fresh_processes"]

_IMPORTED = [
    "pytest",
    "pyarrow.compute",
    "pyarrow.dataset",
    "lancecy",
    "lancecy.namespace",
    "lance_namespace",
]


def fresh_processes() -> ForkServerContext:
    """What starts processes by forking one that has imported the libraries, and has opened and started nothing.

    An interpreter that imports them takes seconds of the processor, for each of the eight processes of a test.
    Their environment variables are those of the first call, whatever a test has set since.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_IMPORTED)
    return context
