"""Searches for nearest neighbours on executors: every task compares some rows, one more merges them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from lancecy.api.searches import NearestScanner
from lancecy.records import dataclass
from lancecy.scanning.search import Neighbours
from lancecy.scanning.shared_search import SharedSearch
from lancecy.scanning.task import ScanUnit
from lancecy.spark.convert import Converter
from lancecy.spark.tasks import numbers, session_for_task, spare_collector
from lancecy.spark.types import spark_arrow_schema, spark_struct
from lancecy.spark.workers import Carried, check

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["searched"]

_MIN_TASK_BYTES = 8 << 20
_MAX_TASK_BYTES = 128 << 20
_FOUND = "query int, distance float, row_id long, address long"
"""Columns of ``Neighbours.to_batch`` in Spark's words."""


def searched(
    spark: SparkSession,
    scanner: NearestScanner,
    cores: int,
    blocksize: int | None,
    truncate_nanoseconds: bool = False,
    embed_credentials: bool = False,
    check_workers: bool = True,
) -> DataFrame:
    """The result of a search as a DataFrame of one partition, in the order of the search.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
    scanner : NearestScanner
    cores : int
        Number of cores to keep busy.
    blocksize : int or None, bytes
        Vectors that one task compares; by default an equal part of them per core, of 8 to 128 MiB.
    truncate_nanoseconds, embed_credentials, check_workers
        As for :func:`lancecy.spark.read`.

    Raises
    ------
    UnsupportedError
        A column type that Spark cannot hold.
    ImportError
        The executors' Python does not have this lancecy.
    """
    struct = spark_struct(scanner.schema)
    size = blocksize or min(max(scanner.num_bytes // cores, _MIN_TASK_BYTES), _MAX_TASK_BYTES)
    search, tasks = scanner.shared(size, embed_credentials)
    if not tasks:
        return spark.createDataFrame([], struct)
    if check_workers:
        check(spark)
    found = numbers(spark, len(tasks)).mapInArrow(Comparer(search, tuple(tasks)), _FOUND)
    converter = Converter(scanner.schema, truncate_nanoseconds, spark_arrow_schema(scanner.schema))
    # A shuffle of a few rows, so that tasks before it run side by side.
    return found.repartition(1).mapInArrow(Merger(search, converter), struct)


@dataclass(frozen=True, slots=True)
class Comparer(Carried):
    """Compares rows on an executor.

    Attributes
    ----------
    search : SharedSearch
    tasks : tuple of tuple of ScanUnit
    """

    search: SharedSearch
    tasks: tuple[tuple[ScanUnit, ...], ...]

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What the tasks found whose numbers are in the first column."""
        session = session_for_task(self.search.spec.location.limits)
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield self.search.compare(self.tasks[number], session).to_batch()
        spare_collector()


@dataclass(frozen=True, slots=True)
class Merger(Carried):
    """Merges what tasks found, and reads the columns of the result, on one executor.

    Attributes
    ----------
    search : SharedSearch
    converter : Converter
    """

    search: SharedSearch
    converter: Converter

    def __call__(self, found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The result, in Spark's types."""
        session = session_for_task(self.search.spec.location.limits)
        table = self.search.table(map(Neighbours.from_batch, found), session)
        for batch in table.to_batches():
            yield self.converter.batch(batch)
        spare_collector()
