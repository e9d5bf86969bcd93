"""Storage requests of commits, cleanups and version stores, one value each.

The generators of ``commit``, ``cleanup`` and ``versions`` yield these. Each is sent the answer, or the
exception that the request raised is thrown into it. ``answers`` and ``commit.driver`` answer from a store. The simulator
of the tests answers the same generators with every possible fault. Paths are below the dataset root.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

from lancecy.errors import LanceError, StoreError
from lancecy.records import dataclass
from lancecy.store.base import ObjectMeta
from lancecy.table.manifest import BasePaths, DataFile, DeletionFile

__all__ = [
    "TRIES",
    "Call",
    "Copy",
    "Create",
    "Head",
    "HeadFile",
    "InOtherTable",
    "KeyValueCall",
    "List",
    "ListOwned",
    "Now",
    "Pause",
    "Put",
    "RandomBits",
    "Read",
    "ReadDeletion",
    "Remove",
    "Request",
    "Scan",
    "Steps",
    "StoreTime",
    "Together",
    "Wait",
    "again",
    "below",
    "one_by_one",
    "together",
    "translated",
]


@dataclass(frozen=True, slots=True)
class List:
    """Objects below a folder: a list of ``ObjectMeta`` in name order.

    Attributes
    ----------
    folder : str
    before : str or None
        Only paths less than this.
    """

    folder: str
    before: str | None = None


@dataclass(frozen=True, slots=True)
class Scan:
    """Objects below a folder: an iterator of ``ObjectMeta`` in name order that lists as it is read.

    Attributes
    ----------
    folder : str
    after : str or None
        Only paths greater than this.
    """

    folder: str
    after: str | None = None


@dataclass(frozen=True, slots=True)
class Head:
    """``ObjectMeta`` of an object; ``DatasetNotFoundError`` if it does not exist."""

    path: str


@dataclass(frozen=True, slots=True)
class Read:
    """A whole object as ``Memory``; ``DatasetNotFoundError`` if it does not exist.

    Attributes
    ----------
    path : str
    most : int or None, bytes
        If the object is larger, its first ``most`` + 1 bytes.
    identity : str
        ``ObjectMeta.identity`` as it was just listed: bytes known to have it need not be read again. "" if unknown.
    """

    path: str
    most: int | None = None
    identity: str = ""


@dataclass(frozen=True, slots=True)
class ReadDeletion:
    """The deletion file of a fragment as ``Memory``, from its base."""

    bases: BasePaths
    fragment_id: int
    file: DeletionFile


@dataclass(frozen=True, slots=True)
class HeadFile:
    """``ObjectMeta`` of a data file in its base; ``DatasetNotFoundError`` if it does not exist."""

    bases: BasePaths
    file: DataFile


@dataclass(frozen=True, slots=True)
class Put:
    """Write an object whose name no other writer uses, or all writers use for the same bytes."""

    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Create:
    """Write an object unless it exists, which raises ``ExistsError``. The one atomic step of a commit."""

    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Copy:
    """Write an object with the bytes of another, which replaces one of that name.

    Raises ``DatasetNotFoundError`` if the other does not exist.

    Attributes
    ----------
    source, path : str
    """

    source: str
    path: str


@dataclass(frozen=True, slots=True)
class KeyValueCall:
    """One call to a key-value store of manifests; answered with what ``run`` returns.

    Attributes
    ----------
    run : callable
        Takes the key of the table. Raises ``StoreError`` if the key-value store fails.
    table : str
        The key of the table.
    changes : bool
        Whether the call writes.
    """

    run: Callable[[str], Any]
    table: str
    changes: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """One search of rows, or another call that is not the store's; answered with what ``run`` returns.

    Attributes
    ----------
    run : callable
        Raises ``StoreError`` if the store fails.
    changes : bool
        Whether the call writes.
    """

    run: Callable[[], Any]
    changes: bool = False


@dataclass(frozen=True, slots=True)
class Now:
    """Nanoseconds since 1970, an int."""


@dataclass(frozen=True, slots=True)
class RandomBits:
    """A random int of 64 bits."""


@dataclass(frozen=True, slots=True)
class ListOwned:
    """As :class:`List`, for files that are really below the folder: symbolic links are left out, not followed."""

    folder: str


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove objects that :class:`ListOwned` gave; those already gone are fine."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StoreTime:
    """The store's time in nanoseconds since 1970, None if it is unknown."""


@dataclass(frozen=True, slots=True)
class InOtherTable:
    """A request about another table.

    Attributes
    ----------
    place : str
        Its root: an absolute path or URI.
    request : List or Read
    """

    place: str
    request: List | Read


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait, longer after every attempt but short after many; answered with None."""

    attempt: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait so long, to keep a pace; answered with None.

    Attributes
    ----------
    seconds : float
    """

    seconds: float


