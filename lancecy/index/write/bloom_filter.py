"""BLOOMFILTER: a split block Bloom filter of the values of each zone.

A value sets one bit in each of the eight words of one block. The high half of its hash, XXH64 with seed 0 of its bytes,
chooses the block, the low half the bits.

Source: sheet of indices, section B7.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.arrow.conversions import values_of
from lancecy.index.bloom_filter import BLOOM_FILE
from lancecy.index.write.base import IndexBuilder, IndexOutput, IndexPart
from lancecy.index.write.parts import nulls_of
from lancecy.index.write.zones import ZONE_ROWS, Zone, ZoneCutter
from lancecy.index.zones import NULLS

__all__ = ["PROBABILITY", "BloomFilterBuilder"]

UInt8: TypeAlias = NDArray[np.uint8]
UInt64: TypeAlias = NDArray[np.uint64]

PROBABILITY = 0.00057
"""Rate of false positives, which gives the filter's size."""
_BLOCK_BYTES = 32
_WORDS = 8
_MOST_BYTES = 128 << 20
_WRITTEN_ZONES = 128
"""Zones that are written at once."""
_NUMBERS = ("fragment_id", "zone_start", "zone_length")


class BloomFilterBuilder(IndexBuilder):
    """Builder of a BLOOMFILTER index.

    Parameters
    ----------
    kind : pyarrow.DataType
        Type of the values.
    rows_per_zone : int
    probability : float
        Rate of false positives.
    """

    def __init__(
        self, kind: pa.DataType, rows_per_zone: int = ZONE_ROWS, probability: float = PROBABILITY
    ) -> None:
        self._rows_per_zone, self._probability = rows_per_zone, probability
        self._filter_bytes = _filter_bytes(rows_per_zone, probability)
        self._zones = ZoneCutter(rows_per_zone)
        self._filters: list[UInt8] = []
        self._facts: list[tuple[int, int, int, bool]] = []

    def add(self, values: pa.Array, ids: UInt64) -> None:
        """See ``IndexBuilder.add``; values come in table order."""
        self._describe(self._zones.add(values, ids))

    def add_part(self, part: IndexPart) -> None:
        """See ``IndexBuilder.add_part``."""
        file = part.file(BLOOM_FILE)
        self._zones.add_nulls(nulls_of(file))
        *facts, filters = file.read([*_NUMBERS, "has_null", "bloom_filter_data"])
        self._facts += zip(*(column.to_pylist() for column in facts), strict=True)
        data = filters.cast(pa.large_binary())
        offsets = np.frombuffer(data.buffers()[1], np.int64, len(data) + 1, 8 * data.offset)
        held = np.frombuffer(data.buffers()[2] or b"", np.uint8)
        self._filters += [held[start:stop] for start, stop in pairwise(offsets.tolist())]

    def write(self, output: IndexOutput) -> None:
        """See ``IndexBuilder.write``."""
        self._describe(self._zones.rest())
        schema = pa.schema(
            [
                *(pa.field(name, pa.uint64(), nullable=False) for name in _NUMBERS),
                pa.field("has_null", pa.bool_(), nullable=False),
                pa.field("bloom_filter_data", pa.binary(), nullable=False),
            ]
        )
        file = output.create(BLOOM_FILE, schema)
        for start in range(0, len(self._facts), _WRITTEN_ZONES):
            some = slice(start, start + _WRITTEN_ZONES)
            facts = zip(*self._facts[some], strict=True)
            columns = [values_of(fact, kind) for fact, kind in zip(facts, schema.types, strict=False)]
            file.write(pa.record_batch([*columns, _joined(self._filters[some])], schema=schema))
        file.add_schema_metadata("bloomfilter_item", str(self._rows_per_zone))
        file.add_schema_metadata("bloomfilter_probability", str(self._probability))
        file.add_schema_metadata(NULLS, str(file.add_global_buffer(self._zones.nulls)))
        file.finish()

    def close(self) -> None:
        """See ``IndexBuilder.close``."""

    def _describe(self, zones: Iterable[Zone]) -> None:
        for zone in zones:
            self._filters.append(_filter_of(zone.values.drop_null(), self._filter_bytes))
            has_null = zone.values.null_count > 0
            self._facts.append((zone.fragment, zone.start, zone.length, has_null))


def _filter_bytes(count: int, probability: float) -> int:
    """Size of a filter of so many values: a power of two.

    Examples
    --------
    >>> _filter_bytes(8192, PROBABILITY)
    32768
    """
    bits = -_WORDS * count / math.log1p(-(probability ** (1 / _WORDS)))
    return min(_MOST_BYTES, max(_BLOCK_BYTES, 1 << (math.ceil(bits / 8) - 1).bit_length()))


def _joined(filters: list[UInt8]) -> pa.Array:
    offsets = np.zeros(len(filters) + 1, np.int32)
    np.cumsum([each.size for each in filters], out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.concatenate(filters))]
    return pa.Array.from_buffers(pa.binary(), len(filters), buffers)


def _filter_of(values: pa.Array, nbytes: int) -> UInt8:
    hashes = np.empty(len(values), np.uint64)
    kernels.hash_rows(*_bytes_of(values), hashes)
    found = np.zeros(nbytes, np.uint8)
    kernels.set_filter_bits(hashes, found)
    return found


@lru_cache(maxsize=8)
def _offsets(count: int, width: int) -> NDArray[np.int64]:
    """Those of values of one width. Nearly all zones have as many values."""
    found = np.arange(0, (count + 1) * width, width, dtype=np.int64)
    found.flags.writeable = False
    return found


def _bytes_of(values: pa.Array) -> tuple[NDArray[np.int64], UInt8]:
    """Offsets and bytes of values without nulls."""
    kind, count = values.type, len(values)
    buffers, first = values.buffers(), values.offset
    if not count:
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    if pa.types.is_primitive(kind):
        width = kind.bit_width // 8
        return _offsets(count, width), np.frombuffer(buffers[1], np.uint8, count * width, first * width)
    is_large = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    stored = np.frombuffer(buffers[1], np.int64 if is_large else np.int32)
    return stored[first : first + count + 1].astype(np.int64), np.frombuffer(buffers[2] or b"", np.uint8)
