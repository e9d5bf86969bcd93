"""The locations of a main table and its branches.

Facts: table sheet, section 6.2.
"""

from __future__ import annotations

from dataclasses import replace

from lancecy.errors import UnsupportedError, printable
from lancecy.table.location import TableLocation
from lancecy.table.refs.names import branch_folder

__all__ = ["branch_location", "main_location"]


def branch_location(main: TableLocation, branch: str | None) -> TableLocation:
    """The location of a branch.

    Parameters
    ----------
    main : TableLocation
        Of the main table.
    branch : str or None
        None for the main table.

    Examples
    --------
    >>> branch_location(TableLocation.of("/data/t.lance"), "team/test").uri
    '/data/t.lance/tree/team/test'
    """
    return main if branch is None else replace(main, uri=f"{main.uri}/{branch_folder(branch)}")


def main_location(location: TableLocation, branch: str | None) -> TableLocation:
    """The location of the main table, which has the files of tags and branches.

    Parameters
    ----------
    location : TableLocation
        Of the main table or a branch.
    branch : str or None
        The branch that its manifests name; None if it is the main table.

    Raises
    ------
    UnsupportedError
        The table is not in the folder of that branch: it was moved without its main table.

    Examples
    --------
    >>> main_location(TableLocation.of("/data/t.lance/tree/team/test"), "team/test").uri
    '/data/t.lance'
    """
    if branch is None:
        return location
    ending = f"/{branch_folder(branch)}"
    if not location.uri.endswith(ending):
        raise UnsupportedError(
            f"{location.uri} is the branch {printable(branch)!r} of a table that is not in the folders above, so its tags, "
            "branches and the other users of its files are unknown",
            feature="a branch that was moved without its main table",
        )
    return replace(location, uri=location.uri.removesuffix(ending))
