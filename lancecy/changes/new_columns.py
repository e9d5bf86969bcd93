"""Writes columns of fragments that exist already: one data file for each fragment, then one commit.

A change that loses to another writer keeps the files of fragments that the other did not touch, and computes the
values of new and changed fragments only.

Facts: table sheet, sections 3.2, 4.4 and 8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace
from datetime import timedelta
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from lancecy.changes.base import Change
from lancecy.changes.column_values import Batches, InOrder, InThreads
from lancecy.changes.given_blobs import GivenBlobs
from lancecy.changes.legacy import dictionaries_after, with_dictionaries
from lancecy.changes.options import CommitRequest, with_durability
from lancecy.errors import CommitUnknownError, LanceError, MissingFileError, SchemaError, UnsupportedError
from lancecy.file.create import check_writable
from lancecy.file.dictionaries import Dictionaries
from lancecy.progress import Progress, Step
from lancecy.records import dataclass
from lancecy.scanning.context import ScanContext
from lancecy.schema import Schema
from lancecy.store.base import Store
from lancecy.table.bases import Bases
from lancecy.table.field_ids import next_field_id
from lancecy.table.manifest import DataFile, Fragment
from lancecy.table.operations import Merge
from lancecy.table.operations.new_fragments import version_of
from lancecy.table.paths import DATA
from lancecy.table.snapshot import Snapshot
from lancecy.write.column_files import ColumnFiles, without_fields
from lancecy.write.metadata import FragmentMetadata
from lancecy.write.physical_rows import physical_batches
from lancecy.write.schema_edits import renumbered
from lancecy.write.schemas import arranged, check_nulls, strict_paths, with_blobs

__all__ = [
    "ColumnChange",
    "ColumnPlan",
    "FilledColumns",
    "Filler",
    "Keeper",
    "Retries",
    "batch_starts",
    "data_folder",
    "data_version",
    "fill",
    "new_files",
    "stored_columns",
    "with_file",
]

_DEFAULT_VERSION = "2.1"
_AT_ONCE = 4
"""Fragments per thread between two reports of progress."""


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """New columns of one version of a table.

    Attributes
    ----------
    schema : Schema
        Schema of the table after the change.
    written : Schema
        Columns of the new data files, with their ids.
    values : InThreads or InOrder
    is_strict : bool
        Whether a field that may be null now may not afterwards.
    """

    schema: Schema
    written: Schema
    values: InThreads | InOrder
    is_strict: bool = False


Planner: TypeAlias = Callable[[ScanContext, int], ColumnPlan]
"""Plans new columns for a version of the table, with ids from a number on."""


@dataclass(frozen=True, slots=True)
class Retries:
    """Options of a change that is tried again after a conflict.

    Attributes
    ----------
    count : int
    timeout : timedelta
    durable : bool
        Whether written files are synced to disk before the change returns.
    progress : function of a Step, or None
    """

    count: int
    timeout: timedelta
    durable: bool = True
    progress: Progress | None = None


def data_version(snapshot: Snapshot) -> str:
    """The version of new data files of a table.

    Parameters
    ----------
    snapshot : Snapshot
    """
    stated = snapshot.manifest.data_version
    if stated:
        return stated
    files = [file for fragment in snapshot.fragments for file in fragment.files]
    return max(map(version_of, files), default=_DEFAULT_VERSION)


def stored_columns(snapshot: Snapshot, columns: pa.Schema) -> pa.Schema:
    """New columns in the form in which data files of a table hold them.

    Parameters
    ----------
    snapshot : Snapshot
    columns : pyarrow.Schema
    """
    return with_blobs(columns) if data_version(snapshot) >= "2.2" else columns


def new_files(snapshot: Snapshot, durable: bool = True, tag: str = "") -> ColumnFiles:
    """The data files of a change, in the table's own folder.

    Parameters
    ----------
    snapshot : Snapshot
    durable : bool
    tag : str
        Hexadecimal digits that all file names end in.
    """
    bases = _bases(snapshot)
    store, folder = bases.folder(None, DATA)
    place = GivenBlobs(bases, snapshot.session, anywhere=False, ingest=False).place
    return ColumnFiles(with_durability(store, durable), folder, data_version(snapshot), tag, place)


def data_folder(snapshot: Snapshot) -> tuple[Store, str]:
    """Store of the table's own folder, and the prefix of data files there.

    Parameters
    ----------
    snapshot : Snapshot
    """
    return _bases(snapshot).folder(None, DATA)


def _bases(snapshot: Snapshot) -> Bases:
    location, session = snapshot.location, snapshot.session
    return Bases(location.open(session), location, snapshot.manifest.bases, session)


# -- one file per fragment ------------------------------------------------------------------------


class Keeper(Protocol):
    """Keeps what a change has written beyond the end of this process."""

    def keep(self, fragment: Fragment, written: Schema, file: DataFile) -> None:
        """The file of a fragment is written.

        Parameters
        ----------
        fragment : Fragment
        written : Schema
        file : DataFile
        """


class Filler(Protocol):
    """Writes the new columns of fragments elsewhere, as :func:`fill` does here."""

    def __call__(
        self, context: ScanContext, plan: ColumnPlan, first_id: int, fragments: Sequence[Fragment]
    ) -> Iterable[tuple[Fragment, DataFile]]:
        """Each fragment with its data file.

        Parameters
        ----------
        context : ScanContext
        plan : ColumnPlan
        first_id : int
            What the plan was made with.
        fragments : sequence of Fragment
        """


def fill(
    context: ScanContext,
    plan: ColumnPlan,
    fragments: Sequence[Fragment],
    files: ColumnFiles,
    progress: Progress | None = None,
    dictionaries: Dictionaries | None = None,
    keeper: Keeper | None = None,
) -> Iterator[tuple[Fragment, DataFile]]:
    """Write the new columns of fragments; yields each with its data file.

    Parameters
    ----------
    context : ScanContext
    plan : ColumnPlan
    fragments : sequence of Fragment
    files : ColumnFiles
    progress : function of a Step, optional
        Called from this thread.
    dictionaries : Dictionaries, optional
        Dictionaries of a 0.1 table; then one thread writes.
    keeper : Keeper, optional

    Raises
    ------
    SchemaError
        The values do not fit the columns or the rows.
    LanceError
        Columns cannot be read, or files cannot be written.
    """
    writing = _Writing(context, plan, files, dictionaries, context.row_starts().tolist())
    values, report = plan.values, _Report(progress, sum(map(context.live_rows, fragments)))
    if isinstance(values, InOrder):
        for fragment, batches in values.in_order(context, fragments):
            file = writing.file_of(fragment, report.counted(batches))
            if keeper is not None:
                keeper.keep(fragment, plan.written, file)
            yield fragment, file
        return
    found = values.of_fragments(context, fragments)
    most = max(1, len(fragments) if progress is None else _AT_ONCE * context.session.threads)
    for start in range(0, len(fragments), most):
        some = fragments[start : start + most]
        for fragment, file in zip(some, writing.files_of(some, found), strict=True):
            report.add(context.live_rows(fragment))
            yield fragment, file


class _Report:
    """Tells a callback how many rows have their new values."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0

    def add(self, rows: int) -> None:
        self._done += rows
        if self._progress is not None:
            self._progress(Step("columns", self._done, self._total, "rows"))

    def counted(self, batches: Batches) -> Batches:
        for batch in batches:
            yield batch
            self.add(batch.num_rows)


