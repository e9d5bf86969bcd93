"""Makes ``spark.read.format("lancecy")`` known to Spark.

Spark imports every top-level module whose name begins with ``pyspark_`` and registers the ``DefaultSource`` it finds
there. A wheel has a copy of this file beside the package; an editable install puts this folder on the path.
"""

from __future__ import annotations

from lancecy.spark.source import LancecyDataSource as DefaultSource

__all__ = ["DefaultSource"]
