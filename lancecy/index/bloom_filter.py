"""BLOOMFILTER: for each zone, a filter of its values that proves that some value is not among them.

A filter is a sequence of blocks of 32 bytes. The upper half of a value's hash chooses one block, the lower half sets one
bit in each of its eight words.

Source: sheet of indices, section B7.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.encodings.arrow.conversions import numbers_of
from lancecy.errors import FormatError
from lancecy.expr.kinds import family
from lancecy.expr.nodes import Call, Column, Constant, Expr, Literal
from lancecy.index.condition import Condition
from lancecy.index.files import IndexFile
from lancecy.index.found import FoundRows
from lancecy.index.segment import Segment
from lancecy.index.xxhash import xxh64
from lancecy.index.zones import ZONE_COLUMNS, Zones
from lancecy.records import dataclass
from lancecy.store.base import Memory

__all__ = ["BLOOM_FILE", "BloomFilter"]

Bool: TypeAlias = NDArray[np.bool_]
Int64: TypeAlias = NDArray[np.int64]

BLOOM_FILE = "bloomfilter.lance"
_BLOCK_BYTES = 32
_SALTS = np.array(
    (
        0x47B6137B,
        0x44974D91,
        0x8824AD5B,
        0xA2B7289D,
        0x705495C7,
        0x2DF1424B,
        0x9EFC4947,
        0x5C6BFB31,
    ),
    np.uint32,
)
_MOST_VALUES = 256
_HALF = np.uint64(32)


@dataclass(frozen=True, slots=True, eq=False)
class BloomFilter:
    """An opened BLOOMFILTER segment.

    Attributes
    ----------
    zones : Zones
    has_null : (num_zones,) bool
        In the order of the file, as the others.
    starts, blocks : (num_zones,) int64
        First byte and number of blocks of each filter.
    filters : (nbytes,) uint8
    """

    zones: Zones
    has_null: Bool
    starts: Int64
    blocks: Int64
    filters: Memory

    @classmethod
    def open(cls, segment: Segment) -> BloomFilter:
        """Open the file of a segment.

        Raises
        ------
        FormatError, LimitError, UnsupportedError
            It is damaged.
        DatasetNotFoundError
            It is missing.
        """
        file = segment.file(BLOOM_FILE)
        nulls, data, *places = file.read(["has_null", "bloom_filter_data", *ZONE_COLUMNS])
        zones = Zones.of(file, places)
        if nulls.null_count or not pa.types.is_boolean(nulls.type):
            raise FormatError("has_null is no boolean column").within(file.source.path)
        return cls(zones, numbers_of(nulls), *_filters(file, data))

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return 1000 + self.zones.nbytes + self.filters.nbytes + 20 * self.starts.size

    def find(self, condition: Condition, segment: Segment) -> FoundRows | None:
        """The rows of the zones in which a condition may be true; those of a null test exactly."""
        nulls = self.zones.tested_for_null(condition.bound.expr, segment)
        if nulls is not None:
            return nulls
        possible = self._possible(condition.bound.expr)
        return None if possible is None or possible.all() else self.zones.ruled_out(~possible)

    def _possible(self, expr: Expr) -> Bool | None:
        """The zones in which a condition may be true; None if nothing is known."""
        if not isinstance(expr, Call):
            return None
        if expr.op in ("and", "or"):
            parts = [self._possible(arg) for arg in expr.args]
            known = [part for part in parts if part is not None]
            if expr.op == "and":
                return np.logical_and.reduce(known) if known else None
            return np.logical_or.reduce(known) if len(known) == len(parts) else None
        if not isinstance(expr.args[0], Column):
            return None
        if expr.op == "is_null":
            return self.has_null
        constant = expr.args[1] if expr.op in ("=", "in") else None
        return self._may_have(constant, expr.args[0].type) if isinstance(constant, Literal) else None

    def _may_have(self, constant: Literal, data_type: pa.DataType | None) -> Bool | None:
        values = constant.value if isinstance(constant.value, tuple) else (constant.value,)
        values = tuple(value for value in values if value is not None)
        if data_type is None or not _is_hashed(data_type) or len(values) > _MOST_VALUES:
            return None
        if family(data_type) == "float" and 0.0 in values:
            values = (*values, 0.0, -0.0)
        found = np.zeros(self.starts.size, np.bool_)
        for value in values:
            found |= self._may_have_hash(xxh64(_value_bytes(value, data_type)))
        return found

    def _may_have_hash(self, number: int) -> Bool:
        upper, lower = np.uint64(number >> 32), np.uint32(number & 0xFFFFFFFF)
        block = ((self.blocks.astype(np.uint64) * upper) >> _HALF).astype(np.int64)
        first = self.starts + block * _BLOCK_BYTES
        words = self.filters[first[:, np.newaxis] + np.arange(_BLOCK_BYTES)].view("<u4")
        with np.errstate(over="ignore"):
            bits = np.uint32(1) << ((lower * _SALTS) >> np.uint32(27))
        found: Bool = ((words & bits) != 0).all(axis=1)
        return found


def _is_hashed(data_type: pa.DataType) -> bool:
    """Whether the bytes that are hashed are known."""
    types = pa.types
    if types.is_date32(data_type) or types.is_timestamp(data_type) or types.is_integer(data_type):
        return True
    if types.is_float32(data_type) or types.is_float64(data_type):
        return True
    return family(data_type) == "text" or types.is_binary(data_type) or types.is_large_binary(data_type)


def _value_bytes(value: Constant, data_type: pa.DataType) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    whole = pa.types.is_timestamp(data_type) or pa.types.is_date32(data_type)
    width = data_type.bit_width // 8
    if whole or pa.types.is_integer(data_type):
        return int(value).to_bytes(width, "little", signed=not pa.types.is_unsigned_integer(data_type))  # type: ignore[arg-type]
    return np.array(value, f"<f{width}").tobytes()


def _filters(file: IndexFile, data: pa.Array) -> tuple[Int64, Int64, Memory]:
    """First byte and blocks of each filter, and the bytes of all."""
    if data.null_count or not pa.types.is_binary(data.type):
        raise FormatError("filters are null or no bytes").within(file.source.path)
    _, places, held = data.buffers()
    offsets = np.frombuffer(places, np.int32)[data.offset :][: len(data) + 1].astype(np.int64)
    sizes = np.diff(offsets)
    if bool((sizes % _BLOCK_BYTES != 0).any()) or bool((sizes == 0).any()):
        raise FormatError(f"a filter is not made of blocks of {_BLOCK_BYTES} bytes").within(file.source.path)
    filters = np.frombuffer(held, np.uint8) if held is not None else np.empty(0, np.uint8)
    return offsets[:-1], sizes // _BLOCK_BYTES, filters
