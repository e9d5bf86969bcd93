"""The conflict grid, cell by cell, against what was measured on the reference implementation."""

from __future__ import annotations

import numpy as np
import pytest

from lancecy.proto import table_pb2, transaction_pb2
from lancecy.table.commit.conflicts import COLUMNS, GRID, Verdict, check
from lancecy.table.manifest import BasePath, DataFile
from lancecy.table.operations import (
    UNKNOWN,
    Append,
    Clone,
    CreateIndex,
    Delete,
    Foreign,
    MapUpdate,
    ReserveFragments,
    Restore,
    Update,
    UpdateBases,
    UpdateConfig,
)
from lancecy.table.operations.base import Footprint
from lancecy.table.operations.key_filter import KeyFilter
from lancecy.table.operations.registry import REGISTRY
from lancecy.table.operations.transaction import decode_transaction
from tests.helpers.builders import make_deletion_file, make_index
from tests.table.grid import MINE, measured, theirs


@pytest.mark.parametrize("mine", MINE)
def test_every_measured_cell_is_what_the_grid_says(mine: str) -> None:
    assert {column: check(MINE[mine], operation) for column, operation in theirs(0).items()} == measured(mine)


def test_changes_of_other_fragments_never_disturb_a_delete() -> None:
    single = [name for name in theirs(0) if name.endswith("0")]
    assert {check(MINE["delete0"], theirs(1)[name]) for name in single} == {Verdict.COMPATIBLE}


def test_grid_has_a_letter_for_every_pair() -> None:
    made = {
        kind
        for operation in REGISTRY.values()
        if not issubclass(operation, Foreign | Clone)
        for kind in operation.kinds
    }
    read = {kind for operation in REGISTRY.values() for kind in operation.kinds}
    assert set(GRID) == made | {"fast_forward"}, "a fast-forward is stored as an overwrite"
    assert set(COLUMNS) == read - {"relocate"}, "a relocation is stored as an update of bases"
    assert all(tuple(row) == tuple(COLUMNS) for row in GRID.values())
    assert {letter for row in GRID.values() for letter in row.values()} == set(".RIfdwrekmbgxicnauv")


@pytest.mark.parametrize("mine", MINE)
def test_what_nobody_knows_excludes_everything(mine: str) -> None:
    for kind in ("unknown", "clone", "of the future"):
        assert check(MINE[mine], Foreign(kind)) is Verdict.INCOMPATIBLE


@pytest.mark.parametrize("mine", ["append", "delete0", "overwrite", "restore"])
def test_rows_in_a_write_ahead_log_are_not_passed_by(mine: str) -> None:
    assert check(MINE[mine], Foreign("mem_wal")) is Verdict.INCOMPATIBLE


@pytest.mark.parametrize(("ours", "other", "verdict"), [
    ({"a": "1"}, {"b": "1"}, Verdict.COMPATIBLE),
    ({"a": "1"}, {"a": None}, Verdict.INCOMPATIBLE),
    ({"a": None}, {"a": "1"}, Verdict.INCOMPATIBLE),
    ({"a": None}, {"a": None}, Verdict.COMPATIBLE),
])  # fmt: skip
@pytest.mark.parametrize("name", ["config", "table_metadata"])
def test_maps_conflict_by_key(
    name: str, ours: dict[str, str | None], other: dict[str, str | None], verdict: Verdict
) -> None:
    def of(entries: dict[str, str | None]) -> UpdateConfig:
        update = MapUpdate(entries)
        return UpdateConfig(config=update) if name == "config" else UpdateConfig(table_metadata=update)

    assert check(of(ours), of(other)) is verdict


def test_replacing_a_map_conflicts_with_any_change_of_it() -> None:
    whole, one = UpdateConfig(MapUpdate({}, replace=True)), UpdateConfig(MapUpdate({"a": "1"}))
    assert check(whole, one) is check(one, whole) is Verdict.INCOMPATIBLE
    assert check(whole, UpdateConfig(table_metadata=MapUpdate({"a": "1"}))) is Verdict.COMPATIBLE


