"""Adds columns that a function computes on many workers: one task and one file for each fragment, then one commit."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa

from lancecy.changes.add_columns import planner_of
from lancecy.changes.batch_functions import BatchUDF
from lancecy.changes.new_columns import ColumnChange, ColumnPlan, Retries, data_version, fill, new_files
from lancecy.changes.options import WriteRequest
from lancecy.changes.planning import Plan
from lancecy.changes.shared import SharedWrite, share_planned
from lancecy.changes.shared_tasks import Engine
from lancecy.errors import CommitError, FormatError
from lancecy.keyword_options import whole_number
from lancecy.records import dataclass
from lancecy.scanning.context import ScanContext, context_for
from lancecy.scanning.request import ScanRequest
from lancecy.scanning.task import ScanSpec
from lancecy.session import Session
from lancecy.table.manifest import DataFile, Fragment
from lancecy.write.metadata import FragmentMetadata

__all__ = ["SharedColumns", "add_shared_columns"]

_TIMEOUT = timedelta(days=365)


@dataclass(frozen=True, slots=True)
class SharedColumns:
    """New columns of one version of a table, for many workers.

    Attributes
    ----------
    spec : ScanSpec
    function : BatchUDF
        States its columns.
    read_columns : tuple of str
    batch_size : int or None
    first_id : int
        Field id of the first new column.
    shared : SharedWrite
    """

    spec: ScanSpec
    function: BatchUDF
    read_columns: tuple[str, ...]
    batch_size: int | None
    first_id: int
    shared: SharedWrite

    def run(self, number: int, session: Session | None = None) -> str:
        """Compute the columns of a fragment and write its file.

        Parameters
        ----------
        number : int
            Id of the fragment.
        session : Session, optional

        Returns
        -------
        str
            The fragment with this file only, as JSON.

        Raises
        ------
        SchemaError
            The function returned other columns or another number of rows; or a null where none may be.
        CommitError
            The change was given up meanwhile; the file is removed.
        LanceError
            Columns cannot be read, or the file cannot be written.
        """
        context = context_for(self.spec, session)
        plan = planner_of(self.function, self.read_columns, None, self.batch_size)(context, self.first_id)
        files = new_files(context.snapshot, self.shared.options.durable, self.shared.tag)
        try:
            ((_, file),) = fill(context, plan, [context.metadata(number)], files)
            if self.shared.is_given_up():
                raise CommitError(
                    f"the change of {self.spec.uri} was given up while the columns of fragment {number} were computed, "
                    "or this worker does not see the folder of the table; the file was removed"
                )
        except BaseException:
            files.remove()
            raise
        return json.dumps(FragmentMetadata(number, (file,)).to_json())


def add_shared_columns(
    dataset: ColumnChange,
    engine: Engine,
    function: Callable[[pa.RecordBatch], Any],
    read_columns: Sequence[str] | None,
    schema: pa.Schema | None,
    batch_size: int | None,
    conflict_retries: int,
    embed_credentials: bool,
) -> None:
    """Add columns that a function computes on the workers of an engine.

    Parameters
    ----------
    dataset : Dataset
        Moves to the new version.
    engine : Engine
    function : function of a pyarrow.RecordBatch
    read_columns : sequence of str, optional
    schema : pyarrow.Schema, optional
        The new columns; by default those that the function returns for the first batch, here.
    batch_size : int, optional
    conflict_retries : int
    embed_credentials : bool
        Send secrets of the storage options to the workers.

    Raises
    ------
    TypeError
        Not a function.
    ValueError
        The function has a checkpoint file.
    LanceError
        As ``Dataset.add_columns``; and errors of the engine. Nothing is committed.
    """
    if not callable(function):
        raise TypeError(
            f"workers compute columns by a function of a batch, not by a {type(function).__name__}: "
            "ds.add_columns takes expressions and rows"
        )
    if isinstance(function, BatchUDF):
        if function.cache is not None:
            raise ValueError(
                "a function for many workers has no checkpoint file, which is local: leave it out"
            )
        schema = function.output_schema if schema is None else schema
        function = function.func
    names = tuple(
        dataset.context.snapshot.schema.scanned.arrow.names if read_columns is None else read_columns
    )
    udf = BatchUDF(function, schema)
    retries = Retries(whole_number("conflict_retries", conflict_retries, may_be_negative=False), _TIMEOUT)

    def filler(
        context: ScanContext, plan: ColumnPlan, first_id: int, fragments: Sequence[Fragment]
    ) -> Iterator[tuple[Fragment, DataFile]]:
        columns = _shared(context, plan, udf, names, batch_size, first_id, embed_credentials)
        with columns.shared.awaited():
            texts = engine(columns, [fragment.id for fragment in fragments]) if fragments else []
        try:
            made = {found.id: found.files[0] for found in map(FragmentMetadata.from_json, texts)}
            if made.keys() != {fragment.id for fragment in fragments}:
                raise FormatError(
                    f"workers returned the columns of {len(made)} of {len(fragments)} fragments"
                )
            for fragment in fragments:
                yield fragment, made[fragment.id]
        finally:
            columns.shared.ended()

    planner = planner_of(udf, names, None, batch_size)
    dataset._write_columns(planner, retries, filler=filler)


def _shared(
    context: ScanContext,
    plan: ColumnPlan,
    function: BatchUDF,
    names: tuple[str, ...],
    batch_size: int | None,
    first_id: int,
    embed_credentials: bool,
) -> SharedColumns:
    snapshot = context.snapshot
    # The types that the table has: those that the workers' results are checked against.
    columns: pa.Schema = getattr(plan.values, "schema", None) or plan.written.arrow
    folder = Plan(
        plan.schema,
        plan.written,
        data_version(snapshot),
        (),
        snapshot.manifest.base_paths,
        (None,),
    )
    shared = share_planned(folder, snapshot, WriteRequest("append"), embed_credentials=embed_credentials)
    spec = ScanSpec.of(snapshot, ScanRequest(), embed_credentials)
    stated = BatchUDF(function.func, columns)
    return SharedColumns(spec, stated, names, batch_size, first_id, shared)
