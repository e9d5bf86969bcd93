"""The scan engine: choose rows, read columns, assemble.

Every scan, count and take of every executor runs this engine. Each step takes several units; the schedule decides
which units are taken together (``units.Schedule``).

=============  ========================================================
choose rows    ``filtering``: candidates of ``sources``, then the filter
read columns   ``outputs``: alone, side by side or with other units
assemble       computed columns, virtual columns, order of the output
=============  ========================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from lancecy.encodings.arrow.columns import ArrowArray
from lancecy.errors import FormatError
from lancecy.expr import evaluate
from lancecy.records import dataclass
from lancecy.scanning.column_forms import as_output
from lancecy.scanning.context import ScanContext
from lancecy.scanning.filtering import choose, named, virtual_columns
from lancecy.scanning.outputs import (
    INLINE_BYTES,
    SMALL_COLUMN_BYTES,
    in_order,
    is_enough,
    jobs_of,
    map_sized,
    output_fields,
    outputs_joined,
    reading_ns,
)
from lancecy.scanning.project import Output, Projection, extract
from lancecy.scanning.task import ScanUnit
from lancecy.scanning.units import (
    MOST_FILES,
    FilteredUnit,
    Picked,
    Schedule,
    bytes_of,
    first_rows,
    split_unit,
    whole_bytes_of,
    without_others,
)
from lancecy.schema import Field

__all__ = ["Pieces", "UnitRows", "count_rows", "read_first_rows", "read_rows", "rows_of"]

Pieces = list[list[ArrowArray]]
"""Output columns, once per piece of a unit or of several."""

# Smaller reads are not worth a job of their own.
_JOB_BYTES = 8 << 20
_JOB_NANOSECONDS = 4e6
_JOB_ROWS = 8192
# Smaller units are read together in less time than one by one: threads would wait for the interpreter. So would two groups
# of tiny ones.
_SMALL_UNIT_BYTES = 1 << 20
_TINY_UNIT_BYTES = 128 << 10
_SMALL_UNIT_ROWS = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class UnitRows:
    """The rows and columns read of one unit.

    Attributes
    ----------
    picked : (FragmentFiles, RowSelection)
        The rows that passed.
    pieces : list of list of column
        Output columns of these rows, in one piece or several; none if no row passed. Units that are read together have
        one piece, which is with the first that has rows.
    """

    picked: Picked
    pieces: Pieces


def read_rows(
    context: ScanContext,
    projection: Projection,
    units: Sequence[ScanUnit],
    schedule: Schedule,
    use_sources: bool = True,
) -> list[UnitRows]:
    """Rows of units that pass, and their output columns.

    Parameters
    ----------
    context : ScanContext
    projection : Projection
    units : sequence of ScanUnit
    schedule : Schedule
    use_sources : bool
        Leave out rows that candidate sources rule out.

    Returns
    -------
    list of UnitRows
        One per unit, in order.
    """
    return schedule.over(
        lambda group: rows_of(context, choose(context, group, projection, use_sources), projection), units
    )


def read_first_rows(
    context: ScanContext,
    projection: Projection,
    windows: Iterable[tuple[Sequence[ScanUnit], Schedule]],
    most: int,
    use_sources: bool = True,
) -> list[UnitRows]:
    """The first rows that pass, at most so many, and their output columns, which are read once.

    Parameters
    ----------
    context, projection, use_sources
        As for :func:`read_rows`.
    windows : iterable of (sequence of ScanUnit, Schedule)
        Units that are searched one window after the other, until there are rows enough.
    most : int

    Returns
    -------
    list of UnitRows
        One per unit, in order; fewer if there were enough before the last.
    """
    found: list[FilteredUnit] = []
    schedule: Schedule | None = None
    left = most
    for units, schedule in windows:
        chosen = schedule.over(lambda group: choose(context, group, projection, use_sources), units)
        chosen = list(first_rows(chosen, left))
        left -= sum(len(unit.picked) for unit in chosen)
        # What was read for the filter does not stay while the next windows are searched.
        found += chosen if left <= 0 and not found else map(without_others, chosen)
        if left <= 0:
            break
    if schedule is None:
        return []
    return schedule.over(lambda group: rows_of(context, group, projection), found)


def count_rows(
    context: ScanContext,
    projection: Projection,
    units: Sequence[ScanUnit],
    schedule: Schedule,
    use_sources: bool = True,
) -> int:
    """Count the rows of units that pass, reading only the filter's columns."""
    counts = schedule.over(
        lambda group: [len(c.picked) for c in choose(context, group, projection, use_sources)], units
    )
    return sum(counts)


