"""Directories of tables below a root, and the markers in them.

Source: namespace document, "V1: Directory Listing"; the markers are those of pylance.
"""

from __future__ import annotations

import errno
import os
import platform
import uuid
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from lancecy.errors import DatasetNotFoundError, ExistsError, PathPolicyError, StoreError, printable
from lancecy.namespace.entries import MANIFEST
from lancecy.namespace.names import DIRECTORY_SUFFIX, directory_of, is_hashed
from lancecy.session import Session
from lancecy.store.base import PutMode, Store
from lancecy.store.folders import names_in, remove_folder
from lancecy.store.new_file import TEMPORARY
from lancecy.store.paths import LONGEST_NAME, check_path, is_safe_path
from lancecy.table.location import TableLocation
from lancecy.table.paths import VERSIONS, parse_manifest_name

__all__ = ["DEREGISTERED", "RESERVED", "Directories"]

RESERVED = ".lance-reserved"
"""Marker of a table that is declared; its data may be written later."""
DEREGISTERED = ".lance-deregistered"
"""Marker of a directory that is not a table of the namespace any more."""
_CONTENT = b"reserved"
# How the marker begins of a directory that is being removed, and of one that is being made; there the process follows.
# Other libraries look at its presence only.
_REMOVED, _CREATED = b"removed", b"created"
_UNFINISHED = (_REMOVED, _CREATED)
# After this a directory that is being made is taken for one whose process died.
_LONGEST_CREATION = timedelta(minutes=10)
_TRIES = 10


