"""Deep clone: a new table with copies of all files that one version needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from lancecy.changes.clone_copies import copy_files, present_sizes
from lancecy.changes.clone_files import FileCopy, clone_files, explained
from lancecy.changes.clone_plan import ClonePlan, begun, read_plan, remove_plan
from lancecy.changes.outside_blobs import bases_of_blobs
from lancecy.changes.shallow_clone import check_apart, clone_of, is_of_one_kind
from lancecy.errors import ExistsError, LanceError
from lancecy.progress import Progress, silent
from lancecy.store.local import LocalStore
from lancecy.store.uri import canonical_uri
from lancecy.table.answers import run_on
from lancecy.table.commit.driver import check_create, commit_to
from lancecy.table.commit.options import Policy
from lancecy.table.location import TableLocation
from lancecy.table.operations import Clone, Transaction
from lancecy.table.paths import VERSIONS
from lancecy.table.placement import check_new_place
from lancecy.table.snapshot import Snapshot, load_snapshot
from lancecy.table.versions import version_store

__all__ = ["copy_location", "deep_clone"]


def deep_clone(
    source: Snapshot, target: TableLocation, *, verify: bool = False, progress: Progress = silent
) -> Snapshot:
    """Make a table with copies of all files of a version; continue if an earlier call was interrupted.

    Parameters
    ----------
    source : Snapshot
    target : TableLocation
    verify : bool
        Compare all copied bytes with those of the source.
    progress : function of a Step

    Returns
    -------
    Snapshot
        The clone. Its only version has the number of the source's.

    Raises
    ------
    ExistsError
        The target has a table, or the unfinished clone of another version.
    DatasetNotFoundError
        A file is missing in the source.
    PathPolicyError
        One of the two places is inside the other, or the target in a folder that a table keeps for itself.
    UnsupportedError
        The table needs writer features that this release lacks, or the target cannot create an object atomically.
    StoreError
        A store failed, or a copy differs from its source. The same call continues.
    """
    return _DeepClone(source, target, verify, progress).run()


def copy_location(source: Snapshot, target: str, storage_options: Mapping[str, Any] | None) -> TableLocation:
    """The location of a clone of a table.

    Parameters
    ----------
    source : Snapshot
    target : str
        Path or URI.
    storage_options : mapping, optional
        By default the source's, if the target is of the same kind of storage.

    Raises
    ------
    ValueError
        The URI cannot be that of a folder.
    """
    location = source.location
    if storage_options is None:
        is_alike = is_of_one_kind(canonical_uri(target), source.uri)
        storage_options = location.root_options if is_alike else {}
    made = TableLocation.of(
        target, storage_options, location.untrusted, location.allowed_bases, location.limits
    )
    return made.with_credentials(location.embed_credentials)


class _DeepClone:
    """The state of one deep clone."""

    def __init__(self, source: Snapshot, target: TableLocation, verify: bool, progress: Progress) -> None:
        self.source = source
        self.location = target
        self.store = target.open(source.session)
        self.verify = verify
        self.progress = progress

    def run(self) -> Snapshot:
        check_apart(self.source.uri, self.location.uri)
        check_new_place(self.location, self.source.session)
        earlier = self._finished()
        if earlier is not None:
            remove_plan(self.store)
            return earlier
        # Both look at the source alone: nothing is made if it lacks a file.
        files = clone_files(self.source)
        operation = self._operation(files.renamed)
        made = self.store.missing_folders(f"{VERSIONS}/x") if isinstance(self.store, LocalStore) else ()
        check_create(self.store)
        plan, continues = begun(self.store, self.source)
        present = present_sizes(self.store, files.files) if continues else {}
        try:
            copy_files(
                self.source.session,
                self.store,
                files.files,
                present,
                partial(explained, self.source),
                verify=self.verify,
                progress=self.progress,
            )
        except BaseException as error:
            self._interrupted(error, made, files.files)
            raise
        try:
            self._commit(operation, plan)
        except ExistsError:
            remove_plan(self.store)  # another process has finished meanwhile
            raise
        remove_plan(self.store)
        return load_snapshot(self.location, self.source.version, session=self.source.session)

    def _operation(self, renamed: Mapping[tuple[int | None, str], str]) -> Clone:
        operation = clone_of(self.source, self.location, is_shallow=False)
        return replace(operation, renamed=renamed, kept_bases=bases_of_blobs(self.source))

    def _finished(self) -> Snapshot | None:
        """The table in the target, if an earlier call of this clone has committed it."""
        versions = version_store(self.store)
        first = next(iter(run_on(versions.versions(), self.store)), None)
        if first is None:
            return None
        plan = read_plan(self.store)
        if plan is not None and plan.copies(self.source) and first.version == plan.version:
            clone = load_snapshot(self.location, first.version, session=self.source.session)
            if clone.manifest.transaction_file == f"{plan.version}-{plan.transaction}.txn":
                return clone
        raise ExistsError(
            f"{self.location.uri} has a table already; clone to another place",
            kind="dataset",
            name=self.location.uri,
        )

    def _commit(self, operation: Clone, plan: ClonePlan) -> None:
        transaction = Transaction(plan.version, plan.transaction, operation)
        policy = Policy(limits=self.location.limits)
        commit_to(self.store, transaction, None, self.source.session, self.location, policy)

    def _interrupted(self, error: BaseException, folders: Sequence[str], files: Sequence[FileCopy]) -> None:
        """Say how to continue, or remove the plan if nothing was copied yet."""
        try:
            copied = len(present_sizes(self.store, files))
            if not copied:
                remove_plan(self.store)
                LocalStore.remove_folders(folders)
                return
        except LanceError:
            copied = 0
        error.add_note(
            f"There is no table at {self.location.uri} yet. {copied} of {len(files)} files are there: the same call copies "
            "the others. To give up, remove that folder."
        )
