"""Compares lancecy and pylance on an object store: the same work through one proxy, which counts and delays requests.

usage: python bench/compare_remote.py [--rows 1000000] [--fragments 10] [--many 10000] [--long 4] [--delay 0,20] [--works scan,take] [--warm]
       [--markdown]

An S3 server runs on the loopback interface, with everything in memory. Both libraries reach it through one proxy, which
counts requests and bytes, and with ``--delay 20`` lets every request arrive 20 ms later. Each turn has a table that is
freshly opened before the clock starts, with empty caches; with ``--warm`` all turns share one. Engines take turns;
the first turn warms up the process and is not counted; medians of the others are printed. ``x pylance`` is pylance's time divided
by lancecy's, ``keeps`` the share of lancecy's speed at the first delay that is left at this one. It says how busy the link is
kept for the works whose name begins with ``long``: their requests take longer than the two round trips that any scan waits for.
Results are compared: a row whose results differ is marked.
"""

from __future__ import annotations

import argparse
import gc
import shutil
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from benchmarks.tables import fingerprint, scalars
from compare import machine

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.helpers.counting_proxy import CountingProxy, Traffic, start_proxy
from tests.helpers.s3 import SECRET, start_s3

ENGINES = ("lancecy", "pylance")
BUCKET = "bench"
NARROW = ["id", "x", "s"]
SOME = 100
TAKEN = 1000
SMALL = 100


@dataclass(frozen=True)
class Engine:
    """One of the two libraries, and where it finds the tables.

    Attributes
    ----------
    name : str
    options : dict
        Storage options, under the names that both know.
    """

    name: str
    options: dict[str, str]

    def open(self, table: str) -> Any:
        """A table of the bucket, with empty caches; threads and connections of earlier turns stay, in both libraries."""
        if self.name == "lancecy":
            import lancecy

            session = _session()
            session.cache.clear()
            return lancecy.dataset(uri(table), storage_options=self.options, session=session)
        import lance

        return lance.dataset(uri(table), storage_options=self.options)

    def write(self, rows: pa.Table, table: str, version: Any, mode: Any = "create") -> Any:
        """Write or append rows; the dataset that is returned knows the table."""
        if self.name == "lancecy":
            import lancecy

            return lancecy.write_dataset(
                rows, uri(table), mode=mode, data_storage_version=version, storage_options=self.options
            )
        import lance

        return lance.write_dataset(
            rows, uri(table), mode=mode, data_storage_version=version, storage_options=self.options
        )


@cache
def _session() -> Any:
    import lancecy

    return lancecy.Session()


def uri(table: str) -> str:
    return f"s3://{BUCKET}/{table}"


@dataclass(frozen=True)
class Work:
    """One measured work.

    Attributes
    ----------
    table : str
        The table that is opened before: ``rows``, ``long``, ``small`` or ``many``; "" for none.
    run : function of engine, open table and rows to write
        Its result is compared.
    """

    table: str
    run: Callable[[Engine, Any, pa.Table], Any]


def _scan(columns: list[str] | None = None, where: str | None = None, of: str = "rows") -> Work:
    return Work(of, lambda _, table, __: fingerprint(table.to_table(columns=columns, filter=where)))


def works(rows: int, many: int, version: str) -> dict[str, Work]:
    """All works by name."""
    random = np.random.default_rng(3)
    some = sorted(random.choice(rows, min(TAKEN, rows), replace=False).tolist())
    few = sorted(random.choice(many, min(SOME, many), replace=False).tolist())

    def write(engine: Engine, _: Any, data: pa.Table) -> int:
        return int(engine.write(data, f"made-{uuid.uuid4().hex}", version).count_rows())

    def append(engine: Engine, table: Any, data: pa.Table) -> int:
        return int(engine.write(data.slice(0, SOME), table, version, "append").version)

    return {
        "open": Work("", lambda engine, _, __: engine.open("rows").version),
        "count": Work("rows", lambda _, table, __: table.count_rows()),
        "scan all": _scan(),
        "scan 3 columns": _scan(NARROW),
        "scan one column": _scan(["x"]),
        "filter 1 %": _scan(NARROW, "k < 10"),
        "count of a filter": Work("rows", lambda _, table, __: table.count_rows(filter="k < 10")),
        f"take {TAKEN}": Work("rows", lambda _, table, __: fingerprint(table.take(some, columns=NARROW))),
        "long: scan all": _scan(of="long"),
        "long: one column": _scan(["x"], of="long"),
        "small files: all": _scan(of="small"),
        "small files: 1 %": _scan(NARROW, "k < 10", of="small"),
        "write": Work("", write),
        f"append {SOME}": Work("append", append),
        "many: open, count": Work("", lambda engine, _, __: engine.open("many").count_rows()),
        f"many: take {SOME}": Work("many", lambda _, table, __: fingerprint(table.take(few, columns=["id"]))),
        f"many: first {SOME}": Work(
            "many", lambda _, table, __: fingerprint(table.to_table(limit=SOME, columns=["id"]))
        ),
        f"many: append {SOME}": Work("append many", append),
    }


