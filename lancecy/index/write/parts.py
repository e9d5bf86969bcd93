"""What the files of finished indices hold, for a builder that merges them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.encodings.arrow.conversions import array_of
from lancecy.errors import FormatError
from lancecy.index.bitmap import SETS_FILE, KeyedSets
from lancecy.index.files import IndexFile
from lancecy.index.row_sets import decode_row_set
from lancecy.index.write.base import IndexPart
from lancecy.index.zones import NULLS
from lancecy.store.base import Memory

__all__ = ["held", "ids_in", "nulls_of", "pairs_of"]

UInt64: TypeAlias = NDArray[np.uint64]

_BLOCK_KEYS = 1 << 12
_BLOCK_ROWS = 1 << 20
"""Pairs that are made of sets at once; a larger set is one block."""


def held(part: IndexPart, values: pa.Array, ids: UInt64) -> tuple[pa.Array, UInt64]:
    """Values and ids of the rows that a part speaks for.

    Parameters
    ----------
    part : IndexPart
    values : (n,) pyarrow.Array
    ids : (n,) uint64
    """
    kept = part.holds(ids)
    return (values, ids) if kept.all() else (values.filter(array_of(kept)), ids[kept])


def pairs_of(part: IndexPart, kind: pa.DataType) -> Iterator[tuple[pa.Array, UInt64]]:
    """The keys of a BITMAP or LABEL_LIST, each with the ids of its set, in blocks.

    Parameters
    ----------
    part : IndexPart
    kind : pyarrow.DataType
        Type of the keys.

    Raises
    ------
    FormatError, LimitError
        The file is damaged.
    """
    file = part.file(SETS_FILE)
    if file.type_of("keys") != kind:
        raise FormatError(f"{SETS_FILE} holds {file.type_of('keys')}, not {kind}").within(file.source.path)
    sets = KeyedSets(file, file.read(["keys"])[0], "bitmaps")
    for first in range(0, file.num_rows, _BLOCK_KEYS):
        numbers = np.arange(first, min(file.num_rows, first + _BLOCK_KEYS))
        yield from _blocks(part, sets, numbers)


def _blocks(
    part: IndexPart, sets: KeyedSets, numbers: NDArray[np.int64]
) -> Iterator[tuple[pa.Array, UInt64]]:
    waiting: list[UInt64] = []
    first = count = 0
    for number, memory in enumerate(sets.sets(numbers), 1):
        waiting.append(ids_in(memory))
        count += waiting[-1].size
        if count >= _BLOCK_ROWS or number == numbers.size:
            owners = np.repeat(numbers[first:number], [ids.size for ids in waiting])
            yield held(part, sets.keys.take(array_of(owners)), np.concatenate(waiting))
            waiting, first, count = [], number, 0


def nulls_of(file: IndexFile) -> UInt64:
    """The addresses of nulls, as a file of zones has them.

    Parameters
    ----------
    file : IndexFile

    Raises
    ------
    FormatError, LimitError
        They are damaged.
    """
    found = file.buffer(NULLS)
    if found is None:
        raise FormatError("zones of an index do not say which rows are null").within(file.source.path)
    return ids_in(found)


def ids_in(memory: Memory) -> UInt64:
    """The ids in a serialized set: (n,) uint64, ascending.

    Parameters
    ----------
    memory : (nbytes,) uint8

    Raises
    ------
    FormatError, LimitError
        The set is damaged, or has all rows of a fragment, whose number it does not know.
    """
    parts = [np.empty(0, np.uint64)]
    for upper, lower in decode_row_set(memory):
        if lower is None:
            raise FormatError(f"a set of rows has all rows of fragment {upper}, whose number is unknown")
        parts.append(lower.astype(np.uint64) | np.uint64(upper << 32))
    return np.concatenate(parts)
