"""Layouts: combinations of values with repetition and definition levels in pages of 2.1 and later.

A ``PageSpec`` describes a page of 2.x columns: in 2.0 a ``spec`` node, later one of these, whose compressive
parts are ``spec`` nodes. Layers are ordered inner to outer, as in the file.
"""

from __future__ import annotations

import enum
from dataclasses import field
from functools import lru_cache
from typing import TypeAlias

from lancecy.encodings.model.spec import Spec
from lancecy.records import dataclass

__all__ = [
    "ANY_LEVEL",
    "BlobPage",
    "ConstantPage",
    "FullZip",
    "Layer",
    "MiniBlock",
    "PageSpec",
    "Planar",
    "SparseLayer",
    "all_visible_max",
    "is_structural",
    "level_limits",
    "max_definition",
    "max_repetition",
    "max_visible",
]


class Layer(enum.IntEnum):
    """One layer of nesting of a leaf; the numbers are those of the format."""

    ALL_VALID_ITEM = 1
    ALL_VALID_LIST = 2
    NULLABLE_ITEM = 3
    NULLABLE_LIST = 4
    EMPTYABLE_LIST = 5
    NULL_AND_EMPTY_LIST = 6

    @property
    def is_list(self) -> bool:
        """Whether the layer is one of lists, not of items."""
        return self not in (Layer.ALL_VALID_ITEM, Layer.NULLABLE_ITEM)

    @property
    def levels(self) -> int:
        """Definition levels that the layer uses."""
        return (0, 0, 0, 1, 1, 1, 2)[self]


# Pages have the same few layers, and every read of a page asks for their limits.
@lru_cache(maxsize=256)
def max_definition(layers: tuple[Layer, ...]) -> int:
    """Highest definition level that these layers use.

    Examples
    --------
    >>> max_definition((Layer.NULLABLE_ITEM, Layer.NULL_AND_EMPTY_LIST))
    3
    """
    return sum(layer.levels for layer in layers)


@lru_cache(maxsize=256)
def max_repetition(layers: tuple[Layer, ...]) -> int:
    """Highest repetition level: the number of lists."""
    return sum(layer.is_list for layer in layers)


@lru_cache(maxsize=256)
def max_visible(layers: tuple[Layer, ...]) -> int:
    """Highest definition level of an entry that has a value slot.

    Examples
    --------
    >>> max_visible((Layer.NULLABLE_ITEM, Layer.NULL_AND_EMPTY_LIST))
    1
    """
    levels = 0
    for layer in layers:
        if layer.is_list:
            break
        levels += layer.levels
    return levels


@dataclass(frozen=True, slots=True)
class MiniBlock:
    """Values in chunks of a few KiB, levels beside them.

    Attributes
    ----------
    layers : tuple of Layer, inner to outer
    rep, definition : Spec or None
        Codecs of the levels of a chunk, which are 16-bit numbers.
    values : Spec
    dictionary : Spec or None
        Codec of the page's dictionary; ``values`` are then codes.
    num_dictionary_items : int
    num_buffers : int
        Value buffers of each chunk.
    has_index : bool
        Whether the page has a repetition index.
    num_items : int
        Value slots of the page.
    is_large : bool
        Whether chunk sizes are words of 32 bits instead of 16.
    shared_shape : MiniBlock or None
        What :attr:`shape` gives, if pages of other lengths share it.
    """

    layers: tuple[Layer, ...]
    rep: Spec | None
    definition: Spec | None
    values: Spec
    dictionary: Spec | None
    num_dictionary_items: int
    num_buffers: int
    has_index: bool
    num_items: int
    is_large: bool
    shared_shape: MiniBlock | None = field(default=None, compare=False, repr=False)

    @property
    def shape(self) -> MiniBlock:
        """The layout without the number of items: equal for pages that differ in their length alone."""
        return self._of_items(0, None) if self.shared_shape is None else self.shared_shape

    def of_items(self, num_items: int) -> MiniBlock:
        """The layout of a page of so many items; this one is its shape."""
        return self._of_items(num_items, self)

    def _of_items(self, num_items: int, shape: MiniBlock | None) -> MiniBlock:
        # In a fraction of the time that ``replace`` takes.
        return MiniBlock(
            self.layers,
            self.rep,
            self.definition,
            self.values,
            self.dictionary,
            self.num_dictionary_items,
            self.num_buffers,
            self.has_index,
            num_items,
            self.is_large,
            shape,
        )


