"""Many messages of one type as columns, decoded in one step.

Concatenated serialized messages are one message. A type with the same fields, all repeated, decodes it to
columns: one list of all ids, one of all row counts.

Facts: table sheet, section 2.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message

from lancecy.errors import FormatError

__all__ = ["parsed_columns"]

_COLUMNS = {
    "Manifest": {"fragments": (2, "bytes")},
    "Fragments": {
        "id": (1, "uint64"),
        "files": (2, "bytes"),
        "deletion_files": (3, "bytes"),
        "physical_rows": (4, "uint64"),
        # Overlays, and row ids and versions in hidden columns are not supported.
        "overlays": (11, "bytes"),
        "row_id_columns": (12, "bytes"),
        "updated_columns": (13, "bytes"),
        "created_columns": (14, "bytes"),
    },
    "Files": {
        "fields": (2, "int32"),
        "column_indices": (3, "int32"),
        "major": (4, "uint32"),
        "minor": (5, "uint32"),
        "size": (6, "uint64"),
        "base_id": (7, "uint32"),
    },
    "DeletionFiles": {"file_type": (1, "int32"), "num_deleted_rows": (4, "uint64")},
}


def parsed_columns(name: str, data: bytes) -> Any:
    """Columns of concatenated messages.

    Parameters
    ----------
    name : str
        A key of ``_COLUMNS``.
    data : bytes
        The messages. Each of them was parsed before.

    Raises
    ------
    FormatError
        A value has the form of a list, which the message itself ignores and a column does not.
    """
    message = _columns(name)()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise FormatError(f"one of the {name.lower()} in the manifest is not a valid message") from error
    return message


@cache
def _columns(name: str) -> type[Message]:
    """The message type ``name`` of ``_COLUMNS``, every field of it repeated."""
    file = descriptor_pb2.FileDescriptorProto(
        name="lancecy/bulk.proto", package="lancecy.bulk", syntax="proto3"
    )
    kinds = descriptor_pb2.FieldDescriptorProto
    for title, fields in _COLUMNS.items():
        described = file.message_type.add(name=title)
        for label, (number, kind) in fields.items():
            described.field.add(
                name=label,
                number=number,
                type=kinds.Type.Value(f"TYPE_{kind.upper()}"),
                label=kinds.LABEL_REPEATED,
            )
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    found: type[Message] = message_factory.GetMessageClass(pool.FindMessageTypeByName(f"lancecy.bulk.{name}"))
    return found
