"""Restores an old version as the newest one."""

from __future__ import annotations

from lancecy.changes.base import Change
from lancecy.errors import FormatError
from lancecy.table.commit.driver import set_damaged_aside
from lancecy.table.operations import Restore
from lancecy.table.versions.damage import is_damage

__all__ = ["Restores"]


class Restores(Change):
    """The dataset method that restores a version."""

    def restore(self) -> None:
        """Make this version the newest one again; later versions stay in the history.

        If the newest manifest is damaged (see ``recover`` of :func:`lancecy.dataset`), or is another table's with other
        base paths, it is set aside first, as by :meth:`repair`.

        Relocated bases keep their current paths: a restore brings back rows and columns, and not old places of files.

        Raises
        ------
        UnsupportedError
            The restore would remove the table's stable row ids.
        FormatError
            No version is sound.
        CommitError
            See :func:`lancecy.commit`.
        """
        mine = self._snapshot
        try:
            newest = self._newest()
        except FormatError as error:
            if not is_damage(error):
                raise
            set_damaged_aside(mine.location, mine.session)
            newest = self._newest()
        # The current places of bases are taken from the newest version, which must be one of this table.
        is_moved = newest.manifest.base_paths != mine.manifest.base_paths
        if is_moved and set_damaged_aside(mine.location, mine.session, foreign=True):
            newest = self._newest()
        self._change(Restore(mine.version), newest)
