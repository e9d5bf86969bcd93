"""Adds new fragments to a manifest's message: checks them, and assigns ids, row ids and versions.

Fragment ids continue above the largest ever assigned, row ids at ``next_row_id``. A commit that lost the
race for a version assigns its ids again, so no id is assigned twice.

Facts: table sheet, sections 2.2, 3.2 and 4.3.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from lancecy.errors import ConflictError, LimitError, SchemaError
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.proto import table_pb2
from lancecy.table import flags
from lancecy.table.flags import STABLE_ROW_IDS
from lancecy.table.manifest import DataFile, Fragment
from lancecy.table.operations.base_paths import check_bases_known
from lancecy.table.operations.row_lineage import give_row_ids, give_versions
from lancecy.table.paths import check_name
from lancecy.table.row_id_checks import RowIdFaults, faults_of
from lancecy.table.wire.fragment import decode_fragment, encode_fragment
from lancecy.table.wire.manifest_file import ManifestFile

__all__ = [
    "add_fragments",
    "check_not_null",
    "check_not_there",
    "declare_versions",
    "decode_fragments",
    "encode_fragments",
    "fragment_id_of",
    "max_fragment_id",
    "message_faults",
    "version_of",
]


def encode_fragments(
    fragments: Iterable[Fragment], *, keep_rows: bool = False
) -> list[table_pb2.DataFragment]:
    """Messages of new fragments, without ids; row ids and versions only with ``keep_rows``."""
    return [_unnumbered(fragment, keep_rows) for fragment in fragments]


def _unnumbered(fragment: Fragment, keep_rows: bool) -> table_pb2.DataFragment:
    if keep_rows:
        return encode_fragment(replace(fragment, id=0))
    plain = replace(fragment, id=0, row_ids=None, last_updated_versions=None, created_at_versions=None)
    return encode_fragment(plain)


def decode_fragments(messages: Iterable[table_pb2.DataFragment], limits: Limits) -> tuple[Fragment, ...]:
    """Fragments of a transaction (raises as ``decode_fragment``)."""
    shared: dict[tuple[int, ...], tuple[int, ...]] = {}
    return tuple(decode_fragment(message, shared, limits) for message in messages)


def add_fragments(
    message: table_pb2.Manifest,
    fragments: Sequence[Fragment],
    version: int,
    base: ManifestFile | None,
    *,
    keep_rows: bool = False,
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
    keep_rows : bool
        Fragments may hold rows of the table: their first rows keep the row ids and versions that the fragments state,
        and they may have deleted rows. The other rows are new.

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
        _check_new(message, fragment, keep_rows)
    check_not_there(fragments, base)
    files = [file for fragment in fragments for file in fragment.files]
    check_bases_known(message, (file.base_id for file in files))
    declare_versions(message, files)
    stable = bool(message.reader_feature_flags & flags.STABLE_ROW_IDS)
    fragment_id = max_fragment_id(message)
    for fragment in fragments:
        fragment_id += 1
        added = _unnumbered(fragment, keep_rows and stable)
        added.id = message.max_fragment_id = fragment_id_of(fragment_id)
        if stable:
            give_row_ids(message, added)
            give_versions(added, version)
        message.fragments.append(added)


def _check_new(message: table_pb2.Manifest, fragment: Fragment, keep_rows: bool) -> None:
    if not fragment.physical_rows or not fragment.files:
        raise ValueError("a fragment to be added has no files or does not say how many rows it has")
    if fragment.deletion_file is not None and not keep_rows:
        raise ValueError("a fragment to be added has deleted rows already")
    for file in fragment.files:
        check_name(file.path, "name of a data file")
    check_not_null(message, (fragment,), {field.id for field in message.fields})


def check_not_null(
    message: table_pb2.Manifest,
    fragments: Iterable[Fragment | table_pb2.DataFragment],
    fields: Collection[int],
) -> None:
    """Refuse fragments without a file for a column that may not be null.

    Parameters
    ----------
    message : lance.table.Manifest
        Has the schema.
    fragments : iterable of Fragment or lance.table.DataFragment
    fields : collection of int
        The top-level fields to check.

    Raises
    ------
    SchemaError
    """
    required = [
        (top.name, _below(message, top.id))
        for top in message.fields
        if top.parent_id == -1 and not top.nullable and top.id in fields
    ]
    for fragment in fragments if required else ():
        given = {field_id for file in fragment.files for field_id in file.fields}
        for name, ids in required:
            if not given & ids:
                raise SchemaError(
                    f"column {name!r} may not be null, but a fragment to be added lacks it", difference=name
                )


def _below(message: table_pb2.Manifest, top: int) -> set[int]:
    """Ids of a field and its descendants; parents precede their children."""
    found = {top}
    for field in message.fields:
        if field.parent_id in found:
            found.add(field.id)
    return found


def check_not_there(fragments: Sequence[Fragment], base: ManifestFile | None) -> None:
    """Refuse files that the table already has, because their rows would be duplicated."""
    paths = [(file.base_id, file.path) for fragment in fragments for file in fragment.files]
    known: set[tuple[int | None, str]] = set()
    if base is not None and base.may_have({path for _, path in paths}):
        known = {(file.base_id, file.path) for part in base.manifest.fragments for file in part.files}
    mine: set[tuple[int | None, str]] = set()
    for place in paths:
        if place in known:
            raise ConflictError(
                f"data file {place[1]!r} is part of the table already: it was committed before, or its fragment "
                "got new columns, which LanceOperation.Merge commits"
            )
        if place in mine:
            raise ConflictError(f"data file {place[1]!r} is in this change twice: give every fragment once")
        mine.add(place)


def version_of(file: DataFile) -> str:
    """The version of a data file, as in manifests.

    Examples
    --------
    >>> version_of(DataFile("a", (), (), 0, 2)), version_of(DataFile("b", (), (), 2, 1))
    ('0.1', '2.1')
    """
    if file.is_legacy:
        return "0.1"
    return "2.0" if (file.major, file.minor) == (0, 3) else f"{file.major}.{file.minor}"


def declare_versions(message: table_pb2.Manifest, files: Iterable[DataFile]) -> None:
    """Check versions of new files against the table's declared one, and set the flag of mixed versions.

    Raises
    ------
    SchemaError
        A file of 0.1 beside others, or one of which a reader does not know which column has which field.
    """
    found = set()
    for file in files:
        _check_columns(file)
        found.add(version_of(file))
    if not message.data_format.version and found:
        kept = [version_of(DataFile(f.path, (), (), f.file_major_version, f.file_minor_version))
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


def _check_columns(file: DataFile) -> None:
    """Refuse a file that states a field twice, or another number of columns than fields."""
    fields = [field for field in file.fields if field >= 0]
    if len(set(fields)) < len(fields):
        twice = next(field for field in fields if fields.count(field) > 1)
        raise SchemaError(
            f"data file {file.path!r} states field {twice} twice: each column has a field id of its own",
            difference="field ids",
        )
    if not file.is_legacy and len(file.fields) != len(file.column_indices):
        raise SchemaError(
            f"data file {file.path!r} states {len(file.fields)} fields and {len(file.column_indices)} columns: give "
            "column_indices as many numbers as fields",
            difference="column indices",
        )


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


def message_faults(message: table_pb2.Manifest) -> RowIdFaults:
    """``row_id_faults`` of a manifest's message; no faults in a table without stable row ids."""
    if not message.reader_feature_flags & STABLE_ROW_IDS:
        return RowIdFaults((), (), -1, message.next_row_id)
    parts = ((part.id, part.physical_rows or None, _stored(part)) for part in message.fragments)
    return faults_of(parts, message.next_row_id, DEFAULT_LIMITS)


def _stored(part: table_pb2.DataFragment) -> bytes | None:
    """Row ids as stored in a fragment: bytes, None without any, or the message of their external file."""
    kind = part.WhichOneof("row_id_sequence")
    return None if kind is None else getattr(part, kind)
