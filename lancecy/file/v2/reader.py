"""Reader of 2.x files behind the ``FileReader`` protocol, for the pages of every 2.x version.

Opening reads the frame (``meta``) and no column. The metadata of a column is parsed on its first use and kept;
``values`` decodes fields with known columns.

Decoders see ascending selections without duplicates; other orders are applied to their blocks. Source: file
sheet 2.0, sections 1 to 3; file sheet 2.1, section 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lancecy.encodings.model.block import AllNull, Block, Reordered
from lancecy.encodings.model.layouts import MiniBlock, is_structural
from lancecy.encodings.model.ledger import ByteLedger
from lancecy.encodings.model.pages import Column, PageMemory
from lancecy.encodings.model.spec import EndedList, PageDictionary
from lancecy.encodings.v21.joined_pages import is_read_by_page
from lancecy.encodings.v21.repdef import rows_per_value
from lancecy.errors import FormatError, LanceError, UnsupportedError, printable
from lancecy.file.tail import read_parts
from lancecy.file.v2.fields import FieldColumns, Leaf, field_columns, fields_with_column
from lancecy.file.v2.meta import Container, SpecCache, build_column, checked_column, open_container
from lancecy.file.v2.stats import page_stats
from lancecy.file.v2.stored_pages import StoredColumn, check_stored
from lancecy.file.v2.values import FieldRead, Prepared, read_fields
from lancecy.file.v2.wire import decode_children
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.rows import RowSelection
from lancecy.schema import Field
from lancecy.stats import ColumnStats, StatsTable
from lancecy.store.base import Memory
from lancecy.store.cache import ByteCache
from lancecy.store.reads import Ranges, Read, SourceFile, Span, gather, named, run, value_read

__all__ = ["VERSIONS", "V2Reader", "open_v2"]

_EARLY = ((2, 0), (2, 1))
"""Versions from release 0.16 for 2.1: the manifest states 2.0, the footer 2.1. The file's pages decide."""

Int64 = NDArray[np.int64]

VERSIONS = ((2, 0), (2, 1), (2, 2), (2, 3))


# -- opening -------------------------------------------------------------------------


def open_v2(
    source: SourceFile,
    field_ids: Sequence[int],
    column_indices: Sequence[int],
    fields: Sequence[Field],
    version: tuple[int, int],
    limits: Limits = DEFAULT_LIMITS,
    cache: ByteCache | None = None,
) -> Read[V2Reader]:
    """Parse the frame of a 2.x file.

    Parameters
    ----------
    source : SourceFile
        With its size from the store, or from the manifest. Several releases wrote wrong sizes, with which the end
        of the file is invalid.
    field_ids, column_indices : sequences of int
        As in the manifest entry of this file.
    fields : sequence of Field
        Top level of the table's schema.
    version : (major, minor)
        As in the manifest: (0, 3) and (2, 0) are both version 2.0.
    limits : Limits
    cache : ByteCache or None
        Cache for parsed pages; None: pages are parsed for each read.

    Raises
    ------
    FormatError, LimitError
        The file is damaged, or of another version; the breadcrumb is its path.
    UnsupportedError
        The version is not supported.
    """
    return named(_open(source, field_ids, column_indices, fields, version, limits, cache), source.path)


def _open(
    source: SourceFile,
    field_ids: Sequence[int],
    column_indices: Sequence[int],
    fields: Sequence[Field],
    version: tuple[int, int],
    limits: Limits,
    cache: ByteCache | None,
) -> Read[V2Reader]:
    wanted = (2, 0) if version == (0, 3) else version
    if wanted not in VERSIONS:
        text = f"{version[0]}.{version[1]}"
        raise UnsupportedError(f"data file of version {text}", feature=f"file version {text}")
    placed = field_columns(tuple(field_ids), tuple(column_indices), tuple(fields))
    container = yield from open_container(source, limits)
    if container.version != wanted and (wanted, container.version) != _EARLY:
        found, told = (".".join(map(str, v)) for v in (container.version, wanted))
        raise FormatError(f"the file is of version {found}, the manifest says {told}")
    if placed.last_column >= container.num_columns:
        raise FormatError(
            f"the manifest names column {placed.last_column} of a file that has {container.num_columns}"
        )
    return V2Reader(source, container, placed, limits, cache)


