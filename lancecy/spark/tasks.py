"""Tasks of a scan on executors: they receive numbers and return batches in Spark's types.

A Python worker takes tens of milliseconds for any task, besides reading. So there is one task
per core unless tasks become too large, and all of them have about the same number of rows.
"""

from __future__ import annotations

import gc
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancecy.api.scanners import Scanner
from lancecy.limits import Limits
from lancecy.records import dataclass
from lancecy.scanning import run_task as tasks
from lancecy.scanning.batches import DEFAULT_BATCH_BYTES
from lancecy.scanning.context import ScanContext
from lancecy.scanning.plan import ScanPlan
from lancecy.scanning.task import ScanSpec, ScanTask, ScanUnit
from lancecy.session import Session
from lancecy.spark.convert import Converter
from lancecy.spark.workers import Carried, check

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lancecy.changes.shared_tasks import SharedTasks

__all__ = [
    "TaskReader",
    "batch_limits",
    "divide",
    "numbers",
    "pack",
    "results",
    "session_for_task",
    "spare_collector",
]

_MIN_TASK_BYTES = 8 << 20
_MAX_TASK_BYTES = 128 << 20
_BATCH_ROWS = 1 << 18


def batch_limits(batch_size: int | None) -> dict[str, Any]:
    """Options of a scanner for batches: large ones, since each costs time in Python and in the JVM.

    Parameters
    ----------
    batch_size : int or None, rows
        Requested by the user.
    """
    if batch_size is not None:
        return {"batch_size": batch_size}
    return {"batch_size": _BATCH_ROWS, "batch_size_bytes": DEFAULT_BATCH_BYTES}


