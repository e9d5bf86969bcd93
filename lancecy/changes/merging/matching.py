"""Which rows of a source match which rows of a table.

The keys of the source become an index, in parts if they are many. For each part, the key columns of the table are
read and looked up: large units side by side, small ones together. Rows of the table that no row of the source matches
are known at once, rows of the source that match nothing after the last unit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lancecy.changes.merging.clauses import Rules
from lancecy.changes.merging.keys import KeyIndex, Keys, keys_of, same_keys
from lancecy.changes.merging.source import Source
from lancecy.encodings.arrow.columns import ArrowArray, as_array, bare, storage_of, taken, unsliced_rows
from lancecy.encodings.arrow.conversions import array_of, numbers_of
from lancecy.errors import ExistsError, SchemaError
from lancecy.expr import Bound, mask
from lancecy.expr.build import Filter, col
from lancecy.expr.kinds import family
from lancecy.index.bounds import indexed_type
from lancecy.index.catalog import catalog_of
from lancecy.kernels.sorting import sorted_order
from lancecy.records import dataclass
from lancecy.scanning.context import ScanContext
from lancecy.scanning.engine import rows_of
from lancecy.scanning.filtering import spread_candidates
from lancecy.scanning.plan import plan
from lancecy.scanning.project import Projection
from lancecy.scanning.request import make_request
from lancecy.scanning.sources import concerned
from lancecy.scanning.task import ScanSpec, ScanUnit
from lancecy.scanning.units import CandidateUnit, FilteredUnit

__all__ = ["UNIT_BYTES", "Matches", "match_rows", "match_tables", "offsets_of", "part_of", "read_columns"]

Bools: TypeAlias = NDArray[np.bool_]
Int64: TypeAlias = NDArray[np.int64]
UInt64: TypeAlias = NDArray[np.uint64]
Columns: TypeAlias = dict[str, ArrowArray]

UNIT_BYTES = 8 << 20
"""Decoded bytes of the columns of the table that one thread looks at."""
# Bytes of an indexed row, with its key.
_ROW_BYTES = 64
_LEAST_INDEXED = 1 << 16
_NOWHERE = np.uint64(0xFFFFFFFFFFFFFFFF)
_ROW_BITS, _ROW_MASK = np.uint64(32), np.uint64(0xFFFFFFFF)
# Pages are left out by a list of keys up to this number, by their range above.
_MOST_LISTED = 256
# Keys looked up in an index at most, and the rows of the table for each from which on this takes less than reading all.
_MOST_LOOKED_UP, _LOOK_UP_ROWS = 8192, 8
# Nanoseconds to look up a key among few, whose index stays in the processor's cache, and among many. Few take 1 ns, but two
# threads pay from units of 250,000 rows on: one decodes while the other plans.
_FEW_KEYS, _LOOK_UP, _LOOK_UP_MANY = 1 << 14, 8.0, 10.0


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """The changes of a merge.

    Attributes
    ----------
    rows : (num_updated,) int64, ascending
        Rows of the source that replace rows of the table.
    addresses : (num_updated,) uint64
        The address of the replaced row of each.
    is_new : (num_source_rows,) bool
        Rows of the source that are inserted.
    gone : mapping of fragment id to (n,) int64, ascending
        Offsets of the rows of the table that are replaced or deleted.
    num_deleted : int
        Number of deleted rows.
    num_read : int
        Number of rows of the table whose keys were read.
    """

    rows: Int64
    addresses: UInt64
    is_new: Bools
    gone: dict[int, Int64]
    num_deleted: int
    num_read: int

    @property
    def num_inserted(self) -> int:
        """Number of inserted rows."""
        return int(np.count_nonzero(self.is_new))

    @property
    def stats(self) -> dict[str, int]:
        """The numbers of changed rows, under pylance's names."""
        return {
            "num_inserted_rows": self.num_inserted,
            "num_updated_rows": self.rows.size,
            "num_deleted_rows": self.num_deleted,
        }


