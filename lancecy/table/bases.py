"""Resolves files named in a manifest to stores and paths.

A file without ``base_id`` is below the dataset root, and one with it is below that base. A base that is a
dataset root has the folders ``data/`` and ``_deletions/``; any other base holds the files directly.

The policy, checked before anything is opened:

- File names are one segment each (``paths.check_name``). Bases are absolute: a path from ``/`` or a
  URI, without ``..``, credentials, queries or chained schemes. A relative path is read from the working
  directory, as pylance reads it, for trusted local tables only and with a warning.
- The manifest must have the feature flag for bases, which every writer of bases sets.
- The root itself and everything below it is always allowed; for a branch also the main table above it.
- A base from which everything is gone is read from the table's own main root, if that has the file (``homes``).
- Trusted tables (the default): the root's own service (``store.services``) is allowed, such as other buckets
  of S3 at the same endpoint. Another scheme, host, endpoint or Azure account needs a grant:
  ``allowed_bases=[prefix, …]``, or storage options ``base_<id>.<key>``. So does every remote base of a local
  table: the environment's credentials are never used for a place that only a manifest names.
- ``untrusted=True``: outside the root only ``allowed_bases`` are allowed.
- Replicas: places that the user names are allowed. Those that a configuration names are under the same policy as bases, and
  not used if it refuses them.
- Storage options: those of the root, if the service or the scheme is the same, overridden by ``base_<id>.<key>``.
  If the latter contain a login, no login option of the root is used.

Facts: storage layout specification, "Base Path System"; table sheet, sections 2 and 7.
"""

from __future__ import annotations

import re
import uuid
from contextlib import suppress
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote

from lancecy.errors import (
    DatasetNotFoundError,
    FormatError,
    PathPolicyError,
    UnsupportedError,
    printable,
    warn,
)
from lancecy.session import Session
from lancecy.store.base import Store
from lancecy.store.credentials import freeze, has_login, without_login
from lancecy.store.key_values.ddb_uri import SCHEME, data_uri
from lancecy.store.replicas import Place, ReplicatedStore
from lancecy.store.services import same_service
from lancecy.store.uri import canonical_uri, scheme_of, split_credentials
from lancecy.table import flags
from lancecy.table.homes import GONE, REFUSED, Home, MovableStore, is_gone
from lancecy.table.location import TableLocation
from lancecy.table.manifest import BasePath, BasePaths, DataFile, DeletionFile, ExternalFile, Fragment
from lancecy.table.paths import (
    DATA,
    DELETIONS,
    INDICES,
    check_name,
    check_relative,
    check_text,
)

__all__ = ["Bases", "canonical_base", "spelling"]

_IN_PATHS = "/!$&'()*+,;=:@"
"""Characters that stay as they are in the paths of URIs, beside letters and digits."""
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://")


