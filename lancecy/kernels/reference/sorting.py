"""Twin of ``_sort``: NumPy's stable sort."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels._codes import Fault, fail
from lancecy.kernels.reference.checks import checked

__all__ = ["sort_words"]

_WORD_BITS = 64


@checked
def sort_words(
    words: NDArray[np.uint64],
    out: NDArray[np.uint64],
    out_room: NDArray[np.uint64],
    first_bit: int,
    stop_bit: int,
) -> None:
    """As :func:`lancecy.kernels.sort_words`."""
    if not 0 <= first_bit <= stop_bit <= _WORD_BITS:
        raise ValueError("no such bits of a word")
    if not out.size == out_room.size == words.size:
        fail(Fault.OUT_SIZE, 0)
    keys = [(word % (1 << stop_bit)) >> first_bit for word in words.tolist()]
    out[:] = words[sorted(range(words.size), key=keys.__getitem__)]
    out_room[:] = out
