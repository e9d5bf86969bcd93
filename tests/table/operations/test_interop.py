"""Operations that move rows or replace columns, committed by lancecy and read by pylance, with and without row ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lancecy.changes.moves import moved
from lancecy.errors import RetryableConflictError, SchemaError
from lancecy.limits import DEFAULT_LIMITS
from lancecy.schema import Field, Schema
from lancecy.store.local import LocalStore
from lancecy.table.answers import answer, run
from lancecy.table.commit.history import History
from lancecy.table.field_ids import next_field_id
from lancecy.table.manifest import Fragment
from lancecy.table.operations import (
    DataReplacement,
    Delete,
    Merge,
    Project,
    Rewrite,
    RewriteGroup,
    Update,
)
from lancecy.table.operations.base import Newest
from lancecy.table.paths import Naming, manifest_name
from lancecy.table.requests import ReadDeletion, Request, one_by_one
from lancecy.table.snapshot import Snapshot
from lancecy.table.versions import version_store
from lancecy.table.wire.manifest_file import ManifestFile, decode_manifest_file
from lancecy.write.fragments import FileLimits, NewFiles
from tests.helpers.committing import append, change, create, numbers
from tests.helpers.snapshots import snapshot_of

pytestmark = pytest.mark.interop

ROWS = 40


@pytest.fixture(params=[False, True], ids=["addresses", "stable ids"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A table of two fragments, of versions 1 and 2: ``numbers(0, 40)`` and ``numbers(40, 20)``."""
    place = str(tmp_path / "t")
    create(place, numbers(0, ROWS), stable_row_ids=request.param)
    append(place, numbers(ROWS, 20))
    return place


def written(snapshot: Snapshot, rows: pa.Table, schema: Schema | None = None) -> tuple[Fragment, ...]:
    """Fragments of rows, not committed, in the table's version of files."""
    folder = LocalStore(snapshot.uri)
    version = snapshot.manifest.data_version or ""
    files = NewFiles(
        schema or snapshot.schema, version, (None,), lambda base: (folder, "data/"), FileLimits(1 << 20)
    )
    return files.write(rows.combine_chunks().to_batches())


