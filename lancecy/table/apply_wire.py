"""The next manifest, from the newest one and an operation. Pure: no storage, no clock.

It works on messages: what is not changed is copied, known or not. Fragments, config, bases and branch
are inherited; ids of fragments and rows only ever grow; sections are carried or dropped as the table
sheet says, because an index that survives on reused ids answers wrongly.

Facts: table sheet, sections 1.4, 3.2, 4.3 and 10.4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lancecy.errors import FormatError, LimitError, SchemaError, UnsupportedError, printable
from lancecy.proto import table_pb2
from lancecy.schema import Schema
from lancecy.schema_wire import encode_fields
from lancecy.table import flags
from lancecy.table.adding_wire import add_fragments, fragment_id_of, max_fragment_id
from lancecy.table.bases_wire import add_bases, check_bases_known, move_bases
from lancecy.table.config_wire import apply_config, mirror_keys
from lancecy.table.fragment_wire import decode_base_paths
from lancecy.table.indices_wire import decode_index_section
from lancecy.table.manifest import BasePath, Manifest
from lancecy.table.operations import (
    Append,
    Delete,
    Foreign,
    Operation,
    Overwrite,
    RepairRowIds,
    ReserveFragments,
    Restore,
    UpdateBases,
    UpdateConfig,
)
from lancecy.table.repair_wire import message_faults, repair_row_ids
from lancecy.table.rowid_checks import check_row_ids
from lancecy.table.stored_wire import Stored

__all__ = ["WRITER", "Built", "Facts", "apply"]

WRITER = ("lancecy", "0.1.0")
_MEM_WAL = "__lance_mem_wal"
# Bit 63 of a version marks those that are no part of the history.
_MAX_VERSION = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Facts:
    """What the operation does not say.

    Attributes
    ----------
    version : int
        Number of the version to be made.
    time_ns : int, ns since 1970
    transaction_file : str
        Name below ``_transactions/``.
    """

    version: int
    time_ns: int
    transaction_file: str


@dataclass(frozen=True, slots=True)
class Built:
    """A manifest to be written, and what goes into its file beside it."""

    message: table_pb2.Manifest
    indices: bytes | None
    dictionaries: bytes

    @property
    def places(self) -> Manifest:
        """As much of the manifest as says where its files are."""
        bases = decode_base_paths(self.message.base_paths)
        flags = self.message.reader_feature_flags
        return Manifest(self.message.version, Schema(()), base_paths=bases, reader_flags=flags)


def apply(
    base: Stored | None,
    operation: Operation,
    facts: Facts,
    restored: Stored | None = None,
    places: Mapping[int, BasePath] | None = None,
) -> Built:
    """The version that an operation makes of another.

    Parameters
    ----------
    base : Stored or None
        The newest version; None to create a table.
    operation : Operation
        Of a ``Delete``: with files, its rows no longer matter.
    facts : Facts
    restored : Stored, optional
        Of a ``Restore``: the version it names.
    places : mapping of id to BasePath, optional
        Of a ``Restore``: where the bases of that version are by now; where bases of the newest version are that have
        the same id, if not given.

    Raises
    ------
    SchemaError
        The operation does not fit the table: columns, versions of files, bases or a field that is not there.
    ConflictError
        Files it adds are in the table already, or a base is.
    UnsupportedError
        The table has features that would be lost.
    FormatError
        Its row ids are not in order, so that rows could get ids that others have.
    LimitError
        Versions, fragment ids or row ids are used up.
    ValueError
        An operation that cannot be, whatever the table.

    Source: table sheet, section 4.3.
    """
    if facts.version > _MAX_VERSION:
        raise LimitError("version numbers are used up", limit="", claimed=facts.version)
    if base is not None:
        flags.check_writable(base.manifest.reader_flags, base.manifest.writer_flags)
    built = _applied(base, operation, facts, restored)
    if base is not None and isinstance(operation, Restore):
        move_bases(built.message, base.manifest.base_paths if places is None else places)
    _check_row_ids(base, operation, restored)
    _finish(built.message, facts)
    return built


def _applied(base: Stored | None, operation: Operation, facts: Facts, restored: Stored | None) -> Built:
    if isinstance(operation, Overwrite):
        return _overwrite(base, operation, facts)
    if base is None:
        raise ValueError(f"{type(operation).__name__} makes no table: only Overwrite does")
    if isinstance(operation, Restore):
        return _restore(base, restored)
    message = table_pb2.Manifest()
    message.CopyFrom(base.message)
    match operation:
        case Append():
            add_fragments(message, operation.fragments, facts.version, base)
        case Delete():
            _delete(message, operation, base)
        case ReserveFragments():
            _reserve(message, operation.num_fragments)
        case UpdateConfig():
            apply_config(message, operation)
        case UpdateBases():
            add_bases(message, operation.bases, relocate=operation.relocate)
        case RepairRowIds():
            return Built(message, repair_row_ids(message, base.indices), base.dictionaries)
        case Foreign():
            raise ValueError(f"an operation of kind {operation.kind!r} is none that lancecy makes")
    return Built(message, base.indices, base.dictionaries)


# -- operations -----------------------------------------------------------------------------------


def _delete(message: table_pb2.Manifest, operation: Delete, base: Stored) -> None:
    gone = {*operation.files, *operation.removed} - set(base.places)
    if gone:
        raise SchemaError(f"the table has no fragment {min(gone)} to delete from")
    check_bases_known(message, (file.base_id for file in operation.files.values()))
    for fragment_id, file in operation.files.items():
        changed = base.with_deletion(fragment_id, file)
        message.fragments[base.places[fragment_id]].CopyFrom(changed)
    if operation.removed:
        removed = set(operation.removed)
        kept = [fragment for fragment in message.fragments if fragment.id not in removed]
        del message.fragments[:]
        message.fragments.extend(kept)


def _reserve(message: table_pb2.Manifest, count: int) -> None:
    if count < 1:
        raise ValueError(f"{count} fragments cannot be reserved")
    # The reference counts from 0 where no fragment ever was, so that this reserves 1 to n.
    message.max_fragment_id = fragment_id_of(max(0, max_fragment_id(message)) + count)


def _overwrite(base: Stored | None, operation: Overwrite, facts: Facts) -> Built:
    message = table_pb2.Manifest()
    if base is not None:
        _check_no_mem_wal(base)
        if operation.initial_bases or operation.stable_row_ids:
            raise ValueError("bases and stable row ids are chosen when a table is created, not overwritten")
        message.CopyFrom(base.message)
        if (largest := max_fragment_id(message)) >= 0:
            message.max_fragment_id = largest  # old releases left it out
        del message.fields[:], message.fragments[:], message.clustering[:]
        message.schema_metadata.clear()
    elif operation.data_version is None:
        raise ValueError("a new table needs a version of its data files")
    elif operation.stable_row_ids:
        message.reader_feature_flags = flags.STABLE_ROW_IDS
    message.fields.extend(encode_fields(operation.schema.fields))
    for field in message.fields:
        mirror_keys(field)
    _check_dictionaries(message, operation.data_version)
    message.schema_metadata.update(operation.schema.metadata)
    message.config.update(operation.config)
    if operation.data_version is not None:
        message.data_format.file_format, message.data_format.version = "lance", operation.data_version
        # All files are new, so only they say whether versions are mixed.
        message.reader_feature_flags &= ~flags.MIXED_FILE_VERSIONS
    add_bases(message, operation.initial_bases)
    add_fragments(message, operation.fragments, facts.version, base)
    return Built(message, None, operation.dictionaries)


def _check_dictionaries(message: table_pb2.Manifest, version: str | None) -> None:
    """Refuse columns of a 0.1 table whose codes would name nothing: their dictionaries are in the manifest's file."""
    if (version or message.data_format.version) != "0.1":
        return
    for field in message.fields:
        if field.logical_type.startswith("dict:") and not field.dictionary.length:
            raise SchemaError(
                f"column {printable(field.name)!r} has a dictionary, which is not given; a table of version 0.1 has "
                "one for all of its files: make it with lancecy.write_dataset",
                difference=field.name,
            )