class Bases:
    """Resolver for the files of a version.

    Parameters
    ----------
    root : Store
        Rooted at the dataset.
    location : TableLocation
        Trust in the paths, and the storage options.
    bases : BasePaths
        Bases of the version.
    session : Session
        Opens the stores of other bases.

    Notes
    -----
    Makes no request itself. Thread-safe: resolved stores are kept, and resolving twice is harmless.
    """

    def __init__(self, root: Store, location: TableLocation, bases: BasePaths, session: Session) -> None:
        self._root = root
        self._location = location
        self._bases = bases
        self._session = session
        self._home = Home(root, location, session, bases.branch)
        self._places: dict[int, tuple[Store, str]] = {}
        self._uris: dict[int, str] = {}
        self._settled: set[int | None] = {None}
        self._moved: dict[int, str] = {}
        self._replicated: dict[int | None, Store] = {}

    def __repr__(self) -> str:
        return f"<Bases of {self._root.uri}: {sorted(self._bases.by_id)}>"

    @property
    def root(self) -> Store:
        """The store of the table's own folder."""
        return self._root

    def data(self, file: DataFile) -> tuple[Store, str]:
        """Store of a data file and its path there.

        Raises
        ------
        PathPolicyError
            The table may not read the place of the name or the base.
        FormatError
            The manifest has no base with that id.
        UnsupportedError
            No store for the base's scheme.
        """
        name = check_name(file.path, "name of a data file")
        store, path = self._file(file.base_id, DATA, name)
        if isinstance(store, ReplicatedStore) and file.size and not file.is_legacy:
            store.expect(path, file.size)
        return store, path

    def deletion(self, fragment_id: int, file: DeletionFile) -> tuple[Store, str]:
        """Store of a fragment's deletion file and its path there (raises as :meth:`data`)."""
        name = file.name(fragment_id & 0xFFFFFFFF)
        return self._file(file.base_id, DELETIONS, name)

    def index(self, base_id: int | None, number: uuid.UUID, name: str) -> tuple[Store, str]:
        """Store of a file of an index and its path there (raises as :meth:`data`).

        Parameters
        ----------
        base_id : int or None
            None is the table's own folder.
        number : uuid.UUID
            Of the segment.
        name : str
            One segment of a path.
        """
        return self._file(base_id, INDICES, f"{number}/{check_name(name, 'name of a file of an index')}")

    def external(self, file: ExternalFile) -> tuple[Store, str]:
        """Store of a file addressed from the dataset root and its path there (raises as :meth:`data`)."""
        return self._root, check_relative(file.path, "path of an external file")

    def folder(self, base_id: int | None, kind: str) -> tuple[Store, str]:
        """Store of a base and the prefix of its file names of one kind, "" or ending in a slash.

        Parameters
        ----------
        base_id : int or None
            None is the table's own folder.
        kind : str
            ``paths.DATA``, ``paths.DELETIONS`` or ``paths.INDICES``.

        Raises
        ------
        PathPolicyError, FormatError, UnsupportedError
            As :meth:`data`.
        """
        if base_id is None:
            return self._root, f"{kind}/"
        store, prefix = self._place_once(base_id)
        return store, f"{prefix}{kind}/" if self._bases.by_id[base_id].is_dataset_root else prefix

    def moved_to(self, fragment: Fragment, file: DataFile | DeletionFile) -> str | None:
        """The place to which the base of a file moved with the table, None if it is in its recorded place.

        Parameters
        ----------
        fragment : Fragment
        file : DataFile or DeletionFile

        Raises
        ------
        PathPolicyError, FormatError, UnsupportedError, StoreError
            As :meth:`data`; or the place cannot be looked at.
        """
        base = None if file.base_id is None else self._bases.by_id.get(file.base_id)
        if base is None or not self._home.may_have(base):
            return None
        if isinstance(file, DataFile):
            store, path = self.data(file)
        else:
            store, path = self.deletion(fragment.stored_id, file)
        if isinstance(store, MovableStore):
            with suppress(DatasetNotFoundError):
                store.head(path)
            return store.moved_to
        return self._moved.get(base.id)

    def recorded(self, base_id: int) -> tuple[Store, str]:
        """Store of the recorded place of a base and the folder there, "" for its root (raises as :meth:`data`)."""
        store, prefix = self._place(base_id)
        return store, prefix.removesuffix("/")

    def blob(self, base_id: int, uri: str) -> tuple[Store, str]:
        """Store of the object that holds a blob, and its path there.

        Parameters
        ----------
        base_id : int
            Not 0: ``uri`` is a path from the folder of that base, for either kind of base.
            0: ``uri`` is an absolute path or URI, under the same policy as bases.

        Raises
        ------
        PathPolicyError, FormatError, UnsupportedError
            As :meth:`data`.
        """
        if base_id:
            path = check_relative(uri, "path of a blob")
            self._settle(base_id, path)
            store, prefix = self._place_once(base_id)
            return store, prefix + path
        folder, name = _object(uri)
        store, prefix = self._named("the folder of a blob", folder)
        return store, prefix + name

    def blob_place(self, uri: str) -> tuple[int, str]:
        """How a descriptor names the object at a URI: the inverse of :meth:`blob`.

        Parameters
        ----------
        uri : str
            Absolute path or URI.

        Returns
        -------
        (base_id, path)
            A path from the folder of the innermost base that the object is in; bases that are tables do not count. 0 and
            an absolute URI if there is none.

        Raises
        ------
        PathPolicyError
            The URI does not name an object.
        """
        folder, name = _object(uri)
        place = f"{folder.rstrip('/')}/{name}"
        found: list[tuple[int, int, str]] = []
        for number, base in self._bases.by_id.items():
            path = None if base.is_dataset_root else _below(place, self._uri(base))
            if path:
                found.append((len(path), number, path))
        if found:
            _, number, path = min(found)
            return number, path
        if scheme_of(place) in ("http", "https"):
            return 0, uri
        scheme, mark, path = place.rpartition("://")
        return 0, f"{scheme or 'file'}{mark or '://'}{quote(path, _IN_PATHS)}"

    def table(self, uri: str) -> tuple[Store, str]:
        """Store of another table that this one names, and the prefix of its paths (raises as :meth:`data`)."""
        return self._named("a user", _canonical(uri, "place of a user"))

    def replicas(self, base_id: int | None) -> list[str]:
        """Canonical places that hold copies of the files of a base by the user, or else by the configuration, nearest first.

        Parameters
        ----------
        base_id : int or None
            None is the table's own folder.
        """
        names = self._names(base_id)
        for named in (dict(self._location.replicas), self._bases.replicas):
            for name in names:
                if name in named:
                    return [_canonical(place, "place of a replica") for place in named[name]]
        return []

    def replica(self, base_id: int | None, number: int, uri: str, kind: str) -> tuple[Place, str]:
        """One of the replicas of a base, and the prefix there of its file names of one kind, as of :meth:`folder`.

        Parameters
        ----------
        base_id : int or None
        number : int
            Position among :meth:`replicas`, from 1 on.
        uri : str
            Its place.
        kind : str

        Raises
        ------
        PathPolicyError, FormatError, UnsupportedError
            As :meth:`data`.
        """
        own = self._location.replica_options(base_id, number)
        if not any(uri in places for _, places in self._location.replicas):
            self._check_granted(f"replica {number} of {self.described(base_id)}", uri, None, bool(own))
        options = self._options(uri, own)
        is_root = base_id is None or self._bases.by_id[base_id].is_dataset_root
        place = Place((uri, freeze(options)), self._location.open_other(self._session, uri, options))
        return place, f"{kind}/" if is_root else ""

    @property
    def known_names(self) -> dict[str, int | None]:
        """All names of bases in ``replicas``: names, ids, paths; "" and its URI for the table's own folder."""
        numbers: list[int | None] = [*self._bases.by_id, None]
        return {name: number for number in reversed(numbers) for name in self._names(number)}

    def described(self, base_id: int | None) -> str:
        """A base for messages: its id, name and path; the table's own folder for None."""
        base = None if base_id is None else self._bases.by_id.get(base_id)
        if base is None:
            return self._root.uri
        name = "" if base.name is None else f" {printable(base.name)!r}"
        return f"base {base.id}{name} ({printable(base.path)})"

    def dataset_root(self, base_id: int) -> str | None:
        """The path of a base that is the root of a table, None for any other base."""
        base = self._bases.by_id.get(base_id)
        return base.path if base is not None and base.is_dataset_root else None

    @property
    def is_mapped(self) -> bool:
        """Whether the root and all bases are memory-mapped, so that reading costs no request."""
        if not self._root.traits.is_mapped or self.replicas(None):
            return False
        for base_id, base in self._bases.by_id.items():
            if self.replicas(base_id):
                return False
            try:
                # Remote files are never mapped, so their stores need not be opened to know it.
                if scheme_of(self._uri(base)) != "file" or not self._place(base_id)[0].traits.is_mapped:
                    return False
            except FormatError:
                return False
        return True

    def _file(self, base_id: int | None, kind: str, name: str) -> tuple[Store, str]:
        """Store of a file that should exist and its path there, also if it moved with the table."""
        self._settle(base_id, f"{kind}/{name}")
        store, folder = self.folder(base_id, kind)
        if not (self._location.replicas or self._bases.replicas):
            return store, folder + name
        inner = "" if base_id is None else self._place_once(base_id)[1]
        return self._nearest(base_id, store, inner), folder.removeprefix(inner) + name

    def _nearest(self, base_id: int | None, store: Store, inner: str) -> Store:
        """The store of a base over all places that hold its files."""
        found = self._replicated.get(base_id)
        if found is None:
            found = self._replicated[base_id] = self._over_places(base_id, store, inner)
        return found

    def _over_places(self, base_id: int | None, store: Store, inner: str) -> Store:
        if inner:  # the base is below the root, so its paths have that folder
            uri = f"{self._root.uri}/{inner.rstrip('/')}"
            store = self._location.open_other(self._session, uri, self._location.root_options)
        recorded = Place((store.uri, base_id, self._location.uri), store)
        places: list[Place] = []
        for number, uri in enumerate(self.replicas(base_id), 1):
            if uri == store.uri:
                places.append(recorded)
                continue
            try:
                places.append(self.replica(base_id, number, uri, DATA)[0])
            except (PathPolicyError, UnsupportedError) as error:
                warn(f"replica {number} of {self.described(base_id)} is not used: {error}")
        if recorded not in places:
            places.append(recorded)
        return ReplicatedStore(store, places, self._session.outages) if len(places) > 1 else store

    def _names(self, base_id: int | None) -> tuple[str, ...]:
        """What a base is called in ``replicas``."""
        if base_id is None:
            return "", self._root.uri
        base = self._bases.by_id[base_id]
        return *(() if base.name is None else (base.name,)), str(base.id), base.path, spelling(base)

    def _settle(self, base_id: int | None, path: str) -> None:
        """Decide whether a base is in its recorded place or moved with the table, by one of its files."""
        base = None if base_id is None else self._bases.by_id.get(base_id)
        if (
            base_id in self._settled
            or base is None
            or not self._home.may_have(base)
            or not self._bases.is_flagged
        ):
            return
        try:
            store, prefix = self._place_once(base.id)
        except PathPolicyError:
            found = self._beside(base, path, REFUSED) if self._home.is_above else None
            if found is None:
                raise
            prefix = ""
        else:
            found = self._now_at(base, store, path)
        if found is not None:
            self._settled.add(base.id)
            self._places[base.id] = found, prefix

    def _beside(self, base: BasePath, path: str, reason: str) -> Store | None:
        """The store of the place a base moved to with the table."""
        found = self._home.having(base, path, reason)
        if found is not None:
            self._moved[base.id] = found.uri
        return found

    def _now_at(self, base: BasePath, store: Store, path: str) -> Store | None:
        """The store of a base that is recorded to be at another; None if it is not to be found."""
        if store is self._root:
            return store
        if scheme_of(store.uri) == "file":
            return self._beside(base, path, GONE) if is_gone(store) else store
        # Whether it is gone costs a request there, so it is asked when a file is missing.
        return MovableStore(store, self._home, base)

    def _named(
        self, what: str, place: str, base_id: int | None = None, own: dict[str, Any] | None = None
    ) -> tuple[Store, str]:
        """Store of a canonical place and the prefix of its paths; ``own`` are the options of the base that it is of."""
        below = _below(place, self._root.uri)
        if below is not None:
            return self._root, f"{below}/" if below else ""
        self._check_granted(what, place, base_id, bool(own))
        return self._location.open_other(self._session, place, self._options(place, own or {})), ""

    def _place_once(self, base_id: int) -> tuple[Store, str]:
        place = self._places.get(base_id)
        if place is None:
            place = self._places[base_id] = self._place(base_id)
        return place

    def _place(self, base_id: int) -> tuple[Store, str]:
        """Store of a base and the prefix of its paths, "" or ending in a slash."""
        base = self._bases.by_id.get(base_id)
        if base is None:
            known = ", ".join(map(str, sorted(self._bases.by_id))) or "none"
            raise FormatError(f"a file is in base {base_id}, but the bases of the manifest are {known}")
        if not self._bases.is_flagged:
            raise PathPolicyError(
                f"base {base_id} is used, but the manifest lacks the feature flag for bases ({flags.BASES}), which "
                "every writer of bases sets; if the table is yours, any change of it sets the flag, such as update_config"
            )
        uri = self._uri(base)
        own = self._location.base_options(base_id)
        return self._named(f"base {base_id}", uri, base_id, own)

    def _uri(self, base: BasePath) -> str:
        """Canonical place of a base, cached so that a relative path warns only once."""
        uri = self._uris.get(base.id)
        if uri is None:
            uri = self._uris[base.id] = self._resolved(base)
        return uri

    def _resolved(self, base: BasePath) -> str:
        """Canonical place of a base; a relative path is resolved if allowed."""
        path = base.path
        if not path or path[0] == "/" or ":" in path:
            return canonical_base(base)
        what = f"path of base {base.id}"
        check_text(path, what)
        if self._location.untrusted or scheme_of(self._root.uri) != "file":
            raise PathPolicyError(
                f"{what} is {path!r}: neither an absolute path nor a URI. Relative ones are read for trusted local "
                "tables only; relocate_base gives the base an absolute path"
            )
        uri = canonical_uri(path)
        warn(
            f"{what} of {self._root.uri} is {path!r}: read as {uri!r}, from the working directory, which changes; "
            "relocate_base gives the base an absolute path"
        )
        return uri

    def _options(self, uri: str, own: dict[str, Any]) -> dict[str, Any]:
        """The options of an allowed place: its own, and those of the root that are used there."""
        shared, root = self._location.root_options, self._root.uri
        if not (scheme_of(uri) == scheme_of(root) or same_service(uri, root, shared)):
            shared = {}
        # The key of one login does not work with the token of another, and the place must not see the token.
        return {**(without_login(shared) if has_login(own) else shared), **own}

    def _check_granted(
        self, what: str, uri: str, base_id: int | None = None, has_options: bool = False
    ) -> None:
        if any(_below(uri, prefix) is not None for prefix in self._location.allowed_bases):
            return
        root, untrusted = self._root.uri, self._location.untrusted
        # The branch's name is a claim of the manifest, so the folder above could be anything.
        if _below(uri, self._home.uri) is not None and (not untrusted or self._home.is_table):
            return
        if untrusted:
            raise PathPolicyError(
                f"{what} of this table is {uri}, outside of {root}, and the table is opened as "
                f"untrusted; if it may be read, pass allowed_bases=[{uri!r}]"
            )
        if has_options or same_service(uri, root, self._location.root_options):
            return
        keys = "" if base_id is None else f", or storage_options with 'base_{base_id}.<option>' keys"
        raise PathPolicyError(
            f"{what} of this table is {uri}, on another service than {root}; lancecy contacts no service "
            f"only because a table names it. If it may be read, pass allowed_bases=[{uri!r}]{keys}"
        )


