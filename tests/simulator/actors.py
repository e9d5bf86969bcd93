"""Writers of a simulated table: they open a version, make up a change, commit it, and may die over it."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lancecy.errors import CommitUnknownError, LanceError
from lancecy.schema import Field, Schema
from lancecy.table.answers import run as run_steps
from lancecy.table.commit.loop import commit
from lancecy.table.commit.options import Committed, Origin, Policy
from lancecy.table.manifest import BasePath, DataFile, Fragment
from lancecy.table.operations import (
    Append,
    CreateIndex,
    DataReplacement,
    Delete,
    MapUpdate,
    Merge,
    Operation,
    Overwrite,
    Project,
    RepairRowIds,
    ReserveFragments,
    Restore,
    Rewrite,
    RewriteGroup,
    Transaction,
    Update,
    UpdateBases,
    UpdateConfig,
)
from lancecy.table.operations.base import Added
from lancecy.table.operations.key_filter import KeyFilter
from lancecy.table.paths import Naming
from lancecy.table.requests import Request, Steps
from lancecy.table.rows.row_ids import RowIdSequence, VersionSequence
from lancecy.table.versions import ConditionalPut, VersionStore
from lancecy.table.wire.manifest_file import identity_of
from lancecy.table.wire.row_ids import encode_row_ids, encode_versions
from tests.helpers.builders import make_index
from tests.simulator.model import Ledger, Part, Row, Table, keys_in, replay, violations
from tests.simulator.world import Crash, Fault, World, run

__all__ = [
    "MAKERS",
    "SCHEMA",
    "Protocol",
    "Running",
    "Simulation",
    "files",
    "make",
    "rewrite_of",
    "upsert_of",
]

SCHEMA = Schema((Field("n", 0, logical_type="int64"), Field("m", 1, logical_type="int64")))
# Faults after which a writer may truly not know: its own request to write may have been carried out.
_DOUBTFUL = {Fault.FAILED, Fault.LOST, Fault.LATE, Fault.BUSY, Fault.CONFLICT, Fault.NO_SPACE, Fault.FULL,
             Fault.STALE_READ, Fault.FORBIDDEN}  # fmt: skip

Int64 = NDArray[np.int64]
History = dict[int, Table]
Protocol = Callable[[Transaction, Origin | None, Policy, VersionStore], Steps[Committed]]


def _file(world: World, columns: tuple[int, ...]) -> DataFile:
    """A data file that is there."""
    path, size = f"{world.rng.getrandbits(60):015x}.lance", world.rng.randrange(20, 90)
    world.objects[f"data/{path}"] = bytes(size)
    world.dates[f"data/{path}"] = world.store_clock
    return DataFile(path, columns, tuple(range(len(columns))), 2, 1, size)


def files(world: World, count: int, columns: tuple[int, ...] = (0, 1)) -> tuple[Fragment, ...]:
    """New fragments with files that are there."""
    made = []
    for _ in range(count):
        file = _file(world, columns)
        made.append(Fragment(0, (file,), physical_rows=world.rng.randrange(2, 7)))
    return tuple(made)


def _delete(world: World, history: History, version: int) -> Operation:
    table = history[version]
    if not table.parts:
        return Append(files(world, 1))
    rng, rows = world.rng, {}
    for part in rng.sample(table.parts, rng.randrange(1, min(3, len(table.parts)) + 1)):
        living = sorted(set(range(part.rows)) - part.gone)
        rows[part.id] = np.array(sorted(rng.sample(living, rng.randrange(1, len(living) + 1))), np.int64)
    return Delete(rows)


def _delete_whole(world: World, history: History, version: int) -> Operation:
    parts = history[version].parts
    return Delete(removed=(world.rng.choice(parts).id,)) if parts else Append(files(world, 1))


def _config(world: World, history: History, version: int) -> Operation:
    return UpdateConfig(MapUpdate({f"k{world.rng.randrange(6)}": str(world.rng.random())}))


def _bases(world: World, history: History, version: int) -> Operation:
    return UpdateBases((BasePath(0, f"/b/{world.rng.getrandbits(40):x}"),))


def _columns(table: Table) -> tuple[int, ...]:
    return tuple(sorted(table.columns))


def _moved(world: World, table: Table, extra: int) -> tuple[dict[int, Int64], tuple[Fragment, ...]]:
    """Some rows of a table, and the fragment they move to, with rows that are new behind them."""
    rng, rows, kept = world.rng, dict[int, Int64](), list[Row]()
    for part in rng.sample(table.parts, rng.randrange(1, min(2, len(table.parts)) + 1)):
        chosen = sorted(rng.sample(part.living, rng.randrange(1, len(part.living) + 1)))
        rows[part.id] = np.array(chosen, np.int64)
        kept += [part.stable[n] for n in chosen if table.stable]
    count = sum(offsets.size for offsets in rows.values()) + extra
    moved = Fragment(0, (_file(world, _columns(table)),), physical_rows=count)
    return rows, (_lineage(moved, kept, table.stable, updated=False),)


def _lineage(fragment: Fragment, rows: list[Row], stable: bool, *, updated: bool) -> Fragment:
    if not stable:
        return fragment
    ids, created, last = (np.array([getattr(row, name) for row in rows], np.uint64)
                          for name in ("id", "created", "updated"))  # fmt: skip
    return replace(
        fragment,
        row_ids=encode_row_ids(RowIdSequence.of(ids)),
        created_at_versions=encode_versions(VersionSequence.of(created)),
        last_updated_versions=encode_versions(VersionSequence.of(last)) if updated else None,
    )


def _update(world: World, history: History, version: int) -> Operation:
    table = history[version]
    if not table.parts:
        return Append(files(world, 1, _columns(table)))
    rows, fragments = _moved(world, table, 0)
    return Update(rows, fragments, fields=(0,))


def _upsert(world: World, history: History, version: int) -> Operation:
    """Rows that move, and rows with keys that the table lacks; half of the upserts can read what others added."""
    table, key = history[version], world.rng.randrange(20)
    rows = dict[int, Int64]()
    if table.parts:
        rows, fragments = _moved(world, table, world.rng.randrange(1, 3))
    else:
        fragments = files(world, 1, _columns(table))
    return upsert_of(rows, fragments, None if key % 2 else key)


def upsert_of(rows: dict[int, Int64], fragments: tuple[Fragment, ...], key: int | None) -> Update:
    """An upsert of one key that cannot read what others added; without a key, one of those in its files that can."""
    mine = keys_in(fragments) if key is None else {key}
    keys = KeyFilter.of((0,), np.array(sorted(mine), np.uint64))

    def has_keys(added: Added) -> bool:
        return bool(mine & keys_in(added.fragments))

    return Update(rows, fragments, fields=(0,), keys=keys, has_keys=has_keys if key is None else None)


def _update_columns(world: World, history: History, version: int) -> Operation:
    table = history[version]
    if not table.parts:
        return Append(files(world, 1, _columns(table)))
    part = world.rng.choice(table.parts)
    column = world.rng.choice(_columns(table))
    rows = np.array(sorted(world.rng.sample(part.living, 1)), np.int64)
    return Update(columns={part.id: _file(world, (column,))}, updated_rows={part.id: rows}, fields=(column,))


def _replace_data(world: World, history: History, version: int) -> Operation:
    table = history[version]
    if not table.parts:
        return Append(files(world, 1, _columns(table)))
    part = world.rng.choice(table.parts)
    return DataReplacement(((part.id, _file(world, (world.rng.choice(_columns(table)),))),))


def _rewrite(world: World, history: History, version: int) -> Operation:
    table, rng = history[version], world.rng
    if not table.parts:
        return Append(files(world, 1, _columns(table)))
    start = rng.randrange(len(table.parts))
    return rewrite_of(world, table, version, table.parts[start : start + rng.randrange(1, 4)])


def rewrite_of(world: World, table: Table, version: int, parts: Sequence[Part]) -> Rewrite:
    """The rewrite of some fragments of a version as one or two."""
    rows = [part.stable[n] if table.stable else None for part in parts for n in part.living]
    cut = world.rng.choice((len(rows), world.rng.randrange(1, len(rows) + 1)))
    new = []
    for piece in (rows[:cut], rows[cut:]):
        if piece:
            made = Fragment(0, (_file(world, _columns(table)),), physical_rows=len(piece))
            new.append(_lineage(made, [row for row in piece if row], table.stable, updated=True))
    stored = world.fragments(version)
    return Rewrite((RewriteGroup(tuple(stored[part.id] for part in parts), tuple(new)),))


def _schema(columns: Iterable[int]) -> Schema:
    return Schema(tuple(Field(f"c{column}", column, logical_type="int64") for column in columns))


def _add_column(world: World, history: History, version: int) -> Operation:
    table, stored = history[version], world.fragments(version)
    column = 1 + max([0, *table.columns, *(number for part in table.parts for number in part.files)])
    fragments = [
        replace(stored[part.id], files=(*stored[part.id].files, _file(world, (column,))))
        for part in table.parts
    ]
    return Merge(tuple(fragments), _schema((*_columns(table), column)))


def _project(world: World, history: History, version: int) -> Operation:
    columns = list(_columns(history[version]))
    if len(columns) > 1:
        columns.remove(world.rng.choice(columns[1:]))
    return Project(_schema(columns))


def _index(world: World, history: History, version: int) -> Operation:
    """An index of a column of some fragments, in place of another one, if there is any."""
    table, rng = history[version], world.rng
    covered = [part.id for part in table.parts if rng.random() < 0.7]
    known = world.indices(version)
    gone = tuple(rng.sample(known, min(1, len(known))))
    unique = uuid.UUID(int=rng.getrandbits(128))
    new = make_index(
        uuid=unique,
        name=f"i{unique}",
        fields=(rng.choice(_columns(table)),),
        dataset_version=version,
        fragments=covered,
    )
    return CreateIndex((new,), gone)


# What makes a change of a table at the version given, one for each kind of change.
MAKERS: dict[str, Callable[[World, History, int], Operation]] = {
    "append": lambda world, history, version: Append(files(world, world.rng.randrange(1, 3))),
    "delete": _delete,
    "delete whole": _delete_whole,
    "overwrite": lambda world, history, version: Overwrite(files(world, world.rng.randrange(3)), SCHEMA),
    "restore": lambda world, history, version: Restore(world.rng.choice(sorted(history))),
    "reserve": lambda world, history, version: ReserveFragments(world.rng.randrange(1, 4)),
    "config": _config,
    "bases": _bases,
    "repair": lambda world, history, version: RepairRowIds(),
    "update": _update,
    "upsert": _upsert,
    "update columns": _update_columns,
    "rewrite": _rewrite,
    "add column": _add_column,
    "project": _project,
    "replace data": _replace_data,
    "index": _index,
}


def make(kind: str, world: World, history: History, version: int) -> Operation:
    """A change of the given kind that makes sense for a version."""
    return MAKERS[kind](world, history, version)


@dataclass
class Simulation:
    """A world, its writers, and what they were told.

    Attributes
    ----------
    protocol : callable
        What is under test: ``commit.commit`` or a variant of it.
    """

    world: World
    protocol: Protocol = commit
    policy: Policy = field(default_factory=Policy)
    ledger: Ledger = field(default_factory=Ledger)
    stable: bool = False
    versions: VersionStore = field(default_factory=ConditionalPut)

    def __post_init__(self) -> None:
        self.world.copies = not self.versions.needs_conditional_put

    @classmethod
    def of(cls, seed: int, protocol: Protocol = commit, **given: Any) -> Simulation:
        """A world with a table of one version."""
        rng = random.Random(seed)
        simulation = cls(World(rng), protocol, stable=rng.random() < 0.5, **given)
        simulation.commit_now(simulation.creation(), None)
        return simulation

    def creation(self) -> Operation:
        """What creates a table."""
        return Overwrite(files(self.world, 2), SCHEMA, data_version="2.1", stable_row_ids=self.stable)

    def history(self) -> dict[int, Table]:
        """The versions that are there, as the model has them."""
        found = replay(self.world, self.ledger)[0]
        return {version: found[version] for version in self.world.manifests() if version in found}

    def origin(self, version: int) -> Origin:
        """A version as a writer opened it."""
        path = self.world.manifests()[version]
        return Origin(version, Naming.V2, identity_of(self.world.objects[path]))

    def violations(self) -> list[str]:
        """What is wrong, once a reader has finished what writers that died left half published."""
        if self.world.copies:
            run_steps(self.versions.versions(), self.world.carry_out)
        return violations(self.world, self.ledger)

    def start(
        self, operation: Operation, version: int | None, token: str | None = None, **changed: Any
    ) -> Running:
        """A commit that begins; what comes of it is noted in the ledger."""
        unique = str(uuid.UUID(int=self.world.rng.getrandbits(128))) if token is None else token
        transaction = Transaction(version or 0, unique, operation)
        self.ledger.intents.setdefault(unique, transaction)
        self.ledger.reads.setdefault(unique, set()).add(version or 0)
        policy = replace(self.policy, **changed)
        origin = self.origin(version) if version else None
        return Running(self, unique, self.protocol(transaction, origin, policy, self.versions))

    def commit_now(self, operation: Operation, version: int | None, **given: Any) -> Any:
        """Commit without anybody in between and without faults."""
        return self.start(operation, version, **given).finish()


@dataclass
class Running:
    """A commit on its way."""

    simulation: Simulation
    uuid: str
    steps: Steps[Any]
    met: list[Fault] = field(default_factory=list)

    def advance(self, faults: Iterable[Fault | None] = ()) -> Generator[Request, None, Any]:
        """One request per step. Returns what came of it: a ``Committed``, an error, or None of a dead process."""
        ledger = self.simulation.ledger
        try:
            committed = yield from run(self.steps, self.simulation.world, iter(faults), self.met)
        except Crash:
            ledger.failed.discard(self.uuid)
            return None
        except CommitUnknownError as error:
            ledger.unknown[self.uuid] = bool(_DOUBTFUL & set(self.met))
            return error
        except LanceError as error:
            ledger.failed.add(self.uuid)
            return error
        ledger.acked[self.uuid] = committed.version
        return committed

    def finish(self, faults: Iterable[Fault | None] = ()) -> Any:
        """Run to the end; returns as :meth:`advance`."""
        running = self.advance(faults)
        while True:
            try:
                next(running)
            except StopIteration as end:
                return end.value
