"""Reader of 2.x files behind the ``FileReader`` protocol, for the pages of every 2.x version.

Opening reads the frame (``meta``) and no column. The metadata of a column is parsed on its first use and kept;
``values`` decodes fields with known columns.

Decoders see ascending selections without duplicates; other orders are applied to their blocks. Source: file
sheet 2.0, sections 1 to 3; file sheet 2.1, section 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from lancecy.encodings.model.block import AllNull, Block, Reordered
from lancecy.encodings.model.layouts import MiniBlock
from lancecy.encodings.model.pages import Column
from lancecy.encodings.model.spec import PageDictionary
from lancecy.errors import FormatError, LanceError, UnsupportedError, printable
from lancecy.file.tail import read_parts
from lancecy.file.v2.columns import FileColumns
from lancecy.file.v2.fields import field_columns, fields_with_column
from lancecy.file.v2.meta import checked_columns, open_container
from lancecy.file.v2.stats import null_stats, page_rows
from lancecy.file.v2.stored_pages import StoredColumn, check_stored
from lancecy.file.v2.values import FieldRead, Prepared, read_fields
from lancecy.file.v2.wire import Parts
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.rows import RowSelection
from lancecy.schema import Field
from lancecy.stats import StatsTable
from lancecy.store.cache import ByteCache
from lancecy.store.reads import Read, SourceFile, gather, named, value_read

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
    wanted = (2, 0) if version == (0, 3) else version
    try:
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
    except LanceError as error:
        raise error.within(source.path)
    return V2Reader(FileColumns(source, container, placed, limits, cache))


# -- reading -------------------------------------------------------------------------


class V2Reader:
    """An opened 2.x file (implements ``FileReader``).

    Immutable apart from caches of parsed metadata and the ledger of bytes per column. Safe to share between
    threads; two threads may parse the same metadata. Blobs are read as descriptors if the field is requested in the
    form of ``Field.scanned``.
    """

    def __init__(self, columns: FileColumns) -> None:
        self.columns = columns
        self.source = columns.source
        self.num_rows = columns.container.num_rows

    @property
    def version(self) -> tuple[int, int]:
        """Version of the file; version 2.0 is always (2, 0)."""
        return self.columns.container.version

    @property
    def nulls(self) -> V2Reader:
        """This reader; see ``FileReader.nulls``."""
        return self

    @property
    def num_columns(self) -> int:
        """Physical columns of the file."""
        return self.columns.container.num_columns

    @property
    def field_ids(self) -> frozenset[int]:
        """Ids of the fields whose values are in this file."""
        return self.columns.fields.ids

    @property
    def nbytes(self) -> int:
        """Bytes of memory once all columns are parsed: memory grows later, but caches ask only once."""
        parsed = 2200 * self.num_columns + 2 * self.columns.container.metadata_bytes
        return 4096 + self.columns.container.nbytes + parsed

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
        ordered, order = selection.in_file_order()
        known = self._prepared(fields)
        if len(known) < len(fields):
            self.columns.parse(fields)
            known = self._prepared(fields)
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

    def _field_read(self, field: Field, known: Prepared, rows: RowSelection) -> FieldRead:
        return FieldRead(field, known, self.columns.after, self.source, rows, self.columns.limits)

    # -- columns

    def stores_dictionary(self, field: Field) -> bool:
        column = self._primary(field)
        return column is not None and any(
            spec.dictionary is not None if isinstance(spec, MiniBlock) else isinstance(spec, PageDictionary)
            for spec in column.specs
        )

    def knows(self, field: Field) -> bool:
        """Whether the field's columns are parsed, or can be without a request."""
        return self.columns.container.is_whole or field in self.columns.prepared

    def prepare(self, fields: Sequence[Field]) -> Read[None]:
        """Parse the metadata of these fields' columns: one round of requests if it is large and not known yet."""
        return named(self._prepare_all(fields), self.source.path)

    def _prepare_all(self, fields: Sequence[Field]) -> Read[None]:
        yield from gather([self._prepare(field) for field in fields])

    def _prepared(self, fields: Sequence[Field]) -> list[Prepared]:
        """Those of the fields whose columns are parsed."""
        found = map(self.columns.prepared.get, fields)
        return [prepared for prepared in found if prepared is not None]

    def _prepare(self, field: Field) -> Read[Prepared]:
        found = self.columns.prepared.get(field)
        if found is not None:
            return value_read(found)
        return named(self.columns.load(field), f"column {field.id} {field.name!r}")

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
            if node.id not in self.columns.fields.numbers:
                raise UnsupportedError(
                    f"field {node.id} of column {printable(top.name)!r} has no column of its own here",
                    feature="copy of pages",
                )
        numbers = [self.columns.fields.numbers[node.id] for _, node in nodes]
        parts = [self.columns.container.part(number) for number in numbers]
        found = yield from read_parts(self.source, self.columns.container.held, parts)
        known = self.columns
        about = self.source.size, known.limits, known.specs, known.ledger
        checked = checked_columns(Parts.of(found), numbers, *about)
        columns, specs = [], []
        for (_, node), (message, pages) in zip(nodes, checked, strict=True):
            has_dictionaries = any(
                isinstance(spec, MiniBlock) and spec.dictionary is not None for spec in pages
            )
            columns.append(StoredColumn(node.id, self.source, message, has_dictionaries))
            specs.append(pages)
        start = 0
        for top in fields:
            stop = start + sum(1 for other, _ in nodes if other is top)
            check_stored(top, columns[start:stop], specs[start:stop], self.version, self.num_rows)
            start = stop
        return columns

    # -- pages, sizes and statistics

    def page_starts(self, field: Field) -> Int64:
        """(num_pages + 1,) int64: first row of each page of the field's first column.

        One page until the field is known (:meth:`knows`).
        """
        column = self._primary(field)
        if column is None or column.num_pages == 0:
            return np.array([0, self.num_rows], np.int64)
        return page_rows(column, self.num_rows)

    def _primary(self, field: Field) -> Column | None:
        known = self.columns.known(field)
        return None if known is None else known.primary()

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
            known = self.columns.known(field)
            if known is None:
                return None
            for column in known.columns.values():
                begin = np.searchsorted(page_rows(column, self.num_rows), start, side="right") - 1
                end = np.searchsorted(page_rows(column, self.num_rows), stop)
                mine = slice(int(column.first_buffer[begin]), int(column.first_buffer[end]))
                if mine.start < mine.stop:
                    first = min(first, int(column.positions[mine].min()))
                    last = max(last, int((column.positions[mine] + column.sizes[mine]).max()))
        return (first, last) if first < last else None

    def column_bytes(self, field: Field) -> int:
        """Encoded bytes of the field and all below it; an estimate if the metadata is large and not read yet."""
        known = self.columns.known(field)
        if known is not None and known.leaves:
            return known.stored_bytes
        if known is not None:
            columns = {c.index: c for c in known.columns.values()}
            for column in known.columns.values():
                if self.columns.may_continue(column) and (after := self.columns.after(column)) is not None:
                    columns.setdefault(after.index, after)
            return sum(column.nbytes for column in columns.values())
        held = sum(node.id in self.columns.fields.numbers for node in field.walk())
        return self.columns.container.data_bytes * max(1, held) // max(1, self.num_columns)

    def decoded_bytes(self, field: Field) -> int:
        """:meth:`column_bytes` once the field is decoded, as far as the metadata of its pages tell."""
        known = self.columns.known(field)
        return max(self.column_bytes(field), 0 if known is None else known.decoded_bytes)

    def stats(self, paths: Mapping[tuple[str, ...], Sequence[Field]]) -> Read[StatsTable]:
        """Pages of the requested columns that are all null or without nulls; no bounds are stored.

        Pages are those of the first requested column. Columns with different pages are left out.
        """
        return value_read(null_stats(paths, self.columns.known, self.num_rows)[0])
