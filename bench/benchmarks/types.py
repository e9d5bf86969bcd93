"""One column of each Arrow type, for the comparison of types.

Values come from a generator that is seeded with the name of the column, so that every engine on every machine sees
the same ones. Columns named ``... null`` have 10 % nulls at every level.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pyarrow as pa

__all__ = ["COLUMNS", "column"]

Random: TypeAlias = np.random.Generator
Maker: TypeAlias = Callable[[Random, int], pa.Array]

_NULLS = 0.1
_WORDS = pa.array([f"a word of number {n}" for n in range(200)])


def column(name: str, rows: int) -> pa.Array:
    """The column of this name, with ``rows`` values."""
    return COLUMNS[name](np.random.default_rng(zlib.crc32(name.encode())), rows)


def _integers(kind: pa.DataType, low: int, high: int) -> Maker:
    def make(random: Random, rows: int) -> pa.Array:
        return pa.array(random.integers(low, high, rows, endpoint=True).astype(kind.to_pandas_dtype()), kind)

    return make


def _wide(kind: pa.DataType) -> Maker:
    limits = np.iinfo(kind.to_pandas_dtype())

    def make(random: Random, rows: int) -> pa.Array:
        return pa.array(random.integers(limits.min, limits.max, rows, limits.dtype, endpoint=True), kind)

    return make


def _floats(kind: pa.DataType) -> Maker:
    return lambda random, rows: pa.array(random.standard_normal(rows).astype(kind.to_pandas_dtype()), kind)


def _temporal(kind: pa.DataType, storage: pa.DataType, low: int, high: int) -> Maker:
    return lambda random, rows: _integers(storage, low, high)(random, rows).cast(kind)


def _decimals(kind: pa.DataType) -> Maker:
    def make(random: Random, rows: int) -> pa.Array:
        low = random.integers(-(10**12), 10**12, rows)
        words = np.repeat((low >> 63)[:, None], kind.bit_width // 64, axis=1)
        words[:, 0] = low
        return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(words)])

    return make


def _flags(random: Random, rows: int) -> pa.Array:
    return pa.array(random.random(rows) < 0.5)


def _binary(width: int, kind: pa.DataType) -> Maker:
    def make(random: Random, rows: int) -> pa.Array:
        values = pa.py_buffer(random.bytes(width * rows))
        return pa.Array.from_buffers(pa.binary(width), rows, [None, values]).cast(kind)

    return make


def _texts(random: Random, rows: int) -> pa.Array:
    syllables = np.array([f"w{n:05d}" for n in range(5000)])
    first, second = (syllables[random.integers(0, 5000, rows)] for _ in range(2))
    made = pa.array(np.char.add(first, second))
    # Arrow cuts very many texts into chunks.
    return made.combine_chunks() if isinstance(made, pa.ChunkedArray) else made


def _words(random: Random, rows: int) -> pa.Array:
    return _WORDS.take(pa.array(random.integers(0, len(_WORDS), rows)))


def _as(make: Maker, kind: pa.DataType) -> Maker:
    return lambda random, rows: make(random, rows).cast(kind)


def _coded(index: pa.DataType, words: pa.Array) -> Maker:
    def make(random: Random, rows: int) -> pa.Array:
        codes = random.integers(0, len(words), rows).astype(index.to_pandas_dtype())
        return pa.DictionaryArray.from_arrays(codes, words)

    return make


def _lists(make: Maker, most: int = 6, kind: type[pa.Array] = pa.ListArray) -> Maker:
    """Lists of 0 to ``most`` items."""

    def lists(random: Random, rows: int) -> pa.Array:
        width = np.int64 if kind is pa.LargeListArray else np.int32
        offsets = np.concatenate([[0], np.cumsum(random.integers(0, most, rows, endpoint=True))]).astype(
            width
        )
        return kind.from_arrays(pa.array(offsets), make(random, int(offsets[-1])))

    return lists


def _vectors(make: Maker, size: int) -> Maker:
    return lambda random, rows: pa.FixedSizeListArray.from_arrays(make(random, rows * size), size)


def _structs(**members: Maker) -> Maker:
    def structs(random: Random, rows: int) -> pa.Array:
        return pa.StructArray.from_arrays([make(random, rows) for make in members.values()], list(members))

    return structs


def _maps(keys: Maker, values: Maker) -> Maker:
    def maps(random: Random, rows: int) -> pa.Array:
        offsets = np.concatenate([[0], np.cumsum(random.integers(0, 4, rows))]).astype(np.int32)
        total = int(offsets[-1])
        return pa.MapArray.from_arrays(pa.array(offsets), keys(random, total), values(random, total))

    return maps


def _nullable(make: Maker) -> Maker:
    """A tenth of the values are null."""

    def nullable(random: Random, rows: int) -> pa.Array:
        array = make(random, rows)
        valid = random.random(rows) >= _NULLS
        bits = pa.py_buffer(np.packbits(valid, bitorder="little"))
        kind = array.type
        if pa.types.is_dictionary(kind):
            return pa.DictionaryArray.from_arrays(_nullable_indices(array, bits), array.dictionary)
        children = [array.values] if hasattr(array, "values") else []
        if pa.types.is_struct(kind):
            children = [array.field(number) for number in range(kind.num_fields)]
        buffers = [bits, *array.buffers()[1 : kind.num_buffers]]
        return pa.Array.from_buffers(kind, rows, buffers, children=children)

    return nullable


def _nullable_indices(array: pa.DictionaryArray, bits: pa.Buffer) -> pa.Array:
    """The codes of a dictionary array with this validity."""
    indices = array.indices
    return pa.Array.from_buffers(indices.type, len(indices), [bits, indices.buffers()[1]])


_INT = _wide(pa.int64())
_SMALL = _integers(pa.int32(), 0, 999)
_DOUBLE = _floats(pa.float64())
_FOUR = {"a": _SMALL, "b": _texts, "c": _DOUBLE, "d": _words}

COLUMNS: dict[str, Maker] = {
    "int8": _wide(pa.int8()),
    "int16": _wide(pa.int16()),
    "int32": _wide(pa.int32()),
    "int64": _INT,
    "uint8": _wide(pa.uint8()),
    "uint16": _wide(pa.uint16()),
    "uint32": _wide(pa.uint32()),
    "uint64": _wide(pa.uint64()),
    "int64 small": _integers(pa.int64(), 0, 999_999),
    "int32 few": _SMALL,
    "float16": _floats(pa.float16()),
    "float32": _floats(pa.float32()),
    "float64": _DOUBLE,
    "bool": _flags,
    "decimal128": _decimals(pa.decimal128(18, 2)),
    "decimal256": _decimals(pa.decimal256(50, 2)),
    "date32": _temporal(pa.date32(), pa.int32(), 0, 20_000),
    "date64": lambda random, rows: _temporal(pa.date32(), pa.int32(), 0, 20_000)(random, rows).cast(
        pa.date64()
    ),
    "time32": _temporal(pa.time32("ms"), pa.int32(), 0, 86_399_999),
    "time64": _temporal(pa.time64("us"), pa.int64(), 0, 86_399_999_999),
    "timestamp": _temporal(pa.timestamp("us"), pa.int64(), 0, 2**50),
    "timestamp tz": _temporal(pa.timestamp("ns", "UTC"), pa.int64(), 0, 2**60),
    "duration": _temporal(pa.duration("ms"), pa.int64(), 0, 10**9),
    "fixed binary": _binary(16, pa.binary(16)),
    "string": _texts,
    "string few": _words,
    "large string": _as(_texts, pa.large_string()),
    "binary": _binary(20, pa.binary()),
    "large binary": _binary(20, pa.large_binary()),
    "dictionary": _coded(pa.int16(), _WORDS[:100]),
    "dictionary of ints": _coded(pa.int32(), pa.array(range(0, 500_000, 1000))),
    "list": _lists(_INT),
    "large list": _lists(_floats(pa.float32()), kind=pa.LargeListArray),
    "list of strings": _lists(_texts, 3),
    "list of lists": _lists(_lists(_SMALL, 3), 3),
    "list of structs": _lists(_structs(a=_SMALL, b=_texts, c=_DOUBLE), 3),
    "struct": _structs(**_FOUR),
    "struct of structs": _structs(a=_structs(x=_SMALL, y=_DOUBLE), b=_structs(x=_texts)),
    "struct of lists": _structs(a=_lists(_SMALL, 3), b=_DOUBLE),
    "fixed list": _vectors(_floats(pa.float32()), 4),
    "vector": _vectors(_floats(pa.float32()), 128),
    "map": _maps(_words, _INT),
    "int64 null": _nullable(_INT),
    "int32 few null": _nullable(_SMALL),
    "float64 null": _nullable(_DOUBLE),
    "bool null": _nullable(_flags),
    "timestamp null": _nullable(_temporal(pa.timestamp("us"), pa.int64(), 0, 2**50)),
    "string null": _nullable(_texts),
    "string few null": _nullable(_words),
    "dictionary null": _nullable(_coded(pa.int16(), _WORDS[:100])),
    "list null": _nullable(_lists(_nullable(_INT))),
    "list of strings null": _nullable(_lists(_nullable(_texts), 3)),
    "struct null": _nullable(_structs(**{name: _nullable(make) for name, make in _FOUR.items()})),
    "fixed list null": _nullable(_vectors(_floats(pa.float32()), 4)),
}
"""Makers of the columns, by name; a member of a struct is a maker too."""
