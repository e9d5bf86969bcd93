"""The bases whose files are copied to another place, and their files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from lancecy.changes.clone_files import FileCopy
from lancecy.changes.outside_blobs import bases_of_blobs
from lancecy.changes.shallow_clone import check_apart
from lancecy.errors import ConflictError, DatasetNotFoundError, NotFoundError, UnsupportedError, printable
from lancecy.records import dataclass
from lancecy.session import Session
from lancecy.store.base import Store
from lancecy.table.bases import Bases, canonical_base, spelling
from lancecy.table.location import TableLocation
from lancecy.table.manifest import BasePath, BasePaths
from lancecy.table.paths import DATA, DELETIONS, INDICES
from lancecy.table.refs.places import main_location
from lancecy.table.snapshot import Snapshot
from lancecy.write.targets import check_outside, targets

__all__ = ["BaseCopy", "NewPlaces", "base_copies"]

NewPlaces = Mapping[str, str]
"""New paths of bases, absolute or URIs, by the names or paths of the bases."""

_FOLDERS = (DATA, DELETIONS, INDICES)


@dataclass(frozen=True, slots=True)
class BaseCopy:
    """A base whose files are copied to another place.

    Attributes
    ----------
    recorded : BasePath
        As the table records it.
    copied : BasePath
        The same base with its new path.
    """

    recorded: BasePath
    copied: BasePath

    def files(
        self, source: tuple[Store, str], target: tuple[Store, str], wanted: Collection[str]
    ) -> Iterator[tuple[str, FileCopy]]:
        """The needed files in the base, each with what needs it.

        Parameters
        ----------
        source, target : (Store, str)
            Stores of the two places, and the prefix of the paths there.
        wanted : collection of str
            Paths below the base: of data and deletion files, and of folders of indices.

        Raises
        ------
        StoreError
            The storage failed.
        """
        (store, prefix), (_, target_prefix) = source, target
        for folder in _FOLDERS if self.recorded.is_dataset_root else ("",):
            with suppress(DatasetNotFoundError):
                for meta in store.list(f"{prefix}{folder}".rstrip("/")):
                    path = meta.path.removeprefix(prefix)
                    needed = next((name for name in self._needing(path) if name in wanted), None)
                    if needed is not None:
                        yield needed, FileCopy(store, meta.path, target_prefix + path, meta.size)

    def _needing(self, path: str) -> Iterator[str]:
        """The names that keep a file: its own, the data file beside whose blobs it is, or the folder of an index."""
        yield path
        kind = path.partition("/")[0] if self.recorded.is_dataset_root else ""
        rest = path.removeprefix(f"{kind}/")
        folder, slash, _ = rest.partition("/")
        if slash:
            below = f"{kind}/{folder}" if kind else folder
            yield f"{below}.lance"
            yield below


def store_of(base: BasePath, location: TableLocation, session: Session) -> tuple[Store, str]:
    """Store of a base, and the prefix of its paths, "" or ending in a slash.

    Parameters
    ----------
    base : BasePath
    location : TableLocation
        Its options ``base_<id>.<key>`` are those of the base.
    session : Session

    Raises
    ------
    PathPolicyError
        The table may not read the place.
    UnsupportedError
        No store for its scheme.
    """
    bases = Bases(location.open(session), location, BasePaths({base.id: base}), session)
    store, folder = bases.recorded(base.id)
    return store, f"{folder}/" if folder else ""


def base_copies(newest: Sequence[Snapshot], given: NewPlaces, root: str) -> dict[str, BaseCopy]:
    """The bases that a user names, by their canonical places.

    Parameters
    ----------
    newest : sequence of Snapshot
        The newest version of the main table, then those of the branches.
    given : mapping of str to str
    root : str
        URI of the table that will have the bases.

    Raises
    ------
    NotFoundError
        There is no such base.
    ConflictError
        Two bases would have the same place.
    PathPolicyError
        A path does not name a folder, holds credentials, or one of the two places is inside the other.
    UnsupportedError
        Blobs name objects in a base by their paths, and only their users know which.
    """
    found: dict[str, BaseCopy] = {}
    for reference, place in given.items():
        for base in _named(newest, reference):
            made = BaseCopy(base, replace(base, path=place))
            if canonical_base(made.copied) != spelling(base):  # else an earlier call has moved it
                check_apart(spelling(base), canonical_base(made.copied))
                found.setdefault(spelling(base), made)
    check_outside(root, [one.copied for one in found.values()])
    _check_distinct(newest, found)
    _check_blobs(newest, found)
    return found


def _named(newest: Sequence[Snapshot], reference: str) -> Iterator[BasePath]:
    """The bases of a name or path, of each branch."""
    missing: NotFoundError | None = None
    is_found = False
    for snapshot in newest:
        known = snapshot.manifest.base_paths
        main = main_location(snapshot.location, snapshot.manifest.branch).uri
        try:
            (number,) = targets(known, [reference])
        except NotFoundError as error:
            missing = missing or error
            continue
        base = known[number or 0]
        if not f"{spelling(base)}/".startswith(f"{main}/"):  # files there are copied with the table
            is_found = True
            yield base
    if not is_found:
        raise missing or NotFoundError(
            f"base {reference!r} is in the table's own folder, which is copied as a whole",
            kind="base",
            name=reference,
        )


def _check_distinct(newest: Sequence[Snapshot], found: Mapping[str, BaseCopy]) -> None:
    """Refuse one place for two bases."""
    for snapshot in newest:
        used: dict[str, BasePath] = {}
        for base in snapshot.manifest.base_paths.values():
            copied = found.get(spelling(base))
            place = spelling(base if copied is None else copied.copied)
            other = used.setdefault(place, base)
            if other is not base:
                shown = [printable(one.name or one.path) for one in (other, base)]
                raise ConflictError(
                    f"bases {shown[0]!r} and {shown[1]!r} would both be at {printable(place)}: choose a place for each"
                )


def _check_blobs(newest: Iterable[Snapshot], found: Mapping[str, BaseCopy]) -> None:
    """Refuse a base whose objects blobs name: no manifest lists them."""
    for snapshot in newest:
        known = snapshot.manifest.base_paths
        moved = {number for number, base in known.items() if spelling(base) in found}
        for number in sorted(moved & bases_of_blobs(snapshot)) if moved else ():
            raise UnsupportedError(
                f"blobs of version {snapshot.version} name objects in {snapshot.bases.described(number)} that are no files of "
                "the table: copy all objects of the base with a tool of the storage, then call relocate_base",
                feature="copy of a base with objects of blobs",
            )
