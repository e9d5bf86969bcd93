"""Key columns as 64-bit words: the value itself where it has at most 64 bits, otherwise a hash.

Rows with a null in a key column match no row, as in SQL. Floats match by their bits, so that NaN matches NaN and the
zeros differ, as in pylance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.arrow.columns import ArrowArray, as_array
from lancecy.encodings.arrow.conversions import array_of, numbers_of
from lancecy.encodings.blocks.memory import uninitialized
from lancecy.errors import UnsupportedError
from lancecy.records import dataclass

__all__ = ["Int64", "KeyIndex", "Keys", "UInt64", "check_key_type", "key_hashes", "keys_of", "same_keys"]

Bools: TypeAlias = NDArray[np.bool_]
Int64: TypeAlias = NDArray[np.int64]
UInt64: TypeAlias = NDArray[np.uint64]

# Of a null in a struct that is a key; another value with the same word is told apart later.
_NULL_WORD = np.uint64(0x9E3779B97F4A7C15)
# A bitmap of this size stays in the processor's cache.
_LEAST_MARKS = 1 << 14
_FACTOR = np.uint64(0xC2B2AE3D27D4EB4F)


@dataclass(frozen=True, slots=True, eq=False)
class Keys:
    """The keys of some rows.

    Attributes
    ----------
    words : (n,) uint64
        Equal keys have equal words.
    valid : (n,) bool or None
        Rows without a null in a key column; None if all are.
    parts : tuple of pyarrow.Array
        The values, if different keys may have equal words; structs as their members.
    """

    words: UInt64
    valid: Bools | None
    parts: tuple[pa.Array, ...]

    def __len__(self) -> int:
        return self.words.size

    def taken(self, rows: Int64) -> Keys:
        """The keys of these rows.

        Parameters
        ----------
        rows : (m,) int64
        """
        parts = tuple(part.take(array_of(rows)) for part in self.parts)
        return Keys(self.words[rows], None if self.valid is None else self.valid[rows], parts)


def keys_of(columns: Sequence[ArrowArray]) -> Keys:
    """The keys in some columns.

    Parameters
    ----------
    columns : sequence of column

    Raises
    ------
    UnsupportedError
        A column has lists or maps.
    """
    arrays = [_plain(as_array(column)) for column in columns]
    valid: Bools | None = None
    for array in arrays:
        if array.null_count:
            there = numbers_of(array.is_valid())
            valid = there if valid is None else valid & there
    leaves = [leaf for array in arrays for leaf in _leaves(array)]
    if len(leaves) == 1 and _is_word(leaves[0].type):
        return Keys(_words(leaves[0]), valid, ())
    words = _FACTOR * np.ones(len(arrays[0]), np.uint64)
    for leaf in leaves:
        words = (words ^ (words >> np.uint64(29))) * _FACTOR + _with_nulls(leaf)
    return Keys(words, valid, tuple(leaves))


def same_keys(one: Keys, rows: Int64, other: Keys, others: Int64) -> Bools:
    """Whether pairs of rows with equal words have equal keys.

    Parameters
    ----------
    one, other : Keys
    rows, others : (n,) int64
        The rows of each pair.
    """
    same = np.ones(rows.size, np.bool_)
    for mine, theirs in zip(one.parts, other.parts, strict=True):
        left, right = mine.take(array_of(rows)), theirs.take(array_of(others))
        equal = _equal(left, right)
        if left.null_count or right.null_count:
            nulls = (_nulls(left), _nulls(right))
            equal = (equal & ~nulls[0] & ~nulls[1]) | (nulls[0] & nulls[1])
        same &= equal
    return same


class KeyIndex:
    """Finds rows by their keys.

    Parameters
    ----------
    keys : Keys
        Rows with a null are not found.

    Attributes
    ----------
    keys : Keys
    chain : (n,) int64
        The row before each that has the same word, -1 if none.
    repeats : bool
        Whether a word occurs twice.
    """

    def __init__(self, keys: Keys) -> None:
        self.keys = keys
        self._rows = None if keys.valid is None else np.flatnonzero(keys.valid)
        self._words = np.ascontiguousarray(keys.words if self._rows is None else keys.words[self._rows])
        size = max(2, 1 << (2 * self._words.size - 1).bit_length())
        self._slots = uninitialized(size, np.int64)
        self._marks = uninitialized(max(size, _LEAST_MARKS), np.uint8)
        chain = np.empty(self._words.size, np.int64)
        self.repeats = kernels.index_words(self._words, self._slots, chain, self._marks) > 0
        self.chain = chain
        if self._rows is not None:
            self.chain = np.full(len(keys), -1, np.int64)
            self.chain[self._rows] = np.where(chain >= 0, self._rows[chain], -1)

    def find(self, words: UInt64) -> tuple[Int64, Int64]:
        """The words that are there, as positions in ``words``, and the last row that has each.

        Parameters
        ----------
        words : (m,) uint64
        """
        words = np.ascontiguousarray(words)
        at, rows = uninitialized(words.size, np.int64), uninitialized(words.size, np.int64)
        count = kernels.find_words(words, self._words, self._slots, self._marks, at, rows)
        places, chosen = at[:count].copy(), rows[:count].copy()
        return places, chosen if self._rows is None else self._rows[chosen]


def key_hashes(columns: Sequence[ArrowArray]) -> UInt64:
    """The hashes of keys in a key filter: XXH64 of their bytes, as the reference implementation has it.

    Integers are eight bytes, whatever their type; the parts of a key of several columns each end in a zero.

    Parameters
    ----------
    columns : sequence of column
        Rows with a null are left out.
    """
    arrays = [_plain(as_array(column)) for column in columns]
    for array in arrays:
        if array.null_count:
            valid = keys_of(columns).valid
            if valid is not None:
                arrays = [each.filter(array_of(valid)) for each in arrays]
            break
    texts = [_text(leaf) for array in arrays for leaf in _leaves(array)]
    if len(texts) == 1:
        return _hashed(texts[0])
    end, zero = (pa.scalar(part, pa.large_binary()) for part in (b"", b"\0"))
    return _hashed(pc.binary_join_element_wise(*texts, end, zero))


def check_key_type(name: str, data_type: pa.DataType) -> None:
    """Refuse a key column whose values cannot be compared.

    Parameters
    ----------
    name : str
    data_type : pyarrow.DataType

    Raises
    ------
    UnsupportedError
    """
    try:
        keys_of([pa.nulls(0, data_type)])
    except (UnsupportedError, pa.ArrowException) as error:
        raise UnsupportedError(
            f"column {name!r} of type {data_type} cannot be a key: its values are lists; merge by other columns",
            feature=f"keys of type {data_type}",
        ) from error


# -- values -------------------------------------------------------------------------------------------


def _plain(array: pa.Array) -> pa.Array:
    """The array with storage types, without dictionaries and views."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if isinstance(array, pa.DictionaryArray):
        array = array.dictionary_decode()
    if pa.types.is_string_view(array.type):
        return array.cast(pa.large_string())
    if pa.types.is_binary_view(array.type):
        return array.cast(pa.large_binary())
    return array


