"""Makes the next manifest from the newest one and an operation. Pure: no storage, no clock.

It changes messages, so unknown fields are copied too. Fragments, config, bases and branch are
inherited; ids of fragments and rows only grow; sections are carried or dropped as the table sheet
says, because an index over reused ids gives wrong answers.

Source: table sheet, sections 1.4, 3.2, 4.3 and 10.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import ge

from lancecy.errors import LimitError
from lancecy.proto import table_pb2
from lancecy.table import flags
from lancecy.table.operations.base import NewManifest, Operation, VersionStamp
from lancecy.table.operations.new_fragments import message_faults
from lancecy.table.paths import DETACHED
from lancecy.table.row_id_checks import check_fragment_ids, check_row_ids
from lancecy.table.wire.manifest_file import ManifestFile

__all__ = ["WRITER", "apply"]

WRITER = ("lancecy", "0.1.0")


def apply(base: ManifestFile | None, operation: Operation, stamp: VersionStamp) -> NewManifest:
    """The version that an operation makes from another.

    Parameters
    ----------
    base : ManifestFile or None
        The newest version; None to create a table.
    operation : Operation
        An operation resolved against that version.
    stamp : VersionStamp

    Raises
    ------
    SchemaError
        The operation does not fit the table's columns, file versions or bases, or names a missing field.
    ConflictError
        The table already has one of its files or bases.
    UnsupportedError
        The operation would lose features of the table.
    FormatError
        The table's row ids have faults, so that new rows could get used ids.
    LimitError
        Versions, fragment ids or row ids are exhausted.
    ValueError
        The operation is invalid for any table.
    """
    if stamp.version >= DETACHED and not stamp.is_detached:
        raise LimitError("version numbers are used up", limit="", claimed=stamp.version)
    if base is None:
        made = operation.create(stamp)
    else:
        flags.check_writable(base.manifest.reader_flags, base.manifest.writer_flags)
        made = operation.apply(base, stamp)
    if made.continues is not None and made.continues.manifest.has_stable_row_ids:
        check_row_ids(message_faults(made.continues.message), made.continues.version)
    _finish(made.message, stamp)
    return made


def _finish(message: table_pb2.Manifest, stamp: VersionStamp) -> None:
    """Set the fields that every version has."""
    message.version = stamp.version
    message.timestamp.FromNanoseconds(stamp.time_ns)
    message.transaction_file = stamp.transaction_file
    # Both belong to one version; the second is a position in its manifest file.
    message.ClearField("tag")
    message.ClearField("version_aux_data")
    message.ClearField("writer_version")
    message.writer_version.library, message.writer_version.version = WRITER
    # Each loop over the field makes all objects again.
    fragments = [*message.fragments]
    ids = [fragment.id for fragment in fragments]
    if any(map(ge, ids, ids[1:])):
        message.fragments.sort(key=lambda fragment: fragment.id)
        check_fragment_ids(ids)
    _set_flags(message, fragments)


def _set_flags(message: table_pb2.Manifest, fragments: Sequence[table_pb2.DataFragment]) -> None:
    # Recomputed from content, as the reference does; bits that content does not determine are carried over.
    carried = message.reader_feature_flags & (flags.STABLE_ROW_IDS | flags.MIXED_FILE_VERSIONS)
    has_deletions = any(part.HasField("deletion_file") for part in fragments)
    both = carried | (flags.DELETIONS if has_deletions else 0) | (flags.BASES if message.base_paths else 0)
    message.reader_feature_flags = both
    message.writer_feature_flags = both | (flags.CONFIG if message.config else 0)
