"""Copies the files of a branch into the folders of its parent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from os.path import realpath
from uuid import UUID

from lancecy.changes.base_files import moved_bases
from lancecy.changes.lineage import main_of
from lancecy.errors import DatasetNotFoundError, MissingFileError, PathPolicyError, StoreError
from lancecy.progress import Progress, Step
from lancecy.records import dataclass
from lancecy.store.base import Store
from lancecy.store.copying import copy_object
from lancecy.table.bases import spelling
from lancecy.table.manifest import BasePath, DataFile, Fragment
from lancecy.table.paths import DATA, DELETIONS, INDICES, check_name
from lancecy.table.refs import TREE
from lancecy.table.snapshot import Snapshot

__all__ = ["BranchFiles", "branch_files", "copy_files", "in_own_folder"]

# Files that are copied before the progress is told.
_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class _File:
    """A file to copy; the path below the folder of either table is the same."""

    store: Store
    prefix: str
    path: str
    size: int | None
    fragment: int | None = None


@dataclass(frozen=True, slots=True)
class BranchFiles:
    """Where the files of a branch are for its parent.

    Attributes
    ----------
    places : mapping of (int or None) to (int or None)
        For each base of the branch, the base of the parent; None is the own folder of either.
    bases : tuple of BasePath
        Bases that only the branch has.
    copied : tuple of Fragment
        Fragments with those of their files that have to be copied.
    files : tuple of _File
        All files to copy.
    """

    places: dict[int | None, int | None]
    bases: tuple[BasePath, ...]
    copied: tuple[Fragment, ...]
    files: tuple[_File, ...]

    @property
    def nbytes(self) -> int:
        """Size of all files to copy; asks for sizes that are not known."""
        return sum(
            file.store.head(f"{file.prefix}{file.path}").size if file.size is None else file.size
            for file in self.files
        )


def branch_files(branch: Snapshot, target: Snapshot) -> BranchFiles:
    """Where the files of a branch's version are for the branch's parent, and which must be copied there.

    Parameters
    ----------
    branch, target : Snapshot

    Raises
    ------
    PathPolicyError, FormatError
        A base of the branch may not be read, or has no valid path.
    StoreError
        A folder cannot be listed.
    """
    own, places, bases = set[int | None]({None}), dict[int | None, int | None]({None: None}), list[BasePath]()
    known = {
        (spelling(base), base.is_dataset_root): number for number, base in target.manifest.base_paths.items()
    }
    below_main = f"{main_of(target).uri}/{TREE}/"
    moved = moved_bases(branch)
    for number, base in branch.manifest.base_paths.items():
        place = spelling(base)
        if (place, base.is_dataset_root) in known:
            places[number] = known[place, base.is_dataset_root]
            continue
        place = moved.get(number, place)
        if _is_same(place, target.uri) if number in moved else _is_own(branch, number, base, target):
            places[number] = None
        elif base.is_dataset_root and place.startswith(below_main):
            own.add(number)
            places[number] = None
        else:
            places[number] = number
            bases.append(base)
    there = _Own.of(target)
    copied = tuple(_copied_parts(branch.fragments, own, there))
    return BranchFiles(places, tuple(bases), copied, tuple(_files(branch, copied, own, there)))


@dataclass(frozen=True, slots=True)
class _Own:
    """The files that a version has in its own folder: an earlier fast-forward has copied them, under their names."""

    data: frozenset[DataFile]
    deletions: frozenset[str]
    indices: frozenset[UUID]

    @classmethod
    def of(cls, snapshot: Snapshot) -> _Own:
        held = [(part.stored_id, part.deletion_file) for part in snapshot.fragments]
        return cls(
            frozenset(f for part in snapshot.fragments for f in part.files if f.base_id is None),
            frozenset(f.name(n) for n, f in held if f is not None and f.base_id is None),
            frozenset(entry.uuid for entry in snapshot.indices() if entry.base_id is None),
        )


def _is_own(branch: Snapshot, number: int, base: BasePath, target: Snapshot) -> bool:
    """Whether a base of the branch is the folder of the parent, which may have several names."""
    if not base.is_dataset_root:
        return False
    try:
        store, prefix = branch.bases.folder(number, DATA)
    except PathPolicyError:
        return False  # elsewhere, and not to be read from here
    return _is_same(f"{store.uri}/{prefix}".rstrip("/"), f"{target.uri}/{DATA}")


def _is_same(place: str, other: str) -> bool:
    return _real(place) == _real(other)


def _real(place: str) -> str:
    """A local place without symbolic links."""
    return realpath(place) if place.startswith("/") else place


def _copied_parts(fragments: Sequence[Fragment], own: set[int | None], there: _Own) -> Iterator[Fragment]:
    for fragment in fragments:
        files = tuple(
            file
            for file in fragment.files
            if file.base_id in own and replace(file, base_id=None) not in there.data
        )
        deleted = fragment.deletion_file
        if deleted is not None and (
            deleted.base_id not in own or deleted.name(fragment.stored_id) in there.deletions
        ):
            deleted = None
        if files or deleted is not None:
            yield replace(fragment, files=files, deletion_file=deleted)


def in_own_folder(fragments: Sequence[Fragment]) -> tuple[Fragment, ...]:
    """Copied fragments, as they are in the parent's own folder."""
    return tuple(
        replace(
            fragment, files=tuple(replace(file, base_id=None) for file in fragment.files), deletion_file=None
        )
        for fragment in fragments
    )


