"""Random queries of a table in Spark have the answers that Spark gives on the same rows handed over by the driver.

``make hunt-spark`` asks many more: LANCECY_SPARK_QUERIES of them, from LANCECY_SPARK_SEED on.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lancecy
from tests.helpers.random_tables import NUMBERS, ORDERED, RandomTable
from tests.spark.values import plain_values

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

pytestmark = pytest.mark.spark

QUERIES = int(os.environ.get("LANCECY_SPARK_QUERIES", "4"))
SEED = int(os.environ.get("LANCECY_SPARK_SEED", "1"))

Step = Callable[["DataFrame"], "DataFrame"]


class Case(RandomTable):
    """One table, one way of reading it and one query.

    Attributes
    ----------
    source : "read", "format", "filter" or "frame"
    bound : int
        With "filter" only rows of a smaller ``id`` are read.
    text : list of str
        What the query does.
    """

    def __init__(self, seed: int, index: int) -> None:
        # Spark has the time of day only where a setting allows it.
        super().__init__(seed, index, without=("time",))
        self.source = self.pick("read", "read", "format", "filter", "frame")
        self.bound = int(self.dice.integers(0, 120))
        self.text: list[str] = [self.source]
        self.steps: list[Step] = []
        for _ in range(self.dice.integers(0, 3)):
            self._add(self.pick(_filtered, _filtered, _assigned, _united, _chosen))
        self._add(self.pick(*_ENDS))

    def _add(self, make: Callable[[Case], tuple[str, Step]]) -> None:
        text, step = make(self)
        self.text.append(text)
        self.steps.append(step)

    def frame(self, spark: SparkSession, place: str) -> DataFrame:
        """The rows as lancecy brings them."""
        if self.source == "format":
            return spark.read.format("lancecy").load(place)
        if self.source == "frame":
            return lancecy.spark.dataframe(spark, lancecy.dataset(place))
        chosen = f"id < {self.bound}" if self.source == "filter" else None
        return lancecy.spark.read(spark, place, filter=chosen, blocksize=self.pick(None, 300))

    def expected(self, spark: SparkSession, found: DataFrame) -> DataFrame:
        """The same rows, handed over by the driver as Python values under the same schema."""
        rows = self.live().to_pylist()
        if self.source == "filter":
            rows = [row for row in rows if row["id"] < self.bound]
        names = found.columns
        values = [tuple(_for_spark(n, row[n]) for n in names) for row in rows]
        return spark.createDataFrame(values, found.schema)

    def answer(self, frame: DataFrame) -> DataFrame:
        """The query's answer, still to be computed."""
        for step in self.steps:
            frame = step(frame)
        return frame

    def __str__(self) -> str:
        return f"({self.seed}, {self.index}): {' | '.join(self.text)}"


def _for_spark(name: str, value: Any) -> Any:
    """A value in Python's type for it in Spark, which has unsigned 64-bit integers as decimals."""
    return Decimal(value) if name == "u64" and value is not None else value


def _literal(case: Case, name: str) -> Column:
    from pyspark.sql import functions as f

    return f.lit(_for_spark(name, case.value(name)))


def _filtered(c: Case) -> tuple[str, Step]:
    from pyspark.sql import functions as f

    name, other = c.key(), c.key(ORDERED)
    value, bound = _literal(c, name), _literal(c, other)
    how = int(c.dice.integers(6))
    conditions = (
        f.col(name) == value,
        f.col(name) != value,
        f.col(other) < bound,
        f.col(other) >= bound,
        f.col(name).isNull() | (f.col("id") > 20),
        f.col(name).eqNullSafe(value),
    )
    return f"filter {how} {name} {other}", lambda t: t.where(conditions[how])


def _assigned(c: Case) -> tuple[str, Step]:
    name = c.key(NUMBERS)
    return f"assign {name}", lambda t: t.withColumn("extra", t[name] / 2)


def _united(c: Case) -> tuple[str, Step]:
    return "union", lambda t: t.where("id < 40").union(t.where("id >= 30"))


def _chosen(c: Case) -> tuple[str, Step]:
    return "select", lambda t: t.select(*reversed(t.columns))


def _rows(c: Case) -> tuple[str, Step]:
    return "rows", lambda t: t


def _groups(c: Case) -> tuple[str, Step]:
    from pyspark.sql import functions as f

    by, of, other = c.key(), c.key(NUMBERS), c.key(ORDERED)
    wanted = [
        f.sum(of),
        f.avg(of),
        f.min(other),
        f.max(other),
        f.count(other),
        f.count("*"),
        f.countDistinct(other),
    ]
    return f"groups of {of} and {other} by {by}", lambda t: t.groupBy(by).agg(*wanted)


def _reduced(c: Case) -> tuple[str, Step]:
    from pyspark.sql import functions as f

    of, other = c.key(NUMBERS), c.key(ORDERED)
    wanted = [f.sum(of), f.avg(of), f.min(other), f.max(other), f.count(other), f.count("*")]
    some = [wanted[i] for i in c.dice.permutation(len(wanted))[: c.dice.integers(1, 7)]]
    return f"aggregates {some}", lambda t: t.agg(*some)


def _joined(c: Case) -> tuple[str, Step]:
    name, how = c.key(), c.pick("inner", "left", "right", "outer", "left_semi", "left_anti")

    def step(t: DataFrame) -> DataFrame:
        right = t.where("id < 15").select(name, t.id.alias("other"))
        return t.join(right, name, how)

    return f"join {how} on {name}", step


def _distinct(c: Case) -> tuple[str, Step]:
    names = list(dict.fromkeys([c.key(), c.key()]))
    return f"distinct {names}", lambda t: t.select(*names).distinct()


def _first(c: Case) -> tuple[str, Step]:
    name, count = c.key(ORDERED), int(c.dice.integers(1, 12))
    return f"first {count} by {name}", lambda t: t.orderBy(name, "id").limit(count)


def _counted(c: Case) -> tuple[str, Step]:
    return "count", lambda t: t.groupBy().count()


_ENDS = (_rows, _groups, _groups, _reduced, _reduced, _joined, _joined, _distinct, _first, _counted)


def _collected(frame: DataFrame) -> list[str]:
    return sorted(repr(plain_values(row)) for row in frame.collect())


def _check(case: Case, spark: SparkSession, folder: Path) -> None:
    place = str(folder / f"{case.seed}-{case.index}.lance")
    case.write(place)
    frame = case.frame(spark, place)
    answer = case.answer(frame)
    expected = _collected(case.answer(case.expected(spark, frame)))
    assert _collected(answer) == expected, str(case)
    if case.index % 3 == 0 and len(set(answer.columns)) == len(answer.columns):
        written = lancecy.spark.write(answer, f"{place}-answer", data_storage_version="2.1")
        assert written.count_rows() == len(expected), str(case)
        again = lancecy.spark.read(spark, f"{place}-answer")
        assert _collected(again) == expected, f"{case}, written"


def test_random_queries_have_the_answers_of_spark_alone(spark: SparkSession, tmp_path: Path) -> None:
    failed = []
    for index in range(QUERIES):
        case = Case(SEED, index)
        try:
            _check(case, spark, tmp_path)
        except Exception as error:  # any: what is looked for is not known
            failed.append(f"{case}: {type(error).__name__}: {error}"[:2000])
            print(failed[-1], flush=True)
    print(f"seed {SEED}: {QUERIES - len(failed)} the same, {len(failed)} differ", flush=True)
    assert not failed, "\n\n".join(failed)
