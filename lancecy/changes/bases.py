"""Registering bases, and saying where the files of one are now."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from lancecy.changes.base import Change
from lancecy.changes.options import CommitRequest
from lancecy.table.operations import UpdateBases
from lancecy.write.targets import DatasetBasePath, base_paths_of, targets

__all__ = ["BaseUpdates"]


class BaseUpdates(Change):
    """The methods of a dataset that change its bases."""

    def add_bases(
        self, new_bases: Iterable[DatasetBasePath], transaction_properties: Mapping[str, str] | None = None
    ) -> Any:
        """Register places for data files, which ``target_bases`` of later writes can name.

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
            The table has a base of that id, name or place.
        PathPolicyError
            A path is not that of a folder, or holds credentials.
        """
        newest, wanted = self._newest(), tuple(new_bases)
        checked = base_paths_of(newest.manifest.base_paths, wanted)
        options = CommitRequest(properties=dict(transaction_properties or {}))
        # Their ids are given at the commit: somebody else may be registering bases too.
        operation = UpdateBases(tuple(base.to_base_path() for base in wanted))
        self._change(operation, newest, options, bases=checked)
        return self

    def relocate_base(self, base: str | os.PathLike[str], new_path: str | os.PathLike[str]) -> Any:
        """Say where the files of a base are now: what moves a table to a copy of them.

        Parameters
        ----------
        base : str or path
            Name of the base, or its path as it was.
        new_path : str or path
            Absolute path or URI; the files must be there, under the names they had.

        Returns
        -------
        Dataset
            This one.

        Raises
        ------
        NotFoundError
            The table has no such base.
        ConflictError
            Another base is there already.
        PathPolicyError
            The path is not that of a folder, or holds credentials.
        """
        newest = self._newest()
        known = newest.manifest.base_paths
        (number,) = targets(known, [base])
        moved = replace(known[number or 0], path=DatasetBasePath(new_path).to_base_path().path)
        self._change(UpdateBases((moved,), relocate=True), newest, bases=[moved])
        return self
