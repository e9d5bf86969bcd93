"""Compares lancecy, pylance and memory-mapped Arrow IPC: the same work on the same rows, in one run.

usage: python bench/compare.py [--rows 5000000] [--vectors 200000] [--repeat 5] [--works scan-all,take] [--markdown] [--json FILE]

lancecy and pylance read the same 0.1 files, which pylance wrote with its default row groups of 1,024; Arrow
IPC holds the same rows uncompressed. Engines take turns (A B C A B C …); the first turn warms up and is not
counted; medians of the others are printed. ``x pylance`` is pylance's time divided by lancecy's, ``of IPC``
lancecy's time divided by Arrow IPC's. Every result is reduced to a fingerprint that depends on every value; a
row whose fingerprints differ is marked.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from benchmarks.tables import cached, fingerprint

Predicate = tuple[str, pc.Expression]


class Engine(Protocol):
    """The interface of an engine."""

    name: str
    form: str

    def open(self, path: Path) -> Any: ...
    def table(self, handle: Any, columns: list[str] | None, where: Predicate | None) -> pa.Table: ...
    def take(self, handle: Any, rows: list[int], columns: list[str]) -> pa.Table: ...
    def count(self, handle: Any) -> int: ...


class _Dataset:
    """lancecy and pylance have the same methods."""

    def __init__(self, name: str, form: str, library: str) -> None:
        self.name, self.form, self._library = name, form, library

    def open(self, path: Path) -> Any:
        import importlib

        return importlib.import_module(self._library).dataset(str(path))

    def table(self, handle: Any, columns: list[str] | None, where: Predicate | None) -> pa.Table:
        return handle.to_table(columns=columns, filter=where[0] if where else None)

    def take(self, handle: Any, rows: list[int], columns: list[str]) -> pa.Table:
        return handle.take(rows, columns=columns)

    def count(self, handle: Any) -> int:
        return int(handle.count_rows())


class _Ipc:
    name, form = "ipc", "ipc"

    def open(self, path: Path) -> Any:
        return pa.memory_map(str(path))

    def table(self, handle: Any, columns: list[str] | None, where: Predicate | None) -> pa.Table:
        table = pa.ipc.open_file(handle).read_all()
        if where is not None:
            table = table.filter(where[1])
        return table if columns is None else table.select(columns)

    def take(self, handle: Any, rows: list[int], columns: list[str]) -> pa.Table:
        return pa.ipc.open_file(handle).read_all().select(columns).take(pa.array(rows))

    def count(self, handle: Any) -> int:
        return int(pa.ipc.open_file(handle).read_all().num_rows)


@dataclass(frozen=True)
class Work:
    """One measured operation: its table, and a function of engine, open handle and path."""

    kind: str
    run: Callable[[Engine, Any, Path], Any]


def _scan(kind: str, columns: list[str] | None = None, where: Predicate | None = None) -> Work:
    return Work(kind, lambda engine, handle, _: fingerprint(engine.table(handle, columns, where)))


def works(rows: int, vector_rows: int) -> dict[str, Work]:
    """All operations by name."""
    random = np.random.default_rng(3)
    some = sorted(random.choice(rows, min(1000, rows), replace=False).tolist())
    some_vectors = sorted(random.choice(vector_rows, min(1000, vector_rows), replace=False).tolist())
    low = rows // 2
    high = low + max(1, rows // 1000)
    few = max(1, vector_rows // 100)
    field = pc.field
    narrow = ["id", "x", "s"]
    between = (f"id >= {low} and id < {high}", (field("id") >= low) & (field("id") < high))
    return {
        "open+count": Work("scalars", lambda e, _, path: e.count(e.open(path))),
        "scan-all": _scan("scalars"),
        "scan-fixed": _scan("scalars", ["id", "ts", "x", "k"]),
        "scan-x": _scan("scalars", ["x"]),
        "scan-string": _scan("scalars", ["s"]),
        "filter-sorted": _scan("scalars", narrow, between),
        "filter-random": _scan("scalars", narrow, ("k < 10", field("k") < 10)),
        "filter-string": _scan("scalars", ["id"], ("s = 'w00001w00002'", field("s") == "w00001w00002")),
        "take": Work("scalars", lambda e, handle, _: fingerprint(e.take(handle, some, narrow))),
        "take-cold": Work("scalars", lambda e, _, path: fingerprint(e.take(e.open(path), some, narrow))),
        "vector-scan": _scan("vectors", ["vec"]),
        "vector-take": Work(
            "vectors", lambda e, handle, _: fingerprint(e.take(handle, some_vectors, ["id", "vec"]))
        ),
        "vector-filter": _scan("vectors", ["vec"], (f"id < {few}", field("id") < few)),
    }


def measure(
    work: Work, engines: list[Engine], paths: dict[tuple[str, str], Path], repeat: int
) -> dict[str, Any]:
    """Medians in milliseconds by engine, and under ``"differ"`` the engines whose result differs from the first one's."""
    here = {engine.name: paths[work.kind, engine.form] for engine in engines}
    handles = {engine.name: engine.open(here[engine.name]) for engine in engines}
    seconds: dict[str, list[float]] = {engine.name: [] for engine in engines}
    answers: dict[str, Any] = {}
    for turn in range(repeat + 1):
        for engine in engines:
            started = time.perf_counter()
            answers[engine.name] = work.run(engine, handles[engine.name], here[engine.name])
            if turn:
                seconds[engine.name].append(time.perf_counter() - started)
    medians: dict[str, Any] = {name: statistics.median(taken) * 1e3 for name, taken in seconds.items()}
    first = answers[engines[0].name]
    medians["differ"] = [name for name, answer in answers.items() if answer != first]
    return medians


