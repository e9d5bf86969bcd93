"""The files that one version needs, and their names in a clone that has all of them itself."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence

from lancecy.errors import DatasetNotFoundError, FormatError, LanceError
from lancecy.records import dataclass
from lancecy.store.base import Store
from lancecy.table.manifest import DataFile, ExternalFile, Fragment, IndexEntry
from lancecy.table.paths import DATA, DELETIONS, INDICES, check_relative, data_file_name
from lancecy.table.snapshot import Snapshot
from lancecy.table.wire.indices import describe_index

__all__ = [
    "CloneFiles",
    "FileCopy",
    "blob_fields",
    "blobs_of",
    "clone_files",
    "explained",
    "other_name",
    "sized",
]

_NAMES = uuid.UUID("0f7a2c5e-5d0b-4d6e-9a51-7c1f0f2f8e11")
_BLOB = ".blob"


@dataclass(frozen=True, slots=True)
class FileCopy:
    """One file of a version and its place in the clone.

    Attributes
    ----------
    source : Store
    path : str
        In ``source``.
    target : str
        Path below the clone's root.
    size : int, bytes
    fragment : Fragment or None
        The fragment that needs it; None for files of indices.
    """

    source: Store
    path: str
    target: str
    size: int
    fragment: Fragment | None = None


@dataclass(frozen=True, slots=True)
class CloneFiles:
    """All files of a version.

    Attributes
    ----------
    files : tuple of FileCopy
        No two have the same target.
    renamed : mapping of (base id or None, name) to str
        New names of data files whose name another base has for another file.
    """

    files: tuple[FileCopy, ...]
    renamed: Mapping[tuple[int | None, str], str]

    @property
    def nbytes(self) -> int:
        """Size of all files."""
        return sum(file.size for file in self.files)


def clone_files(snapshot: Snapshot) -> CloneFiles:
    """The files that a version needs, of all its bases: data, blobs, deletions, row ids and indices.

    Names are chosen by the version alone, so that a clone that continues chooses the same ones. Each file is looked up.

    Parameters
    ----------
    snapshot : Snapshot

    Raises
    ------
    DatasetNotFoundError
        A file is missing: ``MissingFileError`` for one of a fragment.
    PathPolicyError, FormatError, UnsupportedError
        See ``Bases.data``.
    StoreError
        The storage failed.
    """
    names = _DataNames(snapshot)
    wanted = [*names.wanted(), *_deletions(snapshot), *_external(snapshot)]
    fetch = _is_slow(snapshot)
    found = snapshot.session.map(lambda file: sized(snapshot, file), wanted, blocking=fetch)
    blobs = snapshot.session.map(blobs_of, names.with_blobs(), blocking=fetch)
    parts = snapshot.session.map(lambda entry: _index(snapshot, entry), snapshot.indices(), blocking=fetch)
    beside = [file for group in (*blobs, *parts) for file in group]
    return CloneFiles(_distinct([*found, *beside]), names.renamed)


class _DataNames:
    """The data files of a version, and their names in the clone."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.renamed: dict[tuple[int | None, str], str] = {}
        self._files: dict[tuple[str, str], FileCopy] = {}
        self._with_blobs: list[FileCopy] = []
        self._blob_ids = blob_fields(snapshot)
        taken: set[str] = set()
        # The table's own files keep their names.
        for fragment, file in sorted(_data_files(snapshot), key=lambda pair: pair[1].base_id is not None):
            self._add(snapshot, fragment, file, taken)

    def wanted(self) -> list[FileCopy]:
        """Data files, still without sizes."""
        return list(self._files.values())

    def with_blobs(self) -> list[FileCopy]:
        """Those that may have blobs beside them."""
        return self._with_blobs

    def _add(self, snapshot: Snapshot, fragment: Fragment, file: DataFile, taken: set[str]) -> None:
        store, path = snapshot.bases.data(file)
        place = store.uri, path
        known = self._files.get(place)
        if known is None:
            name = file.path if file.path not in taken else other_name(store, path)
            taken.add(name)
            known = self._files[place] = FileCopy(store, path, f"{DATA}/{name}", 0, fragment)
            if not self._blob_ids.isdisjoint(file.fields):
                self._with_blobs.append(known)
        if known.target != f"{DATA}/{file.path}":
            self.renamed[file.base_id, file.path] = known.target.removeprefix(f"{DATA}/")


