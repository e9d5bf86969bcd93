"""Random nested types and values of them, for tables that no one would think of.

Nulls may be at every level that a version of the format can hold, with values and list items left under them;
lists are empty, short or long; arrays are slices of larger ones where the peer's writer bears it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tests.helpers.nested_types import Allowed, random_type

__all__ = ["Allowed", "random_columns", "random_nested", "random_nested_table", "random_type"]

Mask = NDArray[np.bool_]
DAY = 86_400


def random_nested_table(rng: np.random.Generator, version: str, columns: int, rows: int) -> pa.Table:
    """``id`` and columns ``c0``, ``c1``, … in one chunk each."""
    allowed = Allowed.by(version)
    arrays: list[pa.Array] = [pa.array(np.arange(rows))]
    for _ in range(columns):
        kind = random_type(rng, int(rng.integers(0, 5)), allowed)
        arrays.append(random_nested(kind, rows, rng, random_share(rng), allowed))
    return pa.table(arrays, names=["id", *(f"c{i}" for i in range(columns))])


def random_columns(
    fields: Sequence[pa.Field], rows: int, rng: np.random.Generator, allowed: Allowed
) -> pa.RecordBatch:
    """Values of these fields, each with a share of nulls of its own."""
    arrays = [
        random_nested(field.type, rows, rng, random_share(rng), allowed, field.nullable) for field in fields
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def random_share(rng: np.random.Generator) -> float:
    """Of values that are null."""
    return float(rng.choice([0.0, 0.02, 0.2, 0.6, 1.0], p=[0.25, 0.2, 0.35, 0.15, 0.05]))


def random_nested(
    kind: pa.DataType,
    rows: int,
    rng: np.random.Generator,
    share: float,
    allowed: Allowed,
    nullable: bool = True,
    hidden: Mask | None = None,
) -> pa.Array:
    """Values of a type; ``share`` of them null at each level, give or take.

    Parameters
    ----------
    nullable : bool
        False: only those are null that lie under a null, if ``allowed`` has that.
    hidden : (rows,) bool or None
        Values that lie under a null.
    """
    types = pa.types
    if rng.random() < 0.2:
        share = float(rng.choice([0.0, share, 0.5]))
    gone = rng.random(rows) < (share if allowed.nulls else 0.0)
    if not nullable:
        gone &= hidden if allowed.masked and hidden is not None else False
    if isinstance(kind, pa.BaseExtensionType):
        return _extended(kind, rows, rng, share, allowed, gone)
    if types.is_null(kind):
        return pa.nulls(rows)
    below = gone if hidden is None else gone | hidden
    if types.is_struct(kind):
        children = [random_nested(f.type, rows, rng, share, allowed, f.nullable, below) for f in kind]
        bitmap = _bitmap(gone) if allowed.struct_nulls else None
        return pa.Array.from_buffers(kind, rows, [bitmap], children=children)
    if types.is_fixed_size_list(kind):
        size, item = kind.list_size, kind.value_field
        few = share if rng.random() < 0.3 else 0.0
        child = random_nested(
            item.type, rows * size, rng, few, allowed, item.nullable, np.repeat(below, size)
        )
        return pa.Array.from_buffers(kind, rows, [_bitmap(gone)], children=[child])
    if types.is_list(kind) or types.is_large_list(kind) or types.is_map(kind):
        return _lists(kind, rows, rng, share, gone, below, allowed)
    if types.is_dictionary(kind):
        return _dictionary(kind, rows, rng, gone)
    return _leaf(kind, rows, rng, gone, allowed)


def _extended(
    kind: pa.BaseExtensionType,
    rows: int,
    rng: np.random.Generator,
    share: float,
    allowed: Allowed,
    gone: Mask,
) -> pa.Array:
    storage = kind.storage_type
    if isinstance(kind, pa.JsonType):
        texts = [f'{{"a":{n}}}' if n % 3 else f'["{n}",null]' for n in rng.integers(0, 50, rows).tolist()]
        stored = pa.array(texts, storage, mask=gone)
    elif pa.types.is_struct(storage):
        stored = random_nested(storage, rows, rng, share, allowed, nullable=False, hidden=gone)
        stored = pa.Array.from_buffers(
            storage,
            rows,
            [_bitmap(gone) if allowed.struct_nulls else None],
            children=[stored.field(i) for i in range(storage.num_fields)],
        )
    elif pa.types.is_fixed_size_list(storage):
        numbers = _leaf(
            storage.value_type,
            rows * storage.list_size,
            rng,
            np.zeros(rows * storage.list_size, np.bool_),
            allowed,
        )
        stored = pa.Array.from_buffers(storage, rows, [_bitmap(gone)], children=[numbers])
    elif isinstance(kind, pa.Bool8Type):
        stored = pa.array(rng.integers(0, 2, rows).astype(np.int8), mask=gone)
    else:
        stored = _leaf(storage, rows, rng, gone, allowed)
    return pa.ExtensionArray.from_storage(kind, stored)


def _lists(
    kind: pa.DataType,
    rows: int,
    rng: np.random.Generator,
    share: float,
    gone: Mask,
    below: Mask,
    allowed: Allowed,
) -> pa.Array:
    longest = int(rng.choice([1, 2, 5, 40], p=[0.2, 0.4, 0.35, 0.05])) if rows < 4000 else 1
    sizes = rng.integers(0 if rng.random() < 0.7 else 1, longest + 1, rows)
    if rng.random() < 0.1:
        sizes = np.where(rng.random(rows) < 0.02, sizes, 0)
    # Null lists may keep their items, and items may lie around the lists: all of them are no values.
    if rng.random() < 0.7:
        sizes = np.where(gone, 0, sizes)
    is_loose = allowed.masked or not allowed.varied
    front = int(rng.integers(0, 3)) * is_loose
    offsets = front + np.concatenate([[0], np.cumsum(sizes)])
    count = int(offsets[-1]) + int(rng.integers(0, 3)) * is_loose
    hidden = np.ones(count, np.bool_)
    hidden[front : offsets[-1]] = np.repeat(below, sizes)
    child: pa.Array
    if pa.types.is_map(kind):
        keys = random_nested(kind.key_type, count, rng, 0.0, allowed, nullable=False)
        item = kind.item_field
        items = random_nested(item.type, count, rng, share, allowed, item.nullable, hidden)
        child = pa.StructArray.from_arrays([keys, items], fields=[kind.key_field, item])
    else:
        item = kind.value_field
        child = random_nested(item.type, count, rng, share, allowed, item.nullable, hidden)
    width = np.int64 if pa.types.is_large_list(kind) else np.int32
    stored = pa.py_buffer(offsets.astype(width))
    return pa.Array.from_buffers(kind, rows, [_bitmap(gone), stored], children=[child])


def _dictionary(kind: pa.DictionaryType, rows: int, rng: np.random.Generator, gone: Mask) -> pa.Array:
    # The writer puts the dictionaries of all batches one after the other, and the keys must reach that far.
    size = int(rng.choice([1, 3, 100 if kind.index_type.bit_width > 8 else 10]))
    values: pa.Array = pa.array(rng.permutation(1000)[:size] * 7)
    if not pa.types.is_integer(kind.value_type):
        values = values.cast(pa.string()).cast(kind.value_type)
    codes = np.where(gone, 0, rng.integers(0, size, rows))
    return pa.DictionaryArray.from_arrays(
        pa.array(codes, mask=gone).cast(kind.index_type), values, ordered=kind.ordered
    )


def _numbers(rows: int, rng: np.random.Generator, allowed: Allowed) -> NDArray[np.int64]:
    style = str(rng.choice(["few", "wide", "same"], p=[0.4, 0.5, 0.1]))
    if allowed.varied and rng.random() < 0.3:
        return np.arange(rows) // (1 if rng.random() < 0.5 else 50)
    top = {"few": 20, "wide": 1 << 62, "same": 1}[style]
    numbers: NDArray[np.int64] = rng.integers(0, top, rows)
    return -numbers if style == "wide" and rng.random() < 0.5 else numbers


def _leaf(kind: pa.DataType, rows: int, rng: np.random.Generator, gone: Mask, allowed: Allowed) -> pa.Array:
    types = pa.types
    numbers = _numbers(rows, rng, allowed)
    if types.is_boolean(kind):
        return pa.array(numbers % 2 == 0, mask=gone)
    if types.is_float16(kind):
        return pa.array((numbers % 4000 / 8).astype(np.float16), mask=gone)
    if types.is_floating(kind):
        narrow = np.float32 if kind == pa.float32() else np.float64
        return pa.array((numbers / 8).astype(narrow), mask=gone)
    if _is_text(kind):
        # Files of 0.1 have no empty text: it reads as null.
        return _words(kind, rows, rng, gone, numbers, least=0 if allowed.nulls else 1)
    if types.is_time(kind):
        numbers = numbers % DAY
    elif kind == pa.date64():
        numbers = numbers % 20_000 * DAY * 1000
    width = kind.bit_width // 8
    wide = np.zeros((rows, max(8, width)), np.uint8)
    wide[:, :8] = numbers.astype("<i8").view(np.uint8).reshape(rows, 8)
    if types.is_decimal(kind):
        wide[:, 8:] = np.where(numbers < 0, 0xFF, 0)[:, None]
    raw = np.ascontiguousarray(wide[:, :width])
    return pa.Array.from_buffers(kind, rows, [_bitmap(gone), pa.py_buffer(raw.tobytes())])


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    is_small = types.is_string(kind) or types.is_binary(kind)
    is_large = types.is_large_string(kind) or types.is_large_binary(kind)
    return bool(is_small or is_large or types.is_string_view(kind) or types.is_binary_view(kind))


def _words(
    kind: pa.DataType,
    rows: int,
    rng: np.random.Generator,
    gone: Mask,
    numbers: NDArray[np.int64],
    least: int,
) -> pa.Array:
    longest = int(rng.choice([0, 3, 20, 300], p=[0.05, 0.45, 0.45, 0.05])) if rows < 4000 else 3
    sizes = np.maximum(rng.integers(0, longest + 1, rows), least)
    texts = [(str(n) * 16)[:s] if s else "" for n, s in zip(numbers.tolist(), sizes.tolist(), strict=True)]
    whole = pa.array([None if g else t for t, g in zip(texts, gone.tolist(), strict=True)], pa.string())
    return whole.cast(pa.binary()).cast(kind) if kind == pa.binary_view() else whole.cast(kind)


def _bitmap(gone: Mask) -> pa.Buffer | None:
    return pa.py_buffer(np.packbits(~gone, bitorder="little").tobytes()) if gone.any() else None
