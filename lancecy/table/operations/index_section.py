"""The index section of the next version: entries keep their bytes, unless their answers would be wrong.

An index is trusted for the fragments in its bitmap. So a fragment with new values in an indexed column leaves the
bitmap, and an index of a column that is gone is dropped. Fragments with new ids are added only where rows moved that an
index names by their stable row ids.

Source: table sheet, section 10.4.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet

import numpy as np

from lancecy.errors import UnsupportedError
from lancecy.proto import table_pb2
from lancecy.records import dataclass
from lancecy.store.base import Memory
from lancecy.table.manifest import IndexEntry
from lancecy.table.operations.fragment_files import changed_fields
from lancecy.table.rows import roaring
from lancecy.table.wire.indices import decode_index_section, describe_index
from lancecy.table.wire.manifest_file import ManifestFile

__all__ = [
    "FRAGMENT_REUSE",
    "DeferredMoves",
    "carried",
    "check_movable",
    "covered",
    "covered_since",
    "filtered",
    "is_other_type",
    "settled",
    "with_moved_rows",
    "with_updated_rows",
]

FRAGMENT_REUSE = "__lance_frag_reuse"
"""Name of the system index of compactions of pylance that deferred the remapping of indices."""
_NAMES_ROW_IDS = {
    "lance.table.BTreeIndexDetails": 0,
    "lance.table.BitmapIndexDetails": 0,
    "lance.table.LabelListIndexDetails": 1,
    "lance.table.NGramIndexDetails": 0,
}
"""Indices that name rows by stable row ids where the table has these, up to that version of their layout."""


@dataclass(frozen=True, slots=True)
class DeferredMoves:
    """Compactions of pylance that left the remapping of indices for later (``defer_index_remap``).

    Indices go on naming rows by their old addresses. A system index records the new fragments; later commits of pylance
    put them into the indices' own lists of fragments, and its later compactions also those that replace them, whereas
    the files keep the old addresses.

    Attributes
    ----------
    fragments : frozenset of int or None
        The new fragments; None if they are unknown.
    version : int
        The last version from which rows were moved so.
    """

    fragments: frozenset[int] | None
    version: int

    @classmethod
    def of(cls, entries: Iterable[IndexEntry]) -> DeferredMoves | None:
        """Those that an index section records, None without any."""
        for entry in entries:
            if entry.name == FRAGMENT_REUSE:
                return cls(covered(entry), entry.dataset_version)
        return None

    def named(self, entry: IndexEntry, fragments: frozenset[int]) -> frozenset[int]:
        """The fragments, of some that an entry covers, whose rows it surely names by the addresses that they have there."""
        if not self.fragments:
            return frozenset()
        left = fragments - self.fragments
        if entry.dataset_version > self.version:
            return left
        # A fragment that replaces a moved one has a larger id.
        first = min(self.fragments)
        return frozenset(number for number in left if number < first)


def carried(base: ManifestFile, message: table_pb2.Manifest) -> bytes | None:
    """The index section of a version whose fragments or fields differ from those of its base.

    Parameters
    ----------
    base : ManifestFile
    message : lance.table.Manifest
        The new version, with all fragments and fields.
    """
    if base.indices is None:
        return None
    live = {field.id for field in message.fields}
    changes = _Changes(base, message)
    moves = DeferredMoves.of(decode_index_section(base.indices))

    def kept(entry: IndexEntry) -> bytes | None:
        if not live.issuperset(entry.fields):
            return None
        gone = changes.under(entry)
        return _uncovered(entry, gone, moves, base.positions) if gone else entry.raw

    return filtered(base.indices, kept)


def covered_since(entry: IndexEntry, made_from: ManifestFile, message: table_pb2.Manifest) -> bytes:
    """The bytes of an index without the fragments whose values changed after it was made.

    Parameters
    ----------
    entry : IndexEntry
    made_from : ManifestFile
        The version it was made from. Fragments that are newer stay covered.
    message : lance.table.Manifest
        The version it is added to.
    """
    gone = _Changes(made_from, message).under(entry)
    if not gone:
        return entry.raw
    kept = _uncovered(entry, gone)
    return _with_coverage(entry, set()) if kept is None else kept


def with_moved_rows(
    indices: bytes,
    moves: Collection[tuple[AbstractSet[int], AbstractSet[int]]],
    is_unchanged: Callable[[IndexEntry], bool] = lambda entry: True,
    are_left: bool = False,
) -> bytes | None:
    """The index section of a table with stable row ids, rows of which moved to other fragments with the same values.

    Indices that name rows by their ids cover the new fragments, if they covered all old ones of these rows.

    Parameters
    ----------
    indices : bytes
    moves : collection of (set of int, set of int)
        Fragments that rows came from, and those that have them now.
    is_unchanged : function of an IndexEntry
        Whether the rows have the same values in its columns.
    are_left : bool
        Whether the old fragments are left with other rows.
    """

    def kept(entry: IndexEntry) -> bytes:
        newest, known = _NAMES_ROW_IDS.get(entry.details_type), covered(entry)
        if newest is None or known is None or describe_index(entry).version > newest:
            return entry.raw
        if not is_unchanged(entry):
            return entry.raw
        after = set(known)
        for old, new in moves:
            if old <= known:
                after = (after if are_left else after - old) | new
        return entry.raw if after == known else _with_coverage(entry, after)

    return filtered(indices, kept)


def with_updated_rows(
    indices: bytes,
    message: table_pb2.Manifest,
    old: AbstractSet[int],
    new: AbstractSet[int],
    fields: AbstractSet[int],
) -> bytes | None:
    """The index section of a table with stable row ids, rows of which moved to new fragments with other values in some fields.

    Parameters
    ----------
    indices : bytes
    message : lance.table.Manifest
        The new version, with all fields.
    old, new : set of int
        Fragments that rows came from, and those that have nothing but these rows.
    fields : set of int
        Those that got values.
    """
    families = _Families(message)

    def is_unchanged(entry: IndexEntry) -> bool:
        return not families.touch(entry.fields, set(fields))

    return with_moved_rows(indices, [(old, new)], is_unchanged, are_left=True)


def filtered(indices: bytes, kept: Callable[[IndexEntry], bytes | None]) -> bytes | None:
    """An index section with the bytes that ``kept`` returns for each entry; None drops an entry, or the section."""
    entries = decode_index_section(indices)
    after = [kept(entry) for entry in entries]
    if all(new is old.raw for new, old in zip(after, entries, strict=True)):
        return indices
    section = table_pb2.IndexSection()
    for raw in after:
        if raw is not None:
            section.indices.add().MergeFromString(raw)
    return section.SerializeToString() if section.indices else None


def covered(entry: IndexEntry) -> frozenset[int] | None:
    """Ids of the fragments that an index covers, None if unknown."""
    if entry.fragment_bitmap is None:
        return None
    bitmap: Memory = np.frombuffer(entry.fragment_bitmap, np.uint8)
    return frozenset(roaring.fragment_ids(bitmap).tolist())


def is_other_type(entry: IndexEntry, other: IndexEntry) -> bool:
    """Whether two indices are known to be of different types; old releases did not state the type."""
    one, two = (each.details_type.rpartition(".")[2] for each in (entry, other))
    return bool(one) and bool(two) and one != two


def settled(entry: IndexEntry, moves: DeferredMoves | None, live: Collection[int]) -> bytes | None:
    """The bytes of an entry that covers only fragments whose rows it names by their present addresses.

    Of a deferred compaction, pylance reads the old fragments of an entry as the new ones, which would so be covered again.

    Parameters
    ----------
    entry : IndexEntry
    moves : DeferredMoves, optional
        None leaves the entry as it is.
    live : collection of int
        Ids of all fragments.

    Returns
    -------
    bytes or None
        None if its coverage is unknown.
    """
    return entry.raw if moves is None else _uncovered(entry, set(), moves, live)


def check_movable(base: ManifestFile) -> None:
    """Refuse to move a table to another history under an index that says where rows moved earlier.

    Raises
    ------
    UnsupportedError
    """
    entries = decode_index_section(base.indices) if base.indices else ()
    if any(entry.name == FRAGMENT_REUSE for entry in entries):
        raise UnsupportedError(
            "the table has indices that wait for a remapping after a compaction of pylance (an index "
            f"{FRAGMENT_REUSE!r}), which this change would make wrong: optimize its indices first "
            "(ds.optimize.optimize_indices())",
            feature=FRAGMENT_REUSE,
        )


def _uncovered(
    entry: IndexEntry, fragments: set[int], moves: DeferredMoves | None = None, live: Collection[int] = ()
) -> bytes | None:
    """The bytes of an entry without some fragments; None if its coverage is unknown. System indices stay."""
    if not entry.fields:
        return entry.raw
    known = covered(entry)
    if known is None:
        return None
    left = known if moves is None else moves.named(entry, known.intersection(live))
    left -= fragments
    return entry.raw if left == known else _with_coverage(entry, left)


def _with_coverage(entry: IndexEntry, fragments: Collection[int]) -> bytes:
    message = table_pb2.IndexMetadata.FromString(entry.raw)
    message.fragment_bitmap = roaring.encode(np.array(sorted(fragments), np.int64))
    return message.SerializeToString()


class _Changes:
    """The fields with other values in the fragments that two versions share."""

    def __init__(self, before: ManifestFile, after: table_pb2.Manifest) -> None:
        self.fields: dict[int, set[int]] = {}
        for part in after.fragments:
            position = before.positions.get(part.id)
            if position is not None and (fields := changed_fields(before.message.fragments[position], part)):
                self.fields[part.id] = fields
        self._families = _Families(before.message, after)

    def under(self, entry: IndexEntry) -> set[int]:
        """Ids of the fragments with other values in the indexed fields."""
        return {
            number for number, fields in self.fields.items() if self._families.touch(entry.fields, fields)
        }


class _Families:
    """Ancestors and descendants of fields: a change of one changes what an index of another found."""

    def __init__(self, *messages: table_pb2.Manifest) -> None:
        self._parents: Mapping[int, int] = {
            field.id: field.parent_id for message in messages for field in message.fields
        }

    def touch(self, indexed: tuple[int, ...], changed: set[int]) -> bool:
        """Whether an indexed field, or one above or below it, is among the changed ones."""
        above = {number for field in indexed for number in self._line(field)}
        below = (number for field in changed for number in self._line(field))
        return not changed.isdisjoint(above) or not set(indexed).isdisjoint(below)

    def _line(self, field: int) -> list[int]:
        """A field and those above it."""
        found: list[int] = []
        while field in self._parents and field not in found:
            found.append(field)
            field = self._parents[field]
        return found or [field]
