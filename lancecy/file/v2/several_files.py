"""Fields of several 2.x files, decoded one file after the other.

The columns of small files are joined to one (``encodings.several_files``), so that many files cost the steps of one.
What cannot be joined is read file by file; so is everything once more after an error, which then names column and page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field as attribute
from dataclasses import replace
from typing import TypeAlias
from weakref import ref

from lancecy.encodings.arrow.agreement import first_disagreement
from lancecy.encodings.joined_columns import MOST_PAGES, ColumnPages, LeafPages, read_columns
from lancecy.encodings.model.block import Block, Pieces
from lancecy.encodings.model.pages import Column
from lancecy.encodings.several_files import (
    begins_of,
    copied,
    kept_columns,
    may_be_joined,
    rows_of_all,
    stand_in,
)
from lancecy.encodings.v20.pages import served
from lancecy.encodings.v21.joined_pages import JoinedPages, page_groups, read_joined
from lancecy.encodings.v21.leaf import LeafRows, joined_block, read_leaf, read_leaves
from lancecy.encodings.v21.repdef import rows_per_value
from lancecy.errors import LanceError
from lancecy.file.tail import TAIL_BYTES
from lancecy.file.v2.columns import FileColumns
from lancecy.file.v2.fields import Leaf
from lancecy.file.v2.parsed_together import JoinedField, bounded, join_fields, parse_together
from lancecy.file.v2.values import (
    FEW_BYTES,
    FEW_ROWS,
    FieldRead,
    Prepared,
    disagreement,
    guarded,
    read_fields,
)
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
_FEW_OF_FILE = 8
"""Most rows of a file, on average, of which those of all files are read together: where more are wanted, the next read is often one of the same files."""
_MANY_LEAVES = 12
"""Fewest leaves of a file that are read together with each other only."""
_TINY_COLUMN = 1 << 10
"""Bytes of a column of a file that are copied in less time than its rows are found."""
_FEW_PAGES = 12
"""Fewest pages that are read together: fewer are read in less time by themselves."""
_MANY = 16
"""Fewest files of which all bytes of a column are copied for a few rows."""
_SMALL_COLUMN = 64 << 10
"""Bytes of a column of a mapped file that are copied in less time than its rows are found by themselves."""
_ROW_BYTES = 4096
"""Bytes of a column that are copied in less time than one row of it is found."""
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
    is_little = _is_little_of_many(several)
    found = several.each(several.fields) if is_little or len(several.fields) >= _MANY_FIELDS else []
    if found and (_are_small_pages(found) or (is_little and _are_wide(found))):
        return (yield from _by_file(found))
    parts = (yield from _few_rows(several, found)) if is_little else {}
    others = [field for number, field in enumerate(several.fields) if number not in parts]
    joined = (
        dict(zip(others, (yield from _joined(replace(several, fields=others))), strict=True))
        if others
        else {}
    )
    fields = [
        _completed([mine[number] for mine in found], parts[number])
        if number in parts
        else _rows_of(several, field, joined[field])
        for number, field in enumerate(several.fields)
    ]
    return (yield from gather(fields))


def _are_small_pages(found: Sequence[Sequence[FieldRead]]) -> bool:
    """Whether all fields of few files are small pages, which are decoded together across fields."""
    is_wide = len(found) <= _FEW_FILES and len(found[0]) >= _MANY_FIELDS
    return is_wide and all(read.known.batch_key is not None for mine in found for read in mine)


def _are_wide(found: Sequence[Sequence[FieldRead]]) -> bool:
    """Whether so many leaves of a file can be read together that nothing is gained by reading those of others with them."""
    keys = Counter(id(key) for read in found[0] for _, key, _ in read.known.joinable(read.rows))
    return max(keys.values(), default=0) >= _MANY_LEAVES


def _by_file(found: Sequence[Sequence[FieldRead]]) -> Read[list[Block]]:
    """The fields of one file after the other, read together with others of their file."""
    num_fields = len(found[0])
    blocks = yield from read_fields([read for mine in found for read in mine])
    each = [blocks[number::num_fields] for number in range(num_fields)]
    return [Pieces(sum(block.length for block in mine), tuple(mine)) for mine in each]


# -- few rows --------------------------------------------------------------------------


def _is_little_of_many(several: SeveralFiles) -> bool:
    """Whether it takes longer to find the rows than to decode them, in mapped files."""
    num_rows = sum(map(len, several.rows))
    if num_rows > min(FEW_ROWS, _FEW_OF_FILE * len(several.rows)) or _are_most(several.rows):
        return False
    if not may_be_joined(several.sources):
        return False
    # Of very many tiny files, columns are copied whole, and kept for the next read of the same files.
    most = _TINY_COLUMN * len(several.sources) * len(several.fields)
    is_tiny = len(several.sources) > MOST_PAGES and sum(source.size for source in several.sources) <= most
    return not is_tiny and all(source.store.traits.is_mapped for source in several.sources)


def _few_rows(
    several: SeveralFiles, found: Sequence[Sequence[FieldRead]]
) -> Read[dict[int, dict[int, _Pieces]]]:
    """The leaves whose pages can be read together, whatever their field and file; by number of the field and of its part."""
    groups: dict[int, list[_Part]] = {}
    files, limits = several.sources, found[0][0].limits
    begins = begins_of(len(files))
    for number, each in enumerate(zip(*found, strict=True)):
        for key, part in _joinable(number, each, several.rows, begins):
            groups.setdefault(id(key), []).append(part)
    whole = stand_in(files)
    wanted = [mine for group in groups.values() for mine in _cut(group)]
    reads = [
        guarded(copied(read_columns([part.pages for part in mine], whole, limits), files)) for mine in wanted
    ]
    parts: dict[int, dict[int, _Pieces]] = {}
    for mine, blocks in zip(wanted, (yield from gather(reads)), strict=True):
        for part, block in zip(mine, blocks, strict=False):
            known = parts.setdefault(part.field, {}).setdefault(part.number, {})
            if len(part.files) == len(files):
                known[None] = block
            else:
                known.update(zip(part.files, part.pages.by_file(block), strict=True))
    return parts


_Pieces: TypeAlias = dict[int | None, Block]
"""The rows of some files, by number; or under None those of all."""


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Rows of a part of a field, in some of the files.

    Attributes
    ----------
    field, number : int
        Numbers of the field and of its ``Prepared.parts``.
    files : list of int
        Numbers of the files.
    pages : LeafPages
    """

    field: int
    number: int
    files: list[int]
    pages: LeafPages


