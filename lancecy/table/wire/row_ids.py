"""Serialized row-id and row-version sequences to the values of ``rows.row_ids``.

Decoding is total: any bytes give a value or a ``FormatError`` or ``LimitError``. Ranges of any length
stay ranges; arrays take memory in proportion to their bytes, bitmaps up to 64 times as much. Ascending numbers are
written as a bitmap where that is smaller, as the reference implementation does: manifests repeat them at every commit.

Facts: table sheet, section 3.1 (bitmaps count bits from the lowest; only the lengths of the spans
in a version sequence are used).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from lancecy.errors import FormatError
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.proto import rowids_pb2
from lancecy.schema_wire import parse_message
from lancecy.table.rows.row_ids import (
    ArraySegment,
    HolesSegment,
    RangeSegment,
    RowIdSequence,
    Segment,
    UInt64,
    VersionSequence,
)

__all__ = ["decode_row_ids", "decode_versions", "encode_row_ids", "encode_versions", "largest_row_id"]

_END = 1 << 64
# Bytes of a bitmap that are expanded at once.
_EXPANDED = 1 << 16


def decode_row_ids(data: bytes, num_rows: int | None, limits: Limits = DEFAULT_LIMITS) -> RowIdSequence:
    """The row ids in a serialized ``RowIdSequence``.

    Parameters
    ----------
    data : bytes
    num_rows : int or None
        Physical rows of the fragment, if known; the number of ids must equal it.

    Raises
    ------
    FormatError
        Not such a message, an invalid segment, or a number of ids other than that of rows.
    LimitError
        The ids are more than the rows a fragment may have.

    Source: table sheet, section 3.1.
    """
    message = parse_message(rowids_pb2.RowIdSequence, data, "row-id sequence", limits)
    segments = _joined(_segment(part) for part in message.segments)
    starts = _starts((segment.count for segment in segments), num_rows, "row ids", limits)
    return RowIdSequence(segments, starts)


def largest_row_id(data: bytes, num_rows: int | None, limits: Limits = DEFAULT_LIMITS) -> int:
    """An upper bound of the row ids in a serialized sequence, -1 without ids; as tight as its segments allow.

    Parameters and errors as :func:`decode_row_ids`.

    Examples
    --------
    >>> ids = RowIdSequence((RangeSegment(7, 9),), np.array([0, 2]))
    >>> largest_row_id(encode_row_ids(ids), 2)
    8
    """
    message = parse_message(rowids_pb2.RowIdSequence, data, "row-id sequence", limits)
    if len(message.segments) == 1 and message.segments[0].HasField("range"):
        # Fast path for nearly every fragment; a table may have very many.
        start, stop = message.segments[0].range.start, message.segments[0].range.end
        if stop - start == num_rows and num_rows <= limits.rows_per_file:
            return stop - 1
    sequence = decode_row_ids(data, num_rows, limits)
    return max((segment.span[1] for segment in sequence.segments if segment.count), default=-1)


def decode_versions(data: bytes, num_rows: int | None, limits: Limits = DEFAULT_LIMITS) -> VersionSequence:
    """The versions in a serialized ``RowDatasetVersionSequence``; parameters and errors as :func:`decode_row_ids`."""
    message = parse_message(rowids_pb2.RowDatasetVersionSequence, data, "row-version sequence", limits)
    counts = (_count(run.span) for run in message.runs)
    starts = _starts(counts, num_rows, "row versions", limits)
    return VersionSequence(starts, np.array([run.version for run in message.runs], np.uint64))


def encode_row_ids(sequence: RowIdSequence) -> bytes:
    """A serialized ``RowIdSequence``, the opposite of :func:`decode_row_ids`; ranges stay ranges.

    Examples
    --------
    >>> ids = RowIdSequence((RangeSegment(7, 9),), np.array([0, 2]))
    >>> decode_row_ids(encode_row_ids(ids), 2).ids(0, 2)
    array([7, 8], dtype=uint64)
    """
    segments = [_segment_message(segment) for segment in sequence.segments]
    return rowids_pb2.RowIdSequence(segments=segments).SerializeToString()


def encode_versions(sequence: VersionSequence) -> bytes:
    """A serialized ``RowDatasetVersionSequence``; spans start at 0, because only their lengths are used."""
    runs = [
        rowids_pb2.RowDatasetVersionRun(span=_segment_message(RangeSegment(0, count)), version=version)
        for count, version in zip(np.diff(sequence.starts).tolist(), sequence.versions.tolist(), strict=True)
    ]
    return rowids_pb2.RowDatasetVersionSequence(runs=runs).SerializeToString()


def _segment_message(segment: Segment) -> rowids_pb2.U64Segment:
    message = rowids_pb2.U64Segment()
    if isinstance(segment, RangeSegment):
        message.range.start, message.range.end = segment.start, segment.stop
    elif isinstance(segment, HolesSegment):
        holes = (segment.ranks + np.arange(segment.ranks.size, dtype=np.int64)).view(np.uint64)
        span = segment.stop - segment.start
        if _takes_less(segment.start, span, holes):
            message.range_with_bitmap.CopyFrom(_bitmap_message(segment.start, span, holes, are_there=False))
        else:
            part = message.range_with_holes
            part.start, part.end = segment.start, segment.stop
            part.holes.CopyFrom(_array_message(segment.start, holes))
    else:
        offsets = segment.offsets.astype(np.uint64)
        ascends = bool((offsets[1:] > offsets[:-1]).all())
        first, last = (int(offsets[0]), int(offsets[-1])) if offsets.size else (0, -1)
        start, span = segment.base + first, last - first + 1
        if ascends and _takes_less(start, span, offsets):
            offsets -= np.uint64(first)
            message.range_with_bitmap.CopyFrom(_bitmap_message(start, span, offsets, are_there=True))
        else:
            target = message.sorted_array if ascends else message.array
            target.CopyFrom(_array_message(segment.base, offsets))
    return message


def _takes_less(start: int, span: int, numbers: UInt64) -> bool:
    """Whether a bitmap of so many bits takes less than an array of ascending numbers; its end must fit 64 bits."""
    if start + span >= _END:
        return False
    most = int(numbers[-1] - numbers[0]) if numbers.size else 0
    width = 2 if most < 1 << 16 else 4 if most < 1 << 32 else 8
    return (span + 7) >> 3 < numbers.size * width


def _bitmap_message(
    start: int, span: int, numbers: UInt64, *, are_there: bool
) -> rowids_pb2.U64Segment.RangeWithBitmap:
    """A range in which only these numbers, relative to its start, are there, or only they are not."""
    bits = np.zeros(span, np.bool_) if are_there else np.ones(span, np.bool_)
    bits[numbers] = are_there
    bitmap = np.packbits(bits, bitorder="little").tobytes()
    return rowids_pb2.U64Segment.RangeWithBitmap(start=start, end=start + span, bitmap=bitmap)


def _array_message(base: int, offsets: UInt64) -> rowids_pb2.EncodedU64Array:
    """Numbers relative to ``base``, each in the fewest bytes; the written base is their minimum."""
    message = rowids_pb2.EncodedU64Array()
    least, most = (int(offsets.min()), int(offsets.max())) if offsets.size else (0, 0)
    relative = offsets - np.uint64(least)
    if most - least < 1 << 16:
        message.u16_array.base, message.u16_array.offsets = base + least, relative.astype("<u2").tobytes()
    elif most - least < 1 << 32:
        message.u32_array.base, message.u32_array.offsets = base + least, relative.astype("<u4").tobytes()
    else:
        message.u64_array.values = (offsets + np.uint64(base)).astype("<u8").tobytes()
    return message


def _starts(counts: Iterable[int], num_rows: int | None, what: str, limits: Limits) -> NDArray[np.int64]:
    starts = list(accumulate(counts, initial=0))
    limits.check("rows_per_file", starts[-1], f"number of {what}")
    if num_rows is not None and starts[-1] != num_rows:
        raise FormatError(f"{starts[-1]} {what} for a fragment of {num_rows} rows")
    return np.array(starts, np.int64)


def _joined(segments: Iterable[Segment]) -> tuple[Segment, ...]:
    """The non-empty segments, with adjacent arrays merged: updates leave one array per thousand rows."""
    found: list[Segment] = []
    arrays: list[ArraySegment] = []
    for segment in segments:
        if isinstance(segment, ArraySegment):
            arrays.append(segment)
        elif segment.count:
            found.extend(_one_array(arrays))
            found.append(segment)
            arrays = []
    return (*found, *_one_array(arrays))


def _one_array(parts: list[ArraySegment]) -> list[ArraySegment]:
    """The numbers of several arrays in one; an empty list for no arrays."""
    kept = [part for part in parts if part.count]
    if len(kept) < 2:
        return kept
    spans = [part.span for part in kept]
    base, last = min(low for low, _ in spans), max(high for _, high in spans)
    numbers = np.concatenate([part.offsets.astype(np.uint64) + np.uint64(part.base) for part in kept])
    numbers -= np.uint64(base)
    return [ArraySegment(base, numbers.astype(np.min_scalar_type(max(last - base, 1 << 8))))]


def _count(span: rowids_pb2.U64Segment) -> int:
    """The number of numbers in a segment, most of which are ranges."""
    if span.HasField("range"):
        count: int = span.range.end - span.range.start
        if count >= 0:
            return count
    return _segment(span).count


def _segment(message: rowids_pb2.U64Segment) -> Segment:
    kind = message.WhichOneof("segment")
    if kind == "range":
        return _range(message.range.start, message.range.end)
    if kind == "range_with_holes":
        return _with_holes(message.range_with_holes)
    if kind == "range_with_bitmap":
        return _with_bitmap(message.range_with_bitmap)
    if kind == "sorted_array":
        return _array(message.sorted_array)
    if kind == "array":
        return _array(message.array)
    raise FormatError("a segment of row ids of no known kind")


def _range(start: int, stop: int) -> RangeSegment:
    if stop < start:
        raise FormatError(f"a range of row ids from {start} to {stop}")
    return RangeSegment(start, stop)


def _with_holes(message: rowids_pb2.U64Segment.RangeWithHoles) -> Segment:
    whole = _range(message.start, message.end)
    holes = _array(message.holes)
    values = holes.offsets.astype(np.uint64) + np.uint64(holes.base)
    if not values.size:
        return whole
    if (
        bool((values[1:] <= values[:-1]).any())
        or int(values[0]) < whole.start
        or int(values[-1]) >= whole.stop
    ):
        raise FormatError("holes in a range of row ids do not ascend or lie outside of it")
    if whole.count >> 63:
        raise FormatError(f"a range of {whole.count} row ids with holes")
    ranks = (values - np.uint64(whole.start)).astype(np.int64) - np.arange(values.size, dtype=np.int64)
    return HolesSegment(whole.start, whole.stop, ranks)


def _with_bitmap(message: rowids_pb2.U64Segment.RangeWithBitmap) -> Segment:
    whole = _range(message.start, message.end)
    if len(message.bitmap) != (whole.count + 7) // 8:
        raise FormatError(f"a bitmap of {len(message.bitmap)} bytes over {whole.count} row ids")
    packed = np.frombuffer(message.bitmap, np.uint8)
    if whole.count & 7 and int(packed[-1]) >> (whole.count & 7):
        raise FormatError("a bitmap of row ids has bits beyond its range")
    present = int(np.bitwise_count(packed).sum(dtype=np.int64))
    missing = whole.count - present
    if missing == 0:
        return whole
    if missing * 3 < whole.count:
        # 8 bytes per missing number take less than 4 per present one.
        ranks = np.empty(missing, np.int64)
        for rank, places in _places(packed, whole.count, are_there=False):
            ranks[rank : rank + places.size] = places - np.arange(rank, rank + places.size)
        return HolesSegment(whole.start, whole.stop, ranks)
    width: type[np.uint32 | np.uint64] = np.uint32 if whole.count <= 1 << 32 else np.uint64
    offsets = np.empty(present, width)
    for rank, places in _places(packed, whole.count, are_there=True):
        offsets[rank : rank + places.size] = places
    return ArraySegment(whole.start, offsets)


def _places(
    packed: NDArray[np.uint8], count: int, *, are_there: bool
) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Places of the bits that are set, or are not, and how many come before; in pieces, so that little is expanded."""
    rank = 0
    for start in range(0, packed.size, _EXPANDED):
        bits = np.unpackbits(packed[start : start + _EXPANDED], bitorder="little")[: count - 8 * start]
        places = np.flatnonzero(bits == are_there) + 8 * start
        yield rank, places
        rank += places.size


def _array(message: rowids_pb2.EncodedU64Array) -> ArraySegment:
    kind = message.WhichOneof("array")
    if kind == "u16_array":
        return _relative(message.u16_array.base, message.u16_array.offsets, "<u2")
    if kind == "u32_array":
        return _relative(message.u32_array.base, message.u32_array.offsets, "<u4")
    if kind == "u64_array":
        return _relative(0, message.u64_array.values, "<u8")
    raise FormatError("an array of row ids of no known kind")


def _relative(base: int, data: bytes, kind: str) -> ArraySegment:
    if len(data) % np.dtype(kind).itemsize:
        raise FormatError(f"an array of row ids of {len(data)} bytes")
    offsets = np.frombuffer(data, kind)
    if offsets.size and base + int(offsets.max()) >= _END:
        raise FormatError("a row id beyond 64 bits")
    return ArraySegment(base, offsets)
