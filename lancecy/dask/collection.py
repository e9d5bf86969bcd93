"""A Lance table as a Dask DataFrame.

:func:`scan` plans from metadata and makes one partition per task of the plan. It uses Dask's public
interface (``dask.dataframe.from_map``), unless ``dask.optimizer`` supports the installed Dask: then the
collection is made there, and less is read. ``dask.config.set({"lancecy.dask-expr": False})`` turns the
optimiser off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast

import numpy as np

from lancecy.api.datasets import Dataset, OpenOptions, opened, opening
from lancecy.api.named_tables import with_place
from lancecy.api.searches import NearestScanner
from lancecy.dask.reader import Labels, Parts, Reader, Source
from lancecy.dask.searching import check_labels, searched
from lancecy.errors import warn
from lancecy.expr.build import Filter
from lancecy.interop.delayed import block_bytes
from lancecy.scanning.context import ScanContext
from lancecy.scanning.plan import ScanPlan
from lancecy.scanning.request import Columns, ScanRequest
from lancecy.table.rows.row_ids import ArraySegment, RowIdSequence

if TYPE_CHECKING:
    import os

    import dask.dataframe as dd

__all__ = ["row_ids_ascend", "scan"]


@opening
def scan(
    uri: str | os.PathLike[str] | Dataset | None = None,
    filter: Filter = None,
    columns: Columns = None,
    *,
    nearest: Mapping[str, Any] | None = None,
    prefilter: bool = False,
    blocksize: int | str | None = "128MiB",
    index: Literal["position", "rowid"] | None = "position",
    interleave: bool | None = None,
    with_row_id: bool = False,
    with_row_address: bool = False,
    embed_credentials: bool = False,
    namespace: Any = None,
    table_id: Sequence[str] | None = None,
    **options: Unpack[OpenOptions],
) -> dd.DataFrame:
    """A Lance table, or part of it, as a Dask DataFrame.

    The version is fixed by this call: every later computation reads the same rows. Only metadata is read
    until then, and later only the columns selected from the DataFrame.

    Parameters
    ----------
    uri : str, path or lancecy.Dataset, optional
        Must be reachable from the workers under the same name.
    filter : str, pyarrow.compute.Expression, lancecy.Expr or None
        Applied while reading, with page statistics; filters on the DataFrame are applied in addition.
    columns : list of names, mapping or None
        As for :meth:`lancecy.Dataset.scanner`.
    version, asof, storage_options, untrusted, allowed_bases, limits, replicas
        As for :func:`lancecy.dataset`; not allowed with a Dataset, which has fixed them.
    nearest : mapping, optional
        Search: return the rows whose vectors are nearest to a query, as :meth:`lancecy.Dataset.scanner` does. Tasks
        compare ``blocksize`` bytes of vectors each, and one more reads the rows found: the frame has one partition,
        whose rows are numbered from zero in the order of the search.
    prefilter : bool
        In a search the filter chooses the rows that are compared, not those of the result.
    blocksize : int or text such as "128MiB", or None
        Bytes of the selected columns per partition: large fragments are split, small ones grouped.
        None makes one partition per fragment.
    index : "position", "rowid" or None
        Labels of the rows: their number in the table, their row id (the row address if the table has no stable
        ids), or, for None, numbers from zero in every partition. Divisions are known if labels ascend from
        partition to partition, so that ``ddf.loc[a:b]`` reads only the partitions it needs.
    interleave : bool, optional
        Order partitions so that consecutive ones read from different base paths, which uses all buckets at
        once; divisions are then unknown. By default true with a filter and with ``index=None``. A table with
        one base always keeps its order.
    with_row_id, with_row_address : bool
        Append ``_rowid``, ``_rowaddr``.
    embed_credentials : bool
        Put the secrets in ``storage_options`` into the graph. By default only the other options are, and
        workers in other processes take credentials from their own environment.
    namespace, table_id : optional
        As for :func:`lancecy.dataset`.

    Returns
    -------
    dask.dataframe.DataFrame
        Columns are Arrow-backed: text is ``string[pyarrow]``; lists, vectors, structs, maps, binary and decimals
        have :class:`lancecy.dask.NestedArrowDtype`, which survives both shuffles and Parquet; all other columns a
        ``pandas.ArrowDtype``. Dictionaries are decoded: a column of them has the dtype of its values.

    Raises
    ------
    DatasetNotFoundError, NotFoundError, FormatError, UnsupportedError, StoreError
        The table cannot be opened.
    ColumnNotFoundError, ExpressionError
        The columns or the filter do not fit the schema.
    UnsupportedError
        A search in multivectors.
    ValueError, TypeError
        Invalid arguments.

    Notes
    -----
    If lancecy supports the installed Dask, lengths come from metadata, and comparisons joined by AND
    and OR (``ddf[(ddf.k < 10) & ddf.s.isin(["a", "b"])]``) are pushed into the read, where statistics skip
    pages; ``dask.config.set({"lancecy.dask-expr": False})`` turns this off without changing results. Otherwise
    ``len(ddf)`` reads every column: ask ``lancecy.dataset(uri).count_rows(filter)`` instead.
    ``map_partitions`` reads all columns of the frame it is called on: select first.

    Examples
    --------
    >>> import lancecy
    >>> ddf = lancecy.scan("example.lance", filter="k < 10", columns=["id", "k", "x"])
    >>> float(ddf.x.sum().compute())
    1237.5
    >>> lancecy.scan("example.lance", columns=["vec"], blocksize="4kB").divisions
    (0, 300, 600, 900, 999)
    """
    if index not in ("position", "rowid", None):
        raise ValueError(f"index must be 'position', 'rowid' or None, not {index!r}")
    place, given = with_place(uri, namespace, table_id, options)
    source = opened(place, **cast(OpenOptions, given))
    scanner = source.scanner(
        columns,
        filter,
        nearest=nearest,
        prefilter=prefilter,
        with_row_id=with_row_id,
        with_row_address=with_row_address,
    )
    if isinstance(scanner, NearestScanner):
        check_labels(index, interleave)
        return searched(scanner, block_bytes(blocksize), embed_credentials)
    request = scanner.request
    if index == "rowid" and "_rowid" in (*scanner.schema.names, *source.schema.names):
        raise ValueError(
            "with index='rowid' the row ids are the labels: no column may have the name '_rowid'"
        )
    mixed = (index is None or request.filter is not None) if interleave is None else bool(interleave)
    plan = scanner.plan(block_bytes(blocksize), interleave=mixed, embed_credentials=embed_credentials)
    labels: Labels = "rowid" if index == "rowid" else "number"
    if index is None and request.filter is not None:
        labels = "rank"
    unknown = mixed or index is None or not len(plan.table)
    divisions = None if unknown else _divisions(source.context, plan, labels)
    parts = Parts(plan.table[plan.order], plan.edges, divisions)
    return _collection(source, plan, labels, parts.local() if index is None else parts)


def _collection(source: Dataset, plan: ScanPlan, labels: Labels, parts: Parts) -> dd.DataFrame:
    import dask
    import dask.dataframe as dd
    import pandas as pd

    from lancecy.dask.dtypes import empty_frame

    meta = empty_frame(plan.schema)
    if labels == "rowid":
        meta.index = pd.Index(np.empty(0, np.uint64), name="_rowid")
    frame: dd.DataFrame
    # Text is already Arrow-backed; Dask's conversion would add a step to every partition.
    with dask.config.set({"dataframe.convert-string": False}):
        if not len(plan.table):  # the optimiser's source needs at least one partition
            frame = dd.from_pandas(meta, npartitions=1)
            return frame
        reader = Reader(plan.spec, labels)
        optimizer = _optimizer()
        if optimizer is not None:
            weights = _weights(source.context, plan)
            pushable, is_near = _pushable(source, reader.spec.request), source.context.snapshot.is_mapped
            frame = optimizer.collection(Source(reader, parts, meta, weights, pushable, is_near))
        else:
            frame = dd.from_map(
                reader,
                parts,
                meta=meta,
                divisions=parts.divisions,
                label="lancecy-scan",
                enforce_metadata=False,
            )
    return frame


def _optimizer() -> ModuleType | None:
    """``dask.optimizer`` if it is enabled and supports the installed Dask."""
    import dask

    if not dask.config.get("lancecy.dask-expr", True):
        return None
    try:
        from lancecy.dask import optimizer
    except (ImportError, AttributeError) as error:
        warn(
            f"lancecy's optimiser does not support this release of Dask ({error}): scans may read whole tables where a "
            "filter or the number of rows would do"
        )
        return None
    return optimizer


def _weights(context: ScanContext, plan: ScanPlan) -> dict[str, float]:
    """Bytes of one row of each column: from the first fragment, or from the last for columns added later."""
    fields = {f.name: f for f in (*plan.projection.fields, *plan.projection.filter_fields)}
    ends = [context.metadata(number) for number in {*plan.table[[0, -1], 0].tolist()}]
    return {n: max(context.bytes_per_row(f, [wanted]) for f in ends) for n, wanted in fields.items()}


def _pushable(source: Dataset, request: ScanRequest) -> frozenset[str]:
    """Columns of the scan that a pushed filter may name: stored columns under their own names and types."""
    from lancecy.dask.dtypes import keeps_values

    stored = [
        f.name for f in source.schema if keeps_values(f.type) and "." not in f.name and "`" not in f.name
    ]
    if request.columns is None:
        return frozenset(stored)
    listed = dict(request.columns)
    return frozenset(name for name in stored if name in listed and listed[name] is None)


def _divisions(context: ScanContext, plan: ScanPlan, labels: Labels) -> tuple[int, ...] | None:
    """First label of every partition and the last label; None unless labels ascend from row to row."""
    units, firsts = plan.table, plan.table[plan.order[plan.edges[:-1]]]
    if labels == "number":
        return (*firsts[:, 4].tolist(), int(units[-1, 4] + units[-1, 3] - 1))
    if labels == "rank":
        return None
    numbers = np.unique(units[:, 0])
    if not context.snapshot.manifest.has_stable_row_ids:
        if int(numbers[-1]) >> 32:
            return None  # two fragments share their addresses
        addresses = (firsts[:, 0] << 32) + firsts[:, 1]
        return (*addresses.tolist(), (int(units[-1, 0]) << 32) + int(units[-1, 2]) - 1)
    fragments = [context.metadata(number) for number in numbers.tolist()]
    ids = {fragment.id: context.snapshot.row_ids(fragment) for fragment in fragments}
    known = [sequence for sequence in ids.values() if sequence is not None and len(sequence)]
    if len(known) < len(ids) or not row_ids_ascend(known):
        return None
    ends = [*firsts[:, :2].tolist(), [int(units[-1, 0]), int(units[-1, 2]) - 1]]
    return tuple(_row_id(ids[fragment], offset) for fragment, offset in ends)


def _row_id(sequence: RowIdSequence | None, offset: int) -> int:
    return 0 if sequence is None else int(sequence.take(np.array([offset], np.int64))[0])


def row_ids_ascend(sequences: Sequence[RowIdSequence]) -> bool:
    """Whether row ids ascend within every sequence, and from one to the next."""
    before = -1
    for segment in (segment for sequence in sequences for segment in sequence.segments):
        if not segment.count:
            continue
        if isinstance(segment, ArraySegment) and not np.all(segment.offsets[1:] > segment.offsets[:-1]):
            return False
        first, last = segment.take(np.array([0, segment.count - 1], np.int64)).tolist()
        if first <= before:
            return False
        before = last
    return True
