"""Checks a long list of fragments at once, so that opening a table need not build them.

Concatenated serialized messages are one message. A type with the same fields, all repeated, decodes it to
columns: one array of all ids, one of all row counts. A value missing in a message would shift its column, so
a mark that no accepted message can hold precedes each message; marks in a file only make their number wrong.

For anything unusual :func:`check_bulk` returns None, and ``wire.manifest`` checks the fragments one by one and
raises the error, if there is one.

Facts: table sheet, section 2.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message
from numpy.typing import NDArray

from lancecy.limits import Limits

__all__ = ["MIN_FRAGMENTS", "BulkFragments", "check_bulk"]

MIN_FRAGMENTS = 48
"""Shorter lists are faster to build than to check in bulk."""

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
    "Files": {"fields": (2, "int32"), "column_indices": (3, "int32")},
    "DeletionFiles": {"file_type": (1, "int32"), "num_deleted_rows": (4, "uint64")},
}
# Beyond the range of fragment ids, row counts and field ids.
_MARK = (1 << 64) - 1
_FIELD_MARK = -(1 << 31)
_VARINT_MARK = b"\xff" * 9 + b"\x01"
_DELETION_MARK = b"\x20" + _VARINT_MARK
_FRAGMENT_MARK = (
    b"\x08" + _VARINT_MARK + b"\x1a" + bytes([len(_DELETION_MARK)]) + _DELETION_MARK + b"\x20" + _VARINT_MARK
)
_PACKED_MARK = b"\x0a\x80\x80\x80\x80\xf8\xff\xff\xff\xff\x01"
_FILE_MARK = b"\x12" + _PACKED_MARK + b"\x1a" + _PACKED_MARK


@dataclass(frozen=True, slots=True)
class BulkFragments:
    """Facts of fragments that are all valid.

    Attributes
    ----------
    num_rows : int or None
        Live rows of all fragments; None if the manifest does not state them for each.
    """

    num_rows: int | None


def check_bulk(manifest: bytes, count: int, limits: Limits) -> BulkFragments | None:
    """The bulk check of a manifest's fragments, None if any of them needs a separate check.

    Parameters
    ----------
    manifest : bytes
        A serialized ``lance.table.Manifest`` that was already parsed, so its parts are valid messages.
    count : int
        Number of its fragments.

    Returns
    -------
    BulkFragments or None
        Not None only if ids ascend and fit into 32 bits, row counts are within ``limits``, deletions
        do not exceed them and have a known type, every file names as many columns as fields or
        none, and no unsupported feature is used. None implies nothing.
    """
    pieces = list(_parsed("Manifest", manifest).fragments)
    if len(pieces) != count:
        return None
    table = _parsed("Fragments", _marked(_FRAGMENT_MARK, pieces))
    if table.overlays or table.row_id_columns or table.updated_columns or table.created_columns:
        return None
    ids = _aligned(np.array(table.id, np.uint64), count)
    rows = _aligned(np.array(table.physical_rows, np.uint64), count)
    deleted = _deleted(list(table.deletion_files), count)
    if ids is None or rows is None or deleted is None or not _files_fit(list(table.files)):
        return None
    if ids[-1] >> np.uint64(32) or np.any(ids[:-1] >= ids[1:]):
        return None
    # The second bound keeps the sum exact for any limit of a user.
    if int(rows.max()) > min(limits.rows_per_file, 1 << 40) or np.any((rows > 0) & (deleted > rows)):
        return None
    return BulkFragments(int((rows - deleted).sum()) if rows.all() else None)


def _files_fit(files: list[bytes]) -> bool:
    """Whether every data file has one column for each field, or names no columns."""
    table = _parsed("Files", _marked(_FILE_MARK, files))
    fields = _widths(np.array(table.fields, np.int32), _FIELD_MARK, len(files))
    columns = _widths(np.array(table.column_indices, np.int32), _FIELD_MARK, len(files))
    return fields is not None and columns is not None and bool(np.all((columns == 0) | (columns == fields)))


def _deleted(files: list[bytes], count: int) -> NDArray[np.uint64] | None:
    """(count,) deleted rows of each fragment; None also where a deletion file does not state them."""
    table = _parsed("DeletionFiles", b"".join(files))
    stated = np.array(table.num_deleted_rows, np.uint64)
    # A count of 0 is unknown, like a missing one.
    if stated.size != len(files) or not stated.all() or any(kind not in (0, 1) for kind in table.file_type):
        return None
    return _aligned(stated, count)


def _aligned(values: NDArray[np.uint64], count: int) -> NDArray[np.uint64] | None:
    """(count,) the one value after each mark, 0 without one; None if a mark has several or marks are missing."""
    widths = _widths(values, _MARK, count)
    if widths is None or np.any(widths > 1):
        return None
    found = np.zeros(count, np.uint64)
    found[widths == 1] = values[values != _MARK]
    return found


def _widths(values: NDArray[Any], mark: int, count: int) -> NDArray[np.int64] | None:
    """(count,) number of values after each mark; None if the numbers of marks and messages differ."""
    (marks,) = np.nonzero(values == mark)
    if marks.size != count:
        return None
    widths = np.empty(count, np.int64)
    np.subtract(marks[1:], marks[:-1], out=widths[:-1])
    widths[-1:] = values.size - marks[-1:]
    return widths - 1


def _marked(mark: bytes, pieces: Iterable[bytes]) -> bytes:
    return mark.join([b"", *pieces])


def _parsed(name: str, data: bytes) -> Any:
    message = _columns(name)()
    message.ParseFromString(data)
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
