"""Merges a Dask DataFrame into a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa

from lancecy.api.datasets import Dataset, opened
from lancecy.changes.merge_insert import MergeInsertBuilder
from lancecy.changes.merging.in_dask import DaskEngine
from lancecy.changes.merging.options import MERGE_DEFAULTS, MergeOptions
from lancecy.keyword_options import shared_options

if TYPE_CHECKING:
    import os

    import dask.dataframe as dd

__all__ = ["merge_insert"]

merging = shared_options(MergeOptions, MERGE_DEFAULTS)


@merging
def merge_insert(
    data: dd.DataFrame,
    uri: str | os.PathLike[str] | Dataset,
    on: str | Iterable[str] | None = None,
    *,
    schema: pa.Schema | None = None,
    index: bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
    compute_kwargs: Mapping[str, Any] | None = None,
    embed_credentials: bool = False,
    **options: Unpack[MergeOptions],
) -> dict[str, int]:
    """Merge a Dask DataFrame into a table by keys: the workers join and write, the client makes one commit.

    By default, rows that match are updated and the others inserted. Dask's shuffle brings rows of the frame, and the
    keys of the table, together by a hash of the key; no row passes through the client, and no column of the table but
    the keys is shuffled. ``ds.merge_insert(on).….execute(ddf)`` does the same.

    Parameters
    ----------
    data : dask.dataframe.DataFrame
    uri : str, path or lancecy.Dataset
        Must be reachable from the workers under the same name.
    on : str or iterable of str, optional
        Key columns; by default the table's unenforced primary key.
    schema : pyarrow.Schema, optional
        Types of the frame's columns, where the types of the table or the frame's own are not right.
    index : bool, optional
        Whether the index is a column; by default a named index is.
    storage_options : mapping, optional
    compute_kwargs : mapping, optional
        Keyword arguments of ``compute``, such as ``scheduler``.
    embed_credentials : bool
        Send the secrets in ``storage_options`` to the workers.
    when_matched : "update_all", "fail", "delete" or None
        What happens to rows of the table that match.
    condition : filter, optional
        Only pairs for which it is true are updated, such as ``"source.v > target.v"``.
    when_not_matched : "insert_all" or None
        What happens to rows of the frame that match nothing.
    when_not_matched_by_source : "delete" or None
        What happens to rows of the table that nothing matches.
    delete_condition : filter, optional
        Only those for which it is true are deleted.
    conflict_retries : int
        How often the merge is computed again, from the newest version, after another writer changed the rows.
    data_storage_version : str, optional
        The version of the new data files; by default that of the table.

    Returns
    -------
    dict
        ``num_inserted_rows``, ``num_updated_rows`` and ``num_deleted_rows``; no version is made if all are 0.

    Raises
    ------
    TypeError
        ``data`` is no Dask DataFrame.
    LanceError, ValueError
        As for :meth:`lancecy.changes.merge_insert.MergeInsertBuilder.execute`. Nothing is committed then, and files that
        were written are removed.

    Notes
    -----
    Only files of tasks whose results arrive are committed, so tasks may be repeated. Each partition is merged in memory.

    Examples
    --------
    >>> import dask.dataframe as dd, lancecy, pandas as pd, tempfile
    >>> ds = lancecy.write_dataset({"id": [1, 2], "v": ["a", "b"]}, tempfile.mkdtemp() + "/t.lance")
    >>> ddf = dd.from_pandas(pd.DataFrame({"id": [2, 3], "v": ["B", "c"]}), npartitions=2)
    >>> lancecy.dask.merge_insert(ddf, ds, on="id")
    {'num_inserted_rows': 1, 'num_updated_rows': 1, 'num_deleted_rows': 0}
    >>> ds.to_table().sort_by("id").to_pydict()
    {'id': [1, 2, 3], 'v': ['a', 'B', 'c']}
    """
    ds = opened(uri, storage_options=storage_options)
    engine = DaskEngine(data, schema, index, compute_kwargs or {})
    return MergeInsertBuilder.of(ds, on, options).execute_on(engine, embed_credentials)
