"""The bases that the data files of one write go to, in turn.

Each file goes to the next base. Every write begins with the base that holds the fewest bytes of the table by its
manifest, and continues with the next fuller one, so many small writes fill the bases evenly too.

Source: table sheet, section 7.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from lancecy.errors import NotFoundError, PathPolicyError
from lancecy.records import dataclass
from lancecy.store.uri import canonical_uri
from lancecy.table.bases import canonical_base, spelling
from lancecy.table.homes import is_branch_folder
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

_LOGIN = re.compile(r"://[^/]*@")


@dataclass(frozen=True, slots=True)
class DatasetBasePath:
    """A base path: a folder outside of the table's own one that holds some of its files.

    Parameters
    ----------
    path : str or path
        Absolute path or URI; a relative path is made absolute.
    name : str, optional
        Name of the base in ``target_bases``.
    is_dataset_root : bool
        Whether data files are in ``data/`` below the path, or directly in it.
    id : int, optional
        Id of the base in the table; by default the smallest free one from 1 on.

    Raises
    ------
    TypeError
        The name is not a string, or the id is not an integer.

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
            raise TypeError(
                f"the name of a DatasetBasePath is text and its id a number, not {self.name!r} and {self.id!r}"
            )

    def __repr__(self) -> str:
        # A user and a password in a URI are not shown.
        shown = _LOGIN.sub("://", os.fspath(self.path))
        rest = f"name={self.name!r}, is_dataset_root={self.is_dataset_root!r}, id={self.id!r}"
        return f"{type(self).__qualname__}(path={shown!r}, {rest})"

    def to_base_path(self) -> BasePath:
        """The manifest's value of the base; id 0 if the commit assigns one."""
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
        A base has that id, name or path already.
    PathPolicyError
        A path does not name a folder, or holds credentials.
    ValueError
        An id is out of range.
    TypeError
        An item is neither a DatasetBasePath nor a BasePath.
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
    """Refuse bases in the table's own folder, where a cleanup would remove their files.

    pylance (14.0.2) deletes the files of a base below ``data/`` of its table.

    Parameters
    ----------
    root : str
        URI of the table.
    bases : iterable of BasePath
        New or relocated bases.

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
    own = ""
    for base in bases:
        own, place = own or canonical_uri(root), canonical_base(base)
        if base.is_dataset_root and is_branch_folder(base) and place != own:
            continue  # a branch's folder may hold those of others, which a cleanup of it leaves alone
        if place == own or place.startswith(f"{own.rstrip('/')}/"):
            raise PathPolicyError(
                f"base {base.path!r} is in the table's own folder: choose a place outside of it"
            )


def targets(
    bases: Mapping[int, BasePath],
    target_bases: Sequence[str | os.PathLike[str]] | None = None,
    target_all_bases: bool | None = None,
    unnamed: Collection[int] = (),
    own: str | None = None,
) -> tuple[int | None, ...]:
    """Ids of the bases that data files go to, in turn; None is the table's own folder.

    Parameters
    ----------
    bases : mapping of id to BasePath
        Bases of the table.
    target_bases : sequence of str, optional
        Names or paths of bases, and ``own``; without any, files go to the table's own folder.
    target_all_bases : bool, optional
        Use every base in the order of ids, after the table's own folder (True) or without it (False).
    unnamed : collection of int
        Ids of bases that ``target_all_bases`` leaves out: folders of other tables, whose cleanups would remove the files.
    own : str, optional
        URI of the table, if ``target_bases`` may name its own folder too.

    Raises
    ------
    NotFoundError
        The table has no such base.
    ValueError
        Both are given, or the table has no bases.
    TypeError
        One string instead of several, or an item that is neither a string nor a path.

    Examples
    --------
    >>> bases = {1: BasePath(1, "/b1", "fast"), 2: BasePath(2, "/b2")}
    >>> targets(bases, ["/b2/", "fast"]), targets(bases, target_all_bases=True)
    ((2, 1), (None, 1, 2))
    >>> targets(bases, ["/t", "fast"], own="/t")
    (None, 1)
    >>> targets(bases, target_all_bases=True, unnamed={2})
    (None, 1)
    """
    if isinstance(target_bases, str):
        raise TypeError("target_bases must be a list of names or paths, not a single one: write [name]")
    if target_all_bases is not None:
        if target_bases:
            raise ValueError("give target_bases or target_all_bases, not both")
        usual = sorted(number for number in bases if number not in unnamed)
        if not target_all_bases and not usual:
            others = " but other tables, which have to be named in target_bases" if bases else ""
            raise ValueError(
                f"the table has no bases to write to{others}: register some, or leave target_all_bases out"
            )
        return (None, *usual) if target_all_bases else tuple(usual)
    return tuple(_find(reference, bases, own) for reference in target_bases or ()) or (None,)


def least_filled_first(chosen: Sequence[int | None], fragments: Iterable[Fragment]) -> tuple[int | None, ...]:
    """Targets in the order of a write's turns: those with fewer bytes of the table first.

    The difference between the fullest and the emptiest base then never exceeds the largest file, if it did not before
    and all files of a write but its last have the same size.

    Parameters
    ----------
    chosen : sequence of int or None
        From :func:`targets`; their order breaks ties.
    fragments : iterable of Fragment
        Fragments of the table.

    Examples
    --------
    >>> from lancecy.table.manifest import DataFile
    >>> one = Fragment(0, (DataFile("a.lance", (0,), file_size_bytes=100, base_id=1),), physical_rows=10)
    >>> least_filled_first((1, 2, None), [one])
    (2, None, 1)
    """
    if len(set(chosen)) < 2:
        return tuple(chosen)
    filled = bytes_by_base(fragments)
    return tuple(sorted(chosen, key=lambda base: filled.get(base, 0)))


def bytes_by_base(fragments: Iterable[Fragment]) -> dict[int | None, int]:
    """Bytes of data files in each base by the manifest; None is the table's own folder.

    Files of unknown size count their rows times the bytes per row of the others.

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


def _find(reference: str | os.PathLike[str], bases: Mapping[int, BasePath], own: str | None) -> int | None:
    reference = os.fspath(reference)
    named = [number for number, base in bases.items() if base.name == reference]
    if named:
        return named[0]
    place = canonical_uri(reference) if "/" in reference else None
    at = [number for number, base in bases.items() if reference == base.path or place == spelling(base)]
    if at:
        return at[0]
    if own is not None and place == canonical_uri(own):
        return None
    known = [base.name or base.path for base in bases.values()]
    raise NotFoundError(
        f"the table has no base {reference!r}, only {', '.join(known) or 'its own folder'}",
        kind="base",
        name=reference,
        known=known,
    )
