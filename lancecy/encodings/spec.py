"""Specs: how the values of one column are laid out, as plain frozen data.

Every dialect of the format (0.1 by type, 2.x by protobuf messages) parses to these
nodes, and the decoders interpret nodes without knowing where they came from. A node
names no bytes: which pages or buffers it applies to is given beside it. Nodes of 2.x
(nullable, bit-packed, mini-block, ...) join this file when their readers exist.

Imports nothing of lancecy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

__all__ = [
    "DictionaryOf",
    "FixedListOf",
    "ListOf",
    "NullOf",
    "Plain",
    "Spec",
    "StructOf",
    "VarBinary",
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
    """

    bits: int
    signed: bool = True


@dataclass(frozen=True, slots=True)
class VarBinary:
    """Byte strings whose page is ``n + 1`` absolute int64 file positions.

    Attributes
    ----------
    offset_width : 4 or 8
        Bytes per offset of the decoded block.
    nullable : bool
        A zero-length value is a null; otherwise it is an empty value.
    """

    offset_width: int
    nullable: bool


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
    """Lists of ``size`` elements each, flattened: the page holds nothing but the child's values."""

    size: int
    child: Plain | FixedListOf


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
    """Nothing but nulls: a length and no bytes."""


Spec: TypeAlias = Plain | VarBinary | ListOf | FixedListOf | StructOf | DictionaryOf | NullOf


def flat_bits(spec: Plain | FixedListOf) -> int:
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
    return bits * spec.bits


def flat_leaf(spec: Plain | FixedListOf) -> Plain:
    """The innermost node below fixed-size lists.

    Examples
    --------
    >>> flat_leaf(FixedListOf(3, Plain(16)))
    Plain(bits=16, signed=True)
    """
    while isinstance(spec, FixedListOf):
        spec = spec.child
    return spec