def test_metadata_of_other_fields_does_not_conflict() -> None:
    other = UpdateConfig(field_metadata={2: MapUpdate({"k": "1"})})
    assert check(MINE["fieldmeta"], other) is Verdict.COMPATIBLE


def test_the_severest_map_decides() -> None:
    several = UpdateConfig(MapUpdate({"k": "1"}), schema_metadata=MapUpdate({"s": "1"}))
    assert check(several, Foreign("merge")) is Verdict.RETRY
    assert check(several, UpdateConfig(MapUpdate({"k": "1"}))) is Verdict.INCOMPATIBLE


@pytest.mark.parametrize(("other", "verdict"), [
    (BasePath(0, "/third", "b3"), Verdict.COMPATIBLE),
    (BasePath(0, "/third"), Verdict.COMPATIBLE),
    (BasePath(0, "/third", "b2"), Verdict.INCOMPATIBLE),
    (BasePath(0, "/elsewhere", "b3"), Verdict.INCOMPATIBLE),
])  # fmt: skip
def test_bases_conflict_by_name_and_place(other: BasePath, verdict: Verdict) -> None:
    assert check(MINE["bases"], UpdateBases((other,))) is verdict


def test_bases_conflict_by_explicit_id() -> None:
    mine, other = UpdateBases((BasePath(4, "/x", "x"),)), UpdateBases((BasePath(4, "/y", "y"),))
    assert check(mine, other) is Verdict.INCOMPATIBLE


def test_base_is_not_moved_from_under_new_files() -> None:
    relocate = UpdateBases((BasePath(4, "/copy", "b"),), relocate=True)
    for added in (Append(()), Restore(1), Foreign("merge"), Foreign("rewrite"), Foreign("update_rows")):
        assert check(relocate, added) is Verdict.RETRY
    for harmless in (Delete(removed=(1,)), UpdateConfig(MapUpdate({"k": "v"})), ReserveFragments(1)):
        assert check(relocate, harmless) is Verdict.COMPATIBLE


def test_indices_conflict_by_name() -> None:
    mine, other = make_index(name="mine"), make_index(name="other")
    assert check(CreateIndex((mine,)), CreateIndex((other,), (other,))) is Verdict.COMPATIBLE
    assert check(CreateIndex((), (mine,)), CreateIndex((), (mine,))) is Verdict.COMPATIBLE
    assert check(CreateIndex((mine,)), CreateIndex((), (mine,))) is Verdict.RETRY
    assert check(CreateIndex((), (mine,)), CreateIndex((mine,))) is Verdict.RETRY


def test_index_conflicts_with_changes_of_what_it_covers() -> None:
    mine = CreateIndex((make_index(fields=(1,), fragments=(0,)),))
    for kind in ("update_columns", "replacement"):
        other = Foreign(kind, rewritten=frozenset({0}), fields=frozenset({2}))
        assert check(mine, other) is Verdict.COMPATIBLE
        assert check(mine, Foreign(kind, rewritten=frozenset({1}))) is Verdict.COMPATIBLE
        assert check(mine, Foreign(kind, rewritten=frozenset({0}))) is Verdict.RETRY
    assert (
        check(CreateIndex((), mine.new), Foreign("rewrite", rewritten=frozenset({0}))) is Verdict.COMPATIBLE
    )


def test_delete_whose_files_are_written_cannot_be_merged() -> None:
    written = Delete(files={0: make_deletion_file()})
    assert check(written, Delete({0: np.array([1])})) is Verdict.RETRY
    assert check(MINE["delete0"], written) is Verdict.MERGE


def test_removing_a_fragment_conflicts_with_deletes_in_it() -> None:
    assert check(Delete(removed=(0,)), Delete({0: np.array([1])})) is Verdict.RETRY
    assert check(Delete(removed=(0,)), Delete(removed=(0,))) is Verdict.RETRY


def test_foreign_operation_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="not one that lancecy makes"):
        check(Foreign("clone"), Append(()))


def message(**operation: object) -> transaction_pb2.Transaction:
    """A transaction of another writer."""
    return transaction_pb2.Transaction(read_version=3, uuid="theirs", **operation)  # type: ignore[arg-type]


