"""Lists of 2.0 files, and the strings of 0.12 and 0.13, which are lists of bytes.

The pages of a list column have the lengths of its lists; the elements are rows of the next column, whose page
boundaries are independent. Source: file sheet 2.0, sections 4.4 and 4.14.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

from lancecy.encodings.blocks.memory import allocate
from lancecy.encodings.model.block import (
    AllNull,
    Block,
    FixedList,
    FixedWidth,
    Listed,
    Pieces,
    Structured,
    VariableWidth,
)
from lancecy.encodings.model.chunks import runs_within, starts_of, touched
from lancecy.encodings.model.fields import spec_of
from lancecy.encodings.model.layouts import PageSpec
from lancecy.encodings.model.pages import Column
from lancecy.encodings.model.spec import EndedBinary, EndedList, Nullable, NullOf, Plain, VarBinary
from lancecy.encodings.v20.binary import bytes_block
from lancecy.encodings.v20.columns import FieldSource, Rows, all_pages, groups_of, node_of, read_pages
from lancecy.encodings.v20.offsets import Ends, ValueSpans, join_ends, keep_ends, read_ends, spans_of
from lancecy.encodings.v20.pages import Pages, array_of, check_unbacked, misfit
from lancecy.errors import FormatError, printable
from lancecy.rows import PageRuns
from lancecy.schema import Field
from lancecy.store.reads import Read, gather

__all__ = ["element_starts", "is_old_string", "read_list", "read_null_lists", "read_old_strings"]

Int64 = NDArray[np.int64]

_MOST_KEPT = 1 << 20
"""Most bytes of the ends of outer lists, in the pages of a read, that are kept."""
_MOST_AHEAD = 256 << 10
"""Most bytes of the ends of all that a column has within lists that are read before it is known which are needed."""


def element_starts(column: Column) -> Int64:
    """(num_pages + 1,) int64: the first element of each page's lists, then the number of elements.

    Pages without rows have no elements, whatever their metadata states. Must not be written to.
    """
    known: Int64 | None = column.compiled.get("element starts")
    if known is None:
        counts = np.fromiter((_num_items(spec) for spec in column.specs), np.int64, column.num_pages)
        counts[np.diff(column.row_starts) == 0] = 0
        known = column.compiled["element starts"] = starts_of(counts)
    return known


def _num_items(spec: PageSpec) -> int:
    found = spec if isinstance(spec, EndedList) else node_of(spec)
    return found.num_items if isinstance(found, EndedList) else 0


def _read_spans(
    column: Column, source: FieldSource, runs: PageRuns, sizes: Int64, offset_width: int, what: str
) -> Read[ValueSpans]:
    """Element ranges of the lists of some runs; ``sizes`` are the elements of each page."""
    groups = [(_list_node(group.pages), group.runs) for group in groups_of(column, source, runs)]
    parts = yield from gather([read_ends(pages.below("offsets"), part) for pages, part in groups])
    ends: Ends = join_ends(parts, [part.counts for _, part in groups])
    adjustments = np.concatenate([pages.numbers("adjustment")[part.pages] for pages, part in groups])
    if not adjustments.all():
        raise FormatError("lists whose ends cannot tell null from valid")
    return spans_of(ends, runs, adjustments, sizes[runs.pages], offset_width, what)


def _list_node(pages: Pages) -> Pages:
    while isinstance(pages.spec, Nullable) and pages.spec.validity is None:
        pages = pages.below("values")
    if not isinstance(pages.spec, EndedList):
        raise FormatError(f"a list cannot be a page of {type(pages.spec).__name__}")
    return pages


def _elements(spans: ValueSpans, runs: PageRuns, element_starts: Int64) -> Rows:
    """Ranges of the child's rows, neighbours joined."""
    keep = np.flatnonzero(spans.lengths)
    starts = spans.starts[keep] + element_starts[runs.pages[keep]]
    stops = starts + spans.lengths[keep]
    if starts.size < 2:
        return Rows(starts, stops)
    gaps = np.flatnonzero(starts[1:] != stops[:-1])
    first = np.concatenate(([0], gaps + 1))
    last = np.concatenate((gaps, [starts.size - 1]))
    return Rows(starts[first], stops[last])


def read_list(field: Field, column: Column, source: FieldSource, rows: Rows) -> Read[Block]:
    """Decode lists of varying length, and their elements."""
    if len(field.children) != 1:
        raise FormatError(f"list field {printable(field.name)!r} has {len(field.children)} children, not 1")
    child = field.children[0]
    runs = runs_within(column.row_starts, rows.starts, rows.stops)
    yield from _keep_ends(column, child, source, runs, is_all=rows.is_all(column.num_rows))
    firsts = element_starts(column)
    width = 8 if field.is_large_list else 4
    spans_read = _read_spans(column, source, runs, np.diff(firsts), width, "list elements")
    total = int(firsts[-1])
    guess = Rows(np.zeros(1, np.int64), np.array([total], np.int64))
    block: Block | None = None
    if rows.is_all(column.num_rows) and total and _num_rows(source, child) == total:
        # All lists normally have all elements, so both are read in one round.
        spans, block = yield from _read_both(spans_read, source.below(child, guess))
    else:
        spans = yield from spans_read
    wanted = _elements(spans, runs, firsts)
    if block is None or not wanted.is_all(total):
        block = yield from source.below(child, wanted)
    check_unbacked(_unbacked(block), source.file, source.limits, "list elements")
    return Listed(runs.num_rows, width, spans.offsets, block, spans.validity, spans.null_count)


