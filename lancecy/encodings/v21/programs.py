"""Programs of mini-block pages: what one kernel call needs to know to decode any rows of a page.

The spec of a page is compiled once and kept with the table of its chunks. A program covers definition levels and
values that are plain, bit-packed or strings, plain fixed-size lists, and codes of dictionaries; any other page has none
and is read codec by codec (``codecs.values``). Source: file sheet 2.1, sections 3.1 to 3.5.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.blocks.memory import allocate
from lancecy.encodings.codecs import flat, fsst
from lancecy.encodings.codecs.fixed import room
from lancecy.encodings.codecs.strings import bytes_of, check_overlap
from lancecy.encodings.model.block import Block, FixedWidth, VariableWidth
from lancecy.encodings.model.layouts import MiniBlock, all_visible_max, max_repetition
from lancecy.encodings.model.spec import (
    FixedListOf,
    InlinePacked,
    PackedBlocks,
    Plain,
    Spec,
    SymbolCoded,
    Variable,
)
from lancecy.errors import TruncatedError
from lancecy.limits import Limits, check_offsets
from lancecy.records import dataclass
from lancecy.rows import PageRuns, RowSelection
from lancecy.store.base import Memory

__all__ = [
    "ChosenLists",
    "PageSymbols",
    "Program",
    "ProgramPart",
    "Wanted",
    "find",
    "program_of",
    "run_programs",
]

Int64 = NDArray[np.int64]
Levels = NDArray[np.uint16]

_PLAIN, _INLINE, _BLOCKS, _TEXT = 1, 2, 3, 4
_INLINE_VALUES = 1024
_MOST_BITS = 1 << 24
"""Most bits of a fixed-size list that is read as a value: no chunk has larger ones."""


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """The chunks that hold rows, and the rows as runs in them.

    Attributes
    ----------
    chunks : (3, room) int64
        Position, bytes and values of each chunk, in the first ``num_chunks`` columns.
    runs : (3, room) int64
        Column of ``chunks``, first value and number of values of each run, in the first ``num_runs`` columns.
    num_chunks, num_runs, num_rows : int
    """

    chunks: Int64
    num_chunks: int
    runs: Int64
    num_runs: int
    num_rows: int

    @property
    def page_runs(self) -> PageRuns:
        """The runs."""
        return PageRuns(*self.runs[:, : self.num_runs])

    @classmethod
    def whole(cls, chunks: Int64) -> Wanted:
        """All values of some chunks; ``chunks`` is (3, num_chunks)."""
        size = chunks.shape[1]
        runs = np.zeros((3, size), np.int64)
        runs[0], runs[2] = np.arange(size), chunks[2]
        return cls(chunks, size, runs, size, int(chunks[2].sum()))


def find(starts: Int64, offsets: Int64, rows: RowSelection) -> Wanted:
    """Find the chunks of ascending rows.

    Parameters
    ----------
    starts, offsets : (num_chunks + 1,) int64
        First row and first byte of each chunk, then the number of all.
    rows : RowSelection
        Ascending, without duplicates; at least one.
    """
    if rows.indices is not None:
        first, stops, size = rows.indices, None, rows.indices.size
        tables = np.empty((2, 3, size), np.int64)
    elif rows.starts is not None and rows.stops is not None:
        first, stops = rows.starts, rows.stops
        tables = np.empty((2, 3, first.size + starts.size), np.int64)
    else:
        raise ValueError("a selection has neither ranges nor indices")
    chunks, runs = tables
    num_chunks, num_runs = kernels.find_chunks(starts, offsets, first, stops, chunks, runs)
    return Wanted(chunks, num_chunks, runs, num_runs, len(rows))


@dataclass(frozen=True, slots=True, eq=False)
class ChosenLists:
    """Chunks of lists, and the rows wanted of them.

    Attributes
    ----------
    memory : (nbytes,) uint8
    found : (5 or more, num_chunks) int64
        Headers of the chunks.
    chunks : (3, num_chunks) int64
        As in :class:`Wanted`.
    begun : (num_chunks,) int64 or None
        Rows that begin in each chunk, if there is an index that tells.
    groups, ranges : as ``kernels.find_lists`` gives them
    """

    memory: Memory
    found: Int64
    chunks: Int64
    begun: Int64 | None
    groups: Int64
    ranges: Int64

    @property
    def num_levels(self) -> int:
        """Levels of the chunks."""
        return int(self.found[0].sum())


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """How to decode the chunks of a page.

    Attributes
    ----------
    numbers : (num_programs, 13) int64
        As ``kernels.read_chunks`` wants them: several for pages that are coded in different ways.
    has_levels : bool
    kinds : frozenset of int
        How values are coded, as in ``numbers``.
    bits : int
        Of a value, or of an offset of strings.
    symbols : Symbols or None
        With which strings are coded.
    levels : (10,) int64 or None
        As ``kernels.read_lists`` wants them, for a page of lists.
    form : hashable
        Equal for pages that can be decoded together.
    family : hashable or None
        Equal for pages that can be read as one, however their values and levels are coded; None for pages of lists or in structs.
    fixed_lists : FixedListOf or None
        Fixed-size lists that are read as values of their width.
    """

    numbers: Int64
    has_levels: bool
    kinds: frozenset[int]
    bits: int
    symbols: fsst.Symbols | None
    levels: Int64 | None = None
    form: Hashable = None
    family: Hashable = None
    fixed_lists: FixedListOf | None = None

    def lists(self, chosen: ChosenLists, rep: Levels, definition: Levels | None) -> tuple[int, Wanted]:
        """Decode the levels of ranges of rows to the front of arrays, and find their value slots.

        Parameters
        ----------
        chosen : ChosenLists
        rep : (``chosen.num_levels``,) uint16
        definition : (``chosen.num_levels``,) uint16 or None
            None: the page has none.

        Returns
        -------
        num_levels : int
            Of the rows.
        wanted : Wanted
            Their values.

        Raises
        ------
        FormatError
            Chunks are damaged.
        """
        if self.levels is None:
            raise TypeError("a page without lists has no levels of lists")
        c = chosen
        counts = c.chunks[2]
        runs = np.empty((3, c.ranges.shape[1] + counts.size), np.int64)
        size, num_runs = kernels.read_lists(
            c.memory, c.found, counts, c.begun, c.groups, c.ranges, self.levels, rep, definition, runs
        )
        return size, Wanted(c.chunks, counts.size, runs, num_runs, int(runs[2, :num_runs].sum()))

    @property
    def is_text(self) -> bool:
        """Whether values are strings."""
        return _TEXT in self.kinds

    def stored_bytes(self, wanted: Wanted) -> int:
        """The bytes of the chunks, or 0 if they do not matter.

        Raises
        ------
        TruncatedError
            The chunks cannot hold so many values.
        """
        if _BLOCKS in self.kinds:
            return 0
        stored = int(wanted.chunks[1, : wanted.num_chunks].sum())
        most = _INLINE_VALUES * wanted.num_chunks if _INLINE in self.kinds else 0
        if len(self.kinds) > 1 or not most:
            most += stored // (self.bits >> 3)
        if wanted.num_rows > most:
            raise TruncatedError(f"{wanted.num_chunks} chunks cannot hold {wanted.num_rows} values")
        return stored

    @classmethod
    def of_several(cls, programs: Sequence[Program]) -> Program:
        """One for pages of different programs of one family."""
        first = programs[0]
        if len(programs) == 1:
            return first
        return replace(
            first,
            numbers=np.concatenate([program.numbers for program in programs]),
            has_levels=any(program.has_levels for program in programs),
            kinds=frozenset[int]().union(*(program.kinds for program in programs)),
        )


class PageSymbols(NamedTuple):
    """The symbols of one of several pages, the end of its runs and of its values among those of all."""

    symbols: fsst.Symbols
    stop: int
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class ProgramPart:
    """A program, and the values it is to decode.

    Attributes
    ----------
    program : Program
    memory : (nbytes,) uint8
    wanted : Wanted
        With positions in ``memory``.
    symbols : tuple of PageSymbols
        Of each page, if the values are those of several pages whose strings are coded.
    numbers : (num_chunks,) int64 or None
        Which of the program's numbers each chunk has; None: all have the first.
    """

    program: Program
    memory: Memory
    wanted: Wanted
    symbols: tuple[PageSymbols, ...] = ()
    numbers: Int64 | None = None

    def read(self, levels: Levels | None, out: NDArray[np.uint8], spans: Int64 | None) -> None:
        """Decode into arrays, as ``kernels.read_chunks`` wants them."""
        w = self.wanted
        tables = (w.chunks, w.num_chunks, w.runs, w.num_runs, self.program.numbers, self.numbers)
        kernels.read_chunks(self.memory, *tables, levels, out, spans)

    def coded(self, first: int, spans: Int64) -> Iterator[fsst.SymbolPart]:
        """The strings that are coded, by their symbols; ``first`` is the number of the first value."""
        if self.program.symbols is None:
            return
        start, begin = 0, first
        for symbols, stop, end in self.symbols or (
            PageSymbols(self.program.symbols, self.wanted.num_runs, self.wanted.num_rows),
        ):
            mine = spans[:, start:stop]
            yield fsst.SymbolPart(symbols, slice(begin, first + end), self.memory, mine[0], mine[1])
            start, begin = stop, first + end


def run_programs(parts: Sequence[ProgramPart], limits: Limits) -> tuple[Levels | None, Block]:
    """Definition levels, if there are any, and values of the wanted rows of several pages.

    Parameters
    ----------
    parts : sequence of ProgramPart
        At least one; their programs are of one form.
    limits : Limits

    Raises
    ------
    FormatError, LimitError
        Chunks are damaged, or the values take more than ``limits`` allow.
    """
    first = parts[0].program
    stored = [part.program.stored_bytes(part.wanted) for part in parts]
    edges = [0, *accumulate(part.wanted.num_rows for part in parts)]
    levels = np.empty(edges[-1], np.uint16) if first.has_levels else None
    slices = [None if levels is None else levels[a:b] for a, b in pairwise(edges)]
    if first.is_text:
        return levels, _texts(parts, stored, edges, slices)
    width = first.bits >> 3
    buffer, out = room(edges[-1], first.bits, limits)
    for part, mine, (a, b) in zip(parts, slices, pairwise(edges), strict=True):
        part.read(mine, out[a * width : b * width], None)
    block = FixedWidth(edges[-1], first.bits, buffer)
    return levels, block if first.fixed_lists is None else flat.nested(first.fixed_lists, block)


def _texts(
    parts: Sequence[ProgramPart], stored: Sequence[int], edges: Sequence[int], levels: Sequence[Levels | None]
) -> Block:
    bits = parts[0].program.bits
    _, out = allocate((edges[-1] + 1) * (bits >> 3))
    offsets = out.view(f"<i{bits >> 3}")
    spans, sizes = [], [0]
    for part, mine, (a, b) in zip(parts, levels, pairwise(edges), strict=True):
        spans.append(np.empty((2, part.wanted.num_runs), np.int64))
        part.read(mine, out[a * (bits >> 3) : (b + 1) * (bits >> 3)], spans[-1])
        before = sizes[-1]
        sizes.append(before + int(offsets[b]))
        if before:
            if bits == 32:
                check_offsets(sizes[-1], "bytes of strings")
            offsets[a] = 0
            offsets[a : b + 1] += offsets.dtype.type(before)
    if len(parts) == 1 and parts[0].program.symbols is None:
        return VariableWidth(edges[-1], bits >> 3, offsets, bytes_of(parts[0].memory, stored[0], *spans[0]))
    for (_, lengths), most in zip(spans, stored, strict=True):
        check_overlap(most, lengths)
    pairs = zip(parts, spans, edges, strict=False)
    coded = [piece for part, where, first in pairs for piece in part.coded(first, where)]
    if coded:
        return fsst.decode_parts(coded, offsets)
    values = np.empty(sizes[-1], np.uint8)
    for part, where, (a, b) in zip(parts, spans, pairwise(sizes), strict=True):
        kernels.copy_spans(part.memory, where[0], where[1], values[a:b])
    return VariableWidth(edges[-1], bits >> 3, offsets, values)


def program_of(spec: MiniBlock) -> Program | None:
    """The program of a page; None if a kernel has no code for one of its parts."""
    # Each page has its own symbols, but columns of many files have the same few layouts otherwise.
    return _program_of(spec) if isinstance(spec.values, SymbolCoded) else _kept_program(spec.shape)


def _program_of(spec: MiniBlock) -> Program | None:
    rep, definition = _codec(spec.rep), _codec(spec.definition)
    values, symbols = spec.values, None
    if isinstance(values, SymbolCoded):
        symbols, values = fsst.parse_symbols(values.table), values.values
    fixed_lists = values if isinstance(values, FixedListOf) else None
    values = _flattened(values)
    codec = _codec(values)
    if rep is None or definition is None or codec is None or codec[0] == 0:
        return None
    if any(kind == _TEXT or (kind and bits != 16) for kind, bits, _, _ in (rep, definition)):
        return None
    if isinstance(spec.values, SymbolCoded) and codec[0] != _TEXT:
        return None
    depth, levels = max_repetition(spec.layers), None
    if (depth > 0) != (rep[0] > 0):
        return None
    if depth:
        levels = np.array([*rep, *definition, depth, all_visible_max(spec.layers)], np.int64)
    shape = (4 if spec.is_large else 2, depth > 0, definition[0] > 0, spec.num_buffers)
    mine = (0, 0, 0, 0) if depth else definition
    numbers = np.array([[*shape, getattr(values, "buffer", 0), *mine, *codec]], np.int64)
    is_coded = definition[0] != 0
    form = (spec.layers, is_coded, codec[0], codec[1], symbols is None, spec.dictionary is None, fixed_lists)
    family = None
    if not depth and len(spec.layers) == 1 and not isinstance(spec.values, SymbolCoded):
        family = (spec.is_large, codec[0] == _TEXT, codec[1], spec.dictionary is None, fixed_lists)
    return Program(
        numbers, mine[0] != 0, frozenset(codec[:1]), codec[1], symbols, levels, form, family, fixed_lists
    )


_kept_program = lru_cache(maxsize=256)(_program_of)


def _flattened(spec: Spec) -> Spec:
    """Plain fixed-size lists without nulls inside as values of their width; any other node as it is."""
    inner, factor = spec, 1
    while isinstance(inner, FixedListOf) and inner.validity is None:
        factor *= inner.size
        inner = inner.child
    if not isinstance(inner, Plain) or inner.bits * factor > _MOST_BITS:
        return spec
    return replace(inner, bits=inner.bits * factor)


def _codec(spec: Spec | None) -> tuple[int, int, int, int] | None:
    """Kind, bits, packed bits and whether the last block may be unpacked; None if the kernel does not know it."""
    if spec is None:
        return 0, 0, 0, 0
    if isinstance(spec, Plain) and spec.bits and spec.bits % 8 == 0:
        return _PLAIN, spec.bits, 0, 0
    if isinstance(spec, InlinePacked):
        return _INLINE, spec.bits, 0, 0
    if isinstance(spec, PackedBlocks):
        return _BLOCKS, spec.bits, spec.packed_bits, int(spec.raw_tail)
    if isinstance(spec, Variable) and spec.offsets is None:
        return _TEXT, spec.offset_width * 8, 0, 0
    return None
