"""Sparse structures of 2.3: nulls and lists given by positions instead of levels.

A page lists its layers from the row inwards. Each layer stores the positions of its exceptions: of the slots
that are null (or of those that are not), and of the lists that have items, with the number of items of each::

    [[1, 2], [], null, [3]]     lists    positions 0 3    counts 2 1    3 child slots    nulls 2
                                items    nulls -

The cost of a selection depends on the number of stored positions, not of slots: two binary searches turn a range of
lists into the range of their items. ``decode_structure`` reads and checks the positions, ``Structure.select``
follows ranges of rows inwards, ``build`` restores the layers around the leaf. Selected and null slots
are stored as ranges and positions, so that only the mask of selected slots takes memory per slot. Source: file sheet 2.1, section 3.12.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.blocks.memory import allocate
from lancecy.encodings.blocks.scatter import packed
from lancecy.encodings.codecs.arithmetic import as_integers, has_payload
from lancecy.encodings.codecs.values import decode_block
from lancecy.encodings.model.block import Block, FixedList, Listed, Structured
from lancecy.encodings.model.chunks import places_of, starts_of
from lancecy.encodings.model.layouts import Layer, SparseLayer
from lancecy.encodings.model.spec import Spec
from lancecy.encodings.v21 import repdef
from lancecy.encodings.v21.repdef import LeafPage
from lancecy.errors import FormatError, printable
from lancecy.limits import Limits
from lancecy.records import dataclass
from lancecy.rows import RowSelection
from lancecy.schema import Field
from lancecy.store.base import Memory

__all__ = [
    "Around",
    "Slots",
    "SparsePage",
    "Structure",
    "Validity",
    "build",
    "decode_structure",
    "integers",
    "num_payloads",
    "slot_counts",
]


Int64 = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Slots:
    """Selected slots of one layer.

    Attributes
    ----------
    starts, stops : (num_ranges,) int64
        Half-open ranges, ascending and disjoint, none empty.
    """

    starts: Int64
    stops: Int64

    @classmethod
    def joined(cls, starts: Int64, stops: Int64) -> Slots:
        """The same slots in the fewest ranges; empty ranges are allowed in the arguments.

        Examples
        --------
        >>> Slots.joined(np.array([0, 2, 2, 5]), np.array([2, 2, 3, 6])).stops.tolist()
        [3, 6]
        """
        keep = np.flatnonzero(stops > starts)
        starts, stops = starts[keep], stops[keep]
        apart = starts[1:] != stops[:-1]
        is_first = np.concatenate((np.ones(min(1, starts.size), np.bool_), apart))
        is_last = np.concatenate((apart, np.ones(min(1, starts.size), np.bool_)))
        return cls(starts[is_first], stops[is_last])

    @property
    def count(self) -> int:
        """Number of slots."""
        return int((self.stops - self.starts).sum())

    def find(self, positions: Int64) -> tuple[Int64, Int64]:
        """Which of the ascending ``positions`` are selected, and the place of each among the selected slots."""
        first, last = np.searchsorted(positions, self.starts), np.searchsorted(positions, self.stops)
        which = places_of(first, last - first)
        shifts = self.starts - starts_of(self.stops - self.starts)[:-1]
        return which, positions[which] - np.repeat(shifts, last - first)

    def all_places(self) -> Int64:
        """(count,) int64: every slot."""
        return places_of(self.starts, self.stops - self.starts)

    def selection(self, num_slots: int) -> RowSelection:
        """The same as a selection of ``num_slots`` rows."""
        return RowSelection(num_slots, self.starts, self.stops)


@dataclass(frozen=True, slots=True, eq=False)
class Validity:
    """Which slots of a layer are null.

    Attributes
    ----------
    num_slots : int
    are_valid : bool
        Whether ``positions`` are the valid slots or the null ones.
    positions : (num_positions,) int64, ascending
    """

    num_slots: int
    are_valid: bool
    positions: Int64

    @property
    def num_valid(self) -> int:
        """Slots that are not null."""
        return self.positions.size if self.are_valid else self.num_slots - self.positions.size

    def valid_before(self, slots: Int64) -> Int64:
        """How many valid slots come before each of these."""
        found = np.searchsorted(self.positions, slots)
        return found if self.are_valid else slots - found

    def mask(self, slots: Slots, limits: Limits) -> Mask | None:
        """(slots.count,) bool: whether each is valid; None if all are.

        Raises
        ------
        LimitError
            There are more slots than ``limits.page_bytes``.
        """
        which, places = slots.find(self.positions)
        count = slots.count
        if which.size == (count if self.are_valid else 0):
            return None
        mask = np.full(limits.check("page_bytes", count, "slots of a page"), not self.are_valid)
        mask[places] = self.are_valid
        return mask


def integers(spec: Spec, memory: Memory, count: int, limits: Limits) -> Int64:
    """Whole numbers of a standalone buffer; one repeated value without bytes is 0.

    Raises
    ------
    FormatError, LimitError, UnsupportedError
        See ``values.decode_block``; FormatError also if the values are not integers.
    """
    limits.check("page_bytes", count * 8, "bytes of the structure of a page")
    if count == 0:
        return np.empty(0, np.int64)
    return as_integers(decode_block(spec, memory, count, limits))


_NOTHING: Memory = np.empty(0, np.uint8)
_MOST_SLOTS = 1 << 62


# -- layers as they are stored --------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Lists:
    """Lists that have items: ascending positions, and the running sum of their counts (one more, from 0)."""

    positions: Int64
    ends: Int64


def num_payloads(layers: Sequence[SparseLayer]) -> int:
    """Buffers that the positions and counts of these layers take."""
    specs = [spec for layer in layers for spec in (layer.positions, layer.counts, layer.valid_positions)]
    return sum(spec is not None and has_payload(spec) for spec in specs)


def slot_counts(
    layers: Sequence[SparseLayer],
    chain: Sequence[Field],
    num_rows: int,
    backed: tuple[int, bool],
    limits: Limits,
) -> list[int]:
    """Slots of each layer, from the message.

    Parameters
    ----------
    layers : sequence of SparseLayer, outer to inner
    chain : sequence of Field
        From the top-level field to the leaf.
    num_rows : int
        Rows of the page.
    backed : (int, bool)
        Bits of the file; whether chunks hold every leaf slot, so that their decoder bounds these.
    limits : Limits

    Raises
    ------
    FormatError
        Layers and fields do not fit each other.
    LimitError
        There are more items than ``limits.bare_elements``, and than the file has bits.
    """
    if len(layers) != len(chain):
        raise FormatError(f"a page with {len(layers)} layers in a column of {len(chain)}")
    nbits, is_chunked = backed
    counts, bare = [num_rows], []
    for number, (layer, field) in enumerate(zip(layers, chain, strict=True)):
        _check_kind(number, layer, field, number == len(chain) - 1)
        is_list = layer.kind == "list"
        counts.append(layer.num_children if is_list else counts[-1] * max(1, layer.size))
        bare += [layer.num_children] * is_list
    if max(counts) > _MOST_SLOTS:
        raise FormatError(f"a page of {max(counts)} slots")
    most = max(bare[: len(bare) - is_chunked], default=0)
    if most > nbits:
        limits.check("bare_elements", most, "number of items of lists that take no bytes")
    return counts[:-1]


def _check_kind(number: int, layer: SparseLayer, field: Field, is_leaf: bool) -> None:
    expected = "item"
    if not is_leaf and (field.is_list or field.is_map):
        expected = "list"
    elif not is_leaf and field.is_fixed_list:
        expected = "fixed_list"
    if layer.kind != expected or (expected == "fixed_list" and not 0 < layer.size == field.list_size):
        what = f"layer {number} of column {printable(field.name)!r}"
        raise FormatError(f"{what} is one of {layer.kind} slots, which does not fit the schema")


@dataclass(frozen=True, slots=True, eq=False)
class Structure:
    """The structure of a page; made by ``decode_structure``.

    Attributes
    ----------
    layers : tuple of (SparseLayer, Validity, lists or None), outer to inner
    """

    layers: tuple[tuple[SparseLayer, Validity, _Lists | None], ...]

    @property
    def leaf(self) -> Validity:
        """Validity of the leaf's slots."""
        return self.layers[-1][1]

    def visible_leaf(self, limits: Limits) -> Validity:
        """Leaf slots that are valid and not below a null.

        A null fixed-size list has child slots, which may themselves be valid.

        Raises
        ------
        LimitError
            Some layer has more slots than ``limits.page_bytes``.
        """
        visible = np.ones(1, np.bool_)
        for number, (layer, validity, lists) in enumerate(self.layers):
            num_slots = limits.check("page_bytes", validity.num_slots, "slots of a page")
            visible = np.ones(num_slots, np.bool_) if number == 0 else visible
            mask = validity.mask(Slots.joined(np.zeros(1, np.int64), np.array([num_slots])), limits)
            if mask is not None:
                visible = visible & mask
            if lists is not None:
                limits.check("page_bytes", layer.num_children, "slots of a page")
                visible = np.repeat(visible[lists.positions], np.diff(lists.ends))
            elif layer.size > 1:
                limits.check("page_bytes", num_slots * layer.size, "slots of a page")
                visible = np.repeat(visible, layer.size)
        return Validity(visible.size, True, np.flatnonzero(visible).astype(np.int64, copy=False))

    def select(self, slots: Slots, limits: Limits) -> tuple[tuple[Around, ...], Slots]:
        """Select the layers around the leaf for some top-level slots, outer to inner, and the leaf slots in them.

        Raises
        ------
        LimitError
            The layers take more than ``limits.page_bytes``.
        """
        around = []
        for layer, validity, lists in self.layers[:-1]:
            limits.check("page_bytes", slots.count * 8, "bytes of the structure of a page")
            bitmap, null_count = packed(validity.mask(slots, limits))
            lengths = None
            count = slots.count
            if lists is not None:
                lengths, slots = _items_of(lists, slots)
            elif layer.kind == "fixed_list":
                slots = Slots(slots.starts * layer.size, slots.stops * layer.size)
            around.append(Around(count, bitmap, null_count, lengths, layer.size))
        return tuple(around), slots


