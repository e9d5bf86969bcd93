"""The files, rows and deletions of one fragment, as a scan reads them.

A fragment's columns may be spread over several data files, some of which hold only some children of a struct;
fields that no file holds read as null. :class:`FragmentFiles` hides that: it reads pruned fields under a row
selection and returns Arrow columns.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.encodings.arrow.assemble import assemble
from lancecy.encodings.arrow.columns import ArrowArray, chunks_of
from lancecy.encodings.arrow.nulls import null_array
from lancecy.encodings.arrow.to_arrow import to_arrow
from lancecy.encodings.blocks.null_only import null_stub
from lancecy.encodings.model.block import Block
from lancecy.errors import LanceError
from lancecy.file.v2.columns import FileColumns
from lancecy.file.v2.parsed_together import join_fields, parse_together
from lancecy.file.v2.several_files import SeveralFiles, read_in_turn
from lancecy.file.v2.stats import null_stats
from lancecy.records import dataclass
from lancecy.rows import RowSelection
from lancecy.scanning.parts import Part, fetcher, open_parts, open_several, physical_rows
from lancecy.schema import Field
from lancecy.session import Session
from lancecy.stats import ColumnStats, StatsTable
from lancecy.store.reads import Read, SourceFile, gather, run
from lancecy.table.manifest import Fragment
from lancecy.table.rows.deletion import DeletionVector
from lancecy.table.snapshot import Snapshot

__all__ = ["FragmentFiles", "JoinedStats", "Part", "joined_stats", "parse_metadata", "read_together"]

Int64 = NDArray[np.int64]
Path = tuple[str, ...]

_MAX_STATS = 8
_FEW_PAGES = 64
"""Most pages with bounds of a file whose statistics are kept, and what they say about a filter."""


@dataclass(eq=False)
class FragmentFiles:
    """The opened files of one fragment and its living rows.

    Attributes
    ----------
    snapshot : Snapshot
    fragment : Fragment
    parts : tuple of Part
    num_rows : int
        Physical rows.
    deleted : DeletionVector or None
    mapped : bool
        Whether every file is memory-mapped, so that reading costs no request.
    ruled : dict of int to (projection, candidates)
        What statistics say about the filters of projections, by the id of the latter.
    joined : dict
        Statistics of this and the following fragments; see :func:`joined_stats`.
    """

    snapshot: Snapshot = field(repr=False)
    fragment: Fragment
    parts: tuple[Part, ...]
    num_rows: int
    deleted: DeletionVector | None
    mapped: bool
    ruled: dict[int, tuple[object, Any]] = field(default_factory=dict, repr=False)
    _sizes: dict[Field, tuple[int, int]] = field(default_factory=dict, repr=False)
    _stats: dict[tuple[Path, ...], list[tuple[Int64, StatsTable]]] = field(default_factory=dict, repr=False)
    joined: dict[Hashable, JoinedStats | None] = field(default_factory=dict, repr=False)

    @classmethod
    def open(
        cls, snapshot: Snapshot, fragment: Fragment, session: Session, dictionaries: SourceFile | None = None
    ) -> FragmentFiles:
        """Open the data files and load the deletion vector of a fragment.

        Parameters
        ----------
        dictionaries : SourceFile or None
            The snapshot's dictionary source if all its fragments share it.

        Raises
        ------
        FormatError
            Files disagree with each other or with the manifest about the number of rows.
        MissingFileError
            A file is missing.
        """
        try:
            opened = open_parts(snapshot, fragment, session, dictionaries or snapshot.dictionary_source())
        except LanceError as error:
            raise snapshot.in_fragment(error, fragment)
        return cls._of_parts(snapshot, fragment, opened)

    @classmethod
    def open_several(
        cls, snapshot: Snapshot, fragments: Sequence[Fragment], session: Session, dictionaries: SourceFile
    ) -> list[FragmentFiles]:
        """:meth:`open` for several fragments, whose files are requested together."""
        several = open_several(snapshot, fragments, session, dictionaries)
        if several is None:
            # One by one, so that an error names its fragment.
            return session.map_requests(lambda one: cls.open(snapshot, one, session, dictionaries), fragments)
        pairs = list(zip(fragments, several, strict=True))
        if all(fragment.deletion_file is None for fragment in fragments):
            return [cls._of_parts(snapshot, *pair) for pair in pairs]
        return session.map_requests(lambda pair: cls._of_parts(snapshot, *pair), pairs)

    @classmethod
    def _of_parts(cls, snapshot: Snapshot, fragment: Fragment, opened: tuple[Part, ...]) -> FragmentFiles:
        """Add the deletion vector to the opened files."""
        try:
            num_rows = physical_rows(fragment, opened)
            deleted = snapshot.deletions(fragment, num_rows)
        except LanceError as error:
            raise snapshot.in_fragment(error, fragment)
        mapped = all(p.source.store.traits.is_mapped for p in opened)
        return cls(snapshot, fragment, opened, num_rows, deleted, mapped)

    # -- rows -----------------------------------------------------------------

    @property
    def stored_bytes(self) -> int:
        """Bytes of the data files."""
        return sum(part.source.size for part in self.parts)

    @property
    def live_rows(self) -> int:
        """Rows that are not deleted."""
        return self.num_rows - (len(self.deleted) if self.deleted is not None else 0)

    def live(self, start: int, stop: int) -> RowSelection:
        """Rows from physical offset ``start`` to ``stop`` that are not deleted."""
        return self.living(RowSelection.range(self.num_rows, start, stop))

    def living(self, rows: RowSelection) -> RowSelection:
        """The given rows that are not deleted."""
        if self.deleted is None or len(rows) == 0:
            return rows
        if rows.starts is None or rows.stops is None:
            return rows.minus(self.deleted.offsets)
        return rows.minus(self.deleted.between(int(rows.starts[0]), int(rows.stops[-1])))

    def physical(self, live_offsets: Int64) -> Int64:
        """Physical offsets of live rows, given by their number among the live ones."""
        if self.deleted is None:
            return live_offsets
        gone = self.deleted.offsets.astype(np.int64, copy=False)
        # Live rows before deleted row number i: its offset minus the i deleted before it.
        before = gone - np.arange(gone.size, dtype=np.int64)
        return live_offsets + np.searchsorted(before, live_offsets, side="right")

    @cached_property
    def version(self) -> tuple[int, int]:
        """(major, minor): the highest version of the fragment's files."""
        return max((part.reader.version for part in self.parts), default=(0, 1))

    @cached_property
    def has_legacy(self) -> bool:
        """Whether some file is of version 0.1."""
        return any(part.reader.version < (2, 0) for part in self.parts)

    @property
    def in_chunks(self) -> bool:
        """Whether some file has pages of chunks, as version 2.1 and later write them."""
        return self.version >= (2, 1)

    # -- reading --------------------------------------------------------------

    def read(
        self,
        fields: Sequence[Field],
        rows: RowSelection,
        session: Session,
        tested: Mapping[Field, frozenset[int]] | None = None,
    ) -> list[ArrowArray]:
        """Arrow columns of the given (pruned, top-level) fields for the selected rows.

        Of the fields in ``tested``, only the nulls of these nodes are read: their columns are null stubs
        (``encodings.blocks.null_only``).

        The calling thread reads all columns in lockstep, so that their requests become one round. A caller with
        enough columns or rows for several threads divides them.
        """
        if len(rows) == 0:
            return [null_array(f.arrow_type, 0) for f in fields]
        try:
            return run(self.columns(fields, rows, tested), fetcher(self.parts, session))
        except LanceError as error:
            raise self.snapshot.in_fragment(error, self.fragment)

    @cached_property
    def tells_nulls(self) -> bool:
        """Whether all files store nulls apart from the values."""
        return all(part.reader.nulls is not None for part in self.parts)

    def columns(
        self,
        fields: Sequence[Field],
        rows: RowSelection,
        tested: Mapping[Field, frozenset[int]] | None = None,
    ) -> Read[list[ArrowArray]]:
        """A Read of what :meth:`read` returns, for at least one row."""
        tested = tested or {}
        stubs = [f for f in fields if f in tested]
        values = [f for f in fields if f not in tested]
        reads = [self._values(values, rows), *(self._null_stub(f, tested[f], rows) for f in stubs)]
        if not stubs:
            return (yield from reads[0])
        first, *others = yield from gather(reads)
        columns = dict(zip([*values, *stubs], [*first, *(column for (column,) in others)], strict=True))
        return [columns[f] for f in fields]

    def _null_stub(self, wanted: Field, tested: frozenset[int], rows: RowSelection) -> Read[list[ArrowArray]]:
        pieces: list[tuple[Field, ArrowArray]] = []
        for part in self.parts:
            present = part.held(wanted)
            reader = part.reader.nulls
            if present is None or reader is None:
                continue
            blocks = yield from reader.read_nulls([present], tested, rows)
            held = null_stub(present, tested)
            pieces.append((held, _column(part, blocks[present.id], held)))
        return [assemble(null_stub(wanted, tested), pieces, len(rows))]

    def _values(self, fields: Sequence[Field], rows: RowSelection) -> Read[list[ArrowArray]]:
        held = [[part.held(wanted) for wanted in fields] for part in self.parts]
        found = yield from gather(
            [
                part.reader.read([f for f in mine if f is not None], rows)
                for part, mine in zip(self.parts, held, strict=True)
            ]
        )
        columns = []
        for index, wanted in enumerate(fields):
            pieces = [
                (present, _column(part, blocks[present.id], present))
                for part, mine, blocks in zip(self.parts, held, found, strict=True)
                if (present := mine[index]) is not None
            ]
            columns.append(assemble(wanted, pieces, len(rows)))
        return columns

    def joinable(self, fields: Sequence[Field], rows: RowSelection) -> FileColumns | None:
        """The columns of the only file, if fields can be read with those of other fragments."""
        return self.only_columns(fields) if rows.is_ascending else None

    def only_columns(self, fields: Sequence[Field]) -> FileColumns | None:
        """The columns of the only file, if it holds these fields whole."""
        if len(self.parts) != 1 or any(self.parts[0].held(f) is not f for f in fields):
            return None
        columns = self.parts[0].reader.columns
        return columns if columns is not None and columns.can_tell(fields) else None

    # -- statistics -----------------------------------------------------------

    def page_stats(
        self, fields: Sequence[Field], paths: Sequence[Path], session: Session
    ) -> list[tuple[Int64, StatsTable]]:
        """Statistics of the files that hold the given fields.

        Parameters
        ----------
        fields : sequence of Field
            Top-level fields of the filter, pruned.
        paths : sequence of tuple of str
            Columns whose bounds are wanted.

        Returns
        -------
        list of (page_starts, StatsTable)
            ``page_starts`` is (num_pages + 1,) int64 row offsets; each table describes only the columns of
            its own file, and as all null those that no file has.
        """
        key = tuple(paths)
        found = self._stats.get(key)
        if found is None:
            found = self._read_stats(fields, paths, session)
            # Every filter reads it again.
            if self.has_few_stats(fields):
                if len(self._stats) >= _MAX_STATS:
                    self._stats.clear()
                self._stats[key] = found
        return found

    def has_few_stats(self, fields: Sequence[Field]) -> bool:
        """Whether the statistics of these fields are few, so that what they say is kept: 2.x files have no bounds."""
        if self.has_legacy and fields:
            legacy = [part.reader for part in self.parts if part.reader.version < (2, 0)]
            if any(reader.page_starts(fields[0]).size > _FEW_PAGES for reader in legacy):
                return False
        return self.knows(fields)

    def keep_ruled(self, projection: object, candidates: object) -> None:
        """Keep what statistics say about the filter of a projection, in ``ruled``."""
        if len(self.ruled) >= _MAX_STATS:
            self.ruled.clear()
        self.ruled[id(projection)] = (projection, candidates)

    def _read_stats(
        self, fields: Sequence[Field], paths: Sequence[Path], session: Session
    ) -> list[tuple[Int64, StatsTable]]:
        chains = {path: chain for path in paths if (chain := _chain(fields, path)) is not None}
        missing = [
            p for p, chain in chains.items() if all(part.held(chain[0]) is None for part in self.parts)
        ]
        reads: list[Read[StatsTable]] = []
        for part in self.parts:
            held = {
                path: (top, *chain[1:])
                for path, chain in chains.items()
                # Other members of the same struct may be in another file.
                if chain[-1].id in part.ids and (top := part.held(chain[0])) is not None
            }
            if held:
                reads.append(part.reader.stats(held))
        try:
            found = run(gather(reads), fetcher(self.parts, session))
        except LanceError as error:
            raise self.snapshot.in_fragment(error, self.fragment)
        if missing and not found:
            found = [StatsTable(np.array([self.num_rows]))]
        return [
            (
                np.concatenate(([0], np.cumsum(table.row_counts, dtype=np.int64))),
                StatsTable(table.row_counts, {**_all_null(table, missing), **table.columns}),
            )
            for table in found
        ]

    def located(self, error: LanceError) -> LanceError:
        """The error with the names of the data files, for values that are looked at after they are read."""
        error.within(", ".join(part.source.path for part in self.parts))
        return error.within(f"fragment {self.fragment.id}")

    def prepare(self, fields: Sequence[Field], session: Session) -> None:
        """Load the metadata of these fields if it was too large to load on opening.

        Pages and sizes of these fields are exact from then on; before, sizes are guesses.
        """
        unknown = [f for f in fields if not self.knows([f])]
        if not unknown:
            return
        held = [(part, [h for f in unknown if (h := part.held(f))]) for part in self.parts]
        try:
            reads = [part.reader.prepare(mine) for part, mine in held if mine]
            run(gather(reads), fetcher(self.parts, session))
        except LanceError as error:
            raise self.snapshot.in_fragment(error, self.fragment)

    def knows(self, fields: Sequence[Field]) -> bool:
        """Whether pages and sizes of these fields are known exactly; no IO."""
        unsure = [f for f in fields if f not in self._sizes]
        held = ((part, part.held(wanted)) for part in self.parts for wanted in unsure)
        return all(part.reader.knows(mine) for part, mine in held if mine is not None)

    def stores_dictionary(self, wanted: Field) -> bool:
        """Whether pages of a top-level text store codes and a dictionary; see :meth:`prepare`."""
        held = ((part, part.held(wanted)) for part in self.parts)
        return any(part.reader.stores_dictionary(field) for part, field in held if field is not None)

    def estimated_bytes(self, fields: Sequence[Field]) -> int:
        """Encoded bytes of the fields in this fragment, from the metadata loaded so far; see :meth:`prepare`."""
        return self._field_bytes(fields[0])[0] if len(fields) == 1 else self.sizes(fields)[0]

    def sizes(self, fields: Sequence[Field]) -> tuple[int, int]:
        """:meth:`estimated_bytes`, and bytes of the decoded fields as far as the metadata of pages tell."""
        if any(wanted not in self._sizes for wanted in fields):
            parse_metadata((self,), fields)
        pairs = [self._field_bytes(wanted) for wanted in fields]
        return sum(stored for stored, _ in pairs), sum(decoded for _, decoded in pairs)

    def num_pages(self, fields: Sequence[Field]) -> int:
        """Pages of the fields in all files; of a nested field, pages of its first leaf in each."""
        held = ((part, part.held(wanted)) for part in self.parts for wanted in fields)
        return sum(part.reader.page_starts(f).size - 1 for part, f in held if f is not None)

    def page_edges(self, fields: Sequence[Field]) -> Int64 | None:
        """(num_pages + 1,) int64: first rows of the pages of the largest field, and the number of rows."""
        if not fields:
            return None
        largest = max(fields, key=lambda wanted: self._field_bytes(wanted)[0])
        for part in self.parts:
            held = part.held(largest)
            if held is not None:
                return part.reader.page_starts(held)
        return None

    def _field_bytes(self, wanted: Field) -> tuple[int, int]:
        """Bytes of a field as stored, and decoded as far as the metadata tell."""
        known = self._sizes.get(wanted)
        if known is None:
            present = [(p.reader, held) for p in self.parts if (held := p.held(wanted)) is not None]
            known = (
                sum(reader.column_bytes(held) for reader, held in present),
                sum(reader.decoded_bytes(held) for reader, held in present),
            )
            if self.knows([wanted]):
                self._sizes[wanted] = known
        return known


