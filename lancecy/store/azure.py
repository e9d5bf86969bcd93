"""Storage options of Azure Blob: connection strings taken apart, and made for endpoints other than Azure's own.

adlfs reaches an endpoint of one's own, such as an emulator, by a connection string
only, which is secret as a whole. A store keeps its parts instead: a pickle then loses
the key and not the endpoint, and two endpoints are told apart.
"""

from __future__ import annotations

import os
import time
from typing import Any
from urllib.parse import urlsplit

from lancecy.store.credentials import Options
from lancecy.store.retries import RetryPolicy, mark_tries

__all__ = ["for_adlfs", "in_parts", "use_policy"]

_USUAL = "core.windows.net"
# The emulator's own login, printed in its documentation and the same everywhere.
_EMULATED = "devstoreaccount1"
_EMULATED_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_TOKENS = ("credential", "client_id")


def in_parts(options: Options) -> dict[str, Any]:
    """The options with a connection string, or the choice of the emulator, replaced by what it says.

    Parameters
    ----------
    options : mapping
        By adlfs's names; ``emulator`` is true or absent.

    Examples
    --------
    >>> in_parts({"connection_string": "AccountName=a;AccountKey=k=;BlobEndpoint=http://h/a"})
    {'account_name': 'a', 'account_key': 'k=', 'endpoint': 'http://h/a'}
    """
    rest = dict(options)
    text = rest.pop("connection_string", None)
    if rest.pop("emulator", False) or (text and "usedevelopmentstorage=true" in text.lower()):
        host = os.environ.get("AZURITE_BLOB_STORAGE_URL", "http://127.0.0.1:10000").rstrip("/")
        login = {"account_name": _EMULATED, "account_key": _EMULATED_KEY}
        return {**login, "endpoint": f"{host}/{_EMULATED}", **rest}
    return {**_said_by(text), **rest} if text else rest


def _said_by(text: str) -> dict[str, str]:
    pairs = (item.strip().partition("=") for item in text.split(";"))
    said = {name.lower(): value for name, equals, value in pairs if equals}
    suffix, account = said.get("endpointsuffix", _USUAL), said.get("accountname", "")
    endpoint = said.get("blobendpoint", "")
    if not endpoint and account and suffix != _USUAL:
        endpoint = f"{said.get('defaultendpointsprotocol', 'https')}://{account}.blob.{suffix}"
    found = {
        "account_name": account,
        "account_key": said.get("accountkey", ""),
        "sas_token": said.get("sharedaccesssignature", ""),
        "endpoint": endpoint.rstrip("/"),
    }
    return {name: value for name, value in found.items() if value}


def for_adlfs(options: Options) -> dict[str, Any]:
    """The options as adlfs takes them: those of :func:`in_parts` with an endpoint as a connection string.

    A key and a token are looked for in the environment if the options have neither, as a key of the environment may
    do more than the token. adlfs by itself prefers a key or a connection string of the environment to a token.

    Parameters
    ----------
    options : mapping

    Examples
    --------
    >>> for_adlfs({"account_name": "a", "account_key": "k", "endpoint": "http://h/a"})
    {'account_name': 'a', 'connection_string': 'BlobEndpoint=http://h/a;AccountName=a;AccountKey=k'}
    """
    rest = dict(options)
    endpoint = rest.pop("endpoint", None)
    if not endpoint and rest.get("sas_token") and not _others(rest):
        endpoint = f"https://{rest.get('account_name')}.blob.core.windows.net"
    if not endpoint:
        return rest
    if any(rest.get(name) for name in _TOKENS):
        return {**rest, "account_host": urlsplit(endpoint).netloc + urlsplit(endpoint).path}
    given = {name: rest.pop(name, None) for name in ("account_key", "sas_token")}
    login = given if any(given.values()) else {name: _environment(name) for name in given}
    login = {} if rest.get("anon") else login
    said = {
        "BlobEndpoint": endpoint,
        "AccountName": rest.get("account_name"),
        "AccountKey": login.get("account_key"),
        "SharedAccessSignature": str(login.get("sas_token") or "").lstrip("?"),
    }
    text = ";".join(f"{name}={value}" for name, value in said.items() if value)
    return {**rest, "connection_string": text}


def _others(options: Options) -> bool:
    """Whether options have a login besides a token, or no account of Azure to use the token for."""
    names = ("account_key", "connection_string", "account_host", "anon", *_TOKENS)
    return not options.get("account_name") or any(options.get(name) for name in names)


def _environment(name: str) -> str | None:
    return os.environ.get(f"AZURE_STORAGE_{name.upper()}")


def use_policy(fs: Any, policy: RetryPolicy) -> None:
    """Let the requests of a file system of adlfs be made again by a policy, and its time-outs hold for all of them.

    Azure's own client waits 15 s before it makes any request again; adlfs passes time-outs only to reads and writes.

    Parameters
    ----------
    fs : adlfs.AzureBlobFileSystem
    policy : RetryPolicy
    """
    if getattr(fs, "makes_tries", False):
        return  # fsspec has given out the same file system before
    client = fs.service_client
    retries = client._config.retry_policy
    count = retries.increment

    def increment(settings: dict[str, Any], request: Any, response: Any = None, error: Any = None) -> bool:
        """Whether there is another try."""
        began = settings.setdefault("lancecy_began", time.monotonic())
        tries = settings["count"] + 1
        pause = policy.pause(tries, time.monotonic() - began)
        settings["lancecy_pause"] = pause or 0.0
        if count(settings, request, response=response, error=error) and pause is not None:
            return True
        for ended in (response, error):
            if ended is not None:
                mark_tries(ended, tries)
        return False

    retries.increment = increment
    retries.get_backoff_time = lambda settings: settings["lancecy_pause"]
    for kind in ("total", "connect", "read", "status"):
        setattr(retries, f"{kind}_retries", policy.retries)
    waits = client._pipeline._transport.connection_config
    given = fs._timeout_kwargs
    waits.timeout = given.get("connection_timeout", waits.timeout)
    waits.read_timeout = given.get("read_timeout", waits.read_timeout)
    fs.makes_tries = True
