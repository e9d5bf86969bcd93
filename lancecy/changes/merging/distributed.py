"""A merge that many workers do: rows of both sides are exchanged by their keys, then matched and written where they are.

Each worker cuts its rows of the source, and the key columns of its part of the table, into pieces by a hash of the key.
A shuffle of the cluster brings pieces of the same hash together. There they are matched, and rows are written: first
those that replace others, then inserted ones. Only metadata of fragments, addresses of rows and hashes of keys come
back, for one commit.

Pieces are Arrow streams as bytes, so that a shuffle changes no type.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lancecy.changes.merging.attempt import Attempt
from lancecy.changes.merging.clauses import Clauses, rules_of
from lancecy.changes.merging.key_search import KeySearch
from lancecy.changes.merging.keys import keys_of
from lancecy.changes.merging.matching import match_tables, offsets_of, part_of
from lancecy.changes.merging.rows import hashes_of_new, written_batches, written_schema
from lancecy.changes.merging.source import Source
from lancecy.changes.moves import moved
from lancecy.changes.options import CommitRequest, WriteRequest
from lancecy.changes.row_texts import numbers_of, text_of
from lancecy.changes.shared import SharedWrite, share
from lancecy.encodings.arrow.columns import unsliced_rows
from lancecy.kernels.sorting import sorted_order
from lancecy.records import dataclass
from lancecy.scanning import run_task
from lancecy.scanning.context import ScanContext, context_for
from lancecy.scanning.plan import plan
from lancecy.scanning.request import make_request
from lancecy.scanning.task import ScanSpec, ScanTask
from lancecy.session import Session
from lancecy.table.manifest import Fragment
from lancecy.table.operations import Update
from lancecy.table.operations.key_filter import KeyFilter
from lancecy.table.snapshot import Snapshot
from lancecy.write.metadata import FragmentMetadata

__all__ = ["Engine", "Piece", "SharedMerge", "planned_merge"]

UInt64: TypeAlias = NDArray[np.uint64]
Piece: TypeAlias = tuple[int, bool, bytes]
"""Where rows belong, whether they are of the source, and the rows as an Arrow stream."""

_ADDRESS = "_rowaddr"
_BLOCK_BYTES = 128 << 20
# Rows are cut into pieces together, as each piece repeats the schema.
_CUT_BYTES = 32 << 20


class Engine(Protocol):
    """Runs a merge on workers."""

    def schema(self, snapshot: Snapshot) -> pa.Schema:
        """The columns of the source, for a version of the table.

        Parameters
        ----------
        snapshot : Snapshot
        """

    def places(self, num_tasks: int) -> tuple[int, ...]:
        """Numbers that the engine's shuffle sends to its partitions.

        Parameters
        ----------
        num_tasks : int
            Tasks that read the table.
        """

    def run(self, merge: SharedMerge, tasks: Sequence[ScanTask]) -> list[str]:
        """Shuffle and merge; returns what ``SharedMerge.merge`` returned on the workers.

        Parameters
        ----------
        merge : SharedMerge
        tasks : sequence of ScanTask
            What ``SharedMerge.of_table`` reads.
        """


@dataclass(frozen=True, slots=True)
class SharedMerge:
    """A merge of one version of a table, for many workers; made by :func:`planned_merge`.

    Attributes
    ----------
    spec : ScanSpec
        Reads the columns that matching needs, and row addresses.
    source : pyarrow.Schema
    clauses : Clauses
    on : tuple of str
        Key columns.
    instant : int
        The time for ``now()`` and the like.
    places : tuple of int
        See ``Engine.places``.
    shared : SharedWrite or None
        Writes rows; None if the merge writes none.
    tag : str
        Tells it from other merges.
    """

    spec: ScanSpec
    source: pa.Schema
    clauses: Clauses
    on: tuple[str, ...]
    instant: int
    places: tuple[int, ...]
    shared: SharedWrite | None
    tag: str

    def __dask_tokenize__(self) -> object:
        return ("lancecy.SharedMerge", self.tag)

    # -- on workers, before the shuffle -------------------------------------------------------------------

    def of_source(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Piece]:
        """Rows of the source in pieces.

        Parameters
        ----------
        batches : iterable of pyarrow.RecordBatch
        """
        for place, rows in self._cut(batches):
            yield place, True, rows

    def of_table(self, task: ScanTask, session: Session | None = None) -> Iterator[Piece]:
        """Keys of a part of the table in pieces.

        Parameters
        ----------
        task : ScanTask
        session : Session, optional

        Raises
        ------
        LanceError
            The table cannot be read.
        """
        for place, rows in self._cut(map(self._of_use, run_task.batches(task, session))):
            yield place, False, rows

    def _of_use(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that the merge may change: a null in the key matches nothing."""
        valid = keys_of([batch.column(name) for name in self.on]).valid
        return (
            batch if valid is None or self.clauses.deletes else unsliced_rows(batch).filter(pa.array(valid))
        )

    def _cut(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, bytes]]:
        waiting: list[pa.RecordBatch] = []
        for batch in batches:
            waiting.append(batch)
            if sum(each.nbytes for each in waiting) > _CUT_BYTES:
                yield from self._pieces(waiting)
                waiting = []
        yield from self._pieces(waiting)

    def _pieces(self, batches: Sequence[pa.RecordBatch]) -> Iterator[tuple[int, bytes]]:
        if not sum(batch.num_rows for batch in batches):
            return
        rows = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks()
        parts = part_of(keys_of([rows.column(name) for name in self.on]).words, len(self.places))
        order = sorted_order(parts)
        rows = unsliced_rows(rows).take(pa.array(order)).combine_chunks()
        numbers, starts = np.unique(parts[order], return_index=True)
        for number, start, stop in zip(numbers.tolist(), starts, [*starts[1:], len(order)], strict=True):
            yield self.places[number], _bytes_of(rows.slice(start, stop - start))

    # -- on workers, after the shuffle --------------------------------------------------------------------

    def merge(self, pieces: Iterable[tuple[bool, bytes]], number: int, session: Session | None = None) -> str:
        """Match the rows of some places and write them.

        Parameters
        ----------
        pieces : iterable of (bool, bytes)
            All pieces of these places: whether they are of the source, and the rows.
        number : int
            Number of the task.
        session : Session, optional

        Returns
        -------
        str
            The result as JSON, for :meth:`operation`; empty if there is no piece.

        Raises
        ------
        SchemaError, ExistsError
            As ``MergeInsertBuilder.execute``.
        LanceError
            Rows cannot be read or written.
        """
        sides: dict[bool, list[pa.Table]] = {True: [], False: []}
        for is_source, rows in pieces:
            sides[bool(is_source)].append(_table_of(rows))
        if not any(sides.values()):
            return ""
        context = context_for(self.spec, session)
        rules = rules_of(self.clauses, self.on, context.snapshot.schema, self.source, self.instant)
        target = _whole(sides[False], context.projection(self.spec.request).schema)
        with Source(_whole(sides[True], self.source), None, _CUT_BYTES, is_whole=False) as source:
            addresses = target.column(_ADDRESS).to_numpy()
            matches = match_tables(source, target, addresses, rules)
            made: tuple[FragmentMetadata, ...] = ()
            if self.shared is not None and matches.rows.size + matches.num_inserted:
                made = self.shared.write(written_batches(context, source, rules, matches), number)
            gone = [
                (np.uint64(part << 32) | offsets.astype(np.uint64)) for part, offsets in matches.gone.items()
            ]
            result = {
                "fragments": [fragment.to_json() for fragment in made],
                "moved": text_of(matches.addresses),
                "gone": text_of(np.concatenate([np.empty(0, np.uint64), *gone])),
                "hashes": text_of(hashes_of_new(source, rules, matches)),
                "stats": matches.stats,
            }
        return json.dumps(result)

    # -- on the client ------------------------------------------------------------------------------------

    def operation(self, snapshot: Snapshot, results: Iterable[str]) -> tuple[Update, dict[str, int]]:
        """The change that the workers prepared, and numbers of rows.

        Parameters
        ----------
        snapshot : Snapshot
            The version that the merge was planned from.
        results : iterable of str
            From :meth:`merge`.
        """
        found: list[dict[str, Any]] = [json.loads(text) for text in results if text]
        fragments: list[Fragment] = []
        stats = {"num_inserted_rows": 0, "num_updated_rows": 0, "num_deleted_rows": 0}
        for result in found:
            made = [FragmentMetadata.from_json(text) for text in result["fragments"]]
            fragments += moved(snapshot, made, numbers_of(result["moved"]))
            stats = {name: count + result["stats"][name] for name, count in stats.items()}
        none = np.empty(0, np.uint64)
        gone = np.concatenate([none, *(numbers_of(result["gone"]) for result in found)])
        hashes = np.concatenate([none, *(numbers_of(result["hashes"]) for result in found)])
        keys = tuple(snapshot.schema.field(name).id for name in self.on)
        update = Update(
            offsets_of(gone),
            tuple(fragments),
            keys=KeyFilter.of(keys, hashes),
            fields=self._fields(),
            has_keys=KeySearch(snapshot, keys, hashes),
        )
        return update, stats

    def _fields(self) -> tuple[int, ...]:
        if self.shared is None:
            return ()
        return tuple(node.id for top in self.shared.plan.schema.fields for node in top.walk())

    @contextmanager
    def ended(self) -> Iterator[None]:
        """The end of the merge: after an error of the commit, the data files are removed, unless a version may name them."""
        with nullcontext() if self.shared is None else self.shared.ending():
            yield

    @property
    def commit_options(self) -> CommitRequest:
        """Options of the commit, with the token of the write."""
        return CommitRequest() if self.shared is None else self.shared.commit_options


