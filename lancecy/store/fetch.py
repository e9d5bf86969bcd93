"""One round of reading: the ranges of many files become few parallel requests.

Ranges of a mapped file need no request: kernels read the map, and nothing is
merged or copied. For other stores the ranges of one file are checked against its
size, merged, cut into requests, and read into one arena per file that holds the
merged ranges, concatenated.

``known`` holds what earlier rounds of the same work fetched: a later range inside
those bytes costs no request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from lancecy.errors import TruncatedError
from lancecy.records import dataclass
from lancecy.store.base import Memory, Store, StoreTraits
from lancecy.store.ranges import MergedRanges, joined, merge, split, worthwhile_holes
from lancecy.store.reads import Ranges, SourceFile, Span

__all__ = ["Block", "FileKey", "Job", "ReadsTogether", "RetainingFetch", "RunAll", "fetch_round", "file_key"]

Int64s: TypeAlias = NDArray[np.int64]
FileKey: TypeAlias = tuple[int, str, int]
Job: TypeAlias = Callable[[], None]
RunAll: TypeAlias = Callable[[Sequence[Job]], None]
"""Runs jobs in parallel and returns when all are done; raises the first error."""

# No limit: a merged range is cut into requests afterwards.
_NO_CAP = 1 << 62
_FEW = 16
# Requests that are small on average: so many times the store's ``concurrency`` are in flight.
_SMALL_BYTES = 256 << 10
_SMALL_WIDTH = 4


@runtime_checkable
class ReadsTogether(Protocol):
    """A store that reads ranges of several objects in one call, without a thread for each."""

    def get_each(self, wanted: Sequence[tuple[str, int, int]]) -> list[Memory | None]:
        """One range each of several objects, requested at once.

        Parameters
        ----------
        wanted : sequence of (str, int, int)
            Path, start and stop; no range is empty.

        Returns
        -------
        list of Memory or None
            None for a range that ``get_many`` has to be asked for, which tells what is wrong.
        """


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Bytes of one file in one piece of memory.

    Attributes
    ----------
    starts, stops : (num_runs,) int64, bytes
        Runs of the file that are in the arena; both ascending, runs may overlap.
    bases : (num_runs,) int64, bytes
        Where each run starts in ``arena``.
    arena : (nbytes,) uint8
    """

    starts: Int64s
    stops: Int64s
    bases: Int64s
    arena: Memory

    def locate(self, positions: Int64s, lengths: Int64s) -> tuple[NDArray[np.bool_], Int64s]:
        """Which ranges are present, and their positions in the arena (0 if absent)."""
        if self.starts.size == 0:
            return lengths == 0, np.zeros(positions.size, np.int64)
        run = np.searchsorted(self.starts, positions, side="right") - 1
        present = (run >= 0) & (positions + lengths <= self.stops[run])
        places = np.where(present, self.bases[run] + positions - self.starts[run], 0)
        return present | (lengths == 0), np.where(lengths == 0, 0, places)

    def is_whole(self, file: SourceFile) -> bool:
        """Whether it has all bytes of a file, in their order."""
        return self.arena.size == file.size and self.starts.size == 1

    def joined(self, other: Block) -> Block:
        """One block with the bytes of both, this one's first."""
        starts = np.concatenate([self.starts, other.starts])
        stops = np.concatenate([self.stops, other.stops])
        bases = np.concatenate([self.bases, other.bases + self.arena.size])
        order = np.argsort(starts, kind="stable")
        # A run inside an earlier one would hide it from ``locate``.
        reach = np.maximum.accumulate(stops[order])
        kept = order[np.concatenate([[True], reach[1:] > reach[:-1]])]
        return Block(starts[kept], stops[kept], bases[kept], np.concatenate([self.arena, other.arena]))


@dataclass(slots=True, eq=False)
class _Plan:
    """What one file has to read in this round."""

    file: SourceFile
    indexes: list[int]
    positions: Int64s
    lengths: Int64s
    known: Block | None = None
    block: Block | None = None
    places: Int64s | None = None


