"""The :class:`Scanner`: a scan that is described but not yet run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Unpack

import pyarrow as pa

from lancecy.encodings.arrow.columns import taken
from lancecy.errors import with_short_tracebacks
from lancecy.inspection import display
from lancecy.keyword_options import checked_arguments, shared_options
from lancecy.scanning import threads
from lancecy.scanning.analyze import Analysis, analyze
from lancecy.scanning.batches import DEFAULT_BATCH_ROWS, cut, exact_batches, slice_rows, table_of
from lancecy.scanning.context import ScanContext
from lancecy.scanning.explain import Explanation, explain
from lancecy.scanning.order import OrderBy, orderings, sort_positions, with_keys
from lancecy.scanning.pandas_metadata import (
    PANDAS_DEFAULTS,
    DtypeBackend,
    PandasOptions,
    check_dtype_backend,
    pandas_frame,
)
from lancecy.scanning.plan import ScanPlan, kept_plan, plan
from lancecy.scanning.request import ScanRequest
from lancecy.scanning.task import ScanSpec

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

__all__ = ["BlobMode", "LanceScanner", "Scanner"]

BlobMode: TypeAlias = Literal["lazy", "bytes", "descriptions"]

SpecMaker = Callable[[ScanRequest, bool], ScanSpec]
"""Makes the spec that the tasks of a scan carry, from (request, embed credentials)."""


@with_short_tracebacks
class Scanner:
    """A scan that is described but not yet run; made by ``Dataset.scanner``.

    Parameters
    ----------
    context : ScanContext
    make_spec : function
    request : ScanRequest
    order_by : str, ColumnOrdering, or sequence of these or of (name, "ascending" | "descending"), optional
        Sort keys of the result; they need not be among the returned columns.
    memory_bytes : int, bytes
        Memory budget of a stream.
    strict_batch_size : bool
        Batches of a stream have exactly ``batch_size`` rows, the last one may have fewer. Raises ``LimitError``
        if one batch cannot hold them: dictionaries with more values than codes, text beyond 2 GiB.

    Attributes
    ----------
    schema : pyarrow.Schema
        Of the result.
    """

    def __init__(
        self,
        context: ScanContext,
        make_spec: SpecMaker,
        request: ScanRequest,
        order_by: OrderBy = None,
        memory_bytes: int = threads.DEFAULT_BUDGET,
        strict_batch_size: bool = False,
    ) -> None:
        self._context = context
        self._make_spec = make_spec
        self._request = request
        self._memory = memory_bytes
        self._strict = strict_batch_size
        self.schema = context.projection(request).schema
        self._keys = orderings(order_by)
        if self._keys:
            self._sorting, self._keys = with_keys(request, self._keys, context.snapshot.schema)
            # Refuses missing or unordered keys before anything is read.
            sort_positions(table_of(context.projection(self._sorting).schema, [], 0), self._keys)

    _frame: Callable[[Scanner, Callable[[pa.Table], Any], BlobMode | None], pd.DataFrame] | None = None
    """Makes the frame of a scan that a dataset made."""

    @property
    def request(self) -> ScanRequest:
        """The arguments as one value."""
        return self._request

    def plan(
        self,
        blocksize: int | None = None,
        *,
        min_units: int = 1,
        interleave: bool | None = None,
        embed_credentials: bool = False,
    ) -> ScanPlan:
        """The tasks of this scan, planned from metadata alone.

        Parameters
        ----------
        blocksize : int or None, bytes
            Target size of a task; None makes one task per fragment.
        min_units : int
            Split into at least this many units if there is enough to read.
        interleave : bool, optional
            Let consecutive tasks read from different bases. By default true if the scan has no order
            (``scan_in_order=False``).
        embed_credentials : bool
            Put the storage options into the tasks as given, secrets included.

        Raises
        ------
        ValueError
            ``order_by``, or a filter together with limit or offset: tasks do not know each other's rows.
        """
        if self._keys or (self._request.filter is not None and (self._request.limit or self._request.offset)):
            raise ValueError(
                "tasks do not see each other's rows, so a scan with order_by, or with a filter and limit or offset, "
                "cannot be split into tasks"
            )
        mixed = self._is_unordered if interleave is None else interleave
        return self._plan(blocksize, min_units, mixed, embed_credentials)

    @property
    def _is_unordered(self) -> bool:
        """Whether rows may come in any order; a limit needs the order of the table."""
        request = self._request
        return not request.ordered and (request.filter is None or not (request.limit or request.offset))

    def _plan(
        self,
        blocksize: int | None = None,
        min_units: int = 1,
        interleave: bool = False,
        embed_credentials: bool = False,
        exact: bool | None = False,
    ) -> ScanPlan:
        context, request, how = self._context, self._request, (blocksize, min_units, interleave, exact)
        if embed_credentials:
            return plan(context, request, self._make_spec(request, True), *how)
        return kept_plan(context, request, self._make_spec, *how)

    @property
    def projected_schema(self) -> pa.Schema:
        """The schema of the result, under pylance's name."""
        return self.schema

    @property
    def dataset_schema(self) -> pa.Schema:
        """The schema of the table."""
        return self._context.snapshot.schema.arrow

    def explain(self) -> Explanation:
        """Report fragments and pages kept and pruned, and bytes to read; reads metadata and statistics only."""
        return explain(self._context, self._plan(), self._request)

    def explain_plan(self, verbose: bool = False) -> str:
        """:meth:`explain` as text.

        Parameters
        ----------
        verbose : bool
            Show every fragment, and what each candidate source left of it.
        """
        return self.explain().text(verbose)

    def analyze(self, count_rows: bool = False) -> Analysis:
        """Run the scan, drop its rows, and report what each step took: rows, bytes, requests and milliseconds.

        Memory is bounded as for :meth:`to_batches`. Steps run one after another, whereas streams overlap them.

        Parameters
        ----------
        count_rows : bool
            Only count the rows, so that no column is read but those of the filter.

        Examples
        --------
        >>> import lancecy
        >>> found = lancecy.dataset("example.lance").scanner(columns=["id"], filter="k < 10").analyze()
        >>> [(step.name, step.rows_out) for step in found.steps if step.name in {"filter", "columns"}]
        [('filter', 100), ('columns', 100)]
        """
        is_sorted = bool(self._keys) and not count_rows
        request = self._sorting if is_sorted else self._request
        if count_rows:
            request = replace(request, columns=(), with_row_id=False, with_row_address=False)
        size = max(1 << 18, self._memory // 12)

        def planned(context: ScanContext) -> ScanPlan:
            return plan(context, request, self._make_spec(request, False), size, exact=True)

        return analyze(self._context, planned, request, self._sorted if is_sorted else None, self._memory)

    def analyze_plan(self, count_rows: bool = False) -> str:
        """:meth:`analyze` as text.

        Parameters
        ----------
        count_rows : as for :meth:`analyze`
        """
        return str(self.analyze(count_rows))

    def to_table(self) -> pa.Table:
        """Run the scan and return one table."""
        if self._keys:
            return self._sorted_table()
        if self._request.filter is not None and self._request.limit is not None:
            found = self._found_early()
            if found is not None:
                return found
        return self._table_of(self._request)

    def _found_early(self) -> pa.Table | None:
        """The result, if the first fragments have enough rows that pass: planning all may take longer than reading these."""
        request = self._request
        if request.fragments is not None or request.limit is None:
            return None
        ids = self._context.table.ids
        if ids.size < _MANY_FRAGMENTS:
            return None
        found = self._table_of(replace(request, fragments=tuple(ids[:_EARLY_FRAGMENTS].tolist())))
        return found if found.num_rows >= request.limit else None

    def _table_of(self, request: ScanRequest) -> pa.Table:
        context = self._context
        # Enough units that no thread is left alone with a large last one.
        width = max(1, len(self.schema))
        min_units = -(-4 * context.session.threads // width) if context.session.threads > 1 else 1
        planned = kept_plan(context, request, self._make_spec, _blocksize(request), min_units)
        return threads.collect(context, planned, request)

    def _sorted_table(self) -> pa.Table:
        return self._sorted(Scanner(self._context, self._make_spec, self._sorting).to_table())

    def _sorted(self, whole: pa.Table) -> pa.Table:
        """The rows of the result, in its order, from those of the scan for sorting."""
        request = self._request
        stop = None if request.limit is None else request.offset + request.limit
        positions = sort_positions(whole, self._keys)[request.offset : stop]
        columns = [taken(whole[name], positions) for name in self.schema.names]
        if not columns:
            return table_of(self.schema, [], positions.size)
        return pa.Table.from_arrays(columns, schema=self.schema)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Run the scan as a stream whose memory is bounded by the byte budget."""
        batches = self._batches()
        return (
            exact_batches(batches, self._request.batch_size or DEFAULT_BATCH_ROWS)
            if self._strict
            else batches
        )

    def _batches(self) -> Iterator[pa.RecordBatch]:
        if self._keys:
            return cut(self._sorted_table(), self._request)
        plan_ = self._plan(max(1 << 18, self._memory // 12), interleave=self._is_unordered, exact=True)
        return threads.stream(self._context, plan_, self._request, self._memory)

    def to_reader(self) -> pa.RecordBatchReader:
        """The stream as an Arrow record batch reader."""
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    @shared_options(PandasOptions, PANDAS_DEFAULTS)
    def to_pandas(
        self,
        dtype_backend: DtypeBackend = "pyarrow",
        *,
        blob_mode: BlobMode | None = None,
        **options: Unpack[PandasOptions],
    ) -> pd.DataFrame:
        """The result as a pandas DataFrame; see :meth:`lancecy.Dataset.to_pandas`.

        Parameters
        ----------
        dtype_backend : "pyarrow", "numpy_nullable" or "numpy"
        blob_mode : "lazy", "bytes" or "descriptions", optional
            What blob columns have.

        Notes
        -----
        Other arguments are those of pyarrow, as for :meth:`lancecy.Dataset.to_pandas`.
        """
        check_dtype_backend(dtype_backend)
        convert = partial(pandas_frame, dtype_backend=dtype_backend, **options)
        if self._frame is not None:
            return self._frame(self, convert, blob_mode)
        frame: pd.DataFrame = convert(self.to_table())
        return frame

    def to_polars(self) -> pl.DataFrame:
        """The result as a Polars DataFrame.

        Raises
        ------
        ImportError
            Polars is not installed (``pip install 'lancecy[polars]'``).
        """
        from lancecy.interop.polars import to_polars

        return to_polars(self)

    def count_rows(self) -> int:
        """Number of rows of the result."""
        context = self._context
        # Only columns of the filter are read.
        request = replace(self._request, columns=(), with_row_id=False, with_row_address=False)
        blocksize = None if request.filter is None else _COUNTED_BYTES
        planned = kept_plan(
            context, request, self._make_spec, blocksize, 4 * context.session.threads, exact=None
        )
        if request.filter is None:
            return planned.num_rows
        passed = max(0, threads.count(context, planned, request) - request.offset)
        return passed if request.limit is None else min(passed, request.limit)

    @checked_arguments()
    def head(self, num_rows: int) -> pa.Table:
        """The first rows of the result.

        Parameters
        ----------
        num_rows : int
        """
        table = pa.Table.from_batches([], self.schema)
        for batch in self.to_batches():
            table = pa.concat_tables([table, pa.Table.from_batches([batch], self.schema)])
            if table.num_rows >= num_rows:
                break
        return slice_rows(table, 0, num_rows)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """A new run of the scan as an Arrow C stream capsule."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """The schema as an Arrow C capsule."""
        return self.schema.__arrow_c_schema__()

    def __repr__(self) -> str:
        return display.scanner_text(self._context, self._request, self.schema)


LanceScanner = Scanner
"""The class under pylance's name."""


# A scan with a filter and a limit reads a few fragments of many before it plans all.
_EARLY_FRAGMENTS, _MANY_FRAGMENTS = 16, 256


# Decoded bytes of the filter's columns that a thread has in memory while rows are counted.
_COUNTED_BYTES = 64 << 20


def _blocksize(request: ScanRequest) -> int | None:
    """Size of the units; small if a few rows may be enough."""
    return 4 << 20 if request.filter is not None and request.limit is not None else None
