"""Adds columns: computed by SQL, by a function of the user, given as rows, or without values.

Facts: table sheet, section 8.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeAlias

import pyarrow as pa

from lancecy.changes.batch_functions import BatchStore, BatchUDF, Functions
from lancecy.changes.checkpoints import Checkpoint
from lancecy.changes.column_values import Batches, Computed, InOrder, InThreads, Streamed, ids_read
from lancecy.changes.new_columns import (
    ColumnChange,
    ColumnPlan,
    Planner,
    Retries,
    data_version,
    stored_columns,
)
from lancecy.changes.options import Durability, is_durable
from lancecy.errors import SchemaError
from lancecy.expr import time_now
from lancecy.interop.streams import lasting, record_batches
from lancecy.keyword_options import checked_arguments
from lancecy.progress import Progress
from lancecy.scanning.context import ScanContext
from lancecy.scanning.request import at_instant, make_request, positive
from lancecy.schema import Schema
from lancecy.table.manifest import Fragment
from lancecy.write.schema_edits import added, with_columns, with_members

__all__ = ["AddColumns", "Transforms", "planned_columns", "planner_of"]

Transforms: TypeAlias = "Mapping[str, object] | BatchUDF | Callable[[pa.RecordBatch], Any] | pa.Field | Sequence[pa.Field] | pa.Schema | Any"
"""Values of new columns; see :meth:`AddColumns.add_columns`."""


_WITH_MEMBERS = "2.2"
"""From this version on pylance adds members to structs."""


class _Nothing(InThreads):
    """Columns without values, of which no file is written."""

    reads: frozenset[int] = frozenset()

    def of_fragments(
        self, context: ScanContext, fragments: Sequence[Fragment]
    ) -> Callable[[Fragment], Batches]:
        """See ``column_values.InThreads``."""
        return lambda _: iter(())


def planner_of(
    transforms: Transforms,
    read_columns: Sequence[str] | None,
    reader_schema: pa.Schema | None,
    batch_size: int | None,
    store: BatchStore | None = None,
    fragments: Sequence[Fragment] | None = None,
) -> Planner:
    """The function that plans new columns for a version.

    Parameters
    ----------
    transforms, read_columns, reader_schema, batch_size
        As for :meth:`AddColumns.add_columns`.
    store : BatchStore, optional
        Keeps the results of a function.
    fragments : sequence of Fragment, optional
        Those that get the columns; all of them if not given.

    Raises
    ------
    TypeError
        The values are of no known kind.
    """
    size = positive("batch_size", batch_size)
    if isinstance(transforms, pa.Field):
        transforms = [transforms]
    if isinstance(transforms, Sequence) and transforms and all(isinstance(f, pa.Field) for f in transforms):
        transforms = pa.schema(transforms)
    if isinstance(transforms, pa.Schema):
        return _without_values(transforms)
    if isinstance(transforms, Mapping) and all(
        isinstance(value, str) or _is_expression(value) for value in transforms.values()
    ):
        return _computed(transforms)
    if isinstance(transforms, BatchUDF) or (
        callable(transforms) and not hasattr(transforms, "__arrow_c_stream__")
    ):
        return _by_function(Functions(transforms, read_columns, size, store), fragments)
    if isinstance(transforms, str):
        raise TypeError(f"a new column has a name: give {{'name': {transforms!r}}}")
    reader = record_batches(transforms, reader_schema)
    return _given(reader.schema, Streamed(lasting(reader, transforms)))


def _is_expression(value: object) -> bool:
    """Whether a value of a mapping is an expression and no column of values."""
    return not (hasattr(value, "__len__") or hasattr(value, "__arrow_c_array__"))


def planned_columns(
    context: ScanContext, columns: pa.Schema, values: InThreads | InOrder, first_id: int
) -> ColumnPlan:
    """Columns to be added after those of a version.

    Parameters
    ----------
    context : ScanContext
    columns : pyarrow.Schema
    values : InThreads or InOrder
    first_id : int

    Raises
    ------
    SchemaError, UnsupportedError
        As ``schema_edits.added``.
    """
    snapshot = context.snapshot
    fields = added(snapshot.schema, stored_columns(snapshot, columns), first_id)
    return ColumnPlan(with_columns(snapshot.schema, fields), Schema(fields), values)


def _without_values(columns: pa.Schema) -> Planner:
    for field in columns:
        if not field.nullable:
            raise SchemaError(
                f"column {field.name!r} may not be null, and would have no values: give an expression such as "
                f"{{{field.name!r}: '0'}}, or make it nullable",
                difference=field.name,
            )

    def plan(context: ScanContext, first_id: int) -> ColumnPlan:
        if data_version(context.snapshot) == "0.1" and len(columns) and context.fragments:
            raise SchemaError(
                f"column {columns[0].name!r} would have no values, and files of version 0.1 cannot leave columns out: "
                f"give an expression such as {{{columns[0].name!r}: '0'}}",
                difference=columns[0].name,
            )
        table, stored = context.snapshot.schema, stored_columns(context.snapshot, columns)
        if data_version(context.snapshot) >= _WITH_MEMBERS:
            schema = with_members(table, stored, first_id)
        else:
            schema = with_columns(table, added(table, stored, first_id))
        return ColumnPlan(schema, Schema(), _Nothing())

    return plan


def _computed(columns: Mapping[str, object]) -> Planner:
    for name, value in columns.items():
        if not isinstance(name, str):
            raise TypeError(f"the name of a column is text, not {name!r}")
        if value is None or isinstance(value, int | float):
            raise TypeError(
                f"column {name!r} is SQL text such as '{value or 0}', or an expression, not {value!r}"
            )
    # Taken once, so that all rows, and attempts after a conflict, get the same time.
    instant = time_now()

    def plan(context: ScanContext, first_id: int) -> ColumnPlan:
        schema = context.snapshot.schema.scanned.arrow
        named, _ = at_instant({str(name): value for name, value in columns.items()}, None, schema, instant)
        request = make_request(schema, named)
        projection = context.projection(request)
        return planned_columns(
            context,
            projection.schema.remove_metadata(),
            Computed(ids_read(projection.fields), request),
            first_id,
        )

    return plan


def _by_function(functions: Functions, fragments: Sequence[Fragment] | None) -> Planner:
    def plan(context: ScanContext, first_id: int) -> ColumnPlan:
        values = functions.on(context, fragments)
        return planned_columns(context, values.schema, values, first_id)

    return plan


def _given(columns: pa.Schema, values: Streamed) -> Planner:
    def plan(context: ScanContext, first_id: int) -> ColumnPlan:
        return planned_columns(context, columns.remove_metadata(), values, first_id)

    return plan


class AddColumns(ColumnChange):
    """The dataset method that adds columns."""

    @checked_arguments()
    def add_columns(
        self,
        transforms: Transforms,
        read_columns: Sequence[str] | None = None,
        reader_schema: pa.Schema | None = None,
        batch_size: int | None = None,
        *,
        conflict_retries: int = 10,
        retry_timeout: timedelta = timedelta(seconds=30),
        durability: Durability = "fsync",
        progress: Progress | None = None,
    ) -> None:
        """Add columns. Files of other columns stay unchanged, and indices stay valid.

        Parameters
        ----------
        transforms : mapping, function, pyarrow.Field, list of pyarrow.Field, pyarrow.Schema, or rows
            One of

            - a mapping of new names to SQL text or expressions of the columns that the table has;
            - a function from a batch of rows to the new columns of these rows (Arrow, pandas, or a mapping of names to
              arrays), or a :func:`lancecy.batch_udf`, which states their types and may keep a checkpoint file. It is
              called in the order of the rows, by the calling thread;
            - fields, whose values are null; no file is written. From version 2.2 on, a struct that the table has gets the
              members of the field, which it must lack;
            - rows of any kind that :func:`lancecy.write_dataset` takes, one for each row of the table, in its order.

            Blobs may be given by the URI of an object (:func:`lancecy.blob_array`) in a base of the table; ``ds.add_bases``
            registers its folder.
        read_columns : sequence of str, optional
            Columns of the batches that a function gets, ``_rowid`` and ``_rowaddr`` among them; all columns if not given.
        reader_schema : pyarrow.Schema, optional
            Schema of rows; they are cast to it without losing values.
        batch_size : int, optional
            Rows of each batch that a function gets; batches end at the ends of fragments.
        conflict_retries : int
            Maximum number of further attempts after another writer changed the table. They compute the values of new
            and changed fragments only.
        retry_timeout : timedelta
            After this no new attempt is made.
        durability : "fsync" or "none"
            Whether to wait until everything is on disk; "none" is faster, and a system crash may damage the version.
        progress : function of a :class:`lancecy.progress.Step`, optional

        Raises
        ------
        SchemaError
            The table has a column of that name, a function returned other columns or another number of rows, there are
            more or fewer rows than the table has, or a value is null where it may not.
        ExpressionError, ColumnNotFoundError
            An expression does not fit the schema, or cannot be computed for a value.
        UnsupportedError
            Data files of the table's version cannot hold the values.
        PathPolicyError
            A blob is given by the URI of an object that is in no base of the table.
        FormatError, StoreError
            The checkpoint file is one of something else or damaged, or it is in use or cannot be written.
        ConflictError
            Every attempt lost to another writer, or rows that can be read only once have no value for its rows.
        CommitError
            See :func:`lancecy.commit`.
        TypeError
            The values are of no known kind.

        In all cases no column is added, and no file is left behind but those that a checkpoint file names.

        Examples
        --------
        >>> import lancecy, pyarrow as pa
        >>> ds = lancecy.write_dataset({"a": [1, 2, 3]}, "memory://doc-add-columns")
        >>> ds.add_columns({"twice": "a * 2"})
        >>> ds.add_columns(lambda batch: {"half": [a / 2 for a in batch["a"].to_pylist()]}, read_columns=["a"])
        >>> ds.add_columns(pa.field("later", pa.string()))
        >>> ds.take([2]).to_pylist()
        [{'a': 3, 'twice': 6, 'half': 1.5, 'later': None}]

        Blobs that stay where they are, in a folder that the table knows:

        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> (folder / "tape.bin").write_bytes(b"sound")
        5
        >>> tapes = lancecy.write_dataset({"a": [1]}, folder / "t", data_storage_version="2.2")
        >>> tapes = tapes.add_bases([lancecy.DatasetBasePath(folder.as_uri(), name="tapes")])
        >>> tapes.add_columns(pa.table({"tape": lancecy.blob_array([str(folder / "tape.bin")])}))
        >>> tapes.take_blobs("tape", indices=[0])[0].read()
        b'sound'
        """
        given = (transforms, read_columns, reader_schema, batch_size)
        retries = Retries(conflict_retries, retry_timeout, is_durable(durability), progress)
        if not isinstance(transforms, BatchUDF) or transforms.cache is None:
            self._write_columns(planner_of(*given), retries)
            return
        with Checkpoint.opened(transforms.cache.path, self._snapshot, transforms.func) as checkpoint:
            self._write_columns(planner_of(*given, checkpoint), retries, checkpoint.filled(), checkpoint)
        transforms.cache.cleanup()
