"""SQL over a dataset, run by DuckDB.

DuckDB gets the dataset as a :class:`~lancecy.interop.pyarrow_dataset.PyarrowDataset`, so the columns of a query and the
filters that it can hand over reach the scan. Each run has a connection of its own, which cannot open files, reach
the network or see variables of the program: a query reads this dataset and nothing else.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancecy.encodings.arrow.nulls import with_members
from lancecy.errors import ExpressionError, LanceError, UnsupportedError, needing
from lancecy.interop.pyarrow_dataset import to_pyarrow_dataset
from lancecy.interop.source import Scan, Source
from lancecy.records import dataclass

if TYPE_CHECKING:
    import duckdb

__all__ = ["SqlQuery", "SqlQueryBuilder"]

_BATCH_ROWS = 1 << 16
_CLOSED: dict[str, Any] = {"enable_external_access": "false", "python_enable_replacements": "false"}
_ANSWERING = ("SELECT", "EXPLAIN")


class SqlQueryBuilder:
    """An SQL query and its options; made by :meth:`lancecy.Dataset.sql`, as in pylance.

    Every method but :meth:`build` sets an option and returns the same builder.

    Parameters
    ----------
    source : Dataset
    query : str

    Raises
    ------
    ImportError
        DuckDB is not installed.
    TypeError
        The query is not a text.
    """

    def __init__(self, source: Source, query: str) -> None:
        if not isinstance(query, str):
            raise TypeError(f"a query must be a str, not {type(query).__name__}")
        _require_duckdb()
        self._source = source
        self._query = query
        self._table_name = "dataset"
        self._options: dict[str, Any] = {}

    def table_name(self, table_name: str) -> SqlQueryBuilder:
        """The name of the dataset in the query; ``dataset`` if not given.

        Parameters
        ----------
        table_name : str
        """
        self._table_name = table_name
        return self

    def with_row_id(self, with_row_id: bool = True) -> SqlQueryBuilder:
        """Whether the dataset has a column ``_rowid``.

        Parameters
        ----------
        with_row_id : bool
        """
        return self._with("with_row_id", with_row_id)

    def with_row_addr(self, with_row_addr: bool = True) -> SqlQueryBuilder:
        """Whether the dataset has a column ``_rowaddr``.

        Parameters
        ----------
        with_row_addr : bool
        """
        return self._with("with_row_address", with_row_addr)

    def blob_handling(self, blob_handling: str) -> SqlQueryBuilder:
        """What blob columns are in the query: see ``blob_handling`` of :meth:`lancecy.Dataset.scanner`.

        Parameters
        ----------
        blob_handling : str
        """
        return self._with("blob_handling", blob_handling)

    def batch_size(self, batch_size: int) -> SqlQueryBuilder:
        """Maximum rows of a batch, of the scan and of the result.

        Parameters
        ----------
        batch_size : int
        """
        return self._with("batch_size", batch_size)

    def batch_size_bytes(self, batch_size_bytes: int) -> SqlQueryBuilder:
        """Maximum bytes of a batch of the scan.

        Parameters
        ----------
        batch_size_bytes : int
        """
        return self._with("batch_size_bytes", batch_size_bytes)

    def build(self) -> SqlQuery:
        """The query, ready to run."""
        return SqlQuery(self._source, self._query, self._table_name, dict(self._options))

    def _with(self, name: str, value: object) -> SqlQueryBuilder:
        self._options[name] = value
        return self


class SqlQuery:
    """An SQL query over a dataset; made by :meth:`SqlQueryBuilder.build`. Each use runs it anew.

    Parameters
    ----------
    source : Dataset
    query : str
    table_name : str
        Name of the dataset in the query.
    options : dict of str to object
        Options of the scan.
    """

    def __init__(self, source: Source, query: str, table_name: str, options: dict[str, Any]) -> None:
        self._source = source
        self._query = query
        self._table_name = table_name
        self._options = options

    def to_batch_records(self) -> list[pa.RecordBatch]:
        """Run the query and return its rows in batches.

        Raises
        ------
        ExpressionError
            The query is not one SELECT, or DuckDB refuses it (a ``ValueError``, as in pylance).
        UnsupportedError
            The table has a type that DuckDB has not.
        LanceError
            The table cannot be read.
        """
        return list(self.to_stream_reader())

    def to_stream_reader(self) -> pa.RecordBatchReader:
        """Run the query as a stream; errors as for :meth:`to_batch_records`."""
        run = _Run(self._query, self._options.get("batch_size") or _BATCH_ROWS)
        try:
            # Dictionaries are texts for DuckDB, in a form that it groups faster.
            options = {**self._options, "read_dictionary": True}
            return run.reader(self._table_name, _SqlSource(self._source, options, run.failures))
        except BaseException:
            run.connection.close()
            raise

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """A new run of the query as an Arrow C stream capsule."""
        return self.to_stream_reader().__arrow_c_stream__(requested_schema)


def _require_duckdb() -> None:
    with needing("sql", "duckdb"):
        import duckdb  # noqa: F401


class _Run:
    """One run of a query on a connection of its own."""

    def __init__(self, query: str, batch_rows: int) -> None:
        import duckdb

        self.connection: duckdb.DuckDBPyConnection = duckdb.connect(config=_CLOSED)
        self.failures: list[LanceError] = []
        self._query = query
        self._batch_rows = batch_rows

    def reader(self, name: str, source: _SqlSource) -> pa.RecordBatchReader:
        with self._own_errors():
            self._check_statement()
            self.connection.register(name, to_pyarrow_dataset(source))
            found = self.connection.sql(self._query).to_arrow_reader(self._batch_rows)
        return pa.RecordBatchReader.from_batches(found.schema, self._batches(found))

    def _batches(self, found: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        try:
            with self._own_errors():
                yield from (batch for batch in found if batch.num_rows)
        finally:
            self.connection.interrupt()  # a stream that is not read to its end
            self.connection.close()

    def _check_statement(self) -> None:
        statements = self.connection.extract_statements(self._query)
        if len(statements) != 1 or statements[0].type.name not in _ANSWERING:
            raise ExpressionError("the query must be one SELECT statement", text=self._query)

    @contextlib.contextmanager
    def _own_errors(self) -> Iterator[None]:
        """Errors of DuckDB as errors of lancecy; an error of the scan inside as it was."""
        import duckdb

        try:
            yield
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            if self.failures:
                raise self.failures[0] from None
            if isinstance(error, duckdb.NotSupportedError):
                raise UnsupportedError(
                    f"DuckDB cannot read this table: {_first_part(error)}; "
                    "leave the column out, by scanner(columns=[…]) and duckdb.sql",
                    feature="types of DuckDB",
                ) from error
            if isinstance(error, duckdb.ProgrammingError | duckdb.DataError | duckdb.PermissionException):
                raise ExpressionError(f"DuckDB: {_first_part(error)}", text=self._query) from error
            raise


def _first_part(error: Exception) -> str:
    """The message without the copy of the query that DuckDB adds to it."""
    return " ".join(str(error).partition("\n\nLINE ")[0].split())


@dataclass(frozen=True, slots=True)
class _SqlSource:
    """A dataset with the options of a query, in types that DuckDB has; its failures are kept."""

    source: Source
    options: dict[str, Any]
    failures: list[LanceError] = field(default_factory=list)

    @property
    def uri(self) -> str:
        return self.source.uri

    @property
    def version(self) -> int:
        return self.source.version

    @property
    def schema(self) -> pa.Schema:
        return _widened(self.source.scanner(**self.options).schema)

    @property
    def scanner(self) -> Callable[..., Scan]:
        return self._scan

    def _scan(self, columns: Sequence[str] | None, filter: Any, **options: Any) -> Scan:
        names = self.schema.names if columns is None else columns
        kept = {name: value for name, value in self.options.items() if not name.startswith("with_row")}
        return _SqlScan(self.source.scanner(names, filter, **{**options, **kept}), self.failures)

    def take(self, indices: Any, columns: Any = None) -> pa.Table:
        return self.source.take(indices, columns)

    def get_fragments(self) -> Sequence[Any]:
        return self.source.get_fragments()


class _SqlScan:
    """A scan whose half-precision floats are widened, and whose failure is kept."""

    def __init__(self, scan: Scan, failures: list[LanceError]) -> None:
        self.schema = _widened(scan.schema)
        self._scan = scan
        self._failures = failures

    def to_table(self) -> pa.Table:
        return self._scan.to_table().cast(self.schema)

    def count_rows(self) -> int:
        return self._scan.count_rows()

    def to_reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        is_same = self.schema.equals(self._scan.schema)
        try:
            for batch in self._scan.to_reader():
                yield batch if is_same else batch.cast(self.schema)
        except LanceError as error:
            self._failures.append(error)
            raise


def _widened(schema: pa.Schema) -> pa.Schema:
    fields = [field.with_type(_widened_type(field.type)) for field in schema]
    return pa.schema(fields, schema.metadata)


def _widened_type(kind: pa.DataType) -> pa.DataType:
    """The type with ``float`` for half-precision floats, which DuckDB has not."""
    if pa.types.is_float16(kind):
        return pa.float32()
    return with_members(kind, lambda member: member.with_type(_widened_type(member.type)))
