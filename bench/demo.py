"""A tour (``make demo``): write, filter and change a table over three bases, in Dask and in Spark.

Everything is written to a temporary folder that is removed at the end (``--keep FOLDER`` keeps it).
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.panel import Panel
from rich.rule import Rule
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

ROWS = 1_200_000
DAYS = 120
BASES = ("north", "south", "west")
CITIES = ("Aachen", "Bergen", "Bordeaux", "Cork", "Delft", "Évora", "Gdańsk")
FILTER = "day >= date '2024-03-01' AND day < date '2024-03-08' AND city LIKE 'B%'"
COLUMNS = ["city", "km", "fare"]

console = Console(width=110, highlight=False)


# ---- the table --------------------------------------------------------------------------------------


def rides(rows: int) -> Any:
    """Rows ordered by day, as a pyarrow table."""
    import numpy as np
    import pyarrow as pa

    random = np.random.default_rng(2024)
    start = np.datetime64("2024-01-01", "D")
    km = random.gamma(2.0, 3.0, rows).round(2)
    return pa.table(
        {
            "ride": pa.array(np.arange(rows, dtype=np.int64)),
            "day": pa.array(
                start + np.sort(random.integers(0, DAYS, rows)).astype("timedelta64[D]"), pa.date32()
            ),
            "city": pa.array(np.array(CITIES)[random.integers(0, len(CITIES), rows)]),
            "km": pa.array(km),
            "fare": pa.array((3.2 + 1.9 * km + random.normal(0, 0.5, rows)).round(2)),
            "shared": pa.array(random.random(rows) < 0.2),
            "vec": pa.FixedSizeListArray.from_arrays(pa.array(random.random(rows * 8, dtype=np.float32)), 8),
        }
    )


def write_table(data: Any, folder: Path, **options: Any) -> Any:
    """Write ``folder / "rides"``: 12 fragments, their data files spread over three other folders."""
    import lancecy

    return lancecy.write_dataset(
        data,
        folder / "rides",
        initial_bases=[lancecy.DatasetBasePath(folder / name, name=name) for name in BASES],
        target_bases=list(BASES),
        max_rows_per_file=-(-data.num_rows // 12),
        **options,
    )


# ---- showing it -------------------------------------------------------------------------------------


def chapter(title: str) -> None:
    console.print()
    console.print(Rule(Text(title, style="bold"), align="left", style="cyan"))


def code(text: str) -> None:
    console.print(Syntax(text, "python", theme="ansi_dark", background_color="default"))
    console.print()


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    started = time.perf_counter()
    result = work()
    return result, time.perf_counter() - started


def settled(work: Callable[[], Any], turns: int = 3) -> tuple[Any, float]:
    """The result, and the median time of some turns after a warm-up."""
    result = work()
    return result, statistics.median(timed(work)[1] for _ in range(turns))


def rate(rows: int, seconds: float) -> str:
    return f"{rows / seconds / 1e6:,.1f} M rows/s"


def grid(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, name in enumerate(columns):
        table.add_column(name, justify="left" if number == 0 else "right", overflow="fold")
    return table


# ---- the chapters -----------------------------------------------------------------------------------


def show_write(folder: Path, rows: int) -> Any:
    chapter("1. Write")
    code(
        'ds = lancecy.write_dataset(rides, "rides", data_storage_version="0.1",   # pages have statistics\n'
        '    initial_bases=[DatasetBasePath("/disk1/rides", name="north"), …],\n'
        '    target_bases=["north", "south", "west"], max_rows_per_file=100_000)'
    )
    data = rides(rows)
    ds, seconds = timed(lambda: write_table(data, folder, data_storage_version="0.1"))
    console.print(
        f"{rows:,} rows, {data.nbytes / 1e6:,.0f} MB, in {seconds:.1f} s, synced to disk; the data files are "
        "in three other folders:\n"
    )
    show_bases(ds)
    return ds


def show_bases(ds: Any) -> None:
    files = [file for fragment in ds.get_fragments() for file in fragment.data_files()]
    table = grid("base", "data files", "bytes")
    for number, name in [(None, "its own folder"), *((b.id, b.name) for b in ds.base_paths.values())]:
        sizes = [file.size or 0 for file in files if file.base_id == number]
        if sizes:
            table.add_row(name, str(len(sizes)), f"{sum(sizes):,}")
    console.print(table)


def show_dataset(uri: str) -> Any:
    import lancecy

    chapter("2. Open")
    code('ds = lancecy.dataset("rides")\nds')
    ds, seconds = settled(lambda: lancecy.dataset(uri))
    console.print(Text(str(ds)))
    console.print(f"[dim]opened in {seconds * 1e3:.1f} ms from the manifest only[/dim]")
    return ds


def show_pruning(ds: Any) -> None:
    chapter("3. Explain a scan")
    code(f'wanted = "{FILTER}"\nds.scanner(columns={COLUMNS}, filter=wanted).explain()')
    explanation = ds.scanner(columns=COLUMNS, filter=FILTER).explain()
    console.print(Text(str(explanation)))

    chapter("4. Scan")
    table = grid("what", "rows out", "time", "")
    everything, seconds = settled(ds.to_table)
    size = everything.nbytes
    table.add_row(
        "every row, every column",
        f"{everything.num_rows:,}",
        f"{seconds * 1e3:,.0f} ms",
        f"{size / seconds / 1e9:.2f} GB/s",
    )
    del everything
    for label, use_stats in (("the filter, pages pruned", True), ("the filter, nothing pruned", False)):
        found, seconds = settled(partial(ds.to_table, columns=COLUMNS, filter=FILTER, use_stats=use_stats))
        table.add_row(
            label, f"{found.num_rows:,}", f"{seconds * 1e3:,.0f} ms", rate(ds.count_rows(), seconds)
        )
    console.print(table)


def show_changes(ds: Any) -> None:
    from lancecy import DatasetBasePath

    chapter("5. Change")
    code(
        'ds.add_bases([DatasetBasePath("/disk4/rides", name="east")])\n'
        'ds.append(more, target_bases=["east"])\n'
        'ds.delete("fare < 4")'
    )
    east = str(Path(ds.uri).with_name("east"))
    steps: list[tuple[str, Callable[[], Any]]] = [
        ("a base is added", lambda: ds.add_bases([DatasetBasePath(east, name="east")])),
        ("10,000 rows are appended", lambda: ds.append(rides(10_000), target_bases=["east"])),
        ("rides below 4 are deleted", lambda: ds.delete("fare < 4")),
    ]
    table = grid("version", "rows", "fragments", "time", "what")
    table.columns[-1].justify = "left"
    table.add_row(
        str(ds.version), f"{ds.count_rows():,}", str(len(ds.get_fragments())), "", "as it was written"
    )
    for what, change in steps:
        _, seconds = timed(change)
        facts = (str(ds.version), f"{ds.count_rows():,}", str(len(ds.get_fragments())))
        table.add_row(*facts, f"{seconds * 1e3:,.0f} ms", what)
    console.print(table)
    console.print()
    show_bases(ds)
    console.print("[dim]every version can still be read; files are kept until a cleanup[/dim]")


def show_dask(uri: str) -> None:
    import lancecy

    chapter("6. As a Dask DataFrame, and from one")
    code(
        f'ddf = lancecy.scan("rides", filter=wanted, columns={COLUMNS})\n'
        'ddf.groupby("city").fare.mean().compute()'
    )
    ddf, planned = settled(lambda: lancecy.scan(uri, filter=FILTER, columns=COLUMNS, blocksize="4MiB"))
    means, seconds = settled(lambda: ddf.groupby("city").fare.mean().compute())
    table = grid("city", "mean fare")
    for city, fare in sorted(means.items()):
        table.add_row(str(city), f"{fare:.2f}")
    console.print(table)
    console.print(
        f"[dim]{ddf.npartitions} partitions planned from metadata in {planned * 1e3:.0f} ms, computed in {seconds * 1e3:.0f} ms[/dim]\n"
    )
    code('lancecy.write_dask(ddf, "week")      # the workers write data files, with one commit')
    made, seconds = timed(lambda: lancecy.write_dask(ddf, Path(uri).with_name("week")))
    console.print(_written("Dask", made, seconds))


def _written(by: str, made: Any, seconds: float) -> str:
    return (
        f"{by} wrote {made.count_rows():,} rows as {len(made.get_fragments())} fragments of version {made.version} in "
        f"{seconds:.1f} s"
    )


@contextlib.contextmanager
def quiet_children(log: Path) -> Iterator[None]:
    """Redirect errors of child processes to ``log``: the JVM prints many and outlives the call."""
    sys.stderr.flush()
    before = os.dup(2)
    with log.open("wb") as sink:
        os.dup2(sink.fileno(), 2)
        try:
            yield
        except BaseException:
            os.write(before, log.read_bytes())
            raise
        finally:
            os.dup2(before, 2)
            os.close(before)


def spark_session() -> Any:
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .appName("lancecy demo")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session


def show_spark(ds: Any, uri: str) -> None:
    import lancecy

    chapter("7. In Spark")
    code(
        "spark.createDataFrame(ds.to_table())                       # pass the Arrow table\n"
        "lancecy.spark.dataframe(spark, ds.to_table())              # any Arrow type, good partitions\n"
        'df = lancecy.spark.read(spark, "rides", columns=…, filter=…)    # distributed read\n'
        'lancecy.spark.write(df, "week", mode="append")             # distributed write, one commit'
    )
    with quiet_children(Path(uri).with_name("spark.log")):
        spark, seconds = timed(spark_session)
    console.print(f"[dim]Spark {spark.version} started in {seconds:.1f} s[/dim]")
    try:
        columns = ["city", "km", "fare", "vec"]
        _, seconds = timed(
            lambda: lancecy.spark.read(spark, uri, columns=["ride"], filter="ride = 1").count()
        )
        console.print(f"[dim]its Python workers, and a first read of one row, in {seconds:.1f} s[/dim]\n")
        routes: dict[str, Callable[[], Any]] = {
            "createDataFrame": lambda: spark.createDataFrame(ds.to_table(columns=columns)),
            "lancecy.spark.dataframe": lambda: lancecy.spark.dataframe(spark, ds.to_table(columns=columns)),
            "lancecy.spark.read": lambda: lancecy.spark.read(spark, uri, columns=columns),
            "lancecy.spark.read, filtered": lambda: lancecy.spark.read(
                spark, uri, columns=columns, filter=FILTER
            ),
        }
        table = grid("route", "rows", "mean fare in Bergen", "time")
        for name, make in routes.items():
            (rows, fare), seconds = timed(partial(_spark_answer, make))
            table.add_row(name, f"{rows:,}", f"{fare:.2f}", f"{seconds:.2f} s")
        console.print(table)
        console.print()
        frame = lancecy.spark.read(spark, uri, columns=COLUMNS, filter=FILTER)
        week = Path(uri).with_name("week")
        made, seconds = timed(lambda: lancecy.spark.write(frame, week, "append"))
        console.print(_written("Spark", made, seconds))
    finally:
        spark.stop()


def _spark_answer(make: Callable[[], Any]) -> tuple[int, float]:
    from pyspark.sql import functions as f

    row = make().agg(f.count("*"), f.avg(f.when(f.col("city") == "Bergen", f.col("fare")))).first()
    return row[0], row[1]


# ---- the whole --------------------------------------------------------------------------------------


def tour(folder: Path, rows: int, with_spark: bool) -> None:
    import lancecy

    uri = str(folder / "rides")
    console.print(
        Panel.fit("[bold]lancecy[/bold]: Lance tables in Cython and NumPy, for Dask and Spark", style="cyan")
    )
    show_write(folder, rows)
    ds = show_dataset(uri)
    show_pruning(ds)
    show_changes(lancecy.dataset(uri))
    show_dask(uri)
    if with_spark:
        show_spark(lancecy.dataset(uri), uri)
    console.print()
    console.print(
        "[dim]next: README.md; `make compare` measures lancecy, pylance and memory-mapped Arrow IPC[/dim]"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--keep", metavar="FOLDER", type=Path, help="make the table here and keep it")
    parser.add_argument("--no-spark", action="store_true", help="skip the last chapter")
    chosen = parser.parse_args()
    logging.getLogger("py4j").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="pyspark")
    if chosen.keep:
        tour(chosen.keep.resolve(), chosen.rows, not chosen.no_spark)
        return
    with tempfile.TemporaryDirectory(prefix="lancecy-demo-") as folder:
        tour(Path(folder), chosen.rows, not chosen.no_spark)


if __name__ == "__main__":
    main()
