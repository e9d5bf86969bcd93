"""Compaction on the workers of Dask."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import Any, Unpack

from lancecy.api.datasets import Dataset, opened
from lancecy.changes.compact import CompactionMetrics, compacted
from lancecy.changes.compaction_options import RUN_DEFAULTS, CompactionRunOptions, RunRequest
from lancecy.changes.shared_compaction import rewritten_by
from lancecy.dask.tasks import results
from lancecy.keyword_options import shared_options

__all__ = ["compact"]


@shared_options(CompactionRunOptions, RUN_DEFAULTS)
def compact(
    uri: str | os.PathLike[str] | Dataset,
    storage_options: Mapping[str, Any] | None = None,
    *,
    compute_kwargs: Mapping[str, Any] | None = None,
    embed_credentials: bool = False,
    **options: Unpack[CompactionRunOptions],
) -> CompactionMetrics:
    """Merge small fragments of a table and remove deleted rows: workers write the files, one commit.

    Parameters
    ----------
    uri : str, path or lancecy.Dataset
        Must be reachable from the workers under the same name. A Dataset moves to the new version.
    storage_options : mapping, optional
        As for :func:`lancecy.dataset`; not allowed with a Dataset, which has its own.
    compute_kwargs : mapping, optional
        Arguments of ``dask.compute``, such as ``{"scheduler": "processes"}`` or ``{"retries": 3}``.
    embed_credentials : bool
        As for :func:`lancecy.write_dask`.
    target_rows_per_fragment, max_rows_per_group, max_bytes_per_file, materialize_deletions, \
    materialize_deletions_threshold, defer_index_remap, num_threads, batch_size, io_buffer_size, compaction_mode, \
    binary_copy_read_batch_bytes, max_source_fragments, max_source_rows, max_source_bytes, excluded_fragment_ids, \
    data_storage_version, target_bases, durability, commit_message, transaction_properties, conflict_retries, retry_timeout
        As for :meth:`lancecy.optimize.DatasetOptimizer.compact_files`.

    Returns
    -------
    CompactionMetrics

    Raises
    ------
    LanceError, ValueError, TypeError
        As for :meth:`lancecy.optimize.DatasetOptimizer.compact_files`; errors of tasks are raised here.

    Notes
    -----
    Tasks may be repeated: only results that arrive are committed, each once. Files of lost attempts remain, invisible
    to readers, until a cleanup.

    Examples
    --------
    >>> import lancecy.dask
    >>> lancecy.dask.compact("example.lance", target_rows_per_fragment=500).fragments_added
    2
    """
    ds = opened(uri, storage_options=storage_options)
    request = RunRequest.of(options)
    run = partial(results, "compact", compute_kwargs)
    return compacted(ds, request, partial(rewritten_by, run, ds, request.commit.durable, embed_credentials))