FRAGMENT = table_pb2.DataFragment(id=7, physical_rows=5)
T = transaction_pb2.Transaction
INDEX = table_pb2.IndexMetadata(fields=[3], uuid=table_pb2.UUID(uuid=bytes(range(16))))


ONE = frozenset({7})


@pytest.mark.parametrize(("theirs", "expected"), [
    (message(update=T.Update(updated_fragments=[FRAGMENT], removed_fragment_ids=[9])),
     Footprint("update_rows", ONE, frozenset({9}))),
    (message(update=T.Update(updated_fragments=[FRAGMENT], update_mode=T.Update.REWRITE_COLUMNS)),
     Footprint("update_columns", rewritten=ONE, fields=frozenset())),
    (message(update=T.Update(updated_fragments=[FRAGMENT], fields_modified=[2])),
     Footprint("update_columns", rewritten=ONE, fields=frozenset({2}))),
    (message(rewrite=T.Rewrite(groups=[T.Rewrite.RewriteGroup(old_fragments=[FRAGMENT])])),
     Footprint("rewrite", rewritten=ONE, knows_rows=True)),
    (message(rewrite=T.Rewrite(old_fragments=[FRAGMENT])), Footprint("rewrite", rewritten=ONE, knows_rows=True)),
    (message(merge=T.Merge(preserves_nullability=True)), Footprint("merge", fields=frozenset())),
    (message(merge=T.Merge()), Footprint("merge_strict", fields=frozenset())),
    (message(project=T.Project()), Footprint("project_strict", fields=frozenset())),
    (message(data_replacement=T.DataReplacement(replacements=[
        T.DataReplacementGroup(fragment_id=7, new_file=table_pb2.DataFile(path="f", fields=[2], column_indices=[0]))])),
     Footprint("replacement", rewritten=ONE, fields=frozenset({2}))),
    (message(data_overlay=T.DataOverlay(groups=[T.DataOverlayGroup(fragment_id=7)])),
     Footprint("overlay", rewritten=ONE)),
    (message(create_index=T.CreateIndex(new_indices=[INDEX])),
     Footprint("index", upserts=frozenset({""}), fields=frozenset({3}))),
    (message(update_mem_wal_state=T.UpdateMemWalState()), Footprint("mem_wal")),
    (message(clone=T.Clone()), Footprint("clone")),
    (message(update_config=T.UpdateConfig(field_metadata=[b"x"])), Footprint("unknown")),
    (message(), Footprint("unknown")),
])  # fmt: skip
def test_operations_of_others_leave_the_right_footprint(
    theirs: transaction_pb2.Transaction, expected: Footprint
) -> None:
    found = decode_transaction(theirs.SerializeToString()).operation
    assert found.footprints() == (expected,)
    assert expected.kind in found.kinds


def test_operation_of_the_future_is_unknown() -> None:
    # Field 116, a message, which no release knows.
    data = message().SerializeToString() + bytes([0xA2, 0x07, 0x00])
    assert decode_transaction(data).operation == UNKNOWN


def test_rows_with_other_keys_are_no_conflict_once_they_were_read() -> None:
    keys = KeyFilter.of((0,), np.array([5], np.uint64))
    mine = Update({0: np.array([1])}, fields=(0,), keys=keys)
    others = {
        "append": Append(()),
        "names no keys": Update({0: np.array([2])}),
        "names the key": Update({0: np.array([2])}, keys=keys),
        "replaced in place": Update(columns={9: DataFile("f.lance", (0,), (0,), 2, 1, 30)}),
        "removed the fragment": Update(removed=(0,)),
    }
    assert {check(mine, other) for other in others.values()} == {Verdict.RETRY}
    assert {name: check(mine, other, other_keys=True) for name, other in others.items()} == {
        "append": Verdict.COMPATIBLE,
        "names no keys": Verdict.MERGE,
        "names the key": Verdict.MERGE,
        "replaced in place": Verdict.RETRY,
        "removed the fragment": Verdict.RETRY,
    }
