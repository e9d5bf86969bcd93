"""Compares writes of lancecy, pylance and Arrow IPC: seconds and bytes for the same rows.

usage: python bench/write_compare.py [--rows 5000000] [--vectors 200000] [--version 2.1] [--repeat 5] [--appends 200] [--markdown]

All write the same Arrow table to the same folder, which is emptied before each turn. None waits for the disk:
pylance never does, so lancecy runs with ``durability="none"``; ``lancecy+fsync`` shows the cost of waiting. Arrow
IPC, one uncompressed file without a table, is the limit; rows cannot be appended to it. Engines take turns; the first
turn warms up and is not counted; medians of the others are printed.
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from benchmarks.tables import MAKERS, write_ipc
from compare import machine, show

Write: TypeAlias = Callable[[Any, str, str, str], object]
Work: TypeAlias = Callable[[Write, str], float]


def _pylance(data: Any, path: str, mode: Any, version: Any) -> object:
    import lance

    return lance.write_dataset(data, path, mode=mode, data_storage_version=version)


def _lancecy(durability: Any) -> Write:
    def write(data: Any, path: str, mode: Any, version: str) -> object:
        import lancecy

        return lancecy.write_dataset(
            data, path, mode=mode, data_storage_version=version, durability=durability
        )

    return write


def _ipc(data: Any, path: str, _mode: str, _version: str) -> None:
    write_ipc(data, Path(path))


TABLES: dict[str, Write] = {
    "lancecy": _lancecy("none"),
    "pylance": _pylance,
    "lancecy+fsync": _lancecy("fsync"),
}
ENGINES: dict[str, Write] = {**TABLES, "arrow ipc": _ipc}


def whole(table: pa.Table, write: Write, path: str, version: str) -> float:
    """Seconds to write a table."""
    started = time.perf_counter()
    write(table, path, "create", version)
    return time.perf_counter() - started


def appends(count: int, write: Write, path: str, version: str) -> float:
    """Seconds to append one row many times."""
    row = pa.table({"id": pa.array([1], pa.int64()), "s": ["word"]})
    write(row, path, "create", version)
    started = time.perf_counter()
    for _ in range(count):
        write(row, path, "append", version)
    return time.perf_counter() - started


def repeated(data: pa.Table, count: int, write: Write, path: str, version: str) -> float:
    """Seconds to write a table and append it to itself several times."""
    started = time.perf_counter()
    for turn in range(count):
        write(data, path, "append" if turn else "create", version)
    return time.perf_counter() - started


def columns(count: int, num_rows: int, kinds: int = 6) -> pa.Table:
    """``count`` columns: the first ``kinds`` of integers, floats, integers with nulls, words, lists and structs in turn."""
    random = np.random.default_rng(9)

    def column(number: int) -> pa.Array:
        small = random.integers(0, 1000, num_rows)
        kind = number % kinds
        if kind == 0:
            return pa.array(small)
        if kind == 1:
            return pa.array(random.standard_normal(num_rows))
        if kind == 2:
            return pa.array(small, mask=random.random(num_rows) < 0.1)
        if kind == 3:
            return pa.array([f"word {value * 997}" for value in small.tolist()])
        if kind == 4:
            return pa.ListArray.from_arrays(
                np.arange(0, num_rows + 1, 2, dtype=np.int32), pa.array(small)
            ).take(pa.array(np.arange(num_rows) // 2))
        return pa.StructArray.from_arrays([pa.array(small), pa.array(small / 8)], ["number", "share"])

    return pa.table({f"c{number}": column(number) for number in range(count)})


WIDE: dict[str, tuple[int, int, int, int]] = {
    "10,000 x 100": (10_000, 100, 6, 1),
    "10,000 x 100, flat": (10_000, 100, 4, 1),
    "1,000 x 1,000": (1_000, 1_000, 6, 1),
    "20 x 100, 50 times": (20, 100, 6, 50),
}
"""Tables of many columns or few rows: columns, rows, kinds of columns, and how often each is written."""


def measure(
    run: Work, engines: dict[str, Write], folder: Path, repeat: int
) -> tuple[dict[str, float], dict[str, int]]:
    """Median seconds and bytes written of each engine."""
    seconds: dict[str, list[float]] = {name: [] for name in engines}
    sizes: dict[str, int] = {}
    for turn in range(repeat + 1):
        for name, write in engines.items():
            with tempfile.TemporaryDirectory(dir=folder) as place:
                taken = run(write, f"{place}/t.lance")
                sizes[name] = sum(p.stat().st_size for p in Path(place).rglob("*") if p.is_file())
            # Write out what one engine left to the system before timing the next.
            os.sync()
            if turn:
                seconds[name].append(taken)
    return {name: statistics.median(taken) for name, taken in seconds.items()}, sizes


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000, help="rows of the seven-column table")
    parser.add_argument("--vectors", type=int, default=200_000, help="rows of 768-dimensional vectors")
    parser.add_argument("--repeat", type=int, default=5, help="number of counted turns")
    parser.add_argument("--appends", type=int, default=200, help="number of appends of one row")
    parser.add_argument("--version", default="2.1", help="version of the data files: legacy, 2.0, 2.1, 2.2")
    parser.add_argument(
        "--works",
        default="scalars,vectors,appends",
        help="scalars, vectors, appends, wide, separated by commas",
    )
    parser.add_argument("--data", type=Path, help="where to write; by default a temporary folder")
    parser.add_argument("--markdown", action="store_true")
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=chosen.data))
    print(
        f"{chosen.rows:,} x 7 rows, {chosen.vectors:,} x 768 float32, {chosen.appends} appends of a row; files of version "
        f"{chosen.version}; medians of {chosen.repeat} turns in ms; {machine()}\n"
    )
    heading = ["written", *ENGINES, "x pylance", "MB", "MB pylance"]
    show(heading, chosen.markdown)
    if chosen.markdown:
        show(["---", *["---:"] * (len(heading) - 1)], True)
    sizes = {"scalars": chosen.rows, "vectors": chosen.vectors}
    try:
        given = chosen.works.split(",")
        for name in (work for each in given for work in (WIDE if each == "wide" else [each])):
            run: Work
            if name in WIDE:
                wide, num_rows, kinds, count = WIDE[name]
                data = columns(wide, num_rows, kinds)
                run, engines = partial(repeated, data, count, version=chosen.version), TABLES
            elif name == "appends":
                run, engines = partial(appends, chosen.appends, version=chosen.version), TABLES
            else:
                run, engines = partial(whole, MAKERS[name](sizes[name]), version=chosen.version), ENGINES
            medians, written = measure(run, engines, folder, chosen.repeat)
            cells = [f"{medians[e] * 1e3:.0f}" if e in medians else "" for e in ENGINES]
            ratio = f"{medians['pylance'] / medians['lancecy']:.2f}"
            show(
                [name, *cells, ratio, *(f"{written[e] / 1e6:.1f}" for e in ("lancecy", "pylance"))],
                chosen.markdown,
            )
            gc.collect()
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
