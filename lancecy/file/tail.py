"""The end of a file, read in one request, or two if it is large.

Data files have their metadata at the end. Opening requests the last bytes once; parts that lie before them are
requested together in a further round. The last 16 bytes are the footer: the version and the position of the
metadata. Both containers end the same way, so one read tells them apart::

    0.1     ... | int64 position of Metadata                       | u16 major | u16 minor | LANC
    2.x     ... | three u64 positions | u32 buffers | u32 columns  | u16 major | u16 minor | LANC

Source: file sheet 0.1, section 1.1; file sheet 2.0, section 2.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import field

import numpy as np

from lancecy.errors import FormatError, TruncatedError
from lancecy.records import dataclass
from lancecy.store.base import Memory
from lancecy.store.reads import Ranges, Read, SourceFile

__all__ = [
    "FOOTER_BYTES",
    "MAGIC",
    "TAIL_BYTES",
    "V2_FOOTER_BYTES",
    "Footer",
    "Tail",
    "parse_footer",
    "read_parts",
    "read_tail",
]


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
    part = np.array((start, source.size - start), np.int64)
    (span,) = yield [Ranges(source, part[:1], part[1:])]
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
        raise TruncatedError(
            f"the file ends {length - part.size} bytes too early: {length} bytes are needed at {position}",
            position=position,
        )
    return part


MAGIC = b"LANC"
FOOTER_BYTES = 16
V2_FOOTER_BYTES = 40


@dataclass(frozen=True, slots=True)
class Footer:
    """The last 16 bytes of a data file.

    Attributes
    ----------
    major, minor : int
        As written. 0.1 data files carry (0, 1) or (0, 2), but nothing depends on it: the manifest states a file's
        version.
    position : int, bytes
        Position of the Metadata block of a 0.1 file. Meaningless in 2.x, which has counts there.
    """

    major: int
    minor: int
    position: int

    @property
    def is_v2(self) -> bool:
        """Whether the version is one of 2.x files; (0, 3) is the footer of 2.0."""
        return self.major >= 2 or (self.major, self.minor) == (0, 3)


def parse_footer(tail: Memory) -> Footer:
    """Parse the footer at the end of these bytes.

    Parameters
    ----------
    tail : (nbytes,) uint8
        The last bytes of the file, 16 or more.

    Raises
    ------
    TruncatedError
        There are fewer than 16 bytes.
    FormatError
        The magic bytes are missing.

    Examples
    --------
    >>> import numpy as np
    >>> parse_footer(np.frombuffer(struct.pack("<qHH4s", 7, 0, 2, b"LANC"), np.uint8))
    Footer(major=0, minor=2, position=7)
    """
    if tail.size < FOOTER_BYTES:
        raise TruncatedError(
            f"{tail.size} bytes are too few for a Lance file, which ends with {FOOTER_BYTES}"
        )
    position, major, minor, magic = struct.unpack("<qHH4s", tail[-FOOTER_BYTES:].tobytes())
    if magic != MAGIC:
        raise FormatError(f"this is not a Lance file: it ends with {magic!r} instead of {MAGIC!r}")
    return Footer(major, minor, position)
