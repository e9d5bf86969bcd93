"""The jail itself: what ends a child is told apart, and the cases after it are still run."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest

from lancecy.errors import FormatError
from tests.helpers.batches import jailed_batch


def misbehave(case: int) -> None:
    """A way to end for every case."""
    if case == 1:
        raise FormatError("bad bytes")
    if case == 2:
        raise KeyError("anything else")
    if case == 3:
        while True:
            pass
    if case == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    if case == 5:
        np.ones(1 << 28)
    if case == 6:
        # The main thread waits for what never comes, and another thread lives on.
        threading.Thread(target=time.sleep, args=(3600,)).start()
        threading.Event().wait()


@pytest.mark.slow
def test_whatever_ends_a_case_is_reported_and_the_next_one_runs() -> None:
    found = jailed_batch(misbehave, 8, memory_bytes=256 << 20, seconds=1, waiting=5)
    kinds = {trouble.case: trouble.kind for trouble in found.troubles}
    assert kinds == {2: "escaped", 3: "hang", 4: "signal", 5: "escaped", 6: "hang"}
    assert (found.values, found.errors) == (2, 1)
