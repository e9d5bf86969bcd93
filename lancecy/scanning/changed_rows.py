"""The rows that differ between two versions of a table, from metadata alone.

Fragments that have the same files and deletions in both versions are never looked at. In a table with stable row
ids, rows are compared by id and by the version that last updated them: a row that only moved, as in a compaction,
has not changed. In other tables a row is its address, so that a row written elsewhere is another row.

Facts: table sheet, section 3.2.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lancecy.kernels.sorting import sorted_order
from lancecy.records import dataclass
from lancecy.scanning.context import ScanContext
from lancecy.scanning.virtual import virtual_values
from lancecy.table.manifest import DataFile, DeletionFile, Fragment
from lancecy.table.rows.deletion import DeletionVector
from lancecy.table.rows.id_index import RowIndex
from lancecy.table.rows.id_index_build import index_rows
from lancecy.table.rows.row_ids import RowIdSequence, renumbered
from lancecy.table.snapshot import Snapshot

__all__ = ["ChangedRows", "CommonPoint", "Side", "VersionPair"]

Int64: TypeAlias = NDArray[np.int64]
UInt64: TypeAlias = NDArray[np.uint64]
Bool: TypeAlias = NDArray[np.bool_]
Side: TypeAlias = Literal["old", "new"]
"""The version in which a row is read: deleted rows and old values in the old one, the others in the new one."""

_FAR: dict[Side, Side] = {"old": "new", "new": "old"}
_BLOCK = 1 << 20
_ADDRESS_BITS = np.uint64(32)
_OFFSETS = np.uint64(0xFFFFFFFF)
_CREATED, _UPDATED = "_row_created_at_version", "_row_last_updated_at_version"


@dataclass(frozen=True, slots=True, eq=False)
class ChangedRows:
    """Some rows of a fragment that differ between the versions.

    Attributes
    ----------
    offsets : (n,) int64, ascending
        Physical row offsets.
    is_update : (n,) bool
        Whether the row is in both versions, with other values.
    versions : (n,) int64
        Version that changed the row, 0 if unknown.
    """

    offsets: Int64
    is_update: Bool
    versions: Int64


@dataclass(frozen=True, slots=True)
class CommonPoint:
    """The last state that two versions of different branches have in common.

    After it, both branches give the same fragment ids, row ids and version numbers to different things.

    Attributes
    ----------
    old, new : int
        Its number in the history of each of the two versions.
    next_row_id : int
        Smaller row ids stand for the same rows in both.
    max_fragment_id : int
        Fragment ids up to this one stand for the same fragments in both; -1 for none.
    old_steps, new_steps : tuple of (int, int)
        How the versions of rows are renumbered before they are compared (``row_ids.renumbered``); empty if they count alike.
    """

    old: int
    new: int
    next_row_id: int
    max_fragment_id: int
    old_steps: tuple[tuple[int, int], ...] = ()
    new_steps: tuple[tuple[int, int], ...] = ()

    def changed_since(self, side: Side, versions: UInt64) -> Bool:
        """Which versions of rows were made after this point: (n,) bool."""
        later: Bool = versions > np.uint64(self.old if side == "old" else self.new)
        return later

    def comparable(self, side: Side, versions: UInt64) -> UInt64:
        """Versions of rows, (n,) uint64, in numbers that are alike for both sides."""
        return renumbered(versions, self.old_steps if side == "old" else self.new_steps)


class VersionPair:
    """Two versions of a table.

    Attributes
    ----------
    old : ScanContext or None
        None for the state before the first version. Its schema has the names of the new one.
    new : ScanContext
    same_fields : frozenset of int
        Field ids that stand for one column in both versions.
    same_fragments : bool
        Whether a fragment id stands for the same rows in both versions.
    tells_updates : bool
        Whether the updated version of a row that moved tells whether its values changed.
    common : CommonPoint or None
        Where the histories of the two part; None if the new version came after the old one.
    """

    def __init__(
        self,
        old: ScanContext | None,
        new: ScanContext,
        same_fields: frozenset[int],
        same_fragments: bool,
        tells_updates: bool = True,
        common: CommonPoint | None = None,
    ) -> None:
        self.old = old
        self.new = new
        self.same_fields = same_fields
        self.same_fragments = same_fragments
        self.tells_updates = tells_updates
        self.common = common
        self._indices: dict[Side, RowIndex] = {}
        self._silent: dict[int, bool] = {}
        self._indexing = threading.Lock()

    def side(self, side: Side) -> ScanContext | None:
        """The context of a version."""
        return self.old if side == "old" else self.new

    @cached_property
    def has_row_ids(self) -> bool:
        """Whether rows of both versions have ids of their own, which tell one row from another."""
        both = [context.snapshot.manifest for context in (self.old, self.new) if context is not None]
        return all(manifest.has_stable_row_ids for manifest in both)

    # -- fragments ------------------------------------------------------------

    def touched(self, side: Side) -> tuple[Fragment, ...]:
        """The fragments of a version that may have changed rows."""
        return self._touched[side]

    @cached_property
    def _touched(self) -> dict[Side, tuple[Fragment, ...]]:
        if self.old is None:
            return {"old": (), "new": self.new.fragments}
        before = {fragment.id: fragment for fragment in self.old.fragments}
        same = {
            fragment.id
            for fragment in self.new.fragments
            if self._is_kept(fragment.id)
            and self._has_same_deletions(before[fragment.id].deletion_file, fragment.deletion_file)
        }
        return {
            "old": tuple(fragment for fragment in self.old.fragments if fragment.id not in same),
            "new": tuple(fragment for fragment in self.new.fragments if fragment.id not in same),
        }

    @cached_property
    def _kept(self) -> dict[int, bool]:
        """Fragments of both versions whose rows are the same, by id: whether the values are too."""
        if self.old is None:
            return {}
        before = {fragment.id: fragment for fragment in self.old.fragments}
        found = {}
        for fragment in self.new.fragments:
            other = before.get(fragment.id)
            if other is None:
                continue
            shares = {self._place(file) for file in other.files} & {
                self._place(file) for file in fragment.files
            }
            # A fragment that a fast-forward brought has the same files, also where its record was cleaned up.
            if not shares and not self._may_be_one(fragment.id):
                continue
            if self.old.physical_rows(other) != self.new.physical_rows(fragment):
                continue
            if self._has_same_values(other, fragment):
                found[fragment.id] = True
            elif self.same_fragments or shares:
                found[fragment.id] = False
        return found

    def _may_be_one(self, fragment: int) -> bool:
        """Whether a fragment id of both versions can stand for one fragment."""
        return self.common is None or fragment <= self.common.max_fragment_id

    def _place(self, file: DataFile) -> tuple[int | None, str]:
        """What tells one data file from another.

        The id of a base means something else on each branch. But names are random and files never change, so that in
        one fragment an equal name is an equal file, also if it was copied into the folder of another branch.
        """
        return (file.base_id if self.common is None else None), file.path

    def _has_same_deletions(self, before: DeletionFile | None, after: DeletionFile | None) -> bool:
        if self.common is None or before is None or after is None:
            return before == after
        return replace(before, base_id=None) == replace(after, base_id=None)

    def _is_kept(self, fragment: int) -> bool:
        return self._kept.get(fragment, False)

    @cached_property
    def _field_ids(self) -> list[tuple[int, int]]:
        """Ids of every field in the old and in the new version."""
        old = self.new if self.old is None else self.old
        pairs = zip(old.snapshot.schema.fields, self.new.snapshot.schema.fields, strict=True)
        return [
            (mine.id, theirs.id)
            for before, after in pairs
            for mine, theirs in zip(before.walk(), after.walk(), strict=True)
        ]

    @cached_property
    def _has_same_ids(self) -> bool:
        return all(before == after for before, after in self._field_ids)

    @cached_property
    def _other_columns(self) -> dict[Side, frozenset[int]]:
        """Fields that are no column of the other version, though a column there may have the name."""
        pairs = [(old, new) for old, new in self._field_ids if old != new or old not in self.same_fields]
        return {"old": frozenset(old for old, _ in pairs), "new": frozenset(new for _, new in pairs)}

    def _has_other_columns(self, side: Side, fragment: Fragment) -> bool:
        """Whether rows of a fragment have values in such fields: then their versions tell nothing."""
        others = self._other_columns[side]
        return bool(others) and any(not others.isdisjoint(file.fields) for file in fragment.files)

    def _has_same_values(self, before: Fragment, after: Fragment) -> bool:
        """Whether every column of the new version is in the same file as in the old one."""
        if self.common is None and before.files == after.files and self._has_same_ids:
            return True
        places, later = self._places(before), self._places(after)
        return all(places.get(old) == later.get(new) for old, new in self._field_ids)

    def _places(self, fragment: Fragment) -> dict[int, tuple[int | None, str]]:
        """The file that holds each field."""
        return {number: self._place(file) for file in fragment.files for number in file.fields if number >= 0}

    # -- rows -----------------------------------------------------------------

    def changed(self, side: Side, fragment_id: int, start: int, stop: int) -> ChangedRows:
        """The changed rows among some rows of a fragment of one version.

        Parameters
        ----------
        side : "old" or "new"
            In "old", rows that are gone and rows with other values later; in "new", new rows and those rows again.
        fragment_id : int
        start, stop : int
            Physical row offsets.

        Raises
        ------
        FormatError, StoreError
            Deletions, row ids or versions cannot be read.
        """
        mine, theirs = (self.old, self.new) if side == "old" else (self.new, self.old)
        if mine is None:
            return _rows(np.empty(0, np.int64), np.empty(0, np.bool_))
        fragment = mine.metadata(fragment_id)
        rows = np.arange(start, stop, dtype=np.int64)
        if theirs is not None and self._is_kept(fragment_id):
            # The others are the same rows in both.
            gone = _deletions(theirs, theirs.metadata(fragment_id))
            rows = rows[:0] if gone is None else gone.between(start, stop)
        rows = rows[_is_alive(mine, fragment, rows)]
        if theirs is None:
            return self._dated(side, fragment, _rows(rows, np.zeros(rows.size, np.bool_)))
        if self.has_row_ids:
            return self._by_row_id(side, mine, theirs, fragment, rows)
        is_update = np.zeros(rows.size, np.bool_)
        if self._kept.get(fragment_id) is False:
            is_update = _is_alive(theirs, theirs.metadata(fragment_id), rows)
        return self._dated(side, fragment, _rows(rows, is_update))

    def _by_row_id(
        self, side: Side, mine: ScanContext, theirs: ScanContext, fragment: Fragment, rows: Int64
    ) -> ChangedRows:
        """The changed rows among rows of touched fragments, by their ids."""
        far = _FAR[side]
        is_other = self._has_other_columns(side, fragment)
        ids = virtual_values(mine.snapshot, fragment, mine.physical_rows(fragment), "_rowid", rows)
        addresses, found = self._index(far).find(ids)
        if self.common is not None:
            found &= ids < np.uint64(self.common.next_row_id)
        versions = np.zeros(rows.size, np.uint64)
        differs = np.zeros(rows.size, np.bool_)
        updated = _versions(mine, fragment, _UPDATED, rows)
        for number, where in _by_fragment(addresses, found):
            other, offsets = theirs.metadata(number), (addresses[where] & _OFFSETS).astype(np.int64)
            # The index may name a deleted row, of which there is no live one.
            found[where] = _is_alive(theirs, other, offsets)
            versions[where] = _versions(theirs, other, _UPDATED, offsets)
            differs[where] = self._is_updated(side, updated[where], versions[where]) | (
                is_other
                or self._has_other_columns(far, other)
                or _lacks_versions(fragment, other)
                or (
                    self._is_silent(number)
                    if number == fragment.id and self._may_be_one(number)
                    else not self.tells_updates
                )
            )
        kept = ~found | differs
        later = versions if side == "old" else updated
        chosen = ChangedRows(rows[kept], found[kept], np.where(found, later, 0)[kept].astype(np.int64))
        return self._dated(side, fragment, chosen)

    def _is_updated(self, side: Side, mine: UInt64, theirs: UInt64) -> Bool:
        """Which rows of both versions have other values, by the versions that last updated them on each side."""
        common, far = self.common, _FAR[side]
        if common is None:
            differs: Bool = mine != theirs
            return differs
        # After the common point, both branches use the same numbers for different changes.
        later = common.changed_since(side, mine) | common.changed_since(far, theirs)
        differs = common.comparable(side, mine) != common.comparable(far, theirs)
        return later | differs

    def _dated(self, side: Side, fragment: Fragment, rows: ChangedRows) -> ChangedRows:
        """The rows with the versions that changed them, as far as they are known."""
        first = 0 if self.old is None else self.old.snapshot.version
        if self.common is not None:
            first = self.common.new
        last = self.new.snapshot.version
        if first + 1 == last and self.common is None:
            return ChangedRows(rows.offsets, rows.is_update, np.full(rows.offsets.size, last, np.int64))
        versions = rows.versions
        if side == "new" and self.has_row_ids:
            created = _versions(self.new, fragment, _CREATED, rows.offsets).astype(np.int64)
            versions = np.where(rows.is_update, versions, created)
        # Restored rows have versions from before both.
        known = (versions > first) & (versions <= last)
        return ChangedRows(rows.offsets, rows.is_update, np.where(known, versions, 0))

    def _index(self, side: Side) -> RowIndex:
        """The row ids of the touched fragments of a version: no other fragment has a changed row."""
        with self._indexing:
            found = self._indices.get(side)
            if found is None:
                context = self.side(side)
                snapshot = self.new.snapshot if context is None else context.snapshot
                found = self._indices[side] = index_rows(_Part(snapshot, self.touched(side)))
            return found

    def _is_silent(self, fragment_id: int) -> bool:
        """Whether values of a fragment were replaced in place, and no version of any of its rows tells which."""
        if self.old is None or self._kept.get(fragment_id) is not False:
            return False
        known = self._silent.get(fragment_id)
        if known is None:
            before, after = self.old.metadata(fragment_id), self.new.metadata(fragment_id)
            hidden = self.common is not None and not self.tells_updates
            known = (
                hidden
                or before.last_updated_versions == after.last_updated_versions
                or all(
                    np.array_equal(
                        _versions(self.old, before, _UPDATED, r), _versions(self.new, after, _UPDATED, r)
                    )
                    for r in _blocks(self.new.physical_rows(after))
                )
            )
            self._silent[fragment_id] = known
        return known


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Some fragments of a snapshot, for an index of their rows."""

    snapshot: Snapshot
    fragments: tuple[Fragment, ...]

    def row_ids(self, fragment: Fragment) -> RowIdSequence | None:
        return self.snapshot.row_ids(fragment)

    def deletions(self, fragment: Fragment) -> DeletionVector | None:
        return self.snapshot.deletions(fragment)


