"""Reads the rows that differ between two versions, in tasks that any executor can run.

A task names rows of a fragment in one of the versions. The worker finds out which of them changed
(``changed_rows``) and reads only these, a few megabytes at a time.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lancecy.records import dataclass
from lancecy.rows import RowSelection
from lancecy.scanning.batches import cut, table_of
from lancecy.scanning.changed_rows import ChangedRows, CommonPoint, Side, VersionPair
from lancecy.scanning.common_columns import old_columns
from lancecy.scanning.context import ScanContext, context_for
from lancecy.scanning.engine import rows_of
from lancecy.scanning.project import Projection
from lancecy.scanning.request import ScanRequest
from lancecy.scanning.task import ScanSpec, ScanUnit
from lancecy.scanning.threads import read_ahead
from lancecy.scanning.units import FilteredUnit
from lancecy.session import Session
from lancecy.table.manifest import Fragment

__all__ = [
    "CHANGE_TYPE",
    "COMMIT_VERSION",
    "ChangeSpec",
    "ChangeTask",
    "batches",
    "change_tasks",
    "changes_schema",
    "count_changes",
    "pair_of",
    "read_task",
]

CHANGE_TYPE, COMMIT_VERSION = "_change_type", "_commit_version"
"""Names of the columns that say what happened to a row, and in which version."""

# By side, then for a row of both versions. The names are those of Delta's change data feed.
_KINDS = {"old": ("delete", "update_preimage"), "new": ("insert", "update_postimage")}
_ADDED = (pa.field(CHANGE_TYPE, pa.string(), False), pa.field(COMMIT_VERSION, pa.int64()))

# Rows that are read at once, and rows of a fragment that are compared at once.
_READ_BYTES = 16 << 20
_MOST_ROWS = 1 << 20
_MAX_PAIRS = 8


@dataclass(frozen=True, slots=True)
class ChangeSpec:
    """Two versions of a table: the part that all tasks share.

    Attributes
    ----------
    old : ScanSpec or None
        None for the state before the first version.
    new : ScanSpec
        Its request has the columns, all of them or a list of names.
    same_fields : frozenset of int
        Ids that stand for one column in both versions.
    same_fragments : bool
        Whether fragment ids stand for the same rows in both.
    tells_updates : bool
        Whether the updated version of a row that moved tells whether its values changed.
    common : CommonPoint or None
        Where the histories of the two part; None if the new version came after the old one.
    """

    old: ScanSpec | None
    new: ScanSpec
    same_fields: frozenset[int] = frozenset()
    same_fragments: bool = True
    tells_updates: bool = True
    common: CommonPoint | None = None

    def narrowed(self, names: Sequence[str]) -> ChangeSpec:
        """The same spec with only these of the table's columns."""
        return replace(self, new=self.new.narrowed(list(names)))


@dataclass(frozen=True, slots=True)
class ChangeTask:
    """Rows ``start`` to ``stop`` of a fragment in one of two versions.

    Attributes
    ----------
    side : "old" or "new"
    fragment : int
        Fragment id.
    start, stop : int
        Physical row offsets.
    """

    side: Side
    fragment: int
    start: int
    stop: int


_pairs: dict[tuple[int, int, frozenset[int], bool, bool, CommonPoint | None], _Opened] = {}
_pairs_lock = threading.Lock()


def pair_of(spec: ChangeSpec, session: Session | None = None) -> VersionPair:
    """The two versions, opened once per process.

    Parameters
    ----------
    spec : ChangeSpec
    session : Session or None
        The process default if None.

    Raises
    ------
    LanceError
        A version cannot be opened.
    """
    new = context_for(spec.new, session)
    old = None if spec.old is None else context_for(spec.old, session)
    key = (id(old), id(new), spec.same_fields, spec.same_fragments, spec.tells_updates, spec.common)
    with _pairs_lock:
        found = _pairs.get(key)
        if found is None:
            while len(_pairs) >= _MAX_PAIRS:
                _pairs.pop(next(iter(_pairs)))
            found = _pairs[key] = _Opened(old, new, spec)
        return found.pair


class _Opened:
    """A pair, and the contexts it was made from: while these exist, their ids belong to no others."""

    def __init__(self, old: ScanContext | None, new: ScanContext, spec: ChangeSpec) -> None:
        self.sources = (old, new)
        adapted = None if old is None else _adapted(old, new, spec.same_fields)
        self.pair = VersionPair(
            adapted, new, spec.same_fields, spec.same_fragments, spec.tells_updates, spec.common
        )


def _adapted(old: ScanContext, new: ScanContext, same_fields: frozenset[int]) -> ScanContext:
    """The old version with the columns of the new one."""
    before = old.snapshot
    schema = old_columns(before.schema, new.snapshot.schema, same_fields).schema
    manifest = replace(before.manifest, schema=schema)
    return ScanContext(replace(before, manifest=manifest), old.session)


def change_tasks(pair: VersionPair, request: ScanRequest, blocksize: int | None = None) -> list[ChangeTask]:
    """The tasks that find and read all changes, from metadata alone.

    Parameters
    ----------
    pair : VersionPair
    request : ScanRequest
    blocksize : int or None, bytes
        Largest size of the selected columns of all rows of a task; None makes one task per fragment.

    Returns
    -------
    list of ChangeTask
        Those of the old version first, in table order. A task may turn out to have no changed row.
    """
    sides: tuple[Side, ...] = ("old", "new")
    return [task for side in sides for task in _tasks_of(pair, side, request, blocksize)]


