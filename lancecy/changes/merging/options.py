"""What a merge does, as keyword arguments of the functions that merge frames of a cluster."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from lancecy.expr.build import Filter

__all__ = ["MERGE_DEFAULTS", "MergeOptions"]


class MergeOptions(TypedDict, total=False):
    """Clauses and options; each is a method of :class:`lancecy.changes.merge_insert.MergeInsertBuilder`."""

    when_matched: Literal["update_all", "fail", "delete"] | None
    condition: Filter
    when_not_matched: Literal["insert_all"] | None
    when_not_matched_by_source: Literal["delete"] | None
    delete_condition: Filter
    conflict_retries: int
    data_storage_version: str | None


MERGE_DEFAULTS: dict[str, Any] = {
    "when_matched": "update_all",
    "condition": None,
    "when_not_matched": "insert_all",
    "when_not_matched_by_source": None,
    "delete_condition": None,
    "conflict_retries": 10,
    "data_storage_version": None,
}
"""Default of each option: update rows that match and insert the others."""
