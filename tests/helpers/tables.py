"""Arrow tables made for tests: one column per type of file sheet 0.1, section 2.2, and random values for any type.

Everything is drawn from a NumPy generator with a given seed, so the same call gives the same table on every
machine. ``stored_form`` says what a 0.1 file keeps of a table: that format has no validity bitmap.

Kept to what Python 3.10 and pyarrow 10 offer, because ``golden/make_golden.py`` runs it inside old releases too.
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = [
    "DICTIONARY_KEYS",
    "DICTIONARY_VALUES",
    "all_types",
    "all_types_table",
    "dictionary_types",
    "nested_types",
    "random_array",
    "random_table",
    "simple_types",
    "stored_array",
    "stored_form",
    "vector_types",
]

DICTIONARY_KEYS = (
    pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()
)  # fmt: skip
DICTIONARY_VALUES = (
    pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.int32(), pa.int64(), pa.uint8()
)  # fmt: skip

_WORDS = (
    "",
    "a",
    "b",
    "abc",
    "Zürich",
    "日本語",
    "naïve café",
    "x" * 63,
    "y" * 64,
    "ä" * 33,
    "z" * 70,
    "\U0010ffff" * 20,
)
_FLOATS = (0.0, -0.0, 1.5, -2.25, float("inf"), float("-inf"), float("nan"), 3.0e38, 1.0e-40)


def simple_types() -> dict[str, pa.DataType]:
    """Leaf types without parameters nested in them, by column name."""
    numbers = [
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.uint8(),
        pa.uint16(),
        pa.uint32(),
        pa.uint64(),
    ]
    types: dict[str, pa.DataType] = {"null": pa.null(), "bool": pa.bool_()}
    types.update({str(t): t for t in numbers})
    types.update(float16=pa.float16(), float32=pa.float32(), float64=pa.float64())
    types.update(
        string=pa.string(), large_string=pa.large_string(), binary=pa.binary(), large_binary=pa.large_binary()
    )
    types.update(date32=pa.date32(), date64=pa.date64())
    types.update(
        time_s=pa.time32("s"), time_ms=pa.time32("ms"), time_us=pa.time64("us"), time_ns=pa.time64("ns")
    )
    for unit in ("s", "ms", "us", "ns"):
        types[f"timestamp_{unit}"] = pa.timestamp(unit)
        types[f"duration_{unit}"] = pa.duration(unit)
    types.update(
        timestamp_utc=pa.timestamp("us", "UTC"),
        timestamp_ny=pa.timestamp("ns", "America/New_York"),
        timestamp_offset=pa.timestamp("ms", "+05:30"),
        decimal=pa.decimal128(12, 3),
        decimal_wide=pa.decimal128(38, 0),
        decimal_negative_scale=pa.decimal128(5, -2),
        decimal256=pa.decimal256(60, 7),
        fixed_binary_3=pa.binary(3),
        fixed_binary_100=pa.binary(100),
    )
    return types


def vector_types() -> dict[str, pa.DataType]:
    """Fixed-size lists of everything the format can nest in them, by column name."""
    inner: dict[str, pa.DataType] = {
        "float32": pa.float32(),
        "float16": pa.float16(),
        "float64": pa.float64(),
        "int8": pa.int8(),
        "uint8": pa.uint8(),
        "bool": pa.bool_(),
        "timestamp": pa.timestamp("us", "UTC"),
        "decimal": pa.decimal128(12, 3),
        "fixed_binary": pa.binary(3),
    }
    types: dict[str, pa.DataType] = {f"vector_{name}": pa.list_(t, 5) for name, t in inner.items()}
    types["vector_one"] = pa.list_(pa.int64(), 1)
    types["matrix"] = pa.list_(pa.list_(pa.int16(), 2), 3)
    return types


def nested_types() -> dict[str, pa.DataType]:
    """Lists, structs and their combinations, by column name."""
    point = pa.struct([pa.field("x", pa.int32()), pa.field("y", pa.string())])
    return {
        "list_int": pa.list_(pa.int32()),
        "large_list_int": pa.large_list(pa.int32()),
        "list_string": pa.list_(pa.string()),
        "list_bool": pa.list_(pa.bool_()),
        "list_list": pa.list_(pa.list_(pa.int16())),
        "list_struct": pa.list_(point),
        "large_list_struct": pa.large_list(point),
        "list_vector": pa.list_(pa.list_(pa.float32(), 3)),
        "list_dictionary": pa.list_(pa.dictionary(pa.int8(), pa.string())),
        "list_null": pa.list_(pa.null()),
        "struct": pa.struct(
            [pa.field("a", pa.int64()), pa.field("b", pa.float32()), pa.field("c", pa.string())]
        ),
        "struct_nested": pa.struct(
            [pa.field("p", point), pa.field("l", pa.list_(pa.int32())), pa.field("t", pa.bool_())]
        ),
        "struct_dictionary": pa.struct(
            [pa.field("d", pa.dictionary(pa.int16(), pa.string())), pa.field("n", pa.int8())]
        ),
        "struct_vector": pa.struct(
            [pa.field("v", pa.list_(pa.float32(), 4)), pa.field("ts", pa.timestamp("ms"))]
        ),
    }


def dictionary_types() -> dict[str, pa.DataType]:
    """Dictionaries with every key type and every value type that works, by column name."""
    types = {f"dictionary_{key}": pa.dictionary(key, pa.string()) for key in DICTIONARY_KEYS}
    types.update(
        {f"dictionary_of_{value}": pa.dictionary(pa.int8(), value) for value in DICTIONARY_VALUES[1:]}
    )
    return types


def all_types() -> dict[str, pa.DataType]:
    """Every Arrow type that the 0.1 format can hold and give back, by column name."""
    return {**simple_types(), **dictionary_types(), **vector_types(), **nested_types()}


def all_types_table(
    rows: int,
    *,
    nulls: float = 0.0,
    seed: int = 1,
    nullable: bool = True,
    types: Mapping[str, pa.DataType] | None = None,
) -> pa.Table:
    """A table with one column per type.

    Parameters
    ----------
    rows : int
    nulls : float
        Share of nulls at every level of every nullable column.
    seed : int
        The same seed gives the same table.
    nullable : bool
        False: top-level fields are declared non-nullable (null columns excepted) and hold no null.
    types : mapping of str to DataType, optional
        Column types, instead of ``all_types()``.
    """
    chosen = all_types() if types is None else types
    schema = pa.schema([pa.field(name, t, nullable or pa.types.is_null(t)) for name, t in chosen.items()])
    return random_table(schema, rows, nulls=nulls, seed=seed)


def random_table(schema: pa.Schema, rows: int, *, nulls: float = 0.0, seed: int = 1) -> pa.Table:
    """Random values for a schema; fields that are not nullable get no nulls."""
    rng = np.random.default_rng(seed)
    arrays = [random_array(f.type, rows, rng, nulls=nulls if f.nullable else 0.0) for f in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def random_array(
    data_type: pa.DataType, rows: int, rng: np.random.Generator, *, nulls: float = 0.0
) -> pa.Array:
    """Random values of a type; zero bytes lie under the nulls of fixed-width values.

    Strings contain empty, long and non-ASCII values; floats contain NaN, infinities and both zeros.
    """
    types = pa.types
    if types.is_null(data_type):
        return pa.nulls(rows)
    valid = rng.random(rows) >= nulls
    if types.is_dictionary(data_type):
        return _random_dictionary(data_type, rows, rng, valid)
    if types.is_struct(data_type):
        children = [random_array(f.type, rows, rng, nulls=nulls) for f in data_type]
        return pa.Array.from_buffers(data_type, rows, [_bitmap(valid)], children=children)
    if types.is_fixed_size_list(data_type):
        child = random_array(data_type.value_type, rows * data_type.list_size, rng, nulls=nulls)
        return pa.Array.from_buffers(data_type, rows, [_bitmap(valid)], children=[child])
    if types.is_list(data_type) or types.is_large_list(data_type):
        lengths = np.where(valid, rng.integers(0, 4, rows), 0)
        child = random_array(data_type.value_type, int(lengths.sum()), rng, nulls=nulls)
        wide = types.is_large_list(data_type)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64 if wide else np.int32)
        return pa.Array.from_buffers(
            data_type, rows, [_bitmap(valid), pa.py_buffer(offsets)], children=[child]
        )
    return _random_leaf(data_type, rows, rng, valid)


def _random_dictionary(
    data_type: pa.DictionaryType, rows: int, rng: np.random.Generator, valid: NDArray[np.bool_]
) -> pa.Array:
    if pa.types.is_integer(data_type.value_type):
        values = pa.array([7, 0, 3, 250, 11], pa.int64()).cast(data_type.value_type, safe=False)
    else:
        values = (
            pa.array(["red", "green", "blue", "a longer name", "é"])
            .cast(pa.binary())
            .cast(data_type.value_type)
        )
    codes = np.where(valid, rng.integers(0, len(values), rows), 0)
    indices = pa.array(codes, mask=~valid).cast(data_type.index_type)
    return pa.DictionaryArray.from_arrays(indices, values, ordered=data_type.ordered)


def _random_leaf(
    data_type: pa.DataType, rows: int, rng: np.random.Generator, valid: NDArray[np.bool_]
) -> pa.Array:
    types = pa.types
    if types.is_boolean(data_type):
        return pa.array((rng.random(rows) < 0.5) & valid, mask=~valid)
    if types.is_floating(data_type):
        return _random_floats(data_type, rows, rng, valid)
    if types.is_fixed_size_binary(data_type) and not types.is_decimal(data_type):
        raw = rng.integers(0, 256, (rows, data_type.byte_width)).astype(np.uint8)
        return _fixed(data_type, raw, valid)
    if types.is_decimal(data_type):
        return _random_decimals(data_type, rows, rng, valid)
    if data_type in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()):
        return _random_words(data_type, rows, rng, valid)
    return _random_integers(data_type, rows, rng, valid)


def _random_floats(
    data_type: pa.DataType, rows: int, rng: np.random.Generator, valid: NDArray[np.bool_]
) -> pa.Array:
    numbers = rng.standard_normal(rows) * 100
    special = rng.random(rows) < 0.2
    numbers[special] = rng.choice(_FLOATS, int(special.sum()))
    narrow = {16: np.float16, 32: np.float32, 64: np.float64}[data_type.bit_width]
    with np.errstate(over="ignore"):
        values = np.where(valid, numbers, 0.0).astype(narrow)
    return pa.array(values, data_type, mask=~valid)


def _random_words(
    data_type: pa.DataType, rows: int, rng: np.random.Generator, valid: NDArray[np.bool_]
) -> pa.Array:
    letters = list(string.ascii_lowercase)
    words = ["".join(rng.choice(letters, int(n))) for n in rng.integers(1, 12, rows)]
    picked = rng.integers(0, len(_WORDS), rows)
    special = rng.random(rows) < 0.3
    chosen = [_WORDS[p] if s else w for w, p, s in zip(words, picked, special)]
    raw = pa.array([w.encode() if v else None for w, v in zip(chosen, valid)], pa.binary())
    return raw.cast(data_type)


def _random_integers(
    data_type: pa.DataType, rows: int, rng: np.random.Generator, valid: NDArray[np.bool_]
) -> pa.Array:
    """Integers and everything stored as one; temporal values stay in a range that Python can show."""
    types = pa.types
    if types.is_integer(data_type):
        info = np.iinfo(data_type.to_pandas_dtype())
        values = rng.integers(info.min, info.max, rows, dtype=data_type.to_pandas_dtype(), endpoint=True)
        edges = rng.random(rows)
        values[edges < 0.03] = info.min
        values[edges > 0.97] = info.max
        return pa.array(np.where(valid, values, 0).astype(values.dtype), mask=~valid)
    width = np.int32 if data_type.bit_width == 32 else np.int64
    values = rng.integers(*_temporal_range(data_type), rows)
    if types.is_date64(data_type):
        values = values * 86_400_000
    whole = np.where(valid, values, 0).astype(width)
    return pa.array(whole, mask=~valid).view(data_type)


def _temporal_range(data_type: pa.DataType) -> tuple[int, int]:
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
    if pa.types.is_date(data_type):
        return -20_000, 40_000
    # Types of old pyarrow have no ``unit``; their text always names it first: "timestamp[us, tz=UTC]".
    ticks = per_second[str(data_type).split("[")[1].split(",")[0].rstrip("]")]
    if pa.types.is_time(data_type):
        return 0, 86_400 * ticks
    return -(10**9) * ticks, 4 * 10**9 * ticks


def _random_decimals(
    data_type: pa.DataType, rows: int, rng: np.random.Generator, valid: NDArray[np.bool_]
) -> pa.Array:
    width = data_type.bit_width // 8
    largest = 10**data_type.precision - 1
    digits = ["".join(rng.choice(list(string.digits), data_type.precision)) for _ in range(rows)]
    signs = rng.choice([-1, 1], rows)
    numbers = [int(sign) * min(int(text), largest) if v else 0 for sign, text, v in zip(signs, digits, valid)]
    raw = np.frombuffer(b"".join(n.to_bytes(width, "little", signed=True) for n in numbers), np.uint8)
    return _fixed(data_type, raw.reshape(rows, width), valid)


def _fixed(data_type: pa.DataType, raw: NDArray[np.uint8], valid: NDArray[np.bool_]) -> pa.Array:
    clean = np.where(valid[:, None], raw, 0).astype(np.uint8)
    return pa.Array.from_buffers(data_type, len(clean), [_bitmap(valid), pa.py_buffer(clean.tobytes())])


def _bitmap(valid: NDArray[np.bool_]) -> pa.Buffer | None:
    if valid.all():
        return None
    return pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())


def stored_form(table: pa.Table) -> pa.Table:
    """The table that a 0.1 file gives back for this one (file sheet 0.1, sections 4.7 and 4.3).

    Nulls survive in strings and binaries only, where empty values of nullable fields join them; elsewhere the
    bytes under the null become the value.
    """
    arrays = []
    for field, column in zip(table.schema, table.columns):
        whole = column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
        arrays.append(stored_array(whole, field.nullable))
    return pa.Table.from_arrays(arrays, schema=table.schema)


def stored_array(array: pa.Array, nullable: bool = True) -> pa.Array:
    """What a 0.1 file gives back for one array without offset; see `stored_form`."""
    types, kind, rows = pa.types, array.type, len(array)
    if array.offset:
        raise ValueError("a slice has bytes outside of itself under its nulls; give a whole array")
    if types.is_null(kind):
        return array
    if types.is_dictionary(kind):
        codes = stored_array(array.indices)
        return pa.DictionaryArray.from_arrays(codes, stored_array(array.dictionary), ordered=kind.ordered)
    if types.is_struct(kind):
        children = [stored_array(array.field(i), kind[i].nullable) for i in range(kind.num_fields)]
        return pa.Array.from_buffers(kind, rows, [None], children=children)
    if types.is_fixed_size_list(kind):
        return pa.Array.from_buffers(kind, rows, [None], children=[stored_array(_child(array))])
    if types.is_list(kind) or types.is_large_list(kind):
        child = stored_array(array.values)
        return pa.Array.from_buffers(kind, rows, [None, array.buffers()[1]], children=[child])
    if kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()):
        return _stored_words(array, nullable)
    if types.is_boolean(kind):
        return array.fill_null(False)
    return pa.Array.from_buffers(kind, rows, [None, array.buffers()[1]])


def _child(array: pa.FixedSizeListArray) -> pa.Array:
    """All values of fixed-size lists, those under nulls included (old pyarrow leaves those out of ``flatten``)."""
    whole = pa.Array.from_buffers(array.type, len(array), [None], children=[array.values])
    return whole.flatten()


def _stored_words(array: pa.Array, nullable: bool) -> pa.Array:
    if not nullable:
        return array
    values: Sequence[bytes | None] = array.cast(pa.large_binary()).to_pylist()
    return pa.array([v or None for v in values], pa.large_binary()).cast(array.type)
