"""Null statistics of 2.x columns, from the descriptions of their pages.

No bounds of values are stored in these files, but whether a page has levels for nulls, or
nothing else than nulls, stands in its description.
"""

from __future__ import annotations

import numpy as np

from lancecy.encodings.model.layouts import (
    BlobPage,
    ConstantPage,
    FullZip,
    Layer,
    MiniBlock,
    PageSpec,
    Planar,
)
from lancecy.encodings.model.pages import Column
from lancecy.encodings.model.spec import Nullable, NullOf, Plain
from lancecy.stats import ColumnStats

__all__ = ["is_structural", "page_stats"]


def is_structural(spec: PageSpec) -> bool:
    """Whether a page is of the kind of 2.1 and later."""
    return isinstance(spec, (MiniBlock, ConstantPage, FullZip, BlobPage, Planar))


def page_stats(column: Column) -> ColumnStats:
    """Which pages of a column of plain values have no nulls, and which nothing else.

    Parameters
    ----------
    column : Column
        Of a leaf below nothing but structs.

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
    # The validity of structs of 2.0 is not stored, their values are never null for it.
    if isinstance(spec, Nullable):
        return spec.validity is None and isinstance(spec.values, Plain)
    return isinstance(spec, Plain)


def _is_all_null(spec: PageSpec) -> bool:
    if isinstance(spec, ConstantPage):
        return spec.value is None and spec.layers == (Layer.NULLABLE_ITEM,)
    return isinstance(spec, NullOf)
