"""Indices on the workers of Dask."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from lancecy.api.datasets import Dataset, opened
from lancecy.changes.shared_index import (
    INDEX_DEFAULTS,
    SharedIndexOptions,
    create_shared_index,
)
from lancecy.dask.tasks import results
from lancecy.index.write.index_types import IndexKind
from lancecy.keyword_options import shared_options

if TYPE_CHECKING:
    import os

__all__ = ["create_scalar_index"]


@shared_options(SharedIndexOptions, INDEX_DEFAULTS)
def create_scalar_index(
    uri: str | os.PathLike[str] | Dataset,
    column: str,
    index_type: IndexKind = "BTREE",
    name: str | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
    compute_kwargs: Mapping[str, Any] | None = None,
    embed_credentials: bool = False,
    **options: Unpack[SharedIndexOptions],
) -> None:
    """Make an index of a column: workers make parts of it, the client merges these and commits once.

    Parameters
    ----------
    uri : str, path or lancecy.Dataset
        Must be reachable from the workers under the same name. A Dataset moves to the new version.
    column, index_type, name
        As for :meth:`lancecy.Dataset.create_scalar_index`.
    storage_options : mapping, optional
        As for :func:`lancecy.dataset`; not allowed with a Dataset, which has its own.
    compute_kwargs : mapping, optional
        Arguments of ``dask.compute``, such as ``{"scheduler": "processes"}`` or ``{"retries": 3}``.
    embed_credentials : bool
        Send the secrets in ``storage_options`` to the workers.
    replace : bool
        Whether an index of that name is replaced.
    num_parts : int, optional
        Number of tasks at most, each of neighbouring fragments with about as many rows; 64 by default.
    conflict_retries : int
        How often the index is made again, from the newest version, after another writer changed the same index.
    durability : "fsync" or "none"
        Whether to wait until everything is on disk; on local disks only.
    commit_message : str, optional
        Recorded with the version.

    Raises
    ------
    LanceError, ValueError, TypeError
        As for :meth:`lancecy.Dataset.create_scalar_index`; errors of tasks are raised here. Nothing is committed then, and
        files that were written are removed.

    Notes
    -----
    Tasks may be repeated: of each part one result is merged, and the files of all others are removed.

    Examples
    --------
    >>> import lancecy, tempfile
    >>> ds = lancecy.write_dataset({"a": [3, 1, 2]}, tempfile.mkdtemp() + "/t.lance", max_rows_per_file=2)
    >>> lancecy.dask.create_scalar_index(ds, "a")
    >>> ds.index_statistics("a_idx")["num_indexed_rows"]
    3
    """
    ds = opened(uri, storage_options=storage_options)
    engine = partial(results, "create-index", compute_kwargs)
    create_shared_index(ds, engine, column, index_type, name, options, embed_credentials)
