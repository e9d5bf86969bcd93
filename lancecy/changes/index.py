"""Makes, drops and optimizes scalar indices.

Facts: sheet of indices, part B; table sheet, section 10.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

from lancecy.changes.index_segments import IndexSegments, chosen_fragments, replaced_entries
from lancecy.changes.index_training import IndexPlan, trained
from lancecy.changes.index_upkeep import after_writes, commit_indices, deferred_moves, rebuild
from lancecy.changes.options import CommitRequest, Durability, is_durable
from lancecy.errors import NotFoundError, UnsupportedError
from lancecy.index.catalog import catalog_of
from lancecy.index.write.index_types import IndexKind, title_of
from lancecy.inspection.indices import (
    DescribedIndex,
    described_indices,
    index_statistics,
    listed_indices,
    named_entries,
)
from lancecy.keyword_options import checked_arguments, uuid_of
from lancecy.progress import Progress

__all__ = ["IndexOptimizer", "Indices"]


# Arguments of pylance for full-text indices, and those that it has in the configuration of other indices.
_OF_TEXTS = (
    *("document_granularity", "with_position", "block_size", "memory_limit", "num_workers", "base_tokenizer"),
    *("language", "max_token_length", "lower_case", "stem", "remove_stop_words", "custom_stop_words"),
    *("ascii_folding", "min_ngram_length", "max_ngram_length", "prefix_only"),
)
_OF_CONFIGS = ("rows_per_zone", "number_of_items", "probability", "zone_size")


class Indices(IndexSegments):
    """The dataset methods for scalar indices."""

    @checked_arguments(
        {
            "progress_callback": "progress=… takes a function of a lancecy.progress.Step",
            "format_version": "the format that pylance 14 reads is written",
            **dict.fromkeys(_OF_TEXTS, "there are no full-text indices; filter with LIKE or contains()"),
            **dict.fromkeys(_OF_CONFIGS, "index_type=lancecy.IndexConfig(…, {…}) has it"),
        }
    )
    def create_scalar_index(
        self,
        column: str | Sequence[str],
        index_type: IndexKind = "BTREE",
        name: str | None = None,
        *,
        replace: bool = True,
        train: bool = True,
        fragment_ids: Sequence[int] | None = None,
        index_uuid: str | None = None,
        conflict_retries: int = 10,
        retry_timeout: timedelta = timedelta(seconds=30),
        durability: Durability = "fsync",
        commit_message: str | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Make an index of a column, which finds the rows of a filter without reading the column.

        It covers the rows that the table has now. Rows that are added later are scanned, until
        ``ds.optimize.optimize_indices()`` adds them.

        Parameters
        ----------
        column : str or sequence of one str
            A column, or a member of a struct, such as ``"point.x"``; its case may differ, if one column is meant.
        index_type : "BTREE", "BITMAP", "LABEL_LIST", "ZONEMAP", "BLOOMFILTER" or :class:`lancecy.IndexConfig`
            BTREE: every value in order; for equality, ranges, lists of values, null tests and prefixes.
            BITMAP: the rows of each distinct value; the same filters, for columns of few distinct values.
            LABEL_LIST: the rows of each element of lists; for ``array_has``, ``array_has_any`` and ``array_has_all``.
            ZONEMAP: bounds of every 8192 rows; tiny, for columns whose values are about in order.
            BLOOMFILTER: a filter of every 8192 rows; for equality with values that few rows have.
            An IndexConfig says how many rows instead.
        name : str, optional
            By default the column's name and ``_idx``; if another type of index has that name, ``_idx_2`` and so on.
        replace : bool
            Whether an index of that name, and of that type if no name is given, is replaced.
        train : bool
            False makes an index that covers nothing, for ``optimize_indices`` to fill.
        fragment_ids : sequence of int, optional
            Cover these fragments only.
        index_uuid : str, optional
            Id of the index; a new one by default.
        conflict_retries : int
            Maximum number of further attempts after another writer changed the same index.
        retry_timeout : timedelta
            After this no new attempt is made.
        durability : "fsync" or "none"
            Whether to wait until everything is on disk; "none" is faster, and a system crash may damage the index.
        commit_message : str, optional
            Recorded with the version.
        progress : function of a :class:`lancecy.progress.Step`, optional
            Called with the rows read so far.

        Raises
        ------
        ColumnNotFoundError
            The table has no such column.
        IndexTypeError
            The type of index is unknown, or is not made of columns of that type.
        IndexExistsError
            The name is taken, with ``replace=False``.
        ValueError
            There is no such fragment, or the name is that of an index of another column.
        ConflictError
            Every attempt lost to another writer.
        LanceError
            Rows cannot be read, or files not written; the table is as before.

        Examples
        --------
        >>> import lancecy
        >>> ds = lancecy.write_dataset({"id": [3, 1, 2]}, "memory://doc-create-index")
        >>> ds.create_scalar_index("id", "BTREE")
        """
        options = CommitRequest(message=commit_message, durable=is_durable(durability))
        identity = None if index_uuid is None else uuid_of("index_uuid", index_uuid)

        def attempt() -> None:
            self._check_writable()
            context = self.context
            plan = IndexPlan.of(context.snapshot.schema, column, index_type, name, context.snapshot.indices())
            replaced = replaced_entries(context, plan, replace)
            fragments = chosen_fragments(context, fragment_ids) if train else ()
            made = trained(
                context, plan, fragments, durable=options.durable, progress=progress, identity=identity
            )
            commit_indices(self, [made], replaced, options)

        self._retried(attempt, conflict_retries, retry_timeout)

    @checked_arguments()
    def drop_index(
        self,
        name: str,
        *,
        conflict_retries: int = 10,
        retry_timeout: timedelta = timedelta(seconds=30),
        durability: Durability = "fsync",
        commit_message: str | None = None,
    ) -> None:
        """Drop an index. Its files stay until old versions are cleaned up.

        Parameters
        ----------
        name : str
            As :meth:`list_indices` shows it.
        conflict_retries : int
            Maximum number of further attempts after another writer changed the same index.
        retry_timeout : timedelta
            After this no new attempt is made.
        durability : "fsync" or "none"
            Whether to wait until the version is on disk.
        commit_message : str, optional
            Recorded with the version.

        Raises
        ------
        IndexNotFoundError
            There is no such index.
        ConflictError
            Every attempt lost to another writer.

        Examples
        --------
        >>> import lancecy
        >>> ds = lancecy.write_dataset({"id": [3, 1, 2]}, "memory://doc-drop-index")
        >>> ds.create_scalar_index("id", "BTREE")
        >>> ds.drop_index("id_idx")
        """
        options = CommitRequest(message=commit_message, durable=is_durable(durability))

        def attempt() -> None:
            self._check_writable()
            commit_indices(self, [], named_entries(self.context.snapshot, name), options)

        self._retried(attempt, conflict_retries, retry_timeout)

    @checked_arguments()
    def prewarm_index(
        self,
        name: str,
        *,
        with_position: bool = False,
        index_segments: Iterable[str | uuid.UUID] | None = None,
    ) -> None:
        """Read an index into the cache of the session, so that the first filter does not wait for it.

        The files of remote tables are fetched whole, and the values of a BTREE of integers, dates or times decoded; each as
        far as it takes at most half of the cache.

        Parameters
        ----------
        name : str
            As :meth:`list_indices` shows it.
        with_position : bool
            Of full-text indices, which are not used here.
        index_segments : iterable of str or uuid.UUID, optional
            Only these segments, as :meth:`describe_indices` shows them.

        Raises
        ------
        IndexNotFoundError, NotFoundError
            There is no such index, or no such segment of it.
        UnsupportedError
            Indices of its type are not used here.
        LanceError
            A file of it cannot be read.

        Examples
        --------
        >>> import lancecy
        >>> ds = lancecy.write_dataset({"id": [3, 1, 2]}, "memory://doc-prewarm-index")
        >>> ds.create_scalar_index("id", "BTREE")
        >>> ds.prewarm_index("id_idx")
        """
        snapshot = self.context.snapshot
        entries = named_entries(snapshot, name)
        if index_segments is not None:
            wanted = {uuid_of("a segment of index_segments", one) for one in index_segments}
            unknown = wanted - {entry.uuid for entry in entries}
            if unknown:
                missing = str(next(iter(unknown)))
                raise NotFoundError(
                    f"index {name!r} has no segment {missing}", kind="index segment", name=missing
                )
            entries = [entry for entry in entries if entry.uuid in wanted]
        kind = title_of(entries[0].details_type) if entries else ""
        if with_position or kind in ("Inverted", "Vector"):
            raise UnsupportedError(
                f"index {name!r} is of type {kind}, and {'full-text' if with_position else 'such'} indices are not "
                "used here",
                feature=kind,
            )
        for entry in entries:
            catalog_of(snapshot).load(entry)

    @property
    def has_index(self) -> bool:
        """Whether the table has an index."""
        return bool(listed_indices(self.context.snapshot))

    def list_indices(self) -> list[dict[str, Any]]:
        """The segments of all indices, by name, as mappings.

        Returns
        -------
        list of dict
            ``name``, ``type``, ``uuid``, ``fields`` (names), ``version`` that it was made from, ``fragment_ids`` that
            it covers, and ``base_id``.

        Examples
        --------
        >>> import lancecy
        >>> ds = lancecy.write_dataset({"id": [3, 1, 2]}, "memory://doc-list-indices")
        >>> ds.create_scalar_index("id", "BTREE")
        >>> [(index["name"], index["type"], index["fields"]) for index in ds.list_indices()]
        [('id_idx', 'BTree', ['id'])]
        """
        return listed_indices(self.context.snapshot)

    def describe_indices(self) -> list[DescribedIndex]:
        """The indices, by name, each with its segments.

        Returns
        -------
        list of DescribedIndex
            ``name``, ``index_type``, ``field_names``, ``num_rows_indexed``, ``total_size_bytes``, ``segments``, …

        Examples
        --------
        >>> import lancecy
        >>> ds = lancecy.write_dataset({"id": [3, 1, 2]}, "memory://doc-describe-indices")
        >>> ds.create_scalar_index("id", "BTREE")
        >>> [(index.name, index.num_rows_indexed) for index in ds.describe_indices()]
        [('id_idx', 3)]
        """
        return described_indices(self.context)

    def index_statistics(self, index_name: str) -> dict[str, Any]:
        """Statistics of an index: what its files hold, and how many fragments and rows it covers.

        Parameters
        ----------
        index_name : str
            As :meth:`list_indices` shows it.

        Returns
        -------
        dict
            ``num_indexed_rows``, ``num_unindexed_rows``, ``segments``, …, with pylance's keys.

        Raises
        ------
        IndexNotFoundError
            There is no such index.
        LanceError
            A file of it cannot be read.

        Examples
        --------
        >>> import lancecy
        >>> ds = lancecy.write_dataset({"id": [3, 1, 2]}, "memory://doc-index-statistics")
        >>> ds.create_scalar_index("id", "BTREE")
        >>> ds.index_statistics("id_idx")["segments"]
        [{'min': '1', 'max': '3', 'num_pages': 1}]
        """
        return index_statistics(self.context, index_name)

    def _optimize_indices(
        self,
        names: Sequence[str] | None,
        num_indices_to_merge: int | None,
        retrain: bool,
        options: CommitRequest,
        progress: Progress | None,
    ) -> None:
        """Make the segments that indices lack, and commit them together."""
        self._check_writable()
        snapshot = self.context.snapshot
        planned = after_writes(snapshot, names, num_indices_to_merge, retrain)
        rebuild(self, planned, options, progress, ended=deferred_moves(snapshot) if names is None else ())


