"""Compares lancecy and pylance over tables of many small files: the first read of a table, and later ones.

usage: python bench/compare_files.py [--files 20x5000,100x1000,1000x10,300~1500] [--versions 2.1] [--works scan] [--repeat 9] [--markdown]

pylance writes tables of seven columns (``benchmarks.tables.scalars``), so many files of so many rows each, on a local disk. With
``~`` files have up to so many rows, appended one by one, and values of other ranges, with nulls in some: their encodings differ. For a
first read the table is opened without what earlier reads left in the caches; opening is not measured. Later reads use one open
table. Engines take turns; the first turn is not counted; medians of the others are printed, and ``x pylance``: pylance's time
divided by lancecy's. Results are compared: a row whose results differ is marked.
"""

from __future__ import annotations

import argparse
import gc
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from benchmarks.tables import fingerprint, scalars
from compare import machine, show

ENGINES = ("lancecy", "pylance")
TAKEN = 100


def works(rows: int) -> dict[str, Callable[[Any], Any]]:
    """The works by name; each takes a table, and its result is compared."""
    some = sorted(np.random.default_rng(3).choice(rows, min(TAKEN, rows), replace=False).tolist())
    return {
        "scan": lambda table: fingerprint(table.to_table()),
        "scan one column": lambda table: fingerprint(table.to_table(columns=["x"])),
        "filter 1 %": lambda table: fingerprint(table.to_table(filter="k < 10")),
        "count of a filter": lambda table: table.count_rows(filter="k < 10"),
        f"take {TAKEN}": lambda table: fingerprint(table.take(some)),
        "head": lambda table: table.head(10).num_rows,
    }


def written(path: str, size: str, version: Any) -> int:
    """Write a table, and return its number of rows."""
    import lance

    files, _, rows = size.replace("~", "x").partition("x")
    if "~" not in size:
        total = int(files) * int(rows)
        lance.write_dataset(scalars(total), path, max_rows_per_file=int(rows), data_storage_version=version)
        return total
    random = np.random.default_rng(5)
    lengths = random.integers(1, int(rows) + 1, int(files)).tolist()
    for number, length in enumerate(lengths):
        part = scalars(length)
        keys = random.integers(0, 10 ** random.integers(1, 6), length, dtype=np.int32)
        values = pa.array(part["x"].to_numpy(), mask=random.random(length) < random.choice([0.0, 0.3]))
        part = part.set_column(3, "k", pa.array(keys)).set_column(2, "x", values)
        part = part.set_column(4, "cat", part["cat"].cast(pa.string()))
        lance.write_dataset(part, path, mode="append" if number else "create", data_storage_version=version)
    return sum(lengths)


def opened(engine: str, path: str) -> Any:
    """A table without cached values."""
    if engine == "lancecy":
        import lancecy

        return lancecy.dataset(path, session=lancecy.Session())
    import lance

    return lance.dataset(path)


def measure(
    work: Callable[[Any], Any], path: str, is_first: bool, repeat: int
) -> tuple[dict[str, float], bool]:
    """Median milliseconds of each engine, and whether the results are the same."""
    seconds: dict[str, list[float]] = {name: [] for name in ENGINES}
    results: dict[str, Any] = {}
    tables = {name: opened(name, path) for name in ENGINES}
    for _ in range(repeat + 1):
        for name in ENGINES:
            table = opened(name, path) if is_first else tables[name]
            gc.collect()
            started = time.perf_counter()
            results[name] = work(table)
            seconds[name].append(time.perf_counter() - started)
    medians = {name: 1e3 * statistics.median(taken[1:]) for name, taken in seconds.items()}
    return medians, results["lancecy"] == results["pylance"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--files",
        default="20x5000,100x1000,1000x10,300~1500",
        help="files and rows of each, comma-separated",
    )
    parser.add_argument("--versions", default="2.1", help="versions of the data files, comma-separated")
    parser.add_argument("--works", help="names, or their beginnings, separated by commas; all by default")
    parser.add_argument("--repeat", type=int, default=9, help="number of counted turns")
    parser.add_argument("--markdown", action="store_true")
    chosen = parser.parse_args()
    print(f"medians of {chosen.repeat} turns in ms; {machine()}\n")
    show(["files", "read", "work", *ENGINES, "x pylance"], chosen.markdown)
    if chosen.markdown:
        show(["---"] * 3 + ["---:"] * 3, True)
    for version in chosen.versions.split(","):
        for size in chosen.files.split(","):
            folder = Path(tempfile.mkdtemp())
            path = str(folder / "table")
            rows = written(path, size, version)
            for is_first in (True, False):
                for name, work in works(rows).items():
                    if chosen.works and not name.startswith(tuple(chosen.works.split(","))):
                        continue
                    medians, is_same = measure(work, path, is_first, chosen.repeat)
                    ratio = f"{medians['pylance'] / medians['lancecy']:.2f}" + ("" if is_same else " differ!")
                    times = [f"{medians[engine]:.1f}" for engine in ENGINES]
                    read = "first" if is_first else "later"
                    show([f"{size} {version}", read, name, *times, ratio], chosen.markdown)
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