def _restore(base: Stored, restored: Stored | None) -> Built:
    if restored is None:
        raise ValueError("the version to restore is missing")
    old = restored.manifest
    flags.check_writable(old.reader_flags, old.writer_flags)
    _check_no_mem_wal(base)
    if base.manifest.has_stable_row_ids and not old.has_stable_row_ids:
        raise UnsupportedError(
            f"version {old.version} has no stable row ids, so restoring it would give rows new ids",
            feature="restore without stable row ids",
        )
    message = table_pb2.Manifest()
    message.CopyFrom(restored.message)
    # Numbers that were given out since stay given out.
    largest = max(max_fragment_id(base.message), max_fragment_id(restored.message))
    if largest >= 0:
        message.max_fragment_id = largest
    used = message_faults(base.message).largest + 1  # a restore is a way out of a next id that is too low
    message.next_row_id = max(base.message.next_row_id, restored.message.next_row_id, used)
    return Built(message, restored.indices, restored.dictionaries)


# -- the rest -------------------------------------------------------------------------------------


def _check_row_ids(base: Stored | None, operation: Operation, restored: Stored | None) -> None:
    """Refuse to go on from a version whose row ids are not in order, unless that is what is being mended."""
    source = restored if isinstance(operation, Restore) else base
    if source is not None and not isinstance(operation, RepairRowIds):
        check_row_ids(message_faults(source.message), source.version)


def _check_no_mem_wal(base: Stored) -> None:
    if base.indices and any(entry.name == _MEM_WAL for entry in decode_index_section(base.indices)):
        raise UnsupportedError(
            "the table has rows in a write-ahead log, which this change would cut off", feature=_MEM_WAL
        )


def _finish(message: table_pb2.Manifest, facts: Facts) -> None:
    """What every version says of itself."""
    message.version = facts.version
    message.timestamp.FromNanoseconds(facts.time_ns)
    message.transaction_file = facts.transaction_file
    message.ClearField("tag")
    message.ClearField("writer_version")
    message.writer_version.library, message.writer_version.version = WRITER
    ids = [fragment.id for fragment in message.fragments]
    if ids != sorted(ids):
        message.fragments.sort(key=lambda fragment: fragment.id)
    if len(set(ids)) < len(ids):
        raise FormatError("two fragments of the table have the same id")
    _set_flags(message)


def _set_flags(message: table_pb2.Manifest) -> None:
    # Recomputed from content, like the reference does; what content does not show is carried over.
    carried = message.reader_feature_flags & (flags.STABLE_ROW_IDS | flags.MIXED_FILE_VERSIONS)
    shown: tuple[tuple[int, Callable[[], bool]], ...] = (
        (flags.DELETIONS, lambda: any(part.HasField("deletion_file") for part in message.fragments)),
        (flags.BASES, lambda: bool(message.base_paths)),
    )
    both = carried | sum(bit for bit, present in shown if present())
    message.reader_feature_flags = both
    message.writer_feature_flags = both | (flags.CONFIG if message.config else 0)
