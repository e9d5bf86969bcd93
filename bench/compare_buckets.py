"""Compares a table on one S3 server with one over three: seconds for the same rows, read and written.

usage: python bench/compare_buckets.py [--megabytes 64] [--rate 4] [--repeat 3] [--works read-threads,write-dask] [--tasks 12] [--markdown]

Every server is a process of its own on the loopback interface and passes ``--rate`` megabytes a second in each direction
(``capped_server.py``), so three pass three times as many, if all of them are busy. The table's own folder, with its manifests,
is on the first server; data files are in one base there, or in turn in three bases on three servers. Random float64 does not
compress. The two tables take turns; the first turn warms up and is not counted; medians are printed, and the ratio.
"""

from __future__ import annotations

import argparse
import statistics
import time
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
from capped_server import capped_server
from compare import machine, show
from spark_compare import session as spark_session

import lancecy
from lancecy import DatasetBasePath
from lancecy.session import Session

BUCKET = "bench-data"
FILES = 24
_NUMBERS = count()


@dataclass
class Places:
    """One or more servers, and tables whose data files are on all of them.

    Attributes
    ----------
    servers : list of str
        URLs.
    rows : pyarrow.Table
        What every table has.
    spark : pyspark.sql.SparkSession or None
    dask : dict
        How Dask computes.
    """

    servers: Sequence[str]
    rows: pa.Table
    spark: Any = None
    dask: dict[str, Any] = field(default_factory=dict)
    uri: str = ""
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.options = {"key": "test", "secret": "test", "endpoint_url": self.servers[0]}
        for number, server in enumerate(self.servers, 1):
            self.options[f"base_{number}.endpoint_url"] = server
            request = urllib.request.Request(f"{server}/{BUCKET}", method="PUT")
            urllib.request.urlopen(request, timeout=30).close()

    @property
    def given(self) -> dict[str, Any]:
        """Arguments of a write of a new table."""
        numbers = range(1, len(self.servers) + 1)
        place = f"s3://{BUCKET}/{len(self.servers)}"
        return {
            "storage_options": self.options,
            "initial_bases": [DatasetBasePath(f"{place}/files{n}", name=f"b{n}") for n in numbers],
            "target_bases": [f"b{n}" for n in numbers],
            "max_rows_per_file": -(-self.rows.num_rows // FILES),
        }

    def new_uri(self) -> str:
        """Of a table that is not there yet."""
        return f"s3://{BUCKET}/{len(self.servers)}/t{next(_NUMBERS)}"

    @cached_property
    def frame(self) -> Any:
        """The rows as a Dask DataFrame, one partition for each file."""
        import dask.dataframe as dd

        return dd.from_pandas(self.rows.to_pandas(), npartitions=FILES)

    def opened(self) -> Any:
        """The table, with nothing cached."""
        return lancecy.dataset(self.uri, storage_options=self.options, session=Session())


def _read_threads(places: Places) -> float:
    return _total(places.opened().to_table())


def _read_stream(places: Places) -> float:
    return sum(_total(batch) for batch in places.opened().to_batches())


def _total(rows: Any) -> float:
    return float(np.sum([chunk.to_numpy().sum() for chunk in pa.chunked_array(rows["v"]).chunks]))


def _read_dask(places: Places) -> float:
    frame = lancecy.scan(places.uri, storage_options=places.options, blocksize="8MiB")
    return float(frame["v"].sum().compute(**places.dask))


def _read_spark(places: Places) -> float:
    frame = lancecy.spark.read(
        places.spark, places.uri, storage_options=places.options, embed_credentials=True, blocksize=8 << 20
    )
    return float(frame.agg({"v": "sum"}).collect()[0][0])


def _write_threads(places: Places) -> float:
    lancecy.write_dataset(places.rows, places.new_uri(), **places.given)
    return 0.0


def _write_dask(places: Places) -> float:
    given = {"compute_kwargs": places.dask, **places.given}
    lancecy.write_dask(places.frame, places.new_uri(), index=False, **given)
    return 0.0


def _write_spark(places: Places) -> float:
    frame = places.spark.range(0, places.rows.num_rows, 1, FILES).selectExpr("rand(7) AS v")
    lancecy.spark.write(frame, places.new_uri(), embed_credentials=True, **places.given)
    return 0.0


WORKS: dict[str, tuple[str, Callable[[Places], float]]] = {
    "read-threads": ("read into one table, threads", _read_threads),
    "read-stream": ("read batch by batch, threads", _read_stream),
    "read-dask": ("sum of the column, Dask", _read_dask),
    "read-spark": ("sum of the column, Spark", _read_spark),
    "write-threads": ("write, threads", _write_threads),
    "write-dask": ("write, Dask", _write_dask),
    "write-spark": ("write, Spark", _write_spark),
}


def measured(name: str, several: Sequence[Places], repeat: int) -> list[float]:
    """Median seconds of one work at each of the places, in turns."""
    work = WORKS[name][1]
    times: list[list[float]] = [[] for _ in several]
    answers = set[float]()
    for turn in range(repeat + 1):
        for places, mine in zip(several, times, strict=True):
            begin = time.perf_counter()
            answers.add(round(work(places), 3))
            if turn:
                mine.append(time.perf_counter() - begin)
    if len(answers) != 1:
        raise RuntimeError(f"the tables differ in {name}: {answers}")
    return [statistics.median(mine) for mine in times]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=float, default=64)
    parser.add_argument("--rate", type=float, default=4, help="megabytes per second of one server")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--works", default=",".join(WORKS))
    parser.add_argument(
        "--tasks",
        type=int,
        default=12,
        help="of Dask and Spark at once: a task of a write waits for the bucket that its file goes to",
    )
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    works = options.works.split(",")
    values = np.random.default_rng(7).random(int(options.megabytes * 1e6 / 8))
    rows = pa.table({"v": values})
    print(machine(), f"{options.megabytes:g} MB in {FILES} files, {options.rate:g} MB/s a server", sep="\n")
    with ExitStack() as running:
        urls = [running.enter_context(capped_server(options.rate)) for _ in range(3)]
        spark = spark_session(options.tasks, {}) if any("spark" in name for name in works) else None
        dask = {"scheduler": "threads", "num_workers": options.tasks}
        several = [Places(urls[:number], rows, spark, dask) for number in (1, 3)]
        if any(name.startswith("read") for name in works):
            for places in several:
                places.uri = places.new_uri()
                lancecy.write_dataset(rows, places.uri, **places.given)
        show(["work", "one, s", "three, s", "times"], options.markdown)
        if options.markdown:
            show(["---", "---:", "---:", "---:"], True)
        for name in works:
            one, three = measured(name, several, options.repeat)
            label = WORKS[name][0] if options.markdown else name
            show([label, f"{one:.2f}", f"{three:.2f}", f"{one / three:.2f}"], options.markdown)


if __name__ == "__main__":
    main()
