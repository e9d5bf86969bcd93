"""Brings the commits of a branch to its parent, which has not changed since.

::

    check that the parent stands where the branch began  ->  copy the branch's own files into the parent's folders
        ->  one commit: the branch's version, as the parent's next one

Nothing is visible before the commit. Files that were copied for a commit that did not happen are left: another process may
be bringing the same files. A repeated call writes them again, and a cleanup removes them.
"""

from __future__ import annotations

from collections.abc import Mapping

from lancecy.changes.base import Change
from lancecy.changes.branch_files import BranchFiles, branch_files, copy_files, in_own_folder
from lancecy.changes.lineage import BranchStart, FastForwarded, branch_start, fast_forwards, open_at
from lancecy.changes.options import CommitRequest
from lancecy.changes.transactions import read_version
from lancecy.errors import ConflictError, LanceError, printable
from lancecy.keyword_options import checked_arguments
from lancecy.progress import Progress, silent
from lancecy.records import dataclass
from lancecy.store.base import Store
from lancecy.table import flags
from lancecy.table.operations import FAST_FORWARD, FastForward
from lancecy.table.paths import DETACHED
from lancecy.table.snapshot import Snapshot
from lancecy.table.versions import ManifestLocation, locate
from lancecy.table.wire.manifest_file import ManifestFile, decode_manifest_file

__all__ = ["FastForwardStats", "FastForwards"]

_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class FastForwardStats:
    """What a fast-forward did.

    Attributes
    ----------
    version : int
        Version of the parent that has the branch's content now.
    branch_version : int
        Version of the branch.
    num_files : int
        Files that were copied.
    num_bytes : int, bytes
    """

    version: int
    branch_version: int
    num_files: int = 0
    num_bytes: int = 0


class FastForwards(Change):
    """The dataset method that brings a branch to its parent."""

    @checked_arguments()
    def fast_forward(
        self, branch: str, progress: Progress | None = None, *, dry_run: bool = False
    ) -> FastForwardStats:
        """Make the newest version of a branch the next version of this table, which has not changed since the branch began.

        Parameters
        ----------
        branch : str
            A branch that was made from this one: from the main branch, or from the branch that is open.
        progress : function of a Step, optional
            Called while files are copied.
        dry_run : bool
            Only check whether it is possible, and count what would be copied.

        Returns
        -------
        FastForwardStats
            If the branch has nothing new, no version is made.

        Raises
        ------
        ConflictError
            The table has other versions since; the message names them. Nothing is changed.
        NotFoundError
            There is no such branch.
        ValueError
            The branch was made from another one.
        UnsupportedError
            The branch has indices that wait for a remapping, or row ids outside of its manifest.
        MissingFileError
            A file of the branch is missing.

        Notes
        -----
        The branch's files are copied into this table's folders, so the branch can be deleted afterwards; until then it
        can be used, and brought here again if this table has no other changes. All its commits become one version.
        Rows, row ids, fragments, indices, columns and configuration are those of the branch. Rows that the branch
        created or updated since the last fast-forward get this new version as their ``_row_created_at_version`` and
        ``_row_last_updated_at_version``, because numbers of the branch's versions mean other ones here.

        Copied files that no version names, as after a crash, are removed by a cleanup.

        Examples
        --------
        >>> import lancecy, tempfile
        >>> ds = lancecy.write_dataset({"a": [1]}, tempfile.mkdtemp() + "/t.lance")
        >>> ds.create_branch("trial").append({"a": [2]})
        >>> ds.fast_forward("trial").num_files
        1
        >>> ds.to_table().to_pydict(), ds.version
        ({'a': [1, 2]}, 2)
        """
        if self._snapshot.version >= DETACHED:
            raise ValueError("a detached version is no branch: open the newest version first")
        target = self._newest()
        flags.check_writable(target.manifest.reader_flags, target.manifest.writer_flags)
        start = branch_start(target, branch)
        _check_parent(start, branch, target)
        source = open_at(target, (branch, None))
        steps = _steps(start, branch, source, target)
        if steps[-1][0] == source.version:
            if not dry_run:
                self._move(target.version)
            return FastForwardStats(target.version, source.version)
        record = FastForwarded(branch, start.id, (*steps, (source.version, target.version + 1)))
        files = branch_files(source, target)
        if dry_run:
            return FastForwardStats(target.version + 1, source.version, len(files.files), files.nbytes)
        store = target.location.open(target.session)
        nbytes = copy_files(files, source, target, store, progress or silent)
        self._commit(record, source, target, files)
        return FastForwardStats(self._snapshot.version, source.version, len(files.files), nbytes)

    def _commit(self, record: FastForwarded, source: Snapshot, target: Snapshot, files: BranchFiles) -> None:
        operation = FastForward(
            _stored(source),
            files.places,
            record.steps,
            files.bases,
            in_own_folder(files.copied),
            _changed(target.manifest.config, source.manifest.config),
        )
        try:
            self._change(operation, target, CommitRequest(properties={FAST_FORWARD: record.to_text()}))
        except ConflictError as error:
            raise _refusal(record.branch, target, target.version) or error from error


