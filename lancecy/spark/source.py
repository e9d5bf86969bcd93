"""``spark.read.format("lancecy")`` and ``df.write.format("lancecy")``: Lance tables as a Python data source of Spark 4.

Spark makes the source in a separate Python process on the driver, asks it for a schema, later for a reader and
its partitions, and sends the reader to the executors; only text and pickles pass between them. The first of these
steps fixes the version of the table and the time for ``now()``, so that every later run of a DataFrame or view
reads the same rows.

Filters are given by the option ``filter``. ``pushFilters`` is not implemented: Spark 4.3 keeps the filters of one
query with the relation and applies them to later queries, to the other side of a union and of a self-join.

A write is planned once, in such a process on the driver; commit and abort run in two more, so what they need
from each other is read from the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from lancecy.api.datasets import Dataset, dataset
from lancecy.api.scanners import Scanner
from lancecy.api.writers import committed_parts
from lancecy.changes.shared import told_parts
from lancecy.errors import ColumnNotFoundError, UnsupportedError
from lancecy.expr import time_now
from lancecy.scanning.request import at_instant
from lancecy.spark.convert import Converter
from lancecy.spark.options import ReadOptions, SinkOptions
from lancecy.spark.sink import TaskWriter, planned_sink
from lancecy.spark.tasks import TaskReader, batch_limits, divide
from lancecy.spark.types import spark_struct
from lancecy.spark.views import register_views
from lancecy.spark.workers import carried, check
from lancecy.table.refs import MAIN
from lancecy.table.refs.reference import Reference

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["LancecyDataSource", "LancecyReader", "LancecyWriter", "Written", "register", "restored"]

# The planning process does not know how many cores the executors have.
_PARTITIONS = 8


class LancecyDataSource(DataSource):
    """The data source named ``lancecy``.

    Spark finds it where lancecy is installed; elsewhere :func:`lancecy.spark.register` registers it.
    Options are those of :class:`lancecy.spark.options.ReadOptions`, of writes those of
    :class:`lancecy.spark.options.SinkOptions`.
    """

    _version: Reference = None
    _instant: int | None = None

    @classmethod
    def name(cls) -> str:
        """The name for ``format`` and ``USING``."""
        return "lancecy"

    def schema(self) -> StructType:
        """Columns of the table that the options select, in Spark's types.

        Raises
        ------
        ValueError
            The options are wrong.
        LanceError
            The table cannot be opened, or Spark has no type for a column.
        """
        asked = self._settled()
        return spark_struct(self._scanner(asked, _opened(asked), asked.columns).schema)

    def reader(self, schema: StructType) -> LancecyReader:
        """Plan a read of the columns in ``schema``.

        Parameters
        ----------
        schema : pyspark.sql.types.StructType
            From :meth:`schema` or the user: some of the columns, in any order, with the same types.

        Raises
        ------
        ColumnNotFoundError
            The user's schema names a column that does not exist.
        UnsupportedError
            It gives another type than the one in which Spark holds a column.
        ValueError, LanceError
            As for :meth:`schema`.
        """
        asked = self._settled()
        source = _opened(asked)
        whole = self._scanner(asked, source, asked.columns)
        _check_columns(schema, spark_struct(whole.schema))
        scanner = self._scanner(asked, source, _only(asked.columns, schema.fieldNames()))
        plan, parts = divide(
            scanner, source.context, asked.partitions or _PARTITIONS, asked.blocksize, embed_credentials=True
        )
        if not parts:
            return LancecyReader(None, [])
        wanted = to_arrow_schema(schema, timezone="UTC")
        converter = Converter(plan.schema, asked.truncate_nanoseconds, pa.schema(list(wanted)))
        spec = plan.tasks[0].spec
        return LancecyReader(TaskReader(spec, (), converter), parts)

    def writer(self, schema: StructType, overwrite: bool) -> LancecyWriter:
        """Plan a write.

        Parameters
        ----------
        schema : pyspark.sql.types.StructType
            Schema of the frame.
        overwrite : bool
            Replace schema and rows instead of adding rows; makes a new table if there is none.

        Raises
        ------
        ValueError
            The options are wrong.
        LanceError
            Frame, table and options do not match.
        """
        asked = SinkOptions.parse(self.options)
        return LancecyWriter(planned_sink(schema, asked, "overwrite" if overwrite else "append"))

    def _settled(self) -> ReadOptions:
        """The options, with the version that they named when they were first used."""
        asked = ReadOptions.parse(self.options)
        if self._version is None:
            found = _opened(asked)
            is_here = asked.reference is None or isinstance(asked.reference, int)
            self._version = (
                found.version if is_here else (found.context.snapshot.manifest.branch, found.version)
            )
        if isinstance(self._version, tuple):
            branch, version = self._version
            return replace(asked, tag=None, branch=branch or MAIN, version=version, asof=None)
        return replace(asked, version=self._version, asof=None)

    def _scanner(self, asked: ReadOptions, source: Dataset, columns: Any) -> Scanner:
        """The scan; ``now()`` and the like have one value for all queries over the DataFrame or view."""
        if self._instant is None:
            self._instant = time_now()
        return _scanner(asked, source, columns, self._instant)

    def __reduce__(self) -> tuple[Any, ...]:
        return carried(__name__, "restored", dict(self.options), self._version, self._instant)


def restored(options: Mapping[str, str], version: Reference, instant: int | None) -> LancecyDataSource:
    """A data source from the contents of its pickle.

    Parameters
    ----------
    options : mapping of str to str
    version : int, (str or None, int), or None
        The version that an earlier step fixed.
    instant : int or None
        The time that an earlier step fixed for ``now()``.
    """
    source = LancecyDataSource(dict(options))
    source._version, source._instant = version, instant
    return source


class LancecyReader(DataSourceReader):
    """Partitions of a planned read, and their reader on the executors.

    Parameters
    ----------
    reader : TaskReader or None
        None for a table without rows.
    parts : sequence of tuple of int
        One per partition, made by :func:`lancecy.spark.tasks.pack`.
    """

    def __init__(self, reader: TaskReader | None, parts: Sequence[tuple[int, ...]]) -> None:
        self._reader = reader
        self._parts = list(parts)

    def partitions(self) -> list[InputPartition]:
        """One partition per part; without parts Spark makes one with no value."""
        return [InputPartition(part) for part in self._parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Batches of exactly the schema given to Spark.

        Parameters
        ----------
        partition : InputPartition
        """
        if self._reader is None or partition.value is None:
            return iter(())
        return self._reader.read(partition.value)

    def __reduce__(self) -> tuple[Any, ...]:
        # Every task gets the reader, and separately its own part.
        return carried(__name__, "LancecyReader", self._reader, ())


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """The message of a task to the driver.

    Attributes
    ----------
    fragments : str
        From :meth:`lancecy.spark.sink.TaskWriter.write`.
    """

    fragments: str


