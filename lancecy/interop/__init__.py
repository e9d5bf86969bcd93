"""Datasets for other engines, and rows from them.

====================  ==========================================================================
``pyarrow_dataset``   a ``pyarrow.dataset.Dataset``: DuckDB, Polars and pyarrow push columns and
                      filters into it
``polars``            a Polars ``LazyFrame`` with columns, filters and a limit pushed down
``sql``               queries that DuckDB runs over a dataset
``streams``           rows of any kind as one stream of batches
``spark_frames``      rows of a Spark frame as such a stream
``columns``           Python and NumPy values as Arrow arrays
``python_rows``       rows as dictionaries as batches
``casts``             casts that keep every value, and name the one that does not fit
====================  ==========================================================================

They use the public methods of a dataset and its scanner (:class:`Source`). Polars, DuckDB, Spark
and ``pyarrow.dataset`` are imported on first use.
"""

from __future__ import annotations

from lancecy.interop.source import Source
from lancecy.interop.streams import record_batches

__all__ = ["Source", "record_batches"]
