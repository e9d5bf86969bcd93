"""Figures of a table: sizes and nulls of columns, bases, fragments. Large tables are told of by some of their fragments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancecy.api.datasets import Dataset
from lancecy.inspection.bases import BaseStatus
from lancecy.inspection.indices import described_indices
from lancecy.inspection.sizes import layout
from lancecy.records import dataclass
from lancecy.schema import Field
from lancecy.table.answers import run_on
from lancecy.table.manifest import Fragment
from lancecy.table.refs.places import main_location
from lancecy.table.refs.readable import ReadableRefs, refs_that_can_be_read
from lancecy.ui.cells import type_text
from lancecy.ui.charts import Bar, Strip, bars, strips
from lancecy.ui.deadline import Deadline
from lancecy.ui.found_rows import quoted
from lancecy.ui.options import Bounds
from lancecy.ui.texts import counted, escaped, size_text

__all__ = [
    "BaseLine",
    "ColumnLine",
    "ColumnSizes",
    "FieldLine",
    "FragmentLine",
    "base_lines",
    "column_lines",
    "column_sizes",
    "field_lines",
    "fragment_lines",
    "fragment_strips",
    "index_lines",
    "named_refs",
]

_TONES = 8
_MOST_PARTS = 40_000
_SAMPLED_ROWS = 1000
_SAMPLED_BYTES = 32 << 20
_MOST_BYTES_PER_ROW = 64 << 10
_MOST_FIELDS = 2000


# -- schema -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FieldLine:
    """A field of the schema.

    Attributes
    ----------
    name, type : str
    depth : int
        0 for a column.
    id : int
    is_nullable : bool
    notes : list of (str, str)
        Its metadata.
    """

    name: str
    type: str
    depth: int
    id: int
    is_nullable: bool
    notes: list[tuple[str, str]]


def field_lines(fields: Sequence[Field]) -> list[FieldLine]:
    """Columns and the fields within them, each after the one that it is in; at most some thousands.

    Parameters
    ----------
    fields : sequence of Field
    """
    found: list[FieldLine] = []
    waiting = [(field, 0) for field in reversed(fields)]
    while waiting and len(found) < _MOST_FIELDS:
        field, depth = waiting.pop()
        notes = [
            (escaped(key, 60), escaped(value.decode("utf-8", "replace"), 120))
            for key, value in list(field.metadata.items())[:8]
        ]
        kind = "struct" if field.children and field.is_struct else type_text(field.arrow_type)
        found.append(FieldLine(escaped(field.name, 120), kind, depth, field.id, field.nullable, notes))
        waiting += [(child, depth + 1) for child in reversed(field.children)]
    return found


# -- columns ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ColumnSizes:
    """Bytes of columns.

    Attributes
    ----------
    nbytes : (num_columns,) int64
        Of all columns of the table, in the fragments that were opened.
    rows : int
        Rows of these fragments.
    fragments, all_fragments : int
    """

    nbytes: np.ndarray
    rows: int
    fragments: int
    all_fragments: int

    @property
    def is_whole(self) -> bool:
        """Whether all fragments were opened."""
        return self.fragments == self.all_fragments


@dataclass(frozen=True)
class ColumnLine:
    """What is told of one column.

    Attributes
    ----------
    size : Bar
    nulls : float or None
        Percentage of nulls among the sampled rows; None if they were not read.
    least, greatest : str
        Of the sampled rows.
    """

    size: Bar
    nulls: float | None
    least: str = ""
    greatest: str = ""


def _some(fragments: Sequence[Fragment], most: int) -> list[Fragment]:
    """All fragments, or some of them at equal distances."""
    if len(fragments) <= most:
        return list(fragments)
    return [fragments[number * len(fragments) // most] for number in range(most)]


def column_sizes(ds: Dataset, bounds: Bounds) -> ColumnSizes:
    """Bytes of all columns; the metadata of data files is read.

    Parameters
    ----------
    ds : Dataset
    bounds : Bounds
    """
    context = ds.context
    width = max(1, len(ds.lance_schema.fields))
    most = max(1, min(bounds.fragments, _MOST_PARTS // width))
    chosen = _some(context.fragments, most)
    found = layout(context, [fragment.id for fragment in chosen])
    return ColumnSizes(found.nbytes.sum(axis=0), int(found.rows.sum()), len(chosen), len(context.fragments))


def column_lines(
    ds: Dataset, fields: Sequence[Field], sizes: ColumnSizes, deadline: Deadline
) -> tuple[list[ColumnLine], int]:
    """Sizes of some columns, and nulls, least and greatest values of the first rows.

    Parameters
    ----------
    ds : Dataset
    fields : sequence of Field
        Top-level columns.
    sizes : ColumnSizes
    deadline : Deadline

    Returns
    -------
    lines : list of ColumnLine
    rows : int
        Rows that were read.
    """
    places = {field.id: number for number, field in enumerate(ds.lance_schema.fields)}
    nbytes = [int(sizes.nbytes[places[field.id]]) for field in fields]
    shown = bars(
        [(escaped(field.name, 80), size, size_text(size)) for field, size in zip(fields, nbytes, strict=True)]
    )
    per_row = [size / max(1, sizes.rows) for size in nbytes]
    small = [
        field
        for field, size in zip(fields, per_row, strict=True)
        if size <= _MOST_BYTES_PER_ROW and not field.is_blob
    ]
    width = sum(size for field, size in zip(fields, per_row, strict=True) if field in small)
    count = min(_SAMPLED_ROWS, max(1, int(_SAMPLED_BYTES / max(1.0, width))))
    deadline.check()
    rows = ds.to_table(columns=[quoted(field.name) for field in small], limit=count) if small else None
    read = 0 if rows is None else rows.num_rows
    told = {} if rows is None else dict(zip((f.id for f in small), rows.columns, strict=True))
    return [_line(bar, told.get(field.id)) for bar, field in zip(shown, fields, strict=True)], read


def _line(size: Bar, values: pa.ChunkedArray | None) -> ColumnLine:
    if values is None:
        return ColumnLine(size, None)
    share = 100 * values.null_count / len(values) if len(values) else None
    try:
        found = pc.min_max(values).as_py()
    except (pa.ArrowException, OverflowError, ValueError):
        return ColumnLine(size, share)
    if found["min"] is None:
        return ColumnLine(size, share)
    return ColumnLine(size, share, _short(found["min"]), _short(found["max"]))


def _short(value: Any) -> str:
    if isinstance(value, bytes):
        return value[:12].hex(" ") + (" …" if len(value) > 12 else "")
    return escaped(f"{value:.6g}" if isinstance(value, float) else value, 32)


# -- bases and fragments ------------------------------------------------------------------------------


@dataclass(frozen=True)
class BaseLine:
    """A base of a table, or the table's own folder.

    Attributes
    ----------
    bar : Bar
        Its name and bytes.
    status : BaseStatus
    path : str
    files, error : str
    """

    bar: Bar
    status: BaseStatus
    path: str
    files: str
    error: str


def base_lines(ds: Dataset, check: bool) -> list[BaseLine]:
    """The table's own folder and its bases.

    Parameters
    ----------
    ds : Dataset
    check : bool
        Whether to look for files in them.
    """
    found = ds.bases(check=check)
    shown = bars(
        [(_base_name(one), one.num_bytes, size_text(one.num_bytes)) for one in found],
        [number % _TONES for number in range(len(found))],
    )
    return [
        BaseLine(bar, one, escaped(one.path), counted(one.num_files, "file"), escaped(one.error))
        for bar, one in zip(shown, found, strict=True)
    ]


def _base_name(base: BaseStatus) -> str:
    return "the table's own folder" if base.id is None else escaped(base.name or f"base {base.id}", 80)


@dataclass(frozen=True)
class FragmentLine:
    """A fragment.

    Attributes
    ----------
    id : int
    rows, deleted, files, size : str
    bases : list of (str, int)
        Names and colours of the bases that have its files.
    """

    id: int
    rows: str
    deleted: str
    files: str
    size: str
    bases: list[tuple[str, int]]


def _tones(ds: Dataset) -> dict[int | None, int]:
    return {number: at % _TONES for at, number in enumerate([None, *ds.base_paths])}


def fragment_lines(ds: Dataset, first: int, most: int) -> list[FragmentLine]:
    """Some fragments, as the manifest states them; no file is opened.

    Parameters
    ----------
    ds : Dataset
    first, most : int
    """
    tones = _tones(ds)
    names = {None: "own folder"} | {
        number: escaped(base.name or f"base {number}", 40) for number, base in ds.base_paths.items()
    }
    return [
        FragmentLine(
            part.id,
            counted(part.physical_rows),
            counted(_deleted(part)),
            counted(len(part.files)),
            size_text(_size(part)),
            [
                (names.get(one, f"base {one}"), tones.get(one, 0))
                for one in dict.fromkeys(f.base_id for f in part.files)
            ],
        )
        for part in ds.context.snapshot.fragments[first : first + most]
    ]


def fragment_strips(ds: Dataset) -> list[Strip]:
    """All fragments as columns of a chart: rows, deleted rows, and the base of the first file.

    Parameters
    ----------
    ds : Dataset
    """
    tones = _tones(ds)
    parts = ds.context.snapshot.fragments
    return strips(
        [part.physical_rows or 0 for part in parts],
        [_deleted(part) or 0 for part in parts],
        [tones.get(part.files[0].base_id, 0) if part.files else 0 for part in parts],
        [f"fragment {part.id}: {counted(part.physical_rows, 'row')}" for part in parts],
    )


def _deleted(part: Fragment) -> int | None:
    if part.physical_rows is None or part.live_rows is None:
        return None
    return part.physical_rows - part.live_rows


def _size(part: Fragment) -> int | None:
    sizes = [file.size for file in part.files]
    return sum(size or 0 for size in sizes) if all(sizes) else None


# -- indices, tags and branches -----------------------------------------------------------------------


def index_lines(ds: Dataset) -> list[dict[str, str]]:
    """The indices of a table.

    Parameters
    ----------
    ds : Dataset
    """
    return [
        {
            "name": escaped(one.name, 80),
            "type": escaped(one.index_type, 40),
            "columns": escaped(", ".join(one.field_names), 120),
            "rows": counted(one.num_rows_indexed),
            "size": size_text(one.total_size_bytes),
        }
        for one in described_indices(ds.context)
    ]


def named_refs(ds: Dataset) -> ReadableRefs:
    """The tags and branches of a table that can be read; one listing.

    Parameters
    ----------
    ds : Dataset

    Raises
    ------
    LanceError
        They cannot be listed.
    """
    snapshot = ds.context.snapshot
    main = main_location(snapshot.location, snapshot.manifest.branch)
    return run_on(refs_that_can_be_read(snapshot.limits), main.open(snapshot.session))
