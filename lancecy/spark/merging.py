"""Merges a Spark DataFrame into a table: Spark's shuffle brings rows with the same key together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa

from lancecy.api.datasets import Dataset, opened
from lancecy.changes.merge_insert import MergeInsertBuilder
from lancecy.changes.merging.distributed import Piece, SharedMerge
from lancecy.changes.merging.options import MERGE_DEFAULTS, MergeOptions
from lancecy.interop.casts import cast_batches
from lancecy.keyword_options import shared_options, whole_number
from lancecy.records import dataclass
from lancecy.scanning.task import ScanTask
from lancecy.spark.sink import check_frame, columns_of
from lancecy.spark.tasks import numbers, session_for_task, spare_collector
from lancecy.spark.workers import Carried, check
from lancecy.table.snapshot import Snapshot

if TYPE_CHECKING:
    import os

    from pyspark.sql import DataFrame

__all__ = ["merge"]

merging = shared_options(MergeOptions, MERGE_DEFAULTS)

_PIECES = "place bigint, is_source boolean, rows binary"
_PIECES_ARROW = pa.schema([("place", pa.int64()), ("is_source", pa.bool_()), ("rows", pa.binary())])
# Numbers per partition of the shuffle: several, as Spark's hash sends some to the same one.
_PLACES_PER_PARTITION = 2


@merging
def merge(
    df: DataFrame,
    uri: str | os.PathLike[str] | Dataset,
    on: str | Iterable[str] | None = None,
    *,
    num_partitions: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    embed_credentials: bool = False,
    check_workers: bool = True,
    **options: Unpack[MergeOptions],
) -> dict[str, int]:
    """Merge a Spark DataFrame into a table by keys: the executors join and write, the driver makes one commit.

    By default, rows that match are updated and the others inserted. Spark's shuffle brings rows of the frame, and the
    keys of the table, together by a hash of the key; no row passes through the driver, and no column of the table but
    the keys is shuffled.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        Its columns get the types of the table, as for :func:`lancecy.spark.write`.
    uri : str, path or lancecy.Dataset
        Must be reachable from the executors under the same name.
    on : str or iterable of str, optional
        Key columns; by default the table's unenforced primary key.
    num_partitions : int, optional
        Partitions of the shuffle. By default ``spark.sql.shuffle.partitions``, small ones joined by Spark; each is
        merged in the memory of one task.
    storage_options : mapping, optional
    embed_credentials, check_workers
        As for :func:`lancecy.spark.write`.
    when_matched, condition, when_not_matched, when_not_matched_by_source, delete_condition, conflict_retries, \
    data_storage_version
        As for :func:`lancecy.dask.merge_insert`.

    Returns
    -------
    dict
        ``num_inserted_rows``, ``num_updated_rows`` and ``num_deleted_rows``; no version is made if all are 0.

    Raises
    ------
    ImportError
        As for :func:`lancecy.spark.write`.
    LanceError, ValueError
        As for :func:`lancecy.dask.merge_insert`. An error in a task is raised as an error of Spark that names it.
        Nothing is committed then, and files that were written are removed.

    Examples
    --------
    With a running session ``spark``::

        lancecy.spark.write(spark.range(1000), "numbers.lance")
        lancecy.spark.merge(spark.range(900, 1100), "numbers.lance", on="id")
        # {'num_inserted_rows': 100, 'num_updated_rows': 100, 'num_deleted_rows': 0}
    """
    check_frame(df)
    ds = opened(uri, storage_options=storage_options)
    builder = MergeInsertBuilder.of(ds, on, options)
    if num_partitions is not None and whole_number("num_partitions", num_partitions) < 1:
        raise ValueError(f"num_partitions is {num_partitions}, and at least 1 is needed")
    if check_workers:
        check(df.sparkSession)
    return builder.execute_on(_SparkEngine(df, num_partitions), embed_credentials)


@dataclass(frozen=True, slots=True)
class _SparkEngine:
    """Merges the rows of a frame on executors.

    Attributes
    ----------
    df : pyspark.sql.DataFrame
    num_partitions : int or None
    """

    df: DataFrame
    num_partitions: int | None

    def schema(self, snapshot: Snapshot) -> pa.Schema:
        """See ``Engine.schema``."""
        return columns_of(self.df.schema, snapshot)

    def places(self, num_tasks: int) -> tuple[int, ...]:
        """See ``Engine.places``."""
        count = self.num_partitions
        if count is None:
            count = int(self.df.sparkSession.conf.get("spark.sql.shuffle.partitions", "200") or 200)
        return tuple(range(_PLACES_PER_PARTITION * max(1, count)))

    def run(self, merge: SharedMerge, tasks: Sequence[ScanTask]) -> list[str]:
        """See ``Engine.run``."""
        spark = self.df.sparkSession
        pieces = self.df.mapInArrow(_SourcePieces(merge), _PIECES)
        if tasks:
            table = numbers(spark, len(tasks)).mapInArrow(_TablePieces(merge, tuple(tasks)), _PIECES)
            pieces = pieces.unionAll(table)
        by = ("place",) if self.num_partitions is None else (self.num_partitions, "place")
        rows = pieces.repartition(*by).mapInArrow(_Merger(merge), "result string").collect()
        return [row["result"] for row in rows]


def _sent(pieces: Iterable[Piece]) -> Iterator[pa.RecordBatch]:
    for place, is_source, rows in pieces:
        yield pa.record_batch([[place], [is_source], [rows]], schema=_PIECES_ARROW)
    spare_collector()


@dataclass(frozen=True, slots=True)
class _SourcePieces(Carried):
    """Cuts a partition of the frame into pieces, on an executor."""

    merge: SharedMerge

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from _sent(self.merge.of_source(cast_batches(batches, self.merge.source)))


@dataclass(frozen=True, slots=True)
class _TablePieces(Carried):
    """Reads the keys of parts of the table on an executor."""

    merge: SharedMerge
    tasks: tuple[ScanTask, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        session = session_for_task(self.merge.spec.location.limits)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from _sent(self.merge.of_table(self.tasks[number], session))


@dataclass(frozen=True, slots=True)
class _Merger(Carried):
    """Merges a partition of the shuffle on an executor."""

    merge: SharedMerge

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        session = session_for_task(self.merge.spec.location.limits)
        pieces = (
            (is_source.as_py(), rows.as_py())
            for batch in batches
            for is_source, rows in zip(batch.column(1), batch.column(2), strict=True)
        )
        result = self.merge.merge(pieces, 0 if context is None else context.partitionId(), session)
        yield pa.RecordBatch.from_pydict({"result": [result]})
        spare_collector()
