"""The namespace of a directory, with all operations."""

from __future__ import annotations

from lancecy.namespace.contents import Contents
from lancecy.namespace.migration import Migrations
from lancecy.namespace.namespaces import Namespaces

__all__ = ["DirectoryNamespace"]


class DirectoryNamespace(Namespaces, Contents, Migrations):
    """A namespace of tables in a directory of any store: V1 (directory listing), V2 (``__manifest``), or both.

    Operations take the requests of ``lance_namespace`` and return its responses; their errors have its codes, and the
    error of lancecy as cause.

    Parameters
    ----------
    session : Session, optional
        Caches and threads to use; the process default otherwise.
    **properties : str
        ``root``: a path or URI, which is needed. ``manifest_enabled`` ("true"): use ``__manifest``.
        ``dir_listing_enabled`` ("true"): directories ``<name>.lance`` of the root are tables too. ``storage.<name>``: a
        storage option. ``commit_retries`` ("20"): lost races of one change. ``vend_input_storage_options`` ("false"):
        answers have the storage options. ``table_version_tracking_enabled`` ("false"): answers say that versions are
        committed through the namespace. ``ops_metrics_enabled`` ("false"): ``retrieve_ops_metrics`` counts calls.

    Raises
    ------
    ValueError
        By ``lance_namespace.connect``: a property is not known or has another value.

    Examples
    --------
    >>> import lance_namespace, lancecy, pyarrow as pa, tempfile
    >>> from lance_namespace import CreateNamespaceRequest, ListNamespacesRequest
    >>> ns = lance_namespace.connect("lancecy.namespace.DirectoryNamespace", {"root": tempfile.mkdtemp()})
    >>> _ = ns.create_namespace(CreateNamespaceRequest(id=["sales"], properties={"owner": "me"}))
    >>> ns.list_namespaces(ListNamespacesRequest(id=[])).namespaces
    ['sales']
    """
