"""Opens stores by URI: schemes, canonical URIs, and credentials kept apart from both.

A plain path and ``file://`` open a local store; registered schemes come next;
everything else that fsspec knows goes through its adapter. Adapters are named by
dotted text and imported on first use; the error for a missing one says what to install.
"""

from __future__ import annotations

import base64
import importlib
import os
import re
from collections.abc import Iterator
from typing import Any, Protocol
from urllib.parse import unquote

from lancecy.errors import UnsupportedError, nearest, printable
from lancecy.store.base import Store
from lancecy.store.committing import commit_by, split_committing
from lancecy.store.credentials import Options, has_secrets, in_query, redact
from lancecy.store.key_values.ddb_uri import SCHEME, canonical_ddb

__all__ = [
    "Options",
    "StoreFactory",
    "canonical_uri",
    "has_secrets",
    "install_hint",
    "open_store",
    "redact",
    "register_store",
    "scheme_of",
    "split_credentials",
]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*)://").match
# One letter is a drive's.
_SHORT_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+):(?!//|:)").match
# As in fsspec, "::" makes a chain, unless it is part of a password.
_LOGIN = r"(?>(?:[^/:]*:(?!:)[^/]*@)?)"
_CHAIN = re.compile(rf"[A-Za-z][A-Za-z0-9+.\-]*(?:://{_LOGIN}.*?)?::", re.DOTALL).match
_LINK = re.compile(rf"((?:[A-Za-z][A-Za-z0-9+.\-]*://{_LOGIN})?.*?)(::|\Z)", re.DOTALL)
_SAME = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "local": "file", "file-object-store": "file"}
_PLACES = frozenset({"abfs", "abfss", "wasb", "wasbs", "github", "git"})
_EXTRAS = {"s3": "s3", "gs": "gcs", "abfs": "azure", "abfss": "azure", "az": "azure", SCHEME: "dynamodb"}
_HOST = re.compile(r"(?:\[[^\]]*\]|[^:]*)(?::\d*)?").fullmatch
_HAS_HOST = frozenset({"http", "https", "ftp", "sftp", "ssh", "smb", "webdav", "hdfs", "webhdfs"})
# Other names before a colon, such as fsspec's "data" and "dir", may well be those of a file.
_NEED_SLASHES = frozenset(
    {*_SAME, *_PLACES, *_EXTRAS, *_HAS_HOST, "file", "memory", "adl", "oss", "cos", "obs", "tos", "hf"}
)


class StoreFactory(Protocol):
    """The type of a function that opens the store of a URI, for :func:`register_store`."""

    def __call__(
        self, uri: str, options: Options | None, *, mapped: bool, follow_symlinks: bool
    ) -> Store: ...


_FACTORIES: dict[str, str | StoreFactory] = {
    "file": "lancecy.store.local:open_local",
    SCHEME: "lancecy.store.key_values.dynamodb:open_s3_ddb",
}
_FSSPEC = "lancecy.store.fsspec:open_fsspec"


def open_store(
    uri: str | os.PathLike[str],
    storage_options: Options | None = None,
    *,
    mapped: bool = True,
    follow_symlinks: bool = True,
) -> Store:
    """The store rooted at a path or URI.

    Parameters
    ----------
    uri : str or path
        Plain path (relative to the working directory), ``file://``, or any URL fsspec knows, chained
        ones included.
    storage_options : mapping, optional
        As for Dask and pandas; passed to the file system; secrets are never shown or pickled. ``manifest_store`` and
        ``commit_lock`` say how a table at the root is committed (``store.committing``).
    mapped : bool
        Whether local files may be memory-mapped.
    follow_symlinks : bool
        Whether symbolic links below a local root are followed.

    Returns
    -------
    Store
        Nothing has been read yet: a missing root raises later.

    Raises
    ------
    UnsupportedError
        No adapter for the scheme, or its package is not installed.
    ValueError
        Not the URI of a folder.

    Examples
    --------
    >>> open_store("/data/table").uri
    '/data/table'
    """
    canonical, found = split_credentials(uri)
    options, committing = split_committing({**found, **(storage_options or {})})
    factory = _factory(scheme_of(canonical))
    store = factory(canonical, options, mapped=mapped, follow_symlinks=follow_symlinks)
    return commit_by(store, options, **committing)


