"""Operations on the indices of tables, and on the transactions that made their versions."""

from __future__ import annotations

import json
from typing import Any

from lance_namespace import (
    CreateTableIndexRequest,
    CreateTableIndexResponse,
    CreateTableScalarIndexResponse,
    DescribeTableIndexStatsRequest,
    DescribeTableIndexStatsResponse,
    DescribeTransactionRequest,
    DescribeTransactionResponse,
    DropTableIndexRequest,
    DropTableIndexResponse,
    InvalidInputError,
    ListTableIndicesRequest,
    ListTableIndicesResponse,
    TableIndexAlreadyExistsError,
    TransactionNotFoundError,
    UnsupportedOperationError,
)
from lance_namespace_urllib3_client.models import IndexContent

from lancecy.api.datasets import Dataset
from lancecy.errors import printable
from lancecy.index.write.index_types import INDEX_TYPES
from lancecy.inspection.indices import DescribedIndex
from lancecy.namespace.failures import with_codes
from lancecy.namespace.names import path_of
from lancecy.namespace.pages import page_of
from lancecy.namespace.tables import VersionAsked, last_transaction, transaction
from lancecy.namespace.versions import Versions

__all__ = ["Indexing"]

_ALIASES = {"SCALAR": "BTREE"}
# Types of the specification whose files are not written.
_NOT_WRITTEN = frozenset(
    {
        *("FTS", "INVERTED", "NGRAM", "RTREE", "FM"),
        *(f"IVF_{kind}" for kind in ("FLAT", "SQ", "PQ", "RQ", "HNSW_FLAT", "HNSW_SQ", "HNSW_PQ")),
    }
)
_SUCCEEDED = "SUCCEEDED"


class Indexing(Versions):
    """The methods that concern indices and transactions of a table.

    What does not exist, such as the table, raises the error that ``lance_namespace`` has for it.
    """

    # -- indices ----------------------------------------------------------------------------------

    @with_codes
    def create_table_index(self, request: CreateTableIndexRequest) -> CreateTableIndexResponse:
        """Make an index of a column: BTREE, BITMAP, LABEL_LIST, ZONEMAP or BLOOMFILTER.

        Raises
        ------
        TableIndexAlreadyExistsError
        UnsupportedOperationError
            The type is one of vectors or texts.
        InvalidInputError
            The type is unknown, or does not fit the column.
        """
        return CreateTableIndexResponse(transaction_id=self._indexed(request))

    @with_codes
    def create_table_scalar_index(self, request: CreateTableIndexRequest) -> CreateTableScalarIndexResponse:
        """As :meth:`create_table_index`."""
        return CreateTableScalarIndexResponse(transaction_id=self._indexed(request))

    def _indexed(self, request: CreateTableIndexRequest) -> str | None:
        wanted = request.index_type.upper()
        kind = _ALIASES.get(wanted, wanted)
        if kind in _NOT_WRITTEN - INDEX_TYPES.keys():
            raise UnsupportedOperationError(
                f"indices of type {kind} are not made; those that are: {', '.join(INDEX_TYPES)}"
            )
        if kind not in INDEX_TYPES:
            raise InvalidInputError(
                f"there is no type of index {printable(request.index_type)!r}; it can be {', '.join(INDEX_TYPES)}"
            )
        ds = self._newest(request)
        name = f"{request.column}_idx" if request.name is None else request.name
        if any(index.name == name for index in ds.describe_indices()):
            raise TableIndexAlreadyExistsError(
                f"there is an index {printable(name)!r} already: drop it first"
            )
        ds.create_scalar_index(request.column, kind, request.name, replace=False)
        return last_transaction(ds)

    @with_codes
    def list_table_indices(self, request: ListTableIndicesRequest) -> ListTableIndicesResponse:
        """List the indices of a table."""
        ds = self._dataset(request)
        found = {index.name: index for index in ds.describe_indices()}
        page = page_of(sorted(found), request.page_token, request.limit)
        rows = ds.count_rows()
        indexes = [_content(found[name], rows) for name in page.names]
        return ListTableIndicesResponse(indexes=indexes, page_token=page.token)

    @with_codes
    def describe_table_index_stats(
        self, request: DescribeTableIndexStatsRequest
    ) -> DescribeTableIndexStatsResponse:
        """How many rows an index covers, and in how many segments."""
        found = self._dataset(request).index_statistics(_index_name(request))
        return DescribeTableIndexStatsResponse(
            index_type=found["index_type"],
            num_indexed_rows=found["num_indexed_rows"],
            num_unindexed_rows=found["num_unindexed_rows"],
            num_indices=found["num_indices"],
        )

    @with_codes
    def drop_table_index(self, request: DropTableIndexRequest) -> DropTableIndexResponse:
        """Drop an index."""
        ds = self._newest(request)
        ds.drop_index(_index_name(request))
        return DropTableIndexResponse(transaction_id=last_transaction(ds))

    # -- transactions -----------------------------------------------------------------------------

    @with_codes
    def describe_transaction(self, request: DescribeTransactionRequest) -> DescribeTransactionResponse:
        """The transaction that made a version of a table.

        The id is that of the table, and the number of the version or the id of the transaction.

        Raises
        ------
        TransactionNotFoundError
            There is none, or its version was cleaned up.
        """
        names = path_of(request.id, kind="table")
        if len(names) == 1:
            raise InvalidInputError(
                "the id of a transaction is that of its table, and a version or its own id"
            )
        ds = self._opened(self._table(names[:-1]), VersionAsked())
        for version in _versions_to_search(ds, names[-1]):
            with_id = transaction(ds, version)
            if with_id is not None and (names[-1].isdecimal() or with_id.uuid == names[-1]):
                stated = {
                    "uuid": with_id.uuid,
                    "version": str(version),
                    "read_version": str(with_id.read_version),
                    "operation": with_id.operation_name,
                }
                properties = {**with_id.transaction_properties, **stated}
                return DescribeTransactionResponse(status=_SUCCEEDED, properties=properties)
        raise TransactionNotFoundError(
            f"table {printable('.'.join(names[:-1]))!r} has no transaction {printable(names[-1])!r}"
        )


def _index_name(request: Any) -> str:
    if request.index_name is None:
        raise InvalidInputError("the request needs index_name")
    return str(request.index_name)


def _content(index: DescribedIndex, rows: int) -> IndexContent:
    """An index as the specification describes it."""
    times = [segment.created_at for segment in index.segments if segment.created_at is not None]
    return IndexContent(
        index_name=index.name,
        index_uuid=index.segments[0].uuid,
        columns=list(index.field_names),
        status=_SUCCEEDED,
        index_type=index.index_type,
        type_url=index.type_url,
        num_indexed_rows=index.num_rows_indexed,
        num_unindexed_rows=max(0, rows - index.num_rows_indexed),
        size_bytes=index.total_size_bytes,
        num_segments=len(index.segments),
        created_at=max(times, default=None),
        index_version=index.segments[0].index_version,
        index_details=json.dumps(index.details),
    )


def _versions_to_search(ds: Dataset, text: str) -> list[int]:
    """The version that a text names, or all, the newest first, if it is the id of a transaction."""
    known = [version["version"] for version in ds.versions()][::-1]
    return [version for version in known if str(version) == text] if text.isdecimal() else known