def divide(
    scanner: Scanner, context: ScanContext, cores: int, blocksize: int | None, embed_credentials: bool = False
) -> tuple[ScanPlan, list[tuple[int, ...]]]:
    """Plan a scan and divide it into the parts that tasks read.

    Parameters
    ----------
    scanner : Scanner
    context : ScanContext
        Of the scanner's dataset.
    cores : int
        Number of cores to keep busy.
    blocksize : int or None, bytes
        Target size of a part.
    embed_credentials : bool
        As for :meth:`lancecy.Scanner.plan`.

    Returns
    -------
    (plan, parts)
        Parts are made by :func:`pack`.
    """
    if blocksize is not None:
        plan = scanner.plan(blocksize, interleave=True, embed_credentials=embed_credentials)
        return plan, [pack(task.units) for task in plan.tasks]
    total = scanner.plan().num_bytes
    count = _how_many(total, max(1, cores))
    # Units of half a part, so that fragments can be divided evenly over parts.
    plan = scanner.plan(max(1, total // (2 * count)), embed_credentials=embed_credentials)
    units = [plan.units[i] for i in context.interleaved([unit.fragment for unit in plan.units])]
    return plan, [pack(part) for part in _shared(units, count)]


def _how_many(total: int, cores: int) -> int:
    """One part per core; a multiple of that if parts would be large, fewer if they would be tiny."""
    rounds = max(1, math.ceil(total / (_MAX_TASK_BYTES * cores)))
    return max(1, min(rounds * cores, math.ceil(total / _MIN_TASK_BYTES)))


def _shared(units: Sequence[ScanUnit], count: int) -> list[list[ScanUnit]]:
    """Group consecutive units into at most ``count`` parts with about equally many rows."""
    total, before = sum(unit.rows for unit in units), 0
    parts: list[list[ScanUnit]] = [[] for _ in range(count)]
    for unit in units:
        middle = before + unit.rows / 2
        parts[min(count - 1, int(middle * count / total))].append(unit)
        before += unit.rows
    return [part for part in parts if part]


def pack(units: Sequence[ScanUnit]) -> tuple[int, ...]:
    """Five numbers per unit: small and plain data."""
    return tuple(n for u in units for n in (u.fragment, u.start, u.stop, u.rows, u.position))


def numbers(spark: SparkSession, count: int) -> DataFrame:
    """The numbers below ``count``, one row in each partition, without a shuffle."""
    return spark.range(0, count, 1, count)


def results(
    spark: SparkSession, tasks: SharedTasks, wanted: Sequence[int], *, check_workers: bool = False
) -> list[str]:
    """Results of tasks of a change, which executors run (``shared_tasks.Engine``, after the first argument).

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
    tasks : SharedTasks
    wanted : sequence of int
        Numbers of tasks.
    check_workers : bool
        Check first that executors have lancecy.

    Raises
    ------
    ImportError
        As for :func:`lancecy.spark.workers.check`.
    """
    if check_workers:
        check(spark)
    runner = TaskRunner(tasks, tuple(wanted))
    frame = numbers(spark, len(wanted)).mapInArrow(runner, "result string")
    return [row["result"] for row in frame.collect()]


@dataclass(frozen=True, slots=True)
class TaskRunner(Carried):
    """Runs tasks of a change on an executor.

    Attributes
    ----------
    tasks : SharedTasks
    wanted : tuple of int
        Numbers of the tasks to run.
    """

    tasks: SharedTasks
    wanted: tuple[int, ...]

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Results of the wanted tasks whose positions are in the first column."""
        session = session_for_task(self.tasks.spec.location.limits)
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                result = self.tasks.run(self.wanted[number], session)
                yield pa.RecordBatch.from_pydict({"result": [result]})
        spare_collector()


def _unpacked(numbers: Sequence[int]) -> tuple[ScanUnit, ...]:
    return tuple(ScanUnit(*numbers[i : i + 5]) for i in range(0, len(numbers), 5))


@cache
def spare_collector() -> None:
    """Exclude what is loaded from later garbage collections, in Python workers that Spark reuses.

    Spark runs a garbage collection after every task, and traversing the loaded modules (including pandas) takes
    as long as reading some ten megabytes. Done only in workers and only once: later garbage is still collected, and
    counting what is frozen would traverse everything again.
    """
    main = sys.modules["__main__"].__spec__
    if main is not None and main.name == "pyspark.daemon":
        gc.freeze()


@dataclass(frozen=True, slots=True)
class TaskReader(Carried):
    """Reads parts of a table on an executor.

    Attributes
    ----------
    spec : ScanSpec
    parts : tuple of tuple of int
        Made by :func:`pack`.
    converter : Converter
    """

    spec: ScanSpec
    parts: tuple[tuple[int, ...], ...]
    converter: Converter

    def narrowed(self, names: Sequence[str], batch_size: int, batch_bytes: int) -> TaskReader:
        """A reader of these columns only.

        Parameters
        ----------
        names : sequence of str
        batch_size : int, rows
        batch_bytes : int, bytes
            Limits of a batch.
        """
        request = self.spec.request.narrowed(names)
        request = replace(request, batch_size=batch_size, batch_bytes=batch_bytes)
        return replace(
            self, spec=replace(self.spec, request=request), converter=self.converter.narrowed(names)
        )

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches of the parts whose numbers are in the first column."""
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from self.read(self.parts[number])

    def read(self, part: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """Batches of one part."""
        units = _unpacked(part)
        task = ScanTask(self.spec, units, sum(u.rows for u in units), 0)
        for found in tasks.batches(task, session_for_task(self.spec.location.limits)):
            yield self.converter.batch(found)
        spare_collector()


def session_for_task(limits: Limits) -> Session:
    """The session of tasks in this worker.

    Parameters
    ----------
    limits : Limits
    """
    return _session(limits, _processors())


def _processors() -> int:
    """Processors that Spark gave to this task; one thread per processor of the machine would be too many."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return max(1, context.cpus()) if context is not None else 1


@cache
def _session(limits: Limits, threads: int) -> Session:
    return Session(limits, threads=threads)
