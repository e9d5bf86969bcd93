"""Plans a cleanup from listings and manifests alone, as one value.

A version is removed if it is old enough by every clock that knows its age, and nothing needs it. A file is
removed if no remaining version needs it, and either a removed version did, or it is too old for a pending
commit. Files whose names do not belong to the format are ignored.

Facts: table sheet, section 9.1.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Sequence
from dataclasses import fields
from uuid import UUID

from lancecy.records import dataclass
from lancecy.store.base import ObjectMeta
from lancecy.table.paths import DATA, DELETIONS, INDICES, TEMPORARY, TRANSACTIONS, VERSIONS
from lancecy.table.wire.references import References, nanoseconds

__all__ = [
    "FOLDERS",
    "GRACE_NS",
    "CleanupOptions",
    "CleanupStats",
    "Found",
    "Kind",
    "Removal",
    "Times",
    "expired",
    "file_of",
    "leftovers",
    "needed_by",
]

FOLDERS = (DATA, DELETIONS, INDICES, TRANSACTIONS, VERSIONS)
"""Folders that are searched for files."""
GRACE_NS = 7 * 86_400 * 10**9
"""Age up to which a file that no version names may belong to a pending commit."""


class Kind(enum.Enum):
    """Kind of a file; the value is its counter in :class:`CleanupStats`."""

    MANIFEST = "old_versions"
    DATA = "data_files_removed"
    DELETION = "deletion_files_removed"
    INDEX = "index_files_removed"
    TRANSACTION = "transaction_files_removed"
    TEMPORARY = "temporary_files_removed"


@dataclass(frozen=True, slots=True)
class CleanupStats:
    """Counts of what a cleanup removed, or would remove.

    Attributes
    ----------
    bytes_removed : int, bytes
    old_versions : int
    data_files_removed, transaction_files_removed, index_files_removed, deletion_files_removed : int
        Data files include their blobs and unfinished files.
    temporary_files_removed : int
        Files that interrupted commits left in ``_versions/``.
    """

    bytes_removed: int = 0
    old_versions: int = 0
    data_files_removed: int = 0
    transaction_files_removed: int = 0
    index_files_removed: int = 0
    deletion_files_removed: int = 0
    temporary_files_removed: int = 0

    def __str__(self) -> str:
        # Of a dry run, nothing was removed.
        counts = (
            (getattr(self, f.name), f.name.removesuffix("_removed").replace("_", " ")) for f in fields(self)
        )
        return ", ".join(_counted(*count) for count in counts if count[0]) or "no files"


def _counted(number: int, what: str) -> str:
    """``3 data files``, ``1 data file``."""
    if number == 1:
        what = what.replace("files", "file").replace("bytes", "byte").replace("versions", "version")
    return f"{number:,} {what}"


@dataclass(frozen=True, slots=True)
class CleanupOptions:
    """Options of a cleanup.

    Attributes
    ----------
    opened : int
        The open version; it and later ones stay.
    older_than_ns : int or None
        Minimum age of a version.
    retain : int or None
        Number of newest versions to keep.
    versions : frozenset of int or None
        Remove no other versions.
    unverified : bool
        Remove files that no version names at any age.
    fail_if_tagged : bool
        A tag on an old version is an error; otherwise the version stays.
    files_per_second, files_at_once : int or None
        Maximum numbers of files that are removed.
    """

    opened: int
    older_than_ns: int | None = None
    retain: int | None = None
    versions: frozenset[int] | None = None
    unverified: bool = False
    fail_if_tagged: bool = True
    files_per_second: int | None = None
    files_at_once: int | None = None


@dataclass(frozen=True, slots=True)
class Times:
    """The current time by two clocks.

    Attributes
    ----------
    ours : int
        Nanoseconds since 1970 by the local clock.
    theirs : int or None
        The same by the store's clock, which dates objects.
    """

    ours: int
    theirs: int | None

    def is_old(self, meta: ObjectMeta, age: int) -> bool:
        """Whether an object has an age by the store's clock; False if that is unknown."""
        if self.theirs is None or meta.modified is None:
            return False
        return self.theirs - nanoseconds(meta.modified) >= age


@dataclass(frozen=True, slots=True)
class Found:
    """A manifest of the history, and the files it needs."""

    meta: ObjectMeta
    references: References


@dataclass(frozen=True)
class Removal:
    """The manifests and files to remove.

    Attributes
    ----------
    manifests : tuple of ObjectMeta
        Oldest version first.
    files : tuple of (Kind, ObjectMeta)
        Removed after all manifests.
    """

    manifests: tuple[ObjectMeta, ...] = ()
    files: tuple[tuple[Kind, ObjectMeta], ...] = ()

    def __len__(self) -> int:
        return len(self.manifests) + len(self.files)

    def without(self, home: str, kept: Collection[str], intents: bytes) -> Removal:
        """The removal without files that turned out to be needed (see :func:`leftovers`)."""
        needed = [needed_by(meta.path[len(home) :]) for _, meta in self.files]
        left = [
            pair
            for pair, path in zip(self.files, needed, strict=True)
            if path not in kept and not _is_intended(path, intents)
        ]
        return Removal(self.manifests, tuple(left))

    @property
    def stats(self) -> CleanupStats:
        """Counts of the removal."""
        all_of_it = [*((Kind.MANIFEST, meta) for meta in self.manifests), *self.files]
        counts = {kind.value: sum(1 for other, _ in all_of_it if other is kind) for kind in Kind}
        return CleanupStats(bytes_removed=sum(meta.size for _, meta in all_of_it), **counts)


