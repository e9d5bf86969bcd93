"""A Lance table as a Dask DataFrame, on Dask's public interface only.

:func:`scan` plans from metadata, makes one partition per task of the plan and hands
``dask.dataframe.from_map`` a :class:`Reader`, which holds what all partitions share. A
partition is a tuple of numbers; nothing else is in a task, so graphs of ten thousand
partitions stay small and no file handle or secret is pickled.

Imports ``datasets``, ``scanning``, ``errors``; dask, pandas and ``dask.dtypes`` inside functions only.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from lancecy.datasets import Dataset, opened
from lancecy.errors import FormatError
from lancecy.limits import Limits
from lancecy.scanning import execute
from lancecy.scanning.plan import ScanPlan
from lancecy.scanning.request import Columns
from lancecy.scanning.task import ScanSpec, ScanTask, ScanUnit
from lancecy.session import default

if TYPE_CHECKING:
    import os

    import dask.dataframe as dd
    import pandas as pd

__all__ = ["Reader", "scan"]

_NUMBERS = 5  # fragment, start, stop, rows, position


def scan(
    uri: str | os.PathLike[str] | Dataset,
    filter: object = None,
    columns: Columns = None,
    *,
    version: int | None = None,
    asof: datetime | str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    blocksize: int | str | None = "128MiB",
    index: Literal["position"] | None = "position",
    interleave: bool | None = None,
    with_row_id: bool = False,
    with_row_address: bool = False,
    embed_credentials: bool = False,
    untrusted: bool = False,
    allowed_bases: Sequence[str] | None = None,
    limits: Limits | None = None,
) -> dd.DataFrame:
    """A Lance table, or part of it, as a Dask DataFrame.

    The version is settled here: every later computation reads the same rows. Nothing but metadata is
    read until then. Columns selected from the DataFrame are the only ones read.

    Parameters
    ----------
    uri : str, path or lancecy.Dataset
        Must be reachable from the workers under the same name.
    filter : str, pyarrow.compute.Expression, lancecy.Expr or None
        Applied while reading, with page statistics; filters on the DataFrame itself are applied after it.
    columns : list of names, mapping or None
        As for :meth:`lancecy.Dataset.scanner`.
    version, asof, storage_options, untrusted, allowed_bases, limits
        As for :func:`lancecy.dataset`; not together with a Dataset, which has settled them.
    blocksize : int or text such as "128MiB", or None
        Bytes of the selected columns per partition: large fragments are split, small ones grouped.
        None makes one partition per fragment.
    index : "position" or None
        Label rows by their number in the table; without a filter divisions are then exact, so that
        ``ddf.loc[a:b]`` reads only the partitions concerned. None numbers every partition from zero.
    interleave : bool, optional
        Order partitions so that consecutive ones read from different base paths and all buckets work
        at once; divisions are then unknown. By default whenever divisions are unknown anyway, that is
        with a filter or with ``index=None``. A table with one base keeps its order in any case.
    with_row_id, with_row_address : bool
        Append ``_rowid``, ``_rowaddr``.
    embed_credentials : bool
        Put the secrets in ``storage_options`` into the graph. By default only the other options are, and
        workers in other processes take credentials from their own environment.

    Returns
    -------
    dask.dataframe.DataFrame
        Columns are Arrow-backed: text is ``string[pyarrow]``; lists, vectors, structs, maps, dictionaries,
        binary and decimals have :class:`lancecy.dask.NestedArrowDtype`, which survives both shuffles and
        Parquet; everything else ``pandas.ArrowDtype``.

    Raises
    ------
    DatasetNotFoundError, NotFoundError, FormatError, UnsupportedError, StoreError
        The table cannot be opened.
    ColumnNotFoundError, ExpressionError
        The columns or the filter do not fit the schema.
    ValueError, TypeError
        Arguments no scan can mean.

    Notes
    -----
    Dask answers ``len(ddf)``, and that of any selection of columns, by reading every column; ask
    ``lancecy.dataset(uri).count_rows(filter)`` instead. ``ddf[[]].compute()`` reads none. ``map_partitions``
    reads all columns of the frame it is called on: select first.

    Examples
    --------
    >>> import lancecy
    >>> ddf = lancecy.scan("example.lance", filter="k < 10", columns=["id", "k", "x"])
    >>> float(ddf.x.sum().compute())
    1237.5
    >>> lancecy.scan("example.lance", columns=["vec"], blocksize="4kB").divisions
    (0, 300, 600, 900, 999)
    """
    if index not in ("position", None):
        raise ValueError(f"index must be 'position' or None, not {index!r}")
    source = opened(uri, version, asof, storage_options, untrusted, allowed_bases, limits)
    scanner = source.scanner(columns, filter, with_row_id=with_row_id, with_row_address=with_row_address)
    positions = index == "position" and filter is None
    mixed = not positions if interleave is None else bool(interleave)
    plan = scanner.plan(_bytes(blocksize), interleave=mixed, embed_credentials=embed_credentials)
    return _collection(plan, positions, source.context.session.limits, exact=positions and not mixed)


def _bytes(blocksize: int | str | None) -> int | None:
    from dask.utils import parse_bytes

    if blocksize is None:
        return None
    size = int(parse_bytes(blocksize))
    if size <= 0:
        raise ValueError(f"blocksize must be positive, got {blocksize!r}")
    return size


def _collection(plan: ScanPlan, positions: bool, limits: Limits, exact: bool) -> dd.DataFrame:
    import dask
    import dask.dataframe as dd

    from lancecy.dask.dtypes import empty_frame

    meta = empty_frame(plan.schema)
    # Text is Arrow-backed already: Dask's conversion would only add a step to every partition.
    with dask.config.set({"dataframe.convert-string": False}):
        frame: dd.DataFrame
        if plan.tasks:
            reader = Reader(plan.tasks[0].spec, positions, limits)
            parts = [_packed(task) for task in plan.tasks]
            divisions = _divisions(plan) if exact else None
            frame = dd.from_map(
                reader, parts, meta=meta, divisions=divisions, label="lancecy", enforce_metadata=False
            )
        else:  # from_map refuses a source without partitions
            frame = dd.from_pandas(meta, npartitions=1)
        return frame


def _divisions(plan: ScanPlan) -> tuple[int, ...]:
    """First position of every partition, and the last position of all."""
    last = plan.tasks[-1].units[-1]
    return (*(task.units[0].position for task in plan.tasks), last.position + last.rows - 1)


def _packed(task: ScanTask) -> tuple[int, ...]:
    return tuple(n for u in task.units for n in (u.fragment, u.start, u.stop, u.rows, u.position))


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads one partition: what all partitions of a scan share, and nothing but plain data.

    Attributes
    ----------
    spec : ScanSpec
    positions : bool
        Label rows by their number in the table.
    limits : Limits
        Caps on what files may claim.
    """

    spec: ScanSpec
    positions: bool
    limits: Limits

    def __call__(self, part: tuple[int, ...], *, columns: Sequence[str]) -> pd.DataFrame:
        """The partition as a frame of these columns.

        Parameters
        ----------
        part : tuple of int
            Five numbers per unit: fragment, start, stop, rows, position.
        columns : sequence of str
            Required, so that Dask passes an empty selection too.

        Raises
        ------
        LanceError
            The table cannot be read here.
        """
        import pandas as pd

        from lancecy.dask.dtypes import to_frame

        units = tuple(ScanUnit(*part[i : i + _NUMBERS]) for i in range(0, len(part), _NUMBERS))
        rows = sum(unit.rows for unit in units)
        index = _positions(units) if self.positions else None
        if not columns and self.spec.request.filter is None:
            return pd.DataFrame(index=pd.RangeIndex(rows) if index is None else index)
        session = default().with_limits(self.limits)
        table = execute.read(ScanTask(self.spec, units, rows, 0), list(columns), session)
        if index is not None and table.num_rows != rows:
            raise FormatError(
                f"the manifest promises {rows} live rows in fragment {units[0].fragment}, not {table.num_rows}"
            )
        return to_frame(table, index)

    def __dask_tokenize__(self) -> object:
        """Everything: Dask takes collections with equal tokens for the same and would return the other's rows."""
        from dask.base import normalize_token

        spec = [(f.name, getattr(self.spec, f.name)) for f in dataclasses.fields(self.spec)]
        return normalize_token(
            ("lancecy.dask.Reader", spec, self.positions, dataclasses.astuple(self.limits))
        )


def _positions(units: Sequence[ScanUnit]) -> pd.Index:
    import numpy as np
    import pandas as pd

    spans = [(u.position, u.position + u.rows) for u in units]
    if all(before[1] == after[0] for before, after in itertools.pairwise(spans)):
        return pd.RangeIndex(spans[0][0], spans[-1][1])
    return pd.Index(np.concatenate([np.arange(*span, dtype=np.int64) for span in spans]))
