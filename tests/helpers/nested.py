"""Random nested types and values of them, for tables that no one would think of.

Nulls may be at every level that a version of the format can hold, with values and list items left under them;
lists are empty, short or long; arrays are slices of larger ones where the peer's writer bears it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["Allowed", "random_nested", "random_nested_table", "random_type"]

LEAVES = (
    pa.int64(), pa.int32(), pa.int8(), pa.uint16(), pa.float32(), pa.float64(), pa.bool_(), pa.string(),
    pa.binary(), pa.large_string(), pa.timestamp("us"), pa.decimal128(20, 3), pa.binary(5), pa.date32(), pa.null(),
)  # fmt: skip
KEYS = (pa.int8(), pa.uint8(), pa.int32(), pa.int64())


@dataclass(frozen=True)
class Allowed:
    """What a version of the format can hold and its reference writer writes."""

    struct_nulls: bool = True
    maps: bool = True

    @classmethod
    def by(cls, version: str) -> Allowed:
        """For ``"2.0"`` to ``"2.3"``."""
        return cls(struct_nulls=version != "2.0", maps=version in ("2.2", "2.3"))


def random_type(rng: np.random.Generator, depth: int, allowed: Allowed) -> pa.DataType:
    """A type nested at most ``depth`` deep."""
    kinds = ["leaf", "dictionary", "vector"]
    if depth > 0:
        kinds += ["list", "list", "struct", "struct", "large_list"] + ["map"] * allowed.maps
    kind = rng.choice(kinds)
    if kind == "list":
        return pa.list_(random_type(rng, depth - 1, allowed))
    if kind == "large_list":
        return pa.large_list(random_type(rng, depth - 1, allowed))
    if kind == "struct":
        count = int(rng.integers(1, 4))
        return pa.struct([pa.field(f"c{i}", random_type(rng, depth - 1, allowed)) for i in range(count)])
    if kind == "map":
        key = (pa.string(), pa.int32(), pa.int64())[rng.integers(0, 3)]
        return pa.map_(key, random_type(rng, depth - 1, allowed))
    if kind == "vector":
        item = LEAVES[rng.integers(0, 7)]
        inner = pa.list_(item, int(rng.integers(1, 5)))
        return pa.list_(inner, 2) if rng.random() < 0.2 else inner
    if kind == "dictionary":
        value = (pa.string(), pa.int64(), pa.binary())[rng.integers(0, 3)]
        return pa.dictionary(KEYS[rng.integers(0, len(KEYS))], value)
    return LEAVES[rng.integers(0, len(LEAVES))]


def random_nested_table(rng: np.random.Generator, version: str, columns: int, rows: int) -> pa.Table:
    """``id`` and columns ``c0``, ``c1``, … in one chunk each."""
    allowed = Allowed.by(version)
    arrays: list[pa.Array] = [pa.array(np.arange(rows))]
    for _ in range(columns):
        kind = random_type(rng, int(rng.integers(0, 5)), allowed)
        share = float(rng.choice([0.0, 0.02, 0.2, 0.6, 1.0], p=[0.25, 0.2, 0.35, 0.15, 0.05]))
        arrays.append(random_nested(kind, rows, rng, share, allowed))
    return pa.table(arrays, names=["id", *(f"c{i}" for i in range(columns))])


def random_nested(
    kind: pa.DataType, rows: int, rng: np.random.Generator, share: float, allowed: Allowed
) -> pa.Array:
    """Values of a type; ``share`` of them null at each level, give or take."""
    types = pa.types
    if rng.random() < 0.2:
        share = float(rng.choice([0.0, share, 0.5]))
    gone = rng.random(rows) < share
    if types.is_null(kind):
        return pa.nulls(rows)
    if types.is_struct(kind):
        children = [random_nested(f.type, rows, rng, share, allowed) for f in kind]
        bitmap = _bitmap(gone) if allowed.struct_nulls else None
        return pa.Array.from_buffers(kind, rows, [bitmap], children=children)
    if types.is_fixed_size_list(kind):
        child = random_nested(
            kind.value_type, rows * kind.list_size, rng, share if rng.random() < 0.3 else 0.0, allowed
        )
        return pa.Array.from_buffers(kind, rows, [_bitmap(gone)], children=[child])
    if types.is_list(kind) or types.is_large_list(kind) or types.is_map(kind):
        return _lists(kind, rows, rng, share, gone, allowed)
    if types.is_dictionary(kind):
        return _dictionary(kind, rows, rng, gone)
    return _leaf(kind, rows, rng, gone)


def _lists(
    kind: pa.DataType,
    rows: int,
    rng: np.random.Generator,
    share: float,
    gone: NDArray[np.bool_],
    allowed: Allowed,
) -> pa.Array:
    longest = int(rng.choice([1, 2, 5, 40], p=[0.2, 0.4, 0.35, 0.05])) if rows < 4000 else 1
    sizes = rng.integers(0 if rng.random() < 0.7 else 1, longest + 1, rows)
    if rng.random() < 0.1:
        sizes = np.where(rng.random(rows) < 0.02, sizes, 0)
    # Null lists may keep their items: what lies under a null is nobody's value.
    if rng.random() < 0.7:
        sizes = np.where(gone, 0, sizes)
    front = int(rng.integers(0, 3))
    offsets = front + np.concatenate([[0], np.cumsum(sizes)])
    count = int(offsets[-1]) + int(rng.integers(0, 3))
    if pa.types.is_map(kind):
        keys = random_nested(kind.key_type, count, rng, 0.0, allowed)
        entries = pa.struct([kind.key_field, kind.item_field])
        child: pa.Array = pa.StructArray.from_arrays(
            [_no_nulls(keys, kind.key_type, rng), random_nested(kind.item_type, count, rng, share, allowed)],
            fields=list(entries),
        )
    else:
        child = random_nested(kind.value_type, count, rng, share, allowed)
    width = np.int64 if pa.types.is_large_list(kind) else np.int32
    stored = pa.py_buffer(offsets.astype(width))
    return pa.Array.from_buffers(kind, rows, [_bitmap(gone), stored], children=[child])


def _no_nulls(keys: pa.Array, kind: pa.DataType, rng: np.random.Generator) -> pa.Array:
    return keys if keys.null_count == 0 else _leaf(kind, len(keys), rng, np.zeros(len(keys), np.bool_))


def _dictionary(
    kind: pa.DictionaryType, rows: int, rng: np.random.Generator, gone: NDArray[np.bool_]
) -> pa.Array:
    # The writer puts the dictionaries of all batches one after the other, and the keys must reach that far.
    size = int(rng.choice([1, 3, 100 if kind.index_type.bit_width > 8 else 10]))
    values: pa.Array = pa.array(rng.permutation(1000)[:size] * 7)
    if not pa.types.is_integer(kind.value_type):
        values = values.cast(pa.string()).cast(kind.value_type)
    codes = np.where(gone, 0, rng.integers(0, size, rows))
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=gone).cast(kind.index_type), values)


def _leaf(kind: pa.DataType, rows: int, rng: np.random.Generator, gone: NDArray[np.bool_]) -> pa.Array:
    types = pa.types
    style = rng.choice(["few", "wide", "same"], p=[0.4, 0.5, 0.1])
    top = {"few": 20, "wide": 1 << 62, "same": 1}[str(style)]
    numbers = rng.integers(0, top, rows)
    if style == "wide" and rng.random() < 0.5:
        numbers = -numbers
    if types.is_boolean(kind):
        return pa.array(numbers % 2 == 0, mask=gone)
    if types.is_floating(kind):
        narrow = np.float32 if kind == pa.float32() else np.float64
        return pa.array((numbers / 8).astype(narrow), mask=gone)
    if kind in (pa.string(), pa.binary(), pa.large_string()):
        return _words(kind, rows, rng, gone, numbers)
    width = kind.bit_width // 8
    wide = np.zeros((rows, max(8, width)), np.uint8)
    wide[:, :8] = numbers.astype("<i8").view(np.uint8).reshape(rows, 8)
    if types.is_decimal(kind):
        wide[:, 8:] = np.where(numbers < 0, 0xFF, 0)[:, None]
    raw = np.ascontiguousarray(wide[:, :width])
    return pa.Array.from_buffers(kind, rows, [_bitmap(gone), pa.py_buffer(raw.tobytes())])


def _words(
    kind: pa.DataType,
    rows: int,
    rng: np.random.Generator,
    gone: NDArray[np.bool_],
    numbers: NDArray[np.int64],
) -> pa.Array:
    longest = int(rng.choice([0, 3, 20, 300], p=[0.05, 0.45, 0.45, 0.05])) if rows < 4000 else 3
    sizes = rng.integers(0, longest + 1, rows)
    texts = [(str(n) * 16)[:s] if s else "" for n, s in zip(numbers.tolist(), sizes.tolist(), strict=True)]
    whole = pa.array([None if g else t for t, g in zip(texts, gone.tolist(), strict=True)], pa.string())
    return whole.cast(kind)


def _bitmap(gone: NDArray[np.bool_]) -> pa.Buffer | None:
    return pa.py_buffer(np.packbits(~gone, bitorder="little").tobytes()) if gone.any() else None
