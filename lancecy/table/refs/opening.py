"""The versions that tags name, and the errors for tags, branches and versions that do not exist.

Facts: table sheet, section 6.1.
"""

from __future__ import annotations

from collections.abc import Callable

from lancecy.errors import NotFoundError, RefNotFoundError, VersionNotFoundError, nearest, printable
from lancecy.session import Session
from lancecy.store.base import Store
from lancecy.table.answers import run_on
from lancecy.table.location import TableLocation
from lancecy.table.refs.contents import Tag
from lancecy.table.refs.files import read_tag
from lancecy.table.refs.names import BRANCHES, TAGS, branch_folder, branch_of, tag_of

__all__ = ["removed_version", "tagged_version", "unknown_branch", "unknown_tag"]


def tagged_version(main: TableLocation, tag: str, session: Session) -> Tag:
    """The tag of that name, which names a version.

    Parameters
    ----------
    main : TableLocation
        Of the main table, which has the tags of all branches.
    tag : str
    session : Session

    Raises
    ------
    TypeError
        The text is a number, and no tag has that name.
    NotFoundError
        There is no such tag; the message names the existing ones.
    FormatError, LimitError
        The file of the tag is damaged.
    """
    found = run_on(read_tag(tag, main.limits), main.open(session))
    if found is not None:
        return found
    if tag.isdigit():
        raise TypeError(
            f"version is a number, or the name of a tag, not {tag!r}: there is no tag of that name"
        )
    raise unknown_tag(main, tag, session)


def removed_version(location: TableLocation, tag: str, error: NotFoundError) -> NotFoundError:
    """The error for a tag that names a version which is not there.

    Parameters
    ----------
    location : TableLocation
        Of the tag.
    tag : str
    error : NotFoundError
        From opening the version.
    """
    return VersionNotFoundError(
        f"tag {printable(tag)!r} of {location.uri} names a version that was removed: {error.what}",
        name=error.name,
        known=error.known,
    )


def unknown_branch(main: TableLocation, branch: str, session: Session) -> NotFoundError:
    """The error for a branch that does not exist, or has lost its folder; it names similar ones.

    Parameters
    ----------
    main : TableLocation
        Of the main table.
    branch : str
    session : Session
    """
    store = main.open(session)
    names = _names(store, BRANCHES, branch_of)
    if branch in names:
        shown = printable(branch)
        return RefNotFoundError(
            f"branch {shown!r} of {store.uri} has a file, but no version in {printable(branch_folder(branch))}/: put the "
            f"folder back, or remove the branch with ds.branches.delete({shown!r})",
            kind="branch",
            name=branch,
        )
    return _unknown(store, "branch", branch, names, "")


def unknown_tag(main: TableLocation, tag: str, session: Session) -> NotFoundError:
    """The error for a tag that does not exist; parameters as of :func:`unknown_branch`."""
    store = main.open(session)
    branches = _names(store, BRANCHES, branch_of)
    hint = f"; it is a branch, which version=({tag!r}, None) opens" if tag in branches else ""
    return _unknown(store, "tag", tag, _names(store, TAGS, tag_of), hint)


def _names(store: Store, folder: str, name_of: Callable[[str], str | None]) -> list[str]:
    return sorted(name for meta in store.list(folder) if (name := name_of(meta.path)) is not None)


def _unknown(store: Store, kind: str, name: str, names: list[str], hint: str) -> NotFoundError:
    close = nearest(name, names) or names
    plural = "branches" if kind == "branch" else "tags"
    shown = f"it has {', '.join(map(printable, close[:10]))}" if close else f"it has no {plural}"
    return RefNotFoundError(
        f"{store.uri} has no {kind} {printable(name)!r}; {shown}{hint}",
        kind=kind,
        name=name,
        known=close[:10],
    )
