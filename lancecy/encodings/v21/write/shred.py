"""Shred nested blocks into leaves with repetition and definition levels; the inverse of ``repdef``.

A column of 2.1 and later is stored leaf by leaf. ``shred`` walks from the top-level field to each leaf and keeps,
for every entry, the outermost list that begins there and its null or empty node. On the way down both are counted
from the outermost node, because the inner nodes are not known yet; at the leaf they become the levels of the
format, counted from the innermost node. The layer of a node states only what the page and the reference readers
need::

    [[1, 2], [], null, [3]]     entries 1 2 - - 3     continue 0 1 0 0 0     marks 0 0 empty null 0
    levels                      rep 1 0 1 1 1         def 0 0 2 1 0          layers VI, NEL

Source: file sheet 2.1, sections 3.2 and 3.10.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lancecy.encodings.blocks.memory import mask_of
from lancecy.encodings.blocks.select import stored_offsets
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
from lancecy.encodings.model.layouts import Layer
from lancecy.errors import SchemaError, UnsupportedError, printable
from lancecy.records import dataclass
from lancecy.schema import Field

__all__ = ["ShreddedLeaf", "shred"]

Levels = NDArray[np.uint16]
Marks = NDArray[np.uint8]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class ShreddedLeaf:
    """One leaf of one page.

    Attributes
    ----------
    field : Field
    layers : tuple of Layer, inner to outer
    rep, definition : (num_entries,) uint16 or None
        None: no lists (repetition), or nothing null or empty (definition).
    visible : (num_entries,) bool or None
        Entries that have a value slot; None: all.
    values : Block
        One value per slot; their validity is in the levels.
    num_valid : int
        Slots that are not null, and not below a null.
    num_rows : int
        Rows, times the sizes of fixed-size lists of structs around the leaf.
    """

    field: Field
    layers: tuple[Layer, ...]
    rep: Levels | None
    definition: Levels | None
    visible: Mask | None
    values: Block
    num_valid: int
    num_rows: int

    @property
    def num_entries(self) -> int:
        """Entries: slots, and null or empty lists."""
        return self.values.length if self.visible is None else self.visible.size

    @property
    def valid(self) -> Mask | None:
        """(num_slots,) bool: slots that are not null, and not below a null; None: all."""
        if self.definition is None:
            return None
        found: Mask = self.slot_levels == 0
        return found

    @property
    def slot_levels(self) -> Levels:
        """(num_slots,) uint16: definition levels of the slots."""
        if self.definition is None:
            return np.zeros(self.values.length, np.uint16)
        return self.definition if self.visible is None else self.definition[self.visible]


def shred(field: Field, block: Block) -> Iterator[ShreddedLeaf]:
    """The leaves of a top-level field, depth first.

    Raises
    ------
    SchemaError
        A null where the field allows none.
    UnsupportedError
        Lists around or in fixed-size lists of structs.
    """
    if not field.children and isinstance(block, FixedWidth | VariableWidth):
        return iter((_flat_leaf(field, block),))
    return _walk(field, block, _State(block.length, block.length))


def _flat_leaf(field: Field, block: FixedWidth | VariableWidth) -> ShreddedLeaf:
    """What the walk makes of a column that is not nested; a table of many columns and few rows waits for it."""
    definition = None
    if block.null_count and block.validity is not None:
        if not field.nullable:
            raise _null_in(field)
        definition = (~mask_of(block.validity, block.length)).astype(np.uint16)
    layers = _ALL_VALID if definition is None else _NULLABLE
    num_valid = block.length - block.null_count
    return ShreddedLeaf(field, layers, None, definition, None, block, num_valid, block.length)


_ALL_VALID, _NULLABLE = (Layer.ALL_VALID_ITEM,), (Layer.NULLABLE_ITEM,)


class _Layer(NamedTuple):
    """Whether a layer is one of lists, and which nulls and empty lists it has."""

    is_list: bool
    has_nulls: bool
    has_empty: bool = False
    may_be_null: bool = False
    """Of items: other pages may have nulls."""


_Layers: TypeAlias = tuple[_Layer, ...]


# Columns have the same few layers, and each of a table of many columns asks for them.
@lru_cache(maxsize=256)
def _with_items(layers: _Layers, is_nullable: bool, has_nulls: bool) -> _Layers:
    """The layers, and one of items below them."""
    may_be_null = is_nullable or (bool(layers) and layers[-1].may_be_null)
    return (*layers, _Layer(False, has_nulls, may_be_null=may_be_null))


@lru_cache(maxsize=256)
def _with_lists(layers: _Layers, has_nulls: bool, has_empty: bool) -> _Layers:
    """The layers, and one of lists below them."""
    around = _around(layers)
    # pylance (14.0.2) also loses count of lists around a nullable struct if a list in it has no definition level.
    is_below = any(layer.may_be_null for layer in around)
    return (*around, _Layer(True, has_nulls or is_below, has_empty))


def _around(layers: _Layers) -> _Layers:
    """The layers around lists; items are nullable by their type, not by the values of this page.

    pylance (14.0.2) takes the number of values of a page for that of structs around lists, if another page that
    it reads with this one has null structs and this one has a layer that cannot be null.
    """
    return tuple(layer._replace(has_nulls=layer.has_nulls or layer.may_be_null) for layer in layers)


class _Stated(NamedTuple):
    """What a page states of its layers: inner to outer, their lists, and the definition level of each mark."""

    layers: tuple[Layer, ...]
    num_lists: int
    codes: Levels | None
    """None if no layer has a level."""


@lru_cache(maxsize=256)
def _stated(layers: _Layers) -> _Stated:
    codes, level = np.zeros(2 * len(layers) + 1, np.uint16), 0
    for number in range(len(layers) - 1, -1, -1):
        layer = layers[number]
        for offset, present in ((1, layer.has_nulls), (2, layer.has_empty)):
            level += present
            codes[2 * number + offset] = level if present else 0
    found = tuple(_LAYERS[layer[:3]] for layer in reversed(layers))
    return _Stated(found, sum(layer.is_list for layer in layers), codes if level else None)


class _State(NamedTuple):
    """The entries above a node; ``live`` are those that have a slot of the node's."""

    num_rows: int
    num_entries: int
    layers: _Layers = ()
    """Outer to inner."""
    continued: Marks | None = None
    marks: Marks | None = None
    live: Mask | None = None
    repeated: bool = False

    def with_marks(self, new: Mask, mark: int) -> Marks:
        """The marks with ``mark`` added to some slots."""
        marks = np.zeros(self.num_entries, np.uint8) if self.marks is None else self.marks.copy()
        if self.live is None:
            marks[new] = mark
        else:
            marks[np.flatnonzero(self.live)[new]] = mark
        return marks

    def unmarked(self) -> Mask | None:
        """Slots that are neither null nor below a null; None: all."""
        if self.marks is None:
            return None
        marks = self.marks if self.live is None else self.marks[self.live]
        found: Mask = marks == 0
        return found

    def item(self, field: Field, block: Block) -> _State:
        """The state below a layer of items."""
        new = _nulls_of(block)
        if new is None and self.marks is None:
            layers = _with_items(self.layers, field.nullable, False)
            return _State(self.num_rows, self.num_entries, layers, self.continued, repeated=self.repeated)
        open_ = self.unmarked()
        if new is not None and open_ is not None:
            new &= open_
        has_nulls, marks = new is not None and bool(new.any()), self.marks
        if new is not None and has_nulls:
            if not field.nullable and field.logical_type != "null":
                raise _null_in(field)
            marks = self.with_marks(new, 2 * len(self.layers) + 1)
        layers = _with_items(self.layers, field.nullable, has_nulls or _is_below_null(open_))
        return self._replace(layers=layers, marks=marks)

    def lists(self, field: Field, block: Listed) -> _State:
        """The state below a layer of lists: an entry per element and per list without elements."""
        if self.repeated:
            raise UnsupportedError(
                f"column {printable(field.name)!r}: lists within fixed-size lists of structs cannot be written: use a list of structs",
                feature="list in fixed-size list of structs",
            )
        offsets = stored_offsets(block)
        lengths = offsets[1:] - offsets[:-1]
        number = 2 * len(self.layers)
        nulls, open_ = _nulls_of(block), self.unmarked()
        if nulls is None and self.marks is None and np.count_nonzero(lengths) == lengths.size:
            state = self._replace(layers=_with_lists(self.layers, False, False))
            return state.spread(offsets[:-1], int(offsets[-1]))
        empty = lengths == 0
        if nulls is not None:
            empty &= ~nulls
            nulls = nulls if open_ is None else nulls & open_
        if open_ is not None:
            empty &= open_
        has_nulls, has_empty = nulls is not None and bool(nulls.any()), bool(empty.any())
        state = self
        if nulls is not None and has_nulls:
            if not field.nullable:
                raise _null_in(field)
            state = state._replace(marks=state.with_marks(nulls, number + 1))
        if has_empty:
            state = state._replace(marks=state.with_marks(empty, number + 2))
        return state._replace(layers=_with_lists(self.layers, has_nulls, has_empty)).expanded(lengths)

    def expanded(self, lengths: NDArray[np.integer]) -> _State:
        """Expand entries into elements; those without elements keep one entry."""
        counts = np.maximum(lengths, 1).astype(np.int64)
        if self.live is not None:
            spread = np.ones(self.num_entries, np.int64)
            spread[self.live] = counts
            counts = spread
        starts = np.cumsum(counts) - counts
        total = int(counts.sum())
        state = self.spread(starts, total)
        if self.marks is None:
            return state
        # Null and empty lists and everything below nulls are marked; none of these has elements.
        marks = np.zeros(total, np.uint8)
        marks[starts] = self.marks
        return state._replace(marks=marks, live=marks == 0)

    def spread(self, starts: NDArray[np.integer], total: int) -> _State:
        """The entries at ``starts`` among ``total``; the others continue the innermost list."""
        continued = np.empty(total, np.uint8)
        continued.fill(_stated(self.layers).num_lists)
        continued[starts] = 0 if self.continued is None else self.continued
        return _State(self.num_rows, total, self.layers, continued, repeated=self.repeated)

    def fixed(self, field: Field, size: int) -> _State:
        """The state below a fixed-size list of structs: each entry once per element."""
        if self.continued is not None:
            raise UnsupportedError(
                f"column {printable(field.name)!r}: fixed-size lists of structs within lists cannot be written: use lists of structs",
                feature="fixed-size list of structs in list",
            )
        marks = None if self.marks is None else np.repeat(self.marks, size)
        return self._replace(
            num_rows=self.num_rows * size,
            num_entries=self.num_entries * size,
            layers=_around(self.layers),
            marks=marks,
            repeated=True,
        )


