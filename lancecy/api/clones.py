"""Dataset methods that make a new table from one version of this one."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from lancecy.changes.deep_clone import copy_location, deep_clone
from lancecy.changes.protection import protecting
from lancecy.changes.shallow_clone import clone_location, shallow_clone
from lancecy.errors import UnsupportedError
from lancecy.keyword_options import checked_arguments
from lancecy.progress import Progress, silent
from lancecy.table.paths import DETACHED
from lancecy.table.refs.reference import Reference
from lancecy.table.snapshot import Snapshot, committed_snapshot, load_reference

__all__ = ["Clones"]


class Clones(ABC):
    """The methods of a dataset that clone a version into a table of its own."""

    _snapshot: Snapshot

    @abstractmethod
    def _made_of(self, snapshot: Snapshot) -> Any:
        """The dataset of a snapshot."""

    @checked_arguments()
    def shallow_clone(
        self,
        target_path: str | os.PathLike[str],
        reference: Reference = None,
        storage_options: Mapping[str, Any] | None = None,
        *,
        protect: bool | str = False,
    ) -> Any:
        """Make a new table that begins as one version of this one and uses its files.

        Costs the reading and writing of one manifest, however large the table is. Changes of either table do not show in
        the other; new files of the clone are in its own folder.

        Parameters
        ----------
        target_path : str or path
            Path or URI without a table, in any storage.
        reference : int, str, or (str or None, int or None), optional
            The version: of this branch by number, a tag, or a branch and a version of it, as for
            :meth:`checkout_version`. By default the version of this dataset.
        storage_options : mapping, optional
            For the target. By default those of this dataset, if both are in storage of the same kind. The files of this
            table are read with its own options.
        protect : bool or str
            True makes a tag on the cloned version, before the clone exists, so that cleanups of this table keep the files
            that the clone needs. Text is the name of the tag; otherwise it is made from the target. Its metadata has the
            clone's URI under ``"clone"``. A call that was killed leaves the tag, and the same call uses it. Deleting the tag ends the protection. Needs permission to write here. Cleanups with
            ``error_if_tagged_old_versions=False`` leave out tagged versions; others refuse to begin, and name the tag.

        Returns
        -------
        Dataset
            The new table. It has one version, with the number of the cloned one.

        Raises
        ------
        ExistsError
            The target has a table, or there is a tag of the name in ``protect`` for something else.
        ConflictError
            A cleanup of this table is removing the version (with ``protect``).
        ValueError
            A tag cannot have the name in ``protect``.
        NotFoundError
            There is no such version, tag or branch.
        PathPolicyError
            One of the two tables would be inside the other, or the target in a folder that a table keeps for itself.
        UnsupportedError
            The version is detached, the table has features that this release cannot write, or the target cannot create an
            object only if it is absent.
        StoreError
            The storage failed.

        Notes
        -----
        Without ``protect`` this table does not know the clone. A :meth:`cleanup_old_versions` of it removes files that
        only old versions need here, although the clone needs them too: reading the clone then raises ``MissingFileError``,
        which says so. :meth:`deep_clone` copies the files instead.

        A tag keeps the files of this table only. If this table is itself a shallow clone, the files of its source are kept
        by a tag there.

        A clone that is moved to another machine needs the files of this table at the same place there, or
        ``relocate_base``.

        Examples
        --------
        >>> import lancecy, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> ds = lancecy.write_dataset({"a": [1, 2, 3]}, f"{folder}/t.lance")
        >>> clone = ds.shallow_clone(f"{folder}/clone.lance")
        >>> clone.delete("a = 2")
        {'num_deleted_rows': 1}
        >>> clone.to_table()["a"].to_pylist(), ds.to_table()["a"].to_pylist()
        ([1, 3], [1, 2, 3])
        """
        source = self._cloned(reference)
        target = clone_location(source, os.fspath(target_path), storage_options)
        name = protect if isinstance(protect, str) else None
        with protecting(source, target, name) if protect or name is not None else nullcontext():
            committed = shallow_clone(source, target)
        made = committed_snapshot(target, committed.version, source.session, committed.written)
        return self._made_of(made)

    @checked_arguments()
    def deep_clone(
        self,
        target_path: str | os.PathLike[str],
        reference: Reference = None,
        storage_options: Mapping[str, Any] | None = None,
        *,
        verify: bool = False,
        progress: Progress | None = None,
    ) -> Any:
        """Copy one version, with all its files, into a new table that needs no other one.

        The files of all base paths, of a shallow clone's source and of a branch's main table are brought together:
        data, blobs, deletions and indices. Within a disk or an object store they are copied by the storage itself.

        A clone that was interrupted continues when it is called again with the same arguments: files that are there
        with their sizes stay. There is no table in the target before all files are in place.

        Parameters
        ----------
        target_path : str or path
            Path or URI without a table, in any storage.
        reference : int, str, or (str or None, int or None), optional
            The version: of this branch by number, a tag, or a branch and a version of it, as for
            :meth:`checkout_version`. By default the version of this dataset.
        storage_options : mapping, optional
            For the target. By default those of this dataset, if both are in storage of the same kind.
        verify : bool
            Also compare the bytes of each copy with the source: by the checksums of the storage if it has them, else
            by reading both. Sizes are always compared.
        progress : function of a :class:`lancecy.progress.Step`, optional
            Called as files are copied, with ``"clone"`` and bytes.

        Returns
        -------
        Dataset
            The new table. It has one version, with the number of the copied one.

        Raises
        ------
        ExistsError
            The target has a table, or the unfinished clone of another version.
        NotFoundError
            There is no such version, tag or branch.
        MissingFileError
            A file of the version is missing. Nothing is written.
        PathPolicyError
            One of the two tables would be inside the other.
        UnsupportedError
            The version is detached, the table has features that this release cannot write, or the target cannot create an
            object only if it is absent.
        StoreError
            One of the stores failed, or a copy differs. The same call continues.

        Notes
        -----
        Tags, branches and other versions are not copied. Blobs that a user stored outside of the table stay there.

        A cleanup of this table can remove files of an old version while they are copied: a tag on it prevents this.

        Examples
        --------
        >>> import lancecy, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> ds = lancecy.write_dataset({"a": [1, 2, 3]}, f"{folder}/t.lance")
        >>> copy = ds.deep_clone(f"{folder}/copy.lance", 1)
        >>> copy.to_table()["a"].to_pylist(), copy.version
        ([1, 2, 3], 1)
        """
        source = self._cloned(reference)
        target = copy_location(source, os.fspath(target_path), storage_options)
        return self._made_of(deep_clone(source, target, verify=verify, progress=progress or silent))

    def _cloned(self, reference: Reference) -> Snapshot:
        """The version that a reference names; this one for None."""
        here = self._snapshot
        if reference is None:
            found = here
        else:
            found = load_reference(here.location, here.manifest.branch, reference, here.session)
        if found.version >= DETACHED:
            raise UnsupportedError(
                f"version {found.version} is detached, and a clone begins with a version of the history: restore() makes it "
                "one",
                feature="clone of a detached version",
            )
        return found
