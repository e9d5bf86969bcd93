"""The columns of a 2.x file, parsed on first use and kept.

:class:`FileColumns` parses those of one field. :func:`parse_together` parses many fields of many files in one pass over
their metadata, which takes a fraction of the time; whatever it does not expect is left to the former, whose errors
name the column.

Source: file sheet 2.0, sections 2 and 3; file sheet 2.1, section 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lancecy.encodings.model.layouts import PageSpec, is_structural
from lancecy.encodings.model.ledger import ByteLedger
from lancecy.encodings.model.pages import Column, PageMemory
from lancecy.encodings.model.spec import EndedList
from lancecy.encodings.v21.repdef import rows_per_value
from lancecy.errors import FormatError, LanceError, printable
from lancecy.file.tail import read_parts
from lancecy.file.v2.fields import FieldColumns, Leaf, Placed
from lancecy.file.v2.meta import Container, SpecCache, build_columns
from lancecy.file.v2.values import Prepared
from lancecy.file.v2.wire import (
    Parts,
    are_blobs,
    decode_children,
    decode_column_arrays,
    stored_encodings,
)
from lancecy.limits import Limits
from lancecy.records import dataclass
from lancecy.schema import Field
from lancecy.store.base import Memory
from lancecy.store.cache import ByteCache
from lancecy.store.reads import Read, SourceFile

__all__ = ["FileColumns", "parse_together"]

Int64 = NDArray[np.int64]

_MOST_HELD = 8 << 20
"""Most bytes of metadata of several files that are copied together."""


class FileColumns:
    """Columns of one file.

    Two threads may parse the same metadata.

    Attributes
    ----------
    source : SourceFile
    container : Container
    fields : FieldColumns
    limits : Limits
    specs : SpecCache
    ledger : ByteLedger
        Bytes of the file that its columns take.
    prepared : dict of Field to Prepared
        Fields whose columns are parsed.
    """

    def __init__(
        self,
        source: SourceFile,
        container: Container,
        fields: FieldColumns,
        limits: Limits,
        cache: ByteCache | None,
    ) -> None:
        self.source = source
        self.container = container
        self.fields = fields
        self.limits = limits
        self.specs = SpecCache(container.version, limits, cache)
        self.ledger = ByteLedger()
        self.prepared: dict[Field, Prepared] = {}
        self._cache = cache
        self._columns: dict[int, Column] = {}

    def known(self, field: Field) -> Prepared | None:
        """A field's columns, if they can be known without a request; packed structs as in the table.

        Raises
        ------
        FormatError, LimitError, UnsupportedError
            The metadata is damaged; the breadcrumbs name file and column.
        """
        found = self.prepared.get(field)
        if found is not None or not self.container.is_whole:
            return found
        try:
            placed = self.fields.placed(field)
            self._parse_held(placed.numbers.values())
            self._parse_held(self._following(placed.numbers.values()))
            found = self._made(field, placed.whole, placed.numbers)
        except LanceError as error:
            raise error.within(self.source.path)
        if not placed.packed:  # reads of values need their layout
            self.prepared[field] = found
        return found

    def load(self, field: Field) -> Read[Prepared]:
        """Parse the columns of a field: a round of requests, if its metadata is not held.

        Raises
        ------
        FormatError, LimitError, UnsupportedError
            The metadata is damaged; the breadcrumb names the column.
        """
        placed = self.fields.placed(field)
        whole, numbers = placed.whole, placed.numbers.values()
        if placed.packed:
            descriptor = yield from self._load_columns(numbers, with_descriptor=True)
            if descriptor is not None:
                whole = self._as_written(whole, placed.packed, descriptor)
        elif not self._parse_held(numbers):
            yield from self._load_columns(numbers)
        yield from self._load_columns(self._following(numbers))
        found = self.prepared[field] = self._made(field, whole, placed.numbers)
        return found

    def keep(self, columns: Mapping[int, Column]) -> None:
        """Keep parsed columns, by their numbers."""
        self._columns.update(columns)

    def missing(self, placed: Iterable[Placed]) -> tuple[int, ...]:
        """Numbers of the columns of fields that are not parsed."""
        numbers = (number for one in placed for number in one.numbers.values())
        return tuple([number for number in numbers if number not in self._columns])

    def memory(self, number: int) -> PageMemory | None:
        """Cache for decoded parts of the pages of a column; None without a cache."""
        return None if self._cache is None else PageMemory(self._cache, ("page", self._owner, number))

    @cached_property
    def _owner(self) -> object:
        """One object instead of the file and the limits: a key is hashed for every page of every read."""
        return self.specs.token(("pages of", *self.source.key, self.limits))

    def after(self, column: Column) -> Column | None:
        """The column after one that it completes, if it is parsed: strings of the first releases have two."""
        return self._columns.get(column.index + 1)

    def may_continue(self, column: Column) -> bool:
        """Whether strings of the column may have their bytes in the next one, as in files of the first releases."""
        return column.index + 1 < self.container.num_columns and _may_continue(column.specs)

    def _following(self, numbers: Iterable[int]) -> list[int]:
        """Columns after these that may have bytes of their strings."""
        return [number + 1 for number in numbers if self.may_continue(self._columns[number])]

    def _made(self, field: Field, whole: Field, numbers: Mapping[int, int]) -> Prepared:
        """A field whose columns are parsed, checked."""
        columns = {field_id: self._columns[number] for field_id, number in numbers.items()}
        pages = [column.specs for column in columns.values()]
        layout = _layout(self.fields, field, whole, numbers, pages, self.container.version)
        num_rows = self.container.num_rows
        for node, factor in layout.counted:
            column = columns[node]
            if column.num_rows not in (num_rows, num_rows * factor):
                raise FormatError(
                    f"pages of physical column {column.index} have {column.num_rows} rows, the file {num_rows}"
                )
        return layout.prepared(columns, self.specs)

    def _load_columns(self, numbers: Iterable[int], with_descriptor: bool = False) -> Read[Memory | None]:
        """Parse columns that are not known yet, in one round; return the FileDescriptor on request."""
        missing = [n for n in dict.fromkeys(numbers) if n not in self._columns]
        parts = [self.container.part(n) for n in missing]
        if with_descriptor:
            parts.append(self.container.descriptor)
        if not parts:
            return None
        found = yield from read_parts(self.source, self.container.held, parts)
        if missing:
            self._parse(missing, Parts.of(found[: len(missing)]))
        return found[-1] if with_descriptor else None

    def _parse_held(self, numbers: Iterable[int]) -> bool:
        """Parse columns whose metadata is held; False, and none is parsed, if that of one is not."""
        missing = [n for n in numbers if n not in self._columns]
        places = [self.container.part(n) for n in missing]
        held = self.container.held
        if not all(held.has(*place) for place in places):
            return False
        if missing:
            self._parse(missing, Parts.of([held.part(*place) for place in places]))
        return True

    def _parse(self, numbers: Sequence[int], parts: Parts) -> None:
        """Parse columns from their messages."""
        about = self.source.size, self.limits, self.specs, self.ledger
        found = build_columns(parts, numbers, *about, self.memory)
        self._columns.update(zip(numbers, found, strict=True))

    def _as_written(self, field: Field, packed: frozenset[int], descriptor: Memory) -> Field:
        """The field with the children of packed structs that the file was written with, in their order.

        Rows of packed structs do not identify their fields, and the table may have dropped some later.
        """
        if field.id in packed and not field.is_blob:
            children = decode_children(descriptor, field.id, self.limits)
            ids = {child.id for child in children}
            if children and min(ids) >= 0 and len(ids) == len(children):
                known = {child.id: child for child in field.children}
                return replace(field, children=tuple(known.get(c.id, c) for c in children))
            return field
        children = tuple(self._as_written(child, packed, descriptor) for child in field.children)
        return replace(field, children=children) if children else field


def _may_continue(specs: Sequence[PageSpec]) -> bool:
    return any(isinstance(spec, EndedList) for spec in specs)


@dataclass(frozen=True, slots=True, eq=False)
class _Layout:
    """What the metadata of a field's columns means; see ``Prepared``.

    Attributes
    ----------
    whole : Field
    leaves : tuple of Leaf
    form : object or None
    counted : tuple of (int, int)
        Ids of nodes whose columns have as many values as the file has rows, or so many times as many.
    """

    whole: Field
    leaves: tuple[Leaf, ...]
    form: object | None
    counted: tuple[tuple[int, int], ...]

    def has_rows(self, columns: Mapping[int, Column], num_rows: int) -> bool:
        """Whether columns, by the ids of their nodes, have as many values as the rows of their file need."""
        return all(columns[node].num_rows in (num_rows, num_rows * factor) for node, factor in self.counted)

    def prepared(self, columns: Mapping[int, Column], specs: SpecCache) -> Prepared:
        """The field with its columns, by the ids of their nodes."""
        chain = self.leaves[0].chain if self.leaves else (self.whole,)
        return Prepared(self.whole, columns, self.leaves, chain, specs, self.form)


def _layout(
    fields: FieldColumns,
    field: Field,
    whole: Field,
    numbers: Mapping[int, int],
    pages: Sequence[Sequence[PageSpec]],
    version: tuple[int, int],
) -> _Layout:
    """The layout of a field whose columns have these pages.

    Raises
    ------
    FormatError
        Pages of 2.0 and of later versions, or a part of the field has no column.
    """
    if _is_structural(pages, version):
        leaves, form = fields.leaves(field, whole)
        counted = [(leaf.chain[-1].id, rows_per_value(leaf.chain)) for leaf in leaves]
        return _Layout(whole, leaves, form, tuple(counted))
    if whole.id not in numbers:
        raise FormatError(f"field {whole.id} {printable(whole.name)!r} has no column in this file")
    return _Layout(whole, (), None, tuple((node, 1) for node in _aligned(whole, numbers)))


def _is_structural(several: Sequence[Sequence[PageSpec]], version: tuple[int, int]) -> bool:
    """Whether pages have layouts of 2.1 and later, not nodes of 2.0."""
    by_kind = {type(spec): spec for specs in several for spec in specs}
    kinds = {is_structural(spec) for spec in by_kind.values()}
    if len(kinds) > 1:
        raise FormatError("a column has pages of 2.0 and of later versions")
    return kinds.pop() if kinds else version != (2, 0)


def _aligned(field: Field, numbers: Mapping[int, int]) -> Iterator[int]:
    """Yield ids of the nodes of 2.0 whose columns have one value per row."""
    if field.id in numbers:
        yield field.id
        if field.is_struct:
            for child in field.children:
                yield from _aligned(child, numbers)


# -- many files ----------------------------------------------------------------------


def parse_together(files: Sequence[FileColumns], fields: Sequence[Field]) -> None:
    """Parse columns of fields in files, as far as their metadata is held; later reads find them parsed.

    Parameters
    ----------
    files : sequence of FileColumns
    fields : sequence of Field
        Top level, as for ``FileColumns.load``.

    Notes
    -----
    It raises nothing: a file or a field with an error, or that is stored in an unusual way, is left to its own read.
    """
    groups: dict[tuple[object, ...], tuple[list[FileColumns], list[Field]]] = {}
    for file in files:
        unknown = [field for field in fields if field not in file.prepared]
        if unknown:
            container = file.container
            about = id(file.fields), container.version, container.num_columns, id(file.limits)
            groups.setdefault((*about, *map(id, unknown)), ([], unknown))[0].append(file)
    for alike, unknown in groups.values():
        placed = alike[0].fields.placed
        wanted = [(field, one) for field in unknown if (one := placed(field)).numbers and not one.packed]
        numbers = list(dict.fromkeys(number for _, one in wanted for number in one.numbers.values()))
        for some in _parts(alike) if numbers else ():
            with suppress(LanceError):
                _parse_alike(some, wanted, numbers)


def _parts(files: Sequence[FileColumns]) -> Iterator[list[FileColumns]]:
    """Files in lists that hold a bounded number of bytes of metadata."""
    part: list[FileColumns] = []
    nbytes = 0
    for file in files:
        held = file.container.held.memory.nbytes
        if part and nbytes + held > _MOST_HELD:
            yield part
            part, nbytes = [], 0
        part.append(file)
        nbytes += held
    yield part


def _parse_alike(
    files: Sequence[FileColumns], wanted: Sequence[tuple[Field, Placed]], numbers: Sequence[int]
) -> None:
    """Parse these columns of files that have the same columns."""
    files = [file for file, good in zip(files, _are_held(files, numbers), strict=True) if good]
    if not files:
        return
    parsed = _parsed(files, numbers)
    layouts: dict[tuple[int, ...], _Layout | None] = {}
    for n, file in enumerate(files):
        if not parsed.may_keep(n):
            continue
        columns = {number: parsed.column(n, place) for place, number in enumerate(numbers)}
        file.keep(columns)
        for field, placed in wanted:
            pages = [columns[number].specs for number in placed.numbers.values()]
            key = (id(placed), *map(id, pages))
            if key not in layouts:
                layouts[key] = _usual_layout(file, field, placed, pages)
            layout = layouts[key]
            by_node = {node: columns[number] for node, number in placed.numbers.items()}
            if layout is not None and layout.has_rows(by_node, file.container.num_rows):
                file.prepared[field] = layout.prepared(by_node, file.specs)


def _are_held(files: Sequence[FileColumns], numbers: Sequence[int]) -> list[bool]:
    """Whether each file holds the metadata of these columns."""
    positions, lengths = _places(files, numbers)
    bounds = [(file.container.held.start, file.container.held.stop) for file in files]
    starts, stops = np.array(bounds, np.int64).T
    first, last = positions.min(axis=1), (positions + lengths).max(axis=1)
    found: list[bool] = ((first >= starts) & (last <= stops)).tolist()
    return found


def _places(files: Sequence[FileColumns], numbers: Sequence[int]) -> tuple[Int64, Int64]:
    """(num_files, num_columns) int64, bytes: position and length of the metadata of columns."""
    positions = np.array([file.container.positions for file in files])[:, numbers]
    return positions, np.array([file.container.lengths for file in files])[:, numbers]


def _parsed(files: Sequence[FileColumns], numbers: Sequence[int]) -> _ParsedColumns:
    """Columns of files that hold their metadata."""
    positions, lengths = _places(files, numbers)
    first, last = positions.min(axis=1), (positions + lengths).max(axis=1)
    ranges = zip(files, first.tolist(), last.tolist(), strict=True)
    memories = [file.container.held.part(start, stop - start) for file, start, stop in ranges]
    begins = positions - first[:, None] + (np.cumsum(last - first) - (last - first))[:, None]
    memory = memories[0] if len(memories) == 1 else np.concatenate(memories)
    return _ParsedColumns(files, numbers, Parts(memory, begins.ravel(), lengths.ravel()))


class _ParsedColumns:
    """Some columns of several files, as arrays for all of them: one file after the other, and so its columns.

    Raises
    ------
    FormatError, LimitError, UnsupportedError
        One of them is damaged, or larger than the limits allow.
    """

    def __init__(self, files: Sequence[FileColumns], numbers: Sequence[int], parts: Parts) -> None:
        first = files[0]
        found = decode_column_arrays(parts, first.limits)
        self._files = files
        self._numbers = numbers
        self._row_starts, self._first_buffer = found.edges
        self._positions, self._sizes = found.buffers
        ends = np.zeros((2, found.counts.shape[0] + 1), np.int64)
        np.cumsum(found.counts[:, :2].T, axis=1, out=ends[:, 1:])
        self._page_ends, self._buffer_ends = ends.tolist()
        last_edges = ends[0, 1:] + np.arange(found.counts.shape[0])
        num_buffers = np.delete(np.diff(self._first_buffer), last_edges[:-1]).tolist()
        encodings = stored_encodings(parts.memory, found.pages[2], found.pages[3], "page")
        self._pages = list(zip(encodings, num_buffers, strict=True))
        self._specs = {page: first.specs.find(*page) for page in dict.fromkeys(self._pages)}
        self._blobs = are_blobs(parts.memory, found.counts, first.limits)
        self._num_bytes, self._furthest = found.counts[:, 5:].T.tolist()
        self._num_rows = self._row_starts[last_edges].tolist()
        # One tuple for all columns with the same pages, so that its identity tells the layout of a field.
        self._same: dict[tuple[tuple[bytes, int], ...], tuple[PageSpec, ...]] = {}

    def may_keep(self, file: int) -> bool:
        """Whether the columns of a file are within it, and have at most the allowed rows; their bytes are counted.

        Raises
        ------
        FormatError
            Columns share bytes.
        """
        own, count = self._files[file], len(self._numbers)
        mine, size = slice(file * count, (file + 1) * count), own.source.size
        most_rows = max(own.limits.rows_per_file, size * 8)
        if max(self._furthest[mine]) > size or max(self._num_rows[mine]) > most_rows:
            return False
        for number, nbytes in zip(self._numbers, self._num_bytes[mine], strict=True):
            own.ledger.charge(number, "pages", nbytes, size)
        return True

    def column(self, file: int, place: int) -> Column:
        """One column of a file, by the place of its number."""
        at, number = file * len(self._numbers) + place, self._numbers[place]
        page, last = self._page_ends[at], self._page_ends[at + 1]
        buffers = slice(self._buffer_ends[at], self._buffer_ends[at + 1])
        edges = slice(page + at, last + at + 1)
        pages = tuple(self._pages[page:last])
        if pages not in self._same:
            self._same[pages] = tuple([self._specs[one] for one in pages])
        return Column(
            number,
            self._blobs[at],
            self._row_starts[edges],
            self._same[pages],
            self._first_buffer[edges],
            self._positions[buffers],
            self._sizes[buffers],
            self._num_bytes[at],
            self._files[file].memory(number),
        )


def _usual_layout(
    file: FileColumns, field: Field, placed: Placed, pages: Sequence[Sequence[PageSpec]]
) -> _Layout | None:
    """The layout of a field; None if it has an error, or strings whose bytes are in the next column."""
    if any(map(_may_continue, pages)):
        return None
    with suppress(LanceError):
        return _layout(file.fields, field, placed.whole, placed.numbers, pages, file.container.version)
    return None
