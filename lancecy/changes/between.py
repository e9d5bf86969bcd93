"""What happened between two versions of a table, as far as it matters to a comparison of their rows."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from lancecy.changes.transactions import MadeVersion, versions_between
from lancecy.errors import UnsupportedError
from lancecy.records import dataclass
from lancecy.scanning.common_columns import ids_agree
from lancecy.table.operations import Operation, Restore, Update
from lancecy.table.snapshot import Snapshot

__all__ = ["Continuity", "check_rows_stayed", "continuity", "continuity_across"]

_ANEW = frozenset({"overwrite", "unknown"})


@dataclass(frozen=True)
class Continuity:
    """What two versions have in common.

    Attributes
    ----------
    field_ids : frozenset of int
        Ids that stand for one column in both. An id of a dropped column may be given to another one.
    fragments : bool
        Whether fragment ids stand for the same rows in both. Old releases began with 0 again at each overwrite.
    row_versions : bool
        Whether every change of values gave its rows another updated version. A change in place may not have said
        which rows it concerned.
    """

    field_ids: frozenset[int]
    fragments: bool = True
    row_versions: bool = True


def continuity(old: Snapshot, new: Snapshot) -> Continuity:
    """What two versions have in common; the versions in between are read only if the two leave a doubt.

    Parameters
    ----------
    old, new : Snapshot

    Raises
    ------
    FormatError, StoreError
        A manifest cannot be read.
    """
    shared = frozenset(old.schema.by_id) & frozenset(new.schema.by_id)
    if ids_agree(old.schema, new.schema) and not _has_other_files(old, new) and not _may_have_moved(old, new):
        return Continuity(shared)
    made = _lineage(old, new)
    states = _states(made)
    before, after = states.get(old.version, _State({}, -1)), states.get(new.version, _State({}, -2))
    same = frozenset(n for n in shared if before.columns.get(n, before) == after.columns.get(n, after))
    are_told = not any(_hides_rows(each.operation) for version, each in made.items() if version > old.version)
    return Continuity(same, before.era == after.era, are_told)


def continuity_across(shared: Snapshot, old: Snapshot, new: Snapshot) -> Continuity:
    """What two versions of different branches have in common.

    Parameters
    ----------
    shared : Snapshot
        The last state that both have in their histories.
    old, new : Snapshot

    Raises
    ------
    FormatError, StoreError
        A manifest cannot be read.
    """
    mine, theirs = continuity(shared, old), continuity(shared, new)
    return Continuity(
        mine.field_ids & theirs.field_ids,
        mine.fragments and theirs.fragments,
        mine.row_versions and theirs.row_versions,
    )


def _hides_rows(operation: Operation | None) -> bool:
    """Whether an operation replaces values in place and does not say in which rows."""
    return isinstance(operation, Update) and operation.in_place and not operation.updated_rows


def _lineage(old: Snapshot, new: Snapshot) -> dict[int, MadeVersion]:
    """The versions from the old one to the new one, and from those that were restored in between."""
    first = old.version
    while True:
        made = versions_between(new, first, new.version)
        restored = [each.operation.version for each in made.values() if isinstance(each.operation, Restore)]
        if min(restored, default=first) >= first:
            return made
        first = min(restored)


@dataclass(frozen=True)
class _State:
    """Which columns a version has.

    Attributes
    ----------
    columns : mapping of int to (int, int)
        By field id, the version and the id under which the column began.
    era : int
        Version that began the fragments anew.
    """

    columns: Mapping[int, tuple[int, int]]
    era: int


def _states(made: Mapping[int, MadeVersion]) -> dict[int, _State]:
    states: dict[int, _State] = {}
    for version, each in made.items():
        operation, before = each.operation, states.get(version - 1)
        if isinstance(operation, Restore):
            before = states.get(operation.version)
        elif operation is None or (_ANEW & set(operation.kinds) and not each.is_fast_forward):
            before = None
        known = {} if before is None else before.columns
        columns = {number: known.get(number, (version, number)) for number in each.field_ids}
        states[version] = _State(columns, version if before is None else before.era)
    return states


def _has_other_files(old: Snapshot, new: Snapshot) -> bool:
    """Whether a fragment of both versions has no file in common."""
    before = {fragment.id: fragment.files for fragment in old.fragments}
    both = ((before[part.id], part.files) for part in new.fragments if part.id in before)
    return any(
        mine and theirs and not {file.path for file in mine} & {file.path for file in theirs}
        for mine, theirs in both
        if mine != theirs
    )


def _may_have_moved(old: Snapshot, new: Snapshot) -> bool:
    """Whether fragments went and others came."""
    before, after = ({part.id for part in snapshot.fragments} for snapshot in (old, new))
    return not (before <= after or after <= before)


def check_rows_stayed(old: Snapshot, new: Snapshot) -> None:
    """Refuse two versions of a table without stable row ids if rows may have moved in between.

    Parameters
    ----------
    old, new : Snapshot

    Raises
    ------
    UnsupportedError
        The table was compacted in between, or a version in between was removed.
    FormatError, StoreError
        A manifest cannot be read.
    """
    if new.manifest.has_stable_row_ids or not _may_have_moved(old, new):
        return
    since, until = old.version, new.version
    read = versions_between(new, since + 1, until)
    made = {version: each.operation for version, each in read.items()}
    last = max(
        (version for version, each in made.items() if each and "overwrite" in each.kinds), default=since
    )
    later = {version: each for version, each in made.items() if version > last}
    _refuse_moves(since, until, later, is_complete=len(later) == until - last)


def _refuse_moves(since: int, until: int, made: Mapping[int, Operation | None], is_complete: bool) -> None:
    moves = sorted(version for version, each in made.items() if each is not None and "rewrite" in each.kinds)
    remedy = "a table with stable row ids (enable_stable_row_ids=True when it is created) has no such limit"
    if moves:
        ends = [since, *moves, until]
        parts = [
            f"changes({first}, {last - (last in moves)})"
            for first, last in pairwise(ends)
            if first < last - (last in moves)
        ]
        how = (
            f"compare the versions between them, as in {' and '.join(parts)}"
            if parts
            else "it changed no row"
        )
        raise UnsupportedError(
            f"version {', '.join(map(str, moves))} is a compaction, which gave rows new addresses: {how}; {remedy}",
            feature="changes across a compaction without stable row ids",
        )
    if not is_complete or None in made.values():
        raise UnsupportedError(
            f"a version between {since} and {until} was removed or cannot be read, so that rows which a compaction "
            f"moved cannot be told from new ones; {remedy}",
            feature="changes across removed versions without stable row ids",
        )
