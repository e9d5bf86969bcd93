"""Decode fields of 2.x files with known columns to blocks.

In 2.0 a field is decoded as one tree of columns; from 2.1 on each leaf is decoded alone, with everything around it.
Fields whose only column is one small page are read together with others of the same encoding, from one file or
several (``encodings.batch``); so are a few rows of larger pages of one mapped file (``encodings.joined_columns``). If
that fails, each is read alone, so that the error names the column and the page.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import field as attribute
from functools import cached_property
from typing import TypeAlias

import numpy as np

from lancecy.encodings.arrow.agreement import Disagreement, first_disagreement
from lancecy.encodings.batch import MOST_BYTES, SmallPage, batch_key, read_small
from lancecy.encodings.blocks.null_only import null_only, null_stub
from lancecy.encodings.joined_columns import MOST_PAGES, ColumnPages, LeafPages, pages_with, read_columns
from lancecy.encodings.model.block import Block, Leaves
from lancecy.encodings.model.decoded_sizes import decoded_bytes
from lancecy.encodings.model.pages import Column
from lancecy.encodings.v20.null_only import read_nulls
from lancecy.encodings.v20.read import read_field, struct_leaves, with_structs
from lancecy.encodings.v21.leaf import read_leaf
from lancecy.encodings.v21.repdef import rows_per_value
from lancecy.errors import FormatError, LanceError
from lancecy.file.v2.fields import Leaf
from lancecy.file.v2.meta import SpecCache
from lancecy.limits import Limits
from lancecy.records import dataclass
from lancecy.rows import RowSelection
from lancecy.schema import Field
from lancecy.store.reads import Read, SourceFile, gather, named

__all__ = ["FEW_BYTES", "FEW_ROWS", "FieldRead", "Prepared", "disagreement", "guarded", "read_fields"]

_FEW = 4
"""Fewest columns, or leaves, of one key that are read together."""
FEW_ROWS = 4096
"""Most rows of a column, or of all files, that are read together with those of others: more take longer to decode than to find."""
FEW_BYTES = 64 << 10
"""Most stored bytes of them."""


Joinable: TypeAlias = tuple[int, object, ColumnPages]
"""Number of a part of a field; a key, one object for pages that can be read together; and the pages."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """A field with parsed columns.

    Attributes
    ----------
    field : Field
        In the form for decoders: nodes with everything below them in one column have all children.
    columns : mapping of field id to Column
        Every column of the field.
    leaves : tuple of Leaf
        Empty in 2.0.
    chain : tuple of Field
        For the first column: from the top-level field to the field of its values.
    specs : SpecCache
    form : object or None
        Equal for fields of files of 2.1 and later that have the same leaves.
    """

    field: Field
    columns: Mapping[int, Column]
    leaves: tuple[Leaf, ...]
    chain: tuple[Field, ...]
    specs: SpecCache = attribute(repr=False)
    form: object | None = None

    @cached_property
    def batch_key(self) -> object | None:
        """Equal for fields that can be read together; None: the field is read alone."""
        if len(self.leaves) > 1 or len(self.columns) != 1:
            return None
        return self.specs.token(batch_key(self.chain, self.column))

    @cached_property
    def parts(self) -> tuple[tuple[Field, ...], ...]:
        """What the field is read in: from the top-level field down to each leaf; in 2.0 each field below structs."""
        if self.leaves:
            return tuple(leaf.chain for leaf in self.leaves)
        return tuple((leaf,) for leaf in struct_leaves(self.field, self.columns))

    def combined(self, blocks: Sequence[Block], num_rows: int) -> Block:
        """The field, from the blocks of all its :attr:`parts`, which agree."""
        if not self.leaves:
            return with_structs(self.field, self.columns, iter(blocks), num_rows)
        if len(blocks) == 1:
            return blocks[0]
        return Leaves(num_rows, tuple(zip((leaf.part for leaf in self.leaves), blocks, strict=True)))

    def joinable(self, rows: RowSelection) -> Sequence[Joinable]:
        """The parts of which these rows, at least one, can be read together with others of the file."""
        return self._joinable(rows) if self._known_joinable is None else self._known_joinable

    @cached_property
    def _known_joinable(self) -> Sequence[Joinable] | None:
        """:meth:`joinable` for any rows; None if they are in different pages."""
        columns = [self.columns.get(chain[-1].id) for chain in self.parts]
        if any(column is not None and column.num_pages != 1 for column in columns):
            return None
        return self._joinable(RowSelection.all(1))

    def _joinable(self, rows: RowSelection) -> Sequence[Joinable]:
        found = []
        for number, chain in enumerate(self.parts):
            column = self.columns.get(chain[-1].id)
            pages = None if column is None else pages_with(chain, column, rows)
            key = None if pages is None else self.specs.join_keys.of(pages, self.specs.token)
            if pages is not None and key is not None:
                found.append((number, key, pages))
        return found

    @cached_property
    def stored_bytes(self) -> int:
        """Bytes of all columns."""
        return sum(column.nbytes for column in self.columns.values())

    @cached_property
    def decoded_bytes(self) -> int:
        """Bytes of all columns once they are decoded, as far as pages tell; codes of dictionaries are not expanded."""
        coded = {node.id for node in self.field.walk() if hasattr(node.storage_type, "index_type")}
        return sum(c.nbytes if n in coded else decoded_bytes(c) for n, c in self.columns.items())

    def primary(self) -> Column | None:
        """A column with one value per row: that of the first leaf, lists included in 2.0."""
        if self.leaves:
            return self.column
        node = self.field
        while node.is_struct and node.children and node.children[0].id in self.columns:
            node = node.children[0]
        return self.columns.get(node.id)

    @property
    def column(self) -> Column:
        """The first column."""
        return self.columns[self.chain[-1].id]


@dataclass(frozen=True, slots=True, eq=False)
class FieldRead:
    """One field of one file, and the rows to read.

    Attributes
    ----------
    asked : Field
        The requested field.
    known : Prepared
    after : function of a Column
        Returns the next column in the file, if it is known.
    source : SourceFile
    rows : RowSelection
        Ascending, without duplicates; at least one.
    limits : Limits
    """

    asked: Field
    known: Prepared
    after: Callable[[Column], Column | None]
    source: SourceFile
    rows: RowSelection
    limits: Limits

    @property
    def nbytes(self) -> float:
        """Stored bytes of the rows, estimated."""
        return self.known.stored_bytes * len(self.rows) / max(1, self.rows.num_rows)

    def alone(self) -> Read[Block]:
        """Read the field by itself."""
        known = self.known
        try:
            if not known.leaves:
                return (
                    yield from read_field(
                        known.field, known.columns, self.after, self.source, self.rows, self.limits
                    )
                )
            reads = [self._leaf(leaf) for leaf in known.leaves]
            blocks = [(yield from reads[0])] if len(reads) == 1 else (yield from gather(reads))
        except LanceError as error:
            raise error.within(f"column {self.asked.id} {self.asked.name!r}")
        return self.combined(blocks)

    def combined(self, blocks: Sequence[Block]) -> Block:
        """The field, from the blocks of all its parts (``Prepared.parts``).

        Raises
        ------
        FormatError
            Leaves disagree.
        """
        try:
            self._check_agreement(self.known.leaves, blocks)
        except LanceError as error:
            raise error.within(f"column {self.asked.id} {self.asked.name!r}")
        return self.known.combined(blocks, len(self.rows))

    def part(self, number: int) -> Read[Block]:
        """One part of the field; see ``Prepared.parts``."""
        known = self.known
        if known.leaves:
            return self._leaf(known.leaves[number])
        [field] = known.parts[number]
        return read_field(field, known.columns, self.after, self.source, self.rows, self.limits)

    def nulls(self, tested: frozenset[int]) -> Read[Block]:
        """Read the field's null stub (``encodings.blocks.null_only``): since 2.1 any leaf has its nodes' nulls."""
        known = self.known
        columns = known.columns
        try:
            if not known.leaves:
                whole = (known.field, tested, columns, self.after, self.source, self.rows, self.limits)
                return (yield from read_nulls(*whole))
            chosen: dict[int, Leaf] = {}
            by_size = sorted(known.leaves, key=lambda leaf: columns[leaf.chain[-1].id].nbytes)
            for leaf in by_size:
                node = next((node.id for node in leaf.chain if node.id in tested), None)
                if node is None:  # it is in a packed struct, whose values give the nulls
                    return null_only((yield from self.alone()), self.asked, tested)
                chosen.setdefault(node, leaf)
            numbers = {leaf.column for leaf in chosen.values()}
            leaves = [leaf for leaf in known.leaves if leaf.column in numbers]
            blocks = yield from gather([self._leaf(leaf, only_nulls=True) for leaf in leaves])
            self._check_agreement(leaves, blocks)
        except LanceError as error:
            raise error.within(f"column {self.asked.id} {self.asked.name!r}")
        parts = tuple(
            (null_stub(leaf.part, tested), null_only(block, leaf.part, tested))
            for leaf, block in zip(leaves, blocks, strict=True)
        )
        return parts[0][1] if len(parts) == 1 else Leaves(len(self.rows), parts)

    def _leaf(self, leaf: Leaf, only_nulls: bool = False) -> Read[Block]:
        column = self.known.columns[leaf.chain[-1].id]
        read = read_leaf(leaf.chain, column, self.source, self.rows, self.limits, only_nulls)
        if len(leaf.chain) == 1:
            return read
        return named(read, f"leaf {_path(leaf.chain)}")

    def _check_agreement(self, leaves: Sequence[Leaf], blocks: Sequence[Block]) -> None:
        if len(leaves) < 2:
            return
        found = first_disagreement([leaf.chain for leaf in leaves], blocks)
        if found is not None:
            row = int(self.rows.to_indices()[found.row])
            pages = [self._page(leaf, row) for leaf in leaves[found.leaf - 1 : found.leaf + 1]]
            raise disagreement(leaves, found, f"in row {row}, of pages {pages[0]} and {pages[1]}")

    def _page(self, leaf: Leaf, row: int) -> int:
        """Number of the leaf's page with a row."""
        starts = self.known.columns[leaf.chain[-1].id].row_starts
        return int(np.searchsorted(starts, row * rows_per_value(leaf.chain), side="right")) - 1


