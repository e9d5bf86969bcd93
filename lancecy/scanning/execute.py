"""Running a scan: units in, Arrow out.

Each unit goes through the same steps. Rows that are deleted go first, then pages
whose statistics prove that nothing matches; the filter's columns are read for what
is left and the filter evaluated; the other columns are read only for rows that
passed, or whole and then filtered where that is cheaper.

Threads, Dask and Spark call exactly these functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lancecy.encodings.columns import ArrowArray, as_array, joined
from lancecy.expr import Bound, evaluate, falsify
from lancecy.expr import mask as where_true
from lancecy.rows import RowSelection
from lancecy.scanning.context import ScanContext
from lancecy.scanning.extension import bare
from lancecy.scanning.fragment import FragmentFiles
from lancecy.scanning.outputs import (
    Chosen,
    bytes_of,
    map_sized,
    read_columns,
    read_fields,
    read_several,
)
from lancecy.scanning.presence import NullTests, null_tests
from lancecy.scanning.project import Output, Projection, extract
from lancecy.scanning.request import ScanRequest
from lancecy.scanning.task import ScanUnit
from lancecy.scanning.virtual import selected_rows, virtual_stats, virtual_values
from lancecy.schema import Field
from lancecy.stats import StatsTable

__all__ = [
    "Chosen",
    "PageCount",
    "Picked",
    "all_passing",
    "candidates",
    "choose",
    "cut",
    "finish",
    "first_rows",
    "located",
    "parted",
    "prune",
    "read_chosen",
    "read_fields",
    "run_unit",
    "slice_rows",
    "table_of",
]

DEFAULT_BATCH_ROWS = 65_536
DEFAULT_BATCH_BYTES = 16 << 20
SMALL_BYTES = 1 << 20
SMALL_ROWS = 8192


Picked: TypeAlias = tuple[FragmentFiles, RowSelection]
"""The files of a unit and which of their rows passed."""


@dataclass(frozen=True, slots=True)
class PageCount:
    """Pages before and after pruning."""

    total: int = 0
    kept: int = 0


def prune(
    context: ScanContext, files: FragmentFiles, projection: Projection, rows: RowSelection
) -> tuple[RowSelection, PageCount]:
    """Rows less the pages whose statistics prove that the filter is true for none of theirs."""
    bound, virtual = projection.filter, projection.filter_virtual
    total = kept = 0
    if bound is None:
        return rows, PageCount()
    for starts, table in files.page_stats(projection.filter_fields, bound.paths, context.session):
        if virtual:
            found = virtual_stats(context.snapshot, files.fragment, files.num_rows, virtual, starts)
            table = StatsTable(table.row_counts, {**table.columns, **found})
        empty = falsify(bound, table)
        total += empty.size
        kept += int(empty.size - np.count_nonzero(empty))
        if empty.any():
            rows = rows.intersect(_pages_as_rows(starts, ~empty))
    return rows, PageCount(total, kept)


def _pages_as_rows(starts: NDArray[np.int64], keep: NDArray[np.bool_]) -> RowSelection:
    edges = np.flatnonzero(np.diff(keep.view(np.int8), prepend=0, append=0))
    first, last = starts[edges[0::2]], starts[edges[1::2]]
    some = last > first
    return RowSelection(int(starts[-1]), first[some], last[some])


def choose(context: ScanContext, unit: ScanUnit, projection: Projection, use_stats: bool = True) -> Chosen:
    """Find the rows of a unit that are alive and pass the filter."""
    return passing(context, candidates(context, unit, projection, use_stats), projection)


def candidates(
    context: ScanContext, unit: ScanUnit, projection: Projection, use_stats: bool = True
) -> Chosen:
    """The rows of a unit that are alive and in pages that may match; touches metadata only."""
    files = context.files(unit.fragment)
    rows = located(context, files, unit, projection)
    if projection.filter is not None and use_stats:
        rows, _ = prune(context, files, projection, rows)
    return Chosen(files, rows, rows)


def located(
    context: ScanContext, files: FragmentFiles, unit: ScanUnit, projection: Projection
) -> RowSelection:
    """The rows of a unit that are alive and satisfy what the filter says of virtual columns alone."""
    if not projection.where:
        return files.live(unit.start, unit.stop)
    rows = selected_rows(context.snapshot, files.fragment, files.num_rows, projection.where)
    rows = files.living(rows.intersect(RowSelection.range(files.num_rows, unit.start, unit.stop)))
    if rows.starts is not None and rows.starts.size * 4 > len(rows):
        # Single rows are read by their numbers.
        return RowSelection(files.num_rows, indices=rows.to_indices())
    return rows


def passing(context: ScanContext, chosen: Chosen, projection: Projection) -> Chosen:
    """Of the candidates, those for which the filter is true; reads the filter's columns."""
    files, rows = chosen.files, chosen.rows
    if projection.filter is None or len(rows) == 0:
        return chosen
    tests = _null_tests(files, projection, projection.filter)
    columns = read_columns(files, projection.filter_fields, rows, context.session, tests.tested)
    seen = {f.name: c for f, c in zip(projection.filter_fields, columns, strict=True)}
    seen.update(_virtual(context, files, rows, projection.filter_virtual))
    mask = as_array(where_true(tests.bound, _named(list(seen), list(seen.values()), len(rows))))
    read = zip(projection.filter_fields, columns, strict=True)
    return _passed(chosen, mask, {wanted: column for wanted, column in read if wanted not in tests.tested})