def planned_merge(
    context: ScanContext,
    engine: Engine,
    clauses: Clauses,
    on: tuple[str, ...],
    written: WriteRequest,
    instant: int,
    embed_credentials: bool = False,
) -> tuple[SharedMerge, tuple[ScanTask, ...]]:
    """Plan a merge for many workers, and the tasks that read the table.

    Parameters
    ----------
    context : ScanContext
    engine : Engine
    clauses : Clauses
    on : tuple of str
    written : WriteRequest
    instant : int
    embed_credentials : bool
        Send secrets of the storage options to the workers.

    Raises
    ------
    LanceError, ValueError
        The clauses, the columns or the options do not fit the table.
    """
    snapshot = context.snapshot
    source = engine.schema(snapshot)
    attempt = Attempt.of(context, source, clauses, on, written, instant)
    request = make_request(
        snapshot.schema.arrow, columns=list(attempt.rules.of_target), with_row_address=True
    )
    spec = ScanSpec.of(snapshot, request, embed_credentials)
    tasks = tuple(plan(context, request, spec, _BLOCK_BYTES).tasks)
    shared = None
    if attempt.plan is not None:
        shared = share(
            written_schema(context, source, attempt.rules),
            snapshot.location,
            snapshot.session,
            snapshot,
            written,
            CommitRequest(durable=written.durable),
            embed_credentials=embed_credentials,
            is_awaited=True,
        )
    places = engine.places(len(tasks))
    tag = secrets.token_hex(8)
    return SharedMerge(spec, source, clauses, on, instant, places, shared, tag), tasks


# -- bytes ----------------------------------------------------------------------------------------


def _bytes_of(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def _table_of(rows: bytes) -> pa.Table:
    with pa.ipc.open_stream(rows) as reader:
        return reader.read_all()


def _whole(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    if not tables:
        return schema.empty_table()
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()
