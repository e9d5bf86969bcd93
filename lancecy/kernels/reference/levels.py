"""Twins of ``_levels``, ``_peel`` and ``_rows``: definition and repetition levels as NumPy masks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels._codes import Fault, fail
from lancecy.kernels.reference.checks import checked, require_level, same_length

__all__ = ["level_validity", "peel_lists", "select_rows"]


Levels = NDArray[np.uint16]


@checked
def level_validity(
    levels: Levels, valid_max: int, visible_max: int, out_validity: NDArray[np.uint8]
) -> tuple[int, int]:
    """As :func:`lancecy.kernels.level_validity`."""
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
    if (definition is None) != (out_def is None):
        raise ValueError("out_def is for definition levels, and they need it")
    if definition is not None and out_def is not None:
        same_length("definition and out_def need one entry per level", rep, definition, out_def)
    same_length("out_rep needs one entry per level", rep, out_rep)
    if out_offsets.size != rep.size + 1 or out_validity.size != (rep.size + 7) // 8:
        raise ValueError("out_offsets needs one entry more than levels, and out_validity one bit per level")


@checked
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
        fail(Fault.LEVEL_ORDER, int(np.flatnonzero(bad)[0]))
    is_list = starts & ~is_hidden
    before = np.cumsum(has_child) - has_child
    num_lists, num_children = int(is_list.sum()), int(has_child.sum())
    if num_children > np.iinfo(out_offsets.dtype).max:
        fail(Fault.TOO_MANY_ITEMS, 0)
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


Int64 = NDArray[np.int64]


def _check_ranges(groups: list[int], starts: list[int], stops: list[int], num_groups: int) -> None:
    done = (-1, 0)
    for group, start, stop in zip(groups, starts, stops, strict=True):
        inside = 0 <= group < num_groups and 0 <= start < stop
        if not inside or group < done[0] or (group == done[0] and start < done[1]):
            raise ValueError("ranges must not be empty and ascend by group and row")
        done = (group, stop)


@checked
def select_rows(
    rep: Levels,
    definition: Levels | None,
    max_rep: int,
    visible_max: int,
    group_stops: Int64,
    range_groups: Int64,
    range_starts: Int64,
    range_stops: Int64,
    out_level_starts: Int64,
    out_level_stops: Int64,
    out_slot_starts: Int64,
    out_slot_stops: Int64,
) -> None:
    """As :func:`lancecy.kernels.select_rows`."""
    outs = (out_level_starts, out_level_stops, out_slot_starts, out_slot_stops)
    if not 0 <= max_rep <= 0xFFFF or not 0 <= visible_max <= 0xFFFF:
        raise ValueError("max_rep and visible_max must be levels")
    same_length("arrays of ranges differ in length", range_groups, range_starts, range_stops, *outs)
    if definition is not None:
        same_length("rep and definition differ in length", rep, definition)
    bounds = [0, *group_stops.tolist()]
    if bounds != sorted(bounds) or bounds[-1] != rep.size:
        raise ValueError("group_stops must ascend to the number of levels")
    asked = (range_groups.tolist(), range_starts.tolist(), range_stops.tolist())
    _check_ranges(*asked, group_stops.size)
    above = np.flatnonzero(rep > max_rep)
    if above.size:
        fail(Fault.LEVEL, int(above[0]))
    visible = np.ones(rep.size, np.bool_) if definition is None else definition <= visible_max
    slots = np.concatenate(([0], np.cumsum(visible)))
    for i, (group, start, stop) in enumerate(zip(*asked, strict=True)):
        first, last = bounds[group], bounds[group + 1]
        rows = [*(first + np.flatnonzero(rep[first:last] == max_rep)).tolist(), last]
        if stop >= len(rows):
            fail(Fault.GROUP_ROW, i)
        out_level_starts[i], out_level_stops[i] = rows[start], rows[stop]
    out_slot_starts[:] = slots[out_level_starts]
    out_slot_stops[:] = slots[out_level_stops]
