"""Finds manifests of a table: the latest, by number, as of a time, or all.

All functions use the version store of the table, by default the one for the kind of store.

Facts: table sheet, section 1.3.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from functools import cached_property
from typing import TypeVar

from lancecy.errors import DatasetNotFoundError, FormatError, LimitError, VersionNotFoundError
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.records import dataclass
from lancecy.session import Session
from lancecy.store.base import Memory, Store
from lancecy.table.answers import run_on
from lancecy.table.manifest import Manifest
from lancecy.table.paths import VERSIONS
from lancecy.table.requests import Steps
from lancecy.table.versions import ManifestLocation, VersionStore, version_store
from lancecy.table.versions.damage import with_remedy
from lancecy.table.wire import manifest as manifest_wire
from lancecy.table.wire.outline import Outline, decode_outline

__all__ = [
    "Version",
    "as_of",
    "at_version",
    "latest",
    "list_versions",
    "locations",
    "parse_time",
    "read",
    "read_outline",
]

T = TypeVar("T")


def latest(store: Store, versions: VersionStore | None = None) -> ManifestLocation:
    """The manifest of the newest version.

    Parameters
    ----------
    store : Store
        Rooted at the dataset.
    versions : VersionStore, optional

    Raises
    ------
    DatasetNotFoundError
        The root has no manifest.
    FormatError
        The table has manifests of both naming schemes.
    """
    found = _ask((versions or version_store(store)).latest(), store)
    if found is None:
        raise _missing(store)
    return found


def locations(store: Store, versions: VersionStore | None = None) -> list[ManifestLocation]:
    """All manifests that are part of the history, newest first.

    Raises
    ------
    DatasetNotFoundError, FormatError
        As :func:`latest`.
    """
    found = _ask((versions or version_store(store)).versions(), store)
    if not found:
        raise _missing(store)
    return found[::-1]


def at_version(store: Store, version: int, versions: VersionStore | None = None) -> ManifestLocation:
    """The manifest of one version, detached ones (bit 63 set) included.

    Raises
    ------
    NotFoundError
        There is no such version; the message names the existing ones.
    DatasetNotFoundError
        There is no dataset.
    """
    if version < 1 or version >> 64:
        raise VersionNotFoundError(f"there is no version {version}: versions start at 1", name=str(version))
    versions = versions or version_store(store)
    found = _ask(versions.at(version), store)
    if found is not None:
        return found
    known = [str(location.version) for location in locations(store, versions)]
    shown = ", ".join(known[:10]) + (", …" if len(known) > 10 else "")
    raise VersionNotFoundError(
        f"{store.uri} has no version {version}; it has {shown}", name=str(version), known=known[:10]
    )


def read(
    store: Store, location: ManifestLocation, limits: Limits = DEFAULT_LIMITS
) -> tuple[Manifest, Memory]:
    """The manifest at a location, and the bytes of its file.

    Raises
    ------
    FormatError
        The file is damaged, or its version differs from its name.
    LimitError, UnsupportedError
        See ``manifest_wire.decode``.
    """
    memory = fetch(store, location, limits)
    manifest = manifest_wire.decode(memory, location.path, limits)
    _check_number(manifest.version, location)
    return manifest, memory


def read_outline(
    store: Store, location: ManifestLocation, limits: Limits = DEFAULT_LIMITS
) -> tuple[Outline, Memory]:
    """The outline of a version, and the bytes of its manifest file.

    Raises
    ------
    FormatError, LimitError, UnsupportedError
        See ``decode_outline``; or the version differs from its name.
    """
    memory = fetch(store, location, limits)
    outline = decode_outline(memory, location.path, limits)
    _check_number(outline.version, location)
    return outline, memory


def _check_number(version: int, location: ManifestLocation) -> None:
    if version != location.version:
        raise FormatError(
            f"the manifest named for version {location.version} is of version {version}", path=location.path
        )


def fetch(store: Store, location: ManifestLocation, limits: Limits = DEFAULT_LIMITS) -> Memory:
    """Bytes of a manifest file, in one request. Local files are mapped without cost; copies are bounded."""
    if location.size > limits.metadata_bytes and not store.traits.is_mapped:
        raise LimitError(
            f"a manifest file of {location.size} bytes is beyond the limit of {limits.metadata_bytes}",
            limit="metadata_bytes",
            claimed=location.size,
            path=location.path,
        )
    return store.get(location.path, 0, location.size)


@dataclass(frozen=True, eq=False)
class Version:
    """One version of a dataset; its manifest is read on the first use of its time or summary.

    Attributes
    ----------
    version : int
    location : ManifestLocation
    """

    version: int
    location: ManifestLocation
    store: Store
    limits: Limits = DEFAULT_LIMITS

    @cached_property
    def _outline(self) -> Outline:
        try:
            return read_outline(self.store, self.location, self.limits)[0]
        except FormatError as error:
            raise with_remedy(error, self.store.uri)

    @property
    def timestamp(self) -> datetime | None:
        """Time of the version, UTC; None if the writer did not record it."""
        return self._outline.timestamp

    @property
    def summary(self) -> dict[str, str]:
        """Counts in decimal under the reference's keys; a count missing in the manifest is 0."""
        return {key: str(count) for key, count in self._outline.counts.items()}


