"""Restores an old version as the newest one."""

from __future__ import annotations

from lancecy.changes.base import Change
from lancecy.table.operations import Restore

__all__ = ["Restores"]


class Restores(Change):
    """The dataset method that restores a version."""

    def restore(self) -> None:
        """Make this version the newest one again; later versions stay in the history.

        Relocated bases keep their current paths: a restore brings back rows and columns, and not old places of files.

        Raises
        ------
        UnsupportedError
            The restore would remove the table's stable row ids.
        CommitError
            See :func:`lancecy.commit`.
        """
        self._change(Restore(self._snapshot.version), self._newest())
