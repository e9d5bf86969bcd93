"""``Parts``: the numbers of all partitions, cut, chosen and put together."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from dask.base import tokenize
from distributed import Client

import lancecy
from lancecy.dask.reader import Parts, Reader, units_of
from lancecy.expr import parse
from lancecy.scanning.request import ScanRequest
from lancecy.scanning.task import ScanSpec
from lancecy.table.location import TableLocation

SPEC = ScanSpec(TableLocation("memory://t"), 1, ScanRequest())


def _parts(*rows: list[int], local: bool = False, divisions: tuple[int, ...] | None = None) -> Parts:
    """Partitions of units with these live rows, each unit a fragment of its own."""
    counts = np.array([count for part in rows for count in part], np.int64)
    ends = np.cumsum(counts)
    zeros = np.zeros_like(counts)
    units = np.stack([np.arange(counts.size), zeros, counts, counts, ends - counts], axis=1)
    parts = Parts(units, np.cumsum([0, *map(len, rows)]), divisions)
    return parts.local() if local else parts


def _rows(parts: Parts) -> list[list[int]]:
    return [[unit.rows for unit in units_of(part)] for part in parts]


def _positions(parts: Parts) -> list[list[int]]:
    return [[unit.position for unit in units_of(part)] for part in parts]


def test_parts_are_the_units_of_their_tasks() -> None:
    parts = _parts([3, 4], [5], [6, 1, 2])
    assert len(parts) == 3
    assert parts[1] == (2, 0, 5, 5, 7)
    assert parts[-1] == parts[2]
    assert parts[:2] == [parts[0], parts[1]]
    assert (_rows(parts), parts.rows) == ([[3, 4], [5], [6, 1, 2]], (7, 5, 9))
    assert _positions(parts) == [[0, 3], [7], [12, 18, 19]]
    with pytest.raises(IndexError):
        parts[3]


def test_local_positions_start_at_zero_in_every_part() -> None:
    assert _positions(_parts([3, 4], [5], [6, 1, 2], local=True)) == [[0, 3], [0], [0, 6, 7]]


def test_chosen_parts_come_in_the_order_asked_for() -> None:
    parts = _parts([3, 4], [5], [6, 1, 2], divisions=(0, 7, 12, 20)).chosen([2, 0])
    assert (_rows(parts), parts.divisions) == ([[6, 1, 2], [3, 4]], None)


def test_merged_parts_keep_their_units_and_divisions() -> None:
    parts = _parts([3, 4], [5], [6, 1, 2], divisions=(0, 7, 12, 20)).merged(range(0, 3, 2))
    assert (_rows(parts), parts.divisions, parts.rows) == ([[3, 4, 5], [6, 1, 2]], (0, 12, 20), (12, 9))
    assert _parts([3], [4]).merged([0]).divisions is None


def test_tokens_tell_parts_apart() -> None:
    made = [
        _parts([3, 4], [5]),
        _parts([3], [4, 5]),
        _parts([3, 4, 5]),
        _parts([3, 4], [6]),
        _parts([3, 4], [5], local=True),
        _parts([3, 4], [5], divisions=(0, 7, 11)),
        _parts([3, 4], [5], divisions=(1, 7, 11)),
    ]
    assert len({tokenize(parts) for parts in made}) == len(made)
    assert tokenize(made[0]) == tokenize(_parts([3, 4], [5])) == tokenize(pickle.loads(pickle.dumps(made[0])))


def test_ten_thousand_parts_pickle_small() -> None:
    parts = _parts(*[[100, 50] for _ in range(10_000)])
    assert len(pickle.dumps(parts)) < 1_000_000
    assert np.array_equal(pickle.loads(pickle.dumps(parts)).units, parts.units)


@pytest.mark.slow
def test_token_of_a_filtered_scan_is_the_same_in_every_process(tmp_path: Path) -> None:
    lancecy.write_dataset({"a": [1, 2], "s": ["x", "y"]}, str(tmp_path / "t"))
    text = "a > 1 AND s IN ('x', 'y') AND NOT a = 2.5"
    asked = f"from dask.base import tokenize; import lancecy; print(tokenize(lancecy.scan('t', {text!r})))"
    tokens = {
        subprocess.run(
            [sys.executable, "-c", asked],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(tokens) == 1


def test_readers_differ_by_filter_labels_and_limit() -> None:
    reader, condition = Reader(SPEC), parse("a > 5")
    assert condition is not None
    others = [reader.filtered(condition), Reader(SPEC, "rowid"), reader.limited(5)]
    assert len({tokenize(each) for each in (reader, *others)}) == 4
    twice = reader.filtered(condition).filtered(condition).spec.request.filter
    assert str(twice) == "<call a > 5 AND a > 5>"


def test_missing_file_is_told_by_the_worker_as_it_is_here(tmp_path: Path, client: Client) -> None:
    disk = lancecy.DatasetBasePath(tmp_path / "disk2", name="disk2")
    ds = lancecy.write_dataset(
        {"id": range(100)}, tmp_path / "t.lance", initial_bases=[disk], target_bases=["disk2"]
    )
    ddf = lancecy.scan(tmp_path / "t.lance", blocksize=100)
    (tmp_path / "disk2").rename(tmp_path / "disk3")
    with pytest.raises(lancecy.errors.MissingFileError) as here:
        ds.to_table()
    with pytest.raises(lancecy.errors.MissingFileError) as there:
        client.compute(ddf).result()
    assert str(there.value) == str(here.value)
    assert vars(there.value) == vars(here.value)
