"""Reads a column of some fragments and writes the files of an index of it.

Facts: sheet of indices, sections B1, B3 and B11.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain, count
from typing import TypeAlias, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.changes.new_columns import data_version
from lancecy.changes.options import with_durability
from lancecy.changes.stored_rows import stored_rows
from lancecy.encodings.arrow.columns import storage_of
from lancecy.encodings.arrow.conversions import numbers_of
from lancecy.errors import IndexTypeError
from lancecy.index.bounds import indexed_type
from lancecy.index.files import IndexFile, open_index_file
from lancecy.index.write.base import IndexBuilder
from lancecy.index.write.index_types import IndexKind, IndexType, configured
from lancecy.progress import Progress, Step, silent
from lancecy.records import dataclass
from lancecy.scanning.context import ScanContext
from lancecy.scanning.request import make_request
from lancecy.schema import Field, Schema, join_name
from lancecy.table.manifest import IndexEntry
from lancecy.table.operations.index_section import covered
from lancecy.table.rows import roaring
from lancecy.table.snapshot import Snapshot
from lancecy.table.wire.indices import IndexDescription, encode_index
from lancecy.write.index_files import IndexFiles

__all__ = ["READ_AHEAD", "IndexPlan", "TrainedIndex", "finished", "merged", "new_index_files", "trained"]

UInt64: TypeAlias = NDArray[np.uint64]

_NEWEST_FILES = "2.2"
_OLDEST_FILES = "2.0"
_FRAGMENT_BITS = np.uint64(32)
READ_AHEAD = 32 << 20
"""Bytes that are read ahead."""


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """An index to be made.

    Attributes
    ----------
    column : str
        Path of the column.
    field : Field
    type : IndexType
    name : str
    """

    column: str
    field: Field
    type: IndexType
    name: str

    @property
    def data_type(self) -> pa.DataType:
        """Type of the values in the index."""
        return indexed_type(self.field.scanned.arrow_type)

    @classmethod
    def of(
        cls,
        schema: Schema,
        column: str | Sequence[str],
        index_type: IndexKind,
        name: str | None,
        existing: Sequence[IndexEntry] = (),
    ) -> IndexPlan:
        """Check what a user gives.

        Parameters
        ----------
        schema : Schema
        column : str or sequence of one str
            May differ in case, if one column is meant.
        index_type : str or IndexConfig
        name : str, optional
            By default the column's name and ``_idx``, numbered where other indices have the names before it.
        existing : sequence of IndexEntry
            The table's indices.

        Raises
        ------
        ColumnNotFoundError
            There is no such column.
        IndexTypeError
            The type of index is unknown, or is not made of such columns, or of several.
        ValueError
            A parameter is unknown, or the name is not valid.
        """
        known = configured(index_type)
        column = _only(column)
        path = schema.resolve_any_case(column)
        field = schema.path(path)[-1]
        kind = field.scanned.arrow_type
        if field.is_blob or not known.takes(kind):
            raise IndexTypeError(
                f"a {known.name} index is made of columns of {known.columns}, and column {column!r} is {kind}"
            )
        named = _own_name(existing, f"{'.'.join(path)}_idx", field, known) if name is None else name
        if not named or named.startswith("__lance_"):
            raise ValueError(f"an index cannot be called {named!r}: choose another name")
        return cls(join_name(path), field, known, named)


def _own_name(existing: Sequence[IndexEntry], first: str, field: Field, kind: IndexType) -> str:
    """The first name that no index of another type or on another column has, as in pylance: x_idx, x_idx_2, …"""
    others = {
        entry.name
        for entry in existing
        if entry.fields != (field.id,) or entry.details_type not in ("", kind.details_type)
    }
    return next(name for name in chain([first], (f"{first}_{n}" for n in count(2))) if name not in others)


def _only(column: str | Sequence[str]) -> str:
    """A column that may be given in a list, as pylance takes it."""
    if isinstance(column, list | tuple):
        if len(column) != 1:
            raise IndexTypeError(f"an index is made of one column, not of {len(column)}: make one of each")
        column = column[0]
    return cast(str, column)


@dataclass(frozen=True, slots=True, eq=False)
class TrainedIndex:
    """The files of an index, and its entry for the index section.

    Attributes
    ----------
    entry : IndexEntry
    files : IndexFiles
        To remove them if they are not committed.
    """

    entry: IndexEntry
    files: IndexFiles


def trained(
    context: ScanContext,
    plan: IndexPlan,
    fragments: Collection[int],
    *,
    durable: bool = True,
    progress: Progress | None = None,
    identity: uuid.UUID | None = None,
) -> TrainedIndex:
    """Write the files of an index of some fragments.

    Parameters
    ----------
    context : ScanContext
    plan : IndexPlan
    fragments : collection of int
        Ids of fragments of that version.
    durable : bool
        Whether the files are synced to disk.
    progress : function of a Step, optional
    identity : uuid.UUID, optional
        The index's id; a new one if not given.

    Raises
    ------
    LanceError
        Rows cannot be read, or files not written; no file is left behind.
    """

    def fill(builder: IndexBuilder) -> None:
        found = _values(context, plan, fragments)
        for values, ids in _told(found, context, fragments, progress or silent):
            builder.add(values, ids)

    files = _written(context, plan, identity or uuid.uuid4(), durable, fill)
    return TrainedIndex(_entry(context, plan, fragments, context.snapshot.version, files), files)


def finished(
    context: ScanContext, plan: IndexPlan, fragments: Collection[int], builder: IndexBuilder, durable: bool
) -> TrainedIndex:
    """Write the files of an index whose builder has all values.

    Parameters
    ----------
    context : ScanContext
    plan : IndexPlan
    fragments : collection of int
        Those that the values are of.
    builder : IndexBuilder
    durable : bool

    Raises
    ------
    LanceError
        Files cannot be written; none is left behind.
    """
    files = new_index_files(context, uuid.uuid4(), durable)
    try:
        builder.write(files)
    except BaseException:
        files.remove()
        raise
    return TrainedIndex(_entry(context, plan, fragments, context.snapshot.version, files), files)


def merged(
    context: ScanContext,
    plan: IndexPlan,
    parts: Sequence[IndexEntry],
    *,
    durable: bool = True,
    identity: uuid.UUID | None = None,
) -> TrainedIndex:
    """Write the files of an index from those of indices of different fragments.

    Parameters
    ----------
    context : ScanContext
    plan : IndexPlan
    parts : sequence of IndexEntry
        At least one; of the same type, and of no fragment together.
    durable : bool
    identity : uuid.UUID, optional

    Raises
    ------
    LanceError
        A part is damaged or missing, or files cannot be written; no file is left behind.
    """
    by_row_id = plan.type.has_row_ids and context.snapshot.manifest.has_stable_row_ids

    def fill(builder: IndexBuilder) -> None:
        for entry in parts:
            builder.add_part(_Part(context.snapshot, entry, by_row_id))

    files = _written(context, plan, identity or uuid.uuid4(), durable, fill)
    fragments = frozenset[int]().union(*(covered(entry) or () for entry in parts))
    # What changed after the oldest of them leaves the index when it is committed.
    version = min(entry.dataset_version for entry in parts)
    return TrainedIndex(_entry(context, plan, fragments, version, files), files)


@dataclass(frozen=True, slots=True)
class _Part:
    """The files of a part, and its rows."""

    snapshot: Snapshot
    entry: IndexEntry
    has_row_ids: bool

    def file(self, name: str) -> IndexFile:
        snapshot = self.snapshot
        store, path = snapshot.bases.index(self.entry.base_id, self.entry.uuid, name)
        return open_index_file(store, path, None, snapshot.session, snapshot.limits)

    def holds(self, ids: UInt64) -> NDArray[np.bool_]:
        known = covered(self.entry) or frozenset()
        inside = np.ones(ids.size, np.bool_)
        if self.has_row_ids:
            # A row that moved since is spoken for by the part of the fragment it is in.
            ids, inside = self.snapshot.row_index().find(ids)
        found: NDArray[np.bool_] = inside & np.isin(ids >> _FRAGMENT_BITS, np.array(sorted(known), np.uint64))
        return found


def _written(
    context: ScanContext,
    plan: IndexPlan,
    identity: uuid.UUID,
    durable: bool,
    fill: Callable[[IndexBuilder], None],
) -> IndexFiles:
    """The files of an index whose builder got its values."""
    files = new_index_files(context, identity, durable)
    try:
        with plan.type.builder(plan.data_type) as builder:
            fill(builder)
            builder.write(files)
    except BaseException:
        files.remove()
        raise
    return files


def new_index_files(context: ScanContext, identity: uuid.UUID, durable: bool) -> IndexFiles:
    """The files of a new index of the version of a table, none of which is written yet.

    Parameters
    ----------
    context : ScanContext
    identity : uuid.UUID
        Of the index.
    durable : bool
        Whether the files are synced to disk.
    """
    snapshot = context.snapshot
    store = with_durability(snapshot.location.open(snapshot.session), durable)
    version = min(max(data_version(snapshot), _OLDEST_FILES), _NEWEST_FILES)
    return IndexFiles(store, identity, version)


def _entry(
    context: ScanContext, plan: IndexPlan, fragments: Collection[int], version: int, files: IndexFiles
) -> IndexEntry:
    bitmap = roaring.encode(np.array(sorted(fragments), np.int64))
    entry = IndexEntry(files.identity, plan.name, (plan.field.id,), version, bitmap, "", None, b"")
    told = IndexDescription(
        plan.type.version_for(context.snapshot.manifest.has_stable_row_ids),
        datetime.now(UTC),
        files.written,
        (f"/{plan.type.details_type}", plan.type.details(plan.data_type)),
        (),
    )
    return encode_index(entry, told)


def _values(
    context: ScanContext, plan: IndexPlan, fragments: Collection[int]
) -> Iterator[tuple[pa.Array, UInt64]]:
    """The values of the live rows, with the ids that the index names them by."""
    snapshot = context.snapshot
    if not fragments:
        return
    by_row_id = plan.type.has_row_ids and snapshot.manifest.has_stable_row_ids
    request = make_request(
        snapshot.schema.scanned.arrow, [plan.column], with_row_id=by_row_id, fragments=sorted(fragments)
    )
    for rows in stored_rows(context, request, READ_AHEAD):
        ids = numbers_of(rows.batch["_rowid"]) if by_row_id else rows.addresses
        yield storage_of(rows.batch.column(0)), ids


def _told(
    values: Iterator[tuple[pa.Array, UInt64]],
    context: ScanContext,
    fragments: Collection[int],
    progress: Progress,
) -> Iterator[tuple[pa.Array, UInt64]]:
    """The same values; tells how many were taken."""
    total, done = sum(context.live_rows(context.metadata(number)) for number in fragments), 0
    for batch, ids in values:
        yield batch, ids
        done += ids.size
        progress(Step("index", done, total, "rows"))
