"""Copies of whole tables from the shell."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import lancecy
from tests.helpers.shell import run, run_json


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Main: versions 1 to 3. The branch team/dev from version 1, with two versions. The tag v1.0: version 1 of main."""
    path = tmp_path / "t.lance"
    ds = lancecy.write_dataset({"a": [1, 2]}, path)
    ds.create_branch("team/dev").append({"a": [10, 11]})
    ds.tags.create("v1.0", 1)
    ds.append({"a": [3]})
    ds.append({"a": [4]})
    return path


def test_a_copy_has_versions_tags_and_branches(table: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy.lance"
    told = run_json("copy", table, target, "--dry-run")
    assert not target.exists()
    done = run_json("copy", table, target, "--verify")
    assert done == {**told, "dry_run": False}
    assert done["versions"] == {"main": [1, 2, 3], "team/dev": [1, 2]}
    assert done["tags"] == ["v1.0"]
    assert run_json("count", target, "--tag", "v1.0")["rows"] == 2
    assert run_json("count", target, "--branch", "team/dev")["rows"] == 4
    found = run("copy", table, target)
    assert (found.exit_code, found.stdout) == (2, "")
    assert "has a table already" in found.stderr


@pytest.mark.parametrize("options", [["--newest", "2"], ["--versions", "2,3"]])
def test_it_names_what_is_left_out(table: Path, tmp_path: Path, options: list[str]) -> None:
    shown = run("copy", table, tmp_path / "copy.lance", *options).stdout
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert lines[0] == "copied:"
    assert {"versions 2", "branches none", "branches left out team/dev", "tags left out v1.0"} <= set(lines)
    assert run_json("count", tmp_path / "copy.lance", "--version", "2")["rows"] == 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--versions", "1", "--newest", "1"], "--versions and --newest both choose versions"),
        (["--versions", "1-3"], "--versions is a list such as 3,5,8, not '1-3'"),
        (["--versions", "7"], "no version 7 to copy; the table has 1, 2, 3"),
        (["--versions", "0"], "name at least one, from 1 on"),
        (["--newest", "0"], "0 is not in the range"),
        (["--target-option", "key"], "a storage option is KEY=VALUE, not 'key'"),
    ],
)
def test_wrong_options(table: Path, tmp_path: Path, options: list[str], said: str) -> None:
    found = run("copy", table, tmp_path / "copy.lance", *options)
    assert (found.exit_code, found.stdout) == (2, "")
    assert said in " ".join(found.stderr.replace("│", " ").split())
    assert not (tmp_path / "copy.lance").exists()


@pytest.fixture
def with_base(tmp_path: Path) -> Path:
    bases = [lancecy.DatasetBasePath(tmp_path / "disk", name="disk")]
    path = tmp_path / "spread.lance"
    lancecy.write_dataset({"a": [1, 2]}, path, initial_bases=bases, target_bases=["disk"])
    return path


def test_a_base_goes_along(with_base: Path, tmp_path: Path) -> None:
    target, disk = tmp_path / "copy.lance", tmp_path / "other"
    shown = run("copy", with_base, target, "--base", f"disk={disk}").stdout
    assert f"base {tmp_path / 'disk'} -> {disk}" in " ".join(shown.split())
    shutil.rmtree(tmp_path / "disk")
    assert run_json("count", target)["rows"] == 2


def test_only_a_base_moves(with_base: Path, tmp_path: Path) -> None:
    disk = tmp_path / "other"
    done = run_json("copy", with_base, "--base", f"disk={disk}")
    assert done["bases"] == {str(tmp_path / "disk"): str(disk)}
    shutil.rmtree(tmp_path / "disk")
    assert run_json("count", with_base)["rows"] == 2
    found = run("copy", with_base)
    assert (found.exit_code, found.stdout) == (2, "")
    assert "name TARGET for the table, or bases to move with --base" in found.stderr
