"""Fields of several 2.x files, decoded one file after the other.

The columns of small files are joined to one (``encodings.several_files``), so that many files cost the steps of one.
What cannot be joined is read file by file; so is everything once more after an error, which then names column and page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field as attribute
from dataclasses import replace
from itertools import chain
from weakref import ref

from lancecy.encodings.arrow.agreement import first_disagreement
from lancecy.encodings.model.block import Block, Leaves, Pieces
from lancecy.encodings.model.pages import Column
from lancecy.encodings.several_files import copied, kept_columns, rows_of_all, stand_in
from lancecy.encodings.v20.pages import served
from lancecy.encodings.v21.joined_pages import JoinedPages, page_groups, read_joined
from lancecy.encodings.v21.leaf import LeafRows, joined_block, read_leaf, read_leaves
from lancecy.encodings.v21.repdef import rows_per_value
from lancecy.errors import LanceError
from lancecy.file.tail import TAIL_BYTES
from lancecy.file.v2.columns import FileColumns
from lancecy.file.v2.fields import Leaf
from lancecy.file.v2.parsed_together import JoinedField, join_fields, parse_together
from lancecy.file.v2.values import FieldRead, disagreement, few_rows, read_fields
from lancecy.limits import Limits
from lancecy.records import dataclass
from lancecy.rows import RowSelection
from lancecy.schema import Field
from lancecy.store.base import Memory
from lancecy.store.cache import ByteCache
from lancecy.store.reads import Read, SourceFile, gather

__all__ = ["SeveralFiles", "read_in_turn"]

_MANY_FIELDS, _FEW_FILES = 8, 16
"""Fewest fields, and for small pages most files, that are decoded together across fields."""
_MANY = 16
"""Fewest files of which all bytes of a column are copied for a few rows."""
_SMALL_COLUMN = 64 << 10
"""Bytes of a column of a mapped file that are copied in less time than its rows are found by themselves."""
_MOST_KEPT = 4 << 20
"""Most bytes of a field of several files that are kept in one memory."""
_MOST_COPIED = 256 << 10
"""Most bytes of a column of a file, on average, that are copied together with others before they are decoded."""
_MOST_COPIED_CHUNKS = 32 << 10
"""The same for files of 2.1 and later whose bytes are not kept: their chunks are found in less time than more are copied."""


@dataclass(frozen=True, slots=True, eq=False)
class SeveralFiles:
    """Rows of fields in several files.

    Attributes
    ----------
    fields : sequence of Field
    files : sequence of FileColumns
        At least one. They can tell the columns of the fields (``FileColumns.can_tell``).
    rows : sequence of RowSelection
        Of each file: ascending, without duplicates, at least one.
    maps : dict of int to (nbytes,) uint8
        The present maps of files whose bytes are kept, by the id of their ``SourceFile``, as far as they are known. Each file is
        looked at once for all fields.
    """

    fields: Sequence[Field]
    files: Sequence[FileColumns]
    rows: Sequence[RowSelection]
    maps: dict[int, Memory] = attribute(default_factory=dict)
    _joined: dict[Field, JoinedField | None] = attribute(default_factory=dict)

    @property
    def sources(self) -> list[SourceFile]:
        """The files."""
        return [file.source for file in self.files]

    def joined(self, field: Field) -> JoinedField | None:
        """A field of all files as one of a single file, None if they are read one by one; worked out for all fields at once."""
        if field not in self._joined:
            joined = join_fields(self.files, self.fields)
            self._joined.update(zip(self.fields, joined, strict=True))
        return self._joined[field]

    def each(self, fields: Sequence[Field]) -> list[list[FieldRead]]:
        """Reads of fields of each file, one list for each file.

        Raises
        ------
        FormatError, LimitError, UnsupportedError
            The metadata is damaged.
        """
        # If one field cannot be joined, others often cannot either: one pass parses all of them.
        parse_together(self.files, self.fields)
        pairs = list(zip(self.files, self.rows, strict=True))
        return [
            [
                FieldRead(field, known, file.after, file.source, rows, file.limits)
                for field in fields
                if (known := file.known(field)) is not None
            ]
            for file, rows in pairs
        ]


def read_in_turn(several: SeveralFiles) -> Read[list[Block]]:
    """Decode the rows of each field, one file after the other.

    Raises
    ------
    FormatError, LimitError, UnsupportedError
        The message may name no file.
    """
    if len(several.files) == 1:
        [reads] = several.each(several.fields)
        return (yield from read_fields(reads))
    found = several.each(several.fields) if _has_many_fields(several) else []
    across = _across_fields(found)
    others = [number for number in range(len(several.fields)) if number not in across]
    works = [_by_file([mine[number] for mine in found for number in across], len(across))] if across else []
    works += [_by_field(several, others)] if others else []
    blocks = list(chain.from_iterable((yield from gather(works))))
    by_number = dict(zip([*across, *others], blocks, strict=True))
    return [by_number[number] for number in range(len(several.fields))]


def _has_many_fields(several: SeveralFiles) -> bool:
    """Whether fields of a file may be read together in fewer steps than joined files take, one for each field."""
    num_fields, num_files = len(several.fields), len(several.files)
    return num_fields >= _MANY_FIELDS and num_files <= max(num_fields, _FEW_FILES) and not _are_small(several)


def _across_fields(found: Sequence[Sequence[FieldRead]]) -> list[int]:
    """Numbers of fields that are read together with others of their file, not with the same field of other files."""
    if not found:
        return []
    if len(found) <= _FEW_FILES and all(read.known.batch_key is not None for mine in found for read in mine):
        return list(range(len(found[0])))
    parts = [part for group in few_rows(found[0]) for part in group.parts]
    return sorted({number for number, _ in parts}) if len(parts) >= _MANY_FIELDS else []


def _by_file(reads: Sequence[FieldRead], num_fields: int) -> Read[list[Block]]:
    """So many fields of one file after the other; fields are read together with others of their file."""
    blocks = yield from read_fields(reads)
    each = [blocks[number::num_fields] for number in range(num_fields)]
    return [Pieces(sum(block.length for block in mine), tuple(mine)) for mine in each]


def _by_field(several: SeveralFiles, numbers: Sequence[int]) -> Read[list[Block]]:
    """Fields by their numbers, each read together in all files."""
    some = replace(several, fields=[several.fields[number] for number in numbers])
    joined = yield from _joined(some)
    pairs = zip(some.fields, joined, strict=True)
    return (yield from gather([_rows_of(some, field, one) for field, one in pairs]))


def _rows_of(several: SeveralFiles, field: Field, joined: _Joined | None) -> Read[Block]:
    """The rows of a field."""
    if joined is not None:
        try:
            return (yield from _read_joined(several, field, joined))
        except LanceError:
            # Not again; and one by one, so that an error names column and page.
            _keep(several, field, None, is_final=True)
    reads = [read for mine in several.each([field]) for read in mine]
    first = reads[0].known
    if first.form is None or any(read.known.form is not first.form for read in reads):
        return Pieces(sum(map(len, several.rows)), tuple((yield from read_fields(reads))))
    return (yield from _leaves(several, first.leaves, reads))


@dataclass(frozen=True, slots=True, eq=False)
class _Joined:
    """A field of several files as one of a single file.

    Attributes
    ----------
    field : JoinedField
    file : SourceFile
        Stands for the files: always the same, as what is compiled for a column belongs to its file.
    memory : (nbytes,) uint8 or None
        All their bytes; None: they are copied at each read.
    maps : dict of int to weak reference to (nbytes,) uint8
        The maps that the bytes were copied from, by the number of the file: others, if a file has changed since. Weak,
        as a process may have only so many maps.
    """

    field: JoinedField
    file: SourceFile
    memory: Memory | None = None
    maps: dict[int, ref[Memory]] = attribute(default_factory=dict)

    def stored_bytes(self, rows: Sequence[RowSelection]) -> float:
        """Stored bytes of some rows of each file, estimated."""
        shares = (len(mine) / max(1, mine.num_rows) for mine in rows)
        return float(sum(n * share for n, share in zip(self.field.file_bytes.tolist(), shares, strict=True)))


def _joined(several: SeveralFiles) -> Read[list[_Joined | None]]:
    """Each field in all these files as in one; None if each file is read by itself.

    Bytes are kept of small files, and where most of them are wanted, otherwise from the second read of the same files on.
    """
    cache = several.files[0].cache
    if cache is None:
        return [None] * len(several.fields)
    found: dict[Field, _Joined | None] = {}
    unread: list[Field] = []
    for field in several.fields:
        known = cache.find(_key(several, field))
        joined, is_final = (None, False) if known is None else known[1:]
        if is_final and joined is not None and joined.memory is not None and _has_changed(several, joined):
            joined, is_final = None, False
        if not is_final:
            is_final = known is not None or _are_most(several.rows) or _are_small(several)
            if joined is None and (is_final or several.files[0].container.version == (2, 0)):
                joined = _made(several, field)
            if is_final:
                unread.append(field)
            else:
                _keep(several, field, joined, is_final)
        found[field] = joined
    if unread:
        with_bytes = yield from _with_bytes(several, [found[field] for field in unread], cache)
        for field, joined in zip(unread, with_bytes, strict=True):
            found[field] = joined
            _keep(several, field, joined, is_final=True)
    return [found[field] if _is_usable(several, found[field]) else None for field in several.fields]


def _is_usable(several: SeveralFiles, found: _Joined | None) -> bool:
    """Whether a joined field is read in less time than the files by themselves."""
    if found is None or found.memory is not None:
        return True
    # Each file of 2.1 and later remembers where its chunks are, and finds a few rows sooner.
    if found.field.known.leaves and not _are_most(several.rows):
        return False
    # Of large columns, only few rows are copied.
    return _is_little(found, found.stored_bytes(several.rows))


def _are_most(several: Sequence[RowSelection]) -> bool:
    """Whether more than half of all rows are wanted."""
    return 2 * sum(map(len, several)) > sum(rows.num_rows for rows in several)


def _are_small(several: SeveralFiles) -> bool:
    """Whether there are many small files, so that all bytes of a column are copied in less time than some rows are found."""
    if len(several.files) < _MANY:
        return False
    sources = several.sources
    are_mapped = all(source.store.traits.is_mapped for source in sources)
    each = _SMALL_COLUMN * len(several.fields) if are_mapped else TAIL_BYTES
    return sum(source.size for source in sources) <= each * len(sources)


def _made(several: SeveralFiles, field: Field) -> _Joined | None:
    """The columns of all files as those of one."""
    found = several.joined(field)
    return None if found is None else _Joined(found, stand_in(several.sources))


def _with_bytes(
    several: SeveralFiles, found: Sequence[_Joined | None], cache: ByteCache
) -> Read[list[_Joined | None]]:
    """The fields, with the bytes of those that have few; all are read in one round."""
    files = several.sources
    is_cheap = all(file.store.traits.is_mapped or file.size <= TAIL_BYTES for file in files)

    def is_small(columns: Mapping[int, Column]) -> bool:
        stored = sum(column.nbytes for column in columns.values())
        return 0 < stored <= min(_MOST_KEPT, _MOST_COPIED * len(files) * len(columns))

    small = {
        number: one.field
        for number, one in enumerate(found)
        if is_cheap and one is not None and is_small(one.field.known.columns)
    }
    with_bytes = list(found)
    if small:
        kept = yield from kept_columns([field.known.columns for field in small.values()], files, cache)
        for (number, field), own in zip(small.items(), kept, strict=True):
            maps = {file: ref(memory) for file, memory in own.maps.items()}
            known = replace(field.known, columns=own.columns)
            with_bytes[number] = _Joined(
                replace(field, known=known), stand_in(files, own.memory), own.memory, maps
            )
    return with_bytes


def _has_changed(several: SeveralFiles, found: _Joined) -> bool:
    """Whether a file has another map than the one its bytes were copied from: one that has changed is mapped anew."""
    for number, memory in found.maps.items():
        source = several.files[number].source
        present = several.maps.get(id(source))
        if present is None:
            present = several.maps[id(source)] = source.store.get(source.path)
        if present is not memory():
            return True
    return False


def _is_little(found: _Joined, nbytes: float) -> bool:
    known = found.field.known
    most = _MOST_COPIED_CHUNKS if known.leaves else _MOST_COPIED
    return nbytes <= most * found.field.file_bytes.size * len(known.columns)


def _read_joined(several: SeveralFiles, field: Field, joined: _Joined) -> Read[Block]:
    known, file, memory = joined.field.known, joined.file, joined.memory
    rows, limits = rows_of_all(several.rows), several.files[0].limits
    if len(known.leaves) == 1 and memory is not None:
        return served(_leaf(known.leaves[0].chain, known.column, rows, file, limits), memory)
    whole = FieldRead(field, known, _none_after, file, rows, limits).alone()
    return (yield from copied(whole, several.sources)) if memory is None else served(whole, memory)


def _leaf(
    chain: tuple[Field, ...], column: Column, rows: RowSelection, file: SourceFile, limits: Limits
) -> Read[Block]:
    """A leaf whose bytes are kept: all pages are read together if they have one encoding."""
    groups = page_groups(column, chain, rows) if rows_per_value(chain) == 1 else None
    if groups is None or groups.size > 2:
        return (yield from read_leaf(chain, column, file, rows, limits))
    pages = JoinedPages(column, 0, column.num_pages)
    return joined_block((yield from read_joined(pages, chain, rows, file, limits)), chain)


def _leaves(several: SeveralFiles, leaves: Sequence[Leaf], reads: Sequence[FieldRead]) -> Read[Block]:
    """The leaves of a field of files of 2.1 and later."""
    blocks = yield from gather([_leaf_in_turn(reads, leaf) for leaf in leaves])
    if len(blocks) == 1:
        return blocks[0]
    differ = first_disagreement([leaf.chain for leaf in leaves], blocks)
    if differ is not None:
        raise disagreement(leaves, differ, f"in one of {len(several.files)} files")
    parts = zip((leaf.part for leaf in leaves), blocks, strict=True)
    return Leaves(sum(map(len, several.rows)), tuple(parts))


def _leaf_in_turn(reads: Sequence[FieldRead], leaf: Leaf) -> Read[Block]:
    number = leaf.chain[-1].id
    rows = [LeafRows(read.known.columns[number], read.source, read.rows) for read in reads]
    return read_leaves(leaf.chain, rows, reads[0].limits)


def _none_after(_: Column) -> None:
    """Old strings, which have two columns, are read file by file."""


def _keep(several: SeveralFiles, field: Field, joined: _Joined | None, is_final: bool) -> None:
    """Keep joined columns for the next read of the same files; None: they are read one by one."""
    cache = several.files[0].cache
    if cache is not None:
        nbytes = 0 if joined is None or joined.memory is None else joined.memory.nbytes
        # The ids in the key are those of other objects once these are gone.
        kept = list(several.files), joined, is_final
        nbytes += sum(300 + file.container.nbytes for file in several.files)
        cache.keep(_key(several, field), kept, 1000 + nbytes)


def _key(several: SeveralFiles, field: Field) -> tuple[object, ...]:
    return ("joined columns", field, *map(id, several.files))
