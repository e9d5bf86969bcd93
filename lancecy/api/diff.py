"""The differences between two versions of a table, also of different branches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from lancecy.api.row_changes import DatasetVersion, RowChanges
from lancecy.changes.between import continuity_across
from lancecy.changes.lineage import Shared, shared_by
from lancecy.errors import LanceError, with_short_tracebacks
from lancecy.inspection.diff import SharedIds, VersionDiff, diff
from lancecy.records import dataclass
from lancecy.scanning.pandas_metadata import DtypeBackend
from lancecy.table.paths import DETACHED

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["TableDiff", "compare"]

# Up to so many rows are compared for a text; more would take too long for one.
_MOST_COUNTED = 1 << 20


@dataclass(frozen=True, repr=False)
class TableDiff(VersionDiff):
    """The differences between two versions of a table, made by :meth:`lancecy.Dataset.diff`.

    The attributes come from the manifests. Rows are compared when they are asked for: they are counted from metadata
    alone, and only rows that differ are read.
    """

    _old: DatasetVersion = field(kw_only=True, compare=False)
    _new: DatasetVersion = field(kw_only=True, compare=False)
    _columns: Sequence[str] | None = field(kw_only=True, compare=False)
    _shared: Shared | None = field(kw_only=True, compare=False)

    @cached_property
    def row_changes(self) -> RowChanges:
        """The rows that differ, as :meth:`lancecy.Dataset.changes` gives them; also for Dask and Spark.

        Raises
        ------
        SchemaError
            A column was cast in between.
        ColumnNotFoundError
            The new version has no such column.
        UnsupportedError
            A table without stable row ids was compacted between two versions of one branch.
        """
        return RowChanges(self._old, self._new, self._columns, self._shared)

    @cached_property
    def _counts(self) -> dict[str, int]:
        return self.row_changes.count_rows()

    @property
    def num_added(self) -> int:
        """Number of rows that only the new version has; reads metadata only."""
        return self._counts["insert"]

    @property
    def num_updated(self) -> int:
        """Number of rows that both versions have, with other values; reads metadata only."""
        return self._counts["update_postimage"]

    @property
    def num_removed(self) -> int:
        """Number of rows that only the old version has; reads metadata only."""
        return self._counts["delete"]

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows that differ as a stream of record batches, with ``_change_type``; see :meth:`lancecy.Dataset.changes`."""
        return self.row_changes.to_batches()

    def to_reader(self) -> pa.RecordBatchReader:
        """The stream as an Arrow record batch reader."""
        return self.row_changes.to_reader()

    def to_table(self) -> pa.Table:
        """The rows that differ as one Arrow table."""
        return self.row_changes.to_table()

    def to_pandas(self, dtype_backend: DtypeBackend = "pyarrow") -> pd.DataFrame:
        """The rows that differ as a pandas DataFrame.

        Parameters
        ----------
        dtype_backend : "pyarrow", "numpy_nullable" or "numpy"
            As for :meth:`lancecy.Dataset.to_pandas`.
        """
        return self.row_changes.to_pandas(dtype_backend)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """A new stream of the rows that differ as an Arrow C capsule."""
        return self.row_changes.__arrow_c_stream__(requested_schema)

    def to_dict(self) -> dict[str, Any]:
        """Plain values of the attributes, fit for JSON."""
        known = {each.name: getattr(self, each.name) for each in fields(VersionDiff)}
        return VersionDiff(**known).to_dict()

    def _facts(self) -> list[tuple[str, str]]:
        facts = super()._facts()
        if self._is_quickly_counted():
            try:
                told = f"{self.num_added:,} added, {self.num_updated:,} updated, {self.num_removed:,} removed"
            except (LanceError, ValueError):
                return facts  # the rows cannot be compared, and those who ask for them learn why
            facts.insert(2, ("row changes", told))
        return facts

    def _is_quickly_counted(self) -> bool:
        """Whether the rows of all fragments that differ are known to be few."""
        if "_counts" in self.__dict__:
            return True
        removed, added = {*self.removed_fragments}, {*self.added_fragments}
        both = {*self.rewritten_fragments, *self.deleted_rows}
        sides = ((self._old, removed | both), (self._new, added | both))
        counts = [
            part.physical_rows
            for side, touched in sides
            for part in side.context.snapshot.fragments
            if part.id in touched
        ]
        return None not in counts and sum(cast("list[int]", counts)) <= _MOST_COUNTED


@with_short_tracebacks
def compare(old: DatasetVersion, new: DatasetVersion, columns: Sequence[str] | None = None) -> TableDiff:
    """The differences from one version of a table to another.

    Parameters
    ----------
    old, new : DatasetVersion
    columns : sequence of str, optional
        Columns of the rows that are read.

    Raises
    ------
    ValueError
        They are not of one table.
    """
    before, after = old.context.snapshot, new.context.snapshot
    is_history = before.uri == after.uri and before.version <= after.version < DETACHED
    shared = None if is_history else shared_by(before, after)
    ids = None
    if shared is not None:
        kept = continuity_across(shared.snapshot, before, after)
        ids = SharedIds(kept.field_ids, shared.point.max_fragment_id)
    found = diff(after.uri, before.manifest, after.manifest, ids)
    known = {each.name: getattr(found, each.name) for each in fields(VersionDiff)}
    return TableDiff(**known, _old=old, _new=new, _columns=columns, _shared=shared)
