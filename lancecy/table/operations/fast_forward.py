"""FastForward: makes the content of a branch's version the next version of the branch's parent.

It is stored as an overwrite, the only operation that every release of either library takes for an exclusive one: writers
that began before it get a conflict, where after a stored clone (which is what it resembles) pylance would append rows
of an old schema, and after a merge it would add an index of old values. Only changes of the configuration, new bases,
other overwrites and restores are committed after it, and all of these are right then. The names of its files in the
transaction also protect them from cleanups while it is being committed. Unlike an overwrite, it keeps row ids, fragment
ids and indices, which readers of the transaction learn from its property ``FAST_FORWARD``.

Source: table sheet, sections 3.2, 4.4, 6.4 and 10.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from lancecy.errors import ConflictError, UnsupportedError
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.proto import table_pb2, transaction_pb2
from lancecy.records import dataclass
from lancecy.table import flags
from lancecy.table.manifest import BasePath, Fragment, IndexEntry
from lancecy.table.operations.base import Footprint, NewManifest, Operation, References, VersionStamp
from lancecy.table.operations.base_paths import encode_bases
from lancecy.table.operations.foreign import check_no_mem_wal
from lancecy.table.operations.index_section import check_movable, filtered
from lancecy.table.operations.new_fragments import max_fragment_id
from lancecy.table.operations.overwrite import Overwrite
from lancecy.table.rows.row_ids import VersionSequence, renumbered, renumbered_version
from lancecy.table.wire.manifest_file import ManifestFile
from lancecy.table.wire.row_ids import decode_versions, encode_versions

__all__ = ["FAST_FORWARD", "FastForward"]

FAST_FORWARD = "lancecy.fast_forward"
"""Transaction property that tells which versions of which branch a version is a copy of (``changes.lineage``)."""

_CREATED: Literal["created_at_version_sequence"] = "created_at_version_sequence"
_UPDATED: Literal["last_updated_at_version_sequence"] = "last_updated_at_version_sequence"
_INLINE = ("inline_created_at_versions", "inline_last_updated_at_versions")


@dataclass(frozen=True, slots=True)
class FastForward(Operation):
    """Make the content of a branch's version the next version of its parent.

    Attributes
    ----------
    source : ManifestFile
        The version of the branch.
    places : mapping of (int or None) to (int or None)
        For each base of the branch, where the parent has its files; None is a table's own folder.
    steps : tuple of (int, int)
        Versions of the branch and those of the parent with the same content, ascending; the last pair is this change.
        Versions of rows between two pairs become that of the second one.
    bases : tuple of BasePath
        Bases that the parent gets.
    copied : tuple of Fragment
        Fragments with those of their files that were copied into the parent's folder.
    config : mapping of str to str
        Keys of the configuration that get other values: for conflicts with others that set them.
    """

    kinds = ("fast_forward",)

    source: ManifestFile = field(repr=False)
    places: Mapping[int | None, int | None]
    steps: tuple[tuple[int, int], ...]
    bases: tuple[BasePath, ...] = ()
    copied: tuple[Fragment, ...] = field(default=(), repr=False)
    config: Mapping[str, str] = field(default_factory=dict)

    def footprints(self) -> tuple[Footprint, ...]:
        return (Footprint("fast_forward"),)

    def apply(self, base: ManifestFile, stamp: VersionStamp) -> NewManifest:
        if stamp.version != self.steps[-1][1] or stamp.is_detached:
            raise ConflictError(
                f"this fast-forward makes version {self.steps[-1][1]}, and not {stamp.version}"
            )
        theirs = self.source.manifest
        flags.check_writable(theirs.reader_flags, theirs.writer_flags)
        check_no_mem_wal(base)
        check_no_mem_wal(self.source)
        if self.source.indices != base.indices:
            check_movable(self.source)  # its entries name versions of the branch
        made = NewManifest.copy_of(self.source)
        message = made.message
        message.ClearField("branch")
        if base.message.HasField("branch"):
            message.branch = base.message.branch
        del message.base_paths[:]
        message.base_paths.extend(base.message.base_paths)
        message.base_paths.extend(encode_bases(self.bases))
        self._keep_given_out(message, base.message)
        for fragment in message.fragments:
            self._move(fragment)
        return NewManifest(message, self._indices(), made.dictionaries, made.continues)

    @staticmethod
    def _keep_given_out(message: table_pb2.Manifest, newest: table_pb2.Manifest) -> None:
        largest = max(max_fragment_id(newest), max_fragment_id(message))
        if largest >= 0:
            message.max_fragment_id = largest
        message.next_row_id = max(newest.next_row_id, message.next_row_id)

    def _move(self, fragment: table_pb2.DataFragment) -> None:
        """Make a fragment of the branch one of the parent."""
        for file in fragment.files:
            self._place(file)
        if fragment.HasField("deletion_file"):
            self._place(fragment.deletion_file)
        stored = (fragment.WhichOneof(_CREATED), fragment.WhichOneof(_UPDATED))
        is_elsewhere = any(mine not in (None, known) for mine, known in zip(stored, _INLINE, strict=True))
        if is_elsewhere or fragment.HasField("external_row_ids"):
            raise UnsupportedError(
                f"row ids or versions of fragment {fragment.id} are not in the manifest; compact the branch first, so that "
                "they are",
                feature="fast-forward of row ids or versions in files",
            )
        for name in _INLINE:
            if known := getattr(fragment, name):
                setattr(fragment, name, _renumbered(known, self.steps))

    def _place(self, file: table_pb2.DataFile | table_pb2.DeletionFile | table_pb2.IndexMetadata) -> None:
        place = self.places[file.base_id if file.HasField("base_id") else None]
        if place is None:
            file.ClearField("base_id")
        else:
            file.base_id = place

    def _indices(self) -> bytes | None:
        return None if self.source.indices is None else filtered(self.source.indices, self._entry)

    def _entry(self, entry: IndexEntry) -> bytes:
        message = table_pb2.IndexMetadata.FromString(entry.raw)
        self._place(message)
        message.dataset_version = renumbered_version(message.dataset_version, self.steps)
        return message.SerializeToString()

    def encode(self, message: transaction_pb2.Transaction, made: table_pb2.Manifest) -> None:
        overwrite = message.overwrite
        overwrite.SetInParent()
        for fragment in made.fragments:
            added = overwrite.fragments.add()
            added.CopyFrom(fragment)
            # Operations that add fragments carry no row ids; those of the version are in its manifest.
            added.ClearField("row_id_sequence")
            added.ClearField(_CREATED)
            added.ClearField(_UPDATED)
        overwrite.schema.extend(made.fields)
        overwrite.schema_metadata.update(made.schema_metadata)
        overwrite.config_upsert_values.update(self.config)

    @classmethod
    def decode(cls, message: transaction_pb2.Transaction, limits: Limits) -> Operation:
        return Overwrite.decode(message, limits)

    def references(self) -> References:
        return References(fragments=self.copied, bases=self.bases)

    @property
    def changes_schema(self) -> bool:
        return True


def _renumbered(stored: bytes, steps: tuple[tuple[int, int], ...]) -> bytes:
    """A stored sequence of versions in the numbers of the parent; its bytes stay if no number changes."""
    known = decode_versions(stored, None, DEFAULT_LIMITS)
    versions = renumbered(known.versions, steps)
    if (versions == known.versions).all():
        return stored
    return encode_versions(VersionSequence(known.starts, versions))
