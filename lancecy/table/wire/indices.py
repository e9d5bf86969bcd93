"""The index section of a manifest file.

Facts: table sheet, section 10.1.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from lancecy.errors import FormatError, LanceError
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.proto import table_pb2
from lancecy.records import dataclass
from lancecy.schema_wire import parse_message, records
from lancecy.table.manifest import IndexEntry

__all__ = [
    "IndexDescription",
    "decode_index",
    "decode_index_section",
    "describe_index",
    "encode_index",
    "encode_index_section",
]

_INDICES = table_pb2.IndexSection.INDICES_FIELD_NUMBER


def decode_index_section(data: bytes, limits: Limits = DEFAULT_LIMITS) -> tuple[IndexEntry, ...]:
    """The entries of an index section, in order.

    Parameters
    ----------
    data : bytes
        An ``IndexSection`` message without its length prefix.

    Raises
    ------
    FormatError, LimitError
        The bytes are not such a message, or an entry has no valid id.

    Source: table sheet, section 10.1.
    """
    limits.check("metadata_bytes", len(data), "size of the index section")
    return _kept_entries(data, limits) if len(data) <= _MOST_KEPT else _entries(data, limits)


def _entries(data: bytes, limits: Limits) -> tuple[IndexEntry, ...]:
    try:
        return tuple(
            decode_index(data[start:stop], limits)
            for number, start, stop in records(data)
            if number == _INDICES
        )
    except LanceError as error:
        raise error.within("index section")


# A new version of a table mostly has the indices of the one before it.
_kept_entries = lru_cache(maxsize=32)(_entries)
_MOST_KEPT = 1 << 16
"""Most bytes of a section or an entry whose meaning is kept."""


def decode_index(raw: bytes, limits: Limits = DEFAULT_LIMITS) -> IndexEntry:
    """One entry.

    Parameters
    ----------
    raw : bytes
        An ``IndexMetadata`` message.

    Raises
    ------
    FormatError, LimitError
        The bytes are not such a message, or the entry has no valid id.
    """
    message = parse_message(table_pb2.IndexMetadata, raw, "index entry", limits)
    if len(message.uuid.uuid) != 16:
        raise FormatError(f"id of index {message.name!r} has {len(message.uuid.uuid)} bytes instead of 16")
    return IndexEntry(
        uuid=uuid.UUID(bytes=message.uuid.uuid),
        name=message.name,
        fields=tuple(message.fields),
        dataset_version=message.dataset_version,
        fragment_bitmap=message.fragment_bitmap or None,
        # The type's full name follows the last slash, after any host.
        details_type=message.index_details.type_url.rpartition("/")[2],
        base_id=message.base_id if message.HasField("base_id") else None,
        raw=raw,
    )


def encode_index_section(entries: Iterable[IndexEntry]) -> bytes | None:
    """The section of some entries, which keep their bytes; None without any.

    Parameters
    ----------
    entries : iterable of IndexEntry
    """
    section = table_pb2.IndexSection()
    for entry in entries:
        section.indices.add().MergeFromString(entry.raw)
    return section.SerializeToString() if section.indices else None


@dataclass(frozen=True, slots=True)
class IndexDescription:
    """The part of an entry that only people read.

    Attributes
    ----------
    version : int
    created_at : datetime or None, UTC
    files : tuple of (str, int)
        Path below the folder of the index, and bytes.
    details : (str, bytes) or None
        Type and value.
    covering_fields : tuple of int
    """

    version: int
    created_at: datetime | None
    files: tuple[tuple[str, int], ...]
    details: tuple[str, bytes] | None
    covering_fields: tuple[int, ...]


def describe_index(entry: IndexEntry) -> IndexDescription:
    """The part of an entry that only people read.

    Parameters
    ----------
    entry : IndexEntry
    """
    return _kept_description(entry.raw) if len(entry.raw) <= _MOST_KEPT else _described(entry.raw)


def _described(raw: bytes) -> IndexDescription:
    message = table_pb2.IndexMetadata.FromString(raw)
    told = message.index_details
    return IndexDescription(
        message.index_version,
        _time(message.created_at) if message.HasField("created_at") else None,
        tuple((file.path, file.size_bytes) for file in message.files),
        (told.type_url, told.value) if message.HasField("index_details") else None,
        tuple(message.covering_fields),
    )


_kept_description = lru_cache(maxsize=64)(_described)


def encode_index(entry: IndexEntry, told: IndexDescription) -> IndexEntry:
    """The entry with its bytes.

    Parameters
    ----------
    entry : IndexEntry
        Its ``raw`` and ``details_type`` do not count.
    told : IndexDescription

    Raises
    ------
    OverflowError, ValueError
        A number does not fit its field.
    """
    message = table_pb2.IndexMetadata(
        uuid=table_pb2.UUID(uuid=entry.uuid.bytes),
        fields=entry.fields,
        name=entry.name,
        dataset_version=entry.dataset_version,
        index_version=told.version,
        covering_fields=told.covering_fields,
        files=[table_pb2.IndexFile(path=path, size_bytes=size) for path, size in told.files],
    )
    if entry.fragment_bitmap is not None:
        message.fragment_bitmap = entry.fragment_bitmap
    if entry.base_id is not None:
        message.base_id = entry.base_id
    if told.details is not None:
        message.index_details.type_url, message.index_details.value = told.details
    if told.created_at is not None:
        message.created_at = _milliseconds(told.created_at)
    return decode_index(message.SerializeToString())


def _milliseconds(time: datetime) -> int:
    """A time in milliseconds since 1970; one without a zone is local."""
    return (time.astimezone(UTC) - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)


def _time(milliseconds: int) -> datetime | None:
    """A time in milliseconds since 1970; None beyond the calendar."""
    try:
        return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None
