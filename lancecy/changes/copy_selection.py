"""Which versions, tags and branches a copy of a table has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from lancecy.errors import ConflictError, VersionNotFoundError, printable
from lancecy.records import dataclass
from lancecy.session import Session
from lancecy.store.base import Store
from lancecy.table.answers import run_on
from lancecy.table.location import TableLocation
from lancecy.table.refs import MAIN, Pin
from lancecy.table.refs.files import pins
from lancecy.table.refs.names import branch_folder, branch_of, tag_of
from lancecy.table.refs.places import branch_location
from lancecy.table.versions import ManifestLocation, version_store

__all__ = ["CopySelection", "CopyVersions", "home_of", "select"]

CopyVersions: TypeAlias = int | Sequence[int] | None
"""Versions to copy: a number of newest ones, a list of versions of the main table, or all."""


@dataclass(frozen=True)
class CopySelection:
    """The versions, tags and branches to copy.

    Attributes
    ----------
    versions : dict of branch to list of ManifestLocation
        Oldest first; None is the main table, and a branch follows the one it was made from.
    branches, tags : dict of name to Pin
    left_out_branches, left_out_tags : list of str
        Those whose versions are not copied.
    """

    versions: dict[str | None, list[ManifestLocation]]
    branches: dict[str, Pin] = field(default_factory=dict)
    tags: dict[str, Pin] = field(default_factory=dict)
    left_out_branches: list[str] = field(default_factory=list)
    left_out_tags: list[str] = field(default_factory=list)

    @property
    def numbers(self) -> dict[str, list[int]]:
        """The numbers of the versions; the main table is ``"main"``."""
        return {branch or MAIN: [one.version for one in found] for branch, found in self.versions.items()}

    def has(self, branch: str | None, version: int) -> bool:
        """Whether a version is copied."""
        return any(one.version == version for one in self.versions.get(branch, ()))


def home_of(branch: str | None) -> str:
    """Prefix of the paths of a branch, below the main root; "" for the main table."""
    return "" if branch is None else f"{branch_folder(branch)}/"


def select(
    main: TableLocation,
    store: Store,
    session: Session,
    asked: CopyVersions,
    planned: Mapping[str, Sequence[int]] | None = None,
) -> CopySelection:
    """The versions, tags and branches to copy.

    Parameters
    ----------
    main : TableLocation
    store : Store
        Of the main table.
    session : Session
    asked : int, sequence of int, or None
    planned : mapping of branch to sequence of int, optional
        The versions that an interrupted copy chose; the main table is ``"main"``.

    Raises
    ------
    NotFoundError
        The main table has no such version.
    ConflictError
        A planned version is gone.
    FormatError, LimitError
        A tag or branch is damaged.
    StoreError
        The storage failed.
    """
    found = sorted(run_on(pins(main.limits), store), key=lambda pin: pin.path)
    branches = {name: pin for pin in found if (name := branch_of(pin.path)) is not None}
    tags = {name: pin for pin in found if (name := tag_of(pin.path)) is not None}

    def chosen(branch: str | None) -> list[ManifestLocation]:
        versions = _versions(main, session, branch)
        if planned is not None:
            return _numbered(versions, planned.get(branch or MAIN, ()), branch, is_planned=True)
        if isinstance(asked, int):
            return versions[-asked:]
        return versions if asked is None or branch is not None else _numbered(versions, asked, branch)

    selection = CopySelection({None: chosen(None)})
    _add_branches(selection, branches, chosen, is_whole=asked is None)
    for name, pin in tags.items():
        if selection.has(pin.branch, pin.version):
            selection.tags[name] = pin
        else:
            selection.left_out_tags.append(name)
    return selection


def _add_branches(
    selection: CopySelection,
    branches: Mapping[str, Pin],
    chosen: Callable[[str | None], list[ManifestLocation]],
    *,
    is_whole: bool,
) -> None:
    """Add the branches that start from a version that is copied, and so on from these."""
    waiting = dict(branches)
    while ready := [name for name, pin in waiting.items() if pin.branch not in waiting]:
        for name in ready:
            pin = waiting.pop(name)
            versions = chosen(name) if is_whole or selection.has(pin.branch, pin.version) else []
            if versions:
                selection.branches[name] = pin
                selection.versions[name] = versions
            else:
                selection.left_out_branches.append(name)
    selection.left_out_branches.extend(waiting)  # each is said to start from another


def _versions(main: TableLocation, session: Session, branch: str | None) -> list[ManifestLocation]:
    """All versions of a branch, oldest first."""
    store = branch_location(main, branch).open(session)
    return run_on(version_store(store).versions(), store)


def _numbered(
    versions: Sequence[ManifestLocation],
    numbers: Sequence[int],
    branch: str | None,
    *,
    is_planned: bool = False,
) -> list[ManifestLocation]:
    by_number = {one.version: one for one in versions}
    missing = [number for number in numbers if number not in by_number]
    if missing and is_planned:
        raise ConflictError(
            f"version {missing[0]} of {printable(branch or MAIN)} was removed since the copy began: remove the unfinished "
            "copy, and copy again"
        )
    if missing:
        raise VersionNotFoundError(
            f"there is no version {missing[0]} to copy; the table has {_shown(list(by_number))}",
            name=str(missing[0]),
        )
    return [by_number[number] for number in sorted(set(numbers))]


def _shown(numbers: Sequence[int]) -> str:
    shown = [str(number) for number in numbers]
    return ", ".join(shown if len(shown) <= 10 else [*shown[:4], "…", *shown[-4:]])
