"""Gives the manifests of a table with V1 names their V2 names.

::

    _versions/3.manifest  ->  _versions/18446744073709551612.manifest    newest first, then the V1 names are removed

Until it is done, the table has names of both schemes, and cannot be opened. What a process that dies leaves, the next
run finishes: a version of both names has the same bytes under both.

Facts: table sheet, section 1.3.
"""

from __future__ import annotations

from collections.abc import Sequence

from lancecy.errors import ConflictError, DatasetNotFoundError, FormatError, UnsupportedError
from lancecy.store.base import Memory, ObjectMeta
from lancecy.table.paths import VERSIONS, Naming
from lancecy.table.requests import List, Pause, Read, Remove, Steps, again
from lancecy.table.versions.base import ManifestLocation, Outcome, VersionStore
from lancecy.table.versions.folder import VersionFolder, published

__all__ = ["rename_manifests"]

_ROUNDS = 10


def rename_manifests(versions: VersionStore, *, only_begun: bool = False) -> Steps[tuple[int, ...]]:
    """Requests that give V2 names to all published manifests with V1 names.

    Parameters
    ----------
    versions : VersionStore
    only_begun : bool
        Do nothing for a table whose names are all of V1.

    Returns
    -------
    tuple of int
        The versions that were renamed.

    Raises
    ------
    FormatError
        A version has two different manifests.
    ConflictError
        Other processes publish versions with V1 names all the time.
    UnsupportedError
        An external manifest store knows the versions by their names.
    StoreError
        The storage failed; another run does the rest.
    """
    renamed = set[int]()
    for attempt in range(_ROUNDS):
        metas: Sequence[ObjectMeta] = yield from again(List(VERSIONS))
        found = sorted(published(metas), key=lambda location: location.version, reverse=True)
        old = [location for location in found if location.naming is Naming.V1]
        if not old or (only_begun and not renamed and len(old) == len(found)):
            return tuple(sorted(renamed))
        if not isinstance(versions, VersionFolder):
            raise UnsupportedError(
                "an external manifest store knows the versions by the names of their manifests, which stay as they are",
                feature="renamed manifests in an external manifest store",
            )
        # The newest first: where a listing is trusted to begin with it, no reader takes an older one for the newest.
        copied = yield from _copied(versions, old)
        yield from again(Remove(tuple(location.path for location in copied)))
        renamed.update(location.version for location in copied)
        # A writer that was under way may have published another one: look again.
        yield Pause(attempt)
    raise ConflictError(f"{VERSIONS}/ has V1 names again each time it is listed: is another process writing?")


def _copied(versions: VersionFolder, locations: Sequence[ManifestLocation]) -> Steps[list[ManifestLocation]]:
    """Publish manifests of V1 names under their V2 names; returns those that were found."""
    copied = list[ManifestLocation]()
    for location in locations:
        try:
            memory: Memory = yield from again(Read(location.path))
        except DatasetNotFoundError:
            continue  # another process renamed it meanwhile, or the store shows it late
        yield from _copy(versions, location, memory.tobytes())
        copied.append(location)
    return copied


def _copy(versions: VersionFolder, location: ManifestLocation, data: bytes) -> Steps[None]:
    outcome = yield from versions.publish(location.version, Naming.V2, data)
    if outcome is Outcome.WON:
        return
    path = ManifestLocation.canonical(location.version, Naming.V2).path
    there: Memory = yield from again(Read(path))
    if there.tobytes() != data:
        raise FormatError(
            f"version {location.version} has two different manifests, {location.path} and {path}: a writer was under way "
            "while names were migrated. Look at both, and move the one that is not to count out of the folder"
        )
