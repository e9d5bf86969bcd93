"""The rows that a merge writes: first those that replace rows, then those that are inserted; each as in the source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from lancecy.changes.merging.clauses import Rules
from lancecy.changes.merging.keys import Int64, UInt64, key_hashes
from lancecy.changes.merging.matching import Matches
from lancecy.changes.merging.source import Source
from lancecy.changes.merging.structs import completed, completed_type
from lancecy.encodings.arrow.columns import unsliced_rows
from lancecy.encodings.arrow.conversions import array_of, numbers_of
from lancecy.errors import SchemaError, UnsupportedError
from lancecy.scanning.context import ScanContext
from lancecy.scanning.request import make_request
from lancecy.scanning.take import take_addresses

__all__ = ["check_kept", "chosen_rows", "hashes_of_new", "written_batches", "written_schema"]


def written_schema(context: ScanContext, source: pa.Schema, rules: Rules) -> pa.Schema:
    """The columns of the written rows: those of the source, and those of the table if rows may be replaced.

    Parameters
    ----------
    context : ScanContext
    source : pyarrow.Schema
    rules : Rules
    """
    if rules.clauses.matched != "update":
        return source
    table = context.snapshot.schema.arrow
    given = [
        field.with_type(completed_type(field.type, table.field(field.name).type))
        if field.name in rules.partial
        else field
        for field in source
    ]
    return pa.schema([*given, *(table.field(name) for name in rules.kept)])


def check_kept(context: ScanContext, rules: Rules) -> None:
    """Refuse to copy columns that scans do not return as they are written.

    Raises
    ------
    UnsupportedError
        The source lacks a column with blobs.
    """
    for name in rules.kept:
        if any(node.is_blob for node in context.snapshot.schema.field(name).walk()):
            raise UnsupportedError(
                f"the rows lack the blob column {name!r}, whose values would have to be copied: give it too",
                feature="merges that keep blobs",
            )


def written_batches(
    context: ScanContext, source: Source, rules: Rules, matches: Matches
) -> Iterator[pa.RecordBatch]:
    """The rows to write, with the columns of :func:`written_schema`.

    Parameters
    ----------
    context : ScanContext
    source : Source
    rules : Rules
    matches : Matches
    """
    schema = written_schema(context, source.schema, rules)
    strict = [field.name for field in context.snapshot.schema.fields if not field.nullable]
    strict = [name for name in strict if name in source.schema.names]
    if matches.rows.size:
        yield from _updated(context, source, rules, matches, schema, strict)
    if matches.num_inserted:
        for start, batch in _numbered(source):
            chosen = np.flatnonzero(matches.is_new[start : start + batch.num_rows])
            rows = chosen_rows(batch, chosen, start if source.is_whole else None, strict)
            if rows.num_rows:
                yield _whole(rows, None, schema)


def _updated(
    context: ScanContext,
    source: Source,
    rules: Rules,
    matches: Matches,
    schema: pa.Schema,
    strict: list[str],
) -> Iterator[pa.RecordBatch]:
    copied = [*rules.kept, *rules.partial]
    projection = context.projection(make_request(context.snapshot.schema.arrow, columns=copied))
    for start, batch in _numbered(source):
        first, last = np.searchsorted(matches.rows, [start, start + batch.num_rows]).tolist()
        if first == last:
            continue
        chosen = matches.rows[first:last] - start
        rows = chosen_rows(batch, chosen, start if source.is_whole else None, strict)
        if not copied:
            yield rows
            continue
        found = take_addresses(context, projection, matches.addresses[first:last])
        for piece in found.combine_chunks().to_batches():
            yield _whole(rows.slice(0, piece.num_rows), piece, schema)
            rows = rows.slice(piece.num_rows)


def _whole(rows: pa.RecordBatch, replaced: pa.RecordBatch | None, schema: pa.Schema) -> pa.RecordBatch:
    """The rows with all columns of the schema: missing ones of the rows that they replace, or null."""
    if rows.num_columns == len(schema) and all(
        column.type == field.type for column, field in zip(rows.columns, schema, strict=True)
    ):
        return rows
    columns = []
    for field in schema:
        has_old = replaced is not None and field.name in replaced.schema.names
        old = replaced.column(field.name) if has_old and replaced is not None else None
        if field.name not in rows.schema.names:
            columns.append(pa.nulls(rows.num_rows, field.type) if old is None else old)
        elif rows.column(field.name).type == field.type:
            columns.append(rows.column(field.name))
        else:
            columns.append(completed(rows.column(field.name), old, field.type))
    return pa.RecordBatch.from_arrays(columns, names=schema.names)


def hashes_of_new(source: Source, rules: Rules, matches: Matches) -> UInt64:
    """The hashes of the keys of inserted rows, for the key filter.

    Parameters
    ----------
    source : Source
    rules : Rules
    matches : Matches
    """
    found: list[UInt64] = []
    if matches.num_inserted:
        start = 0
        for batch in source.batches(rules.on):
            chosen = np.flatnonzero(matches.is_new[start : start + batch.num_rows])
            start += batch.num_rows
            found.append(key_hashes(_chosen(batch, chosen).columns))
    return np.concatenate(found or [np.empty(0, np.uint64)])


def chosen_rows(
    batch: pa.RecordBatch, rows: Int64, start: int | None, strict: Sequence[str]
) -> pa.RecordBatch:
    """Some rows of a batch, ascending, after a check of their nulls.

    Parameters
    ----------
    batch : pyarrow.RecordBatch
    rows : (n,) int64, ascending
    start : int or None
        Number of the first row of the batch in the source, for the error; None if numbers mean nothing.
    strict : sequence of str
        Columns that must not have nulls.

    Raises
    ------
    SchemaError
        A null, with column and row.
    """
    _check_nulls(batch, rows, start, strict)
    return _chosen(batch, rows)


def _numbered(source: Source) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The batches of a source, each with the number of its first row."""
    start = 0
    for batch in source.batches():
        yield start, batch
        start += batch.num_rows


def _check_nulls(batch: pa.RecordBatch, rows: Int64, start: int | None, strict: Sequence[str]) -> None:
    """Refuse nulls where the table allows none, among some rows of a batch that begins at row ``start``; None if numbers mean nothing."""
    for name in strict:
        column = batch.column(name)
        if column.null_count:
            at = np.flatnonzero(numbers_of(column.is_null())[rows])
            if at.size:
                row = "a row" if start is None else f"row {start + int(rows[at[0]])}"
                raise SchemaError(
                    f"column {name!r} of {row} of the source is null, which the table does not allow",
                    difference=name,
                )


def _chosen(batch: pa.RecordBatch, rows: Int64) -> pa.RecordBatch:
    """These rows of a batch, ascending."""
    if not rows.size:
        return batch.slice(0, 0)
    first, last = int(rows[0]), int(rows[-1])
    if last - first + 1 == rows.size and bool(np.all(rows[1:] > rows[:-1])):
        return batch.slice(first, rows.size)
    return unsliced_rows(batch).take(array_of(rows))
