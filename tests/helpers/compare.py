"""Equality of Arrow tables as a reader's tests need it, with messages that say where and what.

Chunking never counts. Floats are equal when their bits are, so -0.0 differs from 0.0, but all NaNs are one value.
Dictionary columns are compared by the values that their codes mean, and by type. What lies under a null is ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

__all__ = [
    "assert_arrays_equal",
    "assert_schemas_equal",
    "assert_tables_equal",
    "sorted_rows",
    "storage_table",
]


def assert_tables_equal(
    actual: pa.Table,
    expected: pa.Table,
    *,
    nullability: bool = True,
    metadata: bool = False,
    schema: bool = True,
    hint: str = "",
) -> None:
    """Fail unless both tables hold the same rows in the same order under the same schema.

    Parameters
    ----------
    actual, expected : pyarrow.Table
    nullability : bool
        Whether nullable flags count, at every level.
    metadata : bool
        Whether metadata of schema and fields counts.
    schema : bool
        False: column names and values only.
    hint : str
        Put in front of the message; what was compared.

    Raises
    ------
    AssertionError
        With the first difference: column path, row and both values with their neighbours.
    """
    prefix = f"{hint}: " if hint else ""
    if actual.column_names != expected.column_names:
        raise AssertionError(f"{prefix}columns {actual.column_names}, expected {expected.column_names}")
    if schema:
        assert_schemas_equal(
            actual.schema, expected.schema, nullability=nullability, metadata=metadata, hint=hint
        )
    if actual.num_rows != expected.num_rows:
        raise AssertionError(f"{prefix}{actual.num_rows} rows, expected {expected.num_rows}")
    for name, a, e in zip(actual.column_names, actual.columns, expected.columns, strict=True):
        assert_arrays_equal(a, e, path=name, hint=hint)


def assert_schemas_equal(
    actual: pa.Schema,
    expected: pa.Schema,
    *,
    nullability: bool = True,
    metadata: bool = False,
    hint: str = "",
) -> None:
    """Fail unless names and types (and on request nullability and metadata) are the same."""
    prefix = f"{hint}: " if hint else ""
    if actual.names != expected.names:
        raise AssertionError(f"{prefix}columns {actual.names}, expected {expected.names}")
    for a, e in zip(actual, expected, strict=True):
        if not nullability:
            a, e = _all_nullable(a), _all_nullable(e)
        if a.nullable != e.nullable:
            raise AssertionError(f"{prefix}column {a.name!r} nullable={a.nullable}, expected {e.nullable}")
        if a.type != e.type or (metadata and not a.type.equals(e.type, check_metadata=True)):
            raise AssertionError(f"{prefix}column {a.name!r} has type {a.type}, expected {e.type}")
        if metadata and (a.metadata or {}) != (e.metadata or {}):
            raise AssertionError(
                f"{prefix}column {a.name!r} has metadata {a.metadata}, expected {e.metadata}"
            )
    if metadata and (actual.metadata or {}) != (expected.metadata or {}):
        raise AssertionError(f"{prefix}schema metadata {actual.metadata}, expected {expected.metadata}")


def assert_arrays_equal(
    actual: pa.Array | pa.ChunkedArray,
    expected: pa.Array | pa.ChunkedArray,
    *,
    path: str = "array",
    hint: str = "",
) -> None:
    """Fail unless two arrays have the same values; types are taken to be checked already where they matter."""
    prefix = f"{hint}: " if hint else ""
    edges = sorted({0, *_edges(actual), *_edges(expected)})
    if len(edges) > 2 and _has_dictionary_below(actual.type):
        # Arrow unifies no dictionaries that hold a null.
        if len(actual) != len(expected):
            raise AssertionError(f"{prefix}{path} has {len(actual)} values, expected {len(expected)}")
        for start, stop in pairwise(edges):
            part = f"{path} from row {start}"
            mine, theirs = (each.slice(start, stop - start) for each in (actual, expected))
            assert_arrays_equal(mine, theirs, path=part, hint=hint)
        return
    a, e = _one_array(actual), _one_array(expected)
    if pa.types.is_dictionary(a.type) != pa.types.is_dictionary(e.type):
        a, e = (x.dictionary.take(x.indices) if pa.types.is_dictionary(x.type) else x for x in (a, e))
    if len(a) != len(e):
        raise AssertionError(f"{prefix}{path} has {len(a)} values, expected {len(e)}")
    found = _first_difference(a, e)
    if found is not None:
        where, row, why = found
        raise AssertionError(f"{prefix}{path}{where} differs at row {row}: {why}\n{_neighbours(a, e, row)}")


def storage_table(table: pa.Table) -> pa.Table:
    """The table with extension columns replaced by their storage, at the top level."""
    columns, fields = [], []
    for field, column in zip(table.schema, table.columns, strict=True):
        if isinstance(field.type, pa.BaseExtensionType):
            column = pa.chunked_array([c.storage for c in column.chunks], field.type.storage_type)
        columns.append(column)
        fields.append(pa.field(field.name, column.type, field.nullable, field.metadata))
    return pa.table(columns, schema=pa.schema(fields, table.schema.metadata))


def sorted_rows(table: pa.Table, key: str) -> pa.Table:
    """Rows in the order of a key column, for answers whose order is not promised."""
    return table.take(pc.sort_indices(table[key]))


def _all_nullable(field: pa.Field) -> pa.Field:
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_all_nullable(child) for child in kind])
    elif pa.types.is_large_list(kind):
        kind = pa.large_list(_all_nullable(kind.value_field))
    elif pa.types.is_list(kind):
        kind = pa.list_(_all_nullable(kind.value_field))
    elif pa.types.is_fixed_size_list(kind):
        kind = pa.list_(_all_nullable(kind.value_field), kind.list_size)
    return pa.field(field.name, kind, True, field.metadata)


def _edges(column: pa.Array | pa.ChunkedArray) -> Iterator[int]:
    """Where the chunks of a column end."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return accumulate(len(chunk) for chunk in chunks)


