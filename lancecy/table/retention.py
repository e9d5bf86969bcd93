"""Everything that says which files of a table are needed: versions, tags, branches, commits on their way.

Generators over ``requests``, used by ``cleanup``. What cannot be read or understood is an error and never left
out; only what is gone is.

Facts: table sheet, sections 1.3, 4.1 and 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from lancecy.errors import DatasetNotFoundError, FormatError, LanceError, NotFoundError, UnsupportedError
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.store.base import Memory, ObjectMeta
from lancecy.table.operations import decode_transaction
from lancecy.table.paths import ManifestName
from lancecy.table.references_wire import References, decode_references
from lancecy.table.refs import BRANCHES, REFS, TAGS, Pin, branch_folder, decode_pin
from lancecy.table.requests import InOtherTable, List, Read, Steps, again
from lancecy.table.versions import VersionStore

__all__ = ["Intents", "ListedManifest", "Needs", "Scope"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Scope:
    """Which table is cleaned up, and who else needs its files.

    Attributes
    ----------
    versions : VersionStore
    branch : str or None
        None for the main table, at whose root paths begin in either case.
    used_by : tuple of str
        Roots of tables elsewhere that have files of this one, such as shallow clones.
    tries : int
        Times a failing request is made.
    limits : Limits
    """

    versions: VersionStore
    branch: str | None = None
    used_by: tuple[str, ...] = ()
    tries: int = 4
    limits: Limits = DEFAULT_LIMITS

    @property
    def home(self) -> str:
        """What paths of the table begin with."""
        return "" if self.branch is None else f"{branch_folder(self.branch)}/"


@dataclass(frozen=True, slots=True)
class Intents:
    """What transactions are about that no version names: their bytes, and versions they restore."""

    raw: bytes
    restored: frozenset[int]


@dataclass(frozen=True, slots=True)
class ListedManifest:
    """A manifest file that was listed; ``place`` is the root of another table, "" of this one."""

    place: str
    meta: ObjectMeta
    name: ManifestName

    @property
    def is_history(self) -> bool:
        return not self.name.detached and not self.name.staged


class Needs:
    """Reads what is needed.

    Parameters
    ----------
    scope : Scope
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def pins(self) -> Steps[frozenset[Pin]]:
        """Tags and branches there are."""
        metas: Sequence[ObjectMeta] = yield from again(List(REFS), self._scope.tries)
        pins = set()
        for meta in metas:
            folder, _, name = meta.path.rpartition("/")
            if folder in (TAGS, BRANCHES) and name.endswith(".json"):
                memory: Memory = yield from again(Read(meta.path), self._scope.tries)
                pins.add(decode_pin(memory, meta.path, self._scope.limits))
        return frozenset(pins)

    def manifests(self) -> Steps[list[ListedManifest]]:
        """Every manifest of this table, its branches, the table they branch from, and those that use it."""
        found: list[ListedManifest] = []
        for place in ("", *self._scope.used_by):
            listing = self._scope.versions.manifests()
            files = yield from _elsewhere(listing, place) if place else listing
            found += [ListedManifest(place, file.meta, file.name) for file in files]
            if place and not files:
                raise NotFoundError(
                    f"there is no table at {place}, which is said to use files of this one",
                    kind="dataset",
                    name=place,
                )
        return found

    def references(self, manifest: ListedManifest) -> Steps[References | None]:
        """What a version needs, None if its manifest is gone."""
        path, place = manifest.meta.path, manifest.place
        request = Read(path)
        try:
            memory: Memory = yield from again(
                InOtherTable(place, request) if place else request, self._scope.tries
            )
        except DatasetNotFoundError:
            return None
        shown = f"{place}/{path}" if place else path
        return decode_references(memory, shown, manifest.name.version, self._scope.limits)

    def intents(self, metas: Sequence[ObjectMeta]) -> Steps[Intents]:
        """What transactions are about that may be committed yet."""
        raw, restored = [], set[int]()
        for meta in metas:
            try:
                memory: Memory = yield from again(Read(meta.path), self._scope.tries)
            except DatasetNotFoundError:
                continue
            data = memory.tobytes()
            raw.append(data)
            try:
                operation = decode_transaction(data, self._scope.limits).operation
            except (FormatError, UnsupportedError):
                continue  # torn, as a crash leaves it: whoever commits it has to write it anew
            version = operation.references().version
            if version is not None:
                restored.add(version)
        return Intents(b"".join(raw), frozenset(restored))


def _elsewhere(steps: Steps[T], place: str) -> Steps[T]:
    """The same requests about the table at another root."""
    try:
        request = next(steps)
        while True:
            asked = InOtherTable(place, request) if isinstance(request, List | Read) else request
            try:
                answer = yield asked
            except LanceError as error:
                request = steps.throw(error)
            else:
                request = steps.send(answer)
    except StopIteration as end:
        value: T = end.value
        return value
