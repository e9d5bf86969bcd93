"""Functions that compute columns, under the names of pylance's ``lance.udf``.

Examples
--------
>>> import lancecy
>>> from lancecy.udf import batch_udf
>>> @batch_udf()
... def doubled(batch):
...     return {"b": [2 * value for value in batch["a"].to_pylist()]}
>>> ds = lancecy.write_dataset({"a": [1, 2]}, "memory://doc-udf")
>>> ds.add_columns(doubled, read_columns=["a"])
>>> ds.to_table()["b"].to_pylist()
[2, 4]
"""

from __future__ import annotations

from lancecy.changes.batch_functions import BatchUDF, batch_udf
from lancecy.changes.checkpoint_files import BatchUDFCheckpoint

__all__ = ["BatchUDF", "BatchUDFCheckpoint", "batch_udf"]