def _stored(source: Snapshot) -> ManifestFile:
    path = source.manifest_file.path
    return decode_manifest_file(source.store.get(path), path, source.version, source.limits)


def _changed(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in new.items() if old.get(key) != value}


def _check_parent(start: BranchStart, branch: str, target: Snapshot) -> None:
    here = target.manifest.branch
    if start.parent != here:
        parent = printable(start.parent or "main")
        raise ValueError(
            f"branch {printable(branch)!r} was made from {parent!r} and not from {printable(here or 'main')!r}: bring it "
            f"there first, by checkout_version(({parent!r}, None)).fast_forward({printable(branch)!r})"
        )


def _steps(
    start: BranchStart, branch: str, source: Snapshot, target: Snapshot
) -> tuple[tuple[int, int], ...]:
    """The versions that branch and parent have in common.

    The last ones are the newest of both, or of the parent, or of the branch, which then has nothing new.

    Raises
    ------
    ConflictError
        Both have versions that the other one lacks.
    """
    steps: tuple[tuple[int, int], ...] = ((start.version, start.version),)
    for found in fast_forwards(target, start.version, target.version):
        is_ours = (found.branch, found.id, found.steps[0][0]) == (branch, start.id, start.version)
        if is_ours and found.steps[-1][0] <= source.version:
            steps = found.steps
            break
    theirs, ours = steps[-1]
    if target.version == ours or source.version == theirs:
        return steps
    refusal = _refusal(branch, target, ours)
    raise refusal or ConflictError(
        f"branch {printable(branch)!r} begins at version {start.version}, but {target.uri} ends at {target.version}: its "
        "newest versions are gone"
    )


def _refusal(branch: str, target: Snapshot, after: int) -> ConflictError | None:
    """What stands in the way of a fast-forward: the parent's later versions; None without any."""
    later = [found for found in locate.locations(target.store, target.versions) if found.version > after]
    if not later:
        return None
    named = [_described(target.store, found, target) for found in later[:_MOST_NAMED]]
    more = f" and {len(later) - _MOST_NAMED:,} before them" if len(later) > _MOST_NAMED else ""
    name = printable(branch)
    return ConflictError(
        f"{target.uri} has versions that branch {name!r} lacks: {', '.join(named)}{more}; nothing was changed. Compare "
        f"the two with diff(({name!r}, None)) and bring the branch's rows with append or merge_insert, or make the "
        "branch's changes again on a branch of the newest version"
    )


def _described(store: Store, location: ManifestLocation, target: Snapshot) -> str:
    """A version with its operation and its number of rows, as far as they can be read."""
    try:
        manifest, made = read_version(store, location, target.limits)
    except LanceError:
        return f"version {location.version} (unreadable)"
    what = "unknown" if made is None else made.operation.name
    rows = "" if manifest.num_rows is None else f", {manifest.num_rows:,} rows"
    return f"version {location.version} ({what}{rows})"