def match_rows(
    context: ScanContext, source: Source, rules: Rules, budget: int, told: Callable[[int, int], None]
) -> Matches:
    """Find the changes of a merge.

    Parameters
    ----------
    context : ScanContext
    source : Source
    rules : Rules
    budget : int, bytes
        About as much memory is used for the index.
    told : function of (rows, total)
        Told how many rows of the table are looked at.

    Raises
    ------
    SchemaError
        Two rows of the source match one row of the table, or would be inserted with the same key.
    ExistsError
        A row matches, where none may.
    FormatError, StoreError
        The columns cannot be read.
    """
    seen = _Seen(source.num_rows, rules.clauses.matched == "update")
    found: list[_UnitMatches] = []
    parts = max(1, -(-source.num_rows // max(_LEAST_INDEXED, budget // _ROW_BYTES)))
    for number in range(parts):
        part = _Part.of(source, rules, number, parts)
        units = _units(context, rules, part if parts == 1 else None)
        step = _step(context, source, rules, part, units.projection, seen)
        hint = units.hint or units.projection
        asked = () if units.hint is None else concerned(context.sources, context.snapshot, hint)
        look_up = _LOOK_UP if part.num_rows <= _FEW_KEYS else _LOOK_UP_MANY
        found += spread_candidates(context, units.units, hint, asked, step, look_up)
        if rules.clauses.inserts:
            part.check_new(seen.is_matched, rules.on)
        told(number + 1, parts)
    num_deleted, num_read = sum(unit.num_deleted for unit in found), sum(unit.num_read for unit in found)
    return _matches(seen, rules, _gone_of(found), num_deleted, num_read)


def match_tables(source: Source, target: pa.Table, addresses: UInt64, rules: Rules) -> Matches:
    """Find the changes of a merge from rows in memory, among which are all rows with the same keys.

    Parameters
    ----------
    source : Source
    target : pyarrow.Table
        The columns of the table that matching reads.
    addresses : (num_rows,) uint64
        The address of each row of the table.
    rules : Rules

    Raises
    ------
    SchemaError, ExistsError
        As :func:`match_rows`.
    """
    seen = _Seen(source.num_rows, rules.clauses.matched == "update")
    part = _Part.of(source, rules, 0, 1)
    values: Columns = {name: as_array(target.column(name)) for name in rules.of_target}
    found = _Lookup(rules, part, values, target.num_rows)
    found.run(seen.is_matched)
    if rules.clauses.inserts:
        part.check_new(seen.is_matched, rules.on)
    seen.replace(found.rows, addresses[found.updated])
    gone = _by_fragment(addresses[np.concatenate([found.updated, found.deleted])])
    return _matches(seen, rules, gone, found.deleted.size, target.num_rows)


def offsets_of(addresses: UInt64) -> dict[int, Int64]:
    """Ascending row offsets by fragment.

    Parameters
    ----------
    addresses : (n,) uint64
        In any order.
    """
    return _by_fragment(addresses.copy())


class _Seen:
    """What is known of the rows of the source; shared by threads.

    Attributes
    ----------
    is_matched : (num_rows,) bool
        Rows that match a row of the table.
    """

    def __init__(self, num_rows: int, has_updates: bool) -> None:
        self.is_matched = np.zeros(num_rows, np.bool_)
        self._addresses = np.full(num_rows if has_updates else 0, _NOWHERE, np.uint64)
        # Several rows of the table may have one key.
        self._others: list[tuple[Int64, UInt64]] = []
        self._lock = threading.Lock()

    def replace(self, rows: Int64, addresses: UInt64) -> None:
        """Note that rows replace the rows at these addresses."""
        if not rows.size:
            return
        with self._lock:
            # The last one of rows that are named twice is there afterwards.
            free = self._addresses[rows] == _NOWHERE
            self._addresses[rows[free]] = addresses[free]
            free[free] = self._addresses[rows[free]] == addresses[free]
            if not free.all():
                self._others.append((rows[~free], addresses[~free]))

    def pairs(self) -> tuple[Int64, UInt64]:
        """The rows that replace others, ascending, and the addresses of those."""
        rows = np.flatnonzero(self._addresses != _NOWHERE)
        addresses = self._addresses[rows]
        self._addresses = self._addresses[:0]
        if not self._others:
            return rows, addresses
        rows = np.concatenate([rows, *(part for part, _ in self._others)])
        addresses = np.concatenate([addresses, *(part for _, part in self._others)])
        order = sorted_order(rows)
        return rows[order], addresses[order]


def _matches(seen: _Seen, rules: Rules, gone: dict[int, Int64], num_deleted: int, num_read: int) -> Matches:
    rows, addresses = seen.pairs()
    is_new = ~seen.is_matched if rules.clauses.inserts else np.zeros(seen.is_matched.size, np.bool_)
    return Matches(rows, addresses, is_new, gone, num_deleted, num_read)


def _gone_of(found: Sequence[_UnitMatches]) -> dict[int, Int64]:
    """Offsets of rows by fragment, ascending."""
    pieces: dict[int, list[Int64]] = {}
    for unit in found:
        if unit.gone.size:
            pieces.setdefault(unit.fragment, []).append(unit.gone)
    gone = {number: np.concatenate(pieces[number]) for number in sorted(pieces)}
    for offsets in gone.values():
        # Units are in order, but not if the table was read once for each part of the source.
        if bool((offsets[1:] < offsets[:-1]).any()):
            offsets.sort()
    return gone


def _by_fragment(addresses: UInt64) -> dict[int, Int64]:
    """Offsets of rows by fragment, ascending; the addresses are overwritten."""
    addresses.sort()
    pieces: dict[int, Int64] = {}
    start = 0
    while start < addresses.size:
        number = int(addresses[start] >> _ROW_BITS)
        stop = int(np.searchsorted(addresses, np.uint64(((number + 1) << 32) - 1), side="right"))
        pieces[number] = addresses[start:stop].view(np.int64)
        start = stop
    addresses &= _ROW_MASK
    return pieces


# -- the source ---------------------------------------------------------------------------------------


class _Part:
    """Rows of the source that are looked up together: all with the same keys are among them.

    Attributes
    ----------
    columns : pyarrow.Table
        The columns that matching reads.
    index : KeyIndex
    numbers : (n,) int64 or None
        The number of each row in the source; None if all rows are here.
    is_whole : bool
        Whether numbers of rows mean something to the user.
    """

    def __init__(self, columns: pa.Table, keys: Keys, numbers: Int64 | None, number: int, parts: int) -> None:
        self.columns, self.numbers, self.is_whole = columns, numbers, True
        self.index = KeyIndex(keys)
        self._number, self._parts = number, parts

    @classmethod
    def of(cls, source: Source, rules: Rules, number: int, parts: int) -> _Part:
        """Read one part of a source."""
        batches, numbers, start = [], [], 0
        for batch in source.batches(rules.of_source):
            if parts > 1:
                words = keys_of([batch.column(name) for name in rules.on]).words
                rows = np.flatnonzero(part_of(words, parts) == number)
                numbers.append(rows + start)
                start += batch.num_rows
                batch = unsliced_rows(batch).take(array_of(rows))
            batches.append(batch)
        schema = pa.schema([source.schema.field(name) for name in rules.of_source])
        columns = pa.Table.from_batches(batches, schema).unify_dictionaries().combine_chunks()
        keys = keys_of([columns.column(name) for name in rules.on])
        part = cls(columns, keys, np.concatenate(numbers) if parts > 1 else None, number, parts)
        part.is_whole = source.is_whole
        return part

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return int(self.columns.num_rows)

    def numbers_of(self, rows: Int64) -> Int64:
        """Numbers of these rows in the source."""
        return rows if self.numbers is None else self.numbers[rows]

    def concerned(self, keys: Keys) -> Int64 | None:
        """The rows of the table that this part may match; None for all."""
        chosen = keys.valid
        if self._parts > 1:
            mine = part_of(keys.words, self._parts) == self._number
            chosen = mine if chosen is None else mine & chosen
        return None if chosen is None else np.flatnonzero(chosen)

    def responsible(self, keys: Keys) -> Bools:
        """The rows of the table that no other part looks at; those with a null in the key are the first part's."""
        if self._parts == 1:
            return np.ones(len(keys), np.bool_)
        parts = part_of(keys.words, self._parts)
        if keys.valid is not None:
            parts[~keys.valid] = 0
        mine: Bools = parts == self._number
        return mine

    def key_text(self, row: int, on: Sequence[str]) -> str:
        """The key of a row, for messages."""
        values = ((name, self.columns.column(name)[row].as_py()) for name in on)
        return ", ".join(f"{name} = {value!r}" for name, value in values)

    def check_new(self, is_matched: Bools, on: Sequence[str]) -> None:
        """Refuse two new rows with the same key."""
        if not self.index.repeats:
            return
        later = np.flatnonzero(self.index.chain >= 0)
        earlier = self.index.chain[later]
        keys = self.index.keys
        while later.size:
            is_new = ~is_matched[self.numbers_of(later)]
            same = np.flatnonzero(same_keys(keys, later, keys, earlier) & is_new)
            if same.size:
                raise _twice(
                    self, int(earlier[same[0]]), int(later[same[0]]), on, "and none of the table has"
                )
            earlier = self.index.chain[earlier]
            later, earlier = later[earlier >= 0], earlier[earlier >= 0]


def part_of(words: UInt64, parts: int) -> Int64:
    """The part of each key, below ``parts``; the same for equal keys.

    Parameters
    ----------
    words : (n,) uint64
    parts : int
    """
    mixed = (words ^ (words >> np.uint64(29))) * np.uint64(0x165667B19E3779F9)
    return ((mixed >> np.uint64(32)) % np.uint64(parts)).astype(np.int64)


def _twice(part: _Part, one: int, other: int, on: Sequence[str], what: str) -> SchemaError:
    first, second = sorted(part.numbers_of(np.array([one, other])).tolist())
    key = part.key_text(one, on)
    rows = f"rows {first} and {second}" if part.is_whole else "two rows"
    return SchemaError(
        f"{rows} of the source have the key {key}, {what}: give each key once",
        difference=key,
    )


# -- the table ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Units:
    """What is read of the table: the units, the columns, and a filter that only leaves out pages."""

    units: tuple[ScanUnit, ...]
    projection: Projection
    hint: Projection | None


def _units(context: ScanContext, rules: Rules, part: _Part | None) -> _Units:
    snapshot = context.snapshot
    schema, columns = snapshot.schema.arrow, list(rules.of_target)
    request = make_request(schema, columns=columns)
    hint = None if part is None or rules.clauses.deletes else _hint(context, rules, part)
    index_use = None if rules.clauses.use_index else False
    planned = request if hint is None else make_request(schema, columns, hint, index_use=index_use)
    spec = ScanSpec(snapshot.location, snapshot.version, planned)
    found = plan(context, planned, spec, UNIT_BYTES, exact=None)
    return _Units(
        found.units, context.projection(request), None if hint is None else context.projection(planned)
    )


def _hint(context: ScanContext, rules: Rules, part: _Part) -> Filter:
    """A condition that is true for all rows that may match; None if it would leave out nothing."""
    is_indexed = rules.clauses.use_index and _is_indexed(context, rules, part)
    is_legacy = any(file.is_legacy for f in context.fragments for file in f.files)
    if not part.num_rows or not (is_indexed or is_legacy):
        return None
    given, key = as_array(part.columns.column(rules.on[0])), col(rules.on[0])
    if family(indexed_type(given.type)) not in ("integer", "text", "binary", "date", "timestamp"):
        return None
    keys = storage_of(given)
    if is_indexed or part.num_rows <= _MOST_LISTED:
        return key.isin(keys.drop_null())
    ends = pc.min_max(keys)
    return key.between(ends["min"], ends["max"]) if ends["min"].is_valid else None


def _is_indexed(context: ScanContext, rules: Rules, part: _Part) -> bool:
    """Whether looking few keys up in an index takes less than reading the column."""
    snapshot = context.snapshot
    if part.num_rows > _MOST_LOOKED_UP or snapshot.manifest.index_section is None:
        return False
    is_small = part.num_rows * _LOOK_UP_ROWS <= int(context.row_starts()[-1])
    return is_small and catalog_of(snapshot).has_rows(snapshot.schema.resolve(rules.on[0]))


@dataclass(frozen=True, slots=True, eq=False)
class _UnitMatches:
    """The matches of one unit.

    Attributes
    ----------
    fragment : int
        Stored id.
    gone : (n,) int64, ascending
        Offsets of the rows that are replaced or deleted.
    num_deleted : int
    num_read : int
    """

    fragment: int
    gone: Int64
    num_deleted: int
    num_read: int


def _step(
    context: ScanContext, source: Source, rules: Rules, part: _Part, projection: Projection, seen: _Seen
) -> Callable[[Sequence[CandidateUnit]], list[_UnitMatches]]:
    """The function that looks up the keys of units, and notes the rows of the source that match."""

    def step(units: Sequence[CandidateUnit]) -> list[_UnitMatches]:
        read = read_columns(context, units, projection)
        return [look_up(chosen, values) for chosen, values in zip(units, read, strict=True)]

    def look_up(chosen: CandidateUnit, read: Sequence[pa.Array]) -> _UnitMatches:
        number = chosen.files.fragment.stored_id
        values: Columns = dict(zip(rules.of_target, read, strict=True))
        found = _Lookup(rules, part, values, len(chosen.rows))
        found.run(seen.is_matched)
        gone = chosen.rows.pick(found.updated).to_indices()
        seen.replace(found.rows, gone.astype(np.uint64) | np.uint64(number << 32))
        if found.deleted.size:
            gone = np.concatenate([gone, chosen.rows.pick(found.deleted).to_indices()])
            gone.sort()
        if source.is_spilled:
            context.release([ScanUnit(chosen.files.fragment.id, 0, 0, 0, 0)])
        return _UnitMatches(number, gone, found.deleted.size, len(chosen.rows))

    return step


def read_columns(
    context: ScanContext, units: Sequence[CandidateUnit], projection: Projection
) -> list[list[pa.Array]]:
    """The columns of the chosen rows of each unit.

    Parameters
    ----------
    context : ScanContext
    units : sequence of CandidateUnit
        Each with a row.
    projection : Projection

    Raises
    ------
    FormatError, StoreError
        The columns cannot be read.
    """
    # Groups of units are read side by side, so that one thread reads all columns of each.
    wanted = [FilteredUnit(c.files, c.rows, c.rows) for c in units]
    pieces = [piece for mine in rows_of(context, wanted, projection, few=True) for piece in mine.pieces]
    if len(pieces) == len(units):
        return [[as_array(column) for column in piece] for piece in pieces]
    edges = accumulate((len(c.rows) for c in units), initial=0)
    return [
        [as_array(column.slice(start, len(c.rows))) for column in pieces[0]]
        for start, c in zip(edges, units, strict=False)
    ]


class _Lookup:
    """Looks up the keys of some rows of the table.

    Attributes
    ----------
    rows : (n,) int64
        Rows of the source that replace rows.
    updated, deleted : int64
        Positions of replaced and of deleted rows.
    """

    def __init__(self, rules: Rules, part: _Part, values: Columns, num_rows: int) -> None:
        self._rules, self._part, self._values, self._num_rows = rules, part, values, num_rows
        self._keys = keys_of([values[name] for name in rules.on])
        # Only where keys of the source repeat can two of its rows match one row of the table.
        self._claimed = np.full(num_rows, -1, np.int64) if part.index.repeats else None
        self._matched: list[Int64] = []
        self.rows = self.updated = self.deleted = np.empty(0, np.int64)

    def run(self, is_matched: Bools) -> None:
        """Find the matches, and mark the rows of the source that have one."""
        rules, part = self._rules, self._part
        chosen = part.concerned(self._keys)
        words = self._keys.words if chosen is None else self._keys.words[chosen]
        at, rows = part.index.find(words)
        at = at if chosen is None else chosen[at]
        while at.size:
            self._take(*self._equal(at, rows), is_matched)
            rows = part.index.chain[rows]
            at, rows = at[rows >= 0], rows[rows >= 0]
        if self._claimed is not None and rules.clauses.matched == "update":
            self.updated = np.flatnonzero(self._claimed >= 0)
            self.rows = self._claimed[self.updated]
        self.rows = part.numbers_of(self.rows)
        if rules.clauses.matched == "delete" or rules.clauses.deletes:
            self.deleted = self._deleted()

    def _equal(self, at: Int64, rows: Int64) -> tuple[Int64, Int64]:
        if not self._keys.parts:
            return at, rows
        same = same_keys(self._keys, at, self._part.index.keys, rows)
        return at[same], rows[same]

    def _take(self, at: Int64, rows: Int64, is_matched: Bools) -> None:
        """Take pairs of rows that match; at most one for each row of the table."""
        rules, part = self._rules, self._part
        self._matched.append(at)
        is_matched[part.numbers_of(rows)] = True
        if rules.clauses.matched == "fail" and at.size:
            key = part.key_text(int(rows[0]), rules.on)
            raise ExistsError(f"the table has a row with the key {key} already", kind="row", name=key)
        if rules.clauses.matched != "update":
            return
        if rules.condition is not None:
            passed = self._passing(rules.condition, at, rows)
            at, rows = at[passed], rows[passed]
        if self._claimed is None:
            self.updated, self.rows = at, rows
            return
        again = np.flatnonzero(self._claimed[at] >= 0)
        if again.size:
            earlier = int(self._claimed[at[again[0]]])
            raise _twice(part, int(rows[again[0]]), earlier, rules.on, "which matches a row of the table")
        self._claimed[at] = rows

    def _deleted(self) -> Int64:
        """Positions of the rows to delete."""
        matched = np.zeros(self._num_rows, np.bool_)
        for at in self._matched:
            matched[at] = True
        found = [np.empty(0, np.int64)]
        if self._rules.clauses.matched == "delete":
            found.append(np.flatnonzero(matched))
        if self._rules.clauses.deletes:
            found.append(self._unmatched(matched))
        return np.concatenate(found)

    def _passing(self, condition: Bound, at: Int64, rows: Int64) -> Bools:
        """The pairs for which the condition is true."""
        source = {name: self._part.columns.column(name) for name in self._part.columns.column_names}
        sides = {"source": (source, rows), "target": (self._values, at)}
        columns = {
            side: _struct(*sides[side], [path[1] for path in condition.paths if path[0] == side])
            for side in condition.columns
        }
        table = pa.table(columns) if columns else pa.table({"": pa.nulls(at.size)})
        return _true(mask(condition, table))

    def _unmatched(self, matched: Bools) -> Int64:
        """Positions of the rows that nothing matches and that are to be deleted."""
        gone = ~matched & self._part.responsible(self._keys)
        bound = self._rules.deleted
        if bound is not None:
            seen = {name: bare(self._values[name]) for name in bound.columns}
            table = pa.table(seen) if seen else pa.table({"": pa.nulls(gone.size)})
            gone &= _true(mask(bound, table))
        return np.flatnonzero(gone)


def _struct(columns: Columns, rows: Int64, names: Sequence[str]) -> pa.StructArray:
    chosen = list(dict.fromkeys(names))
    members = [as_array(taken(bare(columns[name]), rows)) for name in chosen]
    return pa.StructArray.from_arrays(members, names=chosen)


def _true(column: ArrowArray) -> Bools:
    found: Bools = numbers_of(as_array(pc.fill_null(column, False)))
    return found
