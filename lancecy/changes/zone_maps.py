"""ZONEMAP indices of many columns in one pass over their rows: of a table, or of rows while they are written.

Facts: sheet of indices, section B6.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancecy.changes.base import Change
from lancecy.changes.index_training import READ_AHEAD, IndexPlan, TrainedIndex, finished
from lancecy.changes.index_upkeep import commit_indices
from lancecy.changes.options import CommitRequest, Durability, is_durable
from lancecy.changes.stored_rows import stored_rows
from lancecy.encodings.arrow.columns import storage_of
from lancecy.errors import LanceError, warn
from lancecy.index.write.index_types import INDEX_TYPES
from lancecy.index.write.zonemap import ZoneMapBuilder
from lancecy.keyword_options import checked_arguments
from lancecy.progress import Progress, Step
from lancecy.records import dataclass
from lancecy.scanning.context import ScanContext
from lancecy.scanning.request import make_request
from lancecy.schema import Field, Schema
from lancecy.table.manifest import IndexEntry
from lancecy.table.operations.index_section import covered
from lancecy.write.metadata import FragmentMetadata
from lancecy.write.progress import WriteCallback, WriteProgress, known_rows
from lancecy.write.schemas import schema_of

__all__ = ["PartZones", "WrittenZones", "ZoneMaps", "commit_zone_maps", "plans_of"]

_KIND = INDEX_TYPES["ZONEMAP"]
_FRAGMENT_BITS = np.uint64(32)


class ZoneMaps(Change):
    """The dataset method that makes zone maps."""

    @checked_arguments()
    def create_zonemaps(
        self,
        columns: Sequence[str] | None = None,
        *,
        conflict_retries: int = 10,
        retry_timeout: timedelta = timedelta(seconds=30),
        durability: Durability = "fsync",
        commit_message: str | None = None,
        progress: Progress | None = None,
    ) -> tuple[str, ...]:
        """Make ZONEMAP indices of many columns, in one pass over the table and one commit.

        They hold the bounds of every 8192 rows, and take about 7 bytes per thousand values. Filters on columns whose
        values are about in the order of the rows then read few of them. The index of a column ``a`` is called
        ``a_zonemap_idx``; a zone map of that name is replaced.

        Parameters
        ----------
        columns : sequence of str, optional
            Columns, or members of structs, such as ``"point.x"``. By default all that have an order: numbers, booleans,
            strings, binary values, decimals, dates, times, durations, and extension types of these, such as UUIDs.
        conflict_retries : int
            Maximum number of further attempts after another writer changed the same indices.
        retry_timeout : timedelta
            After this no new attempt is made.
        durability : "fsync" or "none"
            Whether to wait until everything is on disk.
        commit_message : str, optional
            Recorded with the version.
        progress : function of a :class:`lancecy.progress.Step`, optional
            Called with the rows read so far.

        Returns
        -------
        tuple of str
            Names of the indices.

        Raises
        ------
        ColumnNotFoundError
            The table has no such column.
        TypeError
            A zone map is not made of columns of that type.
        ValueError
            An index that is no zone map of the column has the name.
        ConflictError
            Every attempt lost to another writer.
        LanceError
            Rows cannot be read, or files not written; the table is as before.

        Examples
        --------
        >>> import lancecy
        >>> ds = lancecy.write_dataset({"id": [3, 1, 2], "x": [0.5, 1.5, 2.5]}, "memory://doc-create-zonemaps")
        >>> ds.create_zonemaps()
        ('id_zonemap_idx', 'x_zonemap_idx')
        """
        options = CommitRequest(message=commit_message, durable=is_durable(durability))

        def attempt() -> tuple[str, ...]:
            self._check_writable()
            context = self.context
            plans = plans_of(context.snapshot.schema, columns)
            names = tuple(plan.name for plan in plans)
            if plans:
                replaced = _replaced(context, plans)
                commit_indices(self, _trained(context, plans, options.durable, progress), replaced, options)
            return names

        return self._retried(attempt, conflict_retries, retry_timeout)


@dataclass(frozen=True, slots=True)
class PartZones:
    """Zone maps of rows that were written and not committed yet.

    Attributes
    ----------
    paths : tuple of str
        Data files with the rows; the zones name the fragment of a file by its number among these.
    columns : dict of str to bytes
        By column, from ``ZoneMapBuilder.packed``.
    """

    paths: tuple[str, ...]
    columns: dict[str, bytes]

    def to_json(self) -> dict[str, Any]:
        """As a value of JSON."""
        return {
            "paths": self.paths,
            "columns": {name: b64encode(data).decode() for name, data in self.columns.items()},
        }

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> PartZones:
        """What :meth:`to_json` gave."""
        return cls(tuple(told["paths"]), {name: b64decode(text) for name, text in told["columns"].items()})


class WrittenZones(WriteProgress):
    """Zone maps of rows that are being written, by the numbers of their files.

    Parameters
    ----------
    columns : True or sequence of str
        Those of ``create_zonemaps``; True is all.
    callback, total
        As for :class:`lancecy.write.progress.WriteProgress`.
    """

    def __init__(self, columns: bool | Sequence[str], callback: WriteCallback | None, total: int) -> None:
        super().__init__(callback, total)
        self._columns = columns
        self._builders: dict[str, ZoneMapBuilder] | None = None
        self._paths: list[str] = []
        self._file, self._rows, self._start = -1, 0, 0
        self._batch: pa.RecordBatch | None = None

    @classmethod
    def of(
        cls, columns: bool | Sequence[str], callback: WriteCallback | None, data: object
    ) -> WrittenZones | None:
        """Those that a writer's option asks for; None if it asks for none.

        Parameters
        ----------
        columns : bool or sequence of str
        callback : function of a Step, or FragmentWriteProgress, optional
        data : object
            The rows, whose number may be known.

        Raises
        ------
        TypeError
            The columns are a text.
        """
        _check_list(columns)
        return None if columns is False or columns is None else cls(columns, callback, known_rows(data))

    @property
    def part(self) -> PartZones:
        """Those of all rows, once they are written."""
        builders = self._builders or {}
        return PartZones(tuple(self._paths), {name: each.packed() for name, each in builders.items()})

    def watched(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same batches, which the writer then tells to have written, piece by piece.

        Raises
        ------
        ColumnNotFoundError, TypeError
            A column is missing, or has no order.
        """
        for batch in batches:
            if self._builders is None:
                plans = plans_of(schema_of(batch.schema), self._columns)
                self._builders = {plan.column: _builder(plan) for plan in plans}
            self._batch, self._start = batch, 0
            yield batch
        self._batch = None

    def begun(self, fragment: FragmentMetadata) -> None:
        """See ``WriteProgress.begun``."""
        super().begun(fragment)
        self._file, self._rows = self._file + 1, 0

    def completed(self, fragment: FragmentMetadata) -> None:
        """See ``WriteProgress.completed``."""
        super().completed(fragment)
        self._paths.append(fragment.files[0].path)

    def written(self, rows: int) -> None:
        """See ``WriteProgress.written``."""
        super().written(rows)
        if self._batch is None or not self._builders:
            return
        piece = self._batch.slice(self._start, rows)
        first = (self._file << int(_FRAGMENT_BITS)) + self._rows
        places = np.arange(first, first + rows, dtype=np.uint64)
        for column, builder in self._builders.items():
            builder.add(_values(piece, column), places)
        self._start += rows
        self._rows += rows


