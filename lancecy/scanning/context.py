"""A snapshot opened for reading, and the fragments a process has open.

Every scan, take and count of one dataset object goes through one :class:`ScanContext`, so that each data file's
metadata is parsed once. Worker processes get theirs from :func:`context_for`, keyed by the task's spec.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import zip_longest
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lancecy.encodings.model.chunks import places_of, starts_of
from lancecy.errors import NotFoundError, VersionNotFoundError
from lancecy.file.tail import TAIL_BYTES
from lancecy.file.v0.reader import DictionaryFile
from lancecy.scanning.column_forms import texts_of
from lancecy.scanning.fragment import FragmentFiles, parse_metadata
from lancecy.scanning.project import Projection, project
from lancecy.scanning.request import ScanRequest
from lancecy.scanning.sources import SOURCES, CandidateSource
from lancecy.scanning.task import ScanSpec, ScanUnit
from lancecy.schema import Field
from lancecy.session import Session, default
from lancecy.table.fragment_table import FragmentTable
from lancecy.table.manifest import Fragment
from lancecy.table.rows.id_index import RowIndex
from lancecy.table.snapshot import Snapshot, load_snapshot

__all__ = ["ScanContext", "context_for"]

# Assumed size of a text or binary value whose real size is unknown; only used to plan.
_GUESSED_VALUE_BYTES = 32
_MAX_PROJECTIONS = 64
_MOST_PLANS = 128
Int64 = NDArray[np.int64]

MOST_TOGETHER = 64
"""Most fragments whose files are requested at once by one thread."""

T = TypeVar("T")
U = TypeVar("U")


class ScanContext:
    """One snapshot, one session, and the fragments opened so far.

    Attributes
    ----------
    snapshot : Snapshot
    session : Session
    sources : tuple of CandidateSource
        Candidate sources that every scan asks.
    plans : dict
        Plans that scans with the same arguments share (``scanning.plan.kept_plan``), and their candidates; see
        :meth:`keep_plan`.
    living : ScanContext or None
        The context of the same version, if this one has its deleted rows too.
    """

    def __init__(self, snapshot: Snapshot, session: Session, living: ScanContext | None = None) -> None:
        self.snapshot = snapshot
        self.session = session
        self.living = living
        self.sources: tuple[CandidateSource, ...] = SOURCES
        self._opened: dict[int, FragmentFiles] = {}
        self._opening: dict[int, threading.Lock] = {}
        self._projections: dict[ScanRequest, Projection] = {}
        self._columns: dict[Hashable, Any] = {}
        self.plans: dict[Hashable, Any] = {}
        self._index: RowIndex | None = None
        self._indexing = threading.Lock()
        source = snapshot.dictionary_source()
        self._dictionaries = DictionaryFile(source.store, source.path, source.size, source.identity)
        self._metadata: dict[int, Fragment] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        request = ScanRequest(with_row_id=self.living is not None, with_deleted=self.living is not None)
        return context_for, (ScanSpec.of(self.snapshot, request),)

    @property
    def fragments(self) -> tuple[Fragment, ...]:
        """Fragments of the snapshot, by ascending id."""
        return self.snapshot.manifest.fragments

    @property
    def table(self) -> FragmentTable:
        """The fragments as columns."""
        return self.snapshot.manifest.fragment_table

    def asked_by(self, request: ScanRequest) -> ScanContext:
        """The context whose rows a request means: this one, or that with the deleted rows.

        Parameters
        ----------
        request : ScanRequest
        """
        return self._with_deleted if request.with_deleted else self

    @cached_property
    def _with_deleted(self) -> ScanContext:
        manifest = self.snapshot.manifest
        whole = tuple(replace(fragment, deletion_file=None) for fragment in manifest.fragments)
        return ScanContext(
            replace(self.snapshot, manifest=replace(manifest, fragments=whole)), self.session, self
        )

    def are_deleted(self, files: FragmentFiles, offsets: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        """Which rows are deleted; None if none is.

        Parameters
        ----------
        files : FragmentFiles
        offsets : (n,) int64
            Physical row offsets in the fragment, in any order.
        """
        deleted = files.deleted if self.living is None else self.living.files(files.fragment.id).deleted
        return None if deleted is None or not len(deleted) else deleted.holds(offsets)

    def metadata(self, fragment_id: int) -> Fragment:
        """Manifest entry of one fragment; the others need not be made.

        Raises
        ------
        NotFoundError
        """
        found = self._metadata.get(fragment_id)
        if found is None:
            found = self.snapshot.manifest.fragment(self._place(fragment_id))
            self._metadata[fragment_id] = found
        return found

    def _place(self, fragment_id: int) -> int:
        """Index of a fragment in the table."""
        index = self.table.find(fragment_id)
        if index is None:
            raise NotFoundError(
                f"version {self.snapshot.version} has no fragment {fragment_id}",
                kind="fragment",
                name=str(fragment_id),
                known=[str(number) for number in self.table.ids[:10].tolist()],
            )
        return index

    def indices(self, ids: Sequence[int] | None) -> Int64:
        """(n,) int64: indices in the table of the fragments with these ids, in table order, or of all.

        Raises
        ------
        NotFoundError
        """
        if ids is None:
            return np.arange(self.table.ids.size)
        return np.array(sorted({self._place(number) for number in ids}), np.int64)

    def selected(self, ids: Sequence[int] | None) -> list[Fragment]:
        """The fragments with these ids in table order, or all of them."""
        if ids is None:
            return list(self.fragments)
        return [self.metadata(i) for i in sorted(set(ids))]

    def files(self, fragment_id: int) -> FragmentFiles:
        """The opened files of a fragment; opening them costs IO the first time."""
        found = self._opened.get(fragment_id)
        if found is not None:
            return found
        # Several units of a fragment start at once: one of them opens it, the others wait.
        with self._opening.setdefault(fragment_id, threading.Lock()):
            found = self._opened.get(fragment_id)
            if found is None:
                found = FragmentFiles.open(
                    self.snapshot, self.metadata(fragment_id), self.session, self._dictionaries
                )
                self._opened[fragment_id] = found
        return found

    def several_files(self, fragment_ids: Sequence[int], fields: Sequence[Field] = ()) -> list[FragmentFiles]:
        """:meth:`files` of several fragments, prepared for these fields; requests of many fragments are made at once."""
        if self.snapshot.is_mapped:
            if any(fragment_id not in self._opened for fragment_id in fragment_ids):
                self._open_missing(fragment_ids)
            if fields:
                several = [self.files(fragment_id) for fragment_id in fragment_ids]
                parse_metadata(several, fields)
                for files in several:
                    files.prepare(fields, self.session)
        else:
            missing = [i for i in dict.fromkeys(fragment_ids) if not self._is_ready(i, fields)]
            turns = [missing[n] for n in self.interleaved(missing)]
            groups = [turns[at : at + MOST_TOGETHER] for at in range(0, len(turns), MOST_TOGETHER)]
            self.session.map(lambda group: self.open_together(group, fields), groups, blocking=True)
        return [self.files(fragment_id) for fragment_id in fragment_ids]

    def open_together(self, fragment_ids: Sequence[int], fields: Sequence[Field] = ()) -> None:
        """Open some fragments, in common rounds of requests, and prepare them for these fields.

        Those that another thread is opening are left to it. Errors are those of :meth:`files`.
        """
        self._open_missing(fragment_ids)
        unready = [self.files(i) for i in fragment_ids if not self._is_ready(i, fields)]
        self.session.map_requests(lambda files: files.prepare(fields, self.session), unready)

    def _open_missing(self, fragment_ids: Sequence[int]) -> None:
        """Open fragments that no thread has opened or is opening, if they are several."""
        locks: list[threading.Lock] = []
        mine: list[Fragment] = []
        try:
            for fragment_id in dict.fromkeys(fragment_ids):
                lock = self._opening.setdefault(fragment_id, threading.Lock())
                if fragment_id not in self._opened and lock.acquire(blocking=False):
                    locks.append(lock)
                    if fragment_id not in self._opened:
                        mine.append(self.metadata(fragment_id))
            if len(mine) > 1:
                opened = FragmentFiles.open_several(self.snapshot, mine, self.session, self._dictionaries)
                self._opened.update((files.fragment.id, files) for files in opened)
        finally:
            for lock in locks:
                lock.release()

    def all_known(self, fragment_ids: Iterable[int], fields: Sequence[Field]) -> bool:
        """Whether these fragments are open, and all metadata of these fields is loaded."""
        opened = [self._opened.get(fragment_id) for fragment_id in fragment_ids]
        return all(files is not None and files.knows(fields) for files in opened)

    def is_small(self, fragment_id: int) -> bool:
        """Whether each file of a fragment is read whole when it is opened, as far as the manifest tells."""
        files = self.metadata(fragment_id).files
        return all(not file.is_legacy and 0 < (file.size or 0) <= TAIL_BYTES for file in files)

    def _is_ready(self, fragment_id: int, fields: Sequence[Field]) -> bool:
        opened = self._opened.get(fragment_id)
        return opened is not None and (not fields or opened.knows(fields))

    def interleaved(self, fragment_ids: Sequence[int]) -> list[int]:
        """Indices of the fragments, ordered so that consecutive ones lie in different bases."""
        if not (self.table.bases[1:] != self.table.bases[:-1]).any():
            return list(range(len(fragment_ids)))
        queues: dict[int, list[int]] = defaultdict(list)
        numbers = self.table.indices(np.array(fragment_ids, np.int64))
        for index, base in enumerate(self.table.first_bases(numbers).tolist()):
            queues[base].append(index)
        return [index for turn in zip_longest(*queues.values()) for index in turn if index is not None]

    def spread(self, step: Callable[[T], U], items: Sequence[T], fragment_of: Callable[[T], int]) -> list[U]:
        """Apply a function to items side by side, so that all bases work at once.

        Parameters
        ----------
        step : function of an item
            It may wait for requests where files are not mapped.
        items : sequence
        fragment_of : function of an item
            Id of the fragment it reads.

        Returns
        -------
        list
            Results in the order of the items.
        """
        order = self.interleaved([fragment_of(item) for item in items])
        # Threads that wait for requests may outnumber the processors.
        blocking = not self.snapshot.is_mapped
        found = self.session.map(step, [items[index] for index in order], blocking=blocking)
        results = dict(zip(order, found, strict=True))
        return [results[index] for index in range(len(items))]

    @cached_property
    def dictionary_texts(self) -> tuple[str, ...]:
        """Names of the top-level text columns whose pages store dictionaries, by the files of the first fragment."""
        texts = texts_of(self.snapshot.schema)
        if not self.table.ids.size or not texts:
            return ()
        files = self.files(int(self.table.ids[0]))
        files.prepare(texts, self.session)
        return tuple(f.name for f in texts if files.stores_dictionary(f))

    def keep_plan(self, key: Hashable, found: Any) -> None:
        """Keep what is worked out for a scan for the next one with the same arguments; only few of them.

        Parameters
        ----------
        key : hashable
        found : object
        """
        if len(self.plans) >= _MOST_PLANS:
            self.plans.clear()
        self.plans[key] = found

    def projection(self, request: ScanRequest) -> Projection:
        """Columns that a request reads and returns; worked out once.

        Raises
        ------
        ColumnNotFoundError, ExpressionError
            The request does not fit the schema.
        """
        found = self._projections.get(request)
        if found is None:
            if len(self._projections) >= _MAX_PROJECTIONS:
                self._projections.clear()
            found = self._projections[request] = project(self.snapshot.schema.scanned, request, self._columns)
        return found

    def row_index(self) -> RowIndex:
        """The snapshot's row index, kept as long as this context: the session's cache may be too small for it.

        Raises
        ------
        FormatError, LimitError
            See ``Snapshot.row_index``.
        """
        with self._indexing:
            if self._index is None:
                self._index = self.snapshot.row_index()
            return self._index

    def release(self, units: Sequence[ScanUnit]) -> None:
        """Give resident pages of these units' mapped files back to the system; they stay readable.

        A streaming scan calls this after each window: pages of a memory map count as this
        process's memory until they are dropped.
        """
        for fragment_id in {unit.fragment for unit in units}:
            self._tell_maps(fragment_id, "release")

    def leave(self, fragments: Mapping[int, float], most: int) -> None:
        """Leave resident pages of the mapped files of fragments, of which about so many bytes were read.

        Once scans of this process left more than ``most`` bytes, all of them are given back, as by :meth:`release`: a
        loop of small scans over a large table would fill the memory.
        """
        for fragment_id, nbytes in fragments.items():
            self._tell_maps(fragment_id, "leave", nbytes, most)

    def _tell_maps(self, fragment_id: int, name: str, *args: float) -> None:
        """Call a method of the stores that map files, for each file of a fragment."""
        for part in self.files(fragment_id).parts:
            method = getattr(part.source.store, name, None)
            if method is not None:
                method(part.source.path, *args)

    def physical_rows(self, fragment: Fragment) -> int:
        """Rows including deleted ones, from the manifest where it states them."""
        if fragment.physical_rows is not None:
            return fragment.physical_rows
        return self.files(fragment.id).num_rows

    def live_rows(self, fragment: Fragment) -> int:
        """Rows that are not deleted, from the manifest where it states them."""
        deletion = fragment.deletion_file
        if deletion is None:
            return self.physical_rows(fragment)
        if deletion.num_deleted_rows is not None and fragment.physical_rows is not None:
            return fragment.physical_rows - deletion.num_deleted_rows
        return self.files(fragment.id).live_rows

    def row_starts(self) -> NDArray[np.int64]:
        """(num_fragments + 1,) int64, read-only: number of the first live row of each fragment."""
        return self._row_starts

    @cached_property
    def _row_starts(self) -> NDArray[np.int64]:
        # Every take asks for this, and there may be many fragments.
        starts = starts_of(self.live_counts(np.arange(self.table.ids.size)))
        starts.flags.writeable = False
        return starts

    def live_counts(self, numbers: Int64) -> Int64:
        """(n,) int64: rows of some fragments that are not deleted, by their indices in the table."""
        counts = self.table.live[numbers]
        if self.table.num_rows is None:
            for place in np.flatnonzero(counts < 0).tolist():
                counts[place] = self.live_rows(self.metadata(int(self.table.ids[numbers[place]])))
        return counts

    @cached_property
    def _first_rows(self) -> dict[int, int]:
        """Fragment id -> number of its first live row."""
        return dict(zip(self.table.ids.tolist(), self.row_starts()[:-1].tolist(), strict=True))

    def row_offsets(self, files: FragmentFiles, offsets: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Numbers of live rows among those of the table.

        Parameters
        ----------
        files : FragmentFiles
        offsets : (n,) int64
            Physical row offsets in the fragment, in any order.

        Returns
        -------
        (n,) uint64
        """
        if self.living is not None:
            return self.living.row_offsets(self.living.files(files.fragment.id), offsets)
        found = offsets + self._first_rows[files.fragment.id]
        if files.deleted is not None:
            found -= np.searchsorted(files.deleted.offsets, offsets)
        return found.astype(np.uint64)

    def bytes_per_row(self, fragment: Fragment, fields: Sequence[Field]) -> float:
        """Estimated bytes of one row of the fields, decoded."""
        return float(self.row_bytes(np.array([self._place(fragment.id)]), fields)[0])

    def row_bytes(self, numbers: Int64, fields: Sequence[Field], exact: bool = False) -> NDArray[np.float64]:
        """(n,) float64: :meth:`bytes_per_row` of some fragments, by their indices in the table.

        Parameters
        ----------
        exact : bool
            Open the files for their exact sizes. Otherwise estimate by the types, unless metadata is loaded already;
            for values of varying size, by the size of the files in the manifest.
        """
        found = [-1.0] * numbers.size
        ids = self.table.ids[numbers].tolist()
        if exact:
            self.several_files(ids, fields)
        opened = {place: self._opened[i] for place, i in enumerate(ids) if i in self._opened}
        if not exact:
            parse_metadata(opened.values(), fields)
        for place, files in opened.items():
            if files.knows(fields):
                found[place] = _stored_row_bytes(files, fields)
        sizes = np.array(found, np.float64)
        if -1.0 in found:
            unknown = np.flatnonzero(sizes < 0)
            sizes[unknown] = self.guessed_bytes(numbers[unknown], fields)
        return sizes

    def guessed_bytes(self, numbers: Int64, fields: Sequence[Field]) -> NDArray[np.float64]:
        """(n,) float64: :meth:`row_bytes` by the manifest: the types of the fields, and the sizes of the files."""
        all_fixed, any_varying = _type_bytes(tuple(fields))
        if not any_varying:
            return np.full(numbers.size, all_fixed)
        table = self.table
        counts = table.first_file[numbers + 1] - table.first_file[numbers]
        files = places_of(table.first_file[numbers], counts)
        kinds = np.array([_type_bytes(_pruned(fields, form.fields)) for form in table.forms], np.float64)
        fixed, varying = kinds.reshape(-1, 2)[table.form_of[files]].T
        sizes, rows = table.sizes[files], np.repeat(table.rows[numbers], counts)
        guess = varying * _GUESSED_VALUE_BYTES
        # The file size includes other columns: partitions rather come out too small.
        by_size = np.maximum(guess, sizes / np.maximum(rows, 1) - fixed)
        guess = np.where((varying > 0) & (sizes > 0) & (rows > 0), by_size, guess)
        owners = np.repeat(np.arange(numbers.size), counts)
        return np.bincount(owners, fixed + guess, numbers.size).astype(np.float64, copy=False)

    def page_edges(self, fragment_id: int, fields: Sequence[Field]) -> NDArray[np.int64] | None:
        """First rows of the pages of the largest of the fields, and the number of rows; costs no request.

        None if the files of the fragment are not open.
        """
        opened = self._opened.get(fragment_id)
        return None if opened is None else opened.page_edges(fields)


