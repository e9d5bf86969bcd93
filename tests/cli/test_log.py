"""``lancecy log``: what made each version of a table."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

import lancecy
from tests.helpers.shell import run, run_json


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Five versions."""
    path = tmp_path / "t.lance"
    ds = lancecy.write_dataset(
        {"a": range(10), "b": ["x"] * 10}, path, max_rows_per_file=5, commit_message="begin, again"
    )
    ds.insert({"a": [10], "b": ["y"]}, commit_message="one\nmore")
    ds.delete("a < 3")
    ds.update_config({"owner": "me"})
    ds.checkout_version(2).restore()
    return path


def test_every_version_has_its_operation_rows_and_message(table: Path) -> None:
    found = run_json("log", table)
    assert [(entry["version"], entry["operation"]) for entry in found] == [
        (5, "Restore"),
        (4, "UpdateConfig"),
        (3, "Delete"),
        (2, "Append"),
        (1, "Overwrite"),
    ]
    counts = [(entry["rows"], entry["rows_added"], entry["rows_removed"]) for entry in found]
    assert counts == [(11, 3, 0), (8, 0, 0), (8, 0, 3), (11, 1, 0), (10, 10, 0)]
    assert [entry["message"] for entry in found] == [None, None, None, "one\nmore", "begin, again"]
    assert {entry["writer"] for entry in found} == {f"lancecy {lancecy.__version__}"}
    assert found[0]["details"].startswith("version 2, fragments: 1 with other deletions")
    assert found[1]["details"] == "config owner"
    assert found[2]["details"] == "where a < 3, fragments: 1 with other deletions"
    assert found[4]["details"] == "fragments: 2 new"


def test_the_log_ends_where_it_is_told(table: Path) -> None:
    assert [entry["version"] for entry in run_json("log", table, "-n", 2)] == [5, 4]
    short = run_json("log", table, "--version", 3, "--limit", 2)
    assert [(entry["version"], entry["rows_removed"]) for entry in short] == [(3, 3), (2, 0)]
    assert len(run_json("log", table, "-n", 50)) == 5


def test_the_log_as_text_and_as_csv(table: Path) -> None:
    shown = run("log", table)
    assert shown.exit_code == 0, shown.output
    assert "where a < 3" in shown.stdout
    rows = list(csv.DictReader(io.StringIO(run("log", table, "--csv").stdout)))
    assert [row["version"] for row in rows] == ["5", "4", "3", "2", "1"]
    assert rows[4]["message"] == "begin, again"
    assert rows[3]["message"] == "one\\nmore"
    assert rows[0]["message"] == ""
    both = run("log", table, "--csv", "--json")
    assert (both.exit_code, "give one of them" in both.stderr) == (2, True)


def test_rows_of_a_version_whose_predecessor_is_gone_are_unknown(table: Path) -> None:
    (table / "_versions" / f"{2**64 - 1 - 2}.manifest").unlink()
    found = {entry["version"]: entry for entry in run_json("log", table)}
    assert sorted(found) == [1, 3, 4, 5]
    assert (found[3]["rows"], found[3]["rows_added"], found[3]["rows_removed"]) == (8, None, None)
    assert (found[3]["details"], found[1]["rows_added"]) == ("where a < 3", 10)
    assert "unknown" in run("log", table).stdout


@pytest.mark.interop
def test_changes_of_pylance_are_told_too(table: Path) -> None:
    import lance

    theirs = lance.dataset(str(table))
    theirs.update({"b": "'new'"}, where="a < 2")
    theirs.optimize.compact_files()
    theirs.add_columns({"c": "a + 1"})
    theirs.alter_columns({"path": "c", "name": "d"})  # type: ignore[dict-item]
    theirs.drop_columns(["d"])
    found = run_json("log", table, "-n", 6)
    assert [entry["operation"] for entry in found] == [
        "Project",
        "Project",
        "Merge",
        "Rewrite",
        "ReserveFragments",
        "Update",
    ]
    assert [(entry["rows_added"], entry["rows_removed"]) for entry in found] == [(0, 0)] * 5 + [(2, 2)]
    assert [entry["details"].split(", fragments")[0] for entry in found[:3]] == [
        "-d: int64",
        "c: int64 to d: int64",
        "+c: int64",
    ]
    assert found[0]["writer"].startswith("lance ")
