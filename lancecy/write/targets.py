"""Where the data files of one write go: the table's own folder, or its bases in turn.

The turn goes by file. Every write begins with the base that the table has the fewest bytes in, by its manifest, and
goes on with the next fuller one: without a memory of its own, bases are filled evenly by many small writes too.

Source: table sheet, section 7.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lancecy.errors import NotFoundError, PathPolicyError
from lancecy.store.uri import canonical_uri
from lancecy.table.bases import canonical_base, spelling
from lancecy.table.manifest import BasePath, Fragment
from lancecy.table.operations.base_paths import registered

__all__ = [
    "DatasetBasePath",
    "base_paths_of",
    "bytes_by_base",
    "check_outside",
    "least_filled_first",
    "targets",
]


@dataclass(frozen=True, slots=True)
class DatasetBasePath:
    """A place outside of the table's own folder that holds some of its files.

    Parameters
    ----------
    path : str or path
        Absolute path or URI; a relative path is made absolute.
    name : str, optional
        What ``target_bases`` calls it.
    is_dataset_root : bool
        Whether data files are in ``data/`` below it, or directly in it.
    id : int, optional
        Number of the base in the table; the smallest free one from 1 on otherwise.

    Raises
    ------
    TypeError
        A name that is no text, or an id that is no number.

    Examples
    --------
    >>> DatasetBasePath("s3://bucket-2/files", name="b2").name
    'b2'
    """

    path: str | os.PathLike[str]
    name: str | None = None
    is_dataset_root: bool = False
    id: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str | None) or not isinstance(self.id, int | None):
            raise TypeError(f"a base has a name and a number, not {self.name!r} and {self.id!r}")

    def to_base_path(self) -> BasePath:
        """As a manifest has it; id 0 if it is to be given one."""
        path = os.fspath(self.path)
        return BasePath(
            self.id or 0, path if "://" in path else canonical_uri(path), self.name, self.is_dataset_root
        )


def base_paths_of(
    known: Mapping[int, BasePath], bases: Iterable[DatasetBasePath | BasePath]
) -> tuple[BasePath, ...]:
    """New bases with their ids.

    Raises
    ------
    ConflictError
        There is a base of that id, name or place.
    PathPolicyError
        A path is not that of a folder, or holds credentials.
    ValueError
        An id that none can have.
    TypeError
        One is something else.
    """
    given = [_base_path(base) for base in bases]
    for base in given:
        if not 0 <= base.id < 1 << 32:
            raise ValueError(f"a base cannot have the id {base.id}")
    after = registered(known, given)
    return tuple(base for number, base in after.items() if number not in known)


def _base_path(base: object) -> BasePath:
    if isinstance(base, DatasetBasePath):
        return base.to_base_path()
    if isinstance(base, BasePath):
        return base
    raise TypeError(f"a base is a DatasetBasePath, not {base!r}")


def check_outside(root: str, bases: Iterable[BasePath]) -> None:
    """Refuse bases in the table's own folder: a cleanup takes what it finds there for leftovers.

    pylance (14.0.2) deletes the files of a base below ``data/`` of its table.

    Parameters
    ----------
    root : str
        URI of the table.
    bases : iterable of BasePath
        New ones, or relocated ones.

    Raises
    ------
    PathPolicyError

    Examples
    --------
    >>> check_outside("/tables/t", [BasePath(1, "/tables/t2")])
    >>> check_outside("/tables/t", [BasePath(1, "/tables/t/data/more")])
    Traceback (most recent call last):
    ...
    lancecy.errors.PathPolicyError: base '/tables/t/data/more' is in the table's own folder: choose a place outside of it
    """
    own = canonical_uri(root)
    for base in bases:
        place = canonical_base(base)
        if place == own or place.startswith(f"{own.rstrip('/')}/"):
            raise PathPolicyError(
                f"base {base.path!r} is in the table's own folder: choose a place outside of it"
            )


def targets(
    bases: Mapping[int, BasePath],
    target_bases: Sequence[str | os.PathLike[str]] | None = None,
    target_all_bases: bool | None = None,
) -> tuple[int | None, ...]:
    """Ids of the bases that data files go to in turn; None is the table's own folder.

    Parameters
    ----------
    bases : mapping of id to BasePath
        Those of the table.
    target_bases : sequence of str, optional
        Names, or else paths; without any, files go to the table's own folder.
    target_all_bases : bool, optional
        To every base by its id, the table's own folder first (True) or not at all (False).

    Raises
    ------
    NotFoundError
        The table has no such base.
    ValueError
        Both are given, or there are no bases at all.
    TypeError
        One text instead of several, or something that is neither a text nor a path.

    Examples
    --------
    >>> bases = {1: BasePath(1, "/b1", "fast"), 2: BasePath(2, "/b2")}
    >>> targets(bases, ["/b2/", "fast"]), targets(bases, target_all_bases=True)
    ((2, 1), (None, 1, 2))
    """
    if isinstance(target_bases, str):
        raise TypeError("target_bases is a list of names or paths, not one of them")
    if target_all_bases is not None:
        if target_bases:
            raise ValueError("give target_bases or target_all_bases, not both")
        if not target_all_bases and not bases:
            raise ValueError(
                "the table has no bases to write to: register some, or leave target_all_bases out"
            )
        own: tuple[int | None, ...] = (None,) if target_all_bases else ()
        return (*own, *sorted(bases))
    return tuple(_find(reference, bases) for reference in target_bases or ()) or (None,)


def least_filled_first(chosen: Sequence[int | None], fragments: Iterable[Fragment]) -> tuple[int | None, ...]:
    """Targets in the order in which a write uses them in turn: those that hold fewer bytes of a table first.

    The difference between the fullest and the emptiest is then never more than the largest file, if it was not before
    and all files of a write but its last are of one size.

    Parameters
    ----------
    chosen : sequence of int or None
        From :func:`targets`; the order decides between those that hold the same.
    fragments : iterable of Fragment
        Of the table.

    Examples
    --------
    >>> from lancecy.table.manifest import DataFile
    >>> one = Fragment(0, (DataFile("a.lance", (0,), size=100, base_id=1),), physical_rows=10)
    >>> least_filled_first((1, 2, None), [one])
    (2, None, 1)
    """
    if len(set(chosen)) < 2:
        return tuple(chosen)
    filled = bytes_by_base(fragments)
    return tuple(sorted(chosen, key=lambda base: filled.get(base, 0)))


def bytes_by_base(fragments: Iterable[Fragment]) -> dict[int | None, int]:
    """Bytes of data files in each base, by the manifest; None is the table's own folder.

    Files of unknown size count by their rows, at the bytes per row that the others have.

    Parameters
    ----------
    fragments : iterable of Fragment
    """
    files = [(file, part.physical_rows or 0) for part in fragments for file in part.files]
    known = sum(file.size for file, _ in files if file.size)
    rows = sum(count for file, count in files if file.size)
    found: Counter[int | None] = Counter()
    for file, count in files:
        found[file.base_id] += file.size or (count * known // rows if rows else count)
    return dict(found)


def _find(reference: str | os.PathLike[str], bases: Mapping[int, BasePath]) -> int:
    reference = os.fspath(reference)
    named = [number for number, base in bases.items() if base.name == reference]
    if named:
        return named[0]
    place = canonical_uri(reference) if "/" in reference else None
    at = [number for number, base in bases.items() if reference == base.path or place == spelling(base)]
    if at:
        return at[0]
    known = [base.name or base.path for base in bases.values()]
    raise NotFoundError(
        f"the table has no base {reference!r}, only {', '.join(known) or 'its own folder'}",
        kind="base",
        name=reference,
        known=known,
    )
