"""Compaction from the shell."""

from __future__ import annotations

from pathlib import Path

import pytest

import lancecy
from tests.helpers.shell import run, run_json


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Four fragments of three rows, one row deleted."""
    path = tmp_path / "t.lance"
    ds = lancecy.write_dataset({"a": [0, 1, 2]}, path)
    for start in (3, 6, 9):
        ds.append({"a": [start, start + 1, start + 2]})
    ds.delete("a = 4")
    return path


def test_a_table_is_compacted(table: Path) -> None:
    done = run_json("compact", table, "-m", "tidy")
    assert done.pop("uri").endswith("t.lance")
    assert done == {
        "version": 6,
        "fragments_removed": 4,
        "fragments_added": 1,
        "files_removed": 5,
        "files_added": 1,
        "fragments": 1,
    }
    ds = lancecy.dataset(table)
    assert ds.to_table()["a"].to_pylist() == [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11]
    again = run("compact", table)
    assert again.exit_code == 0
    assert again.stdout.startswith("nothing to do:")
    assert lancecy.dataset(table).version == 6


def test_a_dry_run_says_what_would_be_rewritten(table: Path) -> None:
    found = run_json("compact", table, "--target-rows", 6, "--dry-run")
    assert {name: found[name] for name in ("version", "fragments_removed", "files_removed", "fragments")} == {
        "version": 5,
        "fragments_removed": 4,
        "files_removed": 5,
        "fragments": 4,
    }
    assert (found["rows"], found["deleted_rows"]) == (11, 1)
    assert found["bytes"] == sum(path.stat().st_size for path in (table / "data").iterdir())
    shown = run("compact", table, "--dry-run")
    assert shown.stdout.startswith("would rewrite:")
    assert lancecy.dataset(table).version == 5


def test_a_share_of_deleted_rows_may_be_tolerated(table: Path) -> None:
    assert run_json("compact", table, "--target-rows", 1, "--deleted-share", 0.5)["fragments_removed"] == 0
    assert run_json("compact", table, "--target-rows", 1, "--reencode")["fragments_removed"] == 1
    assert run("compact", table, "--target-rows", 0).exit_code == 2