def _passed(chosen: Chosen, mask: pa.BooleanArray, read: dict[Field, ArrowArray]) -> Chosen:
    """What is left of candidates for which a filter was evaluated, and the columns that were read for it."""
    files, rows = chosen.files, chosen.rows
    passed = mask.true_count
    if passed == 0:
        return Chosen(files, rows.slice(0, 0), rows.slice(0, 0))
    if passed == len(rows):
        return Chosen(files, rows, rows, None, read)
    return Chosen(files, rows, rows.pick(_positions(mask)), mask, read)


def all_passing(context: ScanContext, chosen: Sequence[Chosen], projection: Projection) -> list[Chosen]:
    """As :func:`passing` for several units of mapped files: side by side, but small ones together."""
    fields = projection.filter_fields
    work = sum(bytes_of(c, fields) for c in chosen)
    groups = list(_small_together(chosen, fields))
    found = map_sized(context, lambda group: _passing_group(context, group, projection), groups, work)
    return [c for group in found for c in group]


def _small_together(chosen: Sequence[Chosen], fields: Sequence[Field]) -> Iterator[list[Chosen]]:
    """Units in groups for which the filter is evaluated once; those of many rows are alone."""
    # Every fragment has a dictionary of its own: to make them one may cost more than it saves.
    most = (
        0 if any(node.logical_type.startswith("dict:") for f in fields for node in f.walk()) else SMALL_ROWS
    )
    group: list[Chosen] = []
    rows = 0
    for c in chosen:
        if group and rows + len(c.rows) > most:
            yield group
            group, rows = [], 0
        group.append(c)
        rows += len(c.rows)
    if group:
        yield group


def _passing_group(context: ScanContext, group: Sequence[Chosen], projection: Projection) -> list[Chosen]:
    bound, fields = projection.filter, projection.filter_fields
    if len(group) == 1 or bound is None or null_tests(bound, fields, projection.fields).tested:
        return [passing(context, c, projection) for c in group]
    read = read_several([(c.files, c.rows) for c in group], fields, context.session)
    seen = {f.name: joined([mine[i] for mine in read], f.arrow_type) for i, f in enumerate(fields)}
    made = [_virtual(context, c.files, c.rows, projection.filter_virtual) for c in group]
    seen.update((name, pa.chunked_array([mine[name] for mine in made])) for name in projection.filter_virtual)
    mask = as_array(
        where_true(bound, _named(list(seen), list(seen.values()), sum(len(c.rows) for c in group)))
    )
    found = []
    start = 0
    for c, mine in zip(group, read, strict=True):
        found.append(_passed(c, mask.slice(start, len(c.rows)), dict(zip(fields, mine, strict=True))))
        start += len(c.rows)
    return found