def _path(chain: Sequence[Field]) -> str:
    return repr(".".join(node.name for node in chain))


def disagreement(leaves: Sequence[Leaf], found: Disagreement, where: str) -> FormatError:
    """The error for two leaves that disagree about a node around both.

    Parameters
    ----------
    leaves : sequence of Leaf
    found : Disagreement
    where : str
        Ends the message.
    """
    one, other = (leaf.chain for leaf in leaves[found.leaf - 1 : found.leaf + 1])
    what = f"{found.about} of {_path(one[: found.depth + 1])}"
    return FormatError(f"leaves {_path(one)} and {_path(other)} disagree about the {what} {where}")


def read_fields(fields: Sequence[FieldRead]) -> Read[list[Block]]:
    """Decode fields of one file or of several.

    Raises
    ------
    FormatError, LimitError, UnsupportedError
        The breadcrumbs name page and column.
    """
    groups = list(_groups(fields)) if sum(len(one.known.columns) for one in fields) >= _FEW else []
    if not groups:
        return (yield from gather([field.alone() for field in fields]))
    grouped = {part for group in groups for part in group.parts}
    divided = {number for number, _ in grouped}
    numbers = [(n, k) for n in sorted(divided) for k in range(len(fields[n].known.parts))]
    left = [
        _FieldGroup([part], _only(fields[part[0]].part(part[1]))) for part in numbers if part not in grouped
    ]
    groups += left
    parts: dict[_Part, Block] = {}
    read = yield from gather([guarded(group.read) for group in groups])
    for group, blocks in zip(groups, read, strict=True):
        parts.update(zip(group.parts, blocks, strict=False))
    found: dict[int, Block] = {}
    for number in divided:
        one = fields[number]
        mine = [parts[number, k] for k in range(len(one.known.parts)) if (number, k) in parts]
        if len(mine) == len(one.known.parts):
            found[number] = one.combined(mine)
    whole = [number for number in range(len(fields)) if number not in found]
    alone = yield from gather([fields[number].alone() for number in whole])
    found.update(zip(whole, alone, strict=True))
    return [found[number] for number in range(len(fields))]