def commit_zone_maps(dataset: Change, parts: Sequence[PartZones], options: CommitRequest) -> None:
    """Commit the zone maps of rows that a version has by now; without them, filters take longer, so errors are warnings.

    Parameters
    ----------
    dataset : Change
        At the version with these rows; moves to the one that is made. Stays if the maps were committed before.
    parts : sequence of PartZones
        Of all writers of the rows.
    options : CommitRequest
    """
    context = dataset.context
    ids = {fragment.files[0].path: fragment.id for fragment in context.fragments if fragment.files}
    filled = [part for part in parts if part.paths and part.columns]
    if not filled or not all(path in ids for part in filled for path in part.paths):
        return
    fragments = sorted(ids[path] for part in filled for path in part.paths)
    known = context.snapshot.indices()
    try:
        made = []
        for plan in plans_of(context.snapshot.schema, tuple(filled[0].columns)):
            names = (entry for entry in known if entry.name == plan.name)
            if not any((covered(entry) or frozenset()).issuperset(fragments) for entry in names):
                builder = _builder(plan)
                for part in sorted(filled, key=lambda part: ids[part.paths[0]]):
                    builder.add_packed(part.columns[plan.column], [ids[path] for path in part.paths])
                made.append(finished(context, plan, fragments, builder, options.durable))
        if made:
            # A token is that of the rows.
            commit_indices(dataset, made, [], replace(options, token=None))
    except (LanceError, ValueError) as error:  # a ValueError: the name is that of another index
        warn(f"the rows are written, but not their zone maps: {error}; create_zonemaps() makes them")


