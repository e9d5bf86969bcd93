"""Twin of ``_rows``: row starts found in the whole array of levels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels._codes import FAULT_GROUP_ROW, FAULT_LEVEL, fail
from lancecy.kernels.reference.checks import require, same_length

__all__ = ["select_rows"]

Int64 = NDArray[np.int64]
Levels = NDArray[np.uint16]


def _check_ranges(groups: list[int], starts: list[int], stops: list[int], num_groups: int) -> None:
    done = (-1, 0)
    for group, start, stop in zip(groups, starts, stops, strict=True):
        inside = 0 <= group < num_groups and 0 <= start < stop
        if not inside or group < done[0] or (group == done[0] and start < done[1]):
            raise ValueError("ranges must not be empty and ascend by group and row")
        done = (group, stop)


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
    require(rep, np.uint16)
    for numbers in (group_stops, range_groups, range_starts, range_stops):
        require(numbers, np.int64)
    outs = (out_level_starts, out_level_stops, out_slot_starts, out_slot_stops)
    for out in outs:
        require(out, np.int64, writable=True)
    if definition is not None:
        require(definition, np.uint16)
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
        fail(FAULT_LEVEL, int(above[0]))
    visible = np.ones(rep.size, np.bool_) if definition is None else definition <= visible_max
    slots = np.concatenate(([0], np.cumsum(visible)))
    for i, (group, start, stop) in enumerate(zip(*asked, strict=True)):
        first, last = bounds[group], bounds[group + 1]
        rows = [*(first + np.flatnonzero(rep[first:last] == max_rep)).tolist(), last]
        if stop >= len(rows):
            fail(FAULT_GROUP_ROW, i)
        out_level_starts[i], out_level_stops[i] = rows[start], rows[stop]
    out_slot_starts[:] = slots[out_level_starts]
    out_slot_stops[:] = slots[out_level_stops]