def _items_of(lists: _Lists, slots: Slots) -> tuple[Int64, Slots]:
    """Items of each selected list, and their places."""
    which, places = slots.find(lists.positions)
    lengths = np.zeros(slots.count, np.int64)
    lengths[places] = lists.ends[which + 1] - lists.ends[which]
    first, last = (np.searchsorted(lists.positions, edges) for edges in (slots.starts, slots.stops))
    return lengths, Slots.joined(lists.ends[first], lists.ends[last])


# -- decoding --------------------------------------------------------------------------------


def decode_structure(
    layers: Sequence[SparseLayer], counts: Sequence[int], payloads: Sequence[Memory], limits: Limits
) -> Structure:
    """Positions and counts of a page, checked.

    Parameters
    ----------
    layers : sequence of SparseLayer, outer to inner
    counts : sequence of int
        From ``slot_counts``.
    payloads : sequence of (nbytes,) uint8
        ``num_payloads(layers)`` buffers: per layer positions, counts and validity, where they take bytes.
    limits : Limits

    Raises
    ------
    FormatError
        Positions descend or are beyond the slots, or counts are not those of the items; ``position`` is the
        first wrong one. TruncatedError if bytes are missing.
    LimitError
        They take more than ``limits.page_bytes``.
    """
    stored = iter(payloads)
    found = []
    for layer, num_slots in zip(layers, counts, strict=True):
        lists = _lists(layer, num_slots, stored, limits) if layer.kind == "list" else None
        found.append((layer, _validity(layer, num_slots, stored, limits), lists))
    return Structure(tuple(found))


