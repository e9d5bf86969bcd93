"""Operations on tables as objects of a namespace: list, describe, drop, deregister."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from itertools import islice
from typing import Any, NamedTuple

from lance_namespace import (
    DeregisterTableRequest,
    DeregisterTableResponse,
    DescribeTableRequest,
    DescribeTableResponse,
    DropTableRequest,
    DropTableResponse,
    ListTablesRequest,
    ListTablesResponse,
    TableExistsRequest,
    TableExistsResponse,
    TableNotFoundError,
)

from lancecy.api.datasets import Dataset, dataset
from lancecy.errors import DatasetNotFoundError, NotFoundError, printable
from lancecy.namespace.base import Found
from lancecy.namespace.creation import Creations
from lancecy.namespace.entries import TABLE
from lancecy.namespace.failures import with_codes
from lancecy.namespace.folders import DEREGISTERED
from lancecy.namespace.names import directory_of, object_id, path_of
from lancecy.namespace.pages import Page, asked, page_of
from lancecy.namespace.removal import is_shown_by_name
from lancecy.namespace.schemas import counts, json_schema
from lancecy.namespace.view import View
from lancecy.table.refs.reference import Reference

__all__ = ["Tables", "VersionAsked", "last_transaction", "transaction"]

_LOOKED_INTO_AT_ONCE = 256


class Tables(Creations):
    """The methods that find and remove tables.

    What does not exist, such as the table, raises the error that ``lance_namespace`` has for it.
    """

    @with_codes
    def list_tables(self, request: ListTablesRequest) -> ListTablesResponse:
        """List the names of the tables directly in a namespace.

        In the root, those of ``__manifest`` and those that directories show, each once.
        """
        names, view = path_of(request.id, kind="namespace"), self._view()
        self._check_namespace(names, view)
        page = self._tables_in(names, view, request)
        return ListTablesResponse(tables=page.names, page_token=page.token)

    def _tables_in(self, names: tuple[str, ...], view: View, request: Any) -> Page:
        hides, few = request.include_declared is False, asked(request.limit) is not None
        found = view.names(object_id(names), TABLE, request.page_token, few=few)
        if not names:
            found = self._with_shown(found, view, request.page_token)
        keeps = (lambda some: self._with_data(names, some, view)) if hides else None
        return page_of(found, request.page_token, request.limit, keeps)

    def _with_shown(self, registered: Iterator[str], view: View, after: str | None) -> Iterator[str]:
        """The names of tables in the root: registered ones, and those of directories that no table is in.

        Directories are looked into only if their table is not registered, and only for names that are asked for.
        """
        shown = self._directories.names() if self._properties.dir_listing_enabled else []
        both = merge(
            ((name, False) for name in registered),
            ((name, True) for name in shown if not after or name > after),
        )
        used: set[str] | None = None
        last: str | None = None
        while part := list(islice(both, _LOOKED_INTO_AT_ONCE)):
            known = {last, *(name for name, is_shown in part if not is_shown)}
            others = [name for name, is_shown in part if is_shown and name not in known]
            if others and used is None:
                used = {location.partition("/")[0] for location in view.locations()}
            free = [name for name in others if directory_of(name) not in (used or ())]
            kept = {*known, *self._directories.existing(free)}
            yield from dict.fromkeys(name for name, _ in part if name in kept and name != last)
            last = max((name for name, is_shown in part if not is_shown), default=last)

    def _with_data(self, names: tuple[str, ...], tables: list[str], view: View) -> list[str]:
        """Those of some tables that have a version."""

        def has_data(name: str) -> bool:
            found = self._found((*names, name), view)
            return found is not None and self._directories.has_versions(found.directory)

        kept = self._session.map(has_data, tables, blocking=True)
        return [name for name, keeps in zip(tables, kept, strict=True) if keeps]

    @with_codes
    def list_all_tables(self, request: ListTablesRequest) -> ListTablesResponse:
        """List the tables of all namespaces, as names joined by ``$``."""
        view = self._view()
        token, few = request.page_token, asked(request.limit) is not None
        found = self._with_shown(view.tables(token, few=few), view, token)
        hides = request.include_declared is False
        keeps = (lambda some: self._all_with_data(some, view)) if hides else None
        page = page_of(found, request.page_token, request.limit, keeps)
        return ListTablesResponse(tables=page.names, page_token=page.token)

    def _all_with_data(self, ids: list[str], view: View) -> list[str]:
        return [one for one in ids if self._with_data(tuple(one.split("$")[:-1]), [one.split("$")[-1]], view)]

    @with_codes
    def table_exists(self, request: TableExistsRequest) -> TableExistsResponse:
        """Raise an error unless there is a table, and the version if one is given.

        A missing version is a ``TableVersionNotFoundError`` of ``lance_namespace``.

        Raises
        ------
        TableNotFoundError
        """
        found = self._table(path_of(request.id, kind="table"))
        if request.version is not None:
            self._opened(found, request)
        return TableExistsResponse()

    @with_codes
    def describe_table(self, request: DescribeTableRequest) -> DescribeTableResponse:
        """The location and properties of a table; with ``load_detailed_metadata`` also its version and schema.

        Raises
        ------
        TableNotFoundError
        """
        names = path_of(request.id, kind="table")
        found = self._table(names)
        uri = self._uri_of(found.directory)
        answer: dict[str, Any] = {
            "table": names[-1],
            "namespace": list(names[:-1]),
            "location": uri,
            "table_uri": uri,
            "properties": dict(found.properties) or None,
            "storage_options": self._vended(),
            "managed_versioning": True if self._properties.table_version_tracking_enabled else None,
        }
        detailed = bool(request.load_detailed_metadata)
        if detailed or request.check_declared:
            answer["is_only_declared"] = self._directories.is_only_declared(found.directory)
        if detailed and not answer["is_only_declared"]:
            answer |= _details(self._opened(found, request))
        return DescribeTableResponse(**answer)

    def _opened(self, found: Found, request: Any) -> Dataset:
        """The dataset of a table, at the version, tag or branch of a request."""
        try:
            return dataset(
                self._uri_of(found.directory),
                reference_of(request),
                storage_options=self.storage_options or None,
                untrusted=self._root.untrusted,
                session=self._session,
            )
        except DatasetNotFoundError as error:
            raise TableNotFoundError(
                f"table {printable('.'.join(found.names))!r} has no data yet: {error}"
            ) from error

    @with_codes
    def drop_table(self, request: DropTableRequest) -> DropTableResponse:
        """Remove a table and its files.

        Raises
        ------
        TableNotFoundError
        """
        names = path_of(request.id, kind="table")
        found = self._table_to_drop(names)
        if found.is_registered:
            found = self._removed_row(names, with_files=True)
        self._directories.remove(found.directory)
        if found.is_registered and is_shown_by_name(found.directory):
            # pylance may have created it a moment ago, and added its row only now.
            self._forget_if_gone(names, found.directory)
        return DropTableResponse(
            id=list(names),
            location=self._uri_of(found.directory),
            properties=dict(found.properties) or None,
        )

    def _table_to_drop(self, names: tuple[str, ...]) -> Found:
        """A table; without ``__manifest`` also one that is deregistered."""
        if not self._properties.manifest_enabled and len(names) == 1:
            directory = directory_of(names[0])
            if DEREGISTERED in self._directories.contents(directory):
                return Found(names, directory)
        return self._settled(names)

    @with_codes
    def deregister_table(self, request: DeregisterTableRequest) -> DeregisterTableResponse:
        """Remove a table from the namespace, and keep its files.

        Raises
        ------
        TableNotFoundError
        """
        names = path_of(request.id, kind="table")
        found = self._settled(names)
        if found.is_registered:
            found = self._removed_row(names, with_files=False)
        elif not self._directories.mark(found.directory, DEREGISTERED):
            raise TableNotFoundError(f"table {printable(names[0])!r} was deregistered by another process")
        return DeregisterTableResponse(
            id=list(names),
            location=self._uri_of(found.directory),
            properties=dict(found.properties) or None,
        )


class VersionAsked(NamedTuple):
    """The fields of a request that name a version."""

    branch: str | None = None
    version: int | None = None
    tag: str | None = None


def reference_of(request: Any) -> Reference:
    """The version that a request names: by number, tag, or branch; None for the newest."""
    tag, branch = getattr(request, "tag", None), getattr(request, "branch", None)
    version = getattr(request, "version", None)
    if tag is not None:
        return str(tag)
    if branch is not None:
        return str(branch), version
    return version


def _details(ds: Dataset) -> dict[str, Any]:
    """What a description has beside the place: version, schema and counts as texts."""
    return {"version": ds.version, "var_schema": json_schema(ds.schema), "metadata": counts(ds)}


def transaction(ds: Dataset, version: int) -> Any:
    """The transaction that made a version of a table; None if there is none, or it was cleaned up.

    Parameters
    ----------
    ds : Dataset
    version : int
    """
    try:
        return ds.read_transaction(version)
    except NotFoundError:
        return None


def last_transaction(ds: Dataset) -> str | None:
    """The id of the transaction that made a dataset's version.

    Parameters
    ----------
    ds : Dataset
    """
    made = transaction(ds, ds.version)
    return None if made is None else str(made.uuid)
