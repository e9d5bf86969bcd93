"""Arrow data of any kind as one stream of record batches.

Writers and ``lancecy.spark.dataframe`` take whatever this takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa

__all__ = ["lasting", "record_batches"]


def record_batches(data: Any, schema: pa.Schema | None = None) -> pa.RecordBatchReader:
    """A stream of the rows of ``data``.

    Parameters
    ----------
    data : object
        A table, batch, reader or dataset of pyarrow; anything with ``__arrow_c_stream__`` (Polars, DuckDB and
        Spark frames, lancecy datasets and scanners) or ``__arrow_c_array__``; a pandas frame; a mapping of
        names to arrays; a list of rows as dictionaries; or an iterable of batches or tables, read only as it is
        consumed.
    schema : pyarrow.Schema, optional
        Target schema; columns are cast to it without losing values. Required for an iterable that may be empty.

    Returns
    -------
    pyarrow.RecordBatchReader
        Can be read once.

    Raises
    ------
    TypeError
        None of the above, or a Dask frame, which has no rows yet.
    ValueError
        (pyarrow's ``ArrowInvalid``) The columns do not fit ``schema``, or batches of an iterable differ.

    Examples
    --------
    >>> import pyarrow as pa
    >>> record_batches({"a": [1, 2, 3]}).read_all().num_rows
    3
    """
    reader = _reader(data, schema)
    return (
        reader if schema is None or reader.schema.equals(schema, check_metadata=True) else reader.cast(schema)
    )


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
    if hasattr(data, "dask") and hasattr(data, "npartitions"):
        raise TypeError(
            "a Dask collection has no rows until it is computed: write it with lancecy.write_dask"
        )
    if _is_pandas(data):
        return pa.Table.from_pandas(data, schema=schema).to_reader()
    if hasattr(data, "to_reader"):
        return data.to_reader()
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data)
    if hasattr(data, "__arrow_c_array__"):
        return _reader(pa.record_batch(data), schema)
    if isinstance(data, dict):
        return pa.table(data, schema=schema).to_reader()
    if isinstance(data, list) and data and isinstance(data[0], dict):
        rows = pa.array(data, None if schema is None else pa.struct(list(schema)))
        return _reader(pa.RecordBatch.from_struct_array(rows), schema)
    if hasattr(data, "to_batches") and hasattr(data, "schema"):
        return pa.RecordBatchReader.from_batches(data.schema, iter(data.to_batches()))
    if isinstance(data, Iterable) and not isinstance(data, str | bytes):
        return _of_pieces(iter(data), schema)
    raise TypeError(
        f"rows cannot be read from {type(data).__name__}: give an Arrow table, batches, a reader, a data frame, "
        "or anything with __arrow_c_stream__"
    )


def _is_pandas(data: Any) -> bool:
    """Whether it is a pandas frame, without importing pandas. Its own Arrow stream would lose the index."""
    return type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "columns")


def _of_pieces(pieces: Iterator[Any], schema: pa.Schema | None) -> pa.RecordBatchReader:
    first = next(pieces, None)
    if first is None:
        if schema is None:
            raise TypeError("an iterable without batches has no columns: give a schema")
        return pa.RecordBatchReader.from_batches(schema, [])
    head = _reader(first, schema)

    def batches() -> Iterator[pa.RecordBatch]:
        yield from head
        for piece in pieces:
            reader = _reader(piece, schema)
            # Checked, not cast: a column that changes its type between batches is probably a mistake.
            if not reader.schema.equals(head.schema):
                raise pa.ArrowInvalid(
                    f"a batch has other columns than the first one: {_names(reader.schema)} after {_names(head.schema)}"
                )
            yield from reader

    return pa.RecordBatchReader.from_batches(head.schema, chain(batches()))


def _names(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)
