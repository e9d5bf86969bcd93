"""Scan tasks run in this process, for Dask, Spark and users' own executors.

The units of a task are read side by side, as ``threads.collect`` reads those of a whole scan: a task of many small
fragments on several bases keeps all bases busy. All tasks of a process share the threads of one session.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from lancecy.scanning.batches import cut
from lancecy.scanning.context import context_for
from lancecy.scanning.plan import unit_sizes
from lancecy.scanning.task import ScanSpec, ScanTask, ScanUnit
from lancecy.scanning.threads import DEFAULT_BUDGET, read_ahead, read_units, windows
from lancecy.scanning.units import Picked
from lancecy.session import Session

__all__ = ["batches", "read", "read_rows"]


def read(task: ScanTask, columns: Sequence[str] | None = None, session: Session | None = None) -> pa.Table:
    """Run one task.

    Parameters
    ----------
    task : ScanTask
    columns : sequence of str or None
        Return only these of the scan's columns, in this order.
    session : Session or None
        The process default if None.

    Returns
    -------
    pyarrow.Table
        One chunk per unit and column, with the exact schema of the plan.

    Raises
    ------
    LanceError
        The table cannot be read; the message names the place.
    """
    return read_rows(task.spec, task.units, columns, session=session)[0]


def read_rows(
    spec: ScanSpec,
    units: Sequence[ScanUnit],
    columns: Sequence[str] | None = None,
    limit: int | None = None,
    session: Session | None = None,
) -> tuple[pa.Table, list[Picked]]:
    """Read some units; return their rows, and which rows of each unit these are.

    Parameters
    ----------
    spec : ScanSpec
    units : sequence of ScanUnit
    columns : sequence of str or None
        Columns of the scan, ``_rowid`` or ``_rowaddr``, in this order; None for all columns of the scan.
    limit : int or None
        Return only the first rows, at most so many.
    session : Session or None
        The process default if None.

    Returns
    -------
    table : pyarrow.Table
    picked : list of (FragmentFiles, RowSelection)
        Per unit; fewer than units if the limit was reached before the last.

    Raises
    ------
    LanceError
        The table cannot be read here.
    """
    context = context_for(spec, session)
    request = spec.request if columns is None else spec.request.narrowed(list(columns))
    table, picked = read_units(context, context.projection(request), units, request, limit)
    if columns is not None and table.column_names != list(columns):
        table = table.select(list(columns))
    return table, picked


def batches(task: ScanTask, session: Session | None = None) -> Iterator[pa.RecordBatch]:
    """Run one task as a stream of record batches, holding at most about 256 MiB.

    Parameters
    ----------
    task : ScanTask
    session : Session or None
        The process default if None.

    Raises
    ------
    LanceError
        The table cannot be read; the message names the place.
    """
    context = context_for(task.spec, session)
    request = task.spec.request
    projection = context.projection(request)

    def read_window(window: Sequence[ScanUnit]) -> pa.Table:
        return read_units(context, projection, window, request)[0]

    sizes = unit_sizes(context, projection, task.units)
    each = (((unit,), size) for unit, size in zip(task.units, sizes, strict=True))
    for _, table in read_ahead(context, windows(each, DEFAULT_BUDGET // 3), read_window):
        yield from cut(table, request)
