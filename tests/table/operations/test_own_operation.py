"""An operation of one's own, all of it in this module: columns get other names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import lancecy
from lancecy.errors import ConflictError, RetryableConflictError, SchemaError
from lancecy.limits import Limits
from lancecy.proto import table_pb2, transaction_pb2
from lancecy.table.commit.conflicts import COLUMNS, GRID, Verdict, check
from lancecy.table.operations import (
    Append,
    Foreign,
    MapUpdate,
    Operation,
    Overwrite,
    Restore,
    UpdateConfig,
    decode_transaction,
    encode_transaction,
    new_transaction,
)
from lancecy.table.operations.base import Footprint, NewManifest, VersionStamp
from lancecy.table.operations.registry import REGISTRY
from lancecy.table.wire.manifest_file import ManifestFile, decode_manifest_file
from tests.helpers.committing import change
from tests.helpers.snapshots import snapshot_of
from tests.simulator.actors import MAKERS
from tests.simulator.model import AFTER, EXCLUDED, Table
from tests.simulator.single_faults import check_single_faults
from tests.simulator.world import World
from tests.table.grid import LETTERS

ROW = {
    **dict.fromkeys([*COLUMNS, "rename"], "."),
    **dict.fromkeys(
        "merge merge_strict schema_metadata field_metadata project project_strict rename".split(), "R"
    ),
    **dict.fromkeys("overwrite restore clone unknown".split(), "I"),
}


@dataclass(frozen=True, slots=True)
class Rename(Operation):
    """Give every column a name. Stored as a ``project``, in whose place it is registered.

    Attributes
    ----------
    names : mapping of field id to str
    """

    kinds = ("rename",)

    names: Mapping[int, str]

    def footprints(self) -> tuple[Footprint, ...]:
        return (Footprint("rename", fields=frozenset(self.names)),)

    @property
    def changes_schema(self) -> bool:
        return True

    def apply(self, base: ManifestFile, stamp: VersionStamp) -> NewManifest:
        made = NewManifest.copy_of(base)
        if {column.id for column in made.message.fields} != {*self.names}:
            raise SchemaError("the table has other columns", difference="columns")
        for column in made.message.fields:
            column.name = self.names[column.id]
        return made

    def encode(self, message: transaction_pb2.Transaction, made: table_pb2.Manifest) -> None:
        message.project.schema.extend(made.fields)
        message.project.preserves_nullability = True

    @classmethod
    def decode(cls, message: transaction_pb2.Transaction, limits: Limits) -> Rename:
        return cls({column.id: column.name for column in message.project.schema})


def _make(world: World, history: Mapping[int, Table], version: int) -> Rename:
    return Rename({0: f"n{world.rng.getrandbits(40):x}", 1: "m"})


def _after(table: Table, operation: Rename, version: int, history: Mapping[int, Table]) -> Table:
    return replace(table, columns=operation.names)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line of the registry, the row and the column of the grid, and the model of the simulator."""
    operation: type[Operation] = Rename
    monkeypatch.setitem(REGISTRY, "project", operation)
    for row in GRID.values():
        monkeypatch.setitem(row, "rename", row["project"])
    monkeypatch.setitem(GRID, "rename", ROW)
    monkeypatch.setitem(MAKERS, "rename", _make)
    monkeypatch.setitem(AFTER, operation, _after)
    monkeypatch.setitem(EXCLUDED, operation, (Overwrite, Restore, Rename))


RENAME = Rename({0: "n", 1: "words"})


def made(path: Path) -> str:
    """A local table of the columns a and b."""
    return lancecy.write_dataset({"a": [1, 2], "b": ["x", "y"]}, path / "t", durability="none").uri


def test_it_is_committed_to_a_local_table(tmp_path: Path) -> None:
    uri = made(tmp_path)
    assert change(uri, RENAME).version == 2
    ds = lancecy.dataset(uri)
    assert ds.to_table(filter="words = 'y'").to_pydict() == {"n": [2], "words": ["y"]}
    ds.append({"n": [3], "words": ["z"]}, durability="none")
    assert ds.count_rows() == 3


@pytest.mark.interop
def test_pylance_reads_what_it_made(tmp_path: Path) -> None:
    import lance

    uri = made(tmp_path)
    change(uri, RENAME)
    assert lance.dataset(uri).to_table().to_pydict() == {"n": [1, 2], "words": ["x", "y"]}
    newest = lance.dataset(uri).read_transaction(2)
    assert newest is not None and isinstance(newest.operation, lance.LanceOperation.Project)


def test_it_is_put_on_top_of_an_append_that_was_faster(tmp_path: Path) -> None:
    uri = made(tmp_path)
    before = snapshot_of(uri)
    lancecy.dataset(uri).append({"a": [3], "b": ["z"]}, durability="none")
    assert change(uri, RENAME, snapshot=before).version == 3
    assert lancecy.dataset(uri).to_table().to_pydict() == {"n": [1, 2, 3], "words": ["x", "y", "z"]}


def test_it_conflicts_as_its_row_says(tmp_path: Path) -> None:
    expected = {column: LETTERS[letter] for column, letter in ROW.items()}
    assert {column: check(RENAME, Foreign(column)) for column in ROW} == expected
    uri = made(tmp_path)
    before = snapshot_of(uri)
    change(uri, RENAME)
    with pytest.raises(RetryableConflictError, match="version 2 .an operation of kind Rename.*changed"):
        change(uri, Rename({0: "a", 1: "c"}), snapshot=before)
    before = snapshot_of(uri)
    lancecy.write_dataset({"x": [1]}, uri, mode="overwrite", durability="none")
    with pytest.raises(
        ConflictError, match="version 3 .an operation of kind Overwrite.*of kind Rename, cannot both"
    ):
        change(uri, RENAME, snapshot=before)


def test_others_conflict_with_it_as_its_column_says() -> None:
    assert check(Append(()), RENAME) is Verdict.COMPATIBLE
    on_gone = UpdateConfig(field_metadata={7: MapUpdate({"k": "v"})})
    assert check(on_gone, RENAME) is Verdict.INCOMPATIBLE


@pytest.mark.parametrize("rival", [False, True], ids=["alone", "raced"])
def test_it_survives_every_fault_at_every_request(rival: bool) -> None:
    check_single_faults("rename", rival)


def test_it_comes_back_from_its_bytes(tmp_path: Path) -> None:
    uri = made(tmp_path)
    committed = change(uri, RENAME)
    location = committed.location
    stored = decode_manifest_file(snapshot_of(uri).store.get(location.path), location.path, committed.version)
    assert decode_transaction(stored.transaction or b"").operation == RENAME
    again = encode_transaction(new_transaction(RENAME), stored.message)
    assert decode_transaction(again).operation == RENAME
