"""Compares takes by lancecy and pylance: other rows each time, of tables of many files and of many columns.

usage: python bench/compare_takes.py [--kinds lists,typical] [--files 10,50] [--take 20,300] [--versions 2.1] [--repeat 15] [--markdown]

pylance writes 100,000 rows on a local disk: three columns of one kind, five of different kinds (``typical``), or a hundred of
numbers (``wide``). A take asks for rows at random, as samplers do, so that most takes are of other files than the one before. Both
engines have read the table before; they take the same rows in turns. Medians are printed, and ``x pylance``: pylance's time divided
by lancecy's. Results are compared: a row whose results differ is marked.
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

import numpy as np
import pyarrow as pa
from compare import machine, show
from compare_files import ENGINES, opened

ROWS = 100_000
BEFORE = 25
"""Takes that are not counted: they open the files."""

Chance = np.random.Generator


def _lists(chance: Chance) -> pa.Array:
    ends = np.cumsum(chance.integers(0, 4, ROWS))
    offsets = pa.array(np.concatenate(([0], ends)).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, chance.integers(0, 1000, int(ends[-1])))


def _structs(chance: Chance) -> pa.Array:
    numbers, words = chance.integers(0, 99, ROWS), [f"x{n % 977}" for n in range(ROWS)]
    parts = [pa.array(chance.random(ROWS)), pa.array(numbers), pa.array(words), pa.array(numbers < 50)]
    return pa.StructArray.from_arrays(parts, ["a", "b", "c", "d"])


KINDS: dict[str, Callable[[Chance], pa.Array]] = {
    "numbers": lambda chance: pa.array(chance.random(ROWS)),
    "texts": lambda chance: pa.array([f"some text {n}" for n in chance.integers(0, 10**6, ROWS)]),
    "categories": lambda chance: pa.array(chance.choice(["red", "green", "blue"], ROWS)),
    "dictionaries": lambda chance: pa.array(
        chance.choice(["red", "green", "blue"], ROWS)
    ).dictionary_encode(),
    "vectors": lambda chance: pa.FixedSizeListArray.from_arrays(chance.random(32 * ROWS).astype("f4"), 32),
    "lists": _lists,
    "structs": _structs,
}
TABLES = (*KINDS, "typical", "wide")


def rows_of(kind: str) -> pa.Table:
    """The rows of a table."""
    chance = np.random.default_rng(1)
    if kind == "typical":
        return pa.table({name: KINDS[name](chance) for name in [*KINDS][:5]})
    num_columns, kind = (100, "numbers") if kind == "wide" else (3, kind)
    return pa.table({f"c{number}": KINDS[kind](chance) for number in range(num_columns)})


def measure(path: str, size: int, repeat: int) -> tuple[dict[str, float], bool]:
    """Median milliseconds of each engine, and whether the results are the same."""
    tables = {name: opened(name, path) for name in ENGINES}
    seconds: dict[str, list[float]] = {name: [] for name in ENGINES}
    chance, is_same = np.random.default_rng(2), True
    for _ in range(BEFORE + repeat):
        rows = np.sort(chance.choice(ROWS, size, replace=False)).tolist()
        results = {}
        for name, table in tables.items():
            gc.collect()
            started = time.perf_counter()
            results[name] = table.take(rows)
            seconds[name].append(time.perf_counter() - started)
        is_same = is_same and results["lancecy"].to_pylist() == results["pylance"].to_pylist()
    return {name: 1e3 * statistics.median(taken[BEFORE:]) for name, taken in seconds.items()}, is_same


def main() -> None:
    import lance

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kinds", default=",".join(TABLES), help="of tables, comma-separated")
    parser.add_argument("--files", default="1,10,50", help="numbers of files, comma-separated")
    parser.add_argument("--take", default="20,300", help="numbers of rows, comma-separated")
    parser.add_argument("--versions", default="2.1", help="versions of the data files, comma-separated")
    parser.add_argument("--repeat", type=int, default=15, help="number of counted turns")
    parser.add_argument("--markdown", action="store_true")
    chosen = parser.parse_args()
    print(f"medians of {chosen.repeat} turns in ms; {machine()}\n")
    show(["table", "files", "rows", *ENGINES, "x pylance"], chosen.markdown)
    if chosen.markdown:
        show(["---"] * 3 + ["---:"] * 3, True)
    for version in chosen.versions.split(","):
        for kind in chosen.kinds.split(","):
            rows = rows_of(kind)
            for files in chosen.files.split(","):
                folder = Path(tempfile.mkdtemp())
                path, each = str(folder / "table"), ROWS // int(files)
                lance.write_dataset(
                    rows, path, data_storage_version=version, max_rows_per_file=each, max_rows_per_group=each
                )
                for size in chosen.take.split(","):
                    medians, is_same = measure(path, int(size), chosen.repeat)
                    ratio = f"{medians['pylance'] / medians['lancecy']:.2f}" + ("" if is_same else " differ!")
                    times = [f"{medians[engine]:.2f}" for engine in ENGINES]
                    show([f"{kind} {version}", files, size, *times, ratio], chosen.markdown)
                shutil.rmtree(folder)


if __name__ == "__main__":
    main()
