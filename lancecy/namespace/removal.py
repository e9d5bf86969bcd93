"""Tables leave the catalog, and their directories the root.

A directory ``<name>.lance`` is a table of V1 by itself. Before its row is removed it gets the marker
``.lance-deregistered``, so that at no moment it is a table of V1 again, whichever step is the last.
"""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from lance_namespace import InvalidInputError, TableNotFoundError

from lancecy.errors import printable
from lancecy.namespace.base import Found, NamespaceBase
from lancecy.namespace.catalog import Add, Edit, Remove
from lancecy.namespace.entries import TABLE, Entry
from lancecy.namespace.folders import DEREGISTERED
from lancecy.namespace.names import DIRECTORY_SUFFIX, object_id
from lancecy.namespace.view import View

__all__ = ["Removals", "is_shown_by_name"]

# Seconds between the two steps of a creation or removal by pylance.
_CHANGED_WITHIN = 1.0


def is_shown_by_name(directory: str) -> bool:
    """Whether V1 takes a directory for a table.

    Examples
    --------
    >>> is_shown_by_name("t.lance"), is_shown_by_name("a1b2c3d4_t"), is_shown_by_name("old/t.lance")
    (True, False, False)
    """
    return directory.endswith(DIRECTORY_SUFFIX) and "/" not in directory


class Removals(NamespaceBase):
    """What drops, renames and deregistrations share."""

    def _settled(self, names: tuple[str, ...]) -> Found:
        """A table that is to leave its place; with ``__manifest`` it has a row then.

        A table that its directory alone shows gets one: of several processes that drop, deregister or rename it, the one
        that changes the row wins. Before that, it is looked up again a moment later if something changed lately: pylance
        writes the directory of a new table before its row, and removes the row of a dropped one before its directory.

        Raises
        ------
        TableNotFoundError, NamespaceNotFoundError
        """
        found = self._table(names)
        if found.is_registered or not self._properties.manifest_enabled:
            return found
        if self._is_changing(found.directory):
            time.sleep(_CHANGED_WITHIN)
        return self._taken_up(names)

    def _is_changing(self, directory: str) -> bool:
        """Whether a directory without a row may be that of a table that pylance creates or drops now."""
        moment = datetime.now(UTC) - timedelta(seconds=_CHANGED_WITHIN)
        snapshot = self._view().snapshot
        changed = None if snapshot is None else snapshot.manifest.timestamp
        is_old = changed is None or changed < moment
        return not (is_old and self._directories.is_older(directory, moment))

    def _taken_up(self, names: tuple[str, ...]) -> Found:
        """A table of the root, which gets a row if its directory alone shows it."""
        taken: list[Found] = []

        def decide(view: View) -> Edit | None:
            found = self._found(names, view)
            if found is None:
                raise _gone(names)
            taken.append(found)
            return None if found.is_registered else Add([Entry(object_id(names), TABLE, found.directory)])

        self._catalog.change(decide)
        return replace(taken[-1], is_registered=True)

    def _hide(self, directory: str, *, is_removed: bool = False) -> bool:
        """Hide a directory from listings of V1; returns whether it was shown."""
        return is_shown_by_name(directory) and self._directories.hide(directory, is_removed=is_removed)

    def _show(self, directory: str) -> None:
        """Show a directory in listings of V1 again."""
        if is_shown_by_name(directory) and DEREGISTERED in self._directories.contents(directory):
            self._directories.unmark(directory, DEREGISTERED)

    def _removed_row(self, names: tuple[str, ...], *, with_files: bool) -> Found:
        """Remove the row of a table, and hide its directory.

        Raises
        ------
        TableNotFoundError
        InvalidInputError
            ``with_files``, and other tables use the directory.
        """
        removed: list[Found] = []
        hidden: set[str] = set()

        def decide(view: View) -> Edit:
            found = self._found(names, view)
            if found is None or not found.is_registered:
                raise _gone(names)
            if with_files:
                self._check_alone(found, view)
            if self._hide(found.directory, is_removed=with_files):
                hidden.add(found.directory)
            removed.append(found)
            return Remove([object_id(names)])

        try:
            self._catalog.change(decide)
        except Exception:
            if hidden and self._view().find(object_id(names)) is not None:
                for directory in hidden:
                    self._show(directory)
            raise
        return removed[-1]

    @staticmethod
    def _check_alone(found: Found, view: View) -> None:
        others = set(view.tables_at(found.directory)) - {object_id(found.names)}
        if others:
            raise InvalidInputError(
                f"table {printable(min(others))!r} has its files in {printable(found.directory)!r} too: deregister "
                f"{printable('.'.join(found.names))!r} instead of dropping it"
            )

    def _forget_if_gone(self, names: tuple[str, ...], directory: str) -> bool:
        """Remove the row of a table if its directory was removed without it; returns whether it was."""
        is_removed = False

        def decide(view: View) -> Edit | None:
            nonlocal is_removed
            entry, is_removed = view.find(object_id(names)), False
            if entry is None or entry.kind != TABLE or entry.location != directory:
                return None
            is_removed = not self._directories.contents(directory)
            return Remove([entry.object_id]) if is_removed else None

        if self._directories.contents(directory):
            return False
        self._catalog.change(decide)
        return is_removed


def _gone(names: tuple[str, ...]) -> TableNotFoundError:
    return TableNotFoundError(f"there is no table {printable('.'.join(names))!r} any more")
