"""Updates rows that match a predicate: they move to new fragments with their new values.

The old rows are deleted in their fragments, so data files stay unchanged and indices stay valid. In tables with stable
row ids, rows keep their ids and the versions in which they were created.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.changes.assignments import Assignments
from lancecy.changes.base import Change
from lancecy.changes.explain import UpdateExplanation, explain_rows
from lancecy.changes.insert import removed_if_refused
from lancecy.changes.moves import moved
from lancecy.changes.options import CommitRequest, Durability, WriteRequest, is_durable
from lancecy.changes.planning import planned_move
from lancecy.changes.stored_rows import StoredRows, stored_rows
from lancecy.errors import ExpressionError
from lancecy.expr import time_now
from lancecy.expr.build import Filter
from lancecy.keyword_options import checked_arguments
from lancecy.scanning.context import ScanContext
from lancecy.scanning.request import ScanRequest, at_instant
from lancecy.table.manifest import Fragment
from lancecy.table.operations import Update
from lancecy.write.metadata import FragmentMetadata
from lancecy.write.progress import WriteCallback, WriteProgress

__all__ = ["UpdatedRows", "Updates"]

Int64: TypeAlias = NDArray[np.int64]
UInt64: TypeAlias = NDArray[np.uint64]

_ROW_BITS, _ROW_MASK = np.uint64(32), np.uint64(0xFFFFFFFF)


class UpdatedRows:
    """The update of one snapshot: its rows with their new values, and the operation that commits it.

    Parameters
    ----------
    context : ScanContext
    updates : mapping of str to object
        See :meth:`Updates.update`.
    where : str, pyarrow.compute.Expression or Expr, optional
        Rows for which it is false or null stay.
    instant : int
        The time for ``now()`` and the like, from :func:`lancecy.expr.time_now`.
    fragments : tuple of int, optional
        Ids of the fragments whose rows are updated; all by default.

    Raises
    ------
    LanceError, ValueError, TypeError
        The update does not fit the table.
    """

    def __init__(
        self,
        context: ScanContext,
        updates: Mapping[str, object],
        where: Filter,
        instant: int,
        fragments: tuple[int, ...] | None = None,
    ) -> None:
        self._context = context
        self._set = Assignments.of(context, updates, instant)
        schema = context.snapshot.schema.arrow
        _, condition = at_instant(None, where, schema, instant)
        self.request = ScanRequest(columns=self._set.columns, filter=condition, fragments=fragments)
        context.projection(self.request)
        self._addresses: list[UInt64] = []

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows with their new values, all columns of the table; notes their addresses."""
        try:
            for rows in stored_rows(self._context, self.request):
                yield self._set.applied(rows.batch, partial(self._row_name, rows))
                self._addresses.append(rows.addresses)
        except ExpressionError as error:
            raise self._set.located(error, self._context.projection(self.request)) from error.__cause__

    def _row_name(self, rows: StoredRows, at: int) -> str:
        """A row by its number among the live rows of the table."""
        fragment, offset = divmod(int(rows.addresses[at]), 1 << 32)
        number = self._context.row_offsets(self._context.files(fragment), np.array([offset], np.int64))
        return f" in row {int(number[0])}"

    def explained(self) -> UpdateExplanation:
        """What the update would do."""
        return explain_rows(self._context, self._set, self.request)

    @property
    def count(self) -> int:
        """Number of rows read so far."""
        return sum(addresses.size for addresses in self._addresses)

    @property
    def addresses(self) -> UInt64:
        """Addresses of the rows read so far."""
        return np.concatenate(self._addresses or [np.empty(0, np.uint64)])

    def operation(self, made: Sequence[FragmentMetadata]) -> Update:
        """The operation that puts the new rows in place of the old ones.

        Parameters
        ----------
        made : sequence of FragmentMetadata
            Fragments of the rows of :meth:`batches`.
        """
        return self.joined([(made, self.addresses)])

    def joined(self, parts: Iterable[tuple[Sequence[FragmentMetadata], UInt64]]) -> Update:
        """The operation that puts new rows of several parts in place of the old ones.

        Parameters
        ----------
        parts : iterable of (fragments, addresses)
            The new fragments of each part, and the addresses of the rows in them.
        """
        fragments: list[Fragment] = []
        found: list[UInt64] = [np.empty(0, np.uint64)]
        for made, addresses in parts:
            fragments += moved(self._context.snapshot, made, addresses)
            found.append(addresses)
        rows, removed = self._removed(np.concatenate(found))
        return Update(rows, tuple(fragments), removed=removed, fields=self._set.field_ids)

    def _removed(self, addresses: UInt64) -> tuple[dict[int, Int64], tuple[int, ...]]:
        """The rows to delete by fragment, and the fragments of which none is left."""
        order = np.sort(addresses)
        fragments = (order >> _ROW_BITS).astype(np.int64)
        firsts = np.flatnonzero(np.diff(fragments, prepend=-1))
        pieces = np.split((order & _ROW_MASK).astype(np.int64), firsts[1:])
        found = dict(zip(fragments[firsts].tolist(), pieces, strict=True)) if order.size else {}
        live = self._context.live_rows
        whole = tuple(n for n, rows in found.items() if rows.size == live(self._context.metadata(n)))
        return {number: rows for number, rows in found.items() if number not in set(whole)}, whole


