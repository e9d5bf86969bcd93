"""Namespaces of lancecy and pylance over one directory, and requests in few words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance_namespace as ln
import pyarrow as pa

import lancecy.namespace  # noqa: F401 - registers the name "lancecy"

MODES: dict[str, dict[str, str]] = {
    "default": {},
    "migrating": {"dir_listing_to_manifest_migration_enabled": "true"},
    "manifest only": {"dir_listing_enabled": "false"},
    "directory only": {"manifest_enabled": "false"},
}


def ours(root: str | Path, **properties: Any) -> Any:
    """lancecy's namespace of a directory."""
    return ln.connect("lancecy", {"root": str(root), **properties})


def theirs(root: str | Path, **properties: Any) -> Any:
    """pylance's namespace of a directory."""
    return ln.connect("dir", {"root": str(root), **properties})


def stream(rows: Any = None) -> bytes:
    """Rows as an Arrow IPC stream."""
    table = rows if isinstance(rows, pa.Table) else pa.table(rows or {"a": [1, 2, 3]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def create(ns: Any, name: str, rows: Any = None, **fields: Any) -> Any:
    """Create a table named as ``ns1.table``."""
    return ns.create_table(ln.CreateTableRequest(id=name.split("."), **fields), stream(rows))


def declare(ns: Any, name: str, **fields: Any) -> Any:
    """Declare a table."""
    return ns.declare_table(ln.DeclareTableRequest(id=name.split("."), **fields))


def register(ns: Any, name: str, location: str, **fields: Any) -> Any:
    """Register a table at a location."""
    return ns.register_table(ln.RegisterTableRequest(id=name.split("."), location=location, **fields))


def rename(ns: Any, name: str, new: str, namespace: list[str] | None = None) -> Any:
    """Rename a table."""
    request = ln.RenameTableRequest(id=name.split("."), new_table_name=new, new_namespace_id=namespace)
    return ns.rename_table(request)


def drop(ns: Any, name: str) -> Any:
    """Drop a table."""
    return ns.drop_table(ln.DropTableRequest(id=name.split(".")))


def deregister(ns: Any, name: str) -> Any:
    """Deregister a table."""
    return ns.deregister_table(ln.DeregisterTableRequest(id=name.split(".")))


def describe(ns: Any, name: str, **fields: Any) -> Any:
    """Describe a table."""
    return ns.describe_table(ln.DescribeTableRequest(id=name.split("."), **fields))


def exists(ns: Any, name: str) -> bool:
    """Whether there is a table."""
    try:
        ns.table_exists(ln.TableExistsRequest(id=name.split(".")))
    except (ln.TableNotFoundError, ln.NamespaceNotFoundError):
        return False
    return True


def tables(ns: Any, namespace: str = "", **fields: Any) -> list[str]:
    """Names of tables in a namespace."""
    names = namespace.split(".") if namespace else []
    found: list[str] = ns.list_tables(ln.ListTablesRequest(id=names, **fields)).tables
    return found


def namespaces(ns: Any, namespace: str = "", **fields: Any) -> list[str]:
    """Names of namespaces in a namespace."""
    names = namespace.split(".") if namespace else []
    found: list[str] = ns.list_namespaces(ln.ListNamespacesRequest(id=names, **fields)).namespaces
    return found


def make(ns: Any, name: str, **fields: Any) -> Any:
    """Create a namespace."""
    return ns.create_namespace(ln.CreateNamespaceRequest(id=name.split("."), **fields))


def remove(ns: Any, name: str, **fields: Any) -> Any:
    """Drop a namespace."""
    return ns.drop_namespace(ln.DropNamespaceRequest(id=name.split("."), **fields))
