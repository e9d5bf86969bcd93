"""Planning: snapshot and request in, tasks out, without touching data.

Fragments become units of rows (large ones are split; limit and offset apply where
no filter can move them), units become tasks of about ``blocksize`` bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.expr import Expr
from lancecy.rows import RowSelection
from lancecy.scanning.column_forms import null_tests
from lancecy.scanning.context import ScanContext
from lancecy.scanning.project import Projection
from lancecy.scanning.request import ScanRequest
from lancecy.scanning.sources import Answer, CandidateSource, Question, answers, concerned
from lancecy.scanning.task import ScanSpec, ScanTask, ScanUnit
from lancecy.schema import Field
from lancecy.table.manifest import Fragment

__all__ = [
    "ScanPlan",
    "counted_early",
    "kept_plan",
    "plan",
    "planning_answers",
    "planning_sources",
    "unit_sizes",
]

# A unit never holds more than this, so that 32-bit string offsets suffice for it in ordinary tables.
_MAX_UNIT_BYTES = 512 << 20
_SMALLEST_UNIT = 4 << 20
_SMALLEST_REMOTE_UNIT = 64 << 20
# Split points are multiples of this: legacy pages hold 1,024 rows and bitmaps then stay byte aligned.
_ROW_STEP = 8192
_PAGE_ROWS = 1024
# Fragments are not split further than this: a smaller task costs more than its reading.
_MIN_UNIT_BYTES = 64 << 10
# No scan has more units than this (plus one per fragment), however large the table: units are kept in a list.
_MAX_UNITS = 1 << 18
# A plan with more units than this takes sizes from the data files instead of the manifest.
_MAX_UNITS_UNSEEN = 1 << 14
# Plans that a context keeps, and most units of each.
_KEPT_PLANS = 64
_FEW_UNITS = 256


@dataclass(frozen=True, slots=True)
class _Whole:
    """A unit that is not split yet.

    Attributes
    ----------
    fragment : Fragment
    unit : ScanUnit
    rows : int
        About how many of its rows are read; the size of its tasks comes from them.
    """

    fragment: Fragment
    unit: ScanUnit
    rows: int


@dataclass(frozen=True)
class ScanPlan:
    """The units and tasks of a scan.

    Attributes
    ----------
    schema : pyarrow.Schema
        Schema of the result.
    projection : Projection
    units : tuple of ScanUnit
        In table order.
    tasks : tuple of ScanTask
        Groups of consecutive units.
    """

    schema: pa.Schema
    projection: Projection = field(repr=False)
    units: tuple[ScanUnit, ...] = field(repr=False)
    tasks: tuple[ScanTask, ...]

    @property
    def num_rows(self) -> int:
        """Live rows of all units, before filtering."""
        return sum(unit.rows for unit in self.units)


def plan(
    context: ScanContext,
    request: ScanRequest,
    spec: ScanSpec,
    blocksize: int | None = None,
    min_units: int = 1,
    interleave: bool = False,
    exact: bool = False,
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
    exact : bool
        Open the data files to know the sizes of their columns.

    Raises
    ------
    ColumnNotFoundError, ExpressionError
        The request does not fit the schema.
    """
    projection = context.projection(request)
    fields, made = _read_of_row(projection)
    whole = list(_fragment_units(context, request, projection))
    sizes = _sizes(context, whole, fields, exact, made)
    # What a filter leaves of mapped files is divided among threads once its size is known.
    late = projection.filter is not None and context.snapshot.is_mapped
    # Where reading costs requests, every split costs more of them than a thread gains.
    smallest = _SMALLEST_UNIT if context.snapshot.is_mapped else _SMALLEST_REMOTE_UNIT
    target = _unit_bytes(sum(sizes), blocksize, 1 if late else min_units, smallest)
    if not exact and sum(sizes) / target > _MAX_UNITS_UNSEEN:
        # The manifest may claim any size; the bytes of the files bound the real one.
        sizes = _sizes(context, whole, fields, True, made)
        target = _unit_bytes(sum(sizes), blocksize, 1 if late else min_units, smallest)
    tested = _filter_sizes(context, whole, projection, exact) if late else [0.0] * len(whole)
    least = _unit_bytes(sum(tested), blocksize, min_units, smallest)
    units: list[ScanUnit] = []
    unit_bytes: list[float] = []
    for each, size, part in zip(whole, sizes, tested, strict=True):
        unit = each.unit
        count = max(1, math.ceil(size / target), math.ceil(part / least))
        pieces = list(_split(context, each.fragment, unit, count, fields))
        units.extend(pieces)
        unit_bytes.extend(size * (piece.rows / unit.rows if unit.rows else 0) for piece in pieces)
    tasks = list(_group(context, spec, units, unit_bytes, blocksize, interleave))
    return ScanPlan(projection.schema, projection, tuple(units), tuple(tasks))


