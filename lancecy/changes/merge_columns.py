"""Joins new columns to the rows by a key: a left join of all rows.

Facts: table sheet, section 8.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.changes.add_columns import planned_columns
from lancecy.changes.column_values import Batches, FragmentScan, InThreads, ids_read
from lancecy.changes.key_positions import KeyPositions
from lancecy.changes.new_columns import ColumnChange, ColumnPlan, Planner, Retries
from lancecy.changes.options import Durability, is_durable
from lancecy.encodings.arrow.columns import ArrowArray, unsliced_rows
from lancecy.encodings.arrow.conversions import array_of
from lancecy.errors import ColumnNotFoundError, SchemaError, printable
from lancecy.expr.kinds import schema_without_views
from lancecy.interop.streams import record_batches
from lancecy.keyword_options import checked_arguments
from lancecy.progress import Progress
from lancecy.records import dataclass
from lancecy.scanning.context import ScanContext
from lancecy.scanning.request import ScanRequest, make_request
from lancecy.table.manifest import Fragment

__all__ = ["Joined", "MergeColumns", "RightRows", "joining"]

_WINDOW_ROWS = 1 << 22
"""Rows whose keys are looked up at once: each look-up reads all keys of the right side."""

Int64 = NDArray[np.int64]


class RightRows:
    """Rows to join, by their keys.

    Parameters
    ----------
    data : object
        As for ``interop.streams.record_batches``.
    key : str
        Name of the column with the keys.
    schema : pyarrow.Schema, optional

    Raises
    ------
    ColumnNotFoundError
        The rows have no such column.
    SchemaError
        They have no other column.
    """

    def __init__(self, data: Any, key: str, schema: pa.Schema | None = None) -> None:
        given = record_batches(data, schema).read_all()
        plain = schema_without_views(given.schema)
        table = given if plain == given.schema else given.cast(plain)
        if key not in table.schema.names:
            raise ColumnNotFoundError(key, table.schema.names, where="the rows to merge")
        self.keys: pa.ChunkedArray = table[key]
        self.key = key
        values = table.drop_columns([key]).replace_schema_metadata(None).combine_chunks()
        self.values: pa.Table = unsliced_rows(values)
        if not self.values.num_columns:
            raise SchemaError(
                f"the rows to merge have no column besides the key {printable(key)!r}", difference="columns"
            )

    def at(self, positions: Int64) -> list[ArrowArray]:
        """The values at some positions; null where the position is -1.

        Parameters
        ----------
        positions : (n,) int64
        """
        if bool((positions >= 0).all()):
            indices = array_of(positions)
        else:
            indices = array_of(positions, positions < 0)
        return [column.take(indices) for column in self.values.columns]


@dataclass(slots=True)
class Joined(InThreads):
    """Columns joined by a key; see :func:`joining`.

    Attributes
    ----------
    reads : frozenset of int
    request : ScanRequest
        Its only column is the key.
    right : RightRows
    positions : KeyPositions
    """

    reads: frozenset[int]
    request: ScanRequest
    right: RightRows
    positions: KeyPositions
    _found: dict[int, list[Int64]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of_fragments(
        self, context: ScanContext, fragments: Sequence[Fragment]
    ) -> Callable[[Fragment], Batches]:
        """See ``column_values.InThreads``."""
        scan = FragmentScan(context, self.request, fragments)
        order = {fragment.id: number for number, fragment in enumerate(fragments)}

        def keys(fragment: Fragment) -> Iterator[pa.ChunkedArray]:
            return (table.column(0) for table in scan.tables(fragment))

        def found(fragment: Fragment) -> Iterator[Int64]:
            if self.positions.is_direct:
                return map(self.positions.find, keys(fragment))
            with self._lock:
                if fragment.id not in self._found:
                    self._look_up(_window(context, fragments[order[fragment.id] :]), keys)
                return iter(self._found.pop(fragment.id))

        def values(fragment: Fragment) -> Batches:
            for positions in found(fragment):
                yield from pa.table(self.right.at(positions), schema=self.right.values.schema).to_batches()

        return values

    def _look_up(
        self, fragments: Sequence[Fragment], keys: Callable[[Fragment], Iterator[pa.ChunkedArray]]
    ) -> None:
        """The positions of the keys of several fragments, in one look-up."""
        parts = [list(keys(fragment)) for fragment in fragments]
        chunks = [chunk for mine in parts for column in mine for chunk in column.chunks]
        whole = self.positions.find(pa.chunked_array(chunks, self.positions.kind))
        start = 0
        for fragment, mine in zip(fragments, parts, strict=True):
            ends = start + np.cumsum([len(column) for column in mine], dtype=np.int64)
            self._found[fragment.id] = np.split(whole[start : ends[-1]], ends[:-1] - start) if mine else []
            start = int(ends[-1]) if mine else start


def _window(context: ScanContext, fragments: Sequence[Fragment]) -> Sequence[Fragment]:
    rows = 0
    for number, fragment in enumerate(fragments):
        rows += context.live_rows(fragment)
        if rows >= _WINDOW_ROWS:
            return fragments[: number + 1]
    return fragments


def joining(data: Any, left_on: str, right_on: str | None, schema: pa.Schema | None) -> Planner:
    """The function that plans joined columns for a version.

    Parameters
    ----------
    data, left_on, right_on, schema
        As for :meth:`MergeColumns.merge`.

    Raises
    ------
    ColumnNotFoundError, SchemaError
        As there.
    """
    right = RightRows(data, left_on if right_on is None else right_on, schema)

    def plan(context: ScanContext, first_id: int) -> ColumnPlan:
        request = make_request(context.snapshot.schema.scanned.arrow, [left_on])
        projection = context.projection(request)
        positions = KeyPositions(right.keys, projection.schema.field(0), right.key)
        values = Joined(ids_read(projection.fields), request, right, positions)
        return planned_columns(context, right.values.schema, values, first_id)

    return plan


class MergeColumns(ColumnChange):
    """The dataset method that joins columns."""

    @checked_arguments()
    def merge(
        self,
        data_obj: Any,
        left_on: str,
        right_on: str | None = None,
        schema: pa.Schema | None = None,
        *,
        conflict_retries: int = 10,
        retry_timeout: timedelta = timedelta(seconds=30),
        durability: Durability = "fsync",
        progress: Progress | None = None,
    ) -> None:
        """Add the columns of other rows to the rows with the same key (a left join).

        The rows of the table stay as they are. Those without a matching row get nulls. If several rows have one key,
        the last of them counts. A null matches a null.

        Parameters
        ----------
        data_obj : object
            Rows of any kind that :func:`lancecy.write_dataset` takes. They are held in memory.
        left_on : str
            Key in the table: a column, the path of one within structs, ``_rowid`` or ``_rowaddr``.
        right_on : str, optional
            Key in the rows; ``left_on`` if not given.
        schema : pyarrow.Schema, optional
            Schema of the rows.
        conflict_retries : int
            Maximum number of further attempts after another writer changed the table. They join new and changed
            fragments only.
        retry_timeout : timedelta
            After this no new attempt is made.
        durability : "fsync" or "none"
            Whether to wait until everything is on disk; "none" is faster, and a system crash may damage the version.
        progress : function of a :class:`lancecy.progress.Step`, optional

        Raises
        ------
        ColumnNotFoundError
            There is no such key.
        SchemaError
            The table has a column of that name, the keys are of another type, or a row without a match would need a
            null in a column that allows none.
        CommitError
            See :func:`lancecy.commit`.

        Examples
        --------
        >>> import lancecy
        >>> ds = lancecy.write_dataset({"id": [1, 2, 3]}, "memory://doc-merge-columns")
        >>> ds.merge({"key": [3, 1], "word": ["c", "a"]}, "id", "key")
        >>> ds.to_table()["word"].to_pylist()
        ['a', None, 'c']
        """
        planner = joining(data_obj, left_on, right_on, schema)
        self._write_columns(
            planner, Retries(conflict_retries, retry_timeout, is_durable(durability), progress)
        )
