"""Verifies one version of a table: every fragment, file, column, page, statistic, deletion and row id.

Columns are read in pieces of bounded size, deleted rows included. What cannot be read is reported with its
place, and verification continues after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from lancecy.encodings.arrow.columns import ArrowArray, bare, joined
from lancecy.errors import LanceError, UnsupportedError, printable
from lancecy.inspection.verification.report import Finding, Verification
from lancecy.inspection.verification.statistics import contradictions
from lancecy.progress import Progress, Step, silent
from lancecy.rows import RowSelection
from lancecy.scanning.context import ScanContext
from lancecy.scanning.fragment import FragmentFiles
from lancecy.scanning.outputs import read_field
from lancecy.scanning.project import extract
from lancecy.schema import Field
from lancecy.table.commit.driver import foreign_newest
from lancecy.table.manifest import Fragment
from lancecy.table.row_id_checks import row_id_faults
from lancecy.table.snapshot import Snapshot

__all__ = ["verify"]

PIECE_BYTES = 32 << 20
# Checking that ids are unique takes 8 bytes of memory for each.
MAX_IDS = 100_000_000


def verify(
    context: ScanContext,
    columns: Sequence[str] | None = None,
    fragments: Sequence[int] | None = None,
    progress: Progress | None = None,
) -> Verification:
    """Read everything and report damage; see :meth:`lancecy.Dataset.verify`.

    Parameters
    ----------
    context : ScanContext
    columns : sequence of str, optional
        Top-level columns to read; by default all.
    fragments : sequence of int, optional
        Ids of the fragments to check.
    progress : Progress, optional
        Called with the bytes read.

    Raises
    ------
    ColumnNotFoundError, NotFoundError
        There is no such column or fragment.
    """
    chosen = context.snapshot.schema.scanned
    fields = list(chosen.fields) if columns is None else [chosen.field(name) for name in columns]
    run = _Run(context, fields, progress or silent)
    run.table()
    selected = context.selected(fragments)
    run.total = sum(f.size or 0 for fragment in selected for f in fragment.files) or len(selected)
    for fragment in selected:
        run.fragment(fragment)
    run.row_ids(selected)
    run.tell(run.total)
    snapshot = context.snapshot
    return Verification(
        snapshot.uri,
        snapshot.version,
        len(selected),
        sum(len(f.files) for f in selected),
        run.pages,
        run.rows,
        run.nbytes,
        run.checked,
        tuple(run.findings),
    )


@dataclass
class _Run:
    """The state of a running verification."""

    context: ScanContext
    fields: list[Field]
    progress: Progress
    findings: list[Finding] = field(default_factory=list)
    pages: int = 0
    rows: int = 0
    nbytes: int = 0
    checked: int = 0
    done: int = 0
    total: int = 1
    ids: list[tuple[int, np.ndarray]] = field(default_factory=list)

    def add(self, kind: str, place: str, problem: object, severity: str = "damaged") -> None:
        if isinstance(problem, UnsupportedError):
            severity = "unsupported"
        self.findings.append(Finding(kind, place, str(problem), severity))

    def tell(self, done: int, detail: str = "") -> None:
        self.done = min(self.total, done)
        self.progress(Step("verify", self.done, self.total, "bytes", detail))

    # -- the version ----------------------------------------------------------

    def table(self) -> None:
        snapshot = self.context.snapshot
        self._origin(snapshot)
        ids = [fragment.stored_id for fragment in self.context.fragments]
        if len(set(ids)) < len(ids):
            self.add("manifest", "fragments", "two fragments have the same id")
        try:
            snapshot.indices()
        except LanceError as error:
            self.add("manifest", "index section", error)

    def _origin(self, snapshot: Snapshot) -> None:
        """Check that the newest manifest is this table's own."""
        try:
            problem = foreign_newest(snapshot.location, snapshot.session)
        except LanceError:
            return  # a store that lists no files can still be read, and what else is wrong is found below
        if problem is not None and problem.path == snapshot.manifest_file.path:
            self.add("manifest", f"version {snapshot.version}", problem)

    # -- one fragment ---------------------------------------------------------

    def fragment(self, fragment: Fragment) -> None:
        place = f"fragment {fragment.id}"
        size = sum(file.size or 0 for file in fragment.files) or 1
        before = self.done
        self.tell(before, place)
        try:
            files = self.context.files(fragment.id)
        except LanceError as error:
            self.add("file", place, error)
            self.tell(before + size)
            return
        self.rows += files.num_rows
        self._states(fragment, files, place)
        for number, wanted in enumerate(self.fields):
            self._column(files, wanted, f"{place}, column {printable(wanted.name)!r}")
            self.tell(before + size * (number + 1) // len(self.fields), place)

    def _states(self, fragment: Fragment, files: FragmentFiles, place: str) -> None:
        """Check what the manifest states apart from the columns."""
        deletion = fragment.deletion_file
        if deletion is not None and deletion.num_deleted_rows not in (None, files.num_rows - files.live_rows):
            self.add("deletions", place, f"{deletion.num_deleted_rows} rows are stated to be deleted")
        snapshot = self.context.snapshot
        for kind, load in (
            ("row ids", snapshot.row_ids),
            ("created versions", snapshot.created_versions),
            ("updated versions", snapshot.updated_versions),
        ):
            try:
                sequence = load(fragment)
            except LanceError as error:
                self.add("row ids", f"{place}, {kind}", error)
                continue
            if sequence is not None and len(sequence) != files.num_rows:
                self.add(
                    "row ids", f"{place}, {kind}", f"{len(sequence):,} of them for {files.num_rows:,} rows"
                )

    # -- one column -----------------------------------------------------------

    def _column(self, files: FragmentFiles, wanted: Field, place: str) -> None:
        try:
            files.prepare([wanted], self.context.session)
            nbytes = files.estimated_bytes([wanted])
            self.pages += files.num_pages([wanted])
        except LanceError as error:
            self.add("column", place, error)
            return
        self.nbytes += nbytes
        pieces: list[ArrowArray] = []
        for start, stop in _pieces(files.num_rows, nbytes):
            found = self._piece(files, wanted, start, stop, place)
            if found is not None:
                pieces.append(found)
        if sum(len(piece) for piece in pieces) == files.num_rows:
            self._statistics(files, wanted, pieces, place)

    def _piece(
        self, files: FragmentFiles, wanted: Field, start: int, stop: int, place: str
    ) -> ArrowArray | None:
        rows = RowSelection.range(files.num_rows, start, stop)
        where = f"{place}, rows {start:,} to {stop - 1:,}"
        try:
            column = read_field(files, wanted, rows, self.context.session)
        except LanceError as error:
            self.add("column", where, error)
            return None
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            self.add("values", where, error)
        return column

    def _statistics(self, files: FragmentFiles, wanted: Field, pieces: list[ArrowArray], place: str) -> None:
        paths = list(_paths(wanted))
        if not paths:
            return
        try:
            tables = files.page_stats([wanted], paths, self.context.session)
        except LanceError as error:
            self.add("statistics", place, error, severity="note")
            return
        for starts, table in tables:
            for path, stats in table.columns.items():
                column = extract(bare(joined(pieces, wanted.arrow_type)), path)
                self.checked += starts.size - 1
                for page, problem in contradictions(column, starts, stats):
                    name = printable(".".join(path))
                    self.add("statistics", f"{place}, page {page} of {name!r}", problem)

    # -- over all fragments ---------------------------------------------------

    def row_ids(self, fragments: Sequence[Fragment]) -> None:
        """Check that every row has an id, that ids of live rows are unique, and that the next id is above all."""
        manifest = self.context.snapshot.manifest
        if not manifest.has_stable_row_ids:
            return
        try:
            faults = row_id_faults(manifest, self.context.snapshot.limits)
        except LanceError as error:
            self.add("row ids", "table", error)
            return
        # Damage was reported for each fragment.
        for problem in replace(faults, damaged=()).problems():
            self.add("row ids", "table", f"{problem}; {faults.remedy}")
        if self.rows > MAX_IDS:
            self.add("row ids", "table", f"not checked to be unique: more than {MAX_IDS:,}", severity="note")
            return
        found = [ids for fragment in fragments if (ids := self._live_ids(fragment)) is not None]
        if not found:
            return
        every = np.sort(np.concatenate(found))
        twice = every[1:][every[1:] == every[:-1]]
        if twice.size:
            self.add(
                "row ids",
                "table",
                f"{twice.size:,} live rows have the id of another, such as {twice[0]}; choose which row keeps it: "
                "delete the others by their _rowaddr, and append them again",
            )

    def _live_ids(self, fragment: Fragment) -> np.ndarray | None:
        try:
            sequence = self.context.snapshot.row_ids(fragment)
            files = self.context.files(fragment.id)
        except LanceError:
            return None  # reported when the fragment was checked
        if sequence is None or len(sequence) != files.num_rows:
            return None
        return sequence.take(files.live(0, files.num_rows).to_indices())


def _pieces(num_rows: int, nbytes: int) -> Iterator[tuple[int, int]]:
    step = max(1, num_rows if nbytes <= PIECE_BYTES else int(num_rows * PIECE_BYTES / nbytes))
    for start in range(0, num_rows, step):
        yield start, min(num_rows, start + step)


def _paths(wanted: Field, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Paths of the leaves that may have statistics: those below structs only."""
    path = (*above, wanted.name)
    if wanted.is_struct:
        for child in wanted.children:
            yield from _paths(child, path)
    elif not wanted.children:
        yield path
