"""Powers of ten for the kernels: 128 bits without an exponent."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["powers_of_ten"]

_FIRST, _LAST = -292, 324
"""Exponents of the powers that scale 64-bit floats to find their digits."""


@lru_cache(maxsize=1)
def powers_of_ten() -> NDArray[np.uint64]:
    """The first 128 bits of each power of ten from 10^-292 to 10^324, rounded up.

    Returns
    -------
    (1234,) uint64, read-only
        Upper and lower word of each power; the highest bit is set.

    Examples
    --------
    >>> [hex(word) for word in powers_of_ten()[2 * 292 : 2 * 294].tolist()]
    ['0x8000000000000000', '0x0', '0xa000000000000000', '0x0']
    """
    words = [word for power in range(_FIRST, _LAST + 1) for word in divmod(_bits_of(power), 1 << 64)]
    found = np.array(words, np.uint64)
    found.flags.writeable = False
    return found


def _bits_of(power: int) -> int:
    """10^power scaled by a power of two to a number of 128 bits."""
    whole: int = 10 ** abs(power)
    if power < 0:
        # 2^(length - 1) < whole < 2^length, so the quotient has 128 bits.
        return -(-(1 << (127 + whole.bit_length())) // whole)
    shift = 128 - whole.bit_length()
    return whole << shift if shift >= 0 else -(-whole >> -shift)
