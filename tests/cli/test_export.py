"""``lancecy export``: round trips through every format, errors that leave no file, pipes."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import csv
from pyarrow import parquet as pq

import lancecy
from lancecy.cli import exporting
from lancecy.progress import Step
from tests.helpers.shell import run, run_json

COMMAND = [sys.executable, "-m", "lancecy"]
FLAT: dict[str, tuple[pa.DataType, list[Any]]] = {
    "n": (pa.int64(), [1, None, -(2**62)]),
    "u8": (pa.uint8(), [255, None, 0]),
    "x": (pa.float64(), [1.0, None, 1e300]),
    "single": (pa.float32(), [0.1, None, 2.0]),
    "half": (pa.float16(), [1.5, None, 2.0]),
    "word": (pa.string(), ['say "hi", \\n', None, ""]),
    "lines": (pa.large_string(), ["a\nb\r\tc", None, "\x01 ä 😀"]),
    "flag": (pa.bool_(), [True, None, False]),
    "day": (pa.date32(), [date(2024, 5, 1), None, date(1969, 12, 31)]),
    "day64": (pa.date64(), [date(2024, 5, 1), None, date(1969, 12, 31)]),
    "at_s": (pa.timestamp("s"), [datetime(2024, 5, 1, 12, 30), None, datetime(1969, 1, 1)]),
    "at": (pa.timestamp("us"), [datetime(2024, 5, 1, 12, 30, 0, 5), None, datetime(1969, 1, 1)]),
    "utc": (pa.timestamp("ms", "UTC"), [datetime(2024, 5, 1, 12, 30, tzinfo=UTC), None, None]),
    "rome": (pa.timestamp("ns", "Europe/Rome"), [datetime(2024, 5, 1, 12, 30, tzinfo=UTC), None, None]),
    "t_s": (pa.time32("s"), [time(1, 2, 3), None, time(0)]),
    "t32": (pa.time32("ms"), [time(1, 2, 3, 4000), None, time(0)]),
    "t64": (pa.time64("us"), [time(1, 2, 3, 4), None, time(0)]),
    "span": (pa.duration("ms"), [timedelta(seconds=1), None, timedelta(0)]),
    "price": (pa.decimal128(10, 2), [Decimal("1.50"), None, Decimal("-0.01")]),
    "raw": (pa.binary(), [b"\x00\xff", None, b""]),
    "fixed": (pa.binary(2), [b"\x00\xff", None, b"ab"]),
    "kind": (pa.dictionary(pa.int8(), pa.string()), ["a", None, "b"]),
    "code": (pa.dictionary(pa.int16(), pa.int64()), [7, None, 7]),
    "thousands": (pa.decimal128(5, -3), [Decimal(5000), None, Decimal(-12345000)]),
    "longest": (pa.decimal256(60, 7), [Decimal("1" * 53 + ".0000001"), None, Decimal(0)]),
    "long": (pa.decimal128(38, 38), [Decimal("0." + "9" * 38), None, Decimal(0)]),
}
NESTED: dict[str, tuple[pa.DataType, list[Any]]] = {
    "tags": (pa.list_(pa.string()), [["a", None, 'q"'], None, []]),
    "vector": (pa.list_(pa.float32(), 2), [[1.0, 0.1], None, [3.0, 4.0]]),
    "deep": (pa.large_list(pa.list_(pa.date32())), [[[date(2024, 5, 1)], None, []], None, []]),
    "point": (
        pa.struct({"a": pa.int8(), "b": pa.struct({"raw": pa.binary()})}),
        [{"a": 1, "b": {"raw": b"\xff"}}, None, {"a": None, "b": {"raw": None}}],
    ),
    "items": (pa.list_(pa.struct({"t": pa.time32("s")})), [[{"t": time(1, 2, 3)}, {"t": None}], None, []]),
}


def _table(columns: dict[str, tuple[pa.DataType, list[Any]]]) -> pa.Table:
    return pa.table({name: pa.array(values, kind) for name, (kind, values) in columns.items()})


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table of three rows, of every type that a text can hold."""
    lancecy.write_dataset(_table(FLAT | NESTED), tmp_path / "t.lance")
    return tmp_path / "t.lance"


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    """Two versions: of 1,000 rows and of 1,010."""
    ds = lancecy.write_dataset(
        {"n": range(1000), "s": [f"row {i}" for i in range(1000)]}, tmp_path / "n.lance"
    )
    ds.append({"n": range(10), "s": ["new"] * 10})
    return tmp_path / "n.lance"