@dataclass(frozen=True, slots=True)
class _Writing:
    """The rows of a version, and the files to write for them."""

    context: ScanContext
    plan: ColumnPlan
    files: ColumnFiles
    dictionaries: Dictionaries | None
    row_starts: Sequence[int]

    def files_of(
        self, fragments: Sequence[Fragment], values: Callable[[Fragment], Batches]
    ) -> list[DataFile]:
        """The data files of some fragments, written side by side."""

        def one(fragment: Fragment) -> DataFile:
            return self.file_of(fragment, values(fragment))

        if self.dictionaries is not None:
            # All files share the dictionaries, which two files must not add to at once.
            return [one(fragment) for fragment in fragments]
        return self.context.spread(one, fragments, lambda fragment: fragment.id)

    def file_of(self, fragment: Fragment, batches: Batches) -> DataFile:
        """The data file of a fragment, from the values of its live rows."""
        context, written, version = self.context, self.plan.written, self.files.version
        num_rows, checked = context.physical_rows(fragment), self._checked(fragment, batches)
        if fragment.deletion_file is not None:
            physical = context.files(fragment.id).physical
            checked = physical_batches(checked, physical, num_rows, written, version)
        starts = batch_starts(context, fragment) if version == "0.1" else None
        return self.files.write(written, checked, self.dictionaries, starts)

    def _checked(self, fragment: Fragment, batches: Batches) -> Batches:
        """The values in the form of the file; refuses nulls and missing rows."""
        live, strict = self.context.live_rows(fragment), strict_paths(self.plan.written)
        row = first = self.row_starts[[f.id for f in self.context.fragments].index(fragment.id)]
        for batch in batches:
            check_nulls(batch, strict, row)
            row += batch.num_rows
            yield arranged(batch, self.plan.written)
        if row - first != live:
            raise SchemaError(
                f"there are {row - first} values for the {live} rows of fragment {fragment.id}",
                difference="rows",
            )