_Part: TypeAlias = tuple[int, int]
"""Number of a field, and of one of its ``Prepared.parts``."""


@dataclass(frozen=True, slots=True, eq=False)
class _FieldGroup:
    """Parts of fields that are read together."""

    parts: list[_Part]
    read: Read[list[Block]]


def guarded(read: Read[list[Block]]) -> Read[list[Block]]:
    """Return an empty list where fields must be read one by one, so that the error names column and page."""
    try:
        return (yield from read)
    except LanceError:
        return []


def _only(read: Read[Block]) -> Read[list[Block]]:
    return [(yield from read)]


def _groups(fields: Sequence[FieldRead]) -> Iterator[_FieldGroup]:
    """The parts of fields that are read together."""
    small = list(_small_pages(fields))
    yield from small
    yield from _few_rows(fields, {number for group in small for number, _ in group.parts})


def _small_pages(fields: Sequence[FieldRead]) -> Iterator[_FieldGroup]:
    """Groups of fields whose only column is one small page."""
    batches: dict[int, list[_Part]] = {}
    for index, one in enumerate(fields):
        if one.known.batch_key is not None:
            batches.setdefault(id(one.known.batch_key), []).append((index, 0))
    for batch in batches.values():
        if len(batch) < _FEW:
            continue
        for parts in _cut(
            batch, [float(fields[index].known.column.nbytes) for index, _ in batch], len(batch)
        ):
            mine = [fields[index] for index, _ in parts]
            pages = [SmallPage(f.known.chain, f.known.column.page(0), f.source, f.rows) for f in mine]
            yield _FieldGroup(parts, read_small(pages, mine[0].limits))


