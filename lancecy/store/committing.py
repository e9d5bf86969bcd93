"""The storage options that say how a table is committed, which no file system knows.

``manifest_store``    a key-value store of manifests, or its URL
``commit_lock``       a lock of the user's, held while a version is published
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

from lancecy.store.base import Store
from lancecy.store.credentials import Options
from lancecy.store.key_values.base import KeyedTable, commit_through, keyed_table
from lancecy.store.key_values.opening import MANIFEST_STORE, key_values_of

__all__ = ["CommitLock", "commit_by", "commit_lock", "split_committing", "with_lock"]

CommitLock: TypeAlias = Callable[[int], AbstractContextManager[Any]]
"""Takes the version to be published and returns a context manager, which is entered while its manifest is written."""

_OPTIONS = (MANIFEST_STORE, "commit_lock")
_ATTRIBUTE = "commit_lock"


def split_committing(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options for a file system, and those of committing.

    Examples
    --------
    >>> split_committing({"anon": True, "manifest_store": "sqlite:////m.db"})
    ({'anon': True}, {'manifest_store': 'sqlite:////m.db'})
    """
    rest = {name: value for name, value in options.items() if name not in _OPTIONS}
    return rest, {name: options[name] for name in _OPTIONS if options.get(name) is not None}


def with_lock(options: Mapping[str, Any] | None, lock: CommitLock | None) -> Mapping[str, Any] | None:
    """The storage options with the argument ``commit_lock`` of pylance among them.

    Examples
    --------
    >>> with_lock({"anon": True}, None)
    {'anon': True}
    """
    return options if lock is None else {**(options or {}), "commit_lock": lock}


def commit_by(
    store: Store, options: Options, manifest_store: object = None, commit_lock: CommitLock | None = None
) -> Store:
    """Let the table at the root of a store be committed as its user says, from now on.

    Parameters
    ----------
    store : Store
        Used by nobody else yet.
    options : mapping
        The other storage options.
    manifest_store : ManifestKeyValue or str, optional
    commit_lock : function, optional

    Returns
    -------
    Store
        The same.

    Raises
    ------
    TypeError
        Neither a manifest store nor a URL; or the lock is no function.
    ValueError
        Both are given, or not the URL of a database.
    UnsupportedError
        No such store is known, or no package for it is installed.
    """
    if manifest_store is not None:
        commit_through(store, KeyedTable(key_values_of(manifest_store, options), _key(store.uri)))
    if commit_lock is not None:
        if keyed_table(store) is not None:
            raise ValueError("a table is committed through a manifest store or under a commit_lock, not both")
        if not callable(commit_lock):
            raise TypeError(
                f"commit_lock is a function of a version that returns a context manager, not {commit_lock!r}"
            )
        setattr(store, _ATTRIBUTE, commit_lock)
    return store


def commit_lock(store: Store) -> CommitLock | None:
    """The lock under which the table at the root of a store is committed; None if there is none."""
    found: CommitLock | None = getattr(store, _ATTRIBUTE, None)
    return found


def _key(uri: str) -> str:
    """The key of a table: the same for each path of a folder on a disk."""
    return os.path.realpath(uri) if uri[0] == "/" else uri
