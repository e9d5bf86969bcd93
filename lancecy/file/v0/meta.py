"""The page table of 0.1 files: parsed into arrays, its first row determined, every cell checked.

The table has one row per field id from ``origin`` on, holes included, and one cell per batch in each row: two
int64, position and length in elements. ``origin`` is the file's smallest id, except in files of releases before
0.8.0, where it is 0 and not recorded.

The table gives the bytes of pages. The bytes of strings are not recorded, but writers put them right before the
page's offsets, so they take at most the gap between a page and the end of the page before it in the file. Source:
file sheet 0.1, section 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from lancecy.encodings.model.ledger import ByteLedger
from lancecy.encodings.model.spec import (
    DictionaryOf,
    FixedListOf,
    ListOf,
    Plain,
    Spec,
    StructOf,
    VarBinary,
    flat_bits,
)
from lancecy.encodings.v0.read import ColumnPages
from lancecy.errors import FormatError, LimitError
from lancecy.limits import Limits
from lancecy.records import dataclass
from lancecy.schema import Field
from lancecy.store.base import Memory

__all__ = [
    "CELL_BYTES",
    "PageTable",
    "all_nodes",
    "check_pages",
    "choose_origin",
    "gaps_before",
    "origin_candidates",
    "page_bits",
    "page_nbytes",
    "written_candidates",
]

Int64 = NDArray[np.int64]

CELL_BYTES = 16
_MAX_CANDIDATES = 64


@dataclass(frozen=True, slots=True, eq=False)
class PageTable:
    """Cells by column id.

    Attributes
    ----------
    origin : int
        Id of the first row.
    positions, lengths : (num_ids, num_batches) int64
        As stored and unchecked; positions in bytes, lengths in elements.
    """

    origin: int
    positions: Int64
    lengths: Int64

    @classmethod
    def parse(cls, data: Memory, origin: int, num_ids: int, num_batches: int) -> PageTable:
        """Parse the table whose first row is that of ``origin``.

        Parameters
        ----------
        data : (nbytes,) uint8
            From the table's position on. Incomplete rows are left out: ids at the end of a file's list may have
            none.
        """
        row_bytes = num_batches * CELL_BYTES
        present = min(num_ids, data.size // row_bytes) if row_bytes else num_ids
        cells = np.frombuffer(data, "<i8", present * num_batches * 2).reshape(present, num_batches, 2)
        return cls(origin, np.ascontiguousarray(cells[:, :, 0]), np.ascontiguousarray(cells[:, :, 1]))

    def row(self, column_id: int) -> tuple[Int64, Int64]:
        """Positions and lengths of one column's pages.

        Raises
        ------
        FormatError
            The table has no such row.
        """
        index = column_id - self.origin
        if not 0 <= index < len(self.positions):
            raise FormatError(f"the page table has no row for column {column_id}")
        return self.positions[index], self.lengths[index]

    @property
    def nbytes(self) -> int:
        """Bytes of both arrays."""
        return self.positions.nbytes + self.lengths.nbytes


# -- where the table starts ----------------------------------------------------------


def origin_candidates(field_ids: Sequence[int]) -> list[int]:
    """Ids that may have the first row, the likeliest first.

    Parameters
    ----------
    field_ids : sequence of int
        As in the manifest; negative ones have been moved to other files or are hidden.
    """
    present = [i for i in field_ids if i >= 0]
    if not present:
        return [0]
    smallest = min(present)
    candidates = [smallest]
    if len(present) < len(field_ids):
        # The id that determined the origin may no longer be listed.
        candidates += range(smallest - 1, max(0, smallest - _MAX_CANDIDATES), -1)
    return candidates if smallest == 0 else [*candidates, 0]


def written_candidates(written: Sequence[int], data: Memory, num_batches: int) -> list[int]:
    """Ids that may have the first row, for a file whose own manifest lists the ids it was written with.

    Parameters
    ----------
    written : sequence of int
        Not empty.
    data : (nbytes,) uint8
        From the page table on.
    num_batches : int
    """
    candidates = origin_candidates(written)
    first_row = PageTable.parse(data, 0, 1, num_batches).lengths
    # If 0 is not the smallest id its row is a hole, so a first row with pages belongs to the smallest id.
    return candidates[:1] if (first_row > 0).any() else candidates


def choose_origin(
    candidates: Iterable[int],
    data: Memory,
    last_id: int,
    columns: Iterable[tuple[int, Spec]],
    row_starts: Int64,
    page_table_position: int,
    *,
    must_be_unique: bool = False,
) -> PageTable:
    """Parse the page table with the first candidate origin whose cells fit the columns.

    They fit when every page of every column outside lists has exactly its batch's length and lies
    before the page table. If no candidate fits, the first is taken, and the checks of each column find errors.

    Parameters
    ----------
    candidates : iterable of int
        Not empty; see ``origin_candidates``.
    data : (nbytes,) uint8
        From the page table on.
    last_id : int
        Largest requested id.
    columns : pairs of top-level column id and Spec
        Known columns of the file.
    row_starts : (num_batches + 1,) int64
    page_table_position : int, bytes
    must_be_unique : bool
        The ids that determine the origin are unknown: exactly one candidate must fit.

    Raises
    ------
    FormatError
        With ``must_be_unique``: not exactly one of several candidates fits.
    """
    rows = np.diff(row_starts)
    expected = [pair for column_id, spec in columns for pair in _row_aligned(column_id, spec)]
    ids = np.array([i for i, _ in expected], np.int64)
    extra = np.array([n for _, n in expected], np.int64)[:, None]
    first: PageTable | None = None
    fitting: list[PageTable] = []
    num_candidates = 0
    for origin in candidates:
        num_candidates += 1
        table = PageTable.parse(data, origin, last_id - origin + 1, rows.size)
        first = first or table
        if _fits(table, ids, rows + extra, page_table_position):
            fitting.append(table)
            if not must_be_unique or len(fitting) > 1:
                break
    if first is None:
        raise ValueError("there must be a candidate")
    is_clear = len(fitting) == 1 or (not fitting and num_candidates == 1)
    if must_be_unique and not is_clear and rows.any():
        origins = " or ".join(str(table.origin) for table in fitting) or "no id that fits"
        raise FormatError(
            f"the page table's first row is ambiguous: it belongs to {origins}, and ids of the file are hidden"
        )
    return fitting[0] if fitting else first


def _row_aligned(column_id: int, spec: Spec) -> Iterator[tuple[int, int]]:
    """Columns with one entry per row, and the extra elements of their pages beyond the rows."""
    if isinstance(spec, StructOf):
        for child_id, child in spec.children.items():
            yield from _row_aligned(child_id, child)
    else:
        yield column_id, int(isinstance(spec, ListOf))


def _fits(table: PageTable, ids: Int64, lengths: Int64, page_table_position: int) -> bool:
    at = ids - table.origin
    if at.size and (int(at.min()) < 0 or int(at.max()) >= len(table.positions)):
        return False
    positions = table.positions[at]
    return bool(
        (table.lengths[at] == lengths).all()
        and (positions >= 0).all()
        and (positions <= page_table_position).all()
    )


# -- checking one column -------------------------------------------------------------


def page_bits(spec: Spec) -> tuple[int, int]:
    """Bits per element of a spec's own pages, and the number of elements beyond the rows."""
    if isinstance(spec, (Plain, FixedListOf)):
        return flat_bits(spec), 0
    if isinstance(spec, DictionaryOf):
        return spec.codes.bits, 0
    if isinstance(spec, VarBinary):
        return 64, 1
    if isinstance(spec, ListOf):
        return spec.offset_width * 8, 1
    return 0, 0


