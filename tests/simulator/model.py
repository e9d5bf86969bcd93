"""What a history must look like: a table as a plain value, each kind of change as a few lines.

Written against the format's rules and not against the code under test: versions are read back with the
library's reader, and must equal what replaying the changes in the order of the versions gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from zlib import crc32

import numpy as np

from lancecy.errors import LanceError
from lancecy.table.manifest import Fragment, Manifest
from lancecy.table.operations import (
    Append,
    CreateIndex,
    DataReplacement,
    Delete,
    Merge,
    Operation,
    Overwrite,
    Project,
    RepairRowIds,
    ReserveFragments,
    Restore,
    Rewrite,
    Transaction,
    Update,
    UpdateBases,
    UpdateConfig,
)
from lancecy.table.operations.index_section import covered
from lancecy.table.operations.transaction import decode_transaction
from lancecy.table.rows import deletion
from lancecy.table.wire.manifest import decode
from lancecy.table.wire.row_ids import decode_row_ids, decode_versions
from tests.simulator.world import World

__all__ = [
    "AFTER",
    "EXCLUDED",
    "Ledger",
    "Part",
    "Row",
    "Table",
    "keys_in",
    "read_table",
    "replay",
    "violations",
]


@dataclass(frozen=True)
class Row:
    """A row of a table with stable row ids: its id, and the versions that made and last changed it."""

    id: int
    created: int
    updated: int


@dataclass(frozen=True)
class Part:
    """A fragment: its id, the file of each column, which rows are left, and what is known of its rows."""

    id: int
    files: Mapping[int, str]
    rows: int
    gone: frozenset[int] = frozenset()
    stable: tuple[Row, ...] = ()

    @property
    def living(self) -> list[int]:
        return sorted(set(range(self.rows)) - self.gone)


@dataclass(frozen=True)
class Table:
    """A version."""

    parts: tuple[Part, ...] = ()
    columns: Mapping[int, str] = field(default_factory=dict)
    config: Mapping[str, str] = field(default_factory=dict)
    bases: Mapping[int, str] = field(default_factory=dict)
    max_id: int = -1
    next_row_id: int = 0
    stable: bool = False

    def added(self, fragments: Iterable[Fragment], version: int, moved: Sequence[Row] = ()) -> Table:
        """With new fragments, whose first rows are rows that moved."""
        parts, max_id, row_id, waiting = list(self.parts), self.max_id, self.next_row_id, list(moved)
        for fragment in fragments:
            max_id += 1
            count = fragment.physical_rows or 0
            rows: list[Row] = []
            if self.stable:
                rows, waiting = waiting[:count], waiting[count:]
                fresh = count - len(rows)
                rows += [Row(row_id + n, version, version) for n in range(fresh)]
                row_id += fresh
            files = dict.fromkeys(fragment.files[0].fields, fragment.files[0].path)
            parts.append(Part(max_id, files, count, frozenset(), tuple(rows)))
        return replace(self, parts=tuple(parts), max_id=max_id, next_row_id=row_id)

    def without(self, deleted: Mapping[int, Any], removed: Sequence[int] = ()) -> Table:
        """Without rows, by fragment, and without whole fragments."""
        parts = []
        for part in self.parts:
            gone = part.gone | frozenset(deleted.get(part.id, np.empty(0, np.int64)).tolist())
            if part.id not in removed and len(gone) < part.rows:
                parts.append(replace(part, gone=gone))
        return replace(self, parts=tuple(parts))

    def part(self, number: int) -> Part:
        return next(part for part in self.parts if part.id == number)

    def with_part(self, changed: Part) -> Table:
        parts = tuple(changed if part.id == changed.id else part for part in self.parts)
        return replace(self, parts=parts)


def _overwritten(table: Table, operation: Overwrite, version: int, history: Mapping[int, Table]) -> Table:
    stable = table.stable or operation.stable_row_ids
    columns = {column.id: column.name for column in operation.schema.fields}
    return replace(table, parts=(), columns=columns, stable=stable).added(operation.fragments, version)


def _restored(table: Table, operation: Restore, version: int, history: Mapping[int, Table]) -> Table:
    old = history[operation.version]
    max_id, row_id = max(table.max_id, old.max_id), max(table.next_row_id, old.next_row_id)
    return replace(old, max_id=max_id, next_row_id=row_id)


def _reserved(table: Table, operation: ReserveFragments, version: int, history: Mapping[int, Table]) -> Table:
    return replace(table, max_id=max(table.max_id, 0) + operation.num_fragments)


def _configured(table: Table, operation: UpdateConfig, version: int, history: Mapping[int, Table]) -> Table:
    entries = operation.config.entries if operation.config else {}
    added = {key: value for key, value in entries.items() if value is not None}
    return replace(table, config={**table.config, **added})


def _based(table: Table, operation: UpdateBases, version: int, history: Mapping[int, Table]) -> Table:
    known = dict(table.bases)
    for base in operation.bases:
        known[next(n for n in range(1, 99) if n not in known)] = base.path
    return replace(table, bases=known)


def _updated(table: Table, operation: Update, version: int, history: Mapping[int, Table]) -> Table:
    if operation.columns:
        for number, file in operation.columns.items():
            part = table.part(number)
            changed = dict.fromkeys(file.fields, file.path)
            rows = set(operation.updated_rows[number].tolist())
            stable = tuple(
                replace(row, updated=version) if n in rows else row for n, row in enumerate(part.stable)
            )
            table = table.with_part(replace(part, files={**part.files, **changed}, stable=stable))
        return table
    moved = [
        replace(table.part(number).stable[offset], updated=version)
        for number, offsets in operation.rows.items()
        for offset in offsets.tolist()
        if table.stable
    ]
    return table.without(operation.rows, operation.removed).added(operation.fragments, version, moved)


def _rewritten(table: Table, operation: Rewrite, version: int, history: Mapping[int, Table]) -> Table:
    """The same rows in other fragments; those deleted since the rewrite was planned are deleted there too."""
    for group in operation.groups:
        planned = [(part, _planned(part, history)) for part in group.old]
        rows: list[Row | None] = []
        gone: set[int] = set()
        for part, before in planned:
            now = next((other for other in table.parts if other.id == part.id), None)
            for offset in before.living:
                if now is None or offset in now.gone:
                    gone.add(len(rows))
                rows.append(before.stable[offset] if table.stable else None)
        kept = tuple(part for part in table.parts if part.id not in {old.id for old in group.old})
        table, start = replace(table, parts=kept), 0
        for part in group.new:
            stop = start + (part.physical_rows or 0)
            lost = frozenset(n - start for n in gone if start <= n < stop)
            if len(lost) < stop - start:
                table = table.added([part], version, [row for row in rows[start:stop] if row])
                table = table.with_part(replace(table.parts[-1], gone=lost))
            start = stop
    return table


def _planned(fragment: Fragment, history: Mapping[int, Table]) -> Part:
    """A fragment as it was in the version that a rewrite was planned from."""
    deleted = 0 if fragment.deletion_file is None else fragment.deletion_file.num_deleted_rows
    # The newest, as a column that was set and dropped later leaves the files of before and other versions of rows.
    for version in sorted(history, reverse=True):
        for part in history[version].parts:
            same = {file.path for file in fragment.files} == {*part.files.values()}
            if part.id == fragment.id and same and len(part.gone) == deleted:
                return part
    raise AssertionError(f"no version has fragment {fragment.id} with {deleted} deleted rows")


def _merged(table: Table, operation: Merge, version: int, history: Mapping[int, Table]) -> Table:
    columns = {column.id: column.name for column in operation.schema.fields}
    for fragment in operation.fragments:
        part = table.part(fragment.id)
        files = {column: file.path for file in fragment.files for column in file.fields if column >= 0}
        stable = part.stable
        if any(files.get(column) != part.files.get(column) for column in columns):
            stable = tuple(replace(row, updated=version) for row in stable)
        table = table.with_part(replace(part, files=_alive(files, columns), stable=stable))
    return replace(table, columns=columns)


def _alive(files: Mapping[int, str], columns: Mapping[int, str]) -> dict[int, str]:
    """The files of a fragment by column: one stays as long as one of its columns does."""
    live = {path for column, path in files.items() if column in columns}
    return {column: path for column, path in files.items() if path in live}


def _projected(table: Table, operation: Project, version: int, history: Mapping[int, Table]) -> Table:
    columns = {column.id: column.name for column in operation.schema.fields}
    for part in table.parts:
        table = table.with_part(replace(part, files=_alive(part.files, columns)))
    return replace(table, columns=columns)


def _replaced(table: Table, operation: DataReplacement, version: int, history: Mapping[int, Table]) -> Table:
    for number, file in operation.replacements:
        part = table.part(number)
        stable = tuple(replace(row, updated=version) for row in part.stable)
        changed = dict.fromkeys(file.fields, file.path)
        table = table.with_part(replace(part, files={**part.files, **changed}, stable=stable))
    return table


# The table that a change makes of another: (table, operation, version, history) -> table.
AFTER: dict[type[Operation], Callable[..., Table]] = {
    Append: lambda table, operation, version, history: table.added(operation.fragments, version),
    Delete: lambda table, operation, version, history: table.without(operation.rows, operation.removed),
    Overwrite: _overwritten,
    Restore: _restored,
    ReserveFragments: _reserved,
    UpdateConfig: _configured,
    UpdateBases: _based,
    RepairRowIds: lambda table, operation, version, history: table,
    Update: _updated,
    Rewrite: _rewritten,
    Merge: _merged,
    Project: _projected,
    DataReplacement: _replaced,
    CreateIndex: lambda table, operation, version, history: table,
}


def read_table(world: World, manifest: Manifest) -> Table:
    """A version as a reader finds it: every file it names is there and says what the manifest says."""
    stable = manifest.has_stable_row_ids
    parts = []
    for fragment in manifest.fragments:
        rows, files = fragment.physical_rows or 0, dict[int, str]()
        for file in fragment.files:
            if len(world.objects[f"data/{file.path}"]) != file.size:
                raise AssertionError(f"{file.path} has another size")
            assert not files.keys() & {column for column in file.fields if column >= 0}, (
                "a column has two files"
            )
            files.update({column: file.path for column in file.fields if column >= 0})
        gone: frozenset[int] = frozenset()
        if fragment.deletion_file is not None:
            name = fragment.deletion_file.path(fragment.id)
            memory = np.frombuffer(world.objects[name], np.uint8)
            gone = frozenset(deletion.decode(memory, fragment.deletion_file, rows).offsets.tolist())
        known = _rows(fragment, rows) if stable else ()
        parts.append(Part(fragment.id, files, rows, gone, known))
    living = [part.stable[n].id for part in parts if stable for n in part.living]
    assert len(set(living)) == len(living), "two living rows have one id"
    bases = {base.id: base.path for base in manifest.base_paths.values()}
    max_id = -1 if manifest.max_fragment_id is None else manifest.max_fragment_id
    columns = {column.id: column.name for column in manifest.schema.fields}
    return Table(tuple(parts), columns, dict(manifest.config), bases, max_id, manifest.next_row_id, stable)


def _rows(fragment: Fragment, count: int) -> tuple[Row, ...]:
    assert isinstance(fragment.row_ids, bytes)
    assert isinstance(fragment.created_at_versions, bytes)
    assert isinstance(fragment.last_updated_versions, bytes)
    ids = decode_row_ids(fragment.row_ids, count).ids(0, count)
    created = decode_versions(fragment.created_at_versions, count).between(0, count)
    updated = decode_versions(fragment.last_updated_versions, count).between(0, count)
    return tuple(map(Row, ids.tolist(), created.tolist(), updated.tolist()))


@dataclass
class Ledger:
    """What writers set out to do, and what they were told.

    Attributes
    ----------
    intents : dict of transaction id to Transaction
        As it was given to the first attempt.
    reads : dict of transaction id to set of int
        Versions that attempts with this id were made from.
    acked : dict of transaction id to version
    failed : set of str
        Told that it did not happen.
    unknown : dict of transaction id to bool
        Told that nobody knows, and whether a fault could be to blame.
    """

    intents: dict[str, Transaction] = field(default_factory=dict)
    reads: dict[str, set[int]] = field(default_factory=dict)
    acked: dict[str, int] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    unknown: dict[str, bool] = field(default_factory=dict)


# What may not have happened between the version a change was made from and the one it became.
EXCLUDED: dict[type[Operation], tuple[type[Operation], ...]] = {
    Append: (Overwrite, Restore),
    Delete: (Overwrite, Restore),
    Overwrite: (Overwrite,),
    ReserveFragments: (Overwrite, Restore),
    Update: (Overwrite, Restore, Merge),
    Rewrite: (Overwrite, Restore, Merge),
    Merge: (Append, Delete, Overwrite, Restore, Update, Rewrite, Merge, Project, DataReplacement),
    Project: (Overwrite, Restore, Merge, Project),
    DataReplacement: (Overwrite, Restore, Merge),
    CreateIndex: (Overwrite, Restore),
}


def replay(world: World, ledger: Ledger) -> tuple[dict[int, Table], list[str]]:
    """Every version that ever was, and what is wrong with them."""
    wrong = list(world.broken)
    history: dict[int, Table] = {}
    kinds: dict[int, Operation] = {}
    seen: set[str] = set()
    table, there = Table(), world.manifests()
    for version in sorted(world.archive):
        memory = np.frombuffer(world.archive[version], np.uint8)
        manifest = decode(memory, str(version))
        if manifest.transaction_section is None:
            return history, [*wrong, f"version {version} does not say what made it"]
        start, length = manifest.transaction_section
        uuid = decode_transaction(memory[start : start + length].tobytes()).uuid
        if uuid in seen:
            wrong.append(f"I5: {uuid} happened again in version {version}")
        seen.add(uuid)
        intent = ledger.intents[uuid]
        read = max(start for start in ledger.reads[uuid] if start < version)
        excluded = EXCLUDED.get(type(intent.operation), ())
        wrong += [
            f"version {version} was made from {read} over version {between}"
            for between in range(read + 1, version)
            if isinstance(kinds.get(between), excluded)
        ]
        wrong += [
            f"version {version} may add a row that version {between} added"
            for between in range(read + 1, version)
            if _adds_the_same(intent.operation, kinds[between])
        ]
        kinds[version] = intent.operation
        expected = AFTER[type(intent.operation)](table, intent.operation, version, history)
        if version not in there:
            history[version] = table = expected  # cleaned up, and its files perhaps with it
            continue
        try:
            found = read_table(world, manifest)
        except (KeyError, LanceError, AssertionError) as error:
            wrong.append(f"I6: version {version} cannot be read: {error!r}")
            found = expected
        if found != expected:
            wrong.append(f"I2: version {version} is {found}, not {expected}")
        if found.max_id < table.max_id or found.next_row_id < table.next_row_id:
            wrong.append(f"I10: version {version} gives ids out again")
        wrong += [
            f"I12: version {version} has an index of column {column} that covers fragment {part.id}, which has others"
            for entry in world.indices(version)
            for column in entry.fields
            for part in expected.parts
            if part.id in (covered(entry) or ())
            and not _as_indexed(part, column, history[entry.dataset_version])
        ]
        table = history[version] = expected
    return history, wrong + _told(ledger, seen, world)


def keys_in(fragments: Iterable[Fragment]) -> set[int]:
    """The keys of the rows in new fragments: one for each file, which its name tells."""
    return {crc32(file.path.encode()) % 20 for fragment in fragments for file in fragment.files}


def _as_indexed(part: Part, column: int, indexed: Table) -> bool:
    """Whether the values of a column are those that an index was made from."""
    before = [old for old in indexed.parts if old.id == part.id]
    return bool(before) and before[0].files.get(column) == part.files.get(column)


def _adds_the_same(mine: Operation, theirs: Operation) -> bool:
    """Whether a change added rows because the table lacked their keys, and the other may have added such a row."""
    if not isinstance(mine, Update) or mine.keys is None or not isinstance(theirs, (Append, Update)):
        return False
    if mine.has_keys is not None and not (isinstance(theirs, Update) and theirs.columns):
        return bool(keys_in(mine.fragments) & keys_in(theirs.fragments)) and _may_share(mine, theirs)
    return _may_share(mine, theirs)


def _may_share(mine: Update, theirs: Append | Update) -> bool:
    """Whether transactions leave it open that both added one key."""
    if isinstance(theirs, Append) or theirs.keys is None:
        return True
    assert mine.keys is not None and mine.keys.hashes is not None and theirs.keys.hashes is not None
    return bool(set(mine.keys.hashes.tolist()) & set(theirs.keys.hashes.tolist()))


def _told(ledger: Ledger, visible: set[str], world: World) -> list[str]:
    """Whether writers were told the truth."""
    wrong = [f"I3: {uuid} was acknowledged and is lost" for uuid in ledger.acked if uuid not in visible]
    wrong += [f"I7: {uuid} was said to have failed and happened" for uuid in ledger.failed if uuid in visible]
    wrong += [
        f"I7: {uuid} is unknown without a reason" for uuid, reason in ledger.unknown.items() if not reason
    ]
    if sorted(world.archive) != list(range(1, len(world.archive) + 1)):
        wrong.append(f"I1: versions are {sorted(world.archive)}")
    wrong += [
        f"I3: {uuid} was acknowledged as version {version}, which is another"
        for uuid, version in ledger.acked.items()
        if uuid.encode() not in world.archive.get(version, b"")
    ]
    return wrong


def violations(world: World, ledger: Ledger) -> list[str]:
    """What is wrong with a history once everything late has arrived (I1 to I7, I10)."""
    world.deliver()
    return replay(world, ledger)[1]
