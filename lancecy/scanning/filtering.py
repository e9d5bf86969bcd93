"""Choose rows: the rows of a unit that are alive and pass the filter.

Candidates come from metadata (``sources``). Only their rows of the filter's columns are read, and only conditions
that no source has proved are evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TypeVar

import pyarrow as pa

from lancecy.encodings.arrow.columns import ArrowArray, as_array, bare
from lancecy.encodings.arrow.conversions import array_of
from lancecy.errors import FormatError, LanceError
from lancecy.expr import Bound, Expr, evaluation_ns, mask
from lancecy.rows import RowSelection
from lancecy.scanning.column_forms import NullTests, null_tests
from lancecy.scanning.context import ScanContext
from lancecy.scanning.fragment import FragmentFiles, JoinedStats, joined_stats, parse_metadata
from lancecy.scanning.outputs import (
    all_rows_ns,
    are_worth_threads,
    is_enough,
    map_sized,
    most_ns,
    read_columns,
    read_several,
)
from lancecy.scanning.project import Projection
from lancecy.scanning.request import NULL_IF_DELETED, ROW_OFFSET
from lancecy.scanning.sources import CandidateSource, PageStatistics, Question, answers, concerned
from lancecy.scanning.task import ScanUnit
from lancecy.scanning.units import (
    MOST_FILES,
    CandidateUnit,
    FilteredUnit,
    decoded_bytes_of,
    fragment_of,
    passed,
    passed_together,
)
from lancecy.scanning.virtual import virtual_values
from lancecy.schema import Field

__all__ = [
    "all_passing",
    "candidates",
    "choose",
    "named",
    "passing",
    "question",
    "spread_candidates",
    "virtual_columns",
]

SMALL_ROWS = 8192
_MIN_CODED = 16384
"""Fewest rows of a unit whose texts are compared by their codes."""
_ROWS_TOGETHER = 1 << 20
"""Most rows of units whose columns are read together."""
_BYTES_TOGETHER = 16 << 20
"""Encoded bytes below which one thread tests units as one column."""
_FEW_UNITS = 256
_READ_NANOSECONDS = 100_000
"""What another read of a few mapped files takes beside decoding."""
_MANY_FRAGMENTS = 16
"""Fewest fragments whose statistics are looked at together."""

U = TypeVar("U")


def choose(
    context: ScanContext, units: Sequence[ScanUnit], projection: Projection, use_sources: bool = True
) -> list[FilteredUnit]:
    """The rows of several units that are alive and pass the filter."""
    key = ("candidates", id(units), use_sources)
    kept = context.plans.get(key)
    if kept is None or any(
        a is not b for a, b in zip(kept, (units, projection, context.sources), strict=False)
    ):
        sources = concerned(context.sources, context.snapshot, projection) if use_sources else ()
        statistics = next((source for source in sources if isinstance(source, PageStatistics)), None)
        joined, left_out = None, frozenset[int]()
        if statistics is not None:
            joined, left_out = _told_together(context, units, projection, statistics)
        others = [source for source in sources if source is not statistics]
        if sources and joined is None:
            parse_metadata((context.files(unit.fragment) for unit in units), projection.filter_fields)
        # Sources do a little NumPy over metadata: threads would only wait for each other.
        found = [
            candidates(
                context,
                unit,
                projection,
                sources if joined is None or unit.fragment in left_out else others,
            )
            for unit in units
        ]
        kept = units, projection, context.sources, found, None if joined is None else joined.decoded_bytes
        if _stay_the_same(units, found, sources, projection, joined):
            context.keep_plan(key, kept)
    return all_passing(context, *kept[3:])


def _told_together(
    context: ScanContext, units: Sequence[ScanUnit], projection: Projection, statistics: PageStatistics
) -> tuple[JoinedStats | None, frozenset[int]]:
    """Page statistics of the filter's columns in all fragments, and the fragments of which they leave out rows.

    None if each unit is asked for its own.
    """
    bound, fragments = projection.filter, dict.fromkeys([unit.fragment for unit in units])
    if bound is None or projection.filter_virtual or len(fragments) < _MANY_FRAGMENTS:
        return None, frozenset()
    several = [context.files(fragment) for fragment in fragments]
    joined = joined_stats(several, projection.filter_fields, bound.paths)
    if joined is None:
        return None, frozenset()
    return joined, statistics.left_out(several, joined, projection)


def _stay_the_same(
    units: Sequence[ScanUnit],
    found: Sequence[CandidateUnit],
    sources: Sequence[CandidateSource],
    projection: Projection,
    joined: JoinedStats | None,
) -> bool:
    """Whether the candidates of a plan's units are the same for every scan; a stream's windows, which are lists, come once."""
    if not isinstance(units, tuple) or len(units) > _FEW_UNITS:
        return False
    if not all(isinstance(source, PageStatistics) for source in sources):
        return False
    # Columns that can be joined have no bounds.
    return all(
        c.files.mapped and (joined is not None or c.files.has_few_stats(projection.filter_fields))
        for c in found
    )


def question(context: ScanContext, files: FragmentFiles, projection: Projection) -> Question:
    """The question that sources are asked about an open fragment."""
    return Question(context.snapshot, context.session, files.fragment, files.num_rows, projection, files)


def candidates(
    context: ScanContext, unit: ScanUnit, projection: Projection, sources: Sequence[CandidateSource]
) -> CandidateUnit:
    """Living rows of a unit that no source rules out; reads metadata only."""
    files = context.files(unit.fragment)
    proved: frozenset[Expr] = frozenset()
    if not sources:
        left = projection.less(proved) if projection.where else projection
        return CandidateUnit(files, files.live(unit.start, unit.stop), left)
    rows = RowSelection.range(files.num_rows, unit.start, unit.stop)
    exact = projection.exact_rows(unit.fragment, context.sources)
    if exact is not None and exact.num_rows == files.num_rows:
        rows, proved = rows.intersect(exact), frozenset(projection.conditions)
    else:
        for answer in answers(sources, question(context, files, projection), rows):
            rows, proved = answer.rows, answer.proved
    # Single rows, as from row ids, are read by their numbers.
    single = bool(proved) and rows.starts is not None and rows.starts.size * 4 > len(rows)
    rows = files.living(rows)
    if single and rows.starts is not None:
        rows = RowSelection(files.num_rows, indices=rows.to_indices())
    return CandidateUnit(files, rows, projection.less(proved))


def spread_candidates(
    context: ScanContext,
    units: Sequence[ScanUnit],
    projection: Projection,
    sources: Sequence[CandidateSource],
    step: Callable[[Sequence[CandidateUnit]], list[U]],
    row_ns: float = 0.0,
) -> list[U]:
    """Apply a function to the candidates of units: side by side if there is enough to decode, small ones together.

    Parameters
    ----------
    context : ScanContext
    units : sequence of ScanUnit
    projection : Projection
    sources : sequence of CandidateSource
    step : function of CandidateUnits
        One result each, in their order.
    row_ns : float, nanoseconds
        How long it takes for a row that is read, about.

    Returns
    -------
    list
        Results in the order of the units that have a candidate.
    """
    if not context.snapshot.is_mapped:

        def alone(unit: ScanUnit) -> list[U]:
            chosen = candidates(context, unit, projection, sources)
            return step([chosen]) if len(chosen.rows) else []

        return [*chain.from_iterable(context.spread(alone, units, fragment_of))]
    # Opening mapped files takes little but the interpreter, so threads would only wait for each other.
    fields = projection.filter_fields or projection.fields
    files = context.several_files([unit.fragment for unit in units])
    parse_metadata(files, fields)
    opened = (candidates(context, unit, projection, sources) for unit in units)
    found = [c for c in opened if len(c.rows)]
    for c in found:
        c.files.prepare(fields, context.session)
    items = [(c.files, len(c.rows)) for c in found]
    read = tuple(dict.fromkeys((*projection.filter_fields, *projection.fields)))
    groups = list(_groups(found, read, context.session.threads))
    if are_worth_threads(items, fields, row_ns, len(groups)):
        return [*chain.from_iterable(context.spread(step, groups, lambda group: fragment_of(group[0])))]
    return [*chain.from_iterable(map(step, _groups(found, read, 1)))]


def _groups(
    units: Sequence[CandidateUnit], fields: Sequence[Field], threads: int
) -> Iterator[list[CandidateUnit]]:
    """Units in groups that are read together, as many as there are threads or more."""
    most = min(_ROWS_TOGETHER, -(-sum(len(c.rows) for c in units) // threads))
    group: list[CandidateUnit] = []
    rows, nbytes = 0, 0.0
    for c in units:
        more = decoded_bytes_of(c, fields)
        if group and (rows + len(c.rows) > most or nbytes + more > _BYTES_TOGETHER):
            yield group
            group, rows, nbytes = [], 0, 0.0
        group.append(c)
        rows, nbytes = rows + len(c.rows), nbytes + more
    if group:
        yield group


def passing(context: ScanContext, unit: CandidateUnit) -> FilteredUnit:
    """Candidates for which the filter is true; reads the filter's columns."""
    files, rows, projection = unit.files, unit.rows, unit.projection
    if projection.filter is None or len(rows) == 0:
        return FilteredUnit(files, rows, rows)
    tests = _null_tests(files, projection, projection.filter)
    coded = _coded(unit)

    def read(fields: Sequence[Field]) -> list[ArrowArray]:
        return read_columns(files, [coded.get(f, f) for f in fields], rows, context.session, tests.tested)

    fields, columns = _read_ahead(read, [unit])
    seen = {f.name: c for f, c in zip(projection.filter_fields, columns, strict=False)}
    seen.update(virtual_columns(context, files, rows, projection.filter_virtual))
    kept = projection.fields
    in_other_forms = tests.tested.keys() | coded.keys()
    fresh = {
        wanted: column
        for wanted, column in zip(fields, columns, strict=True)
        if wanted in kept and wanted not in in_other_forms
    }
    try:
        return passed(unit, _mask(tests.bound, seen, len(rows)), fresh)
    except FormatError as error:
        raise files.located(error) from error.__cause__


