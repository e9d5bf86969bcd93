"""Items of versions in the memory of this process."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from lancecy.store.key_values.base import ManifestItem

__all__ = ["MemoryKeyValue"]

_DETACHED = 1 << 63


class MemoryKeyValue:
    """A key-value store of manifests for one process, such as a test; a pickle carries a copy of all items.

    Examples
    --------
    >>> store = MemoryKeyValue()
    >>> first, second = ManifestItem("_versions/1.manifest-a"), ManifestItem("_versions/1.manifest", 90)
    >>> store.put_if_absent("t", 1, first), store.put_if_absent("t", 1, second)
    (True, False)
    >>> store.put_if("t", 1, second, expected=first), store.latest("t")
    (True, (1, ManifestItem(path='_versions/1.manifest', size=90)))
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._items: dict[str, dict[int, ManifestItem]] = {}

    def __getstate__(self) -> dict[str, dict[int, ManifestItem]]:
        with self._lock:
            return {table: dict(items) for table, items in self._items.items()}

    def __setstate__(self, items: dict[str, dict[int, ManifestItem]]) -> None:
        self.__init__()  # type: ignore[misc]
        self._items = items

    def get(self, table: str, version: int) -> ManifestItem | None:
        """See ``ManifestKeyValue``."""
        with self._lock:
            return self._items.get(table, {}).get(version)

    def latest(self, table: str) -> tuple[int, ManifestItem] | None:
        """See ``ManifestKeyValue``."""
        items = self.above(table)
        return items[-1] if items else None

    def above(self, table: str, version: int = 0) -> list[tuple[int, ManifestItem]]:
        """See ``ManifestKeyValue``."""
        with self._lock:
            items = self._items.get(table, {}).items()
            return sorted((item for item in items if version < item[0] < _DETACHED), key=lambda item: item[0])

    def put_if_absent(self, table: str, version: int, item: ManifestItem) -> bool:
        """See ``ManifestKeyValue``."""
        with self._lock:
            items = self._items.setdefault(table, {})
            if version in items:
                return False
            items[version] = item
            return True

    def put_if(self, table: str, version: int, item: ManifestItem, expected: ManifestItem) -> bool:
        """See ``ManifestKeyValue``."""
        with self._lock:
            items = self._items.get(table, {})
            if version not in items or items[version].path != expected.path:
                return False
            items[version] = item
            return True

    def delete(self, table: str, versions: Sequence[int]) -> None:
        """See ``ManifestKeyValue``."""
        with self._lock:
            for version in versions:
                self._items.get(table, {}).pop(version, None)
