"""Tables leave the catalog, and their directories the root.

A directory ``<name>.lance`` is a table of V1 by itself. Before its row is removed it gets the marker
``.lance-deregistered``, so that at no moment it is a table of V1 again, whichever step is the last.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from lance_namespace import InvalidInputError, TableNotFoundError

from lancecy.errors import printable
from lancecy.namespace.base import Found, NamespaceBase
from lancecy.namespace.catalog import Edit, Remove
from lancecy.namespace.entries import TABLE
from lancecy.namespace.folders import DEREGISTERED
from lancecy.namespace.names import DIRECTORY_SUFFIX, object_id
from lancecy.namespace.view import View

__all__ = ["Removals", "is_shown_by_name"]

# Seconds after which pylance has registered a table whose directory it wrote.
_REGISTERED_WITHIN = 1.0


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
        """A table that is to leave its place; one that its directory alone shows is looked up again a moment later.

        pylance writes the directory of a new table before its row. Without its directory the row would be without a table.

        Raises
        ------
        TableNotFoundError, NamespaceNotFoundError
        """
        found = self._table(names)
        if found.is_registered or not self._properties.manifest_enabled:
            return found
        young = datetime.now(UTC) - timedelta(seconds=_REGISTERED_WITHIN)
        if self._directories.is_older(found.directory, young):
            return found
        time.sleep(_REGISTERED_WITHIN)
        return self._table(names)

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
                raise TableNotFoundError(f"there is no table {printable('.'.join(names))!r} any more")
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
