"""Output columns as tables, and tables as record batches of the sizes a request allows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from lancecy.encodings.arrow.columns import ArrowArray, joined, unsliced, unsliced_rows
from lancecy.encodings.arrow.from_arrow import size_of
from lancecy.errors import LimitError
from lancecy.scanning.request import ScanRequest

__all__ = [
    "DEFAULT_BATCH_BYTES",
    "DEFAULT_BATCH_ROWS",
    "bytes_of_rows",
    "cut",
    "exact_batches",
    "one_batch",
    "slice_rows",
    "table_of",
]

DEFAULT_BATCH_ROWS = 65_536
DEFAULT_BATCH_BYTES = 16 << 20
SMALL_BYTES = 1 << 20


def table_of(schema: pa.Schema, pieces: Sequence[Sequence[ArrowArray]], num_rows: int) -> pa.Table:
    """Make one table of the output columns of several units."""
    if not len(schema):
        # A table without columns still has rows: pyarrow keeps their number only through a slice of one.
        rows = pa.schema([pa.field("", pa.null())], metadata=schema.metadata)
        return pa.Table.from_arrays([pa.nulls(num_rows)], schema=rows).select([])
    # Users filter with Arrow what they get.
    columns = [
        joined([unsliced(piece[index]) for piece in pieces], wanted.type)
        for index, wanted in enumerate(schema)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def slice_rows(table: pa.Table, offset: int, limit: int | None = None) -> pa.Table:
    """Rows ``offset`` to ``offset + limit``; pyarrow does not count the rows of a table without columns."""
    if table.num_columns:
        return table.slice(offset, limit)
    rows = max(0, table.num_rows - offset)
    return table_of(table.schema, [], rows if limit is None else min(rows, limit))


def cut(table: pa.Table, request: ScanRequest) -> Iterator[pa.RecordBatch]:
    """Yield record batches of a table, no larger than the request allows; merge small chunks."""
    max_rows = request.batch_size or DEFAULT_BATCH_ROWS
    per_row = max(1.0, bytes_of_rows(table) / max(1, table.num_rows))
    max_bytes = request.batch_bytes or (DEFAULT_BATCH_BYTES if request.batch_size is None else None)
    if max_bytes is not None:
        max_rows = max(1, min(max_rows, int(max_bytes / per_row)))
    if not table.num_columns:
        for start in range(0, table.num_rows, max_rows):
            count = min(max_rows, table.num_rows - start)
            yield pa.RecordBatch.from_arrays([pa.nulls(count)], names=[""]).select([])
        return
    small = min(SMALL_BYTES, max_bytes or SMALL_BYTES)
    batches = map(unsliced_rows, table.to_reader(max_chunksize=max_rows))
    yield from _brought_together(batches, max_rows, small)


def bytes_of_rows(table: pa.Table | pa.RecordBatch) -> int:
    """Bytes of all rows, without the dictionaries that chunks share."""
    return sum(
        size_of(chunk)
        for column in table.columns
        for chunk in (column.chunks if isinstance(column, pa.ChunkedArray) else [column])
    )


def _brought_together(
    batches: Iterable[pa.RecordBatch], max_rows: int, max_bytes: int
) -> Iterator[pa.RecordBatch]:
    """Merge consecutive batches while they are small; their text offsets cannot overflow."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        nbytes = bytes_of_rows(batch)
        if waiting and size + nbytes > max_bytes:
            yield from _as_one(waiting)
            waiting, rows, size = [], 0, 0
        elif waiting and rows + batch.num_rows > max_rows:
            # Columns of 2.x files end their pages at different rows: batches are filled across page ends.
            yield from _as_one([*waiting, batch.slice(0, max_rows - rows)])
            batch = batch.slice(max_rows - rows)
            waiting, rows, size, nbytes = [], 0, 0, bytes_of_rows(batch)
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
        # The dictionaries together have more values than codes can count: each batch keeps its own.
        return batches


def exact_batches(batches: Iterable[pa.RecordBatch], num_rows: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of ``num_rows`` rows; the last may have fewer."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        while count + batch.num_rows >= num_rows:
            missing = num_rows - count
            yield one_batch([*held, batch.slice(0, missing)])
            held, count, batch = [], 0, batch.slice(missing)
        if batch.num_rows:
            held.append(batch)
            count += batch.num_rows
    if held:
        yield one_batch(held)


def one_batch(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """The rows of several batches in one; nothing is copied if there is only one.

    Raises
    ------
    LimitError
        One batch cannot hold them: dictionaries with more values than codes, text beyond 2 GiB.
    """
    if len(batches) == 1:
        return batches[0]
    rows = sum(batch.num_rows for batch in batches)
    try:
        return pa.concat_batches(batches)
    except pa.ArrowInvalid as error:
        raise LimitError(
            f"{rows} rows do not fit into one batch: {error} "
            "Use a smaller batch_size, or strict_batch_size=False",
            limit="",
            claimed=rows,
        ) from error
