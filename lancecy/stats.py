"""Statistics per unit (page, fragment): arrays of bounds, or "unknown".

A :class:`StatsTable` has the number of rows of each unit and, per column path,
bounds of every non-null value of the unit. It may only be used to prove that no row
of a unit matches; an unknown bound proves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from lancecy.records import dataclass

__all__ = ["ByteBounds", "ColumnStats", "NumericBounds", "StatsTable"]


@dataclass(frozen=True, slots=True, eq=False)
class NumericBounds:
    """Bounds of a numeric, boolean, date or decimal column.

    Attributes
    ----------
    lows, highs : (num_units,) int64, uint64 or float64 (object arrays of int for decimals)
        ``low <= value <= high`` for every non-null, non-NaN value, in the column's own unit
        (days for date32, unscaled integer for decimals, 0/1 for booleans).
    known : (num_units,) bool
        Whether the bounds may be used.
    """

    lows: NDArray[np.generic]
    highs: NDArray[np.generic]
    known: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class ByteBounds:
    """Bounds of a string or binary column, compared byte by byte.

    Attributes
    ----------
    low_offsets, high_offsets : (num_units + 1,) int64
    low_bytes, high_bytes : (nbytes,) uint8
    has_low, has_high : (num_units,) bool
        False if there is no bound.
    """

    low_offsets: NDArray[np.int64]
    low_bytes: NDArray[np.uint8]
    has_low: NDArray[np.bool_]
    high_offsets: NDArray[np.int64]
    high_bytes: NDArray[np.uint8]
    has_high: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class ColumnStats:
    """Statistics of one column in every unit.

    Attributes
    ----------
    bounds : NumericBounds, ByteBounds or None
        None if unknown.
    no_nulls : (num_units,) bool
        True if proved that no row is null.
    all_null : (num_units,) bool
        True if proved that every row is null.
    may_have_nan : bool
        Floating point: NaN may occur in spite of the bounds.
    """

    bounds: NumericBounds | ByteBounds | None
    no_nulls: NDArray[np.bool_]
    all_null: NDArray[np.bool_]
    may_have_nan: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class StatsTable:
    """Statistics of all units of one file or fragment.

    Attributes
    ----------
    row_counts : (num_units,) int64
    columns : mapping of column path, such as ``("a", "b")``, to ColumnStats
        Absent columns are unknown.
    """

    row_counts: NDArray[np.int64]
    columns: Mapping[tuple[str, ...], ColumnStats] = field(default_factory=dict)

    @property
    def num_units(self) -> int:
        """Number of pages or fragments."""
        return int(self.row_counts.size)
