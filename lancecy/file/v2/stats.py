"""Null statistics of 2.x columns, from the descriptions of their pages.

These files store no bounds of values, but the description of a page shows whether it has levels for nulls, or only
nulls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from lancecy.encodings.model.layouts import (
    ConstantPage,
    FullZip,
    Layer,
    MiniBlock,
    PageSpec,
)
from lancecy.encodings.model.pages import Column
from lancecy.encodings.model.spec import Nullable, NullOf, Plain
from lancecy.file.v2.values import Prepared
from lancecy.schema import Field
from lancecy.stats import ColumnStats, StatsTable

__all__ = ["null_stats", "page_rows"]

Path = tuple[str, ...]


def null_stats(
    paths: Mapping[Path, Sequence[Field]], columns: Callable[[Field], Prepared | None], num_rows: int
) -> tuple[StatsTable, bool]:
    """Find the pages of columns that are all null or without nulls.

    Parameters
    ----------
    paths : mapping of path to sequence of Field
        Each column, and the fields from the top level to it.
    columns : function of a top-level field
        Its columns, None if they are not known.
    num_rows : int
        Rows of the file, or of all files whose columns are joined.

    Returns
    -------
    table : StatsTable
        Of the pages of the first column. Columns with different pages are left out.
    is_whole : bool
        Whether none was left out for that.
    """
    starts = np.array([0, num_rows], np.int64)
    found: dict[Path, ColumnStats] = {}
    is_whole = True
    for number, (path, chain) in enumerate(paths.items()):
        known = columns(chain[0])
        primary = None if known is None else known.primary()
        if number == 0 and primary is not None and primary.num_pages:
            starts = page_rows(primary, num_rows)
        if not chain[-1].is_leaf or chain[-1].is_blob:
            continue
        column = None if known is None else known.columns.get(chain[-1].id)
        if column is not None and all(node.is_struct for node in chain[:-1]):
            if np.array_equal(page_rows(column, num_rows), starts):
                found[path] = _page_stats(column)
            else:
                is_whole = False
    return StatsTable(np.diff(starts), found), is_whole


def page_rows(column: Column, num_rows: int) -> NDArray[np.int64]:
    """First row of each page, whatever the column counts per row, and the number of rows."""
    factor = column.num_rows // num_rows if num_rows else 1
    return column.row_starts if factor <= 1 else column.row_starts // factor


def _page_stats(column: Column) -> ColumnStats:
    """Find the pages without nulls, and those of only nulls, in a column of plain values.

    Parameters
    ----------
    column : Column
        Column of a leaf below only structs.

    Returns
    -------
    ColumnStats
        Without bounds; one unit per page.
    """
    told = {
        key: (_has_no_nulls(spec), _is_all_null(spec))
        for key, spec in {id(spec): spec for spec in column.specs}.items()
    }
    pages = np.array([told[key] for key in map(id, column.specs)], np.bool_).reshape(-1, 2)
    empty = np.diff(column.first_buffer) == 0
    # A constant page without an inline value may have its value in a buffer.
    return ColumnStats(None, pages[:, 0], pages[:, 1] & empty, may_have_nan=True)


def _has_no_nulls(spec: PageSpec) -> bool:
    if isinstance(spec, (MiniBlock, FullZip, ConstantPage)):
        return all(layer is Layer.ALL_VALID_ITEM for layer in spec.layers)
    # 2.0 stores no validity of structs: their values are never null.
    if isinstance(spec, Nullable):
        return spec.validity is None and isinstance(spec.values, Plain)
    return isinstance(spec, Plain)


def _is_all_null(spec: PageSpec) -> bool:
    if isinstance(spec, ConstantPage):
        return spec.value is None and spec.layers == (Layer.NULLABLE_ITEM,)
    return isinstance(spec, NullOf)
