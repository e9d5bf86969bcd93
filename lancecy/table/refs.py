"""Tags and branches: small JSON files in ``_refs/`` of the main table, which keep versions from a cleanup.

::

    _refs/tags/{tag}.json          {"branch": null or its name, "version": ..., ...}
    _refs/branches/{branch}.json   {"parentBranch": null or its name, "parentVersion": ..., ...}
    tree/{branch}/                 the table that a branch is

Facts: table sheet, sections 6.1 and 6.2.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from lancecy.errors import FormatError
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.store.base import Memory

__all__ = ["BRANCHES", "REFS", "TAGS", "TREE", "Pin", "branch_folder", "decode_pin"]

REFS = "_refs"
TAGS = f"{REFS}/tags"
BRANCHES = f"{REFS}/branches"
TREE = "tree"


@dataclass(frozen=True, slots=True)
class Pin:
    """A version that something outside of the history needs.

    Attributes
    ----------
    path : str
        Of the file that says so.
    branch : str or None
        Branch of the version; None for the main one.
    version : int
    is_tag : bool
        Otherwise a branch begins there.
    """

    path: str
    branch: str | None
    version: int
    is_tag: bool


def decode_pin(memory: Memory, path: str, limits: Limits = DEFAULT_LIMITS) -> Pin:
    """The version that a file of a tag or a branch names.

    Parameters
    ----------
    memory : (file size,) uint8
    path : str
        Below the main root; tells tags from branches.

    Raises
    ------
    FormatError
        The file does not say which version it is about.
    LimitError
        It is too large.

    Examples
    --------
    >>> import numpy as np
    >>> text = np.frombuffer(b'{"branch": null, "version": 3, "manifestSize": 9}', np.uint8)
    >>> decode_pin(text, "_refs/tags/v1.json").version
    3
    """
    limits.check("metadata_bytes", memory.size, f"size of {path}")
    is_tag = path.startswith(f"{TAGS}/")
    try:
        found: Any = json.loads(memory.tobytes())
        # Tags of old releases have no branch, and the oldest branches begin on the main one.
        branch = found.get("branch" if is_tag else "parentBranch")
        version = found["version" if is_tag else "parentVersion"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FormatError(f"{path} does not say which version it is about: {error!r}", path=path) from error
    if type(version) is not int or version < 1 or not (branch is None or isinstance(branch, str)):
        raise FormatError(f"{path} names version {version!r} of branch {branch!r}", path=path)
    return Pin(path, None if branch == "main" else branch, version, is_tag)


def branch_folder(branch: str) -> str:
    """Where the table of a branch is, below the main root.

    Examples
    --------
    >>> branch_folder("team/test")
    'tree/team/test'
    """
    return f"{TREE}/{branch}"