@dataclass(frozen=True, slots=True)
class Together:
    """Requests in any order, perhaps at the same time.

    Answered with a list of their answers in their order; the answer of one that failed is its ``LanceError``.

    Attributes
    ----------
    requests : tuple of request
    """

    requests: tuple[Request, ...]


Request: TypeAlias = (
    List
    | Scan
    | Head
    | Call
    | Copy
    | KeyValueCall
    | Read
    | ReadDeletion
    | HeadFile
    | Put
    | Create
    | Now
    | RandomBits
    | Pause
    | Wait
    | ListOwned
    | Remove
    | StoreTime
    | InOtherTable
    | Together
)

T = TypeVar("T")
Steps: TypeAlias = Generator[Request, Any, T]

TRIES = 4
"""Number of tries of a failing request."""

# Generators that wait at the same time, at most: each may hold the data of a request.
_AT_ONCE = 64


def again(request: Request, tries: int = TRIES) -> Steps[Any]:
    """The answer to a request that changes nothing, tried up to ``tries`` times, or as often as the store itself does."""
    for attempt in range(tries - 1):
        try:
            return (yield request)
        except StoreError as error:
            if error.tries > 1 or error.errno == errno.EAGAIN:
                raise
            yield Pause(attempt)
    return (yield request)


def together(several: Sequence[Steps[T]]) -> Steps[list[T]]:
    """Run generators in lockstep: the requests of one round are made together.

    Parameters
    ----------
    several : sequence of generators of requests
        Independent of each other.

    Returns
    -------
    list
        Their values, in order.
    """
    values: list[T] = []
    for at in range(0, len(several), _AT_ONCE):
        values += yield from _in_rounds(several[at : at + _AT_ONCE])
    return values


def _in_rounds(several: Sequence[Steps[T]]) -> Steps[list[T]]:
    if len(several) == 1:
        return [(yield from several[0])]
    values: dict[int, T] = {}
    answers: dict[int, Any] = dict.fromkeys(range(len(several)))
    while answers:
        waiting: dict[int, Request] = {}
        for index, answer in answers.items():
            steps = several[index]
            try:
                waiting[index] = steps.throw(answer) if isinstance(answer, LanceError) else steps.send(answer)
            except StopIteration as end:
                values[index] = end.value
        found = (yield Together(tuple(waiting.values()))) if waiting else ()
        answers = dict(zip(waiting, found, strict=True))
    return [values[index] for index in range(len(several))]


def translated(steps: Steps[T], ask: Callable[[Request], Steps[Any]]) -> Steps[T]:
    """The generator, of whose requests each is answered by others.

    Parameters
    ----------
    steps : generator of requests
    ask : function of a request
        Requests whose value is the answer. A ``LanceError`` that they raise is thrown into the generator.
    """
    try:
        request = next(steps)
        while True:
            try:
                answer = yield from ask(request)
            except LanceError as error:
                request = steps.throw(error)
            else:
                request = steps.send(answer)
    except StopIteration as end:
        value: T = end.value
        return value


def one_by_one(steps: Steps[T]) -> Steps[T]:
    """The same requests, of which none is made together with others."""
    return translated(steps, lambda each: _each(each) if isinstance(each, Together) else _one(each))


def _one(request: Request) -> Steps[Any]:
    return (yield request)


def _each(several: Together) -> Steps[list[Any]]:
    answers: list[Any] = []
    for request in several.requests:
        try:
            answers.append((yield request))
        except LanceError as error:
            answers.append(error)
    return answers


def below(folder: str, steps: Steps[T]) -> Steps[T]:
    """The same requests for the table in a folder of this one, such as a branch.

    Parameters
    ----------
    folder : str
    steps : generator of requests
        Its requests have no bases: they concern the table's own files.
    """

    def ask(request: Request) -> Steps[Any]:
        answer = yield _in(folder, request)
        return _without(folder, answer) if isinstance(request, List | Scan | ListOwned) else answer

    return translated(steps, ask)


def _in(folder: str, request: Request) -> Request:
    match request:
        case List(place, before):
            return List(f"{folder}/{place}", None if before is None else f"{folder}/{before}")
        case Scan(place, after):
            return Scan(f"{folder}/{place}", None if after is None else f"{folder}/{after}")
        case ListOwned(place):
            return ListOwned(f"{folder}/{place}")
        case Head(path) | Read(path) | Put(path) | Create(path):
            return replace(request, path=f"{folder}/{path}")
        case Copy(source, path):
            return Copy(f"{folder}/{source}", f"{folder}/{path}")
        case KeyValueCall(table=table):
            return replace(request, table=f"{table}/{folder}")
        case Remove(paths):
            return Remove(tuple(f"{folder}/{path}" for path in paths))
        case Together(requests):
            return Together(tuple(_in(folder, each) for each in requests))
    return request


def _without(folder: str, metas: Iterable[ObjectMeta]) -> list[ObjectMeta]:
    return [replace(meta, path=meta.path[len(folder) + 1 :]) for meta in metas]
