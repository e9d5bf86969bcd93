"""Decode fields of 2.x files with known columns to blocks.

In 2.0 a field is decoded as one tree of columns; from 2.1 on each leaf is decoded alone, with everything around it.
Fields whose only column is one small page are read together with others of the same encoding, from one file or
several (``encodings.batch``). If that fails, each is read alone, so that the error names the column and the page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field as attribute
from dataclasses import replace
from functools import cached_property
from weakref import ref

import numpy as np

from lancecy.encodings.arrow.agreement import Disagreement, first_disagreement
from lancecy.encodings.batch import MOST_BYTES, SmallPage, batch_key, read_small
from lancecy.encodings.blocks.null_only import null_only, null_stub
from lancecy.encodings.model.block import Block, Leaves, Pieces
from lancecy.encodings.model.decoded_sizes import decoded_bytes
from lancecy.encodings.model.pages import Column
from lancecy.encodings.several_files import copied, joined_columns, kept_columns, rows_of_all, stand_in
from lancecy.encodings.v20.null_only import read_nulls
from lancecy.encodings.v20.pages import served
from lancecy.encodings.v20.read import read_field
from lancecy.encodings.v21.joined_pages import JoinedPages, are_one_group, read_joined
from lancecy.encodings.v21.leaf import LeafRows, finished, read_leaf, read_leaves
from lancecy.encodings.v21.repdef import rows_per_value
from lancecy.errors import FormatError, LanceError
from lancecy.file.tail import TAIL_BYTES
from lancecy.file.v2.fields import Leaf
from lancecy.file.v2.meta import SpecCache
from lancecy.limits import Limits
from lancecy.records import dataclass
from lancecy.rows import RowSelection
from lancecy.schema import Field
from lancecy.store.base import Memory
from lancecy.store.cache import ByteCache
from lancecy.store.reads import Read, SourceFile, gather, named

__all__ = ["FieldRead", "Prepared", "read_fields", "read_in_turn"]

_MOST_KEPT = 4 << 20
"""Most bytes of a field of several files that are kept in one memory."""
_MOST_COPIED = 256 << 10
"""Most bytes of a column of a file, on average, that are copied together with others before they are decoded."""
_FEW = 4
"""Fewest columns of one batch key that are read together."""


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
            raise _disagreement(leaves, found, f"in row {row}, of pages {pages[0]} and {pages[1]}")

    def _page(self, leaf: Leaf, row: int) -> int:
        """Number of the leaf's page with a row."""
        starts = self.known.columns[leaf.chain[-1].id].row_starts
        return int(np.searchsorted(starts, row * rows_per_value(leaf.chain), side="right")) - 1


def _path(chain: Sequence[Field]) -> str:
    return repr(".".join(node.name for node in chain))


def _disagreement(leaves: Sequence[Leaf], found: Disagreement, where: str) -> FormatError:
    one, other = (leaf.chain for leaf in leaves[found.leaf - 1 : found.leaf + 1])
    what = f"{found.about} of {_path(one[: found.depth + 1])}"
    return FormatError(f"leaves {_path(one)} and {_path(other)} disagree about the {what} {where}")


def read_in_turn(fields: Sequence[FieldRead], maps: dict[int, Memory]) -> Read[Block]:
    """Decode rows of one field of several files, one file after the other.

    Parameters
    ----------
    fields : sequence of FieldRead
        At least one.
    maps : dict of int to (nbytes,) uint8
        The present maps of files whose bytes are kept, by the id of their ``SourceFile``; files that are missing are
        added. Reads of other fields of the same files share it, so that each file is looked at once.

    Raises
    ------
    FormatError, LimitError, UnsupportedError
        The message may name no file.
    """
    first = fields[0]
    if len(fields) == 1:
        return (yield from first.alone())
    joined = yield from _joined(fields, maps)
    if joined is not None:
        try:
            return (yield from _read_joined(fields, joined))
        except LanceError:
            # Not again; and one by one, so that an error names column and page.
            _keep(fields, None, is_final=True)
    if first.known.form is None or any(f.known.form is not first.known.form for f in fields):
        return Pieces(sum(len(f.rows) for f in fields), tuple((yield from read_fields(fields))))
    return (yield from _leaves(fields, {}))


