"""The rows that differ between two versions of a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from lancecy.changes.between import check_rows_stayed, continuity, continuity_across
from lancecy.changes.lineage import Shared
from lancecy.errors import SchemaError, printable, with_short_tracebacks
from lancecy.scanning.changed_rows import VersionPair
from lancecy.scanning.common_columns import old_columns
from lancecy.scanning.context import ScanContext
from lancecy.scanning.pandas_metadata import DtypeBackend, check_dtype_backend, pandas_frame
from lancecy.scanning.read_changes import (
    CHANGE_TYPE,
    COMMIT_VERSION,
    ChangeSpec,
    ChangeTask,
    batches,
    change_tasks,
    changes_schema,
    count_changes,
    pair_of,
)
from lancecy.scanning.request import ScanRequest, make_request
from lancecy.scanning.task import ScanSpec
from lancecy.table.snapshot import Snapshot

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["DatasetVersion", "RowChanges"]

_ADDED = ("_rowid", CHANGE_TYPE, COMMIT_VERSION)
_BLOCK_BYTES = 64 << 20


class DatasetVersion(Protocol):
    """A dataset at a version, as a comparison needs it."""

    @property
    def context(self) -> ScanContext:
        """State shared by scans."""

    def scan_spec(self, request: ScanRequest, embed_credentials: bool = False, /) -> ScanSpec:
        """The description of a scan that its tasks carry."""


@with_short_tracebacks
class RowChanges:
    """The rows that differ between two versions, made by :meth:`lancecy.Dataset.changes` and :meth:`lancecy.Dataset.diff`.

    Attributes
    ----------
    since, until : int
        The versions; rows that both have with the same values are left out.
    """

    def __init__(
        self,
        old: DatasetVersion | None,
        new: DatasetVersion,
        columns: Sequence[str] | None = None,
        shared: Shared | None = None,
    ) -> None:
        self.since = 0 if old is None else old.context.snapshot.version
        self.until = new.context.snapshot.version
        self._new = new
        self._names = _column_names(new, columns)
        request = make_request(new.context.snapshot.schema.arrow, [*self._names, "_rowid"])
        self._spec = ChangeSpec(None, new.scan_spec(request))
        if old is not None:
            before, after = old.context.snapshot, new.context.snapshot
            if shared is None:
                check_rows_stayed(before, after)
                both = continuity(before, after)
            else:
                both = continuity_across(shared.snapshot, before, after)
            _check_types(before, after, both.field_ids, self._names)
            self._spec = ChangeSpec(
                old.scan_spec(request),
                self._spec.new,
                both.field_ids,
                both.fragments,
                both.row_versions,
                None if shared is None else shared.point,
            )

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the table, then ``_rowid``, ``_change_type`` and ``_commit_version``."""
        context = self._new.context
        return changes_schema(context.projection(self._spec.new.request))

    def spec(self, embed_credentials: bool = False) -> ChangeSpec:
        """The part that all tasks share, for other executors.

        Parameters
        ----------
        embed_credentials : bool
            Put the storage options into it as given, secrets included.
        """
        old, new = self._spec.old, self._spec.new
        return replace(
            self._spec,
            old=None
            if old is None
            else replace(old, location=old.location.with_credentials(embed_credentials)),
            new=replace(new, location=new.location.with_credentials(embed_credentials)),
        )

    def tasks(self, blocksize: int | None = None) -> list[ChangeTask]:
        """Pieces of work for other executors; no data is read.

        Parameters
        ----------
        blocksize : int or None, bytes
            Largest size of the rows that a task looks at; None makes one task per fragment and version.
        """
        return change_tasks(self._pair, self._spec.new.request, blocksize)

    @cached_property
    def _pair(self) -> VersionPair:
        return pair_of(self._spec, self._new.context.session)

    def count_rows(self) -> dict[str, int]:
        """Number of changes by ``_change_type``; reads metadata only.

        Examples
        --------
        >>> import lancecy
        >>> ds = lancecy.write_dataset({"n": [1, 2, 3]}, "memory://counted")
        >>> ds.delete("n = 2")
        {'num_deleted_rows': 1}
        >>> ds.changes(since=1).count_rows()
        {'delete': 1, 'update_preimage': 0, 'insert': 0, 'update_postimage': 0}
        """
        return count_changes(self._pair, self.tasks())

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The changes as a stream of record batches in bounded memory: deletes and old values first."""
        return batches(self._spec, self.tasks(_BLOCK_BYTES), self._new.context.session)

    def to_reader(self) -> pa.RecordBatchReader:
        """The stream as an Arrow record batch reader."""
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def to_table(self) -> pa.Table:
        """The changes as one Arrow table: deletes and old values first."""
        return pa.Table.from_batches(self.to_batches(), self.schema)

    def to_pandas(self, dtype_backend: DtypeBackend = "pyarrow") -> pd.DataFrame:
        """The changes as a pandas DataFrame.

        Parameters
        ----------
        dtype_backend : "pyarrow", "numpy_nullable" or "numpy"
            As for :meth:`lancecy.Dataset.to_pandas`.
        """
        check_dtype_backend(dtype_backend)
        frame: pd.DataFrame = pandas_frame(self.to_table(), dtype_backend)
        return frame

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """A new stream of the changes as an Arrow C capsule."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """The schema as an Arrow C capsule."""
        return self.schema.__arrow_c_schema__()

    def __repr__(self) -> str:
        return f"RowChanges({printable(self._new.context.snapshot.uri)!r}, since={self.since}, until={self.until})"


def _column_names(new: DatasetVersion, columns: Sequence[str] | None) -> list[str]:
    """The columns of the table that are returned."""
    schema = new.context.snapshot.schema
    own = [name for name in _ADDED if name in schema.names]
    if own:
        raise ValueError(f"the table has a column {own[0]!r}, the name of a column that tells of changes")
    if isinstance(columns, str):
        raise TypeError(f"columns is a list of names, not the text {columns!r}")
    return [name for name in (schema.names if columns is None else columns) if name not in _ADDED]


def _check_types(old: Snapshot, new: Snapshot, same_ids: frozenset[int], names: Sequence[str]) -> None:
    """Raise SchemaError if a column was cast."""
    cast = old_columns(old.schema, new.schema, same_ids).cast
    wanted = {new.schema.resolve(name)[0] for name in names}
    told = [f"{printable(text)}" for name, text in cast.items() if name in wanted]
    if told:
        raise SchemaError(
            f"types changed between versions {old.version} and {new.version}: {'; '.join(told)}. Name the other columns "
            "in columns=[…], or compare versions on one side of that change",
            difference=told[0],
        )
