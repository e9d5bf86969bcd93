"""Drops columns: the schema loses them, and data files that hold nothing else leave their fragments.

Facts: table sheet, section 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from lancecy.changes.base import Change
from lancecy.changes.options import CommitRequest, Durability, is_durable
from lancecy.keyword_options import checked_arguments
from lancecy.table.operations import Project
from lancecy.write.schema_edits import dropped

__all__ = ["DropColumns"]


class DropColumns(Change):
    """The dataset method that drops columns."""

    @checked_arguments()
    def drop_columns(
        self,
        columns: Sequence[str],
        *,
        conflict_retries: int = 10,
        retry_timeout: timedelta = timedelta(seconds=30),
        durability: Durability = "fsync",
    ) -> None:
        """Drop columns, and the indices on them. No data file is written or removed.

        The bytes go when the fragments are compacted and old versions are cleaned up.

        Parameters
        ----------
        columns : list of str
            Columns, or fields within them, such as ``"point.x"``. A struct that loses all its members is dropped.
        conflict_retries : int
            Maximum number of further attempts after another writer changed the schema.
        retry_timeout : timedelta
            After this no new attempt is made.
        durability : "fsync" or "none"
            Whether to wait until everything is on disk; "none" is faster, and a system crash may damage the version.

        Raises
        ------
        ColumnNotFoundError
            The table has no such column.
        ValueError
            The table would have no column left.
        CommitError
            See :func:`lancecy.commit`.

        Examples
        --------
        >>> import lancecy
        >>> ds = lancecy.write_dataset({"a": [1], "p": [{"x": 1, "y": 2}]}, "memory://doc-drop-columns")
        >>> ds.drop_columns(["p.x"])
        >>> ds.to_table().to_pylist()
        [{'a': 1, 'p': {'y': 2}}]
        """
        if isinstance(columns, str):
            raise TypeError(f"columns is a list of names, not the text {columns!r}")
        wanted, options = list(columns), CommitRequest(durable=is_durable(durability))

        def attempt() -> None:
            # No file is written before the commit, which refuses a table that cannot be changed.
            self._change(Project(dropped(self._snapshot.schema, wanted)), options=options)

        if wanted:
            self._retried(attempt, conflict_retries, retry_timeout)
