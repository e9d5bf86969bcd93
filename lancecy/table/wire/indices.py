"""The index section of a manifest file; its entries are carried along and not used.

Facts: table sheet, section 10.1.
"""

from __future__ import annotations

import uuid

from lancecy.errors import FormatError, LanceError
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.proto import table_pb2
from lancecy.schema_wire import parse_message, records
from lancecy.table.manifest import IndexEntry

__all__ = ["decode_index_section"]

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
    try:
        return tuple(
            _entry(data[start:stop], limits) for number, start, stop in records(data) if number == _INDICES
        )
    except LanceError as error:
        raise error.within("index section")


def _entry(raw: bytes, limits: Limits) -> IndexEntry:
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