def _stored_row_bytes(files: FragmentFiles, fields: Sequence[Field]) -> float:
    stored, decoded = (nbytes / max(1, files.num_rows) for nbytes in files.sizes(fields))
    if files.version < (2, 0):
        return stored
    # Values grow when they are decoded: by an amount that pages or types tell, or a guess.
    fixed, varying = _type_bytes(tuple(fields))
    return max(2 * stored if varying else stored, decoded, fixed + varying * _GUESSED_VALUE_BYTES)


def _pruned(fields: Sequence[Field], held: Sequence[int]) -> tuple[Field, ...]:
    """What is left of the fields in a file that holds these field ids."""
    ids = frozenset(held)
    return tuple(f for f in (wanted.pruned(ids) for wanted in fields) if f is not None)


@lru_cache(maxsize=256)
def _type_bytes(fields: tuple[Field, ...]) -> tuple[float, int]:
    """Bytes of a row by the types of its columns, and the number of columns with values of varying size."""
    fixed, varying = 0.0, 0
    for node in (node for top in fields for node in top.walk()):
        if node.is_list:
            # The number of elements is unknown.
            fixed += 4
            varying += 1
        elif not node.children:
            width = _leaf_bytes(node)
            fixed += width or 0
            varying += width is None
    return fixed, varying


