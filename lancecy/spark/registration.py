"""Registers the format, and the tables of a namespace, in a Spark session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lancecy.spark.source import LancecyDataSource
from lancecy.spark.views import register_views
from lancecy.spark.workers import check

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession, namespace: Any = None, within: Sequence[str] = ()) -> list[str]:
    """Register ``spark.read.format("lancecy")`` in a session, and the tables of a namespace as temporary views.

    The format needs it where lancecy is on ``sys.path`` without being installed; otherwise Spark finds it by itself.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
    namespace : lance_namespace.LanceNamespace, optional
        Each of its tables becomes a view of its newest version, named as the table, after the names of child namespaces
        with underscores. A view of that name is replaced. Tables without data are left out.
    within : sequence of str
        Only the tables of this namespace and of those in it.

    Returns
    -------
    list of str
        Names of the views.

    Raises
    ------
    ImportError
        The workers' Python has no lancecy or another release of it, or has another version.
    ValueError
        Two tables would have one view.

    Examples
    --------
    With a running session ``spark``::

        lancecy.spark.register(spark)
        spark.read.format("lancecy").option("filter", "id > 5").load("example.lance").count()
    """
    check(spark)
    spark.dataSource.register(LancecyDataSource)
    return [] if namespace is None else register_views(spark, namespace, within)
