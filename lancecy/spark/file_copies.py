"""Copies of data files to a base on the executors of Spark."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from lancecy.api.datasets import Dataset, opened
from lancecy.changes.file_copies import COPY_DEFAULTS, CopyFilesOptions
from lancecy.changes.shared_copies import copied_by_workers
from lancecy.expr.build import Filter
from lancecy.keyword_options import shared_options
from lancecy.scanning.options import HasFragmentId
from lancecy.spark.tasks import results

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["copy_files"]


@shared_options(CopyFilesOptions, COPY_DEFAULTS)
def copy_files(
    spark: SparkSession,
    uri: str | os.PathLike[str] | Dataset,
    fragments: Iterable[HasFragmentId | int] | Filter = None,
    filter: Filter = None,
    *,
    base: str | os.PathLike[str] | None,
    storage_options: Mapping[str, Any] | None = None,
    embed_credentials: bool = False,
    check_workers: bool = True,
    **options: Unpack[CopyFilesOptions],
) -> dict[str, int]:
    """Copy data files of fragments to a base, and read them from there: executors copy, the driver commits once.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
    uri : str, path or lancecy.Dataset
        Must be reachable from the executors under the same name, and so must the bases. A Dataset moves to the new version.
    fragments, filter, base, verify, conflict_retries, retry_timeout
        As for :meth:`lancecy.Dataset.copy_files`.
    storage_options : mapping, optional
        As for :func:`lancecy.dataset`; not allowed with a Dataset, which has its own.
    embed_credentials, check_workers : bool
        As for :func:`lancecy.spark.write`.

    Returns
    -------
    dict
        As of :meth:`lancecy.Dataset.copy_files`.

    Raises
    ------
    ImportError
        As for :func:`lancecy.spark.write`.
    LanceError, TypeError
        As for :meth:`lancecy.Dataset.copy_files`. An error in a task is raised as an error of Spark that names it.

    Examples
    --------
    With a running session ``spark``::

        lancecy.spark.copy_files(spark, "s3://bucket/table", "day >= date '2026-11-01'", base="fast")
    """
    ds = opened(uri, storage_options=storage_options)
    run = partial(results, spark, check_workers=check_workers)
    return copied_by_workers(run, ds, fragments, filter, base, options, embed_credentials)
