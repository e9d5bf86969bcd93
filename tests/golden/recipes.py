"""Which golden tables there are and which releases of pylance write them; run by ``make_golden.py`` only.

Each recipe writes one table with the release at hand and returns what every version of it must give back. That
answer is computed from the input with pyarrow, never by a Lance reader. Every release has a say afterwards:
``make_golden`` refuses to keep a table that its own writer reads differently.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.golden import recipes_columns as columns
from tests.golden import recipes_history as history
from tests.golden import recipes_refs as refs
from tests.golden import recipes_types as types
from tests.golden import recipes_v2 as second
from tests.golden.recipe import Made, Recipe, versioned

__all__ = ["RECIPES"]


def _recipe(make: Callable[[str], Made], releases: str) -> Recipe:
    return Recipe(make, tuple(releases.split()))


def _later(version: str, make: Callable[[str], Made], releases: str) -> Recipe:
    """A recipe for a 2.x version."""
    return _recipe(versioned(version, make), releases)


def _under(name: str, value: str, make: Callable[[str], Made]) -> Callable[[str], Made]:
    return second.with_environment(name, value, make)


SINCE_2_0 = "0.13.0 0.14.1 0.15.0 0.16.1 0.17.0 0.18.2 0.20.0 0.25.2 0.39.0 1.0.4 7.1.0 14.0.2"
"""Releases whose files of version 2.0 differ, or are long in use."""
PREVIEWS = "0.25.2 0.30.0"
"""Releases that wrote 2.1 while it was not settled, and nobody reads it now."""
EARLY = "0.16.1 0.17.0 0.18.2"
"""Releases whose 2.1 was another: pages described as those of 2.0."""

RECIPES: Mapping[str, Recipe] = {
    "cpp_types": _recipe(types.make_cpp_types, "0.2.9"),
    "types": _recipe(types.make_types, "0.3.19 0.4.21 0.7.5 0.8.21 0.10.18 0.39.0 14.0.2"),
    "strings": _recipe(types.make_strings, "0.3.19 0.8.0 0.8.19 0.8.21 0.39.0 14.0.2"),
    "appended": _recipe(history.make_appended, "0.2.9 0.3.19 0.4.21 0.15.0"),
    "deleted": _recipe(history.make_deleted, "0.7.5 0.8.21 0.15.0 14.0.2"),
    "bitmap": _recipe(history.make_bitmap, "0.8.21 14.0.2"),
    "merged": _recipe(columns.make_merged, "0.2.9 0.4.21 0.7.5 0.8.0 0.8.21 14.0.2"),
    "evolved": _recipe(columns.make_evolved, "0.10.18 0.20.0 14.0.2"),
    "compacted": _recipe(history.make_compacted, "0.8.0 0.20.0 7.1.0 14.0.2"),
    "rowids": _recipe(history.make_rowids, "0.39.0 1.0.4 14.0.2"),
    "empty": _recipe(history.make_empty, "0.8.21 14.0.2"),
    "migrated": _recipe(history.make_migrated, "0.20.0 14.0.2"),
    "missing": _recipe(columns.make_missing, "0.20.0"),
    "v20_types": _later("2.0", second.make_types, SINCE_2_0),
    "v20_encodings": _later("2.0", second.make_encodings, "0.13.0 0.15.0 14.0.2"),
    "v20_zstd": _later(
        "2.0", _under("LANCE_PAGE_COMPRESSION", "zstd", second.make_encodings), "0.13.0 0.15.0"
    ),
    "v20_bitpacked": _later("2.0", _under("LANCE_USE_BITPACKING", "1", second.make_encodings), "0.15.0"),
    "v20_fsst": _later("2.0", _under("LANCE_USE_FSST", "1", second.make_symbols), "0.15.0"),
    "v20_asked": _later("2.0", second.make_asked, "0.25.2 14.0.2"),
    "v20_structs": _later("2.0", second.make_lost_structs, "0.16.1 7.1.0"),
    "v20_blobs": _later("2.0", second.make_blobs, "0.20.0 14.0.2"),
    "v20_deleted": _later("2.0", history.make_deleted, "14.0.2"),
    "v20_evolved": _later("2.0", columns.make_evolved, "0.20.0"),
    "v20_empty": _later("2.0", history.make_empty, "14.0.2"),
    "v20_tags": _later("2.0", refs.make_tags, "0.20.0"),
    "v20_branches": _later("2.0", refs.make_branches, "1.0.4"),
    "v21_early_types": _later("2.1", second.make_types, "0.16.1 0.17.0"),
    "v21_early_encodings": _later("2.1", second.make_encodings, EARLY),
    "v21_early_equal": _later("2.1", second.make_equal_lengths, "0.18.2"),
    "v21_types": _later("2.1", second.make_types, "0.36.0 0.39.0 1.0.4 7.1.0 14.0.2"),
    "v21_encodings": _later("2.1", second.make_encodings, "0.36.0 14.0.2"),
    "v21_preview": _later("2.1", second.make_preview, PREVIEWS),
    "v21_asked": _later("2.1", second.make_asked, "14.0.2"),
    "v21_blobs": _later("2.1", second.make_blobs, "1.0.4 14.0.2"),
    "v21_merged": _later("2.1", columns.make_merged, "14.0.2"),
    "v21_evolved": _later("2.1", columns.make_evolved, "1.0.4"),
    "v21_deleted": _later("2.1", history.make_deleted, "14.0.2"),
    "v21_bitmap": _later("2.1", history.make_bitmap, "14.0.2"),
    "v22_types": _later("2.2", second.make_types, "7.1.0 14.0.2"),
    "v22_encodings": _later("2.2", second.make_encodings, "14.0.2"),
    "v22_asked": _later("2.2", second.make_asked, "14.0.2"),
    "v22_maps": _later("2.2", second.make_maps, "7.1.0 14.0.2"),
    "v22_blobs": _later("2.2", second.make_blobs, "14.0.2"),
    "v22_rowids": _later("2.2", history.make_rowids, "14.0.2"),
    "v22_evolved": _later("2.2", columns.make_evolved, "14.0.2"),
    "v22_compacted": _later("2.2", history.make_compacted, "14.0.2"),
    "v23_types": _later("2.3", second.make_types, "14.0.2"),
    "v23_encodings": _later("2.3", second.make_encodings, "14.0.2"),
    "v23_maps": _later("2.3", second.make_maps, "14.0.2"),
    "mixed": _later("2.1", second.make_mixed, "14.0.2"),
}
"""Name of a golden table -> how to make it, and the releases that do."""
