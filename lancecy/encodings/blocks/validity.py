"""Validity bitmaps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.blocks.memory import allocate
from lancecy.errors import FormatError

__all__ = ["mask_of", "slot_validity"]


Mask = NDArray[np.bool_]


Levels = NDArray[np.uint16]


def mask_of(bits: object, length: int) -> Mask:
    r"""Convert a bitmap to one truth value per bit.

    Examples
    --------
    >>> mask_of(b"\x05", 3).tolist()
    [True, False, True]
    """
    memory = np.frombuffer(bits, np.uint8)  # type: ignore[call-overload]
    mask: Mask = np.unpackbits(memory, count=length, bitorder="little").view(np.bool_)
    return mask


def slot_validity(
    definition: Levels, valid_max: int, visible_max: int, num_slots: int
) -> tuple[NDArray[np.uint8] | None, int]:
    """Bitmap of the slots whose level is at most ``valid_max``, and the number of others; no bitmap if there are none.

    Raises
    ------
    FormatError
        The number of slots differs.
    """
    _, bits = allocate((definition.size + 7) >> 3)
    slots, null_count = kernels.level_validity(definition, valid_max, visible_max, bits)
    if slots != num_slots:
        raise FormatError(f"definition levels are for {slots} values, where {num_slots} are stored")
    return (bits[: (slots + 7) >> 3] if null_count else None), null_count
