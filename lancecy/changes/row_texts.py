"""Row addresses and hashes as texts, for results of workers in JSON."""

from __future__ import annotations

import base64
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["numbers_of", "text_of"]

UInt64: TypeAlias = NDArray[np.uint64]


def text_of(numbers: UInt64) -> str:
    """Numbers as text.

    Parameters
    ----------
    numbers : (n,) uint64
    """
    return base64.b64encode(np.ascontiguousarray(numbers, "<u8").tobytes()).decode()


def numbers_of(text: str) -> UInt64:
    """The numbers in the text of :func:`text_of`.

    Parameters
    ----------
    text : str

    Examples
    --------
    >>> numbers_of(text_of(np.array([5, 1 << 40], np.uint64))).tolist()
    [5, 1099511627776]
    """
    return np.frombuffer(base64.b64decode(text), "<u8").astype(np.uint64)
