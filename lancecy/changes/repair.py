"""Mending what of a table's metadata can be mended: row ids that were never given out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lancecy.changes.base import Change
from lancecy.errors import LimitError
from lancecy.table.operations import RepairRowIds
from lancecy.table.rowid_checks import row_id_faults
from lancecy.table.rowindex_build import SameIdError

if TYPE_CHECKING:
    from lancecy.table.snapshot import Snapshot

__all__ = ["Repairs", "RowIdRepair"]


@dataclass(frozen=True, slots=True)
class RowIdRepair:
    """What :meth:`lancecy.Dataset.repair` changed; true if it changed anything.

    Attributes
    ----------
    fragments : tuple of int
        Those whose rows got new ids.
    rows : int
        Rows of these, deleted ones included.
    indices : tuple of str
        Names of indices that were dropped, as they covered such fragments: make them anew.
    next_row_id : int
        As it was, and as it is.
    was_next_row_id : int
    """

    fragments: tuple[int, ...]
    rows: int
    indices: tuple[str, ...]
    next_row_id: int
    was_next_row_id: int

    def __bool__(self) -> bool:
        return bool(self.fragments) or self.next_row_id != self.was_next_row_id


class Repairs(Change):
    """The methods of a dataset that mend it."""

    def repair(self) -> RowIdRepair:
        """Mend the row ids of the newest version, so that the table can be written to again.

        Rows of fragments without row ids get new ones, in a table whose rows have stable ids, and the next free id is
        raised above all that are in use. Ids that rows have stay as they are. A new version is made if there is
        something to mend, and none otherwise.

        Returns
        -------
        RowIdRepair

        Raises
        ------
        FormatError
            Two living rows have the same id: which of them keeps it is for the user to decide. What else was to be
            mended has been. Or the row ids of a fragment are damaged, and nothing is changed.
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
    """See that no two living rows have the same id: making the index of all ids tells."""
    try:
        snapshot.row_index()
    except LimitError:
        return  # more ids without order than can be looked through at once
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
