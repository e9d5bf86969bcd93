"""Refuses a new table inside another one.

A table in the folder ``data/`` or ``tree/`` of another works at first. Then the cleanup of that one counts its manifests
as branches, a branch of that name cannot be made, or one that is deleted takes the table with it.

Facts: table sheet, sections 6.2 and 6.3.
"""

from __future__ import annotations

from collections.abc import Iterator

from lancecy.errors import LanceError, PathPolicyError, printable
from lancecy.session import Session
from lancecy.table.location import TableLocation
from lancecy.table.paths import DATA, DELETIONS, INDICES, TRANSACTIONS, VERSIONS
from lancecy.table.refs import REFS, TREE
from lancecy.table.versions.folder import published

__all__ = ["OWN_FOLDERS", "check_new_place"]

OWN_FOLDERS = frozenset({DATA, DELETIONS, INDICES, TRANSACTIONS, VERSIONS, REFS, TREE})
"""Folders of a table that hold only its own files."""


def check_new_place(location: TableLocation, session: Session) -> None:
    """Refuse the place of a new table in a folder that another table keeps for itself, such as ``data/``.

    Makes no request unless the path has such a folder, and then one listing for each. A place above that cannot be listed
    counts as no table.

    Parameters
    ----------
    location : TableLocation
        Of the new table.
    session : Session

    Raises
    ------
    PathPolicyError

    Examples
    --------
    >>> from lancecy.session import default
    >>> check_new_place(TableLocation.of("example.lance/archive/t.lance"), default())
    >>> check_new_place(TableLocation.of("example.lance/data/t.lance"), default())
    Traceback (most recent call last):
    ...
    lancecy.errors.PathPolicyError: no table can be created at .../data/t.lance: the folder 'data' belongs to ...
    """
    for above, folder in _folders_above(location.uri):
        if _has_table(location, above, session):
            advice = ", or make a branch of it with create_branch" if folder == TREE else ""
            raise PathPolicyError(
                f"no table can be created at {printable(location.uri)}: the folder {folder!r} belongs to the table "
                f"{printable(above)}; choose a place outside of that{advice}"
            )


def _has_table(location: TableLocation, uri: str, session: Session) -> bool:
    try:
        store = location.open_other(session, uri, location.root_options)
        return next(published(store.list(VERSIONS)), None) is not None
    except LanceError:
        return False


def _folders_above(uri: str) -> Iterator[tuple[str, str]]:
    """Every folder of a path that has the name of a table's own folder, after the place that would be that table."""
    scheme, mark, rest = uri.rpartition("://")
    parts = rest.split("/")
    for number, part in enumerate(parts):
        # The first part is a bucket, or empty.
        if number and part in OWN_FOLDERS:
            above = "/".join(parts[:number])
            yield f"{scheme}{mark}{above or '/'}", part
