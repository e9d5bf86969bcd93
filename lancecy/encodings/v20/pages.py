"""Pages of 2.0 that are decoded together, and the common part of their decoders.

Pages are *of one form* when their nodes differ only in numbers that vary from page to page (adjustments, counts
of elements). A run of such pages is a :class:`Pages`: the same arrays for a page as for ten thousand, so every
buffer is one request and one kernel call. Decoders are functions from pages, a shape and runs to a Read; the
field's type determines the shape, in the nodes of 0.1 (``fields.spec_of``), and a decoder refuses any page of
another shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, NoReturn, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from lancecy.encodings.model.block import Block, Pieces
from lancecy.encodings.model.chunks import touched
from lancecy.encodings.model.pages import PageMemory
from lancecy.encodings.model.spec import (
    EndedBinary,
    EndedList,
    FixedListOf,
    Nullable,
    PageDictionary,
    Spec,
    SymbolCoded,
)
from lancecy.errors import FormatError, LimitError
from lancecy.limits import Limits
from lancecy.records import dataclass
from lancecy.rows import PageRuns
from lancecy.store.base import Memory, StoreTraits
from lancecy.store.reads import Read, SourceFile, Span, run

__all__ = [
    "MAX_VALUES",
    "Decoder",
    "KeptFiles",
    "Pages",
    "SeveralFiles",
    "array_of",
    "bare",
    "check_unbacked",
    "forms",
    "joined",
    "misfit",
    "require_values",
    "served",
]

Int64 = NDArray[np.int64]
T = TypeVar("T")

MAX_VALUES = 2**62
"""Most values of a page, counting elements of fixed-size lists; sums of larger numbers could overflow."""


class SeveralFiles:
    """Stands for the store of pages that are in several files (``encodings.several_files``)."""

    traits = StoreTraits()


class KeptFiles(SeveralFiles):
    """Stands for the store of pages whose bytes are all in one memory."""

    traits = StoreTraits(is_mapped=True)


@dataclass(frozen=True, slots=True, eq=False)
class Pages:
    """Pages of one form of a column, at one of their nodes.

    A column's pages are kept with it (``columns.groups_of``), and what is asked of them is worked out once.

    Attributes
    ----------
    specs : tuple of Spec
        The node in each page; a single entry if it is the same in all.
    counts : (num_pages,) int64
        Number of values of this node in each page.
    first_buffer : (num_pages,) int64
        Start of the buffers of each page in the following arrays.
    positions, sizes : int64, bytes
        Buffers in the file; each lies within it.
    file : SourceFile
    limits : Limits
    decoders : mapping of node type to Decoder
    memory : PageMemory or None
        Cache for decoded parts of the column's pages; a page is known there by the number of its first buffer.
    """

    specs: tuple[Spec, ...]
    counts: Int64
    first_buffer: Int64
    positions: Int64
    sizes: Int64
    file: SourceFile
    limits: Limits
    decoders: Mapping[type[object], Decoder]
    memory: PageMemory | None = None
    _known: dict[object, Any] = field(default_factory=dict, init=False, repr=False)

    @property
    def spec(self) -> Spec:
        """The node in the first page, which determines everything but the numbers."""
        return self.specs[0]

    def buffer(self, number: int) -> tuple[Int64, Int64]:
        """Positions and sizes of one buffer of every page; must not be written to."""
        found: tuple[Int64, Int64] | None = self._known.get(number)
        if found is None:
            index = self.first_buffer + number
            found = self._known[number] = self.positions[index], self.sizes[index]
        return found

    def numbers(self, name: str) -> Int64:
        """(num_pages,) int64: a number of the node in each page; unsigned 64-bit ones keep their bits.

        Must not be written to.
        """
        found: Int64 | None = self._known.get((name,))
        if found is None:
            found = np.array([getattr(spec, name) for spec in self.specs], np.uint64).view(np.int64)
            if found.size == 1:
                found = np.broadcast_to(found, self.counts.shape).copy()
            self._known[name,] = found
        return found

    def worked_out(self, what: str, work: Callable[[Pages], T]) -> T:
        """The result of a function of these pages, kept under the name ``what``."""
        if what not in self._known:
            self._known[what] = work(self)
        found: T = self._known[what]
        return found

    def below(self, name: str, factor: int = 1) -> Pages:
        """The same pages at the node that an attribute of this one holds, with ``factor`` values per value of this one."""
        found: Pages | None = self._known.get((name, factor))
        if found is None:
            specs = tuple(getattr(spec, name) for spec in self.specs)
            counts = self.counts if factor == 1 else self.counts * factor
            found = self._known[name, factor] = replace(self, specs=specs, counts=counts)
        return found

    def holding(self, counts: Int64) -> Pages:
        """The same pages with other numbers of values, at the same node."""
        return replace(self, counts=counts)

    def some(self, numbers: Int64) -> Pages:
        """Only these pages."""
        specs = self.specs if len(self.specs) == 1 else tuple(self.specs[n] for n in numbers.tolist())
        counts, first = self.counts[numbers], self.first_buffer[numbers]
        return replace(self, specs=specs, counts=counts, first_buffer=first)

    def read(self, shape: Spec, runs: PageRuns, in_pieces: bool = False) -> Read[Block]:
        """Decode runs within these pages.

        Parameters
        ----------
        shape : Spec
            The shape required by the field's type.
        runs : PageRuns
            At least one; ascending, disjoint, none empty. ``pages`` are indices into these pages.
        in_pieces : bool
            Whether large runs may be separate blocks of a ``Pieces`` block.

        Raises
        ------
        FormatError
            The pages are not of that shape, or their bytes contradict them.
        """
        decoder = self.decoders.get(type(self.spec))
        if decoder is None:
            misfit(self.spec, shape)
        return decoder(self, shape, runs, in_pieces)


Decoder: TypeAlias = Callable[[Pages, Spec, PageRuns, bool], Read[Block]]


def misfit(spec: Spec, shape: Spec) -> NoReturn:
    """Refuse pages without the shape required by the field's type."""
    raise FormatError(f"a page of {_brief(spec)} cannot hold {_brief(shape)} values")


