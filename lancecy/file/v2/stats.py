"""Null statistics of 2.x columns, from the descriptions of their pages.

These files store no bounds of values, but the description of a page shows whether it has levels for nulls, or only
nulls.
"""

from __future__ import annotations

import numpy as np

from lancecy.encodings.model.layouts import (
    ConstantPage,
    FullZip,
    Layer,
    MiniBlock,
    PageSpec,
)
from lancecy.encodings.model.pages import Column
from lancecy.encodings.model.spec import Nullable, NullOf, Plain
from lancecy.stats import ColumnStats

__all__ = ["page_stats"]


def page_stats(column: Column) -> ColumnStats:
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
    no_nulls = np.fromiter((_has_no_nulls(spec) for spec in column.specs), np.bool_, column.num_pages)
    all_null = np.fromiter((_is_all_null(spec) for spec in column.specs), np.bool_, column.num_pages)
    empty = np.diff(column.first_buffer) == 0
    # A constant page without an inline value may have its value in a buffer.
    return ColumnStats(None, no_nulls, all_null & empty, may_have_nan=True)


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
