"""The command line, run as a user runs it: texts, JSON, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

import lancecy
from lancecy.cli.main import main
from tests.helpers.golden import golden
from tests.helpers.shell import run, run_json
from tests.meta.tree import ROOT

TABLE = str(golden("14.0.2_rowids").path)


def test_every_command_has_help_and_is_listed() -> None:
    listed = run("--help").stdout
    assert list(main.commands) == (
        "info schema head count versions log explain inspect diff verify "
        "export write delete update merge columns compact index restore cleanup tag branch clone copy bases repair "
        "ns ui".split()
    )
    for name in main.commands:
        assert name in listed
        found = run(name, "--help")
        assert found.exit_code == 0
        assert "Usage" in found.stdout


def test_every_command_is_documented() -> None:
    page = (ROOT / ".docs" / "command.md").read_text()
    assert [name for name in main.commands if f"| `lancecy {name} " not in page] == []


def test_info() -> None:
    facts = run_json("info", TABLE)
    assert (facts["version"], facts["rows"], facts["file_version"]) == (7, 48, "0.1")
    assert facts["stable_row_ids"] is True
    text = run("info", TABLE).stdout
    assert "rows  48" in text
    assert "stable row ids  yes" in text
    assert run_json("info", TABLE, "--version", "1")["rows"] == 33


def test_schema() -> None:
    ds = lancecy.dataset(TABLE)
    rows = run_json("schema", TABLE)
    assert [row["name"] for row in rows if not row["depth"]] == ds.schema.names
    assert {row["name"] for row in rows} >= {"point.a", "tags.item"}
    assert "fixed_size_list" in run("schema", TABLE).stdout


@pytest.mark.slow
def test_module_is_the_script() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lancecy", "count", TABLE], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "48\n")


def test_head_shows_what_python_has_no_value_for(tmp_path: Path) -> None:
    path = str(tmp_path / "far.lance")
    far = pa.table(
        {
            "d": pa.array([2**31 - 1, 0], pa.int32()).cast(pa.date32()),
            "t": pa.array([2**63 - 1, 0], pa.timestamp("s")),
            "z": pa.array([2**63 - 1, 0], pa.timestamp("us", "UTC")),
            "u": pa.array([2**63 - 1, 1], pa.duration("s")),
            "l": pa.array([[2**31 - 1], [0]], pa.list_(pa.int32())).cast(pa.list_(pa.date32())),
        }
    )
    lancecy.write_dataset(far, path)
    first, second = run_json("head", path)
    assert all("out of range" in first[name] for name in "dtzl"), first
    assert "9223372036854775807" in first["u"]
    assert (second["d"], second["l"]) == ("1970-01-01", ["1970-01-01"])
    shown = run("head", path)
    assert shown.exit_code == 0
    assert "1970-01-01" in shown.stdout


def test_json_cannot_drive_a_terminal(tmp_path: Path) -> None:
    path = str(tmp_path / "c1.lance")
    name, value = "c\u009b31m", "v\u009b31m\u202e \U000e0041 ä"
    lancecy.write_dataset(pa.table({name: [value]}), path)
    for command in ("head", "schema"):
        shown = run(command, path, "--json").stdout
        assert all(c.isprintable() or c == "\n" for c in shown)
        assert repr(name)[1:-1] in str(json.loads(shown))
    assert run_json("head", path) == [{name: value}]
    assert "ä" in run("head", path, "--json").stdout


def test_ages_beyond_all_calendars_are_refused() -> None:
    result = run("cleanup", TABLE, "--older-than", "99999999999999d", "--dry-run")
    assert result.exit_code == 2
    assert "is too large" in result.output


def test_head() -> None:
    ds = lancecy.dataset(TABLE)
    rows = run_json("head", TABLE, "-n", "3", "-c", "id, word", "-f", "id >= 5")
    assert rows == ds.to_table(["id", "word"], "id >= 5", limit=3).to_pylist()
    text = run("head", TABLE, "-n", "2", "-c", "id").stdout.split()
    assert text[0] == "id"
    assert text[-1] == "1"
    assert len(run_json("head", TABLE, "--limit", "4")) == 4


def test_count() -> None:
    assert run("count", TABLE).stdout == "48\n"
    assert run_json("count", TABLE, "-f", "id < 5") == {"rows": lancecy.dataset(TABLE).count_rows("id < 5")}


def test_versions() -> None:
    assert [v["version"] for v in run_json("versions", TABLE)] == [1, 2, 3, 4, 5, 6, 7]
    assert len(run("versions", TABLE).stdout.strip().splitlines()) == 9


def test_explain() -> None:
    found = run_json("explain", TABLE, "-c", "id", "-f", "id < 5")
    assert found["filter"] == "id < 5"
    assert 0 < found["bytes_to_read"] <= found["bytes_total"]
    assert "bytes to read" in run("explain", TABLE).stdout


def test_inspect() -> None:
    path = str(next((Path(TABLE) / "data").iterdir()))
    found = run_json("inspect", path, "--pages")
    assert sum(page["values"] for page in found["columns"][0]["pages"]) == found["num_rows"]
    assert "page 0:" in run("inspect", path, "--pages").stdout
    assert "page 0:" not in run("inspect", path).stdout


def test_diff() -> None:
    found = run_json("diff", TABLE, "1")
    assert (found["old"], found["new"], found["rows"]) == (1, 7, [33, 48])
    assert "fragments removed" in run("diff", TABLE, "1", "7").stdout
    assert run_json("diff", TABLE, "1", "2")["added_fragments"] == [2]


def test_verify_says_by_its_exit_code_whether_a_table_is_whole(tmp_path: Path) -> None:
    assert run_json("verify", TABLE)["ok"] is True
    assert run("verify", TABLE, "-c", "id").exit_code == 0
    table = golden("14.0.2_v21_deleted").copy_to(tmp_path)
    file = lancecy.dataset(table).get_fragments()[0].data_files()[0]
    (table / "data" / file.path).write_bytes(b"no longer a file")
    broken = run("verify", str(table))
    assert broken.exit_code == 1
    assert "damaged: fragment" in broken.stdout
    assert json.loads(run("verify", str(table), "--json").stdout)["findings"][0]["kind"] == "file"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["count", "nowhere.lance"], "there is no Lance dataset"),
        (["count", TABLE, "-f", "idd < 5"], "did you mean 'id'"),
        (["count", TABLE, "-f", "id <"], "lancecy: "),
        (["head", TABLE, "-c", "nothing"], "nothing"),
        (["head", TABLE, "-c", ""], "--columns names no column"),
        (["diff", TABLE, "1", "99"], "no version 99"),
        (["info", TABLE, "-o", "key"], "KEY=VALUE"),
        (["inspect", "nowhere.lance"], "nowhere.lance"),
    ],
)
def test_errors_are_one_line_and_exit_code_2(arguments: list[str], said: str) -> None:
    found = run(*arguments)
    assert found.exit_code == 2
    assert said in found.stderr
    assert "Traceback" not in found.stderr
    assert found.stdout == ""


def test_control_characters_of_a_table_do_not_reach_the_terminal(tmp_path: Path) -> None:
    import lance
    import pyarrow as pa

    evil = pa.table({"\x1b[2Jname": ["\x1b]0;title\x07"]})
    lance.write_dataset(evil, tmp_path / "t.lance")
    for command in ("info", "schema", "head", "versions", "explain", "verify"):
        found = run(command, str(tmp_path / "t.lance"))
        assert found.exit_code == 0, found.output
        assert "\x1b" not in found.stdout, command
        assert "\x07" not in found.stdout, command


@pytest.mark.slow
def test_script_runs_and_pipes_close_quietly() -> None:
    script = Path(sys.executable).with_name("lancecy")
    command = (
        [str(script)] if script.exists() else [sys.executable, "-c", "from lancecy.cli import run; run()"]
    )
    found = subprocess.run([*command, "count", TABLE], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout, found.stderr) == (0, "48\n", "")


def test_missing_rich_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    from lancecy.cli import run

    monkeypatch.setitem(sys.modules, "rich", None)
    with pytest.raises(SystemExit, match="2"):
        run()
    assert "pip install 'lancecy[cli]'" in capsys.readouterr().err


def test_progress_bar_shows_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    from lancecy.cli.output import bar
    from lancecy.progress import Step

    with bar(quiet=False) as tell:
        tell(Step("verify", 1, 2, "bytes"))
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("FORCE_COLOR", "1")
    with bar(quiet=False) as tell:
        tell(Step("verify", 1, 2, "bytes"))
    assert "verify" in capsys.readouterr().err


def test_several_filters_are_joined(tmp_path: Path) -> None:
    lancecy.write_dataset({"id": [1, 2, 3]}, tmp_path / "t.lance")
    found = CliRunner().invoke(
        main, ["count", str(tmp_path / "t.lance"), "-f", "id > 1 OR id = 0", "--where", "id < 3"]
    )
    assert (found.exit_code, found.stdout) == (0, "1\n")
