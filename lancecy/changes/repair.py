"""Repairs table metadata: sets damaged manifests aside, assigns missing row ids."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from lancecy.changes.base import Change
from lancecy.errors import LimitError, printable
from lancecy.records import dataclass
from lancecy.session import Session
from lancecy.table import flags
from lancecy.table.commit.driver import rename_to_v2, set_damaged_aside
from lancecy.table.commit.set_aside import SetAside
from lancecy.table.location import TableLocation
from lancecy.table.operations import RepairRowIds
from lancecy.table.row_id_checks import row_id_faults
from lancecy.table.rows.id_index_build import SameIdError

if TYPE_CHECKING:
    from lancecy.table.snapshot import Snapshot

__all__ = ["Repairs", "TableRepair", "repaired_after"]


@dataclass(frozen=True, slots=True)
class TableRepair:
    """The changes made by :func:`lancecy.repair` or :meth:`lancecy.Dataset.repair`; true if there are any.

    Attributes
    ----------
    version : int
        The newest version after the repair.
    set_aside : tuple of SetAside
        Damaged manifests, newest first: each has the number of its version (``version``), the damage (``problem``), the
        file with its bytes (``kept_as``), and the version whose rows that number has now (``rows_of``; None if it
        was removed).
    fragments : tuple of int
        Fragments whose rows got new ids.
    rows : int
        Number of their rows, including deleted ones.
    indices : tuple of str
        Names of dropped indices, which covered such fragments; build them again.
    next_row_id : int
        The next row id after the repair.
    was_next_row_id : int
        The next row id before the repair.
    renamed : tuple of int
        Versions whose manifests got V2 names: a migration of the names was interrupted.
    """

    version: int
    set_aside: tuple[SetAside, ...]
    fragments: tuple[int, ...]
    rows: int
    indices: tuple[str, ...]
    next_row_id: int
    was_next_row_id: int
    renamed: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return (
            bool(self.set_aside or self.fragments or self.renamed) or self.next_row_id != self.was_next_row_id
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, fit for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [str(one) for one in self.set_aside]
        if self.renamed:
            lines.append(f"the manifests of {len(self.renamed):,} versions got V2 names")
        if self.fragments:
            lines.append(f"{self.rows:,} rows of {len(self.fragments):,} fragments got row ids")
        if self.indices:
            lines.append(
                f"dropped, because they covered such fragments: {', '.join(map(printable, self.indices))}"
            )
        if self.next_row_id != self.was_next_row_id:
            lines.append(f"the next row id was {self.was_next_row_id:,} and is {self.next_row_id:,}")
        lines.append(f"version {self.version} is the newest" if lines else "nothing to repair")
        return "\n".join(lines)

    __repr__ = __str__


class Repairs(Change):
    """The dataset methods that repair the table."""

    def repair(self) -> TableRepair:
        """Repair damaged manifests and missing row ids, so that the table can be read and written again.

        A migration of the manifests' names that was interrupted is finished. Every version whose manifest is damaged gets the rows of the newest sound version before it, and keeps its
        number; the damaged bytes are kept in ``_damaged/``. A damaged version that no sound one precedes is removed. So
        is the newest manifest treated if it belongs to another table. Sound versions and data files are not touched.
        Then, in a table with stable row ids, the rows of fragments without ids get new ones, and the next free id is
        raised above all used ids. Existing ids stay unchanged. This makes a new version, if there is something to repair.

        This dataset moves to the newest version if anything was changed.

        Returns
        -------
        TableRepair

        Raises
        ------
        FormatError
            No version is sound, and nothing was changed. Or two live rows have the same id, and the user must decide
            which keeps it; everything else was repaired. Or the row ids of a fragment are damaged.
        ConflictError
            A damaged manifest changes while it is read, because it is still being written: repair the table later.
        CommitError
            See :func:`lancecy.commit`.
        UnsupportedError, LimitError
            This release, or these limits, do not allow to read or write the newest version that is not damaged.
        StoreError
            The storage failed; repair the table again.

        Notes
        -----
        Reads the manifest of every version. Two processes may repair one table at once.

        Examples
        --------
        >>> import lancecy, tempfile
        >>> ds = lancecy.write_dataset({"a": [1, 2]}, tempfile.mkdtemp() + "/t.lance", enable_stable_row_ids=True)
        >>> ds.repair(), ds.version
        (nothing to repair, 1)
        """
        return repaired_after(self._snapshot.location, self._snapshot.session, lambda: self)

    def migrate_manifest_paths_v2(self) -> None:
        """Give the manifests of the table V2 names, which list the newest first; does nothing if they have such names.

        No other process may write to the table meanwhile, and until it is done the table cannot be opened. If it is
        interrupted, this method or :func:`lancecy.repair` finishes it. Branches are renamed by themselves.

        Raises
        ------
        FormatError
            A version has two different manifests, because another process wrote to the table.
        UnsupportedError
            The versions are in an external manifest store, or the store has no conditional put.
        StoreError
            The storage failed; another call does the rest.

        Examples
        --------
        >>> import lancecy, pathlib, tempfile
        >>> place = tempfile.mkdtemp() + "/t.lance"
        >>> ds = lancecy.write_dataset({"a": [1]}, place, enable_v2_manifest_paths=False)
        >>> ds.migrate_manifest_paths_v2()
        >>> [path.name for path in pathlib.Path(ds.uri, "_versions").iterdir()]
        ['18446744073709551614.manifest']
        """
        manifest = self._snapshot.manifest
        flags.check_writable(manifest.reader_flags, manifest.writer_flags)
        rename_to_v2(self._snapshot.location, self._snapshot.session)
        self._move(manifest.version)


def repaired_after(location: TableLocation, session: Session, opened: Callable[[], Change]) -> TableRepair:
    """Repair a table; see :meth:`Repairs.repair`.

    Parameters
    ----------
    location : TableLocation
    session : Session
    opened : function
        The table, which moves to the newest version if anything was changed; called when it can be opened.

    Raises
    ------
    LanceError
        See there.
    """
    renamed = rename_to_v2(location, session, only_begun=True)
    aside = set_damaged_aside(location, session, every=True, foreign=True)
    table = opened()
    if aside or renamed:
        table._move(None)
    return replace(_with_row_ids(table, aside), renamed=renamed)


def _with_row_ids(table: Change, aside: tuple[SetAside, ...]) -> TableRepair:
    """Repair the row ids of a table whose damaged manifests were set aside."""
    before = table._newest()
    manifest = before.manifest
    if not manifest.has_stable_row_ids:
        return TableRepair(before.version, aside, (), 0, (), manifest.next_row_id, manifest.next_row_id)
    after = before
    if row_id_faults(manifest, before.limits):
        table._change(RepairRowIds(), before)
        after = table._snapshot
    _check_unique(after)
    return _difference(before, after, aside)


def _check_unique(snapshot: Snapshot) -> None:
    """Check that no two live rows have the same id, by building the row-id index."""
    try:
        snapshot.row_index()
    except LimitError:
        return  # more unordered ids than an index can hold
    except SameIdError as error:
        error.what += (
            ". Which row keeps the id cannot be told: find the rows with to_table(with_row_id=True, "
            "with_row_address=True), delete all but one of them by their _rowaddr, and append these again"
        )
        raise error.within(f"version {snapshot.version}") from error.__cause__


def _difference(before: Snapshot, after: Snapshot, aside: tuple[SetAside, ...]) -> TableRepair:
    had = {part.id for part in before.fragments if part.row_ids is not None}
    given = [part for part in after.fragments if part.id not in had] if after is not before else []
    left = {entry.uuid for entry in after.indices()}
    dropped = dict.fromkeys(entry.name for entry in before.indices() if entry.uuid not in left)
    return TableRepair(
        after.version,
        aside,
        tuple(part.id for part in given),
        sum(part.physical_rows or 0 for part in given),
        tuple(dropped),
        after.manifest.next_row_id,
        before.manifest.next_row_id,
    )
