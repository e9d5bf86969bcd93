"""What made a version is read back: the operation, the properties and the commit message."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancecy
from lancecy import LanceOperation
from lancecy.errors import NotFoundError
from tests.helpers.folded import folded

pytestmark = pytest.mark.interop

ROWS = pa.table({"a": range(10)})
GOLDEN = Path(__file__).parents[1] / "golden"
CHANGED = sorted(
    path.name
    for path in GOLDEN.glob("*.lance")
    if any(what in path.name for what in ("appended", "compacted", "deleted", "evolved", "merged", "rowids"))
)


def changed_in_every_way(place: Path) -> Any:
    """A table of pylance, changed by pylance and by lancecy."""
    import lance

    theirs = lance.write_dataset(ROWS, str(place), commit_message="first rows")
    lance.write_dataset(ROWS, str(place), mode="append", transaction_properties={"job": "7"})
    mine = lancecy.dataset(place)
    mine.insert(ROWS, commit_message="an Ä", transaction_properties={"job": "8"})
    mine.delete("a = 1")
    mine.update_config({"k": "v", "gone": None})
    mine.update_field_metadata({"a": {"unit": "m"}})
    mine.add_bases([lancecy.DatasetBasePath(place.parent / "b", name="b")])
    theirs = lance.dataset(str(place))
    theirs.add_columns({"b": "a + 1"})
    theirs.update({"b": "3"})
    theirs.create_scalar_index("a", "BTREE")
    theirs.optimize.compact_files()
    mine.checkout_version(2).restore()
    lancecy.write_dataset(ROWS, place, mode="overwrite", commit_message="anew")
    return lance.dataset(str(place))


def test_transactions_are_those_that_pylance_reads(tmp_path: Path) -> None:
    theirs = changed_in_every_way(tmp_path / "t.lance")
    mine = lancecy.dataset(tmp_path / "t.lance")
    found, expected = mine.get_transactions(100), theirs.get_transactions(100)
    assert len(found) == len(expected) == mine.version
    for made, other in zip(found, expected, strict=True):
        assert made is not None
        assert (made.read_version, made.uuid) == (other.read_version, other.uuid)
        assert made.transaction_properties == other.transaction_properties
        # pylance has no class for some kinds.
        assert type(other.operation).__name__ in (type(made.operation).__name__, "BaseOperation")
    numbered = [mine.read_transaction(version) for version in range(mine.version, 0, -1)]
    assert numbered == found
    assert len(mine.get_transactions()) == len(theirs.get_transactions()) == 10
    assert mine.get_transactions(3) == found[:3]
    assert mine.get_transactions(0) == []
    assert mine.checkout_version(2).get_transactions() == found[-2:]
    messages = {mine.version - n: made.commit_message for n, made in enumerate(found) if made}
    assert {version: text for version, text in messages.items() if text} == {
        1: "first rows",
        3: "an Ä",
        mine.version: "anew",
    }


def test_operations_have_the_classes_and_values_of_lance_operation(tmp_path: Path) -> None:
    changed_in_every_way(tmp_path / "t.lance")
    ds = lancecy.dataset(tmp_path / "t.lance")
    made = [made.operation for made in ds.get_transactions(100)[::-1] if made]
    kinds = [type(operation) for operation in made]
    assert kinds[:4] == [
        LanceOperation.Overwrite,
        LanceOperation.Append,
        LanceOperation.Append,
        LanceOperation.Delete,
    ]
    (fragment,) = made[1].fragments
    assert (fragment.physical_rows, len(fragment.files)) == (10, 1)
    assert [each.name for each in made[0].new_schema.fields] == ["a"]
    assert [part.deletion_file.num_deleted_rows for part in made[3].updated_fragments] == [1, 1, 1]
    assert (made[3].deleted_fragment_ids, "a = 1" in made[3].predicate) == ((), True)
    assert made[4] == LanceOperation.UpdateConfig(LanceOperation.UpdateMap({"k": "v", "gone": None}))
    assert made[5].field_metadata_updates == {0: LanceOperation.UpdateMap({"unit": "m"})}
    assert [base.name for base in made[6].new_bases] == ["b"]
    assert LanceOperation.Restore(2) in made
    assert repr(LanceOperation.Restore(2)) == "LanceOperation.Restore(version=2)"


@folded("table", CHANGED)
def test_transactions_of_every_release(table: str) -> None:
    import lance

    expected = lance.dataset(str(GOLDEN / table)).get_transactions(50)
    found = lancecy.dataset(GOLDEN / table).get_transactions(50)
    assert [made and (made.uuid, made.read_version) for made in found] == [
        made and (made.uuid, made.read_version) for made in expected
    ]


def test_transaction_without_a_readable_copy_is_none(tmp_path: Path) -> None:
    ds = lancecy.write_dataset(ROWS, tmp_path / "new.lance", commit_message="one")
    shutil.rmtree(tmp_path / "new.lance" / "_transactions")
    assert [made and made.commit_message for made in ds.get_transactions()] == ["one"]

    # Old releases stored transactions only as files.
    shutil.copytree(GOLDEN / "0.8.0_merged.lance", tmp_path / "old.lance")
    ds = lancecy.dataset(tmp_path / "old.lance")
    newest, _middle, oldest = ds.get_transactions()
    assert newest is not None
    assert oldest is not None
    files = {int(path.name[0]): path for path in (tmp_path / "old.lance" / "_transactions").iterdir()}
    files[2].unlink()
    files[1].write_bytes(b"nonsense")
    assert ds.get_transactions() == [None, None, oldest]


def test_list_ends_where_versions_were_cleaned_up(tmp_path: Path) -> None:
    import lance

    ds = lancecy.write_dataset(ROWS, tmp_path / "t.lance", commit_message="one")
    for word in ("two", "three", "four"):
        ds.insert(ROWS, commit_message=word)
    lance.dataset(ds.uri).tags.create("kept", 1)
    ds.cleanup_old_versions(timedelta(0), retain_versions=2, error_if_tagged_old_versions=False)
    assert [v["version"] for v in ds.versions()] == [1, 3, 4]
    expected = [made and made.transaction_properties for made in lance.dataset(ds.uri).get_transactions()]
    assert [made and made.transaction_properties for made in ds.get_transactions()] == expected
    assert [made and made.commit_message for made in ds.get_transactions()] == ["four", "three"]
    with pytest.raises(NotFoundError, match="no version 2; it has 4, 3, 1"):
        ds.read_transaction(2)
    with pytest.raises(ValueError, match="must not be negative"):
        ds.get_transactions(-1)