def list_versions(
    store: Store,
    session: Session | None = None,
    versions: VersionStore | None = None,
) -> list[Version]:
    """All versions of the dataset at the root of ``store``, oldest first.

    One listing; manifests are read on first use.

    Raises
    ------
    DatasetNotFoundError, FormatError
        As :func:`latest`.
    """
    limits = session.limits if session is not None else DEFAULT_LIMITS
    found = [Version(location.version, location, store, limits) for location in locations(store, versions)]
    return found[::-1]


def as_of(
    store: Store,
    time: date | str,
    limits: Limits = DEFAULT_LIMITS,
    versions: VersionStore | None = None,
) -> ManifestLocation:
    """The newest version made at or before a time; a version without a time counts as old.

    Reads manifests from the newest back to the one returned.

    Parameters
    ----------
    time : datetime or str
        See :func:`parse_time`.

    Raises
    ------
    NotFoundError
        The first version is newer.
    DatasetNotFoundError, FormatError, LimitError
        As :func:`latest`; or a manifest read in the search is damaged.
    """
    moment = parse_time(time)
    oldest: datetime | None = None
    for location in locations(store, versions):
        oldest = Version(location.version, location, store, limits).timestamp
        if oldest is None or oldest <= moment:
            return location
    raise VersionNotFoundError(
        f"{store.uri} has no version as old as {moment.isoformat()}: the oldest is of {oldest}",
        name=str(time),
    )


def parse_time(time: date | str) -> datetime:
    """A point in time, UTC; text is ISO 8601, and means local time without a zone, as in pylance.

    Raises
    ------
    ValueError
        The text is not an ISO 8601 time.
    TypeError
        Neither text nor a ``datetime`` (``pandas.Timestamp`` is one).

    Examples
    --------
    >>> parse_time("2024-05-01 12:00:00+02:00")
    datetime.datetime(2024, 5, 1, 10, 0, tzinfo=datetime.timezone.utc)
    """
    if isinstance(time, str):
        try:
            time = datetime.fromisoformat(time)
        except ValueError as error:
            raise ValueError(
                f"asof {time!r} is not an ISO 8601 time such as '2024-05-01 12:00:00'"
            ) from error
    if isinstance(time, date) and not isinstance(time, datetime):
        # As the text of a date: its first moment.
        time = datetime.combine(time, datetime.min.time())
    if hasattr(time, "to_pydatetime"):
        # Timestamps of pandas count nanoseconds, and without a zone are no local time.
        time = time.to_pydatetime(warn=False)
    if not isinstance(time, datetime) or time != time:  # noqa: PLR0124
        raise TypeError(f"asof is a datetime, a date or text, not {time!r}")
    return time.astimezone(UTC)


def _ask(steps: Steps[T], store: Store) -> T:
    """The answer of a version store; its errors name the table in place of the folder."""
    try:
        return run_on(steps, store)
    except FormatError as error:
        raise error.within(store.uri)


def _missing(store: Store) -> DatasetNotFoundError:
    return DatasetNotFoundError(
        f"there is no Lance dataset at {store.uri}: {VERSIONS}/ has no manifest",
        kind="dataset",
        name=store.uri,
    )