def check_pages(
    table: PageTable,
    field: Field,
    spec: Spec,
    row_starts: Int64,
    file_size: int,
    limits: Limits,
    ledger: ByteLedger | None = None,
) -> dict[int, ColumnPages]:
    """The pages of a top-level field and all below it, checked to lie within the file.

    Parameters
    ----------
    table : PageTable
    field : Field
        For its id.
    spec : Spec
        Spec of that field.
    row_starts : (num_batches + 1,) int64
        A page holds at least its batch's rows; elements beyond them are ignored.
    file_size : int, bytes
    limits : Limits
    ledger : ByteLedger, optional
        Ledger of the file: bytes of columns checked before are not available to this one.

    Raises
    ------
    FormatError
        A page is missing, too short, or outside the file, or pages overlap, those of other columns included.
    LimitError
        A list has more elements than ``limits.rows_per_file``, or ``limits.bare_elements`` without bytes.
    """
    found: dict[int, ColumnPages] = {}
    check = _Check(table, file_size, limits, found, ByteLedger() if ledger is None else ledger)
    check.visit(field.id, spec, row_starts[1:] - row_starts[:-1])
    return found


@dataclass(frozen=True, slots=True)
class _Check:
    table: PageTable
    file_size: int
    limits: Limits
    found: dict[int, ColumnPages]
    ledger: ByteLedger

    def visit(self, column_id: int, spec: Spec, rows: Int64 | None) -> Int64:
        """Check a node and those below it; elements per page. ``rows`` is None below a list."""
        if isinstance(spec, StructOf):
            lengths = self._struct(spec, rows)
            self.found[column_id] = ColumnPages(np.zeros_like(lengths), lengths)
            return lengths
        positions, stored = self.table.row(column_id)
        extra = int(isinstance(spec, ListOf))  # lists count their offsets, strings their values
        if rows is None:
            # A list page without rows may have no offset at all.
            lengths = np.maximum(stored - 1, 0) if isinstance(spec, ListOf) else stored
            self._check_lengths(lengths, column_id)
        else:
            lengths = rows
            short = (stored < rows + extra) & (rows > 0)
            if short.any():
                page = int(short.argmax())
                raise _bad_page(f"{stored[page]} elements for {rows[page] + extra}", column_id, page)
        self._check_bytes(positions, lengths, spec, column_id)
        self.found[column_id] = ColumnPages(positions, lengths)
        if isinstance(spec, ListOf):
            elements = self.visit(spec.child_id, spec.child, None)
            if _has_no_bytes(spec.child):
                self._check_unbacked(elements, spec.child_id)
        return lengths

    def _struct(self, spec: StructOf, rows: Int64 | None) -> Int64:
        inner = [self.visit(child_id, child, rows) for child_id, child in spec.children.items()]
        if rows is not None:
            return rows
        if not inner:
            raise FormatError("a list of structs without children has no length")
        shortest: Int64 = np.minimum.reduce(inner)
        return shortest

    def _check_lengths(self, lengths: Int64, column_id: int) -> None:
        cap = self.limits.rows_per_file
        negative = np.flatnonzero(lengths < 0)
        if negative.size:
            raise _bad_page("a negative length", column_id, int(negative[0]))
        total = float(lengths.sum(dtype=np.float64))
        if total > cap:
            raise LimitError(
                f"lists of column {column_id} have {total:.0f} elements, beyond the limit of {cap}",
                limit="rows_per_file",
                claimed=int(total),
            )

    def _check_unbacked(self, lengths: Int64, column_id: int) -> None:
        """Limit elements without stored bytes, because the file size does not limit their memory."""
        total = int(lengths.sum())
        if total > self.file_size * 8:
            what = f"lists of column {column_id}, whose elements take no bytes: length"
            self.limits.check("bare_elements", total, what)

    def _check_bytes(self, positions: Int64, lengths: Int64, spec: Spec, column_id: int) -> None:
        bits, extra = page_bits(spec)
        if bits == 0 or lengths.size == 0:
            return
        # Lengths are below 2**32 and bits below 2**36 (Limits), so a product may exceed 63 bits: compare first.
        nbytes = ((lengths + extra) * bits + 7) >> 3
        if self._are_inside(positions, lengths, nbytes, bits):
            self.ledger.charge(column_id, "pages", int(nbytes.sum()), self.file_size)
            return
        too_long = lengths > (self.file_size * 8) // bits
        bad = (positions < 0) | too_long | (nbytes > self.file_size) | (positions > self.file_size - nbytes)
        bad &= lengths > 0  # empty pages have any position
        if bad.any():
            raise _bad_page("bytes outside the file", column_id, int(bad.argmax()))
        # Up to 2**28 pages may each be as large as the file: only floats can hold their sum.
        total = int(nbytes[lengths > 0].sum(dtype=np.float64))
        self.ledger.charge(column_id, "pages", total, self.file_size)

    def _are_inside(self, positions: Int64, lengths: Int64, nbytes: Int64, bits: int) -> bool:
        """Whether no page is empty and all are in the file, one behind the other, as every writer leaves them."""
        if not 0 < int(lengths.min()) <= int(lengths.max()) <= (self.file_size * 8) // bits:
            return False
        # Differences of numbers that are not negative do not overflow.
        if int(positions.min()) < 0 or int(positions[-1]) > self.file_size - int(nbytes[-1]):
            return False
        return bool((positions[1:] - positions[:-1] >= nbytes[:-1]).all())