def _joinable(
    number: int, reads: Sequence[FieldRead], rows: Sequence[RowSelection], begins: Sequence[int]
) -> Iterator[tuple[object, _Part]]:
    """The parts of a field whose pages in some files can be read together, by their key.

    The same ``rows`` and ``begins`` for all fields: those of all files.
    """
    found: dict[tuple[int, int], tuple[object, list[int], list[ColumnPages]]] = {}
    for file, (read, wanted) in enumerate(zip(reads, rows, strict=True)):
        most = FEW_BYTES * wanted.num_rows // len(wanted)
        for part, key, pages in read.known.joinable(wanted):
            if pages.column.nbytes <= most and not pages.keep_codes:
                _, files, mine = found.setdefault((part, id(key)), (key, [], []))
                files.append(file)
                mine.append(pages)
    for (part, _), (key, files, mine) in found.items():
        if len(files) == len(reads):
            yield key, _Part(number, part, files, LeafPages(mine, rows, begins))
        else:
            some = [rows[file] for file in files], [begins[file] for file in files]
            yield key, _Part(number, part, files, LeafPages(mine, *some))


def _cut(group: Sequence[_Part]) -> Iterator[list[_Part]]:
    """Parts of at most ``MOST_PAGES`` pages, unless it is one part; none if they have few pages in all."""
    sizes = [sum([pages.last - pages.first for pages in part.pages.pages]) for part in group]
    return bounded(group, sizes, MOST_PAGES) if sum(sizes) >= _FEW_PAGES else iter(())


def _completed(reads: Sequence[FieldRead], parts: Mapping[int, _Pieces]) -> Read[Block]:
    """A field, from its parts that are read; what is missing is read file by file."""
    known, num_rows = reads[0].known, sum(len(read.rows) for read in reads)
    if any(len(read.known.parts) != len(known.parts) for read in reads):
        return (yield from _each(reads))
    wanted = [
        (part, file)
        for part in range(len(known.parts))
        for file in range(len(reads))
        if parts.get(part, {}).keys().isdisjoint((None, file))
    ]
    alone = yield from gather([reads[file].part(part) for part, file in wanted])
    missing = dict(zip(wanted, alone, strict=True))
    blocks: list[Block] = []
    for part in range(len(known.parts)):
        mine = parts.get(part, {})
        if None in mine:
            blocks.append(mine[None])
        else:
            each = (mine[n] if n in mine else missing[part, n] for n in range(len(reads)))
            blocks.append(Pieces(num_rows, tuple(each)))
    return _agreed(known, blocks, len(reads), num_rows)


# -- fields by themselves ---------------------------------------------------------------


def _rows_of(several: SeveralFiles, field: Field, joined: _Joined | None) -> Read[Block]:
    """The rows of a field."""
    if joined is not None:
        try:
            return (yield from _read_joined(several, field, joined))
        except LanceError:
            # Not again; and one by one, so that an error names column and page.
            _keep(several, field, None, is_final=True)
    reads = [read for mine in several.each([field]) for read in mine]
    return (yield from _each(reads))


def _each(reads: Sequence[FieldRead]) -> Read[Block]:
    """The rows of a field in each file; leaves are read together, where all files have the same."""
    known = reads[0].known
    if known.form is None or any(read.known.form is not known.form for read in reads):
        return Pieces(sum(len(read.rows) for read in reads), tuple((yield from read_fields(reads))))
    blocks = yield from gather([_leaf_in_turn(reads, leaf) for leaf in known.leaves])
    return _agreed(known, blocks, len(reads), sum(len(read.rows) for read in reads))


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
    wanted = _ROW_BYTES * (sum(map(len, several.rows)) // len(sources) + 1)
    each = min(_SMALL_COLUMN, wanted) * len(several.fields) if are_mapped else TAIL_BYTES
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


def _agreed(known: Prepared, blocks: Sequence[Block], num_files: int, num_rows: int) -> Block:
    """The field, from all its parts, after checking that they agree."""
    if len(known.leaves) > 1:  # structs of 2.0 have no nulls
        differ = first_disagreement([leaf.chain for leaf in known.leaves], blocks)
        if differ is not None:
            raise disagreement(known.leaves, differ, f"in one of {num_files} files")
    return known.combined(blocks, num_rows)


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