def plans_of(schema: Schema, columns: bool | Sequence[str] | None) -> list[IndexPlan]:
    """The zone maps of columns; of all that have an order if ``columns`` is True or None.

    Parameters
    ----------
    schema : Schema
    columns : bool, sequence of str or None

    Raises
    ------
    ColumnNotFoundError
        There is no such column.
    TypeError
        A zone map is not made of a column of that type; or the columns are no list.
    """
    _check_list(columns)
    chosen = _all_of(schema) if columns is True or columns is None else (columns or ())
    return [_plan(schema, column) for column in dict.fromkeys(chosen)]


def _replaced(context: ScanContext, plans: Sequence[IndexPlan]) -> list[IndexEntry]:
    """The zone maps of the same columns and names; an index of another kind or column is not replaced unasked."""
    planned = {plan.name: plan for plan in plans}
    found = [entry for entry in context.snapshot.indices() if entry.name in planned]
    for entry in found:
        plan = planned[entry.name]
        if (entry.details_type, entry.fields) != (_KIND.details_type, (plan.field.id,)):
            raise ValueError(
                f"there is an index {entry.name!r}, which is no zone map of column {plan.column!r}: drop it, or make the "
                f"zone map with create_scalar_index({plan.column!r}, 'ZONEMAP', name=…)"
            )
    return found


def _check_list(columns: object) -> None:
    if isinstance(columns, str) or not isinstance(columns, bool | Iterable | None):
        raise TypeError(f"zonemaps is True or a list of columns, not {columns!r}")


def _builder(plan: IndexPlan) -> ZoneMapBuilder:
    return ZoneMapBuilder(plan.data_type)


def _all_of(schema: Schema) -> list[str]:
    """Paths of the columns and members of structs that have an order."""
    found: list[str] = []
    pending: list[tuple[str, Field]] = [(top.name, top) for top in reversed(schema.fields)]
    while pending:
        path, field = pending.pop()
        if field.is_struct:
            pending += [(f"{path}.{child.name}", child) for child in reversed(field.children)]
        elif "." not in field.name and not field.is_blob and _KIND.takes(field.scanned.arrow_type):
            found.append(path)
    return found


def _plan(schema: Schema, column: str) -> IndexPlan:
    return IndexPlan.of(schema, column, _KIND.name, f"{column}_zonemap_idx")


def _values(batch: pa.RecordBatch, column: str) -> pa.Array:
    """The values of a column, or of a member of structs, null where one of these is."""
    name, *members = [column] if column in batch.schema.names else column.split(".")
    found = batch.column(batch.schema.names.index(name))
    return storage_of(pc.struct_field(found, members) if members else found)


def _trained(
    context: ScanContext, plans: Sequence[IndexPlan], durable: bool, progress: Progress | None
) -> list[TrainedIndex]:
    """Read the columns together, and write their zone maps."""
    builders = {plan.column: _builder(plan) for plan in plans}
    request = make_request(context.snapshot.schema.scanned.arrow, list(builders))
    total, done = sum(context.live_rows(fragment) for fragment in context.fragments), 0
    for rows in stored_rows(context, request, READ_AHEAD):
        for builder, values in zip(builders.values(), rows.batch.columns, strict=True):
            builder.add(storage_of(values), rows.addresses)
        done += rows.batch.num_rows
        if progress is not None:
            progress(Step("index", done, total, "rows"))
    fragments = [fragment.id for fragment in context.fragments]
    made: list[TrainedIndex] = []
    try:
        made.extend(finished(context, plan, fragments, builders[plan.column], durable) for plan in plans)
    except BaseException:
        for each in made:
            each.files.remove()
        raise
    return made
