"""Restoring: an old version becomes the newest one again."""

from __future__ import annotations

from lancecy.changes.base import Change
from lancecy.table.operations import Restore

__all__ = ["Restores"]


class Restores(Change):
    """The methods of a dataset that restore it."""

    def restore(self) -> None:
        """Make this version the newest one again; what came after it stays in the history.

        Bases that were relocated since stay where they are now: a restore brings back rows and columns, and not the
        places that their files were moved from.

        Raises
        ------
        UnsupportedError
            It would take the table's stable row ids away.
        CommitError
            See :func:`lancecy.commit`.
        """
        self._change(Restore(self._snapshot.version), self._newest())
