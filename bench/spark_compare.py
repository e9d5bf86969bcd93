"""Compares lancecy in Spark with Parquet and with pylance's table passed to Spark, by one aggregate on the same rows.

usage: make compare-spark, or
python bench/spark_compare.py [--rows 5000000] [--repeat 7] [--routes parquet,read] [--version legacy] [--conf KEY=VALUE] [--markdown]

Every route ends in the same aggregate over the same four columns (sum of an int64, sum of a float64, max of an
int32, count of a string) in one Spark session on two cores. Two are yardsticks: ``spark.read.parquet``, and
pylance's table passed to ``createDataFrame``; ``handover`` passes the same table to
``lancecy.spark.dataframe``, ``dataframe`` a table that lancecy reads. In ``read`` the executors compute partial
aggregates, as in every ``agg``; ``rows`` is the same frame with all rows passed to Spark, as in other operations.
Routes take turns (A B C A B C …); the first turns warm up Python workers and the compiler of the JVM and are not
counted. Printed are the medians of the others and their ratios to the yardstick's. A route whose result differs
from the first one's is marked.
"""

from __future__ import annotations

import argparse
import logging
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parent.parent
FILES = 8
WARM_UP = 5


@dataclass(frozen=True)
class Route:
    """One way into Spark.

    Attributes
    ----------
    frame : function without arguments
        Makes the DataFrame; reading and converting are part of the measured time.
    yardstick : str
        Name of the route that the time is compared with.
    target : float or None
        How many times the yardstick's time it may take.
    """

    frame: Callable[[], Any]
    yardstick: str = "parquet"
    target: float | None = None


def table(rows: int) -> pa.Table:
    """``rows`` x 4: ordinal int64, random float64, int32 of 1,000 values, string of eight letters."""
    random = np.random.default_rng(11)
    letters = random.integers(97, 123, (100_000, 8), dtype=np.uint8).view("S8").ravel()
    words = pa.array(letters.astype("U8"))
    return pa.table(
        {
            "id": pa.array(np.arange(rows, dtype=np.int64)),
            "x": pa.array(random.standard_normal(rows)),
            "k": pa.array(random.integers(0, 1000, rows, dtype=np.int32)),
            "word": words.take(pa.array(random.integers(0, len(words), rows))),
        }
    )


