"""Columns computed by a function of the user, from batches of rows.

The function is called by the thread that started the change, for one batch after another in the order of the rows;
the rows of the next batch are read meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any, Protocol

import pyarrow as pa

from lancecy.changes.checkpoint_files import BatchUDFCheckpoint
from lancecy.changes.column_values import Batches, FragmentScan, InOrder, ids_read
from lancecy.errors import SchemaError, printable
from lancecy.interop.casts import storage_type
from lancecy.interop.streams import record_batches
from lancecy.keyword_options import checked_arguments
from lancecy.scanning.batches import cut, exact_batches
from lancecy.scanning.context import ScanContext
from lancecy.scanning.request import ScanRequest, make_request
from lancecy.scanning.task import ScanUnit
from lancecy.scanning.threads import read_ahead
from lancecy.table.manifest import Fragment

__all__ = ["BatchStore", "BatchUDF", "FunctionValues", "Functions", "batch_udf"]


class BatchUDF:
    """A function that computes new columns; made by :func:`batch_udf`.

    Parameters
    ----------
    func : function of a pyarrow.RecordBatch
    output_schema : pyarrow.Schema, optional
    checkpoint_file : str or path, optional

    Attributes
    ----------
    cache : BatchUDFCheckpoint or None
        The checkpoint file.
    """

    def __init__(
        self,
        func: Callable[[pa.RecordBatch], Any],
        output_schema: pa.Schema | None = None,
        checkpoint_file: str | os.PathLike[str] | None = None,
    ) -> None:
        self.func = func
        self.output_schema = output_schema
        self.cache = None if checkpoint_file is None else BatchUDFCheckpoint(checkpoint_file)

    def __call__(self, batch: pa.RecordBatch) -> Any:
        """The result of the function itself."""
        return self.func(batch)


@checked_arguments()
def batch_udf(
    output_schema: pa.Schema | None = None, checkpoint_file: str | os.PathLike[str] | None = None
) -> Callable[[Callable[[pa.RecordBatch], Any]], BatchUDF]:
    """Decorator for a function that computes new columns for :meth:`lancecy.Dataset.add_columns`.

    Parameters
    ----------
    output_schema : pyarrow.Schema, optional
        Columns that the function returns; those of its first result if not given.
    checkpoint_file : str or path, optional
        A local file that keeps what was computed. After a crash or an error, ``add_columns`` with the same file computes
        only what is missing. It is removed when the columns are part of the table. Results of rows that have changed since
        and damaged ones are computed again. A file of another table, of a function with another name or other columns, or
        one that another process uses is refused. The caller must see to it that a function of that name computes the same
        values; it may be corrected where it failed.

    Returns
    -------
    function
        Takes a function of a ``pyarrow.RecordBatch`` that returns the new columns of these rows: a record batch, a
        table, a pandas frame, or a mapping of names to arrays.

    Examples
    --------
    >>> import lancecy, pyarrow as pa
    >>> @batch_udf(output_schema=pa.schema({"twice": pa.int64()}))
    ... def twice(batch):
    ...     return {"twice": [2 * a for a in batch["a"].to_pylist()]}
    >>> ds = lancecy.write_dataset({"a": [1, 2]}, "memory://doc-batch-udf")
    >>> ds.add_columns(twice)
    >>> ds.to_table()["twice"].to_pylist()
    [2, 4]

    A function that fails, corrected and called again for what is missing only:

    >>> import tempfile
    >>> results, given = f"{tempfile.mkdtemp()}/results", []
    >>> def kept(function):
    ...     return batch_udf(pa.schema({"b": pa.int64()}), results)(function)
    >>> def inverse(batch):
    ...     return {"b": [60 // (a - 2) for a in batch["a"].to_pylist()]}
    >>> try:
    ...     ds.add_columns(kept(inverse), batch_size=1)
    ... except ZeroDivisionError:
    ...     pass
    >>> def inverse(batch):
    ...     given.extend(batch["a"].to_pylist())
    ...     return {"b": [None for a in batch["a"].to_pylist()]}
    >>> ds.add_columns(kept(inverse), batch_size=1)
    >>> given, ds.to_table()["b"].to_pylist()
    ([2], [-60, None])
    """

    def made(func: Callable[[pa.RecordBatch], Any]) -> BatchUDF:
        return BatchUDF(func, output_schema, checkpoint_file)

    return made


class BatchStore(Protocol):
    """Keeps results of a function beyond the end of this process."""

    @property
    def columns(self) -> pa.Schema | None:
        """Columns of the results, None if nothing is stored yet."""

    def begin(self, columns: pa.Schema, reads: frozenset[int]) -> None:
        """The columns are known; nothing is stored before.

        Parameters
        ----------
        columns : pyarrow.Schema
        reads : frozenset of int
            Ids of the fields that the function gets.
        """

    def find(self, fragment: Fragment, start: int, num_rows: int) -> pa.RecordBatch | None:
        """The result for some rows of a fragment, None if it is not stored.

        Parameters
        ----------
        fragment : Fragment
        start : int
            Number of the first row among the live rows of the fragment.
        num_rows : int
        """

    def store(self, fragment: Fragment, start: int, result: pa.RecordBatch) -> None:
        """Store the result for some rows of a fragment.

        Parameters
        ----------
        fragment : Fragment
        start : int
        result : pyarrow.RecordBatch
        """


class _Memory:
    """Keeps the first result, from which the columns were inferred."""

    def __init__(self) -> None:
        self._results: dict[tuple[int, int], pa.RecordBatch] = {}

    @property
    def columns(self) -> pa.Schema | None:
        return None

    def begin(self, columns: pa.Schema, reads: frozenset[int]) -> None:
        pass

    def find(self, fragment: Fragment, start: int, num_rows: int) -> pa.RecordBatch | None:
        return self._results.pop((fragment.id, start), None)

    def store(self, fragment: Fragment, start: int, result: pa.RecordBatch) -> None:
        pass

    def put(self, fragment: Fragment, result: pa.RecordBatch) -> None:
        self._results[fragment.id, 0] = result


class Functions:
    """A function, and how it is called.

    Parameters
    ----------
    function : function of a pyarrow.RecordBatch, or BatchUDF
    read_columns : sequence of str or None
    batch_size : int or None
    store : BatchStore, optional
    """

    def __init__(
        self,
        function: Callable[[pa.RecordBatch], Any] | BatchUDF,
        read_columns: Sequence[str] | None,
        batch_size: int | None,
        store: BatchStore | None = None,
    ) -> None:
        self._function = function
        self._columns = None if read_columns is None else list(read_columns)
        self._batch_size = batch_size
        self._first = _Memory()
        self._store = store or self._first
        stated = function.output_schema if isinstance(function, BatchUDF) else None
        self._schema = self._store.columns if stated is None else stated

    def on(self, context: ScanContext, fragments: Sequence[Fragment] | None = None) -> FunctionValues:
        """The values of a version.

        Parameters
        ----------
        context : ScanContext
        fragments : sequence of Fragment, optional
            Those that get the columns; all of them if not given.

        Raises
        ------
        ColumnNotFoundError
            The table has no such column to read.
        ValueError
            The function has no output schema, and there is no row to infer it from.
        """
        schema = context.snapshot.schema.scanned.arrow
        if self._columns is None:
            # Other writers may add columns before the next attempt.
            self._columns = list(schema.names)
        request = make_request(schema, self._columns, batch_size=self._batch_size)
        if self._schema is None:
            some = context.fragments if fragments is None else fragments
            self._schema = self._inferred(context, request, some)
        values = FunctionValues(context, request, self._function, self._schema, self._store, self._first)
        self._store.begin(self._schema, values.reads)
        return values

    def _inferred(
        self, context: ScanContext, request: ScanRequest, fragments: Sequence[Fragment]
    ) -> pa.Schema:
        fragment = next((fragment for fragment in fragments if context.live_rows(fragment)), None)
        if fragment is None:
            raise ValueError(
                "the table has no rows from which the columns of the function could be inferred: state them, with "
                "@lancecy.batch_udf(output_schema=…)"
            )
        scan = FragmentScan(context, request, [fragment])
        batch = next(_batches(map(scan.read, scan.units(fragment)), request))
        with _told(0, batch.num_rows):
            returned = self._function(batch)
        _names(returned)
        found = record_batches(returned).read_all().combine_chunks()
        columns: pa.Schema = found.schema.remove_metadata()
        self._first.put(fragment, _one_batch(found))
        return columns


class FunctionValues(InOrder):
    """Columns that a function computes for the rows of one version; see :class:`Functions`."""

    def __init__(
        self,
        context: ScanContext,
        request: ScanRequest,
        function: Callable[[pa.RecordBatch], Any],
        schema: pa.Schema,
        store: BatchStore,
        first: _Memory,
    ) -> None:
        self._request, self._function, self._store, self._first = request, function, store, first
        self.schema = schema
        """Columns of the results."""
        self.reads = ids_read(context.projection(request).fields)

    def in_order(
        self, context: ScanContext, fragments: Sequence[Fragment]
    ) -> Iterator[tuple[Fragment, Batches]]:
        """See ``column_values.InOrder``."""
        if not fragments:
            return
        scan = FragmentScan(context, self._request, fragments)
        firsts = dict(zip((f.id for f in context.fragments), context.row_starts().tolist(), strict=False))

        def read(unit: ScanUnit) -> pa.Table:
            return scan.read(unit)

        units = [unit for fragment in fragments for unit in scan.units(fragment)]
        found = groupby(read_ahead(context, units, read), key=lambda item: item[0].fragment)
        pending = next(found, None)
        for fragment in fragments:
            if pending is None or pending[0] != fragment.id:
                yield fragment, iter(())
                continue
            tables = (table for _, table in pending[1])
            yield fragment, self._results(fragment, _batches(tables, self._request), firsts[fragment.id])
            pending = next(found, None)

    def _results(self, fragment: Fragment, batches: Batches, first_row: int) -> Batches:
        start = 0
        for batch in batches:
            yield self._result(fragment, start, batch, first_row + start)
            start += batch.num_rows

    def _result(self, fragment: Fragment, start: int, batch: pa.RecordBatch, row: int) -> pa.RecordBatch:
        found = self._store.find(fragment, start, batch.num_rows)
        is_new = found is None
        if found is None:
            found = self._first.find(fragment, start, batch.num_rows)
        if found is None:
            with _told(row, batch.num_rows):
                returned = self._function(batch)
            found = checked_result(returned, self.schema, row)
        if found.num_rows != batch.num_rows:
            raise SchemaError(
                f"the function returned {found.num_rows} rows for the {batch.num_rows} rows from row {row} on "
                f"(fragment {fragment.id}): it returns one for each",
                difference="rows",
            )
        if is_new:
            self._store.store(fragment, start, found)
        return found


@contextmanager
def _told(row: int, num_rows: int) -> Iterator[None]:
    """Add to an error of the function which rows it was called with."""
    try:
        yield
    except Exception as error:
        error.add_note(
            f"The function was called with rows {row} to {row + num_rows - 1}; no column was added."
        )
        raise


def _batches(tables: Iterator[pa.Table], request: ScanRequest) -> Batches:
    pieces = (batch for table in tables for batch in cut(table, request))
    return pieces if request.batch_size is None else exact_batches(pieces, request.batch_size)


def checked_result(returned: Any, schema: pa.Schema, first_row: int) -> pa.RecordBatch:
    """What a function returned, as a batch of a schema.

    Parameters
    ----------
    returned : object
        Arrow, pandas, or a mapping of names to arrays.
    schema : pyarrow.Schema
    first_row : int
        For errors.

    Raises
    ------
    SchemaError
        A column is missing, unknown, or of another type.

    Examples
    --------
    >>> checked_result({"a": [1]}, pa.schema({"a": pa.int64()}), 0).num_rows
    1
    """
    place = f"the function, called with the rows from row {first_row} on,"
    names = _names(returned)
    if sorted(names) != sorted(schema.names):
        raise SchemaError(
            f"{place} returned the columns {printable(', '.join(names))}, where {printable(', '.join(schema.names))} "
            "are expected",
            difference="columns",
        )
    if isinstance(returned, pa.RecordBatch | pa.Table):
        for field in schema:
            _check_type(returned.schema.field(field.name).type, field, place)
    try:
        table = record_batches(returned, schema).read_all()
    except SchemaError as error:
        raise error.within(f"{place} returned values of another type") from error.__cause__
    return _one_batch(table)


def _names(returned: Any) -> list[str]:
    """Names of the columns that a function returned."""
    if isinstance(returned, pa.RecordBatch | pa.Table):
        return list(returned.schema.names)
    found = getattr(returned, "columns", None)
    if found is None and hasattr(returned, "keys"):
        found = returned.keys()
    if found is None:
        raise TypeError(
            f"the function returned {type(returned).__name__}: it returns a record batch, a table, a pandas frame, or a "
            "mapping of names to arrays"
        )
    return [str(name) for name in found]


def _check_type(found: pa.DataType, field: pa.Field, place: str) -> None:
    """Refuse an Arrow type that is another one by mistake; nulls, and other widths of offsets, fit."""
    kinds = (storage_type(found), storage_type(field.type))
    is_same = kinds[0].equals(kinds[1]) or pa.types.is_null(found) or _wide(kinds[0]).equals(_wide(kinds[1]))
    if not is_same:
        raise SchemaError(
            f"{place} returned column {printable(field.name)!r} as {printable(found)}, where {printable(field.type)} is "
            "expected",
            difference=f"{field.name}: {found} is not {field.type}",
        )


def _wide(kind: pa.DataType) -> pa.DataType:
    """The type with the wide form of text, bytes and lists, and without names of items."""
    types = pa.types
    if types.is_string(kind) or types.is_string_view(kind):
        return pa.large_string()
    if types.is_binary(kind) or types.is_binary_view(kind):
        return pa.large_binary()
    if types.is_list(kind) or types.is_large_list(kind):
        return pa.large_list(_wide(kind.value_type))
    if types.is_fixed_size_list(kind):
        return pa.list_(_wide(kind.value_type), kind.list_size)
    if types.is_struct(kind):
        return pa.struct([pa.field(child.name, _wide(child.type)) for child in kind])
    return kind


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    table = table.combine_chunks()
    found = table.to_batches()
    return (
        found[0]
        if found
        else pa.RecordBatch.from_arrays([pa.array([], f.type) for f in table.schema], schema=table.schema)
    )
