"""Damaged manifests: what counts as damage, and what a message says about it.

Bytes that do not follow the format are damage. A refusal by a limit or a policy is none, nor is an unsupported
feature or a failed request: the same bytes may be readable by others, or later.
"""

from __future__ import annotations

from lancecy.errors import (
    DatasetNotFoundError,
    FormatError,
    LanceError,
    LimitError,
    PathPolicyError,
    printable,
)
from lancecy.table.paths import VERSIONS, parse_manifest_name

__all__ = ["DAMAGED", "NOTHING_SOUND", "OPEN_OLDER", "is_damage", "with_remedy", "with_remedy_for_missing"]

DAMAGED = "_damaged"
"""Folder of the manifests that were set aside."""
OPEN_OLDER = "; recover=True opens that older version and changes nothing"
"""Addition to the remedy where a table is opened at its newest version."""
NOTHING_SOUND = (
    "; no other version is sound either, so the table cannot be repaired: put manifests back from a copy of its "
    f"{VERSIONS}/, or write the rows of the files in data/, which lancecy.LanceFileReader reads one by one with "
    "the deleted rows if they are of 2.x, to a new table"
)
"""In place of the remedy where no version is sound."""


def is_damage(error: LanceError) -> bool:
    """Whether an error of reading a manifest says that its bytes are damaged.

    Examples
    --------
    >>> is_damage(FormatError("no manifest")), is_damage(LimitError("too many", limit="fragments", claimed=9))
    (True, False)
    """
    return isinstance(error, FormatError) and not isinstance(error, LimitError | PathPolicyError)


def with_remedy(error: FormatError, root: str, also: str = "") -> FormatError:
    """The same error; if it is about a damaged version of a table, it now says how to repair the table.

    Parameters
    ----------
    error : FormatError
    root : str
        URI of the folder that its path is below, unless the path is absolute.
    also : str
        Added to the remedy.

    Examples
    --------
    >>> error = FormatError("no manifest", path="_versions/7.manifest")
    >>> print(with_remedy(error, "t.lance"))
    no manifest; to repair the table: lancecy.repair('t.lance'), in a shell `lancecy repair t.lance`: the damaged \
manifest moves to _damaged/, and version 7 gets the rows of the newest sound version before it
    """
    folder, _, name = (error.path or "").rpartition("/")
    parsed = parse_manifest_name(name)
    is_version = folder.rpartition("/")[2] == VERSIONS and parsed is not None and not parsed.detached
    if parsed is None or not is_version or not is_damage(error) or "lancecy.repair" in error.what:
        return error
    if parsed.staged:
        remedy = (
            "; it was staged for a commit through an external manifest store: a cleanup that names this store removes it "
            "once it is seven days old, and with delete_unverified=True at once"
        )
        error.what += "" if remedy in error.what else remedy
        return error
    in_other_table = folder.startswith("/") or "://" in folder
    place = printable((folder if in_other_table else f"{root}/{folder}").removesuffix(f"/{VERSIONS}"))
    error.what += (
        f"; to repair the table: {_call(place)}, in a shell `lancecy repair {place}`: the damaged "
        f"manifest moves to {DAMAGED}/, and version {parsed.version} gets the rows of the newest sound version "
        f"before it{also}"
    )
    return error


def with_remedy_for_missing(error: DatasetNotFoundError, root: str, version: int) -> DatasetNotFoundError:
    """The error of a missing data file or deletion file, which now says how to get rid of the version that names it.

    Parameters
    ----------
    error : DatasetNotFoundError
    root : str
        URI of the table.
    version : int
        The version that names the file.
    """
    place = printable(root)
    error.what += (
        f"; if the file is lost: {_call(place)} undoes version {version} if its manifest is another table's; "
        f"else open an older version whose files are there, lancecy.dataset({place!r}, version=N), and restore() it"
    )
    return error


def _call(place: str) -> str:
    """The call that repairs a table."""
    return f"lancecy.repair({place!r})" + (" with its storage options" if "://" in place else "")
