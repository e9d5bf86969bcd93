"""Lance tables and Arrow tables as Spark DataFrames.

:func:`read` works for tables of any size: the driver plans from metadata, every partition of
the DataFrame reads its own part of the pinned version on an executor, and no rows pass through
the driver. :func:`dataframe` sends an Arrow table that is in memory, in Spark's types and in
enough partitions for all cores.

Spark's generated code checks every value of a nullable column for null, with two virtual calls into Arrow's
vectors: a third of the time of an aggregate over a wide scan. Columns that metadata proves to be free of nulls are
passed to Spark as NOT NULL and declared nullable again by an expression that Spark's optimiser removes: users see
the table's schema, and the generated code has no checks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, Unpack, cast

import pyarrow as pa

from lancecy.api.datasets import OPEN_DEFAULTS, Dataset, TrustOptions, opened
from lancecy.api.named_tables import with_place
from lancecy.api.searches import NearestScanner
from lancecy.expr.build import Filter
from lancecy.interop.streams import record_batches
from lancecy.keyword_options import shared_options
from lancecy.scanning.context import ScanContext
from lancecy.scanning.plan import ScanPlan
from lancecy.scanning.request import Columns
from lancecy.spark.convert import Converter
from lancecy.spark.searching import searched
from lancecy.spark.tasks import TaskReader, batch_limits, divide, numbers
from lancecy.spark.types import normalize, spark_arrow_schema, spark_struct
from lancecy.table.refs.reference import Reference

if TYPE_CHECKING:
    import os

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["dataframe", "declared", "is_flat", "promised", "proved", "read", "strict"]


# Checking a fragment takes the driver about as long as Spark's null checks of this many rows.
_LEAST_ROWS = 50_000
_MOST_FRAGMENTS = 256
_MOST_COLUMNS = 64


# -- columns without nulls --------------------------------------------------------------------


def proved(context: ScanContext, plan: ScanPlan) -> frozenset[str]:
    """Names of output columns that metadata proves to have no nulls in the rows of a plan.

    Nothing is checked where that would make requests, or for tables of very many or of small fragments.

    Parameters
    ----------
    context : ScanContext
    plan : ScanPlan

    Raises
    ------
    FormatError
        A data file is damaged.
    """
    left = {
        out.field.name: out.path
        for out in plan.projection.outputs
        if out.path is not None and len(out.path) == 1 and out.field.nullable and is_flat(out.field.type)
    }
    fragments = sorted({unit.fragment for unit in plan.units})
    if len(fragments) > min(_MOST_FRAGMENTS, plan.num_rows // _LEAST_ROWS) or not context.snapshot.is_mapped:
        return frozenset()
    for fragment in fragments:
        if not left:
            break
        files = context.files(fragment)
        found = files.page_stats(plan.projection.fields, list(left.values()), context.session)
        sure = {p for _, table in found for p, stats in table.columns.items() if bool(stats.no_nulls.all())}
        left = {name: path for name, path in left.items() if path in sure}
    return promised(plan.schema, left)


def promised(schema: pa.Schema, names: Collection[str]) -> frozenset[str]:
    """Those of the names for which NOT NULL is useful, and which Spark can distinguish."""
    known = [name.casefold() for name in schema.names]
    if len(schema) > _MOST_COLUMNS or len(set(known)) < len(known):
        return frozenset()
    # The original type is in the field's metadata, which the cast in `declared` would lose.
    return frozenset(f.name for f in normalize(schema) if f.name in names and not f.metadata)


def is_flat(kind: pa.DataType) -> bool:
    """Whether the column's own statistics count all of its nulls."""
    types = pa.types
    nested = isinstance(kind, pa.BaseExtensionType) or types.is_dictionary(kind)
    return not (nested or types.is_nested(kind) or types.is_null(kind))


def strict(schema: pa.Schema, names: Collection[str]) -> pa.Schema:
    """The schema with these columns declared non-nullable."""
    return pa.schema([f.with_nullable(f.nullable and f.name not in names) for f in schema])


def declared(frame: DataFrame, struct: StructType, names: Collection[str]) -> DataFrame:
    """A frame whose NOT NULL columns ``names`` are declared as in ``struct``.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
    struct : pyspark.sql.types.StructType
        The same columns, except for nullability.
    names : collection of str
    """
    if not names:
        return frame
    return frame.selectExpr(
        *(_nullable(f.name) if f.name in names else _quoted(f.name) for f in struct.fields)
    )


def _nullable(name: str) -> str:
    return f"CASE WHEN false THEN null ELSE {_quoted(name)} END AS {_quoted(name)}"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


opening = shared_options(TrustOptions, OPEN_DEFAULTS)

_BATCH_ROWS_KEY = "spark.sql.execution.arrow.maxRecordsPerBatch"
_PARTITIONS_PER_CORE = 3
_MIN_BATCH_ROWS = 1024
_MAX_BATCH_BYTES = 64 << 20
_LOCAL_BYTES = 48 << 20


