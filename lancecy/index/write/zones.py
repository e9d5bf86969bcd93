"""Zones: runs of rows of one fragment, which ZONEMAP and BLOOMFILTER indices describe.

Source: sheet of indices, sections B6 and B7.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.encodings.arrow.columns import as_array
from lancecy.encodings.arrow.conversions import numbers_of
from lancecy.index.write.row_sets import GrowingSet
from lancecy.records import dataclass

__all__ = ["ZONE_ROWS", "Zone", "ZoneCutter"]

UInt64: TypeAlias = NDArray[np.uint64]

ZONE_ROWS = 8192
"""Live rows of a zone, if not said otherwise."""
_FRAGMENT_BITS = np.uint64(32)
_OFFSETS = (1 << 32) - 1


@dataclass(frozen=True, slots=True, eq=False)
class Zone:
    """A zone.

    Attributes
    ----------
    values : pyarrow.Array
        Those of its live rows.
    fragment, start, length : int
        Its rows, deleted ones between the live ones included.
    """

    values: pa.Array
    fragment: int
    start: int
    length: int


class ZoneCutter:
    """Cuts values in table order into zones, and notes the rows of nulls.

    Parameters
    ----------
    rows_per_zone : int

    Examples
    --------
    >>> cutter = ZoneCutter()
    >>> [zone.length for zone in cutter.add(pa.array(range(9000)), np.arange(9000, dtype=np.uint64))]
    [8192]
    >>> [(zone.start, zone.length) for zone in cutter.rest()]
    [(8192, 808)]
    """

    def __init__(self, rows_per_zone: int = ZONE_ROWS) -> None:
        self._most = rows_per_zone
        self._nulls = GrowingSet()
        self._values: list[pa.Array] = []
        self._ids: list[UInt64] = []
        self._fragment = -1
        self._count = 0

    @property
    def nulls(self) -> bytes:
        """The serialized set of the addresses of nulls."""
        return self._nulls.encode()

    def add_nulls(self, ids: UInt64) -> None:
        """Note the rows of further nulls.

        Parameters
        ----------
        ids : (n,) uint64
        """
        self._nulls.add(ids)

    def add(self, values: pa.Array, ids: UInt64) -> Iterator[Zone]:
        """Take values; yield the zones that are complete.

        Parameters
        ----------
        values : (n,) pyarrow.Array
        ids : (n,) uint64
            Row addresses.
        """
        if values.null_count:
            self._nulls.add(ids[numbers_of(values.is_null())])
        ends = np.empty(0, np.int64)
        if ids.size and ids[0] >> _FRAGMENT_BITS != ids[-1] >> _FRAGMENT_BITS:
            fragments = ids >> _FRAGMENT_BITS
            ends = np.flatnonzero(fragments[1:] != fragments[:-1]) + 1
        for start, stop in zip([0, *ends.tolist()], [*ends.tolist(), ids.size], strict=True):
            if start < stop:
                yield from self._of_fragment(values.slice(start, stop - start), ids[start:stop])

    def rest(self) -> Iterator[Zone]:
        """The last zone, which may have fewer rows."""
        if self._count:
            first, last = int(self._ids[0][0]), int(self._ids[-1][-1])
            values = self._values[0] if len(self._values) == 1 else as_array(pa.chunked_array(self._values))
            self._values, self._ids, self._count = [], [], 0
            yield Zone(values, first >> 32, first & _OFFSETS, last - first + 1)

    def _of_fragment(self, values: pa.Array, ids: UInt64) -> Iterator[Zone]:
        fragment = int(ids[0] >> _FRAGMENT_BITS)
        if fragment != self._fragment:
            yield from self.rest()
            self._fragment = fragment
        start = 0
        while start < ids.size:
            stop = min(ids.size, start + self._most - self._count)
            self._values.append(values.slice(start, stop - start))
            self._ids.append(ids[start:stop])
            self._count += stop - start
            start = stop
            if self._count == self._most:
                yield from self.rest()
