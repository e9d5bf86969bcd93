"""Run a scan and measure each of its steps.

The steps are those of the engine (``scanning.engine``), one after another for each window of units, so that no more
than a window is in memory. A scan that streams overlaps them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, field, replace
from typing import Any, TypeVar

import pyarrow as pa

from lancecy.records import dataclass
from lancecy.scanning.batches import table_of
from lancecy.scanning.context import ScanContext
from lancecy.scanning.engine import UnitRows, rows_of
from lancecy.scanning.explain import Explanation, explain, human_bytes
from lancecy.scanning.filtering import all_passing, candidates
from lancecy.scanning.plan import ScanPlan
from lancecy.scanning.request import ScanRequest
from lancecy.scanning.sources import concerned
from lancecy.scanning.task import ScanUnit
from lancecy.scanning.threads import DEFAULT_BUDGET, windows
from lancecy.scanning.units import first_rows, schedule_of
from lancecy.session import Session
from lancecy.store.base import Store
from lancecy.store.fetch import Block, FileKey, RetainingFetch
from lancecy.store.reads import Ranges, Span
from lancecy.store.wrap import Pairs, WrappedStore

__all__ = ["Analysis", "MeteredSession", "StepFigures", "analyze"]


Planner = Callable[[ScanContext], ScanPlan]
Sorter = Callable[[pa.Table], pa.Table]


@dataclass(slots=True)
class StepFigures:
    """What one step of a scan took.

    Attributes
    ----------
    name : str
        "plan": units from the manifest. "open": metadata of the data files. "candidates": rows that row ids and
        statistics rule out. "filter": rows for which the filter is true. "columns": the columns of these rows.
        "sort": the order of ``order_by``, with limit and offset.
    rows_in, rows_out : int
        Rows before and after the step.
    nbytes : int, bytes
        Read from stores; of memory-mapped files, the ranges that were asked for.
    requests : int
        Requests to stores; none for memory-mapped files.
    milliseconds : float
    """

    name: str
    rows_in: int = 0
    rows_out: int = 0
    nbytes: int = 0
    requests: int = 0
    milliseconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Analysis:
    """The description of a scan that was run, and what its steps took; ``str()`` shows both.

    Attributes
    ----------
    explanation : Explanation
    steps : tuple of StepFigures
        In the order they ran; those that the scan does not need are missing.
    """

    explanation: Explanation
    steps: tuple[StepFigures, ...]

    @property
    def rows(self) -> int:
        """Rows of the result."""
        return self.steps[-1].rows_out

    @property
    def nbytes(self) -> int:
        """Bytes that all steps read."""
        return sum(step.nbytes for step in self.steps)

    @property
    def requests(self) -> int:
        """Requests of all steps."""
        return sum(step.requests for step in self.steps)

    @property
    def milliseconds(self) -> float:
        """Time of all steps."""
        return sum(step.milliseconds for step in self.steps)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: the explanation, the steps and their sums."""
        sums = {name: getattr(self, name) for name in ("rows", "nbytes", "requests", "milliseconds")}
        return {
            "explanation": self.explanation.to_dict(),
            "steps": [asdict(step) for step in self.steps],
            **sums,
        }

    def text(self, verbose: bool = False) -> str:
        """The description for people.

        Parameters
        ----------
        verbose : bool
            As for :meth:`Explanation.text`.
        """
        total = StepFigures(
            "all", self.steps[0].rows_in, self.rows, self.nbytes, self.requests, self.milliseconds
        )
        lines = [
            f"{'step':<10}  {'rows in':>13}  {'rows out':>13}  {'bytes':>10}  {'requests':>8}  {'ms':>9}"
        ]
        lines += [
            f"{step.name:<10}  {step.rows_in:>13,}  {step.rows_out:>13,}  {human_bytes(step.nbytes):>10}  "
            f"{step.requests:>8,}  {step.milliseconds:>9,.2f}"
            for step in (*self.steps, total)
        ]
        return "\n".join([self.explanation.text(verbose), "", *lines])

    def __str__(self) -> str:
        return self.text()

    __repr__ = __str__


@dataclass(eq=False)
class _Run:
    """A scan that is being measured."""

    context: ScanContext
    meter: MeteredSession
    steps: dict[str, StepFigures] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str, rows_in: int) -> Iterator[StepFigures]:
        """Add what happens inside to a step."""
        figures = self.steps.setdefault(name, StepFigures(name))
        figures.rows_in += rows_in
        requests, nbytes, start = self.meter.requests, self.meter.nbytes, time.perf_counter()
        yield figures
        figures.milliseconds += (time.perf_counter() - start) * 1000
        figures.requests += self.meter.requests - requests
        figures.nbytes += self.meter.nbytes - nbytes