def _one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        chunks = column.chunks
        if pa.types.is_dictionary(column.type):
            # Arrow unifies no dictionaries that hold a null.
            chunks = [chunk.dictionary.take(chunk.indices) for chunk in chunks]
        column = (
            chunks[0]
            if len(chunks) == 1
            else pa.concat_arrays(chunks)
            if chunks
            else pa.nulls(0, _decoded_type(column.type))
        )
    return column


def _has_dictionary_below(kind: pa.DataType) -> bool:
    return any(
        pa.types.is_dictionary(kind.field(i).type) or _has_dictionary_below(kind.field(i).type)
        for i in range(kind.num_fields)
    )


def _decoded_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _first_difference(a: pa.Array, e: pa.Array) -> tuple[str, int, str] | None:
    """Path below here, row and reason of the first difference; None when there is none."""
    # Arrow's own equality is right for values that are neither nested nor floats, and most are equal.
    if a.type == e.type and _is_plain(a.type) and a.equals(e):
        return None
    # Whether nullable flags count was decided before; here two trees of the same shape are walked.
    if _all_nullable(pa.field("", a.type)).type != _all_nullable(pa.field("", e.type)).type:
        return "", 0, f"type {a.type}, expected {e.type}"
    if len(a) == 0:
        # Also spares Arrow (26.0) flattening a list without an offset, which ends the process.
        return None
    if isinstance(a.type, pa.BaseExtensionType):
        return _first_difference(a.storage, e.storage)
    if _needs_lists(a.type):
        a, e = _with_lists(a), _with_lists(e)
    if pa.types.is_dictionary(a.type):
        # Codes mean nothing by themselves, and an entry of a dictionary may itself be null.
        return _first_difference(a.dictionary.take(a.indices), e.dictionary.take(e.indices))
    nulls_a, nulls_e = _mask(a), _mask(e)
    if not np.array_equal(nulls_a, nulls_e):
        row = int(np.flatnonzero(nulls_a != nulls_e)[0])
        return "", row, "null, expected a value" if nulls_a[row] else "a value, expected null"
    rows = np.flatnonzero(~nulls_a)
    return _first_value_difference(a.drop_null(), e.drop_null(), rows)


def _is_plain(kind: pa.DataType) -> bool:
    special = pa.types.is_nested(kind) or pa.types.is_floating(kind) or pa.types.is_dictionary(kind)
    return not special and not isinstance(kind, pa.BaseExtensionType)


def _first_value_difference(a: pa.Array, e: pa.Array, rows: NDArray[np.int64]) -> tuple[str, int, str] | None:
    """The same for arrays without nulls at this level; ``rows`` are their row numbers."""
    kind = a.type
    if pa.types.is_struct(kind):
        for field, mine, theirs in zip(kind, a.flatten(), e.flatten(), strict=True):
            found = _first_difference(mine, theirs)
            if found is not None:
                return f".{field.name}{found[0]}", int(rows[found[1]]), found[2]
        return None
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _first_list_difference(a, e, rows)
    if pa.types.is_floating(kind):
        a, e = _float_bits(a), _float_bits(e)
    if a.equals(e):
        return None
    low, high = 0, len(a)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (
            (low, middle)
            if not a.slice(low, middle - low).equals(e.slice(low, middle - low))
            else (middle, high)
        )
    return "", int(rows[low]), "values differ"