def _leaves(array: pa.Array) -> list[pa.Array]:
    """The array, or the members of structs."""
    if not pa.types.is_struct(array.type):
        return [array]
    return [leaf for member in array.flatten() for leaf in _leaves(_plain(member))]


def _is_word(data_type: pa.DataType) -> bool:
    """Whether values are words themselves."""
    if pa.types.is_null(data_type):
        return True
    return (
        pa.types.is_primitive(data_type) and data_type.bit_width <= 64 and not pa.types.is_decimal(data_type)
    )


def _words(array: pa.Array) -> UInt64:
    """The values as words."""
    if pa.types.is_null(array.type) or not len(array):
        return np.zeros(len(array), np.uint64)
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    width = array.type.bit_width // 8
    found = np.frombuffer(array.buffers()[1], f"u{width}")[array.offset : array.offset + len(array)]
    if pa.types.is_floating(array.type):
        is_nan = np.isnan(found.view(f"f{width}"))
        if is_nan.any():
            found = np.where(is_nan, np.array(np.nan, f"f{width}").view(f"u{width}"), found)
    return found.astype(np.uint64, copy=False)


def _with_nulls(array: pa.Array) -> UInt64:
    """The words or hashes of values, nulls included."""
    words = _words(array) if _is_word(array.type) else _hashed(array)
    return np.where(_nulls(array), _NULL_WORD, words) if array.null_count else words


