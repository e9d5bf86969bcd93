"""Compaction on the executors of Spark."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from lancecy.api.datasets import Dataset, opened
from lancecy.changes.compact import CompactionMetrics, compacted
from lancecy.changes.compaction_options import RUN_DEFAULTS, CompactionRunOptions, RunRequest
from lancecy.changes.shared_compaction import rewritten_by
from lancecy.keyword_options import shared_options
from lancecy.spark.tasks import results

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["compact"]


@shared_options(CompactionRunOptions, RUN_DEFAULTS)
def compact(
    uri: str | os.PathLike[str] | Dataset,
    spark: SparkSession | None = None,
    storage_options: Mapping[str, Any] | None = None,
    *,
    embed_credentials: bool = False,
    check_workers: bool = True,
    **options: Unpack[CompactionRunOptions],
) -> CompactionMetrics:
    """Merge small fragments of a table and remove deleted rows: executors write the files, the driver commits once.

    Parameters
    ----------
    uri : str, path or lancecy.Dataset
        Must be reachable from the executors under the same name. A Dataset moves to the new version.
    spark : pyspark.sql.SparkSession, optional
        By default the active session.
    storage_options : mapping, optional
        As for :func:`lancecy.dataset`; not allowed with a Dataset, which has its own.
    embed_credentials, check_workers : bool
        As for :func:`lancecy.spark.write`.
    target_rows_per_fragment, max_rows_per_group, max_bytes_per_file, materialize_deletions, \
    materialize_deletions_threshold, defer_index_remap, num_threads, batch_size, io_buffer_size, compaction_mode, \
    binary_copy_read_batch_bytes, max_source_fragments, max_source_rows, max_source_bytes, excluded_fragment_ids, \
    data_storage_version, target_bases, durability, commit_message, transaction_properties, conflict_retries, retry_timeout
        As for :meth:`lancecy.optimize.DatasetOptimizer.compact_files`.

    Returns
    -------
    CompactionMetrics

    Raises
    ------
    ValueError
        No Spark session is active.
    ImportError
        As for :func:`lancecy.spark.write`.
    LanceError, ValueError, TypeError
        As for :meth:`lancecy.optimize.DatasetOptimizer.compact_files`. An error in a task is raised as an error of
        Spark that names it, with a note about what was removed.

    Examples
    --------
    With a running session::

        lancecy.spark.compact("s3://bucket/table", target_rows_per_fragment=1_000_000)
    """
    session = spark or _active()
    ds = opened(uri, storage_options=storage_options)
    request = RunRequest.of(options)
    run = partial(results, session, check_workers=check_workers)
    return compacted(ds, request, partial(rewritten_by, run, ds, request.commit.durable, embed_credentials))


def _active() -> SparkSession:
    from pyspark.sql import SparkSession

    found = SparkSession.getActiveSession()
    if found is None:
        raise ValueError("there is no active Spark session: start one, or pass spark=")
    return found
