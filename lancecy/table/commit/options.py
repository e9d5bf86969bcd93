"""Options and result of a commit, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.records import dataclass
from lancecy.table.paths import Naming
from lancecy.table.versions import ManifestLocation
from lancecy.table.wire.manifest import Written

__all__ = ["Committed", "Origin", "Policy"]


@dataclass(frozen=True, slots=True)
class Policy:
    """Options of the commit loop.

    Attributes
    ----------
    attempts : int
        Maximum number of lost races for a version.
    check_files : bool
        Whether to check that new data files exist and have their stated sizes.
    written_ns : int or None
        When the writing of the new files began, in nanoseconds since 1970: for ten seconds they are taken to be there.
    once : bool
        The transaction's id is derived from a token: a crashed process may have committed it before the
        version that this one has read.
    naming : Naming
        Naming scheme of a new table.
    detached : bool
        Whether the version is detached: of a random number, outside the history, and never the latest.
    limits : Limits
    timeout_ns : int or None
        After this no new attempt is made.
    next_only : bool
        Whether any later version is a conflict: the change depends on all rows of the version it was made from.
    """

    attempts: int = 20
    check_files: bool = True
    written_ns: int | None = None
    once: bool = False
    naming: Naming = Naming.V2
    detached: bool = False
    limits: Limits = DEFAULT_LIMITS
    timeout_ns: int | None = None
    next_only: bool = False


@dataclass(frozen=True, slots=True)
class Origin:
    """The version a transaction was made from.

    Attributes
    ----------
    version : int
    naming : Naming
    identity : str or None
        Identity of its snapshot: a table recreated at the same place is another table.
    """

    version: int
    naming: Naming
    identity: str | None = None


@dataclass(frozen=True, slots=True)
class Committed:
    """The version that a transaction made.

    Attributes
    ----------
    location : ManifestLocation
    attempts : int
        Number of races, 1 if the first was won; 0 if the transaction was committed before.
    config : mapping of str to str
        Configuration of the version; empty if the transaction was committed before.
    data : Written or None
        The manifest file, if this commit certainly wrote it.
    """

    location: ManifestLocation
    attempts: int
    config: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    data: Written | None = field(default=None, compare=False, repr=False)

    @property
    def version(self) -> int:
        return self.location.version

    @property
    def written(self) -> tuple[ManifestLocation, Written] | None:
        """The manifest file and its bytes, if this commit certainly wrote it."""
        return None if self.data is None else (self.location, self.data)
