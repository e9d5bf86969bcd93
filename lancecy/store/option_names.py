"""Translates pylance's names of storage options to those of fsspec's file systems.

fsspec's own names stay unchanged, and win where both are given.
"""

from __future__ import annotations

from typing import Any

from lancecy.store.credentials import Options

__all__ = ["for_fsspec"]

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
    "application_credentials": "token",
}
_AZURE = {
    "storage_account_name": "account_name",
    "storage_account_key": "account_key",
    "storage_sas_token": "sas_token",
    "storage_client_id": "client_id",
    "storage_client_secret": "client_secret",
    "storage_tenant_id": "tenant_id",
}
_REGION = frozenset({"region", "default_region"})
# The endpoint's address already says whether it is http.
_NEEDLESS = frozenset({"allow_http", "virtual_hosted_style_request"})
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
    if scheme == "gs":
        return _renamed(options, _GS, "google_")
    return _renamed(options, _AZURE, "azure_") if scheme in ("az", "abfs", "abfss") else dict(options)


def _renamed(options: Options, names: dict[str, str], prefix: str) -> dict[str, Any]:
    found = {str(name): value for name, value in options.items()}
    for name in list(found):
        ours = names.get(name.lower().removeprefix(prefix))
        if ours is not None and ours != name:
            value = found.pop(name)
            found.setdefault(ours, value)
    return found


def _for_s3(options: Options) -> dict[str, Any]:
    found = _renamed(options, _S3, "aws_")
    if isinstance(found.get("anon"), str):
        found["anon"] = found["anon"].lower() in _TRUE
    for name in list(found):
        bare = name.lower().removeprefix("aws_")
        if bare in _NEEDLESS:
            del found[name]
        elif bare in _REGION:
            client = {"region_name": found.pop(name), **(found.get("client_kwargs") or {})}
            found["client_kwargs"] = client
    return found
