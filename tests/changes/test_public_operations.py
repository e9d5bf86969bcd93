"""Every public operation is committed, read by pylance, and shown by both libraries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy import LanceOperation
from lancecy.changes.moves import moved
from lancecy.errors import DatasetNotFoundError, SchemaError, UnsupportedError
from lancecy.schema import Field, Schema
from lancecy.store.local import LocalStore
from lancecy.table.field_ids import next_field_id
from lancecy.table.manifest import DataFile
from lancecy.table.rows import roaring
from lancecy.write.fragments import FileLimits, NewFiles
from tests.helpers.folded import folded

pytestmark = pytest.mark.interop

ROWS = {"n": list(range(10)), "word": [f"w{n}" for n in range(10)]}


@pytest.fixture(params=[False, True], ids=["addresses", "ids"])
def ds(request: pytest.FixtureRequest, tmp_path: Path) -> lancecy.Dataset:
    """Two fragments of five rows, and one of two rows of version 2."""
    made = lancecy.write_dataset(
        ROWS, tmp_path / "t", max_rows_per_file=5, enable_stable_row_ids=request.param
    )
    made.append({"n": [10, 11], "word": ["w10", "w11"]})
    return made


def file_of(ds: lancecy.Dataset, rows: dict[str, Any], field: Field) -> DataFile:
    """A file of one column."""
    folder, schema = LocalStore(ds.uri), Schema((field,))
    files = NewFiles(
        schema, ds.data_storage_version, (None,), lambda base: (folder, "data/"), FileLimits(1 << 20)
    )
    (made,) = files.write(pa.table(rows, schema=schema.arrow).to_batches())
    return made.files[0]


def peer(ds: lancecy.Dataset) -> Any:
    import lance

    found = lance.dataset(ds.uri)
    found.validate()
    return found


def rows_of(dataset: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = dataset.to_table().sort_by("n").to_pylist()
    return rows


def deleted(ds: lancecy.Dataset, condition: str) -> Any:
    """The first fragment without some rows, not committed."""
    return ds.get_fragments()[0].delete(condition)


def update(ds: lancecy.Dataset) -> Any:
    """Row 3 moves to a new fragment with another word, as a worker of pylance does it, and row 99 is new."""
    old = deleted(ds, "n = 3")
    new: list[Any] = list(lancecy.write_fragments({"n": [3, 99], "word": ["moved", "new"]}, ds))
    if ds.has_stable_row_ids:
        (part,) = moved(ds.context.snapshot, new, np.array([3], np.uint64))
        # As pylance says, the commit finds the created versions.
        new = [replace(part, created_at_versions=None)]
    return LanceOperation.Update([], [old], new, fields_for_preserving_frag_bitmap=[1])


def update_in_place(ds: lancecy.Dataset) -> Any:
    file = file_of(ds, {"word": [f"p{n}" for n in range(5)]}, ds.lance_schema.field("word"))
    part = ds.get_fragments()[0].metadata
    old = replace(part.files[0], fields=(0, -2))
    return LanceOperation.Update(
        updated_fragments=[replace(part, files=(old, file))],
        fields_modified=[1],
        update_mode="rewrite_columns",
        updated_fragment_offsets={0: roaring.encode(np.array([1, 2]))},
    )


def merge(ds: lancecy.Dataset) -> Any:
    snapshot = ds.context.snapshot
    number = next_field_id(snapshot.manifest, snapshot.indices())
    field = Field("more", number, logical_type="int64", encoding=1)
    fragments = []
    for part in (fragment.metadata for fragment in ds.get_fragments()):
        file = file_of(ds, {"more": [7] * (part.physical_rows or 0)}, field)
        fragments.append(replace(part, files=(*part.files, file)))
    schema = ds.lance_schema
    return LanceOperation.Merge(fragments, replace(schema, fields=(*schema.fields, field)), True)


def project(ds: lancecy.Dataset) -> Any:
    schema = ds.lance_schema
    fields = (replace(schema.field("word"), name="text"), schema.field("n"))
    return LanceOperation.Project(replace(schema, fields=fields), preserves_nullability=True)


def rewrite(ds: lancecy.Dataset) -> Any:
    fragments = [part.metadata for part in ds.get_fragments()]
    rows = ds.to_table(with_row_address=True)
    new = lancecy.write_fragments(rows.drop(["_rowaddr"]), ds)
    addresses = rows["_rowaddr"].to_numpy()
    made = moved(ds.context.snapshot, new, addresses, are_updated=False)
    return LanceOperation.Rewrite([LanceOperation.RewriteGroup(fragments, made)], [])


def data_replacement(ds: lancecy.Dataset) -> Any:
    file = file_of(ds, {"word": [f"r{n}" for n in range(5)]}, ds.lance_schema.field("word"))
    return LanceOperation.DataReplacement([LanceOperation.DataReplacementGroup(1, file)])


WORDS = {n: f"w{n}" for n in range(12)}
MADE: dict[Callable[[lancecy.Dataset], Any], dict[int, str]] = {
    update: {**WORDS, 3: "moved", 99: "new"},
    update_in_place: {**WORDS, **{n: f"p{n}" for n in range(5)}},
    merge: WORDS,
    project: WORDS,
    rewrite: WORDS,
    data_replacement: {**WORDS, **{n: f"r{n - 5}" for n in range(5, 10)}},
    lambda ds: LanceOperation.Append(lancecy.write_fragments({"n": [50], "word": ["a"]}, ds)): {
        **WORDS,
        50: "a",
    },
    lambda ds: LanceOperation.Delete([deleted(ds, "n = 3")], [2], "n = 3 OR n > 9"): {
        n: word for n, word in WORDS.items() if n != 3 and n < 10
    },
    lambda ds: LanceOperation.Restore(1): {n: word for n, word in WORDS.items() if n < 10},
    lambda ds: LanceOperation.ReserveFragments(3): WORDS,
    lambda ds: LanceOperation.UpdateConfig(LanceOperation.UpdateMap({"k": "v"})): WORDS,
}


@pytest.mark.parametrize("make", list(MADE), ids=lambda make: make.__name__)
def test_it_commits_and_pylance_reads_the_rows(
    ds: lancecy.Dataset, make: Callable[[lancecy.Dataset], Any]
) -> None:
    operation = make(ds)
    made = lancecy.commit(ds, operation)
    name = "text" if make is project else "word"
    for dataset in (made, peer(ds)):
        assert {row["n"]: row[name] for row in rows_of(dataset)} == MADE[make]
        assert dataset.version == 3
    mine, theirs = made.read_transaction(3), peer(ds).read_transaction(3)
    assert mine is not None
    assert mine.uuid == theirs.uuid
    assert type(mine.operation) is type(operation)
    # pylance has no class for a reservation.
    assert mine.operation_name == "ReserveFragments" or mine.operation_name == type(theirs.operation).__name__


def test_moved_rows_keep_ids_and_created_versions(ds: lancecy.Dataset) -> None:
    before = {row["n"]: row for row in ds.to_table(with_row_id=True).to_pylist()}
    lancecy.commit(ds, update(ds))
    if not ds.has_stable_row_ids:
        return
    columns = ["n", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    found = {row["n"]: tuple(row.values())[1:] for row in peer(ds).to_table(columns=columns).to_pylist()}
    assert found[3] == (before[3]["_rowid"], 1, 3)
    assert found[99] == (12, 3, 3)
    assert found[10] == (before[10]["_rowid"], 2, 2)
    changes = ds.checkout_latest().changes(2).count_rows()
    assert changes == {"delete": 0, "update_preimage": 1, "insert": 1, "update_postimage": 1}


def test_only_the_rows_that_are_named_are_updated_in_place(ds: lancecy.Dataset) -> None:
    lancecy.commit(ds, update_in_place(ds))
    if ds.has_stable_row_ids:
        columns = ["n", "_row_created_at_version", "_row_last_updated_at_version"]
        rows = peer(ds).to_table(columns=columns, filter="n < 5").to_pylist()
        assert [row["_row_last_updated_at_version"] for row in rows] == [1, 3, 3, 1, 1]
        assert {row["_row_created_at_version"] for row in rows} == {1}
    wrong = LanceOperation.Update(
        update_mode="rewrite_columns", updated_fragment_offsets={7: roaring.encode(np.array([1]))}
    )
    if ds.has_stable_row_ids:
        with pytest.raises(SchemaError, match="no fragment 7"):
            lancecy.commit(ds.checkout_latest(), wrong)
    damaged = LanceOperation.Update(updated_fragment_offsets={0: b"no bitmap"})
    with pytest.raises(ValueError, match="Roaring"):
        lancecy.commit(ds.checkout_latest(), damaged)
    with pytest.raises(ValueError, match="rewrite_all"):
        lancecy.commit(ds.checkout_latest(), LanceOperation.Update(update_mode="rewrite_all"))


def test_a_rewrite_without_the_row_ids_of_the_table_is_refused(ds: lancecy.Dataset) -> None:
    made = rewrite(ds)
    (group,) = made.groups
    bare = [
        replace(part, row_ids=None, created_at_versions=None, last_updated_versions=None)
        for part in group.new_fragments
    ]
    again = LanceOperation.Rewrite([LanceOperation.RewriteGroup(group.old_fragments, bare)])
    if ds.has_stable_row_ids:
        with pytest.raises(ValueError, match="row ids and versions"):
            lancecy.commit(ds, again)
        assert ds.latest_version == 2
    else:
        assert lancecy.commit(ds, again).count_rows() == 12
    index = LanceOperation.RewrittenIndex("a", "b", "", b"", 0)
    with pytest.raises(UnsupportedError, match="rewritten_indices"):
        lancecy.commit(ds, LanceOperation.Rewrite(made.groups, [index]))


def test_two_changes_of_one_fragment_are_refused(ds: lancecy.Dataset) -> None:
    """One would be lost: each states the whole fragment."""
    first, *others = ds.get_fragments()
    rest = [part.metadata for part in others]
    deletes = [part for part in map(first.delete, ("n = 1", "n = 2", "n = 77")) if part is not None]
    merges = [first.merge_columns({name: "n"}) for name in ("a", "b")]
    group = LanceOperation.RewriteGroup([first.metadata], [])
    operations: list[Any] = [
        LanceOperation.Delete(deletes[:2], [], ""),
        LanceOperation.Update(updated_fragments=deletes[:2]),
        LanceOperation.Merge([*(part for part, _ in merges), *rest], merges[0][1]),
        LanceOperation.Rewrite([group, group]),
    ]
    for operation in operations:
        with pytest.raises(SchemaError, match=r"fragment 0 is given twice|fragment 0 2 times"):
            lancecy.commit(ds, operation)
    assert ds.latest_version == 2
    again = LanceOperation.Delete([deletes[0], deletes[2], deletes[0]], [], "n = 1")
    assert lancecy.commit(ds, again).count_rows() == 11


def test_schemas_without_field_ids_are_refused_or_warned_of(ds: lancecy.Dataset) -> None:
    with pytest.raises(TypeError, match="lance_schema"):
        lancecy.commit(ds, LanceOperation.Project(ds.schema))
    fragments = [part.metadata for part in ds.get_fragments()]
    with pytest.warns(DeprecationWarning, match="lance_schema"):
        made = lancecy.commit(ds, LanceOperation.Merge(fragments, ds.schema))
    assert rows_of(peer(made)) == rows_of(ds)


def test_transactions_of_pylance_are_shown_in_full(ds: lancecy.Dataset) -> None:
    theirs = peer(ds)
    theirs.update({"word": "'new'"}, where="n = 2")
    theirs.add_columns({"more": "n + 1"})
    theirs.alter_columns({"path": "more", "name": "most"})
    theirs.create_scalar_index("n", "BTREE")
    theirs.optimize.compact_files()
    theirs.drop_columns(["most"])
    part, fields = theirs.get_fragments()[0].update_columns(pa.table({"n": [1], "word": ["x"]}), "n", "n")
    import lance

    operation = lance.LanceOperation.Update(
        updated_fragments=[part], fields_modified=fields, update_mode="rewrite_columns"
    )
    theirs = lance.LanceDataset.commit(ds.uri, operation, read_version=theirs.version)
    seen = {}
    for version in range(3, theirs.version + 1):
        mine = ds.read_transaction(version)
        assert mine is not None
        seen[version] = mine.operation
        try:
            other = peer(ds).read_transaction(version).operation
        except TypeError:
            continue  # pylance cannot show a rewrite of indices
        if type(other).__name__ != "BaseOperation":
            check_view(mine.operation, other)
    assert [type(each).__name__ for each in seen.values()] == [
        "Update",
        "Merge",
        "Project",
        "CreateIndex",
        "ReserveFragments",
        "Rewrite",
        "Project",
        "Update",
    ]
    (group,) = seen[8].groups
    assert [part.id for part in group.old_fragments] == [0, 1, 2, 3]
    (index,) = seen[6].new_indices
    assert (index.name, index.fields, sorted(index.fragment_ids)) == ("n_idx", [0], [0, 1, 2, 3])
    assert all(each.old_id == index.uuid != each.new_id for each in seen[8].rewritten_indices)


def check_view(mine: Any, theirs: Any) -> None:
    """Compare the values of an operation of both libraries."""
    assert type(mine).__name__ == type(theirs).__name__
    for name in vars(theirs):
        found, expected = getattr(mine, name), getattr(theirs, name)
        if "fragments" in name:
            assert [(p.id, p.physical_rows, [f.path for f in p.files]) for p in found] == [
                (p.id, p.physical_rows, [f.path for f in p.files]) for p in expected
            ]
        elif name == "schema":
            assert [(f.name, f.id) for f in found.fields] == [(f.name(), f.id()) for f in expected.fields()]
        elif name.endswith("_indices"):
            check_indices(found, expected)
        else:
            assert (list(found) if isinstance(found, tuple) else found) == expected, name


def check_indices(found: Any, expected: Any) -> None:
    for mine, theirs in zip(found, expected, strict=True):
        for name in ("uuid", "name", "fields", "dataset_version", "index_version", "created_at", "base_id"):
            assert getattr(mine, name) == getattr(theirs, name), name
        assert set(mine.fragment_ids) == set(theirs.fragment_ids)
        assert mine.index_details == theirs.index_details
        assert [(f.path, f.size_bytes) for f in mine.files] == [(f.path, f.size_bytes) for f in theirs.files]


def test_a_transaction_is_committed_with_its_id_and_properties(ds: lancecy.Dataset) -> None:
    new = lancecy.write_fragments({"n": [50], "word": ["a"]}, ds)
    made = lancecy.Transaction(1, LanceOperation.Append(new), transaction_properties={"job": "7"})
    done = lancecy.commit(ds.uri, made)
    found = done.read_transaction(3)
    assert found is not None
    assert (found.uuid, found.read_version, found.transaction_properties) == (made.uuid, 1, {"job": "7"})
    # A repeated commit finds the version that it made.
    assert lancecy.commit(ds.uri, made).version == lancecy.dataset(ds.uri).version == 3
    with pytest.raises(ValueError, match="give message"):
        lancecy.commit(ds.uri, made, commit_message="no")
    with pytest.raises(ValueError, match="UUID"):
        lancecy.commit(ds.uri, replace(made, uuid="../x"))


def test_a_batch_of_appends_is_one_version(ds: lancecy.Dataset) -> None:
    made = [lancecy.write_fragments({"n": [n], "word": ["a"]}, ds) for n in (50, 51, 52)]
    appends = [
        lancecy.Transaction(2, LanceOperation.Append(made[0]), transaction_properties={"a": "1"}),
        lancecy.Transaction(
            1, LanceOperation.Append([*made[1], *made[2]]), transaction_properties={"b": "2"}
        ),
    ]
    done = lancecy.LanceDataset.commit_batch(ds, appends)
    assert (done["dataset"].version, done["dataset"].count_rows(), ds.version) == (3, 15, 2)
    assert peer(ds).count_rows() == 15
    merged, found = done["merged"], done["dataset"].read_transaction(3)
    assert found is not None
    assert (found.uuid, found.read_version) == (merged.uuid, merged.read_version)
    assert (merged.read_version, len(merged.operation.fragments)) == (1, 3)
    assert found.transaction_properties == {"a": "1", "b": "2"}
    assert peer(ds).read_transaction(3).uuid == merged.uuid


def test_a_batch_may_be_outside_the_history(ds: lancecy.Dataset) -> None:
    append = lancecy.Transaction(
        1, LanceOperation.Append(lancecy.write_fragments({"n": [50], "word": ["a"]}, ds))
    )
    done = lancecy.LanceDataset.commit_batch(ds.uri, [append], detached=True)["dataset"]
    assert (done.version >> 63, done.count_rows(), ds.latest_version) == (1, 11, 2)


def test_other_batches_are_refused(ds: lancecy.Dataset, tmp_path: Path) -> None:
    append = lancecy.Transaction(2, LanceOperation.Append(lancecy.write_fragments(ROWS, ds)))
    batch = lancecy.LanceDataset.commit_batch
    with pytest.raises(ValueError, match="no transactions"):
        batch(ds.uri, [])
    with pytest.raises(UnsupportedError, match="not Restore"):
        batch(ds.uri, [append, lancecy.Transaction(2, LanceOperation.Restore(1))])
    with pytest.raises(TypeError, match="not of Append"):
        batch(ds.uri, [append.operation])
    with pytest.raises(DatasetNotFoundError):
        batch(tmp_path / "none", [append])
    with pytest.raises(ValueError, match="open already"):
        batch(ds, [append], storage_options={})
    assert ds.latest_version == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fields": (0, 0)}, "states field 0 twice"),
        ({"column_indices": (0,)}, "states 2 fields and 1 columns"),
    ],
    ids=["field", "columns"],
)
def test_files_of_which_no_reader_knows_the_columns_are_refused(
    ds: lancecy.Dataset, change: dict[str, Any], message: str
) -> None:
    made = lancecy.LanceFragment.create(ds, {"n": [12], "word": ["w12"]})
    odd = replace(made, files=(replace(made.files[0], **change),))
    with pytest.raises(SchemaError, match=message):
        lancecy.commit(ds, LanceOperation.Append([odd]))
    assert lancecy.commit(ds, LanceOperation.Append([made])).count_rows() == 13


def test_a_merge_that_gives_old_values_another_type_is_refused_as_by_pylance(ds: lancecy.Dataset) -> None:
    import lance

    fragments = [part.metadata for part in ds.get_fragments()]
    schema = pa.schema({"n": pa.string(), "word": pa.string()})
    with (
        pytest.raises(SchemaError, match="column 'n' is int64 in fragment 0, and string in the new schema"),
        pytest.warns(DeprecationWarning, match="lance_schema"),
    ):
        lancecy.commit(ds, LanceOperation.Merge(fragments, schema))
    with pytest.warns(DeprecationWarning, match="LanceSchema"):
        theirs = lance.LanceOperation.Merge([part.metadata for part in peer(ds).get_fragments()], schema)
    with pytest.raises(OSError, match="without rewriting it"):
        lance.LanceDataset.commit(ds.uri, theirs, read_version=ds.version)
    assert rows_of(ds.checkout_latest()) == rows_of(ds)


def test_conflicts_tell_whether_to_try_again_as_pylances_do(tmp_path: Path) -> None:
    """A column is replaced twice at once; then rows are appended to a table that was overwritten."""
    told = []
    for library in (pytest.importorskip("lance"), lancecy):
        place, numbers = tmp_path / library.__name__, pa.table({"n": [1, 2]})
        library.write_dataset(numbers, place)

        def commit(
            make: Any, library: Any = library, place: Path = place, numbers: pa.Table = numbers
        ) -> Any:
            fragment = library.LanceFragment.create(place, numbers)
            return library.LanceDataset.commit(place, make(library.LanceOperation, fragment), read_version=1)

        commit(_replacement)
        errors = []
        for make in (_replacement, lambda operations, fragment: operations.Append([fragment])):
            with pytest.raises(Exception) as caught:  # noqa: PT011 - of two libraries
                commit(make)
            error: Any = caught.value
            errors.append(error.retryable)
            library.write_dataset(numbers, place, mode="overwrite")
        told.append(errors)
    assert told == [[True, False]] * 2


def _replacement(operations: Any, fragment: Any) -> Any:
    return operations.DataReplacement([operations.DataReplacementGroup(0, fragment.files[0])])


WRONG: dict[str, Callable[[Any], Any]] = {
    "int": lambda _: LanceOperation.Append([5]),  # type: ignore[list-item]
    "FragmentMetadata": LanceOperation.Append,
    "str": lambda part: LanceOperation.Delete([part, "x"], [], "n = 0"),  # type: ignore[list-item]
    "NoneType": lambda part: LanceOperation.Update(new_fragments=[part], updated_fragments=None),  # type: ignore[arg-type]
    "dict": lambda part: LanceOperation.Rewrite([LanceOperation.RewriteGroup([part], [part.to_json()])]),
}


@folded("kind", list(WRONG))
def test_what_is_no_list_of_fragments_is_named(tmp_path: Path, kind: str) -> None:
    ds = lancecy.write_dataset(ROWS, tmp_path / "t", mode="overwrite")
    part = ds.get_fragments()[0].metadata
    with pytest.raises(TypeError, match=f"a list of FragmentMetadata, not {kind}"):
        lancecy.commit(ds, WRONG[kind](part), read_version=ds.version)


def test_a_version_to_restore_is_a_number(ds: lancecy.Dataset) -> None:
    version: Any = "1"
    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        lancecy.commit(ds, LanceOperation.Restore(version), read_version=1)
