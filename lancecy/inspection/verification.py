"""Verification: reads one version of a table and reports damage to a fragment, file, column, page, statistic or row id.

Columns are read in pieces of bounded size, deleted rows included. What cannot be read is reported with its
place, and verification continues after it. Nothing is changed; ``Dataset.repair`` can mend manifests and row ids.

Page statistics are checked against the values they describe. A bound need not be tight: the only faults are a value
outside its page's bounds, a null in a page stated to have none, and a value in a page stated to be all null. The bounds
are those that a scan prunes with (:class:`StatsTable`); statistics that a scan does not use are not checked.
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, field, replace
from decimal import localcontext
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lancecy.encodings.arrow.columns import ArrowArray, bare, joined
from lancecy.errors import FormatError, LanceError, UnsupportedError, printable
from lancecy.inspection.references import reference_problems
from lancecy.progress import Progress, Step, silent
from lancecy.records import dataclass
from lancecy.rows import RowSelection
from lancecy.scanning.context import ScanContext
from lancecy.scanning.explain import human_bytes
from lancecy.scanning.fragment import FragmentFiles
from lancecy.scanning.outputs import read_field
from lancecy.scanning.project import extract
from lancecy.schema import Field
from lancecy.stats import ByteBounds, ColumnStats, NumericBounds
from lancecy.store.key_values.ddb_uri import shown_uri
from lancecy.table.commit.driver import foreign_newest
from lancecy.table.manifest import Fragment
from lancecy.table.row_id_checks import row_id_faults
from lancecy.table.snapshot import Snapshot

__all__ = ["Finding", "Verification", "contradictions", "raise_if_damaged", "verify"]


_SHOWN = 50


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault of a table.

    Attributes
    ----------
    kind : str
        ``"manifest"``, ``"file"``, ``"column"``, ``"statistics"``, ``"deletions"``, ``"row ids"``, ``"values"`` or
        ``"references"``: tags and branches.
    place : str
        Fragment, file, column and rows, as far as known.
    problem : str
    severity : str
        ``"damaged"``; ``"unsupported"``: probably intact, but this release cannot read it; ``"note"``: all rows
        can be read, but something else is wrong.
    """

    kind: str
    place: str
    problem: str
    severity: str = "damaged"

    def __str__(self) -> str:
        return f"{self.severity}: {self.place}: {self.problem}"


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of :meth:`lancecy.Dataset.verify`; true if nothing is damaged.

    Attributes
    ----------
    uri : str
    version : int
    fragments, files, pages, rows : int
        Numbers that were checked; rows include deleted ones, pages are of every column.
    nbytes : int
        Encoded bytes read.
    checked_statistics : int
        Pages whose statistics were compared with their values.
    findings : tuple of Finding
    """

    uri: str
    version: int
    fragments: int
    files: int
    pages: int
    rows: int
    nbytes: int
    checked_statistics: int
    findings: tuple[Finding, ...]

    @property
    def is_ok(self) -> bool:
        """Whether nothing is damaged."""
        return all(finding.severity == "note" for finding in self.findings)

    def __bool__(self) -> bool:
        return self.is_ok

    def to_dict(self) -> dict[str, Any]:
        """Plain values, fit for JSON."""
        return {"ok": self.is_ok, **asdict(self)}

    def _facts(self) -> list[tuple[str, str]]:
        kinds = Counter(f.severity for f in self.findings)
        return [
            ("table", f"{self.uri} at version {self.version}"),
            ("fragments", f"{self.fragments:,} with {self.files:,} data files"),
            ("rows", f"{self.rows:,}"),
            ("pages", f"{self.pages:,}, {human_bytes(self.nbytes)}"),
            ("statistics", f"{self.checked_statistics:,} pages compared with their values"),
            ("result", ", ".join(f"{count:,} {kind}" for kind, count in kinds.items()) or "no damage found"),
        ]

    def __str__(self) -> str:
        lines = [f"{name:>11}  {value}" for name, value in self._facts()]
        lines += [f"  {finding}" for finding in self.findings[:_SHOWN]]
        if len(self.findings) > _SHOWN:
            lines.append(f"  … and {len(self.findings) - _SHOWN:,} more")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        cell = "<tr><th style='text-align:left'>{}</th><td style='text-align:left'>{}</td></tr>"
        rows = "".join(cell.format(html.escape(n), html.escape(v)) for n, v in self._facts())
        found = "".join(f"<li>{html.escape(str(f))}</li>" for f in self.findings[:_SHOWN])
        return f"<div><table>{rows}</table><ul>{found}</ul></div>"


Bools = NDArray[np.bool_]


# -- page statistics --------------------------------------------------------------------------


def contradictions(
    values: pa.Array | pa.ChunkedArray, starts: NDArray[np.int64], stats: ColumnStats, first_row: int = 0
) -> Iterator[tuple[int, str]]:
    """Pages whose statistics are wrong.

    Parameters
    ----------
    values : (n,) Arrow column
        Values of the file from ``first_row`` on.
    starts : (num_pages + 1,) int64
        First row of each page, and the number of rows.
    stats : ColumnStats
        Statistics of these pages.
    first_row : int

    Yields
    ------
    (page, problem)
        The first page of each kind of fault.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> known = np.array([True, True])
    >>> bounds = NumericBounds(np.array([0, 10]), np.array([9, 19]), known)
    >>> pages = np.array([0, 2, 4])
    >>> list(contradictions(pa.array([0, 9, 10, 30]), pages, ColumnStats(bounds, ~known, ~known)))
    [(1, 'a value is above the maximum its page states')]
    """
    column = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks)
    page_of = np.searchsorted(starts, np.arange(first_row, first_row + len(column)), side="right") - 1
    is_null = column.is_null().to_numpy(zero_copy_only=False)
    found = [
        (is_null & stats.no_nulls[page_of], "a value is null although its page states that none is"),
        (
            ~is_null & stats.all_null[page_of],
            "a value is not null although its page states that all are null",
        ),
    ]
    if isinstance(stats.bounds, NumericBounds):
        found += _outside_numbers(column, page_of, is_null, stats.bounds)
    elif isinstance(stats.bounds, ByteBounds):
        found += _outside_bytes(column, page_of, stats.bounds)
    for wrong, problem in found:
        if wrong.any():
            yield int(page_of[np.argmax(wrong)]), problem


_BELOW = "a value is below the minimum its page states"
_ABOVE = "a value is above the maximum its page states"


def _outside_numbers(
    column: pa.Array, page_of: NDArray[np.int64], is_null: Bools, bounds: NumericBounds
) -> list[tuple[Bools, str]]:
    numbers = _numbers(column)
    usable = bounds.known[page_of] & ~is_null
    lows: NDArray[Any] = bounds.lows[page_of]
    highs: NDArray[Any] = bounds.highs[page_of]
    below, above = usable & (numbers < lows), usable & (numbers > highs)
    return [(below.astype(np.bool_), _BELOW), (above.astype(np.bool_), _ABOVE)]


def _numbers(column: pa.Array) -> NDArray[Any]:
    """Values in the unit of the bounds; arbitrary for nulls."""
    kind = column.type
    if pa.types.is_decimal(kind):
        with localcontext(prec=80):  # decimal256 has 76 digits
            return np.array(
                [0 if v is None else int(v.scaleb(kind.scale)) for v in column.to_pylist()], object
            )
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif pa.types.is_date32(kind) or pa.types.is_time32(kind):
        column = column.cast(pa.int32())
    elif pa.types.is_temporal(kind):
        column = column.cast(pa.int64())
    filled = column.fill_null(0) if column.null_count else column
    numbers: NDArray[Any] = filled.to_numpy(zero_copy_only=False)
    return numbers


def _outside_bytes(
    column: pa.Array, page_of: NDArray[np.int64], bounds: ByteBounds
) -> list[tuple[Bools, str]]:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    raw = column.cast(pa.large_binary())
    pages = pa.array(page_of)
    low = _texts(bounds.low_offsets, bounds.low_bytes, bounds.has_low).take(pages)
    high = _texts(bounds.high_offsets, bounds.high_bytes, bounds.has_high).take(pages)
    return [(_true(pc.less(raw, low)), _BELOW), (_true(pc.greater(raw, high)), _ABOVE)]


def _texts(offsets: NDArray[np.int64], data: NDArray[np.uint8], present: Bools) -> pa.Array:
    bits = pa.py_buffer(np.packbits(present, bitorder="little"))
    buffers = [bits, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.large_binary(), present.size, buffers)


def _true(mask: pa.Array) -> Bools:
    found: Bools = mask.fill_null(False).to_numpy(zero_copy_only=False)
    return found


_Path: TypeAlias = tuple[str, ...]
_PageStats: TypeAlias = tuple[NDArray[np.int64], _Path, ColumnStats]
"""First rows of pages, the path of a leaf, and what the pages state about it."""
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
        shown_uri(snapshot.uri),
        snapshot.version,
        len(selected),
        sum(len(f.files) for f in selected),
        run.pages,
        run.rows,
        run.nbytes,
        run.checked,
        tuple(run.findings),
    )


def raise_if_damaged(found: Verification) -> None:
    """Raise what a verification found, unless that is nothing but notes.

    Parameters
    ----------
    found : Verification

    Raises
    ------
    FormatError
        Something is damaged.
    """
    damaged = [str(finding) for finding in found.findings if finding.severity != "note"]
    if damaged:
        raise FormatError("; ".join(damaged))


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
        self._references(snapshot)

    def _references(self, snapshot: Snapshot) -> None:
        try:
            problems = reference_problems(snapshot)
        except LanceError:
            return  # a store that lists no files can still be read
        for problem in problems:
            self.add("references", problem.place, problem.text, "damaged" if problem.is_damage else "note")

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
            nbytes, decoded = files.sizes([wanted])
            self.pages += files.num_pages([wanted])
        except LanceError as error:
            self.add("column", place, error)
            return
        self.nbytes += nbytes
        tables, unreadable = self._statistics(files, wanted)
        wrong: dict[tuple[_Path, str], int] = {}
        is_whole = True
        for start, stop in _pieces(files.num_rows, decoded):
            found = self._piece(files, wanted, start, stop, place)
            if found is None:
                is_whole = False
                continue
            for starts, path, stats in tables:
                column = extract(bare(joined([found], wanted.arrow_type)), path)
                for page, problem in contradictions(column, starts, stats, start):
                    wrong.setdefault((path, problem), page)
        if not is_whole:
            return  # what its pages state is of no interest
        if unreadable is not None:
            self.add("statistics", place, unreadable, severity="note")
        self.checked += sum(starts.size - 1 for starts, _, _ in tables)
        for (path, problem), page in wrong.items():
            self.add("statistics", f"{place}, page {page} of {printable('.'.join(path))!r}", problem)

    def _piece(
        self, files: FragmentFiles, wanted: Field, start: int, stop: int, place: str
    ) -> ArrowArray | None:
        rows = RowSelection.range(files.num_rows, start, stop)
        where = f"{place}, rows {start:,} to {stop - 1:,}"
        try:
            column = read_field(files, wanted, rows, self.context.session)
        except LanceError as error:
            if not self._are_deleted_nulls(files, wanted, rows):
                self.add("column", where, error)
            return None
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            self.add("values", where, error)
        return column

    def _are_deleted_nulls(self, files: FragmentFiles, wanted: Field, rows: RowSelection) -> bool:
        """Whether rows cannot be read only because deleted ones have nulls where the column may have none by now."""
        start, stop = rows.ends
        gone = np.empty(0, np.int64) if files.deleted is None else files.deleted.between(start, stop)
        if not len(gone):
            return False
        live = RowSelection(files.num_rows, indices=np.setdiff1d(np.arange(start, stop), gone))
        try:
            read_field(files, _nullable(wanted), rows, self.context.session).validate(full=True)
            read_field(files, wanted, live, self.context.session)
        except (LanceError, pa.ArrowInvalid):
            return False
        return True

    def _statistics(self, files: FragmentFiles, wanted: Field) -> tuple[list[_PageStats], LanceError | None]:
        """What pages state about the leaves of a column, or why that cannot be read."""
        paths = list(_paths(wanted))
        try:
            tables = files.page_stats([wanted], paths, self.context.session) if paths else []
        except LanceError as error:
            return [], error
        return [
            (starts, path, stats) for starts, table in tables for path, stats in table.columns.items()
        ], None

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


def _nullable(field: Field) -> Field:
    """The field as if nulls were allowed in it and below it."""
    return replace(field, nullable=True, children=tuple(map(_nullable, field.children)))


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
