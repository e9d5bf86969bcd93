"""Key-value stores of manifests, through which tables are committed where an object store cannot create conditionally.

``base``      the protocol :class:`ManifestKeyValue` and its values
``memory``    items in this process

A key-value store knows neither tables nor files: it keeps a path and a size for each version of each table.
``lancecy.table.versions.external`` makes commits of it.
"""

from lancecy.store.key_values.base import (
    KeyedTable,
    ManifestItem,
    ManifestKeyValue,
    commit_through,
    keyed_table,
)
from lancecy.store.key_values.memory import MemoryKeyValue

__all__ = [
    "KeyedTable",
    "ManifestItem",
    "ManifestKeyValue",
    "MemoryKeyValue",
    "commit_through",
    "keyed_table",
]
