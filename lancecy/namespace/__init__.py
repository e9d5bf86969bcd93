"""Namespaces: tables by name below a directory, and the operations on them.

==========================  ================================================================
``DirectoryNamespace``      the namespace of a directory (``directory``)
``Migration``               what a migration from V1 to V2 did (``migration``)
``LanceNamespace``          the base class of namespaces, of ``lance_namespace``
==========================  ================================================================

* ``names``, ``entries``: names and ids; the rows of ``__manifest``. ``view``: one version of it. ``catalog``: its changes.
  ``upkeep``: its fragments and indices.
* ``folders``: directories of tables and their markers. ``properties``: the configuration.
* ``base``: where an object is; ``namespaces``, ``tables``, ``creation``, ``removal``, ``migration``: the operations.
* ``versions``, ``indexing``, ``contents``: versions, indices, rows and columns of tables.
* ``pages``, ``schemas``, ``failures``: parts of answers; errors with codes.

Importing this package registers the name "lancecy" for ``lance_namespace.connect``. The package ``lance-namespace`` is
needed: ``pip install 'lancecy[namespace]'``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lancecy.errors import needing
from lancecy.lazy_attributes import lazy_attributes

if TYPE_CHECKING:
    from lance_namespace import LanceNamespace as LanceNamespace

    from lancecy.namespace.directory import DirectoryNamespace as DirectoryNamespace
    from lancecy.namespace.migration import Migration as Migration

_HOMES = {
    "lance_namespace": "LanceNamespace",
    "lancecy.namespace.directory": "DirectoryNamespace",
    "lancecy.namespace.migration": "Migration",
}

_find, __dir__, __all__ = lazy_attributes(__name__, _HOMES)


def __getattr__(name: str) -> Any:
    if name == "RestNamespace":
        raise AttributeError(
            "lancecy has no client of REST namespaces; lancecy.dataset(namespace=…) takes that of others, such as "
            "lance.namespace.RestNamespace"
        )
    with needing(__name__, "namespace"):
        return _find(name)


def _register() -> None:
    try:
        import lance_namespace
    except ImportError:
        return
    lance_namespace.register_namespace_impl("lancecy", f"{__name__}.DirectoryNamespace")


_register()
