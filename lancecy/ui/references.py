"""Versions in addresses: ``v3``, ``tNAME`` for a tag, ``b:NAME`` for a branch, and ``b3:NAME`` for a version of it.

Each kind has a letter of its own, so that a tag named ``3`` is no version, whatever a stranger calls a tag.
"""

from __future__ import annotations

import re

from lancecy.errors import NotFoundError
from lancecy.table.refs import MAIN
from lancecy.table.refs.reference import Reference

__all__ = ["address_of", "address_of_tag", "reference_of"]

_FORM = re.compile(r"v(?P<version>\d{1,19})|t(?P<tag>.+)|b(?P<of>\d{0,19}):(?P<branch>.+)", re.DOTALL)


def reference_of(text: str) -> Reference:
    """The version that a part of an address names; None, the newest one, for no text.

    Parameters
    ----------
    text : str

    Raises
    ------
    NotFoundError
        It has none of the forms.

    Examples
    --------
    >>> reference_of(""), reference_of("v3"), reference_of("t3"), reference_of("b:dev"), reference_of("b2:a/b")
    (None, 3, '3', ('dev', None), ('a/b', 2))
    """
    if not text:
        return None
    found = _FORM.fullmatch(text)
    if found is None:
        raise NotFoundError("the address names no version, tag or branch", kind="version", name=text[:100])
    if found["version"] is not None:
        return int(found["version"])
    if found["tag"] is not None:
        return found["tag"]
    return found["branch"], int(found["of"]) if found["of"] else None


def address_of(branch: str | None, version: int | None = None) -> str:
    """The text for a version of a branch; of its newest version by default.

    Examples
    --------
    >>> address_of(None, 3), address_of("dev", 2), address_of("dev"), address_of("main")
    ('v3', 'b2:dev', 'b:dev', '')
    """
    number = "" if version is None else str(version)
    if branch is None or branch == MAIN:
        return f"v{number}" if number else ""
    return f"b{number}:{branch}"


def address_of_tag(name: str) -> str:
    """The text for a tag.

    Examples
    --------
    >>> address_of_tag("v1.0")
    'tv1.0'
    """
    return f"t{name}"
