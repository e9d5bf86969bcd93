"""Versions over a key-value store in memory."""

from __future__ import annotations

from lancecy.store.key_values import KeyedTable, MemoryKeyValue
from lancecy.table.versions import ExternalVersions

__all__ = ["external_versions"]


def external_versions() -> ExternalVersions:
    """The versions of a table that has none yet."""
    return ExternalVersions(KeyedTable(MemoryKeyValue(), "table"))