def _leaf_bytes(node: Field) -> float | None:
    """Bytes of one value, None if they vary."""
    data_type, count = node.storage_type, 1
    while hasattr(data_type, "list_size"):
        count, data_type = count * data_type.list_size, data_type.value_type
    if hasattr(data_type, "index_type"):
        data_type = data_type.index_type
    try:
        return float(count * data_type.bit_width / 8)
    except ValueError:
        return None


def _planned(spec: ScanSpec, session: Session) -> Snapshot:
    """The version that a scan was planned on."""
    try:
        return load_snapshot(spec.location.known_to(session), spec.version, session=session)
    except VersionNotFoundError as error:
        raise VersionNotFoundError(
            f"{error.what}: version {spec.version} was cleaned up since this scan was planned; "
            "checkout_latest opens the newest, plan again from there",
            name=error.name,
            known=error.known,
        ) from error


_contexts: dict[tuple[object, ...], ScanContext] = {}
_contexts_lock = threading.Lock()
_MAX_CONTEXTS = 32


def context_for(spec: ScanSpec, session: Session | None = None) -> ScanContext:
    """The context in which a task of ``spec`` runs in this process; the table is opened once per process.

    Raises
    ------
    DatasetNotFoundError, NotFoundError, FormatError, StoreError
        The table or that version of it cannot be opened here.
    """
    session = (session or default()).with_limits(spec.location.limits)
    key = (session.key, spec.version, spec.identity, *spec.location.key)
    with _contexts_lock:
        found = _contexts.get(key)
    if found is not None:
        return found.asked_by(spec.request)
    snapshot = _planned(spec, session)
    if spec.identity and snapshot.identity != spec.identity:
        raise VersionNotFoundError(
            f"version {spec.version} of {spec.uri} is not the one this scan was planned on: "
            "the table was created again since; plan again",
            name=str(spec.version),
        )
    context = ScanContext(snapshot, session)
    with _contexts_lock:
        while len(_contexts) >= _MAX_CONTEXTS:
            _contexts.pop(next(iter(_contexts)))
        _contexts[key] = context
    return context.asked_by(spec.request)
