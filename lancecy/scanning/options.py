"""Keyword arguments common to all ways of scanning a dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypedDict, get_args

from lancecy.errors import UnsupportedError, nearest
from lancecy.keyword_options import check_options, whole_number
from lancecy.scanning.order import OrderBy

__all__ = [
    "SCAN_DEFAULTS",
    "UNSUPPORTED_SCANS",
    "WITHOUT_SCAN_OPTIONS",
    "BlobHandling",
    "HasFragmentId",
    "ScanOptions",
    "check_blob_handling",
    "checked_scan_options",
]

BlobHandling: TypeAlias = Literal["blobs_descriptions", "all_binary", "all_descriptions"]
"""What a scan returns for blob columns, in pylance's terms."""


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
    nearest: Mapping[str, Any] | None
    prefilter: bool | None
    with_row_id: bool | None
    with_row_address: bool | None
    include_deleted_rows: bool | None
    use_stats: bool | None
    memory_bytes: int | None
    batch_readahead: int | None
    fragment_readahead: int | None
    io_buffer_size: int | None
    late_materialization: bool | list[str] | None
    use_scalar_index: bool | None
    read_dictionary: Sequence[str] | bool | None
    fast_search: bool | None
    disable_scoring_autoprojection: bool | None
    blob_handling: BlobHandling | None


SCAN_DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(ScanOptions.__annotations__),
    "strict_batch_size": False,
    "scan_in_order": True,
    "with_row_id": False,
    "with_row_address": False,
    "include_deleted_rows": False,
    "use_stats": True,
}
"""Defaults by name; None where the scan decides."""

UNSUPPORTED_SCANS = {
    "full_text_query": "lancecy has no full-text search yet; filter with LIKE or contains()",
    "index_segments": "a scan uses all segments of an index",
    "scan_stats_callback": "scanner(…).analyze() returns the rows, bytes and requests of a scan",
    "blob_mode": "it is an argument of to_pandas; blob_handling='all_binary' has the bytes of blobs, take_blobs opens them as files",
    "row_addr_allowlist": "filter with _rowaddr IN (…)",
    "row_addr_blocklist": "filter with _rowaddr NOT IN (…)",
}
"""Pylance options that a scan refuses, and the alternative to each."""

WITHOUT_SCAN_OPTIONS = {
    **UNSUPPORTED_SCANS,
    "nearest": "scanner, to_table and other scans of a dataset search",
    "include_deleted_rows": "scanner, to_table and other scans of a dataset return deleted rows",
    **dict.fromkeys(
        (
            "batch_readahead",
            "fragment_readahead",
            "io_buffer_size",
            "late_materialization",
            "use_scalar_index",
            "prefilter",
            "fast_search",
            "disable_scoring_autoprojection",
        ),
        "it changes no row without a search; leave it out",
    ),
}
"""Pylance options of scans that functions without such options refuse."""


def checked_scan_options(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """The options of ``default_scan_options``, those without effect left out.

    Parameters
    ----------
    options : mapping of str to object, or None
        Names as of ``Dataset.scanner``.

    Raises
    ------
    ValueError
        A scan has no such option.
    TypeError
        A value has another type than the option.
    UnsupportedError
        An option of pylance that lancecy refuses.
    """
    if not options:
        return {}
    known = {"columns", "filter", "limit", "offset", *ScanOptions.__annotations__}
    given = {name: value for name, value in options.items() if value is not None}
    for name, value in given.items():
        if name in UNSUPPORTED_SCANS and value is not False:
            raise UnsupportedError(f"{name}=… is not supported: {UNSUPPORTED_SCANS[name]}", feature=name)
        if name not in known and name not in UNSUPPORTED_SCANS:
            close = nearest(name, known, limit=1)
            advice = f"; did you mean {close[0]!r}?" if close else ""
            raise ValueError(f"default_scan_options has an unknown option {name!r}{advice}")
    check_options(ScanOptions, given)
    for name in given.keys() & {"limit", "offset"}:
        whole_number(name, given[name])
    return {name: value for name, value in given.items() if name in known}


def check_blob_handling(wanted: str | None) -> bool:
    """Whether blob columns are returned as bytes; otherwise they are descriptors.

    Parameters
    ----------
    wanted : str or None
        ``blob_handling`` of a scan; None stands for ``"blobs_descriptions"``.

    Raises
    ------
    ValueError
        No such name.
    """
    if wanted is not None and wanted not in get_args(BlobHandling):
        raise ValueError(f"blob_handling is {wanted!r}, not one of {', '.join(get_args(BlobHandling))}")
    return wanted == "all_binary"