def file_key(file: SourceFile) -> FileKey:
    """The identity of a source file within one round, whether or not its store is metered."""
    return (id(getattr(file.store, "metered", file.store)), file.path, file.size)


def fetch_round(
    requests: Sequence[Ranges],
    run_all: RunAll,
    known: dict[FileKey, Block] | None = None,
    maps: dict[FileKey, Memory] | None = None,
) -> list[Span]:
    """Fetch all ranges of one round.

    Parameters
    ----------
    requests : sequence of Ranges
        Several may read the same file; their ranges are merged.
    run_all : function
        Runs the jobs; called once if any request is needed.
    known : dict, optional
        Blocks of earlier rounds by file. Read and updated.
    maps : dict, optional
        Maps of earlier rounds by file, read and updated: each file is checked for changes once.

    Returns
    -------
    list of Span
        One per request, in order.

    Raises
    ------
    TruncatedError
        A range passes the end of its file (checked before anything is allocated), or a store gave fewer bytes.
    LanceError
        Whatever the store raises.
    """
    for request in requests:
        _check(request)
    spans: list[Span | None] = [None] * len(requests)
    grouped: dict[FileKey, list[int]] = {}
    maps = {} if maps is None else maps
    for index, request in enumerate(requests):
        file, key = request.file, file_key(request.file)
        block = known.get(key) if known else None
        if block is not None and block.is_whole(file):
            spans[index] = Span(block.arena, request.positions)
        elif file.store.traits.is_mapped:
            spans[index] = Span(_mapped(key, file, maps), request.positions)
        else:
            grouped.setdefault(key, []).append(index)
    plans = [
        _plan(requests[indexes[0]].file, indexes, requests, known.get(key) if known else None)
        for key, indexes in grouped.items()
    ]
    _deliver(plans, run_all)
    for plan in plans:
        if known is not None and plan.block is not None:
            known[file_key(plan.file)] = plan.block
        for index, span in _spans(plan, requests):
            spans[index] = span
    return [span for span in spans if span is not None]


class RetainingFetch:
    """Fetches the rounds of one piece of work and keeps what it fetched.

    Ranges close to each other are fetched with the bytes between them; a later round that needs those
    bytes (the values between the offsets of legacy strings) then makes no request.

    Parameters
    ----------
    run_all : function
        Runs jobs in parallel.
    limit : int, bytes
        Limit on what is kept; the least recently used files are evicted first.
    known : mapping, optional
        Blocks that earlier work fetched, by file.
    """

    def __init__(self, run_all: RunAll, limit: int, known: Mapping[FileKey, Block] | None = None) -> None:
        self._run_all = run_all
        self._limit = limit
        self._blocks: dict[FileKey, Block] = dict(known or {})
        self._maps: dict[FileKey, Memory] = {}

    def __call__(self, requests: Sequence[Ranges]) -> list[Span]:
        """See :func:`fetch_round`. Not thread-safe."""
        spans = fetch_round(requests, self._run_all, self._blocks, self._maps)
        if not self._blocks:
            return spans
        for request in requests:
            key = file_key(request.file)
            block = self._blocks.pop(key, None)
            if block is not None:
                self._blocks[key] = block  # most recently used last
        kept = self.nbytes
        for key in list(self._blocks):
            if kept <= self._limit:
                break
            kept -= self._blocks.pop(key).arena.size
        return spans

    def use(self, file: SourceFile, memory: Memory) -> None:
        """Use this map of a file, which has just been made."""
        self._maps[file_key(file)] = memory

    def held(self, file: SourceFile) -> Block | None:
        """The bytes of a file that were fetched and are still kept, None without any; never those of a map."""
        return self._blocks.get(file_key(file))

    def whole(self, file: SourceFile) -> Block | None:
        """The block that has all bytes of a file, None if there is none."""
        block = self._blocks.get(file_key(file))
        return block if block is not None and block.is_whole(file) else None

    @property
    def nbytes(self) -> int:
        """Bytes kept at present."""
        return sum(block.arena.size for block in self._blocks.values())


