"""Which storage options are secret, and where they may be used.

Options hold passwords and tokens. They are kept out of URIs, messages, ``repr``
and pickles, and are remembered, for this process only, under the root they were
given for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias
from urllib.parse import quote

__all__ = [
    "CredentialMemory",
    "Options",
    "freeze",
    "has_login",
    "has_secrets",
    "in_query",
    "redact",
    "secret_texts",
    "without_login",
]

Options: TypeAlias = Mapping[str, Any]

# Matched against the name in lower case without punctuation.
_SECRET = re.compile(
    r"secret|token|passw|passphrase|credential|accountkey|accesskey|privatekey|apikey|sharedkey|customerkey|"
    r"connectionstring|connstr|authorization|cookie|signature|bearer|jwt|^sas|sas$|saskey|"
    r"key(base64|content|data|json|pem)?$|auth$|^(pass|pat|pwd|pw)$"
)
# Any header may carry a token, under any name, except these.
_PLAIN_HEADERS = frozenset({"accept", "acceptencoding", "acceptlanguage", "contenttype", "useragent"})
# Names of authentication methods, which gcsfs takes in place of a token.
_METHODS = frozenset({"anon", "cloud", "google_default", "browser", "cache"})
# Options that choose a login, or none: not secret, but never combined with the secrets of another login.
_LOGIN = frozenset(
    {
        "anon",
        "skipsignature",
        "awsskipsignature",
        "googleskipsignature",
        "azureskipsignature",
        "profile",
        "awsprofile",
    }
    | {"useemulator", "azureuseemulator", "storageuseemulator", "azurestorageuseemulator"}
)
# What a key of Google says of itself: secret as little as the names of the options in which it is.
_KEY_TYPES = frozenset({"authorized_user", "external_account", "service_account"})
_IN_URL = re.compile(r"(?<=://)[^/@\s:]*:[^/@\s]*@|(?<=http://)[^/@\s]*@|(?<=https://)[^/@\s]*@")
_PASSWORD = re.compile(r"(?<=://)([^/@\s:]*):[^/@\s]*@")
_IN_TEXT = re.compile(
    r"\b(?:sig|AccountKey|SharedAccessSignature|[\w-]{0,40}(?:signature|token|secret|password|api[-_]?key))=([^&;\s]+)",
    re.IGNORECASE,
)
# Options that say how a table is committed. Their objects travel, and keep their own secrets.
_COMMITTING = frozenset({"manifest_store", "commit_lock"})
_DROPPED: Any = object()


def redact(options: Options | None) -> dict[str, Any]:
    """A copy of storage options that is safe to show, pickle and send.

    Parameters
    ----------
    options : mapping or None
        As for Dask and pandas.

    Returns
    -------
    dict
        Without secret entries, nested ones included, and without values that are not plain data. A manifest store and a
        commit lock stay: they pickle without their secrets, or not at all.

    Examples
    --------
    >>> redact({"anon": False, "key": "AK", "client_kwargs": {"endpoint_url": "http://h", "aws_session_token": "t"}})
    {'anon': False, 'client_kwargs': {'endpoint_url': 'http://h'}}
    """
    cleaned: dict[str, Any] = _clean(dict(options or {}), [])
    return cleaned


def has_secrets(options: Options | None) -> bool:
    """Whether :func:`redact` would take anything out of the options.

    Examples
    --------
    >>> has_secrets({"anon": True}), has_secrets({"token": "abc"})
    (False, True)
    """
    removed: list[object] = []
    _clean(dict(options or {}), removed)
    return bool(removed)


def has_login(options: Options) -> bool:
    """Whether the options choose a login: by secrets, a profile, or anonymous access.

    Examples
    --------
    >>> has_login({"profile": "work"}), has_login({"anon": True}), has_login({"region": "eu-1"})
    (True, True, False)
    """
    return has_secrets(options) or not _LOGIN.isdisjoint(map(_bare, options))


def without_login(options: Options) -> dict[str, Any]:
    """A copy of storage options without everything that chooses a login.

    Examples
    --------
    >>> without_login({"anon": True, "profile": "work", "key": "AK", "endpoint_url": "http://h"})
    {'endpoint_url': 'http://h'}
    """
    return {name: value for name, value in redact(options).items() if _bare(name) not in _LOGIN}


def secret_texts(options: Options | None) -> frozenset[str]:
    """The secret strings in the options, to be masked in messages."""
    found = {text for text in _secrets(dict(options or {}), False) if len(text) >= 4} - _KEY_TYPES
    # Clients quote addresses, in which a token is encoded.
    return frozenset([*found, *(quote(text, safe="", errors="replace") for text in found)])


def freeze(value: object) -> object:
    """A hashable stand-in for storage options: equal for equal options."""
    if isinstance(value, Mapping):
        return frozenset((str(key), freeze(item)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return tuple(freeze(item) for item in value)
    try:
        hash(value)
    except TypeError:
        return id(value)
    return value


def in_query(text: str) -> bool:
    """Whether the query of a URI contains a signature or a token.

    Examples
    --------
    >>> in_query("az://c/x?sig=abc"), in_query("s3://b/what?")
    (True, False)
    """
    return any(text[found.start() - 1 : found.start()] in ("?", "&") for found in _IN_TEXT.finditer(text))


def _bare(name: str) -> str:
    """A name in the form that is matched, without the prefix of a base or replica ("base_1.replica_2.pwd")."""
    return re.sub(r"^(?:base_\d+\.)?(?:replica_\d+\.)?|[^a-z0-9]", "", name.lower())


def _is_headers(name: str) -> bool:
    return _bare(name).endswith(("header", "headers"))


def _is_secret(name: str, value: object, header: bool) -> bool:
    """Whether an entry is secret; ``header`` is true for an HTTP header."""
    if value is None or isinstance(value, bool) or value in ("", b""):
        return False
    if header:
        return _bare(name) not in _PLAIN_HEADERS
    if _is_headers(name):
        return isinstance(value, str | bytes)
    if isinstance(value, str) and value in _METHODS:
        return False
    return _SECRET.search(_bare(name)) is not None


def _is_pair(value: list[Any] | tuple[Any, ...]) -> bool:
    """Whether a sequence may be a name and its value: HTTP libraries accept headers in this form too."""
    return len(value) == 2 and isinstance(value[0], str)


def _clean(value: object, removed: list[object], header: bool = False) -> Any:
    """The value without what is secret or not plain data; each removed item is appended to ``removed``."""

    def entry(name: str, item: object) -> Any:
        if name in _COMMITTING:
            return _without_password(item) if _is_sendable(item) else _DROPPED
        if _is_secret(name, item, header):
            removed.append(name)
            return _DROPPED
        return _clean(item, removed, _is_headers(name))

    if isinstance(value, Mapping):
        kept = {str(name): entry(str(name), item) for name, item in value.items()}
        return {name: item for name, item in kept.items() if item is not _DROPPED}
    if isinstance(value, list | tuple):
        if _is_pair(value):
            second = entry(value[0], value[1])
            return _DROPPED if second is _DROPPED else type(value)((value[0], second))
        items = [item for item in (_clean(v, removed, header) for v in value) if item is not _DROPPED]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, str) and not header and not _IN_TEXT.search(value):
        bare = _IN_URL.sub("", value)
        removed.extend([] if bare == value else [bare])
        return bare
    if value is None or isinstance(value, bool | int | float):
        return value
    removed.append(type(value))
    return _DROPPED


def _without_password(committing: object) -> object:
    """A manifest store, its URL or a lock without the password; the user of a database is kept."""
    if isinstance(committing, str):
        return _PASSWORD.sub(r"\1@", committing)
    bare = getattr(committing, "without_secrets", None)
    return committing if bare is None else bare()


def _is_sendable(committing: object) -> bool:
    """Whether another process can have a manifest store, its URL or a lock: a store must say how it is sent."""
    if isinstance(committing, str):
        return not _IN_TEXT.search(committing)
    return callable(committing) or hasattr(committing, "without_secrets")


def _secrets(value: object, is_secret: bool, header: bool = False) -> Iterator[str]:
    if isinstance(value, list | tuple) and _is_pair(value):
        value = {value[0]: value[1]}
    if isinstance(value, Mapping):
        for name, item in value.items():
            secret = is_secret or _is_secret(str(name), item, header)
            yield from _secrets(item, secret, _is_headers(str(name)))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _secrets(item, is_secret, header)
    elif isinstance(value, bytes):
        yield from _secrets(value.decode("latin-1"), is_secret, header)
    elif isinstance(value, str):
        if is_secret or header:
            yield value
            # "Bearer abc": the part after the space is secret by itself.
            yield from value.split()[1:2]
        yield from _IN_TEXT.findall(value)
        for found in _IN_URL.findall(value):
            yield found[:-1].rpartition(":")[2]


class CredentialMemory:
    """The options given for each root in this process.

    Never pickled, never shown. A root finds the options given for itself or for the nearest folder above it in
    the same bucket or host, never those of another. Every change is one operation on a dictionary, so no lock is
    needed that a fork could leave locked.
    """

    def __init__(self) -> None:
        self._options: dict[str, dict[str, Any]] = {}

    def __repr__(self) -> str:
        return f"<CredentialMemory of {len(self._options)} roots>"

    def __reduce__(self) -> tuple[type[CredentialMemory], tuple[()]]:
        return CredentialMemory, ()

    def remember(self, uri: str, options: Options | None) -> None:
        """Keep the options under a canonical URI; None or empty options remove what was kept."""
        if options:
            self._options[uri] = dict(options)
        else:
            self._options.pop(uri, None)

    def find(self, uri: str) -> dict[str, Any]:
        """A copy of the options for a canonical URI; empty if none were given."""
        for root in _enclosing(uri):
            options = self._options.get(root)
            if options is not None:
                return dict(options)
        return {}


def _enclosing(uri: str) -> Iterator[str]:
    """The URI and the folders above it, up to the bucket or host."""
    scheme, separator, _ = uri.partition("://")
    start = len(scheme) + len(separator) if separator else 1
    yield uri
    end = uri.rfind("/", start)
    while end > 0:
        yield uri[:end]
        end = uri.rfind("/", start, end)
