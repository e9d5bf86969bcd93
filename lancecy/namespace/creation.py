"""Tables come into the catalog: created, declared, registered, renamed.

The files of a table are there before its row, so that no row is without a table. A directory of a table whose row could
not be added is removed; after a crash, ``remove_unused`` finds it.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from lance_namespace import (
    ConcurrentModificationError,
    CreateTableRequest,
    CreateTableResponse,
    DeclareTableRequest,
    DeclareTableResponse,
    InvalidInputError,
    RegisterTableRequest,
    RegisterTableResponse,
    RenameTableRequest,
    RenameTableResponse,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedOperationError,
)

from lancecy.api.datasets import Dataset
from lancecy.api.writers import write_dataset
from lancecy.errors import (
    CommitError,
    CommitUnknownError,
    DatasetNotFoundError,
    ExistsError,
    FormatError,
    printable,
)
from lancecy.namespace.base import Found, choice
from lancecy.namespace.catalog import Add, Edit, Replace
from lancecy.namespace.entries import MANIFEST, TABLE, Entry, checked_location
from lancecy.namespace.failures import with_codes
from lancecy.namespace.folders import DEREGISTERED, RESERVED
from lancecy.namespace.names import check_new_id, directory_of, hashed_directory, object_id, path_of
from lancecy.namespace.removal import Removals
from lancecy.namespace.view import View
from lancecy.store.uri import canonical_uri

__all__ = ["Creations"]


class Creations(Removals):
    """The methods that add tables to a namespace.

    What does not exist, such as the table, raises the error that ``lance_namespace`` has for it.
    """

    @with_codes
    def create_table(self, request: CreateTableRequest, request_data: bytes) -> CreateTableResponse:
        """Create a table of rows.

        The mode is Create, or ExistOk, which leaves an existing table as it is, or Overwrite, which replaces rows and
        properties. The data of a declared table is written where it was declared.

        Parameters
        ----------
        request : CreateTableRequest
        request_data : bytes
            An Arrow IPC stream.

        Raises
        ------
        TableAlreadyExistsError
        InvalidInputError
            The name cannot be used, or the bytes are no stream.
        """
        names = path_of(request.id, kind="table")
        mode = choice("mode", request.mode, ("Create", "ExistOk", "Overwrite"))
        found, view = self._place_of_new(names, request.properties)
        rows = rows_of_stream(request_data)
        if found is not None and self._directories.has_versions(found.directory):
            if mode == "ExistOk":
                return self._created(found.directory, None, found.properties)
            if mode == "Create":
                raise _exists(names)
        elif found is not None and mode == "Create":
            self._check_declared(found)
        properties = dict(request.properties or {})
        made = self._written(
            names, found, view, properties, mode, lambda uri, how: self._write(rows, uri, how)
        )
        return self._created(made[0], made[1], properties)

    def _check_declared(self, found: Found) -> None:
        """Refuse to create a table that is there without data, unless it was declared: another process may remove it now."""
        if self._properties.manifest_enabled and not self._directories.is_only_declared(found.directory):
            raise TableAlreadyExistsError(
                f"there is a table {printable('.'.join(found.names))!r} already, which lost its data: drop it, or create it "
                "with mode Overwrite"
            )

    def _write(self, rows: Any, uri: str, mode: Any) -> Dataset:
        options = self.storage_options or None
        return write_dataset(rows, uri, mode=mode, storage_options=options, session=self._session)

    def _written(
        self,
        names: tuple[str, ...],
        found: Found | None,
        view: View,
        properties: Mapping[str, str],
        mode: str,
        write: Callable[[str, str], Dataset],
    ) -> tuple[str, int]:
        """The directory and version of a table, after its rows are written and its row is there."""
        if found is not None:
            how = "overwrite" if mode == "Overwrite" else "create"
            try:
                version = write(self._uri_of(found.directory), how).version
            except OSError as error:
                self._check_same(names, found, self._view(), error)
                _check_not_lost(names, error)
                raise
            self._set_properties(names, found, properties)
            self._check_not_gone(names, found.directory)
            return found.directory, version
        directory = self._new_directory(names, view)
        try:
            version = write(self._uri_of(directory), "create").version
        except BaseException as error:
            self._withdraw(directory)
            if isinstance(error, ExistsError):
                raise _exists(names) from error
            _check_not_lost(names, error)
            raise
        self._registered(names, directory, properties)
        return directory, version

    def _created(
        self, directory: str, version: int | None, properties: Mapping[str, str]
    ) -> CreateTableResponse:
        return CreateTableResponse(
            location=self._uri_of(directory),
            version=version,
            storage_options=self._vended(),
            properties=dict(properties) or None,
        )

    @with_codes
    def declare_table(self, request: DeclareTableRequest) -> DeclareTableResponse:
        """Reserve a name and a directory for a table whose data any writer adds later.

        Raises
        ------
        TableAlreadyExistsError
        InvalidInputError
            The name cannot be used, or the location is not the one that the namespace chooses.
        """
        names = path_of(request.id, kind="table")
        found, view = self._place_of_new(names, request.properties)
        if found is not None:
            raise _exists(names)
        directory = self._new_directory(names, view)
        if request.location is not None and not self._is_at(request.location, directory):
            self._withdraw(directory)
            raise InvalidInputError(
                f"the table will be at {printable(self._uri_of(directory))}: leave out the location, or register a table "
                "that is elsewhere below the root"
            )
        if not self._directories.mark(directory, RESERVED):
            self._withdraw(directory)
            raise _exists(names)
        properties = dict(request.properties or {})
        self._registered(names, directory, properties)
        return DeclareTableResponse(
            location=self._uri_of(directory),
            storage_options=self._vended(),
            properties=properties or None,
            managed_versioning=True if self._properties.table_version_tracking_enabled else None,
        )

    def _is_at(self, location: str, directory: str) -> bool:
        try:
            return canonical_uri(location) == self._uri_of(directory)
        except ValueError:
            return False

    @with_codes
    def register_table(self, request: RegisterTableRequest) -> RegisterTableResponse:
        """Add a table that is in a directory below the root.

        The mode is Create, or Overwrite, which gives an existing name the other location.

        Raises
        ------
        TableAlreadyExistsError
        InvalidInputError
            The name cannot be used, or the location is not relative to the root.
        """
        names = path_of(request.id, kind="table")
        mode = choice("mode", request.mode, ("Create", "Overwrite"))
        if not self._properties.manifest_enabled:
            raise UnsupportedOperationError("tables are registered in __manifest: manifest_enabled is false")
        check_new_id(names)
        directory = _relative(request.location, names)
        entry = Entry(object_id(names), TABLE, directory, dict(request.properties or {}))

        def decide(view: View) -> Edit:
            self._check_namespace(names[:-1], view)
            known = view.find(entry.object_id)
            shown = self._shown(names, view)
            if known is None and (shown is None or shown.directory == directory):
                return Add([entry])
            if mode == "Create" or known is None or known.kind != TABLE:
                raise _exists(names)
            return Replace(entry.object_id, entry)

        self._catalog.change(decide)
        self._show(directory)
        return RegisterTableResponse(location=directory, properties=dict(entry.properties) or None)

    @with_codes
    def rename_table(self, request: RenameTableRequest) -> RenameTableResponse:
        """Rename a table, or move it to another namespace.

        Its files stay where they are: one row changes. A directory ``<name>.lance`` is hidden from listings of V1, so
        that the table has only its new name there too.

        Raises
        ------
        TableNotFoundError
        TableAlreadyExistsError
        InvalidInputError
            The new name cannot be used.
        """
        names = path_of(request.id, kind="table")
        if not self._properties.manifest_enabled:
            raise UnsupportedOperationError("tables are renamed in __manifest: manifest_enabled is false")
        given = request.new_namespace_id
        target = (*(names[:-1] if given is None else given), request.new_table_name)
        check_new_id(target)
        self._settled(names)
        moved: list[str] = []

        def decide(view: View) -> Edit:
            found = self._found(names, view)
            if found is None or not found.is_registered:
                raise TableNotFoundError(f"there is no table {printable('.'.join(names))!r} any more")
            self._check_namespace(target[:-1], view)
            self._check_free(target, view)
            moved.append(found.directory)
            return Replace(
                object_id(names), Entry(object_id(target), TABLE, found.directory, found.properties)
            )

        self._catalog.change(decide)
        directory = moved[-1]
        if len(target) == 1 and directory == directory_of(target[0]):
            self._show(directory)
        else:
            self._hide(directory)
        return RenameTableResponse()

    # -- parts ------------------------------------------------------------------------------------

    def _place_of_new(
        self, names: tuple[str, ...], properties: Mapping[str, str] | None
    ) -> tuple[Found | None, View]:
        """The table of a name that is to be created, if there is one, and the rows of the catalog."""
        self._check_depth(names)
        check_new_id(names)
        if properties and not self._properties.manifest_enabled:
            raise UnsupportedOperationError(
                "properties of tables are in __manifest: manifest_enabled is false"
            )
        view = self._view()
        if len(names) > 1:
            view.find_all([object_id(names[:-1]), object_id(names)])
        self._check_namespace(names[:-1], view)
        found = self._found(names, view)
        if found is None and view.find(object_id(names)) is not None:
            raise TableAlreadyExistsError(f"there is a namespace {printable('.'.join(names))!r} already")
        return found, view

    def _check_free(self, names: tuple[str, ...], view: View) -> None:
        """Refuse a name that an object has."""
        if view.find(object_id(names)) is not None or self._shown(names, view) is not None:
            raise _exists(names)

    def _new_directory(self, names: tuple[str, ...], view: View) -> str:
        """A directory for a new table, which nothing is in; in V1's place, hidden until the table has a row.

        Raises
        ------
        TableAlreadyExistsError
            Another process creates the table at the same time.
        """
        if not self._properties.manifest_enabled:
            return self._directory_of_v1(names[0])
        if len(names) == 1 and self._properties.dir_listing_enabled:
            directory = directory_of(names[0])
            # What a table had that was deregistered or renamed stays its own.
            is_free = not self._directories.contents(directory) and not view.tables_at(directory)
            if is_free and self._directories.claim(directory):
                return directory
            if is_free or self._directories.is_claimed(directory):
                raise TableAlreadyExistsError(
                    f"another process creates table {printable(names[0])!r} now; if it ended without doing so, the name is "
                    "free ten minutes after it began"
                )
        return hashed_directory(names)

    def _withdraw(self, directory: str) -> None:
        """Remove a new directory without a table; if another library made a table in it, show that."""
        if not self._properties.manifest_enabled:
            return
        if self._directories.has_versions(directory):
            self._show(directory)
        else:
            self._directories.remove(directory)

    def _directory_of_v1(self, name: str) -> str:
        directory = directory_of(name)
        if self._directories.has_versions(directory):
            raise TableAlreadyExistsError(
                f"directory {printable(directory)!r} has the files of a table that was deregistered: remove or rename it first"
            )
        if DEREGISTERED in self._directories.contents(directory):
            self._directories.unmark(directory, DEREGISTERED)
        return directory

    def _registered(self, names: tuple[str, ...], directory: str, properties: Mapping[str, str]) -> None:
        """Add the row of a new table; remove its directory if its name is taken."""
        if not self._properties.manifest_enabled:
            return
        entry = Entry(object_id(names), TABLE, directory, properties)

        def decide(view: View) -> Edit | None:
            self._check_namespace(names[:-1], view)
            known = view.find(entry.object_id)
            if known is not None and known.location == directory:
                return None
            if known is not None:
                raise _exists(names)
            return Add([entry])

        try:
            self._catalog.change(decide)
        except CommitUnknownError:
            raise
        except Exception:
            self._directories.remove(directory)
            raise
        self._show(directory)
        self._check_not_gone(names, directory)

    def _check_not_gone(self, names: tuple[str, ...], directory: str) -> None:
        """Refuse to go on if another process removed the directory of a table, whose row goes then."""
        if self._forget_if_gone(names, directory):
            raise ConcurrentModificationError(
                f"table {printable('.'.join(names))!r} was dropped while it was created"
            )

    def _set_properties(self, names: tuple[str, ...], found: Found, properties: Mapping[str, str]) -> None:
        """Give the table of a directory a row with these properties."""
        if not self._properties.manifest_enabled:
            return
        entry = Entry(object_id(names), TABLE, found.directory, properties)

        def decide(view: View) -> Edit | None:
            known = view.find(entry.object_id)
            if known is None and not found.is_registered:
                return Add([entry])
            self._check_same(names, found, view)
            return None if known == entry else Replace(entry.object_id, entry)

        self._catalog.change(decide)

    @staticmethod
    def _check_same(
        names: tuple[str, ...], found: Found, view: View, cause: BaseException | None = None
    ) -> None:
        """Refuse to go on if a table that had a row has none any more, or one of another directory."""
        known = view.find(object_id(names))
        is_gone = known is None and found.is_registered
        if is_gone or (known is not None and known.location != found.directory):
            raise ConcurrentModificationError(
                f"table {printable('.'.join(names))!r} was dropped or replaced while its rows were written"
            ) from cause

    def _vended(self) -> dict[str, str] | None:
        """The storage options for answers."""
        if not self._properties.vend_input_storage_options:
            return None
        return {name: str(value) for name, value in self.storage_options.items()}


def rows_of_stream(data: bytes) -> pa.Table:
    """The rows of an Arrow IPC stream.

    Raises
    ------
    InvalidInputError
        The bytes are no stream.
    """
    if not data:
        raise InvalidInputError("the body is an Arrow IPC stream, and it is empty")
    try:
        return pa.ipc.open_stream(data).read_all()
    except (pa.ArrowException, OSError) as error:
        raise InvalidInputError(f"the body is no Arrow IPC stream: {printable(error)}") from error


def _exists(names: tuple[str, ...]) -> TableAlreadyExistsError:
    return TableAlreadyExistsError(f"there is a table {printable('.'.join(names))!r} already")


def _check_not_lost(names: tuple[str, ...], error: BaseException) -> None:
    """Raise an error of its own if another process removed files while they were written."""
    is_missing = isinstance(error, CommitError) and isinstance(error.__cause__, DatasetNotFoundError)
    if is_missing or (isinstance(error, OSError) and error.errno == errno.ENOENT):
        raise ConcurrentModificationError(
            f"another process removed files of table {printable('.'.join(names))!r} while it was created: try again"
        ) from error


def _relative(location: str, names: tuple[str, ...]) -> str:
    try:
        return checked_location(location, object_id(names))
    except FormatError as error:
        raise InvalidInputError(
            f"location {printable(location)!r} is not that of a directory below the root, such as 'old/t.lance', or it is "
            f"{MANIFEST}"
        ) from error
