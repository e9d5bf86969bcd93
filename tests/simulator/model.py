"""What a history must look like: a table as a plain value, each kind of change as a few lines.

Written against the format's rules and not against the code under test: versions are read back with the
library's reader, and must equal what replaying the changes in the order of the versions gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from lancecy.errors import LanceError
from lancecy.table.manifest import Fragment, Manifest
from lancecy.table.operations import (
    Append,
    Delete,
    Operation,
    Overwrite,
    RepairRowIds,
    ReserveFragments,
    Restore,
    Transaction,
    UpdateBases,
    UpdateConfig,
)
from lancecy.table.operations.transaction import decode_transaction
from lancecy.table.paths import deletion_file_name
from lancecy.table.rows import deletion
from lancecy.table.wire.manifest import decode
from lancecy.table.wire.row_ids import decode_row_ids, decode_versions
from tests.simulator.world import World

__all__ = ["AFTER", "EXCLUDED", "Ledger", "Part", "Table", "read_table", "replay", "violations"]


@dataclass(frozen=True)
class Part:
    """A fragment: its id, its file, which rows are left, and its row ids and version."""

    id: int
    path: str
    rows: int
    gone: frozenset[int] = frozenset()
    first_row_id: int | None = None
    made_in: int | None = None


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

    def added(self, fragments: tuple[Fragment, ...], version: int) -> Table:
        parts, max_id, row_id = list(self.parts), self.max_id, self.next_row_id
        for fragment in fragments:
            max_id += 1
            rows = fragment.physical_rows or 0
            ids = (row_id, version) if self.stable else (None, None)
            parts.append(Part(max_id, fragment.files[0].path, rows, frozenset(), *ids))
            row_id += rows if self.stable else 0
        return replace(self, parts=tuple(parts), max_id=max_id, next_row_id=row_id)

    def without(self, operation: Delete) -> Table:
        parts = []
        for part in self.parts:
            gone = part.gone | frozenset(operation.rows.get(part.id, np.empty(0, np.int64)).tolist())
            if part.id not in operation.removed and len(gone) < part.rows:
                parts.append(replace(part, gone=gone))
        return replace(self, parts=tuple(parts))


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


# The table that a change makes of another: (table, operation, version, history) -> table.
AFTER: dict[type[Operation], Callable[..., Table]] = {
    Append: lambda table, operation, version, history: table.added(operation.fragments, version),
    Delete: lambda table, operation, version, history: table.without(operation),
    Overwrite: _overwritten,
    Restore: _restored,
    ReserveFragments: _reserved,
    UpdateConfig: _configured,
    UpdateBases: _based,
    RepairRowIds: lambda table, operation, version, history: table,
}


def read_table(world: World, manifest: Manifest) -> Table:
    """A version as a reader finds it: every file it names is there and says what the manifest says."""
    stable = manifest.has_stable_row_ids
    parts = []
    for fragment in manifest.fragments:
        (file,), rows = fragment.files, fragment.physical_rows or 0
        if len(world.objects[f"data/{file.path}"]) != file.size:
            raise AssertionError(f"{file.path} has another size")
        gone: frozenset[int] = frozenset()
        if fragment.deletion_file is not None:
            name = f"_deletions/{deletion_file_name(fragment.id, fragment.deletion_file)}"
            memory = np.frombuffer(world.objects[name], np.uint8)
            gone = frozenset(deletion.decode(memory, fragment.deletion_file, rows).offsets.tolist())
        first = made = None
        if stable:
            assert isinstance(fragment.row_ids, bytes) and isinstance(fragment.created_at_versions, bytes)
            ids = decode_row_ids(fragment.row_ids, rows).ids(0, rows)
            assert ids.tolist() == list(range(int(ids[0]), int(ids[0]) + rows))
            first, made = int(ids[0]), int(decode_versions(fragment.created_at_versions, rows).versions[0])
            assert fragment.created_at_versions == fragment.last_updated_versions
        parts.append(Part(fragment.id, file.path, rows, gone, first, made))
    bases = {base.id: base.path for base in manifest.base_paths.values()}
    max_id = -1 if manifest.max_fragment_id is None else manifest.max_fragment_id
    columns = {column.id: column.name for column in manifest.schema.fields}
    return Table(tuple(parts), columns, dict(manifest.config), bases, max_id, manifest.next_row_id, stable)


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
        table = history[version] = expected
    return history, wrong + _told(ledger, seen, world)


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
