"""References as users write them: a version number, the name of a tag, or a branch and a version.

Facts: table sheet, sections 6.1 and 6.2.
"""

from __future__ import annotations

import operator
from typing import Any, TypeAlias

import numpy as np

from lancecy.session import Session
from lancecy.table.location import TableLocation
from lancecy.table.refs.names import MAIN, is_branch_name
from lancecy.table.refs.opening import tagged_version, unknown_branch
from lancecy.table.refs.places import branch_location, main_location

__all__ = ["Reference", "is_number", "parse_reference", "resolve", "version_number"]

Reference: TypeAlias = int | str | tuple[str | None, int | None] | None
"""A version of the current branch, the name of a tag, or (branch, version): None or "main" is the main table, and no
version is the newest one."""


def version_number(version: Any) -> int:
    """A version as a Python integer; accepts integers of NumPy and pandas.

    Raises
    ------
    TypeError

    Examples
    --------
    >>> version_number(np.int64(3))
    3
    """
    if not is_number(version):
        raise TypeError(f"version is a number, the name of a tag, or (branch, version), not {version!r}")
    return operator.index(version)


def is_number(version: object) -> bool:
    """Whether a value is a whole number."""
    return not isinstance(version, (bool, np.bool_)) and hasattr(version, "__index__")


def parse_reference(reference: Any) -> Reference:
    """A user's reference with plain numbers, and with None for the main table.

    Parameters
    ----------
    reference : int, str, (str or None, int or None), or None

    Raises
    ------
    TypeError
        It is something else.
    ValueError
        It is a tuple of other than two values.

    Examples
    --------
    >>> parse_reference(("main", 3))
    (None, 3)
    """
    if reference is None or isinstance(reference, str):
        return reference
    if not isinstance(reference, tuple):
        return version_number(reference)
    if len(reference) != 2:
        raise ValueError(f"a tuple as a version is (branch, version), not {reference!r}")
    branch, version = reference
    if branch is not None and not isinstance(branch, str):
        raise TypeError(
            f"a tuple as a version is (branch, version), and {branch!r} is not the name of a branch"
        )
    return None if branch == MAIN else branch, None if version is None else version_number(version)


def resolve(
    location: TableLocation, branch: str | None, reference: Any, session: Session
) -> tuple[TableLocation, str | None, int | None]:
    """The location, the branch and the version that a reference names.

    Only tags are looked up, with one request. Whether the version exists is known when it is opened.

    Parameters
    ----------
    location : TableLocation
        Of the dataset at hand: the main table or a branch.
    branch : str or None
        Its branch, which its manifest names; None for the main table.
    reference : int, str, (str or None, int or None), or None
    session : Session

    Returns
    -------
    (TableLocation, str or None, int or None)
        Location of the branch, its name (None for the main table), and the version (None for the newest).

    Raises
    ------
    TypeError, ValueError
        It is no reference.
    NotFoundError
        There is no such tag, or there cannot be such a branch; the message names similar ones.
    FormatError, LimitError
        The file of the tag is damaged.
    UnsupportedError
        The branch was moved without its main table, which has the tags and the other branches.

    Examples
    --------
    >>> from lancecy.session import default
    >>> here = TableLocation.of("/data/t.lance/tree/test")
    >>> place, branch, version = resolve(here, "test", ("main", 3), default())
    >>> place.uri, branch, version
    ('/data/t.lance', None, 3)
    """
    found = parse_reference(reference)
    if found is None or isinstance(found, int):
        return location, branch, found
    main = main_location(location, branch)
    if isinstance(found, str):
        tag = tagged_version(main, found, session)
        return branch_location(main, tag.branch), tag.branch, tag.version
    target, version = found
    if target is not None and not is_branch_name(target):
        raise unknown_branch(main, target, session)
    return branch_location(main, target), target, version
