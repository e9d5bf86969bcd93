"""Adds new fragments to a manifest's message: checks them, and assigns ids, row ids and versions.

Fragment ids continue above the largest ever assigned, row ids at ``next_row_id``. A commit that lost the
race for a version assigns its ids again, so no id is assigned twice.

Facts: table sheet, sections 2.2, 3.2 and 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from lancecy.errors import ConflictError, LimitError, SchemaError
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.proto import table_pb2
from lancecy.table import flags
from lancecy.table.flags import STABLE_ROW_IDS
from lancecy.table.manifest import DataFile, Fragment
from lancecy.table.operations.base_paths import check_bases_known
from lancecy.table.paths import check_name
from lancecy.table.row_id_checks import RowIdFaults, faults_of
from lancecy.table.rows.row_ids import RangeSegment, RowIdSequence, VersionSequence
from lancecy.table.wire.fragment import decode_fragment, encode_fragment
from lancecy.table.wire.manifest_file import ManifestFile
from lancecy.table.wire.row_ids import encode_row_ids, encode_versions

__all__ = [
    "add_fragments",
    "decode_fragments",
    "encode_fragments",
    "fragment_id_of",
    "give_row_ids",
    "max_fragment_id",
    "message_faults",
    "version_of",
]


def encode_fragments(fragments: Iterable[Fragment]) -> list[table_pb2.DataFragment]:
    """Messages of new fragments, without ids and versions."""
    return [_unnumbered(fragment) for fragment in fragments]


def _unnumbered(fragment: Fragment) -> table_pb2.DataFragment:
    plain = replace(fragment, id=0, row_ids=None, last_updated_versions=None, created_at_versions=None)
    return encode_fragment(plain)


def decode_fragments(messages: Iterable[table_pb2.DataFragment], limits: Limits) -> tuple[Fragment, ...]:
    """Fragments of a transaction (raises as ``decode_fragment``)."""
    shared: dict[tuple[int, ...], tuple[int, ...]] = {}
    return tuple(decode_fragment(message, shared, limits) for message in messages)


def add_fragments(
    message: table_pb2.Manifest, fragments: Sequence[Fragment], version: int, base: ManifestFile | None
) -> None:
    """Assign ids to new fragments and append them to a message.

    Parameters
    ----------
    message : lance.table.Manifest
        Changed.
    fragments : sequence of Fragment
    version : int
        The version that adds them.
    base : ManifestFile or None
        The current version of the table.

    Raises
    ------
    SchemaError
        A non-nullable column is missing, the table would mix files of 0.1 and 2.x, or a file is in a base that the
        table lacks.
    ConflictError
        The table already has one of the files.
    LimitError
        Fragment ids or row ids are exhausted.
    PathPolicyError
        The name of a file is invalid.
    ValueError
        A fragment has no files, no number of rows, or deleted rows.
    """
    for fragment in fragments:
        _check_new(message, fragment)
    _check_not_there(fragments, base)
    files = [file for fragment in fragments for file in fragment.files]
    check_bases_known(message, (file.base_id for file in files))
    _declare(message, files)
    stable = bool(message.reader_feature_flags & flags.STABLE_ROW_IDS)
    fragment_id = max_fragment_id(message)
    for fragment in fragments:
        fragment_id += 1
        added = _unnumbered(fragment)
        added.id = message.max_fragment_id = fragment_id_of(fragment_id)
        if stable:
            give_row_ids(message, added)
            versions = encode_versions(VersionSequence.constant(version, added.physical_rows))
            added.inline_created_at_versions = added.inline_last_updated_at_versions = versions
        message.fragments.append(added)


def _check_new(message: table_pb2.Manifest, fragment: Fragment) -> None:
    if not fragment.physical_rows or not fragment.files:
        raise ValueError("a fragment to be added has no files or does not say how many rows it has")
    if fragment.deletion_file is not None:
        raise ValueError("a fragment to be added has deleted rows already")
    for file in fragment.files:
        check_name(file.path, "name of a data file")
    given = {field_id for file in fragment.files for field_id in file.fields}
    for top in [field for field in message.fields if field.parent_id == -1 and not field.nullable]:
        if not given & _below(message, top.id):
            raise SchemaError(
                f"column {top.name!r} may not be null, but a fragment to be added lacks it",
                difference=top.name,
            )


def _below(message: table_pb2.Manifest, top: int) -> set[int]:
    """Ids of a field and its descendants; parents precede their children."""
    found = {top}
    for field in message.fields:
        if field.parent_id in found:
            found.add(field.id)
    return found


def _check_not_there(fragments: Sequence[Fragment], base: ManifestFile | None) -> None:
    """Refuse files that the table already has, because their rows would be duplicated."""
    paths = [(file.base_id, file.path) for fragment in fragments for file in fragment.files]
    known: set[tuple[int | None, str]] = set()
    if base is not None and base.may_have({path for _, path in paths}):
        known = {(file.base_id, file.path) for part in base.manifest.fragments for file in part.files}
    mine: set[tuple[int | None, str]] = set()
    for place in paths:
        if place in known:
            raise ConflictError(
                f"data file {place[1]!r} is part of the table already: it was committed before"
            )
        if place in mine:
            raise ConflictError(f"data file {place[1]!r} is in this change twice: give every fragment once")
        mine.add(place)


def version_of(file: DataFile) -> str:
    """The version of a data file, as in manifests.

    Examples
    --------
    >>> version_of(DataFile("a", (), major=0, minor=2)), version_of(DataFile("b", (), major=2, minor=1))
    ('0.1', '2.1')
    """
    if file.is_legacy:
        return "0.1"
    return "2.0" if (file.major, file.minor) == (0, 3) else f"{file.major}.{file.minor}"


def _declare(message: table_pb2.Manifest, files: Iterable[DataFile]) -> None:
    """Check versions of new files against the table's declared one, and set the flag of mixed versions."""
    found = {version_of(file) for file in files}
    if not message.data_format.version and found:
        kept = [version_of(DataFile(f.path, (), major=f.file_major_version, minor=f.file_minor_version))
                for part in message.fragments for f in part.files]  # fmt: skip
        message.data_format.file_format, message.data_format.version = "lance", max([*kept, *found])
        found.update(kept)
    declared = message.data_format.version
    others = found - {declared}
    if others and "0.1" in {declared, *others}:
        raise SchemaError(
            f"the table has data files of version {declared} and cannot also have files of version {max(others)}",
            difference="version of data files",
        )
    if others:
        message.reader_feature_flags |= flags.MIXED_FILE_VERSIONS


def max_fragment_id(message: table_pb2.Manifest) -> int:
    """Largest fragment id ever assigned, -1 without any."""
    stated = message.max_fragment_id if message.HasField("max_fragment_id") else -1
    # Fragments are in the order of ids; otherwise the check for duplicate ids fails before anything is written.
    return max(stated, message.fragments[-1].id if message.fragments else -1)


def fragment_id_of(number: int) -> int:
    """The number as a fragment id; refused if it is too large.

    Raises
    ------
    LimitError
    """
    if number >> 32:
        raise LimitError("fragment ids are used up: they have 32 bits", limit="", claimed=number)
    return number


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
