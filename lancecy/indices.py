"""Options of indices under the names of pylance's ``lance.indices``.

Examples
--------
>>> import lancecy
>>> from lancecy.indices import IndexConfig
>>> ds = lancecy.write_dataset({"a": range(100)}, "memory://doc-indices")
>>> ds.create_scalar_index("a", IndexConfig("zonemap", {"rows_per_zone": 10}))
>>> ds.list_indices()[0]["name"]
'a_idx'
"""

from __future__ import annotations

from lancecy.index.write.index_types import IndexConfig

__all__ = ["IndexConfig"]
