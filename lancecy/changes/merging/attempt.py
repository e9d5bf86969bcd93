"""One attempt of a merge, from one version of the table: matches, data files and the operation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa

from lancecy.changes.insert import removed_if_refused
from lancecy.changes.merging.clauses import Clauses, Rules, rules_of
from lancecy.changes.merging.columns import check_columns, columns_schema, written_columns
from lancecy.changes.merging.key_search import KeySearch
from lancecy.changes.merging.keys import Int64
from lancecy.changes.merging.matching import Matches, match_rows
from lancecy.changes.merging.rows import check_kept, hashes_of_new, written_batches, written_schema
from lancecy.changes.merging.source import Source
from lancecy.changes.moves import moved
from lancecy.changes.new_columns import data_version, new_files
from lancecy.changes.options import WriteRequest
from lancecy.changes.planning import Plan, planned
from lancecy.errors import CommitUnknownError, LanceError
from lancecy.progress import Progress, Step
from lancecy.records import dataclass
from lancecy.scanning.context import ScanContext
from lancecy.schema import Schema
from lancecy.table.manifest import DataFile
from lancecy.table.operations import Update
from lancecy.table.operations.key_filter import KeyFilter
from lancecy.write.progress import WriteProgress
from lancecy.write.schemas import fitted

__all__ = ["Attempt"]


@dataclass(frozen=True, slots=True)
class Attempt:
    """A merge of one snapshot.

    Attributes
    ----------
    context : ScanContext
    rules : Rules
    request : WriteRequest
    plan : Plan or None
        The write; None if no row is written.
    columns : Schema or None
        The columns that are written in place; None if whole rows move.
    """

    context: ScanContext
    rules: Rules
    request: WriteRequest
    plan: Plan | None
    columns: Schema | None = None

    @classmethod
    def of(
        cls,
        context: ScanContext,
        source: pa.Schema,
        clauses: Clauses,
        on: tuple[str, ...],
        request: WriteRequest,
        instant: int,
        in_place: bool = False,
    ) -> Attempt:
        """Bind clauses to a version, and refuse columns that do not fit it.

        Parameters
        ----------
        context : ScanContext
        source : pyarrow.Schema
        clauses : Clauses
        on : tuple of str
            Key columns.
        request : WriteRequest
        instant : int
            The time for ``now()`` and the like.
        in_place : bool
            Write the source's columns of whole fragments instead of whole rows.

        Raises
        ------
        LanceError, ValueError
            The clauses, the columns or the options do not fit the table.
        """
        snapshot = context.snapshot
        rules = rules_of(clauses, on, snapshot.schema, source, instant)
        if in_place:
            if (
                request.data_version is not None
                or request.target_bases
                or request.target_all_bases is not None
            ):
                raise ValueError(
                    "with write_mode='rewrite_columns' new files have the table's version and are in its own folder: "
                    "leave out data_storage_version, target_bases and target_all_bases"
                )
            check_columns(context, source, rules)
            columns = columns_schema(context, source, rules, data_version(snapshot))
            keys = Schema(tuple(snapshot.schema.field(name) for name in on))
            fitted(keys, pa.schema([source.field(name) for name in on]))
            return cls(context, rules, request, None, columns)
        if clauses.matched != "update" and not clauses.inserts:
            keys = Schema(tuple(snapshot.schema.field(name) for name in on))
            fitted(keys, pa.schema([source.field(name) for name in on]))
            return cls(context, rules, request, None)
        if clauses.matched == "update":
            check_kept(context, rules)
            if clauses.inserts:
                # New rows have nulls in what the source lacks.
                lacking = Schema(tuple(snapshot.schema.field(n) for n in (*rules.kept, *rules.partial)))
                fitted(lacking, pa.schema([source.field(name) for name in rules.partial]))
        plan = planned(
            written_schema(context, source, rules), snapshot.location, snapshot.session, snapshot, request
        )
        return cls(context, rules, request, plan)

    def matches(self, source: Source, told: Progress) -> Matches:
        """The changes, see :func:`lancecy.changes.merging.matching.match_rows`.

        Parameters
        ----------
        source : Source
        told : function of a Step
        """
        budget = self.context.session.cache.limit
        return match_rows(
            self.context,
            source,
            self.rules,
            budget,
            lambda done, total: told(Step("match", done, total, "parts")),
        )

    @contextmanager
    def written(self, source: Source, matches: Matches, told: Progress) -> Iterator[Update]:
        """Write the rows; gives the operation, and removes the files if its commit is refused.

        Parameters
        ----------
        source : Source
        matches : Matches
        told : function of a Step

        Raises
        ------
        SchemaError
            A null where none may be.
        StoreError, FormatError
            Rows cannot be read or written.
        """
        snapshot, rules = self.context.snapshot, self.rules
        if self.columns is not None:
            with self._in_place(source, matches, told, self.columns) as operation:
                yield operation
            return
        number = matches.rows.size + matches.num_inserted
        keys = tuple(snapshot.schema.field(name).id for name in rules.on)
        hashes = hashes_of_new(source, rules, matches)
        operation = Update(
            matches.gone,
            keys=KeyFilter.of(keys, hashes),
            fields=self._fields(),
            has_keys=KeySearch(snapshot, keys, hashes),
        )
        if self.plan is None or not number:
            yield operation
            return
        files = self.plan.new_files(snapshot.location, snapshot.session, self.request)
        batches = written_batches(self.context, source, rules, matches)
        made = files.write(batches, WriteProgress(told, number))
        with removed_if_refused(files):
            yield replace(operation, fragments=moved(snapshot, made, matches.addresses))

    @contextmanager
    def _in_place(self, source: Source, matches: Matches, told: Progress, schema: Schema) -> Iterator[Update]:
        """Write the columns; gives the operation, and removes the files if its commit is refused."""
        snapshot = self.context.snapshot
        files = new_files(snapshot, self.request.durable)
        columns: dict[int, DataFile] = {}
        rows: dict[int, Int64] = {}
        try:
            for number, file, offsets in written_columns(self.context, source, matches, files, schema):
                columns[number], rows[number] = file, offsets
                told(Step("write", sum(part.size for part in rows.values()), matches.addresses.size, "rows"))
        except BaseException as error:
            left = files.remove()
            if isinstance(error, LanceError):
                error.within(left)
            raise
        fields = tuple(node.id for top in schema.fields for node in top.walk())
        dated = rows if snapshot.manifest.has_stable_row_ids else {}
        try:
            yield Update(columns=columns, updated_rows=dated, fields=fields)
        except CommitUnknownError:
            raise
        except LanceError as error:
            # Certainly no version names the files. After another error, such as an interrupt, one may.
            raise error.within(files.remove())

    def _fields(self) -> tuple[int, ...]:
        """Ids of the written fields."""
        if self.plan is None:
            return ()
        return tuple(node.id for top in self.plan.schema.fields for node in top.walk())