def _null_tests(files: FragmentFiles, projection: Projection, bound: Bound) -> NullTests:
    """Which of the filter's fields are read without their values."""
    if not files.tells_nulls:
        return NullTests(bound)
    found = null_tests(bound, projection.filter_fields, projection.fields)
    if files.mapped:
        return found
    # Where reading costs requests, nothing is read twice.
    tested = {f: nodes for f, nodes in found.tested.items() if f not in projection.fields}
    return replace(found, tested=tested) if tested else NullTests(bound)


def parted(chosen: Chosen, max_rows: int) -> Iterator[Chosen]:
    """The same rows as several of at most ``max_rows`` candidates each, parts without a row that passed left out."""
    if len(chosen.rows) <= max_rows:
        yield chosen
        return
    for start in range(0, len(chosen.rows), max_rows):
        rows = chosen.rows.slice(start, max_rows)
        reused = {name: column.slice(start, max_rows) for name, column in chosen.reused.items()}
        mask = None if chosen.mask is None else chosen.mask.slice(start, max_rows)
        if mask is None:
            yield Chosen(chosen.files, rows, rows, None, reused)
        elif mask.true_count:
            yield Chosen(chosen.files, rows, rows.pick(_positions(mask)), mask, reused)


def first_rows(chosen: Sequence[Chosen], most: int) -> Iterator[Chosen]:
    """The same units with no more than ``most`` rows picked in all; what was read of those rows is kept."""
    for c in chosen:
        first = _cut(c, most) if len(c.picked) > most else c
        yield first
        most -= len(first.picked)


def _cut(chosen: Chosen, most: int) -> Chosen:
    """The first rows that passed, fewer than all of them."""
    picked, mask = chosen.picked.slice(0, most), chosen.mask
    if mask is None:
        return Chosen(
            chosen.files, picked, picked, None, {f: c.slice(0, most) for f, c in chosen.reused.items()}
        )
    stop = int(_positions(mask)[most])
    mask = mask.slice(0, stop)
    return Chosen(
        chosen.files,
        picked,
        picked,
        None,
        {f: c.slice(0, stop).filter(mask) for f, c in chosen.reused.items()},
    )


def _positions(mask: pa.BooleanArray) -> NDArray[np.int64]:
    """Where a mask is true."""
    found: NDArray[np.int64] = pc.indices_nonzero(mask).to_numpy(zero_copy_only=False).view(np.int64)
    return found


def finish(
    context: ScanContext, chosen: Chosen, projection: Projection, columns: Sequence[ArrowArray]
) -> list[ArrowArray]:
    """Output columns of one unit out of the fields read."""
    by_name = {f.name: c for f, c in zip(projection.fields, columns, strict=True)}
    by_name.update(_virtual(context, chosen.files, chosen.picked, projection.virtual))
    return [_output(out, by_name, len(chosen.picked)) for out in projection.outputs]


def _virtual(
    context: ScanContext, files: FragmentFiles, rows: RowSelection, names: Sequence[str]
) -> dict[str, ArrowArray]:
    """Virtual columns of some rows, by name."""
    if not names:
        return {}
    offsets, found = rows.to_indices(), (context.snapshot, files.fragment, files.num_rows)
    return {name: pa.array(virtual_values(*found, name, offsets)) for name in names}


def _output(out: Output, by_name: dict[str, ArrowArray], num_rows: int) -> ArrowArray:
    bound = out.bound
    if bound is None:
        return extract(by_name[out.paths[0][0]], out.paths[0])
    names = [name for name in by_name if any(p[0] == name for p in bound.paths)]
    value = evaluate(bound, _named(names, [by_name[n] for n in names], num_rows))
    if isinstance(value, pa.Scalar):
        return pa.repeat(value, num_rows)
    return value


def _named(names: Sequence[str], columns: Sequence[ArrowArray], num_rows: int) -> pa.Table:
    """The columns an expression sees; one that names none (a constant) still needs the number of rows."""
    return pa.table([bare(c) for c in columns], names=names) if names else pa.table({"": pa.nulls(num_rows)})


