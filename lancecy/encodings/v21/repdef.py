"""Convert repetition and definition levels to nested blocks.

A page of 2.1 and later holds the slots of one leaf and, per entry, the outermost list that begins there
(repetition) and its null or empty node, if any (definition). ``build`` walks the layers from the leaf outwards::

    [[1, 2], [], null, [3]]     rep 1 0 1 1 1     def 0 0 2 1 0     slots 1 2 3
    leaf    3 slots, all valid
    list    offsets 0 2 2 2 3   validity 1 1 0 1  (def 2 = empty, 1 = null)

An item layer becomes a validity bitmap, a list layer offsets and a bitmap; after a list only the entries at
which it begins remain. Every entry outside a fixed-size list of ``d`` structs occurs ``d`` times in a row, and
one of them remains. Source: file sheet 2.1, sections 3.2 and 3.10.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.blocks.memory import allocate, slot_validity, uninitialized
from lancecy.encodings.model.block import (
    AllNull,
    Block,
    Coded,
    FixedList,
    FixedWidth,
    Listed,
    Structured,
    VariableWidth,
)
from lancecy.encodings.model.layouts import ANY_LEVEL, Layer, max_definition
from lancecy.errors import FormatError, printable
from lancecy.records import dataclass
from lancecy.schema import Field

__all__ = ["LeafPage", "build", "rows_per_value"]

Levels = NDArray[np.uint16]


@dataclass(frozen=True, slots=True, eq=False)
class LeafPage:
    """Levels and values read from one page.

    Attributes
    ----------
    layers : tuple of Layer, inner to outer
    rep, definition : (num_levels,) uint16 or None
        None: no lists (repetition), or nothing null or empty (definition).
    values : Block
        One value per slot, without a validity of its own.
    num_rows : int
        Number of selected rows; under fixed-size lists of structs times their sizes.
    leaf_validity : (bitmap, null count) or None
        Validity of the slots if it is already known.
    """

    layers: tuple[Layer, ...]
    rep: Levels | None
    definition: Levels | None
    values: Block
    num_rows: int
    leaf_validity: tuple[object, int] | None = None


def rows_per_value(chain: tuple[Field, ...]) -> int:
    """How often the levels of a row are repeated: the product of the sizes of fixed-size lists of structs.

    Source: file sheet 2.1, section 3.10.
    """
    product = 1
    for field in chain[:-1]:
        if field.is_fixed_list:
            product *= field.list_size
    return product


def build(page: LeafPage, chain: tuple[Field, ...]) -> Block:
    """Build the column that a leaf belongs to, with only this leaf in it.

    Parameters
    ----------
    page : LeafPage
    chain : tuple of Field
        From the top-level field down to the leaf.

    Returns
    -------
    Block
        Rows of the top-level field.

    Raises
    ------
    FormatError
        Levels, layers and values do not fit each other or the fields.
    """
    if _is_never_null(page, chain):
        page = replace(page, layers=(*page.layers, *(Layer.ALL_VALID_ITEM for _ in chain[1:])))
    if len(page.layers) != len(chain):
        raise FormatError(f"a page with {len(page.layers)} layers in a column of {len(chain)}")
    if max_definition(page.layers) > ANY_LEVEL:
        raise FormatError("more definition levels than 16 bits can count")
    state = _State(page)
    block = _leaf(page, state)
    for field, child in zip(chain[-2::-1], chain[:0:-1], strict=True):
        block = _wrap(field, child, block, state)
    if state.rep is not None and bool(state.rep.any()):
        raise FormatError("repetition levels are higher than the lists are deep")
    if block.length * rows_per_value(chain) != page.num_rows:
        raise FormatError(f"levels make {block.length} rows, where {page.num_rows} were to be read")
    return block


def _is_never_null(page: LeafPage, chain: tuple[Field, ...]) -> bool:
    """Whether the page of a struct without members marks no nulls at all: then no struct around it is null."""
    return (
        len(page.layers) == 1
        and page.definition is None
        and not chain[-1].children
        and all(node.is_struct for node in chain)
    )


class _State:
    """Levels that remain while layers are processed from the leaf outwards."""

    def __init__(self, page: LeafPage) -> None:
        self.rep, self.definition = page.rep, page.definition
        self.num_entries = page.values.length if page.definition is None else page.definition.size
        self._layers = page.layers
        self._next = 0
        self.base = 0

    def take(self, is_list: bool, field: Field | None = None) -> Layer:
        """The next layer, which must be of the given kind."""
        layer = self._layers[self._next]
        if layer.is_list != is_list:
            what = f" of column {printable(field.name)!r}" if field is not None else ""
            raise FormatError(f"layer {self._next}{what} is {layer.name}, which does not fit the schema")
        self._next += 1
        return layer

    @property
    def visible_max(self) -> int:
        """Highest level with a slot here: entries of the next list and all further out have none."""
        level = self.base
        for layer in self._layers[self._next :]:
            if layer.is_list:
                return level
            level += layer.levels
        return ANY_LEVEL


def _item_validity(layer: Layer, num_slots: int, state: _State) -> tuple[object | None, int]:
    """Validity of the item layer that ``state`` took last."""
    valid_max = state.base
    state.base += layer.levels
    if state.definition is None or layer is Layer.ALL_VALID_ITEM:
        if state.rep is None and state.num_entries != num_slots:
            raise FormatError(f"{state.num_entries} levels for {num_slots} values")
        return None, 0
    return slot_validity(state.definition, valid_max, state.visible_max, num_slots)


def _leaf(page: LeafPage, state: _State) -> Block:
    layer = state.take(is_list=False)
    if page.leaf_validity is not None and layer is Layer.NULLABLE_ITEM:
        state.base += layer.levels
        return _with_validity(page.values, *page.leaf_validity)
    return _with_validity(page.values, *_item_validity(layer, page.values.length, state))


def _with_validity(block: Block, validity: object | None, null_count: int) -> Block:
    if null_count == 0 or isinstance(block, AllNull):
        return block
    if isinstance(block, Coded):
        return replace(block, codes=replace(block.codes, validity=validity, null_count=null_count))
    if isinstance(block, FixedWidth | VariableWidth | FixedList | Structured):
        return replace(block, validity=validity, null_count=null_count)
    raise TypeError(f"a leaf is no {type(block).__name__} block")


def _wrap(field: Field, child: Field, block: Block, state: _State) -> Block:
    """Wrap one field around the block."""
    if field.is_list or field.logical_type == "map":
        return _wrap_list(field, block, state)
    if field.is_fixed_list:
        return _wrap_fixed_list(field, block, state)
    layer = state.take(False, field)
    validity, null_count = _item_validity(layer, block.length, state)
    return Structured(block.length, {child.id: block}, validity, null_count)


def _wrap_list(field: Field, block: Block, state: _State) -> Listed:
    layer = state.take(True, field)
    rep, definition = state.rep, state.definition
    if rep is None:
        raise FormatError("lists without repetition levels")
    has_nulls = layer in (Layer.NULLABLE_LIST, Layer.NULL_AND_EMPTY_LIST)
    has_empty = layer in (Layer.EMPTYABLE_LIST, Layer.NULL_AND_EMPTY_LIST)
    null_level = state.base + 1 if has_nulls else -1
    state.base += layer.levels
    empty_level = state.base if has_empty else -1
    width = 8 if field.is_large_list else 4
    _, offsets = allocate((rep.size + 1) * width)
    _, bits = allocate((rep.size + 7) >> 3)
    left_rep = uninitialized(rep.size, np.uint16)
    left_def = uninitialized(rep.size, np.uint16) if definition is not None else None
    levels = (null_level, empty_level, state.base, state.visible_max)
    num_lists, num_children, null_count, num_left = kernels.peel_lists(
        rep, definition, *levels, offsets.view(f"<i{width}"), bits, left_rep, left_def
    )
    if num_children != block.length:
        raise FormatError(f"lists have {num_children} items, where {block.length} are stored")
    state.rep, state.num_entries = left_rep[:num_left], num_left
    state.definition = left_def[:num_left] if left_def is not None else None
    validity = _trimmed(bits, (num_lists + 7) >> 3) if null_count else None
    return Listed(num_lists, width, _trimmed(offsets, (num_lists + 1) * width), block, validity, null_count)


def _trimmed(memory: NDArray[np.uint8], nbytes: int) -> NDArray[np.uint8]:
    """The first bytes: a view, or a copy if that frees most of the memory."""
    part = memory[:nbytes]
    if nbytes * 2 >= memory.size:
        return part
    copy = uninitialized(nbytes, np.uint8)
    copy[:] = part
    return copy


def _wrap_fixed_list(field: Field, block: Block, state: _State) -> FixedList:
    size = field.list_size
    layer = state.take(False, field)
    if size == 0 or block.length % size or state.num_entries % size:
        raise FormatError(f"{block.length} structs in fixed-size lists of {size}")
    length = block.length // size
    # Levels of outer layers are repeated once per item, even if they are null or empty and have no items.
    rep, definition = state.rep, state.definition
    if definition is not None:
        state.definition = np.ascontiguousarray(definition[::size])
    if rep is not None:
        state.rep = np.ascontiguousarray(rep[::size])
    state.num_entries //= size
    validity, null_count = _item_validity(layer, length, state)
    if rep is not None:
        _check_equal_levels(rep, size)
        if definition is not None:
            _check_equal_levels(definition > state.visible_max, size)
    return FixedList(length, size, block, validity, null_count)


def _check_equal_levels(levels: NDArray[np.generic], size: int) -> None:
    """Raise FormatError unless all items of a fixed-size list have the same levels."""
    groups = levels.reshape(-1, size)
    if not np.array_equal(groups, np.broadcast_to(groups[:, :1], groups.shape)):
        raise FormatError(f"levels differ within fixed-size lists of {size} structs")
