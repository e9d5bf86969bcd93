"""Plans a compaction: which fragments are rewritten together.

A fragment is a candidate if it has fewer rows than the target, or if more of its rows are deleted than the threshold
allows. Neighbouring candidates form a run; only fragments covered by the same indices are in one run. A run is cut
into groups of at least the target's rows, and the rest joins the last one. A single small fragment is left alone.

Source: table sheet, section 9.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lancecy.changes.compaction_options import CompactionSettings
from lancecy.records import dataclass
from lancecy.scanning.context import ScanContext
from lancecy.table.manifest import Fragment, IndexEntry
from lancecy.table.operations.index_section import covered

__all__ = ["planned_groups"]


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A fragment that may be rewritten."""

    fragment: Fragment
    live_rows: int
    is_alone_worth_it: bool
    """Whether it is rewritten also without a neighbour."""
    covers: frozenset[int]
    """Numbers of the indices that cover it."""


def planned_groups(context: ScanContext, settings: CompactionSettings) -> list[tuple[Fragment, ...]]:
    """The groups of neighbouring fragments that a compaction rewrites, in table order.

    Parameters
    ----------
    context : ScanContext
    settings : CompactionSettings

    Returns
    -------
    list of tuple of Fragment
        Each group becomes one or several new fragments; empty if nothing is to be done.

    Raises
    ------
    FormatError, StoreError
        Indices, or data files of fragments without a stated number of rows, cannot be read.

    Examples
    --------
    >>> import lancecy
    >>> groups = planned_groups(lancecy.dataset("example.lance").context, CompactionSettings())
    >>> [[fragment.id for fragment in group] for group in groups]
    [[0, 1, 2, 3]]
    """
    groups = (
        group
        for run in _runs(context, settings)
        if len(run) > 1 or run[0].is_alone_worth_it
        for group in _cut(run, settings.target_rows_per_fragment)
    )
    return [tuple(one.fragment for one in group) for group in _limited(groups, settings)]


def _runs(context: ScanContext, settings: CompactionSettings) -> Iterator[list[_Candidate]]:
    """Neighbouring candidates that the same indices cover."""
    covers = _Covers(context.snapshot.indices())
    excluded = set(settings.excluded_fragment_ids)
    run: list[_Candidate] = []
    for fragment in context.fragments:
        found = None if fragment.id in excluded else _candidate(context, fragment, covers, settings)
        if run and (found is None or found.covers != run[-1].covers):
            yield run
            run = []
        if found is not None:
            run.append(found)
    if run:
        yield run


def _candidate(
    context: ScanContext, fragment: Fragment, covers: _Covers, settings: CompactionSettings
) -> _Candidate | None:
    rows, live = context.physical_rows(fragment), context.live_rows(fragment)
    threshold = settings.materialize_deletions_threshold
    # As in pylance, a threshold that no fragment can exceed turns this off.
    materializes = settings.materialize_deletions and threshold < 1
    has_many = materializes and rows > 0 and (rows - live) / rows > threshold
    if not has_many and rows >= settings.target_rows_per_fragment:
        return None
    return _Candidate(fragment, live, has_many, covers.of(fragment))


class _Covers:
    """The indices that cover a fragment."""

    def __init__(self, entries: Iterable[IndexEntry]) -> None:
        known = (covered(entry) for entry in entries if not entry.name.startswith("__lance_"))
        self._fragments = [ids for ids in known if ids is not None]

    def of(self, fragment: Fragment) -> frozenset[int]:
        """Numbers of the indices whose entries name the fragment."""
        known = fragment.stored_id
        return frozenset(number for number, ids in enumerate(self._fragments) if known in ids)


def _cut(run: Sequence[_Candidate], target: int) -> Iterator[list[_Candidate]]:
    """Groups of at least the target's rows; what is left joins the last group."""
    left = sum(one.live_rows for one in run)
    group: list[_Candidate] = []
    rows = 0
    for one in run:
        if group and rows >= target and left >= target:
            yield group
            group, rows = [], 0
        group.append(one)
        rows += one.live_rows
        left -= one.live_rows
    yield group


def _limited(
    groups: Iterable[Sequence[_Candidate]], settings: CompactionSettings
) -> Iterator[Sequence[_Candidate]]:
    """The first groups whose fragments, rows and bytes together are within the limits."""
    limits = (settings.max_source_fragments, settings.max_source_rows, settings.max_source_bytes)
    taken = [0, 0, 0]
    for group in groups:
        sizes = (len(group), sum(one.live_rows for one in group), _stored_bytes(group))
        taken = [sum(pair) for pair in zip(taken, sizes, strict=True)]
        if any(limit is not None and size > limit for limit, size in zip(limits, taken, strict=True)):
            return
        yield group


def _stored_bytes(group: Iterable[_Candidate]) -> int:
    return sum(file.size or 0 for one in group for file in one.fragment.files)