def _data_files(snapshot: Snapshot) -> Iterator[tuple[Fragment, DataFile]]:
    return ((fragment, file) for fragment in snapshot.fragments for file in fragment.files)


def blob_fields(snapshot: Snapshot) -> frozenset[int]:
    """Ids of the columns whose values may be in objects beside the data file."""
    return frozenset(
        part.id
        for top in snapshot.schema.fields
        for node in top.walk()
        if node.is_blob_v2
        for part in node.walk()
    )


def other_name(store: Store, path: str) -> str:
    """A name for a data file whose own name is taken; the same one whenever it is asked for."""
    return data_file_name(uuid.uuid5(_NAMES, f"{store.uri}/{path}"))


def blobs_of(file: FileCopy) -> list[FileCopy]:
    """The objects beside a data file that hold its blobs; their folder has its name."""
    folder, target = file.path.removesuffix(".lance"), file.target.removesuffix(".lance")
    return [
        FileCopy(file.source, meta.path, f"{target}{meta.path[len(folder) :]}", meta.size, file.fragment)
        for meta in file.source.list(folder)
        if meta.path.endswith(_BLOB)
    ]


def _deletions(snapshot: Snapshot) -> Iterator[FileCopy]:
    for fragment in snapshot.fragments:
        if fragment.deletion_file is not None:
            store, path = snapshot.bases.deletion(fragment.id, fragment.deletion_file)
            name = fragment.deletion_file.name(fragment.stored_id)
            yield FileCopy(store, path, f"{DELETIONS}/{name}", 0, fragment)


def _external(snapshot: Snapshot) -> Iterator[FileCopy]:
    """Files with row ids or versions of rows."""
    for fragment in snapshot.fragments:
        for stored in (fragment.row_ids, fragment.created_at_versions, fragment.last_updated_versions):
            if isinstance(stored, ExternalFile):
                store, path = snapshot.bases.external(stored)
                yield FileCopy(store, path, path, 0, fragment)


def _index(snapshot: Snapshot, entry: IndexEntry) -> list[FileCopy]:
    """The files of one index: those that its entry names, or all in its folder."""
    store, prefix = snapshot.bases.folder(entry.base_id, INDICES)
    folder, target = f"{prefix}{entry.uuid}", f"{INDICES}/{entry.uuid}"
    named = describe_index(entry).files
    if not named:
        return [
            FileCopy(store, meta.path, f"{target}{meta.path[len(folder) :]}", meta.size)
            for meta in store.list(folder)
        ]
    paths = [check_relative(path, "path of an index file") for path, _ in named]
    wanted = [FileCopy(store, f"{folder}/{path}", f"{target}/{path}", 0) for path in paths]
    return [sized(snapshot, file) for file in wanted]


def sized(snapshot: Snapshot, file: FileCopy) -> FileCopy:
    """The file with its size in the store: manifests may state wrong ones."""
    try:
        size = file.source.head(file.path).size
    except LanceError as error:
        raise explained(snapshot, file, error)
    return FileCopy(file.source, file.path, file.target, size, file.fragment)


def explained(snapshot: Snapshot, file: FileCopy, error: LanceError) -> LanceError:
    """An error about a file, to be raised; one about a missing file names what needs it.

    Parameters
    ----------
    snapshot : Snapshot
    file : FileCopy
    error : LanceError
    """
    if file.fragment is not None:
        return snapshot.in_fragment(error, file.fragment)
    if isinstance(error, DatasetNotFoundError):
        return DatasetNotFoundError(
            f"file {file.path!r} of an index is missing in {file.source.uri}; drop the index in the source, and clone "
            "the version that this makes",
            kind="file",
            name=file.path,
        )
    return error.within(f"index file {file.path}")


def _is_slow(snapshot: Snapshot) -> bool:
    """Whether looking at a file is a request that waits."""
    return not snapshot.is_mapped


def _distinct(files: Sequence[FileCopy]) -> tuple[FileCopy, ...]:
    """The files, each once."""
    by_target: dict[str, FileCopy] = {}
    for file in files:
        known = by_target.setdefault(file.target, file)
        if (known.source.uri, known.path) != (file.source.uri, file.path):
            raise FormatError(
                f"two files of this version would be {file.target!r} in the clone: one of {known.source.uri} and one of "
                f"{file.source.uri}; compact the table first",
                path=file.path,
            )
    return tuple(by_target.values())