class IndexOptimizer:
    """Maintenance of the indices of a table.

    Parameters
    ----------
    dataset : Dataset
    """

    def __init__(self, dataset: Indices) -> None:
        self._indices = dataset

    @checked_arguments()
    def optimize_indices(
        self,
        *,
        num_indices_to_merge: int | None = None,
        index_names: Sequence[str] | None = None,
        retrain: bool = False,
        conflict_retries: int = 10,
        retry_timeout: timedelta = timedelta(seconds=30),
        durability: Durability = "fsync",
        commit_message: str | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Make indices cover all fragments. Nothing is done for an index that does.

        An index has segments, each of some fragments. New segments are made from the column, not from old segments.

        Parameters
        ----------
        num_indices_to_merge : int, optional
            How many of the newest segments become one with the fragments that none covers (1). With 0 these
            fragments get a segment of their own, which takes the least time; many segments make filters slower. On tables
            with stable row ids, BITMAP and LABEL_LIST segments from before an update of rows in these fragments are always
            merged: they name the rows by ids that stay, for the old values, and pylance would return them.
        index_names : list of str, optional
            Only these; by default all BTREE, BITMAP, LABEL_LIST, ZONEMAP and BLOOMFILTER indices.
        retrain : bool
            Whether to make every index anew, as one segment of everything.
        conflict_retries : int
            Maximum number of further attempts after another writer changed the same indices.
        retry_timeout : timedelta
            After this no new attempt is made.
        durability : "fsync" or "none"
            Whether to wait until everything is on disk; "none" is faster, and a system crash may damage the index.
        commit_message : str, optional
            Recorded with the version.
        progress : function of a :class:`lancecy.progress.Step`, optional
            Called with the rows of a segment read so far.

        Raises
        ------
        NotFoundError
            There is no index of a name.
        UnsupportedError
            A named index is of a type that is not written.
        ValueError
            The number of segments is negative.
        ConflictError
            Every attempt lost to another writer.
        LanceError
            Rows cannot be read, or files not written; the table is as before.

        Examples
        --------
        >>> import lancecy
        >>> ds = lancecy.write_dataset({"id": [3, 1, 2]}, "memory://doc-optimize-indices")
        >>> ds.create_scalar_index("id", "BTREE")
        >>> ds = lancecy.write_dataset({"id": [5, 4]}, ds, mode="append")
        >>> ds.optimize.optimize_indices()
        >>> ds.index_statistics("id_idx")["num_unindexed_rows"]
        0
        """
        if num_indices_to_merge is not None and num_indices_to_merge < 0:
            raise ValueError(f"num_indices_to_merge is {num_indices_to_merge}; it cannot be negative")
        options = CommitRequest(message=commit_message, durable=is_durable(durability))
        self._indices._retried(
            lambda: self._indices._optimize_indices(
                index_names, num_indices_to_merge, retrain, options, progress
            ),
            conflict_retries,
            retry_timeout,
        )
