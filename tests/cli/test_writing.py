"""The commands that change tables, run as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv, feather
from pyarrow import parquet as pq

import lancecy
from lancecy.cli import writing
from lancecy.progress import Step
from tests.helpers.shell import run, run_json

TABLE = pa.table({"n": list(range(100)), "word": [None if i % 7 == 0 else f"w{i}" for i in range(100)]})


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    """A file of 100 rows."""
    pq.write_table(TABLE, tmp_path / "rows.parquet", row_group_size=30)
    return tmp_path / "rows.parquet"


def _stream(table: pa.Table, path: Path) -> None:
    with pa.ipc.new_stream(path, table.schema) as sink:
        sink.write_table(table, max_chunksize=30)


def _lines(table: pa.Table, path: Path) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


def test_write_takes_every_kind_of_file(tmp_path: Path) -> None:
    writers = {
        "a.parquet": pq.write_table,
        "a.feather": feather.write_feather,
        "a.arrows": _stream,
        "a.csv": csv.write_csv,
        "a.jsonl": _lines,
    }
    for name, make in writers.items():
        make(TABLE, tmp_path / name)
        facts = run_json("write", tmp_path / name, tmp_path / f"{name}.lance")
        assert (facts["rows"], facts["version"]) == (100, 1)
        found = lancecy.dataset(tmp_path / f"{name}.lance").to_table().to_pylist()
        assert found == TABLE.to_pylist(), name
    named = run_json("write", tmp_path / "a.csv", tmp_path / "t.lance", "--format", "csv")
    assert named["rows"] == 100


def test_write_modes_files_and_bases(tmp_path: Path, parquet: Path) -> None:
    uri, options = tmp_path / "t.lance", ["--rows-per-file", 40, "--file-version", "2.2", "-m", "first"]
    bases = ["--base", f"x={tmp_path / 'x'}", "--base", f"y={tmp_path / 'y'}"]
    assert "version" in run("write", parquet, parquet, uri, *options, *bases).stdout
    ds = lancecy.dataset(uri)
    assert (ds.count_rows(), ds.data_storage_version, len(ds.get_fragments())) == (200, "2.2", 5)
    rows = {row["name"]: row["files"] for row in run_json("bases", uri)}
    assert rows == {None: 0, "x": 3, "y": 2}
    assert run_json("write", parquet, uri, "--mode", "append", "--to", "y")["rows"] == 300
    assert {row["name"]: row["files"] for row in run_json("bases", uri)}["y"] == 3
    assert run_json("write", parquet, uri, "--mode", "overwrite")["rows"] == 100
    refused = run("write", parquet, uri)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "there is a table" in refused.stderr


def test_delete_asks_or_is_told(tmp_path: Path, parquet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = tmp_path / "t.lance"
    run("write", parquet, uri)
    assert run_json("delete", uri, "n < 10", "--dry-run")["rows_to_delete"] == 10
    silent = run("delete", uri, "n < 10")
    assert (silent.exit_code, "use --yes" in silent.stderr) == (2, True)
    assert lancecy.dataset(uri).count_rows() == 100
    assert run_json("delete", uri, "n < 10", "--yes") == {"uri": str(uri), "version": 2, "deleted_rows": 10}
    assert run_json("delete", uri, "n < 10", "--yes")["deleted_rows"] == 0
    monkeypatch.setattr(writing, "_is_terminal", lambda: True)
    no, yes = run("delete", uri, "n < 20", said="n\n"), run("delete", uri, "n < 20", said="y\n")
    assert (no.exit_code, yes.exit_code) == (1, 0)
    assert "Delete 10 of 90 rows" in no.stderr
    assert lancecy.dataset(uri).count_rows() == 80
    assert "did you mean 'n'" in run("delete", uri, "nn < 1", "--yes").stderr


def test_cleanup_says_what_goes_and_removes_it(tmp_path: Path, parquet: Path) -> None:
    uri = tmp_path / "t.lance"
    for mode in ("create", "overwrite", "overwrite"):
        run("write", parquet, uri, "--mode", mode)
    assert run_json("cleanup", uri, "--dry-run", "--older-than", "7d")["old_versions"] == 0
    wanted = run_json("cleanup", uri, "--dry-run", "--older-than", "0s")
    assert (wanted["old_versions"], wanted["data_files_removed"], wanted["dry_run"]) == (2, 2, True)
    assert len(lancecy.dataset(uri).versions()) == 3
    assert run_json("cleanup", uri, "--retain", "1") == {**wanted, "dry_run": False}
    assert [v["version"] for v in lancecy.dataset(uri).versions()] == [3]
    assert "old versions  0" in run("cleanup", uri, "--retain", "1").stdout


def test_bases_are_listed_added_and_relocated(tmp_path: Path, parquet: Path) -> None:
    uri = tmp_path / "t.lance"
    run("write", parquet, uri)
    assert [row["path"] for row in run_json("bases", uri)] == [str(uri)]
    assert run_json("bases", uri, "add", "b2", tmp_path / "b2")[1]["name"] == "b2"
    run("write", parquet, uri, "--mode", "append", "--to", "b2")
    refused = run("bases", uri, "relocate", "b2", tmp_path / "b3")
    assert refused.exit_code != 0
    assert "1 of the 1 files of base 1 are not in" in refused.output
    forced = run_json("bases", uri, "relocate", "b2", tmp_path / "b3", "--force")
    assert forced[1]["path"] == str(tmp_path / "b3")
    run_json("bases", uri, "relocate", "b2", tmp_path / "b2")
    (tmp_path / "b2").rename(tmp_path / "b3")
    assert run_json("bases", uri, "relocate", "b2", tmp_path / "b3")[1]["path"] == str(tmp_path / "b3")
    assert lancecy.dataset(uri).to_table().num_rows == 200
    text = run("bases", uri).stdout
    assert ("b2" in text, str(tmp_path / "b3") in text) == (True, True)
    num_bytes = lancecy.dataset(uri).bases(check=False)[0].num_bytes
    assert num_bytes is not None and f"{num_bytes:,}" in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["write", "{p}", "{t}", "--base", "x"], "a base is NAME=PATH"),
        (["write", "{d}/none.parquet", "{t}"], "lancecy: there is no file '{d}/none.parquet'"),
        (["write", "{d}/rows.unknown", "{t}"], "the format of"),
        (["write", "{p}", "{d}/other.csv", "{t}"], "has other columns than"),
        (["write", "{p}", "{t}", "--to", "nowhere"], "no base 'nowhere'"),
        (["cleanup", "{t}", "--older-than", "soon"], "an age is a number"),
        (["bases", "{t}", "add", "b"], "add takes NAME and PATH"),
        (["delete", "{t}", "n < 1", "--yes"], "there is no Lance dataset"),
    ],
)
def test_errors_are_one_line_and_exit_code_2(
    arguments: list[str], said: str, tmp_path: Path, parquet: Path
) -> None:
    (tmp_path / "rows.unknown").write_text("x")
    csv.write_csv(TABLE.select(["n"]), tmp_path / "other.csv")
    if arguments[0] in ("cleanup", "bases"):
        lancecy.write_dataset(TABLE, tmp_path / "t.lance")
    places = {"p": parquet, "d": tmp_path, "t": tmp_path / "t.lance"}
    found = run(*(text.format(**places) for text in arguments))
    assert (found.exit_code, found.stdout) == (2, "")
    assert said.format(**places) in found.stderr
    assert "Traceback" not in found.stderr


def test_writing_tells_how_far_it_is(tmp_path: Path, parquet: Path) -> None:
    from lancecy.cli.sources import Input, rows_of

    steps: list[Step] = []
    assert rows_of([Input(str(parquet), str(parquet))] * 2, None, steps.append).read_all().num_rows == 200
    assert (steps[-1].fraction, steps[0].detail) == (1.0, "rows.parquet")
    assert [step.done for step in steps] == sorted(step.done for step in steps)


def test_bases_of_another_service_are_used_when_they_are_allowed(parquet: Path, tmp_path: Path) -> None:
    root, place = tmp_path / "t.lance", f"memory://{tmp_path.name}"
    run_json("write", parquet, root, "--base", f"far={place}")
    allowed = ("--allow-base", place)
    for command in (["count", root, "-f", "n >= 0"], ["delete", root, "n < 10", "--yes"]):
        refused = run(*command)
        assert refused.exit_code == 2
        assert f"base 1 of this table is {place}" in refused.output.replace("\n", " ")
        assert run(*command, *allowed).exit_code == 0
    run_json("write", parquet, root, "--mode", "append", "--to", "far", *allowed)
    assert run_json("count", root, *allowed)["rows"] == 190


def test_versions_show_the_messages_of_their_commits(tmp_path: Path, parquet: Path) -> None:
    uri = tmp_path / "t.lance"
    run("write", parquet, uri, "--message", "from the form")
    run("delete", uri, "n < 5", "--yes")
    told = [(v["operation"], v["message"]) for v in run_json("versions", uri)]
    assert told == [("Overwrite", "from the form"), ("Delete", None)]
    header, first, second = [line.split() for line in run("versions", uri).stdout.splitlines() if "e" in line]
    assert header == ["version", "written", "(UTC)", "operation", "rows", "message"]
    assert (first[0], first[-5:]) == ("1", ["Overwrite", "100", "from", "the", "form"])
    assert (second[0], second[-2:]) == ("2", ["Delete", "95"])


def test_update(tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    lancecy.write_dataset(TABLE, uri)
    explained = run_json("update", uri, "--set", "n=n + 1000", "--where", "n < 3", "--dry-run")
    assert (explained["updated_rows"], explained["rows"], explained["version"]) == (3, 100, 1)
    assert "3 of 100 move" in run("update", uri, "--set", "n=n+1", "--where", "n < 3", "--dry-run").stdout
    facts = run_json("update", uri, "--set", "n = n + 1000", "--set", "word='a=b'", "--where", "n < 3")
    assert (facts["updated_rows"], facts["version"]) == (3, 2)
    found = lancecy.dataset(uri).to_table(filter="n >= 1000").to_pylist()
    assert found == [{"n": n, "word": "a=b"} for n in (1000, 1001, 1002)]
    assert "updated rows  0" in run("update", uri, "--set", "n=0", "--where", "n < 0").stdout
    assert "updated rows  100" in run("update", uri, "--set", "word=null", "--yes", "--quiet").stdout
    assert lancecy.dataset(uri).count_rows("word IS NULL") == 100


def test_merge(tmp_path: Path) -> None:
    uri, rows = tmp_path / "t.lance", tmp_path / "rows.csv"
    lancecy.write_dataset(TABLE, uri)
    rows.write_text("n,word\n3,new\n200,more\n")
    explained = run_json("merge", rows, uri, "--on", "n", "--dry-run")
    assert (explained["num_updated_rows"], explained["num_inserted_rows"], explained["fragments"]) == (
        1,
        1,
        [0],
    )
    assert "touch   1 of 1 fragments" in run("merge", rows, uri, "--on", "n", "--dry-run").stdout
    assert lancecy.dataset(uri).version == 1
    facts = run_json("merge", rows, uri, "--on", "n")
    told = ("version", "inserted_rows", "updated_rows", "deleted_rows")
    assert tuple(facts[name] for name in told) == (2, 1, 1, 0)
    found = lancecy.dataset(uri).to_table(filter="n in (3, 200)").to_pylist()
    assert found == [{"n": 3, "word": "new"}, {"n": 200, "word": "more"}]


def test_clauses_of_a_merge(tmp_path: Path) -> None:
    uri, rows = tmp_path / "t.lance", tmp_path / "rows.csv"
    lancecy.write_dataset(TABLE, uri)
    rows.write_text("n,word\n3,a\n8,zz\n300,more\n")
    options = ("--on", "n", "--if", "source.word > target.word", "--no-insert", "--delete-others", "n >= 90")
    facts = run_json("merge", rows, uri, *options)
    assert (facts["inserted_rows"], facts["updated_rows"], facts["deleted_rows"]) == (0, 1, 10)
    assert (
        "deleted rows  2" in run("merge", rows, uri, "--on", "n", "--matched", "delete", "--no-insert").stdout
    )
    run("merge", rows, uri, "--on", "n", "--quiet")
    found = run("merge", rows, uri, "--on", "n", "--matched", "fail")
    assert found.exit_code == 2 and "n = 3" in found.stderr


def test_merge_names_what_it_cannot_do(tmp_path: Path) -> None:
    uri, rows = tmp_path / "t.lance", tmp_path / "rows.csv"
    lancecy.write_dataset(TABLE, uri)
    rows.write_text("n,word\n3,a\n3,b\n")
    assert "key n = 3" in run("merge", rows, uri, "--on", "n").stderr
    assert "name them" in run("merge", rows, uri).stderr
    assert (
        "--matched update" in run("merge", rows, uri, "--on", "n", "--matched", "keep", "--if", "true").stderr
    )
    assert "named last" in run("merge", rows, "-").stderr


def test_update_asks_before_it_changes_every_row(tmp_path: Path) -> None:
    uri = tmp_path / "t.lance"
    lancecy.write_dataset(TABLE, uri)
    for options, message in [
        (["--set", "n=0"], "use --yes, or --dry-run"),
        (["--set", "n"], "--set takes COLUMN=SQL"),
        (["--set", "n="], "--set takes COLUMN=SQL"),
        (["--set", "n=1", "--set", "n=2", "--yes"], "a column twice"),
        ([], "--set"),
        (["--set", "nope=1", "--yes"], "no column 'nope'"),
        (["--set", "n=n / 2.0", "--yes"], "in row 1"),
    ]:
        found = run("update", uri, *options)
        assert (found.exit_code, message in found.stderr) == (2, True), found.stderr
    assert lancecy.dataset(uri).version == 1