# -- tables in memory -------------------------------------------------------------------------


def dataframe(
    spark: SparkSession, data: Any, *, num_partitions: int | None = None, truncate_nanoseconds: bool = False
) -> DataFrame:
    """Rows in memory as a Spark DataFrame; types that Spark cannot hold are refused.

    Unsigned integers widen (``uint64`` to ``decimal(20, 0)``), ``float16`` becomes ``float``, vectors and
    large lists ``array``, dictionaries their values, extension types their storage; timestamps without a
    zone stay without (``timestamp_ntz``). :func:`lancecy.spark.original_schema` returns the original types.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
        Its setting ``maxRecordsPerBatch`` is changed during the call and then restored.
    data : object
        Arrow data, a data frame, a lancecy dataset or scanner, or other rows that :func:`lancecy.write_dataset` takes.
        They pass through the driver's memory; for tables on storage, :func:`read` does not.
    num_partitions : int, optional
        By default three per core. Spark keeps data below 48 MB local and divides it itself.
    truncate_nanoseconds : bool
        Round nanosecond times down to Spark's microseconds. By default those that do not fit raise.

    Raises
    ------
    UnsupportedError
        A type or a value that Spark cannot hold; the message names the column and the remedy.
    FormatError
        A null in a column that is declared non-nullable.
    TypeError
        ``data`` has no rows, such as a Dask frame, which is not computed yet.

    Examples
    --------
    With a running session ``spark``::

        table = pa.table({"vec": pa.array([[1, 2]], pa.list_(pa.float16(), 2))})
        lancecy.spark.dataframe(spark, table).schema.simpleString()  # struct<vec:array<float>>
    """
    table = _as_table(data)
    if not table.num_columns:
        return spark.createDataFrame(table)
    struct = spark_struct(table.schema)
    sure = _without_nulls(table)
    converter = _converter(table.schema, truncate_nanoseconds, sure)
    rows = _batch_rows(table, num_partitions or _PARTITIONS_PER_CORE * _parallelism(spark))
    converted = pa.Table.from_batches(converter.batches(table, rows), converter.target)
    with _setting(spark, _BATCH_ROWS_KEY, str(rows)):
        frame = spark.createDataFrame(converted, schema=_strict(struct, sure))
    return declared(frame, struct, sure)


def _as_table(data: Any) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    if hasattr(data, "to_table"):
        return data.to_table()
    table = record_batches(data).read_all()
    # Spark has no index: levels of that of a pandas frame are columns only if they have names.
    return table.select([name for name in table.column_names if not name.startswith("__index_level_")])


def _without_nulls(table: pa.Table) -> frozenset[str]:
    """Names of nullable columns without nulls, for tables large enough that Spark does not keep them as rows."""
    if table.nbytes < _LOCAL_BYTES:
        return frozenset()
    # Nulls inside a dictionary are not counted as nulls of the column.
    names = [
        field.name
        for field, column in zip(table.schema, table.columns, strict=True)
        if field.nullable and is_flat(field.type) and not column.null_count
    ]
    return promised(table.schema, names)


