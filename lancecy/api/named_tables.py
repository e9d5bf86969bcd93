"""Tables by name: the place that a namespace gives a table.

Any object with the methods ``describe_table`` and ``declare_table`` of ``lance_namespace.LanceNamespace`` will do.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote

from lancecy.errors import UnsupportedError
from lancecy.store.key_values.ddb_uri import SCHEME
from lancecy.store.key_values.opening import MANIFEST_STORE

__all__ = ["NAMESPACE_ALIASES", "NamedPlace", "named_place", "with_place"]

NAMESPACE_ALIASES = {"namespace_client": "namespace"}
"""The name that pylance has for the argument."""

# Schemes whose URIs are decoded when they are opened, or by the server.
_AS_WRITTEN = frozenset({"file", "http", "https", SCHEME})


class NamedPlace(NamedTuple):
    """The place of a table.

    Attributes
    ----------
    uri : str
    storage_options : dict of str to object
        Those of the namespace and the user's, which win.
    """

    uri: str
    storage_options: dict[str, Any]


def named_place(
    namespace: Any,
    table_id: Sequence[str] | None,
    storage_options: Mapping[str, Any] | None = None,
    *,
    mode: str | None = None,
) -> NamedPlace:
    """The place of a table that a namespace names.

    Parameters
    ----------
    namespace : lance_namespace.LanceNamespace
    table_id : sequence of str
    storage_options : mapping, optional
        Added to those of the namespace.
    mode : "create", "append" or "overwrite", optional
        How the table is written; a missing table is declared first. By default it is read.

    Raises
    ------
    TypeError
        The id is no list of names.
    UnsupportedError
        The namespace gives no location.

    Notes
    -----
    Errors of the namespace are passed on: it has no such table, or refuses to declare it.
    """
    names = _names(table_id)
    answer = _described(namespace, names) if mode is None else _declared(namespace, names, mode)
    if not answer.location:
        raise UnsupportedError(
            f"the namespace gives no location for table {'.'.join(names)!r}", feature="namespaces"
        )
    own = getattr(namespace, "storage_options", None)
    known = answer.storage_options or (own if isinstance(own, Mapping) else None) or {}
    options = {**known, **(storage_options or {})}
    if answer.managed_versioning and MANIFEST_STORE not in options:
        from lancecy.api.named_versions import NamespaceVersions

        options[MANIFEST_STORE] = NamespaceVersions(namespace, names)
    return NamedPlace(_decoded(namespace, answer.location), options)


def with_place(
    uri: Any,
    namespace: Any,
    table_id: Sequence[str] | None,
    options: Mapping[str, Any],
    mode: str | None = None,
) -> tuple[Any, dict[str, Any]]:
    """The table of a function's arguments and its other options, with those of its namespace.

    Parameters
    ----------
    uri : str, path, Dataset or None
    namespace, table_id
        As for :func:`named_place`; None for a table given by ``uri``.
    options : mapping
    mode : str, optional
        As for :func:`named_place`.

    Raises
    ------
    TypeError
        Neither or both of a URI and a namespace are given, or one of namespace and id is missing.
    """
    if namespace is None and table_id is None:
        if uri is None:
            raise TypeError("a table is given by its uri, or by namespace and table_id")
        return uri, dict(options)
    if uri is not None or namespace is None or table_id is None:
        raise TypeError("a table by name needs namespace and table_id, and no uri")
    place = named_place(namespace, table_id, options.get("storage_options"), mode=mode)
    return place.uri, {**options, "storage_options": place.storage_options or None}


def _decoded(namespace: Any, location: str) -> str:
    """The URI of a location: in a bucket, other namespaces give a URL, whose path is percent-encoded."""
    scheme, mark, rest = location.partition("://")
    is_ours = any(kind.__module__.startswith("lancecy.namespace") for kind in type(namespace).__mro__)
    if is_ours or not mark or scheme.lower() in _AS_WRITTEN:
        return location
    bucket, slash, path = rest.partition("/")
    return f"{scheme}://{bucket}{slash}{unquote(path)}"


def _names(table_id: Sequence[str] | None) -> list[str]:
    if isinstance(table_id, str | os.PathLike) or not all(isinstance(name, str) for name in table_id or (0,)):
        raise TypeError(f"table_id is a list of names, such as ['sales', 'orders'], not {table_id!r}")
    return list(table_id or ())


def _described(namespace: Any, names: list[str]) -> Any:
    import lance_namespace

    request = lance_namespace.DescribeTableRequest(id=names, with_table_uri=False, check_declared=False)
    return namespace.describe_table(request)


def _declared(namespace: Any, names: list[str], mode: str) -> Any:
    """The description of a table to be written; a missing one is declared."""
    import lance_namespace

    if mode == "create":
        try:
            return namespace.declare_table(lance_namespace.DeclareTableRequest(id=names))
        except lance_namespace.TableAlreadyExistsError as error:
            # It may only be declared; the write refuses a table that has data.
            try:
                return _described(namespace, names)
            except lance_namespace.TableNotFoundError:
                raise error from None  # a namespace has the name
    try:
        return _described(namespace, names)
    except lance_namespace.TableNotFoundError:
        return namespace.declare_table(lance_namespace.DeclareTableRequest(id=names))
