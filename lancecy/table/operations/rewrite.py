"""Rewrite: moves the same rows to other fragments, as a compaction does.

Rows that others deleted or moved since the rewrite was planned are found by comparing deletion files: they are
deleted from the new fragments too. So a rewrite conflicts only with changes of the data files it replaces.

Source: table sheet, sections 3.2, 4.3, 9.3 and 10.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from itertools import accumulate
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lancecy.errors import DatasetNotFoundError, RetryableConflictError
from lancecy.limits import Limits
from lancecy.proto import table_pb2, transaction_pb2
from lancecy.records import dataclass
from lancecy.table import flags
from lancecy.table.manifest import Fragment
from lancecy.table.operations.base import (
    Footprint,
    Newest,
    NewManifest,
    Operation,
    References,
    VersionStamp,
)
from lancecy.table.operations.deletions import deleted_offsets, write_deletions
from lancecy.table.operations.index_section import with_moved_rows
from lancecy.table.operations.new_fragments import (
    add_fragments,
    decode_fragments,
    encode_fragments,
    fragment_id_of,
    max_fragment_id,
)
from lancecy.table.requests import Steps, together
from lancecy.table.rows.deletion import DeletionVector
from lancecy.table.wire.fragment import encode_fragment
from lancecy.table.wire.manifest_file import ManifestFile

__all__ = ["Rewrite", "RewriteGroup", "RewrittenIndex"]

Int64: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RewriteGroup:
    """Fragments, and those that replace them.

    Attributes
    ----------
    old : tuple of Fragment
        As they were when the rewrite was planned.
    new : tuple of Fragment
        The rows of ``old`` that were live then, in order. Without ids; with all row ids and versions in a table
        with stable row ids.
    """

    old: tuple[Fragment, ...]
    new: tuple[Fragment, ...]


@dataclass(frozen=True, slots=True)
class RewrittenIndex:
    """An index that another library made again for rows that it moved.

    Attributes
    ----------
    old, new : bytes
        UUIDs.
    type_url : str
    value : bytes
        Details of the new index.
    version : int
    """

    old: bytes
    new: bytes
    type_url: str
    value: bytes
    version: int


@dataclass(frozen=True, slots=True)
class _Gone:
    """Rows of a fragment that were deleted after a rewrite was planned.

    Attributes
    ----------
    now : bytes or None
        Message of the fragment as it was when they were found; None once it had no rows.
    offsets : (n,) int64, ascending
        Positions among the rows that were live as planned.
    num_live : int
        The number of those rows.
    """

    now: bytes | None
    offsets: Int64
    num_live: int


@dataclass(frozen=True, slots=True)
class Rewrite(Operation):
    """Replace fragments by others with the same rows.

    Attributes
    ----------
    groups : tuple of RewriteGroup
    indices : tuple of RewrittenIndex
        Of others' rewrites only.
    """

    kinds = ("rewrite",)
    writes = "deletion"

    groups: tuple[RewriteGroup, ...]
    indices: tuple[RewrittenIndex, ...] = ()
    _gone: Mapping[int, _Gone] = field(default_factory=dict, compare=False, repr=False)

    def footprints(self) -> tuple[Footprint, ...]:
        return (Footprint("rewrite", rewritten=frozenset(part.id for part in self._old), knows_rows=True),)

    @property
    def _old(self) -> list[Fragment]:
        return [part for group in self.groups for part in group.old]

    @property
    def _new(self) -> list[Fragment]:
        return [part for group in self.groups for part in group.new]

    def resolve(self, newest: Newest, before: tuple[Self, ManifestFile] | None) -> Steps[Self]:
        """The rewrite with the rows deleted that others deleted since it was planned.

        Parameters
        ----------
        newest : Newest
        before : (Rewrite, ManifestFile), optional
            Result of an earlier attempt: what it found is used again for fragments that are unchanged since. Its
            deletion files are not: their names hold the ids of the new fragments, which other commits may take.

        Raises
        ------
        RetryableConflictError
            A fragment is gone, or has other data files.
        ValueError
            The new fragments have another number of rows than the old ones had.
        FormatError
            A deletion file is damaged.
        """
        number = max_fragment_id(newest.stored.message)
        groups = []
        gone = {} if before is None else dict(before[0]._gone)
        changed = [
            part
            for group in self.groups
            for part in group.old
            if part.id not in gone or gone[part.id].now != _stored(part, newest)
        ]
        found = yield from together([_gone_from(part, newest) for part in changed])
        gone.update(zip((part.id for part in changed), found, strict=True))
        for group in self.groups:
            deleted = _deleted_since(group, gone)
            new = []
            for part, offsets in zip(group.new, deleted, strict=True):
                if offsets.size == part.physical_rows:
                    continue
                number += 1
                if offsets.size:
                    vector, version = DeletionVector(offsets), newest.stored.version
                    file = yield from write_deletions(fragment_id_of(number), vector, version)
                    part = replace(part, deletion_file=file)
                new.append(part)
            groups.append(RewriteGroup(group.old, tuple(new)))
        return replace(self, groups=tuple(groups), _gone=gone)

    def apply(self, base: ManifestFile, stamp: VersionStamp) -> NewManifest:
        made = NewManifest.copy_of(base)
        if made.message.reader_feature_flags & flags.STABLE_ROW_IDS:
            _check_row_ids(self._new)
        message, gone = made.message, {part.id for part in self._old}
        # The largest id stays known when its fragment goes.
        message.max_fragment_id = max_fragment_id(message)
        kept = [part for part in message.fragments if part.id not in gone]
        del message.fragments[:]
        message.fragments.extend(kept)
        first = len(kept)
        add_fragments(message, self._new, stamp.version, base, keep_rows=True)
        if base.indices is None or not message.reader_feature_flags & flags.STABLE_ROW_IDS:
            return made
        ids = [part.id for part in message.fragments[first:]]
        return replace(made, indices=with_moved_rows(base.indices, self._moves(ids)))

    def _moves(self, new_ids: Sequence[int]) -> list[tuple[set[int], set[int]]]:
        """Ids of the old and the new fragments of each group."""
        moves, start = [], 0
        for group in self.groups:
            stop = start + len(group.new)
            moves.append(({part.id for part in group.old}, set(new_ids[start:stop])))
            start = stop
        return moves

    def encode(self, message: transaction_pb2.Transaction, made: table_pb2.Manifest) -> None:
        message.rewrite.SetInParent()
        numbered = {part.files[0].path: part for part in made.fragments if part.files}
        for group in self.groups:
            stored = message.rewrite.groups.add()
            stored.old_fragments.extend(map(encode_fragment, group.old))
            stored.new_fragments.extend(
                numbered.get(part.files[0].path, message_of)
                for part, message_of in zip(
                    group.new, encode_fragments(group.new, keep_rows=True), strict=True
                )
            )

    @classmethod
    def decode(cls, message: transaction_pb2.Transaction, limits: Limits) -> Rewrite:
        stored = message.rewrite
        pairs = [(group.old_fragments, group.new_fragments) for group in stored.groups]
        if stored.old_fragments:
            pairs.append((stored.old_fragments, stored.new_fragments))
        groups = tuple(
            RewriteGroup(decode_fragments(old, limits), decode_fragments(new, limits)) for old, new in pairs
        )
        indices = tuple(
            RewrittenIndex(
                index.old_id.uuid,
                index.new_id.uuid,
                index.new_index_details.type_url,
                index.new_index_details.value,
                index.new_index_version,
            )
            for index in stored.rewritten_indices
        )
        return cls(groups, indices)

    def references(self) -> References:
        return References(tuple(self._new))

    def written_fields(self) -> frozenset[int]:
        return frozenset(number for part in self._new for file in part.files for number in file.fields)


def _check_row_ids(fragments: Iterable[Fragment]) -> None:
    for part in fragments:
        if part.row_ids is None or part.created_at_versions is None or part.last_updated_versions is None:
            raise ValueError(
                "a fragment that replaces others in a table with stable row ids has to state the row ids and versions "
                "of its rows, which would be new rows otherwise"
            )


def _deleted_since(group: RewriteGroup, gone: Mapping[int, _Gone]) -> list[Int64]:
    """Offsets, in each new fragment, of rows that were deleted from the old ones since the rewrite was planned."""
    found: list[Int64] = []
    start = 0
    for part in group.old:
        found.append(gone[part.id].offsets + start)
        start += gone[part.id].num_live
    rows = [part.physical_rows or 0 for part in group.new]
    if start != sum(rows):
        raise ValueError(f"fragments of {sum(rows)} rows cannot replace fragments of {start} live rows")
    return _split(np.concatenate(found or [np.empty(0, np.int64)]), rows)


def _stored(planned: Fragment, newest: Newest) -> bytes | None:
    """Message of a fragment in the newest version; None if it is gone."""
    position = newest.stored.positions.get(planned.id)
    return None if position is None else newest.stored.message.fragments[position].SerializeToString()


def _gone_from(planned: Fragment, newest: Newest) -> Steps[_Gone]:
    """The rows of a fragment that were live as planned and are deleted now."""
    base, limits = newest.stored, newest.limits
    now, stored = base.fragments.get(planned.id), _stored(planned, newest)
    if now is not None and now.files != planned.files:
        raise RetryableConflictError(
            f"fragment {planned.id} was changed before version {base.version}: plan the rewrite again"
        )
    try:
        before = yield from deleted_offsets(base, planned, limits)
    except DatasetNotFoundError as error:
        raise RetryableConflictError(
            f"the deletion file of fragment {planned.id}, as it was when the rewrite was planned, was cleaned up: plan "
            "the rewrite again"
        ) from error
    num_live = (planned.physical_rows or 0) - before.size
    if now is None:
        # The conflict check has seen all changes since: only one that deleted its last rows removes a fragment.
        return _Gone(stored, np.arange(num_live), num_live)
    if now.deletion_file == planned.deletion_file:
        return _Gone(stored, np.empty(0, np.int64), num_live)
    after = yield from deleted_offsets(base, now, limits)
    new = np.setdiff1d(after, before, assume_unique=True)
    if after.size != before.size + new.size:
        raise RetryableConflictError(
            f"deleted rows of fragment {planned.id} came back before version {base.version}: plan the rewrite again"
        )
    return _Gone(stored, new - np.searchsorted(before, new), num_live)


def _split(offsets: Int64, rows: Sequence[int]) -> list[Int64]:
    """Offsets in a run of rows as offsets in its parts."""
    ends = list(accumulate(rows))
    pieces = np.split(offsets, np.searchsorted(offsets, ends[:-1]))
    return [piece - (end - count) for piece, end, count in zip(pieces, ends, rows, strict=True)]
