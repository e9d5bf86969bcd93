"""Slots of a layer of a sparse page of 2.3: which are selected and which are null.

Both are stored as ranges and positions, so that only the mask of selected slots takes memory per slot. Source: file
sheet 2.1, section 3.12.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lancecy.encodings.codecs.arithmetic import as_integers
from lancecy.encodings.codecs.values import decode_block
from lancecy.encodings.model.chunks import places_of, starts_of
from lancecy.encodings.model.spec import Spec
from lancecy.limits import Limits
from lancecy.rows import RowSelection
from lancecy.store.base import Memory

__all__ = ["Slots", "Validity", "integers"]

Int64 = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Slots:
    """Selected slots of one layer.

    Attributes
    ----------
    starts, stops : (num_ranges,) int64
        Half-open ranges, ascending and disjoint, none empty.
    """

    starts: Int64
    stops: Int64

    @classmethod
    def joined(cls, starts: Int64, stops: Int64) -> Slots:
        """The same slots in the fewest ranges; empty ranges are allowed in the arguments.

        Examples
        --------
        >>> Slots.joined(np.array([0, 2, 2, 5]), np.array([2, 2, 3, 6])).stops.tolist()
        [3, 6]
        """
        keep = np.flatnonzero(stops > starts)
        starts, stops = starts[keep], stops[keep]
        apart = starts[1:] != stops[:-1]
        is_first = np.concatenate((np.ones(min(1, starts.size), np.bool_), apart))
        is_last = np.concatenate((apart, np.ones(min(1, starts.size), np.bool_)))
        return cls(starts[is_first], stops[is_last])

    @property
    def count(self) -> int:
        """Number of slots."""
        return int((self.stops - self.starts).sum())

    def find(self, positions: Int64) -> tuple[Int64, Int64]:
        """Which of the ascending ``positions`` are selected, and the place of each among the selected slots."""
        first, last = np.searchsorted(positions, self.starts), np.searchsorted(positions, self.stops)
        which = places_of(first, last - first)
        shifts = self.starts - starts_of(self.stops - self.starts)[:-1]
        return which, positions[which] - np.repeat(shifts, last - first)

    def all_places(self) -> Int64:
        """(count,) int64: every slot."""
        return places_of(self.starts, self.stops - self.starts)

    def selection(self, num_slots: int) -> RowSelection:
        """The same as a selection of ``num_slots`` rows."""
        return RowSelection(num_slots, self.starts, self.stops)


@dataclass(frozen=True, slots=True, eq=False)
class Validity:
    """Which slots of a layer are null.

    Attributes
    ----------
    num_slots : int
    are_valid : bool
        Whether ``positions`` are the valid slots or the null ones.
    positions : (num_positions,) int64, ascending
    """

    num_slots: int
    are_valid: bool
    positions: Int64

    @property
    def num_valid(self) -> int:
        """Slots that are not null."""
        return self.positions.size if self.are_valid else self.num_slots - self.positions.size

    def valid_before(self, slots: Int64) -> Int64:
        """How many valid slots come before each of these."""
        found = np.searchsorted(self.positions, slots)
        return found if self.are_valid else slots - found

    def mask(self, slots: Slots, limits: Limits) -> Mask | None:
        """(slots.count,) bool: whether each is valid; None if all are.

        Raises
        ------
        LimitError
            There are more slots than ``limits.page_bytes``.
        """
        which, places = slots.find(self.positions)
        count = slots.count
        if which.size == (count if self.are_valid else 0):
            return None
        mask = np.full(limits.check("page_bytes", count, "slots of a page"), not self.are_valid)
        mask[places] = self.are_valid
        return mask


def integers(spec: Spec, memory: Memory, count: int, limits: Limits) -> Int64:
    """Whole numbers of a standalone buffer; one repeated value without bytes is 0.

    Raises
    ------
    FormatError, LimitError, UnsupportedError
        See ``values.decode_block``; FormatError also if the values are not integers.
    """
    limits.check("page_bytes", count * 8, "bytes of the structure of a page")
    if count == 0:
        return np.empty(0, np.int64)
    return as_integers(decode_block(spec, memory, count, limits))
