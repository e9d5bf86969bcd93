"""``order_by``: sort keys and sorting.

Keys mean what pylance's ``ColumnOrdering`` means: nulls last by default,
floating point in total order (-NaN, -inf, ..., -0.0, 0.0, ..., inf, NaN), structs by
their first child that differs, rows that are equal in table order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lancecy.encodings.arrow.columns import bare, joined, storage_of
from lancecy.encodings.arrow.conversions import array_of, filled, numbers_of, scalar_of
from lancecy.errors import ColumnNotFoundError, printable
from lancecy.records import dataclass
from lancecy.scanning.request import VIRTUAL_COLUMNS, ScanRequest
from lancecy.schema import Schema

__all__ = ["ColumnOrdering", "OrderBy", "orderings", "sort_positions", "with_keys"]

Int64 = NDArray[np.int64]

# pyarrow's names, and those of SQL; the values say whether they ascend.
_DIRECTIONS = {"ascending": True, "descending": False, "asc": True, "desc": False}
_SIGNED = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}


@dataclass(frozen=True, slots=True)
class ColumnOrdering:
    """One key of a sort; pylance's class of this name is accepted too.

    Attributes
    ----------
    column_name : str
        Nested with dots (``"s.a"``); backquotes around names that contain dots.
    ascending : bool
    nulls_first : bool
        Nulls first in either direction.
    """

    column_name: str
    ascending: bool = True
    nulls_first: bool = False


OrderBy: TypeAlias = "str | ColumnOrdering | Sequence[str | ColumnOrdering | tuple[str, str]] | None"


def orderings(order_by: object) -> tuple[ColumnOrdering, ...]:
    """The keys of an ``order_by`` argument.

    Parameters
    ----------
    order_by : str, ColumnOrdering, sequence of these or of (name, "ascending" | "descending"), or None
        "asc" and "desc" are the same.

    Raises
    ------
    TypeError, ValueError
        Not sort keys.

    Examples
    --------
    >>> [key.column_name for key in orderings("id")]
    ['id']
    >>> orderings([("id", "descending")])[0].ascending
    False
    """
    if order_by is None:
        return ()
    if isinstance(order_by, str) or hasattr(order_by, "column_name"):
        return (_ordering(order_by),)
    if not isinstance(order_by, list | tuple):
        raise TypeError(f"order_by must be a name or a list of keys, not {type(order_by).__name__}")
    return tuple(_ordering(key) for key in order_by)


def _ordering(key: object) -> ColumnOrdering:
    if isinstance(key, str):
        return ColumnOrdering(key)
    name = getattr(key, "column_name", None)
    if isinstance(name, str):
        return ColumnOrdering(
            name, bool(getattr(key, "ascending", True)), bool(getattr(key, "nulls_first", False))
        )
    if isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], str):
        if key[1] not in _DIRECTIONS:
            raise ValueError(f"order must be 'ascending' or 'descending', not {key[1]!r}")
        return ColumnOrdering(key[0], _DIRECTIONS[key[1]])
    raise TypeError(f"a key of order_by must be a name, a ColumnOrdering or (name, direction), not {key!r}")


def with_keys(
    request: ScanRequest, keys: tuple[ColumnOrdering, ...], schema: Schema
) -> tuple[ScanRequest, tuple[ColumnOrdering, ...]]:
    """The request without limit that also returns the sort columns, and the keys by those columns' names.

    Raises
    ------
    ColumnNotFoundError
        A key is neither in the schema nor an output of the request; the message has the nearest names.
    """
    columns = [(name, None) for name in schema.names] if request.columns is None else list(request.columns)
    outputs = dict(columns)
    renamed = []
    for key in keys:
        name = _column_of(key.column_name, dict(request.columns or ()), schema)
        renamed.append(replace(key, column_name=name))
        if name not in outputs:
            outputs[name] = None
            columns.append((name, None))
    return replace(request, columns=tuple(columns), limit=None, offset=0), tuple(renamed)


def _column_of(name: str, computed: dict[str, object], schema: Schema) -> str:
    """Name of the column that a key sorts by: stored columns come before computed ones of that name."""
    if name in VIRTUAL_COLUMNS and name not in schema.names:
        return name
    try:
        path = schema.resolve(name)
    except ColumnNotFoundError:
        if computed.get(name) is not None:
            return name
        raise
    if computed.get(name) is None:
        return name
    # A quoted name means the same column and matches no output's name.
    return ".".join("`" + part.replace("`", "``") + "`" for part in path)


def sort_positions(table: pa.Table, keys: tuple[ColumnOrdering, ...]) -> Int64:
    """(num_rows,) int64: row numbers of the table in sorted order; of an empty table, a check of the keys' types.

    Raises
    ------
    ValueError
        A key's column has a type without an order.
    """
    columns: list[pa.ChunkedArray] = []
    directions: list[str] = []
    for key in keys:
        try:
            for values, ascending in _comparable(bare(table[key.column_name]), key):
                columns.append(values)
                directions.append("ascending" if ascending else "descending")
        except (pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            kind = table[key.column_name].type
            raise ValueError(
                f"order_by: {printable(key.column_name)!r} of type {kind} has no order"
            ) from error
    if not columns:
        return np.arange(table.num_rows, dtype=np.int64)
    names = [str(i) for i in range(len(columns))]
    found = pc.sort_indices(pa.table(columns, names=names), list(zip(names, directions, strict=True)))
    positions: Int64 = numbers_of(found).astype(np.int64)
    return positions


def _comparable(column: pa.ChunkedArray, key: ColumnOrdering) -> Iterator[tuple[pa.ChunkedArray, bool]]:
    """Values of the column that Arrow sorts in this format's order, and whether ascending; nulls apart."""
    if pa.types.is_struct(column.type):
        yield column.is_valid(), key.nulls_first
        for index in range(column.type.num_fields):
            yield from _comparable(pc.struct_field(column, [index]), key)
        return
    values = _sortable(column)
    if values.null_count:
        # Validity ascending is nulls first, since false is less than true.
        yield values.is_valid(), key.nulls_first
    yield values, key.ascending


def _sortable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    data_type = column.type
    if isinstance(data_type, pa.BaseExtensionType):
        return _sortable(storage_of(column))
    if pa.types.is_dictionary(data_type):
        return pa.chunked_array([_ranks(chunk) for chunk in joined([column], data_type).chunks], pa.uint64())
    if pa.types.is_floating(data_type):
        signed = _SIGNED[data_type.bit_width]
        return pa.chunked_array([_total_order(chunk, signed) for chunk in column.chunks], signed)
    if pa.types.is_nested(data_type):
        raise pa.ArrowTypeError(f"no order for {data_type}")
    return column


def _total_order(array: pa.Array, signed: pa.DataType) -> pa.Array:
    """Integers in the order of the floating-point numbers: the magnitude bits of negative ones are inverted."""
    bits = numbers_of(filled(array.view(signed), 0))
    ordered = bits ^ ((bits >> (8 * bits.itemsize - 1)) & np.iinfo(bits.dtype).max)
    mask = numbers_of(array.is_null()) if array.null_count else None
    return array_of(ordered, mask)


def _ranks(array: pa.DictionaryArray) -> pa.Array:
    """Rank of each value of a dictionary column among those of its dictionary."""
    values = _sortable(pa.chunked_array([array.dictionary]))
    ranks = pc.rank(values, tiebreaker="dense")
    ranks = pc.if_else(values.combine_chunks().is_valid(), ranks, scalar_of(None, pa.uint64()))
    return ranks.take(array.indices)
