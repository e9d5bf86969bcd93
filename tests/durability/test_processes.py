"""Real processes on a real disk: killed at every call and at any moment, cut off by a limit, or racing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import lance
import pytest

import lancecy
from tests.durability.changes import check, reclaim

pytestmark = [pytest.mark.interop, pytest.mark.slow]

ROOT = Path(__file__).parents[2]


def run(folder: Path, *given: object) -> list[Any]:
    """What the program in ``killing`` says."""
    command = [sys.executable, "-m", "tests.durability.killing", *map(str, given), str(folder)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT, timeout=200)
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("change", ["create", "append", "delete"])
def test_table_is_whole_whichever_call_a_writer_dies_at(tmp_path: Path, change: str) -> None:
    results = run(tmp_path, "each", change)
    assert len(results) > 15
    assert [result["code"] for result in results] == [-9] * (len(results) - 1) + [0]
    for number, result in enumerate(results):
        root = Path(result["root"])
        check(root, change, result["acked"])
        if number % 3 == 0 or number > len(results) - 4:
            reclaim(root, change)


@pytest.mark.parametrize("change", ["create", "append", "delete"])
def test_table_is_whole_and_nobody_told_otherwise_if_a_file_lacks_its_last_byte(
    tmp_path: Path, change: str
) -> None:
    results = run(tmp_path, "limits", change)
    # Names and times make a file a byte smaller now and then than the one that was measured: then all went well.
    refused = [result for result in results if result["told"] != ["ack"]]
    assert len(refused) >= 2
    for result in results:
        root, told = Path(result["root"]), result["told"][0]
        assert result["code"] == 0
        if told == "ack":
            check(root, change, True)
            continue
        assert told["error"] == "StoreError", told
        assert "File too large; files may not become that large here: raise the limit" in told["text"], told
        assert (
            "left no data files behind" in told["text"] or "a commit that did not happen" in told["text"]
        ), told
        check(root, change, False)
        assert not list(root.rglob(".tmp*"))
        reclaim(root, change)


def test_appends_that_were_acknowledged_are_there_whenever_a_writer_dies(tmp_path: Path) -> None:
    intended, acked = {0}, {0}
    results = run(tmp_path, "random", 12)
    for result in results:
        assert result["code"] == -9
        intended |= {told["intent"] for told in result["told"] if "intent" in told}
        acked |= {told["ack"] for told in result["told"] if "ack" in told}
        assert acked <= set(result["seen"]) <= intended
        assert len(result["seen"]) == len(set(result["seen"]))
    assert len(acked) > 12
    theirs = lance.dataset(str(tmp_path / "random"))
    theirs.validate()
    assert sorted(theirs.to_table()["n"].to_pylist()) == results[-1]["seen"]


@pytest.mark.parametrize(("writers", "times"), [(8, 50), (32, 10)])
def test_appends_of_many_processes_are_all_there(tmp_path: Path, writers: int, times: int) -> None:
    results = run(tmp_path, "race", writers, times)
    assert [result["code"] for result in results] == [0] * writers
    acked = sorted(number for result in results for number in result["told"])
    assert acked == list(range(1, writers * times + 1))
    root = results[0]["root"]
    ds = lancecy.dataset(root)
    assert [version["version"] for version in ds.versions()] == list(range(1, writers * times + 2))
    found = ds.to_table(["n"], with_row_id=True)
    assert sorted(found["n"].to_pylist()) == [0, *acked]
    assert sorted(found["_rowid"].to_pylist()) == [0, *acked]
    theirs = lance.dataset(root)
    theirs.validate()
    assert theirs.count_rows() == len(acked) + 1
    assert not list(Path(root).rglob(".tmp*"))
