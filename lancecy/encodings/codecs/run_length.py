"""Run-length encoded values, whose values or lengths may themselves be encoded.

Plain parts are expanded in place. An encoded part is decoded first, and the other part gives the number of runs::

    plain values or lengths     as many as their bytes hold
    lengths given by the node   as many as it takes to reach the number of values of the chunk

Source: file sheet 2.1, sections 3.4 and 3.12.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.blocks.memory import allocate
from lancecy.encodings.codecs import general
from lancecy.encodings.codecs.arithmetic import has_payload
from lancecy.encodings.model.block import AllNull, Block, FixedWidth
from lancecy.encodings.model.chunks import Buffers, starts_of
from lancecy.encodings.model.spec import Compressed, Plain, Spec
from lancecy.errors import FormatError, UnsupportedError
from lancecy.limits import Limits
from lancecy.records import dataclass
from lancecy.rows import PageRuns
from lancecy.store.base import Memory

__all__ = ["RunPart", "expanded"]

Int64 = NDArray[np.int64]

Decoder: TypeAlias = Callable[[Spec, tuple[Buffers, ...], Int64], Block]
"""All values of a node: the node, buffers by its numbers, and the number of values per chunk."""


@dataclass(frozen=True, slots=True, eq=False)
class RunPart:
    """The values or the lengths of runs, in chunks.

    Attributes
    ----------
    spec : Spec
    buffers : tuple of Buffers
        By the numbers of ``spec``.
    decode : Decoder
    """

    spec: Spec
    buffers: tuple[Buffers, ...]
    decode: Decoder

    def opened(self, limits: Limits) -> RunPart:
        """The same part, decompressed.

        Raises
        ------
        FormatError, LimitError
            See ``general.decompress_many``.
        """
        if not isinstance(self.spec, Compressed):
            return self
        buffers, spec = list(self.buffers), self.spec
        source = buffers[spec.buffer]
        opened = general.decompress_many(spec.scheme, source.memory, source.positions, source.lengths, limits)
        buffers[spec.buffer] = Buffers(*opened)
        return replace(self, spec=spec.values, buffers=tuple(buffers)).opened(limits)

    def counts(self) -> Int64 | None:
        """Number of values in each chunk, if the bytes determine it."""
        if not isinstance(self.spec, Plain):
            return None
        if self.spec.bits == 0 or self.spec.bits % 8:
            raise FormatError(f"runs of values or lengths of {self.spec.bits} bits")
        return self.buffers[self.spec.buffer].lengths // (self.spec.bits >> 3)

    def stored(self, counts: Int64) -> tuple[Buffers, int] | None:
        """Plain bytes of ``counts`` values per chunk, and the bits of a value; None if all are null."""
        if isinstance(self.spec, Plain):
            return self.buffers[self.spec.buffer], self.spec.bits
        block = self.decode(self.spec, self.buffers, counts)
        if isinstance(block, AllNull):
            return None
        if not isinstance(block, FixedWidth) or block.bits % 8:
            raise FormatError("runs of values that have no width in bytes")
        width = block.bits >> 3
        memory: Memory = np.frombuffer(block.values, np.uint8, block.length * width)  # type: ignore[call-overload]
        return Buffers(memory, starts_of(counts)[:-1] * width, counts * width), block.bits


def expanded(values: RunPart, lengths: RunPart, counts: Int64, runs: PageRuns, limits: Limits) -> Block:
    """Decode selected values of chunks of runs.

    Parameters
    ----------
    values, lengths : RunPart
    counts : (num_chunks,) int64
        Values of each chunk, once repeated.
    runs : PageRuns
        The selected values.
    limits : Limits

    Raises
    ------
    FormatError
        Values and lengths differ in number, or lengths do not add up; ``position`` is the chunk.
    LimitError
        The values take more than ``limits.page_bytes``.
    UnsupportedError
        Both are coded and have bytes, so that the number of runs is unknown.
    """
    values, lengths = values.opened(limits), lengths.opened(limits)
    by_values, by_lengths = values.counts(), lengths.counts()
    known = by_lengths if by_values is None else by_values
    if known is None:
        lengths, known = _decoded_lengths(lengths, counts, limits)
    right = _stored_lengths(lengths, known)
    if by_values is None:
        _check_sums(*right, known, counts)
    left = values.stored(known)
    if left is None:
        return AllNull(runs.num_rows)
    return _repeated(left, right, counts, runs, limits)


def _decoded_lengths(lengths: RunPart, counts: Int64, limits: Limits) -> tuple[RunPart, Int64]:
    """Lengths without bytes, decoded, and how many of them add up to the values of each chunk."""
    if has_payload(lengths.spec):
        raise UnsupportedError("runs whose values and lengths are coded", feature="coded runs")
    limits.check("page_bytes", int(counts.sum()) * 8, "bytes of the lengths of runs")
    source, bits = _stored_lengths(lengths, counts)
    most = np.repeat(counts, counts).astype(np.uint64)
    ends = starts_of(np.minimum(_numbers(source, bits), most).astype(np.int64))
    first = starts_of(counts)[:-1]
    known = np.clip(np.searchsorted(ends, ends[first] + counts) - first, 0, counts)
    plain = Buffers(source.memory, source.positions, known * (bits >> 3))
    return RunPart(Plain(bits), (plain,), lengths.decode), known


def _stored_lengths(lengths: RunPart, counts: Int64) -> tuple[Buffers, int]:
    """``counts`` lengths per chunk as plain bytes, and the bits of a length."""
    found = lengths.stored(counts)
    if found is None:  # one repeated value without bytes is 0
        return Buffers(np.zeros(int(counts.sum()), np.uint8), starts_of(counts)[:-1], counts), 8
    if found[1] not in (8, 16, 32, 64):
        raise FormatError("lengths of runs are no integers")
    return found


def _check_sums(source: Buffers, bits: int, known: Int64, counts: Int64) -> None:
    """Raise FormatError unless the lengths of each chunk add up to its number of values."""
    memory = np.empty(int(source.lengths.sum()), np.uint8)
    kernels.copy_spans(source.memory, source.positions, source.lengths, memory)
    if bool((source.lengths != known * (bits >> 3)).any()):
        raise FormatError("values and lengths of runs differ in number")
    packed = Buffers(memory, starts_of(source.lengths)[:-1], source.lengths)
    numbers, most = _numbers(packed, bits), np.repeat(counts, known).astype(np.uint64)
    ends = starts_of(np.minimum(numbers, most).astype(np.int64))[starts_of(known)]
    wrong = np.diff(ends) != counts
    wrong[np.repeat(np.arange(counts.size), known)[numbers > most]] = True
    if bool(wrong.any()):
        chunk = int(np.argmax(wrong))
        raise FormatError(f"runs are not of {int(counts[chunk])} values", position=chunk)


def _numbers(source: Buffers, bits: int) -> NDArray[np.uint64]:
    """All unsigned numbers of chunks that lie back to back from the start of their memory."""
    total = int(source.lengths.sum()) // (bits >> 3)
    return np.frombuffer(source.memory, f"<u{bits >> 3}", total).astype(np.uint64)


def _repeated(
    left: tuple[Buffers, int], right: tuple[Buffers, int], counts: Int64, runs: PageRuns, limits: Limits
) -> FixedWidth:
    values, lengths, bits = left[0], right[0], left[1]
    if values.memory is not lengths.memory:
        values, lengths = _in_one_memory(values, lengths)
    if runs.num_rows and bits >> 3 > int(values.lengths.max(initial=0)):
        # Checked before the multiplication by the rows, because no stored bytes bound this width.
        raise FormatError(f"a value of {bits} bits is longer than all values of its chunk")
    nbytes = limits.check("page_bytes", (runs.num_rows * bits) >> 3, "bytes of the values of a page")
    buffer, out = allocate(nbytes)
    spans = (values.positions, values.lengths, lengths.positions, lengths.lengths)
    wanted = (runs.pages, runs.starts, runs.counts)
    kernels.expand_runs(values.memory, *spans, counts, bits >> 3, right[1] >> 3, *wanted, out)
    return FixedWidth(runs.num_rows, bits, buffer)


def _in_one_memory(left: Buffers, right: Buffers) -> tuple[Buffers, Buffers]:
    """Both parts in one memory, which the kernel requires; a decoded part is outside the chunks' memory."""
    start = int(left.lengths.sum())
    memory = np.empty(start + int(right.lengths.sum()), np.uint8)
    kernels.copy_spans(left.memory, left.positions, left.lengths, memory[:start])
    kernels.copy_spans(right.memory, right.positions, right.lengths, memory[start:])
    first, second = starts_of(left.lengths)[:-1], starts_of(right.lengths)[:-1] + start
    return Buffers(memory, first, left.lengths), Buffers(memory, second, right.lengths)
