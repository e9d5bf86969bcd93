"""Finds what needs files of a table: versions, tags, branches, pending commits.

Generators over ``requests``, used by ``cleanup``. Objects that cannot be read or understood raise; only missing
objects are skipped.

Facts: table sheet, sections 1.3, 4.1 and 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from lancecy.errors import DatasetNotFoundError, FormatError, NotFoundError, UnsupportedError
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.records import dataclass
from lancecy.store.base import Memory, ObjectMeta
from lancecy.table.operations import decode_transaction
from lancecy.table.paths import ManifestName
from lancecy.table.refs import Pin, branch_folder
from lancecy.table.refs.files import pins
from lancecy.table.requests import InOtherTable, List, Read, Request, Steps, again, translated
from lancecy.table.versions import VersionStore
from lancecy.table.wire.references import References, decode_references

__all__ = ["Intents", "ListedManifest", "Needs", "Scope"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Scope:
    """The table to clean up, and other tables that need its files.

    Attributes
    ----------
    versions : VersionStore
    branch : str or None
        None for the main table. Paths begin at the main table's root in either case.
    used_by : tuple of str
        Roots of other tables that use files of this one, such as shallow clones.
    limits : Limits
    gone : frozenset of str
        Paths of manifests that another cleanup removes before this one, which need no files any more.
    """

    versions: VersionStore
    branch: str | None = None
    used_by: tuple[str, ...] = ()
    limits: Limits = DEFAULT_LIMITS
    gone: frozenset[str] = frozenset()

    @property
    def home(self) -> str:
        """Prefix of the table's paths."""
        return "" if self.branch is None else f"{branch_folder(self.branch)}/"


@dataclass(frozen=True, slots=True)
class Intents:
    """Transactions that no version names: their bytes, and the versions they restore."""

    raw: bytes
    restored: frozenset[int]


@dataclass(frozen=True, slots=True)
class ListedManifest:
    """A listed manifest file; ``place`` is the root of another table, "" for this one."""

    place: str
    meta: ObjectMeta
    name: ManifestName

    @property
    def is_history(self) -> bool:
        return self.name.is_published


class Needs:
    """Reads versions, tags, branches and transactions, and the files they need.

    Parameters
    ----------
    scope : Scope
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def pins(self) -> Steps[frozenset[Pin]]:
        """All tags and branches."""
        return (yield from pins(self._scope.limits))

    def manifests(self) -> Steps[list[ListedManifest]]:
        """Every manifest of this table, its branches, their main table, and the tables that use it."""
        found: list[ListedManifest] = []
        for place in ("", *self._scope.used_by):
            listing = self._scope.versions.manifests()
            files = yield from _elsewhere(listing, place) if place else listing
            gone = frozenset() if place else self._scope.gone
            found += [
                ListedManifest(place, file.meta, file.name) for file in files if file.meta.path not in gone
            ]
            if place and not files:
                raise NotFoundError(
                    f"there is no table at {place}, which is said to use files of this one",
                    kind="dataset",
                    name=place,
                )
        return found

    def running(self, markers: Sequence[ObjectMeta]) -> Steps[int | None]:
        """The oldest version that a distributed write under way began from, None without such writes.

        Its commit looks at every later version for conflicts.
        """
        versions = []
        for meta in markers:
            try:
                memory: Memory = yield from again(Read(meta.path))
            except DatasetNotFoundError:
                continue
            text = memory[:20].tobytes()
            if text.isdigit():
                versions.append(int(text))
        return min(versions, default=None)

    def references(self, manifest: ListedManifest) -> Steps[References | None]:
        """The files a version needs, None if its manifest is gone."""
        path, place = manifest.meta.path, manifest.place
        request = Read(path)
        try:
            memory: Memory = yield from again(InOtherTable(place, request) if place else request)
        except DatasetNotFoundError:
            return None
        shown = f"{place}/{path}" if place else path
        return decode_references(memory, shown, manifest.name.version, self._scope.limits)

    def intents(self, metas: Sequence[ObjectMeta]) -> Steps[Intents]:
        """The contents of transactions that may still be committed."""
        raw, restored = [], set[int]()
        for meta in metas:
            try:
                memory: Memory = yield from again(Read(meta.path))
            except DatasetNotFoundError:
                continue
            data = memory.tobytes()
            raw.append(data)
            try:
                operation = decode_transaction(data, self._scope.limits).operation
            except (FormatError, UnsupportedError):
                continue  # torn by a crash; a commit must write it again
            version = operation.references().version
            if version is not None:
                restored.add(version)
        return Intents(b"".join(raw), frozenset(restored))


def _elsewhere(steps: Steps[T], place: str) -> Steps[T]:
    """The same requests, sent to the table at another root."""

    def ask(request: Request) -> Steps[Any]:
        return (yield InOtherTable(place, request) if isinstance(request, List | Read) else request)

    return translated(steps, ask)