def _first_list_difference(a: pa.Array, e: pa.Array, rows: NDArray[np.int64]) -> tuple[str, int, str] | None:
    if pa.types.is_fixed_size_list(a.type):
        lengths_a = lengths_e = np.full(len(a), a.type.list_size)
    else:
        lengths_a, lengths_e = pc.list_value_length(a).to_numpy(), pc.list_value_length(e).to_numpy()
    if not np.array_equal(lengths_a, lengths_e):
        at = int(np.flatnonzero(lengths_a != lengths_e)[0])
        return "", int(rows[at]), f"{lengths_a[at]} elements, expected {lengths_e[at]}"
    found = _first_difference(a.flatten(), e.flatten())
    if found is None:
        return None
    parents = np.repeat(np.arange(len(a)), lengths_a)
    return f"[]{found[0]}", int(rows[parents[found[1]]]), found[2]


def _needs_lists(kind: pa.DataType) -> bool:
    """Whether a type has maps, extension types, or fixed-size lists of anything nested."""
    if pa.types.is_map(kind) or isinstance(kind, pa.BaseExtensionType):
        return True
    if pa.types.is_fixed_size_list(kind) and pa.types.is_nested(kind.value_type):
        return True
    return any(_needs_lists(kind.field(i).type) for i in range(kind.num_fields))


def _with_lists(array: pa.Array) -> pa.Array:
    """The array with maps and fixed-size lists turned into lists, and extension types into what they stand on.

    Arrow has no equality of maps below the first level that looks past what lies under nulls, leaves no null out of
    lists of extension types, and (26.0) takes the wrong rows of a slice of a fixed-size list of fixed-size lists.
    """
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    kind, missing = array.type, array.is_null()
    if pa.types.is_struct(kind):
        children = [_with_lists(array.field(i)) for i in range(kind.num_fields)]
        fields = [pa.field(f.name, c.type) for f, c in zip(kind, children, strict=True)]
        # Made from buffers, since a struct may have no field and then no length of its own.
        return pa.Array.from_buffers(pa.struct(fields), len(array), [_bitmap(missing)], children=children)
    if pa.types.is_map(kind):
        entries = pa.StructArray.from_arrays(
            [_with_lists(array.keys), _with_lists(array.items)], names=["key", "value"]
        )
        return pa.ListArray.from_arrays(_offsets(array), entries, mask=missing)
    if pa.types.is_fixed_size_list(kind):
        borders = (np.arange(len(array) + 1) + array.offset) * kind.list_size
        return pa.LargeListArray.from_arrays(pa.array(borders), _with_lists(array.values), mask=missing)
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(_offsets(array), _with_lists(array.values), mask=missing)
    if pa.types.is_large_list(kind):
        return pa.LargeListArray.from_arrays(_offsets(array), _with_lists(array.values), mask=missing)
    return array


def _offsets(array: pa.Array) -> pa.Array:
    """Copied: a slice of offsets and a mask do not go together."""
    return pa.array(array.offsets.to_numpy().copy())


def _bitmap(missing: pa.Array) -> pa.Buffer | None:
    gone = np.asarray(missing.to_numpy(zero_copy_only=False), np.bool_)
    return pa.py_buffer(np.packbits(~gone, bitorder="little").tobytes()) if gone.any() else None


def _float_bits(array: pa.Array) -> pa.Array:
    values = array.to_numpy(zero_copy_only=False)
    canonical = np.where(np.isnan(values), np.array(np.nan, values.dtype), values)
    return pa.array(canonical.view({2: np.uint16, 4: np.uint32, 8: np.uint64}[values.dtype.itemsize]))


def _mask(array: pa.Array) -> NDArray[np.bool_]:
    if pa.types.is_null(array.type):
        return np.ones(len(array), np.bool_)
    if array.null_count == 0:
        return np.zeros(len(array), np.bool_)
    return np.asarray(array.is_null().to_numpy(zero_copy_only=False), np.bool_)


def _neighbours(a: pa.Array, e: pa.Array, row: int) -> str:
    start, stop = max(0, row - 2), min(len(a), row + 3)
    lines = []
    for i in range(start, stop):
        mark = ">" if i == row else " "
        lines.append(f" {mark} row {i}: got {_shown(a, i)}, expected {_shown(e, i)}")
    return "\n".join(lines)


def _shown(array: pa.Array, row: int) -> str:
    try:
        text = repr(array[row].as_py())
    except (ValueError, UnicodeDecodeError, OverflowError) as error:
        text = f"(not printable: {error})"
    return text if len(text) <= 200 else text[:200] + "…"