@pytest.mark.parametrize("ending", ["parquet", "arrow", "arrows", "jsonl", "csv", "tsv"])
def test_what_is_exported_can_be_appended_to_an_equal_table(tmp_path: Path, table: Path, ending: str) -> None:
    columns = FLAT if ending in ("csv", "tsv") else FLAT | NESTED
    if ending == "parquet":
        columns = {name: column for name, column in columns.items() if name != "thousands"}
    file, copy = tmp_path / f"rows.{ending}", tmp_path / "copy.lance"
    facts = run_json("export", table, file, "-c", ",".join(columns))
    assert (facts["rows"], facts["version"], facts["bytes"]) == (3, 1, file.stat().st_size)
    lancecy.write_dataset(_table(columns).schema.empty_table(), copy)
    found = run("write", file, copy, "--mode", "append")
    assert found.exit_code == 0, found.output
    assert lancecy.dataset(copy).to_table().equals(lancecy.dataset(table).to_table(list(columns)))


def test_other_programs_read_the_files(tmp_path: Path, table: Path) -> None:
    for ending in ("parquet", "csv", "jsonl"):
        assert run("export", table, tmp_path / f"t.{ending}", "-c", "n,word,x,day").exit_code == 0
    rows = lancecy.dataset(table).to_table(["n", "word", "x", "day"]).to_pylist()
    assert pq.read_table(tmp_path / "t.parquet").to_pylist() == rows
    lines = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    assert lines == [{**row, "day": row["day"] and row["day"].isoformat()} for row in rows]
    options = csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
    assert csv.read_csv(tmp_path / "t.csv", convert_options=options).to_pylist() == rows


def test_a_map_is_a_list_of_keys_and_values(tmp_path: Path) -> None:
    kind = pa.map_(pa.string(), pa.date32())
    maps = pa.table({"m": pa.array([[("a", date(2024, 5, 1))], None, [], [("b", None)]], kind)})
    lancecy.write_dataset(maps, tmp_path / "m.lance", data_storage_version="2.2")
    assert run("export", tmp_path / "m.lance", tmp_path / "m.jsonl").exit_code == 0
    assert (tmp_path / "m.jsonl").read_text().splitlines() == [
        '{"m":[{"key":"a","value":"2024-05-01"}]}',
        '{"m":null}',
        '{"m":[]}',
        '{"m":[{"key":"b","value":null}]}',
    ]
    assert run("write", tmp_path / "m.jsonl", tmp_path / "m.lance", "--mode", "append").exit_code == 0
    assert lancecy.dataset(tmp_path / "m.lance").to_table()["m"].to_pylist() == maps["m"].to_pylist() * 2


def test_numbers_that_json_lacks_are_null_and_csv_has_them(tmp_path: Path) -> None:
    lancecy.write_dataset({"x": [float("nan"), float("-inf"), 1.0]}, tmp_path / "t.lance")
    for ending in ("jsonl", "csv"):
        assert run("export", tmp_path / "t.lance", tmp_path / f"x.{ending}").exit_code == 0
    assert (tmp_path / "x.jsonl").read_text() == '{"x":null}\n{"x":null}\n{"x":1.0}\n'
    assert run("write", tmp_path / "x.csv", tmp_path / "y.lance").exit_code == 0
    assert str(lancecy.dataset(tmp_path / "y.lance").to_table()["x"].to_pylist()) == "[nan, -inf, 1.0]"