def all_passing(
    context: ScanContext, units: Sequence[CandidateUnit], most: int | None = None
) -> list[FilteredUnit]:
    """:func:`passing` for several units: side by side where there is enough to decode, small ones together.

    Parameters
    ----------
    context : ScanContext
    units : sequence of CandidateUnit
    most : int or None, bytes
        The filter's columns take no more in all files once they are decoded. Then no file is looked at for its part, if that
        is little.
    """
    if all(c.projection.filter is None for c in units):
        return [FilteredUnit(c.files, c.rows, c.rows) for c in units]
    projection = units[0].projection
    fields = projection.filter_fields
    row_ns = 0.0 if projection.filter is None else evaluation_ns(projection.filter.expr)
    items = [(c.files, len(c.rows)) for c in units]
    if most is not None and most < _BYTES_TOGETHER:
        sizes = [most / len(units)] * len(units)
        num_rows = sum(rows for _, rows in items)
        use_threads = is_enough(most_ns(num_rows, most, fields, row_ns), len(units))
    else:
        sizes = [decoded_bytes_of(c, c.projection.filter_fields) for c in units]
        use_threads = True
    use_threads = use_threads and are_worth_threads(items, fields, row_ns)
    # One thread decodes units of few bytes: then as one.
    is_little = not use_threads and sum(sizes) < _BYTES_TOGETHER
    groups = list(_small_groups(units, sizes, is_little and all(c.files.mapped for c in units)))
    found = map_sized(context, lambda group: _passing_group(context, group), groups, use_threads)
    return [c for group in found for c in group]