class Directories:
    """The directories below a root.

    Parameters
    ----------
    location : TableLocation
        Of the root.
    session : Session
    """

    def __init__(self, location: TableLocation, session: Session) -> None:
        self._location = location
        self._session = session

    @property
    def _store(self) -> Store:
        # Links may lead out of the root.
        return self._location.open(self._session, follow_symlinks=False)

    def check_inside(self, directory: str) -> None:
        """Refuse a directory that a symbolic link is on the way to.

        Raises
        ------
        PathPolicyError
        """
        root = self._location.uri
        if "://" in root:
            return
        place = f"{os.path.realpath(root).rstrip('/')}/{directory}"
        if os.path.realpath(place) != place:
            raise PathPolicyError(
                f"a symbolic link is on the way to {printable(directory)!r}, and may lead out of the root: nothing is read, "
                "written or removed there",
                path=directory,
            )

    def tables(self) -> list[str]:
        """Names of the tables that directories of the root show, in order.

        Raises
        ------
        StoreError
            The root is a file or cannot be read.
        """
        return self.existing(self.names())

    def names(self) -> list[str]:
        """Names that directories of the root have for tables, in order; also of empty and deregistered ones.

        Raises
        ------
        StoreError
            The root is a file or cannot be read.
        """
        return sorted(name.removesuffix(DIRECTORY_SUFFIX) for name in self._folders() if _is_table(name))

    def existing(self, names: list[str]) -> list[str]:
        """Those of some names that tables have (:meth:`exists`)."""
        found = self._session.map(self.exists, names, blocking=True)
        return [name for name, is_table in zip(names, found, strict=True) if is_table]

    def hashed(self) -> list[str]:
        """Directories of the root that have the name of a table's directory of V2."""
        return [name for name in self._folders() if is_hashed(name)]

    def _folders(self) -> list[str]:
        return [name.removesuffix("/") for name in names_in(self._store) if name.endswith("/")]

    def contents(self, directory: str) -> frozenset[str]:
        """The names directly in a directory, but for temporary ones; empty if it is missing or a symbolic link."""
        if not is_safe_path(directory) or any(len(n.encode()) > LONGEST_NAME for n in directory.split("/")):
            return frozenset()
        try:
            found = (name.removesuffix("/") for name in names_in(self._store, directory))
            return frozenset(name for name in found if not name.startswith(TEMPORARY))
        except PathPolicyError:
            return frozenset()

    def exists(self, name: str) -> bool:
        """Whether there is a table of this name: its directory has at least one entry and is not deregistered."""
        found = self.contents(directory_of(name))
        return bool(found) and DEREGISTERED not in found

    def has_versions(self, directory: str) -> bool:
        """Whether a directory has a version of a table, or one that is being written."""
        return next(iter(self._store.list(f"{check_path(directory)}/{VERSIONS}")), None) is not None

    def is_only_declared(self, directory: str) -> bool:
        """Whether a directory is reserved for a table without data, also while another process writes the first version."""
        if RESERVED not in self.contents(directory):
            return False
        listed = self._store.list(f"{check_path(directory)}/{VERSIONS}")
        parsed = (parse_manifest_name(meta.path.rpartition("/")[2]) for meta in listed)
        return not any(found is not None and found.is_published for found in parsed)

    def mark(self, directory: str, marker: str, content: bytes = _CONTENT) -> bool:
        """Put a marker into a directory.

        Parameters
        ----------
        directory, marker : str
        content : bytes

        Returns
        -------
        bool
            False if it is there already. Of several processes that put it at once, exactly one gets True.
        """
        path, attempt = check_path(f"{directory}/{marker}"), 0
        while True:
            attempt += 1
            try:
                self._store.put(path, content, PutMode.CREATE)
            except ExistsError:
                return False
            except StoreError as error:
                # Another process removed the directory meanwhile; the next try makes it again.
                if error.errno != errno.ENOENT or attempt == _TRIES:
                    raise
            else:
                return True

    def hide(self, directory: str, *, is_removed: bool) -> bool:
        """Hide a directory from listings of V1, if there is such a directory.

        Parameters
        ----------
        directory : str
        is_removed : bool
            Whether the directory is about to be removed. The marker says so, so that :meth:`is_left_over` knows a
            directory whose removal did not end from one that was deregistered with its files.

        Returns
        -------
        bool
            Whether it was shown before.
        """
        path = check_path(f"{directory}/{DEREGISTERED}")
        if not self.contents(directory):
            return False
        try:
            self._store.put(path, _REMOVED if is_removed else _CONTENT, PutMode.CREATE)
        except ExistsError:
            if not is_removed and self._marker(directory).startswith(_UNFINISHED):
                self._store.put(path, _CONTENT)
            return False
        except StoreError as error:
            if error.errno != errno.ENOENT:
                raise
            return False
        return True

    def claim(self, directory: str) -> bool:
        """Make a directory that is hidden from listings of V1 until its table has a row (:meth:`unmark`).

        Parameters
        ----------
        directory : str
            Has nothing in it.

        Returns
        -------
        bool
            False if another process made it.
        """
        return self.mark(directory, DEREGISTERED, _CREATED + _this_process())

    def is_claimed(self, directory: str) -> bool:
        """Whether another process makes a table in a directory now. One of another machine may have ended."""
        marker = self._marker(directory)
        if not marker.startswith(_CREATED) or _has_ended(marker.removeprefix(_CREATED)):
            return False
        with suppress(DatasetNotFoundError):
            modified = self._store.head(f"{directory}/{DEREGISTERED}").modified
            return modified is None or datetime.now(UTC) - modified < _LONGEST_CREATION
        return False

    def is_left_over(self, directory: str) -> bool:
        """Whether a directory that no table uses is what a process left that died while it made or removed a table."""
        contents = self.contents(directory)
        return DEREGISTERED in contents and (
            len(contents) == 1 or self._marker(directory).startswith(_UNFINISHED)
        )

    def _marker(self, directory: str) -> bytes:
        """The content of the marker of a hidden directory; empty if there is none."""
        try:
            return bytes(self._store.get(f"{directory}/{DEREGISTERED}"))
        except DatasetNotFoundError:
            return b""

    def unmark(self, directory: str, marker: str) -> None:
        """Remove a marker; a missing one is no error."""
        self._store.delete([check_path(f"{directory}/{marker}")])

    def remove(self, directory: str) -> None:
        """Remove a directory with everything in it; a missing one is no error.

        Parameters
        ----------
        directory : str
            Never the root or that of ``__manifest``.

        Raises
        ------
        PathPolicyError
            It is no directory of a table below the root, or a symbolic link is on the way to it.
        StoreError
            The storage failed.
        """
        path = check_path(directory.removesuffix("/"))
        if path.partition("/")[0] == MANIFEST:
            raise PathPolicyError(f"{path!r} is the directory of the catalog and no table", path=path)
        remove_folder(self._store, path, DEREGISTERED)

    def is_older(self, directory: str, moment: datetime) -> bool:
        """Whether all objects in a directory were written before a moment; those without a time were not."""
        metas = self._store.list(check_path(directory))
        return all(meta.modified is not None and meta.modified < moment for meta in metas)


def _this_process() -> bytes:
    return f" {os.getpid()} {_machine()}".encode()


def _machine() -> str:
    """What tells the processes of this system from those of another one with the same name, such as ``localhost``."""
    parts = [platform.node()]
    try:
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        # Containers number their processes anew.
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    except OSError:  # other systems than Linux
        parts.append(f"{uuid.getnode():x}")
    return " ".join(parts)


def _has_ended(process: bytes) -> bool:
    """Whether a process (:func:`_this_process`) is known to have ended."""
    number, _, machine = process.decode(errors="replace").strip().partition(" ")
    # Elsewhere ``os.kill`` ends processes.
    if os.name != "posix" or machine != _machine() or not number.isdecimal():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        pass  # it belongs to another user, or has no valid number
    return False


def _is_table(name: str) -> bool:
    return name.endswith(DIRECTORY_SUFFIX) and is_safe_path(name)
