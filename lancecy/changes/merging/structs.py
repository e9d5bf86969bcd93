"""Struct columns whose missing members are taken from the rows that they replace."""

from __future__ import annotations

import pyarrow as pa

from lancecy.encodings.arrow.nulls import null_mask

__all__ = ["completed", "completed_type"]


def completed_type(given: pa.DataType, table: pa.DataType) -> pa.DataType:
    """The type with the members of both; those of the given type as they are there.

    Parameters
    ----------
    given, table : pyarrow.DataType
        Of the source and of the table.

    Examples
    --------
    >>> import pyarrow as pa
    >>> completed_type(pa.struct({"b": pa.large_string()}), pa.struct({"a": pa.int8(), "b": pa.string()}))
    StructType(struct<a: int8, b: large_string>)
    """
    if not (pa.types.is_struct(given) and pa.types.is_struct(table)):
        return given
    types = {member.name: member.type for member in given}
    return pa.struct(
        [
            member.with_type(completed_type(types.get(member.name, member.type), member.type))
            for member in table
        ]
    )


def completed(given: pa.Array, table: pa.Array | None, data_type: pa.DataType) -> pa.Array:
    """The structs with the members that they lack; a null struct stays null.

    Parameters
    ----------
    given : pyarrow.Array
    table : pyarrow.Array or None
        The rows that they replace; None for new rows, whose missing members are null.
    data_type : pyarrow.DataType
        From :func:`completed_type`.
    """
    if not pa.types.is_struct(data_type):
        return given
    mine = {member.name: given.field(i) for i, member in enumerate(given.type)}
    # Flattened, as members of a null struct may have values.
    theirs = {} if table is None else dict(zip((m.name for m in table.type), table.flatten(), strict=True))
    members = []
    for member in data_type:
        old = theirs.get(member.name)
        if member.name in mine:
            members.append(completed(mine[member.name], old, member.type))
        else:
            members.append(pa.nulls(len(given), member.type) if old is None else old)
    return pa.StructArray.from_arrays(members, fields=list(data_type), mask=null_mask(given))