def _rows(offsets: Int64, is_update: Bool) -> ChangedRows:
    return ChangedRows(offsets, is_update, np.zeros(offsets.size, np.int64))


def _deletions(context: ScanContext, fragment: Fragment) -> DeletionVector | None:
    return context.snapshot.deletions(fragment, context.physical_rows(fragment))


def _is_alive(context: ScanContext, fragment: Fragment, rows: Int64) -> Bool:
    """Which rows are not deleted."""
    deleted = _deletions(context, fragment)
    if deleted is None or not len(deleted):
        return np.ones(rows.size, np.bool_)
    at = np.minimum(np.searchsorted(deleted.offsets, rows), len(deleted) - 1)
    alive: Bool = deleted.offsets[at] != rows
    return alive


def _versions(context: ScanContext, fragment: Fragment, name: str, rows: Int64) -> UInt64:
    return virtual_values(context.snapshot, fragment, context.physical_rows(fragment), name, rows)


def _lacks_versions(mine: Fragment, theirs: Fragment) -> bool:
    """Whether the versions of rows say nothing, because an old release stored none."""
    return mine.last_updated_versions is None or theirs.last_updated_versions is None


def _by_fragment(addresses: UInt64, found: Bool) -> Iterator[tuple[int, Int64]]:
    """The fragments of the addresses that were found, and the positions of their addresses."""
    where = np.flatnonzero(found)
    numbers = (addresses[where] >> _ADDRESS_BITS).astype(np.int64)
    order = sorted_order(numbers)
    different, firsts = np.unique(numbers[order], return_index=True)
    # Of nothing, splitting makes one part.
    yield from zip(different.tolist(), np.split(where[order], firsts[1:]), strict=False)


def _blocks(num_rows: int) -> Iterator[Int64]:
    for start in range(0, num_rows, _BLOCK):
        yield np.arange(start, min(num_rows, start + _BLOCK), dtype=np.int64)
