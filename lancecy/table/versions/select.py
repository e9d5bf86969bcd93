"""Chooses the manifest to open: the latest, a version, the one of a time, or the newest sound one.

An older version is opened in place of a damaged one only on request (``recover=True``) and with a warning. A
damaged manifest never reads as an empty table.
"""

from __future__ import annotations

from datetime import date
from typing import TypeAlias

from lancecy.errors import DatasetNotFoundError, FormatError, LanceError, warn
from lancecy.limits import Limits
from lancecy.store.base import Memory, Store
from lancecy.table.manifest import Manifest
from lancecy.table.versions import ManifestLocation, VersionStore, locate
from lancecy.table.versions.damage import NOTHING_SOUND, OPEN_OLDER, is_damage, with_remedy

__all__ = ["select_manifest"]

# Listings, if the listed manifest is gone each time.
_LOOKS = 10

Found: TypeAlias = tuple[ManifestLocation, Manifest, Memory]


def select_manifest(
    store: Store,
    versions: VersionStore,
    version: int | None,
    asof: date | str | None,
    recover: bool,
    limits: Limits,
) -> Found:
    """The requested manifest, its location, and the bytes of its file.

    Parameters
    ----------
    store : Store
        Rooted at the dataset.
    versions : VersionStore
    version : int or None
    asof : datetime, str or None
        Ignored if a version is given.
    recover : bool
        Skip damaged manifests if the latest is requested.

    Raises
    ------
    DatasetNotFoundError, NotFoundError
        There is no dataset, or no such version.
    FormatError, LimitError, UnsupportedError
        The manifest cannot be read; if it is damaged, the message says how to repair the table.
    """
    for look in range(_LOOKS):
        location = _find(store, versions, version, asof, limits)
        try:
            return location, *locate.read(store, location, limits)
        except DatasetNotFoundError:
            # A newer version was made since the listing, and a cleanup after it removed this one.
            if version is not None or look == _LOOKS - 1:
                raise
        except FormatError as error:
            if not is_damage(error):
                raise
            is_latest = version is None and asof is None
            if is_latest and recover:
                return _recovered(store, versions, location, error, limits)
            if not _any_sound(store, versions, location, limits):
                error.what += NOTHING_SOUND
                raise
            raise with_remedy(error, store.uri, OPEN_OLDER if is_latest else "")
    raise AssertionError("the last look returns or raises")


def _find(
    store: Store,
    versions: VersionStore,
    version: int | None,
    asof: date | str | None,
    limits: Limits,
) -> ManifestLocation:
    if version is not None:
        return locate.at_version(store, version, versions)
    if asof is not None:
        return locate.as_of(store, asof, limits, versions)
    return locate.latest(store, versions)


def _any_sound(store: Store, versions: VersionStore, damaged: ManifestLocation, limits: Limits) -> bool:
    """Whether another version is not damaged; it reads manifests, the newest first, until one is not."""
    for location in locate.locations(store, versions):
        if location.version == damaged.version:
            continue
        try:
            locate.read(store, location, limits)
        except LanceError as error:
            if is_damage(error):
                continue
        return True
    return False


def _recovered(
    store: Store, versions: VersionStore, damaged: ManifestLocation, problem: FormatError, limits: Limits
) -> Found:
    """The newest readable version below a damaged one."""
    for location in locate.locations(store, versions):
        if location.version >= damaged.version:
            continue
        try:
            manifest, memory = locate.read(store, location, limits)
        except FormatError as error:
            if not is_damage(error):
                raise
            continue
        warn(
            f"version {damaged.version} of {store.uri} is damaged ({problem.what}): "
            f"version {location.version} is opened instead, and restore() or repair() makes the table writable"
        )
        return location, manifest, memory
    problem.what += NOTHING_SOUND
    raise problem