def parse_metadata(several: Iterable[FragmentFiles], fields: Sequence[Field]) -> None:
    """Parse the metadata of fields in several fragments in one pass, as far as it is held.

    An error is left to the read of its fragment.
    """
    alike: dict[tuple[int, ...], tuple[list[Field], list[FileColumns]]] = {}
    for files in dict.fromkeys(several):
        for part in files.parts:
            columns = part.reader.columns
            if columns is None or all(f in columns.prepared for f in fields):
                continue
            held = [own for f in fields if (own := part.held(f)) is not None]
            alike.setdefault(tuple(map(id, held)), (held, []))[1].append(columns)
    for held, mine in alike.values():
        parse_together(mine, held)


@dataclass(frozen=True, slots=True, eq=False)
class JoinedStats:
    """Statistics of fields in many fragments of one 2.x file each, as those of one file.

    Attributes
    ----------
    table : StatsTable
        Of the pages of all files, one file after the other.
    files : (num_pages,) int64
        Number of the fragment of each page, as they were given.
    decoded_bytes : int
        Bytes of the fields in all files once they are decoded, as far as the metadata of pages tell.
    """

    table: StatsTable
    files: Int64
    decoded_bytes: int


def joined_stats(
    several: Sequence[FragmentFiles], fields: Sequence[Field], paths: Sequence[Path]
) -> JoinedStats | None:
    """What :meth:`FragmentFiles.page_stats` says of these columns of several fragments, found in one pass.

    None if the fragments must be asked one by one: files store the fields in different ways, not all metadata is held, or the
    columns have different or empty pages.
    """
    known = several[0].joined
    key = tuple(fields), tuple(paths), *[files.fragment.id for files in several]
    with suppress(KeyError):
        return known[key]
    found = _joined_stats(several, fields, paths)
    if len(known) >= _MAX_STATS:
        known.clear()
    known[key] = found
    return found


