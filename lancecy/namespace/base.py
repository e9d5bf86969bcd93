"""What all operations of a directory namespace share: its properties, and where an object is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Any

from lance_namespace import (
    InvalidInputError,
    LanceNamespace,
    NamespaceNotFoundError,
    TableNotFoundError,
    UnsupportedOperationError,
)

from lancecy.errors import printable
from lancecy.namespace.catalog import Catalog
from lancecy.namespace.entries import MANIFEST, NAMESPACE, TABLE
from lancecy.namespace.failures import Calls, with_codes
from lancecy.namespace.folders import Directories
from lancecy.namespace.names import directory_of, object_id
from lancecy.namespace.properties import STORAGE, Properties
from lancecy.namespace.view import View
from lancecy.records import dataclass
from lancecy.session import Session, default
from lancecy.store.credentials import redact
from lancecy.table.location import TableLocation

__all__ = ["Found", "NamespaceBase", "choice"]


@dataclass(frozen=True)
class Found:
    """A table and its place.

    Attributes
    ----------
    names : tuple of str
    directory : str
        Relative to the root.
    is_registered : bool
        Whether ``__manifest`` has it; otherwise its directory alone shows it.
    properties : mapping of str to str
    """

    names: tuple[str, ...]
    directory: str
    is_registered: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)


def choice(name: str, value: str | None, known: Sequence[str]) -> str:
    """The mode of a request, as one of the known ones; the first one by default.

    Parameters
    ----------
    name : str
        Of the field, for the error.
    value : str or None
        In any case, with underscores or without.
    known : sequence of str

    Raises
    ------
    InvalidInputError
        It is none of them.

    Examples
    --------
    >>> choice("mode", "exist_ok", ["Create", "ExistOk"]), choice("mode", None, ["Create", "ExistOk"])
    ('ExistOk', 'Create')
    """
    if value is None:
        return known[0]
    wanted = value.replace("_", "").lower()
    for one in known:
        if one.lower() == wanted:
            return one
    raise InvalidInputError(f"{name} is {printable(value)!r}; it can be {' or '.join(known)}")


class NamespaceBase(LanceNamespace):
    """Base of :class:`lancecy.namespace.DirectoryNamespace`."""

    @with_codes
    def __init__(self, session: Session | None = None, **properties: Any) -> None:
        self._given = dict(properties)
        self._properties = Properties.parse(properties)
        self._calls = Calls(self._properties.ops_metrics_enabled)
        self._session = session or default()
        untrusted = self._properties.untrusted
        self._root = TableLocation.of(self._properties.root, self._properties.storage_options, untrusted)
        if self._root.storage_options:
            self._session.remember_options(self._root.uri, self._root.storage_options)
        self._directories = Directories(self._root, self._session)
        manifest = self._location_of(MANIFEST)
        self._catalog = Catalog(
            manifest,
            self._session,
            self._properties.commit_retries,
            check=partial(self._directories.check_inside, MANIFEST),
        )

    def __repr__(self) -> str:
        return self.namespace_id()

    def __reduce__(self) -> tuple[Any, ...]:
        given = {name: value for name, value in self._given.items() if not name.startswith(STORAGE)}
        options = _as_properties(redact(self._root.storage_options))
        return _made, (type(self), {**given, **options, "root": self._root.uri})

    def namespace_id(self) -> str:
        """Text that names this namespace: its class and its root."""
        return f"DirectoryNamespace {{ root: {json.dumps(self._root.uri, ensure_ascii=False)} }}"

    def retrieve_ops_metrics(self) -> dict[str, int]:
        """How often each operation was called, those of pylance on this namespace included.

        Empty unless the property ``ops_metrics_enabled`` is true.
        """
        return self._calls.counts()

    def reset_ops_metrics(self) -> None:
        """Count from zero again."""
        self._calls.reset()

    @property
    def root(self) -> str:
        """The root: a canonical URI, or an absolute path."""
        return self._root.uri

    @property
    def storage_options(self) -> dict[str, Any]:
        """The storage options of the properties; they may hold secrets."""
        return dict(self._root.storage_options)

    def _uri_of(self, directory: str) -> str:
        return f"{self._root.uri.rstrip('/')}/{directory}"

    # -- where objects are ------------------------------------------------------------------------

    def _check_depth(self, names: Sequence[str]) -> None:
        """Refuse names of child namespaces, which only ``__manifest`` has."""
        if len(names) > 1 and not self._properties.manifest_enabled:
            raise UnsupportedOperationError(
                f"{printable(object_id(names))!r} is in a child namespace, which needs manifest_enabled=true"
            )

    def _view(self) -> View:
        """The rows of ``__manifest``; none if it is not used."""
        return self._catalog.view() if self._properties.manifest_enabled else View(None)

    def _found(self, names: tuple[str, ...], view: View) -> Found | None:
        """A table: from ``__manifest``, or else from its directory. None if there is none."""
        self._check_depth(names)
        entry = view.find(object_id(names))
        if entry is not None:
            if entry.kind != TABLE or entry.location is None:
                return None
            self._directories.check_inside(entry.location)
            return Found(names, entry.location, True, entry.properties)
        return self._shown(names, view)

    def _shown(self, names: tuple[str, ...], view: View) -> Found | None:
        """A table that a directory of the root shows, unless it is that of a table with another name."""
        if len(names) > 1 or not self._properties.dir_listing_enabled:
            return None
        directory = directory_of(names[0])
        if not self._directories.exists(names[0]) or view.tables_at(directory):
            return None
        return Found(names, directory)

    def _table(self, names: tuple[str, ...]) -> Found:
        """A table.

        Raises
        ------
        TableNotFoundError, NamespaceNotFoundError
        """
        view = self._view()
        found = self._found(names, view)
        if found is None:
            self._check_namespace(names[:-1], view)
            raise TableNotFoundError(f"there is no table {printable('.'.join(names))!r} in {self._root.uri}")
        return found

    def _check_namespace(self, names: Sequence[str], view: View) -> None:
        """Refuse a namespace that does not exist; the root always does."""
        if not names:
            return
        self._check_depth((*names, ""))
        entry = view.find(object_id(names))
        if entry is None or entry.kind != NAMESPACE:
            raise NamespaceNotFoundError(
                f"there is no namespace {printable('.'.join(names))!r} in {self._root.uri}"
            )

    def _location_of(self, directory: str) -> TableLocation:
        return TableLocation.of(self._uri_of(directory), self._root.storage_options, self._root.untrusted)


def _made(kind: type[NamespaceBase], properties: dict[str, Any]) -> NamespaceBase:
    """A namespace that was sent, with the storage options that this process knows for its root."""
    return kind(**{**properties, **_as_properties(default().options_for(properties["root"]))})


def _as_properties(options: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{STORAGE}{name}": value for name, value in options.items()}