def test_rows_and_versions_are_chosen_as_for_head(tmp_path: Path, numbers: Path) -> None:
    file = tmp_path / "rows.jsonl"
    options = ["-c", "s", "--where", "n >= 5", "--limit", 2, "--version", 1, "--overwrite"]
    assert run_json("export", numbers, file, *options)["rows"] == 2
    assert file.read_text() == '{"s":"row 5"}\n{"s":"row 6"}\n'
    when = run_json("versions", numbers)[0]["timestamp"]
    assert run_json("export", numbers, file, "--asof", when, "--overwrite")["rows"] == 1000
    assert run_json("export", numbers, file, "-n", 0, "--overwrite") | {"bytes": 0, "rows": 0} == {
        "file": str(file), "format": "jsonl", "version": 2, "rows": 0, "bytes": 0,
    }  # fmt: skip


def test_a_table_without_rows_has_its_columns(tmp_path: Path, table: Path) -> None:
    for ending in ("parquet", "csv", "arrow", "jsonl"):
        assert run_json("export", table, tmp_path / f"t.{ending}", "-c", "n,day", "-f", "n = 7")["rows"] == 0
    assert pq.read_schema(tmp_path / "t.parquet").names == ["n", "day"]
    assert (tmp_path / "t.csv").read_text() == '"n","day"\n'
    assert pa.ipc.open_file(tmp_path / "t.arrow").schema.names == ["n", "day"]
    assert (tmp_path / "t.jsonl").read_bytes() == b""
    for ending in ("parquet", "csv", "arrow", "jsonl"):
        assert run_json("write", tmp_path / f"t.{ending}", table, "--mode", "append")["rows"] == 3, ending


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["{t}", "{d}/x.csv"], "columns 'tags', 'vector', 'deep', 'point', 'items' hold lists, structs or maps, which CSV lacks: leave out with --columns"),
        (["{t}", "{d}/x.tsv", "-c", "n,tags"], "column 'tags' holds lists, structs or maps, which TSV lacks"),
        (["{t}", "{d}/x.unknown"], "the format of '{d}/x.unknown' is unknown; give it with --format: parquet"),
        (["{t}", "-"], "the format of standard output is unknown"),
        (["{t}", "-", "--format", "csv", "--json"], "--json and the rows cannot both go to standard output"),
        (["{t}", "s3://bucket/x.csv"], "export writes a local file"),
        (["{t}", "{d}/x.csv", "-c", "nothing"], "no column 'nothing'"),
        (["{t}", "{d}/x.csv", "-f", "nn < 1"], "did you mean 'n'"),
        (["{t}", "{d}/none/x.jsonl"], "lancecy: there is no folder {d}/none: make it first"),
        (["{t}", "{t}", "--format", "jsonl"], "exists: it is a folder"),
        (["{d}/no.lance", "{d}/x.csv"], "there is no Lance dataset"),
    ],
)  # fmt: skip
def test_errors_name_the_remedy_and_leave_no_file(
    tmp_path: Path, table: Path, arguments: list[str], said: str
) -> None:
    places = {"t": table, "d": tmp_path}
    found = run("export", *(text.format(**places) for text in arguments))
    assert (found.exit_code, found.stdout) == (2, "")
    assert said.format(**places) in found.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["t.lance"]


def test_members_of_structs_are_columns_of_csv(tmp_path: Path, table: Path) -> None:
    assert run("export", table, tmp_path / "x.csv", "-c", "n,point.a").exit_code == 0
    assert (tmp_path / "x.csv").read_text().splitlines()[:2] == ['"n","point.a"', "1,1"]


