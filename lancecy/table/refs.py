"""Tags and branches: small JSON files in ``_refs/`` of the main table, which protect versions from cleanups.

::

    _refs/tags/{tag}.json          {"branch": null or its name, "version": ..., ...}
    _refs/branches/{branch}.json   {"parentBranch": null or its name, "parentVersion": ..., ...}
    tree/{branch}/                 the table of a branch

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
    """A version that a tag or a branch needs.

    Attributes
    ----------
    path : str
        Path of the tag or branch file.
    branch : str or None
        Branch of the version; None for the main one.
    version : int
    is_tag : bool
        True for a tag, False for the start of a branch.
    """

    path: str
    branch: str | None
    version: int
    is_tag: bool


def decode_pin(memory: Memory, path: str, limits: Limits = DEFAULT_LIMITS) -> Pin:
    """The version named in a tag or branch file.

    Parameters
    ----------
    memory : (file size,) uint8
    path : str
        Path below the main root; it distinguishes tags from branches.

    Raises
    ------
    FormatError
        The file names no version.
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
        # Tags of old releases have no branch, and the oldest branches start on the main one.
        branch = found.get("branch" if is_tag else "parentBranch")
        version = found["version" if is_tag else "parentVersion"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FormatError(f"{path} does not say which version it is about: {error!r}", path=path) from error
    if type(version) is not int or version < 1 or not (branch is None or isinstance(branch, str)):
        raise FormatError(f"{path} names version {version!r} of branch {branch!r}", path=path)
    return Pin(path, None if branch == "main" else branch, version, is_tag)


def branch_folder(branch: str) -> str:
    """Folder of a branch's table, below the main root.

    Examples
    --------
    >>> branch_folder("team/test")
    'tree/team/test'
    """
    return f"{TREE}/{branch}"
