"""Operations on the rows and columns of tables. They open the table and delegate."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyarrow as pa
from lance_namespace import (
    AlterTableAddColumnsRequest,
    AlterTableAddColumnsResponse,
    AlterTableAlterColumnsRequest,
    AlterTableAlterColumnsResponse,
    AlterTableDropColumnsRequest,
    AlterTableDropColumnsResponse,
    AnalyzeTableQueryPlanRequest,
    CountTableRowsRequest,
    CountTableRowsResponse,
    DeleteFromTableRequest,
    DeleteFromTableResponse,
    ExplainTableQueryPlanRequest,
    GetTableStatsRequest,
    GetTableStatsResponse,
    InsertIntoTableRequest,
    InsertIntoTableResponse,
    InvalidInputError,
    MergeInsertIntoTableRequest,
    MergeInsertIntoTableResponse,
    QueryTableRequest,
    QueryTableResponse,
    TableNotFoundError,
    UnsupportedOperationError,
    UpdateFieldMetadataRequest,
    UpdateFieldMetadataResponse,
    UpdateTableRequest,
    UpdateTableResponse,
    UpdateTableSchemaMetadataRequest,
    UpdateTableSchemaMetadataResponse,
)
from lance_namespace_urllib3_client.models import FragmentStats, FragmentSummary

from lancecy.api.datasets import Dataset
from lancecy.api.scanners import Scanner
from lancecy.errors import ExistsError
from lancecy.namespace.base import choice
from lancecy.namespace.creation import rows_of_stream
from lancecy.namespace.failures import with_codes
from lancecy.namespace.indexing import Indexing
from lancecy.namespace.names import path_of
from lancecy.namespace.schemas import arrow_type, counts
from lancecy.namespace.tables import VersionAsked, last_transaction

__all__ = ["Contents"]


class Contents(Indexing):
    """The methods that read and change the rows and columns of a table.

    What does not exist, such as the table, raises the error that ``lance_namespace`` has for it.
    """

    # -- rows -------------------------------------------------------------------------------------

    @with_codes
    def count_table_rows(self, request: CountTableRowsRequest) -> CountTableRowsResponse:
        """Number of rows of a table, or of those that match a predicate."""
        return CountTableRowsResponse(count=self._dataset(request).count_rows(request.predicate))

    @with_codes
    def insert_into_table(
        self, request: InsertIntoTableRequest, request_data: bytes
    ) -> InsertIntoTableResponse:
        """Add rows, or with mode Overwrite replace all. They become the first version of a declared table.

        Parameters
        ----------
        request : InsertIntoTableRequest
        request_data : bytes
            An Arrow IPC stream.
        """
        mode = choice("mode", request.mode, ("Append", "Overwrite"))
        rows = rows_of_stream(request_data)
        ds = self._inserted(request, rows, mode.lower())
        return InsertIntoTableResponse(num_inserted_rows=rows.num_rows, version=ds.version)

    def _inserted(self, request: InsertIntoTableRequest, rows: pa.Table, mode: Any) -> Dataset:
        found = self._table(path_of(request.id, kind="table"))
        asked = VersionAsked(branch=request.branch)
        try:
            ds = self._opened(found, asked)
        except TableNotFoundError:
            # Another process may write the first rows at any moment; these come after them then.
            if self._directories.is_only_declared(found.directory):
                with suppress(ExistsError):
                    return self._write(rows, self._uri_of(found.directory), mode)
            ds = self._opened(found, asked)
        ds.insert(rows, mode=mode)
        return ds

    @with_codes
    def merge_insert_into_table(
        self, request: MergeInsertIntoTableRequest, request_data: bytes
    ) -> MergeInsertIntoTableResponse:
        """Merge rows into a table by key columns.

        Parameters
        ----------
        request : MergeInsertIntoTableRequest
        request_data : bytes
            An Arrow IPC stream.
        """
        rows, ds = rows_of_stream(request_data), self._newest(request)
        builder = ds.merge_insert(list(request.on or ()) or None)
        if request.when_matched_update_all:
            builder = builder.when_matched_update_all(request.when_matched_update_all_filt)
        if request.when_not_matched_insert_all:
            builder = builder.when_not_matched_insert_all()
        if request.when_not_matched_by_source_delete:
            builder = builder.when_not_matched_by_source_delete(
                request.when_not_matched_by_source_delete_filt
            )
        found = builder.execute(rows)
        return MergeInsertIntoTableResponse(
            num_updated_rows=found["num_updated_rows"],
            num_inserted_rows=found["num_inserted_rows"],
            num_deleted_rows=found["num_deleted_rows"],
            version=ds.version,
        )

    @with_codes
    def update_table(self, request: UpdateTableRequest) -> UpdateTableResponse:
        """Set columns of the rows that match a predicate."""
        ds = self._newest(request)
        changed = ds.update(dict(request.updates), where=request.predicate)
        return UpdateTableResponse(updated_rows=changed["num_rows_updated"], version=ds.version)

    @with_codes
    def delete_from_table(self, request: DeleteFromTableRequest) -> DeleteFromTableResponse:
        """Delete the rows that match a predicate."""
        ds = self._newest(request)
        ds.delete(request.predicate)
        return DeleteFromTableResponse(version=ds.version)

    @with_codes
    def query_table(self, request: QueryTableRequest) -> QueryTableResponse:
        """The rows that match a filter, or the k nearest to a vector, as an Arrow IPC file.

        An empty vector means no search. Searches compare every row; fields that steer an index are ignored. The filter is
        applied to the k rows found unless ``prefilter`` is true. Of several vectors, each has k rows, by ``query_index``.

        Raises
        ------
        UnsupportedOperationError
            A text to search for is given.
        """
        rows = self._query(self._dataset(request), request).to_table()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, rows.schema) as writer:
            writer.write_table(rows)
        return QueryTableResponse(data=bytes(sink.getvalue()))

    @with_codes
    def explain_table_query_plan(self, request: ExplainTableQueryPlanRequest) -> str:
        """How a query would be answered, as text."""
        ds = self._newest(request)
        return self._query(ds, request.query).explain_plan(bool(request.verbose))

    @with_codes
    def analyze_table_query_plan(self, request: AnalyzeTableQueryPlanRequest) -> str:
        """Run a query; tell rows, bytes, requests and time of each step, as text."""
        return self._query(self._dataset(request), request).analyze_plan()

    @staticmethod
    def _query(ds: Dataset, request: QueryTableRequest | AnalyzeTableQueryPlanRequest) -> Scanner:
        if request.full_text_query is not None:
            raise UnsupportedOperationError("lancecy has no full-text search: give a filter, or a vector")
        chosen = request.columns
        columns: Any = None
        if chosen is not None:
            columns = chosen.column_names if chosen.column_names is not None else chosen.column_aliases
        options: dict[str, Any] = {"offset": request.offset, "with_row_id": bool(request.with_row_id)}
        vector = request.vector.single_vector or request.vector.multi_vector
        if not vector:
            return ds.scanner(columns, request.filter, limit=request.k, **options)
        nearest = {
            "column": request.vector_column or _vector_column(ds),
            "q": vector,
            "k": request.k + (request.offset or 0),
            "distance_range": (request.lower_bound, request.upper_bound),
            **({} if request.distance_type is None else {"metric": request.distance_type}),
        }
        return ds.scanner(
            columns, request.filter, nearest=nearest, prefilter=bool(request.prefilter), **options
        )

    # -- columns and figures ----------------------------------------------------------------------

    @with_codes
    def alter_table_add_columns(self, request: AlterTableAddColumnsRequest) -> AlterTableAddColumnsResponse:
        """Add columns computed by SQL expressions.

        Raises
        ------
        UnsupportedOperationError
            A column is a virtual or maintained one.
        """
        if any(column.expression is None for column in request.new_columns):
            raise UnsupportedOperationError(
                "a new column needs an expression; virtual and computed columns do not exist"
            )
        expressions = {column.name: column.expression for column in request.new_columns}
        version = self._altered(request, lambda ds: ds.add_columns(expressions))
        return AlterTableAddColumnsResponse(version=version)

    @with_codes
    def alter_table_alter_columns(
        self, request: AlterTableAlterColumnsRequest
    ) -> AlterTableAlterColumnsResponse:
        """Rename columns, cast them, or change whether they may be null.

        Raises
        ------
        UnsupportedOperationError
            A column is a virtual one.
        InvalidInputError
            A type is unknown, or values do not fit it.
        """
        if any(one.virtual_column is not None for one in request.alterations):
            raise UnsupportedOperationError("virtual columns do not exist")
        changes: list[Any] = [
            {
                "path": one.path,
                **({} if one.rename is None else {"name": one.rename}),
                **({} if one.nullable is None else {"nullable": one.nullable}),
                **({} if one.data_type is None else {"data_type": arrow_type(one.data_type)}),
            }
            for one in request.alterations
        ]
        version = self._altered(request, lambda ds: ds.alter_columns(*changes))
        return AlterTableAlterColumnsResponse(version=version)

    @with_codes
    def alter_table_drop_columns(
        self, request: AlterTableDropColumnsRequest
    ) -> AlterTableDropColumnsResponse:
        """Drop columns."""
        version = self._altered(request, lambda ds: ds.drop_columns(request.columns))
        return AlterTableDropColumnsResponse(version=version)

    def _altered(self, request: Any, change: Callable[[Dataset], None]) -> int:
        ds = self._newest(request)
        change(ds)
        return ds.version

    @with_codes
    def update_table_schema_metadata(
        self, request: UpdateTableSchemaMetadataRequest
    ) -> UpdateTableSchemaMetadataResponse:
        """Set keys of the metadata of a table's schema."""
        ds = self._newest(request)
        found = ds.update_schema_metadata(dict(request.metadata or {}))
        return UpdateTableSchemaMetadataResponse(metadata=found, transaction_id=last_transaction(ds))

    @with_codes
    def update_field_metadata(self, request: UpdateFieldMetadataRequest) -> UpdateFieldMetadataResponse:
        """Set keys of the metadata of columns; a null value removes its key.

        Raises
        ------
        InvalidInputError
            Some columns are to keep their other keys, and some are not.
        """
        if len({bool(one.replace) for one in request.updates}) > 1:
            raise InvalidInputError("replace is the same for all columns of a request, which is one commit")
        ds = self._newest(request)
        values = {one.path: one.metadata for one in request.updates}
        if values:
            ds.update_field_metadata(values, replace=bool(request.updates[0].replace))
        schema = ds.context.snapshot.schema
        fields = {
            path: {
                key: value.decode(errors="replace")
                for key, value in schema.path(schema.resolve(path))[-1].metadata.items()
            }
            for path in values
        }
        return UpdateFieldMetadataResponse(version=ds.version, fields=fields)

    @with_codes
    def get_table_stats(self, request: GetTableStatsRequest) -> GetTableStatsResponse:
        """Bytes, rows and fragments of a table."""
        ds = self._newest(request)
        rows = sorted(fragment.count_rows() for fragment in ds.get_fragments())
        stats = ds.stats.dataset_stats()
        return GetTableStatsResponse(
            total_bytes=int(counts(ds)["total_files_size"]),
            num_rows=sum(rows),
            num_indices=len({entry.name for entry in ds.context.snapshot.indices()}),
            fragment_stats=FragmentStats(
                num_fragments=len(rows),
                num_small_fragments=stats["num_small_files"],
                lengths=_summary(rows),
            ),
        )


def _vector_column(ds: Dataset) -> str:
    """The one column of vectors of a table.

    Raises
    ------
    InvalidInputError
        There is none, or there are several.
    """
    found: list[str] = [field.name for field in ds.schema if pa.types.is_fixed_size_list(field.type)]
    if len(found) != 1:
        raise InvalidInputError(
            f"the table has {len(found)} columns of vectors: give vector_column{', one of ' + ', '.join(found) if found else ''}"
        )
    return found[0]


def _summary(rows: list[int]) -> FragmentSummary:
    """Least, greatest and mean of some ascending numbers, and their quantiles."""
    at = [rows[min(len(rows) - 1, len(rows) * share // 100)] if rows else 0 for share in (25, 50, 75, 99)]
    least, greatest = (rows[0], rows[-1]) if rows else (0, 0)
    mean = sum(rows) // len(rows) if rows else 0
    return FragmentSummary(min=least, max=greatest, mean=mean, p25=at[0], p50=at[1], p75=at[2], p99=at[3])
