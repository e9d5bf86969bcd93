"""Which golden tables there are and which releases of pylance write them; run by ``make_golden.py`` only.

Each recipe writes one table with the release at hand and returns what every version of it must give back. That
answer is computed from the input with pyarrow, never by a Lance reader. Every release has a say afterwards:
``make_golden`` refuses to keep a table that its own writer reads differently.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.golden import recipes_columns as columns
from tests.golden import recipes_history as history
from tests.golden import recipes_types as types
from tests.golden.recipe import Made, Recipe

__all__ = ["RECIPES"]


def _recipe(make: Callable[[str], Made], releases: str) -> Recipe:
    return Recipe(make, tuple(releases.split()))


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
}
"""Name of a golden table -> how to make it, and the releases that do."""
