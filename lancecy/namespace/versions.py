"""Operations on versions of tables: list, describe, commit and delete versions, restore, tags and branches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lance_namespace import (
    BatchDeleteTableVersionsResponse,
    ConcurrentModificationError,
    CreateTableBranchRequest,
    CreateTableBranchResponse,
    CreateTableTagRequest,
    CreateTableTagResponse,
    CreateTableVersionResponse,
    DeleteTableBranchRequest,
    DeleteTableBranchResponse,
    DeleteTableTagRequest,
    DeleteTableTagResponse,
    DescribeTableVersionResponse,
    GetTableTagVersionRequest,
    GetTableTagVersionResponse,
    InvalidInputError,
    ListTableBranchesRequest,
    ListTableBranchesResponse,
    ListTableTagsRequest,
    ListTableTagsResponse,
    ListTableVersionsResponse,
    RestoreTableRequest,
    RestoreTableResponse,
    TableBranchNotFoundError,
    TableVersion,
    TableVersionNotFoundError,
    UpdateTableTagRequest,
    UpdateTableTagResponse,
)
from lance_namespace_urllib3_client.models import BranchContents, TagContents

from lancecy.api.datasets import Dataset
from lancecy.errors import DatasetNotFoundError, ExistsError, printable
from lancecy.namespace.base import Found
from lancecy.namespace.failures import with_codes
from lancecy.namespace.names import path_of
from lancecy.namespace.pages import page_of
from lancecy.namespace.tables import Tables, VersionAsked, last_transaction
from lancecy.store.base import PutMode, Store
from lancecy.table.paths import VERSIONS, parse_manifest_name
from lancecy.table.refs.names import MAIN
from lancecy.table.refs.places import branch_location
from lancecy.table.versions import ManifestLocation
from lancecy.table.versions.folder import published

__all__ = ["Versions"]

# The end of a range that has no end.
_ALL = -1


def field_of(request: Any, name: str) -> Any:
    """A field of a request, which is a model or a mapping."""
    return request.get(name) if isinstance(request, Mapping) else getattr(request, name, None)


class Versions(Tables):
    """The methods that concern versions of a table.

    What does not exist, such as the table, raises the error that ``lance_namespace`` has for it.
    """

    def _dataset(self, request: Any) -> Dataset:
        """The table of a request, at its version or branch."""
        return self._opened(self._table(path_of(request.id, kind="table")), request)

    def _newest(self, request: Any) -> Dataset:
        """The newest version of the table of a request, on its branch."""
        found = self._table(path_of(request.id, kind="table"))
        branch = getattr(request, "branch", None)
        return self._opened(found, VersionAsked(branch=branch))

    # -- versions ---------------------------------------------------------------------------------

    @with_codes
    def list_table_versions(self, request: Any) -> ListTableVersionsResponse:
        """List the versions of a table, the oldest first unless ``descending`` is true.

        Raises
        ------
        TableBranchNotFoundError
        InvalidInputError
            The page token is not one of an earlier answer.
        """
        found, store, listed = self._listed(request)
        is_descending = bool(field_of(request, "descending"))
        numbers = sorted(listed, reverse=is_descending)
        token = field_of(request, "page_token")
        if token:
            if not token.isdecimal():
                raise InvalidInputError(f"page token {printable(token)!r} is not the number of a version")
            numbers = [n for n in numbers if (n < int(token) if is_descending else n > int(token))]
        limit = field_of(request, "limit")
        shown = numbers if limit is None or limit < 0 else numbers[:limit]
        versions = [self._version(found, store, listed[number]) for number in shown]
        more = bool(shown) and len(shown) < len(numbers)
        return ListTableVersionsResponse(versions=versions, page_token=str(shown[-1]) if more else None)

    @with_codes
    def describe_table_version(self, request: Any) -> DescribeTableVersionResponse:
        """The manifest of a version, by default the newest one.

        Raises
        ------
        TableVersionNotFoundError, TableBranchNotFoundError
        """
        found, store, listed = self._listed(request)
        number = field_of(request, "version")
        number = max(listed, default=0) if number is None else number
        if number not in listed:
            raise TableVersionNotFoundError(f"there is no version {number} in {printable(store.uri)}")
        return DescribeTableVersionResponse(version=self._version(found, store, listed[number]))

    @with_codes
    def create_table_version(self, request: Any) -> CreateTableVersionResponse:
        """Make a staged manifest the next version, unless another writer was first.

        Asked again for the same bytes, it answers as before.

        Raises
        ------
        ConcurrentModificationError
            The version exists, or is not the next one.
        InvalidInputError
            The path is not that of a staged manifest of this table.
        """
        found, store = self._manifests(request)
        number, path = field_of(request, "version"), str(field_of(request, "manifest_path"))
        name = path.rpartition("/")[2]
        parsed = parse_manifest_name(name)
        if (
            parsed is None
            or not parsed.staged
            or parsed.version != number
            or not self._is_inside(path, store)
        ):
            raise InvalidInputError(
                f"{printable(path)!r} is no staged manifest of version {number} of this table"
            )
        staged, final = f"{VERSIONS}/{name}", ManifestLocation.canonical(number, parsed.naming, 0).path
        newest = max((location.version for location in published(store.list(VERSIONS))), default=0)
        try:
            data = bytes(store.get(staged))
        except DatasetNotFoundError as error:
            raise InvalidInputError(f"there is no manifest {printable(path)!r}") from error
        if number > newest + 1:
            raise ConcurrentModificationError(
                f"version {number} does not follow version {newest}, the newest one"
            )
        try:
            store.put(final, data, PutMode.CREATE)
        except ExistsError as error:
            if bytes(store.get(final)) != data:
                raise ConcurrentModificationError(f"another writer made version {number}") from error
        store.delete([staged])
        made = ManifestLocation.canonical(number, parsed.naming, len(data))
        return CreateTableVersionResponse(version=self._version(found, store, made))

    @with_codes
    def batch_delete_table_versions(self, request: Any) -> BatchDeleteTableVersionsResponse:
        """Delete the manifests of versions; never that of the newest one.

        A range is without its end; the end -1 means all versions from its start on.

        Raises
        ------
        InvalidInputError
            The newest version is among them.
        """
        _, store = self._manifests(request)
        listed = [*published(store.list(VERSIONS))]
        newest = max((location.version for location in listed), default=0)
        ranges = [
            (field_of(one, "start_version"), field_of(one, "end_version"))
            for one in field_of(request, "ranges")
        ]
        gone = [
            one
            for one in listed
            if any(start <= one.version and (one.version < stop or stop == _ALL) for start, stop in ranges)
        ]
        if any(one.version == newest for one in gone):
            raise InvalidInputError(f"version {newest} is the newest one of the table, and stays")
        store.delete([one.path for one in gone])
        return BatchDeleteTableVersionsResponse(deleted_count=len(gone))

    def _manifests(self, request: Any) -> tuple[Found, Store]:
        """The table of a request, and the store of its branch."""
        found = self._table(path_of(field_of(request, "id"), kind="table"))
        location, branch = self._location_of(found.directory), field_of(request, "branch")
        if branch not in (None, MAIN):
            location = branch_location(location, branch)
        return found, location.open(self._session)

    def _listed(self, request: Any) -> tuple[Found, Store, dict[int, ManifestLocation]]:
        """The table of a request, the store of its branch, and the versions there by their numbers."""
        found, store = self._manifests(request)
        listed = {location.version: location for location in published(store.list(VERSIONS))}
        branch = field_of(request, "branch")
        if not listed and branch not in (None, MAIN):
            name = printable(".".join(found.names))
            raise TableBranchNotFoundError(f"table {name!r} has no branch {printable(branch)!r}")
        return found, store, listed

    @staticmethod
    def _is_inside(path: str, store: Store) -> bool:
        """Whether a manifest is in the ``_versions`` folder of a store: by its path within the bucket or disk."""
        _, mark, rest = store.uri.partition("://")
        root = rest.partition("/")[2] if mark else store.uri
        return path.rpartition("/")[0].strip("/") == f"{root}/{VERSIONS}".strip("/")

    @staticmethod
    def _version(found: Found, store: Store, location: ManifestLocation) -> TableVersion:
        _, mark, rest = store.uri.partition("://")
        root = rest.partition("/")[2] if mark else store.uri.lstrip("/")
        meta = store.head(location.path)
        return TableVersion(
            version=location.version,
            manifest_path=f"{root}/{location.path}",
            manifest_size=meta.size,
            e_tag=location.identity or None,
            timestamp_millis=None if meta.modified is None else int(meta.modified.timestamp() * 1000),
        )

    @with_codes
    def restore_table(self, request: RestoreTableRequest) -> RestoreTableResponse:
        """Make an old version the newest one again.

        Raises
        ------
        TableVersionNotFoundError, ConcurrentModificationError
        """
        ds = self._dataset(request)
        ds.restore()
        return RestoreTableResponse(transaction_id=last_transaction(ds))

    # -- tags and branches ------------------------------------------------------------------------

    @with_codes
    def list_table_tags(self, request: ListTableTagsRequest) -> ListTableTagsResponse:
        """List the tags of a table."""
        tags = self._newest(request).tags.list()
        page = page_of(sorted(tags), request.page_token, request.limit)
        shown = {
            name: TagContents(
                branch=tags[name]["branch"],
                version=tags[name]["version"],
                manifestSize=tags[name]["manifest_size"],
            )
            for name in page.names
        }
        return ListTableTagsResponse(tags=shown, page_token=page.token)

    @with_codes
    def get_table_tag_version(self, request: GetTableTagVersionRequest) -> GetTableTagVersionResponse:
        """The version that a tag names."""
        return GetTableTagVersionResponse(version=self._newest(request).tags.get_version(request.tag))

    @with_codes
    def create_table_tag(self, request: CreateTableTagRequest) -> CreateTableTagResponse:
        """Create a tag.

        Raises
        ------
        TableVersionNotFoundError
        """
        self._newest(request).tags.create(request.tag, _numbered(request))
        return CreateTableTagResponse()

    @with_codes
    def update_table_tag(self, request: UpdateTableTagRequest) -> UpdateTableTagResponse:
        """Let a tag name another version.

        Raises
        ------
        TableVersionNotFoundError
        """
        self._newest(request).tags.update(request.tag, _numbered(request))
        return UpdateTableTagResponse()

    @with_codes
    def delete_table_tag(self, request: DeleteTableTagRequest) -> DeleteTableTagResponse:
        """Delete a tag."""
        self._newest(request).tags.delete(request.tag)
        return DeleteTableTagResponse()

    @with_codes
    def list_table_branches(self, request: ListTableBranchesRequest) -> ListTableBranchesResponse:
        """List the branches of a table."""
        found = self._opened(self._table(path_of(request.id, kind="table")), VersionAsked()).branches.list()
        page = page_of(sorted(found), request.page_token, request.limit)
        shown = {
            name: BranchContents(
                parent_branch=found[name]["parent_branch"],
                parent_version=found[name]["parent_version"],
                create_at=found[name]["create_at"],
                manifest_size=found[name]["manifest_size"],
                metadata=found[name]["metadata"] or None,
            )
            for name in page.names
        }
        return ListTableBranchesResponse(branches=shown, page_token=page.token)

    @with_codes
    def create_table_branch(self, request: CreateTableBranchRequest) -> CreateTableBranchResponse:
        """Create a branch of a table.

        Raises
        ------
        TableVersionNotFoundError
        """
        found = self._table(path_of(request.id, kind="table"))
        origin = self._opened(found, VersionAsked(branch=request.from_branch, version=request.from_version))
        origin.create_branch(request.name)
        return CreateTableBranchResponse()

    @with_codes
    def delete_table_branch(self, request: DeleteTableBranchRequest) -> DeleteTableBranchResponse:
        """Delete a branch of a table."""
        found = self._table(path_of(request.id, kind="table"))
        self._opened(found, VersionAsked()).branches.delete(request.name)
        return DeleteTableBranchResponse()


def _numbered(request: Any) -> tuple[str | None, int]:
    return getattr(request, "branch", None), request.version
