"""Copies of data files to a base that workers make: planned once, copied by many, committed once.

Workers get ids of fragments and plan their copies themselves, so they know the same names; a scheduler may repeat tasks.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from lancecy.changes.base_copies import BaseCopies, base_copies
from lancecy.changes.file_copies import COPY_DEFAULTS, CopyFilesOptions, FileCopies, copy_to_base
from lancecy.changes.shared_tasks import Engine
from lancecy.expr.build import Filter
from lancecy.records import dataclass
from lancecy.scanning.context import context_for
from lancecy.scanning.options import HasFragmentId
from lancecy.scanning.request import ScanRequest
from lancecy.scanning.task import ScanSpec
from lancecy.session import Session
from lancecy.table.snapshot import Snapshot

__all__ = ["SharedCopies", "copied_by_workers"]

# Fragments of one task: few enough to spread, and enough to be worth a task.
_TASK_FRAGMENTS = 8


@dataclass(frozen=True)
class SharedCopies:
    """Copies for workers; pickles without secrets unless the location embeds them.

    Attributes
    ----------
    spec : ScanSpec
        The version that was planned.
    base_id : int or None
        The base that gets the files.
    tasks : tuple of tuple of int
        Ids of fragments.
    verify : bool
        Compare all bytes, not only sizes.
    """

    spec: ScanSpec
    base_id: int | None
    tasks: tuple[tuple[int, ...], ...]
    verify: bool

    def run(self, number: int, session: Session | None = None) -> str:
        """Make the copies of one task on a worker, and return their number.

        Parameters
        ----------
        number : int
            Index of the task.
        session : Session, optional

        Raises
        ------
        LanceError
            As ``FileCopies.copy_files``.
        """
        snapshot = context_for(self.spec, session).snapshot
        wanted = set(self.tasks[number])
        chosen = [fragment for fragment in snapshot.fragments if fragment.id in wanted]
        made = base_copies(snapshot, chosen, self.base_id)
        copy_to_base(snapshot, made, verify=self.verify)
        return str(len(made.files))


def copied_by_workers(
    run: Engine,
    dataset: FileCopies,
    fragments: Iterable[HasFragmentId | int] | Filter,
    filter: Filter,
    base: str | os.PathLike[str] | None,
    options: CopyFilesOptions,
    embed_credentials: bool,
) -> dict[str, int]:
    """Copy data files of fragments to a base as ``FileCopies.copy_files`` does, by workers.

    Parameters
    ----------
    run : Engine
    dataset : FileCopies
        Moves to the new version.
    fragments, filter, base
        As for ``FileCopies.copy_files``.
    options : CopyFilesOptions
    embed_credentials : bool
        Send the secrets of the storage options to the workers.

    Raises
    ------
    LanceError, TypeError
        As ``FileCopies.copy_files``.
    Exception
        What the workers raise.
    """
    asked = {**COPY_DEFAULTS, **options}

    def copy(newest: Snapshot, made: BaseCopies) -> None:
        spec = ScanSpec.of(newest, ScanRequest(), embed_credentials)
        tasks = tuple(_tasks([fragment.id for fragment in made.fragments]))
        run(SharedCopies(spec, made.base_id, tasks, asked["verify"]), range(len(tasks)))
        # The workers have compared the bytes; here is seen that this process finds the same files.
        copy_to_base(newest, made, verify=False)

    retries, timeout = asked["conflict_retries"], asked["retry_timeout"]
    return dataset._copied_by(copy, fragments, filter, base, retries, timeout)


def _tasks(numbers: Sequence[int]) -> Iterable[tuple[int, ...]]:
    for start in range(0, len(numbers), _TASK_FRAGMENTS):
        yield tuple(numbers[start : start + _TASK_FRAGMENTS])
