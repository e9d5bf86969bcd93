"""Names of namespaces and tables, and the ids that a catalog stores for them.

Source: namespace document, "Manifest Table Schema" and "Manifest Table Directory".
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Sequence
from urllib.parse import unquote

from lance_namespace import InvalidInputError

from lancecy.errors import printable
from lancecy.store.paths import LONGEST_NAME, is_safe_path

__all__ = [
    "DELIMITER",
    "DIRECTORY_SUFFIX",
    "check_new_id",
    "directory_of",
    "hashed_directory",
    "is_hashed",
    "object_id",
    "path_of",
    "split_name",
    "with_parents",
]

DELIMITER = "$"
"""Joins the names of an id. It is not escaped, so new names have none."""
DIRECTORY_SUFFIX = ".lance"
"""End of the name of a table's directory in V1."""

_HASH_DIGITS = 8
_FORBIDDEN = frozenset({"Cc", "Cs", "Zl", "Zp"})


def path_of(id: Sequence[str] | None, *, kind: str) -> tuple[str, ...]:
    """The names of a request's id.

    Parameters
    ----------
    id : sequence of str or None
    kind : "namespace" or "table"
        A table has at least one name.

    Raises
    ------
    InvalidInputError
        There is no id.
    """
    if id is None:
        raise InvalidInputError(f"the id of a {kind} is a list of names, and [] the root; none is given")
    names = tuple(id)
    if kind == "table" and not names:
        raise InvalidInputError("the id of a table has at least one name, and [] is the root namespace")
    return names


def split_name(name: str) -> list[str]:
    """The id for names joined by dots, as users write them.

    Examples
    --------
    >>> split_name("ns1.ns2.table"), split_name("")
    (['ns1', 'ns2', 'table'], [])
    """
    return name.split(".") if name else []


def object_id(names: Sequence[str]) -> str:
    """The id under which a catalog stores an object.

    Examples
    --------
    >>> object_id(("ns1", "table"))
    'ns1$table'
    """
    return DELIMITER.join(names)


def check_new_id(names: Sequence[str]) -> None:
    """Refuse names that a new object cannot have.

    Raises
    ------
    InvalidInputError
        A name is empty, ``.``, ``..`` or too long, or has a ``$``, a slash, a backslash or a control character.

    Examples
    --------
    >>> check_new_id(("ns1", "table"))
    >>> check_new_id(("a$b",))
    Traceback (most recent call last):
        ...
    lance_namespace.errors.InvalidInputError: name 'a$b' has '$', which joins the names of an id
    """
    for name in names:
        problem = _problem(name)
        if problem:
            raise InvalidInputError(f"name {printable(name)!r} {problem}")


def _problem(name: str) -> str | None:
    if name in ("", ".", ".."):
        return "cannot be that of a directory"
    if DELIMITER in name:
        return "has '$', which joins the names of an id"
    if "/" in name or "\\" in name:
        return "has a slash, which separates directories"
    if any(unicodedata.category(character) in _FORBIDDEN for character in name):
        return "has a control character"
    if len(name.encode()) + len(DIRECTORY_SUFFIX) > LONGEST_NAME:
        return f"is longer than {LONGEST_NAME - len(DIRECTORY_SUFFIX)} bytes"
    if not is_safe_path(name) or "/" in unquote(name):
        return "means something else once it is percent-decoded"
    return None


def directory_of(name: str) -> str:
    """The directory of a table in V1, and of one in the root namespace in compatibility mode.

    Examples
    --------
    >>> directory_of("table1")
    'table1.lance'
    """
    return f"{name}{DIRECTORY_SUFFIX}"


def with_parents(location: str) -> list[str]:
    """A directory and those above it, up to the root.

    Examples
    --------
    >>> with_parents("old/2024/t.lance")
    ['old', 'old/2024', 'old/2024/t.lance']
    """
    parts = location.split("/")
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]


def hashed_directory(names: Sequence[str]) -> str:
    """A new directory for a table in V2: ``<hash>_<object_id>``.

    The hash has eight random digits, so that a table that is created again gets another directory.

    Raises
    ------
    InvalidInputError
        The name of the directory is too long.
    """
    directory = f"{os.urandom(_HASH_DIGITS // 2).hex()}_{object_id(names)}"
    if len(directory.encode()) > LONGEST_NAME:
        raise InvalidInputError(
            f"the names of {printable(object_id(names))!r} have more than {LONGEST_NAME - _HASH_DIGITS - 1} bytes together, "
            "and all are in the name of its directory: shorten them"
        )
    return directory


def is_hashed(directory: str) -> bool:
    """Whether a directory has a name as :func:`hashed_directory` makes it.

    Examples
    --------
    >>> is_hashed("a1b2c3d4_table2"), is_hashed("table2.lance")
    (True, False)
    """
    digits, mark, rest = directory.partition("_")
    return bool(mark and rest) and len(digits) == _HASH_DIGITS and set(digits) <= set("0123456789abcdef")
