"""A dataset as a ``pyarrow.dataset.Dataset``.

DuckDB calls ``scanner(columns=, filter=)`` of such an object, Polars ``to_batches``; both pass
pyarrow expressions, which are translated without Substrait and so for every type.

Some pyarrow functions (joins, unions, Acero) use the C++ object inside pyarrow's class, which lancecy
does not have. It passes one that scans a missing file whose name is the remedy, so that such a function
raises an error instead of crashing or returning nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
from pyarrow import fs

from lancecy.encodings.arrow.columns import unsliced_rows
from lancecy.errors import UnsupportedError
from lancecy.interop.source import Scan, Source
from lancecy.scanning.column_forms import as_output

__all__ = ["PyarrowDataset", "to_pyarrow_dataset"]

_REMEDY = "read by lancecy, not from files pyarrow could open - call scanner() or to_table() of this dataset"


def to_pyarrow_dataset(source: Source, read_dictionary: Sequence[str] | bool | None = None) -> PyarrowDataset:
    """The dataset as a pyarrow dataset; see :meth:`lancecy.Dataset.to_pyarrow_dataset`.

    Parameters
    ----------
    source : Dataset
    read_dictionary : list of names or bool, optional
        As for :meth:`lancecy.Dataset.scanner`.
    """
    return PyarrowDataset(source, read_dictionary=read_dictionary)


class PyarrowDataset(pads.FileSystemDataset):  # type: ignore[misc]
    """A Lance dataset at one version, as a ``pyarrow.dataset.Dataset``.

    Parameters
    ----------
    source : Dataset
    filter : pyarrow.compute.Expression, optional
        Every scan returns only rows for which it is true.
    read_dictionary : list of names or bool, optional
        Text columns that are dictionaries, in the schema and in every scan.

    Notes
    -----
    Columns and filters are pushed into the scan. Options for threads, readahead and memory pools are accepted
    and ignored: the scan decides these itself.
    """

    def __init__(
        self,
        source: Source,
        filter: pc.Expression | None = None,
        read_dictionary: Sequence[str] | bool | None = None,
    ) -> None:
        schema = source.scanner(read_dictionary=read_dictionary).schema if read_dictionary else source.schema
        file_format = pads.IpcFileFormat()
        nowhere = file_format.make_fragment(_REMEDY, filesystem=fs.LocalFileSystem())
        super().__init__([nowhere], schema, file_format, fs.LocalFileSystem())
        self._source = source
        self._filter = filter
        self._read_dictionary = read_dictionary

    def __reduce__(self) -> tuple[Any, ...]:
        return (PyarrowDataset, (self._source, self._filter, self._read_dictionary))

    def __repr__(self) -> str:
        return f"PyarrowDataset(uri={self._source.uri!r}, version={self._source.version})"

    # -- what is read ---------------------------------------------------------

    def _scan(
        self,
        columns: Any = None,
        filter: pc.Expression | None = None,
        batch_size: int | None = None,
        limit: int | None = None,
        **ignored: Any,
    ) -> Scan:
        unknown = set(ignored) - _WITHOUT_EFFECT
        if unknown:
            raise TypeError(f"a scan has no option {', '.join(sorted(unknown))}")
        kept = _both(self._filter, filter)
        return self._source.scanner(
            _columns(columns), kept, batch_size=batch_size, limit=limit, read_dictionary=self._read_dictionary
        )

    def scanner(
        self,
        columns: Any = None,
        filter: pc.Expression | None = None,
        batch_size: int | None = None,
        **options: Any,
    ) -> Scan:
        """The scan: a :class:`lancecy.Scanner`, which has the methods of pyarrow's.

        Pyarrow's own scanner would read up to a gigabyte ahead, also for a query that wants ten rows.

        Parameters
        ----------
        columns : list of names, or mapping of names to expressions, optional
        filter : pyarrow.compute.Expression, optional
        batch_size : int, optional
            Largest number of rows of a batch.
        **options
            ``use_threads`` and similar ones are ignored.
        """
        return self._scan(columns, filter, batch_size, **options)

    def to_table(self, columns: Any = None, filter: pc.Expression | None = None, **options: Any) -> pa.Table:
        """The rows as a table; arguments as for :meth:`scanner`."""
        return self._scan(columns, filter, **options).to_table()

    def to_batches(
        self, columns: Any = None, filter: pc.Expression | None = None, **options: Any
    ) -> Iterator[pa.RecordBatch]:
        """The rows as a stream; arguments as for :meth:`scanner`."""
        return iter(self._scan(columns, filter, **options).to_reader())

    def head(
        self, num_rows: int, columns: Any = None, filter: pc.Expression | None = None, **options: Any
    ) -> pa.Table:
        """The first rows.

        Parameters
        ----------
        num_rows : int
        columns, filter, **options
            As for :meth:`scanner`.
        """
        return self._scan(columns, filter, limit=num_rows, **options).to_table()

    def count_rows(self, filter: pc.Expression | None = None, **options: Any) -> int:
        """Number of rows, from metadata without a filter; arguments as for :meth:`scanner`."""
        return self._scan([], filter, **options).count_rows()

    def take(
        self, indices: Any, columns: Any = None, filter: pc.Expression | None = None, **options: Any
    ) -> pa.Table:
        """Rows by number.

        Parameters
        ----------
        indices : (n,) integers
        columns, filter, **options
            As for :meth:`scanner`; with a filter the numbers count the rows that pass it.
        """
        if self._filter is None and filter is None:
            return self._in_form(self._source.take(indices, _columns(columns)))
        return unsliced_rows(self.to_table(columns, filter, **options)).take(indices)

    def _in_form(self, rows: pa.Table) -> pa.Table:
        """The rows with texts as dictionaries where the schema has these."""
        known = set(self.schema.names)
        for index, name in enumerate(rows.column_names):
            column = rows.column(index)
            made = as_output(column, self.schema.field(name)) if name in known else column
            if made.type != column.type:
                rows = rows.set_column(index, name, made)
        return rows

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """All rows as an Arrow C stream capsule, which ``pyarrow.dataset.write_dataset`` asks for."""
        return self._scan().to_reader().__arrow_c_stream__(requested_schema)

    # -- other datasets made of it --------------------------------------------

    def filter(self, expression: pc.Expression) -> PyarrowDataset:
        """The same dataset with only the rows for which the expression is true.

        Parameters
        ----------
        expression : pyarrow.compute.Expression
        """
        return PyarrowDataset(self._source, _both(self._filter, expression), self._read_dictionary)

    def sort_by(self, sorting: Any, **options: Any) -> pads.Dataset:
        """The rows sorted, in memory; arguments as in pyarrow."""
        return pads.InMemoryDataset(self.to_table().sort_by(sorting))

    def join(self, right_dataset: Any, *args: Any, **options: Any) -> pads.Dataset:
        """A join in memory; arguments as in pyarrow."""
        right = right_dataset.to_table() if isinstance(right_dataset, pads.Dataset) else right_dataset
        return pads.InMemoryDataset(self.to_table().join(right, *args, **options))

    def join_asof(self, right_dataset: Any, *args: Any, **options: Any) -> pads.Dataset:
        """An as-of join in memory; arguments as in pyarrow."""
        right = right_dataset.to_table() if isinstance(right_dataset, pads.Dataset) else right_dataset
        return pads.InMemoryDataset(self.to_table().join_asof(right, *args, **options))

    def replace_schema(self, schema: pa.Schema) -> NoReturn:
        """Not supported: cast the result instead.

        Raises
        ------
        UnsupportedError
        """
        raise UnsupportedError(
            "the schema of a Lance table is its own: cast what to_table() returns", feature="replace_schema"
        )

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[Any]:
        """The table's fragments (:class:`lancecy.LanceFragment`), all of them: a filter excludes none for certain.

        Parameters
        ----------
        filter : pyarrow.compute.Expression, optional
        """
        return iter(self._source.get_fragments())

    # -- what only file datasets have -----------------------------------------

    @property
    def files(self) -> list[str]:
        """Data files by name."""
        return [file.path for fragment in self._source.get_fragments() for file in fragment.data_files()]


def _both(first: pc.Expression | None, second: pc.Expression | None) -> pc.Expression | None:
    if first is None or second is None:
        return second if first is None else first
    return first & second


def _columns(columns: Any) -> Any:
    """Columns in the form of a scan: names in a list, expressions in a mapping."""
    if columns is None or isinstance(columns, dict):
        return columns
    return list(columns)


_WITHOUT_EFFECT: set[str] = {
    "batch_readahead",
    "cache_metadata",
    "fragment_readahead",
    "fragment_scan_options",
    "memory_pool",
    "use_threads",
}
