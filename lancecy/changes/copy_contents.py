"""The files that the versions of a copy of a table need.

All manifests are read, and the folders are listed afterwards, so that every file of a version is in the list unless a cleanup has
removed it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType

import numpy as np

from lancecy.changes.base_files import moved_bases
from lancecy.changes.clone_files import FileCopy
from lancecy.changes.copy_bases import BaseCopy
from lancecy.changes.copy_selection import CopySelection, home_of
from lancecy.errors import ConflictError, DatasetNotFoundError, LanceError, printable
from lancecy.progress import Progress, Step
from lancecy.session import Session
from lancecy.store.base import Store
from lancecy.table.bases import spelling
from lancecy.table.cleanup.plan import needed_by
from lancecy.table.location import TableLocation
from lancecy.table.manifest import BasePath
from lancecy.table.paths import DATA, DELETIONS, INDICES, TRANSACTIONS
from lancecy.table.refs import MAIN
from lancecy.table.refs.places import branch_location
from lancecy.table.snapshot import load_snapshot
from lancecy.table.versions import ManifestLocation
from lancecy.table.wire.references import NamesByBase, decode_names

__all__ = ["CopyContents", "inside"]

_FOLDERS = (DATA, DELETIONS, INDICES, TRANSACTIONS)
# Manifests that are read at once; only the names of their files stay in memory.
_GROUP = 16
# Versions without these files can be read.
_OPTIONAL = (TRANSACTIONS, INDICES)


def inside(root: str, place: str) -> str | None:
    """The path of a place below the root of a main table, with "/" at its end; None if it is elsewhere.

    Examples
    --------
    >>> inside("/t", "/t"), inside("/t", "/t/tree/dev"), inside("/t", "/table")
    ('', 'tree/dev/', None)
    """
    root, place = f"{root.rstrip('/')}/", f"{place.rstrip('/')}/"
    return place.removeprefix(root) if place.startswith(root) else None


class CopyContents:
    """Finds the files of the versions to copy.

    Parameters
    ----------
    main : TableLocation
        Of the source.
    store : Store
        Of the same place.
    session : Session
    selection : CopySelection
    bases : mapping of place to BaseCopy
        The bases outside of the table whose files are wanted too.

    Attributes
    ----------
    moved : dict of branch to mapping of id to str
        The places of bases that moved together with the source, known after :meth:`read`.
    """

    def __init__(
        self,
        main: TableLocation,
        store: Store,
        session: Session,
        selection: CopySelection,
        bases: Mapping[str, BaseCopy] = MappingProxyType({}),
    ) -> None:
        self.main = main
        self.store = store
        self.session = session
        self.selection = selection
        # The first version that needs a file, by the file's path below the main root.
        self._needed: dict[str, tuple[str | None, ManifestLocation]] = {}
        self._homes: set[str] = set()
        # The same of each base, by the path below it.
        self._in_bases: dict[str, dict[str, tuple[str | None, ManifestLocation]]] = {
            place: {} for place in bases
        }
        self.moved: dict[str | None, dict[int, str]] = {}

    def read(self, progress: Progress) -> None:
        """Read which files the versions need.

        Parameters
        ----------
        progress : function of a Step

        Raises
        ------
        ConflictError
            A cleanup removed a version meanwhile.
        FormatError, LimitError
            A manifest is damaged.
        UnsupportedError
            A version has features that may need files unknown to this release.
        StoreError
            The storage failed.
        """
        total, done = sum(map(len, self.selection.versions.values())), 0
        for branch, versions in self.selection.versions.items():
            moved = self.moved[branch] = self._moved(branch)
            for start in range(0, len(versions), _GROUP):
                progress(Step("read versions", done, total, "versions"))
                self._read(branch, versions[start : start + _GROUP], moved)
                done += len(versions[start : start + _GROUP])
        progress(Step("read versions", total, total, "versions"))

    def files(self) -> list[FileCopy]:
        """The files that the versions need and that are in the table's folder; manifests are not among them.

        Raises
        ------
        ConflictError
            A cleanup removed a version meanwhile.
        DatasetNotFoundError
            The table has lost a file.
        StoreError
            The storage failed.
        """
        copies = [copy for home in sorted(self._homes) for copy in self._listed(home)]
        there = {copy.path.removesuffix(path) + needed_by(path) for path, copy in copies}
        return [copy for _, copy in copies] + self._others(there)

    def base_files(
        self, place: str, base: BaseCopy, source: tuple[Store, str], target: tuple[Store, str]
    ) -> list[FileCopy]:
        """The files that the versions need and that are in a base; raises as :meth:`files`.

        Parameters
        ----------
        place : str
            Of the base, as in ``bases``.
        base : BaseCopy
        source, target : (Store, str)
            Stores of its two places, and the prefix of the paths there.
        """
        wanted = self._in_bases[place]
        found = list(base.files(source, target, wanted)) if wanted else []
        needed = {name for name, _ in found}
        for name in sorted(wanted.keys() - needed):
            if "." in name:  # a version can be read without the folders of its indices
                raise self._lost(wanted[name], source[1] + name, source[0].uri)
        return [file for _, file in found]

    def manifest(self, branch: str | None, one: ManifestLocation) -> bytes:
        """The bytes of a manifest; raises as :meth:`files`."""
        path = home_of(branch) + one.path
        try:
            return self.store.get(path).tobytes()
        except DatasetNotFoundError:
            raise _removed(branch, one) from None

    def explained(self, file: FileCopy, error: LanceError) -> LanceError:
        """An error about a file, to be raised; one about a missing file names the version that needs it.

        Parameters
        ----------
        file : FileCopy
        error : LanceError
        """
        if not isinstance(error, DatasetNotFoundError) or file.source is not self.store:
            return error
        home = next((home for home in sorted(self._homes, reverse=True) if file.path.startswith(home)), "")
        return self._missing(home + needed_by(file.path[len(home) :]))

    # -- manifests --------------------------------------------------------------------------------

    def _moved(self, branch: str | None) -> dict[int, str]:
        """The places of bases that moved with the table, by id."""
        newest = self.selection.versions[branch][-1].version
        return moved_bases(load_snapshot(branch_location(self.main, branch), newest, session=self.session))

    def _read(
        self, branch: str | None, versions: Sequence[ManifestLocation], moved: Mapping[int, str]
    ) -> None:
        """Note the files that some versions need."""
        home = home_of(branch)

        def decoded(one: ManifestLocation) -> NamesByBase:
            memory = np.frombuffer(self.manifest(branch, one), np.uint8)
            return decode_names(memory, home + one.path, one.version, self.main.limits)

        self._homes.add(home)
        found = self.session.map(decoded, versions, blocking=not self.store.traits.is_mapped)
        for one, needs in zip(versions, found, strict=True):
            for base_id, name in needs.names:
                if base_id is None:
                    self._needed.setdefault(home + name, (branch, one))
                    continue
                base = needs.bases.get(base_id)
                path = None if base is None else self._in_main(base, name, moved)
                if path is not None:
                    self._needed.setdefault(path, (branch, one))
                elif base is not None and (wanted := self._in_bases.get(spelling(base))) is not None:
                    below = name if base.is_dataset_root else name.partition("/")[2]
                    wanted.setdefault(below, (branch, one))

    def _in_main(self, base: BasePath, name: str, moved: Mapping[int, str]) -> str | None:
        """Path of a file in a base below the main root, None if the base is elsewhere."""
        home = inside(self.main.uri, moved.get(base.id) or spelling(base))
        if home is None:
            return None
        if not base.is_dataset_root:
            return home + name.partition("/")[2]
        self._homes.add(home)
        return home + name

    # -- files ------------------------------------------------------------------------------------

    def _listed(self, home: str) -> Iterator[tuple[str, FileCopy]]:
        """The needed files in the folders of a branch, each with its path below the branch."""
        for folder in _FOLDERS:
            with suppress(DatasetNotFoundError):
                for meta in self.store.list(home + folder):
                    path = meta.path[len(home) :]
                    if home + needed_by(path) in self._needed:
                        yield path, FileCopy(self.store, meta.path, meta.path, meta.size)

    def _others(self, there: Collection[str]) -> list[FileCopy]:
        """The needed files that are in none of the listed folders."""
        wanted = sorted(path for path in self._needed.keys() - there if not self._is_optional(path))

        def sized(path: str) -> FileCopy:
            try:
                return FileCopy(self.store, path, path, self.store.head(path).size)
            except DatasetNotFoundError:
                raise self._missing(path) from None

        return self.session.map(sized, wanted, blocking=not self.store.traits.is_mapped)

    def _is_optional(self, path: str) -> bool:
        """Whether a version without this file can be read."""
        return any(path.startswith(f"{home}{folder}/") for home in self._homes for folder in _OPTIONAL)

    def _missing(self, path: str) -> LanceError:
        return self._lost(self._needed[path], path, self.store.uri)

    def _lost(self, needed: tuple[str | None, ManifestLocation], path: str, uri: str) -> LanceError:
        """The error of a missing file that a version needs."""
        branch, one = needed
        try:
            self.store.head(home_of(branch) + one.path)
        except DatasetNotFoundError:
            return _removed(branch, one)
        return DatasetNotFoundError(
            f"file {path!r} of version {one.version} of {printable(branch or MAIN)} is missing in "
            f"{printable(uri)}; versions= copies others only",
            kind="file",
            name=path,
        )


def _removed(branch: str | None, one: ManifestLocation) -> ConflictError:
    return ConflictError(
        f"version {one.version} of {printable(branch or MAIN)} was removed while it was copied: is a cleanup running? A tag "
        "prevents this. Remove the unfinished copy, and copy again"
    )
