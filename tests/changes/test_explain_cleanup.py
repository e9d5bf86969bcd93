"""What a cleanup would remove, beside pylance's explanation and beside the cleanup itself."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import lancecy
from lancecy.errors import ConflictError

lance = pytest.importorskip("lance")
pytestmark = pytest.mark.interop

NOW = timedelta(0)


def table(place: Path) -> lancecy.Dataset:
    """Three versions, of which the last replaced all rows, and a data file of a write that failed."""
    ds = lancecy.write_dataset({"a": list(range(10))}, place, max_rows_per_file=4)
    ds.delete("a IN (1, 2, 8, 9)")
    ds.insert({"a": [1]}, mode="overwrite")
    lancecy.write_fragments({"a": [7]}, ds)
    return ds


def listed(found: Any, root: str) -> set[tuple[str, str, int]]:
    return {
        (f.path.partition(f"{root.lstrip('/')}/")[2] or f.path, f.kind, f.size_bytes)
        for f in found.candidate_files
    }


@pytest.mark.parametrize("unverified", [False, True])
def test_files_and_counts_are_those_of_pylance(tmp_path: Path, unverified: bool) -> None:
    ds = table(tmp_path / "t")
    options: dict[str, Any] = {"include_files": True, "delete_unverified": unverified}
    mine = ds.explain_cleanup_old_versions(NOW, **options)
    theirs = lance.dataset(ds.uri).explain_cleanup_old_versions(NOW, **options)
    assert listed(mine, ds.uri) == listed(theirs, ds.uri)
    # pylance says it of all files as soon as it removes unverified ones.
    assert sum(file.unverified for file in mine.candidate_files) == unverified
    for name in ("bytes_removed", "old_versions", "data_files_removed", "deletion_files_removed"):
        assert getattr(mine.stats, name) == getattr(theirs.stats, name), name
    for name in ("read_version", "candidate_files_truncated", "candidate_file_limit", "warnings"):
        assert getattr(mine, name) == getattr(theirs, name), name
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert ds.cleanup_old_versions(NOW, delete_unverified=unverified) == mine.stats
    gone = before - {path for path in tmp_path.rglob("*") if path.is_file()}
    assert {str(path.relative_to(ds.uri)) for path in gone} == {file.path for file in mine.candidate_files}


def test_the_list_may_be_cut_or_left_out(tmp_path: Path) -> None:
    ds = table(tmp_path / "t")
    cut = ds.explain_cleanup_old_versions(NOW, include_files=True, max_files=2)
    assert [file.kind for file in cut.candidate_files] == ["manifest", "manifest"]
    assert (cut.candidate_files_truncated, cut.candidate_file_limit, cut.stats.old_versions) == (True, 2, 2)
    usual = ds.explain_cleanup_old_versions()
    assert (usual.stats.old_versions, usual.candidate_files, usual.candidate_files_truncated) == (
        0,
        [],
        False,
    )
    kept = ds.explain_cleanup_old_versions(retain_versions=2, delete_rate_limit=1)
    assert kept.stats.old_versions == 1
    with pytest.raises(ValueError, match="max_files is 0"):
        ds.explain_cleanup_old_versions(NOW, max_files=0)
    with pytest.raises(ValueError, match="at least one version"):
        ds.explain_cleanup_old_versions(retain_versions=0)


def test_branches_and_tags_keep_what_they_need(tmp_path: Path) -> None:
    ds = table(tmp_path / "t")
    ds.create_branch("dev", 1)
    mine = ds.explain_cleanup_old_versions(NOW)
    theirs = lance.dataset(ds.uri).explain_cleanup_old_versions(NOW)
    assert mine.stats.old_versions == theirs.stats.old_versions == 1
    (branch,), (other,) = mine.referenced_branches, theirs.referenced_branches
    for name in ("name", "referenced_version", "cleanup_candidate"):
        assert getattr(branch, name) == getattr(other, name)
    ds.tags.create("v2", 2)
    with pytest.raises(ConflictError, match="1 versions to remove are tagged"):
        ds.explain_cleanup_old_versions(NOW)
    assert ds.explain_cleanup_old_versions(NOW, error_if_tagged_old_versions=False).stats.old_versions == 0
