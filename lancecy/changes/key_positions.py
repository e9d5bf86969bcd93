"""Positions of keys among other keys: the look-up of a join."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lancecy.encodings.arrow.columns import ArrowArray, as_array
from lancecy.encodings.arrow.conversions import array_of, numbers_of
from lancecy.errors import SchemaError, printable
from lancecy.interop.casts import CAST_ERRORS, exact, storage_type

__all__ = ["KeyPositions"]

Int64 = NDArray[np.int64]

_SPREAD = 8
"""Keys that take at most so many times their number are looked up in a table of positions."""
_LEAST_SPAN = 1 << 16


class KeyPositions:
    """Finds the positions of keys.

    Parameters
    ----------
    keys : pyarrow.ChunkedArray
        Keys that are found; the last of equal ones counts.
    left : pyarrow.Field
        Column of the keys that are looked up.
    name : str
        Column of ``keys``, for errors.

    Attributes
    ----------
    kind : pyarrow.DataType
        Type of the keys that are looked up.
    is_direct : bool
        Whether a look-up takes time by the number of keys looked up alone.

    Raises
    ------
    SchemaError
        Keys of these types cannot be compared.

    Examples
    --------
    >>> found = KeyPositions(pa.chunked_array([[5, 7, 5]]), pa.field("id", pa.int64()), "id")
    >>> found.find(pa.array([7, 5, 6])).tolist()
    [1, 2, -1]
    """

    def __init__(self, keys: pa.ChunkedArray, left: pa.Field, name: str) -> None:
        self.kind: pa.DataType = left.type
        self._compared = _plain(left.type)
        own = _as(keys, _plain(keys.type))
        try:
            own = pa.chunked_array([exact(chunk, self._compared) for chunk in own.chunks], self._compared)
        except CAST_ERRORS as error:
            raise SchemaError(
                f"the keys in {printable(name)!r} are {printable(keys.type)} and cannot be compared with column "
                f"{printable(left.name)!r}, which is {printable(left.type)}: cast them first ({printable(error)})",
                difference=f"{keys.type} is not {left.type}",
            ) from error
        self._keys = own
        self._null = _last_null(own)
        self._first, self._table = self._direct(own)
        self._reversed = None if self.is_direct else _reversed(own)
        if not self.is_direct:
            self._check(left)

    @property
    def is_direct(self) -> bool:
        return self._table is not None

    def find(self, keys: ArrowArray) -> Int64:
        """Positions of some keys, -1 for those that are missing.

        Parameters
        ----------
        keys : pyarrow.Array or ChunkedArray

        Returns
        -------
        (n,) int64
        """
        plain = _as(pa.chunked_array([keys]) if isinstance(keys, pa.Array) else keys, self._compared)
        if self._table is None:
            last = len(self._keys) - 1
            found = pc.index_in(plain, value_set=self._reversed, skip_nulls=False)
            from_last: Int64 = numbers_of(as_array(found.cast(pa.int64()).fill_null(last + 1)))
            return last - from_last
        values = _numbers(plain.fill_null(0) if plain.null_count else plain)
        offsets = values - self._first
        inside = offsets < self._table.size
        if bool(inside.all()):
            positions = self._table[offsets].astype(np.int64, copy=False)
        else:
            positions = np.where(inside, self._table[np.where(inside, offsets, 0)], -1).astype(np.int64)
        if plain.null_count:
            positions = np.where(numbers_of(as_array(plain.is_null())), self._null, positions)
        return np.asarray(positions, np.int64)

    def _direct(self, keys: pa.ChunkedArray) -> tuple[np.uint64, NDArray[np.int32] | None]:
        """The smallest key, and the position of every number from it on; None for keys that lie far apart."""
        count = len(keys)
        if not pa.types.is_integer(keys.type) or count >> 31 or count == keys.null_count:
            return np.uint64(0), None
        bounds = pc.min_max(keys)
        low, high = bounds["min"].as_py(), bounds["max"].as_py()
        if high - low >= max(_LEAST_SPAN, _SPREAD * count):
            return np.uint64(0), None
        is_valid = numbers_of(as_array(keys.is_valid())) if keys.null_count else None
        numbers = _numbers(keys.fill_null(low) if keys.null_count else keys)
        first = np.uint64(low & ((1 << 64) - 1))
        table = np.full(high - low + 1, -1, np.int32)
        positions = np.arange(count, dtype=np.int32)
        if is_valid is not None:
            numbers, positions = numbers[is_valid], positions[is_valid]
        # Of equal keys the last one is written last.
        table[numbers - first] = positions
        return first, table

    def _check(self, left: pa.Field) -> None:
        try:
            pc.index_in(pa.nulls(1, self._compared), value_set=self._reversed)
        except (pa.ArrowException, TypeError) as error:
            raise SchemaError(
                f"column {printable(left.name)!r} is {printable(left.type)}, which cannot be a key",
                difference=str(left.type),
            ) from error


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type that keys are compared as."""
    kind = storage_type(kind)
    return storage_type(kind.value_type) if pa.types.is_dictionary(kind) else kind


def _as(keys: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if isinstance(keys.type, pa.BaseExtensionType):
        keys = pa.chunked_array([chunk.storage for chunk in keys.chunks], keys.type.storage_type)
    return keys if keys.type.equals(kind) else keys.cast(kind)


def _numbers(keys: pa.ChunkedArray) -> NDArray[np.uint64]:
    """Integers without nulls as unsigned ones of 64 bits; negative ones wrap around."""
    wide = pa.uint64() if pa.types.is_unsigned_integer(keys.type) else pa.int64()
    found: NDArray[np.uint64] = numbers_of(as_array(keys.cast(wide))).view(np.uint64)
    return found


def _last_null(keys: pa.ChunkedArray) -> int:
    if not keys.null_count:
        return -1
    return int(np.flatnonzero(numbers_of(as_array(keys.is_null())))[-1])


def _reversed(keys: pa.ChunkedArray) -> pa.Array:
    order = array_of(np.arange(len(keys) - 1, -1, -1, dtype=np.int64))
    return keys.take(order).combine_chunks()
