"""Reads: generators that ask for byte ranges, so that decoders do no IO.

A *Read* is a generator. It yields a list of :class:`Ranges`, is resumed with one
:class:`Span` per yielded item, and finally returns a value. ``gather`` runs many
Reads in lockstep, so that the requests of all columns of a file become one round;
``run`` drives a Read with a ``fetch`` function: the session's, or in a test a
dictionary look-up::

    Read ── list[Ranges] ──►  fetch  ── list[Span] ──►  Read  … ──►  value

A Read covers a file or a column, never a page: its ranges are arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from lancecy.errors import LanceError
from lancecy.records import dataclass
from lancecy.store.base import Memory, Store

__all__ = [
    "Fetch",
    "Ranges",
    "Read",
    "SourceFile",
    "Span",
    "gather",
    "named",
    "prefetched",
    "run",
    "value_read",
]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class SourceFile:
    """One object of a store.

    Attributes
    ----------
    store : Store
    path : str
        Relative to the store's root.
    size : int, bytes
        As the store reports it. Where asking would cost a request: the size that the manifest states for a 2.x
        file; it is checked against the file's end.
    identity : str
        See ``ObjectMeta.identity``, or a substitute where the store was not asked; part of every cache key.
    """

    store: Store
    path: str
    size: int
    identity: str = ""

    @property
    def key(self) -> tuple[str, str, int, str]:
        """The identity of this file's bytes, for caches."""
        return (self.store.uri, self.path, self.size, self.identity)


@dataclass(frozen=True, slots=True, eq=False)
class Ranges:
    """Byte ranges of one file.

    Attributes
    ----------
    file : SourceFile
    positions, lengths : (num_ranges,) int64, bytes
        Absolute positions in the file, in any order; may overlap.
    """

    file: SourceFile
    positions: NDArray[np.int64]
    lengths: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """Memory in which every requested range lies contiguously.

    Attributes
    ----------
    memory : (nbytes,) uint8
        A whole file if it is mapped, otherwise the concatenated merged ranges.
    positions : (num_ranges,) int64, bytes
        Start of each range in ``memory``, in the order requested.
    """

    memory: Memory
    positions: NDArray[np.int64]


Read: TypeAlias = Generator[list[Ranges], list[Span], T]
Fetch: TypeAlias = Callable[[list[Ranges]], list[Span]]


def run(read: Read[T], fetch: Fetch) -> T:
    """Run a Read to its value, one ``fetch`` per round."""
    try:
        wanted = next(read)
        while True:
            wanted = read.send(fetch(wanted))
    except StopIteration as stop:
        result: T = stop.value
        return result


def value_read(value: T) -> Read[T]:
    """A Read that returns a value without requests."""
    return value
    yield []  # makes this function a generator


def named(read: Read[T], place: str) -> Read[T]:
    """The same Read; ``place`` is added to the breadcrumbs of its errors."""
    try:
        return (yield from read)
    except LanceError as error:
        raise error.within(place)


def gather(reads: Sequence[Read[T]]) -> Read[list[T]]:
    """Run several Reads in lockstep; the requests of one round are yielded together.

    Returns
    -------
    list
        Their values, in order.
    """
    if len(reads) == 1:
        return [(yield from reads[0])]
    results: list[T | None] = [None] * len(reads)
    waiting: list[tuple[int, list[Ranges]]] = []
    for index, read in enumerate(reads):
        try:
            waiting.append((index, next(read)))
        except StopIteration as stop:
            results[index] = stop.value
    while waiting:
        spans = yield [request for _, requests in waiting for request in requests]
        taken = 0
        following: list[tuple[int, list[Ranges]]] = []
        for index, requests in waiting:
            mine = spans[taken : taken + len(requests)]
            taken += len(requests)
            try:
                following.append((index, reads[index].send(mine)))
            except StopIteration as stop:
                results[index] = stop.value
        waiting = following
    return results  # type: ignore[return-value]


def prefetched(read: Read[T], ranges: Ranges) -> Read[T]:
    """A Read whose requests are served from ranges that are requested before it starts."""
    order = np.argsort(ranges.positions, kind="stable")
    ranges = Ranges(ranges.file, ranges.positions[order], ranges.lengths[order])
    (span,) = yield [ranges]
    is_whole_file = np.array_equal(span.positions, ranges.positions)
    try:
        wanted = next(read)
        while True:
            spans: list[Span] | None = [Span(span.memory, request.positions) for request in wanted]
            if not is_whole_file:
                spans = _found(wanted, ranges, span)
            wanted = read.send((yield wanted) if spans is None else spans)
    except StopIteration as stop:
        value: T = stop.value
        return value


def _found(wanted: list[Ranges], held: Ranges, span: Span) -> list[Span] | None:
    """Find the requested ranges in memory; None if one of them is missing or not contiguous there."""
    shifts = span.positions - held.positions
    spans = []
    for request in wanted:
        first = np.searchsorted(held.positions, request.positions, side="right") - 1
        stops = request.positions + request.lengths
        last = np.searchsorted(held.positions, np.maximum(stops - 1, request.positions), side="right") - 1
        # A request may pass from one buffer to the next where these touch, in the file and in memory.
        inside = (first >= 0) & (stops <= held.positions[last] + held.lengths[last])
        if not bool((inside & (shifts[first] == shifts[last])).all()):
            return None
        spans.append(Span(span.memory, request.positions + shifts[first]))
    return spans
