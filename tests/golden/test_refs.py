"""Tags and branches that old releases wrote: their files have no times, no metadata and no identifiers."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pytest

import lancecy
from lancecy.errors import ConflictError
from tests.helpers.golden import Golden, all_goldens

TABLES = [table for table in all_goldens() if "references" in table.note]

each = pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)


@pytest.fixture(autouse=True)
def without_warnings() -> Iterator[None]:
    """The branches were written elsewhere, which opening them tells."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*moved with the table", RuntimeWarning)
        yield


def ids(ds: Any) -> list[int]:
    return sorted(ds.to_table()["id"].to_pylist())


def references(table: Golden, kind: str) -> dict[str, tuple[str | None, int]]:
    """Name to the branch and version that a tag names, or a branch starts from."""
    return {
        name: (branch, version) for name, (branch, version) in table.note["references"].get(kind, {}).items()
    }


def last_ids(table: Golden, name: str) -> list[int]:
    """Rows of a tag or branch: only the branch ``inner`` has lost rows, the first ones."""
    first = 2 if name == "inner" else 0
    return [*range(first, first + table.note["references"]["rows"][name])]


def check_all(table: Golden, ds: lancecy.Dataset) -> None:
    for name in references(table, "tags"):
        assert (
            ids(ds.checkout_version(name))
            == ids(lancecy.dataset(ds.uri, version=name))
            == last_ids(table, name)
        )
    for name in references(table, "branches"):
        assert ids(ds.checkout_version((name, None))) == last_ids(table, name)


def test_releases_with_their_own_form_of_the_files_are_here() -> None:
    keys = {
        file.parent.name: set(json.loads(file.read_text()))
        for table in TABLES
        for file in sorted((table.path / "_refs").rglob("*.json"), key=lambda file: table.release == "1.0.4")
    }
    assert {table.release for table in TABLES} == {"0.20.0", "1.0.4"}
    assert keys == {
        "tags": {"branch", "version", "manifestSize"},
        "branches": {"parentBranch", "parentVersion", "createAt", "manifestSize"},
    }


@each
def test_they_are_listed_and_opened(table: Golden, tmp_path: Path) -> None:
    ds = lancecy.dataset(table.copy_to(tmp_path))
    listed = {name: (tag["branch"], tag["version"]) for name, tag in ds.tags.list().items()}
    assert listed == references(table, "tags")
    assert all(tag["created_at"] is None and tag["metadata"] == {} for tag in ds.tags.list().values())
    found = {name: (one["parent_branch"], one["parent_version"]) for name, one in ds.branches.list().items()}
    assert found == references(table, "branches")
    check_all(table, ds)
    assert ds.verify().is_ok


@each
def test_pylance_lists_the_same(table: Golden) -> None:
    mine, theirs = lancecy.dataset(table.path), lance.dataset(str(table.path))
    assert {name: tag["version"] for name, tag in theirs.tags.list().items()} == {
        name: tag["version"] for name, tag in mine.tags.list().items()
    }
    # pylance makes up identifiers of branches that have none.
    lists = [ds.branches.list() for ds in (mine, theirs)]
    assert lists[0] == {name: {**branch, "branch_identifier": []} for name, branch in lists[1].items()}


@each
def test_a_cleanup_keeps_them(table: Golden, tmp_path: Path) -> None:
    ds = lancecy.dataset(table.copy_to(tmp_path))
    lancecy.write_dataset(ds.to_table().slice(0, 1), ds, mode="overwrite")
    ds = ds.checkout_latest()
    ds.cleanup_old_versions(
        timedelta(0), retain_versions=1, all_branches=True, error_if_tagged_old_versions=False
    )
    check_all(table, ds)


@each
def test_a_tag_is_moved_and_deleted(table: Golden, tmp_path: Path) -> None:
    ds = lancecy.dataset(table.copy_to(tmp_path))
    for name in references(table, "tags"):
        ds.tags.update(name, ("main", 2))
        assert lance.dataset(ds.uri).tags.get_version(name) == 2
        ds.tags.delete(name)
    assert ds.tags.list() == {} and lance.dataset(ds.uri).tags.list() == {}


def test_branches_are_written_deleted_in_order_and_given_their_new_place(tmp_path: Path) -> None:
    (table,) = (table for table in TABLES if references(table, "branches"))
    ds = lancecy.dataset(table.copy_to(tmp_path))
    for name in ("team/dev", "inner"):
        branch = ds.checkout_version((name, None))
        old = next(base.path for base in branch.base_paths.values() if base.path.endswith(table.path.name))
        branch.relocate_base(old, ds.uri)
        branch.append(branch.to_table().slice(0, 1))
        assert ids(lance.dataset(branch.uri)) == sorted([*last_ids(table, name), last_ids(table, name)[0]])
    with pytest.raises(ConflictError, match="inner"):
        ds.branches.delete("team/dev")
    ds.branches.delete("inner")
    with pytest.raises(ConflictError, match="dev-3"):
        ds.branches.delete("team/dev")
    ds.tags.delete("dev-3")
    ds.branches.delete("team/dev")
    assert ds.branches.list() == {} and not ds.branches.list_leftovers()
    assert ids(ds) == [*range(5)] and ids(ds.checkout_version("first")) == [*range(3)]