def row(name: str, medians: dict[str, Any], engines: list[Engine]) -> list[str]:
    """Cells of one row of the report."""
    cells = [name, *(f"{medians[engine.name]:.1f}" for engine in engines)]
    cells.append(f"{medians['pylance'] / medians['lancecy']:.2f}")
    cells.append(f"{medians['lancecy'] / medians['ipc']:.2f}")
    cells.append("" if not medians["differ"] else "differs: " + ", ".join(medians["differ"]))
    return cells


def show(cells: list[str], markdown: bool) -> None:
    if markdown:
        print("| " + " | ".join(cells) + " |", flush=True)
    else:
        print(f"{cells[0]:<14}" + "".join(f"{cell:>14}" for cell in cells[1:]), flush=True)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of comparisons over kept tables: version of the files, works, folder, clock and form of the output."""
    parser.add_argument("--repeat", type=int, default=7, help="number of counted turns")
    parser.add_argument("--version", default="2.1", help="version of the data files: legacy, 2.0, 2.1, 2.2")
    parser.add_argument("--works", help="names, or their beginnings, separated by commas; all by default")
    parser.add_argument(
        "--data", type=Path, default=Path(__file__).parent / ".data", help="folder for the tables"
    )
    parser.add_argument(
        "--cpu", action="store_true", help="processor time of all threads, for a machine with other work"
    )
    parser.add_argument("--markdown", action="store_true")


def show_heading(cells: list[str], markdown: bool) -> None:
    """The first line of a table whose last column is of words."""
    show(cells, markdown)
    if markdown:
        show(["---"] + ["---:"] * (len(cells) - 2) + ["---"], True)


def machine() -> str:
    """A description of the machine and the versions."""
    import lancecy

    versions = ", ".join(f"{name} {version(name)}" for name in ("pylance", "pyarrow", "numpy"))
    versions = f"lancecy {lancecy.__version__}, {versions}"
    return f"{os.cpu_count()} x {platform.machine()}, Python {platform.python_version()}, {versions}"


def keep(file: Path, form: str, found: dict[str, dict[str, Any]]) -> None:
    """Write the medians of one file version into a JSON file, replacing those of an earlier run."""
    known = json.loads(file.read_text()) if file.exists() else {}
    figures = {name: {k: v for k, v in medians.items() if k != "differ"} for name, medians in found.items()}
    known["0.1" if form == "legacy" else form] = {"machine": machine(), "medians": figures}
    file.write_text(json.dumps(known, indent=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000, help="rows of the seven-column table")
    parser.add_argument(
        "--vectors", type=int, default=200_000, help="rows of the table of 768-dimensional vectors"
    )
    parser.add_argument("--repeat", type=int, default=5, help="number of counted turns")
    parser.add_argument("--works", help="names separated by commas; all by default")
    parser.add_argument(
        "--version",
        default="legacy",
        help="version of the data files: legacy, 2.0, 2.1, 2.2",
    )
    parser.add_argument(
        "--data", type=Path, default=Path(__file__).parent / ".data", help="folder for the tables"
    )
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--json", type=Path, help="add the medians to this file, for chart.py")
    chosen = parser.parse_args()

    form = chosen.version
    engines: list[Engine] = [
        _Dataset("lancecy", form, "lancecy"),
        _Dataset("pylance", form, "lance"),
        _Ipc(),
    ]
    todo = works(chosen.rows, chosen.vectors)
    if chosen.works:
        todo = {name: todo[name] for name in chosen.works.split(",")}
    sizes = {"scalars": chosen.rows, "vectors": chosen.vectors}
    paths = {
        (kind, engine.form): cached(chosen.data, kind, sizes[kind], engine.form)
        for kind in dict.fromkeys(work.kind for work in todo.values())
        for engine in engines
    }
    gc.collect()

    print(
        f"{chosen.rows:,} x 7 rows, {chosen.vectors:,} x 768 float32; files of version {form}; medians of {chosen.repeat} turns in ms; {machine()}\n"
    )
    heading = ["work", *(engine.name for engine in engines), "x pylance", "of IPC", ""]
    show(heading, chosen.markdown)
    if chosen.markdown:
        show(["---"] + ["---:"] * (len(heading) - 2) + ["---"], True)
    found = {}
    for name, work in todo.items():
        found[name] = measure(work, engines, paths, chosen.repeat)
        show(row(name, found[name], engines), chosen.markdown)
    if chosen.json is not None:
        keep(chosen.json, form, found)


if __name__ == "__main__":
    main()
