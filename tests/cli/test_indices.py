"""Indices from the shell."""

from __future__ import annotations

from pathlib import Path

import pytest

import lancecy
from tests.helpers.shell import run, run_json


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Six rows of numbers and words."""
    path = tmp_path / "t.lance"
    lancecy.write_dataset({"a": [0, 1, 2, 3, 4, 5], "word": ["x", "y", "x", "z", "x", "y"]}, path)
    return path


def test_an_index_is_made_optimized_and_dropped(table: Path) -> None:
    (made,) = run_json("index", table, "create", "a", "-m", "for look-ups")
    assert made.pop("bytes") > 0
    assert made == {
        "name": "a_idx",
        "type": "BTree",
        "columns": ["a"],
        "segments": 1,
        "rows": 6,
        "rows_not_covered": 0,
    }
    lancecy.write_dataset({"a": [6], "word": ["q"]}, table, mode="append")
    assert run_json("index", table)[0]["rows_not_covered"] == 1
    assert run_json("index", table, "optimize", "--merge", 0)[0]["segments"] == 2
    assert run_json("index", table, "optimize", "a_idx", "--retrain")[0]["segments"] == 1
    assert run_json("index", table, "stats", "a_idx")["segments"] == [
        {"min": "0", "max": "6", "num_pages": 1}
    ]
    assert run_json("index", table, "drop", "a_idx") == []


def test_zone_maps_are_made_of_columns_or_of_all(table: Path) -> None:
    assert [index["name"] for index in run_json("index", table, "zonemaps", "a")] == ["a_zonemap_idx"]
    found = run_json("index", table, "zonemaps", "-m", "all columns")
    assert [(index["name"], index["type"], index["rows"]) for index in found] == [
        ("a_zonemap_idx", "ZoneMap", 6),
        ("word_zonemap_idx", "ZoneMap", 6),
    ]
    assert "word_zonemap_idx" in run("index", table).stdout


def test_indices_are_shown(table: Path) -> None:
    run_json("index", table, "create", "word", "--type", "bitmap", "--name", "words")
    shown = run("index", table).stdout
    for text in ("words", "Bitmap", "word", "not covered"):
        assert text in shown
    assert "num_bitmaps 3" in run("index", table, "stats", "words").stdout


def test_explain_names_the_index(table: Path) -> None:
    run_json("index", table, "create", "a")
    shown = run("explain", table, "-f", "a = 3").stdout
    assert "a_idx" in shown


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("create",), "COLUMN"),
        (("create", "a", "word"), "one COLUMN"),
        (("zonemaps", "missing"), "missing"),
        (("create", "missing"), "missing"),
        (("drop",), "NAME"),
        (("drop", "nothing"), "nothing"),
        (("list", "words"), "no NAME"),
        (("create", "word", "--name", "words", "--keep"), "words"),
    ],
)
def test_mistakes_are_named(table: Path, words: tuple[str, ...], text: str) -> None:
    run_json("index", table, "create", "word", "--type", "BITMAP", "--name", "words")
    failed = run("index", table, *words)
    assert failed.exit_code
    assert text in failed.stderr
