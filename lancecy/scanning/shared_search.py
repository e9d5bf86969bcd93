"""A search for nearest neighbours in parts: tasks of any executor compare rows, one more merges what they found.

====================================  ======================================================
``SharedSearch.compare(units)``       in each task: the best rows of some units
``SharedSearch.merged(found)``        where there are many tasks: the best rows of some of them
``SharedSearch.table(found)``         once: the best of all tasks, and their columns
====================================  ======================================================

What a task returns is small: at most ``k`` rows per query, without columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from lancecy.records import dataclass
from lancecy.scanning.context import ScanContext, context_for
from lancecy.scanning.nearest import Nearest
from lancecy.scanning.search import Best, Neighbours, Output, compare, search_request
from lancecy.scanning.task import ScanSpec, ScanUnit
from lancecy.session import Session

__all__ = ["SharedSearch"]


@dataclass(frozen=True, slots=True)
class SharedSearch:
    """The part that all tasks of one search share: plain data that pickles small.

    Attributes
    ----------
    spec : ScanSpec
        Its request is the user's.
    search : Nearest
    add_distance : bool
        Append the distance where it is not among the columns.
    """

    spec: ScanSpec
    search: Nearest
    add_distance: bool = True

    def compare(self, units: Sequence[ScanUnit], session: Session | None = None) -> Neighbours:
        """The best rows of some units.

        Parameters
        ----------
        units : sequence of ScanUnit
        session : Session or None
            The process default if None.

        Raises
        ------
        LanceError
            The table cannot be read here.
        """
        request = search_request(self.spec.request, self.search)
        context = self._context(session)
        return compare(context, context.projection(request), units, self.search, request.use_stats)

    def merged(self, found: Iterable[Neighbours]) -> Neighbours:
        """The best rows among those of several tasks; about twice as many are in memory at once.

        Parameters
        ----------
        found : iterable of Neighbours
            What :meth:`compare` or this method returned.
        """
        best = Best(self.search)
        for part in found:
            best.add(part)
        return best.rows()

    def table(self, found: Iterable[Neighbours], session: Session | None = None) -> pa.Table:
        """The result of the search.

        Parameters
        ----------
        found : iterable of Neighbours
            What :meth:`compare` or :meth:`merged` returned for all units, in any order.
        session : Session or None
            The process default if None.

        Raises
        ------
        LanceError
            The table cannot be read here.
        """
        output = Output(self._context(session), self.spec.request, self.search, self.add_distance)
        return output.table(self.merged(found))

    def _context(self, session: Session | None) -> ScanContext:
        return context_for(self.spec, session)
