"""Where the values of new columns come from: expressions, casts, functions, streams.

Values are asked for the live rows of a fragment, in their order. Most kinds answer for several fragments at once, in
threads; a function of the user and a stream answer for one after another, in the order of the table.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

import pyarrow as pa

from lancecy.encodings.arrow.columns import chunks_of
from lancecy.errors import ConflictError, SchemaError
from lancecy.interop.casts import cast_array
from lancecy.records import dataclass
from lancecy.scanning.context import ScanContext
from lancecy.scanning.outputs import read_field
from lancecy.scanning.plan import plan
from lancecy.scanning.request import ScanRequest
from lancecy.scanning.task import ScanSpec, ScanUnit
from lancecy.scanning.threads import read_units
from lancecy.schema import Field
from lancecy.table.manifest import Fragment

__all__ = [
    "Batches",
    "Casts",
    "ColumnValues",
    "Computed",
    "FragmentScan",
    "InOrder",
    "InThreads",
    "Streamed",
    "ids_read",
]

Batches: TypeAlias = "Iterator[pa.RecordBatch]"

_UNIT_BYTES = 32 << 20
"""Bytes that a thread reads at once, so that memory is bounded for fragments of any size."""
_MOST_ROWS = 1 << 20


class ColumnValues(ABC):
    """Values of new columns.

    Attributes
    ----------
    reads : frozenset of int
        Ids of the fields that the values are computed from: files of values stay right while these do.
    """

    reads: frozenset[int]


class InThreads(ColumnValues):
    """Values of several fragments at once."""

    @abstractmethod
    def of_fragments(
        self, context: ScanContext, fragments: Sequence[Fragment]
    ) -> Callable[[Fragment], Batches]:
        """A function that reads the values of one of these fragments; threads call it.

        Parameters
        ----------
        context : ScanContext
        fragments : sequence of Fragment
        """


class InOrder(ColumnValues):
    """Values of one fragment after another."""

    @abstractmethod
    def in_order(
        self, context: ScanContext, fragments: Sequence[Fragment]
    ) -> Iterator[tuple[Fragment, Batches]]:
        """The values of these fragments; those of one are read to the end before those of the next.

        Parameters
        ----------
        context : ScanContext
        fragments : sequence of Fragment
        """


def ids_read(fields: Iterable[Field]) -> frozenset[int]:
    """Ids of these fields and of all below them.

    Parameters
    ----------
    fields : iterable of Field
    """
    return frozenset(node.id for top in fields for node in top.walk())


class FragmentScan:
    """A scan whose rows are read fragment by fragment, a bounded number of bytes at a time.

    Parameters
    ----------
    context : ScanContext
    request : ScanRequest
        Without filter and limit.
    fragments : sequence of Fragment
    """

    def __init__(self, context: ScanContext, request: ScanRequest, fragments: Sequence[Fragment]) -> None:
        snapshot = context.snapshot
        self._context = context
        self._request = replace(request, fragments=tuple(fragment.id for fragment in fragments))
        spec = ScanSpec(snapshot.location, snapshot.version, self._request)
        planned = plan(context, self._request, spec, _UNIT_BYTES, exact=True)
        self._projection = planned.projection
        self._units: dict[int, list[ScanUnit]] = defaultdict(list)
        for unit in planned.units:
            self._units[unit.fragment].append(unit)

    def units(self, fragment: Fragment) -> list[ScanUnit]:
        """The units of a fragment; none if it has no live rows."""
        return self._units.get(fragment.id, [])

    def read(self, unit: ScanUnit) -> pa.Table:
        """The rows of a unit."""
        table, _ = read_units(self._context, self._projection, [unit], self._request)
        if unit.stop - unit.start < self._context.physical_rows(self._context.metadata(unit.fragment)):
            # A large fragment: its mapped pages would add up.
            self._context.release([unit])
        return table

    def tables(self, fragment: Fragment) -> Iterator[pa.Table]:
        """The rows of a fragment."""
        return map(self.read, self.units(fragment))


@dataclass(frozen=True, slots=True)
class Computed(InThreads):
    """Columns computed from others by expressions.

    Attributes
    ----------
    reads : frozenset of int
    request : ScanRequest
        Its columns are the new ones.
    """

    reads: frozenset[int]
    request: ScanRequest

    def of_fragments(
        self, context: ScanContext, fragments: Sequence[Fragment]
    ) -> Callable[[Fragment], Batches]:
        """See :class:`InThreads`."""
        scan = FragmentScan(context, self.request, fragments)

        def values(fragment: Fragment) -> Batches:
            for table in scan.tables(fragment):
                yield from table.to_batches()

        return values


@dataclass(frozen=True, slots=True)
class Casts(InThreads):
    """Columns of another type.

    Attributes
    ----------
    reads : frozenset of int
    casts : tuple of (str, Field, Field)
        As ``schema_edits.Altered`` has them.
    """

    reads: frozenset[int]
    casts: tuple[tuple[str, Field, Field], ...]

    def of_fragments(
        self, context: ScanContext, fragments: Sequence[Fragment]
    ) -> Callable[[Fragment], Batches]:
        """See :class:`InThreads`."""
        firsts = dict(zip((f.id for f in context.fragments), context.row_starts().tolist(), strict=False))
        names = [written.name for _, _, written in self.casts]
        targets = [pa.field(path, _relaxed(written).storage_type) for path, _, written in self.casts]

        def values(fragment: Fragment) -> Batches:
            files, first = context.files(fragment.id), firsts[fragment.id]
            stored, decoded = files.sizes([read for _, read, _ in self.casts])
            nbytes = max(4 * stored, decoded) / max(1, files.num_rows)
            step = max(1, min(_MOST_ROWS, int(_UNIT_BYTES / max(1.0, nbytes))))
            for start in range(0, files.num_rows, step):
                rows = files.live(start, min(start + step, files.num_rows))
                columns = [
                    _cast(chunks_of(read_field(files, read, rows, context.session)), target, first)
                    for (_, read, _), target in zip(self.casts, targets, strict=True)
                ]
                first += len(rows)
                if step < files.num_rows:
                    context.release([ScanUnit(fragment.id, start, start + step, len(rows), 0)])
                yield from pa.table(columns, names=names).to_batches()

        return values


def _cast(chunks: Sequence[pa.Array], target: pa.Field, first_row: int) -> pa.ChunkedArray:
    found = []
    for chunk in chunks:
        found.append(cast_array(chunk, target, first_row))
        first_row += len(chunk)
    return pa.chunked_array(found, target.type)


def _relaxed(field: Field) -> Field:
    """The field with nulls allowed everywhere: a writer tells of nulls by their row, and a cast does not."""
    if field.is_map:
        return field
    return replace(field, nullable=True, children=tuple(_relaxed(child) for child in field.children))


class Streamed(InOrder):
    """Columns whose values come as batches, in the order of the table's live rows.

    Parameters
    ----------
    batches : iterator of pyarrow.RecordBatch
    """

    reads: frozenset[int] = frozenset()

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._held: pa.RecordBatch | None = None
        self._rows = 0
        self._is_read = False

    def in_order(
        self, context: ScanContext, fragments: Sequence[Fragment]
    ) -> Iterator[tuple[Fragment, Batches]]:
        """See :class:`InOrder`.

        Raises
        ------
        ConflictError
            The values were read before, and other writers changed rows since.
        SchemaError
            There are more values than rows.
        """
        if self._is_read and fragments:
            raise ConflictError(
                "other writers added or moved rows while the new columns were written, and the values given for them "
                "cannot be read again: read the new version, and add the columns to it"
            )
        self._is_read = True
        total = sum(map(context.live_rows, fragments))
        for fragment in fragments:
            yield fragment, self._first(context.live_rows(fragment), total)
        if fragments and (extra := self._next()) is not None:
            raise SchemaError(
                f"the values have more rows than the table, which has {total}: {self._rows + extra.num_rows} or more",
                difference="rows",
            )

    def _first(self, num_rows: int, total: int) -> Batches:
        while num_rows:
            batch = self._next()
            if batch is None:
                raise SchemaError(
                    f"the values have {self._rows} rows, where the table has {total}: give one for each row that is not "
                    "deleted, in the order of the table",
                    difference="rows",
                )
            taken = batch.slice(0, num_rows)
            self._held = batch.slice(num_rows) if batch.num_rows > num_rows else None
            self._rows += taken.num_rows
            num_rows -= taken.num_rows
            yield taken

    def _next(self) -> pa.RecordBatch | None:
        """The next batch with rows, None at the end."""
        held, self._held = self._held, None
        if held is not None:
            return held
        return next((batch for batch in self._batches if batch.num_rows), None)