class Bench:
    """The engines, the proxy, and what is measured.

    Parameters
    ----------
    proxy : CountingProxy
    version : str
        Of the data files.
    """

    def __init__(self, proxy: CountingProxy, rows: pa.Table, warm: bool) -> None:
        options = {
            "aws_access_key_id": "test",
            "aws_secret_access_key": SECRET,
            "aws_region": "us-east-1",
            "aws_endpoint": proxy.endpoint,
            "allow_http": "true",
        }
        self.proxy, self.rows, self.warm = proxy, rows, warm
        self.engines = [Engine(name, options) for name in ENGINES]

    def measure(self, work: Work, repeat: int, delay: float) -> dict[str, tuple[float, Traffic]]:
        """Median seconds and traffic of the last turn, by engine; ``differ`` is a key if results differ."""
        seconds: dict[str, list[float]] = {name: [] for name in ENGINES}
        results: dict[str, Any] = {}
        traffic: dict[str, Traffic] = {}
        handles: dict[str, Any] = {}
        for turn in range(repeat + 1):
            for engine in self.engines:
                if turn == 0 or not self.warm:
                    handles[engine.name] = self._handle(engine, work)
                gc.collect()
                self.proxy.delay(delay)
                self.proxy.traffic()
                started = time.perf_counter()
                results[engine.name] = work.run(engine, handles[engine.name], self.rows)
                seconds[engine.name].append(time.perf_counter() - started)
                traffic[engine.name] = self.proxy.traffic()
                self.proxy.delay(0)
        found = {name: (statistics.median(taken[1:]), traffic[name]) for name, taken in seconds.items()}
        if results["lancecy"] != results["pylance"]:
            found["differ"] = (0.0, Traffic())
        return found

    def _handle(self, engine: Engine, work: Work) -> Any:
        """The open table of a work; those that are appended to are each engine's own."""
        if work.table.startswith("append"):
            return f"{engine.name}-{work.table.replace(' ', '-')}"
        return engine.open(work.table) if work.table else None


def write_tables(
    rows: pa.Table, fragments: int, many: int, version: Any, folder: Path, long: int = 1
) -> None:
    """The tables on a local disk, by pylance.

    ``rows``, ``long`` with so many times its fragments, ``small`` of 100 fragments, ``many``, and for each engine two to append to.
    """
    import lance

    size = -(-rows.num_rows // fragments)
    lance.write_dataset(rows, str(folder / "rows"), max_rows_per_file=size, data_storage_version=version)
    longer = pa.concat_tables([rows] * long)
    lance.write_dataset(longer, str(folder / "long"), max_rows_per_file=size, data_storage_version=version)
    few = rows.slice(0, SMALL * 1000)
    step = -(-few.num_rows // SMALL)
    lance.write_dataset(few, str(folder / "small"), max_rows_per_file=step, data_storage_version=version)
    tiny = rows.slice(0, many)
    lance.write_dataset(tiny, str(folder / "many"), max_rows_per_file=1, data_storage_version=version)
    for engine in ENGINES:
        start = str(folder / f"{engine}-append")
        lance.write_dataset(rows.slice(0, SOME), start, data_storage_version=version)
        shutil.copytree(folder / "many" / "_versions", folder / f"{engine}-append-many" / "_versions")


def upload(folder: Path, endpoint: str) -> None:
    """Put all files into the bucket."""
    import botocore.session
    from botocore.config import Config

    client = botocore.session.get_session().create_client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key=SECRET,
        config=Config(max_pool_connections=8),
    )

    def put(path: Path) -> None:
        key = path.relative_to(folder).as_posix()
        client.put_object(Bucket=BUCKET, Key=key, Body=path.read_bytes())

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(put, [path for path in folder.rglob("*") if path.is_file()]))


