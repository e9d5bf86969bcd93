"""Moves bases of a table to other places: copies their files, then changes their paths, in one commit of each branch.

Until then nobody sees the copies. Files at the old places stay: old versions of the manifests name them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from lancecy.changes.clone_files import FileCopy
from lancecy.changes.commit import commit_operation
from lancecy.changes.copy_bases import BaseCopy, NewPlaces, base_copies, store_of
from lancecy.changes.copy_contents import CopyContents
from lancecy.changes.copy_dataset import CopiedDataset, copy_groups, newest_of_each
from lancecy.changes.copy_selection import CopySelection, select
from lancecy.changes.options import CommitRequest
from lancecy.errors import RetryableConflictError
from lancecy.progress import Progress, silent
from lancecy.store.base import Store
from lancecy.store.key_values.ddb_uri import shown_uri
from lancecy.table.bases import canonical_base, spelling
from lancecy.table.commit.driver import check_create
from lancecy.table.operations import UpdateBases
from lancecy.table.refs.places import branch_location, main_location
from lancecy.table.snapshot import Snapshot

__all__ = ["move_bases"]

# Writers that add files to a base meanwhile are outrun by copying only these.
_ROUNDS = 8


def move_bases(
    source: Snapshot,
    bases: NewPlaces,
    options: Mapping[str, object],
    *,
    verify: bool = False,
    dry_run: bool = False,
    progress: Progress = silent,
) -> CopiedDataset:
    """Copy the files of bases to other places, and give the bases these places.

    Parameters
    ----------
    source : Snapshot
        Any version of the table or of one of its branches.
    bases : mapping of str to str
        New places, by names or paths of bases.
    options : mapping
        Storage options for the new places.
    verify : bool
        Compare all copied bytes with those of the source.
    dry_run : bool
        Find what would be copied, and write nothing.
    progress : function of a Step

    Raises
    ------
    NotFoundError
        The table has no such base, or has lost a file.
    ConflictError
        Two bases would have one place, or other writers kept adding files to a base.
    PathPolicyError
        A place is no folder, or the table may not use it.
    UnsupportedError
        A version has features that this release lacks.
    FormatError, LimitError
        A manifest, tag or branch is damaged.
    StoreError
        A store failed, or a copy differs. The same call continues.
    """
    return _BaseMoves(source, bases, options, progress).run(verify=verify, dry_run=dry_run)


class _BaseMoves:
    """The state of one call."""

    def __init__(
        self, source: Snapshot, places: NewPlaces, options: Mapping[str, object], progress: Progress
    ) -> None:
        self.session = source.session
        self.main = main_location(source.location, source.manifest.branch)
        self.store = self.main.open(self.session)
        self.places = places
        self.options = options
        self.progress = progress

    def run(self, *, verify: bool, dry_run: bool) -> CopiedDataset:
        for _ in range(_ROUNDS - 1):
            with suppress(RetryableConflictError):
                return self._once(verify, dry_run)
        return self._once(verify, dry_run)

    def _once(self, verify: bool, dry_run: bool) -> CopiedDataset:
        selection = select(self.main, self.store, self.session, None)
        newest = newest_of_each(self.main, selection, self.session)
        bases = base_copies(list(newest.values()), self.places, self.main.uri)
        contents = CopyContents(self.main, self.store, self.session, selection, bases)
        contents.read(self.progress)
        groups = [self._files(contents, place, base) for place, base in bases.items()]
        if bases and not dry_run:
            check_create(self.store)
            try:
                copy_groups(self.session, groups, contents.explained, verify=verify, progress=self.progress)
                self._relocate(newest, bases)
            except BaseException as error:
                error.add_note("The bases have not moved yet: the same call continues.")
                raise
        return self._result(selection, bases, [file for _, found, _ in groups for file in found])

    def _files(
        self, contents: CopyContents, place: str, base: BaseCopy
    ) -> tuple[Store, Sequence[FileCopy], bool]:
        """The store that a base goes to, and its files."""
        source = store_of(base.recorded, self.main, self.session)
        options = {**self.main.storage_options, **self.options}
        location = replace(self.main, storage_options=options).allowing([canonical_base(base.copied)])
        target = store_of(base.copied, location, self.session)
        return target[0], contents.base_files(place, base, source, target), True

    def _relocate(self, newest: Mapping[str | None, Snapshot], bases: Mapping[str, BaseCopy]) -> None:
        """Change the paths in a new version of each branch, of the main table last."""
        for branch, snapshot in reversed(list(newest.items())):
            moved = tuple(
                replace(base, path=bases[spelling(base)].copied.path)
                for base in snapshot.manifest.base_paths.values()
                if spelling(base) in bases
            )
            if moved:
                operation = UpdateBases(moved, relocate=True)
                location = branch_location(self.main, branch)
                commit_operation(operation, location, self.session, snapshot, CommitRequest())

    def _result(
        self, selection: CopySelection, bases: Mapping[str, BaseCopy], files: Sequence[FileCopy]
    ) -> CopiedDataset:
        return CopiedDataset(
            shown_uri(self.main.uri),
            selection.numbers,
            list(selection.tags),
            selection.left_out_tags,
            selection.left_out_branches,
            len(files),
            sum(file.size for file in files),
            {place: canonical_base(one.copied) for place, one in bases.items()},
        )
