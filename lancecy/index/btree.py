"""BTREE: values with their row ids in sorted order, and the bounds of each page of them.

::

    page_data.lance     values, ids       nulls first, then ascending; page k has rows k*batch_size to (k+1)*batch_size
    page_lookup.lance   min, max, null_count, page_idx     one row per page; metadata "batch_size"

A page that begins with nulls has no minimum, although it may have values.

Source: sheet of indices, section B3.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.encodings.arrow.conversions import filled, numbers_of
from lancecy.errors import FormatError, UnsupportedError
from lancecy.index.bounds import column_stats
from lancecy.index.condition import Condition
from lancecy.index.files import IndexFile
from lancecy.index.found import FoundRows
from lancecy.index.segment import Segment
from lancecy.index.sorted_values import PageEdges, are_listed, constants, sorted_values, whole_numbers
from lancecy.records import dataclass
from lancecy.rows import RowSelection
from lancecy.stats import ColumnStats

__all__ = ["DATA_FILE", "LOOKUP_FILE", "BTree"]

Int64: TypeAlias = NDArray[np.int64]
UInt64: TypeAlias = NDArray[np.uint64]

LOOKUP_FILE = "page_lookup.lance"
DATA_FILE = "page_data.lance"

_DEFAULT_PAGE_ROWS = 4096
# Values decoded at a time.
_BATCH_ROWS = 1 << 20
# With more of the pages to be read than this part (1/4), reading the column itself costs less.
_WORTHWHILE = 4
_FEW_PAGES = 16
# Keys looked up page by page before all values are decoded.
_FEW_KEYS = 64


@dataclass(frozen=True, eq=False)
class BTree:
    """An opened BTREE segment.

    Attributes
    ----------
    lookup, data : IndexFile
    starts, stops : (num_pages,) int64
        Rows of each page in ``data``.
    lows, highs : (num_pages,) array
        Least and largest value of each page; null if unknown.
    edges : PageEdges or None
        Whole numbers only: finds the pages of values.
    nulls : list of (num_pages,) array
        The counts of nulls, if they are read already.
    looked_up : list of int
        How many keys were looked up so far; only to choose the cheaper way.
    """

    lookup: IndexFile
    data: IndexFile
    starts: Int64
    stops: Int64
    lows: pa.Array
    highs: pa.Array
    edges: PageEdges | None
    nulls: list[pa.Array]
    looked_up: list[int]

    @classmethod
    def open(cls, segment: Segment) -> BTree:
        """Open the files of a segment.

        Raises
        ------
        FormatError, LimitError
            They are damaged, or disagree.
        UnsupportedError
            A layout of several ranges, which a distributed build leaves.
        DatasetNotFoundError
            One is missing.
        """
        lookup = segment.file(LOOKUP_FILE)
        if lookup.metadata.get("range_partitioned", "false") != "false":
            raise UnsupportedError("a BTREE index in several ranges", feature="BTREE indices in ranges")
        data = segment.file(DATA_FILE)
        segment.check_type(data.type_of("values"), DATA_FILE)
        segment.check_type(lookup.type_of("min"), LOOKUP_FILE)
        # Look-ups of keys need no counts of nulls; but where a file is not mapped, reading them later is a request.
        later = lookup.source.store.traits.is_mapped
        names = ["min", "max", "page_idx", *(() if later else ("null_count",))]
        lows, highs, pages, *nulls = lookup.read(names)
        starts, stops = _page_rows(lookup, data, pages)
        return cls(lookup, data, starts, stops, lows, highs, PageEdges.of(lows, highs), nulls, [0])

    @property
    def nbytes(self) -> int:
        """Bytes in memory, roughly."""
        return 1000 + 100 * self.starts.size + int(self.lows.nbytes)

    @cached_property
    def stats(self) -> ColumnStats:
        """Of each page; look-ups of keys among whole numbers do without.

        Raises
        ------
        FormatError, LimitError
            The counts of nulls are damaged.
        """
        (nulls,) = self.nulls or self.lookup.read(["null_count"])
        null_counts = numbers_of(filled(nulls, 0)).astype(np.int64)
        return column_stats(self.lows, self.highs, null_counts, self.stops - self.starts)

    def find(self, condition: Condition, segment: Segment) -> FoundRows | None:
        """The rows for which a condition is true; None if reading the column costs less.

        Raises
        ------
        FormatError, LimitError
            The pages are damaged.
        """
        keys = constants(condition)
        if keys is not None and self._is_often(len(keys)):
            whole = sorted_values(self.data, segment.data_type)
            if whole is not None:
                return FoundRows(segment.places.of_ids(whole.ids_of(keys)), is_exact=True)
        if keys is not None and self.edges is not None:
            pages = self.edges.pages_of(keys)
        else:
            pages = condition.possible_in(self.stats, self.stops - self.starts)
        if pages.size > max(_FEW_PAGES, self.starts.size // _WORTHWHILE):
            return None
        batches = _batches(self.starts[pages], self.stops[pages], self.data.num_rows)
        found = [self._ids(condition, keys, rows) for rows in batches]
        ids = found[0] if len(found) == 1 else np.concatenate([np.empty(0, np.uint64), *found])
        return FoundRows(segment.places.of_ids(ids), is_exact=True)

    def load(self, segment: Segment) -> None:
        """Decode all values now, if they fit, and answer by them from now on.

        Raises
        ------
        FormatError, LimitError
            The pages are damaged.
        """
        if sorted_values(self.data, segment.data_type) is not None:
            self.looked_up[0] = _FEW_KEYS + 1

    def _is_often(self, num_keys: int) -> bool:
        """Whether decoding all values pays, as many keys were looked up already."""
        self.looked_up[0] += num_keys
        return self.looked_up[0] > _FEW_KEYS

    def _ids(self, condition: Condition, keys: NDArray[Any] | None, rows: RowSelection) -> UInt64:
        """Ids of the rows of some pages that a condition is true for, which ``keys`` may list."""
        values, ids = self.data.read(["values", "ids"], rows)
        if ids.null_count or ids.type != pa.uint64():
            raise FormatError("row ids of an index are null or no numbers").within(self.data.source.path)
        numbers: UInt64 = numbers_of(ids)
        if keys is None or values.null_count:
            return numbers[condition.true_for(values)]
        return numbers[are_listed(whole_numbers(values), keys)]


def _page_rows(lookup: IndexFile, data: IndexFile, pages: pa.Array) -> tuple[Int64, Int64]:
    """First and last rows of the pages, which together are all rows."""
    stated = lookup.metadata.get("batch_size", str(_DEFAULT_PAGE_ROWS))
    size = int(stated) if stated.isdecimal() and len(stated) < 10 else 0
    if size == 0 or pages.null_count:
        raise FormatError(f"pages of {stated!r} rows, or without a number").within(lookup.source.path)
    starts = numbers_of(pages).astype(np.int64) * size
    stops = np.minimum(starts + size, data.num_rows)
    expected = np.arange(0, data.num_rows, size)
    # Nearly always they are in order already.
    if not (np.array_equal(starts, expected) or np.array_equal(np.sort(starts), expected)):
        raise FormatError(
            f"the {starts.size} pages of {size} rows are not those of the {data.num_rows} rows in {DATA_FILE}"
        ).within(lookup.source.path)
    return starts, stops


def _batches(starts: Int64, stops: Int64, num_rows: int) -> list[RowSelection]:
    """Rows of pages, in ascending order, neighbours joined, at most about ``_BATCH_ROWS`` together."""
    if starts.size < 2:
        return [RowSelection.range(num_rows, int(starts[0]), int(stops[0]))] if starts.size else []
    order = np.argsort(starts, kind="stable")
    starts, stops = starts[order], stops[order]
    breaks = np.flatnonzero(starts[1:] != stops[:-1]) + 1
    first = np.append(0, breaks)
    last = np.append(breaks - 1, starts.size - 1)
    return list(RowSelection(num_rows, starts[first], stops[last]).split(_BATCH_ROWS))