class LancecyWriter(DataSourceArrowWriter):
    """Writes partitions on the executors, and commits them on the driver.

    Parameters
    ----------
    tasks : TaskWriter
    """

    def __init__(self, tasks: TaskWriter) -> None:
        self._tasks = tasks

    def __reduce__(self) -> tuple[Any, ...]:
        return carried(__name__, "LancecyWriter", self._tasks)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write one partition.

        Parameters
        ----------
        iterator : iterator of pyarrow.RecordBatch
        """
        return Written(self._tasks.write(iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit the files of all tasks.

        Parameters
        ----------
        messages : sequence of Written
            One per partition, from the attempt that Spark accepted.

        Raises
        ------
        LanceError
            See :func:`lancecy.commit`.
        """
        told = [message.fragments for message in messages if isinstance(message, Written)]
        shared = self._tasks.shared
        committed_parts(shared, told_parts(told), shared.location, shared.session)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove the files of all tasks, unless a commit was started: that one decides what may be removed.

        Parameters
        ----------
        messages : sequence of Written or None
        """
        if not self._tasks.shared.may_be_committed:
            self._tasks.shared.clear()


def register(spark: SparkSession, namespace: Any = None, within: Sequence[str] = ()) -> list[str]:
    """Register ``spark.read.format("lancecy")`` in a session, and the tables of a namespace as temporary views.

    The format needs it where lancecy is on ``sys.path`` without being installed; otherwise Spark finds it by itself.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
    namespace : lance_namespace.LanceNamespace, optional
        Each of its tables becomes a view of its newest version, named as the table, after the names of child namespaces
        with underscores. A view of that name is replaced. Tables without data are left out.
    within : sequence of str
        Only the tables of this namespace and of those in it.

    Returns
    -------
    list of str
        Names of the views.

    Raises
    ------
    ImportError
        The workers' Python has no lancecy or another release of it, or has another version.
    ValueError
        Two tables would have one view.

    Examples
    --------
    With a running session ``spark``::

        lancecy.spark.register(spark)
        spark.read.format("lancecy").option("filter", "id > 5").load("example.lance").count()
    """
    check(spark)
    spark.dataSource.register(LancecyDataSource)
    return [] if namespace is None else register_views(spark, namespace, within)


def _opened(asked: ReadOptions) -> Dataset:
    return dataset(
        asked.path,
        asked.reference,
        asked.asof,
        asked.storage_options or None,
        untrusted=asked.untrusted,
        allowed_bases=asked.allowed_bases,
        replicas=asked.replicas,
    )


def _scanner(asked: ReadOptions, source: Dataset, columns: Any, instant: int) -> Scanner:
    chosen, condition = at_instant(columns, asked.filter, source.schema, instant)
    scanner = source.scanner(
        chosen,
        condition,
        **batch_limits(asked.batch_size),
        with_row_id=asked.with_row_id and columns is asked.columns,
        with_row_address=asked.with_row_address and columns is asked.columns,
    )
    if not len(scanner.schema):
        raise ValueError("Spark cannot hold a DataFrame without columns: select at least one")
    return scanner


def _only(columns: Any, names: list[str]) -> Any:
    """The columns to request, so that exactly these are returned."""
    if isinstance(columns, Mapping):
        return {name: columns.get(name, name) for name in names}
    return names


def _check_columns(given: StructType, known: StructType) -> None:
    for field in given.fields:
        if field.name not in known.names:
            raise ColumnNotFoundError(field.name, known.names, where="the table with these options")
        asked, held = field.dataType.simpleString(), known[field.name].dataType.simpleString()
        if asked != held:
            raise UnsupportedError(
                f"column {field.name!r} is {held}, but the given schema says {asked}: leave the schema out, "
                f"or give {held} and cast in Spark",
                feature=f"Spark: {held} as {asked}",
            )
