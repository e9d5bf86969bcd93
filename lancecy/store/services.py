"""Storage options of services: which places share them, and their names in fsspec.

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

fsspec's own names of options stay unchanged, and win where pylance's are given too.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

from lancecy.errors import UnsupportedError
from lancecy.store.azure import in_parts
from lancecy.store.credentials import Options
from lancecy.store.key_values.ddb_uri import data_uri
from lancecy.store.retries import seconds
from lancecy.store.uri import scheme_of

__all__ = ["S3_NAMES", "for_fsspec", "same_service"]


# Without the optional prefixes aws_, google_ and azure_.
_S3 = {
    "access_key_id": "key",
    "secret_access_key": "secret",
    "session_token": "token",
    "endpoint": "endpoint_url",
    "endpoint_url": "endpoint_url",
    "skip_signature": "anon",
}
_GS = {
    "service_account": "token",
    "service_account_path": "token",
    "service_account_key": "token",
    "application_credentials": "token",
    "storage_token": "token",
    "skip_signature": "anon",
    "base_url": "endpoint_url",
}
_AZURE = {
    "account_name": "account_name",
    "account_key": "account_key",
    "access_key": "account_key",
    "master_key": "account_key",
    "sas_token": "sas_token",
    "sas_key": "sas_token",
    "client_id": "client_id",
    "client_secret": "client_secret",
    "tenant_id": "tenant_id",
    "authority_id": "tenant_id",
    "endpoint": "endpoint",
    "use_emulator": "emulator",
    "skip_signature": "anon",
}
_REGION = frozenset({"region", "default_region"})
# The endpoint's address already says whether it is http.
_NEEDLESS = frozenset({"allow_http", "virtual_hosted_style_request"})
# For the key-value store of manifests.
_OF_MANIFESTS = frozenset({"dynamodb_endpoint", "dynamodb_endpoint_url"})
# How S3 encrypts what is written, as its API names it.
_ENCRYPTION = {
    "server_side_encryption": "ServerSideEncryption",
    "sse_kms_key_id": "SSEKMSKeyId",
    "sse_bucket_key_enabled": "BucketKeyEnabled",
}
S3_NAMES = frozenset({*_S3, *_REGION, *_ENCRYPTION})
"""Names of options of S3 that pylance knows, without the optional prefix."""
_FLAGS = frozenset({"anon", "emulator"})
_PROVIDER = "credentials_provider"
# Time-outs: how long to wait for a connection, and for the next bytes of an answer.
_TIMEOUTS = {
    "connect_timeout": "connect_timeout",
    "timeout": "read_timeout",
    "request_timeout": "read_timeout",
}
# Names of them at Google and Azure, where ``timeout`` is an option of the file systems themselves.
_GS_TIMEOUTS = {"connect_timeout": "connect_timeout", "request_timeout": "read_timeout"}
_AZURE_TIMEOUTS = {"connect_timeout": "connection_timeout", "request_timeout": "read_timeout"}
_TRUE = frozenset({"true", "1", "yes", "on"})


def for_fsspec(scheme: str, options: Options) -> dict[str, Any]:
    """The options as a file system of fsspec takes them.

    Parameters
    ----------
    scheme : str
        Of a canonical URI; options of schemes other than S3, Google and Azure stay unchanged.
    options : mapping

    Examples
    --------
    >>> for_fsspec("s3", {"aws_access_key_id": "AK", "AWS_REGION": "eu-1", "allow_http": "true"})
    {'key': 'AK', 'client_kwargs': {'region_name': 'eu-1'}}
    """
    if scheme == "s3":
        return _for_s3(options)
    if _PROVIDER in options:
        raise UnsupportedError(
            f"{_PROVIDER} is for s3://; give gs:// a token, and az:// a credential, that renews itself",
            feature=_PROVIDER,
        )
    if scheme == "gs":
        return _for_google(options)
    return _for_azure(options) if scheme in _ACCOUNTS else dict(options)


def _renamed(options: Options, names: dict[str, str], *prefixes: str) -> dict[str, Any]:
    found = {str(name): value for name, value in options.items()}
    for name in list(found):
        bare = name.lower()
        for prefix in prefixes:
            bare = bare.removeprefix(prefix)
        ours = names.get(bare)
        if ours is not None and ours != name:
            value = found.pop(name)
            found.setdefault(ours, value)
    for name in _FLAGS.intersection(found):
        if isinstance(found[name], str):
            found[name] = found[name].lower() in _TRUE
    return found


def _with_timeouts(options: Options, names: dict[str, str], prefix: str) -> dict[str, Any]:
    """The options with pylance's time-outs as numbers under a file system's own names."""
    found = {str(name): value for name, value in options.items()}
    for name in list(found):
        ours = names.get(name.lower().removeprefix(prefix))
        if ours is not None:
            found.setdefault(ours, seconds(name, found.pop(name)))
    return found


def _for_google(options: Options) -> dict[str, Any]:
    found = _renamed(_with_timeouts(options, _GS_TIMEOUTS, "google_"), _GS, "google_")
    if found.pop("anon", False):
        found["token"] = "anon"  # noqa: S105 - the name of a method
    key = found.get("token")
    if isinstance(key, str) and key.lstrip().startswith("{"):
        with suppress(ValueError):  # refused when the store is opened
            found["token"] = key = json.loads(key)
    if isinstance(key, dict) and key.get("gcs_base_url"):  # a service account of an emulator
        found.setdefault("endpoint_url", key["gcs_base_url"])
        found["token"] = "anon" if key.get("disable_oauth") else key
    return {name: value for name, value in found.items() if name not in _NEEDLESS}


def _for_azure(options: Options) -> dict[str, Any]:
    given = _with_timeouts(options, _AZURE_TIMEOUTS, "azure_")
    found = in_parts(_renamed(given, _AZURE, "azure_", "storage_"))
    return {name: value for name, value in found.items() if name not in _NEEDLESS}


def _for_s3(options: Options) -> dict[str, Any]:
    found = _renamed(options, _S3, "aws_")
    for name in list(found):
        bare = name.lower().removeprefix("aws_")
        if bare in _NEEDLESS or bare in _OF_MANIFESTS:
            del found[name]
        elif bare in _REGION:
            _put_inside(found, "client_kwargs", "region_name", found.pop(name))
        elif bare in _ENCRYPTION:
            value = found.pop(name)
            value = str(value).lower() in _TRUE if bare == "sse_bucket_key_enabled" else value
            _put_inside(found, "s3_additional_kwargs", _ENCRYPTION[bare], value)
        elif bare in _TIMEOUTS:
            _put_inside(found, "config_kwargs", _TIMEOUTS[bare], seconds(name, found.pop(name)))
    return found


def _put_inside(options: dict[str, Any], group: str, name: str, value: object) -> None:
    """Put an option into a group of s3fs's; what the group has already wins."""
    options[group] = {name: value, **(options.get(group) or {})}


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
    uri = data_uri(uri)
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
