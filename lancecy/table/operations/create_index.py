"""CreateIndex: adds entries to the index section, and removes some. Files of indices are neither written nor opened.

An index is trusted for the fragments that it covers. So a new one does not cover fragments whose columns changed
since the version it was made from.

Source: table sheet, sections 4.3, 4.4 and 10.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Self

from lancecy.errors import SchemaError, UnsupportedError, printable
from lancecy.limits import Limits
from lancecy.proto import table_pb2, transaction_pb2
from lancecy.records import dataclass
from lancecy.table.manifest import IndexEntry
from lancecy.table.operations.base import Footprint, Newest, NewManifest, Operation, VersionStamp
from lancecy.table.operations.base_paths import check_bases_known
from lancecy.table.operations.index_section import (
    FRAGMENT_REUSE,
    DeferredMoves,
    covered,
    covered_since,
    is_other_type,
    settled,
)
from lancecy.table.operations.new_fragments import max_fragment_id
from lancecy.table.requests import Steps
from lancecy.table.wire.indices import decode_index, decode_index_section, encode_index_section
from lancecy.table.wire.manifest_file import ManifestFile

__all__ = ["CreateIndex"]

_OF_THE_SYSTEM = "__lance_"


@dataclass(frozen=True, slots=True)
class CreateIndex(Operation):
    """Add indices to a table, and remove some. Several entries of one name are parts of one index.

    Attributes
    ----------
    new : tuple of IndexEntry
        Entries with the same ids are replaced; others of the same name stay.
    removed : tuple of IndexEntry
        Only their ids count. Entries that the table lacks are passed over. Without the system index of deferred
        compactions, the indices that wait for a remapping cover what they name by its present addresses.
    """

    kinds = ("index",)

    new: tuple[IndexEntry, ...] = ()
    removed: tuple[IndexEntry, ...] = ()

    def footprints(self) -> tuple[Footprint, ...]:
        return (
            Footprint(
                "index",
                rewritten=frozenset().union(*(covered(entry) or () for entry in self.new)),
                upserts=frozenset(entry.name for entry in self.new),
                deletes=frozenset(entry.name for entry in self.removed),
                fields=frozenset(field for entry in self.new for field in entry.fields),
            ),
        )

    def resolve(self, newest: Newest, before: tuple[Self, ManifestFile] | None) -> Steps[Self]:
        """The operation whose indices cover no fragment with other values than those they were made from.

        Parameters
        ----------
        newest : Newest
        before : (CreateIndex, ManifestFile), optional
            Not used: fragments may have changed since.

        Raises
        ------
        FormatError
            A version that an index was made from is damaged.
        """
        new = []
        for entry in self.new:
            made_from = yield from newest.others.at(entry.dataset_version)
            # Without that version, the conflict check alone knows of changes.
            raw = entry.raw if made_from is None else covered_since(entry, made_from, newest.stored.message)
            new.append(entry if raw is entry.raw else decode_index(raw, newest.limits))
        return replace(self, new=tuple(new))

    def apply(self, base: ManifestFile, stamp: VersionStamp) -> NewManifest:
        known = decode_index_section(base.indices) if base.indices else ()
        gone = {entry.uuid for entry in (*self.removed, *self.new)}
        removed = (entry for entry in known if entry.uuid in gone and entry.name != FRAGMENT_REUSE)
        _check_not_of_the_system((*self.new, *removed))
        kept = _settled(tuple(entry for entry in known if entry.uuid not in gone), self, known, base)
        made = NewManifest.copy_of(base)
        check_bases_known(made.message, (entry.base_id for entry in self.new), "an index")
        for position, entry in enumerate(self.new):
            _check_fits(entry, base)
            _check_parts(entry, (*kept, *self.new[:position]))
        return replace(made, indices=encode_index_section((*kept, *self.new)))

    def encode(self, message: transaction_pb2.Transaction, made: table_pb2.Manifest) -> None:
        stored = message.create_index
        stored.SetInParent()
        for entry in self.new:
            stored.new_indices.add().MergeFromString(entry.raw)
        for entry in self.removed:
            stored.removed_indices.add().MergeFromString(entry.raw)

    @classmethod
    def decode(cls, message: transaction_pb2.Transaction, limits: Limits) -> CreateIndex:
        stored = message.create_index
        new, removed = (
            tuple(decode_index(index.SerializeToString(), limits) for index in indices)
            for indices in (stored.new_indices, stored.removed_indices)
        )
        return cls(new, removed)


def _settled(
    kept: tuple[IndexEntry, ...], change: CreateIndex, known: Sequence[IndexEntry], base: ManifestFile
) -> tuple[IndexEntry, ...]:
    """Entries that stay, which no longer count on a remapping if that ends, or if a new part of their index covers its rows."""
    moves = DeferredMoves.of(known)
    if moves is None:
        return kept
    ends = all(entry.name != FRAGMENT_REUSE for entry in kept)
    names = {entry.name for entry in change.new}
    stored = [
        settled(entry, moves, base.positions) if ends or entry.name in names else entry.raw for entry in kept
    ]
    return tuple(
        entry if raw is entry.raw else decode_index(raw)
        for entry, raw in zip(kept, stored, strict=True)
        if raw is not None
    )


def _check_not_of_the_system(entries: Iterable[IndexEntry]) -> None:
    """Refuse to add or remove what is stored as an index and is none: rows may depend on it."""
    for entry in entries:
        if entry.name.startswith(_OF_THE_SYSTEM):
            raise UnsupportedError(
                f"{entry.name!r} is no index but a part of the table, which is not added or removed by hand",
                feature=entry.name,
            )


def _check_fits(entry: IndexEntry, base: ManifestFile) -> None:
    """Refuse an index whose fields or fragments the table never had."""
    if not entry.fields:
        raise ValueError(f"index {entry.name!r} has no fields: name the ids of the indexed columns")
    unknown = set(entry.fields) - base.field_types.keys()
    if unknown:
        raise SchemaError(
            f"index {entry.name!r} is on field {min(unknown)}, which the table lacks", difference="field ids"
        )
    largest = max(covered(entry) or (), default=-1)
    if largest > max_fragment_id(base.message):
        # A later fragment would get the id, and the index would be trusted for it.
        raise ValueError(f"index {entry.name!r} covers fragment {largest}, which the table never had")


def _check_parts(entry: IndexEntry, others: Sequence[IndexEntry]) -> None:
    """Refuse an entry that cannot be a part of the index of its name."""
    for other in others:
        if other.uuid == entry.uuid:
            raise ValueError(f"index {entry.uuid} is given twice")
        if other.name != entry.name:
            continue
        if other.fields != entry.fields:
            raise ValueError(
                f"there is an index {entry.name!r} on other columns: choose another name, or put that index into "
                "removed_indices"
            )
        if is_other_type(entry, other):
            # pylance answers no filter on the column of an index whose parts are of several types.
            raise ValueError(
                f"there is an index {entry.name!r} with {printable(other.details_type.rpartition('.')[2])}, and a part of it "
                f"cannot have {printable(entry.details_type.rpartition('.')[2])}: choose another name, or put that index "
                "into removed_indices"
            )
        shared = (covered(entry) or frozenset()) & (covered(other) or frozenset())
        if shared:
            raise ValueError(
                f"there is an index {entry.name!r} that covers fragment {min(shared)} already: put it into "
                "removed_indices"
            )
