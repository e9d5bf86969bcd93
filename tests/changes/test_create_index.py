"""Indices that pylance made are committed and removed by lancecy, and pylance's answers by them are right."""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancecy
from lancecy import LanceOperation
from lancecy.errors import ConflictError, RetryableConflictError, SchemaError, UnsupportedError

pytestmark = pytest.mark.interop


@pytest.fixture(params=[False, True], ids=["addresses", "ids"])
def ds(request: pytest.FixtureRequest, tmp_path: Path) -> lancecy.Dataset:
    """Version 1 has two fragments of 50 rows and no index; pylance made one in version 2, and version 3 restores 1."""
    rows = {"n": list(range(100)), "word": [f"w{n % 7}" for n in range(100)]}
    made = lancecy.write_dataset(
        rows, tmp_path / "t", max_rows_per_file=50, enable_stable_row_ids=request.param
    )
    peer(made).create_scalar_index("n", "BTREE")
    latest = made.checkout_latest()
    latest.checkout_version(1).restore()
    return made.checkout_latest()


def peer(ds: lancecy.Dataset) -> Any:
    import lance

    return lance.dataset(ds.uri)


def entry(ds: lancecy.Dataset) -> Any:
    """The entry of the index that pylance made."""
    made = ds.read_transaction(2)
    assert made is not None
    (index,) = made.operation.new_indices
    return index


def other(index: Any, **changed: Any) -> Any:
    return replace(index, **{"uuid": str(uuid.uuid4()), "name": "other", **changed})


def coverage(ds: lancecy.Dataset) -> list[tuple[str, list[str], list[int]]]:
    """Each part of each index, as pylance describes it."""
    return [
        (index.name, index.field_names, sorted(part.fragment_ids))
        for index in peer(ds).describe_indices()
        for part in index.segments
    ]


def check_answers(ds: lancecy.Dataset) -> None:
    """What pylance finds with indices is what a scan finds."""
    for condition in ("n = 3", "n > 45 and n < 60", "n >= 1000", "n in (7, 77, 1003)"):
        found = peer(ds).to_table(filter=condition).sort_by("n")
        scanned = peer(ds).scanner(filter=condition, use_scalar_index=False).to_table().sort_by("n")
        assert (
            found.to_pylist() == scanned.to_pylist() == ds.to_table(filter=condition).sort_by("n").to_pylist()
        )


def uses_index(ds: lancecy.Dataset) -> bool:
    plan: str = peer(ds).scanner(filter="n = 3").explain_plan()
    return "ScalarIndexQuery" in plan


def test_index_is_committed_used_and_removed(ds: lancecy.Dataset) -> None:
    assert coverage(ds) == [] and not uses_index(ds)
    made = lancecy.commit(ds, LanceOperation.CreateIndex([entry(ds)], []))
    assert coverage(made) == [("n_idx", ["n"], [0, 1])]
    assert uses_index(made)
    check_answers(made)
    made.append({"n": [1003], "word": ["new"]})
    check_answers(made)
    gone = lancecy.commit(made, LanceOperation.CreateIndex([], [entry(made)]))
    assert coverage(gone) == [] and not uses_index(gone)
    check_answers(gone)


def test_index_of_pylance_itself_is_committed_and_shown_by_both(ds: lancecy.Dataset) -> None:
    theirs = peer(ds).read_transaction(2).operation
    made = lancecy.commit(ds, LanceOperation.CreateIndex(theirs.new_indices, theirs.removed_indices))
    shown, mine = peer(made).read_transaction(made.version).operation, made.read_transaction(made.version)
    assert type(shown).__name__ == "CreateIndex" and mine is not None
    assert mine.operation.new_indices == (entry(ds),)
    for name in ("uuid", "name", "fields", "dataset_version", "index_version", "created_at", "index_details"):
        assert getattr(shown.new_indices[0], name) == getattr(theirs.new_indices[0], name), name
    assert [(f.path, f.size_bytes) for f in shown.new_indices[0].files] == [
        (f.path, f.size_bytes) for f in theirs.new_indices[0].files
    ]


def test_index_does_not_cover_what_changed_since_it_was_made(ds: lancecy.Dataset) -> None:
    index = LanceOperation.CreateIndex([entry(ds)], [])
    changed = replace_values(ds)
    with pytest.raises(RetryableConflictError):
        lancecy.commit(ds, index)
    made = lancecy.commit(changed, index)
    assert coverage(made) == [("n_idx", ["n"], [1])]
    check_answers(made)
    assert made.to_table(filter="n = 1003").num_rows == 1


def replace_values(ds: lancecy.Dataset) -> lancecy.Dataset:
    """Other numbers in the first fragment, in place."""
    import lance

    theirs = peer(ds)
    part, fields = theirs.get_fragments()[0].update_columns(
        pa.table({"_rowaddr": pa.array([3], pa.uint64()), "n": [1003]}), "_rowaddr", "_rowaddr"
    )
    operation = lance.LanceOperation.Update(
        updated_fragments=[part], fields_modified=fields, update_mode="rewrite_columns"
    )
    lance.LanceDataset.commit(ds.uri, operation, read_version=theirs.version)
    return ds.checkout_latest()


