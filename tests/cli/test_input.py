"""``lancecy write``: rows from standard input, and text into the types of a table's columns."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import Result
from pyarrow import csv
from pyarrow import parquet as pq

import lancecy
from tests.helpers.shell import run

COMMAND = [sys.executable, "-m", "lancecy"]
TABLE = pa.table({"n": [1, 2, 3], "word": ["a", None, "c"]})


def _bytes(kind: str) -> bytes:
    sink = io.BytesIO()
    if kind == "parquet":
        pq.write_table(TABLE, sink)
    elif kind == "arrow":
        with pa.ipc.new_file(sink, TABLE.schema) as writer:
            writer.write_table(TABLE)
    elif kind == "stream":
        with pa.ipc.new_stream(sink, TABLE.schema) as writer:
            writer.write_table(TABLE)
    elif kind == "jsonl":
        sink.write(b"\n" + "".join(json.dumps(row) + "\n" for row in TABLE.to_pylist()).encode())
    else:
        csv.write_csv(TABLE, sink, csv.WriteOptions(delimiter="\t" if kind == "tsv" else ","))
    return sink.getvalue()


@pytest.mark.parametrize("kind", ["parquet", "arrow", "stream", "jsonl", "csv", "tsv"])
def test_standard_input_is_recognised_by_its_first_bytes(tmp_path: Path, kind: str) -> None:
    for options in [], ["--format", {"stream": "arrow"}.get(kind, kind), "--mode", "overwrite"]:
        found = run("write", "-", tmp_path / "t.lance", *options, said=_bytes(kind))
        assert found.exit_code == 0, found.output
        assert lancecy.dataset(tmp_path / "t.lance").to_table().to_pylist() == TABLE.to_pylist()


@pytest.mark.slow
def test_standard_input_is_a_pipe_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "rows").write_bytes(_bytes("parquet"))
    with (tmp_path / "rows").open("rb") as file:
        done = [
            subprocess.run([*COMMAND, "write", "-", str(tmp_path / "a.lance")], stdin=file, check=True),
            subprocess.run(
                [*COMMAND, "write", "-", str(tmp_path / "b.lance")], input=_bytes("parquet"), check=True
            ),
        ]
    assert all(process.returncode == 0 for process in done)
    for name in "ab":
        assert lancecy.dataset(tmp_path / f"{name}.lance").to_table().to_pylist() == TABLE.to_pylist()


def test_standard_input_comes_beside_files(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "rows.parquet")
    found = run("write", tmp_path / "rows.parquet", "-", tmp_path / "t.lance", said=_bytes("parquet"))
    assert found.exit_code == 0, found.output
    assert lancecy.dataset(tmp_path / "t.lance").count_rows() == 6


@pytest.mark.parametrize("kind", ["parquet", "arrow", "jsonl", "csv"])
def test_pipes_of_the_shell_are_read_as_standard_input_is(tmp_path: Path, kind: str) -> None:
    pipes = [os.pipe() for _ in range(2)]
    for _, theirs in pipes:
        os.write(theirs, _bytes(kind))
        os.close(theirs)
    found = run("write", *(f"/dev/fd/{ours}" for ours, _ in pipes), tmp_path / "t.lance")
    for ours, _ in pipes:
        os.close(ours)
    assert found.exit_code == 0, found.output
    assert lancecy.dataset(tmp_path / "t.lance").to_table().to_pylist() == TABLE.to_pylist() * 2


@pytest.mark.parametrize(
    ("arguments", "said", "error"),
    [
        (["-", "{t}"], b"", "standard input is empty"),
        (["-", "{t}"], b"\x00\x01\x02\x03binary", "the format of 'standard input' is unknown; give it with --format"),
        (["-", "{t}"], gzip.compress(b"n\n1\n", mtime=0), "standard input is compressed (gzip): decompress it first"),
        (["-", "{t}"], b'[{"n": 1}]', "standard input: this is one JSON array"),
        (["-", "{t}", "--format", "parquet"], b"n\n1\n" * 9, "standard input: Parquet magic bytes not found"),
        (["-", "-", "{t}"], b"n\n1\n", "standard input can be read only once"),
        (["{t}", "-"], b"n\n1\n", "the table is named last: lancecy write - URI"),
    ],
)  # fmt: skip
def test_errors_of_standard_input(tmp_path: Path, arguments: list[str], said: bytes, error: str) -> None:
    named = [text.format(t=tmp_path / "t.lance") for text in arguments]
    found = run("write", *named, said=said)
    assert (found.exit_code, found.stdout) == (2, "")
    assert error in found.stderr
    assert not (tmp_path / "t.lance").exists()


# -- text for the columns of a table --------------------------------------------------------------

TYPES: dict[str, tuple[pa.DataType, Any, Any]] = {
    # name: type, the value in JSON, the value in the table
    "day": (pa.date32(), "2024-05-01", date(2024, 5, 1)),
    "day64": (pa.date64(), "2024-05-01", date(2024, 5, 1)),
    "at": (pa.timestamp("us"), "2024-05-01T12:30:00.25", datetime(2024, 5, 1, 12, 30, 0, 250000)),
    "at_s": (pa.timestamp("s"), "2024-05-01", datetime(2024, 5, 1)),
    "utc": (pa.timestamp("ms", "UTC"), "2024-05-01T12:30:00+02:00", datetime(2024, 5, 1, 10, 30, tzinfo=UTC)),
    "t32": (pa.time32("s"), "12:30:00", time(12, 30)),
    "t64": (pa.time64("us"), "12:30:00.5", time(12, 30, 0, 500000)),
    "span": (pa.duration("s"), 90, timedelta(seconds=90)),
    "price": (pa.decimal128(10, 2), "1.50", Decimal("1.50")),
    "small": (pa.int8(), 5, 5),
    "half": (pa.float16(), 1.5, 1.5),
    "single": (pa.float32(), 0.25, 0.25),
    "flag": (pa.bool_(), True, True),
    "raw": (pa.binary(), "AP8=", b"\x00\xff"),
    "fixed": (pa.binary(2), "AP8=", b"\x00\xff"),
    "large": (pa.large_string(), "text", "text"),
    "kind": (pa.dictionary(pa.int8(), pa.string()), "a", "a"),
}
NESTED: dict[str, tuple[pa.DataType, Any, Any]] = {
    "vector": (pa.list_(pa.float32(), 2), [1, 2.5], [1.0, 2.5]),
    "days": (pa.list_(pa.date32()), ["2024-05-01", None], [date(2024, 5, 1), None]),
    "raws": (pa.large_list(pa.large_binary()), ["AP8="], [b"\x00\xff"]),
    "in": (
        pa.struct({"day": pa.date32(), "raw": pa.binary()}),
        {"day": "2024-05-01", "raw": None},
        {"day": date(2024, 5, 1), "raw": None},
    ),
    "of_in": (pa.list_(pa.struct({"t": pa.time32("s")})), [{"t": "01:02:03"}], [{"t": time(1, 2, 3)}]),
}


def _empty(path: Path, types: dict[str, tuple[pa.DataType, Any, Any]]) -> Path:
    schema = pa.schema({name: kind for name, (kind, *_) in types.items()})
    lancecy.write_dataset(schema.empty_table(), path)
    return path


def _append(path: Path, text: str, kind: str) -> Result:
    return run("write", "-", path, "--mode", "append", "--format", kind, said=text)


def test_json_lines_become_the_types_of_the_table(tmp_path: Path) -> None:
    every = TYPES | NESTED
    path = _empty(tmp_path / "t.lance", every)
    row = {name: given for name, (_, given, _) in every.items()}
    nulls = dict.fromkeys(every)
    found = _append(path, f"{json.dumps(row)}\n{json.dumps(nulls)}\n{{}}\n", "jsonl")
    assert found.exit_code == 0, found.output
    wanted = {name: value for name, (*_, value) in every.items()}
    assert lancecy.dataset(path).to_table().to_pylist() == [wanted, nulls, nulls]


def test_csv_becomes_the_types_of_the_table(tmp_path: Path) -> None:
    path = _empty(tmp_path / "t.lance", TYPES)
    given = ",".join(str(text) for _, text, _ in TYPES.values())
    found = _append(path, f"{','.join(TYPES)}\n{given}\n{',' * (len(TYPES) - 1)}\n", "csv")
    assert found.exit_code == 0, found.output
    wanted = {name: value for name, (*_, value) in TYPES.items()}
    assert lancecy.dataset(path).to_table().to_pylist() == [wanted, dict.fromkeys(TYPES)]


def test_maps_are_lists_of_keys_and_values(tmp_path: Path) -> None:
    kind = pa.map_(pa.string(), pa.date32())
    path = tmp_path / "t.lance"
    lancecy.write_dataset(pa.table({"m": pa.array([], kind)}), path, data_storage_version="2.2")
    found = _append(path, '{"m": [{"key": "a", "value": "2024-05-01"}]}\n{"m": null}\n', "jsonl")
    assert found.exit_code == 0, found.output
    assert lancecy.dataset(path).to_table()["m"].to_pylist() == [[("a", date(2024, 5, 1))], None]


def test_whole_numbers_of_json_may_have_a_point(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    types = {"i8": pa.int8(), "i64": pa.int64(), "u64": pa.uint64()}
    lancecy.write_dataset(pa.schema(types).empty_table(), path)
    rows = [{"i8": 5.0, "i64": -(2**63), "u64": 2**64 - 1}, {"i8": -128, "i64": 1e3, "u64": None}]
    found = _append(path, "".join(json.dumps(row) + "\n" for row in rows), "jsonl")
    assert found.exit_code == 0, found.output
    assert lancecy.dataset(path).to_table().to_pylist() == rows


def test_csv_tells_empty_text_from_none(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    text = 'n,w\n1,\n2,""\n,NA\nNA,"a\nb"\n'
    assert run("write", "-", path, "--format", "csv", said=text).exit_code == 0
    rows = [(1, None), (2, ""), (None, "NA"), (None, "a\nb")]
    assert [(r["n"], r["w"]) for r in lancecy.dataset(path).to_table().to_pylist()] == rows
    assert _append(path, text, "csv").exit_code == 0
    assert lancecy.dataset(path).count_rows("w IS NULL") == 2
    needed = pa.schema([pa.field("w", pa.string(), nullable=False)])
    lancecy.write_dataset(pa.table({"w": ["x"]}, needed), tmp_path / "needed.lance")
    assert _append(tmp_path / "needed.lance", 'w\ny\n""\n', "csv").exit_code == 0
    assert lancecy.dataset(tmp_path / "needed.lance").to_table()["w"].to_pylist() == ["x", "y", ""]


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        (pa.date32(), "2024-13-01", "'2024-13-01' in column 'x' is not date32[day], a date such as 2024-05-01"),
        (pa.timestamp("us"), "2024-05-01T12:00:00Z", "is not timestamp[us], a time without a zone"),
        (pa.timestamp("us", "UTC"), "2024-05-01", "is not timestamp[us, tz=UTC], a time with a zone"),
        (pa.time32("s"), "noon", "'noon' in column 'x' is not time32[s], a time such as 12:30:00"),
        (pa.time32("s"), "12:30:00.5", "is not time32[s]"),
        (pa.binary(), "not Base64!", "is not binary: give it as Base64"),
        (pa.list_(pa.date32()), ["2024-05-01", "x"], "'x' in column 'x.item' is not date32[day]"),
        (pa.list_(pa.float32(), 2), [1.0], "'[1.0]' in column 'x' is not fixed_size_list"),
        (pa.struct({"a": pa.date32()}), {"a": "x"}, "'x' in column 'x.a' is not date32[day]"),
        (pa.int8(), 300, "'300' in column 'x' is not int8"),
        (pa.int64(), 1.5, "'1.5' in column 'x' is not int64"),
        (pa.decimal128(5, 2), 1234.5, "'1234.5' in column 'x' is not decimal128(5, 2)"),
        (pa.duration("s"), 1.5, "'1.5' in column 'x' is not int64"),
    ],
)  # fmt: skip
def test_values_of_another_type_are_named(tmp_path: Path, kind: pa.DataType, text: object, said: str) -> None:
    path = tmp_path / "t.lance"
    lancecy.write_dataset(pa.table({"x": pa.array([None], kind)}), path)
    files = set(path.rglob("*"))
    lines = "".join(json.dumps({"x": None if n < 7 else text}) + "\n" for n in range(12))
    found = _append(path, lines, "jsonl")
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr.startswith("lancecy: standard input: ")
    assert said in found.stderr
    assert lancecy.dataset(path).version == 1
    assert {file for file in path.rglob("*") if file.is_file()} <= files


def test_numbers_of_csv_are_named_too(tmp_path: Path) -> None:
    path = _empty(tmp_path / "t.lance", TYPES)
    found = _append(path, "small,day\n300,2024-05-01\n", "csv")
    assert "standard input: '300' in column 'small' is not int8" in found.stderr


def test_columns_that_the_table_lacks_are_named(tmp_path: Path) -> None:
    path = _empty(tmp_path / "t.lance", TYPES)
    for kind, text in [("jsonl", '{"small": 1, "new": 2}\n'), ("csv", "small,new\n1,2\n")]:
        found = _append(path, text, kind)
        assert (found.exit_code, "the table has no column 'new'" in found.stderr) == (2, True)


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        (
            "jsonl",
            '{"n": 1}\n' * 20 + '{"n": 2, "m": 3}\n',
            "a line has a member that the table and the first",
        ),
        ("jsonl", '{"n": "' + "x" * 200 + '"}\n', "a row is longer than"),
        ("csv", "n\n1\n" + "x" * 200 + "\n", "a row is longer than"),
        ("csv", "n\n" + "1\n" * 40 + "x\n", "'x' in column 'n' is not int64"),
    ],
)
def test_blocks_of_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, text: str, said: str
) -> None:
    from lancecy.cli import sources

    monkeypatch.setattr(sources, "_BLOCK_BYTES", 64)
    found = run("write", "-", tmp_path / "t.lance", "--format", kind, said=text)
    assert found.exit_code == 2
    assert f"standard input: {said}" in found.stderr
    assert not (tmp_path / "t.lance").exists()