def _few_rows(fields: Sequence[FieldRead], but: Container[int] = ()) -> Iterator[_FieldGroup]:
    """Groups of leaves of which a few rows of few pages are wanted, in one mapped file; without those of some fields."""
    found: dict[tuple[int, ...], list[tuple[_Part, ColumnPages]]] = {}
    for index, one in enumerate(fields):
        known, rows = one.known, one.rows
        if index in but or len(rows) > FEW_ROWS or not one.source.store.traits.is_mapped:
            continue
        most = FEW_BYTES * rows.num_rows // len(rows)
        for number, key, pages in known.joinable(rows):
            if pages.column.nbytes <= most:
                about = id(key), id(one.source), id(rows)
                found.setdefault(about, []).append(((index, number), pages))
    for alike in found.values():
        if len(alike) < _FEW:
            continue
        first = fields[alike[0][0][0]]
        by_part, rows = dict(alike), first.rows
        most = MOST_PAGES // max(pages.last - pages.first for pages in by_part.values())
        share = len(rows) / rows.num_rows
        sizes = [pages.column.nbytes * share for pages in by_part.values()]
        for parts in _cut(list(by_part), sizes, max(1, most)):
            alone = (rows,)
            mine = [LeafPages((by_part[part],), alone) for part in parts]
            yield _FieldGroup(parts, read_columns(mine, first.source, first.limits))


def _cut(parts: Sequence[_Part], sizes: Sequence[float], most: int) -> Iterator[list[_Part]]:
    """Groups of at most so many parts, and of ``MOST_BYTES`` unless it is one part."""
    group: list[_Part] = []
    nbytes = 0.0
    for part, size in zip(parts, sizes, strict=True):
        group.append(part)
        nbytes += size
        if nbytes >= MOST_BYTES or len(group) == most:
            yield group
            group, nbytes = [], 0.0
    if group:
        yield group
