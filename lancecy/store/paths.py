"""The rule for relative paths: every path in a table stays below its root.

Every adapter calls :func:`check_path` before it touches the file system or the
network. The rule is textual, the same for every store, and is applied to the path
as written and percent-decoded once, because web servers decode.
"""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import unquote

from lancecy.errors import PathPolicyError, printable
from lancecy.limits import DEFAULT_LIMITS

__all__ = ["LONGEST_NAME", "check_path", "check_prefix", "is_safe_path"]

LONGEST_NAME = 255
"""Bytes of the longest name of a file or directory on common disks."""

_LONGEST = DEFAULT_LIMITS.name_bytes

# Matches nearly every path; others, such as a segment that starts with a dot, take the slow check.
_PLAIN = re.compile(r"[\w\-][\w\-.]*(?:/[\w\-][\w\-.]*)*", re.ASCII).fullmatch
_DRIVE = re.compile(r"[A-Za-z]:(?:/|$)").match

# Control characters, lone surrogates, and separators that some tools treat as newlines.
_FORBIDDEN = frozenset({"Cc", "Cs", "Zl", "Zp"})


def check_path(path: str) -> str:
    """Return ``path`` if it names something below the root of a store.

    Parameters
    ----------
    path : str
        Relative, '/'-separated.

    Raises
    ------
    PathPolicyError
        It is empty, absolute, holds an empty, ``.`` or ``..`` segment, a backslash, a control character,
        a scheme or a drive, as written or percent-decoded once, or a segment is too long.

    Examples
    --------
    >>> check_path("data/part-0.lance")
    'data/part-0.lance'
    >>> check_path("data/../../etc/passwd")
    Traceback (most recent call last):
    ...
    lancecy.errors.PathPolicyError: path 'data/../../etc/passwd' has a '..' segment
    """
    if _PLAIN(path) is not None and len(path) <= _LONGEST:
        return path
    problem = _problem(path)
    if problem is None and "%" in path:
        problem = _problem(unquote(path))
        problem = problem and f"{problem} once percent-decoded"
    if problem is not None:
        raise PathPolicyError(f"path {printable(path)!r} {problem}", path=printable(path))
    return path


def check_prefix(prefix: str) -> str:
    """Return a folder prefix without trailing slash; "" is the whole store. Raises as :func:`check_path`."""
    folder = prefix.removesuffix("/")
    return check_path(folder) if folder else folder


def is_safe_path(path: str) -> bool:
    """Whether :func:`check_path` would accept the path."""
    try:
        check_path(path)
    except PathPolicyError:
        return False
    return True


def _problem(path: str) -> str | None:
    if not path:
        return "is empty"
    if path[0] == "/":
        return "is absolute"
    if "\\" in path:
        return "has a backslash"
    if "://" in path:
        return "has a scheme"
    if _DRIVE(path):
        return "has a drive letter"
    if any(unicodedata.category(character) in _FORBIDDEN for character in path):
        return "has a control character"
    return _segment_problem(path.split("/"))


def _segment_problem(segments: list[str]) -> str | None:
    for segment in segments:
        if segment in ("", ".", ".."):
            return f"has a {segment!r} segment" if segment else "has an empty segment"
        if len(segment.encode("utf-8")) > _LONGEST:
            return f"has a segment of more than {_LONGEST} bytes"
    return None
