"""Adds columns that Spark's executors compute."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancecy.api.datasets import Dataset, opened
from lancecy.changes.shared_columns import add_shared_columns
from lancecy.keyword_options import checked_arguments
from lancecy.spark.tasks import results
from lancecy.spark.workers import check

if TYPE_CHECKING:
    import os

    from pyspark.sql import SparkSession

__all__ = ["add_columns"]


@checked_arguments()
def add_columns(
    spark: SparkSession,
    uri: str | os.PathLike[str] | Dataset,
    function: Callable[[pa.RecordBatch], Any],
    read_columns: Sequence[str] | None = None,
    schema: pa.Schema | None = None,
    *,
    batch_size: int | None = None,
    conflict_retries: int = 10,
    storage_options: Mapping[str, Any] | None = None,
    embed_credentials: bool = False,
    check_workers: bool = True,
) -> Dataset:
    """Add columns that a function computes on the executors, one task per fragment, in one commit.

    Files of other columns stay unchanged, no row passes through the driver, and values are not converted to Spark's
    types.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
    uri : str, path or lancecy.Dataset
        Must be reachable from the executors under the same name. A Dataset moves to the new version.
    function, read_columns, schema, batch_size, conflict_retries, storage_options, embed_credentials
        As for :func:`lancecy.dask.add_columns`.
    check_workers : bool
        As for :func:`lancecy.spark.read`.

    Returns
    -------
    lancecy.Dataset
        At the new version.

    Raises
    ------
    ImportError
        As for :func:`lancecy.spark.write`.
    TypeError, LanceError, ValueError
        As for :func:`lancecy.dask.add_columns`. An error in a task is raised as an error of Spark that names it.

    Examples
    --------
    With a running session ``spark``::

        def twice(batch):
            return {"twice": pc.multiply(batch["a"], 2)}

        lancecy.spark.add_columns(spark, "numbers.lance", twice, ["a"], pa.schema({"twice": pa.int64()}))
    """
    ds = opened(uri, storage_options=storage_options)
    if check_workers:
        check(spark)
    engine = partial(results, spark)
    add_shared_columns(
        ds, engine, function, read_columns, schema, batch_size, conflict_retries, embed_credentials
    )
    return ds
