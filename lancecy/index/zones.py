"""ZONEMAP and BLOOMFILTER: facts about zones, which are ranges of rows of one fragment.

::

    zonemap.lance       min, max, null_count, nan_count, fragment_id, zone_start, zone_length
    bloomfilter.lance   fragment_id, zone_start, zone_length, has_null, bloom_filter_data

Zones are places of rows, so neither knows where a row has moved. Rows of a covered fragment outside all of its zones are
candidates.

Source: sheet of indices, sections B6 and B7.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.encodings.arrow.conversions import filled, numbers_of
from lancecy.errors import FormatError
from lancecy.expr.nodes import Call, Column, Expr
from lancecy.index.bounds import column_stats
from lancecy.index.condition import Condition
from lancecy.index.files import IndexFile
from lancecy.index.found import FoundRows, Spans
from lancecy.index.segment import Segment
from lancecy.records import dataclass
from lancecy.stats import ColumnStats

__all__ = ["MAP_FILE", "NULLS", "ZONE_COLUMNS", "ZoneMap", "Zones"]

Int64: TypeAlias = NDArray[np.int64]
Bool: TypeAlias = NDArray[np.bool_]

ZONE_COLUMNS = ("fragment_id", "zone_start", "zone_length")

MAP_FILE = "zonemap.lance"
NULLS = "null_bitmap"
# Positions beyond this are no rows of a fragment.
_MOST_ROWS = 1 << 32


@dataclass(frozen=True, slots=True, eq=False)
class Zones:
    """Places of the zones of an index.

    Attributes
    ----------
    fragments, starts, lengths : (num_zones,) int64
        Ascending by fragment and start.
    order : (num_zones,) int64
        Row of each zone in the file.
    file : IndexFile
    overlapping : frozenset of int
        Fragments whose zones overlap: pylance keeps the zones from before a column was changed in place beside the new
        ones, and which of them are old is not known.
    """

    fragments: Int64
    starts: Int64
    lengths: Int64
    order: Int64
    file: IndexFile
    overlapping: frozenset[int]

    @classmethod
    def of(cls, file: IndexFile, columns: list[pa.Array]) -> Zones:
        """Make from the columns :data:`ZONE_COLUMNS` of a file.

        Raises
        ------
        FormatError
            Zones are no places of rows.
        """
        numbers = []
        for column in columns:
            if column.null_count or not pa.types.is_integer(column.type):
                raise FormatError("places of zones are null or no numbers").within(file.source.path)
            numbers.append(numbers_of(column).astype(np.int64))
        order = np.lexsort((numbers[1], numbers[0]))
        fragments, starts, lengths = (found[order] for found in numbers)
        outside = (starts < 0) | (starts > _MOST_ROWS) | (lengths < 0) | (lengths > _MOST_ROWS)
        overlap = (fragments[1:] == fragments[:-1]) & (starts[1:] < (starts + lengths)[:-1])
        if outside.any():
            raise FormatError("zones of an index are no ranges of rows").within(file.source.path)
        twice = frozenset(fragments[1:][overlap].tolist())
        return cls(fragments, starts, lengths, order, file, twice)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return 4 * self.starts.nbytes

    def tested_for_null(self, expr: Expr, segment: Segment) -> FoundRows | None:
        """The rows for which a null test is true; None for other conditions, or if the file does not know.

        Parameters
        ----------
        expr : Expr
            Bound.
        segment : Segment

        Raises
        ------
        FormatError, LimitError
            The set of nulls is damaged.
        """
        is_negated = isinstance(expr, Call) and expr.op == "not"
        tested = expr.args[0] if isinstance(expr, Call) and is_negated else expr
        if not isinstance(tested, Call) or tested.op != "is_null" or not isinstance(tested.args[0], Column):
            return None
        # Where zones are old, so are nulls.
        nulls = None if self.overlapping else self.file.buffer(NULLS)
        if nulls is None:
            return None
        found = segment.places.of_sets([nulls], self.file.limits)
        return FoundRows(found, is_exact=True, are_left_out=is_negated)

    def ruled_out(self, zones: Bool) -> FoundRows:
        """All rows but those of some zones.

        Parameters
        ----------
        zones : (num_zones,) bool
            In the order of the file.
        """
        gone = zones[self.order]
        fragments, starts, lengths = self.fragments[gone], self.starts[gone], self.lengths[gone]
        edges = np.flatnonzero(np.diff(fragments, prepend=-1))
        found: dict[int, Spans] = {}
        for first, last in zip(edges.tolist(), [*edges[1:].tolist(), fragments.size], strict=edges.size > 0):
            begin, number = starts[first:last], int(fragments[first])
            found[number] = (begin, begin + lengths[first:last])
            if number in self.overlapping:
                others = ~gone & (self.fragments == number)
                begin = self.starts[others]
                found[number] = _without(found[number], (begin, begin + self.lengths[others]))
        return FoundRows(found, is_exact=False, are_left_out=True)


def _without(spans: Spans, others: Spans) -> Spans:
    """The rows that are in some spans and in none of the others; spans may overlap."""
    edges = np.unique(np.concatenate([*spans, *others]))
    starts, stops = edges[:-1], edges[1:]

    def covered(by: Spans) -> Bool:
        begun, ended = (np.searchsorted(np.sort(bounds), starts, side="right") for bounds in by)
        return np.greater(begun, ended)

    wanted = covered(spans) & ~covered(others)
    return starts[wanted], stops[wanted]


@dataclass(frozen=True, slots=True, eq=False)
class ZoneMap:
    """An opened ZONEMAP segment."""

    zones: Zones
    stats: ColumnStats

    @classmethod
    def open(cls, segment: Segment) -> ZoneMap:
        """Open the file of a segment.

        Raises
        ------
        FormatError, LimitError, UnsupportedError
            It is damaged.
        DatasetNotFoundError
            It is missing.
        """
        file = segment.file(MAP_FILE)
        segment.check_type(file.type_of("min"), MAP_FILE)
        segment.check_type(file.type_of("max"), MAP_FILE)
        lows, highs, nulls, nans, *places = file.read(
            ["min", "max", "null_count", "nan_count", *ZONE_COLUMNS]
        )
        zones = Zones.of(file, places)
        counts = [_counts(column) for column in (nulls, nans)]
        rows = np.empty(zones.lengths.size, np.int64)
        rows[zones.order] = zones.lengths
        return cls(zones, column_stats(lows, highs, counts[0], rows, may_have_nan=bool(counts[1].any())))

    @property
    def nbytes(self) -> int:
        """Bytes in memory, roughly."""
        return 1000 + self.zones.nbytes + 50 * self.zones.starts.size

    def find(self, condition: Condition, segment: Segment) -> FoundRows | None:
        """The rows of the zones in which a condition may be true; those of a null test exactly."""
        nulls = self.zones.tested_for_null(condition.bound.expr, segment)
        if nulls is not None:
            return nulls
        rows = np.empty(self.zones.lengths.size, np.int64)
        rows[self.zones.order] = self.zones.lengths
        gone = np.ones(rows.size, np.bool_)
        gone[condition.possible_in(self.stats, rows)] = False
        return self.zones.ruled_out(gone) if gone.any() else None


def _counts(column: pa.Array) -> Int64:
    return numbers_of(filled(column, 0)).astype(np.int64)
