"""Copies a table with its history: versions, tags and branches, byte for byte.

::

    plan file -> data, deletions, indices, transactions -> manifests of branches -> manifests of the main table
        -> branches -> tags -> new versions that relocate bases -> remove the plan file

So an interrupted copy is no table yet, or it has the oldest versions only, and in both cases the next call continues. Every
manifest is created, never replaced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from lancecy.changes.clone_copies import copy_files, present_sizes
from lancecy.changes.clone_files import FileCopy
from lancecy.changes.commit import commit_operation
from lancecy.changes.copy_contents import CopyContents, inside
from lancecy.changes.copy_plan import CopyPlan, read_plan, remove_plan, write_plan
from lancecy.changes.copy_selection import CopySelection, CopyVersions, select
from lancecy.changes.options import CommitRequest
from lancecy.changes.shallow_clone import check_apart
from lancecy.errors import DatasetNotFoundError, ExistsError, printable
from lancecy.progress import Progress, Step, silent
from lancecy.store.base import PutMode
from lancecy.store.key_values.ddb_uri import data_uri
from lancecy.table.answers import run_on
from lancecy.table.bases import spelling
from lancecy.table.commit.driver import check_create
from lancecy.table.location import TableLocation
from lancecy.table.operations import UpdateBases
from lancecy.table.placement import check_new_place
from lancecy.table.refs import Pin
from lancecy.table.refs.contents import decode_pin
from lancecy.table.refs.places import branch_location, main_location
from lancecy.table.snapshot import Snapshot, load_snapshot, newest_snapshot
from lancecy.table.versions import ManifestLocation, Outcome, version_store

__all__ = ["CopiedDataset", "copy_dataset"]

# Manifests that are written at once; those of a group follow those of the group before.
_GROUP = 16
_TRIES = 4


@dataclass(frozen=True, slots=True)
class CopiedDataset:
    """What a copy of a table has.

    Attributes
    ----------
    uri : str
        Of the copy.
    versions : dict of str to list of int
        The versions of the main table (``"main"``) and of each branch, ascending.
    tags : list of str
    left_out_tags, left_out_branches : list of str
        Those of the source whose versions were not copied.
    num_files : int
        Without manifests, tags and branches.
    nbytes : int
        Size of these files.
    """

    uri: str
    versions: dict[str, list[int]]
    tags: list[str]
    left_out_tags: list[str]
    left_out_branches: list[str]
    num_files: int
    nbytes: int


def copy_dataset(
    source: Snapshot,
    target: TableLocation,
    versions: CopyVersions = None,
    *,
    verify: bool = False,
    dry_run: bool = False,
    progress: Progress = silent,
) -> CopiedDataset:
    """Copy a table with its history; continue if an earlier call was interrupted.

    Parameters
    ----------
    source : Snapshot
        Any version of the table or of one of its branches.
    target : TableLocation
    versions : int, sequence of int, or None
        A number of newest versions, a list of versions of the main table, or all.
    verify : bool
        Compare all copied bytes with those of the source.
    dry_run : bool
        Find what would be copied, and write nothing.
    progress : function of a Step

    Raises
    ------
    ExistsError
        The target has a table, or the unfinished copy of another table or of other versions.
    NotFoundError
        The table has no such version, or a file is missing in the source.
    ConflictError
        A cleanup of the source removed a version meanwhile.
    PathPolicyError
        One of the two places is inside the other, or the target in a folder that a table keeps for itself.
    UnsupportedError
        The source is a branch that was moved without its main table, a version has features that this release lacks, or the
        target cannot create an object atomically.
    FormatError, LimitError
        A manifest, tag or branch of the source is damaged.
    StoreError
        A store failed, or a copy differs from its source. The same call continues.
    """
    return _TableCopy(source, target, versions, progress).run(verify=verify, dry_run=dry_run)


class _TableCopy:
    """The state of one copy."""

    def __init__(
        self, source: Snapshot, target: TableLocation, versions: CopyVersions, progress: Progress
    ) -> None:
        self.session = source.session
        self.main = main_location(source.location, source.manifest.branch)
        self.source = self.main.open(self.session)
        self.location = target
        self.target = target.open(self.session)
        self.asked = list(versions) if isinstance(versions, Sequence) else versions
        self.progress = progress

    def run(self, *, verify: bool, dry_run: bool) -> CopiedDataset:
        check_apart(self.main.uri, self.location.uri)
        check_new_place(self.location, self.session)
        plan = self._continued()
        planned = None if plan is None else plan.versions
        selection = select(self.main, self.source, self.session, self.asked, planned)
        contents = CopyContents(self.main, self.source, self.session, selection)
        files = contents.files(self.progress)
        if not dry_run:
            if version_store(self.target).needs_conditional_put:
                check_create(self.target)
            if plan is None:
                write_plan(self.target, CopyPlan(self.main.uri, self.asked, selection.numbers))
            self._carry_out(contents, files, verify, is_new=plan is None)
        return CopiedDataset(
            self.location.uri,
            selection.numbers,
            list(selection.tags),
            selection.left_out_tags,
            selection.left_out_branches,
            len(files),
            sum(file.size for file in files),
        )

    def _continued(self) -> CopyPlan | None:
        """The plan of the interrupted copy that this one continues; refuses a target with anything else."""
        plan = read_plan(self.target, self.location.limits)
        if plan is None:
            if newest_snapshot(self.location, self.session) is not None:
                raise self._refused("has a table already")
        elif (plan.source, plan.asked) != (self.main.uri, self.asked):
            raise self._refused(
                f"has the unfinished copy of {printable(plan.source)} with versions={plan.asked}: finish it, or remove the folder"
            )
        return plan

    def _refused(self, problem: str) -> ExistsError:
        return ExistsError(
            f"{printable(self.location.uri)} {problem}; copy to another place",
            kind="dataset",
            name=self.location.uri,
        )

    def _carry_out(
        self, contents: CopyContents, files: Sequence[FileCopy], verify: bool, *, is_new: bool
    ) -> None:
        try:
            copy_files(
                self.session,
                self.target,
                files,
                {} if is_new else present_sizes(self.target, files),
                contents.explained,
                what="copy",
                verify=verify,
                progress=self.progress,
            )
            self._write_manifests(contents)
            self._write_refs(contents.selection)
            for branch in contents.selection.versions:
                self._relocate_bases(branch, contents.moved[branch])
        except BaseException as error:
            error.add_note(
                f"The copy at {self.location.uri} is not finished: the same call continues it. To give up, remove that folder."
            )
            raise
        remove_plan(self.target)

    # -- manifests --------------------------------------------------------------------------------

    def _write_manifests(self, contents: CopyContents) -> None:
        """Write all manifests, those of each table from the oldest to the newest, the main table last."""
        versions = contents.selection.versions
        total, done = sum(map(len, versions.values())), 0
        for branch, found in reversed(versions.items()):
            *older, newest = found
            groups = [older[start : start + _GROUP] for start in range(0, len(older), _GROUP)]
            for group in (*groups, [newest]):
                self.progress(Step("copy versions", done, total, "versions"))
                self._write_group(contents, branch, group)
                done += len(group)
        self.progress(Step("copy versions", total, total, "versions"))

    def _write_group(
        self, contents: CopyContents, branch: str | None, group: Sequence[ManifestLocation]
    ) -> None:
        store = branch_location(self.location, branch).open(self.session)
        versions = version_store(store)

        def write(one: ManifestLocation) -> None:
            data = contents.manifest(branch, one)
            outcome = run_on(versions.publish(one.version, one.naming, data, _TRIES), store)
            if outcome is not Outcome.WON and store.get(one.path).tobytes() != data:
                raise self._refused(f"has another version {one.version}, so another process writes there")

        self.session.map(write, group, blocking=True)

    # -- tags and branches ------------------------------------------------------------------------

    def _write_refs(self, selection: CopySelection) -> None:
        """Write branches, each after the one it was made from, and then tags."""
        for pin in (*selection.branches.values(), *selection.tags.values()):
            data = self._ref(pin, selection)
            if data is not None:
                with suppress(ExistsError):  # of an earlier call
                    self.target.put(pin.path, data, PutMode.CREATE)

    def _ref(self, pin: Pin, selection: CopySelection) -> bytes | None:
        """The bytes of a tag or a branch; None if it has gone, or names a version that is not copied by now."""
        try:
            memory = self.source.get_start(pin.path, self.main.limits.metadata_bytes + 1)
        except DatasetNotFoundError:
            return None
        now = decode_pin(memory, pin.path, self.main.limits)
        is_same = (now.branch, now.version) == (pin.branch, pin.version)
        return memory.tobytes() if is_same or selection.has(now.branch, now.version) else None

    # -- bases ------------------------------------------------------------------------------------

    def _relocate_bases(self, branch: str | None, moved: Mapping[int, str]) -> None:
        """Make a version whose bases that are in the source are in the copy, if there are such bases."""
        location = branch_location(self.location, branch)
        newest = load_snapshot(location, session=self.session)
        bases = {
            number: replace(base, path=f"{data_uri(self.location.uri)}/{path}".rstrip("/"))
            for number, base in newest.manifest.base_paths.items()
            if base.is_dataset_root
            and (path := inside(self.main.uri, moved.get(number) or spelling(base))) is not None
        }
        known = newest.manifest.base_paths
        # An earlier call may have made the version.
        if all(spelling(base) == spelling(known[number]) for number, base in bases.items()):
            return
        own = frozenset(number for number, base in bases.items() if spelling(base) == data_uri(location.uri))
        others = tuple(base for number, base in bases.items() if number not in own)
        operation = UpdateBases(others, relocate=True, adopted=own)
        commit_operation(operation, location, self.session, newest, CommitRequest())
