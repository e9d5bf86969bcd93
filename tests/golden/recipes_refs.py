"""Golden tables with tags and branches of releases whose files of them are others than today's."""

from __future__ import annotations

from typing import Any

import lance
import pyarrow as pa

from tests.golden.recipe import Made, stored, write

__all__ = ["make_branches", "make_tags"]


def make_tags(path: str) -> Made:
    """Two versions and a tag of each; files of tags have no branch, times or metadata."""
    ds = _two_versions(path)
    ds.tags.create("first", 1)
    ds.tags.create("v2.0", 2)
    return Made(
        _answers(),
        "A tag of each version.",
        references={"tags": {"first": [None, 1], "v2.0": [None, 2]}, "rows": {"first": 3, "v2.0": 5}},
    )


def make_branches(path: str) -> Made:
    """A branch of the main table and one of that branch; files of branches have no identifier or metadata."""
    ds = _two_versions(path)
    ds.tags.create("first", 1)
    branch = ds.create_branch("team/dev", 2)
    lance.write_dataset(_rows(5, 9), branch, mode="append")
    branch = ds.checkout_branch("team/dev")
    create: Any = ds.tags.create  # later releases take a tuple
    create("dev-3", 3, "team/dev")
    branch.create_branch("inner").delete("id < 2")
    return Made(
        _answers(),
        "Branch team/dev of version 2 appends, is tagged, and is the start of branch inner, which deletes.",
        references={
            "tags": {"dev-3": ["team/dev", 3], "first": [None, 1]},
            "branches": {"inner": ["team/dev", 3], "team/dev": [None, 2]},
            "rows": {"first": 3, "dev-3": 9, "team/dev": 9, "inner": 7},
        },
    )


def _two_versions(path: str) -> lance.LanceDataset:
    write(_rows(0, 3), path)
    write(_rows(3, 5), path, mode="append")
    return lance.dataset(path)


def _answers() -> dict[int, pa.Table]:
    return {1: stored(_rows(0, 3)), 2: stored(_rows(0, 5))}


def _rows(start: int, end: int) -> pa.Table:
    return pa.table({"id": pa.array(range(start, end), pa.int64())})
