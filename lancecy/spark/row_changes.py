"""The rows that differ between two versions of a table as a Spark DataFrame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa

from lancecy.api.datasets import OPEN_DEFAULTS, Dataset, TrustOptions, opened
from lancecy.api.row_changes import RowChanges
from lancecy.keyword_options import shared_options
from lancecy.records import dataclass
from lancecy.scanning.read_changes import ChangeSpec, ChangeTask, batches
from lancecy.spark.convert import Converter
from lancecy.spark.tasks import numbers, session_for_task, spare_collector
from lancecy.spark.types import spark_arrow_schema, spark_struct
from lancecy.spark.workers import Carried, check
from lancecy.table.refs.reference import Reference

if TYPE_CHECKING:
    import os

    from pyspark.sql import DataFrame, SparkSession

__all__ = ["changes", "diff"]

opening = shared_options(TrustOptions, OPEN_DEFAULTS)

_BLOCK_BYTES = 128 << 20


@opening
def changes(
    spark: SparkSession,
    uri: str | os.PathLike[str] | Dataset,
    since: int | str,
    until: int | str | None = None,
    columns: Sequence[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    *,
    blocksize: int | None = None,
    truncate_nanoseconds: bool = False,
    embed_credentials: bool = False,
    check_workers: bool = True,
    **options: Unpack[TrustOptions],
) -> DataFrame:
    """The rows that differ between two versions of a table, as a Spark DataFrame that the executors read.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
    uri : str, path or lancecy.Dataset
        Must be reachable from the executors under the same name.
    since, until, columns
        As for :meth:`lancecy.Dataset.changes`, whose rows and columns these are. ``_rowid`` is ``decimal(20, 0)``.
    blocksize : int, optional, bytes
        Bytes of the rows that a partition looks at, by default 128 MiB; it holds those that changed.
    storage_options, truncate_nanoseconds, embed_credentials, check_workers, untrusted, allowed_bases, limits, replicas
        As for :func:`lancecy.spark.read`.

    Raises
    ------
    UnsupportedError
        A column type that Spark cannot hold.
    LanceError, ValueError
        As for :meth:`lancecy.Dataset.changes` and :func:`lancecy.spark.read`.

    Examples
    --------
    With a running session ``spark``::

        df = lancecy.spark.changes(spark, "s3://bucket/table", since=7)
        df.where("_change_type != 'update_preimage'").show()
    """
    found = opened(uri, storage_options=storage_options, **options).changes(since, until, columns)
    return _frame(spark, found, blocksize, truncate_nanoseconds, embed_credentials, check_workers)


@opening
def diff(
    spark: SparkSession,
    uri: str | os.PathLike[str] | Dataset,
    old: Reference | Dataset,
    new: Reference | Dataset | None = None,
    columns: Sequence[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    *,
    blocksize: int | None = None,
    truncate_nanoseconds: bool = False,
    embed_credentials: bool = False,
    check_workers: bool = True,
    **options: Unpack[TrustOptions],
) -> DataFrame:
    """The rows that differ between two versions of a table, also of different branches, as a Spark DataFrame.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
    uri : str, path or lancecy.Dataset
        Must be reachable from the executors under the same name, and so must the branches.
    old, new, columns
        As for :meth:`lancecy.Dataset.diff`, whose rows these are. ``_rowid`` is ``decimal(20, 0)``.
    blocksize : int, optional, bytes
        As for :func:`changes`.
    storage_options, truncate_nanoseconds, embed_credentials, check_workers, untrusted, allowed_bases, limits, replicas
        As for :func:`lancecy.spark.read`.

    Raises
    ------
    UnsupportedError
        A column type that Spark cannot hold.
    LanceError, ValueError
        As for :meth:`lancecy.Dataset.diff` and :func:`lancecy.spark.read`.

    Examples
    --------
    With a running session ``spark``::

        df = lancecy.spark.diff(spark, "s3://bucket/table", ("experiment", None))
        df.where("_change_type = 'insert'").show()
    """
    found = opened(uri, storage_options=storage_options, **options).diff(old, new, columns=columns)
    return _frame(spark, found.row_changes, blocksize, truncate_nanoseconds, embed_credentials, check_workers)


def _frame(
    spark: SparkSession,
    found: RowChanges,
    blocksize: int | None,
    truncate_nanoseconds: bool,
    embed_credentials: bool,
    check_workers: bool,
) -> DataFrame:
    struct = spark_struct(found.schema)
    tasks = found.tasks(blocksize or _BLOCK_BYTES)
    if not tasks:
        return spark.createDataFrame([], struct)
    if check_workers:
        check(spark)
    converter = Converter(found.schema, truncate_nanoseconds, spark_arrow_schema(found.schema))
    reader = ChangeReader(found.spec(embed_credentials), tuple(tasks), converter)
    return numbers(spark, len(tasks)).mapInArrow(reader, struct)


@dataclass(frozen=True, slots=True)
class ChangeReader(Carried):
    """Reads changes on an executor.

    Attributes
    ----------
    spec : ChangeSpec
    tasks : tuple of ChangeTask
    converter : Converter
    """

    spec: ChangeSpec
    tasks: tuple[ChangeTask, ...]
    converter: Converter

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches of the tasks whose numbers are in the first column."""
        session = session_for_task(self.spec.new.location.limits)
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for found in batches(self.spec, [self.tasks[number]], session):
                    yield self.converter.batch(found)
        spare_collector()
