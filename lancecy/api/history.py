"""Dataset methods that compare versions: changed rows, and pylance's delta."""

from __future__ import annotations

from collections.abc import Sequence

from lancecy.api.delta import ComparedDataset, DatasetDelta
from lancecy.api.row_changes import RowChanges
from lancecy.changes.history_graph import HistoryGraph
from lancecy.changes.history_versions import history_graph
from lancecy.keyword_options import checked_arguments, whole_number
from lancecy.table.refs.reference import Reference

__all__ = ["History"]


class History:
    """The methods of a dataset that show its versions, and compare two of them."""

    @checked_arguments()
    def history_graph(self: ComparedDataset, limit: int = 50) -> HistoryGraph:
        """The versions of the table and all its branches with their tags, newest first; its text is a picture.

        Parameters
        ----------
        limit : int
            At most so many versions. Older manifests are not read.

        Returns
        -------
        HistoryGraph
            ``print`` draws it: a row for each version, with what made it and its rows, and a column for each branch.

        Raises
        ------
        ValueError
            ``limit`` is less than 1.
        UnsupportedError
            This is a branch that was moved without its main table.
        StoreError
            The storage failed.

        Notes
        -----
        Manifests, tags and branches that are damaged are shown as such, and hide nothing else. Of more than 32 branches
        those that were made last are shown.

        Examples
        --------
        >>> import lancecy
        >>> ds = lancecy.write_dataset({"n": [1]}, "memory://pictured")
        >>> trial = ds.create_branch("trial")
        >>> trial.append({"n": [2]})
        >>> [(each.branch, each.version) for each in ds.history_graph().versions]
        [('trial', 2), ('trial', 1), ('main', 1)]
        """
        count = whole_number("limit", limit)
        if count < 1:
            raise ValueError(f"limit must be at least 1, but is {count}")
        return history_graph(self.context.snapshot, count)

    @checked_arguments()
    def changes(
        self: ComparedDataset,
        since: int | str | tuple[str | None, int | None],
        until: Reference = None,
        columns: Sequence[str] | None = None,
    ) -> RowChanges:
        """The rows that differ between two versions: inserted, updated (old and new values) and deleted ones.

        Parameters
        ----------
        since : int, str, or (str or None, int or None)
            A number, the name of a tag, or a branch and a version; 0 is the state before the first version.
        until : int, str, or (str or None, int or None), optional
            This version if not given.
        columns : sequence of str, optional
            Columns of the version ``until``, nested ones with dots. All of them if not given.

        Returns
        -------
        RowChanges
            ``to_table()``, ``to_batches()`` and ``to_pandas()`` give the columns, then

            - ``_rowid`` (uint64): the row's id; without stable row ids its address, fragment id << 32 | offset.
            - ``_change_type`` (string), as in Delta's change data feed: "insert", "delete", "update_preimage" (the
              row as it was) or "update_postimage" (the row as it is).
            - ``_commit_version`` (int64): the version that made the change, null where unknown.

            :func:`lancecy.dask.changes` and :func:`lancecy.spark.changes` read them on a cluster.

        Raises
        ------
        NotFoundError
            There is no such version.
        ValueError
            ``since`` is later than ``until``; the table has a column with one of the names above.
        SchemaError
            A column was cast in between.
        UnsupportedError
            A table without stable row ids was compacted in between.
        ColumnNotFoundError
            The version ``until`` has no such column.

        Notes
        -----
        A row that changed several times is one change, from its first to its last values. Deleting the rows of
        "delete" and "update_preimage" from the old version, and adding those of "insert" and "update_postimage",
        gives the new one.

        Without stable row ids an update is a "delete" and an "insert", because the new values are at another
        address; values that were replaced in place, as by an added column, are updates there too.

        A column that the old version lacks is null in its rows, a renamed column has its new name, and a dropped one
        is left out. An added column with values updates every row.

        Fragments with the same files and deletions in both versions are not read.

        Examples
        --------
        >>> import lancecy
        >>> ds = lancecy.write_dataset({"n": [1, 2, 3]}, "memory://changing", enable_stable_row_ids=True)
        >>> ds.append({"n": [4]})
        >>> ds.delete("n = 2")
        {'num_deleted_rows': 1}
        >>> ds.changes(since=1).to_table().select(["n", "_change_type", "_commit_version"]).to_pylist()[1]
        {'n': 4, '_change_type': 'insert', '_commit_version': 2}
        """
        new = self._unmoved() if until is None else self.checkout_version(until)
        first = since if isinstance(since, (str, tuple)) else whole_number("since", since)
        old = None if first == 0 else self.checkout_version(first)
        if old is not None and old.context.snapshot.version > new.context.snapshot.version:
            raise ValueError(
                f"since={old.context.snapshot.version} is later than until={new.context.snapshot.version}"
            )
        return RowChanges(old, new, columns)

    @checked_arguments()
    def delta(
        self: ComparedDataset,
        compared_against: int | None = None,
        *,
        begin_version: int | None = None,
        end_version: int | None = None,
    ) -> DatasetDelta:
        """The changes between two versions, as in pylance; :meth:`changes` tells more.

        Parameters
        ----------
        compared_against : int, optional
            Compare this version with that older one.
        begin_version, end_version : int, optional
            Compare these two: changes after the first, up to the second.

        Raises
        ------
        ValueError
            Neither is given, or only one of the last two.
        NotFoundError
            There is no such version.

        Examples
        --------
        >>> import lancecy
        >>> ds = lancecy.write_dataset({"n": [1, 2]}, "memory://delta", enable_stable_row_ids=True)
        >>> ds.append({"n": [3]})
        >>> ds.delta(compared_against=1).get_inserted_rows().read_all()["n"].to_pylist()
        [3]
        """
        if compared_against is not None:
            begin_version, end_version = compared_against, self.context.snapshot.version
        elif begin_version is None and end_version is None:
            raise ValueError("give compared_against, or begin_version and end_version")
        elif begin_version is None or end_version is None:
            raise ValueError("begin_version and end_version are given together")
        first, last = whole_number("begin_version", begin_version), whole_number("end_version", end_version)
        if first < 0:
            raise ValueError(f"begin_version must not be negative, but is {first}")
        return DatasetDelta(self, first, last)