def rows_of(
    context: ScanContext, units: Sequence[FilteredUnit], projection: Projection, few: bool = False
) -> list[UnitRows]:
    """Output columns of the rows that passed; ``few`` rows are read all together, by this thread."""
    fields = projection.fields
    taken = 0.0 if few or _are_small(units) else reading_ns(units, fields)
    parts = _parts(context, units, projection, taken)
    alive = [part for mine in parts for part in mine]
    use_threads = is_enough(taken, max(2, len(alive)))
    groups = [alive] if few else [] if use_threads else _groups(context, alive, fields)
    if groups and alive and not projection.virtual:
        try:
            return _joined_rows(context, units, parts, groups, projection)
        except FormatError:
            pass  # One by one, so that the error names the file.
    read = iter(_columns(context, alive, fields, use_threads))
    return [
        UnitRows(
            (unit.files, unit.picked), [_assembled(context, part, projection, next(read)) for part in mine]
        )
        for unit, mine in zip(units, parts, strict=True)
    ]


def _joined_rows(
    context: ScanContext,
    units: Sequence[FilteredUnit],
    parts: Sequence[Sequence[FilteredUnit]],
    groups: Sequence[Sequence[FilteredUnit]],
    projection: Projection,
) -> list[UnitRows]:
    """Output columns of the rows that passed, with one piece for each group of parts of the units."""

    def read(group: Sequence[FilteredUnit]) -> list[ArrowArray]:
        columns = outputs_joined(context, group, projection.fields)
        by_name = {f.name: c for f, c in zip(projection.fields, columns, strict=True)}
        return _outputs(projection, by_name, _num_rows(group))

    pieces = dict(zip((id(group[0]) for group in groups), context.session.map(read, groups), strict=True))
    return [
        UnitRows((unit.files, unit.picked), [pieces[id(part)] for part in mine if id(part) in pieces])
        for unit, mine in zip(units, parts, strict=True)
    ]


