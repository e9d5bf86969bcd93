"""Specs: layouts of the values of one column, as plain frozen data.

All versions of the format (0.1 by type, 2.x by protobuf messages) parse to these nodes, and decoders do not know
which version a node came from. A node contains no bytes; decoders get it together with its pages. In 2.x a node has
the number of its buffer among those of the page (2.0) or of the chunk (2.1 and later). ``layouts`` has the layouts
of pages of 2.1 and later; the values in them are these nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from lancecy.records import dataclass

__all__ = [
    "BitStream",
    "BlockDictionary",
    "ByteSplit",
    "Compressed",
    "Deltas",
    "DictionaryOf",
    "EndedBinary",
    "EndedList",
    "FixedBinary",
    "FixedListOf",
    "InlinePacked",
    "ListOf",
    "NullOf",
    "Nullable",
    "PackedBlocks",
    "PackedFields",
    "PackedRows",
    "PageDictionary",
    "Plain",
    "Repeated",
    "RunLengths",
    "Sequence",
    "Spec",
    "StructHeader",
    "StructOf",
    "SymbolCoded",
    "VarBinary",
    "Variable",
    "flat_bits",
    "flat_leaf",
]


@dataclass(frozen=True, slots=True)
class Plain:
    """Values of one width, back to back, without nulls.

    Attributes
    ----------
    bits : int
        Bits per value: 1 for booleans, packed LSB first; else a multiple of 8. 0 is allowed (empty binaries).
    signed : bool
        For dictionary codes: how the value is to be read as an integer.
    buffer : int
        2.x: number of the buffer.
    """

    bits: int
    signed: bool = True
    buffer: int = 0


@dataclass(frozen=True, slots=True)
class VarBinary:
    """Byte strings whose page is ``n + 1`` absolute int64 file positions.

    Attributes
    ----------
    offset_width : 4 or 8
        Bytes per offset of the decoded block.
    nullable : bool
        A zero-length value is a null; otherwise it is an empty value.
    in_codes : bool
        Pages with a dictionary may be decoded to codes.
    """

    offset_width: int
    nullable: bool
    in_codes: bool = False


@dataclass(frozen=True, slots=True)
class ListOf:
    """Lists of varying length; the page is ``n + 1`` offsets into the child's page.

    Attributes
    ----------
    offset_width : 4 or 8
        Bytes per offset, in the page and in the decoded block.
    child_id : int
        Column id of the elements.
    child : Spec
    """

    offset_width: int
    child_id: int
    child: Spec


@dataclass(frozen=True, slots=True)
class FixedListOf:
    """Lists of ``size`` elements each, flattened: the page holds only the child's values.

    Attributes
    ----------
    size : int
    child : Spec
        Plain or another fixed-size list in 0.1; any fixed-width node in 2.x.
    validity : int or None
        2.1 and later: number of the buffer with one bit per element (of this list, all outer lists
        flattened), None if no element is null.
    """

    size: int
    child: Spec
    validity: int | None = None


@dataclass(frozen=True, slots=True)
class StructOf:
    """Structs, which have no page of their own.

    Attributes
    ----------
    children : mapping of column id to Spec
        In the order of the schema.
    """

    children: Mapping[int, Spec]


@dataclass(frozen=True, slots=True)
class DictionaryOf:
    """Codes in pages, the values they name elsewhere; ``nullable`` allows the code -1 for a null."""

    codes: Plain
    values: Plain | VarBinary
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class NullOf:
    """Only nulls: a length and no bytes."""


# -- nodes of 2.x --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Compressed:
    """The buffer of the node below is compressed as a whole (2.0), or chunk by chunk (2.1 and later).

    Attributes
    ----------
    scheme : 'lz4' or 'zstd'
    values : Spec
    buffer : int
        The compressed buffer; other buffers of ``values`` are not compressed.
    """

    scheme: str
    values: Spec
    buffer: int = 0


@dataclass(frozen=True, slots=True)
class Nullable:
    """2.0: values with a validity bitmap; ``validity`` None: no nulls."""

    values: Spec
    validity: Plain | None = None


@dataclass(frozen=True, slots=True)
class EndedList:
    """2.0: lists, whose page is the ends of the lists within the page's elements.

    Attributes
    ----------
    offsets : Spec
        Of 64-bit numbers: the running end, plus ``adjustment`` for a null list.
    adjustment : int
    num_items : int
        Elements that belong to the page.
    """

    offsets: Spec
    adjustment: int
    num_items: int


@dataclass(frozen=True, slots=True)
class StructHeader:
    """2.0: the page of a struct, which has no bytes."""


@dataclass(frozen=True, slots=True)
class EndedBinary:
    """2.0: byte strings; ``offsets`` are running ends in ``values``, plus ``adjustment`` for a null."""

    offsets: Spec
    values: Spec
    adjustment: int


@dataclass(frozen=True, slots=True)
class PageDictionary:
    """2.0: codes and items in one page.

    In a page of plain strings code 0 is null and code k is item k - 1; in a page of an Arrow dictionary
    field code k is item k, and a null is a null item.
    """

    codes: Spec
    items: Spec
    num_items: int


@dataclass(frozen=True, slots=True)
class FixedBinary:
    """2.0: byte strings that all have ``width`` bytes."""

    width: int
    values: Spec


@dataclass(frozen=True, slots=True)
class PackedRows:
    """Structs row by row, the fields of a row back to back.

    Attributes
    ----------
    bits : tuple of int
        Width of each field, in the order of the schema; multiples of 8.
    children : tuple of Spec
        Encoding of the bytes of each field (2.0); empty where the schema determines it (2.1 and later).
    values : Spec
        Of whole rows: ``Plain(sum(bits))``, perhaps compressed.
    """

    bits: tuple[int, ...]
    children: tuple[Spec, ...]
    values: Spec


@dataclass(frozen=True, slots=True)
class BitStream:
    """2.0: integers of ``packed_bits`` in one stream of bits, extended to ``bits`` with sign or zeros."""

    packed_bits: int
    bits: int
    signed: bool
    buffer: int


@dataclass(frozen=True, slots=True)
class PackedBlocks:
    """Integers in FastLanes blocks of 1,024 whose width is known: 2.0 "for non-negative", 2.1 "out of line".

    Attributes
    ----------
    packed_bits, bits : int
    raw_tail : bool
        Whether the last, partial block may be stored unpacked (2.1 and later).
    buffer : int
    """

    packed_bits: int
    bits: int
    raw_tail: bool
    buffer: int = 0


@dataclass(frozen=True, slots=True)
class InlinePacked:
    """2.1 and later: integers in FastLanes blocks of up to 1,024, each with its width before it."""

    bits: int
    buffer: int = 0


@dataclass(frozen=True, slots=True)
class RunLengths:
    """2.1 and later: values and how often each is repeated."""

    values: Spec
    lengths: Spec


@dataclass(frozen=True, slots=True)
class ByteSplit:
    """2.1 and later: byte j of every value together, for each j."""

    bits: int
    buffer: int = 0


@dataclass(frozen=True, slots=True)
class Variable:
    """2.1 and later: byte strings with offsets.

    Attributes
    ----------
    offset_width : 4 or 8
        Bytes per offset of the decoded block, and of the stored ones unless ``offsets`` differs.
    buffer : int
        Holds offsets and bytes; with ``offsets`` only the bytes.
    offsets : Spec or None
        2.3: offsets coded on their own, counted from the first byte.
    """

    offset_width: int
    buffer: int = 0
    offsets: Spec | None = None


@dataclass(frozen=True, slots=True)
class SymbolCoded:
    """Byte strings coded with a table of symbols (FSST); ``values`` are the coded strings."""

    table: bytes
    values: Spec


@dataclass(frozen=True, slots=True)
class PackedFields:
    """2.2 and later: structs row by row with fields of varying size.

    Attributes
    ----------
    fields : tuple of (Spec, int, bool)
        Node of the field, its bits or the bits of its length prefix, and whether it is of varying size.
    """

    fields: tuple[tuple[Spec, int, bool], ...]


@dataclass(frozen=True, slots=True)
class Repeated:
    """One value for every slot; None is a value without bytes."""

    value: bytes | None


@dataclass(frozen=True, slots=True)
class Sequence:
    """2.3: ``start``, ``start + step``, ... as integers of ``bits``."""

    bits: int
    start: int
    step: int


@dataclass(frozen=True, slots=True)
class Deltas:
    """2.3: running sums; n values store the n - 1 differences."""

    bits: int
    base: int
    deltas: Spec


@dataclass(frozen=True, slots=True)
class BlockDictionary:
    """2.3: codes and items in one buffer."""

    codes: Spec
    items: Spec
    num_items: int
    buffer: int = 0


Spec: TypeAlias = (
    Plain
    | VarBinary
    | ListOf
    | FixedListOf
    | StructOf
    | DictionaryOf
    | NullOf
    | Compressed
    | Nullable
    | EndedList
    | StructHeader
    | EndedBinary
    | PageDictionary
    | FixedBinary
    | PackedRows
    | BitStream
    | PackedBlocks
    | InlinePacked
    | RunLengths
    | ByteSplit
    | Variable
    | SymbolCoded
    | PackedFields
    | Repeated
    | Sequence
    | Deltas
    | BlockDictionary
)


def flat_bits(spec: Spec) -> int:
    """Bits one row takes when fixed-size lists are flattened.

    Examples
    --------
    >>> flat_bits(FixedListOf(3, FixedListOf(2, Plain(16))))
    96
    """
    bits = 1
    while isinstance(spec, FixedListOf):
        bits *= spec.size
        spec = spec.child
    return bits * _plain(spec).bits


def flat_leaf(spec: Spec) -> Plain:
    """The innermost node below fixed-size lists.

    Examples
    --------
    >>> flat_leaf(FixedListOf(3, Plain(16)))
    Plain(bits=16, signed=True, buffer=0)
    """
    while isinstance(spec, FixedListOf):
        spec = spec.child
    return _plain(spec)


def _plain(spec: Spec) -> Plain:
    if not isinstance(spec, Plain):
        raise TypeError(f"a {type(spec).__name__} node has no flat values")
    return spec
