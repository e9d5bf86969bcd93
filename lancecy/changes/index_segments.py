"""Parts of indices, made apart: one covers some fragments, and none is visible before the commit of all.

Facts: sheet of indices, sections B1 and B9; pylance 14's functions of these names.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import combinations

from lancecy.changes.base import Change
from lancecy.changes.index_training import IndexPlan, merged, trained
from lancecy.changes.index_upkeep import names_ids_of_old, plan_of
from lancecy.changes.options import CommitRequest, Durability, is_durable
from lancecy.errors import IndexExistsError, UnsupportedError, printable
from lancecy.index.write.index_types import IndexKind, title_of
from lancecy.keyword_options import checked_arguments, uuid_of, whole_number
from lancecy.progress import Progress
from lancecy.scanning.context import ScanContext
from lancecy.table.manifest import IndexEntry
from lancecy.table.operations import CreateIndex
from lancecy.table.operations.index_section import covered, is_other_type
from lancecy.table.snapshot import Snapshot
from lancecy.table.wire.indices import describe_index, encode_index
from lancecy.write.indices import Index, index_entry, index_view

__all__ = ["IndexSegments", "chosen_fragments", "replaced_entries"]


class IndexSegments(Change):
    """The dataset methods for parts of indices."""

    @checked_arguments()
    def create_index_uncommitted(
        self,
        column: str | Sequence[str],
        index_type: IndexKind,
        name: str | None = None,
        *,
        replace: bool = False,
        train: bool = True,
        fragment_ids: Sequence[int],
        index_uuid: str | None = None,
        durability: Durability = "fsync",
        progress: Progress | None = None,
    ) -> Index:
        """Make a part of an index of some fragments, and commit nothing.

        Parts of other fragments may be made elsewhere at the same time. :meth:`merge_existing_index_segments` makes one of
        several, and :meth:`commit_existing_index_segments` makes them visible. Files of parts that are not committed
        stay until a cleanup.

        Parameters
        ----------
        column, index_type, name, train
            As for :meth:`create_scalar_index`.
        replace : bool
            Whether there may be an index of that name.
        fragment_ids : sequence of int
            The fragments that the part covers.
        index_uuid : str, optional
            Id of the part; a new one by default.
        durability : "fsync" or "none"
            Whether to wait until the files are on disk.
        progress : function of a :class:`lancecy.progress.Step`, optional
            Called with the rows read so far.

        Returns
        -------
        Index
            What pylance calls so, and takes too.

        Raises
        ------
        ColumnNotFoundError, TypeError, ValueError, LanceError
            As for :meth:`create_scalar_index`; no file is left behind.

        Examples
        --------
        >>> import lancecy
        >>> ds = lancecy.write_dataset({"id": [3, 1, 2, 0]}, "memory://doc-index-parts", max_rows_per_file=2)
        >>> parts = [ds.create_index_uncommitted("id", "BTREE", fragment_ids=[n]) for n in (0, 1)]
        >>> ds.commit_existing_index_segments("id_idx", "id", parts).index_statistics("id_idx")["num_segments"]
        2
        """
        context = self.context
        plan = IndexPlan.of(context.snapshot.schema, column, index_type, name, context.snapshot.indices())
        replaced_entries(context, plan, replace)
        fragments = chosen_fragments(context, fragment_ids) if train else ()
        identity = None if index_uuid is None else uuid_of("index_uuid", index_uuid)
        durable = is_durable(durability)
        made = trained(context, plan, fragments, durable=durable, progress=progress, identity=identity)
        return index_view(made.entry)

    @checked_arguments()
    def merge_existing_index_segments(
        self, segments: Sequence[Index], *, durability: Durability = "fsync"
    ) -> Index:
        """Make one part of several, from their files. Commits nothing, and leaves their files.

        Parameters
        ----------
        segments : sequence of Index
            Of one column and type, of lancecy or of pylance; no fragment is in two of them.
        durability : "fsync" or "none"
            Whether to wait until the files are on disk.

        Raises
        ------
        ValueError
            There is no part, two cover one fragment, or they do not belong together.
        UnsupportedError
            They are of a type that is not written.
        LanceError
            A part is damaged or missing; no file is left behind.

        Examples
        --------
        >>> import lancecy
        >>> ds = lancecy.write_dataset({"id": [3, 1, 2, 0]}, "memory://doc-merge-parts", max_rows_per_file=2)
        >>> parts = [ds.create_index_uncommitted("id", "BTREE", fragment_ids=[n]) for n in (0, 1)]
        >>> sorted(ds.merge_existing_index_segments(parts).fragment_ids)
        [0, 1]
        """
        entries = _entries(segments)
        plan = _plan_of(self.context.snapshot, entries)
        return index_view(merged(self.context, plan, entries, durable=is_durable(durability)).entry)

    @checked_arguments()
    def commit_existing_index_segments(
        self,
        index_name: str,
        column: str,
        segments: Sequence[Index],
        *,
        conflict_retries: int = 10,
        retry_timeout: timedelta = timedelta(seconds=30),
        durability: Durability = "fsync",
        commit_message: str | None = None,
    ) -> IndexSegments:
        """Commit parts as one index, in one version.

        Parts of an index of that name stay, unless the new ones cover all of their fragments that the table still has.

        Parameters
        ----------
        index_name, column : str
        segments : sequence of Index
            As :meth:`create_index_uncommitted` or :meth:`merge_existing_index_segments` returned them.
        conflict_retries : int
            Maximum number of further attempts after another writer changed the same index.
        retry_timeout : timedelta
            After this no new attempt is made.
        durability : "fsync" or "none"
            Whether to wait until the version is on disk.
        commit_message : str, optional
            Recorded with the version.

        Returns
        -------
        Dataset
            This one, at the new version.

        Raises
        ------
        ColumnNotFoundError
            The table has no such column.
        ValueError
            There is no part, two cover one fragment, or one was made of another column; there is an index of that name on
            another column, or of another type with parts that stay; or a part of it covers some of the fragments and
            others besides.
        ConflictError
            Every attempt lost to another writer.

        Examples
        --------
        See :meth:`create_index_uncommitted`.
        """
        entries = _entries(segments)
        options = CommitRequest(message=commit_message, durable=is_durable(durability))

        def attempt() -> None:
            self._check_writable()
            snapshot = self.context.snapshot
            field = snapshot.schema.path(snapshot.schema.resolve_any_case(column))[-1]
            if any(entry.fields != (field.id,) for entry in entries):
                raise ValueError(f"a part of index {index_name!r} was not made of column {column!r}")
            new = tuple(_renamed(entry, index_name) for entry in entries)
            present = frozenset(snapshot.manifest.fragment_table.ids.tolist())
            removed = _covered_by(new, snapshot.indices(), index_name, present)
            self._change(CreateIndex(new, removed), options=options)

        self._retried(attempt, conflict_retries, retry_timeout)
        return self


def replaced_entries(context: ScanContext, plan: IndexPlan, replace: bool) -> list[IndexEntry]:
    """The entries of an index's name, which it replaces.

    Parameters
    ----------
    context : ScanContext
    plan : IndexPlan
    replace : bool
        Whether there may be any.

    Raises
    ------
    ValueError
        There is one and must not be, or it is on another column.
    """
    found = [entry for entry in context.snapshot.indices() if entry.name == plan.name]
    if any(entry.fields != (plan.field.id,) for entry in found):
        raise ValueError(f"there is an index {plan.name!r} on another column: choose another name")
    if found and not replace:
        raise IndexExistsError(
            f"there is an index {plan.name!r}: choose another name, or give replace=True",
            kind="index",
            name=plan.name,
        )
    return found


def chosen_fragments(context: ScanContext, fragment_ids: Sequence[int] | None) -> Collection[int]:
    """The fragments that an index covers; all if none are given.

    Parameters
    ----------
    context : ScanContext
    fragment_ids : sequence of int, optional

    Raises
    ------
    ValueError
        The table has no such fragment.
    """
    known = {fragment.id for fragment in context.fragments}
    if fragment_ids is None:
        return known
    wanted = {whole_number("a fragment", number) for number in fragment_ids}
    if wanted - known:
        raise ValueError(f"the table has no fragment {min(wanted - known)}")
    return wanted


def _entries(segments: Sequence[Index]) -> list[IndexEntry]:
    """Parts as entries, none of which shares a fragment or a type with another."""
    wrong = [segment for segment in segments if not hasattr(segment, "fragment_ids")]
    if wrong:
        raise TypeError(
            f"a part of an index is an Index, as create_index_uncommitted returns it, not {printable(repr(wrong[0]))}"
        )
    entries = [index_entry(segment) for segment in segments]
    if not entries:
        raise ValueError("there is no part of an index: give at least one")
    for one, other in combinations(entries, 2):
        if one.uuid == other.uuid:
            raise ValueError(f"part {one.uuid} is given twice")
        shared = (covered(one) or frozenset()) & (covered(other) or frozenset())
        if shared:
            raise ValueError(f"two parts of an index cover fragment {min(shared)}")
        if (one.fields, one.details_type) != (other.fields, other.details_type):
            raise ValueError(
                f"parts of one index are of different columns or types: {title_of(one.details_type)} of field "
                f"{one.fields}, {title_of(other.details_type)} of field {other.fields}"
            )
    return entries


def _plan_of(snapshot: Snapshot, entries: Sequence[IndexEntry]) -> IndexPlan:
    plan = plan_of(snapshot, entries[0])
    if plan is None:
        kind = title_of(entries[0].details_type)
        raise UnsupportedError(f"parts of type {kind} are not merged here", feature=kind)
    for entry in entries:
        if names_ids_of_old(snapshot, plan, entry):
            raise UnsupportedError(
                f"part {entry.uuid} of an old release names rows by their stable ids, and is not merged: make it again "
                "(ds.create_index_uncommitted)",
                feature="B-trees of stable row ids",
            )
    return plan


def _renamed(entry: IndexEntry, name: str) -> IndexEntry:
    return encode_index(replace(entry, name=name), describe_index(entry))


def _covered_by(
    new: Sequence[IndexEntry], known: Sequence[IndexEntry], name: str, present: frozenset[int]
) -> tuple[IndexEntry, ...]:
    """The parts of an index that new ones replace.

    Bitmaps keep fragments whose rows were all deleted or moved: only those that are present count.
    """
    fragments = frozenset[int]().union(*(covered(entry) or () for entry in new))
    removed = []
    for entry in (entry for entry in known if entry.name == name):
        old = covered(entry) or frozenset()
        rest = (old - fragments) & present
        is_other = entry.fields == new[0].fields and is_other_type(entry, new[0])
        if is_other and rest:
            raise ValueError(
                f"index {name!r} is a {title_of(entry.details_type)} index with a part of fragment {min(rest)}, which no new "
                "part covers, and all parts of an index are of one type: choose another name, drop the index first, or make "
                f"{title_of(new[0].details_type)} parts of all fragments"
            )
        if rest and old & fragments:
            raise ValueError(
                f"a part of index {name!r} covers fragment {min(old & fragments)} and also fragment {min(rest)}, which no "
                "new part covers: drop the index first, or make a part of both"
            )
        if is_other or old <= fragments or old & fragments:
            removed.append(entry)
    return tuple(removed)