def _check(request: Ranges) -> None:
    """Refuse ranges outside the file; written so that no sum can overflow."""
    positions, lengths, size = request.positions, request.lengths, request.file.size
    if positions.shape != lengths.shape:
        raise ValueError("as many positions as lengths are needed")
    index = -1
    if positions.size <= _FEW:  # avoids NumPy's overhead per call
        for i, (start, n) in enumerate(zip(positions.tolist(), lengths.tolist(), strict=True)):
            if start < 0 or not 0 <= n <= size - start:
                index = i
                break
    else:
        outside = (positions < 0) | (lengths < 0) | (lengths > size - positions)
        index = int(np.argmax(outside)) if outside.any() else -1
    if index >= 0:
        raise TruncatedError(
            f"cannot read {lengths[index]} bytes at {positions[index]} of {request.file.path!r}: it has {size}",
            path=request.file.path,
            position=int(positions[index]),
        )


def _mapped(key: FileKey, file: SourceFile, maps: dict[FileKey, Memory]) -> Memory:
    memory = maps.get(key)
    if memory is None:
        memory = maps[key] = file.store.get(file.path)
    if memory.size < file.size:
        raise TruncatedError(
            f"{file.path!r} has shrunk from {file.size} bytes to {memory.size}", path=file.path
        )
    return memory


def _plan(file: SourceFile, indexes: list[int], requests: Sequence[Ranges], known: Block | None) -> _Plan:
    if len(indexes) == 1:
        only = requests[indexes[0]]
        return _Plan(file, indexes, only.positions, only.lengths, known)
    positions = np.concatenate([requests[index].positions for index in indexes])
    lengths = np.concatenate([requests[index].lengths for index in indexes])
    return _Plan(file, indexes, positions, lengths, known)


@dataclass(slots=True, eq=False)
class _Sole:
    """The only request for a file, whose answer becomes the arena without a copy."""

    plan: _Plan
    start: int
    stop: int

    def __call__(self) -> None:
        (memory,) = _exactly(self.plan.file, [self.start], [self.stop])
        self.fill(memory)

    def fill(self, memory: Memory) -> None:
        edges = np.array([self.start], np.int64), np.array([self.stop], np.int64), np.zeros(1, np.int64)
        self.plan.block = Block(*edges, memory)


@dataclass(slots=True, eq=False)
class _Share:
    """What a round reads from one store."""

    store: Store
    soles: list[_Sole] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    nbytes: int = 0

    def lanes(self) -> list[Job]:
        """Jobs to run side by side, as many as the store can use."""
        traits = self.store.traits
        jobs: list[Job] = [*self.jobs, *self.soles]
        width = max(1, traits.concurrency)
        lanes: list[Job] = []
        # Small requests wait for most of their time, so more of them are in flight.
        if traits.batches and self.nbytes <= _SMALL_BYTES * len(jobs):
            width *= _SMALL_WIDTH
            if len(self.soles) > 1 and isinstance(self.store, ReadsTogether):
                lanes, jobs = [_joint_job(self.store, self.soles, width)], self.jobs
        width = min(len(jobs), width)
        return lanes + [_in_turn(jobs[lane::width]) for lane in range(width)]


def _deliver(plans: Sequence[_Plan], run_all: RunAll) -> None:
    """Fill every plan's block."""
    shares: dict[int, _Share] = {}
    for plan in plans:
        share = shares.setdefault(id(plan.file.store), _Share(plan.file.store))
        _divide(plan, share)
    work = [lane for share in shares.values() for lane in share.lanes()]
    if work:
        run_all(work)
    left = [sole for share in shares.values() for sole in share.soles if sole.plan.block is None]
    if left:
        run_all(left)
    for plan in plans:
        if plan.known is not None and plan.block is not plan.known and plan.block is not None:
            plan.block = plan.known.joined(plan.block)


