"""Storage options under the names that pylance's stores know, for file systems of fsspec.

Whoever comes from pylance has them in code and configuration. The names of fsspec's file systems stay what they are, and
win where both are given.
"""

from __future__ import annotations

from typing import Any

from lancecy.store.credentials import Options

__all__ = ["for_fsspec"]

# Without the prefixes aws_, google_ and azure_, which may be there or not.
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
# Whether an endpoint may be one of http is said by its address.
_NEEDLESS = frozenset({"allow_http", "virtual_hosted_style_request"})
_TRUE = frozenset({"true", "1", "yes", "on"})


def for_fsspec(scheme: str, options: Options) -> dict[str, Any]:
    """The options as a file system of fsspec takes them.

    Parameters
    ----------
    scheme : str
        Of a canonical URI; options of others than S3, Google's and Azure's stay as they are.
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
