"""The :class:`Store` protocol: bytes by path.

A :class:`Store` is rooted at a URI and addresses objects by relative,
slash-separated paths. It has no cursors and does not interpret the bytes.
It returns one-dimensional ``uint8`` arrays (``Memory``), read-only where they
are views of a memory map or of the store's own object.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import BinaryIO, Protocol, TypeAlias, TypeGuard, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from lancecy.records import dataclass

__all__ = ["LooksOnce", "Memory", "ObjectMeta", "PutMode", "Store", "StoreTraits", "looks_once"]

Memory: TypeAlias = NDArray[np.uint8]


class PutMode(enum.Enum):
    """Behaviour of a put if the object already exists."""

    OVERWRITE = "overwrite"
    CREATE = "create"


@dataclass(frozen=True, slots=True)
class ObjectMeta:
    """One object as a listing or a put reports it.

    Attributes
    ----------
    path : str
        Relative to the store's root.
    size : int, bytes
    modified : datetime or None
        UTC, where the store knows it.
    identity : str
        Changes when the object's bytes may have changed (inode, size and time, or an ETag); "" if unknown.
    """

    path: str
    size: int
    modified: datetime | None = None
    identity: str = ""


@dataclass(frozen=True, slots=True)
class StoreTraits:
    """Performance and atomicity of a store; each adapter states its own.

    Attributes
    ----------
    is_mapped : bool
        ``get(path)`` of a whole object is a view of a memory map and needs no IO; ranges are then
        not merged or fetched: kernels read the map itself.
    lists_in_order : bool
        ``list`` yields names in lexicographic order without having to sort them.
    create_is_atomic : bool
        Of several racing ``put(..., PutMode.CREATE)`` exactly one succeeds.
    concurrency : int
        Requests to keep in flight.
    merge_gap : int, bytes
        Largest hole between two ranges that is fetched to save a request that would have to queue.
    merge_cap : int, bytes
        Merged ranges do not grow beyond this; larger ranges are fetched in parallel parts.
    batches : bool
        ``get_many`` itself keeps ``concurrency`` requests in flight, so one call per object is enough.
    """

    is_mapped: bool = False
    lists_in_order: bool = False
    create_is_atomic: bool = False
    concurrency: int = 16
    merge_gap: int = 1 << 20
    merge_cap: int = 16 << 20
    batches: bool = False

    @property
    def always_merged(self) -> int:
        """Largest hole, in bytes, that is fetched even if its request would not have to queue."""
        return self.merge_gap // 8


@runtime_checkable
class Store(Protocol):
    """Bytes by path under one root.

    Every method raises ``DatasetNotFoundError`` (a ``LookupError`` and ``FileNotFoundError``) for a missing
    object, ``ExistsError`` for a lost create, ``StoreError`` for every other failure, and
    ``TruncatedError`` when a range passes the end of the object.
    """

    @property
    def uri(self) -> str:
        """Canonical URI of the root, without secrets; the same for every spelling of one place."""

    @property
    def traits(self) -> StoreTraits: ...

    def head(self, path: str) -> ObjectMeta:
        """Size and identity of one object."""

    def get(self, path: str, start: int = 0, stop: int | None = None) -> Memory:
        """Bytes ``start`` to ``stop`` (end of object if None)."""

    def get_start(self, path: str, most: int) -> Memory:
        """The first ``most`` bytes, or all if there are fewer; one request, so the size need not be known."""

    def get_many(self, path: str, starts: Sequence[int], stops: Sequence[int]) -> list[Memory]:
        """Several ranges of one object, in the given order, fetched together."""

    def put(self, path: str, data: bytes | memoryview, mode: PutMode = PutMode.OVERWRITE) -> ObjectMeta: ...

    def put_stream(self, path: str) -> BinaryIO:
        """A binary writer whose ``close`` publishes the object (large files)."""

    def rename(self, source: str, target: str, mode: PutMode = PutMode.OVERWRITE) -> None: ...

    def delete(self, paths: Sequence[str]) -> None:
        """Remove the objects; missing ones are ignored."""

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
        """Objects directly or indirectly below the folder ``prefix`` ("" = everything), in name order."""


class LooksOnce(Store, Protocol):
    """A mapped store that asks the system once for the size, the identity and the bytes of an object."""

    def look(self, path: str) -> tuple[int, str, Callable[[], Memory]]:
        """Size and identity of an object (raises as ``head``), and a function for its bytes.

        The function does not look at the object again, and raises as ``get``.
        """


def looks_once(store: Store) -> TypeGuard[LooksOnce]:
    """Whether a store is mapped and has :meth:`LooksOnce.look`; wrappers of stores are mapped without it."""
    # A fraction of the time of ``isinstance`` with a protocol, and this is asked for each file.
    return store.traits.is_mapped and hasattr(store, "look")
