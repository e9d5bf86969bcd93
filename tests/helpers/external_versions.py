"""A version store over a key-value table: the four steps of the file-format document, with nothing but the tests' own code.

It stands for the databases that people use where an object store cannot create an object only if it is absent.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import ClassVar

from lancecy.errors import CommitUnknownError, DatasetNotFoundError, StoreError
from lancecy.store.base import Memory
from lancecy.table.paths import Naming
from lancecy.table.requests import Call, Pause, Put, RandomBits, Read, Remove, Steps, again
from lancecy.table.versions import ManifestEntry, ManifestLocation, Outcome
from lancecy.table.versions.folder import VersionFolder

__all__ = ["ExternalVersions", "KeyValueTable"]


class KeyValueTable:
    """Paths by version, with a put that never replaces."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.rows: dict[int, str] = {}

    def put_if_absent(self, version: int, path: str) -> bool:
        """Whether the row is new."""
        with self._lock:
            if version in self.rows:
                return False
            self.rows[version] = path
            return True

    def put(self, version: int, path: str) -> None:
        """Point an existing row elsewhere."""
        with self._lock:
            if version in self.rows:
                self.rows[version] = path

    def remove(self, version: int) -> None:
        """Remove a row, if there is one."""
        with self._lock:
            self.rows.pop(version, None)

    def above(self, version: int) -> dict[int, str]:
        """Rows of higher versions."""
        with self._lock:
            return {number: path for number, path in self.rows.items() if number > version}


@dataclass(frozen=True, slots=True)
class ExternalVersions:
    """Stage the manifest, put its path into the table, copy it to its final name, point the table there."""

    needs_conditional_put: ClassVar[bool] = False
    fails_at_once: ClassVar[bool] = False

    table: KeyValueTable = field(default_factory=KeyValueTable)
    tries: int = 4

    @property
    def _folder(self) -> VersionFolder:
        return VersionFolder(tries=self.tries)

    def latest(self) -> Steps[ManifestLocation | None]:
        rows: dict[int, str] = yield from again(Call(lambda: self.table.above(0)), self.tries)
        if not rows:
            return (yield from self._folder.latest())
        version = max(rows)
        return (yield from self._finished(version, rows[version]))

    def at(self, version: int, naming: Naming | None = None) -> Steps[ManifestLocation | None]:
        rows: dict[int, str] = yield from again(Call(lambda: self.table.above(version - 1)), self.tries)
        if version in rows:
            return (yield from self._finished(version, rows[version]))
        return (yield from self._folder.at(version, naming))

    def versions(self, above: int = 0, naming: Naming | None = None) -> Steps[list[ManifestLocation]]:
        rows: dict[int, str] = yield from again(Call(lambda: self.table.above(above)), self.tries)
        found = {location.version: location for location in (yield from self._folder.versions(above, naming))}
        for version in sorted(rows):
            if version not in found or not rows[version].endswith(".manifest"):
                found[version] = yield from self._finished(version, rows[version])
        return [found[version] for version in sorted(found)]

    def publish(self, version: int, naming: Naming, data: bytes, tries: int) -> Steps[Outcome]:
        final = ManifestLocation.canonical(version, naming).path
        staged = f"{final}-{uuid.UUID(int=(yield RandomBits()) << 64 | (yield RandomBits()))}"
        yield Put(staged, data)
        failure: StoreError | None = None
        for attempt in range(tries):
            try:
                is_mine = yield Call(lambda: self.table.put_if_absent(version, staged), changes=True)
                if not is_mine:
                    rows = yield from again(Call(lambda: self.table.above(version - 1)), tries)
                    is_mine = rows.get(version) == staged
                    if not is_mine:
                        # A row of this very manifest that a reader finished is told apart by reading it.
                        return Outcome.LOST if failure is None else Outcome.UNKNOWN
            except StoreError as error:
                failure = error
                yield Pause(attempt)
                continue
            with suppress(StoreError, DatasetNotFoundError):
                # The version is published already; the next reader copies it if this fails.
                yield from self._copy(version, staged, final)
            return Outcome.WON
        raise CommitUnknownError(
            f"the row of version {version} may have been written ({failure})"
        ) from failure

    def replace(self, location: ManifestLocation, seen: bytes, data: bytes, tries: int) -> Steps[bool]:
        # The row points to the final name: whoever found the location has finished it.
        return (yield from self._folder.replace(location, seen, data, tries))

    def manifests(self) -> Steps[list[ManifestEntry]]:
        yield from self.latest()
        return (yield from self._folder.manifests())

    def remove(self, paths: Sequence[str]) -> Steps[None]:
        rows: dict[int, str] = yield from again(Call(lambda: self.table.above(0)), self.tries)
        for version, path in rows.items():
            if path in paths:
                yield from again(Call(lambda v=version: self.table.remove(v), changes=True), self.tries)  # type: ignore[misc]
        yield from again(Remove(tuple(paths)), self.tries)

    def _finished(self, version: int, path: str) -> Steps[ManifestLocation]:
        """The location of a published version, copied to its final name if its writer did not get that far."""
        naming = Naming.V2 if len(path.rpartition("/")[2].split(".")[0]) == 20 else Naming.V1
        location = ManifestLocation.canonical(version, naming)
        if path != location.path:
            yield from self._copy(version, path, location.path)
        return location

    def _copy(self, version: int, staged: str, final: str) -> Steps[None]:
        try:
            memory: Memory = yield from again(Read(staged), self.tries)
        except DatasetNotFoundError:
            # Another reader or the writer was faster and removed the staged file.
            yield from again(Read(final), self.tries)
        else:
            yield from again(Put(final, memory.tobytes()), self.tries)
        yield from again(Call(lambda: self.table.put(version, final), changes=True), self.tries)
        with suppress(StoreError):
            yield Remove((staged,))
