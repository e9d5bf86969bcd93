"""Rows of a table in the form that data files hold, read window by window, for changes that write them again.

JSON columns come in their binary form, and blobs with their bytes. Addresses tell where each row was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.blobs.whole import blob_runs, blob_sizes, with_whole_blobs
from lancecy.records import dataclass
from lancecy.scanning.batches import cut, table_of
from lancecy.scanning.column_forms import json_paths, read_as_stored
from lancecy.scanning.context import ScanContext
from lancecy.scanning.engine import UnitRows, read_rows
from lancecy.scanning.fragment import FragmentFiles
from lancecy.scanning.outputs import are_worth_threads
from lancecy.scanning.plan import ScanPlan, plan
from lancecy.scanning.project import Projection
from lancecy.scanning.request import ScanRequest
from lancecy.scanning.task import ScanSpec, ScanUnit
from lancecy.scanning.threads import DEFAULT_BUDGET, read_ahead
from lancecy.scanning.units import schedule_of
from lancecy.schema import Field

__all__ = ["StoredRows", "stored_rows"]

Int64: TypeAlias = NDArray[np.int64]
UInt64: TypeAlias = NDArray[np.uint64]

# Windows being read, one being written, and the buffers of the writer share the budget.
_WINDOW_SHARE = 6
# Each thread that reads gets several windows of a filtered read, so that all of them end at about the same time.
_WINDOWS_PER_THREAD = 4
_SMALLEST_WINDOW = 4 << 20
_BLOB_BYTES = 32 << 20
_ROW_BITS = np.uint64(32)


@dataclass(frozen=True, slots=True, eq=False)
class StoredRows:
    """Some rows, in table order.

    Attributes
    ----------
    batch : pyarrow.RecordBatch
        Columns of the request; JSON as large binary, blobs as bytes.
    addresses : (n,) uint64
        Fragment and row offset of each row: ``fragment << 32 | offset``.
    """

    batch: pa.RecordBatch
    addresses: UInt64


def stored_rows(
    context: ScanContext, request: ScanRequest, budget: int = DEFAULT_BUDGET
) -> Iterator[StoredRows]:
    """Read the rows of a request in the form that data files hold.

    Parameters
    ----------
    context : ScanContext
    request : ScanRequest
    budget : int, bytes
        Memory for rows that are read ahead.

    Raises
    ------
    ColumnNotFoundError, ExpressionError
        The request does not fit the schema.
    FormatError, StoreError
        The rows cannot be read.
    UnsupportedError
        A blob is in an object outside of the table.

    Examples
    --------
    >>> import lancecy
    >>> from lancecy.scanning.request import ScanRequest
    >>> context = lancecy.dataset("example.lance").context
    >>> sum(rows.batch.num_rows for rows in stored_rows(context, ScanRequest()))
    1000
    """
    snapshot = context.snapshot
    spec = ScanSpec(snapshot.location, snapshot.version, request)
    # A filter leaves few rows in most fragments, whose other columns need not be looked at for their sizes.
    is_whole = request.filter is None
    planned = plan(
        context, request, spec, max(1 << 18, budget // (2 * _WINDOW_SHARE)), exact=is_whole or None
    )
    is_large = planned.num_bytes > budget
    projection = _in_stored_form(planned.projection)
    blobs = [field for field in projection.fields if any(node.is_blob for node in field.walk())]

    def read(window: Sequence[ScanUnit]) -> list[UnitRows]:
        # Bytes of blobs are read for the rows of one fragment, so each unit is read apart.
        parts = [[unit] for unit in window] if blobs else [window]
        schedule = schedule_of(context, window)
        found = [
            one for part in parts for one in read_rows(context, projection, part, schedule, request.use_stats)
        ]
        if is_large:
            context.release(window)
        return found

    room, ahead = _room(context, planned, budget // _WINDOW_SHARE)
    for _, found in read_ahead(context, _windows(planned, room), read, ahead):
        groups = [[unit] for unit in found] if blobs else [found]
        for group in groups:
            for rows in _batches(group, projection, request):
                yield from _with_bytes(context, group[0].picked[0], rows, blobs) if blobs else (rows,)
        del found, groups


def _room(context: ScanContext, planned: ScanPlan, most: int) -> tuple[int, int]:
    """Bytes of a window, and the number of windows that are read ahead.

    One thread reads what a filter leaves of a window of mapped files, so each thread has a small window, or the
    caller reads all if threads are not worth it. Other windows are read by several threads, or with common requests.
    """
    if planned.projection.filter is None or not context.snapshot.is_mapped:
        return most, 1
    fields = planned.projection.filter_fields
    files = context.several_files([unit.fragment for task in planned.tasks for unit in task.units], fields)
    if not are_worth_threads([(each, each.num_rows) for each in files], fields):
        return most, 0
    threads = context.session.threads
    share = planned.num_bytes // (_WINDOWS_PER_THREAD * threads)
    return min(2 * most // threads, max(_SMALLEST_WINDOW, share)), threads


def _windows(planned: ScanPlan, room: int) -> Iterator[list[ScanUnit]]:
    """Units that are read together, at most ``room`` bytes unless a single unit has more.

    They are lists, whose candidates are not kept for the next scan (see ``filtering.choose``).
    """
    window: list[ScanUnit] = []
    filled = 0.0
    for task in planned.tasks:
        row_bytes = task.num_bytes / max(1, task.num_rows)
        for unit in task.units:
            if window and filled + unit.rows * row_bytes > room:
                yield window
                window, filled = [], 0.0
            window.append(unit)
            filled += unit.rows * row_bytes
    if window:
        yield window


def _batches(found: Sequence[UnitRows], projection: Projection, request: ScanRequest) -> Iterator[StoredRows]:
    addresses = np.concatenate([_addresses(unit) for unit in found] or [np.empty(0, np.uint64)])
    if not addresses.size:
        return
    pieces = [piece for unit in found for piece in unit.pieces]
    start = 0
    for batch in cut(table_of(projection.schema, pieces, addresses.size), request):
        yield StoredRows(batch, addresses[start : start + batch.num_rows])
        start += batch.num_rows


def _addresses(unit: UnitRows) -> UInt64:
    files, rows = unit.picked
    offsets = rows.to_indices().astype(np.uint64)
    return (np.uint64(files.fragment.id) << _ROW_BITS) | offsets


def _in_stored_form(projection: Projection) -> Projection:
    """The projection with JSON columns in their binary form, but for columns that expressions read."""
    read = {path[0] for out in projection.outputs if out.bound is not None for path in out.bound.paths}
    paths = json_paths(field for field in projection.fields if field.name not in read)
    if not paths:
        return projection
    fields = read_as_stored(projection.fields, paths)
    types = {field.name: field.arrow_type for field in fields}
    outputs = tuple(
        replace(out, field=out.field.with_type(types[out.path[0]]))
        if out.path is not None and out.path[0] in types
        else out
        for out in projection.outputs
    )
    schema = pa.schema([out.field for out in outputs], metadata=projection.schema.metadata)
    return replace(projection, fields=fields, outputs=outputs, schema=schema, _narrower={}, _exact={})


def _with_bytes(
    context: ScanContext, files: FragmentFiles, rows: StoredRows, blobs: Sequence[Field]
) -> Iterator[StoredRows]:
    """The rows of one fragment with the bytes of their blobs, in batches of bounded size."""
    columns = {field.name: field for field in blobs}
    names = [name for name in rows.batch.schema.names if name in columns]
    sizes = sum(
        (blob_sizes(rows.batch[name], columns[name]) for name in names), np.zeros(len(rows.addresses))
    )
    for start, stop in blob_runs(sizes, _BLOB_BYTES):
        batch = rows.batch.slice(start, stop - start)
        fetch = partial(with_whole_blobs, context, files)
        arrays = [
            fetch(array, columns[name]) if name in columns else array
            for name, array in zip(batch.schema.names, batch.columns, strict=True)
        ]
        yield StoredRows(pa.RecordBatch.from_arrays(arrays, batch.schema.names), rows.addresses[start:stop])
