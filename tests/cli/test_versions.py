"""Old versions from the shell: by number, by time, in place of a damaged one, and restored."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

import lancecy
from lancecy.cli.main import main
from tests.helpers.shell import run, run_json

READERS = ("info", "schema", "head", "count", "versions", "log", "explain", "verify", "diff", "export")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Versions of 2, 3 and 4 rows."""
    path = tmp_path / "t.lance"
    ds = lancecy.write_dataset({"a": [1, 2]}, path)
    for value in (3, 4):
        time.sleep(0.01)  # so that their times differ
        ds.append({"a": [value]})
    return path


def _time(table: Path, version: int) -> str:
    return str(run_json("versions", table)[version - 1]["timestamp"])


def _damage_newest(table: Path) -> None:
    name = f"{2**64 - 1 - 3}.manifest"
    (table / "_versions" / name).write_bytes(b"no longer a manifest")


def test_asof_opens_the_version_of_a_time(table: Path) -> None:
    assert run_json("count", table, "--asof", _time(table, 2)) == {"rows": 3}
    assert run_json("info", table, "--asof", _time(table, 1))["version"] == 1
    assert run_json("head", table, "--asof", _time(table, 2), "-c", "a") == [{"a": 1}, {"a": 2}, {"a": 3}]
    assert run_json("count", table, "--asof", datetime.now(UTC).isoformat()) == {"rows": 4}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--asof", "yesterday"], "--asof 'yesterday' is not an ISO 8601 time"),
        (["--asof", "1999-01-01"], "no version"),
        (["--asof", "1999-01-01", "--version", "1"], "--version and --asof both name a version"),
    ],
)
def test_a_wrong_time_is_an_error(table: Path, options: list[str], said: str) -> None:
    found = run("count", table, *options)
    assert (found.exit_code, found.stdout) == (2, "")
    assert said in found.stderr


def test_every_command_that_reads_a_table_takes_asof_and_recover() -> None:
    for name in READERS:
        options = {text for option in main.commands[name].params for text in option.opts}
        assert {"--version", "--asof", "--recover"} <= options, name


def test_recover_opens_the_newest_readable_version(table: Path) -> None:
    _damage_newest(table)
    refused = run("count", table)
    assert refused.exit_code == 2
    assert "--recover of a command that reads opens that older version" in refused.stderr
    found = run("count", table, "--recover")
    assert (found.exit_code, found.stdout) == (0, "3\n"), found.output
    assert found.stderr.startswith("lancecy: warning: version 3 of")
    assert "version 2 is opened instead" in found.stderr
    assert ".py" not in found.stderr


def test_restore_makes_a_version_the_newest(table: Path) -> None:
    told = run_json("restore", table, 1, "--dry-run")
    assert told == {"uri": str(table), "version": 3, "would_restore": 1, "rows": 4, "rows_after": 2}
    assert lancecy.dataset(table).version == 3
    assert run_json("restore", table, 1) == {"uri": str(table), "version": 4, "restored": 1, "rows": 2}
    assert lancecy.dataset(table).to_table()["a"].to_pylist() == [1, 2]
    assert run_json("restore", table, "--asof", _time(table, 2))["rows"] == 3
    assert run_json("restore", table, "--version", 3)["rows"] == 4
    assert "would restore  1" in run("restore", table, 1, "--dry-run").stdout


@pytest.mark.parametrize("options", [[], [1, "--version", 2], [1, "--asof", "2024-01-01"]])
def test_restore_takes_one_version(table: Path, options: list[object]) -> None:
    found = run("restore", table, *options)
    assert (found.exit_code, found.stdout) == (2, "")
    assert "restore takes one of VERSION, --version, --asof and --tag" in found.stderr
    assert lancecy.dataset(table).version == 3


def test_restore_of_a_missing_version_changes_nothing(table: Path) -> None:
    found = run("restore", table, 9)
    assert (found.exit_code, "no version 9" in found.stderr) == (2, True)
    assert lancecy.dataset(table).version == 3
