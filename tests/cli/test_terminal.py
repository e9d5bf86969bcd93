"""The command on a terminal of some width, in pipes, and in its help: real processes."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

import lancecy
from lancecy.cli.main import main

COMMAND = [sys.executable, "-m", "lancecy"]


def _on_terminal(width: int, *arguments: object) -> str:
    """What a terminal of this many columns shows, without colours."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")} | {"TERM": "xterm"}
    with subprocess.Popen(
        [*COMMAND, *map(str, arguments)], stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 1 << 16)
            except OSError:  # Linux: the other end is closed
                break
            if not part:
                break
            shown += part
    os.close(ours)
    assert process.returncode == 0, shown
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode()).replace("\r\n", "\n")


def _piped(*arguments: object) -> str:
    return subprocess.run([*COMMAND, *map(str, arguments)], check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of 40 columns of text, a struct and a list."""
    columns: dict[str, object] = {f"col{i}": [f"value {i} of row {row}" for row in (1, 2)] for i in range(40)}
    columns["point"] = [{"a": 1, "in": {"b": "deep"}}, {"a": 2, "in": None}]
    columns["tags"] = [["x", "y"], None]
    path = tmp_path_factory.mktemp("wide") / "wide.lance"
    lancecy.write_dataset(columns, path)
    return path


@pytest.mark.slow
def test_a_table_too_wide_for_the_terminal_shows_one_column_a_line(wide: Path) -> None:
    shown = _on_terminal(80, "head", wide)
    lines = [line.split() for line in shown.splitlines()]
    assert max(map(len, shown.splitlines())) <= 80
    assert [" ".join(words[:3]) for words in lines if words[0] == "──"] == ["── row 1", "── row 2"]
    for number in range(40):
        assert [f"col{number}", "value", str(number), "of", "row", "1"] in lines
    assert ["point.a", "1"] in lines
    assert ["point.in.b", "deep"] in lines
    assert ["point.in", "null"] in lines
    assert ["tags", "['x',", "'y']"] in lines


@pytest.mark.slow
def test_a_table_that_fits_is_a_table(wide: Path) -> None:
    shown = _on_terminal(80, "head", wide, "-c", "col1,col2,point")
    assert "── row" not in shown
    assert shown.split()[:3] == ["col1", "col2", "point"]
    assert re.split(r" {2,}", shown.splitlines()[3].strip())[:2] == ["value 1 of row 1", "value 2 of row 1"]


@pytest.mark.slow
def test_other_tables_are_turned_too_and_long_values_stay_within_the_line(tmp_path: Path) -> None:
    path = tmp_path / "long.lance"
    lancecy.write_dataset({"name" * 20: ["v" * 300], **{f"c{i}": ["abcdef"] for i in range(5)}}, path)
    for command in ("head", "schema"):
        shown = _on_terminal(30, command, path)
        assert "── row 1" in shown, command
        assert max(map(len, shown.splitlines())) <= 30, command
        assert shown.count("v") >= 100 or command == "schema"


@pytest.mark.slow
def test_rows_in_a_pipe_are_one_line_each(wide: Path) -> None:
    shown = _piped("head", wide)
    lines = [line for line in shown.splitlines() if line]
    assert len(lines) == 4
    assert all(len(line) > 500 and line == line.rstrip() for line in lines)
    assert "value 39 of row 2" in lines[3]


def test_very_wide_tables_in_a_pipe_are_not_folded(tmp_path: Path) -> None:
    path = str(tmp_path / "t.lance")
    lancecy.write_dataset({f"c{i}": ["w" * 55] for i in range(120)}, path)
    lines = [line for line in CliRunner().invoke(main, ["head", path]).stdout.splitlines() if line]
    assert len(lines) == 3
    assert lines[2].split() == ["w" * 55] * 120


def test_help_of_a_command_is_not_cut() -> None:
    listed = " ".join(CliRunner().invoke(main, ["--help"]).stdout.split())
    for name, command in main.commands.items():
        first = (command.help or "").split("\n\n")[0]
        assert f"{name} {' '.join(first.split())}" in listed
    assert "Write the rows of FILE... (Parquet" in listed


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_error(wide: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    commands = (["head", str(wide)], ["schema", str(wide), "--json"], ["--help"])
    started = [subprocess.Popen([*COMMAND, *c], stdout=writer, stderr=subprocess.PIPE) for c in commands]
    os.close(writer)
    for command, process in zip(commands, started):
        assert (process.communicate()[1], process.returncode) == (b"", 0), command


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (["head", "{t}"], 0, b""),
        (["count", "{t}", "--json"], 0, b""),
        (
            ["export", "{t}", "-", "--format", "csv"],
            2,
            b"Error: standard output is closed: give a file or a pipe",
        ),
        (["write", "-", "{t}"], 2, b"Error: standard input is closed: give a file or a pipe"),
        (["delete", "{t}", "col1 = 'x'"], 2, b"Error: cannot ask for confirmation without a terminal"),
    ],
)
def test_closed_standard_streams_give_no_traceback(
    wide: Path, arguments: list[str], code: int, error: bytes
) -> None:
    command = ["sh", "-c", 'exec "$@" <&- >&-', "sh", *COMMAND, *(a.format(t=wide) for a in arguments)]
    done = subprocess.run(command, stderr=subprocess.PIPE, check=False)
    assert done.returncode == code, done.stderr
    assert error in done.stderr and b"Traceback" not in done.stderr


def test_an_interrupt_is_told_from_damage(wide: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    def mistaken(*_: object, **__: object) -> None:
        raise AttributeError("no such thing")

    monkeypatch.setattr(lancecy.Dataset, "verify", interrupted)
    found = CliRunner().invoke(main, ["verify", str(wide)])
    assert (found.exit_code, found.stderr) == (130, "lancecy: interrupted\n")
    monkeypatch.setattr(lancecy.Dataset, "verify", mistaken)
    found = CliRunner().invoke(main, ["verify", str(wide)])
    assert (found.exit_code, "Traceback" in found.stderr) == (2, True)


def test_a_dry_run_says_what_would_go(wide: Path) -> None:
    shown = CliRunner().invoke(main, ["cleanup", str(wide), "--dry-run", "--older-than", "0s"]).stdout
    assert shown.startswith("would remove:\n")
    assert "data files  0\n" in shown
    assert "removed" not in shown


def test_progress_counts_in_its_own_unit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from lancecy.cli.output import bar
    from lancecy.progress import Step

    monkeypatch.setenv("FORCE_COLOR", "1")
    for step, said in [
        (Step("export", 1200, 5000, "rows"), "1,200/5,000 rows"),
        (Step("export", 1200, 0, "rows"), "1,200/? rows"),
        (Step("verify", 1500, 3000, "bytes"), "1.5 kB/3.0 kB"),
    ]:
        with bar(quiet=False) as tell:
            tell(step)
        assert said in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", capsys.readouterr().err)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("told", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_command_that_is_told_to_end_removes_what_is_unfinished(
    tmp_path: Path, told: signal.Signals, code: int
) -> None:
    path = tmp_path / "t.lance"
    lancecy.write_dataset({"id": range(4_000_000), "x": [0.1] * 4_000_000}, path)
    before = sorted(tmp_path.rglob("*"))
    arguments = ["export", str(path), str(tmp_path / "rows.csv")]
    # Where tests run under nohup, the command would inherit that the signal is ignored.
    with subprocess.Popen(
        [*COMMAND, *arguments],
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(told, signal.SIG_DFL),  # noqa: PLW1509 - no lock is taken
    ) as process:
        while not list(tmp_path.glob(".lancecy-*.part")):
            assert process.poll() is None
        process.send_signal(told)
        assert process.communicate()[1] == b"lancecy: interrupted\n"
        assert process.returncode == code
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.slow
def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    lancecy.write_dataset({"id": range(100_000)}, path)
    before = sorted(tmp_path.rglob("*"))
    limited = [
        "sh",
        "-c",
        'ulimit -f 8; exec "$@"',
        "sh",
        *COMMAND,
        "export",
        str(path),
        str(tmp_path / "rows.csv"),
    ]
    found = subprocess.run(limited, capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert found.stderr.startswith(
        f"lancecy: cannot write 'rows.csv' in {tmp_path}: OSError: File too large; files may"
    )
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.slow
def test_a_command_that_waits_for_its_input_is_interrupted(tmp_path: Path) -> None:
    rows = pa.record_batch({"id": range(100_000)})
    arguments = ["write", "-", str(tmp_path / "t.lance")]
    with subprocess.Popen([*COMMAND, *arguments], stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stderr is not None
        stream = pa.ipc.new_stream(process.stdin, rows.schema)
        for _ in range(50):  # A pipe holds less than one of them: the command has read 49.
            stream.write_batch(rows)
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == b"lancecy: interrupted\n"
        assert process.wait() == 130
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_command_that_is_interrupted_while_it_loads_says_so() -> None:
    loading = (
        "import os, signal, sys; sys.meta_path.insert(0, sys.modules['__main__']); "
        "find_spec = lambda name, *_: os.kill(os.getpid(), signal.SIGINT) if name == 'lancecy.cli.main' else None; "
        "from lancecy.cli import run; run()"
    )
    found = subprocess.run([sys.executable, "-c", loading], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr) == (130, "lancecy: interrupted\n")
