"""Feature flags: whether this release can read or write a table.

A manifest has two 64-bit words, one for readers and one for writers. A set bit that is unknown in
the relevant word refuses the table (facts and advice: table sheet, section 1.4). Bits that only
concern the use of indices are accepted: a scan without indices is right.
"""

from __future__ import annotations

from lancecy.errors import FormatError, UnsupportedError
from lancecy.records import dataclass

__all__ = [
    "BASES",
    "CONFIG",
    "DELETIONS",
    "MIXED_FILE_VERSIONS",
    "OTHER_FRAGMENT_REUSE",
    "STABLE_ROW_IDS",
    "check_readable",
    "check_writable",
    "describe",
]

DELETIONS = 1
STABLE_ROW_IDS = 2
CONFIG = 8
BASES = 16
MIXED_FILE_VERSIONS = 256
OTHER_FRAGMENT_REUSE = 512 | 1024
"""Indices name rows by addresses from before compactions, in ways that this release does not know."""
_NON_REUSABLE_FIELD_IDS = 32768


@dataclass(frozen=True, slots=True)
class _Flag:
    meaning: str
    read: bool


# Bit value -> its meaning, and whether a table with it can be read.
_FLAGS: dict[int, _Flag] = {
    DELETIONS: _Flag("deletion files", read=True),
    STABLE_ROW_IDS: _Flag("stable row ids", read=True),
    4: _Flag("2.x data files (no longer used)", read=True),
    CONFIG: _Flag("table configuration", read=True),
    BASES: _Flag("base paths", read=True),
    32: _Flag("no transaction files", read=True),
    64: _Flag("data overlay files", read=False),
    128: _Flag("covering fields in an index", read=True),
    MIXED_FILE_VERSIONS: _Flag("data files of different versions", read=True),
    512: _Flag("fragment-reuse index on a table with stable row ids", read=True),
    1024: _Flag("tagged fragment-reuse index", read=True),
    2048: _Flag("row lineage in hidden columns", read=False),
    4096: _Flag("fragment tree", read=False),
    8192: _Flag("reserved feature of bit 13", read=False),
    16384: _Flag("managed blobs", read=False),
    _NON_REUSABLE_FIELD_IDS: _Flag("field ids that are never reused", read=False),
    65536: _Flag("zone write seeds", read=False),
}
# A writer keeps the promises of these; the other readable bits concern indices that it would have to maintain.
_WRITABLE = DELETIONS | STABLE_ROW_IDS | 4 | CONFIG | BASES | 32 | MIXED_FILE_VERSIONS
_READABLE = sum(bit for bit, flag in _FLAGS.items() if flag.read)


def describe(flags: int) -> list[str]:
    """One text per set bit, such as ``"16 (base paths)"``, lowest bit first.

    Examples
    --------
    >>> describe(18)
    ['2 (stable row ids)', '16 (base paths)']
    """
    bits = [1 << n for n in range(flags.bit_length()) if flags >> n & 1]
    return [f"{bit} ({_FLAGS[bit].meaning if bit in _FLAGS else 'unknown'})" for bit in bits]


def check_readable(reader_flags: int, writer_flags: int) -> None:
    """Refuse a table whose flags require a feature that this release cannot read.

    Parameters
    ----------
    reader_flags, writer_flags : int
        The words of the manifest; the writer's word only matters for bits that come in pairs.

    Raises
    ------
    UnsupportedError
        A bit of the reader word is unknown; the message names it.
    FormatError
        The two words contradict each other.

    Source: table sheet, section 1.4.
    """
    if not reader_flags and not writer_flags & MIXED_FILE_VERSIONS:
        return
    if reader_flags & _NON_REUSABLE_FIELD_IDS:
        raise FormatError(f"feature flag {describe(_NON_REUSABLE_FIELD_IDS)[0]} is set for readers")
    if (reader_flags ^ writer_flags) & MIXED_FILE_VERSIONS:
        raise FormatError(
            f"feature flag {describe(MIXED_FILE_VERSIONS)[0]} is set for readers or for writers but not for both"
        )
    unknown = reader_flags & ~_READABLE
    if unknown:
        texts = ", ".join(describe(unknown))
        raise UnsupportedError(f"this table needs reader features that lancecy lacks: {texts}", feature=texts)


def check_writable(reader_flags: int, writer_flags: int) -> None:
    """Refuse to change a table whose flags require a feature that this release cannot write.

    Raises
    ------
    UnsupportedError
        A bit of either word is unknown to the writer; the message names it.
    FormatError
        The two words contradict each other.

    Source: table sheet, section 1.4.

    Examples
    --------
    >>> check_writable(18, 26)
    """
    check_readable(reader_flags, writer_flags)
    unknown = (reader_flags | writer_flags) & ~_WRITABLE
    if unknown:
        texts = ", ".join(describe(unknown))
        raise UnsupportedError(
            f"this table needs writer features that lancecy lacks; it can only be read: {texts}",
            feature=texts,
        )