def kept_plan(
    context: ScanContext,
    request: ScanRequest,
    make_spec: Callable[[ScanRequest, bool], ScanSpec],
    blocksize: int | None,
    min_units: int,
) -> ScanPlan:
    """:func:`plan`, kept for the next scan with the same arguments.

    A snapshot does not change, and neither do its plans once the metadata of all files they read is loaded. Only plans
    of few units are kept.
    """
    key = (request, blocksize, min_units)
    known = context.plans.get(key)
    if known is not None and known[0] is context.sources:
        kept: ScanPlan = known[1]
        return kept
    found = plan(context, request, make_spec(request, False), blocksize, min_units)
    fields, _ = _read_of_row(found.projection)
    if len(found.units) <= _FEW_UNITS and context.all_known({unit.fragment for unit in found.units}, fields):
        if len(context.plans) >= _KEPT_PLANS:
            context.plans.clear()
        context.plans[key] = context.sources, found
    return found


def unit_sizes(context: ScanContext, projection: Projection, units: Sequence[ScanUnit]) -> list[float]:
    """Estimated bytes read of each unit, from metadata alone."""
    fields, made = _read_of_row(projection)
    whole = [_Whole(context.metadata(unit.fragment), unit, unit.rows) for unit in units]
    return _sizes(context, whole, fields, False, made)


def _read_of_row(projection: Projection) -> tuple[tuple[Field, ...], float]:
    """The fields that are read, and the bytes per row of values that are in no file."""
    fields = (*projection.fields, *(f for f in projection.filter_fields if f not in projection.fields))
    return fields, 8.0 * len({*projection.virtual, *projection.filter_virtual})


def _sizes(
    context: ScanContext,
    whole: Sequence[_Whole],
    fields: Sequence[Field],
    exact: bool,
    made: float = 0.0,
) -> list[float]:
    """Bytes of the rows of each unit that are read; ``made`` are the bytes per row of values that are in no file."""
    if exact and not context.snapshot.is_mapped:
        context.several_files([each.fragment.id for each in whole], fields)
    return [each.rows * (made + context.bytes_per_row(each.fragment, fields, exact)) for each in whole]


def _filter_sizes(
    context: ScanContext, whole: Sequence[_Whole], projection: Projection, exact: bool
) -> list[float]:
    """Bytes of each unit that the filter has to decode: hardly any of columns tested for nulls only."""
    bound = projection.filter
    light = null_tests(bound, projection.filter_fields, projection.fields).tested if bound is not None else {}
    heavy = [wanted for wanted in projection.filter_fields if wanted not in light]
    sizes = []
    for each in whole:
        if any(file.is_legacy for file in each.fragment.files):
            sizes += _sizes(context, [each], projection.filter_fields, exact)
        else:
            sizes += _sizes(context, [each], heavy, exact, float(len(light)))
    return sizes


def _unit_bytes(total: float, blocksize: int | None, min_units: int, smallest: int) -> float:
    """Bytes of a unit: the requested size, unless the plan would have too many units."""
    target = float(_MAX_UNIT_BYTES)
    if blocksize is not None:
        target = min(target, max(float(_MIN_UNIT_BYTES), float(blocksize)))
    if min_units > 1 and total > (8 << 20):
        target = min(target, max(float(smallest), total / min_units))
    return max(target, total / _MAX_UNITS)