def canonical_base(base: BasePath) -> str:
    """The canonical place of a base; an invalid one is refused."""
    return _canonical_folder(base.path, f"path of base {base.id}")


@lru_cache(maxsize=1024)
def _canonical_folder(path: str, what: str) -> str:
    """The canonical place of a folder; in buckets, its percent-encoding is undone."""
    uri = _canonical(path, what)
    if scheme_of(uri) in ("file", "http", "https"):
        return uri
    # pylance (14.0.2) reads "%20" in a bucket as a space, and both must find the same files.
    scheme, _, rest = uri.partition("://")
    bucket, slash, folder = rest.partition("/")
    folder = unquote(folder)
    _check_marks(folder, path, what)
    return f"{scheme}://{bucket}{slash}{folder}"


def spelling(base: BasePath) -> str:
    """The place of a base for comparison with others; an invalid path is compared as written."""
    try:
        return canonical_base(base)
    except PathPolicyError:
        return base.path


def _canonical(path: str, what: str) -> str:
    """The canonical place of a folder; an invalid one is refused."""
    check_text(path, what)
    # The data files of a table are on S3, whoever commits it.
    path = data_uri(canonical_uri(path)) if path.startswith(f"{SCHEME}://") else path
    match = _URI.match(path)
    if match is None and not path.startswith("/"):
        raise PathPolicyError(f"{what} is {path!r}: neither an absolute path nor a URI")
    rest = path[match.end() :] if match else path
    if match or "::" in path:
        _check_marks(rest, path, what)
    check_text(unquote(path), what)
    if any(segment in (".", "..") for text in (rest, unquote(rest)) for segment in text.split("/")):
        raise PathPolicyError(f"{what} is {path!r}: it has a '.' or '..' segment")
    try:
        uri, credentials = split_credentials(path)
    except ValueError as error:
        raise PathPolicyError(f"{what} is {path!r}: {error}") from error
    if credentials:
        raise PathPolicyError(f"{what} holds credentials")
    return uri