def _has_no_bytes(spec: Spec) -> bool:
    """Whether values take no bytes: nulls, values of width 0, structs of only these."""
    if isinstance(spec, StructOf):
        return all(_has_no_bytes(child) for child in spec.children.values())
    return page_bits(spec)[0] == 0


def _bad_page(what: str, column_id: int, page: int) -> FormatError:
    error = FormatError(f"the page table gives {what} to a page of column {column_id}", position=page)
    error.within(f"page {page}")
    return error


# -- sizes of pages ------------------------------------------------------------------


def all_nodes(columns: Iterable[tuple[int, Spec]]) -> Iterator[tuple[int, Spec]]:
    """These columns and all below them, with their ids."""
    for column_id, spec in columns:
        yield column_id, spec
        if isinstance(spec, StructOf):
            yield from all_nodes(spec.children.items())
        elif isinstance(spec, ListOf):
            yield from all_nodes([(spec.child_id, spec.child)])


def page_nbytes(lengths: Int64, spec: Spec) -> Int64:
    """Bytes of pages with these stored lengths; values of strings not included."""
    bits, extra = page_bits(spec)
    # Lists store the length including the extra offset, strings without it.
    count = lengths if isinstance(spec, ListOf) else lengths + extra
    exact: Int64 = (np.maximum(count, 0) * bits + 7) >> 3
    return exact