@dataclass(frozen=True, slots=True)
class ConstantPage:
    """One value, or null, for every slot.

    Attributes
    ----------
    layers : tuple of Layer, inner to outer
    value : bytes or None
        Inline value.
    rep, definition : Spec or None
        Codecs of the levels; None: raw 16-bit numbers, if there are any.
    num_rep, num_definition : int
        Number of stored levels, where codecs are given.
    """

    layers: tuple[Layer, ...]
    value: bytes | None
    rep: Spec | None
    definition: Spec | None
    num_rep: int
    num_definition: int


@dataclass(frozen=True, slots=True)
class FullZip:
    """Each value with its levels before it.

    Attributes
    ----------
    layers : tuple of Layer, inner to outer
    rep_bits, definition_bits : int
        Bits of each level in the control word.
    value_bits : int or None
        Width of a value; None: values vary.
    length_bits : int or None
        Width of the length before each value that varies.
    num_entries, num_visible : int
        Number of control words, and of those with a value slot.
    values : Spec
    """

    layers: tuple[Layer, ...]
    rep_bits: int
    definition_bits: int
    value_bits: int | None
    length_bits: int | None
    num_entries: int
    num_visible: int
    values: Spec


@dataclass(frozen=True, slots=True)
class BlobPage:
    """2.1: positions and sizes of blobs elsewhere in the file, as the values of ``inner``."""

    inner: MiniBlock | ConstantPage | FullZip
    layers: tuple[Layer, ...]


@dataclass(frozen=True, slots=True)
class SparseLayer:
    """2.3: one layer, given by the positions of its exceptions; outer to inner.

    Attributes
    ----------
    kind : 'item', 'list' or 'fixed_list'
    size : int
        Elements per list of a fixed-size list.
    num_children : int
        Child slots of a list layer.
    positions, counts : Spec or None
        Lists that are not empty, and their numbers of items.
    num_positions : int
    validity : str
        'all' (valid), 'none', 'nulls' or 'valids': the meaning of ``valid_positions``.
    valid_positions : Spec or None
    num_valid_positions : int
    """

    kind: str
    size: int = 0
    num_children: int = 0
    positions: Spec | None = None
    counts: Spec | None = None
    num_positions: int = 0
    validity: str = "all"
    valid_positions: Spec | None = None
    num_valid_positions: int = 0


@dataclass(frozen=True, slots=True)
class Planar:
    """2.3: structure and values described separately.

    Attributes
    ----------
    values : MiniBlock, FullZip, ConstantPage or None
        None: all null. With ``sparse`` its layers are empty.
    sparse : tuple of SparseLayer or None
        Outer to inner; None: as in the layers of ``values``.
    indexed : Spec or None
        Codec of the indices of "indexed" values.
    """

    values: MiniBlock | FullZip | ConstantPage | None
    sparse: tuple[SparseLayer, ...] | None = None
    indexed: Spec | None = None


PageSpec: TypeAlias = MiniBlock | ConstantPage | FullZip | BlobPage | Planar | Spec


def is_structural(spec: PageSpec) -> bool:
    """Whether a page has a layout of 2.1 and later."""
    return isinstance(spec, _LAYOUTS)


_LAYOUTS = (MiniBlock, ConstantPage, FullZip, BlobPage, Planar)


ANY_LEVEL = 0xFFFF
"""Above every definition level: without lists around the leaf, every entry has a slot."""


@lru_cache(maxsize=256)
def level_limits(layers: tuple[Layer, ...]) -> tuple[int, int, int]:
    """:func:`max_repetition`, :func:`max_definition` and :func:`all_visible_max`."""
    return max_repetition(layers), max_definition(layers), all_visible_max(layers)


def all_visible_max(layers: tuple[Layer, ...]) -> int:
    """Highest definition level of an entry with a value slot; without lists every entry has one."""
    return max_visible(layers) if max_repetition(layers) else ANY_LEVEL
