"""Compares DuckDB and Polars over lancecy, pylance and Parquet: milliseconds for the same query of the same rows.

usage: python bench/compare_engines.py [--rows 5000000] [--version 2.1] [--works duckdb] [--repeat 7] [--markdown]

pylance writes the Lance files that both libraries read, pyarrow the Parquet file: numbers, a text of 200 values and one of
25,000,000 possible ones. DuckDB gets ``to_pyarrow_dataset()`` of lancecy, once with texts as dictionaries
(``read_dictionary=True``, what ``ds.sql`` does), pylance's dataset, and ``read_parquet``. Polars gets ``to_polars_lazy()`` of lancecy,
pylance's dataset by ``scan_pyarrow_dataset``, and ``scan_parquet``. Everything is open before the clock starts. Sources take turns;
the first turn warms up and is not counted; medians of the others are printed. ``x pylance`` is pylance's time divided by
lancecy's, ``of Parquet`` lancecy's time divided by Parquet's; of the two forms of lancecy the faster one counts. A row whose results
differ is marked.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.tables import ROWS_PER_FILE, scalars
from compare import add_options, machine, show, show_heading

import lancecy

SOURCES = ("lancecy", "coded", "pylance", "parquet")
GROUPS = 200


@dataclass(frozen=True)
class Places:
    """Where the rows are.

    Attributes
    ----------
    lance, parquet : str
        Paths.
    """

    lance: str
    parquet: str


def rows_of(count: int) -> pa.Table:
    """The table of the other benchmarks without its categories, and a text of 200 values."""
    names = np.array([f"group number {number:03d}" for number in range(GROUPS)])
    chosen = np.random.default_rng(9).integers(0, GROUPS, count)
    return scalars(count).drop_columns("cat").append_column("g", pa.array(names[chosen]))


def written(folder: Path, count: int, version: Any) -> Places:
    """Both tables, written on first use."""
    import lance

    places = Places(str(folder / f"engines-{count}.{version}"), str(folder / f"engines-{count}.parquet"))
    folder.mkdir(parents=True, exist_ok=True)
    if not Path(places.lance).exists():
        lance.write_dataset(
            rows_of(count), places.lance, data_storage_version=version, max_rows_per_file=ROWS_PER_FILE
        )
    if not Path(places.parquet).exists():
        pq.write_table(rows_of(count), places.parquet)
    return places


def tables(places: Places) -> dict[str, dict[str, Any]]:
    """What each engine queries, by engine and source."""
    import lance

    ours, theirs = lancecy.dataset(places.lance), lance.dataset(places.lance)
    return {
        "duckdb": {
            "lancecy": connected(ours.to_pyarrow_dataset()),
            "coded": connected(ours.to_pyarrow_dataset(read_dictionary=True)),
            "pylance": connected(theirs),
            "parquet": connected(places.parquet),
        },
        "polars": {
            "lancecy": ours.to_polars_lazy(),
            "pylance": pl.scan_pyarrow_dataset(theirs),
            "parquet": pl.scan_parquet(places.parquet),
        },
    }


def connected(source: Any) -> duckdb.DuckDBPyConnection:
    """A connection in which the rows are the table ``t``; a text is the path of a Parquet file."""
    connection = duckdb.connect()
    connection.register("t", connection.read_parquet(source) if isinstance(source, str) else source)
    return connection


def _sql(query: str) -> Callable[[duckdb.DuckDBPyConnection], list[tuple[Any, ...]]]:
    return lambda connection: connection.execute(query).fetchall()


def _lazy(query: Callable[[pl.LazyFrame], pl.LazyFrame]) -> Callable[[pl.LazyFrame], list[tuple[Any, ...]]]:
    return lambda frame: query(frame).collect().rows()


WORKS: dict[str, Callable[[Any], list[tuple[Any, ...]]]] = {
    "duckdb: sum of a number": _sql("SELECT sum(k) FROM t"),
    "duckdb: filtered sum": _sql("SELECT sum(x) FROM t WHERE k < 100"),
    "duckdb: group by a number": _sql("SELECT k, count(*), max(x) FROM t GROUP BY k"),
    "duckdb: group by a text": _sql("SELECT g, count(*) FROM t GROUP BY g"),
    "duckdb: filtered group by a text": _sql("SELECT g, sum(x) FROM t WHERE k < 100 GROUP BY g"),
    "duckdb: filter by a text": _sql("SELECT sum(x) FROM t WHERE g = 'group number 007'"),
    "duckdb: longest text": _sql("SELECT max(length(s)) FROM t"),
    "duckdb: ten rows": _sql("SELECT id, s FROM t WHERE id > 1000 LIMIT 10"),
    "polars: filtered sum": _lazy(lambda t: t.filter(pl.col("k") < 100).select(pl.col("x").sum())),
    "polars: group by a number": _lazy(lambda t: t.group_by("k").agg(pl.len(), pl.col("x").max())),
    "polars: group by a text": _lazy(lambda t: t.group_by("g").agg(pl.len())),
    "polars: filtered group by a text": _lazy(
        lambda t: t.filter(pl.col("k") < 100).group_by("g").agg(pl.col("x").sum())
    ),
    "polars: filter by a text": _lazy(
        lambda t: t.filter(pl.col("g") == "group number 007").select(pl.col("x").sum())
    ),
    "polars: longest text": _lazy(lambda t: t.select(pl.col("s").str.len_bytes().max())),
}


def measure(
    work: Callable[[Any], list[tuple[Any, ...]]],
    sources: dict[str, Any],
    repeat: int,
    clock: Callable[[], float],
) -> tuple[dict[str, float], bool]:
    """Median milliseconds of each source, and whether all results are the same."""
    seconds: dict[str, list[float]] = {name: [] for name in sources}
    results: dict[str, list[tuple[Any, ...]]] = {}
    for _ in range(repeat + 1):
        for name, source in sources.items():
            gc.collect()
            started = clock()
            results[name] = work(source)
            seconds[name].append(clock() - started)
    medians = {name: 1e3 * statistics.median(taken[1:]) for name, taken in seconds.items()}
    first, *others = ([_rounded(row) for row in sorted(found)] for found in results.values())
    return medians, all(found == first for found in others)


def _rounded(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Sums of floats depend on the order in which threads add them."""
    return tuple(float(f"{value:.9e}") if isinstance(value, float) else value for value in row)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    add_options(parser)
    chosen = parser.parse_args()
    places = written(chosen.data, chosen.rows, chosen.version)
    clock = time.process_time if chosen.cpu else time.perf_counter
    print(
        f"{chosen.rows:,} rows; Lance files of version {chosen.version}; medians of {chosen.repeat} turns, "
        f"{'processor time' if chosen.cpu else 'time'} in ms; duckdb {duckdb.__version__}, polars {pl.__version__}; {machine()}\n"
    )
    show_heading(["query", *SOURCES, "x pylance", "of Parquet", ""], chosen.markdown)
    queried = tables(places)
    for name, work in WORKS.items():
        if chosen.works and not name.startswith(tuple(chosen.works.split(","))):
            continue
        times, same = measure(work, queried[name.partition(":")[0]], chosen.repeat, clock)
        ours = min(times["lancecy"], times.get("coded", times["lancecy"]))
        cells = [f"{times[source]:.1f}" if source in times else "" for source in SOURCES]
        ratios = [f"{times['pylance'] / ours:.2f}", f"{ours / times['parquet']:.2f}"]
        show([name, *cells, *ratios, "" if same else "differs"], chosen.markdown)


if __name__ == "__main__":
    main()