def _brief(spec: Spec) -> str:
    bits = getattr(spec, "bits", None)
    name = type(spec).__name__
    return f"{name}({bits} bits)" if isinstance(bits, int) else name


def bare(spec: Spec) -> Spec:
    """The node without the wrappers for values without nulls."""
    while isinstance(spec, Nullable) and spec.validity is None:
        spec = spec.values
    return spec


def forms(specs: Sequence[Spec]) -> list[int]:
    """Bounds of the groups of consecutive pages that are of one form, first 0 and last ``len(specs)``."""
    bounds = [0]
    for index in range(1, len(specs)):
        if specs[index] is not specs[index - 1] and not _same_form(specs[index], specs[bounds[-1]]):
            bounds.append(index)
    return [*bounds, len(specs)] if specs else bounds


def _same_form(one: Spec, other: Spec) -> bool:
    if one is other:
        return True
    if isinstance(one, EndedBinary) and isinstance(other, EndedBinary):
        return (
            (one.adjustment == 0) == (other.adjustment == 0)
            and _same_form(one.offsets, other.offsets)
            and _same_form(one.values, other.values)
        )
    if isinstance(one, EndedList) and isinstance(other, EndedList):
        return _same_form(one.offsets, other.offsets)
    if isinstance(one, PageDictionary) and isinstance(other, PageDictionary):
        return _same_form(one.codes, other.codes) and _same_form(one.items, other.items)
    if isinstance(one, Nullable) and isinstance(other, Nullable):
        return one.validity == other.validity and _same_form(one.values, other.values)
    if isinstance(one, FixedListOf) and isinstance(other, FixedListOf):
        return one.size == other.size and _same_form(one.child, other.child)
    if isinstance(one, SymbolCoded) and isinstance(other, SymbolCoded):
        return one.table == other.table and _same_form(one.values, other.values)
    return one == other


def require_values(pages: Pages, runs: PageRuns, capacity: Int64) -> None:
    """Refuse pages whose bytes cannot hold the values they claim.

    Parameters
    ----------
    pages : Pages
    runs : PageRuns
        Only pages with runs are checked.
    capacity : (num_pages,) int64
        How many values the bytes of each page hold.

    Raises
    ------
    FormatError
        ``position`` is the index of the page among those read.
    """
    short = pages.counts > capacity
    if not short.any():
        return
    numbers, _ = touched(runs)
    bad = numbers[short[numbers]]
    if bad.size:
        page = int(bad[0])
        raise FormatError(
            f"a page of {int(pages.counts[page])} values has bytes for {int(capacity[page])}", position=page
        )


def check_unbacked(count: int, file: SourceFile, limits: Limits, what: str) -> None:
    """Raise LimitError for more values without bytes than a file of this size may claim.

    Raises
    ------
    LimitError
        More than ``Limits.bare_elements``, and more than the file has bits.
    """
    if count > limits.bare_elements and count > file.size * 8:
        raise LimitError(f"{count} {what} that take no bytes", limit="bare_elements", claimed=count)


def served(read: Read[T], memory: Memory) -> T:
    """The value of a Read whose positions are all in ``memory``."""
    return run(read, lambda requests: [Span(memory, request.positions) for request in requests])


def joined(blocks: Sequence[Block]) -> Block:
    """Concatenate blocks into one."""
    flat = [piece for block in blocks for piece in (block.blocks if isinstance(block, Pieces) else (block,))]
    return flat[0] if len(flat) == 1 else Pieces(sum(block.length for block in flat), tuple(flat))


def array_of(data: object, kind: str = "u1") -> NDArray[Any]:
    """A block's buffer as an array of ``kind``; the memory is shared."""
    array: NDArray[Any] = np.frombuffer(data, kind)  # type: ignore[call-overload]
    return array
