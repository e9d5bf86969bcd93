"""Writes the columns of a merge in place: files with the source's columns for the fragments that have the matched rows.

Rows stay where they are, and columns that the source lacks are neither read nor written. Each new file has the values
of all rows of its fragment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from lancecy.changes.fragment_columns import check_first_stays, replaced_file
from lancecy.changes.merging.clauses import Rules
from lancecy.changes.merging.keys import Int64, UInt64
from lancecy.changes.merging.matching import Matches
from lancecy.changes.merging.rows import chosen_rows
from lancecy.changes.merging.source import Source
from lancecy.encodings.arrow.columns import unsliced_rows
from lancecy.encodings.arrow.conversions import array_of
from lancecy.errors import UnsupportedError
from lancecy.file.create import check_writable
from lancecy.file.dictionaries import has_dictionaries
from lancecy.scanning.context import ScanContext
from lancecy.schema import Schema
from lancecy.table.manifest import DataFile
from lancecy.write.column_files import ColumnFiles
from lancecy.write.schemas import check_known, fitted

__all__ = ["check_columns", "columns_schema", "written_columns"]

_ROW_BITS, _ROW_MASK = np.uint64(32), np.uint64(0xFFFFFFFF)


def check_columns(context: ScanContext, source: pa.Schema, rules: Rules) -> None:
    """Refuse a merge that is more than new values of some columns, as pylance does.

    Parameters
    ----------
    context : ScanContext
    source : pyarrow.Schema
    rules : Rules

    Raises
    ------
    SchemaError
        The rows have a column that the table lacks.
    ValueError
        It adds or removes rows, or the rows have all columns or only keys, or blobs.
    """
    schema, given = context.snapshot.schema, _given(rules)
    check_known(source.names, schema.names)
    blobs = [name for name in given if any(node.is_blob for node in schema.field(name).walk())]
    reasons = {
        "it needs when_matched_update_all": rules.clauses.matched != "update",
        "it would insert rows": rules.clauses.inserts,
        "it would delete rows that the source lacks": rules.clauses.deletes,
        "the source has no column beside the key": not given,
        "the source has all columns of the table": not rules.kept,
        f"column {blobs[0]!r} has blobs" if blobs else "": bool(blobs),
        f"the source lacks members of {rules.partial[0]!r}" if rules.partial else "": bool(rules.partial),
    }
    found = [text for text, holds in reasons.items() if holds]
    if found:
        raise ValueError(
            f"this merge cannot be written with write_mode='rewrite_columns': {'; '.join(found)}; use 'rewrite_rows'"
        )


def columns_schema(context: ScanContext, source: pa.Schema, rules: Rules, version: str) -> Schema:
    """The written columns: those of the source without the keys.

    Parameters
    ----------
    context : ScanContext
    source : pyarrow.Schema
    rules : Rules
    version : str
        Version of the data files.

    Raises
    ------
    SchemaError, UnsupportedError
        The columns do not fit the table, or files of the version cannot hold them.
    """
    given = _given(rules)
    wanted = Schema(tuple(context.snapshot.schema.field(name) for name in given))
    if version == "0.1" and has_dictionaries(wanted.fields):
        raise UnsupportedError(
            "columns with a dictionary of a 0.1 table share it, so they are not written in place: use 'rewrite_rows'",
            feature="dictionaries with write_mode='rewrite_columns'",
        )
    check_writable(wanted, version)
    return fitted(wanted, pa.schema([source.field(name) for name in given]))


def written_columns(
    context: ScanContext, source: Source, matches: Matches, files: ColumnFiles, schema: Schema
) -> Iterator[tuple[int, DataFile, Int64]]:
    """Write one file for each fragment with matched rows.

    Parameters
    ----------
    context : ScanContext
    source : Source
    matches : Matches
    files : ColumnFiles
    schema : Schema
        See :func:`columns_schema`.

    Yields
    ------
    (int, DataFile, (n,) int64)
        Id of the fragment, its new file, and the offsets of the rows with new values, ascending.

    Raises
    ------
    SchemaError
        A null where none may be.
    UnsupportedError
        The first column of a 0.1 file, which no reader would find any more.
    FormatError, StoreError
        Columns cannot be read or written.
    """
    ids = [node.id for top in schema.fields for node in top.walk()]
    strict = [
        top.name for top in context.snapshot.schema.fields if top.name in schema.names and not top.nullable
    ]
    for number in matches.gone:
        check_first_stays(context.metadata(number), ids)
    owners, sizes = (matches.addresses >> _ROW_BITS).astype(np.int64), _sizes(matches.gone)
    budget = max(1, context.session.cache.limit * source.num_rows // max(1, 2 * source.nbytes))
    for group in _groups(sizes, budget):
        chosen = np.flatnonzero(np.isin(owners, group))
        values = unsliced_rows(_values(source, matches.rows[chosen], schema.names, strict))
        for number in group:
            mine = np.flatnonzero(owners[chosen] == number)
            offsets = _offsets(matches.addresses[chosen[mine]])
            positions = np.full(context.files(number).num_rows, -1, np.int64)
            positions[offsets] = np.arange(mine.size)
            part = values.take(array_of(mine))
            yield (
                number,
                replaced_file(context, context.metadata(number), files, schema, part, positions),
                np.sort(offsets),
            )


def _given(rules: Rules) -> list[str]:
    return [name for name in rules.given if name not in rules.on]


def _sizes(gone: Mapping[int, Int64]) -> dict[int, int]:
    return {number: rows.size for number, rows in sorted(gone.items())}


def _groups(sizes: Mapping[int, int], most: int) -> Iterator[list[int]]:
    """Fragments whose new values are in memory together: at most so many rows, unless a single one has more."""
    group: list[int] = []
    rows = 0
    for number, size in sizes.items():
        if group and rows + size > most:
            yield group
            group, rows = [], 0
        group.append(number)
        rows += size
    if group:
        yield group


def _offsets(addresses: UInt64) -> Int64:
    return (addresses & _ROW_MASK).astype(np.int64)


def _values(source: Source, rows: Int64, names: Sequence[str], strict: Sequence[str]) -> pa.Table:
    """These columns of some rows of the source, which ascend."""
    start, batches = 0, []
    for batch in source.batches(list(names)):
        first, last = np.searchsorted(rows, [start, start + batch.num_rows]).tolist()
        if first < last:
            at = start if source.is_whole else None
            batches.append(chosen_rows(batch, rows[first:last] - start, at, strict))
        start += batch.num_rows
    return pa.Table.from_batches(batches).unify_dictionaries().combine_chunks()