def _fragment_units(context: ScanContext, request: ScanRequest, projection: Projection) -> Iterator[_Whole]:
    """One unit per fragment, cut by limit and offset if every live row is returned, and by sources if possible."""
    free = request.filter is None
    sources = planning_sources(context, projection) if request.use_stats else ()
    gone = frozenset[int]().union(*(s.ruled_out(context.snapshot, projection) for s in sources))
    skip = request.offset if free else 0
    left = request.limit if free else None
    position = 0
    few = left is not None and request.fragments is None
    for fragment in context.leading() if few else context.selected(request.fragments):
        if left == 0:
            return
        live = context.live_rows(fragment)
        if fragment.id in gone:
            position += live
            continue
        first = min(skip, live)
        last = live if left is None else min(live, first + left)
        skip -= first
        if left is not None:
            left -= last - first
        if last > first:
            start, stop = _physical_range(context, fragment, first, last, live)
            unit = ScanUnit(fragment.id, start, stop, last - first, position + first)
            rows = unit.rows
            if sources:
                unit, rows = _narrowed(context, fragment, unit, projection, sources)
            if unit.rows:
                yield _Whole(fragment, unit, rows)
        position += live


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
    left = RowSelection.all(num_rows)
    for answer in planning_answers(context, fragment, left, projection, sources):
        left = answer.rows
    start, stop = left.ends
    if stop == start:
        return replace(unit, start=0, stop=0, rows=0), 0
    if (start, stop) == (0, num_rows):
        return unit, min(unit.rows, len(left))
    before, rows_left = start, stop - start
    if fragment.deletion_file is not None:
        deleted = context.snapshot.deletions(fragment, num_rows)
        if deleted is not None:
            before -= len(deleted.between(0, start))
            rows_left -= len(deleted.between(start, stop))
    unit = ScanUnit(fragment.id, start, stop, rows_left, unit.position + before)
    return unit, min(rows_left, len(left))


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
) -> tuple[int, list[ScanUnit]]:
    """Count the rows that pass of the units that need no data file for it.

    Parameters
    ----------
    context : ScanContext
    units : sequence of ScanUnit
    projection : Projection

    Returns
    -------
    num_rows : int
    others : list of ScanUnit
        Those whose data decides.
    """
    sources = planning_sources(context, projection)
    if not sources:
        return 0, list(units)
    total, others = 0, list[ScanUnit]()
    for unit in units:
        fragment = context.metadata(unit.fragment)
        rows = RowSelection.range(context.physical_rows(fragment), unit.start, unit.stop)
        proved = frozenset[Expr]()
        for answer in planning_answers(context, fragment, rows, projection, sources):
            rows, proved = answer.rows, answer.proved
        if not proved.issuperset(projection.conditions):
            others.append(unit)
            continue
        deleted = context.snapshot.deletions(fragment, rows.num_rows)
        total += len(rows if deleted is None else rows.minus(deleted.offsets))
    return total, others


def _physical_range(
    context: ScanContext, fragment: Fragment, first: int, last: int, live: int
) -> tuple[int, int]:
    if (first, last) == (0, live):
        return 0, context.physical_rows(fragment)
    if fragment.deletion_file is None:
        return first, last
    ends = context.files(fragment.id).physical(np.array([first, last - 1], np.int64))
    return int(ends[0]), int(ends[1]) + 1


def _split(
    context: ScanContext, fragment: Fragment, unit: ScanUnit, pieces: int, fields: Sequence[Field]
) -> Iterator[ScanUnit]:
    rows = unit.stop - unit.start
    step = max(1, math.ceil(rows / pieces))
    for grain in (_ROW_STEP, _PAGE_ROWS):
        if step > grain:
            step = math.ceil(step / grain) * grain
            break
    if step >= rows:
        yield unit
        return
    position = unit.position
    for start, stop in pairwise(_cuts(unit, step, context.page_edges(fragment.id, fields))):
        live = stop - start
        if fragment.deletion_file is not None:
            live = len(context.files(fragment.id).live(start, stop))
        if live:
            yield ScanUnit(unit.fragment, start, stop, live, position)
        position += live


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


def _group(
    context: ScanContext,
    spec: ScanSpec,
    units: list[ScanUnit],
    sizes: list[float],
    blocksize: int | None,
    interleave: bool,
) -> Iterator[ScanTask]:
    order = context.interleaved([unit.fragment for unit in units]) if interleave else range(len(units))
    group: list[int] = []
    filled = 0.0
    for index in order:
        if group and (blocksize is None or filled + sizes[index] > blocksize):
            yield _task(spec, units, sizes, group)
            group, filled = [], 0.0
        group.append(index)
        filled += sizes[index]
    if group:
        yield _task(spec, units, sizes, group)


def _task(spec: ScanSpec, units: list[ScanUnit], sizes: list[float], group: list[int]) -> ScanTask:
    members = tuple(units[i] for i in group)
    return ScanTask(spec, members, sum(u.rows for u in members), int(sum(sizes[i] for i in group)))