def _is_below_null(open_: Mask | None) -> bool:
    """Whether a layer has entries that are null because a struct around them is.

    The level of the outermost null marks them. Readers of the reference (pylance 14.0.2) still need a layer that
    can be null: they miscount its lists otherwise, and take members that allow no null for null.
    """
    return open_ is not None and not bool(open_.all())


def _null_in(field: Field) -> SchemaError:
    return SchemaError(
        f"column {printable(field.name)!r} has nulls, which its field does not allow", difference="nulls"
    )


def _nulls_of(block: Block) -> Mask | None:
    """Which values are null; None: none."""
    if isinstance(block, AllNull):
        return np.ones(block.length, np.bool_)
    own = block.codes if isinstance(block, Coded) else block
    validity = getattr(own, "validity", None)
    return None if validity is None else ~mask_of(validity, block.length)


def _walk(field: Field, block: Block, state: _State) -> Iterator[ShreddedLeaf]:
    if isinstance(block, Listed):
        (child,) = field.children
        yield from _walk(child, block.child, state.lists(field, block))
    elif isinstance(block, Structured) and field.children and not field.is_whole:
        below = state.item(field, block)
        for child in field.children:
            yield from _walk(child, block.children[child.id], below)
    elif isinstance(block, FixedList) and field.children:
        (child,) = field.children
        yield from _walk(child, block.child, state.item(field, block).fixed(field, block.size))
    else:
        yield _leaf(field, block, state.item(field, block))


_LAYERS = {
    (False, False, False): Layer.ALL_VALID_ITEM,
    (False, True, False): Layer.NULLABLE_ITEM,
    (True, False, False): Layer.ALL_VALID_LIST,
    (True, True, False): Layer.NULLABLE_LIST,
    (True, False, True): Layer.EMPTYABLE_LIST,
    (True, True, True): Layer.NULL_AND_EMPTY_LIST,
}


def _leaf(field: Field, block: Block, state: _State) -> ShreddedLeaf:
    rep = definition = None
    stated = _stated(state.layers)
    if state.continued is not None:
        rep = np.subtract(stated.num_lists, state.continued, dtype=np.uint16)
    if stated.codes is not None:
        marks = state.marks
        definition = np.zeros(state.num_entries, np.uint16) if marks is None else stated.codes[marks]
    open_ = state.unmarked()
    return ShreddedLeaf(
        field=field,
        layers=stated.layers,
        rep=rep,
        definition=definition,
        visible=state.live,
        values=block,
        num_valid=block.length if open_ is None else int(np.count_nonzero(open_)),
        num_rows=state.num_rows,
    )