def show(cells: list[str], markdown: bool) -> None:
    if markdown:
        print("| " + " | ".join(cells) + " |", flush=True)
    else:
        print(f"{cells[0]:>8}  {cells[1]:<20}" + "".join(f"{cell:>12}" for cell in cells[2:]), flush=True)


def row(delay: str, name: str, found: dict[str, tuple[float, Traffic]], first: float) -> list[str]:
    """Cells of one row of the report; ``first`` are lancecy's seconds at the first delay."""
    (ours, here), (theirs, there) = found["lancecy"], found["pylance"]
    ratio = f"{theirs / ours:.2f}" + (" differ!" if "differ" in found else "")
    counts = [
        str(here.requests),
        str(there.requests),
        f"{here.nbytes / 1e6:.2f}",
        f"{there.nbytes / 1e6:.2f}",
    ]
    return [delay, name, f"{ours * 1e3:.1f}", f"{theirs * 1e3:.1f}", ratio, f"{first / ours:.0%}", *counts]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the seven-column table")
    parser.add_argument("--fragments", type=int, default=10, help="its fragments")
    parser.add_argument("--many", type=int, default=10_000, help="fragments of a table of one row in each")
    parser.add_argument("--long", type=int, default=4, help="how many times as long the long table is")
    parser.add_argument("--delay", default="0,20", help="milliseconds added to each request, comma-separated")
    parser.add_argument("--repeat", type=int, default=5, help="number of counted turns")
    parser.add_argument("--version", default="2.1", help="version of the data files: legacy, 2.0, 2.1, 2.2")
    parser.add_argument("--works", help="names, or their beginnings, separated by commas; all by default")
    parser.add_argument("--warm", action="store_true", help="keep tables open, with their caches")
    parser.add_argument(
        "--requests",
        action="store_true",
        help="print the requests of each work, and how many connections they opened",
    )
    parser.add_argument("--markdown", action="store_true")
    chosen = parser.parse_args()
    todo = works(chosen.rows, chosen.many, chosen.version)
    if chosen.works:
        todo = {name: work for name, work in todo.items() if name.startswith(tuple(chosen.works.split(",")))}
    rows = scalars(chosen.rows)
    print(
        f"{chosen.rows:,} x 7 rows in {chosen.fragments} fragments; many: {chosen.many:,} fragments of one row; files of version "
        f"{chosen.version}; medians of {chosen.repeat} turns in ms, MB; {machine()}\n"
    )
    heading = ["delay ms", "work", *ENGINES, "x pylance", "keeps", "requests", "pylance's", "MB", "pylance's"]
    with ExitStack() as stack:
        server = stack.enter_context(start_s3())
        server.make_bucket(BUCKET)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        write_tables(rows, chosen.fragments, chosen.many, chosen.version, folder, chosen.long)
        upload(folder, server.endpoint)
        bench = Bench(stack.enter_context(start_proxy(server.endpoint)), rows, chosen.warm)
        show(heading, chosen.markdown)
        if chosen.markdown:
            show(["---:", "---", *["---:"] * (len(heading) - 2)], True)
        first: dict[str, float] = {}
        for delay in chosen.delay.split(","):
            for name, work in todo.items():
                found = bench.measure(work, chosen.repeat, float(delay) / 1e3)
                seconds = first.setdefault(name, found["lancecy"][0])
                show(row(delay, name, found, seconds), chosen.markdown)
                if chosen.requests:
                    for engine in ENGINES:
                        passed = found[engine][1]
                        print(
                            "", f"{engine}: {passed.connections} new connections", *passed.lines, sep="\n    "
                        )


if __name__ == "__main__":
    main()
