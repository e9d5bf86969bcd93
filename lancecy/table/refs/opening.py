"""Opening a table by the name of a tag.

Facts: table sheet, section 6.1.
"""

from __future__ import annotations

from lancecy.errors import DatasetNotFoundError, NotFoundError, nearest, printable
from lancecy.session import Session
from lancecy.store.base import Store
from lancecy.table.location import TableLocation
from lancecy.table.refs.contents import decode_pin
from lancecy.table.refs.names import TAGS, tag_of, tag_path
from lancecy.table.refs.places import branch_location

__all__ = ["removed_version", "tagged_version"]


def tagged_version(location: TableLocation, tag: str, session: Session) -> tuple[TableLocation, int]:
    """The location and the version that a tag names.

    Parameters
    ----------
    location : TableLocation
        Of the main table, which has the tags of all branches.
    tag : str
    session : Session

    Returns
    -------
    (TableLocation, int)
        The location is that of the branch, if the tag names one.

    Raises
    ------
    TypeError
        The text is a number.
    NotFoundError
        There is no such tag; the message names the existing ones.
    FormatError, LimitError
        The file of the tag is damaged.
    """
    if tag.isdigit():
        raise TypeError(f"version is a number, or the name of a tag, not {tag!r}")
    store, path = location.open(session), tag_path(tag)
    try:
        size = store.head(path).size
        location.limits.check("metadata_bytes", size, f"size of {path}")
        pin = decode_pin(store.get(path, 0, size), path, location.limits)
    except DatasetNotFoundError:
        raise _unknown(store, tag) from None
    if pin.branch is None:
        return location, pin.version
    return branch_location(location, pin.branch), pin.version


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
    return NotFoundError(
        f"tag {printable(tag)!r} of {location.uri} names a version that was removed: {error.what}",
        kind="version",
        name=error.name,
        known=error.known,
    )


def _unknown(store: Store, tag: str) -> NotFoundError:
    names = sorted(name for meta in store.list(TAGS) if (name := tag_of(meta.path)) is not None)
    close = nearest(tag, names) or names
    shown = f"it has {', '.join(map(printable, close[:10]))}" if close else "it has no tags"
    return NotFoundError(
        f"{store.uri} has no tag {printable(tag)!r}; {shown}", kind="tag", name=tag, known=close[:10]
    )
