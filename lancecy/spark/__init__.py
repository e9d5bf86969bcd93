"""Lance tables in Spark: no jar, no Maven, no native library on the executors.

=======================  ===================================================================
``read``                 a table on storage as a DataFrame, read by the executors (``frames``)
``dataframe``            an Arrow table in memory as a DataFrame (``frames``)
``spark_arrow_schema``   in which Arrow types Spark holds a table's columns (``types``)
``original_schema``      what the columns of such a DataFrame were in Arrow (``types``)
=======================  ===================================================================

``convert`` turns values into Spark's types, ``workers`` checks the executors' Python.
Importing this package imports no pyspark.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lancecy.spark.frames import dataframe as dataframe
    from lancecy.spark.frames import read as read
    from lancecy.spark.types import original_schema as original_schema
    from lancecy.spark.types import spark_arrow_schema as spark_arrow_schema

__all__ = ["dataframe", "original_schema", "read", "spark_arrow_schema"]

_HOMES = {
    "dataframe": "lancecy.spark.frames",
    "original_schema": "lancecy.spark.types",
    "read": "lancecy.spark.frames",
    "spark_arrow_schema": "lancecy.spark.types",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'lancecy.spark' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
