"""Shallow clones: the bytes are those of pylance, whatever is cloned, and the files stay where they are."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancecy
from lancecy.changes.shallow_clone import clone_location, shallow_clone
from lancecy.errors import ExistsError, NotFoundError, PathPolicyError
from lancecy.proto import table_pb2
from lancecy.table.location import TableLocation
from lancecy.table.operations.transaction import decode_transaction
from lancecy.table.paths import parse_manifest_name
from lancecy.table.snapshot import load_snapshot
from lancecy.table.wire.manifest_file import ManifestFile, decode_manifest_file

pytestmark = pytest.mark.interop


def clone(source: Path, version: int | str, target: Path) -> lancecy.Dataset:
    snapshot = load_snapshot(TableLocation.of(str(source)), version)
    location = clone_location(snapshot, str(target))
    assert shallow_clone(snapshot, location).version == snapshot.version
    return lancecy.dataset(target)


def rows(numbers: Iterable[int]) -> pa.Table:
    numbers = list(numbers)
    return pa.table({"a": numbers, "s": [f"row {n}" for n in numbers]})


def a_table(path: Path) -> Path:
    """Five versions: appended rows, a deletion file, an index, and a configuration."""
    ds = lance.write_dataset(rows(range(10)), str(path))
    ds = lance.write_dataset(rows(range(10, 20)), str(path), mode="append")
    ds.delete("a = 1")
    ds.create_scalar_index("a", "BTREE")
    ds.update_config({"key": "value"})
    ds.tags.create("first", 1)
    return path


def only_version(path: Path) -> ManifestFile:
    (file,) = (path / "_versions").glob("*.manifest")
    name = parse_manifest_name(file.name)
    assert name is not None
    return decode_manifest_file(np.fromfile(file, np.uint8), file.name, name.version)


def stored(path: Path) -> tuple[bytes, list[bytes], bytes | None, bytes, Any]:
    """What the only version of a table holds, without times, writer and ids: message, bases, indices, dictionaries."""
    found = only_version(path)
    message = table_pb2.Manifest()
    message.CopyFrom(found.message)
    for field in ("timestamp", "transaction_file", "writer_version", "index_section", "transaction_section"):
        message.ClearField(field)
    # pylance writes the bases in the order of a hash table.
    bases = sorted(base.SerializeToString() for base in message.base_paths)
    del message.base_paths[:]
    assert found.transaction is not None
    made = decode_transaction(found.transaction)
    (file,) = (path / "_transactions").iterdir()
    assert file.name == found.message.transaction_file == made.file_name
    assert file.read_bytes() == found.transaction
    return (message.SerializeToString(deterministic=True), bases, found.indices, found.dictionaries,
            (made.read_version, made.operation, made.properties))  # fmt: skip


def assert_alike(source: Path, version: int | str, folder: Path) -> Path:
    """Both libraries clone a version; the clones have the same bytes, and each reads that of the other."""
    mine, theirs = folder / "mine", folder / "theirs"
    clone(source, version, mine)
    lance.dataset(str(source)).shallow_clone(str(theirs), version)
    assert stored(mine) == stored(theirs)
    (one,), (other,) = ((path / "_versions").glob("*.manifest") for path in (mine, theirs))
    assert one.name == other.name
    expected = lance.dataset(str(source), version=version).to_table()
    for path in (mine, theirs):
        assert lancecy.dataset(path).to_table() == lance.dataset(str(path)).to_table() == expected
    return mine


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5, "first"])
def test_any_version_is_cloned_as_pylance_does(version: int | str, tmp_path: Path) -> None:
    assert_alike(a_table(tmp_path / "t"), version, tmp_path)


def test_branch_and_clones_of_clones_are_cloned_as_pylance_does(tmp_path: Path) -> None:
    lance.dataset(str(a_table(tmp_path / "t"))).create_branch("team/b", 4)
    source = tmp_path / "t" / "tree" / "team" / "b"
    for depth in range(3):
        (tmp_path / str(depth)).mkdir()
        source = assert_alike(source, 4, tmp_path / str(depth))
    assert [base.name for base in lancecy.dataset(source).base_paths.values()] == [None, "team/b", None, None]


def test_table_over_several_bases_is_cloned_as_pylance_does(tmp_path: Path) -> None:
    bases = [lance.DatasetBasePath(str(tmp_path / name), name=name) for name in ("b1", "b2")]
    lance.write_dataset(rows(range(9)), str(tmp_path / "t"), initial_bases=bases, target_bases=["b1", "b2"],
                        max_rows_per_file=2, enable_stable_row_ids=True)  # fmt: skip
    lance.write_dataset(rows(range(9)), str(tmp_path / "t"), mode="append")
    made = assert_alike(tmp_path / "t", 2, tmp_path)
    assert sorted(lancecy.dataset(made).base_paths) == [0, 1, 2]


def test_dictionaries_of_an_old_table_are_cloned_as_pylance_does(tmp_path: Path) -> None:
    values = pa.table({"d": pa.array(["a", "b", "a"]).dictionary_encode(), "n": [1, 2, 3]})
    lance.write_dataset(values, str(tmp_path / "t"), data_storage_version="legacy")
    lance.dataset(str(tmp_path / "t")).create_scalar_index("n", "BTREE")
    assert_alike(tmp_path / "t", 2, tmp_path)


def test_changes_of_a_clone_stay_in_its_own_folder(tmp_path: Path) -> None:
    source = a_table(tmp_path / "t")
    before = {path: path.read_bytes() for path in source.rglob("*") if path.is_file()}
    ds = clone(source, 5, tmp_path / "clone")
    ds.append(rows([100]))
    ds.delete("a < 12")
    ds.update({"s": "'new'"}, where="a = 15")
    ds.add_columns({"twice": "2 * a"})
    assert ds.version == 9 and sorted(ds.to_table()["a"].to_pylist()) == [*range(12, 20), 100]
    assert lance.dataset(str(tmp_path / "clone")).to_table() == ds.to_table()
    assert {path: path.read_bytes() for path in source.rglob("*") if path.is_file()} == before


def test_existing_table_is_never_replaced_by_a_clone(tmp_path: Path) -> None:
    source = a_table(tmp_path / "t")
    other = lancecy.write_dataset({"x": [1]}, tmp_path / "other")
    with pytest.raises(ExistsError, match="other has a table already; clone to another place"):
        clone(source, 5, tmp_path / "other")
    assert other.checkout_latest().to_table().to_pydict() == {"x": [1]}


@pytest.mark.parametrize("place", ["t", "t/data/c", "t/tree/c", "."])
def test_clone_is_not_made_in_the_folder_of_its_source(place: str, tmp_path: Path) -> None:
    source = a_table(tmp_path / "t")
    with pytest.raises(PathPolicyError, match="outside of it"):
        clone(source, 5, tmp_path / place)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t"]


def test_version_that_a_cleanup_removed_is_not_cloned(tmp_path: Path) -> None:
    ds = lancecy.write_dataset({"a": [1]}, tmp_path / "t")
    snapshot = load_snapshot(TableLocation.of(ds.uri))
    ds.append({"a": [2]})
    ds.cleanup_old_versions(retain_versions=1)
    with pytest.raises(NotFoundError, match="version 1 of .* was removed"):
        shallow_clone(snapshot, clone_location(snapshot, str(tmp_path / "clone")))
    assert not (tmp_path / "clone").exists()