def _small_groups(
    units: Sequence[CandidateUnit], sizes: Sequence[float], are_joined: bool
) -> Iterator[list[CandidateUnit]]:
    """Group units, of so many decoded bytes each, for which one filter is evaluated once.

    Units of many rows stay alone, unless they are joined.
    """
    most = _ROWS_TOGETHER if are_joined else SMALL_ROWS
    group: list[CandidateUnit] = []
    rows, nbytes, is_coded = 0, 0.0, False
    for c, more in zip(units, sizes, strict=True):
        was_coded, is_coded = is_coded, bool(_coded(c))
        # Every fragment has its own dictionary: merging them may cost more than it saves.
        is_full = rows + len(c.rows) > most or (not are_joined and _has_dictionary(c.projection))
        is_full = is_full or len(group) == MOST_FILES or nbytes + more > _BYTES_TOGETHER
        if group and (is_full or is_coded or was_coded or c.projection is not group[0].projection):
            yield group
            group, rows, nbytes = [], 0, 0.0
        group.append(c)
        rows, nbytes = rows + len(c.rows), nbytes + more
    if group:
        yield group


def _has_dictionary(projection: Projection) -> bool:
    nodes = (node for f in projection.filter_fields for node in f.walk())
    return any(node.logical_type.startswith("dict:") for node in nodes)