def _joined_stats(
    several: Sequence[FragmentFiles], fields: Sequence[Field], paths: Sequence[Path]
) -> JoinedStats | None:
    columns = [own for files in several if (own := files.only_columns(fields)) is not None]
    if not fields or len(columns) < len(several):
        return None
    known = {
        f: joined.known for f, joined in zip(fields, join_fields(columns, fields), strict=True) if joined
    }
    if len(known) < len(fields):
        return None
    ends = np.cumsum([files.num_rows for files in several])
    chains = {path: chain for path in paths if (chain := _chain(fields, path)) is not None}
    table, is_whole = null_stats(chains, known.get, int(ends[-1]))
    if not is_whole or not table.row_counts.all():
        return None
    starts = np.cumsum(table.row_counts) - table.row_counts
    decoded = sum(max(one.stored_bytes, one.decoded_bytes) for one in known.values())
    return JoinedStats(table, np.searchsorted(ends, starts, side="right"), decoded)


def read_together(
    items: Sequence[tuple[FragmentFiles, RowSelection]], fields: Sequence[Field], session: Session
) -> list[ArrowArray]:
    """:meth:`FragmentFiles.read` of several fragments, by the calling thread; cheap for many small ones.

    Parameters
    ----------
    items : sequence of (FragmentFiles, RowSelection)
    fields : sequence of Field
    session : Session

    Returns
    -------
    list of column
        Per field, the rows of all fragments, in order.
    """
    filled = [item for item in items if len(item[1])]
    if len(filled) < 2:
        return filled[0][0].read(fields, filled[0][1], session) if filled else _no_rows(fields)
    parts = [part for files, _ in filled for part in files.parts]
    try:
        return run(_columns_together(filled, fields), fetcher(parts, session))
    except LanceError:
        # Read one by one, so that the error names the place.
        return _in_turn(fields, [files.read(fields, rows, session) for files, rows in filled])


