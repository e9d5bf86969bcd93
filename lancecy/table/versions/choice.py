"""Chooses the version store of a table."""

from __future__ import annotations

from lancecy.store.base import Store
from lancecy.store.committing import commit_lock
from lancecy.store.key_values import keyed_table
from lancecy.table.versions.base import VersionStore
from lancecy.table.versions.external import ExternalVersions
from lancecy.table.versions.folder import ConditionalPut, LocalLink
from lancecy.table.versions.locked import LockedPut

__all__ = ["version_store"]


def version_store(store: Store) -> VersionStore:
    """The version store of the table at the root of a store.

    An external one if the store has a key-value store of manifests, one under a lock if it has a lock, else links on local disks and conditional puts
    elsewhere.

    Parameters
    ----------
    store : Store
        Rooted at the dataset.

    Examples
    --------
    >>> from lancecy.store.memory import MemoryStore
    >>> version_store(MemoryStore())
    ConditionalPut(lists_in_order=False)
    """
    keyed = keyed_table(store)
    if keyed is not None:
        return ExternalVersions(keyed, store.traits.lists_in_order)
    lock = commit_lock(store)
    if lock is not None:
        return LockedPut(store.traits.lists_in_order, lock=lock)
    if store.traits.is_mapped:
        return LocalLink(store.traits.lists_in_order)
    return ConditionalPut(store.traits.lists_in_order)
