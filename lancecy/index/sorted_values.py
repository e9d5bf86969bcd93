"""Values of a BTREE in memory, for look-ups of many keys.

The keys of a batch lie in many pages, and each page would be decoded for one of its rows. So the first large batch
decodes all values and row ids, the session's cache keeps them if they take at most half of it, and later batches
search them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.expr.kinds import family
from lancecy.expr.nodes import Call, Column, Expr, Literal, walk
from lancecy.index.condition import Condition
from lancecy.index.files import IndexFile

__all__ = ["SortedValues", "constants", "sorted_values"]

Int64: TypeAlias = NDArray[np.int64]
UInt64: TypeAlias = NDArray[np.uint64]

_WHOLE_NUMBERS = ("integer", "date", "timestamp", "time", "interval")
_BYTES_PER_ID = 8
_PART_OF_CACHE = 2


@dataclass(frozen=True, slots=True, eq=False)
class SortedValues:
    """All values that are not null, ascending, and their row ids.

    Attributes
    ----------
    values : (n,) integers
    ids : (n,) uint64
    """

    values: NDArray[Any]
    ids: UInt64

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return int(self.values.nbytes + self.ids.nbytes) + 500

    def ids_of(self, keys: NDArray[Any]) -> UInt64:
        """Row ids of the rows with one of these values.

        Parameters
        ----------
        keys : (num_keys,) integers, ascending, without duplicates
        """
        starts = np.searchsorted(self.values, keys, side="left")
        counts = np.searchsorted(self.values, keys, side="right") - starts
        shifts = starts - (np.cumsum(counts) - counts)
        return self.ids[np.repeat(shifts, counts) + np.arange(int(counts.sum()))]


def constants(condition: Condition) -> NDArray[Any] | None:
    """The values of a column for which a condition is true, ascending; None for conditions that do not list them.

    Parameters
    ----------
    condition : Condition
    """
    expr = condition.bound.expr
    if not isinstance(expr, Call) or expr.op != "and":
        return _listed(expr)
    keys = next((keys for arg in expr.args if (keys := _listed(arg)) is not None), None)
    kind = next(node.type for node in walk(expr) if isinstance(node, Column))
    if keys is None or kind is None:
        return None
    return keys[condition.true_for(pa.array(keys).view(kind))]


def _listed(expr: Expr) -> NDArray[Any] | None:
    """The values one of which a column has where an equality or a list is true."""
    if not isinstance(expr, Call) or expr.op not in ("=", "in") or not isinstance(expr.args[0], Column):
        return None
    column, listed = expr.args
    if not isinstance(listed, Literal) or family(column.type) not in _WHOLE_NUMBERS:
        return None
    values = listed.value if isinstance(listed.value, tuple) else (listed.value,)
    numbers = [value for value in values if isinstance(value, int)]
    return np.unique(np.array(numbers, _dtype(column.type)))


def sorted_values(file: IndexFile, data_type: pa.DataType) -> SortedValues | None:
    """All values of an index; None if they take too much memory, or are not as expected.

    Parameters
    ----------
    file : IndexFile
        Has the columns ``values`` and ``ids``.
    data_type : pyarrow.DataType
        Of the values.

    Raises
    ------
    FormatError, LimitError
        The file is damaged.
    """
    if family(data_type) not in _WHOLE_NUMBERS:
        return None
    cache = file.session.cache
    needed = file.num_rows * (_BYTES_PER_ID + data_type.bit_width // 8)
    if needed > cache.limit // _PART_OF_CACHE:
        return None
    key = ("values of an index", file.source.key)
    found: SortedValues | None = cache.find(key)
    if found is None:
        found = _read(file)
        if found is not None:
            cache.keep(key, found, found.nbytes)
    return found


def _read(file: IndexFile) -> SortedValues | None:
    values, ids = file.read(["values", "ids"])
    present = values.slice(values.null_count)
    if ids.type != pa.uint64() or ids.null_count or present.null_count:
        return None
    numbers = present.view(_storage(values.type)).to_numpy()
    if bool((numbers[1:] < numbers[:-1]).any()):
        return None
    return SortedValues(numbers, ids.to_numpy()[values.null_count :])


def _storage(data_type: pa.DataType) -> pa.DataType:
    """The integers that a type is stored as."""
    if pa.types.is_integer(data_type):
        return data_type
    return pa.int32() if data_type.bit_width == 32 else pa.int64()


def _dtype(data_type: pa.DataType | None) -> Any:
    return _storage(pa.int64() if data_type is None else data_type).to_pandas_dtype()
