"""The :class:`NearestScanner`: a search for nearest neighbours that is described but not yet run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NoReturn

import pyarrow as pa

from lancecy.api.scanners import Scanner, SpecMaker
from lancecy.errors import UnsupportedError, printable, with_short_tracebacks
from lancecy.scanning import threads
from lancecy.scanning.analyze import Analysis
from lancecy.scanning.batches import cut, table_of
from lancecy.scanning.context import ScanContext
from lancecy.scanning.explain import Explanation, explain
from lancecy.scanning.nearest import Nearest
from lancecy.scanning.order import OrderBy, orderings, sort_positions, with_keys
from lancecy.scanning.plan import ScanPlan, kept_plan
from lancecy.scanning.request import ScanRequest
from lancecy.scanning.search import Output, compare, search_request
from lancecy.scanning.shared_search import SharedSearch
from lancecy.scanning.task import ScanUnit

__all__ = ["NearestScanner"]


@with_short_tracebacks
class NearestScanner(Scanner):
    """A search that is described but not yet run; made by ``Dataset.scanner(nearest=…)``.

    Every vector is compared with the queries, so the answer is exact. Rows come by query, distance and row id, unless
    they are sorted.

    Parameters
    ----------
    context : ScanContext
    make_spec : function
    request : ScanRequest
    search : Nearest
    add_distance : bool
        Append ``_distance`` where it is not among the columns.
    order_by : str, ColumnOrdering, or sequence of these or of (name, "ascending" | "descending"), optional
        Sort the rows found by these instead.
    memory_bytes : int, bytes
    strict_batch_size : bool
        As for :class:`Scanner`.

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
        search: Nearest,
        add_distance: bool = True,
        order_by: OrderBy = None,
        memory_bytes: int = threads.DEFAULT_BUDGET,
        strict_batch_size: bool = False,
    ) -> None:
        self._context = context
        self._make_spec = make_spec
        self._request = request
        self._memory = memory_bytes
        self._strict = strict_batch_size
        self._keys = orderings(order_by)
        self._search, self._add_distance = search, add_distance
        self._compared = search_request(request, search)
        context.projection(self._compared)
        self._output = Output(context, request, search, add_distance)
        self.schema = self._output.schema
        if self._keys:
            self._sorting, self._keys = with_keys(request, self._keys, context.snapshot.schema)
            self._output = Output(context, self._sorting, search, add_distance)
            sort_positions(table_of(self._output.schema, [], 0), self._keys)

    def plan(
        self,
        blocksize: int | None = None,
        *,
        min_units: int = 1,
        interleave: bool | None = None,
        embed_credentials: bool = False,
    ) -> NoReturn:
        """Refused: the nearest rows of a part of a table are not those of the table.

        Raises
        ------
        ValueError
        """
        raise ValueError(
            "tasks do not see each other's rows, so a search cannot be split into scan tasks: search with to_table, "
            "lancecy.scan(nearest=…) or lancecy.spark.read(nearest=…)"
        )

    def shared(
        self, blocksize: int | None = None, embed_credentials: bool = False
    ) -> tuple[SharedSearch, list[tuple[ScanUnit, ...]]]:
        """The search in parts, for executors: what tasks share, and the rows that each one compares.

        Parameters
        ----------
        blocksize : int or None, bytes
            Target size of a task; None makes one task per fragment.
        embed_credentials : bool
            As for :meth:`Scanner.plan`.

        Raises
        ------
        ValueError
            ``order_by``.
        """
        if self._keys:
            raise ValueError("rows of a search in tasks come by distance: leave order_by out")
        spec = self._make_spec(self._request, embed_credentials)
        tasks = self._plan(blocksize).tasks
        return SharedSearch(spec, self._search, self._add_distance), [task.units for task in tasks]

    @property
    def num_bytes(self) -> int:
        """Estimate of the bytes that the search reads."""
        return self._plan().num_bytes

    def _plan(
        self,
        blocksize: int | None = None,
        min_units: int = 1,
        interleave: bool = False,
        embed_credentials: bool = False,
        exact: bool | None = False,
    ) -> ScanPlan:
        return kept_plan(self._context, self._compared, self._make_spec, blocksize, min_units)

    def explain(self) -> Explanation:
        """Report what is compared: fragments kept and pruned, and bytes to read of the vectors and the filter."""
        found = explain(self._context, self._plan(), self._compared)
        return replace(found, search=f"{self._search}; every row is compared, {self._indices()}")

    def _indices(self) -> str:
        """The vector indices of the column, which are not used."""
        snapshot = self._context.snapshot
        ids = {node.id for node in snapshot.schema.scanned.path(self._search.path)}
        names = dict.fromkeys(entry.name for entry in snapshot.indices() if ids.intersection(entry.fields))
        if not names:
            return "there is no vector index"
        return f"vector indices are not used ({', '.join(map(printable, names))})"

    def analyze(self, count_rows: bool = False) -> Analysis:
        """Refused: only scans without a search are measured step by step.

        Parameters
        ----------
        count_rows : bool

        Raises
        ------
        UnsupportedError
        """
        raise UnsupportedError(
            "analyze() does not measure searches; explain() tells what one reads", feature="analyze"
        )

    def to_table(self) -> pa.Table:
        """Run the search and return one table."""
        planned = self._plan()
        found = compare(
            self._context, planned.projection, planned.units, self._search, self._request.use_stats
        )
        table = self._output.table(found)
        return self._sorted(table) if self._keys else table

    def _batches(self) -> Iterator[pa.RecordBatch]:
        return cut(self.to_table(), self._request)

    def count_rows(self) -> int:
        """Number of rows of the result; runs the search."""
        return int(self.to_table().num_rows)

    def __repr__(self) -> str:
        return f"{super().__repr__()}, {self._search}"
