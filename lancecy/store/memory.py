"""A store in a dictionary, without IO, for tests and for data that is already in memory.

``memory://`` opens fsspec's memory file system instead, so that it sees what
users put there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import BinaryIO, cast

import numpy as np

from lancecy.errors import ExistsError
from lancecy.store.base import Memory, ObjectMeta, PutMode, StoreTraits
from lancecy.store.failure import missing, too_short
from lancecy.store.paths import check_path, check_prefix
from lancecy.store.ranges import check_range
from lancecy.store.upload import Upload

__all__ = ["MemoryStore"]

_TRAITS = StoreTraits(create_is_atomic=True, concurrency=4)
_Entry = tuple[Memory, ObjectMeta]


class MemoryStore:
    """Objects by path, in memory.

    Parameters
    ----------
    uri : str, optional
        Name of the store; unique by default. It cannot be opened by this name.
    traits : StoreTraits, optional
        Those of a store to imitate, for example one that merges ranges over a gap.

    Notes
    -----
    Thread-safe without a lock: every change is one operation on a dictionary. A pickle carries a copy of all objects.

    Examples
    --------
    >>> store = MemoryStore()
    >>> store.put("a/b", b"hello").size
    5
    >>> [meta.path for meta in store.list("a")]
    ['a/b']
    """

    def __init__(self, uri: str | None = None, traits: StoreTraits = _TRAITS) -> None:
        self.uri = uri or f"private-memory://{os.urandom(6).hex()}"
        self.traits = traits
        self._objects: dict[str, _Entry] = {}

    def __repr__(self) -> str:
        return f"<MemoryStore {self.uri} with {len(self._objects)} objects>"

    def head(self, path: str) -> ObjectMeta:
        return self._entry(path)[1]

    def get(self, path: str, start: int = 0, stop: int | None = None) -> Memory:
        memory = self._entry(path)[0]
        check_range(start, stop)
        if start > memory.size or (stop is not None and stop > memory.size):
            raise too_short(path, self.uri, start, stop, memory.size)
        return memory[start:stop]

    def get_start(self, path: str, most: int) -> Memory:
        memory = self._entry(path)[0]
        check_range(0, most)
        return memory[:most]

    def get_many(self, path: str, starts: Sequence[int], stops: Sequence[int]) -> list[Memory]:
        return [self.get(path, start, stop) for start, stop in zip(starts, stops, strict=True)]

    def put(self, path: str, data: bytes | memoryview, mode: PutMode = PutMode.OVERWRITE) -> ObjectMeta:
        check_path(path)
        memory = np.frombuffer(bytes(data), dtype=np.uint8)
        return self._place(path, memory, mode)

    def put_stream(self, path: str) -> BinaryIO:
        check_path(path)
        return cast(BinaryIO, _MemoryUpload(self, path))

    def rename(self, source: str, target: str, mode: PutMode = PutMode.OVERWRITE) -> None:
        check_path(source)
        check_path(target)
        memory, _ = self._entry(source)
        self._place(target, memory, mode)
        self._objects.pop(source, None)

    def delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            check_path(path)
        for path in paths:
            self._objects.pop(path, None)

    def list(self, prefix: str, start_after: str | None = None) -> Iterator[ObjectMeta]:
        folder = check_prefix(prefix)
        inside = f"{folder}/" if folder else ""
        after = start_after or ""
        objects = list(self._objects.items())
        return iter([entry[1] for path, entry in sorted(objects) if path.startswith(inside) and path > after])

    def _entry(self, path: str) -> _Entry:
        entry = self._objects.get(check_path(path))
        if entry is None:
            raise missing(path, self.uri)
        return entry

    def _place(self, path: str, memory: Memory, mode: PutMode) -> ObjectMeta:
        meta = ObjectMeta(path, memory.size, datetime.now(UTC), os.urandom(6).hex())
        if mode is PutMode.OVERWRITE:
            self._objects[path] = (memory, meta)
        elif self._objects.setdefault(path, (memory, meta))[1] is not meta:
            raise ExistsError(f"{path!r} already exists in {self.uri}", kind="object", name=path)
        return meta


class _MemoryUpload(Upload):
    def __init__(self, store: MemoryStore, path: str) -> None:
        super().__init__(path, store.uri)
        self._target = store
        self._parts = bytearray()

    def _append(self, data: memoryview) -> None:
        self._parts += data

    def _publish(self) -> None:
        self._target.put(self._path, memoryview(self._parts))

    def _discard(self) -> None:
        self._parts = bytearray()
