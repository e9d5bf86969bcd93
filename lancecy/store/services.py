"""Tells which places belong to one storage service, under the same storage options.

A base path of a table may be read with the options of the table's root if both are served by the
same party. What that means differs by scheme:

==================================  =====================================================================
scheme                              one service
==================================  =====================================================================
plain paths, ``file``               the machine
``memory``                          the process
``s3`` (``s3a``, ``s3n``), ``gs``,  all buckets: the endpoint follows from the options, not from the URI.
``oss``, ``cos``, ``obs``, ``tos``  The ARN of an access point chooses an endpoint: each is a separate service
``az``, ``abfs``, ``abfss``         all containers of one storage account
``http``, ``https``, ``webdav``,    one host with its port; ``ssh`` is ``sftp``
``ftp``, ``sftp``, ``smb``,
``hdfs``, ``webhdfs``, ``adl``
any other                           none: every place is a separate service
==================================  =====================================================================

A signed request shows the service the name of the key, a session token and a signature for this
request. A bearer token of Google goes to Google whichever bucket is named. The owner of a bucket
learns from access logs who asked, and never a secret.
"""

from __future__ import annotations

import re

from lancecy.store.credentials import Options
from lancecy.store.option_names import for_fsspec
from lancecy.store.uri import scheme_of

__all__ = ["same_service"]

_BUCKETS = frozenset({"s3", "gs", "oss", "cos", "obs", "tos"})
_ACCOUNTS = frozenset({"az", "abfs", "abfss"})
_SERVERS = frozenset({"http", "https", "webdav", "ftp", "sftp", "ssh", "smb", "hdfs", "webhdfs", "adl"})
# Anything else in place of a bucket, such as the ARN of an access point, may choose the endpoint.
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._\-]*").fullmatch
_AZURE_HOST = re.compile(r"([a-z0-9]+)\.(?:dfs|blob)\.core\.windows\.net").fullmatch


def same_service(uri: str, root: str, options: Options) -> bool:
    """Whether one service serves a place and a root, so that the root's options may be used for the place.

    Parameters
    ----------
    uri, root : str
        Canonical URIs.
    options : mapping
        Storage options of the root.

    Returns
    -------
    bool
        False if unknown.

    Examples
    --------
    >>> same_service("s3://bucket-2/x", "s3://bucket-1/t", {}), same_service("gs://b/x", "s3://b/t", {})
    (True, False)
    >>> here = "abfss://c@one.dfs.core.windows.net/t"
    >>> same_service("az://other/x", here, {"account_name": "one"}), same_service("az://other/x", here, {})
    (True, False)
    """
    asked = _service(uri, options)
    return asked is not None and asked == _service(root, options)


def _service(uri: str, options: Options) -> tuple[str, ...] | None:
    """A value that is equal for places of one service; None if the service is unknown."""
    scheme = scheme_of(uri)
    if scheme in ("file", "memory"):
        return (scheme,)
    host = uri.partition("://")[2].partition("/")[0]
    if not host:
        return None
    if scheme in _BUCKETS:
        return (scheme,) if _BUCKET(host) else (scheme, host)
    if scheme in _ACCOUNTS:
        return ("azure", _account(scheme, host, options))
    return ("sftp" if scheme == "ssh" else scheme, host.lower()) if scheme in _SERVERS else None


def _account(scheme: str, host: str, options: Options) -> str:
    """Storage account of a place, or its host in another cloud; "" if the options do not say."""
    _, at, server = host.rpartition("@")
    found = _AZURE_HOST(server.lower())
    if found is not None:
        return found[1]
    return server.lower() if at else str(for_fsspec(scheme, options).get("account_name") or "").lower()
