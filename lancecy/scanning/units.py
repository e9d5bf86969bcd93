"""Units during a scan: candidate rows first, then the rows that passed the filter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from itertools import accumulate, groupby
from typing import Protocol, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.arrow.columns import ArrowArray, filtered
from lancecy.encodings.arrow.conversions import filled
from lancecy.records import dataclass
from lancecy.rows import RowSelection
from lancecy.scanning.context import MOST_TOGETHER, ScanContext
from lancecy.scanning.fragment import FragmentFiles
from lancecy.scanning.project import Projection
from lancecy.scanning.task import ScanUnit
from lancecy.schema import Field

__all__ = [
    "MOST_FILES",
    "CandidateUnit",
    "FilteredUnit",
    "Grouped",
    "Picked",
    "Schedule",
    "Together",
    "bytes_of",
    "decoded_bytes_of",
    "first_rows",
    "fragment_of",
    "passed",
    "passed_together",
    "schedule_of",
    "split_unit",
    "whole_bytes_of",
    "without_others",
]


MOST_FILES = 8192
"""Most files that are read in one piece of work, which keeps the maps of all of them until its end."""

# Fewer small files are not worth a thread of their own.
_WORTH_A_THREAD = 16

Picked: TypeAlias = tuple[FragmentFiles, RowSelection]
"""The files of a unit, and which of their rows passed."""


@dataclass(frozen=True, slots=True, eq=False)
class CandidateUnit:
    """Rows of a unit that are alive and that no source has ruled out.

    Attributes
    ----------
    files : FragmentFiles
    rows : RowSelection
    projection : Projection
        Projection of the scan; its filter is the part left to be tested on these rows.
    """

    files: FragmentFiles
    rows: RowSelection
    projection: Projection


@dataclass(frozen=True, slots=True, eq=False)
class FilteredUnit:
    """Rows of a unit that will be returned.

    Attributes
    ----------
    files : FragmentFiles
    rows : RowSelection
        Candidates; all of them pass when ``mask`` is None.
    picked : RowSelection
        The rows that passed.
    mask : pyarrow.BooleanArray or None
        Which candidates passed.
    reused : dict of Field to column
        Columns already read for the filter, over the candidates.
    """

    files: FragmentFiles
    rows: RowSelection
    picked: RowSelection
    mask: pa.BooleanArray | None = None
    reused: dict[Field, ArrowArray] = field(default_factory=dict)


def bytes_of(unit: CandidateUnit | FilteredUnit, fields: Sequence[Field]) -> float:
    """Estimated encoded bytes of the fields of the candidates."""
    return _share(unit, lambda: unit.files.estimated_bytes(fields))


def decoded_bytes_of(unit: CandidateUnit, fields: Sequence[Field]) -> float:
    """:func:`bytes_of` once the fields are decoded, as far as the metadata of pages tell."""
    return _share(unit, lambda: unit.files.sizes(fields)[1])


def whole_bytes_of(unit: CandidateUnit | FilteredUnit) -> float:
    """The most that :func:`bytes_of` says, without a look at any field."""
    return _share(unit, lambda: unit.files.stored_bytes)


def _share(unit: CandidateUnit | FilteredUnit, file_bytes: Callable[[], int]) -> float:
    """Bytes of the candidates, of those of all rows; without candidates no metadata is loaded."""
    if not len(unit.rows):
        return 0.0
    return len(unit.rows) * file_bytes() / max(1, unit.files.num_rows)


def passed(unit: CandidateUnit, mask: pa.BooleanArray, read: dict[Field, ArrowArray]) -> FilteredUnit:
    """Result of a filter over candidates, with the columns that were read for it."""
    files, rows = unit.files, unit.rows
    count = mask.true_count
    if count == 0:
        nothing = RowSelection.range(files.num_rows, 0, 0)
        return FilteredUnit(files, nothing, nothing)
    if count == len(rows):
        return FilteredUnit(files, rows, rows, None, read)
    return FilteredUnit(files, rows, rows.pick(_positions(mask)), mask, read)


def passed_together(
    units: Sequence[CandidateUnit], mask: pa.BooleanArray, read: dict[Field, ArrowArray]
) -> list[FilteredUnit]:
    """:func:`passed` for several units; the mask and the columns are those of all of them, in order."""
    found = []
    positions = _positions(mask)
    nothing: dict[int, RowSelection] = {}
    edges = list(accumulate((len(c.rows) for c in units), initial=0))
    ends = np.searchsorted(positions, edges).tolist()
    for c, start, first, last in zip(units, edges, ends, ends[1:], strict=False):
        files, rows = c.files, c.rows
        if first == last:
            none = nothing.get(files.num_rows)
            if none is None:
                none = nothing[files.num_rows] = RowSelection.range(files.num_rows, 0, 0)
            found.append(FilteredUnit(files, none, none))
            continue
        columns = {f: column.slice(start, len(rows)) for f, column in read.items()}
        if last - first == len(rows):
            found.append(FilteredUnit(files, rows, rows, None, columns))
        else:
            picked = rows.pick(positions[first:last] - start)
            found.append(FilteredUnit(files, rows, picked, mask.slice(start, len(rows)), columns))
    return found


def split_unit(unit: FilteredUnit, max_rows: int) -> Iterator[FilteredUnit]:
    """Split into units of at most ``max_rows`` candidates; drop those without a row that passed."""
    if len(unit.rows) <= max_rows:
        yield unit
        return
    first = 0
    for start in range(0, len(unit.rows), max_rows):
        rows = unit.rows.slice(start, max_rows)
        reused = {name: column.slice(start, max_rows) for name, column in unit.reused.items()}
        mask = None if unit.mask is None else unit.mask.slice(start, max_rows)
        count = len(rows) if mask is None else mask.true_count
        if count:
            yield FilteredUnit(unit.files, rows, unit.picked.slice(first, count), mask, reused)
        first += count


def first_rows(units: Sequence[FilteredUnit], most: int) -> Iterator[FilteredUnit]:
    """The first ``most`` picked rows of the units; keeps the columns read for them."""
    for unit in units:
        first = _cut(unit, most) if len(unit.picked) > most else unit
        yield first
        most -= len(first.picked)


def _cut(unit: FilteredUnit, most: int) -> FilteredUnit:
    """The first rows of a unit that passed, fewer than all of them."""
    picked, mask, stop = unit.picked.slice(0, most), unit.mask, most
    if mask is not None:
        stop = int(_positions(mask)[most])
        mask = mask.slice(0, stop)
    reused = {f: c.slice(0, stop) for f, c in unit.reused.items()}
    return without_others(FilteredUnit(unit.files, picked, picked, mask, reused))


def without_others(unit: FilteredUnit) -> FilteredUnit:
    """The unit without the candidates that did not pass."""
    if unit.mask is None:
        return unit
    reused = {f: filtered(c, unit.mask) for f, c in unit.reused.items()}
    return FilteredUnit(unit.files, unit.picked, unit.picked, None, reused)


def _positions(mask: pa.BooleanArray) -> NDArray[np.int64]:
    """Positions at which a mask is true."""
    if mask.null_count:
        mask = filled(mask, False)
    bits, found = np.frombuffer(mask.buffers()[1] or b"", np.uint8), np.empty(mask.true_count, np.int64)
    kernels.find_bits(bits, mask.offset, len(mask), found)
    return found


U = TypeVar("U")
V = TypeVar("V", ScanUnit, CandidateUnit, FilteredUnit)


class Schedule(Protocol):
    """Applies steps of a scan to its units."""

    def over(self, step: Callable[[Sequence[V]], list[U]], units: Sequence[V]) -> list[U]:
        """Apply a step to several units; return one result per unit, in the order of the units."""


@dataclass(frozen=True, slots=True)
class Together:
    """One step for all units."""

    def over(self, step: Callable[[Sequence[V]], list[U]], units: Sequence[V]) -> list[U]:
        """See :class:`Schedule`."""
        return step(units)


@dataclass(frozen=True, slots=True)
class Grouped:
    """One step for neighbouring units of small files, which cost one request each; one step for any other unit.

    The steps are taken side by side; see ``ScanContext.spread``.
    """

    context: ScanContext

    def over(self, step: Callable[[Sequence[V]], list[U]], units: Sequence[V]) -> list[U]:
        """See :class:`Schedule`."""

        def together(group: Sequence[V]) -> list[U]:
            self.context.open_together([fragment_of(unit) for unit in group])
            return step(group)

        found = self.context.spread(together, list(self._groups(units)), lambda group: fragment_of(group[0]))
        return [one for several in found for one in several]

    def _groups(self, units: Sequence[V]) -> Iterator[Sequence[V]]:
        start = 0
        for is_small, run in groupby(units, lambda unit: self.context.is_small(fragment_of(unit))):
            count = len(list(run))
            # As many groups as threads, if they are of some size: one decodes while the other waits.
            most = min(MOST_TOGETHER, max(_WORTH_A_THREAD, -(-count // self.context.session.threads)))
            size = -(-count // -(-count // most)) if is_small else 1
            for at in range(start, start + count, size):
                yield units[at : min(at + size, start + count)]
            start += count


def fragment_of(unit: ScanUnit | CandidateUnit | FilteredUnit) -> int:
    """Id of the fragment of a unit."""
    return unit.fragment if isinstance(unit, ScanUnit) else unit.files.fragment.id


def schedule_of(context: ScanContext, units: Sequence[ScanUnit]) -> Schedule:
    """The schedule for these units; opens their files if some might be mapped."""
    mapped = context.snapshot.is_mapped and all(
        files.mapped for files in context.several_files([unit.fragment for unit in units])
    )
    return Together() if mapped else Grouped(context)
