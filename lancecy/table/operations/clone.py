"""Clone: creates a table, or a branch, from a version of another table.

A shallow clone names the files of its source; a deep one has copies of them under the same names.

Source: table sheet, sections 4.2 and 6.4.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field

from lancecy.errors import UnsupportedError
from lancecy.limits import Limits
from lancecy.proto import table_pb2, transaction_pb2
from lancecy.records import dataclass
from lancecy.table import flags
from lancecy.table.manifest import BasePath
from lancecy.table.operations.base import Footprint, NewManifest, Operation, VersionStamp
from lancecy.table.operations.base_paths import move_bases
from lancecy.table.operations.foreign import check_no_mem_wal
from lancecy.table.operations.index_section import filtered
from lancecy.table.wire.fragment import encode_base_path
from lancecy.table.wire.manifest_file import ManifestFile

__all__ = ["Clone", "source_base_id"]


@dataclass(frozen=True, slots=True)
class Clone(Operation):
    """Create a table from a version of another one. The new table's first version has the same number.

    Attributes
    ----------
    version : int
        The source's version.
    path : str
        Root of the source, of its branch if it is one: an absolute path or URI.
    source_branch : str or None
        Branch of the source; None for a main table.
    branch : str or None
        The new table's branch; None unless a branch is created.
    is_shallow : bool
        Whether the new table uses the source's files.
    source : ManifestFile or None
        The source's version, to create the table.
    renamed : mapping of (base id or None, name) to str
        Of a deep clone: new names of data files whose name another base has too.
    kept_bases : frozenset of int
        Of a deep clone: bases that it still needs, because blobs are in objects there that are no files of the table.
    places : mapping of id to BasePath
        Bases of the source that are not where its manifest says, as they moved with it.
    """

    kinds = ("clone",)
    makes_tables = True

    version: int
    path: str
    source_branch: str | None = None
    branch: str | None = None
    is_shallow: bool = True
    source: ManifestFile | None = field(default=None, repr=False, compare=False)
    renamed: Mapping[tuple[int | None, str], str] = field(default_factory=dict, repr=False, compare=False)
    kept_bases: frozenset[int] = field(default=frozenset(), repr=False, compare=False)
    places: Mapping[int, BasePath] = field(default_factory=dict, repr=False, compare=False)

    @property
    def first_version(self) -> int:
        return self.version

    def footprints(self) -> tuple[Footprint, ...]:
        return (Footprint("clone"),)

    def create(self, stamp: VersionStamp) -> NewManifest:
        if self.source is None:
            raise ValueError("the version to clone is missing")
        manifest = self.source.manifest
        flags.check_writable(manifest.reader_flags, manifest.writer_flags)
        check_no_mem_wal(self.source)
        made = NewManifest.copy_of(self.source)
        message = made.message
        move_bases(message, self.places)
        message.ClearField("branch")
        if self.branch is not None:
            message.branch = self.branch
        if self.is_shallow:
            if manifest.has_stable_row_ids:
                _check_no_outside_parts(message)
            base = source_base_id({base.id for base in message.base_paths})
            _put_in_base(message, base)
            message.base_paths.append(encode_base_path(BasePath(base, self.path, self.source_branch, True)))
        else:
            base = None
            _put_in_own_root(message, self.renamed, self.kept_bases)
        indices = None if made.indices is None else _based(made.indices, base)
        return NewManifest(message, indices, made.dictionaries)

    def apply(self, base: ManifestFile, stamp: VersionStamp) -> NewManifest:
        raise ValueError("a clone creates a table and changes none")

    def encode(self, message: transaction_pb2.Transaction, made: table_pb2.Manifest) -> None:
        clone = message.clone
        clone.is_shallow, clone.ref_version, clone.ref_path = self.is_shallow, self.version, self.path
        if self.source_branch is not None:
            clone.ref_name = self.source_branch
        if self.branch is not None:
            clone.branch_name = self.branch

    @classmethod
    def decode(cls, message: transaction_pb2.Transaction, limits: Limits) -> Clone:
        stored = message.clone
        return cls(
            stored.ref_version,
            stored.ref_path,
            stored.ref_name if stored.HasField("ref_name") else None,
            stored.branch_name if stored.HasField("branch_name") else None,
            stored.is_shallow,
        )


def source_base_id(used: Collection[int]) -> int:
    """Id of the source's root among the bases of a shallow clone: the smallest unused one from 0 on.

    Parameters
    ----------
    used : collection of int
        Ids of the source's bases.

    Examples
    --------
    >>> source_base_id([]), source_base_id([1, 2]), source_base_id([0, 1])
    (0, 0, 2)
    """
    return next(number for number in range(len(used) + 1) if number not in used)


def _put_in_base(message: table_pb2.Manifest, base: int) -> None:
    """Set the base of all files in the source's own root."""
    for fragment in message.fragments:
        for file in fragment.files:
            if not file.HasField("base_id"):
                file.base_id = base
        if fragment.HasField("deletion_file") and not fragment.deletion_file.HasField("base_id"):
            fragment.deletion_file.base_id = base


def _put_in_own_root(
    message: table_pb2.Manifest, renamed: Mapping[tuple[int | None, str], str], kept: frozenset[int]
) -> None:
    """Put all files into the table's own root; bases of objects that are not copied stay."""
    bases = [base for base in message.base_paths if base.id in kept]
    del message.base_paths[:]
    message.base_paths.extend(bases)
    for fragment in message.fragments:
        for file in fragment.files:
            base = file.base_id if file.HasField("base_id") else None
            file.path = renamed.get((base, file.path), file.path)
            file.ClearField("base_id")
        if fragment.HasField("deletion_file"):
            fragment.deletion_file.ClearField("base_id")


def _based(indices: bytes, base: int | None) -> bytes | None:
    """An index section whose indices without a base are in one; None puts all into the table's own root."""

    def changed(raw: bytes) -> bytes:
        entry = table_pb2.IndexMetadata.FromString(raw)
        if base is None:
            entry.ClearField("base_id")
        elif not entry.HasField("base_id"):
            entry.base_id = base
        return entry.SerializeToString()

    return filtered(indices, lambda entry: changed(entry.raw))


def _check_no_outside_parts(message: table_pb2.Manifest) -> None:
    """Refuse row ids in files of their own, which have no base and would be missing in another table."""
    if any(
        fragment.HasField("external_row_ids")
        or fragment.HasField("external_last_updated_at_versions")
        or fragment.HasField("external_created_at_versions")
        for fragment in message.fragments
    ):
        raise UnsupportedError(
            "row ids of the table are in files of their own, which a clone cannot name: compact the table first",
            feature="clone of a table with row ids in files",
        )