def canonical_uri(uri: str | os.PathLike[str]) -> str:
    """The canonical spelling of a place's URI, without credentials.

    Parameters
    ----------
    uri : str or path

    Returns
    -------
    str
        No trailing slash; scheme and host in lower case, the scheme under its usual name; plain paths and
        ``file://`` as an absolute, normalised path.

    Examples
    --------
    >>> canonical_uri("file:///data/x/../table/"), canonical_uri("s3a://bucket/table/")
    ('/data/table', 's3://bucket/table')
    """
    return split_credentials(uri)[0]


def split_credentials(uri: str | os.PathLike[str]) -> tuple[str, dict[str, Any]]:
    """The canonical URI, and its user and password as storage options.

    Examples
    --------
    >>> split_credentials("ftp://me:pw@host/dir/")
    ('ftp://host/dir', {'username': 'me', 'password': 'pw'})
    """
    text = os.fspath(uri) if isinstance(uri, os.PathLike) else uri
    if not isinstance(text, str):
        raise TypeError(
            f"a place is a path or a URL, not {type(uri).__name__}; a file system that is open already is given as "
            'storage_options={"fs": it, "path": a folder} of dir://'
        )
    if "\0" in text or not text:
        raise ValueError(f"{printable(text)!r} is not a path or URI")
    if _CHAIN(text):
        return _chain(text)
    text = _with_slashes(text)
    match = _SCHEME(text)
    if match is None:
        path = os.path.expanduser(text) if text[0] == "~" else text
        return _absolute(path), {}
    scheme = _SAME.get(match[1].lower(), match[1].lower())
    rest = text[match.end() :]
    return _file_path(rest) if scheme == "file" else _remote(scheme, rest)


def scheme_of(canonical: str) -> str:
    """The scheme of a canonical URI; "file" for a path, the outermost one of a chain."""
    if canonical[0] == "/":
        return "file"
    if _CHAIN(canonical):
        return re.split(r":(?://|:)", canonical, maxsplit=1)[0].lower()
    match = _SCHEME(canonical)
    return match[1] if match else "file"


def register_store(scheme: str, factory: str | StoreFactory) -> None:
    """Open URIs of a scheme with ``factory`` in this process, replacing the previous factory.

    Parameters
    ----------
    scheme : str
    factory : StoreFactory or str
        Called with the canonical URI and the options; a string "module:function" is imported on first use.
    """
    if not re.fullmatch(r"[a-z][a-z0-9+.\-]*", scheme):
        raise ValueError(f"{scheme!r} is not a scheme")
    _FACTORIES[scheme] = factory


def install_hint(scheme: str, error: ImportError) -> str:
    """What to install for a scheme whose package is missing."""
    extra = _EXTRAS.get(scheme)
    return f"pip install 'lancecy[{extra}]'" if extra else str(error)


def _factory(scheme: str) -> StoreFactory:
    factory = _FACTORIES.get(scheme)
    if factory is None:
        _check_known(scheme)
        factory = _FSSPEC
    if isinstance(factory, str):
        module, _, name = factory.partition(":")
        loaded: StoreFactory = getattr(importlib.import_module(module), name)
        _FACTORIES[scheme] = factory = loaded
    return factory


def _check_known(scheme: str) -> None:
    fsspec = importlib.import_module("fsspec")
    names = sorted({*fsspec.available_protocols(), *fsspec.registry, *_FACTORIES, *_SAME})
    if scheme not in names:
        # Names of schemes are short: foo shares half of its letters with root, and is no slip of the keyboard.
        close = nearest(scheme, [name for name in names if name[0] == scheme[0]])
        hint = f"; did you mean {', '.join(f'{name}://' for name in close)}?" if close else ""
        raise UnsupportedError(f"no store for {scheme}:// is known{hint}", feature=scheme)


