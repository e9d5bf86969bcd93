"""Looks into the folders of bases: for the files of a relocated base, and for other tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace

from lancecy.errors import DatasetNotFoundError, LanceError, MissingFileError, NotFoundError
from lancecy.session import Session
from lancecy.store.base import Store
from lancecy.table.bases import Bases, canonical_base
from lancecy.table.homes import is_branch_folder, is_gone
from lancecy.table.location import TableLocation
from lancecy.table.manifest import BasePath, BasePaths, DataFile, DeletionFile, Fragment
from lancecy.table.paths import DATA, DELETIONS, VERSIONS
from lancecy.table.snapshot import Snapshot
from lancecy.table.wire.manifest_file import ManifestFile

__all__ = ["check_relocation", "check_targets", "moved_along", "moved_bases", "other_tables"]

# Up to here each file is asked for, which costs a request; beyond, the folder is listed.
_FEW = 64


def check_relocation(snapshot: Snapshot, moved: BasePath) -> None:
    """Refuse a new place of a base that lacks files of the table.

    Parameters
    ----------
    snapshot : Snapshot
        The version whose fragments name the files.
    moved : BasePath
        The base with its new path.

    Raises
    ------
    MissingFileError
        Data or deletion files are missing; names one of them, and how many.
    PathPolicyError
        The path does not name a folder.
    StoreError
        The new place cannot be read.
    """
    location = snapshot.location.allowing([canonical_base(moved)])
    bases = Bases(snapshot.store, location, BasePaths({moved.id: moved}), snapshot.session)
    total, missing = 0, dict[str, int]()
    for kind, names in ((DATA, _data_files(snapshot, moved.id)), (DELETIONS, _deletions(snapshot, moved.id))):
        if names:
            total += len(names)
            store, prefix = bases.folder(moved.id, kind)
            missing |= {name: names[name] for name in _absent(snapshot, store, prefix, names)}
    if missing:
        name, fragment = min(missing.items(), key=lambda item: item[1])
        raise MissingFileError(
            f"nothing was changed: {len(missing)} of the {total} files of base {moved.id} are not in {moved.path}, "
            f"such as {name!r} of fragment {fragment}; copy them there first, or pass force=True if they follow",
            path=name,
            fragment=fragment,
            base=moved.id,
        )


def _data_files(snapshot: Snapshot, base_id: int) -> dict[str, int]:
    """Names of the data files in a base, each with the fragment that needs it."""
    fragments = snapshot.fragments
    return {file.path: f.id for f in fragments for file in f.files if file.base_id == base_id}


def _deletions(snapshot: Snapshot, base_id: int) -> dict[str, int]:
    """Names of the deletion files in a base; as :func:`_data_files`."""
    held = ((f.stored_id, f.deletion_file) for f in snapshot.fragments)
    return {file.name(i): i for i, file in held if file is not None and file.base_id == base_id}


def _absent(snapshot: Snapshot, store: Store, prefix: str, names: Iterable[str]) -> set[str]:
    """The names without an object in a folder."""
    wanted = set(names)
    if len(wanted) > _FEW:
        try:
            for meta in store.list(prefix.rstrip("/")):
                wanted.discard(meta.path.removeprefix(prefix))
                if not wanted:
                    break
        except DatasetNotFoundError:
            pass
        return wanted

    def is_there(name: str) -> bool:
        try:
            store.head(prefix + name)
        except DatasetNotFoundError:
            return False
        return True

    asked = sorted(wanted)
    found = snapshot.session.map(is_there, asked, blocking=not store.traits.is_mapped)
    return {name for name, there in zip(asked, found, strict=True) if not there}


def moved_bases(snapshot: Snapshot, stored: ManifestFile | None = None) -> dict[int, str]:
    """The places of bases that moved with the table, and are not where they are recorded, by id.

    Looks at one file of each base that may have moved; a base that cannot be looked at counts as not moved.

    Parameters
    ----------
    snapshot : Snapshot
    stored : ManifestFile, optional
        Its manifest file. With it, only the fragments that are looked at are made.
    """
    known = snapshot.manifest.base_paths
    if not known:
        return {}
    one_of: dict[int, tuple[Fragment, DataFile | DeletionFile]] = {}
    for fragment in snapshot.fragments if stored is None else stored.users_of(known, snapshot.limits):
        for file in (*fragment.files, fragment.deletion_file):
            if file is not None and file.base_id is not None:
                one_of.setdefault(file.base_id, (fragment, file))
    found = dict[int, str]()
    for number, (fragment, file) in one_of.items():
        with suppress(LanceError):
            place = snapshot.bases.moved_to(fragment, file)
            if place is not None:
                found[number] = place
    return found


def moved_along(snapshot: Snapshot, moved: BasePath) -> tuple[BasePath, ...]:
    """The bases that moved with another one, as a branch does with its main table, each with its new path.

    Parameters
    ----------
    snapshot : Snapshot
    moved : BasePath
        The other one with its new path.
    """
    root, known = canonical_base(moved).rstrip("/"), snapshot.manifest.base_paths
    if not moved.is_dataset_root:
        return ()
    return tuple(
        replace(known[number], path=f"{moved.path.rstrip('/')}{place[len(root) :]}")
        for number, place in moved_bases(snapshot).items()
        if number != moved.id and place.startswith(f"{root}/")
    )


def check_targets(snapshot: Snapshot, chosen: Iterable[int | None]) -> None:
    """Refuse to write to the recorded place of a base that is gone, although the table has files in that base.

    The table would then look for these files there, and no more where they moved to.

    Parameters
    ----------
    snapshot : Snapshot
    chosen : iterable of int or None
        Ids of the bases that are written to.

    Raises
    ------
    NotFoundError
    """
    known = snapshot.manifest.base_paths
    for number in chosen:
        base = None if number is None else known[number]
        if base is None or not base.is_dataset_root or not _data_files(snapshot, base.id):
            continue
        store, data = snapshot.bases.recorded(base.id)
        if is_gone(store, data):
            raise NotFoundError(
                f"{snapshot.bases.described(base.id)} is gone, so nothing is written there; relocate_base gives it the path "
                "that its files have now",
                kind="base",
                name=base.path,
            )


def other_tables(bases: Mapping[int, BasePath], location: TableLocation, session: Session) -> frozenset[int]:
    """Ids of the bases that are folders of other tables, whose cleanups remove files that they do not know.

    Parameters
    ----------
    bases : mapping of id to BasePath
    location : TableLocation
        May read the bases.
    session : Session

    Raises
    ------
    PathPolicyError
        The table may not read a base.
    StoreError
        A base cannot be listed.
    """
    roots = {number: base for number, base in bases.items() if base.is_dataset_root}
    found = {number for number, base in roots.items() if _is_source(base)}
    resolved = Bases(location.open(session), location, BasePaths(roots), session)
    for number in roots.keys() - found:
        store, data = resolved.folder(number, DATA)
        versions = f"{data.removesuffix(f'{DATA}/')}{VERSIONS}"
        if next(iter(store.list(versions)), None) is not None:
            found.add(number)
    return frozenset(found)


def _is_source(base: BasePath) -> bool:
    """Whether a clone or a branch recorded the table it was made of, which may be gone by now.

    Writers name the base after the source's branch, if it is one, and give it the smallest free id from 0 on.
    """
    return base.id == 0 or base.name is None or is_branch_folder(base)
