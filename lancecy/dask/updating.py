"""Updates on the workers of Dask."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from lancecy.api.datasets import Dataset, opened
from lancecy.changes.shared_update import UPDATE_DEFAULTS, UpdateOptions, update_shared
from lancecy.dask.tasks import results
from lancecy.expr.build import Filter
from lancecy.keyword_options import shared_options

if TYPE_CHECKING:
    import os

__all__ = ["update"]


@shared_options(UpdateOptions, UPDATE_DEFAULTS)
def update(
    uri: str | os.PathLike[str] | Dataset,
    updates: Mapping[str, Any],
    where: Filter = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
    compute_kwargs: Mapping[str, Any] | None = None,
    embed_credentials: bool = False,
    **options: Unpack[UpdateOptions],
) -> dict[str, int]:
    """Set columns of the rows for which a predicate is true: workers find and write the rows, the client commits once.

    Tasks get whole fragments; no row passes through the client. Fragments of which metadata tell that no row matches
    are not read. In a table with stable row ids, rows keep their ids.

    Parameters
    ----------
    uri : str, path or lancecy.Dataset
        Must be reachable from the workers under the same name. A Dataset moves to the new version.
    updates, where
        As for :meth:`lancecy.Dataset.update`.
    storage_options : mapping, optional
        As for :func:`lancecy.dataset`; not allowed with a Dataset, which has its own.
    compute_kwargs : mapping, optional
        Arguments of ``dask.compute``, such as ``{"scheduler": "processes"}`` or ``{"retries": 3}``.
    embed_credentials : bool
        Send the secrets in ``storage_options`` to the workers.
    conflict_retries : int
        How often the update is computed again, from the newest version, after another writer changed the rows.
    data_storage_version : str, optional
        The version of the new data files; by default that of the table.
    durability : "fsync" or "none"
        Whether the update waits until files are on disk; on local disks only.

    Returns
    -------
    dict
        ``{"num_rows_updated": int}``; no version is made for 0.

    Raises
    ------
    LanceError, ValueError, TypeError
        As for :meth:`lancecy.Dataset.update`; errors of tasks are raised here. Nothing is committed then, and files
        that were written are removed.

    Notes
    -----
    Tasks may be repeated: only results that arrive are committed, each once. Files of lost attempts remain, invisible
    to readers, until a cleanup.

    Examples
    --------
    >>> import lancecy, tempfile
    >>> ds = lancecy.write_dataset({"a": [1, 2, 3]}, tempfile.mkdtemp() + "/t.lance", max_rows_per_file=2)
    >>> lancecy.dask.update(ds, {"a": "a * 10"}, "a > 1")
    {'num_rows_updated': 2}
    >>> sorted(ds.to_table()["a"].to_pylist())
    [1, 20, 30]
    """
    ds = opened(uri, storage_options=storage_options)
    engine = partial(results, "update-rows", compute_kwargs)
    return update_shared(ds, engine, updates, where, options, embed_credentials)
