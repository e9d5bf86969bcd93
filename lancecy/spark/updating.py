"""Updates on the executors of Spark."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from lancecy.api.datasets import Dataset, opened
from lancecy.changes.shared_update import UPDATE_DEFAULTS, UpdateOptions, update_shared
from lancecy.expr.build import Filter
from lancecy.keyword_options import shared_options
from lancecy.spark.tasks import results
from lancecy.spark.workers import check

if TYPE_CHECKING:
    import os

    from pyspark.sql import SparkSession

__all__ = ["update"]


@shared_options(UpdateOptions, UPDATE_DEFAULTS)
def update(
    spark: SparkSession,
    uri: str | os.PathLike[str] | Dataset,
    updates: Mapping[str, Any],
    where: Filter = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
    embed_credentials: bool = False,
    check_workers: bool = True,
    **options: Unpack[UpdateOptions],
) -> dict[str, int]:
    """Set columns of the rows for which a predicate is true: executors find and write the rows, the driver commits once.

    Tasks get whole fragments; no row passes through the driver, and values are not converted to Spark's types.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
    uri : str, path or lancecy.Dataset
        Must be reachable from the executors under the same name. A Dataset moves to the new version.
    updates, where
        As for :meth:`lancecy.Dataset.update`.
    storage_options : mapping, optional
        As for :func:`lancecy.dataset`; not allowed with a Dataset, which has its own.
    embed_credentials, check_workers : bool
        As for :func:`lancecy.spark.write`.
    conflict_retries, data_storage_version, durability
        As for :func:`lancecy.dask.update`.

    Returns
    -------
    dict
        ``{"num_rows_updated": int}``; no version is made for 0.

    Raises
    ------
    ImportError
        As for :func:`lancecy.spark.write`.
    LanceError, ValueError, TypeError
        As for :func:`lancecy.dask.update`. An error in a task is raised as an error of Spark that names it.

    Examples
    --------
    With a running session ``spark``::

        lancecy.spark.update(spark, "numbers.lance", {"price": "price * 1.1"}, "region = 'north'")
        # {'num_rows_updated': 1234}
    """
    ds = opened(uri, storage_options=storage_options)
    if check_workers:
        check(spark)
    return update_shared(ds, partial(results, spark), updates, where, options, embed_credentials)
