"""A DataFrame of one scan, whose ungrouped aggregates are computed by the executors.

``mapInArrow`` hides from Spark what it reads, so ``df.count()`` would read every column and ``df.agg(sum)``
pass every row to the JVM. The class here lets Spark analyse the aggregate first, so that names, types and errors
are Spark's, and inspects the analysed expressions. If it knows all of them and the schema is the same, it plans the
same aggregate over partial results of the executors (``aggregates``). That plan runs when the aggregate's row is
requested; everything planned on top of it, and all other methods, are Spark's own.

Spark groups, caches and writes times of day only where a setting allows it. Its own error names neither the column nor
the setting; the error here does.

This is the one module that uses Spark's expressions in the JVM, which are not a stable interface: whatever
cannot be inspected or is not understood is left to Spark.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Self

import pyarrow as pa
import pyspark
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, GroupedData, Row, SparkSession
from pyspark.sql import DataFrame as ParentDataFrame
from pyspark.sql import functions as f
from pyspark.sql.classic.dataframe import DataFrame
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from lancecy.errors import UnsupportedError
from lancecy.records import dataclass
from lancecy.scanning.batches import DEFAULT_BATCH_BYTES
from lancecy.spark.aggregates import Aggregate, AggregateReader, Function
from lancecy.spark.tasks import TaskReader, numbers
from lancecy.spark.types import spark_struct

__all__ = ["LanceAggregate", "LanceDataFrame", "Scan", "TimedGroups", "naming_times", "time_columns"]


_CONDITION = "UNSUPPORTED_TIME_TYPE"


# -- times of day -----------------------------------------------------------------------------


def time_columns(struct: StructType) -> list[str]:
    """Paths of the times of day in a schema, such as ``t``, ``s.t`` and ``l[]``.

    Parameters
    ----------
    struct : pyspark.sql.types.StructType
    """
    return [path for field in struct.fields for path in _paths(field.name, field.dataType)]


def _paths(path: str, held: DataType) -> list[str]:
    if isinstance(held, StructType):
        return [f"{path}.{inner}" for inner in time_columns(held)]
    if isinstance(held, ArrayType):
        return _paths(f"{path}[]", held.elementType)
    if isinstance(held, MapType):
        return [*_paths(f"{path}.key", held.keyType), *_paths(f"{path}.value", held.valueType)]
    return [path] if held.typeName() == "time" else []


@contextlib.contextmanager
def naming_times(frame: ParentDataFrame) -> Iterator[None]:
    """Replace Spark's refusal of times by an error with their columns and the remedy.

    Raises
    ------
    UnsupportedError
    """
    try:
        yield
    except AnalysisException as error:
        names = time_columns(frame.schema) if error.getCondition() == _CONDITION else []
        if not names:
            raise
        shown = ", ".join(map(repr, names))
        top = names[0].split(".")[0].removesuffix("[]")
        raise UnsupportedError(
            f"Spark does not group, aggregate or cache a frame with times of day ({shown}) unless a setting allows it: "
            'spark.conf.set("spark.sql.timeType.enabled", "true"); or leave the column out, or read it with a cast, '
            f"for example columns={{'{top}': 'CAST({names[0]} AS string)'}}",
            feature="Spark: time",
        ) from error


def _timed(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method of Spark's groups, under :func:`naming_times`."""

    @functools.wraps(method)
    def call(groups: TimedGroups, *args: Any, **kwargs: Any) -> Any:
        with naming_times(groups._df):
            return method(groups, *args, **kwargs)

    return call


class TimedGroups(GroupedData):
    """Spark's groups of a frame, with errors that name its times of day.

    Parameters
    ----------
    groups : pyspark.sql.GroupedData
    """

    agg = _timed(GroupedData.agg)
    count = _timed(GroupedData.count)
    avg = _timed(GroupedData.avg)
    mean = avg
    max = _timed(GroupedData.max)
    min = _timed(GroupedData.min)
    sum = _timed(GroupedData.sum)

    def __init__(self, groups: GroupedData) -> None:
        super().__init__(groups._jgd, groups._df)

    def pivot(self, pivot_col: str, values: list[Any] | None = None) -> GroupedData:
        with naming_times(self._df):
            return TimedGroups(super().pivot(pivot_col, values))


