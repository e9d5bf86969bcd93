"""``spark.read.format("lancecy")`` and ``df.write.format("lancecy")``: Lance tables as a Python data source of Spark 4.

Spark makes the source in a Python process of its own on the driver, asks it for a schema, later for a reader and its
partitions, and sends the reader to the executors; only texts and pickles go between them. The version of the table
is settled in the first of these steps, so that every later run of a DataFrame or view reads the same rows.

Filters come through the option ``filter``. ``pushFilters`` is left alone: Spark 4.3 keeps the filters of one query
with the relation and applies them to later queries, to the other side of a union and of a self-join.

A write is planned once, in such a process on the driver; commit and abort run in two more, so that what they have to
know of each other is asked of the table.
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

from lancecy.datasets import Dataset, dataset
from lancecy.errors import ColumnNotFoundError, UnsupportedError
from lancecy.scanners import Scanner
from lancecy.spark.convert import Converter
from lancecy.spark.options import ReadOptions, SinkOptions
from lancecy.spark.sink import TaskWriter, fragments_of, planned_sink
from lancecy.spark.tasks import TaskReader, batch_limits, divide
from lancecy.spark.types import spark_struct
from lancecy.spark.workers import carried, check

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["LancecyDataSource", "LancecyReader", "LancecyWriter", "Written", "register", "restored"]

# The process that plans does not know how many cores the executors have.
_PARTITIONS = 8


class LancecyDataSource(DataSource):
    """The data source of the name ``lancecy``.

    Spark finds it by itself where lancecy is installed; :func:`lancecy.spark.register` makes it known elsewhere.
    Options are those of :class:`lancecy.spark.options.ReadOptions`, of writes those of
    :class:`lancecy.spark.options.SinkOptions`.
    """

    _version: int | None = None

    @classmethod
    def name(cls) -> str:
        """What ``format`` and ``USING`` call it."""
        return "lancecy"

    def schema(self) -> StructType:
        """Columns of the table, as far as the options select them, in the types that Spark holds them in.

        Raises
        ------
        ValueError
            The options are wrong.
        LanceError
            The table cannot be opened, or Spark has no type for a column.
        """
        asked = self._settled()
        return spark_struct(_scanner(asked, _opened(asked), asked.columns).schema)

    def reader(self, schema: StructType) -> LancecyReader:
        """Plan a read of the columns in ``schema``.

        Parameters
        ----------
        schema : pyspark.sql.types.StructType
            As :meth:`schema` gave it, or as the user did: fewer columns, in any order, of the same types.

        Raises
        ------
        ColumnNotFoundError
            The user's schema names a column that there is not.
        UnsupportedError
            It names another type than Spark holds a column in.
        ValueError, LanceError
            As for :meth:`schema`.
        """
        asked = self._settled()
        source = _opened(asked)
        whole = _scanner(asked, source, asked.columns)
        _check_columns(schema, spark_struct(whole.schema))
        scanner = _scanner(asked, source, _only(asked.columns, schema.fieldNames()))
        plan, parts = divide(
            scanner, source.context, asked.partitions or _PARTITIONS, asked.blocksize, embed_credentials=True
        )
        if not parts:
            return LancecyReader(None, [])
        wanted = to_arrow_schema(schema, timezone="UTC")
        converter = Converter(plan.schema, asked.truncate_nanoseconds, pa.schema(list(wanted)))
        spec = plan.tasks[0].spec
        return LancecyReader(TaskReader(spec, (), converter, source.context.session.limits), parts)

    def writer(self, schema: StructType, overwrite: bool) -> LancecyWriter:
        """Plan a write.

        Parameters
        ----------
        schema : pyspark.sql.types.StructType
            Of the frame.
        overwrite : bool
            Replace schema and rows, instead of adding rows; makes a new table either way if there is none.

        Raises
        ------
        ValueError
            The options are wrong.
        LanceError
            Frame, table and options do not go together.
        """
        asked = SinkOptions.parse(self.options)
        return LancecyWriter(planned_sink(schema, asked, "overwrite" if overwrite else "append"))

    def _settled(self) -> ReadOptions:
        """The options, with the version that was the newest when they were first looked at."""
        asked = ReadOptions.parse(self.options)
        if self._version is None:
            self._version = _opened(asked).version
        return replace(asked, version=self._version, asof=None)

    def __reduce__(self) -> tuple[Any, ...]:
        return carried(__name__, "restored", dict(self.options), self._version)


def restored(options: Mapping[str, str], version: int | None) -> LancecyDataSource:
    """A data source out of what its pickle holds.

    Parameters
    ----------
    options : mapping of str to str
    version : int or None
        That an earlier step settled.
    """
    source = LancecyDataSource(dict(options))
    source._version = version
    return source


class LancecyReader(DataSourceReader):
    """Partitions of a planned read, and what reads them on the executors.

    Parameters
    ----------
    reader : TaskReader or None
        None for a table without rows.
    parts : sequence of tuple of int
        One per partition, as :func:`lancecy.spark.tasks.pack` makes them.
    """

    def __init__(self, reader: TaskReader | None, parts: Sequence[tuple[int, ...]]) -> None:
        self._reader = reader
        self._parts = list(parts)

    def partitions(self) -> list[InputPartition]:
        """One partition per part; Spark makes one without a value of none at all."""
        return [InputPartition(part) for part in self._parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Batches of exactly the schema that Spark was told.

        Parameters
        ----------
        partition : InputPartition
        """
        if self._reader is None or partition.value is None:
            return iter(())
        return self._reader.read(partition.value)

    def __reduce__(self) -> tuple[Any, ...]:
        # Every task gets the reader, and its own part besides.
        return carried(__name__, "LancecyReader", self._reader, ())


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What a task tells the driver.

    Attributes
    ----------
    fragments : str
        As :meth:`lancecy.spark.sink.TaskWriter.write` gives them.
    """

    fragments: str


class LancecyWriter(DataSourceArrowWriter):
    """Writes partitions on the executors, and on the driver commits what they tell.

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
        """Make the files of all tasks part of the table.

        Parameters
        ----------
        messages : sequence of Written
            One per partition, of the attempt that Spark accepted.

        Raises
        ------
        LanceError
            See :func:`lancecy.commit`.
        """
        told = [message.fragments for message in messages if isinstance(message, Written)]
        self._tasks.shared.commit(fragments_of(told))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove what tasks have written, unless a commit was begun: that one knows what may go.

        Parameters
        ----------
        messages : sequence of Written or None
        """
        if not self._tasks.shared.may_be_committed:
            self._tasks.shared.clear()


def register(spark: SparkSession) -> None:
    """Make ``spark.read.format("lancecy")`` known to a session.

    Needed where lancecy is on ``sys.path`` without being installed; elsewhere Spark finds it by itself.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession

    Raises
    ------
    ImportError
        The workers' Python has no lancecy, another release of it, or is another Python.

    Examples
    --------
    With a running session ``spark``::

        lancecy.spark.register(spark)
        spark.read.format("lancecy").option("filter", "id > 5").load("example.lance").count()
    """
    check(spark)
    spark.dataSource.register(LancecyDataSource)


def _opened(asked: ReadOptions) -> Dataset:
    return dataset(
        asked.path,
        asked.version,
        asked.asof,
        asked.storage_options or None,
        untrusted=asked.untrusted,
        allowed_bases=asked.allowed_bases,
    )


def _scanner(asked: ReadOptions, source: Dataset, columns: Any) -> Scanner:
    scanner = source.scanner(
        columns,
        asked.filter,
        **batch_limits(asked.batch_size),
        with_row_id=asked.with_row_id and columns is asked.columns,
        with_row_address=asked.with_row_address and columns is asked.columns,
    )
    if not len(scanner.schema):
        raise ValueError("Spark cannot hold a DataFrame without columns: select at least one")
    return scanner


def _only(columns: Any, names: list[str]) -> Any:
    """The columns to ask for, so that exactly these come back."""
    if isinstance(columns, Mapping):
        return {name: columns.get(name, name) for name in names}
    return names


def _check_columns(given: StructType, known: StructType) -> None:
    for field in given.fields:
        if field.name not in known.names:
            raise ColumnNotFoundError(field.name, known.names, where="the table as the options select it")
        asked, held = field.dataType.simpleString(), known[field.name].dataType.simpleString()
        if asked != held:
            raise UnsupportedError(
                f"column {field.name!r} is {held}, and the schema given for it says {asked}: leave the schema out, "
                f"or say {held} and cast in Spark",
                feature=f"Spark: {held} as {asked}",
            )
