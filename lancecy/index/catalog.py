"""The indices of a snapshot, and their answers to the conditions of a filter.

Answers of segments are about all their fragments at once, and a scan asks fragment by fragment, so a catalog keeps the
latest answers.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterator
from functools import cached_property
from typing import Any, TypeVar

import pyarrow as pa

from lancecy.encodings.arrow.columns import bare_type
from lancecy.errors import ExpressionError, FormatError, LanceError, UnsupportedError, printable, warn
from lancecy.expr import Bound, Expr
from lancecy.expr.kinds import family
from lancecy.expr.nodes import Call, Column, conjuncts, walk
from lancecy.index.answers import RowAnswer, all_of
from lancecy.index.bounds import indexed_type
from lancecy.index.btree import BTree
from lancecy.index.condition import Condition
from lancecy.index.files import load_index_file
from lancecy.index.found import FoundRows
from lancecy.index.query import Query, Types, answer, query_of, ruled_out
from lancecy.index.segment import Segment
from lancecy.index.segments import ORDER, OpenedSegment, open_segment, path_of, segment_of
from lancecy.records import dataclass
from lancecy.table import flags
from lancecy.table.manifest import IndexEntry
from lancecy.table.operations.index_section import DeferredMoves
from lancecy.table.snapshot import Snapshot

__all__ = ["Catalog", "IndexQuestion", "catalog_of"]

T = TypeVar("T")

# Answers kept at least, whatever their size; beyond it, at most so many bytes.
_KEPT, _KEPT_BYTES = 4, 64 << 20
_QUERIES = 256
# What reading damaged bytes may raise.
_DAMAGE = (LanceError, ArithmeticError, LookupError, TypeError, ValueError, pa.ArrowException)


@dataclass(frozen=True, slots=True)
class IndexQuestion:
    """Conditions of a filter that indices are asked about together.

    Attributes
    ----------
    query : Query
    conditions : tuple of Expr
        Those that it stands for: all of them are true where it is.
    """

    query: Query
    conditions: tuple[Expr, ...]


class Catalog:
    """The indices of one snapshot that may serve its filters.

    Parameters
    ----------
    snapshot : Snapshot

    Notes
    -----
    Thread-safe. An index that cannot be read is reported once and not used any more.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._lock = threading.RLock()
        self._segments: dict[tuple[str, ...], list[Segment]] | None = None
        self._types: dict[tuple[str, ...], pa.DataType] = {}
        self._questions: OrderedDict[Expr, tuple[IndexQuestion, ...]] = OrderedDict()
        self._found: OrderedDict[Hashable, FoundRows | None] = OrderedDict()
        self._found_bytes = 0
        self._errors: dict[Segment | None, LanceError] = {}
        self._unknown: defaultdict[tuple[str, ...], list[LanceError]] = defaultdict(list)

    def questions(self, bound: Bound) -> tuple[IndexQuestion, ...]:
        """What indices are asked about a filter; nothing if none concerns it.

        Parameters
        ----------
        bound : Bound
            The filter.
        """
        with self._lock:
            known = self._questions.get(bound.expr)
            if known is None:
                if self._segments is None:
                    self._segments = self._read_segments()
                self._warn_of_unknown(bound.expr)
                known = self._questions[bound.expr] = tuple(_questions(bound, self._types))
                if len(self._questions) > _QUERIES:
                    self._questions.popitem(last=False)
            return known

    def has_rows(self, path: tuple[str, ...]) -> bool:
        """Whether an index names the rows of the values of a column.

        Parameters
        ----------
        path : tuple of str
            Of the column.
        """
        with self._lock:
            if self._segments is None:
                self._segments = self._read_segments()
        return any(segment.kind in ("BTREE", "BITMAP") for segment in self._segments.get(path, ()))

    def page_bounds(self, path: tuple[str, ...]) -> list[Any]:
        """Values between which each page of a BTREE index has its own, ascending; none without such an index.

        They cut the rows into parts of about one page for each segment. An index that cannot be read gives none.

        Parameters
        ----------
        path : tuple of str
            Of the column.
        """
        with self._lock:
            if self._segments is None:
                self._segments = self._read_segments()
        found: set[Any] = set()
        for segment in self._segments.get(path, ()):
            if segment.kind != "BTREE" or segment in self._errors:
                continue
            try:
                opened = self._opened(segment)
            except MemoryError:
                raise
            except _DAMAGE as caught:
                self._failed(segment, caught)
                continue
            if isinstance(opened, BTree):
                found.update(opened.lows.drop_null().to_pylist())
        return sorted(found)

    def answer(self, query: Query, fragment: int, num_rows: int, is_strict: bool) -> RowAnswer | None:
        """The rows of one fragment for which a condition is true; None if nothing is known.

        Parameters
        ----------
        query : Query
        fragment : int
        num_rows : int
            Its physical rows.
        is_strict : bool
            Raise if an index is damaged or missing; otherwise warn and go on without it.

        Raises
        ------
        LanceError
            An index is damaged or missing, and ``is_strict``.
        """

        def ask(condition: Condition) -> RowAnswer | None:
            return self._ask(condition, fragment, num_rows, is_strict)

        return answer(query, ask)

    def ruled_out(self, query: Query, is_strict: bool) -> frozenset[int]:
        """The fragments without a row for which a condition is true, as far as known.

        Parameters
        ----------
        query : Query
        is_strict : bool
            As in :meth:`answer`.

        Raises
        ------
        LanceError
            An index is damaged or missing, and ``is_strict``.
        """

        def ask(condition: Condition) -> frozenset[int]:
            gone: frozenset[int] = frozenset()
            for segment in (self._segments or {}).get(condition.path, ()):
                found = self._told(segment, condition, is_strict, lambda found: found)
                if found is not None:
                    places = segment.places
                    told = places.covered - places.updated if found.are_left_out else places.covered
                    gone |= found.empty(told, self._row_counts)
                    if found.is_exact and segment.places.covered >= self._known:
                        break
            return gone

        return ruled_out(query, ask) & self._known

    @cached_property
    def _row_counts(self) -> dict[int, int | None]:
        """Physical rows of the fragments that indices name, as far as the manifest states them."""
        fragments = self._snapshot.fragments
        return {
            fragment.id: fragment.physical_rows for fragment in fragments if fragment.id == fragment.stored_id
        }

    @cached_property
    def _known(self) -> frozenset[int]:
        return frozenset(self._row_counts)

    def load(self, entry: IndexEntry) -> bool:
        """Open a segment and read what look-ups need, as far as the session's cache keeps it.

        Parameters
        ----------
        entry : IndexEntry

        Returns
        -------
        bool
            False: the segment is not used here, or covers no fragment.

        Raises
        ------
        LanceError
            Its files are damaged or missing.
        """
        with self._lock:
            if self._segments is None:
                self._segments = self._read_segments()
            every = [segment for mine in self._segments.values() for segment in mine]
        found = next((segment for segment in every if segment.entry.uuid == entry.uuid), None)
        if found is None:
            return False
        for name in found.sizes:
            load_index_file(found.file(name))
        # An opened segment has the files as they were.
        self._snapshot.session.cache.discard(self._key(found))
        opened = self._opened(found)
        if isinstance(opened, BTree):
            opened.load(found)
        return True

    def _ask(self, condition: Condition, fragment: int, num_rows: int, is_strict: bool) -> RowAnswer | None:
        """The answer of the first index that knows exactly, or what all of them leave."""
        known: list[RowAnswer] = []
        for segment in (self._segments or {}).get(condition.path, ()):
            if fragment not in segment.places.covered:
                continue
            rows = self._rows(segment, condition, fragment, num_rows, is_strict)
            if rows is not None:
                known.append(rows)
                if rows.is_exact:
                    return rows
        return all_of(known)

    def _rows(
        self, segment: Segment, condition: Condition, fragment: int, num_rows: int, is_strict: bool
    ) -> RowAnswer | None:
        def rows_of(found: FoundRows) -> RowAnswer | None:
            is_updated = fragment in segment.places.updated
            if is_updated and found.are_left_out:
                return None  # a row may be left out for a value that it had before
            rows = found.rows(fragment, num_rows)
            names = (f"{segment.name} ({segment.kind or 'old'})",)
            return RowAnswer(rows, found.is_exact and not is_updated, names)

        return self._told(segment, condition, is_strict, rows_of)

    def _told(
        self, segment: Segment, condition: Condition, is_strict: bool, tell: Callable[[FoundRows], T | None]
    ) -> T | None:
        """What a segment found, as a function tells it; None if it knows nothing, or is damaged."""
        with self._lock:
            error = self._errors.get(segment)
        if error is None:
            try:
                found = self._find(segment, condition)
                return None if found is None else tell(found)
            except MemoryError:
                raise
            except ExpressionError:
                return None  # raised again if a row has such a value
            except _DAMAGE as caught:
                error = self._failed(segment, caught)
        if is_strict and not isinstance(error, UnsupportedError):
            raise error
        return None

    def _find(self, segment: Segment, condition: Condition) -> FoundRows | None:
        key = (segment, condition)
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
                return self._found[key]
            found = self._found[key] = self._opened(segment).find(condition, segment)
            self._found_bytes += 0 if found is None else found.nbytes
            while len(self._found) > _KEPT and self._found_bytes > _KEPT_BYTES:
                _, dropped = self._found.popitem(last=False)
                self._found_bytes -= 0 if dropped is None else dropped.nbytes
            return found

    def _opened(self, segment: Segment) -> OpenedSegment:
        cache = self._snapshot.session.cache
        return cache.get(self._key(segment), lambda: open_segment(segment), lambda opened: opened.nbytes)

    def _key(self, segment: Segment) -> tuple[Hashable, ...]:
        return "index segment", segment.entry.uuid, segment.entry.base_id, self._snapshot.location.key

    def _failed(self, segment: Segment, caught: Exception) -> LanceError:
        """Report a damaged index once, and remember the error."""
        error = caught if isinstance(caught, LanceError) else FormatError(f"it is damaged: {caught!r}")
        error.within(f"index {printable(segment.name)!r}")
        with self._lock:
            if segment in self._errors:
                return self._errors[segment]
            self._errors[segment] = error
        if isinstance(error, UnsupportedError):
            warn(f"{error}; filters are answered without it")
        else:
            warn(
                f"an index cannot be read, so filters are answered without it: {error}; "
                "create it again, or drop it"
            )
        return error

    def _warn_of_unknown(self, expr: Expr) -> None:
        """Tell once which indices on the columns of a condition are not used."""
        for path in {node.path for node in walk(expr) if isinstance(node, Column)}:
            for error in self._unknown.pop(path, ()):
                warn(f"{error}; filters are answered without it")

    def _read_segments(self) -> dict[tuple[str, ...], list[Segment]]:
        """The segments that may be used, by column; exact ones first."""
        found: defaultdict[tuple[str, ...], list[Segment]] = defaultdict(list)
        try:
            entries = self._snapshot.indices()
        except LanceError as error:
            self._errors[None] = error
            warn(f"the indices of {self._snapshot.uri} cannot be read and are not used: {error}")
            return {}
        # Flags of reuse that this release does not know make the section say less than it has to.
        is_other = self._snapshot.manifest.reader_flags & flags.OTHER_FRAGMENT_REUSE
        moves = DeferredMoves(None, 0) if is_other else DeferredMoves.of(entries)
        for entry in entries:
            path = path_of(self._snapshot, entry)
            if path is None:
                continue
            data_type = indexed_type(bare_type(self._snapshot.schema.path(path)[-1].arrow_field.type))
            try:
                segment = segment_of(self._snapshot, entry, data_type, moves)
            except LanceError as error:
                self._unknown[path].append(error)
                continue
            if segment is not None:
                found[path].append(segment)
                self._types[path] = data_type
        for segments in found.values():
            segments.sort(key=lambda s: ORDER.index(s.kind) if s.kind in ORDER else len(ORDER))
        return dict(found)


def _questions(bound: Bound, indexed: Types) -> Iterator[IndexQuestion]:
    """The conditions of a filter that an index concerns; those on one column are joined, as both ends of a range."""
    joined: defaultdict[tuple[str, ...], list[tuple[Expr, Query]]] = defaultdict(list)
    for condition in conjuncts(bound.expr):
        query = query_of(bound, condition, indexed)
        if query is None:
            continue
        if query.condition is None or family(indexed[query.condition.path]) == "list":
            yield IndexQuestion(query, (condition,))
        else:
            joined[query.condition.path].append((condition, query))
    for found in joined.values():
        conditions = tuple(condition for condition, _ in found)
        together = (
            found[0][1] if len(found) == 1 else query_of(bound, Call("and", conditions, pa.bool_()), indexed)
        )
        if together is not None:
            yield IndexQuestion(together, conditions)


_lock = threading.Lock()


def catalog_of(snapshot: Snapshot) -> Catalog:
    """The catalog of a snapshot, made once."""
    with _lock:
        found = snapshot.derived.get(Catalog)
        if not isinstance(found, Catalog):
            found = snapshot.derived[Catalog] = Catalog(snapshot)
        return found