def batch_starts(context: ScanContext, fragment: Fragment) -> list[int] | None:
    """First rows of the batches in the 0.1 files of a fragment, then the number of rows; None without such files.

    Parameters
    ----------
    context : ScanContext
    fragment : Fragment
    """
    for part in context.files(fragment.id).parts:
        for top in context.snapshot.schema.fields:
            held = part.held(top)
            if held is not None:
                found: list[int] = part.reader.page_starts(held).tolist()
                return found
    return None


# -- files that outlive a conflict ----------------------------------------------------------------


def _inputs(fragment: Fragment, reads: frozenset[int]) -> frozenset[tuple[int, str]]:
    """What the values of a fragment are computed from: field ids, each with the file that holds it."""
    return frozenset(
        (number, file.path) for file in fragment.files for number in file.fields if number in reads
    )


@dataclass(slots=True)
class FilledColumns:
    """Files of new columns by fragment, written so far.

    Attributes
    ----------
    first_id : int
        The first new field id that the files were written with.
    written : Schema or None
        Columns of the files.
    reads : frozenset of int
        Ids of the fields that the values were computed from.
    files : dict of fragment id to (Fragment, DataFile)
    """

    first_id: int = -1
    written: Schema | None = None
    reads: frozenset[int] = frozenset()
    files: dict[int, tuple[Fragment, DataFile]] = field(default_factory=dict)

    def ids_from(self, free: int) -> int:
        """The first id to use, given the first free one: the same as before if it is still free."""
        return max(self.first_id, free)

    def take_over(self, plan: ColumnPlan, first_id: int) -> None:
        """Keep the files that are right for another plan, with the ids of its columns.

        Parameters
        ----------
        plan : ColumnPlan
        first_id : int
        """
        before, self.written = self.written, plan.written
        is_same = before is None or before.fields == plan.written.fields
        if plan.values.reads != self.reads or not (is_same or _is_alike(before, plan.written)):
            self.files.clear()
        elif before is not None and not is_same:
            ids = renumbered(before.fields, plan.written.fields)
            self.files = {
                number: (fragment, _renumbered(file, ids))
                for number, (fragment, file) in self.files.items()
                # Files of 0.1 find their pages by the ids they were written with.
                if not file.is_legacy
            }
        self.first_id, self.reads = first_id, plan.values.reads

    def missing(self, context: ScanContext) -> list[Fragment]:
        """The fragments without a file, or with one that is not right any more.

        Parameters
        ----------
        context : ScanContext
        """
        for fragment in context.fragments:
            held = self.files.get(fragment.id)
            if held is not None and not self._is_right(context.snapshot, held[0], fragment):
                del self.files[fragment.id]
        return [fragment for fragment in context.fragments if fragment.id not in self.files]

    def _is_right(self, snapshot: Snapshot, before: Fragment, now: Fragment) -> bool:
        is_same = before.physical_rows == now.physical_rows
        has_inputs = is_same and _inputs(before, self.reads) == _inputs(now, self.reads)
        return has_inputs and _has_no_more_rows(snapshot, before, now)


def _has_no_more_rows(snapshot: Snapshot, before: Fragment, now: Fragment) -> bool:
    """Whether all live rows of a fragment were live before, so that a file that was written then has their values.

    Rows that others deleted since have values too. A restored version brings deleted rows back.
    """
    if before.deletion_file is None or before.deletion_file == now.deletion_file:
        return True
    try:
        gone, deleted = snapshot.deletions(before), snapshot.deletions(now)
    except MissingFileError:  # cleaned up meanwhile
        return False
    if gone is None or deleted is None:
        return gone is None
    return bool(np.isin(gone.offsets, deleted.offsets, assume_unique=True).all())


def _is_alike(before: Schema | None, after: Schema) -> bool:
    """Whether columns differ in ids and names only."""
    nodes = [
        [
            (node.logical_type, node.nullable, len(node.children))
            for top in schema.fields
            for node in top.walk()
        ]
        for schema in (before or Schema(), after)
    ]
    return nodes[0] == nodes[1]


