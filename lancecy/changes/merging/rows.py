"""The rows that a merge writes: first those that replace rows, then those that are inserted; each as in the source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from lancecy.changes.merging.clauses import Rules
from lancecy.changes.merging.keys import Int64, UInt64, key_hashes
from lancecy.changes.merging.matching import Matches
from lancecy.changes.merging.source import Source
from lancecy.errors import SchemaError, UnsupportedError
from lancecy.scanning.context import ScanContext
from lancecy.scanning.request import make_request
from lancecy.scanning.take import take_addresses

__all__ = ["check_kept", "hashes_of_new", "written_batches", "written_schema"]


def written_schema(context: ScanContext, source: pa.Schema, rules: Rules) -> pa.Schema:
    """The columns of the written rows: those of the source, and those of the table if rows may be replaced.

    Parameters
    ----------
    context : ScanContext
    source : pyarrow.Schema
    rules : Rules
    """
    kept = rules.kept if rules.clauses.matched == "update" else ()
    table = context.snapshot.schema.arrow
    return pa.schema([*source, *(table.field(name) for name in kept)])


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
    kept = [name for name in schema.names if name in rules.kept]
    strict = [field.name for field in context.snapshot.schema.fields if not field.nullable]
    strict = [name for name in strict if name in source.schema.names]
    if matches.rows.size:
        yield from _updated(context, source, matches, kept, strict)
    if matches.num_inserted:
        for start, batch in _numbered(source):
            chosen = np.flatnonzero(matches.is_new[start : start + batch.num_rows])
            _check_nulls(batch, chosen, start, strict)
            rows = _chosen(batch, chosen)
            if rows.num_rows:
                missing = [pa.nulls(rows.num_rows, schema.field(name).type) for name in kept]
                yield _with_columns(rows, kept, missing)


def _updated(
    context: ScanContext, source: Source, matches: Matches, kept: list[str], strict: list[str]
) -> Iterator[pa.RecordBatch]:
    request = make_request(context.snapshot.schema.arrow, columns=kept)
    projection = context.projection(request)
    for start, batch in _numbered(source):
        first, last = np.searchsorted(matches.rows, [start, start + batch.num_rows]).tolist()
        if first == last:
            continue
        chosen = matches.rows[first:last] - start
        _check_nulls(batch, chosen, start, strict)
        rows = _chosen(batch, chosen)
        if kept:
            found = take_addresses(context, projection, matches.addresses[first:last])
            for piece in found.combine_chunks().to_batches():
                yield _with_columns(rows.slice(0, piece.num_rows), kept, piece.columns)
                rows = rows.slice(piece.num_rows)
        else:
            yield rows


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


def _numbered(source: Source) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The batches of a source, each with the number of its first row."""
    start = 0
    for batch in source.batches():
        yield start, batch
        start += batch.num_rows


def _check_nulls(batch: pa.RecordBatch, rows: Int64, start: int, strict: Sequence[str]) -> None:
    """Refuse nulls where the table allows none, among some rows of a batch that begins at row ``start``."""
    for name in strict:
        column = batch.column(name)
        if column.null_count:
            at = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)[rows])
            if at.size:
                row = start + int(rows[at[0]])
                raise SchemaError(
                    f"column {name!r} of row {row} of the source is null, which the table does not allow",
                    difference=name,
                )


def _chosen(batch: pa.RecordBatch, rows: Int64) -> pa.RecordBatch:
    """These rows of a batch, ascending."""
    if not rows.size:
        return batch.slice(0, 0)
    first, last = int(rows[0]), int(rows[-1])
    if last - first + 1 == rows.size and bool(np.all(rows[1:] > rows[:-1])):
        return batch.slice(first, rows.size)
    return batch.take(pa.array(rows))


def _with_columns(batch: pa.RecordBatch, names: Sequence[str], columns: Sequence[pa.Array]) -> pa.RecordBatch:
    if not names:
        return batch
    return pa.RecordBatch.from_arrays([*batch.columns, *columns], names=[*batch.schema.names, *names])
