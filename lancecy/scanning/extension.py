"""Extension types over structs, whose children are read and named one by one.

A registered extension type says what its whole storage means. A struct that has lost
children to a projection, or that a file holds only in part, is plain storage; and to
look inside one is to look at its storage.

Imports ``scanning.rearrange``, ``schema`` and pyarrow.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import pyarrow as pa

from lancecy.scanning.rearrange import Column
from lancecy.schema import Field

__all__ = ["bare", "bare_type", "pruned", "storage_of", "typed"]


def pruned(wanted: Field, ids: frozenset[int]) -> Field | None:
    """``Field.pruned``, whatever lost a child being no longer of its extension type."""
    if not wanted.children:
        # Most fields; nothing to remember, and comparing the ids of wide tables would cost more.
        return wanted if wanted.id in ids else None
    return _pruned(wanted, ids)


@lru_cache(maxsize=8192)
def _pruned(wanted: Field, ids: frozenset[int]) -> Field | None:
    held = wanted.pruned(ids)
    return None if held is None else _plain(held, wanted)


def _plain(held: Field, whole: Field) -> Field:
    if held == whole:
        return whole
    by_id = {child.id: child for child in whole.children}
    metadata = {name: v for name, v in held.metadata.items() if not name.startswith("ARROW:extension:")}
    children = tuple(_plain(child, by_id[child.id]) for child in held.children)
    return replace(held, children=children, metadata=metadata, extension_name="")


def storage_of(column: Column) -> Column:
    """The column without its extension type."""
    if not isinstance(column.type, pa.BaseExtensionType):
        return column
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    return column.storage


def typed(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    """The array under its extension type, if ``data_type`` is one."""
    if isinstance(data_type, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(data_type, array)
    return array


def bare_type(data_type: pa.DataType) -> pa.DataType:
    """The type with extension types over structs replaced by their storage, so that children can be named."""
    if isinstance(data_type, pa.BaseExtensionType):
        storage = bare_type(data_type.storage_type)
        return storage if pa.types.is_struct(storage) else data_type
    if pa.types.is_struct(data_type):
        return pa.struct([field.with_type(bare_type(field.type)) for field in data_type])
    return data_type


def bare(column: Column) -> Column:
    """The column as :func:`bare_type` has it, sharing its memory."""
    wanted = bare_type(column.type)
    if wanted == column.type:
        return column
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([bare(chunk) for chunk in column.chunks], wanted)
    array = storage_of(column)
    children = [bare(array.field(i)) for i in range(array.type.num_fields)]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(wanted), mask=mask)
