"""Registers base paths and relocates them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from lancecy.changes.base import Change
from lancecy.changes.base_files import check_relocation, moved_along
from lancecy.changes.options import CommitRequest
from lancecy.keyword_options import checked_arguments
from lancecy.table.bases import canonical_base
from lancecy.table.operations import UpdateBases
from lancecy.table.operations.base_paths import registered
from lancecy.write.targets import DatasetBasePath, base_paths_of, targets

__all__ = ["BaseUpdates"]


class BaseUpdates(Change):
    """The methods of a dataset that change its bases."""

    @checked_arguments()
    def add_bases(
        self, new_bases: Iterable[DatasetBasePath], transaction_properties: Mapping[str, str] | None = None
    ) -> Any:
        """Register base paths for data files; later writes can name them in ``target_bases``.

        Parameters
        ----------
        new_bases : iterable of DatasetBasePath
        transaction_properties : mapping of str to str, optional

        Returns
        -------
        Dataset
            This one.

        Raises
        ------
        ConflictError
            The table already has a base with that id, name or path.
        PathPolicyError
            A path does not name a folder, or holds credentials.
        """
        newest, wanted = self._newest(), tuple(new_bases)
        checked = base_paths_of(newest.manifest.base_paths, wanted)
        options = CommitRequest(properties=dict(transaction_properties or {}))
        # The commit assigns their ids: another writer may register bases too.
        operation = UpdateBases(tuple(base.to_base_path() for base in wanted))
        self._change(operation, newest, options, bases=checked)
        return self

    def relocate_base(
        self, base: str | os.PathLike[str], new_path: str | os.PathLike[str], *, force: bool = False
    ) -> Any:
        """Change the path of a base, to move a table to a copy of its files.

        If the new path is the table's own, as in a clone into which the files of its source were copied, they become its own
        files. Where a table was moved with its branches, branches of it that are bases too are relocated in the same commit.

        Parameters
        ----------
        base : str or path
            Name of the base, or its old path.
        new_path : str or path
            Absolute path or URI. It must hold the files of the newest version under their old names.
        force : bool
            Commit without looking for the files, for instance because they are copied later. Until then scans raise
            ``MissingFileError``.

        Returns
        -------
        Dataset
            This one.

        Raises
        ------
        NotFoundError
            The table has no such base.
        ConflictError
            Another base has this path.
        PathPolicyError
            The path does not name a folder, or holds credentials.
        MissingFileError
            Files of the base are not in the new place, and ``force`` is false. Nothing is committed.
        StoreError
            The new place cannot be read, and ``force`` is false. Nothing is committed.
        """
        newest = self._newest()
        known = newest.manifest.base_paths
        (number,) = targets(known, [base])
        moved = replace(known[number or 0], path=DatasetBasePath(new_path).to_base_path().path)
        registered(known, (moved,), relocate=True)  # a conflict is told before files are looked for
        is_own = moved.is_dataset_root and canonical_base(moved) == newest.location.uri
        together = (moved,) if is_own else (moved, *moved_along(newest, moved))
        for one in () if force else together:
            check_relocation(newest, one)
        adopted = frozenset({moved.id} if is_own else ())
        operation = UpdateBases(() if is_own else together, relocate=True, adopted=adopted)
        self._change(operation, newest, bases=together)
        return self
