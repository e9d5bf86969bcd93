"""LABEL_LIST: the rows of each distinct element of a list column, as a set of row ids.

The file is that of a BITMAP, with elements as keys. Rows with an empty list are in no set; those with a null list are in
a further buffer, which ``lance:label_list_nulls`` names and old releases did not write.

Source: sheet of indices, section B5.
"""

from __future__ import annotations

from functools import cached_property
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.errors import UnsupportedError
from lancecy.expr.nodes import Call
from lancecy.index.bitmap import KeyedSets, is_worthwhile
from lancecy.index.condition import Condition
from lancecy.index.found import FoundRows
from lancecy.index.segment import Segment
from lancecy.records import dataclass
from lancecy.store.base import Memory

__all__ = ["NULLS", "LabelList"]

Int64: TypeAlias = NDArray[np.int64]

NULLS = "lance:label_list_nulls"


@dataclass(frozen=True, eq=False)
class LabelList:
    """An opened LABEL_LIST segment.

    Attributes
    ----------
    sets : KeyedSets
    lists : pyarrow.Array
        For each key a list with this one element.
    """

    sets: KeyedSets
    lists: pa.Array

    @classmethod
    def open(cls, segment: Segment) -> LabelList:
        """See :meth:`KeyedSets.open`."""
        data_type = segment.data_type
        if not (pa.types.is_list(data_type) or pa.types.is_large_list(data_type)):
            raise UnsupportedError(f"a LABEL_LIST index on {data_type}", feature="LABEL_LIST of such lists")
        sets = KeyedSets.open(segment, data_type.value_type)
        return cls(sets, _as_lists(sets.keys, data_type))

    @cached_property
    def nulls(self) -> Memory | None:
        """(nbytes,) uint8: set of the rows whose list is null; None if unknown.

        Raises
        ------
        FormatError, LimitError
            The file is damaged.
        """
        # Only negations need it, and it may take a request.
        found = self.sets.file.buffer(NULLS)
        return None if found is None else found.copy()

    @property
    def nbytes(self) -> int:
        """Bytes in memory, without those of null lists."""
        return self.sets.nbytes + int(self.lists.nbytes)

    def find(self, condition: Condition, segment: Segment) -> FoundRows | None:
        """The rows for which a condition on elements, or its negation, is true.

        Returns
        -------
        FoundRows or None
            None if reading the column costs less, or if null lists are unknown and the condition is negated.

        Raises
        ------
        FormatError, LimitError
            The sets are damaged.
        """
        whole = condition.bound.expr
        is_negated = isinstance(whole, Call) and whole.op == "not"
        if is_negated and self.nulls is None:
            return None
        tested = whole.args[0] if isinstance(whole, Call) and is_negated else whole
        inner = Condition(condition.bound.restricted(tested), condition.path)
        wanted = np.flatnonzero(inner.true_for(self.lists))
        if not is_worthwhile(wanted.size, segment):
            return None
        sets = list(self.sets.sets(wanted))
        if is_negated and self.nulls is not None:
            sets.append(self.nulls)
        found = segment.places.of_sets(sets, self.sets.file.limits)
        return FoundRows(found, is_exact=True, are_left_out=is_negated)


def _as_lists(keys: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Each value as a list of one element."""
    is_large = pa.types.is_large_list(data_type)
    made, width = (pa.LargeListArray, pa.int64()) if is_large else (pa.ListArray, pa.int32())
    return made.from_arrays(pa.array(range(len(keys) + 1), width), keys, type=data_type)
