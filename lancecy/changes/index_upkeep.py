"""Which indices are made again, of which fragments, after writes and after a compaction; and their commit.

A segment is made again from the column and not from the files of the segments it replaces: those may name rows that
have other values now, or that moved.

Facts: sheet of indices, section B10; table sheet, section 10.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial

from lancecy.changes.base import Change
from lancecy.changes.index_training import IndexPlan, TrainedIndex, trained
from lancecy.changes.options import CommitRequest
from lancecy.errors import CommitUnknownError, FormatError, NotFoundError, UnsupportedError
from lancecy.index.segments import kind_of
from lancecy.index.write.index_types import INDEX_TYPES, title_of, with_details
from lancecy.inspection.indices import named_entries
from lancecy.progress import Progress
from lancecy.records import dataclass
from lancecy.schema import Field, join_name
from lancecy.table.manifest import IndexEntry
from lancecy.table.operations import CreateIndex
from lancecy.table.operations.index_section import FRAGMENT_REUSE, DeferredMoves, covered
from lancecy.table.snapshot import Snapshot, load_snapshot
from lancecy.table.wire.indices import describe_index

__all__ = [
    "SegmentPlan",
    "after_move",
    "after_writes",
    "commit_indices",
    "deferred_moves",
    "names_ids_of_old",
    "plan_of",
    "rebuild",
]


@dataclass(frozen=True, slots=True)
class SegmentPlan:
    """A segment to be made.

    Attributes
    ----------
    index : IndexPlan
    fragments : frozenset of int
        Those that it covers.
    replaced : tuple of IndexEntry
        The segments that it replaces.
    """

    index: IndexPlan
    fragments: frozenset[int]
    replaced: tuple[IndexEntry, ...]


def after_writes(
    snapshot: Snapshot, names: Sequence[str] | None, num_indices_to_merge: int | None, retrain: bool
) -> list[SegmentPlan]:
    """The segments by which indices cover all fragments.

    Parameters
    ----------
    snapshot : Snapshot
    names : sequence of str, optional
        Of indices; by default all whose files are written.
    num_indices_to_merge : int, optional
        Newest segments that are merged with the fragments that none covers (1); 0 makes a further segment. Segments
        that may name rows of these fragments for other values than they have are merged as well.
    retrain : bool
        Whether to make one new segment of everything.

    Raises
    ------
    NotFoundError
        There is no index of a name.
    UnsupportedError
        A named index is of a type that is not written.
    """
    entries = snapshot.indices()
    moves = DeferredMoves.of(entries)
    if names is None:
        wanted = dict.fromkeys(entry.name for entry in entries if plan_of(snapshot, entry) is not None)
    else:
        wanted = dict.fromkeys(names)
    merged = 1 if num_indices_to_merge is None else num_indices_to_merge
    # Indices of many columns are often made from one version.
    fragments_at = cache(partial(_fragments_at, snapshot))
    plans = []
    for name in wanted:
        segments = named_entries(snapshot, name)
        plan = plan_of(snapshot, segments[0])
        if plan is None:
            kind = title_of(segments[0].details_type)
            raise UnsupportedError(
                f"index {name!r} is of type {kind}, which is not written: optimize it with pylance",
                feature=kind,
            )
        many = len(segments) if retrain else merged
        planned = _segment(snapshot, plan, segments, many, retrain, fragments_at, moves)
        plans += [] if planned is None else [planned]
    return plans


def deferred_moves(snapshot: Snapshot) -> list[IndexEntry]:
    """The system index of compactions of pylance that deferred the remapping, if there is one.

    Once it is removed, indices cover only fragments whose rows they name by their present addresses.
    """
    return [entry for entry in snapshot.indices() if entry.name == FRAGMENT_REUSE]


def after_move(
    snapshot: Snapshot, moved: Iterable[tuple[frozenset[int], frozenset[int]]]
) -> list[SegmentPlan]:
    """The segments that name moved rows by their new addresses.

    Parameters
    ----------
    snapshot : Snapshot
        A version after the move.
    moved : iterable of (frozenset of int, frozenset of int)
        Fragments that went, and those that have their rows now.
    """
    groups, live = list(moved), {fragment.id for fragment in snapshot.fragments}
    plans = []
    for entry in snapshot.indices():
        known = covered(entry) or frozenset()
        came = {number for old, new in groups if old and old <= known for number in new} & live
        plan = plan_of(snapshot, entry) if came - known else None
        if plan is not None and not names_ids_of_old(snapshot, plan, entry):
            plans.append(SegmentPlan(plan, frozenset((known & live) | came), (entry,)))
    return plans


def rebuild(
    dataset: Change,
    planned: Sequence[SegmentPlan],
    options: CommitRequest,
    progress: Progress | None = None,
    moved: Sequence[tuple[TrainedIndex, IndexEntry]] = (),
    ended: Sequence[IndexEntry] = (),
) -> None:
    """Make segments, and commit them together in place of others.

    Parameters
    ----------
    dataset : Change
        Moves to the version that is made; stays without segments.
    planned : sequence of SegmentPlan
    options : CommitRequest
    progress : function of a Step, optional
    moved : sequence of (TrainedIndex, IndexEntry)
        Segments that are made already, each with the entry that it replaces.
    ended : sequence of IndexEntry
        Further entries to remove (``deferred_moves``).

    Raises
    ------
    LanceError
        Rows cannot be read, files not written, or the commit lost to another writer; the files are removed.
    """
    if not planned and not moved and not ended:
        return
    made = [index for index, _ in moved]
    try:
        for each in planned:
            segment = trained(
                dataset.context, each.index, each.fragments, durable=options.durable, progress=progress
            )
            made.append(segment)
    except BaseException:
        for index in made:
            index.files.remove()
        raise
    replaced = [
        *(entry for each in planned for entry in each.replaced),
        *(entry for _, entry in moved),
        *ended,
    ]
    commit_indices(dataset, made, replaced, options)


def commit_indices(
    dataset: Change, made: Sequence[TrainedIndex], removed: Sequence[IndexEntry], options: CommitRequest
) -> None:
    """Commit segments, or remove their files.

    Parameters
    ----------
    dataset : Change
        Moves to the version that is made.
    made : sequence of TrainedIndex
    removed : sequence of IndexEntry
        Segments that leave the table.
    options : CommitRequest

    Raises
    ------
    LanceError
        See :func:`lancecy.commit`.
    """
    operation = CreateIndex(tuple(index.entry for index in made), tuple(removed))
    try:
        dataset._change(operation, options=options)
    except CommitUnknownError:
        raise
    except BaseException:
        for index in made:
            index.files.remove()
        raise


def _segment(
    snapshot: Snapshot,
    plan: IndexPlan,
    segments: Sequence[IndexEntry],
    merged: int,
    is_forced: bool,
    fragments_at: Callable[[int], frozenset[int] | None],
    moves: DeferredMoves | None,
) -> SegmentPlan | None:
    """The segment that brings an index up to date; None if it is."""
    live = frozenset(fragment.id for fragment in snapshot.fragments)
    covers: dict[object, frozenset[int]] = {}
    for entry in segments:
        known = (covered(entry) or frozenset()) & live
        covers[entry.uuid] = known if moves is None else moves.named(entry, known)
    missing = live.difference(*covers.values())
    ordered = sorted(segments, key=lambda entry: entry.dataset_version)
    chosen = ordered[len(ordered) - min(merged, len(ordered)) :]
    if not missing and not is_forced and len(chosen) < 2:
        return None
    known_by_id = _earliest_moved(snapshot, missing) if plan.type.has_row_ids else None
    replaced = [
        entry
        for entry in segments
        # Segments without a fragment that exists only take time.
        if entry in chosen
        or (merged and not covers[entry.uuid])
        or names_ids_of_old(snapshot, plan, entry)
        or (known_by_id is not None and known_by_id <= entry.dataset_version)
        or _may_have_covered(snapshot, plan.field, missing, entry, fragments_at)
    ]
    return SegmentPlan(plan, missing.union(*(covers[entry.uuid] for entry in replaced)), tuple(replaced))


def _fragments_at(snapshot: Snapshot, version: int) -> frozenset[int] | None:
    """Ids of the fragments of another version; None if it was removed or is damaged."""
    try:
        then = load_snapshot(snapshot.location, version, session=snapshot.session)
    except (NotFoundError, FormatError):
        return None
    return frozenset(fragment.id for fragment in then.fragments)


def _may_have_covered(
    snapshot: Snapshot,
    field: Field,
    fragments: frozenset[int],
    entry: IndexEntry,
    fragments_at: Callable[[int], frozenset[int] | None],
) -> bool:
    """Whether a segment may name rows of some fragments, which it no longer covers, for the values that they had before.

    So it is with fragments that were there when the segment was made, if their values changed in place after that.
    pylance leaves such answers out only while the fragment is in no segment.
    """
    last = max(covered(entry) or (), default=-1)
    if not fragments or min(fragments) < last:
        return bool(fragments)
    then = fragments_at(entry.dataset_version)
    if then is not None:
        return not fragments.isdisjoint(then)
    # A column that was changed in place is not in the first file, unless that was replaced.
    found = [fragment for fragment in snapshot.fragments if fragment.id in fragments]
    return any(fragment.files and field.id not in fragment.files[0].fields for fragment in found)


def _earliest_moved(snapshot: Snapshot, fragments: Iterable[int]) -> int | None:
    """The version that made the oldest row which an update moved to some fragments with its stable id; None for no row.

    A segment of that version or a later one may name the row for the values that it had before. pylance leaves such
    answers out only while the fragment that has the row now is in no segment.
    """
    wanted, earliest = frozenset(fragments), []
    if not snapshot.manifest.has_stable_row_ids:
        return None
    for fragment in snapshot.fragments:
        if fragment.id in wanted and fragment.has_updated_rows:
            created = snapshot.created_versions(fragment)
            earliest.append(
                0 if created is None or not created.versions.size else int(created.versions.min())
            )
    return min(earliest, default=None)


def names_ids_of_old(snapshot: Snapshot, plan: IndexPlan, entry: IndexEntry) -> bool:
    """Whether a segment of an old release names rows by their stable ids, where one that is made now has addresses.

    pylance refuses to read an index that has both.

    Parameters
    ----------
    snapshot : Snapshot
    plan : IndexPlan
        Of the segment.
    entry : IndexEntry
    """
    is_by_address = snapshot.manifest.has_stable_row_ids and not plan.type.has_row_ids
    return is_by_address and describe_index(entry).version < plan.type.stable_version


def plan_of(snapshot: Snapshot, entry: IndexEntry) -> IndexPlan | None:
    """How a segment was made; None if such indices are not written.

    Parameters
    ----------
    snapshot : Snapshot
    entry : IndexEntry

    Raises
    ------
    StoreError
        The entry does not state its type, and the store did not say which files it has.
    """
    schema = snapshot.schema
    if len(entry.fields) != 1 or entry.fields[0] not in schema.by_id:
        return None
    field = schema.by_id[entry.fields[0]]
    data_type = field.scanned.arrow_type
    known = INDEX_TYPES.get(kind_of(snapshot, entry, data_type))
    if known is None or field.is_blob or not known.takes(data_type):
        return None
    path, above = [field.name], schema.by_id.get(field.parent_id)
    while above is not None:
        path.insert(0, above.name)
        above = schema.by_id.get(above.parent_id)
    told = describe_index(entry).details
    kind = known if told is None else with_details(known, told[1])
    return IndexPlan(join_name(path), field, kind, entry.name)
