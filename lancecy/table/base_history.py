"""Where the bases of an old version are by now: relocations that happened since are followed.

A base keeps its id when it moves. An id alone does not say that it is the same base, since a restore to a version
before a base was registered takes it out of the table, and its id may then be given to another. So bases are
followed from version to version, and through restores to the version that was restored.

Source: storage layout specification, "Base Path System"; table sheet, sections 4.3 and 7.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lancecy.table.manifest import BasePath

__all__ = ["BasesAt", "followed"]


@dataclass(frozen=True, slots=True)
class BasesAt:
    """The bases of a version.

    Attributes
    ----------
    version : int
    bases : mapping of id to BasePath
    restored : int or None
        The version that it restored, if a restore made it.
    """

    version: int
    bases: Mapping[int, BasePath]
    restored: int | None = None


def followed(old: int, versions: Sequence[BasesAt]) -> dict[int, BasePath]:
    """The bases of an old version, each as the newest version has it that has it.

    Parameters
    ----------
    old : int
        Number of the version.
    versions : sequence of BasesAt
        It and those after it in order, from the earliest on that one of these restored; those that are gone are left out.

    Examples
    --------
    >>> here, there, other = (BasePath(1, path) for path in ("/here", "/there", "/other"))
    >>> versions = [BasesAt(1, {}), BasesAt(2, {1: here}), BasesAt(3, {1: there})]
    >>> followed(2, versions)[1].path
    '/there'
    >>> followed(2, [*versions, BasesAt(4, {}, restored=1), BasesAt(5, {1: other})])[1].path
    '/there'
    """
    # Of each version: by id, the version that registered the base.
    since: dict[int, dict[int, int]] = {}
    found: dict[int, BasePath] = {}
    before = 0
    for version in versions:
        if version.restored is not None:
            before = max((number for number in since if number <= version.restored), default=before)
        known = since.get(before, {})
        mine = {number: known.get(number, version.version) for number in version.bases}
        since[version.version], before = mine, version.version
        if version.version >= old:
            wanted = since[old].items() & mine.items()
            found.update({number: version.bases[number] for number, _ in wanted})
    return found
