"""Making a manifest the next version: the one atomic step, and the two ways stores offer it.

A :class:`Committer` yields the requests that put an object under a name only if the name is free.
:func:`publish` adds what a failed request leaves open: it may have been carried out all the same, or
be carried out yet. So it is repeated with the same bytes under the same name until the name is
known to be taken; whose bytes they are is told by reading them.

Facts: table sheet, section 5. Imports ``requests`` and ``errors``.
"""

from __future__ import annotations

import enum
import errno
from dataclasses import dataclass
from typing import Any, Protocol

from lancecy.errors import CommitUnknownError, DatasetNotFoundError, ExistsError, StoreError
from lancecy.table.paths import TEMPORARY
from lancecy.table.requests import Create, Draw, Pause, Put, Read, Rename, Request, Steps

__all__ = ["Committer", "Outcome", "PutIfAbsent", "RenameIfAbsent", "again", "publish"]

# What a store answers when it did nothing, and would do nothing when asked once more.
_REFUSED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


class Committer(Protocol):
    """How a store lets one of several writers have a name."""

    def create(self, path: str, data: bytes) -> Steps[None]:
        """Requests that write an object unless there is one; ``ExistsError`` is thrown into them then."""


@dataclass(frozen=True, slots=True)
class PutIfAbsent:
    """One conditional put. On a local disk the store makes it a hard link."""

    def create(self, path: str, data: bytes) -> Steps[None]:
        yield Create(path, data)


@dataclass(frozen=True, slots=True)
class RenameIfAbsent:
    """A put under a name of its own, then a rename that never replaces."""

    def create(self, path: str, data: bytes) -> Steps[None]:
        folder = path.rpartition("/")[0]
        temporary = f"{folder}/{TEMPORARY}_{(yield Draw()):016x}"
        yield Put(temporary, data)
        yield Rename(temporary, path)


def again(request: Request, tries: int) -> Steps[Any]:
    """The answer to a request that changes nothing, asked up to ``tries`` times."""
    for attempt in range(tries - 1):
        try:
            return (yield request)
        except StoreError:
            yield Pause(attempt)
    return (yield request)


class Outcome(enum.Enum):
    """What became of an attempt to have a name."""

    WON = "it is ours"
    TAKEN = "it is taken, by others or by an earlier request for this very manifest: reading it tells"
    FAILED = "a request for it failed, and it is taken now"


def publish(committer: Committer, path: str, data: bytes, tries: int, *, prompt: bool) -> Steps[Outcome]:
    """Put a manifest under its name.

    Parameters
    ----------
    committer : Committer
    path : str
    data : bytes
    tries : int
    prompt : bool
        A store that failed a request will not carry it out later (a disk does not, a network may).

    Raises
    ------
    CommitUnknownError
        Neither could be found out.
    StoreError
        The store refused, or failed and the manifest is not there: it did not become a version.
    """
    failure: StoreError | None = None
    for attempt in range(tries):
        try:
            yield from committer.create(path, data)
        except ExistsError:
            return Outcome.TAKEN if failure is None else Outcome.FAILED
        except StoreError as error:
            if error.errno in _REFUSED and attempt == 0:
                raise
            failure = error
        else:
            return Outcome.WON
        try:
            yield from again(Read(path), tries)
        except DatasetNotFoundError:
            if prompt and attempt == tries - 1:
                raise failure from None
        except StoreError as error:
            failure = error
        else:
            return Outcome.FAILED
        yield Pause(attempt)
    raise CommitUnknownError(
        f"{path} may or may not have been written ({failure}): open the table and look for it before "
        "committing again, and delete none of the files of this commit"
    ) from failure