def gaps_before(table: PageTable, specs: Mapping[int, Spec], file_size: int) -> Int64:
    """Bytes between each page and the end of the page before it in the file.

    Parameters
    ----------
    table : PageTable
        Cells are not trusted: those outside the file count as empty.
    specs : mapping of column id to Spec
        Known columns; the pages of others count as empty, so that gaps after them are too large rather than too
        small.
    file_size : int, bytes

    Returns
    -------
    (num_ids, num_batches) int64, bytes
        0 where there is no page.
    """
    starts, ends = table.positions, table.positions.copy()
    for column_id, spec in specs.items():
        row = column_id - table.origin
        if 0 <= row < len(ends):
            ends[row] += page_nbytes(np.clip(table.lengths[row], 0, file_size), spec)
    there = (table.lengths > 0) & (starts >= 0) & (starts <= file_size)
    ends = np.where((ends >= starts) & (ends <= file_size), ends, starts)
    # Batch by batch the pages are nearly in file order, for which a merge sort is fast.
    index = np.flatnonzero(there.T)
    begin = starts.T.reshape(-1)[index]
    order = np.argsort(begin, kind="stable")
    begin = begin[order]
    reach = np.maximum.accumulate(ends.T.reshape(-1)[index][order])
    gaps = begin - np.concatenate(([0], reach))[:-1]
    flat = np.zeros(starts.size, np.int64)
    flat[index[order]] = np.maximum(gaps, 0)
    return np.ascontiguousarray(flat.reshape(starts.T.shape).T)