class Updates(Change):
    """The dataset methods that update rows."""

    @checked_arguments()
    def update(
        self,
        updates: Mapping[str, Any],
        where: Filter = None,
        conflict_retries: int = 10,
        retry_timeout: timedelta = timedelta(seconds=30),
        data_storage_version: str | None = None,
        *,
        durability: Durability = "fsync",
        progress: WriteCallback | None = None,
    ) -> dict[str, int]:
        """Set columns of the rows for which a predicate is true.

        The rows move to new fragments; other rows and all data files stay as they are. In a table with stable row
        ids, rows keep their ids.

        Parameters
        ----------
        updates : mapping of str to str, Expr, pyarrow.compute.Expression, or constant
            Columns, or members of structs such as ``"s.x"``, and their new values. Text is SQL, such as
            ``"price * 1.1"`` or ``"'text'"``. An expression sees the row as it was before the update. Anything else
            is a constant: a number, date, bytes, list, dictionary (for a struct), Arrow scalar, or None. A null struct of which a member is set comes to be,
            with its other members null.
        where : str, pyarrow.compute.Expression or lancecy.Expr, optional
            All rows by default.
        conflict_retries : int
            Maximum number of new attempts, from the newest version, after another writer changed the rows.
        retry_timeout : timedelta
            After this no new attempt is made.
        data_storage_version : str, optional
            Version of the new data files; by default that of the table.
        durability : "fsync" or "none"
            Whether the update waits until files are on disk; on local disks only.
        progress : function of a :class:`lancecy.progress.Step`, optional
            Called with the number of rows written.

        Returns
        -------
        dict
            ``{"num_rows_updated": int}``; no version is made for 0.

        Raises
        ------
        ColumnNotFoundError
            The table has no such column.
        ExpressionError
            A value or the predicate does not fit the schema, or fails on a row: an overflow, a division by zero.
        SchemaError
            A value does not fit its column without loss, or is null where none may be. The message has column and row.
        RetryableConflictError
            Every attempt lost to another writer.
        CommitError
            See :func:`lancecy.commit`.
        ValueError
            Nothing is set, or a column twice.

        Every error but ``CommitUnknownError`` leaves the table as it was.
        """
        # Taken once, so that attempts after a conflict set the same values.
        instant, durable = time_now(), is_durable(durability)

        def attempt() -> int:
            self._check_writable()
            snapshot = self._snapshot
            change = UpdatedRows(self.context, updates, where, instant)
            written = WriteRequest("append", data_storage_version, durable=durable)
            plan = planned_move(snapshot, data_storage_version)
            files = plan.new_files(snapshot.location, snapshot.session, written)
            made = files.write(change.batches(), WriteProgress(progress))
            if made:
                with removed_if_refused(files):
                    self._change(change.operation(made), options=CommitRequest(durable=durable))
            return change.count

        return {"num_rows_updated": self._retried(attempt, conflict_retries, retry_timeout, reads_again=True)}

    @checked_arguments()
    def explain_update(self, updates: Mapping[str, Any], where: Filter = None) -> UpdateExplanation:
        """Find the rows that an update would change, and report the fragments and bytes; changes nothing.

        Reads the columns of the predicate, and metadata. Bytes are estimates; those of blobs are not counted.

        Parameters
        ----------
        updates, where
            As for :meth:`update`.

        Raises
        ------
        LanceError, ValueError, TypeError
            As for :meth:`update`; values that only rows show not to fit are not found.

        Examples
        --------
        >>> import lancecy
        >>> found = lancecy.dataset("example.lance").explain_update({"k": "k + 1"}, "id < 10")
        >>> found.updated_rows, [line.fragment for line in found.fragments]
        (10, [0])
        """
        return UpdatedRows(self.context, updates, where, time_now()).explained()
