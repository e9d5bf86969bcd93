"""Reader of 0.1 files: metadata, pages and statistics behind the ``FileReader`` protocol.

Files of the Rust releases, from the front; parts are located by positions, never by their order::

    pages | page table | statistics and their table | dictionary values | manifest | Metadata | footer

Opening reads the last 64 KiB, and in a second round any part of Metadata and page table before them. Source: file
sheet 0.1, sections 1, 3 and 7.1.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lancecy.encodings.model.block import Block, Reordered
from lancecy.encodings.model.chunks import runs_of, whole_runs
from lancecy.encodings.model.fields import spec_of
from lancecy.encodings.model.ledger import ByteLedger
from lancecy.encodings.model.spec import DictionaryOf, Spec, VarBinary
from lancecy.encodings.v0.read import ColumnPages, ColumnSource, read_column
from lancecy.encodings.v0.stats import bounded_leaves
from lancecy.errors import FormatError, TruncatedError, UnsupportedError
from lancecy.file.tail import FOOTER_BYTES, Tail, parse_footer, read_tail
from lancecy.file.v0.meta import (
    CELL_BYTES,
    PageTable,
    all_nodes,
    check_pages,
    choose_origin,
    gaps_before,
    origin_candidates,
    page_nbytes,
    written_candidates,
)
from lancecy.file.v0.stats import StoredStats, column_stats, open_stats, without_bounds
from lancecy.file.v0.stored_pages import StoredBatches, StoredNode, check_nodes
from lancecy.file.v0.wire import V0Metadata, decode_field_ids, decode_metadata
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.records import dataclass
from lancecy.rows import PageRuns, RowSelection
from lancecy.schema import DictionaryRef, Field
from lancecy.stats import ColumnStats, StatsTable
from lancecy.store.base import Memory
from lancecy.store.reads import Ranges, Read, SourceFile, gather, named, value_read

__all__ = ["DictionaryFile", "V0Reader", "open_v0", "read_dictionary"]

Int64 = NDArray[np.int64]

_NO_RUNS = PageRuns(*np.empty((3, 0), np.int64))

DictionaryKey: TypeAlias = tuple[DictionaryRef | None, str]


@dataclass(frozen=True, slots=True, eq=False)
class DictionaryFile(SourceFile):
    """The file with the values of dictionary fields, and the dictionaries read from it so far.

    If it is the ``dictionary_source`` of all data files of a table, each dictionary is read and kept once, not once
    per file.

    Attributes
    ----------
    kept : dict of (place, type) of the values to Block
    ledger : ByteLedger
        Ledger of this file: different dictionaries cannot claim the same bytes.
    """

    kept: dict[DictionaryKey, Block] = field(default_factory=dict)
    ledger: ByteLedger = field(default_factory=ByteLedger)


# -- opening -------------------------------------------------------------------------


def open_v0(
    source: SourceFile,
    field_ids: Sequence[int],
    fields: Sequence[Field],
    limits: Limits = DEFAULT_LIMITS,
    dictionary_source: SourceFile | None = None,
) -> Read[V0Reader]:
    """Parse the metadata of a 0.1 file.

    Parameters
    ----------
    source : SourceFile
        With the size from the store; sizes in manifests are wrong for files of several releases.
    field_ids : sequence of int
        As in the manifest entry of this file, negative ones included.
    fields : sequence of Field
        Top level of the table's schema. Its types locate the page table in files of old releases.
    limits : Limits
    dictionary_source : SourceFile or None
        File that ``Field.dictionary`` points into: the manifest the schema came from.

    Raises
    ------
    FormatError, LimitError
        The file is damaged; the breadcrumb is its path.
    """
    return named(_open(source, field_ids, fields, limits, dictionary_source), source.path)


def _open(
    source: SourceFile,
    field_ids: Sequence[int],
    fields: Sequence[Field],
    limits: Limits,
    dictionary_source: SourceFile | None,
) -> Read[V0Reader]:
    tail = yield from read_tail(source)
    footer = parse_footer(tail.memory)
    hint = f"; its footer is that of version {footer.major}.{footer.minor}" if footer.is_v2 else ""
    tail, block = yield from _read_block(source, footer.position, tail, "metadata", hint)
    metadata = decode_metadata(block, limits)
    position = metadata.page_table_position
    if position > source.size - FOOTER_BYTES:
        raise FormatError("the page table lies outside the file", position=position)
    present = [i for i in field_ids if i >= 0]
    last_id = max(present, default=-1)
    limits.check("columns", last_id - min(present, default=0) + 1, "span of field ids")
    num_batches = metadata.row_starts.size - 1
    # Origin 0 needs the most rows; bytes beyond the file are not requested.
    stop = min(source.size - FOOTER_BYTES, position + (last_id + 1) * num_batches * CELL_BYTES)
    tail = yield from _read_from(source, position, tail)
    known = _known(tuple(fields), frozenset(present))
    data, candidates = tail.part(position, max(0, stop - position)), origin_candidates(field_ids)
    is_hidden = len(present) < len(field_ids)
    if is_hidden:
        # The field of the first row may have moved to another file; the file's own manifest still lists it.
        written: list[int] = []
        if metadata.manifest_position:
            _, block = yield from _read_block(source, metadata.manifest_position, tail, "embedded manifest")
            written = decode_field_ids(block, limits)
        if written and set(present) <= set(written):
            candidates = written_candidates(written, data, metadata.row_starts.size - 1)
    table = choose_origin(
        candidates, data, last_id, known, metadata.row_starts, position, must_be_unique=is_hidden
    )
    return V0Reader(source, frozenset(present), metadata, table, dict(known), limits, dictionary_source)


# The files of a table have the same fields.
@lru_cache(maxsize=64)
def _known(fields: tuple[Field, ...], ids: frozenset[int]) -> tuple[tuple[int, Spec], ...]:
    """Specs of the fields in the file; an unsupported type is an error only when it is read."""
    specs = []
    for held in (top.pruned(ids) for top in fields):
        if held is not None:
            with contextlib.suppress(FormatError, UnsupportedError):
                specs.append((held.id, spec_of(held)))
    return tuple(specs)


def _read_from(source: SourceFile, start: int, tail: Tail) -> Read[Tail]:
    """Read the file from ``start`` on; one round of requests for the bytes missing from ``tail``."""
    if start >= tail.start:
        return tail
    missing = tail.start - start
    (span,) = yield [Ranges(source, np.array([start], np.int64), np.array([missing], np.int64))]
    if span.memory.size == source.size:
        return Tail(0, span.memory)  # a memory map has everything
    at = int(span.positions[0])
    front = span.memory[at : at + missing]
    if front.size != missing:
        raise TruncatedError(f"the store returned {front.size} of {missing} bytes at {start}", position=start)
    return Tail(start, np.concatenate((front, tail.memory)))


def _read_block(
    source: SourceFile, position: int, tail: Tail, what: str, hint: str = ""
) -> Read[tuple[Tail, Memory]]:
    """A message that is stored after its length, and the file from there on."""
    end = source.size - FOOTER_BYTES
    if not 0 <= position <= end - 4:
        raise FormatError(f"the {what} at {position} lies outside the file{hint}", position=position)
    tail = yield from _read_from(source, position, tail)
    block = tail.part(position, end - position)
    (length,) = struct.unpack("<I", block[:4].tobytes())
    if length > block.size - 4:
        raise TruncatedError(
            f"the {what} claims {length} bytes, where {block.size - 4} are left", position=position
        )
    return tail, block[4 : 4 + length]


# -- reading -------------------------------------------------------------------------


def read_dictionary(
    field: Field, source: SourceFile, limits: Limits, ledger: ByteLedger | None = None
) -> Read[Block]:
    """The values of a dictionary field: one page of the manifest file, in which an empty text is a null.

    Parameters
    ----------
    field : Field
    source : SourceFile
        The manifest file.
    limits : Limits
    ledger : ByteLedger, optional
        Ledger of that file.

    Raises
    ------
    FormatError, LimitError
        The field has no dictionary, or its position is impossible.
    """
    return named(_read_dictionary(field, source, limits, ledger), f"dictionary values in {source.path}")


def _read_dictionary(
    field: Field, source: SourceFile, limits: Limits, ledger: ByteLedger | None
) -> Read[Block]:
    spec, ref = spec_of(field), field.dictionary
    if not isinstance(spec, DictionaryOf) or ref is None:
        raise FormatError(f"field {field.name!r} names no dictionary")
    length = limits.check("dictionary_values", ref.length, "number of dictionary values")
    table = PageTable(field.id, np.array([[ref.offset]], np.int64), np.array([[length]], np.int64))
    starts = np.array([0, length], np.int64)
    ledger = ByteLedger() if ledger is None else ledger
    pages: Mapping[int, ColumnPages] = check_pages(
        table, field, spec.values, starts, source.size, limits, ledger
    )
    column = ColumnSource(source, pages, _dictionary_of_dictionary, ledger)
    return (yield from read_column(spec.values, field.id, column, whole_runs(np.diff(starts))))


def _dictionary_of_dictionary(column_id: int) -> Read[Block]:
    raise FormatError(f"the dictionary of column {column_id} is itself a dictionary column")


def _check_no_blobs(field: Field) -> None:
    """Refuse blob columns: a scan gives positions and sizes, and files of 0.1 hold none."""
    if any(node.is_blob for node in field.walk()):
        raise UnsupportedError(
            "it is a blob column by its metadata, and files of 0.1 hold no blobs: leave the column out, or read it "
            "with pylance as blob_handling='all_binary' and write the table in 2.1 or later",
            feature="blobs in 0.1 files",
        )


def _dictionary_key(field: Field) -> DictionaryKey:
    return field.dictionary, field.logical_type


class V0Reader:
    """An opened 0.1 file (implements ``FileReader``).

    Immutable apart from caches of parsed metadata and the ledger of bytes per column. Safe to share between
    threads; two threads may parse the same metadata.
    """

    version = (0, 1)
    nulls = None  # nulls are stored with the values

    def __init__(
        self,
        source: SourceFile,
        field_ids: frozenset[int],
        metadata: V0Metadata,
        table: PageTable,
        known: Mapping[int, Spec],
        limits: Limits,
        dictionary_source: SourceFile | None,
    ) -> None:
        self.source = source
        self.field_ids = field_ids
        self.num_rows = int(metadata.row_starts[-1])
        self._metadata = metadata
        self._row_starts = metadata.row_starts
        self._table = table
        self._known = known
        self._limits = limits
        self._dictionary_source = dictionary_source
        self._all_runs = whole_runs(np.diff(metadata.row_starts))
        self._columns: dict[Field, tuple[Spec, ColumnSource]] = {}
        # Readers with the same dictionary file share one copy of each dictionary.
        shared = dictionary_source if isinstance(dictionary_source, DictionaryFile) else None
        self._dictionaries: dict[DictionaryKey, Block] = {} if shared is None else shared.kept
        self._dictionary_ledger = ByteLedger() if shared is None else shared.ledger
        self._stats: dict[int, ColumnStats | None] = {}
        self._stored_stats: StoredStats | None = None
        self._gaps: Int64 | None = None
        self._ledger = ByteLedger()

    @property
    def nbytes(self) -> int:
        """Bytes kept in memory, caches included."""
        gaps = self._gaps.nbytes if self._gaps is not None else 0
        statistics = 64 * len(self._stats) * (self._row_starts.size + 8) + len(
            self._metadata.statistics or b""
        )
        values = sum(ref.length * 16 for ref in self._refs())
        return 4096 + 5 * self._row_starts.nbytes + self._table.nbytes + gaps + statistics + values

    def page_starts(self, field: Field) -> Int64:
        """(num_pages + 1,) int64: first row of each page; the same for all fields of a 0.1 file."""
        return self._row_starts

    # -- values

    @property
    def columns(self) -> None:
        """None; see ``FileReader.columns``."""
        return

    def read(self, fields: Sequence[Field], selection: RowSelection) -> Read[dict[int, Block]]:
        """Decode top-level fields; see ``FileReader.read``."""
        return named(self._read(fields, selection), self.source.path)

    def _read(self, fields: Sequence[Field], selection: RowSelection) -> Read[dict[int, Block]]:
        if selection.num_rows != self.num_rows:
            raise ValueError(f"a selection over {selection.num_rows} rows cannot choose from {self.num_rows}")
        runs = self._all_runs
        order: Int64 | None = None
        if not selection.is_all:
            ordered, order = selection.in_file_order()
            runs = runs_of(self._row_starts, ordered) if len(ordered) else _NO_RUNS
        blocks = yield from gather([self._read_field(field, runs) for field in fields])
        if order is not None:
            blocks = [Reordered(order.size, block, order) for block in blocks]
        return {field.id: block for field, block in zip(fields, blocks, strict=True)}

    def _read_field(self, field: Field, runs: PageRuns) -> Read[Block]:
        return named(self._read_column(field, runs), f"column {field.id} {field.name!r}")

    def _read_column(self, field: Field, runs: PageRuns) -> Read[Block]:
        spec, source = self._prepared(field)
        return (yield from read_column(spec, field.id, source, runs, in_pieces=True))

    def _prepared(self, field: Field) -> tuple[Spec, ColumnSource]:
        """Spec and checked pages of a top-level field; checked once per shape of the field."""
        found = self._columns.get(field)
        if found is None:
            _check_no_blobs(field)
            spec = spec_of(field)
            size, ledger = self.source.size, self._ledger
            pages = check_pages(self._table, field, spec, self._row_starts, size, self._limits, ledger)
            nodes = {node.id: node for node in field.walk()}
            source = ColumnSource(
                self.source, pages, lambda column_id: self._dictionary(nodes[column_id]), ledger
            )
            found = self._columns[field] = (spec, source)
        return found

    # -- copies

    @property
    def num_batches(self) -> int:
        """Batches of the file, which are the pages of each column."""
        return int(self._row_starts.size) - 1

    def stored(self, fields: Sequence[Field]) -> Read[StoredBatches]:
        """The pages of whole top-level fields as they are stored, with their statistics, to be copied.

        Parameters
        ----------
        fields : sequence of Field
            As in the table's schema, with all their children.

        Raises
        ------
        UnsupportedError
            The pages cannot be copied.
        FormatError, LimitError
            The metadata is damaged.
        """
        return named(self._stored(fields), self.source.path)

    def _stored(self, fields: Sequence[Field]) -> Read[StoredBatches]:
        nodes: list[StoredNode] = []
        for top in fields:
            spec, column = self._prepared(top)
            mine = [
                StoredNode(number, spec, column.pages[number]) for number, spec in all_nodes([(top.id, spec)])
            ]
            check_nodes(top, mine)
            nodes += mine
        leaves = [leaf for top in fields for leaf in bounded_leaves(top)]
        message = self._metadata.statistics
        if leaves and message is not None and self._stored_stats is None:
            self._stored_stats = yield from open_stats(self.source, message, self.num_batches, self._limits)
        return StoredBatches(self.source, tuple(nodes), tuple(leaves), self._stored_stats, self._row_starts)

    # -- dictionaries

    def _refs(self) -> list[DictionaryRef]:
        refs = [node.dictionary for top in list(self._columns) for node in top.walk()]
        return [ref for ref in refs if ref is not None]

    def _dictionary(self, field: Field) -> Read[Block]:
        known = self._dictionaries.get(_dictionary_key(field))
        if known is not None:
            return value_read(known)
        if self._dictionary_source is None:
            raise ValueError("this reader was opened without the file that holds the dictionaries")
        return self._kept(field, self._dictionary_source)

    def _kept(self, field: Field, source: SourceFile) -> Read[Block]:
        block = yield from read_dictionary(field, source, self._limits, self._dictionary_ledger)
        return self._dictionaries.setdefault(_dictionary_key(field), block)

    # -- sizes

    def page_bytes(self, field: Field) -> Int64:
        """(num_pages,) int64, bytes: size of each page of the field and all below it; no IO.

        Exact for plain columns. The size of strings is the gap before their pages, an upper bound. Invalid cells
        count as empty.
        """
        total = np.zeros(self._row_starts.size - 1, np.int64)
        for column_id, spec in all_nodes([(field.id, spec_of(field))]):
            total += self.pages_of(column_id, spec)[2]
        return total

    def pages_of(self, column_id: int, spec: Spec) -> tuple[Int64, Int64, Int64]:
        """(num_pages,) int64 each: values, position and bytes of the pages of one column, without those below it.

        Invalid cells count as empty.
        """
        index = column_id - self._table.origin
        if not 0 <= index < len(self._table.positions):
            return (np.zeros(self._row_starts.size - 1, np.int64),) * 3
        lengths = np.clip(self._table.lengths[index], 0, self.source.size)
        sizes = np.clip(page_nbytes(lengths, spec), 0, self.source.size) + self._value_bytes(index, spec)
        return lengths, self._table.positions[index], sizes

    def _value_bytes(self, index: int, spec: Spec) -> Int64 | int:
        return self._gaps_before()[index] if isinstance(spec, VarBinary) else 0

    def column_bytes(self, field: Field) -> int:
        """Estimated bytes of the field and all below it in the file; no IO."""
        return min(int(self.page_bytes(field).sum()), self.source.size)

    def decoded_bytes(self, field: Field) -> int:
        """As stored: no page of 0.1 is compressed."""
        return self.column_bytes(field)

    def stores_dictionary(self, _field: Field) -> bool:
        return False

    def knows(self, _field: Field) -> bool:
        """True: one page table describes all columns of the file."""
        return True

    def prepare(self, _fields: Sequence[Field]) -> Read[None]:
        """Nothing to do, see :meth:`knows`."""
        return value_read(None)

    def _gaps_before(self) -> Int64:
        if self._gaps is None:
            self._gaps = gaps_before(self._table, dict(all_nodes(self._known.items())), self.source.size)
        return self._gaps

    # -- statistics

    def stats(self, paths: Mapping[tuple[str, ...], Sequence[Field]]) -> Read[StatsTable]:
        """Bounds per page of the requested columns; see ``FileReader.stats``. Parsed once per column."""
        return named(self._read_stats(paths), f"statistics of {self.source.path}")

    def _read_stats(self, paths: Mapping[tuple[str, ...], Sequence[Field]]) -> Read[StatsTable]:
        leaves = {
            path: chain[-1]
            for path, chain in paths.items()
            if chain[-1].id in self.field_ids and chain[-1].is_leaf and all(f.is_struct for f in chain[:-1])
        }
        missing = {leaf.id: leaf for leaf in leaves.values() if leaf.id not in self._stats}
        if missing:
            yield from self._load_stats(list(missing.values()))
        found = {path: self._stats[leaf.id] for path, leaf in leaves.items()}
        columns = {path: stats for path, stats in found.items() if stats is not None}
        return StatsTable(np.diff(self._row_starts), columns)

    def _load_stats(self, leaves: Sequence[Field]) -> Read[None]:
        rows = np.diff(self._row_starts)
        message = self._metadata.statistics
        if message is None or rows.size == 0:
            self._stats.update({leaf.id: without_bounds(leaf, rows.size) for leaf in leaves})
            return
        if self._stored_stats is None:
            self._stored_stats = yield from open_stats(self.source, message, rows.size, self._limits)
        stored = self._stored_stats
        reads = [column_stats(stored, leaf, rows, self._gaps_of(leaf), self._limits) for leaf in leaves]
        results = yield from gather(reads)
        self._stats.update(zip((leaf.id for leaf in leaves), results, strict=True))

    def _gaps_of(self, leaf: Field) -> Int64:
        """Gap before each page of a string column; unlimited for other columns."""
        index = leaf.id - self._table.origin
        if isinstance(spec_of(leaf), VarBinary) and 0 <= index < len(self._table.positions):
            gaps: Int64 = self._gaps_before()[index]
            return gaps
        return np.ones(self._row_starts.size - 1, np.int64)
