"""What the modules of shapes share: the shape itself, and columns made from NumPy arrays."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

__all__ = ["ROWS", "Make", "Rng", "Shape", "distinct", "holes", "lists", "masked", "pieces", "text", "words"]

ROWS = 10_000
Rng = np.random.Generator
Make = Callable[[Rng], "pa.Array | pa.ChunkedArray"]

VOCABULARY = (
    "the quick brown fox jumps over a lazy dog while seven wizards quietly mix jars of liquid oxygen and Zürich 日本"
).split()
COLOURS = ("red", "green", "blue", "yellow", "magenta", "cyan", "ultraviolet")


@dataclass(frozen=True)
class Shape:
    """A column and how its field is declared.

    Attributes
    ----------
    make : function
        From a generator of random numbers to the values; chunks become batches of the writer.
    nullable : bool
    metadata : mapping
        Of the field.
    slow : bool
        Takes more than about half a second to write and compare.
    alone : bool
        Written without an ``id`` beside it: pylance 14.0.2 reads it together with no other column.
    """

    make: Make
    nullable: bool = True
    metadata: Mapping[str, str] = field(default_factory=dict)
    slow: bool = False
    alone: bool = False


def holes(rng: Rng, rows: int, share: float) -> NDArray[np.bool_]:
    """True where a value is missing."""
    return np.asarray(rng.random(rows) < share)


def masked(values: pa.Array, missing: ArrayLike) -> pa.Array:
    """The values with nulls, which keep what lies under them."""
    gone = np.asarray(missing, np.bool_)
    bitmap = pa.py_buffer(np.packbits(~gone, bitorder="little").tobytes())
    children = (
        [values.field(i) for i in range(values.type.num_fields)] if pa.types.is_struct(values.type) else None
    )
    if (
        pa.types.is_fixed_size_list(values.type)
        or pa.types.is_list(values.type)
        or pa.types.is_map(values.type)
    ):
        children = [values.values] if not pa.types.is_map(values.type) else [_entries(values)]
    return pa.Array.from_buffers(
        values.type, len(values), [bitmap, *values.buffers()[1 : values.type.num_buffers]], children=children
    )


def _entries(values: pa.MapArray) -> pa.Array:
    kind = pa.struct([values.type.key_field, values.type.item_field])
    return pa.StructArray.from_arrays([values.keys, values.items], fields=list(kind))


def lists(
    lengths: ArrayLike, child: pa.Array, *, missing: ArrayLike | None = None, large: bool = False
) -> pa.Array:
    """Lists of the given lengths over the items; a missing list has its items taken out of the lengths."""
    sizes = np.asarray(lengths, np.int64)
    gone = np.zeros(sizes.size, np.bool_) if missing is None else np.asarray(missing, np.bool_)
    sizes = np.where(gone, 0, sizes)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    kind = pa.large_list(child.type) if large else pa.list_(child.type)
    stored = offsets.astype(np.int64 if large else np.int32)
    bitmap = pa.py_buffer(np.packbits(~gone, bitorder="little").tobytes()) if gone.any() else None
    child = child.slice(0, int(offsets[-1]))
    return pa.Array.from_buffers(kind, sizes.size, [bitmap, pa.py_buffer(stored)], children=[child])


def pieces(values: pa.Array, count: int) -> pa.ChunkedArray:
    """The same values in ``count`` arrays of their own memory."""
    borders = np.linspace(0, len(values), count + 1).astype(int)
    return pa.chunked_array([values.take(pa.array(np.arange(a, b))) for a, b in itertools.pairwise(borders)])


def distinct(rng: Rng, values: Sequence[object] | pa.Array, rows: int) -> pa.Array:
    """Random picks from a few values."""
    pool = values if isinstance(values, pa.Array) else pa.array(values)
    return pool.take(pa.array(rng.integers(0, len(pool), rows)))


def words(rng: Rng, rows: int, size: int, alphabet: bytes = b"abcdefghijklmnopqrstuvwxyz") -> pa.Array:
    """Random strings of one length."""
    letters = np.frombuffer(alphabet, np.uint8)[rng.integers(0, len(alphabet), (rows, size))]
    offsets = np.arange(rows + 1, dtype=np.int32) * size
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(letters.tobytes()))


def text(rng: Rng, rows: int, low: int, high: int) -> pa.Array:
    """Sentences of ``low`` to ``high`` words."""
    counts = rng.integers(low, high + 1, rows)
    picks = rng.integers(0, len(VOCABULARY), int(counts.sum()))
    stops = np.cumsum(counts)
    return pa.array(
        [" ".join(VOCABULARY[p] for p in picks[b - c : b]) for b, c in zip(stops, counts, strict=True)],
        pa.string(),
    )
