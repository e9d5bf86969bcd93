"""``lancecy columns``, run as a user runs it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lancecy
from tests.helpers.shell import run, run_json


@pytest.fixture
def uri(tmp_path: Path) -> str:
    rows = {"id": [1, 2, 3], "word": ["a", "b", None], "point": [{"x": 1, "y": 2.0}] * 3}
    return lancecy.write_dataset(rows, tmp_path / "t.lance").uri


def test_without_options_it_lists_the_columns(uri: str) -> None:
    assert run("columns", uri).stdout == run("schema", uri).stdout
    assert [row["name"] for row in run_json("columns", uri)] == ["id", "word", "point", "point.x", "point.y"]
    assert lancecy.dataset(uri).version == 1


def test_each_change(uri: str) -> None:
    run_json("columns", uri, "--add", "sum=id + point.x", "--add", "same=id = 2", "--drop", "word")
    run_json("columns", uri, "--rename", "id=number", "--cast", "id=int16", "--cast", "sum=timestamp:us:UTC")
    names = [row["name"] for row in run_json("columns", uri, "--not-null", "number", "--drop", "point.y")]
    assert names == ["number", "point", "point.x", "sum", "same"]
    ds = lancecy.dataset(uri)
    assert ds.schema.field("number").equals(pa.field("number", pa.int16(), nullable=False))
    assert ds.schema.field("sum").type == pa.timestamp("us", "UTC")
    assert ds.to_table(["number", "same"]).to_pylist()[1] == {"number": 2, "same": True}
    run_json("columns", uri, "--nullable", "number")
    assert lancecy.dataset(uri).schema.field("number").nullable


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--add", "x"], "--add takes NAME=SQL, not 'x'"),
        (["--rename", "id="], "--rename takes COLUMN=NAME"),
        (["--cast", "id=number"], "'number' is no type"),
        (["--cast", "word=int32"], "row 0 is 'a'"),
        (["--drop", "wrd"], "did you mean 'word'"),
        (["--not-null", "word"], "row 2 has a null"),
    ],
)
def test_refused(uri: str, options: list[str], said: str) -> None:
    found = run("columns", uri, *options)
    assert found.exit_code == 2
    assert said in found.stderr
    assert lancecy.dataset(uri).version == 1
