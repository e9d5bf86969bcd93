"""Full-zip pages: large values, each with its levels before it.

Buffers of a page::

    values    per entry: control word | value          fixed width; an entry without a slot is the word alone
              per entry: control word | length | bytes      varying; nulls too are the word alone
    index     rows + 1 byte offsets into the values, of 1, 2, 4 or 8 bytes; if there are lists or values vary

The control word has 0, 1, 2 or 4 bytes: the repetition level above the bits of the definition
level. Without a word, rows of one width are a plain array, which on a map is not copied.
Rows of one width without lists are found by arithmetic, in one round; other parts of a page
by two entries of the index per range, then the bytes. A whole page is read without its
index. Source: file sheet 2.1, sections 3.8 and 5.3.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.blocks.memory import allocate
from lancecy.encodings.blocks.null_only import has_no_values
from lancecy.encodings.codecs import flat
from lancecy.encodings.codecs.packed import decode_rows
from lancecy.encodings.codecs.zipped_values import (
    ZippedSpans,
    ZippedValues,
    decode_spans,
    decode_zipped,
    zipped_bits,
)
from lancecy.encodings.model.block import Block, Structured
from lancecy.encodings.model.chunks import row_ranges
from lancecy.encodings.model.layouts import FullZip, all_visible_max, max_definition, max_repetition
from lancecy.encodings.model.pages import Page
from lancecy.encodings.model.spec import FixedListOf, PackedFields, Plain, Spec
from lancecy.encodings.v21.repdef import LeafPage
from lancecy.errors import FormatError, TruncatedError
from lancecy.limits import Limits
from lancecy.records import dataclass
from lancecy.rows import PageRuns, RowSelection
from lancecy.schema import Field
from lancecy.store.base import Memory
from lancecy.store.reads import Ranges, Read, SourceFile, Span

__all__ = ["read"]

Int64 = NDArray[np.int64]
Levels = NDArray[np.uint16]


def read(
    spec: FullZip,
    page: Page,
    chain: tuple[Field, ...],
    rows: RowSelection,
    file: SourceFile,
    limits: Limits,
) -> Read[LeafPage]:
    """Decode rows of a full-zip page.

    Parameters
    ----------
    spec : FullZip
    page : Page
        With the buffers that ``spec`` needs.
    chain : tuple of Field
        From the top-level field to the leaf.
    rows : RowSelection
        Over ``page.num_rows`` rows, ascending, without duplicates; at least one.

    Returns
    -------
    Read of LeafPage
        One round for all rows and for rows of one width without lists, else two.

    Raises
    ------
    FormatError
        Counts, index, levels or values of the page contradict each other; TruncatedError if bytes are
        missing.
    LimitError, UnsupportedError
        See ``decode_spans``.
    """
    words = _words(spec)
    if spec.value_bits is not None and zipped_bits(spec.values) != spec.value_bits:
        raise FormatError(
            f"full-zip values of {spec.value_bits} bits, whose encoding has {zipped_bits(spec.values)}"
        )
    if spec.value_bits is not None and max_repetition(spec.layers) == 0:
        return _read_table(spec, words, spec.value_bits >> 3, page, chain[-1], rows, file)
    return _read_entries(spec, words, page, chain[-1], rows, file, limits)


@dataclass(frozen=True, slots=True)
class _Words:
    """Layout of control words, as the kernels take it.

    Attributes
    ----------
    nbytes, def_bits : int
    visible_max, max_rep, max_def : int
        Levels.
    """

    nbytes: int
    def_bits: int
    visible_max: int
    max_rep: int
    max_def: int


def _words(spec: FullZip) -> _Words:
    bits = spec.rep_bits + spec.definition_bits
    nbytes = (bits + 7) >> 3
    most = (max_repetition(spec.layers), max_definition(spec.layers))
    if max(most) > 0xFFFF:
        raise FormatError("more levels than 16 bits can count")
    return _Words(4 if nbytes > 2 else nbytes, spec.definition_bits, all_visible_max(spec.layers), *most)


# -- rows of one width ----------------------------------------------------------------


def _read_table(
    spec: FullZip, words: _Words, width: int, page: Page, field: Field, rows: RowSelection, file: SourceFile
) -> Read[LeafPage]:
    """Every row is one entry of the same size."""
    stride = words.nbytes + width
    if spec.num_entries != page.num_rows or spec.num_visible != page.num_rows:
        raise FormatError(f"{spec.num_entries} entries without lists in a page of {page.num_rows} rows")
    if stride and page.num_rows > int(page.sizes[0]) // stride:
        raise TruncatedError(f"{int(page.sizes[0])} bytes cannot hold {page.num_rows} values of {stride}")
    starts, stops = row_ranges(rows)
    num_rows = len(rows)
    if has_no_values(field) and words.nbytes == 0:
        return LeafPage(spec.layers, None, None, Structured(num_rows, {}), num_rows)
    plain = _plain(spec.values)
    if words.nbytes == 0 and plain is not None and field.logical_type != "bool":
        runs = PageRuns(np.zeros(starts.size, np.int64), starts, stops - starts)
        values = yield from flat.read_flat(plain, file, page.positions[:1], runs, False)
        return LeafPage(spec.layers, None, None, values, num_rows)
    sizes = (stops - starts) * stride
    (span,) = yield [Ranges(file, page.positions[0] + starts * stride, sizes)]
    if words.nbytes == 0:
        before = np.cumsum(stops - starts) - (stops - starts)
        shifts = np.repeat(span.positions - before * width, stops - starts)
        cells = ZippedValues(span.memory, shifts + np.arange(num_rows) * width, width)
        return LeafPage(spec.layers, None, None, decode_zipped(spec.values, cells, field), num_rows)
    if has_no_values(field):
        definition = _definition(words, span, stops - starts, stride)
        return LeafPage(spec.layers, None, definition, Structured(num_rows, {}), num_rows)
    entries = _Entries(words, num_rows, num_rows)
    values = entries.fixed(span.memory, span.positions, span.positions + sizes, width, spec.values, field)
    return LeafPage(spec.layers, None, entries.levels[1], values, num_rows)


def _definition(words: _Words, span: Span, counts: Int64, stride: int) -> Levels:
    """Definition levels of runs of entries without repetition levels; values are not decoded."""
    before = np.cumsum(counts) - counts
    positions = np.repeat(span.positions - before * stride, counts) + np.arange(int(counts.sum())) * stride
    stored = np.empty(positions.size * words.nbytes, np.uint8)
    kernels.gather_fixed(span.memory, positions, words.nbytes, stored)
    levels = stored.view(f"<u{words.nbytes}")  # without lists words hold nothing else
    if int(levels.max(initial=0)) > words.max_def:
        place = int(np.argmax(levels > words.max_def))
        raise FormatError(f"level {place} is above what the layers of its page allow", position=place)
    return levels.astype(np.uint16)


def _plain(spec: Spec) -> Plain | FixedListOf | None:
    """The node, if its values are plain bytes."""
    leaf = spec
    while isinstance(leaf, FixedListOf) and leaf.validity is None:
        leaf = leaf.child
    return spec if isinstance(leaf, Plain) and isinstance(spec, Plain | FixedListOf) else None


# -- rows that an index finds -----------------------------------------------------------


def _read_entries(
    spec: FullZip,
    words: _Words,
    page: Page,
    field: Field,
    rows: RowSelection,
    file: SourceFile,
    limits: Limits,
) -> Read[LeafPage]:
    if rows.is_all:
        starts, stops = np.zeros(1, np.int64), page.sizes[:1]
    else:
        starts, stops = yield from _row_spans(page, rows, file)
    has_lists = words.max_rep > 0 and not rows.is_all
    # The word of the list that follows shows that a range ends where its last list does.
    after = np.minimum(page.sizes[0] - stops, words.nbytes if has_lists else 0)
    (span,) = yield [Ranges(file, page.positions[0] + starts, stops - starts + after)]
    starts, stops = span.positions, span.positions + stops - starts
    if has_lists:
        _check_rows(words, span.memory, starts, stops, after)
    nbytes = int((stops - starts).sum())
    smallest = words.nbytes or (spec.length_bits or spec.value_bits or 8) >> 3
    if rows.is_all and spec.num_entries > nbytes // smallest:
        raise TruncatedError(f"{nbytes} bytes cannot hold {spec.num_entries} entries")
    most = min(spec.num_entries, nbytes // smallest)
    entries = _Entries(words, most, min(spec.num_visible, most))
    if spec.value_bits is not None:
        values = entries.fixed(span.memory, starts, stops, spec.value_bits >> 3, spec.values, field)
    else:
        spans = entries.variable(span.memory, starts, stops, (spec.length_bits or 0) >> 3)
        _check_empty(spec.values, spans, entries.levels[1], words.visible_max)
        values = _strings(spec.values, spans, field, limits)
    if rows.is_all and (entries.num_entries, entries.num_slots) != (spec.num_entries, spec.num_visible):
        raise FormatError(
            f"{entries.num_entries} entries with {entries.num_slots} values, where the page claims "
            f"{spec.num_entries} with {spec.num_visible}"
        )
    return LeafPage(spec.layers, *entries.levels, values, len(rows))


def _check_empty(spec: Spec, spans: ZippedSpans, definition: Levels | None, visible_max: int) -> None:
    """Raise FormatError unless packed rows without bytes are null."""
    if isinstance(spec, PackedFields) and spec.fields:
        empty = spans.lengths.size - int(np.count_nonzero(spans.lengths))
        is_null = definition is not None and (definition > 0) & (definition <= visible_max)
        if empty != int(np.count_nonzero(is_null)):
            raise FormatError("a packed row that is not null has no bytes")


def _strings(spec: Spec, spans: ZippedSpans, field: Field, limits: Limits) -> Block:
    if has_no_values(field):
        return Structured(spans.starts.size, {})
    if isinstance(spec, PackedFields):
        return decode_rows(spec, spans, field, limits)
    return decode_spans(spec, spans, limits)


def _row_spans(page: Page, rows: RowSelection, file: SourceFile) -> Read[tuple[Int64, Int64]]:
    """Byte ranges of rows within the values, from the index."""
    size, num_offsets = int(page.sizes[1]), page.num_rows + 1
    width = size // num_offsets
    if width not in {1, 2, 4, 8} or width * num_offsets != size:
        raise FormatError(f"a repetition index of {size} bytes for {page.num_rows} rows")
    wanted = np.stack(row_ranges(rows), axis=1).reshape(-1)
    (span,) = yield [Ranges(file, page.positions[1] + wanted * width, np.full(wanted.size, width, np.int64))]
    stored = np.empty(wanted.size * width, np.uint8)
    kernels.gather_fixed(span.memory, span.positions, width, stored)
    unsigned = stored.view(f"<u{width}")
    offsets = unsigned.astype(np.int64)
    # Overlapping spans could expand to any size. No index of a real page reaches 2^63.
    if bool((offsets[1:] < offsets[:-1]).any()) or offsets[0] < 0 or offsets[-1] > page.sizes[0]:
        raise FormatError("offsets of a repetition index descend or leave the page")
    pairs = offsets.reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def _check_rows(words: _Words, memory: Memory, starts: Int64, stops: Int64, after: Int64) -> None:
    """Raise FormatError unless ranges begin and end with whole lists; ``after`` is 0 for one at the end of its page."""
    edges = np.concatenate([starts, stops[after > 0]])
    if words.nbytes == 0 or bool((stops - starts < words.nbytes).any() or (after % words.nbytes).any()):
        raise FormatError("the repetition index has rows without entries")
    stored = np.empty(edges.size * words.nbytes, np.uint8)
    kernels.gather_fixed(memory, edges, words.nbytes, stored)
    if bool((stored.view(f"<u{words.nbytes}") >> words.def_bits != words.max_rep).any()):
        raise FormatError("an offset of the repetition index is inside a row")


class _Entries:
    """Entries unzipped by a kernel, and the memory for levels and values.

    Attributes
    ----------
    num_entries, num_slots : int
        How many there were.
    """

    def __init__(self, words: _Words, max_entries: int, max_slots: int) -> None:
        self._words, self._max_slots = words, max_slots
        self._rep = np.empty(max_entries, np.uint16) if words.max_rep else None
        self._def = np.empty(max_entries, np.uint16) if words.max_def else None
        self.num_entries = self.num_slots = 0

    @property
    def levels(self) -> tuple[Levels | None, Levels | None]:
        """Repetition and definition levels of the entries."""
        rep = None if self._rep is None else self._rep[: self.num_entries]
        return rep, None if self._def is None else self._def[: self.num_entries]

    def fixed(
        self, memory: Memory, starts: Int64, stops: Int64, width: int, spec: Spec, field: Field
    ) -> Block:
        """Values of one width."""
        words = self._words
        slots = min(self._max_slots, int((stops - starts).sum()) // max(1, words.nbytes + width))
        _, values = allocate(slots * width)
        self.num_entries, self.num_slots = kernels.zip_fixed(
            memory, starts, stops, words.nbytes, words.def_bits, width, *self._limits(), values
        )
        if has_no_values(field):
            return Structured(self.num_slots, {})
        cells = ZippedValues.packed(values[: self.num_slots * width], width, self.num_slots)
        return decode_zipped(spec, cells, field)

    def variable(self, memory: Memory, starts: Int64, stops: Int64, length_bytes: int) -> ZippedSpans:
        """Spans of values that vary."""
        words = self._words
        spans = np.empty((2, self._max_slots), np.int64)
        self.num_entries, self.num_slots = kernels.zip_variable(
            memory, starts, stops, words.nbytes, words.def_bits, length_bytes, *self._limits(), *spans
        )
        return ZippedSpans(memory, spans[0, : self.num_slots], spans[1, : self.num_slots])

    def _limits(self) -> tuple[int, int, int, Levels | None, Levels | None]:
        words = self._words
        return words.visible_max, words.max_rep, words.max_def, self._rep, self._def