def _groups(
    context: ScanContext, units: Sequence[FilteredUnit], fields: Sequence[Field]
) -> list[Sequence[FilteredUnit]]:
    """Units whose columns are read together, as many groups as threads read at once; none if each is read alone."""
    if len(units) < 2:
        return []
    few = [units[at : at + MOST_FILES] for at in range(0, len(units), MOST_FILES)]
    # Of tiny files no column needs to be looked at.
    if _stored_bytes(units) < _TINY_UNIT_BYTES * len(units) and _are_small(units):
        return few
    if _is_little(units, fields):
        return few
    size = sum(_read_bytes(c, fields) for c in units) / len(units)
    if not _are_small(units) or size > _SMALL_UNIT_BYTES:
        return []
    if size < _TINY_UNIT_BYTES or len(few) > 1:
        return few
    ends = np.cumsum([len(c.rows) for c in units])
    count = min(context.session.threads, len(units))
    edges = np.searchsorted(ends, ends[-1] * np.arange(1, count) // count) + 1
    return [units[a:b] for a, b in pairwise([0, *edges.tolist(), len(units)]) if a < b]


def _num_rows(units: Sequence[FilteredUnit]) -> int:
    return sum(len(c.picked) for c in units)


def _are_small(units: Sequence[FilteredUnit]) -> bool:
    """Whether units have few rows, or small files, so that finding out what their columns take is not worth it."""
    if all(c.files.mapped for c in units):
        return sum(len(c.rows) for c in units) < _SMALL_UNIT_ROWS * len(units)
    return all(c.files.stored_bytes < SMALL_COLUMN_BYTES for c in units)


def _is_little(units: Sequence[FilteredUnit], fields: Sequence[Field]) -> bool:
    """Whether one thread reads all units with the same steps for all files: small ones, or few bytes of mapped files."""
    if all(c.files.mapped for c in units):
        return _are_few_bytes(units, fields)
    # Of small files no column needs to be looked at.
    most = [c.files.stored_bytes for c in units]
    pairs = zip(most, units, strict=True)
    return all(size < SMALL_COLUMN_BYTES or bytes_of(c, fields) < SMALL_COLUMN_BYTES for size, c in pairs)


def _are_few_bytes(units: Sequence[FilteredUnit], fields: Sequence[Field]) -> bool:
    """Whether one thread reads all units sooner than several do."""
    # Of small files and of few rows no column needs to be looked at.
    if (
        _stored_bytes(units) < INLINE_BYTES
        or sum(_read_part(c) * whole_bytes_of(c) for c in units) < INLINE_BYTES
    ):
        return True
    return sum(_read_bytes(c, fields) for c in units) < INLINE_BYTES


def _parts(
    context: ScanContext, units: Sequence[FilteredUnit], projection: Projection, taken: float
) -> list[Sequence[FilteredUnit]]:
    """Split units into pieces with rows, so that no thread ends up with most of the rows."""
    if projection.filter is not None and all(c.files.mapped for c in units):
        rows = sum(len(c.rows) for c in units)
        passed = sum(len(c.picked) for c in units) / max(1, rows)
        # Of small files no column needs to be looked at.
        is_worth = passed * sum(c.files.stored_bytes for c in units) >= 2 * _JOB_BYTES
        nbytes = sum(bytes_of(c, projection.fields) for c in units) if is_worth else 0.0
        jobs = min(4 * context.session.threads, max(passed * nbytes // _JOB_BYTES, taken // _JOB_NANOSECONDS))
        if jobs >= 2:
            size = max(_JOB_ROWS, -(-rows // int(jobs)))
            return [[part for part in split_unit(c, size) if len(part.picked)] for c in units]
    return [(c,) if len(c.picked) else () for c in units]


def _columns(
    context: ScanContext, units: Sequence[FilteredUnit], fields: Sequence[Field], use_threads: bool
) -> Iterator[list[ArrowArray]]:
    """Fields of several units, side by side if that is worth it."""
    use_threads = use_threads or not _are_few_bytes(units, fields)
    # Where one thread reads them all, columns share their requests.
    jobs = [jobs_of(c, fields) if use_threads else [list(fields)] for c in units]
    todo = [(c, job) for c, mine in zip(units, jobs, strict=True) for job in mine]
    read = iter(map_sized(context, lambda item: output_fields(context, *item), todo, use_threads))
    for mine in jobs:
        yield in_order(fields, mine, [next(read) for _ in mine])


def _read_bytes(unit: FilteredUnit, fields: Sequence[Field]) -> float:
    """Work of reading a unit in bytes."""
    return bytes_of(unit, fields) * _read_part(unit)


def _stored_bytes(units: Sequence[FilteredUnit]) -> int:
    return sum(c.files.stored_bytes for c in units)


def _read_part(unit: FilteredUnit) -> float:
    """Which part of the work of reading all candidates is left: rows picked here and there cost several times their bytes."""
    return min(1, 8 * len(unit.picked) / max(1, len(unit.rows)))


def _assembled(
    context: ScanContext, unit: FilteredUnit, projection: Projection, columns: Sequence[ArrowArray]
) -> list[ArrowArray]:
    """Make the output columns of one unit from the fields read."""
    by_name = {f.name: c for f, c in zip(projection.fields, columns, strict=True)}
    by_name.update(virtual_columns(context, unit.files, unit.picked, projection.virtual))
    try:
        return _outputs(projection, by_name, len(unit.picked))
    except FormatError as error:
        raise unit.files.located(error) from error.__cause__


def _outputs(projection: Projection, by_name: dict[str, ArrowArray], num_rows: int) -> list[ArrowArray]:
    return [_output(out, by_name, num_rows) for out in projection.outputs]


def _output(out: Output, by_name: dict[str, ArrowArray], num_rows: int) -> ArrowArray:
    bound = out.bound
    if bound is None:
        return as_output(extract(by_name[out.paths[0][0]], out.paths[0]), out.field)
    names = list(dict.fromkeys(path[0] for path in bound.paths if path[0] in by_name))
    value = evaluate(bound, named(names, [by_name[n] for n in names], num_rows))
    if isinstance(value, pa.Scalar):
        return pa.repeat(value, num_rows)
    return value
