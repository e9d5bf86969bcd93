"""Tables leave the catalog, and their directories the root.

A directory ``<name>.lance`` is a table of V1 by itself. Before its row is removed it gets the marker
``.lance-deregistered``, so that at no moment it is a table of V1 again, whichever step is the last.
"""

from __future__ import annotations

from lance_namespace import InvalidInputError, TableNotFoundError

from lancecy.errors import printable
from lancecy.namespace.base import Found, NamespaceBase
from lancecy.namespace.catalog import Edit, Remove
from lancecy.namespace.entries import TABLE
from lancecy.namespace.folders import DEREGISTERED
from lancecy.namespace.names import DIRECTORY_SUFFIX, object_id
from lancecy.namespace.view import View

__all__ = ["Removals", "is_shown_by_name"]


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

    def _hide(self, directory: str) -> bool:
        """Hide a directory from listings of V1; returns whether it was shown."""
        if not is_shown_by_name(directory) or not self._directories.contents(directory):
            return False
        return self._directories.mark(directory, DEREGISTERED)

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
            if self._hide(found.directory):
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
        """Remove the row of a table if its directory was removed meanwhile; returns whether it was."""

        def decide(view: View) -> Edit | None:
            entry = view.find(object_id(names))
            if entry is None or entry.kind != TABLE or entry.location != directory:
                return None
            return None if self._directories.contents(directory) else Remove([entry.object_id])

        if self._directories.contents(directory):
            return False
        self._catalog.change(decide)
        return True
