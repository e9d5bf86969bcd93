"""Dask collections as parts of a shared write: the schema is planned, tasks write the rows.

A task writes one partition to data files and returns their fragments as JSON. Reading, computing and writing a
partition are one task, so no rows travel. The metadata of a frame is incomplete: a column of Python objects is taken
as text, or as the table's type. Every partition is cast to the planned schema.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from lancecy.changes.shared import SharedWrite
from lancecy.errors import LanceError, SchemaError, UnsupportedError, printable
from lancecy.interop.casts import CAST_ERRORS, cast_batches, storage_schema
from lancecy.interop.columns import check_exact, nested_array, nested_type
from lancecy.table.snapshot import Snapshot
from lancecy.write.metadata import FragmentMetadata

__all__ = ["collected", "committed_later", "is_dask", "parts_of", "schema_of_collection"]

_BATCH_ROWS, _BATCH_BYTES = 1 << 16, 128 << 20


def is_dask(data: object) -> bool:
    """Whether the data is a Dask frame, series or array."""
    return hasattr(data, "dask") and hasattr(data, "npartitions") and hasattr(data, "_meta")


def _is_array(data: Any) -> bool:
    return hasattr(data, "numblocks")


# -- the schema -----------------------------------------------------------------------------------


def schema_of_collection(
    data: Any, table: Snapshot | None, schema: pa.Schema | None, index: bool | None, column: str | None
) -> pa.Schema:
    """The schema that the partitions will be cast to.

    Parameters
    ----------
    data : Dask DataFrame, Series or Array
    table : Snapshot or None
        The table that rows are added to. Its types replace unknown ones.
    schema : pyarrow.Schema or None
        The schema the user asked for.
    index : bool or None
        Whether the index becomes a column; None writes a named index.
    column : str or None
        Name of the only column, for an array.

    Raises
    ------
    SchemaError
        The column names are not strings, or differ from those of ``schema``.
    TypeError
        Not a Dask frame or array, or an array without a column name.
    """
    found = _array_schema(data, column) if _is_array(data) else _frame_schema(_meta(data, index), table)
    if schema is None:
        return found
    if set(schema.names) != set(found.names) or len(schema) != len(found):
        raise SchemaError(
            f"the frame has the columns {', '.join(found.names)}, and the schema {', '.join(schema.names)}",
            difference="names of columns",
        )
    return schema


def _array_schema(data: Any, column: str | None) -> pa.Schema:
    if column is None:
        raise TypeError("an array has no name for its column: give column=")
    if not data.ndim:
        raise TypeError("an array without dimensions has no rows")
    return pa.schema([pa.field(column, nested_type(data.dtype, data.shape))])


def _meta(data: Any, index: bool | None) -> Any:
    frame = data._meta
    if not hasattr(frame, "columns"):
        raise TypeError(f"a {type(data).__name__} of Dask has no columns: write a DataFrame or an Array")
    return _with_index(frame, index)


def _with_index(frame: Any, index: bool | None) -> Any:
    """The frame, with its index as a column if requested."""
    name = frame.index.name
    if index is False or (index is None and (name is None or name == "_rowid" or name in frame.columns)):
        return frame
    return frame.reset_index(names=[name or "index"])


def _frame_schema(meta: Any, table: Snapshot | None) -> pa.Schema:
    wrong = [name for name in meta.columns if not isinstance(name, str)]
    if wrong:
        raise SchemaError(f"column names must be texts, not {printable(repr(wrong[0]))}", difference="names")
    known = {} if table is None else {field.name: field.arrow_type for field in table.schema.fields}
    fields = [
        pa.field(name, _kind(meta.iloc[:, place], known.get(name))) for place, name in enumerate(meta.columns)
    ]
    return pa.schema(fields)


def _kind(column: Any, known: pa.DataType | None) -> pa.DataType:
    """The type of a column, from the frame's metadata."""
    types = pa.types
    if column.dtype == np.dtype(object):
        return known or pa.string()
    if column.dtype.name == "category":
        values = _kind(column.cat.categories.to_series(), None)
        found = pa.dictionary(pa.int32(), pa.string() if types.is_null(values) else values)
        return known if known is not None and types.is_dictionary(known) else found
    try:
        kind = pa.array(column).type
    except (pa.ArrowException, TypeError) as error:
        name, dtype = printable(str(column.name)), str(column.dtype)
        raise UnsupportedError(
            f"column {name!r} is {dtype}, for which Arrow has no type", feature=dtype
        ) from error
    if types.is_large_string(kind) or types.is_string(kind):
        kind = pa.string()
    return known if known is not None and _is_read_as(known, kind) else kind


def _is_read_as(stored: pa.DataType, kind: pa.DataType) -> bool:
    """Whether a scan reads the first type as the second: dictionaries as values, all text types alike."""
    types = pa.types
    if types.is_dictionary(stored):
        return not types.is_dictionary(kind) and _is_read_as(stored.value_type, kind)
    if types.is_large_string(stored):
        return bool(types.is_string(kind) or types.is_large_string(kind))
    if stored.num_fields != kind.num_fields or stored.id != kind.id or not stored.num_fields:
        return bool(stored == kind)
    if types.is_fixed_size_list(stored) and stored.list_size != kind.list_size:
        return False
    pairs = [(stored.field(i), kind.field(i)) for i in range(stored.num_fields)]
    return all(a.name == b.name and _is_read_as(a.type, b.type) for a, b in pairs)


