"""Removes old versions of a table and unreferenced files, by ``table.cleanup``."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import timedelta

from lancecy.changes.base import Change
from lancecy.changes.clean import clean, clean_all, plan_cleanup
from lancecy.changes.explain_cleanup import CleanupExplanation, explained_cleanup
from lancecy.keyword_options import checked_arguments, whole_number
from lancecy.progress import Progress
from lancecy.table.cleanup.run import CleanupOptions, CleanupStats

__all__ = ["Cleanups"]

_USUAL_AGE = timedelta(days=14)


class Cleanups(Change):
    """The dataset methods for cleanup."""

    @checked_arguments()
    def cleanup_old_versions(
        self,
        older_than: timedelta | None = None,
        retain_versions: int | None = None,
        *,
        delete_unverified: bool = False,
        error_if_tagged_old_versions: bool = True,
        delete_rate_limit: int | None = None,
        versions: Collection[int] | None = None,
        delete_concurrency: int | None = None,
        used_by: Iterable[str | os.PathLike[str]] = (),
        all_branches: bool = False,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> CleanupStats:
        """Remove old versions, the files only they need, and files left by failed writers.

        Parameters
        ----------
        older_than : timedelta, optional
            Minimum age of a version and of its files, by the writer's clock and by the storage's clock. Two weeks if
            neither this nor ``retain_versions`` nor ``versions`` is given.
        retain_versions : int, optional
            Number of newest versions to keep.
        delete_unverified : bool
            Files that no version names may belong to a pending commit, so they stay until they are seven days old. True
            removes them at once. Use it only while no other process writes to the table.
        error_if_tagged_old_versions : bool
            Whether a tag on an old version is an error. Otherwise the tagged version stays.
        delete_rate_limit : int, optional
            Maximum number of files removed per second, for storages that refuse too many requests. By default as fast
            as the storage allows.
        versions : collection of int, optional
            Remove no other versions.
        delete_concurrency : int, optional
            Maximum number of files removed at once, at most 1000.
        used_by : iterable of str or path
            Roots of tables that use files of this table, such as its shallow clones. Files that their versions need
            stay. A table does not record its clones. To remember them, set the configuration key
            ``"lancecy.used_by"``, one root per line.
        all_branches : bool
            Clean up the table and all its branches, from any of them. Branches come first, as they need files of the
            table. Nothing is removed before all are planned. The newest version of each branch stays.
        dry_run : bool
            Report what would be removed, and remove nothing.
        progress : function of a Step, optional
            Called for the versions read and the files removed.

        Returns
        -------
        CleanupStats
            Counts of what was removed, or would be.

        Raises
        ------
        ConflictError
            An old version has a tag, or tags or branches were made meanwhile; nothing was removed.
        FormatError, LimitError, UnsupportedError
            The manifest of a version, a tag or a branch cannot be read, or needs files of an unknown kind, or the newest
            manifest is another table's; nothing was removed.
        NotFoundError
            The open version or a table in ``used_by`` does not exist; nothing was removed.
        PathPolicyError
            A folder of the table is a symbolic link, or this table may not read a table in ``used_by``.
        StoreError
            The storage failed; the message says what was removed before. Another cleanup removes the rest.
        ValueError
            The age is negative, no version would stay, a limit of the files is less than 1, or ``versions`` are given
            for all branches.
        TypeError
            The age is a number or text, or another argument has another type than stated.

        Notes
        -----
        The open version and all later ones stay, and so do tagged versions and those at which branches begin. All
        remaining versions, and all versions of all branches, keep their files. Cleanup never touches files in other
        bases, files whose names do not belong to the format, and files behind a symbolic link.

        Versions are removed before their files, so every listed version can be read, even after a crash.

        While others write, keep an age of a minute or more, in cleanups by pylance too: a commit that takes under a second
        is not checked for versions that were made and removed meanwhile.

        Examples
        --------
        >>> import lancecy, tempfile
        >>> from datetime import timedelta
        >>> ds = lancecy.write_dataset({"a": [1]}, tempfile.mkdtemp() + "/t.lance")
        >>> ds.insert({"a": [2]}, mode="overwrite")
        >>> ds.cleanup_old_versions(timedelta(0), dry_run=True).data_files_removed
        1
        >>> stats = ds.cleanup_old_versions(timedelta(0))
        >>> stats.old_versions, [version["version"] for version in ds.versions()]
        (1, [2])
        """
        if isinstance(used_by, str | os.PathLike):
            raise TypeError("used_by must be a list of roots, not a single one: write [root]")
        options = _options(self._snapshot.version, older_than, retain_versions, versions)
        options = replace(
            options,
            unverified=delete_unverified,
            fail_if_tagged=error_if_tagged_old_versions,
            files_per_second=None
            if delete_rate_limit is None
            else whole_number("delete_rate_limit", delete_rate_limit),
            files_at_once=None
            if delete_concurrency is None
            else whole_number("delete_concurrency", delete_concurrency),
        )
        if all_branches and versions is not None:
            raise ValueError("versions are numbers of one branch: leave all_branches out")
        cleaned = clean_all if all_branches else clean
        return cleaned(self._newest(), options, used_by, progress, dry_run=dry_run)

    @checked_arguments()
    def explain_cleanup_old_versions(
        self,
        older_than: timedelta | None = None,
        retain_versions: int | None = None,
        *,
        delete_unverified: bool = False,
        error_if_tagged_old_versions: bool = True,
        delete_rate_limit: int | None = None,
        versions: Collection[int] | None = None,
        include_files: bool = False,
        max_files: int = 1000,
        used_by: Iterable[str | os.PathLike[str]] = (),
    ) -> CleanupExplanation:
        """What :meth:`cleanup_old_versions` would remove with the same arguments; nothing is removed.

        Parameters
        ----------
        older_than, retain_versions, delete_unverified, error_if_tagged_old_versions, versions, used_by
            As for :meth:`cleanup_old_versions`.
        delete_rate_limit : int, optional
            Accepted as in pylance, and ignored.
        include_files : bool
            List the files.
        max_files : int
            Maximum number of files in the list.

        Returns
        -------
        CleanupExplanation

        Raises
        ------
        ValueError
            ``max_files`` is less than 1; or as for :meth:`cleanup_old_versions`.
        LanceError, TypeError
            As for :meth:`cleanup_old_versions`.

        Examples
        --------
        >>> import lancecy, tempfile
        >>> from datetime import timedelta
        >>> ds = lancecy.write_dataset({"a": [1]}, tempfile.mkdtemp() + "/t.lance")
        >>> ds.insert({"a": [2]}, mode="overwrite")
        >>> found = ds.explain_cleanup_old_versions(timedelta(0), include_files=True)
        >>> found.stats.data_files_removed, sorted(file.kind for file in found.candidate_files)
        (1, ['data', 'manifest', 'transaction'])
        """
        if max_files < 1:
            raise ValueError(f"max_files is {max_files}; it has to be at least 1")
        options = _options(self._snapshot.version, older_than, retain_versions, versions)
        options = replace(options, unverified=delete_unverified, fail_if_tagged=error_if_tagged_old_versions)
        newest = self._newest()
        plan = plan_cleanup(newest, options, used_by)
        return explained_cleanup(plan, newest.version, max_files if include_files else 0, max_files)


def _options(
    opened: int,
    older_than: timedelta | None,
    retain_versions: int | None,
    versions: Collection[int] | None,
) -> CleanupOptions:
    """The options that say which versions are old."""
    if older_than is None and retain_versions is None and versions is None:
        older_than = _USUAL_AGE
    return CleanupOptions(
        opened,
        None if older_than is None else older_than // timedelta(microseconds=1) * 1000,
        retain_versions,
        None if versions is None else frozenset(whole_number("versions", v) for v in versions),
    )
