"""How ``__manifest`` is kept fast: which fragments a change writes anew, and the indices.

::

    small fragment       at most 256 rows; every change writes it anew
    large fragments      257, 514, 1,028, ... rows; two of about one size become one, so that there are few
    indices              a segment for each large fragment; rows of the small one are scanned

So a change writes few rows, and a look-up reads one page of a few segments and at most 256 rows more, however many
objects there are. On average a row is written again once for each doubling of their number.

Source: namespace document, "Manifest Table Indexes".
"""

from __future__ import annotations

from dataclasses import replace

from lancecy.api.datasets import Dataset
from lancecy.changes.index_training import IndexPlan
from lancecy.changes.index_upkeep import SegmentPlan, rebuild
from lancecy.changes.options import CommitRequest
from lancecy.table.operations.index_section import covered

__all__ = ["INDICES", "SMALL", "fragments_to_merge", "has_large_fragments", "update_indices"]

SMALL = 256
"""Rows of the largest fragment that every change writes anew."""

INDICES = {
    "object_id_btree": ("object_id", "BTREE"),
    "object_type_bitmap": ("object_type", "BITMAP"),
    "base_objects_label_list": ("base_objects", "LABEL_LIST"),
}
"""Columns and types of the indices, by the names that pylance gives them."""


def fragments_to_merge(ds: Dataset, added: int) -> list[int]:
    """The fragments that become one with new rows.

    Parameters
    ----------
    ds : Dataset
        Of ``__manifest``.
    added : int
        Number of new rows.

    Returns
    -------
    list of int
        Their ids, ascending.
    """
    rows, merged = added, []
    for count, fragment in sorted(_live_rows(ds)):
        if count > max(rows, SMALL):
            break
        rows += count
        merged.append(fragment)
    return sorted(merged)


def has_large_fragments(ds: Dataset) -> bool:
    """Whether a fragment is worth an index."""
    return any(count > SMALL for count, _ in _live_rows(ds))


def update_indices(ds: Dataset, request: CommitRequest) -> None:
    """Make the indices that are missing, and segments of large fragments that none covers; remove those of no fragment.

    Parameters
    ----------
    ds : Dataset
        Of ``__manifest``. Moves to the version that is made; stays if nothing is to be done.
    request : CommitRequest

    Raises
    ------
    LanceError
        See :func:`lancecy.changes.index_upkeep.rebuild`.
    """
    snapshot = ds.context.snapshot
    large = {fragment for count, fragment in _live_rows(ds) if count > SMALL}
    live = {fragment.id for fragment in snapshot.fragments}
    planned = []
    for name, (column, kind) in INDICES.items():
        if column not in ds.schema.names:
            continue
        plan = IndexPlan.of(snapshot.schema, column, kind, name)
        mine = [
            entry
            for entry in snapshot.indices()
            if entry.fields == (plan.field.id,) and entry.details_type == plan.type.details_type
        ]
        covers = {entry.uuid: covered(entry) or frozenset() for entry in mine}
        missing = large.difference(*covers.values())
        if mine and not missing:
            continue
        unused = tuple(entry for entry in mine if not covers[entry.uuid] & live)
        named = replace(plan, name=mine[0].name) if mine else plan
        planned.append(SegmentPlan(named, frozenset(missing), unused))
    rebuild(ds, planned, request)


def _live_rows(ds: Dataset) -> list[tuple[int, int]]:
    """Number of rows and id of each fragment."""
    return [(ds.context.live_rows(fragment), fragment.id) for fragment in ds.context.snapshot.fragments]
