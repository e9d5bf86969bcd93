"""An index whose parts many workers make: planned once, merged and committed once by the process that waits for them.

Each part covers some fragments, and has a folder of its own, named by an id that begins with the tag of the work. By the
tag all parts are found in the end, those of repeated tasks among them, and removed: only the merged index stays. A
marker stands in the table's folder as long; a worker that finishes a part and finds it gone removes its files.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TypedDict

from lancecy.changes.base import Change
from lancecy.changes.index_segments import replaced_entries
from lancecy.changes.index_training import IndexPlan, merged, trained
from lancecy.changes.index_upkeep import commit_indices
from lancecy.changes.markers import WriteMarker
from lancecy.changes.options import CommitRequest, Durability, is_durable
from lancecy.changes.shared_tasks import Engine
from lancecy.errors import CommitError, FormatError, LanceError
from lancecy.index.write.index_types import IndexConfig, IndexKind
from lancecy.keyword_options import whole_number
from lancecy.records import dataclass
from lancecy.scanning.context import ScanContext, context_for
from lancecy.scanning.request import ScanRequest
from lancecy.scanning.task import ScanSpec
from lancecy.session import Session
from lancecy.store.base import Store
from lancecy.store.local import LocalStore
from lancecy.table.manifest import IndexEntry
from lancecy.table.operations.index_section import covered
from lancecy.table.paths import INDICES
from lancecy.table.wire.indices import decode_index

__all__ = ["INDEX_DEFAULTS", "SharedIndex", "SharedIndexOptions", "create_shared_index"]

_TAG_BYTES = 8
_TAG_LETTERS = len("00000000-0000-0000")
_MOST_PARTS = 64
_TIMEOUT = timedelta(days=365)


class SharedIndexOptions(TypedDict, total=False):
    """Options of an index that is made on a cluster."""

    replace: bool
    num_parts: int | None
    conflict_retries: int
    durability: Durability
    commit_message: str | None


INDEX_DEFAULTS: SharedIndexOptions = {
    "replace": True,
    "num_parts": None,
    "conflict_retries": 10,
    "durability": "fsync",
    "commit_message": None,
}


@dataclass(frozen=True, slots=True)
class SharedIndex:
    """The parts of an index of one version of a table, for workers; pickles without secrets unless ``spec`` embeds them.

    Attributes
    ----------
    spec : ScanSpec
    column : str
    index_type : str or IndexConfig
    name : str
    parts : tuple of tuple of int
        Ids of the fragments of each.
    tag : str
        The first 8 bytes of the ids of all parts, as hexadecimal digits.
    durable : bool
    """

    spec: ScanSpec
    column: str
    index_type: IndexKind
    name: str
    parts: tuple[tuple[int, ...], ...]
    tag: str
    durable: bool

    def __dask_tokenize__(self) -> object:
        return ("lancecy.changes.SharedIndex", self.tag)

    def run(self, number: int, session: Session | None = None) -> str:
        """Make a part on a worker, and return its entry as hexadecimal digits.

        Parameters
        ----------
        number : int
            Index of the part.
        session : Session, optional

        Raises
        ------
        LanceError
            Rows cannot be read, or files not written; no file of the part is left behind.
        CommitError
            The work was given up meanwhile; the files of the part are removed.
        """
        context = context_for(self.spec, session)
        plan = IndexPlan.of(context.snapshot.schema, self.column, self.index_type, self.name)
        identity = uuid.UUID(bytes=bytes.fromhex(self.tag) + uuid.uuid4().bytes[_TAG_BYTES:])
        made = trained(context, plan, self.parts[number], durable=self.durable, identity=identity)
        # Looked for after the files are there: those that the other side missed are removed here.
        if WriteMarker(self.tag).is_gone(_store(context)):
            made.files.remove()
            raise CommitError(
                f"the index of {self.spec.uri} was given up while part {number} was made, or this worker does not see "
                "the folder of the table; the files of this part were removed"
            )
        return made.entry.raw.hex()

    @contextmanager
    def awaited(self, context: ScanContext) -> Iterator[None]:
        """Wait for the parts within the block; in the end their files are removed.

        Parameters
        ----------
        context : ScanContext
            Of the version that was planned.
        """
        store = _store(context)
        WriteMarker(self.tag).put(store, context.snapshot.version)
        try:
            yield
        except BaseException as error:
            error.add_note(
                f"Nothing was committed to {self.spec.uri}, and the files of the parts of its index were removed. Of a worker "
                f"that was killed, {INDICES}/{self._prefix}* may be left: no reader ever sees it, and cleanup_old_versions "
                "removes it."
            )
            raise
        finally:
            WriteMarker(self.tag).remove(store)
            with suppress(LanceError):
                self._clear(store)

    @property
    def _prefix(self) -> str:
        return str(uuid.UUID(bytes=bytes.fromhex(self.tag) + bytes(_TAG_BYTES)))[:_TAG_LETTERS]

    def _clear(self, store: Store) -> None:
        """Remove the files of all parts."""
        start = f"{INDICES}/{self._prefix}"
        found = [meta.path for meta in store.list(INDICES) if meta.path.startswith(start)]
        store.delete(found)
        if isinstance(store, LocalStore):
            # Other stores have no folders.
            folders = {name.rpartition("/")[0] for name in found}
            store.remove_folders([f"{store.uri}/{name}" for name in (*folders, INDICES)])


def create_shared_index(
    dataset: Change,
    engine: Engine,
    column: str,
    index_type: IndexKind,
    name: str | None,
    options: SharedIndexOptions,
    embed_credentials: bool,
) -> None:
    """Make an index on the workers of an engine, and commit it.

    Parameters
    ----------
    dataset : Change
        Moves to the version that is made.
    engine : Engine
    column : str
    index_type : str or IndexConfig
    name : str, optional
    options : SharedIndexOptions
    embed_credentials : bool
        Send secrets of the storage options to the workers.

    Raises
    ------
    ColumnNotFoundError, TypeError, ValueError
        As for ``Dataset.create_scalar_index``.
    LanceError
        Files cannot be read or written, or every attempt lost to another writer. Nothing is committed.
    Exception
        What workers raise; a note says what was removed.
    """
    asked: SharedIndexOptions = {**INDEX_DEFAULTS, **options}
    most = asked["num_parts"]
    if most is not None and whole_number("num_parts", most) < 1:
        raise ValueError(f"num_parts is {most}; an index has at least one part")
    commit = CommitRequest(message=asked["commit_message"], durable=is_durable(asked["durability"]))

    def attempt() -> None:
        dataset._check_writable()
        context = dataset.context
        snapshot = context.snapshot
        plan = IndexPlan.of(snapshot.schema, column, index_type, name, snapshot.indices())
        replaced = replaced_entries(context, plan, asked["replace"])
        shared = SharedIndex(
            ScanSpec.of(snapshot, ScanRequest(), embed_credentials),
            plan.column,
            index_type
            if isinstance(index_type, str)
            else IndexConfig(index_type.index_type, index_type.parameters),
            plan.name,
            _parts(context, _MOST_PARTS if most is None else most),
            uuid.uuid4().bytes[:_TAG_BYTES].hex(),
            commit.durable,
        )
        if not shared.parts:
            commit_indices(dataset, [trained(context, plan, (), durable=commit.durable)], replaced, commit)
            return
        with shared.awaited(context):
            texts = engine(shared, range(len(shared.parts)))
            entries = _once_each(shared, [decode_index(bytes.fromhex(text)) for text in texts])
            made = merged(context, plan, entries, durable=commit.durable)
            commit_indices(dataset, [made], replaced, commit)

    dataset._retried(attempt, whole_number("conflict_retries", asked["conflict_retries"]), _TIMEOUT)


def _store(context: ScanContext) -> Store:
    return context.snapshot.location.open(context.snapshot.session)


def _parts(context: ScanContext, most: int) -> tuple[tuple[int, ...], ...]:
    """Neighbouring fragments in at most so many groups of about as many rows."""
    rows = {part.id: context.live_rows(context.metadata(part.id)) for part in context.fragments}
    total, before = max(1, sum(rows.values())), 0
    count = min(most, len(rows))
    groups: dict[int, list[int]] = {}
    for number, size in sorted(rows.items()):
        groups.setdefault(min(count - 1, before * count // total), []).append(number)
        before += size
    return tuple(map(tuple, groups.values()))


def _once_each(shared: SharedIndex, entries: Sequence[IndexEntry]) -> list[IndexEntry]:
    """One entry for each part, whatever was done twice."""
    found = {covered(entry) or frozenset(): entry for entry in entries}
    if found.keys() != {frozenset(part) for part in shared.parts}:
        raise FormatError(f"workers returned {len(found)} of {len(shared.parts)} parts of an index")
    return list(found.values())