def _validity(layer: SparseLayer, num_slots: int, stored: Iterator[Memory], limits: Limits) -> Validity:
    positions = _positions(layer.valid_positions, layer.num_valid_positions, num_slots, stored, limits)
    return Validity(num_slots, layer.validity == "valids", positions)


def _lists(layer: SparseLayer, num_slots: int, stored: Iterator[Memory], limits: Limits) -> _Lists:
    if layer.num_positions > layer.num_children:
        raise FormatError(f"{layer.num_positions} lists that have items, and {layer.num_children} items")
    positions = _positions(layer.positions, layer.num_positions, num_slots, stored, limits)
    counts = _numbers(layer.counts, layer.num_positions, stored, limits)
    if bool((counts <= 0).any()):
        raise FormatError("a list that has items has none", position=int(np.argmax(counts <= 0)))
    ends = starts_of(counts)
    # A sum that wraps is below the one before it.
    if bool((ends[1:] < ends[:-1]).any()) or int(ends[-1]) != layer.num_children:
        raise FormatError(f"items of lists are not the {layer.num_children} that there are")
    return _Lists(positions, ends)


def _positions(
    spec: Spec | None, count: int, num_slots: int, stored: Iterator[Memory], limits: Limits
) -> Int64:
    if count > num_slots:
        raise FormatError(f"{count} positions among {num_slots} slots")
    positions = _numbers(spec, count, stored, limits)
    wrong = np.ones(count, np.bool_)
    wrong[1:] = positions[1:] <= positions[:-1]
    wrong[:1] = positions[:1] < 0
    wrong |= positions >= num_slots
    if bool(wrong.any()):
        raise FormatError("positions descend or leave their slots", position=int(np.argmax(wrong)))
    return positions