def _tasks_of(
    pair: VersionPair, side: Side, request: ScanRequest, blocksize: int | None
) -> Iterator[ChangeTask]:
    context = pair.side(side)
    if context is None:
        return
    projection = context.projection(request)
    for fragment in pair.touched(side):
        num_rows = context.physical_rows(fragment)
        if num_rows > _MOST_ROWS:
            context.files(fragment.id)  # the manifest may claim any number, which opening the files refuses
        step = num_rows
        if blocksize is not None:
            size = num_rows * _row_bytes(context, fragment, projection)
            step = math.ceil(num_rows / max(1, math.ceil(size / blocksize)))
        for start in range(0, num_rows, max(1, step)):
            yield ChangeTask(side, fragment.id, start, min(num_rows, start + step))


def _row_bytes(context: ScanContext, fragment: Fragment, projection: Projection) -> float:
    # The kind, the version and the row id take about as much as three numbers.
    return 24.0 + context.bytes_per_row(fragment, projection.fields)


def changes_schema(projection: Projection) -> pa.Schema:
    """The schema of the changes: that of a scan, then the type of the change and its version."""
    stored = [field.with_nullable(True) for field in projection.schema]
    return pa.schema([*stored, *_ADDED], metadata=projection.schema.metadata)


def count_changes(pair: VersionPair, tasks: Iterable[ChangeTask]) -> dict[str, int]:
    """Number of changes by their type; reads no values.

    Parameters
    ----------
    pair : VersionPair
    tasks : iterable of ChangeTask
    """
    counts = {kind: 0 for kinds in _KINDS.values() for kind in kinds}
    for task in tasks:
        for rows in _changed(pair, task):
            updated = int(np.count_nonzero(rows.is_update))
            only, both = _KINDS[task.side]
            counts[only] += rows.offsets.size - updated
            counts[both] += updated
    return counts


def read_task(spec: ChangeSpec, task: ChangeTask) -> pa.Table:
    """All changes of one task.

    Parameters
    ----------
    spec : ChangeSpec
    task : ChangeTask

    Raises
    ------
    LanceError
        A version cannot be read here.
    """
    pair = pair_of(spec)
    request = spec.new.request
    read = [_read(pair, request, piece) for piece in _pieces(pair, request, [task])]
    schema = changes_schema(pair.new.projection(request))
    return pa.concat_tables(read) if read else pa.Table.from_batches([], schema)


def batches(
    spec: ChangeSpec, tasks: Iterable[ChangeTask], session: Session | None = None
) -> Iterator[pa.RecordBatch]:
    """The changes of some tasks as a stream, some tens of megabytes at a time.

    Parameters
    ----------
    spec : ChangeSpec
    tasks : iterable of ChangeTask
    session : Session or None
        The process default if None.

    Raises
    ------
    LanceError
        A version cannot be read here.
    """
    pair = pair_of(spec, session)
    request = spec.new.request
    pieces = _pieces(pair, request, tasks)
    for _, table in read_ahead(pair.new, pieces, lambda piece: _read(pair, request, piece)):
        yield from cut(table, request)


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    """Changed rows of a fragment that are read at once."""

    task: ChangeTask
    rows: ChangedRows


def _changed(pair: VersionPair, task: ChangeTask) -> Iterator[ChangedRows]:
    for start in range(task.start, task.stop, _MOST_ROWS):
        rows = pair.changed(task.side, task.fragment, start, min(task.stop, start + _MOST_ROWS))
        if rows.offsets.size:
            yield rows


def _pieces(pair: VersionPair, request: ScanRequest, tasks: Iterable[ChangeTask]) -> Iterator[_Piece]:
    for task in tasks:
        context = pair.side(task.side)
        if context is None:
            continue
        per_row = _row_bytes(context, context.metadata(task.fragment), context.projection(request))
        step = max(1024, int(_READ_BYTES / per_row))
        for rows in _changed(pair, task):
            for first in range(0, rows.offsets.size, step):
                some = slice(first, first + step)
                part = ChangedRows(rows.offsets[some], rows.is_update[some], rows.versions[some])
                yield _Piece(task, part)


def _read(pair: VersionPair, request: ScanRequest, piece: _Piece) -> pa.Table:
    task, rows = piece.task, piece.rows
    context = pair.new if task.side == "new" or pair.old is None else pair.old
    projection = context.projection(request)
    files = context.files(task.fragment)
    picked = RowSelection.ascending(files.num_rows, rows.offsets)
    (found,) = rows_of(context, [FilteredUnit(files, picked, picked)], projection)
    stored = table_of(projection.schema, found.pieces, rows.offsets.size)
    context.release([ScanUnit(task.fragment, task.start, task.stop, 0, 0)])
    kinds = pa.array(_KINDS[task.side], pa.string()).take(pa.array(rows.is_update.astype(np.int8)))
    versions = pa.array(rows.versions, pa.int64(), mask=rows.versions == 0)
    columns = [*stored.columns, kinds, versions]
    return pa.Table.from_arrays(columns, schema=changes_schema(pair.new.projection(request)))
