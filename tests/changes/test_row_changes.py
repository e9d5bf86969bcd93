"""The rows that differ between two versions, as a user asks for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy.errors import ColumnNotFoundError, NotFoundError, SchemaError, UnsupportedError

KINDS = {"insert", "update_preimage", "update_postimage", "delete"}


def table_of(place: Path, stable: bool = True) -> lancecy.Dataset:
    """Version 1: rows 0 to 9 in two fragments; 2: two more; 3: without the even ones of the first fragment."""
    rows = {"n": range(10), "word": [f"w{n}" for n in range(10)]}
    ds = lancecy.write_dataset(
        rows, place, enable_stable_row_ids=stable, max_rows_per_file=5, data_storage_version="2.1"
    )
    ds.append({"n": [10, 11], "word": ["w10", "w11"]})
    ds.delete("n < 5 AND n % 2 = 0")
    return ds


@pytest.mark.parametrize("stable", [True, False])
def test_inserts_and_deletes_have_their_rows_kinds_and_versions(tmp_path: Path, stable: bool) -> None:
    ds = table_of(tmp_path / "t", stable)
    found = ds.changes(since=1)
    assert found.schema.names == ["n", "word", "_rowid", "_change_type", "_commit_version"]
    assert [str(found.schema.field(name).type) for name in found.schema.names[2:]] == [
        "uint64",
        "string",
        "int64",
    ]
    rows = found.to_table().to_pylist()
    assert [(row["n"], row["word"], row["_change_type"]) for row in rows] == [
        (0, "w0", "delete"),
        (2, "w2", "delete"),
        (4, "w4", "delete"),
        (10, "w10", "insert"),
        (11, "w11", "insert"),
    ]
    # The version of a change in between is known only with stable row ids, and for new rows.
    assert [row["_commit_version"] for row in rows] == [None] * 3 + [2 if stable else None] * 2
    assert {row["_commit_version"] for row in ds.changes(2, 3).to_table().to_pylist()} == {3}
    assert [row["_rowid"] for row in rows[3:]] == ([10, 11] if stable else [2 << 32, (2 << 32) + 1])
    assert found.count_rows() == {"delete": 3, "update_preimage": 0, "insert": 2, "update_postimage": 0}


def test_everything_is_new_since_nothing(tmp_path: Path) -> None:
    ds = table_of(tmp_path / "t")
    assert ds.changes(0, 1).count_rows()["insert"] == 10
    assert ds.changes(0).to_table().select(["n"]).equals(ds.to_table(columns=["n"]))
    assert set(ds.changes(0).to_table()["_commit_version"].to_pylist()) == {1, 2}


def test_a_version_has_no_changes_since_itself_and_a_restore_takes_changes_back(tmp_path: Path) -> None:
    ds = table_of(tmp_path / "t")
    assert ds.changes(3).to_table().num_rows == 0
    ds.checkout_version(1).restore()
    ds = ds.checkout_latest()
    assert ds.changes(1).to_table().num_rows == 0
    back = ds.changes(3).to_table().to_pylist()
    assert [(row["n"], row["_change_type"]) for row in back] == [
        (10, "delete"),
        (11, "delete"),
        (0, "insert"),
        (2, "insert"),
        (4, "insert"),
    ]


def test_an_overwrite_deletes_and_inserts_everything(tmp_path: Path) -> None:
    ds = table_of(tmp_path / "t")
    # The columns have changed their places, and so their ids.
    lancecy.write_dataset({"word": ["x"], "n": [1], "new": [True]}, tmp_path / "t", mode="overwrite")
    found = ds.checkout_latest().changes(since=3).to_table()
    assert found.schema.names[:3] == ["word", "n", "new"]
    assert found["_change_type"].to_pylist() == ["delete"] * 9 + ["insert"]
    assert found.slice(0, 1).to_pylist()[0]["word"] == "w1"
    assert found["new"].to_pylist() == [None] * 9 + [True]


def test_columns_are_chosen_and_tags_name_versions(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"s": [{"a": 1, "b": "x"}], "n": [1]}, tmp_path / "t")
    ds.append({"s": [{"a": 2, "b": "y"}], "n": [2]})
    found = ds.changes(1, columns=["s.b"]).to_table()
    assert found.schema.names == ["s.b", "_rowid", "_change_type", "_commit_version"]
    assert found["s.b"].to_pylist() == ["y"]
    assert ds.changes(1, columns=["n", "_change_type"]).to_table().column_names[:2] == ["n", "_rowid"]
    assert ds.changes(1, columns=[]).to_table().schema.names == ["_rowid", "_change_type", "_commit_version"]


def test_changes_go_to_pandas_and_to_anything_that_reads_arrow(tmp_path: Path) -> None:
    found = table_of(tmp_path / "t").changes(since=2)
    assert found.to_pandas()["_change_type"].tolist() == ["delete"] * 3
    assert pa.table(found).equals(found.to_table())
    assert found.to_reader().read_all().equals(found.to_table())
    assert repr(found).endswith("since=2, until=3)")


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ((3, 1), ValueError, "since=3 is later than until=1"),
        ((7,), NotFoundError, "no version 7"),
        ((-1,), NotFoundError, "versions start at 1"),
        (("nothing",), NotFoundError, "nothing"),
        ((1.5,), TypeError, "whole number"),
        ((1, None, ["m"]), ColumnNotFoundError, "'m'"),
        ((1, None, "n"), TypeError, "list of names"),
    ],
)
def test_wrong_arguments_are_refused(tmp_path: Path, arguments: Any, error: type, said: str) -> None:
    ds = table_of(tmp_path / "t")
    with pytest.raises(error, match=said):
        ds.changes(*arguments)


def test_a_column_with_a_name_of_the_result_is_refused(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"_change_type": ["a"]}, tmp_path / "t")
    with pytest.raises(ValueError, match="'_change_type'"):
        ds.changes(0)


@pytest.mark.interop
@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1", "2.2"])
def test_updates_have_old_and_new_values(tmp_path: Path, version: str) -> None:
    import lance

    rows = {"n": range(10), "word": [f"w{n}" for n in range(10)]}
    ds = lancecy.write_dataset(rows, tmp_path / "t", enable_stable_row_ids=True, data_storage_version=version)
    theirs = lance.dataset(str(tmp_path / "t"))
    theirs.update({"word": "'new'"}, where="n = 3")
    theirs.delete("n = 4")
    theirs.update({"word": "'newer'"}, where="n = 3")
    theirs.optimize.compact_files()
    ds = ds.checkout_latest()
    assert ds.changes(since=1).to_table().to_pylist() == [
        {"n": 3, "word": "w3", "_rowid": 3, "_change_type": "update_preimage", "_commit_version": 4},
        {"n": 4, "word": "w4", "_rowid": 4, "_change_type": "delete", "_commit_version": None},
        {"n": 3, "word": "newer", "_rowid": 3, "_change_type": "update_postimage", "_commit_version": 4},
    ]
    # Rows that only moved have not changed.
    assert ds.changes(since=4).to_table().num_rows == 0


@pytest.mark.interop
def test_without_row_ids_an_update_is_a_delete_and_an_insert(tmp_path: Path) -> None:
    import lance

    ds = table_of(tmp_path / "t", stable=False)
    lance.dataset(str(tmp_path / "t")).update({"word": "'new'"}, where="n = 3")
    rows = ds.checkout_latest().changes(since=3).to_table().to_pylist()
    assert [(row["word"], row["_change_type"], row["_commit_version"]) for row in rows] == [
        ("w3", "delete", 4),
        ("new", "insert", 4),
    ]


@pytest.mark.interop
@pytest.mark.parametrize("stable", [True, False])
def test_an_added_column_updates_every_row_and_a_renamed_one_none(tmp_path: Path, stable: bool) -> None:
    import lance

    ds = table_of(tmp_path / "t", stable)
    theirs = lance.dataset(str(tmp_path / "t"))
    theirs.alter_columns({"path": "word", "name": "text"})  # type: ignore[dict-item]
    ds = ds.checkout_latest()
    assert ds.changes(since=3).to_table().num_rows == 0
    assert ds.changes(since=1).to_table()["text"].to_pylist() == ["w0", "w2", "w4", "w10", "w11"]
    theirs.add_columns({"double": "n * 2"})
    found = ds.checkout_latest().changes(since=4).to_table().to_pylist()
    assert {row["_change_type"] for row in found} == {"update_preimage", "update_postimage"}
    old, new = found[: len(found) // 2], found[len(found) // 2 :]
    assert [row["double"] for row in old] == [None] * 9
    assert [row["double"] for row in new] == [row["n"] * 2 for row in new]
    theirs.drop_columns(["double"])
    assert ds.checkout_latest().changes(since=3).count_rows()["insert"] == 0


@pytest.mark.interop
def test_a_cast_is_refused_with_the_remedy(tmp_path: Path) -> None:
    import lance

    ds = table_of(tmp_path / "t")
    lance.dataset(str(tmp_path / "t")).alter_columns({"path": "n", "data_type": pa.int32()})  # type: ignore[dict-item]
    ds = ds.checkout_latest()
    with pytest.raises(SchemaError, match=r"n was int64 and is int32. Name the other columns in columns=\["):
        ds.changes(since=3)
    found = ds.changes(since=3, columns=["word"]).to_table()
    assert found.num_rows == 18
    assert ds.changes(since=1, until=3).to_table().num_rows == 5


@pytest.mark.interop
def test_a_compaction_without_row_ids_is_refused_with_the_remedy(tmp_path: Path) -> None:
    import lance

    ds = table_of(tmp_path / "t", stable=False)
    lance.dataset(str(tmp_path / "t")).optimize.compact_files()
    ds = ds.checkout_latest()
    ds.append({"n": [12], "word": ["w12"]})
    assert ds.version == 6
    with pytest.raises(
        UnsupportedError, match=r"version 5 is a compaction.* changes\(1, 4\) and changes\(5, 6\)"
    ):
        ds.changes(since=1)
    assert ds.changes(1, 4).to_table().num_rows + ds.changes(5, 6).to_table().num_rows == 6
    # Nothing is known of the versions in between after a cleanup.
    tagged = ds.checkout_version(6)
    (tmp_path / "t" / "_versions" / f"{2**64 - 1 - 5}.manifest").unlink()
    with pytest.raises(UnsupportedError, match="was removed or cannot be read"):
        tagged.changes(since=1)


@pytest.mark.interop
def test_a_new_column_under_the_id_of_a_dropped_one_is_not_that_column(tmp_path: Path) -> None:
    import lance

    ds = table_of(tmp_path / "t")
    theirs = lance.dataset(str(tmp_path / "t"))
    theirs.drop_columns(["word"])
    theirs.optimize.compact_files()
    theirs.add_columns(pa.field("other", pa.string()))
    ds = ds.checkout_latest()
    assert ds.lance_schema.field("other").id == ds.checkout_version(3).lance_schema.field("word").id
    ds.delete("n = 5")
    assert ds.changes(since=3).to_table().to_pylist()[0]["other"] is None


@pytest.mark.interop
def test_values_that_were_replaced_without_a_word_are_found(tmp_path: Path) -> None:
    import lance

    ds = table_of(tmp_path / "t")
    theirs: Any = lance.dataset(str(tmp_path / "t"))
    source = pa.table({"n": [6], "word": ["six"]})
    part, fields = theirs.get_fragment(1).update_columns(source, "n", "n")
    operation = lance.LanceOperation.Update(
        updated_fragments=[part], fields_modified=fields, update_mode="rewrite_columns"
    )
    lance.LanceDataset.commit(ds.uri, operation, read_version=3)
    # No row has another version, and so all rows of the fragment may have other values.
    found = ds.checkout_latest().changes(since=3).to_table().to_pylist()
    assert [row["word"] for row in found[5:]] == ["w5", "six", "w7", "w8", "w9"]
    assert {row["_change_type"] for row in found} == {"update_preimage", "update_postimage"}
    ds = ds.checkout_latest()
    ds.optimize.compact_files()
    moved = ds.changes(since=3).count_rows()
    assert (moved["update_postimage"], moved["insert"]) == (9, 0)
    assert ds.changes(since=4).count_rows()["update_postimage"] == 0


@pytest.mark.parametrize("stable", [True, False])
def test_files_of_fragments_that_did_not_change_are_never_opened(tmp_path: Path, stable: bool) -> None:
    ds = table_of(tmp_path / "t", stable)
    expected = ds.changes(since=1).to_table()
    assert expected.num_rows == 5
    for file in ds.get_fragments()[1].data_files():
        (tmp_path / "t" / "data" / file.path).unlink()
    assert ds.changes(since=1).to_table().equals(expected)
    ds.update_config({"k": "v"})
    for path in (tmp_path / "t" / "data").iterdir():
        path.unlink()
    assert ds.changes(since=3).to_table().num_rows == 0
    assert ds.changes(since=1).count_rows()["delete"] == 3


def test_rows_that_a_compaction_moved_are_never_read(tmp_path: Path) -> None:
    ds = table_of(tmp_path / "t")
    ds.optimize.compact_files()
    for path in (tmp_path / "t" / "data").iterdir():
        path.unlink()
    assert ds.version > 3
    assert ds.changes(since=3).to_table().num_rows == 0


def test_changes_stream_in_bounded_memory(tmp_path: Path) -> None:
    rows, width = 24_000, 1024
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(rows * width, np.float32)), width)
    nbytes = vectors.nbytes
    ds = lancecy.write_dataset(pa.table({"vec": vectors}), tmp_path / "t")
    del vectors
    before, most, found = pa.total_allocated_bytes(), 0, 0
    for batch in ds.changes(since=0).to_batches():
        found += batch.num_rows
        most = max(most, pa.total_allocated_bytes() - before)
    assert found == rows
    assert most < nbytes / 2


def test_a_detached_version_is_compared_with_the_one_it_was_made_from(tmp_path: Path) -> None:
    ds = table_of(tmp_path / "t")
    new = lancecy.write_fragments({"n": [50], "word": ["w50"]}, ds)
    aside = lancecy.commit(ds, lancecy.LanceOperation.Append(new), detached=True)
    rows = aside.changes(since=3).to_table().to_pylist()
    assert [(row["n"], row["_change_type"]) for row in rows] == [(50, "insert")]
    assert aside.changes(since=1).count_rows() == {
        "delete": 3,
        "update_preimage": 0,
        "insert": 3,
        "update_postimage": 0,
    }


def test_old_tables_have_changes_too() -> None:
    golden = Path(__file__).parents[1] / "golden"
    ds = lancecy.dataset(golden / "0.15.0_deleted.lance")
    first, last = ds.versions()[0]["version"], ds.version
    found = ds.changes(first)
    before, after = ds.checkout_version(first).count_rows(), ds.count_rows()
    counts = found.count_rows()
    assert set(counts) == KINDS
    assert before - counts["delete"] + counts["insert"] == after
    assert found.until == last


@pytest.mark.interop
@pytest.mark.parametrize(("begin", "end"), [(1, 6), (2, 4), (3, 3), (0, 3)])
def test_delta_is_that_of_pylance(tmp_path: Path, begin: int, end: int) -> None:
    import lance

    ds = table_of(tmp_path / "t")
    theirs = lance.dataset(str(tmp_path / "t"))
    theirs.update({"word": "'new'"}, where="n = 3")
    theirs.delete("n = 10")
    source = pa.table({"n": [1, 20], "word": ["one", "twenty"]})
    theirs.merge_insert("n").when_matched_update_all().when_not_matched_insert_all().execute(source)
    expected = lance.dataset(str(tmp_path / "t"), version=end).delta(begin_version=begin, end_version=end)
    found = ds.checkout_latest().delta(begin_version=begin, end_version=end)
    for name in ("get_inserted_rows", "get_updated_rows", "get_deleted_row_ids"):
        mine, other = getattr(found, name)().read_all(), getattr(expected, name)().read_all()
        assert mine.schema == other.schema, name
        assert mine.to_pylist() == other.to_pylist(), name
    assert [made.uuid for made in found.list_transactions() if made] == [
        made.uuid for made in expected.list_transactions()
    ]
    if end == 6:
        shorthand = ds.checkout_latest().delta(begin)
        assert shorthand.get_inserted_rows().read_all() == found.get_inserted_rows().read_all()


def test_delta_and_changes_do_not_use_default_scan_options(tmp_path: Path) -> None:
    table_of(tmp_path / "t")
    ds = lancecy.dataset(tmp_path / "t", default_scan_options={"limit": 1, "columns": ["n"]})
    assert ds.delta(1).get_inserted_rows().read_all().num_rows == 2
    assert ds.changes(1).to_table().select(["n", "word"]).num_rows == 5


def test_delta_refuses_what_it_cannot_tell(tmp_path: Path) -> None:
    ds = table_of(tmp_path / "t", stable=False)
    for name in ("get_inserted_rows", "get_updated_rows", "get_deleted_row_ids"):
        # pylance returns no row for the first two.
        with pytest.raises(UnsupportedError, match="changes"):
            getattr(ds.delta(1), name)()
    with pytest.raises(ValueError, match="compared_against"):
        ds.delta()
    with pytest.raises(ValueError, match="together"):
        ds.delta(begin_version=1)
    with pytest.raises(ValueError, match="negative"):
        ds.delta(-1)
    stable = table_of(tmp_path / "s")
    with pytest.raises(ValueError, match="later than"):
        stable.delta(begin_version=3, end_version=1).get_deleted_row_ids()
    with pytest.raises(NotFoundError):
        stable.delta(begin_version=1, end_version=9).list_transactions()
