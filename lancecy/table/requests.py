"""What a commit, or a cleanup, asks of the world, one value per request.

The generators of ``commit`` and ``cleanup`` yield these and are sent the answer, or have the exception thrown into
them that the request met with. ``drive`` answers from a store; the simulator of the tests answers
the very same generators with every fault there is. Nothing here does anything.

Paths are below the dataset root. Imports ``manifest`` and the store's values.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from lancecy.table.manifest import DataFile, DeletionFile, Manifest

__all__ = [
    "Clock",
    "Create",
    "Draw",
    "Elsewhere",
    "List",
    "Look",
    "Now",
    "Own",
    "Pause",
    "Put",
    "Read",
    "ReadDeletion",
    "Remove",
    "Rename",
    "Request",
    "Steps",
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
class Read:
    """A whole object as ``Memory``; ``DatasetNotFoundError`` if there is none."""

    path: str


@dataclass(frozen=True, slots=True)
class ReadDeletion:
    """The deletion file of a fragment as ``Memory``, in whatever base it is."""

    manifest: Manifest
    fragment_id: int
    file: DeletionFile


@dataclass(frozen=True, slots=True)
class Look:
    """``ObjectMeta`` of a data file, in whatever base it is; ``DatasetNotFoundError`` if there is none."""

    manifest: Manifest
    file: DataFile


@dataclass(frozen=True, slots=True)
class Put:
    """Write an object whose name nobody else uses."""

    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Create:
    """Write an object unless there is one; ``ExistsError`` then. The one atomic step of a commit."""

    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Rename:
    """Give an object another name unless that is taken; ``ExistsError`` then."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Now:
    """Nanoseconds since 1970, an int."""


@dataclass(frozen=True, slots=True)
class Draw:
    """A random int of 64 bits."""


@dataclass(frozen=True, slots=True)
class Own:
    """As :class:`List`, of files that are really below the folder: symbolic links are left out, not followed."""

    folder: str


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove objects that :class:`Own` gave; those already gone are fine."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Clock:
    """What time it is where the objects are: nanoseconds since 1970, None if that cannot be told."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
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
    """Wait a little, longer after every attempt; answered with None."""

    attempt: int


Request: TypeAlias = (
    List
    | Read
    | ReadDeletion
    | Look
    | Put
    | Create
    | Rename
    | Now
    | Draw
    | Pause
    | Own
    | Remove
    | Clock
    | Elsewhere
)

T = TypeVar("T")
Steps: TypeAlias = Generator[Request, Any, T]
