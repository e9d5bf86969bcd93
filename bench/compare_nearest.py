"""Compares exact searches for nearest neighbours by lancecy and pylance: milliseconds for the same search of the same table.

usage: python bench/compare_nearest.py [--vectors 200000] [--version 2.1] [--works l2,filter] [--repeat 7] [--markdown]

Both libraries search the same files, which pylance wrote, without an index. ``read`` is the time in which as many threads
copy the table's bytes from the page cache. Engines take turns; the first turn warms up and is not counted; medians of the
others are printed. A row whose results differ is marked.
"""

from __future__ import annotations

import argparse
import importlib
import os
import statistics
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from benchmarks.tables import DIMENSION, cached
from compare import add_options, machine, show, show_heading

ENGINES = {"lancecy": "lancecy", "pylance": "lance"}
PIECE = 1 << 20
"""Bytes that a thread reads at once."""


def works(vector_rows: int) -> dict[str, dict[str, Any]]:
    """Arguments of ``to_table`` by name of the work."""
    queries = np.random.default_rng(3).standard_normal((10, DIMENSION), dtype=np.float32)
    search = {"column": "vec", "q": queries[0], "k": 10, "use_index": False}
    return {
        "l2": {"nearest": search},
        "cosine": {"nearest": {**search, "metric": "cosine"}},
        "dot": {"nearest": {**search, "metric": "dot"}},
        "k = 1,000": {"nearest": {**search, "k": 1000}},
        "10 queries": {"nearest": {**search, "q": queries}},
        "filter, first 1 %": _filtered(search, f"id < {max(1, vector_rows // 100)}"),
        "filter, any 1 %": _filtered(search, "id % 100 = 7"),
        "filter, any 50 %": _filtered(search, "id % 2 = 1"),
    }


def _filtered(search: dict[str, Any], where: str) -> dict[str, Any]:
    return {"nearest": search, "filter": where, "prefilter": True}


def reading(path: Path) -> Callable[[], int]:
    """A function that reads the table's files piece by piece, on as many threads as there are processors."""
    files = [os.open(file, os.O_RDONLY) for file in sorted((path / "data").iterdir())]
    pieces = [(file, start) for file in files for start in range(0, os.fstat(file).st_size, PIECE)]
    own = threading.local()

    def read(piece: tuple[int, int]) -> int:
        if not hasattr(own, "memory"):
            own.memory = bytearray(PIECE)
        return os.preadv(piece[0], [own.memory], piece[1])

    pool = ThreadPoolExecutor(os.cpu_count())
    return lambda: sum(pool.map(read, pieces))


def measure(
    scan: dict[str, Any],
    handles: dict[str, Any],
    read: Callable[[], int],
    repeat: int,
    clock: Callable[[], float],
) -> tuple[dict[str, float], bool]:
    """Median milliseconds of each engine and of reading, and whether the results are the same."""
    runs: dict[str, Callable[[], Any]] = {
        name: lambda handle=handle: handle.to_table(columns=["id"], **scan)  # type: ignore[misc]
        for name, handle in handles.items()
    }
    seconds: dict[str, list[float]] = {name: [] for name in (*runs, "read")}
    results: dict[str, pa.Table] = {}
    for _ in range(repeat + 1):
        for name, run in (*runs.items(), ("read", read)):
            started = clock()
            results[name] = run()
            seconds[name].append(clock() - started)
    times = {name: 1e3 * statistics.median(taken[1:]) for name, taken in seconds.items()}
    ours, theirs = results["lancecy"], results["pylance"]
    return times, ours.drop_columns("_distance") == theirs.drop_columns("_distance")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--vectors", type=int, default=200_000, help=f"rows, of {DIMENSION} float32 each")
    add_options(parser)
    chosen = parser.parse_args()
    path = cached(chosen.data, "vectors", chosen.vectors, chosen.version)
    handles = {name: importlib.import_module(module).dataset(str(path)) for name, module in ENGINES.items()}
    read, clock = reading(path), time.process_time if chosen.cpu else time.perf_counter
    print(
        f"{chosen.vectors:,} x {DIMENSION} float32; files of version {chosen.version}; medians of {chosen.repeat} turns, {'processor time' if chosen.cpu else 'time'} in ms; "
        f"{machine()}\n"
    )
    heading = ["work", *ENGINES, "read", "x pylance", "of read", ""]
    show_heading(heading, chosen.markdown)
    for name, scan in works(chosen.vectors).items():
        if chosen.works and not name.startswith(tuple(chosen.works.split(","))):
            continue
        times, same = measure(scan, handles, read, chosen.repeat, clock)
        cells = [*times.values(), times["pylance"] / times["lancecy"], times["lancecy"] / times["read"]]
        show([name, *(f"{cell:.2f}" for cell in cells), "" if same else "differs"], chosen.markdown)


if __name__ == "__main__":
    main()
