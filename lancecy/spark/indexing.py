"""Indices on the executors of Spark."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from lancecy.api.datasets import Dataset, opened
from lancecy.changes.shared_index import (
    INDEX_DEFAULTS,
    SharedIndexOptions,
    create_shared_index,
)
from lancecy.index.write.index_types import IndexKind
from lancecy.keyword_options import shared_options
from lancecy.spark.tasks import results
from lancecy.spark.workers import check

if TYPE_CHECKING:
    import os

    from pyspark.sql import SparkSession

__all__ = ["create_scalar_index"]


@shared_options(SharedIndexOptions, INDEX_DEFAULTS)
def create_scalar_index(
    spark: SparkSession,
    uri: str | os.PathLike[str] | Dataset,
    column: str,
    index_type: IndexKind = "BTREE",
    name: str | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
    embed_credentials: bool = False,
    check_workers: bool = True,
    **options: Unpack[SharedIndexOptions],
) -> None:
    """Make an index of a column: executors make parts of it, the driver merges these and commits once.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
    uri : str, path or lancecy.Dataset
        Must be reachable from the executors under the same name. A Dataset moves to the new version.
    column, index_type, name
        As for :meth:`lancecy.Dataset.create_scalar_index`.
    storage_options : mapping, optional
        As for :func:`lancecy.dataset`; not allowed with a Dataset, which has its own.
    embed_credentials, check_workers : bool
        As for :func:`lancecy.spark.write`.
    replace, num_parts, conflict_retries, durability, commit_message
        As for :func:`lancecy.dask.create_scalar_index`.

    Raises
    ------
    ImportError
        As for :func:`lancecy.spark.write`.
    LanceError, ValueError, TypeError
        As for :func:`lancecy.dask.create_scalar_index`. An error in a task is raised as an error of Spark that names it.

    Examples
    --------
    With a running session ``spark``::

        lancecy.spark.create_scalar_index(spark, "numbers.lance", "price", "BTREE")
    """
    ds = opened(uri, storage_options=storage_options)
    if check_workers:
        check(spark)
    create_shared_index(ds, partial(results, spark), column, index_type, name, options, embed_credentials)