def _nulls(array: pa.Array) -> Bools:
    found: Bools = numbers_of(array.is_null())
    return found


def _equal(one: pa.Array, other: pa.Array) -> Bools:
    if _is_word(one.type):
        same: Bools = _words(one) == _words(other)
        return same
    if one.type != other.type:
        one, other = _widened(one), _widened(other)
    found: Bools = numbers_of(pc.equal(one, other).fill_null(False))
    return found


def _widened(array: pa.Array) -> pa.Array:
    if pa.types.is_string(array.type):
        return array.cast(pa.large_string())
    return array.cast(pa.large_binary()) if pa.types.is_binary(array.type) else array


def _hashed(array: pa.Array) -> UInt64:
    """XXH64 of the bytes of values of varying or large fixed size."""
    out = np.empty(len(array), np.uint64)
    kernels.hash_rows(*_spans(array), out)
    return out


def _spans(array: pa.Array) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """The offsets and the bytes of values."""
    kind, types = array.type, pa.types
    buffers, first, count = array.buffers(), array.offset, len(array)
    if types.is_fixed_size_binary(kind) or types.is_decimal(kind):
        width = kind.byte_width
        data = np.frombuffer(buffers[1] or b"", np.uint8)
        return np.arange(first, first + count + 1, dtype=np.int64) * width, data
    dtype: type[np.int32 | np.int64]
    if types.is_string(kind) or types.is_binary(kind):
        dtype = np.int32
    elif types.is_large_string(kind) or types.is_large_binary(kind):
        dtype = np.int64
    else:
        raise UnsupportedError(f"values of type {kind} are no keys", feature=f"keys of type {kind}")
    if not count:
        return np.zeros(1, dtype), np.empty(0, np.uint8)
    offsets = np.frombuffer(buffers[1], dtype)[first : first + count + 1]
    return offsets, np.frombuffer(buffers[2] or b"", np.uint8)


def _text(array: pa.Array) -> pa.Array:
    """The bytes of values, as the reference implementation hashes them; none of a null in a struct."""
    found = _bytes_of(array)
    # What is stored below a null differs from file to file.
    return pc.if_else(array.is_valid(), found, pa.scalar(b"", found.type)) if array.null_count else found


def _bytes_of(array: pa.Array) -> pa.Array:
    if not _is_word(array.type):
        if pa.types.is_fixed_size_binary(array.type) or pa.types.is_decimal(array.type):
            return _binary(*_spans(array))
        return _widened(array).cast(pa.large_binary())
    words = _words(array)
    if pa.types.is_signed_integer(array.type):
        # Narrow negative numbers keep their sign.
        words = words.astype(f"i{array.type.bit_width // 8}").astype(np.int64).view(np.uint64)
    return _binary(np.arange(words.size + 1, dtype=np.int64) * 8, np.ascontiguousarray(words).view(np.uint8))


def _binary(offsets: NDArray[np.int64] | NDArray[np.int32], data: NDArray[np.uint8]) -> pa.Array:
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets.astype(np.int64))), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), offsets.size - 1, buffers)
