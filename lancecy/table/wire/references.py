"""The files that a version needs: every name in its manifest, complete for cleanups.

Names count in every base: an equal name in another place protects a file needlessly, which is harmless,
while a comparison of places could miss a file (a link, a moved table).

Facts: table sheet, sections 1.2, 2, 6.4 and 10.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.records import dataclass
from lancecy.store.base import Memory
from lancecy.table import flags
from lancecy.table.manifest import BasePath, ExternalFile, Fragment
from lancecy.table.paths import DATA, INDICES, TRANSACTIONS
from lancecy.table.wire.indices import decode_index_section
from lancecy.table.wire.manifest_file import ManifestFile, decode_manifest_file

__all__ = ["NamesByBase", "References", "decode_names", "decode_references", "nanoseconds"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class References:
    """The files a version needs.

    Attributes
    ----------
    version : int
    made_ns : int or None
        Time of the version by its writer's clock: nanoseconds since 1970.
    tagged : bool
        The manifest contains a tag, as in old releases.
    own : frozenset of str
        Paths below the table's root; for an index its folder.
    foreign : frozenset of str
        Paths that files in a base would have below the table's root.
    """

    version: int
    made_ns: int | None
    tagged: bool
    own: frozenset[str]
    foreign: frozenset[str]

    @property
    def all(self) -> frozenset[str]:
        """Both kinds."""
        return self.own | self.foreign


@dataclass(frozen=True, slots=True)
class NamesByBase:
    """The files a version needs, with the bases that have them.

    Attributes
    ----------
    bases : mapping of id to BasePath
    names : frozenset of (int or None, str)
        Base id, None for the table's own root, and the path as of :class:`References`.
    """

    bases: Mapping[int, BasePath]
    names: frozenset[tuple[int | None, str]]


def decode_names(memory: Memory, path: str, version: int, limits: Limits = DEFAULT_LIMITS) -> NamesByBase:
    """The files a version needs, by base; parameters and errors as of :func:`decode_references`."""
    stored = decode_manifest_file(memory, path, version, limits)
    flags.check_writable(stored.manifest.reader_flags, stored.manifest.writer_flags)
    return NamesByBase(stored.manifest.base_paths, frozenset(_names(stored, limits)))


def decode_references(memory: Memory, path: str, version: int, limits: Limits = DEFAULT_LIMITS) -> References:
    """The files a version needs.

    Parameters
    ----------
    memory : (file size,) uint8
        The whole manifest file.
    path : str
        For errors.
    version : int
        Version in its name.

    Raises
    ------
    FormatError, LimitError
        The file is damaged, so the needed files are unknown.
    UnsupportedError
        The version has features that may need files unknown to this release.
    """
    stored = decode_manifest_file(memory, path, version, limits)
    manifest = stored.manifest
    flags.check_writable(manifest.reader_flags, manifest.writer_flags)
    made = None if manifest.timestamp is None else nanoseconds(manifest.timestamp)
    own, foreign = set[str](), set[str]()
    for base_id, name in _names(stored, limits):
        (own if base_id is None else foreign).add(name)
    return References(
        version,
        made,
        manifest.tag is not None,
        frozenset(own),
        frozenset(foreign),
    )


def nanoseconds(time: datetime) -> int:
    """A time as nanoseconds since 1970."""
    return (time - _EPOCH) // timedelta(microseconds=1) * 1000


def _names(stored: ManifestFile, limits: Limits) -> Iterator[tuple[int | None, str]]:
    manifest = stored.manifest
    if manifest.transaction_file:
        yield None, f"{TRANSACTIONS}/{manifest.transaction_file}"
    for fragment in manifest.fragments:
        yield from _of_fragment(fragment)
    for entry in decode_index_section(stored.indices or b"", limits):
        yield entry.base_id, f"{INDICES}/{entry.uuid}"


def _of_fragment(fragment: Fragment) -> Iterator[tuple[int | None, str]]:
    for file in fragment.files:
        yield file.base_id, f"{DATA}/{file.path}"
    deleted = fragment.deletion_file
    if deleted is not None:
        yield deleted.base_id, deleted.path(fragment.id)
    for part in (fragment.row_ids, fragment.created_at_versions, fragment.last_updated_versions):
        if isinstance(part, ExternalFile):
            yield None, part.path
