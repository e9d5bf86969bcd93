"""Rows as dictionaries become batches of bounded size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from lancecy.errors import SchemaError, printable
from lancecy.interop.casts import storage_schema
from lancecy.interop.columns import check_names, extra_column, python_column, table_of_columns

__all__ = ["batches_of_rows", "table_of_rows"]

_ROWS, _BYTES = 1 << 16, 16 << 20


def batches_of_rows(
    rows: Iterable[Any], schema: pa.Schema | None = None
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Batches of rows that are dictionaries; a missing key is a null.

    Parameters
    ----------
    rows : iterable of mapping
        Read as the batches are consumed. Arrays are copied, so that a generator may fill the same ones again.
    schema : pyarrow.Schema, optional
        All keys, and their types. By default those of the first batch, at most 65,536 rows or about 16 MiB.

    Returns
    -------
    (pyarrow.Schema, iterator of pyarrow.RecordBatch)

    Raises
    ------
    SchemaError
        A value does not fit, or a row has a key that the schema, or the first batch, lacks; the message has column and row.
    TypeError
        A row is not a mapping.

    Examples
    --------
    >>> schema, batches = batches_of_rows({"a": number} for number in range(3))
    >>> next(batches)["a"].to_pylist()
    [0, 1, 2]
    """
    chunks = _chunks(iter(rows))
    if schema is not None:
        fields = list(storage_schema(schema))
        return pa.schema(fields), _checked(chunks, fields)
    first = _guessed(*next(chunks, ({}, 0, 0)))
    return first.schema, chain([first], _later(chunks, first))


def table_of_rows(rows: Sequence[Any]) -> pa.Table:
    """A table of rows that are dictionaries, with the columns and types of all of them.

    Parameters
    ----------
    rows : sequence of mapping

    Raises
    ------
    SchemaError
        The values of a column have no type in common.
    TypeError
        A row is not a mapping.

    Examples
    --------
    >>> table_of_rows([{"a": 1}, {"b": 2.5}]).to_pydict()
    {'a': [1, None], 'b': [None, 2.5]}
    """
    for number, row in enumerate(rows):
        _check_row(row, number)
    names = dict.fromkeys(chain.from_iterable(rows))
    if not names:
        return pa.Table.from_batches([_batch([], pa.schema([]), len(rows))])
    return table_of_columns({name: [row.get(name) for row in rows] for name in names})


def _checked(chunks: Iterator[_Chunk], fields: list[pa.Field]) -> Iterator[pa.RecordBatch]:
    for columns, start, count in chunks:
        new = _first_new(columns, start, fields)
        if new:
            raise extra_column(*new)
        yield _of_type(fields, columns, start, count)


def _first_new(
    columns: dict[str, list[Any]], start: int, fields: list[pa.Field]
) -> tuple[str, int | None] | None:
    """A column that the fields lack, and its first row that is not null, if any."""
    new = columns.keys() - {field.name for field in fields}
    if not new:
        return None
    name = min(new, key=str)
    return str(name), next((start + i for i, value in enumerate(columns[name]) if value is not None), None)


def _later(chunks: Iterator[_Chunk], first: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    fields = list(first.schema)
    for columns, start, count in chunks:
        new = _first_new(columns, start, fields)
        if new:
            name, row = new
            who = "later rows have" if row is None else f"row {row} has"
            raise _changed(name, f"{who} a column {printable(name)!r}, which the first rows lack", None)
        try:
            yield _of_type(fields, columns, start, count)
        except SchemaError as error:
            raise _changed(error.difference, error.what, error) from error


def _changed(name: str, what: str, cause: SchemaError | None) -> SchemaError:
    return SchemaError(
        f"{what}. Without schema=, the first rows decide the columns and their types: give schema=",
        difference=cause.difference if cause else name,
    )


_Chunk = tuple[dict[str, list[Any]], int, int]
"""Columns of some rows, the number of the first row, and their count."""


def _chunks(rows: Iterator[Any], most_rows: float = _ROWS, most_bytes: float = _BYTES) -> Iterator[_Chunk]:
    start = 0
    for first in rows:
        columns: dict[str, list[Any]] = {}
        count = size = 0
        for row in chain([first], rows):
            _check_row(row, start + count)
            size += _add(row, columns, count)
            count += 1
            if count >= _ROWS or size >= _BYTES:
                break
        yield {name: _filled(values, count) for name, values in columns.items()}, start, count
        start += count


def _check_row(row: Any, number: int) -> None:
    if not isinstance(row, Mapping):
        raise TypeError(f"row {number} is {printable(repr(row))}, where the rows before are dictionaries")


def _add(row: Mapping[str, Any], columns: dict[str, list[Any]], count: int) -> int:
    """Add a row to the columns and return about how many bytes it takes in Arrow."""
    size = 0
    for name, value in row.items():
        values = columns.setdefault(name, [])
        if len(values) < count:
            _filled(values, count)
        values.append(value.copy() if isinstance(value, np.ndarray) else value)
        size += _size(value)
    return size


def _filled(values: list[Any], count: int) -> list[Any]:
    values.extend([None] * (count - len(values)))
    return values


def _size(value: Any) -> int:
    """About the bytes that a value takes in Arrow; lists have items like their first one."""
    if isinstance(value, int | float):
        return 8
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, Mapping):
        return sum(map(_size, value.values()))
    if isinstance(value, list | tuple):
        return len(value) * _size(value[0]) if value else 0
    return 8


def _guessed(columns: dict[str, list[Any]], start: int, count: int) -> pa.RecordBatch:
    check_names(columns)
    arrays = [python_column(name, values, first_row=start) for name, values in columns.items()]
    return _batch(arrays, pa.schema([(n, a.type) for n, a in zip(columns, arrays, strict=True)]), count)


def _of_type(fields: list[pa.Field], columns: dict[str, list[Any]], start: int, count: int) -> pa.RecordBatch:
    arrays = [
        python_column(field.name, columns[field.name], field, start)
        if field.name in columns
        else pa.nulls(count, field.type)
        for field in fields
    ]
    return _batch(arrays, pa.schema(fields), count)


def _batch(arrays: list[pa.Array], schema: pa.Schema, count: int) -> pa.RecordBatch:
    if arrays:
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    # Rows without columns: their number would be lost.
    return pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))
