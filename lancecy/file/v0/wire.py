"""The messages of 0.1 files: decoded to plain values, and encoded.

Any bytes give either a value or a ``FormatError`` or ``LimitError``. The schema of the statistics stays serialized
until it is needed; most scans never need it. ``written_fields`` reads the Manifest message embedded in files.

Source: file sheet 0.1, sections 1.3, 1.4, 6.3 and 7.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from lancecy.errors import FormatError
from lancecy.limits import Limits
from lancecy.proto import file_pb2, table_pb2
from lancecy.records import dataclass
from lancecy.schema import Field
from lancecy.schema_wire import decode_fields, encode_fields, parse_message
from lancecy.store.base import Memory

__all__ = [
    "V0Metadata",
    "V0Statistics",
    "decode_field_ids",
    "decode_metadata",
    "decode_statistics",
    "encode_embedded_manifest",
    "encode_metadata",
    "written_fields",
]

# The fields of larger statistics are built for each file, so that those kept take little memory.
_KEPT_BYTES = 64 << 10


@dataclass(frozen=True, slots=True, eq=False)
class V0Metadata:
    """The metadata of a 0.1 file.

    Attributes
    ----------
    row_starts : (num_batches + 1,) int64, ascending, first is 0
        First row of each batch, then the number of rows.
    page_table_position : int, bytes
    statistics : bytes or None
        Serialized StatisticsMetadata; ``decode_statistics`` reads it.
    manifest_position : int, bytes
        Position of the manifest that the file was written with; 0 if there is none.
    """

    row_starts: NDArray[np.int64]
    page_table_position: int
    statistics: bytes | None
    manifest_position: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class V0Statistics:
    """Fields and position of the statistics of a 0.1 file.

    Attributes
    ----------
    fields : mapping of data field id to (null count, minimum, maximum) Field
        In the file, one struct per data field, named by that field's id in decimal. None if their own ids are not listed
        in order from 0.
    num_ids : int
        Ids of all these fields, from 0.
    page_table_position : int, bytes
        One row per id, one cell each.
    """

    fields: Mapping[int, tuple[Field, Field, Field]]
    num_ids: int
    page_table_position: int


def decode_metadata(data: Memory, limits: Limits) -> V0Metadata:
    """Decode the Metadata message in these bytes (without its length prefix).

    Raises
    ------
    FormatError
        The bytes are not such a message, or its batch offsets do not ascend from 0.
    LimitError
        More batches or rows than ``limits`` allow.
    """
    message = parse_message(file_pb2.Metadata, data, "file metadata", limits)
    offsets = message.batch_offsets
    limits.check("pages", len(offsets), "number of batches")
    row_starts = np.fromiter(offsets, np.int64, len(offsets)) if len(offsets) else np.zeros(1, np.int64)
    if row_starts[0] != 0 or bool((row_starts[1:] < row_starts[:-1]).any()):
        raise FormatError("batch offsets do not ascend from 0")
    limits.check("rows_per_file", int(row_starts[-1]), "number of rows")
    statistics = None
    if message.HasField("statistics"):
        statistics = message.statistics.SerializeToString()
    elif message.HasField("old_statistics"):
        statistics = message.old_statistics.SerializeToString()
    return V0Metadata(row_starts, message.page_table_position, statistics, message.manifest_position)


def decode_field_ids(data: Memory, limits: Limits) -> list[int]:
    """Ids of the schema that a file was written with, from its embedded manifest.

    Parameters
    ----------
    data : (nbytes,) uint8
        The Manifest message without its length prefix.

    Raises
    ------
    FormatError, LimitError
        See ``schema_wire.parse_message``.
    """
    message = parse_message(table_pb2.Manifest, data, "embedded manifest", limits)
    limits.check("columns", len(message.fields), "number of fields")
    return [field.id for field in message.fields]


def decode_statistics(data: bytes, limits: Limits) -> V0Statistics:
    """Decode the StatisticsMetadata message in these bytes.

    Raises
    ------
    FormatError, LimitError
        See ``schema_wire.decode_fields``.
    """
    message = parse_message(file_pb2.Metadata.StatisticsMetadata, data, "statistics metadata", limits)
    position = message.page_table_position
    if len(data) > _KEPT_BYTES:
        return V0Statistics(*_statistics_fields(message, limits), position)
    # Files of a table differ in the position alone, and it takes longer to build the fields than to read their pages.
    message.ClearField("page_table_position")
    return V0Statistics(*_kept_fields(message.SerializeToString(deterministic=True), limits), position)


@lru_cache(maxsize=32)
def _kept_fields(data: bytes, limits: Limits) -> tuple[Mapping[int, tuple[Field, Field, Field]], int]:
    return _statistics_fields(file_pb2.Metadata.StatisticsMetadata.FromString(data), limits)


def _statistics_fields(
    message: file_pb2.Metadata.StatisticsMetadata, limits: Limits
) -> tuple[Mapping[int, tuple[Field, Field, Field]], int]:
    fields, found = decode_fields(message.schema, limits), {}
    num_ids = max((node.id for top in fields for node in top.walk()), default=-1) + 1
    if list(message.fields) != list(range(num_ids)):
        # Every release lists all ids from 0. Of other lists the document tells other rows of the page table than releases.
        return {}, 0
    for top in fields:
        parts = {child.name: child for child in top.children}
        if (
            top.name.isascii()
            and top.name.isdigit()
            and {"null_count", "min_value", "max_value"} <= set(parts)
        ):
            found[int(top.name[:10])] = (parts["null_count"], parts["min_value"], parts["max_value"])
    return found, num_ids


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


_WRITER = ("lancecy", "0.1.0")


def encode_embedded_manifest(fields: Sequence[Field], metadata: Mapping[str, bytes]) -> bytes:
    """Encode the Manifest message that a file carries, so that it can be opened alone.

    Parameters
    ----------
    fields : sequence of Field
        Top level, with the positions of dictionaries in this file.
    metadata : mapping of str to bytes
        Metadata of the schema.
    """
    message = table_pb2.Manifest(fields=encode_fields(fields), version=1, schema_metadata=dict(metadata))
    message.writer_version.library, message.writer_version.version = _WRITER
    message.data_format.file_format, message.data_format.version = "lance", "0.1"
    return message.SerializeToString()


def encode_metadata(
    row_starts: Sequence[int],
    page_table_position: int,
    manifest_position: int,
    statistics: Sequence[Field],
    statistics_position: int,
) -> bytes:
    """Encode the Metadata message.

    Parameters
    ----------
    row_starts : sequence of int
        First row of each batch, then the number of rows.
    page_table_position, manifest_position : int, bytes
    statistics : sequence of Field
        Fields of the statistics; empty if there are none.
    statistics_position : int, bytes
        Position of their page table.
    """
    message = file_pb2.Metadata(manifest_position=manifest_position, page_table_position=page_table_position)
    message.batch_offsets.extend(row_starts)
    if statistics:
        described = message.statistics
        described.schema.extend(encode_fields(statistics))
        described.fields.extend(node.id for top in statistics for node in top.walk())
        described.page_table_position = statistics_position
    return message.SerializeToString()
