"""Writes Spark frames as tables: executors write data files, the driver commits them.

:func:`write` supports every mode; the data source (``source_writes.LancecyWriter``) shares its parts. The driver
chooses the types: those of the table for added rows, otherwise those that a column had before Spark, otherwise
Spark's. Only what successful tasks return is committed, so that retried and speculative attempts do not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast

import pyarrow as pa

from lancecy.api.datasets import Dataset
from lancecy.api.named_tables import with_place
from lancecy.api.writers import committed_parts, opened_at
from lancecy.changes.commits import located
from lancecy.changes.dask_parts import is_dask
from lancecy.changes.options import UNSUPPORTED_WRITES, WRITE_DEFAULTS, Mode, WriteOptions, requests_of
from lancecy.changes.planning import target_schema
from lancecy.changes.shared import SharedWrite, share, told_parts
from lancecy.errors import UnsupportedError, printable
from lancecy.interop.casts import cast_batches, storage_type
from lancecy.interop.spark_frames import is_spark
from lancecy.interop.streams import check_names
from lancecy.keyword_options import shared_options
from lancecy.records import dataclass
from lancecy.schema import Schema
from lancecy.spark.tasks import spare_collector
from lancecy.spark.types import METADATA_KEY, original_schema, spark_struct
from lancecy.spark.workers import Carried
from lancecy.table.snapshot import Snapshot, load_snapshot, newest_snapshot
from lancecy.write.schemas import schema_of

if TYPE_CHECKING:
    import os

    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

__all__ = ["TaskWriter", "check_frame", "columns_of", "planned_sink", "write"]

_SAME = {"error": "create", "errorifexists": "create", "default": "create"}
writing = shared_options(WriteOptions, WRITE_DEFAULTS, UNSUPPORTED_WRITES)

_MODES = ("create", "append", "overwrite", "ignore", *_SAME)
# Spark stores these as its own structs or binary, which no other reader understands.
_STRANGE = ("variant", "geometry", "geography")


@writing
def write(
    df: DataFrame,
    uri: str | os.PathLike[str] | Dataset | None = None,
    mode: Literal["create", "append", "overwrite", "ignore", "error", "errorifexists"] = "create",
    *,
    schema: pa.Schema | None = None,
    token: str | None = None,
    embed_credentials: bool = False,
    check_workers: bool = True,
    namespace: Any = None,
    table_id: Sequence[str] | None = None,
    zonemaps: bool | Sequence[str] = False,
    **options: Unpack[WriteOptions],
) -> Dataset:
    """Write a Spark DataFrame: the executors write data files, the driver makes one commit.

    Columns added to a table get the table's types: arrays become vectors, numbers unsigned integers, text
    dictionaries. A new table gets the types that the columns had before Spark, if they come from
    :func:`lancecy.spark.read` or :func:`lancecy.spark.dataframe`, and otherwise Spark's.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
    uri : str, path or lancecy.Dataset, optional
        Must be reachable from the executors under the same name.
    mode : str
        "create" (or Spark's "error", "errorifexists"), "append", "overwrite": as for
        :func:`lancecy.write_dataset`. "ignore" does nothing if there is a table.
    schema : pyarrow.Schema, optional
        Types of all columns, for those that Spark lacks, such as vectors; every partition is cast to it. A value that
        does not fit is an error, with its column and row.
    token : str, optional
        Identifies the write: if a version of a write with this token is there, it is returned, and the new files are
        removed.
    embed_credentials : bool
        Send the secrets in ``storage_options`` to the executors. By default only the other options are sent, and
        executors take credentials from their own environment.
    check_workers : bool
        As for :func:`lancecy.spark.read`.
    namespace, table_id : optional
        As for :func:`lancecy.write_dataset`.
    zonemaps : bool or sequence of str
        As for :func:`lancecy.write_dataset`: the executors make them of the rows they write.
    data_storage_version, enable_stable_row_ids, enable_v2_manifest_paths, initial_bases, target_bases, \
    target_all_bases, max_rows_per_file, max_bytes_per_file, max_rows_per_group, cast, external_blob_mode, allow_external_blob_outside_bases, commit_message, transaction_properties, auto_cleanup_options, \
    skip_auto_cleanup, durability, storage_options, allowed_bases, session, commit_lock
        As for :func:`lancecy.write_dataset`.

    Returns
    -------
    lancecy.Dataset
        At the new version.

    Raises
    ------
    UnsupportedError
        A column type that the file version, or Lance, does not have.
    ImportError
        The executors' Python has no lancecy or another release of it, or has another version.
    LanceError, ValueError
        As for :func:`lancecy.write_dataset`. An error in a task is raised as an error of Spark that names it, with
        a note about what was removed.

    Examples
    --------
    With a running session ``spark``::

        lancecy.spark.write(spark.range(1000), "numbers.lance")
        lancecy.spark.write(spark.range(1000, 2000), "numbers.lance", mode="append").count_rows()  # 2000
    """
    check_frame(df)
    if mode not in _MODES:
        raise ValueError(f"mode is {mode!r}; it can be {', '.join(map(repr, _MODES[:-1]))}")
    asked: Any = _SAME.get(mode, "create" if mode == "ignore" else mode)
    place, given = with_place(uri, namespace, table_id, options, asked)
    location, active = located(place, cast(WriteOptions, given))
    snapshot = newest_snapshot(location, active)
    if mode == "ignore" and snapshot is not None:
        return opened_at(location, active, snapshot.version)
    written, commit_options = requests_of(asked, options)
    columns = columns_of(df.schema, snapshot if asked == "append" else None)
    if schema is not None:
        check_names(columns, schema)
        columns = schema
    columns = target_schema(columns, snapshot, written)
    shared = share(
        columns,
        location,
        active,
        snapshot,
        written,
        replace(commit_options, token=token),
        embed_credentials=embed_credentials,
        is_awaited=True,
        zonemaps=zonemaps,
    )
    if check_workers:
        from lancecy.spark.workers import check

        check(df.sparkSession)
    with shared.awaited():
        rows = df.mapInArrow(TaskWriter(shared, columns), "fragments string").collect()
    parts = told_parts(row["fragments"] for row in rows)
    return committed_parts(shared, parts, location, active)


def check_frame(df: Any) -> None:
    """Refuse what is no Spark DataFrame.

    Raises
    ------
    TypeError
    """
    if not is_spark(df):
        remedy = (
            "lancecy.write_dask and lancecy.dask.merge_insert take Dask frames"
            if is_dask(df)
            else "lancecy.spark.dataframe(spark, rows) makes one of rows in memory"
        )
        kind = f"{type(df).__module__.partition('.')[0]}.{type(df).__name__}"
        raise TypeError(f"a Spark DataFrame is needed, not {kind}: {remedy}")


# -- types ----------------------------------------------------------------------------------------


def columns_of(struct: StructType, table: Snapshot | None) -> pa.Schema:
    """The Arrow columns of a frame.

    Parameters
    ----------
    struct : pyspark.sql.types.StructType
        Schema of the frame.
    table : Snapshot or None
        The table that rows are added to, if any.

    Raises
    ------
    UnsupportedError
        A type of Spark's that Arrow does not have.
    """
    known: Schema = Schema(()) if table is None else table.schema
    there = {field.name: field for field in known.arrow}
    return pa.schema([_column(field, there.get(field.name)) for field in struct.fields], known.arrow.metadata)


def _column(field: Any, known: pa.Field | None) -> pa.Field:
    held = pa.field(field.name, _held(field.name, field.dataType), field.nullable)
    if known is not None and _is_held_as(known, field.dataType):
        # Text becomes JSON when the rows are cast.
        is_text = isinstance(known.type, pa.JsonType)
        return known.with_type(known.type if is_text else storage_type(known.type)).with_nullable(
            field.nullable
        )
    # As Spark does in tables of its own: a literal, or the number of a row, is NOT NULL for Spark, and later rows need not be.
    loose = held if known is not None else held.with_type(_nullable(held.type)).with_nullable(True)
    if METADATA_KEY not in (field.metadata or {}):
        return loose
    from pyspark.sql.types import StructType

    original = original_schema(StructType([field])).field(0)
    if isinstance(original.type, pa.JsonType):
        return loose
    if not _is_held_as(original, field.dataType) or not _is_storable(original):
        return loose
    return original.with_type(_nullable(original.type, held.type))


def _nullable(kind: pa.DataType, held: pa.DataType | None = None) -> pa.DataType:
    """The type, in which everything inside may be null; only what may be so in ``held``, a type of the same values."""
    types = pa.types

    def field_of(field: pa.Field, other: pa.Field | None) -> pa.Field:
        inner = _nullable(field.type, None if other is None else other.type)
        return field.with_type(inner).with_nullable(field.nullable or other is None or other.nullable)

    if types.is_struct(kind):
        return pa.struct([field_of(f, None if held is None else held.field(n)) for n, f in enumerate(kind)])
    if types.is_map(kind):
        items = field_of(kind.item_field, None if held is None else held.item_field)
        return pa.map_(kind.key_field, items, kind.keys_sorted)
    if types.is_fixed_size_list(kind):
        items = field_of(kind.value_field, None if held is None else held.value_field)
        return pa.list_(items, kind.list_size)
    if types.is_list(kind) or types.is_large_list(kind):
        make = pa.large_list if types.is_large_list(kind) else pa.list_
        return make(field_of(kind.value_field, None if held is None else held.value_field))
    return kind


def _is_held_as(field: pa.Field, kind: DataType) -> bool:
    """Whether Spark holds values of a column in this type, so that the original type still fits."""
    try:
        found = spark_struct(pa.schema([field]))[field.name].dataType
    except UnsupportedError:
        return False
    same: bool = found.simpleString() == kind.simpleString()
    return same


def _is_storable(original: pa.Field) -> bool:
    try:
        schema_of(pa.schema([original]))
    except UnsupportedError:
        return False
    return True


def _held(name: str, kind: DataType) -> pa.DataType:
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_type

    try:
        if not any(word in kind.simpleString() for word in _STRANGE):
            return _named(to_arrow_type(_loose_voids(kind), timezone="UTC"))
    except (PySparkException, ValueError) as error:
        raise _refused(name, kind) from error
    raise _refused(name, kind)


def _loose_voids(kind: DataType) -> DataType:
    """The type, in which elements and values of the type ``void`` may be null.

    ``array()`` has elements that are ``void`` and NOT NULL, since it has none; Arrow has no such field.
    """
    from pyspark.sql import types as spark

    if isinstance(kind, spark.ArrayType):
        element = kind.elementType
        is_loose = kind.containsNull or isinstance(element, spark.NullType)
        return spark.ArrayType(_loose_voids(element), is_loose)
    if isinstance(kind, spark.MapType):
        value = kind.valueType
        is_loose = kind.valueContainsNull or isinstance(value, spark.NullType)
        return spark.MapType(_loose_voids(kind.keyType), _loose_voids(value), is_loose)
    if isinstance(kind, spark.StructType):
        inner = [spark.StructField(f.name, _loose_voids(f.dataType), f.nullable) for f in kind.fields]
        return spark.StructType(inner)
    return kind


def _refused(name: str, kind: DataType) -> UnsupportedError:
    text = printable(kind.simpleString())
    return UnsupportedError(
        f"column {printable(name)!r} is {text} in Spark, which Lance has no type for: cast it, to text for example",
        feature=f"Spark: {text}",
    )


def _named(kind: pa.DataType) -> pa.DataType:
    """The type with Arrow's usual name for list elements instead of Spark's."""
    types = pa.types
    if types.is_list(kind):
        return pa.list_(pa.field("item", _named(kind.value_type), kind.value_field.nullable))
    if types.is_struct(kind):
        return pa.struct([pa.field(f.name, _named(f.type), f.nullable) for f in kind])
    if types.is_map(kind):
        key, item = kind.key_field, kind.item_field
        return pa.map_(key.with_type(_named(key.type)), item.with_type(_named(item.type)))
    return kind


# -- tasks ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TaskWriter(Carried):
    """Writes a partition on an executor.

    Attributes
    ----------
    shared : SharedWrite
    columns : pyarrow.Schema
        From :func:`columns_of`.
    """

    shared: SharedWrite
    columns: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Called by ``mapInArrow``: returns one row with the result."""
        yield pa.RecordBatch.from_pydict({"fragments": [self.write(batches)]})

    def write(self, batches: Iterator[pa.RecordBatch]) -> str:
        """Write the rows of a partition and return the result as ``SharedWrite.write_part`` does.

        Raises
        ------
        SchemaError, UnsupportedError, StoreError
            See ``SharedWrite.write_part``.
        """
        from pyspark import TaskContext

        context = TaskContext.get()
        number = context.partitionId() if context is not None else 0
        rows = cast_batches(batches, self.columns)
        told = self.shared.write_part(rows, number)
        spare_collector()
        return told


def planned_sink(struct: StructType, asked: Any, mode: Mode) -> TaskWriter:
    """The task writer of a write through the data source.

    Parameters
    ----------
    struct : pyspark.sql.types.StructType
    asked : SinkOptions
    mode : "append" or "overwrite"

    Raises
    ------
    LanceError, ValueError
        As for :func:`lancecy.write_dataset`.
    """
    given = {name: value for name, value in vars(asked).items() if name in WRITE_DEFAULTS}
    location, session = located(
        asked.path, {"storage_options": asked.storage_options or None, "allowed_bases": asked.allowed_bases}
    )
    if asked.branch is not None:
        # A branch is not made by writing to it.
        location = load_snapshot(location, (asked.branch, None), session=session).location
    snapshot = newest_snapshot(location, session)
    written, commit_options = requests_of(mode, given)
    columns = columns_of(struct, snapshot if mode == "append" else None)
    columns = target_schema(columns, snapshot, written)
    commit_options = replace(commit_options, token=asked.token)
    shared = share(
        columns,
        location,
        session,
        snapshot,
        written,
        commit_options,
        embed_credentials=True,
        zonemaps=asked.zonemaps,
    )
    return TaskWriter(shared, columns)
