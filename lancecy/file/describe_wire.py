"""Names of the columns of a data file, told by the file alone.

A table knows which field is in which column of a file; a file on its own lists the fields
it was written with, in an order from which the columns follow (file sheet 2.0, section 3;
file sheet 2.1, section 1.5; file sheet 0.1, section 7).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lancecy.file.v2.wire.decode import decode_schema_fields
from lancecy.limits import Limits
from lancecy.proto import file_pb2, table_pb2
from lancecy.schema import Field
from lancecy.schema_wire import decode_fields, parse_message
from lancecy.store.base import Memory

__all__ = ["column_names", "written_fields"]


def written_fields(data: Memory, limits: Limits) -> tuple[Field, ...]:
    """Top-level fields that a 0.1 file was written with.

    Parameters
    ----------
    data : (nbytes,) uint8
        The Manifest message in the file, without its length prefix.

    Raises
    ------
    FormatError, LimitError
        See ``schema_wire.decode_fields``.
    """
    message = parse_message(table_pb2.Manifest, data, "embedded manifest", limits)
    return decode_fields(message.fields, limits)


def column_names(data: Memory, version: tuple[int, int], limits: Limits) -> list[tuple[str, str]]:
    """(dotted name, logical type) of each physical column of a 2.x file, in their order.

    Parameters
    ----------
    data : (nbytes,) uint8
        The FileDescriptor.
    version : (major, minor)

    Raises
    ------
    FormatError, LimitError
        See ``v2.wire.decode_schema_fields``.
    """
    messages = decode_schema_fields(data, limits)
    parents = {message.parent_id for message in messages}
    return list(_named_columns(messages, parents, is_flat=version != (2, 0)))


def _named_columns(
    messages: Sequence[file_pb2.Field], parents: set[int], is_flat: bool
) -> Iterator[tuple[str, str]]:
    """Of each field that has a column; ``is_flat``: leaves only, as from 2.1 on."""
    known: dict[int, tuple[str, bool]] = {}
    for message in messages:
        field = Field(
            message.name, message.id, logical_type=message.logical_type, metadata=dict(message.metadata)
        )
        above, is_inside = known.get(message.parent_id, ("", False))
        name = f"{above}.{field.name}" if above else field.name
        is_whole = field.is_blob or field.is_said_packed
        is_whole = is_whole or (field.is_fixed_list and not is_flat)
        if field.id >= 0:
            known[field.id] = (name, is_inside or is_whole)
        is_nested = field.id in parents and not is_whole
        if not is_inside and not (is_flat and is_nested):
            yield name, field.logical_type
