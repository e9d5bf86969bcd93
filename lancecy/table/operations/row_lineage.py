"""Row ids and row versions of fragments that a change adds or rewrites, in tables with stable row ids.

A row keeps its id and its created version when it moves. Its updated version is that of the last change of its values.

Source: table sheet, section 3.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lancecy.errors import FormatError, LimitError
from lancecy.limits import DEFAULT_LIMITS
from lancecy.proto import table_pb2
from lancecy.rows import RowSelection
from lancecy.table.manifest import Fragment
from lancecy.table.rows.id_search import rows_among
from lancecy.table.rows.row_ids import RangeSegment, RowIdSequence, VersionSequence
from lancecy.table.wire.manifest_file import ManifestFile
from lancecy.table.wire.row_ids import decode_row_ids, decode_versions, encode_row_ids, encode_versions

__all__ = ["give_row_ids", "give_versions", "set_updated", "with_created_versions"]

Int64: TypeAlias = NDArray[np.int64]
UInt64: TypeAlias = NDArray[np.uint64]

_FIRST_VERSION = 1


def give_row_ids(message: table_pb2.Manifest, fragment: table_pb2.DataFragment) -> None:
    """Assign the next free row ids to the rows of a fragment after those that have ids.

    Raises
    ------
    LimitError
        Row ids are exhausted.
    FormatError
        The ids that the fragment states are damaged, more than its rows, or not yet given to rows of this table.
    """
    rows = fragment.physical_rows
    kept = RowIdSequence.of(np.empty(0, np.uint64))
    if fragment.inline_row_ids:
        kept = decode_row_ids(fragment.inline_row_ids, None, DEFAULT_LIMITS)
    start, count = message.next_row_id, rows - len(kept)
    if count < 0:
        raise FormatError(f"a fragment of {rows} rows has {len(kept)} row ids")
    if any(segment.count and segment.span[1] >= start for segment in kept.segments):
        raise FormatError(f"a fragment has row ids above {start - 1}, the largest of the table")
    if start + count >> 64:
        raise LimitError("row ids are used up", limit="", claimed=start + count)
    if count:
        fresh = RangeSegment(start, start + count)
        kept = RowIdSequence((*kept.segments, fresh), np.append(kept.starts, rows))
        message.next_row_id = start + count
        fragment.inline_row_ids = encode_row_ids(kept)


def give_versions(fragment: table_pb2.DataFragment, version: int) -> None:
    """Complete the created and updated versions of a fragment: rows without one get ``version``.

    Raises
    ------
    FormatError
        The versions that the fragment states are damaged, or more than its rows.
    """
    rows = fragment.physical_rows
    for name in ("inline_created_at_versions", "inline_last_updated_at_versions"):
        stated: bytes = getattr(fragment, name)
        known = decode_versions(stated, None, DEFAULT_LIMITS) if stated else None
        if known is None or len(known) != rows:
            setattr(fragment, name, encode_versions(_completed(known, rows, version)))


def set_updated(fragment: table_pb2.DataFragment, version: int, offsets: Int64 | None = None) -> None:
    """Set the updated version of rows.

    Parameters
    ----------
    fragment : lance.table.DataFragment
        Changed.
    version : int
    offsets : (n,) int64, ascending, optional
        The rows; None for all.

    Raises
    ------
    FormatError
        The stated versions are damaged.
    """
    rows = fragment.physical_rows
    if offsets is None:
        made = VersionSequence.constant(version, rows)
    else:
        stated = fragment.inline_last_updated_at_versions
        # A missing sequence says that every row is of version 1.
        known = (
            decode_versions(stated, rows, DEFAULT_LIMITS)
            if stated
            else VersionSequence.constant(_FIRST_VERSION, rows)
        )
        versions = known.between(0, rows)
        versions[offsets] = version
        made = VersionSequence.of(versions)
    fragment.inline_last_updated_at_versions = encode_versions(made)


def with_created_versions(
    fragments: Sequence[Fragment], base: ManifestFile, version: int
) -> tuple[Fragment, ...]:
    """New fragments with the created versions of the rows of the table that they hold.

    Parameters
    ----------
    fragments : sequence of Fragment
        Those that state created versions, or no row ids, are returned as they are.
    base : ManifestFile
        The version that has the rows.
    version : int
        For rows whose created version is unknown.

    Raises
    ------
    FormatError
        Row ids or versions are damaged.
    """
    stated = {
        number: decode_row_ids(part.row_ids, None, DEFAULT_LIMITS)
        for number, part in enumerate(fragments)
        if isinstance(part.row_ids, bytes) and part.created_at_versions is None
    }
    if not stated:
        return tuple(fragments)
    wanted = {number: ids.take(np.arange(len(ids), dtype=np.int64)) for number, ids in stated.items()}
    known = np.unique(np.concatenate(list(wanted.values())))
    created = _created(known, base)
    created[created == 0] = version
    made = list(fragments)
    for number, ids in wanted.items():
        versions = VersionSequence.of(created[np.searchsorted(known, ids)])
        made[number] = replace(made[number], created_at_versions=encode_versions(versions))
    return tuple(made)


def _created(ids: UInt64, base: ManifestFile) -> UInt64:
    """Created versions of ascending row ids, 0 of ids that no fragment has."""
    found = np.zeros(ids.size, np.uint64)
    for part in base.message.fragments:
        sequence = decode_row_ids(part.inline_row_ids, None, DEFAULT_LIMITS)
        starts, stops = rows_among(sequence, ids)
        if not starts.size:
            continue
        offsets = RowSelection(len(sequence), starts, stops).to_indices()
        stored = part.inline_created_at_versions
        # A missing sequence says that every row is of version 1.
        versions = decode_versions(stored, None, DEFAULT_LIMITS) if stored else None
        at = np.searchsorted(ids, sequence.take(offsets))
        new = found[at] == 0
        found[at[new]] = _FIRST_VERSION if versions is None else versions.take(offsets[new])
    return found


def _completed(known: VersionSequence | None, rows: int, version: int) -> VersionSequence:
    if known is None:
        return VersionSequence.constant(version, rows)
    if len(known) > rows:
        raise FormatError(f"a fragment of {rows} rows has {len(known)} row versions")
    return VersionSequence(np.append(known.starts, rows), np.append(known.versions, np.uint64(version)))