def _coded(unit: CandidateUnit) -> dict[Field, Field]:
    """Text columns of the filter that are read in codes, and the same in codes: where that saves more than a step costs."""
    texts = unit.projection.compared_texts
    if not texts or len(unit.rows) < _MIN_CODED:
        return {}
    # Where reading costs requests, nothing is read twice.
    once = () if unit.files.mapped else unit.projection.fields
    return {f: c for f, c in texts.items() if f not in once and unit.files.stores_dictionary(f)}


def _passing_group(context: ScanContext, group: Sequence[CandidateUnit]) -> list[FilteredUnit]:
    projection = group[0].projection
    bound, fields = projection.filter, projection.filter_fields
    if len(group) == 1 or bound is None or null_tests(bound, fields, projection.fields).tested:
        return [passing(context, c) for c in group]

    def read(fields: Sequence[Field]) -> list[ArrowArray]:
        return read_several([(c.files, c.rows) for c in group], fields, context.session)

    wanted, columns = _read_ahead(read, group)
    seen = {f.name: column for f, column in zip(fields, columns, strict=False)}
    made = [virtual_columns(context, c.files, c.rows, projection.filter_virtual) for c in group]
    seen.update((name, pa.chunked_array([mine[name] for mine in made])) for name in projection.filter_virtual)
    try:
        found = _mask(bound, seen, sum(len(c.rows) for c in group))
    except FormatError:
        # One by one, so that the error names the file.
        return [passing(context, c) for c in group]
    kept = {f: column for f, column in zip(wanted, columns, strict=True) if f in projection.fields}
    return passed_together(group, found, kept)


def _read_ahead(
    read: Callable[[Sequence[Field]], list[ArrowArray]], group: Sequence[CandidateUnit]
) -> tuple[tuple[Field, ...], list[ArrowArray]]:
    """The filter's fields and their columns, with those of the output if these are few values of mapped files.

    All rows of a few values are decoded in less time than another read takes.
    """
    fields, more = group[0].projection.filter_fields, group[0].projection.untested
    if more and all(c.files.mapped for c in group):
        num_rows = sum(len(c.rows) for c in group)
        if all_rows_ns(group[0].files, more, num_rows) < _READ_NANOSECONDS:
            try:
                return (*fields, *more), read((*fields, *more))
            except LanceError:
                pass  # Damaged rows may not be returned.
    return fields, read(fields)


def _mask(bound: Bound, columns: dict[str, ArrowArray], num_rows: int) -> pa.BooleanArray:
    return as_array(mask(bound, named(list(columns), list(columns.values()), num_rows)))


def _null_tests(files: FragmentFiles, projection: Projection, bound: Bound) -> NullTests:
    """The filter's fields that are read without their values."""
    if not files.tells_nulls:
        return NullTests(bound)
    found = null_tests(bound, projection.filter_fields, projection.fields)
    if files.mapped:
        return found
    # Where reading costs requests, nothing is read twice.
    tested = {f: nodes for f, nodes in found.tested.items() if f not in projection.fields}
    return replace(found, tested=tested) if tested else NullTests(bound)


def virtual_columns(
    context: ScanContext, files: FragmentFiles, rows: RowSelection, names: Sequence[str]
) -> dict[str, ArrowArray]:
    """Virtual columns of some rows, by name."""
    if not names:
        return {}
    offsets, found = rows.to_indices(), (context.snapshot, files.fragment, files.num_rows)
    gone = None if context.living is None else context.are_deleted(files, offsets)
    return {
        name: array_of(
            context.row_offsets(files, offsets)
            if name == ROW_OFFSET
            else virtual_values(*found, name, offsets),
            gone if name in NULL_IF_DELETED else None,
        )
        for name in names
    }


def named(names: Sequence[str], columns: Sequence[ArrowArray], num_rows: int) -> pa.Table:
    """Table of the columns an expression sees; a constant sees none and still needs the number of rows."""
    return pa.table([bare(c) for c in columns], names=names) if names else pa.table({"": pa.nulls(num_rows)})
