"""Scans over threads of this process.

``collect`` makes one table: first every unit finds its rows, then every (unit, column)
pair is decoded, all of it spread over the session's threads. ``stream`` goes window by
window so that no more than a byte budget is alive, reading the next window while the
caller works on this one.

Imports ``scanning``, ``encodings`` and ``schema``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import TypeVar

import pyarrow as pa

from lancecy.encodings.arrow import null_array
from lancecy.encodings.columns import ArrowArray
from lancecy.scanning.context import ScanContext
from lancecy.scanning.execute import (
    all_passing,
    candidates,
    choose,
    cut,
    finish,
    parted,
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
from lancecy.scanning.plan import ScanPlan, interleaved
from lancecy.scanning.project import Projection
from lancecy.scanning.request import ScanRequest
from lancecy.scanning.task import ScanUnit
from lancecy.schema import Field

__all__ = ["DEFAULT_BUDGET", "Progress", "collect", "collect_units", "count", "stream"]

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


def _over_units(context: ScanContext, units: Sequence[ScanUnit], step: Callable[[ScanUnit], T]) -> list[T]:
    """Apply ``step`` to every unit on the session's threads, consecutive calls hitting different bases."""
    order = interleaved(context, units)
    results: list[T | None] = [None] * len(units)
    # Opening remote files waits for the network: the wide pool hides that, where CPU threads would idle.
    blocking = not context.snapshot.is_mapped
    for index, value in zip(
        order, context.session.map(step, [units[i] for i in order], blocking=blocking), strict=True
    ):
        results[index] = value
    return results  # type: ignore[return-value]


def _pieces(
    context: ScanContext,
    projection: Projection,
    units: Sequence[ScanUnit],
    request: ScanRequest,
    most: int | None = None,
) -> list[tuple[int, list[ArrowArray]]]:
    """(rows, output columns) of each unit, in order; of mapped files no more than ``most`` rows in all."""
    if not context.snapshot.is_mapped or not _mapped(context, units):
        return _over_units(context, units, lambda u: run_unit(context, u, projection, request.use_stats))
    # Pruning is a little NumPy over metadata: threads would only wait for each other.
    chosen = [candidates(context, unit, projection, request.use_stats) for unit in units]
    if projection.filter is not None:
        chosen = all_passing(context, chosen, projection)
    if most is not None:
        chosen = list(_first_rows(chosen, most))
    elif projection.filter is not None:
        rows = _rows_of_a_job(context, chosen, projection.fields)
        chosen = [part for c in chosen for part in parted(c, rows)]
    alive = [c for c in chosen if len(c.picked)]
    columns = _columns(context, alive, projection.fields)
    results: list[tuple[int, list[ArrowArray]]] = []
    for c in chosen:
        if len(c.picked):
            results.append((len(c.picked), finish(context, c, projection, next(columns))))
        else:
            results.append((0, [null_array(f.type, 0) for f in projection.schema]))
    return results


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


def _first_rows(chosen: Sequence[Chosen], most: int) -> Iterator[Chosen]:
    """The same units with no more than ``most`` rows picked in all."""
    for c in chosen:
        if len(c.picked) <= most:
            yield c
        else:
            picked = c.picked.slice(0, most)
            yield Chosen(c.files, picked, picked)
        most -= min(most, len(c.picked))


def collect(context: ScanContext, plan: ScanPlan, request: ScanRequest) -> pa.Table:
    """Read a whole scan into one table.

    Returns
    -------
    pyarrow.Table
        Columns in one chunk per unit; the exact schema of the plan.
    """
    if request.filter is not None and request.limit is not None:
        return _collect_limited(context, plan, request)
    table = collect_units(context, plan.projection, plan.units, request)
    return slice_rows(table, request.offset) if request.filter is not None and request.offset else table


def collect_units(
    context: ScanContext, projection: Projection, units: Sequence[ScanUnit], request: ScanRequest
) -> pa.Table:
    """The rows of some units that pass the filter, as one table.

    Returns
    -------
    pyarrow.Table
        Columns in one chunk per unit; the exact schema of the projection.
    """
    pieces = _pieces(context, projection, units, request)
    return table_of(projection.schema, [p for _, p in pieces], sum(rows for rows, _ in pieces))


def _collect_limited(context: ScanContext, plan: ScanPlan, request: ScanRequest) -> pa.Table:
    """Stop reading once enough rows have passed; windows grow so that rare matches stay parallel."""
    wanted = request.offset + (request.limit or 0)
    pieces: list[tuple[int, list[ArrowArray]]] = []
    found = at = 0
    size = 1
    while at < len(plan.units) and found < wanted:
        window = _pieces(context, plan.projection, plan.units[at : at + size], request, wanted - found)
        pieces.extend(window)
        found += sum(rows for rows, _ in window)
        at += size
        size *= 2
    table = table_of(plan.schema, [p for _, p in pieces], found)
    return slice_rows(table, request.offset, request.limit)


def count(context: ScanContext, plan: ScanPlan, request: ScanRequest) -> int:
    """Rows that pass the filter, without reading other columns."""
    projection = plan.projection
    if context.snapshot.is_mapped and _mapped(context, plan.units):
        chosen = [candidates(context, unit, projection, request.use_stats) for unit in plan.units]
        return sum(len(c.picked) for c in all_passing(context, chosen, projection))
    passed = _over_units(
        context, plan.units, lambda u: len(choose(context, u, projection, request.use_stats).picked)
    )
    return sum(passed)


def _windows(context: ScanContext, plan: ScanPlan, budget: int) -> Iterator[tuple[ScanUnit, ...]]:
    # The first windows are small, so that the first rows come soon.
    room = min(budget, _FIRST_WINDOW_BYTES)
    window: list[ScanUnit] = []
    filled = 0
    for task in plan.tasks:
        if window and filled + task.num_bytes > room:
            yield tuple(window)
            window, filled, room = [], 0, min(budget, 4 * room)
        window.extend(task.units)
        filled += task.num_bytes
    if window:
        yield tuple(window)


def _window_table(
    context: ScanContext, plan: ScanPlan, window: tuple[ScanUnit, ...], request: ScanRequest
) -> pa.Table:
    table = collect_units(context, plan.projection, window, request)
    context.release(window)
    return table


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
    skip = request.offset if request.filter is not None else 0
    left = request.limit if request.filter is not None else None
    done = 0
    for window, table in _read_ahead(context, plan, request, max(1, budget // 3)):
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


def _read_ahead(
    context: ScanContext, plan: ScanPlan, request: ScanRequest, budget: int
) -> Iterator[tuple[tuple[ScanUnit, ...], pa.Table]]:
    windows = _windows(context, plan, budget)
    waiting: tuple[tuple[ScanUnit, ...], Future[pa.Table]] | None = None
    try:
        for window in windows:
            following = (window, context.session.submit_ahead(_window_table, context, plan, window, request))
            if waiting is not None:
                yield waiting[0], waiting[1].result()
            waiting = following
        if waiting is not None:
            yield waiting[0], waiting[1].result()
            waiting = None
    finally:
        if waiting is not None:
            waiting[1].cancel()
