"""Candidate sources: rows of a fragment that may match a filter, found without reading its columns.

A scan asks the sources of its context (``ScanContext.sources``) that the filter concerns, one after the other, and
reads the rows that all of them leave. :data:`SOURCES` is the default list; an index adds one entry.

A filter is a list of conditions joined by AND. A source answers with rows and with what it has *proved*:

========  =============================================================================================
exact     exactly the rows for which its proved conditions are true; they are not tested again
at most   all rows for which the filter is true, and perhaps others: every condition is tested again
unknown   nothing; for an index, a fragment written after it
========  =============================================================================================

Rules for a source:

- True is not "not false". A condition that is null for a row does not select it, and neither does its negation:
  ``NOT (x = 7)`` leaves out the rows in which ``x`` is null, so it is no complement of the rows of ``x = 7``.
- Rows are offsets in the fragment as written. Deleted rows may be among them: the scan takes these out.
- A limit counts rows that passed, after everything here, so a source answers for the whole fragment.
- A fragment of which it knows only some rows is unknown to it, unless the others are among its candidates.

An error of a source ends the scan: a :class:`LanceError` passes as it is, any other exception becomes one that names
the source. Indices report damage with a warning instead, unless the scan asked for them (``use_scalar_index=True``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lancecy.encodings.model.chunks import starts_of
from lancecy.errors import FormatError, LanceError
from lancecy.expr import Bound, Expr, falsify
from lancecy.index.answers import all_of
from lancecy.index.catalog import catalog_of
from lancecy.records import dataclass
from lancecy.rows import RowSelection
from lancecy.scanning.fragment import FragmentFiles, JoinedStats
from lancecy.scanning.project import Projection
from lancecy.scanning.virtual import selected_rows, virtual_stats
from lancecy.session import Session
from lancecy.stats import StatsTable
from lancecy.table.manifest import Fragment
from lancecy.table.snapshot import Snapshot

__all__ = [
    "SOURCES",
    "Answer",
    "CandidateSource",
    "Candidates",
    "PageCount",
    "PageStatistics",
    "Question",
    "RowIds",
    "ScalarIndices",
    "answers",
    "concerned",
]


@dataclass(frozen=True, slots=True)
class PageCount:
    """Number of pages with statistics, and of those that may hold a match."""

    total: int = 0
    kept: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """A source's answer about a fragment.

    Attributes
    ----------
    rows : RowSelection or None
        Physical rows of the fragment: at least those for which the filter is true. None if unknown.
    proved : tuple of Expr
        Conditions of the question that are true for all these rows, so that they are not tested again.
    pages : PageCount
        For explanations, from sources that work by page.
    names : tuple of str
        For explanations: the indices used.
    """

    rows: RowSelection | None = None
    proved: tuple[Expr, ...] = ()
    pages: PageCount = PageCount()
    names: tuple[str, ...] = ()

    @classmethod
    def exact(cls, rows: RowSelection, proved: Iterable[Expr]) -> Candidates:
        """The rows for which these conditions are true, and no others."""
        return cls(rows, tuple(proved))

    @property
    def kind(self) -> str:
        """``exact``, ``at most`` or ``unknown``."""
        return "unknown" if self.rows is None else "exact" if self.proved else "at most"


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """The question to a source: which rows of one fragment may pass a filter.

    Attributes
    ----------
    snapshot : Snapshot
    session : Session
    fragment : Fragment
        Its entry in the manifest.
    num_rows : int
        Its physical rows.
    projection : Projection
        ``conditions`` are those of the filter, bound to the schema.
    files : FragmentFiles or None
        Its opened data files; None during planning, when sources that read files are not asked.
    """

    snapshot: Snapshot
    session: Session
    fragment: Fragment
    num_rows: int
    projection: Projection
    files: FragmentFiles | None


class CandidateSource(Protocol):
    """A source of the rows of a fragment that may match; shared by threads."""

    @property
    def name(self) -> str:
        """Its name in explanations and errors."""

    @property
    def reads_files(self) -> bool:
        """Whether it opens data files. If not, planning asks it too, and leaves out fragments."""

    def concerns(self, snapshot: Snapshot, projection: Projection) -> bool:
        """Whether it may know something about this filter; asked once per scan, before the fragments."""

    def ruled_out(self, snapshot: Snapshot, projection: Projection) -> frozenset[int]:
        """Fragments without a match that it knows of without being asked about each; none is always right.

        Only sources that open no data file are asked, once per plan: plans of many fragments then take no time for
        these.
        """

    def candidates(self, question: Question) -> Candidates:
        """The rows of the fragment that may match.

        Raises
        ------
        LanceError
            The data it reads is damaged or missing.
        """


@dataclass(frozen=True, slots=True)
class RowIds:
    """Conditions on row ids, addresses and versions alone, answered exactly from the manifest."""

    name: str = "row ids"
    reads_files: bool = False

    def concerns(self, snapshot: Snapshot, projection: Projection) -> bool:
        """Whether the filter has such conditions."""
        return bool(projection.where)

    def ruled_out(self, snapshot: Snapshot, projection: Projection) -> frozenset[int]:
        """None: it knows of single fragments only."""
        return frozenset()

    def candidates(self, question: Question) -> Candidates:
        """See :func:`lancecy.scanning.virtual.selected_rows`."""
        where = question.projection.where
        rows = selected_rows(question.snapshot, question.fragment, question.num_rows, where)
        return Candidates.exact(rows, where)


@dataclass(frozen=True, slots=True)
class ScalarIndices:
    """Indices on scalar columns: those rows of the fragments they cover for which the filter may be true."""

    name: str = "indices"
    reads_files: bool = False

    def concerns(self, snapshot: Snapshot, projection: Projection) -> bool:
        """Whether an index concerns one of the conditions."""
        bound = projection.filter
        if bound is None or projection.index_use is False or snapshot.manifest.index_section is None:
            return False
        return bool(catalog_of(snapshot).questions(bound))

    def candidates(self, question: Question) -> Candidates:
        """See :class:`lancecy.index.catalog.Catalog`.

        Raises
        ------
        LanceError
            An index is damaged, and the scan asked for indices (``use_scalar_index=True``).
        """
        bound, fragment = question.projection.filter, question.fragment
        if bound is None or fragment.id != fragment.stored_id:
            return Candidates()
        catalog, is_strict = catalog_of(question.snapshot), question.projection.index_use is True
        told = [
            (asked.conditions, catalog.answer(asked.query, fragment.id, question.num_rows, is_strict))
            for asked in catalog.questions(bound)
        ]
        found = all_of([answer for _, answer in told])
        if found is None:
            return Candidates()
        proved = (conditions for conditions, answer in told if answer is not None and answer.is_exact)
        return Candidates(found.rows, tuple(chain.from_iterable(proved)), names=found.names)

    def ruled_out(self, snapshot: Snapshot, projection: Projection) -> frozenset[int]:
        """The fragments without a row that may match, found without a question about each.

        Raises
        ------
        LanceError
            As for :meth:`candidates`.
        """
        bound = projection.filter
        if bound is None:
            return frozenset()
        catalog, is_strict = catalog_of(snapshot), projection.index_use is True
        gone = (catalog.ruled_out(asked.query, is_strict) for asked in catalog.questions(bound))
        return frozenset[int]().union(*gone)


_FEW_ROWS = 16
"""Of fewer rows, those of a 2.x file are read in less time than its statistics, which have no bounds."""


@dataclass(frozen=True, slots=True)
class PageStatistics:
    """Page statistics: leaves out pages for which they prove that the filter is true for no row."""

    name: str = "statistics"
    reads_files: bool = True

    def concerns(self, snapshot: Snapshot, projection: Projection) -> bool:
        """Whether the filter has conditions other than those on row ids."""
        return projection.filter is not None

    def ruled_out(self, snapshot: Snapshot, projection: Projection) -> frozenset[int]:
        """None: it knows of single fragments only."""
        return frozenset()

    def candidates(self, question: Question) -> Candidates:
        """See :func:`lancecy.expr.falsify`; 2.x files have no bounds."""
        projection, files = question.projection, question.files
        if files is None or projection.filter is None:
            return Candidates()
        if files.num_rows < _FEW_ROWS and not (files.has_legacy or projection.filter_virtual):
            return Candidates()
        known = files.ruled.get(id(projection))
        if known is not None and known[0] is projection:
            found: Candidates = known[1]
            return found
        found = self._candidates(question, files, projection.filter)
        # Few statistics are asked again in less time than they take to answer.
        if files.has_few_stats(projection.filter_fields):
            files.keep_ruled(projection, found)
        return found

    def left_out(
        self, several: Sequence[FragmentFiles], joined: JoinedStats, projection: Projection
    ) -> frozenset[int]:
        """The fragments of which joined statistics leave out rows; what is left of each is kept as its answer.

        Parameters
        ----------
        several : sequence of FragmentFiles
        joined : JoinedStats
            Those of these fragments.
        projection : Projection
            It has a filter without virtual columns.
        """
        if projection.filter is None:
            return frozenset()
        empty = falsify(projection.filter, joined.table)
        numbers = np.unique(joined.files[empty])
        edges = np.searchsorted(joined.files, [numbers, numbers + 1]).T.tolist()
        for number, (first, last) in zip(numbers.tolist(), edges, strict=True):
            keep, starts = ~empty[first:last], starts_of(joined.table.row_counts[first:last])
            pages = PageCount(last - first, int(np.count_nonzero(keep)))
            if int(starts[-1]) == several[number].num_rows:
                found = Candidates(_pages_as_rows(starts, keep), pages=pages)
                several[number].keep_ruled(projection, found)
        return frozenset(several[number].fragment.id for number in numbers.tolist())

    def _candidates(self, question: Question, files: FragmentFiles, bound: Bound) -> Candidates:
        projection = question.projection
        virtual = projection.filter_virtual
        rows: RowSelection | None = None
        total = kept = 0
        for starts, table in files.page_stats(projection.filter_fields, bound.paths, question.session):
            if virtual:
                found = virtual_stats(question.snapshot, files.fragment, files.num_rows, virtual, starts)
                table = StatsTable(table.row_counts, {**table.columns, **found})
            empty = falsify(bound, table)
            total += empty.size
            kept += int(empty.size - np.count_nonzero(empty))
            if empty.any():
                left = _pages_as_rows(starts, ~empty)
                rows = left if rows is None else rows.intersect(left)
        return Candidates(rows, pages=PageCount(total, kept))


def _pages_as_rows(starts: NDArray[np.int64], keep: NDArray[np.bool_]) -> RowSelection:
    edges = np.flatnonzero(np.diff(keep.view(np.int8), prepend=0, append=0))
    first, last = starts[edges[0::2]], starts[edges[1::2]]
    some = last > first
    return RowSelection(int(starts[-1]), first[some], last[some])


SOURCES: tuple[CandidateSource, ...] = (RowIds(), ScalarIndices(), PageStatistics())
"""Sources of every scan, in the order they are asked: free ones first."""


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """One source's answer.

    Attributes
    ----------
    source : CandidateSource
    found : Candidates
    rows : RowSelection
        Rows that this source and those before it leave.
    proved : frozenset of Expr
        Conditions that they have proved.
    """

    source: CandidateSource
    found: Candidates
    rows: RowSelection
    proved: frozenset[Expr]


def concerned(
    sources: Sequence[CandidateSource], snapshot: Snapshot, projection: Projection, early: bool = False
) -> tuple[CandidateSource, ...]:
    """The sources that may know something about a filter; ``early``: only those that open no data file."""
    if not projection.conditions:
        return ()
    return tuple(
        source
        for source in sources
        if not (early and source.reads_files) and source.concerns(snapshot, projection)
    )


def answers(sources: Sequence[CandidateSource], question: Question, rows: RowSelection) -> Iterator[Answer]:
    """Ask sources one by one, until no row is left or every condition is proved.

    Parameters
    ----------
    sources : sequence of CandidateSource
    question : Question
    rows : RowSelection
        Physical rows of the fragment that the caller wants.

    Raises
    ------
    LanceError
        A source failed, or its rows are not those of the fragment.
    """
    proved: frozenset[Expr] = frozenset()
    for source in sources:
        if not len(rows) or (proved and proved.issuperset(question.projection.conditions)):
            return
        found = _ask(source, question)
        if found.rows is not None:
            whole = rows.is_all and found.rows.indices is None
            rows = found.rows if whole else rows.intersect(found.rows)
            proved = proved.union(found.proved)
        yield Answer(source, found, rows, proved)


def _ask(source: CandidateSource, question: Question) -> Candidates:
    try:
        found = source.candidates(question)
    except (LanceError, MemoryError):
        raise
    except Exception as error:
        raise LanceError(f"candidate source {source.name!r} failed: {error!r}") from error
    if found.rows is not None and found.rows.num_rows != question.num_rows:
        raise FormatError(
            f"candidate source {source.name!r} answers for {found.rows.num_rows} rows of fragment "
            f"{question.fragment.id}, which has {question.num_rows}"
        )
    return found
