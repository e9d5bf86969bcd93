"""Scans over threads of this process.

``collect`` makes one table: first every unit finds its rows, then every (unit, column)
pair is decoded, all of it spread over the session's threads. ``stream`` goes window by
window so that no more than a byte budget is alive, reading the next window while the
caller works on this one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa

from lancecy.encodings.columns import ArrowArray
from lancecy.scanning.context import ScanContext
from lancecy.scanning.execute import (
    Picked,
    all_passing,
    candidates,
    choose,
    cut,
    finish,
    first_rows,
    parted,
    read_chosen,
    run_unit,
    slice_rows,
    table_of,
)
from lancecy.scanning.outputs import (
    Chosen,
    bytes_of,
    in_order,
    jobs_of,
    map_sized,
    output_fields,
    outputs_together,
)
from lancecy.scanning.plan import ScanPlan
from lancecy.scanning.project import Projection
from lancecy.scanning.request import ScanRequest
from lancecy.scanning.task import ScanUnit
from lancecy.schema import Field

__all__ = [
    "DEFAULT_BUDGET",
    "Progress",
    "collect",
    "count",
    "read_ahead",
    "read_units",
    "stream",
    "windows",
]

DEFAULT_BUDGET = 256 << 20
_FIRST_WINDOW_BYTES = 2 << 20
# Reading less than this is not worth a job of its own.
_JOB_BYTES = 8 << 20
_JOB_ROWS = 8192

Progress = Callable[[int, int], None]
"""Called with (units done, units in all)."""

T = TypeVar("T")


def _mapped(context: ScanContext, units: Sequence[ScanUnit]) -> bool:
    return all(context.files(unit.fragment).mapped for unit in units)


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """What was read of some units.

    Attributes
    ----------
    picked : list of (FragmentFiles, RowSelection)
        Which rows of each unit passed.
    pieces : list of list of column
        Output columns, in the order of the units; nothing of units without a row.
    """

    picked: list[Picked]
    pieces: list[list[ArrowArray]]

    @property
    def num_rows(self) -> int:
        return sum(len(rows) for _, rows in self.picked)


def _read(
    context: ScanContext,
    projection: Projection,
    units: Sequence[ScanUnit],
    request: ScanRequest,
    most: int | None = None,
) -> _Found:
    """The rows of units that pass, read side by side; no more than ``most`` of them."""
    read = _read_mapped if context.snapshot.is_mapped and _mapped(context, units) else _read_far
    return read(context, projection, units, request, most)


def _read_far(
    context: ScanContext,
    projection: Projection,
    units: Sequence[ScanUnit],
    request: ScanRequest,
    most: int | None,
) -> _Found:
    """Of files that cost requests: a thread waits for all those of a unit."""
    if most is None:
        found = context.spread(
            lambda unit: run_unit(context, unit, projection, request.use_stats), units, _fragment_of
        )
    else:
        chosen = context.spread(
            lambda unit: choose(context, unit, projection, request.use_stats), units, _fragment_of
        )
        found = context.spread(
            lambda c: read_chosen(context, c, projection),
            list(first_rows(chosen, most)),
            lambda c: c.files.fragment.id,
        )
    return _Found([picked for picked, _ in found], [columns for (_, rows), columns in found if len(rows)])


def _read_mapped(
    context: ScanContext,
    projection: Projection,
    units: Sequence[ScanUnit],
    request: ScanRequest,
    most: int | None,
) -> _Found:
    """Of mapped files: threads where there is enough to decode."""
    # Pruning is a little NumPy over metadata: threads would only wait for each other.
    chosen = [candidates(context, unit, projection, request.use_stats) for unit in units]
    if projection.filter is not None:
        chosen = all_passing(context, chosen, projection)
    if most is not None:
        chosen = list(first_rows(chosen, most))
    picked = [(c.files, c.picked) for c in chosen]
    if projection.filter is not None and most is None:
        rows = _rows_of_a_job(context, chosen, projection.fields)
        chosen = [part for c in chosen for part in parted(c, rows)]
    alive = [c for c in chosen if len(c.picked)]
    columns = _columns(context, alive, projection.fields)
    return _Found(
        picked, [finish(context, c, projection, mine) for c, mine in zip(alive, columns, strict=True)]
    )


def _fragment_of(unit: ScanUnit) -> int:
    return unit.fragment


def _columns(
    context: ScanContext, alive: Sequence[Chosen], fields: Sequence[Field]
) -> Iterator[list[ArrowArray]]:
    """The fields of each of several units: small units together, others side by side if that is worth it."""
    jobs: list[list[list[Field]]] = []
    small: list[Chosen] = []
    work = 0.0
    for c in alive:
        mine, nbytes = jobs_of(c, fields)
        if not nbytes:
            small.append(c)
        jobs.append(mine if nbytes else [])
        # Rows picked here and there cost several times their bytes.
        work += nbytes * min(1, 8 * len(c.picked) / len(c.rows))
    together = iter(outputs_together(context, small, fields))
    todo = [(c, job) for c, mine in zip(alive, jobs, strict=True) for job in mine]
    read = iter(map_sized(context, lambda item: output_fields(context, *item), todo, work))
    for mine in jobs:
        yield in_order(fields, mine, [next(read) for _ in mine]) if mine else next(together)


def _rows_of_a_job(context: ScanContext, chosen: Sequence[Chosen], fields: Sequence[Field]) -> int:
    """Candidates from which a thread should read the columns, so that none ends up with most of the rows."""
    rows = sum(len(c.rows) for c in chosen)
    passed = sum(len(c.picked) for c in chosen) / max(1, rows)
    jobs = min(4 * context.session.threads, passed * sum(bytes_of(c, fields) for c in chosen) // _JOB_BYTES)
    return rows if jobs < 2 else max(_JOB_ROWS, -(-rows // int(jobs)))


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
    """The rows of some units that pass the filter, and which rows of each unit they are.

    Parameters
    ----------
    units : sequence of ScanUnit
    request : ScanRequest
        That the projection is of; its own limit is not looked at.
    limit : int or None
        Only so many rows, the first ones.

    Returns
    -------
    table : pyarrow.Table
        Columns in one chunk per unit; the exact schema of the projection.
    picked : list of (FragmentFiles, RowSelection)
        Per unit; fewer than units if the limit was reached before the last.
    """
    if limit is None:
        found = _read(context, projection, units, request)
    else:
        found = _read_first(context, projection, units, request, limit)
    return table_of(projection.schema, found.pieces, found.num_rows), found.picked


def _read_first(
    context: ScanContext,
    projection: Projection,
    units: Sequence[ScanUnit],
    request: ScanRequest,
    limit: int,
) -> _Found:
    """Stop reading once enough rows have passed; windows grow so that rare matches stay parallel."""
    found = _Found([], [])
    rows = at = 0
    size = 1 if request.filter is not None else _enough(units, limit)
    while at < len(units) and rows < limit:
        window = _read(context, projection, units[at : at + size], request, limit - rows)
        found.picked.extend(window.picked)
        found.pieces.extend(window.pieces)
        rows += window.num_rows
        at += size
        size *= 2
    return found


def _enough(units: Sequence[ScanUnit], rows: int) -> int:
    """How many units have so many rows, if all of them pass."""
    before = np.cumsum([unit.rows for unit in units])
    return int(np.searchsorted(before, rows)) + 1


def count(context: ScanContext, plan: ScanPlan, request: ScanRequest) -> int:
    """Rows that pass the filter, without reading other columns."""
    projection = plan.projection
    if context.snapshot.is_mapped and _mapped(context, plan.units):
        chosen = [candidates(context, unit, projection, request.use_stats) for unit in plan.units]
        return sum(len(c.picked) for c in all_passing(context, chosen, projection))
    passed = context.spread(
        lambda unit: len(choose(context, unit, projection, request.use_stats).picked),
        plan.units,
        _fragment_of,
    )
    return sum(passed)


def windows(sizes: Iterable[tuple[Sequence[ScanUnit], float]], budget: int) -> Iterator[tuple[ScanUnit, ...]]:
    """Units that are read together, of at most ``budget`` bytes unless a single item has more.

    Parameters
    ----------
    sizes : iterable of (units, bytes)
    budget : int, bytes
    """
    # The first windows are small, so that the first rows come soon.
    room = min(budget, _FIRST_WINDOW_BYTES)
    window: list[ScanUnit] = []
    filled = 0.0
    for units, nbytes in sizes:
        if window and filled + nbytes > room:
            yield tuple(window)
            window, filled, room = [], 0.0, min(budget, 4 * room)
        window.extend(units)
        filled += nbytes
    if window:
        yield tuple(window)


def stream(
    context: ScanContext,
    plan: ScanPlan,
    request: ScanRequest,
    budget: int = DEFAULT_BUDGET,
    progress: Progress | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read a scan as record batches while holding at most about ``budget`` bytes.

    Parameters
    ----------
    plan : ScanPlan
        Made with a ``blocksize`` of a fraction of the budget.
    budget : int, bytes
        Half of it is the window the caller works on, half the one being read.
    """

    def read(window: Sequence[ScanUnit]) -> pa.Table:
        table, _ = read_units(context, plan.projection, window, request)
        context.release(window)
        return table

    skip = request.offset if request.filter is not None else 0
    left = request.limit if request.filter is not None else None
    done = 0
    sizes = ((task.units, task.num_bytes) for task in plan.tasks)
    for window, table in read_ahead(context, windows(sizes, max(1, budget // 3)), read):
        done += len(window)
        if progress is not None:
            progress(done, len(plan.units))
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
    context: ScanContext, items: Iterable[T], read: Callable[[T], pa.Table]
) -> Iterator[tuple[T, pa.Table]]:
    """Items and what is read of them, the next one being read while the caller works on this one.

    With one thread, and no request to wait for, each is read when it is asked for.
    """
    if context.snapshot.is_mapped and context.session.threads == 1:
        yield from ((item, read(item)) for item in items)
        return
    waiting: deque[tuple[T, Future[pa.Table]]] = deque()
    try:
        for following in items:
            waiting.append((following, context.session.submit_ahead(read, following)))
            if len(waiting) > 1:
                item, table = waiting.popleft()
                yield item, table.result()
        while waiting:
            item, table = waiting.popleft()
            yield item, table.result()
    finally:
        for _, table in waiting:
            table.cancel()
