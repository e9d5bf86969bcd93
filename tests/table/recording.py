"""Bases over stores that exist in name only, and a record of what was opened."""

from __future__ import annotations

from typing import Any

from lancecy.session import Session
from lancecy.store.base import Store
from lancecy.store.memory import MemoryStore
from lancecy.store.wrap import CountingStore
from lancecy.table.bases import Bases
from lancecy.table.location import TableLocation
from lancecy.table.manifest import BasePath, BasePaths

__all__ = ["RecordingSession", "make_bases"]

Opened = list[tuple[str, dict[str, Any], bool, bool]]


class RecordingSession(Session):
    """Hands out empty stores and remembers which were asked for, and with which options."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: Opened = []

    def store(
        self, uri: Any, storage_options: Any = None, mapped: bool = True, follow_symlinks: bool = True
    ) -> Store:
        self.opened.append((str(uri), dict(storage_options or {}), mapped, follow_symlinks))
        return MemoryStore(str(uri))


def make_bases(
    *bases: BasePath, root: str = "/tables/t", is_flagged: bool = True, **policy: Any
) -> tuple[Bases, RecordingSession, CountingStore]:
    session = RecordingSession()
    store = CountingStore(MemoryStore(root))
    paths = BasePaths({base.id: base for base in bases}, is_flagged)
    return Bases(store, TableLocation.of(root, **policy), paths, session), session, store
