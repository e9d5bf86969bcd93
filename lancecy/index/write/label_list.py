"""LABEL_LIST: every distinct element of lists with the set of rows whose list has it, and the rows of null lists.

Source: sheet of indices, section B5.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lancecy.encodings.arrow.conversions import numbers_of
from lancecy.errors import UnsupportedError
from lancecy.index.bitmap import SETS_FILE
from lancecy.index.label_list import NULLS
from lancecy.index.write.base import IndexOutput, IndexPart
from lancecy.index.write.bitmap import BitmapBuilder, write_bitmaps
from lancecy.index.write.parts import ids_in
from lancecy.index.write.row_sets import GrowingSet

__all__ = ["LabelListBuilder"]

UInt64: TypeAlias = NDArray[np.uint64]


class LabelListBuilder(BitmapBuilder):
    """Builder of a LABEL_LIST index.

    Parameters
    ----------
    kind : pyarrow.DataType
        Type of the lists.
    """

    def __init__(self, kind: pa.DataType) -> None:
        super().__init__(kind.value_type)
        self._nulls = GrowingSet()

    def add(self, values: pa.Array, ids: UInt64) -> None:
        """See ``IndexBuilder.add``."""
        if values.null_count:
            self._nulls.add(ids[numbers_of(values.is_null())])
        rows = numbers_of(pc.list_parent_indices(values))
        super().add(values.flatten(), ids[rows])

    def add_part(self, part: IndexPart) -> None:
        """See ``IndexBuilder.add_part``.

        Raises
        ------
        UnsupportedError
            It is of an old release, which did not note null lists.
        """
        nulls = part.file(SETS_FILE).buffer(NULLS)
        if nulls is None:
            raise UnsupportedError(
                "an index of an old release does not say which lists are null: create it again",
                feature="LABEL_LIST without null lists",
            )
        ids = ids_in(nulls)
        self._nulls.add(ids[part.holds(ids)])
        super().add_part(part)

    def write(self, output: IndexOutput) -> None:
        """See ``IndexBuilder.write``."""
        write_bitmaps(output, self._kind, self._pairs, self._nulls.encode())
