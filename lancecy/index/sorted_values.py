"""Look-ups of whole numbers in a BTREE: by the edges of its pages, or in all of its values.

The keys of a large batch lie in many pages, and each page would be decoded for one of its rows. So the first large batch
decodes all values and row ids, the session's cache keeps them if they take at most half of it, and later batches
search them.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.encodings.arrow.conversions import array_of, numbers_of
from lancecy.encodings.model.chunks import places_of
from lancecy.expr.kinds import family
from lancecy.expr.nodes import Call, Column, Expr, Literal, walk
from lancecy.index.condition import Condition
from lancecy.index.files import IndexFile
from lancecy.kernels.sorting import sorted_unique
from lancecy.records import dataclass

__all__ = ["PageEdges", "SortedValues", "are_listed", "constants", "sorted_values", "whole_numbers"]

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
        return self.ids[places_of(starts, counts)]


@dataclass(frozen=True, slots=True, eq=False)
class PageEdges:
    """Least and largest values of pages that are in order.

    Attributes
    ----------
    lows, highs : (n,) integers, not descending
    first : int
        Number of the first of these pages; those before it have only nulls.
    """

    lows: NDArray[Any]
    highs: NDArray[Any]
    first: int

    @classmethod
    def of(cls, lows: pa.Array, highs: pa.Array) -> PageEdges | None:
        """Make from what an index states; None if pages are not in order, or of other values than whole numbers.

        Parameters
        ----------
        lows, highs : (num_pages,) arrays of the column's type
            Null: a page that begins with nulls; a page of nulls.
        """
        if family(lows.type) not in _WHOLE_NUMBERS:
            return None
        first = highs.null_count
        highs, lows = highs.slice(first), lows.slice(first)
        if highs.null_count or lows.slice(1).null_count:
            return None
        most, least = whole_numbers(highs), whole_numbers(lows)
        if lows.null_count:
            least = np.append(np.iinfo(least.dtype).min, least[1:]).astype(least.dtype)
        if bool((least > most).any()) or bool((least[1:] < most[:-1]).any()):
            return None
        return cls(least, most, first)

    def pages_of(self, keys: NDArray[Any]) -> Int64:
        """Numbers of the pages that may have one of some values: (n,) int64, ascending.

        Parameters
        ----------
        keys : (num_keys,) integers, ascending, without duplicates
        """
        starts = np.searchsorted(self.highs, keys, side="left") + self.first
        stops = np.searchsorted(self.lows, keys, side="right") + self.first
        if keys.size == 1:
            return np.arange(int(starts[0]), int(stops[0]))
        return sorted_unique(places_of(starts, np.maximum(stops - starts, 0)))


def whole_numbers(values: pa.Array) -> NDArray[Any]:
    """Values as the integers that they are stored as: (n,) integers; anything where a value is null.

    Parameters
    ----------
    values : (n,) array
        Of whole numbers, dates or times.
    """
    kind = _storage(values.type)
    width = kind.bit_width // 8
    if not len(values):
        return np.empty(0, kind.to_pandas_dtype())
    return np.frombuffer(values.buffers()[1], kind.to_pandas_dtype(), len(values), values.offset * width)


def are_listed(values: NDArray[Any], keys: NDArray[Any]) -> NDArray[np.bool_]:
    """Which of some values are among the keys: (n,) bool.

    Parameters
    ----------
    values : (n,) integers
    keys : (num_keys,) integers, ascending
    """
    if keys.size < 2:
        return values == keys[0] if keys.size else np.zeros(values.size, np.bool_)
    found: NDArray[np.bool_] = keys.take(np.searchsorted(keys, values), mode="clip") == values
    return found


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
    return keys[condition.true_for(array_of(keys).view(kind))]


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
    numbers = whole_numbers(present)
    if bool((numbers[1:] < numbers[:-1]).any()):
        return None
    return SortedValues(numbers, numbers_of(ids)[values.null_count :])


def _storage(data_type: pa.DataType) -> pa.DataType:
    """The integers that a type is stored as."""
    if pa.types.is_integer(data_type):
        return data_type
    return pa.int32() if data_type.bit_width == 32 else pa.int64()


def _dtype(data_type: pa.DataType | None) -> Any:
    return _storage(pa.int64() if data_type is None else data_type).to_pandas_dtype()