@dataclass(frozen=True, slots=True, eq=False)
class _Joined:
    """A field of several files as one of a single file.

    Attributes
    ----------
    known : Prepared
        With the pages of all files.
    file : SourceFile
        Stands for the files: always the same, as what is compiled for a column belongs to its file.
    memory : (nbytes,) uint8 or None
        All their bytes; None: they are copied at each read.
    maps : dict of int to weak reference to (nbytes,) uint8
        The maps that the bytes were copied from, by the number of the file: others, if a file has changed since. Weak,
        as a process may have only so many maps.
    """

    known: Prepared
    file: SourceFile
    memory: Memory | None = None
    maps: dict[int, ref[Memory]] = attribute(default_factory=dict)


def _joined(fields: Sequence[FieldRead], maps: dict[int, Memory]) -> Read[_Joined | None]:
    """The field in all these files as in one; None if each file is read by itself.

    Bytes are kept where most of them are wanted, otherwise from the second read of the same files on.
    """
    cache, first = _cache_of(fields), fields[0].known
    if cache is None:
        return None
    found: _Joined | None = None
    is_final = False
    known = cache.find(_key(fields))
    if known is not None:
        _, found, is_final = known
        if is_final and found is not None and found.memory is not None and _has_changed(fields, found, maps):
            found, is_final = None, False
    if not is_final:
        is_final = known is not None or _are_most(fields)
        if is_final:
            found = yield from _with_bytes(fields, found or _made(fields), cache)
        elif not first.leaves:
            found = _made(fields)
        _keep(fields, found, is_final)
    # Of large columns, only few rows are copied.
    if found is None or found.memory is not None or _is_little(fields, sum(f.nbytes for f in fields)):
        return found
    return None


def _are_most(fields: Sequence[FieldRead]) -> bool:
    """Whether more than half of all rows are wanted."""
    return 2 * sum(len(f.rows) for f in fields) > sum(f.rows.num_rows for f in fields)


def _made(fields: Sequence[FieldRead]) -> _Joined | None:
    """The columns of all files as those of one."""
    first = fields[0].known
    if any(f.known.form is not first.form for f in fields):
        return None
    # Files of 2.0 have no form, and share the field itself.
    if first.form is None and any(f.known.field is not first.field for f in fields):
        return None
    several, files = [f.known.columns for f in fields], [f.source for f in fields]
    columns = joined_columns(first.field, several, files)
    return None if columns is None else _Joined(replace(first, columns=columns), stand_in(files))


def _with_bytes(fields: Sequence[FieldRead], found: _Joined | None, cache: ByteCache) -> Read[_Joined | None]:
    """The columns with their bytes if these are few; since 2.1, only columns whose pages are read together."""
    files, columns = [f.source for f in fields], {} if found is None else dict(found.known.columns)
    for leaf in fields[0].known.leaves:
        number = leaf.chain[-1].id
        if number in columns and not are_one_group(columns[number], leaf.chain):
            del columns[number]
    stored = sum(column.nbytes for column in columns.values())
    is_cheap = all(file.store.traits.is_mapped or file.size <= TAIL_BYTES for file in files)
    if found is not None and is_cheap and 0 < stored <= _MOST_KEPT and _is_little(fields, stored):
        kept = yield from kept_columns(columns, files, cache)
        known = replace(found.known, columns=kept.columns)
        maps = {number: ref(memory) for number, memory in kept.maps.items()}
        return _Joined(known, stand_in(files, kept.memory), kept.memory, maps)
    return None if fields[0].known.leaves else found


def _has_changed(fields: Sequence[FieldRead], found: _Joined, maps: dict[int, Memory]) -> bool:
    """Whether a file has another map than the one its bytes were copied from: one that has changed is mapped anew."""
    for number, memory in found.maps.items():
        source = fields[number].source
        present = maps.get(id(source))
        if present is None:
            present = maps[id(source)] = source.store.get(source.path)
        if present is not memory():
            return True
    return False


def _is_little(fields: Sequence[FieldRead], nbytes: float) -> bool:
    return nbytes <= _MOST_COPIED * len(fields) * len(fields[0].known.columns)


def _read_joined(fields: Sequence[FieldRead], joined: _Joined) -> Read[Block]:
    first, known, file, memory = fields[0], joined.known, joined.file, joined.memory
    files, rows = [f.source for f in fields], rows_of_all([f.rows for f in fields])
    if known.leaves and memory is not None:
        found = {}
        for leaf in known.leaves:
            column = known.columns.get(leaf.chain[-1].id)
            if column is not None:
                pages = JoinedPages(column, 0, column.num_pages)
                page = served(read_joined(pages, leaf.chain, rows, file, first.limits), memory)
                found[leaf.chain[-1].id] = finished(page, leaf.chain)
        return (yield from _leaves(fields, found))
    read = FieldRead(first.asked, known, _none_after, file, rows, first.limits).alone()
    return (yield from copied(read, files)) if memory is None else served(read, memory)


