"""What executors run: numbers of tasks in, batches that Spark takes out.

How a table is divided depends on what a task costs besides reading. A Python worker needs
tens of milliseconds for any task, so there is one per core unless tasks grow too large, and
all of them have about the same number of rows.
"""

from __future__ import annotations

import gc
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancecy.limits import Limits
from lancecy.parallel import tasks
from lancecy.scanners import Scanner
from lancecy.scanning.context import ScanContext
from lancecy.scanning.execute import DEFAULT_BATCH_BYTES
from lancecy.scanning.plan import ScanPlan
from lancecy.scanning.task import ScanSpec, ScanTask, ScanUnit
from lancecy.session import Session
from lancecy.spark.convert import Converter
from lancecy.spark.workers import carried

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["TaskReader", "batch_limits", "divide", "numbers", "pack"]

_MIN_TASK_BYTES = 8 << 20
_MAX_TASK_BYTES = 128 << 20
_BATCH_ROWS = 1 << 18


def batch_limits(batch_size: int | None) -> dict[str, Any]:
    """What a scanner is told about batches: Spark pays for each of them in two languages, so they are large.

    Parameters
    ----------
    batch_size : int or None, rows
        That the user asked for.
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
        That are to be kept busy.
    blocksize : int or None, bytes
        Size of a part to aim for.
    embed_credentials : bool
        As for :meth:`lancecy.Scanner.plan`.

    Returns
    -------
    (plan, parts)
        Every part as :func:`pack` makes it.
    """
    if blocksize is not None:
        plan = scanner.plan(blocksize, interleave=True, embed_credentials=embed_credentials)
        return plan, [pack(task.units) for task in plan.tasks]
    total = sum(task.num_bytes for task in scanner.plan().tasks)
    count = _how_many(total, max(1, cores))
    # Pieces of half a part: fragments that do not go into parts evenly are cut.
    plan = scanner.plan(max(1, total // (2 * count)), embed_credentials=embed_credentials)
    units = [plan.units[i] for i in context.interleaved([unit.fragment for unit in plan.units])]
    return plan, [pack(part) for part in _shared(units, count)]


def _how_many(total: int, cores: int) -> int:
    """One part per core, or a multiple where they would be large, fewer where they would be tiny."""
    rounds = max(1, math.ceil(total / (_MAX_TASK_BYTES * cores)))
    return max(1, min(rounds * cores, math.ceil(total / _MIN_TASK_BYTES)))


def _shared(units: Sequence[ScanUnit], count: int) -> list[list[ScanUnit]]:
    """Consecutive units in at most so many parts of about equally many rows."""
    total, before = sum(unit.rows for unit in units), 0
    parts: list[list[ScanUnit]] = [[] for _ in range(count)]
    for unit in units:
        middle = before + unit.rows / 2
        parts[min(count - 1, int(middle * count / total))].append(unit)
        before += unit.rows
    return [part for part in parts if part]


def pack(units: Sequence[ScanUnit]) -> tuple[int, ...]:
    """Five numbers per unit: small in every task, and nothing but data."""
    return tuple(n for u in units for n in (u.fragment, u.start, u.stop, u.rows, u.position))


def numbers(spark: SparkSession, count: int) -> DataFrame:
    """The numbers below ``count``, one row in each partition: no shuffle, and nothing but a number is sent."""
    return spark.range(0, count, 1, count)


def _unpacked(numbers: Sequence[int]) -> tuple[ScanUnit, ...]:
    return tuple(ScanUnit(*numbers[i : i + 5]) for i in range(0, len(numbers), 5))


@cache
def spare_collector() -> None:
    """Keep what is loaded by now out of later garbage collections, in Python workers that Spark uses again.

    Spark collects all garbage after every task, and going through the modules loaded (pandas is among them) takes
    as long as reading some ten megabytes. Only in workers, and once: what turns to garbage later is collected, and
    counting what is frozen by now would go through all of it again.
    """
    main = sys.modules["__main__"].__spec__
    if main is not None and main.name == "pyspark.daemon":
        gc.freeze()


@dataclass(frozen=True, slots=True)
class TaskReader:
    """Reads parts of a table on an executor.

    Attributes
    ----------
    spec : ScanSpec
    parts : tuple of tuple of int
        As :func:`pack` makes them.
    converter : Converter
    limits : Limits
        Caps on what files may claim.
    """

    spec: ScanSpec
    parts: tuple[tuple[int, ...], ...]
    converter: Converter
    limits: Limits

    def __reduce__(self) -> tuple[Any, ...]:
        return carried(__name__, "TaskReader", self.spec, self.parts, self.converter, self.limits)

    def narrowed(self, names: Sequence[str], batch_size: int, batch_bytes: int) -> TaskReader:
        """The same for these of the columns only.

        Parameters
        ----------
        names : sequence of str
        batch_size : int, rows
        batch_bytes : int, bytes
            Most that a batch may have of each.
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
        spare_collector()

    def read(self, part: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """Batches of one part."""
        units = _unpacked(part)
        task = ScanTask(self.spec, units, sum(u.rows for u in units), 0)
        for found in tasks.batches(task, _session(self.limits, _processors())):
            yield self.converter.batch(found)


def _processors() -> int:
    """How many Spark has given to this task: with a thread per processor of the machine, tasks would crowd it."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return max(1, context.cpus()) if context is not None else 1


@cache
def _session(limits: Limits, threads: int) -> Session:
    return Session(limits, threads=threads)
