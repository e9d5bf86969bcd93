"""Names of tags and branches, and the paths of their files.

Sources: branch and tag specification, "Branch Name" and "Tag Name"; table sheet, sections 6.1 and 6.3.
"""

from __future__ import annotations

from urllib.parse import quote, unquote

from lancecy.errors import printable
from lancecy.store.paths import LONGEST_NAME
from lancecy.table.paths import TREE

__all__ = [
    "BRANCHES",
    "GUARDS",
    "MAIN",
    "REFS",
    "TAGS",
    "TREE",
    "branch_folder",
    "branch_of",
    "branch_path",
    "check_branch_name",
    "check_tag_name",
    "is_branch_name",
    "tag_of",
    "tag_path",
]

MAIN = "main"
"""The name that users give to the table without a branch. Files have null instead."""
REFS = "_refs"
TAGS = f"{REFS}/tags"
BRANCHES = f"{REFS}/branches"
GUARDS = f"{REFS}/guards"

_ENDING = ".json"
_SIGNS = frozenset(".-_")


def check_tag_name(name: str) -> None:
    """Refuse a name that a new tag cannot have.

    Letters and digits are ASCII only: pylance 14 creates other tags, and can then list no tag of the table.

    Raises
    ------
    ValueError

    Examples
    --------
    >>> check_tag_name("v1.0")
    >>> check_tag_name("a/b")
    Traceback (most recent call last):
    ValueError: 'a/b' cannot be the name of a tag: it has '/'; allowed are ASCII letters, digits, '.', '-' and '_'
    """
    problem = _tag_problem(name)
    if problem:
        raise ValueError(f"{printable(repr(name))} cannot be the name of a tag: {problem}")


def check_branch_name(name: str) -> None:
    """Refuse a name that a new branch cannot have.

    Raises
    ------
    ValueError

    Examples
    --------
    >>> check_branch_name("team/experiment-1")
    >>> check_branch_name("main")
    Traceback (most recent call last):
    ValueError: 'main' cannot be the name of a branch: it is the name of the table without a branch
    """
    problem = _branch_problem(name)
    if problem:
        raise ValueError(f"{printable(repr(name))} cannot be the name of a branch: {problem}")


def is_branch_name(name: str) -> bool:
    """Whether a branch can have this name, so that its folder is below ``tree/``."""
    return not _branch_problem(name)


def branch_folder(branch: str) -> str:
    """Folder of a branch's table, below the main root.

    Examples
    --------
    >>> branch_folder("team/test")
    'tree/team/test'
    """
    return f"{TREE}/{branch}"


def tag_path(tag: str) -> str:
    """Path of a tag's file, below the main root.

    Examples
    --------
    >>> tag_path("v1.0")
    '_refs/tags/v1.0.json'
    """
    return f"{TAGS}/{_quoted(tag)}{_ENDING}"


def branch_path(branch: str) -> str:
    """Path of a branch's file, below the main root.

    Examples
    --------
    >>> branch_path("team/test")
    '_refs/branches/team%2Ftest.json'
    """
    return f"{BRANCHES}/{_quoted(branch)}{_ENDING}"


def tag_of(path: str) -> str | None:
    """The tag whose file has this path, None if it is not the file of a tag.

    Examples
    --------
    >>> tag_of("_refs/tags/v1.json"), tag_of("_refs/branches/v1.json")
    ('v1', None)
    """
    return _name_of(path, TAGS)


def branch_of(path: str) -> str | None:
    """The branch whose file has this path, None if it is not the file of a branch.

    Examples
    --------
    >>> branch_of("_refs/branches/team%2Ftest.json")
    'team/test'
    """
    return _name_of(path, BRANCHES)


def _quoted(name: str) -> str:
    # Names from a command line that is not UTF-8 have lone surrogates. No tag or branch has one, which is an answer.
    return quote(name, safe="", errors="surrogatepass")


def _name_of(path: str, folder: str) -> str | None:
    place, _, name = path.rpartition("/")
    return unquote(name.removesuffix(_ENDING)) if place == folder and name.endswith(_ENDING) else None


def _tag_problem(name: str) -> str:
    if not name:
        return "it is empty"
    odd = next((sign for sign in name if not (sign.isascii() and sign.isalnum()) and sign not in _SIGNS), "")
    if odd:
        return f"it has {odd!r}; allowed are ASCII letters, digits, '.', '-' and '_'"
    if name.startswith(".") or name.endswith("."):
        return "it begins or ends with '.'"
    if len(name) + len(_ENDING) > LONGEST_NAME:
        return f"its file would have a name of more than {LONGEST_NAME} bytes"
    return _problem_of_all(name)


def _branch_problem(name: str) -> str:
    if not name:
        return "it is empty"
    if name == MAIN:
        return "it is the name of the table without a branch"
    if name.startswith("/") or name.endswith("/") or "//" in name:
        return "'/' stands between two parts that are not empty"
    odd = next((sign for sign in name if not sign.isalnum() and sign not in _SIGNS and sign != "/"), "")
    if odd:
        return f"it has {odd!r}; allowed are letters, digits, '.', '-', '_' and '/'"
    if "." in name.split("/"):
        return "the part '.' is no folder of its own"
    return _problem_of_all(name)


def _problem_of_all(name: str) -> str:
    if ".." in name:
        return "it has '..'"
    return "it ends with '.lock'" if name.endswith(".lock") else ""
