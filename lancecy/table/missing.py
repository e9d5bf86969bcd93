"""Errors about files that a version names and that are not in their place.

A store knows only a path. The table knows which fragment needs the file and which base it should be in, and so
what the reader can do.
"""

from __future__ import annotations

from lancecy.errors import DatasetNotFoundError, MissingFileError
from lancecy.table.bases import Bases
from lancecy.table.clone_source import lost_source
from lancecy.table.manifest import ExternalFile, Fragment
from lancecy.table.paths import VERSIONS

__all__ = ["missing_blob", "missing_file"]


def missing_file(error: DatasetNotFoundError, bases: Bases, fragment: Fragment) -> DatasetNotFoundError:
    """The error for a missing object, with the fragment, the base and what to do.

    Parameters
    ----------
    error : DatasetNotFoundError
        The store's error; one that already names its fragment, or is about no object, is returned as it is.
    bases : Bases
        Of the version that names the file.
    fragment : Fragment
        The fragment that was read.

    Returns
    -------
    DatasetNotFoundError
        A ``MissingFileError`` caused by ``error``.
    """
    if error.kind != "object":
        return error
    kind, base_id = _named_by(fragment, error.name)
    return _told(error, bases, fragment.id, kind, base_id)


def missing_blob(
    error: DatasetNotFoundError, bases: Bases, fragment: Fragment, base_id: int
) -> DatasetNotFoundError:
    """The error for a missing object that holds a blob of a base; as :func:`missing_file`.

    Parameters
    ----------
    error : DatasetNotFoundError
    bases : Bases
    fragment : Fragment
    base_id : int
        0: the blob names its object by an absolute path.
    """
    if error.kind != "object" or base_id:
        return error if error.kind != "object" else _told(error, bases, fragment.id, "blob", base_id)
    what = (
        f"a blob of fragment {fragment.id} is {error.what.removeprefix('no object ')}, and that object is gone; the "
        "table names it by an absolute path, so it must be put back there"
    )
    return _made(what, error, fragment.id)


def _named_by(fragment: Fragment, path: str) -> tuple[str, int | None]:
    """What a path is to a fragment, and the base it is in."""
    folder, _, name = path.rpartition("/")
    beside = folder.rpartition("/")[2]
    for file in fragment.files:
        if file.path == name:
            return "data file", file.base_id
        if file.path.removesuffix(".lance") == beside:
            return "blob file", file.base_id
    deletion = fragment.deletion_file
    if deletion is not None and deletion.name(fragment.stored_id) == name:
        return "deletion file", deletion.base_id
    sequences = (fragment.row_ids, fragment.created_at_versions, fragment.last_updated_versions)
    if any(isinstance(stored, ExternalFile) and stored.path == path for stored in sequences):
        return "row id file", None
    return ("manifest" if folder == VERSIONS else "file"), None


def _told(
    error: DatasetNotFoundError, bases: Bases, fragment_id: int, kind: str, base_id: int | None
) -> MissingFileError:
    what = f"{kind} {error.name!r} of fragment {fragment_id} is missing in {bases.described(base_id)}"
    source = None if base_id is None else lost_source(bases, base_id)
    if source is not None:
        return _made(f"{what}: {source}", error, fragment_id, base_id)
    reasons = "the version was cleaned up since it was opened (checkout_latest opens the newest)"
    if base_id is None:
        reasons += ", or not all files of the table were copied"
    else:
        reasons += ", or the base moved (relocate_base tells the table its new place)"
    return _made(f"{what}; usual reasons: {reasons}", error, fragment_id, base_id)


def _made(
    what: str, error: DatasetNotFoundError, fragment_id: int, base_id: int | None = None
) -> MissingFileError:
    made = MissingFileError(what, path=error.name, fragment=fragment_id, base=base_id)
    made.__cause__ = error
    return made