def _numbers(spec: Spec | None, count: int, stored: Iterator[Memory], limits: Limits) -> Int64:
    """Numbers of a structure; they are in the next buffer if they take bytes."""
    memory = next(stored) if spec is not None and has_payload(spec) else _NOTHING
    return np.empty(0, np.int64) if spec is None else integers(spec, memory, count, limits)


# -- assembly --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Around:
    """One layer around the leaf, for the selected slots.

    Attributes
    ----------
    length : int
        Slots.
    validity : bitmap or None
    null_count : int
    lengths : (length,) int64 or None
        Items of each list.
    size : int
        Size of fixed-size lists.
    """

    length: int
    validity: NDArray[np.uint8] | None
    null_count: int
    lengths: Int64 | None
    size: int


@dataclass(frozen=True, slots=True, eq=False)
class SparsePage(LeafPage):
    """The contents of a page with a sparse structure: ``build`` of this module makes the column.

    Attributes
    ----------
    around : tuple of Around, outer to inner
        Around the leaf, whose own layer is the only one of ``layers``.
    """

    around: tuple[Around, ...] = ()


def build(page: SparsePage, chain: tuple[Field, ...]) -> Block:
    """The column that a leaf belongs to, with only this leaf in it.

    Parameters
    ----------
    page : SparsePage
    chain : tuple of Field
        From the top-level field down to the leaf.

    Raises
    ------
    FormatError
        The numbers of values and slots differ.
    """
    leaf = LeafPage((Layer.NULLABLE_ITEM,), None, None, page.values, page.values.length, page.leaf_validity)
    block = repdef.build(leaf, chain[-1:])
    for field, child, layer in zip(chain[-2::-1], chain[:0:-1], page.around[::-1], strict=True):
        block = _wrapped(layer, field, child, block)
    return block


def _wrapped(layer: Around, field: Field, child: Field, block: Block) -> Block:
    validity, null_count = layer.validity, layer.null_count
    if layer.lengths is not None:
        width = 8 if field.is_large_list else 4
        buffer, offsets = allocate((layer.length + 1) * width)
        items = kernels.zipped_offsets(layer.lengths, offsets.view(f"<i{width}"))
        _check_length(block, items)
        return Listed(layer.length, width, buffer, block, validity, null_count)
    if field.is_fixed_list:
        _check_length(block, layer.length * layer.size)
        return FixedList(layer.length, layer.size, block, validity, null_count)
    _check_length(block, layer.length)
    return Structured(layer.length, {child.id: block}, validity, null_count)


def _check_length(block: Block, expected: int) -> None:
    if block.length != expected:
        raise FormatError(f"{block.length} values, where the structure has {expected} slots")
