"""Search for nearest neighbours by comparing every row.

=============  ==============================================================
choose rows    as in any scan; with ``prefilter`` by the filter
compare        per piece of a fragment: distances, and the best rows by them
merge          the best of all pieces, by distance and then by row id
read           output columns of the rows found, then the filter, if it is for these
=============  ==============================================================

The first two steps are the tasks of a scan, that of :func:`search_request`: any executor may run them, and what they
return is small.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.arrow.columns import ArrowArray, chunks_of, storage_of, unsliced_rows
from lancecy.encodings.arrow.conversions import array_of, numbers_of
from lancecy.expr import Bound, Expr, bind, evaluate
from lancecy.records import dataclass
from lancecy.rows import RowSelection
from lancecy.scanning.batches import slice_rows, table_of
from lancecy.scanning.context import ScanContext
from lancecy.scanning.engine import rows_of
from lancecy.scanning.filtering import choose, named
from lancecy.scanning.nearest import DISTANCE, QUERY_INDEX, Nearest, in_range
from lancecy.scanning.project import Projection, expression_schema
from lancecy.scanning.request import ScanRequest
from lancecy.scanning.take import take_addresses
from lancecy.scanning.task import ScanUnit
from lancecy.scanning.units import FilteredUnit, fragment_of, schedule_of, split_unit
from lancecy.scanning.virtual import virtual_values

__all__ = ["Best", "Neighbours", "Output", "compare", "search_request"]

Int64 = NDArray[np.int64]

_METRICS = {"l2": kernels.L2, "cosine": kernels.COSINE, "dot": kernels.DOT}
# Bytes of vectors that one thread compares at a time: copied where files are not mapped.
_PIECE_BYTES = 16 << 20
_REMOTE_PIECE_BYTES = 8 << 20
# What is worth another thread, as one more piece takes a while to begin.
_THREAD_BYTES = 4 << 20
# Numbers that a block of float16 vectors is widened to, and distances of a block: both stay in a processor's cache.
_BLOCK_NUMBERS = 1 << 16
_BLOCK_DISTANCES = 1 << 20
_PASSES = "__passes"


@dataclass(frozen=True, slots=True, eq=False)
class Neighbours:
    """Rows found, with their distances; of one piece of a table or of all of it.

    Attributes
    ----------
    queries : (n,) int32
        Number of the query that each row was found for.
    distances : (n,) float32
    row_ids, addresses : (n,) uint64
    """

    queries: NDArray[np.int32]
    distances: NDArray[np.float32]
    row_ids: NDArray[np.uint64]
    addresses: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.queries)

    @classmethod
    def merged(cls, parts: Iterable[Neighbours], k: int) -> Neighbours:
        """The best ``k`` rows of every query, by query, distance and row id."""
        found = [part for part in parts if len(part)] or [_NOTHING]
        names = ("queries", "distances", "row_ids", "addresses")
        arrays = [np.concatenate([getattr(part, name) for part in found]) for name in names]
        order = np.lexsort((arrays[2], arrays[1], arrays[0]))
        queries = arrays[0][order]
        # Rank of each row among those of its query.
        rank = np.arange(len(queries)) - np.searchsorted(queries, queries)
        return cls(*(array[order][rank < k] for array in arrays))

    def limited(self, rows: NDArray[Any] | slice) -> Neighbours:
        """Some of the rows."""
        return Neighbours(self.queries[rows], self.distances[rows], self.row_ids[rows], self.addresses[rows])

    def to_batch(self) -> pa.RecordBatch:
        """The rows as Arrow, in signed types: ``query``, ``distance``, ``row_id``, ``address``."""
        ids, addresses = self.row_ids.view(np.int64), self.addresses.view(np.int64)
        columns: dict[str, NDArray[Any]] = {
            "query": self.queries,
            "distance": self.distances,
            "row_id": ids,
            "address": addresses,
        }
        return pa.RecordBatch.from_pydict({name: array_of(column) for name, column in columns.items()})

    @classmethod
    def from_batch(cls, batch: pa.RecordBatch) -> Neighbours:
        """The rows of :meth:`to_batch`."""
        queries, distances, ids, addresses = (numbers_of(column) for column in batch.columns)
        return cls(queries, distances, ids.view(np.uint64), addresses.view(np.uint64))


_NOTHING = Neighbours(
    np.empty(0, np.int32), np.empty(0, np.float32), np.empty(0, np.uint64), np.empty(0, np.uint64)
)


def search_request(request: ScanRequest, search: Nearest) -> ScanRequest:
    """The scan of a search's vectors: their column, of the rows that are compared."""
    return _reading(request, {search.column: None}, request.filter if search.prefilter else None)


