"""ZONEMAP indices of many columns in one pass over their rows: of a table, or of rows while they are written.

Facts: sheet of indices, section B6.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancecy.changes.base import Change
from lancecy.changes.index_training import READ_AHEAD, IndexPlan, TrainedIndex, finished
from lancecy.changes.index_upkeep import commit_indices
from lancecy.changes.options import CommitRequest, Durability, is_durable
from lancecy.changes.stored_rows import stored_rows
from lancecy.errors import LanceError, warn
from lancecy.index.write.index_types import INDEX_TYPES
from lancecy.index.write.zonemap import ZoneMapBuilder
from lancecy.keyword_options import checked_arguments
from lancecy.progress import Progress, Step
from lancecy.scanning.context import ScanContext
from lancecy.scanning.request import make_request
from lancecy.schema import Field, Schema
from lancecy.write.metadata import FragmentMetadata
from lancecy.write.progress import WriteCallback, WriteProgress, known_rows
from lancecy.write.schemas import schema_of

__all__ = ["WrittenZones", "ZoneMaps", "commit_zone_maps"]

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
        ``a_zonemap_idx``; one of that name is replaced.

        Parameters
        ----------
        columns : sequence of str, optional
            Columns, or members of structs, such as ``"point.x"``. By default all that have an order: numbers, booleans,
            strings, binary values, decimals, dates, times and durations.
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
            schema = context.snapshot.schema
            chosen = _all_of(schema) if columns is None else columns
            plans = [_plan(schema, column) for column in dict.fromkeys(chosen)]
            names = tuple(plan.name for plan in plans)
            if plans:
                replaced = [entry for entry in context.snapshot.indices() if entry.name in names]
                commit_indices(self, _trained(context, plans, options.durable, progress), replaced, options)
            return names

        return self._retried(attempt, conflict_retries, retry_timeout)


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
        if isinstance(columns, str):
            raise TypeError(f"zonemaps is True or a list of columns, not {columns!r}")
        self._columns = None if columns is True else tuple(dict.fromkeys(columns or ()))
        self.builders: dict[str, ZoneMapBuilder] | None = None
        self.paths: list[str] = []
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
        callback : function of a Step, or FileProgress, optional
        data : object
            The rows, whose number may be known.
        """
        return None if columns is False or columns is None else cls(columns, callback, known_rows(data))

    def watched(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same batches, which the writer then tells to have written, piece by piece.

        Raises
        ------
        ColumnNotFoundError, TypeError
            A column is missing, or has no order.
        """
        for batch in batches:
            if self.builders is None:
                self.builders = self._begin(batch.schema)
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
        self.paths.append(fragment.files[0].path)

    def written(self, rows: int) -> None:
        """See ``WriteProgress.written``."""
        super().written(rows)
        if self._batch is None or not self.builders:
            return
        piece = self._batch.slice(self._start, rows)
        first = (self._file << int(_FRAGMENT_BITS)) + self._rows
        places = np.arange(first, first + rows, dtype=np.uint64)
        for column, builder in self.builders.items():
            builder.add(_values(piece, column), places)
        self._start += rows
        self._rows += rows

    def _begin(self, schema: pa.Schema) -> dict[str, ZoneMapBuilder]:
        known = schema_of(schema)
        chosen = _all_of(known) if self._columns is None else self._columns
        plans = [_plan(known, column) for column in chosen]
        return {plan.column: ZoneMapBuilder(plan.field.scanned.arrow_type) for plan in plans}


def commit_zone_maps(dataset: Change, zones: WrittenZones, options: CommitRequest) -> None:
    """Commit the zone maps of rows that a version has by now; without them, filters take longer, so errors are warnings.

    Parameters
    ----------
    dataset : Change
        At the version with these rows; moves to the one that is made.
    zones : WrittenZones
    options : CommitRequest
    """
    context = dataset.context
    ids = {fragment.files[0].path: fragment.id for fragment in context.fragments if fragment.files}
    builders = zones.builders
    if not builders or not zones.paths or not all(path in ids for path in zones.paths):
        return
    fragments = [ids[path] for path in zones.paths]
    try:
        schema = context.snapshot.schema
        made = [
            finished(
                context, _plan(schema, column), fragments, builder.renumbered(fragments), options.durable
            )
            for column, builder in builders.items()
        ]
        commit_indices(dataset, made, [], options)
    except LanceError as error:
        warn(f"the rows are written, but not their zone maps: {error}; create_zonemaps() makes them")


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
    """A column, or a member of structs, null where one of these is."""
    name, *members = [column] if column in batch.schema.names else column.split(".")
    found = batch.column(batch.schema.names.index(name))
    return pc.struct_field(found, members) if members else found


def _trained(
    context: ScanContext, plans: Sequence[IndexPlan], durable: bool, progress: Progress | None
) -> list[TrainedIndex]:
    """Read the columns together, and write their zone maps."""
    builders = {plan.column: ZoneMapBuilder(plan.field.scanned.arrow_type) for plan in plans}
    request = make_request(context.snapshot.schema.scanned.arrow, list(builders))
    total, done = sum(context.live_rows(fragment) for fragment in context.fragments), 0
    for rows in stored_rows(context, request, READ_AHEAD):
        for builder, values in zip(builders.values(), rows.batch.columns, strict=True):
            builder.add(values, rows.addresses)
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
