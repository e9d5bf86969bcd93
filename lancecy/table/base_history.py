"""Follows relocations to the current places of an old version's bases.

A base keeps its id when it moves, but equal ids do not prove equal bases: a restore to a version before the
registration of a base removes it, and another base may then get its id. So bases are followed from version to
version, and through restores to the restored version.

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
        The restored version, if a restore made this one.
    """

    version: int
    bases: Mapping[int, BasePath]
    restored: int | None = None


def followed(old: int, versions: Sequence[BasesAt]) -> dict[int, BasePath]:
    """The bases of an old version, each in its form in the newest version that has it.

    Parameters
    ----------
    old : int
        Number of the version.
    versions : sequence of BasesAt
        This version and later ones in order, from the earliest one that any of them restored; without removed ones.

    Examples
    --------
    >>> here, there, other = (BasePath(1, path) for path in ("/here", "/there", "/other"))
    >>> versions = [BasesAt(1, {}), BasesAt(2, {1: here}), BasesAt(3, {1: there})]
    >>> followed(2, versions)[1].path
    '/there'
    >>> followed(2, [*versions, BasesAt(4, {}, restored=1), BasesAt(5, {1: other})])[1].path
    '/there'
    """
    # For each version: base id to the version that registered the base.
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
