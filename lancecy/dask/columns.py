"""Adds columns that Dask's workers compute."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancecy.api.datasets import Dataset, opened
from lancecy.changes.shared_columns import add_shared_columns
from lancecy.dask.tasks import results
from lancecy.keyword_options import checked_arguments

if TYPE_CHECKING:
    import os

__all__ = ["add_columns"]


@checked_arguments()
def add_columns(
    uri: str | os.PathLike[str] | Dataset,
    function: Callable[[pa.RecordBatch], Any],
    read_columns: Sequence[str] | None = None,
    schema: pa.Schema | None = None,
    *,
    batch_size: int | None = None,
    conflict_retries: int = 10,
    storage_options: Mapping[str, Any] | None = None,
    compute_kwargs: Mapping[str, Any] | None = None,
    embed_credentials: bool = False,
) -> Dataset:
    """Add columns that a function computes on the workers, one task per fragment, in one commit.

    Files of other columns stay unchanged, and no row passes through the client.

    Parameters
    ----------
    uri : str, path or lancecy.Dataset
        Must be reachable from the workers under the same name. A Dataset moves to the new version.
    function : function of a pyarrow.RecordBatch
        Returns the new columns of these rows: Arrow, pandas, or a mapping of names to arrays. May be a
        :func:`lancecy.batch_udf` without a checkpoint file.
    read_columns : sequence of str, optional
        Columns that the function gets, ``_rowid`` and ``_rowaddr`` among them; all columns if not given.
    schema : pyarrow.Schema, optional
        The new columns. If not given, the function is called for the first batch in this process.
    batch_size : int, optional
        Rows of each batch; batches end at the ends of fragments.
    conflict_retries : int
        Maximum number of further attempts after another writer changed the table. They compute the values of new and
        changed fragments only.
    storage_options : mapping, optional
    compute_kwargs : mapping, optional
        Keyword arguments of ``dask.compute``, such as ``scheduler``.
    embed_credentials : bool
        Send the secrets in ``storage_options`` to the workers.

    Returns
    -------
    lancecy.Dataset
        At the new version.

    Raises
    ------
    TypeError
        ``function`` is no function.
    LanceError, ValueError
        As for :meth:`lancecy.Dataset.add_columns`; and errors of the function. No column is added then, and files that
        were written are removed.

    Examples
    --------
    >>> import lancecy, pyarrow as pa, tempfile
    >>> ds = lancecy.write_dataset({"a": [1, 2, 3]}, tempfile.mkdtemp() + "/t.lance", max_rows_per_file=2)
    >>> def twice(batch):
    ...     return {"twice": [2 * a for a in batch["a"].to_pylist()]}
    >>> lancecy.dask.add_columns(ds, twice, ["a"], pa.schema({"twice": pa.int64()})).to_table()["twice"].to_pylist()
    [2, 4, 6]
    """
    ds = opened(uri, storage_options=storage_options)
    engine = partial(results, "add-columns", compute_kwargs)
    add_shared_columns(
        ds, engine, function, read_columns, schema, batch_size, conflict_retries, embed_credentials
    )
    return ds
