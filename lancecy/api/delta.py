"""The changes between two versions under pylance's names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, Self

import pyarrow as pa
import pyarrow.compute as pc

from lancecy.api.row_changes import DatasetVersion, RowChanges
from lancecy.api.scanners import Scanner
from lancecy.changes.transactions import Transaction
from lancecy.errors import UnsupportedError, with_short_tracebacks
from lancecy.scanning.request import make_request
from lancecy.table.refs.reference import Reference

__all__ = ["ComparedDataset", "DatasetDelta"]

_CREATED, _UPDATED = "_row_created_at_version", "_row_last_updated_at_version"
_DELETED = pa.schema([pa.field("_rowid", pa.uint64())])


class ComparedDataset(DatasetVersion, Protocol):
    """A dataset, as a comparison of its versions needs it."""

    def _unmoved(self) -> DatasetVersion:
        """This version, which changes of the dataset do not move."""

    def checkout_version(self, version: Reference) -> Self:
        """The same table at another version."""

    def read_transaction(self, version: int) -> Transaction | None:
        """The transaction that made a version."""


@with_short_tracebacks
class DatasetDelta:
    """The changes after ``begin_version``, up to ``end_version``; made by :meth:`lancecy.Dataset.delta`.

    Rows are those of ``end_version``, chosen by the versions that created and last updated them.
    """

    def __init__(self, dataset: ComparedDataset, begin_version: int, end_version: int) -> None:
        self._dataset = dataset
        self._begin = begin_version
        self._end = end_version

    def list_transactions(self) -> list[Transaction | None]:
        """The transactions of the versions, oldest first; None for one that cannot be read.

        Raises
        ------
        NotFoundError
            A version in between was removed.
        """
        return [self._dataset.read_transaction(v) for v in range(self._begin + 1, self._end + 1)]

    def get_inserted_rows(self) -> pa.RecordBatchReader:
        """The rows that were created, with ``_rowid`` and the versions that created and last updated them.

        Raises
        ------
        UnsupportedError
            The table has no stable row ids, and so no versions of rows: :meth:`lancecy.Dataset.changes` has no such
            limit.
        NotFoundError
            There is no such version.
        """
        return self._rows(f"{_CREATED} > {self._begin} AND {_CREATED} <= {self._end}")

    def get_updated_rows(self) -> pa.RecordBatchReader:
        """The rows that were there before and have other values; columns and errors as :meth:`get_inserted_rows`."""
        return self._rows(
            f"{_CREATED} <= {self._begin} AND {_UPDATED} > {self._begin} AND {_UPDATED} <= {self._end}"
        )

    def get_deleted_row_ids(self) -> pa.RecordBatchReader:
        """The ids of the rows that are gone, as a column ``_rowid``.

        Raises
        ------
        UnsupportedError
            The table has no stable row ids.
        ValueError
            ``begin_version`` is later than ``end_version``.
        NotFoundError
            There is no such version.
        """
        self._check_row_ids(self._dataset)
        if self._begin > self._end:
            raise ValueError(f"begin_version {self._begin} is later than end_version {self._end}")
        if not self._begin:
            return pa.RecordBatchReader.from_batches(_DELETED, [])
        old, new = (self._dataset.checkout_version(version) for version in (self._begin, self._end))
        return pa.RecordBatchReader.from_batches(_DELETED, self._deleted(old, new))

    @staticmethod
    def _deleted(old: ComparedDataset, new: ComparedDataset) -> Iterator[pa.RecordBatch]:
        for batch in RowChanges(old, new, []).to_batches():
            gone = batch.filter(pc.equal(batch["_change_type"], "delete"))
            if gone.num_rows:
                yield pa.RecordBatch.from_arrays([gone["_rowid"]], schema=_DELETED)

    def _rows(self, condition: str) -> pa.RecordBatchReader:
        end = self._dataset.checkout_version(self._end)
        self._check_row_ids(end)
        schema = end.context.snapshot.schema
        names = [*schema.names, "_rowid", _CREATED, _UPDATED]
        # Not by the dataset's own method, which adds its default options.
        return Scanner(end.context, end.scan_spec, make_request(schema.arrow, names, condition)).to_reader()

    def _check_row_ids(self, dataset: ComparedDataset) -> None:
        if not dataset.context.snapshot.manifest.has_stable_row_ids:
            raise UnsupportedError(
                "a delta needs stable row ids, which tables get when they are created "
                "(enable_stable_row_ids=True); without them, changes() compares versions",
                feature="delta without stable row ids",
            )
