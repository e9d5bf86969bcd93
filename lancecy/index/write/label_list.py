"""LABEL_LIST: every distinct element of lists with the set of rows whose list has it, and the rows of null lists.

Source: sheet of indices, section B5.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lancecy.index.write.base import IndexBuilder, IndexOutput
from lancecy.index.write.bitmap import write_bitmaps
from lancecy.index.write.row_sets import GrowingSet
from lancecy.index.write.sorted_pairs import SortedPairs

__all__ = ["LabelListBuilder"]

UInt64: TypeAlias = NDArray[np.uint64]


class LabelListBuilder(IndexBuilder):
    """Builder of a LABEL_LIST index.

    Parameters
    ----------
    kind : pyarrow.DataType
        Type of the lists.
    """

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind.value_type
        self._pairs = SortedPairs(self._kind)
        self._nulls = GrowingSet()

    def add(self, values: pa.Array, ids: UInt64) -> None:
        """See ``IndexBuilder.add``."""
        if values.null_count:
            self._nulls.add(ids[values.is_null().to_numpy(zero_copy_only=False)])
        rows = pc.list_parent_indices(values).to_numpy()
        self._pairs.add(values.flatten(), ids[rows])

    def write(self, output: IndexOutput) -> None:
        """See ``IndexBuilder.write``."""
        write_bitmaps(output, self._kind, self._pairs, self._nulls.encode())

    def close(self) -> None:
        """See ``IndexBuilder.close``."""
        self._pairs.close()
