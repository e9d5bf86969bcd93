"""Planning: snapshot and request in, tasks out, without touching data.

Fragments become units of rows (large ones are split; limit and offset apply where
no filter can move them), units become tasks of about ``blocksize`` bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from functools import cached_property
from itertools import pairwise, starmap

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.expr import Expr
from lancecy.records import dataclass
from lancecy.rows import RowSelection
from lancecy.scanning.column_forms import null_tests
from lancecy.scanning.context import ScanContext
from lancecy.scanning.fragment import joined_stats
from lancecy.scanning.project import Projection
from lancecy.scanning.request import ScanRequest
from lancecy.scanning.sources import Answer, CandidateSource, Question, answers, concerned
from lancecy.scanning.task import ScanSpec, ScanTask, ScanUnit
from lancecy.schema import Field
from lancecy.table.manifest import Fragment

__all__ = [
    "PAGE_ROWS",
    "ScanPlan",
    "counted_early",
    "cut_unit",
    "kept_plan",
    "plan",
    "planning_answers",
    "planning_sources",
    "unit_sizes",
]

Int64 = NDArray[np.int64]

_FRAGMENT, _ROWS = 0, 3
"""Columns of the attributes of units: fragment, start, stop, rows, position."""

# A unit never holds more than this, so that 32-bit string offsets suffice for it in ordinary tables.
_MAX_UNIT_BYTES = 512 << 20
_SMALLEST_UNIT = 4 << 20
_SMALLEST_REMOTE_UNIT = 64 << 20
# Split points are multiples of this: legacy pages hold 1,024 rows and bitmaps then stay byte aligned.
_ROW_STEP = 8192
PAGE_ROWS = 1024
# Fragments are not split further than this: a smaller task costs more than its reading.
_MIN_UNIT_BYTES = 64 << 10
# No scan has more units than this (plus one per fragment), however large the table: units are kept in a list.
_MAX_UNITS = 1 << 18
# A plan with more units than this takes sizes from the data files instead of the manifest.
_MAX_UNITS_UNSEEN = 1 << 14
# Most columns of mapped files whose sizes are looked up where rows may be much larger than they are stored.
_FEW_COLUMNS = 4096
# Most units of a plan that is kept.
_FEW_UNITS = 256
# Fewest fragments whose sizes are taken from the manifest if all of them are small, and by how many times a size may be wrong.
_MANY_FRAGMENTS = 16
_GROWTH = 8


@dataclass(frozen=True, eq=False)
class _Whole:
    """Units that are not split yet.

    Attributes
    ----------
    numbers : (n,) int64
        Indices of their fragments in the table.
    units : (n, 5) int64
        As in :class:`ScanPlan`.
    rows : (n,) int64
        About how many of their rows are read; the sizes of tasks come from them.
    """

    numbers: Int64
    units: Int64
    rows: Int64


@dataclass(frozen=True, eq=False)
class ScanPlan:
    """The units and tasks of a scan.

    Attributes
    ----------
    schema : pyarrow.Schema
        Schema of the result.
    projection : Projection
    spec : ScanSpec
        The part that all tasks share.
    table : (num_units, 5) int64
        Attributes of the units, in the order of the table.
    sizes : (num_units,) float64, bytes
        Estimates for the selected columns.
    order : (num_units,) int64
        The units in the order of the tasks.
    edges : (num_tasks + 1,) int64
        First place in ``order`` of each task, and the number of units.
    is_settled : bool
        Whether the plan stays the same once the metadata of more files is known.
    """

    schema: pa.Schema
    projection: Projection = field(repr=False)
    spec: ScanSpec = field(repr=False)
    table: Int64 = field(repr=False)
    sizes: NDArray[np.float64] = field(repr=False)
    order: Int64 = field(repr=False)
    edges: Int64 = field(repr=False)
    is_settled: bool = field(default=False, repr=False)

    @cached_property
    def units(self) -> tuple[ScanUnit, ...]:
        """The units, in the order of the table."""
        return tuple(starmap(ScanUnit, self.table.tolist()))

    @cached_property
    def tasks(self) -> tuple[ScanTask, ...]:
        """Groups of units."""
        units, order, edges = self.units, self.order.tolist(), self.edges.tolist()
        rows = np.add.reduceat(self.table[self.order, _ROWS], self.edges[:-1]).tolist() if order else []
        nbytes = np.add.reduceat(self.sizes[self.order], self.edges[:-1]).tolist() if order else []
        return tuple(
            ScanTask(self.spec, tuple(units[index] for index in order[start:stop]), num_rows, int(size))
            for start, stop, num_rows, size in zip(edges, edges[1:], rows, nbytes, strict=False)
        )

    @property
    def num_rows(self) -> int:
        """Live rows of all units, before filtering."""
        return int(self.table[:, _ROWS].sum())

    @property
    def num_bytes(self) -> int:
        """Estimate of the bytes of the selected columns in all units."""
        return sum(task.num_bytes for task in self.tasks)


def plan(
    context: ScanContext,
    request: ScanRequest,
    spec: ScanSpec,
    blocksize: int | None = None,
    min_units: int = 1,
    interleave: bool = False,
    exact: bool | None = False,
) -> ScanPlan:
    """Plan a scan from metadata alone.

    Parameters
    ----------
    context : ScanContext
    request : ScanRequest
    spec : ScanSpec
        The part that all tasks share.
    blocksize : int or None, bytes
        Aim for tasks of this size; None makes one task per unit.
    min_units : int
        Split so that there are at least this many units when there is enough to read.
    interleave : bool
        Order tasks so that consecutive ones read from different bases.
    exact : bool or None
        Open the data files to know the sizes of their columns; None does if that takes little and may change the units.

    Raises
    ------
    ColumnNotFoundError, ExpressionError
        The request does not fit the schema.
    """
    projection = context.projection(request)
    whole = _whole_units(context, request, projection)
    # Where sizes only tell how units are cut, those of small files are not looked at.
    only_cuts = min_units > 1 and (exact is None or (exact is False and blocksize is None))
    small = _sizes_of_small(context, whole, projection, blocksize) if only_cuts else None
    if small is not None:
        units, sizes = whole.units, small
    else:
        units, sizes = _cut_by_size(context, whole, projection, blocksize, min_units, exact)
    order = np.arange(sizes.size)
    if interleave:
        order = np.array(context.interleaved(units[:, _FRAGMENT].tolist()), np.int64)
    edges = _task_edges(sizes[order], blocksize)
    return ScanPlan(projection.schema, projection, spec, units, sizes, order, edges, small is not None)


def _cut_by_size(
    context: ScanContext,
    whole: _Whole,
    projection: Projection,
    blocksize: int | None,
    min_units: int,
    exact: bool | None,
) -> tuple[Int64, NDArray[np.float64]]:
    """The units, large ones cut into pieces, and the sizes of all; the parameters are those of :func:`plan`."""
    fields, made = _read_of_row(projection)
    if exact is None:
        exact = context.snapshot.is_mapped and whole.numbers.size * len(fields) <= _FEW_COLUMNS
    sizes = _sizes(context, whole, fields, exact, made)
    # What a filter leaves of mapped files is divided among threads once its size is known.
    late = projection.filter is not None and context.snapshot.is_mapped
    # Where reading costs requests, every split costs more of them than a thread gains.
    smallest = _SMALLEST_UNIT if context.snapshot.is_mapped else _SMALLEST_REMOTE_UNIT
    target = _unit_bytes(float(sizes.sum()), blocksize, 1 if late else min_units, smallest)
    if not exact and sizes.sum() / target > _MAX_UNITS_UNSEEN:
        # The manifest may claim any size; the bytes of the files bound the real one.
        sizes = _sizes(context, whole, fields, True, made)
        target = _unit_bytes(float(sizes.sum()), blocksize, 1 if late else min_units, smallest)
    counts = np.ceil(sizes / target)
    if late:
        tested = _filter_sizes(context, whole, projection, exact)
        least = _unit_bytes(float(tested.sum()), blocksize, min_units, smallest)
        counts = np.maximum(counts, np.ceil(tested / least))
    return _split_units(context, whole.units, sizes, counts, fields)


def _split_units(
    context: ScanContext,
    units: Int64,
    sizes: NDArray[np.float64],
    counts: NDArray[np.float64],
    fields: Sequence[Field],
) -> tuple[Int64, NDArray[np.float64]]:
    """The units, each cut into about so many pieces, and the sizes of all pieces."""
    large = np.flatnonzero(counts > 1).tolist()
    if not large:
        return units, sizes
    parts, part_sizes, done = [], [], 0
    for index in large:
        unit = ScanUnit(*units[index].tolist())
        pieces = np.array(list(_split(context, unit, int(counts[index]), fields)), np.int64).reshape(-1, 5)
        parts += [units[done:index], pieces]
        part_sizes += [sizes[done:index], sizes[index] * (pieces[:, _ROWS] / max(1, unit.rows))]
        done = index + 1
    return np.concatenate([*parts, units[done:]]), np.concatenate([*part_sizes, sizes[done:]])


def _task_edges(sizes: NDArray[np.float64], blocksize: int | None) -> Int64:
    """(num_tasks + 1,) int64: where tasks of about ``blocksize`` bytes begin, and the number of units."""
    if blocksize is None:
        return np.arange(sizes.size + 1)
    ends, edges = sizes.cumsum(), [0]
    while edges[-1] < sizes.size:
        before = ends[edges[-1] - 1] if edges[-1] else 0.0
        edges.append(max(edges[-1] + 1, int(np.searchsorted(ends, before + blocksize, side="right"))))
    return np.array(edges, np.int64) if sizes.size else np.zeros(1, np.int64)


def kept_plan(
    context: ScanContext,
    request: ScanRequest,
    make_spec: Callable[[ScanRequest, bool], ScanSpec],
    blocksize: int | None = None,
    min_units: int = 1,
    interleave: bool = False,
    exact: bool | None = False,
) -> ScanPlan:
    """:func:`plan`, kept for the next scan with the same arguments.

    A snapshot does not change, and neither do its plans once the metadata of all files they read is loaded. Only plans
    of few units are kept.
    """
    how = (blocksize, min_units, interleave, exact)
    key = (request, *how)
    known = context.plans.get(key)
    if known is not None and known[0] is context.sources:
        kept: ScanPlan = known[1]
        return kept
    found = plan(context, request, make_spec(request, False), *how)
    if len(found.table) <= _FEW_UNITS and (found.is_settled or _is_known(context, found)):
        context.keep_plan(key, (context.sources, found))
    return found


def _is_known(context: ScanContext, found: ScanPlan) -> bool:
    """Whether all metadata that the sizes of a plan are told from is loaded."""
    fields, _ = _read_of_row(found.projection)
    read = {unit.fragment for unit, size in zip(found.units, found.sizes.tolist(), strict=True) if size}
    return context.all_known(read, fields)


def unit_sizes(context: ScanContext, projection: Projection, units: Sequence[ScanUnit]) -> list[float]:
    """Estimated bytes read of each unit, from metadata alone."""
    fields, made = _read_of_row(projection)
    table = np.array([(u.fragment, u.start, u.stop, u.rows, u.position) for u in units], np.int64).reshape(
        -1, 5
    )
    numbers = context.table.indices(table[:, _FRAGMENT])
    found: list[float] = _sizes(
        context, _Whole(numbers, table, table[:, _ROWS]), fields, False, made
    ).tolist()
    return found


def _read_of_row(projection: Projection) -> tuple[tuple[Field, ...], float]:
    """The fields that are read, and the bytes per row of values that are in no file."""
    # Texts that are compared in codes take little, unless they are read as texts as well.
    tested = (
        projection.compared_texts.get(f, f) for f in projection.filter_fields if f not in projection.fields
    )
    fields = tuple(dict.fromkeys((*projection.fields, *tested)))
    return fields, 8.0 * len({*projection.virtual, *projection.filter_virtual})


def _sizes(
    context: ScanContext, whole: _Whole, fields: Sequence[Field], exact: bool, made: float = 0.0
) -> NDArray[np.float64]:
    """Bytes of the rows of each unit that are read; ``made`` are the bytes per row of values that are in no file."""
    if not whole.rows.any():
        return np.zeros(whole.rows.size)
    return whole.rows * (made + context.row_bytes(whole.numbers, fields, exact))


def _sizes_of_small(
    context: ScanContext, whole: _Whole, projection: Projection, blocksize: int | None
) -> NDArray[np.float64] | None:
    """Bytes of each unit by the manifest, if these are many of small mapped files, of which none would be cut.

    None if some unit may have to be cut, or the manifest does not tell.
    """
    least = _SMALLEST_UNIT if blocksize is None else min(blocksize, _SMALLEST_UNIT)
    table = context.table
    if whole.numbers.size < _MANY_FRAGMENTS or not context.snapshot.is_mapped:
        return None
    if not table.sizes.all() or not table.rows[whole.numbers].all():
        return None
    fields = tuple(dict.fromkeys((*projection.fields, *projection.filter_fields)))
    _, made = _read_of_row(projection)
    sizes: NDArray[np.float64] = whole.rows * (made + context.guessed_bytes(whole.numbers, fields))
    if float(sizes.max()) * _GROWTH > least:
        return None
    return sizes if blocksize is None or _are_within(context, whole, projection, fields, blocksize) else None


def _are_within(
    context: ScanContext, whole: _Whole, projection: Projection, fields: Sequence[Field], most: int
) -> bool:
    """Whether the columns that are read take no more bytes in all files together once they are decoded; opens the files.

    One text that all rows share may take any number of times the size of its file.
    """
    if not fields or not whole.rows.any():
        return True
    several = context.several_files(context.table.ids[whole.numbers].tolist())
    paths = projection.filter.paths if projection.filter is not None else ()
    joined = joined_stats(several, fields, paths)
    return joined is not None and joined.decoded_bytes <= most


def _filter_sizes(
    context: ScanContext, whole: _Whole, projection: Projection, exact: bool
) -> NDArray[np.float64]:
    """Bytes of each unit that the filter has to decode: hardly any of columns tested for nulls only."""
    bound = projection.filter
    light = null_tests(bound, projection.filter_fields, projection.fields).tested if bound is not None else {}
    if not light:
        return _sizes(context, whole, projection.filter_fields, exact)
    heavy = [wanted for wanted in projection.filter_fields if wanted not in light]
    sizes = _sizes(context, whole, heavy, exact, float(len(light)))
    legacy = context.table.has_legacy(whole.numbers)
    if legacy.any():
        sizes[legacy] = _sizes(context, whole, projection.filter_fields, exact)[legacy]
    return sizes


def _unit_bytes(total: float, blocksize: int | None, min_units: int, smallest: int) -> float:
    """Bytes of a unit: the requested size, unless the plan would have too many units."""
    target = float(_MAX_UNIT_BYTES)
    if blocksize is not None:
        target = min(target, max(float(_MIN_UNIT_BYTES), float(blocksize)))
    if min_units > 1 and total > (8 << 20):
        target = min(target, max(float(smallest), total / min_units))
    return max(target, total / _MAX_UNITS)


def _whole_units(context: ScanContext, request: ScanRequest, projection: Projection) -> _Whole:
    """One unit per fragment, cut by limit and offset if every live row is returned, and by sources if possible."""
    free = request.filter is None
    sources = planning_sources(context, projection) if request.use_stats else ()
    gone = frozenset[int]().union(*(s.ruled_out(context.snapshot, projection) for s in sources))
    numbers, table = context.indices(request.fragments), context.table
    live = _first_counts(context, numbers, request) if free else context.live_counts(numbers)
    numbers = numbers[: live.size]
    before = live.cumsum() - live
    first, last = np.zeros_like(live), live
    is_cut = free and (request.offset > 0 or request.limit is not None)
    if is_cut:
        first = np.clip(request.offset - before, 0, live)
        last = live if request.limit is None else np.clip(request.offset + request.limit - before, 0, live)
    keep = last > first
    if gone:
        keep &= np.array([number not in gone for number in table.ids[numbers].tolist()], np.bool_)
    if not keep.all():
        numbers, first, last, live, before = (part[keep] for part in (numbers, first, last, live, before))
    units = np.empty((numbers.size, 5), np.int64)
    units[:, _FRAGMENT], units[:, 1], units[:, 2] = table.ids[numbers], 0, table.rows[numbers]
    units[:, _ROWS], units[:, 4] = last - first, before + first
    if not units[:, 2].all():
        for place in np.flatnonzero(units[:, 2] == 0).tolist():
            units[place, 2] = context.physical_rows(context.metadata(int(units[place, _FRAGMENT])))
    for place in np.flatnonzero(last - first < live).tolist() if is_cut else ():
        part = int(numbers[place]), int(first[place]), int(last[place])
        units[place, 1:3] = _physical_range(context, *part)
    rows = units[:, _ROWS]
    if sources:
        units, rows = _all_narrowed(context, units, projection, sources)
        keep = units[:, _ROWS] > 0
        numbers, units, rows = numbers[keep], units[keep], rows[keep]
    return _Whole(numbers, units, rows)


def _first_counts(context: ScanContext, numbers: Int64, request: ScanRequest) -> Int64:
    """Live rows of the fragments, up to the one that reaches the limit: files of others need not tell theirs."""
    if request.limit is None or (context.table.live[numbers] >= 0).all():
        return context.live_counts(numbers)
    left, found = request.offset + request.limit, list[int]()
    for number in numbers.tolist():
        if left <= 0:
            break
        found.append(int(context.live_counts(np.array([number]))[0]))
        left -= found[-1]
    return np.array(found, np.int64)


def _all_narrowed(
    context: ScanContext, units: Int64, projection: Projection, sources: Sequence[CandidateSource]
) -> tuple[Int64, Int64]:
    """The units as :func:`_narrowed` leaves them, and about how many rows of each are read."""
    found = [
        _narrowed(context, context.metadata(unit[0]), ScanUnit(*unit), projection, sources)
        for unit in units.tolist()
    ]
    narrowed = [(u.fragment, u.start, u.stop, u.rows, u.position) for u, _ in found]
    return np.array(narrowed, np.int64).reshape(-1, 5), np.array([rows for _, rows in found], np.int64)


def _narrowed(
    context: ScanContext,
    fragment: Fragment,
    unit: ScanUnit,
    projection: Projection,
    sources: Sequence[CandidateSource],
) -> tuple[ScanUnit, int]:
    """The unit from the first to the last row of a fragment that may pass, by sources that open no file.

    Returns
    -------
    unit : ScanUnit
    rows : int
        About how many of its rows are read.
    """
    num_rows = unit.stop
    left, proved = RowSelection.all(num_rows), frozenset[Expr]()
    for answer in planning_answers(context, fragment, left, projection, sources):
        left, proved = answer.rows, answer.proved
    is_exact = bool(proved) and proved.issuperset(projection.conditions)
    if is_exact:
        projection.keep_exact(fragment.id, context.sources, left)
    # Rows that are only counted are not read where sources name them exactly.
    num_read = 0 if is_exact and not projection.fields and not projection.virtual else len(left)
    start, stop = left.ends
    if stop == start:
        return replace(unit, start=0, stop=0, rows=0), 0
    if (start, stop) == (0, num_rows):
        return unit, min(unit.rows, num_read)
    before, rows_left = start, stop - start
    if fragment.deletion_file is not None:
        deleted = context.snapshot.deletions(fragment, num_rows)
        if deleted is not None:
            before -= len(deleted.between(0, start))
            rows_left -= len(deleted.between(start, stop))
    unit = ScanUnit(fragment.id, start, stop, rows_left, unit.position + before)
    return unit, min(rows_left, num_read)


def planning_sources(context: ScanContext, projection: Projection) -> tuple[CandidateSource, ...]:
    """Sources that leave out fragments during planning: they open no data file."""
    return concerned(context.sources, context.snapshot, projection, early=True)


def planning_answers(
    context: ScanContext,
    fragment: Fragment,
    rows: RowSelection,
    projection: Projection,
    sources: Sequence[CandidateSource],
) -> Iterator[Answer]:
    """Answers of these sources about rows of a fragment."""
    question = Question(context.snapshot, context.session, fragment, rows.num_rows, projection, None)
    return answers(sources, question, rows)


def counted_early(
    context: ScanContext, units: Sequence[ScanUnit], projection: Projection
) -> tuple[int, Sequence[ScanUnit]]:
    """Count the rows that pass of the units that need no data file for it.

    Parameters
    ----------
    context : ScanContext
    units : sequence of ScanUnit
    projection : Projection

    Returns
    -------
    num_rows : int
    others : sequence of ScanUnit
        Those whose data decides.
    """
    sources = planning_sources(context, projection)
    if not sources:
        return 0, units
    total, others = 0, list[ScanUnit]()
    for unit in units:
        fragment = context.metadata(unit.fragment)
        rows = RowSelection.range(context.physical_rows(fragment), unit.start, unit.stop)
        exact = projection.exact_rows(fragment.id, context.sources)
        if exact is not None:
            rows = rows.intersect(exact)
        else:
            proved = frozenset[Expr]()
            for answer in planning_answers(context, fragment, rows, projection, sources):
                rows, proved = answer.rows, answer.proved
            if not proved.issuperset(projection.conditions):
                others.append(unit)
                continue
        deleted = context.snapshot.deletions(fragment, rows.num_rows)
        total += len(rows if deleted is None else rows.minus(deleted.offsets))
    return total, others


def _physical_range(context: ScanContext, number: int, first: int, last: int) -> tuple[int, int]:
    """Physical rows of live rows ``first`` to ``last`` of a fragment, given by its index in the table."""
    if not context.table.has_deletions[number]:
        return first, last
    files = context.files(int(context.table.ids[number]))
    ends = files.physical(np.array([first, last - 1], np.int64))
    return int(ends[0]), int(ends[1]) + 1


def _split(
    context: ScanContext, unit: ScanUnit, pieces: int, fields: Sequence[Field]
) -> Iterator[tuple[int, int, int, int, int]]:
    """Attributes of the units that a unit is cut into."""
    rows = unit.stop - unit.start
    step = max(1, math.ceil(rows / pieces))
    for grain in (_ROW_STEP, PAGE_ROWS):
        if step > grain:
            step = math.ceil(step / grain) * grain
            break
    if step >= rows:
        yield unit.fragment, unit.start, unit.stop, unit.rows, unit.position
        return
    position = unit.position
    has_deletions = context.metadata(unit.fragment).deletion_file is not None
    for start, stop in pairwise(_cuts(unit, step, context.page_edges(unit.fragment, fields))):
        live = stop - start
        if has_deletions:
            live = len(context.files(unit.fragment).live(start, stop))
        if live:
            yield unit.fragment, start, stop, live, position
        position += live


def cut_unit(context: ScanContext, unit: ScanUnit, row: int) -> tuple[ScanUnit, ScanUnit] | None:
    """The unit before a physical row and from there on; None if one of them has no live row.

    Parameters
    ----------
    context : ScanContext
    unit : ScanUnit
    row : int
        An offset in the fragment.
    """
    if row >= unit.stop:
        return None
    live = row - unit.start
    if context.metadata(unit.fragment).deletion_file is not None:
        live = len(context.files(unit.fragment).live(unit.start, row))
    if not 0 < live < unit.rows:
        return None
    first = replace(unit, stop=row, rows=live)
    return first, replace(unit, start=row, rows=unit.rows - live, position=unit.position + live)


def _cuts(unit: ScanUnit, step: int, edges: NDArray[np.int64] | None) -> list[int]:
    """Split points of a unit, its ends included: about every ``step`` rows.

    A split page is opened twice, and some pages are decoded whole for any of their rows: split points move to a
    page's end if one is near. Small pages are not worth it.
    """
    cuts = np.arange(unit.start + step, unit.stop, step)
    if edges is not None and edges.size > 2 and edges[-1] > (edges.size - 1) * _ROW_STEP:
        after = np.clip(np.searchsorted(edges, cuts), 1, edges.size - 1)
        before = edges[after - 1]
        nearest = np.where(cuts - before <= edges[after] - cuts, before, edges[after])
        cuts = np.where(np.abs(nearest - cuts) <= step // 2, nearest, cuts)
        cuts = np.unique(cuts[(cuts > unit.start) & (cuts < unit.stop)])
    return [unit.start, *cuts.tolist(), unit.stop]