def analyze(
    context: ScanContext,
    planner: Planner,
    request: ScanRequest,
    sorter: Sorter | None = None,
    budget: int = DEFAULT_BUDGET,
) -> Analysis:
    """Run a scan and measure its steps.

    Parameters
    ----------
    context : ScanContext
        Files that it has open are opened again; metadata in the session's cache is not read again.
    planner : function of a ScanContext
        Makes the plan, with a ``blocksize`` of a fraction of the budget.
    request : ScanRequest
    sorter : function of a table, optional
        Sorts and cuts the result; all rows are then in memory at once.
    budget : int, bytes
        Bound of what is in memory otherwise.

    Raises
    ------
    LanceError
        The scan fails.
    """
    meter = MeteredSession(context.session)
    fresh = ScanContext(context.snapshot, meter, context.living)
    fresh.sources = context.sources
    run = _Run(fresh, meter)
    all_rows = sum(context.live_rows(fragment) for fragment in context.selected(request.fragments))
    with run.step("plan", all_rows) as figures:
        plan = planner(fresh)
        figures.rows_out = plan.num_rows
    filtered = request.filter is not None
    left = request.offset + request.limit if filtered and request.limit is not None else None
    kept: list[UnitRows] = []
    sizes = ((task.units, task.num_bytes) for task in plan.tasks)
    for window in windows(sizes, max(1, budget // 3)):
        found = _read(run, plan, window, request, left)
        kept += found if sorter is not None else ()
        fresh.release(window)
        if left is not None:
            left -= sum(len(unit.picked[1]) for unit in found)
            if left <= 0:
                break
    if sorter is not None:
        _sort(run, plan, kept, sorter)
    elif filtered and "columns" in run.steps:
        last = run.steps["columns"]
        last.rows_out = max(0, last.rows_out - request.offset)
    return Analysis(explain(fresh, plan, request), tuple(run.steps.values()))


def _read(
    run: _Run, plan: ScanPlan, units: Sequence[ScanUnit], request: ScanRequest, most: int | None
) -> list[UnitRows]:
    """Read one window, step by step."""
    context, projection = run.context, plan.projection
    rows = sum(unit.rows for unit in units)
    with run.step("open", rows) as figures:
        fields = list({*projection.fields, *projection.filter_fields})
        context.several_files(list(dict.fromkeys(unit.fragment for unit in units)), fields)
        schedule = schedule_of(context, units)
        figures.rows_out += rows
    sources = concerned(context.sources, context.snapshot, projection) if request.use_stats else ()
    with run.step("candidates", rows) as figures:
        left = schedule.over(
            lambda group: [candidates(context, unit, projection, sources) for unit in group], units
        )
        figures.rows_out += sum(len(unit.rows) for unit in left)
    if not sources:
        run.steps.pop("candidates")
    with run.step("filter", sum(len(unit.rows) for unit in left)) as figures:
        chosen = schedule.over(lambda group: all_passing(context, group), left)
        chosen = chosen if most is None else list(first_rows(chosen, most))
        rows = sum(len(unit.picked) for unit in chosen)
        figures.rows_out += rows
    if request.filter is None:
        run.steps.pop("filter")
    with run.step("columns", rows) as figures:
        found = schedule.over(lambda group: rows_of(context, group, projection), chosen)
        figures.rows_out += rows
    return found


def _sort(run: _Run, plan: ScanPlan, read: Sequence[UnitRows], sorter: Sorter) -> None:
    rows = sum(len(unit.picked[1]) for unit in read)
    with run.step("sort", rows) as figures:
        pieces = [piece for unit in read for piece in unit.pieces]
        figures.rows_out = sorter(table_of(plan.schema, pieces, rows)).num_rows


T = TypeVar("T")


class MeteredSession(Session):
    """A session that shares everything with another and counts its reads.

    Parameters
    ----------
    session : Session

    Attributes
    ----------
    requests : int
        Requests to stores; none for memory-mapped files.
    nbytes : int, bytes
        Of the requests; of memory-mapped files, the ranges that were asked for.

    Examples
    --------
    >>> metered = MeteredSession(Session())
    >>> metered.requests, metered.nbytes
    (0, 0)
    """

    def __init__(self, session: Session) -> None:
        self.__dict__.update(session.__dict__)
        self.requests = 0
        self.nbytes = 0
        self._counting = threading.Lock()
        self._counted: dict[int, _MeteredStore] = {}

    def fetch(self, requests: Sequence[Ranges]) -> list[Span]:
        """See :meth:`Session.fetch`."""
        return super().fetch(self.counted(requests))

    def fetcher(self, limit: int = 256 << 20, known: Mapping[FileKey, Block] | None = None) -> RetainingFetch:
        """See :meth:`Session.fetcher`."""
        return _MeteredFetch(self, limit, known)

    def counted(self, requests: Sequence[Ranges]) -> list[Ranges]:
        """The same ranges, of stores that count their requests.

        Parameters
        ----------
        requests : sequence of Ranges
        """
        return [
            replace(request, file=replace(request.file, store=self._store_of(request)))
            for request in requests
        ]

    def _store_of(self, request: Ranges) -> Store:
        store = request.file.store
        if store.traits.is_mapped:
            self.add(0, int(request.lengths.sum()))
            return store
        with self._counting:
            return self._counted.setdefault(id(store), _MeteredStore(store, self))

    def add(self, requests: int, nbytes: int) -> None:
        """Count some requests.

        Parameters
        ----------
        requests : int
        nbytes : int, bytes
        """
        with self._counting:
            self.requests += requests
            self.nbytes += nbytes


class _MeteredStore(WrappedStore):
    def __init__(self, inner: Store, meter: MeteredSession) -> None:
        super().__init__(inner)
        self._meter = meter
        self.metered = inner

    def _request(self, method: str, path: str, ranges: Pairs, call: Callable[[], T]) -> T:
        self._meter.add(max(1, len(ranges)), sum((stop or start) - start for start, stop in ranges))
        return call()


class _MeteredFetch(RetainingFetch):
    def __init__(self, meter: MeteredSession, limit: int, known: Mapping[FileKey, Block] | None) -> None:
        super().__init__(meter._run_io, limit, known)
        self._meter = meter

    def __call__(self, requests: Sequence[Ranges]) -> list[Span]:
        return super().__call__(self._meter.counted(requests))