def table_of(schema: pa.Schema, pieces: Sequence[Sequence[ArrowArray]], num_rows: int) -> pa.Table:
    """One table out of the output columns of several units."""
    if not len(schema):
        # A table without columns still has rows: pyarrow keeps their number only through a slice of one.
        rows = pa.schema([pa.field("", pa.null())], metadata=schema.metadata)
        return pa.Table.from_arrays([pa.nulls(num_rows)], schema=rows).select([])
    columns = [joined([piece[index] for piece in pieces], wanted.type) for index, wanted in enumerate(schema)]
    return pa.Table.from_arrays(columns, schema=schema)


def run_unit(
    context: ScanContext, unit: ScanUnit, projection: Projection, use_stats: bool = True
) -> tuple[Picked, list[ArrowArray]]:
    """All steps for one unit.

    Returns
    -------
    (picked, columns)
        See :func:`read_chosen`.
    """
    return read_chosen(context, choose(context, unit, projection, use_stats), projection)


def read_chosen(
    context: ScanContext, chosen: Chosen, projection: Projection
) -> tuple[Picked, list[ArrowArray]]:
    """The rows of a unit that passed, and their output columns; none if no row did."""
    picked = (chosen.files, chosen.picked)
    if not len(chosen.picked):
        return picked, []
    return picked, finish(context, chosen, projection, read_fields(context, chosen, projection))


def cut(table: pa.Table, request: ScanRequest) -> Iterator[pa.RecordBatch]:
    """Record batches of a table, no larger than the request allows; small chunks are brought together."""
    max_rows = request.batch_size or DEFAULT_BATCH_ROWS
    per_row = max(1.0, _row_bytes(table) / max(1, table.num_rows))
    max_bytes = request.batch_bytes or (DEFAULT_BATCH_BYTES if request.batch_size is None else None)
    if max_bytes is not None:
        max_rows = max(1, min(max_rows, int(max_bytes / per_row)))
    if not table.num_columns:
        for start in range(0, table.num_rows, max_rows):
            count = min(max_rows, table.num_rows - start)
            yield pa.RecordBatch.from_arrays([pa.nulls(count)], names=[""]).select([])
        return
    small = min(SMALL_BYTES, max_bytes or SMALL_BYTES)
    yield from _brought_together(table.to_reader(max_chunksize=max_rows), max_rows, small)


def _row_bytes(table: pa.Table | pa.RecordBatch) -> int:
    """Bytes of all rows; the dictionaries that chunks share are not theirs."""
    return sum(
        chunk.indices.nbytes if pa.types.is_dictionary(chunk.type) else chunk.nbytes
        for column in table.columns
        for chunk in (column.chunks if isinstance(column, pa.ChunkedArray) else [column])
    )


def _brought_together(
    batches: Iterable[pa.RecordBatch], max_rows: int, max_bytes: int
) -> Iterator[pa.RecordBatch]:
    """Consecutive batches as one while they are small; so little cannot overflow the offsets of text."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        nbytes = _row_bytes(batch)
        if waiting and size + nbytes > max_bytes:
            yield from _as_one(waiting)
            waiting, rows, size = [], 0, 0
        elif waiting and rows + batch.num_rows > max_rows:
            # Columns of 2.x files end their pages at different rows: batches are filled across the edges.
            yield from _as_one([*waiting, batch.slice(0, max_rows - rows)])
            batch = batch.slice(max_rows - rows)
            waiting, rows, size, nbytes = [], 0, 0, _row_bytes(batch)
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + nbytes
    if waiting:
        yield from _as_one(waiting)


def _as_one(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    if len(batches) == 1:
        return batches
    try:
        return [pa.concat_batches(batches)]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        # Dictionaries whose values together are more than codes can count: each batch keeps its own.
        return batches


def slice_rows(table: pa.Table, offset: int, limit: int | None = None) -> pa.Table:
    """Rows ``offset`` to ``offset + limit``; pyarrow does not count the rows of a table without columns."""
    if table.num_columns:
        return table.slice(offset, limit)
    rows = max(0, table.num_rows - offset)
    return table_of(table.schema, [], rows if limit is None else min(rows, limit))
