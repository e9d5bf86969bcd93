"""Copies of data files to a base on the workers of Dask."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Unpack

from lancecy.api.datasets import Dataset, opened
from lancecy.changes.file_copies import COPY_DEFAULTS, CopyFilesOptions
from lancecy.changes.shared_copies import copied_by_workers
from lancecy.dask.tasks import results
from lancecy.expr.build import Filter
from lancecy.keyword_options import shared_options
from lancecy.scanning.options import HasFragmentId

__all__ = ["copy_files"]


@shared_options(CopyFilesOptions, COPY_DEFAULTS)
def copy_files(
    uri: str | os.PathLike[str] | Dataset,
    fragments: Iterable[HasFragmentId | int] | Filter = None,
    filter: Filter = None,
    *,
    base: str | os.PathLike[str] | None,
    storage_options: Mapping[str, Any] | None = None,
    compute_kwargs: Mapping[str, Any] | None = None,
    embed_credentials: bool = False,
    **options: Unpack[CopyFilesOptions],
) -> dict[str, int]:
    """Copy data files of fragments to a base, and read them from there: workers copy, one commit.

    Parameters
    ----------
    uri : str, path or lancecy.Dataset
        Must be reachable from the workers under the same name, and so must the bases. A Dataset moves to the new version.
    fragments, filter, base, verify, conflict_retries, retry_timeout
        As for :meth:`lancecy.Dataset.copy_files`.
    storage_options : mapping, optional
        As for :func:`lancecy.dataset`; not allowed with a Dataset, which has its own.
    compute_kwargs : mapping, optional
        Arguments of ``dask.compute``, such as ``{"scheduler": "processes"}`` or ``{"retries": 3}``.
    embed_credentials : bool
        As for :func:`lancecy.write_dask`.

    Returns
    -------
    dict
        As of :meth:`lancecy.Dataset.copy_files`.

    Raises
    ------
    LanceError, TypeError
        As for :meth:`lancecy.Dataset.copy_files`; errors of tasks are raised here.

    Examples
    --------
    >>> import lancecy.dask
    >>> fast = lancecy.DatasetBasePath("memory://fast-dask", name="fast")
    >>> ds = lancecy.write_dataset({"n": [1, 2]}, "memory://slow-dask/t", initial_bases=[fast])
    >>> lancecy.dask.copy_files(ds, base="fast")["num_files"]
    1
    """
    ds = opened(uri, storage_options=storage_options)
    run = partial(results, "copy-files", compute_kwargs)
    return copied_by_workers(run, ds, fragments, filter, base, options, embed_credentials)
