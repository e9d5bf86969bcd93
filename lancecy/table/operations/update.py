"""Update: moves rows to new fragments with other values and adds rows, or gives columns of fragments other files.

A row that moves is deleted where it was, and keeps its row id and created version. Rows are deleted as
``deletions`` says, so two updates of different rows of one fragment can both be committed.

Source: table sheet, sections 2.3, 3.2, 4.2 and 4.4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lancecy.errors import FormatError, RetryableConflictError, SchemaError
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.proto import table_pb2, transaction_pb2
from lancecy.records import dataclass
from lancecy.table import flags
from lancecy.table.manifest import DataFile, DeletionFile, Fragment
from lancecy.table.operations.base import (
    Added,
    Footprint,
    Newest,
    NewManifest,
    Operation,
    References,
    VersionStamp,
)
from lancecy.table.operations.base_paths import check_bases_known
from lancecy.table.operations.deletions import Deletions, delete_in, resolve_rows
from lancecy.table.operations.fragment_files import put_file
from lancecy.table.operations.index_section import carried, with_updated_rows
from lancecy.table.operations.key_filter import KeyFilter
from lancecy.table.operations.new_fragments import (
    add_fragments,
    check_not_there,
    declare_versions,
    decode_fragments,
    encode_fragments,
)
from lancecy.table.operations.replaced import replace_fragments
from lancecy.table.operations.row_lineage import set_updated, with_created_versions
from lancecy.table.requests import Call, Steps
from lancecy.table.rows import roaring
from lancecy.table.wire.manifest_file import ManifestFile
from lancecy.table.wire.row_ids import decode_row_ids

__all__ = ["Update"]

Int64: TypeAlias = NDArray[np.int64]

_Message: TypeAlias = transaction_pb2.Transaction.Update


@dataclass(frozen=True, slots=True)
class Update(Operation):
    """Move rows, add rows and remove fragments; or replace columns in place. Comparisons leave out arrays and keys.

    Attributes
    ----------
    rows : mapping of fragment id to (n,) int64, ascending
        Offsets of live rows that move or go away.
    fragments : tuple of Fragment
        New fragments, without ids. Their first rows keep the row ids and created versions that they state; the
        commit gives the other rows fresh ones.
    removed : tuple of int
        Fragments to remove.
    columns : mapping of fragment id to DataFile
        New files of existing fragments; older files of the fragment lose the fields of the new one.
    updated_rows : mapping of fragment id to (n,) int64, ascending
        The rows whose values in ``columns`` are new, which get a new updated version.
    fields : tuple of int
        Fields that got values.
    keys : KeyFilter or None
        Keys of the rows that are not in the table before, so that no other change may add them too.
    files : mapping of fragment id to DeletionFile
        Complete deletion files that are written already. Cannot be merged with others' deletes.
    updated : tuple of Fragment
        Fragments as they are after the change, with all files. Cannot be merged with others' deletes.
    in_place : bool
        Whether ``updated`` fragments have other data files.
    has_keys : function of Added, optional
        Reads rows that others added, and tells whether any has one of the keys. Not part of the stored transaction.
    """

    kinds = ("update_rows", "update_columns")
    writes = "deletion"

    rows: Mapping[int, Int64] = field(default_factory=dict, compare=False)
    fragments: tuple[Fragment, ...] = ()
    removed: tuple[int, ...] = ()
    columns: Mapping[int, DataFile] = field(default_factory=dict)
    updated_rows: Mapping[int, Int64] = field(default_factory=dict, compare=False)
    fields: tuple[int, ...] = ()
    keys: KeyFilter | None = field(default=None, compare=False)
    files: Mapping[int, DeletionFile] = field(default_factory=dict)
    updated: tuple[Fragment, ...] = ()
    in_place: bool = False
    has_keys: Callable[[Added], bool] | None = field(default=None, compare=False, repr=False)

    @property
    def _replaces_columns(self) -> bool:
        return bool(self.columns) or self.in_place

    def footprints(self) -> tuple[Footprint, ...]:
        updated = {part.id for part in self.updated}
        removed, changed = frozenset(self.removed), frozenset({*self.rows, *self.files})
        if self._replaces_columns:
            rewritten = removed | changed | updated | self.columns.keys()
            return (
                Footprint(
                    "update_columns",
                    rewritten=frozenset(rewritten),
                    knows_rows=not (changed or updated),
                    fields=frozenset(self.fields),
                    keys=self.keys,
                ),
            )
        knows = not (self.files or self.updated)
        return (Footprint("update_rows", changed | updated, removed, knows_rows=knows, keys=self.keys),)

    def adds_same_keys(self, added: Added) -> Steps[bool]:
        if self.has_keys is None:
            return True
        found: bool = yield Call(partial(self.has_keys, added))
        return found

    def resolve(self, newest: Newest, before: tuple[Self, ManifestFile] | None) -> Steps[Self]:
        """The update with deletion files and removed fragments of the newest version.

        Parameters
        ----------
        newest : Newest
        before : (Update, ManifestFile), optional
            Files of fragments unchanged since the earlier attempt are reused.

        Raises
        ------
        RetryableConflictError
            A fragment was removed, or its rows were deleted since.
        ValueError
            The rows are not ascending row offsets of the fragment.
        FormatError, DatasetNotFoundError
            A deletion file is damaged or missing.
        """
        gone = sorted(self.columns.keys() - newest.stored.fragments.keys())
        if gone:
            raise RetryableConflictError(
                f"fragment {gone[0]} is not in version {newest.stored.version} any more: compute its columns again"
            )

        earlier = None if before is None else (before[0].files, before[1])
        found = yield from resolve_rows(self.rows, newest, earlier)
        return replace(
            self, rows={}, files={**self.files, **found.files}, removed=(*self.removed, *found.removed)
        )

    def apply(self, base: ManifestFile, stamp: VersionStamp) -> NewManifest:
        made = NewManifest.copy_of(base)
        message = made.message
        files = list(self.columns.values())
        check_not_there([*self.fragments, *(Fragment(0, (file,)) for file in files)], base)
        check_bases_known(message, (file.base_id for file in files))
        declare_versions(message, files)
        replace_fragments(message, self.updated, base)
        for fragment_id, file in self.columns.items():
            put_file(message.fragments[base.positions[fragment_id]], file)
        new = self.fragments
        if message.reader_feature_flags & flags.STABLE_ROW_IDS:
            self._date(message, base, stamp.version)
            new = with_created_versions(new, base, stamp.version)
        delete_in(made, Deletions(self.files, self.removed), base)
        indices = carried(base, message) if self._replaces_columns else made.indices
        first = len(message.fragments)
        add_fragments(message, new, stamp.version, base, keep_rows=True)
        if indices and not self._replaces_columns and self.fields and not self.updated:
            came = self._moved_whole(message.fragments[first:])
            if came:
                old = {*self.files, *self.removed}
                indices = with_updated_rows(indices, message, old, came, frozenset(self.fields))
        return replace(made, indices=indices)

    def _moved_whole(self, added: Sequence[table_pb2.DataFragment]) -> frozenset[int]:
        """Ids of the new fragments all of whose rows were in the table before, under the same row ids."""
        kept = (_states_all_rows(fragment) for fragment in self.fragments)
        return frozenset(part.id for part, is_kept in zip(added, kept, strict=True) if is_kept)

    def _date(self, message: table_pb2.Manifest, base: ManifestFile, version: int) -> None:
        """Set the updated version of the rows that got other values in place."""
        for fragment_id, rows in self.updated_rows.items():
            part = message.fragments[base.positions[fragment_id]] if fragment_id in base.positions else None
            if part is None or (rows.size and int(rows[-1]) >= part.physical_rows):
                raise SchemaError(
                    f"the table has no fragment {fragment_id} with the rows that are said to be updated"
                )
            set_updated(part, version, rows)

    def encode(self, message: transaction_pb2.Transaction, made: table_pb2.Manifest) -> None:
        update = message.update
        update.SetInParent()
        changed = {*self.files, *self.columns, *(part.id for part in self.updated)}
        update.updated_fragments.extend(part for part in made.fragments if part.id in changed)
        update.removed_fragment_ids.extend(self.removed)
        update.new_fragments.extend(encode_fragments(self.fragments, keep_rows=True))
        if self._replaces_columns:
            update.update_mode = _Message.REWRITE_COLUMNS
            update.fields_modified.extend(self.fields)
            for fragment_id, rows in self.updated_rows.items():
                update.updated_fragment_offset_bitmaps[fragment_id] = roaring.encode(rows)
        else:
            update.fields_for_preserving_frag_bitmap.extend(self.fields)
        if self.keys is not None:
            self.keys.encode(update.inserted_rows)

    @classmethod
    def decode(cls, message: transaction_pb2.Transaction, limits: Limits) -> Update:
        stored = message.update
        # Releases before the mode existed stated only the rewritten columns.
        in_place = stored.update_mode == _Message.REWRITE_COLUMNS or bool(stored.fields_modified)
        fields = stored.fields_modified if in_place else stored.fields_for_preserving_frag_bitmap
        offsets = {
            number: _offsets(bitmap, limits)
            for number, bitmap in stored.updated_fragment_offset_bitmaps.items()
        }
        return cls(
            fragments=decode_fragments(stored.new_fragments, limits),
            removed=tuple(stored.removed_fragment_ids),
            updated_rows=offsets,
            fields=tuple(fields),
            keys=KeyFilter.decode(stored.inserted_rows) if stored.HasField("inserted_rows") else None,
            updated=decode_fragments(stored.updated_fragments, limits),
            in_place=in_place,
        )

    def references(self) -> References:
        columns = (Fragment(number, (file,)) for number, file in self.columns.items())
        return References((*self.fragments, *columns))

    def written_fields(self) -> frozenset[int]:
        files = [file for fragment in self.fragments for file in fragment.files]
        return frozenset(number for file in (*files, *self.columns.values()) for number in file.fields)


def _states_all_rows(fragment: Fragment) -> bool:
    """Whether a new fragment states the row ids of all of its rows, so that none of them is new."""
    if not isinstance(fragment.row_ids, bytes) or not fragment.physical_rows:
        return False
    return len(decode_row_ids(fragment.row_ids, None, DEFAULT_LIMITS)) == fragment.physical_rows


def _offsets(bitmap: bytes, limits: Limits) -> Int64:
    try:
        return roaring.decode(np.frombuffer(bitmap, np.uint8), limits)
    except FormatError as error:
        raise error.within("rows of an update")