def address(fragment: int, offsets: Sequence[int]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return np.array([fragment << 32 | offset for offset in offsets], np.uint64)


def update_of(snapshot: Snapshot, fragment: int, offsets: list[int], extra: pa.Table | None = None) -> Update:
    """Rows of a fragment with 1000 in ``rest``, then other rows that are new."""
    old: Any = lance.dataset(snapshot.uri, version=snapshot.version)
    rows = old.get_fragment(fragment).to_table(with_row_address=True)
    places = (rows["_rowaddr"].to_numpy() & 0xFFFFFFFF).tolist()
    taken = rows.drop(["_rowaddr"]).take([places.index(offset) for offset in offsets])
    taken = taken.set_column(1, "rest", pa.array([1000] * len(offsets), pa.int32()))
    fragments = written(snapshot, pa.concat_tables([taken, extra] if extra else [taken]))
    return Update(
        {fragment: np.array(offsets)},
        moved(snapshot, fragments, address(fragment, offsets)),
        fields=(1,),
    )


def checked(uri: str) -> Any:
    dataset = lance.dataset(uri)
    dataset.validate()
    return dataset


def ids_by_number(uri: str) -> dict[int, int]:
    table = lance.dataset(uri).to_table(columns=["n"], with_row_id=True)
    return dict(zip(table["n"].to_pylist(), table["_rowid"].to_pylist(), strict=True))


def test_moved_rows_keep_their_ids_and_created_versions(uri: str) -> None:
    before = ids_by_number(uri)
    stable = lance.dataset(uri).has_stable_row_ids
    snapshot = snapshot_of(uri)
    change(uri, update_of(snapshot, 1, [3, 4, 7], numbers(100, 2)))
    dataset = checked(uri)
    found = dataset.to_table().sort_by("n").to_pydict()
    assert found["n"] == [*range(60), 100, 101]
    assert [n for n, rest in zip(found["n"], found["rest"], strict=True) if rest == 1000] == [43, 44, 47]
    if stable:
        after = ids_by_number(uri)
        assert after == {**before, 100: 60, 101: 61}
        columns = ["n", "_row_created_at_version", "_row_last_updated_at_version"]
        rows = dataset.to_table(columns=columns, filter="n IN (1, 43, 50, 100)").sort_by("n").to_pydict()
        assert rows["_row_created_at_version"] == [1, 2, 2, 3]
        assert rows["_row_last_updated_at_version"] == [1, 3, 2, 3]
    # The next rows get ids of their own.
    append(uri, numbers(200, 3))
    assert len(set(ids_by_number(uri).values())) == 65


def test_updates_of_other_rows_of_a_fragment_are_both_committed(uri: str) -> None:
    old = snapshot_of(uri)
    change(uri, update_of(old, 0, [1, 2]))
    change(uri, update_of(old, 0, [5, 30]), snapshot=old)
    found = checked(uri).to_table().sort_by("n").to_pydict()
    assert found["n"] == [*range(60)]
    assert [n for n, rest in zip(found["n"], found["rest"], strict=True) if rest == 1000] == [1, 2, 5, 30]


def test_updates_of_one_row_conflict(uri: str) -> None:
    old = snapshot_of(uri)
    change(uri, update_of(old, 0, [1, 2]))
    with pytest.raises(RetryableConflictError, match="deleted in version 3 already"):
        change(uri, update_of(old, 0, [2, 30]), snapshot=old)
    assert checked(uri).count_rows() == 60


def compaction(snapshot: Snapshot, split: int | None = None) -> Rewrite:
    """All rows in one fragment, or in two of which the first has ``split`` rows."""
    table = lance.dataset(snapshot.uri, version=snapshot.version).to_table(with_row_address=True)
    addresses = table["_rowaddr"].to_numpy()
    rows = table.drop(["_rowaddr"])
    parts = [rows] if split is None else [rows.slice(0, split), rows.slice(split)]
    fragments = [made for part in parts for made in written(snapshot, part)]
    new = moved(snapshot, fragments, addresses, are_updated=False)
    return Rewrite((RewriteGroup(tuple(snapshot.fragments), new),))


@pytest.mark.parametrize("split", [None, 35], ids=["one", "two"])
def test_rewrite_keeps_rows_and_ids_and_finds_rows_that_were_deleted_meanwhile(
    uri: str, split: int | None
) -> None:
    lance.dataset(uri).delete("n IN (0, 7, 39)")
    before, old = ids_by_number(uri), snapshot_of(uri)
    lance.dataset(uri).delete("n IN (1, 38, 41)")
    change(uri, update_of(snapshot_of(uri), 0, [20]))
    change(uri, compaction(old, split), snapshot=old)
    dataset = checked(uri)
    gone = {0, 7, 39, 1, 38, 41}
    found = dataset.to_table().sort_by("n").to_pydict()
    assert found["n"] == [n for n in range(60) if n not in gone]
    assert [n for n, rest in zip(found["n"], found["rest"], strict=True) if rest == 1000] == [20]
    assert [part.fragment_id for part in dataset.get_fragments()] == ([2, 3] if split is None else [2, 3, 4])
    if dataset.has_stable_row_ids:
        assert ids_by_number(uri) == {n: number for n, number in before.items() if n not in gone}
        columns = ["n", "_row_created_at_version", "_row_last_updated_at_version"]
        rows = dataset.to_table(columns=columns).sort_by("n").to_pydict()
        assert rows["_row_created_at_version"] == [1 if n < ROWS else 2 for n in found["n"]]
        assert rows["_row_last_updated_at_version"] == [
            5 if n == 20 else 1 if n < ROWS else 2 for n in found["n"]
        ]
    dataset.optimize.compact_files()
    assert checked(uri).count_rows() == 54


def test_rewrite_of_rows_that_are_all_deleted_meanwhile_leaves_no_fragment(uri: str) -> None:
    old = snapshot_of(uri)
    plan = compaction(old, ROWS)
    change(uri, Delete({0: np.arange(ROWS - 1)}))
    change(uri, Delete({0: np.array([ROWS - 1])}))
    assert [part.id for part in snapshot_of(uri).fragments] == [1]
    change(uri, plan, snapshot=old)
    dataset = checked(uri)
    assert dataset.to_table(columns=["n"])["n"].to_pylist() == [*range(ROWS, 60)]
    assert len(dataset.get_fragments()) == 1
    old = snapshot_of(uri)
    plan = compaction(old)
    change(uri, Delete(removed=(old.fragments[0].id,)))
    change(uri, plan, snapshot=old)
    assert checked(uri).count_rows() == 0
    append(uri, numbers(100, 3))
    assert checked(uri).count_rows() == 3


def test_rewrite_with_another_number_of_rows_is_refused(uri: str) -> None:
    snapshot = snapshot_of(uri)
    (made,) = written(snapshot, numbers(0, 59))
    with pytest.raises(ValueError, match="59 rows cannot replace fragments of 60"):
        change(uri, Rewrite((RewriteGroup(tuple(snapshot.fragments), (made,)),)))


def resolved(
    plan: Rewrite, uri: str, before: tuple[Rewrite, ManifestFile] | None = None
) -> tuple[tuple[Rewrite, ManifestFile], int]:
    """A rewrite resolved against the newest version, and the number of deletion files that were read for it."""
    reads = 0
    store = LocalStore(uri)

    def answer_of(request: Request) -> Any:
        nonlocal reads
        if isinstance(request, ReadDeletion):
            reads += 1
            return store.get(request.file.path(request.fragment_id))
        return answer(request, store)

    version = snapshot_of(uri).version
    path = f"_versions/{manifest_name(version, Naming.V2)}"
    newest = decode_manifest_file(store.get(path), path, version, DEFAULT_LIMITS)
    history = History(version_store(store), Naming.V2, DEFAULT_LIMITS)
    steps = plan.resolve(Newest(newest, history, DEFAULT_LIMITS), before)
    found = run(one_by_one(steps), answer_of)
    return (found, newest), reads


def test_rewrite_reads_deletions_again_only_where_rows_were_deleted_since(uri: str) -> None:
    lance.dataset(uri).delete("n IN (0, 40)")
    plan = compaction(snapshot_of(uri))
    lance.dataset(uri).delete("n IN (1, 41)")
    first, reads = resolved(plan, uri)
    assert reads == 4, "of two fragments, as planned and now"
    again, reads = resolved(plan, uri, first)
    assert (again[0], reads) == (replace(first[0], groups=again[0].groups), 0)
    lance.dataset(uri).delete("n = 2")
    last, reads = resolved(plan, uri, again)
    assert reads == 2, "of the fragment that lost a row"
    afresh, _ = resolved(plan, uri)
    for made in (last, afresh):
        (group,) = made[0].groups
        deleted = group.new[0].deletion_file
        assert deleted is not None
        assert deleted.num_deleted_rows == 3


def with_column(snapshot: Snapshot, name: str, values: int) -> Merge:
    """A column of one value in a new file of each fragment."""
    field = Field(
        name, next_field_id(snapshot.manifest, snapshot.indices()), logical_type="int64", encoding=1
    )
    fragments = []
    for part in snapshot.fragments:
        table = pa.table({name: pa.array([values] * (part.physical_rows or 0), pa.int64())})
        (made,) = written(snapshot, table, Schema((field,)))
        fragments.append(replace(part, files=(*part.files, *made.files)))
    return Merge(tuple(fragments), replace(snapshot.schema, fields=(*snapshot.schema.fields, field)))


def test_merge_adds_columns_and_project_drops_and_renames_them(uri: str) -> None:
    change(uri, with_column(snapshot_of(uri), "more", 7))
    dataset = checked(uri)
    assert dataset.to_table(columns=["more"])["more"].to_pylist() == [7] * 60
    if dataset.has_stable_row_ids:
        versions = dataset.to_table(columns=["_row_created_at_version", "_row_last_updated_at_version"])
        assert set(versions["_row_last_updated_at_version"].to_pylist()) == {3}
        assert set(versions["_row_created_at_version"].to_pylist()) == {1, 2}
    schema = snapshot_of(uri).schema
    rest = replace(schema.field("rest"), name="others")
    change(uri, Project(replace(schema, fields=(schema.field("n"), rest))))
    dataset = checked(uri)
    assert dataset.schema.names == ["n", "others"]
    assert [len(part.data_files()) for part in dataset.get_fragments()] == [1, 1], "files without columns go"
    dataset.add_columns({"again": "n + 1"})
    assert snapshot_of(uri).schema.field("again").id == 3, "the file of column word is still there"
    dataset.delete("n < 5")
    assert checked(uri).count_rows("again > 50") == 10


def test_project_cannot_invent_columns(uri: str) -> None:
    schema = snapshot_of(uri).schema
    with pytest.raises(SchemaError, match=r"'x' \(field 9\) is not in the table"):
        change(uri, Project(replace(schema, fields=(*schema.fields, Field("x", 9, logical_type="int64")))))
    other = replace(schema.field("n"), logical_type="string")
    with pytest.raises(SchemaError, match="has another type"):
        change(uri, Project(replace(schema, fields=(other,))))
    strict = replace(schema.field("n"), nullable=False)
    with pytest.raises(SchemaError, match="may be null now"):
        change(uri, Project(replace(schema, fields=(strict,))))
    assert snapshot_of(uri).version == 2


def test_index_answers_as_a_scan_after_columns_changed_in_place(uri: str) -> None:
    lance.dataset(uri).create_scalar_index("n", "BTREE")
    lance.dataset(uri).create_scalar_index("rest", "BITMAP")
    snapshot = snapshot_of(uri)
    only = Schema((snapshot.schema.field("n"),))
    (new,) = written(snapshot, pa.table({"n": pa.array(range(500, 520), pa.int64())}), only)
    change(uri, DataReplacement(((1, new.files[0]),)))
    dataset = checked(uri)
    for condition, expected in [("n = 41", 0), ("n = 505", 1), ("n < 3", 3), ("rest = 2", 12)]:
        assert dataset.scanner(filter=condition).to_table().num_rows == expected, condition
        assert dataset.scanner(filter=condition, use_scalar_index=False).to_table().num_rows == expected
    assert len(dataset.get_fragment(1).data_files()) == 2
    (newer,) = written(snapshot, pa.table({"n": pa.array(range(700, 720), pa.int64())}), only)
    change(uri, Update(columns={1: newer.files[0]}, updated_rows={1: np.array([2])}, fields=(0,)))
    dataset = checked(uri)
    assert [dataset.count_rows(f"n = {n}") for n in (505, 702, 39)] == [0, 1, 1]
    assert len(dataset.get_fragment(1).data_files()) == 2, "the replaced file has no columns left and goes"
    if dataset.has_stable_row_ids:
        versions = dataset.to_table(columns=["_row_last_updated_at_version"], filter="n IN (702, 703)")
        assert versions["_row_last_updated_at_version"].to_pylist() == [6, 5]


def test_index_of_a_dropped_column_goes_and_its_field_id_stays_taken(uri: str) -> None:
    lance.dataset(uri).create_scalar_index("rest", "BTREE")
    schema = snapshot_of(uri).schema
    change(uri, Project(replace(schema, fields=(schema.field("n"), schema.field("word")))))
    dataset = checked(uri)
    assert not dataset.describe_indices()
    change(uri, with_column(snapshot_of(uri), "rest", 3))
    assert checked(uri).count_rows("rest = 3") == 60
    assert lance.dataset(uri).optimize.compact_files().fragments_removed == 2
