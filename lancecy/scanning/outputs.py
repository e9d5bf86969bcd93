"""Read columns of a unit's rows: alone, side by side, or with those of other units.

The amount to decode decides. A column of megabytes is worth a thread; one thread reads all columns of a few
kilobytes, because several would mostly wait for each other; units of a few rows are read with other units
(``fragment.read_together``).

Rows are picked one by one, or all of them are read and then filtered. The costs of both were measured on memory-mapped
files of every version, with filters of 0.01 % to 30 %. The figures need to be right within a factor of two only: where
both ways cost the same, either will do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

import numpy as np
import pyarrow as pa

from lancecy.encodings.arrow.columns import ArrowArray, as_array, filtered, joined
from lancecy.encodings.arrow.conversions import array_of
from lancecy.errors import LimitError
from lancecy.records import dataclass
from lancecy.rows import RowSelection
from lancecy.scanning.context import ScanContext
from lancecy.scanning.fragment import FragmentFiles, read_together
from lancecy.scanning.units import FilteredUnit, bytes_of
from lancecy.schema import Field
from lancecy.session import Session

__all__ = [
    "INLINE_BYTES",
    "are_worth_threads",
    "in_order",
    "is_enough",
    "jobs_of",
    "map_sized",
    "most_ns",
    "output_fields",
    "outputs_joined",
    "pick_is_cheaper",
    "read_columns",
    "read_field",
    "read_several",
    "reading_ns",
]


_TEXTS = frozenset(("string", "large_string", "binary", "large_binary", "json"))


@dataclass(frozen=True, slots=True)
class _Costs:
    """Costs in nanoseconds.

    Attributes
    ----------
    fixed, text, listed : (float, float)
        To find a run of picked rows, and to decode a row: in leaves of one width, of texts, and of lists.
    byte, text_byte, json_byte : float
        To decode a stored byte: in a column without texts and JSON, with texts, and with JSON.
    """

    fixed: tuple[float, float]
    text: tuple[float, float]
    listed: tuple[float, float]
    byte: float
    text_byte: float
    json_byte: float


_LEGACY = _Costs((25.0, 1.5), (60.0, 5.0), (100.0, 5.0), 0.1, 0.1, 1.2)
_PAGES = _Costs((70.0, 2.0), (230.0, 5.0), (230.0, 5.0), 0.1, 0.1, 1.2)
# Chunks are unpacked whole for levels and symbols, however few rows are wanted.
_CHUNKS = _Costs((130.0, 3.0), (200.0, 8.0), (250.0, 6.0), 0.2, 3.0, 3.0)

_SHORT_RUN = 150.0
"""Extra cost of finding a run of some rows, compared with a single row."""
_SAMPLE = 4096
"""Neighbours that are looked at."""


def pick_is_cheaper(files: FragmentFiles, wanted: Field, rows: RowSelection, picked: RowSelection) -> bool:
    """Whether reading picked rows beats reading all candidates and filtering.

    Parameters
    ----------
    files : FragmentFiles
    wanted : Field
        Top-level field, pruned.
    rows : RowSelection
        Candidates.
    picked : RowSelection
        The candidates that are returned.
    """
    run, row = _costs_of_rows(files, wanted)
    budget = (len(rows) - len(picked)) * row
    return len(picked) * run < budget or _num_runs(picked) * (run + _SHORT_RUN) < budget


def _costs_of_rows(files: FragmentFiles, wanted: Field) -> tuple[float, float]:
    """Nanoseconds to find a run of rows, and to decode a row."""
    run, row, byte = _of_field(_costs_of(files), wanted)
    return run, row + byte * files.estimated_bytes([wanted]) / max(1, files.num_rows)


def _costs_of(files: FragmentFiles) -> _Costs:
    return _CHUNKS if files.in_chunks else _PAGES if files.version >= (2, 0) else _LEGACY


@lru_cache(maxsize=4096)
def _of_field(costs: _Costs, wanted: Field) -> tuple[float, float, float]:
    """Nanoseconds per run, per row and per byte."""
    run = row = 0.0
    byte = costs.byte
    for node in wanted.walk():
        if node.is_list or node.is_map:
            more = costs.listed
        elif node.logical_type in _TEXTS:
            more = costs.text
            byte = max(byte, costs.json_byte if node.logical_type == "json" else costs.text_byte)
        elif node.children:
            continue
        else:
            more = costs.fixed
        run, row = run + more[0], row + more[1]
    return run, row, byte


def all_rows_ns(files: FragmentFiles, fields: Sequence[Field], num_rows: int) -> float:
    """Nanoseconds to decode all of so many rows of some fields, by their types alone; infinite unless all have one width."""
    costs = _costs_of(files)
    return num_rows * sum(_of_fixed_width(costs, wanted) for wanted in fields)


@lru_cache(maxsize=4096)
def _of_fixed_width(costs: _Costs, wanted: Field) -> float:
    """Nanoseconds per row of a field of one width."""
    kind, types = wanted.arrow_type, pa.types
    if not (types.is_primitive(kind) or types.is_decimal(kind) or types.is_fixed_size_binary(kind)):
        return math.inf
    _, row, byte = _of_field(costs, wanted)
    # bit_width of binary values wraps at 32 bits
    nbytes = kind.byte_width if types.is_fixed_size_binary(kind) else kind.bit_width / 8
    return row + byte * float(nbytes)


def _num_runs(rows: RowSelection) -> int:
    """About how many ranges of neighbouring rows there are: of many rows, a sample is looked at."""
    if rows.indices is None:
        return 0 if rows.starts is None else int(rows.starts.size)
    step = 1 + rows.indices.size // _SAMPLE
    return step * int(np.count_nonzero(rows.indices[1::step] - rows.indices[:-1:step] != 1)) + 1


T = TypeVar("T")
U = TypeVar("U")

INLINE_BYTES = 4 << 20
# While one thread decodes for a shorter time, all others wait for the interpreter, which opens and plans the next fragment.
_WORTH_NANOSECONDS = 2e6
SMALL_COLUMN_BYTES = 64 << 10


def map_sized(
    context: ScanContext, function: Callable[[T], U], items: Sequence[T], use_threads: bool
) -> list[U]:
    """Apply a function to every item, on the session's threads if there is enough to decode.

    Passing work to another thread and waiting for it takes longer than decoding a few megabytes.
    """
    return context.session.map(function, items) if use_threads else [function(item) for item in items]


def is_enough(nanoseconds: float, num_jobs: int) -> bool:
    """Whether several threads do in less time what takes one so long, if they divide it into so many jobs."""
    return nanoseconds >= _WORTH_NANOSECONDS * num_jobs


def reading_ns(units: Sequence[FilteredUnit], fields: Sequence[Field]) -> float:
    """About how many nanoseconds one thread takes to read fields for the rows that passed."""
    taken = 0.0
    for unit in units:
        for wanted in fields:
            run, row = _costs_of_rows(unit.files, wanted)
            taken += min(len(unit.rows) * row, len(unit.picked) * (run + row))
    return taken


def most_ns(num_rows: int, nbytes: float, fields: Sequence[Field], row_ns: float = 0.0) -> float:
    """The most nanoseconds that one thread takes to read fields of so many rows, whose bytes they are.

    Parameters
    ----------
    num_rows : int
    nbytes : float, bytes
    fields : sequence of Field
        Top-level fields, pruned.
    row_ns : float, nanoseconds
        What is done with a row when it is read.
    """
    # Nothing takes longer than chunks.
    costs = [_of_field(_CHUNKS, wanted) for wanted in fields]
    byte = max((byte for _, _, byte in costs), default=0.0)
    return num_rows * (row_ns + sum(row for _, row, _ in costs)) + byte * nbytes


def are_worth_threads(
    items: Sequence[tuple[FragmentFiles, int]],
    fields: Sequence[Field],
    row_ns: float = 0.0,
    num_jobs: int | None = None,
) -> bool:
    """Whether several threads read fields of memory-mapped fragments in less time than one.

    Parameters
    ----------
    items : sequence of (FragmentFiles, int)
        Fragments whose files are open, and the number of rows to read of each.
    fields : sequence of Field
        Top-level fields, pruned.
    row_ns : float, nanoseconds
        What is done with a row when it is read.
    num_jobs : int, optional
        Number of parts that threads take; by default each fragment is one.
    """
    taken = row_ns * sum(num_rows for _, num_rows in items)
    for files, num_rows in items:
        for wanted in fields:
            taken += num_rows * _costs_of_rows(files, wanted)[1]
    return is_enough(taken, len(items) if num_jobs is None else num_jobs)


def read_field(
    files: FragmentFiles,
    wanted: Field,
    rows: RowSelection,
    session: Session,
    tested: Mapping[Field, frozenset[int]] | None = None,
) -> ArrowArray:
    """Read one column of the selected rows, in several chunks if 32-bit offsets cannot hold it."""
    try:
        return files.read([wanted], rows, session, tested)[0]
    except LimitError as error:
        if error.limit or len(rows) < 2:
            raise
    half = len(rows) // 2
    halves = (rows.slice(0, half), rows.slice(half, len(rows) - half))
    columns = [read_field(files, wanted, piece, session, tested) for piece in halves]
    return joined(columns, columns[0].type)


def read_columns(
    files: FragmentFiles,
    fields: Sequence[Field],
    rows: RowSelection,
    session: Session,
    tested: Mapping[Field, frozenset[int]] | None = None,
) -> list[ArrowArray]:
    """Read several columns in common requests, and shared parts once."""
    if len(fields) > 1:
        try:
            return files.read(fields, rows, session, tested)
        except LimitError as error:
            if error.limit:
                raise
    return [read_field(files, f, rows, session, tested) for f in fields]


def read_several(
    items: Sequence[tuple[FragmentFiles, RowSelection]], fields: Sequence[Field], session: Session
) -> list[ArrowArray]:
    """Read several columns of several fragments, one fragment after the other."""
    if not fields:
        return []
    try:
        return read_together(items, fields, session)
    except LimitError as error:
        if error.limit:
            raise
    return [
        joined([read_field(files, f, rows, session) for files, rows in items], f.arrow_type) for f in fields
    ]


def outputs_joined(
    context: ScanContext, units: Sequence[FilteredUnit], fields: Sequence[Field]
) -> list[ArrowArray]:
    """:func:`output_fields` for several units that have little to read, one unit after the other."""
    largest = max(units, key=lambda c: len(c.rows))
    reused: list[Field] = []
    whole: list[Field] = []
    picked: list[Field] = []
    for f in fields:
        if f in largest.reused and all(f in c.reused for c in units):
            reused.append(f)
        else:
            (picked if _is_picked(largest, f) else whole).append(f)
    columns = dict(
        zip(picked, read_several([(c.files, c.picked) for c in units], picked, context.session), strict=True)
    )
    read = read_several([(c.files, c.rows) for c in units], whole, context.session)
    columns.update(zip(whole, read, strict=True))
    columns.update((f, joined([c.reused[f] for c in units], f.arrow_type)) for f in reused)
    mask = _joined_mask(units)
    if mask is not None:
        columns.update((f, filtered(_in_few_chunks(columns[f]), mask)) for f in (*whole, *reused))
    return [columns[f] for f in fields]


def _in_few_chunks(column: ArrowArray) -> ArrowArray:
    """The column as one array, if that needs no common dictionary: one of a few rows takes longer to filter than its rows."""
    types = pa.types
    return column if types.is_dictionary(column.type) or types.is_nested(column.type) else as_array(column)


def _joined_mask(units: Sequence[FilteredUnit]) -> pa.BooleanArray | None:
    """Which candidates of all units passed; None if all did."""
    if all(c.mask is None for c in units):
        return None
    every = array_of(np.ones(max(len(c.rows) for c in units), np.bool_))
    return pa.concat_arrays([every[: len(c.rows)] if c.mask is None else c.mask for c in units])


def _is_picked(unit: FilteredUnit, wanted: Field) -> bool:
    """Whether only the rows that passed are read, and not all candidates."""
    # Columns that cost requests are read only for the rows that are returned.
    is_sure = unit.mask is None or not unit.files.mapped
    return is_sure or pick_is_cheaper(unit.files, wanted, unit.rows, unit.picked)


def output_fields(context: ScanContext, unit: FilteredUnit, fields: Sequence[Field]) -> list[ArrowArray]:
    """Read fields of the output for the rows that passed."""
    mask, session = unit.mask, context.session
    columns: dict[Field, ArrowArray] = {}
    picked: list[Field] = []
    whole: list[Field] = []
    for wanted in fields:
        found = unit.reused.get(wanted)
        if found is not None:
            columns[wanted] = found if mask is None else filtered(found, mask)
        elif _is_picked(unit, wanted):
            picked.append(wanted)
        else:
            whole.append(wanted)
    read = read_columns(unit.files, picked, unit.picked, session)
    if len(picked) == len(fields):
        return read
    columns.update(zip(picked, read, strict=True))
    read = read_columns(unit.files, whole, unit.rows, session)
    columns.update((f, filtered(column, mask)) for f, column in zip(whole, read, strict=True))
    return [columns[f] for f in fields]


def jobs_of(unit: FilteredUnit, fields: Sequence[Field]) -> list[list[Field]]:
    """Divide fields into jobs: each large one alone, all small ones together.

    Threads that read many small columns would mostly wait for each other. Where reading costs requests, all
    fields are one job: they are fetched together.
    """
    if not unit.files.mapped or bytes_of(unit, fields) < SMALL_COLUMN_BYTES:
        return [list(fields)] if fields else []
    small: list[Field] = []
    alone: list[list[Field]] = []
    for wanted in fields:
        if bytes_of(unit, [wanted]) < SMALL_COLUMN_BYTES:
            small.append(wanted)
        else:
            alone.append([wanted])
    return [small, *alone] if small else alone


def in_order(
    fields: Sequence[Field], jobs: Sequence[Sequence[Field]], read: Sequence[Sequence[ArrowArray]]
) -> list[ArrowArray]:
    """Columns read by several jobs, in the order of the fields."""
    if len(read) == 1:
        return list(read[0])
    columns = {f: c for job, found in zip(jobs, read, strict=True) for f, c in zip(job, found, strict=True)}
    return [columns[f] for f in fields]
