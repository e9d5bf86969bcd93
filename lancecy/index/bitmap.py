"""BITMAP: the rows of each distinct value, as a set of row ids.

``bitmap_page_lookup.lance`` has the columns ``keys`` and ``bitmaps``, one row per value; the rows with a null are those
of the key null.

Source: sheet of indices, section B4.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.errors import FormatError
from lancecy.index.condition import Condition
from lancecy.index.files import IndexFile
from lancecy.index.found import FoundRows
from lancecy.index.segment import Segment
from lancecy.records import dataclass
from lancecy.rows import RowSelection
from lancecy.store.base import Memory

__all__ = ["SETS_FILE", "Bitmap", "KeyedSets", "is_worthwhile"]

Int64: TypeAlias = NDArray[np.int64]

SETS_FILE = "bitmap_page_lookup.lance"

# Sets read at a time.
_BATCH_SETS = 1024
# Decoding a set costs as much as testing so many values of the column.
_ROWS_PER_SET = 4096
_FEW_SETS = 64


def is_worthwhile(count: int, segment: Segment) -> bool:
    """Whether decoding so many sets costs less than testing the column."""
    return count <= max(_FEW_SETS, segment.num_rows // _ROWS_PER_SET)


@dataclass(frozen=True, slots=True, eq=False)
class KeyedSets:
    """The file of keys and their sets.

    Attributes
    ----------
    file : IndexFile
    keys : pyarrow.Array
    column : str
        Column of the sets.
    """

    file: IndexFile
    keys: pa.Array
    column: str

    @classmethod
    def open(
        cls,
        segment: Segment,
        data_type: pa.DataType,
        name: str = SETS_FILE,
        columns: tuple[str, str] = ("keys", "bitmaps"),
    ) -> KeyedSets:
        """Open the file of a segment, whose keys have a type.

        Parameters
        ----------
        segment : Segment
        data_type : pyarrow.DataType
        name : str
            Of the file.
        columns : (str, str)
            Those of the keys and of the sets.

        Raises
        ------
        FormatError, LimitError, UnsupportedError
            It is damaged, or has keys of another type.
        DatasetNotFoundError
            It is missing.
        """
        file = segment.file(name)
        segment.check_type(file.type_of(columns[0]), name, data_type)
        return cls(file, file.read([columns[0]])[0], columns[1])

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return 1000 + int(self.keys.nbytes)

    def sets(self, positions: Int64) -> Iterator[Memory]:
        """Yield the serialized sets of some keys.

        Raises
        ------
        FormatError, LimitError
            The file is damaged.
        """
        for start in range(0, positions.size, _BATCH_SETS):
            rows = RowSelection.ascending(self.file.num_rows, positions[start : start + _BATCH_SETS])
            (column,) = self.file.read([self.column], rows)
            if column.null_count or not pa.types.is_binary(column.type):
                raise FormatError("sets of rows are null or no bytes").within(self.file.source.path)
            _, places, held = column.buffers()
            offsets = np.frombuffer(places, np.int32)[column.offset :][: len(column) + 1].tolist()
            data = np.frombuffer(held, np.uint8) if held is not None else np.empty(0, np.uint8)
            for first, last in pairwise(offsets):
                yield data[first:last]


@dataclass(frozen=True, slots=True, eq=False)
class Bitmap:
    """An opened BITMAP segment."""

    sets: KeyedSets

    @classmethod
    def open(cls, segment: Segment) -> Bitmap:
        """See :meth:`KeyedSets.open`."""
        return cls(KeyedSets.open(segment, segment.data_type))

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.sets.nbytes

    def find(self, condition: Condition, segment: Segment) -> FoundRows | None:
        """The rows for which a condition is true; None if reading the column costs less.

        Raises
        ------
        FormatError, LimitError
            The sets are damaged.
        """
        wanted = np.flatnonzero(condition.true_for(self.sets.keys))
        if not is_worthwhile(wanted.size, segment):
            return None
        found = segment.places.of_sets(self.sets.sets(wanted), self.sets.file.limits)
        return FoundRows(found, is_exact=True)