def made(folder: Path, rows: int, form: str) -> str:
    """Path of the table, written on first use: ``parquet``, or a storage version of pylance; eight files each."""
    path = folder / f"spark-{rows}.{form}"
    if not path.exists():
        partial_path = path.with_suffix(path.suffix + ".partial")
        partial_path.mkdir(parents=True)
        whole, share = table(rows), -(-rows // FILES)
        if form == "parquet":
            for number in range(FILES):
                pq.write_table(whole.slice(number * share, share), partial_path / f"part-{number}.parquet")
        else:
            import lance

            options: dict[str, Any] = {"data_storage_version": form, "max_rows_per_file": share}
            lance.write_dataset(whole, str(partial_path), mode="overwrite", **options)
        partial_path.rename(path)
    return str(path)


def routes(spark: Any, lance_path: str, parquet_path: str) -> dict[str, Route]:
    """All routes by name."""
    import lance

    import lancecy

    def handed_over() -> Any:
        return spark.createDataFrame(lance.dataset(lance_path).to_table())

    def arranged() -> Any:
        return lancecy.spark.dataframe(spark, lance.dataset(lance_path).to_table())

    def whole() -> Any:
        return lancecy.spark.dataframe(spark, lancecy.dataset(lance_path).to_table())

    return {
        "parquet": Route(lambda: spark.read.parquet(parquet_path)),
        "read": Route(lambda: lancecy.spark.read(spark, lance_path), "parquet", 0.6),
        "rows": Route(lambda: lancecy.spark.read(spark, lance_path).alias("t"), "parquet", 0.7),
        "format": Route(lambda: spark.read.format("lancecy").load(lance_path), "parquet", 1.1),
        "pylance": Route(handed_over),
        "handover": Route(arranged, "pylance", 0.5),
        "dataframe": Route(whole, "pylance", 0.5),
    }


def answer(frame: Any) -> tuple[Any, ...]:
    """The aggregate of all four columns."""
    from pyspark.sql import functions as f

    row = frame.agg(f.sum("id"), f.sum("x"), f.max("k"), f.count("word")).first()
    return (row[0], round(row[1], 3), row[2], row[3])


def timed(route: Route) -> tuple[float, tuple[Any, ...]]:
    started = time.perf_counter()
    found = answer(route.frame())
    return time.perf_counter() - started, found


def measure(todo: dict[str, Route], repeat: int) -> tuple[dict[str, float], list[str]]:
    """Median seconds by route, and the routes whose result differs from the first one's."""
    seconds: dict[str, list[float]] = {name: [] for name in todo}
    answers: dict[str, tuple[Any, ...]] = {}
    for turn in range(WARM_UP + repeat):
        for name, route in todo.items():
            taken, answers[name] = timed(route)
            if turn >= WARM_UP:
                seconds[name].append(taken)
    first = next(iter(answers.values()))
    return {name: statistics.median(taken) for name, taken in seconds.items()}, [
        name for name, found in answers.items() if found != first
    ]


def cells(name: str, route: Route, medians: dict[str, float], rows: int, differ: list[str]) -> list[str]:
    """One line of the report."""
    ratio = medians[name] / medians[route.yardstick] if route.yardstick in medians else float("nan")
    return [
        name,
        f"{medians[name]:.3f}",
        f"{rows / medians[name] / 1e6:.1f}",
        f"{ratio:.2f} x {route.yardstick}",
        ""
        if route.target is None
        else f"at most {route.target:.2f}: {'met' if ratio <= route.target else 'missed'}",
        "answer differs" if name in differ else "",
    ]


def show(line: list[str], markdown: bool) -> None:
    if markdown:
        print("| " + " | ".join(line) + " |", flush=True)
    else:
        print(f"{line[0]:<12}" + "".join(f"{cell:>20}" for cell in line[1:]), flush=True)


def session(cores: int, settings: Mapping[str, str]) -> Any:
    """A local session whose workers use this Python and this checkout."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    folders = [str(ROOT), str(ROOT / "lancecy" / "spark" / "autoload"), os.environ.get("PYTHONPATH")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, folders))
    logging.getLogger("py4j").setLevel(logging.ERROR)
    builder = SparkSession.builder.master(f"local[{cores}]").appName("lancecy in Spark")
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "4g",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.showConsoleProgress": "false",
        # As the documentation advises: no TCP to Python workers. Parquet has none.
        "spark.python.unix.domain.socket.enabled": "true",
        **settings,
    }.items():
        builder = builder.config(key, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--repeat", type=int, default=7, help="number of counted turns")
    parser.add_argument("--routes", help="names separated by commas; all by default")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument(
        "--version", default="legacy", help="version of the data files: legacy, 2.0, 2.1, 2.2"
    )
    parser.add_argument(
        "--data", type=Path, default=Path(__file__).parent / ".data", help="folder for the tables"
    )
    parser.add_argument("--conf", action="append", default=[], help="KEY=VALUE: a setting of the session")
    parser.add_argument("--markdown", action="store_true")
    chosen = parser.parse_args()

    import lancecy

    make = partial(made, chosen.data, chosen.rows)
    lance_path, parquet_path = make(chosen.version), make("parquet")
    spark = session(chosen.cores, dict(setting.split("=", 1) for setting in chosen.conf))
    try:
        todo = routes(spark, lance_path, parquet_path)
        if chosen.routes:
            todo = {name: todo[name] for name in chosen.routes.split(",")}
        versions = ", ".join(f"{name} {version(name)}" for name in ("pyspark", "pylance", "pyarrow"))
        print(f"lancecy {lancecy.__version__}, {versions}; local[{chosen.cores}]; {chosen.version} files")
        turns = " ".join([f"median of {chosen.repeat} turns", *chosen.conf])
        print(f"{chosen.rows:,} rows x 4 columns, {FILES} files; {turns}\n")
        medians, differ = measure(todo, chosen.repeat)
        header = ["route", "seconds", "M rows/s", "of its yardstick", "target", ""]
        show(header, chosen.markdown)
        if chosen.markdown:
            show(["---"] * len(header), True)
        for name, route in todo.items():
            show(cells(name, route, medians, chosen.rows, differ), chosen.markdown)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
