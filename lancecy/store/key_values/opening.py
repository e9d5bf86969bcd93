"""Opens the key-value store that a user names, once for each name and login.

A table is committed through one where its URI says so (``s3+ddb://…?ddbTableName=T``), or where its storage options have
an entry ``manifest_store``: a URL, or an object with the methods of :class:`ManifestKeyValue`.
"""

from __future__ import annotations

import importlib
import os
import threading
from typing import Any, Protocol

from lancecy.errors import UnsupportedError, nearest, printable
from lancecy.store.credentials import Options, freeze
from lancecy.store.key_values.base import ManifestKeyValue
from lancecy.store.key_values.lost import lost_url

__all__ = ["MANIFEST_STORE", "KeyValueFactory", "key_values_of", "register_key_values", "sendable"]

MANIFEST_STORE = "manifest_store"
"""The storage option that names a key-value store."""

# Stores kept open; a process that writes to more of them opens some again.
_MOST = 64


class KeyValueFactory(Protocol):
    """The type of a function that opens the key-value store of a URL, for :func:`register_key_values`."""

    def __call__(self, url: str, options: Options) -> ManifestKeyValue: ...


_FACTORIES: dict[str, str | KeyValueFactory] = {
    "dynamodb": "lancecy.store.key_values.dynamodb:open_dynamodb",
    "lost": "lancecy.store.key_values.lost:open_lost",
    "postgresql": "lancecy.store.key_values.sql:open_sql",
    "sqlite": "lancecy.store.key_values.sql:open_sql",
}


class _Opened:
    lock = threading.Lock()
    stores: dict[object, ManifestKeyValue] = {}  # noqa: RUF012 - one for the process


def _forget() -> None:
    _Opened.lock, _Opened.stores = threading.Lock(), {}


os.register_at_fork(after_in_child=_forget)


def register_key_values(scheme: str, factory: str | KeyValueFactory) -> None:
    """Open key-value stores of a scheme with ``factory`` in this process, replacing the previous factory.

    Parameters
    ----------
    scheme : str
        What is before ``://``, without a part after ``+``.
    factory : KeyValueFactory or str
        Called with the URL and the other storage options; a string "module:function" is imported on first use.
    """
    _FACTORIES[scheme.lower()] = factory


def key_values_of(given: object, options: Options) -> ManifestKeyValue:
    """The key-value store that a storage option names.

    Parameters
    ----------
    given : str or ManifestKeyValue
    options : mapping
        The other storage options.

    Raises
    ------
    UnsupportedError
        No adapter for the scheme, or its package is not installed.
    TypeError
        Neither a URL nor a key-value store.

    Examples
    --------
    >>> from lancecy.store.key_values import MemoryKeyValue
    >>> own = MemoryKeyValue()
    >>> key_values_of(own, {}) is own
    True
    """
    if not isinstance(given, str):
        if isinstance(given, ManifestKeyValue):
            return given
        raise TypeError(
            f"storage option {MANIFEST_STORE!r} is a URL or an object with the methods of "
            f"lancecy.store.key_values.ManifestKeyValue, not {type(given).__name__}"
        )
    key = (given, freeze(options))
    with _Opened.lock:
        found = _Opened.stores.get(key)
        if found is None:
            if len(_Opened.stores) >= _MOST:
                del _Opened.stores[next(iter(_Opened.stores))]
            found = _Opened.stores[key] = _factory(given)(given, options)
        return found


def sendable(options: Options, redacted: dict[str, Any]) -> dict[str, Any]:
    """Storage options for another process: an object that is their key-value store becomes its stand-in.

    Parameters
    ----------
    options : mapping
    redacted : dict
        What :func:`~lancecy.store.credentials.redact` left of them.

    Examples
    --------
    >>> from lancecy.store.key_values import MemoryKeyValue
    >>> sendable({"manifest_store": MemoryKeyValue()}, {})
    {'manifest_store': 'lost://MemoryKeyValue'}
    """
    given = options.get(MANIFEST_STORE)
    if given is None or MANIFEST_STORE in redacted:
        return redacted
    return {**redacted, MANIFEST_STORE: lost_url(type(given).__name__)}


def _factory(url: str) -> KeyValueFactory:
    scheme, mark, _ = url.partition("://")
    scheme = scheme.partition("+")[0].lower() if mark else ""
    factory: Any = _FACTORIES.get(scheme)
    if factory is None:
        # Nobody writes the URL of a stand-in.
        known = sorted(_FACTORIES.keys() - {"lost"})
        close = nearest(scheme, known, limit=1)
        advice = f"; did you mean {close[0]}://?" if close else ""
        raise UnsupportedError(
            f"no key-value store of manifests for {printable(scheme) + '://' if scheme else 'text without a scheme'} is "
            f"known; there are {', '.join(f'{name}://' for name in known)}{advice}",
            feature="manifest store",
        )
    if isinstance(factory, str):
        module, _, name = factory.partition(":")
        factory = _FACTORIES[scheme] = getattr(importlib.import_module(module), name)
    opened: KeyValueFactory = factory
    return opened