def _in_turn(jobs: Sequence[Job]) -> Job:
    def run() -> None:
        for job in jobs:
            job()

    return run


def _joint_job(store: ReadsTogether, soles: Sequence[_Sole], most: int) -> Job:
    """Single requests of several files, ``most`` at once; those that fail are left."""

    def run() -> None:
        for at in range(0, len(soles), most):
            some = soles[at : at + most]
            answers = store.get_each([(sole.plan.file.path, sole.start, sole.stop) for sole in some])
            for sole, memory in zip(some, answers, strict=True):
                if memory is not None:
                    sole.fill(memory)

    return run


def _divide(plan: _Plan, share: _Share) -> None:
    """Add the requests for what is not known yet; each fills its part of the arena."""
    positions, lengths = plan.positions, plan.lengths
    share.nbytes += sum(lengths.tolist()) if lengths.size <= _FEW else int(lengths.sum())
    if plan.known is not None:
        present, places = plan.known.locate(positions, lengths)
        if present.all():
            plan.block, plan.places = plan.known, places
            return
        positions, lengths = positions[~present], lengths[~present]
    traits = share.store.traits
    merged = _merged(positions, lengths, traits)
    plan.places = merged.arena_positions if plan.known is None else None
    starts, stops = split(merged.starts, merged.stops, traits.merge_cap)
    if starts.size == 1:
        share.soles.append(_Sole(plan, int(starts[0]), int(stops[0])))
        return
    sizes = merged.stops - merged.starts
    bases = np.cumsum(sizes) - sizes
    arena = np.empty(int(sizes.sum()), dtype=np.uint8)
    plan.block = Block(merged.starts, merged.stops, bases, arena)
    edges = np.concatenate([[0], np.cumsum(stops - starts)]).tolist()
    parts = list(zip(starts.tolist(), stops.tolist(), edges[:-1], strict=True))
    if not traits.batches:
        share.jobs += [_filling_job(plan.file, [part], arena) for part in parts]
    elif parts:
        share.jobs.append(_filling_job(plan.file, parts, arena))


def _merged(positions: Int64s, lengths: Int64s, traits: StoreTraits) -> MergedRanges:
    """Ranges joined where a separate request would cost more than the bytes between them."""
    merged = merge(positions, lengths, traits.always_merged, _NO_CAP)
    if merged.starts.size > 2:
        holes = worthwhile_holes(merged.starts, merged.stops, traits.merge_gap, traits.concurrency)
        if holes.any():
            return joined(merged, holes)
    return merged


def _filling_job(file: SourceFile, parts: Sequence[tuple[int, int, int]], arena: Memory) -> Job:
    """Requests for (start, stop) of the file, each copied to its place in the arena."""

    def run() -> None:
        memories = _exactly(file, [start for start, _, _ in parts], [stop for _, stop, _ in parts])
        for memory, (_, _, base) in zip(memories, parts, strict=True):
            arena[base : base + memory.size] = memory

    return run


def _exactly(file: SourceFile, starts: list[int], stops: list[int]) -> list[Memory]:
    memories = file.store.get_many(file.path, starts, stops)
    for memory, start, stop in zip(memories, starts, stops, strict=True):
        if memory.size != stop - start:
            raise TruncatedError(
                f"the store returned {memory.size} instead of {stop - start} bytes of {file.path!r}",
                path=file.path,
                position=start,
            )
    return memories


def _spans(plan: _Plan, requests: Sequence[Ranges]) -> Iterator[tuple[int, Span]]:
    block = plan.block
    if block is None:  # every range is empty
        block = Block(*(np.zeros(0, np.int64),) * 3, np.zeros(0, np.uint8))
    places = plan.places
    if places is None:
        _, places = block.locate(plan.positions, plan.lengths)
    taken = 0
    for index in plan.indexes:
        count = requests[index].positions.size
        yield index, Span(block.arena, places[taken : taken + count])
        taken += count