def _no_rows(fields: Sequence[Field]) -> list[ArrowArray]:
    return [null_array(f.arrow_type, 0) for f in fields]


def _in_turn(fields: Sequence[Field], read: Sequence[Sequence[ArrowArray]]) -> list[ArrowArray]:
    """Columns one after the other; ``read`` has those of each part."""
    if len(read) == 1:
        return list(read[0])
    pieces: list[list[pa.Array]] = [[] for _ in fields]
    for columns in read:
        for mine, column in zip(pieces, columns, strict=True):
            mine.extend(chunks_of(column))
    return [pa.chunked_array(mine, f.arrow_type) for f, mine in zip(fields, pieces, strict=True)]


def _columns_together(
    items: Sequence[tuple[FragmentFiles, RowSelection]], fields: Sequence[Field]
) -> Read[list[ArrowArray]]:
    """Columns of several fragments in lockstep; files with one part each are decoded together."""
    found = [(files, rows, files.joinable(fields, rows)) for files, rows in items]
    reads: list[Read[list[ArrowArray]]] = []
    for is_alone, run_of in groupby(found, lambda item: item[2] is None):
        several = list(run_of)
        if is_alone:
            reads += [files.columns(fields, rows) for files, rows, _ in several]
        else:
            columns = [mine for _, _, mine in several if mine is not None]
            reads.append(_of_files(SeveralFiles(fields, columns, [rows for _, rows, _ in several])))
    return _in_turn(fields, (yield from gather(reads)))


def _of_files(several: SeveralFiles) -> Read[list[ArrowArray]]:
    """Columns of several files."""
    fields = several.fields
    blocks = yield from read_in_turn(several)
    return [to_arrow(block, f) for block, f in zip(blocks, fields, strict=True)]


def _column(part: Part, block: Block, held: Field) -> ArrowArray:
    """Arrow column of a block read from a file; text is validated only here."""
    try:
        return to_arrow(block, held)
    except LanceError as error:
        raise error.within(part.source.path)


def _chain(fields: Sequence[Field], path: Path) -> list[Field] | None:
    """The fields along a path, or None if it leads below anything but structs."""
    chain: list[Field] = []
    level: Sequence[Field] = fields
    for name in path:
        found = next((f for f in level if f.name == name), None)
        if found is None:
            return None
        chain.append(found)
        level = found.children if found.is_struct else ()
    return chain


def _all_null(table: StatsTable, paths: Sequence[Path]) -> dict[Path, ColumnStats]:
    """Statistics of all-null columns for these paths, in the units of ``table``."""
    units = table.num_units
    everywhere = ColumnStats(None, np.zeros(units, np.bool_), np.ones(units, np.bool_))
    return dict.fromkeys(paths, everywhere)
