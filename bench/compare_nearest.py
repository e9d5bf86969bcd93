"""Compares exact searches for nearest neighbours by lancecy and pylance: milliseconds for the same search of the same table.

usage: python bench/compare_nearest.py [--vectors 200000] [--version 2.1] [--works l2,filter] [--repeat 7] [--alone] [--markdown]

Both libraries search the same files, which pylance wrote, without an index. ``read`` is the time in which as many threads
copy the table's bytes from the page cache. Works and engines take turns; the first turn warms up and is not counted;
medians of the others are printed. A row whose results differ is marked. ``of l2`` is lancecy's time beside that of its
search of all rows.
"""

from __future__ import annotations

import argparse
import importlib
import math
import os
import statistics
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
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
    scans: dict[str, dict[str, Any]],
    handles: dict[str, Any],
    read: Callable[[], int],
    repeat: int,
    clock: Callable[[], float],
) -> tuple[dict[str, dict[str, float]], set[str]]:
    """Median milliseconds of each work by each engine and of reading, and the works whose results differ."""
    seconds: dict[str, dict[str, list[float]]] = {
        work: {name: [] for name in (*handles, "read")} for work in scans
    }
    different: set[str] = set()
    for _ in range(repeat + 1):
        for work, scan in scans.items():
            results = []
            for name, handle in handles.items():
                started = clock()
                found = handle.to_table(columns=["id"], **scan)
                seconds[work][name].append(clock() - started)
                results.append(found.drop_columns("_distance"))
            started = clock()
            read()
            seconds[work]["read"].append(clock() - started)
            if any(found != results[0] for found in results):
                different.add(work)
    times = {
        work: {name: 1e3 * statistics.median(taken[1:]) for name, taken in by_name.items()}
        for work, by_name in seconds.items()
    }
    return times, different


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--vectors", type=int, default=200_000, help=f"rows, of {DIMENSION} float32 each")
    parser.add_argument("--alone", action="store_true", help="without pylance, whose work empties the caches")
    add_options(parser)
    chosen = parser.parse_args()
    engines = {"lancecy": "lancecy"} if chosen.alone else ENGINES
    path = cached(chosen.data, "vectors", chosen.vectors, chosen.version)
    handles = {name: importlib.import_module(module).dataset(str(path)) for name, module in engines.items()}
    read, clock = reading(path), time.process_time if chosen.cpu else time.perf_counter
    asked = tuple(chosen.works.split(",")) if chosen.works else ("",)
    scans = {name: scan for name, scan in works(chosen.vectors).items() if name.startswith(asked)}
    print(
        f"{chosen.vectors:,} x {DIMENSION} float32; files of version {chosen.version}; medians of {chosen.repeat} turns, {'processor time' if chosen.cpu else 'time'} in ms; "
        f"{machine()}\n"
    )
    show_heading(["work", *engines, "read", "x pylance", "of read", "of l2", ""], chosen.markdown)
    all_times, different = measure(scans, handles, read, chosen.repeat, clock)
    for work, times in all_times.items():
        ours = times["lancecy"]
        ratios = [times.get("pylance", math.nan) / ours, ours / times["read"]]
        ratios.append(ours / all_times["l2"]["lancecy"] if "l2" in all_times else math.nan)
        cells = [f"{cell:.2f}" for cell in times.values()] + [f"{cell:.3g}" for cell in ratios]
        show([work, *cells, "differs" if work in different else ""], chosen.markdown)


if __name__ == "__main__":
    main()
