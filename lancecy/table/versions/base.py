"""The protocol of version stores, and its values."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import field
from typing import Protocol

from lancecy.records import dataclass
from lancecy.store.base import ObjectMeta
from lancecy.table.paths import VERSIONS, ManifestName, Naming, manifest_name
from lancecy.table.requests import Steps

__all__ = ["ManifestEntry", "ManifestLocation", "Outcome", "VersionStore"]


@dataclass(frozen=True, slots=True)
class ManifestLocation:
    """A manifest file.

    Attributes
    ----------
    version : int
    path : str
        Below the dataset root.
    size : int, bytes
        0 if the store did not state it.
    naming : Naming
    identity : str
        ``ObjectMeta.identity`` of the file as it was listed; "" if it was not, or the store has none.
    """

    version: int
    path: str
    size: int
    naming: Naming
    identity: str = field(default="", compare=False)

    @classmethod
    def canonical(cls, version: int, naming: Naming, size: int = 0) -> ManifestLocation:
        """The final location of a published manifest, the same for every version store."""
        return cls(version, f"{VERSIONS}/{manifest_name(version, naming)}", size, naming)


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """A manifest file as a listing shows it.

    Attributes
    ----------
    meta : ObjectMeta
    name : ManifestName
        Its parsed file name.
    """

    meta: ObjectMeta
    name: ManifestName


class Outcome(enum.Enum):
    """The result of an attempt to publish a version."""

    WON = "the version is this manifest"
    LOST = "the version exists already; reading it tells whether it is this manifest"
    UNKNOWN = "a request failed and the version exists now; reading it tells whether it is this manifest"


class VersionStore(Protocol):
    """Finds, publishes and removes the versions of one table.

    Methods are generators over ``requests``. They yield requests with paths below the dataset root, and return
    a value. Listings hold published versions only: no detached, staged or temporary manifests.

    Notes
    -----
    An implementation keeps three promises. A published version never changes, unless its manifest is damaged and
    :meth:`replace` gives it a sound one. Of several writers that
    publish one version, exactly one gets ``WON`` or finds its own manifest there. A reader that has seen a
    version finds it again until it is removed.
    """

    @property
    def needs_conditional_put(self) -> bool:
        """Whether publishing relies on the object store to create an object only if it is absent."""

    @property
    def fails_at_once(self) -> bool:
        """Whether a failed request is never carried out later, as on a local disk."""

    @property
    def settles_staged(self) -> bool:
        """Whether no version is a staged manifest that :meth:`manifests` lists: it finishes those that are."""

    def latest(self) -> Steps[ManifestLocation | None]:
        """The newest version, None if the table has none.

        Raises
        ------
        FormatError
            The manifests of the table contradict each other.
        """

    def at(self, version: int, naming: Naming | None = None) -> Steps[ManifestLocation | None]:
        """One version, None if it does not exist.

        Parameters
        ----------
        version : int
            Detached versions (bit 63 set) included.
        naming : Naming, optional
            The naming scheme of the table, if it is known. The store may then return the location without asking
            whether the manifest exists; reading it tells.
        """

    def versions(self, above: int = 0, naming: Naming | None = None) -> Steps[list[ManifestLocation]]:
        """All versions with a number above ``above``, oldest first.

        Parameters
        ----------
        above : int
        naming : Naming, optional
            The naming scheme of the table, if it is known.

        Raises
        ------
        ConflictError
            ``naming`` is not the naming scheme of these versions.
        FormatError
            Manifests of two naming schemes.
        """

    def publish(self, version: int, naming: Naming, data: bytes) -> Steps[Outcome]:
        """Make a manifest a version of the table, unless that version exists.

        Parameters
        ----------
        version : int
        naming : Naming
        data : bytes
            The manifest file.

        Raises
        ------
        CommitUnknownError
            The store cannot tell whether the version was published.
        StoreError
            The version was not published.
        """

    def replace(self, location: ManifestLocation, seen: bytes, data: bytes) -> Steps[bool]:
        """Replace the damaged manifest of a published version; the version exists all the time.

        Callers that replace the same bytes give the same data, so one that is late or repeats itself does no harm.

        Parameters
        ----------
        location : ManifestLocation
        seen : bytes
            The damaged manifest file.
        data : bytes
            The manifest file in its place.

        Returns
        -------
        bool
            Whether the version has the data now; False if its manifest was neither ``seen`` nor ``data``.

        Raises
        ------
        StoreError
            The storage failed, and the version has one or the other.
        """

    def manifests(self) -> Steps[list[ManifestEntry]]:
        """Every manifest file of the table and its branches: published, detached and staged."""

    def forget(self, paths: Sequence[str]) -> Steps[None]:
        """Forget published versions whose manifests, or whole folders, are about to be removed as files.

        Parameters
        ----------
        paths : sequence of str
            Of the table and its branches; those of other files are ignored.
        """

    def remove(self, paths: Sequence[str]) -> Steps[None]:
        """Remove published versions by the paths of their manifests; missing ones are no error."""
