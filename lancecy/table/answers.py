"""Answers of a store to requests, and the loop that runs a generator of requests."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from itertools import takewhile
from typing import Any, TypeVar

from lancecy.errors import LanceError
from lancecy.store.base import PutMode, Store
from lancecy.store.copying import CopiesFrom
from lancecy.table.requests import (
    Call,
    Copy,
    Create,
    Head,
    KeyValueCall,
    List,
    Now,
    Pause,
    Put,
    RandomBits,
    Read,
    Remove,
    Request,
    Scan,
    Steps,
    Wait,
    one_by_one,
)

__all__ = ["answer", "run", "run_on"]

T = TypeVar("T")

# Maximum pause in seconds after the first lost race, and after any later one.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 1.0
# From this attempt on the pause is short again. A writer that loses so often has more to check than those that win:
# the longer it pauses, the more versions it has to check before its next attempt.
_PATIENT = 8


def run(steps: Steps[T], answer_of: Callable[[Request], Any]) -> T:
    """Run a generator of requests to its end.

    Parameters
    ----------
    steps : generator of requests
    answer_of : callable
        Answers one request. A ``LanceError`` it raises is thrown into the generator.

    Raises
    ------
    LanceError
        As the generator raises.
    """
    try:
        request = next(steps)
        while True:
            try:
                result = answer_of(request)
            except LanceError as error:
                request = steps.throw(error)
            else:
                request = steps.send(result)
    except StopIteration as end:
        value: T = end.value
        return value
    finally:
        # An interrupt does not reach the generator, which may hold a lock.
        steps.close()


def run_on(steps: Steps[T], store: Store) -> T:
    """Run a generator whose requests a store alone can answer (see :func:`run`)."""
    return run(one_by_one(steps), lambda request: answer(request, store))


def answer(request: Request, store: Store) -> Any:
    """The answer of a store to one request.

    Raises
    ------
    LanceError
        The store failed, or the object does not exist or exists already.
    TypeError
        The request needs more than a store.
    """
    match request:
        case List(folder, before):
            metas = store.list(folder)
            return list(metas if before is None else takewhile(lambda meta: meta.path < before, metas))
        case Scan(folder, after):
            return store.list(folder, after)
        case Head(path):
            return store.head(path)
        case Read(path, longest):
            return store.get(path) if longest is None else store.get_start(path, longest + 1)
        case Put(path, data):
            return store.put(path, data)
        case Create(path, data):
            return store.put(path, data, PutMode.CREATE)
        case Remove(paths):
            return store.delete(paths)
        case Copy(source, path):
            return _copy(store, source, path)
        case Call(call):
            return call()
        case KeyValueCall(ask, table):
            return ask(table)
        case Now():
            return time.time_ns()
        case RandomBits():
            return secrets.randbits(64)
        case Pause(attempt):
            most = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0**attempt) if attempt < _PATIENT else _FIRST_PAUSE
            return time.sleep(most * secrets.randbelow(1000) / 1000)
        case Wait(seconds):
            return time.sleep(seconds)
    raise TypeError(f"a store alone cannot answer {type(request).__name__}")


def _copy(store: Store, source: str, path: str) -> None:
    """Copy a manifest, within the service if it can."""
    if not (isinstance(store, CopiesFrom) and store.copy_from(store, source, path)):
        store.put(path, store.get(source).data)