def expired(history: Sequence[Found], options: CleanupOptions, times: Times) -> list[Found]:
    """The versions to remove if nothing needs them, oldest first.

    Parameters
    ----------
    history : sequence of Found
        All versions, oldest first.
    options : CleanupOptions
    times : Times
    """
    bound = options.opened
    if options.retain is not None:
        bound = min(bound, history[-min(options.retain, len(history))].references.version)
    return [
        found
        for found in history
        if found.references.version < bound
        and (options.versions is None or found.references.version in options.versions)
        and (options.older_than_ns is None or _is_older(found, options.older_than_ns, times))
    ]


def _is_older(found: Found, age: int, times: Times) -> bool:
    """Whether a version is old by its writer's clock and by the store's; at least one of them must know."""
    made, is_dated = found.references.made_ns, found.meta.modified is not None and times.theirs is not None
    if made is None and not is_dated:
        return False
    return (made is None or times.ours - made >= age) and (not is_dated or times.is_old(found.meta, age))


def leftovers(
    home: str,
    files: Iterable[ObjectMeta],
    kept: Collection[str],
    named: Collection[str],
    intents: bytes,
    options: CleanupOptions,
    times: Times,
) -> list[tuple[Kind, ObjectMeta]]:
    """The files to remove.

    Parameters
    ----------
    home : str
        Prefix of the paths.
    files : iterable of ObjectMeta
        All files of the table.
    kept, named : collection of str
        Paths below ``home`` needed by remaining versions, and by removed ones.
    intents : bytes
        Bytes of transactions that may still be committed.
    options : CleanupOptions
    times : Times
    """
    gone: list[tuple[Kind, ObjectMeta]] = []
    indices: dict[str, list[ObjectMeta]] = {}
    for meta in files:
        path = meta.path[len(home) :]
        kind, needed = file_of(path), needed_by(path)
        if kind is None or needed in kept or _is_intended(needed, intents):
            continue
        if kind is Kind.INDEX:
            indices.setdefault(needed, []).append(meta)
        elif _may_go([meta], needed in named, options, times):
            gone.append((kind, meta))
    for needed, metas in indices.items():
        if _may_go(metas, needed in named, options, times):
            gone += [(Kind.INDEX, meta) for meta in metas]
    return gone


def _is_intended(needed: str, intents: bytes) -> bool:
    """Whether a transaction names a data file; a text search, so it works for any operation."""
    folder, _, name = needed.partition("/")
    return folder == DATA and name.encode() in intents


def _may_go(metas: Sequence[ObjectMeta], was_named: bool, options: CleanupOptions, times: Times) -> bool:
    if was_named:
        # The files are older than the version that named them, unless they were touched since.
        age = options.older_than_ns
        return age is None or all(m.modified is None or times.is_old(m, age) for m in metas)
    return options.unverified or all(times.is_old(meta, GRACE_NS) for meta in metas)


def file_of(path: str) -> Kind | None:
    """The kind of a file below a table's root, None if cleanups ignore it.

    Examples
    --------
    >>> file_of("data/0101.lance"), file_of("data/notes.txt")
    (<Kind.DATA: 'data_files_removed'>, None)
    """
    folder, _, rest = path.partition("/")
    is_direct = "/" not in rest
    match folder:
        case "data":
            return Kind.DATA if _is_data(rest, is_direct) else None
        case "_deletions":
            return Kind.DELETION if is_direct and rest.endswith((".arrow", ".bin")) else None
        case "_transactions":
            return Kind.TRANSACTION if is_direct and rest.endswith(".txn") else None
        case "_versions":
            return Kind.TEMPORARY if is_direct and rest.startswith(TEMPORARY) else None
        case "_indices":
            return Kind.INDEX if not is_direct and _is_uuid(rest.partition("/")[0]) else None
    return None


def _is_data(rest: str, is_direct: bool) -> bool:
    if is_direct:
        return rest.endswith(".lance") or rest.startswith(TEMPORARY)
    # Blobs of a data file are in a folder of its name.
    return rest.count("/") == 1 and rest.endswith(".blob")


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


def needed_by(path: str) -> str:
    """The name in a manifest that keeps a file below a table's root: its data file, or the folder of its index.

    Examples
    --------
    >>> needed_by("data/a/1.blob"), needed_by("_indices/f3/page.lance"), needed_by("_deletions/1-2-3.bin")
    ('data/a.lance', '_indices/f3', '_deletions/1-2-3.bin')
    """
    folder, _, rest = path.partition("/")
    below, _, name = rest.partition("/")
    if folder == INDICES:
        return f"{INDICES}/{below}"
    return f"{DATA}/{below}.lance" if folder == DATA and name else path
