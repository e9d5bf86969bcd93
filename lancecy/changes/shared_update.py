"""An update that many workers do: each rewrites the matching rows of some fragments, then one commit.

Workers find the rows and write them with their new values. Only metadata of new fragments and addresses of rows come
back, of each task once, so a scheduler may repeat tasks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, TypedDict

from lancecy.changes.base import Change
from lancecy.changes.options import Durability, WriteRequest, is_durable
from lancecy.changes.planning import planned_move
from lancecy.changes.row_texts import numbers_of, text_of
from lancecy.changes.shared import SharedWrite, share_planned
from lancecy.changes.shared_tasks import Engine
from lancecy.changes.update import UpdatedRows
from lancecy.expr import time_now
from lancecy.expr.build import Filter
from lancecy.keyword_options import whole_number
from lancecy.records import dataclass
from lancecy.scanning.context import ScanContext, context_for
from lancecy.scanning.plan import plan
from lancecy.scanning.request import ScanRequest
from lancecy.scanning.task import ScanSpec, ScanTask
from lancecy.session import Session
from lancecy.write.metadata import FragmentMetadata

__all__ = ["UPDATE_DEFAULTS", "SharedUpdate", "UpdateOptions", "update_shared"]

_BLOCK_BYTES = 128 << 20
_TIMEOUT = timedelta(days=365)


class UpdateOptions(TypedDict, total=False):
    """Options of an update on a cluster."""

    conflict_retries: int
    data_storage_version: str | None
    durability: Durability


UPDATE_DEFAULTS: UpdateOptions = {
    "conflict_retries": 10,
    "data_storage_version": None,
    "durability": "fsync",
}


@dataclass(frozen=True, slots=True)
class SharedUpdate:
    """An update of one version of a table, for many workers.

    Attributes
    ----------
    spec : ScanSpec
        The version that was planned.
    updates : mapping of str to object
        See ``Dataset.update``.
    where : str, pyarrow.compute.Expression, Expr or None
    instant : int
        The time for ``now()`` and the like.
    tasks : tuple of tuple of int
        Ids of the fragments of each task; none is in two.
    shared : SharedWrite
        Writes the rows.
    """

    spec: ScanSpec
    updates: Mapping[str, Any]
    where: Filter
    instant: int
    tasks: tuple[tuple[int, ...], ...]
    shared: SharedWrite

    def __dask_tokenize__(self) -> object:
        return ("lancecy.SharedUpdate", self.shared.tag)

    def run(self, number: int, session: Session | None = None) -> str:
        """Run one task on a worker: write the matching rows of its fragments with their new values.

        Parameters
        ----------
        number : int
            Index of the task.
        session : Session, optional

        Returns
        -------
        str
            The result as JSON.

        Raises
        ------
        LanceError
            Rows cannot be read or written, a value does not fit, or the update was given up; no file of the task is
            left behind.
        """
        context = context_for(self.spec, session)
        rows = UpdatedRows(context, self.updates, self.where, self.instant, self.tasks[number])
        made = self.shared.write(rows.batches(), number)
        result = {"fragments": [part.to_json() for part in made], "moved": text_of(rows.addresses)}
        return json.dumps(result)


def update_shared(
    dataset: Change,
    engine: Engine,
    updates: Mapping[str, Any],
    where: Filter,
    options: UpdateOptions,
    embed_credentials: bool,
) -> dict[str, int]:
    """Update rows on the workers of an engine, in one commit.

    Parameters
    ----------
    dataset : Dataset
        Moves to the new version.
    engine : Engine
    updates, where
        As for ``Dataset.update``.
    options : UpdateOptions
    embed_credentials : bool
        Send secrets of the storage options to the workers.

    Returns
    -------
    dict
        ``{"num_rows_updated": int}``; no version is made for 0.

    Raises
    ------
    LanceError, ValueError, TypeError
        As ``Dataset.update``; and errors of the engine. Nothing is committed, and files that are found are removed.
    """
    asked: UpdateOptions = {**UPDATE_DEFAULTS, **options}
    written = WriteRequest("append", asked["data_storage_version"], durable=is_durable(asked["durability"]))
    # Taken once, so that attempts after a conflict set the same values.
    instant = time_now()

    def attempt() -> int:
        dataset._check_writable()
        rows = UpdatedRows(dataset.context, updates, where, instant)
        update = _planned(dataset.context, rows.request, updates, where, instant, written, embed_credentials)
        if not update.tasks:
            return 0
        with update.shared.awaited():
            results = [json.loads(text) for text in engine(update, range(len(update.tasks)))]
            parts = [
                ([FragmentMetadata.from_json(part) for part in each["fragments"]], numbers_of(each["moved"]))
                for each in results
            ]
        with update.shared.ending():
            if any(made for made, _ in parts):
                dataset._change(rows.joined(parts), options=update.shared.commit_options)
        return sum(addresses.size for _, addresses in parts)

    retries = whole_number("conflict_retries", asked["conflict_retries"])
    return {"num_rows_updated": dataset._retried(attempt, retries, _TIMEOUT)}


def _planned(
    context: ScanContext,
    request: ScanRequest,
    updates: Mapping[str, Any],
    where: Filter,
    instant: int,
    written: WriteRequest,
    embed_credentials: bool,
) -> SharedUpdate:
    snapshot = context.snapshot
    files = planned_move(snapshot, written.data_version)
    shared = share_planned(files, snapshot, written, embed_credentials=embed_credentials)
    spec = ScanSpec.of(snapshot, ScanRequest(), embed_credentials)
    # Fragments without a row that can match are not among the tasks.
    tasks = _by_fragments(plan(context, request, spec).tasks)
    return SharedUpdate(spec, dict(updates), where, instant, tasks, shared)


def _by_fragments(tasks: Sequence[ScanTask]) -> tuple[tuple[int, ...], ...]:
    """Whole fragments, grouped to about as many bytes as a task should read."""
    sizes: dict[int, int] = {}
    for task in tasks:
        for fragment in dict.fromkeys(unit.fragment for unit in task.units):
            sizes[fragment] = sizes.get(fragment, 0) + task.num_bytes
    groups: list[list[int]] = []
    filled = 0
    for fragment, size in sizes.items():
        if not groups or filled + size > _BLOCK_BYTES:
            groups.append([])
            filled = 0
        groups[-1].append(fragment)
        filled += size
    return tuple(map(tuple, groups))
