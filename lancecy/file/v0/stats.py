"""Statistics pages of 0.1 files as a ``StatsTable``, as far as they are reliable.

A 0.1 file may hold, per data field and batch, a null count, a minimum and a maximum over the writer's input.
Nulls in the input are read back as other values, so these rules keep only statistics that hold for the values that
a reader returns:

- A field that is no string keeps the bytes under a null and reads them as values: its
  bounds count only where there was no null. It never reads back as null.
- A nullable string keeps bytes under a null as well, if the writer's array had any. Its
  bounds count only where there was no null; "no nulls" also needs a minimum, since
  an empty value (which reads back as null) is counted nowhere but leaves none.
- A maximum of text longer than 61 bytes may be too low, since pylance cuts values at 64 bytes or the
  character before; it is replaced by one that is not (:func:`_loosened`).
- Bounds may be loose; a missing one excludes nothing. NaN is outside all bounds.
- Minimum above maximum, impossible counts, pages of the wrong length: ignored.

- Bounds of a column with a dictionary have the type of the dictionary's values, and hold like those of text: an
  empty text in a dictionary reads back as null, whatever the field states.

Source: file sheet 0.1, section 6, in particular 6.7.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lancecy.encodings.model.block import Block, FixedWidth, VariableWidth
from lancecy.encodings.model.chunks import whole_runs
from lancecy.encodings.model.fields import spec_of
from lancecy.encodings.model.spec import NullOf, Plain, Spec, VarBinary
from lancecy.encodings.v0.read import ColumnSource, read_column
from lancecy.encodings.v0.stats import BYTE_KINDS, TEXT_KINDS, bounds_kind, number_dtype
from lancecy.errors import FormatError
from lancecy.file.v0.meta import CELL_BYTES, PageTable, check_pages
from lancecy.file.v0.wire import decode_statistics
from lancecy.limits import Limits
from lancecy.records import dataclass
from lancecy.schema import Field
from lancecy.stats import ByteBounds, ColumnStats, NumericBounds
from lancecy.store.reads import Ranges, Read, SourceFile, gather

__all__ = ["StoredStats", "column_stats", "open_stats", "without_bounds"]

Int64 = NDArray[np.int64]
Bools = NDArray[np.bool_]

_FLOATS = ("halffloat", "float", "double")
_SHORTEST_CUT = 61


@dataclass(frozen=True, slots=True, eq=False)
class StoredStats:
    """The statistics of one file, located but not read.

    Attributes
    ----------
    file : SourceFile
    num_units : int
        Batches of the file; every statistics page must have as many entries.
    table : PageTable
        Page table of the statistics' own fields, one cell each.
    fields : mapping of data field id to (null count, minimum, maximum) Field
    """

    file: SourceFile
    num_units: int
    table: PageTable
    fields: Mapping[int, tuple[Field, Field, Field]]


def open_stats(file: SourceFile, message: bytes, num_units: int, limits: Limits) -> Read[StoredStats]:
    """Locate the statistics pages of a file; one round of requests.

    Raises
    ------
    FormatError, LimitError
        The message or its page table is damaged.
    """
    stored = decode_statistics(message, limits)
    nbytes = limits.check("columns", stored.num_ids, "number of statistics columns") * CELL_BYTES
    position = stored.page_table_position
    if position > file.size or nbytes > file.size - position:
        raise FormatError("the page table of the statistics lies outside the file", position=position)
    (span,) = yield [Ranges(file, np.array([position], np.int64), np.array([nbytes], np.int64))]
    start = int(span.positions[0])
    table = PageTable.parse(span.memory[start : start + nbytes], 0, stored.num_ids, 1)
    return StoredStats(file, num_units, table, stored.fields)


def without_bounds(leaf: Field, num_units: int) -> ColumnStats | None:
    """Statistics of a column without stored ones: only strings and the null type can read back as null."""
    spec = spec_of(leaf)
    all_null = np.full(num_units, isinstance(spec, NullOf))
    no_nulls = np.full(
        num_units, isinstance(spec, Plain) or (isinstance(spec, VarBinary) and not spec.nullable)
    )
    if not (all_null.any() or no_nulls.any()):
        return None
    return ColumnStats(None, no_nulls, all_null, may_have_nan=leaf.logical_type in _FLOATS)


def column_stats(
    stored: StoredStats, leaf: Field, rows: Int64, gaps: Int64, limits: Limits
) -> Read[ColumnStats | None]:
    """Statistics of one data column, as far as they hold for the values a reader returns.

    Parameters
    ----------
    stored : StoredStats
    leaf : Field
        The data field.
    rows : (num_units,) int64
        Rows of each batch.
    gaps : (num_units,) int64, bytes
        Gap before each of the column's pages; a string page without a gap has no bytes.
    limits : Limits

    Returns
    -------
    Read of ColumnStats, or of None when the file has none for the column

    Raises
    ------
    FormatError
        A statistics page lies outside the file.
    """
    parts, kind = stored.fields.get(leaf.id), bounds_kind(leaf.logical_type)
    if parts is None or kind is None or {part.logical_type for part in parts[1:]} != {kind}:
        return without_bounds(leaf, rows.size)
    value_spec = VarBinary(8, True) if kind in BYTE_KINDS else spec_of(parts[1])
    specs = (Plain(64), value_spec, value_spec)
    blocks = yield from gather(
        [_read_page(stored, part, spec, limits) for part, spec in zip(parts, specs, strict=True)]
    )
    nulls, low, high = blocks
    if not isinstance(nulls, FixedWidth) or low is None or high is None:
        return without_bounds(leaf, rows.size)
    null_counts = np.frombuffer(nulls.values, "<i8")  # type: ignore[call-overload]
    if isinstance(low, VariableWidth) and isinstance(high, VariableWidth):
        return _byte_stats(leaf, null_counts, low, high, rows, gaps)
    if isinstance(low, FixedWidth) and isinstance(high, FixedWidth):
        return _number_stats(kind, null_counts, low, high, rows)
    return without_bounds(leaf, rows.size)


def _read_page(stored: StoredStats, part: Field, spec: Spec, limits: Limits) -> Read[Block | None]:
    """Read one statistics column; None if its page length is not the number of batches."""
    positions, lengths = stored.table.row(part.id)
    if int(lengths[0]) != stored.num_units:
        return None
    if isinstance(spec, Plain):
        nbytes = (stored.num_units * spec.bits + 7) >> 3
        if not 0 <= int(positions[0]) <= stored.file.size - nbytes:
            raise FormatError(f"a statistics page lies outside the file: column {part.id}", position=0)
        (span,) = yield [Ranges(stored.file, positions, np.array([nbytes], np.int64))]
        start = int(span.positions[0])
        return FixedWidth(stored.num_units, spec.bits, span.memory[start : start + nbytes])
    starts = np.array([0, stored.num_units], np.int64)
    pages = check_pages(stored.table, part, spec, starts, stored.file.size, limits)
    source = ColumnSource(stored.file, pages, _no_dictionary)
    return (yield from read_column(spec, part.id, source, whole_runs(pages[part.id].lengths)))


def _no_dictionary(column_id: int) -> Read[Block]:
    raise FormatError(f"statistics of column {column_id} are a dictionary")


# -- numbers ---------------------------------------------------------------------------


def _number_stats(kind: str, nulls: Int64, low: FixedWidth, high: FixedWidth, rows: Int64) -> ColumnStats:
    lows, highs = _numbers(low, kind), _numbers(high, kind)
    # The comparison is also false for NaN, which some writers store as a bound.
    known = np.less_equal(lows, highs).astype(np.bool_) & (nulls == 0)
    always, never = np.ones(rows.size, np.bool_), np.zeros(rows.size, np.bool_)
    return ColumnStats(NumericBounds(lows, highs, known), always, never, may_have_nan=kind in _FLOATS)


def _numbers(block: FixedWidth, kind: str) -> NDArray[Any]:
    """(num_units,) int64, uint64 or float64; objects holding int for decimals."""
    raw = np.frombuffer(block.values, np.uint8)  # type: ignore[call-overload]
    if kind == "bool":
        return np.unpackbits(raw, count=block.length, bitorder="little").astype(np.int64)
    if kind.startswith("decimal"):
        halves = raw.view("<u8").reshape(-1, 2)
        # Whole arrays of Python integers: NumPy has no type of 128 bits.
        high, low = halves[:, 1].view("<i8").astype(object), halves[:, 0].astype(object)
        unscaled: NDArray[Any] = (high << 64) | low
        return unscaled
    values: NDArray[Any] = raw.view(number_dtype(kind))
    if kind == "uint64":
        return values.astype(np.uint64)
    return values.astype(np.float64 if kind in _FLOATS else np.int64)


# -- strings ---------------------------------------------------------------------------


def _byte_stats(
    leaf: Field, nulls: Int64, low: VariableWidth, high: VariableWidth, rows: Int64, gaps: Int64
) -> ColumnStats:
    low_offsets, low_bytes = _strings(low)
    high_offsets, high_bytes = _strings(high)
    # A bound without bytes counts as missing, even if it stands for an empty string.
    has_low, has_high = np.diff(low_offsets) > 0, np.diff(high_offsets) > 0
    clean = nulls == 0
    both = np.flatnonzero(has_low & has_high & clean)
    crossed = both[_greater(low_offsets, low_bytes, high_offsets, high_bytes, both)]
    clean[crossed] = False
    if bounds_kind(leaf.logical_type) in TEXT_KINDS:
        high_offsets, high_bytes = _loosened(high_offsets, high_bytes)
    has_low &= clean
    has_high &= clean
    bounds = ByteBounds(low_offsets, low_bytes, has_low, high_offsets, high_bytes, has_high)
    if not leaf.nullable and not leaf.logical_type.startswith("dict:"):
        return ColumnStats(bounds, np.ones(rows.size, np.bool_), np.zeros(rows.size, np.bool_))
    # Nulls of the input may have bytes and are then read back as values; a page without a gap has no bytes.
    all_null = (nulls == rows) & (gaps == 0) & (rows > 0)
    return ColumnStats(bounds, has_low.copy(), all_null)


def _loosened(offsets: Int64, data: NDArray[np.uint8]) -> tuple[Int64, NDArray[np.uint8]]:
    """Raise maxima of text so that they hold, although pylance cuts values at whole characters.

    Each value longer than 64 bytes counts as its longest prefix of whole characters within 64, which may
    have 61 bytes; the maximum is the greatest of these prefixes, raised by one. A value whose prefix is short
    can be above that: 63 times "x" and then "é" comes after 64 times "x", raised to "x...xy". All prefixes of
    the greatest have 61 bytes in common with it, so those, raised by one, are above every value.
    """
    lengths = np.diff(offsets)
    long = lengths > _SHORTEST_CUT
    if not long.any():
        return offsets, data
    kept = np.where(long, _SHORTEST_CUT, lengths)
    shorter = np.concatenate((np.zeros(1, np.int64), np.cumsum(kept)))
    at = np.arange(shorter[-1]) + np.repeat(offsets[:-1] - shorter[:-1], kept)
    values = data[at]
    # UTF-8 has no byte 0xFF; in a damaged file it is not raised, and is above all text.
    last = shorter[1:][long] - 1
    values[last] = np.minimum(values[last], 0xFE) + 1
    return shorter, values


def _strings(block: VariableWidth) -> tuple[Int64, NDArray[np.uint8]]:
    offsets = np.frombuffer(block.offsets, "<i8")  # type: ignore[call-overload]
    return offsets, np.frombuffer(block.values, np.uint8)  # type: ignore[call-overload]


def _greater(
    a_offsets: Int64, a_bytes: NDArray[np.uint8], b_offsets: Int64, b_bytes: NDArray[np.uint8], units: Int64
) -> Bools:
    """(num_units chosen,) bool: the first string is above the second, byte by byte."""
    width = 8
    above = np.zeros(units.size, np.bool_)
    undecided = np.arange(units.size)
    start = 0
    # The first eight bytes decide most pairs; the others are compared in slabs of growing width.
    while undecided.size:
        at = units[undecided]
        a, a_left = _slab(a_offsets, a_bytes, at, start, width)
        b, b_left = _slab(b_offsets, b_bytes, at, start, width)
        differ = a != b
        first = differ.argmax(axis=1)
        row = np.arange(at.size)
        above[undecided] = a[row, first] > b[row, first]
        undecided = undecided[~differ.any(axis=1) & ((a_left > width) | (b_left > width))]
        start += width
        width *= 2
    return above


def _slab(
    offsets: Int64, data: NDArray[np.uint8], units: Int64, start: int, width: int
) -> tuple[NDArray[np.int16], Int64]:
    """Bytes ``start`` to ``start + width`` of each string, -1 past its end; how many are left from there."""
    left = offsets[units + 1] - offsets[units] - start
    inside = np.arange(width) < left[:, None]
    at = np.where(inside, (offsets[units] + start)[:, None] + np.arange(width), 0)
    return np.where(inside, data[at].astype(np.int16), np.int16(-1)), left
