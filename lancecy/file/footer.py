"""The last bytes of a data file: its version and the position of its metadata.

Both containers end the same way, so one read tells them apart::

    0.1     ... | int64 position of Metadata                       | u16 major | u16 minor | LANC
    2.x     ... | three u64 positions | u32 buffers | u32 columns  | u16 major | u16 minor | LANC

Source: file sheet 0.1, section 1.1; file sheet 2.0, section 2.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from lancecy.errors import FormatError, TruncatedError
from lancecy.store.base import Memory

__all__ = ["FOOTER_BYTES", "MAGIC", "V2_FOOTER_BYTES", "Footer", "parse_footer"]

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
