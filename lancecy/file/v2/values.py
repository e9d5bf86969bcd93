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

import numpy as np

from lancecy.encodings.arrow.agreement import Disagreement, first_disagreement
from lancecy.encodings.batch import MOST_BYTES, SmallPage, batch_key, read_small
from lancecy.encodings.blocks.null_only import null_only, null_stub
from lancecy.encodings.joined_columns import MOST_PAGES, ColumnPage, JoinKeys, page_with, read_columns
from lancecy.encodings.model.block import Block, Leaves
from lancecy.encodings.model.decoded_sizes import decoded_bytes
from lancecy.encodings.model.pages import Column
from lancecy.encodings.v20.null_only import read_nulls
from lancecy.encodings.v20.read import read_field
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

__all__ = ["FieldGroup", "FieldRead", "Prepared", "disagreement", "few_rows", "read_fields"]

_FEW = 4
"""Fewest columns of one key that are read together."""
_FEW_ROWS = 4096
"""Most rows of a column that are read together with those of others: more take longer to decode than to find."""
_FEW_BYTES = 64 << 10
"""Most stored bytes of them."""


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
            if len(reads) == 1:
                return (yield from reads[0])
            blocks = yield from gather(reads)
            self._check_agreement(known.leaves, blocks)
        except LanceError as error:
            raise error.within(f"column {self.asked.id} {self.asked.name!r}")
        parts = zip((leaf.part for leaf in known.leaves), blocks, strict=True)
        return Leaves(len(self.rows), tuple(parts))

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
    groups = list(_groups(fields)) if len(fields) >= _FEW else []
    if not groups:
        return (yield from gather([field.alone() for field in fields]))
    found: list[Block | None] = [None] * len(fields)
    grouped = {index for group in groups for index in group.indices}
    others = [index for index in range(len(fields)) if index not in grouped]
    reads = [_read_group(group) for group in groups] + [_read_alone(fields[index]) for index in others]
    read = yield from gather(reads)
    every = [*(group.indices for group in groups), *([index] for index in others)]
    for indices, blocks in zip(every, read, strict=True):
        for index, block in zip(indices, blocks, strict=False):
            found[index] = block
    left = [index for index, block in enumerate(found) if block is None]
    if left:
        again = yield from gather([fields[index].alone() for index in left])
        for index, block in zip(left, again, strict=True):
            found[index] = block
    return [block for block in found if block is not None]


@dataclass(frozen=True, slots=True, eq=False)
class FieldGroup:
    """Fields that are read together, by number."""

    indices: list[int]
    read: Read[list[Block]]


def _read_group(group: FieldGroup) -> Read[list[Block]]:
    """Read several fields; return an empty list if they must be read one by one."""
    try:
        return (yield from group.read)
    except LanceError:
        return []


def _read_alone(field: FieldRead) -> Read[list[Block]]:
    return [(yield from field.alone())]


def _groups(fields: Sequence[FieldRead]) -> Iterator[FieldGroup]:
    """The fields that are read together."""
    small = list(_small_pages(fields))
    yield from small
    yield from few_rows(fields, {index for group in small for index in group.indices})


def _small_pages(fields: Sequence[FieldRead]) -> Iterator[FieldGroup]:
    """Groups of fields whose only column is one small page."""
    batches: dict[int, list[int]] = {}
    for index, one in enumerate(fields):
        if one.known.batch_key is not None:
            batches.setdefault(id(one.known.batch_key), []).append(index)
    for batch in batches.values():
        if len(batch) < _FEW:
            continue
        for indices in _cut(batch, [float(fields[index].known.column.nbytes) for index in batch]):
            mine = [fields[index] for index in indices]
            pages = [SmallPage(f.known.chain, f.known.column.page(0), f.source, f.rows) for f in mine]
            yield FieldGroup(indices, read_small(pages, mine[0].limits))


def few_rows(fields: Sequence[FieldRead], but: Container[int] = ()) -> Iterator[FieldGroup]:
    """Groups of fields of which a few rows of one page are wanted, in one mapped file; without those of some numbers."""
    keys = JoinKeys()
    found: dict[tuple[int, ...], list[tuple[int, ColumnPage]]] = {}
    for index, one in enumerate(fields):
        known, rows = one.known, one.rows
        if index in but or len(rows) > _FEW_ROWS or len(known.chain) > 1 or len(known.columns) > 1:
            continue
        column = known.column
        if not one.source.store.traits.is_mapped or column.nbytes * len(rows) > _FEW_BYTES * rows.num_rows:
            continue
        page = page_with(known.chain[0], column, rows)
        key = None if page is None else keys.of(page)
        if page is not None and key is not None:
            about = key, id(one.source), id(rows), page.start, page.num_rows
            found.setdefault(about, []).append((index, page))
    for (*_, start, num_rows), alike in found.items():
        if len(alike) < _FEW:
            continue
        first = fields[alike[0][0]]
        rows, pages = first.rows.within(start, num_rows), dict(alike)
        for indices in _cut(list(pages), [fields[index].nbytes for index in pages]):
            mine = [pages[index] for index in indices]
            yield FieldGroup(indices, read_columns(mine, rows, first.source, first.limits))


def _cut(indices: Sequence[int], sizes: Sequence[float]) -> Iterator[list[int]]:
    """Groups of at most ``MOST_PAGES`` fields, and of ``MOST_BYTES`` unless it is one field."""
    group: list[int] = []
    nbytes = 0.0
    for index, size in zip(indices, sizes, strict=True):
        group.append(index)
        nbytes += size
        if nbytes >= MOST_BYTES or len(group) == MOST_PAGES:
            yield group
            group, nbytes = [], 0.0
    if group:
        yield group