# -- aggregates -------------------------------------------------------------------------------


_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions."
_AGGREGATES = _EXPRESSIONS + "aggregate."
_FUNCTIONS: Mapping[str, Function] = {
    _AGGREGATES + "Sum": "sum",
    _AGGREGATES + "Average": "avg",
    _AGGREGATES + "Min": "min",
    _AGGREGATES + "Max": "max",
    _AGGREGATES + "Count": "count",
}
# Each aggregate costs some calls into the JVM, whatever the table's size.
_MOST_AGGREGATES = 128
# The first release whose SQL can name Spark's own functions when a session redefines them.
_FULL_NAMES = (4, 2)
_NOT_UNDERSTOOD = (Py4JError, PySparkException, AttributeError, LookupError, TypeError, ValueError)

# Partial results are small for any table; batches that fit the processor's caches are read fastest.
_BATCH_ROWS = 1 << 16


@dataclass(frozen=True, eq=False)
class Scan:
    """What aggregates need of the scan behind a frame.

    Attributes
    ----------
    reader : TaskReader
        Reads the frame's columns, in their order.
    num_rows : int or None
        None if there is a filter.
    """

    reader: TaskReader = field(repr=False)
    num_rows: int | None

    @property
    def names(self) -> list[str]:
        """The frame's columns."""
        names: list[str] = self.reader.converter.schema.names
        return names

    def known(self, aggregate: Aggregate) -> Aggregate | None:
        """The aggregate in its cheapest form; None if executors cannot compute it."""
        if aggregate.column is None:
            return aggregate
        held = self.reader.converter.target.field(aggregate.column)
        if aggregate.function == "count" and not held.nullable:
            return Aggregate("count")
        return aggregate if aggregate.is_supported(held.type) else None

    def aggregated(
        self, spark: SparkSession, aggregates: Sequence[Aggregate], fields: Sequence[StructField]
    ) -> ParentDataFrame:
        """A frame of one row with the aggregates.

        Parameters
        ----------
        spark : pyspark.sql.SparkSession
        aggregates : sequence of Aggregate
        fields : sequence of pyspark.sql.types.StructField
            Names and metadata of its columns.
        """
        if self.num_rows is not None and all(a == Aggregate("count") for a in aggregates):
            frame = spark.range(1)
            values = [f"{self.num_rows}L"] * len(aggregates)
        else:
            frame = self.partials(spark, aggregates)
            values = [a.merged(f"p{i}") for i, a in enumerate(aggregates)]
        named = zip(values, fields, strict=True)
        return frame.select(*(f.expr(v).alias(to.name, metadata=to.metadata) for v, to in named))

    def partials(self, spark: SparkSession, aggregates: Sequence[Aggregate]) -> ParentDataFrame:
        """A frame of partial results: one row per partition; the fields of the n-th aggregate begin with ``pn``."""
        reader = self._reader(aggregates)
        return numbers(spark, len(self.reader.parts)).mapInArrow(reader, spark_struct(reader.target))

    def _reader(self, aggregates: Sequence[Aggregate]) -> AggregateReader:
        names = list(dict.fromkeys(a.column for a in aggregates if a.column is not None))
        reader = self.reader.narrowed(names, batch_size=_BATCH_ROWS, batch_bytes=DEFAULT_BATCH_BYTES)
        return AggregateReader(reader, tuple(aggregates))


