"""A compaction whose tasks run on workers: planned once, rewritten by many, committed once.

Workers get the tasks and the place of the table, and no snapshot. Only results that arrive are committed, so a
scheduler may repeat tasks. The names of all new files end in the same tag, by which they are found after a failure.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from lancecy.changes.base import Change
from lancecy.changes.compact import CompactionPlan, CompactionTask, RewriteResult, Written
from lancecy.changes.options import WriteRequest
from lancecy.changes.planning import planned_move
from lancecy.changes.shared import SharedWrite, share_planned
from lancecy.changes.shared_tasks import Engine
from lancecy.records import dataclass
from lancecy.scanning.context import context_for
from lancecy.scanning.request import ScanRequest
from lancecy.scanning.task import ScanSpec
from lancecy.session import Session

__all__ = ["SharedCompaction", "rewritten_by"]


@dataclass(frozen=True)
class SharedCompaction:
    """The tasks of a compaction, for workers; pickles without secrets unless the location embeds them.

    Attributes
    ----------
    shared : SharedWrite
        Knows the files, and whether the compaction was given up.
    spec : ScanSpec
        The version that was planned.
    tasks : tuple of CompactionTask
    """

    shared: SharedWrite
    spec: ScanSpec
    tasks: tuple[CompactionTask, ...]

    def run(self, number: int, session: Session | None = None) -> str:
        """Run one task on a worker, and return its result as JSON.

        Parameters
        ----------
        number : int
            Index of the task.
        session : Session, optional

        Raises
        ------
        LanceError
            Rows cannot be read or written, or the compaction was given up; no file of the task is left behind.
        """
        context = context_for(self.spec, session or self.shared.session)
        files, result = self.tasks[number].rewritten(
            context, durable=self.shared.options.durable, tag=self.shared.tag
        )
        self.shared.check_awaited(files, number)
        return result.json()

    def remove(self, result: RewriteResult) -> None:
        """Remove the files of a result that is not committed.

        Parameters
        ----------
        result : RewriteResult
        """
        for file in (file for part in result.new_fragments for file in part.files):
            store, prefix = self.shared.plan.folder(
                self.shared.location, self.shared.session, self.shared.options
            )(file.base_id)
            path = prefix + file.path
            # Blobs are in a folder named after their data file.
            blobs = [meta.path for meta in store.list(f"{path.removesuffix('.lance')}/")]
            store.delete([path, *blobs])


def rewritten_by(
    run: Engine,
    dataset: Change,
    durable: bool,
    embed_credentials: bool,
    plan: CompactionPlan,
    written: list[Written],
) -> Callable[[], object] | None:
    """Run the tasks of a plan on workers (``compact.Rewrites``, after the first four arguments).

    Parameters
    ----------
    run : Engine
    dataset : Change
        At the version that was planned.
    durable : bool
        Whether files are synced to disk.
    embed_credentials : bool
        Send the secrets of the storage options to the workers.
    plan : CompactionPlan
    written : list of Written
        Gets the results.

    Returns
    -------
    function or None
        To be called when the results are committed or removed; until then no cleanup removes the planned version.

    Raises
    ------
    Exception
        What the workers raise; a note says what was removed.
    """
    if not plan.tasks:
        return None
    snapshot, settings = dataset._snapshot, plan.tasks[0].settings
    files = planned_move(snapshot, settings.data_storage_version)
    written_as = WriteRequest("append", target_bases=settings.target_bases, durable=durable)
    shared = share_planned(files, snapshot, written_as, embed_credentials=embed_credentials)
    compaction = SharedCompaction(shared, ScanSpec.of(snapshot, ScanRequest(), embed_credentials), plan.tasks)
    with shared.awaited():
        results = [RewriteResult.from_json(text) for text in run(compaction, range(len(plan.tasks)))]
    written.extend((partial(compaction.remove, result), result) for result in results)
    return shared.ended
