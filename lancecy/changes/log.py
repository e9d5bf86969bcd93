"""The log of a table: when each version was made, by which writer, by what operation, and how many rows it changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import datetime
from itertools import islice
from typing import Any, TypeAlias

from lancecy.changes.lineage import FastForwarded
from lancecy.changes.transactions import read_version
from lancecy.inspection.diff import VersionDiff, diff
from lancecy.records import dataclass
from lancecy.schema import Schema
from lancecy.table.manifest import Manifest
from lancecy.table.operations import FAST_FORWARD, Delete, Operation, Restore, UpdateBases
from lancecy.table.operations.transaction import COMMIT_MESSAGE, Transaction
from lancecy.table.snapshot import Snapshot
from lancecy.table.versions import ManifestLocation, locate
from lancecy.write.operations import view_of

__all__ = ["LogEntry", "Made", "log_entry", "version_log"]

Made: TypeAlias = "tuple[Manifest, Transaction | None]"
"""A version, and the transaction that made it."""

# Manifests that are read side by side where each costs a request.
_TOGETHER = 32


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One version of a table.

    Attributes
    ----------
    version : int
    timestamp : datetime or None
        UTC; None if the writer did not record it.
    writer : str or None
        Name and release of the library that wrote the version.
    operation : str or None
        Such as "Append"; None if it is not stored, or cannot be read.
    details : str
        Columns, fragments, conditions and keys that it changed.
    rows : int or None
        Live rows of the version; None if its manifest does not state them.
    rows_added, rows_removed : int or None
        Rows that were written and rows that were deleted: an update that moves rows does both, a compaction neither.
        None where the version before is gone.
    message : str or None
        The commit message.
    """

    version: int
    timestamp: datetime | None
    writer: str | None
    operation: str | None
    details: str
    rows: int | None
    rows_added: int | None
    rows_removed: int | None
    message: str | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def version_log(snapshot: Snapshot, limit: int | None = None) -> Iterator[LogEntry]:
    """The log of a version and those before it, newest first.

    Parameters
    ----------
    snapshot : Snapshot
    limit : int, optional
        At most so many versions.

    Raises
    ------
    FormatError, StoreError
        A manifest cannot be read.

    Examples
    --------
    >>> import lancecy
    >>> ds = lancecy.write_dataset({"n": [1, 2]}, "memory://logged", commit_message="begin")
    >>> ds.delete("n = 1")
    {'num_deleted_rows': 1}
    >>> [(e.operation, e.rows_added, e.rows_removed, e.message) for e in version_log(ds.context.snapshot)]
    [('Delete', 0, 1, None), ('Overwrite', 2, 0, 'begin')]
    """
    found = locate.locations(snapshot.store, snapshot.versions)
    shown = [location for location in found if location.version <= snapshot.version]
    read = _read(snapshot, shown if limit is None else shown[: limit + 1])
    yield from islice(_entries(snapshot.uri, read), limit)


def _read(snapshot: Snapshot, locations: Iterable[ManifestLocation]) -> Iterator[Made]:
    store, limits, left = snapshot.store, snapshot.limits, iter(locations)

    def made(location: ManifestLocation) -> Made:
        return read_version(store, location, limits)

    while some := list(islice(left, _TOGETHER)):
        yield from snapshot.session.map(made, some, blocking=not store.traits.is_mapped)


def _entries(uri: str, read: Iterator[Made]) -> Iterator[LogEntry]:
    later: Made | None = None
    for manifest, made in read:
        if later is not None:
            yield log_entry(uri, manifest, *later)
        later = manifest, made
    if later is not None:
        yield log_entry(uri, None, *later)


def log_entry(uri: str, before: Manifest | None, after: Manifest, made: Transaction | None) -> LogEntry:
    """The entry of a version in the log.

    Parameters
    ----------
    uri : str
    before : Manifest or None
        The one of the version before, or of any older one; None if there is none.
    after : Manifest
    made : Transaction or None
        The transaction that made the version.
    """
    operation = None if made is None else made.operation
    if after.version == 1:
        before = Manifest(0, Schema())
    elif before is not None and before.version != after.version - 1:
        before = None
    added, removed = (None, None) if before is None else _rows(before, after, operation)
    writer = after.writer
    return LogEntry(
        after.version,
        after.timestamp,
        None if writer is None else f"{writer.library} {writer.version}".strip(),
        None if operation is None else type(view_of(operation, after.fragments)).__name__,
        _details(operation, None if before is None else diff(uri, before, after), _brought(made)),
        after.num_rows,
        added,
        removed,
        None if made is None else made.properties.get(COMMIT_MESSAGE),
    )


def _rows(before: Manifest, after: Manifest, operation: Operation | None) -> tuple[int | None, int | None]:
    """The rows that were written and deleted; None if a manifest does not state them."""
    if operation is not None and "rewrite" in operation.kinds:
        return 0, 0
    old, new = ({part.id: part for part in manifest.fragments} for manifest in (before, after))
    counts = [
        (old[number].live_rows if number in old else 0, new[number].live_rows if number in new else 0)
        for number in {**old, **new}
    ]
    steps = [last - first for first, last in counts if first is not None and last is not None]
    if len(steps) < len(counts):
        return None, None
    return sum(max(0, step) for step in steps), sum(max(0, -step) for step in steps)


def _brought(made: Transaction | None) -> str:
    """The branch's version that a fast-forward brought; nothing for other changes."""
    found = None if made is None else FastForwarded.of(made.properties.get(FAST_FORWARD))
    return "" if found is None else f"fast-forward to version {found.steps[-1][0]} of {found.branch}"


def _details(operation: Operation | None, found: VersionDiff | None, brought: str) -> str:
    """What an operation changed, in a few words."""
    told = [brought]
    match operation:
        case Delete():
            told.append(f"where {operation.predicate}" if operation.predicate else "")
        case Restore():
            told.append(f"version {operation.version}")
        case UpdateBases():
            told += [f"base {base.name or base.path}" for base in operation.bases]
    if found is not None:
        told += [*_columns(found), *_fragments(found)]
        told += [f"{name} {key}" for name, keys in _maps(found) for key in keys]
    return ", ".join(text for text in told if text)


def _columns(found: VersionDiff) -> list[str]:
    groups = (("+", found.added_columns), ("-", found.removed_columns), ("", found.changed_columns))
    # All columns of the first version are new.
    return [f"{sign}{text}" for sign, columns in groups for text in columns if found.old]


def _fragments(found: VersionDiff) -> list[str]:
    counts = (
        (len(found.added_fragments), "new"),
        (len(found.removed_fragments), "removed"),
        (len(found.rewritten_fragments), "rewritten"),
        (len(found.deleted_rows), "with other deletions"),
    )
    told = [f"{count:,} {what}" for count, what in counts if count]
    return [f"fragments: {', '.join(told)}"] if told else []


def _maps(found: VersionDiff) -> tuple[tuple[str, Mapping[str, object]], ...]:
    return ("config", found.changed_config), ("metadata", found.changed_metadata)
