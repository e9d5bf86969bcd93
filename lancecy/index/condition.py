"""A condition on one column, evaluated on values that an index stores."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.encodings.arrow.columns import as_array
from lancecy.encodings.arrow.conversions import filled, numbers_of
from lancecy.expr import Bound, falsify, mask
from lancecy.records import dataclass
from lancecy.stats import ColumnStats, StatsTable

__all__ = ["Condition"]

Bool: TypeAlias = NDArray[np.bool_]
Int64: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """A condition that reads one column and cannot fail; compared by identity, as a catalog makes each once.

    Attributes
    ----------
    bound : Bound
    path : tuple of str
        The column.
    """

    bound: Bound
    path: tuple[str, ...]

    def true_for(self, values: pa.Array) -> Bool:
        """The values for which it is true: (n,) bool; false for those for which it is null.

        Parameters
        ----------
        values : (n,) array of the column's type
        """
        return numbers_of(filled(self._evaluated(values), False))

    def _evaluated(self, values: pa.Array) -> pa.BooleanArray:
        column = values
        for name in reversed(self.path[1:]):
            column = pa.StructArray.from_arrays([column], [name])
        return as_array(mask(self.bound, pa.table([column], [self.path[0]])))

    def possible_in(self, stats: ColumnStats, row_counts: Int64) -> Int64:
        """Numbers of the units that may have a row for which it is true: (n,) int64.

        Parameters
        ----------
        stats : ColumnStats
            Of the column in each unit.
        row_counts : (num_units,) int64
        """
        found: Int64 = np.flatnonzero(~falsify(self.bound, StatsTable(row_counts, {self.path: stats})))
        return found
