"""Moves a namespace from V1 to V2 and back, and finds directories that no table uses.

Source: namespace document, "Migration from V1 to V2".
"""

from __future__ import annotations

from dataclasses import field
from datetime import UTC, datetime, timedelta

from lance_namespace import InvalidInputError, UnsupportedOperationError

from lancecy.namespace.catalog import Add, Edit, Remove
from lancecy.namespace.entries import TABLE, Entry
from lancecy.namespace.failures import with_codes
from lancecy.namespace.folders import DEREGISTERED, RESERVED
from lancecy.namespace.names import directory_of
from lancecy.namespace.removal import Removals
from lancecy.namespace.view import View
from lancecy.progress import Progress, Step
from lancecy.records import dataclass

__all__ = ["Migration", "Migrations"]


@dataclass(frozen=True)
class Migration:
    """What a migration did, or would do.

    Attributes
    ----------
    tables : list of str
        Names of the tables that were added to ``__manifest``, or removed from it on the way back.
    skipped : dict of str to str
        Names of the other tables of V1, and why each was left as it is.
    is_dry_run : bool
    """

    tables: list[str]
    skipped: dict[str, str] = field(default_factory=dict)
    is_dry_run: bool = False


class Migrations(Removals):
    """The methods that move a namespace between the two versions."""

    @with_codes
    def migrate(self, *, dry_run: bool = False, progress: Progress | None = None) -> Migration:
        """Add all tables of V1 to ``__manifest``, in one commit. Their files stay where they are.

        Afterwards the namespace can be opened with ``dir_listing_enabled=false``. Directories ``<name>.lance`` that hold
        no version of a table, and were not declared, are left out.

        Parameters
        ----------
        dry_run : bool
            Only find the tables.
        progress : function of a :class:`lancecy.progress.Step`, optional
            Called with the number of directories looked at.

        Returns
        -------
        Migration
        """
        self._check_both_enabled()
        found = Migration([], {}, dry_run)

        def decide(view: View) -> Edit | None:
            found.tables.clear()
            found.skipped.clear()
            self._sort_out(found, view, progress)
            entries = [Entry(name, TABLE, directory_of(name)) for name in found.tables]
            return Add(entries) if entries else None

        if dry_run:
            decide(self._view())
        else:
            self._catalog.change(decide)
        return found

    def _sort_out(self, found: Migration, view: View, progress: Progress | None) -> None:
        """Sort the tables that directories show into those to be added and those that stay."""
        shown = self._directories.tables()
        used = view.locations() if shown else {}
        known = set(view.names("", TABLE)) if shown else set()
        for number, name in enumerate(shown, 1):
            directory = directory_of(name)
            if directory in used:
                others = used[directory]
                reason = "" if name in others else f"its files are those of {others[0]!r}"
            elif name in known or view.find(name) is not None:
                reason = f"__manifest has another object {name!r}"
            elif not self._is_in_use(directory):
                reason = "it has no data"
            else:
                reason = ""
                found.tables.append(name)
            if reason:
                found.skipped[name] = reason
            if progress is not None:
                progress(Step("migrate", number, len(shown), "tables", name))

    def _is_in_use(self, directory: str) -> bool:
        """Whether a directory has the data of a table, or is reserved for a table that was declared."""
        return self._directories.has_versions(directory) or RESERVED in self._directories.contents(directory)

    @with_codes
    def migrate_back(self, *, dry_run: bool = False) -> Migration:
        """Remove the tables of V1 from ``__manifest``, so that their directories alone show them.

        These are the tables in the root whose directory is ``<name>.lance`` and that have no properties. Tables in child
        namespaces and in other directories stay, because V1 cannot show them.

        Parameters
        ----------
        dry_run : bool
            Only find the tables.

        Returns
        -------
        Migration
        """
        self._check_both_enabled()
        found = Migration([], {}, dry_run)

        def decide(view: View) -> Edit | None:
            found.tables.clear()
            found.skipped.clear()
            for entry in view.entries([*view.tables()]):
                reason = self._reason_to_stay(entry)
                if reason:
                    found.skipped[entry.object_id] = reason
                else:
                    found.tables.append(entry.object_id)
            return Remove(list(found.tables)) if found.tables else None

        if dry_run:
            decide(self._view())
        else:
            self._catalog.change(decide)
        return found

    def _reason_to_stay(self, entry: Entry) -> str:
        if len(entry.names) > 1:
            return "it is in a child namespace"
        if entry.location != directory_of(entry.object_id):
            return f"its directory is {entry.location!r}"
        if entry.properties:
            return "it has properties"
        contents = self._directories.contents(entry.location)
        return "its directory does not show it" if not contents or DEREGISTERED in contents else ""

    def _check_both_enabled(self) -> None:
        if not (self._properties.manifest_enabled and self._properties.dir_listing_enabled):
            raise UnsupportedOperationError(
                "a migration reads directories and __manifest: open the namespace with both enabled"
            )

    @with_codes
    def remove_unused(self, *, older_than: timedelta = timedelta(days=7), dry_run: bool = False) -> list[str]:
        """Remove directories that no table uses. Processes that died while they created or dropped tables leave them.

        These are directories of V2, and those of V1 whose removal did not end. A table of V2 that was deregistered looks
        the same: register it again before.

        Parameters
        ----------
        older_than : timedelta
            Directories with an object that is younger stay: a table may be created in them now.
        dry_run : bool
            Only find them.

        Returns
        -------
        list of str
            The directories, relative to the root.
        """
        if not self._properties.manifest_enabled:
            raise UnsupportedOperationError(
                "directories of V2 are named in __manifest: manifest_enabled is false"
            )
        if older_than < timedelta(0):
            raise InvalidInputError("older_than cannot be negative")
        before = datetime.now(UTC) - older_than
        # Listed before the rows are read: a table whose directory is listed here and whose row comes later is younger.
        listed = self._directories.hashed()
        if self._properties.dir_listing_enabled:
            shown = [directory_of(name) for name in self._directories.names()]
            listed += [directory for directory in shown if self._directories.is_left_over(directory)]
        used = {location.partition("/")[0] for location in self._view().locations()}
        found = [name for name in listed if name not in used and self._directories.is_older(name, before)]
        if not dry_run:
            for name in found:
                self._directories.remove(name)
        return found
