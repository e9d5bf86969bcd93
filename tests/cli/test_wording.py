"""Errors of the library name the shell's options, not Python's keywords."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv

import lancecy
from lancecy.cli.output import REMEDIES, in_shell_terms
from tests.helpers.shell import run

PACKAGE = Path(lancecy.__file__).parent
PYTHON = re.compile(r"\w+='|\w+=\[|=True|=False|storage_options|allowed_bases|lancecy\.")


def _said(*arguments: object) -> str:
    found = run(*arguments)
    assert (found.exit_code, found.stdout) == (2, "")
    assert not PYTHON.search(found.stderr), found.stderr
    return found.stderr


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """A CSV file."""
    path = tmp_path / "rows.csv"
    csv.write_csv(pa.table({"a": [1, 2]}), path)
    return path


def test_a_table_that_exists_names_the_modes(tmp_path: Path, rows: Path) -> None:
    run("write", rows, tmp_path / "t.lance")
    said = _said("write", rows, tmp_path / "t.lance")
    assert "--mode append adds to it, --mode overwrite replaces its rows" in said


def test_a_base_elsewhere_names_the_option(tmp_path: Path, rows: Path) -> None:
    place = f"memory://{tmp_path.name}"
    run("write", rows, tmp_path / "t.lance", "--base", f"far={place}")
    assert f"give --allow-base {place}" in _said("head", tmp_path / "t.lance").replace("\n", " ")
    assert "--storage-option base_1.KEY=VALUE" in _said("head", tmp_path / "t.lance")


def test_bases_of_an_existing_table_name_the_command(tmp_path: Path, rows: Path) -> None:
    run("write", rows, tmp_path / "t.lance")
    said = _said("write", rows, tmp_path / "t.lance", "--mode", "append", "--base", f"b={tmp_path / 'b'}")
    assert "--base is for new tables only; `lancecy bases URI add NAME PATH` registers others" in said


def test_file_versions_name_the_option(tmp_path: Path, rows: Path) -> None:
    run("write", rows, tmp_path / "t.lance", "--file-version", "0.1")
    said = _said("write", rows, tmp_path / "t.lance", "--mode", "append", "--file-version", "2.1")
    assert "leave --file-version out" in said
    assert "--mode overwrite" in said


def test_tagged_versions_are_kept_by_an_option(tmp_path: Path, rows: Path) -> None:
    table = tmp_path / "t.lance"
    run("write", rows, table)
    run("write", rows, table, "--mode", "append")
    (table / "_refs" / "tags").mkdir(parents=True)
    tag = {"branch": None, "version": 1, "manifestSize": 1}
    (table / "_refs" / "tags" / "first.json").write_text(json.dumps(tag))
    assert "keep these versions with --keep-tagged" in _said("cleanup", table, "--older-than", "0s")
    assert run("cleanup", table, "--older-than", "0s", "--keep-tagged").exit_code == 0
    assert lancecy.dataset(table, 1).count_rows() == 2


def test_every_remedy_of_the_table_is_one_that_the_library_names() -> None:
    sources = "".join(
        path.read_text() for path in PACKAGE.rglob("*.py") if "cli" not in path.relative_to(PACKAGE).parts
    )
    for pattern, _ in REMEDIES:
        word = max(re.findall(r"[A-Za-z_]{4,}", pattern.replace(r"\b", "")), key=len, default="asof")
        assert word in sources, pattern


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "find the rows with to_table(with_row_id=True, with_row_address=True), delete all but one",
            "find the rows with `lancecy head URI -c _rowid,_rowaddr`, delete all but one",
        ),
        ("Dataset.repair() (or `lancecy repair`) mends it", "`lancecy repair URI` mends it"),
        ("too long; raise Limits.pages to allow it", "too long; in Python lancecy.Limits(pages=…) allows it"),
        ("a token cannot be a folder; give it in storage_options", "a token cannot be a folder; give it with --storage-option KEY=VALUE"),
        ("4294967296 rows: lower max_rows_per_file", "4294967296 rows: lower --rows-per-file"),
        ("relocate_base gives the base an absolute path", "`lancecy bases URI relocate NAME PATH` gives the base an absolute path"),
        ("cleanup_old_versions removes it", "`lancecy cleanup URI` removes it"),
        ("any change of it sets the flag, such as update_config", "`lancecy write FILE URI --mode append` sets the flag"),
        ("change it with update_config, or give batch_size", "change it with ds.update_config in Python, or give batch_size"),
        ("or pass force=True to do it", "or pass --force to do it"),
        ("key columns: name them, as in merge_insert('id')", "key columns: name them, as in --on id"),
        ("of 0.1: write it anew, with mode='overwrite' and data_storage_version='2.1'", "of 0.1: write it anew, with --mode overwrite and --file-version 2.1"),
        ("ds.branches.remove_leftover('a/b') removes what is left", "`lancecy branch URI remove-leftover a/b` removes what is left"),
        ("pass older_than=timedelta(0)", "pass --older-than 0s"),
        ("tags.update moves it, tags.delete removes it", "`lancecy tag URI update` moves it, `lancecy tag URI delete` removes it"),
        ("safe clones: shallow_clone(protect=True), deep_clone", "safe clones: `lancecy clone --protect`, `lancecy clone --deep`"),
        ("a message without remedies", "a message without remedies"),
    ],
)  # fmt: skip
def test_remedies(text: str, told: str) -> None:
    assert in_shell_terms(text) == told