# -- the tasks ------------------------------------------------------------------------------------


def parts_of(data: Any, shared: SharedWrite, schema: pa.Schema, index: bool | None) -> Any:
    """A collection with one JSON text per partition: the fragments written for it.

    Parameters
    ----------
    data : Dask DataFrame or Array
    shared : SharedWrite
    schema : pyarrow.Schema
        From :func:`schema_of_collection`.
    index : bool or None
    """
    if _is_array(data):
        whole = data.rechunk(dict.fromkeys(range(1, data.ndim), -1))
        return whole.map_blocks(
            _write_block,
            shared,
            schema,
            dtype=object,
            drop_axis=list(range(1, data.ndim)),
            chunks=((1,) * whole.numblocks[0],),
            meta=np.empty(0, object),
            name=f"lancecy-write-{shared.tag}",
        )
    import pandas as pd

    return data.map_partitions(
        _write_frame,
        shared,
        schema,
        index,
        meta=pd.Series([], dtype=object),
        enforce_metadata=False,
        align_dataframes=False,
        clear_divisions=True,
    )


def _write_frame(
    frame: Any,
    shared: SharedWrite,
    schema: pa.Schema,
    index: bool | None,
    partition_info: Mapping[str, Any] | None = None,
) -> Any:
    import pandas as pd

    number = int((partition_info or {}).get("number", 0))
    return pd.Series(
        [_written(shared, _frame_batches(_with_index(frame, index), schema), number)], dtype=object
    )


def _write_block(
    block: Any, shared: SharedWrite, schema: pa.Schema, block_id: tuple[int, ...] | None = None
) -> Any:
    made = np.empty(1, object)
    made[0] = _written(shared, _block_batches(block, schema), block_id[0] if block_id else 0)
    return made


def _written(shared: SharedWrite, batches: Iterator[pa.RecordBatch], number: int) -> str:
    try:
        return json.dumps([fragment.to_json() for fragment in shared.write(batches, number)])
    except LanceError as error:
        raise error.within(f"partition {number}")


def _frame_batches(frame: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    if len(frame.columns) != len(schema) or set(frame.columns) != set(schema.names):
        raise SchemaError(
            f"a partition has the columns {', '.join(map(str, frame.columns))}, where {', '.join(schema.names)} were "
            "planned",
            difference="names of columns",
        )
    columns = [_arrow(frame[field.name], field) for field in storage_schema(schema)]
    yield from _cut(pa.Table.from_arrays(columns, names=schema.names), schema)


def _arrow(column: Any, field: pa.Field) -> pa.Array | pa.ChunkedArray:
    """A column as Arrow: of the requested type, unless it already has an Arrow type."""
    if hasattr(column.array, "__arrow_array__") and column.dtype.name != "category":
        return pa.array(column.array)
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    try:
        if column.dtype.name == "category":
            return pa.array(column.array)
        made = pa.array(column, type=kind, from_pandas=True)
        if column.dtype == np.dtype(object):
            check_exact(column[column.notna()].tolist(), kind)
    except CAST_ERRORS as error:
        is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        remedy = "; Python objects are taken for text unless schema= says what they are" if is_text else ""
        raise SchemaError(
            f"column {printable(field.name)!r} has a value that is not of type {field.type}: {printable(error)}{remedy}",
            difference=field.name,
        ) from error
    return made


def _block_batches(block: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    array = nested_array(np.ascontiguousarray(block))
    yield from _cut(pa.Table.from_arrays([array], names=schema.names), schema)


def _cut(table: pa.Table, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows in batches of bounded size, cast to the schema."""
    rows = max(1, min(_BATCH_ROWS, _BATCH_BYTES * max(1, table.num_rows) // max(1, table.nbytes)))
    return cast_batches(table.to_batches(max_chunksize=rows), schema)


# -- the commit -----------------------------------------------------------------------------------


def collected(parts: Any, shared: SharedWrite, options: Mapping[str, Any]) -> list[FragmentMetadata]:
    """Compute the parts and gather their fragments; a failure removes the files it can find.

    Parameters
    ----------
    parts : Dask collection
        From :func:`parts_of`.
    shared : SharedWrite
    options : mapping
        Keyword arguments of ``compute``.
    """
    with shared.awaited():
        return _fragments(parts.compute(**options))


def _fragments(texts: Any) -> list[FragmentMetadata]:
    return [FragmentMetadata.from_json(made) for text in np.ravel(texts) for made in json.loads(text)]


def committed_later(parts: Any, shared: SharedWrite) -> Any:
    """A Delayed that computes the parts, commits them once, and returns the version number.

    Parameters
    ----------
    parts : Dask collection
        From :func:`parts_of`.
    shared : SharedWrite
    """
    from dask.delayed import delayed

    return delayed(_commit)(parts, shared, dask_key_name=f"lancecy-commit-{shared.tag}")


def _commit(texts: Any, shared: SharedWrite) -> int:
    # Files stay whatever happens: the scheduler may call this again with the same ones.
    return shared.commit(_fragments(texts), clear=False).version