def test_types_that_a_format_lacks_are_named(tmp_path: Path) -> None:
    blob = pa.field("image", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    lancecy.write_dataset(
        pa.table([[1], [b"x"]], pa.schema([pa.field("n", pa.int64()), blob])), tmp_path / "b.lance"
    )
    found = run("export", tmp_path / "b.lance", tmp_path / "b.parquet")
    assert (found.exit_code, "column 'image' holds blobs" in found.stderr) == (2, True)
    assert run_json("export", tmp_path / "b.lance", tmp_path / "b.parquet", "-c", "n")["rows"] == 1
    far = pa.array([2**31 - 1], pa.int32()).cast(pa.date32())
    lancecy.write_dataset(pa.table({"day": far}), tmp_path / "far.lance")
    for ending in ("csv", "jsonl"):
        found = run("export", tmp_path / "far.lance", tmp_path / f"far.{ending}")
        assert "column 'day' has a date that text cannot say: export to Parquet or Arrow" in found.stderr
        assert not (tmp_path / f"far.{ending}").exists()
    assert run("export", tmp_path / "far.lance", tmp_path / "far.parquet").exit_code == 0


def test_parquet_has_missing_structs_whose_members_cannot_be_null(tmp_path: Path) -> None:
    kind = pa.struct([pa.field("x", pa.int64(), nullable=False)])
    table = pa.table(
        {
            "s": pa.array([{"x": 1}, None], kind),
            "l": pa.array([[{"x": 1}, None], None], pa.list_(kind)),
            "m": pa.array([[("a", {"x": 1}), ("b", None)], None], pa.map_(pa.string(), kind)),
        }
    )
    lancecy.write_dataset(table, tmp_path / "t.lance", data_storage_version="2.2")
    facts = run_json("export", tmp_path / "t.lance", tmp_path / "t.parquet")
    assert facts["rows"] == 2
    assert pq.read_table(tmp_path / "t.parquet").to_pylist() == table.to_pylist()
    assert run_json("write", tmp_path / "t.parquet", tmp_path / "t.lance", "--mode", "append")["rows"] == 4


def test_columns_that_parquet_lacks_are_named(tmp_path: Path) -> None:
    table = pa.table({"n": [1], "thousands": pa.array([Decimal(5000)], pa.decimal128(5, -3))})
    lancecy.write_dataset(table, tmp_path / "t.lance")
    found = run("export", tmp_path / "t.lance", tmp_path / "t.parquet")
    assert (found.exit_code, found.stdout) == (2, "")
    assert "column 'thousands' holds values of a type that Parquet lacks: leave out with" in found.stderr
    assert run_json("export", tmp_path / "t.lance", tmp_path / "t.arrow")["rows"] == 1


def test_a_file_is_replaced_only_if_told_and_keeps_its_mode(tmp_path: Path, numbers: Path) -> None:
    file, link = tmp_path / "rows.jsonl", tmp_path / "link.jsonl"
    file.write_text("mine")
    file.chmod(0o640)
    link.symlink_to(file)
    refused = run("export", numbers, link)
    assert (refused.exit_code, file.read_text()) == (2, "mine")
    assert "exists: --overwrite replaces it" in refused.stderr
    assert run("export", numbers, link, "-n", 1, "--overwrite").exit_code == 0
    assert (link.is_symlink(), file.read_text()) == (True, '{"n":0,"s":"row 0"}\n')
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl", "arrow"])
@pytest.mark.parametrize("error", [OSError("the disk is full"), KeyboardInterrupt()])
def test_an_error_in_the_middle_leaves_the_old_file(
    tmp_path: Path, numbers: Path, monkeypatch: pytest.MonkeyPatch, kind: str, error: BaseException
) -> None:
    file = tmp_path / "rows"
    file.write_text("mine")
    before = lancecy.api.scanners.Scanner.to_batches

    def failing(scan: Any) -> Iterator[pa.RecordBatch]:
        yield next(before(scan))
        raise error

    monkeypatch.setattr(lancecy.api.scanners.Scanner, "to_batches", failing)
    found = run("export", numbers, file, "--format", kind, "--overwrite")
    assert found.exit_code == (130 if isinstance(error, KeyboardInterrupt) else 2)
    assert file.read_text() == "mine"
    assert {path.name for path in tmp_path.iterdir()} == {"n.lance", "rows"}
    # A program that reads the pipe must not take half of the rows for all of them.
    piped = run("export", numbers, "-", "--format", kind).stdout_bytes
    ends = {"parquet": b"PAR1", "arrow": b"\xff\xff\xff\xff\0\0\0\0"}
    assert kind not in ends or not piped[4:].endswith(ends[kind])


@pytest.mark.slow
def test_rows_go_from_one_table_to_another_by_a_pipe(tmp_path: Path, table: Path) -> None:
    for number, kind in enumerate(["arrow", "jsonl"]):
        copy = tmp_path / f"{number}.lance"
        lancecy.write_dataset(_table(FLAT | NESTED).schema.empty_table(), copy)
        export = subprocess.Popen(
            [*COMMAND, "export", str(table), "-", "--format", kind], stdout=subprocess.PIPE
        )
        subprocess.run(
            [*COMMAND, "write", "-", str(copy), "--mode", "append"], stdin=export.stdout, check=True
        )
        assert export.stdout is not None
        export.stdout.close()
        assert export.wait() == 0
        assert lancecy.dataset(copy).to_table().equals(lancecy.dataset(table).to_table())


@pytest.mark.slow
def test_a_reader_of_the_first_rows_ends_the_export_quietly(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    lancecy.write_dataset({"s": [f"{i:0100}" for i in range(100_000)]}, path)  # far more than a pipe holds
    started = [
        subprocess.Popen(
            [*COMMAND, "export", str(path), "-", "--format", kind],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for kind in ("csv", "jsonl", "parquet")
    ]
    for process in started:
        assert process.stdout is not None and process.stderr is not None
        assert len(process.stdout.read(10)) == 10
        process.stdout.close()
        assert (process.stderr.read(), process.wait()) == (b"", 0)
        process.stderr.close()


def test_pipes_with_names_and_devices_are_written_as_they_are(tmp_path: Path, numbers: Path) -> None:
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE) as reader:
        assert run("export", numbers, pipe, "-n", 1).exit_code == 0
        assert reader.communicate()[0] == b'{"n":0,"s":"row 0"}\n'
    assert run("export", numbers, "/dev/null", "--format", "csv").exit_code == 0
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    full = run("export", numbers, "/dev/full", "--format", "csv")
    assert (full.exit_code, "No space left" in full.stderr) == (2, True)


@pytest.mark.parametrize("kind", ["csv", "arrow"])
def test_a_pipe_without_a_name_gets_the_rows(numbers: Path, kind: str) -> None:
    ours, theirs = os.pipe()
    found = run("export", numbers, f"/dev/fd/{theirs}", "--format", kind, "-n", 1)
    os.close(theirs)
    with open(ours, "rb") as reader:
        rows = reader.read()
    assert found.exit_code == 0, found.stderr
    if kind == "csv":
        assert rows == b'"n","s"\n0,"row 0"\n'
    else:
        assert pa.ipc.open_stream(rows).read_all().num_rows == 1


def test_standard_output_may_be_named_as_a_file(numbers: Path) -> None:
    arguments = ["export", str(numbers), "/dev/stdout", "--format", "jsonl", "-n", "1"]
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b'{"n":0,"s":"row 0"}\n', b"")


def test_export_tells_how_far_it_is(numbers: Path, tmp_path: Path) -> None:
    steps: list[Step] = []
    ds = lancecy.dataset(numbers)
    exporting._exported(ds, str(tmp_path / "a.csv"), "csv", False, steps.append, (None, None, None))
    assert [step.total for step in steps] == [1010] * len(steps)
    assert (steps[-1].done, steps[-1].unit, steps[-1].fraction) == (1010, "rows", 1.0)
    exporting._exported(ds, str(tmp_path / "b.csv"), "csv", False, steps.append, (None, "n < 5", None))
    assert (steps[-1].done, steps[-1].fraction) == (10, 1.0)


def test_large_rows_are_exported_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.lance"
    sizes: list[int] = []
    written = exporting.written
    lancecy.write_dataset({"s": ["x" * (1 << 20)] * 40}, path)

    @contextmanager
    def watched(*arguments: Any) -> Iterator[Any]:
        with written(*arguments) as write:

            def measured(batch: pa.RecordBatch) -> None:
                sizes.append(batch.nbytes)
                write(batch)

            yield measured

    monkeypatch.setattr("lancecy.cli.exporting.written", watched)
    assert run_json("export", path, tmp_path / "x.parquet")["rows"] == 40
    assert len(sizes) >= 3
    assert max(sizes) <= 17 << 20
