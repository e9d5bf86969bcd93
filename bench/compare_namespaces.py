"""Compares namespaces of lancecy and pylance: milliseconds for the same operation on catalogs of any number of tables.

usage: python bench/compare_namespaces.py [--tables 0,100000] [--repeat 9] [--works exists,list] [--fsync] [--cpu] [--markdown]

The tables are in one child namespace. Each library works on a catalog that it wrote last itself, because pylance writes
the whole catalog at every change; the one of lancecy has the indices that lancecy makes. Engines take turns on open
namespaces, each turn with other names; the first turn warms up and is not counted; medians of the others are printed.
None waits for the disk: pylance never does, so ``fsync`` does nothing here unless ``--fsync`` is given.
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
from pathlib import Path
from typing import Any

import lance_namespace as ln
import pyarrow as pa
from compare import machine, show

import lancecy.namespace
from lancecy.namespace.catalog import Add
from lancecy.namespace.entries import Entry

ENGINES = {"lancecy": "lancecy", "pylance": "dir"}
"""Engines and their names for ``lance_namespace.connect``."""
BIG = "big"
PAGE = 100

Work = Callable[[Any, int, int], Any]
"""A function of a namespace, the number of its tables and the number of the turn. Results are compared."""


def _name(number: int) -> str:
    return f"table_{number:06d}"


def _some(count: int, turn: int) -> list[str]:
    """The id of one of the tables."""
    return [BIG, _name((turn * 7919) % max(count, 1))]


def _body() -> bytes:
    sink = pa.BufferOutputStream()
    rows = pa.table({"a": [1, 2, 3]})
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def _exists(ns: Any, count: int, turn: int) -> object:
    try:
        ns.table_exists(ln.TableExistsRequest(id=_some(count, turn)))
    except ln.TableNotFoundError:
        return False
    return True


def _describe(ns: Any, count: int, turn: int) -> object:
    try:
        return ns.describe_table(ln.DescribeTableRequest(id=_some(count, turn))).location.rpartition("/")[2]
    except ln.TableNotFoundError:
        return None


def _page(ns: Any, count: int, turn: int) -> object:
    token = _some(count, turn)[1]
    return ns.list_tables(ln.ListTablesRequest(id=[BIG], limit=PAGE, page_token=token)).tables


def _list(ns: Any, count: int, turn: int) -> object:
    return len([name for name in ns.list_tables(ln.ListTablesRequest(id=[BIG])).tables if name < "u"])


def _declare(ns: Any, count: int, turn: int) -> object:
    return ns.declare_table(ln.DeclareTableRequest(id=[BIG, f"z-declared-{turn}"])).properties


def _create(ns: Any, count: int, turn: int) -> object:
    return ns.create_table(ln.CreateTableRequest(id=[BIG, f"z-created-{turn}"]), _body()).version


def _drop(ns: Any, count: int, turn: int) -> object:
    ns.drop_table(ln.DropTableRequest(id=[BIG, f"z-created-{turn}"]))
    return None


WORKS: dict[str, Work] = {
    "exists": _exists,
    "describe": _describe,
    f"list a page of {PAGE}": _page,
    "list all": _list,
    "declare one more": _declare,
    "create one more": _create,
    "drop it": _drop,
}


def write(root: Path, count: int) -> None:
    """A catalog of so many tables, in one commit; their directories are not made."""
    ns: Any = lancecy.namespace.DirectoryNamespace(root=str(root))
    ns.create_namespace(ln.CreateNamespaceRequest(id=[BIG]))
    rows = [
        Entry(f"{BIG}${_name(number)}", "table", f"{number:08x}_{BIG}${_name(number)}")
        for number in range(count)
    ]
    if rows:
        ns._catalog.change(lambda view: Add(rows))


def measure(
    works: dict[str, Work], source: Path, count: int, repeat: int, clock: Callable[[], float]
) -> list[tuple[str, dict[str, float], bool]]:
    """Name, median milliseconds of each engine, and whether results are the same, for each work in turn."""
    spaces: dict[str, Any] = {}
    for engine, kind in ENGINES.items():
        root = source.with_name(f"{source.name}-{engine}")
        shutil.copytree(source, root)
        spaces[engine] = ln.connect(kind, {"root": str(root)})
        spaces[engine].create_namespace(ln.CreateNamespaceRequest(id=["own"]))
    measured = []
    for name, work in works.items():
        seconds: dict[str, list[float]] = {engine: [] for engine in ENGINES}
        results: list[object] = []
        for turn in range(repeat + 1):
            for engine in ENGINES:
                gc.collect()
                started = clock()
                found = work(spaces[engine], count, turn)
                seconds[engine].append(clock() - started)
                results.append(found)
            os.sync()
        medians = {engine: 1e3 * statistics.median(taken[1:]) for engine, taken in seconds.items()}
        measured.append((name, medians, results[::2] == results[1::2]))
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tables", default="0,100000", help="tables of the catalogs, separated by commas")
    parser.add_argument("--repeat", type=int, default=9, help="number of counted turns")
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
    what = "processor time" if chosen.cpu else "time"
    print(f"medians of {chosen.repeat} turns, {what} in ms; {machine()}\n")
    show(["tables", "work", *ENGINES, "x pylance"], chosen.markdown)
    if chosen.markdown:
        show(["---:", "---", *["---:"] * (len(ENGINES) + 1)], True)
    works = {name: work for name, work in WORKS.items() if name.startswith(tuple(chosen.works.split(",")))}
    try:
        for count in map(int, chosen.tables.split(",")):
            source = folder / str(count)
            write(source, count)
            for name, medians, same in measure(works, source, count, chosen.repeat, clock):
                ratio = f"{medians['pylance'] / medians['lancecy']:.2f}" + ("" if same else " differ!")
                row = [f"{count:,}", name, *(f"{medians[engine]:.2f}" for engine in ENGINES), ratio]
                show(row, chosen.markdown)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