class LanceDataFrame(DataFrame):
    """A scan as a Spark DataFrame; :func:`lancecy.spark.read` returns it, except with Spark Connect.

    ``agg``, and ``select`` and ``selectExpr`` of aggregates only, send one row per partition to Spark if all of
    them are ``sum``, ``avg``, ``min``, ``max`` or ``count`` of single columns, without DISTINCT or FILTER; ``count``
    reads only the filter's columns, and nothing without a filter. While Spark has cached the frame, Spark computes
    everything from the cache. Where Spark refuses times of day, the error names their columns and the remedy.

    Examples
    --------
    With a running session ``spark``::

        df = lancecy.spark.read(spark, "s3://bucket/table")
        df.agg({"x": "sum", "id": "max"}).show()
        df.count()
    """

    def __new__(cls, *_: Any) -> Self:
        # Spark 4.0's method accepts the arguments of its own class only.
        return object.__new__(cls)

    # Two underscores, because a frame's attributes hide columns of the same name.
    def __init__(self, jdf: Any, session: SparkSession, scan: Scan, lineage: tuple[Any, ...] = ()) -> None:
        super().__init__(jdf, session)
        self.__scan = scan
        # The frame of the scan, then the frames that select from it.
        self.__lineage = (*lineage, jdf)

    def agg(self, *exprs: Column | dict[str, str]) -> ParentDataFrame:
        return self.__improved(super().agg(*exprs))

    def groupBy(self, *cols: Any) -> GroupedData:  # noqa: N802
        return TimedGroups(super().groupBy(*cols))

    groupby = groupBy

    def rollup(self, *cols: Any) -> GroupedData:
        return TimedGroups(super().rollup(*cols))

    def cube(self, *cols: Any) -> GroupedData:
        return TimedGroups(super().cube(*cols))

    def select(self, *cols: Any) -> ParentDataFrame:
        return self.__improved(super().select(*cols))

    def selectExpr(self, *expr: Any) -> ParentDataFrame:  # noqa: N802
        return self.__improved(super().selectExpr(*expr))

    def count(self) -> int:
        if self._sc._jsc is None or _is_held(self.__lineage):
            with naming_times(self):
                return super().count()
        scan = self.__scan
        if scan.num_rows is not None:
            return scan.num_rows
        return sum(row[0] for row in scan.partials(self.sparkSession, [Aggregate("count")]).collect())

    def __improved(self, planned: ParentDataFrame) -> ParentDataFrame:
        """What Spark planned on top of this frame, or a cheaper equivalent."""
        try:
            plan = _analyzed(planned._jdf)
            kind = plan.nodeName()
            if kind not in ("Aggregate", "Project") or not plan.child().equals(_analyzed(self._jdf)):
                return planned
            if kind == "Project":
                return LanceDataFrame(planned._jdf, self.sparkSession, self.__scan, self.__lineage)
            begun = self.__begun(plan, planned) if _release() >= _FULL_NAMES else None
            return planned if begun is None else LanceAggregate(planned, begun, self.__lineage)
        except _NOT_UNDERSTOOD:
            return planned

    def __begun(self, plan: Any, planned: ParentDataFrame) -> ParentDataFrame | None:
        """The aggregate over partial results, with the schema that Spark planned; None if impossible."""
        expressions = plan.aggregateExpressions()
        count = expressions.size()
        if not plan.groupingExpressions().isEmpty() or not 0 < count <= _MOST_AGGREGATES:
            return None
        names = _numbered(self.__scan.names, _analyzed(self.__lineage[0]).output())
        wanted: list[Aggregate] = []
        for number in range(count):
            expression = expressions.apply(number)
            found = _aggregate(json.loads(expression.toJSON()), names)
            if found is None or (
                found.function in ("sum", "avg") and expression.toString().startswith("try_")
            ):
                return None
            known = self.__scan.known(found)
            if known is None:
                return None
            wanted.append(known)
        made = self.__scan.aggregated(self.sparkSession, wanted, planned.schema.fields)
        return made if made._jdf.schema().equals(planned._jdf.schema()) else None


