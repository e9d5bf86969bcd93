"""Compares scalar indices of lancecy and pylance: milliseconds for the same look-ups, and for building the same indices.

usage: python bench/compare_indices.py [--rows 5000000] [--version 2.1] [--works key,build] [--repeat 7] [--markdown] [--memory]

pylance writes the table: a permutation of the row numbers, 2,500 numbers in no order, ascending times, a float. Each library
makes its own indices of a copy of its own, which shares the data files. A look-up has new constants in each turn; the
indices were used before, except for ``cold``, which opens the table anew. Building takes a copy without indices and 2,000,000
rows. Engines take turns; the first turn warms up and is not counted; medians of the others are printed. A row whose results differ
is marked.

``--memory`` builds each index in processes of their own, and prints the memory that building took beyond the open table.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from compare import add_options, machine, show, show_heading

MODULES = {"lancecy": "lancecy", "pylance": "lance"}
BUILT_ROWS = 2_000_000
GROUP_ROWS = 2000
LOOK_UPS = 5
"""Look-ups of a turn, each with new constants."""
INDICES = {"id": "BTREE", "g": "BITMAP", "t": "ZONEMAP", "u": "BLOOMFILTER"}


def table_of(rows: int, groups: int) -> pa.Table:
    """``rows`` x 5 of int64 and float64."""
    random = np.random.default_rng(4)
    return pa.table(
        {
            "id": random.permutation(rows),
            "g": random.integers(0, groups, rows),
            "t": np.sort(random.integers(0, 10 * rows, rows)),
            "u": random.permutation(rows),
            "x": random.random(rows),
        }
    )


def written(folder: Path, rows: int, groups: int, version: Any) -> Path:
    """The table, written on first use; in eight fragments."""
    path = folder / f"indexed-{rows}-{groups}.{version}"
    if not path.exists():
        import lance

        folder.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(path.suffix + ".partial")
        lance.write_dataset(
            table_of(rows, groups),
            str(unfinished),
            max_rows_per_file=-(-rows // 8),
            data_storage_version=version,
        )
        unfinished.rename(path)
    return path


def copied(source: Path, folder: Path, name: str) -> Path:
    """A copy that shares the files, which never change."""
    path = folder / name
    shutil.copytree(source, path, copy_function=os.link)
    return path


def opened(engine: str, path: Path) -> Any:
    """The table, with caches of its own."""
    module = importlib.import_module(MODULES[engine])
    return module.dataset(str(path), session=module.Session())


@dataclass(frozen=True)
class Work:
    """A look-up.

    Attributes
    ----------
    where : function of (random numbers, rows)
        The filter.
    counts : bool
        Whether only the number of rows is asked for.
    is_cold : bool
        Whether the table is opened anew.
    """

    where: Callable[[np.random.Generator, int], str]
    counts: bool = False
    is_cold: bool = False


def _key(random: np.random.Generator, rows: int) -> str:
    return f"id = {random.integers(rows)}"


def _group(random: np.random.Generator, rows: int) -> str:
    return f"g = {random.integers(rows // GROUP_ROWS)}"


def _keys(random: np.random.Generator, rows: int) -> str:
    return f"id IN ({', '.join(map(str, random.integers(0, rows, 1000).tolist()))})"


def _times(random: np.random.Generator, rows: int) -> str:
    start = int(random.integers(9 * rows))
    return f"t BETWEEN {start} AND {start + 10 * GROUP_ROWS}"


WORKS: dict[str, Work] = {
    "key, BTREE": Work(_key),
    "key, BTREE, cold": Work(_key, is_cold=True),
    "1,000 keys, BTREE": Work(_keys),
    "1,000 keys, BTREE, cold": Work(_keys, is_cold=True),
    "2,000 rows, BITMAP": Work(_group),
    "2,000 rows, BITMAP, cold": Work(_group, is_cold=True),
    "2,000 rows, ZONEMAP": Work(_times),
    "key, BLOOMFILTER": Work(lambda random, rows: f"u = {random.integers(rows)}"),
    "count, BITMAP": Work(_group, counts=True),
    "count, BTREE": Work(lambda random, rows: f"id < {random.integers(rows // 100)}", counts=True),
}


def looked_up(work: Work, dataset: Any, where: str) -> object:
    if work.counts:
        return dataset.count_rows(where)
    return dataset.to_table(columns=["id", "x"], filter=where)


def same(results: dict[str, Any]) -> bool:
    """Whether both engines found the same rows."""
    ours, theirs = results["lancecy"], results["pylance"]
    if isinstance(ours, pa.Table):
        return bool(ours.sort_by("id").equals(theirs.sort_by("id")))
    return bool(ours == theirs)


def measure_look_up(
    work: Work, paths: dict[str, Path], rows: int, repeat: int, clock: Callable[[], float]
) -> tuple[dict[str, float], bool]:
    """Median milliseconds of each engine, and whether the results are the same."""
    random = np.random.default_rng(6)
    handles = {name: opened(name, path) for name, path in paths.items()}
    seconds: dict[str, list[float]] = {name: [] for name in paths}
    is_same = True
    # The first look-ups read what later ones find in memory.
    for turn in range(LOOK_UPS * (repeat + 1)):
        where = work.where(random, rows)
        results = {}
        for name in (*paths,) if turn % 2 else (*reversed(paths),):
            started = clock()
            dataset = opened(name, paths[name]) if work.is_cold else handles[name]
            results[name] = looked_up(work, dataset, where)
            seconds[name].append(clock() - started)
        is_same &= same(results)
    return {name: 1e3 * statistics.median(taken[LOOK_UPS:]) for name, taken in seconds.items()}, is_same


def measure_building(
    column: str, kind: str, source: Path, folder: Path, repeat: int, clock: Callable[[], float]
) -> dict[str, float]:
    """Median milliseconds in which each engine makes an index."""
    seconds: dict[str, list[float]] = {name: [] for name in MODULES}
    options: dict[str, dict[str, Any]] = {"lancecy": {"durability": "none"}, "pylance": {}}
    for turn in range(repeat + 1):
        for name in (*MODULES,) if turn % 2 else (*reversed(MODULES),):
            path = copied(source, folder, f"built-{name}")
            dataset = opened(name, path)
            gc.collect()
            started = clock()
            dataset.create_scalar_index(column, kind, **options[name])
            seconds[name].append(clock() - started)
            shutil.rmtree(path)
    return {name: 1e3 * statistics.median(taken[1:]) for name, taken in seconds.items()}


def memory_of(engine: str, column: str, kind: str, path: Path) -> int:
    """Bytes beyond the open table that making an index takes, in this process."""
    dataset = opened(engine, path)
    dataset.to_table(columns=[column], limit=1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    dataset.create_scalar_index(column, kind)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024


def show_memory(source: Path, folder: Path, markdown: bool) -> None:
    """Print the memory that making each index takes."""
    show(["index", *(f"{name}, MB" for name in MODULES)], markdown)
    for column, kind in INDICES.items():
        cells = []
        for name in MODULES:
            path = copied(source, folder, f"measured-{name}")
            command = [sys.executable, __file__, "--measured", name, column, kind, str(path)]
            found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            cells.append(f"{int(found) / 1e6:.0f}")
            shutil.rmtree(path)
        show([kind, *cells], markdown)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    add_options(parser)
    parser.add_argument("--memory", action="store_true", help="memory of building, in place of times")
    parser.add_argument("--measured", nargs=4, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measured:
        engine, column, kind, path = chosen.measured
        print(memory_of(engine, column, kind, Path(path)))
        return
    clock = time.process_time if chosen.cpu else time.perf_counter
    wanted = tuple((chosen.works or "").split(","))
    source = written(chosen.data, chosen.rows, chosen.rows // GROUP_ROWS, chosen.version)
    print(
        f"{chosen.rows:,} rows; files of version {chosen.version}; medians of {chosen.repeat} turns, "
        f"{'processor time' if chosen.cpu else 'time'} in ms; {machine()}\n"
    )
    with tempfile.TemporaryDirectory(dir=chosen.data) as name:
        folder = Path(name)
        if chosen.memory:
            show_memory(source, folder, chosen.markdown)
            return
        heading = ["work", *MODULES, "x pylance", ""]
        show_heading(heading, chosen.markdown)
        works = {name: work for name, work in WORKS.items() if name.startswith(wanted)}
        paths = {engine: copied(source, folder, engine) for engine in MODULES} if works else {}
        for engine, path in paths.items():
            for column, kind in INDICES.items():
                opened(engine, path).create_scalar_index(column, kind)
        for name, work in works.items():
            times, is_same = measure_look_up(work, paths, chosen.rows, chosen.repeat, clock)
            _show_row(name, times, is_same, chosen.markdown)
        small = written(chosen.data, min(chosen.rows, BUILT_ROWS), 1000, chosen.version)
        for column, kind in INDICES.items():
            if f"build {kind}".startswith(wanted):
                times = measure_building(column, kind, small, folder, chosen.repeat, clock)
                _show_row(f"build {kind}", times, True, chosen.markdown)


def _show_row(name: str, times: dict[str, float], is_same: bool, markdown: bool) -> None:
    cells = [*times.values(), times["pylance"] / times["lancecy"]]
    show([f"{name:<26}", *(f"{cell:.2f}" for cell in cells), "" if is_same else "differs"], markdown)


if __name__ == "__main__":
    main()
