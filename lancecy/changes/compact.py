"""Compaction: neighbouring small fragments become larger ones, and deleted rows leave the files.

``ds.optimize.compact_files()`` does all of it. :class:`Compaction` does it in three steps for many workers: a plan of
tasks, a result of each task, one commit. The results say which fragments, at which version, were rewritten, and the
commit compares these with the newest version: rows that were deleted or moved meanwhile stay so.

Facts: table sheet, sections 4.3, 9.3 and 10.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field, replace
from functools import partial
from threading import Lock
from typing import Any, TypeAlias, TypeVar, Unpack

from lancecy.changes.base import Change
from lancecy.changes.compaction_files import Rewriter
from lancecy.changes.compaction_options import (
    RUN_DEFAULTS,
    CompactionOptions,
    CompactionRunOptions,
    CompactionSettings,
    RunRequest,
)
from lancecy.changes.compaction_plan import planned_groups
from lancecy.changes.index import IndexOptimizer, Indices
from lancecy.changes.index_moves import moved_ngrams
from lancecy.changes.index_upkeep import after_move, rebuild
from lancecy.changes.options import CommitRequest, cleanup_config
from lancecy.errors import CommitUnknownError, LanceError, NotFoundError, VersionNotFoundError, printable
from lancecy.keyword_options import checked_arguments, shared_options
from lancecy.progress import Step
from lancecy.records import dataclass
from lancecy.scanning.context import ScanContext
from lancecy.store.pools import submit
from lancecy.table.cleanup.automatic import INTERVAL, OLDER_THAN
from lancecy.table.manifest import Fragment
from lancecy.table.operations import MapUpdate, Rewrite, RewriteGroup, UpdateConfig
from lancecy.table.snapshot import Snapshot, load_snapshot
from lancecy.write.fragments import NewFiles
from lancecy.write.metadata import FragmentMetadata
from lancecy.write.progress import WriteCallback

__all__ = [
    "Compaction",
    "CompactionMetrics",
    "CompactionPlan",
    "CompactionTask",
    "Compactions",
    "DatasetOptimizer",
    "RewriteResult",
    "Rewrites",
    "Written",
    "compacted",
]


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CompactionMetrics:
    """What a compaction did.

    Attributes
    ----------
    fragments_removed : int
        Fragments that were rewritten.
    fragments_added : int
        New fragments.
    files_removed : int
        Data and deletion files that the new version does not use any more.
    files_added : int
        New data files, one per new fragment.

    Examples
    --------
    >>> CompactionMetrics(2, 1, 3, 1) + CompactionMetrics(1, 1, 1, 1)
    CompactionMetrics(fragments_removed=3, fragments_added=2, files_removed=4, files_added=2)
    """

    fragments_removed: int = 0
    fragments_added: int = 0
    files_removed: int = 0
    files_added: int = 0

    @classmethod
    def between(cls, old: Sequence[Fragment], new: Sequence[Fragment]) -> CompactionMetrics:
        """The metrics of replacing some fragments by others.

        Parameters
        ----------
        old, new : sequence of Fragment
        """
        removed = sum(len(part.files) + (part.deletion_file is not None) for part in old)
        return cls(len(old), len(new), removed, sum(len(part.files) for part in new))

    def __add__(self, other: CompactionMetrics) -> CompactionMetrics:
        return CompactionMetrics(
            self.fragments_removed + other.fragments_removed,
            self.fragments_added + other.fragments_added,
            self.files_removed + other.files_removed,
            self.files_added + other.files_added,
        )


@dataclass(frozen=True, slots=True)
class RewriteResult:
    """The result of a task, to be committed; pickles, and goes through JSON.

    Attributes
    ----------
    read_version : int
        Version of the table whose rows were rewritten.
    original_fragments : tuple of FragmentMetadata
        The rewritten fragments, as they were in that version.
    new_fragments : tuple of FragmentMetadata
        Their rows that were alive, in order; ids are given by the commit.
    """

    read_version: int
    original_fragments: tuple[FragmentMetadata, ...]
    new_fragments: tuple[FragmentMetadata, ...]

    @property
    def metrics(self) -> CompactionMetrics:
        """What the task did."""
        return CompactionMetrics.between(self.original_fragments, self.new_fragments)

    def json(self) -> str:
        """The result as JSON text."""
        return json.dumps(
            {
                "metrics": {name: getattr(self.metrics, name) for name in CompactionMetrics.__slots__},
                "new_fragments": _fragments_to_json(self.new_fragments),
                "read_version": self.read_version,
                "original_fragments": _fragments_to_json(self.original_fragments),
            }
        )

    @staticmethod
    def from_json(json: str) -> RewriteResult:
        """The result in the text of :meth:`json`.

        Parameters
        ----------
        json : str

        Raises
        ------
        ValueError
            Not such text.
        """
        return _parsed(json, "the result of a compaction task", _result_from_json)


@dataclass(frozen=True, slots=True)
class CompactionTask:
    """Neighbouring fragments to be rewritten together; pickles, and goes through JSON.

    Attributes
    ----------
    fragments : tuple of FragmentMetadata
    read_version : int
        Version of the table that was planned.
    settings : CompactionSettings
    number : int
        Number of the task in its plan; each begins with the next of ``target_bases``.
    """

    fragments: tuple[FragmentMetadata, ...]
    read_version: int
    settings: CompactionSettings = field(default_factory=CompactionSettings, repr=False)
    number: int = 0

    def execute(self, dataset: Change, *, progress: WriteCallback | None = None) -> RewriteResult:
        """Write the new data files. They belong to no version until :meth:`Compaction.commit`.

        Parameters
        ----------
        dataset : Dataset
            The table, at any version.
        progress : function of a :class:`lancecy.progress.Step`, optional

        Raises
        ------
        NotFoundError
            The planned version, or one of the fragments, does not exist.
        ValueError
            The task was planned for another table.
        LanceError
            Rows cannot be read or written; no file is left behind.
        """
        context = _context_at(dataset, self.read_version)
        return self.rewritten(context, progress)[1]

    def rewritten(
        self,
        context: ScanContext,
        progress: WriteCallback | None = None,
        durable: bool = True,
        tag: str = "",
    ) -> tuple[NewFiles, RewriteResult]:
        """:meth:`execute` with the new files, so that they can be removed.

        Parameters
        ----------
        context : ScanContext
            The version that was planned.
        progress : function of a Step, or FragmentWriteProgress, optional
        durable : bool
            Whether files are synced to disk.
        tag : str
            Hexadecimal digits at the end of all file names.
        """
        found = [context.metadata(part.id) for part in self.fragments]
        # Manifests of the first releases do not state the rows, so the data files tell them.
        old = tuple(
            FragmentMetadata.of(replace(part, physical_rows=context.physical_rows(part))) for part in found
        )
        for planned, stored in zip(self.fragments, old, strict=True):
            if planned.files != stored.files:
                raise ValueError(
                    f"fragment {planned.id} of version {self.read_version} of {context.snapshot.uri} has other files "
                    "than the task says: it was planned for another table"
                )
        rewriter = Rewriter(context, self.settings, progress, durable, tag)
        files, made = rewriter.rewrite(old, self.number)
        return files, RewriteResult(self.read_version, old, made)

    def json(self) -> str:
        """The task as JSON text."""
        return json.dumps(
            {
                "task": {"fragments": _fragments_to_json(self.fragments), "number": self.number},
                "read_version": self.read_version,
                "options": self.settings.to_json(),
            }
        )

    @staticmethod
    def from_json(json: str) -> CompactionTask:
        """The task in the text of :meth:`json`.

        Parameters
        ----------
        json : str

        Raises
        ------
        ValueError
            Not such text.
        """
        return _parsed(json, "a compaction task", _task_from_json)


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """The tasks of a compaction; pickles, and goes through JSON.

    Attributes
    ----------
    tasks : tuple of CompactionTask
    read_version : int
        Version of the table that was planned.
    """

    tasks: tuple[CompactionTask, ...]
    read_version: int

    def num_tasks(self) -> int:
        """Number of tasks."""
        return len(self.tasks)

    def json(self) -> str:
        """The plan as JSON text."""
        settings = self.tasks[0].settings if self.tasks else CompactionSettings()
        return json.dumps(
            {
                "tasks": [{"fragments": _fragments_to_json(task.fragments)} for task in self.tasks],
                "read_version": self.read_version,
                "options": settings.to_json(),
            }
        )

    @staticmethod
    def from_json(json: str) -> CompactionPlan:
        """The plan in the text of :meth:`json`.

        Parameters
        ----------
        json : str

        Raises
        ------
        ValueError
            Not such text.
        """
        return _parsed(json, "a compaction plan", _plan_from_json)


class Compaction:
    """A compaction in steps, for many workers; ``ds.optimize.compact_files()`` does all of them.

    Examples
    --------
    >>> import lancecy
    >>> ds = lancecy.dataset("example.lance")
    >>> plan = Compaction.plan(ds, {"target_rows_per_fragment": 500})
    >>> results = [task.execute(ds) for task in plan.tasks]
    >>> Compaction.commit(ds, results)
    CompactionMetrics(fragments_removed=4, fragments_added=2, files_removed=4, files_added=2)
    """

    @staticmethod
    def plan(dataset: Change, options: CompactionOptions | None = None) -> CompactionPlan:
        """Plan a compaction of the version that is open.

        Parameters
        ----------
        dataset : Dataset
        options : CompactionOptions, optional
            As for :meth:`DatasetOptimizer.compact_files`.

        Raises
        ------
        ValueError, TypeError, UnsupportedError
            An option is unknown or invalid.
        LanceError
            The metadata of the table cannot be read.
        """
        return _planned(dataset.context, options)

    @staticmethod
    def execute(dataset: Compactions, options: CompactionOptions | None = None) -> CompactionMetrics:
        """Plan, run and commit a compaction; see :meth:`DatasetOptimizer.compact_files`.

        Parameters
        ----------
        dataset : Dataset
            Moves to the version that is made.
        options : CompactionOptions, optional
        """
        metrics: CompactionMetrics = DatasetOptimizer(dataset).compact_files(**(options or {}))
        return metrics

    @staticmethod
    def commit(
        dataset: Change, rewrites: Iterable[RewriteResult], options: CompactionOptions | None = None
    ) -> CompactionMetrics:
        """Commit results of tasks of one plan, all or some of them.

        Rows that others deleted or updated since the plan are deleted in the new fragments too.

        Parameters
        ----------
        dataset : Dataset
            The table, at any version; moves to the version that is made.
        rewrites : iterable of RewriteResult
            Of tasks that ran twice, the first result counts.
        options : CompactionOptions, optional
            Accepted as in pylance; none applies to a commit.

        Returns
        -------
        CompactionMetrics
            Zeros, and no version, without results.

        Raises
        ------
        RetryableConflictError
            A fragment was rewritten, removed or got other values since the plan: plan again.
        ValueError
            Results of different plans.
        CommitError
            See :func:`lancecy.commit`.
        """
        CompactionSettings.of(options)
        results = _once_each(rewrites)
        if results:
            version = results[0].read_version
            _commit(dataset, results, _snapshot_at(dataset, version), CommitRequest())
            _remake_indices(dataset, results, CommitRequest())
        return _metrics(results)


class _CompactFilesOptions(CompactionRunOptions, total=False):
    """Options of :meth:`DatasetOptimizer.compact_files`."""

    progress: WriteCallback | None


class DatasetOptimizer(IndexOptimizer):
    """Maintenance of a table that changes none of its rows: ``ds.optimize``.

    Parameters
    ----------
    dataset : Dataset
    """

    def __init__(self, dataset: Compactions) -> None:
        super().__init__(dataset)
        self._dataset = dataset

    def __repr__(self) -> str:
        found = self._dataset.context.snapshot
        place = printable(found.uri)
        return f"DatasetOptimizer({place!r}, version={found.version}, fragments={len(found.fragments)})"

    @shared_options(_CompactFilesOptions, {**RUN_DEFAULTS, "progress": None})
    def compact_files(self, **options: Unpack[_CompactFilesOptions]) -> CompactionMetrics:
        """Merge small neighbouring fragments, and remove deleted rows from the files. Row order stays.

        Options that are not given come from the configuration of the table, ``lance.compaction.<option>``.

        Parameters
        ----------
        target_rows_per_fragment : int, optional
            Fragments with fewer rows are merged with neighbours that have fewer too (1,048,576).
        max_rows_per_group : int, optional
            Rows of a batch in 0.1 files (1,024).
        max_bytes_per_file : int, optional
            Size of a new data file, roughly (90 GiB).
        materialize_deletions : bool, optional
            Rewrite fragments with many deleted rows also without a neighbour (True).
        materialize_deletions_threshold : float, optional
            Such a fragment has a larger share of deleted rows than this (0.1).
        defer_index_remap : bool, optional
            Not supported if True: indices are not rewritten, and stay valid.
        num_threads : int, optional
            Groups that are rewritten side by side (1); each uses the threads of the session.
        batch_size : int, optional
            Maximum rows that are passed on at once.
        io_buffer_size : int, optional
            Byte budget for reading (256 MiB).
        compaction_mode : "reencode", "try_binary_copy" or "force_binary_copy", optional
            Encode all values anew; copy pages where possible; or fail where pages cannot be copied. By default pages
            are copied unless they are small.
        binary_copy_read_batch_bytes : int, optional
            Bytes of pages that are read at once to be copied (16 MiB).
        max_source_fragments, max_source_rows, max_source_bytes : int, optional
            Stop before the group that would exceed the limit, and leave the rest to the next compaction.
        excluded_fragment_ids : sequence of int, optional
            Fragments that stay as they are.
        data_storage_version : str, optional
            Version of the new data files; that of the table by default.
        target_bases : sequence of str, optional
            Names or paths of bases that new files go to in turn; the table's own folder by default.
        progress : function of a :class:`lancecy.progress.Step`, optional
            Called with the rows written so far.
        durability : "fsync" or "none"
            Whether files are synced to disk before the commit.
        commit_message : str, optional
            Recorded with the version.
        transaction_properties : mapping of str to str, optional
            Recorded with the version.
        conflict_retries : int
            Maximum number of further attempts after another writer changed the same fragments.
        retry_timeout : timedelta
            After this no new attempt is made.

        Returns
        -------
        CompactionMetrics
            Zeros, and no version, if there is nothing to do.

        Raises
        ------
        RetryableConflictError
            Every attempt lost to another writer.
        ValueError, TypeError, UnsupportedError
            An option is invalid; or pages must be copied and cannot be.
        LanceError
            Rows cannot be read or written; the table is as before, and no file is left behind.

        Examples
        --------
        >>> import lancecy
        >>> lancecy.dataset("example.lance").optimize.compact_files().fragments_added
        1
        """
        request = RunRequest.of(options)
        progress = options.get("progress")
        return compacted(
            self._dataset, request, partial(_rewritten_here, self._dataset, request.commit.durable, progress)
        )

    @checked_arguments()
    def enable_auto_cleanup(self, auto_cleanup_config: Mapping[str, int]) -> None:
        """Clean up automatically after commits from now on.

        Parameters
        ----------
        auto_cleanup_config : mapping
            As ``auto_cleanup_options`` of :func:`lancecy.write_dataset`: ``interval``, the number of versions between
            two cleanups (20), and ``older_than_seconds``, the minimum age of a version that is removed (two weeks).

        Raises
        ------
        ValueError, TypeError
            An option is unknown, negative or no integer.
        CommitError
            See :func:`lancecy.commit`.

        Examples
        --------
        >>> import lancecy
        >>> ds = lancecy.write_dataset({"n": [1]}, "memory://tidy")
        >>> ds.optimize.enable_auto_cleanup({"interval": 10, "older_than_seconds": 3600})
        >>> ds.config["lance.auto_cleanup.older_than"]
        '3600s'
        """
        self._dataset._change(UpdateConfig(MapUpdate(cleanup_config(auto_cleanup_config))))

    def disable_auto_cleanup(self) -> None:
        """Clean up no more after commits.

        Raises
        ------
        CommitError
            See :func:`lancecy.commit`.
        """
        self._dataset._change(UpdateConfig(MapUpdate(dict.fromkeys((INTERVAL, OLDER_THAN)))))


class Compactions(Indices):
    """The dataset attribute for maintenance."""

    @property
    def optimize(self) -> DatasetOptimizer:
        """Maintenance of the files: ``ds.optimize.compact_files()``."""
        return DatasetOptimizer(self)


Written: TypeAlias = "tuple[Callable[[], object], RewriteResult]"
"""A function that removes the files of a result, and the result."""

Rewrites: TypeAlias = Callable[["CompactionPlan", "list[Written]"], "Callable[[], object] | None"]
"""Runs the tasks of a plan, and appends what each has written; may return a function to be called in the end."""


def compacted(dataset: Change, request: RunRequest, rewrite: Rewrites) -> CompactionMetrics:
    """Plan, run and commit a compaction. After a conflict, commit the groups that no other change touched.

    Parameters
    ----------
    dataset : Change
        Moves to the version that is made.
    request : RunRequest
    rewrite : function of a plan and a list
        See ``Rewrites``.

    Raises
    ------
    LanceError, ValueError, TypeError
        See :meth:`DatasetOptimizer.compact_files`; the files are removed.
    """
    attempts = _Attempts(dataset, request.options, request.commit, rewrite)
    try:
        return dataset._retried(attempts.run, request.conflict_retries, request.retry_timeout)
    except CommitUnknownError:
        raise
    except BaseException:
        attempts.clear()
        raise
    finally:
        attempts.end()


class _Attempts:
    """The attempts of one compaction, and the files that are written but not committed.

    Parameters
    ----------
    dataset : Change
    options : mapping
        Keys of ``CompactionOptions``.
    commit : CommitRequest
    rewrite : function of a plan and a list
    """

    def __init__(
        self, dataset: Change, options: Mapping[str, Any], commit: CommitRequest, rewrite: Rewrites
    ) -> None:
        self._dataset, self._options = dataset, options
        self._commit, self._rewrite = commit, rewrite
        self._origin = dataset._snapshot
        self._written: list[Written] = []
        self._endings: list[Callable[[], object]] = []

    def run(self) -> CompactionMetrics:
        """Rewrite and commit, or commit those groups of the attempt before that are still valid."""
        self._dataset._check_writable()
        self._keep_valid()
        if not self._written:
            self._origin = self._dataset._snapshot
            ending = self._rewrite(_planned(self._dataset.context, self._options), self._written)
            self._endings += [] if ending is None else [ending]
        results = [result for _, result in self._written]
        if results:
            _commit(self._dataset, results, self._origin, self._commit)
            self._written = []
            _remake_indices(self._dataset, results, CommitRequest(durable=self._commit.durable))
        self._written = []
        return _metrics(results)

    def _keep_valid(self) -> None:
        """Drop groups whose fragments have changed; all of them if none has, because another attempt would fail too."""
        now = {part.id: part.files for part in self._dataset._snapshot.fragments}
        kept: list[Written] = []
        dropped: list[Written] = []
        for remove, result in self._written:
            is_valid = all(now.get(part.id) == part.files for part in result.original_fragments)
            (kept if is_valid else dropped).append((remove, result))
        if kept and not dropped:
            kept, dropped = [], kept
        self._written = kept
        for remove, _ in dropped:
            remove()

    def clear(self) -> None:
        """Remove all files that are written but not committed."""
        for remove, _ in self._written:
            remove()
        self._written = []

    def end(self) -> None:
        """Call what the runs of tasks returned for the end."""
        for ending in self._endings:
            ending()


def _rewritten_here(
    dataset: Change,
    durable: bool,
    progress: WriteCallback | None,
    plan: CompactionPlan,
    written: list[Written],
) -> None:
    """Run tasks in this process."""
    context, lock = dataset.context, Lock()
    rows = sum(context.live_rows(part) for task in plan.tasks for part in task.fragments)
    report = _Together(progress, rows)

    def rewrite(task: CompactionTask) -> None:
        files, result = task.rewritten(context, report.part(task.number), durable)
        with lock:
            written.append((files.remove, result))

    side_by_side = plan.tasks[0].settings.num_threads if plan.tasks else 1
    if min(side_by_side, len(plan.tasks)) < 2:
        for task in plan.tasks:
            rewrite(task)
        return
    with ThreadPoolExecutor(side_by_side, thread_name_prefix="lancecy-compact") as pool:
        rewrites = [submit(pool, rewrite, task) for task in plan.tasks]
        try:
            for rewritten in rewrites:
                rewritten.result()
        finally:
            for rewritten in rewrites:
                rewritten.cancel()


class _Together:
    """One progress of several groups.

    Parameters
    ----------
    callback : function of a Step, or FragmentWriteProgress, optional
    total : int
        Rows of all groups.
    """

    def __init__(self, callback: WriteCallback | None, total: int) -> None:
        self._callback, self._total = callback, total
        self._done: dict[int, int] = {}
        self._lock = Lock()

    def part(self, number: int) -> WriteCallback | None:
        """The callback of one group."""
        callback = self._callback
        if callback is None or not callable(callback):
            return callback

        def told(step: Step) -> None:
            with self._lock:
                self._done[number] = step.done
                callback(Step("compact", sum(self._done.values()), self._total, step.unit))

        return told


# -- shared by the steps


def _planned(context: ScanContext, options: Mapping[str, Any] | None) -> CompactionPlan:
    snapshot = context.snapshot
    settings = CompactionSettings.of(options, snapshot.manifest.config)
    groups = planned_groups(context, settings)
    tasks = (
        CompactionTask(tuple(map(FragmentMetadata.of, group)), snapshot.version, settings, number)
        for number, group in enumerate(groups)
    )
    return CompactionPlan(tuple(tasks), snapshot.version)


def _snapshot_at(dataset: Change, version: int) -> Snapshot | None:
    """The table at a version; None if the version was removed."""
    here = dataset._snapshot
    if here.version == version:
        return here
    try:
        return load_snapshot(here.location, version, session=here.session)
    except NotFoundError:
        return None


def _context_at(dataset: Change, version: int) -> ScanContext:
    if dataset._snapshot.version == version:
        return dataset.context
    here = dataset._snapshot
    return ScanContext(load_snapshot(here.location, version, session=here.session), here.session)


def _commit(
    dataset: Change, results: Sequence[RewriteResult], origin: Snapshot | None, options: CommitRequest
) -> None:
    """Commit results, as a change made from the version that was planned."""
    if origin is None:
        raise VersionNotFoundError(
            f"version {results[0].read_version}, which the compaction was planned from, was removed: plan again",
            name=str(results[0].read_version),
        )
    # Ids are given in this order, and rows are in the order of the ids: workers end in another one.
    ordered = sorted(results, key=lambda result: [part.id for part in result.original_fragments])
    groups = tuple(RewriteGroup(result.original_fragments, result.new_fragments) for result in ordered)
    dataset._change(Rewrite(groups), origin, options)


def _remake_indices(dataset: Change, results: Iterable[RewriteResult], options: CommitRequest) -> None:
    """Make the indices again that named moved rows by their addresses; a further version has them.

    The compaction is committed by then. So what goes wrong is only a warning: these indices cover fewer rows.
    """
    snapshot = dataset._snapshot
    ids = {file.path: part.id for part in snapshot.fragments for file in part.files}
    moved = [
        (
            result.original_fragments,
            [ids[part.files[0].path] for part in result.new_fragments if part.files[0].path in ids],
        )
        for result in results
    ]
    groups = [(frozenset(part.id for part in old), frozenset(new)) for old, new in moved]
    try:
        ngrams = moved_ngrams(dataset.context, moved, options.durable)
        rebuild(dataset, after_move(snapshot, groups), options, moved=ngrams)
    except LanceError as error:
        warnings.warn(
            f"indices do not cover the compacted rows until ds.optimize.optimize_indices() is called: {error}",
            RuntimeWarning,
            stacklevel=2,
        )


def _once_each(rewrites: Iterable[RewriteResult]) -> list[RewriteResult]:
    """The results without those of tasks that ran twice."""
    found: dict[tuple[int, ...], RewriteResult] = {}
    for result in rewrites:
        found.setdefault(tuple(part.id for part in result.original_fragments), result)
    versions = sorted({result.read_version for result in found.values()})
    if len(versions) > 1:
        raise ValueError(
            f"the results are of plans of versions {versions[0]} and {versions[-1]}: commit those of each plan by themselves"
        )
    ids = [number for group in found for number in group]
    if len(set(ids)) < len(ids):
        raise ValueError("a fragment is in several results: commit the results of one plan")
    return list(found.values())


def _metrics(results: Iterable[RewriteResult]) -> CompactionMetrics:
    return sum((result.metrics for result in results), CompactionMetrics())


# -- JSON


def _fragments_to_json(fragments: Iterable[FragmentMetadata]) -> list[dict[str, Any]]:
    return [part.to_json() for part in fragments]


def _fragments_from_json(data: Iterable[Mapping[str, Any]]) -> tuple[FragmentMetadata, ...]:
    return tuple(FragmentMetadata.from_json(part) for part in data)


def _parsed(text: str, what: str, parse: Callable[[Any], T]) -> T:
    try:
        return parse(json.loads(text))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"this is not {what}: {error!r}") from error


def _result_from_json(data: Mapping[str, Any]) -> RewriteResult:
    old, new = data["original_fragments"], data["new_fragments"]
    return RewriteResult(data["read_version"], _fragments_from_json(old), _fragments_from_json(new))


def _task_from_json(data: Mapping[str, Any]) -> CompactionTask:
    task = data["task"]
    settings = CompactionSettings.from_json(data["options"])
    return CompactionTask(
        _fragments_from_json(task["fragments"]), data["read_version"], settings, task.get("number", 0)
    )


def _plan_from_json(data: Mapping[str, Any]) -> CompactionPlan:
    version, settings = data["read_version"], CompactionSettings.from_json(data["options"])
    tasks = (
        CompactionTask(_fragments_from_json(task["fragments"]), version, settings, number)
        for number, task in enumerate(data["tasks"])
    )
    return CompactionPlan(tuple(tasks), version)
