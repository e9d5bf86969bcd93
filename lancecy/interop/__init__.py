"""A dataset in the shapes that other engines ask for.

====================  ==========================================================================
``pyarrow_dataset``   a ``pyarrow.dataset.Dataset``: DuckDB, Polars and pyarrow push columns and
                      filters through it
``polars_lazy``       a Polars ``LazyFrame`` with columns, filters and a limit pushed
``polars_predicate``  what of a Polars predicate can be pushed
``streams``           anything that speaks Arrow as one stream of batches
====================  ==========================================================================

They stand on what a dataset and its scanner offer in public (:class:`Source`) and import nothing
above the scanner. Polars and ``pyarrow.dataset`` are imported when they are asked for.
"""

from __future__ import annotations

from lancecy.interop.source import Source
from lancecy.interop.streams import record_batches

__all__ = ["Source", "record_batches"]
