"""Pages of 2.3, which describe structure and values separately.

A page with a dense structure is read as the page of 2.2 that it describes. One with a sparse
structure has, in this order::

    buffers of the values      chunked: words, chunks, dictionary     zipped: values, index
                               indexed: indices, then as zipped       constant, none: nothing
    buffers of the structure   see ``sparse``

Chunks and indices cover every leaf slot, zipped values only slots that are valid and within no null. For a part of
a page all buffers but the one with the values are fetched first, and answer the requests of the value readers: two
rounds, as for other layouts. Source: file sheet 2.1, section 3.12, except for the indices and for slots within
nulls, which were found in the bytes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.blocks.null_only import has_no_values
from lancecy.encodings.blocks.scatter import packed, scatter
from lancecy.encodings.codecs.arithmetic import has_payload
from lancecy.encodings.codecs.dictionaries import look_up
from lancecy.encodings.codecs.values import decode_block
from lancecy.encodings.model.block import AllNull, Block, Structured
from lancecy.encodings.model.chunks import row_ranges
from lancecy.encodings.model.fields import spec_of
from lancecy.encodings.model.layouts import (
    ConstantPage,
    FullZip,
    Layer,
    MiniBlock,
    PageSpec,
    Planar,
    SparseLayer,
)
from lancecy.encodings.model.pages import Page
from lancecy.encodings.model.spec import Spec, VarBinary
from lancecy.encodings.v21 import constant, fullzip, miniblock
from lancecy.encodings.v21.planar.sparse import (
    Slots,
    SparsePage,
    Structure,
    Validity,
    decode_structure,
    integers,
    num_payloads,
    slot_counts,
)
from lancecy.encodings.v21.repdef import LeafPage, rows_per_value
from lancecy.errors import FormatError, UnsupportedError, printable
from lancecy.limits import Limits
from lancecy.records import dataclass
from lancecy.rows import RowSelection
from lancecy.schema import Field
from lancecy.store.base import Memory
from lancecy.store.reads import Ranges, Read, SourceFile, Span

__all__ = ["read"]

T = TypeVar("T")
Int64 = NDArray[np.int64]

_SMALL_PAGE = 64 << 10
"""Pages of at most this many bytes are fetched whole: a second round costs more."""

_ITEM = (Layer.ALL_VALID_ITEM,)
_NULLABLE = (Layer.NULLABLE_ITEM,)


def read(
    spec: Planar, page: Page, chain: tuple[Field, ...], rows: RowSelection, file: SourceFile, limits: Limits
) -> Read[LeafPage]:
    """Decode rows of a page of 2.3; parameters and errors as ``miniblock.read``.

    Returns
    -------
    Read of LeafPage
        A ``SparsePage`` if the structure is sparse.

    Raises
    ------
    UnsupportedError
        A structure and values that no writer combines.
    """
    values = spec.values
    if spec.sparse is not None:
        return (yield from _read_sparse(spec, spec.sparse, page, chain, rows, file, limits))
    if values is None or spec.indexed is not None:
        what = "no values" if values is None else "indexed values"
        raise UnsupportedError(
            f"planar pages with a dense structure and {what}, in column {printable(chain[-1].name)!r}",
            feature=f"dense structure with {what}",
        )
    inner = replace(page, spec=values)
    if isinstance(values, MiniBlock):
        return (yield from miniblock.read(values, inner, chain, rows, file, limits))
    if isinstance(values, ConstantPage):
        return (yield from constant.read(values, inner, chain, rows, file, limits))
    return (yield from fullzip.read(values, inner, chain, rows, file, limits))


# -- sparse pages -----------------------------------------------------------------------


def _read_sparse(
    spec: Planar,
    layers: tuple[SparseLayer, ...],
    page: Page,
    chain: tuple[Field, ...],
    rows: RowSelection,
    file: SourceFile,
    limits: Limits,
) -> Read[LeafPage]:
    factor = rows_per_value(chain)
    wanted = _top_slots(page, rows, factor)
    backed = (file.size * 8, isinstance(spec.values, MiniBlock))
    counts = slot_counts(layers, chain, page.num_rows // factor, backed, limits)
    at_once = rows.is_all or int(page.sizes.sum()) <= _SMALL_PAGE
    held = yield from _fetch_buffers(page, file, -1 if at_once else _partial_buffer(spec))
    first = page.sizes.size - num_payloads(layers)
    structure = decode_structure(layers, counts, [held[i] for i in range(first, page.sizes.size)], limits)
    around, slots = structure.select(wanted, limits)
    leaf = _Leaf(page, chain, file, limits, held, _leaf_validity(spec, structure, limits), slots)
    values = yield from leaf.values(spec)
    validity = None if leaf.mask is None else packed(leaf.mask)
    return SparsePage(_NULLABLE, None, None, values, len(rows), validity, around)


def _leaf_validity(spec: Planar, structure: Structure, limits: Limits) -> Validity:
    """Which leaf slots have a value, where values are not stored for every slot.

    Slots that are valid within a null fixed-size list have none.
    """
    validity, values = structure.leaf, spec.values
    num_values = values.num_entries if isinstance(values, FullZip) and spec.indexed is None else 0
    is_of_every_slot = values is not None and num_values == 0
    if is_of_every_slot or validity.num_valid == num_values or len(structure.layers) == 1:
        return validity
    return structure.visible_leaf(limits)


def _top_slots(page: Page, rows: RowSelection, factor: int) -> Slots:
    """Slots of the selected rows; under fixed-size lists of structs a row has several."""
    starts, stops = row_ranges(rows)
    if factor == 0 or page.num_rows % factor:
        raise FormatError(f"a page of {page.num_rows} values, {factor} of which are a row")
    if factor > 1 and bool((starts % factor).any() or (stops % factor).any()):
        raise FormatError(f"a row of {factor} values in two pages")
    return Slots.joined(starts // factor, stops // factor)


def _partial_buffer(spec: Planar) -> int:
    """The buffer that is fetched only in part for a part of a page, or -1."""
    if isinstance(spec.values, MiniBlock):
        return 1
    if isinstance(spec.values, FullZip):
        return int(spec.indexed is not None and has_payload(spec.indexed))
    return -1


# -- fetched buffers ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _FetchedBuffers:
    """Buffers of a page that have been fetched.

    Attributes
    ----------
    span : Span or None
        One position per buffer that was fetched; None if the page has none.
    numbers, positions, sizes : (num_fetched,) int64
        Their numbers in the page, and where they are in the file; ascending by position.
    """

    span: Span | None
    numbers: Int64
    positions: Int64
    sizes: Int64

    def __getitem__(self, number: int) -> Memory:
        place = np.flatnonzero(self.numbers == number)
        if self.span is None or place.size != 1:
            raise FormatError(f"a page lacks buffer {number}")
        start = int(self.span.positions[place[0]])
        return self.span.memory[start : start + int(self.sizes[place[0]])]

    def answer(self, wanted: list[Ranges]) -> list[Span] | None:
        """The answer to these ranges, if all of them are held."""
        answers = []
        for request in wanted:
            place = np.searchsorted(self.positions, request.positions, side="right") - 1
            if self.span is None or bool((place < 0).any()):
                return None
            within = request.positions - self.positions[place]
            if bool(
                (within > self.sizes[place]).any() or (request.lengths > self.sizes[place] - within).any()
            ):
                return None
            answers.append(Span(self.span.memory, self.span.positions[place] + within))
        return answers

    def drive(self, read: Read[T]) -> Read[T]:
        """The same Read, with requests only for the missing bytes."""
        try:
            wanted = next(read)
            while True:
                spans = self.answer(wanted)
                if spans is None:
                    spans = yield wanted
                wanted = read.send(spans)
        except StopIteration as stop:
            result: T = stop.value
            return result


def _fetch_buffers(page: Page, file: SourceFile, but: int) -> Read[_FetchedBuffers]:
    """Fetch all buffers of a page except number ``but``; all of them if it is -1."""
    numbers = np.argsort(page.positions, kind="stable")
    numbers = numbers[numbers != but]
    positions, sizes = page.positions[numbers], page.sizes[numbers]
    span = None
    if numbers.size:
        (span,) = yield [Ranges(file, positions, sizes)]
    return _FetchedBuffers(span, numbers, positions, sizes)


# -- values -----------------------------------------------------------------------------


class _Leaf:
    """The selected slots of the leaf of a page.

    Attributes
    ----------
    mask : (slots.count,) bool or None
        Which of them are valid; None if all are.
    """

    def __init__(
        self,
        page: Page,
        chain: tuple[Field, ...],
        file: SourceFile,
        limits: Limits,
        held: _FetchedBuffers,
        validity: Validity,
        slots: Slots,
    ) -> None:
        self._page, self._chain, self._file, self._limits = page, chain, file, limits
        self._held, self._validity, self._slots = held, validity, slots
        self._count = slots.count
        self.mask = validity.mask(slots, limits) if validity.num_valid else None
        edges = slots.starts, slots.stops
        # The selected ones among the valid slots.
        self._valid = Slots.joined(*(validity.valid_before(edge) for edge in edges))

    def values(self, spec: Planar) -> Read[Block]:
        """Values of the slots; those of null slots are arbitrary."""
        values, field = spec.values, self._chain[-1]
        if values is None:
            return self._none(field)
        if has_no_values(field):
            return Structured(self._count, {})
        if self._valid.count == 0:
            return AllNull(self._count)
        if isinstance(values, MiniBlock):
            return (yield from self._chunked(values))
        if isinstance(values, ConstantPage):
            return (yield from self._constant(values))
        if spec.indexed is not None:
            return (yield from self._indexed(spec.indexed, values))
        return (yield from self._zipped(values))

    def _none(self, field: Field) -> Block:
        num_valid = self._validity.num_valid
        if num_valid and field.is_struct and not field.children:
            return Structured(self._count, {})
        if num_valid and field.logical_type != "null":
            raise FormatError(f"a page without values has {num_valid} that are not null")
        return AllNull(self._count)

    def _chunked(self, values: MiniBlock) -> Read[Block]:
        num_slots = self._validity.num_slots
        if values.num_items not in {0, num_slots}:
            raise FormatError(f"{values.num_items} items in a page of {num_slots} slots")
        inner = replace(values, layers=_ITEM, dictionary=None, num_dictionary_items=0, num_items=num_slots)
        page = self._part(inner, 0, 2, num_slots)
        rows = self._slots.selection(num_slots)
        read = miniblock.read(inner, page, self._chain, rows, self._file, self._limits)
        found = (yield from self._held.drive(read)).values
        if values.dictionary is None:
            return found
        items = decode_block(values.dictionary, self._held[2], values.num_dictionary_items, self._limits)
        is_null = None if self.mask is None else (~self.mask).astype(np.uint16)
        return look_up(found, items, self._chain[-1], _NULLABLE, is_null, self._limits)[0]

    def _constant(self, values: ConstantPage) -> Read[Block]:
        """The value for every slot; strings are stored for valid slots only."""
        has_strings = isinstance(spec_of(self._chain[-1]), VarBinary) and self.mask is not None
        count = 1 if has_strings else self._count
        inner = replace(values, layers=_ITEM)
        page, rows = self._part(inner, 0, 0, count), RowSelection.all(count)
        found = (yield from constant.read(inner, page, self._chain, rows, self._file, self._limits)).values
        if not has_strings:
            return found
        return scatter(found, np.zeros(self._valid.count, np.int64), self.mask, self._limits)

    def _zipped(self, values: FullZip) -> Read[Block]:
        num_valid = self._validity.num_valid
        if values.num_entries != num_valid:
            raise FormatError(f"{values.num_entries} values for {num_valid} slots that are not null")
        found = yield from self._items(values, 0, self._valid.selection(num_valid))
        return scatter(found, None, self.mask, self._limits)

    def _indexed(self, indices: Spec, values: FullZip) -> Read[Block]:
        num_slots, first = self._validity.num_slots, int(has_payload(indices))
        memory = self._held[0] if first else np.empty(0, np.uint8)
        codes = integers(indices, memory, num_slots, self._limits)[self._slots.all_places()]
        codes = codes if self.mask is None else codes[self.mask]
        kernels.check_codes(codes, values.num_entries)
        items, which = np.unique(codes, return_inverse=True)
        rows = RowSelection.all(values.num_entries)
        if items.size < values.num_entries:
            rows = RowSelection.take(values.num_entries, items)
        found = yield from self._items(values, first, rows)
        return scatter(found, which.astype(np.int64, copy=False), self.mask, self._limits)

    def _items(self, values: FullZip, first: int, rows: RowSelection) -> Read[Block]:
        """Some of the zipped values, whose buffers begin with number ``first``."""
        inner = replace(values, layers=_ITEM)
        page = self._part(inner, first, first + 1 + (values.length_bits is not None), values.num_entries)
        read = fullzip.read(inner, page, self._chain, rows, self._file, self._limits)
        return (yield from self._held.drive(read)).values

    def _part(self, spec: PageSpec, first: int, stop: int, num_rows: int) -> Page:
        """The page with only these buffers and no structure."""
        page = self._page
        return Page(page.number, num_rows, spec, page.positions[first:stop], page.sizes[first:stop])