def _files(
    branch: Snapshot, copied: Sequence[Fragment], own: set[int | None], there: _Own
) -> Iterator[_File]:
    for number in sorted(own, key=lambda number: -1 if number is None else number):
        yield from _data_files(branch, number, copied)
        yield from _deletion_files(branch, number, copied)
    for entry in branch.indices():
        if entry.base_id in own and entry.uuid not in there.indices:
            store, prefix = branch.bases.folder(entry.base_id, INDICES)
            root = prefix.removesuffix(f"{INDICES}/")
            for meta in store.list(f"{prefix}{entry.uuid}"):
                yield _File(store, root, meta.path.removeprefix(root), meta.size)


def _data_files(branch: Snapshot, base_id: int | None, copied: Sequence[Fragment]) -> Iterator[_File]:
    """Data files in a base, and the blobs beside them, which are in a folder of the file's name."""
    store, prefix = branch.bases.folder(base_id, DATA)
    root = prefix.removesuffix(f"{DATA}/")
    stems = set[str]()
    for part in copied:
        for file in part.files:
            if file.base_id == base_id:
                name = check_name(file.path, "name of a data file")
                # Old releases stated wrong sizes of 0.1 files.
                yield _File(store, root, f"{DATA}/{name}", None if file.is_legacy else file.size, part.id)
                stems.add(name.rpartition(".")[0])
    if stems and any(node.is_blob for node in branch.schema.by_id.values()):
        for meta in store.list(prefix.rstrip("/")):
            folder, slash, _ = meta.path.removeprefix(prefix).partition("/")
            if slash and folder in stems:
                yield _File(store, root, meta.path.removeprefix(root), meta.size)


def _deletion_files(branch: Snapshot, base_id: int | None, copied: Sequence[Fragment]) -> Iterator[_File]:
    store, prefix = branch.bases.folder(base_id, DELETIONS)
    root = prefix.removesuffix(f"{DELETIONS}/")
    for part in copied:
        deleted = part.deletion_file
        if deleted is not None and deleted.base_id == base_id:
            name = deleted.name(part.stored_id)
            yield _File(store, root, f"{DELETIONS}/{name}", None, part.id)


def copy_files(
    files: BranchFiles, branch: Snapshot, target: Snapshot, store: Store, progress: Progress
) -> int:
    """Copy the files into the parent's folder. They keep their names, which are random, so that a repeated copy writes
    the same bytes to the same names.

    Parameters
    ----------
    files : BranchFiles
    branch, target : Snapshot
    store : Store
        Of the target, for writing.
    progress : Progress

    Returns
    -------
    int
        Bytes copied.

    Raises
    ------
    MissingFileError
        The branch has lost a file.
    StoreError
        A file has not the size that the manifest states, or the storage failed.
    """
    total, nbytes = len(files.files), 0
    progress(Step("fast-forward", 0, total, "files"))

    def copied(file: _File) -> int:
        try:
            return _copied(file, store)
        except DatasetNotFoundError as error:
            if file.fragment is None:
                raise
            what = f"nothing was changed: the branch has lost {file.path!r} of fragment {file.fragment}"
            raise MissingFileError(what, path=file.path, fragment=file.fragment) from error
        except StoreError as error:
            raise error.within("nothing was changed: a file of the branch")

    blocking = not target.store.traits.is_mapped
    for start in range(0, total, _AT_ONCE):
        some = files.files[start : start + _AT_ONCE]
        nbytes += sum(branch.session.map(copied, some, blocking=blocking))
        progress(Step("fast-forward", start + len(some), total, "files", some[-1].path))
    return nbytes


def _copied(file: _File, target: Store) -> int:
    """Copy one file; returns its size."""
    path = file.prefix + file.path
    size = file.store.head(path).size
    if file.size is not None and size != file.size:
        raise StoreError(f"it has {size} bytes instead of {file.size}", path=path, store=file.store.uri)
    if _size_of(target, file.path) not in (None, size):
        raise StoreError(f"{target.uri} has another file of its name", path=file.path, store=target.uri)
    copy_object(file.store, path, target, file.path, size)
    made = target.head(file.path).size
    if made != size:
        raise StoreError(f"its copy has {made} bytes instead of {size}", path=file.path, store=target.uri)
    return size


def _size_of(store: Store, path: str) -> int | None:
    try:
        return store.head(path).size
    except DatasetNotFoundError:
        return None
