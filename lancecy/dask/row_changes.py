"""The rows that differ between two versions of a table as a Dask DataFrame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from typing import TYPE_CHECKING, Unpack

from lancecy.api.datasets import Dataset, OpenOptions, opened, opening
from lancecy.api.row_changes import RowChanges
from lancecy.interop.delayed import block_bytes
from lancecy.records import dataclass
from lancecy.scanning.read_changes import CHANGE_TYPE, COMMIT_VERSION, ChangeSpec, ChangeTask, read_task
from lancecy.table.refs.reference import Reference

if TYPE_CHECKING:
    import os

    import dask.dataframe as dd
    import pandas as pd

__all__ = ["changes", "diff"]

_MADE = (CHANGE_TYPE, COMMIT_VERSION)


@opening
def changes(
    uri: str | os.PathLike[str] | Dataset,
    since: int | str,
    until: int | str | None = None,
    columns: Sequence[str] | None = None,
    *,
    blocksize: int | str | None = "128MiB",
    embed_credentials: bool = False,
    **options: Unpack[OpenOptions],
) -> dd.DataFrame:
    """The rows that differ between two versions of a table, as a Dask DataFrame.

    The workers find and read the changes; only metadata is read until something is computed.

    Parameters
    ----------
    uri : str, path or lancecy.Dataset
        Must be reachable from the workers under the same name.
    since, until, columns
        As for :meth:`lancecy.Dataset.changes`, whose rows and columns these are.
    blocksize : int or text such as "128MiB", or None
        Bytes of the rows that a partition looks at; it holds those that changed. None makes one partition per
        fragment and version.
    embed_credentials : bool
        As for :func:`lancecy.scan`.
    version, asof, storage_options, untrusted, allowed_bases, limits, replicas
        As for :func:`lancecy.dataset`; not allowed with a Dataset, which has fixed them.

    Returns
    -------
    dask.dataframe.DataFrame
        Dtypes as of :func:`lancecy.scan`; rows are numbered from zero in each partition.

    Raises
    ------
    LanceError, ValueError
        As for :meth:`lancecy.Dataset.changes` and :func:`lancecy.dataset`.

    Examples
    --------
    >>> import lancecy
    >>> ddf = lancecy.dask.changes("example.lance", since=0, until=1, columns=["id"])
    >>> ddf["_change_type"].value_counts().compute().to_dict()
    {'insert': 900}
    """
    return _frame(opened(uri, **options).changes(since, until, columns), blocksize, embed_credentials)


@opening
def diff(
    uri: str | os.PathLike[str] | Dataset,
    old: Reference | Dataset,
    new: Reference | Dataset | None = None,
    columns: Sequence[str] | None = None,
    *,
    blocksize: int | str | None = "128MiB",
    embed_credentials: bool = False,
    **options: Unpack[OpenOptions],
) -> dd.DataFrame:
    """The rows that differ between two versions of a table, also of different branches, as a Dask DataFrame.

    Parameters
    ----------
    uri : str, path or lancecy.Dataset
        Must be reachable from the workers under the same name, and so must the branches.
    old, new, columns
        As for :meth:`lancecy.Dataset.diff`, whose rows these are.
    blocksize, embed_credentials
        As for :func:`changes`.
    version, asof, storage_options, untrusted, allowed_bases, limits, replicas
        As for :func:`lancecy.dataset`; not allowed with a Dataset, which has fixed them.

    Returns
    -------
    dask.dataframe.DataFrame
        As of :func:`changes`.

    Raises
    ------
    LanceError, ValueError
        As for :meth:`lancecy.Dataset.diff` and :func:`lancecy.dataset`.

    Examples
    --------
    >>> import lancecy
    >>> ddf = lancecy.dask.diff("example.lance", 1, 2, columns=["id"])
    >>> len(ddf) == lancecy.dataset("example.lance").diff(1, 2).to_table().num_rows
    True
    """
    found = opened(uri, **options).diff(old, new, columns=columns)
    return _frame(found.row_changes, blocksize, embed_credentials)


def _frame(found: RowChanges, blocksize: int | str | None, embed_credentials: bool) -> dd.DataFrame:
    import dask
    import dask.dataframe as dd

    from lancecy.dask.dtypes import empty_frame

    tasks = found.tasks(block_bytes(blocksize))
    meta = empty_frame(found.schema)
    frame: dd.DataFrame
    # Text is already Arrow-backed; Dask's conversion would add a step to every partition.
    with dask.config.set({"dataframe.convert-string": False}):
        if not tasks:
            frame = dd.from_pandas(meta, npartitions=1)
        else:
            reader = ChangeReader(found.spec(embed_credentials))
            frame = dd.from_map(reader, tasks, meta=meta, label="lancecy-changes", enforce_metadata=False)
    return frame


@dataclass(frozen=True, slots=True)
class ChangeReader:
    """Reads the changes of one partition.

    Attributes
    ----------
    spec : ChangeSpec
    """

    spec: ChangeSpec

    def __call__(self, task: ChangeTask, *, columns: Sequence[str]) -> pd.DataFrame:
        """The changes as a frame of these columns.

        Parameters
        ----------
        task : ChangeTask
        columns : sequence of str
            Required, so that Dask passes a selection.

        Raises
        ------
        LanceError
            The table cannot be read.
        """
        from lancecy.dask.dtypes import to_frame

        spec = self.spec.narrowed([name for name in columns if name not in _MADE])
        return to_frame(read_task(spec, task).select(list(columns)))

    def __dask_tokenize__(self) -> object:
        from dask.base import normalize_token

        both = [
            None if each is None else (each.location, each.version, each.request, each.identity)
            for each in (self.spec.old, self.spec.new)
        ]
        known = (sorted(self.spec.same_fields), self.spec.same_fragments, self.spec.tells_updates)
        common = None if self.spec.common is None else astuple(self.spec.common)
        return normalize_token(("lancecy.dask.ChangeReader", both, known, common))
