"""Values of a fragment's live rows as values of all its rows: deleted rows get a zero, an empty text, blob or list.

A data file has a value for every row of its fragment, deleted rows included, which no scan returns. They are no nulls,
because pylance (14.0.2) reads them too, and fails if the column may not be null.

Facts: table sheet, section 8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.encodings.arrow.columns import as_array, joined, taken
from lancecy.encodings.arrow.nulls import VARIABLE_TYPES, null_array
from lancecy.schema import Field, Schema

__all__ = ["physical_batches"]

Int64 = NDArray[np.int64]

_MOST_ROWS = 1 << 16
"""Rows of a batch that has deleted rows only."""


def physical_batches(
    batches: Iterable[pa.RecordBatch],
    physical: Callable[[Int64], Int64],
    num_rows: int,
    schema: Schema,
    version: str,
) -> Iterator[pa.RecordBatch]:
    """Batches of all rows of a fragment.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
        Values of the live rows in their order, as ``schemas.arranged`` returns them.
    physical : function of (n,) int64
        Offsets of live rows in the fragment, by their number among the live rows; ascending.
    num_rows : int
        Rows of the fragment, deleted ones included.
    schema : Schema
        Schema of the batches.
    version : str
        Version of the data files: those of 0.1 hold an empty text as a null.

    Examples
    --------
    >>> from lancecy.write.schemas import schema_of
    >>> rows, schema = pa.record_batch({"a": [5, 7]}), schema_of(pa.schema({"a": pa.int64()}))
    >>> [b.column(0).to_pylist() for b in physical_batches([rows], lambda n: 2 * n + 1, 5, schema, "2.1")]
    [[0, 5, 0, 7], [0]]
    """
    live = at = 0
    # Those of the batches may say more than the schema, such as that the items of vectors cannot be null.
    kinds = [field.storage_type for field in schema.fields]
    for batch in batches:
        if not batch.num_rows:
            continue
        offsets = physical(np.arange(live, live + batch.num_rows, dtype=np.int64))
        live += batch.num_rows
        kinds = batch.schema.types
        yield from _deleted_rows(schema, kinds, version, max(at, int(offsets[0]) - _MOST_ROWS) - at)
        at = max(at, int(offsets[0]) - _MOST_ROWS)
        stop = int(offsets[-1]) + 1
        yield (
            batch if stop - at == batch.num_rows else _spread(batch, offsets - at, stop - at, schema, version)
        )
        at = stop
    yield from _deleted_rows(schema, kinds, version, num_rows - at)


def _spread(
    batch: pa.RecordBatch, offsets: Int64, num_rows: int, schema: Schema, version: str
) -> pa.RecordBatch:
    """A batch of more rows, with those of the given batch at the offsets."""
    rows = np.full(num_rows, batch.num_rows, np.int64)
    rows[offsets] = np.arange(batch.num_rows)
    columns = [
        taken(joined([column, _filler(field, column.type, version)], column.type), rows)
        for field, column in zip(schema.fields, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(list(map(as_array, columns)), names=batch.schema.names)


def _deleted_rows(
    schema: Schema, kinds: Sequence[pa.DataType], version: str, num_rows: int
) -> Iterator[pa.RecordBatch]:
    for start in range(0, num_rows, _MOST_ROWS):
        first = np.zeros(min(_MOST_ROWS, num_rows - start), np.int64)
        pairs = zip(schema.fields, kinds, strict=True)
        columns = [as_array(taken(_filler(field, kind, version), first)) for field, kind in pairs]
        yield pa.RecordBatch.from_arrays(columns, names=list(schema.names))


def _filler(field: Field, kind: pa.DataType, version: str) -> pa.Array:
    """One value of the type."""
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, _filler(field, kind.storage_type, version))
    if version == "0.1" and field.nullable and _is_text(kind):
        return null_array(kind, 1)
    if field.is_blob and pa.types.is_struct(kind):
        empty = {member.name: b"" if member.name == "data" else None for member in kind}
        return pa.array([empty], kind)
    if pa.types.is_struct(kind):
        pairs = zip(field.children, kind, strict=True)
        members = [_filler(child, member.type, version) for child, member in pairs]
        return pa.StructArray.from_arrays(members, fields=list(kind))
    if pa.types.is_fixed_size_list(kind) and field.children:
        item = _filler(field.children[0], kind.value_type, version)
        items = item.take(pa.array(np.zeros(kind.list_size, np.int64)))
        return pa.FixedSizeListArray.from_arrays(items, type=kind)
    return _zero(kind)


def _is_text(kind: pa.DataType) -> bool:
    return (kind.value_type if pa.types.is_dictionary(kind) else kind) in VARIABLE_TYPES


def _zero(kind: pa.DataType) -> pa.Array:
    """One value of the type whose bytes are zeros: 0, an empty text or an empty list."""
    if pa.types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(_zero(kind.index_type), _zero(kind.value_type))
    if pa.types.is_fixed_size_list(kind):
        values = _zero(kind.value_type).take(pa.array(np.zeros(kind.list_size, np.int64)))
        return pa.FixedSizeListArray.from_arrays(values, type=kind)
    if pa.types.is_nested(kind):
        items = pa.nulls(0, kind.field(0).type)
        return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(bytes(64))], children=[items])
    if pa.types.is_null(kind):
        return pa.nulls(1)
    width = kind.byte_width if pa.types.is_fixed_size_binary(kind) else 0
    zeros = pa.py_buffer(bytes(max(64, width)))
    buffers = [None, zeros, zeros] if kind in VARIABLE_TYPES else [None, zeros]
    return pa.Array.from_buffers(kind, 1, buffers)
