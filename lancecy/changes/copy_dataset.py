"""Copies a table with its history: versions, tags and branches.

::

    plan file -> data, deletions, indices, transactions -> manifests of branches -> branches -> tags
        -> manifests of the main table -> new versions that relocate bases -> remove the plan file

Manifests are copied byte for byte, or with other paths of their bases; then no version is new.

Of each table the newest manifest comes first. So an interrupted copy is no table yet, or it opens at its newest version and
only older ones are missing: a writer then adds a version above those that the next call fills in. Every manifest is created,
never replaced.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace

from lancecy.changes.clone_copies import Explain, copy_files, present_sizes
from lancecy.changes.clone_files import FileCopy
from lancecy.changes.commit import commit_operation
from lancecy.changes.copy_bases import BaseCopy, NewPlaces, base_copies, store_of
from lancecy.changes.copy_contents import CopyContents, inside
from lancecy.changes.copy_plan import CopyPlan, read_plan, remove_plan, write_plan
from lancecy.changes.copy_selection import CopySelection, CopyVersions, select
from lancecy.changes.options import CommitRequest
from lancecy.changes.shallow_clone import check_apart
from lancecy.errors import DatasetNotFoundError, ExistsError, printable
from lancecy.progress import Progress, Step, silent
from lancecy.records import dataclass
from lancecy.session import Session
from lancecy.store.base import PutMode, Store
from lancecy.store.key_values.ddb_uri import data_uri, shown_uri
from lancecy.table.answers import run_on
from lancecy.table.bases import canonical_base, spelling
from lancecy.table.commit.driver import check_create
from lancecy.table.location import TableLocation
from lancecy.table.manifest import BasePath
from lancecy.table.operations import UpdateBases
from lancecy.table.placement import check_new_place
from lancecy.table.refs import Pin
from lancecy.table.refs.contents import decode_pin
from lancecy.table.refs.places import branch_location, main_location
from lancecy.table.snapshot import Snapshot, load_snapshot, newest_snapshot
from lancecy.table.versions import ManifestLocation, Outcome, version_store
from lancecy.table.wire.manifest import with_places

__all__ = ["CopiedDataset", "copy_dataset", "copy_groups", "newest_of_each"]

# Manifests that are written at once; those of a group follow those of the group before.
_GROUP = 16


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
    bases : dict of str to str
        New places of the bases whose files were copied, by their places before.
    """

    uri: str
    versions: dict[str, list[int]]
    tags: list[str]
    left_out_tags: list[str]
    left_out_branches: list[str]
    num_files: int
    nbytes: int
    bases: dict[str, str] = field(default_factory=dict)