def _renumbered(file: DataFile, ids: dict[int, int]) -> DataFile:
    return replace(file, fields=tuple(ids.get(number, number) for number in file.fields))


# -- the change -----------------------------------------------------------------------------------


class ColumnChange(Change):
    """Base class of changes that write new columns."""

    def _write_columns(
        self,
        planner: Planner,
        retries: Retries,
        done: FilledColumns | None = None,
        keeper: Keeper | None = None,
        filler: Filler | None = None,
    ) -> None:
        """Write new columns of all fragments and commit them.

        Parameters
        ----------
        planner : function of (ScanContext, int)
            Called once per attempt.
        retries : Retries
        done : FilledColumns, optional
            Files of an earlier, interrupted change. Its commit may have succeeded, so none of them is removed; a cleanup
            removes those that no version names.
        keeper : Keeper, optional
            Told of each file; the files it was told of stay after an error.
        filler : Filler, optional
            Writes the files; by default the threads of this process do.

        Raises
        ------
        LanceError
            Nothing is committed, and no file is left behind but those kept.
        """
        files = new_files(self._snapshot, retries.durable)
        done = done or FilledColumns()
        try:
            used = self._retried(
                lambda: self._attempt(planner, files, done, retries, keeper, filler),
                retries.count,
                retries.timeout,
            )
        except CommitUnknownError:
            raise
        except LanceError as error:
            left = files.remove(_paths(done) if keeper is not None else ())
            raise error.within(left) if left else error
        files.remove(used)

    def _attempt(
        self,
        planner: Planner,
        files: ColumnFiles,
        done: FilledColumns,
        retries: Retries,
        keeper: Keeper | None,
        filler: Filler | None,
    ) -> set[str]:
        """One attempt: files for what has none yet, and the commit; returns the names of the files."""
        self._check_writable()
        context: ScanContext = self.context
        try:
            operation = self._filled(context, planner, files, done, retries.progress, keeper, filler)
        except LanceError:
            raise
        except BaseException:
            # An error of the user's function or an interrupt: nothing was committed.
            files.remove(_paths(done) if keeper is not None else ())
            raise
        if operation.schema.fields != context.snapshot.schema.fields:
            self._change(operation, options=CommitRequest(durable=retries.durable))
        return _paths(done)

    def _filled(
        self,
        context: ScanContext,
        planner: Planner,
        files: ColumnFiles,
        done: FilledColumns,
        progress: Progress | None,
        keeper: Keeper | None,
        filler: Filler | None,
    ) -> Merge:
        snapshot = context.snapshot
        first_id = done.ids_from(next_field_id(snapshot.manifest, snapshot.indices()))
        plan = planner(context, first_id)
        if plan.written.fields:
            check_writable(plan.written, files.version)
        done.take_over(plan, first_id)
        book = dictionaries_after(snapshot, plan.schema, plan.written, files.version)
        missing = done.missing(context) if plan.written.fields else []
        if filler is None:
            filled: Iterable[tuple[Fragment, DataFile]] = fill(
                context, plan, missing, files, progress, book, keeper
            )
        else:
            _check_no_dictionaries(book)
            filled = filler(context, plan, first_id, missing)
        for fragment, file in filled:
            files.adopt(file)
            done.files[fragment.id] = fragment, file
        schema, values = plan.schema, None
        if book is not None:
            schema, values = with_dictionaries(schema, book)
        fragments = tuple(with_file(fragment, done.files.get(fragment.id)) for fragment in context.fragments)
        return Merge(fragments, schema, not plan.is_strict, values)


def _check_no_dictionaries(dictionaries: Dictionaries | None) -> None:
    if dictionaries is not None:
        raise UnsupportedError(
            "the files of a table of version 0.1 share the values of dictionaries, which several processes cannot add to: "
            "add the columns with ds.add_columns, or return their values instead of dictionaries",
            feature="dictionaries of columns that many workers write",
        )


def _paths(done: FilledColumns) -> set[str]:
    return {file.path for _, file in done.files.values()}


def with_file(fragment: Fragment, filled: tuple[Fragment, DataFile] | None) -> FragmentMetadata:
    """A fragment with one more data file, whose fields leave the others.

    Parameters
    ----------
    fragment : Fragment
    filled : (Fragment, DataFile) or None
        The file, and the fragment it was written for.
    """
    if filled is None:
        return FragmentMetadata.of(fragment)
    file = filled[1]
    return FragmentMetadata.of(replace(fragment, files=(*without_fields(fragment.files, file.fields), file)))
