"""Compares changes of a table by lancecy and pylance: milliseconds for the same change of the same table.

usage: python bench/compare_changes.py [--version 2.1] [--repeat 5] [--rows 2000000] [--works delete,update] [--markdown]

Every turn changes a fresh copy of a table that pylance wrote, 2,000,000 x 6 rows in eight fragments if not told
otherwise. The table is open before the clock starts, and is what both libraries make of it afterwards: a row whose results
differ is marked. None waits for the disk: pylance never does, so ``fsync`` does nothing here unless ``--fsync`` is
given. Engines take turns; the first turn warms up and is not counted; medians of the others are printed.

A work is one line of ``WORKS``: the table it changes, a function of an open dataset, and the data it needs. Both libraries
have the same names and arguments.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from benchmarks.tables import fingerprint
from compare import machine, show

ENGINES = ("lancecy", "pylance")
MODULES = {"lancecy": "lancecy", "pylance": "lance"}
FRAGMENTS = 8


def scalars(start: int, rows: int) -> pa.Table:
    """``rows`` x 6: sorted int64, int32 of 1,000 values, float64, float32, string, bool."""
    random = np.random.default_rng(start + 1)
    words = np.array([f"word{number:05d}" for number in range(5000)])
    return pa.table(
        {
            "id": np.arange(start, start + rows),
            "k": random.integers(0, 1000, rows, np.int32),
            "x": random.random(rows),
            "y": random.random(rows).astype(np.float32),
            "s": words[random.integers(0, 5000, rows)],
            "flag": random.random(rows) < 0.5,
        }
    )


def large(uri: str, rows: int, version: Any) -> None:
    """The table in eight fragments."""
    import lance

    lance.write_dataset(
        scalars(0, rows), uri, max_rows_per_file=-(-rows // FRAGMENTS), data_storage_version=version
    )


def pieces(uri: str, rows: int, version: Any) -> None:
    """A hundred fragments, half the rows of the other table in all, each written by itself."""
    import lance

    each = rows // 200
    for number in range(100):
        lance.write_dataset(
            scalars(number * each, each),
            uri,
            mode="append" if number else "create",
            data_storage_version=version,
        )


MAKERS: dict[str, Callable[[str, int, Any], None]] = {"large": large, "pieces": pieces}


@dataclass(frozen=True)
class Work:
    """One measured change.

    Attributes
    ----------
    table : str
        The table it changes, one of ``MAKERS``.
    run : function of (dataset, data)
    data : function
        Makes the data of the change from the number of rows of the table; not measured.
    """

    table: str
    run: Callable[[Any, Any], object]
    data: Callable[[int], object] = lambda rows: None


def keys(rows: int, count: int) -> pa.Table:
    """Rows to merge: half of their keys are in the table, half are new."""
    half = count // 2
    found = np.arange(half) * (rows // max(1, half))
    ids = np.concatenate([found, np.arange(count - half) + rows])
    return scalars(0, count).set_column(0, "id", pa.array(np.random.default_rng(5).permutation(ids)))


def pairs(rows: int) -> pa.Table:
    """A column to merge into the table: every key once, in no order."""
    ids = np.random.default_rng(6).permutation(rows)
    return pa.table({"id": ids, "added": ids * 2})


def _upsert(ds: Any, data: Any) -> object:
    return ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(data)


WORKS: dict[str, Work] = {
    "delete 1 %": Work("large", lambda ds, _: ds.delete("id % 100 = 7")),
    "delete a key": Work("large", lambda ds, _: ds.delete("id = 777")),
    "update 1 %": Work("large", lambda ds, _: ds.update({"x": "x * 2"}, "id % 100 = 7")),
    "update a key": Work("large", lambda ds, _: ds.update({"x": "x * 2"}, "id = 777")),
    "update all": Work("large", lambda ds, _: ds.update({"x": "x * 2"})),
    "upsert 100,000": Work("large", _upsert, lambda rows: keys(rows, rows // 20)),
    "upsert 1,000": Work("large", _upsert, lambda rows: keys(rows, rows // 2000)),
    "add column": Work("large", lambda ds, _: ds.add_columns({"sum": "x + y"})),
    "cast": Work("large", lambda ds, _: ds.alter_columns({"path": "k", "data_type": pa.int64()})),
    "merge a column": Work("large", lambda ds, data: ds.merge(data, "id"), pairs),
    "drop": Work("large", lambda ds, _: ds.drop_columns(["s"])),
    "rename": Work("large", lambda ds, _: ds.alter_columns({"path": "s", "name": "word"})),
    "compact": Work("pieces", lambda ds, _: ds.optimize.compact_files()),
}


def measure(
    work: Work, source: Path, rows: int, repeat: int, clock: Callable[[], float]
) -> tuple[dict[str, float], bool]:
    """Median milliseconds of each engine, and whether both tables are the same afterwards."""
    seconds: dict[str, list[float]] = {name: [] for name in ENGINES}
    results: dict[str, object] = {}
    data = work.data(rows)
    for turn in range(repeat + 1):
        for name in ENGINES:
            with tempfile.TemporaryDirectory(dir=source.parent) as folder:
                path = Path(folder) / "t.lance"
                # Files of a table never change, so a copy may share them.
                shutil.copytree(source, path, copy_function=os.link)
                dataset = importlib.import_module(MODULES[name]).dataset(str(path))
                gc.collect()
                started = clock()
                work.run(dataset, data)
                seconds[name].append(clock() - started)
                if not turn:
                    results[name] = result(str(path))
            # What one engine left to the system is written before the next one is timed.
            os.sync()
    medians = {name: 1e3 * statistics.median(taken[1:]) for name, taken in seconds.items()}
    return medians, results["lancecy"] == results["pylance"]


def result(uri: str) -> object:
    """The columns of a table and a total of each, as pylance reads it."""
    import lance

    found = lance.dataset(uri).to_table()
    return found.schema.names, fingerprint(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000, help="rows of the table")
    parser.add_argument("--repeat", type=int, default=5, help="number of counted turns")
    parser.add_argument("--version", default="2.1", help="version of the data files: legacy, 2.0, 2.1, 2.2")
    parser.add_argument(
        "--works", default=",".join(WORKS), help="names, or their beginnings, separated by commas"
    )
    parser.add_argument("--data", type=Path, help="where to write; by default a temporary folder")
    parser.add_argument(
        "--fsync", action="store_true", help="let lancecy wait for the disk, as it does by default"
    )
    parser.add_argument(
        "--cpu", action="store_true", help="processor time of all threads, for a machine with other work"
    )
    parser.add_argument("--markdown", action="store_true")
    chosen = parser.parse_args()
    if not chosen.fsync:
        os.fsync = lambda fd: None
    clock = time.process_time if chosen.cpu else time.perf_counter
    folder = Path(tempfile.mkdtemp(dir=chosen.data))
    print(
        f"{chosen.rows:,} x 6 rows; files of version {chosen.version}; medians of {chosen.repeat} turns in ms; {machine()}\n"
    )
    show(["changed", *ENGINES, "x pylance"], chosen.markdown)
    if chosen.markdown:
        show(["---", *["---:"] * (len(ENGINES) + 1)], True)
    wanted = tuple(chosen.works.split(","))
    try:
        for name, work in WORKS.items():
            if not name.startswith(wanted):
                continue
            source = folder / work.table
            if not source.exists():
                MAKERS[work.table](str(source), chosen.rows, chosen.version)
            medians, same = measure(work, source, chosen.rows, chosen.repeat, clock)
            ratio = f"{medians['pylance'] / medians['lancecy']:.2f}" + ("" if same else " differ!")
            show([name, *(f"{medians[engine]:.1f}" for engine in ENGINES), ratio], chosen.markdown)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
