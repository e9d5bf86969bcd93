"""The columns of a 2.x file, parsed on first use and kept.

Source: file sheet 2.0, sections 2 and 3; file sheet 2.1, section 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property

import numpy as np

from lancecy.encodings.model.layouts import PageSpec, is_structural
from lancecy.encodings.model.ledger import ByteLedger
from lancecy.encodings.model.pages import Column, PageMemory
from lancecy.encodings.model.spec import EndedList
from lancecy.encodings.v21.repdef import rows_per_value
from lancecy.errors import FormatError, LanceError, printable
from lancecy.file.tail import read_parts
from lancecy.file.v2.fields import FieldColumns, Leaf
from lancecy.file.v2.meta import Container, SpecCache, build_columns
from lancecy.file.v2.values import Prepared
from lancecy.file.v2.wire import (
    Parts,
    decode_children,
)
from lancecy.limits import Limits
from lancecy.records import dataclass
from lancecy.schema import Field
from lancecy.store.base import Memory
from lancecy.store.cache import ByteCache
from lancecy.store.reads import Read, SourceFile

__all__ = ["FileColumns", "Layout", "layout_of", "may_continue"]


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
    cache : ByteCache or None
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
        self.cache = cache
        self._columns: dict[int, Column] = {}
        self._told: set[Field] = set()

    def can_tell(self, fields: Sequence[Field]) -> bool:
        """Whether the columns of fields are parsed, or can be without a request, for reads of values."""
        for field in fields:
            if field not in self._told:
                is_unpacked = self.container.is_whole and not self.fields.placed(field).packed
                if field not in self.prepared and not is_unpacked:
                    return False
                self._told.add(field)
        return True

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
            raise error.within(f"column {field.id} {field.name!r}").within(self.source.path)
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

    def memory(self, number: int) -> PageMemory | None:
        """Cache for decoded parts of the pages of a column; None without a cache."""
        return None if self.cache is None else PageMemory(self.cache, ("page", self._owner, number))

    @cached_property
    def _owner(self) -> object:
        """One object instead of the file and the limits: a key is hashed for every page of every read."""
        return self.specs.token(("pages of", *self.source.key, self.limits))

    def after(self, column: Column) -> Column | None:
        """The column after one that it completes, if it is parsed: strings of the first releases have two."""
        return self._columns.get(column.index + 1)

    def may_continue(self, column: Column) -> bool:
        """Whether strings of the column may have their bytes in the next one, as in files of the first releases."""
        is_old = self.container.version == (2, 0) and column.index + 1 < self.container.num_columns
        return is_old and may_continue(column.specs)

    def _following(self, numbers: Iterable[int]) -> list[int]:
        """Columns after these that may have bytes of their strings."""
        return [number + 1 for number in numbers if self.may_continue(self._columns[number])]

    def _made(self, field: Field, whole: Field, numbers: Mapping[int, int]) -> Prepared:
        """A field whose columns are parsed, checked."""
        columns = {node: self._columns[number] for node, number in numbers.items()}
        pages = [column.specs for column in columns.values()]
        layout = layout_of(self.fields, field, whole, numbers, pages, self.container.version)
        num_rows = self.container.num_rows
        other = layout.of_other_rows(columns, num_rows)
        if other is not None:
            raise FormatError(
                f"pages of physical column {other.index} have {other.num_rows} rows, the file {num_rows}"
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

    def parse(self, fields: Sequence[Field]) -> None:
        """Parse columns of fields in one pass, as far as their metadata is held; an error is left to the fields' own reads."""
        if not self.container.is_whole:
            return
        unknown = [(field, self.fields.placed(field)) for field in fields if field not in self.prepared]
        with suppress(LanceError):
            self._parse_held([number for _, placed in unknown for number in placed.numbers.values()])
            for field, placed in unknown:
                if not placed.packed and not self._following(placed.numbers.values()):
                    self.prepared[field] = self._made(field, placed.whole, placed.numbers)

    def _parse_held(self, numbers: Iterable[int]) -> bool:
        """Parse columns whose metadata is held; False, and none is parsed, if that of one is not."""
        missing = [n for n in numbers if n not in self._columns]
        if not missing:
            return True
        places = [self.container.part(n) for n in missing]
        held = self.container.held
        for place in places:
            if not held.has(*place):
                return False
        starts = [at - held.start if size else 0 for at, size in places]
        parts = Parts(
            held.memory, np.array(starts, np.int64), np.array([size for _, size in places], np.int64)
        )
        self._parse(missing, parts)
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


def may_continue(specs: Sequence[PageSpec]) -> bool:
    """Whether some of these pages are lists of 2.0, as which the first releases stored strings too, with bytes in the next column."""
    return any(isinstance(spec, EndedList) for spec in specs)


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
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

    def of_other_rows(self, columns: Mapping[int, Column], num_rows: int) -> Column | None:
        """The first of the columns, by the ids of their nodes, that has other rows than its file; None without any."""
        for node, factor in self.counted:
            if columns[node].num_rows not in (num_rows, num_rows * factor):
                return columns[node]
        return None

    def prepared(self, columns: Mapping[int, Column], specs: SpecCache) -> Prepared:
        """The field with its columns, by the ids of their nodes."""
        chain = self.leaves[0].chain if self.leaves else (self.whole,)
        return Prepared(self.whole, columns, self.leaves, chain, specs, self.form)


def layout_of(
    fields: FieldColumns,
    field: Field,
    whole: Field,
    numbers: Mapping[int, int],
    pages: Sequence[Sequence[PageSpec]],
    version: tuple[int, int],
) -> Layout:
    """The layout of a field whose columns have these pages.

    Parameters
    ----------
    fields : FieldColumns
        Those of the file.
    field, whole : Field
        As requested, and in the form for decoders.
    numbers : mapping of field id to column number
        Of the nodes with a column of their own.
    pages : sequence of sequence of PageSpec
        Of each of these columns.
    version : (major, minor)
        That of the file.

    Raises
    ------
    FormatError
        Pages of 2.0 and of later versions, or a part of the field has no column.
    """
    if _is_structural(pages, version):
        leaves, form = fields.leaves(field, whole)
        counted = [(leaf.chain[-1].id, rows_per_value(leaf.chain)) for leaf in leaves]
        return Layout(whole, leaves, form, tuple(counted))
    if whole.id not in numbers:
        raise FormatError(f"field {whole.id} {printable(whole.name)!r} has no column in this file")
    return Layout(whole, (), None, tuple((node, 1) for node in _aligned(whole, numbers)))


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