def _batch_rows(table: pa.Table, partitions: int) -> int:
    """Rows per batch: each batch becomes a partition, an equal share of a size that Spark can send."""
    num_rows, num_bytes = int(table.num_rows), int(table.nbytes)
    share = max(_MIN_BATCH_ROWS, -(-num_rows // max(1, partitions)))
    per_row = num_bytes / max(1, num_rows)
    return max(1, min(share, int(_MAX_BATCH_BYTES / max(1.0, per_row))))


def _parallelism(spark: SparkSession) -> int:
    # Spark Connect has no SparkContext; a small cluster is assumed.
    context = getattr(spark, "_sc", None)
    return int(context.defaultParallelism) if context is not None else 8


@contextlib.contextmanager
def _setting(spark: SparkSession, key: str, value: str) -> Iterator[None]:
    before = spark.conf.get(key, None)
    spark.conf.set(key, value)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, before)


@opening
def read(
    spark: SparkSession,
    uri: str | os.PathLike[str] | Dataset | None = None,
    columns: Columns = None,
    filter: Filter = None,
    version: Reference = None,
    asof: date | str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    *,
    nearest: Mapping[str, Any] | None = None,
    prefilter: bool = False,
    blocksize: int | None = None,
    batch_size: int | None = None,
    with_row_id: bool = False,
    with_row_address: bool = False,
    truncate_nanoseconds: bool = False,
    embed_credentials: bool = False,
    check_workers: bool = True,
    namespace: Any = None,
    table_id: Sequence[str] | None = None,
    **options: Unpack[TrustOptions],
) -> DataFrame:
    """A Lance table as a Spark DataFrame whose partitions are read by the executors.

    The version is fixed by this call, so every task, and every later run of the same DataFrame, reads
    the same rows. Columns and filter are applied while reading; Spark's own ``select`` and ``where``
    come after it, so give them here. Types are mapped as by :func:`dataframe`.

    ``count``, and ``agg`` or ``select`` of ``sum``, ``avg``, ``min``, ``max`` and ``count`` of columns, read only
    the columns they need and are computed by the executors, which send Spark one row per partition. This applies to
    frames that ``read`` returns and selections of their columns. With Spark Connect, after other operations, with
    groups and for cached frames, Spark processes all the rows.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
    uri : str, path or lancecy.Dataset, optional
        Must be reachable from the executors under the same name.
    columns, filter
        As for :meth:`lancecy.Dataset.scanner`.
    version, asof, storage_options, untrusted, allowed_bases, limits, replicas
        As for :func:`lancecy.dataset`; not allowed with a Dataset, which has fixed them.
    nearest : mapping, optional
        Search: return the rows whose vectors are nearest to a query, as :meth:`lancecy.Dataset.scanner` does. Tasks
        compare ``blocksize`` bytes of vectors each, and one more reads the rows found: the frame has one partition,
        in the order of the search.
    prefilter : bool
        In a search the filter chooses the rows that are compared, not those of the result.
    blocksize : int, optional, bytes
        Target size of a partition; by default one partition per core, of 8 to 128 MiB.
    batch_size : int, optional
        Largest number of rows of an Arrow batch sent to Spark; by default 262,144, in at most 16 MiB. Aggregates
        send no rows and use their own batch size.
    with_row_id, with_row_address : bool
        Append ``_rowid``, ``_rowaddr`` (``decimal(20, 0)``).
    truncate_nanoseconds : bool
        Round nanosecond times down to microseconds instead of raising for those that do not fit.
    embed_credentials : bool
        Send the secrets in ``storage_options`` to the executors inside the tasks. By default only the
        other options are sent, and executors take credentials from their own environment.
    check_workers : bool
        Check once per session in one worker that it has the same lancecy: a clear error now instead of a Java
        stack trace later.
    namespace, table_id : optional
        As for :func:`lancecy.dataset`; the driver looks the table up.

    Raises
    ------
    UnsupportedError
        A column type that Spark cannot hold, a table that this release does not read, or a search in multivectors.
    ImportError
        The executors' Python has no lancecy or another release of it, or has another version.
    DatasetNotFoundError, NotFoundError, FormatError, StoreError, ColumnNotFoundError, ExpressionError
        As for :func:`lancecy.dataset` and :meth:`lancecy.Dataset.scanner`.
    ValueError
        No columns are selected.

    Examples
    --------
    With a running session ``spark``::

        df = lancecy.spark.read(spark, "s3://bucket/table", columns=["id"], filter="id > 5")
        df.groupBy("id").count().show()
    """
    place, given = with_place(uri, namespace, table_id, {"storage_options": storage_options})
    source = opened(place, version=version, asof=asof, **cast(Any, given), **options)
    scanner = source.scanner(
        columns,
        filter,
        nearest=nearest,
        prefilter=prefilter,
        **batch_limits(batch_size),
        with_row_id=with_row_id,
        with_row_address=with_row_address,
    )
    if not len(scanner.schema):
        raise ValueError("Spark cannot hold a DataFrame without columns: select at least one")
    if isinstance(scanner, NearestScanner):
        sending = (truncate_nanoseconds, embed_credentials, check_workers)
        return searched(spark, scanner, _parallelism(spark), blocksize, *sending)
    struct = spark_struct(scanner.schema)
    plan, parts = divide(scanner, source.context, _parallelism(spark), blocksize, embed_credentials)
    if not parts:
        return spark.createDataFrame([], struct)
    if check_workers:
        from lancecy.spark.workers import check

        check(spark)
    sure = proved(source.context, plan)
    converter = _converter(plan.schema, truncate_nanoseconds, sure)
    reader = TaskReader(plan.tasks[0].spec, tuple(parts), converter)
    read_rows = numbers(spark, len(parts)).mapInArrow(reader, _strict(struct, sure))
    frame = declared(read_rows, struct, sure)
    if getattr(spark, "_sc", None) is None:
        return frame  # A frame of Spark Connect, whose plans are on the server.
    from lancecy.spark.pushdown import LanceDataFrame, Scan

    num_rows = plan.num_rows if reader.spec.request.filter is None else None
    return LanceDataFrame(frame._jdf, spark, Scan(reader, num_rows))


def _converter(schema: pa.Schema, truncate_nanoseconds: bool, sure: Collection[str]) -> Converter:
    return Converter(schema, truncate_nanoseconds, strict(spark_arrow_schema(schema), sure))


def _strict(struct: StructType, sure: Collection[str]) -> StructType:
    from pyspark.sql import types as spark

    return spark.StructType(
        [
            spark.StructField(f.name, f.dataType, f.nullable and f.name not in sure, f.metadata)
            for f in struct.fields
        ]
    )
