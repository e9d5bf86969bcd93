"""What a commit is told beside its transaction, and what it tells: plain values."""

from __future__ import annotations

from dataclasses import dataclass

from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.table.paths import Naming
from lancecy.table.versions import ManifestLocation

__all__ = ["Committed", "Origin", "Policy"]


@dataclass(frozen=True, slots=True)
class Policy:
    """How a commit is made.

    Attributes
    ----------
    attempts : int
        Races for a version that may be lost.
    tries : int
        Times a failing request is made.
    check_files : bool
        Whether new data files are looked for, and their sizes compared, before they become part of the table.
    once : bool
        The transaction's id follows from a token: it may have been committed by a process that crashed,
        before the version this one has read.
    naming : Naming
        Of a new table.
    limits : Limits
    """

    attempts: int = 20
    tries: int = 4
    check_files: bool = True
    once: bool = False
    naming: Naming = Naming.V2
    limits: Limits = DEFAULT_LIMITS


@dataclass(frozen=True, slots=True)
class Origin:
    """The version a transaction was made from.

    Attributes
    ----------
    version : int
    naming : Naming
    identity : str or None
        That of its snapshot: a table made anew at the same place is another table.
    """

    version: int
    naming: Naming
    identity: str | None = None


@dataclass(frozen=True, slots=True)
class Committed:
    """Where a transaction landed.

    Attributes
    ----------
    location : ManifestLocation
    attempts : int
        Races entered, 1 if the first was won; 0 if the transaction had landed before.
    """

    location: ManifestLocation
    attempts: int

    @property
    def version(self) -> int:
        return self.location.version
