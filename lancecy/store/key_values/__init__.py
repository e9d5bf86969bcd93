"""Key-value stores of manifests, through which tables are committed where an object store cannot create conditionally.

``base``      the protocol :class:`ManifestKeyValue` and its values
``lost``      URLs that stand for a key-value store of another process
``opening``   the key-value store that a URL or a storage option names
``memory``    items in this process
``dynamodb``  items in DynamoDB, and ``s3+ddb://`` tables
``ddb_uri``   the forms of their URIs
``sql``       rows of an SQL database

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
from lancecy.store.key_values.opening import register_key_values

__all__ = [
    "KeyedTable",
    "ManifestItem",
    "ManifestKeyValue",
    "MemoryKeyValue",
    "commit_through",
    "keyed_table",
    "register_key_values",
]
