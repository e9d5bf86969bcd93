"""Merges rows by keys: matching rows are updated or deleted, others inserted, in one version.

Updated rows move to new fragments, and keep their row ids in tables with stable ones. The transaction states hashes of
the keys that were inserted, so that of two merges that insert one key at the same time, the second begins again. It also
does if others appended one of its keys: the commit reads the keys of rows that were added since.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal

import pyarrow as pa

from lancecy.changes.base import Change
from lancecy.changes.dask_parts import is_dask
from lancecy.changes.merging.attempt import Attempt
from lancecy.changes.merging.clauses import Clauses, keys_named
from lancecy.changes.merging.distributed import Engine, planned_merge
from lancecy.changes.merging.in_dask import DaskEngine
from lancecy.changes.merging.options import MERGE_DEFAULTS, MergeOptions
from lancecy.changes.merging.plan import MergePlan, merge_plan, plan_text
from lancecy.changes.merging.source import Source
from lancecy.changes.options import CommitRequest, Durability, WriteRequest, is_durable
from lancecy.changes.transactions import Transaction
from lancecy.errors import UnsupportedError, printable, with_short_tracebacks
from lancecy.expr import time_now
from lancecy.expr.build import Filter
from lancecy.keyword_options import checked_arguments, whole_number
from lancecy.progress import Progress, silent
from lancecy.records import dataclass
from lancecy.table.operations import Operation, Update, new_transaction
from lancecy.write.operations import BaseOperation

__all__ = ["MergeInsertBuilder", "Merges", "UncommittedMerge"]

_TIMEOUT = timedelta(seconds=30)
_LONG_TIMEOUT = timedelta(days=365)

_CHOICES: Mapping[str, tuple[str | None, ...]] = {
    "when_matched": ("update_all", "fail", "delete", None),
    "when_not_matched": ("insert_all", None),
    "when_not_matched_by_source": ("delete", None),
}
WriteMode = Literal["auto", "rewrite_rows", "rewrite_columns"]


@dataclass(frozen=True, slots=True)
class UncommittedMerge(BaseOperation):
    """A merge whose data files are written: an operation for :func:`lancecy.commit`.

    Attributes
    ----------
    update : Update
    """

    update: Update

    def to_operation(self, known: object, stable_row_ids: bool) -> Operation:
        """The internal operation."""
        return self.update


class Merges(Change):
    """The dataset method that merges rows."""

    @checked_arguments()
    def merge_insert(self, on: str | Iterable[str] | None = None) -> MergeInsertBuilder:
        """Merge rows into the table by keys: update or delete those that match, insert the others.

        The calls of the builder say what happens; ``execute`` gets the rows. Keys are equal as in SQL: a null equals
        nothing. NaN equals NaN, and the two zeros differ.

        Parameters
        ----------
        on : str or iterable of str, optional
            Key columns; by default the table's unenforced primary key.

        Returns
        -------
        MergeInsertBuilder

        Raises
        ------
        ValueError
            No column is named, and the table has no primary key.
        ColumnNotFoundError
            The table has no such column.

        Examples
        --------
        >>> import lancecy
        >>> ds = lancecy.write_dataset({"id": [1, 2], "v": ["a", "b"]}, "memory://merges")
        >>> upsert = ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        >>> upsert.execute({"id": [2, 3], "v": ["B", "c"]})
        {'num_inserted_rows': 1, 'num_updated_rows': 1, 'num_deleted_rows': 0}
        >>> ds.to_table().to_pydict()
        {'id': [1, 2, 3], 'v': ['a', 'B', 'c']}
        """
        return MergeInsertBuilder(self, on)


@with_short_tracebacks
class MergeInsertBuilder:
    """A merge to be executed; made by ``Dataset.merge_insert``. Its methods return the builder.

    Parameters
    ----------
    dataset : Dataset
    on : str or iterable of str, optional
    """

    def __init__(self, dataset: Change, on: str | Iterable[str] | None = None) -> None:
        self._dataset = dataset
        self._on = keys_named(on, dataset.context.snapshot.schema)
        self._clauses = Clauses()
        self._retries = 10
        self._timeout: timedelta | None = None
        self._written = WriteRequest("append")
        self._in_place = False

    def __repr__(self) -> str:
        place = printable(self._dataset.context.snapshot.uri)
        return f"MergeInsertBuilder({place!r}, on={list(self._on)}){self._clauses.calls}"

    @classmethod
    def of(cls, dataset: Change, on: str | Iterable[str] | None, options: MergeOptions) -> MergeInsertBuilder:
        """The builder after the calls that options stand for.

        Parameters
        ----------
        dataset : Dataset
        on : str or iterable of str, optional
        options : MergeOptions

        Raises
        ------
        ValueError
            An unknown action, or a condition without its action.
        """
        asked: dict[str, Any] = {**MERGE_DEFAULTS, **options}
        for name, choices in _CHOICES.items():
            if asked[name] not in choices:
                listed = ", ".join(map(repr, choices))
                raise ValueError(f"{name} is {asked[name]!r}; it can be {listed}")
        needs = {
            "condition": ("when_matched", "update_all"),
            "delete_condition": ("when_not_matched_by_source", "delete"),
        }
        for name, (clause, action) in needs.items():
            if asked[name] is not None and asked[clause] != action:
                raise ValueError(f"{name} needs {clause}={action!r}")
        matched = asked["when_matched"]
        made = cls(dataset, on).conflict_retries(asked["conflict_retries"])
        made._clauses = Clauses(
            "keep" if matched is None else matched.removesuffix("_all"),
            asked["condition"],
            asked["when_not_matched"] is not None,
            asked["when_not_matched_by_source"] is not None,
            asked["delete_condition"],
        )
        version = asked["data_storage_version"]
        return made if version is None else made.data_storage_version(version)

    # -- clauses ------------------------------------------------------------------------------------------

    def when_matched_update_all(self, condition: Filter = None) -> MergeInsertBuilder:
        """Update rows of the table that match a row of the source.

        Columns that the source lacks keep their values.

        Parameters
        ----------
        condition : str, pyarrow.compute.Expression or Expr, optional
            Only pairs of rows for which it is true, such as ``"source.v > target.v"``. Others are no new rows either.
        """
        self._clauses = replace(self._clauses, matched="update", condition=condition)
        return self

    def when_matched_fail(self) -> MergeInsertBuilder:
        """Refuse the merge if a row of the table matches."""
        self._clauses = replace(self._clauses, matched="fail")
        return self

    def when_matched_delete(self) -> MergeInsertBuilder:
        """Delete rows of the table that match."""
        self._clauses = replace(self._clauses, matched="delete")
        return self

    def when_not_matched_insert_all(self) -> MergeInsertBuilder:
        """Insert rows of the source that match nothing. Columns that the source lacks are null."""
        self._clauses = replace(self._clauses, inserts=True)
        return self

    def when_not_matched_by_source_delete(self, expr: Filter = None) -> MergeInsertBuilder:
        """Delete rows of the table that no row of the source matches.

        Parameters
        ----------
        expr : str, pyarrow.compute.Expression or Expr, optional
            Only those for which it is true.
        """
        self._clauses = replace(self._clauses, deletes=True, deleted=expr)
        return self

    # -- options ------------------------------------------------------------------------------------------

    def conflict_retries(self, max_retries: int) -> MergeInsertBuilder:
        """How often the merge is tried again, from the newest version, after another writer changed the rows.

        Parameters
        ----------
        max_retries : int
            10 by default.
        """
        self._retries = whole_number("max_retries", max_retries, may_be_negative=False)
        return self

    @checked_arguments()
    def retry_timeout(self, timeout: timedelta) -> MergeInsertBuilder:
        """After how long no new attempt is made.

        Parameters
        ----------
        timeout : timedelta
            30 seconds by default; for a merge on workers, which may take hours, only the number of attempts counts.
        """
        self._timeout = timeout
        return self

    def data_storage_version(self, version: str) -> MergeInsertBuilder:
        """The version of the new data files; by default that of the table.

        Parameters
        ----------
        version : str
            Such as "2.1".
        """
        self._written = replace(self._written, data_version=version)
        return self

    def target_bases(self, bases: Sequence[str]) -> MergeInsertBuilder:
        """Write the new data files to these bases in turn.

        Parameters
        ----------
        bases : sequence of str
            Names or paths of registered bases; the table's own URI for its own folder.
        """
        if isinstance(bases, str):
            raise TypeError("target_bases is a list of names or paths, not one of them")
        self._written = replace(self._written, target_bases=tuple(bases))
        return self

    def target_all_bases(self, include_primary: bool = True) -> MergeInsertBuilder:
        """Write the new data files to all registered bases in turn, except bases that are other tables.

        Parameters
        ----------
        include_primary : bool
            Whether the table's own folder is the first of them.
        """
        self._written = replace(self._written, target_all_bases=include_primary)
        return self

    def durability(self, durability: Durability) -> MergeInsertBuilder:
        """Whether the merge waits until files are on disk; on local disks only.

        Parameters
        ----------
        durability : "fsync" or "none"
        """
        self._written = replace(self._written, durable=is_durable(durability))
        return self

    def use_index(self, use_index: bool) -> MergeInsertBuilder:
        """Whether an index of the key column may find the rows that match; True by default.

        Otherwise, and for rows that no index covers, the key columns are read. An index is used for up to 8192 rows of
        a source, if they are an eighth of the table's or fewer.

        Parameters
        ----------
        use_index : bool
        """
        self._clauses = replace(self._clauses, use_index=bool(use_index))
        return self

    def write_mode(self, mode: WriteMode) -> MergeInsertBuilder:
        """How updated rows are written.

        Parameters
        ----------
        mode : "auto", "rewrite_rows" or "rewrite_columns"
            The first two write whole rows to new fragments. The third writes the columns of the source, for all rows of
            the fragments with matching rows, and neither reads nor writes other columns: it is faster where those are
            large. It is for merges that only update, with rows that lack a column of the table; others raise
            ValueError when they are executed.

        Raises
        ------
        ValueError
            Another mode.

        Examples
        --------
        >>> import lancecy
        >>> ds = lancecy.write_dataset({"id": [1, 2], "v": ["a", "b"], "n": [1, 1]}, "memory://patches")
        >>> patch = ds.merge_insert("id").when_matched_update_all().write_mode("rewrite_columns")
        >>> patch.execute({"id": [1], "n": [7]})["num_updated_rows"], ds.to_table().to_pydict()
        (1, {'id': [1, 2], 'v': ['a', 'b'], 'n': [7, 1]})
        """
        if mode not in ("auto", "rewrite_rows", "rewrite_columns"):
            raise ValueError(f"mode is {mode!r}; it can be 'auto', 'rewrite_rows' or 'rewrite_columns'")
        self._in_place = mode == "rewrite_columns"
        return self

    def mark_sstables_as_compacted(self, sstables: object) -> MergeInsertBuilder:
        """Not supported: lancecy has no write-ahead log.

        Parameters
        ----------
        sstables : object

        Raises
        ------
        UnsupportedError
        """
        raise UnsupportedError(
            "lancecy has no write-ahead log of tables", feature="mark_sstables_as_compacted"
        )

    # -- execution ----------------------------------------------------------------------------------------

    @checked_arguments()
    def execute(
        self, data_obj: Any, *, schema: pa.Schema | None = None, progress: Progress | None = None
    ) -> dict[str, int]:
        """Merge rows, in one version.

        Parameters
        ----------
        data_obj : object
            See :func:`lancecy.write_dataset`. A stream is read once; rows beyond the session's ``cache_bytes``
            go to a temporary file meanwhile. A Dask DataFrame is merged by Dask's workers, see
            :func:`lancecy.dask.merge_insert`.
        schema : pyarrow.Schema, optional
            Requested columns.
        progress : function of a :class:`lancecy.progress.Step`, optional

        Returns
        -------
        dict
            ``num_inserted_rows``, ``num_updated_rows`` and ``num_deleted_rows``; no version is made if all are 0.

        Raises
        ------
        SchemaError
            Columns do not fit the table; two rows of the source match one row of the table, or are inserted with the
            same key; a null where none may be.
        ExistsError
            A row matches, after ``when_matched_fail``.
        ValueError
            No clause is given; or ``progress`` with a Dask DataFrame.
        ExpressionError, ColumnNotFoundError
            A condition does not fit the columns.
        UnsupportedError
            A key column has lists.
        RetryableConflictError
            Every attempt lost to another writer.
        CommitError
            See :func:`lancecy.commit`.

        Every error but ``CommitUnknownError`` leaves the table as it was.

        Notes
        -----
        A merge that inserts rows begins again if others added one of its keys meanwhile. It passes appends of other
        keys: the commit reads the key columns of the appended rows.
        """
        if is_dask(data_obj):
            if progress is not None:
                raise ValueError(
                    "progress is called by the process that writes, and a Dask collection is merged by its workers: use "
                    "dask.diagnostics.ProgressBar or the dashboard"
                )
            return self.execute_on(DaskEngine(data_obj, schema))
        told, instant = progress or silent, time_now()
        commit = CommitRequest(durable=self._written.durable)
        with self._source(data_obj, schema) as source:

            def attempt() -> dict[str, int]:
                self._dataset._check_writable()
                merge = self._attempt(source.schema, instant)
                matches = merge.matches(source, told)
                if any(matches.stats.values()):
                    with merge.written(source, matches, told) as operation:
                        self._dataset._change(operation, options=commit)
                return matches.stats

            return self._dataset._retried(attempt, self._retries, self._timeout or _TIMEOUT, reads_again=True)

    def execute_on(self, engine: Engine, embed_credentials: bool = False) -> dict[str, int]:
        """Merge rows on the workers of an engine. A failed attempt leaves no file that can be found.

        Parameters
        ----------
        engine : Engine
        embed_credentials : bool
            Send secrets of the storage options to the workers.

        Raises
        ------
        LanceError, ValueError
            As :meth:`execute`; and errors of the engine.
        """
        self._check_clauses()
        if self._in_place:
            raise UnsupportedError(
                "merges on workers write whole rows: leave out write_mode('rewrite_columns'), or merge rows in memory",
                feature="write_mode='rewrite_columns' on workers",
            )
        instant = time_now()

        def attempt() -> dict[str, int]:
            self._dataset._check_writable()
            merge, tasks = planned_merge(
                self._dataset.context,
                engine,
                self._clauses,
                self._on,
                self._written,
                instant,
                embed_credentials,
            )
            with nullcontext() if merge.shared is None else merge.shared.awaited():
                results = engine.run(merge, tasks)
            with merge.ended():
                operation, stats = merge.operation(self._dataset.context.snapshot, results)
                if any(stats.values()):
                    self._dataset._change(operation, options=merge.commit_options)
            return stats

        return self._dataset._retried(attempt, self._retries, self._timeout or _LONG_TIMEOUT)

    @checked_arguments()
    def execute_uncommitted(
        self, data_obj: Any, *, schema: pa.Schema | None = None, progress: Progress | None = None
    ) -> tuple[Transaction, dict[str, int]]:
        """Write the data files of a merge, and commit nothing.

        Parameters
        ----------
        data_obj, schema, progress
            As for :meth:`execute`.

        Returns
        -------
        (Transaction, dict)
            ``lancecy.commit(ds, transaction.operation, transaction.read_version)`` commits it.

        Raises
        ------
        LanceError, ValueError
            As :meth:`execute`, but for commits.
        """
        told = progress or silent
        with self._source(data_obj, schema) as source:
            self._dataset._check_writable()
            merge = self._attempt(source.schema, time_now())
            matches = merge.matches(source, told)
            with merge.written(source, matches, told) as operation:
                version = merge.context.snapshot.version
                uuid = new_transaction(operation, version, {}, None).uuid
        # Another process may commit it, without the version that was read here.
        return Transaction(version, UncommittedMerge(replace(operation, has_keys=None)), uuid), matches.stats

    # -- explanations -------------------------------------------------------------------------------------

    @checked_arguments()
    def explain(self, data_obj: Any, *, schema: pa.Schema | None = None) -> MergePlan:
        """What a merge would do, by reading the keys only; nothing is written.

        Parameters
        ----------
        data_obj, schema
            As for :meth:`execute`. A stream is read to its end.

        Returns
        -------
        MergePlan
            Its text is a report.

        Raises
        ------
        LanceError, ValueError
            As :meth:`execute`, but for writing.
        """
        with self._source(data_obj, schema) as source:
            merge = self._attempt(source.schema, time_now())
            matches = merge.matches(source, silent)
            return merge_plan(merge.context, source, merge.rules, matches, self._in_place)

    @checked_arguments()
    def explain_plan(self, schema: pa.Schema | None = None, verbose: bool = False) -> str:
        """What a merge of rows with these columns reads and writes, as text. Nothing is read.

        Parameters
        ----------
        schema : pyarrow.Schema, optional
            Columns of the source; by default those of the table.
        verbose : bool
            Also the fragments, one per line.

        Raises
        ------
        LanceError, ValueError
            The clauses or the columns do not fit the table.
        """
        context = self._dataset.context
        given = schema if schema is not None else context.snapshot.schema.arrow
        return plan_text(context, self._attempt(given, time_now()).rules, verbose, self._in_place)

    @checked_arguments()
    def analyze_plan(self, data_obj: Any, *, schema: pa.Schema | None = None) -> str:
        """The report of :meth:`explain` as text. Unlike pylance's, it writes no files.

        Parameters
        ----------
        data_obj, schema
            As for :meth:`execute`.

        Raises
        ------
        LanceError, ValueError
            As :meth:`explain`.
        """
        return str(self.explain(data_obj, schema=schema))

    def _check_clauses(self) -> None:
        if self._clauses.does_nothing:
            raise ValueError(
                "this merge would change nothing: call when_matched_update_all, when_not_matched_insert_all or another "
                "of its methods first"
            )

    def _source(self, data: object, schema: pa.Schema | None) -> Source:
        self._check_clauses()
        return Source(data, schema, self._dataset.context.session.cache.limit // 2)

    def _attempt(self, schema: pa.Schema, instant: int) -> Attempt:
        written, context = self._written, self._dataset.context
        return Attempt.of(context, schema, self._clauses, self._on, written, instant, self._in_place)