def copy_dataset(
    source: Snapshot,
    target: TableLocation,
    versions: CopyVersions = None,
    *,
    bases: NewPlaces | None = None,
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
    bases : mapping of str to str, optional
        New places of bases outside of the table, by their names or paths: their files are copied too, and every version names
        the new places and the copy instead of the source. If it is None, versions are copied byte for byte.
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
        The table has no such version or base, or a file is missing in the source.
    ConflictError
        A cleanup of the source removed a version meanwhile, or two bases would have one place.
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
    return _TableCopy(source, target, versions, bases, progress).run(verify=verify, dry_run=dry_run)


def newest_of_each(
    main: TableLocation, selection: CopySelection, session: Session
) -> dict[str | None, Snapshot]:
    """The newest copied version of the main table and of each branch."""
    return {
        branch: load_snapshot(branch_location(main, branch), versions[-1].version, session=session)
        for branch, versions in selection.versions.items()
    }


def copy_groups(
    session: Session,
    groups: Sequence[tuple[Store, Sequence[FileCopy], bool]],
    explain: Explain,
    *,
    verify: bool,
    progress: Progress,
) -> None:
    """Copy files to several stores.

    Parameters
    ----------
    session : Session
    groups : sequence of (Store, sequence of FileCopy, bool)
        A target, its files, and whether an earlier call may have copied some.
    explain, verify
        As for ``copy_files``.
    progress : function of a Step
        Told of all groups as one.

    Raises
    ------
    DatasetNotFoundError, StoreError
        As ``copy_files``.
    """
    total, done = sum(file.size for _, files, _ in groups for file in files), 0
    for target, files, continues in groups:

        def told(step: Step, before: int = done) -> None:
            progress(replace(step, done=before + step.done, total=total))

        present = present_sizes(target, files) if continues else {}
        copy_files(session, target, files, present, explain, what="copy", verify=verify, progress=told)
        done += sum(file.size for file in files)


class _TableCopy:
    """The state of one copy."""

    def __init__(
        self,
        source: Snapshot,
        target: TableLocation,
        versions: CopyVersions,
        bases: NewPlaces | None,
        progress: Progress,
    ) -> None:
        self.session = source.session
        self.main = main_location(source.location, source.manifest.branch)
        self.source = self.main.open(self.session)
        self.location = target
        self.target = target.open(self.session)
        self.asked = list(versions) if isinstance(versions, Sequence) else versions
        self.places = bases
        self.bases: dict[str, BaseCopy] = {}
        self.progress = progress

    def run(self, *, verify: bool, dry_run: bool) -> CopiedDataset:
        check_apart(self.main.uri, self.location.uri)
        check_new_place(self.location, self.session)
        plan = self._continued()
        planned = None if plan is None else plan.versions
        selection = select(self.main, self.source, self.session, self.asked, planned)
        if self.places:
            newest = list(newest_of_each(self.main, selection, self.session).values())
            self.bases = base_copies(newest, self.places, data_uri(self.location.uri))
        contents = CopyContents(self.main, self.source, self.session, selection, self.bases)
        contents.read(self.progress)
        groups = [(self.target, contents.files(), plan is not None), *self._of_bases(contents, plan)]
        if not dry_run:
            check_create(self.target)
            if plan is None:
                write_plan(
                    self.target, CopyPlan(self.main.uri, self.asked, selection.numbers, self._asked_bases)
                )
            self._carry_out(contents, groups, verify)
        files = [file for _, found, _ in groups for file in found]
        return CopiedDataset(
            shown_uri(self.location.uri),
            selection.numbers,
            list(selection.tags),
            selection.left_out_tags,
            selection.left_out_branches,
            len(files),
            sum(file.size for file in files),
            {place: canonical_base(one.copied) for place, one in self.bases.items()},
        )

    @property
    def _asked_bases(self) -> dict[str, str] | None:
        return None if self.places is None else dict(self.places)

    def _of_bases(
        self, contents: CopyContents, plan: CopyPlan | None
    ) -> Iterator[tuple[Store, Sequence[FileCopy], bool]]:
        """The files of each base and the store they go to."""
        for place, base in self.bases.items():
            source = store_of(base.recorded, self.main, self.session)
            location = self.location.allowing([canonical_base(base.copied)])
            target = store_of(base.copied, location, self.session)
            yield target[0], contents.base_files(place, base, source, target), plan is not None

    def _continued(self) -> CopyPlan | None:
        """The plan of the interrupted copy that this one continues; refuses a target with anything else."""
        plan = read_plan(self.target, self.location.limits)
        if plan is None:
            if newest_snapshot(self.location, self.session) is not None:
                raise self._refused("has a table already")
        elif (plan.source, plan.asked, plan.bases) != (self.main.uri, self.asked, self._asked_bases):
            bases = f" and bases={plan.bases}" if plan.bases else ""
            raise self._refused(
                f"has the unfinished copy of {printable(plan.source)} with versions={plan.asked}{bases}: finish it, or remove "
                "the folder"
            )
        return plan

    def _refused(self, problem: str) -> ExistsError:
        return ExistsError(
            f"{printable(self.location.uri)} {problem}; copy to another place",
            kind="dataset",
            name=self.location.uri,
        )

    def _carry_out(
        self,
        contents: CopyContents,
        groups: Sequence[tuple[Store, Sequence[FileCopy], bool]],
        verify: bool,
    ) -> None:
        try:
            copy_groups(self.session, groups, contents.explained, verify=verify, progress=self.progress)
            self._write_versions(contents)
            for branch in contents.selection.versions if self.places is None else ():
                self._relocate_bases(branch, contents.moved[branch])
        except BaseException as error:
            error.add_note(
                f"The copy at {self.location.uri} is not finished: the same call continues it. To give up, remove that folder."
            )
            raise
        remove_plan(self.target)

    # -- manifests --------------------------------------------------------------------------------

    def _write_versions(self, contents: CopyContents) -> None:
        """Write all manifests, of each table the newest first, and branches and tags before those of the main table."""
        versions = contents.selection.versions
        total, done = sum(map(len, versions.values())), 0
        for branch, found in reversed(versions.items()):
            if branch is None:
                self._write_refs(contents.selection)
            newest, *older = reversed(found)
            groups = [older[start : start + _GROUP] for start in range(0, len(older), _GROUP)]
            for group in ([newest], *groups):
                self.progress(Step("copy versions", done, total, "versions"))
                self._write_group(contents, branch, group)
                done += len(group)
        self.progress(Step("copy versions", total, total, "versions"))

    def _write_group(
        self, contents: CopyContents, branch: str | None, group: Sequence[ManifestLocation]
    ) -> None:
        store = branch_location(self.location, branch).open(self.session)
        versions = version_store(store)

        def place_of(base: BasePath) -> str | None:
            return self._place_of(base, contents.moved[branch])

        def write(one: ManifestLocation) -> None:
            data = contents.manifest(branch, one)
            if self.places is not None:
                data = with_places(data, place_of, one.path, self.main.limits)
            outcome = run_on(versions.publish(one.version, one.naming, data), store)
            if outcome is Outcome.WON:
                return
            # An external manifest store finishes the version of an earlier call, whose manifest may have no final name yet.
            run_on(versions.at(one.version), store)
            if store.get(one.path).tobytes() != data:
                raise self._refused(f"has another version {one.version}, so another process writes there")

        self.session.map(write, group, blocking=True)

    def _place_of(self, base: BasePath, moved: Mapping[int, str]) -> str | None:
        """The path of a base in the copy, None if it stays."""
        copied = self.bases.get(spelling(base))
        if copied is not None:
            return copied.copied.path
        path = inside(self.main.uri, moved.get(base.id) or spelling(base))
        return None if path is None else f"{data_uri(self.location.uri)}/{path}".rstrip("/")

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
            number: replace(base, path=path)
            for number, base in newest.manifest.base_paths.items()
            if base.is_dataset_root and (path := self._place_of(base, moved)) is not None
        }
        known = newest.manifest.base_paths
        # An earlier call may have made the version.
        if all(spelling(base) == spelling(known[number]) for number, base in bases.items()):
            return
        own = frozenset(number for number, base in bases.items() if spelling(base) == data_uri(location.uri))
        others = tuple(base for number, base in bases.items() if number not in own)
        operation = UpdateBases(others, relocate=True, adopted=own)
        commit_operation(operation, location, self.session, newest, CommitRequest())
