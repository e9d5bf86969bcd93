"""``lancecy ns``: namespaces and tables by name in the shell."""

from __future__ import annotations

from pathlib import Path

import pytest

import lancecy
from tests.helpers.namespaces import create, make, ours, tables
from tests.helpers.shell import run, run_json


@pytest.fixture
def root(tmp_path: Path) -> Path:
    ns = ours(tmp_path)
    make(ns, "sales", properties={"owner": "me"})
    make(ns, "sales.old")
    create(ns, "sales.orders")
    create(ns, "top")
    return tmp_path


def test_ls_and_tree(root: Path) -> None:
    assert run_json("ns", "ls", root) == [
        {"kind": "namespace", "name": "sales"},
        {"kind": "table", "name": "top"},
    ]
    assert "orders" in run("ns", "ls", root, "sales").stdout
    assert run("ns", "tree", root).stdout.splitlines() == [
        ".",
        "├── sales/",
        "│   ├── old/",
        "│   └── orders",
        "└── top",
    ]
    found = run("ns", "ls", root, "missing")
    assert (found.exit_code, found.stdout) == (2, "")
    assert "lancecy: there is no namespace 'missing'" in found.stderr


def test_every_command_speaks_json(root: Path) -> None:
    assert run_json("ns", "tree", root) == {
        "namespaces": {
            "sales": {"namespaces": {"old": {"namespaces": {}, "tables": []}}, "tables": ["orders"]}
        },
        "tables": ["top"],
    }
    created = run_json("ns", "create", root, "new")
    assert created == {"kind": "namespace", "name": "new", "change": "created"}
    renamed = run_json("ns", "rename", root, "top", "new.top")
    assert renamed == {"kind": "table", "name": "new.top", "change": "renamed", "before": "top"}
    for name, kind in (("new.top", "table"), ("new", "namespace")):
        assert run_json("ns", "drop", root, name) == {"kind": kind, "name": name, "change": "dropped"}


def test_changes(root: Path) -> None:
    assert run("ns", "create", root, "sales.new", "--set", "k=v").exit_code == 0
    assert run_json("ns", "describe", root, "sales.new")["properties"] == {"k": "v"}
    assert run("ns", "rename", root, "sales.orders", "sales.new.orders").exit_code == 0
    found = run_json("ns", "describe", root, "sales.new.orders")
    assert (found["rows"], found["columns"]) == ("3", "a")
    assert "sales.new.orders" in run("ns", "describe", root, "sales.new.orders").stdout
    assert run("ns", "drop", root, "sales").exit_code == 2
    assert run("ns", "drop", root, "sales", "--cascade").exit_code == 0
    assert run("ns", "drop", root, "top", "--keep-files").exit_code == 0
    assert (tables(ours(root)), (root / "top.lance").exists()) == ([], True)


def test_migrate(tmp_path: Path) -> None:
    lancecy.write_dataset({"a": [1]}, tmp_path / "t.lance")
    assert "would be added" in run("ns", "migrate", tmp_path, "--dry-run").stdout
    assert run_json("ns", "migrate", tmp_path)["tables"] == ["t"]
    assert run_json("ns", "ls", tmp_path, "-p", "dir_listing_enabled=false") == [
        {"kind": "table", "name": "t"}
    ]
    assert run_json("ns", "migrate", tmp_path, "--back")["tables"] == ["t"]


def test_mistakes_are_one_line(root: Path) -> None:
    for arguments in (["create", root, "a$b"], ["drop", root, "none"], ["ls", root, "-p", "root_dir=x"]):
        found = run("ns", *arguments)
        assert found.exit_code == 2
        assert found.stderr.startswith("lancecy: ")
        assert found.stderr.count("\n") == 1


def test_a_name_that_is_missing_may_be_that_of_a_table(root: Path) -> None:
    for command in ("drop", "describe"):
        assert run("ns", command, root, "none").stderr == "lancecy: there is no table or namespace 'none'\n"
    assert "NEW is empty" in run("ns", "rename", root, "top", "").stderr


def test_a_misspelt_root_is_no_empty_namespace(tmp_path: Path) -> None:
    missing = tmp_path / "catalgo"
    for command in ("ls", "tree", "describe", "migrate"):
        found = run("ns", command, missing)
        assert (found.exit_code, found.stderr) == (2, f"lancecy: there is no directory '{missing}'\n")
    assert f"no directory 'file://{missing}'" in run("ns", "ls", f"file://{missing}").stderr
    assert "no directory" not in run("ns", "ls", "a name", "-p", "impl=tests.cli.none.Catalog").stderr
    assert run("ns", "create", missing, "sales").exit_code == 0
    assert run_json("ns", "ls", missing) == [{"kind": "namespace", "name": "sales"}]


def test_help_says_whole_sentences(root: Path) -> None:
    listed = " ".join(run("ns", "--help").stdout.split())
    assert "List the namespaces and tables in ROOT, or in the namespace NAME." in listed
    assert "only declared  no" in run("ns", "describe", root, "top").stdout
