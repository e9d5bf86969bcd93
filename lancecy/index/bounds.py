"""Bounds of pages and zones in an index, as statistics that prove that no row matches."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.encodings.arrow.conversions import filled, numbers_of
from lancecy.expr.kinds import family
from lancecy.stats import ByteBounds, ColumnStats, NumericBounds

__all__ = ["column_stats", "indexed_type", "is_bounded"]

Bool: TypeAlias = NDArray[np.bool_]
Int64: TypeAlias = NDArray[np.int64]

_BYTES = ("text", "binary")
_FAMILIES = (
    *_BYTES,
    *"boolean integer float decimal date timestamp time interval".split(),
)


def indexed_type(data_type: pa.DataType) -> pa.DataType:
    """Type of the values that an index has of a column: what is stored under an extension type.

    JSON stays as it is: it is stored in another form than expressions see, and indices of it are not used.

    Parameters
    ----------
    data_type : pyarrow.DataType
        Of the column.

    Examples
    --------
    >>> indexed_type(pa.uuid())
    FixedSizeBinaryType(fixed_size_binary[16])
    """
    is_stored = isinstance(data_type, pa.BaseExtensionType) and not isinstance(data_type, pa.JsonType)
    return data_type.storage_type if is_stored else data_type


def is_bounded(data_type: pa.DataType) -> bool:
    """Whether values of a type have an order that conditions use."""
    return family(data_type) in _FAMILIES and not pa.types.is_dictionary(data_type)


def column_stats(
    lows: pa.Array, highs: pa.Array, null_counts: Int64, row_counts: Int64, may_have_nan: bool = False
) -> ColumnStats:
    """Statistics of a column in several units.

    Parameters
    ----------
    lows, highs : (num_units,) arrays of the column's type
        Smallest and largest value; null without any. A null minimum with a maximum is an unknown one. A NaN is no
        bound.
    null_counts, row_counts : (num_units,) int64
    may_have_nan : bool
        A NaN may be among the values even if no bound is one.
    """
    kind = family(lows.type)
    no_nulls, all_null = null_counts == 0, null_counts >= row_counts
    has_low, has_high = (_valid(values) for values in (lows, highs))
    if kind in _BYTES:
        bounds: ByteBounds | NumericBounds = ByteBounds(*_bytes(lows), has_low, *_bytes(highs), has_high)
        return ColumnStats(bounds, no_nulls, all_null)
    low, high = _numbers(lows), _numbers(highs)
    if kind == "float":
        no_low, no_high = np.isnan(low), np.isnan(high)
        may_have_nan = may_have_nan or bool((no_low & has_low).any() or (no_high & has_high).any())
        low, high = np.where(no_low, -np.inf, low), np.where(no_high, np.inf, high)
    if low.dtype != object:
        least = -np.inf if low.dtype.kind == "f" else np.iinfo(low.dtype).min
        low = np.where(has_low, low, np.array(least, low.dtype))
        has_low = has_high
    return ColumnStats(NumericBounds(low, high, has_low & has_high), no_nulls, all_null, may_have_nan)


def _valid(values: pa.Array) -> Bool:
    return numbers_of(values.is_valid())


def _bytes(values: pa.Array) -> tuple[Int64, NDArray[np.uint8]]:
    """Offsets and bytes of texts; a null has none."""
    whole = filled(values.cast(pa.large_binary()), b"")
    _, places, held = whole.buffers()
    offsets = np.frombuffer(places, np.int64)[whole.offset : whole.offset + len(whole) + 1]
    data = np.frombuffer(held, np.uint8) if held is not None else np.empty(0, np.uint8)
    return offsets, data


def _numbers(values: pa.Array) -> NDArray[Any]:
    """Values as integers or doubles, in the unit of the column; anything where it is null."""
    kind = family(values.type)
    if kind == "decimal":
        return _unscaled(values)
    if kind == "boolean":
        return numbers_of(filled(values.cast(pa.uint8()), 0)).astype(np.int64)
    if kind in ("date", "time", "timestamp", "interval"):
        values = values.view(pa.int32() if values.type.bit_width == 32 else pa.int64())
    plain = numbers_of(values) if values.null_count == 0 else _filled(values)
    if kind == "float":
        return plain.astype(np.float64)
    return plain.astype(np.uint64 if pa.types.is_uint64(values.type) else np.int64)


def _filled(values: pa.Array) -> NDArray[Any]:
    """A primitive array as its buffer has it, with something for each null."""
    width = values.type.bit_width // 8
    kind = {"integer": "u" if pa.types.is_unsigned_integer(values.type) else "i"}.get(
        family(values.type), "f"
    )
    data = values.buffers()[1]
    return np.frombuffer(data, f"<{kind}{width}")[values.offset : values.offset + len(values)]


def _unscaled(values: pa.Array) -> NDArray[Any]:
    """Decimals as Python's integers, without their scale."""
    width = values.type.bit_width // 64
    data = values.buffers()[1]
    words = np.frombuffer(data, "<u8").reshape(-1, width)[values.offset : values.offset + len(values)]
    found = words[:, -1].view("<i8").astype(object)
    for part in range(width - 2, -1, -1):
        found = found * (1 << 64) + words[:, part].astype(object)
    return found