def _keep_ends(
    column: Column, child: Field, source: FieldSource, runs: PageRuns, *, is_all: bool
) -> Read[None]:
    """Keep the ends of lists and of what varies in length within them, so that values within are two rounds away.

    Without it each level would take one more. Ends that take many bytes are read where they are needed.
    """
    if is_all or source.file.store.traits.is_mapped:
        return
    inner = [source.columns[node.id] for node in child.walk() if node.id in source.columns]
    ends = [pages for one in inner for pages in all_pages(one, source) if _has_ends(pages)]
    if not ends:
        return
    reads = [
        keep_ends(_list_node(group.pages).below("offsets"), touched(group.runs)[0], _MOST_KEPT)
        for group in groups_of(column, source, runs)
    ]
    if 8 * sum(int(pages.counts.sum()) for pages in ends) <= _MOST_AHEAD:
        reads += [
            keep_ends(pages.below("offsets"), np.arange(pages.counts.size), _MOST_AHEAD) for pages in ends
        ]
    yield from gather(reads)


def _has_ends(pages: Pages) -> bool:
    return isinstance(pages.spec, EndedList | EndedBinary)


def read_null_lists(column: Column, source: FieldSource, runs: PageRuns) -> Read[Block]:
    """Decode only the nulls of lists, as structs without fields."""
    sizes = np.diff(element_starts(column))
    spans = yield from _read_spans(column, source, runs, sizes, 8, "list elements")
    return Structured(runs.num_rows, {}, spans.validity, spans.null_count)


def _num_rows(source: FieldSource, field: Field) -> int:
    column = source.columns.get(field.id)
    return -1 if column is None else column.num_rows


def _read_both(one: Read[ValueSpans], other: Read[Block]) -> Read[tuple[ValueSpans, Block]]:
    spans, block = yield from gather(cast(list[Read[object]], [one, other]))
    return cast(ValueSpans, spans), cast(Block, block)


def _unbacked(block: Block) -> int:
    """Number of values of the block, and below it, that no stored bytes back."""
    if isinstance(block, AllNull):
        return block.length
    if isinstance(block, Pieces):
        return sum(_unbacked(piece) for piece in block.blocks)
    if isinstance(block, Structured):
        children = max((_unbacked(child) for child in block.children.values()), default=0)
        return children if block.children else block.length
    if isinstance(block, FixedList):
        return _unbacked(block.child) if block.size else block.length
    if isinstance(block, (FixedWidth, VariableWidth)):
        return block.length if getattr(block, "bits", 8) == 0 else 0
    return 0


# -- strings of 0.12 and 0.13 ------------------------------------------------------------


def is_old_string(column: Column, field: Field) -> bool:
    """Whether a column of strings is one of lists, whose bytes are the next column."""
    if field.is_struct or column.num_pages == 0 or not isinstance(spec_of(field), VarBinary):
        return False
    known: bool | None = column.compiled.get("has lists")
    if known is None:
        first = int(np.argmax(np.diff(column.row_starts) > 0))  # pages without rows may be of any kind
        known = column.compiled["has lists"] = isinstance(node_of(column.specs[first]), EndedList)
    return known


def read_old_strings(field: Field, column: Column, source: FieldSource, rows: Rows) -> Read[Block]:
    """Strings as lists of bytes."""
    shape = spec_of(field)
    data = source.column_after(column)
    if not isinstance(shape, VarBinary) or data is None:
        raise FormatError(f"the bytes of the strings of column {column.index} are in no column")
    runs = runs_within(column.row_starts, rows.starts, rows.stops)
    starts = element_starts(column)
    spans = yield from _read_spans(
        column, source, runs, np.diff(starts), shape.offset_width, "bytes of strings"
    )
    wanted = _elements(spans, runs, starts)
    if wanted.starts.size == 0:
        return bytes_block(runs.num_rows, spans, b"")
    if int(wanted.stops[-1]) > data.num_rows:
        raise FormatError(f"column {data.index} has {data.num_rows} bytes, not {int(wanted.stops[-1])}")
    byte_runs = runs_within(data.row_starts, wanted.starts, wanted.stops)
    block = yield from read_pages(data, Plain(8), source, byte_runs, False)
    return bytes_block(runs.num_rows, spans, _bytes_of(block))


def _bytes_of(block: Block) -> object:
    """The values of byte blocks, back to back."""
    pieces = block.blocks if isinstance(block, Pieces) else (block,)
    parts = []
    for piece in pieces:
        if not isinstance(piece, FixedWidth) or piece.validity is not None:
            misfit(NullOf(), Plain(8))
        parts.append(array_of(piece.values)[: piece.length])
    if len(parts) == 1:
        return parts[0]
    buffer, out = allocate(block.length)
    np.concatenate(parts, out=out)
    return buffer
