"""A DataFrame of one scan, whose aggregates without groups are begun where the scan is read.

``mapInArrow`` tells Spark nothing of what it reads, so ``df.count()`` would read every column and ``df.agg(sum)``
take every row into the JVM. The class here lets Spark analyse the aggregate first, so that names, types and errors
are Spark's, looks at the analysed expressions, and plans the same aggregate over partial results of the executors
(``aggregates``) if it knows every one of them and the schema comes out the same; otherwise what Spark planned is
returned. Nothing else changes: other methods are Spark's own and return its plain frames.

The one module on Spark's expressions in the JVM, which have no promise of staying as they are: whatever cannot be
asked or is not understood is left to Spark.

Imports pyspark, ``spark.aggregates`` and ``spark.tasks``; imported by functions of ``spark.frames`` only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, SparkSession
from pyspark.sql import DataFrame as ParentDataFrame
from pyspark.sql import functions as f
from pyspark.sql.classic.dataframe import DataFrame
from pyspark.sql.types import LongType, StructField

from lancecy.spark.aggregates import Aggregate, AggregateReader, Function
from lancecy.spark.convert import Converter
from lancecy.spark.nulls import strict
from lancecy.spark.tasks import TaskReader
from lancecy.spark.types import spark_arrow_schema, spark_struct

__all__ = ["LanceDataFrame", "Scan"]

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions."
_AGGREGATES = _EXPRESSIONS + "aggregate."
_FUNCTIONS: Mapping[str, Function] = {
    _AGGREGATES + "Sum": "sum",
    _AGGREGATES + "Average": "avg",
    _AGGREGATES + "Min": "min",
    _AGGREGATES + "Max": "max",
    _AGGREGATES + "Count": "count",
}
# try_sum and try_avg are the same classes by other names.
_PLAIN = {"sum": ("sum",), "avg": ("avg", "mean")}

# Partial results are small, whatever the table is; batches that stay in the processor's caches are read fastest.
_BATCH_ROWS = 1 << 16


@dataclass(frozen=True, eq=False)
class Scan:
    """What aggregates need to know of the scan that a frame is.

    Attributes
    ----------
    reader : TaskReader
    schema : pyarrow.Schema
        Of the scan, before it is in Spark's types; the frame's columns in their order.
    sure : frozenset of str
        Columns that hold no null.
    num_rows : int or None
        None if a filter decides.
    """

    reader: TaskReader
    schema: pa.Schema
    sure: frozenset[str]
    num_rows: int | None

    def known(self, aggregate: Aggregate) -> Aggregate | None:
        """The aggregate as it is best asked for; None if it is not to be begun by executors."""
        if aggregate.column is None:
            return aggregate
        field = self.schema.field(aggregate.column)
        if aggregate.function == "count" and (field.name in self.sure or not field.nullable):
            return Aggregate("count")
        return aggregate if aggregate.is_supported(self._held(aggregate)) else None

    def _held(self, aggregate: Aggregate) -> pa.DataType | None:
        """In which type Spark holds the column."""
        if aggregate.column is None:
            return None
        kind: pa.DataType = spark_arrow_schema(pa.schema([self.schema.field(aggregate.column)])).field(0).type
        return kind

    def aggregated(
        self, spark: SparkSession, aggregates: Sequence[Aggregate], fields: Sequence[StructField]
    ) -> ParentDataFrame:
        """A frame of one row.

        Parameters
        ----------
        spark : pyspark.sql.SparkSession
        aggregates : sequence of Aggregate
        fields : sequence of pyspark.sql.types.StructField
            What its columns are to be called, and their metadata.
        """
        if self.num_rows is not None and all(a == Aggregate("count") for a in aggregates):
            frame, values = spark.range(1), [f"{self.num_rows}L"] * len(aggregates)
        else:
            reader = self._reader(aggregates)
            count = len(self.reader.parts)
            frame = spark.range(0, count, 1, count).mapInArrow(reader, spark_struct(reader.target))
            values = [a.merged(f"p{i}") for i, a in enumerate(aggregates)]
        columns = zip(values, fields, strict=True)
        return frame.select(*(f.expr(v).alias(field.name, metadata=field.metadata) for v, field in columns))

    def _reader(self, aggregates: Sequence[Aggregate]) -> AggregateReader:
        names = list(dict.fromkeys(a.column for a in aggregates if a.column is not None))
        schema = pa.schema([self.schema.field(name) for name in names])
        converter = Converter(
            schema, self.reader.converter.truncate_nanoseconds, strict(spark_arrow_schema(schema), self.sure)
        )
        spec = self.reader.spec.narrowed(names)
        spec = replace(spec, request=replace(spec.request, batch_size=_BATCH_ROWS))
        fields = [field for i, a in enumerate(aggregates) for field in a.fields(f"p{i}", self._held(a))]
        reader = replace(self.reader, spec=spec, converter=converter)
        return AggregateReader(reader, tuple(aggregates), pa.schema(fields))


class LanceDataFrame(DataFrame):
    """A scan as a DataFrame of Spark; what :func:`lancecy.spark.read` returns outside of Spark Connect.

    ``agg``, and ``select`` and ``selectExpr`` of nothing but aggregates, send one row per partition to Spark where
    all they ask for is ``sum``, ``avg``, ``min``, ``max`` or ``count`` of single columns, without DISTINCT or
    FILTER; ``count`` reads no column but the filter's, and nothing without a filter. Once the frame is cached, Spark
    does all of it from the cache.

    Attributes
    ----------
    lance_scan : Scan
        What is read.

    Examples
    --------
    With a running session ``spark``::

        df = lancecy.spark.read(spark, "s3://bucket/table")
        df.agg({"x": "sum", "id": "max"}).show()
        df.count()
    """

    def __init__(
        self, jdf: Any, session: SparkSession, lance_scan: Scan, lineage: tuple[Any, ...] = ()
    ) -> None:
        super().__init__(jdf, session)
        self.lance_scan = lance_scan
        # The frame of the scan first, then those that select from it.
        self._lineage = (*lineage, jdf)

    def agg(self, *exprs: Column | dict[str, str]) -> ParentDataFrame:
        return self._improved(super().agg(*exprs))

    def select(self, *cols: Any) -> ParentDataFrame:
        return self._improved(super().select(*cols))

    def selectExpr(self, *expr: Any) -> ParentDataFrame:  # noqa: N802
        return self._improved(super().selectExpr(*expr))

    def count(self) -> int:
        if self._is_held():
            return super().count()
        scan = self.lance_scan
        if scan.num_rows is not None:
            return scan.num_rows
        counted = scan.aggregated(self.sparkSession, [Aggregate("count")], [StructField("count", LongType())])
        return int(counted.collect()[0][0])

    def _improved(self, planned: ParentDataFrame) -> ParentDataFrame:
        """What Spark planned on top of this frame, or the same with less to do."""
        try:
            plan = planned._jdf.queryExecution().analyzed()
            kind = plan.nodeName()
            if kind not in ("Aggregate", "Project") or not plan.child().equals(self._analyzed()):
                return planned
            if kind == "Project":
                return LanceDataFrame(planned._jdf, self.sparkSession, self.lance_scan, self._lineage)
            return self._reduced(plan, planned) or planned
        except (Py4JError, PySparkException, AttributeError, LookupError, TypeError, ValueError):
            return planned

    def _reduced(self, plan: Any, planned: ParentDataFrame) -> ParentDataFrame | None:
        """An aggregate over partial results with the schema that Spark planned, if there is one."""
        if not plan.groupingExpressions().isEmpty() or self._is_held():
            return None
        output = self._lineage[0].queryExecution().analyzed().output()
        expressions = plan.aggregateExpressions()
        wanted: list[Aggregate] = []
        for number in range(expressions.size()):
            expression = expressions.apply(number)
            found = _aggregate(json.loads(expression.toJSON()), self.lance_scan.schema.names, output)
            if found is None or not _is_plain(found, expression):
                return None
            known = self.lance_scan.known(found)
            if known is None:
                return None
            wanted.append(known)
        if not wanted:
            return None
        made = self.lance_scan.aggregated(self.sparkSession, wanted, planned.schema.fields)
        return made if made._jdf.schema().equals(planned._jdf.schema()) else None

    def _analyzed(self) -> Any:
        return self._jdf.queryExecution().analyzed()

    def _is_held(self) -> bool:
        """Whether Spark has, or is to have, the rows in a cache."""
        return any(jdf.storageLevel().isValid() for jdf in self._lineage)


def _aggregate(tree: Sequence[Mapping[str, Any]], names: Sequence[str], output: Any) -> Aggregate | None:
    """The aggregate that an analysed expression is: a name, a function, and a column or a constant.

    Parameters
    ----------
    tree : sequence of dict
        Its nodes, parents first.
    names : sequence of str
        Columns of the scan.
    output : Java sequence
        The attributes that they are to Spark.
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
    spelled, number = of["name"].lower(), (of["exprId"]["id"], of["exprId"]["jvmId"])
    for place, name in enumerate(names):
        if name.lower() == spelled:
            known = output.apply(place).exprId()
            if (known.id(), known.jvmId().toString()) == number:
                return Aggregate(kind, name)
    return None


def _is_plain(aggregate: Aggregate, expression: Any) -> bool:
    """Whether an analysed expression fails on overflow as its session says and not as its name says."""
    allowed = _PLAIN.get(aggregate.function)
    return allowed is None or expression.child().aggregateFunction().prettyName() in allowed
