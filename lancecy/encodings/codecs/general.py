"""Whole buffers compressed with LZ4 or ZSTD: one, or many of a column at once.

Layout of a compressed buffer::

    LZ4    u32 length of the result | raw LZ4 block
    ZSTD   u64 length of the result | zstd frame
           zstd frame alone (old files)

An empty buffer decompresses to an empty one. Before memory is allocated, the claimed length is checked against the
codec's highest compression ratio and against ``Limits.page_bytes``.

Many small ZSTD frames are decompressed as one stream: the library sets up its tables for every call, which takes
several times as long as a chunk of 4 KiB. This is done only if the header of each frame repeats the claimed length,
so that no frame can fill the space of another.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.blocks.memory import allocate
from lancecy.errors import FormatError, LimitError, TruncatedError
from lancecy.limits import Limits
from lancecy.store.base import Memory

__all__ = ["compress", "decompress", "decompress_many"]

Int64 = NDArray[np.int64]

LZ4, ZSTD = "lz4", "zstd"

_LZ4_PREFIX, _ZSTD_PREFIX = 4, 8
_ZSTD_LEVEL = 3
"""The level that the reference writes."""
_LZ4_REACH = 255
# Highest ratio of ZSTD: a block of 128 KiB that repeats one byte takes four bytes.
_ZSTD_BLOCK, _ZSTD_BLOCK_COST = 128 << 10, 4
# Where many buffers together pass Limits.page_bytes, each present byte may expand to this many.
_TOTAL_REACH = 256

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
# No frame header is longer: magic, descriptor, window, dictionary id, content size.
_MAX_HEADER = 18
_READ = 1 << 20
_NONE = np.empty(0, np.uint8)


def decompress(scheme: str, data: Memory, limits: Limits) -> Memory:
    r"""Decompress a buffer.

    Parameters
    ----------
    scheme : 'lz4' or 'zstd'
    data : (nbytes,) uint8
        The whole buffer, with the length before it.
    limits : Limits
        ``page_bytes`` bounds the result.

    Returns
    -------
    (size,) uint8
        Fresh memory; an empty buffer gives an empty one.

    Raises
    ------
    FormatError
        It is not of that scheme, or its result has another length than it claims.
    LimitError
        It claims more than ``Limits.page_bytes``.
    ValueError
        ``scheme`` is another one.

    Notes
    -----
    Source: file version 2.0, compression of flat buffers; 2.1 and later, general compression. The frame
    without a length was written by releases before 0.26.

    Examples
    --------
    >>> import numpy as np
    >>> from lancecy.limits import DEFAULT_LIMITS
    >>> block = np.frombuffer(b"\x05\x00\x00\x00\x50lance", np.uint8)
    >>> decompress("lz4", block, DEFAULT_LIMITS).tobytes()
    b'lance'
    """
    memory, _, _ = decompress_many(scheme, data, np.zeros(1, np.int64), np.array([data.size]), limits)
    return memory


def compress(scheme: str, data: Memory) -> bytes:
    """Compress a buffer, its length before it; the inverse of :func:`decompress`.

    Parameters
    ----------
    scheme : 'lz4' or 'zstd'
    data : (nbytes,) uint8

    Examples
    --------
    >>> import numpy as np
    >>> compress("lz4", np.frombuffer(b"lance", np.uint8)).hex()
    '05000000506c616e6365'
    """
    codec = pa.Codec("lz4_raw") if scheme == LZ4 else pa.Codec(ZSTD, compression_level=_ZSTD_LEVEL)
    prefix = data.size.to_bytes(_LZ4_PREFIX if scheme == LZ4 else _ZSTD_PREFIX, "little")
    packed: bytes = codec.compress(pa.py_buffer(data), asbytes=True)
    return prefix + packed


def decompress_many(
    scheme: str, memory: Memory, positions: Int64, lengths: Int64, limits: Limits
) -> tuple[Memory, Int64, Int64]:
    """Decompress several buffers, one after the other.

    Parameters
    ----------
    scheme : 'lz4' or 'zstd'
    memory : (nbytes,) uint8
    positions, lengths : (num_buffers,) int64, bytes
        Span of each buffer in ``memory``.
    limits : Limits
        ``page_bytes`` bounds each result.

    Returns
    -------
    memory : (total,) uint8
        Fresh memory.
    positions, lengths : (num_buffers,) int64, bytes
        Span of each result in it.

    Raises
    ------
    FormatError
        A buffer is outside ``memory``, not of that scheme, or its result has another length than it claims;
        ``position`` is its index.
    LimitError
        A buffer, or all together, claim more than ``Limits.page_bytes``.
    ValueError
        ``scheme`` is another one.
    """
    if scheme not in (LZ4, ZSTD):
        raise ValueError(f"no such compression: {scheme!r}")
    _check_spans(memory, positions, lengths)
    filled = np.flatnonzero(lengths)
    unpack = _unpack_lz4 if scheme == LZ4 else _unpack_zstd
    result, filled_sizes = unpack(memory, positions[filled], lengths[filled], limits)
    sizes = np.zeros(lengths.size, np.int64)
    sizes[filled] = filled_sizes
    return result, np.cumsum(sizes) - sizes, sizes


def _check_spans(memory: Memory, positions: Int64, lengths: Int64) -> None:
    bad = np.flatnonzero((positions < 0) | (lengths < 0) | (lengths > memory.size - positions))
    if bad.size:
        raise TruncatedError("a compressed buffer is not in the bytes present", position=int(bad[0]))


def _numbers(memory: Memory, positions: Int64, width: int) -> Int64:
    """Unsigned little-endian numbers of 4 or 8 bytes, capped at the int64 maximum."""
    out = np.empty(positions.size, f"<u{width}")
    kernels.gather_fixed(memory, positions, width, out.view(np.uint8))
    return np.minimum(out, np.uint64(2**63 - 1)).astype(np.int64)


def _check_sizes(sizes: Int64, reach: Int64, nbytes: int, limits: Limits) -> None:
    """Check the claimed sizes of buffers against what their bytes can expand to, and against the limit."""
    over = np.flatnonzero(sizes > reach)
    if over.size:
        at = int(over[0])
        raise FormatError(
            f"a compressed buffer claims {sizes[at]} bytes, more than its bytes can stand for", position=at
        )
    largest, total = int(sizes.max(initial=0)), sum(sizes.tolist())
    limits.check("page_bytes", largest, "decompressed size")
    if total > max(limits.page_bytes, _TOTAL_REACH * nbytes):
        what = f"decompressed size of {total} for {sizes.size} buffers of {nbytes} bytes is beyond the limit"
        raise LimitError(what, limit="page_bytes", claimed=total)


# -- LZ4 -----------------------------------------------------------------------------


def _unpack_lz4(memory: Memory, positions: Int64, lengths: Int64, limits: Limits) -> tuple[Memory, Int64]:
    short = np.flatnonzero(lengths < _LZ4_PREFIX)
    if short.size:
        raise TruncatedError("an LZ4 buffer ends within its length", position=int(short[0]))
    sizes = _numbers(memory, positions, _LZ4_PREFIX)
    _check_sizes(sizes, lengths * _LZ4_REACH, int(lengths.sum()), limits)
    _, out = allocate(int(sizes.sum()))
    kernels.lz4_blocks(memory, positions + _LZ4_PREFIX, lengths - _LZ4_PREFIX, sizes, out)
    return out, sizes


# -- ZSTD ----------------------------------------------------------------------------


def _unpack_zstd(memory: Memory, positions: Int64, lengths: Int64, limits: Limits) -> tuple[Memory, Int64]:
    heads = _first_bytes(memory, positions, lengths)
    is_bare = (lengths < _ZSTD_PREFIX) | (_is_frame(heads) & (heads[:, 4] & 0x10 == 0))
    skip = np.where(is_bare, 0, _ZSTD_PREFIX)
    positions, lengths = positions + skip, lengths - skip
    stated = _content_sizes(_first_bytes(memory, positions, lengths))
    claimed = np.where(is_bare, stated, heads[:, :8].copy().view("<u8")[:, 0].astype(np.int64))
    claimed[~is_bare & (claimed < 0)] = 2**63 - 1
    reach = (lengths // _ZSTD_BLOCK_COST + 1) * _ZSTD_BLOCK
    _check_sizes(claimed, reach, int(lengths.sum()), limits)
    if (stated == claimed).all() and (claimed >= 0).all():
        joined = _frames_at_once(memory, positions, lengths, int(claimed.sum()))
        if joined is not None:
            return joined, claimed
    spans = zip(positions.tolist(), lengths.tolist(), claimed.tolist(), strict=True)
    parts = [_frame(memory[at : at + n], size, limits, i) for i, (at, n, size) in enumerate(spans)]
    sizes = np.array([part.size for part in parts], np.int64)
    return np.concatenate([_NONE, *parts]), sizes


def _first_bytes(memory: Memory, positions: Int64, lengths: Int64) -> NDArray[np.uint8]:
    """(num_buffers, 18) uint8: the first bytes of each buffer, zeros where it is shorter."""
    at = np.arange(_MAX_HEADER)
    present = at < lengths[:, None]
    heads = np.zeros(present.shape, np.uint8)
    heads[present] = memory[(positions[:, None] + at)[present]]
    return heads


def _is_frame(heads: NDArray[np.uint8]) -> NDArray[np.bool_]:
    return np.asarray((heads[:, :4] == np.frombuffer(_ZSTD_MAGIC, np.uint8)).all(axis=1))


def _content_sizes(heads: NDArray[np.uint8]) -> Int64:
    """Content length in frame headers; -1 where a header has none, or is invalid."""
    flag, is_single = heads[:, 4] >> 6, heads[:, 4] >> 5 & 1
    at = 6 - is_single + np.array([0, 1, 2, 4])[heads[:, 4] & 3]
    width = np.array([0, 2, 4, 8])[flag] + (is_single & (flag == 0))
    field = np.take_along_axis(heads, at[:, None] + np.arange(8), axis=1)
    field[np.arange(8) >= width[:, None]] = 0
    sizes = field.view("<u8")[:, 0].astype(np.int64) + np.where(flag == 1, 256, 0)
    return np.where(_is_frame(heads) & (width > 0), sizes, -1)


def _frames_at_once(memory: Memory, positions: Int64, lengths: Int64, total: int) -> Memory | None:
    """Decompress all frames as one stream; None if one of them is damaged."""
    if positions.size == 1:
        frames = memory[int(positions[0]) : int(positions[0] + lengths[0])]
    else:
        frames = np.empty(int(lengths.sum()), np.uint8)
        kernels.copy_spans(memory, positions, lengths, frames)
    try:
        return np.frombuffer(pa.Codec(ZSTD).decompress(pa.py_buffer(frames), total), np.uint8)
    except OSError:
        return None


def _frame(frame: Memory, size: int, limits: Limits, number: int) -> Memory:
    """Decompress one frame; ``size`` is its claimed length, -1 if it has none."""
    try:
        if size < 0:
            return _stream(frame, limits)
        return np.frombuffer(pa.Codec(ZSTD).decompress(pa.py_buffer(frame), size), np.uint8)
    except OSError as error:
        raise FormatError(f"a ZSTD frame cannot be decompressed: {error}", position=number)


def _stream(frame: Memory, limits: Limits) -> Memory:
    """Decompress a frame without a content size until it ends or the limit is passed."""
    parts, total = [_NONE], 0
    with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(frame)), ZSTD) as stream:
        while part := stream.read(_READ):
            total += len(part)
            limits.check("page_bytes", total, "decompressed size")
            parts.append(np.frombuffer(part, np.uint8))
    return np.concatenate(parts)
