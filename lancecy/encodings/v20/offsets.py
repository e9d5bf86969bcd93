"""Running ends: how 2.0 stores the lengths and the nulls of strings and of lists.

A page has one unsigned 64-bit number per row: where the row's values end, counted from
the page's first value, plus an adjustment if the row is null::

    [[1, 2], null, [], [3, 4, 5]]  ->  2 8 2 5   adjustment 6, 5 values

A row starts where the row before it in the page ends. A null row may have values; they are never returned. Source:
file sheet 2.0, sections 4.4 and 4.6.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lancecy import kernels
from lancecy.encodings.blocks.memory import allocate
from lancecy.encodings.model.block import FixedWidth
from lancecy.encodings.model.chunks import starts_of, touched
from lancecy.encodings.model.spec import Plain
from lancecy.encodings.v20.fixed import require_capacity
from lancecy.encodings.v20.pages import Pages, array_of, bare, misfit
from lancecy.errors import FormatError
from lancecy.limits import check_offsets
from lancecy.records import dataclass
from lancecy.rows import PageRuns
from lancecy.store.base import Memory
from lancecy.store.reads import Ranges, Read, Span

__all__ = ["Ends", "ValueSpans", "join_ends", "keep_ends", "read_ends", "spans_of"]

Int64 = NDArray[np.int64]

_NUMBER = Plain(64)
_ENDS = "ends"


@dataclass(frozen=True, slots=True, eq=False)
class Ends:
    """Running ends of some runs, in memory.

    Attributes
    ----------
    memory : (nbytes,) uint8
    positions : (num_runs,) int64, bytes
        The first number of each run.
    previous : (num_runs,) int64, bytes
        The number before the run, or -1 if the run starts its page.
    """

    memory: Memory
    positions: Int64
    previous: Int64


@dataclass(frozen=True, slots=True, eq=False)
class ValueSpans:
    """Offsets and validity of rows, and the ranges of their values.

    Attributes
    ----------
    offsets : buffer
        num_rows + 1 integers of ``offset_width`` bytes over the values of all runs, first 0.
    offset_width : 4 or 8
    validity : buffer or None
    null_count : int
    starts, lengths : (num_runs,) int64
        The values of each run within its page.
    """

    offsets: object
    offset_width: int
    validity: object | None
    null_count: int
    starts: Int64
    lengths: Int64


def read_ends(pages: Pages, runs: PageRuns) -> Read[Ends]:
    """The numbers of these runs, at the node that describes them.

    Raises
    ------
    FormatError
        They are not 64-bit numbers without nulls, or bytes are missing.
    """
    spec = bare(pages.spec)
    before = np.minimum(runs.starts, 1)
    wider = PageRuns(runs.pages, runs.starts - before, runs.counts + before)
    if isinstance(spec, Plain):
        if spec.bits != _NUMBER.bits:
            misfit(spec, _NUMBER)
        require_capacity(pages, runs)
        held = _held(pages, runs)
        if held is None:
            positions, _ = pages.buffer(spec.buffer)
            ranges = Ranges(pages.file, positions[runs.pages] + wider.starts * 8, wider.counts * 8)
            (held,) = yield [ranges]
            memory, starts = held.memory, held.positions
        else:
            memory, starts = held.memory, held.positions + wider.starts * 8
    else:
        block = yield from pages.read(_NUMBER, wider)
        if not isinstance(block, FixedWidth) or block.validity is not None:
            misfit(pages.spec, _NUMBER)
        memory = array_of(block.values)
        starts = (np.cumsum(wider.counts) - wider.counts) * 8
    return Ends(memory, starts + before * 8, np.where(before > 0, starts, -1))


def _held(pages: Pages, runs: PageRuns) -> Span | None:
    """All ends of the pages of the runs, with the position of each run's page; None unless all are kept."""
    memory = pages.memory
    if memory is None or pages.file.store.traits.is_mapped:
        return None
    numbers, local = touched(runs)
    parts = [memory.find(first, _ENDS) for first in pages.first_buffer[numbers].tolist()]
    if any(part is None for part in parts):
        return None
    starts = starts_of(np.array([part.size for part in parts]))
    return Span(parts[0] if len(parts) == 1 else np.concatenate(parts), starts[local.pages])


