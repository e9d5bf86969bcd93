"""Structs under extension types: access to their children by name.

A registered extension type stands for its whole storage, so access to a child goes through the storage. (A type
that lost children to a projection is plain storage already: ``encodings.assemble.pruned``.)
"""

from __future__ import annotations

import pyarrow as pa

from lancecy.encodings.arrow.columns import ArrowArray, storage_of
from lancecy.encodings.arrow.nulls import null_mask

__all__ = ["bare", "bare_type"]


def bare_type(data_type: pa.DataType) -> pa.DataType:
    """Replace extension types over structs by their storage, so that children can be named."""
    if isinstance(data_type, pa.BaseExtensionType):
        storage = bare_type(data_type.storage_type)
        return storage if pa.types.is_struct(storage) else data_type
    if pa.types.is_struct(data_type):
        return pa.struct([field.with_type(bare_type(field.type)) for field in data_type])
    return data_type


def bare(column: ArrowArray) -> ArrowArray:
    """The column as :func:`bare_type`, sharing its memory."""
    wanted = bare_type(column.type)
    if wanted == column.type:
        return column
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([bare(chunk) for chunk in column.chunks], wanted)
    array = storage_of(column)
    children = [bare(array.field(i)) for i in range(array.type.num_fields)]
    return pa.StructArray.from_arrays(children, fields=list(wanted), mask=null_mask(array))
