"""``spark.read.format("lancecy")``: Lance tables as a Python data source of Spark 4; ``source_writes`` has its writes.

Spark makes the source in a separate Python process on the driver, asks it for a schema, later for a reader and
its partitions, and sends the reader to the executors; only text and pickles pass between them. The first of these
steps fixes the version of the table and the time for ``now()``, so that every later run of a DataFrame or view
reads the same rows. Each step loads this module in a new process, so it imports only what a read needs.

Filters are given by the option ``filter``. ``pushFilters`` is not implemented: Spark 4.3 keeps the filters of one
query with the relation and applies them to later queries, to the other side of a union and of a self-join.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from lancecy.api.scanners import Scanner
from lancecy.errors import ColumnNotFoundError, UnsupportedError
from lancecy.expr import time_now
from lancecy.scanning.context import ScanContext
from lancecy.scanning.request import at_instant, make_request
from lancecy.scanning.task import ScanSpec
from lancecy.session import default
from lancecy.spark.convert import Converter
from lancecy.spark.options import ReadOptions
from lancecy.spark.tasks import TaskReader, batch_limits, divide
from lancecy.spark.types import spark_struct
from lancecy.spark.workers import carried
from lancecy.store.pools import processors
from lancecy.table.location import TableLocation
from lancecy.table.refs import MAIN
from lancecy.table.refs.reference import Reference
from lancecy.table.replicas import check_replicas
from lancecy.table.snapshot import Snapshot, load_snapshot

if TYPE_CHECKING:
    from lancecy.spark.source_writes import LancecyWriter

__all__ = ["LancecyDataSource", "LancecyReader", "restored"]


class LancecyDataSource(DataSource):
    """The data source named ``lancecy``.

    Spark finds it where lancecy is installed; elsewhere :func:`lancecy.spark.register` registers it.
    Options are those of :class:`lancecy.spark.options.ReadOptions`, of writes those of
    :class:`lancecy.spark.sink_options.SinkOptions`.
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
        return spark_struct(self._scanner(asked, _context(asked), asked.columns).schema)

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
        source = _context(asked)
        whole = self._scanner(asked, source, asked.columns)
        _check_columns(schema, spark_struct(whole.schema))
        scanner = self._scanner(asked, source, _only(asked.columns, schema.fieldNames()))
        # Spark does not tell how many cores the executors have: this machine's number is that of a local session.
        cores = asked.partitions or processors()
        plan, parts = divide(scanner, source, cores, asked.blocksize, embed_credentials=True)
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
        from lancecy.spark.source_writes import LancecyWriter

        return LancecyWriter.planned(schema, self.options, "overwrite" if overwrite else "append")

    def streamReader(self, schema: StructType) -> NoReturn:  # noqa: N802 - Spark's name
        """Refuse ``spark.readStream``.

        Parameters
        ----------
        schema : pyspark.sql.types.StructType

        Raises
        ------
        UnsupportedError
            Always, with the remedy.
        """
        raise UnsupportedError(
            "a Lance table is not read as a stream (spark.readStream): lancecy.spark.changes(spark, path, since=version) "
            "returns the rows that are new since a version",
            feature="Spark streams",
        )

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:  # noqa: N802 - Spark's name
        """Refuse ``writeStream.format("lancecy")``.

        Parameters
        ----------
        schema : pyspark.sql.types.StructType
        overwrite : bool

        Raises
        ------
        UnsupportedError
            Always, with the remedy.
        """
        raise UnsupportedError(
            'writeStream.format("lancecy") is not possible: use writeStream.foreachBatch(lambda rows, number: '
            "lancecy.spark.write(rows, path, 'append', token=f'my query {number}')), which writes each batch once",
            feature="Spark streams",
        )

    def _settled(self) -> ReadOptions:
        """The options, with the version that they named when they were first used."""
        asked = ReadOptions.parse(self.options)
        if self._version is None:
            found = _opened(asked)
            is_here = asked.reference is None or isinstance(asked.reference, int)
            self._version = found.version if is_here else (found.manifest.branch, found.version)
        if isinstance(self._version, tuple):
            branch, version = self._version
            return replace(asked, tag=None, branch=branch or MAIN, version=version, asof=None)
        return replace(asked, version=self._version, asof=None)

    def _scanner(self, asked: ReadOptions, source: ScanContext, columns: Any) -> Scanner:
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


def _opened(asked: ReadOptions) -> Snapshot:
    session = default()
    location = TableLocation.of(
        asked.path,
        asked.storage_options or None,
        asked.untrusted,
        asked.allowed_bases,
        session.limits,
        asked.replicas,
    )
    snapshot = load_snapshot(location, asked.reference, asked.asof, session)
    check_replicas(location.replicas, snapshot.bases.known_names)
    return snapshot


def _context(asked: ReadOptions) -> ScanContext:
    return ScanContext(_opened(asked), default())


def _scanner(asked: ReadOptions, source: ScanContext, columns: Any, instant: int) -> Scanner:
    schema = source.snapshot.schema.arrow
    chosen, condition = at_instant(columns, asked.filter, schema, instant)
    limits, is_asked = batch_limits(asked.batch_size), columns is asked.columns
    request = make_request(
        schema,
        chosen,
        condition,
        batch_size=limits["batch_size"],
        batch_bytes=limits.get("batch_size_bytes"),
        with_row_id=asked.with_row_id and is_asked,
        with_row_address=asked.with_row_address and is_asked,
    )
    scanner = Scanner(source, partial(ScanSpec.of, source.snapshot), request)
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
