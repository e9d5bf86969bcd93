"""Twins of ``_levels``: definition and repetition levels as NumPy masks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels._codes import FAULT_LEVEL_ORDER, FAULT_TOO_MANY_ITEMS, fail
from lancecy.kernels.reference.checks import require, require_level, same_length

__all__ = ["level_validity", "peel_lists"]

Levels = NDArray[np.uint16]


def level_validity(
    levels: Levels, valid_max: int, visible_max: int, out_validity: NDArray[np.uint8]
) -> tuple[int, int]:
    """As :func:`lancecy.kernels.level_validity`."""
    require(levels, np.uint16)
    require(out_validity, np.uint8, writable=True)
    require_level(valid_max)
    require_level(visible_max)
    if out_validity.size != (levels.size + 7) // 8:
        raise ValueError("out_validity needs one bit per level")
    valid = levels[levels <= visible_max] <= valid_max
    bits = np.packbits(valid, bitorder="little")
    out_validity[:] = 0
    out_validity[: bits.size] = bits
    return valid.size, valid.size - int(valid.sum())


def _check_peel(
    rep: Levels,
    definition: Levels | None,
    out_offsets: NDArray[Any],
    out_validity: NDArray[np.uint8],
    out_rep: Levels,
    out_def: Levels | None,
) -> None:
    require(rep, np.uint16)
    require(out_offsets, np.int32, np.int64, writable=True)
    require(out_validity, np.uint8, writable=True)
    require(out_rep, np.uint16, writable=True)
    if (definition is None) != (out_def is None):
        raise ValueError("out_def is for definition levels, and they need it")
    if definition is not None and out_def is not None:
        require(definition, np.uint16)
        require(out_def, np.uint16, writable=True)
        same_length("definition and out_def need one entry per level", rep, definition, out_def)
    same_length("out_rep needs one entry per level", rep, out_rep)
    if out_offsets.size != rep.size + 1 or out_validity.size != (rep.size + 7) // 8:
        raise ValueError("out_offsets needs one entry more than levels, and out_validity one bit per level")


def peel_lists(
    rep: Levels,
    definition: Levels | None,
    null_level: int,
    empty_level: int,
    upper: int,
    visible_max: int,
    out_offsets: NDArray[np.int32] | NDArray[np.int64],
    out_validity: NDArray[np.uint8],
    out_rep: Levels,
    out_def: Levels | None,
) -> tuple[int, int, int, int]:
    """As :func:`lancecy.kernels.peel_lists`."""
    _check_peel(rep, definition, out_offsets, out_validity, out_rep, out_def)
    for level in (null_level, empty_level):
        if level != -1:
            require_level(level, 1)
    require_level(upper)
    require_level(visible_max)
    levels = np.zeros(rep.size, np.uint16) if definition is None else definition
    is_hidden = levels > visible_max
    is_null = ((levels == null_level) | (levels > upper)) & ~is_hidden
    has_child = ~(is_hidden | is_null | (levels == empty_level))
    starts = rep != 0
    bad = ~starts & ~has_child
    bad[:1] |= ~starts[:1]
    if bad.any():
        fail(FAULT_LEVEL_ORDER, int(np.flatnonzero(bad)[0]))
    is_list = starts & ~is_hidden
    before = np.cumsum(has_child) - has_child
    num_lists, num_children = int(is_list.sum()), int(has_child.sum())
    if num_children > np.iinfo(out_offsets.dtype).max:
        fail(FAULT_TOO_MANY_ITEMS, 0)
    out_offsets[:num_lists] = before[is_list]
    out_offsets[num_lists] = num_children
    valid = ~is_null[is_list]
    bits = np.packbits(valid, bitorder="little")
    out_validity[:] = 0
    out_validity[: bits.size] = bits
    num_left = int(starts.sum())
    out_rep[:num_left] = rep[starts] - 1
    if out_def is not None:
        out_def[:num_left] = levels[starts]
    return num_lists, num_children, num_lists - int(valid.sum()), num_left
