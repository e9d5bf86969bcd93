"""Row ids in a manifest's message: assigns them to new rows, and checks them.

Source: table sheet, section 3.2.
"""

from __future__ import annotations

import numpy as np

from lancecy.errors import LimitError
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.proto import table_pb2
from lancecy.table.flags import STABLE_ROW_IDS
from lancecy.table.row_id_checks import RowIdFaults, faults_of
from lancecy.table.rows.row_ids import RangeSegment, RowIdSequence
from lancecy.table.wire.row_ids import encode_row_ids

__all__ = ["give_row_ids", "message_faults"]


def give_row_ids(message: table_pb2.Manifest, fragment: table_pb2.DataFragment) -> None:
    """Assign the next free row ids to a fragment.

    Raises
    ------
    LimitError
        Row ids are exhausted.
    """
    start, count = message.next_row_id, fragment.physical_rows
    if start + count >> 64:
        raise LimitError("row ids are used up", limit="", claimed=start + count)
    ids = RowIdSequence((RangeSegment(start, start + count),), np.array([0, count], np.int64))
    fragment.inline_row_ids = encode_row_ids(ids)
    message.next_row_id = start + count


def message_faults(message: table_pb2.Manifest, limits: Limits = DEFAULT_LIMITS) -> RowIdFaults:
    """``row_id_faults`` of a manifest's message; no faults in a table without stable row ids."""
    if not message.reader_feature_flags & STABLE_ROW_IDS:
        return RowIdFaults((), (), -1, message.next_row_id)
    parts = ((part.id, part.physical_rows or None, _stored(part)) for part in message.fragments)
    return faults_of(parts, message.next_row_id, limits)


def _stored(part: table_pb2.DataFragment) -> bytes | None:
    """Row ids as stored in a fragment: bytes, None without any, or the message of their external file."""
    kind = part.WhichOneof("row_id_sequence")
    return None if kind is None else getattr(part, kind)