# -- reading -------------------------------------------------------------------------


class V2Reader:
    """An opened 2.x file (implements ``FileReader``).

    Immutable apart from caches of parsed metadata and the ledger of bytes per column. Safe to share between
    threads; two threads may parse the same metadata. Blobs are read as descriptors if the field is requested in the
    form of ``Field.scanned``.
    """

    def __init__(
        self,
        source: SourceFile,
        container: Container,
        fields: FieldColumns,
        limits: Limits,
        cache: ByteCache | None = None,
    ) -> None:
        self.source = source
        self.num_rows = container.num_rows
        self._container = container
        self._fields = fields
        self._limits = limits
        self._columns: dict[int, Column] = {}
        self._cache = cache
        self._specs = SpecCache(container.version, limits, cache)
        self._prepared: dict[Field, Prepared] = {}
        self._ledger = ByteLedger()

    @property
    def version(self) -> tuple[int, int]:
        """Version of the file; version 2.0 is always (2, 0)."""
        return self._container.version

    @property
    def nulls(self) -> V2Reader:
        """This reader; see ``FileReader.nulls``."""
        return self

    @property
    def num_columns(self) -> int:
        """Physical columns of the file."""
        return self._container.num_columns

    @property
    def field_ids(self) -> frozenset[int]:
        """Ids of the fields whose values are in this file."""
        return self._fields.ids

    @property
    def nbytes(self) -> int:
        """Bytes of memory once all columns are parsed: memory grows later, but caches ask only once."""
        parsed = 1500 * self.num_columns + 2 * int(self._container.lengths.sum())
        return 4096 + self._container.nbytes + parsed

    def read(self, fields: Sequence[Field], selection: RowSelection) -> Read[dict[int, Block]]:
        """Decode top-level fields; see ``FileReader.read``."""
        return named(self._read(fields, selection), self.source.path)

    def read_nulls(
        self, fields: Sequence[Field], tested: frozenset[int], selection: RowSelection
    ) -> Read[dict[int, Block]]:
        """Read which values are null; see ``NullReader.read_nulls``."""
        return named(self._read(fields, selection, tested), self.source.path)

    def _read(
        self, fields: Sequence[Field], selection: RowSelection, tested: frozenset[int] | None = None
    ) -> Read[dict[int, Block]]:
        if selection.num_rows != self.num_rows:
            raise ValueError(f"a selection over {selection.num_rows} rows cannot choose from {self.num_rows}")
        if len(selection) == 0:
            return {field.id: AllNull(0) for field in fields}
        ordered, order = _ascending(selection)
        known = [prepared for field in fields if (prepared := self._prepared.get(field)) is not None]
        if len(known) < len(fields):
            known = yield from gather([self._prepare(field) for field in fields])
        reads = [self._field_read(*item, ordered) for item in zip(fields, known, strict=True)]
        if tested is None:
            blocks = yield from read_fields(reads)
        else:
            blocks = yield from gather([read.nulls(tested) for read in reads])
        if order is not None:
            blocks = [Reordered(order.size, block, order) for block in blocks]
        return {field.id: block for field, block in zip(fields, blocks, strict=True)}

    def field_reads(self, fields: Sequence[Field], rows: RowSelection) -> list[FieldRead] | None:
        """Reads of fields that can be joined with those of other files.

        Returns
        -------
        list of FieldRead, or None
            None: the metadata of a field is not held, or the rows do not ascend.
        """
        for field in fields:
            if field not in self._prepared:
                self._known(field)
        known = [self._prepared.get(field) for field in fields]
        if _ascending(rows)[1] is not None:
            return None
        reads = [
            self._field_read(f, one, rows) for f, one in zip(fields, known, strict=True) if one is not None
        ]
        return reads if len(reads) == len(fields) else None

    def _field_read(self, field: Field, known: Prepared, rows: RowSelection) -> FieldRead:
        return FieldRead(field, known, self._after, self.source, rows, self._limits)

    def _after(self, column: Column) -> Column | None:
        """The column after one that it completes: strings of the first releases have two."""
        return self._columns.get(column.index + 1)

    # -- columns

    def stores_dictionary(self, field: Field) -> bool:
        column = self._primary(field)
        return column is not None and any(
            spec.dictionary is not None if isinstance(spec, MiniBlock) else isinstance(spec, PageDictionary)
            for spec in column.specs
        )

    def knows(self, field: Field) -> bool:
        """Whether the field's columns are parsed, or can be without a request."""
        return self._known(field) is not None

    def prepare(self, fields: Sequence[Field]) -> Read[None]:
        """Parse the metadata of these fields' columns: one round of requests if it is large and not known yet."""
        return named(self._prepare_all(fields), self.source.path)

    def _prepare_all(self, fields: Sequence[Field]) -> Read[None]:
        yield from gather([self._prepare(field) for field in fields])

    def _prepare(self, field: Field) -> Read[Prepared]:
        found = self._prepared.get(field)
        if found is not None:
            return value_read(found)
        return named(self._load(field), f"column {field.id} {field.name!r}")

    def _load(self, field: Field, for_values: bool = True) -> Read[Prepared]:
        """Parse the columns of a field; only reads of values need the layout of packed structs."""
        placed = self._fields.placed(field)
        whole, packed, numbers = placed.whole, placed.packed, placed.numbers
        if for_values and packed:
            descriptor = yield from self._load_columns(numbers.values(), with_descriptor=True)
            if descriptor is not None:
                whole = self._as_written(whole, packed, descriptor)
        elif not self._parse_held(numbers.values()):
            yield from self._load_columns(numbers.values())
        columns = {field_id: self._columns[number] for field_id, number in numbers.items()}
        after = [c.index + 1 for c in columns.values() if self._may_continue(c)]
        if after:
            yield from self._load_columns(after)
        leaves: tuple[Leaf, ...] = ()
        form: object | None = None
        if self._is_structural(columns.values()):
            leaves, form = self._fields.leaves(field, whole)
            for leaf in leaves:
                self._check_rows(columns[leaf.chain[-1].id], rows_per_value(leaf.chain))
        elif whole.id in columns:
            self._check_aligned(whole, columns)
        else:
            raise FormatError(f"field {whole.id} {printable(whole.name)!r} has no column in this file")
        chain = leaves[0].chain if leaves else (whole,)
        found = Prepared(whole, columns, leaves, chain, self._specs, form)
        if for_values or not packed:
            self._prepared[field] = found
        return found

    def _load_columns(self, numbers: Iterable[int], with_descriptor: bool = False) -> Read[Memory | None]:
        """Parse columns that are not known yet, in one round; return the FileDescriptor on request."""
        missing = [n for n in dict.fromkeys(numbers) if n not in self._columns]
        parts = [self._container.part(n) for n in missing]
        if with_descriptor:
            parts.append(self._container.descriptor)
        if not parts:
            return None
        found = yield from read_parts(self.source, self._container.held, parts)
        for number, data in zip(missing, found, strict=False):
            self._parse(number, data)
        return found[-1] if with_descriptor else None

    def _parse_held(self, numbers: Iterable[int]) -> bool:
        """Parse columns up to the first one whose metadata is not held; whether these are all."""
        held = self._container.held
        for number in numbers:
            if number not in self._columns:
                place = self._container.part(number)
                if not held.has(*place):
                    return False
                self._parse(number, held.part(*place))
        return True

    def _parse(self, number: int, data: Memory) -> None:
        try:
            self._columns[number] = build_column(
                data, number, self.source.size, self._limits, self._specs, self._ledger, self._memory(number)
            )
        except LanceError as error:
            raise error.within(f"metadata of physical column {number}")

    def stored(self, fields: Sequence[Field]) -> Read[list[StoredColumn]]:
        """The pages of whole top-level fields as they are stored, to be copied.

        Parameters
        ----------
        fields : sequence of Field
            As in the table's schema, with all their children; they passed ``stored_pages.check_copyable``.

        Raises
        ------
        UnsupportedError
            The file does not hold all of a field, or its pages mean something else in another file.
        FormatError, LimitError
            The metadata is damaged.
        """
        return named(self._stored(fields), self.source.path)

    def _stored(self, fields: Sequence[Field]) -> Read[list[StoredColumn]]:
        nodes = [(top, node) for top in fields for node in fields_with_column(top, self.version)]
        for top, node in nodes:
            if node.id not in self._fields.numbers:
                raise UnsupportedError(
                    f"field {node.id} of column {printable(top.name)!r} has no column of its own here",
                    feature="copy of pages",
                )
        numbers = [self._fields.numbers[node.id] for _, node in nodes]
        parts = [self._container.part(number) for number in numbers]
        found = yield from read_parts(self.source, self._container.held, parts)
        columns, specs = [], []
        for (_, node), number, data in zip(nodes, numbers, found, strict=True):
            try:
                message, pages = checked_column(
                    data, number, self.source.size, self._limits, self._specs, self._ledger
                )
            except LanceError as error:
                raise error.within(f"metadata of physical column {number}")
            by_page = any(map(is_read_by_page, pages))
            columns.append(StoredColumn(node.id, self.source, message, by_page))
            specs.append(pages)
        start = 0
        for top in fields:
            stop = start + sum(1 for other, _ in nodes if other is top)
            check_stored(top, columns[start:stop], specs[start:stop], self.version, self.num_rows)
            start = stop
        return columns

    def _memory(self, number: int) -> PageMemory | None:
        if self._cache is None:
            return None
        return PageMemory(self._cache, ("page", self._owner, number))

    @cached_property
    def _owner(self) -> object:
        """One object instead of the file and the limits: a key is hashed for every page of every read."""
        return self._specs.token(("pages of", *self.source.key, self._limits))

    def _may_continue(self, column: Column) -> bool:
        """Whether strings of the column may have their bytes in the next one, as in files of the first releases."""
        return column.index + 1 < self.num_columns and any(isinstance(s, EndedList) for s in column.specs)

    def _as_written(self, field: Field, packed: frozenset[int], descriptor: Memory) -> Field:
        """The field with the children of packed structs that the file was written with, in their order.

        Rows of packed structs do not identify their fields, and the table may have dropped some later.
        """
        if field.id in packed and not field.is_blob:
            children = decode_children(descriptor, field.id, self._limits)
            ids = {child.id for child in children}
            if children and min(ids) >= 0 and len(ids) == len(children):
                known = {child.id: child for child in field.children}
                return replace(field, children=tuple(known.get(c.id, c) for c in children))
            return field
        children = tuple(self._as_written(child, packed, descriptor) for child in field.children)
        return replace(field, children=children) if children else field

    def _is_structural(self, columns: Iterable[Column]) -> bool:
        """Whether pages have layouts of 2.1 and later, not nodes of 2.0.

        Raises
        ------
        FormatError
            Pages of both kinds.
        """
        by_kind = {type(spec): spec for column in columns for spec in column.specs}
        kinds = {is_structural(spec) for spec in by_kind.values()}
        if len(kinds) > 1:
            raise FormatError("a column has pages of 2.0 and of later versions")
        return kinds.pop() if kinds else self.version != (2, 0)

    def _check_aligned(self, field: Field, columns: Mapping[int, Column]) -> None:
        """Check that columns of 2.0 with one value per row have as many values as the file has rows."""
        column = columns.get(field.id)
        if column is None:
            return
        self._check_rows(column, 1)
        if field.is_struct:
            for child in field.children:
                self._check_aligned(child, columns)

    def _check_rows(self, column: Column, factor: int) -> None:
        if column.num_rows not in (self.num_rows, self.num_rows * factor):
            raise FormatError(
                f"pages of physical column {column.index} have {column.num_rows} rows, the file {self.num_rows}"
            )

    # -- pages, sizes and statistics

    def _known(self, field: Field) -> Prepared | None:
        """The field's columns, if they can be known without a request."""
        found = self._prepared.get(field)
        if found is not None or not self._container.is_whole:
            return found
        return run(named(self._load(field, for_values=False), self.source.path), _no_requests)

    def page_starts(self, field: Field) -> Int64:
        """(num_pages + 1,) int64: first row of each page of the field's first column.

        One page until the field is known (:meth:`knows`).
        """
        column = self._primary(field)
        if column is None or column.num_pages == 0:
            return np.array([0, self.num_rows], np.int64)
        return self._per_row(column)

    def _primary(self, field: Field) -> Column | None:
        known = self._known(field)
        return None if known is None else known.primary()

    def _per_row(self, column: Column) -> Int64:
        """First row of each page, whatever the column counts per row."""
        factor = column.num_rows // self.num_rows if self.num_rows else 1
        return column.row_starts // max(1, factor)

    def page_bytes(self, field: Field) -> Int64:
        """(num_pages,) int64, bytes: size of each page; other columns of the field by their share of rows."""
        starts, total = self.page_starts(field), self.column_bytes(field)
        column = self._primary(field)
        if column is None or column.num_pages == 0:
            return np.array([total], np.int64)
        sums = np.concatenate(([0], np.cumsum(column.sizes)))
        mine = sums[column.first_buffer[1:]] - sums[column.first_buffer[:-1]]
        others = total - int(mine.sum())
        shares: Int64 = mine + np.diff(starts) * others // max(1, self.num_rows)
        return shares

    def extent_of(self, fields: Sequence[Field], start: int, stop: int) -> tuple[int, int] | None:
        """First byte and end of the pages of some fields that have rows ``start`` to ``stop``.

        Other pages may lie between them. None if a field's columns are not known without a request.
        """
        first, last = self.source.size, 0
        for field in fields:
            known = self._known(field)
            if known is None:
                return None
            for column in known.columns.values():
                begin = np.searchsorted(self._per_row(column), start, side="right") - 1
                end = np.searchsorted(self._per_row(column), stop)
                mine = slice(int(column.first_buffer[begin]), int(column.first_buffer[end]))
                if mine.start < mine.stop:
                    first = min(first, int(column.positions[mine].min()))
                    last = max(last, int((column.positions[mine] + column.sizes[mine]).max()))
        return (first, last) if first < last else None

    def column_bytes(self, field: Field) -> int:
        """Encoded bytes of the field and all below it; an estimate if the metadata is large and not read yet."""
        known = self._known(field)
        if known is not None and known.leaves:
            return known.stored_bytes
        if known is not None:
            columns = {c.index: c for c in known.columns.values()}
            for column in known.columns.values():
                after = self._after(column) if self._may_continue(column) else None
                if after is not None:
                    columns.setdefault(after.index, after)
            return sum(column.nbytes for column in columns.values())
        held = sum(node.id in self._fields.numbers for node in field.walk())
        return self._container.data_bytes * max(1, held) // max(1, self.num_columns)

    def decoded_bytes(self, field: Field) -> int:
        """:meth:`column_bytes` once the field is decoded, as far as the metadata of its pages tell."""
        known = self._known(field)
        return max(self.column_bytes(field), 0 if known is None else known.decoded_bytes)

    def stats(self, paths: Mapping[tuple[str, ...], Sequence[Field]]) -> Read[StatsTable]:
        """Pages of the requested columns that are all null or without nulls; no bounds are stored.

        Pages are those of the first requested column. Columns with different pages are left out.
        """
        return value_read(self._stats(paths))

    def _stats(self, paths: Mapping[tuple[str, ...], Sequence[Field]]) -> StatsTable:
        starts = np.array([0, self.num_rows], np.int64)
        found: dict[tuple[str, ...], ColumnStats] = {}
        for number, (path, chain) in enumerate(paths.items()):
            if number == 0:
                starts = self.page_starts(chain[0])
            if chain[-1].id not in self.field_ids or not chain[-1].is_leaf or chain[-1].is_blob:
                continue
            known = self._known(chain[0])
            column = None if known is None else known.columns.get(chain[-1].id)
            if column is not None and all(node.is_struct for node in chain[:-1]):
                pages = self._per_row(column)
                if np.array_equal(pages, starts):
                    found[path] = page_stats(column)
        return StatsTable(np.diff(starts), found)


def _ascending(selection: RowSelection) -> tuple[RowSelection, Int64 | None]:
    """The selection in ascending order without duplicates, and the indices that restore its order."""
    rows = selection.indices
    if rows is None or bool((rows[1:] > rows[:-1]).all()):
        return selection, None
    unique, order = np.unique(rows, return_inverse=True)
    return RowSelection(selection.num_rows, indices=unique), order.astype(np.int64, copy=False)


def _no_requests(_: list[Ranges]) -> list[Span]:
    raise ValueError("metadata that is held needs no request")