def _check_marks(rest: str, path: str, what: str) -> None:
    """Refuse a place if a character in it says that it is no folder."""
    mark = next((mark for mark in ("::", "?", "#") if mark in rest), None)
    if mark is None:
        return
    if mark == "::":
        raise PathPolicyError(f"{what} is {path!r}: chained, so not a folder")
    scheme = path.partition(":")[0].lower()
    escaped = f"write %{ord(mark):X}" + (" or the plain path" if scheme == "file" else "")
    # canonical_base undoes the escape in buckets.
    remedy = escaped if scheme in ("file", "http", "https") else "choose a folder without it"
    raise PathPolicyError(f"{what} is {path!r}: {mark!r} ends the path of a URI; {remedy}")


def _object(uri: str) -> tuple[str, str]:
    """Canonical folder and name of an object; its percent-encoding is undone where that of folders is."""
    check_text(uri, "place of a blob")
    cut = uri.rfind("/") + 1
    folder, name = uri[:cut], uri[cut:]
    match = _URI.match(uri)
    if match is not None and ("?" in name or "#" in name):
        raise PathPolicyError(f"place of a blob is {uri!r}: it has a query")
    place = _canonical_folder(folder, "place of a blob")
    if match is not None and scheme_of(place) not in ("http", "https"):
        name = unquote(name)
    return place, check_name(name, "name of a blob")


def _below(uri: str, root: str) -> str | None:
    """Path of a canonical URI below another: "" if they are equal, None if it is not below."""
    uri, root = data_uri(uri), data_uri(root)
    if uri == root:
        return ""
    folder = root if root.endswith("/") else root + "/"
    return uri[len(folder) :] if uri.startswith(folder) else None
