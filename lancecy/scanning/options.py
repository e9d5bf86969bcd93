"""Keyword arguments common to all ways of scanning a dataset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypedDict

from lancecy.scanning.order import OrderBy

__all__ = ["SCAN_DEFAULTS", "UNSUPPORTED_SCANS", "HasFragmentId", "ScanOptions"]


class HasFragmentId(Protocol):
    """A fragment, as returned by ``Dataset.get_fragments``."""

    @property
    def fragment_id(self) -> int:
        """Its id."""


class ScanOptions(TypedDict, total=False):
    """Options of a scan, described at ``Dataset.scanner``. None stands for the default."""

    batch_size: int | None
    batch_size_bytes: int | None
    strict_batch_size: bool | None
    fragments: Sequence[HasFragmentId | int] | None
    scan_in_order: bool | None
    order_by: OrderBy
    with_row_id: bool | None
    with_row_address: bool | None
    use_stats: bool | None
    memory_bytes: int | None
    batch_readahead: int | None
    fragment_readahead: int | None
    io_buffer_size: int | None
    late_materialization: bool | list[str] | None
    use_scalar_index: bool | None
    prefilter: bool | None


SCAN_DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(ScanOptions.__annotations__),
    "strict_batch_size": False,
    "scan_in_order": True,
    "with_row_id": False,
    "with_row_address": False,
    "use_stats": True,
}
"""Defaults by name; None where the scan decides."""

UNSUPPORTED_SCANS = {
    "nearest": "lancecy has no vector search yet; compute distances on to_table(columns=[…])",
    "full_text_query": "lancecy has no full-text search yet; filter with LIKE or contains()",
    "fast_search": "it leaves rows out that no index covers, and lancecy uses no index yet",
    "include_deleted_rows": "deleted rows are not read",
    "blob_handling": "blob columns give descriptors; take_blobs reads the bytes",
    "index_segments": "lancecy uses no index yet",
    "scan_stats_callback": "explain() tells what a scan reads",
    "disable_scoring_autoprojection": "lancecy has no search that scores rows yet",
    "row_addr_allowlist": "filter with _rowaddr IN (…)",
    "row_addr_blocklist": "filter with _rowaddr NOT IN (…)",
}
"""Pylance options that a scan refuses, and the alternative to each."""
