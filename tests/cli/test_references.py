"""Tags, branches and clones from the shell; versions named by tag and by branch."""

from __future__ import annotations

from pathlib import Path

import pytest

import lancecy
from lancecy.cli.main import main
from tests.helpers.shell import run, run_json

CHANGERS = (
    "write",
    "delete",
    "update",
    "merge",
    "columns",
    "compact",
    "restore",
    "cleanup",
    "bases",
    "repair",
)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Main: 2 and 3 rows. The branch team/dev, from version 1: 2 and 4 rows. The tag v1.0: version 1 of main."""
    path = tmp_path / "t.lance"
    ds = lancecy.write_dataset({"a": [1, 2]}, path)
    dev = ds.create_branch("team/dev")
    dev.append({"a": [10, 11]})
    ds.tags.create("v1.0", 1, {"by": "me"})
    ds.append({"a": [3]})
    return path


def _failed(*arguments: object) -> str:
    found = run(*arguments)
    assert (found.exit_code, found.stdout) == (2, ""), found.output
    return " ".join(found.stderr.replace("│", " ").split())


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        (["--version", "1"], 2),
        (["--version", "v1.0"], 2),
        (["--tag", "v1.0"], 2),
        (["--branch", "team/dev"], 4),
        (["--branch", "team/dev", "--version", "1"], 2),
        (["--version", "team/dev:2"], 4),
        (["--version", "team/dev:latest"], 4),
        (["--version", "main:1"], 2),
        (["--branch", "main"], 3),
    ],
)
def test_readers_open_a_tag_a_branch_and_a_version_of_a_branch(
    table: Path, options: list[str], rows: int
) -> None:
    assert run_json("count", table, *options) == {"rows": rows}
    assert len(run_json("head", table, *options)) == rows


def test_a_branch_opens_by_its_uri_too(table: Path) -> None:
    branch = table / "tree" / "team" / "dev"
    assert run_json("count", branch) == {"rows": 4}
    assert run_json("count", branch, "--branch", "main") == {"rows": 3}
    assert run_json("info", branch, "--tag", "v1.0")["branch"] is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--version", "1", "--tag", "v1.0"], "--version and --tag both name a version"),
        (["--tag", "v1.0", "--asof", "2024-01-01"], "--tag and --asof both name a version"),
        (["--tag", "v1.0", "--branch", "team/dev"], "--tag names the branch too: leave --branch out"),
        (["--version", "team/dev:1", "--branch", "team/dev"], "--version names the branch too"),
        (["--version", "team/dev:x"], "versions are written 3, TAG, BRANCH:3 or BRANCH:latest"),
        (["--version", "v1.1"], "v1.0"),
        (["--tag", "v2.0"], "v1.0"),
        (["--branch", "team/def"], "team/dev"),
        (["--branch", "team/dev", "--version", "9"], "has no version 9"),
    ],
)
def test_a_wrong_reference_is_an_error(table: Path, options: list[str], said: str) -> None:
    assert said in _failed("count", table, *options)


def test_every_command_of_a_table_takes_a_branch() -> None:
    for name in CHANGERS:
        options = {text for option in main.commands[name].params for text in option.opts}
        assert "--branch" in options, name


def test_changes_on_a_branch_leave_the_table_alone(table: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"a": 12}\n')
    on = ("--branch", "team/dev")
    assert run_json("write", rows, table, "--mode", "append", *on)["rows"] == 5
    assert run_json("delete", table, "a = 1", "-y", *on)["deleted_rows"] == 1
    assert run_json("update", table, "--set", "a=0", "--where", "a = 2", *on)["updated_rows"] == 1
    assert run_json("compact", table, *on)["fragments_removed"] > 0
    assert lancecy.dataset(table, ("team/dev", None)).to_table()["a"].to_pylist() == [10, 11, 12, 0]
    assert run_json("restore", table, 2, *on)["rows"] == 4
    assert run_json("verify", table, "--repair", *on)["ok"] is True
    assert lancecy.dataset(table).to_table()["a"].to_pylist() == [1, 2, 3]
    assert lancecy.dataset(table).version == 2
    assert "team/dev" in _failed("delete", table, "a = 1", "-y", "--branch", "team/def")


def test_a_version_is_restored_on_its_own_branch(table: Path) -> None:
    said = _failed("restore", table, "team/dev:1")
    assert "this is version 1 of team/dev" in said
    assert "--branch team/dev 1" in said
    assert run_json("restore", table, "v1.0")["rows"] == 2
    assert run_json("restore", table, "team/dev:1", "--branch", "team/dev")["rows"] == 2
    assert lancecy.dataset(table, ("team/dev", None)).version == 3


def test_diff_of_branches(table: Path) -> None:
    found = run_json("diff", table, "main:2", "team/dev:latest")
    assert (found["branches"], found["rows"]) == ([None, "team/dev"], [3, 4])
    assert "(main) to 2 (team/dev)" in run("diff", table, "main:latest", "team/dev:latest").stdout
    assert run_json("diff", table, "v1.0")["rows"] == [2, 3]


def test_tags_are_listed_created_moved_and_deleted(table: Path) -> None:
    (entry,) = run_json("tag", table)
    assert (entry["name"], entry["branch"], entry["version"]) == ("v1.0", None, 1)
    assert entry["metadata"] == {"by": "me"}
    made = run_json("tag", table, "create", "trial", "team/dev:latest", "--metadata", "a=b=c")
    assert [(e["name"], e["branch"], e["version"]) for e in made] == [
        ("trial", "team/dev", 2),
        ("v1.0", None, 1),
    ]
    assert made[0]["metadata"] == {"a": "b=c"}
    shown = run("tag", table).stdout
    assert "team/dev" in shown
    assert "by=me" in shown
    run_json("tag", table, "update", "v1.0", 2, "--metadata", "by=you")
    entry = lancecy.dataset(table).tags.list()["v1.0"]
    assert (entry["version"], entry["metadata"]) == (2, {"by": "you"})
    run_json("tag", table, "update", "v1.0", "--metadata", "by=us")
    assert lancecy.dataset(table).tags.get_version("v1.0") == 2
    run_json("tag", table, "delete", "trial")
    assert [e["name"] for e in run_json("tag", table, "create", "newest")] == ["newest", "v1.0"]
    assert lancecy.dataset(table).tags.get_version("newest") == 2
    run_json("tag", table, "create", "on-branch", "--branch", "team/dev")
    assert lancecy.dataset(table).tags.list()["on-branch"]["branch"] == "team/dev"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["create"], "create takes the NAME of a tag"),
        (["list", "v1.0"], "list takes no NAME"),
        (["delete", "v1.0", "2"], "delete takes neither REF nor --metadata"),
        (["update", "v1.0"], "update takes REF"),
        (["create", "v1.0"], "there is a tag 'v1.0' already"),
        (["create", "x", "--metadata", "y"], "--metadata is KEY=VALUE, not 'y'"),
        (["create", "ä"], "cannot be the name of a tag"),
        (["create", "x", "9"], "has no version 9"),
        (["delete", "v1"], "v1.0"),
    ],
)
def test_a_wrong_tag_is_an_error(table: Path, arguments: list[str], said: str) -> None:
    assert said in _failed("tag", table, *arguments)
    assert list(lancecy.dataset(table).tags.list()) == ["v1.0"]


def test_branches_are_listed_created_described_and_deleted(table: Path) -> None:
    (entry,) = run_json("branch", table)
    assert (entry["name"], entry["parent_branch"], entry["parent_version"]) == ("team/dev", None, 1)
    made = run_json("branch", table, "create", "next", "team/dev:2", "--metadata", "by=me")
    assert made[0] == made[0] | {"name": "next", "parent_branch": "team/dev", "parent_version": 2}
    assert made[0]["metadata"] == {"by": "me"}
    run_json("branch", table, "update", "next", "--metadata", "by=you")
    shown = run("branch", table).stdout
    assert "team/dev" in shown
    assert "by=you" in shown
    found = run_json("branch", table, "describe", "team/dev")
    assert (found["versions"], found["num_files"] > 0) == ([1, 2], True)
    text = run("branch", table, "describe", "next").stdout
    assert "from  version 2 of team/dev" in text
    assert "versions  1, the newest is 2" in text
    assert "terminal" in _failed("branch", table, "delete", "next")
    assert run("branch", table, "delete", "next", "--dry-run").stdout.startswith("would delete:\n")
    assert run_json("branch", table, "delete", "next", "--dry-run")["versions"] == [2]
    assert sorted(lancecy.dataset(table).branches.list()) == ["next", "team/dev"]
    assert [e["name"] for e in run_json("branch", table, "delete", "next", "-y")] == ["team/dev"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["describe"], "describe takes the NAME of a branch"),
        (["leftovers", "x"], "leftovers takes no NAME"),
        (["describe", "team/dev", "2"], "describe takes no REF"),
        (["create", "x", "--dry-run"], "create has no --dry-run"),
        (["update", "team/dev"], "update takes --metadata"),
        (["create", "team/dev"], "team/dev"),
        (["create", "main"], "cannot be the name of a branch"),
        (["delete", "team/def", "-y"], "team/dev"),
        (["delete", "team/dev", "-y", "--older-than", "x"], "an age is a number and one of"),
    ],
)
def test_a_wrong_branch_is_an_error(table: Path, arguments: list[str], said: str) -> None:
    assert said in _failed("branch", table, *arguments)
    assert list(lancecy.dataset(table).branches.list()) == ["team/dev"]


def test_leftovers_of_a_branch_are_listed_and_removed(table: Path) -> None:
    assert run_json("branch", table, "leftovers") == []
    (table / "_refs" / "branches" / "team%2Fdev.json").unlink()
    (entry,) = run_json("branch", table, "leftovers")
    assert (entry["name"], entry["num_files"] > 0) == ("team/dev", True)
    assert "team/dev" in run("branch", table, "leftovers").stdout
    assert "--older-than 0s" in _failed("branch", table, "remove-leftover", "team/dev")
    refused = _failed("branch", table, "create", "team/dev")
    assert "`lancecy branch URI remove-leftover team/dev`" in refused
    assert "with --older-than 0s at once" in refused
    assert run_json("branch", table, "remove-leftover", "team/dev", "--older-than", "0s") == []
    assert not (table / "tree" / "team").exists()


def test_a_branch_is_brought_to_its_parent(table: Path) -> None:
    said = _failed("branch", table, "fast-forward", "team/dev")
    assert "2" in said
    run_json("branch", table, "create", "fix")
    run_json("delete", table, "a = 1", "-y", "--branch", "fix")
    rows = run_json("count", table)
    told = run_json("branch", table, "fast-forward", "fix", "--dry-run")
    assert (told["dry_run"], told["version"], told["num_files"]) == (True, 3, 1)
    assert run_json("count", table) == rows
    assert run("branch", table, "fast-forward", "fix", "--dry-run").stdout.startswith("would copy:")
    done = run_json("branch", table, "fast-forward", "fix")
    assert done == told | {"dry_run": False}
    assert run_json("count", table) == {"rows": 2}
    assert run("branch", table, "fast-forward", "fix").stdout.startswith("nothing to do:")


def test_a_shallow_clone_and_the_tag_that_protects_it(table: Path, tmp_path: Path) -> None:
    target = tmp_path / "clone.lance"
    told = run_json("clone", table, target, "--tag", "v1.0", "--dry-run")
    assert (told["version"], told["rows"], told["files_to_copy"]) == (1, 2, 0)
    assert not target.exists()
    made = run_json("clone", table, target, "--tag", "v1.0", "--protect-as", "for-clone")
    assert (made["version"], made["branch"], made["rows"]) == (1, "main", 2)
    assert lancecy.dataset(target).to_table()["a"].to_pylist() == [1, 2]
    assert lancecy.dataset(table).tags.get_version("for-clone") == 1
    assert not list(target.rglob("*.lance"))
    run_json("clone", table, tmp_path / "other.lance", "--protect", "--branch", "team/dev")
    tags = lancecy.dataset(table).tags.list()
    assert [tag["branch"] for name, tag in tags.items() if name.startswith("clone-other")] == ["team/dev"]
    assert "there is a table at" in _failed("clone", table, target, "--dry-run")
    assert _failed("clone", table, target)


def test_a_deep_clone_has_its_own_files(table: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy.lance"
    told = run_json("clone", table, target, "--deep", "--branch", "team/dev", "--dry-run")
    assert (told["files_to_copy"], told["bytes_to_copy"] > 0) == (2, True)
    shown = run("clone", table, target, "--deep", "--verify", "--branch", "team/dev")
    assert shown.exit_code == 0, shown.output
    assert "branch  team/dev" in shown.stdout
    assert len(list(target.rglob("*.lance"))) == 2
    assert lancecy.dataset(target).count_rows() == 4


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--verify"], "--verify compares the copies of --deep"),
        (["--deep", "--protect"], "needs no --protect"),
        (["--target-option", "x"], "a storage option is KEY=VALUE, not 'x'"),
        (["--tag", "v3"], "v1.0"),
    ],
)
def test_a_wrong_clone_is_an_error(table: Path, tmp_path: Path, options: list[str], said: str) -> None:
    assert said in _failed("clone", table, tmp_path / "c.lance", *options)
    assert not (tmp_path / "c.lance").exists()