def _with_slashes(text: str) -> str:
    """``file:/path`` as ``file:///path``, and ``memory:`` alike; refuses other URIs without ``//``, which would be local folders of that name."""
    match = _SHORT_SCHEME(text)
    scheme = match[1].lower() if match else ""
    if match is None or scheme not in _NEED_SLASHES:
        return text
    rest = text[match.end() :]
    if rest.startswith("/") and _SAME.get(scheme, scheme) in ("file", "memory"):
        return f"{scheme}://{rest}"
    # The rest may hold a password.
    start = text[: match.end() + rest.startswith("/")]
    slashes = "///" if _SAME.get(scheme, scheme) == "file" else "//"
    raise ValueError(f"{start}… is no URI: write {scheme}:{slashes}…, or ./{start}… for a local path")


def _file_path(rest: str) -> tuple[str, dict[str, Any]]:
    host, slash, path = rest.partition("/")
    if host not in ("", "localhost") or not slash:
        raise ValueError(f"file://{printable(rest)} names a host; write file:///path or the plain path")
    path = unquote(path)
    if "\0" in path:
        raise ValueError("a path cannot hold a NUL")
    return _absolute(f"/{path}"), {}


def _absolute(path: str) -> str:
    # In POSIX two leading slashes may mean something else, and abspath keeps them.
    return "/" + os.path.abspath(path).lstrip("/")


def _chain(text: str) -> tuple[str, dict[str, Any]]:
    links = []
    options: dict[str, Any] = {}
    for link in _links(text):
        match = _SCHEME(link)
        rest, found = _without_login(match[1], link[match.end() :]) if match else (link, {})
        if found and match:
            options[match[1]] = found
            # Keeps its last slash: without it a later "@" could be read as the end of this link's login.
            link = f"{match[1]}://{rest}"
        links.append(link)
    return _strip_slashes("::".join(links)), options


def _links(text: str) -> Iterator[str]:
    for found in _LINK.finditer(text):
        yield found[1]
        if not found[2]:
            return


def _remote(scheme: str, rest: str) -> tuple[str, dict[str, Any]]:
    if scheme == SCHEME:
        rest, login = canonical_ddb(rest)
        return f"{scheme}://{rest}", _split_user("s3", f"{login}@")[1] if login else {}
    rest, options = _without_login(scheme, rest)
    if scheme == "memory":
        return f"memory://{rest.strip('/')}", options
    host, slash, path = rest.partition("/")
    host = host.lower() if scheme in _HAS_HOST else host
    return f"{scheme}://{_strip_slashes(host + slash + path)}", options


def _without_login(scheme: str, rest: str) -> tuple[str, dict[str, Any]]:
    if scheme == "memory":  # fsspec sees no host in it
        return rest, {}
    if scheme in ("http", "https") and ("?" in rest or "#" in rest):
        raise ValueError(f"a {scheme} URL with a query or fragment cannot be a folder")
    if in_query(rest):
        raise ValueError(
            f"a {scheme} URI with a signature or a token in it cannot be a folder; give it in storage_options"
        )
    host, slash, path = rest.partition("/")
    host, options = _split_user(scheme, host)
    if scheme in _HAS_HOST and "@" in path and not _HOST(host):
        raise ValueError(
            f"the host of a {scheme} URL cannot be distinguished from its login; write / in a password as %2F"
        )
    return host + slash + path, options


def _split_user(scheme: str, host: str) -> tuple[str, dict[str, Any]]:
    user, at, bare = host.rpartition("@")
    # abfs://container@account and github://owner:repository@branch name places, not users.
    is_login = at and scheme not in _PLACES and (":" in user or scheme in _HAS_HOST or scheme == "s3")
    if not is_login:
        return host, {}
    names = ("key", "secret") if scheme == "s3" else ("username", "password")
    pairs = zip(names, map(unquote, user.partition(":")[::2]), strict=True)
    login = {name: value for name, value in pairs if value}
    return bare, _basic(**login) if login and scheme in ("http", "https") else login


def _basic(username: str = "", password: str = "") -> dict[str, Any]:
    """A login in the form of fsspec's HTTP file system."""
    said = base64.b64encode(f"{username}:{password}".encode(errors="surrogateescape")).decode()
    return {"client_kwargs": {"headers": {"Authorization": f"Basic {said}"}}}


def _strip_slashes(text: str) -> str:
    return text if text.endswith("://") else text.rstrip("/")