def test_an_entry_with_the_same_uuid_is_replaced_and_parts_of_a_name_stay(ds: lancecy.Dataset) -> None:
    first = replace(entry(ds), fragment_ids={0})
    made = lancecy.commit(ds, LanceOperation.CreateIndex([first], []))
    made = lancecy.commit(made, LanceOperation.CreateIndex([entry(ds)], []))
    assert coverage(made) == [("n_idx", ["n"], [0, 1])]
    with pytest.raises(ValueError, match="'n_idx' that covers fragment 0 already"):
        lancecy.commit(made, LanceOperation.CreateIndex([other(entry(ds), name="n_idx")], []))
    made = lancecy.commit(made, LanceOperation.CreateIndex([first], []))
    part = other(entry(ds), name="n_idx", fragment_ids={1})
    made = lancecy.commit(made, LanceOperation.CreateIndex([part], []))
    assert coverage(made) == [("n_idx", ["n"], [0]), ("n_idx", ["n"], [1])]
    missing = LanceOperation.CreateIndex([], [other(entry(ds))])
    assert coverage(lancecy.commit(made, missing)) == coverage(made)


@pytest.mark.parametrize(("changed", "error", "message"), [
    ({"fields": [77]}, SchemaError, "field 77"),
    ({"fields": []}, ValueError, "has no fields"),
    ({"fragment_ids": {9}}, ValueError, "fragment 9"),
    ({"fragment_ids": {-1}}, ValueError, "fragment -1"),
    ({"base_id": 5}, SchemaError, "an index is in base 5"),
    ({"uuid": "abc"}, ValueError, "UUID"),
    ({"name": "__lance_mem_wal"}, UnsupportedError, "__lance_mem_wal"),
])  # fmt: skip
def test_index_that_cannot_be_right_is_refused(
    ds: lancecy.Dataset, changed: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        lancecy.commit(ds, LanceOperation.CreateIndex([other(entry(ds), **changed)], []))
    assert ds.latest_version == ds.version


def test_two_indices_of_one_name_or_id_are_refused(ds: lancecy.Dataset) -> None:
    index = entry(ds)
    with pytest.raises(ValueError, match="is given twice"):
        lancecy.commit(ds, LanceOperation.CreateIndex([index, index], []))
    with pytest.raises(ValueError, match="on other columns"):
        lancecy.commit(ds, LanceOperation.CreateIndex([index, other(index, name="n_idx", fields=[1])], []))


def test_what_happens_between_is_passed_by_or_told(ds: lancecy.Dataset) -> None:
    before = ds.version
    ds.append({"n": [1003], "word": ["new"]})
    ds.delete("n = 7")
    ds.update({"word": "'x'"}, "n = 60")
    made = lancecy.commit(ds, LanceOperation.CreateIndex([entry(ds)], []), read_version=before)
    check_answers(made)
    again = LanceOperation.CreateIndex([other(entry(ds), name="n_idx", fragment_ids=())], [])
    with pytest.raises(RetryableConflictError):
        lancecy.commit(made, again, read_version=before)
    index, before = other(entry(ds)), made.version
    made.optimize.compact_files()
    with pytest.raises(RetryableConflictError):
        lancecy.commit(made, LanceOperation.CreateIndex([index], []), read_version=before)
    before = made.version
    made.drop_columns(["n"])
    with pytest.raises(ConflictError):
        lancecy.commit(made, LanceOperation.CreateIndex([index], []), read_version=before)


def test_files_of_a_committed_index_survive_a_cleanup(ds: lancecy.Dataset) -> None:
    from datetime import timedelta

    made = lancecy.commit(ds, LanceOperation.CreateIndex([entry(ds)], []))
    made.cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert uses_index(made)
    check_answers(made)


def test_clones_and_overlays_are_refused_by_name(ds: lancecy.Dataset) -> None:
    clone = LanceOperation.Clone(True, None, 1, ds.uri, None)
    with pytest.raises(UnsupportedError, match="shallow_clone and deep_clone"):
        lancecy.commit(ds, clone)
    data_file = ds.get_fragments()[0].metadata.files[0]
    group = LanceOperation.DataOverlayGroup(0, [LanceOperation.DataOverlayFile(data_file, [3])])
    with pytest.raises(UnsupportedError, match="DataOverlay"):
        lancecy.commit(ds, LanceOperation.DataOverlay([group]))
    assert ds.latest_version == ds.version


def test_clones_of_pylance_are_shown(ds: lancecy.Dataset, tmp_path: Path) -> None:
    import lance

    cloned = peer(ds).shallow_clone(str(tmp_path / "c"), reference=ds.version)
    theirs = lance.dataset(cloned.uri).read_transaction(cloned.version)
    mine = lancecy.dataset(cloned.uri, allowed_bases=[ds.uri]).read_transaction(cloned.version)
    assert mine is not None and theirs is not None
    assert mine.operation_name == type(theirs.operation).__name__ == "Clone"
    assert vars(mine.operation) == vars(theirs.operation)
