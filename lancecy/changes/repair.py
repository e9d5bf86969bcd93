"""Repairs table metadata: assigns missing row ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lancecy.changes.base import Change
from lancecy.errors import LimitError
from lancecy.table.operations import RepairRowIds
from lancecy.table.row_id_checks import row_id_faults
from lancecy.table.rows.id_index_build import SameIdError

if TYPE_CHECKING:
    from lancecy.table.snapshot import Snapshot

__all__ = ["Repairs", "RowIdRepair"]


@dataclass(frozen=True, slots=True)
class RowIdRepair:
    """The changes made by :meth:`lancecy.Dataset.repair`; true if there are any.

    Attributes
    ----------
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
    """

    fragments: tuple[int, ...]
    rows: int
    indices: tuple[str, ...]
    next_row_id: int
    was_next_row_id: int

    def __bool__(self) -> bool:
        return bool(self.fragments) or self.next_row_id != self.was_next_row_id


class Repairs(Change):
    """The dataset methods that repair the table."""

    def repair(self) -> RowIdRepair:
        """Repair the row ids of the newest version, so that the table can be written again.

        In a table with stable row ids, the rows of fragments without ids get new ones, and the next free id is raised
        above all used ids. Existing ids stay unchanged. A new version is made only if there is something to repair.

        Returns
        -------
        RowIdRepair

        Raises
        ------
        FormatError
            Two live rows have the same id, and the user must decide which keeps it; everything else was repaired.
            Or the row ids of a fragment are damaged, and nothing was changed.
        CommitError
            See :func:`lancecy.commit`.

        Examples
        --------
        >>> import lancecy, tempfile
        >>> ds = lancecy.write_dataset({"a": [1, 2]}, tempfile.mkdtemp() + "/t.lance", enable_stable_row_ids=True)
        >>> bool(ds.repair()), ds.version
        (False, 1)
        """
        before = self._newest()
        if not before.manifest.has_stable_row_ids:
            return RowIdRepair((), 0, (), before.manifest.next_row_id, before.manifest.next_row_id)
        if row_id_faults(before.manifest, before.limits):
            self._change(RepairRowIds(), before)
            after = self._snapshot
        else:
            after = before
        _check_unique(after)
        return _difference(before, after)


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


def _difference(before: Snapshot, after: Snapshot) -> RowIdRepair:
    had = {part.id for part in before.fragments if part.row_ids is not None}
    given = [part for part in after.fragments if part.id not in had] if after is not before else []
    left = {entry.uuid for entry in after.indices()}
    dropped = dict.fromkeys(entry.name for entry in before.indices() if entry.uuid not in left)
    return RowIdRepair(
        tuple(part.id for part in given),
        sum(part.physical_rows or 0 for part in given),
        tuple(dropped),
        after.manifest.next_row_id,
        before.manifest.next_row_id,
    )