def keep_ends(pages: Pages, numbers: Int64, most: int) -> Read[None]:
    """Keep all ends of some pages, for later calls of :func:`read_ends`; nothing if they have more than ``most`` bytes.

    Parameters
    ----------
    pages : Pages
        At the node that describes the numbers.
    numbers : (n,) int64
        Indices of the pages.
    most : int, bytes
    """
    spec, memory = bare(pages.spec), pages.memory
    if memory is None or not isinstance(spec, Plain) or spec.bits != _NUMBER.bits:
        return
    firsts = pages.first_buffer[numbers].tolist()
    missing = numbers[[memory.find(first, _ENDS) is None for first in firsts]]
    positions, sizes = pages.buffer(spec.buffer)
    if not missing.size or (pages.counts[missing] > sizes[missing] >> 3).any():
        return
    lengths = pages.counts[missing] * 8
    if int(lengths.sum()) > most:
        return
    (span,) = yield [Ranges(pages.file, positions[missing], lengths)]
    for number, at, length in zip(missing.tolist(), span.positions.tolist(), lengths.tolist(), strict=True):
        memory.keep(int(pages.first_buffer[number]), _ENDS, span.memory[at : at + length].copy(), length)


def join_ends(parts: list[Ends], counts: list[Int64]) -> Ends:
    """Join runs of pages of several forms; only the running ends are copied.

    Parameters
    ----------
    parts : list of Ends
    counts : list of (num_runs,) int64
        Numbers of each run.
    """
    if len(parts) == 1:
        return parts[0]
    pieces, positions, previous, base = [], [], [], 0
    for part, numbers in zip(parts, counts, strict=True):
        before = part.previous >= 0
        lengths = (numbers + before) * 8
        out = np.empty(int(lengths.sum()), np.uint8)
        kernels.copy_spans(part.memory, np.where(before, part.previous, part.positions), lengths, out)
        starts = np.cumsum(lengths) - lengths + base
        pieces.append(out)
        positions.append(starts + before * 8)
        previous.append(np.where(before, starts, -1))
        base += out.size
    return Ends(np.concatenate(pieces), np.concatenate(positions), np.concatenate(previous))


def spans_of(
    ends: Ends, runs: PageRuns, adjustments: Int64, sizes: Int64, offset_width: int, what: str
) -> ValueSpans:
    """Offsets, validity and value spans of the rows of some runs.

    Parameters
    ----------
    ends : Ends
    runs : PageRuns
        The same runs, ascending and disjoint.
    adjustments, sizes : (num_runs,) int64
        For the page of each run: the adjustment of nulls (unsigned), and the number of values.
    offset_width : 4 or 8
    what : str
        Name of the values, for errors.

    Raises
    ------
    FormatError
        Ends descend or pass the values of their page.
    LimitError
        More values than 32-bit offsets can count.
    """
    num_rows = runs.num_rows
    buffer, offsets = allocate((num_rows + 1) * offset_width)
    bitmap, validity = allocate((num_rows + 7) >> 3)
    starts, lengths = np.empty_like(runs.starts), np.empty_like(runs.starts)

    def count(out: NDArray[np.int32] | NDArray[np.int64]) -> tuple[int, int]:
        return kernels.ended_offsets(
            ends.memory,
            ends.positions,
            runs.counts,
            ends.previous,
            adjustments,
            sizes,
            out,
            validity,
            starts,
            lengths,
        )

    try:
        _, null_count = count(offsets.view(f"<i{offset_width}"))
    except FormatError:
        if offset_width == 4:
            check_offsets(count(np.empty(num_rows + 1, np.int64))[0], what)
        raise
    _check_order(runs.pages, starts, lengths, what)
    return ValueSpans(buffer, offset_width, bitmap if null_count else None, null_count, starts, lengths)


def _check_order(pages: Int64, starts: Int64, lengths: Int64, what: str) -> None:
    """Raise FormatError if runs of a page share values: ends must ascend between runs as within them."""
    bad = (starts[1:] < starts[:-1] + lengths[:-1]) & (pages[1:] == pages[:-1])
    if bool(bad.any()):
        place = int(np.argmax(bad)) + 1
        raise FormatError(f"ends of {what} descend before run {place}", position=place)
