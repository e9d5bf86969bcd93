"""One store over several places that hold the same objects: the nearest one is read, and another one if it does not answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from queue import Empty, SimpleQueue
from typing import BinaryIO, NoReturn, TypeVar

from lancecy.errors import DatasetNotFoundError, LanceError, StoreError, TruncatedError
from lancecy.records import dataclass
from lancecy.store.base import Memory, ObjectMeta, PutMode, Store, StoreTraits
from lancecy.store.failure import too_short

__all__ = ["Outages", "Place", "ReplicatedStore"]

T = TypeVar("T")

# While another place can be asked, an answer may take this long, and a second more for each of these bytes.
_PATIENCE_S, _SLOWEST = 5.0, 1 << 20
_LACKS = (DatasetNotFoundError, TruncatedError)


class Outages:
    """The places that failed lately; they are asked last until some time has passed.

    Parameters
    ----------
    lasts_s : float, seconds

    Notes
    -----
    Thread-safe.

    Examples
    --------
    >>> outages = Outages()
    >>> outages.note("s3://bucket")
    >>> outages.has("s3://bucket"), outages.has("s3://other")
    (True, False)
    """

    def __init__(self, lasts_s: float = 60.0) -> None:
        self.lasts_s = lasts_s
        self._until: dict[Hashable, float] = {}

    def note(self, place: Hashable) -> None:
        """Remember that a place failed now."""
        self._until[place] = time.monotonic() + self.lasts_s

    def end(self, place: Hashable) -> None:
        """Forget a place that answers."""
        self._until.pop(place, None)

    def has(self, place: Hashable) -> bool:
        """Whether a place failed lately."""
        until = self._until.get(place)
        return until is not None and time.monotonic() < until


@dataclass(frozen=True, slots=True)
class Place:
    """One of the places.

    Attributes
    ----------
    key : hashable
        Identifies it in :class:`Outages`.
    store : Store
    """

    key: Hashable
    store: Store


class ReplicatedStore:
    """Reads each object from the first place that gives it; writes go to one place.

    Parameters
    ----------
    recorded : Store
        The place that is written to, and whose URI the store has: it stands for the same objects.
    places : sequence of Place
        All places in the order in which they are asked, ``recorded`` among them.
    outages : Outages
    patience_s : float, seconds
        Time that a place has for a small answer as long as another one can be asked.

    Notes
    -----
    A place that lacks an object is passed over for this object alone: copies may lag behind. One that fails or does
    not answer in time is asked last for a while. The last place has all the time that its client takes.

    The size of an object is the one that is expected (:meth:`expect`), or else that of the recorded place if it answers: a
    copy may be only half there. Names are listed in the recorded place for the same reason.

    Examples
    --------
    >>> from lancecy.store.memory import MemoryStore
    >>> near, far = MemoryStore(), MemoryStore()
    >>> _ = far.put("a", b"hello")
    >>> store = ReplicatedStore(far, [Place("near", near), Place("far", far)], Outages())
    >>> bytes(store.get("a"))
    b'hello'
    """

    def __init__(
        self,
        recorded: Store,
        places: Sequence[Place],
        outages: Outages,
        patience_s: float = _PATIENCE_S,
    ) -> None:
        self._recorded = recorded
        self._places = tuple(places)
        self._recorded_place = next(place for place in places if place.store is recorded)
        self._outages = outages
        self._patience_s = patience_s
        self._sizes: dict[str, int] = {}
        first, all_mapped = places[0].store.traits, all(p.store.traits.is_mapped for p in places)
        self._traits = replace(first, is_mapped=all_mapped)

    def __repr__(self) -> str:
        return f"ReplicatedStore({[place.store for place in self._places]!r})"

    @property
    def uri(self) -> str:
        return self._recorded.uri

    @property
    def traits(self) -> StoreTraits:
        return self._traits

    def expect(self, path: str, size: int) -> None:
        """Pass over copies of an object that have another size, as one that is only half copied.

        Parameters
        ----------
        path : str
        size : int, bytes
        """
        self._sizes[path] = size

    # -- reading ------------------------------------------------------------------------------

    def head(self, path: str) -> ObjectMeta:
        self._learn_size(path)

        def ask(store: Store) -> ObjectMeta:
            meta = store.head(path)
            self._check(store, path, meta.size)
            return meta

        return self._first(path, 0, ask)

    def get(self, path: str, start: int = 0, stop: int | None = None) -> Memory:
        if not start and stop is None:
            self._learn_size(path)

        def ask(store: Store) -> Memory:
            memory = store.get(path, start, stop)
            if not start and stop is None:
                self._check(store, path, memory.size)
            return memory

        return self._first(path, _nbytes(start, stop), ask)

    def _learn_size(self, path: str) -> None:
        """Expect the size that an object has in the recorded place, unless one is expected already."""
        if path in self._sizes or self._outages.has(self._recorded_place.key):
            return
        try:
            meta = self._asked(self._recorded_place, path, 0, lambda store: store.head(path))
        except _LACKS:
            return
        except StoreError:
            self._outages.note(self._recorded_place.key)
            return
        self._sizes[path] = meta.size

    def _check(self, store: Store, path: str, size: int) -> None:
        if store is not self._recorded and size != self._sizes.get(path, size):
            raise too_short(path, store.uri, 0, self._sizes[path], size)

    def get_start(self, path: str, most: int) -> Memory:
        return self._first(path, most, lambda store: store.get_start(path, most))

    def get_many(self, path: str, starts: Sequence[int], stops: Sequence[int]) -> list[Memory]:
        nbytes = sum(stops) - sum(starts)
        return self._first(path, nbytes, lambda store: store.get_many(path, starts, stops))

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
        """All names are read before the first is given, so that they come from one place: the recorded one if it answers."""
        order = sorted(self._places, key=lambda place: place is not self._recorded_place)
        return iter(self._first(prefix, None, lambda store: [*store.list(prefix, start_after)], order))

    def _first(
        self,
        path: str,
        nbytes: int | None,
        ask: Callable[[Store], T],
        places: Sequence[Place] | None = None,
    ) -> T:
        """The answer of the first place that has one."""
        failures: list[tuple[Place, LanceError]] = []
        order = sorted(places or self._places, key=lambda place: self._outages.has(place.key))
        for number, place in enumerate(order, 1):
            try:
                answer = ask(place.store) if number == len(order) else self._asked(place, path, nbytes, ask)
            except _LACKS as error:
                failures.append((place, error))
            except StoreError as error:
                self._outages.note(place.key)
                failures.append((place, error))
            else:
                self._outages.end(place.key)
                return answer
        raise self._failure(failures)

    def _failure(self, failures: Sequence[tuple[Place, LanceError]]) -> LanceError:
        """The error to raise after all places failed: that of the recorded one, unless only others could not be asked."""
        ranked = sorted(
            failures,
            key=lambda pair: (isinstance(pair[1], _LACKS), pair[0].store is not self._recorded),
        )
        error = ranked[0][1]
        for place, other in ranked[1:]:
            error.add_note(f"{place.store.uri}, which holds copies, failed too: {other}")
        return error

    def _asked(self, place: Place, path: str, nbytes: int | None, ask: Callable[[Store], T]) -> T:
        """The answer of a place while others can be asked."""
        if nbytes is None or place.store.traits.is_mapped:
            return ask(place.store)
        return self._in_time(place.store, path, nbytes, ask)

    def _in_time(self, store: Store, path: str, nbytes: int, ask: Callable[[Store], T]) -> T:
        """The answer of a place, which gets no more time than it should need."""
        answers: SimpleQueue[Callable[[], T]] = SimpleQueue()

        def run() -> None:
            try:
                answer = ask(store)
            except Exception as error:  # noqa: BLE001 raised where somebody waits
                answers.put(partial(_raise, error))
            else:
                answers.put(lambda: answer)

        # Ends with its request; nobody waits for it at exit.
        threading.Thread(target=run, name="lancecy-replica", daemon=True).start()
        limit = self._patience_s + nbytes / _SLOWEST
        try:
            answer = answers.get(timeout=limit)
        except Empty:
            raise StoreError(
                f"{store.uri} has not answered for {path!r} within {limit:.0f} seconds",
                path=path,
                store=store.uri,
            ) from None
        return answer()

    # -- writing ------------------------------------------------------------------------------

    def put(self, path: str, data: bytes | memoryview, mode: PutMode = PutMode.OVERWRITE) -> ObjectMeta:
        return self._recorded.put(path, data, mode)

    def put_stream(self, path: str) -> BinaryIO:
        return self._recorded.put_stream(path)

    def rename(self, source: str, target: str, mode: PutMode = PutMode.OVERWRITE) -> None:
        self._recorded.rename(source, target, mode)

    def delete(self, paths: Sequence[str]) -> None:
        self._recorded.delete(paths)

    def release(self, path: str) -> None:
        """Pass on to stores that cache maps; makes no request."""
        for place in self._places:
            release = getattr(place.store, "release", None)
            if release is not None:
                release(path)


def _raise(error: Exception) -> NoReturn:
    raise error


def _nbytes(start: int, stop: int | None) -> int | None:
    """Bytes of a range, None if its end is unknown."""
    return None if stop is None else stop - start
