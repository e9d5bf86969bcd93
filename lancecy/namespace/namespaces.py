"""Operations on namespaces: create, describe, list, drop."""

from __future__ import annotations

from collections.abc import Sequence

from lance_namespace import (
    CreateNamespaceRequest,
    CreateNamespaceResponse,
    DescribeNamespaceRequest,
    DescribeNamespaceResponse,
    DropNamespaceRequest,
    DropNamespaceResponse,
    InvalidInputError,
    ListNamespacesRequest,
    ListNamespacesResponse,
    NamespaceAlreadyExistsError,
    NamespaceExistsRequest,
    NamespaceExistsResponse,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    UnsupportedOperationError,
)

from lancecy.errors import printable
from lancecy.namespace.base import NamespaceBase, choice
from lancecy.namespace.catalog import Add, Edit, Remove, Replace
from lancecy.namespace.entries import NAMESPACE, TABLE, Entry
from lancecy.namespace.failures import with_codes
from lancecy.namespace.names import check_new_id, object_id, path_of, with_parents
from lancecy.namespace.pages import asked, page_of
from lancecy.namespace.removal import Removals
from lancecy.namespace.view import View

__all__ = ["Namespaces"]


class Namespaces(Removals, NamespaceBase):
    """The methods that concern namespaces."""

    @with_codes
    def list_namespaces(self, request: ListNamespacesRequest) -> ListNamespacesResponse:
        """List the names of the namespaces directly in one.

        Raises
        ------
        NamespaceNotFoundError
        """
        names, view = path_of(request.id, kind="namespace"), self._view()
        self._check_namespace(names, view)
        found = view.names(
            object_id(names), NAMESPACE, request.page_token, few=asked(request.limit) is not None
        )
        page = page_of(found, request.page_token, request.limit)
        return ListNamespacesResponse(namespaces=page.names, page_token=page.token)

    @with_codes
    def describe_namespace(self, request: DescribeNamespaceRequest) -> DescribeNamespaceResponse:
        """The properties of a namespace.

        Raises
        ------
        NamespaceNotFoundError
        """
        names = path_of(request.id, kind="namespace")
        if not names:
            return DescribeNamespaceResponse(properties={})
        entry = self._namespace(names, self._view())
        return DescribeNamespaceResponse(properties=dict(entry.properties) or None)

    @with_codes
    def namespace_exists(self, request: NamespaceExistsRequest) -> NamespaceExistsResponse:
        """Raise an error unless there is a namespace.

        Raises
        ------
        NamespaceNotFoundError
        """
        self._check_namespace(path_of(request.id, kind="namespace"), self._view())
        return NamespaceExistsResponse()

    @with_codes
    def create_namespace(self, request: CreateNamespaceRequest) -> CreateNamespaceResponse:
        """Create a namespace in one that exists.

        The mode is Create, or ExistOk, which leaves an existing namespace as it is, or Overwrite, which replaces its
        properties.

        Raises
        ------
        NamespaceAlreadyExistsError
            There is a namespace or a table of this id.
        NamespaceNotFoundError
            The namespace that it is to be in does not exist.
        InvalidInputError
            The name cannot be used.
        """
        names = path_of(request.id, kind="namespace")
        mode = choice("mode", request.mode, ("Create", "ExistOk", "Overwrite"))
        properties = dict(request.properties or {})
        if not names:
            if mode != "ExistOk":
                raise NamespaceAlreadyExistsError("the root namespace always exists")
            return CreateNamespaceResponse(properties=None)
        self._require_manifest()
        check_new_id(names)
        kept = properties

        def decide(view: View) -> Edit | None:
            nonlocal kept
            self._check_namespace(names[:-1], view)
            entry = Entry(object_id(names), NAMESPACE, None, properties)
            known = view.find(entry.object_id)
            if known is None:
                self._check_not_shown(names, view)
                return Add([entry])
            if mode == "Create" or known.kind != NAMESPACE:
                raise NamespaceAlreadyExistsError(
                    f"there is a {known.kind} {printable('.'.join(names))!r} already"
                )
            kept = properties if mode == "Overwrite" else dict(known.properties)
            return Replace(entry.object_id, entry) if mode == "Overwrite" else None

        self._catalog.change(decide)
        return CreateNamespaceResponse(properties=kept or None)

    def _check_not_shown(self, names: tuple[str, ...], view: View) -> None:
        if self._shown(names, view) is not None:
            raise NamespaceAlreadyExistsError(f"there is a table {printable('.'.join(names))!r} already")

    @with_codes
    def drop_namespace(self, request: DropNamespaceRequest) -> DropNamespaceResponse:
        """Drop a namespace.

        Behavior Restrict refuses one that is not empty; Cascade drops all that is in it. Mode Skip makes a missing
        namespace no error.

        Raises
        ------
        NamespaceNotFoundError
        NamespaceNotEmptyError
        InvalidInputError
            It is the root.
        """
        names = path_of(request.id, kind="namespace")
        mode = choice("mode", request.mode, ("Fail", "Skip"))
        behavior = choice("behavior", request.behavior, ("Restrict", "Cascade"))
        if not names:
            raise InvalidInputError("the root namespace cannot be dropped")
        self._require_manifest()
        dropped: list[Entry] = []
        directories: list[str] = []

        def decide(view: View) -> Edit | None:
            dropped.clear()
            entry = view.find(object_id(names))
            if mode == "Skip" and (entry is None or entry.kind != NAMESPACE):
                return None
            dropped.append(self._namespace(names, view))
            below = view.below(object_id(names))
            if below and behavior == "Restrict":
                raise NamespaceNotEmptyError(
                    f"namespace {printable('.'.join(names))!r} has {len(below)} objects: drop them first, or drop it "
                    "with behavior Cascade"
                )
            directories[:] = self._hidden(below, view)
            return Remove([object_id(names), *below])

        self._catalog.change(decide)
        for directory in directories:
            self._directories.remove(directory)
        properties = dict(dropped[0].properties) if dropped else {}
        return DropNamespaceResponse(properties=properties or None)

    def _hidden(self, object_ids: Sequence[str], view: View) -> list[str]:
        """The directories of tables that are dropped and that no other table uses, hidden from listings."""
        locations = {entry.location for entry in view.entries(object_ids) if entry.kind == TABLE}
        gone, kept = set(object_ids), set[str]()
        for location, users in view.locations().items() if locations else ():
            if not gone.issuperset(users):
                kept.update(with_parents(location))
        found = sorted(location for location in locations if location is not None and location not in kept)
        for directory in found:
            self._hide(directory, is_removed=True)
        return found

    def _namespace(self, names: tuple[str, ...], view: View) -> Entry:
        self._check_namespace(names, view)
        entry = view.find(object_id(names))
        if entry is None:
            raise NamespaceNotFoundError(f"there is no namespace {printable('.'.join(names))!r}")
        return entry

    def _require_manifest(self) -> None:
        if not self._properties.manifest_enabled:
            raise UnsupportedOperationError("namespaces in the root need manifest_enabled=true")
