"""Scans over threads of this process.

``collect`` makes one table of a whole scan. ``stream`` reads window by window so that no more than a byte budget is
in memory, and reads the next window while the caller works on this one. Both call ``scanning.engine`` with the
schedule that fits the files.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from itertools import islice
from typing import TypeVar

import numpy as np
import pyarrow as pa

from lancecy.scanning.batches import bytes_of_rows, cut, slice_rows, table_of
from lancecy.scanning.context import ScanContext
from lancecy.scanning.engine import UnitRows, count_rows, read_first_rows, read_rows
from lancecy.scanning.plan import PAGE_ROWS, ScanPlan, counted_early, cut_unit
from lancecy.scanning.project import Projection
from lancecy.scanning.request import ScanRequest
from lancecy.scanning.task import ScanUnit
from lancecy.scanning.units import Picked, schedule_of

__all__ = ["DEFAULT_BUDGET", "collect", "count", "read_ahead", "read_units", "stream", "windows"]

DEFAULT_BUDGET = 256 << 20
_FIRST_WINDOW_BYTES = 2 << 20
_GROWTH = 8
_FIRST_ROWS = 16384
"""Rows that are searched first for a few that pass: fewer take as long."""
_ON_DEMAND = 2
"""First windows that are not read ahead: queries that want ten rows end before the next one, and Polars asks once more."""

T = TypeVar("T")
U = TypeVar("U")


def collect(context: ScanContext, plan: ScanPlan, request: ScanRequest) -> pa.Table:
    """Read a whole scan into one table.

    Returns
    -------
    pyarrow.Table
        Columns in one chunk per unit; the exact schema of the plan.
    """
    filtered = request.filter is not None
    most = None if request.limit is None or not filtered else request.offset + request.limit
    table, _ = read_units(context, plan.projection, plan.units, request, most)
    return slice_rows(table, request.offset, request.limit) if filtered else table


def read_units(
    context: ScanContext,
    projection: Projection,
    units: Sequence[ScanUnit],
    request: ScanRequest,
    limit: int | None = None,
) -> tuple[pa.Table, list[Picked]]:
    """Read the rows of some units that pass the filter; return which rows of each unit these are.

    Parameters
    ----------
    units : sequence of ScanUnit
    request : ScanRequest
        Request of the projection; its own limit is ignored.
    limit : int or None
        Return only the first rows, at most so many.

    Returns
    -------
    table : pyarrow.Table
        Columns in one chunk per unit; the exact schema of the projection.
    picked : list of (FragmentFiles, RowSelection)
        Per unit; fewer than units if the limit was reached before the last.
    """
    if limit is None:
        found = read_rows(context, projection, units, schedule_of(context, units), request.use_stats)
    else:
        rows = limit if request.filter is None else max(limit, _FIRST_ROWS)
        growing = ((window, schedule_of(context, window)) for window in _growing(units, rows))
        found = read_first_rows(context, projection, growing, limit, request.use_stats) if limit else []
    pieces = [piece for unit in found for piece in unit.pieces]
    return table_of(projection.schema, pieces, _num_rows(found)), [unit.picked for unit in found]


def _num_rows(found: Sequence[UnitRows]) -> int:
    return sum(len(unit.picked[1]) for unit in found)


def _growing(units: Sequence[ScanUnit], rows: int) -> Iterator[Sequence[ScanUnit]]:
    """Windows of units, the first of so many rows; they grow so that rare matches stay parallel."""
    at, size = 0, int(np.searchsorted(np.cumsum([unit.rows for unit in units]), rows)) + 1
    while at < len(units):
        yield list(units[at : at + size])
        at, size = at + size, 2 * size


def count(context: ScanContext, plan: ScanPlan, request: ScanRequest) -> int:
    """Count the rows that pass the filter, without reading other columns.

    No data file is opened for rows that indices name exactly.
    """
    total: int = 0
    units: Sequence[ScanUnit] = plan.units
    if request.use_stats:
        total, units = counted_early(context, units, plan.projection)
    schedule = schedule_of(context, units)
    return total + count_rows(context, plan.projection, units, schedule, request.use_stats)


def windows(
    sizes: Iterable[tuple[Sequence[ScanUnit], float]],
    budget: int,
    cut_off: Callable[[ScanUnit, float], tuple[ScanUnit, ScanUnit] | None] | None = None,
    growth: Callable[[], float] = lambda: 1.0,
) -> Iterator[list[ScanUnit]]:
    """Group units that are read together, at most ``budget`` bytes unless a single item has more.

    Parameters
    ----------
    sizes : iterable of (units, bytes)
    budget : int, bytes
    cut_off : function of (ScanUnit, float), optional
        Cuts a unit into one with about this share of its rows and the rest, or returns None: for the first windows, as
        who wants ten rows does not wait for half a million, and for units of more than the budget.
    growth : function, optional
        By how much sizes are too small, as far as is known when a window is made.
    """
    # The first windows are small, so that the first rows come soon.
    room = min(budget, _FIRST_WINDOW_BYTES)
    window: list[ScanUnit] = []
    filled = 0.0
    for units, nbytes in sizes:
        if window and filled + growth() * nbytes > room:
            yield window
            window, filled, room = [], 0.0, min(budget, _GROWTH * room)
        while cut_off is not None and len(units) == 1 and room < growth() * nbytes:
            share = room / (growth() * nbytes)
            pieces = cut_off(units[0], share)
            if pieces is None:
                break
            first, rest = pieces
            yield [first]
            units, nbytes, room = (rest,), (1 - share) * nbytes, min(budget, _GROWTH * room)
        window.extend(units)
        filled += growth() * nbytes
    if window:
        yield window


def stream(
    context: ScanContext,
    plan: ScanPlan,
    request: ScanRequest,
    budget: int = DEFAULT_BUDGET,
) -> Iterator[pa.RecordBatch]:
    """Read a scan as record batches while holding at most about ``budget`` bytes.

    Parameters
    ----------
    plan : ScanPlan
        Made with a ``blocksize`` of a fraction of the budget.
    budget : int, bytes
        Half of it is for the window the caller works on, half for the one being read.
    """
    # Resident pages of maps count as this process's memory. A small scan leaves them: dropping them costs as much as decoding.
    is_small = plan.num_bytes <= budget // 2
    left_bytes: dict[int, float] = {}
    row_bytes: dict[int, float] = {}
    # Compressed values may take any number of times their stored bytes: windows shrink by what the last ones took.
    growth = 1.0

    def sized() -> Iterator[tuple[Sequence[ScanUnit], float]]:
        for task in plan.tasks:
            for unit in task.units:
                row_bytes[unit.fragment] = task.num_bytes / max(1, task.num_rows)
            for unit in task.units if is_small else ():
                nbytes = task.num_bytes / len(task.units)
                left_bytes[unit.fragment] = left_bytes.get(unit.fragment, 0.0) + nbytes
            if growth == 1.0:
                yield task.units, task.num_bytes
            else:
                yield from (((unit,), unit.rows * row_bytes[unit.fragment]) for unit in task.units)

    def read(window: Sequence[ScanUnit]) -> pa.Table:
        nonlocal growth
        table, _ = read_units(context, plan.projection, window, request)
        expected = sum(unit.rows * row_bytes[unit.fragment] for unit in window)
        growth = max(1.0, bytes_of_rows(table) / max(1.0, expected), growth / 2)
        if is_small:
            fragments = {unit.fragment for unit in window}
            context.leave({each: left_bytes.pop(each, 0.0) for each in fragments}, budget // 2)
        else:
            context.release(window)
        return table

    def cut_at_page(unit: ScanUnit, share: float) -> tuple[ScanUnit, ScanUnit] | None:
        if growth == 1.0 and not is_mapped:
            return None  # small windows cost requests
        rows = math.ceil((unit.stop - unit.start) * share)
        if rows > PAGE_ROWS:
            rows = math.ceil(rows / PAGE_ROWS) * PAGE_ROWS
        return cut_unit(context, unit, unit.start + rows)

    skip = request.offset if request.filter is not None else 0
    left = request.limit if request.filter is not None else None
    is_mapped = context.snapshot.is_mapped
    found = windows(sized(), max(1, budget // 3), cut_at_page, lambda: growth)
    for _, table in read_ahead(context, found, read, on_demand=_ON_DEMAND if is_mapped else 0):
        taken = slice_rows(table, skip, left)
        skip = max(0, skip - table.num_rows)
        if left is not None:
            left -= taken.num_rows
        del table
        yield from cut(taken, request)
        del taken
        if left == 0:
            return


def read_ahead(
    context: ScanContext,
    items: Iterable[T],
    read: Callable[[T], U],
    ahead: int = 1,
    on_demand: int = 0,
) -> Iterator[tuple[T, U]]:
    """Yield items and their results; read the next ``ahead`` ones while the caller works on this one.

    The first ``on_demand`` items are read when they are asked for. So are all with none ahead, or with one thread and
    mapped files.
    """
    left = iter(items)
    is_alone = not ahead or (context.snapshot.is_mapped and context.session.threads == 1)
    for item in left if is_alone else islice(left, on_demand):
        yield item, read(item)
    waiting: deque[tuple[T, Future[U]]] = deque()
    try:
        for following in left:
            waiting.append((following, context.session.submit_ahead(read, following)))
            if len(waiting) > ahead:
                item, found = waiting.popleft()
                yield item, found.result()
        while waiting:
            item, found = waiting.popleft()
            yield item, found.result()
    finally:
        for _, found in waiting:
            found.cancel()
