"""The messages of a 0.1 file for writing; ``decode`` reads them.

Source: file sheet 0.1, sections 1.3, 1.4 and 6.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lancecy.proto import file_pb2, table_pb2
from lancecy.schema import Field
from lancecy.schema_wire import encode_fields

__all__ = ["encode_embedded_manifest", "encode_metadata"]

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