class LanceAggregate(DataFrame):
    """An aggregate as Spark plans it; executors compute its row when it is requested.

    What is planned on top of it is Spark's own, over all the rows: a condition on an aggregate may name any
    column of the scan, and partial results have none.

    Parameters
    ----------
    planned : pyspark.sql.DataFrame
    begun : pyspark.sql.DataFrame
        The same row from partial results.
    lineage : tuple of Java DataFrame
        The frames it was made from: if Spark has cached one of them, that is used.
    """

    def __new__(cls, *_: Any) -> Self:
        return object.__new__(cls)

    def __init__(self, planned: ParentDataFrame, begun: ParentDataFrame, lineage: tuple[Any, ...]) -> None:
        super().__init__(planned._jdf, planned.sparkSession)
        self.__planned, self.__begun = planned, begun
        self.__lineage = (*lineage, planned._jdf)

    def __run(self) -> Any:
        return self.__planned if _is_held(self.__lineage) else self.__begun

    def collect(self) -> list[Row]:
        return list(self.__run().collect())

    def take(self, num: int) -> list[Row]:
        return list(self.__run().take(num))

    def tail(self, num: int) -> list[Row]:
        return list(self.__run().tail(num))

    def toLocalIterator(self, prefetchPartitions: bool = False) -> Iterator[Row]:  # noqa: N802, N803
        return iter(self.__run().toLocalIterator(prefetchPartitions))

    def toArrow(self) -> pa.Table:  # noqa: N802
        return self.__run().toArrow()

    def toPandas(self) -> Any:  # noqa: N802
        return self.__run().toPandas()

    def _show_string(self, n: int = 20, truncate: bool | int = True, vertical: bool = False) -> str:
        return str(self.__run()._show_string(n, truncate, vertical))

    def _repr_html_(self) -> str | None:
        self._support_repr_html = True  # as in Spark's own
        return self.__run()._repr_html_()  # type: ignore[no-any-return]

    def explain(self, extended: bool | str | None = None, mode: str | None = None) -> None:
        self.__run().explain(extended, mode)


def _release() -> tuple[int, int]:
    """Release of PySpark, which is the session's.

    Raises
    ------
    ValueError
        The release is not in numbers.
    """
    major, minor, *_ = pyspark.__version__.split(".")
    return int(major), int(minor)


def _is_held(lineage: Sequence[Any]) -> bool:
    """Whether one of these frames is cached, or marked to be cached."""
    return any(jdf.storageLevel().isValid() for jdf in lineage)


def _analyzed(jdf: Any) -> Any:
    return jdf.queryExecution().analyzed()


def _numbered(names: Sequence[str], output: Any) -> dict[int, str]:
    """The columns of a scan by Spark's expression ids.

    Parameters
    ----------
    names : sequence of str
    output : Java sequence
        Spark's attributes, printed as ``List(id#11L, x#12)``.

    Raises
    ------
    ValueError
        They do not match the names.
    """
    pattern = r"\w+\(" + ", ".join(re.escape(name) + r"#(\d+)L?" for name in names) + r"\)"
    found = re.fullmatch(pattern, output.toString())
    if found is None:
        raise ValueError("Spark's attributes are not the columns of the scan")
    return {int(number): name for number, name in zip(found.groups(), names, strict=True)}


def _aggregate(tree: Sequence[Mapping[str, Any]], names: Mapping[int, str]) -> Aggregate | None:
    """The aggregate of an analysed expression (a name, a function, and a column or a constant), or None.

    Parameters
    ----------
    tree : sequence of dict
        Nodes of the expression, parents first.
    names : mapping of int to str
        Columns of the scan by Spark's expression id.
    """
    if len(tree) != 4:
        return None
    alias, expression, function, of = tree
    expected = [_EXPRESSIONS + "Alias", _AGGREGATES + "AggregateExpression"]
    if [alias["class"], expression["class"]] != expected or function["class"] not in _FUNCTIONS:
        return None
    if expression["isDistinct"] or "filter" in expression:
        return None
    kind = _FUNCTIONS[function["class"]]
    if of["class"] == _EXPRESSIONS + "Literal":
        # count(*) and count(1); count(NULL) counts nothing.
        return Aggregate("count") if kind == "count" and of.get("value") is not None else None
    if of["class"] != _EXPRESSIONS + "AttributeReference":
        return None
    column = names.get(of["exprId"]["id"])
    return None if column is None else Aggregate(kind, column)
