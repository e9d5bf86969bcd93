"""The end of a file, read in one request, or two if it is large.

Data files have their metadata at the end. Opening requests the last bytes once; parts that lie before them are
requested together in a further round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from lancecy.errors import TruncatedError
from lancecy.store.base import Memory
from lancecy.store.reads import Ranges, Read, SourceFile

__all__ = ["TAIL_BYTES", "Tail", "read_parts", "read_tail"]

TAIL_BYTES = 64 << 10
"""Size of the first request; most files have all their metadata in it."""


@dataclass(frozen=True, slots=True, eq=False)
class Tail:
    """Bytes of a file from ``start`` on.

    Attributes
    ----------
    start : int, bytes
        Position in the file.
    memory : (nbytes,) uint8
    """

    start: int
    memory: Memory = field(default_factory=lambda: np.empty(0, np.uint8))

    @property
    def stop(self) -> int:
        """Position after the last byte that is held."""
        return self.start + self.memory.size

    def has(self, position: int, length: int) -> bool:
        """Whether all these bytes are held."""
        return length == 0 or (self.start <= position <= self.stop and length <= self.stop - position)

    def part(self, position: int, length: int) -> Memory:
        """Bytes of the tail; the caller has checked :meth:`has`."""
        first = position - self.start if length else 0
        return self.memory[first : first + length]


def read_tail(source: SourceFile) -> Read[Tail]:
    """Read the last 64 KiB of a file; all of it if it is a memory map."""
    start = max(0, source.size - TAIL_BYTES)
    (span,) = yield [_ranges(source, [(start, source.size - start)])]
    if span.memory.size == source.size and int(span.positions[0]) == start:
        return Tail(0, span.memory)  # a memory map covers the file
    return Tail(start, _cut(span.memory, int(span.positions[0]), start, source.size - start))


def read_parts(source: SourceFile, tail: Tail, parts: Sequence[tuple[int, int]]) -> Read[list[Memory]]:
    """Read parts of a file; one round of requests if some of them are not in ``tail``.

    Parameters
    ----------
    source : SourceFile
    tail : Tail
    parts : sequence of (position, length), bytes
        Each inside the file.

    Raises
    ------
    TruncatedError
        The store returned fewer bytes.
    """
    missing = [part for part in parts if not tail.has(*part)]
    found: dict[tuple[int, int], Memory] = {}
    if missing:
        (span,) = yield [_ranges(source, missing)]
        for part, at in zip(missing, span.positions.tolist(), strict=True):
            found[part] = _cut(span.memory, at, *part)
    return [found[part] if part in found else tail.part(*part) for part in parts]


def _ranges(source: SourceFile, parts: Sequence[tuple[int, int]]) -> Ranges:
    numbers = np.array(parts, np.int64).reshape(-1, 2)
    return Ranges(source, np.ascontiguousarray(numbers[:, 0]), np.ascontiguousarray(numbers[:, 1]))


def _cut(memory: Memory, at: int, position: int, length: int) -> Memory:
    part = memory[at : at + length]
    if part.size != length:
        raise TruncatedError(f"{part.size} of {length} bytes at {position}", position=position)
    return part