def compare(
    context: ScanContext,
    projection: Projection,
    units: Sequence[ScanUnit],
    search: Nearest,
    use_sources: bool = True,
) -> Neighbours:
    """The best rows of some units.

    Parameters
    ----------
    context : ScanContext
    projection : Projection
        Of :func:`search_request`.
    units : sequence of ScanUnit
    search : Nearest
    use_sources : bool
        Leave out rows that candidate sources rule out.
    """
    schedule = schedule_of(context, units)
    chosen = schedule.over(lambda group: choose(context, group, projection, use_sources), units)
    pieces = _joined(context, search, [piece for unit in chosen for piece in _pieces(context, unit, search)])
    best = Best(search)
    context.spread(lambda piece: _compare_piece(context, piece, projection, best), pieces, fragment_of)
    return best.rows()


def _pieces(context: ScanContext, unit: FilteredUnit, search: Nearest) -> Iterator[FilteredUnit]:
    """Split the rows of a unit so that a thread reads a bounded number of bytes at once."""
    if not len(unit.picked):
        return
    most = _PIECE_BYTES if unit.files.mapped else _REMOTE_PIECE_BYTES
    nbytes = len(unit.picked) * _vector_bytes(search)
    count = max(-(-nbytes // most), 1)
    if unit.files.mapped and nbytes > context.session.threads * _THREAD_BYTES:
        count = max(count, context.session.threads)
    yield from (part for part in split_unit(unit, max(1, -(-len(unit.rows) // count))) if len(part.picked))


def _joined(context: ScanContext, search: Nearest, pieces: Sequence[FilteredUnit]) -> list[FilteredUnit]:
    """Neighbouring pieces of the same files as one, while together they are too small to share among threads."""
    most = context.session.threads * _THREAD_BYTES // _vector_bytes(search)
    found: list[FilteredUnit] = []
    for piece in pieces:
        last = found[-1] if found else None
        if last is not None and last.files is piece.files and len(last.picked) + len(piece.picked) <= most:
            rows = RowSelection.joined(last.picked, piece.picked)
            found[-1] = FilteredUnit(piece.files, rows, rows)
        else:
            found.append(piece)
    return found


def _vector_bytes(search: Nearest) -> int:
    return search.dimension * np.dtype(search.dtype).itemsize


class Best:
    """The best rows so far of every query. Threads add to it; it holds about twice as many rows as the result.

    Parameters
    ----------
    search : Nearest
    """

    def __init__(self, search: Nearest) -> None:
        self.search = search
        count = len(search.vectors)
        # A row at a greater distance is not among the best of its query.
        self._limits = np.full((count, 1), np.inf, np.float32)
        self._most = max(2 * count * search.k, _BLOCK_DISTANCES)
        self._parts: list[Neighbours] = []
        self._held = 0
        self._lock = Lock()

    def choose(self, distances: NDArray[np.float32], skipped: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
        """(num_queries, rows) bool: which rows of a block may be among the best, ``skipped`` ones left out."""
        k = self.search.k
        chosen = in_range(distances, self.search)
        chosen &= distances <= self._limits
        if skipped is not None:
            chosen &= ~skipped
        crowded = np.flatnonzero(np.count_nonzero(chosen, axis=1) > k)
        for query in crowded:
            some = distances[query][chosen[query]]
            # Rows as far as the last one stay: the row id decides between them.
            chosen[query] &= distances[query] <= np.partition(some, k - 1)[k - 1]
        return chosen

    def add(self, part: Neighbours) -> None:
        """Add rows that were found."""
        with self._lock:
            self._parts.append(part)
            self._held += len(part)
            if self._held > self._most:
                self._prune()

    def _prune(self) -> None:
        best = Neighbours.merged(self._parts, self.search.k)
        self._parts, self._held = [best], len(best)
        ends = np.cumsum(np.bincount(best.queries, minlength=len(self._limits)))
        full = np.flatnonzero(np.diff(ends, prepend=0) == self.search.k)
        self._limits[full, 0] = best.distances[ends[full] - 1]

    def rows(self) -> Neighbours:
        """The best rows, by query, distance and row id."""
        return Neighbours.merged(self._parts, self.search.k)


def _compare_piece(context: ScanContext, unit: FilteredUnit, projection: Projection, best: Best) -> None:
    """Add the best rows of one piece."""
    read, wanted = _contiguous(unit)
    (found,) = rows_of(context, [read], projection, few=True)
    start = 0
    for column in (piece[0] for piece in found.pieces):
        for vectors, nulls in _vectors(column, best.search):
            skipped = nulls
            if wanted is not None:
                skipped = ~wanted[start : start + len(vectors)] | (False if nulls is None else nulls)
            distances = _distances(vectors, best.search)
            chosen = np.flatnonzero(best.choose(distances, skipped))
            if chosen.size:
                queries, positions = np.divmod(chosen, len(vectors))
                best.add(_located(context, read, positions + start, queries, distances.reshape(-1)[chosen]))
            start += len(vectors)


def _contiguous(unit: FilteredUnit) -> tuple[FilteredUnit, NDArray[np.bool_] | None]:
    """A unit that reads a range without gaps, so that nothing is copied, if most of its rows are wanted.

    Returns
    -------
    unit : FilteredUnit
    wanted : (rows,) bool or None
        Which of its rows are wanted; None if all are.
    """
    picked = unit.picked
    if picked.starts is not None and picked.starts.size == 1:
        return unit, None
    first, last = picked.ends
    if not unit.files.mapped or last - first > 2 * len(picked):
        return FilteredUnit(unit.files, picked, picked), None
    offsets = picked.to_indices()
    rows = RowSelection.range(unit.files.num_rows, first, last)
    wanted = np.zeros(last - first, np.bool_)
    wanted[offsets - first] = True
    return FilteredUnit(unit.files, rows, rows), wanted


def _vectors(column: ArrowArray, search: Nearest) -> Iterator[tuple[NDArray[Any], NDArray[np.bool_] | None]]:
    """Blocks of vectors as (rows, dimension) views, and which of them are null."""
    dtype, dimension = np.dtype(search.dtype), search.dimension
    most = max(1, _BLOCK_DISTANCES // len(search.vectors))
    for chunk in chunks_of(storage_of(column)):
        memory = chunk.values.buffers()[1]
        first = (chunk.values.offset + chunk.offset * dimension) * dtype.itemsize
        numbers = np.frombuffer(memory, np.uint8, len(chunk) * dimension * dtype.itemsize, first).view(dtype)
        vectors = numbers.reshape(-1, dimension)
        nulls = numbers_of(chunk.is_null()) if chunk.null_count else None
        for start in range(0, len(chunk), most):
            block = slice(start, start + most)
            yield vectors[block], None if nulls is None else nulls[block]


def _distances(vectors: NDArray[Any], search: Nearest) -> NDArray[np.float32]:
    """(num_queries, rows) float32: distances of vectors of the type of the queries."""
    queries = search.vectors
    out = np.empty(len(queries) * len(vectors), np.float32)
    if vectors.dtype == np.float16:
        return _half_distances(vectors, queries, search)
    flat = np.require(vectors, requirements=["C", "A"]).reshape(-1)
    if search.metric == "hamming":
        kernels.hamming_distances(flat, queries.reshape(-1), search.dimension, out)
    else:
        norms = np.empty(len(queries), vectors.dtype)
        kernels.vector_distances(
            _METRICS[search.metric], flat, queries.reshape(-1), search.dimension, norms, out
        )
    return out.reshape(len(queries), len(vectors))


def _half_distances(vectors: NDArray[Any], queries: NDArray[Any], search: Nearest) -> NDArray[np.float32]:
    """Distances of vectors of float16, widened to float32 block by block."""
    wide = np.ascontiguousarray(queries, np.float32)
    step = max(1, _BLOCK_NUMBERS // search.dimension)
    norms = np.empty(len(queries), np.float32)
    found = [np.empty((len(queries), 0), np.float32)]
    for start in range(0, len(vectors), step):
        block = vectors[start : start + step].astype(np.float32)
        out = np.empty(len(queries) * len(block), np.float32)
        kernels.vector_distances(
            _METRICS[search.metric], block.reshape(-1), wide.reshape(-1), search.dimension, norms, out
        )
        found.append(out.reshape(len(queries), len(block)))
    return np.concatenate(found, axis=1)


def _located(
    context: ScanContext,
    unit: FilteredUnit,
    positions: Int64,
    queries: Int64,
    distances: NDArray[np.float32],
) -> Neighbours:
    """Rows of a unit, by their positions in it, with their ids and addresses."""
    files = unit.files
    distinct, place = np.unique(positions, return_inverse=True)
    offsets = unit.picked.pick(distinct).to_indices()
    ids = virtual_values(context.snapshot, files.fragment, files.num_rows, "_rowid", offsets)
    addresses = offsets.astype(np.uint64) + (np.uint64(files.fragment.id) << np.uint64(32))
    return Neighbours(queries.astype(np.int32), distances, ids[place], addresses[place])


# -- output ---------------------------------------------------------------------------


class Output:
    """The columns of a search's result.

    Parameters
    ----------
    context : ScanContext
    request : ScanRequest
        Of the user; its columns and, unless the search has ``prefilter``, its filter may name the columns that the
        search adds.
    search : Nearest
    add_distance : bool
        Append the distance where it is not among the columns.

    Attributes
    ----------
    schema : pyarrow.Schema
        Of the result.

    Raises
    ------
    ColumnNotFoundError, ExpressionError
        The request does not fit the schema.
    """

    def __init__(
        self, context: ScanContext, request: ScanRequest, search: Nearest, add_distance: bool = True
    ) -> None:
        self._context, self._request = context, request
        stored = context.snapshot.schema.scanned
        self._own = {field.name: field for field in search.own_fields}
        self._seen = pa.schema([*expression_schema(stored), *self._own.values()])
        columns = _listed(request, stored.names, search, add_distance)
        early = {name: expr for name, expr in columns if expr is not None or name not in self._own}
        if request.filter is not None and not search.prefilter:
            early[_PASSES] = request.filter
        # Expressions of distances are computed from the result, others where their columns are read.
        self._late = {name: bound for name, expr in early.items() if (bound := self._late_bound(expr))}
        read = {name: expr for name, expr in early.items() if name not in self._late}
        raw = {path[0]: None for bound in self._late.values() for path in bound.paths}
        self._read = context.projection(_reading(request, read))
        self._raw = context.projection(
            _reading(request, {name: None for name in raw if name not in self._own})
        )
        fields = {**self._own, **{field.name: field for field in self._read.schema}}
        fields.update((name, pa.field(name, bound.type, True)) for name, bound in self._late.items())
        self.schema = pa.schema(
            [fields[name] for name, _ in columns], metadata=context.snapshot.schema.arrow.metadata
        )

    def _late_bound(self, expr: Expr | None) -> Bound | None:
        """The expression bound to the columns of the result, if it needs one that the search adds."""
        if expr is None:
            return None
        bound = bind(expr, self._seen)
        return bound if any(path[0] in self._own for path in bound.paths) else None

    def table(self, found: Neighbours) -> pa.Table:
        """The result: the rows found that pass the filter, cut by limit and offset.

        Parameters
        ----------
        found : Neighbours
            In the order of the result.
        """
        request = self._request
        stop = None if request.limit is None else request.offset + request.limit
        filters = _PASSES in self._late or _PASSES in self._read.schema.names
        if not filters:
            found = found.limited(slice(request.offset, stop))
        columns = self._columns(found)
        if not self.schema.names:
            table = table_of(self.schema, [], len(found))
        else:
            table = pa.table([columns[name] for name in self.schema.names], schema=self.schema)
        if not filters:
            return table
        passed = columns[_PASSES]
        table = unsliced_rows(table).filter(
            passed.combine_chunks() if isinstance(passed, pa.ChunkedArray) else passed
        )
        return slice_rows(table, request.offset, request.limit)

    def _columns(self, found: Neighbours) -> dict[str, ArrowArray]:
        """Columns of rows by name, and for the filter which rows pass it."""
        own: dict[str, ArrowArray] = {
            DISTANCE: array_of(found.distances),
            QUERY_INDEX: array_of(found.queries),
        }
        read = take_addresses(self._context, self._read, found.addresses)
        columns = {**own, **dict(zip(read.column_names, read.columns, strict=True))}
        if not self._late:
            return columns
        raw = take_addresses(self._context, self._raw, found.addresses)
        seen = {**dict(zip(raw.column_names, raw.columns, strict=True)), **own}
        rows = named(list(seen), list(seen.values()), len(found))
        for name, bound in self._late.items():
            value = evaluate(bound, rows)
            columns[name] = pa.repeat(value, len(found)) if isinstance(value, pa.Scalar) else value
        return columns


def _listed(
    request: ScanRequest, stored: Sequence[str], search: Nearest, add_distance: bool
) -> list[tuple[str, Expr | None]]:
    """Names and expressions of the result's columns, in order: as pylance arranges them."""
    listed = dict(((name, None) for name in stored) if request.columns is None else request.columns)
    columns: dict[str, Expr | None] = {QUERY_INDEX: None} if search.batched else {}
    columns.update(listed)
    if add_distance:
        columns.setdefault(DISTANCE, None)
    asked = {"_rowid": request.with_row_id, "_rowaddr": request.with_row_address}
    for name, wanted in asked.items():
        if wanted:
            columns.setdefault(name, None)
    return list(columns.items())


def _reading(
    request: ScanRequest, columns: Mapping[str, Expr | None], filter: Expr | None = None
) -> ScanRequest:
    """The request that reads these columns of all rows that pass a filter, or of rows already chosen."""
    return replace(
        request,
        columns=tuple(columns.items()),
        filter=filter,
        limit=None,
        offset=0,
        with_row_id=False,
        with_row_address=False,
    )
