"""Rows that pass a filter, and how many, under the bounds.

Rows are found first, by their ids, in groups of fragments, so that a filter that takes long is stopped between two
groups. Their values are read after that, a few rows at a time, so that large values are stopped too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lancecy.api.datasets import Dataset
from lancecy.records import dataclass
from lancecy.scanning.explain import Explanation, FragmentLine
from lancecy.schema import Field
from lancecy.ui.deadline import Deadline
from lancecy.ui.options import Bounds

__all__ = [
    "MOST_SKIPPED",
    "ColumnPage",
    "RowPage",
    "column_page",
    "count_matches",
    "explained",
    "quoted",
    "read_rows",
]

_GROUP_ROWS, _GROUP_FRAGMENTS = 1 << 18, 200
_TAKEN_TOGETHER = 8
_EXPLAINED_TOGETHER = 100
MOST_SKIPPED = 1_000_000
"""Rows before a page."""


@dataclass(frozen=True)
class ColumnPage:
    """Some of the top-level columns of a table.

    Attributes
    ----------
    fields : list of Field
    first : int
        Position of the first of them among those that match.
    matching : int
        Columns whose name has the text to find.
    total : int
    """

    fields: list[Field]
    first: int
    matching: int
    total: int

    @property
    def before(self) -> int | None:
        """Position of the page before, None if there is none."""
        return max(0, self.first - max(1, len(self.fields))) if self.first else None

    @property
    def after(self) -> int | None:
        """Position of the next page, None if there is none."""
        end = self.first + len(self.fields)
        return end if end < self.matching else None


@dataclass(frozen=True)
class RowPage:
    """Some rows.

    Attributes
    ----------
    rows : pyarrow.Table
        The columns asked for.
    ids : list of int
        Row ids.
    first : int
        Number of the first of them among those that match.
    has_more : bool
        Whether more rows match.
    left_out : int
        Rows of this page that are not read, as their values are too large together.
    """

    rows: pa.Table
    ids: list[int]
    first: int
    has_more: bool
    left_out: int = 0


def quoted(name: str) -> str:
    """A top-level column's name as lists of columns write it, whatever characters it has.

    Examples
    --------
    >>> quoted("price"), quoted("a.b"), quoted("a`b")
    ('price', '`a.b`', '`a``b`')
    """
    return f"`{name.replace('`', '``')}`" if {".", "`"} & set(name) or not name else name


def column_page(ds: Dataset, bounds: Bounds, first: int = 0, find: str = "") -> ColumnPage:
    """Some of the columns.

    Parameters
    ----------
    ds : Dataset
    bounds : Bounds
    first : int
        Position among the matching ones.
    find : str
        Only columns whose name has this text.
    """
    fields = list(ds.lance_schema.fields)
    wanted = find.casefold()
    matching = [one for one in fields if wanted in one.name.casefold()] if wanted else fields
    first = min(first, max(0, len(matching) - 1))
    return ColumnPage(matching[first : first + bounds.columns], first, len(matching), len(fields))


def _groups(ds: Dataset, deadline: Deadline) -> Iterator[list[int]]:
    """Ids of fragments that take about the same time together, until the time is over."""
    group: list[int] = []
    rows = 0
    for fragment in ds.context.snapshot.fragments:
        group.append(fragment.id)
        rows += fragment.physical_rows or _GROUP_ROWS
        if rows >= _GROUP_ROWS or len(group) >= _GROUP_FRAGMENTS:
            deadline.check()
            yield group
            group, rows = [], 0
    if group:
        deadline.check()
        yield group


def _matching_ids(
    ds: Dataset, condition: str | None, skipped: int, wanted: int, deadline: Deadline
) -> list[int]:
    """Ids of the matching rows after some, at most so many."""
    found: list[np.ndarray] = []
    count = 0
    if condition is None:
        rows = ds.to_table(columns=["_rowid"], limit=wanted, offset=skipped)
        return [int(number) for number in rows["_rowid"].to_numpy()]
    for group in _groups(ds, deadline):
        rows = ds.to_table(
            columns=["_rowid"], filter=condition, limit=skipped + wanted - count, fragments=group
        )
        found.append(rows["_rowid"].to_numpy())
        count += rows.num_rows
        if count >= skipped + wanted:
            break
    ids = np.concatenate(found) if found else np.empty(0, np.uint64)
    return [int(number) for number in ids[skipped:]]


def read_rows(
    ds: Dataset,
    fields: list[Field],
    condition: str | None,
    first: int,
    bounds: Bounds,
    deadline: Deadline,
) -> RowPage:
    """The matching rows after some, under the bounds.

    Parameters
    ----------
    ds : Dataset
    fields : list of Field
        Top-level columns.
    condition : str or None
        A filter in SQL.
    first : int
        Matching rows to skip.
    bounds : Bounds
    deadline : Deadline

    Raises
    ------
    LanceError
        The filter does not fit the table, the table cannot be read, or the time is over.
    """
    first = min(first, MOST_SKIPPED)
    ids = _matching_ids(ds, condition, first, bounds.rows + 1, deadline)
    shown, has_more = ids[: bounds.rows], len(ids) > bounds.rows
    columns = [quoted(field.name) for field in fields]
    parts: list[pa.Table] = []
    size = 0
    for at in range(0, len(shown), _TAKEN_TOGETHER):
        deadline.check()
        if size > bounds.page_bytes:
            break
        parts.append(ds.take_rows(shown[at : at + _TAKEN_TOGETHER], columns=columns))
        size += parts[-1].nbytes
    rows = pa.concat_tables(parts) if parts else ds.take_rows([], columns=columns)
    return RowPage(rows, shown[: rows.num_rows], first, has_more, len(shown) - rows.num_rows)


def count_matches(ds: Dataset, condition: str, deadline: Deadline) -> int:
    """The number of rows that pass a filter.

    Parameters
    ----------
    ds : Dataset
    condition : str
    deadline : Deadline

    Raises
    ------
    LanceError
        The filter does not fit the table, or the time is over.
    """
    return sum(
        ds.scanner(columns=[], filter=condition, fragments=group).count_rows()
        for group in _groups(ds, deadline)
    )


def explained(
    ds: Dataset, fields: list[Field], condition: str | None, bounds: Bounds, deadline: Deadline
) -> Explanation:
    """What a scan of the first fragments would read and skip; others are not counted.

    Parameters
    ----------
    ds : Dataset
    fields : list of Field
    condition : str or None
    bounds : Bounds
    deadline : Deadline
        No more fragments are explained after its end; some always are.

    Raises
    ------
    LanceError
        The filter does not fit the table.
    """
    columns = [quoted(field.name) for field in fields]
    ids = [fragment.id for fragment in ds.context.snapshot.fragments[: bounds.fragments]]
    lines: list[FragmentLine] = []
    for at in range(0, max(1, len(ids)), _EXPLAINED_TOGETHER):
        group = ids[at : at + _EXPLAINED_TOGETHER]
        found = ds.scanner(columns=columns, filter=condition, fragments=group).explain()
        lines += found.fragments
        if deadline.is_over:
            break
    return replace(found, fragments=tuple(lines), num_fragments=len(lines))