def _leaves(fields: Sequence[FieldRead], found: Mapping[int, Block]) -> Read[Block]:
    """The leaves of a field of files of 2.1 and later; those that are not found already are read."""
    leaves = fields[0].known.leaves
    left = [leaf for leaf in leaves if leaf.chain[-1].id not in found]
    read = iter((yield from gather([_leaf_in_turn(fields, leaf) for leaf in left])) if left else ())
    blocks = [found[number] if (number := leaf.chain[-1].id) in found else next(read) for leaf in leaves]
    if len(blocks) == 1:
        return blocks[0]
    differ = first_disagreement([leaf.chain for leaf in leaves], blocks)
    if differ is not None:
        raise _disagreement(leaves, differ, f"in one of {len(fields)} files")
    parts = zip((leaf.part for leaf in leaves), blocks, strict=True)
    return Leaves(sum(len(f.rows) for f in fields), tuple(parts))


def _none_after(_: Column) -> None:
    """Old strings, which have two columns, are read file by file."""


def _cache_of(fields: Sequence[FieldRead]) -> ByteCache | None:
    memory = fields[0].known.column.memory
    return None if memory is None else memory.cache


def _keep(fields: Sequence[FieldRead], joined: _Joined | None, is_final: bool) -> None:
    """Keep joined columns for the next read of the same files; None: they are read one by one."""
    cache = _cache_of(fields)
    if cache is not None:
        nbytes = 0 if joined is None or joined.memory is None else joined.memory.nbytes
        # The ids in the key are those of other objects once these are gone.
        kept = [f.known for f in fields], joined, is_final
        cache.keep(_key(fields), kept, 1000 + 300 * len(fields) + nbytes)


def _key(fields: Sequence[FieldRead]) -> tuple[object, ...]:
    return ("joined columns", *(id(f.known) for f in fields))


def _leaf_in_turn(fields: Sequence[FieldRead], leaf: Leaf) -> Read[Block]:
    number = leaf.chain[-1].id
    several = [LeafRows(f.known.columns[number], f.source, f.rows) for f in fields]
    return read_leaves(leaf.chain, several, fields[0].limits)


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
    grouped = {index for group in groups for index in group}
    others = [index for index in range(len(fields)) if index not in grouped]
    reads = [
        *(_read_batch([fields[index] for index in group]) for group in groups),
        *(_read_alone(fields[index]) for index in others),
    ]
    read = yield from gather(reads)
    for indices, blocks in zip([*groups, *([index] for index in others)], read, strict=True):
        for index, block in zip(indices, blocks, strict=False):
            found[index] = block
    left = [index for index, block in enumerate(found) if block is None]
    if left:
        again = yield from gather([fields[index].alone() for index in left])
        for index, block in zip(left, again, strict=True):
            found[index] = block
    return [block for block in found if block is not None]


def _read_batch(group: Sequence[FieldRead]) -> Read[list[Block]]:
    """Read several fields of one batch key; return an empty list if they must be read one by one."""
    pages = [SmallPage(f.known.chain, f.known.column.page(0), f.source, f.rows) for f in group]
    try:
        return (yield from read_small(pages, group[0].limits))
    except LanceError:
        return []


def _read_alone(field: FieldRead) -> Read[list[Block]]:
    return [(yield from field.alone())]


def _groups(fields: Sequence[FieldRead]) -> Iterator[list[int]]:
    """Group fields to be read together, by number; at most ``MOST_BYTES`` in a group."""
    batches: dict[int, list[int]] = {}
    for index, one in enumerate(fields):
        if one.known.batch_key is not None:
            batches.setdefault(id(one.known.batch_key), []).append(index)
    for indices in batches.values():
        if len(indices) < _FEW:
            continue
        group: list[int] = []
        nbytes = 0
        for index in indices:
            group.append(index)
            nbytes += sum(fields[index].known.column.sizes.tolist())
            if nbytes >= MOST_BYTES:
                yield group
                group, nbytes = [], 0
        if group:
            yield group
