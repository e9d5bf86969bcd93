"""Waiting for what other threads and processes do."""

from __future__ import annotations

import time
from collections.abc import Callable

_STEP = 0.02


def wait_until_it_stays(is_so: Callable[[], bool], seconds: float = 1.0, most: float = 60.0) -> None:
    """Return once something has been so for a second, or after a minute.

    A task of Dask that began before another failed may make a file after the first look, and removes it at its end.

    Parameters
    ----------
    is_so : function
    seconds, most : float, seconds
    """
    give_up = time.monotonic() + most
    since = time.monotonic()
    while time.monotonic() < min(since + seconds, give_up):
        if not is_so():
            since = time.monotonic()
        time.sleep(_STEP)
