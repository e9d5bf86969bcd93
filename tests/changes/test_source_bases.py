"""Bases that are other tables: the sources of shallow clones and branches."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancecy
from lancecy import DatasetBasePath
from lancecy.errors import PathPolicyError
from tests.helpers.folded import folded

pytestmark = pytest.mark.interop


def rows(*numbers: int) -> pa.Table:
    return pa.table({"n": list(numbers)})


def values(ds: Any) -> list[int]:
    return sorted(ds.to_table()["n"].to_pylist())


def files_in(folder: Path) -> set[str]:
    return {path.name for path in (folder / "data").iterdir()}


def clone_of_clone(folder: Path) -> Path:
    """pylance's clone of a clone of a branch: two of its bases are other tables, one is a folder of the first."""
    import lance

    base = DatasetBasePath(folder / "disk", "disk")
    lancecy.write_dataset(rows(1), folder / "t", initial_bases=[base], target_bases=["disk"])
    branch = lance.dataset(str(folder / "t")).create_branch("dev")
    branch.insert(rows(2), mode="append")
    one = branch.shallow_clone(str(folder / "one"), branch.version)
    one.insert(rows(3), mode="append")
    one.shallow_clone(str(folder / "two"), one.version)
    return folder / "two"


@folded("door", ["append", "overwrite", "merge", "shared"])
def test_a_clone_writes_to_its_sources_only_where_they_are_named(door: str, tmp_path: Path) -> None:
    folder = tmp_path / door
    ds = lancecy.dataset(clone_of_clone(folder))
    sources = [folder / "t", folder / "t" / "tree" / "dev", folder / "one"]
    known = [files_in(source) if (source / "data").exists() else set() for source in sources]
    new = rows(4, 5, 6, 7)
    spread: dict[str, Any] = {"target_all_bases": True, "max_rows_per_file": 1}
    match door:
        case "merge":
            upsert = ds.merge_insert("n").when_not_matched_insert_all().target_all_bases()
            upsert.execute(new)
        case "shared":
            import dask.dataframe as dd

            lancecy.write_dask(
                dd.from_pandas(new.to_pandas(), npartitions=2), ds.uri, mode="append", **spread
            )
        case "append" | "overwrite" as mode:
            ds.insert(new, mode=mode, **spread)
    assert [files_in(source) if (source / "data").exists() else set() for source in sources] == known
    expected = [4, 5, 6, 7] if door == "overwrite" else [1, 2, 3, 4, 5, 6, 7]
    for source in sources:
        lancecy.dataset(source).cleanup_old_versions(timedelta(0), delete_unverified=True)
    ds = lancecy.dataset(ds.uri)
    assert values(ds) == expected
    last = ds.get_fragments()[-1 if door == "merge" else -4 :]  # a small merge writes one file
    written = {file.base_id for part in last for file in part.data_files()}
    own = {None, next(base.id for base in ds.base_paths.values() if base.name == "disk")}
    assert written <= own
    assert written == own or door == "merge"


def test_a_source_that_is_named_is_written_to(tmp_path: Path) -> None:
    import lance

    source = lancecy.write_dataset(rows(1), tmp_path / "t")
    lance.dataset(source.uri).shallow_clone(str(tmp_path / "clone"), 1)
    ds = lancecy.dataset(tmp_path / "clone")
    ds.append(rows(2), target_bases=[source.uri])
    assert [file.base_id for part in ds.get_fragments() for file in part.data_files()] == [0, 0]
    with pytest.raises(
        ValueError, match="no bases to write to but other tables, which have to be named in target_bases"
    ):
        ds.append(rows(3), target_all_bases=False)


def test_a_table_that_was_registered_as_a_base_is_left_out(tmp_path: Path) -> None:
    other = lancecy.write_dataset(rows(9), tmp_path / "other")
    bases = [
        DatasetBasePath(other.uri, "other", is_dataset_root=True),
        DatasetBasePath(tmp_path / "empty", "empty", is_dataset_root=True),
    ]
    ds = lancecy.write_dataset(
        rows(1, 2, 3), tmp_path / "t", initial_bases=bases, target_all_bases=True, max_rows_per_file=1
    )
    ds.append(rows(4, 5), target_all_bases=True, max_rows_per_file=1)
    assert {file.base_id for part in ds.get_fragments() for file in part.data_files()} == {None, 2}
    assert len(files_in(tmp_path / "other")) == 1


@pytest.mark.filterwarnings("ignore:path of base:RuntimeWarning")
@folded("spelled", ["t", "./t", "../cwd/t/", "t/tree/dev"])
def test_a_source_opened_by_a_relative_path_is_relocated(
    spelled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import lance

    cwd = tmp_path / spelled.replace("/", "_") / "cwd"
    cwd.mkdir(parents=True)
    monkeypatch.chdir(cwd)
    lance.write_dataset(rows(1, 2), "t").create_branch("dev")
    lance.dataset(spelled).shallow_clone(str(cwd / "clone"), 1)
    ds = lancecy.dataset(cwd / "clone")
    recorded = {number: base.path for number, base in ds.base_paths.items()}
    assert recorded[0] in (spelled, "t") and values(ds) == values(lance.dataset(str(cwd / "clone"))) == [1, 2]
    with pytest.raises(PathPolicyError, match="relocate_base gives the base an absolute path"):
        lancecy.dataset(cwd / "clone", untrusted=True, allowed_bases=[str(cwd)]).to_table()

    for path in recorded.values():
        ds.relocate_base(path, Path(path).absolute())
    monkeypatch.chdir(tmp_path)
    assert values(lancecy.dataset(ds.uri)) == values(lance.dataset(ds.uri)) == [1, 2]
    lancecy.dataset(ds.uri).append(rows(3), target_bases=[ds.base_paths[0].path])
    lance.write_dataset(rows(4), ds.uri, mode="append")
    assert values(lancecy.dataset(ds.uri)) == values(lance.dataset(ds.uri)) == [1, 2, 3, 4]


def test_the_source_of_a_clone_is_relocated(tmp_path: Path) -> None:
    import lance

    path = clone_of_clone(tmp_path)
    for name in ("t", "one"):
        (tmp_path / name).rename(tmp_path / f"new-{name}")
    ds = lancecy.dataset(path)
    for base in ds.base_paths.values():
        if base.is_dataset_root:
            tail = Path(base.path).relative_to(tmp_path)
            ds.relocate_base(base.path, tmp_path / f"new-{tail}")
    assert ds.base_paths[0].path == str(tmp_path / "new-t")
    assert values(lancecy.dataset(path)) == values(lance.dataset(str(path))) == [1, 2, 3]
