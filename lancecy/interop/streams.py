"""Arrow data of any kind as one stream of record batches.

Writers and ``lancecy.spark.dataframe`` take whatever this takes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import PurePath
from typing import Any

import numpy as np
import pyarrow as pa

from lancecy.errors import SchemaError, printable
from lancecy.interop.casts import cast_batches
from lancecy.interop.columns import extra_column, table_of_columns, table_of_pandas
from lancecy.interop.python_rows import batches_of_rows, table_of_rows
from lancecy.interop.spark_frames import is_spark, reader_of_spark

__all__ = ["cast_reader", "check_names", "lasting", "record_batches"]


def record_batches(data: Any, schema: pa.Schema | None = None) -> pa.RecordBatchReader:
    """A stream of the rows of ``data``.

    Parameters
    ----------
    data : object
        A table, batch, reader or dataset of pyarrow; anything with ``__arrow_c_stream__`` (Polars and DuckDB
        frames, lancecy datasets and scanners) or ``__arrow_c_array__``; a pandas or Spark frame; a mapping of
        names to arrays, those of several dimensions as fixed-size lists; an iterable of rows as dictionaries; or an
        iterable of batches, tables or frames. An iterable is read only as it is consumed.
    schema : pyarrow.Schema, optional
        Target schema, with all columns; they are cast to it without losing values. Required for an iterable that may be empty.

    Returns
    -------
    pyarrow.RecordBatchReader
        Can be read once.

    Raises
    ------
    TypeError
        None of the above, such as a Dask frame, which has no rows yet, or the path of a file.
    SchemaError
        The columns do not fit ``schema``, or differ between rows. The message has column, row and value.
    ValueError
        (pyarrow's ``ArrowInvalid``) Batches of an iterable differ.

    Examples
    --------
    >>> import pyarrow as pa
    >>> record_batches({"a": [1, 2, 3]}).read_all().num_rows
    3
    """
    reader = _reader(data, schema)
    if schema is None or reader.schema.equals(schema, check_metadata=True):
        return reader
    return cast_reader(reader, schema)


def cast_reader(reader: pa.RecordBatchReader, schema: pa.Schema) -> pa.RecordBatchReader:
    """A stream cast to a schema, without losing values.

    Parameters
    ----------
    reader : pyarrow.RecordBatchReader
    schema : pyarrow.Schema
        With the columns of the stream, in any order.

    Raises
    ------
    SchemaError
        The columns have other names. Reading raises it for a value that does not fit.
    """
    check_names(reader.schema, schema)
    return _stream(schema, cast_batches(reader, schema))


def check_names(given: pa.Schema, schema: pa.Schema) -> None:
    """Refuse rows whose columns have other names than those of a schema.

    Parameters
    ----------
    given : pyarrow.Schema
        Columns of the rows.
    schema : pyarrow.Schema
        The ``schema=`` of a user.

    Raises
    ------
    SchemaError
    """
    missing = sorted(set(schema.names) - set(given.names))
    extra = sorted(set(given.names) - set(schema.names))
    if missing:
        raise SchemaError(
            f"the rows have no column {printable(missing[0])!r}, which schema= has", difference=missing[0]
        )
    if extra or len(given) != len(schema):
        name = extra[0] if extra else ", ".join(given.names)
        raise extra_column(name)


def _stream(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> pa.RecordBatchReader:
    """The stream of batches of storage types, under the types of a schema."""
    return pa.RecordBatchReader.from_batches(schema, (_typed(batch, schema) for batch in batches))


def _typed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if not schema.names:
        return batch
    arrays = [
        pa.ExtensionArray.from_storage(field.type, array)
        if isinstance(field.type, pa.BaseExtensionType)
        else array
        for field, array in zip(schema, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def lasting(batches: Iterable[pa.RecordBatch], data: object) -> Iterator[pa.RecordBatch]:
    """The batches, copied where their memory may change before they are written.

    A generator may reuse the same memory for each batch, such as a NumPy array, which Arrow does not copy.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
    data : object
        The argument of :func:`record_batches`; batches of a table, for example, are not copied.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> same = np.zeros(2, np.int64)
    >>> def rows():
    ...     for number in (1, 2):
    ...         same[:] = number
    ...         yield pa.record_batch({"a": same})
    >>> made = rows()
    >>> [batch["a"].to_pylist() for batch in list(lasting(made, made))]
    [[1, 1], [2, 2]]
    """
    is_held = isinstance(data, pa.RecordBatch | Mapping | Sequence)
    if is_held or hasattr(data, "to_batches") or hasattr(data, "columns"):
        return iter(batches)
    return map(_copied, batches)


def _copied(batch: pa.RecordBatch) -> pa.RecordBatch:
    arrays = [pa.concat_arrays([array]) if _may_change(array) else array for array in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def _may_change(array: pa.Array) -> bool:
    return any(buffer is not None and buffer.is_mutable for buffer in array.buffers())


def _reader(data: Any, schema: pa.Schema | None) -> pa.RecordBatchReader:
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data])
    _check_rows(data)
    if isinstance(data, Sequence) and data and _is_model(data[0]):
        return _reader([*map(_as_mapping, data)], schema)
    if _is_pandas(data):
        return table_of_pandas(data, schema).to_reader()
    if _has_objects(data):
        return table_of_columns({name: data[name] for name in data.columns}, schema).to_reader()
    if is_spark(data):
        return reader_of_spark(data)
    if hasattr(data, "to_reader"):
        return data.to_reader()
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data)
    if hasattr(data, "__arrow_c_array__"):
        return _reader(pa.record_batch(data), schema)
    if isinstance(data, Mapping):
        return table_of_columns(data, schema).to_reader()
    if hasattr(data, "to_batches") and hasattr(data, "schema"):
        return pa.RecordBatchReader.from_batches(data.schema, iter(data.to_batches()))
    if isinstance(data, Sequence) and data and isinstance(data[0], Mapping) and schema is None:
        return table_of_rows(data).to_reader()
    return _of_pieces(iter(data), schema)


def _is_model(row: Any) -> bool:
    """Whether it is a row as a model of pydantic, without importing pydantic."""
    return hasattr(type(row), "model_dump")


def _as_mapping(row: Any) -> Any:
    return row.model_dump() if _is_model(row) else row


def _is_pandas(data: Any) -> bool:
    """Whether it is a pandas frame, without importing pandas. Its own Arrow stream would lose the index."""
    return type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "columns")


def _has_objects(data: Any) -> bool:
    """Whether it is a Polars frame with columns that have no Arrow form: Python objects, or integers of 128 bits."""
    if type(data).__module__.partition(".")[0] != "polars" or not hasattr(data, "columns"):
        return False
    return any(str(dtype) in ("Object", "Int128", "UInt128") for dtype in data.schema.values())


def _of_pieces(pieces: Iterator[Any], schema: pa.Schema | None) -> pa.RecordBatchReader:
    first = next(pieces, None)
    if first is None:
        if schema is None:
            raise TypeError("an iterable without batches has no columns: give a schema")
        return pa.RecordBatchReader.from_batches(schema, [])
    if _is_model(first):
        first, pieces = _as_mapping(first), map(_as_mapping, pieces)
    if isinstance(first, Mapping):
        found, rows = batches_of_rows(chain([first], pieces), schema)
        return pa.RecordBatchReader.from_batches(found, rows) if schema is None else _stream(schema, rows)
    if schema is not None:
        return _stream(schema, cast_batches(_batches(chain([first], pieces), schema), schema))
    head = _reader(first, None)

    def batches() -> Iterator[pa.RecordBatch]:
        yield from head
        for piece in pieces:
            reader = _reader(piece, None)
            # Checked, not cast: a column that changes its type between batches is probably a mistake.
            if not reader.schema.equals(head.schema):
                raise SchemaError(
                    f"a batch has other columns than the first one: {_names(reader.schema)} after {_names(head.schema)}"
                )
            yield from reader

    return pa.RecordBatchReader.from_batches(head.schema, batches())


def _batches(pieces: Iterator[Any], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for piece in pieces:
        reader = _reader(piece, schema)
        check_names(reader.schema, schema)
        yield from reader


def _names(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)


# -- what has no rows -----------------------------------------------------------------------------

_FILES = {
    ".parquet": "parquet",
    ".arrow": "ipc",
    ".feather": "feather",
    ".orc": "orc",
    ".csv": "csv",
    ".json": "json",
}


def _check_rows(data: Any) -> None:
    """Refuse what is taken for rows by mistake, and name the remedy."""
    if hasattr(data, "dask") and hasattr(data, "npartitions"):
        raise TypeError(
            "a Dask collection has no rows until it is computed: write it with lancecy.write_dask, or pass data.compute()"
        )
    remedy = _remedy(data)
    if remedy:
        raise TypeError(f"rows cannot be read from {_kind(data)}: {remedy}")


def _kind(data: Any) -> str:
    if isinstance(data, str | os.PathLike):
        return f"the path {printable(repr(os.fspath(data)))}"
    return type(data).__name__


def _remedy(data: Any) -> str:
    """What to pass instead; "" for rows."""
    library, name = type(data).__module__.partition(".")[0], type(data).__name__
    if isinstance(data, str | os.PathLike):
        return _opening(os.fspath(data))
    if name == "LazyFrame":
        return "it is not computed yet; pass frame.collect()"
    if isinstance(data, np.ndarray):
        if data.dtype.names:
            return "pass {name: array[name] for name in array.dtype.names}"
        return 'its column has no name; pass {"name": array}'
    if isinstance(data, pa.Array | pa.ChunkedArray):
        return 'its column has no name; pass {"name": array}'
    if library in {"pandas", "polars"} and name == "Series":
        return "a column is no frame; pass series.to_frame()"
    if _is_model(data):
        return "it is one row; pass a list of models"
    if hasattr(data, "__dlpack__"):
        return 'its column has no name; pass {"name": tensor}'
    if isinstance(data, bytes) or not (isinstance(data, Iterable) or _is_arrow(data)):
        return (
            "give an Arrow table, batches, a reader, a data frame, rows as dictionaries, or anything with "
            "__arrow_c_stream__"
        )
    return ""


def _is_arrow(data: Any) -> bool:
    if is_spark(data):
        return True
    protocols = ("to_reader", "__arrow_c_stream__", "__arrow_c_array__", "to_batches")
    return any(hasattr(data, name) for name in protocols)


def _opening(path: str | bytes) -> str:
    """How to open the file of a path."""
    text = os.fsdecode(path)
    suffix = PurePath(text).suffix.lower()
    if suffix == ".lance":
        return f"open it first, with lancecy.dataset({printable(text)!r})"
    kind = _FILES.get(suffix, "parquet")
    return f"open it first, for example with pyarrow.dataset.dataset({printable(text)!r}, format={kind!r})"
